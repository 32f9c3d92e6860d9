/* SPDX-License-Identifier: MIT */
/* Turns and sleeps in virtual time: how long, until what; wake, foreign loops; completion queues
 * that break. */
#include "world.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

static void wake_it(void *net)
{
	weft_net_wake(net);
}

static int64_t ms_since(int64_t start)
{
	return (fake_now_ns() - start) / FAKE_NS_PER_MS;
}

static void timeouts_are_exact(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_true(fake_now_ns() - start < 20000);
	assert_int_equal(net_stats(pair.a).sleeps, 0);
	for (int ms = 1; ms < 5000; ms *= 7) {
		start = fake_now_ns();
		assert_int_equal(weft_net_poll(pair.a, ms), 0);
		int64_t took = fake_now_ns() - start;
		assert_true(took >= ms * (int64_t)FAKE_NS_PER_MS &&
			    took < ms * (int64_t)FAKE_NS_PER_MS + 100000);
	}
	/* With a descriptor, and nothing under way, one sleep each is enough. */
	assert_int_equal(net_stats(pair.a).sleeps, 5);
	pair_close(&pair);
}

static void spinning_comes_before_sleeping(void **state)
{
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	struct outcome out = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	opts.spin_us = 500;
	pair_open(&pair, &fake_udp, &opts);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	assert_int_equal(weft_net_poll(pair.a, 1000), 1);
	assert_int_equal(net_stats(pair.a).sleeps, 0);
	fake_next("fi_send", NULL, 1, &(struct fake_fate){.delay_ns = 700000});
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 1000), 1);
	assert_true(fake_now_ns() - start >= 600000);
	assert_true(net_stats(pair.a).sleeps >= 1);
	assert_true(fake_calls("fi_cq_read") > 100);
	pair_close(&pair);
}

/* Providers retransmit and retry only when polled. */
static void sleeps_are_short_while_a_send_is_under_way(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_udp};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		struct weft_net_opts opts = quiet_opts();
		struct outcome out = {0};
		struct weft_post post = whole(NULL);
		fake_reset();
		opts.spin_us = 0;
		struct fake_provider provider = *kinds[i];
		provider.wait = FAKE_WAIT_FD;
		pair_open(&pair, &provider, &opts);
		post.timeout_ms = -1;
		weft_dest nobody = add_nobody(pair.a, NULL);
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
		assert_int_equal(weft_net_poll(pair.a, 1000), 0);
		uint64_t sleeps = net_stats(pair.a).sleeps;
		assert_true(sleeps >= 990 && sleeps <= 1010);
		pair_close(&pair);
	}
}

static void sleeps_are_longer_for_what_nobody_waits_for(void **state)
{
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	struct outcome out = {0}, received = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	opts.spin_us = 0;
	struct fake_provider provider = fake_udp;
	provider.wait = FAKE_WAIT_FD;
	provider.rx_size = 1;
	pair_open(&pair, &provider, &opts);
	post.timeout_ms = 5;
	weft_dest nobody = add_nobody(pair.a, NULL);
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
	pass_until(pair.a, NULL, &out.calls, 1);
	assert_int_equal(net_stats(pair.a).held, 1);
	uint64_t before = net_stats(pair.a).sleeps;
	assert_int_equal(weft_net_poll(pair.a, 1000), 0);
	assert_int_equal(net_stats(pair.a).sleeps - before, 10);
	/* Likewise where receives wait for room. */
	struct weft_buf *buf = filled(pair.b, 10, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weft_net_recv(pair.b, buf, record, &received), 0);
	before = net_stats(pair.b).sleeps;
	assert_int_equal(weft_net_poll(pair.b, 1000), 0);
	assert_int_equal(net_stats(pair.b).sleeps - before, 10);
	weft_buf_unref(buf);
	pair_close(&pair);
}

/* Without a descriptor the sleep is a sixteenth of the idle time, from 20 us to 10 ms. */
static void timed_sleeps_grow_with_the_idle_time(void **state)
{
	struct pair pair;
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	opts.spin_us = 0;
	pair_open(&pair, &fake_shm, &opts);
	exchange(&pair);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 10), 0);
	uint64_t sleeps = net_stats(pair.a).sleeps;
	/* 320 us of 20 us each, then ln(10 ms / 320 us) / ln(17/16). */
	assert_true(sleeps >= 40 && sleeps <= 80);
	assert_int_equal(weft_net_poll(pair.a, 990), 0);
	assert_true(ms_since(start) >= 1000);
	sleeps = net_stats(pair.a).sleeps - sleeps;
	assert_true(sleeps >= 120 && sleeps <= 180);
	/* An idle net wakes a hundred times a second. */
	sleeps = net_stats(pair.a).sleeps;
	assert_int_equal(weft_net_poll(pair.a, 10000), 0);
	assert_true(net_stats(pair.a).sleeps - sleeps >= 995 &&
		    net_stats(pair.a).sleeps - sleeps <= 1005);
	/* Something happens, and it starts anew. */
	exchange(&pair);
	sleeps = net_stats(pair.a).sleeps;
	assert_int_equal(weft_net_poll(pair.a, 1), 0);
	assert_true(net_stats(pair.a).sleeps - sleeps >= 25);
	pair_close(&pair);
}

static void send_from_b(void *arg)
{
	static struct outcome out;
	struct pair *pair = arg;
	struct weft_post post = whole(NULL);
	assert_int_equal(weft_net_send(pair->b, pair->b_to_a, &post, record, &out), 0);
}

/* Makes b known to a's provider, so that a send from b goes at once. */
static void warm_up(struct pair *pair)
{
	struct pair back = *pair;
	back.a = pair->b;
	back.b = pair->a;
	back.a_to_b = pair->b_to_a;
	exchange(&back);
}

static void messages_end_a_sleep(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_shm};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		struct outcome received = {0};
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		warm_up(&pair);
		struct weft_buf *buf = filled(pair.a, 10, 0);
		assert_int_equal(weft_net_recv(pair.a, buf, record, &received), 0);
		int64_t start = fake_now_ns();
		fake_at(300 * FAKE_NS_PER_MS, send_from_b, &pair);
		assert_int_equal(weft_net_poll(pair.a, -1), 1);
		assert_int_equal(received.calls, 1);
		assert_true(ms_since(start) >= 300 && ms_since(start) <= (i == 0 ? 300 : 310));
		weft_buf_unref(buf);
		pass(pair.a, pair.b, 5);
		pair_close(&pair);
	}
}

static void wake_ends_a_sleep_once(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	int64_t start = fake_now_ns();
	fake_at(50 * FAKE_NS_PER_MS, wake_it, pair.a);
	assert_int_equal(weft_net_poll(pair.a, -1), 0);
	assert_int_equal(ms_since(start), 50);
	assert_int_equal(weft_net_poll(pair.a, 50), 0);
	assert_int_equal(ms_since(start), 100);
	/* Before the poll, and several of them, are one. */
	long writes = fake_calls("write");
	for (int i = 0; i < 3; i++)
		weft_net_wake(pair.a);
	assert_int_equal(fake_calls("write") - writes, 1);
	assert_int_equal(weft_net_poll(pair.a, -1), 0);
	assert_int_equal(ms_since(start), 100);
	start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 10), 0);
	assert_int_equal(ms_since(start), 10);
	/* A poll that does not wait takes the wake along. */
	weft_net_wake(pair.a);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 10), 0);
	assert_int_equal(ms_since(start), 10);
	/* errno is the caller's, whatever the kernel says. */
	fake_refuse("write", NULL, EAGAIN, 1);
	errno = 4711;
	weft_net_wake(pair.a);
	assert_int_equal(errno, 4711);
	assert_int_equal(weft_net_poll(pair.a, -1), 0);
	pair_close(&pair);
}

static void signals_end_a_sleep(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	int64_t start = fake_now_ns();
	fake_refuse("ppoll", NULL, EINTR, 1);
	assert_int_equal(weft_net_poll(pair.a, 1000), 0);
	assert_true(ms_since(start) < 10);
	/* Nothing else does. */
	fake_refuse("ppoll", NULL, ENOMEM, 1);
	start = fake_now_ns();
	assert_int_equal(weft_net_poll(pair.a, 1000), 0);
	assert_int_equal(ms_since(start), 1000);
	pair_close(&pair);
}

static void deadlines_end_a_poll(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	static const int timeouts[] = {1, 100, 4000, 4097, 20000};
	for (int i = 0; i < 5; i++) {
		int64_t start = fake_now_ns();
		post.timeout_ms = timeouts[i];
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
		assert_int_equal(weft_net_poll(pair.a, -1), 1);
		assert_int_equal(out.calls, i + 1);
		assert_int_equal(out.status, -ETIMEDOUT);
		assert_true(ms_since(start) >= timeouts[i] && ms_since(start) <= timeouts[i] + 15);
	}
	pair_close(&pair);
}

/* A net that is busy looks at its deadlines in every fourth turn, and one that is not in each. */
static void busy_nets_look_at_deadlines_now_and_then(void **state)
{
	struct pair pair;
	struct outcome late = {0}, sent = {0};
	struct weft_post post = whole(NULL), hopeless = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	hopeless.timeout_ms = 0;
	for (int round = 1; round <= 3; round++) {
		assert_int_equal(weft_net_send(pair.a, nobody, &hopeless, record, &late), 0);
		int turns = 0;
		for (; late.calls < round; turns++) {
			assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent),
					 0);
			fake_advance_ns(FAKE_NS_PER_MS);
			assert_true(weft_net_poll(pair.a, 0) >= 1);
		}
		assert_int_equal(late.status, -ETIMEDOUT);
		assert_int_equal(turns, 4);
	}
	assert_int_equal(weft_net_send(pair.a, nobody, &hopeless, record, &late), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 1);
	assert_int_equal(late.calls, 4);
	pair_close(&pair);
}

static void the_descriptor_serves_a_foreign_loop(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_shm};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		struct outcome received = {0}, sent = {0};
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		warm_up(&pair);
		int fd = weft_net_fd(pair.a);
		struct weft_buf *buf = filled(pair.a, 10, 0);
		assert_int_equal(weft_net_recv(pair.a, buf, record, &received), 0);
		for (int n = 1; n <= 5; n++) {
			int64_t start = fake_now_ns();
			fake_at(200 * FAKE_NS_PER_MS, send_from_b, &pair);
			while (received.calls < n) {
				int ms = weft_net_arm(pair.a);
				assert_true(ms >= 0);
				if (ms > 0)
					assert_int_equal(fake_wait_fd(fd, 1000), 1);
				assert_true(weft_net_poll(pair.a, 0) >= 0);
			}
			assert_true(ms_since(start) >= 200 &&
				    ms_since(start) <= (i == 0 ? 200 : 210));
			assert_int_equal(weft_net_recv(pair.a, buf, record, &received), 0);
		}
		/* Idle: nothing is due, or a timed look; it is quiet in between. */
		int ms = weft_net_arm(pair.a);
		assert_true(ms == (i == 0 ? INT_MAX : 1));
		assert_int_equal(fake_wait_fd(fd, 1000), i);
		assert_int_equal(weft_net_poll(pair.a, 0), 0);
		assert_int_equal(fake_wait_fd(fd, 1000), 0);
		/* While a send is under way: a look each millisecond. */
		weft_dest nobody = add_nobody(pair.a, NULL);
		struct weft_post post = whole(NULL);
		post.timeout_ms = 50;
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &sent), 0);
		int loops = 0;
		for (; sent.calls == 0; loops++) {
			ms = weft_net_arm(pair.a);
			assert_true(ms == 1 || (i == 1 && ms == 0));
			assert_int_equal(fake_wait_fd(fd, 1000), 1);
			assert_true(weft_net_poll(pair.a, 0) >= 0);
		}
		assert_true(loops >= 50);
		assert_int_equal(sent.status, -ETIMEDOUT);
		/* A wake makes it readable, and says so to the next arm. */
		weft_net_wake(pair.a);
		assert_int_equal(fake_wait_fd(fd, 0), 1);
		assert_int_equal(weft_net_arm(pair.a), 0);
		assert_int_equal(weft_net_poll(pair.a, 0), 0);
		assert_true(weft_net_arm(pair.a) > 0);
		/* So does what waits to be told. */
		assert_int_equal(weft_net_poll(pair.a, 0), 0);
		fake_refuse("fi_send", NULL, FI_EAGAIN, 1);
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &sent), 0);
		assert_int_equal(weft_net_remove_peer(pair.a, nobody), 0);
		assert_int_equal(weft_net_arm(pair.a), 0);
		assert_int_equal(weft_net_poll(pair.a, 0), 1);
		weft_buf_unref(buf);
		pass(pair.a, pair.b, 5);
		pair_close(&pair);
	}
}

static void what_has_come_is_not_slept_over(void **state)
{
	struct pair pair;
	struct outcome received = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	warm_up(&pair);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	assert_int_equal(weft_net_recv(pair.a, buf, record, &received), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	send_from_b(&pair);
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(weft_net_arm(pair.a), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 1);
	fake_refuse("timerfd_settime", NULL, EINVAL, 1);
	struct outcome sent = {0};
	struct weft_post post = whole(NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &sent), 0);
	assert_int_equal(weft_net_arm(pair.a), -EIO);
	weft_buf_unref(buf);
	pass(pair.a, pair.b, 5);
	pair_close(&pair);
}

/* Descriptor 0 is as good as any other. */
static void programs_without_standard_input(void **state)
{
	struct weft_net_opts opts = quiet_opts();
	static const struct fake_provider *const kinds[] = {&fake_udp, &fake_shm, &fake_tcp};
	(void)state;
	int saved = dup(0);
	close(0);
	for (int i = 0; i < 3; i++) {
		fake_reset();
		fake_offer(kinds[i]);
		opts.provider = kinds[i]->name;
		struct weft_net *net = net_open(&opts);
		weft_net_wake(net);
		assert_int_equal(fake_wait_fd(weft_net_fd(net), 0), 1);
		assert_int_equal(weft_net_poll(net, -1), 0);
		assert_int_equal(weft_net_poll(net, 5), 0);
		assert_int_equal(weft_net_close(net), 0);
	}
	/* The test may have been started without one as well. */
	if (saved >= 0) {
		dup2(saved, 0);
		close(saved);
	}
}

static void a_broken_queue_says_so_for_ever(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		struct pair pair;
		struct outcome out = {0}, later = {0};
		struct weft_post post = whole(NULL);
		fake_reset();
		pair_open(&pair, &fake_udp, NULL);
		weft_dest nobody = add_nobody(pair.a, NULL);
		post.timeout_ms = 30;
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &later), 0);
		if (how == 0) {
			fake_overrun(&pair.a_addr);
		} else if (how == 1) {
			fake_refuse("fi_cq_read", NULL, FI_EIO, 1);
		} else {
			fake_refuse("fi_cq_read", NULL, FI_EAVAIL, 1);
			fake_refuse("fi_cq_readerr", NULL, how == 2 ? FI_ENODATA : FAKE_ZERO, 1);
		}
		assert_int_equal(weft_net_poll(pair.a, 0), -EIO);
		assert_true(logged(WEFT_LOG_ERROR, how == 0   ? "broken: Queue has been overrun"
						   : how == 2 ? "broken: No data available"
							      : "broken: Input/output error"));
		assert_int_equal(weft_net_poll(pair.a, 0), -EIO);
		assert_int_equal(weft_net_arm(pair.a), -EIO);
		/* Deadlines and what else is decided here are still told. */
		fake_advance_ns(50 * FAKE_NS_PER_MS);
		assert_int_equal(weft_net_poll(pair.a, 0), 1);
		assert_int_equal(later.status, -ETIMEDOUT);
		assert_int_equal(weft_net_poll(pair.a, 1000), -EIO);
		post.timeout_ms = -1;
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
		/* Close does not drain what cannot end. */
		int64_t start = fake_now_ns();
		pair_close(&pair);
		assert_true(ms_since(start) < 10);
		assert_int_equal(out.status, -ECANCELED);
	}
}

static void broken_after_completions_tells_those_first(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	for (int how = 0; how < 2; how++) {
		fake_reset();
		out.calls = 0;
		pair_open(&pair, &fake_udp, NULL);
		for (int i = 0; i < 16; i++)
			assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out),
					 0);
		fake_advance_ns(FAKE_NS_PER_MS);
		fake_skip("fi_cq_read", 1);
		fake_refuse("fi_cq_read", NULL, how == 0 ? FI_EIO : FI_EAVAIL, 1);
		if (how == 1)
			fake_refuse("fi_cq_readerr", NULL, FI_EIO, 1);
		assert_int_equal(weft_net_poll(pair.a, 0), 16);
		assert_int_equal(weft_net_poll(pair.a, 0), -EIO);
		assert_int_equal(out.calls, 16);
		pair_close(&pair);
	}
}

static void completions_of_nobody_are_passed_over(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	fake_stray(&pair.a_addr, 0);
	fake_stray(&pair.a_addr, FI_EIO);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_true(logged(WEFT_LOG_WARN, "belongs to no operation"));
	/* An error that is announced and not there, or a read of nothing, is no error. */
	fake_refuse("fi_cq_read", NULL, FI_EAVAIL, 1);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	fake_refuse("fi_cq_read", NULL, FAKE_ZERO, 1);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	exchange(&pair);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(timeouts_are_exact),
		world_test(spinning_comes_before_sleeping),
		world_test(sleeps_are_short_while_a_send_is_under_way),
		world_test(sleeps_are_longer_for_what_nobody_waits_for),
		world_test(timed_sleeps_grow_with_the_idle_time),
		world_test(messages_end_a_sleep),
		world_test(wake_ends_a_sleep_once),
		world_test(signals_end_a_sleep),
		world_test(deadlines_end_a_poll),
		world_test(busy_nets_look_at_deadlines_now_and_then),
		world_test(the_descriptor_serves_a_foreign_loop),
		world_test(what_has_come_is_not_slept_over),
		world_test(programs_without_standard_input),
		world_test(a_broken_queue_says_so_for_ever),
		world_test(broken_after_completions_tells_those_first),
		world_test(completions_of_nobody_are_passed_over),
	};
	return world_run(tests);
}
