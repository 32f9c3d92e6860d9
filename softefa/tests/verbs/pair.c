/* SPDX-License-Identifier: MIT */
/* Two queue pairs of the software device, see pair.h. */
#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 20

void fill(uint8_t *memory, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		memory[i] = (uint8_t)(i * 5 + i / 256 + seed);
}

bool is_filled(const uint8_t *memory, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (memory[i] != (uint8_t)(i * 5 + i / 256 + seed))
			return false;
	}
	return true;
}

struct ibv_context *open_device(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_non_null(list);
	assert_int_equal(count, 1);
	assert_string_equal(ibv_get_device_name(list[0]), "softefa0");
	struct ibv_context *context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	return context;
}

int create_qp(struct ibv_pd *pd, struct ibv_cq_ex *cq, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = 32},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	*qp = efadv_create_qp_ex(pd->context, &attr, &efa, sizeof(efa));
	return *qp ? 0 : errno;
}

void make_ready(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.rnr_retry = 7;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY),
			 0);
}

static void end_open(struct pair *pair, struct end *end, uint32_t qkey)
{
	end->channel = ibv_create_comp_channel(pair->context);
	assert_non_null(end->channel);
	struct ibv_cq_init_attr_ex attr = {.cqe = 256,
					   .channel = end->channel,
					   .cq_context = end,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	end->cq = efadv_create_cq(pair->context, &attr, &efa, sizeof(efa));
	assert_non_null(end->cq);
	assert_int_equal(create_qp(pair->pd, end->cq, &end->qp), 0);
	end->ex = ibv_qp_to_qp_ex(end->qp);
	end->qkey = qkey;
	make_ready(end->qp, qkey);
	end->memory = calloc(1, MEMORY);
	assert_non_null(end->memory);
	end->mr = ibv_reg_mr(pair->pd, end->memory, MEMORY,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(end->mr);
}

void pair_open(struct pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	pair->context = open_device();
	pair->pd = ibv_alloc_pd(pair->context);
	assert_non_null(pair->pd);
	for (uint32_t i = 0; i < 2; i++)
		end_open(pair, &pair->end[i], 1000 + i);
	for (int i = 0; i < 2; i++) {
		struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
		assert_int_equal(ibv_query_gid(pair->context, 1, 0, &attr.grh.dgid), 0);
		pair->end[i].ah = ibv_create_ah(pair->pd, &attr);
		assert_non_null(pair->end[i].ah);
	}
}

void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct end *end = &pair->end[i];
		assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(end->cq)), EBUSY);
		assert_int_equal(ibv_destroy_qp(end->qp), 0);
		assert_int_equal(ibv_destroy_comp_channel(end->channel), EBUSY);
		assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(end->cq)), 0);
		assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
		if (end->mr)
			assert_int_equal(ibv_dereg_mr(end->mr), 0);
		assert_int_equal(ibv_dealloc_pd(pair->pd), EBUSY);
		assert_int_equal(ibv_destroy_ah(end->ah), 0);
		free(end->memory);
	}
	assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
	assert_int_equal(ibv_close_device(pair->context), 0);
}

int post_recv(struct end *end, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)end->memory, .length = len, .lkey = end->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	return ibv_post_recv(end->qp, &wr, &bad);
}

int post_send(struct pair *pair, int from, uint64_t wr_id, uint32_t len)
{
	struct end *end = &pair->end[from], *other = &pair->end[!from];
	ibv_wr_start(end->ex);
	end->ex->wr_id = wr_id;
	ibv_wr_send(end->ex);
	ibv_wr_set_sge(end->ex, end->mr->lkey, (uintptr_t)end->memory, len);
	ibv_wr_set_ud_addr(end->ex, end->ah, other->qp->qp_num, other->qkey);
	return ibv_wr_complete(end->ex);
}

bool poll_once(struct end *end, struct got *got)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = end->cq;
	int ret = ibv_start_poll(cq, &attr);
	if (ret != 0) {
		assert_int_equal(ret, ENOENT);
		return false;
	}
	ibv_end_poll(cq);
	/* All of it can still be read. */
	*got = (struct got){
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = ibv_wc_read_opcode(cq),
		.vendor = ibv_wc_read_vendor_err(cq),
		.len = ibv_wc_read_byte_len(cq),
		.qp_num = ibv_wc_read_qp_num(cq),
		.src_qp = ibv_wc_read_src_qp(cq),
		.slid = ibv_wc_read_slid(cq),
		.flags = ibv_wc_read_wc_flags(cq),
		.imm = ntohl(ibv_wc_read_imm_data(cq)),
	};
	return true;
}

struct got next(struct end *end)
{
	struct got got;
	time_t until = time(NULL) + PATIENCE_S;
	while (!poll_once(end, &got)) {
		if (time(NULL) > until)
			fail_msg("no completion within %d s", PATIENCE_S);
	}
	return got;
}
