/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "loop.h"
#include "progress.h"
#include "units.h"

#define FIRST_MS 1000
#define EVERY_MS 100
#define WIDTH_LEAST 40
#define WIDTH_MOST 200
/* Of what stands beside the bar. */
#define NUMBERS_WIDTH 60

static struct {
	bool wanted, shown;
	uint64_t total;
	int64_t started_ms, next_ms;
} bar;

void progress_start(bool wanted, uint64_t total)
{
	bar.wanted = wanted && isatty(STDERR_FILENO);
	bar.total = total;
	bar.started_ms = now_ms();
	bar.next_ms = bar.started_ms + FIRST_MS;
}

static size_t terminal_width(void)
{
	struct winsize size = {0};
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return size.ws_col < WIDTH_LEAST  ? WIDTH_LEAST
	       : size.ws_col > WIDTH_MOST ? WIDTH_MOST
					  : size.ws_col;
}

static void draw(uint64_t done)
{
	char line[WIDTH_MOST + NUMBERS_WIDTH];
	char sizes[3][UNITS_TEXT_MAX];
	char left[UNITS_TEXT_MAX];
	double seconds = (double)(now_ms() - bar.started_ms) / 1000;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	size_t width = terminal_width() - 1;
	format_size(sizes[0], (double)done);
	format_size(sizes[1], (double)bar.total);
	format_size(sizes[2], rate);
	if (bar.total == 0) {
		snprintf(line, sizeof(line), "%s  %s/s", sizes[0], sizes[2]);
	} else {
		double share = done < bar.total ? (double)done / (double)bar.total : 1;
		double wait = rate > 0 ? (1 - share) * (double)bar.total / rate : 0;
		/* At the end, how long it took. Before, no less than a second, since it is not
		 * over. */
		format_duration(left, share < 1 ? ((int64_t)wait + 1) * 1000
						: (int64_t)(seconds + 0.5) * 1000);
		int used = snprintf(line, sizeof(line), "%3.0f %%  %s of %s  %s/s  %s %s  ",
				    100 * share, sizes[0], sizes[1], sizes[2],
				    share < 1 && rate <= 0 ? "?" : left,
				    share < 1 ? "left" : "in all");
		size_t room = width > (size_t)used + 4 ? width - (size_t)used - 2 : 0;
		size_t full = (size_t)(share * (double)room);
		if (room > 0) {
			line[used] = '[';
			memset(line + used + 1, '#', full);
			memset(line + used + 1 + full, '.', room - full);
			memcpy(line + used + 1 + room, "]", 2);
		}
	}
	fprintf(stderr, "\r%.*s\033[K", (int)width, line);
	fflush(stderr);
	bar.shown = true;
}

void progress_show(uint64_t done)
{
	int64_t now = now_ms();
	if (!bar.wanted || now < bar.next_ms)
		return;
	bar.next_ms = now + EVERY_MS;
	draw(done);
}

int64_t progress_due_ms(void)
{
	return bar.wanted ? bar.next_ms : INT64_MAX;
}

void progress_hide(void)
{
	if (bar.shown)
		fputs("\r\033[K", stderr);
	bar.shown = false;
}

void progress_end(uint64_t done)
{
	if (bar.shown) {
		draw(done);
		fputc('\n', stderr);
	}
	bar.shown = false;
	bar.wanted = false;
}
