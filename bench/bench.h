/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the benchmark know of each other: bench_l1.c runs the processes and takes the
 * time; raw.c, layer1.c and layer2.c are the ways to move the same messages.
 */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "game.h"

struct fi_info;

#define BENCH_ADDR_MAX 512

struct bench_opts {
	const char *provider; /* "tcp", "shm" */
	size_t size;	      /* bytes of every message */
	unsigned window;
	bool yield; /* both ends share one core: give it up after a poll that found nothing */
};

/* What an endpoint does and its fi_info does not tell. */
struct bench_traits {
	bool wait_fd; /* its completion queue has a descriptor to wait on */
	bool source;  /* it reads the source with each completion */
};

/* One endpoint with all that belongs to it. The two kinds embed it at the start of their own. */
struct bench_end {
	struct game game;
	uint64_t polls;
	uint64_t idle_polls; /* of these, the ones that found nothing */
};

struct bench_kind {
	const char *name;
	/* Opens an endpoint with its receives posted. NULL on failure, which has been reported. */
	struct bench_end *(*open)(const struct bench_opts *opts, enum game_role role);
	/* Writes the address into addr, BENCH_ADDR_MAX bytes, and returns its length; 0 on failure.
	 */
	size_t (*get_addr)(struct bench_end *end, void *addr);
	bool (*connect)(struct bench_end *end, const void *addr, size_t len);
	/* Sends what the game allows at its start. */
	void (*start)(struct bench_end *end);
	/* Polls once, with all that follows from it. */
	void (*turn)(struct bench_end *end);
	/* Turns until the game is over. */
	void (*run)(struct bench_end *end);
	/* What the endpoint was really opened with. */
	const struct fi_info *(*get_info)(const struct bench_end *end);
	struct bench_traits (*get_traits)(const struct bench_end *end);
	/*
	 * Begins to part from the other end, which must not be gone before; both take turns after it. NULL: there is
	 * nothing to part from.
	 */
	void (*leave)(struct bench_end *end);
	void (*close)(struct bench_end *end);
};

extern const struct bench_kind bench_raw;
extern const struct bench_kind bench_layer1;
extern const struct bench_kind bench_layer2;

/* Reports an error of libfabric or errno and ends the process: a measurement that failed has no
 * result. */
_Noreturn void bench_die(const char *what, int code);

#endif
