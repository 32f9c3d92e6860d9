/* SPDX-License-Identifier: MIT */
/*
 * Two nets in one process that know each other, on the provider that WEFT_TEST_PROVIDER names, and ways to wait for
 * what happens on them. For the conformance tests, which see what a user of the library sees.
 */
#ifndef WEFT_TESTS_PAIR_H
#define WEFT_TESTS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weft/net.h>

/* Long enough for any loaded machine; a test that waits so long has failed. */
#define PATIENCE_MS 60000

struct pair {
	struct weft_net *a, *b;
	weft_dest a_to_b, b_to_a;
};

/* What a callback has told. user of the operation points to one. */
struct outcome {
	int calls;
	int status;
	int prov_errno;
	char text[160];
	struct weft_buf *buf;
	size_t len;
	uint64_t tag;
	weft_dest source;
	uint64_t cq_data;
	unsigned flags;
};

/* The provider under test. */
const char *provider(void);
bool provider_is(const char *name);

/* Options for the provider under test, with the log going to stderr. */
struct weft_net_opts test_opts(void);

/* Milliseconds of the monotonic clock. */
int64_t now_ms(void);

struct weft_net *open_net(const struct weft_net_opts *opts);
void pair_open(struct pair *pair, const struct weft_net_opts *opts);
void pair_close(struct pair *pair);

/* Records into the struct outcome that user points to. */
void record(struct weft_net *net, const struct weft_done *done);

/* Polls the nets (b may be NULL) until *calls is at least want. Fails the test when that takes too long. */
void poll_until(struct weft_net *a, struct weft_net *b, const int *calls, int want);

/* A buffer of the net, filled with bytes that depend on seed. */
struct weft_buf *filled(struct weft_net *net, size_t size, unsigned seed);
void fill(struct weft_buf *buf, size_t size, unsigned seed);
bool is_filled(struct weft_buf *buf, size_t size, unsigned seed);

/* A post of the whole of a buffer. */
struct weft_post whole(struct weft_buf *buf);

/* Sends the whole of a buffer from a to b, into `into`, and checks both ends' status and length. */
void exchange(struct pair *pair, struct weft_buf *from, struct weft_buf *into, size_t len);

/*
 * An address of EFA with a key that nobody has: this device's own but for the queue number and, unless host is
 * negative, the last byte of the GID.
 */
void numbered_efa_addr(struct weft_addr *addr, int host, uint16_t qpn);

/* An address of the provider under test where nobody is, and which stays unused until absent_done(). */
void absent_addr(struct weft_addr *addr);
void absent_done(void);

#endif
