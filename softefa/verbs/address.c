/* SPDX-License-Identifier: MIT */
/* Address handles. All handles for a host have the same number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

uint16_t soft_host_number(uint32_t ip)
{
	struct soft_host *host;
	LIST_FOREACH (host, &soft.hosts, link) {
		if (host->ip == ip)
			return host->number;
	}
	return SOFT_NO_AH;
}

/* The lowest number that no host has. */
static uint16_t free_number(void)
{
	uint16_t number = 0;
	struct soft_host *host = LIST_FIRST(&soft.hosts);
	while (host && number < SOFT_NO_AH) {
		if (host->number == number) {
			number++;
			host = LIST_FIRST(&soft.hosts);
		} else {
			host = LIST_NEXT(host, link);
		}
	}
	return number;
}

static struct soft_host *get_host(uint32_t ip)
{
	struct soft_host *host;
	LIST_FOREACH (host, &soft.hosts, link) {
		if (host->ip == ip) {
			host->users++;
			return host;
		}
	}
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->ip = ip;
	host->number = free_number();
	host->users = 1;
	LIST_INSERT_HEAD(&soft.hosts, host, link);
	return host;
}

struct ibv_ah *soft_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	uint32_t ip;
	if (attr->port_num != 1 || !attr->is_global || !soft_gid_ip(&attr->grh.dgid, &ip)) {
		errno = EINVAL;
		return NULL;
	}
	struct soft_ah *ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	soft_lock();
	ah->host = get_host(ip);
	if (ah->host) {
		ah->ah = (struct ibv_ah){
			.context = pd->context, .pd = pd, .handle = ah->host->number};
		((struct soft_pd *)pd)->users++;
	}
	soft_unlock();
	if (!ah->host) {
		free(ah);
		errno = ENOMEM;
		return NULL;
	}
	return &ah->ah;
}

int soft_ibv_destroy_ah(struct ibv_ah *ibv_ah)
{
	struct soft_ah *ah = (struct soft_ah *)ibv_ah;
	soft_lock();
	((struct soft_pd *)ibv_ah->pd)->users--;
	if (--ah->host->users == 0) {
		LIST_REMOVE(ah->host, link);
		free(ah->host);
	}
	soft_unlock();
	free(ah);
	return 0;
}

int soft_efadv_query_ah(struct ibv_ah *ibv_ah, struct efadv_ah_attr *attr, uint32_t len)
{
	struct efadv_ah_attr all = {.ahn = ((struct soft_ah *)ibv_ah)->host->number};
	memset(attr, 0, len);
	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
	return 0;
}
