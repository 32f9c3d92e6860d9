/* SPDX-License-Identifier: MIT */
/*
 * The sysfs tree, see tree.h:
 *
 *	lock
 *	class/infiniband_verbs/abi_version
 *	class/infiniband/NAME/device -> PCI
 *	devices/5efa:00:00.0/driver -> DRIVER
 *	drivers/softefa
 *
 * The lock file tells a tree in use from one that a killed process has left: the kernel lets go of
 *a lock with its process, in whichever namespace that was.
 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "softefa-"

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static void remove_all(const char *root)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/*
 * Opens a file of a tree and takes its lock. Returns the descriptor, or -1 if there is none or
 * someone has it.
 */
static int take_lock(const char *root, const char *name, int flags)
{
	char path[320];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	int fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The lock is held before it has its name: nobody may take a tree in the making for a left one. */
static int make_lock(const char *root)
{
	char from[320], to[320];
	int fd = take_lock(root, "lock.new", O_CREAT | O_EXCL);
	snprintf(from, sizeof(from), "%s/lock.new", root);
	snprintf(to, sizeof(to), "%s/lock", root);
	if (fd >= 0 && rename(from, to) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void remove_stale(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		char root[256];
		struct stat st;
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		if (snprintf(root, sizeof(root), "%s/%s", folder, entry->d_name) >=
		    (int)sizeof(root))
			continue;
		if (lstat(root, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		int fd = take_lock(root, "lock", 0);
		if (fd < 0)
			continue;
		remove_all(root);
		close(fd);
	}
	closedir(dir);
}

static int make_dirs(const struct sefa_tree *tree)
{
	const char *dirs[] = {"class",		"class/infiniband_verbs", "class/infiniband",
			      "devices",	"devices/5efa:00:00.0",	  "drivers",
			      "drivers/softefa"};
	char path[512];
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", tree->root, dirs[i]);
		if (mkdir(path, 0700) < 0)
			return -errno;
	}
	return mkdir(tree->device, 0700) < 0 ? -errno : 0;
}

static int make_files(const struct sefa_tree *tree)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/device", tree->device);
	if (symlink("../../../devices/5efa:00:00.0", path) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/devices/5efa:00:00.0/driver", tree->root);
	if (symlink("../../drivers/softefa", path) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/class/infiniband_verbs/abi_version", tree->root);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int ret = write(fd, "6\n", 2) == 2 ? 0 : -EIO;
	close(fd);
	return ret;
}

int sefa_tree_make(struct sefa_tree *tree, const char *folder, const char *name)
{
	int ret;
	tree->lock = -1;
	if (snprintf(tree->root, sizeof(tree->root), "%s/" PREFIX "XXXXXX", folder) >=
	    (int)sizeof(tree->root))
		return -ENAMETOOLONG;
	if (snprintf(tree->device, sizeof(tree->device), "%s/class/infiniband/%s", tree->root,
		     name) >= (int)sizeof(tree->device))
		return -ENAMETOOLONG;
	remove_stale(folder);
	if (!mkdtemp(tree->root))
		return -errno;
	/* With its last part, which is now known. */
	snprintf(tree->device, sizeof(tree->device), "%s/class/infiniband/%.32s", tree->root, name);
	tree->lock = make_lock(tree->root);
	ret = tree->lock < 0 ? -EIO : make_dirs(tree);
	if (ret == 0)
		ret = make_files(tree);
	if (ret < 0)
		sefa_tree_remove(tree);
	return ret;
}

void sefa_tree_leave(struct sefa_tree *tree)
{
	/*
	 * A lock belongs to the open file, which a child shares; closing the child's descriptor
	 * leaves it with the parent.
	 */
	if (tree->lock >= 0)
		close(tree->lock);
	tree->lock = -1;
}

void sefa_tree_remove(struct sefa_tree *tree)
{
	remove_all(tree->root);
	sefa_tree_leave(tree);
}
