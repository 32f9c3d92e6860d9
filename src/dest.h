/* SPDX-License-Identifier: MIT */
/*
 * Destinations: the peers of a net, their handles, and their entries in libfabric's address vector. Calls op (to end
 * what is under way to a peer that is removed), addr and log.
 */
#ifndef WEFT_DEST_H
#define WEFT_DEST_H

#include <stdint.h>
#include <sys/queue.h>

#include <uthash.h>

#include <rdma/fabric.h>

#include <weft/net.h>

#include "op.h"

struct weft__dest {
	struct weft__queue queue; /* first: a queue that is not for receives is a destination's */
	fi_addr_t fi_addr; /* FI_ADDR_NOTAVAIL: not in the address vector yet */
	weft_dest handle;
	uint32_t index;
	size_t refs; /* 0: being removed, as soon as the provider has let go of its operations */
	/*
	 * Whether only its place in the address vector is left, and in which read of the completion queue that began.
	 * Completions that the provider has written name the place: it must not be another's before they are read.
	 */
	bool retiring;
	uint64_t retired_in;
	bool kept;  /* nobody uses it, but it is to be found as it is when it is added again */
	bool known; /* a message has passed, either way */
	TAILQ_ENTRY(weft__dest) link; /* of those retiring, or kept */
	struct weft_addr addr;
	UT_hash_handle by_addr; /* key: addr.raw; those being removed are not in it */
	UT_hash_handle by_fi_addr;
};

#define WEFT__RECENT 64

struct weft__dests {
	struct weft__dest **table; /* by index; NULL: free */
	uint32_t *generation;      /* by index, of the next handle */
	uint32_t size;
	uint32_t free_hint; /* no index below it is free */
	uint32_t count;
	struct weft__dest *by_addr;
	struct weft__dest *by_fi_addr;
	TAILQ_HEAD(weft__dest_list, weft__dest) retiring;
	struct weft__dest_list kept; /* the oldest first */
	uint32_t kept_count;
	size_t av_room; /* that the address vector takes, kept ones included; 0: no limit */
	uint64_t reads; /* of the completion queue, counted when they begin */
	struct weft__dest *recent[WEFT__RECENT]; /* by fi_addr modulo its size: a short cut to by_fi_addr */
};

/* The destination of a handle, or NULL if it is stale. */
static inline struct weft__dest *weft__dest_get(const struct weft__dests *dests, weft_dest handle)
{
	uint32_t index = (uint32_t)handle - 1;
	struct weft__dest *dest = index < dests->size ? dests->table[index] : NULL;
	return dest && dest->handle == handle && dest->refs > 0 ? dest : NULL;
}

/* The destination that has a place in the address vector, through the table; remembers it in `recent`. */
struct weft__dest *weft__dest_find(struct weft__dests *dests, fi_addr_t fi_addr);

/* The handle of a message's source, or WEFT_DEST_NONE if it is not a known peer. */
static inline weft_dest weft__dest_source(struct weft__dests *dests, fi_addr_t source)
{
	struct weft__dest *dest = dests->recent[source % WEFT__RECENT];
	if (!dest || dest->fi_addr != source)
		dest = weft__dest_find(dests, source);
	if (!dest)
		return WEFT_DEST_NONE;
	dest->known = true;
	return dest->refs > 0 ? dest->handle : WEFT_DEST_NONE;
}

/*
 * Puts a destination into the address vector, if it is not there. Returns 0, or -FI_EAGAIN while its endpoint is not
 * there or another one has to make room, or -EADDRNOTAVAIL, -ENOMEM.
 */
int weft__dest_insert(struct weft_net *net, struct weft__dest *dest);

/* An operation of the destination has been released: begins its removal, if that was waiting for it. */
void weft__dest_released(struct weft_net *net, struct weft__dest *dest);

/* The completion queue has been read empty: takes those out whose removal began before that read. */
void weft__dests_retire(struct weft_net *net);

void weft__dests_init(struct weft__dests *dests);

/* Frees all destinations, when the address vector is closed or about to be. */
void weft__dests_free(struct weft_net *net);

#endif
