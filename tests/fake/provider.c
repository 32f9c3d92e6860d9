/* SPDX-License-Identifier: MIT */
/*
 * What the fake fabric offers: its providers, modelled on what was measured of the real ones, and
 * libfabric's real symbols, except fi_fabric().
 */
#include <netinet/in.h>
#include <stdio.h>

#include "internal.h"

#define MAX_PROVIDERS 8
#define MSG_CAPS (FI_MSG | FI_SEND | FI_RECV)
#define RMA_CAPS (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static const struct sockaddr_in loopback = {
	.sin_family = AF_INET,
	.sin_addr = {.s_addr = 0x0100007f}, /* replaced where the bytes are the other way round */
};
static const struct sockaddr_in6 loopback6 = {
	.sin6_family = AF_INET6,
	.sin6_addr = IN6ADDR_LOOPBACK_INIT,
};
static const uint8_t gid[32] = {0xfe, 0x80, [7] = 0, [8] = 0x08, 0x53, 0xf7,
				0xff, 0xfe, 0xa4,    0x42,	 0xe1};

const struct fake_provider fake_tcp = {
	.name = "tcp;ofi_rxm",
	.fabric = "127.0.0.0/8",
	.domain = "lo",
	.addr_format = FI_SOCKADDR_IN,
	.src_addr = &loopback,
	.src_addrlen = sizeof(loopback),
	.caps = MSG_CAPS | RMA_CAPS | FI_TAGGED | FI_SOURCE,
	.mr_key_size = 8,
	.max_msg = SIZE_MAX,
	.inject_size = 64,
	.tx_size = 2048,
	.rx_size = 2048,
	.cq_data_size = 8,
	.wait = FAKE_WAIT_FD,
	.absent = FAKE_ABSENT_AGAIN,
	.trunc = FAKE_TRUNC_ERROR,
	.connects = true,
	.shuffles = true,
	.latency_ns = 10000,
};
const struct fake_provider fake_tcp6 = {
	.name = "tcp;ofi_rxm",
	.fabric = "::1/128",
	.domain = "lo",
	.addr_format = FI_SOCKADDR_IN6,
	.src_addr = &loopback6,
	.src_addrlen = sizeof(loopback6),
	.caps = MSG_CAPS | RMA_CAPS | FI_TAGGED | FI_SOURCE,
	.mr_key_size = 8,
	.max_msg = SIZE_MAX,
	.inject_size = 64,
	.tx_size = 2048,
	.rx_size = 2048,
	.cq_data_size = 8,
	.wait = FAKE_WAIT_FD,
	.absent = FAKE_ABSENT_AGAIN,
	.trunc = FAKE_TRUNC_ERROR,
	.latency_ns = 10000,
};
const struct fake_provider fake_shm = {
	.name = "shm",
	.fabric = "shm",
	.domain = "shm",
	.addr_format = FI_ADDR_STR,
	.src_addr = "fi_shm://4711",
	.src_addrlen = sizeof("fi_shm://4711"),
	.caps = MSG_CAPS | RMA_CAPS | FI_TAGGED | FI_SOURCE,
	.mr_mode = FI_MR_VIRT_ADDR,
	.mr_key_size = 8,
	.max_msg = SIZE_MAX,
	.inject_size = 4096,
	.tx_size = 1024,
	.rx_size = 1024,
	.cq_data_size = 8,
	.wait = FAKE_WAIT_REFUSED,
	.absent = FAKE_ABSENT_AGAIN,
	.trunc = FAKE_TRUNC_NEGATIVE,
	.connects = true,
	.latency_ns = 1000,
};
const struct fake_provider fake_udp = {
	.name = "udp;ofi_rxd",
	.fabric = "UDP-127.0.0.0",
	.domain = "lo",
	.addr_format = FI_SOCKADDR_IN,
	.src_addr = &loopback,
	.src_addrlen = sizeof(loopback),
	.caps = MSG_CAPS | FI_TAGGED | FI_SOURCE,
	.mr_key_size = 8,
	.max_msg = SIZE_MAX,
	.inject_size = 1256,
	.tx_size = 1024,
	.rx_size = 1024,
	.cq_data_size = 8,
	.wait = FAKE_WAIT_NO_GETWAIT,
	.absent = FAKE_ABSENT_NEVER,
	.trunc = FAKE_TRUNC_CUT,
	.latency_ns = 10000,
};
const struct fake_provider fake_efa = {
	.name = "efa",
	.fabric = "efa",
	.domain = "rdmap0s6-rdm",
	.addr_format = FI_ADDR_EFA,
	.src_addr = gid,
	.src_addrlen = sizeof(gid),
	.caps = MSG_CAPS | RMA_CAPS | FI_TAGGED | FI_SOURCE,
	.no_contexts = true,
	.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	.mr_key_size = 4,
	.max_msg = SIZE_MAX,
	.inject_size = 3928,
	.tx_size = 256,
	.rx_size = 1024,
	.cq_data_size = 4,
	.nic = "rdmap0s6",
	.link_bps = 100000000000,
	.wait = FAKE_WAIT_REFUSED,
	.absent = FAKE_ABSENT_ERROR,
	.absent_err = FI_EHOSTUNREACH,
	.absent_prov_errno = 15,
	.trunc = FAKE_TRUNC_ERROR,
	.shuffles = true,
	.latency_ns = 15000,
};
/* Nothing that weft knows: an address format of its own, no tags, no RMA, no sources, small
 * messages. */
const struct fake_provider fake_raw = {
	.name = "loom",
	.fabric = "loom",
	.domain = "loom0",
	.addr_format = 4096,
	.addr_len = 19,
	.caps = MSG_CAPS,
	.mr_mode = FI_MR_LOCAL,
	.mr_key_size = 2,
	.max_msg = 1024,
	.inject_size = 0,
	.tx_size = 16,
	.rx_size = 1024,
	.cq_data_size = 0,
	.wait = FAKE_WAIT_FD,
	.absent = FAKE_ABSENT_LOST,
	.trunc = FAKE_TRUNC_ERROR,
	.latency_ns = 5000,
};

static struct fake_provider offered[MAX_PROVIDERS];
static size_t offered_count;
static uint32_t running;

void fake__providers_reset(void)
{
	offered_count = 0;
	/* The one whose providers these are, whatever headers the tests are built with. */
	running = FI_VERSION(1, 17);
}

struct fake_provider *fake_offer(const struct fake_provider *like)
{
	if (offered_count == MAX_PROVIDERS) {
		fake__violation("the test offers too many providers");
		return &offered[0];
	}
	offered[offered_count] = *like;
	return &offered[offered_count++];
}

struct fake_provider *fake__provider_named(const char *name, const char *domain)
{
	for (size_t i = 0; i < offered_count; i++) {
		if (strcmp(offered[i].name, name) == 0 && strcmp(offered[i].domain, domain) == 0)
			return &offered[i];
	}
	return NULL;
}

void fake_set_version(uint32_t version)
{
	running = version;
}

uint32_t fi_version(void)
{
	return running;
}

const char *fi_strerror(int errnum)
{
	switch (errnum) {
	case FI_EAVAIL:
		return "Error available";
	case FI_ETRUNC:
		return "Truncation error";
	case FI_ENOKEY:
		return "Required key not available";
	case FI_EOVERRUN:
		return "Queue has been overrun";
	default:
		return "Unspecified error";
	}
}

/* ---- info structs */

static void *copy_bytes(const void *data, size_t len)
{
	void *copy = data ? fake__shared_zalloc(len) : NULL;
	return copy ? memcpy(copy, data, len) : NULL;
}

static char *copy_text(const char *text)
{
	return text ? copy_bytes(text, strlen(text) + 1) : NULL;
}

static struct fid_nic *make_nic(const char *name, bool link, size_t speed)
{
	struct fid_nic *nic = fake__shared_zalloc(sizeof(*nic));
	nic->device_attr = fake__shared_zalloc(sizeof(*nic->device_attr));
	nic->device_attr->name = copy_text(name);
	if (link) {
		nic->link_attr = fake__shared_zalloc(sizeof(*nic->link_attr));
		nic->link_attr->speed = speed;
	}
	return nic;
}

static struct fi_info *alloc_info(void)
{
	struct fi_info *info = fake__shared_zalloc(sizeof(*info));
	info->tx_attr = fake__shared_zalloc(sizeof(*info->tx_attr));
	info->rx_attr = fake__shared_zalloc(sizeof(*info->rx_attr));
	info->ep_attr = fake__shared_zalloc(sizeof(*info->ep_attr));
	info->domain_attr = fake__shared_zalloc(sizeof(*info->domain_attr));
	info->fabric_attr = fake__shared_zalloc(sizeof(*info->fabric_attr));
	return info;
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	if (fake__gate("fi_dupinfo", FAKE__DUPINFO, NULL))
		return NULL;
	struct fi_info *copy = alloc_info();
	if (!info)
		return copy;
	struct fi_info attrs = *copy;
	*copy = *info;
	copy->next = NULL;
	copy->tx_attr = memcpy(attrs.tx_attr, info->tx_attr, sizeof(*info->tx_attr));
	copy->rx_attr = memcpy(attrs.rx_attr, info->rx_attr, sizeof(*info->rx_attr));
	copy->ep_attr = memcpy(attrs.ep_attr, info->ep_attr, sizeof(*info->ep_attr));
	copy->domain_attr =
		memcpy(attrs.domain_attr, info->domain_attr, sizeof(*info->domain_attr));
	copy->fabric_attr =
		memcpy(attrs.fabric_attr, info->fabric_attr, sizeof(*info->fabric_attr));
	copy->src_addr = copy_bytes(info->src_addr, info->src_addrlen);
	copy->dest_addr = NULL;
	copy->domain_attr->name = copy_text(info->domain_attr->name);
	copy->fabric_attr->name = copy_text(info->fabric_attr->name);
	copy->fabric_attr->prov_name = copy_text(info->fabric_attr->prov_name);
	if (info->nic)
		copy->nic = make_nic(info->nic->device_attr->name, info->nic->link_attr,
				     info->nic->link_attr ? info->nic->link_attr->speed : 0);
	return copy;
}

void fi_freeinfo(struct fi_info *info)
{
	while (info) {
		struct fi_info *next = info->next;
		fake__shared_free(info->domain_attr->name);
		fake__shared_free(info->fabric_attr->name);
		fake__shared_free(info->fabric_attr->prov_name);
		fake__shared_free(info->tx_attr);
		fake__shared_free(info->rx_attr);
		fake__shared_free(info->ep_attr);
		fake__shared_free(info->domain_attr);
		fake__shared_free(info->fabric_attr);
		fake__shared_free(info->src_addr);
		if (info->nic) {
			fake__shared_free(info->nic->device_attr->name);
			fake__shared_free(info->nic->device_attr);
			fake__shared_free(info->nic->link_attr);
			fake__shared_free(info->nic);
		}
		fake__shared_free(info);
		info = next;
	}
}

static bool grants(const struct fake_provider *p, const struct fi_info *hints)
{
	return (hints->caps & ~p->caps) == 0 && (p->mode & ~hints->mode) == 0 &&
	       (p->mr_mode & ~hints->domain_attr->mr_mode) == 0 &&
	       hints->ep_attr->type == FI_EP_RDM &&
	       (!hints->fabric_attr->prov_name ||
		strcmp(hints->fabric_attr->prov_name, p->name) == 0);
}

static struct fi_info *describe(const struct fake_provider *p, const struct fi_info *hints)
{
	struct fi_info *info = alloc_info();
	info->caps = hints->caps;
	info->mode = p->mode;
	info->addr_format = p->addr_format;
	info->src_addr = copy_bytes(p->src_addr, p->src_addrlen);
	info->src_addrlen = p->src_addrlen;
	info->tx_attr->inject_size = p->inject_size;
	info->tx_attr->size = p->tx_size;
	info->rx_attr->size = p->rx_size;
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->max_msg_size = p->max_msg;
	info->domain_attr->name = copy_text(p->domain);
	info->domain_attr->threading = hints->domain_attr->threading;
	info->domain_attr->av_type = hints->domain_attr->av_type;
	info->domain_attr->mr_mode = p->mr_mode;
	info->domain_attr->mr_key_size = p->mr_key_size;
	info->domain_attr->cq_data_size = p->cq_data_size;
	info->fabric_attr->name = copy_text(p->fabric);
	info->fabric_attr->prov_name = copy_text(p->name);
	if (p->nic)
		info->nic = make_nic(p->nic, !p->no_link, p->link_bps);
	return info;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *list = NULL;
	struct fi_info **end = &list;
	int code = fake__gate("fi_getinfo", FAKE__GETINFO, NULL);
	if (code)
		return -code;
	if (version > running)
		return -FI_ENOSYS;
	if (node || service || flags)
		fake__violation(
			"fi_getinfo with a node, a service or flags is not what the fake knows");
	for (size_t i = 0; i < offered_count; i++) {
		if (!grants(&offered[i], hints))
			continue;
		*end = describe(&offered[i], hints);
		end = &(*end)->next;
	}
	if (!list)
		return -FI_ENODATA;
	*info = list;
	return 0;
}
