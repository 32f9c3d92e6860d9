/* SPDX-License-Identifier: MIT */
/* What strangers may say, and peers that break the rules: all of it is counted, and harms nobody
 * else. */
#include <errno.h>

#include "nodeimpl.h"
#include "nodes.h"

/* Sends a CONNECT of another process each time. */
static void knock(struct raw *raw)
{
	raw->hello.nonce++;
	raw->hello.session++;
	raw->hello.instance++;
	raw_connect(raw);
}

static void half_open_is_bounded(void **state)
{
	static struct raw raw;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_half_open = 8;
	opts.max_peers = 20;
	struct party *server = party_open(&opts);
	raw_open(&raw, server);
	/* Those who have just come are not given up for others, who have to ask again. */
	for (int i = 0; i < 100; i++) {
		knock(&raw);
		nodes_pass(1);
	}
	assert_int_equal(raw.came[WEFT__ACCEPT], 8);
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.half_open, 8);
	assert_int_equal(stats.evicted, 0);
	assert_int_equal(stats.drop_rate, 92);
	/* Later they are. */
	nodes_pass(950);
	for (int i = 0; i < 8; i++) {
		knock(&raw);
		nodes_pass(1);
	}
	nodes_until(&raw.came[WEFT__ACCEPT], 16);
	stats = party_stats(server);
	assert_int_equal(stats.half_open, 8);
	assert_int_equal(stats.evicted, 8);
	assert_int_equal(stats.peers, 0);
	assert_int_equal(server->opened + server->closed, 0);
	assert_int_equal(server->accepts, 108);
	nodes_check_budgets();
	/* Whoever it is that was kept, the last one is. */
	struct weft__hello theirs;
	assert_true(weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs));
	assert_int_equal(theirs.nonce, raw.hello.nonce);
	raw.peer_id = theirs.session;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&server->opened, 1);
	assert_int_equal(party_stats(server).half_open, 7);
	/* The others are given up after 5 s. */
	nodes_pass(4800);
	assert_int_equal(party_stats(server).half_open, 7);
	nodes_pass(400);
	stats = party_stats(server);
	assert_int_equal(stats.half_open, 0);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.evicted, 8);
	assert_int_equal(server->closed, 0);
}

/* Answers the last ACCEPT, so long after it came. */
static void show_itself(struct raw *raw, int after_ms)
{
	struct weft__hello theirs;
	int opened = raw->party->opened;
	nodes_pass(after_ms);
	assert_true(weft__wire_get_hello(raw->body[WEFT__ACCEPT], raw->len[WEFT__ACCEPT], &theirs));
	raw->peer_id = theirs.session;
	raw_frame(raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&raw->party->opened, opened + 1);
}

/* Where those who mean well take long, because all of the machine does, they are given longer. */
static void a_busy_crowd_is_given_longer(void **state)
{
	static struct raw raw;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_half_open = 4;
	opts.max_peers = 60;
	struct party *server = party_open(&opts);
	raw_open(&raw, server);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
	show_itself(&raw, 150);
	/* These never show themselves; after eight times 150 ms they are given up for others. */
	for (int i = 0; i < 4; i++)
		knock(&raw);
	nodes_pass(1150);
	knock(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).evicted, 0);
	nodes_pass(100);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 6);
	assert_int_equal(party_stats(server).evicted, 1);
	/* It is forgotten when the others are quick. */
	for (int i = 0; i < 40; i++) {
		if (i > 0) {
			nodes_pass(1300);
			knock(&raw);
			nodes_until(&raw.came[WEFT__ACCEPT], 6 + i);
		}
		show_itself(&raw, 0);
	}
	uint64_t evicted = party_stats(server).evicted;
	nodes_pass(5100);
	for (int i = 0; i < 4; i++)
		knock(&raw);
	nodes_pass(1050);
	knock(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).evicted, evicted + 1);
	/* However long one took, two seconds are enough. */
	nodes_pass(5100);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 51);
	show_itself(&raw, 4000);
	for (int i = 0; i < 4; i++)
		knock(&raw);
	nodes_pass(1900);
	knock(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).evicted, evicted + 1);
	nodes_pass(200);
	knock(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).evicted, evicted + 2);
}

/* Those whose address nothing has reached are given up before one whom the answer has. */
static void nobody_is_given_up_first(void **state)
{
	static struct raw raw, good;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_half_open = 2;
	struct party *server = party_open(&opts);
	raw_open(&good, server);
	knock(&good);
	nodes_until(&good.came[WEFT__ACCEPT], 1);
	raw_open(&raw, server);
	fake_next("fi_send", &raw.addr, 4, &(struct fake_fate){FAKE_VANISH, 0, 0, 0, NULL});
	for (int i = 0; i < 4; i++) {
		knock(&raw);
		nodes_pass(1050);
	}
	assert_int_equal(raw.came[WEFT__ACCEPT], 0);
	assert_int_equal(party_stats(server).half_open, 2);
	assert_int_equal(party_stats(server).evicted, 3);
	show_itself(&good, 0);
}

/* Who is given up for a newcomer cannot be told beforehand. */
static void eviction_is_random(void **state)
{
	static struct raw raw;
	uint64_t ids[16];
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_half_open = 16;
	struct party *server = party_open(&opts);
	raw_open(&raw, server);
	for (int i = 0; i < 16; i++) {
		struct weft__hello theirs;
		knock(&raw);
		nodes_until(&raw.came[WEFT__ACCEPT], i + 1);
		weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs);
		ids[i] = theirs.session;
	}
	nodes_pass(1050);
	for (int i = 0; i < 8; i++) {
		knock(&raw);
		nodes_pass(1);
	}
	/* Of the old ones some are there and some are not, and it is not simply the oldest. */
	int there = 0, order = 0;
	for (int i = 0; i < 16; i++) {
		struct weft__peer *peer;
		bool found = false;
		TAILQ_FOREACH (peer, &server->node->half_open, half_open)
			found = found || peer->s.id == ids[i];
		there += found;
		if (found && i < 8)
			order++;
	}
	assert_int_equal(there, 8);
	assert_in_range(order, 1, 8);
}

static void connect_is_idempotent(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	for (int i = 0; i < 5; i++) {
		raw_connect(&raw);
		nodes_pass(5);
	}
	assert_int_equal(raw.came[WEFT__ACCEPT], 5);
	assert_int_equal(party_stats(server).half_open, 1);
	assert_int_equal(server->accepts, 1);
	/* Any difference is another one. */
	raw.hello.nonce++;
	raw_connect(&raw);
	raw.hello.instance++;
	raw_connect(&raw);
	raw.hello.session++;
	raw_connect(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).half_open, 4);
}

static void connects_are_counted(void **state)
{
	static struct raw raw;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_connects = 10;
	struct party *server = party_open(&opts);
	raw_open(&raw, server);
	for (int i = 0; i < 30; i++) {
		knock(&raw);
		nodes_pass(1);
	}
	assert_int_equal(raw.came[WEFT__ACCEPT], 10);
	assert_int_equal(party_stats(server).drop_rate, 20);
	/* So many a second, and no more at once however long nobody came. */
	nodes_pass(510);
	for (int i = 0; i < 30; i++) {
		knock(&raw);
		nodes_pass(1);
	}
	assert_in_range(raw.came[WEFT__ACCEPT], 15, 16);
	nodes_pass(20000);
	int before = raw.came[WEFT__ACCEPT];
	for (int i = 0; i < 30; i++)
		knock(&raw);
	nodes_pass(2);
	assert_int_equal(raw.came[WEFT__ACCEPT] - before, 10);
}

static void refusals_are_bounded(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	server->refuse = 7;
	for (int i = 0; i < 400; i++) {
		knock(&raw);
		if (i % 4 == 0)
			nodes_pass(1);
	}
	nodes_pass(20);
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.rejected, 400);
	/* 200 at once, and 200 a second, of which about a tenth has passed. */
	assert_in_range(raw.came[WEFT__REJECT], 200, 250);
	assert_int_equal(stats.drop_refused, 400 - raw.came[WEFT__REJECT]);
	struct weft__farewell farewell = raw_farewell(&raw, WEFT__REJECT);
	assert_int_equal(farewell.reason, WEFT_REASON_REFUSED);
	assert_int_equal(farewell.code, 7);
	assert_int_equal(farewell.quoted & ~0xfffu, 0x3000);
	assert_true(raw.last[WEFT__REJECT].session >= 0x2000);
	assert_int_equal(stats.half_open, 0);
	/* Nothing is left of those who were refused. */
	struct weft_net_stats net = net_stats(weft_node_net(server->node));
	assert_int_equal(net.peers, 0);
}

/* Refusals to addresses where nobody takes them are few at a time. */
static void refusals_to_nobody(void **state)
{
	static struct raw raw;
	(void)state;
	party_provider(&fake_udp);
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	server->refuse = 7;
	for (int i = 0; i < 100; i++) {
		raw.hello.addr.raw[3] = (uint8_t)(i + 1);
		raw.hello.addr.raw[2] = 0x77;
		knock(&raw);
		nodes_pass(1);
	}
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.rejected, 100);
	assert_int_equal(stats.drop_refused, 68);
	nodes_pass(2200);
	assert_int_equal(party_stats(server).frames_in_flight, 0);
	raw.hello.addr = raw.addr;
	knock(&raw);
	nodes_until(&raw.came[WEFT__REJECT], 1);
}

/* A refusal that the net does not take is counted, and nothing of it is left. */
static void refusals_that_do_not_leave(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	server->refuse = 7;
	fake_refuse("fi_send", &raw.addr, FI_EINVAL, 2);
	for (int i = 0; i < 4; i++) {
		knock(&raw);
		nodes_pass(5);
	}
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.rejected, 4);
	assert_int_equal(stats.drop_refused, 2);
	assert_int_equal(raw.came[WEFT__REJECT], 2);
	assert_int_equal(server->node->strangers.answering, 0);
	assert_int_equal(net_stats(weft_node_net(server->node)).peers, 0);
}

/* Refusals may take all places in the address vector: newcomers find room when those are over. */
static void no_place_for_an_address(void **state)
{
	static struct raw raw;
	(void)state;
	struct weft_net_opts net = quiet_opts();
	party_provider(&fake_udp);
	net.provider = fake_udp.name;
	net.max_peers = 20;
	struct weft_node_opts opts = node_opts();
	opts.net = &net;
	opts.max_half_open = 4;
	opts.max_peers = 8;
	struct party *server = party_open(&opts);
	raw_open(&raw, server);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
	nodes_pass(1050);
	server->refuse = 7;
	for (int i = 0; i < 30; i++) {
		raw.hello.addr.raw[3] = (uint8_t)(i + 1);
		raw.hello.addr.raw[2] = 0x77;
		knock(&raw);
		nodes_pass(1);
	}
	uint64_t refused = party_stats(server).drop_refused;
	assert_in_range(refused, 11, 14);
	server->refuse = 0;
	raw.hello.addr.raw[3] = 99;
	knock(&raw);
	nodes_pass(5);
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.drop_refused, refused + 1);
	/* The one that had had its time has made room. */
	assert_int_equal(stats.evicted, 1);
	raw.hello.addr = raw.addr;
	nodes_pass(2200);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 2);
}

static void versions_and_features(void **state)
{
	static struct raw raw;
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	raw.hello.version_min = 2;
	raw.hello.version_max = 3;
	knock(&raw);
	nodes_until(&raw.came[WEFT__REJECT], 1);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).reason, WEFT_REASON_VERSION);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).quoted, raw.hello.nonce);
	raw.hello.version_min = 1;
	raw.hello.features = raw.hello.required = WEFT__FEATURE_AUTH;
	knock(&raw);
	nodes_until(&raw.came[WEFT__REJECT], 2);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).reason, WEFT_REASON_FEATURE);
	raw.hello.required = 0;
	raw.credit = 0;
	knock(&raw);
	nodes_until(&raw.came[WEFT__REJECT], 3);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).reason, WEFT_REASON_PROTOCOL);
	assert_int_equal(server->accepts, 0);
	/* An offer of what it does not know is no requirement. */
	raw.credit = 1;
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
}

static void too_many_peers(void **state)
{
	static struct raw raw;
	weft_peer peer, more;
	(void)state;
	struct weft_node_opts opts = node_opts();
	opts.max_peers = 2;
	struct party *server = party_open(&opts), *a = party_open(NULL), *b = party_open(NULL);
	raw_open(&raw, server);
	knock(&raw);
	nodes_until(&raw.came[WEFT__ACCEPT], 1);
	meet(a, server);
	meet(b, server);
	struct party *c = party_open(NULL);
	assert_int_equal(weft_peer_connect(c->node, &server->addr, -1, &peer), 0);
	nodes_until(&c->closed, 1);
	assert_int_equal(c->end.reason, WEFT_REASON_FULL);
	assert_int_equal(c->end.status, -ECONNREFUSED);
	assert_int_equal(weft_peer_connect(server->node, &a->addr, -1, &more), -ENOSPC);
	assert_true(logged(WEFT_LOG_ERROR, "max_peers"));
	/* One that was half open before is told when it comes to open. */
	struct weft__hello theirs;
	weft__wire_get_hello(raw.body[WEFT__ACCEPT], raw.len[WEFT__ACCEPT], &theirs);
	raw.peer_id = theirs.session;
	raw_frame(&raw, WEFT__CREDIT, NULL, 0);
	nodes_until(&raw.came[WEFT__CLOSE], 1);
	assert_int_equal(raw_farewell(&raw, WEFT__CLOSE).reason, WEFT_REASON_FULL);
	assert_int_equal(server->opened, 2);
	assert_int_equal(server->closed, 0);
	/* And when one has gone there is room again. */
	weft_peer_close(server->node, server->peer, -1);
	nodes_until(&server->closed, 1);
	meet(c, server);
}

/* On a provider whose word on who has sent a message can be relied on. */
static void with_sources(void)
{
	struct fake_provider like = fake_tcp;
	like.name = "sockets";
	party_provider(&like);
}

/* Addresses that are none, or another's, or of another provider: counted, and the next one is
 * served. */
static void addresses(void **state)
{
	static struct raw raw;
	(void)state;
	with_sources();
	struct party *server = party_open(NULL), *other = party_open(NULL);
	raw_open(&raw, server);
	/* A source that the node knows, since a session is open with it, must be the address. */
	raw_meet(&raw);
	raw.hello.addr = other->addr;
	knock(&raw);
	nodes_pass(5);
	assert_int_equal(party_stats(server).drop_source, 1);
	assert_int_equal(raw.came[WEFT__ACCEPT], 1);

	/* One that it does not know may claim what it likes, and has nothing of it. */
	static struct raw liar;
	raw_open(&liar, server);
	liar.hello.addr = other->addr;
	knock(&liar);
	nodes_pass(5);
	assert_int_equal(liar.came[WEFT__ACCEPT], 0);
	assert_int_equal(party_stats(server).half_open, 1);
	/* The ACCEPT goes to the address, where nobody has asked for it. */
	assert_int_equal(party_stats(other).drop_unknown, 1);

	assert_int_equal(weft_addr_parse(&liar.hello.addr, "shm://name-0123456789abcdef", NULL), 0);
	uint64_t before = party_stats(server).drop_refused;
	knock(&liar);
	nodes_pass(5);
	assert_int_equal(party_stats(server).drop_refused, before + 1);
	/* And it has pushed nobody out. */
	assert_int_equal(party_stats(server).evicted, 0);
	meet(other, server);
}

/* The frames of another address, with the right session id, are not the session's. */
static void a_wrong_source(void **state)
{
	static struct raw raw, thief;
	(void)state;
	with_sources();
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	raw_open(&thief, server);
	raw_meet(&raw);
	raw_meet(&thief);
	uint64_t own = thief.peer_id;
	thief.peer_id = raw.peer_id;
	raw_data(&thief, "forged");
	nodes_pass(10);
	assert_int_equal(server->messages, 0);
	assert_int_equal(party_stats(server).drop_source, 1);
	raw_data(&raw, "genuine");
	nodes_until(&server->messages, 1);
	assert_string_equal(server->text, "genuine");
	thief.peer_id = own;
	thief.number = 0;
	thief.message = 0;
	raw_data(&thief, "honest");
	nodes_until(&server->messages, 2);
}

static void without_sources(void **state)
{
	(void)state;
	struct fake_provider like = fake_raw;
	like.tx_size = 64;
	party_provider(&like);
	struct party *a = party_open(NULL), *b = party_open(NULL);
	weft_peer peer = meet(a, b);
	assert_int_equal(a->info.max_frame, 1024);
	for (int i = 0; i < 50; i++) {
		struct fate fate = {0};
		uint8_t data[1024 - WEFT_FRAME_OVERHEAD] = {(uint8_t)i};
		struct weft_send send = telling(data, sizeof(data), &fate);
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
		nodes_until(&fate.sent, 1);
		assert_int_equal(fate.sent_status, 0);
		assert_int_equal(say(b, b->peer, "back", NULL), 0);
	}
	nodes_until(&b->messages, 50);
	nodes_until(&a->messages, 50);
	assert_int_equal(b->len, 1024 - WEFT_FRAME_OVERHEAD);
}

static void bytes_that_are_no_frame(void **state)
{
	static struct raw raw;
	uint8_t junk[2000];
	(void)state;
	struct party *server = party_open(NULL);
	raw_open(&raw, server);
	memset(junk, 0xff, sizeof(junk));
	raw_send(&raw, junk, 0);
	raw_send(&raw, junk, 1);
	raw_send(&raw, junk, 31);
	raw_send(&raw, junk, 2000);
	raw_frame(&raw, WEFT__CONNECT, NULL, 0);
	raw_frame(&raw, WEFT__CONNECT, junk, 100);
	nodes_pass(10);
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.drop_malformed, 6);
	assert_int_equal(stats.frames_received, 6);
	/* Longer than any frame: the provider says so. */
	uint8_t *long_one = calloc(1, 20000);
	raw_send(&raw, long_one, 20000);
	free(long_one);
	nodes_pass(10);
	assert_int_equal(party_stats(server).recv_errors, 1);
	/* For sessions that nobody has. */
	raw.peer_id = 4711;
	static const enum weft__frame_type types[] = {WEFT__ACCEPT, WEFT__REJECT, WEFT__DATA,
						      WEFT__CREDIT, WEFT__PING,	  WEFT__PONG,
						      WEFT__CLOSE,  WEFT__CLOSED};
	for (size_t i = 0; i < 8; i++)
		raw_frame(&raw, types[i], NULL, 0);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_unknown, 8);
	raw.number = 0;
	raw_meet(&raw);
}

static void ask(struct raw *raw, uint64_t of, const struct weft_addr *addr)
{
	uint8_t body[256];
	uint64_t own = raw->peer_id;
	struct weft__ping ping = {raw->hello.session, raw->hello.instance, *addr};
	size_t len = weft__wire_put_ping(body, sizeof(body), &ping);
	raw->peer_id = of;
	raw_frame(raw, WEFT__PING, body, len);
	raw->peer_id = own;
}

static void questions_of_strangers(void **state)
{
	static struct raw raw;
	(void)state;
	with_sources();
	struct party *server = party_open(NULL), *other = party_open(NULL);
	raw_open(&raw, server);
	ask(&raw, 4711, &raw.addr);
	nodes_until(&raw.came[WEFT__REJECT], 1);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).reason, WEFT_REASON_UNKNOWN);
	assert_int_equal(raw_farewell(&raw, WEFT__REJECT).quoted, 4711);
	assert_int_equal(raw.last[WEFT__REJECT].session, raw.hello.session);
	/* A flood of them has a bounded answer. */
	for (int i = 0; i < 400; i++) {
		ask(&raw, 4711, &raw.addr);
		if (i % 8 == 0)
			nodes_pass(1);
	}
	nodes_pass(10);
	assert_in_range(raw.came[WEFT__REJECT], 190, 230);
	assert_int_equal(party_stats(server).drop_unknown, 401);
	/* Nobody can have others told, where the source is known. */
	nodes_pass(1000);
	raw_meet(&raw);
	ask(&raw, 4711, &other->addr);
	nodes_pass(10);
	assert_int_equal(party_stats(server).drop_source, 1);
	assert_int_equal(party_stats(other).frames_received, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(half_open_is_bounded),
		nodes_test(a_busy_crowd_is_given_longer),
		nodes_test(nobody_is_given_up_first),
		nodes_test(eviction_is_random),
		nodes_test(connect_is_idempotent),
		nodes_test(connects_are_counted),
		nodes_test(refusals_are_bounded),
		nodes_test(refusals_to_nobody),
		nodes_test(refusals_that_do_not_leave),
		nodes_test(no_place_for_an_address),
		nodes_test(versions_and_features),
		nodes_test(too_many_peers),
		nodes_test(addresses),
		nodes_test(a_wrong_source),
		nodes_test(without_sources),
		nodes_test(bytes_that_are_no_frame),
		nodes_test(questions_of_strangers),
	};
	return world_run(tests);
}
