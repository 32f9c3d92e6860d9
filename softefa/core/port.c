/* SPDX-License-Identifier: MIT */
/* The transport of one queue pair, see port.h. */
#include "port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * Packets taken in one turn: enough to empty a batch or four, few enough that a flood does not hold
 * up the timers.
 */
#define TURN_MAX 64
#define SECOND UINT64_C(1000000000)
#define FLOW_IDLE (30 * SECOND)

void sefa_port_init(struct sefa_port *port, struct sefa_net *net, const struct sefa_port_ops *ops,
		    void *user, uint64_t timeout)
{
	memset(port, 0, sizeof(*port));
	port->net = net;
	port->ops = ops;
	port->user = user;
	port->due = UINT64_MAX;
	port->sender = (struct sefa_sender){
		.net = net,
		.counters = &port->counters,
		.timeout = timeout,
		.rnr_retry = SEFA_RNR_FOREVER,
		.user = user,
		.gather = ops->gather,
		.scatter = ops->scatter,
		.fault = ops->fault,
		.done = ops->done,
	};
	sefa_seen_init(&port->seen);
	for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++)
		LIST_INIT(&port->flows[i]);
}

void sefa_port_clear(struct sefa_port *port)
{
	for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++) {
		struct sefa_flow *flow;
		while ((flow = LIST_FIRST(&port->flows[i]))) {
			LIST_REMOVE(flow, link);
			free(flow);
		}
	}
	sefa_seen_clear(&port->seen);
	port->due = UINT64_MAX;
}

void sefa_port_fail(struct sefa_port *port, enum sefa_status status)
{
	for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++) {
		struct sefa_flow *flow;
		LIST_FOREACH (flow, &port->flows[i], link)
			sefa_flow_fail(&port->sender, flow, status);
	}
}

static struct sefa_flow_list *bucket_of(struct sefa_port *port, struct sefa_end end)
{
	uint32_t x = (end.ip ^ (uint32_t)end.qpn * 0x9e3779b9u) * 0x85ebca6bu;
	return &port->flows[(x >> 24) % SEFA_FLOW_BUCKETS];
}

/* The flow that an answer belongs to. */
static struct sefa_flow *flow_by_id(struct sefa_port *port, struct sefa_end from, uint64_t id)
{
	struct sefa_flow *flow;
	LIST_FOREACH (flow, bucket_of(port, from), link) {
		if (flow->id == id && sefa_end_equal(flow->to, from))
			return flow;
	}
	return NULL;
}

static struct sefa_flow *flow_to(struct sefa_port *port, struct sefa_end to, uint32_t qkey,
				 uint64_t now)
{
	struct sefa_flow_list *bucket = bucket_of(port, to);
	struct sefa_flow *flow;
	LIST_FOREACH (flow, bucket, link) {
		if (flow->qkey == qkey && sefa_end_equal(flow->to, to))
			return flow;
	}
	uint64_t id;
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return NULL;
	flow = malloc(sizeof(*flow));
	if (!flow)
		return NULL;
	sefa_flow_init(flow, to, qkey, id, now);
	LIST_INSERT_HEAD(bucket, flow, link);
	return flow;
}

int sefa_port_post(struct sefa_port *port, struct sefa_op *op, struct sefa_end to, uint32_t qkey,
		   uint64_t now)
{
	struct sefa_flow *flow = flow_to(port, to, qkey, now);
	if (!flow)
		return -ENOMEM;
	sefa_flow_post(&port->sender, flow, op, now);
	if (flow->due < port->due)
		port->due = flow->due;
	return 0;
}

/* Answers may get lost on the way, so they may as well get lost here. */
static void answer(struct sefa_port *port, struct sefa_end to, const struct sefa_packet *packet,
		   const void *data, size_t len)
{
	uint8_t head[SEFA_HEAD_MAX];
	struct iovec iov[2] = {
		{head, sefa_packet_encode(packet, head)},
		{(void *)(uintptr_t)data, len},
	};
	if (port->net->send(port->net, to, iov, len > 0 ? 2 : 1) == 0)
		port->counters.sent++;
}

static void flush_acks(struct sefa_port *port)
{
	if (port->acks == 0)
		return;
	struct sefa_packet packet = {.type = SEFA_ACK,
				     .flow = port->ack_flow,
				     .acks = port->acks,
				     .list = port->ack_list};
	port->acks = 0;
	answer(port, port->ack_to, &packet, NULL, 0);
}

static void ack(struct sefa_port *port, struct sefa_end to, const struct sefa_packet *request)
{
	if (port->acks == SEFA_ACKS || port->ack_flow != request->flow ||
	    !sefa_end_equal(port->ack_to, to))
		flush_acks(port);
	port->ack_to = to;
	port->ack_flow = request->flow;
	sefa_packet_put_ack(port->ack_list, port->acks++, request->psn);
}

static void refuse(struct sefa_port *port, struct sefa_end to, const struct sefa_packet *request,
		   enum sefa_status status)
{
	struct sefa_packet packet = {.type = SEFA_NAK,
				     .flow = request->flow,
				     .psn = request->psn,
				     .status = (uint16_t)status,
				     .attempt = request->attempt};
	if (status == SEFA_RNR)
		port->counters.rnr++;
	answer(port, to, &packet, NULL, 0);
}

static void on_read(struct sefa_port *port, struct sefa_end from, const struct sefa_packet *request)
{
	const void *data = NULL;
	enum sefa_status status = port->ops->read(port->user, from, request->rkey, request->raddr,
						  request->rlen, &data);
	if (status != SEFA_OK) {
		refuse(port, from, request, status);
		return;
	}
	struct sefa_packet packet = {.type = SEFA_DATA, .flow = request->flow, .psn = request->psn};
	answer(port, from, &packet, data, request->rlen);
}

static enum sefa_status take(struct sefa_port *port, struct sefa_end from,
			     const struct sefa_packet *request)
{
	struct sefa_arrival arrival = {.from = from,
				       .has_imm = request->flags & SEFA_IMM,
				       .imm = request->imm,
				       .len = (uint32_t)request->len};
	if (request->type == SEFA_WRITE) {
		enum sefa_status status =
			port->ops->write(port->user, from, request->rkey, request->raddr,
					 request->data, arrival.len);
		arrival.len = request->total;
		if (status != SEFA_OK || !arrival.has_imm)
			return status;
		arrival.write = true;
	} else {
		arrival.data = request->data;
	}
	if (sefa_rng_percent(&port->rng, port->rnr_fault))
		return SEFA_RNR;
	return port->ops->deliver(port->user, &arrival);
}

static void on_request(struct sefa_port *port, struct sefa_end from,
		       const struct sefa_packet *request, uint64_t now)
{
	if (!port->ready) {
		port->counters.not_ready++;
		return;
	}
	if (request->qkey != port->qkey) {
		port->counters.bad_qkey++;
		refuse(port, from, request, SEFA_BAD_QPN);
		return;
	}
	/* Reading twice does no harm, so nobody needs to remember what has been read. */
	if (request->type == SEFA_READ) {
		on_read(port, from, request);
		return;
	}
	struct sefa_seen_peer *peer =
		sefa_seen_find(&port->seen, from, request->flow, request->una, now);
	if (!peer)
		return;
	enum sefa_status status = SEFA_RNR;
	if (sefa_seen_has(peer, request->psn)) {
		port->counters.duplicates++;
		status = (enum sefa_status)sefa_seen_status(peer, request->psn);
	} else {
		if (!sefa_seen_is_refused(peer, request->psn, request->attempt))
			status = take(port, from, request);
		if (status == SEFA_RNR)
			sefa_seen_refuse(peer, request->psn, request->attempt);
		else
			sefa_seen_take(peer, request->psn, (uint8_t)status);
	}
	if (status == SEFA_OK)
		ack(port, from, request);
	else
		refuse(port, from, request, status);
}

static void on_answer(struct sefa_port *port, struct sefa_end from,
		      const struct sefa_packet *packet, uint64_t now)
{
	struct sefa_flow *flow = flow_by_id(port, from, packet->flow);
	if (!flow) {
		port->counters.strangers++;
		return;
	}
	if (packet->type == SEFA_ACK) {
		for (uint32_t i = 0; i < packet->acks; i++)
			sefa_flow_acked(&port->sender, flow, sefa_packet_ack(packet, i), now);
	} else if (packet->type == SEFA_DATA) {
		sefa_flow_data(&port->sender, flow, packet->psn, packet->data, packet->len, now);
	} else {
		sefa_flow_refused(&port->sender, flow, packet->psn,
				  (enum sefa_status)packet->status, packet->attempt, now);
	}
	if (flow->due < port->due)
		port->due = flow->due;
}

static void take_refusals(struct sefa_port *port)
{
	struct sefa_refusal refusal;
	while (port->net->refused(port->net, &refusal)) {
		struct sefa_flow *flow;
		LIST_FOREACH (flow, bucket_of(port, refusal.end), link) {
			if (!sefa_end_equal(flow->to, refusal.end))
				continue;
			/* Another one at the same place may be younger than what was refused. */
			if (refusal.has_flow && flow->id != refusal.flow)
				continue;
			if (refusal.port)
				sefa_flow_fail(&port->sender, flow, SEFA_BAD_QPN);
			else
				sefa_flow_no_way(flow);
		}
	}
}

/*
 * A process that was stopped must not take the time for its peers' silence. One that sleeps until
 * something is due was not.
 */
static void pardon(struct sefa_port *port, uint64_t now)
{
	uint64_t meant = port->turned;
	if (port->due > meant && port->due <= now)
		meant = port->due;
	if (port->turned > 0 && now - meant >= port->sender.timeout / 2) {
		for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++) {
			struct sefa_flow *flow;
			LIST_FOREACH (flow, &port->flows[i], link)
				flow->heard = now;
		}
	}
	port->turned = now;
}

static void tick(struct sefa_port *port, uint64_t now)
{
	port->due = UINT64_MAX;
	for (unsigned i = 0; i < SEFA_FLOW_BUCKETS; i++) {
		struct sefa_flow *flow = LIST_FIRST(&port->flows[i]);
		while (flow) {
			struct sefa_flow *next = LIST_NEXT(flow, link);
			if (flow->due <= now)
				sefa_flow_tick(&port->sender, flow, now);
			if (flow->due < port->due)
				port->due = flow->due;
			if (sefa_flow_idle(flow) && now - flow->heard >= FLOW_IDLE) {
				LIST_REMOVE(flow, link);
				free(flow);
			}
			flow = next;
		}
	}
}

uint64_t sefa_port_progress(struct sefa_port *port, uint64_t now)
{
	struct sefa_packet packet;
	struct sefa_end from;
	const uint8_t *data;
	int len = -EAGAIN;
	uint64_t next = port->net->turn(port->net, now);
	pardon(port, now);
	for (int i = 0; i < TURN_MAX && (len = port->net->receive(port->net, &from, &data)) >= 0;
	     i++) {
		port->counters.received++;
		if (sefa_packet_decode(&packet, data, (size_t)len) < 0)
			port->counters.malformed++;
		else if (packet.type <= SEFA_READ)
			on_request(port, from, &packet, now);
		else
			on_answer(port, from, &packet, now);
	}
	flush_acks(port);
	take_refusals(port);
	if (now - port->aged >= SECOND) {
		port->aged = now;
		sefa_seen_age(&port->seen, now);
		port->due = now;
	}
	if (port->due <= now)
		tick(port, now);
	if (len >= 0)
		return now;
	return port->due < next ? port->due : next;
}
