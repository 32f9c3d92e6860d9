/* SPDX-License-Identifier: MIT */
/*
 * Frames of several sessions in one libfabric message: when they share one and when not, what
 * becomes of each, and what a stranger may put into one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nodeimpl.h"
#include "nodes.h"
#include "peer.h"

#define SESSIONS 10
/* All that is owed has been told. */
#define QUIET_MS (INT64_C(2) * WEFT__OWED_MS)

static struct party *a, *b;
static weft_peer peers[SESSIONS];
/* Whether messages go straight into bundles, in the compact form, as they do where several had to
 * leave in the turn before. */
static bool busy;
/* What becomes of each session's message; some end when the test is over. */
static struct fate fates[SESSIONS];

static void echo(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = msg->data;
	send.len = msg->len;
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
}

/* Two nodes with so many sessions, which are quiet. opts NULL: the usual ones. */
static void begin(const struct weft_node_opts *opts, int sessions)
{
	memset(fates, 0, sizeof(fates));
	a = party_open(opts);
	b = party_open(opts);
	for (int i = 0; i < sessions; i++)
		peers[i] = meet(a, b);
	nodes_pass(QUIET_MS);
	/* As if two frames had left in the last turn. */
	a->node->routes->frames = b->node->routes->frames = busy ? 2 : 0;
}

static int setup(void **state)
{
	busy = false;
	return nodes_setup(state);
}

static int setup_busy(void **state)
{
	busy = true;
	return nodes_setup(state);
}

#define plain(fn) cmocka_unit_test_setup_teardown(fn, setup, nodes_teardown)
/* A test of both forms. */
#define both(fn)                                                                                   \
	cmocka_unit_test_setup_teardown(fn, setup, nodes_teardown),                                \
	{                                                                                          \
#fn "_busy", fn, setup_busy, nodes_teardown, NULL                                  \
	}

/* The first one left at once, and so by itself. */
static void check_form(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		const struct weft__peer *peer = weft__peer_find(a->node, peers[i]);
		assert_int_equal(peer->bundle > 0, busy && i > 0);
	}
}

/* The same on nets that take one operation a peer: what does not go with the first one waits. */
static void begin_with_room_for_one(void)
{
	struct weft_net_opts net = quiet_opts();
	party_provider(&fake_tcp);
	net.provider = fake_tcp.name;
	net.max_ops_per_peer = 1;
	struct weft_node_opts opts = node_opts();
	opts.net = &net;
	begin(&opts, SESSIONS);
}

/* By each session a message of so many bytes, of a letter of its own. */
static void ask_all(size_t len)
{
	uint8_t *data = calloc(1, len);
	assert_non_null(data);
	for (int i = 0; i < SESSIONS; i++) {
		memset(data, 'A' + i, len);
		struct weft_send send = asking(data, len, &fates[i]);
		assert_int_equal(weft_peer_send(a->node, peers[i], &send), 0);
	}
	free(data);
}

static void check_fates(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		assert_int_equal(fates[i].sent, 1);
		assert_int_equal(fates[i].sent_status, 0);
		assert_int_equal(fates[i].replies, 1);
		assert_int_equal(fates[i].reply_status, 0);
		assert_int_equal(fates[i].text[0], 'A' + i);
	}
}

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

/* ---- a stranger's bundles */

static struct raw raw;
static uint8_t bundle[16384];
static size_t bundle_len;

static void bundle_begin(void)
{
	struct weft__header header = {.version = 1, .type = WEFT__BUNDLE};
	bundle_len = weft__wire_put_header(bundle, &header);
}

static void bundle_add(enum weft__frame_type type, uint64_t session, uint32_t number,
		       const void *body, size_t len)
{
	uint8_t frame[1024];
	struct weft__header header = {
		.version = 1,
		.type = (uint8_t)type,
		.session = session,
		.number = number,
		.credit = 100,
	};
	weft__wire_put_header(frame, &header);
	if (len > 0)
		memcpy(frame + WEFT__HEADER_LEN, body, len);
	weft__wire_put_bundled(bundle + bundle_len, frame, WEFT__HEADER_LEN + len);
	bundle_len += weft__bundled_room(WEFT__HEADER_LEN + len);
}

static void bundle_add_compact(uint64_t session, uint32_t number, const void *data, size_t len)
{
	const struct weft__header header = {.session = session, .number = number, .credit = 100};
	uint8_t *head = bundle + bundle_len;
	memcpy(weft__wire_put_compact(head, (uint32_t)len, 0), data, len);
	weft__wire_put_compact_header(head, &header);
	bundle_len += weft__compact_room(len);
}

static void bundle_add_text(uint64_t session, uint32_t number, uint32_t id, const char *text)
{
	uint8_t body[64] = {0};
	size_t len = strlen(text);
	if (busy) {
		bundle_add_compact(session, number, text, len);
		return;
	}
	uint8_t *to = weft__wire_put_record(body, id, 0, (uint32_t)len);
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)text[i];
	bundle_add(WEFT__DATA, session, number, body, weft__record_room(len));
}

/* A node that has two sessions with a stranger. */
static void begin_with_stranger(uint64_t ids[2])
{
	a = party_open(NULL);
	raw_open(&raw, a);
	raw.credit = 100;
	raw.hello.features = WEFT__FEATURE_BUNDLE;
	raw_meet(&raw);
	ids[0] = raw.peer_id;
	raw.hello.session ^= 0xff00;
	raw.hello.nonce ^= 0xff00;
	raw.came[WEFT__ACCEPT] = 0;
	raw_meet(&raw);
	ids[1] = raw.peer_id;
	assert_int_not_equal(ids[0], ids[1]);
	assert_int_equal(a->opened, 2);
}

/* Each frame in it counts for itself. */
static void what_harms_nobody_else(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	struct weft_node_stats before = party_stats(a);
	bundle_begin();
	bundle_add(WEFT__CONNECT, 0, 0, NULL, 0);
	bundle_add(WEFT__ACCEPT, ids[0], 0, NULL, 0);
	bundle_add(WEFT__REJECT, ids[0], 0, NULL, 0);
	bundle_add(WEFT__BUNDLE, 0, 0, NULL, 0);
	bundle_add(WEFT__PONG, ids[0], 0, "contents", 8);
	bundle_add((enum weft__frame_type)99, ids[0], 0, NULL, 0);
	bundle_add(WEFT__CREDIT, ids[0] ^ 0x10, 0, NULL, 0);
	bundle_add_text(ids[1], 1, 1, "good");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 1);
	assert_string_equal(a->text, "good");
	struct weft_node_stats after = party_stats(a);
	assert_int_equal(after.drop_malformed, before.drop_malformed + 6);
	assert_int_equal(after.drop_unknown, before.drop_unknown + 1);
	assert_int_equal(after.bundles_received, before.bundles_received + 1);
	assert_int_equal(a->closed, 0);
}

/* A breach of the protocol ends the session that it is of, and the next frame is taken. */
static void one_ends_and_the_other_goes_on(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	bundle_begin();
	bundle_add(WEFT__DATA, ids[0], 1, "no record", 9);
	bundle_add_text(ids[0], 2, 1, "too late");
	bundle_add_text(ids[1], 1, 1, "good");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 1);
	assert_string_equal(a->text, "good");
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_PROTOCOL);
	nodes_pass(20);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->messages, 1);
}

/* Frames of a session come in any order, in one bundle and another. */
static void early_ones_are_kept(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	weft__peer_find(a->node, a->peer)->s.credit.granted += 4;
	a->node->pool.out += 4;
	a->node->pool.borrowed += 4;
	bundle_begin();
	bundle_add_text(ids[1], 3, 3, "three");
	bundle_add_text(ids[1], 2, 2, "two");
	raw_send(&raw, bundle, bundle_len);
	nodes_pass(10);
	assert_int_equal(a->messages, 0);
	bundle_begin();
	bundle_add_text(ids[1], 2, 2, "two again");
	bundle_add_text(ids[1], 1, 1, "one");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 3);
	assert_string_equal(a->text, "three");
	assert_int_equal(party_stats(a).drop_duplicate, 1);
	assert_int_equal(a->closed, 0);
}

/* What is behind a wrong length cannot be found. */
static void a_bundle_that_is_malformed(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	uint64_t before = party_stats(a).drop_malformed;
	bundle_begin();
	bundle_add_text(ids[0], 1, 1, "good");
	size_t second = bundle_len;
	bundle_add_text(ids[1], 1, 1, "lost");
	for (uint32_t len = 0; len <= 255; len += len < 31 ? 31 : 112) {
		bundle[second] = (uint8_t)len;
		raw_send(&raw, bundle, bundle_len);
	}
	raw_send(&raw, bundle, second + 7);
	raw_send(&raw, bundle, WEFT__HEADER_LEN);
	nodes_pass(20);
	assert_int_equal(a->messages, 1);
	assert_string_equal(a->text, "good");
	assert_int_equal(party_stats(a).drop_malformed, before + 6);
	assert_int_equal(party_stats(a).drop_duplicate, 4);
	assert_int_equal(a->closed, 0);
}

/* The same of a message in the compact form. */
static void a_compact_message_that_is_malformed(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	uint64_t before = party_stats(a).drop_malformed;
	bundle_begin();
	bundle_add_compact(ids[0], 1, "good", 4);
	size_t second = bundle_len;
	bundle_add_compact(ids[1], 1, "lost", 4);
	bundle[second] = 9;
	raw_send(&raw, bundle, bundle_len);
	bundle[second + 2] = 0xff;
	raw_send(&raw, bundle, bundle_len);
	raw_send(&raw, bundle, second + 31);
	nodes_pass(20);
	assert_int_equal(a->messages, 1);
	assert_string_equal(a->text, "good");
	assert_int_equal(party_stats(a).drop_malformed, before + 3);
	assert_int_equal(party_stats(a).drop_duplicate, 2);
	assert_int_equal(a->closed, 0);
}

/* Its sender breaks the protocol where a frame's would. */
static void a_compact_message_that_may_not_be(void **state)
{
	uint64_t ids[2];
	uint8_t body[WEFT__RECORD_LEN + 8] = {0};
	(void)state;
	begin_with_stranger(ids);
	weft__peer_find(a->node, a->peer)->s.credit.granted += 4;
	a->node->pool.out += 4;
	a->node->pool.borrowed += 4;
	a->node->opts.max_message = 100;
	/* Longer than is taken. */
	uint8_t text[101] = "";
	bundle_begin();
	bundle_add_compact(ids[0], 1, text, sizeof(text));
	/* Between the parts of a message. */
	weft__wire_put_record(body, 1, 0, 8);
	weft__wire_put_rest(body, 8);
	bundle_add(WEFT__DATA, ids[1], 1, body, sizeof(body));
	bundle_add_compact(ids[1], 2, "between", 7);
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->closed, 2);
	assert_int_equal(a->end.reason, WEFT_REASON_PROTOCOL);
	assert_int_equal(a->messages, 0);
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
	busy = true;
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
	assert_in_range(party_stats(b).frames_sent - before, messages, messages + 3);
}

/* A bundle is full while the net has no room, and sessions end meanwhile. */
static void full_and_without_room(void **state)
{
	static uint8_t data[FRAME_SIZE / 6];
	(void)state;
	busy = true;
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
	busy = true;
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
	busy = true;
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
		both(a_net_without_room),
		both(sessions_end_while_they_wait),
		both(a_node_ends_while_they_wait),
		both(a_bundle_breaks),
		both(a_bundle_is_refused),
		both(what_harms_nobody_else),
		both(one_ends_and_the_other_goes_on),
		both(early_ones_are_kept),
		plain(a_bundle_that_is_malformed),
		plain(a_compact_message_that_is_malformed),
		plain(a_compact_message_that_may_not_be),
		plain(more_than_are_kept_of_one),
		plain(several_of_a_session_share_a_frame),
		plain(lone_ones_are_not_several),
		plain(an_answer_takes_the_credit_along),
		plain(full_and_without_room),
		plain(full_and_refused),
		plain(bundles_outlive_their_sessions),
		plain(the_compact_form_where_it_is_agreed),
		both(without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
