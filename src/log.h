/* SPDX-License-Identifier: MIT */
/* The log hook of an object, and how the library's own lines reach it. Calls nothing of weft. */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

#include <weft/net.h>

struct weft__log {
	weft_log_fn *fn;
	void *user;
};

/* The function that decides on an error logs it, with cause and cure; those above pass the code on. */
__attribute__((format(printf, 3, 4))) void weft__log(const struct weft__log *log, enum weft_log_level level,
						     const char *format, ...);

#endif
