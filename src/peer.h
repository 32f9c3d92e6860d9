/* SPDX-License-Identifier: MIT */
/*
 * Peers: the table of sessions, their handles, their place in the address vector, and the lists of those with something
 * to do at the end of a turn. Calls bundle, session, transmit, life and layer 1.
 */
#ifndef WEFT_PEER_H
#define WEFT_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "wire.h"

struct weft__peer;

/* The peer of a handle, or NULL if it is stale. */
struct weft__peer *weft__peer_find(const struct weft_node *node, weft_peer handle);
/* The peer whose frames bear this session id, or NULL. */
struct weft__peer *weft__peer_by_id(const struct weft_node *node, uint64_t id);

/* Has the processor fetch what the next frame with this session id will touch. */
void weft__peer_prefetch(const struct weft_node *node, uint64_t id);

/* Makes a peer for an address; the session is not begun. Returns 0 or a code as weft_peer_connect(). */
int weft__peer_make(struct weft_node *node, const struct weft_addr *addr, struct weft__peer **out);

/* The id for its session, by which it is found from the session's beginning to its end. */
uint64_t weft__peer_new_id(const struct weft__peer *peer, uint64_t random);

/* Frees a peer that is gone, told and without operations; otherwise does nothing. */
void weft__peer_reap(struct weft_node *node, struct weft__peer *peer);

/* Gives up what the net still has for a peer that is gone, and frees it as soon as that has come back. */
void weft__peer_abandon(struct weft_node *node, struct weft__peer *peer);

/* What a peer says of itself. */
void weft__peer_tell(const struct weft_node *node, const struct weft__hello *hello, struct weft_peer_info *info);

/* Something may be sent to it at the end of the turn. */
void weft__peer_mark_dirty(struct weft_node *node, struct weft__peer *peer);
/* Acknowledgement or credit may be due to it at the end of the turn. */
void weft__peer_mark_owing(struct weft_node *node, struct weft__peer *peer);
/* What is due has been told, or will never be. */
void weft__peer_told(struct weft_node *node, struct weft__peer *peer);

/* A frame of a peer that may be gone is free again. */
void weft__peer_freed(struct weft_node *node, weft_peer handle);

/* Sends to all peers that have something to be sent. */
void weft__peers_flush(struct weft_node *node);
/* Sends the acknowledgements and credit that are due now. */
void weft__peers_settle(struct weft_node *node);
/* Returns limit_ms, or the milliseconds until the first of those are due that can wait, if that is less. */
int weft__peers_owed(const struct weft_node *node, int limit_ms);
/* Tells the callers that were answered by -ENOBUFS when there is room again. */
void weft__peers_unblock(struct weft_node *node);

/* Frees all peers, when the net is closed. */
void weft__peers_free(struct weft_node *node);

#endif
