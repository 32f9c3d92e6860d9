/* SPDX-License-Identifier: MIT */
/* Deadlines: the hashed timing wheel that deadline.h describes. Pure; calls nothing. */
#include "deadline.h"

static struct weft__deadline_list *slot_of(struct weft__deadlines *wheel, int64_t number)
{
	return &wheel->slot[(uint64_t)number % WEFT__WHEEL_SLOTS];
}

void weft__deadlines_init(struct weft__deadlines *wheel, int64_t now_ms, int64_t slack_ms)
{
	for (size_t i = 0; i < WEFT__WHEEL_SLOTS; i++)
		LIST_INIT(&wheel->slot[i]);
	LIST_INIT(&wheel->fresh);
	wheel->swept = now_ms >> WEFT__WHEEL_SHIFT;
	wheel->slack_ms = slack_ms;
	wheel->looked_ms = now_ms - 1;
	wheel->count = 0;
}

/* Puts the entries that were added since the last sweep into their slots. */
static void place_fresh(struct weft__deadlines *wheel, int64_t now_ms)
{
	struct weft__deadline *entry;
	while ((entry = LIST_FIRST(&wheel->fresh))) {
		LIST_REMOVE(entry, link);
		entry->at_ms = entry->at_ms == 0 ? now_ms : now_ms + entry->at_ms + wheel->slack_ms;
		int64_t number = entry->at_ms >> WEFT__WHEEL_SHIFT;
		/* A slot that sweeps have left behind would be looked at a whole turn too late. */
		if (number < wheel->swept)
			number = wheel->swept;
		LIST_INSERT_HEAD(slot_of(wheel, number), entry, link);
	}
}

void weft__deadlines_sweep(struct weft__deadlines *wheel, int64_t now_ms,
			   struct weft__deadline_list *passed)
{
	LIST_INIT(passed);
	/* Within one moment nothing more can have passed. */
	if (now_ms == wheel->looked_ms && LIST_EMPTY(&wheel->fresh))
		return;
	wheel->looked_ms = now_ms;
	place_fresh(wheel, now_ms);
	int64_t last = now_ms >> WEFT__WHEEL_SHIFT;
	int64_t first = wheel->swept;
	if (last - first >= WEFT__WHEEL_SLOTS)
		first = last - WEFT__WHEEL_SLOTS + 1;
	for (int64_t number = first; number <= last; number++) {
		struct weft__deadline *entry = LIST_FIRST(slot_of(wheel, number));
		while (entry) {
			struct weft__deadline *next = LIST_NEXT(entry, link);
			if (entry->at_ms <= now_ms) {
				weft__deadline_remove(wheel, entry);
				LIST_INSERT_HEAD(passed, entry, link);
			}
			entry = next;
		}
	}
	/*
	 * The slot of the present is looked at again: the rest of its entries may pass within it.
	 */
	if (last > wheel->swept)
		wheel->swept = last;
}

int weft__deadlines_next(const struct weft__deadlines *wheel, int64_t now_ms, int limit_ms)
{
	const struct weft__deadline *entry;
	if (wheel->count == 0)
		return limit_ms;
	LIST_FOREACH (entry, &wheel->fresh, link) {
		if (entry->at_ms < limit_ms)
			limit_ms = (int)entry->at_ms;
	}
	int64_t end = (now_ms + limit_ms) >> WEFT__WHEEL_SHIFT;
	if (end - wheel->swept >= WEFT__WHEEL_SLOTS)
		end = wheel->swept + WEFT__WHEEL_SLOTS - 1;
	for (int64_t number = wheel->swept; number <= end; number++) {
		int64_t soonest = INT64_MAX;
		LIST_FOREACH (entry, &wheel->slot[(uint64_t)number % WEFT__WHEEL_SLOTS], link) {
			if (entry->at_ms < soonest)
				soonest = entry->at_ms;
		}
		/* Those of a later turn of the wheel do not count in this one. */
		if (soonest >> WEFT__WHEEL_SHIFT > number)
			continue;
		if (soonest <= now_ms)
			return 0;
		return soonest - now_ms < limit_ms ? (int)(soonest - now_ms) : limit_ms;
	}
	int64_t seen = ((end + 1) << WEFT__WHEEL_SHIFT) - now_ms;
	/* After more than a turn of the wheel without a sweep, only a sweep can tell. */
	if (seen < 0)
		return 0;
	return seen < limit_ms ? (int)seen : limit_ms;
}
