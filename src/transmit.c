/* SPDX-License-Identifier: MIT */
/* Frames that leave. Calls bundle, frame, session, wire, life, peer, and layer 1. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "transmit.h"

/* Parts of a big message that are under way at once, so that other peers have their turn. */
#define PARTS_IN_FLIGHT 16
/* How long the last frame of a session, or a refusal, may take to leave. */
#define LAST_FRAME_MS 2000

static weft_done_fn sent;

int weft__transmit_post(struct weft_node *node, weft_dest dest, struct weft__sframe *frame,
			int timeout_ms)
{
	struct weft_post what = WEFT_POST_INIT;
	what.buf = frame->space->buf;
	what.off = frame->space->off;
	what.len = frame->len;
	what.timeout_ms = timeout_ms;
	int ret = weft_net_send(node->net, dest, &what, sent, frame);
	if (ret < 0)
		return ret;
	node->frames.in_flight++;
	if (frame->route)
		frame->route->in_flight++;
	return 0;
}

void weft__transmit_header(struct weft_node *node, struct weft__peer *peer,
			   struct weft__header *header, enum weft__frame_type type, uint32_t number,
			   bool last)
{
	if ((peer->is_owing || peer->is_lazy) && peer->s.state != WEFT__GONE)
		weft__credit_grant(&node->pool, &peer->s.credit);
	weft__session_fill(&peer->s, header, type, number);
	/* The last frame asks for those before it as well. */
	if (last && !TAILQ_EMPTY(&peer->unacked))
		header->flags = WEFT__FLAG_ACK_NOW;
}

/* Gives a frame of a session to the net. last: see weft__transmit_header(). */
static int transmit(struct weft_node *node, struct weft__peer *peer, struct weft__sframe *frame,
		    bool last)
{
	struct weft__header header;
	bool gone = peer->s.state == WEFT__GONE;
	uint32_t number = frame->control ? peer->s.tx_number : frame->number;
	weft__transmit_header(node, peer, &header, frame->type, number, last);
	if (frame->type == WEFT__CONNECT)
		header.session = 0;
	weft__wire_put_header(frame->data, &header);
	frame->peer = peer;
	frame->route = peer->route;
	if (weft__bundle_may(peer, frame)) {
		weft__bundle_add(node, frame);
	} else {
		int ret = weft__transmit_post(node, peer->dest, frame, gone ? LAST_FRAME_MS : -1);
		if (ret < 0)
			return ret;
	}
	peer->operations++;
	node->stats.frames_sent++;
	return 0;
}

/* Whether the net only has no room at the moment. */
bool weft__transmit_for_now(int code)
{
	return code == -ENOBUFS || code == -EHOSTUNREACH || code == -ENOMEM;
}

static void leave_queue(struct weft_node *node, struct weft__peer *peer, struct weft__sframe *item)
{
	TAILQ_REMOVE(&peer->queue, item, link);
	if (item->out)
		weft__out_free(item->out);
	else if (item->counts)
		peer->frames--;
	weft__sframe_give(node, item, false);
}

/* Sends the next part of a big message. Returns 0, 1 for the last part, or a code. */
static int send_part(struct weft_node *node, struct weft__peer *peer, struct weft__sframe *item)
{
	struct weft__out *out = item->out;
	size_t before = out->sent;
	if (peer->in_flight >= PARTS_IN_FLIGHT)
		return -EAGAIN;
	struct weft__sframe *frame = weft__sframe_take(node, WEFT__LONG_FRAME);
	if (!frame)
		return -ENOBUFS;
	bool last = weft__out_fill(peer, out, frame);
	frame->type = WEFT__DATA;
	frame->costs = true;
	frame->number = item->number;
	int ret = transmit(node, peer, frame, last && !TAILQ_NEXT(item, link));
	if (ret < 0) {
		out->sent = before;
		weft__sframe_give(node, frame, false);
		return ret;
	}
	peer->frames++;
	peer->in_flight++;
	weft__session_sent(&peer->s, item->number, true, node->now);
	weft__life_expect(node, peer);
	peer->wanted &= ~(unsigned)WEFT__WANT_CREDIT;
	item->number++;
	/* As long as it moves, its deadline does too. */
	if (out->slot)
		weft__slot_progress(node, out->slot);
	return last;
}

/*
 * A frame is about to leave by itself: those that wait to leave with others' go before it. If the
 * sender dies in between, nothing is missing then that came before what has arrived.
 */
static void keep_order(struct weft_node *node, struct weft__peer *peer)
{
	if (!TAILQ_EMPTY(&peer->route->waiting))
		weft__bundle_flush(node, peer->route);
}

/* Returns whether the big message at the head of the queue has left it. */
static bool flush_big(struct weft_node *node, struct weft__peer *peer, struct weft__sframe *item)
{
	keep_order(node, peer);
	/* The net may have refused what waited, and the queue is no more. */
	if (peer->s.state == WEFT__GONE)
		return false;
	while (weft__session_may_send(&peer->s, true)) {
		int ret = send_part(node, peer, item);
		if (ret == 0)
			continue;
		if (ret > 0)
			leave_queue(node, peer, item);
		else if (weft__transmit_for_now(ret))
			weft__peer_mark_dirty(node, peer);
		else if (ret != -EAGAIN)
			weft__life_fail(node, peer, WEFT_REASON_FABRIC,
					"the net refuses to send: %s", weft_strerror(ret));
		return ret > 0;
	}
	if (peer->s.state == WEFT__OPEN || peer->s.state == WEFT__CLOSING)
		node->stats.stalls++;
	return false;
}

static void flush_messages(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__sframe *frame;
	while ((frame = TAILQ_FIRST(&peer->queue))) {
		struct weft__out *offer = NULL;
		if (frame->out && weft__bulk_offers(peer, frame->out)) {
			/* Its place in the queue becomes the OFFER. */
			offer = frame->out;
			weft__bulk_put_offer(offer, frame);
		} else if (frame->out) {
			if (!flush_big(node, peer, frame))
				return;
			continue;
		}
		if (!weft__session_may_send(&peer->s, frame->costs)) {
			if (peer->s.state == WEFT__OPEN || peer->s.state == WEFT__CLOSING)
				node->stats.stalls++;
			return;
		}
		if (!weft__bundle_may(peer, frame)) {
			keep_order(node, peer);
			if (peer->s.state == WEFT__GONE)
				return;
		}
		/* On success it may only be touched by its end, which is never now. */
		bool last = TAILQ_NEXT(frame, link) == NULL;
		uint32_t number = frame->number;
		bool costs = frame->costs;
		TAILQ_REMOVE(&peer->queue, frame, link);
		int ret = transmit(node, peer, frame, last);
		if (ret < 0)
			TAILQ_INSERT_HEAD(&peer->queue, frame, link);
		if (ret < 0 && weft__transmit_for_now(ret)) {
			weft__peer_mark_dirty(node, peer);
			return;
		}
		if (ret < 0) {
			weft__life_fail(node, peer, WEFT_REASON_FABRIC,
					"the net refuses to send: %s", weft_strerror(ret));
			return;
		}
		peer->in_flight++;
		weft__session_sent(&peer->s, number, costs, node->now);
		if (offer) {
			frame->out = NULL;
			offer->number = number;
			weft__bulk_offered(peer, offer);
		}
		weft__life_expect(node, peer);
		peer->wanted &= ~(unsigned)WEFT__WANT_CREDIT;
	}
}

static size_t put_hello(const struct weft_node *node, const struct weft__peer *peer, uint8_t *to,
			size_t room)
{
	struct weft__hello hello = {
		.version_min = WEFT__WIRE_VERSION,
		.version_max = WEFT__WIRE_VERSION,
		.features = peer->s.outgoing ? node->features : peer->s.features,
		.max_frame = node->frame_size,
		.instance = node->instance,
		.session = peer->s.id,
		.nonce = peer->s.nonce,
		.max_message = node->opts.max_message,
		.keepalive_ms = (uint32_t)node->opts.keepalive_ms,
		.silence_ms = (uint32_t)node->opts.silence_ms,
		.libfabric = node->libfabric,
		.addr = node->addr,
	};
	snprintf(hello.provider, sizeof(hello.provider), "%s", node->provider);
	return weft__wire_put_hello(to, room, &hello);
}

static size_t put_close(const struct weft__peer *peer, uint8_t *to, size_t room)
{
	struct weft__farewell farewell = {.reason = (uint16_t)peer->reason};
	if (peer->why)
		snprintf(farewell.text, sizeof(farewell.text), "%s", peer->why);
	farewell.text_len = (uint16_t)strlen(farewell.text);
	return weft__wire_put_close(to, room, &farewell);
}

static const struct {
	enum weft__control control;
	enum weft__frame_type type;
} controls[] = {
	{WEFT__WANT_GRANT, WEFT__GRANT},     {WEFT__WANT_ABORT, WEFT__ABORT},
	{WEFT__WANT_CONNECT, WEFT__CONNECT}, {WEFT__WANT_ACCEPT, WEFT__ACCEPT},
	{WEFT__WANT_CREDIT, WEFT__CREDIT},   {WEFT__WANT_PING, WEFT__PING},
	{WEFT__WANT_PONG, WEFT__PONG},	     {WEFT__WANT_CLOSED, WEFT__CLOSED},
	{WEFT__WANT_CLOSE, WEFT__CLOSE},
};

static void put_contents(const struct weft_node *node, struct weft__peer *peer,
			 struct weft__sframe *frame)
{
	uint8_t *to = frame->data + WEFT__HEADER_LEN;
	size_t room = WEFT__SHORT_SPACE - WEFT__HEADER_LEN;
	size_t len = 0;
	if (frame->type == WEFT__CONNECT || frame->type == WEFT__ACCEPT) {
		len = put_hello(node, peer, to, room);
	} else if (frame->type == WEFT__PING) {
		struct weft__ping ping = {peer->s.id, node->instance, node->addr};
		len = weft__wire_put_ping(to, room, &ping);
	} else if (frame->type == WEFT__CLOSE) {
		len = put_close(peer, to, room);
	} else if (frame->type == WEFT__GRANT) {
		len = weft__bulk_put_grant(peer, to, room);
	} else if (frame->type == WEFT__ABORT) {
		len = weft__bulk_put_abort(peer, to, room);
	}
	frame->len = WEFT__HEADER_LEN + len;
}

static bool has_contents(enum weft__frame_type type)
{
	return type != WEFT__CREDIT && type != WEFT__PONG && type != WEFT__CLOSED;
}

/* This has been said. Returns whether more of it is to be. */
static bool more_of(struct weft__peer *peer, enum weft__control control)
{
	if (control == WEFT__WANT_GRANT)
		return weft__bulk_grant_left(peer);
	return control == WEFT__WANT_ABORT && weft__bulk_abort_left(peer);
}

/* Returns whether there is more of the same to be said. */
static bool send_control(struct weft_node *node, struct weft__peer *peer, size_t which)
{
	enum weft__control control = controls[which].control;
	struct weft__sframe *frame = weft__sframe_take(node, WEFT__CONTROL_FRAME);
	if (!frame) {
		weft__peer_mark_dirty(node, peer);
		return false;
	}
	frame->type = (uint8_t)controls[which].type;
	/* Without a place in the order, a CLOSE takes the next number that no frame has had. */
	if (control == WEFT__WANT_CLOSE)
		frame->number = peer->s.tx_number + 1;
	else
		frame->control = control;
	put_contents(node, peer, frame);
	/* What was to be said may have become pointless. */
	if (frame->len == WEFT__HEADER_LEN && has_contents(frame->type)) {
		peer->wanted &= ~(unsigned)control;
		weft__sframe_give(node, frame, false);
		return false;
	}
	int ret = transmit(node, peer, frame, false);
	frame->control = control;
	if (ret == 0) {
		bool more = more_of(peer, control);
		if (!more)
			peer->wanted &= ~(unsigned)control;
		peer->flying |= control;
		return more;
	}
	weft__sframe_give(node, frame, false);
	if (peer->s.state == WEFT__GONE)
		peer->wanted &= ~(unsigned)control;
	else if (weft__transmit_for_now(ret))
		weft__peer_mark_dirty(node, peer);
	else
		weft__life_fail(node, peer, WEFT_REASON_FABRIC, "the net refuses to send: %s",
				weft_strerror(ret));
	return false;
}

void weft__transmit_flush(struct weft_node *node, struct weft__peer *peer)
{
	flush_messages(node, peer);
	if (!TAILQ_EMPTY(&peer->offers) && peer->s.state != WEFT__GONE)
		weft__bulk_flush(node, peer);
	if (!(peer->wanted & ~peer->flying))
		return;
	if (peer->s.state == WEFT__GONE)
		keep_order(node, peer);
	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
		unsigned control = controls[i].control;
		bool more = (peer->wanted & control) && !(peer->flying & control);
		while (more)
			more = send_control(node, peer, i);
	}
}

void weft__transmit_queue(struct weft__peer *peer, struct weft__sframe *frame,
			  enum weft__frame_type type)
{
	frame->type = (uint8_t)type;
	frame->costs = type != WEFT__CLOSE;
	frame->number = peer->s.tx_queued + 1;
	peer->s.tx_queued += frame->out ? weft__out_frames(peer, frame->out) : 1;
	if (frame->counts)
		peer->frames++;
	TAILQ_INSERT_TAIL(&peer->queue, frame, link);
}

void weft__transmit_renumber(struct weft__peer *peer)
{
	uint32_t number = peer->s.tx_number;
	struct weft__slot *slot = TAILQ_FIRST(&peer->unacked);
	struct weft__sframe *frame;
	while (slot && !weft__after(slot->number, number))
		slot = TAILQ_NEXT(slot, link);
	TAILQ_FOREACH (frame, &peer->queue, link) {
		frame->number = number + 1;
		number += frame->out ? weft__out_frames(peer, frame->out) : 1;
		while (slot && !weft__after(slot->id, frame->last_id)) {
			slot->number = number;
			slot = TAILQ_NEXT(slot, link);
		}
	}
	peer->s.tx_queued = number;
}

void weft__transmit_cancel(struct weft_node *node, struct weft__peer *peer)
{
	while (!TAILQ_EMPTY(&peer->queue))
		leave_queue(node, peer, TAILQ_FIRST(&peer->queue));
	peer->s.tx_queued = peer->s.tx_number;
}

int weft__transmit_stranger(struct weft_node *node, struct weft__sframe *frame)
{
	int ret = weft__transmit_post(node, frame->stranger, frame, LAST_FRAME_MS);
	if (ret == 0)
		node->stats.frames_sent++;
	return ret;
}

/* What a frame's error means for its session. */
static void failed(struct weft_node *node, struct weft__peer *peer, unsigned control,
		   const struct weft_done *done)
{
	if (peer->s.state == WEFT__GONE)
		return;
	peer->prov_errno = done->prov_errno;
	peer->advice = done->advice;
	/* There may be nobody there yet: CONNECT is repeated until the time is up. */
	if (control == WEFT__WANT_CONNECT) {
		weft__life_reason(peer, WEFT_REASON_TIMEOUT, "the fabric says: %s", done->text);
		return;
	}
	weft__life_fail(node, peer, WEFT_REASON_FABRIC, "the fabric says: %s", done->text);
}

void weft__transmit_release(struct weft_node *node, struct weft__sframe *frame, bool spoilt)
{
	struct weft__peer *peer = frame->peer;
	peer->operations--;
	if (frame->control)
		peer->flying &= ~frame->control;
	else
		peer->in_flight--;
	if (frame->counts)
		peer->frames--;
	weft__sframe_give(node, frame, spoilt);
}

/* A frame of a session is with the net no more. */
static void left(struct weft_node *node, struct weft__sframe *frame, const struct weft_done *done,
		 bool spoilt)
{
	struct weft__peer *peer = frame->peer;
	unsigned control = frame->control;
	weft__transmit_release(node, frame, spoilt);
	if (done->status < 0)
		failed(node, peer, control, done);
	else if (control == WEFT__WANT_ACCEPT)
		peer->reached = true;
	if (peer->wanted || !TAILQ_EMPTY(&peer->queue))
		weft__peer_mark_dirty(node, peer);
	weft__peer_reap(node, peer);
}

/* The same of a frame or a bundle. */
static void all_left(struct weft_node *node, struct weft__sframe *frame,
		     const struct weft_done *done, bool spoilt)
{
	struct weft__sframe *one;
	if (frame->peer) {
		left(node, frame, done, spoilt);
		return;
	}
	while ((one = TAILQ_FIRST(&frame->bundled))) {
		TAILQ_REMOVE(&frame->bundled, one, link);
		left(node, one, done, false);
	}
	for (uint32_t i = 0; done->status < 0 && i < frame->messages; i++) {
		struct weft__peer *peer = weft__peer_find(node, frame->space->notes[i]);
		if (peer)
			failed(node, peer, 0, done);
	}
	weft__sframe_give(node, frame, spoilt);
}

void weft__transmit_refused(struct weft_node *node, struct weft__sframe *frame, int code)
{
	const struct weft_done done = {.status = code, .text = weft_strerror(code)};
	all_left(node, frame, &done, false);
}

static void sent(struct weft_net *net, const struct weft_done *done)
{
	struct weft__sframe *frame = done->user;
	struct weft_node *node = frame->node;
	/* Of these the provider may still read the memory. */
	bool spoilt = done->status == -ETIMEDOUT || done->status == -ECANCELED;
	(void)net;
	node->frames.in_flight--;
	if (frame->route) {
		struct weft__route *route = frame->route;
		all_left(node, frame, done, spoilt);
		weft__route_landed(node, route);
		return;
	}
	weft__stranger_sent(node, frame);
	weft__sframe_give(node, frame, spoilt);
}
