/* SPDX-License-Identifier: MIT */
/*
 * Names for shm endpoints. The shm provider turns a name into files in /dev/shm, which a killed process leaves behind,
 * and a name that is used again can crash the new owner. So a name always has a random part, and a lock file
 * beside it that the kernel unlocks when its owner dies tells left-overs from names in use, also across PID namespaces.
 */
#ifndef WEFT_SHMNAME_H
#define WEFT_SHMNAME_H

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

#define WEFT__SHM_PREFIX_MAX 48 /* of the caller's part of a name */
#define WEFT__SHM_NAME_MAX 96

struct weft__shmname {
	char name[WEFT__SHM_NAME_MAX]; /* empty: nothing is claimed */
	int lock_fd;
};

/*
 * Claims a new name "weft-[prefix-]<16 random hex digits>". prefix may be NULL.
 * Returns 0, or -EINVAL (prefix), or what open(2), flock(2) or getrandom(2) said.
 */
int weft__shmname_claim(struct weft__shmname *name, const char *prefix, const struct weft__log *log);

/* Gives the name up, when its endpoint is closed. */
void weft__shmname_release(struct weft__shmname *name);

/* Whether the endpoint of an address is there. name is the address's raw form. */
bool weft__shmname_exists(const char *name);

/* Removes what dead processes of this user have left in /dev/shm. Returns the number of names removed. */
size_t weft__shmname_sweep(const struct weft__log *log);

#endif
