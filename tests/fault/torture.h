/* SPDX-License-Identifier: MIT */
/*
 * The torture loop: runs a scenario on the fake fabric over and over, and lets another call fail
 * each time. A scenario is a function that does something with the library through the calls below,
 * takes every answer as it comes, and ends with everything closed. What has to hold in each run is
 * checked here:
 *
 * - calls answer with codes that weft/net.h names, or with the code that was given to them;
 * - each operation that was started has exactly one callback, and none that was not;
 * - objects are closed in the legal order, and the rules of the fake fabric are kept;
 * - nothing is left: memory, descriptors, objects, unless the provider itself refused to close
 * something.
 */
#ifndef WEFT_TESTS_TORTURE_H
#define WEFT_TESTS_TORTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

#include "fake.h"

/* Ends the process with these words and the command that repeats the run. */
__attribute__((format(printf, 1, 2))) _Noreturn void torture_fail(const char *format, ...);

/* What has to hold where no call was made to fail. */
#define torture_ok(what)                                                                           \
	do {                                                                                       \
		if (!(what) && torture_untouched())                                                \
			torture_fail("%s:%d: not so: %s", __FILE__, __LINE__, #what);              \
	} while (0)
/* What has to hold in every run. */
#define torture_check(what)                                                                        \
	do {                                                                                       \
		if (!(what))                                                                       \
			torture_fail("%s:%d: not so: %s", __FILE__, __LINE__, #what);              \
	} while (0)

/* Whether no call has been made to fail in this run. */
bool torture_untouched(void);

/* An operation, from its start to its callback. */
struct torture_op {
	bool started;
	int calls;
	int status;
	size_t len;
};

struct torture_nets {
	struct weft_net *a, *b;
	struct weft_addr a_addr, b_addr;
	weft_dest a_to_b, b_to_a;
};

/* Nets that could not be opened are NULL, and every call below takes NULL, and does nothing. */
struct weft_net_opts torture_opts(const char *provider);
struct weft_net *torture_open(const struct weft_net_opts *opts);
void torture_close(struct weft_net *net);
void torture_open_two(struct torture_nets *nets, const struct fake_provider *provider);
void torture_close_two(struct torture_nets *nets);

weft_dest torture_add_peer(struct weft_net *net, const struct weft_addr *addr);
/* A peer that is nobody; number tells them apart. */
weft_dest torture_add_nobody(struct weft_net *net, unsigned number);
struct weft_buf *torture_buf(struct weft_net *net, size_t size);

enum torture_kind { TORTURE_SEND, TORTURE_TSEND, TORTURE_READ, TORTURE_WRITE };
/* Starts an operation, and returns it. buf NULL: of no bytes. */
struct torture_op *torture_start(struct weft_net *net, enum torture_kind kind, weft_dest dest,
				 const struct weft_post *post);
struct torture_op *torture_recv(struct weft_net *net, struct weft_buf *buf);
struct torture_op *torture_trecv(struct weft_net *net, const struct weft_post *post);
struct weft_post torture_post(struct weft_buf *buf, int timeout_ms);

void torture_poll(struct weft_net *net, int timeout_ms);
/* Polls both for so much virtual time, or until no operation is under way if all is. */
void torture_pass(struct torture_nets *nets, int ms, bool all);

/*
 * That a function has answered with a code that its description names, or, where that says so, with one that libfabric
 * or the system has given.
 */
void torture_code(const char *call, int ret, const int *named, bool others);
/* What closing said it has left. */
void torture_left(int ret);

struct torture_scenario {
	const char *name;
	void (*run)(void);
	bool leaves; /* also where no call fails, something is left that the provider does not close
		      */
};
extern const struct torture_scenario torture_scenarios[];
extern const size_t torture_scenario_count;
/* Those of layer 2. */
extern const struct torture_scenario torture_node_scenarios[];
extern const size_t torture_node_scenario_count;
/* Of these, those of messages longer than a frame. */
extern const struct torture_scenario torture_big_scenarios[];
extern const size_t torture_big_scenario_count;

#endif
