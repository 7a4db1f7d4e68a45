/* SPDX-License-Identifier: MIT */
/* The other workers, as the exchange sees them: implements core/reduce's hook over a cluster. */
#ifndef COPSE_CLUSTER_REMOTE_H
#define COPSE_CLUSTER_REMOTE_H

#include "core/cluster/cluster.h"
#include "core/reduce/exchange.h"

struct copse_remote {
    copse_cluster *cluster; /* not a reference */
    struct copse_exchange_remote hook;
    uint32_t rank_counts[COPSE_MAX_WORKERS];
    const char *(*failed_device)(const void *user); /* of this worker, NULL: none has; may be NULL */
    const void *user;
    struct copse_parcel out[2][COPSE_MAX_WORKERS], in[2][COPSE_MAX_WORKERS];
};

/* All workers tell their ranks and the smallest limit of their devices. COPSE_ERR_ARGUMENT when there
   are more than COPSE_MAX_REPLICAS together. */
copse_status copse__remote_init(struct copse_remote *r, copse_cluster *c, uint32_t ranks,
                                uint64_t binding_bytes);
/* This worker cannot go on: the others are told, with the device that failed, and do not wait for it. Keeps the text of
   the last error. */
void copse__remote_give_up(struct copse_remote *r);
/* Rank of this worker's first replica among all, and how many there are. */
uint32_t copse__remote_first(const struct copse_remote *r);
uint32_t copse__remote_total(const struct copse_remote *r);

#endif
