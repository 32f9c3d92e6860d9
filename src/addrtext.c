/* SPDX-License-Identifier: MIT */
/*
 * addrtext.c: addresses of endpoints as text: read strictly, with the byte and the reason of a
 * refusal, and written.
 *
 * It turns text into bytes and leaves what makes a good address to addr.c, which is all of weft
 * that it calls. A host that is no endpoint's is looked for here as well, so that of two mistakes
 * the one that comes first in the text is reported. Any thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

#include "addr.h"

#define EFA_LEN 32u
#define HEX_DIGITS "0123456789abcdefABCDEF"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A text that is being read, and how far. error is never NULL. */
struct scan {
	const char *text;
	size_t pos;
	struct weft_parse_error *error;
};

static int expected(const struct scan *s, const char *what)
{
	char room[WEFT__BYTE_NAME_MAX];

	return weft__addr_refuse(s->error, s->pos, "expected %s, found %s", what,
				 weft__byte_name(s->text[s->pos], room));
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads a decimal number without leading zeros. One out of range is refused at its first digit. */
static int scan_number(struct scan *s, uint32_t min, uint32_t max, const char *what,
		       uint32_t *value)
{
	size_t start = s->pos;
	uint64_t n = 0;

	if (!is_digit(s->text[start]))
		return expected(s, what);
	if (s->text[start] == '0' && is_digit(s->text[start + 1]))
		return weft__addr_refuse(s->error, start, "%s has a leading zero", what);
	for (; is_digit(s->text[s->pos]) && n <= max; s->pos++)
		n = n * 10 + (uint64_t)(s->text[s->pos] - '0');
	if (n < min || n > max)
		return weft__addr_refuse(s->error, start, "%s is not from %" PRIu32 " to %" PRIu32,
					 what, min, max);
	*value = (uint32_t)n;
	return 0;
}

/* The value of a hex digit, or -1. */
static int hex_value(char c)
{
	const char *digit = c == '\0' ? NULL : strchr(HEX_DIGITS, c);
	int n = digit == NULL ? -1 : (int)(digit - HEX_DIGITS);

	return n > 15 ? n - 6 : n; /* the six capitals come after all the rest */
}

/* Reads pairs of hex digits up to the first byte that is none, and at most max pairs. */
static int scan_hex(struct scan *s, uint8_t *raw, size_t max, const char *what, size_t *len)
{
	for (*len = 0; *len < max; (*len)++) {
		int high = hex_value(s->text[s->pos]);
		int low;

		if (high < 0)
			break;
		low = hex_value(s->text[++s->pos]);
		if (low < 0)
			return expected(s, what);
		s->pos++;
		raw[*len] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int parse_efa(struct scan *s, struct weft_addr *addr)
{
	static const char what[] = "one of the 64 hex digits of an EFA address";
	size_t start = s->pos;
	uint8_t raw[EFA_LEN];
	size_t len, at;
	int ret = scan_hex(s, raw, sizeof(raw), what, &len);

	if (ret < 0)
		return ret;
	if (len < EFA_LEN)
		return expected(s, what);
	if (s->text[s->pos] != '\0')
		return expected(s, "the end of the address after 64 hex digits");
	ret = weft_addr_from_raw(addr, WEFT_SCHEME_EFA, 0, raw, len, s->error);
	if (ret < 0) {
		/* Of a byte that should be zero, point at the digit that is not. */
		at = s->error->pos;
		s->error->pos = start + 2 * at + (raw[at] > 0 && raw[at] < 0x10 ? 1 : 0);
	}
	return ret;
}

/* Reads ":PORT", with which an IP address ends. The result is in network order. */
static int scan_port(struct scan *s, in_port_t *port)
{
	uint32_t n;
	int ret;

	if (s->text[s->pos] != ':')
		return expected(s, "':' and the port");
	s->pos++;
	ret = scan_number(s, 1, UINT16_MAX, "the port", &n);
	if (ret < 0)
		return ret;
	if (s->text[s->pos] != '\0')
		return expected(s, "the end of the address after the port");
	*port = htons((uint16_t)n);
	return 0;
}

/* Reads four numbers with points between: inet_pton would not tell where it stopped. */
static int scan_v4(struct scan *s, struct in_addr *ip)
{
	uint32_t host = 0;

	for (int i = 0; i < 4; i++) {
		uint32_t part;
		int ret;

		if (i > 0) {
			if (s->text[s->pos] != '.')
				return expected(s, "'.' and more of the IPv4 address");
			s->pos++;
		}
		ret = scan_number(s, 0, UINT8_MAX, "a part of the IPv4 address", &part);
		if (ret < 0)
			return ret;
		host = host << 8 | part;
	}
	ip->s_addr = htonl(host);
	return 0;
}

static int parse_v4(struct scan *s, enum weft_scheme scheme, struct weft_addr *addr)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	size_t start = s->pos;
	const char *fault;
	int ret = scan_v4(s, &sin.sin_addr);

	if (ret < 0)
		return ret;
	fault = weft__v4_fault(&sin.sin_addr);
	if (fault != NULL)
		return weft__addr_refuse(s->error, start, "%s", fault);
	ret = scan_port(s, &sin.sin_port);
	if (ret < 0)
		return ret;
	return weft_addr_from_raw(addr, scheme, 0, &sin, sizeof(sin), s->error);
}

/* Reads "%N". Only link-local addresses have it, and they must, as each interface has them. */
static int scan_zone(struct scan *s, struct sockaddr_in6 *sin6)
{
	bool local = IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr);
	bool zone = s->text[s->pos] == '%';

	if (!zone && !local)
		return 0;
	if (!zone)
		return expected(s, "'%' and the number of the link-local address's interface");
	if (!local)
		return weft__addr_refuse(s->error, s->pos,
					 "only a link-local address (fe80::/10) has a zone");
	s->pos++;
	return scan_number(s, 1, UINT32_MAX, "the zone (an interface's number)",
			   &sin6->sin6_scope_id);
}

static int parse_v6(struct scan *s, enum weft_scheme scheme, struct weft_addr *addr)
{
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
	char host[INET6_ADDRSTRLEN] = "";
	size_t start = ++s->pos; /* behind the bracket */
	size_t len = strspn(s->text + start, HEX_DIGITS ":.");
	const char *fault;
	int ret;

	s->pos += len;
	if (s->text[s->pos] != '%' && s->text[s->pos] != ']')
		return expected(s, "more of the IPv6 address, or ']'");
	if (len < sizeof(host))
		memcpy(host, s->text + start, len);
	if (inet_pton(AF_INET6, host, &sin6.sin6_addr) != 1)
		return weft__addr_refuse(s->error, start,
					 "what the brackets hold is not an IPv6 address");
	fault = weft__v6_fault(&sin6.sin6_addr);
	if (fault != NULL)
		return weft__addr_refuse(s->error, start, "%s", fault);
	ret = scan_zone(s, &sin6);
	if (ret < 0)
		return ret;
	if (s->text[s->pos] != ']')
		return expected(s, "']'");
	s->pos++;
	ret = scan_port(s, &sin6.sin6_port);
	if (ret < 0)
		return ret;
	return weft_addr_from_raw(addr, scheme, 0, &sin6, sizeof(sin6), s->error);
}

static int parse_ip(struct scan *s, enum weft_scheme scheme, struct weft_addr *addr)
{
	const char *text = s->text + s->pos;
	const char *colon = strchr(text, ':');

	if (*text == '[')
		return parse_v6(s, scheme, addr);
	if (colon != NULL && strchr(colon + 1, ':') != NULL)
		return weft__addr_refuse(s->error, s->pos,
					 "an IPv6 address goes in brackets, as in [::1]:5000");
	if (strspn(text, LETTERS) > 0)
		return weft__addr_refuse(s->error, s->pos,
					 "names are not looked up: write the IP address itself");
	if (!is_digit(*text))
		return expected(s, "an IP address");
	return parse_v4(s, scheme, addr);
}

static int parse_shm(struct scan *s, struct weft_addr *addr)
{
	const char *name = s->text + s->pos;
	int ret = weft_addr_from_raw(addr, WEFT_SCHEME_SHM, 0, name, strlen(name) + 1, s->error);

	if (ret < 0)
		s->error->pos += s->pos;
	return ret;
}

static int parse_raw(struct scan *s, struct weft_addr *addr)
{
	uint8_t raw[WEFT_ADDR_MAX];
	uint32_t format;
	size_t len;
	int ret = scan_number(s, 0, UINT32_MAX, "the number of the address format", &format);

	if (ret < 0)
		return ret;
	if (s->text[s->pos] != '/')
		return expected(s, "'/' and the address in hex");
	s->pos++;
	ret = scan_hex(s, raw, sizeof(raw), "the second hex digit of a byte", &len);
	if (ret < 0)
		return ret;
	if (len == 0)
		return expected(s, "a hex digit");
	if (len == WEFT_ADDR_MAX && hex_value(s->text[s->pos]) >= 0)
		return weft__addr_refuse(s->error, s->pos, "an address has at most %d bytes",
					 WEFT_ADDR_MAX);
	if (s->text[s->pos] != '\0')
		return expected(s, "a hex digit or the end of the address");
	return weft_addr_from_raw(addr, WEFT_SCHEME_RAW, format, raw, len, s->error);
}

/* Reads a text without a scheme, which only EFA's may be, or says what may be missing. */
static int parse_bare(struct scan *s, struct weft_addr *addr)
{
	size_t digits = strspn(s->text, HEX_DIGITS);

	/* An IP address can begin with hex digits, but only with a few. */
	if (digits < EFA_LEN && strpbrk(s->text, ":.[") != NULL)
		return weft__addr_refuse(
			s->error, 0,
			"the scheme is missing: tcp://HOST:PORT, or another of " WEFT__SCHEMES);
	if (digits == 0)
		return expected(s, "64 hex digits (EFA) or a scheme (" WEFT__SCHEMES ")");
	return parse_efa(s, addr);
}

/* The scheme with the given name, or WEFT_SCHEME_NONE. */
static enum weft_scheme find_scheme(const char *name, size_t len)
{
	for (int i = WEFT_SCHEME_EFA; weft__scheme_name((enum weft_scheme)i) != NULL; i++) {
		const char *have = weft__scheme_name((enum weft_scheme)i);

		if (strlen(have) == len && memcmp(have, name, len) == 0)
			return (enum weft_scheme)i;
	}
	return WEFT_SCHEME_NONE;
}

static int parse_any(struct scan *s, struct weft_addr *addr)
{
	const char *mark = strstr(s->text, "://");
	enum weft_scheme scheme;

	/*
	 * This comes first so that a blank is not taken for part of an unknown scheme. strchr()
	 * finds the end of an empty text, too.
	 */
	if (strchr(" \t\r\n", s->text[0]) != NULL)
		return expected(s, "an address");
	if (mark == NULL)
		return parse_bare(s, addr);
	scheme = find_scheme(s->text, (size_t)(mark - s->text));
	s->pos = (size_t)(mark - s->text) + strlen("://");
	switch (scheme) {
	case WEFT_SCHEME_EFA:
		return parse_efa(s, addr);
	case WEFT_SCHEME_TCP:
	case WEFT_SCHEME_UDP:
	case WEFT_SCHEME_VERBS:
		return parse_ip(s, scheme, addr);
	case WEFT_SCHEME_SHM:
		return parse_shm(s, addr);
	case WEFT_SCHEME_RAW:
		return parse_raw(s, addr);
	case WEFT_SCHEME_NONE:
	default:
		return weft__addr_refuse(s->error, 0,
					 "the scheme is unknown: it is one of " WEFT__SCHEMES);
	}
}

int weft_addr_parse(struct weft_addr *addr, const char *text, struct weft_parse_error *error)
{
	struct weft_parse_error unused;
	struct scan s = {text, 0, error != NULL ? error : &unused};

	if (addr == NULL || text == NULL)
		return weft__addr_refuse(error, 0,
					 "the pointer to the address or to its text is NULL");
	return parse_any(&s, addr);
}

static int format_hex(const struct weft_addr *addr, char *text, size_t size)
{
	size_t n;

	if (addr->scheme == WEFT_SCHEME_RAW)
		n = (size_t)snprintf(text, size, "raw://%" PRIu32 "/", addr->format);
	else
		n = (size_t)snprintf(text, size, "efa://");
	for (size_t i = 0; i < addr->len; i++)
		n += (size_t)snprintf(text + n, size - n, "%02x", addr->raw[i]);
	return (int)n;
}

static int format_v4(const struct weft_addr *addr, char *text, size_t size)
{
	struct sockaddr_in sin;
	char host[INET_ADDRSTRLEN] = "";

	memcpy(&sin, addr->raw, sizeof(sin));
	(void)inet_ntop(AF_INET, &sin.sin_addr, host, sizeof(host));
	return snprintf(text, size, "%s://%s:%u", weft__scheme_name(addr->scheme), host,
			(unsigned)ntohs(sin.sin_port));
}

static int format_v6(const struct weft_addr *addr, char *text, size_t size)
{
	struct sockaddr_in6 sin6;
	char host[INET6_ADDRSTRLEN] = "";
	char zone[sizeof("%4294967295")] = "";

	memcpy(&sin6, addr->raw, sizeof(sin6));
	(void)inet_ntop(AF_INET6, &sin6.sin6_addr, host, sizeof(host));
	if (sin6.sin6_scope_id != 0)
		(void)snprintf(zone, sizeof(zone), "%%%" PRIu32, sin6.sin6_scope_id);
	return snprintf(text, size, "%s://[%s%s]:%u", weft__scheme_name(addr->scheme), host, zone,
			(unsigned)ntohs(sin6.sin6_port));
}

int weft_addr_format(const struct weft_addr *addr, char *text, size_t size)
{
	char room[WEFT_ADDR_TEXT_MAX]; /* the longest is raw://4294967295/ and 256 digits */
	struct weft_addr good;
	int n;

	if (weft__addr_check(&good, addr, NULL) < 0)
		return -EINVAL;
	if (good.scheme == WEFT_SCHEME_SHM)
		n = snprintf(room, sizeof(room), "shm://%s", (const char *)good.raw);
	else if (good.scheme == WEFT_SCHEME_EFA || good.scheme == WEFT_SCHEME_RAW)
		n = format_hex(&good, room, sizeof(room));
	else if (good.format == FI_SOCKADDR_IN)
		n = format_v4(&good, room, sizeof(room));
	else
		n = format_v6(&good, room, sizeof(room));
	if ((size_t)n >= size)
		return -ENOSPC;
	if (text == NULL)
		return -EINVAL;
	memcpy(text, room, (size_t)n + 1);
	return n;
}
