/* SPDX-License-Identifier: MIT */
/* Host functions of the reduction kernels, in stepwise single precision: every device gives these
   bits. No graph contains these kernels, so their arguments are f32 or i32. */
#include "core/device/kernel/launch_split.h"
#include "core/device/kernel/mean.h"
#include "core/reduce/sum_schedule.h"
#include "core/reduce/tree.h"

#define NEAR_WORDS 128

/* Row r of `count` words begins at terms[r * stride]; `sums` may overlap the rows at the same
   elements. */
static void sum_rows(const uint32_t *terms, uint32_t *sums, size_t count, uint32_t stride,
                     uint32_t row_count, copse_type type)
{
    uint32_t near[COPSE_MAX_REPLICAS][NEAR_WORDS];
    void *rows[COPSE_MAX_REPLICAS];
    for (size_t at = 0; at < count; at += NEAR_WORDS) {
        const size_t n = COPSE_MIN(count - at, NEAR_WORDS);
        for (uint32_t r = 0; r < row_count; r++) {
            rows[r] = near[r];
            memcpy(near[r], terms + at + (size_t)r * stride, n * COPSE_WORD_BYTES);
        }
        copse__tree_rows(rows, row_count, n, type);
        memcpy(sums + at, near[0], n * COPSE_WORD_BYTES);
    }
}

static void tree_sum_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_tree_sum *p = params;
    sum_rows((const uint32_t *)args[0].data + p->base, args[1].data, p->n, p->stride,
             (uint32_t)spec[2], COPSE_F32);
}

static void sum_i32_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_sum_i32 *p = params;
    sum_rows(args[0].data, args[1].data, p->n, p->stride, (uint32_t)spec[2], COPSE_I32);
}

static void accumulate_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_accumulate *p = params;
    const float *x = args[0].data;
    float *acc = args[1].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        acc[i] = acc[i] + x[i];
}

static void mean_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_mean *p = params;
    copse__mean_values(args[0].data, args[1].data, p->n, p->divisor >> p->shift, spec[2] != 0);
}

/* ---- self-tests ---- */

#define N 30u

static uint64_t groups_of(const struct copse_kernel *k)
{
    const uint64_t each = (uint64_t)k->group_x * k->group_y * (uint32_t)COPSE_MAX(k->spec[0], 1);
    return (N + each - 1) / each;
}

static void tree_sum_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_tree_sum p = { .n = N, .base = 2, .stride = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = p.base + (uint32_t)k->spec[2] * p.stride;
    t->counts[1] = N;
    t->groups = t->counts[0] <= COPSE_SELF_TEST_WORDS ? groups_of(k) : 0;
}

static void accumulate_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_accumulate p = { .n = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = t->counts[1] = N;
    t->groups = groups_of(k);
}

static void sum_i32_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sum_i32 p = { .n = N, .stride = N };
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = (uint32_t)k->spec[2] * p.stride;
    t->counts[1] = N;
    t->groups = t->counts[0] <= COPSE_SELF_TEST_WORDS ? groups_of(k) : 0;
}

static void mean_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_mean p = copse__mean_params(N, k->spec[3] ? 4 : 3);
    memcpy(t->params, &p, sizeof p);
    t->counts[0] = t->counts[1] = N;
    t->groups = groups_of(k);
}

/* ---- laws ---- */

/* The first parameter counts elements; rows of ranks are *stride words apart. */
static bool split_ranks(const struct copse_command *c, struct copse_split *o, uint32_t *stride)
{
    copse__split_pieces(o, 0, (uint64_t)c->kernel->spec[2], *stride, 1);
    copse__split_buffer(o, 1, 1);
    o->units = o->params[0];
    copse__split_count(o, &o->params[0], 1);
    copse__split_count(o, stride, 1);
    return true;
}

static bool tree_sum_split(const struct copse_command *c, struct copse_split *o)
{
    struct copse_params_tree_sum *p = COPSE_SPLIT_PARAMS(tree_sum, o);
    split_ranks(c, o, &p->stride);
    o->buffers[0].first = p->base;
    p->base = 0;
    return true;
}

static bool sum_i32_split(const struct copse_command *c, struct copse_split *o)
{
    return split_ranks(c, o, &COPSE_SPLIT_PARAMS(sum_i32, o)->stride);
}

const struct copse_law copse_law_tree_sum = {
    .host = tree_sum_host,
    .split = tree_sum_split,
    .self_test = tree_sum_test,
};
const struct copse_law copse_law_sum_i32 = {
    .host = sum_i32_host,
    .split = sum_i32_split,
    .self_test = sum_i32_test,
};
const struct copse_law copse_law_accumulate = {
    .host = accumulate_host,
    .split = copse__split_elements,
    .self_test = accumulate_test,
};
const struct copse_law copse_law_mean = {
    .host = mean_host,
    .split = copse__split_elements,
    .self_test = mean_test,
};
