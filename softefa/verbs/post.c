/* SPDX-License-Identifier: MIT */
/*
 * Posting. Requests are built one by one between wr_start and wr_complete, which hands all of them
 * to the transport or none. In between only the send queue is locked: receives may be posted and
 * completions polled meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "entry.h"

static struct soft_qp *of(struct ibv_qp_ex *ex)
{
	return (struct soft_qp *)ex;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = of(ex);
	if (pthread_mutex_lock(&qp->posting) != 0) {
		soft_breach("wr_start before the wr_complete of an earlier one");
		return;
	}
	qp->open = true;
	qp->error = 0;
	qp->built_count = 0;
	qp->building = NULL;
}

static void begin(struct ibv_qp_ex *ex, uint8_t type, uint32_t rkey, uint64_t raddr)
{
	struct soft_qp *qp = of(ex);
	if (!qp->open) {
		soft_breach("a request outside wr_start and wr_complete");
		return;
	}
	soft_lock();
	struct soft_send *send = SLIST_FIRST(&qp->sq_free);
	if (send)
		SLIST_REMOVE_HEAD(&qp->sq_free, free);
	soft_unlock();
	qp->building = send;
	if (!send) {
		qp->error = ENOMEM;
		return;
	}
	qp->built[qp->built_count++] = send;
	send->wr_id = ex->wr_id;
	send->is_inline = false;
	send->pieces = 0;
	send->has_to = false;
	send->op = (struct sefa_op){.type = type, .rkey = rkey, .raddr = raddr};
}

static void set_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct soft_send *send = of(ex)->building;
	if (send) {
		send->op.has_imm = true;
		send->op.imm = ntohl(imm);
	}
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, SEFA_SEND, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, SEFA_SEND, 0, 0);
	set_imm(ex, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	begin(ex, SEFA_READ, rkey, raddr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	begin(ex, SEFA_WRITE, rkey, raddr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	begin(ex, SEFA_WRITE, rkey, raddr);
	set_imm(ex, imm);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct soft_send *send = of(ex)->building;
	if (!send)
		return;
	if (qpn > UINT16_MAX) {
		of(ex)->error = EINVAL;
		return;
	}
	send->to = (struct sefa_end){((struct soft_ah *)ah)->host->ip, (uint16_t)qpn};
	send->qkey = qkey;
	send->has_to = true;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct soft_send *send = of(ex)->building;
	if (!send)
		return;
	if (count > SOFT_MAX_SGE) {
		soft_breach("a request of %zu pieces of memory, where %d are allowed", count,
			    SOFT_MAX_SGE);
		of(ex)->error = EINVAL;
		return;
	}
	uint64_t len = 0;
	for (size_t i = 0; i < count; i++) {
		send->sge[i] = list[i];
		len += list[i].length;
	}
	if (len > (send->op.type == SEFA_SEND ? SEFA_MTU : SOFT_MAX_RDMA)) {
		soft_breach("a request of %llu bytes is too long", (unsigned long long)len);
		of(ex)->error = EINVAL;
		return;
	}
	send->pieces = (int)count;
	send->op.len = (uint32_t)len;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t len)
{
	struct ibv_sge sge = {.addr = addr, .length = len, .lkey = lkey};
	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
				    const struct ibv_data_buf *list)
{
	struct soft_send *send = of(ex)->building;
	size_t len = 0;
	if (!send)
		return;
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > SOFT_INLINE - len) {
			soft_breach("more than %d bytes of inline data", SOFT_INLINE);
			of(ex)->error = EINVAL;
			return;
		}
		if (list[i].length > 0 &&
		    soft_memory_there("inline data", list[i].addr, list[i].length))
			memcpy(send->bytes + len, list[i].addr, list[i].length);
		len += list[i].length;
	}
	send->is_inline = true;
	send->op.len = (uint32_t)len;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t len)
{
	struct ibv_data_buf buf = {.addr = addr, .length = len};
	wr_set_inline_data_list(ex, 1, &buf);
}

/*
 * Whether a request may be handed over. Keys are checked when they are used; here, so that the
 * fault lies near.
 */
static int check(struct soft_qp *qp, const struct soft_send *send)
{
	unsigned access = send->op.type == SEFA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
	if (!send->has_to || (send->is_inline && send->op.type != SEFA_SEND)) {
		soft_breach("a request without an address, or one-sided with inline data");
		return EINVAL;
	}
	for (int i = 0; i < send->pieces && !send->is_inline; i++) {
		const struct ibv_sge *sge = &send->sge[i];
		if (sge->length > 0 &&
		    !soft_mr_find(qp->ex.qp_base.pd, sge->lkey, sge->addr, sge->length, access)) {
			soft_breach("a request's memory is not registered under its lkey 0x%x",
				    sge->lkey);
			return 0;
		}
	}
	return 0;
}

static void give_back(struct soft_qp *qp)
{
	for (unsigned i = 0; i < qp->built_count; i++)
		SLIST_INSERT_HEAD(&qp->sq_free, qp->built[i], free);
	qp->built_count = 0;
}

static int hand_over(struct soft_qp *qp)
{
	int ret = qp->error;
	if (ret == 0 && (qp->ex.qp_base.state != IBV_QPS_RTS || !qp->net)) {
		soft_breach("a send on a queue pair that is not ready to send");
		ret = EINVAL;
	}
	for (unsigned i = 0; i < qp->built_count && ret == 0; i++)
		ret = check(qp, qp->built[i]);
	if (ret != 0) {
		give_back(qp);
		return ret;
	}
	uint64_t now = soft_now();
	for (unsigned i = 0; i < qp->built_count; i++) {
		struct soft_send *send = qp->built[i];
		if (sefa_port_post(&qp->port, &send->op, send->to, send->qkey, now) < 0)
			soft_port_ops.done(qp, &send->op, SEFA_QP_ERROR);
	}
	if (qp->port.due < qp->next)
		qp->next = qp->port.due;
	soft_thread_due(qp->next);
	return 0;
}

static int close_list(struct soft_qp *qp, bool abort)
{
	int ret = 0;
	if (!qp->open) {
		soft_breach("wr_complete or wr_abort without wr_start");
		return EINVAL;
	}
	soft_lock();
	if (abort)
		give_back(qp);
	else
		ret = hand_over(qp);
	soft_unlock();
	qp->open = false;
	qp->building = NULL;
	pthread_mutex_unlock(&qp->posting);
	return ret;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	return close_list(of(ex), false);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	(void)close_list(of(ex), true);
}

void soft_qp_set_ops(struct ibv_qp_ex *ex)
{
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

/* One request in the older form, through the newer one. */
static void build(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	ex->wr_id = wr->wr_id;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		wr_send_imm(ex, wr->imm_data);
		break;
	default:
		of(ex)->error = EOPNOTSUPP;
		of(ex)->building = NULL;
		return;
	}
	if (wr->send_flags & IBV_SEND_INLINE) {
		struct ibv_data_buf list[SOFT_MAX_SGE];
		int count = wr->num_sge < SOFT_MAX_SGE ? wr->num_sge : SOFT_MAX_SGE;
		for (int i = 0; i < count; i++)
			list[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr,
							wr->sg_list[i].length};
		wr_set_inline_data_list(ex, (size_t)count, list);
	} else {
		wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
	}
	wr_set_ud_addr(ex, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
}

int soft_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct soft_qp *qp = soft_qp_of(ibv_qp);
	int ret = 0;
	/* One by one, so that those in front of a bad one are posted. */
	for (; wr && ret == 0; wr = wr->next) {
		wr_start(&qp->ex);
		build(&qp->ex, wr);
		ret = wr_complete(&qp->ex);
		if (ret != 0 && bad)
			*bad = wr;
	}
	return ret;
}

static int post_one(struct soft_qp *qp, const struct ibv_recv_wr *wr)
{
	if (qp->ex.qp_base.state == IBV_QPS_RESET) {
		soft_breach("a receive on a queue pair that is not initialised");
		return EINVAL;
	}
	if (wr->num_sge < 0 || wr->num_sge > SOFT_MAX_SGE) {
		soft_breach("a receive of %d pieces of memory", wr->num_sge);
		return EINVAL;
	}
	if (qp->rq_count == qp->rq_size)
		return ENOMEM;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		if (!soft_mr_find(qp->ex.qp_base.pd, sge->lkey, sge->addr, sge->length,
				  IBV_ACCESS_LOCAL_WRITE)) {
			soft_breach("a receive's memory is not registered for writing under its "
				    "lkey 0x%x",
				    sge->lkey);
			return EINVAL;
		}
	}
	struct soft_recv *recv = &qp->rq[(qp->rq_head + qp->rq_count++) % qp->rq_size];
	recv->wr_id = wr->wr_id;
	recv->pieces = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		recv->sge[i] = wr->sg_list[i];
	return 0;
}

int soft_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct soft_qp *qp = soft_qp_of(ibv_qp);
	int ret = 0;
	soft_lock();
	for (; wr; wr = wr->next) {
		ret = post_one(qp, wr);
		if (ret != 0) {
			if (bad)
				*bad = wr;
			break;
		}
	}
	soft_unlock();
	return ret;
}
