/* SPDX-License-Identifier: MIT */
/* What a node and its peers consist of. Each part is described in its own header. */
#ifndef WEFT_NODEIMPL_H
#define WEFT_NODEIMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "big.h"
#include "bulk.h"
#include "bundle.h"
#include "deadline.h"
#include "frame.h"
#include "log.h"
#include "message.h"
#include "session.h"
#include "stranger.h"

TAILQ_HEAD(weft__peer_list, weft__peer);

#define WEFT__LATE 16
/* Receives for strangers, and for credit that is on its way already. */
#define WEFT__SPARE_FRAMES 32

/* Frames without messages. Of each one is under way for a peer, or the GRANTs or ABORTs that were due in one turn. */
enum weft__control {
	WEFT__WANT_CONNECT = 1 << 0,
	WEFT__WANT_ACCEPT = 1 << 1,
	WEFT__WANT_CREDIT = 1 << 2,
	WEFT__WANT_PING = 1 << 3,
	WEFT__WANT_PONG = 1 << 4,
	WEFT__WANT_CLOSED = 1 << 5,
	WEFT__WANT_GRANT = 1 << 7,
	WEFT__WANT_ABORT = 1 << 8,
	WEFT__WANT_CLOSE = 1 << 6, /* of a session that is gone: without a place in the order */
};

struct weft__peer {
	/* What most frames touch is first, up to the session's own first half. */
	weft_peer handle;
	weft_dest dest;
	struct weft__route *route;
	void *data;
	/* What waits to be sent, in order; the last frame may have room left. */
	struct weft__sframes queue;
	struct weft__slots unacked; /* in the order of frames */
	struct weft__slots asking;  /* acknowledged, with an answer expected */
	struct weft__rframes early; /* by number */
	/* These do not count what was put straight into a bundle, whose end finds the peer by its handle. */
	uint32_t frames;     /* of messages, queued and in flight: what counts in the send budget */
	uint32_t in_flight;  /* of these, and CLOSE */
	uint32_t operations; /* all that the net has for this peer */
	unsigned wanted, flying; /* WEFT__WANT_* */
	uint32_t tx_id, rx_id;   /* of the last message */
	uint32_t bundle;         /* the serial of the last bundle with a message of its in the compact form */
	/* Lists of the node's that it may be on; their links are here and below. */
	bool is_dirty, is_owing, is_lazy, is_ending, is_blocked, is_half_open, is_starved;
	bool close_queued; /* its CLOSE has a place in the order; no more messages are taken */
	bool timer_on;
	bool has_several; /* its last frame of small messages held more than one */
	TAILQ_ENTRY(weft__peer) dirty, owing; /* lazy: by owing, on one of both */
	int64_t lazy_ms;  /* when what is owed is told at the latest */
	int64_t timer_ms; /* when its timer is due */
	struct weft__outs offers; /* big messages that are leaving in chunks, in their order */
	struct weft__grabs grabs; /* those that are arriving in chunks, in their order */
	struct weft__in in;       /* the one that is arriving in parts */
	struct weft__session s;

	uint32_t index;
	bool counted;      /* in node->open_peers */
	bool told;         /* the caller knows of it: connected by it, or opened */
	bool opened;
	bool dropped;      /* its place in the address vector is given back */
	bool reached;      /* the net has brought an ACCEPT to its address */
	char provider[WEFT__PROVIDER_MAX + 1]; /* the peer's name of it */
	uint32_t grab_count;
	size_t grab_left; /* of the bytes of grabs, to come */
	uint32_t chunks;  /* of offers, under way */
	size_t lacked;    /* bytes of memory that the last send had no room for; 0: it was another budget */
	/* The ids of the last messages whose answer was not there in time. */
	uint32_t late[WEFT__LATE], late_next;
	TAILQ_ENTRY(weft__peer) ending, blocked, half_open, starved;
	struct weft__deadline timer;

	/* How it ended, for the closed event. */
	enum weft_reason reason;
	bool by_peer;
	bool over_there; /* the other side has said that the session is over: it sends no more */
	int code, prov_errno;
	const char *advice;
	char *why; /* allocated; NULL: nothing more to say than the reason */
};

struct weft__posted {
	struct weft__posted *next;
	weft_post_fn *fn;
	void *user;
};

struct weft_node {
	struct weft_net *net;
	struct weft_events events;
	void *user;
	struct weft__log log;
	struct weft_node_opts opts;
	struct weft_addr addr;
	const char *provider;
	uint32_t libfabric;
	uint64_t instance;
	uint32_t frame_size;
	uint32_t features; /* what this node offers */
	int64_t now; /* milliseconds, of this turn */
	bool in_callback;
	atomic_bool closing;
	int callbacks; /* run in this turn */
	uint32_t turns;

	struct weft__pool pool;
	struct weft__frames frames;
	struct weft__slot_pool slots;
	struct weft__deadlines slot_timers, peer_timers;

	struct weft__peer **table; /* by index; NULL: free */
	uint32_t *generation;
	uint32_t table_size, free_hint;
	uint32_t peers; /* in the table */
	uint32_t open_peers; /* that count against max_peers */
	struct weft__route *routes;
	struct weft__route_list routes_waiting; /* frames are to leave at the end of the turn */
	struct weft__peer_list dirty;   /* something may be sent */
	struct weft__peer_list owing;   /* frames have arrived: acknowledgement or credit may be due */
	struct weft__peer_list lazy;    /* acknowledgement or credit is owed that nobody waits for, by age */
	struct weft__peer_list ending;  /* gone, and the caller has not been told */
	struct weft__peer_list blocked; /* the caller was answered by -ENOBUFS */
	struct weft__peer_list half_open;
	struct weft__peer_list starved; /* a big message of theirs waits for memory */
	struct weft__blocks blocks;
	uint32_t absorbing; /* big messages of sessions that are over, of which chunks may still come */
	struct weft__strangers strangers;
	struct weft__helds held;

	_Atomic(struct weft__posted *) posted;
	atomic_bool woken;
	struct weft_node_stats stats; /* the counters since open; what is in use is filled in when asked for */
};

/*
 * How many receives should be posted: for all that peers may send at this moment, and for frames that cost no credit.
 * More would only be memory that is never in the processor's cache.
 */
static inline uint32_t weft__rframes_wanted(const struct weft_node *node)
{
	uint32_t wanted = node->pool.out + 2 * node->pool.sessions + WEFT__SPARE_FRAMES;
	return wanted < node->frames.posted_max ? wanted : node->frames.posted_max;
}

/* Around every callback of the caller's. Returns what to give to weft__callback_end(). */
static inline bool weft__callback_begin(struct weft_node *node)
{
	bool before = node->in_callback;
	node->in_callback = true;
	node->callbacks++;
	return before;
}

static inline void weft__callback_end(struct weft_node *node, bool before)
{
	node->in_callback = before;
}

#endif
