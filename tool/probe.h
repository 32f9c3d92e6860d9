/* SPDX-License-Identifier: MIT */
/*
 * Why a tcp peer never answered. libfabric keeps trying and does not say what the network says, so one connection is
 * tried by hand. Calls connection, host, loop.
 */
#ifndef TOOL_PROBE_H
#define TOOL_PROBE_H

#include <weft/net.h>

/* What is there, and what to do about it, within half a second; NULL where nothing better is known than before. */
const char *probe_tcp(const struct weft_addr *peer);

#endif
