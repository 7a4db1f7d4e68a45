/* SPDX-License-Identifier: MIT */
/* Structures of values: split along axis 0 into a part for each replica, and joined again. */
#include "core/compat/tower.h"
#include "core/graph/type.h"
#include "core/value/cross_device.h"

/* A structure like `from` is made, of what `leaf` makes of each array or sparse value in it. */
struct walk {
    copse_strategy *st;
    copse_value *from;
    uint32_t rank; /* of a part */
    copse_status (*leaf)(const struct walk *w, copse_value **out);
};

static copse_status walk(struct walk *w, copse_value **out);

static copse_status walk_item(void *user, size_t i, copse_value **out)
{
    struct walk w = *(const struct walk *)user;
    w.from = w.from->items[i];
    return walk(&w, out);
}

static copse_status walk(struct walk *w, copse_value **out)
{
    *out = NULL;
    return copse__value_is_structure(w->from) ? copse__value_map(w->from, walk_item, w, out) : w->leaf(w, out);
}

static size_t row_elements(copse_shape s)
{
    s.dims[0] = 1;
    return (size_t)copse__elements(s);
}

/* ---- splitting ---- */

/* To the host, once for all parts. */
static copse_status bring(const struct walk *w, copse_value **out)
{
    const copse_value *v = w->from;
    const uint32_t n = w->st->replica_count;
    if (v->kind != COPSE_VALUE_ARRAY && v->kind != COPSE_VALUE_SPARSE)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: only arrays, sparse values, lists and "
                                              "dictionaries of them are split");
    if (v->shape.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: a scalar has no axis 0 to split along");
    if (v->kind == COPSE_VALUE_ARRAY && v->shape.dims[0] % n != 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: %u rows cannot be split evenly over %u "
                                              "replicas; leave out %u, or fill the batch",
                          v->shape.dims[0], n, v->shape.dims[0] % n);
    return copse__value_at(w->st, w->from, COPSE_HOST, out);
}

/* The slices of rows [first, first + rows), counted from `first`. */
static copse_status cut_slices(const struct walk *w, uint32_t first, uint32_t rows, copse_value **out)
{
    const copse_value *v = w->from;
    struct copse_mem *mem = &w->st->ctx->base.mem;
    const size_t width = row_elements(v->shape);
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
                                      : copse_no_memory("replicated model");
    copse__free(mem, own);
    copse__free(mem, its);
    return s;
}

/* Rows of sparse values are split as evenly as possible; the first replicas have one more. */
static copse_status cut(const struct walk *w, copse_value **out)
{
    const copse_value *v = w->from;
    const uint32_t n = w->st->replica_count, rows = v->shape.dims[0] / n, more = v->shape.dims[0] % n;
    if (v->kind == COPSE_VALUE_SPARSE)
        return cut_slices(w, w->rank * rows + COPSE_MIN(w->rank, more), rows + (w->rank < more), out);
    copse_shape shape = v->shape;
    shape.dims[0] = rows;
    const size_t bytes = (size_t)copse__elements(shape) * copse__type_bytes(v->type);
    return copse_value_create_on(w->st, w->rank, v->type, shape, (const char *)v->block->host + w->rank * bytes, out);
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
    copse_status s = walk(&(struct walk){ .st = st, .from = v, .leaf = bring }, &host);
    for (uint32_t r = 0; r < n && s == COPSE_OK; r++)
        s = walk(&(struct walk){ .st = st, .from = host, .rank = r, .leaf = cut }, &parts[r]);
    if (s != COPSE_OK)
        copse__values_release(parts, n);
    copse_value_release(&host);
    return s;
}

/* ---- joining ---- */

/* What replica `r` has. */
static const copse_value *part_of(const struct walk *w, uint32_t r)
{
    return w->from->kind == COPSE_VALUE_PER_REPLICA ? w->from->items[r] : w->from;
}

static copse_status add_rows(const struct walk *w, copse_shape *all)
{
    const copse_value *first = part_of(w, 0);
    char a[96], b[96];
    uint64_t rows = 0;
    *all = first->shape;
    for (uint32_t r = 0; r < w->st->replica_count; r++) {
        const copse_value *part = part_of(w, r);
        if (part->kind != COPSE_VALUE_ARRAY || part->shape.rank == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "replicated model: outputs are arrays with an axis 0, that "
                                                  "of replica %u is none", r);
        rows += part->shape.dims[0];
        all->dims[0] = part->shape.dims[0];
        if (!copse__shape_equal(part->shape, *all) || part->type != first->type)
            return copse_fail(COPSE_ERR_SHAPE, "replicated model: replica 0 puts out %s, replica %u %s; they "
                                               "may only differ along axis 0",
                              copse__shape_text(first->shape, a), r, copse__shape_text(part->shape, b));
    }
    all->dims[0] = (uint32_t)rows;
    return rows <= UINT32_MAX ? COPSE_OK
                              : copse_fail(COPSE_ERR_ARGUMENT, "replicated model: 2^32 rows or more");
}

static copse_status join(const struct walk *w, copse_value **out)
{
    struct copse_block *block;
    copse_shape shape;
    COPSE_TRY(add_rows(w, &shape));
    COPSE_TRY(copse__block_create(w->st->ctx, NULL, part_of(w, 0)->type, copse__elements(shape), &block));
    char *at = block->host;
    for (uint32_t r = 0; r < w->st->replica_count; r++) {
        const copse_value *part = part_of(w, r);
        const copse_status s = copse_value_read(part, at);
        if (s == COPSE_ERR_TIMEOUT)
            return s; /* the device may still write there */
        if (s != COPSE_OK) {
            copse__block_release(&block);
            return s;
        }
        at += copse__elements(part->shape) * copse__type_bytes(part->type);
    }
    return copse__value_from_block(w->st->ctx, NULL, COPSE_HOST, shape, block, out);
}

copse_status copse__value_join(copse_strategy *st, copse_value *const *parts, copse_value **out)
{
    copse_value *all;
    *out = NULL;
    if (st->replica_count == 1) {
        *out = copse_value_retain(parts[0]);
        return COPSE_OK;
    }
    COPSE_TRY(copse_note(copse__regroup(st, COPSE_VALUE_PER_REPLICA, parts, NULL, st->replica_count, &all),
                         "in the outputs of a replicated model"));
    const copse_status s = walk(&(struct walk){ .st = st, .from = all, .leaf = join }, out);
    copse_value_release(&all);
    return s;
}
