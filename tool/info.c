/* SPDX-License-Identifier: MIT */
/*
 * weft info: what libfabric offers here, which of it weft would take, and why not the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "fabric.h"
#include "json.h"
#include "output.h"
#include "stop.h"
#include "target.h"
#include "units.h"
#include "versions.h"

/* How long a rendezvous has for its answer. */
#define RENDEZVOUS_MS 5000

/* What the addresses of a provider look like. */
static const char *address_form(const char *provider)
{
	static const struct {
		const char *name, *form;
	} forms[] = {
		{"efa", "efa://64 hex digits"}, {"tcp", "tcp://IP:PORT"}, {"udp", "udp://IP:PORT"},
		{"verbs", "verbs://IP:PORT"},	{"shm", "shm://NAME"},
	};
	size_t len = strcspn(provider, ";");
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strlen(forms[i].name) == len && strncmp(provider, forms[i].name, len) == 0)
			return forms[i].form;
	}
	return "raw://FORMAT/HEX";
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void print_one(const struct weft_candidate *one)
{
	char link[UNITS_TEXT_MAX] = "-";
	char node[UNITS_TEXT_MAX] = "-";
	char size[UNITS_TEXT_MAX] = "any";
	if (one->link_bps > 0)
		format_link(link, one->link_bps);
	if (one->numa_node >= 0)
		snprintf(node, sizeof(node), "%d", one->numa_node);
	if (one->max_msg < (uint64_t)1 << 60)
		format_size(size, (double)one->max_msg);
	printf("%c %-12s %-14s %-19s %-10s %-12s %-4s %-10s %-19s %s\n", one->chosen ? '*' : ' ',
	       one->provider, one->domain, or_dash(one->addr), or_dash(one->nic), link, node, size,
	       address_form(one->provider), one->reason);
}

static void print_all(const struct weft_candidate *list)
{
	printf("  %-12s %-14s %-19s %-10s %-12s %-4s %-10s %-19s %s\n", "PROVIDER", "DOMAIN",
	       "WOULD BIND TO", "NIC", "LINK", "NUMA", "MESSAGES", "ADDRESSES", "WHY");
	for (const struct weft_candidate *one = list; one; one = one->next)
		print_one(one);
}

static json_t *describe_one(const struct weft_candidate *one)
{
	return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "chosen",
			 one->chosen, "provider", json_text(one->provider), "domain",
			 json_text(one->domain), "fabric", json_text(one->fabric), "bind",
			 *one->addr ? json_text(one->addr) : json_null(), "nic",
			 *one->nic ? json_text(one->nic) : json_null(), "link_bps",
			 one->link_bps ? json_number(one->link_bps) : json_null(), "numa_node",
			 one->numa_node >= 0 ? json_integer(one->numa_node) : json_null(),
			 "max_message", json_number(one->max_msg), "addresses",
			 json_text(address_form(one->provider)), "reason", json_text(one->reason));
}

static void document(const struct weft_candidate *list)
{
	json_t *array = json_array();
	for (const struct weft_candidate *one = list; one; one = one->next)
		json_array_append_new(array, describe_one(one));
	document_set("candidates", array);
}

/* What is known only of a net that is open. */
static int show_limits(const struct options *options, const struct weft_addr *toward)
{
	struct fabric fabric;
	struct weft_node_opts limits = WEFT_NODE_OPTS_INIT;
	struct weft_events events = WEFT_EVENTS_INIT;
	int status = fabric_open(&fabric, options, &limits, toward, &events, NULL);
	if (status != EXIT_DONE)
		return status;
	const struct weft_net_info *info = &fabric.info;
	json_t *object =
		json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "max_peers",
			  json_number(info->max_peers), "send_queue", json_number(info->tx_size),
			  "receive_queue", json_number(info->rx_size), "inject_size",
			  json_number(info->inject_size), "tagged", info->has_tagged, "rma",
			  info->has_rma, "source", info->has_source, "wait_fd", info->has_wait_fd);
	if (!options->json)
		printf("\nthe one with the *: at most %zu peers; queues of %zu sends and %zu "
		       "receives; up to "
		       "%zu bytes are sent at once; tagged %s, one-sided %s, source told %s, "
		       "sleeps on a "
		       "descriptor %s\n",
		       info->max_peers, info->tx_size, info->rx_size, info->inject_size,
		       info->has_tagged ? "yes" : "no", info->has_rma ? "yes" : "no",
		       info->has_source ? "yes" : "no", info->has_wait_fd ? "yes" : "no");
	if (!options->json && info->caveat)
		printf("not promised: %s\n", info->caveat);
	versions_note(info);
	document_set("limits", object);
	fabric_close(&fabric, 0);
	return EXIT_DONE;
}

static int list(const struct options *options, const struct weft_addr *toward)
{
	struct weft_net_opts opts;
	struct weft_candidate *all = NULL;
	int status = fabric_net_options(&opts, options, toward);
	if (status != EXIT_DONE)
		return status;
	int count = weft_net_list(&opts, &all);
	if (count < 0)
		return fail(count == -EINVAL ? EXIT_USAGE : EXIT_FAILED,
			    "cannot list the fabrics: %s", fabric_reason(count));
	document(all);
	if (!options->json && count > 0)
		print_all(all);
	/* The chosen one comes first. */
	bool chosen = count > 0 && all->chosen;
	weft_candidate_free(all);
	if (stop_wanted())
		return EXIT_INTERRUPTED;
	if (count == 0)
		return fail(EXIT_FAILED,
			    "libfabric offers nothing here; see FI_PROVIDER, and fi_info(1)");
	if (!chosen)
		return fail(EXIT_FAILED, "none of these does%s",
			    options->provider || options->domain || options->bind ||
					    options->require || toward
				    ? " for what was asked for"
				    : "");
	return options->verbose ? show_limits(options, toward) : EXIT_DONE;
}

int info_run(const struct options *options)
{
	struct weft_addr toward;
	bool from_rendezvous;
	int status = EXIT_DONE;
	if (options->address)
		status = target_find(&toward, options->address, RENDEZVOUS_MS, &from_rendezvous);
	if (status != EXIT_DONE)
		return status;
	return list(options, options->address ? &toward : NULL);
}
