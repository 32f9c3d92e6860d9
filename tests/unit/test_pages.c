/* SPDX-License-Identifier: MIT */
/* Memory for buffers: which pages it is of, who shares them, and when they go back. Calls pages.c
 * only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

#include "pages.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define HUGE_PAGE (2 * MIB)

struct piece {
	uint8_t *data;
	size_t size;
	struct weft__region *region;
	uint8_t mark;
};

static struct weft__regions regions = TAILQ_HEAD_INITIALIZER(regions);

static struct piece take(size_t size)
{
	struct piece piece = {.size = size};
	piece.data = weft__pages_alloc(&regions, size, &piece.region);
	assert_non_null(piece.data);
	assert_int_equal((uintptr_t)piece.data % (size_t)sysconf(_SC_PAGESIZE), 0);
	return piece;
}

static void give(struct piece *piece)
{
	weft__pages_free(piece->data, piece->size, piece->region);
	piece->data = NULL;
}

static bool is_all(const struct piece *piece, uint8_t byte)
{
	return piece->data[0] == byte && memcmp(piece->data, piece->data + 1, piece->size - 1) == 0;
}

static size_t count_regions(void)
{
	struct weft__region *region;
	size_t count = 0;
	TAILQ_FOREACH (region, &regions, link)
		count++;
	return count;
}

static uint32_t at_random(uint32_t below)
{
	static uint64_t state = 1;
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

/* Whether the mapping that the address lies in is marked so (proc(5), VmFlags). Nothing is mapped:
 * false. */
static bool has_flag(const void *at, const char *flag)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	bool inside = false, found = false;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char *end;
		uintptr_t from = strtoull(line, &end, 16);
		if (end > line && *end == '-')
			inside = (uintptr_t)at >= from &&
				 (uintptr_t)at < strtoull(end + 1, NULL, 16);
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, flag) != NULL;
	}
	fclose(file);
	return found;
}

static void every_length_is_zeroed_memory_of_its_own(void **state)
{
	static const size_t sizes[] = {1,
				       4096,
				       4097,
				       128 * KIB - 4096,
				       128 * KIB - 4095,
				       128 * KIB,
				       MIB,
				       HUGE_PAGE - 64 * KIB,
				       HUGE_PAGE - 1,
				       HUGE_PAGE,
				       HUGE_PAGE + 1,
				       5 * MIB + 123};
	struct weft__regions *from[] = {NULL, &regions};
	(void)state;
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct piece piece = {.size = sizes[i]};
			piece.data = weft__pages_alloc(from[k], sizes[i], &piece.region);
			assert_non_null(piece.data);
			assert_true(is_all(&piece, 0));
			memset(piece.data, 7, piece.size);
			assert_int_equal(piece.region != NULL, k == 1 && sizes[i] > 124 * KIB);
			give(&piece);
			assert_int_equal(count_regions(), 0);
		}
	}
}

static void more_than_there_is(void **state)
{
	static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 4096 * 4096,
				       SIZE_MAX / 2};
	struct weft__region *region;
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_null(weft__pages_alloc(&regions, sizes[i], &region));
		assert_null(weft__pages_alloc(NULL, sizes[i], &region));
		assert_int_equal(count_regions(), 0);
	}
}

static void huge_pages_are_asked_for(void **state)
{
	(void)state;
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
		skip();
	struct piece some = take(MIB), whole = take(6 * MIB);
	struct weft__region *none;
	uint8_t *plain = weft__pages_alloc(NULL, MIB, &none);
	assert_true(has_flag(some.data, " hg"));
	assert_true(has_flag(whole.data, " hg"));
	assert_true(has_flag(whole.data + whole.size - 1, " hg"));
	assert_int_equal((uintptr_t)whole.data % HUGE_PAGE, 0);
	assert_false(has_flag(plain, " hg"));
	weft__pages_free(plain, MIB, none);
	give(&some);
	give(&whole);
}

static void what_fits_shares_a_region(void **state)
{
	struct piece pieces[8];
	(void)state;
	/* As long as a message of 1 MiB with a byte more, and yet seven of them. */
	for (size_t i = 0; i < 8; i++)
		pieces[i] = take(MIB + 1);
	for (size_t i = 1; i < 7; i++) {
		assert_ptr_equal(pieces[i].region, pieces[0].region);
		assert_ptr_equal(pieces[i].data, pieces[i - 1].data + MIB + 64 * KIB);
	}
	assert_ptr_not_equal(pieces[7].region, pieces[0].region);
	assert_int_equal(count_regions(), 2);
	/* One that is as long as a huge page is nobody's to share. */
	struct piece whole = take(HUGE_PAGE);
	assert_int_equal(count_regions(), 2);
	give(&whole);
	/* The first hole that is long enough, zeroed again. */
	for (size_t i = 0; i < 8; i++)
		memset(pieces[i].data, 1 + (int)i, pieces[i].size);
	uint8_t *was = pieces[2].data;
	give(&pieces[2]);
	struct piece longer = take(MIB + 64 * KIB + 1);
	assert_ptr_equal(longer.region, pieces[7].region);
	struct piece shorter = take(MIB / 2);
	assert_ptr_equal(shorter.data, was);
	assert_true(is_all(&shorter, 0));
	pieces[2] = take(MIB / 2);
	assert_ptr_equal(pieces[2].data, was + MIB / 2);
	for (size_t i = 0; i < 8; i++) {
		if (i != 2)
			assert_true(is_all(&pieces[i], (uint8_t)(1 + i)));
		give(&pieces[i]);
	}
	assert_int_equal(count_regions(), 2);
	give(&shorter);
	assert_int_equal(count_regions(), 1);
	give(&longer);
	assert_int_equal(count_regions(), 0);
}

/* How many bytes of it are in memory. */
static size_t resident(const struct piece *piece)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
	unsigned char there[64];
	assert_true(piece->size / page <= sizeof(there));
	assert_int_equal(mincore(piece->data, piece->size, there), 0);
	for (size_t i = 0; i < piece->size / page; i++)
		count += there[i] & 1;
	return count * page;
}

/* One of each 16 is kept, so that each huge page is in use. */
static void what_is_freed_takes_no_memory(void **state)
{
	static struct piece pieces[1024];
	(void)state;
	for (size_t i = 0; i < 1024; i++) {
		pieces[i] = take(128 * KIB);
		memset(pieces[i].data, 1, pieces[i].size);
	}
	for (size_t i = 0; i < 1024; i++) {
		struct piece was = pieces[i];
		assert_int_equal(resident(&was), was.size);
		if (i % 16 == 0)
			continue;
		give(&pieces[i]);
		assert_int_equal(resident(&was), 0);
	}
	assert_int_equal(count_regions(), 16);
	for (size_t i = 0; i < 1024; i += 16) {
		assert_true(is_all(&pieces[i], 1));
		give(&pieces[i]);
	}
	assert_int_equal(count_regions(), 0);
}

static void a_region_goes_back_with_its_last_buffer(void **state)
{
	(void)state;
	struct piece a = take(200 * KIB), b = take(300 * KIB);
	const void *at = a.data;
	give(&b);
	assert_true(has_flag(at, " rd"));
	give(&a);
	assert_false(has_flag(at, " rd"));
}

static void no_two_overlap(void **state)
{
	struct piece pieces[60] = {{.data = NULL}};
	(void)state;
	for (int turn = 0; turn < 3000; turn++) {
		struct piece *piece = &pieces[at_random(60)];
		if (piece->data) {
			assert_true(is_all(piece, piece->mark));
			give(piece);
			continue;
		}
		*piece = take(at_random(turn % 50 == 0 ? 3 * MIB : 600 * KIB) + 1);
		assert_true(is_all(piece, 0));
		piece->mark = (uint8_t)(1 + at_random(255));
		memset(piece->data, piece->mark, piece->size);
	}
	for (size_t i = 0; i < 60; i++) {
		if (pieces[i].data)
			give(&pieces[i]);
	}
	assert_int_equal(count_regions(), 0);
}

static void *give_all(void *user)
{
	struct piece *pieces = user;
	for (size_t i = 0; i < 32; i += 2)
		give(&pieces[i]);
	return NULL;
}

/* Two threads that have buffers of a net which is closed. */
static void outlives_its_owner(void **state)
{
	(void)state;
	for (int round = 0; round < 50; round++) {
		struct piece pieces[32];
		pthread_t thread;
		for (size_t i = 0; i < 32; i++) {
			pieces[i] = take(128 * KIB);
			memset(pieces[i].data, 1 + (int)i, pieces[i].size);
		}
		assert_int_equal(count_regions(), 1);
		weft__regions_detach(&regions);
		assert_int_equal(count_regions(), 0);
		for (size_t i = 0; i < 32; i++)
			assert_true(is_all(&pieces[i], (uint8_t)(1 + i)));
		assert_int_equal(pthread_create(&thread, NULL, give_all, pieces), 0);
		give_all(pieces + 1);
		assert_int_equal(pthread_join(thread, NULL), 0);
		for (size_t i = 0; i < 32; i++)
			assert_null(pieces[i].data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_is_zeroed_memory_of_its_own),
		cmocka_unit_test(more_than_there_is),
		cmocka_unit_test(huge_pages_are_asked_for),
		cmocka_unit_test(what_fits_shares_a_region),
		cmocka_unit_test(what_is_freed_takes_no_memory),
		cmocka_unit_test(a_region_goes_back_with_its_last_buffer),
		cmocka_unit_test(no_two_overlap),
		cmocka_unit_test(outlives_its_owner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
