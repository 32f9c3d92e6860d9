/* SPDX-License-Identifier: MIT */
/* Several frames in one libfabric message. Calls frame, transmit, wire. */
#include <errno.h>
#include <stdlib.h>

/* Adding to a table without memory leaves the element out; its handle is NULL then. */
#define HASH_NONFATAL_OOM 1
#include "bundle.h"
#include "nodeimpl.h"
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

void weft__route_leave(struct weft_node *node, struct weft__route *route)
{
	if (--route->sessions > 0)
		return;
	HASH_DELETE(by_dest, node->routes, route);
	free(route);
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

void weft__bundle_add(struct weft_node *node, struct weft__sframe *frame)
{
	struct weft__route *route = frame->route;
	if (!route->is_waiting)
		TAILQ_INSERT_TAIL(&node->routes_waiting, route, link);
	route->is_waiting = true;
	TAILQ_INSERT_TAIL(&route->waiting, frame, link);
}

static void leave_list(struct weft_node *node, struct weft__route *route)
{
	if (route->is_waiting)
		TAILQ_REMOVE(&node->routes_waiting, route, link);
	route->is_waiting = false;
}

/*
 * Whether one more waiting frame has room in a bundle of this length, which may be *max long. With
 * it, it may be no longer than its session allows: sessions of a process that was started again may
 * not allow the same.
 */
static bool has_room(const struct weft_node *node, size_t len, const struct weft__sframe *frame,
		     size_t *max)
{
	size_t theirs = frame->peer->s.max_frame;
	size_t most = theirs < node->frame_size ? theirs : node->frame_size;
	if (most > *max)
		most = *max;
	if (len + weft__bundled_room(frame->len) > most)
		return false;
	*max = most;
	return true;
}

/* Whether the first two of the waiting frames fit into one bundle. */
static bool two_fit(const struct weft_node *node, const struct weft__route *route)
{
	const struct weft__sframe *first = TAILQ_FIRST(&route->waiting);
	const struct weft__sframe *second = TAILQ_NEXT(first, link);
	size_t len = WEFT__HEADER_LEN, max = SIZE_MAX;
	return second && has_room(node, len, first, &max) &&
	       has_room(node, len + weft__bundled_room(first->len), second, &max);
}

/* Moves as many of the waiting frames as fit into a bundle. Returns NULL if fewer than two do, or
 * without memory. */
static struct weft__sframe *make(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *bundle =
		two_fit(node, route) ? weft__sframe_take(node, WEFT__LONG_FRAME) : NULL;
	struct weft__sframe *frame;
	size_t max = SIZE_MAX;
	if (!bundle)
		return NULL;
	struct weft__header header = {.version = WEFT__WIRE_VERSION, .type = WEFT__BUNDLE};
	bundle->len = weft__wire_put_header(bundle->data, &header);
	bundle->route = route;
	TAILQ_INIT(&bundle->bundled);
	while ((frame = TAILQ_FIRST(&route->waiting)) && has_room(node, bundle->len, frame, &max)) {
		weft__wire_put_bundled(bundle->data + bundle->len, frame->data, frame->len);
		bundle->len += weft__bundled_room(frame->len);
		TAILQ_REMOVE(&route->waiting, frame, link);
		TAILQ_INSERT_TAIL(&bundle->bundled, frame, link);
	}
	return bundle;
}

/* Takes what is to be sent next from those that wait: a bundle, or a frame by itself. */
static struct weft__sframe *take(struct weft_node *node, struct weft__route *route)
{
	struct weft__sframe *frame = make(node, route);
	if (!frame) {
		frame = TAILQ_FIRST(&route->waiting);
		TAILQ_REMOVE(&route->waiting, frame, link);
	}
	return frame;
}

/* A bundle has left, and nobody asks for the frames themselves any more. */
static void empty(struct weft_node *node, struct weft__sframe *bundle)
{
	struct weft__sframe *frame;
	TAILQ_FOREACH (frame, &bundle->bundled, link)
		weft__sframe_empty(node, frame);
}

/* The opposite: it waits again, at its place. */
static void put_back(struct weft_node *node, struct weft__sframe *frame)
{
	struct weft__route *route = frame->route;
	if (frame->peer) {
		TAILQ_INSERT_HEAD(&route->waiting, frame, link);
		return;
	}
	TAILQ_CONCAT(&frame->bundled, &route->waiting, link);
	TAILQ_CONCAT(&route->waiting, &frame->bundled, link);
	weft__sframe_give(node, frame, false);
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
			put_back(node, frame);
			break;
		}
		if (ret < 0) {
			code = ret;
			TAILQ_INSERT_TAIL(&refused, frame, link);
		} else if (!frame->peer) {
			node->stats.bundles_sent++;
			empty(node, frame);
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

void weft__bundle_forget(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__route *route = peer->route;
	struct weft__sframe *frame = TAILQ_FIRST(&route->waiting);
	while (frame) {
		struct weft__sframe *next = TAILQ_NEXT(frame, link);
		if (frame->peer == peer) {
			TAILQ_REMOVE(&route->waiting, frame, link);
			weft__transmit_release(node, frame, false);
		}
		frame = next;
	}
	if (TAILQ_EMPTY(&route->waiting))
		leave_list(node, route);
}

void weft__routes_free(struct weft_node *node)
{
	struct weft__route *route;
	while ((route = node->routes)) {
		struct weft__sframe *frame;
		while ((frame = TAILQ_FIRST(&route->waiting))) {
			TAILQ_REMOVE(&route->waiting, frame, link);
			weft__sframe_give(node, frame, false);
		}
		HASH_DELETE(by_dest, node->routes, route);
		free(route);
	}
}
