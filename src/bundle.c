/* SPDX-License-Identifier: MIT */
/* Several frames in one libfabric message. Calls frame, peer, transmit, life, session, wire. */
#include <errno.h>
#include <stdlib.h>

/* Adding to a table without memory leaves the element out; its handle is NULL then. */
#define HASH_NONFATAL_OOM 1
#include "bundle.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "transmit.h"

int weft__route_join(struct weft_node *node, weft_dest dest, struct weft__route **out)
{
	struct weft__route *route;
	HASH_FIND(by_dest, node->routes, &dest, sizeof(dest), route);
	if (!route) {
		route = calloc(1, sizeof(*route));
		if (!route)
			return -ENOMEM;
		route->dest = dest;
		TAILQ_INIT(&route->waiting);
		HASH_ADD(by_dest, node->routes, dest, sizeof(route->dest), route);
		if (!route->by_dest.tbl) {
			free(route);
			return -ENOMEM;
		}
	}
	route->sessions++;
	*out = route;
	return 0;
}

static void leave_list(struct weft_node *node, struct weft__route *route)
{
	if (route->is_waiting)
		TAILQ_REMOVE(&node->routes_waiting, route, link);
	route->is_waiting = false;
}

/* Frees what waits, as far as it belongs to no session any more. */
static void drop_waiting(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *frame, *one;
	while ((frame = TAILQ_FIRST(&route->waiting))) {
		TAILQ_REMOVE(&route->waiting, frame, link);
		while (!frame->peer && (one = TAILQ_FIRST(&frame->bundled))) {
			TAILQ_REMOVE(&frame->bundled, one, link);
			weft__sframe_give(node, one, false);
		}
		weft__sframe_give(node, frame, false);
	}
	leave_list(node, route);
}

static void free_unused(struct weft_node *node, struct weft__route *route)
{
	if (route->sessions > 0 || route->in_flight > 0)
		return;
	HASH_DELETE(by_dest, node->routes, route);
	free(route);
}

void weft__route_leave(struct weft_node *node, struct weft__route *route)
{
	if (--route->sessions > 0)
		return;
	drop_waiting(node, route);
	free_unused(node, route);
}

void weft__route_landed(struct weft_node *node, struct weft__route *route)
{
	route->in_flight--;
	free_unused(node, route);
}

/*
 * A session by itself puts its small messages into common frames, but each big one has an OFFER and
 * a GRANT of its own. A frame that is more than half as long as the longest would mostly be alone
 * all the same.
 */
bool weft__bundle_may(const struct weft__peer *peer, const struct weft__sframe *frame)
{
	bool together = peer->route->sessions > 1 || frame->type == WEFT__OFFER ||
			frame->type == WEFT__GRANT;
	return together && (peer->s.features & WEFT__FEATURE_BUNDLE) &&
	       (peer->s.state == WEFT__OPEN || peer->s.state == WEFT__CLOSING) &&
	       frame->type != WEFT__CONNECT && frame->type != WEFT__ACCEPT &&
	       frame->len <= peer->s.max_frame / 2;
}

static void wait(struct weft_node *node, struct weft__route *route, struct weft__sframe *frame)
{
	if (!route->is_waiting)
		TAILQ_INSERT_TAIL(&node->routes_waiting, route, link);
	route->is_waiting = true;
	TAILQ_INSERT_TAIL(&route->waiting, frame, link);
}

/*
 * Whether a session's part of so many bytes has room in a bundle of this length, which may be *max
 * long. With it, it may be no longer than the session allows: those of a process that was started
 * again may not allow the same.
 */
static bool has_room(const struct weft_node *node, const struct weft__peer *peer, size_t len,
		     size_t room, size_t *max)
{
	size_t theirs = peer->s.max_frame;
	size_t most = theirs < node->frame_size ? theirs : node->frame_size;
	if (most > *max)
		most = *max;
	if (len + room > most)
		return false;
	*max = most;
	return true;
}

/* Returns NULL without memory. */
static struct weft__sframe *begin(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *bundle = weft__sframe_take(node, WEFT__LONG_FRAME);
	if (!bundle)
		return NULL;
	struct weft__header header = {.version = WEFT__WIRE_VERSION, .type = WEFT__BUNDLE};
	bundle->len = weft__wire_put_header(bundle->data, &header);
	bundle->route = route;
	TAILQ_INIT(&bundle->bundled);
	bundle->limit = SIZE_MAX;
	bundle->serial = ++route->serial;
	bundle->messages = bundle->sealed = 0;
	bundle->sealed_at = 0;
	return bundle;
}

/* Puts a frame into a bundle, if it has room. */
static bool put_frame(struct weft_node *node, struct weft__sframe *bundle,
		      struct weft__sframe *frame)
{
	size_t room = weft__bundled_room(frame->len);
	if (!has_room(node, frame->peer, bundle->len, room, &bundle->limit))
		return false;
	weft__wire_put_bundled(bundle->data + bundle->len, frame->data, frame->len);
	bundle->len += room;
	weft__sframe_empty(node, frame);
	return true;
}

/* The last one of what waits, if it is a bundle. */
static struct weft__sframe *open_bundle(const struct weft__route *route)
{
	struct weft__sframe *last = TAILQ_LAST(&route->waiting, weft__sframes);
	return last && !last->peer ? last : NULL;
}

/* The first frame of a turn tells how it was in the last one. */
static void keep_turn(const struct weft_node *node, struct weft__route *route)
{
	if (route->turn == node->turns)
		return;
	route->turn = node->turns;
	route->is_busy = route->frames > 1;
	route->frames = 0;
}

void weft__bundle_add(struct weft_node *node, struct weft__sframe *frame)
{
	struct weft__sframe *bundle = open_bundle(frame->route);
	keep_turn(node, frame->route);
	frame->route->frames++;
	if (bundle && put_frame(node, bundle, frame))
		TAILQ_INSERT_TAIL(&bundle->bundled, frame, link);
	else
		wait(node, frame->route, frame);
}

/*
 * Completes the heads of the messages that were put straight into a bundle, up to one of the peer
 * `until`; with 0, which is no peer's handle, all.
 */
static void seal(struct weft_node *node, struct weft__sframe *bundle, weft_peer until)
{
	const uint8_t *contents = bundle->data + WEFT__HEADER_LEN, *found;
	size_t len;
	while (bundle->sealed < bundle->messages && bundle->space->notes[bundle->sealed] != until) {
		uint8_t *head = bundle->data + WEFT__HEADER_LEN + bundle->sealed_at;
		struct weft__header header;
		if (weft__wire_get_bundled(contents, bundle->len - WEFT__HEADER_LEN,
					   &bundle->sealed_at, &found,
					   &len) != WEFT__BUNDLED_COMPACT)
			continue;
		weft_peer handle = bundle->space->notes[bundle->sealed++];
		struct weft__peer *peer = weft__peer_find(node, handle);
		if (!peer || peer->s.state == WEFT__GONE)
			continue;
		weft__transmit_header(node, peer, &header, WEFT__DATA, 0,
				      TAILQ_EMPTY(&peer->queue));
		weft__wire_put_compact_news(head, &header);
		weft__peer_told(node, peer);
		peer->wanted &= ~(unsigned)WEFT__WANT_CREDIT;
	}
}

/*
 * Of a session that sends several in a turn, a frame holds them in less. Where a destination had a
 * single frame in the last turn, the long space of a bundle is not worth while.
 */
static bool may_be_compact(const struct weft_node *node, const struct weft__peer *peer,
			   const struct weft__sframe *bundle, size_t len)
{
	const uint32_t features = WEFT__FEATURE_BUNDLE | WEFT__FEATURE_COMPACT;
	const struct weft__route *route = peer->route;
	return route->sessions > 1 && (bundle || route->is_busy) &&
	       (peer->s.features & features) == features && TAILQ_EMPTY(&peer->queue) &&
	       peer->frames < node->frames.max_peer && !peer->has_several &&
	       !(bundle && peer->bundle == bundle->serial) &&
	       weft__compact_room(len) <= peer->s.max_frame / 2 &&
	       weft__session_may_send(&peer->s, true);
}

/* A bundle that waits, with room for so many bytes of a session: the one given, or another one. */
static struct weft__sframe *bundle_for(struct weft_node *node, struct weft__peer *peer,
				       struct weft__sframe *bundle, size_t room)
{
	struct weft__route *route = peer->route;
	if (bundle && bundle->messages < node->frames.spaces.notes &&
	    has_room(node, peer, bundle->len, room, &bundle->limit))
		return bundle;
	if (bundle)
		weft__bundle_flush(node, route);
	/* The net has no room for what waits, or the session is over. */
	if ((bundle && !TAILQ_EMPTY(&route->waiting)) || peer->s.state != WEFT__OPEN)
		return NULL;
	bundle = begin(node, route);
	if (!bundle)
		return NULL;
	if (!has_room(node, peer, bundle->len, room, &bundle->limit)) {
		weft__sframe_give(node, bundle, false);
		return NULL;
	}
	wait(node, route, bundle);
	return bundle;
}

uint8_t *weft__bundle_message(struct weft_node *node, struct weft__peer *peer, uint32_t reply_to,
			      size_t len)
{
	size_t room = weft__compact_room(len);
	struct weft__route *route = peer->route;
	struct weft__sframe *bundle = open_bundle(route);
	keep_turn(node, route);
	if (!may_be_compact(node, peer, bundle, len))
		return NULL;
	bundle = bundle_for(node, peer, bundle, room);
	if (!bundle)
		return NULL;
	/*
	 * What there is to tell of those before it is known by now, and still in the processor's
	 * cache; but of the peer whose message is being looked at, the credit is not free yet.
	 */
	seal(node, bundle, node->held.frame ? node->held.frame->peer : 0);
	struct weft__session *s = &peer->s;
	const struct weft__header header = {
		.session = s->peer_id,
		.number = s->tx_number + 1,
		.ack = s->rx_number,
		.credit = s->credit.granted,
		.returned = s->allowance.returned,
	};
	uint8_t *head = bundle->data + bundle->len;
	uint8_t *to = weft__wire_put_compact(head, (uint32_t)len, reply_to);
	weft__wire_put_compact_header(head, &header);
	bundle->space->notes[bundle->messages++] = peer->handle;
	bundle->len += room;
	route->frames++;
	peer->bundle = bundle->serial;
	s->tx_queued = header.number;
	weft__session_sent(s, header.number, true, node->now);
	weft__life_expect(node, peer);
	node->stats.frames_sent++;
	return to;
}

void weft__bundles_seal(struct weft_node *node)
{
	struct weft__route *route;
	TAILQ_FOREACH (route, &node->routes_waiting, link) {
		struct weft__sframe *bundle;
		TAILQ_FOREACH (bundle, &route->waiting, link) {
			if (!bundle->peer)
				seal(node, bundle, 0);
		}
	}
}

/* Whether the first two of the waiting frames fit into one bundle. */
static bool two_fit(const struct weft_node *node, const struct weft__route *route)
{
	const struct weft__sframe *first = TAILQ_FIRST(&route->waiting);
	const struct weft__sframe *second = TAILQ_NEXT(first, link);
	size_t len = WEFT__HEADER_LEN, max = SIZE_MAX;
	if (!second || !second->peer)
		return false;
	size_t room = weft__bundled_room(first->len);
	return has_room(node, first->peer, len, room, &max) &&
	       has_room(node, second->peer, len + room, weft__bundled_room(second->len), &max);
}

/* Moves as many of the waiting frames as fit into a bundle. Returns NULL if fewer than two do, or
 * without memory. */
static struct weft__sframe *make(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *bundle = two_fit(node, route) ? begin(node, route) : NULL;
	struct weft__sframe *frame;
	if (!bundle)
		return NULL;
	while ((frame = TAILQ_FIRST(&route->waiting)) && frame->peer &&
	       put_frame(node, bundle, frame)) {
		TAILQ_REMOVE(&route->waiting, frame, link);
		TAILQ_INSERT_TAIL(&bundle->bundled, frame, link);
	}
	return bundle;
}

/* Takes what is to be sent next from those that wait: a bundle, or a frame by itself. */
static struct weft__sframe *take(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *frame = TAILQ_FIRST(&route->waiting);
	struct weft__sframe *bundle = frame->peer ? make(node, route) : NULL;
	if (bundle)
		return bundle;
	TAILQ_REMOVE(&route->waiting, frame, link);
	if (!frame->peer)
		seal(node, frame, 0);
	return frame;
}

void weft__bundle_flush(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframes refused = TAILQ_HEAD_INITIALIZER(refused);
	struct weft__sframe *frame;
	int code = 0;
	while (!TAILQ_EMPTY(&route->waiting)) {
		frame = take(node, route);
		int ret = weft__transmit_post(node, route->dest, frame, -1);
		if (ret < 0 && weft__transmit_for_now(ret)) {
			TAILQ_INSERT_HEAD(&route->waiting, frame, link);
			break;
		}
		if (ret < 0) {
			code = ret;
			TAILQ_INSERT_TAIL(&refused, frame, link);
		} else if (!frame->peer) {
			node->stats.bundles_sent++;
		}
	}
	if (TAILQ_EMPTY(&route->waiting))
		leave_list(node, route);
	/* With its last session the route ends too. */
	while ((frame = TAILQ_FIRST(&refused))) {
		TAILQ_REMOVE(&refused, frame, link);
		weft__transmit_refused(node, frame, code);
	}
}

void weft__bundles_flush(struct weft_node *node)
{
	struct weft__route *route = TAILQ_FIRST(&node->routes_waiting);
	while (route) {
		struct weft__route *next = TAILQ_NEXT(route, link);
		weft__bundle_flush(node, route);
		route = next;
	}
}

/* Drops the frames of a peer from a list. */
static void forget(struct weft_node *node, struct weft__sframes *list,
		   const struct weft__peer *peer)
{
	struct weft__sframe *frame = TAILQ_FIRST(list);
	while (frame) {
		struct weft__sframe *next = TAILQ_NEXT(frame, link);
		if (!frame->peer) {
			forget(node, &frame->bundled, peer);
		} else if (frame->peer == peer) {
			TAILQ_REMOVE(list, frame, link);
			weft__transmit_release(node, frame, false);
		}
		frame = next;
	}
}

void weft__bundle_forget(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__route *route = peer->route;
	forget(node, &route->waiting, peer);
	if (TAILQ_EMPTY(&route->waiting))
		leave_list(node, route);
}

void weft__routes_free(struct weft_node *node)
{
	struct weft__route *route;
	while ((route = node->routes)) {
		drop_waiting(node, route);
		HASH_DELETE(by_dest, node->routes, route);
		free(route);
	}
}
