/* SPDX-License-Identifier: MIT */
/*
 * The bytes that the reverse program sends and receives. One message is one libfabric message and starts with a type:
 *
 *   CONNECT  byte 0, then the sender's own raw address, as long as its provider makes it
 *   DATA     byte 1, then any text, which may be empty; the reply to it is of the same form
 *
 * Pure: bytes in, bytes out. It calls nothing of weft and nothing of libfabric, so all of it can be tested and fuzzed
 * directly.
 */
#ifndef REVERSE_WIRE_H
#define REVERSE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weft/net.h>

/* The longest message, type included. Every receive is posted with a buffer of this size. */
#define REVERSE_MESSAGE_MAX 8192
#define REVERSE_TEXT_MAX (REVERSE_MESSAGE_MAX - 1)

enum reverse_type {
	REVERSE_CONNECT = 0,
	REVERSE_DATA = 1,
};

/* A decoded message. The body points into the bytes that were decoded, so that it can be reversed where it is. */
struct reverse_message {
	enum reverse_type type;
	uint8_t *body;
	size_t len;
};

/*
 * Takes a received message apart. Whether the body of a CONNECT is an address is for the caller to find out, who knows
 * the provider.
 *
 * Returns NULL, or what is wrong with the message; *message is written only in the first case.
 */
static inline const char *reverse_decode(struct reverse_message *message, uint8_t *bytes, size_t len)
{
	if (len == 0)
		return "it is empty";
	if (len > REVERSE_MESSAGE_MAX)
		return "it is longer than a message may be";
	if (bytes[0] != REVERSE_CONNECT && bytes[0] != REVERSE_DATA)
		return "its type is unknown";
	if (bytes[0] == REVERSE_CONNECT && len == 1)
		return "it is a CONNECT without an address";
	if (bytes[0] == REVERSE_CONNECT && len - 1 > WEFT_ADDR_MAX)
		return "it is a CONNECT with an address that is too long";
	*message = (struct reverse_message){
		.type = bytes[0] == REVERSE_CONNECT ? REVERSE_CONNECT : REVERSE_DATA,
		.body = bytes + 1,
		.len = len - 1,
	};
	return NULL;
}

/*
 * Writes a message to out, which has room for REVERSE_MESSAGE_MAX bytes.
 *
 * Returns its length, or 0 if the body does not fit; nothing is written then.
 */
static inline size_t reverse_encode(uint8_t *out, enum reverse_type type, const void *body, size_t len)
{
	if (len > (type == REVERSE_CONNECT ? (size_t)WEFT_ADDR_MAX : (size_t)REVERSE_TEXT_MAX))
		return 0;
	out[0] = (uint8_t)type;
	if (len > 0)
		memcpy(out + 1, body, len);
	return 1 + len;
}

/* Reverses text in place, byte by byte: a character of several bytes is turned around too. */
static inline void reverse_text(uint8_t *text, size_t len)
{
	for (size_t i = 0; i < len / 2; i++) {
		uint8_t byte = text[i];
		text[i] = text[len - 1 - i];
		text[len - 1 - i] = byte;
	}
}

#endif
