/* SPDX-License-Identifier: MIT */
/*
 * What can go wrong with a big message in tagged chunks: a stranger that offers, grants, sends and
 * gives up what it must not, and a fabric that breaks in the middle. How such messages fare among
 * nodes that mean well is in test_big.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nodeimpl.h"
#include "nodes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LEN ((size_t)200000)

static struct raw raw;
static struct party *node;

/* A node that has a session with a stranger of these features. */
static void begin_with(uint16_t features)
{
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = 64 * FRAME_SIZE;
	node = party_open(&opts);
	raw_open(&raw, node);
	raw.hello.features = features;
	raw_meet(&raw);
}

/* The stranger may send in chunks and be sent to in chunks. */
static void begin(void)
{
	begin_with(WEFT__FEATURE_BULK);
}

/* The stranger has broken the rules, and the node says so. */
static void broken(const char *why)
{
	nodes_until(&node->closed, 1);
	assert_int_equal(node->end.reason, WEFT_REASON_PROTOCOL);
	assert_int_equal(node->end.by_peer, 0);
	assert_non_null(strstr(node->why, why));
	assert_int_equal(raw_farewell(&raw, WEFT__CLOSE).reason, WEFT_REASON_PROTOCOL);
	nodes_pass(5);
	assert_int_equal(node->node->blocks.bytes, 0);
	assert_int_equal(party_close(node, 0), 0);
	raw_close(&raw);
}

static int send_to(struct party *from, weft_peer peer, int timeout_ms, struct fate *fate)
{
	uint8_t *data = calloc(1, LEN);
	assert_non_null(data);
	struct weft_send send = telling(data, LEN, fate);
	send.timeout_ms = timeout_ms;
	int ret = weft_peer_send(from->node, peer, &send);
	free(data);
	return ret;
}

static void offer(uint32_t id, uint64_t len)
{
	uint8_t body[64];
	struct weft__offer what = {.id = id, .len = len};
	raw_frame(&raw, WEFT__OFFER, body, weft__wire_put_offer(body, sizeof(body), &what));
	nodes_pass(6);
}

static void grant(const struct weft__grant *what)
{
	uint8_t body[64];
	raw_frame(&raw, WEFT__GRANT, body, weft__wire_put_grant(body, sizeof(body), what));
	nodes_pass(6);
}

static void stop(const struct weft__abort *what)
{
	uint8_t body[64];
	raw_frame(&raw, WEFT__ABORT, body, weft__wire_put_abort(body, sizeof(body), what));
	nodes_pass(6);
}

static struct weft__grant granted(void)
{
	struct weft__grant what;
	assert_true(raw.came[WEFT__GRANT] > 0);
	assert_true(weft__wire_get_grant(raw.body[WEFT__GRANT], raw.len[WEFT__GRANT], &what));
	return what;
}

static void chunk_left(struct weft_net *net, const struct weft_done *done)
{
	(void)net;
	(void)done;
}

static void send_chunk(uint64_t tag, size_t len)
{
	struct weft_buf *buf;
	assert_int_equal(weft_buf_alloc(raw.net, len, &buf), 0);
	struct weft_post post = whole(buf);
	post.tag = tag;
	assert_int_equal(weft_net_tsend(raw.net, raw.to, &post, chunk_left, NULL), 0);
	weft_buf_unref(buf);
	nodes_pass(6);
}

/* ---- a stranger that sends */

static void a_malformed_offer(void **state)
{
	static const uint8_t junk[15];
	(void)state;
	begin();
	raw_frame(&raw, WEFT__OFFER, junk, sizeof(junk));
	broken("malformed");
}

static void an_offer_that_was_not_agreed_upon(void **state)
{
	(void)state;
	begin_with(0);
	offer(1, LEN);
	assert_int_equal(raw.came[WEFT__GRANT], 0);
	broken("not agreed upon");
}

static void an_offer_that_is_too_long(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		begin();
		offer(1, i == 0 ? node->node->opts.max_message + 1 : UINT64_MAX);
		assert_int_equal(raw.came[WEFT__GRANT], 0);
		broken("at most");
	}
}

/* Its number says when it is shown, and its id that it is the next one. */
static void an_offer_with_the_wrong_id(void **state)
{
	static const uint32_t ids[] = {2, 7, UINT32_MAX};
	(void)state;
	for (size_t i = 0; i < COUNT(ids); i++) {
		begin();
		offer(ids[i], LEN);
		assert_int_equal(granted().id, ids[i]);
		send_chunk(granted().tag, LEN);
		broken("was offered after message 0");
	}
}

/* A message in parts ends before the next one begins, however that one comes. */
static void an_offer_among_parts(void **state)
{
	uint8_t body[64] = {0};
	(void)state;
	begin();
	weft__wire_put_record(body, 1, 0, 10);
	weft__wire_put_rest(body, 1000);
	raw_frame(&raw, WEFT__DATA, body, weft__record_room(10));
	nodes_pass(6);
	offer(2, LEN);
	send_chunk(granted().tag, LEN);
	broken("was offered after message");
}

static void a_chunk_of_the_wrong_length(void **state)
{
	static const size_t lens[] = {1, LEN - 1};
	(void)state;
	for (size_t i = 0; i < COUNT(lens); i++) {
		begin();
		offer(1, LEN);
		assert_int_equal(granted().count, 1);
		send_chunk(granted().tag, lens[i]);
		broken("not of the length that was granted");
	}
}

/* Nothing of it is ever shown, and what comes after it is. */
static void one_that_is_given_up(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	uint64_t tag = granted().tag;
	/* The second one has come, and waits for its turn. */
	offer(2, LEN);
	send_chunk(granted().tag, LEN);
	stop(&(struct weft__abort){.id = 2, .reason = WEFT_REASON_TIMEOUT});
	stop(&(struct weft__abort){.id = 1, .reason = WEFT_REASON_TIMEOUT});
	send_chunk(tag, LEN);
	assert_int_equal(node->messages, 0);
	raw.message = 2;
	raw_data(&raw, "next");
	nodes_until(&node->messages, 1);
	assert_string_equal(node->text, "next");
	assert_int_equal(node->closed, 0);
}

/* The bytes that will not come any more do not keep the next messages from beginning. */
static void what_is_given_up_is_not_awaited(void **state)
{
	(void)state;
	begin();
	offer(1, 20 << 20);
	struct weft__grant what = granted();
	assert_true((uint64_t)what.count * what.chunk < 20 << 20);
	stop(&(struct weft__abort){.id = 1, .reason = WEFT_REASON_TIMEOUT});
	const struct weft__peer *peer = node->node->table[0];
	assert_int_equal(peer->grab_left, 20 << 20);
	for (uint32_t i = 0; i < what.count; i++)
		send_chunk(what.tag + i, what.chunk);
	nodes_pass(10);
	assert_int_equal(peer->grab_count, 0);
	assert_int_equal(peer->grab_left, 0);
	assert_int_equal(node->messages + node->closed, 0);
}

/* ---- a stranger that is sent to */

static void grants_that_cannot_be(void **state)
{
	static const struct weft__grant cases[][2] = {
		/* More chunks than there are, or shorter ones than anybody should ask for. */
		{{1, LEN, 1, 2}},
		{{1, LEN / 2, 1, 3}},
		{{1, LEN / 2, 1, UINT32_MAX}},
		{{1, 4095, 1, 1}},
		/* Others than before. */
		{{1, LEN / 2, 1, 1}, {1, LEN, 1, 1}},
		{{1, LEN / 2, 1, 1}, {1, LEN / 2, 2, 2}},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fate fate = {0};
		print_message("case %zu\n", i);
		begin();
		assert_int_equal(send_to(node, node->peer, -1, &fate), 0);
		nodes_until(&raw.came[WEFT__OFFER], 1);
		grant(&cases[i][0]);
		if (cases[i][1].id != 0) {
			assert_int_equal(node->closed, 0);
			grant(&cases[i][1]);
		}
		broken("message 1 is granted wrongly");
		assert_int_equal(fate.sent_status, -EPROTO);
	}
}

/* What cannot be understood, or means no message, changes nothing. */
static void answers_to_nothing(void **state)
{
	static const uint8_t junk[24];
	struct fate fate = {0};
	(void)state;
	begin();
	assert_int_equal(send_to(node, node->peer, -1, &fate), 0);
	nodes_until(&raw.came[WEFT__OFFER], 1);
	raw_frame(&raw, WEFT__GRANT, junk, sizeof(junk));
	raw_frame(&raw, WEFT__ABORT, junk, sizeof(junk));
	nodes_pass(6);
	assert_int_equal(party_stats(node).drop_malformed, 2);
	/* Only who sends a message gives it up. */
	stop(&(struct weft__abort){.id = 1, .by_receiver = true});
	assert_int_equal(party_stats(node).drop_malformed, 3);
	stop(&(struct weft__abort){.id = 1});
	grant(&(struct weft__grant){7, LEN, 1, 1});
	/* The first of two grants may come last. */
	grant(&(struct weft__grant){1, LEN / 2, 1, 2});
	grant(&(struct weft__grant){1, LEN / 2, 1, 1});
	assert_int_equal(node->closed, 0);
	assert_int_equal(fate.sent, 0);
	raw.ack = 1;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
}

/* That a message is given up need not be said any more when it was acknowledged meanwhile. */
static void an_abort_too_late(void **state)
{
	const struct fake_fate late = {.delay_ns = 500 * FAKE_NS_PER_MS};
	struct fate fates[2] = {0};
	(void)state;
	begin();
	assert_int_equal(send_to(node, node->peer, 100, &fates[0]), 0);
	assert_int_equal(send_to(node, node->peer, 200, &fates[1]), 0);
	nodes_until(&raw.came[WEFT__OFFER], 2);
	/* While the first ABORT is on its way, there is no second one. */
	fake_next("fi_send", &raw.addr, 1, &late);
	nodes_until(&fates[1].sent, 1);
	assert_int_equal(fates[1].sent_status, -ETIMEDOUT);
	raw.ack = 2;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&raw.came[WEFT__ABORT], 1);
	nodes_pass(100);
	assert_int_equal(raw.came[WEFT__ABORT], 1);
	assert_int_equal(node->closed, 0);
}

/* ---- a fabric that breaks */

/* The memory of a chunk that has not left is not given to another message: it may still be read. */
static void a_chunk_that_does_not_leave(void **state)
{
	const struct fake_fate breaks = {.outcome = FAKE_BREAK, .err = EIO};
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	fake_next("fi_tsend", NULL, 1, &breaks);
	assert_int_equal(send_to(a, peer, -1, &fate), 0);
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_FABRIC);
	assert_int_equal(fate.sent, 1);
	assert_true(fate.sent_status < 0);
	nodes_pass(5);
	assert_int_equal(a->node->blocks.bytes, 0);
	assert_true(TAILQ_EMPTY(&a->node->blocks.kept));
	nodes_until(&b->closed, 1);
	assert_int_equal(b->messages, 0);
}

static void a_chunk_that_does_not_arrive(void **state)
{
	const struct fake_fate breaks = {.outcome = FAKE_BREAK, .err = EIO};
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	fake_next("fi_trecv", NULL, 1, &breaks);
	assert_int_equal(send_to(a, peer, -1, &fate), 0);
	nodes_until(&b->closed, 1);
	assert_int_equal(b->end.reason, WEFT_REASON_FABRIC);
	assert_non_null(strstr(b->why, "a part of message 1"));
	nodes_until(&a->closed, 1);
	assert_int_equal(fate.sent, 1);
	assert_true(fate.sent_status < 0);
	assert_int_equal(b->messages, 0);
}

/* ---- what is left behind */

static struct weft_net_stats net_of(const struct party *party)
{
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	assert_int_equal(weft_net_get_stats(weft_node_net(party->node), &stats), 0);
	return stats;
}

/*
 * The node ends the session while a chunk is on its way, whose sender has not heard of that: the
 * chunk finds its receive, so that nothing of it stays in the provider of either side.
 */
static void what_is_on_its_way_is_taken(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	uint64_t tag = granted().tag;
	uint64_t received = net_of(node).received;
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	nodes_until(&node->closed, 1);
	nodes_pass(20);
	assert_int_equal(node->node->blocks.bytes, LEN);
	assert_int_equal(node->node->absorbing, 1);
	send_chunk(tag, LEN);
	assert_int_equal(net_of(node).received, received + 1);
	assert_int_equal(node->node->blocks.bytes, 0);
	assert_int_equal(node->node->absorbing, 0);
	nodes_pass(5);
	assert_int_equal(node->node->peers, 0);
	assert_int_equal(node->messages, 0);
}

/* It is not waited for without end. */
static void what_does_not_come_is_given_up(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	nodes_pass(2000);
	assert_int_equal(node->node->blocks.bytes, LEN);
	nodes_pass(1000);
	assert_int_equal(node->node->blocks.bytes, 0);
	assert_int_equal(node->node->absorbing, 0);
	assert_int_equal(node->node->peers, 0);
}

static uint64_t late_tag;

static void send_late(void *arg)
{
	struct weft_buf *buf;
	(void)arg;
	assert_int_equal(weft_buf_alloc(raw.net, LEN, &buf), 0);
	struct weft_post post = whole(buf);
	post.tag = late_tag;
	assert_int_equal(weft_net_tsend(raw.net, raw.to, &post, chunk_left, NULL), 0);
	weft_buf_unref(buf);
}

/* A node that closes waits for it too, for as long as it may linger. */
static void a_close_waits_for_what_is_on_its_way(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	late_tag = granted().tag;
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	nodes_pass(20);
	int64_t before = fake_now_ns();
	fake_at(300 * FAKE_NS_PER_MS, send_late, NULL);
	assert_int_equal(party_close(node, 2000), 0);
	assert_in_range((fake_now_ns() - before) / FAKE_NS_PER_MS, 300, 400);
	raw_close(&raw);
}

static void a_close_lingers_no_longer_than_it_may(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	nodes_pass(20);
	int64_t before = fake_now_ns();
	assert_int_equal(party_close(node, 500), 0);
	assert_in_range((fake_now_ns() - before) / FAKE_NS_PER_MS, 500, 600);
	raw_close(&raw);
}

/* Whatever the reason is that this side has for the end. */
static void a_broken_session_takes_it_too(void **state)
{
	(void)state;
	begin();
	offer(1, LEN);
	uint64_t tag = granted().tag;
	uint64_t received = net_of(node).received;
	offer(2, UINT64_C(1) << 62);
	nodes_until(&node->closed, 1);
	assert_int_equal(node->end.reason, WEFT_REASON_PROTOCOL);
	nodes_pass(20);
	assert_int_equal(node->node->absorbing, 1);
	send_chunk(tag, LEN);
	assert_int_equal(net_of(node).received, received + 2);
	assert_int_equal(node->node->absorbing, 0);
}

/* The memory of the caller's is the caller's again when the session is over. */
static struct weft_buf *placed;

static struct weft_buf *place(struct party *party, size_t len, size_t *off)
{
	(void)party;
	(void)len;
	*off = 0;
	return placed;
}

static void memory_of_the_callers_is_not_written_to(void **state)
{
	(void)state;
	begin();
	node->on_place = place;
	assert_int_equal(weft_buf_alloc(weft_node_net(node->node), LEN, &placed), 0);
	memset(weft_buf_data(placed), 'x', LEN);
	offer(1, LEN);
	uint64_t tag = granted().tag;
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	nodes_until(&node->closed, 1);
	nodes_pass(5);
	assert_int_equal(node->node->absorbing, 1);
	uint64_t received = net_of(node).received;
	send_chunk(tag, LEN);
	assert_int_equal(net_of(node).received, received + 1);
	assert_int_equal(node->node->absorbing, 0);
	assert_int_equal(((char *)weft_buf_data(placed))[0], 'x');
	weft_buf_unref(placed);
	assert_int_equal(party_close(node, 0), 0);
	raw_close(&raw);
}

/*
 * Where a provider never lets go of chunks whose peers are gone, the memory that it holds comes to
 * an end: what is sent from then on goes in parts.
 */
static void what_is_held_has_a_limit(void **state)
{
	const struct fake_fate vanishes = {.outcome = FAKE_VANISH};
	struct fate lost[3] = {0}, fate = {0};
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.message_budget = 2 * LEN;
	struct party *a = party_open(&opts), *b = party_open(NULL);
	fake_next("fi_tsend", NULL, -1, &vanishes);
	for (uint64_t i = 1; i <= COUNT(lost); i++) {
		weft_peer peer = meet(a, b);
		assert_int_equal(send_to(a, peer, -1, &lost[i - 1]), 0);
		nodes_pass(20);
		assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
		nodes_pass(20);
		assert_int_equal(net_of(a).held, i);
		assert_int_equal(net_of(a).held_bytes, i * LEN);
	}
	long chunks = fake_calls("fi_tsend");
	weft_peer peer = meet(a, b);
	assert_int_equal(send_to(a, peer, -1, &fate), 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
	assert_int_equal(b->messages, 1);
	assert_int_equal(b->len, LEN);
	assert_int_equal(fake_calls("fi_tsend"), chunks);
}

/* Nor does another session with the same node keep it. */
static void what_never_ends_is_given_up(void **state)
{
	const struct fake_fate vanishes = {.outcome = FAKE_VANISH};
	struct fate fate = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer stays = meet(a, b), goes = meet(a, b);
	fake_next("fi_tsend", NULL, 1, &vanishes);
	assert_int_equal(send_to(a, goes, -1, &fate), 0);
	nodes_pass(20);
	assert_int_equal(weft_peer_close(a->node, goes, 0), 0);
	nodes_until(&fate.sent, 1);
	nodes_pass(3000);
	assert_int_equal(a->node->peers, 1);
	assert_int_equal(a->node->blocks.bytes, 0);
	assert_int_equal(net_of(a).held, 1);
	assert_int_equal(net_of(a).held_bytes, LEN);
	assert_int_equal(say(a, stays, "still here", NULL), 0);
	nodes_until(&b->messages, 1);
}

/*
 * On shm an answer that never comes keeps the later ones from being read: no chunk would ever be
 * known to have arrived.
 */
static void no_chunks_behind_one_that_never_ends(void **state)
{
	const struct fake_fate vanishes = {.outcome = FAKE_VANISH};
	struct fate lost = {0}, fate = {0};
	(void)state;
	party_provider(&fake_shm);
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	fake_next("fi_tsend", NULL, 1, &vanishes);
	assert_int_equal(send_to(a, peer, -1, &lost), 0);
	nodes_pass(20);
	assert_int_equal(weft_peer_close(a->node, peer, 0), 0);
	nodes_pass(3000);
	assert_int_equal(net_of(a).held, 1);
	long chunks = fake_calls("fi_tsend");
	peer = meet(a, b);
	assert_int_equal(send_to(a, peer, -1, &fate), 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, 0);
	assert_int_equal(b->len, LEN);
	assert_int_equal(fake_calls("fi_tsend"), chunks);
}

/* CLOSED overtakes what was sent before it: a frame is awaited, and chunks that do not come are
 * not. */
static void closed_overtakes(void **state)
{
	(void)state;
	for (int in_chunks = 0; in_chunks <= 1; in_chunks++) {
		begin();
		int64_t before = fake_now_ns();
		assert_int_equal(weft_peer_close(node->node, node->peer, 5000), 0);
		nodes_pass(5);
		raw.number = 1;
		raw_frame(&raw, WEFT__CLOSED, NULL, 0);
		nodes_pass(5);
		assert_int_equal(node->closed, 0);
		raw.number = 0;
		if (in_chunks)
			offer(1, LEN);
		else
			raw_data(&raw, "late");
		nodes_until(&node->closed, 1);
		assert_int_equal(node->messages, !in_chunks);
		assert_true(fake_now_ns() - before < 100 * FAKE_NS_PER_MS);
		assert_int_equal(party_close(node, 0), 0);
		raw_close(&raw);
	}
}

/* ---- how far it is */

static void progress(void **state)
{
	struct weft_progress how = WEFT_PROGRESS_INIT;
	struct fate fate = {0};
	(void)state;
	begin();
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), 0);
	assert_int_equal(how.out_id, 0);
	assert_int_equal(how.in_id, 0);
	/* Each way, before the first chunk. */
	assert_int_equal(send_to(node, node->peer, -1, &fate), 0);
	offer(1, LEN);
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), 0);
	assert_int_equal(how.out_id, 1);
	assert_int_equal(how.out_len, LEN);
	assert_int_equal(how.out_done, 0);
	assert_int_equal(how.in_id, 1);
	assert_int_equal(how.in_len, LEN);
	assert_int_equal(how.in_done, 0);
	grant(&(struct weft__grant){1, LEN / 2, 1, 1});
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), 0);
	assert_int_equal(how.out_done, LEN / 2);
	/* A program of another version has a longer one, or a shorter one. */
	struct {
		struct weft_progress how;
		uint64_t more;
	} longer = {WEFT_PROGRESS_INIT, 4711};
	longer.how.size = sizeof(longer);
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &longer.how), 0);
	assert_int_equal(longer.how.size, sizeof(longer.how));
	assert_int_equal(longer.how.out_len, LEN);
	assert_int_equal(longer.more, 4711);
	how = (struct weft_progress){.size = 2 * sizeof(size_t), .out_len = 4711};
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), 0);
	assert_int_equal(how.out_id, 1);
	assert_int_equal(how.out_len, 4711);
	how.size--;
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), -EINVAL);
	how.size = sizeof(how);
	assert_int_equal(weft_peer_get_progress(node->node, node->peer + 1, &how), -ENOTCONN);
	assert_int_equal(weft_peer_close(node->node, node->peer, 0), 0);
	assert_int_equal(weft_peer_get_progress(node->node, node->peer, &how), -ENOTCONN);
	nodes_until(&fate.sent, 1);
	assert_int_equal(fate.sent_status, -ECANCELED);
}

/* One that waits for its turn is the one that is told of, too. */
static void progress_in_the_queue(void **state)
{
	struct weft_progress how = WEFT_PROGRESS_INIT;
	struct fate fate = {0};
	weft_peer peer;
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	assert_int_equal(weft_peer_connect(a->node, &b->addr, -1, &peer), 0);
	assert_int_equal(say(a, peer, "small", NULL), 0);
	assert_int_equal(weft_peer_get_progress(a->node, peer, &how), 0);
	assert_int_equal(how.out_id, 0);
	assert_int_equal(send_to(a, peer, -1, &fate), 0);
	assert_int_equal(weft_peer_get_progress(a->node, peer, &how), 0);
	assert_int_equal(how.out_id, 2);
	assert_int_equal(how.out_len, LEN);
	assert_int_equal(how.out_done, 0);
	nodes_until(&fate.sent, 1);
	assert_int_equal(weft_peer_get_progress(a->node, peer, &how), 0);
	assert_int_equal(how.out_id, 0);
}

static size_t most;

static void weigh(struct party *party, const struct weft_msg *msg)
{
	(void)msg;
	if (party->node->blocks.bytes > most)
		most = party->node->blocks.bytes;
}

/* Of many messages only so many have memory that the chunks under way do not run out. */
static void few_have_memory_at_a_time(void **state)
{
	const size_t len = 8 << 20;
	struct fate fates[4] = {0};
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.message_budget = 16 * len;
	struct party *a = party_open(&opts), *b = party_open(&opts);
	weft_peer peer = meet(a, b);
	b->on_message = weigh;
	most = 0;
	uint8_t *data = calloc(1, len);
	assert_non_null(data);
	for (size_t i = 0; i < COUNT(fates); i++) {
		struct weft_send send = telling(data, len, &fates[i]);
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
	}
	free(data);
	nodes_until(&fates[3].sent, 1);
	assert_int_equal(fates[3].sent_status, 0);
	assert_int_equal(b->messages, COUNT(fates));
	/* The next one begins before the last one is whole, but not long before. */
	assert_in_range(most, 2 * len, 2 * len + len / 2);
}

/* The OFFERs of one turn are one libfabric message, and so are their GRANTs. */
static void what_they_need_goes_together(void **state)
{
	struct fate fates[9] = {0};
	(void)state;
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	struct weft_node_stats a_before = party_stats(a), b_before = party_stats(b);
	uint64_t chunks = net_of(a).sent - a_before.frames_sent;
	/* The first one leaves at once, and the others behind it. */
	for (size_t i = 0; i < COUNT(fates); i++)
		assert_int_equal(send_to(a, peer, -1, &fates[i]), 0);
	nodes_until(&fates[8].sent, 1);
	assert_int_equal(b->messages, COUNT(fates));
	nodes_pass(5);
	struct weft_node_stats a_after = party_stats(a), b_after = party_stats(b);
	assert_int_equal(a_after.frames_sent - a_before.frames_sent, COUNT(fates));
	/* There is not credit for all of them at first. */
	assert_in_range(a_after.bundles_sent, 1, 2);
	assert_int_equal(net_of(a).sent - chunks,
			 a_before.frames_sent + 1 + a_after.bundles_sent + COUNT(fates));
	/* A GRANT for each, and few acknowledgements beside them. */
	assert_in_range(b_after.frames_sent - b_before.frames_sent, COUNT(fates), COUNT(fates) + 3);
	assert_in_range(b_after.bundles_sent, 1, 3);
	assert_in_range(net_of(b).sent - b_before.frames_sent, 2, 7);
}

static uint32_t acked(void)
{
	return raw.last[WEFT__CREDIT].ack;
}

/* One acknowledgement is for several messages of a chunk each. */
static void acknowledgements_wait_for_a_chunk(void **state)
{
	(void)state;
	begin();
	/* Until it has so much credit that nothing is told for the credit's sake. */
	for (int i = 0; i < 8; i++) {
		raw_data(&raw, "before");
		nodes_pass(300);
	}
	uint32_t before_all = raw.number;
	int before = raw.came[WEFT__CREDIT];
	raw_data(&raw, "first");
	nodes_pass(20);
	raw_data(&raw, "second");
	nodes_pass(20);
	assert_int_equal(raw.came[WEFT__CREDIT], before);
	assert_int_equal(acked(), before_all);
	raw.flags = WEFT__FLAG_ACK_NOW;
	raw_data(&raw, "third");
	nodes_pass(5);
	assert_int_equal(raw.came[WEFT__CREDIT], before + 1);
	assert_int_equal(acked(), raw.number);
	/* Of three that are not whole the first waits for the second, and that one not for the
	 * third, which is longer than a chunk. */
	uint64_t tags[3];
	uint32_t offered = raw.number;
	for (uint32_t i = 0; i < 3; i++) {
		raw.flags = i == 1 ? WEFT__FLAG_ACK_NOW : 0;
		offer(12 + i, i < 2 ? LEN : 3 << 20);
		tags[i] = granted().tag;
	}
	before = raw.came[WEFT__CREDIT];
	send_chunk(tags[0], LEN);
	assert_int_equal(node->messages, 12);
	assert_int_equal(raw.came[WEFT__CREDIT], before);
	send_chunk(tags[1], LEN);
	assert_int_equal(node->messages, 13);
	assert_int_equal(raw.came[WEFT__CREDIT], before + 1);
	assert_int_equal(acked(), offered + 2);
	assert_int_equal(party_close(node, 0), 0);
	raw_close(&raw);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		nodes_test(a_malformed_offer),
		nodes_test(an_offer_that_was_not_agreed_upon),
		nodes_test(an_offer_that_is_too_long),
		nodes_test(an_offer_with_the_wrong_id),
		nodes_test(an_offer_among_parts),
		nodes_test(a_chunk_of_the_wrong_length),
		nodes_test(one_that_is_given_up),
		nodes_test(what_is_given_up_is_not_awaited),
		nodes_test(grants_that_cannot_be),
		nodes_test(answers_to_nothing),
		nodes_test(an_abort_too_late),
		nodes_test(a_chunk_that_does_not_leave),
		nodes_test(a_chunk_that_does_not_arrive),
		nodes_test(what_is_on_its_way_is_taken),
		nodes_test(what_does_not_come_is_given_up),
		nodes_test(a_close_waits_for_what_is_on_its_way),
		nodes_test(a_close_lingers_no_longer_than_it_may),
		nodes_test(a_broken_session_takes_it_too),
		nodes_test(memory_of_the_callers_is_not_written_to),
		nodes_test(what_never_ends_is_given_up),
		nodes_test(no_chunks_behind_one_that_never_ends),
		nodes_test(what_is_held_has_a_limit),
		nodes_test(closed_overtakes),
		nodes_test(progress),
		nodes_test(progress_in_the_queue),
		nodes_test(few_have_memory_at_a_time),
		nodes_test(what_they_need_goes_together),
		nodes_test(acknowledgements_wait_for_a_chunk),
	};
	return world_run(tests);
}
