/* SPDX-License-Identifier: MIT */
/*
 * The messages of game.h through weft's layer 2, as a user of weft.h writes it: a session between
 * two nodes, which copies what it is given and puts small messages into common frames.
 *
 * May call weft/weft.h and game.h. It looks at libfabric's structures for get_info only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "bench.h"

/* From this size on a message is sent from memory that was registered before, as raw sends all. */
#define LAYER2_BUF_MIN (64u << 10)

struct layer2_end;

struct layer2_slot {
	struct layer2_end *end;
	struct weft_buf *buf;
	unsigned index;
};

struct layer2_end {
	struct bench_end base;
	struct bench_opts opts;
	enum game_role role;
	struct weft_node *node;
	weft_peer peer; /* WEFT_PEER_NONE: not connected yet */
	void *data;
	struct layer2_slot *slots; /* NULL: messages are copied from data */
};

static void layer2_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_ERROR)
		fprintf(stderr, "bench_l1: %s\n", text);
}

static void layer2_send_allowed(struct layer2_end *end);

static void layer2_sent(struct weft_node *node, weft_peer peer, int status, void *user)
{
	struct layer2_slot *slot = user;

	(void)node;
	(void)peer;
	if (status)
		bench_die("a message", status);
	game_sent(&slot->end->base.game, slot->index);
	layer2_send_allowed(slot->end);
}

static int layer2_send_slot(struct layer2_end *end, struct layer2_slot *slot)
{
	struct weft_send send = WEFT_SEND_INIT;

	game_fill(&end->base.game, weft_buf_data(slot->buf));
	send.buf = slot->buf;
	send.len = end->base.game.out_len;
	send.sent = layer2_sent;
	send.user = slot;
	return weft_peer_send(end->node, end->peer, &send);
}

static void layer2_send_allowed(struct layer2_end *end)
{
	struct game *g = &end->base.game;

	while (game_may_send(g)) {
		unsigned slot = game_slot(g);
		int rc;

		if (end->slots) {
			rc = layer2_send_slot(end, &end->slots[slot]);
		} else {
			game_fill(g, end->data);
			rc = weft_peer_write(end->node, end->peer, end->data, g->out_len);
		}
		if (rc == -ENOBUFS)
			return; /* the writable event goes on */
		if (rc)
			bench_die("sending a message", rc);
		game_started(g);
		/* It is copied, so its place is free. */
		if (!end->slots)
			game_sent(g, slot);
	}
}

static void layer2_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
			  void *user)
{
	struct layer2_end *end = user;

	(void)node;
	(void)info;
	end->peer = peer;
}

static void layer2_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct layer2_end *end = user;

	(void)node;
	if (msg->len != end->base.game.in_len)
		bench_die("a message of the wrong length", -EIO);
	game_received(&end->base.game, msg->data);
	layer2_send_allowed(end);
}

static void layer2_writable(struct weft_node *node, weft_peer peer, void *user)
{
	(void)node;
	(void)peer;
	layer2_send_allowed(user);
}

static void layer2_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
			  void *user)
{
	struct layer2_end *end = user;

	(void)node;
	(void)peer;
	if (end->base.game.left == 0)
		return;
	fprintf(stderr, "bench_l1: %s\n", closed->text);
	bench_die("a session", closed->status ? closed->status : -ECONNRESET);
}

static void layer2_make_slots(struct layer2_end *end)
{
	end->slots = calloc(end->opts.window, sizeof(*end->slots));
	if (!end->slots)
		bench_die("calloc", -ENOMEM);
	for (unsigned i = 0; i < end->opts.window; i++) {
		struct layer2_slot *slot = &end->slots[i];
		int rc = weft_buf_alloc(weft_node_net(end->node), end->opts.size, &slot->buf);

		if (rc)
			bench_die("weft_buf_alloc", rc);
		slot->end = end;
		slot->index = i;
		memset(weft_buf_data(slot->buf), 0, end->opts.size);
	}
}

static struct bench_end *layer2_open(const struct bench_opts *opts, enum game_role role)
{
	struct layer2_end *end = calloc(1, sizeof(*end));
	struct weft_net_opts net_opts = WEFT_NET_OPTS_INIT;
	struct weft_node_opts node_opts = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	int rc;

	if (!end)
		bench_die("calloc", -ENOMEM);
	end->opts = *opts;
	end->role = role;
	end->data = calloc(1, opts->size);
	if (!end->data)
		bench_die("calloc", -ENOMEM);
	net_opts.provider = opts->provider;
	net_opts.log = layer2_log;
	node_opts.net = &net_opts;
	events.opened = layer2_opened;
	events.message = layer2_message;
	events.writable = layer2_writable;
	events.closed = layer2_closed;
	rc = weft_node_open(&end->node, &node_opts, &events, end);
	if (rc)
		bench_die("weft_node_open", rc);
	if (game_len(role, opts->window, opts->size) >= LAYER2_BUF_MIN)
		layer2_make_slots(end);
	return &end->base;
}

static size_t layer2_get_addr(struct bench_end *base, void *addr)
{
	struct layer2_end *end = (struct layer2_end *)base;
	struct weft_addr own;
	int rc;

	weft_node_get_addr(end->node, &own);
	rc = weft_addr_format(&own, addr, BENCH_ADDR_MAX);
	if (rc < 0)
		bench_die("weft_addr_format", rc);
	return (size_t)rc + 1;
}

/* The sender connects; the receiver answers the session that it is asked for. */
static bool layer2_connect(struct bench_end *base, const void *addr, size_t len)
{
	struct layer2_end *end = (struct layer2_end *)base;
	struct weft_addr peer;

	(void)len;
	if (weft_addr_parse(&peer, addr, NULL) < 0)
		return false;
	return end->role == GAME_RECEIVER ||
	       weft_peer_connect(end->node, &peer, -1, &end->peer) == 0;
}

static void layer2_start(struct bench_end *base)
{
	layer2_send_allowed((struct layer2_end *)base);
}

static inline void layer2_poll(struct layer2_end *end)
{
	int n = weft_node_poll(end->node, 0);

	end->base.polls++;
	if (n < 0)
		bench_die("weft_node_poll", n);
	if (n == 0) {
		end->base.idle_polls++;
		if (end->opts.yield)
			sched_yield();
	}
}

static void layer2_turn(struct bench_end *base)
{
	layer2_poll((struct layer2_end *)base);
}

static void layer2_run(struct bench_end *base)
{
	while (base->game.left)
		layer2_poll((struct layer2_end *)base);
}

static const struct fi_info *layer2_get_info(const struct bench_end *base)
{
	const struct layer2_end *end = (const struct layer2_end *)base;
	struct weft_fabric fabric = WEFT_FABRIC_INIT;
	int rc = weft_net_fabric(weft_node_net(end->node), &fabric);

	if (rc)
		bench_die("weft_net_fabric", rc);
	return fabric.info;
}

static struct bench_traits layer2_get_traits(const struct bench_end *base)
{
	const struct layer2_end *end = (const struct layer2_end *)base;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	int rc = weft_net_get_info(weft_node_net(end->node), &info);

	if (rc)
		bench_die("weft_net_get_info", rc);
	return (struct bench_traits){.wait_fd = info.has_wait_fd, .source = info.has_source};
}

static void layer2_leave(struct bench_end *base)
{
	struct layer2_end *end = (struct layer2_end *)base;

	weft_peer_close(end->node, end->peer, -1);
}

static void layer2_close(struct bench_end *base)
{
	struct layer2_end *end = (struct layer2_end *)base;

	for (unsigned i = 0; end->slots && i < end->opts.window; i++)
		weft_buf_unref(end->slots[i].buf);
	free(end->slots);
	weft_node_close(end->node, 0);
	free(end->data);
	free(end);
}

const struct bench_kind bench_layer2 = {
	.name = "layer2",
	.open = layer2_open,
	.get_addr = layer2_get_addr,
	.connect = layer2_connect,
	.start = layer2_start,
	.turn = layer2_turn,
	.run = layer2_run,
	.get_info = layer2_get_info,
	.get_traits = layer2_get_traits,
	.leave = layer2_leave,
	.close = layer2_close,
};
