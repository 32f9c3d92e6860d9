/* SPDX-License-Identifier: MIT */
/*
 * The books of the soak test: what one node has sent and received, in a file that outlives a process that is killed.
 * soak.py reads them: the layout here is the one there.
 *
 * A stream is one direction of one session, with a random number that its sender chose. Its messages are numbered from
 * 0, so that a receiver needs to remember only how many there have been.
 */
#ifndef WEFT_SOAK_H
#define WEFT_SOAK_H

#include <stdint.h>

#define SOAK_MAGIC 0x6b616f73u
#define SOAK_STREAMS 16384
#define SOAK_TEXT 240

struct soak_out {
	uint64_t stream;
	uint32_t accepted; /* messages that weft_peer_send() took; one more while it is being called */
	uint32_t ended;    /* of these, those whose sent callback has run */
	uint32_t good;     /* of these, with status 0 */
	uint32_t good_end; /* the number after the last one with status 0 */
	uint32_t to_slot;  /* the process that it is for, plus 1; 0: not known, the other side had connected */
	uint32_t to_life;  /* its slot and life, plus 1, as it says itself; 0: it has said nothing */
};

struct soak_in {
	uint64_t stream;
	uint32_t received; /* the number after the last one that came */
	uint32_t from_life;
	uint32_t missed; /* of these, those that their sender gave up while they were on their way in pieces */
	uint32_t unused;
};

struct soak_books {
	uint32_t magic;
	uint32_t slot, life, node;
	uint32_t finished;   /* the node was closed in the end */
	uint32_t violations; /* what must not be; the first one is in text */
	uint32_t outs, ins;
	uint64_t beat_ms;    /* when the node's thread last came by */
	uint64_t sent, sent_bytes, received, received_bytes, told;
	uint64_t asked, answered;
	uint64_t memory, memory_most; /* weft's own, now and at most */
	/* weft's counters */
	uint64_t opened, closed, failed, lost, restarted, no_buffers, stalls;
	uint64_t drop_malformed, drop_unknown, drop_source, drop_duplicate, drop_state, recv_errors, send_errors;
	uint64_t reasons[16]; /* ends of sessions that had been open */
	char text[SOAK_TEXT];
	struct soak_out out[SOAK_STREAMS];
	struct soak_in in[SOAK_STREAMS];
};

#endif
