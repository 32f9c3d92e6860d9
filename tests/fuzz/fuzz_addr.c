/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as an address: as a text, as the raw bytes of every scheme, and as a damaged struct.
 *
 * What is accepted is written, read back and equal to what it was. What is refused has a reason and
 * a position within the input, and nothing is written over the caller's address.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"

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

/* Whether a whole object still holds the pattern. */
static int is_untouched(const void *object, size_t size)
{
	const uint8_t *bytes = object;

	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != PATTERN)
			return 0;
	}
	return 1;
}

static void check_refused(int ret, const struct weft_addr *addr,
			  const struct weft_parse_error *error, size_t len)
{
	size_t reason_len = strnlen(error->reason, sizeof(error->reason));

	CHECK(ret == -EINVAL);
	CHECK(is_untouched(addr, sizeof(*addr)));
	CHECK(error->pos <= len);
	/* As long as the room for it would mean that it was cut short. */
	CHECK(reason_len > 0 && reason_len < sizeof(error->reason) - 1);
	for (size_t i = 0; i < reason_len; i++)
		CHECK(error->reason[i] >= ' ' && error->reason[i] <= '~');
}

static void check_accepted(const struct weft_addr *addr)
{
	char text[WEFT_ADDR_TEXT_MAX], text_again[WEFT_ADDR_TEXT_MAX];
	struct weft_addr again, checked;
	int n = weft_addr_format(addr, text, sizeof(text));

	CHECK(n > 0 && (size_t)n < sizeof(text) && strlen(text) == (size_t)n);
	CHECK(weft_addr_format(addr, text, (size_t)n) == -ENOSPC);
	CHECK(weft_addr_parse(&again, text, NULL) == 0);
	CHECK(weft_addr_equal(addr, &again) == 1 && weft_addr_equal(&again, addr) == 1);
	CHECK(weft_addr_format(&again, text_again, sizeof(text_again)) == n);
	CHECK(strcmp(text, text_again) == 0);

	/* What the library hashes: equal addresses have the same bytes. */
	CHECK(weft__addr_check(&checked, addr, NULL) == 0);
	CHECK(checked.scheme == again.scheme && checked.format == again.format);
	CHECK(checked.len == again.len);
	CHECK(memcmp(checked.raw, again.raw, sizeof(again.raw)) == 0);
}

static void check_text(const uint8_t *data, size_t size)
{
	struct weft_parse_error error;
	struct weft_addr addr;
	char *text = malloc(size + 1);
	int ret;

	CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&addr, PATTERN, sizeof(addr));
	memset(&error, PATTERN, sizeof(error));
	ret = weft_addr_parse(&addr, text, &error);
	if (ret == 0) {
		CHECK(is_untouched(&error, sizeof(error)));
		check_accepted(&addr);
	} else {
		check_refused(ret, &addr, &error, strlen(text));
	}
	free(text);
}

static void check_raw(enum weft_scheme scheme, uint32_t format, const uint8_t *raw, size_t len)
{
	struct weft_parse_error error;
	struct weft_addr addr;
	int ret;

	memset(&addr, PATTERN, sizeof(addr));
	memset(&error, PATTERN, sizeof(error));
	ret = weft_addr_from_raw(&addr, scheme, format, raw, len, &error);
	if (ret == 0) {
		CHECK(is_untouched(&error, sizeof(error)));
		CHECK(addr.scheme == scheme && addr.len <= len);
		check_accepted(&addr);
	} else {
		check_refused(ret, &addr, &error, len);
	}
}

/* A struct with any bytes in it, as a caller's bug would make it. */
static void check_damaged(const uint8_t *data, size_t size)
{
	struct weft_addr damaged;
	char text[WEFT_ADDR_TEXT_MAX];
	int ret;

	memset(&damaged, 0, sizeof(damaged));
	memcpy(&damaged, data, size < sizeof(damaged) ? size : sizeof(damaged));
	memset(text, PATTERN, sizeof(text));
	ret = weft_addr_format(&damaged, text, sizeof(text));
	CHECK(weft_addr_equal(&damaged, &damaged) == (ret > 0));
	if (ret > 0) {
		check_accepted(&damaged);
	} else {
		CHECK(ret == -EINVAL);
		CHECK(is_untouched(text, sizeof(text)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The input's own bytes choose the format, which counts for raw:// only. */
	uint32_t format = (uint32_t)size;

	if (size >= sizeof(format))
		memcpy(&format, data, sizeof(format));
	check_text(data, size);
	for (int scheme = WEFT_SCHEME_NONE; scheme <= WEFT_SCHEME_RAW + 1; scheme++)
		check_raw((enum weft_scheme)scheme, format, data, size);
	check_damaged(data, size);
	return 0;
}
