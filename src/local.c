/* SPDX-License-Identifier: MIT */
/* The local IP address to bind to: reading, routing, comparing. Calls nothing of weft. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local.h"

static int parse_port(const char *text, uint16_t *port)
{
	unsigned long value = 0;
	size_t len = strlen(text);
	if (len < 1 || len > 5 || strspn(text, "0123456789") != len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		value = value * 10 + (unsigned long)(text[i] - '0');
	if (value > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)value;
	return 0;
}

/*
 * Cuts text into the address, without brackets, and what follows its colon, or NULL. Returns 0 or
 * -EINVAL.
 */
static int split(char *text, char **host, char **port)
{
	char *colon = strchr(text, ':');
	*host = text;
	*port = NULL;
	if (text[0] == '[') {
		char *end = strchr(text, ']');
		if (!end || (end[1] != 0 && end[1] != ':'))
			return -EINVAL;
		*host = text + 1;
		*port = end[1] == ':' ? end + 2 : NULL;
		*end = 0;
	} else if (colon && !strchr(colon + 1, ':')) {
		*port = colon + 1;
		*colon = 0;
	}
	return 0;
}

int weft__local_parse(struct weft__local *local, const char *text, char *reason, size_t reason_size)
{
	struct weft__local out = {.family = AF_UNSPEC};
	char copy[INET6_ADDRSTRLEN + sizeof("[]:65535")];
	char *host, *port;
	size_t len = strlen(text);
	if (len == 0 || len >= sizeof(copy))
		goto no_address;
	memcpy(copy, text, len + 1);
	if (split(copy, &host, &port) < 0)
		goto no_address;
	if (port && parse_port(port, &out.port) < 0) {
		snprintf(reason, reason_size,
			 "the port after the colon is not a number from 0 to 65535");
		return -EINVAL;
	}
	bool brackets = text[0] == '[';
	if (!brackets && inet_pton(AF_INET, host, &out.v4) == 1)
		out.family = AF_INET;
	else if (inet_pton(AF_INET6, host, &out.v6) == 1)
		out.family = AF_INET6;
	else if (brackets || host[0] != 0 || !port)
		goto no_address;
	if ((out.family == AF_INET && out.v4.s_addr == htonl(INADDR_ANY)) ||
	    (out.family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&out.v6))) {
		snprintf(reason, reason_size,
			 "the unspecified address cannot be given to peers; name the address of "
			 "one interface");
		return -EINVAL;
	}
	*local = out;
	return 0;

no_address:
	snprintf(reason, reason_size,
		 "an IP address is expected, such as 10.0.0.1, 10.0.0.1:7000, [fd00::1]:7000 or "
		 ":7000");
	return -EINVAL;
}

int weft__local_toward(struct weft__local *local, const struct weft_addr *peer)
{
	struct sockaddr_storage to = {0}, from = {0};
	socklen_t from_len = sizeof(from);
	memcpy(&to, peer->raw, peer->len);

	/* A datagram socket that is connected sends nothing; the kernel only looks up the route. */
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int ret = 0;
	if (connect(fd, (struct sockaddr *)&to, (socklen_t)peer->len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &from_len) < 0)
		ret = -errno;
	close(fd);
	if (ret < 0)
		return ret;
	ret = weft__local_from_sockaddr(local, &from, from_len);
	local->port = 0;
	return ret;
}

int weft__local_from_sockaddr(struct weft__local *local, const void *sockaddr, size_t len)
{
	struct weft__local out = {.family = AF_UNSPEC};
	sa_family_t family = AF_UNSPEC;
	if (sockaddr && len >= sizeof(struct sockaddr_in))
		memcpy(&family, (const char *)sockaddr + offsetof(struct sockaddr, sa_family),
		       sizeof(family));
	if (family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, sockaddr, sizeof(in));
		out.v4 = in.sin_addr;
		out.port = ntohs(in.sin_port);
	} else if (family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sockaddr, sizeof(in6));
		out.v6 = in6.sin6_addr;
		out.port = ntohs(in6.sin6_port);
	} else {
		return -EAFNOSUPPORT;
	}
	out.family = family;
	*local = out;
	return 0;
}

bool weft__local_is_loopback(const struct weft__local *local)
{
	if (local->family == AF_INET)
		return ntohl(local->v4.s_addr) >> 24 == IN_LOOPBACKNET;
	return local->family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&local->v6);
}

bool weft__local_fits(const struct weft__local *want, const struct weft__local *have)
{
	if (want->family != have->family)
		return false;
	if (want->family == AF_INET)
		return want->v4.s_addr == have->v4.s_addr ||
		       (weft__local_is_loopback(want) && weft__local_is_loopback(have));
	return IN6_ARE_ADDR_EQUAL(&want->v6, &have->v6);
}

void weft__local_apply(const struct weft__local *want, void *sockaddr)
{
	sa_family_t family;
	memcpy(&family, (char *)sockaddr + offsetof(struct sockaddr, sa_family), sizeof(family));
	if (family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, sockaddr, sizeof(in));
		in.sin_port = htons(want->port);
		if (want->family == AF_INET)
			in.sin_addr = want->v4;
		memcpy(sockaddr, &in, sizeof(in));
	} else if (family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sockaddr, sizeof(in6));
		in6.sin6_port = htons(want->port);
		memcpy(sockaddr, &in6, sizeof(in6));
	}
}

const char *weft__local_format(const struct weft__local *local, char *text, size_t size)
{
	const void *bytes =
		local->family == AF_INET ? (const void *)&local->v4 : (const void *)&local->v6;
	if (local->family == AF_UNSPEC || !inet_ntop(local->family, bytes, text, (socklen_t)size))
		text[0] = 0;
	return text;
}
