/* SPDX-License-Identifier: MIT */
/* Random bytes from the kernel. Calls nothing of weft. */
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

#include "random.h"

int weft__random(void *data, size_t size)
{
	uint8_t *at = data;
	while (size > 0) {
		ssize_t got = getrandom(at, size, 0);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += got;
		size -= (size_t)got;
	}
	return 0;
}
