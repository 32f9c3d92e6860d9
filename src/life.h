/* SPDX-License-Identifier: MIT */
/*
 * The life of a peer: does what the table of states asks for, runs the timers, and brings a session to its end. Calls
 * session, transmit, message, peer.
 */
#ifndef WEFT_LIFE_H
#define WEFT_LIFE_H

#include <stdbool.h>

#include <weft/weft.h>

#include "session.h"

struct weft__peer;

/* Gives an event to the session and does what it asks for. Returns its actions. */
unsigned weft__life_event(struct weft_node *node, struct weft__peer *peer, enum weft__event event);

/* Remembers why a session is about to end; the first reason counts. format may be NULL. */
__attribute__((format(printf, 3, 4))) void weft__life_reason(struct weft__peer *peer, enum weft_reason reason,
							     const char *format, ...);

/* Ends a session for a reason of this side's. Does nothing if it is gone already. */
__attribute__((format(printf, 4, 5))) void weft__life_fail(struct weft_node *node, struct weft__peer *peer,
							   enum weft_reason reason, const char *format, ...);

/* Sets the timer of a peer by what its session waits for. */
void weft__life_set_timer(struct weft_node *node, struct weft__peer *peer);

/* Frames have been sent or came early: makes sure that what they wait for is looked at before long. */
void weft__life_expect(struct weft_node *node, struct weft__peer *peer);

/* Runs the timers that are due. empty: all that had arrived has been dealt with. */
void weft__life_tick(struct weft_node *node, bool empty);

/* Tells the callers of the sessions that have ended. */
void weft__life_tell_endings(struct weft_node *node);

/* Begins to close a session. */
void weft__life_close(struct weft_node *node, struct weft__peer *peer, enum weft_reason reason, int linger_ms);

#endif
