/* SPDX-License-Identifier: MIT */
/* Faults of the fake fabric: those that a test asks for by name, and those of the torture loop, by
 * number. */
#include <errno.h>
#include <stdio.h>

#include <uthash.h>

#include "internal.h"

/* A failed call costs so much, or a loop of failing calls would stand still; the less, the longer
 * one lasts. */
#define FAILED_NS 1000000

#define MAX_CODES 6

/*
 * What each kind of call may answer. ONCE marks what no real one does for ever, and after which a
 * caller may rightly try again without end.
 */
#define ONCE 0x1000000
static const int codes[FAKE__KINDS][MAX_CODES] = {
	[FAKE__ALLOC] = {ENOMEM},
	[FAKE__FD] = {EMFILE, ENOMEM},
	[FAKE__FILE] = {EACCES, EMFILE, EEXIST, ENOENT},
	[FAKE__LOCK] = {EWOULDBLOCK, EIO},
	[FAKE__RANDOM] = {ENOSYS, EINTR | ONCE, FAKE_SHORT},
	[FAKE__SLEEP] = {EINTR, ENOMEM},
	[FAKE__IO] = {EAGAIN, EIO},
	[FAKE__SOCKET] = {ENETUNREACH, EMFILE},
	[FAKE__GETINFO] = {FI_ENODATA, FI_ENOMEM, FI_EIO, FI_ENOSYS},
	[FAKE__DUPINFO] = {FI_ENOMEM},
	[FAKE__OPEN] = {FI_ENOMEM, FI_EIO, FI_EADDRINUSE, FI_EADDRNOTAVAIL, FI_EMFILE, FI_ENODATA},
	[FAKE__REG] = {FI_ENOMEM, FI_ENOKEY, FI_EIO, FI_EINVAL, FI_EFAULT},
	[FAKE__INSERT] = {FAKE_ZERO, FI_ENOMEM, FI_EINVAL},
	[FAKE__REMOVE] = {FI_EINVAL, FI_EIO},
	[FAKE__POST] = {FI_EAGAIN, FI_EIO, FI_ENOMEM, FI_EINVAL, FI_ENODATA},
	[FAKE__CQ_READ] = {FI_EAGAIN, FI_EIO, FI_EAVAIL, FI_ENODATA, FI_EOVERRUN, FAKE_ZERO},
	[FAKE__CQ_ERROR] = {FI_EAGAIN, FI_EIO, FAKE_ZERO},
	[FAKE__CQ_TEXT] = {FI_ENODATA},
	[FAKE__EQ_READ] = {FI_EAVAIL, FI_EIO, FAKE_ZERO},
	[FAKE__TRYWAIT] = {FI_EAGAIN, FI_EIO},
	[FAKE__CLOSE] = {FI_EBUSY, FI_EIO},
};

struct fault {
	STAILQ_ENTRY(fault) link;
	const char *call;
	bool any;
	struct fake__addr to;
	int times;
	int skip; /* for fake_skip() only, when code is 0 */
	int code; /* 0: it is a fate */
	struct fake_fate fate;
};
static STAILQ_HEAD(, fault) faults = STAILQ_HEAD_INITIALIZER(faults);

struct calls {
	UT_hash_handle hh;
	long count;
	char name[40];
};
static struct calls *calls;

struct site {
	UT_hash_handle hh;
	uintptr_t at;
};
static struct site *sites;

static bool counting, paused;
static bool gave[1024];
static int failed_closes;
static long counted, fail_at;
static bool fail_onwards;
static int fail_variant;
static char failed_call[40];
static int failed_code, failed_variants;
/* The call that goes on was let pass by fake_skip(). */
static bool skipped;

void fake__script_reset(void)
{
	struct calls *c, *tmp;
	fake_no_faults();
	HASH_ITER(hh, calls, c, tmp)
	{
		HASH_DEL(calls, c);
		free(c);
	}
	counting = false;
	counted = 0;
}

static void count_call(const char *call)
{
	struct calls *c;
	HASH_FIND_STR(calls, call, c);
	if (!c) {
		c = fake__zalloc(sizeof(*c));
		snprintf(c->name, sizeof(c->name), "%s", call);
		HASH_ADD_STR(calls, name, c);
	}
	c->count++;
}

long fake_calls(const char *call)
{
	struct calls *c;
	HASH_FIND_STR(calls, call, c);
	return c ? c->count : 0;
}

static struct fault *add_fault(const char *call, const struct weft_addr *to, int times)
{
	struct fault *fault = fake__zalloc(sizeof(*fault));
	fault->call = call;
	fault->any = !to;
	if (to) {
		fault->to.len = to->len;
		memcpy(fault->to.raw, to->raw, to->len);
	}
	fault->times = times;
	STAILQ_INSERT_TAIL(&faults, fault, link);
	return fault;
}

void fake_refuse(const char *call, const struct weft_addr *to, int code, int times)
{
	add_fault(call, to, times)->code = code;
}

void fake_skip(const char *call, int passed)
{
	add_fault(call, NULL, passed)->skip = 1;
}

void fake_next(const char *call, const struct weft_addr *to, int times,
	       const struct fake_fate *fate)
{
	add_fault(call, to, times)->fate = *fate;
}

void fake_no_faults(void)
{
	while (!STAILQ_EMPTY(&faults)) {
		struct fault *fault = STAILQ_FIRST(&faults);
		STAILQ_REMOVE_HEAD(&faults, link);
		free(fault);
	}
}

/* The first fault that a test has asked for and that fits, or NULL. */
static struct fault *find_fault(const char *call, const struct fake__addr *to, bool fate)
{
	struct fault *fault;
	STAILQ_FOREACH(fault, &faults, link)
	{
		if (strcmp(fault->call, call) != 0)
			continue;
		if (!fault->any && !(to && fake__addr_equal(&fault->to, to)))
			continue;
		if (fault->skip || fate == (fault->code == 0))
			return fault;
	}
	return NULL;
}

static void use_up(struct fault *fault)
{
	if (fault->times < 0 || --fault->times > 0)
		return;
	STAILQ_REMOVE(&faults, fault, fault, link);
	free(fault);
}

struct fake_fate fake__take_fate(const char *call, const struct fake__addr *to)
{
	struct fake_fate fate = {.outcome = FAKE_DELIVER};
	struct fault *fault = skipped ? NULL : find_fault(call, to, true);
	if (fault) {
		fate = fault->fate;
		use_up(fault);
	}
	return fate;
}

/* Where the linker puts the program. */
extern const char program_start __asm__("__executable_start");

/*
 * Remembers where the failing call came from: the way up the stack, of which one address is in the
 * library. The frame pointers are walked by hand, since the compiler's builtin does not go up by a
 * variable number. Both the fake and the library are compiled to keep them.
 */
static void remember_site(void)
{
	void *const *frame = __builtin_frame_address(0);
	for (int up = 0; up < 5; up++) {
		struct site *site;
		uintptr_t at = (uintptr_t)frame[1] - (uintptr_t)&program_start;
		HASH_FIND(hh, sites, &at, sizeof(at), site);
		if (!site) {
			site = fake__zalloc(sizeof(*site));
			site->at = at;
			HASH_ADD(hh, sites, at, sizeof(at), site);
		}
		frame = frame[0];
	}
}

int fake_write_sites(const char *path)
{
	FILE *file = fopen(path, "a");
	if (!file)
		return -errno;
	for (const struct site *site = sites; site; site = site->hh.next)
		fprintf(file, "%zx\n", (size_t)site->at);
	return fclose(file) == 0 ? 0 : -errno;
}

static int variants_of(enum fake__kind kind)
{
	int n = 0;
	while (n < MAX_CODES && codes[kind][n] != 0)
		n++;
	return n;
}

static int variant_code(enum fake__kind kind)
{
	int n = variants_of(kind);
	int code = codes[kind][fail_variant % n];
	/* From one call on, every kind has a code of its own; what is for once only becomes the
	 * first. */
	if (fail_onwards && (code & ONCE))
		code = codes[kind][0];
	return code & ~ONCE;
}

int fake__gate(const char *call, enum fake__kind kind, const struct fake__addr *to)
{
	int code = 0;
	count_call(call);
	struct fault *fault = find_fault(call, to, false);
	skipped = fault && fault->skip;
	if (fault) {
		code = fault->code;
		use_up(fault);
	}
	if (counting && !paused) {
		counted++;
		if (fail_at > 0 && (counted == fail_at || (fail_onwards && counted > fail_at))) {
			code = variant_code(kind);
			if (counted == fail_at) {
				snprintf(failed_call, sizeof(failed_call), "%s", call);
				failed_code = code;
				failed_variants = variants_of(kind);
			}
		}
	}
	if (code) {
		if ((size_t)code < sizeof(gave) / sizeof(gave[0]))
			gave[code] = true;
		failed_closes += kind == FAKE__CLOSE;
		remember_site();
		fake__spend(FAILED_NS);
	}
	return code;
}

void fake_count(long at, bool onwards, int variant)
{
	counting = true;
	paused = false;
	counted = 0;
	failed_closes = 0;
	memset(gave, 0, sizeof(gave));
	fail_at = at;
	fail_onwards = onwards;
	fail_variant = variant;
	failed_call[0] = 0;
	failed_code = 0;
	failed_variants = 0;
}

void fake_pause_count(bool pause)
{
	paused = pause;
}

bool fake_gave(int code)
{
	size_t number = code > 0 ? (size_t)code : 0;
	return number < sizeof(gave) / sizeof(gave[0]) && gave[number];
}

int fake_failed_closes(void)
{
	return failed_closes;
}

long fake_counted(void)
{
	return counted;
}

const char *fake_failed_call(void)
{
	return failed_call[0] ? failed_call : NULL;
}

int fake_failed_code(void)
{
	return failed_code;
}

int fake_failed_variants(void)
{
	return failed_variants;
}
