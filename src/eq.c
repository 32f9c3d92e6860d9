/* SPDX-License-Identifier: MIT */
/* Events that belong to no operation. Calls log and libfabric's event queue. */
#include <rdma/fi_eq.h>

#include "eq.h"
#include "netimpl.h"

/* Events read in one turn at most. */
#define TURN 16

int weft__eq_open(struct weft_net *net)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	if (!net->choice.quirks->aborts_untold)
		return 0;
	return fi_eq_open(net->fabric, &attr, &net->eq, NULL);
}

void weft__eq_drain(struct weft_net *net)
{
	for (int seen = 0; seen < TURN; seen++) {
		struct fi_eq_entry event;
		struct fi_eq_err_entry error = {0};
		uint32_t kind;
		ssize_t got = fi_eq_read(net->eq, &kind, &event, sizeof(event), 0);
		if (got == -FI_EAVAIL) {
			if (fi_eq_readerr(net->eq, &error, 0) <= 0)
				return;
			weft__log(&net->log, WEFT_LOG_WARN,
				  "the provider reports an error of its own, code %d: %s",
				  error.prov_errno, weft_strerror(error.err));
		} else if (got <= 0) {
			return;
		}
	}
}
