/* SPDX-License-Identifier: MIT */
/* Random bytes that nobody can guess, for memory keys and names. */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <stddef.h>

/* Fills data by getrandom(2). Returns 0 or a negative errno. */
int weft__random(void *data, size_t size);

#endif
