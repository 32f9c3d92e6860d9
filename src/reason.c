/* SPDX-License-Identifier: MIT */
/* Reasons in words and as codes. Calls nothing. */
#include <errno.h>

#include "reason.h"

static const struct {
	const char *text;
	int status;
} reasons[] = {
	[WEFT_REASON_NONE] = {"no reason given", -ECONNRESET},
	[WEFT_REASON_CLOSED] = {"closed", 0},
	[WEFT_REASON_SHUTDOWN] = {"the program is shutting down", 0},
	[WEFT_REASON_REFUSED] = {"the program refuses", -ECONNREFUSED},
	[WEFT_REASON_VERSION] = {"no common version of the protocol", -EPROTONOSUPPORT},
	[WEFT_REASON_FEATURE] = {"a required feature is not there", -EPROTONOSUPPORT},
	[WEFT_REASON_FULL] = {"there are as many peers as are allowed", -ECONNREFUSED},
	[WEFT_REASON_MEMORY] = {"memory is used up", -ENOMEM},
	[WEFT_REASON_UNKNOWN] = {"the session is not known: the process was started again, or gave "
				 "it up",
				 -ECONNRESET},
	[WEFT_REASON_PROTOCOL] = {"the protocol was broken", -EPROTO},
	[WEFT_REASON_GAP] = {"a frame was lost on the way", -ECONNABORTED},
	[WEFT_REASON_TIMEOUT] = {"no answer, never connected", -ETIMEDOUT},
	[WEFT_REASON_LOST] = {"silent for longer than announced", -ETIMEDOUT},
	[WEFT_REASON_RESTARTED] = {"another process has the address now", -ECONNRESET},
	[WEFT_REASON_FABRIC] = {"the fabric reports an error", -EIO},
	[WEFT_REASON_ADDRESS] = {"the address cannot be used", -EADDRNOTAVAIL},
};

#define COUNT (sizeof(reasons) / sizeof(reasons[0]))

const char *weft_reason_text(enum weft_reason reason)
{
	return (unsigned)reason < COUNT ? reasons[reason].text : "a reason that is not known here";
}

int weft__reason_status(enum weft_reason reason)
{
	return (unsigned)reason < COUNT ? reasons[reason].status : -ECONNRESET;
}
