/* SPDX-License-Identifier: MIT */
/* Messages longer than a frame. Calls frame, life, peer, receive, transmit, wire, and layer 1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "big.h"
#include "buf.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "receive.h"
#include "transmit.h"

/* Memory that was registered once is kept for the next message, up to so much. */
#define KEPT_MAX (64 * (size_t)1024 * 1024)

void weft__blocks_init(struct weft__blocks *blocks)
{
	*blocks = (struct weft__blocks){.bytes = 0};
	TAILQ_INIT(&blocks->used);
	TAILQ_INIT(&blocks->kept);
}

static void free_block(struct weft__block *block)
{
	weft_buf_unref(block->buf);
	free(block);
}

static void drop_kept(struct weft__blocks *blocks)
{
	struct weft__block *block = TAILQ_LAST(&blocks->kept, weft__block_list);
	TAILQ_REMOVE(&blocks->kept, block, link);
	blocks->kept_bytes -= block->size;
	free_block(block);
}

void weft__block_unref(struct weft__block *block)
{
	if (--block->refs > 0)
		return;
	struct weft_node *node = block->node;
	if (!node) {
		free_block(block);
		return;
	}
	struct weft__blocks *blocks = &node->blocks;
	TAILQ_REMOVE(&blocks->used, block, link);
	blocks->bytes -= block->size;
	if (block->copy)
		blocks->copies -= block->size;
	block->copy = false;
	blocks->freed = true;
	if (block->size == 0 || block->size > KEPT_MAX || block->spoilt) {
		free_block(block);
		return;
	}
	TAILQ_INSERT_HEAD(&blocks->kept, block, link);
	blocks->kept_bytes += block->size;
	while (blocks->kept_bytes > KEPT_MAX)
		drop_kept(blocks);
}

void weft__blocks_detach(struct weft_node *node)
{
	struct weft__blocks *blocks = &node->blocks;
	struct weft__block *block;
	while (!TAILQ_EMPTY(&blocks->kept))
		drop_kept(blocks);
	while ((block = TAILQ_FIRST(&blocks->used))) {
		TAILQ_REMOVE(&blocks->used, block, link);
		block->node = NULL;
	}
}

static struct weft__block *new_block(struct weft_node *node, struct weft_buf *buf, size_t off,
				     size_t size)
{
	struct weft__block *block = malloc(sizeof(*block));
	if (!block)
		return NULL;
	*block =
		(struct weft__block){.node = node, .buf = buf, .off = off, .size = size, .refs = 1};
	TAILQ_INSERT_HEAD(&node->blocks.used, block, link);
	node->blocks.bytes += size;
	return block;
}

/* A kept block that is long enough, and neither wastes much nor takes more than there is room for.
 */
static struct weft__block *take_kept(struct weft__blocks *blocks, size_t len, size_t room)
{
	struct weft__block *block;
	TAILQ_FOREACH (block, &blocks->kept, link) {
		if (block->size < len || block->size / 2 > len || block->size > room)
			continue;
		TAILQ_REMOVE(&blocks->kept, block, link);
		blocks->kept_bytes -= block->size;
		TAILQ_INSERT_HEAD(&blocks->used, block, link);
		blocks->bytes += block->size;
		block->refs = 1;
		block->off = 0;
		return block;
	}
	return NULL;
}

/* The most that all copies may take, or all blocks. */
static size_t most(const struct weft_node *node, bool copy)
{
	return copy ? node->opts.message_budget / 2 : node->opts.message_budget;
}

/* How much of it may still be taken. */
static size_t room_left(const struct weft_node *node, bool copy)
{
	size_t left = node->opts.message_budget - node->blocks.bytes;
	size_t of_copies = most(node, true) - node->blocks.copies;
	return copy && of_copies < left ? of_copies : left;
}

bool weft__out_has_room(const struct weft_node *node, size_t len)
{
	return len > most(node, true) || len <= room_left(node, true);
}

static int new_memory(struct weft_node *node, size_t len, struct weft__block **out)
{
	struct weft__blocks *blocks = &node->blocks;
	struct weft_buf *buf;
	while (blocks->kept_bytes > node->opts.message_budget - blocks->bytes - len)
		drop_kept(blocks);
	int ret = weft_buf_alloc(node->net, len, &buf);
	if (ret < 0)
		return ret;
	*out = new_block(node, buf, 0, len);
	if (*out)
		return 0;
	weft_buf_unref(buf);
	return -ENOMEM;
}

/*
 * Memory for a message that arrives, or for a copy of one that leaves. Returns 0, -EMSGSIZE (it can
 * never be had), -ENOBUFS (not now), or another code.
 */
static int take_block(struct weft_node *node, size_t len, bool copy, struct weft__block **out)
{
	struct weft__blocks *blocks = &node->blocks;
	size_t room = room_left(node, copy);
	if (len > most(node, copy))
		return -EMSGSIZE;
	if (len > room)
		return -ENOBUFS;
	*out = take_kept(blocks, len, room);
	int ret = *out ? 0 : new_memory(node, len, out);
	if (ret < 0)
		return ret;
	(*out)->copy = copy;
	if (copy)
		blocks->copies += (*out)->size;
	return 0;
}

/* Memory that the caller gives for a message, or NULL. */
static struct weft__block *ask_caller(struct weft_node *node, struct weft__peer *peer, size_t len,
				      uint32_t reply_to)
{
	size_t off = 0;
	if (!node->events.place)
		return NULL;
	bool before = weft__callback_begin(node);
	struct weft_buf *buf =
		node->events.place(node, peer->handle, len, reply_to, &off, node->user);
	weft__callback_end(node, before);
	/* What is too short is no place for it. */
	if (!buf || buf->net != node->net || off > weft_buf_size(buf) ||
	    len > weft_buf_size(buf) - off)
		return NULL;
	struct weft__block *block = new_block(node, weft_buf_ref(buf), off, 0);
	if (!block)
		weft_buf_unref(buf);
	return block;
}

static void wait_for_memory(struct weft_node *node, struct weft__peer *peer)
{
	if (!peer->is_starved)
		TAILQ_INSERT_TAIL(&node->starved, peer, starved);
	peer->is_starved = true;
}

bool weft__block_reserve(struct weft_node *node, struct weft__peer *peer, uint64_t len,
			 uint32_t reply_to, struct weft__block **out)
{
	/* Those who came first have the first claim to what is free, and are asked in their turn.
	 */
	if (!TAILQ_EMPTY(&node->starved) && !node->blocks.retrying) {
		wait_for_memory(node, peer);
		return false;
	}
	if (len > node->opts.max_message || len > SIZE_MAX) {
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"a message of %llu bytes, and at most %llu are taken",
				(unsigned long long)len,
				(unsigned long long)node->opts.max_message);
		return false;
	}
	struct weft__block *block = ask_caller(node, peer, (size_t)len, reply_to);
	if (peer->s.state == WEFT__GONE) {
		if (block)
			weft__block_unref(block);
		return false;
	}
	int ret = block ? 0 : take_block(node, (size_t)len, false, &block);
	if (ret == 0)
		*out = block;
	else if (ret == -ENOBUFS)
		wait_for_memory(node, peer);
	else
		weft__life_fail(node, peer, WEFT_REASON_MEMORY, "a message of %llu bytes: %s",
				(unsigned long long)len, weft_strerror(ret));
	return ret == 0;
}

static uint32_t rest_of(const struct weft__rframe *frame)
{
	return frame->is_compact ? 0
				 : weft__wire_peek_rest(frame->data + frame->body,
							frame->len - frame->body);
}

bool weft__part_is(const struct weft__rframe *frame)
{
	return rest_of(frame) != 0;
}

bool weft__in_admit(struct weft_node *node, struct weft__peer *peer,
		    const struct weft__rframe *frame)
{
	struct weft__record record;
	struct weft__block *block;
	uint32_t rest = rest_of(frame);
	size_t at = 0;
	if (rest == 0 || rest == WEFT__REST_NEVER || peer->in.block ||
	    weft__wire_get_record(frame->data + frame->body, frame->len - frame->body, &at,
				  &record) != 1)
		return true;
	uint64_t len = (uint64_t)record.len + rest;
	if (!weft__block_reserve(node, peer, len, record.reply_to, &block))
		return false;
	peer->in = (struct weft__in){
		.block = block, .len = (size_t)len, .id = record.id, .reply_to = record.reply_to};
	return true;
}

int weft__in_take(struct weft__peer *peer, const struct weft__record *record)
{
	struct weft__in *in = &peer->in;
	if (record->rest == WEFT__REST_NEVER) {
		weft__in_end(peer);
		return record->len == 0 ? 0 : -1;
	}
	if (!in->block || record->id != in->id || record->len == 0 ||
	    in->len - in->got != (size_t)record->len + record->rest)
		return -1;
	uint8_t *to = (uint8_t *)weft_buf_data(in->block->buf) + in->block->off + in->got;
	memcpy(to, record->data, record->len);
	in->got += record->len;
	return record->rest == 0;
}

void weft__in_end(struct weft__peer *peer)
{
	if (peer->in.block)
		weft__block_unref(peer->in.block);
	peer->in = (struct weft__in){.block = NULL};
}

void weft__in_retry(struct weft_node *node)
{
	struct weft__peer *peer;
	uint32_t count = 0;
	node->blocks.freed = false;
	node->blocks.retrying = true;
	/*
	 * Who still has to wait goes to the end, and is not asked twice. What the others free
	 * meanwhile is for the next turn.
	 */
	TAILQ_FOREACH (peer, &node->starved, starved)
		count++;
	while (count-- > 0 && (peer = TAILQ_FIRST(&node->starved))) {
		TAILQ_REMOVE(&node->starved, peer, starved);
		peer->is_starved = false;
		weft__receive_resume(node, peer);
	}
	node->blocks.retrying = false;
}

/* The bytes of one message in a frame that is full. */
static size_t part(const struct weft__peer *peer)
{
	return peer->s.max_frame - WEFT_FRAME_OVERHEAD;
}

uint32_t weft__out_frames(const struct weft__peer *peer, const struct weft__out *out)
{
	if (out->given_up || weft__bulk_offers(peer, out))
		return 1;
	return (uint32_t)((out->len - out->sent + part(peer) - 1) / part(peer));
}

int weft__out_queue(struct weft_node *node, struct weft__peer *peer, const struct weft_send *send,
		    size_t len, struct weft__out **result)
{
	int ret = -ENOMEM;
	struct weft__out *out = calloc(1, sizeof(*out));
	/* Only its place in the queue: the parts go in frames of their own. */
	struct weft__sframe *frame = out ? weft__sframe_take(node, WEFT__CONTROL_FRAME) : NULL;
	if (!frame)
		goto free_out;
	out->node = node;
	out->peer = peer;
	out->len = len;
	out->reply_to = send->reply_to;
	/* Decided once, since the numbers of frames depend on it. */
	out->in_parts = weft__bulk_clogged(node);
	if (send->buf) {
		out->buf = weft_buf_ref(send->buf);
		out->off = send->off;
	} else {
		ret = take_block(node, len, true, &out->block);
		if (ret < 0)
			goto give_frame;
		out->buf = weft_buf_ref(out->block->buf);
		weft__send_copy(weft_buf_data(out->buf), send);
	}
	frame->out = out;
	weft__transmit_queue(peer, frame, WEFT__DATA);
	*result = out;
	return 0;

give_frame:
	weft__sframe_give(node, frame, false);
free_out:
	free(out);
	return ret;
}

bool weft__out_fill(const struct weft__peer *peer, struct weft__out *out,
		    struct weft__sframe *frame)
{
	uint8_t *record = frame->data + WEFT__HEADER_LEN;
	size_t left = out->len - out->sent;
	size_t len = out->given_up ? 0 : left < part(peer) ? left : part(peer);
	uint8_t *to = weft__wire_put_record(record, out->id, out->reply_to, (uint32_t)len);
	weft__wire_put_rest(record, out->given_up ? WEFT__REST_NEVER : (uint32_t)(left - len));
	if (len > 0)
		memcpy(to, (uint8_t *)weft_buf_data(out->buf) + out->off + out->sent, len);
	out->sent += len;
	frame->len = WEFT__HEADER_LEN + weft__record_room(len);
	return out->given_up || out->sent == out->len;
}

/* The big message that leaves first: an offered one, or one in the queue. */
static const struct weft__out *first_out(const struct weft__peer *peer)
{
	const struct weft__sframe *frame;
	if (!TAILQ_EMPTY(&peer->offers))
		return TAILQ_FIRST(&peer->offers);
	TAILQ_FOREACH (frame, &peer->queue, link) {
		if (frame->out)
			return frame->out;
	}
	return NULL;
}

int weft_peer_get_progress(const struct weft_node *node, weft_peer handle,
			   struct weft_progress *result)
{
	const struct weft__peer *peer = weft__peer_find(node, handle);
	if (!peer || peer->s.state == WEFT__GONE)
		return -ENOTCONN;
	struct weft_progress full = {.size = sizeof(full)};
	if (result->size < full.size)
		full.size = result->size;
	if (full.size < 2 * sizeof(size_t))
		return -EINVAL;
	const struct weft__out *out = first_out(peer);
	const struct weft__grab *grab = TAILQ_FIRST(&peer->grabs);
	if (out) {
		full.out_id = out->id;
		full.out_len = out->len;
		full.out_done = out->sent;
	}
	if (peer->in.block) {
		full.in_id = peer->in.id;
		full.in_len = peer->in.len;
		full.in_done = peer->in.got;
	} else if (grab) {
		full.in_id = grab->id;
		full.in_len = grab->len;
		full.in_done = grab->got;
	}
	memcpy(result, &full, full.size);
	return 0;
}

void weft__out_give_up(struct weft_node *node, struct weft__peer *peer, struct weft__out *out)
{
	out->slot = NULL;
	out->given_up = true;
	weft__transmit_renumber(peer);
	weft__peer_mark_dirty(node, peer);
}

void weft__out_free(struct weft__out *out)
{
	if (out->slot)
		out->slot->out = NULL;
	weft_buf_unref(out->buf);
	if (out->block)
		weft__block_unref(out->block);
	free(out);
}
