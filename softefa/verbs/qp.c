/* SPDX-License-Identifier: MIT */
/* Queue pairs: one UDP socket each, whose port is the queue pair's number. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/udp.h"
#include "entry.h"

#define SEND_OPS                                                                                   \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |           \
	 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

static int check_attr(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint64_t rdma = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
			      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (attr->qp_type != IBV_QPT_DRIVER || (attr->comp_mask & ~known) ||
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		if ((attr->send_ops_flags & ~(uint64_t)SEND_OPS) ||
		    (!soft.config.rdma && (attr->send_ops_flags & rdma)))
			return EOPNOTSUPP;
	}
	if (!attr->send_cq || !attr->recv_cq || attr->srq || attr->cap.max_send_wr > SOFT_MAX_WR ||
	    attr->cap.max_recv_wr > SOFT_MAX_WR || attr->cap.max_send_sge > SOFT_MAX_SGE ||
	    attr->cap.max_recv_sge > SOFT_MAX_SGE || attr->cap.max_inline_data > SOFT_INLINE)
		return EINVAL;
	return 0;
}

static int alloc_queues(struct soft_qp *qp, const struct ibv_qp_cap *cap)
{
	qp->sq_size = cap->max_send_wr > 0 ? cap->max_send_wr : 1;
	qp->rq_size = cap->max_recv_wr > 0 ? cap->max_recv_wr : 1;
	qp->sq = calloc(qp->sq_size, sizeof(*qp->sq));
	qp->rq = calloc(qp->rq_size, sizeof(*qp->rq));
	qp->built = calloc(qp->sq_size, sizeof(struct soft_send *));
	if (!qp->sq || !qp->rq || !qp->built)
		return ENOMEM;
	SLIST_INIT(&qp->sq_free);
	for (unsigned i = 0; i < qp->sq_size; i++)
		SLIST_INSERT_HEAD(&qp->sq_free, &qp->sq[i], free);
	return 0;
}

static void free_queues(struct soft_qp *qp)
{
	free(qp->sq);
	free(qp->rq);
	free(qp->built);
}

static int open_net(struct soft_qp *qp)
{
	/* The first one has the number that was asked for. */
	uint16_t port = soft.qpn_used ? 0 : soft.config.qpn;
	int ret = sefa_udp_open(&qp->net, soft.config.ip, &port);
	if (ret < 0) {
		fprintf(stderr, "softefa: no socket at %u.%u.%u.%u port %u: %s%s\n",
			soft.config.ip >> 24, soft.config.ip >> 16 & 255, soft.config.ip >> 8 & 255,
			soft.config.ip & 255, port, strerror(-ret),
			ret == -EADDRNOTAVAIL ? "; SOFTEFA_BIND must be an address of this host"
					      : "");
		return -ret;
	}
	soft.qpn_used = true;
	qp->fd = sefa_udp_fd(qp->net);
	qp->ex.qp_base.qp_num = port;
	if (sefa_faults_any(&soft.config.faults)) {
		struct sefa_net *over = sefa_fault_wrap(qp->net, &soft.config.faults);
		if (!over) {
			qp->net->close(qp->net);
			return ENOMEM;
		}
		qp->net = over;
	}
	return 0;
}

static void set_base(struct soft_qp *qp, struct ibv_context *context,
		     const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *base = &qp->ex.qp_base;
	pthread_mutexattr_t checked;
	base->context = context;
	base->qp_context = attr->qp_context;
	base->pd = attr->pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&qp->posting, &checked);
	pthread_mutexattr_destroy(&checked);
	qp->send_cq = soft_cq_of(attr->send_cq);
	qp->recv_cq = soft_cq_of(attr->recv_cq);
	qp->next = UINT64_MAX;
	soft_qp_set_ops(&qp->ex);
}

static void free_base(struct soft_qp *qp)
{
	pthread_mutex_destroy(&qp->posting);
	pthread_mutex_destroy(&qp->ex.qp_base.mutex);
	pthread_cond_destroy(&qp->ex.qp_base.cond);
}

/* Makes a queue pair known to the device. With the lock held. */
static int join(struct soft_qp *qp)
{
	int ret = open_net(qp);
	if (ret != 0)
		return ret;
	sefa_port_init(&qp->port, qp->net, &soft_port_ops, qp, soft.config.timeout_ns);
	qp->port.rnr_fault = soft.config.faults.rnr;
	sefa_rng_seed(&qp->port.rng, soft.config.faults.seed + 1);
	LIST_INSERT_HEAD(&soft.qps, qp, link);
	ret = -soft_thread_start();
	if (ret == 0)
		ret = -soft_thread_watch(qp->fd);
	if (ret != 0) {
		LIST_REMOVE(qp, link);
		qp->net->close(qp->net);
		return ret;
	}
	qp->send_cq->users++;
	qp->recv_cq->users++;
	((struct soft_pd *)qp->ex.qp_base.pd)->users++;
	return 0;
}

struct ibv_qp *soft_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	int ret = check_attr(attr);
	if (ret != 0)
		goto fail;
	struct soft_qp *qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	set_base(qp, context, attr);
	ret = alloc_queues(qp, &attr->cap);
	if (ret == 0) {
		soft_lock();
		ret = join(qp);
		if (ret != 0 && LIST_EMPTY(&soft.qps))
			soft_thread_stop();
		soft_unlock();
	}
	if (ret == 0)
		return &qp->ex.qp_base;
	free_queues(qp);
	free_base(qp);
	free(qp);
fail:
	errno = ret;
	return NULL;
}

/* Datagram queue pairs are not offered. */
struct ibv_qp *soft_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_qp *soft_efadv_create_qp_ex(struct ibv_context *ibvctx, struct ibv_qp_init_attr_ex *attr,
				       struct efadv_qp_init_attr *efa, uint32_t len)
{
	if (len < offsetof(struct efadv_qp_init_attr, driver_qp_type) +
			    sizeof(efa->driver_qp_type) ||
	    efa->comp_mask || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return soft_create_qp_ex(ibvctx, attr);
}

struct ibv_qp *soft_efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
					   uint32_t type)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = type};
	return soft_efadv_create_qp_ex(pd->context, &ex, &efa, sizeof(efa));
}

struct ibv_qp_ex *soft_ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &soft_qp_of(qp)->ex;
}

/* What has to be given, and may be given, to go from one state to the next. */
static bool may_go(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	static const struct {
		enum ibv_qp_state from, to;
		int need, may;
	} steps[] = {
		{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
		{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
		{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
		{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY | IBV_QP_RNR_RETRY},
		{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY | IBV_QP_RNR_RETRY},
	};
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == 0;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].from == from && steps[i].to == to)
			return (mask & steps[i].need) == steps[i].need &&
			       !(mask & ~(steps[i].need | steps[i].may));
	}
	return false;
}

static void go(struct soft_qp *qp, enum ibv_qp_state state)
{
	qp->port.ready = state == IBV_QPS_RTR || state == IBV_QPS_RTS;
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		soft_qp_flush(qp);
	if (state == IBV_QPS_RESET) {
		soft_cq_purge(qp->send_cq, qp->ex.qp_base.qp_num);
		soft_cq_purge(qp->recv_cq, qp->ex.qp_base.qp_num);
	}
	qp->ex.qp_base.state = state;
}

int soft_ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
	struct soft_qp *qp = soft_qp_of(ibv_qp);
	int ret = 0;
	soft_lock();
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : ibv_qp->state;
	if (!may_go(ibv_qp->state, to, mask) || (mask & IBV_QP_PORT && attr->port_num != 1)) {
		soft_breach("a queue pair cannot go from state %d to %d with mask 0x%x",
			    ibv_qp->state, to, mask);
		ret = EINVAL;
	} else {
		if (mask & IBV_QP_QKEY)
			qp->port.qkey = attr->qkey;
		if (mask & IBV_QP_RNR_RETRY)
			qp->port.sender.rnr_retry = attr->rnr_retry;
		if (mask & IBV_QP_STATE)
			go(qp, to);
	}
	soft_unlock();
	return ret;
}

int soft_ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_qp_init_attr *init)
{
	struct soft_qp *qp = soft_qp_of(ibv_qp);
	struct ibv_qp_cap cap = {
		.max_send_wr = qp->sq_size,
		.max_recv_wr = qp->rq_size,
		.max_send_sge = SOFT_MAX_SGE,
		.max_recv_sge = SOFT_MAX_SGE,
		.max_inline_data = SOFT_INLINE,
	};
	(void)mask;
	soft_lock();
	*attr = (struct ibv_qp_attr){.qp_state = ibv_qp->state,
				     .cur_qp_state = ibv_qp->state,
				     .port_num = 1,
				     .qkey = qp->port.qkey,
				     .cap = cap,
				     .rnr_retry = (uint8_t)qp->port.sender.rnr_retry};
	soft_unlock();
	*init = (struct ibv_qp_init_attr){.qp_context = ibv_qp->qp_context,
					  .send_cq = ibv_qp->send_cq,
					  .recv_cq = ibv_qp->recv_cq,
					  .cap = cap,
					  .qp_type = ibv_qp->qp_type};
	return 0;
}

/* One line in one write, so that processes that share the file do not mix. */
static void tell(const struct soft_qp *qp)
{
	const struct sefa_counters *c = &qp->port.counters;
	char line[320];
	if (!soft.config.stats)
		return;
	int len = snprintf(line, sizeof(line),
			   "pid=%d qpn=%" PRIu32 " sent=%" PRIu64 " received=%" PRIu64
			   " again=%" PRIu64 " duplicates=%" PRIu64 " malformed=%" PRIu64
			   " strangers=%" PRIu64 " not_ready=%" PRIu64 " bad_qkey=%" PRIu64
			   " rnr=%" PRIu64 " given_up=%" PRIu64 "\n",
			   (int)getpid(), qp->ex.qp_base.qp_num, c->sent, c->received, c->again,
			   c->duplicates, c->malformed, c->strangers, c->not_ready, c->bad_qkey,
			   c->rnr, c->given_up);
	int fd = open(soft.config.stats, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, line, (size_t)len) != len)
		fprintf(stderr, "softefa: %s: cannot be written\n", soft.config.stats);
	close(fd);
}

int soft_ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	struct soft_qp *qp = soft_qp_of(ibv_qp);
	soft_lock();
	LIST_REMOVE(qp, link);
	if (qp->net) {
		tell(qp);
		qp->net->close(qp->net);
	}
	sefa_port_clear(&qp->port);
	soft_cq_purge(qp->send_cq, ibv_qp->qp_num);
	soft_cq_purge(qp->recv_cq, ibv_qp->qp_num);
	qp->send_cq->users--;
	qp->recv_cq->users--;
	((struct soft_pd *)ibv_qp->pd)->users--;
	if (LIST_EMPTY(&soft.qps))
		soft_thread_stop();
	soft_unlock();
	free_queues(qp);
	free_base(qp);
	free(qp);
	return 0;
}
