/* SPDX-License-Identifier: MIT */
/*
 * fuzz_session.c: two nodes with a few sessions between them (src/session.c, src/credit.c), whose
 * frames may be lost, repeated and overtake each other. The input is a program: pairs of bytes say
 * what happens next, and to whom. Its first bytes choose the budgets, where the numbers begin, and
 * whether one of the two is hostile, so that any header may come from it.
 *
 * After each step the sums of credit are right, no number has gone back, and neither side believes
 * what the other has not said. Of two honest sides neither ever finds the protocol broken; frames
 * have their turn in the order sent; and when nothing is lost any more, each session is over for
 * both, or all that was sent is acknowledged. Calls session.c and credit.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(), which a release build may leave out. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define LINKS 3
#define UNDER_WAY_MAX 100
#define EARLY_MAX 70
#define KEEPALIVE_MS 1000
#define SILENCE_MS 3000
#define LINGER_MS 5000

struct frame {
	uint8_t from, link; /* it goes to the other node */
	struct weft__header header;
	/* Of the contents of CONNECT, ACCEPT and REJECT, what a session looks at. */
	uint64_t session, nonce;
	uint8_t version;
	uint32_t required;
	uint32_t content; /* counts the frames that cost credit */
};

/* One end of a session, with what peer.c and receive.c do around it. */
struct side {
	struct weft__session s, before;
	uint32_t sent, received; /* contents */
	struct frame early[EARLY_MAX];
	size_t early_count;
};

struct node {
	struct weft__pool pool;
	struct side side[LINKS];
	uint32_t orphans; /* frames held for sessions that are gone */
	bool closing;	  /* it takes no more sessions */
};

struct world {
	struct node node[2];
	struct frame under_way[UNDER_WAY_MAX];
	size_t count;
	uint64_t next_id;
	int64_t now;
	uint32_t base; /* where numbers and credit begin */
	bool honest;
};

static bool is_alive(const struct side *side)
{
	return side->s.state == WEFT__OPEN || side->s.state == WEFT__CLOSING;
}

static bool is_numbered(const struct weft__header *header)
{
	return header->type == WEFT__DATA || header->type == WEFT__OFFER ||
	       header->type == WEFT__CLOSE;
}

static struct frame *put(struct world *w, unsigned n, unsigned link, enum weft__frame_type type,
			 uint32_t number)
{
	struct weft__session *s = &w->node[n].side[link].s;
	/* What the net has no room for is lost, as it may be on the way. */
	struct frame *frame = &w->under_way[w->count < UNDER_WAY_MAX ? w->count++ : 0];
	*frame = (struct frame){.from = (uint8_t)n, .link = (uint8_t)link};
	weft__session_fill(s, &frame->header, type, number);
	CHECK(!weft__session_owes(s) && !weft__session_owes_now(s));
	return frame;
}

static void put_hello(struct world *w, unsigned n, unsigned link, enum weft__frame_type type)
{
	const struct weft__session *s = &w->node[n].side[link].s;
	struct frame *frame = put(w, n, link, type, 0);
	frame->session = s->id;
	frame->nonce = s->nonce;
	frame->version = WEFT__WIRE_VERSION;
	frame->header.number = w->base;
	/* The numbers of a test may begin anywhere, the credit of a CONNECT may not. */
	frame->header.credit -= w->base;
}

/* What a CONNECT or ACCEPT says. Returns as weft__session_hello(). */
static int take_hello(struct weft__session *s, const struct frame *frame)
{
	struct weft__hello hello = {
		.version_min = frame->version,
		.version_max = frame->version,
		.features = WEFT__FEATURE_BULK,
		.required = frame->required,
		.max_frame = WEFT__FRAME_MIN,
		.instance = frame->from + 1u,
		.session = frame->session,
		.nonce = frame->nonce,
		.silence_ms = SILENCE_MS,
	};
	return weft__session_hello(s, &hello, frame->header.credit, WEFT__FRAME_MIN, 0);
}

static void put_data(struct world *w, unsigned n, unsigned link)
{
	struct side *side = &w->node[n].side[link];
	struct weft__session *s = &side->s;
	if (s->state != WEFT__OPEN || !weft__session_may_send(s, true))
		return;
	uint32_t number = ++s->tx_queued;
	struct frame *frame = put(w, n, link, WEFT__DATA, number);
	frame->content = ++side->sent;
	if (frame->content % 4 == 0)
		frame->header.flags = WEFT__FLAG_ACK_NOW;
	weft__session_sent(s, number, true, w->now);
}

static void end(struct node *node, struct side *side)
{
	node->orphans += weft__credit_close(&node->pool, &side->s.credit);
	/* Those that waited for their turn are nobody's now. */
	for (size_t i = 0; i < side->early_count; i++) {
		if (side->early[i].header.type == WEFT__CLOSE)
			continue;
		weft__pool_freed(&node->pool);
		node->orphans--;
	}
	side->early_count = 0;
}

static unsigned step(struct world *w, unsigned n, unsigned link, enum weft__event event)
{
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	struct weft__session *s = &side->s;
	enum weft__state before = s->state;
	unsigned actions = weft__session_step(s, event);
	CHECK(s->state < WEFT__STATES);
	if (actions & WEFT__DO_DROP) {
		CHECK(actions == WEFT__DO_DROP && s->state == before);
		return actions;
	}
	CHECK(before != WEFT__GONE);
	if (actions & WEFT__DO_OPENED)
		s->give_up_ms = INT64_MAX;
	if (actions & WEFT__DO_CONNECT)
		put_hello(w, n, link, WEFT__CONNECT);
	if (actions & WEFT__DO_ACCEPT)
		put_hello(w, n, link, WEFT__ACCEPT);
	if (actions & WEFT__DO_CONFIRM)
		put(w, n, link, WEFT__CREDIT, s->tx_number);
	if ((actions & WEFT__DO_PING) && s->ping_ms == 0) {
		put(w, n, link, WEFT__PING, s->tx_number);
		weft__session_pinged(s, w->now);
	}
	if (actions & WEFT__DO_PONG)
		put(w, n, link, WEFT__PONG, s->tx_number);
	if (actions & WEFT__DO_CLOSED)
		put(w, n, link, WEFT__CLOSED, s->tx_number);
	if (actions & WEFT__DO_CLOSE) {
		put(w, n, link, WEFT__CLOSE, s->tx_number + 1);
		if (s->state == WEFT__CLOSING) {
			s->give_up_ms = w->now + LINGER_MS;
			weft__session_sent(s, ++s->tx_queued, false, w->now);
		}
	}
	if (s->state == WEFT__GONE)
		end(node, side);
	return actions;
}

static void begin(struct world *w, unsigned n, unsigned link)
{
	struct side *side = &w->node[n].side[link];
	struct weft__session *s = &side->s;
	s->keepalive_ms = KEEPALIVE_MS;
	s->tx_queued = s->tx_number = s->tx_acked = w->base;
	s->rx_number = s->rx_told = s->ack_asked = w->base;
	s->credit.granted += w->base;
	s->credit.received += w->base;
	s->credit_told = s->credit.granted;
	s->allowance.spent = w->base;
	s->allowance.granted += w->base;
	side->sent = side->received = 0;
	side->early_count = 0;
	side->before = *s;
}

static void connect_side(struct world *w, unsigned n, unsigned link)
{
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	uint64_t id = w->next_id++;
	if (side->s.state != WEFT__GONE || !weft__pool_has_room(&node->pool))
		return;
	weft__session_connect(&side->s, &node->pool, id, id, w->now, w->now + LINGER_MS);
	begin(w, n, link);
}

static void accept_side(struct world *w, unsigned n, unsigned link, const struct frame *frame)
{
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	struct weft__session *s = &side->s;
	if (s->state == WEFT__HALFOPEN && s->nonce == frame->nonce) {
		step(w, n, link, WEFT__RX_CONNECT);
		return;
	}
	if (s->state != WEFT__GONE || node->closing || !weft__pool_has_room(&node->pool))
		return;
	struct weft__session trial = {.state = WEFT__HALFOPEN};
	int reason = take_hello(&trial, frame);
	CHECK(!w->honest || reason == 0);
	if (reason)
		return;
	weft__session_accept(s, &node->pool, w->next_id++, w->now, w->now + LINGER_MS);
	CHECK(take_hello(s, frame) == 0);
	begin(w, n, link);
	step(w, n, link, WEFT__RX_CONNECT);
}

static void take_answer(struct world *w, unsigned n, unsigned link, const struct frame *frame)
{
	struct node *node = &w->node[n];
	struct weft__session *s = &node->side[link].s;
	bool connecting = s->state == WEFT__CONNECTING;
	if (frame->header.type == WEFT__REJECT) {
		if (frame->nonce == (connecting ? s->nonce : s->peer_id))
			step(w, n, link, WEFT__RX_REJECT);
		return;
	}
	bool expected = connecting || frame->session == s->peer_id;
	if (!s->outgoing || frame->nonce != s->nonce || !expected)
		return;
	if (connecting) {
		int reason = take_hello(s, frame);
		CHECK(!w->honest || reason == 0);
		if (reason) {
			step(w, n, link, WEFT__FAIL);
			return;
		}
		s->allowance.granted += w->base;
	}
	struct weft__header header = frame->header;
	header.credit += w->base;
	weft__session_header(s, &node->pool, &header, w->now);
	step(w, n, link, WEFT__RX_ACCEPT);
}

/* A frame whose turn it is. */
static void take_in_turn(struct world *w, unsigned n, unsigned link, const struct frame *frame)
{
	struct side *side = &w->node[n].side[link];
	CHECK(frame->header.number == side->s.rx_number + 1);
	weft__session_advance(&side->s);
	if (frame->header.type == WEFT__CLOSE) {
		step(w, n, link, WEFT__RX_CLOSE);
		return;
	}
	side->received++;
	CHECK(!w->honest || frame->content == side->received);
}

static bool is_early(const struct side *side, uint32_t number, size_t *at)
{
	for (*at = 0; *at < side->early_count; ++*at) {
		if (side->early[*at].header.number == number)
			return true;
	}
	return false;
}

static void take_numbered(struct world *w, unsigned n, unsigned link, const struct frame *frame)
{
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	uint32_t number = frame->header.number;
	size_t at;
	bool costs = frame->header.type != WEFT__CLOSE;
	if (!(step(w, n, link, WEFT__RX_NUMBERED) & WEFT__DO_NUMBERED))
		return;
	bool kept = is_early(side, number, &at);
	enum weft__turn turn = weft__session_number(&side->s, &node->pool, number, costs, kept);
	CHECK(turn != WEFT__FORBIDDEN || !w->honest);
	CHECK(turn == WEFT__REPEATED || !kept);
	if (turn == WEFT__FORBIDDEN)
		step(w, n, link, WEFT__FAIL);
	if (turn == WEFT__IN_TURN)
		take_in_turn(w, n, link, frame);
	if (turn == WEFT__EARLY) {
		/* The credit is no more than that, and a CLOSE comes once. */
		CHECK(side->early_count < EARLY_MAX);
		side->early[side->early_count++] = *frame;
	}
	while (is_alive(side) && is_early(side, side->s.rx_number + 1, &at)) {
		struct frame next = side->early[at];
		side->early[at] = side->early[--side->early_count];
		take_in_turn(w, n, link, &next);
	}
	if (is_alive(side))
		weft__session_gap(&side->s, side->early_count > 0, w->now);
}

static void take_frame(struct world *w, unsigned n, unsigned link, const struct frame *frame)
{
	static const enum weft__event events[] = {
		[WEFT__CREDIT] = WEFT__RX_CREDIT, [WEFT__GRANT] = WEFT__RX_GRANT,
		[WEFT__ABORT] = WEFT__RX_ABORT,	  [WEFT__PING] = WEFT__RX_PING,
		[WEFT__PONG] = WEFT__RX_PONG,	  [WEFT__CLOSED] = WEFT__RX_CLOSED,
	};
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	if (!weft__session_header(&side->s, &node->pool, &frame->header, w->now)) {
		CHECK(!w->honest);
		step(w, n, link, WEFT__FAIL);
		return;
	}
	CHECK(side->s.heard_ms == w->now && side->s.ping_ms == 0);
	if (is_numbered(&frame->header)) {
		take_numbered(w, n, link, frame);
		return;
	}
	if (side->early_count == 0 && weft__after(frame->header.number, side->s.rx_number))
		weft__session_gap(&side->s, true, w->now);
	step(w, n, link, events[frame->header.type]);
}

static void deliver(struct world *w, const struct frame *frame)
{
	unsigned n = 1 - frame->from, link = frame->link;
	struct side *side = &w->node[n].side[link];
	const struct weft__header *header = &frame->header;
	if (header->type == WEFT__CONNECT) {
		accept_side(w, n, link, frame);
	} else if (header->session != side->s.id || side->s.state == WEFT__GONE) {
		if (header->type != WEFT__PING)
			return;
		/* It is answered by who knows nothing of such a session. */
		struct frame *answer = put(w, n, link, WEFT__REJECT, 0);
		answer->header.session = w->node[frame->from].side[link].s.id;
		answer->nonce = header->session;
	} else if (header->type == WEFT__ACCEPT || header->type == WEFT__REJECT) {
		take_answer(w, n, link, frame);
	} else if (side->s.state != WEFT__CONNECTING) {
		take_frame(w, n, link, frame);
	}
}

static void check_pool(const struct node *node)
{
	uint32_t out = 0, borrowed = node->orphans, borrowers = 0, sessions = 0;
	for (unsigned i = 0; i < LINKS; i++) {
		const struct weft__session *s = &node->side[i].s;
		uint32_t open = weft__credit_open_frames(&s->credit);
		if (s->state == WEFT__GONE)
			continue;
		sessions++;
		out += open;
		borrowed += open + s->credit.held > 1 ? open + s->credit.held - 1 : 0;
		borrowers += s->credit.window > 1;
		CHECK(open <= node->pool.budget && s->credit.held <= node->pool.budget);
	}
	CHECK(node->pool.out == out && node->pool.borrowed == borrowed);
	CHECK(node->pool.borrowers == borrowers && node->pool.sessions == sessions);
	CHECK(borrowed + sessions <= node->pool.budget);
}

static bool went_back(uint32_t now, uint32_t before)
{
	return weft__after(before, now);
}

static void check_numbers(struct side *side)
{
	const struct weft__session *s = &side->s, *b = &side->before;
	CHECK(!went_back(s->tx_number, b->tx_number) && !went_back(s->tx_acked, b->tx_acked));
	CHECK(!went_back(s->rx_number, b->rx_number) && !went_back(s->rx_told, b->rx_told));
	CHECK(!went_back(s->tx_number, s->tx_acked) && s->tx_queued == s->tx_number);
	CHECK(!went_back(s->rx_number, s->rx_told));
	CHECK(!went_back(s->allowance.granted, b->allowance.granted));
	CHECK(!went_back(s->allowance.spent, b->allowance.spent));
	CHECK(!went_back(s->allowance.returned, b->allowance.returned));
	if (s->state != WEFT__GONE) {
		CHECK(!went_back(s->credit.granted, b->credit.granted));
		CHECK(!went_back(s->credit.received, b->credit.received));
		CHECK(!went_back(s->credit.returned, b->credit.returned));
		CHECK(!went_back(s->credit.granted, s->credit_told));
		/* Who owes something now owes it when the line is idle, too. */
		CHECK(!weft__session_owes_now(s) || weft__session_owes(s));
	}
	side->before = *s;
}

/* Until the time that it says nothing is due. */
static void check_times(const struct side *side, int64_t now)
{
	struct weft__session copy = side->s;
	int next = weft__session_next(&copy, now);
	CHECK(next >= 1);
	if (copy.suspect || next == 1)
		return;
	CHECK(weft__session_tick(&copy, now + next - 1, true) == WEFT__NOTHING);
	CHECK(!copy.suspect && !weft__session_give_back(&copy, now + next - 1));
}

/* What one side knows of the other, who may be ahead but never behind. */
static void check_pair(const struct weft__session *a, const struct weft__session *b)
{
	CHECK(!went_back(b->rx_number, a->tx_acked) && !went_back(a->tx_number, b->rx_number));
	CHECK(!went_back(b->credit.granted, a->allowance.granted));
	CHECK(!went_back(a->allowance.spent, b->credit.received));
	CHECK(!went_back(a->allowance.returned, b->credit.returned));
	uint32_t used = a->allowance.spent + a->allowance.returned;
	CHECK(!went_back(a->allowance.granted, used));
}

static void check(struct world *w)
{
	for (unsigned n = 0; n < 2; n++) {
		check_pool(&w->node[n]);
		for (unsigned i = 0; i < LINKS; i++) {
			struct side *side = &w->node[n].side[i];
			const struct side *other = &w->node[1 - n].side[i];
			check_times(side, w->now);
			check_numbers(side);
			bool same =
				side->s.peer_id == other->s.id && other->s.peer_id == side->s.id;
			if (w->honest && same && is_alive(side) && is_alive(other))
				check_pair(&side->s, &other->s);
		}
	}
}

static void tick(struct world *w, unsigned n, unsigned link, bool empty)
{
	struct weft__session *s = &w->node[n].side[link].s;
	enum weft__event event = weft__session_tick(s, w->now, empty);
	if (event != WEFT__NOTHING)
		step(w, n, link, event);
	if (weft__session_give_back(s, w->now))
		put(w, n, link, WEFT__CREDIT, s->tx_number);
}

/* Gives and tells what is due. */
static void settle(struct world *w, unsigned n, unsigned link, bool idle)
{
	struct node *node = &w->node[n];
	struct weft__session *s = &node->side[link].s;
	if (!is_alive(&node->side[link]))
		return;
	weft__credit_grant(&node->pool, &s->credit);
	if (weft__session_owes_now(s) || (idle && weft__session_owes(s)))
		put(w, n, link, WEFT__CREDIT, s->tx_number);
}

/* Frees a frame that had its turn. Returns whether there was one. */
static bool free_one(struct world *w, unsigned n, unsigned link)
{
	struct node *node = &w->node[n];
	struct side *side = &node->side[link];
	uint32_t waiting = 0;
	for (size_t i = 0; i < side->early_count; i++)
		waiting += side->early[i].header.type != WEFT__CLOSE;
	if (side->s.state == WEFT__GONE || side->s.credit.held <= waiting)
		return false;
	weft__credit_freed(&node->pool, &side->s.credit);
	return true;
}

static bool free_orphan(struct node *node)
{
	if (node->orphans == 0)
		return false;
	weft__pool_freed(&node->pool);
	node->orphans--;
	return true;
}

static struct frame take_out(struct world *w, size_t at)
{
	struct frame frame = w->under_way[at];
	w->count--;
	memmove(&w->under_way[at], &w->under_way[at + 1], (w->count - at) * sizeof(frame));
	return frame;
}

/* A frame that was on its way, as a hostile peer would have it. */
static void deliver_spoilt(struct world *w, size_t at, uint8_t how)
{
	static const uint32_t by[] = {1, 2, 64, 65536, UINT32_MAX, UINT32_MAX - 60, 1u << 31, 7};
	struct frame frame = w->under_way[at];
	uint32_t *const fields[] = {&frame.header.number, &frame.header.ack, &frame.header.credit,
				    &frame.header.returned};
	*fields[how % 4] += by[how / 4 % 8];
	if (how >= 128)
		frame.header.type = (uint8_t)(how % WEFT__CLOSED + 1);
	if (how >= 224)
		frame.version = 2;
	frame.required = how / 64;
	deliver(w, &frame);
}

static void run(struct world *w, uint8_t what, uint8_t how)
{
	static const int64_t leap[] = {1, 10, 100, 500, 1000, 2500, 10000, 100000};
	unsigned n = how & 1, link = (how >> 1) % LINKS;
	size_t at = w->count > 0 ? how % w->count : 0;
	switch (what % 16) {
	case 0:
		w->now += leap[how % 8];
		break;
	case 1:
		tick(w, n, link, how < 128);
		break;
	case 2:
		connect_side(w, n, link);
		break;
	case 3:
	case 4:
	case 5:
		for (unsigned i = 0; i <= how / 32u; i++)
			put_data(w, n, link);
		break;
	case 6:
		settle(w, n, link, how < 128);
		break;
	case 7:
		for (unsigned i = 0; i <= how / 32u && free_one(w, n, link); i++)
			;
		break;
	case 8:
		free_orphan(&w->node[n]);
		break;
	case 9:
		/* Nobody knows of a half-open session yet: it is closed with its node only. */
		if (how < 128 && w->node[n].side[link].s.state == WEFT__HALFOPEN)
			w->node[n].closing = true;
		step(w, n, link, how < 128 ? WEFT__USER_CLOSE : WEFT__FAIL);
		break;
	default:
		if (w->count == 0)
			break;
		if (what % 16 == 10) {
			take_out(w, at);
		} else if (what % 16 == 11) {
			struct frame copy = w->under_way[at];
			deliver(w, &copy);
		} else if (what % 16 == 12 && !w->honest) {
			deliver_spoilt(w, at, how);
		} else {
			/* The others of these go in order. */
			struct frame frame = take_out(w, what % 16 == 13 ? at : 0);
			deliver(w, &frame);
		}
	}
}

static bool is_over(const struct side *a, const struct side *b)
{
	if (a->s.state == WEFT__GONE && b->s.state == WEFT__GONE)
		return true;
	return a->s.state == WEFT__OPEN && b->s.state == WEFT__OPEN &&
	       a->s.tx_acked == a->s.tx_number && b->s.tx_acked == b->s.tx_number &&
	       a->s.gap_ms == 0 && b->s.gap_ms == 0 && a->s.peer_id == b->s.id;
}

/* Nothing is lost any more: every session ends, or all that it was given has arrived. */
static void heal(struct world *w)
{
	bool over = false;
	for (int turn = 0; turn < 200 && !over; turn++) {
		over = true;
		for (unsigned i = 0; i < 2 * LINKS; i++) {
			tick(w, i % 2, i / 2, true);
			while (free_one(w, i % 2, i / 2))
				;
			settle(w, i % 2, i / 2, true);
		}
		while (w->count > 0) {
			struct frame frame = take_out(w, 0);
			deliver(w, &frame);
		}
		check(w);
		for (unsigned i = 0; i < LINKS; i++)
			over = over && is_over(&w->node[0].side[i], &w->node[1].side[i]);
		w->now += 250;
	}
	CHECK(over);
}

static void finish(struct world *w)
{
	if (w->honest)
		heal(w);
	for (unsigned n = 0; n < 2; n++) {
		for (unsigned i = 0; i < LINKS; i++) {
			step(w, n, i, WEFT__FAIL);
			CHECK(w->node[n].side[i].s.state == WEFT__GONE);
		}
		while (free_orphan(&w->node[n]))
			;
		check_pool(&w->node[n]);
		CHECK(w->node[n].pool.borrowed == 0 && w->node[n].pool.out == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t bases[] = {0, UINT32_MAX - 3, UINT32_MAX - 40, UINT32_MAX / 2 - 2};
	static struct world w;
	if (size < 2)
		return 0;
	w.count = 0;
	w.next_id = 1;
	w.now = 1000;
	w.base = bases[data[0] % 4];
	w.honest = data[0] < 192;
	for (unsigned n = 0; n < 2; n++) {
		/* From one frame for each session to more than they can use. */
		uint32_t budget = LINKS + (n ? data[1] / 16u : data[1] % 16u) * 12u;
		weft__pool_init(&w.node[n].pool, budget, LINKS);
		w.node[n].orphans = 0;
		w.node[n].closing = false;
		for (unsigned i = 0; i < LINKS; i++) {
			w.node[n].side[i].s = (struct weft__session){.state = WEFT__GONE};
			w.node[n].side[i].before = w.node[n].side[i].s;
			w.node[n].side[i].early_count = 0;
		}
	}
	for (size_t i = 2; i + 1 < size; i += 2) {
		run(&w, data[i], data[i + 1]);
		check(&w);
	}
	finish(&w);
	return 0;
}
