/* SPDX-License-Identifier: MIT */
/* Sums of sparse values, on the host: slices of all replicas one behind another, sorted by row, repeated rows
   added up. Never as large as the dense array. */
#include "core/reduce/tree.h"
#include "core/value/cross_device.h"

struct slice {
    int32_t row;
    uint32_t at; /* among all slices: equal rows stay in this order */
};

struct gathered {
    copse_strategy *st;
    size_t width; /* elements of a slice */
    uint32_t count;
    int32_t *rows;         /* [count] */
    float *values;         /* [count, width] */
    struct slice *sorted;  /* [2 * count]: the second half is scratch memory */
    int32_t *rows_out;     /* [count] */
    float *values_out;     /* [count, width] */
};

static void merge(const struct slice *from, uint32_t middle, uint32_t end, struct slice *to)
{
    uint32_t a = 0, b = middle;
    for (uint32_t i = 0; i < end; i++)
        to[i] = a < middle && (b == end || from[a].row <= from[b].row) ? from[a++] : from[b++];
}

/* Stable; the result is in the returned half. */
static const struct slice *sort(struct slice *slices, uint32_t count)
{
    struct slice *from = slices, *to = slices + count;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t at = 0; at < count; at += 2 * width) {
            const uint32_t end = (uint32_t)COPSE_MIN(2 * width, count - at);
            merge(from + at, (uint32_t)COPSE_MIN(width, end), end, to + at);
        }
        struct slice *other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Rows in ascending order, each once; returns how many. */
static uint32_t add_rows(const struct gathered *g, const struct slice *sorted)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const float *from = g->values + g->width * sorted[i].at;
        const bool is_new = i == 0 || sorted[i].row != sorted[i - 1].row;
        rows += is_new;
        float *to = g->values_out + g->width * (rows - 1);
        g->rows_out[rows - 1] = sorted[i].row;
        for (size_t j = 0; j < g->width; j++)
            to[j] = is_new ? from[j] : to[j] + from[j];
    }
    return rows;
}

static copse_status gather(struct gathered *g, copse_value *const *components, size_t count)
{
    struct copse_mem *mem = &g->st->ctx->base.mem;
    uint64_t slices = 0;
    for (size_t c = 0; c < count; c++) {
        slices += components[c]->slices;
        if (components[c]->slices)
            g->width = (size_t)(components[c]->block->count / components[c]->slices);
    }
    if (slices >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: %llu slices in all; fewer than 2^31 fit",
                          (unsigned long long)slices);
    g->count = (uint32_t)slices;
    g->rows = copse__alloc(mem, g->count, sizeof *g->rows);
    g->values = copse__alloc(mem, g->count, g->width * sizeof *g->values);
    g->sorted = copse__alloc(mem, 2 * (size_t)g->count, sizeof *g->sorted);
    g->rows_out = copse__alloc(mem, g->count, sizeof *g->rows_out);
    g->values_out = copse__alloc(mem, g->count, g->width * sizeof *g->values_out);
    COPSE_TRY(copse_need_memory(g->rows && g->values && g->sorted && g->rows_out && g->values_out,
                                "reduce: %u slices", g->count));
    uint32_t at = 0;
    for (size_t c = 0; c < count; at += components[c++]->slices)
        COPSE_TRY(copse_value_read_sparse(components[c], g->rows + at, g->values + g->width * at));
    for (uint32_t i = 0; i < g->count; i++)
        g->sorted[i] = (struct slice){ g->rows[i], i };
    return COPSE_OK;
}

static copse_status reduce(struct gathered *g, copse_shape dense, uint32_t divisor,
                           const struct copse_ranks *to, copse_value **out)
{
    copse_value *at[COPSE_MAX_REPLICAS + 1] = { NULL };
    const struct copse_sparse_params p = {
        .dense_shape = dense,
        .count = add_rows(g, sort(g->sorted, g->count)),
        .indices = g->rows_out,
        .values = g->values_out,
    };
    copse_status s = COPSE_OK;
    if (divisor)
        copse__mean_values(g->values_out, g->values_out, p.count * g->width, divisor, false);
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
    copse_status s = gather(&g, components, count);
    if (!s)
        s = reduce(&g, components[0]->shape, divisor, to, out);
    copse__free_read(mem, g.rows, s);
    copse__free_read(mem, g.values, s);
    copse__free(mem, g.sorted);
    copse__free(mem, g.rows_out);
    copse__free(mem, g.values_out);
    return s;
}
