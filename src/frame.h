/* SPDX-License-Identifier: MIT */
/*
 * Frames in memory: those that wait for what peers send, and those to be sent. Their number is bounded by the node's
 * budgets, and none is allocated in the steady state. Calls the public functions of layer 1.
 */
#ifndef WEFT_FRAME_H
#define WEFT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "space.h"

struct weft__out;
struct weft__peer;
struct weft__route;

/* A frame that came, or waits to. It belongs to whoever has a reference; without any it goes back to be posted. */
struct weft__rframe {
	struct weft_node *node;
	struct weft_buf *buf;
	uint8_t *data;
	size_t len;
	unsigned refs;
	bool counted;   /* it costs its peer credit until it is free */
	weft_peer peer; /* whose */
	uint8_t type;   /* while it is kept for its turn */
	uint32_t number;
	size_t body;    /* where its contents begin */
	bool begun;     /* the message that it offers is being received */
	bool is_compact; /* it is a message of a bundle in the compact form */
	struct weft__rframe *bundle; /* it is a view of a part of this one, which it keeps a reference to */
	TAILQ_ENTRY(weft__rframe) link; /* of the free ones, or of those kept by a peer */
	SLIST_ENTRY(weft__rframe) all;
};

TAILQ_HEAD(weft__rframes, weft__rframe);

TAILQ_HEAD(weft__sframes, weft__sframe);

enum weft__sframe_kind {
	WEFT__CONTROL_FRAME, /* without messages: short, and in no budget */
	WEFT__MESSAGE_FRAME, /* for messages: short until weft__sframe_lengthen() */
	WEFT__LONG_FRAME,    /* for messages, or of several frames */
};

/* A frame to be sent. */
struct weft__sframe {
	struct weft_node *node;
	struct weft__peer *peer; /* NULL: to a stranger, or a bundle */
	struct weft__space *space; /* NULL: what was in it is in a bundle */
	uint8_t *data; /* of the space */
	size_t len;
	struct weft__route *route; /* NULL: to a stranger */
	TAILQ_ENTRY(weft__sframe) link;
	uint8_t type;
	bool counts;   /* in the send budgets */
	bool costs;    /* credit */
	uint32_t number;
	uint32_t last_id; /* of the messages in it */
	unsigned control; /* the WEFT__WANT_* that it answers */
	struct weft__out *out; /* it is the place of this big message in the queue, and not itself sent */
	weft_dest stranger;
	/* If it is a bundle: */
	struct weft__sframes bundled; /* the frames in it */
	size_t limit;      /* so long it may become */
	uint32_t serial;   /* of those of its route */
	uint32_t messages; /* in the compact form; the space's notes tell whose each is */
	uint32_t sealed;   /* the first ones of these, whose heads are complete */
	size_t sealed_at;  /* where those are over, in the contents */
};

struct weft__frames {
	/* To be received into. */
	struct weft__rframes free;
	struct weft__rframes views; /* free ones */
	SLIST_HEAD(, weft__rframe) all_views;
	uint32_t view_count; /* in all */
	SLIST_HEAD(, weft__rframe) all;
	uint32_t count;  /* in all */
	uint32_t posted; /* of these, given to the net */
	uint32_t posted_max; /* there never are more */
	/* To be sent. */
	struct weft__spaces spaces;
	struct weft__sframes spare; /* free ones, without a space */
	uint32_t sframe_count; /* in all */
	uint32_t counted;   /* those in use that count in the send budgets */
	uint32_t max;       /* so many there may be, */
	uint32_t max_peer;  /* and so many of one peer */
	uint32_t in_flight; /* of all kinds */
};

/* max and max_peer: the send budgets, in frames. */
void weft__frames_init(struct weft_node *node, uint32_t max, uint32_t max_peer);

/*
 * Posts as many receives as there should be, after whatever has given out credit. Returns 0, or why it could not; it is
 * tried again in the next turn.
 */
int weft__rframes_post(struct weft_node *node);

/* Drops a reference; with the last one the peer's credit is given back and the frame may be posted again. */
void weft__rframe_unref(struct weft_node *node, struct weft__rframe *frame);

/*
 * Makes a frame of a part of another one, which has arrived as a bundle, with one reference. Returns NULL without
 * memory.
 */
struct weft__rframe *weft__rframe_view(struct weft_node *node, struct weft__rframe *bundle, const uint8_t *data,
				       size_t len);

/* Takes an empty frame. Returns NULL where the budget or memory is used up. */
struct weft__sframe *weft__sframe_take(struct weft_node *node, enum weft__sframe_kind kind);

/* Makes sure that a frame has room for so many bytes, which fit into a long one. Returns false without memory. */
bool weft__sframe_lengthen(struct weft_node *node, struct weft__sframe *frame, size_t len);

/* What was in a frame has been copied: others may use its space. */
void weft__sframe_empty(struct weft_node *node, struct weft__sframe *frame);

/* Gives a frame back. spoilt: the provider may still read its memory, which is left to it. */
void weft__sframe_give(struct weft_node *node, struct weft__sframe *frame, bool spoilt);

/* Bytes of memory in frames. */
size_t weft__frames_memory(const struct weft_node *node);

/* Frees all, when the net is closed. */
void weft__frames_free(struct weft__frames *frames);

#endif
