/* SPDX-License-Identifier: MIT */
/*
 * The calls that the torture loop's scenarios of layer 2 are made of. What has to hold in each run: every message that
 * was accepted has one end, every session that began or opened has one closed event, and calls answer with codes that
 * weft/weft.h names.
 *
 * Every call in the run of a scenario is a rerun: frames are short and few, polls are far apart, and what another
 * scenario covers is not counted.
 */
#ifndef WEFT_TESTS_TORTURE_NODES_H
#define WEFT_TESTS_TORTURE_NODES_H

#include <weft/weft.h>

#include "torture.h"

#define FRAME ((size_t)1024)
#define STEP_MS 2

struct end;
typedef void reaction(struct end *end, weft_peer peer);

/* A node. One that could not be opened is NULL, and all below does nothing with it. */
struct end {
	struct weft_node *node;
	struct weft_addr addr;
	bool asleep;
	int opened, messages, closed, owed; /* closed events that are to come */
	int refuse;
	weft_peer peer;
	struct weft_msg *held;
	reaction *on_opened, *on_message, *on_closed, *on_writable;
};

struct message {
	bool started, asks;
	int sent, replies, status;
	reaction *then;
	struct end *end;
};

/* How many frames are the budget of a node that is opened, and how many peers it may have: 64 and 20. */
extern size_t nodes_recv_frames, nodes_max_peers;

void nodes_begin(const struct fake_provider *provider);
/* counted: its calls are to fail, too. */
struct end *nodes_open(const char *provider, bool counted);
void nodes_close(struct end *end, int linger_ms);
/* Closes all, and looks whether every message has had its end. */
void nodes_finish(int linger_ms);

void nodes_poll(void);
/* Polls all until the count is there, which it has to be if nothing has failed; in vain for so long. */
void nodes_until(const int *count, int want, int ms);
void nodes_pass(int ms);

weft_peer nodes_connect(struct end *end, const struct weft_addr *addr, int timeout_ms);
weft_peer nodes_meet(struct end *a, struct end *b);
/* The same, where it is not the point, and not counted. */
weft_peer nodes_met(struct end *a, struct end *b);
void nodes_close_peer(struct end *end, weft_peer peer, int linger_ms);
/* Sends so many bytes. Returns the message, which may not have started. */
struct message *nodes_send(struct end *end, weft_peer peer, size_t len, bool asks, int timeout_ms);

#endif
