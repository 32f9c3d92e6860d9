/* SPDX-License-Identifier: MIT */
/* Faults on a real provider, by copies of its ops tables. */
#include "interpose.h"

#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define MAX_KEPT 64

struct interposed interposed;

static struct weft_fabric objects;
static struct fi_ops_msg msg, *real_msg;
static struct fi_ops_cq cq, *real_cq;
static struct fi_ops_av av, *real_av;
static struct fi_ops_mr mr, *real_mr;
static struct fi_ops ep, *real_ep;

/* Completions that are kept, and those that have become errors. */
static struct fi_cq_tagged_entry kept[MAX_KEPT], broken[MAX_KEPT];
static size_t kept_count, broken_count;

static bool use(int *times)
{
	if (*times == 0)
		return false;
	if (*times > 0)
		--*times;
	return true;
}

static ssize_t send_one(struct fid_ep *fid, const void *data, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	interposed.sends++;
	if (use(&interposed.refuse_sends))
		return interposed.send_code;
	if (use(&interposed.lose_sends))
		return 0;
	return real_msg->send(fid, data, len, desc, to, context);
}

static ssize_t recv_one(struct fid_ep *fid, void *data, size_t len, void *desc, fi_addr_t from,
			void *context)
{
	interposed.recvs++;
	if (use(&interposed.refuse_recvs))
		return interposed.recv_code;
	return real_msg->recv(fid, data, len, desc, from, context);
}

/* Takes out of what was read what is to be kept or broken. Returns how many are left. */
static ssize_t sort_out(struct fi_cq_tagged_entry *entry, fi_addr_t *source, ssize_t got)
{
	ssize_t left = 0;
	for (ssize_t i = 0; i < got; i++) {
		if (broken_count < MAX_KEPT && use(&interposed.break_next)) {
			broken[broken_count++] = entry[i];
		} else if (kept_count < MAX_KEPT && use(&interposed.hold_back)) {
			kept[kept_count++] = entry[i];
		} else {
			entry[left] = entry[i];
			if (source)
				source[left] = source[i];
			left++;
		}
	}
	return left;
}

static ssize_t read_any(struct fid_cq *fid, struct fi_cq_tagged_entry *entry, size_t count,
			fi_addr_t *source)
{
	interposed.reads++;
	if (interposed.read_code)
		return interposed.read_code;
	/* Providers call each other's and their own entries by the table, and are to find the real
	 * ones there. */
	fid->ops = real_cq;
	ssize_t got =
		source ? fi_cq_readfrom(fid, entry, count, source) : fi_cq_read(fid, entry, count);
	fid->ops = &cq;
	if (got > 0)
		got = sort_out(entry, source, got);
	else if (got != -FI_EAGAIN)
		return got;
	if (got > 0)
		return got;
	if (broken_count > 0)
		return -FI_EAVAIL;
	if (interposed.hold_back == 0 && kept_count > 0 && count > 0) {
		entry[0] = kept[--kept_count];
		if (source)
			source[0] = FI_ADDR_NOTAVAIL;
		return 1;
	}
	return -FI_EAGAIN;
}

static ssize_t read_one(struct fid_cq *fid, void *entry, size_t count)
{
	return read_any(fid, entry, count, NULL);
}

static ssize_t read_from(struct fid_cq *fid, void *entry, size_t count, fi_addr_t *source)
{
	return read_any(fid, entry, count, source);
}

static ssize_t read_error(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	if (broken_count == 0)
		return real_cq->readerr(fid, entry, flags);
	broken_count--;
	*entry = (struct fi_cq_err_entry){
		.op_context = broken[broken_count].op_context,
		.flags = broken[broken_count].flags,
		.err = interposed.break_err,
		.prov_errno = interposed.break_prov_errno,
	};
	return 1;
}

static int insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		  uint64_t flags, void *context)
{
	interposed.inserts++;
	if (use(&interposed.refuse_inserts))
		return interposed.insert_code;
	return real_av->insert(fid, addr, count, fi_addr, flags, context);
}

static int reg(struct fid *fid, const void *data, size_t len, uint64_t access, uint64_t offset,
	       uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	interposed.regs++;
	if (use(&interposed.refuse_regs))
		return interposed.reg_code;
	return real_mr->reg(fid, data, len, access, offset, key, flags, out, context);
}

static int close_ep(struct fid *fid)
{
	interposed.closes++;
	return interposed.close_code ? interposed.close_code : real_ep->close(fid);
}

void interpose(struct weft_net *net)
{
	memset(&interposed, 0, sizeof(interposed));
	kept_count = broken_count = 0;
	objects = (struct weft_fabric)WEFT_FABRIC_INIT;
	if (weft_net_fabric(net, &objects) < 0)
		return;
	real_msg = objects.ep->msg;
	msg = *real_msg;
	msg.send = send_one;
	msg.recv = recv_one;
	objects.ep->msg = &msg;
	real_cq = objects.cq->ops;
	cq = *real_cq;
	cq.read = read_one;
	cq.readfrom = read_from;
	cq.readerr = read_error;
	objects.cq->ops = &cq;
	real_av = objects.av->ops;
	av = *real_av;
	av.insert = insert;
	objects.av->ops = &av;
	real_mr = objects.domain->mr;
	mr = *real_mr;
	mr.reg = reg;
	objects.domain->mr = &mr;
	real_ep = objects.ep->fid.ops;
	ep = *real_ep;
	ep.close = close_ep;
	objects.ep->fid.ops = &ep;
}

void interpose_end(void)
{
	objects.ep->msg = real_msg;
	objects.cq->ops = real_cq;
	objects.av->ops = real_av;
	objects.domain->mr = real_mr;
	objects.ep->fid.ops = real_ep;
}

int interpose_close_left(void)
{
	struct fid *fids[] = {&objects.ep->fid, &objects.av->fid, &objects.cq->fid,
			      &objects.domain->fid, &objects.fabric->fid};
	int left = 0;
	interpose_end();
	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
		left += fi_close(fids[i]) != 0;
	return left;
}
