/* SPDX-License-Identifier: MIT */
/* What a net consists of. Each part is described in its own header. */
#ifndef WEFT_NETIMPL_H
#define WEFT_NETIMPL_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <weft/net.h>

#include "buf.h"
#include "candidate.h"
#include "dest.h"
#include "log.h"
#include "op.h"
#include "shmname.h"
#include "wait.h"

struct weft_net {
	/* What every turn touches. */
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_eq *eq; /* NULL where the provider needs none */
	bool in_callback;
	bool closing;
	bool has_source;
	int broken; /* the code that ended the completion queue, or 0 */
	struct weft__wait wait;
	struct weft__ops ops;
	struct weft__dests dests;

	struct weft__buf_list bufs;
	struct weft__regions regions; /* of their memory */
	struct weft_net_stats stats; /* the counters since open; what is in use now is filled in when asked for */
	struct weft__log log;
	struct weft_net_opts opts; /* the numbers; its pointers are not kept */
	struct weft__choice choice;
	struct weft_addr addr;
	struct weft__shmname shmname;
	size_t max_peers;

	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
};

static inline bool weft__has(const struct weft_net *net, uint64_t caps)
{
	return (net->choice.info->caps & caps) == caps;
}

#endif
