/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host.h"
#include "software.h"
#include "units.h"

#define GID_BYTES 16

const char *host_resolve(char *text, const char *name, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[NI_MAXHOST];
	uint64_t number = 0;
	if (port && (!parse_count(port, &number) || number > 65535))
		return "the port is not a number up to 65535";
	int ret = getaddrinfo(name, NULL, &hints, &found);
	if (ret != 0)
		return gai_strerror(ret);
	ret = getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), NULL, 0,
			  NI_NUMERICHOST);
	bool v6 = found->ai_family == AF_INET6;
	freeaddrinfo(found);
	if (ret != 0)
		return gai_strerror(ret);
	if (port)
		snprintf(text, HOST_TEXT_MAX, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
			 (unsigned)number);
	else
		snprintf(text, HOST_TEXT_MAX, "%s", host);
	return NULL;
}

bool host_split(const char *text, char *host, char *port)
{
	const char *colon = strrchr(text, ':');
	const char *digits = colon ? colon + 1 : text;
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t number;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return false;
	}
	if (!parse_count(digits, &number) || number > 65535 || len >= NI_MAXHOST)
		return false;
	memcpy(host, text, len);
	host[len] = 0;
	snprintf(port, NI_MAXSERV, "%u", (unsigned)number);
	return true;
}

bool host_of(const struct weft_addr *addr, char *host, char *port)
{
	char text[WEFT_ADDR_TEXT_MAX];
	if (weft_addr_format(addr, text, sizeof(text)) < 0)
		return false;
	const char *rest = strstr(text, "://");
	return rest && host_split(rest + 3, host, port) && *host;
}

bool host_is_loopback(const char *ip)
{
	return strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0;
}

bool host_is_any(const char *ip)
{
	return strcmp(ip, "0.0.0.0") == 0 || strcmp(ip, "::") == 0;
}

/* Zones of link-local addresses are passed over. */
bool host_is_own(const char *ip)
{
	struct ifaddrs *all;
	size_t ip_len = strcspn(ip, "%");
	bool own = host_is_loopback(ip);
	if (own || getifaddrs(&all) < 0)
		return own;
	for (struct ifaddrs *one = all; one && !own; one = one->ifa_next) {
		char text[NI_MAXHOST];
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
		socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in)
						  : sizeof(struct sockaddr_in6);
		if ((family != AF_INET && family != AF_INET6) ||
		    getnameinfo(one->ifa_addr, len, text, sizeof(text), NULL, 0, NI_NUMERICHOST) !=
			    0)
			continue;
		text[strcspn(text, "%")] = 0;
		own = strlen(text) == ip_len && strncmp(text, ip, ip_len) == 0;
	}
	freeifaddrs(all);
	return own;
}

const char *host_only_cure(const struct weft_addr *addr)
{
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	if (addr->scheme == WEFT_SCHEME_SHM)
		return "--provider tcp and --bind IP or INTERFACE";
	if (software_ip(addr, host))
		return host_is_loopback(host) ? "SOFTEFA_BIND=IP" : NULL;
	return host_of(addr, host, port) && host_is_loopback(host) ? "--bind IP or INTERFACE"
								   : NULL;
}

bool host_is_same(const struct weft_addr *own, const struct weft_addr *peer)
{
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	switch (own->scheme) {
	case WEFT_SCHEME_SHM:
		return true;
	case WEFT_SCHEME_EFA:
		/* The GID comes first. Two NICs of one host are not known as such. */
		return memcmp(own->raw, peer->raw, GID_BYTES) == 0;
	case WEFT_SCHEME_TCP:
	case WEFT_SCHEME_UDP:
	case WEFT_SCHEME_VERBS:
		return host_of(peer, host, port) && host_is_own(host);
	case WEFT_SCHEME_NONE:
	case WEFT_SCHEME_RAW:
		break;
	}
	return false;
}
