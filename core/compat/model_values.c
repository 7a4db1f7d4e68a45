/* SPDX-License-Identifier: MIT */
/* Structures of values: split along axis 0 into a part for each replica, and joined again. */
#include "core/compat/tower.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "replicated model: no memory");
}

static size_t row_elements(copse_shape s)
{
    s.dims[0] = 1;
    return (size_t)copse__elements(s);
}

static void release_all(copse_value **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copse_value_release(&list[i]);
}

/* ---- splitting ---- */

static copse_status make_parts(copse_strategy *st, const copse_value *v, const char *values,
                               copse_value **parts)
{
    const uint32_t n = st->replica_count;
    copse_shape shape = v->shape;
    shape.dims[0] /= n;
    const size_t bytes = 4 * (size_t)copse__elements(shape);
    for (uint32_t r = 0; r < n; r++)
        COPSE_TRY(copse_value_create_on(st, r, v->type, shape, values + r * bytes, &parts[r]));
    return COPSE_OK;
}

static copse_status split_array(copse_strategy *st, const copse_value *v, copse_value **parts)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    if (v->shape.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: a scalar has no axis 0 to split along");
    if (v->shape.dims[0] % st->replica_count != 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: %u rows cannot be split evenly over %u "
                                              "replicas; leave out %u, or fill the batch",
                          v->shape.dims[0], st->replica_count,
                          v->shape.dims[0] % st->replica_count);
    char *values = copse__alloc(mem, (size_t)copse__elements(v->shape), 4);
    if (!values)
        return no_memory();
    copse_status s = copse_value_read(v, values);
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    if (s == COPSE_OK)
        s = make_parts(st, v, values, parts);
    copse__free(mem, values);
    return s;
}

/* The slices of rows [first, first + rows), counted from `first`. */
static copse_status make_slices(copse_strategy *st, const copse_value *v, uint32_t r, uint32_t first,
                                uint32_t rows, int32_t *indices, float *values, copse_value **out)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t width = row_elements(v->shape);
    struct copse_sparse_params p = { .dense_shape = v->shape };
    int32_t *own = copse__alloc(mem, v->slices, sizeof *own);
    float *its = copse__alloc(mem, v->slices, width * sizeof *its);
    copse_status s = own && its ? COPSE_OK : no_memory();
    for (uint32_t i = 0; s == COPSE_OK && i < v->slices; i++)
        if ((uint32_t)indices[i] >= first && (uint32_t)indices[i] - first < rows) {
            own[p.count] = indices[i] - (int32_t)first;
            memcpy(its + width * p.count++, values + width * i, width * sizeof *its);
        }
    p.dense_shape.dims[0] = rows;
    p.indices = own;
    p.values = its;
    if (s == COPSE_OK)
        s = copse__value_sparse(st->ctx, st, r, &p, out);
    copse__free(mem, own);
    copse__free(mem, its);
    return s;
}

/* Rows are split as evenly as possible; the first replicas have one more. */
static copse_status split_sparse(copse_strategy *st, const copse_value *v, copse_value **parts)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const uint32_t n = st->replica_count, all = v->shape.dims[0];
    int32_t *indices = copse__alloc(mem, v->slices, sizeof *indices);
    float *values = copse__alloc(mem, v->slices, row_elements(v->shape) * sizeof *values);
    copse_status s = indices && values ? copse_value_read_sparse(v, indices, values) : no_memory();
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    for (uint32_t r = 0, first = 0; s == COPSE_OK && r < n; r++) {
        const uint32_t rows = all / n + (r < all % n);
        s = make_slices(st, v, r, first, rows, indices, values, &parts[r]);
        first += rows;
    }
    copse__free(mem, indices);
    copse__free(mem, values);
    return s;
}

/* `items` holds [item][replica]. */
static copse_status gather_parts(copse_strategy *st, const copse_value *v, copse_value **items,
                                 copse_value **column, copse_value **parts)
{
    const uint32_t n = st->replica_count;
    for (size_t i = 0; i < v->count; i++)
        COPSE_TRY(copse__value_split(st, v->items[i], items + i * n));
    for (uint32_t r = 0; r < n; r++) {
        for (size_t i = 0; i < v->count; i++)
            column[i] = items[i * n + r];
        COPSE_TRY(copse__value_like(v, column, &parts[r]));
    }
    return COPSE_OK;
}

static copse_status split_structure(copse_strategy *st, const copse_value *v, copse_value **parts)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t all = v->count * st->replica_count;
    copse_value **items = copse__alloc(mem, v->count, (st->replica_count + 1) * sizeof(copse_value *));
    if (!items)
        return no_memory();
    const copse_status s = gather_parts(st, v, items, items + all, parts);
    release_all(items, all);
    copse__free(mem, items);
    return s;
}

copse_status copse__value_split(copse_strategy *st, copse_value *v, copse_value **parts)
{
    const uint32_t n = st->replica_count;
    copse_status s;
    memset(parts, 0, n * sizeof *parts);
    if (n == 1) {
        parts[0] = copse_value_retain(v);
        return COPSE_OK;
    }
    switch (v->kind) {
    case COPSE_VALUE_ARRAY:
        s = split_array(st, v, parts);
        break;
    case COPSE_VALUE_SPARSE:
        s = split_sparse(st, v, parts);
        break;
    case COPSE_VALUE_LIST:
    case COPSE_VALUE_DICT:
        s = split_structure(st, v, parts);
        break;
    default:
        s = copse_fail(COPSE_ERR_ARGUMENT, "replicated model: only arrays, sparse values, lists and "
                                           "dictionaries of them are split");
    }
    if (s != COPSE_OK)
        release_all(parts, n);
    return s;
}

/* ---- joining ---- */

static copse_status check_rows(copse_value *const *parts, uint32_t n, uint64_t *rows)
{
    char a[96], b[96];
    const copse_shape first = parts[0]->shape;
    *rows = 0;
    for (uint32_t r = 0; r < n; r++) {
        copse_shape like = parts[r]->shape;
        if (parts[r]->kind != COPSE_VALUE_ARRAY || like.rank == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: outputs are arrays with an axis 0, "
                                                  "that of replica %u is none", r);
        *rows += like.dims[0];
        like.dims[0] = first.dims[0];
        if (!copse__shape_equal(like, first) || parts[r]->type != parts[0]->type)
            return copse_fail(COPSE_ERR_SHAPE, "replicated model: replica 0 puts out %s, replica %u %s; they "
                                               "may only differ along axis 0",
                              copse__shape_text(first, a), r,
                              copse__shape_text(parts[r]->shape, b));
    }
    return *rows <= UINT32_MAX ? COPSE_OK
                               : copse_fail(COPSE_ERR_ARGUMENT, "replicated model: 2^32 rows or more");
}

static copse_status join_arrays(copse_strategy *st, copse_value *const *parts, copse_value **out)
{
    struct copse_block *block;
    uint64_t rows;
    COPSE_TRY(check_rows(parts, st->replica_count, &rows));
    copse_shape shape = parts[0]->shape;
    shape.dims[0] = (uint32_t)rows;
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
        at += 4 * copse__elements(parts[r]->shape);
    }
    return copse__value_from_block(st->ctx, NULL, COPSE_HOST, shape, block, out);
}

/* Item `i` of replica 0's structure, and of the others' the one at its place or of its name. */
static copse_status pick(copse_strategy *st, copse_value *const *parts, size_t i,
                         copse_value **items)
{
    const copse_value *first = parts[0];
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const bool is_like = parts[r]->kind == first->kind && parts[r]->count == first->count;
        items[r] = !is_like                           ? NULL
                   : first->kind == COPSE_VALUE_DICT ? copse_value_find(parts[r], first->names[i])
                                                      : parts[r]->items[i];
        if (!items[r])
            return copse_fail(COPSE_ERR_SHAPE, "replicated model: the outputs of replica %u have another "
                                               "structure than replica 0's", r);
    }
    return COPSE_OK;
}

static copse_status join_structures(copse_strategy *st, copse_value *const *parts, copse_value **out)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t count = parts[0]->count;
    copse_value *items[COPSE_MAX_REPLICAS];
    copse_value **joined = copse__alloc(mem, count, sizeof(copse_value *));
    copse_status s = joined ? COPSE_OK : no_memory();
    for (size_t i = 0; s == COPSE_OK && i < count; i++) {
        s = pick(st, parts, i, items);
        if (s == COPSE_OK)
            s = copse__value_join(st, items, &joined[i]);
    }
    if (s == COPSE_OK)
        s = copse__value_like(parts[0], joined, out);
    if (joined)
        release_all(joined, count);
    copse__free(mem, joined);
    return s;
}

copse_status copse__value_join(copse_strategy *st, copse_value *const *parts, copse_value **out)
{
    *out = NULL;
    if (st->replica_count == 1) {
        *out = copse_value_retain(parts[0]);
        return COPSE_OK;
    }
    return parts[0]->kind == COPSE_VALUE_LIST || parts[0]->kind == COPSE_VALUE_DICT
               ? join_structures(st, parts, out)
               : join_arrays(st, parts, out);
}
