/* SPDX-License-Identifier: MIT */
/* Strangers: CONNECTs, half-open sessions, refusals. Calls peer, life, transmit, wire. */
#include <errno.h>
#include <string.h>

#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "random.h"
#include "stranger.h"
#include "transmit.h"

/* How long a peer may take to prove that its address is its own. */
#define HALF_OPEN_MS 5000
/*
 * So long it cannot be given up for a newcomer: the other side takes a session for open that this
 * one has answered, so it has to have the time to show itself, also where a crowd comes at once and
 * the machine is busy. It is several times what those take who do show themselves, within these
 * bounds: a flood of those who never do does not prolong it.
 */
#define GRACE_MIN_MS 1000
#define GRACE_MAX_MS 2000
#define GRACE_TIMES 8
/* With each that is quicker, this part of the difference is forgotten. */
#define FORGET 16
#define ANSWERS_PER_SECOND 200
#define ANSWERING_MAX 32

static void rate_init(struct weft__rate *rate, uint32_t per_second, int64_t now)
{
	*rate = (struct weft__rate){now, per_second, per_second};
}

/* Takes one of so many a second. */
static bool take(struct weft__rate *rate, int64_t now)
{
	int64_t more = (now - rate->filled_ms) * rate->per_second / 1000;
	if (more > 0) {
		rate->filled_ms = now;
		rate->tokens = more > rate->per_second - rate->tokens
				       ? rate->per_second
				       : rate->tokens + (uint32_t)more;
	}
	if (rate->tokens == 0)
		return false;
	rate->tokens--;
	return true;
}

void weft__strangers_init(struct weft__strangers *strangers, unsigned connects, int64_t now)
{
	*strangers = (struct weft__strangers){.usual_ms = 0};
	rate_init(&strangers->connects, connects, now);
	rate_init(&strangers->answers, ANSWERS_PER_SECOND, now);
}

/* Sends a refusal to an address that may be anybody's: a few at once, and so many a second. */
static void refuse(struct weft_node *node, const struct weft_addr *addr, uint64_t session,
		   const struct weft__farewell *farewell)
{
	struct weft__strangers *strangers = &node->strangers;
	weft_dest dest;
	if (strangers->answering >= ANSWERING_MAX || !take(&strangers->answers, node->now)) {
		node->stats.drop_refused++;
		return;
	}
	struct weft__sframe *frame = weft__sframe_take(node, WEFT__CONTROL_FRAME);
	if (!frame)
		goto drop;
	if (weft_net_add_peer(node->net, addr, &dest) < 0)
		goto give_frame;
	struct weft__header header = {
		.version = WEFT__WIRE_VERSION,
		.type = WEFT__REJECT,
		.session = session,
	};
	weft__wire_put_header(frame->data, &header);
	frame->type = WEFT__REJECT;
	frame->len = WEFT__HEADER_LEN + weft__wire_put_reject(frame->data + WEFT__HEADER_LEN,
							      WEFT__SHORT_SPACE - WEFT__HEADER_LEN,
							      farewell);
	frame->stranger = dest;
	if (weft__transmit_stranger(node, frame) < 0)
		goto remove_dest;
	strangers->answering++;
	return;

remove_dest:
	weft_net_remove_peer(node->net, dest);
give_frame:
	weft__sframe_give(node, frame, false);
drop:
	node->stats.drop_refused++;
}

void weft__stranger_sent(struct weft_node *node, struct weft__sframe *frame)
{
	node->strangers.answering--;
	weft_net_remove_peer(node->net, frame->stranger);
}

/* The session that this CONNECT has asked for already, or NULL. */
static struct weft__peer *session_of(const struct weft_node *node, const struct weft__hello *hello)
{
	for (uint32_t i = 0; i < node->table_size; i++) {
		struct weft__peer *peer = node->table[i];
		if (peer && peer->s.state != WEFT__GONE && !peer->s.outgoing &&
		    peer->s.peer_id == hello->session && peer->s.nonce == hello->nonce &&
		    peer->s.instance == hello->instance)
			return peer;
	}
	return NULL;
}

void weft__stranger_opened(struct weft_node *node, int64_t took_ms)
{
	int64_t *usual_ms = &node->strangers.usual_ms;
	if (took_ms >= *usual_ms)
		*usual_ms = took_ms;
	else
		*usual_ms -= (*usual_ms - took_ms + FORGET - 1) / FORGET;
}

static int64_t grace_ms(const struct weft__strangers *strangers)
{
	int64_t ms = strangers->usual_ms * GRACE_TIMES;
	if (ms < GRACE_MIN_MS)
		return GRACE_MIN_MS;
	return ms < GRACE_MAX_MS ? ms : GRACE_MAX_MS;
}

/*
 * Gives up a half-open session at random, so that no flood can tell which, of those that have had
 * their time; and before all others those at whose address there is nobody, as far as is known.
 * Returns false if there is none.
 */
static bool evict(struct weft_node *node)
{
	int64_t grace = grace_ms(&node->strangers);
	uint32_t random = 0, nobody = 0, count = 0;
	struct weft__peer *peer;
	/* The oldest ones are first. */
	TAILQ_FOREACH (peer, &node->half_open, half_open) {
		if (node->now - peer->s.begun_ms < grace)
			break;
		count++;
		nobody += !peer->reached;
	}
	if (count == 0)
		return false;
	/* Without a random number it is the oldest one. */
	weft__random(&random, sizeof(random));
	random %= nobody > 0 ? nobody : count;
	TAILQ_FOREACH (peer, &node->half_open, half_open) {
		if ((nobody == 0 || !peer->reached) && random-- == 0)
			break;
	}
	node->stats.evicted++;
	weft__life_event(node, peer, WEFT__TIMEOUT);
	return true;
}

/* Whether the newcomer is welcome: 0, or the reason against it. */
static enum weft_reason judge(struct weft_node *node, const struct weft__header *header,
			      const struct weft__hello *hello, int *code)
{
	struct weft__session trial = {.state = WEFT__HALFOPEN};
	struct weft_peer_info info;
	int reason = weft__session_hello(&trial, hello, header->credit, node->frame_size,
					 node->features);
	if (reason)
		return (enum weft_reason)reason;
	if (node->open_peers >= node->opts.max_peers)
		return WEFT_REASON_FULL;
	if (!weft__pool_has_room(&node->pool))
		return WEFT_REASON_MEMORY;
	if (!node->events.accept)
		return WEFT_REASON_NONE;
	weft__peer_tell(node, hello, &info);
	bool before = weft__callback_begin(node);
	*code = node->events.accept(node, &info, node->user);
	weft__callback_end(node, before);
	return *code == 0 ? WEFT_REASON_NONE : WEFT_REASON_REFUSED;
}

static void begin(struct weft_node *node, const struct weft__header *header,
		  const struct weft__hello *hello)
{
	struct weft__peer *peer;
	uint64_t random;
	/* It will ask again. */
	if (node->strangers.half_open >= node->opts.max_half_open && !evict(node)) {
		node->stats.drop_rate++;
		return;
	}
	int ret = weft__random(&random, sizeof(random));
	if (ret == 0)
		ret = weft__peer_make(node, &hello->addr, &peer);
	if (ret != 0) {
		/* There may be room for it when it asks again. */
		if (ret == -ENOSPC)
			evict(node);
		node->stats.drop_refused++;
		return;
	}
	weft__session_accept(&peer->s, &node->pool, weft__peer_new_id(peer, random), node->now,
			     node->now + HALF_OPEN_MS);
	weft__session_hello(&peer->s, hello, header->credit, node->frame_size, node->features);
	peer->s.keepalive_ms = (uint32_t)node->opts.keepalive_ms;
	memcpy(peer->provider, hello->provider, sizeof(peer->provider));
	TAILQ_INSERT_TAIL(&node->half_open, peer, half_open);
	peer->is_half_open = true;
	node->strangers.half_open++;
	weft__life_event(node, peer, WEFT__RX_CONNECT);
	weft__life_set_timer(node, peer);
}

/* Whether the source is known, and is not at the address that the frame names. */
static bool speaks_for_another(const struct weft_node *node, weft_dest source,
			       const struct weft_addr *addr)
{
	struct weft_addr known;
	return source != WEFT_DEST_NONE && weft_net_get_peer_addr(node->net, source, &known) == 0 &&
	       !weft_addr_equal(&known, addr);
}

void weft__stranger_connect(struct weft_node *node, const struct weft__header *header,
			    const struct weft__hello *hello, weft_dest source)
{
	int code = 0;
	if (node->closing) {
		node->stats.drop_state++;
		return;
	}
	if (!take(&node->strangers.connects, node->now)) {
		node->stats.drop_rate++;
		return;
	}
	if (speaks_for_another(node, source, &hello->addr)) {
		node->stats.drop_source++;
		return;
	}
	struct weft__peer *peer = session_of(node, hello);
	if (peer && peer->s.state == WEFT__HALFOPEN) {
		weft__life_event(node, peer, WEFT__RX_CONNECT);
		return;
	}
	/* The other side has its answer: this one was overtaken. */
	if (peer) {
		node->stats.drop_duplicate++;
		return;
	}
	enum weft_reason reason = judge(node, header, hello, &code);
	if (reason == WEFT_REASON_NONE) {
		begin(node, header, hello);
		return;
	}
	node->stats.rejected++;
	struct weft__farewell farewell = {
		.quoted = hello->nonce,
		.reason = (uint16_t)reason,
		.code = (uint16_t)code,
	};
	refuse(node, &hello->addr, hello->session, &farewell);
}

void weft__stranger_ping(struct weft_node *node, uint64_t session, const struct weft__ping *ping,
			 weft_dest source)
{
	struct weft__farewell farewell = {
		.quoted = session,
		.reason = WEFT_REASON_UNKNOWN,
	};
	if (node->closing)
		return;
	if (speaks_for_another(node, source, &ping->addr))
		node->stats.drop_source++;
	else
		refuse(node, &ping->addr, ping->session, &farewell);
}
