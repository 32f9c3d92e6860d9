/* SPDX-License-Identifier: MIT */
/* What the environment asks of the device. Knows the environment only. */
#ifndef SEFA_CONFIG_H
#define SEFA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fault.h"

struct sefa_config {
	bool on;             /* SOFTEFA */
	bool strict;         /* SOFTEFA_STRICT */
	uint32_t ip;         /* SOFTEFA_BIND, in host byte order */
	uint16_t qpn;        /* SOFTEFA_QPN: of the first queue pair; 0: any */
	uint64_t timeout_ns; /* SOFTEFA_TIMEOUT_MS */
	bool rdma;           /* SOFTEFA_RDMA: one-sided access by the device */
	const char *stats;   /* SOFTEFA_STATS: a file to which each queue pair adds its counters when it ends */
	struct sefa_faults faults;
};

/*
 * Reads the SOFTEFA variables. Returns 0, or -EINVAL with *reason for a name that is not one of them, or a value that
 * does not do: a test that asks for something by a misspelt name must not pass.
 */
int sefa_config_read(struct sefa_config *config, char *const *environment, char *reason, size_t size);

#endif
