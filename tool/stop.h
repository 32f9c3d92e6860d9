/* SPDX-License-Identifier: MIT */
/*
 * Signals: those that end the program, and the one that asks for statistics. The handlers only note it and wake the
 * node.
 */
#ifndef TOOL_STOP_H
#define TOOL_STOP_H

#include <stdbool.h>

#include <weft/weft.h>

/* Undoes what libraries have done to the signals of this process when they were loaded. To be called first. */
void stop_reset(void);

/*
 * Takes the signals. node, which may be NULL, is woken by them. To be called again whenever a node was opened,
 * since the shm provider installs handlers of its own; and with NULL before one is closed.
 */
void stop_catch(struct weft_node *node);

/* Whether a signal has asked the program to end. */
bool stop_wanted(void);
/* Whether statistics were asked for since the last call. */
bool statistics_wanted(void);

#endif
