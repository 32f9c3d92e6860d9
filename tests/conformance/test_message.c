/* SPDX-License-Identifier: MIT */
/*
 * Messages between two nets: sizes, order, tags, CQ data, sources, and what a starting call
 * refuses.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "pair.h"

static void sizes_arrive_whole(void **state)
{
	/*
	 * Around inject sizes, frames, datagrams, and the limits at which providers change their
	 * protocol.
	 */
	static const size_t sizes[] = {1,    63,   64,	  65,	 255,	256,	1256,
				       1257, 1472, 1473,  4095,	 4096,	4097,	8191,
				       8192, 8193, 16384, 16385, 65507, 131072, 1048576};
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *from = filled(pair.a, 1048576, 0);
	struct weft_buf *into = filled(pair.b, 1048576, 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(from, sizes[i], i);
		fill(into, sizes[i], i + 100);
		exchange(&pair, from, into, sizes[i]);
		assert_true(is_filled(into, sizes[i], i));
	}
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void empty_message(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent = {0}, received = {0};
	struct weft_post post = WEFT_POST_INIT;
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *into = filled(pair.b, 64, 0);
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	poll_until(pair.a, pair.b, &received.calls, 1);
	poll_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(received.status, 0);
	assert_int_equal(received.len, 0);
	assert_null(sent.buf);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void cq_data_travels_beside_the_bytes(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent[2] = {0}, received[2] = {0};
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *from = filled(pair.a, 100, 7);
	struct weft_buf *into[2] = {filled(pair.b, 200, 0), filled(pair.b, 200, 0)};
	struct weft_post post = whole(from);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weft_net_recv(pair.b, into[i], record, &received[i]), 0);
	post.flags = WEFT_POST_CQ_DATA;
	post.cq_data = 0xfeedf00d;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent[0]), 0);
	post.flags = 0;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent[1]), 0);
	for (int i = 0; i < 2; i++) {
		poll_until(pair.a, pair.b, &received[i].calls, 1);
		poll_until(pair.a, pair.b, &sent[i].calls, 1);
		assert_int_equal(received[i].len, 100);
		assert_true(is_filled(into[i], 100, 7));
		weft_buf_unref(into[i]);
	}
	assert_int_equal(received[0].flags, WEFT_DONE_CQ_DATA);
	assert_int_equal(received[0].cq_data, 0xfeedf00d);
	assert_int_equal(received[1].flags, 0);
	weft_buf_unref(from);
	pair_close(&pair);
}

static void source_is_told_where_it_is_known(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent = {0}, received = {0};
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	(void)state;
	pair_open(&pair, &opts);
	assert_int_equal(weft_net_get_info(pair.b, &info), 0);
	struct weft_buf *from = filled(pair.a, 10, 1);
	struct weft_buf *into = filled(pair.b, 10, 2);
	struct weft_post post = whole(from);
	for (int known = 1; known >= 0; known--) {
		int before = received.calls;
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		poll_until(pair.a, pair.b, &received.calls, before + 1);
		poll_until(pair.a, pair.b, &sent.calls, before + 1);
		assert_int_equal(received.status, 0);
		assert_int_equal(received.source,
				 known && info.has_source ? pair.b_to_a : WEFT_DEST_NONE);
		/* What a removed peer sends after it has been answered once is dropped by efa. */
		if (provider_is("efa"))
			break;
		if (known)
			assert_int_equal(weft_net_remove_peer(pair.b, pair.b_to_a), 0);
	}
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
}

#define SENDERS 4

/* Every sender is told from every other, and one that is not known is not taken for one that is. */
static void sources_are_told_apart(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct weft_net *server = open_net(&opts), *sender[SENDERS];
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct outcome sent = {0}, received = {0};
	struct weft_addr server_addr, addr;
	weft_dest dest[SENDERS], known[SENDERS] = {WEFT_DEST_NONE};
	struct weft_buf *from[SENDERS];
	(void)state;
	weft_net_get_info(server, &info);
	assert_int_equal(weft_net_get_addr(server, &server_addr), 0);
	for (int i = 0; i < SENDERS; i++) {
		sender[i] = open_net(&opts);
		from[i] = filled(sender[i], 10, 1);
		assert_int_equal(weft_net_add_peer(sender[i], &server_addr, &dest[i]), 0);
		/* The last one stays a stranger. */
		assert_int_equal(weft_net_get_addr(sender[i], &addr), 0);
		if (i < SENDERS - 1)
			assert_int_equal(weft_net_add_peer(server, &addr, &known[i]), 0);
	}
	struct weft_buf *into = filled(server, 10, 2);
	for (int n = 0; n < 5 * SENDERS; n++) {
		int i = n * 3 % SENDERS;
		struct weft_post post = whole(from[i]);
		assert_int_equal(weft_net_recv(server, into, record, &received), 0);
		assert_int_equal(weft_net_send(sender[i], dest[i], &post, record, &sent), 0);
		poll_until(sender[i], server, &received.calls, n + 1);
		poll_until(sender[i], server, &sent.calls, n + 1);
		assert_int_equal(received.status, 0);
		if (received.source != (info.has_source ? known[i] : WEFT_DEST_NONE))
			fail_msg("sender %d is told as %llx", i,
				 (unsigned long long)received.source);
	}
	weft_buf_unref(into);
	for (int i = 0; i < SENDERS; i++) {
		weft_buf_unref(from[i]);
		assert_true(weft_net_close(sender[i]) >= 0);
	}
	assert_true(weft_net_close(server) >= 0);
}

struct swap {
	struct weft_net *net;
	weft_dest first, second;
	struct weft_addr second_addr;
	int calls, wrong;
};

/*
 * Takes the sender out in its second message, and puts another peer in, where libfabric has room.
 */
static void swap_peers(struct weft_net *net, const struct weft_done *done)
{
	struct swap *swap = done->user;
	if (done->status == -ECANCELED)
		return;
	assert_int_equal(done->status, 0);
	swap->calls++;
	if (swap->calls == 2) {
		assert_int_equal(weft_net_remove_peer(net, swap->first), 0);
		assert_int_equal(weft_net_add_peer(net, &swap->second_addr, &swap->second), 0);
	}
	if (swap->second != WEFT_DEST_NONE && done->source == swap->second)
		swap->wrong++;
}

/* What a peer sent before it was removed is not told as from whoever has its place now. */
static void sources_outlive_removal(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct swap swap = {.second = WEFT_DEST_NONE};
	struct outcome sent = {0};
	struct pair pair;
	(void)state;
	pair_open(&pair, &opts);
	struct weft_net *other = open_net(&opts);
	swap.first = pair.b_to_a;
	assert_int_equal(weft_net_get_addr(other, &swap.second_addr), 0);
	struct weft_buf *from = filled(pair.a, 10, 1);
	struct weft_buf *into = filled(pair.b, 10, 2);
	struct weft_post post = whole(from);
	for (int i = 0; i < 6; i++)
		assert_int_equal(weft_net_recv(pair.b, into, swap_peers, &swap), 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	/*
	 * EFA's provider keeps order by peer, and delivers nothing more of one that is taken out.
	 */
	poll_until(pair.a, pair.b, &swap.calls, provider_is("efa") ? 2 : 6);
	if (!provider_is("efa"))
		poll_until(pair.a, pair.b, &sent.calls, 6);
	assert_int_equal(swap.wrong, 0);
	weft_buf_unref(from);
	weft_buf_unref(into);
	assert_true(weft_net_close(other) >= 0);
	pair_close(&pair);
}

static void tags_choose_the_receive(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent[3] = {0}, received[3] = {0};
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *from = filled(pair.a, 300, 0);
	struct weft_buf *into = filled(pair.b, 300, 9);
	/* Into three parts of one buffer: tag 5, tag 6, and tag 0x10 to 0x1f. */
	static const uint64_t tags[3] = {5, 6, 0x10};
	for (int i = 0; i < 3; i++) {
		struct weft_post post = whole(into);
		post.off = (size_t)i * 100;
		post.len = 100;
		post.tag = tags[i];
		post.ignore = i == 2 ? 0xf : 0;
		assert_int_equal(weft_net_trecv(pair.b, &post, record, &received[i]), 0);
	}
	for (int i = 2; i >= 0; i--) {
		struct weft_post post = whole(from);
		post.off = (size_t)i * 100;
		post.len = 100;
		post.tag = tags[i] + (i == 2 ? 7 : 0);
		assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &sent[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		poll_until(pair.a, pair.b, &received[i].calls, 1);
		poll_until(pair.a, pair.b, &sent[i].calls, 1);
		assert_int_equal(received[i].status, 0);
		assert_int_equal(received[i].len, 100);
		assert_int_equal(received[i].tag, i == 2 ? 0x17 : tags[i]);
	}
	assert_true(is_filled(into, 300, 0));
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
}

struct numbered {
	int index;
	int *order;
	int *count;
	uint32_t number;
};

static void note_number(struct weft_net *net, const struct weft_done *done)
{
	struct numbered *n = done->user;
	(void)net;
	assert_int_equal(done->status, 0);
	memcpy(&n->number, weft_buf_data(done->buf), sizeof(n->number));
	(*n->count)++;
}

static void note_call(struct weft_net *net, const struct weft_done *done)
{
	(void)net;
	assert_int_equal(done->status, 0);
	(*(int *)done->user)++;
}

#define MANY 400

static void messages_match_receives_in_order(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	static struct numbered note[MANY];
	struct weft_buf *into[MANY], *from[MANY];
	int received = 0, sent = 0;
	(void)state;
	pair_open(&pair, &opts);
	for (int i = 0; i < MANY; i++) {
		note[i] = (struct numbered){.index = i, .count = &received};
		into[i] = filled(pair.b, 64, 0);
		from[i] = filled(pair.a, 64, 0);
		memcpy(weft_buf_data(from[i]), &(uint32_t){(uint32_t)i}, sizeof(uint32_t));
		assert_int_equal(weft_net_recv(pair.b, into[i], note_number, &note[i]), 0);
	}
	for (int i = 0; i < MANY; i++) {
		struct weft_post post = whole(from[i]);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, note_call, &sent), 0);
	}
	poll_until(pair.a, pair.b, &received, MANY);
	poll_until(pair.a, pair.b, &sent, MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(note[i].number, i);
		weft_buf_unref(from[i]);
		weft_buf_unref(into[i]);
	}
	pair_close(&pair);
}

static void longer_than_the_receive(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent = {0}, received = {0};
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *from = filled(pair.a, 4096, 3);
	struct weft_buf *into = filled(pair.b, 1000, 0);
	exchange(&pair, from, into, 1000);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	poll_until(pair.a, pair.b, &received.calls, 1);
	if (provider_is("udp")) {
		assert_int_equal(received.status, 0);
		assert_true(received.len <= 1000);
	} else {
		assert_int_equal(received.status, -FI_ETRUNC);
	}
	/*
	 * Some providers break the connection over it, and lose what is sent before they notice:
	 * send until one is in.
	 */
	int before = received.calls;
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	post.len = 500;
	int64_t end = now_ms() + PATIENCE_MS;
	for (;;) {
		int sent_before = sent.calls;
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		poll_until(pair.a, pair.b, &sent.calls, sent_before + 1);
		for (int64_t until = now_ms() + 200;
		     received.calls == before && now_ms() < until;) {
			weft_net_poll(pair.a, 0);
			weft_net_poll(pair.b, 0);
		}
		if (received.calls > before && received.status == 0)
			break;
		/* A receive that ended in the error of the broken connection is posted again. */
		if (received.calls > before) {
			before = received.calls;
			assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		}
		assert_true(now_ms() < end);
	}
	assert_int_equal(received.len, 500);
	assert_true(is_filled(into, 500, 3));
	weft_buf_unref(from);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void wrong_posts_are_refused(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome none = {0};
	struct weft_net_stats before = WEFT_NET_STATS_INIT, after = WEFT_NET_STATS_INIT;
	(void)state;
	pair_open(&pair, &opts);
	struct weft_buf *buf = filled(pair.a, 100, 0);
	struct weft_buf *foreign = filled(pair.b, 100, 0);
	weft_net_get_stats(pair.a, &before);

	struct weft_post post = whole(buf);
	post.off = 1;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post.off = SIZE_MAX;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post = whole(buf);
	post.timeout_ms = -2;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post = whole(buf);
	post.flags = 0x80;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post = whole(buf);
	post.size = 8;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post = whole(buf);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, NULL, &none), -EINVAL);
	assert_int_equal(weft_net_send(pair.a, WEFT_DEST_NONE, &post, record, &none), -ENOTCONN);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b + 1, &post, record, &none), -ENOTCONN);
	assert_int_equal(
		weft_net_send(pair.a, pair.a_to_b + ((weft_dest)1 << 32), &post, record, &none),
		-ENOTCONN);
	post.buf = NULL;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	post = whole(foreign);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &none), -EINVAL);
	assert_int_equal(weft_net_recv(pair.a, NULL, record, &none), -EINVAL);
	assert_int_equal(weft_net_recv(pair.a, foreign, record, &none), -EINVAL);
	assert_int_equal(weft_net_recv(pair.a, buf, NULL, &none), -EINVAL);

	weft_net_get_stats(pair.a, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(none.calls, 0);
	weft_buf_unref(buf);
	weft_buf_unref(foreign);
	pair_close(&pair);
}

static void limits_refuse_the_next(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	opts.max_ops = 8;
	opts.max_ops_per_peer = 3;
	pair_open(&pair, &opts);
	struct weft_buf *buf = filled(pair.a, 10, 0);
	struct weft_post post = whole(buf);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), -ENOBUFS);
	for (int i = 0; i < 5; i++)
		assert_int_equal(weft_net_recv(pair.a, buf, record, &out), 0);
	assert_int_equal(weft_net_recv(pair.a, buf, record, &out), -ENOBUFS);
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	weft_net_get_stats(pair.a, &stats);
	assert_int_equal(stats.refused, 2);
	assert_int_equal(stats.ops, 8);
	assert_int_equal(stats.receives, 5);
	weft_buf_unref(buf);
	pair_close(&pair);
	assert_int_equal(out.calls, 8);
}

struct echo {
	weft_dest to;
	int calls;
	int poll_ret, close_ret;
};

static void echo_from_callback(struct weft_net *net, const struct weft_done *done)
{
	struct echo *echo = done->user;
	struct weft_post post = whole(done->buf);
	assert_int_equal(done->status, 0);
	echo->calls++;
	post.len = done->len;
	echo->poll_ret = weft_net_poll(net, 0);
	echo->close_ret = weft_net_close(net);
	assert_int_equal(weft_net_arm(net), -EBUSY);
	assert_int_equal(weft_net_send(net, echo->to, &post, note_call, &echo->calls), 0);
	assert_int_equal(echo->calls, 1);
}

static void callbacks_may_start_operations(void **state)
{
	struct weft_net_opts opts = test_opts();
	struct pair pair;
	struct outcome sent = {0}, back = {0};
	(void)state;
	pair_open(&pair, &opts);
	struct echo echo = {.to = pair.b_to_a};
	struct weft_buf *from = filled(pair.a, 77, 5);
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_buf *reply = filled(pair.a, 100, 0);
	struct weft_post post = whole(from);
	assert_int_equal(weft_net_recv(pair.b, into, echo_from_callback, &echo), 0);
	assert_int_equal(weft_net_recv(pair.a, reply, record, &back), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	/* The library's references keep buffers alive that the caller has dropped. */
	weft_buf_unref(from);
	weft_buf_unref(into);
	poll_until(pair.a, pair.b, &back.calls, 1);
	poll_until(pair.a, pair.b, &echo.calls, 2);
	assert_int_equal(echo.poll_ret, -EBUSY);
	assert_int_equal(echo.close_ret, -EBUSY);
	assert_int_equal(back.len, 77);
	assert_true(is_filled(reply, 77, 5));
	weft_buf_unref(reply);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_arrive_whole),
		cmocka_unit_test(empty_message),
		cmocka_unit_test(cq_data_travels_beside_the_bytes),
		cmocka_unit_test(source_is_told_where_it_is_known),
		cmocka_unit_test(sources_are_told_apart),
		cmocka_unit_test(sources_outlive_removal),
		cmocka_unit_test(tags_choose_the_receive),
		cmocka_unit_test(messages_match_receives_in_order),
		cmocka_unit_test(longer_than_the_receive),
		cmocka_unit_test(wrong_posts_are_refused),
		cmocka_unit_test(limits_refuse_the_next),
		cmocka_unit_test(callbacks_may_start_operations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
