/* SPDX-License-Identifier: MIT */
/*
 * Completions: opening and reading the completion queue. Calls op, dest, eq, error, log and
 * libfabric.
 */
#include <errno.h>
#include <string.h>

#include "cq.h"
#include "eq.h"
#include "error.h"
#include "netimpl.h"

#define BATCH 32
/* Completions read in one turn at most, so that queues and deadlines are served in between. */
#define TURN 256
/* EFA's code for a queue number that is nobody's: the peer's process is gone, and its count of
 * messages with it. */
#define EFA_PEER_GONE 9
/* EFA's codes for a peer that is silent: libfabric before 2.0 has the first one for one that never
 * answered, too. */
#define EFA_PEER_SILENT 13
#define EFA_PEER_NEVER_ANSWERED 15

static int open_with(struct weft_net *net, enum fi_wait_obj wait)
{
	const struct fi_info *info = net->choice.info;
	struct fi_cq_attr attr = {
		.size = info->tx_attr->size + info->rx_attr->size,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = wait,
	};
	return fi_cq_open(net->domain, &attr, &net->cq, NULL);
}

int weft__cq_open(struct weft_net *net, int *wait_fd)
{
	*wait_fd = -1;
	/* Some providers refuse a descriptor at once, others only when it is asked for. */
	if (open_with(net, FI_WAIT_FD) == 0) {
		if (fi_control(&net->cq->fid, FI_GETWAIT, wait_fd) == 0)
			return 0;
		*wait_fd = -1;
		fi_close(&net->cq->fid);
	}
	net->cq = NULL;
	int ret = open_with(net, FI_WAIT_NONE);
	if (ret < 0)
		weft__log(&net->log, WEFT_LOG_ERROR, "cannot open a completion queue: %s",
			  weft_strerror(ret));
	return ret;
}

static int break_queue(struct weft_net *net, int code)
{
	weft__log(&net->log, WEFT_LOG_ERROR, "the completion queue is broken: %s; close the net",
		  weft_strerror(code));
	net->broken = code;
	return -EIO;
}

/* Reads one error completion. Returns the callbacks run, or -EIO. */
static int read_error(struct weft_net *net)
{
	/* Providers read fields of the entry before they write it, err_data among them. */
	struct fi_cq_err_entry entry = {0};
	char text[128] = "";
	ssize_t got = fi_cq_readerr(net->cq, &entry, 0);
	if (got == -FI_EAGAIN)
		return 0;
	if (got != 1)
		return break_queue(net, got < 0 ? (int)got : -EIO);
	if (!entry.op_context) {
		weft__log(&net->log, WEFT_LOG_WARN, "an error that belongs to no operation: %s",
			  weft_strerror(entry.err));
		return 0;
	}

	/*
	 * err is positive by contract, but shm writes negative ones. -ECANCELED is for what weft
	 * itself ends, and no provider's answer.
	 */
	struct weft_done done = {
		.status = entry.err > 0	  ? -entry.err
			  : entry.err < 0 ? entry.err
					  : -EIO,
		.prov_errno = entry.prov_errno,
		.len = entry.len,
		.tag = entry.tag,
	};
	struct weft__op *op = weft__op_of(&net->ops, entry.op_context);
	if (!op) {
		weft__log(&net->log, WEFT_LOG_DEBUG,
			  "the provider tells the end of an operation once more: %s",
			  weft_strerror(done.status));
		return 0;
	}
	if (done.status == -ECANCELED && !op->canceling)
		done.status = -EIO;
	done.text = fi_cq_strerror(net->cq, entry.prov_errno, entry.err_data, text, sizeof(text));
	if (!done.text)
		done.text = weft_strerror(done.status);
	if (net->choice.quirks->scheme == WEFT_SCHEME_EFA) {
		bool never = entry.prov_errno == EFA_PEER_SILENT && op->dest && !op->dest->known;
		done.advice = weft__efa_advice(never ? EFA_PEER_NEVER_ANSWERED : entry.prov_errno);
		if (op->dest && entry.prov_errno == EFA_PEER_GONE)
			op->dest->known = false;
	}
	return weft__op_complete(net, op, &done);
}

static int handle(struct weft_net *net, const struct fi_cq_tagged_entry *entry, fi_addr_t source)
{
	struct weft_done done = {.text = "", .len = entry->len};
	/*
	 * A write with data of a peer, which weft does not offer, completes here without an
	 * operation.
	 */
	struct weft__op *op = entry->op_context ? weft__op_of(&net->ops, entry->op_context) : NULL;
	if (!op)
		return 0;
	if (weft__op_is_recv(op->kind)) {
		done.tag = entry->tag;
		if (entry->flags & FI_REMOTE_CQ_DATA) {
			done.flags = WEFT_DONE_CQ_DATA;
			done.cq_data = entry->data;
		}
		if (source != FI_ADDR_NOTAVAIL)
			done.source = weft__dest_source(&net->dests, source);
	}
	return weft__op_complete(net, op, &done);
}

int weft__cq_poll(struct weft_net *net)
{
	struct fi_cq_tagged_entry entry[BATCH];
	fi_addr_t source[BATCH];
	int count = 0;
	bool quiet = false, empty = false;
	const bool has_source = net->has_source;
	if (net->broken)
		return -EIO;
	net->dests.reads++;
	/* All ones is FI_ADDR_NOTAVAIL, for a provider that leaves out what it does not know. */
	if (has_source)
		memset(source, 0xff, sizeof(source));
	for (int seen = 0; seen < TURN;) {
		ssize_t got = has_source ? fi_cq_readfrom(net->cq, entry, BATCH, source)
					 : fi_cq_read(net->cq, entry, BATCH);
		if (got > 0) {
			for (ssize_t i = 0; i < got; i++)
				count += handle(net, &entry[i],
						has_source ? source[i] : FI_ADDR_NOTAVAIL);
			seen += (int)got;
			quiet = got < BATCH;
			/*
			 * Fewer than asked for may be all, or those before an error. Only where
			 * addresses wait for the queue to be empty is it worth another look.
			 */
			if (quiet && TAILQ_EMPTY(&net->dests.retiring))
				break;
		} else if (got == -FI_EAVAIL) {
			int ret = read_error(net);
			if (ret < 0)
				return count > 0 ? count : ret;
			count += ret;
			seen++;
		} else if (got == -FI_EAGAIN || got == 0) {
			quiet = empty = true;
			break;
		} else {
			int ret = break_queue(net, (int)got);
			return count > 0 ? count : ret;
		}
	}
	if (empty && !TAILQ_EMPTY(&net->dests.retiring))
		weft__dests_retire(net);
	if (quiet && net->eq)
		weft__eq_drain(net);
	return count;
}
