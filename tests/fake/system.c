/* SPDX-License-Identifier: MIT */
/*
 * The kernel and the allocator as the library sees them beside the fake fabric: every call can be
 * made to fail, memory and descriptors are accounted for, clocks and sleeps are virtual, random
 * numbers are the same in each run, and files are those under a directory of the test's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <uthash.h>

#include "internal.h"
#include "system.h"

#define COARSE_TICK_NS (4 * FAKE_NS_PER_MS)

static bool fails(const char *call, enum fake__kind kind)
{
	int code = fake__gate(call, kind, NULL);
	if (code)
		errno = code;
	return code != 0;
}

/* ---- memory */

struct block {
	UT_hash_handle hh;
	void *memory;
	size_t size;
	bool mapped; /* by mmap */
};
static struct block *blocks;

/* What the library has to set itself. */
#define JUNK 0xa5

static void enter(void *memory, size_t size, bool mapped)
{
	struct block *block = fake__zalloc(sizeof(*block));
	block->memory = memory;
	block->size = size;
	block->mapped = mapped;
	HASH_ADD_PTR(blocks, memory, block);
}

static void *keep(void *memory, size_t size)
{
	if (memory)
		enter(memory, size, false);
	return memory;
}

/* Takes memory out of the books, after a check that the provider does not have it. Returns its
 * size. */
static size_t drop(const void *memory)
{
	struct block *block;
	HASH_FIND_PTR(blocks, &memory, block);
	if (!block) {
		fake__violation("memory is freed that was not allocated, or twice");
		return 0;
	}
	fake__check_free(block->memory, block->size);
	size_t size = block->size;
	HASH_DEL(blocks, block);
	free(block);
	return size;
}

size_t fake__allocations(void)
{
	return HASH_COUNT(blocks);
}

void *fake__shared_zalloc(size_t size)
{
	return keep(fake__zalloc(size), size);
}

void fake__shared_free(void *memory)
{
	if (memory) {
		drop(memory);
		free(memory);
	}
}

static void *with_junk(void *memory, size_t from, size_t size)
{
	if (memory && size > from)
		memset((char *)memory + from, JUNK, size - from);
	return keep(memory, size);
}

void *fake_sys_malloc(size_t size)
{
	return fails("malloc", FAKE__ALLOC) ? NULL : with_junk(malloc(size), 0, size);
}

void *fake_sys_calloc(size_t n, size_t size)
{
	return fails("calloc", FAKE__ALLOC) ? NULL : keep(calloc(n, size), n * size);
}

void *fake_sys_realloc(void *memory, size_t size)
{
	if (fails("realloc", FAKE__ALLOC))
		return NULL;
	size_t had = memory ? drop(memory) : 0;
	return with_junk(realloc(memory, size), had, size);
}

void *fake_sys_aligned_alloc(size_t alignment, size_t size)
{
	if (fails("aligned_alloc", FAKE__ALLOC))
		return NULL;
	return with_junk(aligned_alloc(alignment, size), 0, size);
}

void *fake_sys_mmap(void *at, size_t size, int protection, int flags, int fd, off_t off)
{
	if (fails("mmap", FAKE__ALLOC))
		return MAP_FAILED;
	void *memory = mmap(at, size, protection, flags, fd, off);
	if (memory != MAP_FAILED)
		enter(memory, size, true);
	return memory;
}

int fake_sys_munmap(void *memory, size_t size)
{
	if (drop(memory) != size)
		fake__violation("another part of memory is unmapped than was mapped");
	return munmap(memory, size);
}

int fake_sys_mprotect(void *memory, size_t size, int protection)
{
	return fails("mprotect", FAKE__ALLOC) ? -1 : mprotect(memory, size, protection);
}

int fake_sys_madvise(void *memory, size_t size, int advice)
{
	return fails("madvise", FAKE__ALLOC) ? -1 : madvise(memory, size, advice);
}

char *fake_sys_strdup(const char *text)
{
	return fails("strdup", FAKE__ALLOC) ? NULL : keep(strdup(text), strlen(text) + 1);
}

void fake_sys_free(void *memory)
{
	fake__shared_free(memory);
}

/* ---- descriptors */

#define MAX_FILES 1024
static enum { NOT_OURS, PLAIN, TIMER } files[MAX_FILES];
static size_t open_files;
static struct fake__event *timers[MAX_FILES]; /* of a timer that is set: what makes it readable */

static int opened(int fd)
{
	if (fd >= 0 && fd < MAX_FILES) {
		files[fd] = PLAIN;
		open_files++;
	}
	return fd;
}

static bool known(int fd, const char *call)
{
	if (fd >= 0 && fd < MAX_FILES && files[fd])
		return true;
	fake__violation("%s of descriptor %d, which is not open", call, fd);
	return false;
}

static void stop_timer(int fd)
{
	uint64_t ticks;
	if (timers[fd])
		fake__unschedule(timers[fd]);
	timers[fd] = NULL;
	/* It may have expired, or not. */
	ssize_t ignored = read(fd, &ticks, sizeof(ticks));
	(void)ignored;
}

/* The kernel closes a descriptor whatever it answers. */
int fake_sys_close(int fd)
{
	if (!known(fd, "close"))
		return -1;
	if (files[fd] == TIMER)
		stop_timer(fd);
	files[fd] = NOT_OURS;
	open_files--;
	close(fd);
	return fails("close", FAKE__IO) ? -1 : 0;
}

int fake_sys_eventfd(unsigned value, int flags)
{
	return fails("eventfd", FAKE__FD) ? -1 : opened(eventfd(value, flags));
}

int fake_sys_epoll_create1(int flags)
{
	return fails("epoll_create1", FAKE__FD) ? -1 : opened(epoll_create1(flags));
}

int fake_sys_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	return fails("epoll_ctl", FAKE__FD) ? -1 : epoll_ctl(epoll_fd, op, fd, event);
}

int fake_sys_timerfd_create(clockid_t clock, int flags)
{
	if (fails("timerfd_create", FAKE__FD))
		return -1;
	(void)clock;
	int fd =
		opened(eventfd(0, flags & TFD_CLOEXEC ? EFD_CLOEXEC | EFD_NONBLOCK : EFD_NONBLOCK));
	if (fd >= 0 && fd < MAX_FILES)
		files[fd] = TIMER;
	return fd;
}

static void expire(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint64_t one = 1;
	timers[fd] = NULL;
	ssize_t ignored = write(fd, &one, sizeof(one));
	(void)ignored;
}

int fake_sys_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			     struct itimerspec *old)
{
	if (!known(fd, "timerfd_settime") || fails("timerfd_settime", FAKE__IO))
		return -1;
	(void)flags;
	(void)old;
	int64_t ns =
		(int64_t)value->it_value.tv_sec * 1000 * FAKE_NS_PER_MS + value->it_value.tv_nsec;
	stop_timer(fd);
	if (ns > 0)
		timers[fd] = fake__schedule(fake_now_ns() + ns, expire, (void *)(intptr_t)fd);
	return 0;
}

ssize_t fake_sys_read(int fd, void *data, size_t size)
{
	return !known(fd, "read") || fails("read", FAKE__IO) ? -1 : read(fd, data, size);
}

ssize_t fake_sys_write(int fd, const void *data, size_t size)
{
	return !known(fd, "write") || fails("write", FAKE__IO) ? -1 : write(fd, data, size);
}

int fake_sys_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask)
{
	int64_t until = INT64_MAX;
	(void)mask;
	if (fails("ppoll", FAKE__SLEEP))
		return -1;
	if (time)
		until = fake_now_ns() + (int64_t)time->tv_sec * 1000 * FAKE_NS_PER_MS +
			time->tv_nsec;
	for (nfds_t i = 0; i < n; i++) {
		if (!fake__may_sleep(fds[i].fd))
			fake__violation(
				"a sleep on a completion queue's descriptor without fi_trywait()");
	}
	for (;;) {
		int ready = poll(fds, n, 0);
		if (ready > 0)
			return ready;
		if (!fake__run_next(until))
			break;
	}
	if (!time)
		fake__violation("a sleep without an end, and nothing is going to happen");
	else if (until > fake_now_ns())
		fake__spend(until - fake_now_ns());
	return 0;
}

int fake_sys_socket(int family, int type, int protocol)
{
	return fails("socket", FAKE__SOCKET) ? -1 : opened(socket(family, type, protocol));
}

int fake_sys_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return !known(fd, "connect") || fails("connect", FAKE__SOCKET) ? -1
								       : connect(fd, addr, len);
}

int fake_sys_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return !known(fd, "getsockname") || fails("getsockname", FAKE__SOCKET)
		       ? -1
		       : getsockname(fd, addr, len);
}

/* ---- files: the library's root is a directory of ours */

static char root[200];
static uint64_t file_limit;
static size_t streams;

static void remove_tree(const char *path, bool itself)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		char name[PATH_MAX];
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			remove_tree(name, true);
	}
	closedir(dir);
	if (itself)
		rmdir(path);
}

void fake_remove_files(void)
{
	if (root[0])
		remove_tree(root, true);
	root[0] = 0;
}

static const char *under_root(const char *path, char room[PATH_MAX])
{
	if (!root[0]) {
		/* In memory, since every new world empties it. */
		const char *base = getenv("TMPDIR");
		snprintf(root, sizeof(root), "%s/fake-weft-XXXXXX", base ? base : "/dev/shm");
		if (!mkdtemp(root)) {
			fprintf(stderr, "fake fabric: cannot make the directory %s\n", root);
			abort();
		}
		atexit(fake_remove_files);
	}
	snprintf(room, PATH_MAX, "%s%s", root, path);
	return room;
}

static void make_dirs(const char *path)
{
	char room[PATH_MAX];
	under_root(path, room);
	for (char *slash = room + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(room, 0700);
		*slash = '/';
	}
}

void fake_file(const char *path, const char *text)
{
	char room[PATH_MAX];
	make_dirs(path);
	FILE *file = fopen(under_root(path, room), "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		fake__violation("cannot make %s", room);
}

bool fake_file_exists(const char *path)
{
	char room[PATH_MAX];
	return access(under_root(path, room), F_OK) == 0;
}

void fake_set_files(uint64_t limit, int open)
{
	char path[64];
	file_limit = limit;
	for (int i = 0; i < open; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		fake_file(path, "");
	}
}

size_t fake__shm_names(void)
{
	char room[PATH_MAX];
	size_t count = 0;
	struct dirent *entry;
	DIR *dir = opendir(under_root("/dev/shm", room));
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

void fake__segment(const char *name, bool there)
{
	char path[PATH_MAX], room[PATH_MAX];
	const char *prefix_end = strstr(name, "://");
	snprintf(path, sizeof(path), "/dev/shm/%s", prefix_end ? prefix_end + 3 : name);
	if (there)
		fake_file(path, "");
	else
		unlink(under_root(path, room));
}

size_t fake__open_files(void)
{
	return open_files + streams;
}

int fake_sys_open(const char *path, int flags, ...)
{
	char room[PATH_MAX];
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fails("open", FAKE__FILE) ? -1 : opened(open(under_root(path, room), flags, mode));
}

int fake_sys_openat(int dir, const char *path, int flags, ...)
{
	return fails("openat", FAKE__FILE) ? -1 : opened(openat(dir, path, flags));
}

int fake_sys_flock(int fd, int op)
{
	return !known(fd, "flock") || fails("flock", FAKE__LOCK) ? -1 : flock(fd, op);
}

int fake_sys_fstat(int fd, struct stat *st)
{
	return !known(fd, "fstat") || fails("fstat", FAKE__FILE) ? -1 : fstat(fd, st);
}

int fake_sys_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	char room[PATH_MAX];
	if (fails("fstatat", FAKE__FILE))
		return -1;
	return fstatat(dir, path[0] == '/' ? under_root(path, room) : path, st, flags);
}

int fake_sys_access(const char *path, int mode)
{
	char room[PATH_MAX];
	return fails("access", FAKE__FILE) ? -1 : access(under_root(path, room), mode);
}

int fake_sys_unlink(const char *path)
{
	char room[PATH_MAX];
	return fails("unlink", FAKE__FILE) ? -1 : unlink(under_root(path, room));
}

int fake_sys_unlinkat(int dir, const char *path, int flags)
{
	return fails("unlinkat", FAKE__FILE) ? -1 : unlinkat(dir, path, flags);
}

DIR *fake_sys_opendir(const char *path)
{
	char room[PATH_MAX];
	if (fails("opendir", FAKE__FILE))
		return NULL;
	DIR *dir = opendir(under_root(path, room));
	streams += dir != NULL;
	return dir;
}

struct dirent *fake_sys_readdir(DIR *dir)
{
	return fails("readdir", FAKE__IO) ? NULL : readdir(dir);
}

int fake_sys_dirfd(DIR *dir)
{
	return dirfd(dir);
}

int fake_sys_closedir(DIR *dir)
{
	streams--;
	closedir(dir);
	return fails("closedir", FAKE__IO) ? -1 : 0;
}

FILE *fake_sys_fopen(const char *path, const char *mode)
{
	char room[PATH_MAX];
	if (fails("fopen", FAKE__FILE))
		return NULL;
	FILE *file = fopen(under_root(path, room), mode);
	streams += file != NULL;
	return file;
}

int fake_sys_fscanf(FILE *file, const char *format, ...)
{
	va_list args;
	if (fails("fscanf", FAKE__IO))
		return EOF;
	va_start(args, format);
	int got = vfscanf(file, format, args);
	va_end(args);
	return got;
}

int fake_sys_fclose(FILE *file)
{
	streams--;
	fclose(file);
	return fails("fclose", FAKE__IO) ? EOF : 0;
}

/* ---- the rest */

int fake_sys_clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = clock == CLOCK_MONOTONIC_COARSE
			     ? fake_now_ns() / COARSE_TICK_NS * COARSE_TICK_NS
			     : fake__read_clock();
	time->tv_sec = ns / (1000 * FAKE_NS_PER_MS);
	time->tv_nsec = ns % (1000 * FAKE_NS_PER_MS);
	return 0;
}

int fake_sys_clock_getres(clockid_t clock, struct timespec *res)
{
	*res = (struct timespec){.tv_nsec = clock == CLOCK_MONOTONIC_COARSE ? COARSE_TICK_NS : 1};
	return 0;
}

static uint64_t random_state;

ssize_t fake_sys_getrandom(void *data, size_t size, unsigned flags)
{
	uint8_t *at = data;
	(void)flags;
	int code = fake__gate("getrandom", FAKE__RANDOM, NULL);
	if (code && code != FAKE_SHORT) {
		errno = code;
		return -1;
	}
	if (code == FAKE_SHORT && size > 1)
		size = 1;
	for (size_t i = 0; i < size; i++) {
		random_state = random_state * UINT64_C(6364136223846793005) +
			       UINT64_C(1442695040888963407);
		at[i] = (uint8_t)(random_state >> 56);
	}
	return (ssize_t)size;
}

int fake_sys_getrlimit(int resource, struct rlimit *limit)
{
	if (fails("getrlimit", FAKE__IO))
		return -1;
	(void)resource;
	limit->rlim_cur = limit->rlim_max = file_limit ? file_limit : RLIM_INFINITY;
	return 0;
}

void fake__system_reset(void)
{
	struct block *block, *tmp;
	char room[PATH_MAX];
	HASH_ITER(hh, blocks, block, tmp)
	{
		HASH_DEL(blocks, block);
		fake__unpoison(block->memory, block->size);
		if (block->mapped)
			munmap(block->memory, block->size);
		else
			free(block->memory);
		free(block);
	}
	for (int fd = 0; fd < MAX_FILES; fd++) {
		if (files[fd])
			close(fd);
		files[fd] = NOT_OURS;
		/* The events went with the clock. */
		timers[fd] = NULL;
	}
	open_files = 0;
	streams = 0;
	random_state = 1;
	file_limit = 0;
	remove_tree(under_root("", room), false);
	make_dirs("/dev/shm/");
	make_dirs("/proc/self/fd/");
}
