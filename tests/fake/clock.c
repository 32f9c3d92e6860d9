/* SPDX-License-Identifier: MIT */
/*
 * The virtual clock of the fake fabric, and what is to happen on it. Time passes in three ways: a
 * sleep jumps to the next event, a look at the clock costs a microsecond, so that loops that spin
 * until a time come to their end, and a test may ask for it.
 */
#include <poll.h>

#include "internal.h"

/* Not 0, which a caller could take for "never". */
#define EPOCH_NS (INT64_C(1000) * 1000 * FAKE_NS_PER_MS)
#define LOOK_NS 1000
/* A library that loops does not come to an end by itself, and a test that hangs says nothing. */
#define END_NS (EPOCH_NS + INT64_C(3600) * 1000 * FAKE_NS_PER_MS)

struct fake__event {
	int64_t at_ns;
	fake__event_fn *fn;
	void *arg;
	TAILQ_ENTRY(fake__event) link;
};

static TAILQ_HEAD(, fake__event) events = TAILQ_HEAD_INITIALIZER(events);
static int64_t now_ns = EPOCH_NS;

void fake__clock_reset(void)
{
	while (!TAILQ_EMPTY(&events))
		fake__unschedule(TAILQ_FIRST(&events));
	now_ns = EPOCH_NS;
}

int64_t fake_now_ns(void)
{
	return now_ns;
}

struct fake__event *fake__schedule(int64_t at_ns, fake__event_fn *fn, void *arg)
{
	struct fake__event *event = fake__zalloc(sizeof(*event));
	struct fake__event *later;
	event->at_ns = at_ns;
	event->fn = fn;
	event->arg = arg;
	/* Those of the same time happen in the order in which they were scheduled. */
	TAILQ_FOREACH (later, &events, link) {
		if (later->at_ns > at_ns)
			break;
	}
	if (later)
		TAILQ_INSERT_BEFORE(later, event, link);
	else
		TAILQ_INSERT_TAIL(&events, event, link);
	return event;
}

void fake__unschedule(struct fake__event *event)
{
	TAILQ_REMOVE(&events, event, link);
	free(event);
}

bool fake__run_next(int64_t until)
{
	struct fake__event *event = TAILQ_FIRST(&events);
	if (!event || event->at_ns > until)
		return false;
	if (event->at_ns > now_ns)
		now_ns = event->at_ns;
	fake__event_fn *fn = event->fn;
	void *arg = event->arg;
	fake__unschedule(event);
	fn(arg);
	return true;
}

void fake__run_due(void)
{
	while (fake__run_next(now_ns))
		;
}

void fake__spend(int64_t ns)
{
	now_ns += ns;
	if (now_ns > END_NS) {
		now_ns = EPOCH_NS;
		fake__violation("an hour of virtual time has passed: something loops for ever");
	}
}

int64_t fake__read_clock(void)
{
	fake__spend(LOOK_NS);
	return now_ns;
}

void fake_advance_ns(int64_t ns)
{
	int64_t until = now_ns + ns;
	while (fake__run_next(until))
		;
	if (until > now_ns)
		fake__spend(until - now_ns);
}

void fake_at(int64_t ns, void (*fn)(void *arg), void *arg)
{
	fake__schedule(now_ns + ns, fn, arg);
}

int fake_wait_fd(int fd, int timeout_ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	int64_t until = timeout_ms < 0 ? INT64_MAX : now_ns + (int64_t)timeout_ms * FAKE_NS_PER_MS;
	for (;;) {
		if (poll(&readable, 1, 0) > 0)
			return 1;
		if (!fake__run_next(until))
			break;
	}
	if (timeout_ms < 0)
		fake__violation("a sleep without an end, and nothing is going to happen");
	else if (until > now_ns)
		fake__spend(until - now_ns);
	return 0;
}
