/* SPDX-License-Identifier: MIT */
/*
 * Statistics over many times, in memory that does not grow: exact least, most, mean and deviation, and percentiles to
 * within one part in 128. Pure.
 */
#ifndef TOOL_RTT_H
#define TOOL_RTT_H

#include <stdint.h>

#define RTT_STEPS ((uint64_t)128) /* in each power of two */
#define RTT_POWERS 40 /* beyond 2^47 ns nobody waits */

struct rtt {
	uint64_t count;
	int64_t least, most; /* nanoseconds, as all times here */
	double mean, squares; /* by Welford: the sum of the squares of the distances from the mean */
	uint64_t bins[RTT_POWERS * RTT_STEPS];
};

void rtt_add(struct rtt *rtt, int64_t ns);
/* The standard deviation, which ping(8) calls mdev. */
double rtt_deviation(const struct rtt *rtt);
/* The time that so many percent of all do not exceed; 0 if there are none. */
int64_t rtt_percentile(const struct rtt *rtt, double percent);

#endif
