/* SPDX-License-Identifier: MIT */
/*
 * The two clocks of the library. Everything that asks for the time asks here, through clock_gettime(2), which a test
 * can replace by a virtual one.
 */
#ifndef WEFT_CLOCK_H
#define WEFT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEFT__NS_PER_MS 1000000L
#define WEFT__NS_PER_S 1000000000L

static inline int64_t weft__clock_read(clockid_t clock)
{
	struct timespec t = { 0 };
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * WEFT__NS_PER_S + t.tv_nsec;
}

/* Nanoseconds, exact. For sleeping and spinning. */
static inline int64_t weft__clock_ns(void)
{
	return weft__clock_read(CLOCK_MONOTONIC);
}

/* Milliseconds, up to one tick of the kernel (1 to 10 ms) behind, and several times cheaper. For the data path. */
static inline int64_t weft__clock_coarse_ms(void)
{
	return weft__clock_read(CLOCK_MONOTONIC_COARSE) / WEFT__NS_PER_MS;
}

/* How far weft__clock_coarse_ms() may be behind, with what the conversion to whole milliseconds cuts off. */
static inline int64_t weft__clock_slack_ms(void)
{
	struct timespec tick = { .tv_nsec = 10 * WEFT__NS_PER_MS };
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return (tick.tv_nsec + WEFT__NS_PER_MS - 1) / WEFT__NS_PER_MS + 1;
}

#endif
