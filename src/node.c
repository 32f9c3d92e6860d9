/* SPDX-License-Identifier: MIT */
/* Nodes: opening, turns, waiting, closing. Calls every other part of layer 2, and layer 1. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

#include "clock.h"
#include "life.h"
#include "netimpl.h"
#include "nodeimpl.h"
#include "peer.h"
#include "random.h"

#define MIB (1024 * 1024)
#define DEFAULT_BUDGET (32 * (size_t)MIB)
#define DEFAULT_PEERS 1000
#define DEFAULT_HALF_OPEN 1024
#define DEFAULT_CONNECTS 2000
#define DEFAULT_MESSAGE (1024 * (uint64_t)MIB)
#define DEFAULT_KEEPALIVE_MS 10000
#define DEFAULT_SILENCE_MS 30000
#define DEFAULT_LINGER_MS 5000
/* Places in the address vector for those who are refused. */
#define SPARE_PEERS 8
/* So that sums of such numbers are none that wraps. */
#define FRAMES_MAX (UINT32_MAX / 2)
#define POSTED_MIN 16
#define POSTED_MAX 512
/* Memory for the ends of messages is bounded by the budget for their bytes. */
#define BYTES_PER_SLOT 128
/* While something could not be done for want of room, no sleep is longer. */
#define RETRY_MS 10
#define CLOSE_TURN_MS 10

#define FIRST_OPTS_SIZE (offsetof(struct weft_node_opts, silence_ms) + sizeof(int))

/* Copies a struct that begins with its size, as much as both sides know. Returns 0 or -EINVAL. */
static int copy_sized(void *to, size_t to_size, const void *from, size_t least)
{
	size_t size;
	memcpy(&size, from, sizeof(size));
	if (size < least)
		return -EINVAL;
	if (size > to_size)
		size = to_size;
	memcpy(to, from, size);
	return 0;
}

static int bad_option(const struct weft_node *node, const char *what)
{
	weft__log(&node->log, WEFT_LOG_ERROR, "cannot open a node: %s", what);
	return -EINVAL;
}

#define DEFAULT(field, value)                                                                      \
	do {                                                                                       \
		if ((field) == 0)                                                                  \
			(field) = (value);                                                         \
	} while (0)

static int read_opts(struct weft_node *node, const struct weft_node_opts *given)
{
	struct weft_node_opts *opts = &node->opts;
	*opts = (struct weft_node_opts)WEFT_NODE_OPTS_INIT;
	if (given && copy_sized(opts, sizeof(*opts), given, FIRST_OPTS_SIZE) < 0)
		return -EINVAL;
	if (opts->net)
		node->log = (struct weft__log){opts->net->log, opts->net->log_user};
	DEFAULT(opts->max_connects, DEFAULT_CONNECTS);
	DEFAULT(opts->recv_budget, DEFAULT_BUDGET);
	DEFAULT(opts->send_budget, DEFAULT_BUDGET);
	DEFAULT(opts->peer_send_budget, opts->send_budget / 8);
	DEFAULT(opts->message_budget, 2 * DEFAULT_MESSAGE);
	DEFAULT(opts->max_message, opts->message_budget / 2);
	DEFAULT(opts->keepalive_ms, DEFAULT_KEEPALIVE_MS);
	DEFAULT(opts->silence_ms, DEFAULT_SILENCE_MS);
	if (opts->keepalive_ms < 0 || opts->silence_ms < 0)
		return bad_option(node, "a time is negative");
	if (opts->peer_send_budget > opts->send_budget)
		return bad_option(node, "peer_send_budget is more than send_budget");
	return 0;
}

/* Finds out how many frames and peers the budgets and the net have room for. */
static int plan(struct weft_node *node)
{
	struct weft_node_opts *opts = &node->opts;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	weft_net_get_info(node->net, &info);
	node->provider = info.provider;
	node->libfabric = info.libfabric_running;
	node->features = WEFT__FEATURE_BUNDLE | WEFT__FEATURE_COMPACT;
	if (weft__bulk_works(node))
		node->features |= WEFT__FEATURE_BULK;
	size_t size = node->net->choice.quirks->frame_size;
	DEFAULT(size, WEFT__FRAME_SIZE);
	if (size > info.max_msg)
		size = info.max_msg;
	if (size < WEFT__FRAME_MIN) {
		weft__log(&node->log, WEFT_LOG_ERROR,
			  "%s carries messages of %zu bytes only; a node needs %d", info.provider,
			  info.max_msg, WEFT__FRAME_MIN);
		return -EMSGSIZE;
	}
	node->frame_size = (uint32_t)size;

	size_t frames = opts->recv_budget / size;
	if (frames > FRAMES_MAX)
		frames = FRAMES_MAX;
	size_t posted = frames / 4;
	if (posted > POSTED_MAX)
		posted = POSTED_MAX;
	if (posted > info.rx_size)
		posted = info.rx_size;
	if (posted < POSTED_MIN)
		return bad_option(node, "recv_budget is less than 64 frames");
	size_t credits = frames - posted;
	size_t room = info.max_peers > SPARE_PEERS ? info.max_peers - SPARE_PEERS : 1;
	if (room > credits)
		room = credits;
	if (opts->max_half_open == 0) {
		opts->max_half_open = room / 8 < DEFAULT_HALF_OPEN ? room / 8 : DEFAULT_HALF_OPEN;
		DEFAULT(opts->max_half_open, 1);
	}
	if (opts->max_half_open >= room)
		return bad_option(node, "max_half_open leaves no room for peers");
	room -= opts->max_half_open;
	if (opts->max_peers == 0) {
		/* Half of the frames are left to be lent to those who are busy. */
		opts->max_peers = room < credits / 2 ? room : credits / 2;
		if (opts->max_peers > DEFAULT_PEERS)
			opts->max_peers = DEFAULT_PEERS;
	}
	if (opts->max_peers > room) {
		weft__log(&node->log, WEFT_LOG_ERROR,
			  "cannot open a node for %zu peers: there is room for %zu (recv_budget: "
			  "%zu; the net: %zu, see RLIMIT_NOFILE)",
			  opts->max_peers, room, credits, info.max_peers);
		return -EINVAL;
	}
	weft__pool_init(&node->pool, (uint32_t)credits,
			(uint32_t)(opts->max_peers + opts->max_half_open));
	size_t sends = opts->send_budget / size;
	size_t peer_sends = opts->peer_send_budget / size;
	if (sends < 2 || peer_sends < 1)
		return bad_option(node,
				  "send_budget is less than two frames, or a peer's than one");
	weft__frames_init(node, sends < FRAMES_MAX ? (uint32_t)sends : FRAMES_MAX,
			  peer_sends < FRAMES_MAX ? (uint32_t)peer_sends : FRAMES_MAX);
	node->frames.posted_max = (uint32_t)posted;
	size_t slots = opts->send_budget / BYTES_PER_SLOT;
	weft__slots_init(&node->slots, slots < UINT32_MAX ? (uint32_t)slots : UINT32_MAX);
	return 0;
}

static void init_lists(struct weft_node *node)
{
	TAILQ_INIT(&node->dirty);
	TAILQ_INIT(&node->routes_waiting);
	TAILQ_INIT(&node->owing);
	TAILQ_INIT(&node->lazy);
	TAILQ_INIT(&node->ending);
	TAILQ_INIT(&node->blocked);
	TAILQ_INIT(&node->half_open);
	TAILQ_INIT(&node->starved);
	weft__blocks_init(&node->blocks);
	LIST_INIT(&node->held.list);
	atomic_init(&node->posted, NULL);
	atomic_init(&node->woken, false);
	node->now = weft__clock_coarse_ms();
	int64_t slack_ms = weft__clock_slack_ms();
	weft__deadlines_init(&node->slot_timers, node->now, slack_ms);
	weft__deadlines_init(&node->peer_timers, node->now, slack_ms);
}

int weft_node_open(struct weft_node **out, const struct weft_node_opts *given,
		   const struct weft_events *events, void *user)
{
	struct weft_node *node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->events = (struct weft_events)WEFT_EVENTS_INIT;
	node->user = user;
	int ret = 0;
	if (events)
		ret = copy_sized(&node->events, sizeof(node->events), events, 2 * sizeof(size_t));
	if (ret == 0)
		ret = read_opts(node, given);
	if (ret == 0)
		ret = weft__random(&node->instance, sizeof(node->instance));
	if (ret < 0)
		goto free_node;
	node->instance |= 1;
	init_lists(node);
	ret = weft_net_open(&node->net, node->opts.net);
	if (ret < 0)
		goto free_node;
	node->opts.net = NULL;
	weft_net_get_addr(node->net, &node->addr);
	ret = plan(node);
	if (ret == 0)
		ret = weft__rframes_post(node);
	if (ret < 0)
		goto close_net;
	weft__strangers_init(&node->strangers, node->opts.max_connects, node->now);
	*out = node;
	return 0;

close_net:
	node->closing = true;
	weft_net_close(node->net);
	weft__frames_free(&node->frames);
free_node:
	free(node);
	return ret;
}

int weft_node_post(struct weft_node *node, weft_post_fn *fn, void *user)
{
	if (node->closing)
		return -ECANCELED;
	struct weft__posted *posted = malloc(sizeof(*posted));
	if (!posted)
		return -ENOMEM;
	*posted = (struct weft__posted){atomic_load(&node->posted), fn, user};
	while (!atomic_compare_exchange_weak(&node->posted, &posted->next, posted))
		;
	weft_node_wake(node);
	return 0;
}

static void run_posted(struct weft_node *node)
{
	struct weft__posted *list = atomic_exchange(&node->posted, NULL);
	struct weft__posted *first = NULL;
	/* The last one posted is the first one found. */
	while (list) {
		struct weft__posted *next = list->next;
		list->next = first;
		first = list;
		list = next;
	}
	while (first) {
		struct weft__posted *posted = first;
		first = posted->next;
		bool before = weft__callback_begin(node);
		posted->fn(node, posted->user);
		weft__callback_end(node, before);
		free(posted);
	}
}

void weft_node_wake(struct weft_node *node)
{
	atomic_store(&node->woken, true);
	weft_net_wake(node->net);
}

/* One turn, which sleeps for at most so many milliseconds. Returns as weft_net_poll(). */
static int turn(struct weft_node *node, int timeout_ms)
{
	int ret = weft_net_poll(node->net, timeout_ms);
	node->now = weft__clock_coarse_ms();
	if (atomic_load_explicit(&node->posted, memory_order_relaxed))
		run_posted(node);
	weft__message_expire(node);
	if (node->blocks.freed)
		weft__in_retry(node);
	weft__life_tick(node, ret == 0);
	if (!TAILQ_EMPTY(&node->dirty))
		weft__peers_flush(node);
	if (!TAILQ_EMPTY(&node->ending))
		weft__life_tell_endings(node);
	if (!TAILQ_EMPTY(&node->blocked))
		weft__peers_unblock(node);
	if (!TAILQ_EMPTY(&node->dirty))
		weft__peers_flush(node);
	/* What leaves now may tell what is owed. */
	weft__bundles_seal(node);
	if (!TAILQ_EMPTY(&node->owing) || !TAILQ_EMPTY(&node->lazy))
		weft__peers_settle(node);
	weft__bundles_flush(node);
	node->turns++;
	if (node->frames.posted < weft__rframes_wanted(node))
		weft__rframes_post(node);
	return ret;
}

/* How many milliseconds a sleep may last before something is due. */
static int sleep_limit(const struct weft_node *node, int limit_ms)
{
	if ((!TAILQ_EMPTY(&node->dirty) || !TAILQ_EMPTY(&node->routes_waiting) ||
	     node->frames.posted < weft__rframes_wanted(node)) &&
	    limit_ms > RETRY_MS)
		limit_ms = RETRY_MS;
	/* Somebody may be waiting for just that. */
	if (node->blocks.freed && !(TAILQ_EMPTY(&node->starved) && TAILQ_EMPTY(&node->blocked)))
		return 0;
	limit_ms = weft__peers_owed(node, limit_ms);
	limit_ms = weft__deadlines_next(&node->slot_timers, node->now, limit_ms);
	return weft__deadlines_next(&node->peer_timers, node->now, limit_ms);
}

int weft_node_poll(struct weft_node *node, int timeout_ms)
{
	if (node->in_callback)
		return -EBUSY;
	node->callbacks = 0;
	int ret = turn(node, 0);
	if (node->callbacks > 0 || timeout_ms == 0 || ret < 0) {
		atomic_store_explicit(&node->woken, false, memory_order_relaxed);
		return node->callbacks > 0 ? node->callbacks : ret < 0 ? ret : 0;
	}
	int64_t end = timeout_ms < 0 ? INT64_MAX
				     : weft__clock_ns() + (int64_t)timeout_ms * WEFT__NS_PER_MS;
	while (!atomic_exchange(&node->woken, false)) {
		int64_t now = weft__clock_ns();
		if (now >= end)
			break;
		int64_t left = (end - now + WEFT__NS_PER_MS - 1) / WEFT__NS_PER_MS;
		int limit = sleep_limit(node, left < INT_MAX ? (int)left : INT_MAX);
		ret = turn(node, limit);
		if (ret < 0 || node->callbacks > 0)
			break;
		/* Nothing has come, and the time is not up: a signal. */
		if (ret == 0 && weft__clock_ns() < now + (int64_t)limit * WEFT__NS_PER_MS) {
			atomic_store(&node->woken, false);
			break;
		}
	}
	return node->callbacks > 0 ? node->callbacks : ret < 0 ? ret : 0;
}

int weft_node_fd(const struct weft_node *node)
{
	return weft_net_fd(node->net);
}

int weft_node_arm(struct weft_node *node)
{
	if (node->in_callback)
		return -EBUSY;
	node->now = weft__clock_coarse_ms();
	if (atomic_load(&node->woken) || atomic_load(&node->posted) || !TAILQ_EMPTY(&node->ending))
		return 0;
	weft__peers_flush(node);
	weft__bundles_seal(node);
	weft__peers_settle(node);
	weft__bundles_flush(node);
	weft__rframes_post(node);
	int limit = sleep_limit(node, INT_MAX);
	if (limit == 0 || !TAILQ_EMPTY(&node->ending))
		return 0;
	return weft__wait_arm(node->net, limit);
}

struct weft_net *weft_node_net(struct weft_node *node)
{
	return node->net;
}

int weft_node_get_addr(const struct weft_node *node, struct weft_addr *addr)
{
	*addr = node->addr;
	return 0;
}

int weft_node_get_stats(const struct weft_node *node, struct weft_node_stats *out)
{
	struct weft_node_stats full = node->stats;
	size_t sessions = node->peers * sizeof(struct weft__peer) +
			  HASH_CNT(by_dest, node->routes) * sizeof(struct weft__route);
	full.peers = node->open_peers;
	full.half_open = node->strangers.half_open;
	full.frames_in_flight = node->frames.in_flight;
	full.messages_waiting = node->slots.used;
	full.held = node->held.count;
	full.credits_out = node->pool.out;
	full.session_memory = sizeof(struct weft__peer) + sizeof(struct weft__route) +
			      sizeof(*node->table) + sizeof(*node->generation);
	full.memory = sizeof(*node) + sessions + weft__frames_memory(node) + node->blocks.bytes +
		      node->blocks.kept_bytes + node->slots.allocated * sizeof(struct weft__slot) +
		      node->table_size * (sizeof(*node->table) + sizeof(*node->generation));
	for (uint32_t i = 0; i < node->table_size; i++) {
		const struct weft__sframe *frame;
		if (!node->table[i])
			continue;
		TAILQ_FOREACH (frame, &node->table[i]->queue, link)
			full.frames_queued++;
	}
	full.size = out->size < sizeof(full) ? out->size : sizeof(full);
	if (full.size < 2 * sizeof(size_t))
		return -EINVAL;
	memcpy(out, &full, full.size);
	return 0;
}

/* Begins to end every session, or ends those that have not ended. */
static void end_peers(struct weft_node *node, int linger_ms)
{
	for (uint32_t i = 0; i < node->table_size; i++) {
		struct weft__peer *peer = node->table[i];
		if (!peer || peer->s.state == WEFT__GONE)
			continue;
		if (peer->close_queued && linger_ms == 0)
			weft__life_event(node, peer, WEFT__TIMEOUT);
		else if (!peer->close_queued)
			weft__life_close(node, peer, WEFT_REASON_SHUTDOWN, linger_ms);
	}
}

/* Every session has ended, for the caller and for the other side. */
static bool all_over(const struct weft_node *node)
{
	return node->open_peers == 0 && TAILQ_EMPTY(&node->ending) && node->absorbing == 0;
}

int weft_node_close(struct weft_node *node, int linger_ms)
{
	if (!node)
		return 0;
	if (node->in_callback)
		return -EBUSY;
	node->closing = true;
	int64_t end = weft__clock_ns() +
		      (int64_t)(linger_ms < 0 ? DEFAULT_LINGER_MS : linger_ms) * WEFT__NS_PER_MS;
	run_posted(node);
	end_peers(node, linger_ms);
	while (!all_over(node) && weft__clock_ns() < end && turn(node, CLOSE_TURN_MS) >= 0)
		;
	end_peers(node, 0);
	for (uint32_t i = 0; i < node->table_size; i++) {
		if (node->table[i])
			weft__bulk_take_no_more(node, node->table[i]);
	}
	while (!TAILQ_EMPTY(&node->ending)) {
		weft__peers_flush(node);
		weft__life_tell_endings(node);
	}
	run_posted(node);
	/* The last frames leave while the net closes. */
	weft__peers_flush(node);
	weft__bundles_flush(node);
	weft__held_detach(node);
	weft__blocks_detach(node);
	int left = weft_net_close(node->net);
	weft__peers_free(node);
	weft__routes_free(node);
	weft__slots_free(&node->slots);
	weft__frames_free(&node->frames);
	free(node);
	return left;
}
