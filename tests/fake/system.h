/* SPDX-License-Identifier: MIT */
/* What redirect.txt puts in the place of the library's calls to the allocator and the kernel. */
#ifndef WEFT_TESTS_FAKE_SYSTEM_H
#define WEFT_TESTS_FAKE_SYSTEM_H

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

void *fake_sys_malloc(size_t size);
void *fake_sys_calloc(size_t n, size_t size);
void *fake_sys_realloc(void *memory, size_t size);
void *fake_sys_aligned_alloc(size_t alignment, size_t size);
void *fake_sys_mmap(void *at, size_t size, int protection, int flags, int fd, off_t off);
int fake_sys_munmap(void *memory, size_t size);
int fake_sys_mprotect(void *memory, size_t size, int protection);
int fake_sys_madvise(void *memory, size_t size, int advice);
char *fake_sys_strdup(const char *text);
void fake_sys_free(void *memory);

int fake_sys_close(int fd);
int fake_sys_eventfd(unsigned value, int flags);
int fake_sys_epoll_create1(int flags);
int fake_sys_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int fake_sys_timerfd_create(clockid_t clock, int flags);
int fake_sys_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			     struct itimerspec *old);
ssize_t fake_sys_read(int fd, void *data, size_t size);
ssize_t fake_sys_write(int fd, const void *data, size_t size);
int fake_sys_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask);
int fake_sys_socket(int family, int type, int protocol);
int fake_sys_connect(int fd, const struct sockaddr *addr, socklen_t len);
int fake_sys_getsockname(int fd, struct sockaddr *addr, socklen_t *len);

int fake_sys_open(const char *path, int flags, ...);
int fake_sys_openat(int dir, const char *path, int flags, ...);
int fake_sys_flock(int fd, int op);
int fake_sys_fstat(int fd, struct stat *st);
int fake_sys_fstatat(int dir, const char *path, struct stat *st, int flags);
int fake_sys_access(const char *path, int mode);
int fake_sys_unlink(const char *path);
int fake_sys_unlinkat(int dir, const char *path, int flags);
DIR *fake_sys_opendir(const char *path);
struct dirent *fake_sys_readdir(DIR *dir);
int fake_sys_dirfd(DIR *dir);
int fake_sys_closedir(DIR *dir);
FILE *fake_sys_fopen(const char *path, const char *mode);
int fake_sys_fscanf(FILE *file, const char *format, ...);
int fake_sys_fclose(FILE *file);

int fake_sys_clock_gettime(clockid_t clock, struct timespec *time);
int fake_sys_clock_getres(clockid_t clock, struct timespec *res);
ssize_t fake_sys_getrandom(void *data, size_t size, unsigned flags);
int fake_sys_getrlimit(int resource, struct rlimit *limit);

#endif
