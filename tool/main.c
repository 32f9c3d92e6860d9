/* SPDX-License-Identifier: MIT */
/*
 * weft: messages over RDMA fabrics from the command line. This file finds the command and sees to
 * it that whatever happens ends with one document, if one was asked for, and the right exit status.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "help.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "stop.h"
#include "versions.h"

/*
 * A standard descriptor that is closed would be given to the next socket of libfabric, and the text
 * would go into that. Opened the wrong way round it makes every use fail, as it should.
 */
static void secure_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			_exit(EXIT_FAILED);
	}
}

static struct options defaults(enum command command, const char *program)
{
	return (struct options){
		.command = command,
		.program = program ? program : "weft",
		.timeout_ms = 5000,
		.interval_ms = 1000,
		.message_size = 64,
	};
}

/* Whether --json is among the arguments of a command that does not exist. */
static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--json") == 0)
			return true;
	}
	return false;
}

static int show_help(const struct options *options)
{
	if (options->json)
		document_set("help", json_text(help_text(options->command)));
	else
		fputs(help_text(options->command), stdout);
	return EXIT_DONE;
}

static int run(struct options *options, enum command command, int argc, char **argv)
{
	int status = options_parse(options, command, argc, argv);
	output_set_verbose(options->verbose);
	if (status != EXIT_DONE)
		return status;
	if (options->help)
		return show_help(options);
	if (options->version)
		return versions_run(options->json);
	stop_catch(NULL);
	switch (command) {
	case COMMAND_SERVE:
		return serve_run(options);
	case COMMAND_SEND:
		return send_run(options);
	case COMMAND_PING:
		return ping_run(options);
	case COMMAND_INFO:
		return info_run(options);
	case COMMAND_NONE:
		break;
	}
	return fail(EXIT_USAGE,
		    "a command is missing: serve, send, ping or info; weft --help tells more");
}

int main(int argc, char **argv)
{
	static char json_option[] = "--json";
	struct options options = defaults(COMMAND_NONE, argv[0]);
	int status;
	secure_descriptors();
	stop_reset();
	/* The only option that makes sense before a command, so that whoever runs weft can put it
	 * there once. */
	if (argc > 2 && strcmp(argv[1], "--json") == 0 && argv[2][0] != '-') {
		argv[1] = argv[2];
		argv[2] = json_option;
	}
	const char *name = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
	enum command command = name ? command_of(name) : COMMAND_NONE;
	document_open(command ? command_name(command) : "");
	if (command) {
		/* The name of the command stands where getopt_long expects the name of the program.
		 */
		options = defaults(command, argv[0]);
		status = run(&options, command, name ? argc - 1 : argc, name ? argv + 1 : argv);
	} else if (strcmp(name, "help") == 0) {
		options.json = asks_for_json(argc, argv);
		options.command =
			argc > 2 && command_of(argv[2]) ? command_of(argv[2]) : COMMAND_NONE;
		status = show_help(&options);
	} else {
		options.json = asks_for_json(argc, argv);
		status = fail(EXIT_USAGE,
			      "there is no command '%s', but serve, send, ping and info; "
			      "weft --help tells more",
			      name);
	}
	document_close(options.json, status, stop_wanted());
	/* What was wrong before stays the status. */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		int lost = fail_output();
		status = status == EXIT_DONE ? lost : status;
	}
	return status;
}
