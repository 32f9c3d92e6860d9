/* SPDX-License-Identifier: MIT */
/*
 * The budget of frames: random walks of many sessions, beside a count of the frames themselves; and
 * who gets how many. Calls credit.c only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "credit.h"

#define SESSIONS_MAX 40

struct session {
	bool exists;
	struct weft__credit credit;
	/* What the peer of such a session knows. */
	uint32_t told, spent, returned;
	/* The frames themselves, counted one by one. */
	uint32_t open, held;
};

struct world {
	struct weft__pool pool;
	struct session session[SESSIONS_MAX];
	uint32_t budget, sessions;
	uint32_t orphans; /* frames held for sessions that are gone */
};

static uint32_t at_random(uint32_t below)
{
	static uint64_t state = 1;
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

static void check(const struct world *w)
{
	uint32_t out = 0, borrowed = w->orphans, borrowers = 0, sessions = 0;
	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		const struct session *s = &w->session[i];
		if (!s->exists)
			continue;
		uint32_t claim = s->open + s->held;
		assert_int_equal(weft__credit_open_frames(&s->credit), s->open);
		assert_int_equal(s->credit.held, s->held);
		assert_true(s->credit.window >= 1);
		sessions++;
		out += s->open;
		borrowed += claim > 1 ? claim - 1 : 0;
		borrowers += s->credit.window > 1;
	}
	assert_int_equal(w->pool.out, out);
	assert_int_equal(w->pool.borrowed, borrowed);
	assert_int_equal(w->pool.borrowers, borrowers);
	assert_int_equal(w->pool.sessions, sessions);
	/* With the frame that each session may have at any time. */
	assert_true(borrowed + sessions <= w->budget);
}

static void begin(struct world *w, uint32_t budget, uint32_t sessions)
{
	memset(w, 0, sizeof(*w));
	w->budget = budget;
	w->sessions = sessions;
	weft__pool_init(&w->pool, budget, sessions);
	check(w);
}

/* Begins a session whose numbers are as after so many frames. */
static void open_session(struct world *w, size_t i, uint32_t base)
{
	struct session *s = &w->session[i];
	weft__credit_open(&w->pool, &s->credit);
	assert_int_equal(s->credit.granted, 1);
	s->credit.granted += base;
	s->credit.received = base;
	*s = (struct session){
		.exists = true,
		.credit = s->credit,
		.told = s->credit.granted,
		.spent = base,
		.open = 1,
	};
	check(w);
}

static void close_session(struct world *w, size_t i)
{
	struct session *s = &w->session[i];
	assert_int_equal(weft__credit_close(&w->pool, &s->credit), s->held);
	assert_int_equal(weft__credit_open_frames(&s->credit), 0);
	w->orphans += s->held;
	s->exists = false;
	check(w);
}

/* Returns whether the frame was allowed. */
static bool arrive(struct world *w, struct session *s)
{
	bool allowed = weft__credit_received(&w->pool, &s->credit);
	assert_int_equal(allowed, s->open > 0);
	if (allowed) {
		s->open--;
		s->held++;
	}
	check(w);
	return allowed;
}

static void set_free(struct world *w, struct session *s)
{
	weft__credit_freed(&w->pool, &s->credit);
	s->held--;
	check(w);
}

static uint32_t grant(struct world *w, struct session *s)
{
	uint32_t before = s->credit.granted;
	uint32_t more = weft__credit_grant(&w->pool, &s->credit);
	assert_int_equal(s->credit.granted - before, more);
	s->open += more;
	s->told = s->credit.granted;
	check(w);
	/* A session that has nothing may always have its own frame. */
	assert_true(s->open + s->held > 0);
	return more;
}

static bool give_back(struct world *w, struct session *s, uint32_t returned)
{
	uint32_t more = returned - s->credit.returned;
	bool allowed = weft__credit_returned(&w->pool, &s->credit, returned);
	bool older = (int32_t)more <= 0;
	assert_int_equal(allowed, older || more <= s->open);
	if (allowed && !older)
		s->open -= more;
	check(w);
	return allowed;
}

/* One step of a session that exists. */
static void step(struct world *w, struct session *s, size_t i)
{
	switch (at_random(8)) {
	case 0:
	case 1:
	case 2:
		arrive(w, s);
		break;
	case 3:
	case 4:
		if (s->held > 0)
			set_free(w, s);
		break;
	case 5:
		give_back(w, s, s->credit.returned + at_random(6) - 2);
		break;
	case 6:
		grant(w, s);
		break;
	default:
		if (at_random(8) == 0)
			close_session(w, i);
	}
}

static void walks_keep_the_sums(void **state)
{
	static const struct {
		uint32_t budget, sessions;
	} sizes[] = {{40, 40}, {41, 40}, {100, 40}, {1000, 40}, {10, 3}, {64, 1}};
	static struct world w;
	(void)state;
	for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
		begin(&w, sizes[size].budget, sizes[size].sessions);
		for (int i = 0; i < 100000; i++) {
			size_t at = at_random(w.sessions);
			if (w.session[at].exists) {
				step(&w, &w.session[at], at);
			} else if (weft__pool_has_room(&w.pool)) {
				/* Near the end of the numbers as often as elsewhere. */
				open_session(&w, at, at_random(2) ? 0 : UINT32_MAX - at_random(50));
			}
			if (w.orphans > 0 && at_random(4) == 0) {
				weft__pool_freed(&w.pool);
				w.orphans--;
				check(&w);
			}
		}
		for (size_t i = 0; i < w.sessions; i++) {
			if (w.session[i].exists)
				close_session(&w, i);
		}
		for (; w.orphans > 0; w.orphans--)
			weft__pool_freed(&w.pool);
		check(&w);
	}
}

static void the_first_frame_is_allowed(void **state)
{
	static struct world w;
	struct session *s = &w.session[0];
	(void)state;
	begin(&w, 10, 2);
	open_session(&w, 0, 0);
	assert_true(arrive(&w, s));
	assert_false(arrive(&w, s));
	/* It counts until its memory is free. */
	set_free(&w, s);
	assert_false(arrive(&w, s));
	assert_true(grant(&w, s) > 0);
	assert_true(arrive(&w, s));
}

static void what_is_used_grows(void **state)
{
	static struct world w;
	struct session *s = &w.session[0];
	uint32_t before = 1;
	(void)state;
	begin(&w, 1000, 2);
	open_session(&w, 0, 0);
	assert_int_equal(grant(&w, s), 0);
	for (;;) {
		while (s->open > 0)
			arrive(&w, s);
		while (s->held > 0)
			set_free(&w, s);
		uint32_t window = grant(&w, s);
		if (window == before)
			break;
		assert_int_equal(window, 2 * before);
		before = window;
	}
	assert_int_equal(before, 64);
	/* While half of it is left, there is no need of more; and never more than the window. */
	for (int i = 0; i < 31; i++) {
		arrive(&w, s);
		set_free(&w, s);
		assert_int_equal(grant(&w, s), 0);
	}
	arrive(&w, s);
	set_free(&w, s);
	assert_int_equal(grant(&w, s), 32);
	assert_int_equal(s->open, 64);
}

static void what_is_given_back_is_for_others(void **state)
{
	static struct world w;
	struct session *s = &w.session[0];
	(void)state;
	begin(&w, 40, 2);
	open_session(&w, 0, 0);
	for (int i = 0; i < 8; i++) {
		while (s->open > 0)
			arrive(&w, s);
		while (s->held > 0)
			set_free(&w, s);
		grant(&w, s);
	}
	uint32_t most = s->open;
	assert_int_equal(most, 39);
	/* Nobody gives back what it never had, and an old frame says nothing new. */
	assert_false(give_back(&w, s, most + 1));
	assert_true(give_back(&w, s, most - 1));
	assert_true(give_back(&w, s, 3));
	assert_true(give_back(&w, s, UINT32_MAX));
	assert_int_equal(s->open, 1);
	assert_int_equal(w.pool.borrowed, 0);
	assert_int_equal(s->credit.window, 1);
	open_session(&w, 1, 0);
	arrive(&w, &w.session[1]);
	assert_int_equal(grant(&w, &w.session[1]), 1);
}

/* Sessions that all send as fast as they may, and one frame in four is held for a while. */
static void nobody_is_starved(void **state)
{
	static struct world w;
	(void)state;
	for (uint32_t budget = 40; budget <= 640; budget *= 2) {
		uint32_t got[SESSIONS_MAX] = {0};
		uint32_t least = UINT32_MAX, most = 0;
		begin(&w, budget, SESSIONS_MAX);
		/* One comes first, and takes what there is. */
		for (size_t i = 0; i < SESSIONS_MAX; i++)
			open_session(&w, i, 0);
		for (int turn = 0; turn < 2000; turn++) {
			size_t first = turn < 100 ? 0 : at_random(SESSIONS_MAX);
			size_t active = turn < 100 ? 1 : SESSIONS_MAX;
			for (size_t i = 0; i < active; i++) {
				size_t at = (first + i) % SESSIONS_MAX;
				struct session *s = &w.session[at];
				while (s->open > 0) {
					arrive(&w, s);
					got[at] += turn >= 500;
				}
				while (s->held > 0 && at_random(4) > 0)
					set_free(&w, s);
				grant(&w, s);
			}
		}
		for (size_t i = 0; i < SESSIONS_MAX; i++) {
			least = got[i] < least ? got[i] : least;
			most = got[i] > most ? got[i] : most;
		}
		assert_true(least >= 1000);
		assert_true(most <= 2 * least);
	}
}

static void held_frames_of_the_dead_count(void **state)
{
	static struct world w;
	(void)state;
	begin(&w, 10, 3);
	/* Each sends one frame, which is held, and goes. */
	uint32_t came = 0;
	while (weft__pool_has_room(&w.pool)) {
		open_session(&w, 0, 0);
		arrive(&w, &w.session[0]);
		close_session(&w, 0);
		came++;
	}
	assert_int_equal(came, 10);
	assert_int_equal(w.pool.borrowed, 10);
	weft__pool_freed(&w.pool);
	w.orphans--;
	assert_true(weft__pool_has_room(&w.pool));
	open_session(&w, 0, 0);
	assert_false(weft__pool_has_room(&w.pool));
	/* There is nothing to borrow, but its own frame comes again and again. */
	for (int i = 0; i < 5; i++) {
		arrive(&w, &w.session[0]);
		assert_int_equal(grant(&w, &w.session[0]), 0);
		set_free(&w, &w.session[0]);
		assert_int_equal(grant(&w, &w.session[0]), 1);
	}
}

static void a_budget_for_fewer_than_all(void **state)
{
	static struct world w;
	(void)state;
	begin(&w, 2, 5);
	open_session(&w, 0, 0);
	open_session(&w, 1, 0);
	assert_false(weft__pool_has_room(&w.pool));
	arrive(&w, &w.session[0]);
	assert_int_equal(grant(&w, &w.session[0]), 0);
}

/* Twice an equal share as long as less than half is lent, and no longer. */
static void plenty_ends_at_half(void **state)
{
	(void)state;
	for (uint32_t lent = 19; lent <= 20; lent++) {
		struct weft__pool pool;
		struct weft__credit credit = {.granted = 1, .received = 1, .window = 16};
		weft__pool_init(&pool, 50, 10);
		pool.borrowers = 3;
		pool.borrowed = lent;
		weft__credit_grant(&pool, &credit);
		assert_int_equal(credit.window, lent < 20 ? 1 + 2 * 10 : 1 + 10);
	}
}

static void an_allowance_is_what_is_left(void **state)
{
	struct weft__allowance a = {.granted = 5, .spent = 2, .returned = 1};
	(void)state;
	assert_int_equal(weft__allowance_left(&a), 2);
	a.returned = 3;
	assert_int_equal(weft__allowance_left(&a), 0);
	a.spent = 4;
	assert_int_equal(weft__allowance_left(&a), 0);
	a = (struct weft__allowance){.granted = 3, .spent = UINT32_MAX - 1};
	assert_int_equal(weft__allowance_left(&a), 5);
	a.returned = UINT32_MAX;
	assert_int_equal(weft__allowance_left(&a), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_keep_the_sums),
		cmocka_unit_test(the_first_frame_is_allowed),
		cmocka_unit_test(what_is_used_grows),
		cmocka_unit_test(what_is_given_back_is_for_others),
		cmocka_unit_test(nobody_is_starved),
		cmocka_unit_test(held_frames_of_the_dead_count),
		cmocka_unit_test(a_budget_for_fewer_than_all),
		cmocka_unit_test(plenty_ends_at_half),
		cmocka_unit_test(an_allowance_is_what_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
