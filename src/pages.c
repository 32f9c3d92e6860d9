/* SPDX-License-Identifier: MIT */
/* Memory for buffers. Calls the system only. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pages.h"

/*
 * Buffers from this length on are mapped, and their memory goes back to the system when they are
 * freed. Among the allocator's own they would leave holes that the next one, a little longer, does
 * not fit into, and a process with messages of all lengths would grow and grow.
 */
#define MAPPED_MIN ((size_t)128 * 1024)
/* Of x86-64, and of arm64 with pages of 4 KiB. Where they are longer, these are ordinary pages. */
#define HUGE_PAGE ((size_t)2 * 1024 * 1024)
/* No ordinary page is longer. */
#define PIECE ((size_t)64 * 1024)
/* So long that little of it is left over, whatever the length of what shares it. */
#define SHARED (WEFT__PIECES * PIECE)

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns 0 if there are not so many whole pages. */
static size_t in_pages(size_t size)
{
	size_t page = page_size();
	return size > SIZE_MAX - page ? 0 : (size + page - 1) / page * page;
}

static void *map(size_t len, int protection)
{
	/* For memory of no file the descriptor is to be -1. */
	/* cppcheck-suppress invalidFunctionArg */
	void *data = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return NULL;
	return data;
}

static void free_region(struct weft__region *region)
{
	if (region->owner)
		TAILQ_REMOVE(region->owner, region, link);
	munmap(region->map, region->map_len);
	free(region);
}

/*
 * Maps so many bytes from where a huge page may begin. Of what is mapped before and behind nothing
 * but addresses are used.
 */
static struct weft__region *new_region(size_t len)
{
	struct weft__region *region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->map_len = len + HUGE_PAGE;
	if (region->map_len > len)
		region->map = map(region->map_len, PROT_NONE);
	if (!region->map) {
		free(region);
		return NULL;
	}
	region->data = (uint8_t *)region->map + HUGE_PAGE - (uintptr_t)region->map % HUGE_PAGE;
	if (mprotect(region->data, len, PROT_READ | PROT_WRITE) < 0) {
		free_region(region);
		return NULL;
	}
	/* Where the system has none, these are ordinary pages. */
	(void)madvise(region->data, len, MADV_HUGEPAGE);
	return region;
}

/* Where so many pieces in a row are free: the number of the first, or WEFT__PIECES. */
static size_t find(const struct weft__region *region, size_t count)
{
	size_t run = 0;
	for (size_t i = 0; i < WEFT__PIECES; i++) {
		run = region->taken[i] ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return WEFT__PIECES;
}

static size_t pieces(size_t size)
{
	return (size + PIECE - 1) / PIECE;
}

/* A part of a region, of one that is there or of a new one. */
static void *share(struct weft__regions *regions, size_t size, struct weft__region **out)
{
	struct weft__region *region;
	size_t count = pieces(size), at = 0;
	TAILQ_FOREACH (region, regions, link) {
		at = find(region, count);
		if (at < WEFT__PIECES)
			break;
	}
	if (!region) {
		region = new_region(SHARED);
		if (!region)
			return NULL;
		region->owner = regions;
		TAILQ_INSERT_TAIL(regions, region, link);
		at = 0;
	}
	for (size_t i = 0; i < count; i++)
		region->taken[at + i] = true;
	region->buffers++;
	*out = region;
	return region->data + at * PIECE;
}

static void *take_whole(size_t size, struct weft__region **out)
{
	struct weft__region *region = new_region(size);
	if (!region)
		return NULL;
	region->buffers = 1;
	*out = region;
	return region->data;
}

void *weft__pages_alloc(struct weft__regions *regions, size_t size, struct weft__region **region)
{
	size_t room = in_pages(size);
	void *data = NULL;
	*region = NULL;
	if (room == 0)
		return NULL;
	if (room < MAPPED_MIN) {
		data = aligned_alloc(page_size(), room);
		if (data)
			memset(data, 0, room);
		return data;
	}
	if (regions)
		data = room < HUGE_PAGE ? share(regions, room, region) : take_whole(room, region);
	/* A region takes more addresses than the buffer does. */
	return data ? data : map(room, PROT_READ | PROT_WRITE);
}

void weft__pages_free(void *data, size_t size, struct weft__region *region)
{
	size_t room = in_pages(size);
	if (!region) {
		if (room < MAPPED_MIN)
			free(data);
		else
			munmap(data, room);
		return;
	}
	/* Zeroes for the next one, and no memory until then, even in a page that others use. */
	if (room < HUGE_PAGE && madvise(data, pieces(room) * PIECE, MADV_DONTNEED) < 0)
		memset(data, 0, room);
	if (region->owner) {
		size_t at = (size_t)((uint8_t *)data - region->data) / PIECE;
		for (size_t i = 0; i < pieces(room); i++)
			region->taken[at + i] = false;
	}
	if (atomic_fetch_sub(&region->buffers, 1) == 1)
		free_region(region);
}

void weft__regions_detach(struct weft__regions *regions)
{
	struct weft__region *region;
	while ((region = TAILQ_FIRST(regions))) {
		TAILQ_REMOVE(regions, region, link);
		region->owner = NULL;
	}
}
