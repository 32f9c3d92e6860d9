/* SPDX-License-Identifier: MIT */
/* A struct sefa_net over another one: loses, doubles, delays and reorders what is sent, by chance but from a seed. */
#ifndef SEFA_FAULT_H
#define SEFA_FAULT_H

#include "net.h"

struct sefa_faults {
	unsigned loss;         /* percent of the datagrams sent */
	unsigned dup;          /* percent */
	unsigned reorder;      /* percent: are held back so long that later ones overtake them */
	unsigned delay_us;     /* all are held back for so long */
	unsigned rnr;          /* percent of the messages received: are answered as if no buffer were posted */
	uint64_t die_after;    /* datagrams sent, after which the process kills itself; 0: never */
	const char *link_down; /* while a file of this name exists nothing is sent or received; NULL: none */
	uint64_t seed;
};

/* Whether there is anything for sefa_fault_wrap() to do. */
bool sefa_faults_any(const struct sefa_faults *faults);

/* Whether the link is down now. */
bool sefa_faults_link_down(const struct sefa_faults *faults);

/*
 * Puts faults over a net, which it closes with itself. `faults` must stay. Returns NULL without memory; `inner` is then
 * still the caller's.
 */
struct sefa_net *sefa_fault_wrap(struct sefa_net *inner, const struct sefa_faults *faults);

#endif
