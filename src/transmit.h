/* SPDX-License-Identifier: MIT */
/* Frames that leave: in the order of their numbers, as credit allows, and what becomes of each. Calls frame, session,
 * wire, life, and layer 1. */
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

/* Sends a small frame to a destination that is no session's. Returns 0 or a code. */
int weft__transmit_stranger(struct weft_node *node, struct weft__sframe *frame);

#endif
