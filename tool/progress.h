/* SPDX-License-Identifier: MIT */
/*
 * How far a transfer has come, on stderr, where that is a terminal and it takes longer than a second. Calls units,
 * loop.
 */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* total: 0 where it is not known. */
void progress_start(bool wanted, uint64_t total);
/* So many bytes have gone there and come back. To be called often; it looks at the clock itself. */
void progress_show(uint64_t done);
/* When progress_show() has something new to show; INT64_MAX: never. */
int64_t progress_due_ms(void);
/* Takes the bar away, because something else is to be said. */
void progress_hide(void);
/* The end: the bar stays as it was last, and further ones are not shown. */
void progress_end(uint64_t done);

#endif
