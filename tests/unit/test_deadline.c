/* SPDX-License-Identifier: MIT */
/*
 * The wheel of deadlines, told the time by the test: nothing too early, nothing late, nothing lost.
 *
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

static void passes_at_its_time(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry;
	/* Within a slot, at its edges, in the next turns of the wheel. */
	static const int64_t after[] = {0, 1, 3, 4, 5, 1023, 4095, 4096, 4097, 8192, 100000};
	static const int64_t starts[] = {0, 1, 4095, 123456789};
	(void)state;
	for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
		for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
			weft__deadlines_init(&wheel, starts[s]);
			int64_t at = starts[s] + after[i];
			weft__deadline_add(&wheel, &entry, at);
			for (int64_t now = starts[s]; now < at; now++)
				assert_int_equal(sweep(&wheel, now, NULL), 0);
			assert_int_equal(wheel.count, 1);
			assert_int_equal(sweep(&wheel, at, NULL), 1);
			assert_int_equal(wheel.count, 0);
		}
	}
}

static void leaps_of_the_clock_lose_nothing(void **state)
{
	static struct weft__deadlines wheel;
	static struct weft__deadline entry[500];
	(void)state;
	for (int64_t leap = 1; leap < 20000; leap = leap * 3 + 1) {
		weft__deadlines_init(&wheel, 1000);
		for (int64_t i = 0; i < 500; i++)
			weft__deadline_add(&wheel, &entry[i], 1000 + i * 37);
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
	struct weft__deadline entry[3];
	int64_t last = 0;
	(void)state;
	weft__deadlines_init(&wheel, 0);
	for (int i = 0; i < 3; i++)
		weft__deadline_add(&wheel, &entry[i], 8 + i);
	weft__deadline_remove(&wheel, &entry[1]);
	assert_int_equal(wheel.count, 2);
	assert_int_equal(sweep(&wheel, 9, &last), 1);
	assert_int_equal(last, 8);
	assert_int_equal(sweep(&wheel, 10, &last), 1);
	assert_int_equal(last, 10);
}

static void past_deadlines_pass_at_once(void **state)
{
	static struct weft__deadlines wheel;
	struct weft__deadline entry;
	(void)state;
	weft__deadlines_init(&wheel, 0);
	assert_int_equal(sweep(&wheel, 50000, NULL), 0);
	weft__deadline_add(&wheel, &entry, 100);
	assert_int_equal(sweep(&wheel, 50000, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_at_its_time),
		cmocka_unit_test(leaps_of_the_clock_lose_nothing),
		cmocka_unit_test(removed_ones_do_not_pass),
		cmocka_unit_test(past_deadlines_pass_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
