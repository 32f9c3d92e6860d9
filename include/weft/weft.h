/* SPDX-License-Identifier: MIT */
/*
 * weft/weft.h: layer 2 of libweft: nodes that exchange messages with many peers.
 *
 * A node is one endpoint with everything that makes it safe to talk through: sessions with peers, flow control,
 * acknowledgement, liveness. Messages arrive whole, in the order sent, and at most once. Every message that was
 * accepted for sending has one end: its peer's library has it, or its sender is told that this is not known.
 *
 * The rules at the top of weft/net.h hold here too, with the node in the place of the net:
 *
 * - A node belongs to one thread at a time, and so do its sessions and messages. Only weft_node_wake() and
 *   weft_node_post() may be called from any thread.
 * - No callback runs from inside a call other than weft_node_poll(), weft_node_close() and weft_call(), and those three
 *   answer -EBUSY from inside a callback.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <sys/uio.h>

#include <weft/net.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_node;

/* A session with a peer. A value with a generation: one that has ended gets -ENOTCONN, never another session. */
typedef uint64_t weft_peer;
#define WEFT_PEER_NONE ((weft_peer)0)

/* Why a session ended, or was not made. The numbers are those of the wire protocol and of struct weft_closed. */
enum weft_reason {
	WEFT_REASON_NONE = 0,
	WEFT_REASON_CLOSED = 1,      /* weft_peer_close() of the side that says so */
	WEFT_REASON_SHUTDOWN = 2,    /* weft_node_close() of the side that says so */
	WEFT_REASON_REFUSED = 3,     /* the accept callback refused; code is what it returned */
	WEFT_REASON_VERSION = 4,     /* no common version of the protocol, or of libfabric's tcp provider */
	WEFT_REASON_FEATURE = 5,     /* a feature that one side requires and the other does not know */
	WEFT_REASON_FULL = 6,        /* the other side has as many peers as it allows */
	WEFT_REASON_MEMORY = 7,      /* a budget or the memory is used up */
	WEFT_REASON_UNKNOWN = 8,     /* the other side does not know the session: it was started again, or gave it up */
	WEFT_REASON_PROTOCOL = 9,    /* the other side broke the protocol */
	WEFT_REASON_GAP = 10,        /* a frame was lost on the way */
	WEFT_REASON_TIMEOUT = 11,    /* no answer to the attempt to connect */
	WEFT_REASON_LOST = 12,       /* silent for longer than it had announced */
	WEFT_REASON_RESTARTED = 13,  /* another process has the peer's address now */
	WEFT_REASON_FABRIC = 14,     /* the provider reported an error; prov_errno and text are its own */
	WEFT_REASON_ADDRESS = 15,    /* the provider refuses the address, or no more peers fit into it */
};

/*
 * The name of a reason, such as "closed by the other side's program".
 *
 * Returns a constant text, never NULL. Any thread.
 */
WEFT_API const char *weft_reason_text(enum weft_reason reason);

/* What a peer says of itself when it connects. Nothing of it is proven except that it answers at addr once opened. */
struct weft_peer_info {
	size_t size;
	struct weft_addr addr;
	uint64_t instance;        /* random, made when its node was opened: another one is another process */
	uint32_t libfabric;       /* its libfabric's version, as FI_VERSION */
	const char *provider;     /* its libfabric's name of the provider; valid as long as this struct is shown */
	uint64_t max_message;     /* the largest message it takes, in bytes */
	uint32_t max_frame;       /* messages up to this size minus WEFT_FRAME_OVERHEAD go in one frame */
	uint32_t silence_ms;      /* the longest time it may go without polling */
	int outgoing;             /* 1: weft_peer_connect() made the session; 0: the peer did */
};

/* How a session ended. */
struct weft_closed {
	size_t size;
	enum weft_reason reason;
	int by_peer;              /* 1: the other side says so; 0: this side found it */
	int opened;               /* 1: the session had been open */
	int status;               /* the same as a code: 0, -ECONNRESET, -ETIMEDOUT, -ECONNREFUSED, … */
	int code;                 /* of an accept callback's refusal */
	int prov_errno;           /* the provider's code; 0 where there is none */
	const char *text;         /* the whole story in words, never NULL; not escaped where a peer's words are in it */
	const char *advice;       /* what to do about it; NULL where nothing better than text is known */
};

/*
 * A message that has arrived. data is 8-byte aligned and valid during the callback; weft_msg_hold() keeps it longer.
 */
struct weft_msg {
	size_t size;
	const void *data;
	size_t len;
	weft_peer peer;
	uint32_t id;              /* its number in its direction of the session, from 1 */
	uint32_t reply_to;        /* the id of the message of ours that it answers; 0: none */
};

/* Bytes of a frame that are not a message's when it is alone in it. */
#define WEFT_FRAME_OVERHEAD 48

/*
 * Tells the end of a message: 0 when the peer's library has it; else it is not known to be there, but may be:
 * -ETIMEDOUT (its deadline passed), -ECONNRESET and others (the session ended; weft_events.closed follows).
 * May call anything but weft_node_poll(), weft_node_close() and weft_call().
 */
typedef void weft_sent_fn(struct weft_node *node, weft_peer peer, int status, void *user);

/*
 * Gives the answer to a message: msg with status 0, or NULL with the code, as for weft_sent_fn. Runs once.
 * May call what weft_sent_fn may.
 */
typedef void weft_reply_fn(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status, void *user);

/*
 * What happens on a node. Each may be NULL. They run from weft_node_poll(), weft_node_close() and weft_call(), on the
 * node's thread, and may call anything but these three. Start from WEFT_EVENTS_INIT.
 */
struct weft_events {
	size_t size;
	/*
	 * A peer wants to connect. Returns 0 to agree, or a number from 1 to 65535 that the peer is told. It may be
	 * asked more than once for one session, and for a peer that does not exist: it should decide and do nothing
	 * else. NULL: all are welcome.
	 */
	int (*accept)(struct weft_node *node, const struct weft_peer_info *info, void *user);
	/* A session is open, in either direction. The first event of a peer that connected to this node. */
	void (*opened)(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info, void *user);
	/* A message has arrived. NULL: messages are dropped. */
	void (*message)(struct weft_node *node, const struct weft_msg *msg, void *user);
	/* A weft_peer_send() to this peer that was answered by -ENOBUFS has a good chance now. */
	void (*writable)(struct weft_node *node, weft_peer peer, void *user);
	/*
	 * The session has ended, whoever ended it; the last event of a peer, after the ends of all its messages. It
	 * runs once for each session that was opened or that weft_peer_connect() began. The handle is valid during the
	 * call for weft_peer_data() only.
	 */
	void (*closed)(struct weft_node *node, weft_peer peer, const struct weft_closed *closed, void *user);
	/*
	 * A message of len bytes is about to arrive that is longer than a frame. Returns a buffer of this node's net
	 * with room for it at *off, of which the library takes a reference until the message is released or will never
	 * be whole; or NULL to have memory reserved in message_budget. The message event then shows it there. It may
	 * be asked again for a message that has to wait for memory.
	 */
	struct weft_buf *(*place)(struct weft_node *node, weft_peer peer, size_t len, uint32_t reply_to, size_t *off,
				  void *user);
};
#define WEFT_EVENTS_INIT                                                                                               \
	{                                                                                                              \
		sizeof(struct weft_events), NULL, NULL, NULL, NULL, NULL, NULL                                         \
	}

/* How to open a node. Start from WEFT_NODE_OPTS_INIT; NULL for opts means the same. 0 means the default. */
struct weft_node_opts {
	size_t size;
	const struct weft_net_opts *net; /* NULL: WEFT_NET_OPTS_INIT. Its log is the node's too */
	size_t max_peers;         /* sessions; default 1000, or fewer where the provider or RLIMIT_NOFILE allow fewer */
	/* Connecting peers whose address is not proven. Default an eighth of what there is room for, at most 1024. */
	size_t max_half_open;
	unsigned max_connects;    /* CONNECTs looked at a second; more are dropped and counted; default 2000 */
	size_t recv_budget;       /* bytes of memory for frames to come, held messages included; default 32 MiB */
	size_t send_budget;       /* bytes of memory for frames that wait to be sent; default 32 MiB */
	size_t peer_send_budget;  /* of these, for one peer; default an eighth */
	uint64_t max_message;     /* the largest message to take, in bytes; default half of message_budget */
	/*
	 * Bytes of memory for messages longer than a frame; copies of those sent take half at most. Default 2 GiB. What
	 * the provider holds for peers that are gone (held_bytes of weft_net_get_stats()) comes on top. If that is more
	 * than this budget, long messages are copied into frames until the node is closed.
	 */
	size_t message_budget;
	int keepalive_ms;         /* a peer silent for so long is asked whether it is there; default 10 s */
	int silence_ms;           /* the longest time that this node may go without a poll; default 30 s */
};
#define WEFT_NODE_OPTS_INIT                                                                                            \
	{                                                                                                              \
		sizeof(struct weft_node_opts), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                      \
	}

/*
 * Opens a node. events is copied; user is given to every event. The caller owns the node and ends it with
 * weft_node_close().
 *
 * Returns 0, or what weft_net_open() returns, or -EINVAL (an option is wrong, or the budgets are too small for
 * max_peers; the log hook says which), -EMSGSIZE (the provider's messages are too short: 1024 bytes are needed),
 * -ENOMEM.
 */
WEFT_API int weft_node_open(struct weft_node **node, const struct weft_node_opts *opts,
			    const struct weft_events *events, void *user);

/*
 * Closes the node: refuses newcomers and new messages, lets what was accepted for sending go out and be acknowledged
 * for at most linger_ms, tells every peer, ends what is left, and closes the net. Callbacks run inside. Blocks at most
 * linger_ms and about 2 s more; linger_ms of 0 tells the peers and does not wait, -1 means 5000.
 *
 * Held messages stay readable until they are released. Returns as weft_net_close(): 0, or the number of objects of
 * libfabric that had to be left; or -EBUSY from inside a callback, when nothing was done.
 */
WEFT_API int weft_node_close(struct weft_node *node, int linger_ms);

/*
 * Takes one turn of a node: makes progress, runs callbacks and timers, and sleeps until there is something to do, at
 * most timeout_ms. It returns as soon as at least one callback has run or weft_node_wake() was called. A node that is
 * not polled for longer than its silence_ms may be given up by its peers.
 *
 * Returns the number of callbacks that ran (0: time is up, woken, or a signal came), or -EBUSY from inside a callback,
 * or -EIO where the completion queue is broken; close the node then.
 */
WEFT_API int weft_node_poll(struct weft_node *node, int timeout_ms);

/*
 * Serves an event loop of the caller's own: as weft_net_fd() and weft_net_arm(), with weft_node_poll().
 *
 * Returns as these: the descriptor; and how long to sleep, 0 where work is pending, or a negative code.
 */
WEFT_API int weft_node_fd(const struct weft_node *node);
WEFT_API int weft_node_arm(struct weft_node *node);

/*
 * Makes the running or the next weft_node_poll() return, and weft_node_fd() readable. Any thread, and signal handlers.
 */
WEFT_API void weft_node_wake(struct weft_node *node);

/*
 * Has fn run once on the node's thread: from its next weft_node_poll() or from weft_node_close(), in the order posted.
 * fn may call what a callback may. Any thread, while the node is open; not from signal handlers.
 *
 * Returns 0, or -ECANCELED (the node is closing: fn will not run), or -ENOMEM.
 */
typedef void weft_post_fn(struct weft_node *node, void *user);
WEFT_API int weft_node_post(struct weft_node *node, weft_post_fn *fn, void *user);

/*
 * Gives the net under the node: for weft_net_get_info(), weft_net_get_addr(), weft_buf_alloc(). Do not poll or close
 * it. Returns the net.
 */
WEFT_API struct weft_net *weft_node_net(struct weft_node *node);
/* Gives the node's own address, to be given to peers. Returns 0. */
WEFT_API int weft_node_get_addr(const struct weft_node *node, struct weft_addr *addr);

/* What is in use now, and what has happened since open. */
struct weft_node_stats {
	size_t size;
	/* now */
	uint64_t peers;            /* sessions, those being made and those being closed included */
	uint64_t half_open;        /* peers that connect and have not proven their address */
	uint64_t frames_queued;    /* frames that wait for credit */
	uint64_t frames_in_flight; /* frames that the net has not ended */
	uint64_t messages_waiting; /* messages whose end somebody waits for */
	uint64_t held;             /* messages held by the caller */
	uint64_t credits_out;      /* frames that peers may send at once */
	uint64_t memory;           /* bytes of weft's own: sessions, frames, tables; without libfabric's */
	uint64_t session_memory;   /* of these, for one idle session */
	/* since open */
	uint64_t opened;           /* sessions opened */
	uint64_t closed;           /* sessions that ended after they had been open */
	uint64_t failed;           /* attempts of this node to connect that came to nothing */
	uint64_t sent;             /* messages handed over to be sent */
	uint64_t sent_bytes;
	uint64_t received;         /* messages delivered to the caller */
	uint64_t received_bytes;
	uint64_t frames_sent;
	uint64_t frames_received;
	uint64_t send_errors;      /* messages that ended without being known to be there */
	uint64_t no_buffers;       /* weft_peer_send() calls answered by -ENOBUFS */
	uint64_t stalls;           /* times that a frame had to wait for credit */
	uint64_t rejected;         /* CONNECTs answered by a refusal */
	uint64_t evicted;          /* half-open peers given up to make room */
	uint64_t lost;             /* sessions that ended because the peer fell silent */
	uint64_t restarted;        /* sessions that ended because another process has the address */
	/* frames dropped, by reason */
	uint64_t drop_malformed;   /* not a frame of this protocol, or with a wrong length inside */
	uint64_t drop_unknown;     /* for a session that is not known: a former life, or a forgery */
	uint64_t drop_source;      /* from another address than the session's, or the one it names */
	uint64_t drop_rate;        /* CONNECTs over the limit a second, or while too many peers are half-open */
	uint64_t drop_duplicate;   /* seen before */
	uint64_t drop_state;       /* not expected in the session's state */
	uint64_t drop_refused;     /* answers that were not sent because there were too many */
	uint64_t late_replies;     /* answers to messages whose deadline had passed */
	uint64_t recv_errors;      /* receives that the provider ended with an error */
	/* libfabric messages that hold frames, as a rule several, which are counted above each by itself */
	uint64_t bundles_sent;
	uint64_t bundles_received;
};
#define WEFT_NODE_STATS_INIT                                                                                           \
	{                                                                                                              \
		sizeof(struct weft_node_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                          \
	}

/* Tells what a node does and has done: fills *stats, whose size must be set. Returns 0 or -EINVAL. */
WEFT_API int weft_node_get_stats(const struct weft_node *node, struct weft_node_stats *stats);

/*
 * Begins a session with the node at addr. Messages may be sent at once: they wait until it is open. The opened or the
 * closed event tells what came of it, the latter at the latest after timeout_ms (-1: 5000).
 *
 * Returns 0 and the handle; or -EINVAL (the address is not one of this node's provider), -ENOSPC (max_peers, or the
 * provider's limit; the log hook says which), -EADDRNOTAVAIL, -ENOMEM, -ECANCELED (the node is closing).
 */
WEFT_API int weft_peer_connect(struct weft_node *node, const struct weft_addr *addr, int timeout_ms, weft_peer *peer);

/* One message to send. Start from WEFT_SEND_INIT. It is read during the call only. */
struct weft_send {
	size_t size;
	const void *data;         /* len bytes, copied; or */
	size_t len;
	const struct iovec *iov;  /* the parts of the message in order, copied; or */
	int iov_count;
	struct weft_buf *buf;     /* len bytes at off of a buffer of this node's net; not to be changed until the end */
	size_t off;
	int timeout_ms;           /* for sent and reply, from now or the last part sent; -1: until the session ends */
	uint32_t reply_to;        /* the id of the peer's message that this one answers; 0: none */
	weft_sent_fn *sent;       /* may be NULL */
	weft_reply_fn *reply;     /* not NULL: an answer is expected, and goes there instead of weft_events.message */
	void *user;
};
#define WEFT_SEND_INIT                                                                                                 \
	{                                                                                                              \
		sizeof(struct weft_send), NULL, 0, NULL, 0, NULL, 0, 30000, 0, NULL, NULL, NULL                        \
	}

/*
 * Sends a message. Messages of a session leave in the order of the calls. A message to an idle peer leaves at once;
 * while one is on its way further small ones gather in the next frame, which leaves at the end of the turn at the
 * latest. So do those that are sent to a node while messages that have come together from it are being delivered, since
 * others of them may be answered too.
 *
 * Returns 0 (send->sent and send->reply will run, once each); or -ENOTCONN (the handle is stale, or the session is
 * being closed), -EINVAL, -EMSGSIZE (longer than the peer takes, or to be copied and longer than half of
 * message_budget), -ENOBUFS (the budget is full: the writable event tells when it is not), -ENOMEM, -ECANCELED (the
 * node is closing). On an error neither runs.
 */
WEFT_API int weft_peer_send(struct weft_node *node, weft_peer peer, const struct weft_send *send);

/* Sends a few bytes: copied, and without news of them unless the session ends. Returns as weft_peer_send(). */
static inline int weft_peer_write(struct weft_node *node, weft_peer peer, const void *data, size_t len)
{
	struct weft_send send = WEFT_SEND_INIT;
	send.data = data;
	send.len = len;
	return weft_peer_send(node, peer, &send);
}

/* Answers a message that arrived, also after it was released or its callback is over. Returns as weft_peer_send(). */
WEFT_API int weft_msg_reply(struct weft_node *node, const struct weft_msg *request, const struct weft_send *send);

/*
 * Closes a session: no more messages are accepted for it; those accepted go out and are acknowledged first, for at most
 * linger_ms (-1: 5000; 0: at once, what is not acknowledged then ends with -ECANCELED). The closed event follows.
 *
 * Returns 0, or -ENOTCONN for a stale handle or a session already being closed.
 */
WEFT_API int weft_peer_close(struct weft_node *node, weft_peer peer, int linger_ms);

/* Gives a session a pointer of the caller's. It is NULL at first. Returns 0, or -ENOTCONN. */
WEFT_API int weft_peer_set_data(struct weft_node *node, weft_peer peer, void *data);
/* The pointer that weft_peer_set_data() gave to a session. Returns it, or NULL for a stale handle. */
WEFT_API void *weft_peer_data(const struct weft_node *node, weft_peer peer);
/*
 * Tells what is known of a peer. Its provider's name is valid until the next call on the node.
 *
 * Returns 0, or -ENOTCONN.
 */
WEFT_API int weft_peer_get_info(const struct weft_node *node, weft_peer peer, struct weft_peer_info *info);
#define WEFT_PEER_INFO_INIT                                                                                            \
	{                                                                                                              \
		sizeof(struct weft_peer_info), { WEFT_SCHEME_NONE, 0, 0, { 0 } }, 0, 0, NULL, 0, 0, 0, 0               \
	}

/* How far the messages longer than a frame are that leave and arrive first. An id of 0: there is none. */
struct weft_progress {
	size_t size;
	uint32_t out_id;
	uint64_t out_len, out_done; /* bytes in all, and bytes that the net has sent */
	uint32_t in_id;
	uint64_t in_len, in_done;   /* bytes in all, and bytes that have arrived */
};
#define WEFT_PROGRESS_INIT                                                                                             \
	{                                                                                                              \
		sizeof(struct weft_progress), 0, 0, 0, 0, 0, 0                                                         \
	}

/* Tells how far the big messages of a session are. Returns 0, -ENOTCONN or -EINVAL. */
WEFT_API int weft_peer_get_progress(const struct weft_node *node, weft_peer peer, struct weft_progress *progress);

/*
 * Keeps a message beyond its callback. The result is the caller's, until weft_msg_release(). A held message counts in
 * recv_budget, with the whole frame that it lies in, or in message_budget if it is longer than a frame: peers may come
 * to a stop while many are held.
 *
 * Returns the held message, or NULL where memory is short.
 */
WEFT_API struct weft_msg *weft_msg_hold(struct weft_node *node, const struct weft_msg *msg);
/* Gives a held message back, also after the node was closed. On the node's thread. NULL is allowed. */
WEFT_API void weft_msg_release(struct weft_msg *held);

/*
 * Sends a request and waits for the answer: polls the node and runs its other callbacks meanwhile. For scripts and
 * examples. *reply is the caller's, to be given to weft_msg_release().
 *
 * Returns 0; or as weft_peer_send(), or -ETIMEDOUT, -ECONNRESET and others as of weft_sent_fn, or -EBUSY from inside a
 * callback.
 */
WEFT_API int weft_call(struct weft_node *node, weft_peer peer, const void *request, size_t len, struct weft_msg **reply,
		       int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
