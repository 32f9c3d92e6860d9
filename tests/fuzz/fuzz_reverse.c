/* SPDX-License-Identifier: MIT */
/*
 * fuzz_reverse.c: feeds any bytes to what the reverse program does with a received message: taking
 * it apart, reading the address of a CONNECT, turning a text around, and showing it. Calls the
 * program's pure headers and the addresses of weft/net.h.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/net.h>

#include "escape.h"
#include "reverse_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As assert(), in every build. */
static void require(int holds)
{
	if (!holds)
		abort();
}

static void try_address(const struct reverse_message *message)
{
	for (int scheme = WEFT_SCHEME_NONE; scheme <= WEFT_SCHEME_RAW + 1; scheme++) {
		struct weft_addr addr, again;
		struct weft_parse_error error = {.pos = SIZE_MAX};
		char text[WEFT_ADDR_TEXT_MAX];
		int ret = weft_addr_from_raw(&addr, (enum weft_scheme)scheme, 7, message->body,
					     message->len, &error);
		if (ret < 0) {
			require(error.pos <= message->len && error.reason[0]);
			require(memchr(error.reason, 0, sizeof(error.reason)) != NULL);
			continue;
		}
		/* What was accepted has a text, and the text names the same endpoint. */
		int len = weft_addr_format(&addr, text, sizeof(text));
		require(len > 0 && strlen(text) == (size_t)len);
		require(weft_addr_parse(&again, text, NULL) == 0);
		require(weft_addr_equal(&addr, &again));
	}
}

static uint8_t unhex(char digit)
{
	return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* Reads back what escape_bytes() has written, and compares. */
static void check_escaped(const char *shown, const uint8_t *bytes, size_t len)
{
	size_t at = 0;
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)shown[at++];
		require(byte >= ' ' && byte != 0x7f);
		if (byte == '\\') {
			char kind = shown[at++];
			byte = kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : '\\';
			if (kind == 'x') {
				byte = (uint8_t)(unhex(shown[at]) << 4 | unhex(shown[at + 1]));
				at += 2;
			}
		}
		require(byte == bytes[i]);
	}
	require(shown[at] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t encoded[REVERSE_MESSAGE_MAX];
	struct reverse_message message;
	uint8_t *bytes = malloc(size > 0 ? size : 1);
	char *shown = malloc(ESCAPE_MAX(size));
	if (!bytes || !shown)
		goto out;
	if (size > 0)
		memcpy(bytes, data, size);
	require(escape_bytes(shown, bytes, size) == strlen(shown));
	check_escaped(shown, bytes, size);

	if (reverse_decode(&message, bytes, size))
		goto out;
	require(size > 0 && size <= REVERSE_MESSAGE_MAX && message.len == size - 1);
	require(message.body == bytes + 1);
	if (message.type == REVERSE_CONNECT)
		try_address(&message);
	require(reverse_encode(encoded, message.type, message.body, message.len) == size);
	require(memcmp(encoded, data, size) == 0);

	reverse_text(message.body, message.len);
	for (size_t i = 0; i < message.len; i++)
		require(message.body[i] == data[size - 1 - i]);
out:
	free(shown);
	free(bytes);
	return 0;
}
