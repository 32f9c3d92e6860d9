/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame: how they arrive, and parts that do not fit. */
#include <errno.h>
#include <stdlib.h>

#include "bigs.h"

/* ---- what arrives */

static void sizes_both_ways(void **state)
{
	struct expected of_a, of_b;
	struct fate fates[2][8] = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	size_t most = a->info.max_frame - WEFT_FRAME_OVERHEAD;
	const size_t sizes[] = {0, 1, most - 1, most, most + 1, 2 * most, 64 * KIB, MIB};
	expect(a, &of_a);
	expect(b, &of_b);
	for (uint32_t i = 0; i < COUNT(sizes); i++) {
		uint32_t id = i + 1;
		assert_int_equal(send_big(a, peer, &of_b, id, sizes[i], -1, &fates[0][i]), 0);
		assert_int_equal(send_big(b, b->peer, &of_a, id, sizes[i], -1, &fates[1][i]), 0);
	}
	nodes_until(&a->messages, COUNT(sizes));
	nodes_until(&b->messages, COUNT(sizes));
	nodes_pass(20);
	for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
		const struct fate *fate = &fates[i % 2][i / 2];
		assert_int_equal(fate->sent, 1);
		assert_int_equal(fate->sent_status, 0);
	}
	assert_idle(a);
	assert_idle(b);
	assert_int_equal(party_stats(a).received_bytes, party_stats(b).sent_bytes);
	assert_int_equal(party_stats(a).received, COUNT(sizes));
	/* What the budget of their own memory counts comes back, too. */
	assert_int_equal(party_stats(a).messages_waiting, 0);
	assert_int_equal(party_stats(a).frames_in_flight, 0);
}

/* Out of parts, out of a buffer, and as the answer to a big one. */
static void forms(void **state)
{
	struct expected of_b;
	struct fate fate = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	uint8_t *data = malloc(100 * KIB);
	expect(b, &of_b);
	fill(data, 100 * KIB, 1);
	struct iovec parts[] = {{data, 1},
				{data, 0},
				{data + 1, 60 * KIB},
				{NULL, 0},
				{data + 1 + 60 * KIB, 40 * KIB - 1}};
	struct weft_send send = telling(NULL, 0, &fate);
	send.iov = parts;
	send.iov_count = COUNT(parts);
	of_b.sizes[0] = 100 * KIB;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	memset(data, 0, 100 * KIB);
	free(data);
	nodes_until(&b->messages, 1);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
}

static size_t answer_len;
static bool answer_right;

static void take_answer(struct weft_node *node, weft_peer peer, const struct weft_msg *msg,
			int status, void *user)
{
	struct fate *fate = user;
	(void)node;
	(void)peer;
	fate->replies++;
	fate->reply_status = status;
	answer_len = msg ? msg->len : 0;
	answer_right = msg && is_right(msg->data, msg->len, 9);
}

static void big_answers(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	b->on_message = echo;
	uint8_t *data = malloc(200 * KIB);
	fill(data, 200 * KIB, 9);
	struct weft_send send = asking(data, 200 * KIB, &fate);
	send.reply = take_answer;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	free(data);
	nodes_until(&fate.replies, 1);
	assert_int_equal(fate.reply_status, 0);
	assert_int_equal(answer_len, 200 * KIB);
	assert_true(answer_right);
	assert_int_equal(fate.sent, 1);
	assert_int_equal(a->messages, 0);
}

static void order_among_small_and_big(void **state)
{
	struct expected of_a, of_b;
	unsigned chance = 12345;
	(void)state;
	struct fake_provider *provider = party_provider(&fake_efa);
	provider->shuffles = true;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(a, &of_a);
	expect(b, &of_b);
	for (uint32_t id = 1; id <= 120; id++) {
		chance = chance * 1103515245u + 12345u;
		size_t len = (chance >> 8) % (id % 3 ? 300 : 100 * KIB);
		assert_int_equal(send_big(a, peer, &of_b, id, len, -1, NULL), 0);
		assert_int_equal(send_big(b, b->peer, &of_a, id, len / 2, -1, NULL), 0);
		if (id % 10 == 0)
			nodes_pass(1);
	}
	nodes_until(&b->messages, 120);
	nodes_until(&a->messages, 120);
	nodes_pass(20);
	assert_idle(a);
	assert_idle(b);
}

/* ---- before the session is open */

static void the_peers_frames_are_smaller(void **state)
{
	static const size_t sizes[] = {976, 977,   1000,  3000,	 4048,	 4049,
				       5,   16336, 16337, 50000, 100000, 6};
	struct expected of_b;
	struct fate fates[COUNT(sizes)] = {0};
	weft_peer peer;
	(void)state;
	struct fake_provider *provider = party_provider(&fake_tcp);
	struct party *a = open_node(NULL);
	provider->max_msg = 4096;
	struct party *b = open_node(NULL);
	expect(b, &of_b);
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	for (uint32_t i = 0; i < COUNT(sizes); i++)
		assert_int_equal(send_big(a, peer, &of_b, i + 1, sizes[i], -1, &fates[i]), 0);
	nodes_until(&b->messages, COUNT(sizes));
	assert_int_equal(a->info.max_frame, 4096);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		nodes_until(&fates[i].sent, 1);
		assert_int_equal(fates[i].sent_status, 0);
	}
	assert_int_equal(only_peer(a)->s.tx_acked, only_peer(a)->s.tx_queued);
	/* What is queued after that keeps to it from the beginning. */
	assert_int_equal(send_big(a, peer, &of_b, 13, 4049, -1, NULL), 0);
	nodes_until(&b->messages, 13);
	assert_idle(a);
	assert_idle(b);
}

static void longer_than_the_peer_takes(void **state)
{
	struct expected of_b;
	struct fate fates[2] = {0};
	weft_peer peer;
	(void)state;
	struct party *a = open_node(NULL), *b = open_with_budget(MIB, 50000);
	expect(b, &of_b);
	peer = meet(a, b);
	assert_int_equal(a->info.max_message, 50000);
	assert_int_equal(send_big(a, peer, NULL, 1, 50001, -1, NULL), -EMSGSIZE);
	assert_int_equal(send_big(a, peer, &of_b, 1, 50000, -1, NULL), 0);
	nodes_until(&b->messages, 1);
	/* A session that is not open yet does not know. */
	struct party *c = open_node(NULL);
	assert_int_equal(weft_peer_connect(c->node, &b->addr, -1, &peer), 0);
	assert_int_equal(send_big(c, peer, NULL, 1, 10, -1, &fates[0]), 0);
	assert_int_equal(send_big(c, peer, NULL, 2, 50001, -1, &fates[1]), 0);
	nodes_until(&c->closed, 1);
	assert_int_equal(c->end.reason, WEFT_REASON_PROTOCOL);
	assert_non_null(strstr(c->why, "longer than the peer takes"));
	assert_int_equal(fates[0].sent + fates[1].sent, 2);
	assert_true(fates[1].sent_status < 0);
	assert_idle(c);
	/* Nor does it matter what nobody takes at all. */
	struct weft_send send = WEFT_SEND_INIT;
	send.data = &send;
	send.len = UINT32_MAX;
	assert_int_equal(weft_peer_connect(c->node, &b->addr, -1, &peer), 0);
	assert_int_equal(weft_peer_send(c->node, peer, &send), -EMSGSIZE);
}

/* ---- parts that do not fit */

struct part {
	uint32_t id, len, rest;
};

#define ALONE                                                                                      \
	{                                                                                          \
		0, 0, 0                                                                            \
	}

static void send_parts(struct raw *raw, const struct part *parts, size_t count)
{
	uint8_t body[2048] = {0};
	size_t at = 0;
	for (size_t i = 0; i < count && parts[i].id != 0; i++) {
		weft__wire_put_record(body + at, parts[i].id, 0, parts[i].len);
		weft__wire_put_rest(body + at, parts[i].rest);
		at += weft__record_room(parts[i].len);
	}
	raw_frame(raw, WEFT__DATA, body, at);
	nodes_pass(6);
}

static void parts_that_do_not_fit(void **state)
{
	/* Three frames, of at most two records each; the last one that there is is the wrong one.
	 */
	static const struct part cases[][3][2] = {
		/* The first part: of nothing, of the wrong message, too long, with company. */
		{{{1, 0, 100}}},
		{{{2, 10, 100}}},
		{{{7, 10, 0}}},
		{{{1, 10, 100000}}},
		{{{1, 10, UINT32_MAX - 1}}},
		{{{1, 10, 100}, {2, 10, 0}}},
		{{{1, 10, 0}, {2, 10, 100}}},
		/* Given up with bytes, under a wrong id, with company. */
		{{{1, 10, UINT32_MAX}}},
		{{{3, 0, UINT32_MAX}}},
		{{{1, 0, UINT32_MAX}, {2, 10, 0}}},
		/* A rest that does not go down by what came. */
		{{{1, 10, 100}}, {{1, 10, 100}}},
		{{{1, 10, 100}}, {{1, 10, 91}}},
		{{{1, 10, 100}}, {{1, 10, 89}}},
		{{{1, 10, 100}}, {{1, 10, 0}}},
		{{{1, 10, 100}}, {{1, 101, 0}}},
		{{{1, 10, 100}}, {{1, 200, 0}}},
		{{{1, 10, 100}}, {{1, 0, 100}}},
		{{{1, 10, 100}}, {{1, 10, 90}}, {{1, 10, 90}}},
		{{{1, 10, 0xfffffff0}}},
		/* Another message in between. */
		{{{1, 10, 100}}, {{2, 10, 0}}},
		{{{1, 10, 100}}, {{2, 100, 0}}},
		{{{1, 10, 100}}, {{2, 10, 90}}},
		{{{1, 10, 100}}, {{2, 0, UINT32_MAX}}},
		{{{1, 10, 100}}, {{1, 100, 0}, {2, 1, 0}}},
		{{{1, 10, 100}}, {{1, 1, UINT32_MAX}}},
		{{{1, 10, 100}}, {{1, 0, UINT32_MAX}, {2, 1, 0}}},
		/* Given up is given up. */
		{{{1, 10, 100}}, {{1, 0, UINT32_MAX}}, {{1, 100, 0}}},
		{{{1, 10, 100}}, {{1, 0, UINT32_MAX}}, {{1, 0, UINT32_MAX}}},
		/* Whole is whole. */
		{{{1, 10, 100}}, {{1, 100, 0}}, {{1, 10, 0}}},
	};
	(void)state;
	struct party *b = open_with_budget(200000, 100000);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct raw raw;
		int closed = b->closed;
		print_message("case %zu\n", i);
		raw_open(&raw, b);
		raw.hello.session += 16 * i;
		raw.hello.instance += 16 * i;
		raw_meet(&raw);
		for (size_t n = 0; n < 3 && cases[i][n][0].id != 0; n++) {
			assert_int_equal(b->closed, closed);
			send_parts(&raw, cases[i][n], 2);
		}
		assert_int_equal(b->closed, closed + 1);
		assert_int_equal(b->end.reason, WEFT_REASON_PROTOCOL);
		assert_int_equal(b->end.by_peer, 0);
		assert_int_equal(raw_farewell(&raw, WEFT__CLOSE).reason, WEFT_REASON_PROTOCOL);
		assert_idle(b);
		raw_close(&raw);
	}
	/* What is right is taken, in parts of any length. */
	static struct raw raw;
	raw_open(&raw, b);
	raw_meet(&raw);
	b->messages = 0;
	static const struct part good[][2] = {
		{{1, 10, 99990}},     {{1, 1, 99989}}, {{1, 0, UINT32_MAX}},
		{{2, 1, 1}},	      {{2, 1, 0}},     {{3, 5, 0}, {4, 6, 0}},
		{{5, 0, UINT32_MAX}}, {{6, 10, 10}},   {{6, 10, 0}},
	};
	for (size_t i = 0; i < COUNT(good); i++)
		send_parts(&raw, good[i], 2);
	assert_int_equal(b->messages, 4);
	assert_int_equal(b->msg.id, 6);
	assert_int_equal(b->len, 20);
	assert_int_equal(b->closed, (int)COUNT(cases));
	assert_idle(b);
}

/* Too long is too long, also where it fits a frame. */
static void a_small_one_that_is_too_long(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *b = open_with_budget(1000, 10);
	raw_open(&raw, b);
	raw_meet(&raw);
	raw_data(&raw, "0123456789");
	nodes_until(&b->messages, 1);
	raw_data(&raw, "0123456789a");
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_PROTOCOL);
	assert_non_null(strstr(b->why, "a message of 11 bytes, and at most 10 are taken"));
	assert_int_equal(b->messages, 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		both_ways(sizes_both_ways),
		both_ways(forms),
		both_ways(big_answers),
		in_parts(order_among_small_and_big),
		in_parts(the_peers_frames_are_smaller),
		both_ways(longer_than_the_peer_takes),
		in_parts(parts_that_do_not_fit),
		in_parts(a_small_one_that_is_too_long),
	};
	return world_run(tests);
}
