/* SPDX-License-Identifier: MIT */
/*
 * What could be opened here, what would be, and why: fi_getinfo's answer, judged by the quirk table and the caller's
 * options. Calls provider, addr, log and libfabric's fi_getinfo.
 */
#ifndef WEFT_CANDIDATE_H
#define WEFT_CANDIDATE_H

#include <rdma/fabric.h>

#include <weft/net.h>

#include "log.h"
#include "provider.h"

/* The candidate that is to be opened. */
struct weft__choice {
	struct fi_info *info; /* owned; its src_addr is where to bind */
	const struct weft__quirks *quirks;
	struct weft_candidate candidate;
	const char *caveat; /* what is not promised, by the provider or the device; NULL: nothing */
};

/* The version of the API to ask libfabric for: the older of what was compiled against and what runs. */
uint32_t weft__libfabric_version(void);

/*
 * Completes the caller's options, of whatever size, by the defaults. NULL means all defaults.
 * Returns 0 or -EINVAL.
 */
int weft__opts_read(struct weft_net_opts *opts, const struct weft_net_opts *given);

/* Returns 0, or -EINVAL (an option), -ENODATA (none fits), -ENOMEM, or fi_getinfo's code; logs why. */
int weft__candidate_choose(const struct weft_net_opts *opts, const struct weft__log *log, struct weft__choice *choice);

/* Frees what a choice owns. */
void weft__choice_free(struct weft__choice *choice);

#endif
