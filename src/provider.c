/* SPDX-License-Identifier: MIT */
/*
 * The table of what weft knows about libfabric's providers, and the look-up in it. Calls nothing.
 */
#include <string.h>

#include <rdma/fabric.h>

#include "provider.h"

#define SHM_OLD                                                                                    \
	"shm of libfabric before 2.0 is for processes that trust each other: one that is killed "  \
	"inside libfabric "                                                                        \
	"can hang its peers"
#define UDP                                                                                        \
	"udp is experimental, for loopback or a trusted network: the provider dies of stray "      \
	"datagrams"

/* A frame that is one packet is there or not: of a peer that dies it leaves no half in a receive.
 */
#define EFA_FRAME 8192

static const struct weft__quirks table[] = {
	{.provider = "efa",
	 .below = FI_VERSION(2, 6),
	 .scheme = WEFT_SCHEME_EFA,
	 .rank = WEFT__RANK_EFA,
	 .rdma = true,
	 .fabric = "efa",
	 .counts_messages = true,
	 .repeats_ends = true,
	 .writes_late = true,
	 .frame_size = EFA_FRAME,
	 .aborts_untold = true,
	 .close_blocks = true},
	{.provider = "efa",
	 .from = FI_VERSION(2, 6),
	 .scheme = WEFT_SCHEME_EFA,
	 .rank = WEFT__RANK_EFA,
	 .rdma = true,
	 .fabric = "efa",
	 .counts_messages = true,
	 .repeats_ends = true,
	 .writes_late = true,
	 .frame_size = EFA_FRAME,
	 .aborts_untold = true},
	{.provider = "verbs;ofi_rxm",
	 .scheme = WEFT_SCHEME_VERBS,
	 .stale_source = true,
	 .rank = WEFT__RANK_RDMA,
	 .rdma = true},
	{.provider = "psm2", .scheme = WEFT_SCHEME_RAW, .rank = WEFT__RANK_RDMA, .rdma = true},
	{.provider = "opx", .scheme = WEFT_SCHEME_RAW, .rank = WEFT__RANK_RDMA, .rdma = true},
	{.provider = "cxi", .scheme = WEFT_SCHEME_RAW, .rank = WEFT__RANK_RDMA, .rdma = true},
	{.provider = "tcp;ofi_rxm",
	 .below = FI_VERSION(1, 18),
	 .scheme = WEFT_SCHEME_TCP,
	 .frame_size = 16384,
	 .chunk_size = 1 << 20,
	 .rank = WEFT__RANK_TCP,
	 .fd_per_peer = true,
	 .stale_source = true},
	{.provider = "tcp",
	 .from = FI_VERSION(1, 18),
	 .scheme = WEFT_SCHEME_TCP,
	 .frame_size = 16384,
	 .chunk_size = 1 << 20,
	 .rank = WEFT__RANK_TCP,
	 .fd_per_peer = true,
	 .stale_source = true},
	{.provider = "tcp;ofi_rxm",
	 .from = FI_VERSION(1, 18),
	 .scheme = WEFT_SCHEME_TCP,
	 .frame_size = 16384,
	 .chunk_size = 1 << 20,
	 .rank = WEFT__RANK_ASKED,
	 .fd_per_peer = true,
	 .stale_source = true},
	{.provider = "shm",
	 .below = FI_VERSION(2, 0),
	 .scheme = WEFT_SCHEME_SHM,
	 .maps_peers = true,
	 .stuck_answers = true,
	 .frame_size = 4096,
	 .chunk_size = 1 << 20,
	 .chunks_at_once = 4,
	 .huge_pages = true,
	 .rank = WEFT__RANK_ASKED,
	 .shm_names = true,
	 .stale_source = true,
	 .max_peers = 256,
	 .caveat = SHM_OLD},
	{.provider = "shm",
	 .from = FI_VERSION(2, 0),
	 .scheme = WEFT_SCHEME_SHM,
	 .frame_size = 4096,
	 .chunk_size = 1 << 20,
	 .chunks_at_once = 4,
	 .huge_pages = true,
	 .rank = WEFT__RANK_ASKED,
	 .shm_names = true,
	 .max_peers = 256},
	{.provider = "udp;ofi_rxd",
	 .scheme = WEFT_SCHEME_UDP,
	 .slow_tags = true,
	 .frame_size = 4096,
	 .rank = WEFT__RANK_ASKED,
	 .stale_source = true,
	 .caveat = UDP},
	{.provider = "sockets",
	 .scheme = WEFT_SCHEME_RAW,
	 .rank = WEFT__RANK_ASKED,
	 .fd_per_peer = true,
	 .caveat = "libfabric no longer maintains the provider sockets"},
	{.provider = NULL,
	 .scheme = WEFT_SCHEME_RAW,
	 .rank = WEFT__RANK_ASKED,
	 .caveat = "weft has not been tried on this provider"},
};

const struct weft__quirks *weft__quirks_find(const char *provider, uint32_t libfabric_version)
{
	const struct weft__quirks *row = table;
	for (; row->provider; row++) {
		if (strcmp(row->provider, provider) == 0 && libfabric_version >= row->from &&
		    (row->below == 0 || libfabric_version < row->below))
			break;
	}
	return row;
}

bool weft__provider_matches(const char *wanted, const char *provider)
{
	size_t len = strlen(wanted);
	return strncmp(wanted, provider, len) == 0 && (provider[len] == 0 || provider[len] == ';');
}

const char *weft__device_caveat(const char *nic)
{
	static const char software[] = "softefa";
	return strncmp(nic, software, sizeof(software) - 1) == 0
		       ? "a software device (softefa), not EFA hardware"
		       : NULL;
}

const char *weft__provider_cure(const char *wanted)
{
	if (strcmp(wanted, "efa") == 0 || strcmp(wanted, "rdma") == 0)
		return "; for EFA the instance needs an EFA network interface, the kernel module "
		       "efa, and in a container the devices /dev/infiniband/uverbs*";
	if (strcmp(wanted, "shm") == 0)
		return "; libfabric leaves shm out where /dev/shm has too little room: about 16 "
		       "MiB for each "
		       "processor (df /dev/shm)";
	return "";
}
