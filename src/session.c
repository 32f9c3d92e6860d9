/* SPDX-License-Identifier: MIT */
/*
 * Sessions: the table of states, which the build takes from doc/protocol.md, and what goes with it:
 * numbers, acknowledgement, credit, times. Calls wire's helpers and credit.
 */
#include "session.h"

/* CONNECT is repeated after this time, then after twice as long, up to the maximum. */
#define REPEAT_MIN_MS 100
#define REPEAT_MAX_MS 1000
/* An acknowledgement that is so late makes this side ask whether the peer is there. */
#define ACK_LATE_MS 1000
/* Credit that was not used for so long goes back. */
#define GIVE_BACK_MS 1000
/* Before a peer is given up, all that may have arrived meanwhile is looked at once more. */
#define SUSPECT_MS 50
#define SUSPECT_MAX 20
/* Acknowledgements that are owed at most, however much credit is left. */
#define ACKS_OWED_MAX 32
/* Of a peer that may send fewer frames than this, it is not known whether it sends many. */
#define SMALL_WINDOW 8
/* Numbers further ahead than this are no frame that was merely overtaken. */
#define EARLY_MAX 65536

#define FOREVER INT64_MAX

struct transition {
	bool known;
	enum weft__state next;
	unsigned actions;
};

static const struct transition table[WEFT__STATES][WEFT__EVENTS] = {
#define TRANSITION(state, event, next, actions) [state][event] = {true, next, actions},
#include "session_table.h"
};

unsigned weft__session_step(struct weft__session *s, enum weft__event event)
{
	const struct transition *t = &table[s->state][event];
	if (!t->known)
		return WEFT__DO_DROP;
	s->state = t->next;
	return t->actions;
}

static void begin(struct weft__session *s, struct weft__pool *pool, uint64_t id, int64_t now,
		  int64_t give_up_ms)
{
	s->id = id;
	s->heard_ms = s->begun_ms = s->used_ms = now;
	s->give_up_ms = give_up_ms;
	weft__credit_open(pool, &s->credit);
	s->credit_told = s->credit.granted;
}

void weft__session_connect(struct weft__session *s, struct weft__pool *pool, uint64_t id,
			   uint64_t nonce, int64_t now, int64_t give_up_ms)
{
	*s = (struct weft__session){.state = WEFT__CONNECTING, .outgoing = true, .nonce = nonce};
	begin(s, pool, id, now, give_up_ms);
	s->next_ms = now;
	s->repeat_ms = REPEAT_MIN_MS;
}

void weft__session_accept(struct weft__session *s, struct weft__pool *pool, uint64_t id,
			  int64_t now, int64_t give_up_ms)
{
	*s = (struct weft__session){.state = WEFT__HALFOPEN};
	begin(s, pool, id, now, give_up_ms);
}

int weft__session_hello(struct weft__session *s, const struct weft__hello *hello, uint32_t credit,
			uint32_t own_frame, uint32_t own_features)
{
	if (hello->version_min > WEFT__WIRE_VERSION || hello->version_max < WEFT__WIRE_VERSION)
		return WEFT_REASON_VERSION;
	if (hello->required & ~own_features)
		return WEFT_REASON_FEATURE;
	if ((int32_t)credit <= 0)
		return WEFT_REASON_PROTOCOL;
	s->peer_id = hello->session;
	s->nonce = hello->nonce;
	s->instance = hello->instance;
	s->features = hello->features & own_features;
	s->peer_max_message = hello->max_message;
	s->max_frame = hello->max_frame < own_frame ? hello->max_frame : own_frame;
	s->peer_silence_ms = hello->silence_ms;
	s->libfabric = hello->libfabric;
	s->allowance.granted = credit;
	return 0;
}

bool weft__session_header(struct weft__session *s, struct weft__pool *pool,
			  const struct weft__header *header, int64_t now)
{
	if (weft__after(header->ack, s->tx_number) ||
	    !weft__credit_returned(pool, &s->credit, header->returned))
		return false;
	s->heard_ms = now;
	s->ping_ms = 0;
	s->suspect = 0;
	if (weft__after(header->ack, s->tx_acked)) {
		s->tx_acked = header->ack;
		s->waiting_ms = s->tx_acked == s->tx_number ? 0 : now;
	}
	if (weft__after(header->credit, s->allowance.granted))
		s->allowance.granted = header->credit;
	if ((header->flags & WEFT__FLAG_ACK_NOW) && weft__after(header->number, s->ack_asked))
		s->ack_asked = header->number;
	return true;
}

enum weft__turn weft__session_number(struct weft__session *s, struct weft__pool *pool,
				     uint32_t number, bool costs, bool kept)
{
	uint32_t ahead = number - s->rx_number;
	if ((int32_t)ahead <= 0 || kept)
		return WEFT__REPEATED;
	if (ahead > EARLY_MAX)
		return WEFT__FORBIDDEN;
	if (costs ? !weft__credit_received(pool, &s->credit) : s->close_seen)
		return WEFT__FORBIDDEN;
	if (!costs)
		s->close_seen = true;
	return ahead == 1 ? WEFT__IN_TURN : WEFT__EARLY;
}

void weft__session_advance(struct weft__session *s)
{
	s->rx_number++;
	s->gap_ms = 0;
}

/* Keeps since when something is waited for. */
static void keep_since(int64_t *since_ms, bool awaited, int64_t now)
{
	if (!awaited)
		*since_ms = 0;
	else if (*since_ms == 0)
		*since_ms = now;
}

void weft__session_gap(struct weft__session *s, bool missing, int64_t now)
{
	keep_since(&s->gap_ms, missing, now);
}

void weft__session_chunks(struct weft__session *s, bool awaited, int64_t now)
{
	keep_since(&s->chunks_ms, awaited, now);
}

void weft__session_fill(struct weft__session *s, struct weft__header *header,
			enum weft__frame_type type, uint32_t number)
{
	*header = (struct weft__header){
		.version = WEFT__WIRE_VERSION,
		.type = (uint8_t)type,
		.session = s->peer_id,
		.number = number,
		.ack = s->rx_number,
		.credit = s->credit.granted,
		.returned = s->allowance.returned,
	};
	s->rx_told = s->rx_number;
	/* So that it is never half of all numbers behind, where it would pass for a later one. */
	if (!weft__after(s->ack_asked, s->rx_number))
		s->ack_asked = s->rx_number;
	s->credit_told = s->credit.granted;
}

void weft__session_sent(struct weft__session *s, uint32_t number, bool costs, int64_t now)
{
	s->tx_number = number;
	if (costs) {
		s->allowance.spent++;
		s->used_ms = now;
	}
	if (s->waiting_ms == 0)
		s->waiting_ms = now;
}

static int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t sooner_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When the peer should be asked whether it is there. */
static int64_t idle_due(const struct weft__session *s)
{
	int64_t due = s->heard_ms + s->keepalive_ms;
	if (s->waiting_ms)
		due = sooner_of(due, later_of(s->heard_ms, s->waiting_ms) + ACK_LATE_MS);
	if (s->gap_ms)
		due = sooner_of(due, later_of(s->heard_ms, s->gap_ms) + ACK_LATE_MS);
	if (s->chunks_ms)
		due = sooner_of(due, later_of(s->heard_ms, s->chunks_ms) + ACK_LATE_MS);
	return due;
}

/*
 * Whether a frame is lost: the peer has gone on talking for as long as it may be silent. Of one
 * that is stopped the frame may be on its way all the same.
 */
static bool is_lost(const struct weft__session *s)
{
	return s->gap_ms && s->heard_ms - s->gap_ms >= s->peer_silence_ms;
}

enum weft__event weft__session_tick(struct weft__session *s, int64_t now, bool empty)
{
	if (s->state == WEFT__GONE)
		return WEFT__NOTHING;
	if (now >= s->give_up_ms)
		return WEFT__TIMEOUT;
	if (s->state == WEFT__CONNECTING) {
		if (now < s->next_ms)
			return WEFT__NOTHING;
		s->next_ms = now + s->repeat_ms;
		s->repeat_ms = sooner_of(2 * s->repeat_ms, REPEAT_MAX_MS);
		return WEFT__TICK_CONNECT;
	}
	if (s->state == WEFT__HALFOPEN)
		return WEFT__NOTHING;
	if (is_lost(s))
		return WEFT__FAIL;
	if (s->ping_ms == 0)
		return now >= idle_due(s) ? WEFT__TICK_IDLE : WEFT__NOTHING;
	if (now - s->ping_ms < s->peer_silence_ms)
		return WEFT__NOTHING;
	/* Where others are so busy that there is always something to read, some turns do. */
	if (s->suspect >= (empty ? 1 : SUSPECT_MAX))
		return WEFT__SILENT;
	s->suspect++;
	return WEFT__NOTHING;
}

int weft__session_next(const struct weft__session *s, int64_t now)
{
	int64_t due = s->give_up_ms;
	if (s->state == WEFT__CONNECTING)
		due = sooner_of(due, s->next_ms);
	if (s->state == WEFT__OPEN || s->state == WEFT__CLOSING) {
		if (is_lost(s))
			due = now;
		else if (s->suspect)
			due = sooner_of(due, now + SUSPECT_MS);
		else if (s->ping_ms)
			due = sooner_of(due, s->ping_ms + s->peer_silence_ms);
		else
			due = sooner_of(due, idle_due(s));
		if (s->state == WEFT__OPEN && weft__allowance_left(&s->allowance) > 1)
			due = sooner_of(due, s->used_ms + GIVE_BACK_MS);
	}
	int64_t ms = due == FOREVER ? INT32_MAX : due - now;
	return ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

bool weft__session_owes(const struct weft__session *s)
{
	return s->rx_told != s->rx_number || s->credit_told != s->credit.granted;
}

bool weft__session_owes_now(const struct weft__session *s)
{
	if (s->rx_told != s->rx_number &&
	    (weft__after(s->ack_asked, s->rx_told) || s->rx_number - s->rx_told >= ACKS_OWED_MAX))
		return true;
	return weft__session_owes_credit_now(s);
}

bool weft__session_owes_credit_now(const struct weft__session *s)
{
	if (s->credit_told == s->credit.granted)
		return false;
	/* What the peer believes that it may send. One that has little and does not use it up can
	 * wait for the next frame that goes its way. */
	uint32_t left = s->credit_told - s->credit.received - s->credit.returned;
	uint32_t window = s->credit.window;
	return (int32_t)left <= (int32_t)(window < SMALL_WINDOW ? window / 4 : window / 2);
}

bool weft__session_give_back(struct weft__session *s, int64_t now)
{
	uint32_t left = weft__allowance_left(&s->allowance);
	if (s->state != WEFT__OPEN || left <= 1 || now - s->used_ms < GIVE_BACK_MS)
		return false;
	s->allowance.returned += left - 1;
	return true;
}
