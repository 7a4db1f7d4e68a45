/* SPDX-License-Identifier: MIT */
/* Sums of sparse values, on the host: slices of all replicas one behind another, summed by row.
   Never as large as the dense array. */
#include "core/reduce/host_sum.h"
#include "core/reduce/tree.h"
#include "core/value/cross_device.h"

struct gathered {
    copse_strategy *st;
    struct copse_slices all, sums;
    struct copse_slice_at *order;
};

static bool make_slices(struct copse_mem *mem, uint32_t count, size_t width,
                        struct copse_slices *out)
{
    *out = (struct copse_slices){ count, width, copse__alloc(mem, count, sizeof *out->rows),
                                  copse__alloc(mem, count, width * sizeof *out->values) };
    return out->rows && out->values;
}

static copse_status sparse_sum_gather(struct gathered *g, copse_value *const *components,
                                      size_t count)
{
    struct copse_mem *mem = &g->st->ctx->base.mem;
    uint64_t slices = 0;
    size_t width = 0;
    for (size_t c = 0; c < count; c++) {
        slices += components[c]->slices;
        if (components[c]->slices)
            width = (size_t)(components[c]->block->count / components[c]->slices);
    }
    if (slices >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: %llu slices in all; fewer than 2^31 fit",
                          (unsigned long long)slices);
    g->order = copse__alloc(mem, 2 * (size_t)slices, sizeof *g->order);
    const bool is_made = make_slices(mem, (uint32_t)slices, width, &g->all) &&
                         make_slices(mem, (uint32_t)slices, width, &g->sums);
    COPSE_TRY(copse_need_memory(g->order && is_made, "reduce: %u slices", (unsigned)slices));
    uint32_t at = 0;
    for (size_t c = 0; c < count; at += components[c++]->slices)
        COPSE_TRY(
            copse_value_read_sparse(components[c], g->all.rows + at, g->all.values + width * at));
    return COPSE_OK;
}

static copse_status sparse_sum_reduce(struct gathered *g, copse_shape dense, uint32_t divisor,
                                      const struct copse_ranks *to, copse_value **out)
{
    copse_value *at[COPSE_MAX_REPLICAS + 1] = { NULL };
    struct copse_slices *sums = &g->sums;
    copse__slices_sum(&g->all, g->order, sums);
    if (divisor)
        copse__mean_values(sums->values, sums->values, sums->count * sums->width, divisor, false);
    const struct copse_sparse_params p = {
        .dense_shape = dense, .count = sums->count, .indices = sums->rows, .values = sums->values
    };
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < to->count && !s; i++)
        s = copse__value_sparse(g->st->ctx, g->st, to->at[i], &p, &at[i]);
    return copse__value_distributed_of(s, g->st, COPSE_VALUE_MIRRORED, at, to->at, to->count, out);
}

copse_status copse__sparse_reduce(copse_strategy *st, copse_value *const *components, size_t count,
                                  uint32_t divisor, const struct copse_ranks *to, copse_value **out)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    struct gathered g = { .st = st };
    *out = NULL;
    copse_status s = sparse_sum_gather(&g, components, count);
    if (!s)
        s = sparse_sum_reduce(&g, components[0]->shape, divisor, to, out);
    copse__free_read(mem, g.all.rows, s);
    copse__free_read(mem, g.all.values, s);
    copse__free(mem, g.order);
    copse__free(mem, g.sums.rows);
    copse__free(mem, g.sums.values);
    return s;
}
