/* SPDX-License-Identifier: MIT */
/*
 * What the tests on the fake fabric have in common: a world of their own each, pairs of nets in it,
 * and ways to let things happen. Everything else is in fake.h.
 */
#ifndef WEFT_TESTS_WORLD_H
#define WEFT_TESTS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/net.h>

#include "fake.h"

/* Before and after each test: a new world, and that the library has given back all of it. */
int world_setup(void **state);
int world_teardown(void **state);
#define world_test(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
/* Runs a list of them, and leaves nothing behind. */
#define world_run(tests) world_end(cmocka_run_group_tests(tests, NULL, NULL))
int world_end(int failed);

/* Default options, with the log kept for logged(). */
struct weft_net_opts quiet_opts(void);
/* Whether a line of the log since the last call, of this level, has these words in it. Forgets all
 * lines. */
bool logged(enum weft_log_level level, const char *words);

/* Whether there is a line of this level or a worse one since the last call. Forgets all lines. */
bool logged_any(enum weft_log_level level);

struct weft_net *net_open(const struct weft_net_opts *opts);
/* That no net opens with these options: the code, and words that the log has. */
void refused(const struct weft_net_opts *opts, int code, const char *words);
struct weft_addr net_addr(struct weft_net *net);
struct weft_net_stats net_stats(struct weft_net *net);

struct pair {
	struct fake_provider *provider;
	struct weft_net *a, *b;
	struct weft_addr a_addr, b_addr;
	weft_dest a_to_b, b_to_a;
};

/* Two nets on a provider, each of which knows the other. opts may be NULL. */
void pair_open(struct pair *pair, const struct fake_provider *provider,
	       const struct weft_net_opts *opts);
/* Closes both, of which everything must come back. */
void pair_close(struct pair *pair);

/* What the callbacks with this user have told: how many, and the last. */
struct outcome {
	int calls;
	int status;
	int prov_errno;
	char text[160];
	const char *advice;
	struct weft_buf *buf;
	size_t off, len;
	uint64_t tag, cq_data;
	weft_dest source;
	unsigned flags;
	int order; /* the how manieth callback of the world it was */
};
void record(struct weft_net *net, const struct weft_done *done);

/* Polls both (b may be NULL) for so much virtual time. */
void pass(struct weft_net *a, struct weft_net *b, int64_t ms);
/* Polls both until *calls has reached want. Fails the test when that takes 100 virtual seconds. */
void pass_until(struct weft_net *a, struct weft_net *b, const int *calls, int want);

/* A buffer of the net whose bytes depend on seed; and whether the first bytes of one are such. */
struct weft_buf *filled(struct weft_net *net, size_t size, unsigned seed);
bool is_filled(struct weft_buf *buf, size_t size, unsigned seed);

/* A post of the whole of a buffer, or of nothing where that is NULL. */
struct weft_post whole(struct weft_buf *buf);

/* Sends 100 bytes from a to b, which must arrive. */
void exchange(struct pair *pair);

/* A peer of this net that is nobody. */
weft_dest add_nobody(struct weft_net *net, struct weft_addr *addr);

#endif
