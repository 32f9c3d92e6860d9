/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "options.h"
#include "stop.h"

/* After so many the user has lost patience with a library that does not return. */
#define SIGNALS_MOST 3

static struct weft_node *volatile wake_node;
static volatile sig_atomic_t stop_asked, statistics_asked;

bool stop_wanted(void)
{
	return stop_asked;
}

bool statistics_wanted(void)
{
	bool asked = statistics_asked;
	statistics_asked = 0;
	return asked;
}

static void on_signal(int number)
{
	if (number == SIGUSR1)
		statistics_asked = 1;
	else if (stop_asked < SIGNALS_MOST)
		stop_asked = stop_asked + 1;
	if (stop_asked == SIGNALS_MOST)
		_exit(EXIT_INTERRUPTED);
	if (wake_node)
		weft_node_wake(wake_node);
}

/*
 * A library under Debian's libfabric takes these signals when it is loaded, and makes a crash look
 * like a failure, unless this variable is set.
 */
void stop_reset(void)
{
	static const int taken[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM};
	bool left_alone = getenv("IPATH_NO_BACKTRACE") != NULL;
	for (size_t i = 0; !left_alone && i < sizeof(taken) / sizeof(taken[0]); i++)
		signal(taken[i], SIG_DFL);
	/* A reader that has gone shows as an error of the write; then we still close cleanly. */
	signal(SIGPIPE, SIG_IGN);
}

void stop_catch(struct weft_node *node)
{
	/* Without SA_RESTART: what waits for input or output is to notice. */
	struct sigaction action = {.sa_handler = on_signal};
	struct sigaction hangup = {0};
	wake_node = node;
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	/* nohup(1) and others ask by this that we outlive the terminal. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}
