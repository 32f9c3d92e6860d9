/* SPDX-License-Identifier: MIT */
/* Big messages in tagged chunks. Calls big, session, transmit, receive, life, peer, and layer 1. */
#include <errno.h>
#include <stdlib.h>

#include "bulk.h"
#include "clock.h"
#include "life.h"
#include "netimpl.h"
#include "nodeimpl.h"
#include "peer.h"
#include "random.h"
#include "receive.h"
#include "transmit.h"

/* A shorter message is faster in parts: it needs no answer before it can leave. */
#define OFFER_MIN (128 * (size_t)1024)
/* As a rule; a provider's own is in its quirks. doc/performance.md has the measurements. */
#define CHUNK_SIZE (256 * 1024)
/* Chunks of one message that are granted ahead, and chunks of one peer under way. */
#define WINDOW 8
/*
 * Messages of one peer that arrive at once, and chunks that are left to come of them, as a rule;
 * they are shown in their order. When half of them are here, as many begin as may: each grant is
 * one more thing for the sender to read, and those of one turn go together.
 */
#define AT_ONCE 8
/* No receiver grants smaller ones, but for the end of a message. */
#define CHUNK_MIN 4096

/* The bytes of a chunk, for messages that arrive at this node. */
static uint32_t chunk_size(const struct weft_node *node)
{
	size_t most = node->net->choice.info->ep_attr->max_msg_size;
	uint32_t own = node->net->choice.quirks->chunk_size;
	if (own == 0)
		own = CHUNK_SIZE;
	return own < most ? own : (uint32_t)most;
}

static uint32_t at_once(const struct weft_node *node)
{
	uint32_t own = node->net->choice.quirks->chunks_at_once;
	return own ? own : AT_ONCE;
}

bool weft__bulk_works(const struct weft_node *node)
{
	const struct weft__quirks *quirks = node->net->choice.quirks;
	/* Where its messages are shorter than that, parts in frames do as well. */
	return weft__has(node->net, FI_TAGGED) && !quirks->slow_tags && !quirks->writes_late &&
	       chunk_size(node) >= OFFER_MIN;
}

bool weft__bulk_offers(const struct weft__peer *peer, const struct weft__out *out)
{
	return (peer->s.features & WEFT__FEATURE_BULK) && out->len >= OFFER_MIN && out->sent == 0 &&
	       !out->given_up && !out->in_parts;
}

bool weft__bulk_clogged(const struct weft_node *node)
{
	return node->net->ops.held_bytes > node->opts.message_budget ||
	       (node->net->choice.quirks->stuck_answers && node->net->ops.held > 0);
}

void weft__bulk_put_offer(const struct weft__out *out, struct weft__sframe *frame)
{
	struct weft__offer offer = {out->id, out->reply_to, out->len};
	frame->type = WEFT__OFFER;
	frame->len = WEFT__HEADER_LEN + weft__wire_put_offer(frame->data + WEFT__HEADER_LEN,
							     WEFT__SHORT_SPACE - WEFT__HEADER_LEN,
							     &offer);
}

void weft__bulk_offered(struct weft__peer *peer, struct weft__out *out)
{
	out->offered = true;
	TAILQ_INSERT_TAIL(&peer->offers, out, link);
}

static void leave_offers(struct weft__out *out)
{
	TAILQ_REMOVE(&out->peer->offers, out, link);
	weft__out_free(out);
}

/* The length of the chunk that begins there, of a message of `len` bytes: the last one may be
 * shorter. */
static size_t chunk_at(size_t at, size_t len, size_t chunk)
{
	size_t left = len - at;
	return left < chunk ? left : chunk;
}

static weft_done_fn chunk_sent;

static int send_chunk(struct weft_node *node, struct weft__peer *peer, struct weft__out *out)
{
	struct weft_post what = WEFT_POST_INIT;
	size_t at = (size_t)out->next * out->chunk;
	what.buf = out->buf;
	what.off = out->off + at;
	what.len = chunk_at(at, out->len, out->chunk);
	what.tag = out->tag + out->next;
	what.timeout_ms = -1;
	int ret = weft_net_tsend(node->net, peer->dest, &what, chunk_sent, out);
	if (ret < 0)
		return ret;
	out->next++;
	out->flying++;
	peer->chunks++;
	peer->operations++;
	return 0;
}

void weft__bulk_flush(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__out *out;
	TAILQ_FOREACH (out, &peer->offers, link) {
		while (out->next < out->granted && peer->chunks < WINDOW) {
			int ret = send_chunk(node, peer, out);
			if (ret == 0)
				continue;
			if (ret == -ENOBUFS || ret == -EHOSTUNREACH || ret == -ENOMEM)
				weft__peer_mark_dirty(node, peer);
			else
				weft__life_fail(node, peer, WEFT_REASON_FABRIC,
						"the net refuses to send: %s", weft_strerror(ret));
			return;
		}
	}
}

/* A message that is acknowledged, or whose session has ended, is over when no chunk is under way.
 */
static void release(struct weft__out *out)
{
	if (out->over && out->flying == 0)
		leave_offers(out);
}

static void chunk_sent(struct weft_net *net, const struct weft_done *done)
{
	struct weft__out *out = done->user;
	struct weft__peer *peer = out->peer;
	struct weft_node *node = out->node;
	(void)net;
	peer->chunks--;
	peer->operations--;
	if (done->status == 0) {
		out->sent += done->len;
		if (out->slot)
			weft__slot_progress(node, out->slot);
	} else if (out->block) {
		/* The provider may still read the memory: it is not to be another message's. */
		out->block->spoilt = true;
	}
	if (done->status < 0 && done->status != -ECANCELED && peer->s.state != WEFT__GONE) {
		peer->prov_errno = done->prov_errno;
		peer->advice = done->advice;
		weft__life_fail(node, peer, WEFT_REASON_FABRIC, "the fabric says: %s", done->text);
	}
	/* Until here it counts as under way, since the end of the session frees what is not. */
	out->flying--;
	release(out);
	if (peer->s.state != WEFT__GONE)
		weft__bulk_flush(node, peer);
	weft__peer_reap(node, peer);
}

static void want_abort(struct weft_node *node, struct weft__peer *peer, struct weft__out *out)
{
	out->abort_due = true;
	peer->wanted |= WEFT__WANT_ABORT;
	weft__peer_mark_dirty(node, peer);
}

void weft__bulk_granted(struct weft_node *node, struct weft__peer *peer,
			const struct weft__grant *grant)
{
	struct weft__out *out;
	TAILQ_FOREACH (out, &peer->offers, link) {
		if (out->id == grant->id)
			break;
	}
	/* One that was acknowledged meanwhile needs no more. */
	if (!out)
		return;
	bool first = out->granted == 0;
	size_t chunks = (out->len + grant->chunk - 1) / grant->chunk;
	if (grant->count > chunks || (grant->chunk < CHUNK_MIN && grant->chunk < out->len) ||
	    (!first && (grant->chunk != out->chunk || grant->tag != out->tag))) {
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL, "message %u is granted wrongly",
				grant->id);
		return;
	}
	out->chunk = grant->chunk;
	out->tag = grant->tag;
	/* An older one may have been overtaken. */
	if (grant->count > out->granted)
		out->granted = grant->count;
	/* The receiver has begun with it only now, or has not heard that it need not go on. */
	if (out->given_up)
		want_abort(node, peer, out);
	weft__bulk_flush(node, peer);
}

void weft__bulk_acked(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__out *out, *next;
	(void)node;
	for (out = TAILQ_FIRST(&peer->offers); out; out = next) {
		next = TAILQ_NEXT(out, link);
		if (weft__after(out->number, peer->s.tx_acked))
			return;
		out->over = true;
		release(out);
	}
}

void weft__bulk_give_up(struct weft_node *node, struct weft__peer *peer, struct weft__out *out)
{
	out->slot = NULL;
	/* What is granted is sent all the same, because receives wait for it. */
	out->given_up = true;
	want_abort(node, peer, out);
}

static weft_done_fn chunk_came;

static int post_chunk(struct weft_node *node, struct weft__grab *grab)
{
	struct weft_post what = WEFT_POST_INIT;
	size_t at = (size_t)grab->posted * grab->chunk;
	what.buf = grab->block->buf;
	what.off = grab->block->off + at;
	what.len = chunk_at(at, grab->len, grab->chunk);
	what.tag = grab->tag + grab->posted;
	int ret = weft_net_trecv(node->net, &what, chunk_came, grab);
	if (ret == 0)
		grab->posted++;
	return ret;
}

/* Posts as many receives as may be there at once, and has them granted. */
static void post_chunks(struct weft_node *node, struct weft__grab *grab)
{
	struct weft__peer *peer = grab->peer;
	while (!grab->given_up && grab->posted < grab->chunks &&
	       grab->posted - grab->done < WINDOW) {
		int ret = post_chunk(node, grab);
		if (ret == 0)
			continue;
		weft__life_fail(node, peer, WEFT_REASON_MEMORY,
				"a receive for a message of %zu bytes: %s", grab->len,
				weft_strerror(ret));
		return;
	}
	if (grab->posted == grab->told)
		return;
	peer->wanted |= WEFT__WANT_GRANT;
	weft__peer_mark_dirty(node, peer);
}

static void free_grab(struct weft__grab *grab)
{
	weft_buf_unref(grab->scrap);
	weft__block_unref(grab->block);
	free(grab);
}

/* Nothing comes any more: it goes when its last receive has come back. */
static void orphan(struct weft__grab *grab)
{
	grab->peer = NULL;
	if (grab->posted == grab->done)
		free_grab(grab);
	else
		weft_net_cancel(grab->node->net, chunk_came, grab);
}

/*
 * A session that this side has ended, and the other one may not know that yet: what it sends must
 * find a receive, or it would lie in this provider, and the other one's operation and memory would
 * be held, until one of them is closed. On shm none of its later answers would be read.
 */
static bool may_still_come(const struct weft__peer *peer, const struct weft__grab *grab)
{
	return grab->posted != grab->done && !peer->over_there &&
	       peer->reason != WEFT_REASON_LOST && peer->reason != WEFT_REASON_RESTARTED;
}

/*
 * Memory of the caller's is the caller's again: the receives are cancelled, and each is posted anew
 * for what is thrown away, as it comes back. Returns whether there is memory for that.
 */
static bool turn_to_scrap(struct weft_node *node, struct weft__grab *grab)
{
	if (grab->block->size > 0)
		return true;
	size_t room = chunk_at(0, grab->len, grab->chunk) * (grab->posted - grab->done);
	if (weft_buf_alloc(node->net, room, &grab->scrap) < 0)
		return false;
	weft_net_cancel(node->net, chunk_came, grab);
	return true;
}

/* Posts a receive for a chunk again, whose first one has been cancelled. */
static bool post_scrap(struct weft_node *node, struct weft__grab *grab, uint64_t off)
{
	size_t at = (size_t)(off - grab->block->off);
	struct weft_post what = WEFT_POST_INIT;
	what.buf = grab->scrap;
	what.off = grab->scrap_used;
	what.len = chunk_at(at, grab->len, grab->chunk);
	what.tag = grab->tag + at / grab->chunk;
	if (what.len > weft_buf_size(grab->scrap) - what.off ||
	    weft_net_trecv(node->net, &what, chunk_came, grab) < 0)
		return false;
	grab->scrap_used += what.len;
	return true;
}

static void absorbed(struct weft_node *node, struct weft__peer *peer, struct weft__grab *grab)
{
	TAILQ_REMOVE(&peer->grabs, grab, link);
	node->absorbing--;
	free_grab(grab);
	weft__peer_reap(node, peer);
}

static bool is_whole(const struct weft__grab *grab)
{
	return grab->done == grab->posted && (grab->given_up || grab->posted == grab->chunks);
}

static void chunk_came(struct weft_net *net, const struct weft_done *done)
{
	struct weft__grab *grab = done->user;
	struct weft__peer *peer = grab->peer;
	struct weft_node *node = grab->node;
	(void)net;
	if (peer && peer->s.state == WEFT__GONE && grab->scrap && done->buf != grab->scrap &&
	    done->status == -ECANCELED && post_scrap(node, grab, done->off))
		return;
	size_t at = (size_t)(done->off - grab->block->off);
	size_t due = chunk_at(at, grab->len, grab->chunk);
	grab->done++;
	/* The provider may still write to it: it is not to be another message's. */
	if (done->status < 0)
		grab->block->spoilt = true;
	if (!peer) {
		if (grab->posted == grab->done)
			free_grab(grab);
		return;
	}
	if (peer->s.state == WEFT__GONE) {
		if (grab->posted == grab->done)
			absorbed(node, peer, grab);
		return;
	}
	node->now = weft__clock_coarse_ms();
	if (done->status < 0 || done->len != due) {
		peer->prov_errno = done->prov_errno;
		peer->advice = done->advice;
		weft__life_fail(
			node, peer, done->status < 0 ? WEFT_REASON_FABRIC : WEFT_REASON_PROTOCOL,
			"a part of message %u: %s", grab->id,
			done->status < 0 ? done->text : "not of the length that was granted");
		return;
	}
	grab->got += done->len;
	peer->grab_left -= done->len;
	/* Chunks are a sign of life as good as frames are. */
	peer->s.heard_ms = node->now;
	peer->s.ping_ms = 0;
	peer->s.suspect = false;
	/* Half a window at a time is enough to keep the other side busy. */
	if (grab->posted - grab->done <= WINDOW / 2)
		post_chunks(node, grab);
	if (peer->s.state == WEFT__GONE)
		return;
	if (is_whole(grab))
		weft__receive_resume(node, peer);
	else
		weft__bulk_look(node, peer);
}

/* The message of an OFFER that has its turn next, whether it is whole or not. */
static bool begin(struct weft_node *node, struct weft__peer *peer, struct weft__rframe *frame)
{
	struct weft__offer offer;
	struct weft__block *block;
	if (!(peer->s.features & WEFT__FEATURE_BULK)) {
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL,
				"an OFFER came, and bulk was not agreed upon");
		return false;
	}
	if (!weft__wire_get_offer(frame->data + frame->body, frame->len - frame->body, &offer)) {
		weft__life_fail(node, peer, WEFT_REASON_PROTOCOL, "an OFFER frame is malformed");
		return false;
	}
	uint64_t tag;
	if (!weft__block_reserve(node, peer, offer.len, offer.reply_to, &block))
		return false;
	struct weft__grab *grab = calloc(1, sizeof(*grab));
	if (!grab || weft__random(&tag, sizeof(tag)) < 0) {
		free(grab);
		weft__block_unref(block);
		weft__life_fail(node, peer, WEFT_REASON_MEMORY, NULL);
		return false;
	}
	uint32_t chunk = chunk_size(node);
	*grab = (struct weft__grab){
		.node = node,
		.peer = peer,
		.block = block,
		.len = (size_t)offer.len,
		.id = offer.id,
		.reply_to = offer.reply_to,
		/* The low bits count the chunks. */
		.tag = tag & ~(uint64_t)UINT32_MAX,
		.chunk = chunk,
		.chunks = (uint32_t)((offer.len + chunk - 1) / chunk),
	};
	TAILQ_INSERT_TAIL(&peer->grabs, grab, link);
	peer->grab_count++;
	peer->grab_left += grab->len;
	frame->begun = true;
	post_chunks(node, grab);
	return peer->s.state != WEFT__GONE;
}

/* Whether one more message may begin, where so many may arrive. */
static bool may_begin(const struct weft_node *node, const struct weft__peer *peer, uint32_t most)
{
	return peer->grab_count == 0 ||
	       (peer->grab_count < most && peer->grab_left <= most * (size_t)chunk_size(node));
}

void weft__bulk_look(struct weft_node *node, struct weft__peer *peer)
{
	uint32_t number = peer->s.rx_number;
	struct weft__rframe *frame;
	if (!may_begin(node, peer, at_once(node) / 2))
		return;
	TAILQ_FOREACH (frame, &peer->early, link) {
		if (frame->number != ++number)
			return;
		if (frame->type == WEFT__OFFER && !frame->begun &&
		    (!may_begin(node, peer, at_once(node)) || !begin(node, peer, frame)))
			return;
		/* Memory is promised in the order of the messages. */
		if (frame->type == WEFT__DATA && weft__part_is(frame))
			return;
	}
}

bool weft__bulk_is_near(const struct weft__peer *peer)
{
	const struct weft__rframe *frame = TAILQ_FIRST(&peer->early);
	return frame && frame->number == peer->s.rx_number + 1 && frame->begun &&
	       TAILQ_FIRST(&peer->grabs)->chunks == 1;
}

bool weft__bulk_ready(struct weft_node *node, const struct weft__peer *peer,
		      const struct weft__rframe *frame)
{
	(void)node;
	return frame->begun && is_whole(TAILQ_FIRST(&peer->grabs));
}

struct weft__grab *weft__bulk_take(struct weft__peer *peer)
{
	struct weft__grab *grab = TAILQ_FIRST(&peer->grabs);
	TAILQ_REMOVE(&peer->grabs, grab, link);
	peer->grab_count--;
	peer->grab_left -= grab->len - grab->got;
	return grab;
}

void weft__bulk_aborted(struct weft_node *node, struct weft__peer *peer,
			const struct weft__abort *abort)
{
	struct weft__grab *grab;
	TAILQ_FOREACH (grab, &peer->grabs, link) {
		if (grab->id != abort->id)
			continue;
		grab->given_up = true;
		if (is_whole(grab))
			weft__receive_resume(node, peer);
		return;
	}
}

static struct weft__grab *grant_due(const struct weft__peer *peer)
{
	struct weft__grab *grab;
	TAILQ_FOREACH (grab, &peer->grabs, link) {
		if (grab->told != grab->posted)
			return grab;
	}
	return NULL;
}

size_t weft__bulk_put_grant(const struct weft__peer *peer, uint8_t *to, size_t room)
{
	const struct weft__grab *grab = grant_due(peer);
	if (!grab)
		return 0;
	struct weft__grant grant = {grab->id, grab->chunk, grab->tag, grab->posted};
	return weft__wire_put_grant(to, room, &grant);
}

bool weft__bulk_grant_left(struct weft__peer *peer)
{
	struct weft__grab *grab = grant_due(peer);
	if (grab)
		grab->told = grab->posted;
	return grant_due(peer) != NULL;
}

static struct weft__out *abort_due(const struct weft__peer *peer)
{
	struct weft__out *out;
	TAILQ_FOREACH (out, &peer->offers, link) {
		if (out->abort_due)
			return out;
	}
	return NULL;
}

size_t weft__bulk_put_abort(const struct weft__peer *peer, uint8_t *to, size_t room)
{
	const struct weft__out *out = abort_due(peer);
	if (!out)
		return 0;
	struct weft__abort abort = {.id = out->id, .reason = WEFT_REASON_TIMEOUT};
	return weft__wire_put_abort(to, room, &abort);
}

bool weft__bulk_abort_left(struct weft__peer *peer)
{
	struct weft__out *out = abort_due(peer);
	if (out)
		out->abort_due = false;
	return abort_due(peer) != NULL;
}

void weft__bulk_end(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__grab *grab, *next_grab;
	struct weft__out *out, *next;
	for (grab = TAILQ_FIRST(&peer->grabs); grab; grab = next_grab) {
		next_grab = TAILQ_NEXT(grab, link);
		if (may_still_come(peer, grab) && turn_to_scrap(node, grab)) {
			node->absorbing++;
			continue;
		}
		TAILQ_REMOVE(&peer->grabs, grab, link);
		orphan(grab);
	}
	for (out = TAILQ_FIRST(&peer->offers); out; out = next) {
		next = TAILQ_NEXT(out, link);
		out->over = true;
		release(out);
	}
}

void weft__bulk_take_no_more(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__grab *grab;
	while ((grab = TAILQ_FIRST(&peer->grabs))) {
		TAILQ_REMOVE(&peer->grabs, grab, link);
		node->absorbing--;
		orphan(grab);
	}
}

void weft__bulk_abandon(struct weft_node *node, struct weft__peer *peer)
{
	struct weft__out *out;
	weft__bulk_take_no_more(node, peer);
	/* Another session may have the same destination, so that this one's end would not end them.
	 */
	TAILQ_FOREACH (out, &peer->offers, link)
		weft__ops_abandon(node->net, chunk_sent, out);
}
