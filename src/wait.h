/* SPDX-License-Identifier: MIT */
/*
 * Waiting: when and how to sleep until there is something to do. Calls cq and op to make progress, and the kernel.
 *
 * The ladder: look again for spin_us; then sleep on the completion queue's descriptor, or, where the provider has none,
 * for a time that grows with the time since something last happened. While a send is under way no sleep is longer than
 * 1 ms, because providers retransmit and retry only when polled.
 */
#ifndef WEFT_WAIT_H
#define WEFT_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/net.h>

struct weft__wait {
	int cq_fd;    /* -1: the provider has none. It is the completion queue's own */
	int wake_fd;  /* eventfd, for weft_net_wake() */
	int timer_fd; /* what makes epoll_fd readable when a timed sleep is over */
	int epoll_fd; /* what weft_net_fd() gives out */
	atomic_bool woken;
	bool timer_armed;
	int64_t active_ns; /* when something last happened */
};

/* Makes the descriptors. Returns 0 or a negative errno, when nothing is left open. */
int weft__wait_open(struct weft__wait *wait, int cq_fd);
void weft__wait_close(struct weft__wait *wait);

/* As weft_net_arm(); the descriptor becomes readable after limit_ms at the latest, which is more than 0. */
int weft__wait_arm(struct weft_net *net, int limit_ms);

#endif
