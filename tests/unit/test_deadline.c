/* SPDX-License-Identifier: MIT */
/*
 * The wheel of deadlines, told the time by the test: nothing too early, nothing late, nothing lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "deadline.h"

static size_t sweep(struct weft__deadlines *wheel, int64_t now, int64_t *last)
{
	struct weft__deadline_list passed;
	struct weft__deadline *entry;
	size_t count = 0;
	weft__deadlines_sweep(wheel, now, &passed);
	while ((entry = LIST_FIRST(&passed))) {
		LIST_REMOVE(entry, link);
		assert_true(entry->at_ms <= now);
		if (last)
			*last = entry->at_ms;
		count++;
	}
	return count;
}

/* Starts an entry at a time: the sweep that places it finds nothing. */
static void start(struct weft__deadlines *wheel, struct weft__deadline *entry, int64_t now,
		  int timeout)
{
	weft__deadline_add(wheel, entry, timeout);
	assert_int_equal(sweep(wheel, now, NULL), 0);
}

static void passes_at_its_time(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry;
	/* Within a slot, at its edges, in the next turns of the wheel. */
	static const int after[] = {1, 3, 4, 5, 1023, 4095, 4096, 4097, 8192, 100000};
	static const int64_t starts[] = {0, 1, 4095, 123456789};
	(void)state;
	for (int64_t slack = 0; slack < 6; slack += 5) {
		for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
			for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
				weft__deadlines_init(&wheel, starts[s], slack);
				int64_t at = starts[s] + after[i] + slack;
				start(&wheel, &entry, starts[s], after[i]);
				for (int64_t now = starts[s]; now < at; now++)
					assert_int_equal(sweep(&wheel, now, NULL), 0);
				assert_int_equal(wheel.count, 1);
				assert_int_equal(sweep(&wheel, at, NULL), 1);
				assert_int_equal(wheel.count, 0);
			}
		}
	}
}

static void leaps_of_the_clock_lose_nothing(void **state)
{
	static struct weft__deadlines wheel;
	static struct weft__deadline entry[500];
	(void)state;
	for (int64_t leap = 1; leap < 20000; leap = leap * 3 + 1) {
		weft__deadlines_init(&wheel, 1000, 0);
		for (int i = 0; i < 500; i++)
			weft__deadline_add(&wheel, &entry[i], i * 37);
		size_t count = 0;
		for (int64_t now = 1000; now < 1000 + 500 * 37 + leap; now += leap) {
			count += sweep(&wheel, now, NULL);
			size_t due = (size_t)((now - 1000) / 37 + 1);
			assert_int_equal(count, due < 500 ? due : 500);
		}
		assert_int_equal(wheel.count, 0);
	}
}

static void removed_ones_do_not_pass(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry[4];
	int64_t last = 0;
	(void)state;
	weft__deadlines_init(&wheel, 0, 0);
	for (int i = 0; i < 3; i++)
		start(&wheel, &entry[i], 0, 8 + i);
	weft__deadline_add(&wheel, &entry[3], 1);
	weft__deadline_remove(&wheel, &entry[3]);
	weft__deadline_remove(&wheel, &entry[1]);
	assert_int_equal(wheel.count, 2);
	assert_int_equal(sweep(&wheel, 9, &last), 1);
	assert_int_equal(last, 8);
	assert_int_equal(sweep(&wheel, 10, &last), 1);
	assert_int_equal(last, 10);
}

static void the_clock_starts_with_the_next_sweep(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry[2];
	(void)state;
	weft__deadlines_init(&wheel, 0, 3);
	weft__deadline_add(&wheel, &entry[0], 10);
	/* Long after it was added: it has its full time yet. No time at all passes at once. */
	weft__deadline_add(&wheel, &entry[1], 0);
	assert_int_equal(sweep(&wheel, 50000, NULL), 1);
	assert_int_equal(sweep(&wheel, 50012, NULL), 0);
	assert_int_equal(sweep(&wheel, 50013, NULL), 1);
}

static void next_is_the_time_that_is_left(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry[3];
	(void)state;
	weft__deadlines_init(&wheel, 1000, 5);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, 77), 77);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, INT32_MAX), INT32_MAX);
	/* Before the sweep that starts it, the time-out is all that is known. */
	weft__deadline_add(&wheel, &entry[0], 100);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, 77), 77);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, 500), 100);
	assert_int_equal(sweep(&wheel, 1000, NULL), 0);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, 500), 105);
	assert_int_equal(weft__deadlines_next(&wheel, 1000, 104), 104);
	assert_int_equal(weft__deadlines_next(&wheel, 1050, 500), 55);
	assert_int_equal(weft__deadlines_next(&wheel, 1105, 500), 0);
	assert_int_equal(weft__deadlines_next(&wheel, 9000, 500), 0);
	/* What is more than a turn of the wheel away is seen when it is less. */
	weft__deadline_remove(&wheel, &entry[0]);
	start(&wheel, &entry[1], 1000, 20000);
	start(&wheel, &entry[2], 1000, 100000);
	int next = weft__deadlines_next(&wheel, 1000, INT32_MAX);
	assert_in_range(next, 4000, 4096);
	assert_int_equal(sweep(&wheel, 20000, NULL), 0);
	assert_int_equal(weft__deadlines_next(&wheel, 20000, INT32_MAX), 1005);
	weft__deadline_add(&wheel, &entry[0], 0);
	assert_int_equal(weft__deadlines_next(&wheel, 20000, INT32_MAX), 0);
}

static uint32_t at_random(uint32_t below)
{
	static uint64_t now = 1;
	now = now * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(now >> 33) % below;
}

#define ENTRIES 30

struct scheduled {
	struct weft__deadline entry;
	bool waits, placed;
	int64_t left; /* until it passes, once it is placed the time when it does */
};

/* What next may say at most, by a look at every entry. */
static int64_t longest(const struct scheduled *all, int64_t now, int limit, bool *fresh)
{
	int64_t most = limit;
	*fresh = false;
	for (size_t i = 0; i < ENTRIES; i++) {
		if (!all[i].waits)
			continue;
		int64_t left = all[i].placed ? all[i].left - now : all[i].left;
		*fresh = *fresh || !all[i].placed;
		most = left < most ? left : most;
	}
	return most > 0 ? most : 0;
}

static void sweep_all(struct weft__deadlines *wheel, struct scheduled *all, int64_t now)
{
	struct weft__deadline_list passed;
	struct weft__deadline *entry;
	weft__deadlines_sweep(wheel, now, &passed);
	for (size_t i = 0; i < ENTRIES; i++) {
		if (all[i].waits && !all[i].placed)
			all[i].left = now + (all[i].left ? all[i].left + wheel->slack_ms : 0);
		all[i].placed = true;
	}
	while ((entry = LIST_FIRST(&passed))) {
		struct scheduled *s = (struct scheduled *)entry;
		LIST_REMOVE(entry, link);
		assert_true(s->waits && s->left <= now);
		s->waits = false;
	}
	for (size_t i = 0; i < ENTRIES; i++)
		assert_true(!all[i].waits || all[i].left > now);
}

static void next_never_says_more_than_is_so(void **state)
{
	static struct weft__deadlines wheel;
	static struct scheduled all[ENTRIES];
	static const uint32_t reach[] = {1, 8, 300, 5000, 60000};
	int64_t now = 123456789, swept = now;
	(void)state;
	weft__deadlines_init(&wheel, now, 3);
	for (int turn = 0; turn < 200000; turn++) {
		struct scheduled *s = &all[at_random(ENTRIES)];
		uint32_t far = reach[at_random(sizeof(reach) / sizeof(reach[0]))];
		bool fresh;
		if (s->waits) {
			weft__deadline_remove(&wheel, &s->entry);
			s->waits = false;
		} else {
			s->left = at_random(far);
			weft__deadline_add(&wheel, &s->entry, (int)s->left);
			s->waits = true;
			s->placed = false;
		}
		int limit = (int)at_random(reach[at_random(5)]);
		int64_t most = longest(all, now, limit, &fresh);
		int said = weft__deadlines_next(&wheel, now, limit);
		assert_true(said >= 0 && said <= most);
		/* Within the reach of the wheel it says all that there is to say. */
		if (!fresh && now + most - swept < 4000)
			assert_int_equal(said, most);
		now += at_random(3) ? (int64_t)said : at_random(far);
		if (at_random(2) == 0)
			continue;
		sweep_all(&wheel, all, now);
		swept = now;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_at_its_time),
		cmocka_unit_test(leaps_of_the_clock_lose_nothing),
		cmocka_unit_test(removed_ones_do_not_pass),
		cmocka_unit_test(the_clock_starts_with_the_next_sweep),
		cmocka_unit_test(next_is_the_time_that_is_left),
		cmocka_unit_test(next_never_says_more_than_is_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
