/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame: their parts, their memory, and how they end when something does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "nodeimpl.h"
#include "nodes.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define EXPECTED_MAX 400

/* ---- contents */

static void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16) + (size_t)seed * 31);
}

static bool is_right(const uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] != (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16) + (size_t)seed * 31))
			return false;
	}
	return true;
}

/* What a party is to receive: the message with id i has sizes[i - 1] bytes of seed i. */
struct expected {
	size_t sizes[EXPECTED_MAX];
	uint32_t last;
	bool hold; /* those that are longer than a frame */
	struct weft_msg *held[16];
	int held_count;
};

static void expect(struct party *party, struct expected *expected);

static void take_expected(struct party *party, const struct weft_msg *msg)
{
	struct expected *expected = party->user;
	assert_true(msg->id > expected->last && msg->id <= EXPECTED_MAX);
	expected->last = msg->id;
	assert_int_equal(msg->len, expected->sizes[msg->id - 1]);
	assert_true(is_right(msg->data, msg->len, msg->id));
	if (!expected->hold || msg->len < 17 * KIB)
		return;
	assert_true(expected->held_count < (int)COUNT(expected->held));
	struct weft_msg *held = weft_msg_hold(party->node, msg);
	assert_non_null(held);
	expected->held[expected->held_count++] = held;
}

static void expect(struct party *party, struct expected *expected)
{
	memset(expected, 0, sizeof(*expected));
	party->user = expected;
	party->on_message = take_expected;
}

/* The next message of a session that has had id - 1, with the contents that take_expected() checks.
 */
static int send_big(struct party *from, weft_peer peer, struct expected *expected, uint32_t id,
		    size_t len, int timeout_ms, struct fate *fate)
{
	uint8_t *data = malloc(len > 0 ? len : 1);
	assert_non_null(data);
	fill(data, len, id);
	struct weft_send send = WEFT_SEND_INIT;
	if (fate)
		send = telling(data, len, fate);
	send.data = data;
	send.len = len;
	send.timeout_ms = timeout_ms;
	int ret = weft_peer_send(from->node, peer, &send);
	if (ret == 0 && expected)
		expected->sizes[id - 1] = len;
	/* It is read during the call only. */
	memset(data, 0, len);
	free(data);
	return ret;
}

/* ---- looking into the books */

static struct weft__peer *only_peer(const struct party *party)
{
	struct weft__peer *found = NULL;
	for (uint32_t i = 0; i < party->node->table_size; i++) {
		if (!party->node->table[i])
			continue;
		assert_null(found);
		found = party->node->table[i];
	}
	return found;
}

/* Nothing is reserved, and nobody waits, when receives that were cancelled have come back. */
static void assert_idle(const struct party *party)
{
	nodes_pass(5);
	const struct weft__blocks *blocks = &party->node->blocks;
	assert_int_equal(blocks->bytes, 0);
	assert_int_equal(blocks->copies, 0);
	assert_true(TAILQ_EMPTY(&blocks->used));
	assert_true(TAILQ_EMPTY(&party->node->starved));
}

static void assert_within_budget(const struct party *party)
{
	const struct weft__blocks *blocks = &party->node->blocks;
	const struct weft__block *block;
	size_t used = 0, copies = 0, kept = 0;
	TAILQ_FOREACH (block, &blocks->used, link) {
		used += block->size;
		copies += block->copy ? block->size : 0;
	}
	TAILQ_FOREACH (block, &blocks->kept, link)
		kept += block->size;
	assert_int_equal(used, blocks->bytes);
	assert_int_equal(copies, blocks->copies);
	assert_int_equal(kept, blocks->kept_bytes);
	assert_true(used + kept <= party->node->opts.message_budget);
	assert_true(copies <= party->node->opts.message_budget / 2);
}

static struct weft_progress progress_of(const struct party *party, weft_peer peer)
{
	struct weft_progress progress = WEFT_PROGRESS_INIT;
	assert_int_equal(weft_peer_get_progress(party->node, peer, &progress), 0);
	return progress;
}

/* Lets time pass until some of a message has come, but not all of it. */
static void reach_the_middle(struct party *from, struct party *to)
{
	struct weft_progress progress = WEFT_PROGRESS_INIT;
	for (int i = 0; i < 1000 && progress.in_done == 0; i++) {
		assert_true(weft_node_poll(from->node, 0) >= 0);
		assert_true(weft_node_poll(to->node, 0) >= 0);
		fake_advance_ns(20000);
		progress = progress_of(to, to->peer);
	}
	assert_true(progress.in_done > 0 && progress.in_done < progress.in_len);
}

/* Whether big messages go in tagged chunks, or in parts. */
static bool in_chunks;

static struct party *open_node(const struct weft_node_opts *opts)
{
	struct weft_node_opts mine = opts ? *opts : node_opts();
	/* Few frames, because opening a node takes long with many. */
	mine.recv_budget = 256 * (16 * KIB);
	struct party *party = party_open(&mine);
	if (in_chunks)
		assert_true(party->node->features & WEFT__FEATURE_BULK);
	party->node->features = in_chunks ? WEFT__FEATURE_BULK : 0;
	return party;
}

static struct party *open_with_budget(size_t budget, uint64_t max_message)
{
	struct weft_node_opts opts = node_opts();
	opts.message_budget = budget;
	opts.max_message = max_message;
	return open_node(&opts);
}

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

static void echo(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = msg->data;
	send.len = msg->len;
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
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

/* ---- memory */

static void a_message_waits_for_memory(void **state)
{
	struct expected of_c = {0};
	struct fate fates[3] = {0};
	(void)state;
	struct party *c = open_with_budget(300 * KIB, 250 * KIB);
	struct party *a = open_node(NULL), *b = open_node(NULL), *d = open_node(NULL);
	weft_peer from_a = meet(a, c), from_b = meet(b, c), from_d = meet(d, c);
	expect(c, &of_c);
	of_c.hold = true;
	assert_int_equal(send_big(a, from_a, &of_c, 1, 200 * KIB, -1, &fates[0]), 0);
	nodes_until(&c->messages, 1);
	of_c.last = 0;
	assert_int_equal(send_big(b, from_b, &of_c, 1, 200 * KIB, -1, &fates[1]), 0);
	assert_int_equal(send_big(b, from_b, &of_c, 2, 100, -1, &fates[2]), 0);
	nodes_pass(100);
	assert_int_equal(c->messages, 1);
	/* Others go on, and nobody is given up meanwhile. */
	for (uint32_t id = 1; id <= 30; id++) {
		of_c.last = 0;
		of_c.sizes[0] = 200 * KIB;
		c->on_message = NULL;
		assert_int_equal(say(d, from_d, "meanwhile", NULL), 0);
		nodes_pass(2000);
		assert_int_equal(c->messages, 1 + id);
		assert_within_budget(c);
	}
	c->on_message = take_expected;
	assert_int_equal(a->closed + b->closed + c->closed + d->closed, 0);
	assert_int_equal(fates[1].sent + fates[2].sent, 0);
	/* It is not asked for at each frame that comes. */
	assert_in_range(c->places, 2, 5);
	weft_msg_release(of_c.held[0]);
	of_c.held_count = 0;
	nodes_until(&c->messages, 33);
	nodes_until(&fates[1].sent, 1);
	nodes_until(&fates[2].sent, 1);
	assert_int_equal(fates[1].sent_status, 0);
	assert_int_equal(fates[2].sent_status, 0);
	assert_int_equal(of_c.last, 2);
	weft_msg_release(of_c.held[0]);
	assert_idle(c);
}

/* A frame that was late and then waits for memory is no frame that is missing. */
static void late_and_then_without_memory(void **state)
{
	struct expected of_c;
	(void)state;
	struct party *c = open_with_budget(300 * KIB, 250 * KIB);
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 3000;
	struct party *a = open_node(&opts);
	weft_peer peer = meet(a, c);
	expect(c, &of_c);
	of_c.hold = true;
	assert_int_equal(send_big(a, peer, &of_c, 1, 200 * KIB, -1, NULL), 0);
	nodes_until(&c->messages, 1);
	nodes_pass(10);
	struct fake_fate late = {FAKE_DELIVER, 20 * FAKE_NS_PER_MS, 0, 0, NULL};
	fake_next("fi_send", &c->addr, 1, &late);
	assert_int_equal(send_big(a, peer, &of_c, 2, 200 * KIB, -1, NULL), 0);
	nodes_pass(10);
	assert_true(only_peer(c)->s.gap_ms != 0);
	nodes_pass(20000);
	assert_int_equal(c->closed + a->closed, 0);
	weft_msg_release(of_c.held[0]);
	nodes_until(&c->messages, 2);
	weft_msg_release(of_c.held[1]);
}

/* The first to wait is the first to be served, though another could be at once. */
static void memory_in_turn(void **state)
{
	struct expected of_c;
	(void)state;
	struct party *c = open_with_budget(300 * KIB, 250 * KIB);
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer from_a = meet(a, c), from_b = meet(b, c);
	expect(c, &of_c);
	of_c.hold = true;
	assert_int_equal(send_big(a, from_a, &of_c, 1, 200 * KIB, -1, NULL), 0);
	nodes_until(&c->messages, 1);
	assert_int_equal(send_big(a, from_a, &of_c, 2, 210 * KIB, -1, NULL), 0);
	nodes_pass(10);
	of_c.last = 0;
	c->on_message = NULL;
	assert_int_equal(send_big(b, from_b, NULL, 1, 50 * KIB, -1, NULL), 0);
	nodes_pass(10);
	assert_int_equal(c->messages, 1);
	weft_msg_release(of_c.held[0]);
	nodes_until(&c->messages, 3);
	assert_idle(c);
}

static struct weft_msg *kept_back[2];
static int kept_count;

/* Holds the first two messages, and releases the first of them when the third comes. */
static void release_at_the_third(struct party *party, const struct weft_msg *msg)
{
	if (party->messages <= 2)
		kept_back[kept_count++] = weft_msg_hold(party->node, msg);
	else if (party->messages == 3)
		weft_msg_release(kept_back[0]);
}

/* Memory that becomes free while those who wait are being asked is not forgotten. */
static void freed_while_being_asked(void **state)
{
	(void)state;
	struct party *c = open_with_budget(300 * KIB, 250 * KIB);
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer from_a = meet(a, c), from_b = meet(b, c);
	kept_count = 0;
	c->on_message = release_at_the_third;
	assert_int_equal(send_big(a, from_a, NULL, 1, 150 * KIB, -1, NULL), 0);
	assert_int_equal(send_big(a, from_a, NULL, 2, 100 * KIB, -1, NULL), 0);
	nodes_until(&c->messages, 2);
	/* The first to wait needs more than what the second one leaves, the second little. */
	assert_int_equal(send_big(a, from_a, NULL, 3, 250 * KIB, -1, NULL), 0);
	nodes_pass(10);
	assert_int_equal(send_big(b, from_b, NULL, 1, 60 * KIB, -1, NULL), 0);
	nodes_pass(50);
	assert_int_equal(c->messages, 2);
	/* That releases the rest, which is enough for the first. */
	weft_msg_release(kept_back[1]);
	nodes_until(&c->messages, 4);
	assert_int_equal(c->len, 250 * KIB);
	assert_idle(c);
}

/* A message is waiting for memory that becomes free between two turns. */
static void armed_after_a_release(void **state)
{
	struct expected of_c;
	(void)state;
	struct party *c = open_with_budget(300 * KIB, 250 * KIB);
	struct party *a = open_node(NULL);
	weft_peer peer = meet(a, c);
	expect(c, &of_c);
	of_c.hold = true;
	assert_int_equal(send_big(a, peer, &of_c, 1, 200 * KIB, -1, NULL), 0);
	assert_int_equal(send_big(a, peer, &of_c, 2, 200 * KIB, -1, NULL), 0);
	nodes_until(&c->messages, 1);
	nodes_pass(50);
	assert_true(weft_node_arm(c->node) > 0);
	weft_msg_release(of_c.held[0]);
	assert_int_equal(weft_node_arm(c->node), 0);
	nodes_until(&c->messages, 2);
	weft_msg_release(of_c.held[1]);
}

/* Each node is full of messages for the other: that must not keep them from arriving. */
static void two_who_are_full(void **state)
{
	struct expected of_a, of_b;
	uint32_t sent[2] = {0};
	(void)state;
	struct party *a = open_with_budget(MIB, 0), *b = open_with_budget(MIB, 0);
	weft_peer peer = meet(a, b);
	assert_int_equal(b->info.max_message, 512 * KIB);
	expect(a, &of_a);
	expect(b, &of_b);
	while (send_big(a, peer, &of_b, sent[0] + 1, 100 * KIB, -1, NULL) == 0)
		sent[0]++;
	while (send_big(b, b->peer, &of_a, sent[1] + 1, 500 * KIB, -1, NULL) == 0)
		sent[1]++;
	assert_int_equal(sent[0], 5);
	assert_int_equal(sent[1], 1);
	assert_within_budget(a);
	nodes_until(&b->messages, 5);
	nodes_until(&a->messages, 1);
	nodes_pass(10);
	assert_idle(a);
	assert_idle(b);
}

static int accepted_again;

static void send_again(struct party *party, weft_peer peer)
{
	accepted_again += send_big(party, peer, NULL, 1, 100 * KIB, -1, NULL) == 0;
}

static void no_room_for_a_copy(void **state)
{
	struct weft_buf *buf;
	(void)state;
	accepted_again = 0;
	struct party *a = open_with_budget(400 * KIB, 0), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	b->stopped = true;
	assert_int_equal(send_big(a, peer, NULL, 1, 200 * KIB + 1, -1, NULL), -EMSGSIZE);
	assert_int_equal(send_big(a, peer, NULL, 1, 100 * KIB, -1, NULL), 0);
	assert_int_equal(send_big(a, peer, NULL, 2, 90 * KIB, -1, NULL), 0);
	a->on_writable = send_again;
	assert_int_equal(send_big(a, peer, NULL, 3, 100 * KIB, -1, NULL), -ENOBUFS);
	assert_int_equal(party_stats(a).no_buffers, 1);
	/* What is not copied needs no memory, and what is short has its own. */
	assert_int_equal(weft_buf_alloc(weft_node_net(a->node), 300 * KIB, &buf), 0);
	struct weft_send send = WEFT_SEND_INIT;
	send.buf = buf;
	send.len = 300 * KIB;
	send.timeout_ms = -1;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	assert_int_equal(say(a, peer, "small", NULL), 0);
	assert_within_budget(a);
	/* Nobody is told to try again while that would be in vain. */
	nodes_pass(500);
	assert_int_equal(a->writable, 0);
	b->stopped = false;
	nodes_until(&a->writable, 1);
	nodes_until(&b->messages, 5);
	assert_int_equal(a->writable, 1);
	assert_int_equal(accepted_again, 1);
	nodes_pass(10);
	assert_idle(a);
	weft_buf_unref(buf);
}

static void longer_than_the_budget(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *c = open_with_budget(100 * KIB, MIB);
	struct party *a = open_node(NULL);
	weft_peer peer = meet(a, c);
	assert_int_equal(send_big(a, peer, NULL, 1, 100 * KIB + 1, -1, &fate), 0);
	nodes_until(&a->closed, 1);
	nodes_until(&c->closed, 1);
	assert_int_equal(c->end.reason, WEFT_REASON_MEMORY);
	assert_int_equal(a->end.reason, WEFT_REASON_MEMORY);
	assert_int_equal(a->end.by_peer, 1);
	assert_non_null(strstr(c->why, "a message of 102401 bytes"));
	assert_true(fate.sent == 1 && fate.sent_status < 0);
	assert_idle(a);
	assert_idle(c);
}

static void no_memory_for_it(void **state)
{
	(void)state;
	struct party *a = open_node(NULL), *c = open_node(NULL);
	weft_peer peer = meet(a, c);
	struct fate fate = {0};
	fake_refuse("mmap", NULL, ENOMEM, 1);
	fake_refuse("aligned_alloc", NULL, ENOMEM, 1);
	fake_refuse("posix_memalign", NULL, ENOMEM, 1);
	int ret = send_big(a, peer, NULL, 1, 100 * KIB, -1, &fate);
	fake_no_faults();
	assert_int_equal(ret, -ENOMEM);
	assert_idle(a);
	assert_int_equal(party_stats(a).messages_waiting, 0);
	/* It has taken no id, and nothing is left of it. */
	assert_int_equal(send_big(a, peer, NULL, 1, 100 * KIB, -1, &fate), 0);
	nodes_until(&c->messages, 1);
	assert_int_equal(c->msg.id, 1);
}

/* Those that the caller holds count, until they are released; a few blocks are kept for the next.
 */
static void held_and_kept(void **state)
{
	struct expected of_b;
	(void)state;
	struct party *a = open_with_budget(400 * MIB, 0), *b = open_with_budget(73 * MIB, 0);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	of_b.hold = true;
	for (uint32_t id = 1; id <= 9; id++)
		assert_int_equal(send_big(a, peer, &of_b, id, 9 * MIB, -1, NULL), 0);
	nodes_until(&b->messages, 8);
	nodes_pass(200);
	assert_int_equal(b->messages, 8);
	assert_int_equal(b->node->blocks.bytes, 72 * MIB);
	assert_int_equal(party_stats(b).held, 8);
	assert_true(party_stats(b).memory > 72 * MIB);
	assert_true(is_right(of_b.held[0]->data, 9 * MIB, 1));
	weft_msg_release(of_b.held[0]);
	nodes_until(&b->messages, 9);
	assert_within_budget(b);
	for (int i = 1; i < 9; i++) {
		assert_true(is_right(of_b.held[i]->data, 9 * MIB, (unsigned)i + 1));
		weft_msg_release(of_b.held[i]);
	}
	assert_idle(b);
	assert_in_range(b->node->blocks.kept_bytes, 9 * MIB, 68 * MIB);
	assert_in_range(a->node->blocks.kept_bytes, 9 * MIB, 68 * MIB);
	/* One of these is used again, but not for what is much shorter. */
	size_t kept = b->node->blocks.kept_bytes;
	of_b.held_count = 0;
	assert_int_equal(send_big(a, peer, &of_b, 10, 8 * MIB, -1, NULL), 0);
	nodes_until(&b->messages, 10);
	assert_int_equal(b->node->blocks.kept_bytes, kept - 9 * MIB);
	assert_int_equal(send_big(a, peer, &of_b, 11, MIB, -1, NULL), 0);
	nodes_until(&b->messages, 11);
	assert_int_equal(b->node->blocks.kept_bytes, kept - 9 * MIB);
	/* What is longer than all that is kept makes room for itself. */
	assert_int_equal(send_big(a, peer, &of_b, 12, 36 * MIB, -1, NULL), 0);
	nodes_until(&b->messages, 12);
	assert_within_budget(b);
	for (int i = 0; i < 3; i++)
		weft_msg_release(of_b.held[i]);
	assert_idle(b);
	assert_true(b->node->blocks.kept_bytes <= 68 * MIB);
}

/* ---- memory of the caller's */

static void without_a_copy(void **state)
{
	struct expected of_b;
	struct fate fate = {0};
	struct weft_buf *buf;
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	assert_int_equal(weft_buf_alloc(weft_node_net(a->node), 100 + 6 * MIB, &buf), 0);
	fill((uint8_t *)weft_buf_data(buf) + 100, 6 * MIB, 1);
	of_b.sizes[0] = 6 * MIB;
	struct weft_send send = telling(NULL, 6 * MIB, &fate);
	send.buf = buf;
	send.off = 100;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	assert_int_equal(a->node->blocks.bytes, 0);
	assert_int_equal(buf->refs, 2);
	/* The library's reference is enough. */
	weft_buf_ref(buf);
	weft_buf_unref(buf);
	weft_buf_unref(buf);
	reach_the_middle(a, b);
	assert_true(buf->refs >= 1);
	assert_int_equal(fate.sent, 0);
	nodes_until(&b->messages, 1);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
}

static struct weft_buf *place;
static size_t place_off;

static struct weft_buf *give_place(struct party *party, size_t len, size_t *off)
{
	(void)party;
	assert_true(len >= 100 * KIB);
	*off = place_off;
	return place;
}

static const void *shown_at;

static void note_where(struct party *party, const struct weft_msg *msg)
{
	(void)party;
	shown_at = msg->data;
	assert_true(is_right(msg->data, msg->len, msg->id));
}

static void a_place_of_the_receivers(void **state)
{
	struct weft_buf *others;
	(void)state;
	struct party *a = open_node(NULL), *b = open_with_budget(300 * KIB, 200 * KIB);
	weft_peer peer = meet(a, b);
	b->on_place = give_place;
	b->on_message = note_where;
	assert_int_equal(weft_buf_alloc(weft_node_net(b->node), 100 * KIB + 64, &place), 0);
	place_off = 64;
	assert_int_equal(send_big(a, peer, NULL, 1, 100 * KIB, -1, NULL), 0);
	while (b->places == 0)
		nodes_pass(1);
	assert_int_equal(b->node->blocks.bytes, 0);
	nodes_until(&b->messages, 1);
	assert_ptr_equal(shown_at, (uint8_t *)weft_buf_data(place) + 64);
	assert_int_equal(place->refs, 1);
	assert_idle(b);
	/* Only what is longer than a frame asks for it. */
	assert_int_equal(say(a, peer, "short", NULL), 0);
	b->on_message = NULL;
	nodes_until(&b->messages, 2);
	assert_int_equal(b->places, 1);
	b->on_message = note_where;

	/* What does not fit there goes to memory of the library's own. */
	place_off = 65;
	assert_int_equal(send_big(a, peer, NULL, 3, 100 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 3);
	assert_true((const uint8_t *)shown_at < (uint8_t *)weft_buf_data(place) ||
		    (const uint8_t *)shown_at >= (uint8_t *)weft_buf_data(place) + 100 * KIB + 64);
	place_off = SIZE_MAX;
	assert_int_equal(send_big(a, peer, NULL, 4, 100 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 4);
	/* So does what is another net's. */
	struct weft_buf *mine = place;
	assert_int_equal(weft_buf_alloc(weft_node_net(a->node), 100 * KIB, &others), 0);
	place = others;
	place_off = 0;
	assert_int_equal(send_big(a, peer, NULL, 5, 100 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 5);
	assert_ptr_not_equal(shown_at, weft_buf_data(others));
	assert_int_equal(others->refs, 1);
	weft_buf_unref(others);

	/* It is a way around a budget that is full, and stays where it is while it is held. */
	struct expected of_b;
	expect(b, &of_b);
	of_b.hold = true;
	place = NULL;
	assert_int_equal(send_big(a, peer, &of_b, 6, 200 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 6);
	assert_int_equal(b->node->blocks.bytes, 200 * KIB);
	assert_int_equal(send_big(a, peer, &of_b, 7, 100 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 7);
	place = mine;
	assert_int_equal(send_big(a, peer, &of_b, 8, 100 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 8);
	assert_int_equal(mine->refs, 3);
	for (int i = 0; i < 3; i++)
		weft_msg_release(of_b.held[i]);
	assert_int_equal(mine->refs, 1);
	assert_idle(b);
	weft_buf_unref(mine);
}

static struct weft_buf *close_instead(struct party *party, size_t len, size_t *off)
{
	(void)len;
	(void)off;
	assert_int_equal(weft_peer_close(party->node, party->peer, 0), 0);
	return place;
}

/* The callback may do anything. */
static void closed_while_asked_for_a_place(void **state)
{
	(void)state;
	for (int with = 0; with <= 1; with++) {
		struct fate fate = {0};
		struct party *a = open_node(NULL), *b = open_node(NULL);
		weft_peer peer = meet(a, b);
		b->on_place = close_instead;
		place = NULL;
		if (with)
			assert_int_equal(weft_buf_alloc(weft_node_net(b->node), 200 * KIB, &place),
					 0);
		assert_int_equal(send_big(a, peer, NULL, 1, 200 * KIB, -1, &fate), 0);
		nodes_until(&b->closed, 1);
		nodes_until(&a->closed, 1);
		assert_int_equal(b->places, 1);
		assert_int_equal(b->messages, 0);
		assert_int_equal(fate.sent_status, -ECONNRESET);
		assert_idle(a);
		assert_idle(b);
		weft_buf_unref(place);
	}
}

/* ---- deadlines */

static void given_up_in_the_middle(void **state)
{
	struct expected of_b;
	struct fate fates[4] = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	assert_int_equal(send_big(a, peer, &of_b, 1, 8 * MIB, 200, &fates[0]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 2, 10, -1, &fates[1]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 3, 100 * KIB, -1, &fates[2]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 4, 11, -1, &fates[3]), 0);
	reach_the_middle(a, b);
	b->stopped = true;
	nodes_pass(190);
	assert_int_equal(fates[0].sent, 0);
	nodes_pass(30);
	assert_int_equal(fates[0].sent, 1);
	assert_int_equal(fates[0].sent_status, -ETIMEDOUT);
	b->stopped = false;
	nodes_until(&b->messages, 3);
	assert_int_equal(of_b.last, 4);
	for (int i = 1; i < 4; i++) {
		nodes_until(&fates[i].sent, 1);
		assert_int_equal(fates[i].sent_status, 0);
	}
	nodes_pass(10);
	assert_int_equal(b->messages, 3);
	assert_int_equal(fates[0].sent, 1);
	assert_int_equal(only_peer(a)->s.tx_acked, only_peer(a)->s.tx_queued);
	assert_idle(a);
	assert_idle(b);
	/* The next ones go as if nothing had happened, and so does the end. */
	assert_int_equal(send_big(a, peer, &of_b, 5, 50 * KIB, -1, NULL), 0);
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	nodes_until(&a->closed, 1);
	assert_int_equal(of_b.last, 5);
	assert_int_equal(a->end.status, 0);
}

/* Nothing of it had been sent: it waits behind another one, or for the first credit. */
static void given_up_before_the_first_part(void **state)
{
	struct expected of_b;
	struct fate fates[4] = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	b->stopped = true;
	assert_int_equal(send_big(a, peer, &of_b, 1, 100 * KIB, -1, &fates[0]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 2, 500 * KIB, 100, &fates[1]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 3, 600 * KIB, 100, &fates[2]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 4, 7, -1, &fates[3]), 0);
	nodes_pass(150);
	assert_int_equal(fates[1].sent_status, -ETIMEDOUT);
	assert_int_equal(fates[2].sent_status, -ETIMEDOUT);
	b->stopped = false;
	nodes_until(&b->messages, 2);
	nodes_until(&fates[3].sent, 1);
	assert_int_equal(of_b.last, 4);
	assert_int_equal(fates[0].sent_status, 0);
	assert_int_equal(fates[3].sent_status, 0);
	assert_int_equal(fates[1].sent + fates[2].sent, 2);
	assert_int_equal(only_peer(a)->s.tx_acked, only_peer(a)->s.tx_queued);
	assert_idle(a);
	assert_idle(b);
}

static void given_up_while_connecting(void **state)
{
	struct expected of_b;
	struct fate fates[3] = {0};
	weft_peer peer;
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	expect(b, &of_b);
	b->stopped = true;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(send_big(a, peer, &of_b, 1, 5, -1, &fates[0]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 2, 500 * KIB, 100, &fates[1]), 0);
	assert_int_equal(send_big(a, peer, &of_b, 3, 100 * KIB, -1, &fates[2]), 0);
	nodes_pass(150);
	assert_int_equal(fates[1].sent_status, -ETIMEDOUT);
	b->stopped = false;
	nodes_until(&b->messages, 2);
	nodes_until(&fates[2].sent, 1);
	assert_int_equal(of_b.last, 3);
	assert_int_equal(fates[0].sent_status, 0);
	assert_int_equal(fates[2].sent_status, 0);
	assert_int_equal(fates[1].sent, 1);
	assert_idle(a);
	assert_idle(b);
}

/* The receiver had no memory for it yet. */
static void given_up_while_it_waits_for_memory(void **state)
{
	struct expected of_c;
	struct fate fate = {0};
	(void)state;
	struct party *c = open_with_budget(6 * MIB, 4 * MIB), *a = open_node(NULL);
	weft_peer peer = meet(a, c);
	expect(c, &of_c);
	of_c.hold = true;
	assert_int_equal(send_big(a, peer, &of_c, 1, 4 * MIB, -1, NULL), 0);
	nodes_until(&c->messages, 1);
	assert_int_equal(send_big(a, peer, &of_c, 2, 4 * MIB, 300, &fate), 0);
	assert_int_equal(send_big(a, peer, &of_c, 3, 3, -1, NULL), 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, -ETIMEDOUT);
	weft_msg_release(of_c.held[0]);
	nodes_until((const int *)&of_c.last, 3);
	/* The receiver hears of it as soon as it begins. */
	assert_int_equal(c->messages, 2);
	assert_idle(a);
	assert_idle(c);
}

/* An answer that comes after all is counted, and shown to nobody. */
static void late_answer(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	b->on_message = echo;
	uint8_t *data = calloc(1, 200 * KIB);
	struct weft_send send = asking(data, 200 * KIB, &fate);
	send.timeout_ms = 300;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	free(data);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
	if (fate.replies == 0) {
		b->stopped = true;
		nodes_pass(400);
		b->stopped = false;
		assert_int_equal(fate.reply_status, -ETIMEDOUT);
		nodes_pass(50);
		assert_int_equal(party_stats(a).late_replies, 1);
	}
	assert_int_equal(fate.replies, 1);
	assert_int_equal(a->messages, 0);
	assert_idle(a);
}

/* As long as parts leave, time is not up. */
static void the_deadline_follows(void **state)
{
	struct expected of_b;
	struct fate fate = {0};
	int rounds = 0;
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	assert_int_equal(send_big(a, peer, &of_b, 1, 8 * MIB, 450, &fate), 0);
	while (fate.sent == 0) {
		b->stopped = true;
		nodes_pass(200);
		b->stopped = false;
		nodes_pass(1);
		rounds++;
	}
	assert_int_equal(fate.sent_status, 0);
	/* Longer than the deadline in all. */
	assert_true(rounds >= 3);
	assert_int_equal(b->messages, 1);
}

/* ---- ends */

static void the_receiver_dies(void **state)
{
	struct fate fates[2] = {0};
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 2000;
	struct party *a = open_node(NULL), *b = open_node(&opts);
	weft_peer peer = meet(a, b);
	assert_int_equal(send_big(a, peer, NULL, 1, 8 * MIB, -1, &fates[0]), 0);
	assert_int_equal(send_big(a, peer, NULL, 2, 100 * KIB, -1, &fates[1]), 0);
	reach_the_middle(a, b);
	party_kill(b);
	/* A second until it is asked, and two that it may be silent: not as long as when idle. */
	nodes_pass(4500);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_LOST);
	assert_int_equal(fates[0].sent_status, a->end.status);
	assert_int_equal(fates[1].sent_status, a->end.status);
	assert_int_equal(fates[0].sent + fates[1].sent, 2);
	/* The net gives up what it had begun to send. */
	nodes_pass(in_chunks ? 5000 : 0);
	assert_idle(a);
}

static void the_sender_dies(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.silence_ms = 2000;
	opts.keepalive_ms = 1000;
	struct party *a = open_node(&opts), *b = open_node(&opts);
	weft_peer peer = meet(a, b);
	assert_int_equal(send_big(a, peer, NULL, 1, 8 * MIB, -1, NULL), 0);
	reach_the_middle(a, b);
	assert_int_equal(b->node->blocks.bytes, 8 * MIB);
	party_kill(a);
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_LOST);
	assert_int_equal(b->messages, 0);
	assert_idle(b);
}

static void the_sender_closes(void **state)
{
	(void)state;
	for (int linger = -1; linger <= 0; linger++) {
		struct expected of_b;
		struct fate fate = {0};
		struct party *a = open_node(NULL), *b = open_node(NULL);
		weft_peer peer = meet(a, b);
		expect(b, &of_b);
		assert_int_equal(send_big(a, peer, &of_b, 1, 8 * MIB, -1, &fate), 0);
		reach_the_middle(a, b);
		int64_t before = fake_now_ns();
		assert_int_equal(weft_peer_close(a->node, peer, linger), 0);
		assert_int_equal(say(a, peer, "too late", NULL), -ENOTCONN);
		nodes_until(&a->closed, 1);
		nodes_until(&b->closed, 1);
		assert_int_equal(b->messages, linger < 0 ? 1 : 0);
		assert_int_equal(fate.sent_status, linger < 0 ? 0 : -ECANCELED);
		/* A CLOSE has its turn behind the chunks that do not come any more; who waits for
		 * them asks after a second. */
		assert_true(fake_now_ns() - before < 1500 * FAKE_NS_PER_MS);
		if (!in_chunks || linger < 0)
			assert_int_equal(b->end.reason, WEFT_REASON_CLOSED);
		assert_idle(a);
		assert_idle(b);
	}
}

static void the_receiver_closes(void **state)
{
	(void)state;
	for (int linger = -1; linger <= 0; linger++) {
		struct fate fates[2] = {0};
		struct party *a = open_node(NULL), *b = open_node(NULL);
		weft_peer peer = meet(a, b);
		assert_int_equal(send_big(a, peer, NULL, 1, 8 * MIB, -1, &fates[0]), 0);
		assert_int_equal(send_big(a, peer, NULL, 2, 8 * MIB, -1, &fates[1]), 0);
		reach_the_middle(a, b);
		int64_t before = fake_now_ns();
		assert_int_equal(weft_peer_close(b->node, b->peer, linger), 0);
		nodes_until(&a->closed, 1);
		nodes_until(&b->closed, 1);
		/* What will never be whole is not waited for. */
		assert_true(fake_now_ns() - before < 100 * FAKE_NS_PER_MS);
		assert_int_equal(fates[0].sent_status, -ECONNRESET);
		assert_int_equal(fates[1].sent_status, -ECONNRESET);
		assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
		assert_int_equal(b->messages, 0);
		assert_idle(a);
		/* Without lingering it does not know what is on its way. */
		if (linger == 0)
			nodes_pass(2500);
		assert_idle(b);
	}
}

static void a_node_closes(void **state)
{
	(void)state;
	for (int who = 0; who <= 1; who++) {
		for (int linger = 0; linger <= 5000; linger += 5000) {
			struct expected of_b;
			struct fate fate = {0};
			struct party *a = open_node(NULL), *b = open_node(NULL);
			weft_peer peer = meet(a, b);
			expect(b, &of_b);
			assert_int_equal(send_big(a, peer, &of_b, 1, 8 * MIB, -1, &fate), 0);
			reach_the_middle(a, b);
			assert_int_equal(party_close(who ? b : a, linger), 0);
			nodes_until(who ? &a->closed : &b->closed, 1);
			bool arrives = who == 0 && linger > 0;
			assert_int_equal(b->messages, arrives);
			assert_int_equal(fate.sent, 1);
			assert_int_equal(fate.sent_status, arrives ? 0
							   : who   ? -ECONNRESET
								   : -ECANCELED);
			/* The net gives up what it had begun to send to one who is gone. */
			nodes_pass(in_chunks && who ? 5000 : 0);
			assert_idle(who ? a : b);
			assert_int_equal(party_close(who ? a : b, 0), 0);
		}
	}
}

/* A session may end while its message waits for memory, on either side. */
static void ends_while_it_waits_for_memory(void **state)
{
	(void)state;
	for (int who = 0; who <= 1; who++) {
		struct expected of_c;
		struct party *c = open_with_budget(3 * MIB, 2 * MIB);
		struct party *a = open_node(NULL), *b = open_node(NULL);
		weft_peer from_a = meet(a, c), from_b = meet(b, c);
		expect(c, &of_c);
		of_c.hold = true;
		assert_int_equal(send_big(a, from_a, &of_c, 1, 2 * MIB, -1, NULL), 0);
		nodes_until(&c->messages, 1);
		of_c.last = 0;
		assert_int_equal(send_big(b, from_b, &of_c, 1, 2 * MIB, -1, NULL), 0);
		nodes_pass(10);
		assert_false(TAILQ_EMPTY(&c->node->starved));
		if (who == 0)
			assert_int_equal(weft_peer_close(b->node, from_b, 0), 0);
		else
			assert_int_equal(weft_peer_close(c->node, c->peer, 0), 0);
		nodes_until(&b->closed, 1);
		/* Its CLOSE waits for its turn, which comes with the memory. */
		nodes_pass(20);
		assert_int_equal(c->closed, who);
		assert_int_equal(TAILQ_EMPTY(&c->node->starved), who);
		weft_msg_release(of_c.held[0]);
		nodes_until(&c->closed, 1);
		assert_int_equal(c->messages, 1);
		assert_idle(c);
	}
}

static void held_after_the_end(void **state)
{
	struct expected of_b;
	(void)state;
	struct party *a = open_node(NULL), *b = open_node(NULL);
	weft_peer peer = meet(a, b);
	expect(b, &of_b);
	of_b.hold = true;
	assert_int_equal(send_big(a, peer, &of_b, 1, 100 * KIB, -1, NULL), 0);
	assert_int_equal(weft_buf_alloc(weft_node_net(b->node), 200 * KIB, &place), 0);
	nodes_until(&b->messages, 1);
	place_off = 8;
	b->on_place = give_place;
	assert_int_equal(send_big(a, peer, &of_b, 2, 150 * KIB, -1, NULL), 0);
	nodes_until(&b->messages, 2);
	weft_buf_unref(place);
	/* One that is held twice is there until the last release. */
	struct weft_msg *again = weft_msg_hold(b->node, of_b.held[0]);
	assert_non_null(again);
	weft_msg_release(of_b.held[0]);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	nodes_until(&b->closed, 1);
	assert_true(is_right(again->data, 100 * KIB, 1));
	assert_int_equal(party_close(b, 0), 0);
	assert_true(is_right(again->data, 100 * KIB, 1));
	assert_true(is_right(of_b.held[1]->data, 150 * KIB, 2));
	assert_int_equal(again->len, 100 * KIB);
	weft_msg_release(again);
	assert_true(is_right(of_b.held[1]->data, 150 * KIB, 2));
	weft_msg_release(of_b.held[1]);
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

static int setup_parts(void **state)
{
	in_chunks = false;
	return nodes_setup(state);
}

static int setup_chunks(void **state)
{
	in_chunks = true;
	int ret = nodes_setup(state);
	/* Chunks are no longer than the provider's messages: so there are many to a message that is
	 * not too slow here. */
	struct fake_provider like = fake_tcp;
	like.max_msg = 256 * KIB;
	party_provider(&like);
	return ret;
}

#define in_parts(fn)                                                                               \
	{                                                                                          \
#fn ", in parts", fn, setup_parts, nodes_teardown, NULL                            \
	}
#define both_ways(fn)                                                                              \
	in_parts(fn),                                                                              \
	{                                                                                          \
#fn ", in chunks", fn, setup_chunks, nodes_teardown, NULL                          \
	}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		both_ways(sizes_both_ways),
		both_ways(forms),
		both_ways(big_answers),
		in_parts(order_among_small_and_big),
		both_ways(a_message_waits_for_memory),
		in_parts(late_and_then_without_memory),
		both_ways(memory_in_turn),
		both_ways(freed_while_being_asked),
		both_ways(armed_after_a_release),
		both_ways(two_who_are_full),
		both_ways(no_room_for_a_copy),
		both_ways(longer_than_the_budget),
		both_ways(no_memory_for_it),
		both_ways(held_and_kept),
		both_ways(without_a_copy),
		both_ways(a_place_of_the_receivers),
		both_ways(closed_while_asked_for_a_place),
		both_ways(given_up_in_the_middle),
		both_ways(given_up_before_the_first_part),
		both_ways(given_up_while_connecting),
		both_ways(given_up_while_it_waits_for_memory),
		both_ways(late_answer),
		both_ways(the_deadline_follows),
		both_ways(the_receiver_dies),
		both_ways(the_sender_dies),
		both_ways(the_sender_closes),
		both_ways(the_receiver_closes),
		both_ways(a_node_closes),
		both_ways(ends_while_it_waits_for_memory),
		both_ways(held_after_the_end),
		in_parts(the_peers_frames_are_smaller),
		both_ways(longer_than_the_peer_takes),
		in_parts(parts_that_do_not_fit),
		in_parts(a_small_one_that_is_too_long),
	};
	return world_run(tests);
}
