/* SPDX-License-Identifier: MIT */
/* The reduction of batches of structures. Leaves are sorted by the reduction that they need, each
   sort is reduced as one batch, and the results replace the leaves. */
#include "core/graph/type.h"
#include "core/value/cross_batch.h"

/* ---- leaves ---- */

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
                          "reduce: SUM of one value that is the same on all %u replicas; "
                          "give a per-replica value, or use MEAN",
                          b->st->group.ranks);
    return COPSE_OK;
}

/* Components of one kind, type and shape. */
static copse_status check_components(const copse_value *v, enum copse_need *need)
{
    const copse_value *first = v->items[0];
    for (size_t i = 0; i < v->count; i++) {
        const copse_value *c = v->items[i];
        if (c->kind == COPSE_VALUE_OBJECT)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "reduce: replica %u has an object of the application, no "
                              "numbers",
                              v->ranks[i]);
        if ((c->kind == COPSE_VALUE_SPARSE) != (first->kind == COPSE_VALUE_SPARSE))
            return copse_fail(COPSE_ERR_SHAPE,
                              "reduce: of replicas %u and %u one has a sparse value, the "
                              "other a dense one",
                              v->ranks[0], v->ranks[i]);
        if (!copse__type_is_computed(c->type))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "reduce: replica %u has %s; only f32 and i32 are reduced, convert it "
                              "(copse_value_convert)",
                              v->ranks[i], copse_type_name(c->type));
        if (c->type != first->type || !copse__shape_equal(c->shape, first->shape))
            return copse_fail(COPSE_ERR_SHAPE, "reduce: replica %u has %s%s, replica %u %s%s",
                              v->ranks[0], copse_type_name(first->type),
                              COPSE_SHAPE_TEXT(first->shape), v->ranks[i], copse_type_name(c->type),
                              COPSE_SHAPE_TEXT(c->shape));
    }
    *need = first->kind == COPSE_VALUE_SPARSE ? COPSE_NEED_SPARSE
            : first->type == COPSE_I32        ? COPSE_NEED_I32
                                              : COPSE_NEED_F32;
    return COPSE_OK;
}

/* Takes over a reference to `v`. */
static copse_status push_leaf(struct copse_cross_batch *b, copse_value *v, enum copse_need need)
{
    if (COPSE_PUSH(b->mem, &b->leaves, ((struct copse_leaf){ v, need, NULL })))
        return COPSE_OK;
    copse_value_release(&v);
    return copse_no_memory("reduce");
}

static copse_status add_distributed(struct copse_cross_batch *b, copse_value *v)
{
    enum copse_need need = COPSE_NEED_NOTHING;
    if (b->is_broadcast)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "broadcast: replicas may differ here; give a plain value");
    COPSE_TRY(check_components(v, &need));
    if (need == COPSE_NEED_I32 && b->op == COPSE_REDUCE_MEAN && !b->params->accumulate)
        need = COPSE_NEED_WHOLE_MEAN;
    if (b->st->group.ranks == 1)
        return push_leaf(b, copse_value_retain(v->items[0]), COPSE_NEED_NOTHING);
    return push_leaf(b, copse_value_retain(v), need);
}

/* A variable that every replica keeps for itself is a per-replica value of its components. An
   array, or one component, is what every replica of this worker gives; those of other workers may
   give something else. Any other value is the same on all replicas. */
static copse_status add_plain(struct copse_cross_batch *b, copse_value *v)
{
    const bool is_variable =
        v->kind == COPSE_VALUE_VARIABLE && copse__variable_is_local(v->variable);
    const bool is_whole = is_variable && v->rank == COPSE_ALL_RANKS;
    const bool is_here =
        v->kind == COPSE_VALUE_ARRAY || v->kind == COPSE_VALUE_SPARSE || is_variable;
    const bool is_given = b->st->group.workers > 1 && !b->is_broadcast && is_here;
    copse_value *all;
    if (!is_whole && (!is_given || b->st->replica_count > 1))
        COPSE_TRY(check_plain(b, v));
    if (!is_whole && !is_given)
        return push_leaf(b, copse_value_retain(v), COPSE_NEED_NOTHING);
    copse_status s = is_whole ? copse__value_distributed(b->st, COPSE_VALUE_PER_REPLICA, v->items,
                                                         NULL, v->count, &all)
                              : copse__value_of_each(b->st, v, &all);
    if (!s)
        s = add_distributed(b, all);
    copse_value_release(&all);
    return s;
}

static copse_status add_leaves(struct copse_cross_batch *b, copse_value *v)
{
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: a value is NULL");
    if (v->strategy && v->strategy != b->st && v->kind >= COPSE_VALUE_VARIABLE)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the value belongs to another strategy");
    if (copse__value_is_structure(v)) {
        for (size_t i = 0; i < v->count; i++)
            COPSE_TRY(add_leaves(b, v->items[i]));
        return COPSE_OK;
    }
    return v->kind == COPSE_VALUE_PER_REPLICA ? add_distributed(b, v) : add_plain(b, v);
}

/* The result in place of the next leaf. */
static copse_status take_result(void *user, copse_value *leaf, copse_value **out)
{
    const struct copse_leaf **next = user;
    (void)leaf;
    *out = copse_value_retain((*next)++->result);
    return COPSE_OK;
}

/* ---- all of it ---- */

static copse_status move_leaf(const struct copse_cross_batch *b, struct copse_leaf *leaf)
{
    if (!b->stays && leaf->value->kind != COPSE_VALUE_OBJECT)
        return copse__value_spread(b->st, leaf->value, &b->to, &leaf->result);
    leaf->result = copse_value_retain(leaf->value);
    return COPSE_OK;
}

static copse_status reduce_here(struct copse_cross_batch *b)
{
    struct copse_leaf *leaf = NULL;
    while ((leaf = copse__leaf_next(b, COPSE_NEED_SPARSE, leaf)))
        COPSE_TRY(copse__sparse_reduce(b->st, leaf->value->items, leaf->value->count, b->divisor,
                                       &b->to, &leaf->result));
    COPSE_TRY(copse__whole_mean_reduce(b));
    COPSE_TRY(copse__dense_reduce(b, COPSE_NEED_F32));
    return copse__dense_reduce(b, COPSE_NEED_I32);
}

static copse_status cross_device_run(struct copse_cross_batch *b, copse_value *const *values,
                                     size_t count, copse_value **out)
{
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count && !s; i++)
        s = add_leaves(b, values[i]);
    if (b->st->group.workers > 1 && !b->is_broadcast)
        s = copse__batch_workers(b, s);
    else if (!s)
        s = reduce_here(b);
    for (size_t i = 0; i < b->leaves.count && !s; i++)
        if (b->leaves.at[i].need == COPSE_NEED_NOTHING)
            s = move_leaf(b, &b->leaves.at[i]);
    const struct copse_leaf *next = b->leaves.at;
    for (size_t i = 0; i < count && !s; i++)
        s = copse__value_map(values[i], take_result, &next, &out[i]);
    return s;
}

static copse_status run_batch(struct copse_cross_batch *b, copse_value *const *values,
                              const struct copse_destinations *to, size_t count, copse_value **out)
{
    memset(out, 0, count * sizeof *out);
    copse_status s = copse__destinations_of(b->st, to, &b->to);
    if (!s && !values[0])
        s = copse_fail(COPSE_ERR_ARGUMENT, "reduce: a value is NULL");
    if (s)
        return b->is_broadcast ? s : copse__group_barrier(&b->st->group, "a reduction", 0, s);
    b->stays = b->to.count == 0 && !b->is_broadcast;
    if (b->to.count == 0)
        copse__destinations_all(b->st, &b->to);
    b->divisor = b->op == COPSE_REDUCE_MEAN ? b->st->group.ranks : 0;
    b->mem = &values[0]->ctx->base.mem;
    s = cross_device_run(b, values, count, out);
    for (size_t i = 0; i < b->leaves.count; i++) {
        copse_value_release(&b->leaves.at[i].value);
        copse_value_release(&b->leaves.at[i].result);
    }
    copse__free(b->mem, b->leaves.at);
    if (s)
        copse__values_release(out, count);
    return s;
}

copse_status copse__cross_reduce_for(const char *subject, copse_cross_device *x, copse_strategy *st,
                                     copse_reduce_op op, copse_value *const *values,
                                     const struct copse_destinations *to, size_t count,
                                     copse_value **out)
{
    COPSE_TRY(copse_need("reduce", st, values, out));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the batch is empty");
    COPSE_TRY(copse_need_known("reduce", "operation", op, COPSE_REDUCE_MEAN));
    struct copse_cross_batch b = {
        .params = x ? &x->params : &copse__cross_defaults, .st = st, .op = op, .subject = subject
    };
    /* its accumulate function may release what the application holds */
    copse_cross_device_retain(x);
    const copse_status s = run_batch(&b, values, to, count, out);
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
    COPSE_TRY(copse_need("broadcast", st, out));
    struct copse_cross_batch b = { .params = x ? &x->params : &copse__cross_defaults,
                                   .st = st,
                                   .is_broadcast = true };
    return run_batch(&b, &value, to, 1, out);
}
