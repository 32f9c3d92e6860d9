/* SPDX-License-Identifier: MIT */
/*
 * fuzz_frame.c: any bytes as a frame (src/wire.c), and as the contents of a frame of every type.
 *
 * What is accepted keeps what wire.h promises of it, and is the same again when it has been written
 * and read. What is refused has left the caller's object as it was. Calls wire.c and addr.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(), which a release build may leave out. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define PATTERN 0xa5

/* More than the longest contents of fixed size. */
#define ROOM 600

static bool is_untouched(const void *object, size_t size)
{
	const uint8_t *bytes = object;

	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != PATTERN)
			return false;
	}
	return true;
}

static void check_addr(const struct weft_addr *x, const struct weft_addr *y)
{
	struct weft_addr canonical;

	CHECK(weft__addr_check(&canonical, x, NULL) == 0);
	CHECK(memcmp(canonical.raw, x->raw, sizeof(x->raw)) == 0);
	CHECK(x->scheme == y->scheme && x->format == y->format && x->len == y->len);
	CHECK(memcmp(x->raw, y->raw, sizeof(x->raw)) == 0);
}

static void check_hello(const struct weft__hello *x, const struct weft__hello *y)
{
	CHECK(x->version_min <= x->version_max);
	CHECK(x->version_min == y->version_min && x->version_max == y->version_max);
	CHECK(x->features == y->features && x->required == y->required);
	CHECK(x->max_frame >= WEFT__FRAME_MIN && x->max_frame == y->max_frame);
	CHECK(x->session != 0 && x->session == y->session);
	CHECK(x->instance == y->instance && x->nonce == y->nonce);
	CHECK(x->max_message == y->max_message && x->libfabric == y->libfabric);
	CHECK(x->keepalive_ms == y->keepalive_ms && x->silence_ms == y->silence_ms);
	check_addr(&x->addr, &y->addr);
	CHECK(memchr(x->provider, '\0', sizeof(x->provider)) != NULL);
	for (const char *c = x->provider; *c != '\0'; c++)
		CHECK(*c >= ' ' && *c <= '~');
	CHECK(strcmp(x->provider, y->provider) == 0);
}

static void check_farewell(const struct weft__farewell *x, const struct weft__farewell *y)
{
	CHECK(x->quoted == y->quoted && x->reason == y->reason && x->code == y->code);
	CHECK(x->text_len <= WEFT__TEXT_MAX && x->text_len == y->text_len);
	CHECK(memcmp(x->text, y->text, x->text_len) == 0 && x->text[x->text_len] == '\0');
}

static void check_offer(const struct weft__offer *x, const struct weft__offer *y)
{
	CHECK(x->id != 0 && x->id == y->id && x->reply_to == y->reply_to && x->len == y->len);
}

static void check_grant(const struct weft__grant *x, const struct weft__grant *y)
{
	CHECK(x->id != 0 && x->id == y->id && x->chunk != 0 && x->chunk == y->chunk);
	CHECK(x->tag == y->tag && x->count == y->count);
}

static void check_abort(const struct weft__abort *x, const struct weft__abort *y)
{
	CHECK(x->id != 0 && x->id == y->id && x->reason == y->reason);
	CHECK(x->by_receiver == y->by_receiver);
}

static void check_ping(const struct weft__ping *x, const struct weft__ping *y)
{
	CHECK(x->session != 0 && x->session == y->session && x->instance == y->instance);
	check_addr(&x->addr, &y->addr);
}

/*
 * A function that reads the contents of one type, and if that goes well writes them to memory that
 * is too short and to such as is just long enough, where a sanitizer sees a byte too many.
 */
#define DEFINE_TRY(name, type, check)                                                              \
	static bool try_##name(const uint8_t *data, size_t size)                                   \
	{                                                                                          \
		struct type x, y;                                                                  \
		uint8_t any[ROOM];                                                                 \
		uint8_t *exact;                                                                    \
		size_t len;                                                                        \
		memset(&x, PATTERN, sizeof(x));                                                    \
		if (!weft__wire_get_##name(data, size, &x)) {                                      \
			CHECK(is_untouched(&x, sizeof(x)));                                        \
			return false;                                                              \
		}                                                                                  \
		len = weft__wire_put_##name(any, sizeof(any), &x);                                 \
		CHECK(len == size);                                                                \
		exact = malloc(len);                                                               \
		CHECK(exact != NULL);                                                              \
		CHECK(weft__wire_put_##name(exact, 0, &x) == 0);                                   \
		CHECK(weft__wire_put_##name(exact, len - 1, &x) == 0);                             \
		CHECK(weft__wire_put_##name(exact, len, &x) == len);                               \
		CHECK(memcmp(exact, any, len) == 0);                                               \
		CHECK(weft__wire_get_##name(exact, len, &y));                                      \
		check(&x, &y);                                                                     \
		free(exact);                                                                       \
		return true;                                                                       \
	}

DEFINE_TRY(hello, weft__hello, check_hello)
DEFINE_TRY(reject, weft__farewell, check_farewell)
DEFINE_TRY(close, weft__farewell, check_farewell)
DEFINE_TRY(offer, weft__offer, check_offer)
DEFINE_TRY(grant, weft__grant, check_grant)
DEFINE_TRY(abort, weft__abort, check_abort)
DEFINE_TRY(ping, weft__ping, check_ping)

/* Writes the records as they are read, and compares when they are read from there in turn. */
static bool try_records(const uint8_t *data, size_t size)
{
	struct weft__record x, y;
	uint8_t *copy = malloc(size + 8);
	size_t at = 0, copy_at = 0, end = 0;
	int ret;

	CHECK(copy != NULL);
	for (;;) {
		size_t before = at;
		uint8_t *to;

		memset(&x, PATTERN, sizeof(x));
		ret = weft__wire_get_record(data, size, &at, &x);
		if (ret <= 0) {
			CHECK(at == before && is_untouched(&x, sizeof(x)));
			break;
		}
		CHECK(ret == 1 && x.id != 0 && before % 8 == 0 && at > before && at <= size);
		CHECK(x.data == data + before + WEFT__RECORD_LEN);
		CHECK(x.len <= size - before - WEFT__RECORD_LEN);
		CHECK(before > 0 || x.rest == weft__wire_peek_rest(data, size));
		to = weft__wire_put_record(copy + before, x.id, x.reply_to, x.len);
		weft__wire_put_rest(copy + before, x.rest);
		CHECK(to == copy + before + WEFT__RECORD_LEN);
		memcpy(to, x.data, x.len);
		end = before + WEFT__RECORD_LEN + x.len;
		CHECK(at == end || at == before + weft__record_room(x.len));
		/* Without padding, so that what is read is at its end. */
		CHECK(weft__wire_get_record(copy, end, &copy_at, &y) == 1 && copy_at == end);
		CHECK(x.id == y.id && x.reply_to == y.reply_to && x.len == y.len);
		CHECK(x.rest == y.rest);
		CHECK(memcmp(x.data, y.data, x.len) == 0);
		copy_at = before + weft__record_room(x.len);
	}
	CHECK(ret == -1 || (at == size && size > 0));
	/* It is looked for in what has not been checked. */
	(void)weft__wire_peek_rest(data, size);
	free(copy);
	return ret == 0;
}

/* Writes each frame, padded, to memory that is just long enough, and reads it from there. */
static void try_bundled(const uint8_t *frame, size_t len)
{
	size_t room = weft__bundled_room(len), at = 0, got_len;
	const uint8_t *got;
	uint8_t *exact = malloc(room);

	CHECK(exact != NULL);
	memset(exact, PATTERN, room);
	weft__wire_put_bundled(exact, frame, len);
	CHECK(weft__wire_get_bundled(exact, room, &at, &got, &got_len) == 1 && at == room);
	CHECK(got == exact + WEFT__BUNDLED_LEN && got_len == len && memcmp(got, frame, len) == 0);
	for (size_t i = WEFT__BUNDLED_LEN + len; i < room; i++)
		CHECK(exact[i] == 0);
	CHECK(weft__wire_get_bundled(exact, room, &at, &got, &got_len) == 0 && at == room);
	/* Half of a frame is none. */
	at = 0;
	CHECK(weft__wire_get_bundled(exact, room - 1, &at, &got, &got_len) == -1 && at == 0);
	free(exact);
}

/* Writes a message in the compact form again, to memory that is just long enough, and reads it from
 * there. */
static void try_compact(const uint8_t *part, size_t len)
{
	struct weft__header header, again;
	struct weft__record record, same;
	size_t room = weft__compact_room(len - WEFT__COMPACT_LEN), at = 0, got_len;
	const uint8_t *got;
	uint8_t *exact = malloc(room);

	CHECK(exact != NULL);
	memset(exact, PATTERN, room);
	weft__wire_get_compact(part, &header);
	weft__wire_get_compact_record(part, &record);
	CHECK(header.type == WEFT__DATA && header.session == weft__wire_peek_session(part));
	CHECK(record.len == len - WEFT__COMPACT_LEN && record.data == part + WEFT__COMPACT_LEN);
	CHECK(record.id == 0 && record.rest == 0);
	memcpy(weft__wire_put_compact(exact, record.len, record.reply_to), record.data, record.len);
	weft__wire_put_compact_header(exact, &header);
	CHECK(weft__wire_get_bundled(exact, room, &at, &got, &got_len) == WEFT__BUNDLED_COMPACT);
	CHECK(got == exact && got_len == len && at == room);
	weft__wire_get_compact(got, &again);
	weft__wire_get_compact_record(got, &same);
	CHECK(again.flags == header.flags && again.session == header.session);
	CHECK(again.number == header.number && again.ack == header.ack);
	CHECK(again.credit == header.credit && again.returned == header.returned);
	CHECK(same.len == record.len && same.reply_to == record.reply_to);
	CHECK(memcmp(same.data, record.data, record.len) == 0);
	at = 0;
	CHECK(weft__wire_get_bundled(exact, room - 1, &at, &got, &got_len) == WEFT__BUNDLED_BAD);
	free(exact);
}

static bool try_bundle(const uint8_t *data, size_t size)
{
	struct {
		const uint8_t *frame;
		size_t len;
	} x;
	size_t at = 0, before;
	int ret;

	for (;;) {
		memset(&x, PATTERN, sizeof(x));
		before = at;
		ret = weft__wire_get_bundled(data, size, &at, &x.frame, &x.len);
		if (ret <= 0)
			break;
		CHECK(before % 8 == 0 && at <= size && x.len >= WEFT__HEADER_LEN);
		if (ret == WEFT__BUNDLED_COMPACT) {
			CHECK(x.frame == data + before && x.len <= size - before);
			CHECK(at == before + weft__compact_room(x.len - WEFT__COMPACT_LEN));
			try_compact(x.frame, x.len);
			continue;
		}
		CHECK(ret == WEFT__BUNDLED_FRAME);
		CHECK(x.frame == data + before + WEFT__BUNDLED_LEN);
		CHECK(x.len <= size - before - WEFT__BUNDLED_LEN);
		CHECK(at == before + weft__bundled_room(x.len));
		try_bundled(x.frame, x.len);
	}
	CHECK(ret == -1 || (at == size && size > 0));
	/* Asked again, it says the same. */
	CHECK(at == before);
	CHECK(weft__wire_get_bundled(data, size, &at, &x.frame, &x.len) == ret && at == before);
	CHECK(is_untouched(&x, sizeof(x)));
	return ret == 0;
}

static bool try_type(uint8_t type, const uint8_t *data, size_t size)
{
	switch (type) {
	case WEFT__CONNECT:
	case WEFT__ACCEPT:
		return try_hello(data, size);
	case WEFT__REJECT:
		return try_reject(data, size);
	case WEFT__DATA:
		return try_records(data, size);
	case WEFT__OFFER:
		return try_offer(data, size);
	case WEFT__GRANT:
		return try_grant(data, size);
	case WEFT__ABORT:
		return try_abort(data, size);
	case WEFT__PING:
		return try_ping(data, size);
	case WEFT__CLOSE:
		return try_close(data, size);
	case WEFT__BUNDLE:
		return try_bundle(data, size);
	default:
		CHECK(type == WEFT__CREDIT || type == WEFT__PONG || type == WEFT__CLOSED);
		return size == 0;
	}
}

static void try_frame(const uint8_t *data, size_t size)
{
	struct weft__header x, y;
	uint8_t frame[WEFT__HEADER_LEN];
	size_t at;

	memset(&x, PATTERN, sizeof(x));
	at = weft__wire_get_header(data, size, &x);
	if (at == 0) {
		CHECK(is_untouched(&x, sizeof(x)));
		return;
	}
	CHECK(at >= WEFT__HEADER_LEN && at <= 64 && at <= size);
	CHECK(x.version == WEFT__WIRE_VERSION && x.type >= 1 && x.type <= WEFT__TYPE_MAX);
	CHECK(weft__wire_put_header(frame, &x) == sizeof(frame));
	CHECK(weft__wire_get_header(frame, sizeof(frame), &y) == sizeof(frame));
	CHECK(x.version == y.version && x.type == y.type && x.flags == y.flags);
	CHECK(x.session == y.session && x.number == y.number && x.ack == y.ack);
	CHECK(x.credit == y.credit && x.returned == y.returned);
	(void)try_type(x.type, data + at, size - at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_frame(data, size);
	/* The header in front says nothing new, and keeps the fuzzer from the other types. */
	if (size >= WEFT__HEADER_LEN) {
		for (unsigned type = 1; type <= WEFT__TYPE_MAX; type++)
			(void)try_type((uint8_t)type, data + WEFT__HEADER_LEN,
				       size - WEFT__HEADER_LEN);
	}
	return 0;
}
