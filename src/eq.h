/* SPDX-License-Identifier: MIT */
/*
 * Events: what a provider tells of its own troubles, which belong to no operation of the caller's. Where it has nobody
 * to tell, it ends the process. Calls log, error and libfabric's event queue.
 */
#ifndef WEFT_EQ_H
#define WEFT_EQ_H

#include <weft/net.h>

/* Opens the net's event queue, if its provider is one that needs it. Returns 0 or libfabric's code. */
int weft__eq_open(struct weft_net *net);

/* Reads what is there, which is logged and has no other consequence. */
void weft__eq_drain(struct weft_net *net);

#endif
