/* SPDX-License-Identifier: MIT */
/*
 * Addresses: every form is read and written back, every refusal has its position and its reason,
 * damaged structs harm nobody. Tables; calls the public functions and what addr.h adds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <rdma/fabric.h>

#include "addr.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Two addresses that EFA devices have had. The QPN of both is 0. */
#define EFA_1 "fe800000000000000853f7fffea442e100000000f6d3b3650000000000000000"
#define EFA_2 "fe8000000000000008129efffe237ea1000000005770a1630000000000000000"

#define GID_1 "fe800000000000000853f7fffea442e1"
#define ZEROS_8 "0000000000000000"
#define HEX_32 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX_128 HEX_32 HEX_32 HEX_32 HEX_32
#define NAME_31 "abcdefghijklmnopqrstuvwxyz01234"
#define NAME_127 NAME_31 "." NAME_31 "_" NAME_31 ":" NAME_31

#define SCHEMES "efa, tcp, udp, verbs, shm, raw"
#define UNKNOWN "the scheme is unknown: it is one of " SCHEMES
#define MISSING "the scheme is missing: tcp://HOST:PORT, or another of " SCHEMES
#define EFA_DIGIT "expected one of the 64 hex digits of an EFA address, found "
#define EFA_END "expected the end of the address after 64 hex digits, found "
#define EFA_PADDING "the padding after the QPN (bytes 18 and 19) is not zero"
#define EFA_RESERVED "the reserved bytes (24 to 31) are not zero"
#define GID_ZERO "the GID (the first 16 bytes) is zero"
#define PORT_RANGE "the port is not from 1 to 65535"
#define PORT_END "expected the end of the address after the port, found "
#define V4_PART "expected a part of the IPv4 address, found "
#define V4_RANGE "a part of the IPv4 address is not from 0 to 255"
#define V4_MULTICAST "a multicast address (224.0.0.0 to 239.255.255.255) is not one host's"
#define V6_BAD "what the brackets hold is not an IPv6 address"
#define V6_MORE "expected more of the IPv6 address, or ']', found "
#define V6_MULTICAST "a multicast address (ff00::/8) is not one host's"
#define V6_MAPPED "an IPv4 address in IPv6 form: write it as IPv4, without brackets"
#define V6_ZONE "the zone (an interface's number)"
#define NAMES "names are not looked up: write the IP address itself"
#define BRACKETS "an IPv6 address goes in brackets, as in [::1]:5000"
#define SHM_BYTES "a shm name has letters, digits and . _ : - only, not "
#define SHM_DOTS "'.' and '..' are directories, not shm names"
#define SHM_LONG "a shm name has at most 127 bytes"
#define TOO_LONG "an address has at most 128 bytes"

/* An address and an error with a pattern that no function writes by chance. */
static struct weft_addr untouched_addr(void)
{
	struct weft_addr addr;

	memset(&addr, 0xa5, sizeof(addr));
	return addr;
}

static struct weft_parse_error untouched_error(void)
{
	struct weft_parse_error error;

	memset(&error, 0xa5, sizeof(error));
	return error;
}

static void assert_untouched(const struct weft_addr *addr)
{
	struct weft_addr pattern = untouched_addr();

	assert_memory_equal(addr, &pattern, sizeof(pattern));
}

/* Reasons are for people: there is one, it was not cut short, and it can be printed. */
static void assert_reason(const char *what, const struct weft_parse_error *error, size_t pos,
			  const char *reason)
{
	size_t len = strnlen(error->reason, sizeof(error->reason));

	if (error->pos != pos || strncmp(error->reason, reason, sizeof(error->reason)) != 0)
		fail_msg("%s: refused at %zu: \"%.*s\"\nwanted at %zu: \"%s\"", what, error->pos,
			 (int)len, error->reason, pos, reason);
	assert_in_range(len, 1, sizeof(error->reason) - 2);
	for (size_t i = 0; i < len; i++)
		assert_in_range(error->reason[i], ' ', '~');
}

static struct weft_addr parsed(const char *text)
{
	struct weft_addr addr = untouched_addr();
	struct weft_parse_error error;

	if (weft_addr_parse(&addr, text, &error) != 0)
		fail_msg("%s: at %zu: %s", text, error.pos, error.reason);
	return addr;
}

static void assert_formats(const struct weft_addr *addr, const char *want)
{
	char text[WEFT_ADDR_TEXT_MAX];
	int n = weft_addr_format(addr, text, sizeof(text));

	assert_int_equal(n, strlen(want));
	assert_string_equal(text, want);
}

struct good {
	const char *text;
	enum weft_scheme scheme;
	uint32_t format;
	size_t len;
	const char *out; /* what it is written as; NULL: the same */
};

static const struct good goods[] = {
	{"efa://" EFA_1, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32, NULL},
	{"efa://" EFA_2, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32, NULL},
	{EFA_1, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32, "efa://" EFA_1},
	{EFA_2, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32, "efa://" EFA_2},
	{"FE80000000000000" ZEROS_8 "ffff0000ABCDEFab" ZEROS_8, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32,
	 "efa://fe80000000000000" ZEROS_8 "ffff0000abcdefab" ZEROS_8},
	{"efa://" ZEROS_8 "0000000000000001" ZEROS_8 ZEROS_8, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32,
	 NULL},
	{"efa://0100000000000000" ZEROS_8 ZEROS_8 ZEROS_8, WEFT_SCHEME_EFA, FI_ADDR_EFA, 32, NULL},
	{"tcp://1.2.3.4:5", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://127.0.0.1:1", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://0.0.0.1:65535", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://223.255.255.255:80", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://240.0.0.0:80", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://255.255.255.254:80", WEFT_SCHEME_TCP, FI_SOCKADDR_IN, 16, NULL},
	{"udp://10.0.0.1:4791", WEFT_SCHEME_UDP, FI_SOCKADDR_IN, 16, NULL},
	{"verbs://192.168.100.200:12345", WEFT_SCHEME_VERBS, FI_SOCKADDR_IN, 16, NULL},
	{"tcp://[::1]:5", WEFT_SCHEME_TCP, FI_SOCKADDR_IN6, 28, NULL},
	{"udp://[2001:db8::1]:5", WEFT_SCHEME_UDP, FI_SOCKADDR_IN6, 28, NULL},
	{"verbs://[2001:DB8:0:0::A]:5", WEFT_SCHEME_VERBS, FI_SOCKADDR_IN6, 28,
	 "verbs://[2001:db8::a]:5"},
	{"tcp://[2001:0db8:0000:0000:0000:0000:255.255.255.255]:65535", WEFT_SCHEME_TCP,
	 FI_SOCKADDR_IN6, 28, "tcp://[2001:db8::ffff:ffff]:65535"},
	{"tcp://[1111:2222:3333:4444:5555:6666:7777:8888]:65535", WEFT_SCHEME_TCP, FI_SOCKADDR_IN6,
	 28, NULL},
	{"tcp://[fe80::1%1]:5", WEFT_SCHEME_TCP, FI_SOCKADDR_IN6, 28, NULL},
	{"tcp://[febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535", WEFT_SCHEME_TCP,
	 FI_SOCKADDR_IN6, 28, NULL},
	{"tcp://[fec0::1]:5", WEFT_SCHEME_TCP, FI_SOCKADDR_IN6, 28, NULL},
	{"shm://a", WEFT_SCHEME_SHM, FI_ADDR_STR, 2, NULL},
	{"shm://...", WEFT_SCHEME_SHM, FI_ADDR_STR, 4, NULL},
	{"shm://.a", WEFT_SCHEME_SHM, FI_ADDR_STR, 3, NULL},
	{"shm://weft_A-Za-z:0.9", WEFT_SCHEME_SHM, FI_ADDR_STR, 16, NULL},
	{"shm://" NAME_127, WEFT_SCHEME_SHM, FI_ADDR_STR, 128, NULL},
	{"shm://fi_shm://123:0:1", WEFT_SCHEME_SHM, FI_ADDR_STR, 17, NULL},
	{"shm://123:0:1", WEFT_SCHEME_SHM, FI_ADDR_STR, 8, NULL},
	{"shm://fi_ns://node:7471", WEFT_SCHEME_SHM, FI_ADDR_STR, 18, NULL},
	{"shm://fi_shm://" NAME_31 NAME_31 NAME_31 "1234567890123456789012345", WEFT_SCHEME_SHM,
	 FI_ADDR_STR, 128, NULL},
	{"shm://fi_shm:", WEFT_SCHEME_SHM, FI_ADDR_STR, 8, NULL},
	{"raw://0/00", WEFT_SCHEME_RAW, 0, 1, NULL},
	{"raw://10/0aFF", WEFT_SCHEME_RAW, 10, 2, "raw://10/0aff"},
	{"raw://4294967295/" HEX_128, WEFT_SCHEME_RAW, UINT32_MAX, 128, NULL},
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(goods); i++) {
		const struct good *g = &goods[i];
		struct weft_parse_error error = untouched_error(), pattern = error;
		struct weft_addr addr = untouched_addr(), again;

		if (weft_addr_parse(&addr, g->text, &error) != 0)
			fail_msg("%s: at %zu: %s", g->text, error.pos, error.reason);
		assert_memory_equal(&error, &pattern, sizeof(error));
		assert_int_equal(addr.scheme, g->scheme);
		assert_int_equal(addr.format, g->format);
		assert_int_equal(addr.len, g->len);
		for (size_t at = addr.len; at < sizeof(addr.raw); at++)
			assert_int_equal(addr.raw[at], 0);
		assert_formats(&addr, g->out != NULL ? g->out : g->text);

		/* What is written is read back to the same address, and so are the raw bytes. */
		again = parsed(g->out != NULL ? g->out : g->text);
		assert_int_equal(weft_addr_equal(&addr, &again), 1);
		assert_memory_equal(addr.raw, again.raw, sizeof(addr.raw));
		again = untouched_addr();
		assert_int_equal(weft_addr_from_raw(&again, addr.scheme, addr.format, addr.raw,
						    addr.len, &error),
				 0);
		assert_memory_equal(&error, &pattern, sizeof(error));
		assert_int_equal(weft_addr_equal(&addr, &again), 1);
		assert_memory_equal(addr.raw, again.raw, sizeof(addr.raw));
	}
}

/* The bytes are what the providers expect, and not only what weft reads back. */
static void test_bytes(void **state)
{
	static const uint8_t efa[32] = {0xfe, 0x80, 0,	  0,	0, 0, 0, 0, 0x08, 0x53, 0xf7, 0xff,
					0xfe, 0xa4, 0x42, 0xe1, 0, 0, 0, 0, 0xf6, 0xd3, 0xb3, 0x65};
	static const uint8_t raw[3] = {0x00, 0x9a, 0xf0};
	struct weft_addr addr = parsed(EFA_1);
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;
	char ip[INET6_ADDRSTRLEN];

	(void)state;
	assert_memory_equal(addr.raw, efa, sizeof(efa));
	addr = parsed("raw://7/009aF0");
	assert_memory_equal(addr.raw, raw, sizeof(raw));
	addr = parsed("shm://name");
	assert_memory_equal(addr.raw, "name", sizeof("name"));

	addr = parsed("tcp://1.2.3.4:517");
	memcpy(&sin, addr.raw, sizeof(sin));
	assert_int_equal(sin.sin_family, AF_INET);
	assert_int_equal(sin.sin_port, htons(517));
	assert_int_equal(sin.sin_addr.s_addr, inet_addr("1.2.3.4"));

	addr = parsed("udp://[fe80::12:34%7]:517");
	memcpy(&sin6, addr.raw, sizeof(sin6));
	assert_int_equal(sin6.sin6_family, AF_INET6);
	assert_int_equal(sin6.sin6_port, htons(517));
	assert_int_equal(sin6.sin6_flowinfo, 0);
	assert_int_equal(sin6.sin6_scope_id, 7);
	assert_string_equal(inet_ntop(AF_INET6, &sin6.sin6_addr, ip, sizeof(ip)), "fe80::12:34");
}

struct bad {
	const char *text;
	size_t pos;
	const char *reason;
};

static const struct bad bads[] = {
	{"", 0, "expected an address, found the end of the text"},
	{" ", 0, "expected an address, found a blank"},
	{" " EFA_1, 0, "expected an address, found a blank"},
	{"\ttcp://1.2.3.4:5", 0, "expected an address, found a tab"},
	{"\nshm://a", 0, "expected an address, found a newline"},
	{"\rshm://a", 0, "expected an address, found a carriage return"},

	{"hello", 0, "expected 64 hex digits (EFA) or a scheme (" SCHEMES "), found 'h'"},
	{"\x7f", 0, "expected 64 hex digits (EFA) or a scheme (" SCHEMES "), found byte 0x7f"},
	{"1.2.3.4:5", 0, MISSING},
	{"1.2.3.4", 0, MISSING},
	{"localhost:5000", 0, MISSING},
	{"[::1]:5", 0, MISSING},
	{"[", 0, MISSING},
	{"fe80::1", 0, MISSING},
	{"tcp:1.2.3.4:5", 0, MISSING},
	{"tcp:/1.2.3.4:5", 0, MISSING},
	{"http://1.2.3.4:5", 0, UNKNOWN},
	{"://1.2.3.4:5", 0, UNKNOWN},
	{"tcpx://1.2.3.4:5", 0, UNKNOWN},
	{"tc://1.2.3.4:5", 0, UNKNOWN},
	{"TCP://1.2.3.4:5", 0, UNKNOWN},
	{"none://1", 0, UNKNOWN},
	{"x tcp://1.2.3.4:5", 0, UNKNOWN},

	{EFA_1 "\n", 64, EFA_END "a newline"},
	{EFA_1 " ", 64, EFA_END "a blank"},
	{EFA_1 "0", 64, EFA_END "'0'"},
	{EFA_1 "00", 64, EFA_END "'0'"},
	{"efa://" EFA_1 "/", 70, EFA_END "'/'"},
	{GID_1 "00000000f6d3b36500000000000000", 62, EFA_DIGIT "the end of the text"},
	{GID_1 "00000000f6d3b365000000000000000", 63, EFA_DIGIT "the end of the text"},
	{GID_1 "00000000f6d3b365 000000000000000", 48, EFA_DIGIT "a blank"},
	{GID_1 "g0000000f6d3b3650000000000000000", 32, EFA_DIGIT "'g'"},
	{GID_1 "0G000000f6d3b3650000000000000000", 33, EFA_DIGIT "'G'"},
	{GID_1 ":0000000f6d3b3650000000000000000", 32, EFA_DIGIT "':'"},
	{"abc", 3, EFA_DIGIT "the end of the text"},
	{"efa://", 6, EFA_DIGIT "the end of the text"},
	{"efa:// " EFA_1, 6, EFA_DIGIT "a blank"},
	{"efa://0x" EFA_1, 7, EFA_DIGIT "'x'"},
	{"efa://\xff", 6, EFA_DIGIT "byte 0xff"},
	{"efa://\x01", 6, EFA_DIGIT "byte 0x01"},
	{ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8, 0, GID_ZERO},
	{"efa://" ZEROS_8 ZEROS_8 "00000000f6d3b365" ZEROS_8, 6, GID_ZERO},
	{GID_1 "00000001f6d3b365" ZEROS_8, 39, EFA_PADDING},
	{GID_1 "00001001f6d3b365" ZEROS_8, 36, EFA_PADDING},
	{"efa://" GID_1 "00000100f6d3b365" ZEROS_8, 43, EFA_PADDING},
	{"efa://" GID_1 "00000000f6d3b3650000000000000001", 69, EFA_RESERVED},
	{"efa://" GID_1 "00000000f6d3b365f000000000000000", 54, EFA_RESERVED},

	{"tcp://", 6, "expected an IP address, found the end of the text"},
	{"tcp://:5", 6, "expected an IP address, found ':'"},
	{"udp:// 1.2.3.4:5", 6, "expected an IP address, found a blank"},
	{"tcp://node1:5", 6, NAMES},
	{"tcp://n:5", 6, NAMES},
	{"verbs://Node1", 8, NAMES},
	{"tcp://::1:5", 6, BRACKETS},
	{"tcp://::", 6, BRACKETS},
	{"tcp://fe80::1:5", 6, BRACKETS},
	{"tcp://1.2.3.4", 13, "expected ':' and the port, found the end of the text"},
	{"tcp://1.2.3.4.5:5", 13, "expected ':' and the port, found '.'"},
	{"tcp://1.2.3.4x:5", 13, "expected ':' and the port, found 'x'"},
	{"tcp://1.2.3.4:", 14, "expected the port, found the end of the text"},
	{"tcp://1.2.3.4:+5", 14, "expected the port, found '+'"},
	{"tcp://1.2.3.4: 5", 14, "expected the port, found a blank"},
	{"tcp://1.2.3.4:http", 14, "expected the port, found 'h'"},
	{"tcp://1.2.3.4:0", 14, PORT_RANGE},
	{"tcp://1.2.3.4:65536", 14, PORT_RANGE},
	{"tcp://1.2.3.4:655350", 14, PORT_RANGE},
	{"tcp://1.2.3.4:18446744073709551617", 14, PORT_RANGE},
	{"tcp://1.2.3.4:00", 14, "the port has a leading zero"},
	{"tcp://1.2.3.4:05", 14, "the port has a leading zero"},
	{"tcp://1.2.3.4:5\n", 15, PORT_END "a newline"},
	{"tcp://1.2.3.4:5 ", 15, PORT_END "a blank"},
	{"tcp://1.2.3.4:5/", 15, PORT_END "'/'"},
	{"tcp://1.2.3.4:5a", 15, PORT_END "'a'"},
	{"tcp://1.2.3:5", 11, "expected '.' and more of the IPv4 address, found ':'"},
	{"tcp://16909060:5", 6, V4_RANGE},
	{"tcp://1.2.3.:5", 12, V4_PART "':'"},
	{"tcp://1..3.4:5", 8, V4_PART "'.'"},
	{"tcp://1.x.3.4:5", 8, V4_PART "'x'"},
	{"tcp://256.2.3.4:5", 6, V4_RANGE},
	{"tcp://1.2.3.2555:5", 12, V4_RANGE},
	{"tcp://1.2.3.1000:5", 12, V4_RANGE},
	{"tcp://1.2.3.04:5", 12, "a part of the IPv4 address has a leading zero"},
	{"tcp://00.2.3.4:5", 6, "a part of the IPv4 address has a leading zero"},
	{"tcp://0.0.0.0:5", 6, "0.0.0.0 is not the address of a host"},
	{"tcp://0.0.0.0:0", 6, "0.0.0.0 is not the address of a host"},
	{"tcp://255.255.255.255:5", 6, "255.255.255.255 is the broadcast address"},
	{"tcp://224.0.0.0:5", 6, V4_MULTICAST},
	{"verbs://239.255.255.255:5", 8, V4_MULTICAST},

	{"tcp://[::1]", 11, "expected ':' and the port, found the end of the text"},
	{"tcp://[::1]5", 11, "expected ':' and the port, found '5'"},
	{"tcp://[::1]:0", 12, PORT_RANGE},
	{"tcp://[::1]:5]", 13, PORT_END "']'"},
	{"tcp://[::1", 10, V6_MORE "the end of the text"},
	{"tcp://[::g]:5", 9, V6_MORE "'g'"},
	{"tcp://[:: 1]:5", 9, V6_MORE "a blank"},
	{"tcp://[]:5", 7, V6_BAD},
	{"tcp://[:]:5", 7, V6_BAD},
	{"tcp://[1::2::3]:5", 7, V6_BAD},
	{"tcp://[12345::]:5", 7, V6_BAD},
	{"tcp://[1.2.3.4]:5", 7, V6_BAD},
	{"tcp://[1:2:3:4:5:6:7]:5", 7, V6_BAD},
	{"tcp://[1:2:3:4:5:6:7:8:9]:5", 7, V6_BAD},
	{"tcp://[0000:0000:0000:0000:0000:0000:0000:0000:0000:1]:5", 7, V6_BAD},
	{"tcp://[0000:0000:0000:0000:0000:0000:0000:0000:00000:]:5", 7, V6_BAD},
	{"tcp://[2001:0db8:0000:0000:0000:0000:255.255.255.2555]:5", 7, V6_BAD},
	{"tcp://[::]:5", 7, ":: is not the address of a host"},
	{"tcp://[0:0:0:0:0:0:0:0]:5", 7, ":: is not the address of a host"},
	{"tcp://[ff02::1]:5", 7, V6_MULTICAST},
	{"udp://[ff02::1%1]:5", 7, V6_MULTICAST},
	{"tcp://[::ffff:1.2.3.4]:5", 7, V6_MAPPED},
	{"tcp://[::ffff:0:0]:5", 7, V6_MAPPED},
	{"tcp://[::1%1]:5", 10, "only a link-local address (fe80::/10) has a zone"},
	{"tcp://[fe80::1]:5", 14,
	 "expected '%' and the number of the link-local address's interface, found ']'"},
	{"tcp://[fe80::1%]:5", 15, "expected " V6_ZONE ", found ']'"},
	{"tcp://[fe80::1%eth0]:5", 15, "expected " V6_ZONE ", found 'e'"},
	{"tcp://[fe80::1%0]:5", 15, V6_ZONE " is not from 1 to 4294967295"},
	{"tcp://[fe80::1%4294967296]:5", 15, V6_ZONE " is not from 1 to 4294967295"},
	{"tcp://[fe80::1%01]:5", 15, V6_ZONE " has a leading zero"},
	{"tcp://[fe80::1%1x]:5", 16, "expected ']', found 'x'"},

	{"shm://", 6, "the shm name is empty"},
	{"shm://fi_shm://", 15, "the shm name is empty"},
	{"shm://.", 6, SHM_DOTS},
	{"shm://..", 6, SHM_DOTS},
	{"shm://fi_shm://.", 15, SHM_DOTS},
	{"shm://fi_ns://..", 14, SHM_DOTS},
	{"shm://fi_shm://fi_shm://x", 22, SHM_BYTES "'/'"},
	{"shm://a/b", 7, SHM_BYTES "'/'"},
	{"shm:///a", 6, SHM_BYTES "'/'"},
	{"shm://../a", 8, SHM_BYTES "'/'"},
	{"shm://a b", 7, SHM_BYTES "a blank"},
	{"shm://a\n", 7, SHM_BYTES "a newline"},
	{"shm://a\033[1m", 7, SHM_BYTES "byte 0x1b"},
	{"shm://\xc3\xa4", 6, SHM_BYTES "byte 0xc3"},
	{"shm://a@", 7, SHM_BYTES "'@'"},
	{"shm://a[", 7, SHM_BYTES "'['"},
	{"shm://a`", 7, SHM_BYTES "'`'"},
	{"shm://a{", 7, SHM_BYTES "'{'"},
	{"shm://" NAME_127 "x", 133, SHM_LONG},
	{"shm://fi_shm://" NAME_127 "xyz", 133, SHM_LONG},

	{"raw://", 6, "expected the number of the address format, found the end of the text"},
	{"raw://x/00", 6, "expected the number of the address format, found 'x'"},
	{"raw://-1/00", 6, "expected the number of the address format, found '-'"},
	{"raw://01/00", 6, "the number of the address format has a leading zero"},
	{"raw://4294967296/00", 6, "the number of the address format is not from 0 to 4294967295"},
	{"raw://10", 8, "expected '/' and the address in hex, found the end of the text"},
	{"raw://10:00", 8, "expected '/' and the address in hex, found ':'"},
	{"raw://10/", 9, "expected a hex digit, found the end of the text"},
	{"raw://10/xx", 9, "expected a hex digit, found 'x'"},
	{"raw://10/0", 10, "expected the second hex digit of a byte, found the end of the text"},
	{"raw://10/00g", 11, "expected a hex digit or the end of the address, found 'g'"},
	{"raw://10/00 ", 11, "expected a hex digit or the end of the address, found a blank"},
	{"raw://10/" HEX_128 "0", 265, TOO_LONG},
	{"raw://10/" HEX_128 "00", 265, TOO_LONG},
	{"raw://10/" HEX_128 "/", 265, "expected a hex digit or the end of the address, found '/'"},
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(bads); i++) {
		const struct bad *b = &bads[i];
		struct weft_parse_error error = untouched_error();
		struct weft_addr addr = untouched_addr();

		if (weft_addr_parse(&addr, b->text, &error) != -EINVAL)
			fail_msg("\"%s\" was accepted", b->text);
		assert_reason(b->text, &error, b->pos, b->reason);
		assert_untouched(&addr);
		assert_int_equal(weft_addr_parse(&addr, b->text, NULL), -EINVAL);
		assert_untouched(&addr);
	}
}

/* Every text that is cut short, or gets one more byte, is refused or is another address. */
static void test_neighbours(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(goods); i++) {
		size_t len = strlen(goods[i].text);
		char *text = strdup(goods[i].text);
		char *longer = malloc(len + 2);
		struct weft_addr addr = parsed(text), other;

		assert_non_null(text);
		assert_non_null(longer);
		for (int c = 1; c < 256; c++) {
			memcpy(longer, text, len);
			longer[len] = (char)c;
			longer[len + 1] = '\0';
			if (weft_addr_parse(&other, longer, NULL) == 0)
				assert_int_equal(weft_addr_equal(&addr, &other), 0);
		}
		while (len-- > 0) {
			text[len] = '\0';
			if (weft_addr_parse(&other, text, NULL) == 0)
				assert_int_equal(weft_addr_equal(&addr, &other), 0);
		}
		free(longer);
		free(text);
	}
}

/* A sockaddr as a peer could send it. port and address are in host order. */
static struct sockaddr_in v4(sa_family_t family, uint16_t port, uint32_t ip)
{
	struct sockaddr_in sin;

	memset(&sin, 0, sizeof(sin));
	sin.sin_family = family;
	sin.sin_port = htons(port);
	sin.sin_addr.s_addr = htonl(ip);
	return sin;
}

static struct sockaddr_in6 v6(uint16_t port, const char *ip, uint32_t scope)
{
	struct sockaddr_in6 sin6;

	memset(&sin6, 0, sizeof(sin6));
	sin6.sin6_family = AF_INET6;
	sin6.sin6_port = htons(port);
	sin6.sin6_scope_id = scope;
	assert_int_equal(inet_pton(AF_INET6, ip, &sin6.sin6_addr), 1);
	return sin6;
}

static void assert_raw_refused(enum weft_scheme scheme, const void *raw, size_t len, size_t pos,
			       const char *reason)
{
	struct weft_parse_error error = untouched_error();
	struct weft_addr addr = untouched_addr();
	/* Exactly as long as it says, so that a sanitizer sees a byte that is read too far. */
	uint8_t *bytes = malloc(len > 0 ? len : 1);

	assert_non_null(bytes);
	memcpy(bytes, raw, len);
	if (weft_addr_from_raw(&addr, scheme, 7, bytes, len, &error) != -EINVAL)
		fail_msg("accepted, not refused with \"%s\"", reason);
	assert_reason("raw bytes", &error, pos, reason);
	assert_untouched(&addr);
	assert_int_equal(weft_addr_from_raw(&addr, scheme, 7, bytes, len, NULL), -EINVAL);
	assert_untouched(&addr);
	free(bytes);
}

static void test_raw_bad_efa(void **state)
{
	struct weft_addr good = parsed(EFA_1);
	uint8_t raw[64];

	(void)state;
	memset(raw, 0, sizeof(raw));
	assert_raw_refused(WEFT_SCHEME_EFA, raw, 32, 0, GID_ZERO);
	memcpy(raw, good.raw, 32);
	assert_raw_refused(WEFT_SCHEME_EFA, raw, 0, 0, "an EFA address has 32 bytes, not 0");
	assert_raw_refused(WEFT_SCHEME_EFA, raw, 31, 31, "an EFA address has 32 bytes, not 31");
	assert_raw_refused(WEFT_SCHEME_EFA, raw, 33, 32, "an EFA address has 32 bytes, not 33");
	assert_raw_refused(WEFT_SCHEME_EFA, raw, 64, 32, "an EFA address has 32 bytes, not 64");
	for (size_t i = 0; i < 32; i++) {
		struct weft_addr addr;
		const char *reason = i >= 24 ? EFA_RESERVED : EFA_PADDING;

		memcpy(raw, good.raw, 32);
		raw[i] |= 0x80;
		if (i == 18 || i == 19 || i >= 24)
			assert_raw_refused(WEFT_SCHEME_EFA, raw, 32, i, reason);
		else
			assert_int_equal(
				weft_addr_from_raw(&addr, WEFT_SCHEME_EFA, 0, raw, 32, NULL), 0);
	}
}

static void test_raw_bad_v4(void **state)
{
	struct sockaddr_in sin = v4(AF_INET, 5, 0x01020304);
	uint8_t longer[28] = {0};

	(void)state;
	memcpy(longer, &sin, sizeof(sin));
	assert_raw_refused(WEFT_SCHEME_TCP, longer, 0, 0,
			   "0 bytes are too few for a socket address");
	assert_raw_refused(WEFT_SCHEME_TCP, longer, 1, 1,
			   "1 bytes are too few for a socket address");
	assert_raw_refused(WEFT_SCHEME_TCP, longer, 2, 2,
			   "an IPv4 socket address has 16 bytes, not 2");
	assert_raw_refused(WEFT_SCHEME_UDP, longer, 15, 15,
			   "an IPv4 socket address has 16 bytes, not 15");
	assert_raw_refused(WEFT_SCHEME_VERBS, longer, 28, 16,
			   "an IPv4 socket address has 16 bytes, not 28");
	sin = v4(AF_UNIX, 5, 0x01020304);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 0,
			   "address family 1 is neither IPv4 nor IPv6");
	sin = v4(0xffff, 5, 0x01020304);
	assert_raw_refused(WEFT_SCHEME_UDP, &sin, 16, 0,
			   "address family 65535 is neither IPv4 nor IPv6");
	sin = v4(AF_INET6, 5, 0x01020304);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 16,
			   "an IPv6 socket address has 28 bytes, not 16");
	sin = v4(AF_INET, 0, 0x01020304);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 2, "the port is 0");
	sin = v4(AF_INET, 0, 0);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 2, "the port is 0");
	sin = v4(AF_INET, 5, 0);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 4, "0.0.0.0 is not the address of a host");
	sin = v4(AF_INET, 5, 0xffffffff);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 4,
			   "255.255.255.255 is the broadcast address");
	sin = v4(AF_INET, 5, 0xe0000001);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin, 16, 4, V4_MULTICAST);
}

static void test_raw_bad_v6(void **state)
{
	struct sockaddr_in6 sin6 = v6(5, "::1", 0);
	uint8_t longer[29] = {0};

	(void)state;
	memcpy(longer, &sin6, sizeof(sin6));
	assert_raw_refused(WEFT_SCHEME_TCP, longer, 27, 27,
			   "an IPv6 socket address has 28 bytes, not 27");
	assert_raw_refused(WEFT_SCHEME_TCP, longer, 29, 28,
			   "an IPv6 socket address has 28 bytes, not 29");
	sin6 = v6(0, "::1", 0);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin6, 28, 2, "the port is 0");
	sin6 = v6(5, "::", 0);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin6, 28, 8, ":: is not the address of a host");
	sin6 = v6(5, "ff02::1", 1);
	assert_raw_refused(WEFT_SCHEME_UDP, &sin6, 28, 8, V6_MULTICAST);
	sin6 = v6(5, "::ffff:127.0.0.1", 0);
	assert_raw_refused(WEFT_SCHEME_VERBS, &sin6, 28, 8, V6_MAPPED);
	sin6 = v6(5, "fe80::1", 0);
	assert_raw_refused(WEFT_SCHEME_TCP, &sin6, 28, 24,
			   "a link-local address without the number of its interface");
}

static void test_raw_bad_shm(void **state)
{
	static const char nul_inside[] = "ab\0c";
	static const char bytes[200] = {0};

	(void)state;
	assert_raw_refused(WEFT_SCHEME_SHM, "", 0, 0, "the shm name does not end in a NUL byte");
	assert_raw_refused(WEFT_SCHEME_SHM, "name", 4, 4,
			   "the shm name does not end in a NUL byte");
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_shm://", 9, 9,
			   "the shm name does not end in a NUL byte");
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_shm://a", 10, 10,
			   "the shm name does not end in a NUL byte");
	assert_raw_refused(WEFT_SCHEME_SHM, nul_inside, sizeof(nul_inside), 3,
			   "bytes follow the NUL byte that ends the shm name");
	assert_raw_refused(WEFT_SCHEME_SHM, bytes, sizeof(bytes), 1,
			   "bytes follow the NUL byte that ends the shm name");
	assert_raw_refused(WEFT_SCHEME_SHM, "", 1, 0, "the shm name is empty");
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_shm://", 10, 9, "the shm name is empty");
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_shm:/", 9, 7, SHM_BYTES "'/'");
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_shm:/", 8, 7, SHM_BYTES "'/'");
	assert_raw_refused(WEFT_SCHEME_SHM, "..", 3, 0, SHM_DOTS);
	assert_raw_refused(WEFT_SCHEME_SHM, "fi_ns://.", 10, 8, SHM_DOTS);
	assert_raw_refused(WEFT_SCHEME_SHM, "a\tb", 4, 1, SHM_BYTES "a tab");
	assert_raw_refused(WEFT_SCHEME_SHM, NAME_127 "x", 129, 127, SHM_LONG);
	assert_raw_refused(WEFT_SCHEME_SHM, NAME_127 "x", 128, 127, SHM_LONG);
}

static void test_raw_bad_other(void **state)
{
	static const uint8_t bytes[WEFT_ADDR_MAX + 1] = {1};
	static const char none[] = "the scheme is none of " SCHEMES;
	struct weft_parse_error error;
	struct weft_addr addr = untouched_addr();

	(void)state;
	assert_raw_refused(WEFT_SCHEME_RAW, bytes, 0, 0, "the address has no bytes");
	assert_raw_refused(WEFT_SCHEME_RAW, bytes, sizeof(bytes), WEFT_ADDR_MAX, TOO_LONG);
	assert_raw_refused(WEFT_SCHEME_NONE, bytes, 32, 0, none);
	assert_raw_refused((enum weft_scheme)(WEFT_SCHEME_RAW + 1), bytes, 32, 0, none);
	assert_raw_refused((enum weft_scheme)0x7fffffff, bytes, 32, 0, none);

	error = untouched_error();
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_RAW, 7, NULL, 1, &error), -EINVAL);
	assert_reason("NULL", &error, 0, "the pointer to the address or to its bytes is NULL");
	assert_int_equal(weft_addr_from_raw(NULL, WEFT_SCHEME_RAW, 7, bytes, 1, NULL), -EINVAL);
	error = untouched_error();
	assert_int_equal(weft_addr_parse(&addr, NULL, &error), -EINVAL);
	assert_reason("NULL", &error, 0, "the pointer to the address or to its text is NULL");
	assert_int_equal(weft_addr_parse(NULL, EFA_1, NULL), -EINVAL);
	assert_untouched(&addr);
}

/* What says nothing about the endpoint does not make a second address of it. */
static void test_canonical(void **state)
{
	struct sockaddr_in sin = v4(AF_INET, 5, 0x01020304);
	struct sockaddr_in6 sin6 = v6(5, "2001:db8::1", 9);
	struct weft_addr addr, want;

	(void)state;
	memset(sin.sin_zero, 0xee, sizeof(sin.sin_zero));
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_TCP, 0, &sin, sizeof(sin), NULL), 0);
	want = parsed("tcp://1.2.3.4:5");
	assert_memory_equal(addr.raw, want.raw, sizeof(want.raw));

	sin6.sin6_flowinfo = 0xeeeeeeee;
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_UDP, 0, &sin6, sizeof(sin6), NULL),
			 0);
	want = parsed("udp://[2001:db8::1]:5");
	assert_memory_equal(addr.raw, want.raw, sizeof(want.raw));

	sin6 = v6(5, "fe80::1", 9);
	sin6.sin6_flowinfo = 1;
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_UDP, 0, &sin6, sizeof(sin6), NULL),
			 0);
	want = parsed("udp://[fe80::1%9]:5");
	assert_memory_equal(addr.raw, want.raw, sizeof(want.raw));
}

static void test_raw_format(void **state)
{
	struct weft_addr addr;

	(void)state;
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_RAW, 7, "\1\2", 2, NULL), 0);
	assert_formats(&addr, "raw://7/0102");
	/* The other schemes know theirs. */
	assert_int_equal(weft_addr_from_raw(&addr, WEFT_SCHEME_SHM, 7, "a", 2, NULL), 0);
	assert_int_equal(addr.format, FI_ADDR_STR);
	/* An address can be made from its own bytes, in place. */
	assert_int_equal(weft_addr_from_raw(&addr, addr.scheme, 0, addr.raw, addr.len, NULL), 0);
	assert_formats(&addr, "shm://a");
}

/* Text that fits exactly is written, one byte less is refused, and nothing else is touched. */
static void test_format_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(goods); i++) {
		struct weft_addr addr = parsed(goods[i].text);
		char want[WEFT_ADDR_TEXT_MAX];
		size_t len;

		assert_in_range(weft_addr_format(&addr, want, sizeof(want)), 1, sizeof(want) - 1);
		len = strlen(want);
		for (size_t size = 0; size <= len + 1; size++) {
			/* Exactly as long as it says, so that a sanitizer sees a write too far. */
			char *text = malloc(size > 0 ? size : 1);
			int n;

			assert_non_null(text);
			memset(text, 'x', size);
			n = weft_addr_format(&addr, text, size);
			assert_int_equal(n, size <= len ? -ENOSPC : (int)len);
			for (size_t at = 0; at < size; at++)
				assert_int_equal(text[at], size <= len ? 'x' : want[at]);
			free(text);
		}
		assert_int_equal(weft_addr_format(&addr, NULL, 0), -ENOSPC);
		assert_int_equal(weft_addr_format(&addr, NULL, sizeof(want)), -EINVAL);
	}
}

static void assert_damaged(const struct weft_addr *addr, const char *reason)
{
	struct weft_parse_error error = untouched_error();
	struct weft_addr out = untouched_addr();
	char text[WEFT_ADDR_TEXT_MAX] = "untouched";

	assert_int_equal(weft_addr_format(addr, text, sizeof(text)), -EINVAL);
	assert_string_equal(text, "untouched");
	assert_int_equal(weft_addr_equal(addr, addr), 0);
	assert_int_equal(weft__addr_check(&out, addr, &error), -EINVAL);
	assert_reason("damaged", &error, 0, reason);
	assert_untouched(&out);
	for (size_t i = 0; i < COUNT(goods); i++) {
		struct weft_addr good = parsed(goods[i].text);

		assert_int_equal(weft_addr_equal(addr, &good), 0);
		assert_int_equal(weft_addr_equal(&good, addr), 0);
	}
}

static void test_damaged(void **state)
{
	static const char none[] = "the scheme is none of " SCHEMES;
	static const struct weft_addr zero;
	struct weft_addr addr = parsed("raw://7/0102");
	char reason[120];
	sa_family_t family;

	(void)state;
	assert_damaged(NULL, "the pointer to the address is NULL");
	assert_damaged(&zero, none);
	addr.len = WEFT_ADDR_MAX + 1;
	assert_damaged(&addr, "the address is damaged: its length is 129");
	addr.len = SIZE_MAX;
	(void)snprintf(reason, sizeof(reason), "the address is damaged: its length is %zu",
		       SIZE_MAX);
	assert_damaged(&addr, reason);
	addr.len = 0;
	assert_damaged(&addr, "the address has no bytes");
	addr = parsed(EFA_1);
	addr.scheme = (enum weft_scheme)7;
	assert_damaged(&addr, none);
	addr.scheme = (enum weft_scheme) - 1;
	assert_damaged(&addr, none);
	addr.scheme = WEFT_SCHEME_TCP;
	memcpy(&family, addr.raw, sizeof(family));
	(void)snprintf(reason, sizeof(reason), "address family %u is neither IPv4 nor IPv6",
		       (unsigned)family);
	assert_damaged(&addr, reason);
	addr.scheme = WEFT_SCHEME_EFA;
	addr.format = FI_ADDR_STR;
	(void)snprintf(reason, sizeof(reason), "the address is damaged: its format is %d, not %d",
		       FI_ADDR_STR, FI_ADDR_EFA);
	assert_damaged(&addr, reason);
	addr.format = FI_ADDR_EFA;
	memset(addr.raw, 0, sizeof(addr.raw));
	assert_damaged(&addr, GID_ZERO);
	/* A name whose NUL is gone must not be read past its end. */
	addr = parsed("shm://" NAME_127);
	addr.raw[WEFT_ADDR_MAX - 1] = 'x';
	assert_int_equal(weft_addr_format(&addr, (char[8]){0}, 8), -EINVAL);
	assert_int_equal(weft_addr_equal(&addr, &addr), 0);
}

static void test_equal(void **state)
{
	struct weft_addr a, b;

	(void)state;
	for (size_t i = 0; i < COUNT(goods); i++) {
		a = parsed(goods[i].text);
		for (size_t j = 0; j < COUNT(goods); j++) {
			const char *x = goods[i].out != NULL ? goods[i].out : goods[i].text;
			const char *y = goods[j].out != NULL ? goods[j].out : goods[j].text;

			b = parsed(goods[j].text);
			assert_int_equal(weft_addr_equal(&a, &b), strcmp(x, y) == 0);
		}
	}
	/* The same bytes under another scheme or format are another endpoint. */
	a = parsed("tcp://1.2.3.4:5");
	b = parsed("udp://1.2.3.4:5");
	assert_int_equal(weft_addr_equal(&a, &b), 0);
	a = parsed("raw://7/0102");
	b = parsed("raw://8/0102");
	assert_int_equal(weft_addr_equal(&a, &b), 0);
	b = parsed("raw://7/010200");
	assert_int_equal(weft_addr_equal(&a, &b), 0);
	assert_int_equal(weft_addr_equal(&a, NULL), 0);
	assert_int_equal(weft_addr_equal(NULL, &a), 0);

	/* Bytes beyond len, and those that do not count, may be anything. */
	a = parsed("tcp://1.2.3.4:5");
	b = a;
	memset(b.raw + 8, 0xee, sizeof(b.raw) - 8);
	assert_int_equal(weft_addr_equal(&a, &b), 1);
	assert_formats(&b, "tcp://1.2.3.4:5");
	assert_int_equal(weft__addr_check(&b, &b, NULL), 0);
	assert_memory_equal(a.raw, b.raw, sizeof(a.raw));
	/* To libfabric 1.17 these are two peers, although they open the same file. */
	a = parsed("shm://x");
	b = parsed("shm://fi_shm://x");
	assert_int_equal(weft_addr_equal(&a, &b), 0);
}

static void test_scheme_name(void **state)
{
	(void)state;
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_EFA), "efa");
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_TCP), "tcp");
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_UDP), "udp");
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_VERBS), "verbs");
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_SHM), "shm");
	assert_string_equal(weft__scheme_name(WEFT_SCHEME_RAW), "raw");
	assert_null(weft__scheme_name(WEFT_SCHEME_NONE));
	assert_null(weft__scheme_name((enum weft_scheme)7));
	assert_null(weft__scheme_name((enum weft_scheme) - 1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	      cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bad),	      cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_raw_bad_efa),   cmocka_unit_test(test_raw_bad_v4),
		cmocka_unit_test(test_raw_bad_v6),    cmocka_unit_test(test_raw_bad_shm),
		cmocka_unit_test(test_raw_bad_other), cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_raw_format),    cmocka_unit_test(test_format_size),
		cmocka_unit_test(test_damaged),	      cmocka_unit_test(test_equal),
		cmocka_unit_test(test_scheme_name),
	};

	return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}
