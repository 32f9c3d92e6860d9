/* SPDX-License-Identifier: MIT */
/*
 * Operations on a fabric that does what real ones do rarely: both kinds of "again", ends in every
 * order, errors of every shape, limits.
 */
#include "world.h"

#include <errno.h>

#include <rdma/fi_errno.h>

static void both_ways_on_every_kind_of_provider(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_tcp6, &fake_shm,
							    &fake_udp, &fake_efa,  &fake_raw};
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct pair pair, back;
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		back = pair;
		back.a = pair.b;
		back.b = pair.a;
		back.a_to_b = pair.b_to_a;
		for (int n = 0; n < 20; n++) {
			exchange(&pair);
			exchange(&back);
		}
		struct weft_net_stats stats = net_stats(pair.a);
		assert_int_equal(stats.sent, 20);
		assert_int_equal(stats.sent_bytes, 2000);
		assert_int_equal(stats.received, 20);
		assert_int_equal(stats.received_bytes, 2000);
		assert_int_equal(stats.ops + stats.ops_queued + stats.receives + stats.held +
					 stats.buffers,
				 0);
		assert_int_equal(stats.buffer_bytes, 0);
		assert_int_equal(stats.errors + stats.timeouts + stats.canceled + stats.refused +
					 stats.late,
				 0);
		assert_int_equal(stats.peers, 1);
		pair_close(&pair);
	}
}

static void sources_are_told_where_known(void **state)
{
	struct pair pair;
	struct outcome sent = {0}, received = {0};
	struct fake_provider provider = fake_tcp;
	(void)state;
	/* The sources of tcp cannot be relied on. */
	provider.name = "sockets";
	pair_open(&pair, &provider, NULL);
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_post post = whole(NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		pass_until(pair.a, pair.b, &received.calls, i + 1);
		assert_int_equal(received.source, i == 0 ? pair.b_to_a : WEFT_DEST_NONE);
		assert_int_equal(received.len, 0);
		if (i == 0)
			assert_int_equal(weft_net_remove_peer(pair.b, pair.b_to_a), 0);
	}
	weft_buf_unref(into);
	pair_close(&pair);

	fake_reset();
	pair_open(&pair, &fake_raw, NULL);
	received.calls = 0;
	into = filled(pair.b, 100, 0);
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 1);
	assert_int_equal(received.source, WEFT_DEST_NONE);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void cq_data_travels_beside_the_bytes(void **state)
{
	struct pair pair;
	struct outcome sent = {0}, received = {0}, tagged = {0};
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	struct weft_buf *into = filled(pair.b, 100, 0);
	struct weft_buf *from = filled(pair.a, 10, 3);
	struct weft_post post = whole(from);
	struct weft_post room = whole(into);
	post.flags = WEFT_POST_CQ_DATA;
	post.cq_data = UINT64_C(0x100000000);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), -EINVAL);
	post.cq_data = 0xffffffff;
	assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 1);
	pass_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(received.flags, WEFT_DONE_CQ_DATA);
	assert_int_equal(received.cq_data, 0xffffffff);
	assert_int_equal(received.len, 10);
	assert_int_equal(sent.flags, 0);
	assert_int_equal(fake_calls("fi_senddata"), 1);

	post.tag = 0xabc;
	post.cq_data = 5;
	room.tag = 0xb00;
	room.ignore = 0xff;
	assert_int_equal(weft_net_trecv(pair.b, &room, record, &tagged), 0);
	assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &sent.calls, 2);
	assert_int_equal(tagged.calls, 0);
	room.ignore = 0xfff;
	assert_int_equal(weft_net_trecv(pair.b, &room, record, &tagged), 0);
	pass_until(pair.a, pair.b, &tagged.calls, 1);
	assert_int_equal(tagged.cq_data, 5);
	assert_int_equal(tagged.tag, 0xabc);
	/* Without CQ data none is reported. */
	post.flags = 0;
	assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &sent), 0);
	post.tag = 0xb01;
	assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &tagged.calls, 2);
	assert_int_equal(tagged.flags, 0);
	assert_int_equal(tagged.tag, 0xb01);
	weft_buf_unref(into);
	weft_buf_unref(from);
	pair_close(&pair);
}

static void again_of_one_peer_holds_up_no_other(void **state)
{
	struct pair pair;
	struct outcome stuck[3] = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	struct weft_post post = whole(NULL);
	post.timeout_ms = 50;
	for (int i = 0; i < 3; i++)
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &stuck[i]), 0);
	/* Only the head of a queue is offered: what was started later never overtakes. */
	long tries = fake_calls("fi_send");
	assert_int_equal(tries, 1);
	assert_int_equal(net_stats(pair.a).ops_queued, 3);
	int64_t start = fake_now_ns();
	exchange(&pair);
	exchange(&pair);
	assert_true(fake_now_ns() - start < 10 * FAKE_NS_PER_MS);
	for (int i = 0; i < 3; i++) {
		pass_until(pair.a, pair.b, &stuck[i].calls, 1);
		assert_int_equal(stuck[i].status, -ETIMEDOUT);
		assert_non_null(strstr(stuck[i].text, "did not take it"));
	}
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.timeouts, 3);
	assert_int_equal(stats.ops_queued, 0);
	assert_int_equal(stats.held, 0);
	assert_true(stats.retries > 10);
	pair_close(&pair);
}

/* The whole endpoint says "again": each flush asks a bounded number of queues, and all get through
 * in the end. */
static void again_of_the_endpoint_is_bounded(void **state)
{
	struct pair pair;
	enum { PEERS = 40 };
	struct outcome out[PEERS] = {0};
	weft_dest dest[PEERS];
	(void)state;
	struct fake_provider provider = fake_udp;
	pair_open(&pair, &provider, NULL);
	struct weft_post post = whole(NULL);
	post.timeout_ms = -1;
	pair.provider->tx_size = 0;
	for (int i = 0; i < PEERS; i++) {
		struct weft_addr addr = pair.b_addr;
		addr.raw[7] = (uint8_t)(i + 2);
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest[i]), 0);
		assert_int_equal(weft_net_send(pair.a, dest[i], &post, record, &out[i]), 0);
	}
	long before = fake_calls("fi_send");
	assert_int_equal(before, PEERS);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(fake_calls("fi_send") - before, 16);
	/* The next one goes on where it stopped. */
	pair.provider->absent = FAKE_ABSENT_LOST;
	pair.provider->tx_size = 4;
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(net_stats(pair.a).ops_queued, PEERS - 4);
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(weft_net_poll(pair.a, 0), 4);
	for (int i = 0; i < PEERS; i++)
		assert_int_equal(out[i].calls, i >= 16 && i < 20);
	for (int i = 0; i < PEERS; i++)
		pass_until(pair.a, NULL, &out[i].calls, 1);
	pair_close(&pair);
}

static void peers_are_served_in_turn(void **state)
{
	struct pair pair;
	struct outcome out[3][4] = {0};
	weft_dest dest[3];
	(void)state;
	struct fake_provider provider = fake_udp;
	provider.absent = FAKE_ABSENT_LOST;
	pair_open(&pair, &provider, NULL);
	struct weft_post post = whole(NULL);
	pair.provider->tx_size = 0;
	for (int i = 0; i < 3; i++) {
		struct weft_addr addr = pair.b_addr;
		addr.raw[7] = (uint8_t)(i + 2);
		assert_int_equal(weft_net_add_peer(pair.a, &addr, &dest[i]), 0);
		for (int k = 0; k < 4; k++)
			assert_int_equal(weft_net_send(pair.a, dest[i], &post, record, &out[i][k]),
					 0);
	}
	pair.provider->tx_size = 100;
	pass_until(pair.a, NULL, &out[2][3].calls, 1);
	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(out[i][k].order, 3 * k + i + 1);
	}
	pair_close(&pair);
}

static void one_turn_hands_over_a_bounded_number(void **state)
{
	struct pair pair;
	static struct outcome out;
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	memset(&out, 0, sizeof(out));
	struct fake_provider provider = fake_udp;
	provider.absent = FAKE_ABSENT_LOST;
	pair_open(&pair, &provider, &opts);
	struct weft_post post = whole(NULL);
	pair.provider->tx_size = 0;
	for (int i = 0; i < 600; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	pair.provider->tx_size = 1024;
	fake_set_peer(&pair.b_addr, FAKE_PEER_DEAD);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(net_stats(pair.a).ops_queued, 600 - 256);
	assert_int_equal(weft_net_poll(pair.a, 0), 0);
	assert_int_equal(net_stats(pair.a).ops_queued, 600 - 512);
	fake_advance_ns(FAKE_NS_PER_MS);
	/* Nor are more completions read at once than that. */
	assert_int_equal(weft_net_poll(pair.a, 0), 256);
	pass_until(pair.a, NULL, &out.calls, 600);
	pair_close(&pair);
}

static void messages_keep_their_order_through_again(void **state)
{
	struct pair pair;
	struct outcome received[30] = {0}, sent = {0};
	struct weft_buf *into[30];
	(void)state;
	struct fake_provider provider = fake_tcp;
	provider.tx_size = 3;
	pair_open(&pair, &provider, NULL);
	for (int i = 0; i < 30; i++) {
		into[i] = filled(pair.b, 64, 0);
		assert_int_equal(weft_net_recv(pair.b, into[i], record, &received[i]), 0);
	}
	for (unsigned i = 0; i < 30; i++) {
		struct weft_buf *from = filled(pair.a, 64, 100 + i);
		struct weft_post post = whole(from);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		weft_buf_unref(from);
	}
	pass_until(pair.a, pair.b, &sent.calls, 30);
	bool shuffled = false;
	for (unsigned i = 0; i < 30; i++) {
		pass_until(pair.a, pair.b, &received[i].calls, 1);
		assert_true(is_filled(into[i], 64, 100 + i));
		shuffled = shuffled || (i > 0 && received[i].order < received[i - 1].order);
		weft_buf_unref(into[i]);
	}
	/* The completions were told out of order, or this shows nothing. */
	assert_true(shuffled);
	pair_close(&pair);
}

static void silent_peers_end_at_the_deadline_and_hold_the_buffer(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	fake_set_peer(&pair.b_addr, FAKE_PEER_SILENT);
	struct weft_buf *buf = filled(pair.a, 100, 1);
	struct weft_post post = whole(buf);
	post.timeout_ms = 300;
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	weft_buf_unref(buf);
	pass_until(pair.a, NULL, &out.calls, 1);
	int64_t took = (fake_now_ns() - start) / FAKE_NS_PER_MS;
	/* Never early; late by a tick of the clock, a slot of the wheel and the step of this test
	 * at most. */
	assert_true(took >= 300 && took <= 300 + 4 + 4 + 4 + 2);
	assert_int_equal(out.status, -ETIMEDOUT);
	assert_non_null(strstr(out.text, "has not said"));
	assert_ptr_equal(out.buf, buf);
	assert_int_equal(out.source, pair.a_to_b);
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.held, 1);
	assert_int_equal(stats.ops, 0);
	assert_int_equal(stats.buffers, 1);
	pair_close(&pair);
	assert_int_equal(out.calls, 1);
}

static void late_completions_release_what_was_held(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	exchange(&pair);
	struct weft_buf *buf = filled(pair.a, 100, 1);
	struct weft_post post = whole(buf);
	post.timeout_ms = 10;
	fake_next("fi_send", NULL, 1, &(struct fake_fate){.delay_ns = 50 * FAKE_NS_PER_MS});
	fake_next("fi_send", NULL, 1,
		  &(struct fake_fate){FAKE_BREAK, 50 * FAKE_NS_PER_MS, FI_EIO, 0, NULL});
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	weft_buf_unref(buf);
	pass_until(pair.a, pair.b, &out.calls, 2);
	assert_int_equal(net_stats(pair.a).held, 2);
	pass(pair.a, pair.b, 60);
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.held, 0);
	assert_int_equal(stats.late, 2);
	assert_int_equal(stats.buffers, 0);
	assert_int_equal(stats.sent, 1);
	assert_int_equal(stats.errors, 0);
	assert_int_equal(out.calls, 2);
	pair_close(&pair);
}

/* One that has waited, and was taken at last, is no longer in the queue when its time is up. */
static void waited_then_taken_then_late(void **state)
{
	struct pair pair;
	struct outcome out[3] = {0};
	struct weft_post post = whole(NULL);
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	fake_refuse("fi_send", NULL, FI_EAGAIN, 1);
	fake_next("fi_send", NULL, 3, &(struct fake_fate){.outcome = FAKE_VANISH});
	post.timeout_ms = 50;
	for (int i = 0; i < 3; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[i]), 0);
	assert_int_equal(net_stats(pair.a).ops_queued, 3);
	pass(pair.a, pair.b, 2);
	assert_int_equal(net_stats(pair.a).ops_queued, 0);
	/* One that waits meanwhile stays where it is. */
	weft_dest nobody = add_nobody(pair.a, NULL);
	fake_refuse("fi_send", NULL, FI_EAGAIN, -1);
	post.timeout_ms = -1;
	struct outcome waiting = {0};
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &waiting), 0);
	pass(pair.a, pair.b, 70);
	for (int i = 0; i < 3; i++)
		assert_int_equal(out[i].status, -ETIMEDOUT);
	assert_int_equal(net_stats(pair.a).held, 3);
	assert_int_equal(net_stats(pair.a).ops_queued, 1);
	pair_close(&pair);
	assert_int_equal(waiting.calls, 1);
}

static void no_timeout_waits_for_ever(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	weft_dest nobody = add_nobody(pair.a, NULL);
	struct weft_post post = whole(NULL);
	post.timeout_ms = -1;
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
	pass(pair.a, NULL, 20000);
	assert_int_equal(out.calls, 0);
	/* 0 is not "for ever": it ends in the next poll, unless it is done by then. */
	post.timeout_ms = 0;
	assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 1);
	assert_int_equal(out.status, -ETIMEDOUT);
	assert_int_equal(weft_net_close(pair.b), 0);
	int64_t start = fake_now_ns();
	assert_int_equal(weft_net_close(pair.a), 0);
	assert_int_equal(out.calls, 2);
	assert_int_equal(out.status, -ECANCELED);
	int64_t took = (fake_now_ns() - start) / FAKE_NS_PER_MS;
	assert_true(took >= 1990 && took < 2050);
}

static void errors_reach_their_own_callback(void **state)
{
	struct pair pair;
	struct outcome out[4] = {0};
	static const struct fake_fate fates[4] = {
		{FAKE_BREAK, 0, FI_EHOSTUNREACH, 15, "who?"},
		{FAKE_BREAK, 0, -FI_ETRUNC, -265, NULL},
		{FAKE_BREAK, 0, 0, 0, NULL},
		{FAKE_BREAK, 0, FI_EIO, 4999, NULL},
	};
	static const int status[4] = {-FI_EHOSTUNREACH, -FI_ETRUNC, -EIO, -FI_EIO};
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	struct weft_post post = whole(NULL);
	for (int i = 0; i < 4; i++)
		fake_next("fi_send", NULL, 1, &fates[i]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[i]), 0);
	for (int i = 0; i < 4; i++) {
		pass_until(pair.a, pair.b, &out[i].calls, 1);
		assert_int_equal(out[i].status, status[i]);
		assert_int_equal(out[i].prov_errno, fates[i].prov_errno);
		assert_int_equal(out[i].source, pair.a_to_b);
	}
	assert_string_equal(out[0].text, "fake code 15: who?");
	assert_non_null(strstr(out[0].advice, "security group"));
	assert_null(out[1].advice);
	assert_null(out[3].advice);
	assert_int_equal(net_stats(pair.a).errors, 4);
	assert_int_equal(net_stats(pair.a).sent, 0);
	/* -ECANCELED is for what weft itself ends. */
	fake_next("fi_send", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_ECANCELED, 125, NULL});
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[1]), 0);
	pass_until(pair.a, pair.b, &out[1].calls, 2);
	assert_int_equal(out[1].status, -EIO);
	assert_int_equal(out[1].prov_errno, 125);
	/* Where the provider has no text either, the code's own is given. */
	fake_next("fi_send", NULL, 1, &fates[3]);
	fake_refuse("fi_cq_strerror", NULL, FI_ENODATA, 1);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[0]), 0);
	pass_until(pair.a, pair.b, &out[0].calls, 2);
	assert_string_equal(out[0].text, weft_strerror(EIO));
	pair_close(&pair);

	/* The same numbers mean something else elsewhere. */
	fake_reset();
	pair_open(&pair, &fake_tcp, NULL);
	exchange(&pair);
	fake_next("fi_send", NULL, 1, &fates[0]);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out[0]), 0);
	pass_until(pair.a, pair.b, &out[0].calls, 3);
	assert_null(out[0].advice);
	pair_close(&pair);
}

static void receive_again(struct weft_net *net, const struct weft_done *done)
{
	struct outcome *out = done->user;
	record(net, done);
	if (out->calls == 1)
		assert_int_equal(weft_net_recv(net, done->buf, record, out), 0);
}

/* As tcp does it: every client that dies in the middle of a message costs a posted receive. */
static void broken_receives_can_be_posted_again_at_once(void **state)
{
	struct pair pair;
	struct outcome received = {0}, sent = {0};
	(void)state;
	pair_open(&pair, &fake_tcp, NULL);
	struct weft_buf *into = filled(pair.b, 100, 0);
	fake_next("fi_recv", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_ENOTCONN, 0, NULL});
	assert_int_equal(weft_net_recv(pair.b, into, receive_again, &received), 0);
	weft_buf_unref(into);
	pass_until(pair.a, pair.b, &received.calls, 1);
	assert_int_equal(received.status, -ENOTCONN);
	assert_int_equal(received.source, WEFT_DEST_NONE);
	struct weft_post post = whole(NULL);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 2);
	assert_int_equal(received.status, 0);
	assert_int_equal(net_stats(pair.b).errors, 1);
	assert_int_equal(net_stats(pair.b).received, 1);
	pass_until(pair.a, pair.b, &sent.calls, 1);
	pair_close(&pair);
}

static void too_long_messages_end_as_the_provider_says(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_shm, &fake_udp};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct pair pair;
		struct outcome received = {0}, sent = {0};
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		struct weft_buf *into = filled(pair.b, 10, 0);
		struct weft_buf *from = filled(pair.a, 20, 1);
		struct weft_post post = whole(from);
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		pass_until(pair.a, pair.b, &received.calls, 1);
		pass_until(pair.a, pair.b, &sent.calls, 1);
		assert_int_equal(received.status, i < 2 ? -FI_ETRUNC : 0);
		assert_int_equal(received.len, 10);
		assert_int_equal(sent.status, 0);
		weft_buf_unref(into);
		weft_buf_unref(from);
		pair_close(&pair);
	}
}

static void lost_and_doubled_messages_are_the_callers_to_notice(void **state)
{
	struct pair pair;
	struct outcome received = {0}, sent = {0};
	(void)state;
	pair_open(&pair, &fake_raw, NULL);
	struct weft_buf *into = filled(pair.b, 10, 0);
	struct weft_post post = whole(NULL);
	fake_next("fi_send", &pair.b_addr, 1, &(struct fake_fate){.outcome = FAKE_LOSE});
	fake_next("fi_send", &pair.b_addr, 1, &(struct fake_fate){.outcome = FAKE_TWICE});
	for (int i = 0; i < 3; i++)
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &sent.calls, 1);
	assert_int_equal(sent.status, 0);
	pass(pair.a, pair.b, 5);
	assert_int_equal(received.calls, 0);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 2);
	pass_until(pair.a, pair.b, &sent.calls, 2);
	/* One that arrives, and never says so. */
	fake_next("fi_send", &pair.b_addr, 1, &(struct fake_fate){.outcome = FAKE_MUTE});
	post.timeout_ms = 20;
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 3);
	pass_until(pair.a, pair.b, &sent.calls, 3);
	assert_int_equal(sent.status, -ETIMEDOUT);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void limits_are_kept(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	struct weft_net_opts opts = quiet_opts();
	(void)state;
	opts.max_ops = 5;
	opts.max_ops_per_peer = 3;
	pair_open(&pair, &fake_tcp, &opts);
	weft_dest nobody = add_nobody(pair.a, NULL);
	struct weft_post post = whole(NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(weft_net_send(pair.a, nobody, &post, record, &out),
				 i < 3 ? 0 : -ENOBUFS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out),
				 i < 2 ? 0 : -ENOBUFS);
	struct weft_net_stats stats = net_stats(pair.a);
	assert_int_equal(stats.refused, 2);
	assert_int_equal(stats.ops, 5);
	pass_until(pair.a, pair.b, &out.calls, 2);
	assert_int_equal(net_stats(pair.a).ops, 3);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	pass_until(pair.a, pair.b, &out.calls, 6);
	pair_close(&pair);
}

static void refused_posts_end_or_fail_with_the_code(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	struct weft_post post = whole(NULL);
	/* At once: the call fails, and no callback runs. */
	fake_refuse("fi_send", NULL, FI_EINVAL, 1);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), -FI_EINVAL);
	assert_int_equal(net_stats(pair.a).ops, 0);
	/* Later: the callback tells. */
	fake_refuse("fi_send", NULL, FI_EAGAIN, 1);
	fake_refuse("fi_send", NULL, FI_EIO, 1);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
	assert_int_equal(weft_net_poll(pair.a, 0), 1);
	assert_int_equal(out.status, -FI_EIO);
	assert_non_null(strstr(out.text, "refuses to post"));
	assert_int_equal(net_stats(pair.a).errors, 1);
	assert_int_equal(net_stats(pair.a).ops_queued, 0);
	pass(pair.a, pair.b, 10);
	assert_int_equal(out.calls, 1);
	pair_close(&pair);
}

static void wrong_posts_are_refused(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	struct fake_provider provider = fake_raw;
	pair_open(&pair, &provider, NULL);
	struct weft_buf *buf = filled(pair.a, 2000, 0);
	struct weft_buf *foreign = filled(pair.b, 10, 0);
	struct weft_post good = whole(buf);
	good.len = 1024;
	struct weft_post post = good;
#define refused(code)                                                                              \
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), code);           \
	post = good
	post.size--;
	refused(-EINVAL);
	post.flags = 2;
	refused(-EINVAL);
	post.timeout_ms = -2;
	refused(-EINVAL);
	post.off = 2001;
	post.len = 0;
	refused(-EINVAL);
	post.off = 1000;
	post.len = 1001;
	refused(-EINVAL);
	post.off = 1;
	post.len = SIZE_MAX;
	refused(-EINVAL);
	post.buf = foreign;
	post.len = 5;
	refused(-EINVAL);
	post.buf = NULL;
	post.len = 1;
	refused(-EINVAL);
	post.buf = NULL;
	post.len = 0;
	post.off = 1;
	refused(-EINVAL);
	post.len = 1025;
	refused(-EMSGSIZE);
	post.flags = WEFT_POST_CQ_DATA;
	refused(-EOPNOTSUPP);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, NULL, &out), -EINVAL);
	assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &out), -EOPNOTSUPP);
	assert_int_equal(weft_net_trecv(pair.a, &post, record, &out), -EOPNOTSUPP);
	assert_int_equal(weft_net_read(pair.a, pair.a_to_b, &post, record, &out), -EOPNOTSUPP);
	assert_int_equal(weft_net_write(pair.a, pair.a_to_b, &post, record, &out), -EOPNOTSUPP);
	assert_int_equal(weft_net_recv(pair.a, NULL, record, &out), -EINVAL);
	post.flags = WEFT_POST_CQ_DATA;
	assert_int_equal(weft_net_send(pair.a, WEFT_DEST_NONE, &post, record, &out), -ENOTCONN);
	assert_int_equal(fake_calls("fi_send"), 0);
	/* What is allowed: the last bytes, none at the end, and the longest message; receives may
	 * be longer. */
	struct weft_buf *into = filled(pair.b, 2000, 1);
	struct outcome received = {0};
	for (int i = 0; i < 3; i++) {
		post = good;
		post.off = i == 0 ? 976 : i == 1 ? 2000 : 1999;
		post.len = i == 0 ? 1024 : i == 1 ? 0 : 1;
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &received.calls, i + 1);
		pass_until(pair.a, pair.b, &out.calls, i + 1);
		assert_int_equal(received.status, 0);
		assert_int_equal(received.len, post.len);
		assert_int_equal(out.off, post.off);
		assert_int_equal(out.len, post.len);
	}
	weft_buf_unref(buf);
	weft_buf_unref(foreign);
	weft_buf_unref(into);
	pair_close(&pair);
}

static void receives_wait_for_room_too(void **state)
{
	struct pair pair;
	struct outcome received = {0}, sent = {0};
	(void)state;
	struct fake_provider provider = fake_udp;
	provider.rx_size = 2;
	pair_open(&pair, &provider, NULL);
	struct weft_buf *into = filled(pair.b, 10, 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(net_stats(pair.b).receives, 5);
	assert_int_equal(net_stats(pair.b).ops_queued, 3);
	struct weft_post post = whole(NULL);
	for (int i = 0; i < 5; i++)
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
	pass_until(pair.a, pair.b, &received.calls, 5);
	pass_until(pair.a, pair.b, &sent.calls, 5);
	assert_int_equal(net_stats(pair.b).receives, 0);
	weft_buf_unref(into);
	pair_close(&pair);
}

/* As many as the receive queue of shm and udp holds, each into its own buffer's part. */
static void a_full_receive_queue(void **state)
{
	struct pair pair;
	static struct outcome received, sent;
	enum { MANY = 1500 };
	(void)state;
	memset(&received, 0, sizeof(received));
	memset(&sent, 0, sizeof(sent));
	struct weft_net_opts opts = quiet_opts();
	opts.max_ops_per_peer = MANY;
	pair_open(&pair, &fake_shm, &opts);
	struct weft_buf *into = filled(pair.b, MANY, 0);
	struct weft_buf *from = filled(pair.a, 1, 9);
	struct weft_post room = whole(into);
	struct weft_post post = whole(from);
	room.len = 1;
	for (size_t i = 0; i < MANY; i++) {
		room.off = i;
		room.tag = i;
		assert_int_equal(weft_net_trecv(pair.b, &room, record, &received), 0);
	}
	assert_int_equal(net_stats(pair.b).ops_queued, MANY - 1024);
	for (size_t i = 0; i < MANY; i++) {
		post.tag = i;
		assert_int_equal(weft_net_tsend(pair.a, pair.a_to_b, &post, record, &sent), 0);
	}
	pass_until(pair.a, pair.b, &received.calls, MANY);
	pass_until(pair.a, pair.b, &sent.calls, MANY);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(((uint8_t *)weft_buf_data(into))[i], 9);
	weft_buf_unref(into);
	weft_buf_unref(from);
	pair_close(&pair);
}

static void count_busy(struct weft_net *net, const struct weft_done *done)
{
	record(net, done);
	assert_int_equal(weft_net_poll(net, 0), -EBUSY);
	assert_int_equal(weft_net_close(net), -EBUSY);
	assert_int_equal(weft_net_arm(net), -EBUSY);
}

static void callbacks_cannot_poll_or_close(void **state)
{
	struct pair pair;
	struct outcome out = {0};
	(void)state;
	pair_open(&pair, &fake_udp, NULL);
	struct weft_post post = whole(NULL);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, count_busy, &out), 0);
	pass_until(pair.a, pair.b, &out.calls, 1);
	assert_int_equal(out.status, 0);
	post.timeout_ms = 0;
	fake_refuse("fi_send", NULL, FI_EAGAIN, 2);
	assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, count_busy, &out), 0);
	pass_until(pair.a, pair.b, &out.calls, 2);
	assert_int_equal(out.status, -ETIMEDOUT);
	pair_close(&pair);
}

/* As the EFA provider does of a message of several packets, each of which fails. */
static void an_end_that_is_told_again(void **state)
{
	static const struct fake_provider *const kinds[] = {&fake_tcp, &fake_efa};
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct pair pair;
		struct outcome out = {0};
		fake_reset();
		pair_open(&pair, kinds[i], NULL);
		struct weft_buf *from = filled(pair.a, 100, 1);
		struct weft_post post = whole(from);
		fake_next("fi_send", NULL, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_EIO, 9, NULL});
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &out), 0);
		pass_until(pair.a, pair.b, &out.calls, 1);
		assert_int_equal(out.status, -FI_EIO);
		weft_buf_unref(from);
		logged_any(WEFT_LOG_DEBUG);
		for (int n = 0; n < 3; n++)
			fake_repeat(&pair.a_addr, FI_EIO, 9);
		pass(pair.a, pair.b, 10);
		assert_int_equal(out.calls, 1);
		assert_true(logged(WEFT_LOG_DEBUG, "once more"));
		struct weft_net_stats stats = net_stats(pair.a);
		assert_int_equal(stats.errors, 1);
		assert_int_equal(stats.ops + stats.held + stats.late, 0);
		exchange(&pair);
		pair_close(&pair);
	}
}

/* The slot has been taken for another operation, which the provider still has. */
static void an_old_end_is_not_a_new_ones(void **state)
{
	struct pair pair;
	struct outcome received = {0}, sent = {0};
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	struct weft_buf *into = filled(pair.b, 100, 0), *from = filled(pair.a, 100, 1);
	struct weft_post post = whole(from);
	for (int i = 1; i <= 10; i++) {
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
		if (i > 1) {
			fake_repeat(&pair.b_addr, FI_EIO, 9);
			pass(pair.a, pair.b, 10);
			assert_int_equal(received.calls, i - 1);
			assert_int_equal(net_stats(pair.b).receives, 1);
		}
		fake_next("fi_send", NULL, 1,
			  &(struct fake_fate){FAKE_DELIVER, 50 * FAKE_NS_PER_MS, 0, 0, NULL});
		assert_int_equal(weft_net_send(pair.a, pair.a_to_b, &post, record, &sent), 0);
		if (i > 1)
			fake_repeat(&pair.a_addr, FI_EIO, 9);
		pass_until(pair.a, pair.b, &received.calls, i);
		pass_until(pair.a, pair.b, &sent.calls, i);
		assert_int_equal(received.status, 0);
		assert_true(is_filled(into, 100, 1));
		assert_int_equal(sent.status, 0);
	}
	weft_buf_unref(into);
	weft_buf_unref(from);
	pair_close(&pair);
}

/* What is given to the provider then is no address, also where it is to give it up. */
static void a_receive_without_an_address_is_given_up(void **state)
{
	struct pair pair;
	struct outcome received = {0};
	(void)state;
	pair_open(&pair, &fake_efa, NULL);
	struct weft_buf *into = filled(pair.b, 100, 0);
	for (int i = 1; i <= 200; i++)
		assert_int_equal(weft_net_recv(pair.b, into, record, &received), 0);
	assert_int_equal(weft_net_cancel(pair.b, record, &received), 200);
	pass_until(pair.b, NULL, &received.calls, 200);
	assert_int_equal(received.status, -ECANCELED);
	assert_int_equal(net_stats(pair.b).receives, 0);
	weft_buf_unref(into);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		world_test(both_ways_on_every_kind_of_provider),
		world_test(sources_are_told_where_known),
		world_test(cq_data_travels_beside_the_bytes),
		world_test(again_of_one_peer_holds_up_no_other),
		world_test(again_of_the_endpoint_is_bounded),
		world_test(peers_are_served_in_turn),
		world_test(one_turn_hands_over_a_bounded_number),
		world_test(messages_keep_their_order_through_again),
		world_test(silent_peers_end_at_the_deadline_and_hold_the_buffer),
		world_test(late_completions_release_what_was_held),
		world_test(waited_then_taken_then_late),
		world_test(no_timeout_waits_for_ever),
		world_test(errors_reach_their_own_callback),
		world_test(broken_receives_can_be_posted_again_at_once),
		world_test(too_long_messages_end_as_the_provider_says),
		world_test(lost_and_doubled_messages_are_the_callers_to_notice),
		world_test(limits_are_kept),
		world_test(refused_posts_end_or_fail_with_the_code),
		world_test(wrong_posts_are_refused),
		world_test(receives_wait_for_room_too),
		world_test(a_full_receive_queue),
		world_test(callbacks_cannot_poll_or_close),
		world_test(an_end_that_is_told_again),
		world_test(an_old_end_is_not_a_new_ones),
		world_test(a_receive_without_an_address_is_given_up),
	};
	return world_run(tests);
}
