/* SPDX-License-Identifier: MIT */
/* The usage of each command: fits a screen, and ends with examples. */
#ifndef TOOL_HELP_H
#define TOOL_HELP_H

#include "options.h"

const char *help_text(enum command command);

#endif
