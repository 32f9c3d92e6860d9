/* SPDX-License-Identifier: MIT */
/*
 * Frames and messages of several sessions in one libfabric message: when they share one and when
 * not, and in what form.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crowds.h"
#include "peer.h"

/* The first message leaves at once; what comes while it is under way goes together, and so do the
 * answers. */
static void sessions_share_a_message(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	struct weft_node_stats before = party_stats(a), theirs_before = party_stats(b);
	b->on_message = echo;
	ask_all(5);
	assert_int_equal(party_stats(a).frames_in_flight, 1);
	nodes_until(&b->messages, SESSIONS);
	nodes_until(&fates[SESSIONS - 1].replies, 1);
	nodes_pass(QUIET_MS);
	check_fates();
	check_form();
	struct weft_node_stats after = party_stats(a), theirs = party_stats(b);
	assert_in_range(after.frames_sent - before.frames_sent, SESSIONS, 2 * SESSIONS);
	assert_in_range(after.bundles_sent, 1, 2);
	assert_int_equal(theirs.bundles_received, after.bundles_sent);
	assert_int_equal(theirs.frames_received, after.frames_sent);
	assert_in_range(theirs.bundles_sent, 1, 2);
	assert_int_equal(after.bundles_received, theirs.bundles_sent);
	assert_int_equal(a->node->frames.counted, 0);
	/* What is kept for looking into bundles is counted. */
	assert_in_range(theirs.memory, theirs_before.memory + 2 * sizeof(struct weft__rframe),
			2 * theirs_before.memory);
	nodes_check_budgets();
}

/* The second libfabric message from now on to b comes when the first one is long dealt with. */
static void delay_the_second(void)
{
	const struct fake_fate soon = {.outcome = FAKE_DELIVER};
	const struct fake_fate later = {.outcome = FAKE_DELIVER, .delay_ns = 50 * FAKE_NS_PER_MS};
	fake_next("fi_send", &b->addr, 1, &soon);
	fake_next("fi_send", &b->addr, 1, &later);
}

static uint64_t libfabric_messages(const struct party *party)
{
	return net_stats(weft_node_net(party->node)).sent;
}

/* What answers the frames of a bundle is a bundle too, its first one included. */
static void answers_share_a_message(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	b->on_message = echo;
	/* Two in a row, so that all have more credit than the frame that is answered. */
	for (int round = 1; round <= 4; round++) {
		ask_all(5);
		nodes_pass(round % 2);
		nodes_until(&fates[SESSIONS - 1].replies, round / 2 * 2);
	}
	nodes_pass(1);
	memset(fates, 0, sizeof(fates));
	uint64_t before = libfabric_messages(b), bundles = party_stats(b).bundles_sent;
	delay_the_second();
	ask_all(5);
	nodes_until(&fates[SESSIONS - 1].replies, 1);
	check_fates();
	assert_int_equal(libfabric_messages(b), before + 2);
	assert_int_equal(party_stats(b).bundles_sent, bundles + 1);
}

/* So is what answers the messages of a frame. */
static void answers_share_a_frame(void **state)
{
	(void)state;
	begin(NULL, 1);
	uint64_t before = libfabric_messages(b);
	b->on_message = echo;
	delay_the_second();
	for (int i = 0; i < SESSIONS; i++) {
		struct weft_send send = asking(&"ABCDEFGHIJ"[i], 1, &fates[i]);
		assert_int_equal(weft_peer_send(a->node, peers[0], &send), 0);
	}
	nodes_until(&fates[SESSIONS - 1].replies, 1);
	check_fates();
	assert_int_equal(libfabric_messages(b), before + 2);
}

static weft_peer third;
static int told_third;

static void tell_third(struct party *party, const struct weft_msg *msg)
{
	(void)msg;
	uint64_t before = party_stats(party).frames_sent;
	assert_int_equal(say(party, third, "news", NULL), 0);
	/* While one is under way to it, the others wait for that one's end. */
	told_third += party_stats(party).frames_sent > before;
}

/* To another node it leaves at once, whatever else has come. */
static void news_for_a_third_do_not_wait(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	struct party *c = party_open(NULL);
	third = meet(b, c);
	nodes_pass(QUIET_MS);
	told_third = 0;
	b->on_message = tell_third;
	delay_the_second();
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(say(a, peers[i], "go", NULL), 0);
	nodes_until(&b->messages, 1);
	assert_int_equal(told_third, 1);
	nodes_until(&b->messages, SESSIONS);
	assert_int_equal(told_third, 2);
	nodes_until(&c->messages, SESSIONS);
}

/* Answers, acknowledgement and credit of many rounds. */
static void rounds(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	b->on_message = echo;
	for (int round = 1; round <= 300; round++) {
		memset(fates, 0, sizeof(fates));
		ask_all(100);
		nodes_until(&b->messages, round * SESSIONS);
		for (int i = 0; i < SESSIONS; i++)
			nodes_until(&fates[i].sent, 1);
		check_fates();
	}
	/* Answers tell acknowledgement and credit: hardly a frame says nothing else. */
	assert_in_range(party_stats(b).frames_sent, 300 * SESSIONS, 310 * SESSIONS);
	assert_in_range(party_stats(a).bundles_sent, 300, 1000);
	assert_int_equal(a->closed + b->closed, 0);
	nodes_check_budgets();
}

static void one_session_has_nobody_to_share_with(void **state)
{
	(void)state;
	begin(NULL, 1);
	struct party *c = party_open(NULL);
	weft_peer other = meet(a, c);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(say(a, peers[0], "one", NULL), 0);
		assert_int_equal(say(a, other, "two", NULL), 0);
	}
	nodes_until(&b->messages, 20);
	nodes_until(&c->messages, 20);
	assert_int_equal(party_stats(a).bundles_sent, 0);
}

/* Both sides have to know of it. */
static void only_where_it_is_agreed(void **state)
{
	(void)state;
	memset(fates, 0, sizeof(fates));
	a = party_open(NULL);
	b = party_open(NULL);
	b->node->features &= ~WEFT__FEATURE_BUNDLE;
	for (int i = 0; i < SESSIONS; i++)
		peers[i] = meet(a, b);
	a->node->routes->frames = busy ? 2 : 0;
	b->on_message = echo;
	ask_all(5);
	nodes_until(&b->messages, SESSIONS);
	nodes_pass(QUIET_MS);
	check_fates();
	assert_int_equal(party_stats(a).bundles_sent + party_stats(b).bundles_sent, 0);
}

/* The compact form by itself. */
static void the_compact_form_where_it_is_agreed(void **state)
{
	(void)state;
	memset(fates, 0, sizeof(fates));
	a = party_open(NULL);
	b = party_open(NULL);
	b->node->features &= ~WEFT__FEATURE_COMPACT;
	for (int i = 0; i < SESSIONS; i++)
		peers[i] = meet(a, b);
	nodes_pass(QUIET_MS);
	a->node->routes->frames = 2;
	b->on_message = echo;
	ask_all(5);
	nodes_until(&b->messages, SESSIONS);
	nodes_pass(QUIET_MS);
	check_fates();
	check_form();
	assert_true(party_stats(a).bundles_sent > 0);
}

/* As many as fit; what is longer than half a frame goes by itself. */
static void as_many_as_fit(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	b->on_message = echo;
	ask_all(FRAME_SIZE / 3 - 100);
	nodes_until(&b->messages, SESSIONS);
	/* One by itself, nine by three, and perhaps what is owed for the answers. */
	assert_in_range(party_stats(a).bundles_sent, 3, 4);
	nodes_pass(QUIET_MS);
	check_fates();
	uint64_t before = party_stats(a).bundles_sent;
	memset(fates, 0, sizeof(fates));
	ask_all(FRAME_SIZE / 2 + 1);
	nodes_until(&b->messages, 2 * SESSIONS);
	assert_in_range(party_stats(a).bundles_sent, before, before + 1);
	nodes_pass(QUIET_MS);
	check_fates();
}

/* The other side takes shorter frames than this one. */
static void not_longer_than_the_other_side_takes(void **state)
{
	(void)state;
	struct fake_provider *provider = party_provider(&fake_tcp);
	memset(fates, 0, sizeof(fates));
	a = party_open(NULL);
	provider->max_msg = 2048;
	b = party_open(NULL);
	assert_int_equal(b->node->frame_size, 2048);
	for (int i = 0; i < SESSIONS; i++)
		peers[i] = meet(a, b);
	nodes_pass(QUIET_MS);
	b->on_message = echo;
	ask_all(500);
	nodes_until(&b->messages, SESSIONS);
	/* One by itself, nine by three, and perhaps what is owed for the answers. */
	assert_in_range(party_stats(a).bundles_sent, 3, 4);
	nodes_pass(QUIET_MS);
	check_fates();
	assert_int_equal(a->closed + b->closed, 0);
}

/* Nor than any one session in it allows, where they do not say the same. */
static void the_shortest_of_all_counts(void **state)
{
	(void)state;
	begin(NULL, SESSIONS);
	weft__peer_find(a->node, peers[1])->s.max_frame = 1024;
	weft__peer_find(a->node, peers[SESSIONS - 1])->s.max_frame = 1024;
	ask_all(200);
	nodes_until(&b->messages, SESSIONS);
	/* One by itself, the second with two more, five others, and the last one by itself. */
	assert_int_equal(party_stats(a).bundles_sent, 2);
	assert_int_equal(party_stats(b).bundles_received, 2);
	nodes_pass(QUIET_MS);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(fates[i].sent_status, 0);
}

/* A long frame, which leaves by itself, does not overtake its own session's that wait: a sender
 * that dies in between would leave a gap. */
static void a_long_one_keeps_its_turn(void **state)
{
	static uint8_t data[FRAME_SIZE * 3 / 4];
	(void)state;
	begin(NULL, 2);
	/* Until there is credit for two frames at once. */
	for (int i = 1; i <= 8; i++) {
		assert_int_equal(weft_peer_write(a->node, peers[1], data, sizeof(data)), 0);
		nodes_until(&b->messages, i);
	}
	assert_true(weft__allowance_left(&weft__peer_find(a->node, peers[1])->s.allowance) >= 2);
	nodes_pass(QUIET_MS);
	/* The second libfabric message is lost: that is the short one, and the long one waits for
	 * it. */
	fake_skip("fi_send", 1);
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_LOSE});
	assert_int_equal(say(a, peers[0], "under way", NULL), 0);
	assert_int_equal(weft_peer_write(a->node, peers[1], data, FRAME_SIZE / 3), 0);
	assert_int_equal(weft_peer_write(a->node, peers[1], data, sizeof(data)), 0);
	nodes_pass(20);
	assert_int_equal(b->messages, 9);
	assert_string_equal(b->text, "under way");
}

static struct weft_msg *held[SESSIONS];
static int held_count;

static void hold(struct party *party, const struct weft_msg *msg)
{
	assert_true(held_count < SESSIONS);
	held[held_count] = weft_msg_hold(party->node, msg);
	assert_non_null(held[held_count++]);
}

static void check_held(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		if (!held[i])
			continue;
		const char *data = held[i]->data;
		assert_int_equal(held[i]->len, 50);
		assert_true(data[0] >= 'A' && data[0] < 'A' + SESSIONS && data[49] == data[0]);
	}
}

/* The memory of a bundle stays as long as a message of it is held, and each keeps its own session's
 * credit. */
static void messages_of_a_bundle_are_held(void **state)
{
	(void)state;
	held_count = 0;
	begin(NULL, SESSIONS);
	b->on_message = hold;
	ask_all(50);
	nodes_until(&b->messages, SESSIONS);
	assert_int_equal(party_stats(a).bundles_sent, 1);
	nodes_pass(QUIET_MS);
	b->on_message = NULL;
	uint32_t posted = b->node->frames.posted;
	for (int i = 0; i < SESSIONS; i += 2) {
		weft_msg_release(held[i]);
		held[i] = NULL;
		for (int j = 0; j < SESSIONS; j++)
			say(a, peers[j], "others come meanwhile", NULL);
		nodes_pass(10);
		check_held();
	}
	for (int i = 1; i < SESSIONS; i += 2) {
		weft_msg_release(held[i]);
		held[i] = NULL;
	}
	nodes_pass(QUIET_MS);
	assert_true(b->node->frames.posted >= posted);
	assert_int_equal(party_stats(b).held, 0);
	nodes_check_budgets();
	/* Also when the node is closed first. */
	held_count = 0;
	b->on_message = hold;
	ask_all(50);
	nodes_until(&held_count, SESSIONS);
	party_close(b, 0);
	check_held();
	for (int i = 0; i < SESSIONS; i++)
		weft_msg_release(held[i]);
}

/* Whose each message of a bundle is, is kept for so many. */
static void more_than_are_kept_of_one(void **state)
{
	enum { MANY = WEFT__BUNDLE_MESSAGES + 50 };
	static weft_peer many[MANY];
	static struct fate ends[MANY];
	(void)state;
	memset(ends, 0, sizeof(ends));
	a = party_open(NULL);
	b = party_open(NULL);
	for (int i = 0; i < MANY; i++)
		many[i] = meet(a, b);
	nodes_pass(QUIET_MS);
	struct weft__route *route = a->node->routes;
	route->frames = 2;
	uint64_t before = party_stats(a).bundles_sent;
	uint32_t serial = route->serial;
	for (int i = 0; i < MANY; i++) {
		struct weft_send send = telling(NULL, 0, &ends[i]);
		assert_int_equal(weft_peer_send(a->node, many[i], &send), 0);
	}
	assert_int_equal(party_stats(a).bundles_sent, before + 1);
	nodes_until(&b->messages, MANY);
	assert_int_equal(weft__peer_find(a->node, many[WEFT__BUNDLE_MESSAGES])->bundle, serial + 1);
	assert_int_equal(weft__peer_find(a->node, many[MANY - 1])->bundle, serial + 2);
	nodes_pass(QUIET_MS);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(ends[i].sent_status, 0);
	assert_int_equal(a->closed + b->closed, 0);
}

/* A session that sends several in a turn fills frames with them, after the first one. */
static void several_of_a_session_share_a_frame(void **state)
{
	(void)state;
	begin(NULL, 2);
	struct weft__peer *peer = weft__peer_find(a->node, peers[1]);
	assert_int_equal(say(a, peers[0], "under way", NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(say(a, peers[1], "one of several", NULL), 0);
	uint32_t serial = peer->bundle;
	assert_int_equal(serial, a->node->routes->serial);
	assert_int_equal(peer->s.tx_queued, peer->s.tx_number + 1);
	nodes_until(&b->messages, 4);
	/* Now it does so from the first one on, until it has a single one to say. */
	nodes_pass(QUIET_MS);
	for (int round = 0; round < 2; round++) {
		a->node->routes->frames = 2;
		assert_int_equal(say(a, peers[0], "under way", NULL), 0);
		assert_int_equal(say(a, peers[1], "one of one", NULL), 0);
		assert_int_equal(peer->bundle > serial, round > 0);
		nodes_until(&b->messages, 6 + 2 * round);
		nodes_pass(QUIET_MS);
	}
	assert_int_equal(a->closed + b->closed, 0);
}

/* Messages that leave at once, one after the other, are not several of a turn. */
static void lone_ones_are_not_several(void **state)
{
	(void)state;
	begin(NULL, 2);
	for (int i = 1; i <= 5; i++) {
		assert_int_equal(say(a, peers[0], "alone", NULL), 0);
		nodes_until(&b->messages, i);
		nodes_pass(5);
	}
	assert_int_equal(say(a, peers[0], "under way", NULL), 0);
	assert_int_equal(say(a, peers[1], "waits", NULL), 0);
	assert_false(a->node->routes->is_busy);
	nodes_until(&b->messages, 7);
}

static weft_peer others[SESSIONS];
static int told_others;

static void echo_and_tell_another(struct party *party, const struct weft_msg *msg)
{
	echo(party, msg);
	weft_peer other = others[SESSIONS / 2 + told_others++ % (SESSIONS / 2)];
	assert_int_equal(say(party, other, "news", NULL), 0);
}

/* An answer waits for the end of its callback, to take the credit along, though others come behind
 * it. */
static void an_answer_takes_the_credit_along(void **state)
{
	(void)state;
	a = party_open(NULL);
	b = party_open(NULL);
	for (int i = 0; i < SESSIONS; i++) {
		peers[i] = meet(a, b);
		others[i] = b->peer;
	}
	nodes_pass(QUIET_MS);
	/* No session may have more than one frame under way, so each waits for the credit. */
	b->node->pool.borrowable = 0;
	b->node->routes->frames = 2;
	b->on_message = echo_and_tell_another;
	told_others = 0;
	uint64_t before = party_stats(b).frames_sent;
	for (int round = 0; round < 50; round++) {
		memset(fates, 0, sizeof(fates));
		for (int i = 0; i < SESSIONS / 2; i++) {
			struct weft_send send = asking("hello", 5, &fates[i]);
			assert_int_equal(weft_peer_send(a->node, peers[i], &send), 0);
		}
		for (int i = 0; i < SESSIONS / 2; i++)
			nodes_until(&fates[i].replies, 1);
		nodes_pass(1);
	}
	const uint64_t messages = UINT64_C(2) * 50 * (SESSIONS / 2);
	/* But the first question of a round comes alone, and the news behind its answer leave at
	 * once. */
	assert_in_range(party_stats(b).frames_sent - before, messages, messages + 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(sessions_share_a_message),
		both(answers_share_a_message),
		plain(answers_share_a_frame),
		plain(news_for_a_third_do_not_wait),
		both(rounds),
		plain(one_session_has_nobody_to_share_with),
		both(only_where_it_is_agreed),
		both(as_many_as_fit),
		both(not_longer_than_the_other_side_takes),
		plain(the_shortest_of_all_counts),
		both(a_long_one_keeps_its_turn),
		both(messages_of_a_bundle_are_held),
		plain(more_than_are_kept_of_one),
		crowded(several_of_a_session_share_a_frame),
		plain(lone_ones_are_not_several),
		plain(an_answer_takes_the_credit_along),
		plain(the_compact_form_where_it_is_agreed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
