/* SPDX-License-Identifier: MIT */
/* Names for shm endpoints: claiming, releasing, removing left-overs. Calls log and random. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "random.h"
#include "shmname.h"

#define SHM_DIR "/dev/shm"
#define NAME_START "weft-"
#define LOCK_END ".lock"
#define HEX_DIGITS 16

static const char name_chars[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/*
 * Whether the locked file is still the one under its path: a sweep may have removed it between open
 * and lock.
 */
static bool still_there(int dir, const char *path, int fd)
{
	struct stat by_path, by_fd;
	return fstatat(dir, path, &by_path, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
	       by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

static int try_claim(struct weft__shmname *name, const char *prefix)
{
	uint64_t number;
	int ret = weft__random(&number, sizeof(number));
	if (ret < 0)
		return ret;
	char text[WEFT__SHM_NAME_MAX],
		lock[sizeof(SHM_DIR "/") + WEFT__SHM_NAME_MAX + sizeof(LOCK_END)];
	snprintf(text, sizeof(text), NAME_START "%s%s%0*llx", prefix ? prefix : "",
		 prefix ? "-" : "", HEX_DIGITS, (unsigned long long)number);
	snprintf(lock, sizeof(lock), SHM_DIR "/%s" LOCK_END, text);

	int fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !still_there(AT_FDCWD, lock, fd)) {
		close(fd);
		return -EEXIST;
	}
	memcpy(name->name, text, sizeof(text));
	name->lock_fd = fd;
	return 0;
}

int weft__shmname_claim(struct weft__shmname *name, const char *prefix, const struct weft__log *log)
{
	if (prefix && (strlen(prefix) > WEFT__SHM_PREFIX_MAX ||
		       prefix[strspn(prefix, name_chars)] || !prefix[0])) {
		weft__log(log, WEFT_LOG_ERROR,
			  "bind: a shm name takes 1 to %d letters, digits, dots, dashes and "
			  "underscores",
			  WEFT__SHM_PREFIX_MAX);
		return -EINVAL;
	}
	int ret;
	int tries = 8;
	do {
		ret = try_claim(name, prefix);
	} while (ret == -EEXIST && --tries > 0);
	if (ret < 0)
		weft__log(log, WEFT_LOG_ERROR, "cannot make a lock file in " SHM_DIR ": %s",
			  strerrordesc_np(-ret));
	return ret;
}

void weft__shmname_release(struct weft__shmname *name)
{
	if (!name->name[0])
		return;
	char lock[sizeof(SHM_DIR "/") + WEFT__SHM_NAME_MAX + sizeof(LOCK_END)];
	snprintf(lock, sizeof(lock), SHM_DIR "/%s" LOCK_END, name->name);
	unlink(lock);
	close(name->lock_fd);
	name->name[0] = 0;
}

bool weft__shmname_exists(const char *name)
{
	char path[sizeof(SHM_DIR "/") + WEFT_ADDR_MAX];
	/* The provider leaves out what stands before "://" when it opens the file. */
	const char *prefix_end = strstr(name, "://");
	snprintf(path, sizeof(path), SHM_DIR "/%s", prefix_end ? prefix_end + 3 : name);
	return access(path, F_OK) == 0;
}

/*
 * Length of the name that a lock file belongs to, or 0 if the file name is not that of a lock file
 * of weft.
 */
static size_t locked_name_len(const char *file)
{
	size_t len = strlen(file);
	size_t end = sizeof(LOCK_END) - 1;
	if (len < sizeof(NAME_START) - 1 + HEX_DIGITS + end || len - end >= WEFT__SHM_NAME_MAX ||
	    strncmp(file, NAME_START, sizeof(NAME_START) - 1) != 0 ||
	    strcmp(file + len - end, LOCK_END) != 0)
		return 0;
	if (strspn(file + len - end - HEX_DIGITS, "0123456789abcdef") != HEX_DIGITS)
		return 0;
	return len - end;
}

/*
 * The provider's files of a name are the name itself and the name with "_<number>" for large
 * messages.
 */
static void remove_segments(int dir, const char *name, size_t len)
{
	DIR *files = opendir(SHM_DIR);
	if (!files)
		return;
	struct dirent *entry;
	while ((entry = readdir(files))) {
		const char *file = entry->d_name;
		if (strncmp(file, name, len) == 0 && (file[len] == 0 || file[len] == '_'))
			unlinkat(dir, file, 0);
	}
	closedir(files);
}

static bool sweep_one(int dir, const char *lock, size_t name_len)
{
	int fd = openat(dir, lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	struct stat st;
	bool dead = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0 && still_there(dir, lock, fd);
	if (dead) {
		remove_segments(dir, lock, name_len);
		unlinkat(dir, lock, 0);
	}
	close(fd);
	return dead;
}

size_t weft__shmname_sweep(const struct weft__log *log)
{
	DIR *files = opendir(SHM_DIR);
	if (!files)
		return 0;
	size_t count = 0;
	struct dirent *entry;
	while ((entry = readdir(files))) {
		size_t len = locked_name_len(entry->d_name);
		if (len > 0 && sweep_one(dirfd(files), entry->d_name, len))
			count++;
	}
	closedir(files);
	if (count > 0)
		weft__log(log, WEFT_LOG_INFO,
			  "removed what %zu dead shm endpoints had left in " SHM_DIR, count);
	return count;
}
