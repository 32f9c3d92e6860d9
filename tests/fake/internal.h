/* SPDX-License-Identifier: MIT */
/* What the parts of the fake fabric know of each other. Tests use fake.h only. */
#ifndef WEFT_TESTS_FAKE_INTERNAL_H
#define WEFT_TESTS_FAKE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fake.h"

/* ---- check.c: what is wrong with the caller, and memory that it must not touch */

__attribute__((format(printf, 1, 2))) void fake__violation(const char *format, ...);

/* Memory of the test's own that must be there. */
void *fake__zalloc(size_t size);

uint64_t fake__sum(const void *data, size_t len);
void fake__poison(const void *data, size_t len);
void fake__unpoison(const void *data, size_t len);

/* ---- clock.c */

typedef void fake__event_fn(void *arg);
struct fake__event;

struct fake__event *fake__schedule(int64_t at_ns, fake__event_fn *fn, void *arg);
void fake__unschedule(struct fake__event *event);
/* Runs what is due at the present. */
void fake__run_due(void);
/* Goes to the next event, but not beyond until, and runs it. Returns whether there was one. */
bool fake__run_next(int64_t until);
/* A failed call costs time, so that a loop that does nothing but fail comes to its end. */
void fake__spend(int64_t ns);
int64_t fake__read_clock(void);
void fake__clock_reset(void);

/* ---- script.c: counting, failing */

enum fake__kind {
	FAKE__ALLOC,
	FAKE__FD,
	FAKE__FILE,
	FAKE__LOCK,
	FAKE__RANDOM,
	FAKE__SLEEP,
	FAKE__IO,
	FAKE__SOCKET,
	FAKE__GETINFO,
	FAKE__DUPINFO,
	FAKE__OPEN,
	FAKE__REG,
	FAKE__INSERT,
	FAKE__REMOVE,
	FAKE__POST,
	FAKE__CQ_READ,
	FAKE__CQ_ERROR,
	FAKE__CQ_TEXT,
	FAKE__EQ_READ,
	FAKE__TRYWAIT,
	FAKE__CLOSE,
	FAKE__KINDS,
};

struct fake__addr {
	size_t len;
	uint8_t raw[WEFT_ADDR_MAX];
};

/*
 * To be asked first by everything that the library calls and that can fail. to: the peer of a post,
 * or NULL. Returns 0, or the code to fail with.
 */
int fake__gate(const char *call, enum fake__kind kind, const struct fake__addr *to);

/* What becomes of an operation that has been posted. */
struct fake_fate fake__take_fate(const char *call, const struct fake__addr *to);
void fake__script_reset(void);

/* ---- system.c */

/* Memory that the library may free, as libfabric's is: info structs. */
void *fake__shared_zalloc(size_t size);
void fake__shared_free(void *memory);
void fake__system_reset(void);
size_t fake__allocations(void);
size_t fake__open_files(void);
size_t fake__shm_names(void);
/* Makes or removes the file in /dev/shm behind the name of a shm endpoint. */
void fake__segment(const char *name, bool there);

/* ---- objects.c */

enum fake__state {
	FAKE__LIVE = 0x11fe,
	FAKE__STUCK = 0x57c4, /* could not be closed, and must not be touched again */
	FAKE__CLOSED = 0xdead,
};

/* What all objects have. Closed ones are kept until the next reset, so that their use is seen. */
struct fake__object {
	enum fake__state state;
	const char *what;
	struct fake__object *parent;
	size_t children;
	void *memory;
	TAILQ_ENTRY(fake__object) link;
};

TAILQ_HEAD(fake__works, fake__work);
TAILQ_HEAD(fake__packets, fake__packet);

struct fake__fabric {
	struct fid_fabric fid;
	struct fake__object object;
	struct fake_provider *provider;
};

struct fake__eq {
	struct fid_eq fid;
	struct fake__object object;
};

struct fake__mr {
	struct fid_mr fid;
	struct fake__object object;
	struct fake__domain *domain;
	uint8_t *data;
	size_t len;
	uint64_t access;
	size_t works; /* that use it */
	LIST_ENTRY(fake__mr) link;
};

struct fake__domain {
	struct fid_domain fid;
	struct fake__object object;
	struct fake__fabric *fabric;
	struct fake_provider *provider;
	uint64_t next_key;
	LIST_HEAD(, fake__mr) mrs;
};

#define FAKE__AV_MAX 512
/* Handles begin here: callers must not look into them. */
#define FAKE__FIRST_FI_ADDR 100

struct fake__av {
	struct fid_av fid;
	struct fake__object object;
	struct fake__domain *domain;
	bool poisoned; /* by an address of another kind */
	struct {
		bool used;
		size_t works; /* under way to it */
		struct fake__addr addr;
	} entry[FAKE__AV_MAX];
};

struct fake__completion {
	TAILQ_ENTRY(fake__completion) link;
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	int err; /* 0: not an error, unless is_error */
	bool is_error;
	int prov_errno;
	const char *err_data;
};

TAILQ_HEAD(fake__completions, fake__completion);

struct fake__cq {
	struct fid_cq fid;
	struct fake__object object;
	struct fake__domain *domain;
	int fd; /* -1: none */
	bool armed;
	bool overrun;
	size_t size, count;
	struct fake__completions completions;
};

struct fake__connection {
	SLIST_ENTRY(fake__connection) link;
	struct fake__addr to;
	bool up;
};

struct fake__ep {
	struct fid_ep fid;
	struct fake__object object;
	struct fake__domain *domain;
	struct fake_provider *provider;
	struct fake__cq *tx, *rx;
	struct fake__av *av;
	bool enabled;
	enum fake_peer peer;
	uint8_t bind_addr[WEFT_ADDR_MAX]; /* where the caller wants it */
	size_t bind_len;
	struct fake__addr addr;
	size_t sends, receives;
	struct fake__works works;
	struct fi_context2 *ended; /* the context of the operation that has ended last */
	struct fake__cq *ended_queue;
	struct fake__packets inbox;	 /* arrived, not seen by the provider: nobody has polled */
	struct fake__packets unexpected; /* without a receive */
	SLIST_HEAD(, fake__connection) connections;
	LIST_ENTRY(fake__ep) link;
};

/* An operation that the provider has. */
struct fake__work {
	TAILQ_ENTRY(fake__work) link;
	struct fake__ep *ep;
	const char *call;
	bool receives, tagged, reads, writes;
	struct fi_context2 *context; /* where the provider does not use it, it need not be an address */
	uint8_t *data;
	size_t len;
	uint64_t tag, ignore, cq_data;
	bool has_cq_data;
	fi_addr_t to; /* of sends: the entry of the address vector */
	struct fake__addr to_addr;
	uint64_t remote_addr, remote_key;
	struct fake__mr *mr;
	uint64_t sum; /* of its bytes when it was posted */
	bool guarded; /* its bytes must not change */
	bool poisoned;
	struct fake_fate fate;
};

struct fake__packet {
	TAILQ_ENTRY(fake__packet) link;	 /* of an inbox or of unexpected ones */
	TAILQ_ENTRY(fake__packet) world; /* of all */
	struct fake__addr from, to;
	bool tagged, reads, writes;
	uint64_t tag, cq_data;
	bool has_cq_data;
	uint64_t remote_addr, remote_key;
	uint8_t *data;
	size_t len;
	struct fake__work *work; /* to complete on arrival, or NULL */
};

TAILQ_HEAD(fake__object_list, fake__object);
extern struct fake__object_list fake__objects;

void fake__objects_reset(void);
void fake__born(struct fake__object *object, const char *what, struct fake__object *parent,
		void *memory);
void fake__died(struct fake__object *object);
/* What fi_close() does first, for all. Returns 0, or the code to answer with. */
int fake__begin_close(struct fake__object *object);
/* That an object may be used; says so if not. */
bool fake__usable(struct fake__object *object, const char *call);
size_t fake__open_objects(void);

/* ---- av.c, queue.c, memory.c, endpoint.c: what a domain can open, and how they are found */

int fake__av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
		  void *context);
bool fake__addr_equal(const struct fake__addr *a, const struct fake__addr *b);

int fake__cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		  void *context);
/* Throws away what is in it, and closes its descriptor. */
void fake__queue_empty(struct fake__cq *cq);
/* The descriptor of a live completion queue: whether fi_trywait() has allowed a sleep on it. Other
 * ones: true. */
bool fake__may_sleep(int fd);

int fake__mr_reg(struct fid *fid, const void *data, size_t len, uint64_t access, uint64_t offset,
		 uint64_t key, uint64_t flags, struct fid_mr **out, void *context);
/* Says so if the provider still has this memory. */
void fake__check_free(const void *memory, size_t len);

LIST_HEAD(fake__ep_list, fake__ep);
extern struct fake__ep_list fake__eps;

int fake__ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context);
/* The live endpoint at an address, or NULL. */
struct fake__ep *fake__find_ep(const struct fake__addr *addr);
size_t fake__open_works(void);
void fake__endpoints_reset(void);

/* ---- transfer.c: posting, matching, completing */

void fake__transfer_reset(void);

extern struct fi_ops_msg fake__ops_msg;
extern struct fi_ops_tagged fake__ops_tagged;
extern struct fi_ops_rma fake__ops_rma;

/*
 * The provider lets go of an operation, without a completion. checks: that its memory is as it was;
 * not of a lost world, whose memory may be gone.
 */
void fake__let_go(struct fake__work *work, bool checks);
/* Lets go of it and says how it ended. err 0: well. */
void fake__finish(struct fake__work *work, size_t len, int err, int prov_errno,
		  const char *err_data);
void fake__complete(struct fake__cq *cq, const struct fake__completion *completion);
/* A receive has been posted: it may match what has come already. */
void fake__match_unexpected(struct fake__work *work);
/* What the provider does when its caller polls. */
void fake__progress(struct fake__cq *cq);
void fake__signal(struct fake__cq *cq);

/* ---- network.c: what is on the way */

void fake__network_reset(void);
/* Whether somebody is at this address who could answer. */
bool fake__is_there(const struct fake__addr *addr);
/* Whether the two have met; if not, they will have when the other has polled. */
bool fake__connect(struct fake__ep *ep, const struct fake__addr *to);
/* The endpoint's owner polls: who waits for it may send from now on. */
void fake__accept(struct fake__ep *ep);
/* Sends what the operation says. */
void fake__transmit(struct fake__work *work);
/* Ends an operation with an error after a while. */
void fake__break_later(struct fake__work *work, int err, int prov_errno, const char *err_data);
void fake__packet_free(struct fake__packet *packet);
/* The operation is gone: nothing on the way may tell of it. */
void fake__forget_work(struct fake__work *work);

/* ---- provider.c */

struct fake_provider *fake__provider_named(const char *name, const char *domain);
void fake__providers_reset(void);

#endif
