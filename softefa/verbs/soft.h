/* SPDX-License-Identifier: MIT */
/*
 * The objects behind the verbs, each beginning with what the application sees of it. All that is not said otherwise is
 * protected by soft.lock.
 */
#ifndef SOFT_H
#define SOFT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include "config.h"
#include "core/port.h"
#include "sysfs/tree.h"

#define SOFT_NAME "softefa0"

/* Limits that the device states. */
#define SOFT_MAX_WR 1024
#define SOFT_MAX_SGE 2
#define SOFT_INLINE 32
#define SOFT_MAX_QP 65536 /* libfabric finds a queue pair by its number modulo this */
#define SOFT_MAX_CQE 65536
#define SOFT_MAX_RDMA (1u << 20)
#define SOFT_NO_AH 0xffff

struct soft_qp;
struct soft_cq;

struct soft_pd {
	struct ibv_pd pd;
	unsigned users;
};

struct soft_mr {
	struct ibv_mr mr;
	uint64_t iova;
	unsigned access;
};

/* A host that has an address handle. */
struct soft_host {
	LIST_ENTRY(soft_host) link;
	uint32_t ip;
	uint16_t number;
	unsigned users;
};

struct soft_ah {
	struct ibv_ah ah;
	struct soft_host *host;
};

struct soft_channel {
	struct ibv_comp_channel channel;
	int write_fd;
	unsigned users;
};

struct soft_wc {
	uint64_t wr_id;
	enum sefa_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint32_t imm; /* in host byte order */
	bool has_imm;
	uint32_t qp_num;
	uint16_t src_qp;
	uint16_t slid;
	uint32_t src_ip;
};

struct soft_cq {
	struct ibv_cq_ex ex;
	struct efadv_cq dv;
	pthread_mutex_t polling; /* held from a start_poll that found something to end_poll */
	bool open;               /* between the two; the poller's */
	struct soft_wc now;      /* what the readers read; the poller's */
	struct soft_wc *ring;
	unsigned size, head, count;
	unsigned users;
	bool armed;
	bool overrun;
	uint32_t events; /* that the application has taken from the channel */
	uint64_t polls;
};

struct soft_recv {
	uint64_t wr_id;
	int pieces;
	struct ibv_sge sge[SOFT_MAX_SGE];
};

struct soft_send {
	struct sefa_op op;
	SLIST_ENTRY(soft_send) free;
	uint64_t wr_id;
	struct sefa_end to;
	uint32_t qkey;
	bool has_to;
	bool is_inline;
	int pieces;
	struct ibv_sge sge[SOFT_MAX_SGE];
	uint8_t bytes[SOFT_INLINE];
};

struct soft_qp {
	struct ibv_qp_ex ex;
	LIST_ENTRY(soft_qp) link;
	struct sefa_port port;
	struct sefa_net *net;
	int fd;
	uint64_t next;      /* when the port has something to do */
	uint64_t seen_poll; /* of the completion queues, when the thread last looked */
	struct soft_cq *send_cq, *recv_cq;
	struct soft_recv *rq;
	unsigned rq_size, rq_head, rq_count;
	struct soft_send *sq;
	unsigned sq_size;
	SLIST_HEAD(, soft_send) sq_free;
	/* Requests between wr_start and wr_complete: the poster's, who holds `posting`. */
	pthread_mutex_t posting;
	bool open;
	int error;
	unsigned built_count;
	struct soft_send **built;
	struct soft_send *building;
};

/* The device, one a process. */
struct soft {
	pthread_mutex_t lock;
	struct sefa_config config;
	struct ibv_device device;
	struct sefa_tree tree;
	bool has_tree;
	bool qpn_used;
	int pid;
	LIST_HEAD(, soft_qp) qps;
	LIST_HEAD(, soft_host) hosts;
	/* The regions by key: the low bits of a key are the place in here. */
	struct soft_mr **mrs;
	uint32_t mr_size;
	uint32_t mr_next;
	/* The thread that works while the application does not poll; it runs while there is a queue pair. */
	pthread_t thread;
	bool running, stop;
	uint64_t sleeps_until; /* 0: it is awake */
	int wake_fd, epoll_fd;
};

extern struct soft soft;

static inline void soft_lock(void)
{
	pthread_mutex_lock(&soft.lock);
}

static inline void soft_unlock(void)
{
	pthread_mutex_unlock(&soft.lock);
}

static inline struct soft_qp *soft_qp_of(struct ibv_qp *qp)
{
	return (struct soft_qp *)qp;
}

static inline struct soft_cq *soft_cq_of(struct ibv_cq *cq)
{
	return (struct soft_cq *)cq;
}

uint64_t soft_now(void);

/* strict.c: the application has broken the contract of the verbs. In strict mode the process ends here. */
__attribute__((format(printf, 1, 2))) void soft_breach(const char *format, ...);
/* Whether memory is there, and not poisoned by a sanitizer. Looks in strict mode only. */
bool soft_memory_there(const char *what, const void *addr, size_t len);

/* gid.c */
void soft_gid_make(union ibv_gid *gid, uint32_t ip);
bool soft_gid_ip(const union ibv_gid *gid, uint32_t *ip);

/* memory.c: the region that covers a range under a key, or NULL. */
struct soft_mr *soft_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, unsigned access);
void *soft_mr_at(const struct soft_mr *mr, uint64_t addr);

/* address.c: the number of the address handle for a host, or SOFT_NO_AH. */
uint16_t soft_host_number(uint32_t ip);

/* cq.c */
void soft_cq_push(struct soft_cq *cq, const struct soft_wc *wc);
void soft_cq_purge(struct soft_cq *cq, uint32_t qp_num);

/* channel.c: an armed queue has got a completion. */
void soft_channel_signal(struct soft_channel *channel, struct soft_cq *cq);
/* Takes back the signals of a queue that have not been read. */
void soft_channel_purge(struct soft_channel *channel, const struct soft_cq *cq);

/* transfer.c: what a port asks of the verbs. */
extern const struct sefa_port_ops soft_port_ops;
void soft_qp_flush(struct soft_qp *qp);

/* post.c */
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void soft_qp_set_ops(struct ibv_qp_ex *ex);

/* thread.c */
int soft_thread_start(void);
void soft_thread_stop(void);
int soft_thread_watch(int fd);
void soft_thread_wake(void);
/* Something is due at that time; wakes the thread if it would sleep longer. */
void soft_thread_due(uint64_t due);
/* Work on the queue pairs that complete into cq (NULL: on all whose queues are not being polled). */
void soft_progress(struct soft_cq *cq);

/* For ibv_context. */
struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *soft_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int soft_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited);

#endif
