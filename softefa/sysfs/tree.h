/* SPDX-License-Identifier: MIT */
/*
 * The few files of /sys that EFA's provider looks at, in a folder of our own. Knows the file system only.
 */
#ifndef SEFA_TREE_H
#define SEFA_TREE_H

#include <stddef.h>

struct sefa_tree {
	char root[256];   /* what SYSFS_PATH has to be */
	char device[320]; /* what ibdev_path has to be */
	int lock;         /* of the folder, held while this process lives; -1: there is no tree */
};

/*
 * Makes a tree for a device of that name in `folder`, and removes those of processes that are gone. Returns 0 or a
 * negative errno.
 */
int sefa_tree_make(struct sefa_tree *tree, const char *folder, const char *name);

/* Removes the tree. For the process that made it. */
void sefa_tree_remove(struct sefa_tree *tree);

/* Lets go of the tree without removing it. For a child of that process. */
void sefa_tree_leave(struct sefa_tree *tree);

#endif
