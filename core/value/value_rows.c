/* SPDX-License-Identifier: MIT */
/* Structures of values: split along axis 0 into a part for each replica, and joined again. */
#include "copse/distribute/partition.h"
#include "copse/distribute/replica.h"
#include "core/graph/type.h"
#include "core/value/cross_device.h"

struct part {
    copse_strategy *st;
    uint32_t rank;
};

/* ---- splitting ---- */

/* To the host, once for all parts. */
static copse_status value_rows_bring(void *strategy, copse_value *v, copse_value **out)
{
    copse_strategy *st = strategy;
    const uint32_t n = st->replica_count;
    if (v->kind != COPSE_VALUE_ARRAY && v->kind != COPSE_VALUE_SPARSE)
        return copse_fail(COPSE_ERR_ARGUMENT, "split: only arrays, sparse values, lists and "
                                              "dictionaries of them are split");
    if (v->shape.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "split: a scalar has no axis 0 to split along");
    if (v->kind == COPSE_VALUE_ARRAY && v->shape.dims[0] % n != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "split: %u rows cannot be split evenly over %u "
                          "replicas; leave out %u, or fill the batch",
                          v->shape.dims[0], n, v->shape.dims[0] % n);
    return copse__value_at(st, v, COPSE_HOST, out);
}

/* The slices of rows [first, first + rows), counted from `first`. */
static copse_status cut_slices(const struct part *w, const copse_value *v, uint32_t first,
                               uint32_t rows, copse_value **out)
{
    struct copse_mem *mem = &w->st->ctx->base.mem;
    const size_t width = copse__row_elements(v->shape);
    const int32_t *indices = v->indices->host;
    const float *values = v->block->host;
    struct copse_sparse_params p = { .dense_shape = v->shape };
    int32_t *own = copse__alloc(mem, v->slices, sizeof *own);
    float *its = copse__alloc(mem, v->slices, width * sizeof *its);
    for (uint32_t i = 0; own && its && i < v->slices; i++)
        if ((uint32_t)indices[i] >= first && (uint32_t)indices[i] - first < rows) {
            own[p.count] = indices[i] - (int32_t)first;
            memcpy(its + width * p.count++, values + width * i, width * sizeof *its);
        }
    p.dense_shape.dims[0] = rows;
    p.indices = own;
    p.values = its;
    const copse_status s = own && its ? copse__value_sparse(w->st->ctx, w->st, w->rank, &p, out)
                                      : copse_no_memory("split");
    copse__free(mem, own);
    copse__free(mem, its);
    return s;
}

/* Rows of sparse values are split as evenly as possible; the first replicas have one more. */
static copse_status value_rows_cut(void *user, copse_value *v, copse_value **out)
{
    const struct part *w = user;
    copse_shape shape = v->shape;
    uint32_t first;
    shape.dims[0] = copse_partition_rows(v->shape.dims[0], w->st->replica_count, w->rank, &first);
    if (v->kind == COPSE_VALUE_SPARSE)
        return cut_slices(w, v, first, shape.dims[0], out);
    const size_t before = first * copse__row_elements(shape) * copse__type_bytes(v->type);
    return copse_value_create_on(w->st, w->rank, v->type, shape,
                                 (const char *)v->block->host + before, out);
}

copse_status copse__value_split(copse_strategy *st, copse_value *v, copse_value **parts)
{
    const uint32_t n = st->replica_count;
    copse_value *host;
    memset(parts, 0, n * sizeof *parts);
    if (n == 1) {
        parts[0] = copse_value_retain(v);
        return COPSE_OK;
    }
    copse_status s = copse__value_map(v, value_rows_bring, st, &host);
    for (uint32_t r = 0; r < n && s == COPSE_OK; r++)
        s = copse__value_map(host, value_rows_cut, &(struct part){ st, r }, &parts[r]);
    if (s != COPSE_OK)
        copse__values_release(parts, n);
    copse_value_release(&host);
    return s;
}

copse_status copse_strategy_split(copse_strategy *st, copse_value *rows, copse_value **out)
{
    copse_value *parts[COPSE_MAX_REPLICAS];
    COPSE_TRY(copse_need("split", st, rows, out));
    *out = NULL;
    COPSE_TRY(copse__value_split(st, rows, parts));
    if (st->replica_count == 1) {
        *out = parts[0];
        return COPSE_OK;
    }
    const copse_status s =
        copse__regroup(st, COPSE_VALUE_PER_REPLICA, parts, NULL, st->replica_count, out);
    copse__values_release(parts, st->replica_count);
    return s;
}

/* ---- joining ---- */

static copse_status add_rows(const copse_strategy *st, copse_value *const *parts, copse_shape *all)
{
    const copse_value *first = parts[0];
    uint64_t rows = 0;
    *all = first->shape;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_value *part = parts[r];
        if (part->kind != COPSE_VALUE_ARRAY || part->shape.rank == 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "join: the values are arrays with an axis 0, that "
                              "of replica %u is none",
                              r);
        rows += part->shape.dims[0];
        all->dims[0] = part->shape.dims[0];
        if (!copse__shape_equal(part->shape, *all) || part->type != first->type)
            return copse_fail(COPSE_ERR_SHAPE,
                              "join: replica 0 has %s, replica %u %s; they "
                              "may only differ along axis 0",
                              COPSE_SHAPE_TEXT(first->shape), r, COPSE_SHAPE_TEXT(part->shape));
    }
    all->dims[0] = (uint32_t)rows;
    return rows <= UINT32_MAX ? COPSE_OK
                              : copse_fail(COPSE_ERR_ARGUMENT, "join: 2^32 rows or more");
}

static copse_status value_rows_join(void *strategy, copse_value *v, copse_value **out)
{
    const copse_strategy *st = strategy;
    copse_value *parts[COPSE_MAX_REPLICAS] = { v };
    struct copse_block *block;
    copse_shape shape;
    for (uint32_t r = 0; r < st->replica_count; r++)
        parts[r] = v->kind == COPSE_VALUE_PER_REPLICA ? v->items[r] : v;
    COPSE_TRY(add_rows(st, parts, &shape));
    COPSE_TRY(copse__block_create(st->ctx, NULL, parts[0]->type, copse__elements(shape), &block));
    char *at = block->host;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status s = copse_value_read(parts[r], at);
        if (s == COPSE_ERR_TIMEOUT)
            return s; /* the device may still write there */
        if (s != COPSE_OK) {
            copse__block_release(&block);
            return s;
        }
        at += copse__elements(parts[r]->shape) * copse__type_bytes(parts[r]->type);
    }
    return copse__value_from_block(st->ctx, NULL, COPSE_HOST, shape, block, out);
}

copse_status copse__value_join(copse_strategy *st, copse_value *const *parts, copse_value **out)
{
    copse_value *all;
    *out = NULL;
    if (st->replica_count == 1) {
        *out = copse_value_retain(parts[0]);
        return COPSE_OK;
    }
    COPSE_TRY(copse__regroup(st, COPSE_VALUE_PER_REPLICA, parts, NULL, st->replica_count, &all));
    const copse_status s = copse__value_map(all, value_rows_join, st, out);
    copse_value_release(&all);
    return s;
}
