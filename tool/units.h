/* SPDX-License-Identifier: MIT */
/*
 * Durations, sizes and rates as people write and read them. Pure: text in, numbers out, and the other way round.
 */
#ifndef TOOL_UNITS_H
#define TOOL_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Each takes the whole text or nothing, and writes its result only where it returns true.
 *
 * Durations: 500ms, 2s, 1m, or plain seconds; with a fraction where that makes whole milliseconds; at least one.
 * Sizes: 100, 64k, 8M, 1G, in powers of 1024. Counts: digits.
 */
bool parse_duration(const char *text, int *ms);
bool parse_size(const char *text, uint64_t *bytes);
bool parse_count(const char *text, uint64_t *count);

/* Room for what each of these writes. */
#define UNITS_TEXT_MAX 32
/* "13 bytes", "1.5 MiB"; "2 s", "250 ms", "1:05:00"; "100 Gbit/s". Each returns text. */
const char *format_size(char *text, double bytes);
const char *format_duration(char *text, int64_t ms);
const char *format_link(char *text, uint64_t bits_per_second);

#endif
