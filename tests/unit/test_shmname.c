/* SPDX-License-Identifier: MIT */
/* Names in /dev/shm: what dead processes leave is removed, and nobody else's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shmname.h"

static const struct weft__log silent;

static void path_of(char *path, size_t size, const char *name, const char *end)
{
	snprintf(path, size, "/dev/shm/%s%s", name, end);
}

static bool exists(const char *name, const char *end)
{
	char path[200];
	path_of(path, sizeof(path), name, end);
	return access(path, F_OK) == 0;
}

static void make_file(const char *name, const char *end)
{
	char path[200];
	path_of(path, sizeof(path), name, end);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void remove_file(const char *name, const char *end)
{
	char path[200];
	path_of(path, sizeof(path), name, end);
	unlink(path);
}

static void claims_are_random_and_released(void **state)
{
	struct weft__shmname a = {0}, b = {0};
	(void)state;
	assert_int_equal(weft__shmname_claim(&a, "prefix", &silent), 0);
	assert_int_equal(weft__shmname_claim(&b, "prefix", &silent), 0);
	assert_string_not_equal(a.name, b.name);
	assert_int_equal(strncmp(a.name, "weft-prefix-", 12), 0);
	assert_int_equal(strlen(a.name), 12 + 16);
	assert_true(exists(a.name, ".lock"));
	char name[WEFT__SHM_NAME_MAX];
	memcpy(name, a.name, sizeof(name));
	weft__shmname_release(&a);
	assert_false(exists(name, ".lock"));
	weft__shmname_release(&a);
	weft__shmname_release(&b);
	assert_int_equal(weft__shmname_claim(&a, NULL, &silent), 0);
	assert_int_equal(strlen(a.name), 5 + 16);
	weft__shmname_release(&a);
}

static void prefixes_that_are_refused(void **state)
{
	static const char *const bad[] = {
		"",	"a/b",	"a b",
		"..\n", "\xff", "a-prefix-that-is-longer-than-forty-eight-characters"};
	struct weft__shmname name = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weft__shmname_claim(&name, bad[i], &silent), -EINVAL);
		assert_int_equal(name.name[0], 0);
	}
}

static void only_the_dead_are_removed(void **state)
{
	struct weft__shmname mine = {0};
	char dead[WEFT__SHM_NAME_MAX];
	int pipe_fds[2];
	(void)state;
	assert_int_equal(weft__shmname_claim(&mine, "mine", &silent), 0);
	make_file(mine.name, "");
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t child = fork();
	if (child == 0) {
		struct weft__shmname name = {0};
		bool ok = weft__shmname_claim(&name, "dead", &silent) == 0 &&
			  write(pipe_fds[1], name.name, sizeof(name.name)) == sizeof(name.name);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(read(pipe_fds[0], dead, sizeof(dead)), sizeof(dead));
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	make_file(dead, "");
	make_file(dead, "_17");
	/* Names that only look alike. */
	make_file(dead, "x");
	make_file("weft-0123456789abcdef-not-locked", "");

	assert_true(weft__shmname_sweep(&silent) >= 1);
	assert_false(exists(dead, ".lock") || exists(dead, "") || exists(dead, "_17"));
	assert_true(exists(dead, "x"));
	assert_true(exists("weft-0123456789abcdef-not-locked", ""));
	assert_true(exists(mine.name, ".lock") && exists(mine.name, ""));

	remove_file(dead, "x");
	remove_file("weft-0123456789abcdef-not-locked", "");
	remove_file(mine.name, "");
	weft__shmname_release(&mine);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void locks_of_other_shapes_are_left_alone(void **state)
{
	static const char *const names[] = {"weft-.lock", "weft-0123456789abcdeG.lock",
					    "other-0123456789abcdef.lock",
					    "weft-0123456789abcdef.lockx"};
	(void)state;
	for (size_t i = 0; i < 4; i++)
		make_file(names[i], "");
	char link_path[200];
	path_of(link_path, sizeof(link_path), "weft-fedcba9876543210", ".lock");
	assert_int_equal(symlink("/dev/shm/weft-.lock", link_path), 0);
	weft__shmname_sweep(&silent);
	for (size_t i = 0; i < 4; i++) {
		assert_true(exists(names[i], ""));
		remove_file(names[i], "");
	}
	assert_int_equal(unlink(link_path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_random_and_released),
		cmocka_unit_test(prefixes_that_are_refused),
		cmocka_unit_test(only_the_dead_are_removed),
		cmocka_unit_test(locks_of_other_shapes_are_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
