/* SPDX-License-Identifier: MIT */
/* Advice on a provider's own error codes. Calls nothing of weft. */
#ifndef WEFT_ERROR_H
#define WEFT_ERROR_H

/*
 * Why an operation on EFA failed and what to do about it, in plain words, from the provider's own code (prov_errno of
 * the completion). The generic code beside it is too coarse to tell a dead process from a closed firewall.
 *
 * For completions of the efa provider only: other providers give the same numbers other meanings. Negative codes are
 * libfabric's own and have no advice.
 *
 * Returns a constant text, or NULL where there is nothing better to say than the provider does. Any thread.
 */
const char *weft__efa_advice(int prov_errno);

#endif
