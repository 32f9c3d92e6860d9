/* SPDX-License-Identifier: MIT */
/*
 * replay.c: gives stored inputs to a fuzz target where there is no fuzzer, so that the ordinary
 * tests keep what fuzzing has found. The arguments are files and directories of files. A directory
 * without a file is an error, since a corpus that got lost would otherwise pass unseen. Calls the
 * fuzz target it is linked with, and libc.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fail(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	return -1;
}

static int replay_file(const char *path)
{
	struct stat st;
	size_t size, got = 0;
	uint8_t *data;
	int fd, ret = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		ret = fail(path, strerror(errno));
		goto close_fd;
	}
	/* Exactly as long as the input, so that a sanitizer sees one byte read too many. */
	size = (size_t)st.st_size;
	data = malloc(size);
	if (!data && size) {
		ret = fail(path, "out of memory");
		goto close_fd;
	}
	while (got < size) {
		ssize_t n = read(fd, data + got, size - got);

		if (n <= 0) {
			ret = fail(path, n < 0 ? strerror(errno) : "shorter than it was");
			goto free_data;
		}
		got += (size_t)n;
	}
	/* Said before the call: if the target crashes, this is the input that did it. */
	printf("%s, %zu bytes\n", path, size);
	LLVMFuzzerTestOneInput(data, size);
free_data:
	free(data);
close_fd:
	if (fd >= 0)
		close(fd);
	return ret;
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int replay_dir(const char *dir)
{
	struct dirent **entries;
	int i, n, ret = 0;

	n = scandir(dir, &entries, visible, alphasort);
	if (n < 0)
		return fail(dir, strerror(errno));
	for (i = 0; i < n; i++) {
		char *path;

		if (asprintf(&path, "%s/%s", dir, entries[i]->d_name) < 0) {
			ret = fail(dir, "out of memory");
		} else {
			if (replay_file(path))
				ret = -1;
			free(path);
		}
		free(entries[i]);
	}
	free(entries);
	return n ? ret : fail(dir, "no file to replay");
}

int main(int argc, char **argv)
{
	int i, ret = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
		return 2;
	}
	for (i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) < 0)
			ret |= fail(argv[i], strerror(errno));
		else if (S_ISDIR(st.st_mode))
			ret |= replay_dir(argv[i]);
		else
			ret |= replay_file(argv[i]);
	}
	return ret ? 1 : 0;
}
