/* SPDX-License-Identifier: MIT */
/* The fake fabric itself: that it sees what is wrong, and that its clock and files are what they
 * seem. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fake.h"

/* An endpoint opened by hand, as the library opens it. */
struct rig {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	fi_addr_t self;
	char data[64];
	struct fi_context2 context[2];
};

static void rig_open(struct rig *rig, const struct fake_provider *provider)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = {.size = 64, .format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	char name[WEFT_ADDR_MAX];
	size_t len = sizeof(name);
	memset(rig, 0, sizeof(*rig));
	fake_offer(provider);
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	assert_int_equal(fi_getinfo(fi_version(), NULL, NULL, 0, hints, &rig->info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(rig->info->fabric_attr, &rig->fabric, NULL), 0);
	assert_int_equal(fi_domain(rig->fabric, rig->info, &rig->domain, NULL), 0);
	assert_int_equal(fi_av_open(rig->domain, &av_attr, &rig->av, NULL), 0);
	assert_int_equal(fi_cq_open(rig->domain, &cq_attr, &rig->cq, NULL), 0);
	assert_int_equal(fi_endpoint(rig->domain, rig->info, &rig->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(rig->ep, &rig->cq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(rig->ep, &rig->cq->fid, FI_RECV), 0);
	assert_int_equal(fi_ep_bind(rig->ep, &rig->av->fid, 0), 0);
	assert_int_equal(fi_enable(rig->ep), 0);
	assert_int_equal(fi_getname(&rig->ep->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(rig->av, name, 1, &rig->self, 0, NULL), 1);
	assert_int_equal(
		fi_mr_reg(rig->domain, rig->data, 32, FI_SEND | FI_RECV, 0, 77, 0, &rig->mr, NULL),
		0);
}

static void rig_close(struct rig *rig)
{
	struct fid *fids[] = {&rig->ep->fid, &rig->mr->fid,	&rig->av->fid,
			      &rig->cq->fid, &rig->domain->fid, &rig->fabric->fid};
	struct fake_left left;
	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
		assert_int_equal(fi_close(fids[i]), 0);
	fi_freeinfo(rig->info);
	fake_get_left(&left);
	assert_int_equal(left.objects + left.works + left.allocations + left.files + left.names, 0);
}

static int setup(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

/* What the fake said last, which must have these words in it. */
static void saw(const char *words)
{
	const char *text = fake_violation();
	if (!text)
		fail_msg("the fake did not notice: %s", words);
	else if (!strstr(text, words))
		fail_msg("'%s' does not say '%s'", text, words);
}

static void what_is_right_passes(void **state)
{
	struct rig rig;
	struct fi_cq_tagged_entry entry;
	(void)state;
	rig_open(&rig, &fake_raw);
	void *desc = fi_mr_desc(rig.mr);
	assert_int_equal(fi_recv(rig.ep, rig.data, 16, desc, FI_ADDR_UNSPEC, &rig.context[0]), 0);
	assert_int_equal(fi_send(rig.ep, rig.data + 16, 16, desc, rig.self, &rig.context[1]), 0);
	assert_int_equal(fi_cq_read(rig.cq, &entry, 1), -FI_EAGAIN);
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(fi_cq_read(rig.cq, &entry, 1), 1);
	assert_ptr_equal(entry.op_context, &rig.context[1]);
	assert_int_equal(fi_cq_read(rig.cq, &entry, 1), 1);
	assert_ptr_equal(entry.op_context, &rig.context[0]);
	assert_int_equal(fi_cq_read(rig.cq, &entry, 1), -FI_EAGAIN);
	rig_close(&rig);
}

static void wrong_memory_is_seen(void **state)
{
	struct rig rig;
	struct fid_mr *other;
	(void)state;
	rig_open(&rig, &fake_raw);
	void *desc = fi_mr_desc(rig.mr);
	fake_expect_violation(true);
	fi_send(rig.ep, rig.data, 16, NULL, rig.self, &rig.context[0]);
	saw("without a descriptor");
	fake_advance_ns(FAKE_NS_PER_MS);
	fi_send(rig.ep, rig.data, 33, desc, rig.self, &rig.context[0]);
	saw("beyond what is registered");
	fake_advance_ns(FAKE_NS_PER_MS);
	fi_send(rig.ep, rig.data, 16, rig.data, rig.self, &rig.context[0]);
	saw("none of this domain");
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(fi_mr_reg(rig.domain, rig.data, 32, FI_RECV, 0, 78, 0, &other, NULL), 0);
	fi_send(rig.ep, rig.data, 16, fi_mr_desc(other), rig.self, &rig.context[0]);
	saw("not registered for it");
	fake_advance_ns(FAKE_NS_PER_MS);
	assert_int_equal(fi_close(&other->fid), 0);

	fi_send(rig.ep, rig.data, 16, desc, rig.self, &rig.context[0]);
	rig.data[3]++;
	fake_advance_ns(FAKE_NS_PER_MS);
	saw("memory was changed");
	fi_send(rig.ep, rig.data, 16, desc, rig.self, &rig.context[0]);
	memset(&rig.context[0], 0, sizeof(rig.context[0]));
	fake_advance_ns(FAKE_NS_PER_MS);
	saw("context of fi_send was changed");
	fi_send(rig.ep, rig.data, 16, desc, rig.self, &rig.context[0]);
	fi_send(rig.ep, rig.data, 16, desc, rig.self, &rig.context[0]);
	saw("that fi_send has");
	fake_advance_ns(FAKE_NS_PER_MS);
	saw("context of fi_send was changed or used twice");
	fi_recv(rig.ep, rig.data, 16, desc, FI_ADDR_UNSPEC, &rig.context[1]);
	fi_close(&rig.mr->fid);
	saw("deregistered under");
}

static void wrong_sends_are_seen(void **state)
{
	struct rig rig;
	struct fi_cq_err_entry error;
	static char big[2000];
	struct fid_mr *mr;
	(void)state;
	rig_open(&rig, &fake_raw);
	fake_expect_violation(true);
	assert_int_equal(fi_mr_reg(rig.domain, big, sizeof(big), FI_SEND, 0, 79, 0, &mr, NULL), 0);
	fi_send(rig.ep, big, sizeof(big), fi_mr_desc(mr), rig.self, &rig.context[0]);
	saw("too long");
	fi_senddata(rig.ep, big, 1, fi_mr_desc(mr), 1, rig.self, &rig.context[1]);
	saw("CQ data");
	assert_int_equal(fi_send(rig.ep, big, 1, fi_mr_desc(mr), rig.self + 1, &rig.context[0]),
			 -FI_EINVAL);
	saw("not in the address vector");
	memset(&error, 1, sizeof(error));
	fi_cq_readerr(rig.cq, &error, 0);
	saw("not zero");
	assert_int_equal(fi_mr_reg(rig.domain, big, 1, FI_SEND, 0, 79, 0, &mr, NULL), -FI_ENOKEY);
	assert_int_equal(fi_mr_reg(rig.domain, big, 1, FI_SEND, 0, 1 << 20, 0, &mr, NULL), 0);
	saw("more bytes");
	fi_av_remove(rig.av, &rig.self, 1, 0);
	saw("under way to the address");
}

static void wrong_order_of_closing_is_seen(void **state)
{
	struct rig rig;
	(void)state;
	rig_open(&rig, &fake_raw);
	fake_expect_violation(true);
	assert_int_equal(fi_close(&rig.cq->fid), -FI_EBUSY);
	saw("completion queue is closed before the endpoint");
	fi_close(&rig.cq->fid);
	saw("after a close that failed");
	assert_int_equal(fi_close(&rig.fabric->fid), -FI_EBUSY);
	saw("fabric is closed before the domain");
	assert_int_equal(fi_close(&rig.ep->fid), 0);
	assert_null(fake_violation());
	fi_send(rig.ep, rig.data, 1, fi_mr_desc(rig.mr), rig.self, &rig.context[0]);
	saw("fi_send on the endpoint after it was closed");
	fi_close(&rig.ep->fid);
	saw("after it was closed");
	assert_int_equal(fi_close(&rig.mr->fid), 0);
	assert_int_equal(fi_close(&rig.av->fid), 0);
	/* What cannot be closed keeps the domain open, which is nobody's fault. */
	assert_int_equal(fi_close(&rig.domain->fid), -FI_EBUSY);
	assert_null(fake_violation());
	struct fake_left left;
	fake_get_left(&left);
	assert_int_equal(left.objects, 3);
}

static void bad_addresses_spoil_the_vector(void **state)
{
	struct rig rig;
	struct sockaddr_in6 in = {.sin6_family = 99, .sin6_port = 1};
	fi_addr_t out;
	(void)state;
	rig_open(&rig, &fake_tcp);
	fake_expect_violation(true);
	assert_int_equal(fi_av_insert(rig.av, &in, 1, &out, 0, NULL), 0);
	saw("spoils");
	in.sin6_family = AF_INET;
	assert_int_equal(fi_av_insert(rig.av, &in, 1, &out, 0, NULL), 0);
}

static void blocking_close_is_seen(void **state)
{
	struct fake_provider blocking = fake_efa;
	struct rig rig;
	(void)state;
	blocking.close_blocks = true;
	rig_open(&rig, &blocking);
	fake_expect_violation(true);
	fi_send(rig.ep, rig.data, 1, fi_mr_desc(rig.mr), rig.self, &rig.context[0]);
	fi_close(&rig.ep->fid);
	saw("would not return");
}

static void note(void *arg)
{
	int64_t *at = arg;
	*at = fake_now_ns();
}

static void time_jumps_from_event_to_event(void **state)
{
	int64_t at[2] = {0};
	(void)state;
	int64_t start = fake_now_ns();
	fake_at(5 * FAKE_NS_PER_MS, note, &at[1]);
	fake_at(2 * FAKE_NS_PER_MS, note, &at[0]);
	fake_advance_ns(3 * FAKE_NS_PER_MS);
	assert_int_equal(at[0] - start, 2 * FAKE_NS_PER_MS);
	assert_int_equal(at[1], 0);
	fake_advance_ns(3 * FAKE_NS_PER_MS);
	assert_int_equal(at[1] - start, 5 * FAKE_NS_PER_MS);
	assert_int_equal(fake_now_ns() - start, 6 * FAKE_NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_right_passes, setup),
		cmocka_unit_test_setup(wrong_memory_is_seen, setup),
		cmocka_unit_test_setup(wrong_sends_are_seen, setup),
		cmocka_unit_test_setup(wrong_order_of_closing_is_seen, setup),
		cmocka_unit_test_setup(bad_addresses_spoil_the_vector, setup),
		cmocka_unit_test_setup(blocking_close_is_seen, setup),
		cmocka_unit_test_setup(time_jumps_from_event_to_event, setup),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);
	/* Frees what is left of the last world, or LeakSanitizer takes it for a leak. */
	fake_reset();
	return ret;
}
