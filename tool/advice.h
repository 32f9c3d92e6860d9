/* SPDX-License-Identifier: MIT */
/*
 * Why a peer does not answer or is no more, and what to do about it. Calls fabric, host, probe, software.
 */
#ifndef TOOL_ADVICE_H
#define TOOL_ADVICE_H

#include <weft/weft.h>

#include "fabric.h"

/* What a peer is told that weft serve --once refuses. */
#define REFUSED_ONCE 1

/*
 * What to look after where a peer never answered. It may take half a second to find out. closed is how that ended, or
 * NULL. In storage that the next call uses again, as the next one is.
 */
const char *advice_unanswered(const struct fabric *fabric, const struct weft_addr *peer,
			      const struct weft_closed *closed);

/* Why a session has ended, and what to do about it. */
const char *advice_closed(const struct fabric *fabric, const struct weft_addr *peer, const struct weft_closed *closed);

#endif
