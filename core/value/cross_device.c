/* SPDX-License-Identifier: MIT */
/* The reduction of batches of structures. Leaves are sorted by the reduction that they need, each sort is reduced as one
   batch, and the results replace the leaves. */
#include "core/value/cross_batch.h"

/* ---- leaves ---- */

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "reduce: no memory");
}

/* One identical object is not N of them. */
static copse_status check_plain(const struct copse_cross_batch *b, const copse_value *v)
{
    if (b->is_broadcast)
        return COPSE_OK;
    if (v->kind == COPSE_VALUE_OBJECT)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: an object of the application has no %s",
                          b->op == COPSE_REDUCE_SUM ? "sum" : "mean");
    if (b->op == COPSE_REDUCE_SUM && b->st->group.ranks > 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "reduce: SUM of one value that is the same on all %u replicas; give a "
                          "per-replica value, or use MEAN",
                          b->st->group.ranks);
    return COPSE_OK;
}

/* Components of one kind, type and shape. */
static copse_status check_components(const copse_value *v, enum copse_need *need)
{
    const copse_value *first = v->items[0];
    char a[96], b[96];
    for (size_t i = 0; i < v->count; i++) {
        const copse_value *c = v->items[i];
        if (c->kind == COPSE_VALUE_OBJECT)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "reduce: replica %u has an object of the application, no numbers",
                              v->ranks[i]);
        if ((c->kind == COPSE_VALUE_SPARSE) != (first->kind == COPSE_VALUE_SPARSE))
            return copse_fail(COPSE_ERR_SHAPE,
                              "reduce: of replicas %u and %u one has a sparse value, the other a "
                              "dense one",
                              v->ranks[0], v->ranks[i]);
        if (c->type != first->type || !copse__shape_equal(c->shape, first->shape))
            return copse_fail(COPSE_ERR_SHAPE, "reduce: replica %u has %s%s, replica %u %s%s",
                              v->ranks[0], first->type == COPSE_F32 ? "f32" : "i32",
                              copse__shape_text(first->shape, a), v->ranks[i],
                              c->type == COPSE_F32 ? "f32" : "i32", copse__shape_text(c->shape, b));
    }
    *need = first->kind == COPSE_VALUE_SPARSE ? COPSE_NEED_SPARSE
            : first->type == COPSE_I32        ? COPSE_NEED_I32
                                              : COPSE_NEED_F32;
    return COPSE_OK;
}

static copse_status check_owner(const struct copse_cross_batch *b, const copse_value *v)
{
    if (v->strategy && v->strategy != b->st && v->kind >= COPSE_VALUE_VARIABLE)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the value belongs to another strategy");
    return COPSE_OK;
}

/* Takes over a reference to `v`. */
static copse_status push_leaf(struct copse_cross_batch *b, copse_value *v, enum copse_need need)
{
    if (COPSE_PUSH(b->mem, &b->leaves, ((struct copse_leaf){ v, need, NULL })))
        return COPSE_OK;
    copse_value_release(&v);
    return no_memory();
}

static copse_status add_distributed(struct copse_cross_batch *b, copse_value *v)
{
    enum copse_need need = COPSE_NEED_NOTHING;
    if (b->is_broadcast)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "broadcast: replicas may differ here; give a plain value");
    COPSE_TRY(check_components(v, &need));
    if (b->st->group.ranks == 1)
        return push_leaf(b, copse_value_retain(v->items[0]), COPSE_NEED_NOTHING);
    return push_leaf(b, copse_value_retain(v), need);
}

/* What every replica of this worker gives; those of other workers may give something else. */
static copse_status add_given(struct copse_cross_batch *b, copse_value *v)
{
    copse_value *all, *components[COPSE_MAX_REPLICAS];
    if (b->st->replica_count > 1)
        COPSE_TRY(check_plain(b, v));
    for (uint32_t r = 0; r < b->st->replica_count; r++)
        components[r] = v;
    COPSE_TRY(copse__value_distributed(b->st, COPSE_VALUE_PER_REPLICA, components, NULL,
                                       b->st->replica_count, &all));
    const copse_status s = add_distributed(b, all);
    copse_value_release(&all);
    return s;
}

/* The same on all replicas, or on those of this worker alone. */
static copse_status add_plain(struct copse_cross_batch *b, copse_value *v)
{
    const bool is_here = v->kind == COPSE_VALUE_ARRAY || v->kind == COPSE_VALUE_SPARSE ||
                         (v->kind == COPSE_VALUE_VARIABLE && copse__variable_is_local(v->variable));
    if (b->st->group.workers > 1 && !b->is_broadcast && is_here)
        return add_given(b, v);
    COPSE_TRY(check_plain(b, v));
    return push_leaf(b, copse_value_retain(v), COPSE_NEED_NOTHING);
}

/* A variable that every replica keeps for itself is a per-replica value of its components. */
static copse_status add_variable(struct copse_cross_batch *b, copse_value *v)
{
    copse_value *all;
    if (v->rank != COPSE_ALL_RANKS || !copse__variable_is_local(v->variable))
        return add_plain(b, v);
    COPSE_TRY(copse__value_distributed(b->st, COPSE_VALUE_PER_REPLICA, v->items, NULL, v->count,
                                       &all));
    const copse_status s = add_distributed(b, all);
    copse_value_release(&all);
    return s;
}

static copse_status add_leaves(struct copse_cross_batch *b, copse_value *v)
{
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: a value is NULL");
    COPSE_TRY(check_owner(b, v));
    if (copse__value_is_structure(v)) {
        for (size_t i = 0; i < v->count; i++)
            COPSE_TRY(add_leaves(b, v->items[i]));
        return COPSE_OK;
    }
    if (v->kind == COPSE_VALUE_PER_REPLICA)
        return add_distributed(b, v);
    if (v->kind == COPSE_VALUE_VARIABLE)
        return add_variable(b, v);
    return add_plain(b, v);
}

/* The structure of `v` with the results of its leaves. */
static copse_status rebuild(struct copse_cross_batch *b, copse_value *v, size_t *next, copse_value **out)
{
    copse_status s = COPSE_OK;
    if (!copse__value_is_structure(v)) {
        *out = copse_value_retain(b->leaves.at[(*next)++].result);
        return COPSE_OK;
    }
    copse_value **items = copse__alloc(b->mem, v->count, sizeof *items);
    if (!items)
        return no_memory();
    for (size_t i = 0; i < v->count && !s; i++)
        s = rebuild(b, v->items[i], next, &items[i]);
    if (!s)
        s = copse__value_like(v, items, out);
    for (size_t i = 0; i < v->count; i++)
        copse_value_release(&items[i]);
    copse__free(b->mem, items);
    return s;
}

static copse_status reduce_sparse(const struct copse_cross_batch *b, struct copse_leaf *leaf)
{
    const size_t count = leaf->value->count;
    struct copse_ranks to;
    copse__batch_destinations(b, &to);
    return copse__sparse_reduce(b->st, leaf->value->items, count,
                                b->op == COPSE_REDUCE_MEAN ? (uint32_t)count : 0, &to, &leaf->result);
}

/* ---- all of it ---- */

static copse_status reduce_here(struct copse_cross_batch *b)
{
    for (size_t i = 0; i < b->leaves.count; i++)
        if (b->leaves.at[i].need == COPSE_NEED_SPARSE)
            COPSE_TRY(reduce_sparse(b, &b->leaves.at[i]));
    COPSE_TRY(copse__dense_reduce(b, COPSE_NEED_F32));
    return copse__dense_reduce(b, COPSE_NEED_I32);
}

static copse_status run(struct copse_cross_batch *b, copse_value *const *values, size_t count,
                        copse_value **out)
{
    size_t next = 0;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && !s; i++)
        s = add_leaves(b, values[i]);
    if (b->st->group.workers > 1 && !b->is_broadcast)
        s = copse__batch_workers(b, s);
    else if (!s)
        s = reduce_here(b);
    for (size_t i = 0; i < b->leaves.count && !s; i++)
        if (b->leaves.at[i].need == COPSE_NEED_NOTHING)
            s = copse__leaf_move(b, &b->leaves.at[i]);
    for (size_t i = 0; i < count && !s; i++)
        s = rebuild(b, values[i], &next, &out[i]);
    return s;
}

static copse_status run_batch(struct copse_cross_batch *b, copse_value *const *values, size_t count,
                              copse_value **out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    if (!values[0])
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: a value is NULL");
    b->mem = &values[0]->ctx->base.mem;
    const copse_status s = run(b, values, count, out);
    for (size_t i = 0; i < b->leaves.count; i++) {
        copse_value_release(&b->leaves.at[i].value);
        copse_value_release(&b->leaves.at[i].result);
    }
    copse__free(b->mem, b->leaves.at);
    for (size_t i = 0; s && i < count; i++)
        copse_value_release(&out[i]);
    return s;
}

copse_status copse__cross_reduce_for(const char *subject, copse_cross_device *x, copse_strategy *st,
                                     copse_reduce_op op, copse_value *const *values,
                                     const struct copse_destinations *to, size_t count,
                                     copse_value **out)
{
    if (!st || !out || !values)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: strategy, values or result is NULL");
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the batch is empty");
    if (op != COPSE_REDUCE_SUM && op != COPSE_REDUCE_MEAN)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: there is no operation %d", (int)op);
    struct copse_cross_batch b = { .params = x ? &x->params : &copse__cross_defaults, .st = st, .op = op,
                                   .subject = subject };
    copse_status s = copse__destinations_of(st, to, &b.destinations);
    if (s)
        return copse__group_barrier(&st->group, "a reduction", 0, s);
    if (x) /* its accumulate function may release what the application holds */
        copse_cross_device_retain(x);
    s = run_batch(&b, values, count, out);
    copse_cross_device_release(&x);
    return s;
}

copse_status copse_cross_batch_reduce(copse_cross_device *x, copse_strategy *st, copse_reduce_op op,
                                      copse_value *const *values,
                                      const struct copse_destinations *to, size_t count,
                                      copse_value **out)
{
    COPSE_TRY(copse__callback_check("copse_cross_batch_reduce", st));
    return copse__cross_reduce_for(NULL, x, st, op, values, to, count, out);
}

copse_status copse_cross_reduce(copse_cross_device *x, copse_strategy *st, copse_reduce_op op,
                                copse_value *value, const struct copse_destinations *to,
                                copse_value **out)
{
    return copse_cross_batch_reduce(x, st, op, &value, to, 1, out);
}

copse_status copse_cross_broadcast(copse_cross_device *x, copse_strategy *st, copse_value *value,
                                   const struct copse_destinations *to, copse_value **out)
{
    COPSE_TRY(copse__callback_check("copse_cross_broadcast", st));
    if (!st || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "broadcast: strategy or result is NULL");
    struct copse_cross_batch b = { .params = x ? &x->params : &copse__cross_defaults, .st = st, .is_broadcast = true };
    COPSE_TRY(copse__destinations_of(st, to, &b.destinations));
    if (b.destinations.count == 0)
        copse__destinations_all(st, &b.destinations);
    return run_batch(&b, &value, 1, out);
}
