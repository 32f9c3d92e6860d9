/* SPDX-License-Identifier: MIT */
/* Two queue pairs of the software device in one process, used through the verbs as libfabric uses them. */
#ifndef SOFTEFA_TESTS_PAIR_H
#define SOFTEFA_TESTS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define MEMORY (2u << 20)

struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_ah *ah; /* of the other one's host, which is this one */
	uint8_t *memory;
	struct ibv_mr *mr;
	uint32_t qkey;
};

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct end end[2];
};

/* A completion. */
struct got {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor, len, qp_num, src_qp, slid;
	unsigned flags;
	uint32_t imm;
};

struct ibv_context *open_device(void);
/* Both queue pairs are ready to send. */
void pair_open(struct pair *pair);
void pair_close(struct pair *pair);

int create_qp(struct ibv_pd *pd, struct ibv_cq_ex *cq, struct ibv_qp **qp);
void make_ready(struct ibv_qp *qp, uint32_t qkey);

/* Posts a receive of len bytes at the beginning of the end's memory. Returns what the verbs do. */
int post_recv(struct end *end, uint64_t wr_id, uint32_t len);
/* Sends len bytes at the beginning of the end's memory to the other end. */
int post_send(struct pair *pair, int from, uint64_t wr_id, uint32_t len);

/* The next completion of a queue; fails the test if none comes in time. */
struct got next(struct end *end);
/* Whether there is one now. */
bool poll_once(struct end *end, struct got *got);

void fill(uint8_t *memory, size_t len, unsigned seed);
bool is_filled(const uint8_t *memory, size_t len, unsigned seed);

#endif
