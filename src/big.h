/* SPDX-License-Identifier: MIT */
/*
 * Messages longer than a frame: their memory, within the node's message_budget, and their way through frames. Calls
 * frame, session, transmit, wire, and layer 1.
 *
 * A message is reserved as a whole before the first byte of it is taken, so that two half-received ones can never wait
 * for each other's memory. Copies of messages that are to leave take half of the budget at most, so that two nodes
 * whose messages wait for each other's memory cannot come to a stop: there is always some for what arrives.
 */
#ifndef WEFT_BIG_H
#define WEFT_BIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "wire.h"

struct weft__peer;
struct weft__rframe;
struct weft__sframe;
struct weft__slot;

/* The memory of a big message. It belongs to whoever has a reference. */
struct weft__block {
	struct weft_node *node; /* NULL: it is closed */
	struct weft_buf *buf;
	size_t off;    /* where in buf the message lies; 0 but in memory of the caller's */
	size_t size;   /* counted in the budget; 0 where the memory is the caller's */
	bool copy;     /* of a message that leaves */
	unsigned refs;
	bool spoilt;   /* the provider may still read or write it: it is not for another message */
	TAILQ_ENTRY(weft__block) link; /* of all, or of those kept for the next use */
};

TAILQ_HEAD(weft__block_list, weft__block);

struct weft__blocks {
	struct weft__block_list used, kept;
	size_t bytes;      /* of the used ones */
	size_t copies;     /* of these, of messages that leave */
	size_t kept_bytes;
	bool freed;        /* memory has become free since those who wait for it were last asked */
	bool retrying;     /* they are being asked */
};

/* A big message that arrives. */
struct weft__in {
	struct weft__block *block;
	size_t len, got;
	uint32_t id, reply_to;
};

/* One that leaves. */
struct weft__out {
	struct weft_buf *buf;      /* a reference, to the caller's buffer or to the block's */
	struct weft__block *block; /* NULL: the buffer is the caller's */
	size_t off, len, sent;
	uint32_t id, reply_to;
	bool given_up;             /* its deadline has passed: the rest is not sent */
	struct weft__slot *slot;   /* whoever waits for its end; NULL: nobody */
	/* In chunks, once it is offered; see bulk.h. */
	bool in_parts;             /* never in chunks */
	struct weft_node *node;
	struct weft__peer *peer;
	bool offered, over, abort_due;
	uint32_t number;           /* of its OFFER */
	uint32_t next, granted, flying, chunk;
	uint64_t tag;
	TAILQ_ENTRY(weft__out) link;
};

void weft__blocks_init(struct weft__blocks *blocks);
/* Gives back what is kept, before the net is closed. What is held by the caller stays readable. */
void weft__blocks_detach(struct weft_node *node);
void weft__block_unref(struct weft__block *block);

/*
 * Prepares for the contents of a DATA frame whose turn it is. Returns false where the frame has to wait for memory: it
 * is tried again when some is free. May end the session.
 */
bool weft__in_admit(struct weft_node *node, struct weft__peer *peer, const struct weft__rframe *frame);

/*
 * Memory for a message that arrives: of the caller's, or within the budget. Returns false where the peer has to wait
 * for it, or has been ended.
 */
bool weft__block_reserve(struct weft_node *node, struct weft__peer *peer, uint64_t len, uint32_t reply_to,
			 struct weft__block **out);

/* Whether a DATA frame begins, or goes on with, a message in parts. */
bool weft__part_is(const struct weft__rframe *frame);

/*
 * Takes a part of a big message. Returns 1 when the message is whole, 0 when more is to come or it was given up, -1
 * where the part does not fit to what came before.
 */
int weft__in_take(struct weft__peer *peer, const struct weft__record *record);

/* The message that was arriving is dealt with, or will never be whole. */
void weft__in_end(struct weft__peer *peer);

/* Queues a big message. Returns 0 or a code as weft_peer_send(). */
int weft__out_queue(struct weft_node *node, struct weft__peer *peer, const struct weft_send *send, size_t len,
		    struct weft__out **result);

/* Whether there is memory for a copy of so many bytes, or never will be. */
bool weft__out_has_room(const struct weft_node *node, size_t len);

/* How many frames it still takes. */
uint32_t weft__out_frames(const struct weft__peer *peer, const struct weft__out *out);

/* Fills a frame with the next part. Returns whether it was the last one. */
bool weft__out_fill(const struct weft__peer *peer, struct weft__out *out, struct weft__sframe *frame);

/* Somebody no longer waits for it: the rest is not sent. */
void weft__out_give_up(struct weft_node *node, struct weft__peer *peer, struct weft__out *out);

void weft__out_free(struct weft__out *out);

/* Tries again with those that had to wait for memory. */
void weft__in_retry(struct weft_node *node);

#endif
