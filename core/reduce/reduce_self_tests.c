/* SPDX-License-Identifier: MIT */
/* Self-tests of the reduction kernels: see struct copse_self_test. */
#include "core/device/mean.h"

#define N 30u

static uint64_t groups_of(const struct copse_kernel *k)
{
    const uint64_t each = (uint64_t)k->group_x * k->group_y * (uint32_t)COPSE_MAX(k->spec[0], 1);
    return (N + each - 1) / each;
}

void copse_self_test_tree_sum(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_tree_sum p = { .n = N, .base = 2, .stride = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = p.base + (uint32_t)k->spec[2] * p.stride;
    t->counts[1] = N;
    t->groups = t->counts[0] <= COPSE_SELF_TEST_WORDS ? groups_of(k) : 0;
}

void copse_self_test_accumulate(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_accumulate p = { .n = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = t->counts[1] = N;
    t->groups = groups_of(k);
}

void copse_self_test_sum_i32(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sum_i32 p = { .n = N, .stride = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = (uint32_t)k->spec[2] * p.stride;
    t->counts[1] = N;
    t->groups = t->counts[0] <= COPSE_SELF_TEST_WORDS ? groups_of(k) : 0;
}

void copse_self_test_mean(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_mean p = copse__mean_params(N, k->spec[3] ? 4 : 3);
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = t->counts[1] = N;
    t->groups = groups_of(k);
}
