/* SPDX-License-Identifier: MIT */
/*
 * Ports over a fake network, in one process, by a clock that the test turns. Datagrams are kept in the order sent until
 * the world moves on; a test may drop, double or turn round what is under way.
 */
#ifndef SEFA_TESTS_WORLD_H
#define SEFA_TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/port.h"

#define PORTS 4
#define TIMEOUT_NS UINT64_C(2000000000)
#define MS UINT64_C(1000000)

struct datagram {
	struct sefa_end from, to;
	size_t len;
	uint8_t data[SEFA_DATAGRAM_MAX];
};

struct message {
	struct sefa_end from;
	bool write, has_imm;
	uint32_t imm, len;
	uint8_t data[SEFA_MTU];
};

struct test_op {
	struct sefa_op op;
	uint8_t *memory;
	int ended;
	enum sefa_status status;
};

struct host {
	struct sefa_net net;
	struct sefa_port port;
	struct sefa_end end;
	bool gone;      /* nobody is there, and the network says so */
	bool deaf;      /* nothing comes in */
	int send_error; /* what sending gives */
	int buffers;    /* messages that will be taken */
	uint32_t room;  /* the longest of them */
	uint8_t *shared; /* what peers may read and write, at address 0x1000 under key 5 */
	size_t shared_len;
	bool knows; /* the others have address handles here */
	struct message *messages;
	int message_count;
	int faults;
	struct sefa_refusal refusals[64];
	int refusal_count;
};

struct world {
	uint64_t now;
	struct host hosts[PORTS];
	struct datagram *way[4096];
	int under_way;
	/* Returns how many copies of a datagram arrive; NULL: one. */
	int (*copies)(struct world *world, const struct datagram *datagram);
	bool backwards; /* the last sent arrives first */
	int seen;       /* datagrams that copies() has been asked about */
};

void world_open(struct world *world);
void world_close(struct world *world);

/* Starts a request of host a to host b, with len bytes that depend on seed; four bytes are the seed itself. */
void world_post(struct world *world, int a, int b, struct test_op *op, uint8_t type, uint32_t len, unsigned seed);
/* Lets go of a request's memory. */
void world_free(struct test_op *op);
bool is_pattern(const uint8_t *data, size_t len, unsigned seed);
void pattern(uint8_t *data, size_t len, unsigned seed);

/* All ports work, and all that is under way arrives, until nothing moves any more at this time. */
void world_settle(struct world *world);
/* Turns the clock on by the time, in steps, and lets everything happen on the way. */
void world_run(struct world *world, uint64_t ns);
/* The same, until *ended is at least count, for a minute of the clock at most. */
void world_run_until(struct world *world, const int *ended, int count);

#endif
