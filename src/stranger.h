/* SPDX-License-Identifier: MIT */
/*
 * Strangers: what is said to and kept of those who have proven nothing. All of it is bounded: CONNECTs looked at a
 * second, half-open sessions, answers under way. Calls peer, transmit, wire.
 */
#ifndef WEFT_STRANGER_H
#define WEFT_STRANGER_H

#include <stdint.h>

#include <weft/weft.h>

#include "wire.h"

struct weft__sframe;

/* So many a second, and as many at once. */
struct weft__rate {
	int64_t filled_ms;
	uint32_t tokens, per_second;
};

struct weft__strangers {
	struct weft__rate connects, answers;
	uint32_t half_open;
	uint32_t answering; /* refusals under way */
	int64_t usual_ms;   /* CONNECT to the first frame: a longer time counts at once, a shorter one by and by */
};

void weft__strangers_init(struct weft__strangers *strangers, unsigned connects, int64_t now);

/* A CONNECT has come; source is WEFT_DEST_NONE where it is not known. */
void weft__stranger_connect(struct weft_node *node, const struct weft__header *header, const struct weft__hello *hello,
			    weft_dest source);

/* A PING has come for a session that is not known. */
void weft__stranger_ping(struct weft_node *node, uint64_t session, const struct weft__ping *ping, weft_dest source);

/* A half-open session has shown itself, so long after its CONNECT. */
void weft__stranger_opened(struct weft_node *node, int64_t took_ms);

/* A refusal has left. */
void weft__stranger_sent(struct weft_node *node, struct weft__sframe *frame);

#endif
