/* SPDX-License-Identifier: MIT */
/*
 * The floor: the messages of game.h by libfabric alone, written as one writes such a loop by hand.
 *
 * May call libfabric and game.h, never weft. Everything that is asked of libfabric here has to be
 * what src/net.c asks for, or the comparison is worthless; `bench_l1 check` compares what came of
 * it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "bench.h"

#define RAW_CQ_BATCH 32
#define RAW_PAGE 4096

/* A message buffer, and what identifies its operation. The context comes first: libfabric gives
 * back its address. */
struct raw_slot {
	struct fi_context2 ctx;
	bool is_recv;
	unsigned index;
	void *data;
	void *desc;
	struct fid_mr *mr;
};

struct raw_end {
	struct bench_end base;
	struct bench_opts opts;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct bench_traits traits;
	fi_addr_t peer;
	unsigned n_recvs, n_sends;
	struct raw_slot *recvs;
	struct raw_slot *sends;
};

/* True if the endpoint would bind to a loopback address. */
static bool raw_is_loopback(const struct fi_info *info)
{
	const struct sockaddr *sa = info->src_addr;

	if (info->addr_format == FI_SOCKADDR_IN)
		return ntohl(((const struct sockaddr_in *)info->src_addr)->sin_addr.s_addr) >> 24 ==
		       IN_LOOPBACKNET;
	return sa && sa->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)info->src_addr)->sin6_addr);
}

/* A shm name must never be used again, so it is random. */
static void raw_set_name(struct fi_info *info)
{
	uint64_t number;
	char name[64];

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		bench_die("getrandom", -FI_EIO);
	snprintf(name, sizeof(name), "bench-raw-%016llx", (unsigned long long)number);
	free(info->src_addr);
	info->src_addr = strdup(name);
	info->src_addrlen = strlen(name) + 1;
	if (!info->src_addr)
		bench_die("strdup", -FI_ENOMEM);
}

static struct fi_info *raw_getinfo(const char *provider)
{
	bool shm = strcmp(provider, "shm") == 0;
	uint32_t running = fi_version();
	uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	struct fi_info *hints = fi_allocinfo();
	struct fi_info *list, *info, *chosen;
	size_t len = strlen(provider);
	int ret;

	if (!hints)
		bench_die("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	ret = fi_getinfo(running < built ? running : built, NULL, NULL, 0, hints, &list);
	if (ret)
		bench_die("fi_getinfo", ret);
	fi_freeinfo(hints);
	for (info = list; info; info = info->next) {
		const char *name = info->fabric_attr->prov_name;

		if (strncmp(name, provider, len) == 0 && (!name[len] || name[len] == ';') &&
		    (shm || raw_is_loopback(info)))
			break;
	}
	if (!info)
		bench_die("no such provider on loopback", -FI_ENODATA);
	chosen = fi_dupinfo(info);
	fi_freeinfo(list);
	if (!chosen)
		bench_die("fi_dupinfo", -FI_ENOMEM);
	if (shm)
		raw_set_name(chosen);
	return chosen;
}

static struct raw_slot *raw_slots(struct raw_end *end, unsigned n, bool is_recv)
{
	size_t room = (end->opts.size + RAW_PAGE - 1) / RAW_PAGE * RAW_PAGE;
	struct raw_slot *slots = calloc(n, sizeof(*slots));
	int rc;

	if (!slots)
		bench_die("calloc", -FI_ENOMEM);
	for (unsigned i = 0; i < n; i++) {
		slots[i].is_recv = is_recv;
		slots[i].index = i;
		slots[i].data = aligned_alloc(RAW_PAGE, room);
		if (!slots[i].data)
			bench_die("aligned_alloc", -FI_ENOMEM);
		memset(slots[i].data, 0, room);
		rc = fi_mr_reg(end->domain, slots[i].data, end->opts.size,
			       FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, i * 2 + is_recv, 0,
			       &slots[i].mr, NULL);
		if (rc)
			bench_die("fi_mr_reg", rc);
		slots[i].desc = fi_mr_desc(slots[i].mr);
	}
	return slots;
}

static void raw_post_recv(struct raw_end *end, struct raw_slot *slot)
{
	ssize_t rc = fi_recv(end->ep, slot->data, end->opts.size, slot->desc, FI_ADDR_UNSPEC, slot);

	/* There are never more receives than were posted at the start, so the queue has room. */
	if (rc)
		bench_die("fi_recv", (int)rc);
}

static struct bench_end *raw_open(const struct bench_opts *opts, enum game_role role)
{
	struct raw_end *end = calloc(1, sizeof(*end));
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int rc;

	if (!end)
		bench_die("calloc", -FI_ENOMEM);
	end->opts = *opts;
	end->info = raw_getinfo(opts->provider);
	rc = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
	if (rc)
		bench_die("fi_fabric", rc);
	rc = fi_domain(end->fabric, end->info, &end->domain, NULL);
	if (rc)
		bench_die("fi_domain", rc);
	rc = fi_av_open(end->domain, &av_attr, &end->av, NULL);
	if (rc)
		bench_die("fi_av_open", rc);
	cq_attr.size = end->info->tx_attr->size + end->info->rx_attr->size;
	/* shm has no descriptor. Its sources before 2.0, and those of tcp, cannot be relied on. */
	end->traits.wait_fd = strcmp(opts->provider, "shm") != 0;
	end->traits.source = strcmp(opts->provider, "shm") == 0 && FI_MAJOR(fi_version()) >= 2;
	cq_attr.wait_obj = end->traits.wait_fd ? FI_WAIT_FD : FI_WAIT_NONE;
	rc = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
	if (rc)
		bench_die("fi_cq_open", rc);
	rc = fi_endpoint(end->domain, end->info, &end->ep, NULL);
	if (rc)
		bench_die("fi_endpoint", rc);
	rc = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT);
	if (rc)
		bench_die("fi_ep_bind (transmit)", rc);
	rc = fi_ep_bind(end->ep, &end->cq->fid, FI_RECV);
	if (rc)
		bench_die("fi_ep_bind (receive)", rc);
	rc = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (rc)
		bench_die("fi_ep_bind (av)", rc);
	rc = fi_enable(end->ep);
	if (rc)
		bench_die("fi_enable", rc);
	end->n_recvs = game_receives(opts->window, role);
	end->n_sends = opts->window;
	end->recvs = raw_slots(end, end->n_recvs, true);
	end->sends = raw_slots(end, end->n_sends, false);
	for (unsigned i = 0; i < end->n_recvs; i++)
		raw_post_recv(end, &end->recvs[i]);
	return &end->base;
}

static size_t raw_get_addr(struct bench_end *base, void *addr)
{
	struct raw_end *end = (struct raw_end *)base;
	size_t len = BENCH_ADDR_MAX;
	int rc = fi_getname(&end->ep->fid, addr, &len);

	if (rc)
		bench_die("fi_getname", rc);
	return len;
}

static bool raw_connect(struct bench_end *base, const void *addr, size_t len)
{
	struct raw_end *end = (struct raw_end *)base;

	(void)len;
	return fi_av_insert(end->av, addr, 1, &end->peer, 0, NULL) == 1;
}

static void raw_send_allowed(struct raw_end *end)
{
	struct game *g = &end->base.game;

	while (game_may_send(g)) {
		struct raw_slot *slot = &end->sends[game_slot(g)];
		ssize_t rc;

		game_fill(g, slot->data);
		rc = fi_send(end->ep, slot->data, g->out_len, slot->desc, end->peer, slot);
		if (rc == -FI_EAGAIN)
			return; /* the next turn tries again, after progress was made */
		if (rc)
			bench_die("fi_send", (int)rc);
		game_started(g);
	}
}

static void raw_start(struct bench_end *base)
{
	raw_send_allowed((struct raw_end *)base);
}

static void raw_die_of_completion(struct raw_end *end)
{
	struct fi_cq_err_entry err;

	memset(&err, 0, sizeof(err));
	if (fi_cq_readerr(end->cq, &err, 0) != 1)
		bench_die("fi_cq_readerr", -FI_EIO);
	bench_die("completion", -abs(err.err));
}

static inline void raw_poll(struct raw_end *end)
{
	struct fi_cq_tagged_entry entry[RAW_CQ_BATCH];
	fi_addr_t source[RAW_CQ_BATCH];
	ssize_t n = end->traits.source ? fi_cq_readfrom(end->cq, entry, RAW_CQ_BATCH, source)
				       : fi_cq_read(end->cq, entry, RAW_CQ_BATCH);

	end->base.polls++;
	if (n == -FI_EAGAIN) {
		end->base.idle_polls++;
		raw_send_allowed(end);
		if (end->opts.yield)
			sched_yield();
		return;
	}
	if (n == -FI_EAVAIL)
		raw_die_of_completion(end);
	if (n < 0)
		bench_die("fi_cq_readfrom", (int)n);
	for (ssize_t i = 0; i < n; i++) {
		struct raw_slot *slot = entry[i].op_context;

		if (slot->is_recv) {
			if (entry[i].len != end->base.game.in_len)
				bench_die("a message of the wrong length", -FI_EIO);
			game_received(&end->base.game, slot->data);
			raw_post_recv(end, slot);
		} else {
			game_sent(&end->base.game, slot->index);
		}
		raw_send_allowed(end);
	}
}

static void raw_turn(struct bench_end *base)
{
	raw_poll((struct raw_end *)base);
}

static void raw_run(struct bench_end *base)
{
	while (base->game.left)
		raw_poll((struct raw_end *)base);
}

static const struct fi_info *raw_get_info(const struct bench_end *base)
{
	return ((const struct raw_end *)base)->info;
}

static struct bench_traits raw_get_traits(const struct bench_end *base)
{
	return ((const struct raw_end *)base)->traits;
}

static void raw_free_slots(struct raw_slot *slots, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fi_close(&slots[i].mr->fid);
		free(slots[i].data);
	}
	free(slots);
}

static void raw_close(struct bench_end *base)
{
	struct raw_end *end = (struct raw_end *)base;

	fi_close(&end->ep->fid);
	raw_free_slots(end->recvs, end->n_recvs);
	raw_free_slots(end->sends, end->n_sends);
	fi_close(&end->av->fid);
	fi_close(&end->cq->fid);
	fi_close(&end->domain->fid);
	fi_close(&end->fabric->fid);
	fi_freeinfo(end->info);
	free(end);
}

const struct bench_kind bench_raw = {
	.name = "raw",
	.open = raw_open,
	.get_addr = raw_get_addr,
	.connect = raw_connect,
	.start = raw_start,
	.turn = raw_turn,
	.run = raw_run,
	.get_info = raw_get_info,
	.get_traits = raw_get_traits,
	.close = raw_close,
};
