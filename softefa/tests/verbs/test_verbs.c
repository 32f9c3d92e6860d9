/* SPDX-License-Identifier: MIT */
/* The verbs as EFA's provider uses them, and the corners of their contract that it leans on. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

static void device_says_what_it_is(void **state)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr attr;
	struct efadv_device_attr efa;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;
	char path[PATH_MAX], real[PATH_MAX];
	(void)state;
	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_non_null(strstr(attr.fw_ver, "softefa"));
	assert_int_equal(attr.vendor_id, 0x1d0f);
	assert_int_equal(attr.vendor_part_id, 0xefa2);
	assert_int_equal(efadv_query_device(context, &efa, sizeof(efa)), 0);
	assert_int_equal(efa.max_sq_sge, 2);
	assert_true(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
	assert_true(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
	/* A caller that knows less gets less, one that knows more gets zeros. */
	struct {
		struct efadv_device_attr efa;
		uint8_t more[16];
	} large;
	memset(&large, 0xff, sizeof(large));
	assert_int_equal(efadv_query_device(context, &large.efa, 12), 0);
	assert_int_equal(large.efa.max_sq_wr, efa.max_sq_wr);
	assert_int_equal(large.efa.max_rq_wr, UINT32_MAX);
	assert_int_equal(efadv_query_device(context, &large.efa, sizeof(large)), 0);
	assert_int_equal(large.efa.max_rq_wr, efa.max_rq_wr);
	assert_int_equal(large.more[15], 0);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.max_msg_sz, 8760);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	static const uint8_t expected[16] = {0xfe, 0x80, 0, 0, 0,   0, 0, 0,
					     0x5e, 0xfa, 0, 0, 127, 0, 0, 1};
	assert_memory_equal(gid.raw, expected, 16);
	assert_int_equal(ibv_query_gid(context, 1, 1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	assert_memory_equal(entry.gid.raw, expected, 16);
	assert_int_equal(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	assert_int_equal(ibv_fork_init(), 0);
	assert_true(ibv_get_device_guid(context->device) != 0);
	assert_int_equal(ibv_get_device_index(context->device), -1);
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	/* The files. */
	snprintf(path, sizeof(path), "%s/device/driver", context->device->ibdev_path);
	assert_non_null(realpath(path, real));
	assert_string_equal(strrchr(real, '/'), "/softefa");
	assert_non_null(getenv("SYSFS_PATH"));
	snprintf(path, sizeof(path), "%s/class/infiniband_verbs/abi_version", getenv("SYSFS_PATH"));
	assert_int_equal(access(path, R_OK), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void what_it_has_not_got_is_declined(void **state)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	struct efadv_qp_init_attr efa = {0};
	(void)state;
	/* With a protection domain alone, the header makes the plain call of it. */
	assert_null(ibv_create_qp_ex(context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(efadv_create_qp_ex(context, &attr, &efa, sizeof(efa)));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.qp_type = IBV_QPT_DRIVER;
	efa.driver_qp_type = 1;
	assert_null(efadv_create_qp_ex(context, &attr, &efa, sizeof(efa)));
	assert_int_equal(errno, EOPNOTSUPP);
	efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
	assert_null(efadv_create_qp_ex(context, &attr, &efa, sizeof(efa)));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	assert_null(efadv_create_qp_ex(context, &attr, &efa, sizeof(efa)));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 1, 0));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_srq(pd, NULL));
	assert_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	struct ibv_cq_init_attr_ex cq = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	assert_null(ibv_create_cq_ex(context, &cq));
	struct efadv_cq_init_attr dv = {.comp_mask = 1};
	cq.wc_flags = 0;
	assert_null(efadv_create_cq(context, &cq, &dv, sizeof(dv)));
	struct {
		struct efadv_cq_init_attr dv;
		uint64_t more[4];
	} large = {.more = {0, 1}};
	assert_null(efadv_create_cq(context, &cq, &large.dv, sizeof(large)));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void messages(void **state)
{
	static const uint32_t sizes[] = {0, 1, 32, 33, 8760};
	struct pair pair;
	(void)state;
	pair_open(&pair);
	for (unsigned i = 0; i < 5; i++) {
		for (int from = 0; from < 2; from++) {
			struct end *to = &pair.end[!from];
			fill(pair.end[from].memory, sizes[i], i);
			assert_int_equal(post_recv(to, 7, 8760), 0);
			assert_int_equal(post_send(&pair, from, 8, sizes[i]), 0);
			struct got got = next(to);
			assert_int_equal(got.wr_id, 7);
			assert_int_equal(got.status, IBV_WC_SUCCESS);
			assert_int_equal(got.opcode, IBV_WC_RECV);
			assert_int_equal(got.len, sizes[i]);
			assert_int_equal(got.qp_num, to->qp->qp_num);
			assert_int_equal(got.src_qp, pair.end[from].qp->qp_num);
			assert_int_equal(got.flags, 0);
			assert_true(is_filled(to->memory, sizes[i], i));
			got = next(&pair.end[from]);
			assert_int_equal(got.wr_id, 8);
			assert_int_equal(got.status, IBV_WC_SUCCESS);
			assert_int_equal(got.opcode, IBV_WC_SEND);
		}
	}
	pair_close(&pair);
}

static void lists_inline_and_immediate_data(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	fill(a->memory, 8000, 1);
	struct ibv_sge list[2] = {{(uintptr_t)a->memory, 3000, a->mr->lkey},
				  {(uintptr_t)a->memory + 3000, 5000, a->mr->lkey}};
	assert_int_equal(post_recv(b, 1, 8760), 0);
	assert_int_equal(post_recv(b, 2, 8760), 0);
	/* Two in one go; receives may be posted and completions polled meanwhile. */
	ibv_wr_start(a->ex);
	a->ex->wr_id = 11;
	ibv_wr_send_imm(a->ex, htonl(0xabcd));
	ibv_wr_set_sge_list(a->ex, 2, list);
	ibv_wr_set_ud_addr(a->ex, a->ah, b->qp->qp_num, b->qkey);
	struct got got;
	assert_false(poll_once(b, &got));
	assert_int_equal(post_recv(a, 3, 100), 0);
	a->ex->wr_id = 12;
	ibv_wr_send(a->ex);
	char bytes[] = "inline data in", more[] = " two pieces";
	struct ibv_data_buf bufs[2] = {{bytes, strlen(bytes)}, {more, sizeof(more)}};
	ibv_wr_set_inline_data_list(a->ex, 2, bufs);
	ibv_wr_set_ud_addr(a->ex, a->ah, b->qp->qp_num, b->qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	memset(bytes, 0, sizeof(bytes));
	bool was[3] = {false};
	for (int i = 0; i < 2; i++) {
		got = next(b);
		assert_int_equal(got.status, IBV_WC_SUCCESS);
		bool imm = got.flags & IBV_WC_WITH_IMM;
		was[imm] = true;
		assert_int_equal(got.len, imm ? 8000 : 26);
		if (imm)
			assert_int_equal(got.imm, 0xabcd);
	}
	assert_true(was[0] && was[1]);
	/* Nothing of one that was dropped is sent. */
	ibv_wr_start(a->ex);
	ibv_wr_send(a->ex);
	ibv_wr_set_inline_data(a->ex, more, 1);
	ibv_wr_abort(a->ex);
	assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	assert_false(poll_once(a, &got));
	pair_close(&pair);
}

static void older_form_of_posting(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	fill(a->memory, 100, 3);
	struct ibv_sge sge = {(uintptr_t)a->memory, 100, a->mr->lkey};
	struct ibv_sge small = {(uintptr_t)a->memory, 20, 0};
	struct ibv_send_wr third = {.wr_id = 3, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP};
	struct ibv_send_wr second = {.wr_id = 2,
				     .next = &third,
				     .sg_list = &small,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND_WITH_IMM,
				     .send_flags = IBV_SEND_INLINE,
				     .imm_data = htonl(5)};
	struct ibv_send_wr first = {
		.wr_id = 1, .next = &second, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad = NULL;
	first.wr.ud.ah = second.wr.ud.ah = a->ah;
	first.wr.ud.remote_qpn = second.wr.ud.remote_qpn = b->qp->qp_num;
	first.wr.ud.remote_qkey = second.wr.ud.remote_qkey = b->qkey;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(post_recv(b, i, 8760), 0);
	assert_int_equal(ibv_post_send(a->qp, &first, &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &third);
	struct ibv_wc wc[4] = {{0}};
	int count = 0;
	for (time_t until = time(NULL) + 20; count < 2 && time(NULL) < until;) {
		int got = ibv_poll_cq(ibv_cq_ex_to_cq(b->cq), 4 - count, wc + count);
		assert_true(got >= 0);
		count += got;
	}
	assert_int_equal(count, 2);
	assert_int_equal(wc[0].byte_len + wc[1].byte_len, 120);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(b->cq), 0, wc), 0);
	pair_close(&pair);
}

static void one_sided(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	const uint32_t len = 1 << 20;
	/* What is read is left alone from now on: the device may answer a repeated request late. */
	uint8_t *source = b->memory + len;
	fill(source, len, 2);
	for (int op = 0; op < 3; op++) {
		fill(a->memory, len, 1);
		fill(b->memory, len, 2);
		ibv_wr_start(a->ex);
		a->ex->wr_id = 5;
		if (op == 0)
			ibv_wr_rdma_read(a->ex, b->mr->rkey, (uintptr_t)source);
		else if (op == 1)
			ibv_wr_rdma_write(a->ex, b->mr->rkey, (uintptr_t)b->memory);
		else
			ibv_wr_rdma_write_imm(a->ex, b->mr->rkey, (uintptr_t)b->memory, htonl(9));
		ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory, len);
		ibv_wr_set_ud_addr(a->ex, a->ah, b->qp->qp_num, b->qkey);
		assert_int_equal(ibv_wr_complete(a->ex), 0);
		if (op == 2)
			assert_int_equal(post_recv(b, 6, 0), 0);
		/* The target's program does nothing; the device does. */
		struct got got = next(a);
		assert_int_equal(got.status, IBV_WC_SUCCESS);
		/* A read is reported as a send: libfabric 1.17 waits for that. */
		assert_int_equal(got.opcode, op == 0 ? IBV_WC_SEND : IBV_WC_RDMA_WRITE);
		assert_true(is_filled(op == 0 ? a->memory : b->memory, len, op == 0 ? 2 : 1));
		if (op == 2) {
			got = next(b);
			assert_int_equal(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			assert_int_equal(got.imm, 9);
			assert_int_equal(got.len, len);
		}
	}
	pair_close(&pair);
}

/* What a request with a wrong address, key or range ends with. */
static struct got attempt(struct pair *pair, int op, uint32_t qpn, uint32_t qkey, uint32_t rkey,
			  uint32_t len)
{
	struct end *a = &pair->end[0];
	ibv_wr_start(a->ex);
	a->ex->wr_id = 1;
	if (op == 0)
		ibv_wr_send(a->ex);
	else if (op == 1)
		ibv_wr_rdma_read(a->ex, rkey, (uintptr_t)pair->end[1].memory + MEMORY - 100);
	else
		ibv_wr_rdma_write(a->ex, rkey, (uintptr_t)pair->end[1].memory + MEMORY - 100);
	ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory, len);
	ibv_wr_set_ud_addr(a->ex, a->ah, qpn, qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	return next(a);
}

static void wrong_places_have_their_codes(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *b = &pair.end[1];
	uint32_t qpn = b->qp->qp_num;
	for (int op = 0; op < 3; op++) {
		assert_int_equal(post_recv(b, 1, 50), 0);
		struct got got = attempt(&pair, op, qpn, b->qkey + 1, b->mr->rkey, 40);
		assert_int_equal(got.vendor, 9);
		assert_int_equal(got.status, IBV_WC_REM_INV_RD_REQ_ERR);
		/* A port at which nobody is. */
		got = attempt(&pair, op, 1, b->qkey, b->mr->rkey, 40);
		assert_int_equal(got.vendor, 9);
		got = attempt(&pair, op, qpn, b->qkey, b->mr->rkey, op == 0 ? 51 : 101);
		assert_int_equal(got.vendor, op == 0 ? 11 : 7);
		assert_int_equal(got.status,
				 op == 0 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		if (op == 0)
			continue;
		got = attempt(&pair, op, qpn, b->qkey, b->mr->rkey + 1, 100);
		assert_int_equal(got.vendor, 7);
		got = attempt(&pair, op, qpn, b->qkey, 0, 100);
		assert_int_equal(got.vendor, 7);
		got = attempt(&pair, op, qpn, b->qkey, b->mr->rkey, 100);
		assert_int_equal(got.status, IBV_WC_SUCCESS);
	}
	/* A key whose region is gone opens nothing, also when another region has its place. */
	uint32_t old = b->mr->rkey;
	assert_int_equal(ibv_dereg_mr(b->mr), 0);
	assert_int_equal(attempt(&pair, 1, qpn, b->qkey, old, 100).vendor, 7);
	b->mr = ibv_reg_mr(pair.pd, b->memory, MEMORY,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(b->mr);
	assert_int_equal(attempt(&pair, 1, qpn, b->qkey, b->mr->rkey, 100).status, IBV_WC_SUCCESS);
	assert_int_equal(attempt(&pair, 2, qpn, b->qkey, b->mr->rkey, 100).vendor, 7);
	pair_close(&pair);
}

static void addresses(void **state)
{
	struct pair pair;
	struct efadv_ah_attr attr[3];
	union ibv_gid gid;
	(void)state;
	pair_open(&pair);
	struct ibv_ah_attr other = {.port_num = 1, .is_global = 1};
	ibv_query_gid(pair.context, 1, 0, &other.grh.dgid);
	other.grh.dgid.raw[15] = 77;
	struct ibv_ah *ah = ibv_create_ah(pair.pd, &other);
	assert_non_null(ah);
	/* The same GID, the same number; another one, another. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(efadv_query_ah(pair.end[i].ah, &attr[i], sizeof(attr[i])), 0);
	assert_int_equal(efadv_query_ah(ah, &attr[2], sizeof(attr[2])), 0);
	assert_int_equal(attr[0].ahn, attr[1].ahn);
	assert_int_not_equal(attr[0].ahn, attr[2].ahn);
	/* The source is told by the number where there is one, and by the GID only otherwise. */
	struct efadv_cq *dv = efadv_cq_from_ibv_cq_ex(pair.end[1].cq);
	assert_int_equal(post_recv(&pair.end[1], 1, 100), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(next(&pair.end[1]).slid, attr[0].ahn);
	assert_true(efadv_wc_read_sgid(dv, &gid) < 0);
	next(&pair.end[0]);
	/* Both handles go; the first QP's host is now unknown. The sender keeps none, either. */
	ibv_wr_start(pair.end[0].ex);
	ibv_wr_send(pair.end[0].ex);
	ibv_wr_set_inline_data(pair.end[0].ex, &gid, 1);
	ibv_wr_set_ud_addr(pair.end[0].ex, pair.end[0].ah, pair.end[1].qp->qp_num,
			   pair.end[1].qkey);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_ah(pair.end[i].ah), 0);
	assert_int_equal(post_recv(&pair.end[1], 1, 100), 0);
	assert_int_equal(ibv_wr_complete(pair.end[0].ex), 0);
	assert_int_equal(next(&pair.end[1]).slid, 0xffff);
	assert_int_equal(efadv_wc_read_sgid(dv, &gid), 0);
	union ibv_gid own;
	ibv_query_gid(pair.context, 1, 0, &own);
	assert_memory_equal(gid.raw, own.raw, 16);
	/* A GID of another fabric. */
	other.grh.dgid.raw[8] ^= 1;
	assert_null(ibv_create_ah(pair.pd, &other));
	assert_int_equal(errno, EINVAL);
	other.grh.dgid.raw[8] ^= 1;
	for (int i = 0; i < 2; i++) {
		pair.end[i].ah = ibv_create_ah(pair.pd, &other);
		assert_non_null(pair.end[i].ah);
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
}

static void registration_looks_at_the_pages(void **state)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map =
		/* cppcheck-suppress invalidFunctionArg ; memory without a file has no descriptor */
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(map != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(pd, map, 4 * page, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, map);
	assert_int_equal(mr->length, 4 * page);
	assert_int_equal(mr->lkey, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mprotect(map + page, page, PROT_READ), 0);
	assert_null(ibv_reg_mr(pd, map, 4 * page, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(pd, map + 1, 4 * page - 1, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(map + 2 * page, page), 0);
	assert_null(ibv_reg_mr(pd, map, 4 * page, 0));
	assert_null(ibv_reg_mr(pd, (void *)(UINTPTR_MAX - 10), 100, 0));
	assert_null(ibv_reg_mr(pd, map, 10, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(munmap(map, 4 * page), 0);
	/* Many at once, all with keys of their own. */
	static struct ibv_mr *many[300];
	static char bytes[300];
	for (int i = 0; i < 300; i++) {
		many[i] = ibv_reg_mr(pd, bytes + i, 1, 0);
		assert_non_null(many[i]);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(many[i]->lkey, many[j]->lkey);
	}
	for (int i = 0; i < 300; i++)
		assert_int_equal(ibv_dereg_mr(many[i]), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void regions_with_an_address_of_their_own(void **state)
{
	struct pair pair;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	struct ibv_mr *mr =
		ibv_reg_mr_iova(pair.pd, b->memory + 4096, 4096, 0x10000, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	fill(b->memory, 8192, 5);
	ibv_wr_start(a->ex);
	ibv_wr_rdma_read(a->ex, mr->rkey, 0x10000);
	ibv_wr_set_sge(a->ex, a->mr->lkey, (uintptr_t)a->memory, 4096);
	ibv_wr_set_ud_addr(a->ex, a->ah, b->qp->qp_num, b->qkey);
	assert_int_equal(ibv_wr_complete(a->ex), 0);
	assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	assert_memory_equal(a->memory, b->memory + 4096, 4096);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

static void full_queues_say_so(void **state)
{
	struct pair pair;
	struct got got;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0], *b = &pair.end[1];
	for (uint64_t i = 0; i < 64; i++) {
		assert_int_equal(post_recv(a, i, 10), 0);
		assert_int_equal(post_send(&pair, 0, i, 10), 0);
	}
	assert_int_equal(post_recv(a, 64, 10), ENOMEM);
	assert_int_equal(post_send(&pair, 0, 64, 10), ENOMEM);
	/* The peer has no buffer: nothing ends, and nothing is lost once it has some. */
	assert_false(poll_once(a, &got));
	for (uint64_t i = 0; i < 64; i++)
		assert_int_equal(post_recv(b, i, 10), 0);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(next(a).status, IBV_WC_SUCCESS);
		assert_int_equal(next(b).status, IBV_WC_SUCCESS);
	}
	assert_false(poll_once(b, &got));
	pair_close(&pair);
}

static void states(void **state)
{
	struct pair pair;
	struct got got;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0];
	assert_int_equal(ibv_query_qp(a->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.qkey, 1000);
	assert_int_equal(init.cap.max_send_wr, 64);
	/* An error ends everything that was posted. */
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(post_recv(a, i, 10), 0);
		assert_int_equal(post_send(&pair, 0, 10 + i, 10), 0);
	}
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
	int sends = 0, receives = 0;
	while (poll_once(a, &got)) {
		assert_int_equal(got.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(got.vendor, 1);
		if (got.opcode == IBV_WC_RECV)
			receives++;
		else
			sends++;
	}
	assert_int_equal(sends, 3);
	assert_int_equal(receives, 3);
	/* And it can be used again. */
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
	make_ready(a->qp, a->qkey);
	/* What was ended may have been under way, and may take a receive. */
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_recv(&pair.end[1], i, 10), 0);
	assert_int_equal(post_send(&pair, 0, 1, 10), 0);
	assert_int_equal(next(a).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void destroying_a_queue_pair_purges_its_completions(void **state)
{
	struct pair pair;
	struct got got;
	struct ibv_qp *extra;
	(void)state;
	pair_open(&pair);
	struct end *a = &pair.end[0];
	assert_int_equal(create_qp(pair.pd, a->cq, &extra), 0);
	make_ready(extra, 5);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge sge = {(uintptr_t)a->memory, 10, a->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_post_recv(extra, &wr, &bad), 0);
		assert_int_equal(post_recv(a, 100, 10), 0);
	}
	assert_int_equal(ibv_modify_qp(extra, &attr, IBV_QP_STATE), 0);
	assert_int_equal(post_send(&pair, 1, 1, 10), 0);
	assert_int_equal(next(&pair.end[1]).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(extra), 0);
	got = next(a);
	assert_int_equal(got.wr_id, 100);
	assert_false(poll_once(a, &got));
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_says_what_it_is),
		cmocka_unit_test(what_it_has_not_got_is_declined),
		cmocka_unit_test(messages),
		cmocka_unit_test(lists_inline_and_immediate_data),
		cmocka_unit_test(older_form_of_posting),
		cmocka_unit_test(one_sided),
		cmocka_unit_test(wrong_places_have_their_codes),
		cmocka_unit_test(addresses),
		cmocka_unit_test(registration_looks_at_the_pages),
		cmocka_unit_test(regions_with_an_address_of_their_own),
		cmocka_unit_test(full_queues_say_so),
		cmocka_unit_test(states),
		cmocka_unit_test(destroying_a_queue_pair_purges_its_completions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
