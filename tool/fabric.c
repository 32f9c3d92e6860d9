/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "host.h"
#include "json.h"
#include "output.h"
#include "stop.h"
#include "units.h"

/* The last error that the library has told of. */
static char last_error[600];

const char *address_text(const struct weft_addr *addr)
{
	static char text[WEFT_ADDR_TEXT_MAX];
	return weft_addr_format(addr, text, sizeof(text)) < 0 ? "an unreadable address" : text;
}

const char *fabric_reason(int code)
{
	return *last_error ? last_error : weft_strerror(code);
}

static void on_log(void *user, enum weft_log_level level, const char *text)
{
	(void)user;
	if (level == WEFT_LOG_WARN) {
		say_warning("%s", text);
		return;
	}
	/* Whoever has called the library and failed says why, in one line. */
	if (level == WEFT_LOG_ERROR)
		snprintf(last_error, sizeof(last_error), "%s", text);
	say_most("%s", text);
}

/* Whether there is an RDMA device; its name is in storage that the next call uses again. */
static const char *rdma_device(void)
{
	static char name[64];
	DIR *dir = opendir("/sys/class/infiniband");
	name[0] = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (entry->d_name[0] != '.')
			snprintf(name, sizeof(name), "%.63s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	return *name ? name : NULL;
}

/*
 * Over tcp an endpoint of libfabric 1.17 costs 70 MiB; with this it is 18 MiB, at the same speed.
 * Other providers under rxm would be slower with it, so it is left alone where one of those may be
 * chosen.
 */
static void limit_queues(const struct options *options, const struct weft_addr *toward)
{
	bool verbs = (options->provider && strncmp(options->provider, "verbs", 5) == 0) ||
		     (toward && toward->scheme == WEFT_SCHEME_VERBS) ||
		     (!options->provider && !toward && rdma_device());
	if (verbs)
		return;
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
	setenv("FI_OFI_RXM_MSG_TX_SIZE", "16", 0);
}

/* Whether text is an IP address, with or without a port, or a port alone: what the library takes
 * itself. */
static bool is_ip_bind(const char *text)
{
	char host[INET6_ADDRSTRLEN];
	unsigned char raw[16];
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	if (text[0] == ':' || text[0] == '[' || (colon && strchr(colon + 1, ':')))
		return true;
	if (len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = 0;
	return inet_pton(AF_INET, host, raw) == 1;
}

/* Makes of --bind what the library takes: interfaces and names become domains and addresses. */
static int set_bind(struct weft_net_opts *opts, const struct options *options,
		    const struct weft_addr *toward)
{
	static char name[256];
	static char bind[HOST_TEXT_MAX];
	const char *text = options->bind;
	bool shm = (options->provider && strcmp(options->provider, "shm") == 0) ||
		   (toward && toward->scheme == WEFT_SCHEME_SHM);
	opts->bind = text;
	if (!text || shm || is_ip_bind(text))
		return EXIT_DONE;

	const char *port = strchr(text, ':');
	size_t len = port ? (size_t)(port - text) : strlen(text);
	if (len >= sizeof(name))
		return fail(EXIT_USAGE, "--bind: '%s' is too long for a name", text);
	memcpy(name, text, len);
	name[len] = 0;
	if (if_nametoindex(name) > 0) {
		if (options->domain && strcmp(options->domain, name) != 0)
			return fail(EXIT_USAGE,
				    "--bind %s and --domain %s name different interfaces", name,
				    options->domain);
		opts->domain = name;
		opts->bind = port;
		return EXIT_DONE;
	}
	const char *fault = host_resolve(bind, name, port ? port + 1 : NULL);
	if (fault)
		return fail(
			EXIT_USAGE,
			"--bind: '%s' is no IP address, no interface (ip link lists them) and no "
			"name of a host: %s",
			name, fault);
	opts->bind = bind;
	return EXIT_DONE;
}

int fabric_net_options(struct weft_net_opts *opts, const struct options *options,
		       const struct weft_addr *toward)
{
	*opts = (struct weft_net_opts)WEFT_NET_OPTS_INIT;
	opts->provider = options->provider;
	opts->domain = options->domain;
	opts->require = options->require;
	opts->toward = toward;
	opts->log = on_log;
	last_error[0] = 0;
	limit_queues(options, toward);
	return set_bind(opts, options, toward);
}

bool fabric_binds_to_ip(const struct options *options)
{
	struct weft_net_opts opts;
	struct weft_candidate *all = NULL;
	if (fabric_net_options(&opts, options, NULL) != EXIT_DONE ||
	    weft_net_list(&opts, &all) <= 0)
		return false;
	/* The chosen one comes first. */
	bool binds = all->chosen && *all->addr;
	weft_candidate_free(all);
	return binds;
}

static void describe(struct fabric *fabric)
{
	const struct weft_net_info *info = &fabric->info;
	char link[UNITS_TEXT_MAX] = "speed not known";
	char node[40] = "";
	char nic[160] = "";
	if (info->link_bps > 0)
		format_link(link, info->link_bps);
	if (info->numa_node >= 0)
		snprintf(node, sizeof(node), ", NUMA node %d", info->numa_node);
	if (info->nic)
		snprintf(nic, sizeof(nic), ", NIC %.64s (%s%s)", info->nic, link, node);
	say("provider %s, domain %s%s, fabric %s, address %s", info->provider, info->domain, nic,
	    info->fabric, fabric->address);
	document_set(
		"local",
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "provider",
			  json_text(info->provider), "domain", json_text(info->domain), "fabric",
			  json_text(info->fabric), "nic", json_text(info->nic), "link_bps",
			  info->link_bps ? json_number(info->link_bps) : json_null(), "numa_node",
			  info->numa_node >= 0 ? json_integer(info->numa_node) : json_null(),
			  "address", json_text(fabric->address), "caveat",
			  json_text(info->caveat)));
}

/* Warns where something else was opened than one would think from the options. */
static void warn_of_choice(const struct fabric *fabric, const struct options *options)
{
	const char *provider = fabric->info.provider;
	size_t len = options->provider ? strcspn(options->provider, ";") : 0;
	const char *device = rdma_device();
	if (options->provider && strncmp(provider, options->provider, len) != 0)
		say_warning("%s was asked for, and %s carries the bytes", options->provider,
			    provider);
	if (!options->provider && !fabric->info.nic && device)
		say_warning("%s carries the bytes although there is the RDMA device %s; weft info "
			    "tells why",
			    provider, device);
}

/* Whether libfabric offers any of its fabrics here. */
static bool is_offered(const char *provider, size_t len)
{
	struct weft_candidate *all = NULL;
	bool offered = false;
	weft_net_list(NULL, &all);
	for (const struct weft_candidate *one = all; one && !offered; one = one->next)
		offered = strcspn(one->provider, ";") == len &&
			  strncmp(one->provider, provider, len) == 0;
	weft_candidate_free(all);
	return offered;
}

/* Whether nobody knows of such a provider, so that its name was probably misspelt. */
static bool is_unknown(const char *provider)
{
	/* Those that may be absent; what is offered is found in the list. */
	static const char *const known[] = {"efa",   "tcp",  "shm", "udp",
					    "verbs", "psm2", "opx", "cxi"};
	size_t len = provider ? strcspn(provider, ";") : 0;
	for (size_t i = 0; provider && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i]) == len && strncmp(known[i], provider, len) == 0)
			return false;
	}
	return provider && !is_offered(provider, len);
}

int fabric_fail(const struct options *options, const struct weft_addr *toward, int code)
{
	bool none = code == -ENODATA;
	bool efa = (toward && toward->scheme == WEFT_SCHEME_EFA) ||
		   (!toward && options->provider && strcmp(options->provider, "efa") == 0);
	if (none && is_unknown(options->provider))
		return fail(EXIT_USAGE,
			    "--provider: '%s' is none of efa, tcp, shm, udp, verbs, and libfabric "
			    "has none of that name here; weft info -v lists its own",
			    options->provider);
	return fail(code == -EINVAL ? EXIT_USAGE : EXIT_FAILED, "cannot open a fabric: %s%s%s%s",
		    fabric_reason(code),
		    none && efa ? "; for software EFA start it by: softefa weft " : "",
		    none && efa ? command_name(options->command) : "", none && efa ? " ..." : "");
}

int fabric_open(struct fabric *fabric, const struct options *options, struct weft_node_opts *limits,
		const struct weft_addr *toward, const struct weft_events *events, void *user)
{
	struct weft_net_opts opts;
	*fabric = (struct fabric){.info = WEFT_NET_INFO_INIT};
	int status = fabric_net_options(&opts, options, toward);
	if (status != EXIT_DONE)
		return status;
	limits->net = &opts;
	int ret = weft_node_open(&fabric->node, limits, events, user);
	limits->net = NULL;
	/* Also where it failed: shm may have taken the signals. */
	stop_catch(ret < 0 ? NULL : fabric->node);
	if (ret < 0) {
		fabric->node = NULL;
		return fabric_fail(options, toward, ret);
	}
	weft_net_get_info(weft_node_net(fabric->node), &fabric->info);
	weft_node_get_addr(fabric->node, &fabric->addr);
	weft_addr_format(&fabric->addr, fabric->address, sizeof(fabric->address));
	describe(fabric);
	warn_of_choice(fabric, options);
	return EXIT_DONE;
}

void fabric_close(struct fabric *fabric, int linger_ms)
{
	struct weft_node *node = fabric->node;
	if (!node)
		return;
	stop_catch(NULL);
	fabric->node = NULL;
	int left = weft_node_close(node, linger_ms);
	if (left > 0)
		say_warning(
			"the provider did not let go of %d objects at close, as where sends to a "
			"silent peer are under way; the system frees them with this process",
			left);
}

void fabric_warn_of_host(struct fabric *fabric, const struct weft_addr *peer)
{
	const char *through = getenv("FI_EFA_ENABLE_SHM_TRANSFER");
	if (fabric->said_same_host || !host_is_same(&fabric->addr, peer))
		return;
	fabric->said_same_host = true;
	if (fabric->addr.scheme == WEFT_SCHEME_EFA && !(through && strcmp(through, "0") == 0))
		say_warning(
			"both ends are on this host: libfabric sends through shared memory, not "
			"through the NIC, unless FI_EFA_ENABLE_SHM_TRANSFER=0");
	else
		say_warning("both ends are on this host: this says nothing of the network");
}

void fabric_tell_peer(struct fabric *fabric, const struct weft_peer_info *peer)
{
	fabric_warn_of_host(fabric, &peer->addr);
	document_set("peer", json_pack("{s:o, s:o, s:o, s:o}", "address",
				       json_text(address_text(&peer->addr)), "provider",
				       json_text(peer->provider), "same_host",
				       json_boolean(fabric->said_same_host), "max_message",
				       json_number(peer->max_message)));
}
