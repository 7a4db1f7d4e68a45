/* SPDX-License-Identifier: MIT */
/* The count of training steps where each process keeps its own. */
#include "core/replica/strategy.h"

static copse_status count_read(copse_strategy *st, uint64_t *value)
{
    *value = st->global_step;
    return COPSE_OK;
}

static copse_status count_set(copse_strategy *st, uint64_t value)
{
    st->global_step = value;
    return COPSE_OK;
}

static copse_status count_add(copse_strategy *st, uint64_t *value)
{
    *value = ++st->global_step;
    return COPSE_OK;
}

const struct copse_step_count copse__step_count_local = { .read = count_read, .set = count_set, .add = count_add };
