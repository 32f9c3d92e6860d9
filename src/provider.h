/* SPDX-License-Identifier: MIT */
/*
 * What weft knows about libfabric's providers: one row a provider and range of versions. All that is done differently
 * for a provider hangs on a field here; doc/providers.md says how each was seen. Calls nothing.
 */
#ifndef WEFT_PROVIDER_H
#define WEFT_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

enum weft__rank {
	WEFT__RANK_ASKED = 0, /* used only when asked for by name */
	WEFT__RANK_TCP = 1,
	WEFT__RANK_RDMA = 2,
	WEFT__RANK_EFA = 3,
};

/* A message of this size is sent at once by every provider that is not in the table with another one. */
#define WEFT__FRAME_SIZE 8192

struct weft__quirks {
	const char *provider;    /* libfabric's full provider name */
	uint32_t from, below;    /* versions of libfabric for which the row holds; 0: no bound */
	enum weft_scheme scheme; /* of its addresses; WEFT_SCHEME_RAW: by its addr_format */
	enum weft__rank rank;
	bool rdma;               /* a real RDMA device carries the bytes */
	bool shm_names;          /* addresses are names in /dev/shm: ours to choose, to clean up, and to look for */
	bool fd_per_peer;        /* every peer costs a file descriptor */
	bool stale_source;       /* a message may be told as from somebody else: sources cannot be used */
	bool maps_peers;         /* reads the memory of a peer that is not in the vector any more, if it still sends */
	bool counts_messages;    /* both ends count messages, from when the other's address was put into the vector */
	bool aborts_untold;      /* ends the process over its own errors where no event queue takes them */
	bool repeats_ends;       /* the end of an operation may be told again, when its slot is another one's */
	bool close_blocks;       /* closing the endpoint loops for ever while sends to a silent peer are queued */
	size_t max_peers;        /* 0: no limit of the provider's */
	size_t frame_size;       /* the longest message that needs no rendezvous; 0: WEFT__FRAME_SIZE */
	uint32_t chunk_size;     /* of long messages; 0: what bulk.c takes as a rule */
	uint32_t chunks_at_once; /* that arrive from one peer; 0: what bulk.c takes as a rule */
	/* writes to the memory of a long message after its receive has failed, when more of it comes all the same */
	bool writes_late;
	bool stuck_answers;      /* an answer that never comes keeps those that come after it from being read */
	bool huge_pages;         /* long messages are copied out of the sender's memory page by page */
	bool slow_tags;          /* tagged messages longer than a packet come through at a crawl */
	const char *fabric;      /* the one fabric of this provider that weft uses; NULL: any */
	const char *caveat;      /* what is not promised on it; NULL: nothing */
};

/* The row for a provider. There is always one: unknown providers share the last. */
const struct weft__quirks *weft__quirks_find(const char *provider, uint32_t libfabric_version);

/* Whether a caller who writes `wanted` means this provider: its full name, or the part before a utility layer. */
bool weft__provider_matches(const char *wanted, const char *provider);

/*
 * What is not promised on a device, by its name, whatever its provider promises: it is not the hardware that it passes
 * for. NULL: nothing.
 */
const char *weft__device_caveat(const char *nic);

/* What to do where libfabric does not offer a provider, as "; <text>", or "". wanted may be "rdma". */
const char *weft__provider_cure(const char *wanted);

#endif
