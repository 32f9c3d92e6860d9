/* SPDX-License-Identifier: MIT */
/*
 * The sending side, see flow.h.
 *
 * Packets are numbered within the flow, and each is answered by itself. One is sent again when its
 * answer is late, or when one that was sent well after it has been answered already. The window
 * grows with every answer, and shrinks when an answer is late: receivers lose packets when their
 * socket is full.
 */
#include "flow.h"

#include <errno.h>
#include <string.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

#define WINDOW_FIRST 32u
#define WINDOW_LEAST 4u
#define WINDOW_MOST 64u
#define RTO_FIRST (10 * MS)
#define RTO_LEAST (5 * MS)
#define RTO_MOST (200 * MS)
#define RNR_FIRST (100 * US)
#define RNR_MOST (5 * MS)
/* So many later packets answered mean that one is lost, not just overtaken. */
#define OVERTAKEN 16u
/* A packet that is never answered although the peer is alive is given up after so many attempts. */
#define TRIES_MOST 60u

static struct sefa_slot *slot_of(struct sefa_flow *flow, uint32_t psn)
{
	return &flow->slots[psn % SEFA_WINDOW];
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void sefa_flow_init(struct sefa_flow *flow, struct sefa_end to, uint32_t qkey, uint64_t id,
		    uint64_t now)
{
	memset(flow, 0, sizeof(*flow));
	flow->to = to;
	flow->qkey = qkey;
	flow->id = id;
	flow->window = WINDOW_FIRST;
	flow->threshold = WINDOW_MOST;
	flow->heard = now;
	flow->due = UINT64_MAX;
	TAILQ_INIT(&flow->queue);
}

bool sefa_flow_idle(const struct sefa_flow *flow)
{
	return flow->in_flight == 0 && TAILQ_EMPTY(&flow->queue);
}

static void release(struct sefa_flow *flow, struct sefa_slot *slot)
{
	slot->op = NULL;
	flow->in_flight--;
	while (flow->una != flow->next && !slot_of(flow, flow->una)->op)
		flow->una++;
}

static void end(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_op *op,
		enum sefa_status status)
{
	uint32_t next = flow->next;
	for (uint32_t psn = flow->una; psn != next; psn++) {
		struct sefa_slot *slot = slot_of(flow, psn);
		if (slot->op == op)
			release(flow, slot);
	}
	if (op->queued)
		TAILQ_REMOVE(&flow->queue, op, link);
	op->queued = false;
	sender->done(sender->user, op, status);
}

void sefa_flow_no_way(struct sefa_flow *flow)
{
	flow->no_way = true;
}

void sefa_flow_fail(struct sefa_sender *sender, struct sefa_flow *flow, enum sefa_status status)
{
	uint32_t next = flow->next;
	struct sefa_op *op;
	if (!sefa_flow_idle(flow))
		sender->counters->given_up++;
	/*
	 * In the order in which they were posted: those that have been sent in part are at the head
	 * of the queue.
	 */
	for (uint32_t psn = flow->una; psn != next; psn++) {
		struct sefa_slot *slot = slot_of(flow, psn);
		if (slot->op)
			end(sender, flow, slot->op, status);
	}
	while ((op = TAILQ_FIRST(&flow->queue)))
		end(sender, flow, op, status);
	flow->due = UINT64_MAX;
}

static uint64_t rto(const struct sefa_flow *flow)
{
	if (flow->rtt == 0)
		return RTO_FIRST;
	uint64_t wait = 2 * flow->rtt + 4 * MS;
	return wait < RTO_LEAST ? RTO_LEAST : least(wait, RTO_MOST);
}

static int emit(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_slot *slot,
		uint32_t psn)
{
	struct sefa_op *op = slot->op;
	bool last = slot->off + slot->len == op->len;
	struct sefa_packet packet = {.type = op->type,
				     .psn = psn,
				     .flow = flow->id,
				     .una = flow->una,
				     .qkey = flow->qkey,
				     .rkey = op->rkey,
				     .raddr = op->raddr + slot->off};
	struct iovec iov[1 + SEFA_PIECES];
	uint8_t head[SEFA_HEAD_MAX];
	int pieces = 0;
	if (op->type != SEFA_READ)
		packet.attempt = (uint8_t)slot->rnr;
	if (op->has_imm && last) {
		packet.flags = SEFA_IMM;
		packet.imm = op->imm;
		if (op->type == SEFA_WRITE)
			packet.total = op->len;
	}
	if (op->type == SEFA_READ) {
		packet.rlen = slot->len;
	} else {
		pieces = sender->gather(sender->user, op, slot->off, slot->len, iov + 1);
		if (pieces < 0) {
			end(sender, flow, op, (enum sefa_status) - pieces);
			return 0;
		}
	}
	iov[0] = (struct iovec){head, sefa_packet_encode(&packet, head)};
	return sender->net->send(sender->net, flow->to, iov, 1 + pieces);
}

static void transmit(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_slot *slot,
		     uint32_t psn, uint64_t now)
{
	struct sefa_op *op = slot->op;
	int ret = emit(sender, flow, slot, psn);
	if (ret == -EFAULT) {
		sender->fault(sender->user, op);
		end(sender, flow, op, SEFA_INVALID_LKEY);
		return;
	}
	if (slot->op != op)
		return;
	if (ret < 0 && ret != -EAGAIN)
		sefa_flow_no_way(flow);
	if (ret == -EAGAIN) {
		slot->due = now + MS;
	} else {
		sender->counters->sent++;
		if (slot->tries > 0)
			sender->counters->again++;
		slot->due = now + least(rto(flow) << (slot->tries < 6 ? slot->tries : 6), RTO_MOST);
		if (slot->tries < UINT8_MAX)
			slot->tries++;
		slot->last = now;
		slot->order = flow->order++;
	}
	flow->due = least(flow->due, slot->due);
}

static uint32_t piece_max(const struct sefa_op *op)
{
	return op->type == SEFA_SEND ? SEFA_MTU : SEFA_SEGMENT;
}

/* Sends what has not been sent yet, as far as the window allows. */
static void pump(struct sefa_sender *sender, struct sefa_flow *flow, uint64_t now)
{
	struct sefa_op *op;
	while ((op = TAILQ_FIRST(&flow->queue)) && flow->in_flight < flow->window &&
	       flow->next - flow->una < SEFA_WINDOW) {
		bool last = op->sent + 1 == op->packets;
		/* Immediate data says that all is there: it goes when all else has been answered.
		 */
		if (last && op->has_imm && op->answered < op->sent)
			break;
		uint32_t psn = flow->next++;
		struct sefa_slot *slot = slot_of(flow, psn);
		uint32_t off = op->sent * piece_max(op);
		uint32_t len = last ? op->len - off : piece_max(op);
		*slot = (struct sefa_slot){.op = op, .off = off, .len = len, .first = now};
		flow->in_flight++;
		op->sent++;
		if (last) {
			op->queued = false;
			TAILQ_REMOVE(&flow->queue, op, link);
		}
		transmit(sender, flow, slot, psn, now);
	}
}

void sefa_flow_post(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_op *op,
		    uint64_t now)
{
	if (sefa_flow_idle(flow)) {
		flow->heard = now;
		flow->no_way = false;
	}
	op->packets = op->len == 0 ? 1 : (op->len - 1) / piece_max(op) + 1;
	op->sent = op->answered = 0;
	op->queued = true;
	TAILQ_INSERT_TAIL(&flow->queue, op, link);
	pump(sender, flow, now);
}

/* The slot of a packet that waits for an answer, or NULL. The peer has been heard of. */
static struct sefa_slot *waiting(struct sefa_flow *flow, uint32_t psn, uint64_t now)
{
	flow->heard = now;
	flow->no_way = false;
	if (psn - flow->una >= flow->next - flow->una)
		return NULL;
	struct sefa_slot *slot = slot_of(flow, psn);
	return slot->op ? slot : NULL;
}

static void grow(struct sefa_flow *flow)
{
	if (flow->window >= WINDOW_MOST)
		return;
	if (flow->window < flow->threshold || ++flow->grown >= flow->window) {
		flow->window++;
		flow->grown = 0;
	}
}

/* Those sent long before one that has been answered are taken for lost. */
static void hurry(struct sefa_flow *flow, uint32_t order, uint64_t now)
{
	for (uint32_t psn = flow->una; psn != flow->next; psn++) {
		struct sefa_slot *slot = slot_of(flow, psn);
		if (!slot->op || slot->rnr > 0)
			continue;
		uint32_t after = order - slot->order;
		if (after > OVERTAKEN && after < UINT32_MAX / 2) {
			slot->due = least(slot->due, now);
			flow->due = least(flow->due, now);
		}
	}
}

static void answered(struct sefa_sender *sender, struct sefa_flow *flow, struct sefa_slot *slot,
		     uint64_t now)
{
	struct sefa_op *op = slot->op;
	uint32_t order = slot->order;
	/* Of one that was sent twice nobody knows which was answered. */
	if (slot->tries == 1) {
		uint64_t rtt = now - slot->last + 1;
		flow->rtt = flow->rtt == 0 ? rtt : flow->rtt - flow->rtt / 8 + rtt / 8;
	}
	grow(flow);
	release(flow, slot);
	op->answered++;
	if (op->answered == op->packets)
		end(sender, flow, op, SEFA_OK);
	hurry(flow, order, now);
	pump(sender, flow, now);
}

void sefa_flow_acked(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn, uint64_t now)
{
	struct sefa_slot *slot = waiting(flow, psn, now);
	if (slot && slot->op->type != SEFA_READ)
		answered(sender, flow, slot, now);
}

void sefa_flow_data(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn,
		    const uint8_t *data, size_t len, uint64_t now)
{
	struct sefa_slot *slot = waiting(flow, psn, now);
	if (!slot || slot->op->type != SEFA_READ || slot->len != len)
		return;
	enum sefa_status status =
		sender->scatter(sender->user, slot->op, slot->off, data, slot->len);
	if (status == SEFA_OK)
		answered(sender, flow, slot, now);
	else
		end(sender, flow, slot->op, status);
}

void sefa_flow_refused(struct sefa_sender *sender, struct sefa_flow *flow, uint32_t psn,
		       enum sefa_status status, uint8_t attempt, uint64_t now)
{
	struct sefa_slot *slot = waiting(flow, psn, now);
	if (!slot)
		return;
	if (status == SEFA_BAD_QPN) {
		sefa_flow_fail(sender, flow, status);
		return;
	}
	/* The answer to a copy of what has been tried again since. */
	if (status == SEFA_RNR && attempt != (uint8_t)slot->rnr)
		return;
	if (status != SEFA_RNR ||
	    (sender->rnr_retry < SEFA_RNR_FOREVER && slot->rnr >= sender->rnr_retry)) {
		end(sender, flow, slot->op, status);
		pump(sender, flow, now);
		return;
	}
	slot->due = now + least(RNR_FIRST << (slot->rnr < 8 ? slot->rnr : 8), RNR_MOST);
	slot->first = now;
	slot->tries = 1;
	slot->rnr++;
	flow->due = least(flow->due, slot->due);
}

static void shrink(struct sefa_flow *flow, uint64_t now)
{
	if (now - flow->cut < rto(flow))
		return;
	flow->cut = now;
	flow->threshold = flow->window / 2 > WINDOW_LEAST ? flow->window / 2 : WINDOW_LEAST;
	flow->window = flow->threshold;
}

void sefa_flow_tick(struct sefa_sender *sender, struct sefa_flow *flow, uint64_t now)
{
	uint64_t due = UINT64_MAX;
	uint32_t next = flow->next;
	flow->due = UINT64_MAX;
	for (uint32_t psn = flow->una; psn != next; psn++) {
		struct sefa_slot *slot = slot_of(flow, psn);
		if (!slot->op)
			continue;
		if (now >= slot->due) {
			uint64_t since = slot->first > flow->heard ? slot->first : flow->heard;
			if (now - since >= sender->timeout || slot->tries >= TRIES_MOST) {
				sefa_flow_fail(sender, flow,
					       flow->no_way ? SEFA_UNREACHABLE : SEFA_UNRESPONSIVE);
				return;
			}
			if (slot->rnr == 0 && now - slot->last >= rto(flow))
				shrink(flow, now);
			transmit(sender, flow, slot, psn, now);
		}
		if (slot->op)
			due = least(due, slot->due);
	}
	pump(sender, flow, now);
	flow->due = least(flow->due, due);
}
