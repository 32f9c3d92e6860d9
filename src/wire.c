/* SPDX-License-Identifier: MIT */
/*
 * wire.c: frames as bytes, as doc/protocol.md lays them out: offsets in this file are those of its
 * tables.
 *
 * Of weft it calls addr.c only, and libc for memcpy() and its like. It keeps no state, so every
 * function can be called from any thread.
 *
 * Readers refuse what no honest peer of any version sends. What one may send and this side cannot
 * use (a version, a reason, a length for which there is no memory) is for the session to judge,
 * which can answer. So a name or an id that comes out of here is safe to print and to look up.
 */
#include <endian.h>
#include <string.h>

#include "wire.h"

#define MAGIC_0 0x77
#define MAGIC_1 0x66

/* A newer peer may have more to say in a header, but must leave the frame to its contents. */
#define HEADER_LONGEST 64u

/* The contents before the part that varies in length. */
#define HELLO_LEN 60u
#define ADDR_LEN 8u
#define FAREWELL_LEN 8u
#define QUOTED_LEN 8u
#define OFFER_LEN 16u
#define GRANT_LEN 24u
#define ABORT_LEN 8u
#define PING_LEN 16u

/* In the first word of what a BUNDLE holds: it is a message in the compact form, of so many bytes.
 */
#define COMPACT_FORM 0x80000000u
#define COMPACT_LEN_MASK 0x00ffffffu

#define BY_SENDER 1
#define BY_RECEIVER 2

static void put16(uint8_t *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static void put32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static void put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *from)
{
	uint16_t value;
	memcpy(&value, from, sizeof(value));
	return le16toh(value);
}

static uint32_t get32(const uint8_t *from)
{
	uint32_t value;
	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const uint8_t *from)
{
	uint64_t value;
	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

static void put_news(uint8_t *to, const struct weft__header *header)
{
	put32(to, header->ack);
	put32(to + 4, header->credit);
	put32(to + 8, header->returned);
}

/* The session, and where the frame stands in it: the same in both kinds of head. */
static void get_places(const uint8_t *from, struct weft__header *header)
{
	header->session = get64(from);
	header->number = get32(from + 8);
	header->ack = get32(from + 12);
	header->credit = get32(from + 16);
	header->returned = get32(from + 20);
}

size_t weft__wire_put_header(uint8_t *frame, const struct weft__header *header)
{
	frame[0] = MAGIC_0;
	frame[1] = MAGIC_1;
	frame[2] = header->version;
	frame[3] = header->type;
	frame[4] = header->flags;
	frame[5] = 0;
	put16(frame + 6, WEFT__HEADER_LEN);
	put64(frame + 8, header->session);
	put32(frame + 16, header->number);
	put_news(frame + 20, header);
	return WEFT__HEADER_LEN;
}

size_t weft__wire_get_header(const uint8_t *frame, size_t len, struct weft__header *header)
{
	uint8_t type;
	size_t header_len;

	if (len < WEFT__HEADER_LEN || frame[0] != MAGIC_0 || frame[1] != MAGIC_1)
		return 0;
	type = frame[3];
	if (frame[2] != WEFT__WIRE_VERSION || type == 0 || type > WEFT__TYPE_MAX || frame[5] != 0)
		return 0;
	header_len = get16(frame + 6);
	if (header_len < WEFT__HEADER_LEN || header_len > HEADER_LONGEST || header_len > len)
		return 0;
	/* These have no contents, so nothing else would notice that there are some. */
	if ((type == WEFT__CREDIT || type == WEFT__PONG || type == WEFT__CLOSED) &&
	    header_len != len)
		return 0;
	header->version = frame[2];
	header->type = type;
	header->flags = frame[4];
	get_places(frame + 8, header);
	return header_len;
}

/* The address as CONNECT, ACCEPT and PING have it. Returns its length here, 0 if it does not fit.
 */
static size_t put_addr(uint8_t *to, size_t room, const struct weft_addr *addr)
{
	if (addr->len == 0 || addr->len > WEFT_ADDR_MAX || room < ADDR_LEN + addr->len)
		return 0;
	to[0] = (uint8_t)addr->scheme;
	to[1] = (uint8_t)addr->len;
	put16(to + 2, 0);
	put32(to + 4, addr->format);
	memcpy(to + ADDR_LEN, addr->raw, addr->len);
	return ADDR_LEN + addr->len;
}

/* Returns how many bytes the address takes, 0 if it is malformed; *addr is touched only if not. */
static size_t get_addr(const uint8_t *from, size_t len, struct weft_addr *addr)
{
	size_t addr_len;

	if (len < ADDR_LEN)
		return 0;
	addr_len = from[1];
	if (addr_len > len - ADDR_LEN)
		return 0;
	if (weft_addr_from_raw(addr, (enum weft_scheme)from[0], get32(from + 4), from + ADDR_LEN,
			       addr_len, NULL) < 0)
		return 0;
	return ADDR_LEN + addr_len;
}

size_t weft__wire_put_hello(uint8_t *to, size_t room, const struct weft__hello *hello)
{
	size_t name_len = strnlen(hello->provider, WEFT__PROVIDER_MAX);
	size_t addr_len;

	if (room < HELLO_LEN)
		return 0;
	addr_len = put_addr(to + HELLO_LEN, room - HELLO_LEN, &hello->addr);
	if (addr_len == 0 || room < HELLO_LEN + addr_len + name_len)
		return 0;
	to[0] = hello->version_min;
	to[1] = hello->version_max;
	put16(to + 2, (uint16_t)name_len);
	put32(to + 4, hello->features);
	put32(to + 8, hello->required);
	put32(to + 12, hello->max_frame);
	put64(to + 16, hello->instance);
	put64(to + 24, hello->session);
	put64(to + 32, hello->nonce);
	put64(to + 40, hello->max_message);
	put32(to + 48, hello->keepalive_ms);
	put32(to + 52, hello->silence_ms);
	put32(to + 56, hello->libfabric);
	memcpy(to + HELLO_LEN + addr_len, hello->provider, name_len);
	return HELLO_LEN + addr_len + name_len;
}

/* Whether a name can go to a log or a terminal as it is. */
static bool is_printable(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (name[i] < ' ' || name[i] > '~')
			return false;
	}
	return true;
}

bool weft__wire_get_hello(const uint8_t *from, size_t len, struct weft__hello *hello)
{
	struct weft__hello got = {0};
	size_t name_len, addr_len;

	if (len < HELLO_LEN)
		return false;
	name_len = get16(from + 2);
	addr_len = get_addr(from + HELLO_LEN, len - HELLO_LEN, &got.addr);
	if (addr_len == 0 || name_len > WEFT__PROVIDER_MAX ||
	    len != HELLO_LEN + addr_len + name_len)
		return false;
	got.version_min = from[0];
	got.version_max = from[1];
	got.features = get32(from + 4);
	got.required = get32(from + 8);
	got.max_frame = get32(from + 12);
	got.instance = get64(from + 16);
	got.session = get64(from + 24);
	got.nonce = get64(from + 32);
	got.max_message = get64(from + 40);
	got.keepalive_ms = get32(from + 48);
	got.silence_ms = get32(from + 52);
	got.libfabric = get32(from + 56);
	memcpy(got.provider, from + HELLO_LEN + addr_len, name_len);
	if (got.version_min > got.version_max || got.max_frame < WEFT__FRAME_MIN ||
	    got.session == 0 || !is_printable(got.provider, name_len))
		return false;
	*hello = got;
	return true;
}

size_t weft__wire_put_close(uint8_t *to, size_t room, const struct weft__farewell *close)
{
	if (close->text_len > WEFT__TEXT_MAX || room < FAREWELL_LEN + close->text_len)
		return 0;
	put16(to, close->reason);
	put16(to + 2, close->code);
	put16(to + 4, close->text_len);
	put16(to + 6, 0);
	memcpy(to + FAREWELL_LEN, close->text, close->text_len);
	return FAREWELL_LEN + close->text_len;
}

bool weft__wire_get_close(const uint8_t *from, size_t len, struct weft__farewell *close)
{
	struct weft__farewell got = {0};

	if (len < FAREWELL_LEN)
		return false;
	got.reason = get16(from);
	got.code = get16(from + 2);
	got.text_len = get16(from + 4);
	if (got.text_len > WEFT__TEXT_MAX || len != FAREWELL_LEN + got.text_len)
		return false;
	memcpy(got.text, from + FAREWELL_LEN, got.text_len);
	*close = got;
	return true;
}

/* REJECT is what CLOSE has, after the number that it quotes. */
size_t weft__wire_put_reject(uint8_t *to, size_t room, const struct weft__farewell *reject)
{
	size_t rest;

	if (room < QUOTED_LEN)
		return 0;
	rest = weft__wire_put_close(to + QUOTED_LEN, room - QUOTED_LEN, reject);
	if (rest == 0)
		return 0;
	put64(to, reject->quoted);
	return QUOTED_LEN + rest;
}

bool weft__wire_get_reject(const uint8_t *from, size_t len, struct weft__farewell *reject)
{
	if (len < QUOTED_LEN || !weft__wire_get_close(from + QUOTED_LEN, len - QUOTED_LEN, reject))
		return false;
	reject->quoted = get64(from);
	return true;
}

size_t weft__wire_put_offer(uint8_t *to, size_t room, const struct weft__offer *offer)
{
	if (room < OFFER_LEN)
		return 0;
	put32(to, offer->id);
	put32(to + 4, offer->reply_to);
	put64(to + 8, offer->len);
	return OFFER_LEN;
}

bool weft__wire_get_offer(const uint8_t *from, size_t len, struct weft__offer *offer)
{
	if (len != OFFER_LEN || get32(from) == 0)
		return false;
	offer->id = get32(from);
	offer->reply_to = get32(from + 4);
	offer->len = get64(from + 8);
	return true;
}

size_t weft__wire_put_grant(uint8_t *to, size_t room, const struct weft__grant *grant)
{
	if (room < GRANT_LEN)
		return 0;
	put32(to, grant->id);
	put32(to + 4, grant->chunk);
	put64(to + 8, grant->tag);
	put32(to + 16, grant->count);
	put32(to + 20, 0);
	return GRANT_LEN;
}

bool weft__wire_get_grant(const uint8_t *from, size_t len, struct weft__grant *grant)
{
	if (len != GRANT_LEN || get32(from) == 0 || get32(from + 4) == 0)
		return false;
	grant->id = get32(from);
	grant->chunk = get32(from + 4);
	grant->tag = get64(from + 8);
	grant->count = get32(from + 16);
	return true;
}

size_t weft__wire_put_abort(uint8_t *to, size_t room, const struct weft__abort *abort)
{
	if (room < ABORT_LEN)
		return 0;
	put32(to, abort->id);
	to[4] = abort->by_receiver ? BY_RECEIVER : BY_SENDER;
	to[5] = 0;
	put16(to + 6, abort->reason);
	return ABORT_LEN;
}

bool weft__wire_get_abort(const uint8_t *from, size_t len, struct weft__abort *abort)
{
	if (len != ABORT_LEN || get32(from) == 0 ||
	    (from[4] != BY_SENDER && from[4] != BY_RECEIVER))
		return false;
	abort->id = get32(from);
	abort->by_receiver = from[4] == BY_RECEIVER;
	abort->reason = get16(from + 6);
	return true;
}

size_t weft__wire_put_ping(uint8_t *to, size_t room, const struct weft__ping *ping)
{
	size_t addr_len;

	if (room < PING_LEN)
		return 0;
	addr_len = put_addr(to + PING_LEN, room - PING_LEN, &ping->addr);
	if (addr_len == 0)
		return 0;
	put64(to, ping->session);
	put64(to + 8, ping->instance);
	return PING_LEN + addr_len;
}

bool weft__wire_get_ping(const uint8_t *from, size_t len, struct weft__ping *ping)
{
	struct weft__ping got = {0};
	size_t addr_len;

	if (len < PING_LEN)
		return false;
	addr_len = get_addr(from + PING_LEN, len - PING_LEN, &got.addr);
	got.session = get64(from);
	got.instance = get64(from + 8);
	if (addr_len == 0 || len != PING_LEN + addr_len || got.session == 0)
		return false;
	*ping = got;
	return true;
}

uint8_t *weft__wire_put_record(uint8_t *to, uint32_t id, uint32_t reply_to, uint32_t len)
{
	size_t end = WEFT__RECORD_LEN + (size_t)len;

	put32(to, len);
	put32(to + 4, id);
	put32(to + 8, reply_to);
	put32(to + 12, 0);
	/* What the memory held before must not go out with the padding. */
	memset(to + end, 0, weft__record_room(len) - end);
	return to + WEFT__RECORD_LEN;
}

void weft__wire_put_rest(uint8_t *to, uint32_t rest)
{
	put32(to + 12, rest);
}

uint32_t weft__wire_peek_rest(const uint8_t *from, size_t len)
{
	return len >= WEFT__RECORD_LEN ? get32(from + 12) : 0;
}

int weft__wire_get_record(const uint8_t *from, size_t len, size_t *at, struct weft__record *record)
{
	const uint8_t *head = from + *at;
	size_t left = len - *at;
	uint32_t data_len;

	if (left == 0 && *at > 0)
		return 0;
	if (left < WEFT__RECORD_LEN)
		return -1;
	data_len = get32(head);
	if (data_len > left - WEFT__RECORD_LEN || get32(head + 4) == 0)
		return -1;
	/* The last record is padded as the others are, or not at all. */
	if (left < weft__record_room(data_len) && left != WEFT__RECORD_LEN + (size_t)data_len)
		return -1;
	record->len = data_len;
	record->id = get32(head + 4);
	record->reply_to = get32(head + 8);
	record->rest = get32(head + 12);
	record->data = head + WEFT__RECORD_LEN;
	*at += left < weft__record_room(data_len) ? left : weft__record_room(data_len);
	return 1;
}

void weft__wire_put_bundled(uint8_t *to, const uint8_t *frame, size_t len)
{
	put32(to, (uint32_t)len);
	put32(to + 4, 0);
	memcpy(to + WEFT__BUNDLED_LEN, frame, len);
	/* What the memory held before must not go out with the padding. */
	memset(to + WEFT__BUNDLED_LEN + len, 0, weft__bundled_room(len) - WEFT__BUNDLED_LEN - len);
}

uint8_t *weft__wire_put_compact(uint8_t *to, uint32_t len, uint32_t reply_to)
{
	/* What the memory held before must not go out with the padding. */
	if (len % 8)
		memset(to + weft__compact_room(len) - 8, 0, 8);
	put32(to, COMPACT_FORM | len);
	put32(to + 4, reply_to);
	return to + WEFT__COMPACT_LEN;
}

void weft__wire_put_compact_header(uint8_t *head, const struct weft__header *header)
{
	put64(head + 8, header->session);
	put32(head + 16, header->number);
	weft__wire_put_compact_news(head, header);
}

void weft__wire_put_compact_news(uint8_t *head, const struct weft__header *header)
{
	head[3] = (uint8_t)(COMPACT_FORM >> 24) | (header->flags & WEFT__FLAG_ACK_NOW);
	put_news(head + 20, header);
}

void weft__wire_get_compact(const uint8_t *head, struct weft__header *header)
{
	header->version = WEFT__WIRE_VERSION;
	header->type = WEFT__DATA;
	header->flags = head[3] & WEFT__FLAG_ACK_NOW;
	get_places(head + 8, header);
}

void weft__wire_get_compact_record(const uint8_t *head, struct weft__record *record)
{
	record->len = get32(head) & COMPACT_LEN_MASK;
	record->id = 0;
	record->reply_to = get32(head + 4);
	record->rest = 0;
	record->data = head + WEFT__COMPACT_LEN;
}

uint64_t weft__wire_peek_session(const uint8_t *frame)
{
	return get64(frame + 8);
}

enum weft__bundled weft__wire_get_bundled(const uint8_t *from, size_t len, size_t *at,
					  const uint8_t **frame, size_t *frame_len)
{
	const uint8_t *head = from + *at;
	size_t left = len - *at;

	if (left == 0 && *at > 0)
		return WEFT__BUNDLED_END;
	if (left < WEFT__COMPACT_LEN)
		return WEFT__BUNDLED_BAD;
	uint32_t got = get32(head);
	bool is_compact = got & COMPACT_FORM;
	size_t before = is_compact ? 0 : WEFT__BUNDLED_LEN;
	size_t size = is_compact ? WEFT__COMPACT_LEN + (got & COMPACT_LEN_MASK) : got;
	if (size < WEFT__HEADER_LEN || size > left - before ||
	    ((before + size + 7) & ~(size_t)7) > left)
		return WEFT__BUNDLED_BAD;
	*frame = head + before;
	*frame_len = size;
	*at += (before + size + 7) & ~(size_t)7;
	return is_compact ? WEFT__BUNDLED_COMPACT : WEFT__BUNDLED_FRAME;
}
