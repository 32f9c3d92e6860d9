/* SPDX-License-Identifier: MIT */
/* What the device takes from the environment, and the folder that it makes. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "sysfs/tree.h"

static void without_variables_it_is_off(void **state)
{
	char *const environment[] = {"PATH=/bin", "SOFTEFAX=1", "SOFTEFA", NULL};
	struct sefa_config config;
	char reason[100] = "";
	(void)state;
	assert_int_equal(sefa_config_read(&config, environment, reason, sizeof(reason)), 0);
	assert_false(config.on || config.strict);
	assert_int_equal(config.ip, INADDR_LOOPBACK);
	assert_int_equal(config.timeout_ns, 2000000000);
	assert_true(config.rdma);
	assert_false(sefa_faults_any(&config.faults));
	assert_int_equal(sefa_config_read(&config, NULL, reason, sizeof(reason)), 0);
	assert_string_equal(reason, "");
}

static void all_are_read(void **state)
{
	char *const environment[] = {"SOFTEFA=1",
				     "SOFTEFA_STRICT=1",
				     "SOFTEFA_BIND=10.1.2.3",
				     "SOFTEFA_QPN=1234",
				     "SOFTEFA_TIMEOUT_MS=500",
				     "SOFTEFA_RDMA=0",
				     "SOFTEFA_STATS=/tmp/stats",
				     "SOFTEFA_LOSS=1",
				     "SOFTEFA_DUP=2",
				     "SOFTEFA_REORDER=3",
				     "SOFTEFA_DELAY=4",
				     "SOFTEFA_RNR=5",
				     "SOFTEFA_DIE_AFTER=18446744073709551615",
				     "SOFTEFA_SEED=7",
				     "SOFTEFA_LINK_DOWN=/tmp/down",
				     "SOFTEFA_LAUNCHER=/usr/bin/softefa",
				     NULL};
	struct sefa_config config;
	char reason[100] = "";
	(void)state;
	assert_int_equal(sefa_config_read(&config, environment, reason, sizeof(reason)), 0);
	assert_true(config.on && config.strict);
	assert_int_equal(config.ip, 0x0a010203);
	assert_int_equal(config.qpn, 1234);
	assert_int_equal(config.timeout_ns, 500000000);
	assert_false(config.rdma);
	assert_string_equal(config.stats, "/tmp/stats");
	assert_int_equal(config.faults.loss, 1);
	assert_int_equal(config.faults.dup, 2);
	assert_int_equal(config.faults.reorder, 3);
	assert_int_equal(config.faults.delay_us, 4);
	assert_int_equal(config.faults.rnr, 5);
	assert_int_equal(config.faults.die_after, UINT64_MAX);
	assert_int_equal(config.faults.seed, 7);
	assert_string_equal(config.faults.link_down, "/tmp/down");
}

static void what_will_not_do_is_named(void **state)
{
	static char *const bad[] = {"SOFTEFA=yes",
				    "SOFTEFA=",
				    "SOFTEFA=2",
				    "SOFTEFA_LOSS=101",
				    "SOFTEFA_LOSS=-1",
				    "SOFTEFA_LOSS=5%",
				    "SOFTEFA_LOSS= 5",
				    "SOFTEFA_QPN=65536",
				    "SOFTEFA_SEED=18446744073709551616",
				    "SOFTEFA_BIND=localhost",
				    "SOFTEFA_BIND=0.0.0.0",
				    "SOFTEFA_BIND=255.255.255.255",
				    "SOFTEFA_BIND=",
				    "SOFTEFA_LINK_DOWN=",
				    "SOFTEFA_STATS=",
				    "SOFTEFA_LOOSE=1",
				    "SOFTEFA_LAUNCH=1",
				    "SOFTEFA_=1",
				    "SOFTEFA_LOS=1",
				    "SOFTEFA_LOSSS=1"};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *const environment[] = {"SOFTEFA_STRICT=1", bad[i], NULL};
		struct sefa_config config;
		char reason[100] = "", name[32];
		if (sefa_config_read(&config, environment, reason, sizeof(reason)) != -EINVAL)
			fail_msg("%s is taken", bad[i]);
		snprintf(name, sizeof(name), "%.*s:", (int)(strchr(bad[i], '=') - bad[i]), bad[i]);
		assert_ptr_equal(strstr(reason, name), reason);
	}
}

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/softest-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static int count_entries(void)
{
	DIR *dir = opendir(folder);
	int count = 0;
	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void tree_is_what_libfabric_looks_for(void **state)
{
	struct sefa_tree tree;
	char path[512], real[4096], text[8] = "";
	(void)state;
	assert_int_equal(sefa_tree_make(&tree, folder, "softefa0"), 0);
	snprintf(path, sizeof(path), "%s/device/driver", tree.device);
	assert_non_null(realpath(path, real));
	assert_string_equal(strrchr(real, '/'), "/softefa");
	snprintf(path, sizeof(path), "%s/device", tree.device);
	assert_non_null(realpath(path, real));
	unsigned domain, bus, device, function;
	assert_int_equal(
		sscanf(strrchr(real, '/'), "/%x:%x:%x.%x", &domain, &bus, &device, &function), 4);
	assert_int_equal(domain, 0x5efa);
	snprintf(path, sizeof(path), "%s/class/infiniband_verbs/abi_version", tree.root);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 2);
	close(fd);
	assert_string_equal(text, "6\n");
	struct stat st;
	assert_int_equal(stat(tree.root, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	sefa_tree_remove(&tree);
	assert_int_equal(count_entries(), 0);
}

static void only_those_of_the_dead_are_removed(void **state)
{
	struct sefa_tree mine, other;
	int ready[2], go[2], status;
	char byte;
	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(go[1]);
		if (sefa_tree_make(&other, folder, "softefa0") < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		/* Ends as a killed process does: without removing anything. */
		_exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(count_entries(), 1);
	assert_int_equal(sefa_tree_make(&mine, folder, "softefa0"), 0);
	assert_int_equal(count_entries(), 2);
	sefa_tree_remove(&mine);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_entries(), 1);
	assert_int_equal(sefa_tree_make(&mine, folder, "softefa0"), 0);
	assert_int_equal(count_entries(), 1);
	sefa_tree_remove(&mine);
	assert_int_equal(count_entries(), 0);
	close(ready[0]);
	close(go[0]);
}

static void a_child_leaves_the_tree_to_its_parent(void **state)
{
	struct sefa_tree mine, another;
	int status;
	(void)state;
	assert_int_equal(sefa_tree_make(&mine, folder, "softefa0"), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		sefa_tree_leave(&mine);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(sefa_tree_make(&another, folder, "softefa0"), 0);
	assert_int_equal(count_entries(), 2);
	sefa_tree_remove(&another);
	sefa_tree_remove(&mine);
}

static void what_looks_like_a_tree_and_is_none_stays(void **state)
{
	struct sefa_tree tree;
	char path[128], link[128];
	(void)state;
	snprintf(path, sizeof(path), "%s/softefa-other", folder);
	snprintf(link, sizeof(link), "%s/softefa-link", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(symlink("/tmp", link), 0);
	assert_int_equal(sefa_tree_make(&tree, folder, "softefa0"), 0);
	assert_int_equal(count_entries(), 3);
	sefa_tree_remove(&tree);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(unlink(link), 0);
}

static void a_folder_that_will_not_do_is_said(void **state)
{
	struct sefa_tree tree;
	char path[300];
	(void)state;
	snprintf(path, sizeof(path), "%s/nowhere", folder);
	assert_int_equal(sefa_tree_make(&tree, path, "softefa0"), -ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(sefa_tree_make(&tree, path, "softefa0"), -ENAMETOOLONG);
	assert_int_equal(sefa_tree_make(&tree, folder, path), -ENAMETOOLONG);
	assert_int_equal(count_entries(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_variables_it_is_off),
		cmocka_unit_test(all_are_read),
		cmocka_unit_test(what_will_not_do_is_named),
		TEST(tree_is_what_libfabric_looks_for),
		TEST(only_those_of_the_dead_are_removed),
		TEST(a_child_leaves_the_tree_to_its_parent),
		TEST(what_looks_like_a_tree_and_is_none_stays),
		TEST(a_folder_that_will_not_do_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
