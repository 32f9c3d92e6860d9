/* SPDX-License-Identifier: MIT */
/* Peers: handles, table, lists, and the public calls about one peer. Calls bulk, bundle, session,
 * life, transmit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "life.h"
#include "nodeimpl.h"
#include "peer.h"
#include "random.h"
#include "transmit.h"

#define TABLE_START 16
/*
 * The low bits of a session id say where in the table the peer is: each frame that arrives is
 * looked up, and this touches nothing but the peer itself. The others are random, so that nobody
 * guesses one, and no frame of a former session is taken for one of the next.
 */
#define INDEX_BITS 20
#define DEFAULT_TIMEOUT_MS 5000
#define CACHE_LINE 64

struct weft__peer *weft__peer_find(const struct weft_node *node, weft_peer handle)
{
	uint32_t index = (uint32_t)handle - 1;
	struct weft__peer *peer = index < node->table_size ? node->table[index] : NULL;
	return peer && peer->handle == handle ? peer : NULL;
}

/* The peer whose place in the table a session id gives, whether the rest of it is right or not. */
static struct weft__peer *at_place(const struct weft_node *node, uint64_t id)
{
	uint32_t index = (uint32_t)(id & ((1u << INDEX_BITS) - 1)) - 1;
	return index < node->table_size ? node->table[index] : NULL;
}

void weft__peer_prefetch(const struct weft_node *node, uint64_t id)
{
	const char *peer = (const char *)at_place(node, id);
	for (size_t at = 0; peer && at < offsetof(struct weft__peer, s.outgoing); at += CACHE_LINE)
		__builtin_prefetch(peer + at);
}

struct weft__peer *weft__peer_by_id(const struct weft_node *node, uint64_t id)
{
	struct weft__peer *peer = at_place(node, id);
	return peer && peer->s.id == id && peer->s.state != WEFT__GONE ? peer : NULL;
}

static int grow(struct weft_node *node)
{
	uint32_t size = node->table_size ? node->table_size * 2 : TABLE_START;
	struct weft__peer **table = realloc(node->table, size * sizeof(*table));
	if (!table)
		return -ENOMEM;
	node->table = table;
	uint32_t *generation = realloc(node->generation, size * sizeof(*generation));
	if (!generation)
		return -ENOMEM;
	node->generation = generation;
	for (uint32_t i = node->table_size; i < size; i++) {
		table[i] = NULL;
		generation[i] = 1;
	}
	node->table_size = size;
	return 0;
}

static int take_index(struct weft_node *node, struct weft__peer *peer)
{
	while (node->free_hint < node->table_size && node->table[node->free_hint])
		node->free_hint++;
	if (node->free_hint == (1u << INDEX_BITS) - 1)
		return -ENOSPC;
	if (node->free_hint == node->table_size) {
		int ret = grow(node);
		if (ret < 0)
			return ret;
	}
	peer->index = node->free_hint;
	peer->handle = (weft_peer)node->generation[peer->index]++ << 32 | (peer->index + 1);
	node->table[peer->index] = peer;
	node->peers++;
	return 0;
}

static void leave_index(struct weft_node *node, struct weft__peer *peer)
{
	node->table[peer->index] = NULL;
	if (peer->index < node->free_hint)
		node->free_hint = peer->index;
	node->peers--;
}

int weft__peer_make(struct weft_node *node, const struct weft_addr *addr, struct weft__peer **out)
{
	struct weft__peer *peer = calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	TAILQ_INIT(&peer->queue);
	TAILQ_INIT(&peer->unacked);
	TAILQ_INIT(&peer->asking);
	TAILQ_INIT(&peer->early);
	TAILQ_INIT(&peer->grabs);
	TAILQ_INIT(&peer->offers);
	peer->s.state = WEFT__GONE;
	int ret = weft_net_add_peer(node->net, addr, &peer->dest);
	if (ret < 0)
		goto free_peer;
	ret = weft__route_join(node, peer->dest, &peer->route);
	if (ret < 0)
		goto remove_dest;
	ret = take_index(node, peer);
	if (ret < 0)
		goto leave_route;
	*out = peer;
	return 0;

leave_route:
	weft__route_leave(node, peer->route);
remove_dest:
	weft_net_remove_peer(node->net, peer->dest);
free_peer:
	free(peer);
	return ret;
}

uint64_t weft__peer_new_id(const struct weft__peer *peer, uint64_t random)
{
	return random << INDEX_BITS | (peer->index + 1);
}

static void drop_dest(struct weft_node *node, struct weft__peer *peer)
{
	/* Operations that the net still has for nobody else end with that, in the next poll. */
	if (!peer->dropped)
		weft_net_remove_peer(node->net, peer->dest);
	peer->dropped = true;
}

void weft__peer_told(struct weft_node *node, struct weft__peer *peer)
{
	if (peer->is_owing)
		TAILQ_REMOVE(&node->owing, peer, owing);
	if (peer->is_lazy)
		TAILQ_REMOVE(&node->lazy, peer, owing);
	peer->is_owing = peer->is_lazy = false;
}

void weft__peer_reap(struct weft_node *node, struct weft__peer *peer)
{
	const unsigned last = WEFT__WANT_CLOSE | WEFT__WANT_CLOSED;
	if (peer->s.state != WEFT__GONE || peer->is_ending ||
	    ((peer->flying | peer->wanted) & last) || !TAILQ_EMPTY(&peer->grabs))
		return;
	drop_dest(node, peer);
	if (peer->operations > 0)
		return;
	if (peer->is_dirty)
		TAILQ_REMOVE(&node->dirty, peer, dirty);
	weft__peer_told(node, peer);
	if (peer->is_blocked)
		TAILQ_REMOVE(&node->blocked, peer, blocked);
	if (peer->timer_on)
		weft__deadline_remove(&node->peer_timers, &peer->timer);
	leave_index(node, peer);
	weft__route_leave(node, peer->route);
	free(peer->why);
	free(peer);
}

void weft__peer_abandon(struct weft_node *node, struct weft__peer *peer)
{
	weft__bundle_forget(node, peer);
	weft__bulk_abandon(node, peer);
	drop_dest(node, peer);
	weft__peer_reap(node, peer);
}

void weft__peer_mark_dirty(struct weft_node *node, struct weft__peer *peer)
{
	if (!peer->is_dirty)
		TAILQ_INSERT_TAIL(&node->dirty, peer, dirty);
	peer->is_dirty = true;
}

void weft__peer_mark_owing(struct weft_node *node, struct weft__peer *peer)
{
	if (peer->is_owing)
		return;
	weft__peer_told(node, peer);
	TAILQ_INSERT_TAIL(&node->owing, peer, owing);
	peer->is_owing = true;
}

void weft__peer_freed(struct weft_node *node, weft_peer handle)
{
	struct weft__peer *peer = weft__peer_find(node, handle);
	if (!peer || peer->s.state == WEFT__GONE) {
		weft__pool_freed(&node->pool);
		return;
	}
	weft__credit_freed(&node->pool, &peer->s.credit);
	weft__peer_mark_owing(node, peer);
}

void weft__peers_flush(struct weft_node *node)
{
	/* What cannot leave now comes back to the list, and waits for the next turn. */
	struct weft__peer_list list = TAILQ_HEAD_INITIALIZER(list);
	struct weft__peer *peer;
	TAILQ_CONCAT(&list, &node->dirty, dirty);
	while ((peer = TAILQ_FIRST(&list))) {
		TAILQ_REMOVE(&list, peer, dirty);
		peer->is_dirty = false;
		weft__transmit_flush(node, peer);
		weft__peer_reap(node, peer);
	}
}

static void tell_owed(struct weft_node *node, struct weft__peer *peer)
{
	peer->wanted |= WEFT__WANT_CREDIT;
	weft__transmit_flush(node, peer);
}

void weft__peers_settle(struct weft_node *node)
{
	struct weft__peer *peer;
	while ((peer = TAILQ_FIRST(&node->owing))) {
		weft__peer_told(node, peer);
		if (peer->s.state != WEFT__OPEN && peer->s.state != WEFT__CLOSING)
			continue;
		weft__credit_grant(&node->pool, &peer->s.credit);
		/* Of many messages of a chunk each, one acknowledgement is for several. */
		bool now = weft__bulk_is_near(peer) ? weft__session_owes_credit_now(&peer->s)
						    : weft__session_owes_now(&peer->s);
		if (now) {
			tell_owed(node, peer);
		} else if (weft__session_owes(&peer->s)) {
			TAILQ_INSERT_TAIL(&node->lazy, peer, owing);
			peer->is_lazy = true;
			peer->lazy_ms = node->now + WEFT__OWED_MS;
		}
	}
	while ((peer = TAILQ_FIRST(&node->lazy)) && node->now >= peer->lazy_ms) {
		weft__peer_told(node, peer);
		/* A frame that has left meanwhile may have told it. */
		if (peer->s.state != WEFT__GONE && weft__session_owes(&peer->s))
			tell_owed(node, peer);
	}
}

int weft__peers_owed(const struct weft_node *node, int limit_ms)
{
	const struct weft__peer *first = TAILQ_FIRST(&node->lazy);
	if (!first || first->lazy_ms - node->now >= limit_ms)
		return limit_ms;
	return first->lazy_ms > node->now ? (int)(first->lazy_ms - node->now) : 0;
}

void weft__peers_unblock(struct weft_node *node)
{
	const struct weft__frames *frames = &node->frames;
	struct weft__peer_list list = TAILQ_HEAD_INITIALIZER(list);
	struct weft__peer *peer;
	if (frames->counted >= frames->max || node->slots.used > node->slots.max / 2)
		return;
	TAILQ_CONCAT(&list, &node->blocked, blocked);
	while ((peer = TAILQ_FIRST(&list))) {
		TAILQ_REMOVE(&list, peer, blocked);
		if (peer->frames > frames->max_peer / 2 ||
		    !weft__out_has_room(node, peer->lacked)) {
			TAILQ_INSERT_TAIL(&node->blocked, peer, blocked);
			continue;
		}
		peer->is_blocked = false;
		if (!node->events.writable || peer->s.state != WEFT__OPEN)
			continue;
		bool before = weft__callback_begin(node);
		node->events.writable(node, peer->handle, node->user);
		weft__callback_end(node, before);
	}
}

void weft__peers_free(struct weft_node *node)
{
	for (uint32_t i = 0; i < node->table_size; i++) {
		struct weft__peer *peer = node->table[i];
		if (!peer)
			continue;
		free(peer->why);
		free(peer);
	}
	free(node->table);
	free(node->generation);
}

void weft__peer_tell(const struct weft_node *node, const struct weft__hello *hello,
		     struct weft_peer_info *info)
{
	*info = (struct weft_peer_info){
		.size = sizeof(*info),
		.addr = hello->addr,
		.instance = hello->instance,
		.libfabric = hello->libfabric,
		.provider = hello->provider,
		.max_message = hello->max_message,
		.max_frame =
			hello->max_frame < node->frame_size ? hello->max_frame : node->frame_size,
		.silence_ms = hello->silence_ms,
	};
}

int weft_peer_get_info(const struct weft_node *node, weft_peer handle, struct weft_peer_info *out)
{
	const struct weft__peer *peer = weft__peer_find(node, handle);
	if (!peer || peer->s.state == WEFT__GONE)
		return -ENOTCONN;
	struct weft_peer_info full = {
		.size = out->size < sizeof(full) ? out->size : sizeof(full),
		.instance = peer->s.instance,
		.libfabric = peer->s.libfabric,
		.provider = peer->provider,
		.max_message = peer->s.peer_max_message,
		.max_frame = peer->s.max_frame,
		.silence_ms = peer->s.peer_silence_ms,
		.outgoing = peer->s.outgoing,
	};
	if (full.size < sizeof(size_t) + sizeof(struct weft_addr))
		return -EINVAL;
	weft_net_get_peer_addr(node->net, peer->dest, &full.addr);
	memcpy(out, &full, full.size);
	return 0;
}

/* Says why no peer can be added, in the words of this layer. */
static int refuse(struct weft_node *node, int code, const char *why)
{
	weft__log(&node->log, WEFT_LOG_ERROR, "cannot connect: %s", why);
	return code;
}

int weft_peer_connect(struct weft_node *node, const struct weft_addr *addr, int timeout_ms,
		      weft_peer *out)
{
	struct weft__peer *peer;
	uint64_t random[2];
	if (node->closing)
		return -ECANCELED;
	if (timeout_ms < -1)
		return -EINVAL;
	if (node->open_peers >= node->opts.max_peers)
		return refuse(node, -ENOSPC, "max_peers is reached");
	if (!weft__pool_has_room(&node->pool))
		return refuse(node, -ENOSPC, "the messages that are held take all of recv_budget");
	int ret = weft__random(random, sizeof(random));
	if (ret == 0)
		ret = weft__peer_make(node, addr, &peer);
	if (ret != 0)
		return ret;
	node->now = weft__clock_coarse_ms();
	if (timeout_ms < 0)
		timeout_ms = DEFAULT_TIMEOUT_MS;
	weft__session_connect(&peer->s, &node->pool, weft__peer_new_id(peer, random[0]), random[1],
			      node->now, node->now + timeout_ms);
	peer->s.max_frame = node->frame_size;
	peer->s.keepalive_ms = (uint32_t)node->opts.keepalive_ms;
	peer->told = true;
	peer->counted = true;
	node->open_peers++;
	/* The first CONNECT is due now, and leaves in the next turn. */
	weft__life_event(node, peer, weft__session_tick(&peer->s, node->now, false));
	weft__life_set_timer(node, peer);
	*out = peer->handle;
	return 0;
}

int weft_peer_close(struct weft_node *node, weft_peer handle, int linger_ms)
{
	struct weft__peer *peer = weft__peer_find(node, handle);
	if (!peer || peer->s.state == WEFT__GONE || peer->s.state == WEFT__HALFOPEN ||
	    peer->close_queued)
		return -ENOTCONN;
	weft__life_close(node, peer, WEFT_REASON_CLOSED, linger_ms);
	return 0;
}

int weft_peer_set_data(struct weft_node *node, weft_peer handle, void *data)
{
	struct weft__peer *peer = weft__peer_find(node, handle);
	if (!peer || peer->s.state == WEFT__GONE)
		return -ENOTCONN;
	peer->data = data;
	return 0;
}

void *weft_peer_data(const struct weft_node *node, weft_peer handle)
{
	const struct weft__peer *peer = weft__peer_find(node, handle);
	return peer ? peer->data : NULL;
}
