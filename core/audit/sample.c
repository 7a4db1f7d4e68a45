/* SPDX-License-Identifier: MIT */
#include "core/audit/sample.h"

#include <stdlib.h>

#define WORK  ((uint64_t)1 << 19)
#define LEAST 16u
#define MOST  2048u
#define AXIS  65535u /* groups: the largest count of an axis on many devices */

/* C = A B of a vendor's library. */
static double gemm_at(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t place)
{
    const struct copse_gemm *g = params;
    const size_t m = g->m, n = g->n, k = g->k, i = place / n, j = place % n;
    double sum = 0;
    (void)spec;
    for (size_t l = 0; l < k; l++)
        sum += copse__load(&args[0], g->a_transposed ? l * m + i : i * k + l) *
               copse__load(&args[1], g->b_transposed ? j * k + l : l * n + j);
    return sum;
}

/* ---- kernels ---- */

/* `at_`: the kernel with whose function its elements are computed. */
#define ELEMENTS_AS(kernel_, at_, result_, places_, depth_)                                                  \
    case COPSE_KERNEL_##kernel_: {                                                                          \
        const struct copse_params_##kernel_ *p = (const void *)c->params;                                   \
        *out = (struct copse_sample){ copse_at_##at_, NULL, p, result_, places_, depth_ };                  \
        return true;                                                                                        \
    }
#define ELEMENTS(kernel_, result_, places_, depth_) ELEMENTS_AS(kernel_, kernel_, result_, places_, depth_)
#define SCATTERED(kernel_, condition_, places_)                                                              \
    case COPSE_KERNEL_##kernel_: {                                                                          \
        const struct copse_params_##kernel_ *p = (const void *)c->params;                                   \
        *out = (struct copse_sample){ copse_at_##kernel_, (condition_) ? copse_place_##kernel_ : NULL, p, 1,   \
                                      places_, 1 };                                                         \
        return true;                                                                                        \
    }
#define ROUNDED_UP(n, by) (((uint64_t)(n) + (by) - 1) / (by) * (by))

static bool sample_of_product(const struct copse_command *c, struct copse_sample *out)
{
    switch (c->kernel->id) {
        ELEMENTS(matmul, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        ELEMENTS(matmul_wide, 3, (uint64_t)p->batch * p->m * p->n, p->k)
        ELEMENTS(matmul_texel, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        ELEMENTS(matmul_half, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        ELEMENTS_AS(matmul_cooperative, matmul_half, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        ELEMENTS(conv, 3, p->count, (uint64_t)p->taps_h * p->taps_w * (p->c_end - p->c_begin))
        ELEMENTS(conv_wide, 3, (uint64_t)p->pixels * p->out_c, (uint64_t)p->taps_h * p->taps_w * p->group_in)
        ELEMENTS(conv_weight, 2, p->count, p->part)
        ELEMENTS(conv_weight_wide, 2, (uint64_t)p->parts * p->rows * p->out_c, p->part)
        ELEMENTS(matmul_pad, 1, (uint64_t)p->batch * p->rows_to * p->cols_to, 1)
        SCATTERED(matmul_wide_pack, true, (uint64_t)p->batch * p->k * ROUNDED_UP(p->n, p->width))
        SCATTERED(matmul_wide_turn, true, (uint64_t)p->batch * p->padded * p->cols)
        ELEMENTS(conv_texel, 3, (uint64_t)p->pixels * p->out_c, 4 * (uint64_t)p->taps_h * p->taps_w * p->in_t)
        ELEMENTS(conv_weight_texel, 2, (uint64_t)p->parts * p->taps_h * p->taps_w * p->in_c * p->out_c, p->part * p->out_w)
    default:
        return false;
    }
}

bool copse__sample_of(const struct copse_command *c, struct copse_sample *out)
{
    if (c->kind == COPSE_COMMAND_GEMM) {
        *out = (struct copse_sample){ gemm_at, NULL, &c->gemm, 2, (uint64_t)c->gemm.m * c->gemm.n, c->gemm.k };
        return true;
    }
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return false;
    const int32_t *spec = c->kernel->spec;
    switch (c->kernel->id) {
        ELEMENTS(pool, 1, p->count, (uint64_t)spec[1] * (uint64_t)spec[2])
        ELEMENTS(pool_grad, 2, p->count, (uint64_t)p->out_h * p->out_w)
        ELEMENTS_AS(pool_wide, pool, 1, (uint64_t)p->lines * p->out_w * p->channels, (uint64_t)spec[1] * (uint64_t)spec[2])
        ELEMENTS_AS(pool_grad_wide, pool_grad, 2, (uint64_t)p->lines * p->in_w * p->channels, (uint64_t)p->out_h * p->out_w)
        ELEMENTS(resize, 1, p->count, 1 + p->size / COPSE_MAX(p->to, 1u))
        ELEMENTS(resize_grad, 1, p->count, p->to)
        ELEMENTS(binary, 2, p->n, 1)
        ELEMENTS(binary_grad, 3, p->n, 1)
        ELEMENTS(compare_i32, 2, p->n, 1)
        ELEMENTS(where, 3, p->n, 1)
        ELEMENTS(where_i32, 3, p->n, 1)
        SCATTERED(copy, spec[1], p->n)
        SCATTERED(copy_i32, spec[1], p->n)
        ELEMENTS(gather, 2, p->n, 1)
        ELEMENTS(dropout, 2, p->n, 1)
        ELEMENTS(dropout_wide, 2, p->n, 1)
        ELEMENTS(rotary, 2, p->n, 1)
        ELEMENTS_AS(rotary_wide, rotary, 2, p->n, 1)
        ELEMENTS(glu, 2, p->n, 1)
        ELEMENTS_AS(glu_wide, glu, 2, p->n, 1)
        ELEMENTS(glu_grad, 3, 2 * (uint64_t)p->n, 1)
        ELEMENTS_AS(glu_grad_wide, glu_grad, 3, 2 * (uint64_t)p->n, 1)
        ELEMENTS(reduce, 1, p->n, 1 + p->count / COPSE_MAX(p->chunks, 1u))
        ELEMENTS(column_sum_wide, 1, ROUNDED_UP(p->rows, p->block) / p->block * p->cols, p->block)
    default:
        return sample_of_product(c, out);
    }
}

/* ---- the choice ---- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void add_range(struct copse_choice *to, uint64_t first, uint64_t end, uint64_t units)
{
    for (uint64_t i = first; i < COPSE_MIN(end, units); i++)
        to->at[to->count++] = i;
}

static void add_parts(struct copse_choice *to, uint64_t parts, uint64_t units)
{
    for (uint64_t i = 0; i < parts; i++) {
        const uint64_t begin = units * i / parts, end = units * (i + 1) / parts;
        to->at[to->count++] = begin + (copse__hash(COPSE_HASH_START, &i, sizeof i) >> 16) % (end - begin);
    }
}

static void drop_repeated(struct copse_choice *c)
{
    size_t kept = 0;
    qsort(c->at, c->count, sizeof *c->at, compare);
    for (size_t i = 0; i < c->count; i++)
        if (kept == 0 || c->at[i] != c->at[kept - 1])
            c->at[kept++] = c->at[i];
    c->count = kept;
}

copse_status copse__choose_units(struct copse_mem *mem, const struct copse_command *c, uint64_t units, uint64_t cost,
                                 struct copse_choice *out)
{
    const uint64_t affordable = COPSE_MIN(COPSE_MAX(WORK / COPSE_MAX(cost, 1), cost <= WORK ? LEAST : 2), MOST);
    const uint64_t groups = COPSE_MAX((uint64_t)c->groups_x * c->groups_y, 1);
    out->count = 0;
    out->at = copse__alloc(mem, (size_t)COPSE_MIN(affordable, units) + 1, sizeof *out->at);
    COPSE_TRY(copse_need_memory(out->at, "audit"));
    if (units <= affordable) {
        add_range(out, 0, units, units);
        return COPSE_OK;
    }
    /* One half for equal parts, a quarter for both ends, a quarter for the place behind the most groups of an axis. */
    const uint64_t edge = COPSE_MAX(COPSE_MIN((units + groups - 1) / groups, affordable / 8), 1);
    add_range(out, 0, edge, units);
    add_range(out, units - edge, units, units);
    if (groups > AXIS && affordable >= LEAST) {
        const uint64_t behind = (uint64_t)((double)units / (double)groups * AXIS);
        add_range(out, behind - COPSE_MIN(edge, behind), behind + edge, units);
    }
    if (affordable >= LEAST)
        add_parts(out, affordable / 2, units);
    drop_repeated(out);
    return COPSE_OK;
}
