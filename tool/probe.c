/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>

#include "connection.h"
#include "host.h"
#include "loop.h"
#include "probe.h"

#define PROBE_MS 500

/* Connects, and lets go at once. Returns 0, or why that was not possible. */
static int knock(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *to;
	if (getaddrinfo(host, port, &hints, &to) != 0)
		return -EINVAL;
	int fd = connection_open(to->ai_addr, to->ai_addrlen, now_ms() + PROBE_MS);
	freeaddrinfo(to);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

const char *probe_tcp(const struct weft_addr *peer)
{
	static char said[NI_MAXHOST + 200];
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	if (!host_of(peer, host, port))
		return NULL;
	switch (-knock(host, port)) {
	case 0:
		return "something listens there, but it is no weft, or one that is stopped or "
		       "busy, or its libfabric and this one lie on different sides of 1.18 (is it "
		       "the rendezvous port? Then write HOST:PORT without tcp://)";
	case ECONNREFUSED:
		if (!host_is_loopback(host))
			return "nothing listens there: the server has ended or has another port, "
			       "or a firewall rejects it";
		snprintf(said, sizeof(said),
			 "nothing listens there: the server has ended or has another port; %s is "
			 "this host itself, and a server on another host has to be started with "
			 "--bind",
			 host);
		return said;
	case ENETUNREACH:
		return "this host has no route there (Network is unreachable): check the address";
	case EHOSTUNREACH:
		return "no host answers there (No route to host): check the address, and whether a "
		       "firewall rejects it";
	case ETIMEDOUT:
		return "nothing comes back from there, not even a refusal: no host has this "
		       "address, it is down, or a firewall drops what is sent to it";
	default:
		return NULL;
	}
}
