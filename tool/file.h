/* SPDX-License-Identifier: MIT */
/*
 * A file with one line in it that others wait for, and the count of descriptors. Calls nothing of the tool.
 */
#ifndef TOOL_FILE_H
#define TOOL_FILE_H

#include <stdint.h>

/* Writes a line to a file so that others see all of it or nothing. Returns 0, or a negative errno. */
int file_write_line(const char *path, const char *line);
/* Removes the file if that line is still what it has. */
void file_remove_line(const char *path, const char *line);

/* How many descriptors this process has open; 0: not known. */
uint64_t file_descriptors(void);

#endif
