/* SPDX-License-Identifier: MIT */
/* What becomes of bundles, and of what is in them, where the net has no room, or fails, or sessions
 * and nodes end. */
#include <errno.h>

#include "crowds.h"
#include "peer.h"

/* The net has no room for it: all of it waits, and nothing is lost. */
static void a_net_without_room(void **state)
{
	(void)state;
	begin_with_room_for_one();
	b->on_message = echo;
	/* The first one takes its time, and all others wait for it. */
	fake_next("fi_send", &b->addr, 1,
		  &(struct fake_fate){.outcome = FAKE_DELIVER, .delay_ns = 100 * FAKE_NS_PER_MS});
	ask_all(5);
	nodes_pass(50);
	assert_int_equal(b->messages, 0);
	assert_int_equal(party_stats(a).frames_in_flight, 1);
	nodes_until(&b->messages, SESSIONS);
	assert_in_range(party_stats(a).bundles_sent, 1, 2);
	nodes_pass(QUIET_MS);
	check_fates();
	assert_int_equal(a->closed + b->closed, 0);
}

/* Sessions that end while their frames wait give them back. */
static void sessions_end_while_they_wait(void **state)
{
	(void)state;
	begin_with_room_for_one();
	b->on_message = echo;
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	ask_all(5);
	nodes_pass(10);
	assert_false(TAILQ_EMPTY(&a->node->routes_waiting));
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(weft_peer_close(a->node, peers[i], 0), 0);
	nodes_until(&a->closed, SESSIONS);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, 1);
	nodes_pass(20000);
	assert_int_equal(a->node->peers, 0);
	assert_null(a->node->routes);
	assert_true(TAILQ_EMPTY(&a->node->routes_waiting));
	assert_int_equal(a->node->frames.counted, 0);
}

/* One that ends is gone soon, though the net has no room for the others either. */
static void one_ends_while_they_wait(void **state)
{
	(void)state;
	begin_with_room_for_one();
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	ask_all(5);
	nodes_pass(10);
	assert_false(TAILQ_EMPTY(&a->node->routes_waiting));
	assert_int_equal(weft_peer_close(a->node, peers[SESSIONS - 1], 0), 0);
	nodes_pass(3000);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->node->peers, SESSIONS - 1);
	assert_false(TAILQ_EMPTY(&a->node->routes_waiting));
}

/* The node is closed while frames wait. */
static void a_node_ends_while_they_wait(void **state)
{
	(void)state;
	begin_with_room_for_one();
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	ask_all(5);
	nodes_pass(10);
	assert_false(TAILQ_EMPTY(&a->node->routes_waiting));
	party_close(a, 0);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, 1);
}

/* One libfabric message fails: it is the end of each session in it, and of no other. */
static void a_bundle_breaks(void **state)
{
	static struct fate other;
	(void)state;
	begin(NULL, SESSIONS);
	struct party *c = party_open(NULL);
	weft_peer apart = meet(a, c);
	fake_skip("fi_send", 1);
	fake_next("fi_send", &b->addr, 1,
		  &(struct fake_fate){.outcome = FAKE_BREAK, .err = EIO, .prov_errno = 7});
	ask_all(5);
	nodes_until(&a->closed, 1);
	nodes_pass(5);
	assert_in_range(a->closed, SESSIONS - 1, SESSIONS);
	assert_int_equal(a->end.reason, WEFT_REASON_FABRIC);
	assert_int_equal(a->end.prov_errno, 7);
	nodes_pass(3000);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, 1);
	struct weft_send send = telling("still here", 10, &other);
	assert_int_equal(weft_peer_send(a->node, apart, &send), 0);
	nodes_until(&other.sent, 1);
	assert_int_equal(other.sent_status, 0);
	nodes_pass(10);
	assert_int_equal(a->node->frames.counted, 0);
}

/* The net refuses it for good. */
static void a_bundle_is_refused(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	weft_dest dest = weft__peer_find(a->node, peers[0])->dest;
	ask_all(5);
	/* Nothing else makes layer 1 refuse what it could take. */
	for (int i = 0; i < SESSIONS; i++)
		weft_net_remove_peer(a->node->net, dest);
	nodes_until(&a->closed, SESSIONS);
	assert_int_equal(a->end.reason, WEFT_REASON_FABRIC);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, 1);
	nodes_pass(20000);
	assert_null(a->node->routes);
	assert_int_equal(a->node->frames.counted, 0);
}

/* A bundle is full while the net has no room, and sessions end meanwhile. */
static void full_and_without_room(void **state)
{
	static uint8_t data[FRAME_SIZE / 6];
	(void)state;
	begin_with_room_for_one();
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	for (int i = 0; i < SESSIONS; i++) {
		struct weft_send send = telling(data, sizeof(data), &fates[i]);
		assert_int_equal(weft_peer_send(a->node, peers[i], &send), 0);
	}
	for (int half = 0; half < 2; half++) {
		nodes_pass(10);
		for (int i = 0; i < SESSIONS; i++)
			say(a, peers[i], "more", NULL);
		nodes_pass(10);
		for (int i = half; i < SESSIONS; i += 2)
			assert_int_equal(weft_peer_close(a->node, peers[i], 0), 0);
	}
	nodes_pass(20000);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, 1);
	assert_null(a->node->routes);
	assert_int_equal(a->node->frames.counted, 0);
}

/* Or the net refuses it for good, while the next message is being sent. */
static void full_and_refused(void **state)
{
	static uint8_t data[FRAME_SIZE / 6];
	int codes[SESSIONS];
	(void)state;
	begin(NULL, SESSIONS);
	weft_dest dest = weft__peer_find(a->node, peers[0])->dest;
	for (int i = 0; i < SESSIONS; i++) {
		if (i == 2) {
			for (int j = 0; j < SESSIONS; j++)
				weft_net_remove_peer(a->node->net, dest);
		}
		struct weft_send send = telling(data, sizeof(data), &fates[i]);
		codes[i] = weft_peer_send(a->node, peers[i], &send);
		assert_true(codes[i] == 0 || codes[i] == -ENOTCONN);
	}
	nodes_pass(20000);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent, codes[i] == 0);
	assert_null(a->node->routes);
	assert_int_equal(a->node->frames.counted, 0);
	assert_int_equal(a->node->slots.used, 0);
}

/* All sessions end while bundles of theirs are under way, and the node is met again. */
static void bundles_outlive_their_sessions(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	for (int i = 0; i < 2; i++)
		fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_VANISH});
	ask_all(5);
	weft_node_poll(a->node, 0);
	assert_int_equal(a->node->routes->in_flight, 2);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(weft_peer_close(a->node, peers[i], 0), 0);
	nodes_pass(20000);
	assert_null(a->node->routes);
	assert_int_equal(a->node->frames.counted, 0);
	weft_peer again = meet(a, b);
	int before = b->messages;
	assert_int_equal(say(a, again, "again", NULL), 0);
	nodes_until(&b->messages, before + 1);
}

/* Without memory for what is in it, its sessions end as if it had been lost, and no other one. */
static void without_memory(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	struct party *c = party_open(NULL);
	weft_peer apart = meet(b, c);
	/* Once with memory, so that the other side has its own. */
	ask_all(5);
	nodes_until(&b->messages, SESSIONS);
	nodes_pass(QUIET_MS);
	/* As if all that there were are in use. */
	TAILQ_INIT(&b->node->frames.views);
	ask_all(5);
	fake_refuse("calloc", NULL, ENOMEM, 1);
	nodes_until(&b->closed, 1);
	fake_no_faults();
	assert_int_equal(b->end.reason, WEFT_REASON_GAP);
	assert_int_equal(party_stats(b).recv_errors, 1);
	nodes_pass(3000);
	assert_int_equal(b->closed, 1);
	assert_int_equal(say(b, apart, "still here", NULL), 0);
	nodes_until(&c->messages, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(a_net_without_room),
		both(sessions_end_while_they_wait),
		both(one_ends_while_they_wait),
		both(a_node_ends_while_they_wait),
		both(a_bundle_breaks),
		both(a_bundle_is_refused),
		crowded(full_and_without_room),
		crowded(full_and_refused),
		crowded(bundles_outlive_their_sessions),
		both(without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
