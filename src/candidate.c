/* SPDX-License-Identifier: MIT */
/*
 * What could be opened here, what would be, and why. Calls provider, addr, local, log and
 * fi_getinfo.
 *
 * libfabric is asked once for everything and the choice is made here, because its own order (by
 * link speed, with loopback last and interfaces several times) is not a policy, and its answer to a
 * wish that cannot be met, "no data", tells nobody why.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "addr.h"
#include "candidate.h"
#include "local.h"

/* The caller's options, read. */
struct wish {
	const struct weft_net_opts *opts;
	enum weft_scheme scheme; /* of the address to be reached, or WEFT_SCHEME_NONE */
	sa_family_t family;	 /* of it, where it is an IP address */
	struct weft__local local;
	const char *local_why; /* who asks for the local address; NULL: nobody does */
	bool bind_is_ip;
};

/*
 * What a candidate has to pass, in this order. The one that falls last comes closest to what was
 * asked.
 */
enum hurdle {
	HURDLE_PROVIDER,
	HURDLE_REACH,
	HURDLE_FABRIC,
	HURDLE_ASKED,
	HURDLE_REQUIRE,
	HURDLE_DOMAIN,
	HURDLE_ADDRESS,
	HURDLE_FAMILY,
	HURDLE_NONE,
};

/* One fi_info with what was found out about it. */
struct entry {
	struct weft_candidate candidate; /* first, so that the list handed out is a list of these */
	struct fi_info *info;		 /* owned by the caller of collect() */
	const struct weft__quirks *quirks;
	const char *software; /* what its device is instead of hardware; NULL: it is hardware */
	bool ip; /* it binds to an IP address, which is `local`, or of the family AF_UNSPEC: none */
	struct weft__local local;
	size_t level;	    /* of caps_levels[], at which its provider was first granted a wish */
	int order;	    /* of fi_getinfo, to keep its order among equals */
	enum hurdle hurdle; /* at which it fell */
};

/* Some providers lack RMA, tags, or the source of messages: ask for all, then for less. */
static const uint64_t caps_levels[] = {
	FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE,
	FI_MSG | FI_TAGGED | FI_SOURCE,
	FI_MSG,
};
#define CAPS_LEVELS (sizeof(caps_levels) / sizeof(caps_levels[0]))

/* The size that the options had first: what a caller passes is never less. */
#define FIRST_OPTS_SIZE (offsetof(struct weft_net_opts, log_user) + sizeof(void *))

uint32_t weft__libfabric_version(void)
{
	uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	uint32_t running = fi_version();
	return running < built ? running : built;
}

int weft__opts_read(struct weft_net_opts *opts, const struct weft_net_opts *given)
{
	struct weft_net_opts all = WEFT_NET_OPTS_INIT;
	if (given) {
		if (given->size < FIRST_OPTS_SIZE)
			return -EINVAL;
		memcpy(&all, given, given->size < sizeof(all) ? given->size : sizeof(all));
		all.size = sizeof(all);
	}
	if (all.max_ops == 0 || all.max_ops_per_peer == 0 || all.max_held == 0 ||
	    all.max_held_per_peer == 0 || all.spin_us < 0) {
		struct weft__log log = {all.log, all.log_user};
		weft__log(&log, WEFT_LOG_ERROR,
			  "the limits of operations must be at least 1; start from "
			  "WEFT_NET_OPTS_INIT");
		return -EINVAL;
	}
	*opts = all;
	return 0;
}

static bool wants_names(const struct weft_net_opts *opts, enum weft_scheme toward)
{
	return toward == WEFT_SCHEME_SHM ||
	       (opts->provider && weft__provider_matches(opts->provider, "shm"));
}

static int read_wish(struct wish *wish, const struct weft_net_opts *opts,
		     const struct weft__log *log)
{
	char reason[160];
	*wish = (struct wish){.opts = opts, .scheme = WEFT_SCHEME_NONE};
	const struct weft_addr *toward = opts->toward;
	bool toward_ip = false;
	if (toward) {
		struct weft_addr checked;
		struct weft_parse_error error;
		if (weft__addr_check(&checked, toward, &error) < 0) {
			weft__log(log, WEFT_LOG_ERROR, "toward: not an address: %s", error.reason);
			return -EINVAL;
		}
		wish->scheme = toward->scheme;
		struct weft__local peer;
		toward_ip =
			(toward->format == FI_SOCKADDR_IN || toward->format == FI_SOCKADDR_IN6) &&
			weft__local_from_sockaddr(&peer, toward->raw, toward->len) == 0;
		if (toward_ip)
			wish->family = peer.family;
	}
	if (opts->bind && !wants_names(opts, wish->scheme)) {
		if (weft__local_parse(&wish->local, opts->bind, reason, sizeof(reason)) < 0) {
			weft__log(log, WEFT_LOG_ERROR, "bind '%s': %s", opts->bind, reason);
			return -EINVAL;
		}
		wish->bind_is_ip = wish->local.family != AF_UNSPEC;
		if (wish->bind_is_ip)
			wish->local_why = "bind";
	}
	if (toward_ip && !wish->local_why && !opts->domain) {
		uint16_t port = wish->local.port;
		int ret = weft__local_toward(&wish->local, toward);
		wish->local.port = port;
		if (ret < 0) {
			weft__log(log, WEFT_LOG_ERROR, "no route to the peer's address: %s",
				  weft_strerror(ret));
			return ret;
		}
		wish->local_why = "the route to the peer";
	}
	return 0;
}

static struct fi_info *make_hints(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();
	if (!hints)
		return NULL;
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	return hints;
}

/* A number in a file of sysfs, or -1. */
static long read_sysfs(const char *path)
{
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	long value;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

static void describe(struct entry *entry)
{
	struct weft_candidate *c = &entry->candidate;
	const struct fi_info *info = entry->info;
	char path[256];

	c->size = sizeof(*c);
	c->max_msg = info->ep_attr->max_msg_size;
	c->numa_node = -1;
	snprintf(c->provider, sizeof(c->provider), "%s", info->fabric_attr->prov_name);
	snprintf(c->fabric, sizeof(c->fabric), "%s",
		 info->fabric_attr->name ? info->fabric_attr->name : "");
	snprintf(c->domain, sizeof(c->domain), "%s",
		 info->domain_attr->name ? info->domain_attr->name : "");
	/* By its form, not by the provider: one that weft does not know must not bind unasked
	 * either. */
	entry->ip = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
		    info->addr_format == FI_SOCKADDR_IN6;
	if (entry->ip &&
	    weft__local_from_sockaddr(&entry->local, info->src_addr, info->src_addrlen) == 0)
		weft__local_format(&entry->local, c->addr, sizeof(c->addr));
	if (info->nic && info->nic->device_attr && info->nic->device_attr->name) {
		snprintf(c->nic, sizeof(c->nic), "%s", info->nic->device_attr->name);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node", c->nic);
		c->numa_node = (int)read_sysfs(path);
		entry->software = weft__device_caveat(c->nic);
		/* The speed that software tells of is nobody's. */
		if (info->nic->link_attr && !entry->software)
			c->link_bps = info->nic->link_attr->speed;
	} else if (entry->ip) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", c->domain);
		c->numa_node = (int)read_sysfs(path);
		snprintf(path, sizeof(path), "/sys/class/net/%s/speed", c->domain);
		long mbps = read_sysfs(path);
		c->link_bps = mbps > 0 ? (uint64_t)mbps * 1000000 : 0;
	}
}

/* EFA's domain is named after the kernel's device, with "-rdm" behind it; both are accepted. */
static bool domain_matches(const char *wanted, const char *domain)
{
	size_t len = strlen(wanted);
	return strncmp(wanted, domain, len) == 0 &&
	       (domain[len] == 0 || strcmp(domain + len, "-rdm") == 0);
}

/* Software is no RDMA device but for a caller who names it. */
static bool required_matches(const struct weft_net_opts *opts, const struct entry *entry)
{
	if (strcmp(opts->require, "rdma") != 0)
		return weft__provider_matches(opts->require, entry->candidate.provider);
	return entry->quirks->rdma && (!entry->software || opts->domain);
}

/* How far a candidate comes with its local address. */
static enum hurdle judge_local(const struct wish *wish, const struct entry *entry, char *reason,
			       size_t size)
{
	if (entry->local.family == AF_UNSPEC) {
		snprintf(reason, size, "it has no IP address");
		return HURDLE_ADDRESS;
	}
	if (wish->local_why && !weft__local_fits(&wish->local, &entry->local)) {
		char text[INET6_ADDRSTRLEN];
		snprintf(reason, size, "%s asks for the address %s", wish->local_why,
			 weft__local_format(&wish->local, text, sizeof(text)));
		return HURDLE_ADDRESS;
	}
	if (!wish->local_why && !wish->opts->domain && !weft__local_is_loopback(&entry->local)) {
		snprintf(reason, size, "not loopback; name it by bind or domain to use it");
		return HURDLE_ADDRESS;
	}
	if (wish->family != AF_UNSPEC && wish->family != entry->local.family) {
		snprintf(reason, size, "the peer's address is of the other IP version");
		return HURDLE_FAMILY;
	}
	return HURDLE_NONE;
}

/* How far a candidate comes with the caller's options; where it falls, its reason says why. */
static enum hurdle judge(const struct wish *wish, struct entry *entry)
{
	const struct weft_net_opts *opts = wish->opts;
	const struct weft__quirks *quirks = entry->quirks;
	struct weft_candidate *c = &entry->candidate;
	bool asked = opts->provider || wish->scheme != WEFT_SCHEME_NONE;

	if (opts->provider && !weft__provider_matches(opts->provider, c->provider)) {
		snprintf(c->reason, sizeof(c->reason), "the provider '%.64s' was asked for",
			 opts->provider);
		return HURDLE_PROVIDER;
	}
	if (wish->scheme != WEFT_SCHEME_NONE && wish->scheme != quirks->scheme) {
		snprintf(c->reason, sizeof(c->reason),
			 "it does not reach the peer's kind of address");
		return HURDLE_REACH;
	}
	if (quirks->fabric && strcmp(quirks->fabric, c->fabric) != 0) {
		snprintf(c->reason, sizeof(c->reason),
			 "weft uses the fabric '%s', which keeps order and takes messages of any "
			 "size",
			 quirks->fabric);
		return HURDLE_FABRIC;
	}
	if (quirks->rank == WEFT__RANK_ASKED && !asked) {
		snprintf(c->reason, sizeof(c->reason), "used only when asked for by name");
		return HURDLE_ASKED;
	}
	if (opts->require && !required_matches(opts, entry)) {
		snprintf(c->reason, sizeof(c->reason), "%s%srefused, since '%.64s' is required",
			 entry->software ? entry->software : "", entry->software ? ": " : "",
			 opts->require);
		return HURDLE_REQUIRE;
	}
	if (opts->domain && !domain_matches(opts->domain, c->domain)) {
		snprintf(c->reason, sizeof(c->reason), "the domain '%.64s' was asked for",
			 opts->domain);
		return HURDLE_DOMAIN;
	}
	if (wish->bind_is_ip && !entry->ip) {
		snprintf(c->reason, sizeof(c->reason),
			 "it does not bind to an IP address, and one was given");
		return HURDLE_ADDRESS;
	}
	return entry->ip ? judge_local(wish, entry, c->reason, sizeof(c->reason)) : HURDLE_NONE;
}

static bool better(const struct entry *a, const struct entry *b)
{
	if (a->quirks->rank != b->quirks->rank)
		return a->quirks->rank > b->quirks->rank;
	if (a->candidate.link_bps != b->candidate.link_bps)
		return a->candidate.link_bps > b->candidate.link_bps;
	return a->order < b->order;
}

/* Either may be missing. */
static bool same_name(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/*
 * Whether the list has this candidate already: the same one, which fi_getinfo may name several
 * times, or, from an earlier level, the provider: one that has granted a fuller wish is not listed
 * again for a lesser one.
 */
static bool is_known(const struct weft_candidate *list, const struct fi_info *info, size_t level)
{
	for (; list; list = list->next) {
		const struct entry *known = (const struct entry *)list;
		const struct fi_info *have = known->info;
		if (strcmp(have->fabric_attr->prov_name, info->fabric_attr->prov_name) != 0)
			continue;
		if (known->level < level)
			return true;
		if (same_name(have->fabric_attr->name, info->fabric_attr->name) &&
		    same_name(have->domain_attr->name, info->domain_attr->name) &&
		    have->src_addrlen == info->src_addrlen &&
		    (info->src_addrlen == 0 ||
		     memcmp(have->src_addr, info->src_addr, info->src_addrlen) == 0))
			return true;
	}
	return false;
}

/* Puts what one answer of fi_getinfo holds at the end of the list. */
static int append(struct weft_candidate **list, struct fi_info *info, size_t level)
{
	struct weft_candidate **end = list;
	int order = 0;
	for (; *end; end = &(*end)->next)
		order++;
	for (; info; info = info->next) {
		if (is_known(*list, info, level))
			continue;
		struct entry *entry = calloc(1, sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		entry->info = info;
		entry->level = level;
		entry->order = order++;
		entry->quirks = weft__quirks_find(info->fabric_attr->prov_name, fi_version());
		describe(entry);
		*end = &entry->candidate;
		end = &entry->candidate.next;
	}
	return 0;
}

/*
 * Everything that fi_getinfo offers. The entries point into infos[]; the caller frees both, also on
 * failure.
 */
static int collect(struct weft_candidate **list, struct fi_info *infos[CAPS_LEVELS],
		   const struct weft__log *log)
{
	*list = NULL;
	for (size_t level = 0; level < CAPS_LEVELS; level++) {
		struct fi_info *hints = make_hints(caps_levels[level]);
		if (!hints)
			return -ENOMEM;
		struct fi_info *got = NULL;
		int ret = fi_getinfo(weft__libfabric_version(), NULL, NULL, 0, hints, &got);
		fi_freeinfo(hints);
		if (ret == -FI_ENODATA)
			continue;
		if (ret < 0) {
			weft__log(log, WEFT_LOG_ERROR, "fi_getinfo: %s", weft_strerror(ret));
			return ret;
		}
		infos[level] = got;
		ret = append(list, got, level);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static void free_infos(struct fi_info *infos[CAPS_LEVELS])
{
	for (size_t level = 0; level < CAPS_LEVELS; level++) {
		if (infos[level])
			fi_freeinfo(infos[level]);
	}
}

/* Judges all, and moves the best to the front. Returns it, or NULL if none will do. */
static struct entry *rank(struct weft_candidate **list, const struct wish *wish)
{
	struct entry *best = NULL;
	for (struct weft_candidate *c = *list; c; c = c->next) {
		struct entry *entry = (struct entry *)c;
		entry->hurdle = judge(wish, entry);
		c->suits = entry->hurdle > HURDLE_REQUIRE;
		if (entry->hurdle != HURDLE_NONE)
			continue;
		snprintf(c->reason, sizeof(c->reason), "it would do, but another one is better");
		if (!best || better(entry, best))
			best = entry;
	}
	if (!best)
		return NULL;
	struct weft_candidate **link = list;
	while (*link != &best->candidate)
		link = &(*link)->next;
	*link = best->candidate.next;
	best->candidate.next = *list;
	*list = &best->candidate;
	best->candidate.chosen = 1;
	snprintf(best->candidate.reason, sizeof(best->candidate.reason), "%s",
		 best->software ? best->software
		 : wish->opts->provider || wish->scheme != WEFT_SCHEME_NONE
			 ? "the best that fits what was asked for"
		 : best->quirks->rdma ? "a real RDMA device"
				      : "no RDMA device fits, and this works everywhere");
	return best;
}

/* Appends to a text that may be full. */
__attribute__((format(printf, 3, 4))) static void append_text(char *text, size_t size,
							      const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

/* The providers of a list, each once; or, of one provider, its domains and addresses: "a, b, c". */
static void name_all(const struct weft_candidate *list, const char *provider, char *text,
		     size_t size)
{
	text[0] = 0;
	for (const struct weft_candidate *c = list; c; c = c->next) {
		const char *comma = text[0] ? ", " : "";
		if (provider) {
			if (strcmp(c->provider, provider) == 0)
				append_text(text, size, "%s%s%s%s", comma, c->domain,
					    c->addr[0] ? " " : "", c->addr);
			continue;
		}
		const struct weft_candidate *before = list;
		while (before != c && strcmp(before->provider, c->provider) != 0)
			before = before->next;
		if (before == c)
			append_text(text, size, "%s%s", comma, c->provider);
	}
}

/*
 * Nothing fits: says what was asked, what there is, why that will not do, and what to do where that
 * is known.
 */
static void explain(const struct weft_candidate *list, const struct wish *wish,
		    const struct weft__log *log)
{
	const struct weft_net_opts *opts = wish->opts;
	const struct entry *closest = NULL;
	const char *filter = getenv("FI_PROVIDER");
	const char *wanted = opts->provider ? opts->provider : opts->require ? opts->require : "";
	char names[400], text[900] = "";
	if (wish->scheme != WEFT_SCHEME_NONE)
		wanted = weft__scheme_name(wish->scheme);
	for (const struct weft_candidate *c = list; c; c = c->next) {
		const struct entry *entry = (const struct entry *)c;
		if (!closest || entry->hurdle > closest->hurdle ||
		    (entry->hurdle == closest->hurdle &&
		     entry->quirks->rank > closest->quirks->rank))
			closest = entry;
	}
	if (!closest) {
		append_text(text, sizeof(text), "libfabric offers no provider at all here");
	} else if (closest->hurdle == HURDLE_REACH && !opts->provider) {
		name_all(list, NULL, names, sizeof(names));
		append_text(text, sizeof(text),
			    "no provider here reaches the peer's kind of address, %s; libfabric "
			    "offers only %s",
			    wanted, names);
	} else if (closest->hurdle == HURDLE_PROVIDER) {
		name_all(list, NULL, names, sizeof(names));
		append_text(text, sizeof(text), "%s, and libfabric offers only %s here",
			    closest->candidate.reason, names);
	} else {
		bool place = closest->hurdle > HURDLE_REQUIRE;
		name_all(list, place ? closest->candidate.provider : NULL, names, sizeof(names));
		append_text(text, sizeof(text),
			    "no candidate fits; %s comes closest: %s, and %s %s here",
			    closest->candidate.provider, closest->candidate.reason,
			    place ? "it has only" : "libfabric offers", names);
	}
	if (filter)
		append_text(text, sizeof(text),
			    "; the environment variable FI_PROVIDER='%.100s' hides %s", filter,
			    closest ? "others" : "all");
	weft__log(log, WEFT_LOG_ERROR, "%s%s", text, weft__provider_cure(wanted));
}

int weft__candidate_choose(const struct weft_net_opts *opts, const struct weft__log *log,
			   struct weft__choice *choice)
{
	struct wish wish;
	struct fi_info *infos[CAPS_LEVELS] = {NULL};
	struct weft_candidate *list = NULL;
	int ret = read_wish(&wish, opts, log);
	if (ret < 0)
		return ret;
	ret = collect(&list, infos, log);
	if (ret < 0)
		goto free_all;
	struct entry *best = rank(&list, &wish);
	if (!best) {
		explain(list, &wish, log);
		ret = -ENODATA;
		goto free_all;
	}
	struct fi_info *info = fi_dupinfo(best->info);
	if (!info) {
		ret = -ENOMEM;
		goto free_all;
	}
	if (best->ip)
		weft__local_apply(&wish.local, info->src_addr);
	*choice = (struct weft__choice){
		info, best->quirks, best->candidate,
		best->software ? best->software : best->quirks->caveat};
	choice->candidate.next = NULL;

free_all:
	weft_candidate_free(list);
	free_infos(infos);
	return ret;
}

void weft__choice_free(struct weft__choice *choice)
{
	if (choice->info)
		fi_freeinfo(choice->info);
	choice->info = NULL;
}

int weft_net_list(const struct weft_net_opts *given, struct weft_candidate **out)
{
	struct weft_net_opts opts;
	struct wish wish;
	struct fi_info *infos[CAPS_LEVELS] = {NULL};
	struct weft_candidate *list = NULL;
	int count = 0;
	int ret = weft__opts_read(&opts, given);
	if (ret < 0)
		return ret;
	struct weft__log log = {opts.log, opts.log_user};
	ret = read_wish(&wish, &opts, &log);
	if (ret < 0)
		return ret;
	ret = collect(&list, infos, &log);
	if (ret == 0) {
		rank(&list, &wish);
		for (struct weft_candidate *c = list; c; c = c->next)
			count++;
		*out = list;
	} else {
		weft_candidate_free(list);
	}
	free_infos(infos);
	return ret < 0 ? ret : count;
}

void weft_candidate_free(struct weft_candidate *list)
{
	while (list) {
		struct weft_candidate *next = list->next;
		free(list);
		list = next;
	}
}
