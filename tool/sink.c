/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "output.h"
#include "sink.h"

/* What a pipe takes without making one wait, once poll(2) says that it takes something. */
#define PIECE PIPE_BUF
#define TERMINAL_PIECE 512

/* Makes the file that will take the place of sink->path. Returns 0, or an errno. */
static int make_temporary(struct sink *sink, const struct stat *old)
{
	size_t size = strlen(sink->path) + sizeof(".XXXXXX");
	sink->temporary = malloc(size);
	if (!sink->temporary)
		return ENOMEM;
	snprintf(sink->temporary, size, "%s.XXXXXX", sink->path);
	sink->fd = mkostemp(sink->temporary, O_CLOEXEC);
	if (sink->fd < 0) {
		int error = errno;
		free(sink->temporary);
		sink->temporary = NULL;
		return error;
	}
	/* With the rights that it would have if it were just written to. */
	mode_t mask = umask(0);
	umask(mask);
	fchmod(sink->fd, old ? old->st_mode & 07777 : 0666 & ~mask);
	return 0;
}

static int open_file(struct sink *sink, const char *name)
{
	struct stat status;
	bool there = stat(name, &status) == 0;
	int error = there || errno == ENOENT ? 0 : errno;
	sink->name = name;
	if (error == 0 && there && S_ISDIR(status.st_mode))
		error = EISDIR;
	if (error == 0 && there && !S_ISREG(status.st_mode)) {
		/* A device or a pipe cannot be replaced. */
		sink->fd = open(name, O_WRONLY | O_CLOEXEC);
		sink->waits = true;
		sink->terminal = isatty(sink->fd);
		error = sink->fd < 0 ? errno : 0;
	} else if (error == 0) {
		/* What a link leads to is replaced, not the link. */
		sink->path = there ? realpath(name, NULL) : strdup(name);
		error = sink->path ? make_temporary(sink, there ? &status : NULL) : errno;
	}
	if (error != 0)
		return fail(EXIT_USAGE, "--output: cannot write %s: %s", name, strerror(error));
	return EXIT_DONE;
}

int sink_open(struct sink *sink, const struct options *options)
{
	struct stat status;
	*sink = (struct sink){.fd = -1, .name = "standard output"};
	if (options->output && strcmp(options->output, "-") != 0)
		return open_file(sink, options->output);
	if (options->json) {
		sink->name = "the document";
		sink->kept = malloc(SINK_DOCUMENT_MAX);
		return sink->kept ? EXIT_DONE : fail(EXIT_FAILED, "no memory for the document");
	}
	sink->fd = STDOUT_FILENO;
	sink->waits = fstat(sink->fd, &status) == 0 && !S_ISREG(status.st_mode);
	sink->terminal = isatty(sink->fd);
	return EXIT_DONE;
}

/* Writes all of it, though it be in several pieces. Returns 0, or a negative code. */
static long write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t put = write(fd, bytes, len);
		if (put < 0 && errno != EINTR)
			return -errno;
		if (put > 0) {
			bytes += put;
			len -= (size_t)put;
		}
	}
	return 0;
}

static long write_piece(struct sink *sink, const char *bytes, size_t len)
{
	char shown[HARMLESS_MAX(TERMINAL_PIECE)];
	struct pollfd entry = {.fd = sink->fd, .events = POLLOUT};
	if (sink->waits && poll(&entry, 1, 0) <= 0)
		return 0;
	if (sink->terminal) {
		size_t here = len < TERMINAL_PIECE ? len : TERMINAL_PIECE;
		/* A character of several bytes is not to be taken for single ones. */
		while (here < len && here > TERMINAL_PIECE - 4 && (bytes[here] & 0xc0) == 0x80)
			here--;
		size_t size = make_harmless(shown, (const uint8_t *)bytes, here, true);
		long ret = write_all(sink->fd, shown, size);
		return ret < 0 ? ret : (long)here;
	}
	ssize_t put = write(sink->fd, bytes, sink->waits && len > PIECE ? PIECE : len);
	if (put < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	return put;
}

long sink_write(struct sink *sink, const void *bytes, size_t len)
{
	size_t done = 0;
	if (sink->kept) {
		if (len > SINK_DOCUMENT_MAX - sink->written)
			return -EFBIG;
		memcpy(sink->kept + sink->written, bytes, len);
		sink->written += len;
		return (long)len;
	}
	while (done < len) {
		long put = write_piece(sink, (const char *)bytes + done, len - done);
		if (put < 0)
			return put;
		if (put == 0)
			break;
		done += (size_t)put;
	}
	sink->written += done;
	if (done > 0)
		sink->last = ((const char *)bytes)[done - 1];
	return (long)done;
}

int sink_failed(const struct sink *sink, long code)
{
	if (code == -EFBIG && sink->kept)
		return fail(EXIT_USAGE,
			    "the replies are too long for the document: name a file by --output");
	return fail(EXIT_FAILED, "the reply came, but %s cannot be written: %s", sink->name,
		    strerror((int)-code));
}

int sink_finish(struct sink *sink)
{
	if (sink->kept) {
		json_set_bytes(document_root(), "reply", sink->kept, sink->written);
		return EXIT_DONE;
	}
	/* Whoever sits there wants to see where the reply ends; nobody else does. */
	if (sink->terminal && sink->written > 0 && sink->last != '\n')
		write_all(sink->fd, "\n", 1);
	if (!sink->temporary)
		return EXIT_DONE;
	/* Some file systems tell only now that the disk is full. */
	int ret = close(sink->fd);
	sink->fd = -1;
	if (ret < 0 || rename(sink->temporary, sink->path) < 0)
		return sink_failed(sink, -errno);
	free(sink->temporary);
	sink->temporary = NULL;
	return EXIT_DONE;
}

void sink_close(struct sink *sink)
{
	if (sink->fd > STDERR_FILENO)
		close(sink->fd);
	if (sink->temporary)
		unlink(sink->temporary);
	free(sink->temporary);
	free(sink->path);
	free(sink->kept);
	*sink = (struct sink){.fd = -1};
}
