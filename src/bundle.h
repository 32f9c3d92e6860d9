/* SPDX-License-Identifier: MIT */
/*
 * Bundles: frames of sessions between the same two nodes in one libfabric message. Calls frame, transmit, wire.
 */
#ifndef WEFT_BUNDLE_H
#define WEFT_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uthash.h>

#include <weft/weft.h>

#include "frame.h"

struct weft__peer;

/* What all sessions with one destination share. */
struct weft__route {
	weft_dest dest;
	uint32_t sessions;
	uint32_t in_flight; /* libfabric messages of theirs */
	struct weft__sframes waiting; /* frames that leave at the end of the turn, as few messages */
	bool is_waiting;
	TAILQ_ENTRY(weft__route) link; /* of those with such frames */
	UT_hash_handle by_dest;
};

TAILQ_HEAD(weft__route_list, weft__route);

/* Counts one more session with a destination. Returns 0 or -ENOMEM. */
int weft__route_join(struct weft_node *node, weft_dest dest, struct weft__route **out);
void weft__route_leave(struct weft_node *node, struct weft__route *route);

/* Whether a frame of a session may leave together with those of others; then it goes by weft__bundle_add(). */
bool weft__bundle_may(const struct weft__peer *peer, const struct weft__sframe *frame);

/* Takes a frame, to leave with the next flush. The frame's end is as if the net had it already. */
void weft__bundle_add(struct weft_node *node, struct weft__sframe *frame);

/* Gives what waits to the net. What it has no room for now waits on. */
void weft__bundle_flush(struct weft_node *node, struct weft__route *route);
void weft__bundles_flush(struct weft_node *node);

/* Drops what waits of a peer that is gone. */
void weft__bundle_forget(struct weft_node *node, struct weft__peer *peer);

/* Frees all routes, when the net is closed. */
void weft__routes_free(struct weft_node *node);

#endif
