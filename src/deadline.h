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
	int64_t swept; /* the slot number, not wrapped, up to which all has been looked at */
	size_t count;
};

void weft__deadlines_init(struct weft__deadlines *wheel, int64_t now_ms);

/* Adds an entry that passes when the time reaches at_ms. Never sooner, and seen at most one slot later. */
void weft__deadline_add(struct weft__deadlines *wheel, struct weft__deadline *entry, int64_t at_ms);

void weft__deadline_remove(struct weft__deadlines *wheel, struct weft__deadline *entry);

/* Moves every entry that has passed to the list `passed`, in no order. */
void weft__deadlines_sweep(struct weft__deadlines *wheel, int64_t now_ms, struct weft__deadline_list *passed);

#endif
