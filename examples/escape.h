/* SPDX-License-Identifier: MIT */
/*
 * Shows bytes that came from a peer. A terminal obeys control bytes, and some characters reorder or hide the text
 * around them, so nothing of a peer's is printed before it has been through here. Pure; calls nothing of weft.
 */
#ifndef ESCAPE_H
#define ESCAPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Room for the escaped form of so many bytes, its terminating NUL included. */
#define ESCAPE_MAX(len) (4 * (size_t)(len) + 1)

/*
 * Reads the UTF-8 character that bytes start with, in its shortest form only.
 * Returns its length and writes its code point, or returns 0 if there is no such character.
 */
static inline size_t escape_utf8(const uint8_t *bytes, size_t len, uint32_t *point)
{
	if (len == 0)
		return 0;
	if (bytes[0] < 0x80) {
		*point = bytes[0];
		return 1;
	}
	size_t size = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
	if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || size > len)
		return 0;
	uint32_t value = bytes[0] & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (bytes[i] & 0x3fu);
	}
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	if (value < least[size] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 0;
	*point = value;
	return size;
}

/* Whether a character shows as itself and leaves its neighbours alone. */
static inline int escape_is_plain(uint32_t point)
{
	/* Controls, soft hyphen, marks that turn or hide text, separators, fillers, tags, and what is no character. */
	static const struct {
		uint32_t first, last;
	} odd[] = {
		{ 0x0000, 0x001f }, { 0x007f, 0x009f }, { 0x00ad, 0x00ad }, { 0x061c, 0x061c },
		{ 0x115f, 0x1160 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f }, { 0x200b, 0x200f },
		{ 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xfdd0, 0xfdef },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0xe0000, 0xe0fff },
	};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (point >= odd[i].first && point <= odd[i].last)
			return 0;
	}
	return (point & 0xfffe) != 0xfffe;
}

/*
 * Writes len bytes to out, which has room for ESCAPE_MAX(len): printable UTF-8 as it is, a backslash as \\, a newline
 * as \n, a tab as \t, a carriage return as \r, and every other byte as \x1b. The result reads back to the same bytes.
 *
 * Returns the length of what was written, without its NUL.
 */
static inline size_t escape_bytes(char *out, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t used = 0;
	for (size_t i = 0; i < len;) {
		uint32_t point = 0;
		size_t size = escape_utf8(bytes + i, len - i, &point);
		uint8_t byte = bytes[i];
		if (byte == '\\' || byte == '\n' || byte == '\t' || byte == '\r') {
			out[used++] = '\\';
			out[used++] = byte == '\\' ? '\\' : byte == '\n' ? 'n' : byte == '\t' ? 't' : 'r';
			i++;
		} else if (size > 0 && escape_is_plain(point)) {
			memcpy(out + used, bytes + i, size);
			used += size;
			i += size;
		} else {
			out[used++] = '\\';
			out[used++] = 'x';
			out[used++] = digits[byte >> 4];
			out[used++] = digits[byte & 15];
			i++;
		}
	}
	out[used] = 0;
	return used;
}

#endif
