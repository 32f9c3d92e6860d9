/* SPDX-License-Identifier: MIT */
/*
 * One table has every option of every command; getopt_long gets the rows of the command at hand.
 */
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "output.h"
#include "units.h"

enum kind {
	KIND_FLAG,     /* a bool */
	KIND_MORE,     /* an int: how often it was given */
	KIND_TEXT,     /* a const char * */
	KIND_DURATION, /* an int, in milliseconds */
	KIND_SIZE,     /* a uint64_t, in bytes */
	KIND_COUNT,    /* a uint64_t */
	KIND_SERVICE,  /* a uint64_t */
};

#define EVERY (COMMAND_SERVE | COMMAND_SEND | COMMAND_PING | COMMAND_INFO)
/* Of what libfabric and the network take; larger ones could not be meant. */
#define SIZE_MOST ((uint64_t)1 << 40)
#define COUNT_MOST ((uint64_t)1 << 53)

static const struct row {
	unsigned commands;
	char letter; /* 0: none */
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t least, most; /* of sizes and counts */
} rows[] = {
#define FIELD(name) offsetof(struct options, name)
	{COMMAND_NONE | EVERY, 'h', "help", KIND_FLAG, FIELD(help), 0, 0},
	{COMMAND_NONE | EVERY, 'V', "version", KIND_FLAG, FIELD(version), 0, 0},
	{COMMAND_NONE | EVERY, 0, "json", KIND_FLAG, FIELD(json), 0, 0},
	{EVERY, 'v', "verbose", KIND_MORE, FIELD(verbose), 0, 0},
	{EVERY, 'p', "provider", KIND_TEXT, FIELD(provider), 0, 0},
	{EVERY, 'd', "domain", KIND_TEXT, FIELD(domain), 0, 0},
	{EVERY, 'b', "bind", KIND_TEXT, FIELD(bind), 0, 0},
	{EVERY, 'r', "require", KIND_TEXT, FIELD(require), 0, 0},
	{COMMAND_SEND | COMMAND_PING, 'q', "quiet", KIND_FLAG, FIELD(quiet), 0, 0},
	{COMMAND_SEND | COMMAND_PING, 'c', "count", KIND_COUNT, FIELD(count), 1, COUNT_MOST},
	{COMMAND_SEND, 't', "timeout", KIND_DURATION, FIELD(timeout_ms), 0, 0},
	{COMMAND_PING, 'W', "timeout", KIND_DURATION, FIELD(timeout_ms), 0, 0},
	{COMMAND_SEND, 'f', "file", KIND_TEXT, FIELD(file), 0, 0},
	{COMMAND_SEND, 'o', "output", KIND_TEXT, FIELD(output), 0, 0},
	{COMMAND_SEND, 0, "retry", KIND_COUNT, FIELD(retry), 0, 1000000},
	{COMMAND_SEND, 0, "no-reply", KIND_FLAG, FIELD(no_reply), 0, 0},
	{COMMAND_PING, 'i', "interval", KIND_DURATION, FIELD(interval_ms), 0, 0},
	{COMMAND_PING, 'w', "deadline", KIND_DURATION, FIELD(deadline_ms), 0, 0},
	{COMMAND_PING, 's', "size", KIND_SIZE, FIELD(message_size), 0, (uint64_t)1 << 30},
	{COMMAND_PING, 'f', "flood", KIND_FLAG, FIELD(flood), 0, 0},
	{COMMAND_SERVE, 's', "service", KIND_SERVICE, FIELD(service), 0, 0},
	{COMMAND_SERVE, 0, "max-peers", KIND_COUNT, FIELD(max_peers), 1, 1000000},
	{COMMAND_SERVE, 0, "max-message", KIND_SIZE, FIELD(max_message), 1, (uint64_t)1 << 30},
	{COMMAND_SERVE, 0, "memory", KIND_SIZE, FIELD(memory), 1 << 20, SIZE_MOST},
	{COMMAND_SERVE, 'R', "rendezvous", KIND_TEXT, FIELD(rendezvous), 0, 0},
	{COMMAND_SERVE, 0, "address-file", KIND_TEXT, FIELD(address_file), 0, 0},
	{COMMAND_SERVE, '1', "once", KIND_FLAG, FIELD(once), 0, 0},
#undef FIELD
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct {
	enum command command;
	const char *name;
} commands[] = {
	{COMMAND_SERVE, "serve"},
	{COMMAND_SEND, "send"},
	{COMMAND_PING, "ping"},
	{COMMAND_INFO, "info"},
};

static const char *const services[] = {
	[SERVICE_REVERSE] = "reverse",
	[SERVICE_ECHO] = "echo",
	[SERVICE_DISCARD] = "discard",
};

const char *command_name(enum command command)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (commands[i].command == command)
			return commands[i].name;
	}
	return "";
}

enum command command_of(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].command;
	}
	return (enum command)0;
}

const char *service_name(enum service service)
{
	return services[service];
}

/* Where the usage of the command at hand is shown. */
static const char *help_hint(enum command command)
{
	static char hint[40];
	const char *name = command_name(command);
	snprintf(hint, sizeof(hint), "weft %s%s--help shows the options", name, *name ? " " : "");
	return hint;
}

static int set_number(const struct row *row, void *field, const char *text)
{
	uint64_t number;
	bool size = row->kind == KIND_SIZE;
	if (!(size ? parse_size(text, &number) : parse_count(text, &number)))
		return fail(EXIT_USAGE, "--%s: '%s' is not a %s", row->name, text,
			    size ? "size such as 100, 64k, 8M or 1G" : "whole number");
	if (number < row->least || number > row->most)
		return fail(EXIT_USAGE, "--%s: '%s' is out of range: from %llu to %llu%s",
			    row->name, text, (unsigned long long)row->least,
			    (unsigned long long)row->most, size ? " bytes" : "");
	*(uint64_t *)field = number;
	return EXIT_DONE;
}

static int set_service(const struct row *row, uint64_t *field, const char *text)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
		if (strcmp(services[i], text) == 0) {
			*field = i;
			return EXIT_DONE;
		}
	}
	return fail(EXIT_USAGE, "--%s: '%s' is none of reverse, echo and discard", row->name, text);
}

static int set(struct options *options, const struct row *row, const char *text)
{
	void *field = (char *)options + row->offset;
	switch (row->kind) {
	case KIND_FLAG:
		*(bool *)field = true;
		return EXIT_DONE;
	case KIND_MORE:
		*(int *)field += 1;
		return EXIT_DONE;
	case KIND_TEXT:
		if (!*text)
			return fail(EXIT_USAGE, "--%s: the value is empty", row->name);
		*(const char **)field = text;
		return EXIT_DONE;
	case KIND_DURATION:
		if (!parse_duration(text, field))
			return fail(EXIT_USAGE,
				    "--%s: '%s' is not a duration such as 500ms, 2s, 1m or 5",
				    row->name, text);
		return EXIT_DONE;
	case KIND_SERVICE:
		return set_service(row, field, text);
	case KIND_SIZE:
	case KIND_COUNT:
		break;
	}
	return set_number(row, field, text);
}

/* The rows of a command, as getopt_long wants them: the value of each is its place in the table. */
static void select_rows(enum command command, struct option *names, char *letters)
{
	*letters++ = ':'; /* a missing value is told apart from an unknown option */
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];
		bool value = row->kind != KIND_FLAG && row->kind != KIND_MORE;
		if (!(row->commands & (unsigned)command))
			continue;
		*names++ = (struct option){row->name, value ? required_argument : no_argument, NULL,
					   (int)i + UCHAR_MAX + 1};
		if (row->letter) {
			*letters++ = row->letter;
			if (value)
				*letters++ = ':';
		}
	}
	*names = (struct option){0};
	*letters = 0;
}

static const struct row *row_of(enum command command, int found)
{
	for (size_t i = 0; i < ROWS; i++) {
		if ((rows[i].commands & (unsigned)command) &&
		    (found == (int)i + UCHAR_MAX + 1 || found == rows[i].letter))
			return &rows[i];
	}
	return NULL;
}

/* Says why getopt_long did not take an option. */
static int refuse(enum command command, int how, char **argv)
{
	const struct row *row = optopt ? row_of(command, optopt) : NULL;
	if (how == ':')
		return fail(EXIT_USAGE, "--%s needs a value; %s", row ? row->name : "",
			    help_hint(command));
	if (row)
		return fail(EXIT_USAGE, "--%s takes no value; %s", row->name, help_hint(command));
	if (optopt)
		return fail(EXIT_USAGE, "unknown option '-%c'; %s", optopt, help_hint(command));
	return fail(EXIT_USAGE, "unknown or ambiguous option '%s'; %s", argv[optind - 1],
		    help_hint(command));
}

static int take_operands(struct options *options, int count, char **operands)
{
	bool takes[2] = {options->command != COMMAND_SERVE && options->command != COMMAND_NONE,
			 options->command == COMMAND_SEND};
	int most = takes[0] + takes[1];
	if (count > 0 && options->command == COMMAND_NONE)
		return fail(EXIT_USAGE, "options come after the command: weft %s ...; %s",
			    operands[0], help_hint(options->command));
	if (count > most)
		return fail(EXIT_USAGE, "'%s' is one argument too many%s; %s", operands[most],
			    most == 2 ? " (quote a message of several words)" : "",
			    help_hint(options->command));
	options->address = count > 0 ? operands[0] : NULL;
	options->message = count > 1 ? operands[1] : NULL;
	if (options->memory && options->memory < options->max_message)
		return fail(EXIT_USAGE,
			    "--memory has to have room for one message of --max-message");
	if (count == 0 && takes[0] && options->command != COMMAND_INFO)
		return fail(EXIT_USAGE, "an ADDRESS is missing: what weft serve prints; %s",
			    help_hint(options->command));
	return EXIT_DONE;
}

int options_parse(struct options *options, enum command command, int argc, char **argv)
{
	struct option names[ROWS + 1];
	char letters[2 * ROWS + 2];
	int status = EXIT_DONE;
	int found;
	options->command = command;
	select_rows(command, names, letters);
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		const struct row *row =
			found == '?' || found == ':' ? NULL : row_of(command, found);
		/* Only the first fault is told; the others may follow from it. */
		if (row && (status == EXIT_DONE || row->kind == KIND_FLAG)) {
			int ret = set(options, row, optarg);
			status = status == EXIT_DONE ? ret : status;
		} else if (!row && status == EXIT_DONE) {
			status = refuse(command, found, argv);
		}
	}
	if (options->help || options->version || status != EXIT_DONE)
		return status;
	return take_operands(options, argc - optind, argv + optind);
}
