/* SPDX-License-Identifier: MIT */
/*
 * Memory for buffers, in whole pages, so that nothing else lies in a page that a device may write to. Calls the system
 * only.
 *
 * Long buffers can have huge pages (Linux: Documentation/admin-guide/mm/transhuge.rst; asked for by madvise(2), since
 * most systems give them to nobody else). Where a message is copied out of another process's memory, the kernel looks
 * up and pins each page of it, and that takes longer than the copying: doc/performance.md has the figures.
 */
#ifndef WEFT_PAGES_H
#define WEFT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* A region that several buffers share has so many pieces of 64 KiB. */
#define WEFT__PIECES 128

/* One mapping of huge pages: of one long buffer, or in pieces of shorter ones. */
struct weft__region {
	TAILQ_ENTRY(weft__region) link; /* of those in pieces, while their owner is there */
	struct weft__regions *owner;    /* NULL: it takes no more buffers */
	void *map;                      /* of map_len bytes, data among them */
	size_t map_len;
	uint8_t *data;
	/* When the owner is gone, several threads may give theirs back. */
	_Atomic uint32_t buffers;
	bool taken[WEFT__PIECES]; /* while there is an owner */
};

TAILQ_HEAD(weft__regions, weft__region);

/*
 * Zeroed memory that begins with a page and has all of its last page. regions: where huge pages are shared; NULL for
 * ordinary pages. Returns NULL without memory. *region is to be given back with it.
 */
void *weft__pages_alloc(struct weft__regions *regions, size_t size, struct weft__region **region);
void weft__pages_free(void *data, size_t size, struct weft__region *region);

/* The regions will take no more buffers. Each is unmapped with its last one. */
void weft__regions_detach(struct weft__regions *regions);

#endif
