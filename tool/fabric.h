/* SPDX-License-Identifier: MIT */
/*
 * The node that a command talks through: opened by its options, with what really carries the bytes told at once.
 * Calls weft, output, json, stop.
 */
#ifndef TOOL_FABRIC_H
#define TOOL_FABRIC_H

#include <weft/weft.h>

#include "options.h"

struct fabric {
	struct weft_node *node;
	struct weft_net_info info;
	struct weft_addr addr;
	char address[WEFT_ADDR_TEXT_MAX];
	bool said_same_host;
};

/*
 * Fills in the options of a net: what was asked for on the command line, and what libfabric needs to be told in the
 * environment. toward may be NULL. The texts live as long as options and toward, or until the next call.
 *
 * Returns EXIT_DONE, or EXIT_USAGE after saying what is wrong.
 */
int fabric_net_options(struct weft_net_opts *opts, const struct options *options, const struct weft_addr *toward);

/* Whether what these options would open binds to an IP address. */
bool fabric_binds_to_ip(const struct options *options);

/* Says why a fabric with these options could not be opened. Returns an exit status. */
int fabric_fail(const struct options *options, const struct weft_addr *toward, int code);

/* What the library had to say last of why something failed, or what the code means. */
const char *fabric_reason(int code);

/*
 * Opens a node, says what it is on stderr and in the document, and takes the signals. limits is what the caller
 * wants of it; its net is filled in here. Returns EXIT_DONE, or an exit status after saying what has failed.
 */
int fabric_open(struct fabric *fabric, const struct options *options, struct weft_node_opts *limits,
		const struct weft_addr *toward, const struct weft_events *events, void *user);
void fabric_close(struct fabric *fabric, int linger_ms);

/* Warns, once, if a peer is on this host. */
void fabric_warn_of_host(struct fabric *fabric, const struct weft_addr *peer);
/* The same for the only peer that there is, which is noted in the document. */
void fabric_tell_peer(struct fabric *fabric, const struct weft_peer_info *peer);

/* The address as text, in storage that the next call uses again. */
const char *address_text(const struct weft_addr *addr);

#endif
