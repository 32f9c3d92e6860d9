/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "output.h"
#include "stop.h"

static const char hello[] = "Hello, world!";

/* Learns what the descriptor is. Returns 0, or an errno. */
static int examine(struct input *input)
{
	struct stat status;
	if (fstat(input->fd, &status) < 0)
		return errno;
	if (S_ISDIR(status.st_mode))
		return EISDIR;
	off_t at = S_ISREG(status.st_mode) ? lseek(input->fd, 0, SEEK_CUR) : -1;
	input->regular = at >= 0;
	/* Files of /proc say that they are empty. */
	input->size_known = at >= 0 && status.st_size > 0;
	input->size =
		input->size_known && status.st_size > at ? (uint64_t)(status.st_size - at) : 0;
	return 0;
}

int input_open(struct input *input, const struct options *options)
{
	const char *file = options->file;
	*input = (struct input){.fd = -1};
	if (file && options->message)
		return fail(EXIT_USAGE, "there are both a message and --file; give one of them");
	if (!file && !(options->message && strcmp(options->message, "-") == 0)) {
		input->name = "the message";
		input->text = options->message ? options->message : hello;
		input->size = input->len = strlen(input->text);
		input->size_known = true;
		return EXIT_DONE;
	}
	bool standard = !file || strcmp(file, "-") == 0;
	input->name = standard ? "standard input" : file;
	/* Opening a pipe waits for its other end. */
	input->fd = standard ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
	int error = input->fd < 0 ? errno : examine(input);
	if (error == EINTR && stop_wanted())
		return EXIT_INTERRUPTED;
	if (error != 0)
		return fail(EXIT_USAGE, "cannot read %s: %s", input->name, strerror(error));
	if (options->count > 1 && !input->regular)
		return fail(EXIT_USAGE,
			    "--count needs a message or a file that can be read again, not %s",
			    input->name);
	return EXIT_DONE;
}

long input_read(struct input *input, void *to, size_t size)
{
	if (input->text) {
		size_t len = input->len - input->taken < size ? input->len - input->taken : size;
		memcpy(to, input->text + input->taken, len);
		input->taken += len;
		return (long)len;
	}
	struct pollfd entry = {.fd = input->fd, .events = POLLIN};
	if (!input->regular && poll(&entry, 1, 0) <= 0)
		return -EAGAIN;
	ssize_t got = read(input->fd, to, size);
	if (got < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return got;
}

bool input_rewind(struct input *input)
{
	input->taken = 0;
	return input->text || lseek(input->fd, 0, SEEK_SET) == 0;
}

void input_close(struct input *input)
{
	if (input->fd > STDIN_FILENO)
		close(input->fd);
	input->fd = -1;
}
