/* SPDX-License-Identifier: MIT */
/*
 * The traffic that both loops make, as a state machine: completions in, sends out.
 *
 * The sender may have `window` messages under way that the other side has not confirmed; the
 * receiver confirms every half window with one short message. A window of 1 is a ping-pong, whose
 * answers are of the same length. A message has a slot, which is free again when the message's own
 * send completion has been read.
 *
 * It is in a header so that both loops compile it into themselves. It calls nothing of libfabric
 * and nothing of weft.
 */
#ifndef WEFT_BENCH_GAME_H
#define WEFT_BENCH_GAME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define GAME_WINDOW_MAX 16384
#define GAME_CONFIRMATION 64

enum game_role {
	GAME_SENDER,
	GAME_RECEIVER,
};

struct game {
	size_t out_len, in_len; /* of every message that is sent, or received */
	uint64_t left;		/* events still to come: receives and send completions; 0: done */
	/* Messages that may be started now, and in all. */
	uint64_t allowed;
	uint64_t started;
	uint64_t out_total;
	/* After every `every` receives `gain` more messages may be started. */
	unsigned every, until_gain, gain;
	unsigned n_free;
	uint16_t free_slot[GAME_WINDOW_MAX];
	/* What arrived, to prove at the end that all did, each once. */
	uint64_t in_total;
	uint64_t in_sum;
	/* The sender takes the time at every `per_stamp` receives. */
	unsigned per_stamp, until_stamp;
	size_t n_stamps;
	uint64_t *stamp;
};

/* How many messages are confirmed by one message of the receiver. */
static inline unsigned game_chunk(unsigned window)
{
	return window > 1 ? window / 2 : 1;
}

/* How long the messages are that this side sends. */
static inline size_t game_len(enum game_role role, unsigned window, size_t size)
{
	if (role == GAME_SENDER || window == 1 || size < GAME_CONFIRMATION)
		return size;
	return GAME_CONFIRMATION;
}

/* How many receives each side keeps posted: as many as can be on their way to it. */
static inline unsigned game_receives(unsigned window, enum game_role role)
{
	return role == GAME_RECEIVER ? window : window / game_chunk(window);
}

/* size is that of the sender's messages; confirmations is how many the receiver sends in all; stamp
 * has room for confirmations / per_stamp, or is NULL. */
static inline void game_init(struct game *g, enum game_role role, unsigned window, size_t size,
			     uint64_t confirmations, unsigned per_stamp, uint64_t *stamp)
{
	unsigned chunk = game_chunk(window);

	memset(g, 0, sizeof(*g));
	g->out_len = game_len(role, window, size);
	g->in_len = game_len(role == GAME_SENDER ? GAME_RECEIVER : GAME_SENDER, window, size);
	if (role == GAME_SENDER) {
		g->allowed = window;
		g->every = 1;
		g->gain = chunk;
		g->n_free = window;
		g->out_total = confirmations * chunk;
		g->in_total = confirmations;
		g->per_stamp = per_stamp;
		g->stamp = stamp;
	} else {
		g->every = chunk;
		g->gain = 1;
		g->n_free = window / chunk;
		g->out_total = confirmations;
		g->in_total = confirmations * chunk;
	}
	g->until_gain = g->every;
	g->until_stamp = g->per_stamp;
	g->left = g->in_total + g->out_total;
	for (unsigned i = 0; i < g->n_free; i++)
		g->free_slot[i] = (uint16_t)i;
}

static inline uint64_t game_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* True if a message is to be sent now, from slot game_slot(). game_started() when that has
 * succeeded. */
static inline bool game_may_send(const struct game *g)
{
	return g->allowed && g->n_free && g->started < g->out_total;
}

static inline unsigned game_slot(const struct game *g)
{
	return g->free_slot[g->n_free - 1];
}

static inline void game_fill(const struct game *g, void *data)
{
	memcpy(data, &g->started, sizeof(g->started));
}

static inline void game_started(struct game *g)
{
	g->allowed--;
	g->n_free--;
	g->started++;
}

static inline void game_sent(struct game *g, unsigned slot)
{
	g->free_slot[g->n_free++] = (uint16_t)slot;
	g->left--;
}

static inline void game_received(struct game *g, const void *data)
{
	uint64_t number;

	memcpy(&number, data, sizeof(number));
	g->in_sum += number;
	g->left--;
	if (--g->until_gain == 0) {
		g->until_gain = g->every;
		g->allowed += g->gain;
	}
	if (g->stamp && --g->until_stamp == 0) {
		g->until_stamp = g->per_stamp;
		g->stamp[g->n_stamps++] = game_clock_ns();
	}
}

/* True if every message has arrived once. Completions may come out of order, so a sum is all that
 * can be asked. */
static inline bool game_complete(const struct game *g)
{
	return g->left == 0 && g->in_sum == g->in_total * (g->in_total - 1) / 2;
}

#endif
