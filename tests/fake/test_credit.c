/* SPDX-License-Identifier: MIT */
/* Credit: that a node's budget holds whatever its peers do, that none of them starves, and what a
 * message costs. */
#include <errno.h>
#include <stdio.h>

#include "nodeimpl.h"
#include "nodes.h"

/* Short frames: the fake looks at every byte. */
#define FRAME ((size_t)2048)

static void short_frames(void)
{
	struct fake_provider like = fake_tcp;
	like.max_msg = FRAME;
	party_provider(&like);
}

/* A small budget: 64 frames, of which 16 are posted and 48 are credit. */
static struct weft_node_opts tight(size_t peers)
{
	short_frames();
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = 64 * FRAME;
	opts.max_peers = peers;
	opts.max_half_open = 4;
	return opts;
}

/* A node for few peers. */
static struct party *small(void)
{
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = 64 * FRAME;
	opts.max_peers = 10;
	return party_open(&opts);
}

/* One that sends whatever it can. */
static void go_on(struct party *party, weft_peer peer)
{
	uint8_t data[1200];
	memset(data, 'x', sizeof(data));
	int ret;
	do {
		ret = weft_peer_write(party->node, peer, data, sizeof(data));
	} while (ret == 0);
	assert_int_equal(ret, -ENOBUFS);
}

static struct party *wild(const struct party *server)
{
	weft_peer peer;
	struct weft_node_opts opts = node_opts();
	opts.send_budget = 8 * FRAME;
	opts.peer_send_budget = 8 * FRAME;
	opts.recv_budget = 64 * FRAME;
	opts.max_peers = 4;
	struct party *party = party_open(&opts);
	party->on_opened = party->on_writable = go_on;
	assert_int_equal(weft_peer_connect(party->node, &server->addr, 20000, &peer), 0);
	return party;
}

static void ten_eager_peers(void **state)
{
	(void)state;
	struct weft_node_opts opts = tight(10);
	struct party *server = party_open(&opts);
	struct party *peers[10];
	uint64_t before[10];
	for (int i = 0; i < 10; i++)
		peers[i] = wild(server);
	nodes_until(&server->opened, 10);
	uint64_t all = party_stats(server).frames_received;
	for (int i = 0; i < 10; i++)
		before[i] = party_stats(peers[i]).frames_sent;
	for (int i = 0; i < 60; i++) {
		nodes_pass(1);
		nodes_check_budgets();
	}
	assert_true(server->messages > 1000);
	struct weft_node_stats stats = party_stats(server);
	assert_true(stats.credits_out <= 48);
	assert_true(stats.memory < 64 * FRAME + (1 << 17));
	for (int i = 0; i < 10; i++) {
		/* Everybody has had a share that deserves the name. */
		uint64_t sent = party_stats(peers[i]).frames_sent - before[i];
		assert_true(sent > (stats.frames_received - all) / 30);
		peers[i]->on_writable = NULL;
	}
	/* An idle line keeps one frame. */
	nodes_pass(4000);
	assert_int_equal(party_stats(server).credits_out, 10);
	assert_int_equal(server->node->pool.borrowed, 0);
	assert_int_equal(server->node->pool.borrowers, 0);
	assert_int_equal(server->closed, 0);
	nodes_check_budgets();
}

static void a_hundred_peers(void **state)
{
	(void)state;
	short_frames();
	struct weft_node_opts opts = node_opts();
	opts.recv_budget = 200 * FRAME;
	opts.max_peers = 100;
	opts.max_half_open = 40;
	struct party *server = party_open(&opts);
	struct party *peers[100];
	for (int i = 0; i < 100; i++) {
		peers[i] = wild(server);
		peers[i]->on_opened = NULL;
	}
	nodes_until(&server->opened, 100);
	for (int i = 0; i < 100; i++)
		go_on(peers[i], peers[i]->peer);
	for (int i = 0; i < 8; i++) {
		nodes_pass(1);
		nodes_check_budgets();
	}
	struct weft_node_stats stats = party_stats(server);
	assert_int_equal(stats.peers, 100);
	assert_true(stats.memory < 200 * FRAME + (1 << 19));
	assert_true(stats.session_memory <= 4096);
	for (int i = 0; i < 100; i++) {
		assert_true(party_stats(peers[i]).frames_sent > 10);
		peers[i]->on_writable = NULL;
	}
	assert_int_equal(server->closed, 0);
	/* All of them at once. */
	assert_int_equal(party_close(server, 0), 0);
	assert_int_equal(server->closed, 100);
	nodes_pass(5);
	for (int i = 0; i < 100; i++)
		assert_int_equal(peers[i]->closed, 1);
}

/* Against peers that take all they can get, a lone one with a message now and then does not wait
 * long. */
static void a_lone_peer_is_served(void **state)
{
	(void)state;
	struct weft_node_opts opts = tight(10);
	struct party *server = party_open(&opts);
	for (int i = 0; i < 9; i++)
		wild(server);
	nodes_until(&server->opened, 9);
	nodes_pass(50);
	struct party *lone = small();
	weft_peer peer = meet(lone, server);
	int64_t worst = 0;
	for (int i = 0; i < 50; i++) {
		struct fate fate = {0};
		int64_t before = fake_now_ns();
		assert_int_equal(say(lone, peer, "me too", &fate), 0);
		while (fate.sent == 0)
			nodes_pass(1);
		assert_int_equal(fate.sent_status, 0);
		if (fake_now_ns() - before > worst)
			worst = fake_now_ns() - before;
	}
	assert_true(worst < 30 * FAKE_NS_PER_MS);
	nodes_check_budgets();
}

/* One that has all to itself gets more, and what it has got goes back when it needs it no more. */
static void borrowing_and_giving_back(void **state)
{
	(void)state;
	struct weft_node_opts opts = tight(10);
	struct party *server = party_open(&opts);
	struct party *eager = wild(server);
	nodes_until(&server->opened, 1);
	uint32_t most = 0;
	for (int i = 0; i < 30; i++) {
		nodes_pass(1);
		if (server->node->pool.borrowed > most)
			most = server->node->pool.borrowed;
	}
	assert_in_range(most, 10, 34);
	assert_int_equal(server->node->pool.borrowers, 1);
	eager->on_writable = NULL;
	nodes_pass(900);
	assert_true(party_stats(server).credits_out > 1);
	nodes_pass(1500);
	assert_int_equal(party_stats(server).credits_out, 1);
	assert_int_equal(server->node->pool.borrowed, 0);
	/* And it may have it again. */
	eager->on_writable = go_on;
	go_on(eager, eager->peer);
	nodes_pass(30);
	assert_true(server->node->pool.borrowed > 5);
	nodes_check_budgets();
}

static struct weft_msg *kept[256];
static int kept_count;

static void keep_it(struct party *party, const struct weft_msg *msg)
{
	kept[kept_count] = weft_msg_hold(party->node, msg);
	assert_non_null(kept[kept_count]);
	kept_count++;
}

/* Held messages take from the budget: whose messages they are comes to a stop, and others do not.
 */
static void held_messages_count(void **state)
{
	(void)state;
	kept_count = 0;
	struct weft_node_opts opts = tight(10);
	struct party *server = party_open(&opts);
	server->on_message = keep_it;
	struct party *eager = wild(server);
	nodes_until(&server->opened, 1);
	nodes_pass(500);
	nodes_check_budgets();
	int most = kept_count;
	assert_in_range(most, 20, 48);
	assert_int_equal(party_stats(server).held, most);
	assert_int_equal(party_stats(server).credits_out, 0);
	nodes_pass(500);
	assert_int_equal(kept_count, most);
	/* Another one has a frame of its own. */
	struct party *other = small();
	weft_peer peer = meet(other, server);
	server->on_message = NULL;
	assert_int_equal(say(other, peer, "me", NULL), 0);
	int before = server->messages;
	nodes_until(&server->messages, before + 1);
	assert_string_equal(server->text, "me");
	for (int i = 0; i < kept_count; i++) {
		assert_int_equal(kept[i]->len, 1200);
		assert_int_equal(((const char *)kept[i]->data)[1199], 'x');
	}
	/* They stay readable when the session is gone, and count all the same. */
	assert_int_equal(weft_peer_close(server->node, kept[0]->peer, 0), 0);
	nodes_until(&server->closed, 1);
	nodes_check_budgets();
	assert_true(server->node->pool.borrowed >= (uint32_t)most);
	for (int i = 0; i < kept_count; i++) {
		assert_int_equal(((const char *)kept[i]->data)[1199], 'x');
		weft_msg_release(kept[i]);
	}
	nodes_check_budgets();
	assert_true(server->node->pool.borrowed <= 2);
	assert_int_equal(party_stats(server).held, 0);
	(void)eager;
}

static void held_for_long(void **state)
{
	struct weft_msg *again;
	(void)state;
	kept_count = 0;
	short_frames();
	struct party *a = small(), *b = small();
	weft_peer peer = meet(a, b);
	b->on_message = keep_it;
	assert_int_equal(say(a, peer, "one", NULL), 0);
	assert_int_equal(say(a, peer, "two", NULL), 0);
	nodes_until(&b->messages, 2);
	/* Once more, and not what is no message. */
	again = weft_msg_hold(b->node, kept[0]);
	assert_non_null(again);
	assert_null(weft_msg_hold(b->node, &b->msg));
	assert_int_equal(party_stats(b).held, 3);
	weft_msg_release(kept[0]);
	weft_msg_release(NULL);
	assert_memory_equal(again->data, "one", 3);
	/* An answer after the release, and from what is held. */
	struct weft_send send = WEFT_SEND_INIT;
	assert_int_equal(weft_msg_reply(b->node, kept[1], &send), 0);
	nodes_until(&a->messages, 1);
	assert_int_equal(a->msg.reply_to, 2);
	assert_int_equal(weft_peer_close(a->node, peer, -1), 0);
	nodes_until(&b->closed, 1);
	assert_int_equal(weft_msg_reply(b->node, kept[1], &send), -ENOTCONN);
	assert_memory_equal(again->data, "one", 3);
	party_close(a, 0);
	party_close(b, 0);
	assert_memory_equal(again->data, "one", 3);
	assert_memory_equal(kept[1]->data, "two", 3);
	weft_msg_release(again);
	weft_msg_release(kept[1]);
}

/* With all of the budget held for those who are gone, newcomers are told so. */
static void held_for_the_dead(void **state)
{
	weft_peer peer;
	(void)state;
	kept_count = 0;
	struct weft_node_opts opts = tight(40);
	struct party *server = party_open(&opts);
	server->on_message = keep_it;
	for (int i = 0; i < 60 && party_stats(server).held < 48; i++) {
		struct party *client = small();
		int closed = client->closed;
		assert_int_equal(weft_peer_connect(client->node, &server->addr, -1, &peer), 0);
		assert_int_equal(say(client, peer, "hold this", NULL), 0);
		assert_int_equal(weft_peer_close(client->node, peer, 0) == 0, 1);
		nodes_until(&client->closed, closed + 1);
		closed = client->closed;
		assert_int_equal(weft_peer_connect(client->node, &server->addr, -1, &peer), 0);
		assert_int_equal(say(client, peer, "hold this", NULL), 0);
		int before = kept_count;
		for (int ms = 0; ms < 100 && kept_count == before && client->closed == closed; ms++)
			nodes_pass(1);
		if (client->closed > closed) {
			assert_int_equal(client->end.reason, WEFT_REASON_MEMORY);
			break;
		}
		weft_peer_close(client->node, peer, -1);
		nodes_until(&client->closed, closed + 1);
		party_close(client, 0);
		nodes_check_budgets();
	}
	assert_true(kept_count >= 40);
	struct party *last = small();
	assert_int_equal(weft_peer_connect(last->node, &server->addr, -1, &peer), 0);
	nodes_until(&last->closed, 1);
	assert_int_equal(last->end.reason, WEFT_REASON_MEMORY);
	assert_int_equal(last->end.status, -ENOMEM);
	assert_int_equal(weft_peer_connect(server->node, &last->addr, -1, &peer), -ENOSPC);
	for (int i = 0; i < kept_count; i++)
		weft_msg_release(kept[i]);
	meet(last, server);
}

static long calls_that_cost(void)
{
	static const char *const names[] = {
		"malloc",	"calloc",	 "realloc",	    "aligned_alloc",
		"strdup",	"read",		 "write",	    "ppoll",
		"poll",		"getrandom",	 "timerfd_settime", "epoll_ctl",
		"fi_mr_reg",	"fi_mr_regattr", "fi_av_insert",    "fi_av_remove",
		"fi_close(mr)", "mmap",		 "munmap",
	};
	long sum = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		sum += fake_calls(names[i]);
	return sum;
}

/* In the steady state a message takes no memory and no call of the system's. */
static void what_a_message_costs(void **state)
{
	(void)state;
	short_frames();
	struct party *a = small(), *b = small();
	weft_peer peer = meet(a, b);
	long before = 0;
	for (int i = 0; i < 6000; i++) {
		struct fate fate = {0};
		/* After the first thousand all that is needed is there. */
		if (i == 1000)
			before = calls_that_cost();
		struct weft_send send = telling("0123456789", 10, &fate);
		assert_int_equal(weft_peer_send(a->node, peer, &send), 0);
		if (i % 3 == 0)
			assert_int_equal(say(b, b->peer, "the other way", NULL), 0);
		while (fate.sent == 0) {
			weft_node_poll(a->node, 0);
			weft_node_poll(b->node, 0);
			fake_advance_ns(10000);
		}
	}
	assert_true(before > 0);
	assert_int_equal(calls_that_cost() - before, 0);
	nodes_until(&a->messages, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		nodes_test(ten_eager_peers),	   nodes_test(a_hundred_peers),
		nodes_test(a_lone_peer_is_served), nodes_test(borrowing_and_giving_back),
		nodes_test(held_messages_count),   nodes_test(held_for_long),
		nodes_test(held_for_the_dead),	   nodes_test(what_a_message_costs),
	};
	return world_run(tests);
}
