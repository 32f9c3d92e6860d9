/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: a hashed timing wheel (Varghese and Lauck, 1987, scheme 6). Adding and removing cost a few instructions
 * whatever the number of entries, which matters because nearly every operation removes its deadline long before it
 * passes. Pure: it is told the time. Calls nothing.
 */
#ifndef WEFT_DEADLINE_H
#define WEFT_DEADLINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define WEFT__WHEEL_SLOTS 1024
#define WEFT__WHEEL_SHIFT 2 /* a slot is 4 ms, so that a turn of the wheel takes about the default timeout */

struct weft__deadline {
	LIST_ENTRY(weft__deadline) link;
	int64_t at_ms;
};

LIST_HEAD(weft__deadline_list, weft__deadline);

struct weft__deadlines {
	struct weft__deadline_list slot[WEFT__WHEEL_SLOTS];
	struct weft__deadline_list fresh; /* added since the last sweep; at_ms is still the time-out */
	int64_t swept;			  /* the slot number, not wrapped, up to which all has been looked at */
	int64_t looked_ms;		  /* when the last sweep was */
	int64_t slack_ms;		  /* how much the clock of the sweeps may be behind */
	size_t count;
};

void weft__deadlines_init(struct weft__deadlines *wheel, int64_t now_ms, int64_t slack_ms);

/*
 * Adds an entry that passes timeout_ms after the next sweep, which is the first that tells the time: so starting costs
 * no look at the clock. It never passes sooner, and is seen at most slack_ms and one slot later. With 0 it passes in
 * that sweep.
 */
static inline void weft__deadline_add(struct weft__deadlines *wheel, struct weft__deadline *entry, int timeout_ms)
{
	entry->at_ms = timeout_ms;
	LIST_INSERT_HEAD(&wheel->fresh, entry, link);
	wheel->count++;
}

static inline void weft__deadline_remove(struct weft__deadlines *wheel, struct weft__deadline *entry)
{
	LIST_REMOVE(entry, link);
	wheel->count--;
}

/* Moves every entry that has passed to the list `passed`, in no order. */
void weft__deadlines_sweep(struct weft__deadlines *wheel, int64_t now_ms, struct weft__deadline_list *passed);

/*
 * How many milliseconds the next sweep may wait, at most limit_ms. It may say less than is so, never more. It looks at
 * the slots in turn, so it is for the moment before a sleep.
 */
int weft__deadlines_next(const struct weft__deadlines *wheel, int64_t now_ms, int limit_ms);

#endif
