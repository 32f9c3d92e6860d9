/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame: the memory that they take, of the node and of the caller. */
#include <errno.h>
#include <stdlib.h>

#include "buf.h"

#include "bigs.h"

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
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
	};
	return world_run(tests);
}
