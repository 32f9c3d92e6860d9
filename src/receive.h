/* SPDX-License-Identifier: MIT */
/* Frames that arrive: which session, which event, in which order. Calls session, life, message, stranger, wire. */
#ifndef WEFT_RECEIVE_H
#define WEFT_RECEIVE_H

#include <weft/weft.h>

struct weft__peer;

/* The end of a posted receive, whose user is a struct weft__rframe. */
weft_done_fn weft__receive;

/* Goes on with the frames of a peer that had to wait for memory. */
void weft__receive_resume(struct weft_node *node, struct weft__peer *peer);

#endif
