/* SPDX-License-Identifier: MIT */
/*
 * test_frame.c: frames as bytes (src/wire.c): the vectors of doc/protocol.md both ways, every
 * length at which each of them can be cut, every value that a field must not have, and the
 * iterations over records and over the frames of a bundle. Calls wire.c, and addr.c to make
 * addresses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vectors.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RECORDS_MAX 8
#define BUNDLED_MAX 8
#define PATTERN 0xa5

/* A frame taken apart: of the contents, what belongs to its type. */
struct parts {
	struct weft__header header;
	struct weft__hello hello;
	struct weft__farewell farewell;
	struct weft__offer offer;
	struct weft__grant grant;
	struct weft__abort abort;
	struct weft__ping ping;
	struct weft__record records[RECORDS_MAX];
	size_t record_count;
	struct vector_bundled bundled[BUNDLED_MAX];
	size_t bundled_count;
};

/* A copy that ends where the frame ends, so that a sanitizer sees one byte read too many. */
static uint8_t *exact_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);

	assert_non_null(copy);
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

static void assert_untouched(const void *object, size_t size)
{
	const uint8_t *bytes = object;

	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], PATTERN);
}

static bool read_records(const uint8_t *from, size_t len, struct parts *parts)
{
	size_t at = 0;
	int ret;

	parts->record_count = 0;
	do {
		struct weft__record record;
		size_t before = at;

		memset(&record, PATTERN, sizeof(record));
		ret = weft__wire_get_record(from, len, &at, &record);
		if (ret <= 0) {
			assert_untouched(&record, sizeof(record));
			assert_int_equal(at, before);
		} else {
			assert_true(at > before && at <= len);
			assert_true(parts->record_count < RECORDS_MAX);
			parts->records[parts->record_count++] = record;
		}
	} while (ret > 0);
	/* At the end it stays. */
	if (ret == 0)
		assert_int_equal(weft__wire_get_record(from, len, &at, parts->records), 0);
	return ret == 0;
}

static bool read_bundled(const uint8_t *from, size_t len, struct parts *parts)
{
	const uint8_t *frame;
	size_t at = 0, before, frame_len;
	int ret;

	parts->bundled_count = 0;
	do {
		memset(&frame, PATTERN, sizeof(frame));
		memset(&frame_len, PATTERN, sizeof(frame_len));
		before = at;
		ret = weft__wire_get_bundled(from, len, &at, &frame, &frame_len);
		if (ret <= 0) {
			assert_untouched(&frame, sizeof(frame));
			assert_untouched(&frame_len, sizeof(frame_len));
			assert_int_equal(at, before);
		} else {
			bool is_compact = ret == WEFT__BUNDLED_COMPACT;
			size_t room = is_compact ? weft__compact_room(frame_len - WEFT__COMPACT_LEN)
						 : weft__bundled_room(frame_len);

			assert_true(at > before && at <= len && at % 8 == 0);
			assert_ptr_equal(frame,
					 from + before + (is_compact ? 0 : WEFT__BUNDLED_LEN));
			assert_int_equal(at - before, room);
			assert_true(parts->bundled_count < BUNDLED_MAX);
			parts->bundled[parts->bundled_count++] =
				(struct vector_bundled){frame, frame_len, is_compact};
		}
	} while (ret > 0);
	/* Asked again, it says the same, at the end as where it is malformed. */
	assert_int_equal(weft__wire_get_bundled(from, len, &at, &frame, &frame_len), ret);
	assert_int_equal(at, before);
	assert_untouched(&frame, sizeof(frame));
	assert_untouched(&frame_len, sizeof(frame_len));
	return ret == 0;
}

/* The get_ function of a type, with what it fills checked if it refuses. */
#define READ(name, member)                                                                         \
	do {                                                                                       \
		memset(&parts->member, PATTERN, sizeof(parts->member));                            \
		good = weft__wire_get_##name(contents, contents_len, &parts->member);              \
		if (!good)                                                                         \
			assert_untouched(&parts->member, sizeof(parts->member));                   \
	} while (0)

static bool read_contents(const uint8_t *contents, size_t contents_len, struct parts *parts)
{
	bool good = true;

	switch (parts->header.type) {
	case WEFT__CONNECT:
	case WEFT__ACCEPT:
		READ(hello, hello);
		break;
	case WEFT__REJECT:
		READ(reject, farewell);
		break;
	case WEFT__DATA:
		good = read_records(contents, contents_len, parts);
		break;
	case WEFT__OFFER:
		READ(offer, offer);
		break;
	case WEFT__GRANT:
		READ(grant, grant);
		break;
	case WEFT__ABORT:
		READ(abort, abort);
		break;
	case WEFT__PING:
		READ(ping, ping);
		break;
	case WEFT__CLOSE:
		READ(close, farewell);
		break;
	case WEFT__BUNDLE:
		good = read_bundled(contents, contents_len, parts);
		break;
	default:
		assert_int_equal(contents_len, 0);
		break;
	}
	return good;
}

/* Takes a frame apart. Records, and the frames of a bundle, point into the frame. */
static bool read_frame(const uint8_t *frame, size_t len, struct parts *parts)
{
	size_t at;

	memset(&parts->header, PATTERN, sizeof(parts->header));
	at = weft__wire_get_header(frame, len, &parts->header);
	if (at == 0) {
		assert_untouched(&parts->header, sizeof(parts->header));
		return false;
	}
	assert_true(at >= WEFT__HEADER_LEN && at <= len);
	return read_contents(frame + at, len - at, parts);
}

/* The same for a frame that is to be neither read nor written beyond its end. */
static bool reads(const uint8_t *frame, size_t len)
{
	uint8_t *copy = exact_copy(frame, len);
	struct parts parts;
	bool good = read_frame(copy, len, &parts);

	free(copy);
	return good;
}

static size_t write_records(uint8_t *to, const struct weft__record *records, size_t count,
			    bool padded)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		uint8_t *data = weft__wire_put_record(to + at, records[i].id, records[i].reply_to,
						      records[i].len);

		assert_ptr_equal(data, to + at + WEFT__RECORD_LEN);
		memcpy(data, records[i].data, records[i].len);
		if (records[i].rest > 0)
			weft__wire_put_rest(to + at, records[i].rest);
		if (i + 1 < count || padded)
			at += weft__record_room(records[i].len);
		else
			at += WEFT__RECORD_LEN + records[i].len;
	}
	return at;
}

/* Writes what has been read of a message in the compact form. */
static void write_compact(uint8_t *to, const uint8_t *part)
{
	struct weft__header header;
	struct weft__record record;

	weft__wire_get_compact(part, &header);
	weft__wire_get_compact_record(part, &record);
	memcpy(weft__wire_put_compact(to, record.len, record.reply_to), record.data, record.len);
	weft__wire_put_compact_header(to, &header);
}

static size_t write_bundled(uint8_t *to, const struct vector_bundled *bundled, size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		if (bundled[i].is_compact) {
			write_compact(to + at, bundled[i].frame);
			at += weft__compact_room(bundled[i].len - WEFT__COMPACT_LEN);
			continue;
		}
		weft__wire_put_bundled(to + at, bundled[i].frame, bundled[i].len);
		at += weft__bundled_room(bundled[i].len);
	}
	return at;
}

static size_t write_contents(uint8_t *to, size_t room, const struct vector *v)
{
	switch (v->header.type) {
	case WEFT__CONNECT:
	case WEFT__ACCEPT:
		return weft__wire_put_hello(to, room, &v->hello);
	case WEFT__REJECT:
		return weft__wire_put_reject(to, room, &v->farewell);
	case WEFT__OFFER:
		return weft__wire_put_offer(to, room, &v->offer);
	case WEFT__GRANT:
		return weft__wire_put_grant(to, room, &v->grant);
	case WEFT__ABORT:
		return weft__wire_put_abort(to, room, &v->abort);
	case WEFT__PING:
		return weft__wire_put_ping(to, room, &v->ping);
	case WEFT__CLOSE:
		return weft__wire_put_close(to, room, &v->farewell);
	default:
		return 0;
	}
}

static const struct vector *vector(const char *name)
{
	for (size_t i = 0; i < COUNT(vectors); i++) {
		if (strcmp(vectors[i].name, name) == 0)
			return &vectors[i];
	}
	fail_msg("there is no vector %s", name);
	return NULL;
}

static void assert_header_equal(const struct weft__header *a, const struct weft__header *b)
{
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->flags, b->flags);
	assert_true(a->session == b->session);
	assert_true(a->number == b->number);
	assert_true(a->ack == b->ack);
	assert_true(a->credit == b->credit);
	assert_true(a->returned == b->returned);
}

static void assert_addr_equal(const struct weft_addr *a, const struct weft_addr *b)
{
	assert_int_equal(weft_addr_equal(a, b), 1);
	/* What is hashed later. */
	assert_memory_equal(a->raw, b->raw, sizeof(a->raw));
}

static void assert_hello_equal(const struct weft__hello *a, const struct weft__hello *b)
{
	assert_int_equal(a->version_min, b->version_min);
	assert_int_equal(a->version_max, b->version_max);
	assert_true(a->features == b->features);
	assert_true(a->required == b->required);
	assert_true(a->max_frame == b->max_frame);
	assert_true(a->instance == b->instance);
	assert_true(a->session == b->session);
	assert_true(a->nonce == b->nonce);
	assert_true(a->max_message == b->max_message);
	assert_true(a->keepalive_ms == b->keepalive_ms);
	assert_true(a->silence_ms == b->silence_ms);
	assert_true(a->libfabric == b->libfabric);
	assert_addr_equal(&a->addr, &b->addr);
	assert_string_equal(a->provider, b->provider);
}

static void assert_farewell_equal(const struct weft__farewell *a, const struct weft__farewell *b)
{
	assert_true(a->quoted == b->quoted);
	assert_int_equal(a->reason, b->reason);
	assert_int_equal(a->code, b->code);
	assert_int_equal(a->text_len, b->text_len);
	assert_memory_equal(a->text, b->text, b->text_len);
	assert_int_equal(a->text[a->text_len], '\0');
}

static void assert_records_equal(const struct parts *parts, const struct vector *v)
{
	assert_int_equal(parts->record_count, v->record_count);
	for (size_t i = 0; i < v->record_count; i++) {
		const struct weft__record *a = &parts->records[i], *b = &v->records[i];

		assert_true(a->id == b->id);
		assert_true(a->reply_to == b->reply_to);
		assert_true(a->rest == b->rest);
		assert_int_equal(a->len, b->len);
		assert_memory_equal(a->data, b->data, b->len);
	}
}

static void assert_bundled_equal(const struct parts *parts, const struct vector *v)
{
	assert_int_equal(parts->bundled_count, v->bundled_count);
	for (size_t i = 0; i < v->bundled_count; i++) {
		assert_int_equal(parts->bundled[i].is_compact, v->bundled[i].is_compact);
		assert_int_equal(parts->bundled[i].len, v->bundled[i].len);
		assert_memory_equal(parts->bundled[i].frame, v->bundled[i].frame,
				    v->bundled[i].len);
	}
}

static void assert_parts(const struct parts *parts, const struct vector *v)
{
	assert_header_equal(&parts->header, &v->header);
	switch (v->header.type) {
	case WEFT__CONNECT:
	case WEFT__ACCEPT:
		assert_hello_equal(&parts->hello, &v->hello);
		break;
	case WEFT__REJECT:
	case WEFT__CLOSE:
		assert_farewell_equal(&parts->farewell, &v->farewell);
		break;
	case WEFT__DATA:
		assert_records_equal(parts, v);
		break;
	case WEFT__OFFER:
		assert_true(parts->offer.id == v->offer.id);
		assert_true(parts->offer.reply_to == v->offer.reply_to);
		assert_true(parts->offer.len == v->offer.len);
		break;
	case WEFT__GRANT:
		assert_true(parts->grant.id == v->grant.id);
		assert_true(parts->grant.chunk == v->grant.chunk);
		assert_true(parts->grant.tag == v->grant.tag);
		assert_true(parts->grant.count == v->grant.count);
		break;
	case WEFT__ABORT:
		assert_true(parts->abort.id == v->abort.id);
		assert_int_equal(parts->abort.by_receiver, v->abort.by_receiver);
		assert_int_equal(parts->abort.reason, v->abort.reason);
		break;
	case WEFT__PING:
		assert_true(parts->ping.session == v->ping.session);
		assert_true(parts->ping.instance == v->ping.instance);
		assert_addr_equal(&parts->ping.addr, &v->ping.addr);
		break;
	case WEFT__BUNDLE:
		assert_bundled_equal(parts, v);
		break;
	default:
		break;
	}
}

static void test_vectors_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		uint8_t *frame = exact_copy(v->frame, v->len);
		struct parts parts;

		print_message("%s\n", v->name);
		if (v->kind == VECTOR_MALFORMED || v->kind == VECTOR_PARTS) {
			assert_false(read_frame(frame, v->len, &parts));
		} else {
			assert_true(read_frame(frame, v->len, &parts));
			assert_parts(&parts, v);
		}
		free(frame);
	}
}

/* Whether the contents are written piece by piece, into room that the caller has seen to. */
static bool is_in_pieces(const struct vector *v)
{
	return v->header.type == WEFT__DATA || v->header.type == WEFT__BUNDLE;
}

/* Each into as much room as it needs, and refused by each smaller one. */
static void test_vectors_are_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		size_t contents_len = v->len - WEFT__HEADER_LEN;
		uint8_t header[WEFT__HEADER_LEN];

		if (v->kind != VECTOR_FRAMES)
			continue;
		print_message("%s\n", v->name);
		assert_int_equal(weft__wire_put_header(header, &v->header), WEFT__HEADER_LEN);
		assert_memory_equal(header, v->frame, WEFT__HEADER_LEN);
		for (size_t room = 0; !is_in_pieces(v) && room <= contents_len + 1; room++) {
			uint8_t *to = malloc(room > 0 ? room : 1);
			size_t want = room < contents_len ? 0 : contents_len;

			assert_non_null(to);
			assert_int_equal(write_contents(to, room, v), want);
			assert_memory_equal(to, v->frame + WEFT__HEADER_LEN, want);
			free(to);
		}
	}
}

static void test_vectors_of_data_are_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		uint8_t to[256];

		if (v->kind != VECTOR_FRAMES || v->header.type != WEFT__DATA)
			continue;
		/* The padding has to become zero, whatever was there. */
		memset(to, PATTERN, sizeof(to));
		assert_int_equal(write_records(to, v->records, v->record_count, v->padded),
				 v->len - WEFT__HEADER_LEN);
		assert_memory_equal(to, v->frame + WEFT__HEADER_LEN, v->len - WEFT__HEADER_LEN);
	}
}

static void test_vectors_of_bundles_are_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		size_t contents_len = v->len - WEFT__HEADER_LEN;
		uint8_t *to;

		if (v->kind != VECTOR_FRAMES || v->header.type != WEFT__BUNDLE)
			continue;
		to = malloc(contents_len);
		assert_non_null(to);
		memset(to, PATTERN, contents_len);
		assert_int_equal(write_bundled(to, v->bundled, v->bundled_count), contents_len);
		assert_memory_equal(to, v->frame + WEFT__HEADER_LEN, contents_len);
		free(to);
	}
}

/* Whether a frame cut off there ends with a record, or with a frame and its padding if it is a
 * bundle: such is a shorter frame, and a good one. */
static bool ends_a_piece(const struct vector *v, size_t len)
{
	size_t at = WEFT__HEADER_LEN;

	for (size_t i = 0; i < v->record_count; i++) {
		if (len == at + WEFT__RECORD_LEN + v->records[i].len)
			return true;
		at += weft__record_room(v->records[i].len);
		if (len == at)
			return true;
	}
	for (size_t i = 0; i < v->bundled_count; i++) {
		at += v->bundled[i].is_compact
			      ? weft__compact_room(v->bundled[i].len - WEFT__COMPACT_LEN)
			      : weft__bundled_room(v->bundled[i].len);
		if (len == at)
			return true;
	}
	return false;
}

static void test_cut_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];

		if (v->kind == VECTOR_MALFORMED || v->kind == VECTOR_PARTS)
			continue;
		print_message("%s\n", v->name);
		for (size_t len = 0; len < v->len; len++)
			assert_int_equal(reads(v->frame, len), ends_a_piece(v, len));
	}
}

static void test_longer_than_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		uint8_t frame[512] = {0};

		if (v->kind == VECTOR_MALFORMED || v->kind == VECTOR_PARTS)
			continue;
		print_message("%s\n", v->name);
		memcpy(frame, v->frame, v->len);
		for (size_t more = 1; more <= 16; more++) {
			/*
			 * Zeros after an unpadded record may be its padding. Beyond that they are
			 * a part of a head, or all of one with id 0.
			 */
			bool padding = v->header.type == WEFT__DATA && (v->len + more) % 8 == 0 &&
				       more < 8;

			assert_int_equal(reads(frame, v->len + more), padding);
		}
	}
}

/* Of a frame, with some bytes replaced. */
static bool reads_changed(const struct vector *v, size_t at, const void *bytes, size_t len)
{
	uint8_t *frame = exact_copy(v->frame, v->len);
	struct parts parts;
	bool good;

	assert_true(at + len <= v->len);
	memcpy(frame + at, bytes, len);
	good = read_frame(frame, v->len, &parts);
	free(frame);
	return good;
}

static bool reads_with_byte(const char *name, size_t at, unsigned value)
{
	uint8_t byte = (uint8_t)value;

	return reads_changed(vector(name), at, &byte, 1);
}

static bool reads_with_u16(const char *name, size_t at, unsigned value)
{
	uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};

	return reads_changed(vector(name), at, bytes, sizeof(bytes));
}

static bool reads_with_zeros(const char *name, size_t at, size_t len)
{
	static const uint8_t zeros[16];

	return reads_changed(vector(name), at, zeros, len);
}

static void test_header_values(void **state)
{
	static const uint8_t header[80] = {0x77, 0x66, 1, WEFT__PONG, 0, 0, 32};
	uint8_t frame[80];
	struct parts parts;

	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		assert_int_equal(reads_with_byte("credit", 0, value), value == 0x77);
		assert_int_equal(reads_with_byte("credit", 1, value), value == 0x66);
		assert_int_equal(reads_with_byte("credit", 2, value), value == 1);
		/* The others have contents, and these are none. */
		assert_int_equal(reads_with_byte("credit", 3, value),
				 value == WEFT__CREDIT || value == WEFT__PONG ||
					 value == WEFT__CLOSED);
		assert_true(reads_with_byte("credit", 4, value));
		assert_int_equal(reads_with_byte("credit", 5, value), value == 0);
	}
	for (unsigned value = 0; value < 65536; value++)
		assert_int_equal(reads_with_u16("credit", 6, value), value == 32);

	/* A header of each length, in a frame that has no more, and in longer and shorter ones. */
	for (unsigned len = 0; len <= sizeof(frame); len++) {
		memcpy(frame, header, sizeof(frame));
		frame[6] = (uint8_t)len;
		assert_int_equal(reads(frame, len), len >= 32 && len <= 64);
		if (len < sizeof(frame))
			assert_false(reads(frame, len + 1));
		if (len > 0)
			assert_false(reads(frame, len - 1));
	}
	frame[3] = WEFT__OFFER;
	frame[6] = 64;
	memset(frame + 32, 0xff, 32);
	frame[64] = 1;
	assert_true(read_frame(frame, sizeof(frame), &parts));
	assert_true(parts.offer.id == 1 && parts.offer.reply_to == 0 && parts.offer.len == 0);
}

/* The type says which contents are read; whatever its number is, a header alone is never DATA. */
static void test_types(void **state)
{
	uint8_t frame[WEFT__HEADER_LEN] = {0x77, 0x66, 1, 0, 0, 0, 32};

	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		struct weft__header header = {0};
		bool known = type >= 1 && type <= WEFT__TYPE_MAX;

		frame[3] = (uint8_t)type;
		assert_int_equal(weft__wire_get_header(frame, sizeof(frame), &header),
				 known ? WEFT__HEADER_LEN : 0);
		assert_int_equal(header.type, known ? type : 0);
	}
}

static void test_hello_values(void **state)
{
	static const char v4[] = "connect-tcp", efa[] = "connect-efa", shm[] = "accept-shm";

	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		assert_int_equal(reads_with_byte(v4, 32, value), value <= 1);
		assert_int_equal(reads_with_byte(v4, 33, value), value >= 1);
		assert_int_equal(reads_with_byte(v4, 116, value), value >= 0x20 && value < 0x7f);
		assert_int_equal(reads_with_byte(v4, 126, value), value >= 0x20 && value < 0x7f);
		assert_int_equal(reads_with_byte(v4, 92, value),
				 value == WEFT_SCHEME_TCP || value == WEFT_SCHEME_UDP ||
					 value == WEFT_SCHEME_VERBS || value == WEFT_SCHEME_RAW);
		assert_int_equal(reads_with_byte(efa, 92, value),
				 value == WEFT_SCHEME_EFA || value == WEFT_SCHEME_RAW);
		assert_int_equal(reads_with_byte(shm, 92, value),
				 value == WEFT_SCHEME_SHM || value == WEFT_SCHEME_RAW);
		assert_int_equal(reads_with_byte(v4, 93, value), value == 16);
		assert_int_equal(reads_with_byte(efa, 93, value), value == 32);
		assert_int_equal(reads_with_byte(shm, 93, value), value == 7);
	}
	for (unsigned value = 0; value < 65536; value++) {
		assert_int_equal(reads_with_u16(v4, 34, value), value == 11);
		assert_int_equal(reads_with_u16(efa, 34, value), value == 0);
		assert_int_equal(reads_with_u16(v4, 44, value), value >= 1024);
	}
	assert_true(reads_with_u16(v4, 46, 1));
	assert_false(reads_with_zeros(v4, 56, 8));
	assert_false(reads_with_zeros(shm, 56, 8));
	/* Nothing is wrong with the others as zeros: nobody can know better, or the session does.
	 */
	assert_true(reads_with_zeros(v4, 36, 8));
	assert_true(reads_with_zeros(v4, 48, 8));
	assert_true(reads_with_zeros(v4, 64, 16));
	assert_true(reads_with_zeros(v4, 80, 12));
	/* Family, port, address of IPv4; GID of EFA; NUL of shm. */
	assert_false(reads_with_zeros(v4, 100, 2));
	assert_false(reads_with_zeros(v4, 102, 2));
	assert_false(reads_with_zeros(v4, 104, 4));
	assert_false(reads_with_zeros(efa, 100, 16));
	assert_false(reads_with_byte(shm, 106, 'x'));
	assert_false(reads_with_byte(shm, 103, 0));
}

/* The longest of all that varies: a raw address of 128 bytes and a name of 63. */
static void test_longest_hello(void **state)
{
	struct weft__hello hello = vector("connect-tcp")->hello, got;
	uint8_t to[300], raw[WEFT_ADDR_MAX];
	size_t len;

	(void)state;
	memset(raw, 0xff, sizeof(raw));
	assert_int_equal(
		weft_addr_from_raw(&hello.addr, WEFT_SCHEME_RAW, 77, raw, sizeof(raw), NULL), 0);
	memset(hello.provider, '~', sizeof(hello.provider) - 1);
	len = weft__wire_put_hello(to, sizeof(to), &hello);
	assert_int_equal(len, 68 + WEFT_ADDR_MAX + WEFT__PROVIDER_MAX);
	memset(&got, PATTERN, sizeof(got));
	assert_true(weft__wire_get_hello(to, len, &got));
	assert_hello_equal(&got, &hello);
	/* One byte more of either is refused, even where it is there. */
	to[len] = '~';
	to[2] = WEFT__PROVIDER_MAX + 1;
	assert_false(weft__wire_get_hello(to, len + 1, &got));
	to[2] = WEFT__PROVIDER_MAX;
	to[61] = WEFT_ADDR_MAX + 1;
	assert_false(weft__wire_get_hello(to, len + 1, &got));
	to[61] = 0;
	assert_false(weft__wire_get_hello(to, len - WEFT_ADDR_MAX, &got));
}

static void test_damaged_is_not_written(void **state)
{
	struct weft__hello hello = vector("connect-tcp")->hello;
	struct weft__ping ping = vector("ping")->ping;
	struct weft__farewell farewell = {.text_len = WEFT__TEXT_MAX + 1};
	uint8_t to[600];

	(void)state;
	hello.addr.len = WEFT_ADDR_MAX + 1;
	ping.addr.len = WEFT_ADDR_MAX + 1;
	assert_int_equal(weft__wire_put_hello(to, sizeof(to), &hello), 0);
	assert_int_equal(weft__wire_put_ping(to, sizeof(to), &ping), 0);
	hello.addr.len = 0;
	ping.addr.len = 0;
	assert_int_equal(weft__wire_put_hello(to, sizeof(to), &hello), 0);
	assert_int_equal(weft__wire_put_ping(to, sizeof(to), &ping), 0);
	assert_int_equal(weft__wire_put_close(to, sizeof(to), &farewell), 0);
	assert_int_equal(weft__wire_put_reject(to, sizeof(to), &farewell), 0);
	/* A name without its NUL is not read beyond its room. */
	hello = vector("connect-tcp")->hello;
	memset(hello.provider, 'x', sizeof(hello.provider));
	assert_int_equal(weft__wire_put_hello(to, sizeof(to), &hello), 68 + 16 + 63);
}

static void test_farewell_values(void **state)
{
	struct weft__farewell farewell = {.quoted = UINT64_MAX, .reason = 0xffff, .code = 0xffff};
	struct weft__farewell got;
	uint8_t to[WEFT__TEXT_MAX + 17];

	(void)state;
	for (unsigned value = 0; value < 65536; value++) {
		assert_int_equal(reads_with_u16("reject-refused", 44, value), value == 4);
		assert_int_equal(reads_with_u16("close", 36, value), value == 7);
	}
	/* Any reason and code, and any bytes as text. */
	for (unsigned i = 0; i < WEFT__TEXT_MAX; i++)
		farewell.text[i] = (char)(i * 7);
	for (uint16_t len = 0; len <= WEFT__TEXT_MAX; len++) {
		farewell.text_len = len;
		memset(&got, PATTERN, sizeof(got));
		assert_int_equal(weft__wire_put_reject(to, sizeof(to), &farewell), 16 + len);
		assert_true(weft__wire_get_reject(to, 16u + len, &got));
		assert_farewell_equal(&got, &farewell);
		memset(&got, PATTERN, sizeof(got));
		assert_int_equal(weft__wire_put_close(to, sizeof(to), &farewell), 8 + len);
		assert_true(weft__wire_get_close(to, 8u + len, &got));
		got.quoted = farewell.quoted;
		assert_farewell_equal(&got, &farewell);
	}
	memset(to, 0, sizeof(to));
	to[4] = WEFT__TEXT_MAX + 1;
	assert_false(weft__wire_get_close(to, 8 + WEFT__TEXT_MAX + 1, &got));
	to[12] = WEFT__TEXT_MAX + 1;
	assert_false(weft__wire_get_reject(to, 16 + WEFT__TEXT_MAX + 1, &got));
}

static void test_bulk_values(void **state)
{
	(void)state;
	assert_false(reads_with_zeros("offer", 32, 4));
	assert_true(reads_with_zeros("offer", 36, 12));
	assert_false(reads_with_zeros("grant", 32, 4));
	assert_false(reads_with_zeros("grant", 36, 4));
	assert_true(reads_with_zeros("grant", 40, 16));
	assert_false(reads_with_zeros("abort-sender", 32, 4));
	for (unsigned value = 0; value < 256; value++) {
		assert_int_equal(reads_with_byte("abort-sender", 36, value),
				 value == 1 || value == 2);
		assert_true(reads_with_byte("abort-sender", 38, value));
	}
}

static void test_ping_values(void **state)
{
	(void)state;
	assert_false(reads_with_zeros("ping", 32, 8));
	assert_true(reads_with_zeros("ping", 40, 8));
	for (unsigned value = 0; value < 256; value++) {
		assert_int_equal(reads_with_byte("ping", 49, value), value == 28);
		assert_int_equal(reads_with_byte("ping", 48, value),
				 value == WEFT_SCHEME_TCP || value == WEFT_SCHEME_UDP ||
					 value == WEFT_SCHEME_VERBS || value == WEFT_SCHEME_RAW);
	}
	/* Port, and the address itself. */
	assert_false(reads_with_zeros("ping", 58, 2));
	assert_false(reads_with_zeros("ping", 64, 16));
}

/* What is reserved may be anything, and changes nothing. */
static void test_reserved_is_ignored(void **state)
{
	static const struct {
		const char *name;
		size_t at, len;
	} reserved[] = {
		{"connect-tcp", 8, 8},	   {"connect-tcp", 94, 2}, {"accept-shm", 94, 2},
		{"reject-refused", 46, 2}, {"data-two", 53, 3},	   {"data-two", 76, 4},
		{"part-first", 69, 3},	   {"grant", 52, 4},	   {"abort-receiver", 37, 1},
		{"ping", 50, 2},	   {"close", 38, 2},	   {"bundle", 8, 8},
		{"bundle", 36, 4},	   {"bundle", 107, 5},	   {"bundle", 116, 4},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(reserved); i++) {
		struct vector v = *vector(reserved[i].name);
		uint8_t frame[256];
		struct parts parts;

		memcpy(frame, v.frame, v.len);
		memset(frame + reserved[i].at, 0xff, reserved[i].len);
		assert_true(read_frame(frame, v.len, &parts));
		/* What CONNECT and BUNDLE have there is read, and left to the session to ignore. */
		if (reserved[i].at == 8)
			v.header.session = UINT64_MAX;
		assert_parts(&parts, &v);
	}
}

/* All bits of all fields, so that none is lost or swapped on the way. */
static void test_all_ones(void **state)
{
	struct weft__header header, got;
	struct weft__offer offer, got_offer;
	struct weft__grant grant, got_grant;
	struct weft__abort abort, got_abort;
	uint8_t to[32];

	(void)state;
	memset(&header, 0xff, sizeof(header));
	header.version = 1;
	header.type = WEFT__DATA;
	weft__wire_put_header(to, &header);
	assert_int_equal(weft__wire_get_header(to, sizeof(to), &got), WEFT__HEADER_LEN);
	assert_header_equal(&got, &header);
	memset(&offer, 0xff, sizeof(offer));
	assert_int_equal(weft__wire_put_offer(to, sizeof(to), &offer), 16);
	assert_true(weft__wire_get_offer(to, 16, &got_offer));
	assert_memory_equal(&got_offer, &offer, sizeof(offer));
	memset(&grant, 0xff, sizeof(grant));
	assert_int_equal(weft__wire_put_grant(to, sizeof(to), &grant), 24);
	assert_true(weft__wire_get_grant(to, 24, &got_grant));
	assert_true(got_grant.id == UINT32_MAX && got_grant.chunk == UINT32_MAX);
	assert_true(got_grant.tag == UINT64_MAX && got_grant.count == UINT32_MAX);
	abort = (struct weft__abort){UINT32_MAX, true, 0xffff};
	assert_int_equal(weft__wire_put_abort(to, sizeof(to), &abort), 8);
	assert_true(weft__wire_get_abort(to, 8, &got_abort));
	assert_true(got_abort.id == UINT32_MAX && got_abort.by_receiver);
	assert_int_equal(got_abort.reason, 0xffff);
}

/* Messages of every length round a multiple of 8, alone and after another, padded and not. */
static void test_records(void **state)
{
	static const uint8_t message[64] = "a message that is a little longer than all the others";
	uint8_t to[256];

	(void)state;
	for (uint32_t len = 0; len <= sizeof(message); len++) {
		for (int padded = 0; padded <= 1; padded++) {
			const struct weft__record records[] = {
				{.id = UINT32_MAX,
				 .reply_to = UINT32_MAX,
				 .len = len,
				 .rest = UINT32_MAX,
				 .data = message},
				{.id = 1, .len = len, .rest = len, .data = message},
				{.id = 2, .reply_to = 1, .len = len / 2, .data = message},
			};
			const struct vector want = {.records = records, .record_count = 3};
			struct parts parts;
			uint8_t *copy;
			size_t end;

			memset(to, PATTERN, sizeof(to));
			end = write_records(to, records, COUNT(records), padded == 1);
			copy = exact_copy(to, end);
			assert_true(read_records(copy, end, &parts));
			assert_records_equal(&parts, &want);
			assert_true(parts.records[0].data == copy + WEFT__RECORD_LEN);
			free(copy);
		}
	}
}

/* How much is to follow, of which each byte counts; of a head that is not there nothing is. */
static void test_rest(void **state)
{
	static const uint32_t rests[] = {0, 1, 0xff, 0x01020304, WEFT__REST_NEVER};
	uint8_t to[WEFT__RECORD_LEN + 8];
	struct weft__record record;

	(void)state;
	for (size_t i = 0; i < COUNT(rests); i++) {
		size_t at = 0;

		memset(to, PATTERN, sizeof(to));
		weft__wire_put_record(to, 1, 0, 8);
		assert_int_equal(weft__wire_peek_rest(to, sizeof(to)), 0);
		weft__wire_put_rest(to, rests[i]);
		assert_true(weft__wire_peek_rest(to, sizeof(to)) == rests[i]);
		assert_int_equal(weft__wire_get_record(to, sizeof(to), &at, &record), 1);
		assert_true(record.id == 1 && record.reply_to == 0 && record.len == 8);
		assert_true(record.rest == rests[i]);
	}
	for (size_t len = 0; len < sizeof(to); len++) {
		uint8_t *copy = exact_copy(to, len);

		assert_true(weft__wire_peek_rest(copy, len) ==
			    (len < WEFT__RECORD_LEN ? 0 : WEFT__REST_NEVER));
		free(copy);
	}
	assert_int_equal(vector("part-first")->frame[44], 10);
	assert_int_equal(vector("part-given-up")->records[0].rest, WEFT__REST_NEVER);
}

static void test_bad_records(void **state)
{
	uint8_t good[64] = {[0] = 5, [4] = 1, [24] = 3, [28] = 2};
	struct weft__record record;
	struct parts parts;
	size_t at = 0;

	(void)state;
	assert_true(read_records(good, 48, &parts));
	assert_true(read_records(good, 43, &parts));
	assert_int_equal(parts.record_count, 2);
	/* Each length: 0 and too little, a half-padded end, the second head in parts, or its data.
	 */
	for (size_t len = 0; len < 48; len++)
		assert_int_equal(read_records(good, len, &parts),
				 len == 21 || len == 24 || len == 43);
	/* The first record is taken all the same, and what follows is refused as often as asked. */
	assert_int_equal(weft__wire_get_record(good, 42, &at, &record), 1);
	assert_int_equal(at, 24);
	assert_int_equal(weft__wire_get_record(good, 42, &at, &record), -1);
	assert_int_equal(weft__wire_get_record(good, 42, &at, &record), -1);
	assert_int_equal(record.id, 1);
	/* Lengths that wrap when a head or padding is added. */
	for (uint32_t below = 1; below <= 64; below++) {
		uint8_t bad[32] = {[4] = 1};
		uint32_t len = (uint32_t)0 - below;

		for (int i = 0; i < 4; i++)
			bad[i] = (uint8_t)(len >> 8 * i);
		assert_false(read_records(bad, sizeof(bad), &parts));
		assert_false(read_records(bad, WEFT__RECORD_LEN, &parts));
	}
	/* No frame can hold these, but nothing here depends on that. */
	assert_true(weft__record_room(0) == 16);
	assert_true(weft__record_room(1) == 24);
	assert_true(weft__record_room(8) == 24);
	assert_true(weft__record_room(9) == 32);
}

/* Frames of every length round a multiple of 8, alone and together, and the longest that fits. */
static void test_bundled(void **state)
{
	uint8_t bytes[128];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(0xff - i);
	for (size_t len = WEFT__HEADER_LEN; len <= sizeof(bytes); len++) {
		const struct vector_bundled bundled[] = {
			{bytes, len, false}, {bytes, WEFT__HEADER_LEN, false}, {bytes, len, false}};
		size_t room = weft__bundled_room(len);

		assert_true(room % 8 == 0);
		assert_true(room >= WEFT__BUNDLED_LEN + len && room < WEFT__BUNDLED_LEN + len + 8);
		for (size_t count = 1; count <= COUNT(bundled); count++) {
			const struct vector want = {.bundled = bundled, .bundled_count = count};
			size_t whole = (count + 1) / 2 * room + count / 2 * 40;
			uint8_t *to = malloc(whole), *cut;
			struct parts parts;

			assert_non_null(to);
			memset(to, PATTERN, whole);
			assert_int_equal(write_bundled(to, bundled, count), whole);
			for (size_t i = WEFT__BUNDLED_LEN + len; i < room; i++)
				assert_int_equal(to[i], 0);
			assert_true(read_bundled(to, whole, &parts));
			assert_bundled_equal(&parts, &want);
			/* Without the last byte, be it padding or not, the last frame is refused,
			 * and no other. */
			cut = exact_copy(to, whole - 1);
			assert_false(read_bundled(cut, whole - 1, &parts));
			assert_int_equal(parts.bundled_count, count - 1);
			free(cut);
			free(to);
		}
	}
	/* No more of a frame is read than its length says, nor more written than its room. */
	for (size_t len = WEFT__HEADER_LEN; len <= WEFT__HEADER_LEN + 8; len++) {
		uint8_t *frame = exact_copy(bytes, len), *to = malloc(weft__bundled_room(len));

		assert_non_null(to);
		weft__wire_put_bundled(to, frame, len);
		assert_memory_equal(to + WEFT__BUNDLED_LEN, frame, len);
		assert_int_equal(to[0], len);
		for (int i = 1; i < WEFT__BUNDLED_LEN; i++)
			assert_int_equal(to[i], 0);
		free(frame);
		free(to);
	}
}

/* The heads of messages in the compact form, as the page has them. */
static void test_vectors_of_compact_messages(void **state)
{
	int seen = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(vectors); i++) {
		const struct vector *v = &vectors[i];
		const struct weft__record *want = v->records;
		struct weft__header header;
		struct weft__record record;
		uint8_t *part;

		if (v->kind != VECTOR_PARTS)
			continue;
		seen++;
		part = exact_copy(v->frame, v->len);
		memset(&header, PATTERN, sizeof(header));
		weft__wire_get_compact(part, &header);
		assert_header_equal(&header, &v->header);
		assert_true(weft__wire_peek_session(part) == v->header.session);
		weft__wire_get_compact_record(part, &record);
		assert_int_equal(record.id, 0);
		assert_int_equal(record.reply_to, want->reply_to);
		assert_int_equal(record.rest, 0);
		assert_int_equal(record.len, want->len);
		assert_int_equal(v->len, WEFT__COMPACT_LEN + record.len);
		assert_memory_equal(record.data, want->data, want->len);
		free(part);
	}
	assert_true(seen > 0);
}

/* Of every length round a multiple of 8: what is written, and no byte more; and what of the head
 * can be said again later. */
static void test_compact(void **state)
{
	(void)state;
	for (uint32_t len = 0; len <= 40; len++) {
		struct weft__header header = {.version = 1,
					      .type = WEFT__DATA,
					      .session = UINT64_C(0x1112131415161718),
					      .number = 0x21222324,
					      .ack = 0x31323334,
					      .credit = 0x41424344,
					      .returned = 0x51525354};
		struct weft__header got;
		const uint8_t *found;
		size_t at = 0, found_len, room = weft__compact_room(len);
		uint8_t *to = malloc(room);

		assert_non_null(to);
		assert_true(room % 8 == 0 && room >= WEFT__COMPACT_LEN + len &&
			    room < WEFT__COMPACT_LEN + len + 8);
		memset(to, PATTERN, room);
		assert_ptr_equal(weft__wire_put_compact(to, len, 77), to + WEFT__COMPACT_LEN);
		memset(to + WEFT__COMPACT_LEN, 0xff, len);
		weft__wire_put_compact_header(to, &header);
		for (size_t i = WEFT__COMPACT_LEN + len; i < room; i++)
			assert_int_equal(to[i], 0);
		weft__wire_get_compact(to, &got);
		assert_header_equal(&got, &header);

		header.flags = WEFT__FLAG_ACK_NOW;
		header.ack = 0x61626364;
		header.credit = 0x71727374;
		header.returned = 0x81828384;
		weft__wire_put_compact_news(to, &header);
		weft__wire_get_compact(to, &got);
		assert_header_equal(&got, &header);

		assert_int_equal(weft__wire_get_bundled(to, room, &at, &found, &found_len),
				 WEFT__BUNDLED_COMPACT);
		assert_ptr_equal(found, to);
		assert_int_equal(found_len, WEFT__COMPACT_LEN + len);
		assert_int_equal(at, room);
		at = 0;
		assert_int_equal(weft__wire_get_bundled(to, room - 1, &at, &found, &found_len),
				 WEFT__BUNDLED_BAD);
		/* Flags that nobody knows yet are ignored. */
		to[3] |= 0x7e;
		weft__wire_get_compact(to, &got);
		assert_header_equal(&got, &header);
		free(to);
	}
}

/* Each byte of a length counts, and none of them wraps when a head or padding is added. */
static void test_bad_bundles(void **state)
{
	uint8_t good[80] = {[0] = 32, [40] = 32};
	struct parts parts;

	(void)state;
	assert_true(read_bundled(good, sizeof(good), &parts));
	assert_int_equal(parts.bundled_count, 2);
	for (size_t len = 0; len < sizeof(good); len++) {
		uint8_t *copy = exact_copy(good, len);

		assert_int_equal(read_bundled(copy, len, &parts), len == 40);
		assert_int_equal(parts.bundled_count, len >= 40);
		free(copy);
	}
	for (uint32_t value = 0; value < 256; value++) {
		good[40] = (uint8_t)value;
		assert_int_equal(read_bundled(good, sizeof(good), &parts), value == 32);
		assert_int_equal(parts.bundled_count, value == 32 ? 2 : 1);
	}
	good[40] = 32;
	for (int at = 41; at < 44; at++) {
		good[at] = 1;
		assert_false(read_bundled(good, sizeof(good), &parts));
		good[at] = 0;
	}
	for (uint32_t below = 1; below <= 64; below++) {
		uint32_t len = (uint32_t)0 - below;

		for (int i = 0; i < 4; i++)
			good[i] = (uint8_t)(len >> 8 * i);
		assert_false(read_bundled(good, sizeof(good), &parts));
		assert_false(read_bundled(good, 40, &parts));
		assert_int_equal(parts.bundled_count, 0);
	}
	assert_true(weft__bundled_room(32) == 40);
	assert_true(weft__bundled_room(33) == 48);
	assert_true(weft__bundled_room(40) == 48);
}

static void test_after_wraps(void **state)
{
	static const uint32_t places[] = {0,	      1,	  2,	      0x7fffffff,
					  0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		uint32_t b = places[i];

		assert_false(weft__after(b, b));
		assert_true(weft__after(b + 1, b));
		assert_false(weft__after(b, b + 1));
		assert_true(weft__after(b + 0x7fffffff, b));
		assert_false(weft__after(b + 0x80000000, b));
		assert_false(weft__after(b + 0x80000001, b));
		assert_false(weft__after(b + 0xffffffff, b));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors_are_read),
		cmocka_unit_test(test_vectors_are_written),
		cmocka_unit_test(test_vectors_of_data_are_written),
		cmocka_unit_test(test_vectors_of_bundles_are_written),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_longer_than_said),
		cmocka_unit_test(test_header_values),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_hello_values),
		cmocka_unit_test(test_longest_hello),
		cmocka_unit_test(test_damaged_is_not_written),
		cmocka_unit_test(test_farewell_values),
		cmocka_unit_test(test_bulk_values),
		cmocka_unit_test(test_ping_values),
		cmocka_unit_test(test_reserved_is_ignored),
		cmocka_unit_test(test_all_ones),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_bad_records),
		cmocka_unit_test(test_bundled),
		cmocka_unit_test(test_bad_bundles),
		cmocka_unit_test(test_vectors_of_compact_messages),
		cmocka_unit_test(test_compact),
		cmocka_unit_test(test_after_wraps),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
