/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "escape.h"
#include "json.h"
#include "output.h"
#include "progress.h"

#define LINE_MOST 2000
#define PREVIEW_MOST 100

static int verbose_level;

void output_set_verbose(int level)
{
	verbose_level = level;
}

bool output_is_verbose(void)
{
	return verbose_level > 0;
}

size_t make_harmless(char *out, const uint8_t *bytes, size_t len, bool lines)
{
	size_t used = 0;
	size_t start = 0;
	for (size_t i = 0; i <= len; i++) {
		bool plain = i < len && (bytes[i] == '\\' ||
					 (lines && (bytes[i] == '\n' || bytes[i] == '\t')));
		if (i < len && !plain)
			continue;
		used += escape_bytes(out + used, bytes + start, i - start);
		if (plain)
			out[used++] = (char)bytes[i];
		start = i + 1;
	}
	out[used] = 0;
	return used;
}

const char *message_preview(const void *data, size_t len)
{
	static char shown[ESCAPE_MAX(PREVIEW_MOST) + 4];
	size_t used = escape_bytes(shown, data, len < PREVIEW_MOST ? len : PREVIEW_MOST);
	if (len > PREVIEW_MOST)
		memcpy(shown + used, "...", 4);
	return shown;
}

/* Shows a line, and returns its harmless form, in storage that the next call uses again. */
static const char *put_line(const char *what, const char *text)
{
	static char line[HARMLESS_MAX(LINE_MOST) + 40];
	size_t start = (size_t)snprintf(line, 40, "weft: %s", what);
	size_t len =
		start + make_harmless(line + start, (const uint8_t *)text, strlen(text), false);
	progress_hide();
	/* One write a line, so that lines of several processes do not mix on a shared stderr. */
	line[len] = '\n';
	fwrite(line, 1, len + 1, stderr);
	fflush(stderr);
	line[len] = 0;
	return line + start;
}

#define FORMAT_LINE(line, format)                                                                  \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		vsnprintf(line, sizeof(line), format, args);                                       \
		va_end(args);                                                                      \
	} while (0)

void say(const char *format, ...)
{
	char line[LINE_MOST];
	FORMAT_LINE(line, format);
	put_line("", line);
}

void say_more(const char *format, ...)
{
	char line[LINE_MOST];
	if (verbose_level < 1)
		return;
	FORMAT_LINE(line, format);
	put_line("", line);
}

void say_most(const char *format, ...)
{
	char line[LINE_MOST];
	if (verbose_level < 2)
		return;
	FORMAT_LINE(line, format);
	put_line("", line);
}

void say_warning(const char *format, ...)
{
	char line[LINE_MOST];
	FORMAT_LINE(line, format);
	document_warning(put_line("warning: ", line));
}

int fail(int status, const char *format, ...)
{
	char line[LINE_MOST];
	FORMAT_LINE(line, format);
	document_error(put_line("", line));
	return status;
}

int fail_output(void)
{
	int status = fail(EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	__fpurge(stdout);
	clearerr(stdout);
	return status;
}
