/* SPDX-License-Identifier: MIT */
/*
 * Bundles: frames of sessions between the same two nodes in one libfabric message, and messages of theirs that are in
 * no frame. Calls frame, peer, transmit, life, session, wire.
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

/* Messages in the compact form in one bundle at most; short frames may have room for fewer. */
#define WEFT__BUNDLE_MESSAGES 256u

/* What all sessions with one destination share. */
struct weft__route {
	weft_dest dest;
	uint32_t sessions;
	uint32_t in_flight; /* libfabric messages of theirs; while there are any, it stays without a session */
	uint32_t serial;    /* of the last bundle */
	uint32_t turn;      /* the last one with a frame to leave, of the node's turns */
	uint32_t frames;    /* that were to leave in it */
	bool is_busy;       /* in the one with any before it there were several */
	struct weft__sframes waiting; /* what leaves at the end of the turn: frames, and bundles, which have no peer */
	bool is_waiting;
	TAILQ_ENTRY(weft__route) link; /* of those with such frames */
	UT_hash_handle by_dest;
};

TAILQ_HEAD(weft__route_list, weft__route);

/* Counts one more session with a destination. Returns 0 or -ENOMEM. */
int weft__route_join(struct weft_node *node, weft_dest dest, struct weft__route **out);
void weft__route_leave(struct weft_node *node, struct weft__route *route);
/* One of its libfabric messages is with the net no more. */
void weft__route_landed(struct weft_node *node, struct weft__route *route);

/* Whether a frame of a session may leave together with those of others; then it goes by weft__bundle_add(). */
bool weft__bundle_may(const struct weft__peer *peer, const struct weft__sframe *frame);

/* Takes a frame, to leave with the next flush. The frame's end is as if the net had it already. */
void weft__bundle_add(struct weft_node *node, struct weft__sframe *frame);

/*
 * Puts the head of a message straight into a bundle, to leave with the next flush, and returns where its bytes go; the
 * message has the next number then. Returns NULL if it has to take its place in the queue: the peer has no credit, or
 * others before it, or one in the bundle already, or nobody to share with; or if the session has ended meanwhile.
 */
uint8_t *weft__bundle_message(struct weft_node *node, struct weft__peer *peer, uint32_t reply_to, size_t len);

/* Has the messages that were put straight into bundles tell how things are now. */
void weft__bundles_seal(struct weft_node *node);

/* Gives what waits to the net. What it has no room for now waits on. */
void weft__bundle_flush(struct weft_node *node, struct weft__route *route);
void weft__bundles_flush(struct weft_node *node);

/* Drops what waits of a peer that is gone. */
void weft__bundle_forget(struct weft_node *node, struct weft__peer *peer);

/* Frees all routes, when the net is closed. */
void weft__routes_free(struct weft_node *node);

#endif
