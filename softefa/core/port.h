/* SPDX-License-Identifier: MIT */
/*
 * The transport of one queue pair: it sends requests (flow.h), takes those of others once each (seen.h), and answers
 * them. Not safe for use by two threads at once. No call blocks, and none runs back into the caller but through struct
 * sefa_port_ops.
 */
#ifndef SEFA_PORT_H
#define SEFA_PORT_H

#include "flow.h"
#include "net.h"
#include "rng.h"
#include "seen.h"

/* A message, or the immediate data of an access. */
struct sefa_arrival {
	struct sefa_end from;
	bool write;          /* the immediate data of a WRITE, whose bytes are in place */
	bool has_imm;
	uint32_t imm;
	const uint8_t *data; /* NULL with write */
	uint32_t len;        /* with write: of the whole access */
};

struct sefa_port_ops {
	/* For the port's own requests: see struct sefa_sender. */
	int (*gather)(void *user, struct sefa_op *op, uint32_t off, uint32_t len, struct iovec iov[SEFA_PIECES]);
	enum sefa_status (*scatter)(void *user, struct sefa_op *op, uint32_t off, const uint8_t *data, uint32_t len);
	void (*fault)(void *user, struct sefa_op *op);
	void (*done)(void *user, struct sefa_op *op, enum sefa_status status);
	/* For those of others. Not SEFA_OK: the requester is told. */
	enum sefa_status (*deliver)(void *user, const struct sefa_arrival *arrival);
	enum sefa_status (*read)(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr, uint32_t len,
				 const void **data);
	enum sefa_status (*write)(void *user, struct sefa_end from, uint32_t rkey, uint64_t addr, const uint8_t *data,
				  uint32_t len);
};

#define SEFA_FLOW_BUCKETS 64u

struct sefa_port {
	struct sefa_net *net;
	const struct sefa_port_ops *ops;
	void *user;
	uint32_t qkey;
	bool ready;        /* takes requests */
	unsigned rnr_fault; /* percent of the messages that are answered as if there were no buffer */
	struct sefa_rng rng;
	struct sefa_sender sender;
	struct sefa_counters counters;
	struct sefa_seen seen;
	LIST_HEAD(sefa_flow_list, sefa_flow) flows[SEFA_FLOW_BUCKETS];
	uint64_t due;    /* when a flow has something to do */
	uint64_t turned; /* when sefa_port_progress() was last called */
	uint64_t aged;
	/* Answers that are collected, to go in one packet. */
	struct sefa_end ack_to;
	uint64_t ack_flow;
	uint32_t acks;
	uint8_t ack_list[SEFA_ACKS * 4];
};

/* Puts a port over a net, which stays the caller's. A peer may be silent for `timeout` nanoseconds. */
void sefa_port_init(struct sefa_port *port, struct sefa_net *net, const struct sefa_port_ops *ops, void *user,
		    uint64_t timeout);

/* Forgets everything. Requests that have not ended do not end. */
void sefa_port_clear(struct sefa_port *port);

/* Ends all requests. */
void sefa_port_fail(struct sefa_port *port, enum sefa_status status);

/* Starts a request to a queue pair. It ends through ops->done, which may run at once. Returns 0 or -ENOMEM. */
int sefa_port_post(struct sefa_port *port, struct sefa_op *op, struct sefa_end to, uint32_t qkey, uint64_t now);

/*
 * Takes what has arrived, at most a bounded number of packets, and does what is due. Returns when it has to be called
 * again at the latest, if nothing arrives; UINT64_MAX: not at all.
 */
uint64_t sefa_port_progress(struct sefa_port *port, uint64_t now);

#endif
