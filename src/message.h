/* SPDX-License-Identifier: MIT */
/*
 * Messages: into frames on one side, out of them on the other, and the end of each for whoever waits for it.
 * Calls bundle, frame, peer, transmit, wire.
 */
#ifndef WEFT_MESSAGE_H
#define WEFT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "deadline.h"

struct weft__block;
struct weft__grab;
struct weft__out;
struct weft__peer;
struct weft__rframe;

/* A message whose end somebody waits for. */
struct weft__slot {
	struct weft__peer *peer;
	uint32_t number; /* of its frame */
	uint32_t id;
	bool acked; /* it is among those that expect an answer */
	bool timed;
	int timeout_ms;
	struct weft__out *out; /* the big message, while a part of it waits to be sent */
	weft_sent_fn *sent; /* NULL once it has run */
	weft_reply_fn *reply;
	void *user;
	struct weft__deadline deadline;
	TAILQ_ENTRY(weft__slot) link;
};

TAILQ_HEAD(weft__slots, weft__slot);

struct weft__slot_pool {
	struct weft__slots free;
	SLIST_HEAD(, weft__slot_chunk) chunks;
	uint32_t allocated, used, max;
};

/* A message beyond its callback. */
struct weft__held {
	struct weft_msg msg; /* first: what the caller has */
	struct weft_node *node; /* NULL: it is closed */
	struct weft__rframe *frame; /* what it lies in: this, */
	struct weft__block *block;  /* or this */
	struct weft_buf *buf; /* a reference of its own, for when the node is closed */
	LIST_ENTRY(weft__held) link;
};

LIST_HEAD(weft__held_list, weft__held);

struct weft__helds {
	struct weft__held_list list;
	uint32_t count;
	/* The message that a callback is looking at, and what it lies in. */
	const struct weft_msg *showing;
	struct weft__rframe *frame;
	struct weft__block *block;
	bool together; /* the message in `frame` has come with others */
};

void weft__slots_init(struct weft__slot_pool *pool, uint32_t max);
void weft__slots_free(struct weft__slot_pool *pool);

/* Delivers the messages of a DATA frame, whose turn it is. */
void weft__message_deliver(struct weft_node *node, struct weft__peer *peer, struct weft__rframe *frame);

/*
 * Delivers a big message that has come in chunks, whose turn it is, and frees what was kept of it. Returns false if it
 * has no place in the order.
 */
bool weft__message_offered(struct weft_node *node, struct weft__peer *peer, struct weft__grab *grab);

/* The peer has acknowledged: tells those who wait. */
void weft__message_acked(struct weft_node *node, struct weft__peer *peer);

/* Ends every message of a peer with a code. */
void weft__message_end_all(struct weft_node *node, struct weft__peer *peer, int status);

/* A part of a big message has left: its deadline begins anew. */
void weft__slot_progress(struct weft_node *node, struct weft__slot *slot);

/* Copies the bytes of a message together. */
void weft__send_copy(uint8_t *to, const struct weft_send *send);

/* Ends the messages whose deadline has passed. */
void weft__message_expire(struct weft_node *node);

/* The node is closed: what is held stays readable. */
void weft__held_detach(struct weft_node *node);

#endif
