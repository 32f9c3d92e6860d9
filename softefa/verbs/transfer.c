/* SPDX-License-Identifier: MIT */
/*
 * What the transport asks of the verbs: the memory of requests, the posted receives, the regions
 * that peers may reach.
 */
#include <string.h>

#include "soft.h"

static struct soft_send *send_of(struct sefa_op *op)
{
	return (struct soft_send *)op;
}

/*
 * The memory of a part of a request's list. The keys are looked up at every use, as by hardware.
 * Returns the number of pieces, or a negative status.
 */
static int pieces_of(const struct soft_qp *qp, const struct soft_send *send, uint32_t off,
		     uint32_t len, unsigned access, struct iovec iov[SEFA_PIECES])
{
	int count = 0;
	for (int i = 0; i < send->pieces && len > 0; i++) {
		const struct ibv_sge *sge = &send->sge[i];
		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		uint32_t part = sge->length - off < len ? sge->length - off : len;
		struct soft_mr *mr =
			soft_mr_find(qp->ex.qp_base.pd, sge->lkey, sge->addr, sge->length, access);
		if (!mr) {
			soft_breach("the region of a request's memory (lkey 0x%x) is gone while it "
				    "is in use",
				    sge->lkey);
			return -SEFA_INVALID_LKEY;
		}
		void *addr = soft_mr_at(mr, sge->addr + off);
		if (!soft_memory_there("a request", addr, part))
			return -SEFA_INVALID_LKEY;
		iov[count++] = (struct iovec){addr, part};
		len -= part;
		off = 0;
	}
	return len == 0 ? count : -SEFA_LOCAL_LENGTH;
}

static int gather(void *user, struct sefa_op *op, uint32_t off, uint32_t len,
		  struct iovec iov[SEFA_PIECES])
{
	struct soft_send *send = send_of(op);
	if (send->is_inline) {
		iov[0] = (struct iovec){send->bytes + off, len};
		return 1;
	}
	return pieces_of(user, send, off, len, 0, iov);
}

static enum sefa_status scatter(void *user, struct sefa_op *op, uint32_t off, const uint8_t *data,
				uint32_t len)
{
	struct iovec iov[SEFA_PIECES];
	int count = pieces_of(user, send_of(op), off, len, IBV_ACCESS_LOCAL_WRITE, iov);
	if (count < 0)
		return (enum sefa_status) - count;
	for (int i = 0; i < count; i++) {
		memcpy(iov[i].iov_base, data, iov[i].iov_len);
		data += iov[i].iov_len;
	}
	return SEFA_OK;
}

static void fault(void *user, struct sefa_op *op)
{
	(void)user;
	soft_breach("the memory of request 0x%llx was unmapped while in use",
		    (unsigned long long)send_of(op)->wr_id);
}

static void done(void *user, struct sefa_op *op, enum sefa_status status)
{
	struct soft_qp *qp = user;
	struct soft_send *send = send_of(op);
	struct soft_wc wc = {
		.wr_id = send->wr_id,
		.status = status,
		/* A read is reported as a send, as EFA does. */
		.opcode = op->type == SEFA_WRITE ? IBV_WC_RDMA_WRITE : IBV_WC_SEND,
		.byte_len = op->len,
		.qp_num = qp->ex.qp_base.qp_num,
	};
	SLIST_INSERT_HEAD(&qp->sq_free, send, free);
	soft_cq_push(qp->send_cq, &wc);
}

static struct soft_wc wc_of_receive(const struct soft_qp *qp, const struct soft_recv *recv,
				    enum sefa_status status)
{
	return (struct soft_wc){
		.wr_id = recv->wr_id,
		.status = status,
		.opcode = IBV_WC_RECV,
		.qp_num = qp->ex.qp_base.qp_num,
		.slid = SOFT_NO_AH,
	};
}

static struct soft_recv *take_receive(struct soft_qp *qp)
{
	struct soft_recv *recv = &qp->rq[qp->rq_head];
	qp->rq_head = (qp->rq_head + 1) % qp->rq_size;
	qp->rq_count--;
	return recv;
}

/* Puts a message into a receive's memory. */
static enum sefa_status fill(const struct soft_qp *qp, const struct soft_recv *recv,
			     const uint8_t *data, uint32_t len)
{
	for (int i = 0; i < recv->pieces && len > 0; i++) {
		const struct ibv_sge *sge = &recv->sge[i];
		uint32_t part = sge->length < len ? sge->length : len;
		struct soft_mr *mr = soft_mr_find(qp->ex.qp_base.pd, sge->lkey, sge->addr,
						  sge->length, IBV_ACCESS_LOCAL_WRITE);
		if (!mr) {
			soft_breach("the region of a posted receive (lkey 0x%x) is gone while it "
				    "is in use",
				    sge->lkey);
			return SEFA_INVALID_LKEY;
		}
		void *addr = soft_mr_at(mr, sge->addr);
		if (!soft_memory_there("a posted receive", addr, part))
			return SEFA_INVALID_LKEY;
		memcpy(addr, data, part);
		data += part;
		len -= part;
	}
	return SEFA_OK;
}

static enum sefa_status deliver(void *user, const struct sefa_arrival *arrival)
{
	struct soft_qp *qp = user;
	if (qp->rq_count == 0)
		return SEFA_RNR;
	const struct soft_recv *next = &qp->rq[qp->rq_head];
	uint64_t room = 0;
	for (int i = 0; i < next->pieces; i++)
		room += next->sge[i].length;
	if (!arrival->write && arrival->len > room)
		return SEFA_REMOTE_LENGTH;
	const struct soft_recv *recv = take_receive(qp);
	struct soft_wc wc = wc_of_receive(qp, recv, SEFA_OK);
	if (arrival->write)
		wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	else
		wc.status = fill(qp, recv, arrival->data, arrival->len);
	wc.byte_len = arrival->len;
	wc.has_imm = arrival->has_imm;
	wc.imm = arrival->imm;
	wc.src_qp = arrival->from.qpn;
	wc.src_ip = arrival->from.ip;
	wc.slid = soft_host_number(arrival->from.ip);
	soft_cq_push(qp->recv_cq, &wc);
	return wc.status == SEFA_OK ? SEFA_OK : SEFA_BAD_STATUS;
}

/* The memory that a peer may reach under a key, or why it may not. */
static enum sefa_status reach(const struct soft_qp *qp, struct sefa_end from, uint32_t rkey,
			      uint64_t addr, uint32_t len, unsigned access, void **at)
{
	if (soft_host_number(from.ip) == SOFT_NO_AH)
		return SEFA_UNKNOWN_PEER;
	struct soft_mr *mr = soft_mr_find(qp->ex.qp_base.pd, rkey, addr, len, access);
	if (!mr)
		return SEFA_BAD_ADDRESS;
	*at = soft_mr_at(mr, addr);
	return soft_memory_there("a region that a peer accesses", *at, len) ? SEFA_OK
									    : SEFA_BAD_ADDRESS;
}

static enum sefa_status remote_read(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr,
				    uint32_t len, const void **data)
{
	void *at;
	enum sefa_status status = reach(user, from, rkey, addr, len, IBV_ACCESS_REMOTE_READ, &at);
	if (status == SEFA_OK)
		*data = at;
	return status;
}

static enum sefa_status remote_write(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr,
				     const uint8_t *data, uint32_t len)
{
	void *at;
	enum sefa_status status = reach(user, from, rkey, addr, len, IBV_ACCESS_REMOTE_WRITE, &at);
	if (status == SEFA_OK && len > 0)
		memcpy(at, data, len);
	return status;
}

const struct sefa_port_ops soft_port_ops = {
	.gather = gather,
	.scatter = scatter,
	.fault = fault,
	.done = done,
	.deliver = deliver,
	.read = remote_read,
	.write = remote_write,
};

void soft_qp_flush(struct soft_qp *qp)
{
	sefa_port_fail(&qp->port, SEFA_FLUSHED);
	while (qp->rq_count > 0) {
		struct soft_wc wc = wc_of_receive(qp, take_receive(qp), SEFA_FLUSHED);
		soft_cq_push(qp->recv_cq, &wc);
	}
}
