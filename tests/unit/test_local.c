/* SPDX-License-Identifier: MIT */
/*
 * The local address to bind to: what is read from text, from sockaddrs, from routes, and what fits
 * what.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "local.h"

static void texts_that_are_read(void **state)
{
	static const struct {
		const char *text;
		const char *addr;
		uint16_t port;
	} good[] = {
		{"127.0.0.1", "127.0.0.1", 0},
		{"10.1.2.3:7000", "10.1.2.3", 7000},
		{"[::1]", "::1", 0},
		{"::1", "::1", 0},
		{"[fd00::5]:65535", "fd00::5", 65535},
		{":80", "", 80},
		{":0", "", 0},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
		 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 0},
	};
	char text[INET6_ADDRSTRLEN], reason[160];
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct weft__local local;
		assert_int_equal(weft__local_parse(&local, good[i].text, reason, sizeof(reason)),
				 0);
		assert_string_equal(weft__local_format(&local, text, sizeof(text)), good[i].addr);
		assert_int_equal(local.port, good[i].port);
	}
}

static void texts_that_are_refused(void **state)
{
	static const struct {
		const char *text;
		const char *word;
	} bad[] = {
		{"", "expected"},
		{" ", "expected"},
		{"eth0", "expected"},
		{"1.2.3", "expected"},
		{"1.2.3.4.5", "expected"},
		{"1.2.3.4:", "port"},
		{"1.2.3.4:x", "port"},
		{"1.2.3.4:65536", "port"},
		{"1.2.3.4:123456", "port"},
		{"1.2.3.4:-1", "port"},
		{"[::1", "expected"},
		{"[::1]x", "expected"},
		{"[]:5", "expected"},
		{"[1.2.3.4]", "expected"},
		{"[::1]:", "port"},
		{"0.0.0.0", "interface"},
		{"0.0.0.0:1", "interface"},
		{"::", "interface"},
		{"[::]:9", "interface"},
		{"1.2.3.4 ", "expected"},
		{"[1.2.3.4:5", "expected"},
		{"a-text-that-is-much-longer-than-any-address-can-be-and-then-some-more",
		 "expected"},
	};
	char reason[160];
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct weft__local local = {.port = 4711};
		assert_int_equal(weft__local_parse(&local, bad[i].text, reason, sizeof(reason)),
				 -EINVAL);
		if (!strstr(reason, bad[i].word))
			fail_msg("'%s': '%s' does not say '%s'", bad[i].text, reason, bad[i].word);
		assert_int_equal(local.port, 4711);
	}
}

static struct weft__local read_local(const char *text)
{
	struct weft__local local;
	char reason[160];
	assert_int_equal(weft__local_parse(&local, text, reason, sizeof(reason)), 0);
	return local;
}

static void what_fits_what(void **state)
{
	static const struct {
		const char *want, *have;
		bool fits;
	} cases[] = {
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1:5", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"127.0.0.2", "127.0.0.1", true},
		{"::1", "::1", true},
		{"::1", "127.0.0.1", false},
		{"fd00::1", "fd00::2", false},
		{"fd00::1", "fd00::1", true},
		{":5", "127.0.0.1", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weft__local want = read_local(cases[i].want),
				   have = read_local(cases[i].have);
		assert_int_equal(weft__local_fits(&want, &have), cases[i].fits);
	}
	struct weft__local local = read_local("127.3.2.1");
	assert_true(weft__local_is_loopback(&local));
	local = read_local("::1");
	assert_true(weft__local_is_loopback(&local));
	local = read_local("128.0.0.1");
	assert_false(weft__local_is_loopback(&local));
	local = read_local(":1");
	assert_false(weft__local_is_loopback(&local));
}

static void written_over_a_sockaddr(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_scope_id = 3};
	struct weft__local local = read_local("127.0.0.9:99"), back;
	(void)state;
	weft__local_apply(&local, &in);
	assert_int_equal(weft__local_from_sockaddr(&back, &in, sizeof(in)), 0);
	assert_true(back.v4.s_addr == htonl(0x7f000009) && back.port == 99);
	local = read_local(":7");
	weft__local_apply(&local, &in);
	assert_int_equal(weft__local_from_sockaddr(&back, &in, sizeof(in)), 0);
	assert_true(back.v4.s_addr == htonl(0x7f000009) && back.port == 7);
	weft__local_apply(&local, &in6);
	assert_int_equal(weft__local_from_sockaddr(&back, &in6, sizeof(in6)), 0);
	assert_true(IN6_IS_ADDR_LOOPBACK(&back.v6) && back.port == 7 && in6.sin6_scope_id == 3);

	in.sin_family = AF_UNIX;
	assert_int_equal(weft__local_from_sockaddr(&back, &in, sizeof(in)), -EAFNOSUPPORT);
	assert_int_equal(weft__local_from_sockaddr(&back, &in6, sizeof(in)), -EAFNOSUPPORT);
	assert_int_equal(weft__local_from_sockaddr(&back, NULL, 0), -EAFNOSUPPORT);
	assert_int_equal(weft__local_from_sockaddr(&back, &in, 3), -EAFNOSUPPORT);
}

static void route_to_a_peer(void **state)
{
	struct weft_addr peer;
	struct weft__local local;
	(void)state;
	assert_int_equal(weft_addr_parse(&peer, "tcp://127.0.0.1:9", NULL), 0);
	assert_int_equal(weft__local_toward(&local, &peer), 0);
	assert_true(local.family == AF_INET && weft__local_is_loopback(&local) && local.port == 0);
	memset(peer.raw, 0xff, 2);
	assert_true(weft__local_toward(&local, &peer) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_that_are_read), cmocka_unit_test(texts_that_are_refused),
		cmocka_unit_test(what_fits_what),      cmocka_unit_test(written_over_a_sockaddr),
		cmocka_unit_test(route_to_a_peer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
