/* SPDX-License-Identifier: MIT */
/*
 * Sessions: the protocol's states, numbers, credit and liveness, of one session, as doc/protocol.md has them. Pure:
 * frames that were read, times and wishes go in; what to do comes out, for peer.c to do. Calls wire's helpers and
 * credit.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "credit.h"
#include "wire.h"

enum weft__state {
	WEFT__CONNECTING,
	WEFT__HALFOPEN,
	WEFT__OPEN,
	WEFT__CLOSING,
	WEFT__GONE,
	WEFT__STATES,
};

enum weft__event {
	WEFT__RX_CONNECT,
	WEFT__RX_ACCEPT,
	WEFT__RX_REJECT,
	WEFT__RX_NUMBERED,
	WEFT__RX_CLOSE,
	WEFT__RX_CLOSED,
	WEFT__RX_CREDIT,
	WEFT__RX_GRANT,
	WEFT__RX_ABORT,
	WEFT__RX_PING,
	WEFT__RX_PONG,
	WEFT__TICK_CONNECT,
	WEFT__TICK_IDLE,
	WEFT__SILENT,
	WEFT__TIMEOUT,
	WEFT__USER_CLOSE,
	WEFT__FAIL,
	WEFT__EVENTS,
	WEFT__NOTHING = WEFT__EVENTS,
};

/* What an event asks for: bits of weft__session_step()'s answer. */
enum weft__action {
	WEFT__DO_CONNECT = 1 << 0,
	WEFT__DO_ACCEPT = 1 << 1,
	WEFT__DO_CONFIRM = 1 << 2,
	WEFT__DO_PING = 1 << 3,
	WEFT__DO_PONG = 1 << 4,
	WEFT__DO_CLOSE = 1 << 5,
	WEFT__DO_CLOSED = 1 << 6,
	WEFT__DO_OPENED = 1 << 7,
	WEFT__DO_ENDED = 1 << 8,
	WEFT__DO_NUMBERED = 1 << 9,
	WEFT__DO_REPLACE = 1 << 10,
	WEFT__DO_DROP = 1 << 11, /* the event is not in the table: nothing has changed */
};

struct weft__session {
	/* What most frames touch is first, so that it takes few lines of the processor's cache. */
	enum weft__state state;
	uint8_t suspect;  /* how often it was found silent for too long */
	bool close_seen;  /* the peer's CLOSE has arrived, in turn or early */
	bool closed_seen; /* the peer's CLOSED has arrived, maybe before frames that were sent earlier */
	uint32_t features;
	uint32_t max_frame; /* of both sides */
	uint64_t peer_max_message;
	uint64_t id;        /* ours: what frames to us bear */
	uint64_t peer_id;   /* the peer's; 0: not known yet */
	uint32_t tx_queued; /* the number of the last numbered frame that is meant to be sent */
	uint32_t tx_number; /* of the last one sent */
	uint32_t tx_acked;
	uint32_t rx_number; /* of the last numbered frame received with all before it */
	uint32_t rx_told;   /* of these, acknowledged by a frame sent */
	uint32_t ack_asked; /* the last one whose acknowledgement the peer waits for */
	uint32_t credit_told;
	struct weft__credit credit;
	struct weft__allowance allowance;
	int64_t heard_ms;   /* when the peer's last frame came */
	int64_t ping_ms;    /* when the unanswered PING went; 0: there is none */
	int64_t used_ms;    /* when this side last sent a frame that costs credit */
	int64_t waiting_ms; /* since when an acknowledgement is awaited; 0: none is */
	int64_t gap_ms;     /* since when a frame is missing in the order; 0: none is */
	int64_t chunks_ms;  /* since when the message of an OFFER is awaited; 0: none is */

	bool outgoing;
	uint32_t closed_number; /* of the peer's CLOSED */
	uint64_t nonce;
	uint64_t instance; /* of the peer; 0: not known yet */
	uint32_t peer_silence_ms, keepalive_ms;
	uint32_t libfabric; /* the peer's */
	int64_t begun_ms;   /* when it began */
	int64_t give_up_ms; /* when connecting, half-open and closing end; INT64_MAX: never */
	int64_t next_ms;    /* when CONNECT is due again */
	int64_t repeat_ms;  /* how long after the last one */
};

/* Begins a session of this side's making, with times from now on. */
void weft__session_connect(struct weft__session *s, struct weft__pool *pool, uint64_t id, uint64_t nonce, int64_t now,
			   int64_t give_up_ms);

/* Begins one that a CONNECT asks for. */
void weft__session_accept(struct weft__session *s, struct weft__pool *pool, uint64_t id, int64_t now,
			  int64_t give_up_ms);

/* Takes what a CONNECT or an ACCEPT says of the peer. credit is its header's. Returns 0, or a WEFT_REASON. */
int weft__session_hello(struct weft__session *s, const struct weft__hello *hello, uint32_t credit, uint32_t own_frame,
			uint32_t own_features);

/* One event of the table: changes the state and returns the actions, WEFT__DO_*. */
unsigned weft__session_step(struct weft__session *s, enum weft__event event);

/* Takes what every frame of an existing session says in its header. Returns false if that cannot be. */
bool weft__session_header(struct weft__session *s, struct weft__pool *pool, const struct weft__header *header,
			  int64_t now);

enum weft__turn {
	WEFT__IN_TURN,   /* the next one */
	WEFT__EARLY,     /* to be kept until those before it have come */
	WEFT__REPEATED,  /* seen before */
	WEFT__FORBIDDEN, /* beyond what the credit allows */
};

/*
 * Where a numbered frame stands, which `costs` credit or does not. One that costs is counted as received, unless it is
 * repeated; `kept` tells whether a frame of this number is kept already.
 */
enum weft__turn weft__session_number(struct weft__session *s, struct weft__pool *pool, uint32_t number, bool costs,
				     bool kept);

/* The frame in turn is about to be dealt with. */
void weft__session_advance(struct weft__session *s);

/* The peer waits for the acknowledgement of what is here, though it does not say so. */
static inline void weft__session_ack_now(struct weft__session *s)
{
	if (weft__after(s->rx_number, s->ack_asked))
		s->ack_asked = s->rx_number;
}

/* Whether frames have come while one before them is missing. */
void weft__session_gap(struct weft__session *s, bool missing, int64_t now);

/* Whether the next frame is an OFFER whose message is not whole. */
void weft__session_chunks(struct weft__session *s, bool awaited, int64_t now);

/* Fills the header of a frame about to be sent, which tells the acknowledgement and credit as they are now. */
void weft__session_fill(struct weft__session *s, struct weft__header *header, enum weft__frame_type type,
			uint32_t number);

/* The event that is due, WEFT__NOTHING if none is. empty: all that had arrived has been dealt with. */
enum weft__event weft__session_tick(struct weft__session *s, int64_t now, bool empty);

/* A PING is about to go, in answer to WEFT__DO_PING. It counts from now, even if the net has no room for it. */
static inline void weft__session_pinged(struct weft__session *s, int64_t now)
{
	s->ping_ms = now;
}

/* How many milliseconds until weft__session_tick() should be called again. */
int weft__session_next(const struct weft__session *s, int64_t now);

/* Whether acknowledgement or credit should be told even if no other frame goes: at once, or after WEFT__OWED_MS. */
bool weft__session_owes_now(const struct weft__session *s);
/* The same at once, as far as it is credit. */
bool weft__session_owes_credit_now(const struct weft__session *s);
bool weft__session_owes(const struct weft__session *s);

/* So long can an acknowledgement or credit wait that nobody waits for. It is less than what makes the peer ask. */
#define WEFT__OWED_MS 200

/* Gives unused credit back, but for one, when nothing has been sent for a while. Returns whether there was any. */
bool weft__session_give_back(struct weft__session *s, int64_t now);

/* A frame of this number may be sent: whether the session is open for it and the peer's credit allows it. */
static inline bool weft__session_may_send(const struct weft__session *s, bool costs)
{
	bool ready = s->state == WEFT__OPEN || s->state == WEFT__CLOSING;
	return ready && (!costs || weft__allowance_left(&s->allowance) > 0);
}

/* A numbered frame has been sent. */
void weft__session_sent(struct weft__session *s, uint32_t number, bool costs, int64_t now);

#endif
