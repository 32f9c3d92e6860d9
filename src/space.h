/* SPDX-License-Identifier: MIT */
/*
 * Memory for frames to be sent, registered with the net and used again and again: long ones of a frame's full size, and
 * short ones, of which a page has eight. A short message in a page of its own would cost a place in the translation
 * buffer, and since all pages begin in the same sets of the cache, the messages of many sessions would drive each other
 * out of it. Calls the public functions of layer 1.
 */
#ifndef WEFT_SPACE_H
#define WEFT_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/net.h>

/* The length of a short one: any frame without messages, or some small ones. */
#define WEFT__SHORT_SPACE 512
#define WEFT__SHEET_SPACES 8

struct weft__space {
	struct weft_buf *buf;
	size_t off; /* where it lies in the buffer */
	uint8_t *data;
	struct weft__sheet *sheet; /* NULL: it is long, and the buffer its own */
	bool is_free; /* if it is short */
	LIST_ENTRY(weft__space) link; /* of the free ones */
	uint64_t *notes; /* of a long one: for whoever uses it; else NULL */
};

LIST_HEAD(weft__space_list, weft__space);

/* Short spaces of one buffer. */
struct weft__sheet {
	struct weft__space space[WEFT__SHEET_SPACES];
	unsigned used;
	bool spoilt; /* none of it is used again: it is given up when the last one in use is given back */
	LIST_ENTRY(weft__sheet) link;
};

struct weft__spaces {
	struct weft_net *net;
	size_t long_size;
	uint32_t notes; /* of each long one */
	struct weft__space_list long_free, short_free;
	LIST_HEAD(, weft__sheet) sheets; /* all */
	uint32_t long_count;
	uint32_t sheet_count;
	uint32_t sheets_kept; /* so many are kept for the next use, though all of it is free */
};

/* notes: how many each long one has. */
void weft__spaces_init(struct weft__spaces *spaces, struct weft_net *net, size_t long_size, uint32_t notes,
		       uint32_t sheets_kept);

/* Returns NULL without memory. */
struct weft__space *weft__space_take(struct weft__spaces *spaces, bool is_long);

/* Gives it back. spoilt: the provider may still read it, so that it is left to the provider's reference. */
void weft__space_give(struct weft__spaces *spaces, struct weft__space *space, bool spoilt);

/* Bytes of memory in all of them. */
size_t weft__spaces_memory(const struct weft__spaces *spaces);

/* Frees all that is not in use. */
void weft__spaces_free(struct weft__spaces *spaces);

#endif
