/* SPDX-License-Identifier: MIT */
/*
 * Waiting: timeouts, wake from another thread, the descriptor in a loop of one's own, nets on many
 * threads.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pair.h"

static void poll_ends_at_its_timeout(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	(void)state;
	for (int i = 0; i < 5; i++) {
		int64_t start = now_ms();
		assert_int_equal(weft_net_poll(net, 50), 0);
		assert_true(now_ms() - start >= 49);
	}
	assert_int_equal(weft_net_poll(net, 0), 0);
	weft_net_get_stats(net, &stats);
	assert_true(stats.sleeps > 0);
	assert_int_equal(weft_net_close(net), 0);
}

/*
 * A loaded machine may delay a thread, but not by a thousand sleeps: an idle net does not look
 * again all the time.
 */
static void idle_sleeps_are_long(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct outcome out = {0};
	(void)state;
	weft_net_get_info(net, &info);
	struct weft_buf *buf = filled(net, 100, 0);
	assert_int_equal(weft_net_recv(net, buf, record, &out), 0);
	assert_int_equal(weft_net_poll(net, 1000), 0);
	weft_net_get_stats(net, &stats);
	assert_true(stats.sleeps >= 1);
	assert_true(stats.sleeps <= (info.has_wait_fd ? 20 : 400));
	weft_buf_unref(buf);
	assert_int_equal(weft_net_close(net), 0);
}

static void *wake_when_polling(void *arg)
{
	weft_net_wake(arg);
	return NULL;
}

static void wake_ends_a_poll(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	(void)state;
	/* Before the poll, several at once, and from another thread at any moment of it. */
	weft_net_wake(net);
	weft_net_wake(net);
	assert_int_equal(weft_net_poll(net, -1), 0);
	assert_int_equal(weft_net_poll(net, 1), 0);
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, wake_when_polling, net), 0);
		assert_int_equal(weft_net_poll(net, -1), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(weft_net_close(net), 0);
}

struct waker {
	struct weft_net *net;
	atomic_bool stop;
};

static void *wake_all_the_time(void *arg)
{
	struct waker *waker = arg;
	while (!atomic_load(&waker->stop))
		weft_net_wake(waker->net);
	return NULL;
}

/* However wakes and polls meet, none leaves the descriptor readable for ever. */
static void wakes_leave_nothing_behind(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_net_stats before = WEFT_NET_STATS_INIT, after = WEFT_NET_STATS_INIT;
	struct pollfd fd = {.fd = weft_net_fd(net), .events = POLLIN};
	struct waker waker = {.net = net};
	pthread_t thread;
	(void)state;
	for (int round = 0; round < 20; round++) {
		atomic_store(&waker.stop, false);
		assert_int_equal(pthread_create(&thread, NULL, wake_all_the_time, &waker), 0);
		for (int i = 0; i < 500; i++)
			assert_int_equal(weft_net_poll(net, 0), 0);
		atomic_store(&waker.stop, true);
		pthread_join(thread, NULL);
		/* The last wake may still be due; nothing is after that. */
		while (weft_net_arm(net) == 0)
			assert_int_equal(weft_net_poll(net, 0), 0);
		weft_net_get_stats(net, &before);
		assert_int_equal(weft_net_poll(net, 20), 0);
		weft_net_get_stats(net, &after);
		assert_true(after.sleeps - before.sleeps <= 500);
		if (weft_net_arm(net) == INT_MAX)
			assert_int_equal(poll(&fd, 1, 0), 0);
	}
	assert_int_equal(weft_net_close(net), 0);
}

static void wake_makes_the_descriptor_readable(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct pollfd fd = {.fd = weft_net_fd(net), .events = POLLIN};
	(void)state;
	assert_true(fd.fd >= 0);
	while (weft_net_arm(net) == 0)
		assert_int_equal(weft_net_poll(net, 0), 0);
	weft_net_wake(net);
	assert_int_equal(weft_net_arm(net), 0);
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(weft_net_poll(net, 0), 0);
	int ms = weft_net_arm(net);
	assert_true(ms > 0);
	/* What is armed with a time becomes readable by then; what is not, does not. */
	assert_int_equal(poll(&fd, 1, ms == INT_MAX ? 0 : PATIENCE_MS), ms == INT_MAX ? 0 : 1);
	assert_int_equal(weft_net_poll(net, 0), 0);
	assert_int_equal(weft_net_close(net), 0);
}

#define ROUNDS 200

struct echo_thread {
	struct weft_net_opts opts;
	struct weft_addr peer;
	struct weft_addr own;
	struct weft_net *net;
	weft_dest dest;
	pthread_barrier_t barrier;
	atomic_bool stop;
	int errors;
};

static void echo_sent(struct weft_net *net, const struct weft_done *done)
{
	struct echo_thread *echo = done->user;
	(void)net;
	if (done->status != 0 && done->status != -ECANCELED)
		echo->errors++;
}

static void echo_received(struct weft_net *net, const struct weft_done *done)
{
	struct echo_thread *echo = done->user;
	struct weft_buf *into;
	if (done->status == -ECANCELED)
		return;
	struct weft_post post = whole(done->buf);
	post.len = done->len;
	if (done->status != 0 || weft_net_send(net, echo->dest, &post, echo_sent, echo) != 0)
		echo->errors++;
	if (weft_buf_alloc(net, 64, &into) != 0 ||
	    weft_net_recv(net, into, echo_received, echo) != 0)
		echo->errors++;
	else
		weft_buf_unref(into);
}

/* A thread cannot use the assertions of the test, so it counts. */
static void *echo_main(void *arg)
{
	struct echo_thread *echo = arg;
	struct weft_buf *into;
	int ret = weft_net_open(&echo->net, &echo->opts);
	if (ret == 0) {
		weft_net_get_addr(echo->net, &echo->own);
		if (weft_net_add_peer(echo->net, &echo->peer, &echo->dest) != 0 ||
		    weft_buf_alloc(echo->net, 64, &into) != 0 ||
		    weft_net_recv(echo->net, into, echo_received, echo) != 0)
			echo->errors++;
		else
			weft_buf_unref(into);
	} else {
		echo->errors++;
	}
	pthread_barrier_wait(&echo->barrier);
	while (ret == 0 && !atomic_load(&echo->stop))
		weft_net_poll(echo->net, -1);
	/* The net is closed where nobody can wake it any more. */
	pthread_barrier_wait(&echo->barrier);
	if (ret == 0 && weft_net_close(echo->net) < 0)
		echo->errors++;
	return NULL;
}

static void start_echo(struct echo_thread *echo, pthread_t *thread, struct weft_net *net,
		       weft_dest *dest)
{
	echo->opts = test_opts();
	assert_int_equal(weft_net_get_addr(net, &echo->peer), 0);
	pthread_barrier_init(&echo->barrier, NULL, 2);
	assert_int_equal(pthread_create(thread, NULL, echo_main, echo), 0);
	pthread_barrier_wait(&echo->barrier);
	assert_int_equal(echo->errors, 0);
	assert_int_equal(weft_net_add_peer(net, &echo->own, dest), 0);
}

static void stop_echo(struct echo_thread *echo, pthread_t thread)
{
	atomic_store(&echo->stop, true);
	weft_net_wake(echo->net);
	pthread_barrier_wait(&echo->barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&echo->barrier);
	assert_int_equal(echo->errors, 0);
}

/* The net in a loop of the caller's own: arm, sleep on the descriptor, poll without waiting. */
static void foreign_loop(struct weft_net *net, const int *calls, int want)
{
	struct pollfd fd = {.fd = weft_net_fd(net), .events = POLLIN};
	while (*calls < want) {
		int ms = weft_net_arm(net);
		assert_true(ms >= 0);
		if (ms > 0) {
			int ready = poll(&fd, 1, PATIENCE_MS);
			if (ready == 0)
				fail_msg("nothing woke the loop, with %d of %d callbacks", *calls,
					 want);
		}
		assert_true(weft_net_poll(net, 0) >= 0);
	}
}

static void descriptor_serves_a_foreign_loop(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct echo_thread echo = {.errors = 0};
	struct outcome sent = {0}, received = {0};
	pthread_t thread;
	weft_dest dest;
	(void)state;
	start_echo(&echo, &thread, net, &dest);
	struct weft_buf *from = filled(net, 64, 0);
	struct weft_buf *into = filled(net, 64, 0);
	struct weft_post post = whole(from);
	for (int i = 1; i <= ROUNDS; i++) {
		fill(from, 64, (unsigned)i);
		assert_int_equal(weft_net_recv(net, into, record, &received), 0);
		assert_int_equal(weft_net_send(net, dest, &post, record, &sent), 0);
		foreign_loop(net, &received.calls, i);
		foreign_loop(net, &sent.calls, i);
		assert_int_equal(received.status, 0);
		assert_true(is_filled(into, 64, (unsigned)i));
	}
	weft_buf_unref(from);
	weft_buf_unref(into);
	stop_echo(&echo, thread);
	assert_true(weft_net_close(net) >= 0);
}

static void sleeping_poll_is_woken_by_messages(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct echo_thread echo = {.errors = 0};
	struct outcome sent = {0}, received = {0};
	pthread_t thread;
	weft_dest dest;
	(void)state;
	start_echo(&echo, &thread, net, &dest);
	struct weft_buf *from = filled(net, 64, 0);
	struct weft_buf *into = filled(net, 64, 0);
	struct weft_post post = whole(from);
	for (int i = 1; i <= ROUNDS; i++) {
		assert_int_equal(weft_net_recv(net, into, record, &received), 0);
		assert_int_equal(weft_net_send(net, dest, &post, record, &sent), 0);
		while (received.calls < i || sent.calls < i)
			assert_true(weft_net_poll(net, PATIENCE_MS) > 0);
	}
	weft_buf_unref(from);
	weft_buf_unref(into);
	stop_echo(&echo, thread);
	assert_true(weft_net_close(net) >= 0);
}

#define THREADS 4
#define THREAD_ROUNDS 100

struct worker {
	struct weft_net_opts opts;
	int done;
	int status;
};

static void count_done(struct weft_net *net, const struct weft_done *done)
{
	struct worker *worker = done->user;
	(void)net;
	worker->done++;
	if (done->status != 0)
		worker->status = done->status;
}

/* Two nets of its own, which exchange messages and know of nothing else. */
static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct weft_net *net[2] = {NULL};
	struct weft_buf *buf[2] = {NULL};
	struct weft_addr addr;
	weft_dest dest;
	int ret = 0;
	for (int i = 0; i < 2 && ret == 0; i++) {
		ret = weft_net_open(&net[i], &worker->opts);
		if (ret == 0)
			ret = weft_buf_alloc(net[i], 1000, &buf[i]);
	}
	if (ret == 0) {
		weft_net_get_addr(net[1], &addr);
		ret = weft_net_add_peer(net[0], &addr, &dest);
	}
	for (int i = 0; i < THREAD_ROUNDS && ret == 0; i++) {
		struct weft_post post = whole(buf[0]);
		int want = worker->done + 2;
		ret = weft_net_recv(net[1], buf[1], count_done, worker);
		if (ret == 0)
			ret = weft_net_send(net[0], dest, &post, count_done, worker);
		for (int64_t end = now_ms() + PATIENCE_MS;
		     ret == 0 && worker->done < want && now_ms() < end;) {
			weft_net_poll(net[0], 0);
			weft_net_poll(net[1], 0);
		}
	}
	for (int i = 0; i < 2; i++) {
		weft_buf_unref(buf[i]);
		if (weft_net_close(net[i]) < 0)
			ret = -EIO;
	}
	if (ret < 0)
		worker->status = ret;
	return NULL;
}

static void nets_on_threads_know_nothing_of_each_other(void **state)
{
	struct worker worker[THREADS] = {0};
	pthread_t thread[THREADS];
	(void)state;
	for (int i = 0; i < THREADS; i++) {
		worker[i].opts = test_opts();
		assert_int_equal(pthread_create(&thread[i], NULL, worker_main, &worker[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(worker[i].status, 0);
		assert_int_equal(worker[i].done, 2 * THREAD_ROUNDS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_ends_at_its_timeout),
		cmocka_unit_test(idle_sleeps_are_long),
		cmocka_unit_test(wake_ends_a_poll),
		cmocka_unit_test(wakes_leave_nothing_behind),
		cmocka_unit_test(wake_makes_the_descriptor_readable),
		cmocka_unit_test(descriptor_serves_a_foreign_loop),
		cmocka_unit_test(sleeping_poll_is_woken_by_messages),
		cmocka_unit_test(nets_on_threads_know_nothing_of_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
