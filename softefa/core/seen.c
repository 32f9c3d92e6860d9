/* SPDX-License-Identifier: MIT */
/* Which packets have been taken, see seen.h. */
#include "seen.h"

#include <stdlib.h>
#include <string.h>

#include "packet.h"

#define WORDS (SEFA_WINDOW / 64)
#define SILENCE_NS UINT64_C(60000000000)

struct sefa_seen_peer {
	TAILQ_ENTRY(sefa_seen_peer) link;
	TAILQ_ENTRY(sefa_seen_peer) age;
	struct sefa_end end;
	uint64_t flow;
	uint64_t heard;
	uint32_t base; /* all below have been finished with */
	/* By number modulo SEFA_WINDOW, from base on. */
	uint64_t taken[WORDS];
	uint64_t refused[WORDS];
	uint8_t attempt[SEFA_WINDOW]; /* the last one refused */
	uint8_t status[SEFA_WINDOW];  /* of those taken */
};

static unsigned bucket_of(struct sefa_end end, uint64_t flow)
{
	uint64_t x = (flow ^ end.ip ^ (uint64_t)end.qpn << 32) * 0x9e3779b97f4a7c15u;
	return (unsigned)(x >> 56) % SEFA_SEEN_BUCKETS;
}

void sefa_seen_init(struct sefa_seen *seen)
{
	for (unsigned i = 0; i < SEFA_SEEN_BUCKETS; i++)
		TAILQ_INIT(&seen->buckets[i]);
	TAILQ_INIT(&seen->by_age);
	seen->count = 0;
}

static void drop(struct sefa_seen *seen, struct sefa_seen_peer *peer)
{
	TAILQ_REMOVE(&seen->buckets[bucket_of(peer->end, peer->flow)], peer, link);
	TAILQ_REMOVE(&seen->by_age, peer, age);
	seen->count--;
	free(peer);
}

void sefa_seen_clear(struct sefa_seen *seen)
{
	struct sefa_seen_peer *peer;
	while ((peer = TAILQ_FIRST(&seen->by_age)))
		drop(seen, peer);
}

static bool has(const uint64_t *bits, uint32_t psn)
{
	return bits[psn % SEFA_WINDOW / 64] >> psn % 64 & 1;
}

static void set(uint64_t *bits, uint32_t psn)
{
	bits[psn % SEFA_WINDOW / 64] |= UINT64_C(1) << psn % 64;
}

static void clear(uint64_t *bits, uint32_t psn)
{
	bits[psn % SEFA_WINDOW / 64] &= ~(UINT64_C(1) << psn % 64);
}

/* Numbers below una need no bit any more. */
static void advance(struct sefa_seen_peer *peer, uint32_t una)
{
	uint32_t by = una - peer->base;
	if (by == 0 || by > UINT32_MAX / 2)
		return;
	if (by >= SEFA_WINDOW) {
		memset(peer->taken, 0, sizeof(peer->taken));
		memset(peer->refused, 0, sizeof(peer->refused));
	} else {
		for (uint32_t psn = peer->base; psn != una; psn++) {
			clear(peer->taken, psn);
			clear(peer->refused, psn);
		}
	}
	peer->base = una;
}

struct sefa_seen_peer *sefa_seen_find(struct sefa_seen *seen, struct sefa_end end, uint64_t flow,
				      uint32_t una, uint64_t now)
{
	struct sefa_seen_list *bucket = &seen->buckets[bucket_of(end, flow)];
	struct sefa_seen_peer *peer;
	TAILQ_FOREACH (peer, bucket, link) {
		if (peer->flow == flow && sefa_end_equal(peer->end, end))
			break;
	}
	if (peer) {
		advance(peer, una);
		TAILQ_REMOVE(&seen->by_age, peer, age);
	} else {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return NULL;
		if (seen->count == SEFA_SEEN_MAX)
			drop(seen, TAILQ_FIRST(&seen->by_age));
		peer->end = end;
		peer->flow = flow;
		peer->base = una;
		TAILQ_INSERT_HEAD(bucket, peer, link);
		seen->count++;
	}
	peer->heard = now;
	TAILQ_INSERT_TAIL(&seen->by_age, peer, age);
	return peer;
}

bool sefa_seen_has(const struct sefa_seen_peer *peer, uint32_t psn)
{
	if (psn - peer->base > UINT32_MAX / 2)
		return true;
	return has(peer->taken, psn);
}

void sefa_seen_take(struct sefa_seen_peer *peer, uint32_t psn, uint8_t status)
{
	set(peer->taken, psn);
	peer->status[psn % SEFA_WINDOW] = status;
}

uint8_t sefa_seen_status(const struct sefa_seen_peer *peer, uint32_t psn)
{
	if (psn - peer->base > UINT32_MAX / 2)
		return 0;
	return peer->status[psn % SEFA_WINDOW];
}

/* Attempts are counted modulo 256; copies that are under way together lie close to each other. */
static bool is_later(uint8_t attempt, uint8_t than)
{
	return (uint8_t)(attempt - than - 1) < 128;
}

void sefa_seen_refuse(struct sefa_seen_peer *peer, uint32_t psn, uint8_t attempt)
{
	set(peer->refused, psn);
	peer->attempt[psn % SEFA_WINDOW] = attempt;
}

bool sefa_seen_is_refused(const struct sefa_seen_peer *peer, uint32_t psn, uint8_t attempt)
{
	return has(peer->refused, psn) && !is_later(attempt, peer->attempt[psn % SEFA_WINDOW]);
}

void sefa_seen_age(struct sefa_seen *seen, uint64_t now)
{
	struct sefa_seen_peer *peer;
	while ((peer = TAILQ_FIRST(&seen->by_age)) && now - peer->heard >= SILENCE_NS)
		drop(seen, peer);
}
