/* SPDX-License-Identifier: MIT */
/* The quirk table: the right row for a provider and version, and what a caller's word matches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>

#include "provider.h"

static void rows_by_version(void **state)
{
	const struct weft__quirks *row;
	(void)state;
	assert_true(weft__quirks_find("efa", FI_VERSION(1, 17))->close_blocks);
	assert_true(weft__quirks_find("efa", FI_VERSION(2, 1))->close_blocks);
	assert_false(weft__quirks_find("efa", FI_VERSION(2, 6))->close_blocks);
	assert_true(weft__quirks_find("efa", FI_VERSION(1, 17))->repeats_ends);
	assert_true(weft__quirks_find("efa", FI_VERSION(2, 6))->repeats_ends);
	assert_false(weft__quirks_find("tcp", FI_VERSION(2, 1))->repeats_ends);
	assert_string_equal(weft__quirks_find("efa", FI_VERSION(2, 1))->fabric, "efa");
	row = weft__quirks_find("tcp;ofi_rxm", FI_VERSION(1, 17));
	assert_true(row->rank == WEFT__RANK_TCP && row->scheme == WEFT_SCHEME_TCP &&
		    row->fd_per_peer);
	/* From 1.18 the native provider is the better of the two. */
	assert_int_equal(weft__quirks_find("tcp;ofi_rxm", FI_VERSION(2, 1))->rank,
			 WEFT__RANK_ASKED);
	assert_int_equal(weft__quirks_find("tcp", FI_VERSION(2, 1))->rank, WEFT__RANK_TCP);
	assert_non_null(weft__quirks_find("shm", FI_VERSION(1, 17))->caveat);
	assert_null(weft__quirks_find("shm", FI_VERSION(2, 1))->caveat);
	assert_int_equal(weft__quirks_find("shm", FI_VERSION(2, 1))->max_peers, 256);
	assert_true(weft__quirks_find("shm", FI_VERSION(1, 17))->stale_source);
	assert_false(weft__quirks_find("shm", FI_VERSION(2, 1))->stale_source);
	assert_non_null(weft__quirks_find("udp;ofi_rxd", FI_VERSION(2, 1))->caveat);
	assert_true(weft__quirks_find("verbs;ofi_rxm", FI_VERSION(1, 17))->rdma);
	row = weft__quirks_find("no-such", FI_VERSION(1, 17));
	assert_true(row->rank == WEFT__RANK_ASKED && row->scheme == WEFT_SCHEME_RAW && row->caveat);
}

static void words_that_match(void **state)
{
	(void)state;
	assert_true(weft__provider_matches("tcp", "tcp"));
	assert_true(weft__provider_matches("tcp", "tcp;ofi_rxm"));
	assert_true(weft__provider_matches("tcp;ofi_rxm", "tcp;ofi_rxm"));
	assert_false(weft__provider_matches("tcp;ofi_rxm", "tcp"));
	assert_false(weft__provider_matches("tc", "tcp"));
	assert_false(weft__provider_matches("efa", "efa-direct"));
	assert_false(weft__provider_matches("ofi_rxm", "tcp;ofi_rxm"));
}

static void cures(void **state)
{
	(void)state;
	assert_non_null(strstr(weft__provider_cure("efa"), "uverbs"));
	assert_non_null(strstr(weft__provider_cure("rdma"), "uverbs"));
	assert_non_null(strstr(weft__provider_cure("shm"), "/dev/shm"));
	assert_string_equal(weft__provider_cure("tcp"), "");
}

static void devices(void **state)
{
	(void)state;
	assert_non_null(strstr(weft__device_caveat("softefa0"), "not EFA hardware"));
	assert_null(weft__device_caveat("rdmap0s6"));
	assert_null(weft__device_caveat("soft"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_by_version),
		cmocka_unit_test(words_that_match),
		cmocka_unit_test(cures),
		cmocka_unit_test(devices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
