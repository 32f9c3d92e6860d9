/* SPDX-License-Identifier: MIT */
/* The log hook: formats a line and hands it to the caller's function. Calls nothing of weft. */
#include <stdarg.h>
#include <stdio.h>

#include "log.h"

void weft__log(const struct weft__log *log, enum weft_log_level level, const char *format, ...)
{
	if (!log->fn)
		return;
	char line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	log->fn(log->user, level, line);
}
