/* SPDX-License-Identifier: MIT */
/*
 * What the tests of messages longer than a frame have in common: contents that can be checked, and
 * a look into the books of memory. Each test runs with messages in parts, and most of them in
 * tagged chunks as well.
 */
#ifndef WEFT_TESTS_BIGS_H
#define WEFT_TESTS_BIGS_H

#include "nodeimpl.h"
#include "nodes.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define EXPECTED_MAX 400

void fill(uint8_t *data, size_t len, unsigned seed);
bool is_right(const uint8_t *data, size_t len, unsigned seed);

/* What a party is to receive: the message with id i has sizes[i - 1] bytes of seed i. */
struct expected {
	size_t sizes[EXPECTED_MAX];
	uint32_t last;
	bool hold; /* those that are longer than a frame */
	struct weft_msg *held[16];
	int held_count;
};

/* Has the party check what it receives, by take_expected(). */
void expect(struct party *party, struct expected *expected);
void take_expected(struct party *party, const struct weft_msg *msg);
/* The next message of a session that has had id - 1, with the contents that are expected. */
int send_big(struct party *from, weft_peer peer, struct expected *expected, uint32_t id, size_t len,
	     int timeout_ms, struct fate *fate);

/* Where give_place(), as its on_place, has a message put. */
extern struct weft_buf *place;
extern size_t place_off;
struct weft_buf *give_place(struct party *party, size_t len, size_t *off);

struct weft__peer *only_peer(const struct party *party);
/* Nothing is reserved, and nobody waits, when receives that were cancelled have come back. */
void assert_idle(const struct party *party);
void assert_within_budget(const struct party *party);
struct weft_progress progress_of(const struct party *party, weft_peer peer);
/* Lets time pass until some of a message has come, but not all of it. */
void reach_the_middle(struct party *from, struct party *to);

/* Whether big messages go in tagged chunks, or in parts. */
extern bool in_chunks;
struct party *open_node(const struct weft_node_opts *opts);
struct party *open_with_budget(size_t budget, uint64_t max_message);

int setup_parts(void **state);
int setup_chunks(void **state);
#define in_parts(fn)                                                                               \
	{                                                                                          \
#fn ", in parts", fn, setup_parts, nodes_teardown, NULL                            \
	}
#define both_ways(fn)                                                                              \
	in_parts(fn),                                                                              \
	{                                                                                          \
#fn ", in chunks", fn, setup_chunks, nodes_teardown, NULL                          \
	}

#endif
