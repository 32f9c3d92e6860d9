/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame: that they arrive whole, in their order, both ways at once, and
 * where they should. */
#include <errno.h>
#include <stdlib.h>

#include "nodes.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define MANY 40

static void meet(struct actor *a, struct actor *b)
{
	actor_open(a, NULL);
	actor_open(b, NULL);
	actors_meet(a, b);
}

static void part(struct actor *a, struct actor *b)
{
	actor_close(a, b);
	actor_close(b, NULL);
}

/* What an actor is to receive, in this order. */
struct expected {
	size_t len[MANY];
	uint32_t sum[MANY];
	int seen, right;
};

static void compare(struct actor *actor, const struct weft_msg *msg)
{
	struct expected *expected = actor->user;
	assert_true(expected->seen < MANY);
	int i = expected->seen++;
	if (msg->len == expected->len[i] && sum_of(msg->data, msg->len) == expected->sum[i])
		expected->right++;
}

static void expect(struct actor *actor, struct expected *expected)
{
	*expected = (struct expected){.seen = 0};
	actor->on_message = compare;
	actor->user = expected;
}

/* Sends bytes of their own as the next one that is expected. The copy is gone when it returns. */
static void send_one(struct actor *from, struct expected *expected, int which, size_t len,
		     unsigned seed)
{
	uint8_t *data = malloc(len + 1);
	assert_non_null(data);
	scribble(data, len, seed);
	expected->len[which] = len;
	expected->sum[which] = sum_of(data, len);
	struct weft_send send = send_of(from, data, len);
	assert_int_equal(weft_peer_send(from->node, from->peer, &send), 0);
	memset(data, 0, len);
	free(data);
}

static void assert_all_well(const struct actor *actor, int count)
{
	const struct expected *expected = actor->user;
	assert_int_equal(expected->right, count);
	assert_int_equal(actor->sents, count);
	assert_int_equal(actor->sent_status, 0);
	assert_int_equal(actor->closed, 0);
	assert_int_equal(stats_of(actor).send_errors, 0);
	assert_int_equal(stats_of(actor).messages_waiting, 0);
}

/* The longest that a provider moves fast enough for a test. WEFT_LONGEST: another one, in MiB. */
static size_t longest(void)
{
	const char *asked = getenv("WEFT_LONGEST");
	if (asked)
		return strtoul(asked, NULL, 10) * MIB;
	return provider_is("tcp") || provider_is("shm") ? 64 * MIB : 8 * MIB;
}

/* Besides the messages there is what is kept for the next ones, and frames. */
static void assert_little_is_left(const struct actor *actor)
{
	assert_true(stats_of(actor).memory < 128 * MIB);
}

static void both_ways_at_once(void **state)
{
	static const size_t sizes[] = {64 * KIB, MIB, 8 * MIB, 64 * MIB, 1024 * MIB};
	struct actor a = {0}, b = {0};
	struct expected of_a, of_b;
	struct weft_node_opts opts = node_opts();
	int count = 0;
	(void)state;
	/* Half is for copies. */
	opts.message_budget = 4 * (longest() + 1);
	opts.max_message = longest() + 1;
	actor_open(&a, &opts);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	expect(&a, &of_a);
	expect(&b, &of_b);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= longest(); i++) {
		send_one(&a, &of_b, count, sizes[i] + 1, 2 * (unsigned)i);
		send_one(&b, &of_a, count, sizes[i] - 1, 2 * (unsigned)i + 1);
		count++;
		wait_for(&a, &b, &a.sents, count);
		wait_for(&a, &b, &b.sents, count);
		assert_little_is_left(&a);
		assert_little_is_left(&b);
	}
	wait_for(&a, &b, &a.messages, count);
	wait_for(&a, &b, &b.messages, count);
	assert_all_well(&a, count);
	assert_all_well(&b, count);
	part(&a, &b);
}

/* Many at once, of all lengths, so that several kinds of them are on their way together. */
static void many_at_once(void **state)
{
	static const size_t sizes[] = {0,	  100,	     5000,	16 * KIB,
				       20 * KIB,  127 * KIB, 128 * KIB, 129 * KIB,
				       256 * KIB, 300 * KIB, MIB,	3};
	struct actor a = {0}, b = {0};
	struct expected of_a, of_b;
	(void)state;
	meet(&a, &b);
	expect(&a, &of_a);
	expect(&b, &of_b);
	for (int i = 0; i < MANY; i++) {
		size_t count = sizeof(sizes) / sizeof(sizes[0]);
		send_one(&a, &of_b, i, sizes[(size_t)i * 5 % count] + (size_t)i, (unsigned)i);
		send_one(&b, &of_a, i, sizes[(size_t)i * 7 % count] + (size_t)i,
			 100u + (unsigned)i);
	}
	wait_for(&a, &b, &a.messages, MANY);
	wait_for(&a, &b, &b.messages, MANY);
	wait_for(&a, &b, &a.sents, MANY);
	wait_for(&a, &b, &b.sents, MANY);
	assert_all_well(&a, MANY);
	assert_all_well(&b, MANY);
	part(&a, &b);
}

static void answer_alike(struct actor *actor, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = msg->data;
	send.len = msg->len;
	assert_int_equal(weft_msg_reply(actor->node, msg, &send), 0);
}

static void big_answers(void **state)
{
	struct actor a = {0}, b = {0};
	(void)state;
	meet(&a, &b);
	b.on_message = answer_alike;
	uint8_t *data = malloc(MIB);
	assert_non_null(data);
	scribble(data, MIB, 7);
	struct weft_send send = send_of(&a, data, MIB);
	send.reply = record_reply;
	assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
	wait_for(&a, &b, &a.replies, 1);
	assert_int_equal(a.reply_status, 0);
	assert_int_equal(a.reply_len, MIB);
	assert_int_equal(a.reply_sum, sum_of(data, MIB));
	assert_int_equal(a.messages, 0);
	free(data);
	part(&a, &b);
}

/* ---- from memory of the sender's to memory of the receiver's */

struct placed {
	struct weft_buf *buf;
	weft_peer peer;
	int opened, placed, messages;
	size_t off;
	const void *data;
	uint32_t sum;
};

static void placed_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
			  void *user)
{
	struct placed *placed = user;
	(void)node;
	(void)info;
	placed->peer = peer;
	placed->opened++;
}

static struct weft_buf *placed_place(struct weft_node *node, weft_peer peer, size_t len,
				     uint32_t reply_to, size_t *off, void *user)
{
	struct placed *placed = user;
	(void)node;
	(void)peer;
	(void)reply_to;
	(void)len;
	placed->placed++;
	*off = placed->off;
	return placed->buf;
}

static void placed_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct placed *placed = user;
	(void)node;
	placed->messages++;
	placed->data = msg->data;
	placed->sum = sum_of(msg->data, msg->len);
}

static void from_place_to_place(void **state)
{
	static const size_t sizes[] = {100 * KIB, 5 * MIB};
	struct actor a = {0}, b = {0};
	struct placed placed = {.off = 4096 + 8};
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_opts opts = node_opts();
	struct weft_buf *buf;
	(void)state;
	events.opened = placed_opened;
	events.place = placed_place;
	events.message = placed_message;
	actor_open(&a, NULL);
	assert_int_equal(weft_node_open(&b.node, &opts, &events, &placed), 0);
	assert_int_equal(weft_node_get_addr(b.node, &b.addr), 0);
	a.peer = begin(&a, &b);
	wait_for(&a, &b, &placed.opened, 1);
	assert_int_equal(weft_buf_alloc(weft_node_net(a.node), 6 * MIB, &buf), 0);
	assert_int_equal(weft_buf_alloc(weft_node_net(b.node), 6 * MIB, &placed.buf), 0);
	uint8_t *data = weft_buf_data(buf);
	uint8_t *there = weft_buf_data(placed.buf);
	scribble(data, 6 * MIB, 3);
	for (int i = 0; i < 2; i++) {
		struct weft_send send = send_of(&a, NULL, sizes[i]);
		memset(there, 0xee, 6 * MIB);
		send.buf = buf;
		send.off = 1001;
		assert_int_equal(weft_peer_send(a.node, a.peer, &send), 0);
		wait_for(&a, &b, &placed.messages, i + 1);
		wait_for(&a, &b, &a.sents, i + 1);
		assert_int_equal(a.sent_status, 0);
		assert_int_equal(placed.placed, i + 1);
		assert_ptr_equal(placed.data, there + placed.off);
		assert_int_equal(placed.sum, sum_of(data + 1001, sizes[i]));
		/* Nothing else was touched. */
		assert_int_equal(there[placed.off - 1], 0xee);
		assert_int_equal(there[placed.off + sizes[i]], 0xee);
	}
	weft_buf_unref(buf);
	weft_buf_unref(placed.buf);
	part(&a, &b);
}

/* What is held stays as it is while others come, and when its node is closed. */
static struct weft_msg *held;

static void hold_first(struct actor *actor, const struct weft_msg *msg)
{
	if (!held)
		held = weft_msg_hold(actor->node, msg);
	assert_non_null(held);
}

static void held_ones_stay(void **state)
{
	struct actor a = {0}, b = {0};
	struct expected unused;
	(void)state;
	meet(&a, &b);
	held = NULL;
	b.on_message = hold_first;
	for (int i = 0; i < 4; i++)
		send_one(&a, &unused, i, MIB, (unsigned)i);
	wait_for(&a, &b, &b.messages, 4);
	wait_for(&a, &b, &a.sents, 4);
	assert_int_equal(sum_of(held->data, held->len), unused.sum[0]);
	actor_close(&b, &a);
	assert_int_equal(held->len, MIB);
	assert_int_equal(sum_of(held->data, held->len), unused.sum[0]);
	weft_msg_release(held);
	actor_close(&a, NULL);
}

/* Ends the session between two actors, and waits until both have heard of it. */
static void leave(struct actor *a, struct actor *b)
{
	int a_closed = a->closed + 1, b_closed = b->closed + 1;
	assert_int_equal(weft_peer_close(a->node, a->peer, PATIENCE_MS), 0);
	wait_for(a, b, &a->closed, a_closed);
	wait_for(a, b, &b->closed, b_closed);
}

/* Others have come while a peer was away, so its address is not where it was. */
static void after_others_have_come(void **state)
{
	struct actor a = {0}, b = {0}, others[3] = {{0}};
	struct expected of_b;
	(void)state;
	actor_open(&a, NULL);
	actor_open(&b, NULL);
	for (int i = 0; i < 3; i++)
		actor_open(&others[i], NULL);
	for (int i = 0; i < 3; i++) {
		actors_meet(&a, &b);
		expect(&b, &of_b);
		a.sents = 0;
		b.messages = 0;
		for (int n = 0; n < 4; n++)
			send_one(&a, &of_b, n, MIB, (unsigned)n);
		wait_for(&a, &b, &b.messages, 4);
		wait_for(&a, &b, &a.sents, 4);
		assert_int_equal(of_b.right, 4);
		leave(&a, &b);
		actors_meet(&others[i], &b);
	}
	for (int i = 0; i < 3; i++)
		actor_close(&others[i], &b);
	part(&b, &a);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_at_once), cmocka_unit_test(many_at_once),
		cmocka_unit_test(big_answers),	     cmocka_unit_test(from_place_to_place),
		cmocka_unit_test(held_ones_stay),
		cmocka_unit_test(after_others_have_come),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
