/* SPDX-License-Identifier: MIT */
/*
 * weft serve: a node for others to connect to, with a service for their messages, until a signal
 * comes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advice.h"
#include "commands.h"
#include "fabric.h"
#include "file.h"
#include "host.h"
#include "json.h"
#include "loop.h"
#include "output.h"
#include "rendezvous.h"
#include "service.h"
#include "software.h"
#include "stop.h"

#define LINGER_MS 1000
/* As the library has them where --memory and --max-peers are not given. */
#define MEMORY_DEFAULT ((uint64_t)2 << 30)
#define PEERS_DEFAULT 1000
/* A frame of the longest kind for each peer, and some more for those that are busy. */
#define PEER_BYTES 32768
/* How often --verbose looks for what was dropped. */
#define LOOK_MS 1000
/* Of the lines of statistics. */
#define LINE_MOST 600

struct server {
	struct options options;
	char bind[80]; /* of options, where it follows from --rendezvous */
	struct fabric fabric;
	struct service_state service;
	struct rendezvous rendezvous;
	uint64_t sessions, sessions_open;
	bool address_written;
	uint64_t told_malformed; /* messages that were not of the protocol, as far as told of */
	int status;		 /* -1 while it runs, then the exit status */
};

static int on_accept(struct weft_node *node, const struct weft_peer_info *info, void *user)
{
	const struct server *server = user;
	(void)node;
	(void)info;
	return server->options.once && server->sessions > 0 ? REFUSED_ONCE : 0;
}

static void on_opened(struct weft_node *node, weft_peer peer, const struct weft_peer_info *info,
		      void *user)
{
	struct server *server = user;
	struct client *client = service_add(&server->service, peer, &info->addr);
	server->sessions++;
	server->sessions_open++;
	fabric_warn_of_host(&server->fabric, &info->addr);
	say_more("CONNECT received from %s, its provider is %s", address_text(&info->addr),
		 info->provider);
	if (!client) {
		say("closing the session with %s: no memory", address_text(&info->addr));
		weft_peer_close(node, peer, 0);
		return;
	}
	weft_peer_set_data(node, peer, client);
}

static void on_message(struct weft_node *node, const struct weft_msg *msg, void *user)
{
	struct client *client = weft_peer_data(node, msg->peer);
	(void)user;
	if (client)
		service_message(client, msg);
}

static void on_closed(struct weft_node *node, weft_peer peer, const struct weft_closed *closed,
		      void *user)
{
	struct server *server = user;
	struct client *client = weft_peer_data(node, peer);
	if (!closed->opened)
		return;
	server->sessions_open--;
	/* A client that closes, or ends, is one that has got what it wanted. */
	bool done = closed->by_peer && closed->status == 0;
	say_more("session with %s ended: %s", client ? client->name : "a peer",
		 done ? "the client is done" : closed->text);
	if (client)
		service_remove(client);
	if (!server->options.once || server->sessions_open > 0 || server->status >= 0)
		return;
	server->status = EXIT_DONE;
	if (closed->status < 0)
		server->status = fail(EXIT_FAILED, "the session ended: %s", closed->text);
}

/* A client has to be on a device of the same kind. Between hosts, its own address is one more thing
 * to be said. */
static void say_how_to_reach(const struct server *server)
{
	const struct weft_addr *addr = &server->fabric.addr;
	const char *cure = addr->scheme == WEFT_SCHEME_SHM ? NULL : host_only_cure(addr);
	char ip[INET_ADDRSTRLEN];
	bool software = software_ip(addr, ip);
	say("serving %s; a client is started by: %s%s%s%s send '%s' 'Hello, world!'",
	    service_name(server->service.kind), software && !cure ? "SOFTEFA_BIND=ITS-OWN-IP " : "",
	    software ? software_launcher() : "", software ? " " : "", server->options.program,
	    server->fabric.address);
	if (*server->rendezvous.host && !host_is_loopback(server->rendezvous.host) &&
	    host_only_cure(addr))
		say_warning(
			"the rendezvous %s is for other hosts, and the address that it tells is "
			"reached from this one only; for others: %s",
			server->rendezvous.where, host_only_cure(addr));
	else if (cure)
		say("this address is reached from this host only; for others: %s", cure);
}

/* The address goes to stdout, for programs, and to wherever else it was asked for. */
static int publish(struct server *server)
{
	const struct options *options = &server->options;
	const char *address = server->fabric.address;
	rendezvous_set_address(&server->rendezvous, address);
	if (options->address_file) {
		int ret = file_write_line(options->address_file, address);
		server->address_written = ret == 0;
		if (ret < 0)
			return fail(EXIT_FAILED, "--address-file: cannot write %s: %s",
				    options->address_file, strerror(-ret));
	}
	say_how_to_reach(server);
	if (!options->json && (printf("%s\n", address) < 0 || fflush(stdout) != 0))
		return fail_output();
	return EXIT_DONE;
}

typedef void tell_fn(const char *name, uint64_t value, void *user);

/* What has happened since the start. */
static void tell_events(const struct server *server, const struct weft_node_stats *node,
			tell_fn *tell, void *user)
{
	tell("sessions", server->sessions, user);
	tell("open", server->sessions_open, user);
	tell("messages", server->service.messages, user);
	tell("bytes", server->service.bytes, user);
	tell("replies", server->service.replies, user);
	tell("failed", server->service.failed, user);
	tell("lost", node->lost, user);
	tell("rejected", node->rejected, user);
	tell("malformed", node->drop_malformed, user);
	tell("rendezvous", server->rendezvous.told, user);
}

/* What is in use now. */
static void tell_use(struct server *server, const struct weft_node_stats *node, tell_fn *tell,
		     void *user)
{
	struct weft_net_stats net = WEFT_NET_STATS_INIT;
	weft_net_get_stats(weft_node_net(server->fabric.node), &net);
	tell("peers", net.peers, user);
	tell("half_open", node->half_open, user);
	tell("held", node->held, user);
	tell("operations", net.ops, user);
	tell("buffers", net.buffers, user);
	tell("memory", node->memory, user);
	tell("descriptors", file_descriptors(), user);
}

static void add_to_line(const char *name, uint64_t value, void *user)
{
	char *line = user;
	size_t used = strlen(line);
	snprintf(line + used, LINE_MOST - used, " %s=%" PRIu64, name, value);
}

static void add_to_object(const char *name, uint64_t value, void *user)
{
	json_object_set_new(user, name, json_number(value));
}

static void say_statistics(struct server *server)
{
	struct weft_node_stats node = WEFT_NODE_STATS_INIT;
	char events[LINE_MOST] = "";
	char use[LINE_MOST] = "";
	weft_node_get_stats(server->fabric.node, &node);
	tell_events(server, &node, add_to_line, events);
	tell_use(server, &node, add_to_line, use);
	say("statistics:%s", events);
	say("in use:%s", use);
}

static void document(struct server *server)
{
	struct weft_node_stats node = WEFT_NODE_STATS_INIT;
	json_t *object = json_object();
	weft_node_get_stats(server->fabric.node, &node);
	tell_events(server, &node, add_to_object, object);
	tell_use(server, &node, add_to_object, object);
	document_set("service", json_text(service_name(server->service.kind)));
	document_set("rendezvous",
		     json_text(*server->rendezvous.where ? server->rendezvous.where : NULL));
	document_set("statistics", object);
}

/* What comes from programs of layer 1, or of others, gets no answer; --verbose tells why. */
static void say_malformed(struct server *server)
{
	struct weft_node_stats node = WEFT_NODE_STATS_INIT;
	weft_node_get_stats(server->fabric.node, &node);
	if (node.drop_malformed > server->told_malformed)
		say_more("%" PRIu64 " messages were not of weft's protocol, and were dropped: does "
			 "their sender use layer 2 (weft/weft.h)?",
			 node.drop_malformed - server->told_malformed);
	server->told_malformed = node.drop_malformed;
}

/* Until when a turn may last. What the library drops wakes nobody. */
static int64_t turn_due_ms(const struct server *server)
{
	int64_t due = rendezvous_due_ms(&server->rendezvous);
	int64_t look = output_is_verbose() ? now_ms() + LOOK_MS : INT64_MAX;
	return look < due ? look : due;
}

static void serve(struct server *server)
{
	nfds_t count = server->rendezvous.poller >= 0 ? 1 : 0;
	while (server->status < 0 && !stop_wanted()) {
		struct pollfd entry = {.fd = server->rendezvous.poller, .events = POLLIN};
		int timeout_ms = ms_until(turn_due_ms(server));
		int ret = loop_turn(server->fabric.node, &entry, count, timeout_ms);
		if (ret < 0) {
			server->status =
				fail(EXIT_FAILED, "the fabric is broken: %s", fabric_reason(ret));
			return;
		}
		service_resume(&server->service);
		if (count > 0 &&
		    (entry.revents || rendezvous_due_ms(&server->rendezvous) <= now_ms()))
			rendezvous_turn(&server->rendezvous);
		if (output_is_verbose())
			say_malformed(server);
		if (statistics_wanted())
			say_statistics(server);
	}
	/* To be told to stop is how a server ends. */
	if (server->status < 0)
		server->status = EXIT_DONE;
}

/*
 * Where the rendezvous has a HOST, it listens before there is an address to tell. A server that is
 * to be found from other hosts there is to be reached from them too, unless where it binds was
 * asked for, or has no IP address.
 */
static int open_first_rendezvous(struct server *server)
{
	struct options *options = &server->options;
	struct rendezvous *rendezvous = &server->rendezvous;
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	if (!host_split(options->rendezvous, host, port))
		return fail(EXIT_USAGE,
			    "--rendezvous: '%s' is not [HOST:]PORT, such as 7471 or "
			    "10.0.0.1:7471",
			    options->rendezvous);
	int status = *host ? rendezvous_open(rendezvous, host, port) : EXIT_DONE;
	if (status != EXIT_DONE || !*host || options->bind || options->domain ||
	    host_is_loopback(rendezvous->host) || host_is_any(rendezvous->host) ||
	    /* An address of one link only, which no fabric can be bound to. */
	    strchr(rendezvous->host, '%') || !fabric_binds_to_ip(options))
		return status;
	snprintf(server->bind, sizeof(server->bind), "%s", rendezvous->host);
	options->bind = server->bind;
	return EXIT_DONE;
}

/* Without a HOST, it listens where the server is reached, or where only this host reaches it. */
static int open_second_rendezvous(struct server *server)
{
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	char unused[NI_MAXSERV];
	host_split(server->options.rendezvous, host, port);
	if (!host_of(&server->fabric.addr, host, unused))
		snprintf(host, sizeof(host), "127.0.0.1");
	return rendezvous_open(&server->rendezvous, host, port);
}

static int open_and_serve(struct server *server)
{
	const struct options *options = &server->options;
	struct weft_events events = WEFT_EVENTS_INIT;
	struct weft_node_opts limits = WEFT_NODE_OPTS_INIT;
	events.accept = on_accept;
	events.opened = on_opened;
	events.message = on_message;
	events.closed = on_closed;
	limits.max_peers = (size_t)options->max_peers;
	limits.max_message = options->max_message;
	limits.message_budget = (size_t)options->memory;
	/* What the library takes by itself is enough for its own number of peers. */
	if (options->max_peers > PEERS_DEFAULT)
		limits.recv_budget = (size_t)options->max_peers * PEER_BYTES;
	int status = EXIT_DONE;
	if (options->rendezvous)
		status = open_first_rendezvous(server);
	if (status == EXIT_DONE)
		status = fabric_open(&server->fabric, options, &limits, NULL, &events, server);
	if (status == EXIT_DONE && options->rendezvous && server->rendezvous.listener < 0)
		status = open_second_rendezvous(server);
	if (status != EXIT_DONE)
		return status;
	server->service.node = server->fabric.node;
	status = publish(server);
	if (status == EXIT_DONE) {
		serve(server);
		status = server->status;
	}
	server->status = status;
	if (output_is_verbose())
		say_statistics(server);
	document(server);
	return status;
}

int serve_run(const struct options *options)
{
	struct server server = {.options = *options, .rendezvous = RENDEZVOUS_INIT, .status = -1};
	service_init(&server.service, (enum service)options->service,
		     options->memory ? options->memory : MEMORY_DEFAULT);
	int status = open_and_serve(&server);
	/* Nobody is to be led to a server that is about to go. */
	if (server.address_written)
		file_remove_line(options->address_file, server.fabric.address);
	rendezvous_close(&server.rendezvous);
	fabric_close(&server.fabric, LINGER_MS);
	return status;
}
