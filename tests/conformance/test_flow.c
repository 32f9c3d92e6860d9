/* SPDX-License-Identifier: MIT */
/* Flow control: senders that send more than is taken, receivers that do not take it, and what that
 * costs. */
#include <errno.h>
#include <stdlib.h>

#include "nodes.h"

#define FLOOD 20000
#define SMALL_BUDGET ((size_t)2 << 20)
#define CROWD 4

/* Budgets that are soon used up. */
static struct weft_node_opts small_opts(void)
{
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = opts.send_budget = SMALL_BUDGET;
	opts.peer_send_budget = SMALL_BUDGET / 4;
	return opts;
}

static void check_number(struct actor *actor, const struct weft_msg *msg)
{
	uint32_t number;
	assert_true(msg->len >= sizeof(number));
	memcpy(&number, msg->data, sizeof(number));
	assert_int_equal(number, actor->messages - 1);
}

/* Sends messages that count upwards until the budget is full. Returns how many went. */
static uint32_t fill_up(struct actor *a, uint32_t from, uint32_t to, size_t len)
{
	uint8_t data[1000] = {0};
	uint32_t i = from;
	for (; i < to; i++) {
		memcpy(data, &i, sizeof(i));
		struct weft_send send = send_of(a, data, len);
		int ret = weft_peer_send(a->node, a->peer, &send);
		if (ret == -ENOBUFS)
			break;
		assert_int_equal(ret, 0);
	}
	return i - from;
}

/* Each time that the budget is full, the sender is told when it is not; all arrives in order. */
static void a_flood_is_held_back(void **state)
{
	struct actor a = {0}, b = {.on_message = check_number};
	struct weft_node_opts opts = small_opts();
	int waits = 0;
	(void)state;
	actor_open(&a, &opts);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	for (uint32_t i = 0; i < FLOOD;) {
		i += fill_up(&a, i, FLOOD, 500);
		if (i == FLOOD)
			break;
		wait_for(&a, &b, &a.writables, ++waits);
		assert_true(stats_of(&a).memory <= 2 * SMALL_BUDGET + SMALL_BUDGET / 4);
		assert_true(stats_of(&b).memory <= 2 * SMALL_BUDGET + SMALL_BUDGET / 4);
	}
	wait_for(&a, &b, &a.sents, FLOOD);
	assert_int_equal(b.messages, FLOOD);
	assert_true(waits > 0);
	assert_true(stats_of(&a).no_buffers >= (uint64_t)waits);
	assert_int_equal(stats_of(&a).send_errors, 0);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

/* A receiver that does not poll stops the sender at its budget, and nothing is lost of what was
 * accepted. */
static void a_receiver_that_does_not_poll(void **state)
{
	struct actor a = {0}, b = {.on_message = check_number};
	struct weft_node_opts opts = small_opts();
	(void)state;
	actor_open(&a, &opts);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	uint32_t sent = 0;
	int64_t end = now_ms() + 1000;
	while (now_ms() < end) {
		sent += fill_up(&a, sent, UINT32_MAX, 200);
		poll_all((struct actor *[]){&a}, 1);
	}
	struct weft_node_stats stats = stats_of(&a);
	assert_true(stats.no_buffers > 0);
	assert_true(stats.frames_queued > 0);
	assert_true(sent < 4 * SMALL_BUDGET / 200);
	assert_true(stats.memory <= 2 * SMALL_BUDGET + SMALL_BUDGET / 4);
	assert_int_equal(a.closed + a.sents, 0);
	wait_for(&a, &b, &a.sents, (int)sent);
	assert_int_equal(b.messages, sent);
	assert_int_equal(stats_of(&a).send_errors, 0);
	actor_close(&a, &b);
	actor_close(&b, NULL);
}

/* Several that send as fast as they may: each gets its share, and none is refused. */
static void a_crowd_shares_the_budget(void **state)
{
	struct actor crowd[CROWD] = {{0}}, server = {0};
	struct actor *all[CROWD + 1];
	uint32_t sent[CROWD] = {0};
	struct weft_node_opts opts = small_opts();
	int64_t end = now_ms() + PATIENCE_MS;
	int done = 0;
	(void)state;
	actor_open(&server, &opts);
	for (int i = 0; i < CROWD; i++) {
		actor_open(&crowd[i], &opts);
		actors_meet(&crowd[i], &server);
		all[i] = &crowd[i];
	}
	all[CROWD] = &server;
	while (done < CROWD) {
		assert_true(now_ms() < end);
		done = 0;
		for (int i = 0; i < CROWD; i++) {
			if (sent[i] < FLOOD / CROWD)
				sent[i] += fill_up(&crowd[i], sent[i], FLOOD / CROWD, 700);
			done += crowd[i].sents == FLOOD / CROWD;
		}
		poll_all(all, CROWD + 1);
	}
	assert_int_equal(server.messages, FLOOD / CROWD * CROWD);
	assert_true(stats_of(&server).memory <= 2 * SMALL_BUDGET + SMALL_BUDGET / 4);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(stats_of(&crowd[i]).send_errors, 0);
		actor_close(&crowd[i], &server);
	}
	actor_close(&server, NULL);
}

#define KEPT 1000

struct keeper {
	struct weft_msg *held[KEPT];
	int count;
};

static void keep(struct actor *actor, const struct weft_msg *msg)
{
	struct keeper *keeper = actor->user;
	assert_true(keeper->count < KEPT);
	keeper->held[keeper->count] = weft_msg_hold(actor->node, msg);
	assert_non_null(keeper->held[keeper->count++]);
}

/* Messages that fill a frame each and are all held: their sender comes to a stop, another one does
 * not. */
static void held_messages_stop_their_sender_only(void **state)
{
	static struct keeper keeper;
	struct actor a = {0}, c = {0}, b = {.on_message = keep, .user = &keeper};
	struct weft_node_opts opts = small_opts();
	(void)state;
	keeper.count = 0;
	actor_open(&a, NULL);
	actor_open(&c, NULL);
	actor_open(&b, &opts);
	actors_meet(&a, &b);
	actors_meet(&c, &b);
	size_t len = a.max_frame - WEFT_FRAME_OVERHEAD;
	uint8_t *data = calloc(1, len);
	assert_non_null(data);
	struct weft_send send = send_of(&a, data, len);
	int sent = 0;
	int64_t quiet = now_ms() + 500;
	int seen = 0;
	while (now_ms() < quiet) {
		while (sent < KEPT && weft_peer_send(a.node, a.peer, &send) == 0)
			sent++;
		poll_all((struct actor *[]){&a, &b}, 2);
		if (b.messages > seen)
			quiet = now_ms() + 500;
		seen = b.messages;
	}
	assert_true(seen < sent);
	assert_true((size_t)seen * a.max_frame <= SMALL_BUDGET);
	/* The other one has a frame of its own. */
	b.on_message = NULL;
	struct weft_send other = send_of(&c, "mine", 4);
	for (int i = 1; i <= 20; i++) {
		assert_int_equal(weft_peer_send(c.node, c.peer, &other), 0);
		wait_for(&c, &b, &c.sents, i);
		assert_int_equal(c.sent_status, 0);
	}
	for (int i = 0; i < keeper.count; i++)
		weft_msg_release(keeper.held[i]);
	wait_for(&a, &b, &a.sents, sent);
	assert_int_equal(stats_of(&a).send_errors, 0);
	free(data);
	actor_close(&a, &b);
	actor_close(&c, &b);
	actor_close(&b, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_is_held_back),
		cmocka_unit_test(a_receiver_that_does_not_poll),
		cmocka_unit_test(a_crowd_shares_the_budget),
		cmocka_unit_test(held_messages_stop_their_sender_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
