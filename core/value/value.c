/* SPDX-License-Identifier: MIT */
/* Values: creation, references, properties. */
#include "core/value/value.h"
#include "core/graph/type.h"
#include "core/replica/replica_context.h"
#include "core/variable/storage.h"

/* ---- references ---- */

static copse_status value_make(copse_context *ctx, copse_strategy *st, copse_value_kind kind,
                               copse_value **out)
{
    copse_value *v = copse__alloc(&ctx->base.mem, 1, sizeof *v);
    *out = v;
    COPSE_TRY(copse_need_memory(v, "value"));
    atomic_init(&v->refs, 1);
    v->ctx = copse_context_retain(ctx);
    v->kind = kind;
    v->rank = COPSE_HOST;
    v->strategy = st ? copse_strategy_retain(st) : NULL;
    return COPSE_OK;
}

copse_value *copse_value_retain(copse_value *v)
{
    if (v)
        copse__ref(&v->refs);
    return v;
}

void copse_value_release(copse_value **at)
{
    if (!at || !*at)
        return;
    copse_value *v = *at;
    *at = NULL;
    if (!copse__unref(&v->refs))
        return;
    copse_context *ctx = v->ctx;
    struct copse_mem *mem = &ctx->base.mem;
    for (size_t i = 0; v->names && i < v->count; i++)
        copse__free(mem, v->names[i]);
    copse__values_release(v->items, v->count);
    copse__free(mem, v->items);
    copse__free(mem, v->names);
    copse__free(mem, v->ranks);
    copse__block_release(&v->block);
    copse__block_release(&v->indices);
    if (v->variable)
        atomic_fetch_sub(&v->variable->values, 1);
    copse_strategy_release(&v->strategy);
    copse__context_free(ctx, v);
}

void copse__values_release(copse_value **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copse_value_release(&list[i]);
}

/* Return `s`, and `v` when that is COPSE_OK. */
static copse_status value_give(copse_status s, copse_value *v, copse_value **out)
{
    if (s)
        copse_value_release(&v);
    *out = v;
    return s;
}

/* ---- arrays ---- */

static copse_status check_array(copse_type type, copse_shape shape, uint64_t *count)
{
    if (!copse__type_is_known(type))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "value: element type %d (%s): f32, i32, u8, f16, bf16 or i64 is needed",
                          (int)type, copse_type_name(type));
    if (shape.rank > COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: rank %u; arrays have at most %d dimensions",
                          shape.rank, COPSE_MAX_RANK);
    *count = 1;
    for (uint32_t i = 0; i < shape.rank; i++)
        if (shape.dims[i] == 0)
            *count = 0;
    for (uint32_t i = 0; i < shape.rank && *count; i++)
        if ((*count *= shape.dims[i]) >= (uint64_t)1 << 31)
            return copse_fail(COPSE_ERR_ARGUMENT, "value: an array holds fewer than 2^31 elements");
    return COPSE_OK;
}

/* Where values that the thread makes go: to the replica that it is in, whose strategy must be of
   the same context, or to the host (NULL and COPSE_HOST). */
static copse_status value_here(const copse_context *ctx, copse_strategy **st, uint32_t *rank)
{
    const struct copse_frame *f = copse__context_top();
    const bool has_device = f && f->handle && f->strategy != &copse__default_strategy;
    *st = has_device ? f->strategy : NULL;
    *rank = has_device ? f->rank : COPSE_HOST;
    if (*st && (*st)->ctx != ctx)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "value: the current replica's strategy was made from another context");
    return COPSE_OK;
}

static copse_status make_block(copse_context *ctx, const copse_strategy *st, uint32_t rank,
                               copse_type type, uint64_t count, const void *values,
                               struct copse_block **out)
{
    COPSE_TRY(copse__block_create(ctx, copse__queue_of(st, rank), type, count, out));
    const copse_status s = copse__block_write(*out, values);
    if (s)
        copse__block_release(out);
    return s;
}

/* Elements of a host type in the type that devices have for it. */
static copse_status convert_block(copse_context *ctx, const copse_strategy *st, uint32_t rank,
                                  copse_type type, uint64_t count, const void *values,
                                  struct copse_block **out)
{
    const struct copse_type_row *from = copse__type(type),
                                *to = copse__type(copse__type_on_devices(type));
    struct copse_mem *mem = &ctx->base.mem;
    size_t at;
    if (!copse__type_fits(type, values, 0, (size_t)count, &at))
        return copse_fail(COPSE_ERR_ARGUMENT, "value: element %zu, %.0f, is out of the range of %s",
                          at, from->get(values, at), to->name);
    void *converted = copse__alloc(mem, (size_t)count, to->bytes);
    COPSE_TRY(copse_need_memory(converted, "value"));
    for (size_t i = 0; i < count; i++)
        to->put(converted, i, from->get(values, i));
    const copse_status s =
        make_block(ctx, st, rank, copse__type_on_devices(type), count, converted, out);
    copse__free(mem, converted);
    return s;
}

/* An array, or with `indices` a sparse value. Takes over the references to both, on failure too. */
static copse_status from_blocks(copse_context *ctx, copse_strategy *st, uint32_t rank,
                                copse_shape shape, struct copse_block *block,
                                struct copse_block *indices, copse_value **out)
{
    const copse_status s =
        value_make(ctx, st, indices ? COPSE_VALUE_SPARSE : COPSE_VALUE_ARRAY, out);
    if (s) {
        copse__block_release(&block);
        copse__block_release(&indices);
        return s;
    }
    (*out)->type = block->type;
    (*out)->shape = shape;
    (*out)->slices = indices ? (uint32_t)indices->count : 0;
    (*out)->rank = rank;
    (*out)->block = block;
    (*out)->indices = indices;
    return COPSE_OK;
}

copse_status copse__value_from_block(copse_context *ctx, copse_strategy *st, uint32_t rank,
                                     copse_shape shape, struct copse_block *block,
                                     copse_value **out)
{
    return from_blocks(ctx, st, rank, shape, block, NULL, out);
}

copse_status copse__value_copy(const copse_value *v, copse_strategy *st, uint32_t rank,
                               copse_value **out)
{
    struct copse_block *block, *indices = NULL;
    COPSE_TRY(copse__block_copy(v->block, copse__queue_of(st, rank), &block));
    copse_status s = COPSE_OK;
    if (v->indices)
        s = copse__block_copy(v->indices, copse__queue_of(st, rank), &indices);
    if (!s)
        return from_blocks(v->ctx, st, rank, v->shape, block, indices, out);
    copse__block_release(&block);
    return s;
}

static copse_status make_array(copse_context *ctx, copse_strategy *st, uint32_t rank,
                               copse_type type, copse_shape shape, const void *values,
                               copse_value **out)
{
    struct copse_block *block;
    uint64_t count;
    COPSE_TRY(check_array(type, shape, &count));
    if (rank != COPSE_HOST && (!st || rank >= st->replica_count))
        return copse_fail(COPSE_ERR_ARGUMENT, "value: there is no replica %u of %u", rank,
                          st ? st->replica_count : 0);
    if (count > 0)
        COPSE_TRY(copse_need("value", values));
    COPSE_TRY(copse__type_is_on_devices(type)
                  ? make_block(ctx, st, rank, type, count, values, &block)
                  : convert_block(ctx, st, rank, type, count, values, &block));
    return copse__value_from_block(ctx, st, rank, shape, block, out);
}

copse_status copse_value_create(copse_context *ctx, copse_type type, copse_shape shape,
                                const void *values, copse_value **out)
{
    copse_strategy *st;
    uint32_t rank;
    COPSE_TRY(copse_need("value", ctx, out));
    *out = NULL;
    COPSE_TRY(value_here(ctx, &st, &rank));
    return make_array(ctx, st, rank, type, shape, values, out);
}

copse_status copse_value_create_on(copse_strategy *st, uint32_t rank, copse_type type,
                                   copse_shape shape, const void *values, copse_value **out)
{
    COPSE_TRY(copse_need("value", st, out));
    *out = NULL;
    COPSE_TRY(copse__require_device(st, "value"));
    return make_array(st->ctx, st, rank, type, shape, values, out);
}

copse_status copse_value_scalar(copse_context *ctx, float value, copse_value **out)
{
    return copse_value_create(ctx, COPSE_F32, COPSE_SCALAR, &value, out);
}

/* ---- sparse values ---- */

copse_status copse__value_sparse(copse_context *ctx, copse_strategy *st, uint32_t rank,
                                 const struct copse_sparse_params *p, copse_value **out)
{
    uint64_t count;
    copse_shape slices = p->dense_shape;
    *out = NULL;
    if (slices.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: a scalar has no slices");
    COPSE_TRY(check_array(COPSE_F32, p->dense_shape, &count));
    slices.dims[0] = p->count;
    COPSE_TRY(check_array(COPSE_F32, slices, &count));
    if ((!p->indices && p->count) || (!p->values && count))
        return copse_fail(COPSE_ERR_ARGUMENT, "value: slices need indices and values");
    for (uint32_t i = 0; i < p->count; i++)
        if (p->indices[i] < 0 || (uint32_t)p->indices[i] >= p->dense_shape.dims[0])
            return copse_fail(COPSE_ERR_ARGUMENT, "value: slice %u has index %d; there are %u rows",
                              i, (int)p->indices[i], p->dense_shape.dims[0]);

    struct copse_block *block, *indices;
    COPSE_TRY(make_block(ctx, st, rank, COPSE_I32, p->count, p->indices, &indices));
    const copse_status s = make_block(ctx, st, rank, COPSE_F32, count, p->values, &block);
    if (!s)
        return from_blocks(ctx, st, rank, p->dense_shape, block, indices, out);
    copse__block_release(&indices);
    return s;
}

copse_status copse_value_sparse(copse_context *ctx, const struct copse_sparse_params *params,
                                copse_value **out)
{
    copse_strategy *st;
    uint32_t rank;
    COPSE_TRY(copse_need("value", ctx, params, out));
    *out = NULL;
    COPSE_TRY(value_here(ctx, &st, &rank));
    return copse__value_sparse(ctx, st, rank, params, out);
}

copse_status copse_value_read_sparse(const copse_value *v, int32_t *indices, float *values)
{
    COPSE_TRY(copse_need("value", v));
    if (v->kind != COPSE_VALUE_SPARSE)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: not a sparse value");
    if (indices)
        COPSE_TRY(copse__block_read(v->indices, indices));
    if (values)
        COPSE_TRY(copse__block_read(v->block, values));
    return COPSE_OK;
}

copse_status copse__slices_read(const copse_value *v, int32_t **indices, struct copse_rows *rows)
{
    struct copse_mem *mem = &v->ctx->base.mem;
    const size_t row = v->slices ? (size_t)(v->block->count / v->slices) : 0;
    COPSE_TRY(copse_need_memory(*indices = copse__alloc(mem, v->slices, 4 * (1 + row)), "value"));
    float *values = (float *)(void *)(*indices + v->slices);
    *rows = (struct copse_rows){ v->slices, row, *indices, values };
    const copse_status s = copse_value_read_sparse(v, *indices, values);
    if (s)
        copse__free_read(mem, *indices, s);
    return s;
}

copse_status copse_value_densify(const copse_value *v, copse_value **out)
{
    struct copse_block *dense;
    struct copse_rows rows;
    int32_t *indices;
    uint64_t count;
    COPSE_TRY(copse_need("value", v, out));
    if (v->kind != COPSE_VALUE_SPARSE)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: not a sparse value");
    *out = NULL;
    COPSE_TRY(check_array(COPSE_F32, v->shape, &count));
    COPSE_TRY(copse__slices_read(v, &indices, &rows));
    const copse_status s = copse__block_create(v->ctx, NULL, COPSE_F32, count, &dense);
    if (!s)
        copse__change_rows(COPSE_SCATTER_ADD, rows.row, rows.count, rows.indices, rows.values,
                           dense->host);
    copse__free(&v->ctx->base.mem, indices);
    return s ? s : copse__value_from_block(v->ctx, v->strategy, COPSE_HOST, v->shape, dense, out);
}

/* ---- objects, lists, dictionaries ---- */

copse_status copse_value_object(copse_context *ctx, void *object, copse_value **out)
{
    COPSE_TRY(copse_need("value", ctx, out));
    COPSE_TRY(value_make(ctx, NULL, COPSE_VALUE_OBJECT, out));
    (*out)->object = object;
    return COPSE_OK;
}

/* Retains. */
static copse_status set_items(copse_value *v, copse_value *const *items, size_t count)
{
    v->items = copse__alloc(&v->ctx->base.mem, count, sizeof(copse_value *));
    COPSE_TRY(copse_need_memory(v->items, "value"));
    for (size_t i = 0; i < count; i++) {
        v->items[i] = copse_value_retain(items[i]);
        v->depth = COPSE_MAX(v->depth, items[i]->depth + 1);
    }
    v->count = count;
    return COPSE_OK;
}

static copse_status check_items(copse_value *const *items, size_t count)
{
    if (count > 0)
        COPSE_TRY(copse_need("value", items));
    for (size_t i = 0; i < count; i++) {
        if (!items[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "value: item %zu is NULL", i);
        if (items[i]->depth >= COPSE_MAX_DEPTH)
            return copse_fail(COPSE_ERR_ARGUMENT, "value: item %zu is nested deeper than %d", i,
                              COPSE_MAX_DEPTH);
    }
    return COPSE_OK;
}

static copse_status set_names(copse_value *v, const char *const *names)
{
    struct copse_mem *mem = &v->ctx->base.mem;
    COPSE_TRY(copse_need_memory(v->names = copse__alloc(mem, v->count, sizeof(char *)), "value"));
    for (size_t i = 0; i < v->count; i++) {
        for (size_t j = 0; j < i; j++)
            if (names[i] && strcmp(v->names[j], names[i]) == 0)
                return copse_fail(COPSE_ERR_ARGUMENT, "value: two items are named '%s'", names[i]);
        if (!names[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "value: item %zu has no name", i);
        COPSE_TRY(copse_need_memory(v->names[i] = copse__strdup(mem, names[i]), "value"));
    }
    return COPSE_OK;
}

/* A dictionary with `names`, else a list. */
static copse_status make_structure(copse_context *ctx, const char *const *names,
                                   copse_value *const *items, size_t count, copse_value **out)
{
    copse_value *v;
    COPSE_TRY(copse_need("value", ctx, out));
    *out = NULL;
    COPSE_TRY(check_items(items, count));
    COPSE_TRY(value_make(ctx, NULL, names ? COPSE_VALUE_DICT : COPSE_VALUE_LIST, &v));
    copse_status s = set_items(v, items, count);
    if (!s && names)
        s = set_names(v, names);
    return value_give(s, v, out);
}

copse_status copse_value_list(copse_context *ctx, copse_value *const *items, size_t count,
                              copse_value **out)
{
    return make_structure(ctx, NULL, items, count, out);
}

copse_status copse_value_dict(copse_context *ctx, const char *const *names,
                              copse_value *const *items, size_t count, copse_value **out)
{
    static const char *const none[1];
    if (count > 0)
        COPSE_TRY(copse_need("value", names));
    return make_structure(ctx, names ? names : none, items, count, out);
}

copse_status copse__value_like(copse_status s, copse_value *like, copse_value **items,
                               copse_value **out)
{
    bool is_changed = false;
    for (size_t i = 0; i < like->count && !s; i++)
        is_changed |= items[i] != like->items[i];
    if (!s && is_changed)
        s = make_structure(like->ctx, (const char *const *)like->names, items, like->count, out);
    else if (!s)
        *out = copse_value_retain(like);
    if (items)
        copse__values_release(items, like->count);
    copse__free(&like->ctx->base.mem, items);
    return s;
}

copse_status copse__value_map(copse_value *v, copse_map_fn *fn, void *user, copse_value **out)
{
    *out = NULL;
    if (!copse__value_is_structure(v))
        return fn(user, v, out);
    copse_value **items = copse__alloc(&v->ctx->base.mem, v->count, sizeof *items);
    copse_status s = copse_need_memory(items, "value");
    for (size_t i = 0; i < v->count && !s; i++)
        s = copse__value_map(v->items[i], fn, user, &items[i]);
    return copse__value_like(s, v, items, out);
}

/* ---- distributed values, variables ---- */

copse_status copse__value_distributed(copse_strategy *st, copse_value_kind kind,
                                      copse_value *const *components, const uint32_t *ranks,
                                      size_t count, copse_value **out)
{
    copse_value *v;
    *out = NULL;
    COPSE_TRY(check_items(components, count));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: a distributed value needs components");
    for (size_t i = 0; i < count; i++)
        if (copse__value_is_distributed(components[i]) || components[i]->depth > 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "value: component %zu is a list, a dictionary or "
                              "distributed itself; make a list of distributed values "
                              "instead",
                              i);
    COPSE_TRY(value_make(components[0]->ctx, st, kind, &v));
    copse_status s = set_items(v, components, count);
    v->depth = 0;
    v->ranks = copse__alloc(&v->ctx->base.mem, count, sizeof *v->ranks);
    if (!s && !v->ranks)
        s = copse_no_memory("value");
    for (size_t i = 0; i < count && !s; i++)
        v->ranks[i] = ranks ? ranks[i] : (uint32_t)i;
    return value_give(s, v, out);
}

copse_status copse__value_distributed_of(copse_status s, copse_strategy *st, copse_value_kind kind,
                                         copse_value **components, const uint32_t *ranks,
                                         size_t count, copse_value **out)
{
    *out = NULL;
    if (!s)
        s = copse__value_distributed(st, kind, components, ranks, count, out);
    copse__values_release(components, count);
    return s;
}

copse_status copse__value_of_each(copse_strategy *st, copse_value *v, copse_value **out)
{
    copse_value *components[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < st->replica_count; r++)
        components[r] = v;
    return copse__value_distributed(st, COPSE_VALUE_PER_REPLICA, components, NULL,
                                    st->replica_count, out);
}

copse_status copse_value_per_replica(copse_strategy *st, copse_value *const *components,
                                     size_t count, copse_value **out)
{
    COPSE_TRY(copse_need("value", st, components, out));
    *out = NULL;
    if (count != st->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: %zu components for %u replicas", count,
                          st->replica_count);
    COPSE_TRY(copse__require_device(st, "value"));
    return copse__value_distributed(st, COPSE_VALUE_PER_REPLICA, components, NULL, count, out);
}

static copse_status set_components(copse_value *v)
{
    copse_value *components[COPSE_MAX_REPLICAS] = { NULL };
    const uint32_t count = v->strategy->replica_count;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < count && !s; r++)
        s = copse__value_of_variable(v->variable, r, &components[r]);
    if (!s)
        s = set_items(v, components, count);
    v->depth = 0;
    copse__values_release(components, count);
    return s;
}

copse_status copse__value_of_variable(copse_variable *variable, uint32_t rank, copse_value **out)
{
    copse_value *v;
    *out = NULL;
    COPSE_TRY(value_make(variable->strategy->ctx, variable->strategy, COPSE_VALUE_VARIABLE, &v));
    v->variable = variable;
    atomic_fetch_add(&variable->values, 1);
    v->rank = rank;
    v->type = variable->tensor.type;
    v->shape = variable->tensor.shape;
    return value_give(rank == COPSE_ALL_RANKS ? set_components(v) : COPSE_OK, v, out);
}

copse_status copse__component_read(copse_variable *v, uint32_t rank, copse_value **out)
{
    copse_strategy *st = v->strategy;
    copse_queue *queue = st->replicas[rank].queue;
    struct copse_block *block;
    *out = NULL;
    COPSE_TRY(copse__strategy_settle(st));
    COPSE_TRY(copse__block_create(st->ctx, queue, v->tensor.type, v->count, &block));
    const copse_status s = copse__storage(v)->read_block(v, rank, block);
    if (s) {
        copse__block_release(&block);
        return copse_note(s, "while reading variable '%s'", v->name);
    }
    return copse__value_from_block(st->ctx, st, rank, v->tensor.shape, block, out);
}

copse_status copse__components_read(copse_variable *v, copse_value **out)
{
    copse_strategy *st = v->strategy;
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && !s; r++)
        s = copse__component_read(v, r, &parts[r]);
    return copse__value_distributed_of(s, st, COPSE_VALUE_PER_REPLICA, parts, NULL,
                                       st->replica_count, out);
}

/* ---- properties ---- */

/* The first component of a mirrored value; any other value itself. */
static const copse_value *value_representative(const copse_value *v)
{
    return v->kind == COPSE_VALUE_MIRRORED ? v->items[0] : v;
}

COPSE_PROPERTY(copse_value_kind, copse_value_kind_of, copse_value, x->kind, COPSE_VALUE_ARRAY)
COPSE_PROPERTY(copse_type, copse_value_type, copse_value, value_representative(x)->type, COPSE_F32)
COPSE_PROPERTY(copse_shape, copse_value_shape, copse_value, value_representative(x)->shape,
               COPSE_SCALAR)
COPSE_PROPERTY(uint32_t, copse_value_rank, copse_value,
               x->rank == COPSE_ALL_RANKS ? COPSE_HOST : x->rank, COPSE_HOST)
COPSE_PROPERTY(size_t, copse_value_count, copse_value,
               x->kind == COPSE_VALUE_SPARSE ? x->slices : x->count, 0)
COPSE_PROPERTY(void *, copse_value_pointer, copse_value, x->object, NULL)
COPSE_PROPERTY(copse_variable *, copse_value_variable, copse_value, x->variable, NULL)

copse_value *copse_value_item(const copse_value *v, size_t i)
{
    return v && i < v->count ? v->items[i] : NULL;
}

const char *copse_value_name(const copse_value *v, size_t i)
{
    return v && v->names && i < v->count ? v->names[i] : NULL;
}

copse_value *copse_value_find(const copse_value *v, const char *name)
{
    for (size_t i = 0; v && name && v->names && i < v->count; i++)
        if (strcmp(v->names[i], name) == 0)
            return v->items[i];
    return NULL;
}

copse_status copse__array_read(const copse_value *v, void *values)
{
    v = value_representative(v);
    if (v->kind == COPSE_VALUE_PER_REPLICA)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "value: replicas may differ here; read one of the %zu "
                          "components",
                          v->count);
    if (v->kind != COPSE_VALUE_ARRAY)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: only arrays and variables can be read");
    return copse__block_read(v->block, values);
}

copse_status copse_value_wait(const copse_value *v)
{
    COPSE_TRY(copse_need("value", v));
    for (size_t i = 0; i < v->count; i++)
        COPSE_TRY(copse_value_wait(v->items[i]));
    if (v->kind == COPSE_VALUE_VARIABLE && v->count == 0)
        return copse_queue_finish(v->strategy->replicas[v->rank].queue);
    return v->block ? copse__block_wait(v->block) : COPSE_OK;
}
