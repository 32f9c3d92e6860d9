/* SPDX-License-Identifier: MIT */
/*
 * That a crash is seen as a crash. Debian's libfabric brings in a library that catches fatal
 * signals and ends the process with status 1, which a test runner takes for an ordinary failure,
 * and a supervisor for an ordinary end. The tests run with IPATH_NO_BACKTRACE=1, which stops that;
 * this one fails when they do not.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <weft/net.h>

static const char *self;

static int status_of_child(const char *how)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		execl(self, self, how, (char *)NULL);
		_exit(127);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void crashes_are_seen(void **state)
{
	(void)state;
	int status = status_of_child("segv");
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	status = status_of_child("abort");
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	status = status_of_child("exit");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int crash(char how)
{
	/* So that libfabric is loaded and set up, as in every program that uses weft. */
	struct weft_candidate *list = NULL;
	if (weft_net_list(NULL, &list) < 0)
		return 8;
	weft_candidate_free(list);
	if (how == 's')
		raise(SIGSEGV);
	if (how == 'a')
		raise(SIGABRT);
	return 7;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crashes_are_seen),
	};
	self = argv[0];
	return argc > 1 ? crash(argv[1][0]) : cmocka_run_group_tests(tests, NULL, NULL);
}
