/* SPDX-License-Identifier: MIT */
/*
 * Which versions are at work: of the tool, of libweft, and of libfabric, compiled against and running.
 */
#ifndef TOOL_VERSIONS_H
#define TOOL_VERSIONS_H

#include <weft/net.h>

/* Puts the versions into the document, as a net that is open tells them. */
void versions_note(const struct weft_net_info *info);

/* Prints the versions, or puts them into the document. Returns an exit status. */
int versions_run(int json);

#endif
