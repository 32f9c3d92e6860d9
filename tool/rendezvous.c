/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "rendezvous.h"

/*
 * A connection that is closed while bytes of the client's are unread is reset, and the client may
 * lose the line. So it stays open until the client closes it, for a while, and what the client
 * sends is read, up to a bound.
 */
#define CLIENT_MS 2000
#define DRAIN_BYTES 65536
/* How long no clients are taken where one could not be. */
#define PAUSE_MS 200
/* Clients taken in one turn, so that a flood of them leaves time for the fabric. */
#define ACCEPTS_A_TURN 8

static int watch(struct rendezvous *rendezvous, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(rendezvous->poller, EPOLL_CTL_ADD, fd, &event);
}

/* Binds to what a look-up has found. Returns 0, or an errno. */
static int listen_at(struct rendezvous *rendezvous, const struct addrinfo *at)
{
	int yes = 1;
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	/* A server that is started again finds its port free, though connections of the last one
	 * linger. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, 128) < 0) {
		int error = errno;
		close(fd);
		return error;
	}
	rendezvous->listener = fd;
	return 0;
}

static void tell_where(struct rendezvous *rendezvous)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char host[NI_MAXHOST] = "?";
	char port[NI_MAXSERV] = "?";
	if (getsockname(rendezvous->listener, (struct sockaddr *)&addr, &len) == 0)
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	bool v6 = strchr(host, ':');
	snprintf(rendezvous->host, sizeof(rendezvous->host), "%.64s", host);
	snprintf(rendezvous->where, sizeof(rendezvous->where), "%s%.64s%s:%.8s", v6 ? "[" : "",
		 host, v6 ? "]" : "", port);
	say("rendezvous at %s", rendezvous->where);
}

int rendezvous_open(struct rendezvous *rendezvous, const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;
	int ret = getaddrinfo(host, port, &hints, &found);
	if (ret != 0)
		return fail(EXIT_USAGE, "--rendezvous: '%s' cannot be looked up: %s", host,
			    gai_strerror(ret));
	int error = listen_at(rendezvous, found);
	freeaddrinfo(found);
	if (error == 0) {
		rendezvous->poller = epoll_create1(EPOLL_CLOEXEC);
		if (rendezvous->poller < 0 || watch(rendezvous, rendezvous->listener) < 0)
			error = errno;
	}
	if (error != 0)
		return fail(EXIT_FAILED, "--rendezvous: cannot listen at %s, port %s: %s", host,
			    port, weft_strerror(error));
	tell_where(rendezvous);
	return EXIT_DONE;
}

void rendezvous_set_address(struct rendezvous *rendezvous, const char *address)
{
	snprintf(rendezvous->line, sizeof(rendezvous->line), "%.390s\n", address);
}

static void drop_first(struct rendezvous *rendezvous)
{
	struct rendezvous_client *client = &rendezvous->clients[rendezvous->first];
	if (client->fd >= 0)
		close(client->fd);
	rendezvous->first = (rendezvous->first + 1) % RENDEZVOUS_CLIENTS;
	rendezvous->count--;
}

/*
 * Looks away from newcomers for a while, as where there are no descriptors. They would make the
 * loop turn without an end.
 */
static void pause_taking(struct rendezvous *rendezvous)
{
	epoll_ctl(rendezvous->poller, EPOLL_CTL_DEL, rendezvous->listener, NULL);
	rendezvous->resume_ms = now_ms() + PAUSE_MS;
}

/* Takes one client. Returns false where there is none. */
static bool take_client(struct rendezvous *rendezvous)
{
	int fd = accept4(rendezvous->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		bool goes_on = errno == ECONNABORTED || errno == EINTR;
		if (!goes_on && errno != EAGAIN)
			pause_taking(rendezvous);
		return goes_on;
	}
	if (rendezvous->count == RENDEZVOUS_CLIENTS)
		drop_first(rendezvous);
	/* A new connection has room for a line. MSG_NOSIGNAL: it may be closed already. */
	size_t len = strlen(rendezvous->line);
	if (send(fd, rendezvous->line, len, MSG_NOSIGNAL) == (ssize_t)len)
		rendezvous->told++;
	shutdown(fd, SHUT_WR);
	if (watch(rendezvous, fd) < 0) {
		close(fd);
		return true;
	}
	unsigned last = (rendezvous->first + rendezvous->count++) % RENDEZVOUS_CLIENTS;
	rendezvous->clients[last] = (struct rendezvous_client){fd, now_ms() + CLIENT_MS, 0};
	return true;
}

/* Reads what a client has sent, and closes it where that is the end, or too much. */
static void drain(struct rendezvous_client *client)
{
	char bytes[4096];
	ssize_t got = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (got > 0)
		client->drained += (uint64_t)got;
	if ((got < 0 && (errno == EAGAIN || errno == EINTR)) ||
	    (got > 0 && client->drained < DRAIN_BYTES))
		return;
	close(client->fd);
	client->fd = -1;
}

void rendezvous_turn(struct rendezvous *rendezvous)
{
	if (rendezvous->listener < 0)
		return;
	for (unsigned i = 0; i < rendezvous->count; i++) {
		struct rendezvous_client *client =
			&rendezvous->clients[(rendezvous->first + i) % RENDEZVOUS_CLIENTS];
		if (client->fd >= 0)
			drain(client);
	}
	if (rendezvous->resume_ms != 0 && rendezvous->resume_ms <= now_ms()) {
		rendezvous->resume_ms = 0;
		watch(rendezvous, rendezvous->listener);
	}
	for (int i = 0; i < ACCEPTS_A_TURN && rendezvous->resume_ms == 0 && take_client(rendezvous);
	     i++)
		;
	/* All have the same time, so the first to come is the first whose time is up. */
	while (rendezvous->count > 0 &&
	       (rendezvous->clients[rendezvous->first].fd < 0 ||
		rendezvous->clients[rendezvous->first].deadline_ms <= now_ms()))
		drop_first(rendezvous);
}

int64_t rendezvous_due_ms(const struct rendezvous *rendezvous)
{
	int64_t due = rendezvous->resume_ms ? rendezvous->resume_ms : INT64_MAX;
	if (rendezvous->count > 0 && rendezvous->clients[rendezvous->first].deadline_ms < due)
		due = rendezvous->clients[rendezvous->first].deadline_ms;
	return due;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
	while (rendezvous->count > 0)
		drop_first(rendezvous);
	if (rendezvous->listener >= 0)
		close(rendezvous->listener);
	if (rendezvous->poller >= 0)
		close(rendezvous->poller);
	rendezvous->listener = rendezvous->poller = -1;
}
