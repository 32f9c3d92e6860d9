/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "host.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "stop.h"
#include "target.h"
#include "units.h"

/* What a rendezvous answers at most: an address and the end of its line. */
#define ANSWER_MAX (WEFT_ADDR_TEXT_MAX + 2)

/* Connects to the rendezvous at one of the addresses that its host has. Returns the descriptor, or
 * a negative code. */
static int connect_any(const struct addrinfo *one, int64_t deadline_ms)
{
	int ret = -EADDRNOTAVAIL;
	for (; one && ret < 0 && ret != -EINTR && ret != -ETIMEDOUT; one = one->ai_next)
		ret = connection_open(one->ai_addr, one->ai_addrlen, deadline_ms);
	return ret;
}

/* Reads a line, without its end. Returns its length, -EMSGSIZE if it is none, or another code. */
static int read_answer(int fd, char *answer, int64_t deadline_ms)
{
	size_t used = 0;
	while (used < ANSWER_MAX) {
		int ret = connection_wait(fd, POLLIN, deadline_ms);
		if (ret < 0)
			return ret;
		ssize_t got = read(fd, answer + used, ANSWER_MAX - used);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got < 0)
			return -errno;
		char *end = memchr(answer + used, '\n', (size_t)got);
		if (end || got == 0) {
			size_t len = end ? (size_t)(end - answer) : used;
			answer[len] = 0;
			return (int)len;
		}
		used += (size_t)got;
	}
	return -EMSGSIZE;
}

/* Whether the other end of a connection is on another host. */
static bool is_elsewhere(int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char host[NI_MAXHOST];
	return getpeername(fd, (struct sockaddr *)&addr, &len) == 0 &&
	       getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), NULL, 0,
			   NI_NUMERICHOST) == 0 &&
	       !host_is_own(host);
}

static int tell_unconnected(const char *text, int code, int timeout_ms)
{
	char time[UNITS_TEXT_MAX];
	if (code == -EINTR)
		return EXIT_INTERRUPTED;
	if (code == -ETIMEDOUT)
		return fail(EXIT_TIMEOUT,
			    "rendezvous %s: no connection within %s; is weft serve --rendezvous "
			    "running there, or does a firewall drop it?",
			    text, format_duration(time, timeout_ms));
	if (code == -EHOSTUNREACH || code == -ENETUNREACH)
		return fail(EXIT_FAILED,
			    "rendezvous %s: %s; there is no such host on the network, check the "
			    "address",
			    text, weft_strerror(code));
	return fail(EXIT_FAILED, "rendezvous %s: %s; is weft serve --rendezvous running there?",
		    text, weft_strerror(code));
}

static int tell_unanswered(const char *text, int code, int timeout_ms)
{
	char within[UNITS_TEXT_MAX + 20];
	char time[UNITS_TEXT_MAX];
	if (code == -EINTR)
		return EXIT_INTERRUPTED;
	if (code == -EMSGSIZE)
		return fail(EXIT_FAILED, "rendezvous %s: what answers there is not weft serve",
			    text);
	snprintf(within, sizeof(within), "no answer within %s", format_duration(time, timeout_ms));
	return fail(code == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_FAILED,
		    "rendezvous %s: %s: something listens there, but tells no address; if weft "
		    "serve printed tcp://%s, write it with tcp://",
		    text, code == -ETIMEDOUT ? within : weft_strerror(code), text);
}

/* Reads what was told. elsewhere: by another host. */
static int take_answer(struct weft_addr *addr, const char *text, const char *answer, size_t len,
		       bool elsewhere)
{
	struct weft_parse_error error;
	if (weft_addr_parse(addr, answer, &error) < 0)
		return fail(EXIT_FAILED,
			    "rendezvous %s: what answers there is not weft serve: '%s' is not an "
			    "address: byte %zu: %s",
			    text, message_preview(answer, len), error.pos, error.reason);
	const char *cure = elsewhere ? host_only_cure(addr) : NULL;
	if (cure)
		return fail(EXIT_FAILED,
			    "the rendezvous %s told %s, which means this host itself; start weft "
			    "serve there with %s",
			    text, answer, cure);
	say_more("rendezvous %s: the address is %s", text, answer);
	return EXIT_DONE;
}

static int ask_rendezvous(struct weft_addr *addr, const char *text, const char *host,
			  const char *port, int timeout_ms)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *all;
	char answer[ANSWER_MAX + 1];
	int64_t deadline_ms = now_ms() + timeout_ms;
	int ret = getaddrinfo(*host ? host : "localhost", port, &hints, &all);
	if (ret != 0)
		return fail(ret == EAI_AGAIN ? EXIT_FAILED : EXIT_USAGE,
			    "rendezvous %s: the name '%s' cannot be looked up: %s", text, host,
			    gai_strerror(ret));
	int fd = connect_any(all, deadline_ms);
	freeaddrinfo(all);
	if (fd < 0)
		return tell_unconnected(text, fd, timeout_ms);
	ret = read_answer(fd, answer, deadline_ms);
	bool elsewhere = ret >= 0 && is_elsewhere(fd);
	close(fd);
	if (ret < 0)
		return tell_unanswered(text, ret, timeout_ms);
	return take_answer(addr, text, answer, (size_t)ret, elsewhere);
}

/* Replaces the name of a host in an address by what it stands for. Returns NULL, or what is wrong.
 */
static const char *resolve_name(char *resolved, size_t size, const char *text)
{
	static const char *const schemes[] = {"tcp://", "udp://", "verbs://"};
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	char numeric[HOST_TEXT_MAX];
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t len = strlen(schemes[i]);
		if (strncmp(text, schemes[i], len) != 0)
			continue;
		/* What starts with a digit is an address that is wrong, rather than a name. */
		if (!host_split(text + len, host, port) || !*host ||
		    (*host >= '0' && *host <= '9') || strchr(host, ':'))
			return "";
		const char *fault = host_resolve(numeric, host, port);
		if (!fault)
			snprintf(resolved, size, "%s%s", schemes[i], numeric);
		return fault;
	}
	return "";
}

int target_find(struct weft_addr *addr, const char *text, int timeout_ms, bool *from_rendezvous)
{
	struct weft_parse_error error;
	char resolved[HOST_TEXT_MAX + 16];
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	*from_rendezvous = false;
	if (weft_addr_parse(addr, text, &error) == 0)
		return EXIT_DONE;
	if (!strstr(text, "://") && strchr(text, ':') && host_split(text, host, port)) {
		if (strchr(host, '/'))
			return fail(EXIT_USAGE,
				    "'%s' is not an address: the scheme is followed by '://'",
				    text);
		if (strcmp(port, "0") == 0)
			return fail(EXIT_USAGE, "'%s' is not a rendezvous: port 0 is none", text);
		*from_rendezvous = true;
		return ask_rendezvous(addr, text, host, port, timeout_ms);
	}
	const char *fault = resolve_name(resolved, sizeof(resolved), text);
	if (fault && *fault)
		return fail(EXIT_USAGE, "'%s' is not an address: its host cannot be looked up: %s",
			    text, fault);
	if (!fault && weft_addr_parse(addr, resolved, &error) == 0)
		return EXIT_DONE;
	return fail(
		EXIT_USAGE,
		"'%s' is not an address: byte %zu: %s; weft serve prints its own, and HOST:PORT is "
		"one of weft serve --rendezvous",
		text, error.pos, error.reason);
}
