/* SPDX-License-Identifier: MIT */
/* Credit: a budget of frames, one for each session and the rest lent. Calls nothing. */
#include "credit.h"

/* More in flight at once gains nothing on any provider, and would let one session take it all. */
#define WINDOW_MAX 64

void weft__pool_init(struct weft__pool *pool, uint32_t budget, uint32_t sessions)
{
	*pool = (struct weft__pool){
		.budget = budget,
		.borrowable = budget > sessions ? budget - sessions : 0,
	};
}

/* What counts against a session: allowed and not arrived, or arrived and still in memory. */
static uint32_t claim(const struct weft__credit *credit)
{
	return weft__credit_open_frames(credit) + credit->held;
}

static uint32_t borrowed(uint32_t claimed)
{
	return claimed > 1 ? claimed - 1 : 0;
}

/* Corrects the sums after the claim of a session was `before`. */
static void settle(struct weft__pool *pool, const struct weft__credit *credit, uint32_t before)
{
	pool->borrowed += borrowed(claim(credit)) - borrowed(before);
}

static void set_window(struct weft__pool *pool, struct weft__credit *credit, uint32_t window)
{
	if (credit->window > 1)
		pool->borrowers--;
	if (window > 1)
		pool->borrowers++;
	credit->window = window;
}

void weft__credit_open(struct weft__pool *pool, struct weft__credit *credit)
{
	*credit = (struct weft__credit){.granted = 1, .window = 1};
	pool->out++;
	pool->sessions++;
}

uint32_t weft__credit_close(struct weft__pool *pool, struct weft__credit *credit)
{
	uint32_t before = claim(credit);
	uint32_t held = credit->held;
	pool->out -= weft__credit_open_frames(credit);
	set_window(pool, credit, 1);
	pool->sessions--;
	pool->borrowed += held - borrowed(before);
	*credit = (struct weft__credit){.window = 1};
	return held;
}

bool weft__credit_received(struct weft__pool *pool, struct weft__credit *credit)
{
	if (weft__credit_open_frames(credit) == 0)
		return false;
	credit->received++;
	credit->held++;
	pool->out--;
	return true;
}

void weft__credit_freed(struct weft__pool *pool, struct weft__credit *credit)
{
	uint32_t before = claim(credit);
	credit->held--;
	settle(pool, credit, before);
}

void weft__pool_freed(struct weft__pool *pool)
{
	pool->borrowed--;
}

bool weft__credit_returned(struct weft__pool *pool, struct weft__credit *credit, uint32_t returned)
{
	uint32_t more = returned - credit->returned;
	/* An older frame that was overtaken says less than is known. */
	if ((int32_t)more <= 0)
		return true;
	if (more > weft__credit_open_frames(credit))
		return false;
	uint32_t before = claim(credit);
	credit->returned += more;
	pool->out -= more;
	settle(pool, credit, before);
	set_window(pool, credit, 1);
	return true;
}

/* How many frames a session may claim, as scarce as they are. */
static uint32_t share(const struct weft__pool *pool)
{
	uint32_t fair = pool->borrowable / (pool->borrowers + 1);
	/* While there is plenty, twice an equal share makes use of what others leave. */
	if (pool->borrowed < pool->borrowable / 2)
		fair *= 2;
	if (fair > WINDOW_MAX - 1)
		fair = WINDOW_MAX - 1;
	return 1 + fair;
}

uint32_t weft__credit_grant(struct weft__pool *pool, struct weft__credit *credit)
{
	uint32_t window = credit->window;
	/* While the peer has half of what it had, it has no need of more. */
	if (weft__credit_open_frames(credit) > window / 2)
		return 0;
	uint32_t limit = share(pool);
	window *= 2;
	set_window(pool, credit, window < limit ? window : limit);

	uint32_t before = claim(credit);
	if (before >= credit->window)
		return 0;
	uint32_t more = credit->window - before;
	/* The first one is the session's own. */
	uint32_t free = pool->borrowable > pool->borrowed ? pool->borrowable - pool->borrowed : 0;
	if (before == 0)
		free++;
	if (more > free)
		more = free;
	credit->granted += more;
	pool->out += more;
	settle(pool, credit, before);
	return more;
}
