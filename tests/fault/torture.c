/* SPDX-License-Identifier: MIT */
/*
 * The torture loop, its command line, and the calls that scenarios are made of.
 *
 * torture [--list] [--scenario NAME] [--fail N [--from] [--code K]] [--quick] [--part K/N] [--sites
 * FILE]
 *   --fail N    one run, in which call number N fails
 *   --from      and all calls after it
 *   --code K    with the K-th of the codes that such a call may give
 *   --quick     only the first code of each call
 *   --part K/N  every N-th scenario, from the K-th one on, so that several processes share the work
 *   --sites F   adds the places that have failed to F, for scripts/check-sites
 */
#include "torture.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/* The run that is going on, as the arguments that repeat it. */
static char present[200] = "";
static bool quiet_end;

static void say(const char *text)
{
	/* What a crash leaves to use. */
	ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
	(void)ignored;
}

static void tell_run(void)
{
	say("torture: in the run: torture ");
	say(present);
	say("\n");
}

static void on_crash(int number)
{
	if (!quiet_end)
		tell_run();
	signal(number, SIG_DFL);
	raise(number);
}

/* AddressSanitizer ends the process without a signal. */
extern void set_death_callback(void (*fn)(void)) __asm__("__sanitizer_set_death_callback")
	__attribute__((weak));

void torture_fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "torture: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	if (fake_failed_call())
		fprintf(stderr, "torture: after %s had failed with code %d\n", fake_failed_call(),
			fake_failed_code());
	tell_run();
	quiet_end = true;
	fake_remove_files();
	abort();
}

bool torture_untouched(void)
{
	return fake_failed_call() == NULL;
}

/* ---- the calls of scenarios */

#define MAX_OPS 512

static struct torture_op ops[MAX_OPS];
static size_t op_count;
static bool in_callback;
static int close_left;

static struct torture_op *new_op(void)
{
	if (op_count == MAX_OPS)
		torture_fail("the scenario starts too many operations");
	ops[op_count] = (struct torture_op){.started = false};
	return &ops[op_count++];
}

static bool all_told(void)
{
	for (size_t i = 0; i < op_count; i++) {
		if (ops[i].started && ops[i].calls == 0)
			return false;
	}
	return true;
}

static void done(struct weft_net *net, const struct weft_done *told)
{
	struct torture_op *op = told->user;
	(void)net;
	if (in_callback)
		torture_fail("a callback from inside another call of the library");
	op->calls++;
	op->status = told->status;
	op->len = told->len;
	if (told->status == -FI_EAGAIN || told->status > 0)
		torture_fail("a callback with status %d", told->status);
	if (!told->text || (told->status == 0) != (told->text[0] == 0))
		torture_fail("a callback with status %d and the text '%s'", told->status,
			     told->text ? told->text : "(null)");
}

void torture_code(const char *call, int ret, const int *named, bool others)
{
	if (ret == -FI_EAGAIN)
		torture_fail("%s answers \"again\"", call);
	if (ret >= 0 || (others && fake_gave(-ret)))
		return;
	for (; *named; named++) {
		if (ret == -*named)
			return;
	}
	torture_fail("%s answers %d (%s), which is not documented", call, ret, weft_strerror(ret));
}

static void log_line(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level < WEFT_LOG_ERROR || level > WEFT_LOG_DEBUG || !text[0])
		torture_fail("a log line of level %d: '%s'", (int)level, text);
}

struct weft_net_opts torture_opts(const char *provider)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	opts.provider = provider;
	opts.log = log_line;
	/* Every look at the clock would be another one to run through. */
	opts.spin_us = 0;
	return opts;
}

struct weft_net *torture_open(const struct weft_net_opts *opts)
{
	static const int named[] = {EINVAL, ENODATA, ENOMEM, EMFILE, EADDRNOTAVAIL, EEXIST, 0};
	struct weft_net *const untouched = (struct weft_net *)&present;
	struct weft_net *net = untouched;
	int ret = weft_net_open(&net, opts);
	torture_code("weft_net_open", ret, named, true);
	torture_ok(ret == 0);
	torture_check((ret < 0) == (net == untouched));
	return ret < 0 ? NULL : net;
}

void torture_left(int ret)
{
	torture_check(ret >= 0);
	close_left += ret;
}

void torture_close(struct weft_net *net)
{
	torture_left(weft_net_close(net));
}

weft_dest torture_add_peer(struct weft_net *net, const struct weft_addr *addr)
{
	static const int named[] = {EINVAL, ENOSPC, EADDRNOTAVAIL, ENOMEM, ECANCELED, 0};
	weft_dest dest = 4711;
	if (!net || addr->scheme == WEFT_SCHEME_NONE)
		return WEFT_DEST_NONE;
	int ret = weft_net_add_peer(net, addr, &dest);
	torture_code("weft_net_add_peer", ret, named, false);
	torture_ok(ret == 0);
	torture_check((ret < 0) == (dest == 4711));
	return ret < 0 ? WEFT_DEST_NONE : dest;
}

weft_dest torture_add_nobody(struct weft_net *net, unsigned number)
{
	struct weft_addr addr = {.scheme = WEFT_SCHEME_NONE};
	if (net) {
		weft_net_get_addr(net, &addr);
		/* Bytes that say only which host or queue it is, in the forms that scenarios use.
		 */
		size_t at = addr.scheme == WEFT_SCHEME_EFA ? 16 : 5;
		addr.raw[at] = (uint8_t)('A' + number % 26);
		addr.raw[at + 1] = (uint8_t)('A' + number / 26);
	}
	return torture_add_peer(net, &addr);
}

struct weft_buf *torture_buf(struct weft_net *net, size_t size)
{
	static const int named[] = {EINVAL, ENOMEM, ECANCELED, 0};
	struct weft_buf *const untouched = (struct weft_buf *)&present;
	struct weft_buf *buf = untouched;
	if (!net)
		return NULL;
	int ret = weft_buf_alloc(net, size, &buf);
	torture_code("weft_buf_alloc", ret, named, true);
	torture_ok(ret == 0);
	torture_check((ret < 0) == (buf == untouched));
	return ret < 0 ? NULL : buf;
}

struct weft_post torture_post(struct weft_buf *buf, int timeout_ms)
{
	struct weft_post post = WEFT_POST_INIT;
	post.buf = buf;
	post.len = buf ? weft_buf_size(buf) : 0;
	post.timeout_ms = timeout_ms;
	return post;
}

static struct torture_op *started(struct torture_op *op, const char *call, int ret)
{
	static const int named[] = {ENOTCONN,	  EINVAL, EMSGSIZE,  EOPNOTSUPP, ENOBUFS,
				    EHOSTUNREACH, ENOMEM, ECANCELED, 0};
	torture_code(call, ret, named, true);
	torture_check(op->calls == 0);
	op->started = ret == 0;
	return op;
}

struct torture_op *torture_start(struct weft_net *net, enum torture_kind kind, weft_dest dest,
				 const struct weft_post *post)
{
	static const struct {
		const char *name;
		int (*start)(struct weft_net *, weft_dest, const struct weft_post *, weft_done_fn *,
			     void *);
	} kinds[] = {
		[TORTURE_SEND] = {"weft_net_send", weft_net_send},
		[TORTURE_TSEND] = {"weft_net_tsend", weft_net_tsend},
		[TORTURE_READ] = {"weft_net_read", weft_net_read},
		[TORTURE_WRITE] = {"weft_net_write", weft_net_write},
	};
	struct torture_op *op = new_op();
	if (!net)
		return op;
	in_callback = true;
	int ret = kinds[kind].start(net, dest, post, done, op);
	in_callback = false;
	return started(op, kinds[kind].name, ret);
}

struct torture_op *torture_recv(struct weft_net *net, struct weft_buf *buf)
{
	struct torture_op *op = new_op();
	if (!net || !buf)
		return op;
	in_callback = true;
	int ret = weft_net_recv(net, buf, done, op);
	in_callback = false;
	return started(op, "weft_net_recv", ret);
}

struct torture_op *torture_trecv(struct weft_net *net, const struct weft_post *post)
{
	struct torture_op *op = new_op();
	if (!net || !post->buf)
		return op;
	in_callback = true;
	int ret = weft_net_trecv(net, post, done, op);
	in_callback = false;
	return started(op, "weft_net_trecv", ret);
}

void torture_poll(struct weft_net *net, int timeout_ms)
{
	static const int named[] = {EIO, 0};
	if (!net)
		return;
	int ret = weft_net_poll(net, timeout_ms);
	torture_code("weft_net_poll", ret, named, false);
	torture_ok(ret >= 0);
}

void torture_pass(struct torture_nets *nets, int ms, bool all)
{
	for (int64_t end = fake_now_ns() + ms * (int64_t)FAKE_NS_PER_MS; fake_now_ns() < end;) {
		torture_poll(nets->a, 0);
		torture_poll(nets->b, 0);
		if (all && all_told())
			return;
		fake_advance_ns(FAKE_NS_PER_MS / 2);
	}
}

void torture_open_two(struct torture_nets *nets, const struct fake_provider *provider)
{
	struct weft_net_opts opts = torture_opts(provider->name);
	memset(nets, 0, sizeof(*nets));
	fake_offer(provider);
	nets->a = torture_open(&opts);
	nets->b = torture_open(&opts);
	if (nets->a)
		weft_net_get_addr(nets->a, &nets->a_addr);
	if (nets->b)
		weft_net_get_addr(nets->b, &nets->b_addr);
	nets->a_to_b = torture_add_peer(nets->a, &nets->b_addr);
	nets->b_to_a = torture_add_peer(nets->b, &nets->a_addr);
}

void torture_close_two(struct torture_nets *nets)
{
	torture_close(nets->a);
	torture_close(nets->b);
}

/* ---- runs */

static void check_end(const struct torture_scenario *scenario)
{
	struct fake_left left;
	fake_get_left(&left);
	for (size_t i = 0; i < op_count; i++) {
		if (ops[i].calls != (ops[i].started ? 1 : 0))
			torture_fail("operation %zu, which was %sstarted, has had %d callbacks", i,
				     ops[i].started ? "" : "not ", ops[i].calls);
	}
	/* An endpoint that could not be closed keeps its name, and the lock on it. */
	if (left.files > (fake_failed_closes() > 0 ? left.names : 0))
		torture_fail("%zu descriptors are left open", left.files);
	if (fake_failed_closes() > 0 || scenario->leaves)
		return;
	if (left.objects || left.works || left.allocations || close_left)
		torture_fail(
			"%zu objects, %zu operations, %zu allocations are left; close counted %d",
			left.objects, left.works, left.allocations, close_left);
	if (left.names && torture_untouched())
		torture_fail("%zu files are left in /dev/shm", left.names);
}

static void run(const struct torture_scenario *scenario, long fail_at, bool onwards, int code)
{
	snprintf(present, sizeof(present), "--scenario %s --fail %ld --code %d%s", scenario->name,
		 fail_at, code, onwards ? " --from" : "");
	fake_reset();
	op_count = 0;
	close_left = 0;
	fake_count(fail_at, onwards, code);
	scenario->run();
	check_end(scenario);
}

struct totals {
	int scenarios;
	long calls, reruns;
};

static void torture(const struct torture_scenario *scenario, bool quick, struct totals *totals)
{
	run(scenario, 0, false, 0);
	long calls = fake_counted();
	if (calls == 0)
		torture_fail("the scenario %s makes no call that could fail", scenario->name);
	long reruns = 0;
	for (int onwards = 0; onwards < 2; onwards++) {
		for (long n = 1;; n++) {
			run(scenario, n, onwards, 0);
			if (torture_untouched())
				break;
			reruns++;
			int variants = quick ? 1 : fake_failed_variants();
			for (int code = 1; code < variants; code++, reruns++)
				run(scenario, n, onwards, code);
		}
	}
	printf("%-24s %5ld calls %6ld reruns\n", scenario->name, calls, reruns);
	fflush(stdout);
	totals->scenarios++;
	totals->calls += calls;
	totals->reruns += reruns;
}

static int usage(void)
{
	fprintf(stderr, "usage: torture [--list] [--scenario NAME] [--fail N [--from] [--code K]] "
			"[--quick] "
			"[--sites FILE]\n");
	return 2;
}

/* All scenarios in turn, and NULL after the last one. */
static const struct torture_scenario *scenario_at(size_t i)
{
	if (i < torture_scenario_count)
		return &torture_scenarios[i];
	i -= torture_scenario_count;
	if (i < torture_node_scenario_count)
		return &torture_node_scenarios[i];
	i -= torture_node_scenario_count;
	return i < torture_big_scenario_count ? &torture_big_scenarios[i] : NULL;
}

int main(int argc, char **argv)
{
	const char *only = NULL, *sites = NULL;
	long fail_at = -1;
	int code = 0;
	size_t part = 0, parts = 1;
	bool onwards = false, quick = false, list = false;
	struct totals totals = {0};
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (strcmp(argv[i], "--from") == 0) {
			onwards = true;
			continue;
		}
		if (strcmp(argv[i], "--quick") == 0) {
			quick = true;
			continue;
		}
		if (strcmp(argv[i], "--list") == 0) {
			list = true;
			continue;
		}
		if (!value)
			return usage();
		if (strcmp(argv[i], "--scenario") == 0)
			only = value;
		else if (strcmp(argv[i], "--sites") == 0)
			sites = value;
		else if (strcmp(argv[i], "--fail") == 0)
			fail_at = atol(value);
		else if (strcmp(argv[i], "--code") == 0)
			code = atoi(value);
		else if (strcmp(argv[i], "--part") == 0 &&
			 sscanf(value, "%zu/%zu", &part, &parts) == 2 && parts > 0)
			part = (part - 1) % parts;
		else
			return usage();
		i++;
	}
	if (fail_at >= 0 && !only)
		return usage();
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGABRT, on_crash);
	if (set_death_callback)
		set_death_callback(tell_run);

	bool found = false;
	const struct torture_scenario *scenario;
	for (size_t i = 0; (scenario = scenario_at(i)); i++) {
		if (list)
			printf("%s\n", scenario->name);
		if (list || (only && strcmp(only, scenario->name) != 0) || i % parts != part)
			continue;
		found = true;
		if (fail_at < 0) {
			torture(scenario, quick, &totals);
			continue;
		}
		run(scenario, fail_at, onwards, code);
		printf("%s: %ld calls; ", scenario->name, fake_counted());
		if (torture_untouched())
			printf("none failed\n");
		else
			printf("number %ld, %s, failed with code %d\n", fail_at, fake_failed_call(),
			       fake_failed_code());
	}
	if (!found && !list) {
		fprintf(stderr, "torture: there is no scenario '%s'\n", only);
		return 2;
	}
	if (totals.scenarios > 0)
		printf("torture: %d scenarios, %ld calls that can fail, %ld reruns\n",
		       totals.scenarios, totals.calls, totals.reruns);
	if (sites && fake_write_sites(sites) < 0) {
		fprintf(stderr, "torture: cannot write %s\n", sites);
		return 1;
	}
	fake_reset();
	return 0;
}
