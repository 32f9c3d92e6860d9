/* SPDX-License-Identifier: MIT */
/*
 * Credit: how many frames each peer may send, out of one budget that all sessions of a node share. Pure. Calls nothing.
 *
 * A frame counts against its session from the moment it is allowed until its memory is free again: on its way, waiting
 * for its turn, or held by the caller. Every session has one frame of its own; more are borrowed from what is left, by
 * sessions that use them, up to an equal share where they are scarce. So the sum never exceeds the budget, and none is
 * starved by another.
 */
#ifndef WEFT_CREDIT_H
#define WEFT_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/* What all sessions of a node share. */
struct weft__pool {
	uint32_t budget;     /* frames in all */
	uint32_t borrowable; /* of these, without the one that each session may have */
	uint32_t borrowed;   /* of these; frames still held for sessions that are gone included */
	uint32_t borrowers;  /* sessions whose window is more than one */
	uint32_t sessions;   /* all that there are */
	uint32_t out;        /* frames that peers may send at this moment */
};

/* The receiving side of one session. */
struct weft__credit {
	uint32_t granted;  /* frames allowed in all, as the header tells them */
	uint32_t received; /* of these, arrived */
	uint32_t returned; /* of these, given back by the peer */
	uint32_t held;     /* of those that arrived, whose memory is still in use */
	uint32_t window;   /* how many may count at once */
};

/* The sending side of one session. */
struct weft__allowance {
	uint32_t granted;  /* by the peer, in all */
	uint32_t spent;    /* frames sent */
	uint32_t returned; /* given back */
};

/* sessions: how many there may be at most. */
void weft__pool_init(struct weft__pool *pool, uint32_t budget, uint32_t sessions);

/*
 * Whether there is a frame for one more session. Each of those that may be there at most has one, unless frames that
 * are held for sessions that are gone take its place.
 */
static inline bool weft__pool_has_room(const struct weft__pool *pool)
{
	return pool->borrowed + pool->sessions < pool->budget;
}

/* Begins with one frame allowed. */
void weft__credit_open(struct weft__pool *pool, struct weft__credit *credit);

/* Gives everything back; frames that are held stay counted until weft__pool_freed(). Returns how many those are. */
uint32_t weft__credit_close(struct weft__pool *pool, struct weft__credit *credit);

/* A frame has arrived. Returns false if it was not allowed. */
bool weft__credit_received(struct weft__pool *pool, struct weft__credit *credit);

/* The memory of a frame that had arrived is free. */
void weft__credit_freed(struct weft__pool *pool, struct weft__credit *credit);

/* The same for a frame whose session is gone. */
void weft__pool_freed(struct weft__pool *pool);

/* The peer has given back so many in all. Returns false if it never had so many. */
bool weft__credit_returned(struct weft__pool *pool, struct weft__credit *credit, uint32_t returned);

/* Allows more frames, if the session uses what it has and the budget has room. Returns how many more. */
uint32_t weft__credit_grant(struct weft__pool *pool, struct weft__credit *credit);

/* How many frames the peer may send at this moment. */
static inline uint32_t weft__credit_open_frames(const struct weft__credit *credit)
{
	return credit->granted - credit->received - credit->returned;
}

/* How many frames this side may send. */
static inline uint32_t weft__allowance_left(const struct weft__allowance *allowance)
{
	uint32_t used = allowance->spent + allowance->returned;
	return (int32_t)(allowance->granted - used) > 0 ? allowance->granted - used : 0;
}

#endif
