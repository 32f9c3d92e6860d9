/* SPDX-License-Identifier: MIT */
/* What a stranger may put into a bundle. */
#include <string.h>

#include "crowds.h"
#include "peer.h"

static struct raw raw;
static uint8_t bundle[16384];
static size_t bundle_len;

static void bundle_begin(void)
{
	struct weft__header header = {.version = 1, .type = WEFT__BUNDLE};
	bundle_len = weft__wire_put_header(bundle, &header);
}

static void bundle_add(enum weft__frame_type type, uint64_t session, uint32_t number,
		       const void *body, size_t len)
{
	uint8_t frame[1024];
	struct weft__header header = {
		.version = 1,
		.type = (uint8_t)type,
		.session = session,
		.number = number,
		.credit = 100,
	};
	weft__wire_put_header(frame, &header);
	if (len > 0)
		memcpy(frame + WEFT__HEADER_LEN, body, len);
	weft__wire_put_bundled(bundle + bundle_len, frame, WEFT__HEADER_LEN + len);
	bundle_len += weft__bundled_room(WEFT__HEADER_LEN + len);
}

static void bundle_add_compact(uint64_t session, uint32_t number, const void *data, size_t len)
{
	const struct weft__header header = {.session = session, .number = number, .credit = 100};
	uint8_t *head = bundle + bundle_len;
	memcpy(weft__wire_put_compact(head, (uint32_t)len, 0), data, len);
	weft__wire_put_compact_header(head, &header);
	bundle_len += weft__compact_room(len);
}

static void bundle_add_text(uint64_t session, uint32_t number, uint32_t id, const char *text)
{
	uint8_t body[64] = {0};
	size_t len = strlen(text);
	if (busy) {
		bundle_add_compact(session, number, text, len);
		return;
	}
	uint8_t *to = weft__wire_put_record(body, id, 0, (uint32_t)len);
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)text[i];
	bundle_add(WEFT__DATA, session, number, body, weft__record_room(len));
}

/* A node that has two sessions with a stranger. */
static void begin_with_stranger(uint64_t ids[2])
{
	a = party_open(NULL);
	raw_open(&raw, a);
	raw.credit = 100;
	raw.hello.features = WEFT__FEATURE_BUNDLE;
	raw_meet(&raw);
	ids[0] = raw.peer_id;
	raw.hello.session ^= 0xff00;
	raw.hello.nonce ^= 0xff00;
	raw.came[WEFT__ACCEPT] = 0;
	raw_meet(&raw);
	ids[1] = raw.peer_id;
	assert_int_not_equal(ids[0], ids[1]);
	assert_int_equal(a->opened, 2);
}

/* The second session of the stranger may send four frames more. */
static void allow_four_more(void)
{
	weft__peer_find(a->node, a->peer)->s.credit.granted += 4;
	a->node->pool.out += 4;
	a->node->pool.borrowed += 4;
}

/* Each frame in it counts for itself. */
static void what_harms_nobody_else(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	struct weft_node_stats before = party_stats(a);
	bundle_begin();
	bundle_add(WEFT__CONNECT, 0, 0, NULL, 0);
	bundle_add(WEFT__ACCEPT, ids[0], 0, NULL, 0);
	bundle_add(WEFT__REJECT, ids[0], 0, NULL, 0);
	bundle_add(WEFT__BUNDLE, 0, 0, NULL, 0);
	bundle_add(WEFT__PONG, ids[0], 0, "contents", 8);
	bundle_add((enum weft__frame_type)99, ids[0], 0, NULL, 0);
	bundle_add(WEFT__CREDIT, ids[0] ^ 0x10, 0, NULL, 0);
	bundle_add_text(ids[1], 1, 1, "good");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 1);
	assert_string_equal(a->text, "good");
	struct weft_node_stats after = party_stats(a);
	assert_int_equal(after.drop_malformed, before.drop_malformed + 6);
	assert_int_equal(after.drop_unknown, before.drop_unknown + 1);
	assert_int_equal(after.bundles_received, before.bundles_received + 1);
	assert_int_equal(a->closed, 0);
}

/* A breach of the protocol ends the session that it is of, and the next frame is taken. */
static void one_ends_and_the_other_goes_on(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	bundle_begin();
	bundle_add(WEFT__DATA, ids[0], 1, "no record", 9);
	bundle_add_text(ids[0], 2, 1, "too late");
	bundle_add_text(ids[1], 1, 1, "good");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 1);
	assert_string_equal(a->text, "good");
	nodes_until(&a->closed, 1);
	assert_int_equal(a->end.reason, WEFT_REASON_PROTOCOL);
	nodes_pass(20);
	assert_int_equal(a->closed, 1);
	assert_int_equal(a->messages, 1);
}

/* Frames of a session come in any order, in one bundle and another. */
static void early_ones_are_kept(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	allow_four_more();
	bundle_begin();
	bundle_add_text(ids[1], 3, 3, "three");
	bundle_add_text(ids[1], 2, 2, "two");
	raw_send(&raw, bundle, bundle_len);
	nodes_pass(10);
	assert_int_equal(a->messages, 0);
	bundle_begin();
	bundle_add_text(ids[1], 2, 2, "two again");
	bundle_add_text(ids[1], 1, 1, "one");
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->messages, 3);
	assert_string_equal(a->text, "three");
	assert_int_equal(party_stats(a).drop_duplicate, 1);
	assert_int_equal(a->closed, 0);
}

/* What is behind a wrong length cannot be found. */
static void a_bundle_that_is_malformed(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	uint64_t before = party_stats(a).drop_malformed;
	bundle_begin();
	bundle_add_text(ids[0], 1, 1, "good");
	size_t second = bundle_len;
	bundle_add_text(ids[1], 1, 1, "lost");
	for (uint32_t len = 0; len <= 255; len += len < 31 ? 31 : 112) {
		bundle[second] = (uint8_t)len;
		raw_send(&raw, bundle, bundle_len);
	}
	raw_send(&raw, bundle, second + 7);
	raw_send(&raw, bundle, WEFT__HEADER_LEN);
	nodes_pass(20);
	assert_int_equal(a->messages, 1);
	assert_string_equal(a->text, "good");
	assert_int_equal(party_stats(a).drop_malformed, before + 6);
	assert_int_equal(party_stats(a).drop_duplicate, 4);
	assert_int_equal(a->closed, 0);
}

/* The same of a message in the compact form. */
static void a_compact_message_that_is_malformed(void **state)
{
	uint64_t ids[2];
	(void)state;
	begin_with_stranger(ids);
	uint64_t before = party_stats(a).drop_malformed;
	bundle_begin();
	bundle_add_compact(ids[0], 1, "good", 4);
	size_t second = bundle_len;
	bundle_add_compact(ids[1], 1, "lost", 4);
	bundle[second] = 9;
	raw_send(&raw, bundle, bundle_len);
	bundle[second + 2] = 0xff;
	raw_send(&raw, bundle, bundle_len);
	raw_send(&raw, bundle, second + 31);
	nodes_pass(20);
	assert_int_equal(a->messages, 1);
	assert_string_equal(a->text, "good");
	assert_int_equal(party_stats(a).drop_malformed, before + 3);
	assert_int_equal(party_stats(a).drop_duplicate, 2);
	assert_int_equal(a->closed, 0);
}

/* Its sender breaks the protocol where a frame's would. */
static void a_compact_message_that_may_not_be(void **state)
{
	uint64_t ids[2];
	uint8_t body[WEFT__RECORD_LEN + 8] = {0};
	(void)state;
	begin_with_stranger(ids);
	allow_four_more();
	a->node->opts.max_message = 100;
	/* Longer than is taken. */
	uint8_t text[101] = "";
	bundle_begin();
	bundle_add_compact(ids[0], 1, text, sizeof(text));
	/* Between the parts of a message. */
	weft__wire_put_record(body, 1, 0, 8);
	weft__wire_put_rest(body, 8);
	bundle_add(WEFT__DATA, ids[1], 1, body, sizeof(body));
	bundle_add_compact(ids[1], 2, "between", 7);
	raw_send(&raw, bundle, bundle_len);
	nodes_until(&a->closed, 2);
	assert_int_equal(a->end.reason, WEFT_REASON_PROTOCOL);
	assert_int_equal(a->messages, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(what_harms_nobody_else),
		both(one_ends_and_the_other_goes_on),
		both(early_ones_are_kept),
		plain(a_bundle_that_is_malformed),
		plain(a_compact_message_that_is_malformed),
		plain(a_compact_message_that_may_not_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
