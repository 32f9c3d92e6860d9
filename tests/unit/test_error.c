/* SPDX-License-Identifier: MIT */
/*
 * The texts of codes: errno's, libfabric's, unknown ones, of both signs and from many threads; the
 * advice on EFA's codes; the version. Calls the public functions and what error.h adds.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "error.h"
#include <weft/net.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNKNOWN "unknown code"

static void test_errno(void **state)
{
	(void)state;
	assert_string_equal(weft_strerror(0), "success");
	for (int code = 1; code < FI_ERRNO_OFFSET; code++) {
		const char *text = weft_strerror(code);
		char libc[128];

		/* In the C locale strerror() says the same, save for codes that do not exist. */
		(void)snprintf(libc, sizeof(libc), "%s", strerror(code));
		if (strncmp(libc, "Unknown error", 13) == 0)
			assert_string_equal(text, UNKNOWN);
		else
			assert_string_equal(text, libc);
		assert_string_equal(weft_strerror(-code), text);
	}
	assert_string_equal(weft_strerror(-EINVAL), "Invalid argument");
	assert_string_equal(weft_strerror(-ETIMEDOUT), "Connection timed out");
	assert_string_equal(weft_strerror(ENODATA), "No data available");
}

static void test_libfabric(void **state)
{
	(void)state;
	for (int code = FI_EOTHER; code < FI_ERRNO_MAX; code++) {
		const char *text = weft_strerror(code);

		assert_string_equal(text, fi_strerror(code));
		assert_string_not_equal(text, UNKNOWN);
		assert_string_equal(weft_strerror(-code), text);
		/* Each code has a text of its own, and is not taken for another. */
		for (int other = FI_EOTHER; other < code; other++)
			assert_string_not_equal(text, weft_strerror(other));
	}
}

static void test_unknown(void **state)
{
	/* 511 is the last that libfabric is asked about; EFA's own codes are not in this space. */
	static const int codes[] = {134, 255, 511, 512, 4096, 65536, INT_MAX, INT_MAX - 1};

	(void)state;
	for (size_t i = 0; i < COUNT(codes); i++) {
		assert_string_equal(weft_strerror(codes[i]), UNKNOWN);
		assert_string_equal(weft_strerror(-codes[i]), UNKNOWN);
	}
	assert_string_equal(weft_strerror(INT_MIN), UNKNOWN);
	assert_string_equal(weft_strerror(INT_MIN + 1), UNKNOWN);
}

#define THREADS 8
#define CODES 600

static const char *texts[CODES];

/* Returns the number of codes whose text is another one, or in another place, than before. */
static void *ask_all(void *arg)
{
	uintptr_t wrong = 0;

	(void)arg;
	for (int round = 0; round < 20; round++) {
		for (int code = 0; code < CODES; code++) {
			const char *text = weft_strerror(round % 2 ? -code : code);

			wrong += text != texts[code];
		}
	}
	return (void *)wrong;
}

/* Texts are constant: the same pointer for everybody, so no thread can spoil another's. */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	char copies[CODES][80];

	(void)state;
	for (int code = 0; code < CODES; code++) {
		texts[code] = weft_strerror(code);
		(void)snprintf(copies[code], sizeof(copies[code]), "%s", texts[code]);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_all, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;

		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	for (int code = 0; code < CODES; code++)
		assert_string_equal(texts[code], copies[code]);
}

/* The words that make the advice one on this code. */
struct advice {
	int code;
	const char *words[3];
};

static const struct advice advices[] = {
	{9, {"process is gone", "restarted", "present address"}},
	{10, {"no receive", "post more receives", "poll"}},
	{13, {"has stopped", "host", NULL}},
	{14, {"does not know this side", "add our address", NULL}},
	{15, {"security group", "both directions", "subnet"}},
	{4105, {"memory", "ulimit", NULL}},
	{4112, {"locked memory", "ulimit -l", "memlock"}},
	{4122, {"/dev/shm", "FI_EFA_ENABLE_SHM_TRANSFER=0", NULL}},
	{4124, {"answered before", "gone", NULL}},
	{4125, {"FI_EFA_USE_ZCPY_RX=0", "version", NULL}},
	{4126, {"within reach", "ended", "present address"}},
};

static void test_efa_advice(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(advices); i++) {
		const char *text = weft__efa_advice(advices[i].code);

		assert_non_null(text);
		for (size_t w = 0; w < COUNT(advices[i].words); w++) {
			const char *word = advices[i].words[w];

			if (word != NULL && strstr(text, word) == NULL)
				fail_msg("%d: \"%s\" is not in \"%s\"", advices[i].code, word,
					 text);
		}
	}
}

/* Whether some libfabric has this code. 0 is success, 16 and 17 are not used. */
static int is_efa_code(int code)
{
	return (code >= 1 && code <= 15) || code == 18 || (code >= 4096 && code <= 4127);
}

static void test_efa_all(void **state)
{
	(void)state;
	for (int code = -5000; code <= 5000; code++) {
		const char *text = weft__efa_advice(code);
		size_t len;

		if (!is_efa_code(code)) {
			assert_null(text);
			continue;
		}
		/* A cause and a cure in whole sentences on one line that a log can hold. */
		assert_non_null(text);
		len = strlen(text);
		assert_in_range(len, 60, 300);
		assert_int_equal(text[len - 1], '.');
		assert_null(strpbrk(text, "\n\t"));
		assert_null(strstr(text, "  "));
	}
	assert_null(weft__efa_advice(INT_MIN));
	assert_null(weft__efa_advice(INT_MAX));
}

static void test_version(void **state)
{
	char want[64];

	(void)state;
	(void)snprintf(want, sizeof(want), "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
		       WEFT_VERSION_PATCH);
	assert_string_equal(weft_version(), want);
	assert_string_equal(weft_version(), WEFT_VERSION);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errno),	   cmocka_unit_test(test_libfabric),
		cmocka_unit_test(test_unknown),	   cmocka_unit_test(test_threads),
		cmocka_unit_test(test_efa_advice), cmocka_unit_test(test_efa_all),
		cmocka_unit_test(test_version),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
