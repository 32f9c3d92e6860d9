/* SPDX-License-Identifier: MIT */
/*
 * A UDP socket as a struct sefa_net. Reads datagrams in batches, and learns from the kernel who is
 * not there.
 */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"

#define BATCH 16
/* One byte more than any packet has shows that a datagram is too long to be one. */
#define SLOT (SEFA_DATAGRAM_MAX + 1)
#define SOCKET_BUFFER (4 << 20)

struct udp {
	struct sefa_net net;
	int fd;
	int have, next;
	bool errors; /* the kernel has something to tell */
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in from[BATCH];
	uint8_t data[BATCH][SLOT];
};

static struct sockaddr_in to_sockaddr(struct sefa_end end)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(end.qpn)};
	in.sin_addr.s_addr = htonl(end.ip);
	return in;
}

/*
 * What the kernel reports of earlier datagrams comes as the error of a later call, which has then
 * done nothing.
 */
static bool is_report(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
	       error == EPROTO || error == EMSGSIZE || error == EOPNOTSUPP || error == EHOSTDOWN;
}

static int udp_send(struct sefa_net *net, struct sefa_end to, const struct iovec *iov, int count)
{
	struct udp *udp = (struct udp *)net;
	struct sockaddr_in in = to_sockaddr(to);
	struct msghdr msg = {.msg_name = &in, .msg_namelen = sizeof(in)};
	msg.msg_iov = (struct iovec *)(uintptr_t)iov;
	msg.msg_iovlen = (size_t)count;
	/*
	 * Each report takes one call; those of the reports that are meant for this very datagram
	 * come again.
	 */
	for (int i = 0; i < 4; i++) {
		if (sendmsg(udp->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR || errno == ENOMEM)
			return -EAGAIN;
		if (errno == EFAULT)
			return -EFAULT;
		udp->errors = true;
		if (!is_report(errno))
			break;
	}
	return -errno;
}

static int fill(struct udp *udp)
{
	udp->have = udp->next = 0;
	for (int i = 0; i < BATCH; i++) {
		udp->iov[i] = (struct iovec){udp->data[i], SLOT};
		udp->msgs[i].msg_hdr = (struct msghdr){.msg_name = &udp->from[i],
						       .msg_namelen = sizeof(udp->from[i]),
						       .msg_iov = &udp->iov[i],
						       .msg_iovlen = 1};
	}
	for (int i = 0; i < BATCH; i++) {
		int got = recvmmsg(udp->fd, udp->msgs, BATCH, MSG_DONTWAIT, NULL);
		if (got > 0) {
			udp->have = got;
			return 0;
		}
		if (got == 0 || !is_report(errno))
			break;
		udp->errors = true;
	}
	return -EAGAIN;
}

static int udp_receive(struct sefa_net *net, struct sefa_end *from, const uint8_t **data)
{
	struct udp *udp = (struct udp *)net;
	if (udp->next == udp->have && fill(udp) < 0)
		return -EAGAIN;
	int i = udp->next++;
	from->ip = ntohl(udp->from[i].sin_addr.s_addr);
	from->qpn = ntohs(udp->from[i].sin_port);
	*data = udp->data[i];
	return (int)udp->msgs[i].msg_len;
}

static bool is_port_unreachable(const struct sock_extended_err *error)
{
	return error->ee_origin == SO_EE_ORIGIN_ICMP && error->ee_type == ICMP_DEST_UNREACH &&
	       error->ee_code == ICMP_PORT_UNREACH;
}

static bool udp_refused(struct sefa_net *net, struct sefa_refusal *refusal)
{
	struct udp *udp = (struct udp *)net;
	while (udp->errors) {
		struct sockaddr_in in = {.sin_family = AF_UNSPEC};
		uint8_t piece[64];
		struct iovec iov = {piece, sizeof(piece)};
		union {
			char bytes[512];
			struct cmsghdr align;
		} control;
		struct msghdr msg = {.msg_name = &in,
				     .msg_namelen = sizeof(in),
				     .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = control.bytes,
				     .msg_controllen = sizeof(control.bytes)};
		ssize_t got = recvmsg(udp->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (got < 0) {
			udp->errors = false;
			break;
		}
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
			struct sock_extended_err error;
			if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR)
				continue;
			memcpy(&error, CMSG_DATA(c), sizeof(error));
			if (in.sin_family != AF_INET || error.ee_errno == EMSGSIZE)
				continue;
			refusal->end.ip = ntohl(in.sin_addr.s_addr);
			refusal->end.qpn = ntohs(in.sin_port);
			refusal->port = is_port_unreachable(&error);
			refusal->has_flow =
				sefa_packet_flow_of(piece, (size_t)got, &refusal->flow) == 0;
			return true;
		}
	}
	return false;
}

static uint64_t udp_turn(struct sefa_net *net, uint64_t now)
{
	(void)net;
	(void)now;
	return UINT64_MAX;
}

static void udp_close(struct sefa_net *net)
{
	struct udp *udp = (struct udp *)net;
	close(udp->fd);
	free(udp);
}

static int configure(int fd)
{
	int on = 1, size = SOCKET_BUFFER, fragment = IP_PMTUDISC_DONT;
	if (setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &fragment, sizeof(fragment)) < 0)
		return -errno;
	/*
	 * Beyond the system's limit where that is allowed, and up to it elsewhere; what is lost is
	 * sent again.
	 */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return 0;
}

int sefa_udp_open(struct sefa_net **net, uint32_t ip, uint16_t *port)
{
	struct sockaddr_in in = to_sockaddr((struct sefa_end){ip, *port});
	socklen_t len = sizeof(in);
	struct udp *udp = calloc(1, sizeof(*udp));
	if (!udp)
		return -ENOMEM;
	int ret;
	udp->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (udp->fd < 0) {
		ret = -errno;
		goto free_udp;
	}
	ret = configure(udp->fd);
	if (ret < 0)
		goto close_fd;
	if (bind(udp->fd, (struct sockaddr *)&in, sizeof(in)) < 0 ||
	    getsockname(udp->fd, (struct sockaddr *)&in, &len) < 0) {
		ret = -errno;
		goto close_fd;
	}
	*port = ntohs(in.sin_port);
	udp->net = (struct sefa_net){udp_send, udp_receive, udp_refused, udp_turn, udp_close};
	*net = &udp->net;
	return 0;

close_fd:
	close(udp->fd);
free_udp:
	free(udp);
	return ret;
}

int sefa_udp_fd(const struct sefa_net *net)
{
	return ((const struct udp *)net)->fd;
}
