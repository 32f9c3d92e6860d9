/* SPDX-License-Identifier: MIT */
/*
 * Frames as bytes: version 1 of the wire protocol, doc/protocol.md. Pure: reads from and writes to memory that it is
 * given, knows no clock, no libfabric and no allocator. Calls nothing of weft but addr's check of an address.
 *
 * Nothing need be aligned. Readers check every length and leave *out alone when they refuse.
 */
#ifndef WEFT_WIRE_H
#define WEFT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

#define WEFT__WIRE_VERSION 1
#define WEFT__HEADER_LEN 32
#define WEFT__RECORD_LEN 16
#define WEFT__BUNDLED_LEN 8
#define WEFT__COMPACT_LEN 32
#define WEFT__FRAME_MIN 1024
#define WEFT__TEXT_MAX 200
#define WEFT__PROVIDER_MAX 63

enum weft__frame_type {
	WEFT__CONNECT = 1,
	WEFT__ACCEPT = 2,
	WEFT__REJECT = 3,
	WEFT__DATA = 4,
	WEFT__OFFER = 5,
	WEFT__GRANT = 6,
	WEFT__ABORT = 7,
	WEFT__CREDIT = 8,
	WEFT__PING = 9,
	WEFT__PONG = 10,
	WEFT__CLOSE = 11,
	WEFT__CLOSED = 12,
	WEFT__BUNDLE = 13,
	WEFT__TYPE_MAX = 13,
};

#define WEFT__FLAG_ACK_NOW 1u

/* In place of how much is to follow: the message is given up. */
#define WEFT__REST_NEVER UINT32_MAX

#define WEFT__FEATURE_AUTH 1u
#define WEFT__FEATURE_REORDER 2u
#define WEFT__FEATURE_BULK 4u
#define WEFT__FEATURE_BUNDLE 8u
#define WEFT__FEATURE_COMPACT 16u

struct weft__header {
	uint8_t version;
	uint8_t type;
	uint8_t flags;
	uint64_t session;
	uint32_t number;
	uint32_t ack;
	uint32_t credit;
	uint32_t returned;
};

/* CONNECT and ACCEPT. */
struct weft__hello {
	uint8_t version_min, version_max;
	uint32_t features, required;
	uint32_t max_frame;
	uint64_t instance, session, nonce;
	uint64_t max_message;
	uint32_t keepalive_ms, silence_ms;
	uint32_t libfabric;
	struct weft_addr addr;
	char provider[WEFT__PROVIDER_MAX + 1];
};

/* REJECT and CLOSE. `quoted` is the nonce, or the session id that is not known; only in REJECT. */
struct weft__farewell {
	uint64_t quoted;
	uint16_t reason, code;
	uint16_t text_len;
	char text[WEFT__TEXT_MAX + 1]; /* a NUL after text_len bytes */
};

struct weft__offer {
	uint32_t id, reply_to;
	uint64_t len;
};

struct weft__grant {
	uint32_t id, chunk;
	uint64_t tag;
	uint32_t count;
};

struct weft__abort {
	uint32_t id;
	bool by_receiver;
	uint16_t reason;
};

struct weft__ping {
	uint64_t session, instance;
	struct weft_addr addr;
};

struct weft__record {
	uint32_t id, reply_to, len;
	uint32_t rest; /* bytes of the same message that follow in later records; what is not the whole is alone */
	const uint8_t *data;
};

/* The room that a record with so many bytes takes in a frame. */
static inline size_t weft__record_room(size_t len)
{
	return (WEFT__RECORD_LEN + len + 7) & ~(size_t)7;
}

/* The room that a frame of so many bytes takes in a BUNDLE. */
static inline size_t weft__bundled_room(size_t len)
{
	return (WEFT__BUNDLED_LEN + len + 7) & ~(size_t)7;
}

/* The room that a message of so many bytes takes in a BUNDLE, in the compact form. */
static inline size_t weft__compact_room(size_t len)
{
	return (WEFT__COMPACT_LEN + len + 7) & ~(size_t)7;
}

/* Whether number a is after b, where numbers wrap. */
static inline bool weft__after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* Writes the header. Returns WEFT__HEADER_LEN. */
size_t weft__wire_put_header(uint8_t *frame, const struct weft__header *header);

/*
 * Reads a header. Returns where the contents begin, or 0 if this is not a frame of this protocol: too short, another
 * magic, a type or version that is not known, an unknown flag that must be understood, or a CREDIT, PONG or CLOSED with
 * contents, which has none.
 */
size_t weft__wire_get_header(const uint8_t *frame, size_t len, struct weft__header *header);

/*
 * Each put_ writes contents to `to`, where `room` bytes are free, and returns how many it wrote, or 0 if they do not
 * fit. Each get_ reads all `len` bytes of contents, and returns false if they are malformed.
 */
size_t weft__wire_put_hello(uint8_t *to, size_t room, const struct weft__hello *hello);
bool weft__wire_get_hello(const uint8_t *from, size_t len, struct weft__hello *hello);

size_t weft__wire_put_reject(uint8_t *to, size_t room, const struct weft__farewell *reject);
bool weft__wire_get_reject(const uint8_t *from, size_t len, struct weft__farewell *reject);

size_t weft__wire_put_close(uint8_t *to, size_t room, const struct weft__farewell *close);
bool weft__wire_get_close(const uint8_t *from, size_t len, struct weft__farewell *close);

size_t weft__wire_put_offer(uint8_t *to, size_t room, const struct weft__offer *offer);
bool weft__wire_get_offer(const uint8_t *from, size_t len, struct weft__offer *offer);

size_t weft__wire_put_grant(uint8_t *to, size_t room, const struct weft__grant *grant);
bool weft__wire_get_grant(const uint8_t *from, size_t len, struct weft__grant *grant);

size_t weft__wire_put_abort(uint8_t *to, size_t room, const struct weft__abort *abort);
bool weft__wire_get_abort(const uint8_t *from, size_t len, struct weft__abort *abort);

size_t weft__wire_put_ping(uint8_t *to, size_t room, const struct weft__ping *ping);
bool weft__wire_get_ping(const uint8_t *from, size_t len, struct weft__ping *ping);

/* Writes a record's head; its bytes follow at the place returned. The caller has made sure of weft__record_room(). */
uint8_t *weft__wire_put_record(uint8_t *to, uint32_t id, uint32_t reply_to, uint32_t len);

/* Writes into a record at `to` how much of its message follows in later ones; 0 unless called. */
void weft__wire_put_rest(uint8_t *to, uint32_t rest);

/* The same of the first record of a DATA frame, whose contents are not checked yet. */
uint32_t weft__wire_peek_rest(const uint8_t *from, size_t len);

/*
 * Reads the record at *at of the contents of a DATA frame, and moves *at to the next one. Returns 1, or 0 at the end,
 * or -1 if it is malformed. A DATA frame without a record is malformed: the first call then returns -1.
 */
int weft__wire_get_record(const uint8_t *from, size_t len, size_t *at, struct weft__record *record);

/* Writes a frame of `len` bytes into the contents of a BUNDLE. The caller has made sure of weft__bundled_room(). */
void weft__wire_put_bundled(uint8_t *to, const uint8_t *frame, size_t len);

/*
 * Writes a message of `len` bytes, less than 2^24, into the contents of a BUNDLE in the compact form, and returns where
 * its bytes follow. The caller has made sure of weft__compact_room(), and writes the rest of the head next.
 */
uint8_t *weft__wire_put_compact(uint8_t *to, uint32_t len, uint32_t reply_to);

/* Writes what the header of a DATA frame would say into the head of a compact form. */
void weft__wire_put_compact_header(uint8_t *head, const struct weft__header *header);
/* The same of what changes until it leaves: the flags, acknowledgement and credit. */
void weft__wire_put_compact_news(uint8_t *head, const struct weft__header *header);

/*
 * What the head of a compact form says: the header of the DATA frame that it stands for, and its record, whose id is 0:
 * it is the next one.
 */
void weft__wire_get_compact(const uint8_t *head, struct weft__header *header);
void weft__wire_get_compact_record(const uint8_t *head, struct weft__record *record);

/* The session id of what weft__wire_get_bundled() has found, of either form. */
uint64_t weft__wire_peek_session(const uint8_t *frame);

enum weft__bundled {
	WEFT__BUNDLED_BAD = -1, /* nothing, half a head, a frame shorter than a header, or one longer than the rest */
	WEFT__BUNDLED_END,
	WEFT__BUNDLED_FRAME,
	WEFT__BUNDLED_COMPACT, /* a message in the compact form: its head, and its bytes */
};

/* Reads where the next of what the contents of a BUNDLE hold lies, and moves *at beyond it. */
enum weft__bundled weft__wire_get_bundled(const uint8_t *from, size_t len, size_t *at, const uint8_t **frame,
					  size_t *frame_len);

#endif
