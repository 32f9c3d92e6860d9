/* SPDX-License-Identifier: MIT */
/*
 * The messages of game.h through weft's layer 1, as a user of net.h writes it.
 *
 * May call weft/net.h and game.h. It looks at libfabric's structures for get_info only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <weft/net.h>

#include "bench.h"

struct layer1_end;

struct layer1_slot {
	struct layer1_end *end;
	unsigned index;
	struct weft_buf *buf;
	void *data;
};

struct layer1_end {
	struct bench_end base;
	struct bench_opts opts;
	struct weft_net *net;
	weft_dest peer;
	unsigned n_recvs, n_sends;
	struct layer1_slot *recvs;
	struct layer1_slot *sends;
};

static void layer1_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level <= WEFT_LOG_ERROR)
		fprintf(stderr, "bench_l1: %s\n", text);
}

static void layer1_received(struct weft_net *net, const struct weft_done *done);

static void layer1_post_recv(struct layer1_end *end, struct layer1_slot *slot)
{
	int rc = weft_net_recv(end->net, slot->buf, layer1_received, slot);

	if (rc)
		bench_die("weft_net_recv", rc);
}

static struct layer1_slot *layer1_slots(struct layer1_end *end, unsigned n)
{
	struct layer1_slot *slots = calloc(n, sizeof(*slots));
	int rc;

	if (!slots)
		bench_die("calloc", -FI_ENOMEM);
	for (unsigned i = 0; i < n; i++) {
		slots[i].end = end;
		slots[i].index = i;
		rc = weft_buf_alloc(end->net, end->opts.size, &slots[i].buf);
		if (rc)
			bench_die("weft_buf_alloc", rc);
		slots[i].data = weft_buf_data(slots[i].buf);
	}
	return slots;
}

static struct bench_end *layer1_open(const struct bench_opts *opts, enum game_role role)
{
	struct layer1_end *end = calloc(1, sizeof(*end));
	struct weft_net_opts net_opts = WEFT_NET_OPTS_INIT;
	int rc;

	if (!end)
		bench_die("calloc", -FI_ENOMEM);
	end->opts = *opts;
	net_opts.provider = opts->provider;
	net_opts.log = layer1_log;
	rc = weft_net_open(&end->net, &net_opts);
	if (rc)
		bench_die("weft_net_open", rc);
	end->n_recvs = game_receives(opts->window, role);
	end->n_sends = opts->window;
	end->recvs = layer1_slots(end, end->n_recvs);
	end->sends = layer1_slots(end, end->n_sends);
	for (unsigned i = 0; i < end->n_recvs; i++)
		layer1_post_recv(end, &end->recvs[i]);
	return &end->base;
}

static size_t layer1_get_addr(struct bench_end *base, void *addr)
{
	struct layer1_end *end = (struct layer1_end *)base;
	struct weft_addr own;
	int rc = weft_net_get_addr(end->net, &own);

	if (rc)
		bench_die("weft_net_get_addr", rc);
	rc = weft_addr_format(&own, addr, BENCH_ADDR_MAX);
	if (rc < 0)
		bench_die("weft_addr_format", rc);
	return (size_t)rc + 1;
}

static bool layer1_connect(struct bench_end *base, const void *addr, size_t len)
{
	struct layer1_end *end = (struct layer1_end *)base;
	struct weft_addr peer;

	(void)len;
	return weft_addr_parse(&peer, addr, NULL) == 0 &&
	       weft_net_add_peer(end->net, &peer, &end->peer) == 0;
}

static void layer1_sent(struct weft_net *net, const struct weft_done *done);

static void layer1_send_allowed(struct layer1_end *end)
{
	struct game *g = &end->base.game;

	while (game_may_send(g)) {
		struct layer1_slot *slot = &end->sends[game_slot(g)];
		struct weft_post post = WEFT_POST_INIT;
		int rc;

		game_fill(g, slot->data);
		post.buf = slot->buf;
		post.len = g->out_len;
		rc = weft_net_send(end->net, end->peer, &post, layer1_sent, slot);
		if (rc)
			bench_die("weft_net_send", rc);
		game_started(g);
	}
}

static void layer1_sent(struct weft_net *net, const struct weft_done *done)
{
	struct layer1_slot *slot = done->user;

	(void)net;
	if (done->status)
		bench_die("a send", done->status);
	game_sent(&slot->end->base.game, slot->index);
	layer1_send_allowed(slot->end);
}

static void layer1_received(struct weft_net *net, const struct weft_done *done)
{
	struct layer1_slot *slot = done->user;
	struct layer1_end *end = slot->end;

	(void)net;
	if (done->status == -FI_ECANCELED)
		return; /* the net is being closed */
	if (done->status)
		bench_die("a receive", done->status);
	if (done->len != end->base.game.in_len)
		bench_die("a message of the wrong length", -FI_EIO);
	game_received(&end->base.game, slot->data);
	layer1_post_recv(end, slot);
	layer1_send_allowed(end);
}

static void layer1_start(struct bench_end *base)
{
	layer1_send_allowed((struct layer1_end *)base);
}

static inline void layer1_poll(struct layer1_end *end)
{
	int n = weft_net_poll(end->net, 0);

	end->base.polls++;
	if (n < 0)
		bench_die("weft_net_poll", n);
	if (n == 0) {
		end->base.idle_polls++;
		if (end->opts.yield)
			sched_yield();
	}
}

static void layer1_turn(struct bench_end *base)
{
	layer1_poll((struct layer1_end *)base);
}

static void layer1_run(struct bench_end *base)
{
	while (base->game.left)
		layer1_poll((struct layer1_end *)base);
}

static const struct fi_info *layer1_get_info(const struct bench_end *base)
{
	struct weft_fabric fabric = WEFT_FABRIC_INIT;
	int rc = weft_net_fabric(((const struct layer1_end *)base)->net, &fabric);

	if (rc)
		bench_die("weft_net_fabric", rc);
	return fabric.info;
}

static struct bench_traits layer1_get_traits(const struct bench_end *base)
{
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	int rc = weft_net_get_info(((const struct layer1_end *)base)->net, &info);

	if (rc)
		bench_die("weft_net_get_info", rc);
	return (struct bench_traits){.wait_fd = info.has_wait_fd, .source = info.has_source};
}

static void layer1_free_slots(struct layer1_slot *slots, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		weft_buf_unref(slots[i].buf);
	free(slots);
}

static void layer1_close(struct bench_end *base)
{
	struct layer1_end *end = (struct layer1_end *)base;

	weft_net_close(end->net);
	layer1_free_slots(end->recvs, end->n_recvs);
	layer1_free_slots(end->sends, end->n_sends);
	free(end);
}

const struct bench_kind bench_layer1 = {
	.name = "weft",
	.open = layer1_open,
	.get_addr = layer1_get_addr,
	.connect = layer1_connect,
	.start = layer1_start,
	.turn = layer1_turn,
	.run = layer1_run,
	.get_info = layer1_get_info,
	.get_traits = layer1_get_traits,
	.close = layer1_close,
};
