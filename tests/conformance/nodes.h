/* SPDX-License-Identifier: MIT */
/*
 * Nodes that write down what happens on them, on the provider that WEFT_TEST_PROVIDER names, and ways to wait for it.
 * For the conformance tests of layer 2. Calls pair.h for what concerns the provider.
 */
#ifndef WEFT_TESTS_NODES_H
#define WEFT_TESTS_NODES_H

#include <weft/weft.h>

#include "pair.h"

#define ENDS 64

/* A node and what has happened on it. Zeroed, it is one that agrees to everything. */
struct actor {
	struct weft_node *node;
	struct weft_addr addr;
	int refuse; /* what the accept callback returns */
	int accepts, opened, messages, writables;
	weft_peer peer; /* of the session opened last */
	int outgoing;   /* whether this node had made it */
	uint64_t instance;
	uint32_t max_frame;
	/* The ends of sessions, as they came. */
	int closed;
	struct weft_closed end;
	char end_text[256];
	int reasons[ENDS];
	/* The ends of messages that point here. */
	int sents, sent_status;
	int replies, reply_status;
	size_t reply_len;
	uint32_t reply_sum;
	/* What to do with a message, if not only to count it. */
	void (*on_message)(struct actor *actor, const struct weft_msg *msg);
	void (*on_opened)(struct actor *actor, weft_peer peer);
	void (*on_closed)(struct actor *actor, weft_peer peer);
	void *user;
};

/* Options for the provider under test. The log goes to stderr. */
struct weft_node_opts node_opts(void);

/* Opens the node of an actor; opts may be NULL. */
void actor_open(struct actor *actor, const struct weft_node_opts *opts);
/*
 * Closes it, while the one beside it (which may be NULL) is polled, so that they part in peace. On shm an endpoint may
 * not go while another one of the same process may still send to it, nor, where parts_first(), while that one has its
 * address: libfabric would look into memory that is gone. There the session that was opened last is closed before.
 */
void actor_close(struct actor *actor, struct actor *beside);

/* Whether actor_close() ends the session before it closes the node. */
bool parts_first(void);

/* Two nodes with a session between them that a began; peer of both is set. */
void actors_meet(struct actor *a, struct actor *b);

/* Begins a session from one to the other. */
weft_peer begin(struct actor *from, const struct actor *to);

/* Polls each of them once, without sleeping. */
void poll_all(struct actor *const *actors, int count);

/* Polls both (b may be NULL) until *value is at least want. Fails the test when that takes too long. */
void wait_for(struct actor *a, struct actor *b, const int *value, int want);

/* A send of len bytes whose end the actor writes down. */
struct weft_send send_of(struct actor *actor, const void *data, size_t len);

/* These write into the struct actor that user points to. */
void record_sent(struct weft_node *node, weft_peer peer, int status, void *user);
void record_reply(struct weft_node *node, weft_peer peer, const struct weft_msg *msg, int status, void *user);

/* Bytes that depend on seed, and a sum of bytes that tells every change of one. */
void scribble(uint8_t *data, size_t len, unsigned seed);
uint32_t sum_of(const void *data, size_t len);

struct weft_node_stats stats_of(const struct actor *actor);

#endif
