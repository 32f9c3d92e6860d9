/* SPDX-License-Identifier: MIT */
/* Why sessions end: each reason has words of its own and a code, also those of newer peers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reason.h"

static void every_reason_has_its_own_words(void **state)
{
	const char *unknown = weft_reason_text((enum weft_reason)1000);
	(void)state;
	for (int i = WEFT_REASON_NONE; i <= WEFT_REASON_ADDRESS; i++) {
		const char *text = weft_reason_text((enum weft_reason)i);
		assert_true(text[0] != 0);
		assert_string_not_equal(text, unknown);
		for (int j = WEFT_REASON_NONE; j < i; j++)
			assert_string_not_equal(text, weft_reason_text((enum weft_reason)j));
	}
}

static void every_reason_has_a_code(void **state)
{
	(void)state;
	for (int i = WEFT_REASON_NONE; i <= WEFT_REASON_ADDRESS; i++) {
		int status = weft__reason_status((enum weft_reason)i);
		bool wished = i == WEFT_REASON_CLOSED || i == WEFT_REASON_SHUTDOWN;
		assert_int_equal(status == 0, wished);
		assert_true(status <= 0);
	}
	assert_int_equal(weft__reason_status(WEFT_REASON_REFUSED), -ECONNREFUSED);
	assert_int_equal(weft__reason_status(WEFT_REASON_TIMEOUT), -ETIMEDOUT);
	assert_int_equal(weft__reason_status(WEFT_REASON_LOST), -ETIMEDOUT);
	assert_int_equal(weft__reason_status(WEFT_REASON_RESTARTED), -ECONNRESET);
}

/* A newer peer, or a hostile one, may send any number. */
static void numbers_that_are_not_known(void **state)
{
	static const int numbers[] = {WEFT_REASON_ADDRESS + 1, UINT16_MAX, INT32_MAX, -1};
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		assert_non_null(
			strstr(weft_reason_text((enum weft_reason)numbers[i]), "not known"));
		assert_int_equal(weft__reason_status((enum weft_reason)numbers[i]), -ECONNRESET);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_its_own_words),
		cmocka_unit_test(every_reason_has_a_code),
		cmocka_unit_test(numbers_that_are_not_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
