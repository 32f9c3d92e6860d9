/* SPDX-License-Identifier: MIT */
/* Sessions: how they begin, how they are kept alive, and how they end without anybody's wish. */
#include <errno.h>

#include "nodeimpl.h"
#include "nodes.h"

static void two_nodes_meet(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_int_equal(a->peer, peer);
	assert_int_equal(a->accepts, 0);
	assert_int_equal(b->accepts, 1);
	assert_int_equal(a->info.outgoing, 1);
	assert_int_equal(b->info.outgoing, 0);
	assert_true(weft_addr_equal(&a->info.addr, &b->addr));
	assert_true(weft_addr_equal(&b->info.addr, &a->addr));
	assert_string_equal(a->provider, "tcp;ofi_rxm");
	assert_int_equal(a->info.silence_ms, 30000);
	assert_int_equal(a->info.max_message, 1 << 30);
	assert_int_equal(a->info.max_frame, 16384);
	assert_true(a->info.instance != 0 && a->info.instance != b->info.instance);
	assert_int_equal(a->info.libfabric, FI_VERSION(1, 17));

	struct weft_peer_info info = WEFT_PEER_INFO_INIT;
	assert_int_equal(weft_peer_get_info(a->node, peer, &info), 0);
	assert_true(weft_addr_equal(&info.addr, &b->addr));
	assert_string_equal(info.provider, "tcp;ofi_rxm");
	info.size = 4;
	assert_int_equal(weft_peer_get_info(a->node, peer, &info), -EINVAL);
	assert_int_equal(weft_peer_get_info(a->node, peer + 1, &info), -ENOTCONN);

	struct weft_node_stats stats = party_stats(a);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.opened, 1);
	assert_int_equal(stats.half_open, 0);
	stats = party_stats(b);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.opened, 1);
	assert_int_equal(stats.half_open, 0);
	assert_true(logged(WEFT_LOG_DEBUG, "a session is open with tcp;ofi_rxm"));
}

static void data_of_a_peer(void **state)
{
	int thing;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_null(weft_peer_data(a->node, peer));
	assert_int_equal(weft_peer_set_data(a->node, peer, &thing), 0);
	assert_ptr_equal(weft_peer_data(a->node, peer), &thing);
	assert_null(weft_peer_data(a->node, 0));
	assert_null(weft_peer_data(a->node, peer + ((weft_peer)1 << 32)));
	assert_int_equal(weft_peer_set_data(a->node, 12345, &thing), -ENOTCONN);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	nodes_until(&a->closed, 1);
	assert_null(weft_peer_data(a->node, peer));
	assert_int_equal(weft_peer_set_data(a->node, peer, &thing), -ENOTCONN);
	/* The next session in its place has another handle, and no pointer. */
	weft_peer next = meet(a, b);
	assert_int_not_equal(next, peer);
	assert_null(weft_peer_data(a->node, next));
}

static void a_program_refuses(void **state)
{
	weft_peer peer;
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	b->refuse = 4711;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "are you there", &fate), 0);
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_REFUSED);
	assert_int_equal(a->end.status, -ECONNREFUSED);
	assert_int_equal(a->end.code, 4711);
	assert_int_equal(a->end.by_peer, 1);
	assert_int_equal(a->end.opened, 0);
	assert_non_null(strstr(a->why, "the other side says: "));
	assert_int_equal(fate.sent, 1);
	assert_int_equal(fate.sent_status, -ECONNREFUSED);
	assert_int_equal(a->opened + b->opened + b->closed, 0);
	assert_int_equal(party_stats(b).rejected, 1);
	assert_int_equal(party_stats(b).half_open, 0);
	assert_int_equal(party_stats(a).failed, 1);
	/* It was for this time only. */
	b->refuse = 0;
	meet(a, b);
}

static void nobody_answers(void **state)
{
	weft_peer peer;
	struct weft_addr nobody;
	(void)state;
	struct party *a = party_open(NULL);
	nobody = a->addr;
	nobody.raw[3] ^= 0x15;
	assert_int_equal(weft_peer_connect(a->node, &nobody, 2000, &peer), 0);
	struct weft_peer_info info = WEFT_PEER_INFO_INIT;
	assert_int_equal(weft_peer_get_info(a->node, peer, &info), 0);
	assert_int_equal(info.max_frame, FRAME_SIZE);
	assert_true(weft_addr_equal(&info.addr, &nobody));
	nodes_pass(1990);
	assert_int_equal(a->closed, 0);
	nodes_pass(30);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_TIMEOUT);
	assert_int_equal(a->end.status, -ETIMEDOUT);
	assert_int_equal(a->end.by_peer, 0);
	assert_non_null(strstr(a->why, "waited 20"));
	assert_int_equal(party_stats(a).failed, 1);
	assert_int_equal(party_stats(a).peers, 0);
	/* The default is 5 s. */
	assert_int_equal(weft_peer_connect(a->node, &nobody, -1, &peer), 0);
	nodes_pass(4900);
	assert_int_equal(a->closed, 1);
	nodes_pass(200);
	assert_int_equal(a->closed, 2);
	nodes_pass(3000);
	assert_int_equal(a->closed, 2);
}

/* Where the provider says at once that nobody is there, it is tried again, and what it said is
 * told. */
static void the_provider_says_why(void **state)
{
	weft_peer peer;
	struct weft_addr nobody;
	(void)state;
	party_provider(&fake_efa);
	fake_set_version(FI_VERSION(2, 6));
	struct party *a = party_open(NULL);
	nobody = a->addr;
	nobody.raw[16] ^= 0x15;
	assert_int_equal(weft_peer_connect(a->node, &nobody, 1000, &peer), 0);
	nodes_pass(900);
	assert_int_equal(a->closed, 0);
	assert_in_range(party_stats(a).frames_sent, 3, 6);
	nodes_pass(200);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_TIMEOUT);
	assert_int_equal(a->end.prov_errno, 15);
	assert_non_null(strstr(a->why, "the fabric says"));
	assert_true(a->advice[0] != 0);
}

/* The device has one code for a peer that has stopped and for one that was never there. */
static void silence_from_the_first_is_told_as_such(void **state)
{
	struct fake_provider efa = fake_efa;
	struct weft_addr nobody;
	weft_peer peer;
	(void)state;
	efa.absent_prov_errno = 13;
	party_provider(&efa);
	fake_set_version(FI_VERSION(2, 6));
	struct party *a = party_open(NULL);
	nobody = a->addr;
	nobody.raw[16] ^= 0x15;
	assert_int_equal(weft_peer_connect(a->node, &nobody, 1000, &peer), 0);
	nodes_pass(1200);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.prov_errno, 13);
	assert_non_null(strstr(a->advice, "never answered"));
}

static struct party *starter;
static struct weft_addr start_addr;

static void start_server(void *unused)
{
	(void)unused;
	fake_next_addr(start_addr.raw, start_addr.len);
	starter = party_open(NULL);
}

static void the_client_comes_first(void **state)
{
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	start_addr = b->addr;
	party_close(b, 0);
	assert_int_equal(weft_peer_connect(a->node, &start_addr, 5000, &peer), 0);
	fake_at(3000 * FAKE_NS_PER_MS, start_server, NULL);
	nodes_until(&a->opened, 1);
	assert_in_range(starter->accepts, 1, 2);
	nodes_until(&starter->opened, 1);
}

/* What failed before a session opened is no part of how it ends. */
static void an_attempt_is_forgotten(void **state)
{
	weft_peer peer;
	(void)state;
	party_provider(&fake_efa);
	fake_set_version(FI_VERSION(2, 6));
	struct party *a = party_open(NULL), *b = party_open(NULL);
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_EIO, 9, "gone"});
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	nodes_until(&a->opened, 1);
	nodes_until(&b->opened, 1);
	weft_peer_close(b->node, b->peer, -1);
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(a->end.prov_errno, 0);
	assert_int_equal(a->end.status, 0);
	assert_string_equal(a->why, "the other side says: closed");
	assert_string_equal(a->advice, "");
}

static void connects_cross(void **state)
{
	weft_peer one, two;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	for (int round = 1; round <= 20; round++) {
		assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &one), 0);
		assert_int_equal(weft_peer_connect(b->node, &a->addr, -1, &two), 0);
		nodes_until(&a->opened, 2 * round);
		nodes_until(&b->opened, 2 * round);
		assert_int_equal(say(a, one, "one", NULL), 0);
		assert_int_equal(say(b, two, "two", NULL), 0);
		nodes_until(&b->messages, round);
		nodes_until(&a->messages, round);
		assert_string_equal(a->text, "two");
		assert_string_equal(b->text, "one");
	}
	assert_int_equal(a->closed + b->closed, 0);
	assert_int_equal(party_stats(a).peers, 40);
	nodes_check_budgets();
}

static void a_second_session(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer one = meet(a, b), two = meet(a, b);
	assert_int_not_equal(one, two);
	assert_int_equal(weft_peer_close(a->node, one, -1), 0);
	nodes_until(&a->closed, 1);
	nodes_until(&b->closed, 1);
	assert_int_equal(say(a, two, "still here", NULL), 0);
	nodes_until(&b->messages, 1);
}

/* Also with itself, as a program in tests may do. */
static void a_node_meets_itself(void **state)
{
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL);
	assert_int_equal(weft_peer_connect(a->node, &a->addr, -1, &peer), 0);
	nodes_until(&a->opened, 2);
	assert_int_equal(say(a, peer, "to myself", NULL), 0);
	nodes_until(&a->messages, 1);
	assert_string_equal(a->text, "to myself");
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	nodes_until(&a->closed, 2);
}

static void a_client_starts_again(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *server = party_open(NULL), *a = party_open(NULL);
	struct weft_addr addr = a->addr;
	meet(a, server);
	weft_peer old = server->peer;
	party_kill(a);
	assert_int_equal(say(server, old, "lost", &fate), 0);
	nodes_pass(50);
	assert_int_equal(server->closed, 0);
	fake_next_addr(addr.raw, addr.len);
	struct party *again = party_open(NULL);
	meet(again, server);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_RESTARTED);
	assert_int_equal(server->end.status, -ECONNRESET);
	assert_int_equal(server->end.by_peer, 0);
	assert_int_equal(fate.sent, 1);
	assert_int_equal(fate.sent_status, -ECONNRESET);
	assert_int_equal(party_stats(server).restarted, 1);
	/* The new one has nothing of the old one's, and the frames of that are nobody's. */
	assert_int_equal(say(server, server->peer, "new", NULL), 0);
	nodes_until(&again->messages, 1);
	assert_string_equal(again->text, "new");
	assert_int_equal(again->messages, 1);
	assert_int_equal(again->closed, 0);
	assert_in_range(party_stats(again).drop_unknown, 1, 3);
}

/* A CONNECT alone proves nothing, and ends nothing. */
static void a_claim_replaces_nobody(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	raw_meet(&raw);
	weft_peer old = server->peer;
	uint64_t old_id = raw.peer_id;
	raw.hello.instance++;
	raw.hello.nonce++;
	raw.hello.session++;
	raw_connect(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 2);
	nodes_pass(100);
	assert_int_equal(server->closed, 0);
	assert_int_equal(party_stats(server).half_open, 1);
	/* The old one is as it was. */
	assert_int_equal(say(server, old, "still here", NULL), 0);
	nodes_until(&raw.came[WEFT__DATA], 1);
	struct weft__hello theirs;
	assert_true(weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs));
	assert_int_not_equal(theirs.session, old_id);
	raw.peer_id = theirs.session;
	raw_frame(&raw, WEFT__PONG, NULL, 0);
	nodes_until(&server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_RESTARTED);
	assert_int_equal(server->opened, 2);
}

/* An answer that is repeated, as CONNECT was, says in its header what any other frame may say. */
static void a_repeated_answer_acknowledges(void **state)
{
	static struct raw raw;
	/* The end of the second comes when the test is over. */
	static struct fate first, second;
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL);
	raw_open(&raw, a);
	raw.credit = 1;
	assert_int_equal(weft_peer_connect(a->node, &raw.addr, -1, &peer), 0);
	nodes_until(&raw.came[WEFT__CONNECT], 1);
	raw_accept(&raw);
	nodes_until(&a->opened, 1);
	assert_int_equal(say(a, peer, "first", &first), 0);
	nodes_until(&raw.came[WEFT__DATA], 1);
	assert_int_equal(say(a, peer, "second", &second), 0);
	nodes_pass(100);
	assert_int_equal(raw.came[WEFT__DATA], 1);
	assert_int_equal(first.sent, 0);
	raw.ack = 1;
	raw.credit = 2;
	raw_accept(&raw);
	nodes_until(&first.sent, 1);
	assert_int_equal(first.sent_status, 0);
	nodes_until(&raw.came[WEFT__DATA], 2);
	assert_int_equal(second.sent, 0);
	assert_int_equal(a->closed, 0);
}

/* The side that connects learns the same from the answer. */
static void a_server_starts_again(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *server = party_open(NULL);
	struct weft_addr addr = server->addr;
	meet(a, server);
	party_kill(server);
	fake_next_addr(addr.raw, addr.len);
	struct party *again = party_open(NULL);
	weft_peer fresh = meet(a, again);
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_RESTARTED);
	assert_int_equal(say(a, fresh, "hello", NULL), 0);
	nodes_until(&again->messages, 1);
}

/* A server that was started again knows nobody, and says so when it is asked. */
static void a_question_to_a_new_life(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *server = party_open(NULL);
	struct weft_addr addr = server->addr;
	weft_peer peer = meet(a, server);
	party_kill(server);
	fake_next_addr(addr.raw, addr.len);
	struct party *again = party_open(NULL);
	assert_int_equal(say(a, peer, "who are you", &fate), 0);
	nodes_pass(100);
	assert_int_equal(a->closed, 0);
	assert_int_equal(party_stats(again).drop_unknown, 1);
	/* The acknowledgement is late after a second. */
	nodes_pass(1200);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_UNKNOWN);
	assert_int_equal(a->end.status, -ECONNRESET);
	assert_int_equal(a->end.by_peer, 1);
	assert_int_equal(fate.sent_status, -ECONNRESET);
	assert_int_equal(party_stats(a).restarted, 1);
	assert_int_equal(again->opened + again->accepts, 0);
}

/* An idle line is asked after keepalive_ms, on either side, and stays open. */
static void an_idle_line_is_kept(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(9000);
	uint64_t before = party_stats(a).frames_sent + party_stats(b).frames_sent;
	assert_in_range(before, 3, 8);
	nodes_pass(60000);
	uint64_t after = party_stats(a).frames_sent + party_stats(b).frames_sent;
	/* A question and an answer every 10 s, at most from both sides. */
	assert_in_range(after - before, 10, 26);
	assert_int_equal(a->closed + b->closed, 0);
	assert_int_equal(say(a, peer, "still here", NULL), 0);
	nodes_until(&b->messages, 1);
}

/* Does not poll b for so long. */
static void pause_for(struct party *b, int64_t ms)
{
	b->stopped = true;
	nodes_pass(ms);
	b->stopped = false;
	nodes_pass(200);
}

static void silence_that_was_announced(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.keepalive_ms = 1000;
	opts.silence_ms = 8000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	weft_peer peer = meet(a, b);
	nodes_pass(500);
	pause_for(b, 7900);
	assert_int_equal(a->closed + b->closed, 0);
	assert_int_equal(say(a, peer, "back again", NULL), 0);
	nodes_until(&b->messages, 1);
	/* For longer than that it is given up. */
	pause_for(b, 9500);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_LOST);
	assert_int_equal(a->end.status, -ETIMEDOUT);
	assert_int_equal(a->end.by_peer, 0);
	assert_int_equal(a->end.opened, 1);
	assert_non_null(strstr(a->why, "nothing was heard for 9"));
	assert_int_equal(party_stats(a).lost, 1);
	/* The other one learns it from the CLOSE that waited for it. */
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_LOST);
	assert_int_equal(b->end.by_peer, 1);
}

/* One that has not polled itself for long first looks at what has come meanwhile. */
static void silence_of_ones_own(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.keepalive_ms = 1000;
	opts.silence_ms = 5000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	meet(a, b);
	for (int64_t ms = 1000; ms < 4800; ms += 500) {
		a->stopped = b->stopped = true;
		nodes_pass(ms);
		/* b has slept as long, so that it has no reason to complain of a. */
		b->stopped = false;
		nodes_pass(20);
		a->stopped = false;
		nodes_pass(500);
		assert_int_equal(a->closed + b->closed, 0);
	}
}

/* That others are busy does not keep a dead one alive. */
static struct party *chatty;
static weft_peer chatty_peer;

static void chat(void *unused)
{
	(void)unused;
	if (!chatty)
		return;
	say(chatty, chatty_peer, "bla", NULL);
	weft_node_poll(chatty->node, 0);
	fake_at(FAKE_NS_PER_MS, chat, NULL);
}

static void a_dead_one_among_busy_ones(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.keepalive_ms = 1000;
	opts.silence_ms = 3000;
	struct party *server = party_open(&opts), *dead = party_open(&opts);
	meet(dead, server);
	chatty = party_open(&opts);
	chatty_peer = meet(chatty, server);
	party_kill(dead);
	fake_at(FAKE_NS_PER_MS, chat, NULL);
	nodes_pass(7000);
	chatty = NULL;
	assert_int_equal(server->closed, 1);
	assert_int_equal(server->end.reason, WEFT_REASON_LOST);
	assert_true(server->messages > 1000);
}

/* A question that the provider never gets rid of counts as asked. */
static void a_question_that_does_not_leave(void **state)
{
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.keepalive_ms = 1000;
	opts.silence_ms = 3000;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	meet(a, b);
	nodes_pass(900);
	/* It comes to b, which answers, but its own end is never told. */
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){.outcome = FAKE_MUTE});
	nodes_pass(3000);
	assert_int_equal(a->closed, 0);
	party_kill(b);
	nodes_pass(6000);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_LOST);
}

static void an_error_of_the_fabric(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	fake_next("fi_send", &b->addr, 1,
		  &(struct fake_fate){FAKE_BREAK, 0, FI_EIO, 4711, "the cable is cut"});
	assert_int_equal(say(a, peer, "lost", &fate), 0);
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_FABRIC);
	assert_int_equal(a->end.status, -EIO);
	assert_int_equal(a->end.prov_errno, 4711);
	assert_non_null(strstr(a->why, "the cable is cut"));
	assert_int_equal(fate.sent_status, -EIO);
	/* The CLOSE that says so waits for the frame that was lost; but b will ask some time. */
	nodes_pass(11000);
	assert_int_equal(b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_UNKNOWN);
	assert_int_equal(b->end.by_peer, 1);
}

/* Also where the provider's code is one that weft has for deadlines of its own. */
static void an_error_that_says_timeout(void **state)
{
	static const int codes[] = {FI_ETIMEDOUT, FI_ECANCELED};
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fate fate = {0};
		struct party *a = party_open(NULL), *b = party_open(NULL);
		weft_peer peer = meet(a, b);
		fake_next("fi_send", &b->addr, 1,
			  &(struct fake_fate){FAKE_BREAK, 0, codes[i], 0, NULL});
		assert_int_equal(say(a, peer, "lost", &fate), 0);
		nodes_until(&a->closed, 1);
		assert_int_equal(a->end.reason, WEFT_REASON_FABRIC);
		assert_int_equal(fate.sent_status, -EIO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(two_nodes_meet),
		nodes_test(data_of_a_peer),
		nodes_test(a_program_refuses),
		nodes_test(nobody_answers),
		nodes_test(the_provider_says_why),
		nodes_test(silence_from_the_first_is_told_as_such),
		nodes_test(the_client_comes_first),
		nodes_test(an_attempt_is_forgotten),
		nodes_test(connects_cross),
		nodes_test(a_second_session),
		nodes_test(a_node_meets_itself),
		nodes_test(a_client_starts_again),
		nodes_test(a_claim_replaces_nobody),
		nodes_test(a_repeated_answer_acknowledges),
		nodes_test(a_server_starts_again),
		nodes_test(a_question_to_a_new_life),
		nodes_test(an_idle_line_is_kept),
		nodes_test(silence_that_was_announced),
		nodes_test(silence_of_ones_own),
		nodes_test(a_dead_one_among_busy_ones),
		nodes_test(a_question_that_does_not_leave),
		nodes_test(an_error_of_the_fabric),
		nodes_test(an_error_that_says_timeout),
	};
	return world_run(tests);
}
