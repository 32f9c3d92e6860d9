/* SPDX-License-Identifier: MIT */
/*
 * What weft serve does with the messages of its clients: answers each one, reversed, as it is, or with nothing in it.
 * An answer that cannot be sent at once waits, and the message with it, in its client's own queue; so does the client,
 * for whose messages no room is made meanwhile. Calls weft, output.
 */
#ifndef TOOL_SERVICE_H
#define TOOL_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "options.h"

struct waiting {
	STAILQ_ENTRY(waiting) link;
	struct weft_msg *msg;
};

struct client {
	TAILQ_ENTRY(client) link; /* in service->stuck, while something waits */
	struct service_state *service;
	weft_peer peer;
	char name[WEFT_ADDR_TEXT_MAX];
	STAILQ_HEAD(waiting_list, waiting) waiting;
	unsigned waiting_count;
	bool closing;
};

struct service_state {
	enum service kind;
	struct weft_node *node;
	uint64_t memory_max;   /* bytes of answers under way, to all clients */
	uint64_t memory;       /* as it is now */
	TAILQ_HEAD(clients, client) stuck;
	uint64_t messages, bytes; /* that came */
	uint64_t replies;	  /* that are known to have arrived */
	uint64_t failed;	  /* that are not */
};

void service_init(struct service_state *service, enum service kind, uint64_t memory_max);

/* A client for a session that has opened, or NULL where memory is short. */
struct client *service_add(struct service_state *service, weft_peer peer, const struct weft_addr *addr);
/* Its session has ended. */
void service_remove(struct client *client);

/* A message of a client's has come. */
void service_message(struct client *client, const struct weft_msg *msg);
/* Tries again what waits. To be called after each turn of the loop. */
void service_resume(struct service_state *service);

#endif
