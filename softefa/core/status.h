/* SPDX-License-Identifier: MIT */
/* How a work request ends: the numbers that EFA's hardware reports, which libfabric shows as prov_errno. */
#ifndef SEFA_STATUS_H
#define SEFA_STATUS_H

enum sefa_status {
	SEFA_OK = 0,
	SEFA_FLUSHED = 1,
	SEFA_QP_ERROR = 2,
	SEFA_UNSUPPORTED_OP = 3,
	SEFA_INVALID_AH = 4,
	SEFA_INVALID_LKEY = 5,
	SEFA_LOCAL_LENGTH = 6,
	SEFA_BAD_ADDRESS = 7,    /* the remote key is not one, or does not cover the range */
	SEFA_ABORTED = 8,
	SEFA_BAD_QPN = 9,        /* no such queue pair there, or another one than was meant */
	SEFA_RNR = 10,           /* the receiver has no buffer posted */
	SEFA_REMOTE_LENGTH = 11, /* the receiver's buffer is too short */
	SEFA_BAD_STATUS = 12,
	SEFA_UNRESPONSIVE = 13,  /* no answer within the time-out */
	SEFA_UNKNOWN_PEER = 14,  /* one-sided access by someone to whom the target has no address handle */
	SEFA_UNREACHABLE = 15,   /* the network says that there is no way to the host */
	SEFA_STATUS_MAX,
};

#endif
