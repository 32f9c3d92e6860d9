/* SPDX-License-Identifier: MIT */
/* Peers that are not there: deadlines, held slots, removal, and that nobody else is harmed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"

static weft_dest add_absent(struct weft_net *net)
{
	struct weft_addr addr;
	weft_dest dest;
	absent_addr(&addr);
	assert_int_equal(weft_net_add_peer(net, &addr, &dest), 0);
	return dest;
}

static void no_answer_ends_at_the_deadline(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct outcome out[3] = {0};
	static const int timeouts[3] = {600, 0, 300};
	(void)state;
	weft_dest absent = add_absent(net);
	struct weft_buf *buf = filled(net, 100, 0);
	int64_t start = now_ms();
	for (int i = 0; i < 3; i++) {
		struct weft_post post = whole(buf);
		post.timeout_ms = timeouts[i];
		assert_int_equal(weft_net_send(net, absent, &post, record, &out[i]), 0);
		assert_int_equal(out[i].calls, 0);
	}
	weft_buf_unref(buf);
	poll_until(net, NULL, &out[1].calls, 1);
	poll_until(net, NULL, &out[2].calls, 1);
	assert_int_equal(out[0].calls, 0);
	assert_true(now_ms() - start >= 300);
	poll_until(net, NULL, &out[0].calls, 1);
	assert_true(now_ms() - start >= 600);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	weft_net_get_stats(net, &stats);
	assert_int_equal(stats.timeouts, 3);
	assert_int_equal(stats.ops, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(out[i].calls, 1);
		assert_int_equal(out[i].status, -ETIMEDOUT);
		assert_true(out[i].text[0] != 0);
	}
	/* What the provider has taken stays alive, whether or not it ever lets go. */
	assert_int_equal(stats.buffers, stats.held > 0 ? 1 : 0);
	assert_true(weft_net_close(net) >= 0);
	assert_int_equal(out[0].calls + out[1].calls + out[2].calls, 3);
	absent_done();
}

static void dead_peer_holds_up_nobody(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome dead[20] = {0};
	(void)state;
	pair_open(&pair, &opts);
	weft_dest absent = add_absent(pair.a);
	struct weft_buf *from = filled(pair.a, 100, 0);
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_post post = whole(from);
	post.timeout_ms = 500;
	for (int i = 0; i < 20; i++)
		assert_int_equal(weft_net_send(pair.a, absent, &post, record, &dead[i]), 0);
	for (int i = 0; i < 50; i++)
		exchange(&pair, from, into, 100);
	for (int i = 0; i < 20; i++) {
		poll_until(pair.a, pair.b, &dead[i].calls, 1);
		assert_int_equal(dead[i].status, -ETIMEDOUT);
	}
	exchange(&pair, from, into, 100);
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
	absent_done();
}

/* On some providers a peer that is not there shares its place with the next one that is. */
static void absent_peers_share_nothing_with_others(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_addr addr, back;
	struct outcome out = {0};
	struct pair pair;
	(void)state;
	pair.a = open_net(&opts);
	pair.b = open_net(&opts);
	weft_dest absent = add_absent(pair.a);
	assert_int_equal(weft_net_get_addr(pair.b, &addr), 0);
	assert_int_equal(weft_net_add_peer(pair.a, &addr, &pair.a_to_b), 0);
	struct weft_buf *from = filled(pair.a, 100, 6);
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_send(pair.a, absent, &post, record, &out), 0);
	exchange(&pair, from, into, 100);
	assert_int_equal(out.calls, 0);
	assert_int_equal(weft_net_remove_peer(pair.a, absent), 0);
	poll_until(pair.a, pair.b, &out.calls, 1);
	assert_int_equal(out.status, -ECANCELED);
	exchange(&pair, from, into, 100);
	assert_int_equal(weft_net_get_peer_addr(pair.a, pair.a_to_b, &back), 0);
	assert_true(weft_addr_equal(&addr, &back));
	weft_buf_unref(from);
	weft_buf_unref(into);
	assert_true(weft_net_close(pair.a) >= 0);
	assert_true(weft_net_close(pair.b) >= 0);
	absent_done();
}

struct chain {
	weft_dest dest;
	struct weft_addr addr;
	int calls;
};

/* Ends an operation from the end of another one, again and again. */
static void end_another(struct weft_net *net, const struct weft_done *done)
{
	struct chain *chain = done->user;
	struct weft_post post = WEFT_POST_INIT;
	chain->calls++;
	if (weft_net_add_peer(net, &chain->addr, &chain->dest) == 0 &&
	    weft_net_send(net, chain->dest, &post, end_another, chain) == 0)
		weft_net_remove_peer(net, chain->dest);
}

/* A poll comes back, whatever its callbacks do. */
static void a_poll_ends(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *net = open_net(&opts);
	struct weft_post post = WEFT_POST_INIT;
	struct chain chain = {.calls = 0};
	(void)state;
	absent_addr(&chain.addr);
	assert_int_equal(weft_net_add_peer(net, &chain.addr, &chain.dest), 0);
	assert_int_equal(weft_net_send(net, chain.dest, &post, end_another, &chain), 0);
	assert_int_equal(weft_net_remove_peer(net, chain.dest), 0);
	assert_int_equal(weft_net_poll(net, 1000), 1);
	assert_int_equal(weft_net_poll(net, 1000), 1);
	assert_int_equal(chain.calls, 2);
	assert_true(weft_net_close(net) >= 0);
	assert_int_equal(chain.calls, 3);
	absent_done();
}

static void held_slots_are_capped(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	struct outcome out = {0};
	(void)state;
	opts.max_held_per_peer = 4;
	struct weft_net *net = open_net(&opts);
	weft_dest absent = add_absent(net);
	struct weft_buf *buf = filled(net, 100, 0);
	struct weft_post post = whole(buf);
	post.timeout_ms = 1;
	int ret = 0, started = 0;
	/*
	 * Providers that take sends for a peer who never answers fill the cap; the others hold
	 * nothing.
	 */
	while (started < 20 && (ret = weft_net_send(net, absent, &post, record, &out)) == 0) {
		started++;
		poll_until(net, NULL, &out.calls, started);
	}
	weft_net_get_stats(net, &stats);
	if (started < 20) {
		assert_int_equal(ret, -EHOSTUNREACH);
		assert_int_equal(stats.held, 4);
		assert_int_equal(stats.refused, 1);
	} else {
		assert_int_equal(stats.held, 0);
	}
	assert_true((provider_is("udp") || provider_is("efa")) == (started < 20));
	weft_buf_unref(buf);
	assert_true(weft_net_close(net) >= 0);
	assert_int_equal(out.calls, started);
	absent_done();
}

static void removal_ends_what_is_under_way(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	struct outcome out[5] = {0};
	struct weft_addr addr;
	weft_dest absent, again, once_more;
	(void)state;
	struct weft_net *net = open_net(&opts);
	absent_addr(&addr);
	assert_int_equal(weft_net_add_peer(net, &addr, &absent), 0);
	assert_int_equal(weft_net_add_peer(net, &addr, &again), 0);
	assert_int_equal(absent, again);
	struct weft_buf *buf = filled(net, 100, 0);
	struct weft_post post = whole(buf);
	for (int i = 0; i < 5; i++)
		assert_int_equal(weft_net_send(net, absent, &post, record, &out[i]), 0);
	assert_int_equal(weft_net_remove_peer(net, absent), 0);
	assert_int_equal(weft_net_poll(net, 0), 0);
	assert_int_equal(weft_net_remove_peer(net, absent), 0);
	assert_int_equal(out[0].calls, 0);
	assert_int_equal(weft_net_remove_peer(net, absent), -ENOTCONN);
	assert_int_equal(weft_net_send(net, absent, &post, record, &out[0]), -ENOTCONN);
	assert_int_equal(weft_net_get_peer_addr(net, absent, &addr), -ENOTCONN);
	assert_int_equal(weft_net_poll(net, 1000), 5);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(out[i].calls, 1);
		assert_int_equal(out[i].status, -ECANCELED);
	}
	/*
	 * A peer that comes back gets a new handle, whether or not the provider has let go of the
	 * old operations.
	 */
	assert_int_equal(weft_net_add_peer(net, &addr, &once_more), 0);
	assert_int_not_equal(once_more, absent);
	assert_int_equal(weft_net_send(net, absent, &post, record, &out[0]), -ENOTCONN);
	weft_net_get_stats(net, &stats);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.canceled, 5);
	weft_buf_unref(buf);
	assert_true(weft_net_close(net) >= 0);
	absent_done();
}

/* The client starts first; the server comes later, at the address the client knows. */
static void late_server_is_reached(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct outcome sent = {0}, received = {0};
	struct weft_addr addr;
	weft_dest dest;
	char bind[32];
	char text[WEFT_ADDR_TEXT_MAX];
	(void)state;
	/* Names of shm and keys of efa are never used again, so nobody can know one before. */
	if (provider_is("shm") || provider_is("efa"))
		skip();
	struct weft_net *a = open_net(&opts);
	absent_addr(&addr);
	assert_true(weft_addr_format(&addr, text, sizeof(text)) > 0);
	assert_int_equal(weft_net_add_peer(a, &addr, &dest), 0);
	struct weft_buf *from = filled(a, 100, 4);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_send(a, dest, &post, record, &sent), 0);
	for (int64_t until = now_ms() + 300; now_ms() < until;)
		assert_int_equal(weft_net_poll(a, 10), 0);
	absent_done();
	snprintf(bind, sizeof(bind), "127.0.0.1%s", strrchr(text, ':'));
	opts.bind = bind;
	struct weft_net *b = open_net(&opts);
	struct weft_buf *into = filled(b, 100, 0);
	assert_int_equal(weft_net_recv(b, into, record, &received), 0);
	poll_until(a, b, &received.calls, 1);
	poll_until(a, b, &sent.calls, 1);
	assert_int_equal(sent.status, 0);
	assert_int_equal(received.status, 0);
	assert_true(is_filled(into, 100, 4));
	weft_buf_unref(from);
	weft_buf_unref(into);
	assert_true(weft_net_close(a) >= 0);
	assert_true(weft_net_close(b) >= 0);
}

static void close_ends_every_operation_once(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct outcome queued[4] = {0}, receive[4] = {0}, held = {0};
	(void)state;
	struct weft_net *net = open_net(&opts);
	weft_dest absent = add_absent(net);
	struct weft_buf *buf = filled(net, 100, 0);
	struct weft_post post = whole(buf);
	post.timeout_ms = 1;
	assert_int_equal(weft_net_send(net, absent, &post, record, &held), 0);
	poll_until(net, NULL, &held.calls, 1);
	post.timeout_ms = -1;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(weft_net_send(net, absent, &post, record, &queued[i]), 0);
		assert_int_equal(weft_net_recv(net, buf, record, &receive[i]), 0);
	}
	int64_t start = now_ms();
	assert_true(weft_net_close(net) >= 0);
	assert_true(now_ms() - start < PATIENCE_MS);
	assert_int_equal(held.calls, 1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(queued[i].calls, 1);
		/* EFA's provider may find out before that nobody is there. */
		if (!provider_is("efa") || queued[i].status != -EIO)
			assert_int_equal(queued[i].status, -ECANCELED);
		assert_int_equal(receive[i].calls, 1);
		assert_int_equal(receive[i].status, -ECANCELED);
	}
	/* The caller's own reference outlives the net. */
	assert_true(is_filled(buf, 100, 0));
	weft_buf_unref(buf);
	absent_done();
}

struct starter {
	struct outcome out;
	weft_dest dest;
	int ret;
};

static void start_another(struct weft_net *net, const struct weft_done *done)
{
	struct starter *starter = done->user;
	struct weft_post post = whole(done->buf);
	struct weft_addr addr;
	weft_dest dest;
	starter->out.calls++;
	starter->ret = weft_net_send(net, starter->dest, &post, record, &starter->out);
	assert_int_equal(weft_net_recv(net, done->buf, record, &starter->out), -ECANCELED);
	assert_int_equal(weft_net_get_addr(net, &addr), 0);
	assert_int_equal(weft_net_add_peer(net, &addr, &dest), -ECANCELED);
	assert_int_equal(weft_net_remove_peer(net, starter->dest), 0);
}

static void nothing_starts_while_closing(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct starter starter = {.ret = 1};
	(void)state;
	struct weft_net *net = open_net(&opts);
	starter.dest = add_absent(net);
	struct weft_buf *buf = filled(net, 100, 0);
	assert_int_equal(weft_net_recv(net, buf, start_another, &starter), 0);
	weft_buf_unref(buf);
	assert_true(weft_net_close(net) >= 0);
	assert_int_equal(starter.out.calls, 1);
	assert_int_equal(starter.ret, -ECANCELED);
	absent_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_answer_ends_at_the_deadline),
		cmocka_unit_test(dead_peer_holds_up_nobody),
		cmocka_unit_test(absent_peers_share_nothing_with_others),
		cmocka_unit_test(a_poll_ends),
		cmocka_unit_test(held_slots_are_capped),
		cmocka_unit_test(removal_ends_what_is_under_way),
		cmocka_unit_test(late_server_is_reached),
		cmocka_unit_test(close_ends_every_operation_once),
		cmocka_unit_test(nothing_starts_while_closing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
