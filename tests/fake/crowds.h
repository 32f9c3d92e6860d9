/* SPDX-License-Identifier: MIT */
/* What the tests of bundles have in common: two nodes with several sessions. */
#ifndef WEFT_TESTS_CROWDS_H
#define WEFT_TESTS_CROWDS_H

#include "nodeimpl.h"
#include "nodes.h"

#define SESSIONS 10
/* All that is owed has been told. */
#define QUIET_MS (INT64_C(2) * WEFT__OWED_MS)

extern struct party *a, *b;
extern weft_peer peers[SESSIONS];
/* Whether messages go straight into bundles, in the compact form, as they do where several had to
 * leave in the turn before. */
extern bool busy;
/* What becomes of each session's message; some end when the test is over. */
extern struct fate fates[SESSIONS];

/* Two nodes with so many sessions, which are quiet. opts NULL: the usual ones. */
void begin(const struct weft_node_opts *opts, int sessions);
/* The same on nets that take one operation a peer: what does not go with the first one waits. */
void begin_with_room_for_one(void);
/* By each session a message of so many bytes, of a letter of its own. */
void ask_all(size_t len);
/* They have been answered. */
void check_fates(void);
/* They went in the form that is meant, but for the first one, which left at once. */
void check_form(void);

int setup(void **state);
int setup_busy(void **state);
#define plain(fn) cmocka_unit_test_setup_teardown(fn, setup, nodes_teardown)
#define crowded(fn) cmocka_unit_test_setup_teardown(fn, setup_busy, nodes_teardown)
/* A test of both forms. */
#define both(fn)                                                                                   \
	plain(fn),                                                                                 \
	{                                                                                          \
#fn ", busy", fn, setup_busy, nodes_teardown, NULL                                 \
	}

#endif
