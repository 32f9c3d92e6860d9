/* SPDX-License-Identifier: MIT */
/*
 * Faults over a net, see fault.h. Datagrams that are held back are copied; the clock is the one
 * given to turn(), so a test can turn it by hand. The file that takes the link down is looked for
 * once a turn of the clock.
 */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "rng.h"

#define REORDER_NS 2000000u
#define LOOK_NS 1000000u

struct held {
	TAILQ_ENTRY(held) link;
	uint64_t due;
	struct sefa_end to;
	size_t len;
	uint8_t data[];
};

struct fault {
	struct sefa_net net;
	struct sefa_net *inner;
	const struct sefa_faults *faults;
	struct sefa_rng rng;
	uint64_t now, looked, sent;
	bool down;
	TAILQ_HEAD(held_list, held) held; /* by time */
};

bool sefa_faults_any(const struct sefa_faults *f)
{
	return f->loss || f->dup || f->reorder || f->delay_us || f->die_after || f->link_down;
}

bool sefa_faults_link_down(const struct sefa_faults *f)
{
	return f->link_down && access(f->link_down, F_OK) == 0;
}

static int hold(struct fault *fault, struct sefa_end to, const struct iovec *iov, int count,
		uint64_t due)
{
	size_t len = 0;
	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	struct held *held = malloc(sizeof(*held) + len);
	if (!held)
		return -EAGAIN;
	held->due = due;
	held->to = to;
	held->len = 0;
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len > 0)
			memcpy(held->data + held->len, iov[i].iov_base, iov[i].iov_len);
		held->len += iov[i].iov_len;
	}
	struct held *before = TAILQ_LAST(&fault->held, held_list);
	while (before && before->due > due)
		before = TAILQ_PREV(before, held_list, link);
	if (before)
		TAILQ_INSERT_AFTER(&fault->held, before, held, link);
	else
		TAILQ_INSERT_HEAD(&fault->held, held, link);
	return 0;
}

static int fault_send(struct sefa_net *net, struct sefa_end to, const struct iovec *iov, int count)
{
	struct fault *fault = (struct fault *)net;
	const struct sefa_faults *f = fault->faults;
	if (f->die_after && ++fault->sent > f->die_after)
		raise(SIGKILL);
	if (fault->down || sefa_rng_percent(&fault->rng, f->loss))
		return 0;
	int copies = sefa_rng_percent(&fault->rng, f->dup) ? 2 : 1;
	int ret = 0;
	for (int i = 0; i < copies && ret == 0; i++) {
		uint64_t wait = f->delay_us * UINT64_C(1000);
		if (sefa_rng_percent(&fault->rng, f->reorder))
			wait += 1 + sefa_rng_next(&fault->rng) % REORDER_NS;
		if (wait > 0)
			ret = hold(fault, to, iov, count, fault->now + wait);
		else
			ret = fault->inner->send(fault->inner, to, iov, count);
	}
	return ret;
}

static int fault_receive(struct sefa_net *net, struct sefa_end *from, const uint8_t **data)
{
	struct fault *fault = (struct fault *)net;
	int got = fault->inner->receive(fault->inner, from, data);
	while (got >= 0 && fault->down)
		got = fault->inner->receive(fault->inner, from, data);
	return got;
}

static bool fault_refused(struct sefa_net *net, struct sefa_refusal *refusal)
{
	struct fault *fault = (struct fault *)net;
	bool got = fault->inner->refused(fault->inner, refusal);
	while (got && fault->down)
		got = fault->inner->refused(fault->inner, refusal);
	return got;
}

static uint64_t fault_turn(struct sefa_net *net, uint64_t now)
{
	struct fault *fault = (struct fault *)net;
	uint64_t next = fault->inner->turn(fault->inner, now);
	fault->now = now;
	if (fault->faults->link_down && now - fault->looked >= LOOK_NS) {
		fault->looked = now;
		fault->down = sefa_faults_link_down(fault->faults);
	}
	struct held *held;
	while ((held = TAILQ_FIRST(&fault->held)) && held->due <= now) {
		struct iovec iov = {held->data, held->len};
		TAILQ_REMOVE(&fault->held, held, link);
		if (!fault->down)
			(void)fault->inner->send(fault->inner, held->to, &iov, 1);
		free(held);
	}
	if (held && held->due < next)
		next = held->due;
	return next;
}

static void fault_close(struct sefa_net *net)
{
	struct fault *fault = (struct fault *)net;
	struct held *held;
	while ((held = TAILQ_FIRST(&fault->held))) {
		TAILQ_REMOVE(&fault->held, held, link);
		free(held);
	}
	fault->inner->close(fault->inner);
	free(fault);
}

struct sefa_net *sefa_fault_wrap(struct sefa_net *inner, const struct sefa_faults *faults)
{
	struct fault *fault = calloc(1, sizeof(*fault));
	if (!fault)
		return NULL;
	fault->net = (struct sefa_net){fault_send, fault_receive, fault_refused, fault_turn,
				       fault_close};
	fault->inner = inner;
	fault->faults = faults;
	TAILQ_INIT(&fault->held);
	sefa_rng_seed(&fault->rng, faults->seed);
	fault->down = sefa_faults_link_down(faults);
	return &fault->net;
}
