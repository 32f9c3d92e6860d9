/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "units.h"

/* Reads digits up to a number that still leaves room to multiply. Returns where they end, or NULL.
 */
static const char *read_digits(const char *text, uint64_t *number)
{
	const char *end = text;
	*number = 0;
	for (; *end >= '0' && *end <= '9'; end++) {
		if (*number > (UINT64_MAX - 9) / 10)
			return NULL;
		*number = *number * 10 + (uint64_t)(*end - '0');
	}
	return end > text ? end : NULL;
}

bool parse_count(const char *text, uint64_t *count)
{
	uint64_t number;
	const char *end = read_digits(text, &number);
	if (!end || *end)
		return false;
	*count = number;
	return true;
}

bool parse_size(const char *text, uint64_t *bytes)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {{"", 0}, {"k", 10}, {"K", 10}, {"M", 20}, {"G", 30}};
	uint64_t number;
	const char *end = read_digits(text, &number);
	for (size_t i = 0; end && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) == 0 && number <= UINT64_MAX >> units[i].shift) {
			*bytes = number << units[i].shift;
			return true;
		}
	}
	return false;
}

/* What follows the point, in billionths. Returns where it ends, or NULL. */
static const char *read_fraction(const char *text, uint64_t *billionths)
{
	uint64_t part = 100000000;
	const char *end = text;
	*billionths = 0;
	for (; *end >= '0' && *end <= '9'; end++, part /= 10) {
		if (part == 0)
			return NULL;
		*billionths += (uint64_t)(*end - '0') * part;
	}
	return end > text ? end : NULL;
}

bool parse_duration(const char *text, int *ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}};
	uint64_t number;
	uint64_t billionths = 0;
	const char *end = read_digits(text, &number);
	if (end && *end == '.')
		end = read_fraction(end + 1, &billionths);
	for (size_t i = 0; end && i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t unit = units[i].ms;
		if (strcmp(end, units[i].name) != 0 || number > INT_MAX / unit ||
		    billionths * unit % 1000000000 != 0)
			continue;
		uint64_t sum = number * unit + billionths * unit / 1000000000;
		if (sum == 0 || sum > INT_MAX)
			return false;
		*ms = (int)sum;
		return true;
	}
	return false;
}

const char *format_size(char *text, double bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t i = 0;
	if (bytes < 1024) {
		snprintf(text, UNITS_TEXT_MAX, "%.0f byte%s", bytes,
			 bytes >= 1 && bytes < 2 ? "" : "s");
		return text;
	}
	for (bytes /= 1024; bytes >= 1023.95 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		bytes /= 1024;
	snprintf(text, UNITS_TEXT_MAX, "%.1f %s", bytes, units[i]);
	return text;
}

const char *format_duration(char *text, int64_t ms)
{
	int64_t s = ms / 1000;
	if (ms < 1000 || (ms % 1000 && s < 60))
		snprintf(text, UNITS_TEXT_MAX, "%" PRId64 " ms", ms);
	else if (s < 120)
		snprintf(text, UNITS_TEXT_MAX, "%" PRId64 " s", s);
	else
		snprintf(text, UNITS_TEXT_MAX, "%" PRId64 ":%02d:%02d h", s / 3600,
			 (int)(s / 60 % 60), (int)(s % 60));
	return text;
}

const char *format_link(char *text, uint64_t bits_per_second)
{
	snprintf(text, UNITS_TEXT_MAX, "%g Gbit/s", (double)bits_per_second / 1e9);
	return text;
}
