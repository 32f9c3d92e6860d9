/* SPDX-License-Identifier: MIT */
/* Completion queues, and the readers of what was polled. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

static struct soft_cq *of(struct ibv_cq_ex *ex)
{
	return (struct soft_cq *)ex;
}

static enum ibv_wc_status verbs_status(enum sefa_status status)
{
	switch (status) {
	case SEFA_OK:
		return IBV_WC_SUCCESS;
	case SEFA_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case SEFA_QP_ERROR:
	case SEFA_UNSUPPORTED_OP:
	case SEFA_INVALID_AH:
		return IBV_WC_LOC_QP_OP_ERR;
	case SEFA_INVALID_LKEY:
		return IBV_WC_LOC_PROT_ERR;
	case SEFA_LOCAL_LENGTH:
		return IBV_WC_LOC_LEN_ERR;
	case SEFA_BAD_ADDRESS:
		return IBV_WC_REM_ACCESS_ERR;
	case SEFA_ABORTED:
		return IBV_WC_REM_ABORT_ERR;
	case SEFA_BAD_QPN:
		return IBV_WC_REM_INV_RD_REQ_ERR;
	case SEFA_RNR:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case SEFA_REMOTE_LENGTH:
		return IBV_WC_REM_INV_REQ_ERR;
	case SEFA_BAD_STATUS:
		return IBV_WC_BAD_RESP_ERR;
	case SEFA_UNRESPONSIVE:
	case SEFA_UNREACHABLE:
		return IBV_WC_RESP_TIMEOUT_ERR;
	case SEFA_UNKNOWN_PEER:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_GENERAL_ERR;
	}
}

void soft_cq_push(struct soft_cq *cq, const struct soft_wc *wc)
{
	if (cq->count == cq->size) {
		soft_breach("a completion queue of %u entries is full", cq->size);
		cq->overrun = true;
		return;
	}
	cq->ring[(cq->head + cq->count++) % cq->size] = *wc;
	if (cq->armed) {
		cq->armed = false;
		soft_channel_signal((struct soft_channel *)cq->ex.channel, cq);
	}
}

void soft_cq_purge(struct soft_cq *cq, uint32_t qp_num)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < cq->count; i++) {
		struct soft_wc wc = cq->ring[(cq->head + i) % cq->size];
		if (wc.qp_num != qp_num)
			cq->ring[(cq->head + kept++) % cq->size] = wc;
	}
	cq->count = kept;
}

static bool pop(struct soft_cq *cq)
{
	if (cq->count == 0)
		return false;
	cq->now = cq->ring[cq->head];
	cq->head = (cq->head + 1) % cq->size;
	cq->count--;
	cq->ex.wr_id = cq->now.wr_id;
	cq->ex.status = verbs_status(cq->now.status);
	return true;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct soft_cq *cq = of(ex);
	if (attr->comp_mask)
		return EINVAL;
	if (pthread_mutex_lock(&cq->polling) != 0) {
		soft_breach("start_poll before the end_poll of an earlier one");
		return EINVAL;
	}
	soft_lock();
	cq->polls++;
	soft_progress(cq);
	bool got = pop(cq);
	bool overrun = cq->overrun;
	soft_unlock();
	if (got) {
		cq->open = true;
		return 0;
	}
	pthread_mutex_unlock(&cq->polling);
	return overrun ? EOVERFLOW : ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct soft_cq *cq = of(ex);
	soft_lock();
	bool got = pop(cq);
	soft_unlock();
	return got ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct soft_cq *cq = of(ex);
	if (!cq->open) {
		soft_breach("end_poll without a start_poll that found something");
		return;
	}
	cq->open = false;
	pthread_mutex_unlock(&cq->polling);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of(ex)->now.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of(ex)->now.status;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->now.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return htonl(of(ex)->now.imm);
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->now.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->now.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of(ex)->now.has_imm ? IBV_WC_WITH_IMM : 0;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of(ex)->now.slid;
}

static uint8_t read_nothing(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

/* Only of a source that has no address handle; the others are known by its number. */
static int read_sgid(struct efadv_cq *dv, union ibv_gid *gid)
{
	struct soft_cq *cq = (struct soft_cq *)((char *)dv - offsetof(struct soft_cq, dv));
	if (cq->now.slid != SOFT_NO_AH)
		return -ENOENT;
	soft_gid_make(gid, cq->now.src_ip);
	return 0;
}

static void init_checked(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static struct soft_cq *create(struct ibv_context *context, unsigned size, void *cq_context,
			      struct ibv_comp_channel *channel)
{
	if (size == 0 || size > SOFT_MAX_CQE) {
		errno = EINVAL;
		return NULL;
	}
	struct soft_cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->ring = calloc(size, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return NULL;
	}
	cq->size = size;
	init_checked(&cq->polling);
	struct ibv_cq_ex *ex = &cq->ex;
	ex->context = context;
	ex->channel = channel;
	ex->cq_context = cq_context;
	ex->cqe = (int)size;
	pthread_mutex_init(&ex->mutex, NULL);
	pthread_cond_init(&ex->cond, NULL);
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_nothing;
	ex->read_dlid_path_bits = read_nothing;
	cq->dv.wc_read_sgid = read_sgid;
	if (channel) {
		soft_lock();
		((struct soft_channel *)channel)->users++;
		soft_unlock();
	}
	return cq;
}

struct ibv_cq *soft_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				  struct ibv_comp_channel *channel, int vector)
{
	(void)vector;
	struct soft_cq *cq = create(context, cqe < 0 ? 0 : (unsigned)cqe, cq_context, channel);
	return cq ? (struct ibv_cq *)&cq->ex : NULL;
}

/* As EFA's: no more than the standard readers. */
struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	if ((attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) || attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct soft_cq *cq = create(context, attr->cqe, attr->cq_context, attr->channel);
	return cq ? &cq->ex : NULL;
}

struct ibv_cq_ex *soft_efadv_create_cq(struct ibv_context *ibvctx,
				       struct ibv_cq_init_attr_ex *attr,
				       struct efadv_cq_init_attr *efa, uint32_t len)
{
	if (len < offsetof(struct efadv_cq_init_attr, wc_flags) + sizeof(efa->wc_flags) ||
	    efa->comp_mask || (efa->wc_flags & ~(uint64_t)EFADV_WC_EX_WITH_SGID)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/*
	 * What newer headers have behind that asks for memory of the caller's own, which this
	 * device has not got.
	 */
	for (uint32_t i = offsetof(struct efadv_cq_init_attr, wc_flags) + sizeof(efa->wc_flags);
	     i < len; i++) {
		if (((const char *)efa)[i] != 0) {
			errno = EOPNOTSUPP;
			return NULL;
		}
	}
	return soft_create_cq_ex(ibvctx, attr);
}

struct efadv_cq *soft_efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ibvcqx)
{
	return &of(ibvcqx)->dv;
}

int soft_ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct soft_cq *cq = soft_cq_of(ibv_cq);
	struct soft_channel *channel = (struct soft_channel *)cq->ex.channel;
	soft_lock();
	if (cq->users > 0 || cq->events != cq->ex.comp_events_completed) {
		bool events = cq->users == 0;
		soft_unlock();
		if (events)
			soft_breach("a completion queue is destroyed before its events are "
				    "acknowledged");
		return EBUSY;
	}
	if (channel) {
		soft_channel_purge(channel, cq);
		channel->users--;
	}
	soft_unlock();
	pthread_mutex_destroy(&cq->polling);
	pthread_mutex_destroy(&cq->ex.mutex);
	pthread_cond_destroy(&cq->ex.cond);
	free(cq->ring);
	free(cq);
	return 0;
}

int soft_req_notify_cq(struct ibv_cq *ibv_cq, int solicited)
{
	struct soft_cq *cq = soft_cq_of(ibv_cq);
	(void)solicited;
	if (!cq->ex.channel)
		return EINVAL;
	soft_lock();
	cq->armed = true;
	soft_unlock();
	/* The application is about to sleep, so the thread has to take over. */
	soft_thread_wake();
	return 0;
}

int soft_poll_cq(struct ibv_cq *ibv_cq, int count, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	struct soft_cq *cq = soft_cq_of(ibv_cq);
	int got = 0;
	if (count <= 0)
		return 0;
	int ret = start_poll(&cq->ex, &attr);
	if (ret != 0)
		return ret == ENOENT ? 0 : -1;
	do {
		wc[got] = (struct ibv_wc){
			.wr_id = cq->now.wr_id,
			.status = cq->ex.status,
			.opcode = cq->now.opcode,
			.vendor_err = cq->now.status,
			.byte_len = cq->now.byte_len,
			.imm_data = htonl(cq->now.imm),
			.qp_num = cq->now.qp_num,
			.src_qp = cq->now.src_qp,
			.wc_flags = read_wc_flags(&cq->ex),
			.slid = cq->now.slid,
		};
		got++;
	} while (got < count && next_poll(&cq->ex) == 0);
	end_poll(&cq->ex);
	return got;
}
