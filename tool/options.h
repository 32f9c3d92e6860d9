/* SPDX-License-Identifier: MIT */
/*
 * The command line: which options each command has, and what they have been set to. Calls units, help and output.
 */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_TIMEOUT = 3,
	EXIT_INTERRUPTED = 130,
};

/* As bits, so that an option can name all the commands that have it. */
enum command {
	COMMAND_NONE = 1, /* the options before any command */
	COMMAND_SERVE = 2,
	COMMAND_SEND = 4,
	COMMAND_PING = 8,
	COMMAND_INFO = 16,
};

enum service {
	SERVICE_REVERSE,
	SERVICE_ECHO,
	SERVICE_DISCARD,
};

/* Texts are those of argv. 0 and NULL: not given. */
struct options {
	enum command command;
	const char *program; /* as it was called */
	bool help, version, json, quiet;
	int verbose; /* how often it was given */
	/* what carries the bytes */
	const char *provider, *domain, *bind, *require;
	/* operands */
	const char *address, *message;
	/* send, ping */
	int timeout_ms;
	uint64_t count;
	/* send */
	const char *file, *output;
	uint64_t retry;
	bool no_reply;
	/* ping */
	int interval_ms, deadline_ms;
	uint64_t message_size;
	bool flood;
	/* serve */
	uint64_t service; /* an enum service */
	uint64_t max_peers, max_message, memory;
	const char *rendezvous, *address_file;
	bool once;
};

/* The name of a command, "" for COMMAND_NONE, and the command of a name, 0 where there is none. */
const char *command_name(enum command command);
enum command command_of(const char *name);
const char *service_name(enum service service);

/*
 * Reads the options and operands of a command from argv, whose first element is passed over. All of it is read even if
 * something is wrong, so that --json is known to whoever tells of it.
 *
 * Returns EXIT_DONE, or EXIT_USAGE after saying what is wrong.
 */
int options_parse(struct options *options, enum command command, int argc, char **argv);

#endif
