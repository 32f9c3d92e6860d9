/* SPDX-License-Identifier: MIT */
/*
 * The device: whether it is there, what it is called, what it can do. It says in its name, its
 * firmware version, its driver and its PCI address that it is software.
 */
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entry.h"

/* The numbers of libefa's capabilities; older headers have only some of the names. */
#define CAP_RDMA_READ (1u << 0)
#define CAP_RNR_RETRY (1u << 1)
#define CAP_CQ_WITH_SGID (1u << 2)
#define CAP_RDMA_WRITE (1u << 3)

#define VENDOR_AMAZON 0x1d0f
/* libfabric uses one-sided access on the second, never on the first. */
#define PART_PLAIN 0xefa0
#define PART_RDMA 0xefa2

struct soft soft = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1, .epoll_fd = -1};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool asked, broken;

uint64_t soft_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void before_fork(void)
{
	soft_lock();
}

static void parent_after_fork(void)
{
	soft_unlock();
}

/*
 * The child has no thread, and must not keep the sockets open: peers would wait for a process that
 * is gone. Its queue pairs are of no use any more.
 */
static void child_after_fork(void)
{
	struct soft_qp *qp;
	LIST_FOREACH (qp, &soft.qps, link) {
		if (qp->net)
			qp->net->close(qp->net);
		qp->net = NULL;
	}
	if (soft.wake_fd >= 0)
		close(soft.wake_fd);
	if (soft.epoll_fd >= 0)
		close(soft.epoll_fd);
	soft.wake_fd = soft.epoll_fd = -1;
	soft.running = false;
	if (soft.has_tree)
		sefa_tree_leave(&soft.tree);
	soft.has_tree = false;
	soft_unlock();
}

static void start(void)
{
	char reason[128];
	int ret = sefa_config_read(&soft.config, environ, reason, sizeof(reason));
	const char *wanted = getenv("SOFTEFA");
	asked = ret == 0 ? soft.config.on : wanted && wanted[0] && strcmp(wanted, "0") != 0;
	if (!asked)
		return;
	if (ret < 0) {
		fprintf(stderr, "softefa: %s; there is no device\n", reason);
		broken = true;
		return;
	}
	if (pthread_atfork(before_fork, parent_after_fork, child_after_fork) != 0)
		broken = true;
}

bool soft_asked(void)
{
	pthread_once(&once, start);
	return asked;
}

__attribute__((destructor)) static void finish(void)
{
	if (soft.has_tree)
		sefa_tree_remove(&soft.tree);
	soft.has_tree = false;
}

/* libfabric looks for the device in /sys, and there it is not. */
static int make_tree(void)
{
	const char *folder = getenv("TMPDIR");
	if (soft.has_tree)
		return 0;
	int ret =
		sefa_tree_make(&soft.tree, folder && folder[0] == '/' ? folder : "/tmp", SOFT_NAME);
	if (ret == 0 && strlen(soft.tree.device) >= sizeof(soft.device.ibdev_path)) {
		sefa_tree_remove(&soft.tree);
		ret = -ENAMETOOLONG;
	}
	if (ret < 0)
		return ret;
	soft.has_tree = true;
	snprintf(soft.device.name, sizeof(soft.device.name), "%s", SOFT_NAME);
	snprintf(soft.device.dev_name, sizeof(soft.device.dev_name), "%s", SOFT_NAME);
	memcpy(soft.device.dev_path, soft.tree.device, strlen(soft.tree.device) + 1);
	memcpy(soft.device.ibdev_path, soft.tree.device, strlen(soft.tree.device) + 1);
	soft.device.node_type = IBV_NODE_UNSPECIFIED;
	soft.device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
	return setenv("SYSFS_PATH", soft.tree.root, 1) < 0 ? -errno : 0;
}

struct ibv_device **soft_ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));
	int found = 0;
	if (!list)
		return NULL;
	soft_lock();
	if (!broken) {
		int ret = make_tree();
		if (ret == 0)
			list[found++] = &soft.device;
		else
			fprintf(stderr, "softefa: no folder for the device's files: %s\n",
				strerror(-ret));
	}
	soft_unlock();
	if (num_devices)
		*num_devices = found;
	return list;
}

/* A list is freed by whoever made it; there is only one way to make one. */
void soft_ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *soft_ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int soft_ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}

__be64 soft_ibv_get_device_guid(struct ibv_device *device)
{
	union ibv_gid gid;
	(void)device;
	soft_gid_make(&gid, soft.config.ip);
	return gid.global.interface_id;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	struct ibv_port_attr all = {
		.state = sefa_faults_link_down(&soft.config.faults) ? IBV_PORT_DOWN
								    : IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = SEFA_MTU,
		.pkey_tbl_len = 1,
		/* Ten gigabits a second, which is what software comes to at best. */
		.active_width = 2,
		.active_speed = 1,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_UNSPECIFIED,
	};
	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
	return 0;
}

/* Callers of before 2011 pass a shorter struct, which ends where these members do. */
int soft_ibv_query_port(struct ibv_context *context, uint8_t port,
			struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, link_layer));
}

struct ibv_context *soft_ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *verbs = calloc(1, sizeof(*verbs));
	if (!verbs)
		return NULL;
	struct ibv_context *context = &verbs->context;
	verbs->sz = sizeof(*verbs);
	verbs->query_port = query_port;
	verbs->create_cq_ex = soft_create_cq_ex;
	verbs->create_qp_ex = soft_create_qp_ex;
	context->device = device;
	context->abi_compat = (void *)UINTPTR_MAX;
	context->cmd_fd = context->async_fd = -1;
	context->num_comp_vectors = 1;
	context->ops.poll_cq = soft_poll_cq;
	context->ops.req_notify_cq = soft_req_notify_cq;
	context->ops.post_send = soft_post_send;
	context->ops.post_recv = soft_post_recv;
	pthread_mutex_init(&context->mutex, NULL);
	return context;
}

int soft_ibv_close_device(struct ibv_context *context)
{
	pthread_mutex_destroy(&context->mutex);
	free((char *)context - offsetof(struct verbs_context, context));
	return 0;
}

int soft_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){
		.fw_ver = "softefa: software, not EFA",
		.node_guid = soft_ibv_get_device_guid(&soft.device),
		.sys_image_guid = soft_ibv_get_device_guid(&soft.device),
		.max_mr_size = UINT64_C(1) << 40,
		.page_size_cap = 0xfffff000,
		.vendor_id = VENDOR_AMAZON,
		.vendor_part_id = soft.config.rdma ? PART_RDMA : PART_PLAIN,
		.max_qp = SOFT_MAX_QP,
		.max_qp_wr = SOFT_MAX_WR,
		.max_sge = SOFT_MAX_SGE,
		.max_sge_rd = 1,
		.max_cq = 1024,
		.max_cqe = SOFT_MAX_CQE,
		.max_mr = 1 << 20,
		.max_pd = 1024,
		.max_ah = SOFT_NO_AH,
		.phys_port_cnt = 1,
	};
	return 0;
}

int soft_efadv_query_device(struct ibv_context *ibvctx, struct efadv_device_attr *attr,
			    uint32_t len)
{
	struct efadv_device_attr all = {
		.max_sq_wr = SOFT_MAX_WR,
		.max_rq_wr = SOFT_MAX_WR,
		.max_sq_sge = SOFT_MAX_SGE,
		.max_rq_sge = 1,
		.inline_buf_size = SOFT_INLINE,
		.device_caps = CAP_RNR_RETRY | CAP_CQ_WITH_SGID,
	};
	(void)ibvctx;
	if (soft.config.rdma) {
		all.device_caps |= CAP_RDMA_READ | CAP_RDMA_WRITE;
		all.max_rdma_size = SOFT_MAX_RDMA;
	}
	memset(attr, 0, len);
	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
	return 0;
}

int soft_ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	soft_gid_make(gid, soft.config.ip);
	return 0;
}

int soft__ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			   struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry all = {.port_num = 1, .gid_type = IBV_GID_TYPE_IB};
	(void)context;
	if (port != 1 || flags != 0)
		return EINVAL;
	if (index != 0)
		return ENODATA;
	soft_gid_make(&all.gid, soft.config.ip);
	memcpy(entry, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int soft_ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(0xffff);
	return 0;
}

int soft_ibv_fork_init(void)
{
	return 0;
}

/* Registered memory is used by this process itself, so copying it on a fork harms nobody. */
enum ibv_fork_status soft_ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

const char *soft_ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success"
					: "the work request failed; see the vendor's code";
}
