/* SPDX-License-Identifier: MIT */
/* Nodes that write down what happens on them. Uses the public header only. */
#include "nodes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <rdma/fabric.h>

static int on_accept(struct weft_node *node, const struct weft_peer_info *info, void *user)
{
	struct actor *actor = user;
	(void)node;
	assert_int_equal(info->size, sizeof(*info));
	assert_non_null(info->provider);
	actor->accepts++;
	return actor->refuse;
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct actor *actor = user;
	(void)node;
	actor->opened++;
	actor->peer = peer;
	actor->outgoing = info->outgoing;
	actor->instance = info->instance;
	actor->max_frame = info->max_frame;
	if (actor->on_opened)
		actor->on_opened(actor, peer);
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct actor *actor = user;
	(void)node;
	assert_int_equal((uintptr_t)msg->data % 8, 0);
	actor->messages++;
	if (actor->on_message)
		actor->on_message(actor, msg);
}

static void on_writable(struct weft_node *node, weft_peer peer, void *user)
{
	struct actor *actor = user;
	(void)node;
	(void)peer;
	actor->writables++;
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct actor *actor = user;
	(void)node;
	assert_non_null(closed->text);
	if (actor->closed < ENDS)
		actor->reasons[actor->closed] = (int)closed->reason;
	actor->closed++;
	actor->end = *closed;
	snprintf(actor->end_text, sizeof(actor->end_text), "%s", closed->text);
	if (actor->on_closed)
		actor->on_closed(actor, peer);
}

struct weft_node_opts node_opts(void)
{
	static struct weft_net_opts net;
	struct weft_node_opts opts = WEFT_NODE_OPTS_INIT;
	net = test_opts();
	opts.net = &net;
	return opts;
}

void actor_open(struct actor *actor, const struct weft_node_opts *opts)
{
	struct weft_node_opts usual = node_opts();
	struct weft_events events = WEFT_EVENTS_INIT;
	events.accept = on_accept;
	events.opened = on_opened;
	events.message = on_message;
	events.writable = on_writable;
	events.closed = on_closed;
	int ret = weft_node_open(&actor->node, opts ? opts : &usual, &events, actor);
	if (ret < 0)
		fail_msg("weft_node_open: %s", weft_strerror(ret));
	assert_int_equal(weft_node_get_addr(actor->node, &actor->addr), 0);
}

bool parts_first(void)
{
	return provider_is("shm") && fi_version() >= FI_VERSION(2, 0);
}

static size_t known_peers(const struct actor *actor)
{
	struct weft_net_stats stats = WEFT_NET_STATS_INIT;
	assert_int_equal(weft_net_get_stats(weft_node_net(actor->node), &stats), 0);
	return stats.peers;
}

/* Ends the session that was opened last, and polls until the other side has dropped the address. */
static void part_from(struct actor *actor, struct actor *beside)
{
	struct actor *both[] = {actor, beside};
	size_t known = known_peers(beside);
	int64_t end = now_ms() + PATIENCE_MS;
	bool parts = weft_peer_close(actor->node, actor->peer, -1) == 0;
	while (parts && known_peers(beside) >= known) {
		assert_true(now_ms() < end);
		poll_all(both, 2);
	}
	/* Those that have parted before take a few turns, too. */
	for (int i = 0; i < 10; i++)
		poll_all(both, 2);
}

struct closing {
	struct weft_node *node;
	int left;
	atomic_bool done;
};

static void *close_node(void *user)
{
	struct closing *closing = user;
	closing->left = weft_node_close(closing->node, PATIENCE_MS);
	atomic_store(&closing->done, true);
	return NULL;
}

void actor_close(struct actor *actor, struct actor *beside)
{
	struct closing closing = {.node = actor->node};
	if (beside && parts_first())
		part_from(actor, beside);
	if (beside) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, close_node, &closing), 0);
		while (!atomic_load(&closing.done))
			assert_true(weft_node_poll(beside->node, 1) >= 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	} else {
		close_node(&closing);
	}
	assert_true(closing.left >= 0);
	actor->node = NULL;
}

weft_peer begin(struct actor *from, const struct actor *to)
{
	weft_peer peer = WEFT_PEER_NONE;
	assert_int_equal(weft_peer_connect(from->node, &to->addr, PATIENCE_MS, &peer), 0);
	assert_true(peer != WEFT_PEER_NONE);
	return peer;
}

void actors_meet(struct actor *a, struct actor *b)
{
	int a_opened = a->opened + 1, b_opened = b->opened + 1;
	weft_peer peer = begin(a, b);
	wait_for(a, b, &a->opened, a_opened);
	wait_for(a, b, &b->opened, b_opened);
	assert_true(a->peer == peer);
}

void poll_all(struct actor *const *actors, int count)
{
	for (int i = 0; i < count; i++)
		assert_true(weft_node_poll(actors[i]->node, 0) >= 0);
}

void wait_for(struct actor *a, struct actor *b, const int *value, int want)
{
	struct actor *both[2] = {a, b};
	int64_t end = now_ms() + PATIENCE_MS;
	while (*value < want) {
		poll_all(both, b ? 2 : 1);
		if (now_ms() > end)
			fail_msg("%d of %d after %d ms", *value, want, PATIENCE_MS);
	}
}

struct weft_send send_of(struct actor *actor, const void *data, size_t len)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = data;
	send.len = len;
	send.timeout_ms = PATIENCE_MS;
	send.sent = record_sent;
	send.user = actor;
	return send;
}

void record_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct actor *actor = user;
	(void)node;
	(void)peer;
	actor->sents++;
	actor->sent_status = status;
}

void record_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status,
		  void *user)
{
	struct actor *actor = user;
	(void)node;
	(void)peer;
	assert_true(!!msg == (status == 0));
	actor->replies++;
	actor->reply_status = status;
	actor->reply_len = msg ? msg->len : 0;
	actor->reply_sum = msg ? sum_of(msg->data, msg->len) : 0;
}

void scribble(uint8_t *data, size_t len, unsigned seed)
{
	uint32_t x = seed * 2654435761u + 1;
	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		data[i] = (uint8_t)(x >> 24);
	}
}

uint32_t sum_of(const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint32_t sum = 2166136261u;
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

struct weft_node_stats stats_of(const struct actor *actor)
{
	struct weft_node_stats stats = WEFT_NODE_STATS_INIT;
	assert_int_equal(weft_node_get_stats(actor->node, &stats), 0);
	return stats;
}
