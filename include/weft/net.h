/* SPDX-License-Identifier: MIT */
/*
 * weft/net.h: layer 1 of libweft: addresses, nets, buffers and operations over one libfabric endpoint.
 *
 * This layer is thin. It adds names, types, pairing rules, a queue per peer and deadlines to libfabric, and no policy
 * about messages. It is unstable until weft 1.0.
 *
 * Rules that hold for every function:
 *
 * - A function returns 0 or a count, or a negative code. Codes are errno values and libfabric's FI_E* values, which
 *   share one space; weft_strerror() names both. errno itself is never part of the contract.
 * - Outputs are written only on success. Closing or unreferencing NULL is allowed and does nothing.
 * - Structs that are passed in or filled start with `size_t size` and have an _INIT macro, so that they can grow. Of a
 *   struct to be filled as much is filled as both sides know, and size says how much that is.
 * - Times are milliseconds in an int: -1 is for ever, 0 is "do not wait". Sizes are bytes. Clocks are monotonic.
 * - If a call that starts an operation returned 0, the callback runs exactly once, later, from weft_net_poll() or
 *   weft_net_close(), never from inside the starting call. If it returned < 0, the callback never runs.
 * - A net belongs to one thread at a time, and so does all that was made with it (buffers, destinations). Only
 *   weft_net_wake() may be called from any thread. Two nets share nothing: use one per thread, core or NIC.
 * - After fork() the child may exec or exit. It must not touch any object of weft.
 * - Memory is host memory. Pointers to device (GPU) memory are refused with -EINVAL or -EFAULT by the provider.
 * - The library prints nothing. What it has to say goes to the log hook of the object concerned.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <stddef.h>
#include <stdint.h>

#include <weft/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/*
 * What a code means, for any negative or positive code of errno or libfabric.
 *
 * Returns a constant text, never NULL. Any thread.
 */
WEFT_API const char *weft_strerror(int code);

/*
 * The version of the library that runs; WEFT_VERSION is the one that was compiled against.
 *
 * Returns a constant text such as "1.2.3". Any thread.
 */
WEFT_API const char *weft_version(void);

enum weft_log_level {
	WEFT_LOG_ERROR = 1, /* a call fails, and this is why, with the cure where one is known */
	WEFT_LOG_WARN = 2,  /* goes on, but not as was asked for or not as is safe */
	WEFT_LOG_INFO = 3,  /* what was opened, chosen, closed */
	WEFT_LOG_DEBUG = 4, /* every peer and every retry */
};

/* Receives one line without a newline. The text is valid during the call. It must not call weft. */
typedef void weft_log_fn(void *user, enum weft_log_level level, const char *text);

/* Room for the raw address of any provider that weft can open. */
#define WEFT_ADDR_MAX 128
/* Room for the text of any address, its terminating NUL included. */
#define WEFT_ADDR_TEXT_MAX 320

/* Which kind of provider an address belongs to. tcp and udp have the same raw form, so the form alone is not enough. */
enum weft_scheme {
	WEFT_SCHEME_NONE = 0,
	WEFT_SCHEME_EFA = 1,   /* efa://<64 hex digits>: GID, QPN, QKEY as the EFA provider lays them out */
	WEFT_SCHEME_TCP = 2,   /* tcp://1.2.3.4:5 or tcp://[v6]:5 */
	WEFT_SCHEME_UDP = 3,   /* udp://..., RDM over datagrams */
	WEFT_SCHEME_VERBS = 4, /* verbs://..., an IP address that RDMA CM resolves */
	WEFT_SCHEME_SHM = 5,   /* shm://name */
	WEFT_SCHEME_RAW = 6,   /* raw://FORMAT/HEX, any other's; FORMAT is libfabric's addr_format in decimal */
};

/* The address of an endpoint. A plain value: copy it, compare it with weft_addr_equal(). */
struct weft_addr {
	enum weft_scheme scheme;
	uint32_t format; /* libfabric's addr_format, such as FI_ADDR_EFA */
	size_t len;      /* bytes of raw that count */
	uint8_t raw[WEFT_ADDR_MAX];
};

/* Where and why a text is not an address. */
struct weft_parse_error {
	size_t pos; /* offset in bytes of the first byte that is wrong */
	char reason[120];
};

/*
 * Reads an address from text: efa://<64 hex digits>, 64 bare hex digits (EFA), tcp://1.2.3.4:5, tcp://[v6]:5 (with
 * %<number> for a link-local zone), udp:// and verbs:// likewise, shm://name, raw://FORMAT/HEX. The whole text must be
 * the address: blanks, a missing port, port 0, the unspecified address 0.0.0.0 or ::, and reserved fields that are not
 * zero are refused. Names are not looked up.
 *
 * error may be NULL; it is the one output that is written on failure, and only then.
 *
 * Returns 0, or -EINVAL with *error filled. Any thread.
 */
WEFT_API int weft_addr_parse(struct weft_addr *addr, const char *text, struct weft_parse_error *error);

/*
 * Makes an address from raw bytes such as a peer has sent. The checks are those of weft_addr_parse().
 * format is used for WEFT_SCHEME_RAW only; the other schemes know theirs from the scheme and the bytes.
 *
 * Returns 0, or -EINVAL with *error (which may be NULL) saying which byte of raw is wrong and why. Any thread.
 */
WEFT_API int weft_addr_from_raw(struct weft_addr *addr, enum weft_scheme scheme, uint32_t format, const void *raw,
				size_t len, struct weft_parse_error *error);

/*
 * Writes the address as the text that weft_addr_parse() reads back to an equal address.
 *
 * Returns the length without the NUL, or -EINVAL for a damaged address, or -ENOSPC if size is too small
 * (WEFT_ADDR_TEXT_MAX is enough). Any thread.
 */
WEFT_API int weft_addr_format(const struct weft_addr *addr, char *text, size_t size);

/* Tells whether two addresses name the same endpoint. Returns 1 if they do, else 0. Any thread. */
WEFT_API int weft_addr_equal(const struct weft_addr *a, const struct weft_addr *b);

struct weft_net;
struct weft_buf;
struct weft_done;

/* A peer of a net. A value with a generation: a stale one gets -ENOTCONN, never another peer. */
typedef uint64_t weft_dest;
#define WEFT_DEST_NONE ((weft_dest)0)

/*
 * Tells how an operation ended. done and its text are valid during the call; done->buf is the caller's own pointer.
 * The callback may call anything on the net except weft_net_poll() and weft_net_close(), which answer -EBUSY.
 */
typedef void weft_done_fn(struct weft_net *net, const struct weft_done *done);

/* What to open. Start from WEFT_NET_OPTS_INIT; NULL for opts means the same. Strings are copied or used at once. */
struct weft_net_opts {
	size_t size;
	/*
	 * "efa", "tcp", "shm", "udp", "verbs", or a libfabric name such as "tcp;ofi_rxm": nothing else is considered.
	 * NULL: the best of efa, other RDMA, tcp, in this order; shm and udp have to be asked for.
	 */
	const char *provider;
	/* The domain, that is the NIC: "rdmap0s6-rdm", "rdmap0s6", "eth0". NULL: any that qualifies. */
	const char *domain;
	/*
	 * IP providers: "ADDR", "ADDR:PORT", "[V6]:PORT", ":PORT"; NULL is loopback, unless domain or toward say
	 * otherwise. shm: a prefix for the name; a random part always follows it.
	 */
	const char *bind;
	/* Open what reaches this address: its provider, and for IP the local address that the route to it uses. */
	const struct weft_addr *toward;
	/*
	 * Refuse to open anything but this provider; "rdma": anything but a real RDMA device, or one made of software
	 * that domain names.
	 */
	const char *require;
	size_t max_ops;           /* operations started and not released, receives included */
	size_t max_ops_per_peer;  /* of these, to one peer */
	size_t max_held;          /* operations that timed out and that the provider has not let go */
	size_t max_held_per_peer; /* of these, to one peer */
	size_t max_peers;         /* 0: as many as the provider and RLIMIT_NOFILE allow */
	int spin_us;              /* how long weft_net_poll() looks again before it sleeps, in microseconds */
	weft_log_fn *log;         /* may be NULL */
	void *log_user;
};
#define WEFT_NET_OPTS_INIT                                                                                             \
	{                                                                                                              \
		sizeof(struct weft_net_opts), NULL, NULL, NULL, NULL, NULL, 65536, 1024, 1024, 64, 0, 20, NULL, NULL   \
	}

/* One provider, domain and address that could be opened, and why it would be or not. */
struct weft_candidate {
	size_t size;
	struct weft_candidate *next;
	char provider[64];
	char fabric[64];
	char domain[64];
	char addr[WEFT_ADDR_TEXT_MAX]; /* where it would bind, without a port; empty where the provider chooses */
	char nic[64];                  /* the NIC's device name; empty where there is no NIC */
	uint64_t link_bps;             /* link speed in bits a second; 0: not known */
	int numa_node;                 /* -1: not known */
	uint64_t max_msg;              /* the largest message in bytes */
	int chosen;                    /* 1 for the one that weft_net_open() would open with the same options */
	char reason[200];              /* for or against it */
	int suits;                     /* 1: so does its provider; what may not is its domain or address */
};

/*
 * Lists every candidate that libfabric offers here: the chosen one first, each with the reason for or against it. The
 * list is the caller's: free it with weft_candidate_free().
 *
 * Returns the number of candidates (0: libfabric offers none; *list is NULL then), or -EINVAL (an option is wrong; the
 * log hook says which), -ENOMEM, or what the kernel says of the route to opts->toward, such as -ENETUNREACH.
 */
WEFT_API int weft_net_list(const struct weft_net_opts *opts, struct weft_candidate **list);
/* Frees a whole list of weft_net_list(). NULL is allowed. */
WEFT_API void weft_candidate_free(struct weft_candidate *list);

/*
 * Opens a net: a fabric, a domain, an address vector, a completion queue and an endpoint on the candidate that
 * weft_net_list() marks as chosen. The caller owns the net and ends it with weft_net_close().
 *
 * shm installs handlers for SIGINT and SIGTERM when the first such net of a process opens: install yours afterwards.
 *
 * Returns 0, or -EINVAL (an option is wrong), -ENODATA (no candidate fits), -ENOMEM, -EMFILE, or what libfabric said,
 * or the kernel of the route to opts->toward, of a lock file in /dev/shm or of random numbers; the log hook gets the
 * cause and the cure.
 */
WEFT_API int weft_net_open(struct weft_net **net, const struct weft_net_opts *opts);

/*
 * Closes the net. Lets sends that are under way finish for at most 2 s, then ends every operation with -ECANCELED, and
 * closes all in the order that libfabric requires. Callbacks run inside. Buffers that the caller still references stay
 * readable until weft_buf_unref(); all other handles are invalid afterwards.
 *
 * Returns 0; or the number of libfabric objects that could not be closed and were left to the end of the process (where
 * a provider would block without limit, or refuses); or -EBUSY from inside a callback, when nothing was done.
 */
WEFT_API int weft_net_close(struct weft_net *net);

/* What was really opened. The strings live until the net is closed. */
struct weft_net_info {
	size_t size;
	const char *provider;
	const char *fabric;
	const char *domain;
	const char *nic;           /* NULL where there is none */
	uint64_t link_bps;         /* bits a second; 0: not known */
	int numa_node;             /* -1: not known */
	size_t max_msg;            /* largest message of send and receive */
	size_t inject_size;        /* at most so many bytes are copied by the provider when posted */
	size_t tx_size, rx_size;   /* how many operations the provider queues */
	size_t cq_data_size;       /* bytes of remote CQ data; 0: none */
	size_t max_peers;          /* what weft_net_add_peer() allows */
	int has_tagged;            /* weft_net_tsend(), weft_net_trecv() */
	int has_rma;               /* weft_net_read(), weft_net_write() */
	int has_source;            /* a receive tells its sender where that is known */
	int has_wait_fd;           /* sleeps end when a completion comes; otherwise they are timed */
	uint32_t libfabric_built;  /* version in the headers, as FI_VERSION */
	uint32_t libfabric_running;
	const char *caveat;        /* what is not promised on this provider or device; NULL: nothing */
};
#define WEFT_NET_INFO_INIT                                                                                             \
	{                                                                                                              \
		sizeof(struct weft_net_info), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL   \
	}

/* Tells what was really opened: fills *info, whose size must be set. Returns 0 or -EINVAL. */
WEFT_API int weft_net_get_info(const struct weft_net *net, struct weft_net_info *info);

/* Gives the net's own address, to be given to peers. Returns 0. */
WEFT_API int weft_net_get_addr(const struct weft_net *net, struct weft_addr *addr);

/* What is in use now, and what has happened since open. */
struct weft_net_stats {
	size_t size;
	/* now */
	uint64_t ops;         /* operations not ended, receives included */
	uint64_t ops_queued;  /* of these, waiting in their peer's queue */
	uint64_t receives;    /* of these, receives */
	uint64_t held;        /* operations ended for the caller that the provider has not let go */
	uint64_t peers;       /* address vector entries in use, those being removed included */
	uint64_t buffers;     /* buffers of this net that exist */
	uint64_t buffer_bytes;
	/* since open */
	uint64_t sent;        /* sends, reads and writes that completed */
	uint64_t sent_bytes;
	uint64_t received;    /* receives that completed */
	uint64_t received_bytes;
	uint64_t errors;      /* operations that ended with an error of the provider */
	uint64_t timeouts;    /* operations that ended at their deadline */
	uint64_t canceled;    /* operations that ended because the peer was removed */
	uint64_t retries;     /* posts that the provider answered with "again" */
	uint64_t refused;     /* operations and peers refused at a limit */
	uint64_t late;        /* completions that came after the deadline had ended the operation */
	uint64_t sleeps;      /* times that weft_net_poll() slept */
	/* now */
	uint64_t held_bytes;  /* of the buffers, but for those of weft_buf_wrap(), that held operations are of */
};
#define WEFT_NET_STATS_INIT                                                                                            \
	{                                                                                                              \
		sizeof(struct weft_net_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                 \
	}

/* Tells what a net does and has done: fills *stats, whose size must be set. Returns 0 or -EINVAL. */
WEFT_API int weft_net_get_stats(const struct weft_net *net, struct weft_net_stats *stats);

struct fi_info;
struct fid_fabric;
struct fid_domain;
struct fid_av;
struct fid_cq;
struct fid_ep;

/* libfabric's own objects under a net, for what weft does not wrap. */
struct weft_fabric {
	size_t size;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};
#define WEFT_FABRIC_INIT                                                                                               \
	{                                                                                                              \
		sizeof(struct weft_fabric), NULL, NULL, NULL, NULL, NULL, NULL                                         \
	}

/*
 * Gives libfabric's own objects under a net: fills *fabric, whose size must be set. They stay the net's: do not close
 * them, and do not read its completion queue. Returns 0 or -EINVAL.
 */
WEFT_API int weft_net_fabric(const struct weft_net *net, struct weft_fabric *fabric);

/*
 * Makes a peer known, so that one can send to it. The address is checked before the provider sees it. Adding an address
 * that is known gives the same handle and counts a reference.
 *
 * Returns 0, or -EINVAL (not an address of this net's provider), -ENOSPC (the provider's, the process's or max_peers'
 * limit is reached; the log hook says which), -EADDRNOTAVAIL (the provider refuses the address), -ENOMEM, -ECANCELED
 * (the net is closing).
 */
WEFT_API int weft_net_add_peer(struct weft_net *net, const struct weft_addr *addr, weft_dest *dest);

/*
 * Drops a reference to a peer. With the last one the handle is stale at once, and operations to the peer that have not
 * ended end with -ECANCELED. The address leaves the address vector when the provider has let go of all of them and a
 * later poll has read what had arrived: until then it counts as a peer in the statistics and for max_peers. Where the
 * provider could not take that (efa, and shm before libfabric 2.0), it stays there and counts no more.
 *
 * Returns 0, or -ENOTCONN for a stale handle.
 */
WEFT_API int weft_net_remove_peer(struct weft_net *net, weft_dest dest);

/* Gives the address of a peer. Returns 0, or -ENOTCONN for a stale handle. */
WEFT_API int weft_net_get_peer_addr(const struct weft_net *net, weft_dest dest, struct weft_addr *addr);

/*
 * Allocates a buffer: memory, page-aligned and zeroed, registered for send and receive on this net. The caller owns
 * one reference. Each operation holds another one until the provider has let go of the memory, so the caller may drop
 * its own at any time.
 *
 * On shm, where the kernel copies long messages out of the sender's memory page by page, buffers from 128 KiB on are of
 * huge pages if the system has some (/sys/kernel/mm/transparent_hugepage/enabled: madvise or always). Those shorter
 * than a huge page share some, so that a single buffer takes 2 MiB, and many together take up to a quarter more than
 * they are long.
 *
 * Returns 0, or -EINVAL (size is 0), -ENOMEM (also: RLIMIT_MEMLOCK), -ECANCELED (the net is closing), or what the
 * provider said.
 */
WEFT_API int weft_buf_alloc(struct weft_net *net, size_t size, struct weft_buf **buf);

/*
 * Gives memory back to its owner. Runs once, from weft_buf_unref(), weft_net_poll() or weft_net_close(). It may call
 * anything on the net except weft_net_poll() and weft_net_close(), which answer -EBUSY.
 */
typedef void weft_release_fn(void *data, size_t size, void *user);

/*
 * Makes a buffer of the caller's memory, and registers it. It must stay valid and must not be unmapped until release
 * has run, which is when the last reference is gone and the provider has let go: that may be only at weft_net_close().
 * release may be NULL. On shm long messages are sent several times as fast from memory of huge pages: madvise(2),
 * MADV_HUGEPAGE.
 *
 * Where a provider cannot let go (see weft_net_close()), release never runs, and the memory must never be freed.
 *
 * Returns 0, or as weft_buf_alloc(); release does not run on failure.
 */
WEFT_API int weft_buf_wrap(struct weft_net *net, void *data, size_t size, weft_release_fn *release, void *user,
			   struct weft_buf **buf);

/* The memory of a buffer, and its size in bytes. Returns where it begins, or how long it is. */
WEFT_API void *weft_buf_data(struct weft_buf *buf);
WEFT_API size_t weft_buf_size(const struct weft_buf *buf);
/* Takes one more reference to a buffer. Returns buf. */
WEFT_API struct weft_buf *weft_buf_ref(struct weft_buf *buf);
/* Drops a reference to a buffer. NULL is allowed. */
WEFT_API void weft_buf_unref(struct weft_buf *buf);

#define WEFT_ACCESS_READ 1u  /* peers may read the buffer */
#define WEFT_ACCESS_WRITE 2u /* peers may write the buffer */

/* What a peer needs to reach a buffer by weft_net_read() and weft_net_write(). To be carried to it by the caller. */
struct weft_remote {
	uint64_t addr; /* of the buffer's first byte */
	uint64_t key;
	uint64_t len;
};

/*
 * Opens the whole buffer to one-sided access: by every peer that knows the key, until the net is closed. access is
 * WEFT_ACCESS_READ, WEFT_ACCESS_WRITE or both. No provider tells when a peer's access has ended, so the net keeps the
 * buffer until then, whoever else drops it. Calling it again with the same access gives the same key.
 *
 * Returns 0, or -EOPNOTSUPP (the provider has no RMA), -EINVAL, -EALREADY (shared with other access), -ENOMEM, or what
 * the provider said.
 */
WEFT_API int weft_buf_share(struct weft_buf *buf, unsigned access, struct weft_remote *remote);

#define WEFT_POST_CQ_DATA 1u /* cq_data goes with the message, beside its bytes */

#define WEFT_DEFAULT_TIMEOUT_MS 5000

/* One operation to start. Start from WEFT_POST_INIT. It is read during the call only. */
struct weft_post {
	size_t size;
	struct weft_buf *buf;
	size_t off;         /* where in buf the bytes start */
	size_t len;         /* how many; 0 is allowed for sends */
	uint64_t tag;       /* tagged operations */
	uint64_t ignore;    /* weft_net_trecv(): bits of the tag that need not match */
	uint64_t cq_data;   /* with WEFT_POST_CQ_DATA; at most cq_data_size bytes of it are carried */
	unsigned flags;     /* WEFT_POST_* */
	int timeout_ms;     /* sends, reads, writes, counted from the next poll; receives have no deadline */
	uint64_t remote_addr; /* reads and writes: struct weft_remote's addr, plus an offset */
	uint64_t remote_key;
};
#define WEFT_POST_INIT                                                                                                 \
	{                                                                                                              \
		sizeof(struct weft_post), NULL, 0, 0, 0, 0, 0, 0, WEFT_DEFAULT_TIMEOUT_MS, 0, 0                        \
	}

#define WEFT_DONE_CQ_DATA 1u /* cq_data is valid */

/* How an operation ended. */
struct weft_done {
	size_t size;
	int status;           /* 0, or a negative code */
	int prov_errno;       /* the provider's own code, 0 where there is none */
	const char *text;     /* what the provider says of it; "" where status is 0; never NULL */
	const char *advice;   /* what to do about it, in plain words; NULL where nothing better than text is known */
	struct weft_buf *buf; /* the operation's buffer; NULL where it had none */
	size_t off;           /* where in buf its bytes start */
	size_t len;           /* bytes moved; of a receive, bytes received */
	uint64_t tag;         /* tagged receives: the sender's tag */
	weft_dest source;     /* receives: the sender, if it is a known peer and the provider tells; sends: the peer */
	uint64_t cq_data;     /* receives, with WEFT_DONE_CQ_DATA */
	unsigned flags;       /* WEFT_DONE_* */
	void *user;
};

/*
 * Posts a receive of the next untagged message, into the whole of buf. Receives match messages of any peer, in the
 * order posted, and have no deadline. One that ended in an error can be posted again at once, also from its own
 * callback; on efa into another buffer, since the provider may still write to this one, and the net keeps it until
 * close.
 *
 * A message longer than the buffer ends with -FI_ETRUNC. On udp it is cut short without an error, and on shm one of
 * more than 4096 bytes hangs the receiver inside libfabric, as tried with 1.17 and 2.1: agree on a largest message
 * there.
 *
 * More receives than the provider has room for wait, in order, until it has.
 *
 * Returns 0 (done will be called); or -EINVAL, -ENOBUFS (max_ops), -ENOMEM, -ECANCELED (the net is closing), or what
 * the provider said.
 */
WEFT_API int weft_net_recv(struct weft_net *net, struct weft_buf *buf, weft_done_fn *done, void *user);

/*
 * Asks for the end of the receives that were posted with this callback and user. Each ends with -ECANCELED, in a later
 * poll, unless a message has reached it first; where the provider does not let go of one, it stays.
 *
 * Returns how many were asked to end.
 */
WEFT_API int weft_net_cancel(struct weft_net *net, weft_done_fn *done, void *user);

/*
 * Sends post->len bytes of post->buf to a peer. Operations to one peer are handed to the provider in the order started;
 * while the provider says "again" they wait in the peer's own queue, and other peers are not held up. buf may be NULL
 * where len is 0.
 *
 * The bytes must not be changed until done is called. Status 0 means that the provider has taken the message, not that
 * the peer has it. -ETIMEDOUT means that it is not known to be delivered, but it may have been: the memory may still be
 * read by the device, so do not write to it again before weft_net_close(); the library keeps it alive.
 *
 * Returns 0 (done will be called); or -ENOTCONN (stale dest), -EINVAL (also: post is out of the buffer's range),
 * -EMSGSIZE (longer than max_msg), -EOPNOTSUPP (CQ data that the provider cannot carry), -ENOBUFS (max_ops or
 * max_ops_per_peer), -EHOSTUNREACH (the peer holds max_held_per_peer unanswered operations, or all peers max_held),
 * -ENOMEM, -ECANCELED (the net is closing), or what the provider said.
 */
WEFT_API int weft_net_send(struct weft_net *net, weft_dest dest, const struct weft_post *post, weft_done_fn *done,
			   void *user);

/*
 * Sends a tagged message: as weft_net_send(), to a receive of weft_net_trecv() that matches post->tag.
 *
 * Returns as weft_net_send(); -EOPNOTSUPP where there are no tags.
 */
WEFT_API int weft_net_tsend(struct weft_net *net, weft_dest dest, const struct weft_post *post, weft_done_fn *done,
			    void *user);

/*
 * Posts a receive of a tagged message: as weft_net_recv(), into post->len bytes at post->off.
 *
 * Returns as weft_net_recv(); -EOPNOTSUPP where there are no tags.
 */
WEFT_API int weft_net_trecv(struct weft_net *net, const struct weft_post *post, weft_done_fn *done, void *user);

/*
 * Reads from, or writes to, a buffer that a peer has shared: at post->remote_addr under post->remote_key, as its
 * weft_buf_share() has told it. The peer's program is not told. On providers without RDMA hardware it has to poll
 * nevertheless.
 *
 * Returns as weft_net_send(); -EOPNOTSUPP where the provider has no RMA.
 */
WEFT_API int weft_net_read(struct weft_net *net, weft_dest dest, const struct weft_post *post, weft_done_fn *done,
			   void *user);
WEFT_API int weft_net_write(struct weft_net *net, weft_dest dest, const struct weft_post *post, weft_done_fn *done,
			    void *user);

/*
 * Takes one turn of a net: makes progress, runs callbacks, and sleeps until there is something to do, at most
 * timeout_ms. It returns as soon as at least one callback has run or weft_net_wake() was called. Nothing moves on a
 * net that is not polled, neither its own operations nor those of its peers.
 *
 * Returns the number of callbacks that ran (0: time is up, woken, or a signal came), or -EBUSY from inside a callback,
 * or -EIO where the completion queue is broken (an overrun, or the device is gone); close the net then.
 */
WEFT_API int weft_net_poll(struct weft_net *net, int timeout_ms);

/*
 * Gives a descriptor for an event loop of the caller's own. It is readable when weft_net_poll(net, 0) has something to
 * do, provided that weft_net_arm() was called before the sleep. It stays the net's: do not read or close it.
 *
 * Returns the descriptor.
 */
WEFT_API int weft_net_fd(const struct weft_net *net);

/*
 * Prepares weft_net_fd() for a sleep. To be called each time, directly before the loop sleeps.
 *
 * Returns 0: work is pending, poll first; > 0: sleep for at most so many milliseconds, or until the descriptor is
 * readable (INT_MAX: nothing is due); or a negative code as from weft_net_poll().
 */
WEFT_API int weft_net_arm(struct weft_net *net);

/* Makes the running or the next weft_net_poll() return, and weft_net_fd() readable. Any thread, and signal handlers. */
WEFT_API void weft_net_wake(struct weft_net *net);

#ifdef __cplusplus
}
#endif

#endif
