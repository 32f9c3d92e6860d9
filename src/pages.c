/* SPDX-License-Identifier: MIT */
/* Memory for buffers. Calls the system only. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pages.h"

/*
 * Buffers from this length on are mapped by themselves, and go back to the system when they are
 * freed. Among the allocator's own they would leave holes that the next one, a little longer, does
 * not fit into, and a process with messages of all lengths would grow and grow.
 */
#define MAPPED_MIN ((size_t)128 * 1024)
/* Of x86-64, and of arm64 with pages of 4 KiB. Where they are longer, these are ordinary pages. */
#define HUGE_PAGE ((size_t)2 * 1024 * 1024)
/* A huge page has 32 of them; no ordinary page is longer. */
#define PIECE (HUGE_PAGE / 32)

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

static void *map(size_t len)
{
	/* For memory of no file the descriptor is to be -1. */
	/* cppcheck-suppress invalidFunctionArg */
	void *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return data == MAP_FAILED ? NULL : data;
}

/* Maps so many bytes from where a huge page may begin. What is mapped before and behind is never
 * touched. */
static struct weft__region *new_region(size_t len)
{
	struct weft__region *region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->map_len = len + HUGE_PAGE;
	if (region->map_len > len)
		region->map = map(region->map_len);
	if (!region->map) {
		free(region);
		return NULL;
	}
	region->data = (uint8_t *)region->map + HUGE_PAGE - (uintptr_t)region->map % HUGE_PAGE;
	/* Where the system has none, these are ordinary pages. */
	(void)madvise(region->data, len, MADV_HUGEPAGE);
	return region;
}

static void free_region(struct weft__region *region)
{
	if (region->owner)
		TAILQ_REMOVE(region->owner, region, link);
	munmap(region->map, region->map_len);
	free(region);
}

static uint32_t pieces(size_t size, unsigned at)
{
	size_t count = (size + PIECE - 1) / PIECE;
	return (uint32_t)((((uint64_t)1 << count) - 1) << at);
}

/* Where so many bytes are free: the number of a piece, or -1. */
static int find(const struct weft__region *region, size_t size)
{
	for (unsigned at = 0; at * PIECE + size <= HUGE_PAGE; at++) {
		if (!(region->used & pieces(size, at)))
			return (int)at;
	}
	return -1;
}

/* A part of a huge page, of one that is there or of a new one. */
static void *take_pieces(struct weft__regions *regions, size_t size, struct weft__region **out)
{
	struct weft__region *region;
	int at = -1;
	TAILQ_FOREACH (region, regions, link) {
		at = find(region, size);
		if (at >= 0)
			break;
	}
	if (!region) {
		region = new_region(HUGE_PAGE);
		if (!region)
			return NULL;
		region->owner = regions;
		TAILQ_INSERT_TAIL(regions, region, link);
		at = 0;
	}
	uint32_t mine = pieces(size, (unsigned)at);
	uint8_t *data = region->data + (size_t)at * PIECE;
	/* Another's message may be in it. */
	if (region->touched & mine)
		memset(data, 0, size);
	region->used |= mine;
	region->touched |= mine;
	*out = region;
	return data;
}

static void *take_whole(size_t size, struct weft__region **out)
{
	struct weft__region *region = new_region(size);
	if (!region)
		return NULL;
	region->used = 1;
	*out = region;
	return region->data;
}

void *weft__pages_alloc(struct weft__regions *regions, size_t size, struct weft__region **region)
{
	size_t room = in_pages(size);
	void *data;
	*region = NULL;
	if (room == 0)
		return NULL;
	if (room < MAPPED_MIN) {
		data = aligned_alloc(page_size(), room);
		if (data)
			memset(data, 0, room);
		return data;
	}
	if (!regions)
		return map(room);
	return room < HUGE_PAGE ? take_pieces(regions, room, region) : take_whole(room, region);
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
	uint32_t mine = 1;
	if (room < HUGE_PAGE)
		mine = pieces(room, (unsigned)((size_t)((uint8_t *)data - region->data) / PIECE));
	if ((atomic_fetch_and(&region->used, ~mine) & ~mine) == 0)
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
