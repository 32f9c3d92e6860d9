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

/* The columns of the list, in the order in which they are shown. */
enum column {
	COLUMN_PROVIDER,
	COLUMN_DOMAIN,
	COLUMN_WHY,
	COLUMN_BIND,
	COLUMN_NIC,
	COLUMN_LINK,
	COLUMN_NODE,
	COLUMN_MESSAGES,
	COLUMN_ADDRESSES,
	COLUMNS,
};
/* From here on, with --verbose only. */
#define COLUMNS_MORE COLUMN_MESSAGES

static const char *const titles[COLUMNS] = {
	"PROVIDER", "DOMAIN", "WHY",	  "WOULD BIND TO", "NIC",
	"LINK",	    "NUMA",   "MESSAGES", "ADDRESSES",
};

/* What stands in a column, "" where nothing is known; in text where it has to be made. */
static const char *cell(const struct weft_candidate *one, enum column column,
			char text[UNITS_TEXT_MAX])
{
	text[0] = 0;
	switch (column) {
	case COLUMN_PROVIDER:
		return one->provider;
	case COLUMN_DOMAIN:
		return one->domain;
	case COLUMN_WHY:
		return one->reason;
	case COLUMN_BIND:
		return one->addr;
	case COLUMN_NIC:
		return one->nic;
	case COLUMN_LINK:
		return one->link_bps > 0 ? format_link(text, one->link_bps) : text;
	case COLUMN_NODE:
		if (one->numa_node >= 0)
			snprintf(text, UNITS_TEXT_MAX, "%d", one->numa_node);
		return text;
	case COLUMN_MESSAGES:
		return one->max_msg < (uint64_t)1 << 60 ? format_size(text, (double)one->max_msg)
							: "any";
	case COLUMN_ADDRESSES:
		return address_form(one->provider);
	case COLUMNS:
		break;
	}
	return text;
}

/* How wide a column has to be for what is shown; 0 where nothing stands in it. */
static int width_of(const struct weft_candidate *list, enum column column, bool all)
{
	char text[UNITS_TEXT_MAX];
	size_t width = 0;
	for (const struct weft_candidate *one = list; one; one = one->next) {
		size_t len = one->suits || all ? strlen(cell(one, column, text)) : 0;
		width = len > width ? len : width;
	}
	return width > 0 && width < strlen(titles[column]) ? (int)strlen(titles[column])
							   : (int)width;
}

/* One line, without blanks at its end. one is NULL for the titles. */
static void print_line(const struct weft_candidate *one, const int widths[COLUMNS])
{
	char text[UNITS_TEXT_MAX];
	int blanks = 1;
	putchar(one && one->chosen ? '*' : ' ');
	for (int column = 0; column < COLUMNS; column++) {
		if (widths[column] == 0)
			continue;
		const char *shown = one ? cell(one, (enum column)column, text) : titles[column];
		shown = *shown ? shown : "-";
		printf("%*s%s", blanks, "", shown);
		blanks = widths[column] - (int)strlen(shown) + 2;
	}
	putchar('\n');
}

/* Those whose provider does; with --verbose, the others too. */
static void print_list(const struct weft_candidate *list, bool all)
{
	int widths[COLUMNS];
	unsigned left = 0;
	for (int column = 0; column < COLUMNS; column++)
		widths[column] =
			column < COLUMNS_MORE || all ? width_of(list, (enum column)column, all) : 0;
	if (widths[COLUMN_PROVIDER] > 0)
		print_line(NULL, widths);
	for (const struct weft_candidate *one = list; one; one = one->next) {
		if (one->suits || all)
			print_line(one, widths);
		else
			left++;
	}
	if (left > 0)
		printf("(%u more, of providers that do not fit or have to be asked for: weft info "
		       "-v)\n",
		       left);
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

/* The library says why only when something is to be opened. */
static int tell_none(const struct options *options, const struct weft_addr *toward,
		     const struct weft_net_opts *opts)
{
	struct weft_net *net = NULL;
	int ret = weft_net_open(&net, opts);
	if (ret == 0)
		weft_net_close(net);
	return fabric_fail(options, toward, ret < 0 ? ret : -ENODATA);
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
		print_list(all, options->verbose > 0);
	/* The chosen one comes first. */
	bool chosen = count > 0 && all->chosen;
	weft_candidate_free(all);
	if (stop_wanted())
		return EXIT_INTERRUPTED;
	if (count == 0)
		return fail(EXIT_FAILED,
			    "libfabric offers nothing here; see FI_PROVIDER, and fi_info(1)");
	if (!chosen)
		return tell_none(options, toward, &opts);
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
