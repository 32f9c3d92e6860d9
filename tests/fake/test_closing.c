/* SPDX-License-Identifier: MIT */
/* Closing: of a session and of a node, from either side, in every state, from inside every
 * callback. */
#include <errno.h>

#include "nodeimpl.h"
#include "nodes.h"

static void with_linger(void **state)
{
	struct fate fate[3] = {{0}};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(say(a, peer, "before the end", &fate[i]), 0);
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	assert_int_equal(weft_peer_close(a->node, peer, -1), -ENOTCONN);
	assert_int_equal(say(a, peer, "too late", NULL), -ENOTCONN);
	assert_int_equal(a->closed, 0);
	nodes_until(&a->closed, 1);
	nodes_until(&b->closed, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fate[i].sent, 1);
		assert_int_equal(fate[i].sent_status, 0);
	}
	assert_int_equal(b->messages, 3);
	assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(a->end.by_peer, 0);
	assert_int_equal(a->end.status, 0);
	assert_int_equal(a->end.opened, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(b->end.by_peer, 1);
	assert_int_equal(b->end.status, 0);
	assert_int_equal(weft_peer_close(a->node, peer, 0), -ENOTCONN);
	struct weft_node_stats stats = party_stats(a);
	assert_int_equal(stats.closed, 1);
	assert_int_equal(stats.peers, 0);
	assert_int_equal(stats.failed, 0);
	nodes_pass(10);
	nodes_check_budgets();
	assert_int_equal(net_stats(weft_node_net(a->node)).peers, 0);
	assert_int_equal(net_stats(weft_node_net(b->node)).peers, 0);
}

static void without_linger(void **state)
{
	struct fate fate[3] = {{0}};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	for (int i = 0; i < 3; i++)
		assert_int_equal(say(a, peer, "maybe", &fate[i]), 0);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	assert_int_equal(fate[0].sent + a->closed, 0);
	assert_int_equal(weft_node_poll(a->node, 0) > 0, 1);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.status, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fate[i].sent, 1);
		assert_int_equal(fate[i].sent_status, -ECANCELED);
	}
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(b->end.by_peer, 1);
	/* The first was on its way, the others were not. */
	assert_int_equal(b->messages, 1);
}

/* For as long as it was said, and no longer. */
static void linger_ends(void **state)
{
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	b->stopped = true;
	assert_int_equal(say(a, peer, "unheard", &fate), 0);
	assert_int_equal(weft_peer_close(a->node, peer, 700), 0);
	nodes_pass(690);
	assert_int_equal(a->closed, 0);
	nodes_pass(30);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
	assert_int_equal(a->end.by_peer, 0);
	assert_int_equal(fate.sent_status, -ECANCELED);
	b->stopped = false;
	nodes_until(&b->closed, 1);
	assert_int_equal(b->messages, 1);
	/* The default is 5 s. */
	peer = meet(a, b);
	b->stopped = true;
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	nodes_pass(4900);
	assert_int_equal(a->closed, 1);
	nodes_pass(200);
	assert_int_equal(a->closed, 2);
}

/* Messages that the closed side had on their way still arrive; what it had not sent is told. */
static void the_other_side_has_work(void **state)
{
	struct fate out = {0}, in = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	assert_int_equal(say(b, b->peer, "on its way", &out), 0);
	assert_int_equal(say(a, peer, "last words", &in), 0);
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	nodes_until(&a->closed, 1);
	nodes_until(&b->closed, 1);
	assert_string_equal(a->text, "on its way");
	assert_string_equal(b->text, "last words");
	assert_int_equal(in.sent_status, 0);
	assert_int_equal(out.sent, 1);
	assert_true(out.sent_status == 0 || out.sent_status == -ECONNRESET);
}

static void both_close(void **state)
{
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	for (int linger = 0; linger <= 100; linger += 100) {
		weft_peer peer = meet(a, b);
		int a_closed = a->closed, b_closed = b->closed;
		assert_int_equal(say(a, peer, "bye", NULL), 0);
		assert_int_equal(say(b, b->peer, "bye", NULL), 0);
		assert_int_equal(weft_peer_close(a->node, peer, linger), 0);
		assert_int_equal(weft_peer_close(b->node, b->peer, linger), 0);
		nodes_until(&a->closed, a_closed + 1);
		nodes_until(&b->closed, b_closed + 1);
		assert_int_equal(a->end.by_peer + b->end.by_peer, 0);
		assert_int_equal(a->end.status + b->end.status, 0);
		nodes_pass(50);
		assert_int_equal(a->closed, a_closed + 1);
		assert_int_equal(b->closed, b_closed + 1);
	}
}

/* An answer is awaited, or an acknowledgement. */
static void requests_end_too(void **state)
{
	struct fate asked = {0}, unsent = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	struct weft_send send = asking("?", 1, &asked);
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	nodes_until(&asked.sent, 1);
	b->stopped = true;
	send = asking("?", 1, &unsent);
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	nodes_until(&a->closed, 1);
	assert_int_equal(asked.sent_status, 0);
	assert_int_equal(asked.replies, 1);
	assert_int_equal(asked.reply_status, -ECANCELED);
	assert_int_equal(unsent.sent, 1);
	assert_int_equal(unsent.sent_status, -ECANCELED);
	assert_int_equal(unsent.replies, 1);
	b->stopped = false;
}

static void while_connecting(void **state)
{
	weft_peer peer;
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	b->stopped = true;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
		if (i == 1)
			nodes_pass(250);
		assert_int_equal(say(a, peer, "never", &fate), 0);
		assert_int_equal(weft_peer_close(a->node, peer, 1000), 0);
		assert_int_equal(weft_peer_close(a->node, peer, 1000), -ENOTCONN);
		nodes_until(&a->closed, i + 1);
		assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
		assert_int_equal(a->end.opened, 0);
		assert_int_equal(a->end.status, 0);
		assert_int_equal(fate.sent, i + 1);
		assert_int_equal(fate.sent_status, -ECANCELED);
	}
	assert_int_equal(party_stats(a).failed, 2);
	b->stopped = false;
	nodes_pass(6000);
	assert_int_equal(b->opened, 0);
	assert_int_equal(party_stats(b).half_open, 0);
	assert_int_equal(party_stats(b).peers, 0);
	meet(a, b);
}

/* The last words of a session that cannot be said, for want of memory, are not waited for without
 * end. */
static void without_memory_for_the_last_words(void **state)
{
	struct weft__space *taken[64];
	size_t count = 0;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	struct weft__spaces *spaces = &a->node->frames.spaces;
	while (!LIST_EMPTY(&spaces->short_free))
		taken[count++] = weft__space_take(spaces, false);
	fake_next("fi_send", &b->addr, 1, &(struct fake_fate){FAKE_BREAK, 0, FI_EIO, 0, NULL});
	/* It is in a long frame. */
	char text[WEFT__SHORT_SPACE] = "";
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(say(a, peer, text, NULL), 0);
	fake_refuse("calloc", NULL, ENOMEM, -1);
	nodes_pass(100);
	assert_int_equal(a->closed, 1);
	assert_int_equal(b->closed, 0);
	assert_int_equal(net_stats(weft_node_net(a->node)).peers, 1);
	nodes_pass(2600);
	assert_int_equal(net_stats(weft_node_net(a->node)).peers, 0);
	fake_no_faults();
	while (count > 0)
		weft__space_give(spaces, taken[--count], false);
	/* The other side learns it when it asks. */
	nodes_pass(10000);
	assert_int_equal(b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_UNKNOWN);
}

/* Nor is a CLOSE that takes its turn, if there is no memory for it. */
static void without_memory_for_close(void **state)
{
	struct weft__space *taken[64];
	size_t count = 0;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	nodes_pass(20);
	struct weft__spaces *spaces = &a->node->frames.spaces;
	while (!LIST_EMPTY(&spaces->short_free))
		taken[count++] = weft__space_take(spaces, false);
	fake_refuse("calloc", NULL, ENOMEM, 1);
	assert_int_equal(weft_peer_close(a->node, peer, 3000), 0);
	nodes_pass(50);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_CLOSED);
	while (count > 0)
		weft__space_give(spaces, taken[--count], false);
	nodes_pass(11000);
	assert_int_equal(b->closed, 1);
}

/* ---- from inside callbacks */

static int linger;

static void close_it(struct party *party, weft_peer peer)
{
	struct weft_peer_info info = WEFT_PEER_INFO_INIT;
	int ret = weft_peer_close(party->node, peer, linger);
	assert_true(ret == 0 || ret == -ENOTCONN);
	assert_int_equal(weft_peer_close(party->node, peer, linger), -ENOTCONN);
	assert_int_equal(say(party, peer, "no more", NULL), -ENOTCONN);
	ret = weft_peer_get_info(party->node, peer, &info);
	assert_true(ret == 0 || ret == -ENOTCONN);
	/* What may not be called is told so, and does nothing. */
	struct weft_msg *reply;
	assert_int_equal(weft_node_poll(party->node, 0), -EBUSY);
	assert_int_equal(weft_node_close(party->node, 0), -EBUSY);
	assert_int_equal(weft_node_arm(party->node), -EBUSY);
	assert_int_equal(weft_call(party->node, peer, "", 0, &reply, 10), -EBUSY);
}

static void close_on_message(struct party *party, const struct weft_msg *msg)
{
	close_it(party, msg->peer);
}

static void close_on_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	(void)node;
	assert_int_equal(status, 0);
	close_it(user, peer);
}

static void close_on_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg,
			   int status, void *user)
{
	(void)node;
	assert_int_equal(status, 0);
	assert_non_null(msg);
	close_it(user, peer);
}

static void reply_to_it(struct party *party, const struct weft_msg *msg)
{
	struct weft_send send = WEFT_SEND_INIT;
	assert_int_equal(weft_msg_reply(party->node, msg, &send), 0);
}

static void close_last(struct party *party)
{
	if (party->peer)
		close_it(party, party->peer);
}

static void posted_close(struct weft_node *node, void *user)
{
	struct party *party = user;
	(void)node;
	close_it(party, party->peer);
}

static void ended(struct party *a, struct party *b)
{
	nodes_until(&a->closed, 1);
	nodes_until(&b->closed, 1);
	nodes_pass(20);
	assert_in_range(a->closed, 1, 2);
	assert_int_equal(b->closed, 1);
	assert_int_equal(party_stats(a).peers + party_stats(b).peers, 0);
	nodes_check_budgets();
	nodes_teardown(NULL);
	nodes_setup(NULL);
}

static void from_inside(int how_long)
{
	weft_peer peer;
	struct party *a, *b;
	linger = how_long;

	a = party_open(NULL), b = party_open(NULL);
	a->on_opened = close_it;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "queued", NULL), 0);
	nodes_until(&a->closed, 1);
	nodes_pass(20);
	/* Without a frame that proves it, the other side may never have opened. */
	assert_int_equal(b->closed, b->opened);
	nodes_teardown(NULL);
	nodes_setup(NULL);

	a = party_open(NULL), b = party_open(NULL);
	b->on_opened = close_it;
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "queued", NULL), 0);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	b->on_message = close_on_message;
	peer = meet(a, b);
	/* Several in one frame, and more frames after it. */
	for (int i = 0; i < 2000; i++)
		assert_int_equal(say(a, peer, "several", NULL), 0);
	nodes_until(&b->closed, 1);
	if (how_long == 0)
		assert_int_equal(b->messages, 1);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	peer = meet(a, b);
	struct weft_send send = WEFT_SEND_INIT;
	send.sent = close_on_sent;
	send.user = a;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	b->on_message = reply_to_it;
	peer = meet(a, b);
	send.sent = NULL;
	send.reply = close_on_reply;
	send.user = a;
	assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	a->on_accept = close_last;
	meet(a, b);
	struct party *c = party_open(NULL);
	assert_int_equal(weft_peer_connect(c->node, &a->addr, -1, &peer), 0);
	nodes_until(&c->opened, 1);
	assert_int_equal(weft_peer_close(c->node, c->peer, 0), 0);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	b->on_closed = close_it;
	peer = meet(a, b);
	assert_int_equal(weft_peer_close(a->node, peer, how_long), 0);
	ended(a, b);

	a = party_open(NULL), b = party_open(NULL);
	meet(a, b);
	assert_int_equal(weft_node_post(a->node, posted_close, a), 0);
	ended(a, b);

	struct weft_node_opts opts = node_opts();
	opts.send_budget = 2 * FRAME_SIZE;
	opts.peer_send_budget = FRAME_SIZE;
	a = party_open(&opts), b = party_open(NULL);
	a->on_writable = close_it;
	peer = meet(a, b);
	while (say(a, peer, "full", NULL) == 0)
		;
	ended(a, b);
}

static void from_inside_at_once(void **state)
{
	(void)state;
	from_inside(0);
}

static void from_inside_with_linger(void **state)
{
	(void)state;
	from_inside(1000);
}

/* A new session from inside the end of the old one. */
static void again_and_again(struct party *party, weft_peer old)
{
	weft_peer peer;
	int *left = party->user;
	(void)old;
	if (--*left > 0)
		assert_int_equal(weft_peer_connect(party->node, &party->info.addr, -1, &peer), 0);
}

static void a_new_one_from_the_end(void **state)
{
	int left = 30;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	linger = 0;
	a->user = &left;
	a->on_closed = again_and_again;
	b->on_opened = close_it;
	meet(a, b);
	nodes_until(&a->closed, 30);
	assert_int_equal(left, 0);
	nodes_pass(20);
	assert_int_equal(party_stats(a).peers, 0);
}

/* ---- nodes */

static void a_node_with_work(void **state)
{
	struct fate fate[5] = {{0}};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	for (int i = 0; i < 5; i++) {
		uint8_t data[10000] = {0};
		struct weft_send send = telling(data, sizeof(data), &fate[i]);
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	}
	assert_int_equal(party_close(a, 1000), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(fate[i].sent, 1);
		assert_int_equal(fate[i].sent_status, 0);
	}
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_SHUTDOWN);
	assert_int_equal(a->end.status, 0);
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_SHUTDOWN);
	assert_int_equal(b->end.by_peer, 1);
	assert_int_equal(b->messages, 5);
}

static void a_node_at_once(void **state)
{
	struct fate fate[5] = {{0}};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	for (int i = 0; i < 5; i++) {
		uint8_t data[10000] = {0};
		struct weft_send send = telling(data, sizeof(data), &fate[i]);
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	}
	int64_t before = fake_now_ns();
	assert_int_equal(party_close(a, 0), 0);
	assert_true(fake_now_ns() - before < 100 * FAKE_NS_PER_MS);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(fate[i].sent, 1);
		assert_int_equal(fate[i].sent_status, -ECANCELED);
	}
	assert_int_equal(a->closed, 1);
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_SHUTDOWN);
}

/* Nobody answers: it takes as long as was said, and what closing the net takes. */
static void a_node_among_the_dead(void **state)
{
	struct fate fate = {0};
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL), *c = party_open(NULL);
	struct weft_addr gone = c->addr;
	peer = meet(a, b);
	meet(c, a);
	party_kill(c);
	b->stopped = true;
	assert_int_equal(say(a, peer, "unheard", &fate), 0);
	assert_int_equal(weft_peer_connect(a->node, &gone, -1, &peer), 0);
	int64_t before = fake_now_ns();
	assert_true(party_close(a, 500) >= 0);
	int64_t ms = (fake_now_ns() - before) / FAKE_NS_PER_MS;
	assert_in_range(ms, 490, 2700);
	assert_int_equal(a->closed, 3);
	assert_int_equal(fate.sent_status, -ECANCELED);
	b->stopped = false;
}

static void not_while_closing(struct party *party, weft_peer peer)
{
	weft_peer other;
	int *calls = party->user;
	++*calls;
	assert_int_equal(weft_peer_connect(party->node, &party->info.addr, -1, &other), -ECANCELED);
	assert_int_equal(say(party, peer, "no", NULL), -ECANCELED);
	assert_int_equal(weft_node_close(party->node, 0), -EBUSY);
	assert_int_equal(weft_node_post(party->node, NULL, NULL), -ECANCELED);
}

static void a_node_that_closes_refuses(void **state)
{
	int calls = 0;
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL), *c = party_open(NULL);
	meet(a, b);
	a->user = &calls;
	a->on_closed = not_while_closing;
	/* A CONNECT that comes meanwhile is not answered. */
	assert_int_equal(weft_peer_connect(c->node, &a->addr, 1000, &peer), 0);
	b->stopped = true;
	assert_true(party_close(a, 300) >= 0);
	assert_int_equal(calls, 1);
	assert_int_equal(a->accepts, 0);
	b->stopped = false;
	nodes_until(&c->closed, 1);
	assert_int_equal(c->end.reason, WEFT_REASON_TIMEOUT);
}

static void half_open_sessions_end_with_it(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *a = party_open(NULL);
	raw_open(&raw, a);
	raw_connect(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
	struct weft__hello theirs;
	weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs);
	raw.peer_id = theirs.session;
	/* It proves itself just now: too late. */
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	assert_int_equal(party_close(a, 500), 0);
	assert_int_equal(a->opened + a->closed, 0);
	/* To the other side it was open since the ACCEPT, so it is told. */
	nodes_until(&raw.came[WEFT__CLOSE], 1);
	assert_int_equal(raw_farewell(&raw, WEFT__CLOSE).reason, WEFT_REASON_SHUTDOWN);
}

static void nothing_to_close(void **state)
{
	(void)state;
	assert_int_equal(weft_node_close(NULL, 0), 0);
	struct party *a = party_open(NULL);
	int64_t before = fake_now_ns();
	assert_int_equal(party_close(a, -1), 0);
	assert_true(fake_now_ns() - before < 10 * FAKE_NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(with_linger),
		nodes_test(without_linger),
		nodes_test(linger_ends),
		nodes_test(the_other_side_has_work),
		nodes_test(both_close),
		nodes_test(requests_end_too),
		nodes_test(while_connecting),
		nodes_test(without_memory_for_the_last_words),
		nodes_test(without_memory_for_close),
		nodes_test(from_inside_at_once),
		nodes_test(from_inside_with_linger),
		nodes_test(a_new_one_from_the_end),
		nodes_test(a_node_with_work),
		nodes_test(a_node_at_once),
		nodes_test(a_node_among_the_dead),
		nodes_test(a_node_that_closes_refuses),
		nodes_test(half_open_sessions_end_with_it),
		nodes_test(nothing_to_close),
	};
	return world_run(tests);
}
