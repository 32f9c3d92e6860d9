/* SPDX-License-Identifier: MIT */
/*
 * Completions: reads the completion queue and ends the operations that it tells of. Calls op, dest, error and
 * libfabric's completion queue.
 */
#ifndef WEFT_CQ_H
#define WEFT_CQ_H

#include <weft/net.h>

/*
 * Opens the net's completion queue, with a wait descriptor where the provider has one; *wait_fd is it, or -1.
 * Returns 0 or libfabric's code.
 */
int weft__cq_open(struct weft_net *net, int *wait_fd);

/*
 * Reads a bounded number of completions and runs their callbacks. Returns how many ran; or -EIO, once the queue is
 * broken.
 */
int weft__cq_poll(struct weft_net *net);

#endif
