/* SPDX-License-Identifier: MIT */
/*
 * Which packets of which requester have been taken, so that each is taken once however often it arrives. Knows numbers
 * only.
 */
#ifndef SEFA_SEEN_H
#define SEFA_SEEN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net.h"

#define SEFA_SEEN_BUCKETS 256u
#define SEFA_SEEN_MAX 16384u

struct sefa_seen_peer;
TAILQ_HEAD(sefa_seen_list, sefa_seen_peer);

struct sefa_seen {
	struct sefa_seen_list buckets[SEFA_SEEN_BUCKETS];
	struct sefa_seen_list by_age; /* the one heard of last is at the end */
	size_t count;
};

void sefa_seen_init(struct sefa_seen *seen);
void sefa_seen_clear(struct sefa_seen *seen);

/*
 * The record of a requester's flow, for a packet that says it has finished with all numbers below una. Made if it is
 * not there, for which the one that has been silent longest may have to go. Returns NULL without memory.
 */
struct sefa_seen_peer *sefa_seen_find(struct sefa_seen *seen, struct sefa_end end, uint64_t flow, uint32_t una,
				      uint64_t now);

/* Whether a number has been taken, or finished with by its requester. */
bool sefa_seen_has(const struct sefa_seen_peer *peer, uint32_t psn);
/* It has been finished with: taken, or refused for good with this status, which its copies are answered with too. */
void sefa_seen_take(struct sefa_seen_peer *peer, uint32_t psn, uint8_t status);
uint8_t sefa_seen_status(const struct sefa_seen_peer *peer, uint32_t psn);

/*
 * A number has been refused for want of a buffer. Copies of the same attempt, and of earlier ones, stay refused: the
 * requester may give up after the answer, and send the same as another request.
 */
void sefa_seen_refuse(struct sefa_seen_peer *peer, uint32_t psn, uint8_t attempt);
bool sefa_seen_is_refused(const struct sefa_seen_peer *peer, uint32_t psn, uint8_t attempt);

/* Forgets those who have been silent for so long that none of their packets can still be under way. */
void sefa_seen_age(struct sefa_seen *seen, uint64_t now);

#endif
