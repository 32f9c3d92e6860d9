/* SPDX-License-Identifier: MIT */
/*
 * Time, and turns of the event loop. Calls weft only.
 */
#ifndef TOOL_LOOP_H
#define TOOL_LOOP_H

#include <poll.h>
#include <stdint.h>

#include <weft/weft.h>

/* A clock that only goes forward. */
int64_t now_ms(void);
int64_t now_ns(void);

/* Milliseconds from now to a moment, as a timeout: 0 if it is over, -1 for INT64_MAX, which never comes. */
int ms_until(int64_t moment);

/*
 * Sleeps until the node has something to do, one of the descriptors is ready, a signal comes or timeout_ms is over, and
 * lets the node do it. The revents of the descriptors are filled in.
 *
 * Returns as weft_node_poll().
 */
int loop_turn(struct weft_node *node, struct pollfd *fds, nfds_t count, int timeout_ms);

#endif
