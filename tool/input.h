/* SPDX-License-Identifier: MIT */
/*
 * What weft send sends: an argument, or the bytes of a file or of standard input. Calls output.
 */
#ifndef TOOL_INPUT_H
#define TOOL_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

struct input {
	const char *name; /* for people */
	const char *text; /* an argument; NULL: a descriptor */
	size_t len, taken;
	int fd;
	bool regular;  /* a file, which never makes one wait */
	uint64_t size; /* of all of it, where that is known */
	bool size_known;
};

/* Opens what the options name. Returns EXIT_DONE, or an exit status after saying what is wrong. */
int input_open(struct input *input, const struct options *options);

/*
 * Reads at most size bytes without waiting. Returns how many, 0 at the end, -EAGAIN if there are none yet, or what has
 * failed.
 */
long input_read(struct input *input, void *to, size_t size);

/* Starts over. Returns false where that cannot be. */
bool input_rewind(struct input *input);

void input_close(struct input *input);

#endif
