/* SPDX-License-Identifier: MIT */
/*
 * The sending side: the work requests from one queue pair to another one, cut into packets, kept within a window, sent
 * again until they are answered or given up. Knows no socket (a struct sefa_net carries what it sends) and no clock
 * (times are given, in nanoseconds).
 */
#ifndef SEFA_FLOW_H
#define SEFA_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "net.h"
#include "packet.h"
#include "status.h"

/* The most pieces of memory that one packet is gathered from. */
#define SEFA_PIECES 4
/* This many retries mean that a receiver that is not ready is asked for ever. */
#define SEFA_RNR_FOREVER 7u

/* One work request. The first part is the poster's, the second the flow's. */
struct sefa_op {
	uint8_t type; /* SEFA_SEND, SEFA_WRITE, SEFA_READ */
	bool has_imm;
	uint32_t imm;
	uint32_t rkey;
	uint64_t raddr;
	uint32_t len;

	TAILQ_ENTRY(sefa_op) link;
	bool queued; /* not all of its packets have been sent once */
	uint32_t packets, sent, answered;
};

struct sefa_counters {
	uint64_t sent, received;  /* datagrams */
	uint64_t again;           /* sent again */
	uint64_t duplicates;      /* requests received twice */
	uint64_t malformed;       /* datagrams that are no packets */
	uint64_t strangers;       /* answers to nothing that was asked */
	uint64_t not_ready;       /* requests that came before the queue pair was ready */
	uint64_t bad_qkey;        /* requests meant for somebody else */
	uint64_t rnr;             /* messages without a buffer */
	uint64_t given_up;        /* flows that ended because the peer is silent, gone or out of reach */
};

/* What all flows of a queue pair share. */
struct sefa_sender {
	struct sefa_net *net;
	struct sefa_counters *counters;
	uint64_t timeout;   /* how long a peer may be silent */
	unsigned rnr_retry; /* how often a receiver that is not ready is asked again */
	void *user;
	/*
	 * Where the bytes of a request lie that are to be sent now. Returns the number of pieces, or a negative
	 * sefa_status, which ends the request.
	 */
	int (*gather)(void *user, struct sefa_op *op, uint32_t off, uint32_t len, struct iovec iov[SEFA_PIECES]);
	/* Bytes that were read from the peer. */
	enum sefa_status (*scatter)(void *user, struct sefa_op *op, uint32_t off, const uint8_t *data, uint32_t len);
	/* The memory that gather() named is not there. */
	void (*fault)(void *user, struct sefa_op *op);
	/* The request has ended. Its memory is the poster's again. Must not post. */
	void (*done)(void *user, struct sefa_op *op, enum sefa_status status);
};

struct sefa_slot {
	struct sefa_op *op; /* NULL: finished with */
	uint32_t off, len;
	uint32_t order;     /* of its last sending, among all of the flow */
	uint8_t tries;
	uint32_t rnr;       /* how often it was answered with "not ready" */
	uint64_t first;     /* when it was first sent, or last answered with "not ready" */
	uint64_t last;
	uint64_t due;       /* when to send it again */
};

struct sefa_flow {
	LIST_ENTRY(sefa_flow) link;
	struct sefa_end to;
	uint32_t qkey;
	uint64_t id;
	uint32_t una, next; /* the lowest number not finished with, and the next one to be given */
	uint32_t order;
	unsigned in_flight, window, threshold, grown;
	uint64_t rtt;   /* smoothed; 0: not known */
	uint64_t heard; /* when the peer last answered, or the first request to it was made */
	bool no_way;    /* the network has said so since it was last heard of */
	uint64_t cut;   /* when the window was last made smaller */
	uint64_t due;   /* when sefa_flow_tick() has something to do */
	TAILQ_HEAD(sefa_op_list, sefa_op) queue;
	struct sefa_slot slots[SEFA_WINDOW];
};

void sefa_flow_init(struct sefa_flow *flow, struct sefa_end to, uint32_t qkey, uint64_t id, uint64_t now);

/* Whether it has nothing to do. */
bool sefa_flow_idle(const struct sefa_flow *flow);

/* Starts a request: what the window allows is sent at once. */
void sefa_flow_post(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_op *op, uint64_t now);

/* A packet has been answered: ACK (data NULL), DATA, NAK. */
void sefa_flow_acked(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn, uint64_t now);
void sefa_flow_data(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn, const uint8_t *data, size_t len,
		    uint64_t now);
void sefa_flow_refused(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn, enum sefa_status status,
		       uint8_t attempt, uint64_t now);

/* The network says that there is no way to the host. That may pass, so it only tells why, should the time-out come. */
void sefa_flow_no_way(struct sefa_flow *flow);

/* Ends all requests. */
void sefa_flow_fail(struct sefa_sender *sender, struct sefa_flow *flow, enum sefa_status status);

/* Sends again what is due, and gives up on a silent peer. Sets flow->due. */
void sefa_flow_tick(struct sefa_sender *sender, struct sefa_flow *flow, uint64_t now);

#endif
