/* SPDX-License-Identifier: MIT */
/*
 * The fake fabric: a libfabric that lives in the test process. This is the control panel for tests.
 *
 * It stands in for libfabric at the few real symbols (fi_getinfo and its like) and at the ops
 * tables behind all other calls, and for the kernel at the system calls that the library makes. It
 * really delivers between the endpoints of the process, on a virtual clock that jumps from one
 * event to the next, so that tests take no time; and it does on demand what real fabrics do rarely.
 *
 * It checks its caller as strictly as the strictest provider would: keys, ranges and descriptors,
 * memory changed or freed while the provider has it, contexts used twice, addresses that would
 * spoil an address vector, objects closed too early, twice, or used afterwards. What is wrong ends
 * the process with a line that says what (see fake_expect_violation()).
 *
 * How the library is made to call it: tests/fake/link rewrites the names of the calls in a copy of
 * the library's object code. What tests themselves call (calloc, poll, ...) stays the real thing.
 *
 * One thread only. Everything here starts from fake_reset().
 */
#ifndef WEFT_TESTS_FAKE_H
#define WEFT_TESTS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <weft/net.h>

#define FAKE_NS_PER_MS INT64_C(1000000)

/* -------------------------------------------------------------------------------------------- the
 * world */

/*
 * Makes a new world: nothing is offered, nobody exists, no fault is due, all counts are zero,
 * random numbers start anew. What a former test has left is thrown away without a word: ask
 * fake_left() before.
 */
void fake_reset(void);

/* What the library has not given back. After a clean end all are 0. */
struct fake_left {
	size_t objects;	    /* libfabric objects that are open, or could not be closed */
	size_t works;	    /* operations that the provider still has */
	size_t allocations; /* of the library, not freed */
	size_t files;	    /* descriptors, directories and streams, not closed */
	size_t names;	    /* files under /dev/shm */
};
void fake_get_left(struct fake_left *left);

/*
 * From now on a violation is remembered instead of ending the process; fake_violation() says which
 * came first, and forgets it (NULL: none). For the tests of the fake itself.
 */
void fake_expect_violation(bool expect);
const char *fake_violation(void);

/* How often the library has made a call since the last reset, such as "fi_send" or "calloc". */
long fake_calls(const char *call);

/* ------------------------------------------------------------------------------------------------
 * clock */

int64_t fake_now_ns(void);

/* Lets time pass, with all that happens in it. */
void fake_advance_ns(int64_t ns);

/* Calls fn(arg) in ns from now, whatever the library is doing then, for example sleeping. */
void fake_at(int64_t ns, void (*fn)(void *arg), void *arg);

/* poll(2) of one descriptor for reading, in virtual time. Returns 1 when it is readable, 0 when
 * time is up. */
int fake_wait_fd(int fd, int timeout_ms);

/* --------------------------------------------------------------------------------------------
 * providers */

/* What a provider does with a send to an address where nobody is, or nobody lives any more. */
enum fake_absent {
	FAKE_ABSENT_AGAIN,  /* answers -FI_EAGAIN for as long as one asks (tcp, shm) */
	FAKE_ABSENT_NEVER,  /* takes it and never completes it (udp) */
	FAKE_ABSENT_LOST,   /* completes it, and it is lost */
	FAKE_ABSENT_ERROR,  /* ends it with an error completion (efa) */
	FAKE_ABSENT_REFUSE, /* refuses at once (sockets) */
};

/* What a provider does with a message that is longer than the receive. */
enum fake_trunc {
	FAKE_TRUNC_ERROR,    /* err is FI_ETRUNC */
	FAKE_TRUNC_NEGATIVE, /* err is -FI_ETRUNC (shm) */
	FAKE_TRUNC_CUT,	     /* cut short, without an error (udp) */
};

enum fake_wait {
	FAKE_WAIT_FD,
	FAKE_WAIT_REFUSED,    /* a completion queue with a descriptor is refused (shm) */
	FAKE_WAIT_NO_GETWAIT, /* it opens, but the descriptor is not to be had (udp) */
};

/* A provider with one domain. Take one of those below and change it, before or after it is offered.
 */
struct fake_provider {
	const char *name, *fabric, *domain;
	uint32_t addr_format; /* FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR, FI_ADDR_EFA; anything
				 else is raw */
	size_t addr_len;      /* of a raw address */
	const void *src_addr; /* where fi_getinfo says it would bind; NULL: nowhere */
	size_t src_addrlen;
	uint64_t caps; /* all that it can */
	uint64_t mode; /* all that it demands */
	int mr_mode;
	size_t mr_key_size;
	size_t max_msg, inject_size, tx_size, rx_size, cq_data_size;
	const char *nic; /* the device, or NULL */
	size_t link_bps;
	bool no_link; /* the NIC says nothing of its link */
	enum fake_wait wait;
	enum fake_absent absent;
	int absent_err, absent_prov_errno; /* of FAKE_ABSENT_ERROR */
	enum fake_trunc trunc;
	bool connects; /* the first send to a peer is answered "again" until the peer has polled */
	bool shuffles; /* completions come out of order */
	bool close_blocks; /* closing an endpoint that still has sends would not return */
	bool no_contexts;  /* contexts are given back, and never looked into */
	int64_t latency_ns;
};
extern const struct fake_provider fake_tcp, fake_tcp6, fake_shm, fake_udp, fake_efa, fake_raw;

/* Offers a provider. Returns the fake's copy of it, which the test may go on changing. */
struct fake_provider *fake_offer(const struct fake_provider *like);

/* The version of libfabric that fi_version() tells; 1.17 by default, which is what the fake is modelled on. */
void fake_set_version(uint32_t version);

/* Bytes of the address that the next endpoint gets, instead of a new one. */
void fake_next_addr(const void *raw, size_t len);

/* The access flags of the registration that has this key, and its number of bytes; 0 if there is
 * none. */
uint64_t fake_key_access(uint64_t key, size_t *len);

/* The access flags of all registrations that this byte is in. */
uint64_t fake_access_of(const void *data);

/* ------------------------------------------------------------------------------------------------
 * peers */

enum fake_peer {
	FAKE_PEER_LIVE,
	FAKE_PEER_SILENT, /* takes everything, completes nothing, hears nothing: its process is
			     stopped */
	FAKE_PEER_DEAD,	  /* as if nobody were there: its process is gone */
};

/* What the endpoint at this address is to the others from now on. */
void fake_set_peer(const struct weft_addr *addr, enum fake_peer state);

/* -----------------------------------------------------------------------------------------------
 * faults */

/*
 * The next `times` calls of this name (-1: all from now on) are answered by code, a positive FI_E*
 * or errno value, and are not done. to: only posts to this peer; NULL: any. Names are those of
 * libfabric ("fi_send", "fi_cq_read", "fi_close(endpoint)") and of libc ("calloc", "open",
 * "ppoll").
 */
#define FAKE_ZERO 100000  /* as code: returns 0 where that is no success, as fi_av_insert() may */
#define FAKE_SHORT 100001 /* as code: does only the first byte, as getrandom() may */
void fake_refuse(const char *call, const struct weft_addr *to, int code, int times);

/* Lets `passed` calls of this name pass before the faults that were asked for, of this name, begin.
 */
void fake_skip(const char *call, int passed);

enum fake_outcome {
	FAKE_DELIVER,
	FAKE_LOSE,   /* completes, and never arrives */
	FAKE_VANISH, /* never completes, nor arrives */
	FAKE_MUTE,   /* arrives, but never completes */
	FAKE_TWICE,  /* arrives twice */
	FAKE_BREAK,  /* ends with an error completion */
};

/* What becomes of an operation that was posted. */
struct fake_fate {
	enum fake_outcome outcome;
	int64_t delay_ns; /* more than the latency; later messages overtake it */
	int err; /* of FAKE_BREAK: may be negative, as some providers write it; 0 is written as it
		    is */
	int prov_errno;
	const char *err_data;
};

/* The next `times` operations that are posted by this call (to this peer, unless NULL) have this
 * fate. */
void fake_next(const char *call, const struct weft_addr *to, int times,
	       const struct fake_fate *fate);

/* Forgets the faults and fates that were asked for and have not happened. */
void fake_no_faults(void);

/* Writes a completion without an operation into the queue of the endpoint with this address. err 0:
 * not an error. */
void fake_stray(const struct weft_addr *of, int err);

/*
 * Says once more of the operation that has ended last, of those of the endpoint with this address, that it has ended,
 * now with an error.
 */
void fake_repeat(const struct weft_addr *of, int err, int prov_errno);

/* Overruns the completion queue of this endpoint: it is broken from now on. */
void fake_overrun(const struct weft_addr *of);

/* ----------------------------------------------------------------------------------------------
 * machine */

/* Makes a file that the library sees under this absolute path. Beside these it sees /dev/shm and
 * nothing else. */
void fake_file(const char *path, const char *text);

/* Whether the library sees such a file. */
bool fake_file_exists(const char *path);

/* Removes the directory behind these. It happens at the end of the process, unless that ends by a
 * signal. */
void fake_remove_files(void);

/* RLIMIT_NOFILE, and how many descriptors are open; unlimited and none by default. */
void fake_set_files(uint64_t limit, int open);

/* ---------------------------------------------------------------------------------------------
 * counting */

/*
 * Counts from now on every call that can fail (libfabric's, allocation, system calls), and lets
 * number fail_at fail, or all from that one on; 0: none. variant chooses among the codes that such
 * a call may give.
 */
void fake_count(long fail_at, bool onwards, int variant);

/* Neither counts nor fails what is called from now on; or goes on with it. */
void fake_pause_count(bool pause);

/* How many such calls there were since fake_count(). */
long fake_counted(void);

/* Whether a call of the library's has been answered by this code (positive) since fake_count(). */
bool fake_gave(int code);

/* How many calls of fi_close() have been made to fail since fake_count(). */
int fake_failed_closes(void);

/* Of the call that failed: its name (NULL: none has), the code it gave, and how many variants it
 * has. */
const char *fake_failed_call(void);
int fake_failed_code(void);
int fake_failed_variants(void);

/*
 * Adds the return addresses of all calls that have failed in this process to a file, one a line,
 * relative to the start of the program. scripts/check-sites compares them with all calls that could
 * fail.
 */
int fake_write_sites(const char *path);

#endif
