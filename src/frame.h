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
	struct weft__rframe *bundle; /* it is a view of a part of this one, which it keeps a reference to */
	TAILQ_ENTRY(weft__rframe) link; /* of the free ones, or of those kept by a peer */
	SLIST_ENTRY(weft__rframe) all;
};

TAILQ_HEAD(weft__rframes, weft__rframe);

TAILQ_HEAD(weft__sframes, weft__sframe);

/* A frame to be sent. */
struct weft__sframe {
	struct weft_node *node;
	struct weft__peer *peer; /* NULL: to a stranger, or a bundle */
	weft_dest stranger;
	struct weft_buf *buf;
	uint8_t *data;
	size_t len;
	uint8_t type;
	bool small;    /* of the pool for control frames */
	bool costs;    /* credit, and room in the send budget */
	uint32_t number;
	uint32_t last_id; /* of the messages in it */
	unsigned control; /* the WEFT__WANT_* that it answers */
	struct weft__out *out; /* it is the place of this big message in the queue, and not itself sent */
	struct weft__route *route;    /* NULL: to a stranger */
	struct weft__sframes bundled; /* the frames in it, if it is a bundle */
	TAILQ_ENTRY(weft__sframe) link;
};

/* Control frames are at most so long. */
#define WEFT__SMALL_FRAME 512

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
	struct weft__sframes big, small; /* free ones */
	uint32_t big_count, small_count; /* in all */
	uint32_t big_used;
	uint32_t big_max;
	uint32_t big_max_peer; /* of one peer */
	uint32_t in_flight;    /* of both kinds */
};

void weft__frames_init(struct weft__frames *frames);

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

/* Takes a free frame for messages, or a small one. Returns NULL where the budget or memory is used up. */
struct weft__sframe *weft__sframe_take(struct weft_node *node, bool small);

/* Gives a frame back. spoilt: the provider may still read its memory, which is left to it. */
void weft__sframe_give(struct weft_node *node, struct weft__sframe *frame, bool spoilt);

/* Bytes of memory in frames. */
size_t weft__frames_memory(const struct weft_node *node);

/* Frees all, when the net is closed. */
void weft__frames_free(struct weft__frames *frames);

#endif
