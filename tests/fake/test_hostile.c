/* SPDX-License-Identifier: MIT */
/*
 * Peers that have a session and break the rules: whatever they say in whatever state is dropped and
 * counted, or ends their own session. Beside each of them a good one goes on.
 */
#include <errno.h>

#include "nodeimpl.h"
#include "nodes.h"

static struct party *server, *good;
static weft_peer good_peer;

static void begin(struct raw *raw)
{
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = 64 * FRAME_SIZE;
	server = party_open(&opts);
	good = party_open(&opts);
	good_peer = meet(good, server);
	if (raw) {
		raw_open(raw, server);
		raw_meet(raw);
	}
}

/* The good one is served, and nothing is out of its bounds. */
static void all_is_well(void)
{
	struct fate fate = {0};
	assert_int_equal(say(good, good_peer, "good", &fate), 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
	assert_string_equal(server->text, "good");
	assert_int_equal(good->closed, 0);
	nodes_check_budgets();
}

/* The session must end with this reason, told to the peer. */
static void ends_it(struct raw *raw, enum weft_reason reason)
{
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, reason);
	assert_int_equal(server->end.by_peer, 0);
	nodes_until(&raw->came[WEFT__CLOSE], 1);
	assert_int_equal(raw_farewell(raw, WEFT__CLOSE).reason, reason);
	assert_true(raw_farewell(raw, WEFT__CLOSE).text_len > 0);
	all_is_well();
	nodes_teardown(NULL);
	nodes_setup(NULL);
}

static void numbers_that_cannot_be(void **state)
{
	static struct raw raw;
	(void)state;
	/* An acknowledgement of what was never sent. */
	begin(&raw);
	raw.ack = 1;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	/* Credit returned that it never had. */
	begin(&raw);
	raw.returned = 2;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	/* Far ahead. */
	begin(&raw);
	raw.number = 70000;
	raw_data(&raw, "far");
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	/* More frames than were allowed. */
	begin(&raw);
	for (int i = 0; i < 100; i++)
		raw_data(&raw, "more");
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	/* Messages out of order. */
	begin(&raw);
	raw.message = 5;
	raw_data(&raw, "sixth");
	ends_it(&raw, WEFT_REASON_PROTOCOL);
}

static void malformed_contents(void **state)
{
	static struct raw raw;
	uint8_t junk[64];
	memset(junk, 0xff, sizeof(junk));
	(void)state;
	begin(&raw);
	raw_frame(&raw, WEFT__DATA, junk, sizeof(junk));
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	begin(&raw);
	raw_frame(&raw, WEFT__DATA, NULL, 0);
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	begin(&raw);
	raw_frame(&raw, WEFT__CLOSE, junk, 3);
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	begin(&raw);
	/* A good record before a bad one is delivered. */
	static const uint8_t one[] = {'o', 'n', 'e'};
	uint8_t two[48] = {0};
	weft__wire_put_record(two, 1, 0, sizeof(one));
	memcpy(two + 16, one, sizeof(one));
	memset(two + 24, 0xff, 24);
	raw_frame(&raw, WEFT__DATA, two, sizeof(two));
	nodes_until(&server->messages, 1);
	assert_string_equal(server->text, "one");
	ends_it(&raw, WEFT_REASON_PROTOCOL);
	/* These say nothing that matters, and are only counted. */
	begin(&raw);
	raw_frame(&raw, WEFT__PING, junk, sizeof(junk));
	raw_frame(&raw, WEFT__ACCEPT, junk, sizeof(junk));
	raw_frame(&raw, WEFT__REJECT, junk, 5);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_malformed, 3);
	assert_int_equal(server->closed, 0);
	all_is_well();
}

/* Every type in every state: what does not belong there is counted and changes nothing. */
static void out_of_place(void **state)
{
	static struct raw raw;
	struct weft__hello theirs;
	(void)state;
	/* Half open: what is no proof. */
	begin(NULL);
	raw_open(&raw, server);
	raw_connect(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
	weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs);
	raw.peer_id = theirs.session;
	raw_frame(&raw, WEFT__CLOSED, NULL, 0);
	uint8_t body[300];
	size_t len = weft__wire_put_hello(body, sizeof(body), &raw.hello);
	raw_frame(&raw, WEFT__ACCEPT, body, len);
	struct weft__farewell farewell = {.quoted = raw.hello.session, .reason = 8};
	len = weft__wire_put_reject(body, sizeof(body), &farewell);
	raw_frame(&raw, WEFT__REJECT, body, len);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_state, 3);
	assert_int_equal(party_stats(server).half_open, 1);
	/* The words of that REJECT are not those of the end. */
	raw_data(&raw, "open");
	nodes_until(&server->messages, 1);
	raw_frame(&raw, WEFT__DATA, NULL, 0);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_PROTOCOL);
	assert_int_equal(server->end.by_peer, 0);
	nodes_teardown(NULL);
	nodes_setup(NULL);

	/* Open: answers that nobody waits for. */
	begin(&raw);
	raw.hello.session++;
	len = weft__wire_put_hello(body, sizeof(body), &raw.hello);
	raw_frame(&raw, WEFT__ACCEPT, body, len);
	farewell = (struct weft__farewell){.quoted = 4711, .reason = WEFT_REASON_UNKNOWN};
	len = weft__wire_put_reject(body, sizeof(body), &farewell);
	raw_frame(&raw, WEFT__REJECT, body, len);
	farewell.quoted = raw.hello.session - 1;
	farewell.reason = WEFT_REASON_FULL;
	len = weft__wire_put_reject(body, sizeof(body), &farewell);
	raw_frame(&raw, WEFT__REJECT, body, len);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_state, 3);
	assert_int_equal(server->closed, 0);
	all_is_well();
	/* This is the one that counts. */
	farewell.reason = WEFT_REASON_UNKNOWN;
	len = weft__wire_put_reject(body, sizeof(body), &farewell);
	raw_frame(&raw, WEFT__REJECT, body, len);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_UNKNOWN);
	assert_int_equal(server->end.by_peer, 1);
	all_is_well();
}

/* The server connects, and what answers is no good node. */
static void call_it(struct raw *raw, weft_peer *peer)
{
	begin(NULL);
	raw_open(raw, server);
	assert_int_equal(weft_peer_connect(server->node, &raw->addr, 2000, peer), 0);
	nodes_until(&raw->came[WEFT__CONNECT], 1);
	assert_int_equal(raw->last[WEFT__CONNECT].session, 0);
	assert_int_equal(raw->last[WEFT__CONNECT].credit, 1);
}

static void bad_answers(void **state)
{
	static struct raw raw;
	struct weft__hello theirs;
	uint8_t body[300];
	weft_peer peer;
	(void)state;
	/* The nonce is another's; nothing at all; what belongs to an open session. */
	call_it(&raw, &peer);
	weft__wire_get_hello(raw.body[WEFT__CONNECT], raw.len[WEFT__CONNECT], &theirs);
	raw.peer_id = theirs.session;
	raw.hello.nonce = theirs.nonce + 1;
	size_t len = weft__wire_put_hello(body, sizeof(body), &raw.hello);
	raw_frame(&raw, WEFT__ACCEPT, body, len);
	raw_frame(&raw, WEFT__ACCEPT, body, 3);
	struct weft__farewell farewell = {.quoted = theirs.nonce + 1, .reason = 6};
	raw_frame(&raw, WEFT__REJECT, body, weft__wire_put_reject(body, 300, &farewell));
	raw_frame(&raw, WEFT__REJECT, body, 2);
	raw_data(&raw, "too early");
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	raw_frame(&raw, WEFT__CLOSED, NULL, 0);
	nodes_pass(10);
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.drop_state, 5);
	assert_int_equal(stats.drop_malformed, 2);
	assert_int_equal(server->closed, 0);
	/* A good one still opens it. */
	raw.number = 0;
	raw.message = 0;
	raw_accept(&raw);
	nodes_until(&server->opened, 2);
	nodes_until(&raw.came[WEFT__CREDIT], 1);
	/* Once more is answered, and opens nothing. */
	raw_accept(&raw);
	nodes_pass(10);
	assert_int_equal(server->opened, 2);
	all_is_well();
	nodes_teardown(NULL);
	nodes_setup(NULL);

	/* Versions, features, credit and numbers that cannot be. */
	for (int i = 0; i < 4; i++) {
		static const enum weft_reason reasons[] = {WEFT_REASON_VERSION, WEFT_REASON_FEATURE,
							   WEFT_REASON_PROTOCOL,
							   WEFT_REASON_PROTOCOL};
		call_it(&raw, &peer);
		raw.hello.version_min = raw.hello.version_max = i == 0 ? 2 : 1;
		raw.hello.required = i == 1 ? 0x80000000 : 0;
		raw.credit = i == 2 ? 0x80000000 : 1;
		raw.ack = i == 3;
		raw_accept(&raw);
		nodes_until(&server->closed, 1);
		assert_int_equal(server->end.reason, reasons[i]);
		assert_int_equal(server->end.opened, 0);
		assert_int_equal(server->end.by_peer, 0);
		assert_int_equal(party_stats(server).failed, 1);
		all_is_well();
		nodes_teardown(NULL);
		nodes_setup(NULL);
	}

	/* A refusal with words of its own. */
	call_it(&raw, &peer);
	weft__wire_get_hello(raw.body[WEFT__CONNECT], raw.len[WEFT__CONNECT], &theirs);
	raw.peer_id = theirs.session;
	farewell = (struct weft__farewell){.quoted = theirs.nonce,
					   .reason = 777,
					   .code = 9,
					   .text_len = 8,
					   .text = "100%s %n"};
	raw_frame(&raw, WEFT__REJECT, body, weft__wire_put_reject(body, 300, &farewell));
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, 777);
	assert_int_equal(server->end.status, -ECONNRESET);
	assert_int_equal(server->end.code, 9);
	assert_non_null(strstr(server->why, "not known here: 100%s %n"));
}

/* Silence and noise of one that is being closed. */
static void while_closing(void **state)
{
	static struct raw raw;
	(void)state;
	for (int i = 0; i < 6; i++) {
		begin(&raw);
		nodes_pass(20);
		assert_int_equal(weft_peer_close(server->node, server->peer, 5000), 0);
		nodes_until(&raw.came[WEFT__CLOSE], 1);
		uint32_t number = raw.last[WEFT__CLOSE].number;
		/* What it had on its way is taken. */
		raw_data(&raw, "on its way");
		raw_frame(&raw, WEFT__PONG, NULL, 0);
		raw_frame(&raw, WEFT__CREDIT, NULL, 0);
		nodes_until(&server->messages, 1);
		assert_int_equal(server->closed, 0);
		uint8_t body[300];
		struct weft__farewell farewell = {.quoted = raw.hello.session, .reason = 8};
		switch (i) {
		case 0: /* as it should be */
			raw.ack = number;
			raw_frame(&raw, WEFT__CLOSED, NULL, 0);
			break;
		case 1: /* its own CLOSE */
			raw_frame(&raw, WEFT__CLOSE, body,
				  weft__wire_put_close(body, sizeof(body), &farewell));
			nodes_until(&raw.came[WEFT__CLOSED], 1);
			assert_int_equal(server->closed, 0);
			raw_frame(&raw, WEFT__CLOSED, NULL, 0);
			break;
		case 2: /* it knows nothing of it */
			raw_frame(&raw, WEFT__REJECT, body,
				  weft__wire_put_reject(body, sizeof(body), &farewell));
			break;
		case 3: /* nonsense */
			raw_frame(&raw, WEFT__DATA, NULL, 0);
			break;
		case 4: /* nothing */
			nodes_pass(5200);
			break;
		default: /* questions, until the time is over */
			for (int k = 0; k < 60; k++) {
				raw_frame(&raw, WEFT__PONG, NULL, 0);
				nodes_pass(100);
			}
			break;
		}
		nodes_until(&server->closed, 1);
		assert_int_equal(server->end.reason,
				 i == 3	  ? WEFT_REASON_PROTOCOL
				 : i == 4 ? WEFT_REASON_LOST
					  : WEFT_REASON_CLOSED);
		assert_int_equal(server->end.by_peer, 0);
		all_is_well();
		nodes_teardown(NULL);
		nodes_setup(NULL);
	}
}

/* Two CLOSEs, early ones, and frames after it. */
static void closes_of_its_own(void **state)
{
	static struct raw raw;
	uint8_t body[300];
	struct weft__farewell farewell = {.reason = 1, .code = 3, .text_len = 3, .text = "bye"};
	size_t len = weft__wire_put_close(body, sizeof(body), &farewell);
	(void)state;
	begin(&raw);
	raw.number = 4;
	raw_frame(&raw, WEFT__CLOSE, body, len);
	raw.number = 6;
	raw_frame(&raw, WEFT__CLOSE, body, len);
	ends_it(&raw, WEFT_REASON_PROTOCOL);

	/* In its turn, and only then. */
	begin(&raw);
	raw.number = 1;
	raw_frame(&raw, WEFT__CLOSE, body, len);
	nodes_pass(20);
	assert_int_equal(server->closed, 0);
	raw.number = 0;
	raw_data(&raw, "before");
	nodes_until(&server->closed, 1);
	assert_int_equal(server->messages, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(server->end.by_peer, 1);
	assert_int_equal(server->end.code, 3);
	assert_non_null(strstr(server->why, "bye"));
	nodes_until(&raw.came[WEFT__CLOSED], 1);
	assert_int_equal(raw.last[WEFT__CLOSED].ack, 2);
	/* And once more finds nobody. */
	raw.number = 1;
	raw_frame(&raw, WEFT__CLOSE, body, len);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_unknown, 1);
	all_is_well();
	nodes_teardown(NULL);
	nodes_setup(NULL);

	/* It gives no reason, which is one. */
	begin(&raw);
	farewell = (struct weft__farewell){.reason = 0};
	len = weft__wire_put_close(body, sizeof(body), &farewell);
	raw_frame(&raw, WEFT__CLOSE, body, len);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_CLOSED);
	nodes_teardown(NULL);
	nodes_setup(NULL);

	/* CLOSED without a CLOSE. */
	begin(&raw);
	raw_frame(&raw, WEFT__CLOSED, NULL, 0);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(server->end.by_peer, 1);
	all_is_well();
}

/* Answers to what was not asked, and a claim of a great number of acknowledgements. */
static void answers_to_nothing(void **state)
{
	static struct raw raw;
	struct fate fate = {0};
	uint8_t body[64] = {0};
	(void)state;
	begin(&raw);
	weft__wire_put_record(body, ++raw.message, 99, 0);
	raw_frame(&raw, WEFT__DATA, body, 16);
	nodes_until(&server->messages, 1);
	assert_int_equal(server->msg.reply_to, 99);
	/* An answer before the acknowledgement: it is the answer only to what was acknowledged. */
	struct weft_send send = asking("?", 1, &fate);
	assert_int_equal(weft_peer_send(server->node, server->msg.peer, &send), 0);
	nodes_until(&raw.came[WEFT__DATA], 1);
	weft__wire_put_record(body, ++raw.message, 1, 0);
	raw_frame(&raw, WEFT__DATA, body, 16);
	nodes_until(&server->messages, 2);
	assert_int_equal(fate.replies, 0);
	raw.ack = 1;
	weft__wire_put_record(body, ++raw.message, 1, 0);
	raw_frame(&raw, WEFT__DATA, body, 16);
	nodes_until(&fate.replies, 1);
	assert_int_equal(fate.reply_status, 0);
	all_is_well();
}

/* One that never gives credit back and one that takes none: the sender waits, its memory is
 * bounded. */
static void no_credit(void **state)
{
	static struct raw raw;
	(void)state;
	begin(NULL);
	raw_open(&raw, server);
	raw.credit = 1;
	raw_meet(&raw);
	int sent = 0;
	while (say(server, server->peer, "waits", NULL) == 0)
		sent++;
	assert_true(sent > 1000);
	nodes_pass(500);
	assert_int_equal(raw.came[WEFT__DATA], 1);
	assert_true(party_stats(server).frames_queued > 10);
	assert_true(party_stats(server).stalls > 0);
	/* Older credit than is known changes nothing, newer does. */
	raw.credit = 0;
	raw.ack = 1;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_pass(20);
	assert_int_equal(raw.came[WEFT__DATA], 1);
	raw.credit = 3;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_pass(20);
	assert_int_equal(raw.came[WEFT__DATA], 3);
	all_is_well();
}

/* A flood of questions has one answer at a time, and takes nothing of the budget. */
static void a_flood_of_questions(void **state)
{
	static struct raw raw;
	uint8_t body[200];
	(void)state;
	begin(&raw);
	struct weft__ping ping = {raw.hello.session, raw.hello.instance, raw.addr};
	size_t len = weft__wire_put_ping(body, sizeof(body), &ping);
	uint64_t before = party_stats(server).memory;
	for (int i = 0; i < 1000; i++) {
		raw_frame(&raw, WEFT__PING, body, len);
		if (i % 10 == 0)
			nodes_pass(1);
	}
	nodes_pass(10);
	assert_in_range(raw.came[WEFT__PONG], 50, 1000);
	assert_true(party_stats(server).memory < before + (1 << 16));
	assert_int_equal(server->closed, 0);
	all_is_well();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(numbers_that_cannot_be), nodes_test(malformed_contents),
		nodes_test(out_of_place),	    nodes_test(bad_answers),
		nodes_test(while_closing),	    nodes_test(closes_of_its_own),
		nodes_test(answers_to_nothing),	    nodes_test(no_credit),
		nodes_test(a_flood_of_questions),
	};
	return world_run(tests);
}
