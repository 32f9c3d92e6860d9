/* SPDX-License-Identifier: MIT */
/* Frames that leave: in the order of their numbers, as credit allows, and what becomes of each. Calls bundle, frame,
 * session, wire, life, and layer 1. */
#ifndef WEFT_TRANSMIT_H
#define WEFT_TRANSMIT_H

#include <stdbool.h>

#include <weft/weft.h>

#include "wire.h"

struct weft__peer;
struct weft__sframe;

/* Sends what may be sent to a peer now: messages first, since they carry acknowledgement and credit too. */
void weft__transmit_flush(struct weft_node *node, struct weft__peer *peer);

/* Puts a numbered frame behind what waits to be sent. */
void weft__transmit_queue(struct weft__peer *peer, struct weft__sframe *frame, enum weft__frame_type type);

/* Gives the frames that wait to be sent, and the messages in them, the numbers that they will have. */
void weft__transmit_renumber(struct weft__peer *peer);

/* Drops the frames that wait to be sent; no other numbers are given to what follows. */
void weft__transmit_cancel(struct weft_node *node, struct weft__peer *peer);

/*
 * Fills the header of a frame of a session that is about to leave, which tells how things are now. last: it is
 * numbered, and no other one is behind it.
 */
void weft__transmit_header(struct weft_node *node, struct weft__peer *peer, struct weft__header *header,
			   enum weft__frame_type type, uint32_t number, bool last);

/*
 * Gives a frame, or a bundle of them, to the net. Returns 0 or a code; after one that weft__transmit_for_now() is true
 * of, it may be tried again.
 */
int weft__transmit_post(struct weft_node *node, weft_dest dest, struct weft__sframe *frame, int timeout_ms);
bool weft__transmit_for_now(int code);

/* The net refuses, for good, a frame of a session that counts as sent, or a bundle of such. */
void weft__transmit_refused(struct weft_node *node, struct weft__sframe *frame, int code);

/* Gives back a frame of a session that counts as sent. spoilt: see weft__sframe_give(). */
void weft__transmit_release(struct weft_node *node, struct weft__sframe *frame, bool spoilt);

/* Sends a small frame to a destination that is no session's. Returns 0 or a code. */
int weft__transmit_stranger(struct weft_node *node, struct weft__sframe *frame);

#endif
