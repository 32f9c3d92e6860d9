/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stddef.h>

#include "rtt.h"

/* Below the number of steps each time has a bin of its own; above, each power of two has that many.
 */
static size_t bin_of(int64_t ns)
{
	uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
	size_t power = 0;
	for (; value >= 2 * RTT_STEPS; power++)
		value >>= 1;
	size_t bin = value < RTT_STEPS ? (size_t)value : power * RTT_STEPS + (size_t)value;
	size_t most = (size_t)RTT_POWERS * RTT_STEPS - 1;
	return bin < most ? bin : most;
}

/* The largest time that falls into a bin. */
static int64_t top_of(size_t bin)
{
	if (bin < 2 * RTT_STEPS)
		return (int64_t)bin;
	size_t power = bin / RTT_STEPS - 1;
	size_t value = bin - power * RTT_STEPS;
	return (int64_t)((((uint64_t)value + 1) << power) - 1);
}

void rtt_add(struct rtt *rtt, int64_t ns)
{
	rtt->count++;
	if (rtt->count == 1 || ns < rtt->least)
		rtt->least = ns;
	if (rtt->count == 1 || ns > rtt->most)
		rtt->most = ns;
	double distance = (double)ns - rtt->mean;
	rtt->mean += distance / (double)rtt->count;
	rtt->squares += distance * ((double)ns - rtt->mean);
	rtt->bins[bin_of(ns)]++;
}

double rtt_deviation(const struct rtt *rtt)
{
	return rtt->count ? sqrt(rtt->squares / (double)rtt->count) : 0;
}

int64_t rtt_percentile(const struct rtt *rtt, double percent)
{
	double wanted = ceil((double)rtt->count * percent / 100);
	uint64_t seen = 0;
	for (size_t bin = 0; rtt->count && bin < (size_t)RTT_POWERS * RTT_STEPS; bin++) {
		seen += rtt->bins[bin];
		if (rtt->bins[bin] && (double)seen >= wanted) {
			int64_t top = top_of(bin);
			return top < rtt->most ? top : rtt->most;
		}
	}
	return rtt->most;
}
