/* SPDX-License-Identifier: MIT */
/*
 * What the tests of layer 2 have in common: nodes that write down what they are told, ways to let time pass for all
 * of them, and a stranger on layer 1 who writes whatever frames it likes. Nodes that a test leaves open are closed by
 * nodes_end(). Everything else is in world.h and fake.h.
 */
#ifndef WEFT_TESTS_NODES_H
#define WEFT_TESTS_NODES_H

#include <weft/weft.h>

#include "wire.h"
#include "world.h"

/* How long the frames of a node are, unless it is asked for others. */
#define FRAME_SIZE ((size_t)16384)

/* A node, and what it has been told. */
struct party {
	struct weft_node *node; /* NULL: it is closed */
	struct weft_addr addr;
	bool stopped; /* nobody polls it */

	int accepts, opened, messages, writable, closed, places;
	weft_peer peer; /* the last one that opened */
	struct weft_peer_info info;
	char provider[64]; /* of info */
	struct weft_closed end; /* of the last one that closed; without its texts */
	char why[600], advice[200];
	char text[64]; /* how the last message begins */
	size_t len;
	struct weft_msg msg; /* the last message, without its data */

	/* What it does. */
	int refuse; /* what the accept callback returns */
	void (*on_accept)(struct party *party);
	void (*on_opened)(struct party *party, weft_peer peer);
	void (*on_message)(struct party *party, const struct weft_msg *msg);
	void (*on_writable)(struct party *party, weft_peer peer);
	void (*on_closed)(struct party *party, weft_peer peer);
	struct weft_buf *(*on_place)(struct party *party, size_t len, size_t *off);
	void *user;
};

/* As world_test(), and all nodes are closed at the end. */
int nodes_setup(void **state);
int nodes_teardown(void **state);
#define nodes_test(fn) cmocka_unit_test_setup_teardown(fn, nodes_setup, nodes_teardown)

/* The options that party_open() takes for NULL, of the provider that was offered last. */
struct weft_node_opts node_opts(void);
/* Opens a node. Without an offer before, the provider is fake_tcp. */
struct party *party_open(const struct weft_node_opts *opts);
/* Offers a provider, which nodes are opened on from now on. Returns the fake's copy. */
struct fake_provider *party_provider(const struct fake_provider *like);
/* Closes a node, while the others go on. Returns what weft_node_close() does. */
int party_close(struct party *party, int linger_ms);
/* As if its process was killed: the others hear nothing of it. */
void party_kill(struct party *party);
struct weft_node_stats party_stats(const struct party *party);

/* Polls every node that is not stopped, for so much virtual time. */
void nodes_pass(int64_t ms);
/* The same until *count has reached want. Fails the test after 100 virtual seconds. */
void nodes_until(const int *count, int want);
/* The same until the node, or the frames of all nodes, have nothing under way; checks their budgets meanwhile. */
void nodes_check_budgets(void);

/* Begins a session from a to b, and waits until it is open on both sides. Returns a's handle. */
weft_peer meet(struct party *a, struct party *b);

/* What becomes of a message. */
struct fate {
	int sent, sent_status;
	int replies, reply_status;
	char text[64];
	int order; /* of the sent callback, among all of the test */
};
/* A send with both callbacks, which write to fate. */
struct weft_send asking(const void *data, size_t len, struct fate *fate);
/* A send with the sent callback only. */
struct weft_send telling(const void *data, size_t len, struct fate *fate);
/* Sends a text with the sent callback. fate NULL: without. Returns as weft_peer_send(). */
int say(struct party *party, weft_peer peer, const char *text, struct fate *fate);

/* Answers a message with the same, as its on_message. */
void echo(struct party *party, const struct weft_msg *msg);

/* A stranger: a net of layer 1 that knows one node. */
#define RAW_FRAMES 64
struct raw {
	struct weft_net *net;
	struct weft_addr addr;
	weft_dest to;
	struct weft_buf *into[16];
	struct party *party;
	/* What it says of itself; raw_hello() fills it, and tests change it. */
	struct weft__hello hello;
	uint32_t credit;   /* of its headers */
	uint8_t flags;     /* of the next one */
	uint32_t number;   /* of its last numbered frame */
	uint32_t ack;
	uint32_t returned;
	uint64_t peer_id;  /* what its frames bear */
	uint32_t message;  /* the id of its last message */
	/* What has come, the last of each type. */
	int came[WEFT__TYPE_MAX + 1];
	struct weft__header last[WEFT__TYPE_MAX + 1];
	uint8_t body[WEFT__TYPE_MAX + 1][1024];
	size_t len[WEFT__TYPE_MAX + 1];
};

/* raw is there until the end of the test, which closes it: it must be static. */
void raw_open(struct raw *raw, struct party *to);
void raw_close(struct raw *raw);
/* Any bytes. */
void raw_send(struct raw *raw, const void *data, size_t len);
/* A frame with the raw one's header and these contents; numbered ones take the next number. */
void raw_frame(struct raw *raw, enum weft__frame_type type, const void *body, size_t len);
void raw_connect(struct raw *raw);
/* Answers a CONNECT that has come. */
void raw_accept(struct raw *raw);
/* A DATA frame with one message. */
void raw_data(struct raw *raw, const char *text);
/* Sends CONNECT, takes the ACCEPT and confirms it: the session is open. */
void raw_meet(struct raw *raw);
/* How the last REJECT or CLOSE goes. */
struct weft__farewell raw_farewell(const struct raw *raw, enum weft__frame_type type);
/* Takes what has come. nodes_pass() does it for all. */
void raw_poll(struct raw *raw);

#endif
