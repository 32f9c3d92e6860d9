/* SPDX-License-Identifier: MIT */
/* Frames that arrive. Calls wire, session, life, message, stranger, peer. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "receive.h"

/* What every handler is given. */
struct arrival {
	struct weft__header header;
	struct weft__rframe *frame;
	const uint8_t *body;
	size_t len;
};

static void malformed(struct weft_node *node, struct weft__peer *peer, const char *what)
{
	node->stats.drop_malformed++;
	weft__life_fail(node, peer, WEFT_REASON_PROTOCOL, "a %s frame is malformed", what);
}

/*
 * Takes what the header of every frame says, and what follows from it. Returns false if that cannot
 * be. Whatever raises the number that is acknowledged has to come by here: it is said once.
 */
static bool take_header(struct weft_node *node, struct weft__peer *peer,
			const struct weft__header *header)
{
	uint32_t acked = peer->s.tx_acked;
	bool asked = peer->s.ping_ms != 0;
	if (!weft__session_header(&peer->s, &node->pool, header, node->now))
		return false;
	/* The timer stood at the time to give it up. */
	if (asked)
		weft__life_set_timer(node, peer);
	if (peer->s.tx_acked != acked)
		weft__message_acked(node, peer);
	if (!TAILQ_EMPTY(&peer->queue))
		weft__peer_mark_dirty(node, peer);
	return true;
}

static void take_accept(struct weft_node *node, struct weft__peer *peer, const struct arrival *a)
{
	struct weft__hello hello;
	struct weft__session *s = &peer->s;
	if (!weft__wire_get_hello(a->body, a->len, &hello)) {
		node->stats.drop_malformed++;
		return;
	}
	bool expected = s->state == WEFT__CONNECTING || hello.session == s->peer_id;
	if (!s->outgoing || hello.nonce != s->nonce || !expected) {
		node->stats.drop_state++;
		return;
	}
	if (s->state == WEFT__CONNECTING) {
		int reason = weft__session_hello(s, &hello, a->header.credit, node->frame_size,
						 node->features);
		if (reason) {
			peer->reason = WEFT_REASON_NONE;
			weft__life_fail(node, peer, (enum weft_reason)reason,
					"the answer cannot be used");
			return;
		}
		memcpy(peer->provider, hello.provider, sizeof(peer->provider));
	}
	if (take_header(node, peer, &a->header))
		weft__life_event(node, peer, WEFT__RX_ACCEPT);
	else
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"the answer acknowledges or returns what never was");
}

/* Takes over what the other side says of the end, unless this side has ended it. */
static void take_farewell(struct weft__peer *peer, const struct weft__farewell *farewell)
{
	if (peer->close_queued)
		return;
	/* A peer may say anything; nothing is no reason. */
	enum weft_reason reason =
		farewell->reason ? (enum weft_reason)farewell->reason : WEFT_REASON_CLOSED;
	peer->reason = WEFT_REASON_NONE;
	weft__life_reason(peer, reason, farewell->text_len ? "%s" : NULL, farewell->text);
	peer->by_peer = true;
	peer->code = farewell->code;
}

static void take_reject(struct weft_node *node, struct weft__peer *peer, const struct arrival *a)
{
	struct weft__farewell farewell;
	if (!weft__wire_get_reject(a->body, a->len, &farewell)) {
		node->stats.drop_malformed++;
		return;
	}
	bool connecting = peer->s.state == WEFT__CONNECTING;
	uint64_t quoted = connecting ? peer->s.nonce : peer->s.peer_id;
	if (farewell.quoted != quoted || (!connecting && farewell.reason != WEFT_REASON_UNKNOWN)) {
		node->stats.drop_state++;
		return;
	}
	take_farewell(peer, &farewell);
	peer->over_there = true;
	weft__life_event(node, peer, WEFT__RX_REJECT);
}

static void take_close(struct weft_node *node, struct weft__peer *peer, struct weft__rframe *frame)
{
	struct weft__farewell farewell;
	if (!weft__wire_get_close(frame->data + frame->body, frame->len - frame->body, &farewell)) {
		malformed(node, peer, "CLOSE");
		return;
	}
	take_farewell(peer, &farewell);
	peer->over_there = true;
	weft__life_event(node, peer, WEFT__RX_CLOSE);
}

/* Whether the next frame is an OFFER whose message is not whole. */
static bool waits_for_chunks(struct weft_node *node, const struct weft__peer *peer)
{
	const struct weft__rframe *frame = TAILQ_FIRST(&peer->early);
	return frame && frame->number == peer->s.rx_number + 1 && frame->type == WEFT__OFFER &&
	       !weft__bulk_ready(node, peer, frame);
}

/*
 * The peer has forgotten the session: the end, once all that it had sent is here. It has told its
 * user that a message which is not whole was not delivered.
 */
static void take_closed(struct weft_node *node, struct weft__peer *peer)
{
	if (!peer->s.closed_seen || (weft__after(peer->s.closed_number, peer->s.rx_number) &&
				     !waits_for_chunks(node, peer)))
		return;
	peer->s.closed_seen = false;
	peer->over_there = true;
	if (peer->s.state == WEFT__OPEN) {
		peer->reason = WEFT_REASON_CLOSED;
		peer->by_peer = true;
	}
	weft__life_event(node, peer, WEFT__RX_CLOSED);
}

static void take_offered(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__grab *grab = weft__bulk_take(peer);
	uint32_t id = grab->id;
	/* The sender has memory for it until it is acknowledged. While others arrive, the grants
	 * for them tell it. */
	if (TAILQ_EMPTY(&peer->grabs))
		weft__session_ack_now(&peer->s);
	if (!weft__message_offered(node, peer, grab))
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"message %u was offered after message %u", id, peer->rx_id);
}

/* A frame whose turn it is. */
static void run(struct weft_node *node, struct weft__peer *peer, struct weft__rframe *frame)
{
	weft__session_advance(&peer->s);
	if (frame->type == WEFT__CLOSE)
		take_close(node, peer, frame);
	else if (frame->type == WEFT__OFFER)
		take_offered(node, peer);
	else
		weft__message_deliver(node, peer, frame);
	if (peer->s.state != WEFT__GONE)
		take_closed(node, peer);
}

static bool may_run(struct weft_node *node, struct weft__peer *peer,
		    const struct weft__rframe *frame)
{
	if (frame->type == WEFT__OFFER)
		return weft__bulk_ready(node, peer, frame);
	return frame->type == WEFT__CLOSE || weft__in_admit(node, peer, frame);
}

void weft__receive_resume(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__rframe *frame;
	weft__bulk_look(node, peer);
	/* A session that has ended keeps none. */
	while ((frame = TAILQ_FIRST(&peer->early)) && frame->number == peer->s.rx_number + 1) {
		if (!may_run(node, peer, frame) || peer->s.state == WEFT__GONE)
			break;
		TAILQ_REMOVE(&peer->early, frame, link);
		weft__peer_mark_owing(node, peer);
		run(node, peer, frame);
		weft__rframe_unref(node, frame);
		weft__bulk_look(node, peer);
	}
	frame = TAILQ_FIRST(&peer->early);
	weft__session_gap(&peer->s, frame && frame->number != peer->s.rx_number + 1, node->now);
	weft__session_chunks(&peer->s, waits_for_chunks(node, peer), node->now);
	if (peer->s.state != WEFT__GONE)
		take_closed(node, peer);
	if (frame && peer->s.state != WEFT__GONE)
		weft__life_expect(node, peer);
}

static bool is_kept(const struct weft__peer *peer, uint32_t number)
{
	const struct weft__rframe *frame;
	TAILQ_FOREACH (frame, &peer->early, link) {
		if (frame->number == number)
			return true;
	}
	return false;
}

static void keep(struct weft__peer *peer, struct weft__rframe *frame)
{
	struct weft__rframe *after = TAILQ_LAST(&peer->early, weft__rframes);
	while (after && weft__after(after->number, frame->number))
		after = TAILQ_PREV(after, weft__rframes, link);
	frame->refs++;
	if (after)
		TAILQ_INSERT_AFTER(&peer->early, after, frame, link);
	else
		TAILQ_INSERT_HEAD(&peer->early, frame, link);
}

static void take_numbered(struct weft_node *node, struct weft__peer *peer, struct arrival *a)
{
	struct weft__rframe *frame = a->frame;
	bool costs = a->header.type != WEFT__CLOSE;
	unsigned actions = weft__life_event(node, peer, WEFT__RX_NUMBERED);
	if (!(actions & WEFT__DO_NUMBERED) || peer->s.state == WEFT__GONE)
		return;
	frame->type = a->header.type;
	frame->begun = false;
	frame->number = a->header.number;
	frame->body = (size_t)(a->body - frame->data);
	bool kept = is_kept(peer, frame->number);
	enum weft__turn turn =
		weft__session_number(&peer->s, &node->pool, frame->number, costs, kept);
	switch (turn) {
	case WEFT__IN_TURN:
	case WEFT__EARLY:
		frame->counted = costs;
		frame->peer = peer->handle;
		weft__peer_mark_owing(node, peer);
		if (turn == WEFT__IN_TURN && frame->type != WEFT__OFFER &&
		    may_run(node, peer, frame)) {
			if (peer->s.state != WEFT__GONE)
				run(node, peer, frame);
		} else if (peer->s.state != WEFT__GONE) {
			keep(peer, frame);
		}
		if (!TAILQ_EMPTY(&peer->early))
			weft__receive_resume(node, peer);
		break;
	case WEFT__REPEATED:
		node->stats.drop_duplicate++;
		break;
	case WEFT__FORBIDDEN:
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"frame %u was sent without credit", frame->number);
		break;
	}
}

static void take_ping(struct weft_node *node, struct weft__peer *peer, const struct arrival *a)
{
	struct weft__ping ping;
	if (weft__wire_get_ping(a->body, a->len, &ping))
		weft__life_event(node, peer, WEFT__RX_PING);
	else
		node->stats.drop_malformed++;
}

/*
 * Frames that are not numbered tell the last number sent. Where the frame that has it was lost,
 * nothing else shows it.
 */
static void miss_last(struct weft_node *node, struct weft__peer *peer,
		      const struct weft__header *header)
{
	bool numbered = header->type == WEFT__DATA || header->type == WEFT__OFFER ||
			header->type == WEFT__CLOSE;
	if (!numbered && TAILQ_EMPTY(&peer->early) &&
	    weft__after(header->number, peer->s.rx_number)) {
		weft__session_gap(&peer->s, true, node->now);
		weft__life_expect(node, peer);
	}
}

static void take_grant(struct weft_node *node, struct weft__peer *peer, const struct arrival *a)
{
	struct weft__grant grant;
	if (!weft__wire_get_grant(a->body, a->len, &grant))
		node->stats.drop_malformed++;
	else if (!(weft__life_event(node, peer, WEFT__RX_GRANT) & WEFT__DO_DROP))
		weft__bulk_granted(node, peer, &grant);
}

static void take_abort(struct weft_node *node, struct weft__peer *peer, const struct arrival *a)
{
	struct weft__abort abort;
	if (!weft__wire_get_abort(a->body, a->len, &abort) || abort.by_receiver)
		node->stats.drop_malformed++;
	else if (!(weft__life_event(node, peer, WEFT__RX_ABORT) & WEFT__DO_DROP))
		weft__bulk_aborted(node, peer, &abort);
}

/* A frame of a session that has been accepted, or is about to be. */
static void take(struct weft_node *node, struct weft__peer *peer, struct arrival *a)
{
	if (!take_header(node, peer, &a->header)) {
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"a frame acknowledges or returns what never was");
		return;
	}
	miss_last(node, peer, &a->header);
	switch (a->header.type) {
	case WEFT__DATA:
	case WEFT__OFFER:
	case WEFT__CLOSE:
		take_numbered(node, peer, a);
		break;
	case WEFT__CREDIT:
		weft__life_event(node, peer, WEFT__RX_CREDIT);
		break;
	case WEFT__PING:
		take_ping(node, peer, a);
		break;
	case WEFT__PONG:
		weft__life_event(node, peer, WEFT__RX_PONG);
		break;
	case WEFT__GRANT:
		take_grant(node, peer, a);
		break;
	case WEFT__ABORT:
		take_abort(node, peer, a);
		break;
	case WEFT__CLOSED:
		peer->s.closed_seen = true;
		peer->s.closed_number = a->header.number;
		take_closed(node, peer);
		break;
	default:
		node->stats.drop_state++;
		break;
	}
}

static void take_unknown(struct weft_node *node, const struct arrival *a, weft_dest source)
{
	struct weft__ping ping;
	node->stats.drop_unknown++;
	if (a->header.type == WEFT__PING && weft__wire_get_ping(a->body, a->len, &ping))
		weft__stranger_ping(node, a->header.session, &ping, source);
}

static void take_connect(struct weft_node *node, const struct arrival *a, weft_dest source)
{
	struct weft__hello hello;
	if (weft__wire_get_hello(a->body, a->len, &hello))
		weft__stranger_connect(node, &a->header, &hello, source);
	else
		node->stats.drop_malformed++;
}

/* Any frame but CONNECT and BUNDLE. */
static void take_known(struct weft_node *node, struct arrival *a, weft_dest source)
{
	struct weft__peer *peer = weft__peer_by_id(node, a->header.session);
	if (!peer)
		take_unknown(node, a, source);
	else if (source != WEFT_DEST_NONE && source != peer->dest)
		node->stats.drop_source++;
	else if (a->header.type == WEFT__ACCEPT)
		take_accept(node, peer, a);
	else if (a->header.type == WEFT__REJECT)
		take_reject(node, peer, a);
	else if (peer->s.state == WEFT__CONNECTING)
		node->stats.drop_state++;
	else
		take(node, peer, a);
}

/* Reads the header. Returns false if it is malformed. */
static bool open_frame(struct weft_node *node, struct weft__rframe *frame, struct arrival *a)
{
	size_t at = weft__wire_get_header(frame->data, frame->len, &a->header);
	if (at == 0)
		node->stats.drop_malformed++;
	a->frame = frame;
	a->body = frame->data + at;
	a->len = frame->len - at;
	return at > 0;
}

/* What a peer sends before it knows whether the other side takes bundles is never in one. */
static bool may_be_bundled(uint8_t type)
{
	return type != WEFT__CONNECT && type != WEFT__ACCEPT && type != WEFT__REJECT &&
	       type != WEFT__BUNDLE;
}

/* A message in the compact form, which stands for a DATA frame. */
static void open_compact(struct weft__rframe *frame, struct arrival *a)
{
	weft__wire_get_compact(frame->data, &a->header);
	frame->is_compact = true;
	a->frame = frame;
	a->body = frame->data + WEFT__COMPACT_LEN;
	a->len = frame->len - WEFT__COMPACT_LEN;
}

static void take_bundled(struct weft_node *node, struct weft__rframe *frame, bool is_compact,
			 weft_dest source)
{
	struct arrival a;
	node->stats.frames_received++;
	if (is_compact)
		open_compact(frame, &a);
	else if (!open_frame(node, frame, &a))
		return;
	if (may_be_bundled(a.header.type))
		take_known(node, &a, source);
	else
		node->stats.drop_malformed++;
}

/* A frame or a message of a bundle. */
static void take_part(struct weft_node *node, struct weft__rframe *bundle, enum weft__bundled kind,
		      const uint8_t *data, size_t len, weft_dest source)
{
	struct weft__rframe *view = weft__rframe_view(node, bundle, data, len);
	/* Its session will miss it, as any frame that is lost. */
	if (!view) {
		node->stats.recv_errors++;
		return;
	}
	take_bundled(node, view, kind == WEFT__BUNDLED_COMPACT, source);
	weft__rframe_unref(node, view);
}

static void take_bundle(struct weft_node *node, const struct arrival *bundle, weft_dest source)
{
	const uint8_t *data = NULL, *next_data = NULL;
	size_t at = 0, len = 0, next_len = 0;
	node->stats.bundles_received++;
	enum weft__bundled got =
		weft__wire_get_bundled(bundle->body, bundle->len, &at, &data, &len);
	while (got > 0) {
		enum weft__bundled next = weft__wire_get_bundled(bundle->body, bundle->len, &at,
								 &next_data, &next_len);
		if (next > 0)
			weft__peer_prefetch(node, weft__wire_peek_session(next_data));
		take_part(node, bundle->frame, got, data, len, source);
		got = next;
		data = next_data;
		len = next_len;
	}
	if (got == WEFT__BUNDLED_BAD)
		node->stats.drop_malformed++;
}

static void take_message(struct weft_node *node, struct weft__rframe *frame, weft_dest source)
{
	struct arrival a;
	bool good = open_frame(node, frame, &a);
	if (good && a.header.type == WEFT__BUNDLE) {
		take_bundle(node, &a, source);
		return;
	}
	node->stats.frames_received++;
	if (!good)
		return;
	if (a.header.type == WEFT__CONNECT)
		take_connect(node, &a, source);
	else
		take_known(node, &a, source);
}

void weft__receive(struct weft_net *net, const struct weft_done *done)
{
	struct weft__rframe *frame = done->user;
	struct weft_node *node = frame->node;
	(void)net;
	node->frames.posted--;
	frame->refs = 1;
	frame->counted = false;
	if (done->status == 0) {
		frame->len = done->len;
		node->now = weft__clock_coarse_ms();
		take_message(node, frame, done->source);
	} else if (done->status != -ECANCELED) {
		node->stats.recv_errors++;
	}
	weft__rframe_unref(node, frame);
}
