/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdio.h>

#include "advice.h"
#include "host.h"
#include "probe.h"
#include "software.h"

/* EFA's code for a peer that never answered, whose advice is about security groups. */
#define EFA_NEVER_ANSWERED 15

/* The library's advice is a sentence; here it goes on after a semicolon. */
static const char *continued(const char *advice)
{
	static char text[700];
	snprintf(text, sizeof(text), "%s", advice);
	if (!isupper((unsigned char)text[1]))
		text[0] = (char)tolower((unsigned char)text[0]);
	return text;
}

/* Between hosts, each end has to be where the other one reaches it. */
static const char *software_advice(const struct fabric *fabric, const char *peer_ip)
{
	char own_ip[INET_ADDRSTRLEN];
	bool near = host_is_loopback(peer_ip) ||
		    (software_ip(&fabric->addr, own_ip) && host_is_loopback(own_ip));
	return near ? "is weft serve running there, with this address? 127.0.0.1 is each host "
		      "itself: "
		      "between hosts, both ends need SOFTEFA_BIND"
		    : "is weft serve running there, with this address? Does a firewall drop UDP "
		      "between the two?";
}

const char *advice_unanswered(const struct fabric *fabric, const struct weft_addr *peer,
			      const struct weft_closed *closed)
{
	static char said[NI_MAXHOST + 100];
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	char ip[INET_ADDRSTRLEN];
	const char *found = NULL;
	if (software_ip(peer, ip))
		return software_advice(fabric, ip);
	if (closed && closed->advice)
		return continued(closed->advice);
	if (peer->scheme == WEFT_SCHEME_EFA)
		return "is weft serve running there, with this address? Does the security group "
		       "allow all traffic from and to itself?";
	if (peer->scheme == WEFT_SCHEME_SHM)
		return "is weft serve running there, with this address, in the same /dev/shm?";
	if (peer->scheme == WEFT_SCHEME_TCP)
		found = probe_tcp(peer);
	if (!found && host_of(peer, host, port) && host_is_loopback(host)) {
		snprintf(said, sizeof(said),
			 "%s is this host itself; a server on another host has to be started with "
			 "--bind",
			 host);
		found = said;
	}
	return found ? found
		     : "is weft serve running there, with this address? Does a firewall stand "
		       "between?";
}

const char *advice_closed(const struct fabric *fabric, const struct weft_addr *peer,
			  const struct weft_closed *closed)
{
	static char text[1400];
	char ip[INET_ADDRSTRLEN];
	const char *advice = closed->advice ? continued(closed->advice) : NULL;
	if (closed->reason == WEFT_REASON_FULL)
		advice = "try again later, or give weft serve a larger --max-peers";
	else if (closed->reason == WEFT_REASON_REFUSED && closed->code == REFUSED_ONCE)
		advice = "as of weft serve --once, which takes no second session";
	else if (closed->prov_errno == EFA_NEVER_ANSWERED && software_ip(peer, ip))
		advice = software_advice(fabric, ip);
	snprintf(text, sizeof(text), "%s%s%s", closed->text, advice ? "; " : "",
		 advice ? advice : "");
	return text;
}
