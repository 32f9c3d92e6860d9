/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "json.h"
#include "options.h"
#include "versions.h"

#define VERSION_TEXT 24

/* libfabric's numbers are FI_VERSION(major, minor). */
static const char *format(char *text, uint32_t version)
{
	snprintf(text, VERSION_TEXT, "%u.%u", version >> 16, version & 0xffff);
	return text;
}

void versions_note(const struct weft_net_info *info)
{
	char built[VERSION_TEXT];
	char running[VERSION_TEXT];
	document_set("versions",
		     json_pack("{s:s, s:s, s:s, s:s}", "weft", WEFT_VERSION, "libweft",
			       weft_version(), "libfabric_compiled",
			       format(built, info->libfabric_built), "libfabric_running",
			       format(running, info->libfabric_running)));
}

int versions_run(int json)
{
	struct weft_net_opts opts = WEFT_NET_OPTS_INIT;
	struct weft_net_info info = WEFT_NET_INFO_INIT;
	struct weft_net *net;
	char built[VERSION_TEXT];
	char running[VERSION_TEXT];
	/* libfabric's versions are told by a net that is open; shm is there on every machine, and
	 * light. */
	opts.provider = "shm";
	int ret = weft_net_open(&net, &opts);
	if (ret < 0) {
		opts.provider = NULL;
		ret = weft_net_open(&net, &opts);
	}
	if (ret == 0) {
		weft_net_get_info(net, &info);
		format(built, info.libfabric_built);
		format(running, info.libfabric_running);
	}
	if (json && ret == 0)
		versions_note(&info);
	else if (json)
		document_set("versions", json_pack("{s:s, s:s}", "weft", WEFT_VERSION, "libweft",
						   weft_version()));
	else if (ret == 0)
		printf("weft %s\nlibweft %s\nlibfabric %s at compile time, %s at run time\n",
		       WEFT_VERSION, weft_version(), built, running);
	else
		printf("weft %s\nlibweft %s\nlibfabric: not known, since it opens nothing here: "
		       "%s\n",
		       WEFT_VERSION, weft_version(), weft_strerror(ret));
	if (ret == 0)
		weft_net_close(net);
	return EXIT_DONE;
}
