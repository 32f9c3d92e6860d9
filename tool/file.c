/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

static int write_temporary(int fd, const char *line)
{
	mode_t mask = umask(0);
	umask(mask);
	if (fchmod(fd, 0666 & ~mask) < 0 || dprintf(fd, "%s\n", line) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_write_line(const char *path, const char *line)
{
	struct stat status;
	size_t size = strlen(path) + sizeof(".XXXXXX");
	/* What is no file, such as a pipe, is not to be replaced by one. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return S_ISDIR(status.st_mode) ? -EISDIR : -EEXIST;
	char *temporary = malloc(size);
	if (!temporary)
		return -ENOMEM;
	snprintf(temporary, size, "%s.XXXXXX", path);
	int fd = mkstemp(temporary);
	int ret = fd < 0 ? -errno : write_temporary(fd, line);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && rename(temporary, path) < 0)
		ret = -errno;
	if (ret < 0 && fd >= 0)
		unlink(temporary);
	free(temporary);
	return ret;
}

void file_remove_line(const char *path, const char *line)
{
	char found[1024] = "";
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(found, sizeof(found), file))
		found[strcspn(found, "\n")] = 0;
	fclose(file);
	if (strcmp(found, line) == 0)
		unlink(path);
}

uint64_t file_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t count = 0;
	if (!dir)
		return 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count - 1; /* One of them was the directory itself. */
}
