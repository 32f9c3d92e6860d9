/* SPDX-License-Identifier: MIT */
/* Messages. Calls bundle, frame, peer, transmit, wire. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "transmit.h"

#define CHUNK_SLOTS 128
/* The size that a send had first: what a caller passes is never less. */
#define FIRST_SEND_SIZE (offsetof(struct weft_send, user) + sizeof(void *))

struct weft__slot_chunk {
	SLIST_ENTRY(weft__slot_chunk) link;
	struct weft__slot slot[CHUNK_SLOTS];
};

void weft__slots_init(struct weft__slot_pool *pool, uint32_t max)
{
	*pool = (struct weft__slot_pool){.max = max};
	TAILQ_INIT(&pool->free);
	SLIST_INIT(&pool->chunks);
}

void weft__slots_free(struct weft__slot_pool *pool)
{
	struct weft__slot_chunk *chunk;
	while ((chunk = SLIST_FIRST(&pool->chunks))) {
		SLIST_REMOVE_HEAD(&pool->chunks, link);
		free(chunk);
	}
}

static int take_slot(struct weft__slot_pool *pool, struct weft__slot **out)
{
	if (pool->used >= pool->max)
		return -ENOBUFS;
	if (TAILQ_EMPTY(&pool->free)) {
		struct weft__slot_chunk *chunk = calloc(1, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		SLIST_INSERT_HEAD(&pool->chunks, chunk, link);
		for (size_t i = 0; i < CHUNK_SLOTS; i++)
			TAILQ_INSERT_TAIL(&pool->free, &chunk->slot[i], link);
		pool->allocated += CHUNK_SLOTS;
	}
	*out = TAILQ_FIRST(&pool->free);
	TAILQ_REMOVE(&pool->free, *out, link);
	pool->used++;
	return 0;
}

static void give_slot(struct weft_node *node, struct weft__slot *slot)
{
	if (slot->timed)
		weft__deadline_remove(&node->slot_timers, &slot->deadline);
	slot->timed = false;
	if (slot->out)
		slot->out->slot = NULL;
	slot->out = NULL;
	TAILQ_INSERT_HEAD(&node->slots.free, slot, link);
	node->slots.used--;
}

static void call_sent(struct weft_node *node, struct weft__slot *slot, int status)
{
	weft_sent_fn *fn = slot->sent;
	if (!fn)
		return;
	slot->sent = NULL;
	bool before = weft__callback_begin(node);
	fn(node, slot->peer->handle, status, slot->user);
	weft__callback_end(node, before);
}

/* Ends a slot that is on none of its peer's lists any more. */
static void end_slot(struct weft_node *node, struct weft__slot *slot, const struct weft_msg *msg,
		     int status)
{
	weft_reply_fn *reply = slot->reply;
	weft_peer handle = slot->peer->handle;
	void *user = slot->user;
	if (status < 0)
		node->stats.send_errors++;
	call_sent(node, slot, status);
	give_slot(node, slot);
	if (!reply)
		return;
	bool before = weft__callback_begin(node);
	reply(node, handle, msg, status, user);
	weft__callback_end(node, before);
}

void weft__message_acked(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__slot *slot;
	while ((slot = TAILQ_FIRST(&peer->unacked)) &&
	       !weft__after(slot->number, peer->s.tx_acked)) {
		TAILQ_REMOVE(&peer->unacked, slot, link);
		if (!slot->reply) {
			end_slot(node, slot, NULL, 0);
			continue;
		}
		slot->acked = true;
		TAILQ_INSERT_TAIL(&peer->asking, slot, link);
		call_sent(node, slot, 0);
	}
	weft__bulk_acked(node, peer);
}

static void leave_list(struct weft__slot *slot)
{
	struct weft__peer *peer = slot->peer;
	TAILQ_REMOVE(slot->acked ? &peer->asking : &peer->unacked, slot, link);
}

void weft__message_end_all(struct weft_node *node, struct weft__peer *peer, int status)
{
	struct weft__slot *slot;
	while ((slot = TAILQ_FIRST(&peer->asking)) || (slot = TAILQ_FIRST(&peer->unacked))) {
		leave_list(slot);
		end_slot(node, slot, NULL, status);
	}
}

/* Remembers that an answer would come too late. */
static void expect_late(struct weft__peer *peer, uint32_t id)
{
	peer->late[peer->late_next] = id;
	peer->late_next = (peer->late_next + 1) % WEFT__LATE;
}

void weft__message_expire(struct weft_node *node)
{
	struct weft__deadline_list passed;
	struct weft__deadline *entry;
	if (node->slot_timers.count == 0)
		return;
	weft__deadlines_sweep(&node->slot_timers, node->now, &passed);
	while ((entry = LIST_FIRST(&passed))) {
		struct weft__slot *slot =
			(struct weft__slot *)((char *)entry -
					      offsetof(struct weft__slot, deadline));
		LIST_REMOVE(entry, link);
		slot->timed = false;
		if (slot->reply)
			expect_late(slot->peer, slot->id);
		if (slot->out && slot->out->offered)
			weft__bulk_give_up(node, slot->peer, slot->out);
		else if (slot->out)
			weft__out_give_up(node, slot->peer, slot->out);
		slot->out = NULL;
		leave_list(slot);
		end_slot(node, slot, NULL, -ETIMEDOUT);
	}
}

void weft__slot_progress(struct weft_node *node, struct weft__slot *slot)
{
	if (!slot->timed)
		return;
	weft__deadline_remove(&node->slot_timers, &slot->deadline);
	weft__deadline_add(&node->slot_timers, &slot->deadline, slot->timeout_ms);
}

static bool is_late(const struct weft__peer *peer, uint32_t id)
{
	for (size_t i = 0; i < WEFT__LATE; i++) {
		if (peer->late[i] == id)
			return true;
	}
	return false;
}

static struct weft__slot *asker(struct weft__peer *peer, uint32_t id)
{
	struct weft__slot *slot;
	TAILQ_FOREACH (slot, &peer->asking, link) {
		if (slot->id == id)
			return slot;
	}
	return NULL;
}

/* Gives a message to whom it is for. */
static void show(struct weft_node *node, struct weft__peer *peer, const struct weft_msg *msg)
{
	struct weft__slot *slot = msg->reply_to ? asker(peer, msg->reply_to) : NULL;
	node->held.showing = msg;
	if (slot) {
		leave_list(slot);
		end_slot(node, slot, msg, 0);
	} else if (msg->reply_to && is_late(peer, msg->reply_to)) {
		node->stats.late_replies++;
	} else if (node->events.message) {
		bool before = weft__callback_begin(node);
		node->events.message(node, msg, node->user);
		weft__callback_end(node, before);
	}
	node->held.showing = NULL;
	node->stats.received++;
	node->stats.received_bytes += msg->len;
}

static uint32_t next_id(uint32_t id)
{
	return id == UINT32_MAX ? 1 : id + 1;
}

/* Shows a big message that is whole, and gives its memory back unless it is held. */
static void show_big(struct weft_node *node, struct weft__peer *peer, struct weft__block *block,
		     struct weft_msg *msg)
{
	msg->size = sizeof(*msg);
	msg->peer = peer->handle;
	msg->data = (uint8_t *)weft_buf_data(block->buf) + block->off;
	node->held.block = block;
	show(node, peer, msg);
	node->held.block = NULL;
	weft__block_unref(block);
}

bool weft__message_offered(struct weft_node *node, struct weft__peer *peer, struct weft__grab *grab)
{
	struct weft_msg msg = {.len = grab->len, .id = grab->id, .reply_to = grab->reply_to};
	struct weft__block *block = grab->block;
	bool given_up = grab->given_up;
	free(grab);
	if (peer->in.got > 0 || msg.id != next_id(peer->rx_id)) {
		weft__block_unref(block);
		return false;
	}
	peer->rx_id = msg.id;
	if (given_up)
		weft__block_unref(block);
	else
		show_big(node, peer, block, &msg);
	return true;
}

/* Deals with one record, which is alone in its frame or not. Returns false if it cannot be. */
static bool take_record(struct weft_node *node, struct weft__peer *peer,
			const struct weft__record *record, bool alone)
{
	/* Memory is there before the first part is taken. */
	bool more = peer->in.got > 0;
	if (record->id != (more ? peer->rx_id : next_id(peer->rx_id)))
		return false;
	peer->rx_id = record->id;
	if (more || record->rest > 0) {
		int whole = alone ? weft__in_take(peer, record) : -1;
		if (whole == 1) {
			struct weft__in in = peer->in;
			struct weft_msg msg = {.len = in.len, .id = in.id, .reply_to = in.reply_to};
			/* It is no longer arriving, whatever the callback does. */
			peer->in = (struct weft__in){.block = NULL};
			show_big(node, peer, in.block, &msg);
		}
		return whole >= 0;
	}
	struct weft_msg msg = {
		.size = sizeof(msg),
		.data = record->data,
		.len = record->len,
		.peer = peer->handle,
		.id = record->id,
		.reply_to = record->reply_to,
	};
	show(node, peer, &msg);
	return true;
}

/* The next record of a DATA frame, as weft__wire_get_record(). */
static int next_record(const struct weft__peer *peer, const struct weft__rframe *frame, size_t *at,
		       struct weft__record *record)
{
	if (!frame->is_compact)
		return weft__wire_get_record(frame->data + frame->body, frame->len - frame->body,
					     at, record);
	if (*at > 0)
		return 0;
	weft__wire_get_compact_record(frame->data, record);
	record->id = next_id(peer->rx_id);
	*at = frame->len;
	return 1;
}

void weft__message_deliver(struct weft_node *node, struct weft__peer *peer,
			   struct weft__rframe *frame)
{
	const uint8_t *body = frame->data + frame->body;
	size_t len = frame->len - frame->body;
	struct weft__record record;
	size_t at = 0;
	int got;
	node->held.frame = frame;
	while ((got = next_record(peer, frame, &at, &record)) == 1) {
		if (record.len > node->opts.max_message) {
			weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
					"a message of %u bytes, and at most %llu are taken",
					record.len, (unsigned long long)node->opts.max_message);
			break;
		}
		bool alone = at == len && record.data == body + WEFT__RECORD_LEN;
		node->held.together = frame->bundle || !alone;
		if (!take_record(node, peer, &record, alone)) {
			weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
					"a part of message %u came after message %u", record.id,
					peer->rx_id);
			break;
		}
		/* The callback may have ended the session. */
		if (peer->s.state == WEFT__GONE)
			break;
	}
	node->held.frame = NULL;
	if (got < 0) {
		node->stats.drop_malformed++;
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL, "a DATA frame is malformed");
	}
}

/* The length of a message, or a code. */
static int measure(struct weft_node *node, const struct weft_send *send, size_t *out)
{
	size_t len = send->len;
	if (send->size < FIRST_SEND_SIZE || send->timeout_ms < -1 || send->iov_count < 0)
		return -EINVAL;
	if (!!send->data + !!send->iov + !!send->buf > 1)
		return -EINVAL;
	if (send->iov) {
		len = 0;
		for (int i = 0; i < send->iov_count; i++) {
			if (send->iov[i].iov_len > SIZE_MAX - len)
				return -EMSGSIZE;
			len += send->iov[i].iov_len;
		}
	} else if (send->buf) {
		size_t size = weft_buf_size(send->buf);
		if (send->buf->net != node->net || send->off > size || len > size - send->off)
			return -EINVAL;
	} else if (!send->data && len > 0) {
		return -EINVAL;
	}
	*out = len;
	return 0;
}

void weft__send_copy(uint8_t *to, const struct weft_send *send)
{
	if (send->iov) {
		for (int i = 0; i < send->iov_count; i++) {
			if (send->iov[i].iov_len > 0)
				memcpy(to, send->iov[i].iov_base, send->iov[i].iov_len);
			to += send->iov[i].iov_len;
		}
		return;
	}
	const uint8_t *from =
		send->buf ? (uint8_t *)weft_buf_data(send->buf) + send->off : send->data;
	if (send->len > 0)
		memcpy(to, from, send->len);
}

/*
 * How long a frame with several messages may be. Before the peer has said what it takes, every
 * peer's least.
 */
static size_t shared_limit(const struct weft__peer *peer)
{
	return peer->s.state == WEFT__CONNECTING ? WEFT__FRAME_MIN : peer->s.max_frame;
}

/* A frame with room for one more record at its end, which begins at a multiple of 8. */
static int find_room(struct weft_node *node, struct weft__peer *peer, size_t len,
		     struct weft__sframe **out)
{
	struct weft__sframe *frame = TAILQ_LAST(&peer->queue, weft__sframes);
	size_t room = weft__record_room(len);
	/* One that cannot be made longer, for want of memory, is full. */
	if (frame && frame->type == WEFT__DATA && !frame->out &&
	    frame->len + room <= shared_limit(peer) &&
	    weft__sframe_lengthen(node, frame, frame->len + room)) {
		peer->has_several = true;
		*out = frame;
		return 0;
	}
	/* What is full leaves, as far as it may. */
	if (frame)
		weft__transmit_flush(node, peer);
	if (peer->s.state == WEFT__GONE)
		return -ENOTCONN;
	if (peer->frames >= node->frames.max_peer)
		return -ENOBUFS;
	bool is_short = WEFT__HEADER_LEN + room <= WEFT__SHORT_SPACE;
	frame = weft__sframe_take(node, is_short ? WEFT__MESSAGE_FRAME : WEFT__LONG_FRAME);
	if (!frame)
		return node->frames.counted >= node->frames.max ? -ENOBUFS : -ENOMEM;
	frame->len = WEFT__HEADER_LEN;
	peer->has_several = false;
	weft__transmit_queue(peer, frame, WEFT__DATA);
	*out = frame;
	return 0;
}

static int no_buffers(struct weft_node *node, struct weft__peer *peer, size_t lacked)
{
	node->stats.no_buffers++;
	peer->lacked = lacked;
	if (!peer->is_blocked)
		TAILQ_INSERT_TAIL(&node->blocked, peer, blocked);
	peer->is_blocked = true;
	return -ENOBUFS;
}

static void fill_slot(struct weft_node *node, struct weft__peer *peer, struct weft__slot *slot,
		      const struct weft_send *send, uint32_t number)
{
	*slot = (struct weft__slot){
		.peer = peer,
		.number = number,
		.id = peer->tx_id,
		.timeout_ms = send->timeout_ms,
		.sent = send->sent,
		.reply = send->reply,
		.user = send->user,
	};
	TAILQ_INSERT_TAIL(&peer->unacked, slot, link);
	if (send->timeout_ms >= 0) {
		weft__deadline_add(&node->slot_timers, &slot->deadline, send->timeout_ms);
		slot->timed = true;
	}
}

/* Puts a message that is longer than a frame into the queue. */
static int put_big(struct weft_node *node, struct weft__peer *peer, const struct weft_send *send,
		   size_t len, struct weft__slot *slot)
{
	struct weft__out *out;
	int ret = weft__out_queue(node, peer, send, len, &out);
	if (ret < 0)
		return ret;
	peer->tx_id = next_id(peer->tx_id);
	out->id = TAILQ_LAST(&peer->queue, weft__sframes)->last_id = peer->tx_id;
	if (slot) {
		fill_slot(node, peer, slot, send, peer->s.tx_queued);
		slot->out = out;
		out->slot = slot;
	}
	return 0;
}

static int put_small(struct weft_node *node, struct weft__peer *peer, const struct weft_send *send,
		     size_t len, struct weft__slot *slot, bool at_once)
{
	struct weft__sframe *frame;
	uint8_t *straight = at_once ? NULL : weft__bundle_message(node, peer, send->reply_to, len);
	if (straight) {
		peer->tx_id = next_id(peer->tx_id);
		weft__send_copy(straight, send);
		if (slot)
			fill_slot(node, peer, slot, send, peer->s.tx_number);
		return 0;
	}
	if (peer->s.state == WEFT__GONE)
		return -ENOTCONN;
	int ret = find_room(node, peer, len, &frame);
	if (ret < 0)
		return ret;
	peer->tx_id = next_id(peer->tx_id);
	frame->last_id = peer->tx_id;
	uint8_t *to = weft__wire_put_record(frame->data + frame->len, peer->tx_id, send->reply_to,
					    (uint32_t)len);
	weft__send_copy(to, send);
	frame->len += weft__record_room(len);
	if (slot)
		fill_slot(node, peer, slot, send, frame->number);
	return 0;
}

/* at_once: it leaves at once, and so shares no bundle. */
static int put(struct weft_node *node, struct weft__peer *peer, const struct weft_send *send,
	       size_t len, bool at_once)
{
	struct weft__slot *slot = NULL;
	size_t lacked = 0;
	int ret = 0;
	if (send->sent || send->reply)
		ret = take_slot(&node->slots, &slot);
	/* What may turn out to be longer than the peer's frames has to go in parts then. */
	if (ret == 0 && len > shared_limit(peer) - WEFT_FRAME_OVERHEAD) {
		ret = put_big(node, peer, send, len, slot);
		lacked = len;
	} else if (ret == 0) {
		ret = put_small(node, peer, send, len, slot, at_once);
	}
	if (ret < 0 && slot)
		give_slot(node, slot);
	return ret == -ENOBUFS ? no_buffers(node, peer, lacked) : ret;
}

/*
 * Whether what is said in the callback that is running leaves later: if its frame was all that the
 * peer might send, when it is over, to take the credit for the next frame along; if its message has
 * come with others, which may be answered too, together with those answers.
 */
static bool leaves_later(const struct weft_node *node, const struct weft__peer *peer)
{
	const struct weft__rframe *frame = node->held.frame;
	if (!frame)
		return false;
	if (node->held.together) {
		const struct weft__peer *from = weft__peer_find(node, frame->peer);
		return from && from->route == peer->route;
	}
	return frame->peer == peer->handle && weft__credit_open_frames(&peer->s.credit) == 0;
}

int weft_peer_send(struct weft_node *node, weft_peer handle, const struct weft_send *send)
{
	size_t len;
	struct weft__peer *peer = weft__peer_find(node, handle);
	if (node->closing)
		return -ECANCELED;
	if (!peer || peer->close_queued ||
	    (peer->s.state != WEFT__OPEN && peer->s.state != WEFT__CONNECTING))
		return -ENOTCONN;
	int ret = measure(node, send, &len);
	if (ret < 0)
		return ret;
	if (len >= WEFT__REST_NEVER ||
	    (peer->s.state == WEFT__OPEN && len > peer->s.peer_max_message))
		return -EMSGSIZE;
	bool at_once = peer->s.state == WEFT__OPEN && peer->in_flight == 0 &&
		       peer->route->in_flight == 0 && !leaves_later(node, peer);
	ret = put(node, peer, send, len, at_once);
	if (ret < 0)
		return ret;
	node->stats.sent++;
	node->stats.sent_bytes += len;
	if (at_once) {
		weft__transmit_flush(node, peer);
		weft__bundle_flush(node, peer->route);
	} else if (!TAILQ_EMPTY(&peer->queue)) {
		weft__peer_mark_dirty(node, peer);
	}
	return 0;
}

int weft_msg_reply(struct weft_node *node, const struct weft_msg *request,
		   const struct weft_send *send)
{
	struct weft_send answer = WEFT_SEND_INIT;
	size_t size = send->size < sizeof(answer) ? send->size : sizeof(answer);
	if (size < FIRST_SEND_SIZE)
		return -EINVAL;
	memcpy(&answer, send, size);
	answer.reply_to = request->id;
	return weft_peer_send(node, request->peer, &answer);
}

/* Finds what a message lies in, that is being shown or is held already. */
static bool find_place(const struct weft_node *node, const struct weft_msg *msg,
		       struct weft__held *place)
{
	struct weft__held *held;
	if (msg == node->held.showing) {
		place->block = node->held.block;
		place->frame = place->block ? NULL : node->held.frame;
		return true;
	}
	LIST_FOREACH (held, &node->held.list, link) {
		if (msg != &held->msg)
			continue;
		place->frame = held->frame;
		place->block = held->block;
		return true;
	}
	return false;
}

struct weft_msg *weft_msg_hold(struct weft_node *node, const struct weft_msg *msg)
{
	struct weft__held place = {.node = node};
	if (!find_place(node, msg, &place))
		return NULL;
	struct weft__held *held = malloc(sizeof(*held));
	if (!held)
		return NULL;
	place.msg = *msg;
	place.buf = weft_buf_ref(place.block ? place.block->buf : place.frame->buf);
	*held = place;
	if (held->block)
		held->block->refs++;
	else
		held->frame->refs++;
	LIST_INSERT_HEAD(&node->held.list, held, link);
	node->held.count++;
	return &held->msg;
}

void weft_msg_release(struct weft_msg *msg)
{
	struct weft__held *held = (struct weft__held *)msg;
	if (!held)
		return;
	weft_buf_unref(held->buf);
	if (held->node) {
		LIST_REMOVE(held, link);
		held->node->held.count--;
	}
	/* A block outlives its node, a frame does not. */
	if (held->block)
		weft__block_unref(held->block);
	else if (held->node)
		weft__rframe_unref(held->node, held->frame);
	free(held);
}

void weft__held_detach(struct weft_node *node)
{
	struct weft__held *held;
	while ((held = LIST_FIRST(&node->held.list))) {
		LIST_REMOVE(held, link);
		held->node = NULL;
	}
}
