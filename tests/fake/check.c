/* SPDX-License-Identifier: MIT */
/* What the fake fabric finds wrong with its caller, and memory that the caller must leave alone. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

static bool expected;
static bool seen;
static char first[300];

void fake__violation(const char *format, ...)
{
	char text[sizeof(first)];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!expected) {
		fprintf(stderr, "fake fabric: %s\n", text);
		fake_remove_files();
		abort();
	}
	if (!seen)
		memcpy(first, text, sizeof(first));
	seen = true;
}

void fake_expect_violation(bool expect)
{
	expected = expect;
	seen = false;
}

const char *fake_violation(void)
{
	bool had = seen;
	seen = false;
	return had ? first : NULL;
}

void *fake__zalloc(size_t size)
{
	void *memory = calloc(1, size);
	if (!memory) {
		fprintf(stderr, "fake fabric: out of memory\n");
		abort();
	}
	return memory;
}

/* FNV-1a, eight bytes at a time: it has to notice a change, not to resist anyone. */
uint64_t fake__sum(const void *data, size_t len)
{
	const uint8_t *at = data;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (; len >= 8; len -= 8, at += 8) {
		uint64_t word;
		memcpy(&word, at, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
		sum ^= sum >> 29;
	}
	for (; len > 0; len--, at++)
		sum = (sum ^ *at) * UINT64_C(0x100000001b3);
	return sum;
}

void fake__poison(const void *data, size_t len)
{
#ifdef WITH_ASAN
	__asan_poison_memory_region(data, len);
#else
	(void)data;
	(void)len;
#endif
}

void fake__unpoison(const void *data, size_t len)
{
#ifdef WITH_ASAN
	__asan_unpoison_memory_region(data, len);
#else
	(void)data;
	(void)len;
#endif
}

void fake_reset(void)
{
	fake__script_reset();
	fake__clock_reset();
	fake__network_reset();
	fake__transfer_reset();
	fake__objects_reset();
	fake__providers_reset();
	fake__system_reset();
	fake_expect_violation(false);
}

void fake_get_left(struct fake_left *left)
{
	*left = (struct fake_left){
		.objects = fake__open_objects(),
		.works = fake__open_works(),
		.allocations = fake__allocations(),
		.files = fake__open_files(),
		.names = fake__shm_names(),
	};
}
