/* SPDX-License-Identifier: MIT */
/*
 * test_wire.c: the pure parts of the reverse program: the bytes of its messages, and how a peer's
 * bytes are shown. Calls nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "escape.h"
#include "reverse_wire.h"

/* ------------------------------------------------------------------------------------ messages */

/* A copy that ends where the message ends, so that a sanitizer sees one byte read too many. */
static uint8_t *exact_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);
	assert_non_null(copy);
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

static void test_encode_gives_the_bytes_of_the_format(void **state)
{
	(void)state;
	uint8_t out[REVERSE_MESSAGE_MAX];
	static const uint8_t address[] = {0xfe, 0x80, 0x00, 0x07};
	assert_int_equal(reverse_encode(out, REVERSE_CONNECT, address, sizeof(address)), 5);
	assert_memory_equal(out, "\x00\xfe\x80\x00\x07", 5);
	assert_int_equal(reverse_encode(out, REVERSE_DATA, "Hello, world!", 13), 14);
	assert_memory_equal(out, "\x01Hello, world!", 14);
	assert_int_equal(reverse_encode(out, REVERSE_DATA, NULL, 0), 1);
	assert_int_equal(out[0], 1);
}

static void test_encode_refuses_what_does_not_fit(void **state)
{
	(void)state;
	static uint8_t out[REVERSE_MESSAGE_MAX], body[REVERSE_MESSAGE_MAX];
	memset(body, 'b', sizeof(body));
	assert_int_equal(reverse_encode(out, REVERSE_DATA, body, REVERSE_TEXT_MAX),
			 REVERSE_MESSAGE_MAX);
	assert_int_equal(out[REVERSE_MESSAGE_MAX - 1], 'b');
	assert_int_equal(reverse_encode(out, REVERSE_CONNECT, body, WEFT_ADDR_MAX),
			 WEFT_ADDR_MAX + 1);
	memset(out, 'x', sizeof(out));
	assert_int_equal(reverse_encode(out, REVERSE_DATA, body, REVERSE_TEXT_MAX + 1), 0);
	assert_int_equal(reverse_encode(out, REVERSE_CONNECT, body, WEFT_ADDR_MAX + 1), 0);
	assert_int_equal(reverse_encode(out, REVERSE_DATA, body, SIZE_MAX), 0);
	for (size_t i = 0; i < sizeof(out); i++)
		assert_int_equal(out[i], 'x');
}

static void test_limits_are_the_seed_s(void **state)
{
	(void)state;
	assert_int_equal(REVERSE_MESSAGE_MAX, 8192);
	assert_int_equal(REVERSE_TEXT_MAX, 8191);
}

static void test_decode_takes_good_messages_apart(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		enum reverse_type type;
	} table[] = {
		{"\x01", 1, REVERSE_DATA},
		{"\x01x", 2, REVERSE_DATA},
		{"\x01\x00\x00", 3, REVERSE_DATA},
		{"\x00\x02", 2, REVERSE_CONNECT},
		{"\x00shm-name", 9, REVERSE_CONNECT},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct reverse_message message;
		uint8_t *bytes = exact_copy(table[i].bytes, table[i].len);
		assert_null(reverse_decode(&message, bytes, table[i].len));
		assert_int_equal(message.type, table[i].type);
		assert_ptr_equal(message.body, bytes + 1);
		assert_int_equal(message.len, table[i].len - 1);
		free(bytes);
	}
}

static void test_decode_takes_the_longest_messages(void **state)
{
	(void)state;
	struct reverse_message message;
	uint8_t *bytes = calloc(1, REVERSE_MESSAGE_MAX);
	assert_non_null(bytes);
	bytes[0] = REVERSE_DATA;
	assert_null(reverse_decode(&message, bytes, REVERSE_MESSAGE_MAX));
	assert_int_equal(message.len, REVERSE_TEXT_MAX);
	bytes[0] = REVERSE_CONNECT;
	assert_null(reverse_decode(&message, bytes, 1 + WEFT_ADDR_MAX));
	assert_int_equal(message.len, WEFT_ADDR_MAX);
	free(bytes);
}

static void test_decode_says_what_is_wrong(void **state)
{
	(void)state;
	static const struct {
		uint8_t type;
		size_t len;
		const char *word;
	} table[] = {
		{0, 0, "empty"},
		{0, 1, "without an address"},
		{0, WEFT_ADDR_MAX + 2, "address that is too long"},
		{0, REVERSE_MESSAGE_MAX, "address that is too long"},
		{1, REVERSE_MESSAGE_MAX + 1, "longer"},
		{2, 1, "type"},
		{2, 33, "type"},
		{0x80, 2, "type"},
		{0xff, REVERSE_MESSAGE_MAX, "type"},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct reverse_message message, before;
		memset(&message, 0x5a, sizeof(message));
		before = message;
		uint8_t *bytes = calloc(1, table[i].len > 0 ? table[i].len : 1);
		assert_non_null(bytes);
		bytes[0] = table[i].type;
		const char *fault = reverse_decode(&message, bytes, table[i].len);
		assert_non_null(fault);
		assert_non_null(strstr(fault, table[i].word));
		assert_memory_equal(&message, &before, sizeof(message));
		free(bytes);
	}
}

static void test_reverse_turns_bytes_around(void **state)
{
	(void)state;
	static const struct {
		const char *text, *reversed;
		size_t len;
	} table[] = {
		{"", "", 0},
		{"a", "a", 1},
		{"ab", "ba", 2},
		{"abc", "cba", 3},
		{"Hello, world!", "!dlrow ,olleH", 13},
		{"\0\0x", "x\0\0", 3},
		{"\xc3\xa9!", "!\xa9\xc3", 3},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint8_t *text = exact_copy(table[i].text, table[i].len);
		reverse_text(text, table[i].len);
		assert_memory_equal(text, table[i].reversed, table[i].len);
		free(text);
	}
}

/* ------------------------------------------------------------------------------------ escaping */

/* One case of escaping; len 0 means that the bytes end at their NUL. */
struct escape_case {
	const char *bytes, *shown;
	size_t len;
};

static void check_escapes(const struct escape_case *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t len = table[i].len > 0 ? table[i].len : strlen(table[i].bytes);
		uint8_t *bytes = exact_copy(table[i].bytes, len);
		char *shown = malloc(ESCAPE_MAX(len));
		assert_non_null(shown);
		assert_int_equal(escape_bytes(shown, bytes, len), strlen(table[i].shown));
		assert_string_equal(shown, table[i].shown);
		free(shown);
		free(bytes);
	}
}

static void test_printable_text_is_shown_as_it_is(void **state)
{
	(void)state;
	static const struct escape_case table[] = {
		{"", "", 0},
		{" !\"#~", " !\"#~", 0},
		{"caf\xc3\xa9", "caf\xc3\xa9", 0},
		{"\xe2\x82\xac \xe6\x97\xa5", "\xe2\x82\xac \xe6\x97\xa5", 0},
		{"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 0},
		{"\xc2\xa0\xef\xbf\xbd", "\xc2\xa0\xef\xbf\xbd", 0}, /* U+00A0, U+FFFD */
		{"\xf4\x8f\xbf\xbd", "\xf4\x8f\xbf\xbd", 0},	     /* U+10FFFD */
	};
	check_escapes(table, sizeof(table) / sizeof(table[0]));
}

static void test_controls_are_escaped(void **state)
{
	(void)state;
	/*
	 * Of two bytes and more: U+009B, a control; U+202E and U+2066, which turn text around;
	 * U+FEFF, which is not seen; U+E0041, a tag; U+FFFF, no character; U+00AD, a hidden hyphen.
	 */
	static const struct escape_case table[] = {
		{"a\nb", "a\\nb", 0},
		{"\t\r", "\\t\\r", 0},
		{"\x1b[31m", "\\x1b[31m", 0},
		{"\x7f\x01", "\\x7f\\x01", 0},
		{"\0", "\\x00", 1},
		{"a\\n", "a\\\\n", 0},
		{"\xc2\x9b"
		 "31m",
		 "\\xc2\\x9b31m", 0},
		{"\xe2\x80\xae", "\\xe2\\x80\\xae", 0},
		{"\xe2\x81\xa6", "\\xe2\\x81\\xa6", 0},
		{"\xef\xbb\xbf", "\\xef\\xbb\\xbf", 0},
		{"\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81", 0},
		{"\xef\xbf\xbf\xc2\xad", "\\xef\\xbf\\xbf\\xc2\\xad", 0},
	};
	check_escapes(table, sizeof(table) / sizeof(table[0]));
}

static void test_what_is_not_utf8_is_escaped(void **state)
{
	(void)state;
	static const struct escape_case table[] = {
		{"\xff", "\\xff", 0},
		{"\x80", "\\x80", 0},
		{"\xc3", "\\xc3", 0},				 /* cut short */
		{"\xe2\x82", "\\xe2\\x82", 0},			 /* cut short */
		{"\xf0\x9f\x98", "\\xf0\\x9f\\x98", 0},		 /* cut short */
		{"\xc3(", "\\xc3(", 0},				 /* no second byte */
		{"\xc0\xaf", "\\xc0\\xaf", 0},			 /* a slash, too long */
		{"\xe0\x80\xaf", "\\xe0\\x80\\xaf", 0},		 /* a slash, too long */
		{"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", 0},		 /* U+07FF, too long */
		{"\xf0\x8f\xbf\xbd", "\\xf0\\x8f\\xbf\\xbd", 0}, /* U+FFFD, too long */
		{"\xed\xa0\x80", "\\xed\\xa0\\x80", 0},		 /* a surrogate */
		{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 0}, /* beyond U+10FFFF */
		{"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80", 0}, /* beyond U+10FFFF */
		{"\xe2\xc3\xa9", "\\xe2\xc3\xa9", 0},		 /* a good one after it */
	};
	check_escapes(table, sizeof(table) / sizeof(table[0]));
}

static void test_escaping_never_needs_more_room(void **state)
{
	(void)state;
	size_t len = REVERSE_TEXT_MAX;
	uint8_t *bytes = malloc(len);
	char *shown = malloc(ESCAPE_MAX(len));
	assert_non_null(bytes);
	assert_non_null(shown);
	memset(bytes, 0xff, len);
	assert_int_equal(escape_bytes(shown, bytes, len), 4 * len);
	assert_int_equal(strlen(shown), 4 * len);
	free(shown);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encode_gives_the_bytes_of_the_format),
		cmocka_unit_test(test_encode_refuses_what_does_not_fit),
		cmocka_unit_test(test_limits_are_the_seed_s),
		cmocka_unit_test(test_decode_takes_good_messages_apart),
		cmocka_unit_test(test_decode_takes_the_longest_messages),
		cmocka_unit_test(test_decode_says_what_is_wrong),
		cmocka_unit_test(test_reverse_turns_bytes_around),
		cmocka_unit_test(test_printable_text_is_shown_as_it_is),
		cmocka_unit_test(test_controls_are_escaped),
		cmocka_unit_test(test_what_is_not_utf8_is_escaped),
		cmocka_unit_test(test_escaping_never_needs_more_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
