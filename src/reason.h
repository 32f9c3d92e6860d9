/* SPDX-License-Identifier: MIT */
/* Why sessions end, in words and as codes. Calls nothing. */
#ifndef WEFT_REASON_H
#define WEFT_REASON_H

#include <weft/weft.h>

/* The code of a reason: 0 where a session was closed as was wished. */
int weft__reason_status(enum weft_reason reason);

#endif
