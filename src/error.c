/* SPDX-License-Identifier: MIT */
/*
 * error.c: what codes mean: errno's, libfabric's, and the EFA provider's own; and which weft runs.
 *
 * It calls libc and fi_strerror(), keeps no state and returns constant texts, so every function can
 * be called from any thread. strerror() is not used: its text is in a buffer that the next call of
 * any thread may overwrite, and it depends on the locale.
 */
#include <stddef.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <weft/net.h>

#include "error.h"

/* Leaves room for what later libfabrics add; they are not asked about anything beyond. */
#define FI_CODES_END (FI_ERRNO_OFFSET + 256)

const char *weft_version(void)
{
	return WEFT_VERSION;
}

const char *weft_strerror(int code)
{
	/* -INT_MIN does not fit an int. */
	unsigned n = code < 0 ? 0u - (unsigned)code : (unsigned)code;
	const char *text = NULL;

	if (n == 0)
		return "success";
	if (n < FI_ERRNO_OFFSET) {
		text = strerrordesc_np((int)n);
	} else if (n < FI_CODES_END) {
		/*
		 * What it does not know, libfabric calls by the text of FI_EOTHER. It is asked, and
		 * not a list of ours, since the library that runs may be newer than the headers.
		 */
		text = fi_strerror((int)n);
		if (n != FI_EOTHER && text != NULL && strcmp(text, fi_strerror(FI_EOTHER)) == 0)
			text = NULL;
	}
	return text != NULL ? text : "unknown code";
}

struct advice {
	int code;
	const char *text;
};

/* Of codes that only say which step of the provider failed. */
static const char inside[] =
	"Something failed inside the provider. Run again with FI_LOG_LEVEL=warn in the "
	"environment, and libfabric says what. Check that both hosts run the same libfabric.";

/*
 * Codes up to 4095 are the device's, as it reports them with a completion; from 4096 on they are
 * the provider's. The names of the numbers are in libfabric's prov/efa/src/efa_errno.h, which is
 * not installed.
 */
static const struct advice efa_advice[] = {
	{1,
	 "The endpoint was being closed, and what it had not finished was dropped. If nobody "
	 "closed it, look for an earlier error."},
	{2,
	 "The EFA device has put the queue of this endpoint out of use. Close the net and open "
	 "a new one; if that happens again, look at the kernel's log and update the EFA driver."},
	{3,
	 "This EFA device cannot do this kind of operation, for example one-sided writes on "
	 "older instance types. Use messages instead, or another instance type."},
	{4,
	 "The device no longer knows the way to this peer, as when it was removed while "
	 "operations were under way. Add the peer again with its present address."},
	{5,
	 "The memory of the buffer is not registered, or not for this use, or was unmapped "
	 "after it was registered. Keep buffers mapped and referenced until their operation "
	 "ends."},
	{6,
	 "The message is longer than the device takes in one piece. Send at most max_msg bytes."},
	{7,
	 "The peer's memory cannot be used: its buffer is gone, the key or the address is "
	 "wrong, or the access was not given. Have the peer share its buffer again and send the "
	 "new key. If it was a message, check that EFA is enabled on the peer's interface."},
	{8,
	 "The peer broke the transfer off; its process has probably ended or closed its "
	 "endpoint. If it was restarted, get its new address."},
	{9,
	 "The peer's process is gone, or was restarted: nothing on that host has the queue "
	 "number of this address any more. Get the peer's present address and use that."},
	{10,
	 "The peer is there but had no receive ready. Let it post more receives and poll more "
	 "often, or send less at a time."},
	{11,
	 "The message is longer than the receive that the peer had posted. Send less at once, "
	 "or let the peer post larger buffers."},
	{12,
	 "The peer's device gave an answer that ours does not understand. Use the same EFA "
	 "driver and libfabric versions on both hosts, and look at the peer's own errors."},
	{13,
	 "The peer used to answer and has stopped: its host is down or overloaded, the network "
	 "between is cut, or its process ended. Check the host, then connect again."},
	{14,
	 "The peer does not know this side, and answers to one-sided operations need that. Let "
	 "the peer add our address first, for example by sending it in a message."},
	{15,
	 "The peer never answered. Most often a security group is in the way: it must allow all "
	 "traffic to and from itself, in both directions, and 0.0.0.0/0 does not include EFA. "
	 "Both hosts must be in one subnet or availability zone. Else the peer's process has "
	 "ended."},
	{18,
	 "The peer's device or settings lack something that this operation needs. Use the same "
	 "instance type, EFA driver and libfabric on both hosts."},
	{4096, inside},
	{4097,
	 "The peer speaks an EFA protocol that this libfabric has given up. Use the same "
	 "libfabric version on both hosts."},
	{4098,
	 "A packet of a kind that does not belong here came in. Use the same libfabric version "
	 "on both hosts."},
	{4099,
	 "A packet of unknown kind came in: the peer's libfabric is probably newer. Use the "
	 "same version on both hosts."},
	{4100, inside},
	{4101, inside},
	{4102, inside},
	{4103, inside},
	{4104, inside},
	{4105,
	 "The provider ran out of memory. Start fewer operations at a time, and check the "
	 "memory limits of the process (ulimit -v, -l) and of its container."},
	{4106, inside},
	{4107, inside},
	{4108,
	 "The provider cannot take in more messages: too many came before a receive was posted. "
	 "Post receives earlier and poll more often, or let the peers send less at a time."},
	{4109,
	 "Too many operations are under way. Start fewer at a time, and poll more often."},
	{4110,
	 "A peer that sent to us cannot be added: the device or the address vector is full. Use "
	 "fewer peers in one net."},
	{4111,
	 "A peer asked for memory with a wrong key or address, or for memory that is no longer "
	 "shared. Share the buffer again and send the peer the new key."},
	{4112,
	 "The provider cannot post its own receive buffers. Raise the limit of locked memory "
	 "(ulimit -l, or memlock in limits.conf or the container's settings)."},
	{4113, inside},
	{4114, inside},
	{4115,
	 "Two parts of one message disagree about its length. Use the same libfabric version on "
	 "both hosts."},
	{4116, inside},
	{4117, inside},
	{4118, inside},
	{4119,
	 "The end of a send could not be reported: the completion queue is probably full. Poll "
	 "more often, or start fewer operations at a time."},
	{4120,
	 "The end of a receive could not be reported: the completion queue is probably full. "
	 "Poll more often, or post fewer receives."},
	{4121, inside},
	{4122,
	 "The shared memory path to a peer on the same host failed. Check that /dev/shm has "
	 "room and that the peer lives, or set FI_EFA_ENABLE_SHM_TRANSFER=0 to do without it."},
	{4123,
	 "The end of an operation over shared memory could not be reported: the completion "
	 "queue is probably full. Poll more often."},
	{4124,
	 "The peer answered before and does not any more: its process or its host is gone, or "
	 "its device has failed. Check the host, then get the peer's present address."},
	{4125,
	 "The peer's packets do not fit the zero-copy receive of this side. Use the same "
	 "libfabric version on both hosts, or set FI_EFA_USE_ZCPY_RX=0."},
	{4126,
	 "The peer's host is within reach, but its process never answered: it has ended, it was "
	 "restarted at another address, or it does not poll. Get its present address."},
	{4127,
	 "The peer closed its endpoint or its buffer in the middle of the transfer. If it was "
	 "restarted, get its present address; else ask it why it gave up."},
};

const char *weft__efa_advice(int prov_errno)
{
	for (size_t i = 0; i < sizeof(efa_advice) / sizeof(efa_advice[0]); i++) {
		if (efa_advice[i].code == prov_errno)
			return efa_advice[i].text;
	}
	return NULL;
}
