/* SPDX-License-Identifier: MIT */
/* Numbers that look random and follow from a seed, for the faults: the same seed gives the same faults. */
#ifndef SEFA_RNG_H
#define SEFA_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct sefa_rng {
	uint64_t state;
};

static inline void sefa_rng_seed(struct sefa_rng *rng, uint64_t seed)
{
	/* 0 would stay 0 for ever. */
	rng->state = seed * 0x9e3779b97f4a7c15u + 0x5efa;
	if (rng->state == 0)
		rng->state = 1;
}

static inline uint32_t sefa_rng_next(struct sefa_rng *rng)
{
	rng->state ^= rng->state << 13;
	rng->state ^= rng->state >> 7;
	rng->state ^= rng->state << 17;
	return (uint32_t)(rng->state >> 32);
}

/* True so many times out of a hundred. */
static inline bool sefa_rng_percent(struct sefa_rng *rng, unsigned percent)
{
	return percent > 0 && sefa_rng_next(rng) % 100 < percent;
}

#endif
