/* SPDX-License-Identifier: MIT */
/*
 * All entry points of libibverbs and libefa that this library defines. To be included with two macros:
 *
 *	ENTRY(type, name, parameters, arguments, otherwise)	soft_name does it
 *	DECLINE(type, name, parameters, arguments, otherwise)	the device has not got it
 *
 * `otherwise` is what is returned where nobody does it. Names that older headers do not have are declared by face.c.
 * Parameters are named as in the headers, where those name them.
 */
ENTRY(struct ibv_device **, ibv_get_device_list, (int *num_devices), (num_devices), NULL)
ENTRY_VOID(ibv_free_device_list, (struct ibv_device **list), (list))
ENTRY(const char *, ibv_get_device_name, (struct ibv_device *device), (device), NULL)
ENTRY(int, ibv_get_device_index, (struct ibv_device *device), (device), -1)
ENTRY(__be64, ibv_get_device_guid, (struct ibv_device *device), (device), 0)
ENTRY(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device), NULL)
ENTRY(int, ibv_close_device, (struct ibv_context *context), (context), EOPNOTSUPP)
ENTRY(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr), EOPNOTSUPP)
ENTRY(int, ibv_query_port, (struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr),
	(context, port, attr), EOPNOTSUPP)
ENTRY(int, ibv_query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid),
	(context, port, index, gid), EOPNOTSUPP)
ENTRY(int, _ibv_query_gid_ex,
	(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
	 size_t size),
	(context, port, index, entry, flags, size), EOPNOTSUPP)
ENTRY(int, ibv_query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey),
	(context, port, index, pkey), EOPNOTSUPP)
ENTRY(int, ibv_fork_init, (void), (), 0)
ENTRY(enum ibv_fork_status, ibv_is_fork_initialized, (void), (), IBV_FORK_UNNEEDED)
ENTRY(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status), "unknown")

ENTRY(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context), NULL)
ENTRY(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd), EOPNOTSUPP)
ENTRY(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t len, int access), (pd, addr, len, access),
	NULL)
ENTRY(struct ibv_mr *, ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access),
	(pd, addr, len, iova, access), NULL)
ENTRY(struct ibv_mr *, ibv_reg_mr_iova2,
	(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access), (pd, addr, len, iova, access),
	NULL)
ENTRY(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr), EOPNOTSUPP)
ENTRY(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr), NULL)
ENTRY(int, ibv_destroy_ah, (struct ibv_ah *ah), (ah), EOPNOTSUPP)

ENTRY(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *context), (context), NULL)
ENTRY(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel), EOPNOTSUPP)
ENTRY(int, ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
	(channel, cq, cq_context), -1)
ENTRY_VOID(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int nevents), (cq, nevents))
ENTRY(struct ibv_cq *, ibv_create_cq,
	(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector),
	(context, cqe, cq_context, channel, vector), NULL)
ENTRY(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq), EOPNOTSUPP)

ENTRY(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr), NULL)
ENTRY(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp), NULL)
ENTRY(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask), EOPNOTSUPP)
ENTRY(int, ibv_query_qp,
	(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init), (qp, attr, mask, init),
	EOPNOTSUPP)
ENTRY(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp), EOPNOTSUPP)

ENTRY(int, efadv_query_device, (struct ibv_context *ibvctx, struct efadv_device_attr *attr, uint32_t len),
	(ibvctx, attr, len), EOPNOTSUPP)
ENTRY(int, efadv_query_ah, (struct ibv_ah *ah, struct efadv_ah_attr *attr, uint32_t len), (ah, attr, len), EOPNOTSUPP)
ENTRY(struct ibv_cq_ex *, efadv_create_cq,
	(struct ibv_context *ibvctx, struct ibv_cq_init_attr_ex *attr, struct efadv_cq_init_attr *efa, uint32_t len),
	(ibvctx, attr, efa, len), NULL)
ENTRY(struct efadv_cq *, efadv_cq_from_ibv_cq_ex, (struct ibv_cq_ex *ibvcqx), (ibvcqx), NULL)
ENTRY(struct ibv_qp *, efadv_create_qp_ex,
	(struct ibv_context *ibvctx, struct ibv_qp_init_attr_ex *attr, struct efadv_qp_init_attr *efa, uint32_t len),
	(ibvctx, attr, efa, len), NULL)
ENTRY(struct ibv_qp *, efadv_create_driver_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t type),
	(pd, attr, type), NULL)

DECLINE(struct ibv_mr *, ibv_reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t off, size_t len, uint64_t iova, int fd, int access),
	(pd, off, len, iova, fd, access), NULL)
DECLINE(int, ibv_rereg_mr, (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access),
	(mr, flags, pd, addr, len, access), IBV_REREG_MR_ERR_INPUT)
DECLINE(int, ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe), EOPNOTSUPP)
DECLINE(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr), NULL)
DECLINE(int, ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask),
	EOPNOTSUPP)
DECLINE(int, ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr), EOPNOTSUPP)
DECLINE(int, ibv_destroy_srq, (struct ibv_srq *srq), (srq), EOPNOTSUPP)
DECLINE(struct ibv_ah *, ibv_create_ah_from_wc,
	(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port), (pd, wc, grh, port), NULL)
DECLINE(int, ibv_attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), EOPNOTSUPP)
DECLINE(int, ibv_detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), EOPNOTSUPP)
DECLINE(int, ibv_get_async_event, (struct ibv_context *context, struct ibv_async_event *event), (context, event), -1)
DECLINE(int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags), 0)

DECLINE(int, efadv_query_mr, (struct ibv_mr *mr, struct efadv_mr_attr *attr, uint32_t len), (mr, attr, len),
	EOPNOTSUPP)
DECLINE(int, efadv_query_cq, (struct ibv_cq *cq, struct efadv_cq_attr *attr, uint32_t len), (cq, attr, len), EOPNOTSUPP)
DECLINE(int, efadv_query_qp_wqs,
	(struct ibv_qp *qp, struct efadv_wq_attr *sq, struct efadv_wq_attr *rq, uint32_t len), (qp, sq, rq, len),
	EOPNOTSUPP)
DECLINE(int, efadv_get_max_sq_depth, (struct ibv_context *context, struct efadv_sq_depth_attr *attr, uint32_t len),
	(context, attr, len), -EOPNOTSUPP)
DECLINE(int, efadv_get_max_rq_depth, (struct ibv_context *context, struct efadv_rq_depth_attr *attr, uint32_t len),
	(context, attr, len), -EOPNOTSUPP)
DECLINE(struct efadv_qp *, efadv_qp_from_ibv_qp_ex, (struct ibv_qp_ex *qp), (qp), NULL)
DECLINE(struct ibv_comp_cntr *, efadv_create_comp_cntr,
	(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr, struct efadv_comp_cntr_init_attr *efa,
	 uint32_t len),
	(context, attr, efa, len), NULL)
DECLINE(int, _ibv_query_comp_cntr_caps, (struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size),
	(context, caps, size), EOPNOTSUPP)
DECLINE(struct ibv_comp_cntr *, ibv_create_comp_cntr,
	(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr), (context, attr), NULL)
DECLINE(int, ibv_destroy_comp_cntr, (struct ibv_comp_cntr *counter), (counter), EOPNOTSUPP)
DECLINE(int, ibv_set_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t value), (counter, value), EOPNOTSUPP)
DECLINE(int, ibv_set_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t value), (counter, value), EOPNOTSUPP)
DECLINE(int, ibv_inc_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t amount), (counter, amount), EOPNOTSUPP)
DECLINE(int, ibv_inc_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t amount), (counter, amount), EOPNOTSUPP)
DECLINE(int, ibv_read_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t *value), (counter, value), EOPNOTSUPP)
DECLINE(int, ibv_read_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t *value), (counter, value), EOPNOTSUPP)
DECLINE(int, ibv_qp_attach_comp_cntr,
	(struct ibv_qp *qp, struct ibv_comp_cntr *counter, struct ibv_qp_attach_comp_cntr_attr *attr),
	(qp, counter, attr), EOPNOTSUPP)
