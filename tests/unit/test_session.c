/* SPDX-License-Identifier: MIT */
/*
 * One session, told what comes and what time it is: the table of states of doc/protocol.md line by
 * line, numbers, acknowledgement, times, and what is refused. Calls session.c and credit.c only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session.h"

#define NOW INT64_C(1000000)
#define KEEPALIVE_MS 10000
#define SILENCE_MS INT64_C(30000)

struct line {
	enum weft__state state;
	enum weft__event event;
	enum weft__state next;
	unsigned actions;
};

static const struct line page[] = {
#define TRANSITION(state, event, next, actions) {state, event, next, actions},
#include "session_table.h"
};
#define LINES (sizeof(page) / sizeof(page[0]))

static const struct line *find_line(enum weft__state state, enum weft__event event)
{
	for (size_t i = 0; i < LINES; i++) {
		if (page[i].state == state && page[i].event == event)
			return &page[i];
	}
	return NULL;
}

static void every_pair_does_what_the_page_says(void **state)
{
	size_t seen = 0;
	(void)state;
	for (unsigned s = 0; s < WEFT__STATES; s++) {
		for (unsigned e = 0; e < WEFT__EVENTS; e++) {
			const struct line *line =
				find_line((enum weft__state)s, (enum weft__event)e);
			struct weft__session session, before;
			memset(&session, 0x5a, sizeof(session));
			session.state = (enum weft__state)s;
			memcpy(&before, &session, sizeof(before));
			unsigned actions = weft__session_step(&session, (enum weft__event)e);
			assert_int_equal(actions, line ? line->actions : WEFT__DO_DROP);
			assert_int_equal(session.state, line ? line->next : s);
			/* Nothing but the state is changed by it. */
			session.state = before.state;
			assert_memory_equal(&session, &before, sizeof(before));
			seen += line != NULL;
		}
	}
	assert_int_equal(seen, LINES);
}

/* What a reader of the page would expect of any table. */
static void the_page_makes_sense(void **state)
{
	bool reached[WEFT__STATES] = {[WEFT__CONNECTING] = true, [WEFT__HALFOPEN] = true};
	(void)state;
	for (size_t i = 0; i < LINES; i++) {
		const struct line *line = &page[i];
		unsigned actions = line->actions;
		bool opens = line->next == WEFT__OPEN && line->state != WEFT__OPEN;
		assert_true(line->state != WEFT__GONE);
		assert_false(actions & WEFT__DO_DROP);
		assert_int_equal((actions & WEFT__DO_OPENED) != 0, opens);
		/* Whoever knows of a session is told of its end, and nobody else is. */
		bool told = line->next == WEFT__GONE && line->state != WEFT__HALFOPEN;
		assert_int_equal((actions & WEFT__DO_ENDED) != 0, told);
		reached[line->next] = true;
	}
	for (size_t i = 0; i < WEFT__STATES; i++)
		assert_true(reached[i]);
	for (unsigned s = 0; s < WEFT__GONE; s++)
		assert_non_null(find_line((enum weft__state)s, WEFT__FAIL));
}

static struct weft__pool pool;

static struct weft__hello hello_of_the_peer(void)
{
	return (struct weft__hello){
		.version_min = 1,
		.version_max = 1,
		.features = WEFT__FEATURE_BULK | WEFT__FEATURE_REORDER,
		.max_frame = 4096,
		.instance = 77,
		.session = 88,
		.nonce = 99,
		.max_message = 123456789012,
		.silence_ms = SILENCE_MS,
		.libfabric = 0x10011,
	};
}

/* A session that has been accepted and is open, with numbers as after so many frames each way. */
static void open_after(struct weft__session *s, uint32_t base)
{
	struct weft__hello hello = hello_of_the_peer();
	weft__pool_init(&pool, 1000, 10);
	weft__session_accept(s, &pool, 5, NOW, NOW + 5000);
	assert_int_equal(weft__session_hello(s, &hello, 8, 8192, 0), 0);
	s->keepalive_ms = KEEPALIVE_MS;
	s->tx_queued = s->tx_number = s->tx_acked = base;
	s->rx_number = s->rx_told = s->ack_asked = base;
	s->credit.granted += base;
	s->credit.received += base;
	s->credit_told += base;
	s->allowance.granted += base;
	s->allowance.spent += base;
	weft__session_step(s, WEFT__RX_CREDIT);
	s->give_up_ms = INT64_MAX;
	assert_int_equal(s->state, WEFT__OPEN);
}

/* A frame's header with nothing new in it. */
static struct weft__header nothing_new(const struct weft__session *s)
{
	return (struct weft__header){
		.ack = s->tx_acked,
		.credit = s->allowance.granted,
		.returned = s->credit.returned,
	};
}

static void a_session_begins_with_one_credit(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	weft__pool_init(&pool, 10, 2);
	weft__session_connect(&s, &pool, 5, 6, NOW, NOW + 3000);
	assert_int_equal(s.state, WEFT__CONNECTING);
	assert_true(s.outgoing && s.id == 5 && s.nonce == 6 && s.peer_id == 0);
	assert_false(weft__session_owes(&s) || weft__session_owes_now(&s));
	assert_false(weft__session_may_send(&s, false));
	weft__session_fill(&s, &header, WEFT__CONNECT, 0);
	assert_int_equal(header.credit, 1);
	assert_int_equal(header.number, 0);
	assert_int_equal(header.session, 0);
	weft__session_accept(&s, &pool, 7, NOW, NOW + 3000);
	assert_int_equal(s.state, WEFT__HALFOPEN);
	assert_true(!s.outgoing && s.id == 7);
	assert_int_equal(pool.out, 2);
}

static void hello_is_taken_or_refused(void **state)
{
	struct weft__session s;
	struct weft__hello hello = hello_of_the_peer();
	(void)state;
	weft__pool_init(&pool, 10, 2);
	weft__session_accept(&s, &pool, 5, NOW, NOW + 5000);
	assert_int_equal(weft__session_hello(&s, &hello, 8, 8192, WEFT__FEATURE_BULK), 0);
	assert_int_equal(s.peer_id, 88);
	assert_int_equal(s.nonce, 99);
	assert_int_equal(s.instance, 77);
	assert_int_equal(s.features, WEFT__FEATURE_BULK);
	assert_int_equal(s.peer_max_message, 123456789012);
	assert_int_equal(s.max_frame, 4096);
	assert_int_equal(s.peer_silence_ms, SILENCE_MS);
	assert_int_equal(s.libfabric, 0x10011);
	assert_int_equal(weft__allowance_left(&s.allowance), 8);
	assert_int_equal(weft__session_hello(&s, &hello, INT32_MAX, 2048, 0), 0);
	assert_int_equal(s.max_frame, 2048);
	assert_int_equal(s.features, 0);
	hello.version_max = 7;
	assert_int_equal(weft__session_hello(&s, &hello, 1, 8192, 0), 0);

	const struct weft__session before = s;
	hello.version_min = 2;
	assert_int_equal(weft__session_hello(&s, &hello, 8, 8192, 0), WEFT_REASON_VERSION);
	hello.version_min = hello.version_max = 0;
	assert_int_equal(weft__session_hello(&s, &hello, 8, 8192, 0), WEFT_REASON_VERSION);
	hello = hello_of_the_peer();
	hello.required = WEFT__FEATURE_AUTH;
	assert_int_equal(weft__session_hello(&s, &hello, 8, 8192, 0), WEFT_REASON_FEATURE);
	assert_int_equal(weft__session_hello(&s, &hello, 8, 8192, WEFT__FEATURE_BULK),
			 WEFT_REASON_FEATURE);
	hello = hello_of_the_peer();
	assert_int_equal(weft__session_hello(&s, &hello, 0, 8192, 0), WEFT_REASON_PROTOCOL);
	assert_int_equal(weft__session_hello(&s, &hello, 1u << 31, 8192, 0), WEFT_REASON_PROTOCOL);
	assert_memory_equal(&s, &before, sizeof(s));
	hello.required = WEFT__FEATURE_BULK;
	assert_int_equal(weft__session_hello(&s, &hello, 1, 8192, WEFT__FEATURE_BULK), 0);
}

/* Where numbers are zero, where they wrap, and where they change their sign. */
static const uint32_t bases[] = {0,
				 1,
				 UINT32_MAX,
				 UINT32_MAX - 1,
				 UINT32_MAX - 2,
				 UINT32_MAX / 2,
				 UINT32_MAX / 2 - 1,
				 UINT32_MAX / 2 + 1};
#define BASES (sizeof(bases) / sizeof(bases[0]))

/* Lets the peer send so many more at once. */
static void allow(struct weft__session *s, uint32_t frames)
{
	s->credit.granted += frames;
	s->credit.window += frames;
	pool.out += frames;
	pool.borrowed += frames;
	pool.borrowers = 1;
}

static enum weft__turn comes(struct weft__session *s, uint32_t number, bool kept)
{
	return weft__session_number(s, &pool, number, true, kept);
}

static void frames_have_their_turn(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASES; i++) {
		struct weft__session s;
		uint32_t base = bases[i];
		open_after(&s, base);
		allow(&s, 9);
		assert_int_equal(comes(&s, base, false), WEFT__REPEATED);
		assert_int_equal(comes(&s, base - 5, false), WEFT__REPEATED);
		assert_int_equal(comes(&s, base + (1u << 31), false), WEFT__REPEATED);
		assert_int_equal(s.credit.received, base);

		assert_int_equal(comes(&s, base + 3, false), WEFT__EARLY);
		assert_int_equal(comes(&s, base + 3, true), WEFT__REPEATED);
		assert_int_equal(comes(&s, base + 1, false), WEFT__IN_TURN);
		/* It has to be told that it is dealt with. */
		assert_int_equal(s.rx_number, base);
		weft__session_advance(&s);
		assert_int_equal(s.rx_number, base + 1);
		assert_int_equal(comes(&s, base + 1, false), WEFT__REPEATED);
		assert_int_equal(comes(&s, base + 2, false), WEFT__IN_TURN);
		weft__session_advance(&s);
		weft__session_advance(&s);
		assert_int_equal(s.rx_number, base + 3);
		assert_int_equal(s.credit.received, base + 3);
		assert_int_equal(s.credit.held, 3);
	}
}

static void frames_beyond_the_credit_are_forbidden(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASES; i++) {
		struct weft__session s;
		uint32_t base = bases[i];
		open_after(&s, base);
		assert_int_equal(comes(&s, base + 2, false), WEFT__EARLY);
		assert_int_equal(comes(&s, base + 1, false), WEFT__FORBIDDEN);
		assert_int_equal(comes(&s, base + 2, true), WEFT__REPEATED);
		allow(&s, 1000);
		assert_int_equal(comes(&s, base + 65537, false), WEFT__FORBIDDEN);
		assert_int_equal(comes(&s, base + INT32_MAX, false), WEFT__FORBIDDEN);
		assert_int_equal(comes(&s, base + 65536, false), WEFT__EARLY);
	}
}

static void close_costs_nothing_and_comes_once(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	assert_int_equal(comes(&s, 1, false), WEFT__IN_TURN);
	weft__session_advance(&s);
	assert_int_equal(weft__credit_open_frames(&s.credit), 0);
	assert_int_equal(weft__session_number(&s, &pool, 3, false, false), WEFT__EARLY);
	assert_true(s.close_seen);
	assert_int_equal(weft__session_number(&s, &pool, 3, false, true), WEFT__REPEATED);
	assert_int_equal(weft__session_number(&s, &pool, 2, false, false), WEFT__FORBIDDEN);
	assert_int_equal(s.credit.held, 1);

	open_after(&s, UINT32_MAX);
	assert_int_equal(weft__session_number(&s, &pool, 0, false, false), WEFT__IN_TURN);
	assert_int_equal(s.credit.received, UINT32_MAX);
}

static void acknowledgements_only_grow(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASES; i++) {
		struct weft__session s;
		uint32_t base = bases[i];
		open_after(&s, base);
		for (uint32_t n = 1; n <= 4; n++)
			weft__session_sent(&s, base + n, true, NOW + n);
		assert_int_equal(s.tx_number, base + 4);
		assert_int_equal(weft__allowance_left(&s.allowance), 4);
		assert_int_equal(s.waiting_ms, NOW + 1);

		struct weft__header header = nothing_new(&s);
		header.ack = base + 5;
		const struct weft__session before = s;
		assert_false(weft__session_header(&s, &pool, &header, NOW + 9));
		assert_memory_equal(&s, &before, sizeof(s));
		header.ack = base + 2;
		assert_true(weft__session_header(&s, &pool, &header, NOW + 10));
		assert_int_equal(s.tx_acked, base + 2);
		/* The wait for the others begins anew. */
		assert_int_equal(s.waiting_ms, NOW + 10);
		header.ack = base + 1;
		assert_true(weft__session_header(&s, &pool, &header, NOW + 11));
		assert_int_equal(s.tx_acked, base + 2);
		assert_int_equal(s.waiting_ms, NOW + 10);
		assert_int_equal(s.heard_ms, NOW + 11);
		header.ack = base + 4;
		assert_true(weft__session_header(&s, &pool, &header, NOW + 12));
		assert_int_equal(s.waiting_ms, 0);
	}
}

static void credit_only_grows(void **state)
{
	(void)state;
	for (size_t i = 0; i < BASES; i++) {
		struct weft__session s;
		uint32_t base = bases[i];
		open_after(&s, base);
		struct weft__header header = nothing_new(&s);
		header.credit = base + 10;
		assert_true(weft__session_header(&s, &pool, &header, NOW));
		assert_int_equal(weft__allowance_left(&s.allowance), 10);
		header.credit = base + 9;
		assert_true(weft__session_header(&s, &pool, &header, NOW));
		assert_int_equal(weft__allowance_left(&s.allowance), 10);
		for (uint32_t n = 1; n <= 10; n++) {
			assert_true(weft__session_may_send(&s, true));
			weft__session_sent(&s, base + n, true, NOW);
		}
		assert_false(weft__session_may_send(&s, true));
		assert_true(weft__session_may_send(&s, false));
		weft__session_sent(&s, base + 11, false, NOW);
		assert_int_equal(s.allowance.spent, base + 10);
		header.credit = base + 12;
		assert_true(weft__session_header(&s, &pool, &header, NOW));
		assert_true(weft__session_may_send(&s, true));
		weft__session_step(&s, WEFT__FAIL);
		assert_false(weft__session_may_send(&s, false));
	}
}

static void only_what_was_allowed_is_returned(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	allow(&s, 5);
	struct weft__header header = nothing_new(&s);
	header.returned = 7;
	const struct weft__session before = s;
	assert_false(weft__session_header(&s, &pool, &header, NOW + 1));
	assert_memory_equal(&s, &before, sizeof(s));
	header.returned = 5;
	assert_true(weft__session_header(&s, &pool, &header, NOW + 1));
	assert_int_equal(weft__credit_open_frames(&s.credit), 1);
	assert_int_equal(pool.out, 1);
	assert_int_equal(pool.borrowed, 0);
}

static void what_was_told_is_not_owed(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, UINT32_MAX - 1);
	assert_false(weft__session_owes(&s));
	assert_int_equal(comes(&s, UINT32_MAX, false), WEFT__IN_TURN);
	weft__session_advance(&s);
	weft__credit_freed(&pool, &s.credit);
	assert_true(weft__session_owes(&s));
	assert_false(weft__session_owes_now(&s));
	assert_true(weft__credit_grant(&pool, &s.credit) > 0);
	/* The peer has nothing left. */
	assert_true(weft__session_owes_now(&s));
	weft__session_fill(&s, &header, WEFT__CREDIT, s.tx_number);
	assert_int_equal(header.version, 1);
	assert_int_equal(header.type, WEFT__CREDIT);
	assert_int_equal(header.flags, 0);
	assert_int_equal(header.session, 88);
	assert_int_equal(header.number, UINT32_MAX - 1);
	assert_int_equal(header.ack, UINT32_MAX);
	assert_int_equal(header.credit, s.credit.granted);
	assert_int_equal(header.returned, 0);
	assert_false(weft__session_owes(&s) || weft__session_owes_now(&s));
}

/* A frame of this number comes whose acknowledgement the peer waits for. */
static void asks_ack(struct weft__session *s, uint32_t number)
{
	struct weft__header header = nothing_new(s);
	header.flags = WEFT__FLAG_ACK_NOW;
	header.number = number;
	assert_true(weft__session_header(s, &pool, &header, NOW));
}

static void an_acknowledgement_is_owed_at_once(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	/* When the peer asks for it. */
	open_after(&s, UINT32_MAX - 10);
	allow(&s, 60);
	s.credit_told = s.credit.granted;
	asks_ack(&s, UINT32_MAX - 9);
	assert_false(weft__session_owes_now(&s));
	assert_int_equal(comes(&s, UINT32_MAX - 9, false), WEFT__IN_TURN);
	weft__session_advance(&s);
	assert_true(weft__session_owes_now(&s));
	weft__session_fill(&s, &header, WEFT__PONG, 0);
	assert_false(weft__session_owes_now(&s));
	/* One that it asked for before what is missing had come stays asked for, whatever is told
	 * meanwhile. */
	asks_ack(&s, UINT32_MAX - 7);
	assert_int_equal(comes(&s, UINT32_MAX - 7, false), WEFT__EARLY);
	weft__session_fill(&s, &header, WEFT__PONG, 0);
	assert_false(weft__session_owes_now(&s));
	assert_int_equal(comes(&s, UINT32_MAX - 8, false), WEFT__IN_TURN);
	weft__session_advance(&s);
	weft__session_advance(&s);
	assert_true(weft__session_owes_now(&s));
	weft__session_fill(&s, &header, WEFT__PONG, 0);
	assert_false(weft__session_owes_now(&s));
	/* An older one asks for nothing new. */
	asks_ack(&s, UINT32_MAX - 9);
	/* And after so many that it did not ask for. */
	for (uint32_t n = 1; n <= 32; n++) {
		assert_false(weft__session_owes_now(&s));
		assert_int_equal(comes(&s, UINT32_MAX - 7 + n, false), WEFT__IN_TURN);
		weft__session_advance(&s);
		assert_true(weft__session_owes(&s));
	}
	assert_true(weft__session_owes_now(&s));
}

/* What is acknowledged without being asked for takes nothing back that was. */
static void an_acknowledgement_without_a_wish(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, 10);
	allow(&s, 60);
	s.credit_told = s.credit.granted;
	asks_ack(&s, 12);
	weft__session_advance(&s);
	assert_true(weft__session_owes_now(&s));
	weft__session_ack_now(&s);
	weft__session_fill(&s, &header, WEFT__PONG, 0);
	weft__session_advance(&s);
	assert_true(weft__session_owes_now(&s));
	weft__session_fill(&s, &header, WEFT__PONG, 0);
	weft__session_advance(&s);
	assert_false(weft__session_owes_now(&s));
	weft__session_ack_now(&s);
	assert_true(weft__session_owes_now(&s));
}

/* Half of all numbers later, what was asked for once is no longer taken for a later number. */
static void what_was_asked_for_does_not_come_again(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, 0);
	allow(&s, 60);
	s.credit_told = s.credit.granted;
	for (uint32_t step = 0; step < 4; step++) {
		s.rx_number += 0x40000000u;
		weft__session_fill(&s, &header, WEFT__PONG, 0);
		s.rx_number++;
		assert_false(weft__session_owes_now(&s));
		weft__session_fill(&s, &header, WEFT__PONG, 0);
	}
}

static void credit_is_owed_at_once_when_half_is_gone(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, 0);
	allow(&s, 7);
	weft__session_fill(&s, &header, WEFT__CREDIT, 0);
	assert_int_equal(s.credit.window, 8);
	for (uint32_t n = 1; n <= 4; n++) {
		assert_int_equal(comes(&s, n, false), WEFT__IN_TURN);
		weft__session_advance(&s);
		weft__credit_freed(&pool, &s.credit);
		s.rx_told = s.rx_number;
		s.credit.granted++;
		pool.out++;
		pool.borrowed++;
		assert_int_equal(weft__session_owes_now(&s), n == 4);
	}
}

/* A peer that may send few is not known to send many: credit can wait until it has next to nothing.
 */
static void little_credit_can_wait(void **state)
{
	static const uint32_t last[] = {
		[1] = 0, [2] = 0, [3] = 0, [4] = 1, [5] = 1, [6] = 1, [7] = 1};
	struct weft__session s;
	(void)state;
	for (uint32_t window = 1; window < sizeof(last) / sizeof(last[0]); window++) {
		open_after(&s, 0);
		s.credit.window = window;
		s.credit.granted = s.credit_told = window;
		for (uint32_t left = window; left-- > 0;) {
			s.credit.received++;
			s.credit.granted++;
			assert_int_equal(weft__session_owes_now(&s), left <= last[window]);
		}
	}
}

static enum weft__event tick(struct weft__session *s, int64_t ms)
{
	return weft__session_tick(s, NOW + ms, true);
}

static void connect_is_repeated_ever_less_often(void **state)
{
	static const int64_t due[] = {0, 100, 300, 700, 1500, 2500, 3500, 4500};
	struct weft__session s;
	size_t count = 0;
	(void)state;
	weft__pool_init(&pool, 10, 2);
	weft__session_connect(&s, &pool, 5, 6, NOW, NOW + 5000);
	for (int64_t ms = 0; ms < 5000; ms++) {
		int next = weft__session_next(&s, NOW + ms);
		enum weft__event event = tick(&s, ms);
		if (event == WEFT__NOTHING) {
			assert_int_equal(next, due[count] < 5000 ? due[count] - ms : 5000 - ms);
			continue;
		}
		assert_int_equal(event, WEFT__TICK_CONNECT);
		assert_int_equal(ms, due[count]);
		count++;
		if (count == sizeof(due) / sizeof(due[0]))
			break;
	}
	assert_int_equal(count, sizeof(due) / sizeof(due[0]));
	assert_int_equal(weft__session_next(&s, NOW + 4600), 400);
	assert_int_equal(tick(&s, 4999), WEFT__NOTHING);
	assert_int_equal(tick(&s, 5000), WEFT__TIMEOUT);
	assert_int_equal(weft__session_next(&s, NOW + 6000), 1);
	weft__session_step(&s, WEFT__TIMEOUT);
	assert_int_equal(tick(&s, 6000), WEFT__NOTHING);
}

static void half_open_ends_by_itself(void **state)
{
	struct weft__session s;
	(void)state;
	weft__pool_init(&pool, 10, 2);
	weft__session_accept(&s, &pool, 5, NOW, NOW + 5000);
	assert_int_equal(tick(&s, 0), WEFT__NOTHING);
	assert_int_equal(weft__session_next(&s, NOW + 10), 4990);
	assert_int_equal(tick(&s, 4999), WEFT__NOTHING);
	assert_int_equal(tick(&s, 5000), WEFT__TIMEOUT);
}

static void the_silent_are_asked_and_then_given_up(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	s.allowance.spent = s.allowance.granted;
	assert_int_equal(weft__session_next(&s, NOW), KEEPALIVE_MS);
	assert_int_equal(tick(&s, KEEPALIVE_MS - 1), WEFT__NOTHING);
	assert_int_equal(tick(&s, KEEPALIVE_MS), WEFT__TICK_IDLE);
	/* Until the question has gone out it is asked again. */
	assert_int_equal(tick(&s, KEEPALIVE_MS + 1), WEFT__TICK_IDLE);
	weft__session_pinged(&s, NOW + KEEPALIVE_MS + 1);
	int64_t last = KEEPALIVE_MS + 1 + SILENCE_MS;
	assert_int_equal(weft__session_next(&s, NOW + KEEPALIVE_MS + 1), SILENCE_MS);
	assert_int_equal(tick(&s, last - 1), WEFT__NOTHING);
	assert_false(s.suspect);
	/* It was perhaps this side that slept: what has arrived is looked at first. */
	assert_int_equal(tick(&s, last), WEFT__NOTHING);
	assert_true(s.suspect);
	assert_int_equal(weft__session_next(&s, NOW + last), 50);
	struct weft__session quiet = s;
	assert_int_equal(tick(&quiet, last + 50), WEFT__SILENT);
	assert_int_equal(weft__session_tick(&s, NOW + last + 50, false), WEFT__NOTHING);
	assert_int_equal(tick(&s, last + 100), WEFT__SILENT);

	/* Where there is always something to read, it does not stay suspect for ever. */
	struct weft__session busy = s;
	int turns = 0;
	while (weft__session_tick(&busy, NOW + last + 100, false) == WEFT__NOTHING)
		turns++;
	assert_in_range(turns, 1, 50);

	/* Any frame is an answer. */
	struct weft__header header = nothing_new(&s);
	assert_true(weft__session_header(&s, &pool, &header, NOW + last + 100));
	assert_false(s.suspect);
	assert_int_equal(s.ping_ms, 0);
	assert_int_equal(tick(&s, last + 101), WEFT__NOTHING);
	assert_int_equal(weft__session_next(&s, NOW + last + 100), KEEPALIVE_MS);
}

static void a_late_acknowledgement_is_asked_for(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, UINT32_MAX);
	s.allowance.granted = s.allowance.spent + 2;
	weft__session_sent(&s, 0, true, NOW + 100);
	assert_int_equal(weft__session_next(&s, NOW + 100), 1000);
	assert_int_equal(tick(&s, 1099), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1100), WEFT__TICK_IDLE);
	/* A peer that was heard meanwhile has a little longer. */
	header = nothing_new(&s);
	assert_true(weft__session_header(&s, &pool, &header, NOW + 900));
	assert_int_equal(tick(&s, 1899), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1900), WEFT__TICK_IDLE);
	header.ack = 0;
	assert_true(weft__session_header(&s, &pool, &header, NOW + 1900));
	assert_int_equal(tick(&s, 1901), WEFT__NOTHING);
	assert_int_equal(weft__session_next(&s, NOW + 1900), KEEPALIVE_MS);
	/* Where the keepalive is shorter, that counts. */
	s.keepalive_ms = 200;
	weft__session_sent(&s, 1, true, NOW + 1900);
	assert_int_equal(tick(&s, 2100), WEFT__TICK_IDLE);
}

static void a_frame_that_does_not_come_ends_it(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	s.keepalive_ms = 10 * SILENCE_MS;
	s.allowance.spent = s.allowance.granted;
	weft__session_gap(&s, true, NOW);
	weft__session_gap(&s, true, NOW + 9);
	s.heard_ms = NOW + SILENCE_MS - 1;
	assert_int_equal(tick(&s, SILENCE_MS), WEFT__NOTHING);
	assert_int_equal(weft__session_next(&s, NOW + SILENCE_MS), 999);
	s.heard_ms = NOW + SILENCE_MS;
	assert_int_equal(weft__session_next(&s, NOW + SILENCE_MS), 1);
	assert_int_equal(tick(&s, SILENCE_MS), WEFT__FAIL);
	/* It came, but another one is missing. */
	weft__session_advance(&s);
	assert_int_equal(tick(&s, SILENCE_MS), WEFT__NOTHING);
	weft__session_gap(&s, true, NOW + SILENCE_MS);
	s.heard_ms = NOW + 2 * SILENCE_MS;
	assert_int_equal(tick(&s, 2 * SILENCE_MS), WEFT__FAIL);
	weft__session_gap(&s, false, NOW + 2 * SILENCE_MS);
	assert_int_equal(tick(&s, 2 * SILENCE_MS), WEFT__NOTHING);
}

/* Who is silent has not lost a frame: it may be stopped, with the frame in its hands. */
static void a_silent_peer_has_lost_nothing(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	s.allowance.spent = s.allowance.granted;
	weft__session_gap(&s, true, NOW);
	s.heard_ms = NOW;
	assert_int_equal(tick(&s, 1000), WEFT__TICK_IDLE);
	weft__session_pinged(&s, NOW + 1000);
	assert_int_equal(tick(&s, 1000 + SILENCE_MS - 1), WEFT__NOTHING);
	assert_int_equal(weft__session_next(&s, NOW + 1000), SILENCE_MS);
	/* Found silent twice, as where nothing is missing. */
	assert_int_equal(tick(&s, 1000 + SILENCE_MS), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1000 + SILENCE_MS + 1), WEFT__SILENT);
}

static void what_is_missing_is_asked_for(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	s.keepalive_ms = 10 * SILENCE_MS;
	s.allowance.spent = s.allowance.granted;
	weft__session_gap(&s, true, NOW);
	assert_int_equal(tick(&s, 999), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1000), WEFT__TICK_IDLE);
	weft__session_gap(&s, false, NOW + 1000);
	assert_int_equal(tick(&s, 1000), WEFT__NOTHING);
	/* And so is a message in chunks, if none of them comes. */
	weft__session_chunks(&s, true, NOW);
	weft__session_chunks(&s, true, NOW + 9);
	assert_int_equal(tick(&s, 999), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1000), WEFT__TICK_IDLE);
	s.heard_ms = NOW + 500;
	assert_int_equal(tick(&s, 1499), WEFT__NOTHING);
	assert_int_equal(tick(&s, 1500), WEFT__TICK_IDLE);
	weft__session_chunks(&s, false, NOW + 1500);
	assert_int_equal(tick(&s, 1500), WEFT__NOTHING);
}

static void closing_ends_when_its_time_is_up(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	assert_int_equal(weft__session_step(&s, WEFT__USER_CLOSE), WEFT__DO_CLOSE);
	s.give_up_ms = NOW + 5000;
	assert_true(weft__session_may_send(&s, false));
	/* Credit that it will not use any more is no reason to look sooner. */
	assert_true(weft__allowance_left(&s.allowance) > 1);
	assert_int_equal(weft__session_next(&s, NOW + 2000), 3000);
	assert_false(weft__session_give_back(&s, NOW + 4999));
	assert_int_equal(tick(&s, 4999), WEFT__NOTHING);
	assert_int_equal(tick(&s, 5000), WEFT__TIMEOUT);
	/* It is asked whether it is there, as before. */
	s.give_up_ms = INT64_MAX;
	assert_int_equal(tick(&s, KEEPALIVE_MS), WEFT__TICK_IDLE);
}

static void unused_credit_goes_back(void **state)
{
	struct weft__session s;
	struct weft__header header;
	(void)state;
	open_after(&s, UINT32_MAX - 3);
	assert_int_equal(weft__session_next(&s, NOW), 1000);
	assert_false(weft__session_give_back(&s, NOW + 999));
	weft__session_sent(&s, UINT32_MAX - 2, true, NOW + 500);
	assert_false(weft__session_give_back(&s, NOW + 1499));
	assert_true(weft__session_give_back(&s, NOW + 1500));
	assert_int_equal(weft__allowance_left(&s.allowance), 1);
	weft__session_fill(&s, &header, WEFT__CREDIT, s.tx_number);
	assert_int_equal(header.returned, 6);
	/* The last one stays, so that the next message need not ask. */
	assert_false(weft__session_give_back(&s, NOW + 9000));
	assert_true(weft__session_may_send(&s, true));
}

static void a_session_that_is_gone_wants_nothing(void **state)
{
	struct weft__session s;
	(void)state;
	open_after(&s, 0);
	weft__session_step(&s, WEFT__RX_CLOSE);
	assert_int_equal(s.state, WEFT__GONE);
	assert_int_equal(weft__session_next(&s, NOW), INT32_MAX);
	assert_int_equal(tick(&s, INT32_MAX), WEFT__NOTHING);
	assert_false(weft__session_give_back(&s, NOW + INT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_does_what_the_page_says),
		cmocka_unit_test(the_page_makes_sense),
		cmocka_unit_test(a_session_begins_with_one_credit),
		cmocka_unit_test(hello_is_taken_or_refused),
		cmocka_unit_test(frames_have_their_turn),
		cmocka_unit_test(frames_beyond_the_credit_are_forbidden),
		cmocka_unit_test(close_costs_nothing_and_comes_once),
		cmocka_unit_test(acknowledgements_only_grow),
		cmocka_unit_test(credit_only_grows),
		cmocka_unit_test(only_what_was_allowed_is_returned),
		cmocka_unit_test(what_was_told_is_not_owed),
		cmocka_unit_test(an_acknowledgement_is_owed_at_once),
		cmocka_unit_test(an_acknowledgement_without_a_wish),
		cmocka_unit_test(what_was_asked_for_does_not_come_again),
		cmocka_unit_test(little_credit_can_wait),
		cmocka_unit_test(credit_is_owed_at_once_when_half_is_gone),
		cmocka_unit_test(connect_is_repeated_ever_less_often),
		cmocka_unit_test(half_open_ends_by_itself),
		cmocka_unit_test(the_silent_are_asked_and_then_given_up),
		cmocka_unit_test(a_late_acknowledgement_is_asked_for),
		cmocka_unit_test(a_frame_that_does_not_come_ends_it),
		cmocka_unit_test(a_silent_peer_has_lost_nothing),
		cmocka_unit_test(what_is_missing_is_asked_for),
		cmocka_unit_test(closing_ends_when_its_time_is_up),
		cmocka_unit_test(unused_credit_goes_back),
		cmocka_unit_test(a_session_that_is_gone_wants_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
