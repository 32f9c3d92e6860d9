/* SPDX-License-Identifier: MIT */
/*
 * The place where clients learn the server's address: a TCP port that sends it, as a line, to whoever connects. Nothing
 * that a client sends means anything, none is waited for, and however many there are, few descriptors are in use.
 * Calls host, loop, output.
 */
#ifndef TOOL_RENDEZVOUS_H
#define TOOL_RENDEZVOUS_H

#include <stdint.h>

/* Clients whose connection is open at a time; for one more, the one that came first is closed. */
#define RENDEZVOUS_CLIENTS 32

struct rendezvous {
	int listener; /* -1: none */
	int poller;   /* readable when rendezvous_turn() has something to do; -1: none */
	char line[400];
	char host[80], where[128]; /* the IP address that it listens at, and the same with the port; "" before */
	uint64_t told; /* clients that the address was sent to */
	/* the clients, first come first, in a ring */
	struct rendezvous_client {
		int fd;
		int64_t deadline_ms;
		uint64_t drained;
	} clients[RENDEZVOUS_CLIENTS];
	unsigned first, count;
	int64_t resume_ms; /* when clients are taken again, after descriptors had run out; 0: they are */
};
#define RENDEZVOUS_INIT                                                                                                \
	{                                                                                                              \
		.listener = -1, .poller = -1                                                                           \
	}

/*
 * Listens at a port of a host, and says where. Who comes waits until there is an address to tell. Returns EXIT_DONE, or
 * an exit status after saying what is wrong.
 */
int rendezvous_open(struct rendezvous *rendezvous, const char *host, const char *port);
void rendezvous_set_address(struct rendezvous *rendezvous, const char *address);

/* Serves who has come, and lets go of those whose time is up. Never waits. */
void rendezvous_turn(struct rendezvous *rendezvous);

/* When rendezvous_turn() has to be called at the latest; INT64_MAX: not before poller is readable. */
int64_t rendezvous_due_ms(const struct rendezvous *rendezvous);

void rendezvous_close(struct rendezvous *rendezvous);

#endif
