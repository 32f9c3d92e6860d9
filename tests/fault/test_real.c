/* SPDX-License-Identifier: MIT */
/*
 * The library on a real provider, whose answers are changed on the way: what the fake fabric shows
 * of error paths holds where real completions, descriptors and connections are involved.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "interpose.h"
#include "pair.h"

static struct pair pair;
static struct weft_buf *from, *into;

static int setup(void **state)
{
	struct weft_net_opts opts = test_opts();
	(void)state;
	opts.log = NULL;
	pair_open(&pair, &opts);
	from = filled(pair.a, 100, 1);
	into = filled(pair.b, 100, 0);
	exchange(&pair, from, into, 100);
	interpose(pair.a);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
	return 0;
}

static struct weft_net_stats stats_of(struct weft_net *net)
{
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	assert_int_equal(weft_net_get_stats(net, &stats), 0);
	return stats;
}

static void again_is_tried_until_it_is_over(void **state)
{
	struct outcome sent[3] = {0}, received[3] = {0};
	struct weft_buf *part[3];
	(void)state;
	interposed.refuse_sends = 50;
	interposed.send_code = -FI_EAGAIN;
	for (unsigned i = 0; i < 3; i++) {
		part[i] = filled(pair.b, 100, 0);
		assert_int_equal(weft_net_recv(pair.b, part[i], record, &received[i]), 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct weft_buf *one = filled(pair.a, 100, 10 + i);
		struct weft_post post = whole(one);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent[i]), 0);
		weft_buf_unref(one);
	}
	for (unsigned i = 0; i < 3; i++) {
		poll_until(pair.a, pair.b, &sent[i].calls, 1);
		poll_until(pair.a, pair.b, &received[i].calls, 1);
		assert_int_equal(sent[i].status, 0);
		assert_true(is_filled(part[i], 100, 10 + i));
		weft_buf_unref(part[i]);
	}
	assert_true(interposed.sends >= 53);
	assert_true(stats_of(pair.a).retries >= 50);
}

static void again_for_ever_ends_at_the_deadline(void **state)
{
	struct outcome sent = {0};
	struct weft_post post = whole(from);
	(void)state;
	post.timeout_ms = 50;
	interposed.refuse_sends = -1;
	interposed.send_code = -FI_EAGAIN;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	poll_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(sent.status, -ETIMEDOUT);
	assert_int_equal(stats_of(pair.a).held, 0);
	interposed.refuse_sends = 0;
	exchange(&pair, from, into, 100);
}

static void refused_sends_and_receives(void **state)
{
	struct outcome sent = {0}, received = {0};
	struct weft_post post = whole(from);
	(void)state;
	interposed.refuse_sends = interposed.refuse_recvs = 1;
	interposed.send_code = -FI_EIO;
	interposed.recv_code = -FI_ENOMEM;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), -FI_EIO);
	assert_int_equal(weft_net_recv(pair.a, from, record, &received), -ENOMEM);
	/* The provider's receive queue is full for a while. */
	interposed.refuse_recvs = 10;
	interposed.recv_code = -FI_EAGAIN;
	assert_int_equal(weft_net_recv(pair.a, from, record, &received), 0);
	assert_int_equal(stats_of(pair.a).ops_queued, 1);
	post = whole(into);
	assert_int_equal(weft_net_send(pair.b, pair.b_to_a, &post, record, &sent), 0);
	poll_until(pair.a, pair.b, &received.calls, 1);
	poll_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(received.status, 0);
	assert_int_equal(received.len, 100);
}

static void sends_that_vanish_are_held_until_close(void **state)
{
	struct outcome sent = {0};
	struct weft_post post = whole(from);
	(void)state;
	post.timeout_ms = 30;
	interposed.lose_sends = 2;
	for (int i = 0; i < 2; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	poll_until(pair.a, pair.b, &sent.calls, 2);
	assert_int_equal(sent.status, -ETIMEDOUT);
	assert_int_equal(stats_of(pair.a).held, 2);
	exchange(&pair, from, into, 100);
}

static void error_completions_reach_their_callback(void **state)
{
	struct outcome sent = {0}, received = {0};
	struct weft_post post = whole(from);
	(void)state;
	for (int i = 0; i < 2; i++) {
		interposed.break_next = 1;
		interposed.break_err = i == 0 ? FI_EIO : -FI_ETRUNC;
		interposed.break_prov_errno = 12;
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		poll_until(pair.a, pair.b, &sent.calls, i + 1);
		poll_until(pair.a, pair.b, &received.calls, i + 1);
		assert_int_equal(sent.status, i == 0 ? -EIO : -FI_ETRUNC);
		assert_int_equal(sent.prov_errno, 12);
		assert_int_equal(received.status, 0);
	}
	assert_int_equal(stats_of(pair.a).errors, 2);
	exchange(&pair, from, into, 100);
}

static void completions_in_the_opposite_order(void **state)
{
	struct outcome sent[4] = {0}, received[4] = {0};
	struct weft_post post = whole(from);
	(void)state;
	interposed.hold_back = 4;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(weft_net_recv(pair.b, into, record, &received[i]), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		poll_until(pair.a, pair.b, &sent[i].calls, 1);
		poll_until(pair.a, pair.b, &received[i].calls, 1);
		assert_int_equal(sent[i].status, 0);
	}
	assert_int_equal(stats_of(pair.a).ops, 0);
}

static void a_broken_queue_can_be_closed(void **state)
{
	struct outcome sent = {0}, received = {0};
	struct weft_post post = whole(from);
	(void)state;
	interposed.read_code = -FI_EOVERRUN;
	assert_int_equal(weft_net_recv(pair.a, from, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	assert_int_equal(weft_net_poll(pair.a, 10), -EIO);
	assert_int_equal(weft_net_poll(pair.a, -1), -EIO);
	assert_int_equal(weft_net_arm(pair.a), -EIO);
	int64_t start = now_ms();
	assert_true(weft_net_close(pair.a) >= 0);
	assert_true(now_ms() - start < 1500);
	pair.a = NULL;
	assert_int_equal(sent.calls, 1);
	assert_int_equal(received.calls, 1);
	assert_int_equal(received.status, -ECANCELED);
}

static void registrations_and_peers_that_are_refused(void **state)
{
	struct weft_buf *buf;
	struct weft_addr addr;
	weft_dest dest;
	(void)state;
	interposed.refuse_regs = 3;
	interposed.reg_code = -FI_ENOKEY;
	assert_int_equal(weft_buf_alloc(pair.a, 10, &buf), 0);
	assert_int_equal(interposed.regs, 4);
	weft_buf_unref(buf);
	interposed.refuse_regs = 1;
	interposed.reg_code = -FI_ENOMEM;
	assert_int_equal(weft_buf_alloc(pair.a, 10, &buf), -ENOMEM);
	/* One that is there, or shm would not be asked for it yet. */
	assert_int_equal(weft_net_get_addr(pair.a, &addr), 0);
	interposed.refuse_inserts = 1;
	interposed.insert_code = 0;
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), -EADDRNOTAVAIL);
	assert_int_equal(stats_of(pair.a).peers, 1);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest), 0);
	assert_int_equal(interposed.inserts, 2);
	exchange(&pair, from, into, 100);
}

/* The endpoint stays, with all that is under it, and nothing of it is touched any more. */
static void an_endpoint_that_does_not_close(void **state)
{
	struct weft_net_opts opts = test_opts();
	(void)state;
	opts.log = NULL;
	struct weft_net *net = open_net(&opts);
	interpose(net);
	interposed.close_code = -FI_EBUSY;
	assert_int_equal(weft_net_close(net), 5);
	assert_int_equal(interposed.closes, 1);
	assert_int_equal(interpose_close_left(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(again_is_tried_until_it_is_over, setup, teardown),
		cmocka_unit_test_setup_teardown(again_for_ever_ends_at_the_deadline, setup,
						teardown),
		cmocka_unit_test_setup_teardown(refused_sends_and_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(sends_that_vanish_are_held_until_close, setup,
						teardown),
		cmocka_unit_test_setup_teardown(error_completions_reach_their_callback, setup,
						teardown),
		cmocka_unit_test_setup_teardown(completions_in_the_opposite_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_broken_queue_can_be_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(registrations_and_peers_that_are_refused, setup,
						teardown),
		cmocka_unit_test(an_endpoint_that_does_not_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
