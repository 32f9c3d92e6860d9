/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame: how they end when their time is up, or their session ends. */
#include <errno.h>
#include <stdlib.h>

#include "bigs.h"

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
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
	};
	return world_run(tests);
}
