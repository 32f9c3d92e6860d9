/* SPDX-License-Identifier: MIT */
/*
 * addr.c: addresses of endpoints as bytes: what is one, and whether two are the same. Their text
 * form is addrtext.c's.
 *
 * It calls libc only (of libfabric it takes the numbers of the address formats), touches no other
 * object of weft and keeps no state, so every function can be called from any thread.
 *
 * Wherever an address comes from, its bytes end in load(): the functions under it hold the rules,
 * and they make the canonical form, in which equal endpoints have equal bytes.
 *
 * - EFA: the device's 32 bytes. A QPN of 0 is genuine; the GID is never zero, and the reserved
 *   bytes always are.
 * - tcp, udp, verbs: a sockaddr in the host's own layout. sin_zero, sin6_flowinfo, and the scope id
 *   of an address that is not link-local say nothing about the endpoint and become zero. An
 *   IPv4-mapped IPv6 address is refused: it would be a second name for an IPv4 endpoint, and a
 *   provider that was opened for one family does not serve the other.
 * - shm: the name of a file in /dev/shm. Names that the provider makes itself begin with fi_shm://
 *   or fi_ns://, which it leaves out when it opens the file. It is part of the address all the
 *   same: to libfabric 1.17 a peer that was added without it is not the one that sends with it.
 * - raw: any bytes. Nothing is known about them.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

#include "addr.h"

/* An EFA address: GID, QPN (16 bits), padding, QKEY (32 bits), reserved. */
#define EFA_LEN 32u
#define EFA_GID_END 16u
#define EFA_PAD 18u
#define EFA_PAD_END 20u
#define EFA_RESERVED 24u

#define SHM_NAME_MAX (WEFT_ADDR_MAX - 1)

/* Both families have the family and the port at the same places. */
union sockaddr_ip {
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

const char *weft__scheme_name(enum weft_scheme scheme)
{
	static const char *const names[] = {
		[WEFT_SCHEME_EFA] = "efa",     [WEFT_SCHEME_TCP] = "tcp", [WEFT_SCHEME_UDP] = "udp",
		[WEFT_SCHEME_VERBS] = "verbs", [WEFT_SCHEME_SHM] = "shm", [WEFT_SCHEME_RAW] = "raw",
	};

	return (size_t)scheme < sizeof(names) / sizeof(names[0]) ? names[scheme] : NULL;
}

void weft__addr_explain(struct weft_parse_error *error, size_t pos, const char *format, ...)
{
	va_list args;

	if (error == NULL)
		return;
	error->pos = pos;
	va_start(args, format);
	(void)vsnprintf(error->reason, sizeof(error->reason), format, args);
	va_end(args);
}

const char *weft__byte_name(char byte, char room[WEFT__BYTE_NAME_MAX])
{
	static const char *const names[] = {
		['\0'] = "the end of the text", ['\t'] = "a tab",  ['\n'] = "a newline",
		['\r'] = "a carriage return",	[' '] = "a blank",
	};
	unsigned n = (unsigned char)byte;

	if (n <= ' ' && names[n] != NULL)
		return names[n];
	if (n > ' ' && n < 0x7f)
		(void)snprintf(room, WEFT__BYTE_NAME_MAX, "'%c'", byte);
	else
		(void)snprintf(room, WEFT__BYTE_NAME_MAX, "byte 0x%02x", n);
	return room;
}

static void set(struct weft_addr *addr, uint32_t format, const void *raw, size_t len)
{
	memset(addr, 0, sizeof(*addr));
	addr->format = format;
	addr->len = len;
	memcpy(addr->raw, raw, len);
}

/* Refuses other lengths, at the first byte that is missing or too much. */
static int check_len(size_t len, size_t want, const char *what, struct weft_parse_error *error)
{
	if (len == want)
		return 0;
	return weft__addr_refuse(error, len < want ? len : want, "%s has %zu bytes, not %zu", what,
				 want, len);
}

/* The offset of the first byte in a range that is not zero; end if there is none. */
static size_t nonzero(const uint8_t *raw, size_t from, size_t end)
{
	while (from < end && raw[from] == 0)
		from++;
	return from;
}

static int load_efa(struct weft_addr *addr, const uint8_t *raw, size_t len,
		    struct weft_parse_error *error)
{
	int ret = check_len(len, EFA_LEN, "an EFA address", error);
	size_t at;

	if (ret < 0)
		return ret;
	if (nonzero(raw, 0, EFA_GID_END) == EFA_GID_END)
		return weft__addr_refuse(error, 0, "the GID (the first 16 bytes) is zero");
	at = nonzero(raw, EFA_PAD, EFA_PAD_END);
	if (at != EFA_PAD_END)
		return weft__addr_refuse(error, at,
					 "the padding after the QPN (bytes 18 and 19) is not zero");
	at = nonzero(raw, EFA_RESERVED, EFA_LEN);
	if (at != EFA_LEN)
		return weft__addr_refuse(error, at, "the reserved bytes (24 to 31) are not zero");
	set(addr, FI_ADDR_EFA, raw, len);
	return 0;
}

const char *weft__v4_fault(const struct in_addr *ip)
{
	uint32_t host = ntohl(ip->s_addr);

	if (host == INADDR_ANY)
		return "0.0.0.0 is not the address of a host";
	if (host == INADDR_BROADCAST)
		return "255.255.255.255 is the broadcast address";
	if (IN_MULTICAST(host))
		return "a multicast address (224.0.0.0 to 239.255.255.255) is not one host's";
	return NULL;
}

const char *weft__v6_fault(const struct in6_addr *ip)
{
	if (IN6_IS_ADDR_UNSPECIFIED(ip))
		return ":: is not the address of a host";
	if (IN6_IS_ADDR_MULTICAST(ip))
		return "a multicast address (ff00::/8) is not one host's";
	if (IN6_IS_ADDR_V4MAPPED(ip))
		return "an IPv4 address in IPv6 form: write it as IPv4, without brackets";
	return NULL;
}

static int load_v4(struct weft_addr *addr, const struct sockaddr_in *in,
		   struct weft_parse_error *error)
{
	struct sockaddr_in out = {.sin_family = AF_INET};
	const char *fault = weft__v4_fault(&in->sin_addr);

	if (fault != NULL)
		return weft__addr_refuse(error, offsetof(struct sockaddr_in, sin_addr), "%s",
					 fault);
	out.sin_port = in->sin_port;
	out.sin_addr = in->sin_addr;
	set(addr, FI_SOCKADDR_IN, &out, sizeof(out));
	return 0;
}

static int load_v6(struct weft_addr *addr, const struct sockaddr_in6 *in,
		   struct weft_parse_error *error)
{
	struct sockaddr_in6 out = {.sin6_family = AF_INET6};
	const char *fault = weft__v6_fault(&in->sin6_addr);

	if (fault != NULL)
		return weft__addr_refuse(error, offsetof(struct sockaddr_in6, sin6_addr), "%s",
					 fault);
	out.sin6_port = in->sin6_port;
	out.sin6_addr = in->sin6_addr;
	if (IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr)) {
		if (in->sin6_scope_id == 0)
			return weft__addr_refuse(
				error, offsetof(struct sockaddr_in6, sin6_scope_id),
				"a link-local address without the number of its interface");
		out.sin6_scope_id = in->sin6_scope_id;
	}
	set(addr, FI_SOCKADDR_IN6, &out, sizeof(out));
	return 0;
}

static int load_ip(struct weft_addr *addr, const uint8_t *raw, size_t len,
		   struct weft_parse_error *error)
{
	union sockaddr_ip in;
	sa_family_t family;
	int ret;

	if (len < sizeof(family))
		return weft__addr_refuse(error, len, "%zu bytes are too few for a socket address",
					 len);
	memcpy(&family, raw, sizeof(family));
	if (family == AF_INET)
		ret = check_len(len, sizeof(in.v4), "an IPv4 socket address", error);
	else if (family == AF_INET6)
		ret = check_len(len, sizeof(in.v6), "an IPv6 socket address", error);
	else
		ret = weft__addr_refuse(error, 0, "address family %u is neither IPv4 nor IPv6",
					(unsigned)family);
	if (ret < 0)
		return ret;
	memcpy(&in, raw, len);
	if (in.v4.sin_port == 0)
		return weft__addr_refuse(error, offsetof(struct sockaddr_in, sin_port),
					 "the port is 0");
	return family == AF_INET ? load_v4(addr, &in.v4, error) : load_v6(addr, &in.v6, error);
}

/* The length of the prefix of a name that the shm provider has made itself, or 0. */
static size_t shm_prefix(const char *name, size_t len)
{
	static const char *const prefixes[] = {"fi_shm://", "fi_ns://"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);

		if (len >= n && memcmp(name, prefixes[i], n) == 0)
			return n;
	}
	return 0;
}

/* Reads a name from start up to its NUL, or to len if there is none. *end is where it stopped. */
static int scan_shm_name(const char *name, size_t start, size_t len, size_t *end,
			 struct weft_parse_error *error)
{
	for (*end = start; *end < len && name[*end] != '\0'; (*end)++) {
		char c = name[*end];
		char room[WEFT__BYTE_NAME_MAX];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    strchr("._:-", c) == NULL)
			return weft__addr_refuse(
				error, *end,
				"a shm name has letters, digits and . _ : - only, not %s",
				weft__byte_name(c, room));
		if (*end == SHM_NAME_MAX)
			return weft__addr_refuse(error, *end, "a shm name has at most %d bytes",
						 SHM_NAME_MAX);
	}
	return 0;
}

/* Takes a name with its NUL. Behind the prefix no '/' passes: that is a file in /dev/shm. */
static int load_shm(struct weft_addr *addr, const char *name, size_t len,
		    struct weft_parse_error *error)
{
	size_t start = shm_prefix(name, len);
	size_t end;
	int ret = scan_shm_name(name, start, len, &end, error);

	if (ret < 0)
		return ret;
	if (end == len)
		return weft__addr_refuse(error, end, "the shm name does not end in a NUL byte");
	if (end + 1 != len)
		return weft__addr_refuse(error, end + 1,
					 "bytes follow the NUL byte that ends the shm name");
	if (end == start)
		return weft__addr_refuse(error, end, "the shm name is empty");
	if (strcmp(name + start, ".") == 0 || strcmp(name + start, "..") == 0)
		return weft__addr_refuse(error, start,
					 "'.' and '..' are directories, not shm names");
	set(addr, FI_ADDR_STR, name, len);
	return 0;
}

static int load_raw(struct weft_addr *addr, uint32_t format, const uint8_t *raw, size_t len,
		    struct weft_parse_error *error)
{
	if (len == 0)
		return weft__addr_refuse(error, 0, "the address has no bytes");
	if (len > WEFT_ADDR_MAX)
		return weft__addr_refuse(error, WEFT_ADDR_MAX, "an address has at most %d bytes",
					 WEFT_ADDR_MAX);
	set(addr, format, raw, len);
	return 0;
}

/* Fills *addr, on failure not with anything of use. */
static int load(struct weft_addr *addr, enum weft_scheme scheme, uint32_t format, const void *raw,
		size_t len, struct weft_parse_error *error)
{
	int ret;

	switch (scheme) {
	case WEFT_SCHEME_EFA:
		ret = load_efa(addr, raw, len, error);
		break;
	case WEFT_SCHEME_TCP:
	case WEFT_SCHEME_UDP:
	case WEFT_SCHEME_VERBS:
		ret = load_ip(addr, raw, len, error);
		break;
	case WEFT_SCHEME_SHM:
		ret = load_shm(addr, raw, len, error);
		break;
	case WEFT_SCHEME_RAW:
		ret = load_raw(addr, format, raw, len, error);
		break;
	case WEFT_SCHEME_NONE:
	default:
		return weft__addr_refuse(error, 0, "the scheme is none of " WEFT__SCHEMES);
	}
	addr->scheme = scheme;
	return ret;
}

int weft_addr_from_raw(struct weft_addr *addr, enum weft_scheme scheme, uint32_t format,
		       const void *raw, size_t len, struct weft_parse_error *error)
{
	struct weft_addr out;
	int ret;

	if (addr == NULL || raw == NULL)
		return weft__addr_refuse(error, 0,
					 "the pointer to the address or to its bytes is NULL");
	ret = load(&out, scheme, format, raw, len, error);
	if (ret == 0)
		*addr = out;
	return ret;
}

int weft__addr_check(struct weft_addr *out, const struct weft_addr *addr,
		     struct weft_parse_error *error)
{
	struct weft_addr good;
	int ret;

	if (addr == NULL)
		return weft__addr_refuse(error, 0, "the pointer to the address is NULL");
	if (addr->len > WEFT_ADDR_MAX)
		return weft__addr_refuse(error, 0, "the address is damaged: its length is %zu",
					 addr->len);
	ret = load(&good, addr->scheme, addr->format, addr->raw, addr->len, error);
	if (ret < 0)
		return ret;
	if (good.format != addr->format)
		return weft__addr_refuse(
			error, 0, "the address is damaged: its format is %" PRIu32 ", not %" PRIu32,
			addr->format, good.format);
	*out = good;
	return 0;
}

int weft_addr_equal(const struct weft_addr *a, const struct weft_addr *b)
{
	struct weft_addr x, y;

	/* A damaged address names no endpoint, so it is not even equal to itself. */
	if (weft__addr_check(&x, a, NULL) < 0 || weft__addr_check(&y, b, NULL) < 0)
		return 0;
	return x.scheme == y.scheme && x.format == y.format && x.len == y.len &&
	       memcmp(x.raw, y.raw, x.len) == 0;
}
