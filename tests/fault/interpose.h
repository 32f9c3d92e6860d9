/* SPDX-License-Identifier: MIT */
/*
 * Faults on a real provider: gives the endpoint, completion queue, address vector and domain of a
 * net copies of their ops tables, in which some entries are replaced. What is replaced does as the
 * fields below say, and otherwise calls the real one. It is for one net at a time.
 */
#ifndef WEFT_TESTS_INTERPOSE_H
#define WEFT_TESTS_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/net.h>

struct interposed {
	/* Sends and receives: the next so many are answered by the code (negative) and not done.
	 * -1: all. */
	int refuse_sends, send_code;
	int refuse_recvs, recv_code;
	int lose_sends; /* taken, and neither done nor ever completed */
	/* Completions of sends and receives alike. */
	int hold_back;	/* the next so many are kept, and told in the opposite order when all have
			   come */
	int break_next; /* the next so many become error completions */
	int break_err, break_prov_errno;
	int read_code; /* not 0: what every read of the completion queue answers */
	int refuse_regs, reg_code;
	int refuse_inserts, insert_code;
	int close_code; /* not 0: what closing the endpoint answers */
	/* How often the real or the replaced one was called. */
	int sends, recvs, reads, regs, inserts, closes;
};
extern struct interposed interposed;

/* Starts with no fault. */
void interpose(struct weft_net *net);

/* Gives the objects their real tables back. Not after the net has been closed. */
void interpose_end(void);

/* Closes the objects of a net that weft_net_close() has left because of close_code. Returns how
 * many would not. */
int interpose_close_left(void);

#endif
