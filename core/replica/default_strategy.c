/* SPDX-License-Identifier: MIT */
/* The default strategy: what a thread is in outside of all others. One replica on the host, without a device. */
#include "core/replica/context.h"
#include "core/replica/storage.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_DEFAULT,
    .name = "default",
    .storage = &copse__on_replicas,
    .has_one_copy = true,
    .count_read = copse__count_read,
    .count_set = copse__count_set,
    .count_add = copse__count_add,
};

copse_strategy copse__default_strategy = {
    .refs = 1,
    .table = &table,
    .replica_count = 1,
    .rank_total = 1,
    .group = { .workers = 1, .ranks = 1, .rank_counts = { 1 } },
};
