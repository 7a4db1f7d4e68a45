/* SPDX-License-Identifier: MIT */
/* The default strategy: that of a thread outside of all scopes. One replica on the host, without a
   device or variables. */
#include "core/replica/replica_context.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_DEFAULT,
    .name = "default",
    .has_one_copy = true,
    .count = copse__strategy_count,
};

copse_strategy copse__default_strategy = {
    .refs = 1,
    .table = &table,
    .replica_count = 1,
    .group = { .workers = 1, .ranks = 1, .rank_counts = { 1 } },
};
