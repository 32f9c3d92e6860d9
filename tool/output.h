/* SPDX-License-Identifier: MIT */
/*
 * What is said on stderr, one line at a time. Whatever a line is made of, no byte of it can do anything to a terminal:
 * the whole line is made harmless here, so nobody else has to think of it. Calls json and progress.
 */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* How often --verbose was given. */
void output_set_verbose(int level);
bool output_is_verbose(void);

/* Something that is always said; for --verbose; and, of the library, for --verbose given twice. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say_more(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say_most(const char *format, ...);
/* Said, and kept for the document: goes on, but not as was asked for or not as may be thought. */
__attribute__((format(printf, 1, 2))) void say_warning(const char *format, ...);
/* Said, and kept for the document: why the command fails. Returns status. */
__attribute__((format(printf, 2, 3))) int fail(int status, const char *format, ...);

/* Says why standard output cannot be written to, and gives up what was to be written. Returns EXIT_FAILED. */
int fail_output(void);

/* Room for the harmless form of so many bytes, its terminating NUL included. */
#define HARMLESS_MAX(len) (4 * (size_t)(len) + 1)
/*
 * Writes text for people to out: as it is, but for what a terminal would obey or what hides or turns the text around
 * it, which becomes \x1b and the like. Newlines and tabs stay where lines is true.
 *
 * Returns the length of what was written, without its NUL.
 */
size_t make_harmless(char *out, const uint8_t *bytes, size_t len, bool lines);

/* The start of a message, for --verbose, in a form that reads back. In storage that the next call uses again. */
const char *message_preview(const void *data, size_t len);

#endif
