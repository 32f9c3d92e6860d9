/* SPDX-License-Identifier: MIT */
/*
 * The wheel of deadlines, told the time by the test: nothing too early, nothing late, nothing lost.
 */
#include <setjmp.h>
#include <stdarg.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_at_its_time),
		cmocka_unit_test(leaps_of_the_clock_lose_nothing),
		cmocka_unit_test(removed_ones_do_not_pass),
		cmocka_unit_test(the_clock_starts_with_the_next_sweep),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
