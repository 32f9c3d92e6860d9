/* SPDX-License-Identifier: MIT */
/*
 * The commands. Each runs to its end, says what happens on stderr, fills the document, and returns the exit status.
 */
#ifndef TOOL_COMMANDS_H
#define TOOL_COMMANDS_H

#include "options.h"

int serve_run(const struct options *options);
int send_run(const struct options *options);
int ping_run(const struct options *options);
int info_run(const struct options *options);

#endif
