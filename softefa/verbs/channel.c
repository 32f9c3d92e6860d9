/* SPDX-License-Identifier: MIT */
/* Completion channels: a pipe, through which go pointers to the queues that have something. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "entry.h"

struct ibv_comp_channel *soft_ibv_create_comp_channel(struct ibv_context *context)
{
	int fds[2];
	struct soft_channel *channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(channel);
		return NULL;
	}
	channel->channel.context = context;
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->channel;
}

int soft_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
	struct soft_channel *channel = (struct soft_channel *)ibv_channel;
	soft_lock();
	unsigned users = channel->users;
	soft_unlock();
	if (users > 0)
		return EBUSY;
	close(ibv_channel->fd);
	close(channel->write_fd);
	free(channel);
	return 0;
}

/*
 * A queue has at most one signal in the pipe that was not asked for since, so the pipe does not
 * fill up.
 */
void soft_channel_signal(struct soft_channel *channel, struct soft_cq *cq)
{
	ssize_t put = write(channel->write_fd, &cq, sizeof(struct soft_cq *));
	(void)put;
}

void soft_channel_purge(struct soft_channel *channel, const struct soft_cq *cq)
{
	struct pollfd readable = {.fd = channel->channel.fd, .events = POLLIN};
	struct soft_cq *kept[256];
	size_t count = 0;
	while (count < sizeof(kept) / sizeof(kept[0]) && poll(&readable, 1, 0) == 1) {
		struct soft_cq *got;
		if (read(channel->channel.fd, &got, sizeof(struct soft_cq *)) !=
		    sizeof(struct soft_cq *))
			break;
		if (got != cq)
			kept[count++] = got;
	}
	for (size_t i = 0; i < count; i++)
		soft_channel_signal(channel, kept[i]);
}

int soft_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv_cq,
			  void **cq_context)
{
	struct soft_cq *cq;
	ssize_t got = read(channel->fd, &cq, sizeof(struct soft_cq *));
	if (got != sizeof(struct soft_cq *))
		return -1;
	soft_lock();
	cq->events++;
	soft_unlock();
	*ibv_cq = (struct ibv_cq *)&cq->ex;
	*cq_context = cq->ex.cq_context;
	return 0;
}

void soft_ibv_ack_cq_events(struct ibv_cq *ibv_cq, unsigned int nevents)
{
	struct soft_cq *cq = soft_cq_of(ibv_cq);
	soft_lock();
	cq->ex.comp_events_completed += nevents;
	bool excess = cq->ex.comp_events_completed - cq->events - 1 < UINT32_MAX / 2;
	soft_unlock();
	if (excess)
		soft_breach("more events acknowledged than were taken");
}
