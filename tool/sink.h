/* SPDX-License-Identifier: MIT */
/*
 * Where the replies of weft send go: standard output, a file, or the document of --json. A file appears, or is
 * replaced, when all of it is there, so nothing is lost where something fails. Calls output and json.
 */
#ifndef TOOL_SINK_H
#define TOOL_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* Bytes of replies that the document takes; more have to go to a file. */
#define SINK_DOCUMENT_MAX ((size_t)1 << 20)

struct sink {
	int fd; /* -1: the document */
	const char *name;
	bool waits;    /* writing to it can make one wait, as to a pipe */
	bool terminal; /* control bytes are not to get there */
	uint64_t written;
	char last; /* the last byte written */
	char *path, *temporary; /* of a file that is to appear */
	char *kept; /* what goes into the document */
};

/* Opens what the options name. Returns EXIT_DONE, or an exit status after saying what is wrong. */
int sink_open(struct sink *sink, const struct options *options);

/* Writes as much as can be without waiting. Returns how many bytes, or a negative code. */
long sink_write(struct sink *sink, const void *bytes, size_t len);

/* All is there. Returns EXIT_DONE, or an exit status after saying what has failed. */
int sink_finish(struct sink *sink);
/* Says why writing has failed. Returns an exit status. */
int sink_failed(const struct sink *sink, long code);
/* To be called in any case. What was not finished goes away. */
void sink_close(struct sink *sink);

#endif
