/* SPDX-License-Identifier: MIT */
/* Reading and changing variables outside graphs, by the rules of the context that the thread is
   in. */
#include <stdio.h>

#include "core/value/replica_run.h"
#include "core/variable/storage.h"

/* Function, change, and the merge call of a change by replicas, in words. */
#define CHANGES(X)                                                           \
    X(copse_assign, COPSE_CHANGE_SET, "an assignment to")                    \
    X(copse_assign_add, COPSE_CHANGE_ADD, "an addition to")                  \
    X(copse_assign_sub, COPSE_CHANGE_SUB, "a subtraction from")              \
    X(copse_scatter_add, COPSE_SCATTER_ADD, "a scattered addition to")       \
    X(copse_scatter_sub, COPSE_SCATTER_SUB, "a scattered subtraction from")  \
    X(copse_scatter_update, COPSE_SCATTER_UPDATE, "a scattered update of")   \
    X(copse_scatter_mul, COPSE_SCATTER_MUL, "a scattered multiplication of") \
    X(copse_scatter_div, COPSE_SCATTER_DIV, "a scattered division of")       \
    X(copse_scatter_min, COPSE_SCATTER_MIN, "a scattered minimum of")        \
    X(copse_scatter_max, COPSE_SCATTER_MAX, "a scattered maximum of")

static const struct {
    const char *call, *merge;
} texts[COPSE_CHANGES] = {
#define TEXTS(fn, change, merge) [change] = { #fn, merge },
    CHANGES(TEXTS)
#undef TEXTS
};

static bool is_scatter(enum copse_change change)
{
    return change >= COPSE_SCATTER_ADD;
}

/* ---- one component ---- */

static copse_status change_component(copse_variable *v, uint32_t rank, enum copse_change change,
                                     const copse_value *value)
{
    const struct copse_storage_table *storage = copse__storage(v);
    struct copse_mem *mem = &value->ctx->base.mem;
    struct copse_rows rows;
    int32_t *indices;
    void *by;
    if (is_scatter(change)) {
        COPSE_TRY(copse__slices_read(value, &indices, &rows));
        const copse_status s = storage->scatter(v, rank, change, &rows);
        copse__free(mem, indices);
        return s;
    }
    const struct copse_binding to = storage->target(v, rank);
    if (change == COPSE_CHANGE_SET && to.buffer && value->kind == COPSE_VALUE_ARRAY &&
        value->block->queue == v->strategy->replicas[rank].queue) /* a copy on the device */
        return copse_queue_copy(value->block->queue, value->block->buffer, 0, to.buffer, to.offset,
                                to.size);
    COPSE_TRY(copse__value_to_host(value, &by));
    const copse_status s = storage->change(v, rank, change, by);
    copse__free(mem, by);
    return s;
}

/* The component of a mirrored value, or the plain value, into one component of the variable. */
static copse_status change_at(copse_variable *v, uint32_t rank, enum copse_change change,
                              copse_value *value)
{
    copse_value *mine;
    COPSE_TRY(copse__select_update(value, rank, &mine));
    const copse_status s = change_component(v, rank, change, mine);
    copse_value_release(&mine);
    return copse_note(s, "while changing variable '%s' on replica %u", v->name, rank);
}

static copse_status change_all(copse_variable *v, enum copse_change change, copse_value *value)
{
    const uint32_t count = copse__strategy_copies(v->strategy);
    for (uint32_t r = 0; r < count; r++)
        COPSE_TRY(change_at(v, r, change, value));
    return COPSE_OK;
}

/* ---- changing ---- */

static copse_status check_value(const copse_variable *v, enum copse_change change,
                                const copse_value *value)
{
    const copse_value_kind kind =
        value->kind == COPSE_VALUE_MIRRORED ? value->items[0]->kind : value->kind;
    const bool is_dense = kind == COPSE_VALUE_ARRAY || kind == COPSE_VALUE_VARIABLE;
    if (is_scatter(change) ? kind != COPSE_VALUE_SPARSE : !is_dense)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%s': takes a plain or mirrored %s%s",
                          v->name, is_scatter(change) ? "sparse value" : "array",
                          value->kind == COPSE_VALUE_PER_REPLICA
                              ? "; replicas may differ in this value, reduce it first"
                              : "");
    const copse_type type = copse_value_type(value);
    const copse_shape shape = copse_value_shape(value);
    if (type == v->tensor.type && copse__shape_equal(shape, v->tensor.shape))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE, "variable '%s': is %s %s, the value is %s %s", v->name,
                      copse_type_name(v->tensor.type), COPSE_SHAPE_TEXT(v->tensor.shape),
                      copse_type_name(type), COPSE_SHAPE_TEXT(shape));
}

static copse_status change_cross(copse_variable *v, enum copse_change change, copse_value *value)
{
    void *total;
    COPSE_TRY(check_value(v, change, value));
    if (!copse__variable_is_local(v) || v->aggregation != COPSE_AGGREGATION_SUM)
        return change_all(v, change, value);
    if (change != COPSE_CHANGE_SET)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': a sum over replicas is not added to from "
                          "outside of them; assign it, or add in one replica",
                          v->name);
    COPSE_TRY(copse__value_to_host(value, &total));
    const copse_status s = copse__components_set_sum(v, total);
    copse__free(&value->ctx->base.mem, total);
    return s;
}

struct request {
    copse_variable *v;
    enum copse_change change;
};

/* What the replicas give as a per-replica value; NULL where it is the same on all of them, those of
   other workers too. */
static copse_status find_given(copse_strategy *st, copse_value *given, copse_value **out)
{
    *out = NULL;
    if (given->kind == COPSE_VALUE_PER_REPLICA) {
        *out = copse_value_retain(given);
        return COPSE_OK;
    }
    if (st->group.workers == 1 ||
        (given->kind != COPSE_VALUE_ARRAY && given->kind != COPSE_VALUE_SPARSE))
        return COPSE_OK;
    return copse__value_of_each(st, given, out);
}

static copse_status check_given(const copse_strategy *st, const struct request *r,
                                const copse_value *given, const copse_value *all)
{
    const bool is_same = given->kind != COPSE_VALUE_PER_REPLICA;
    for (size_t i = 0; all && i < all->count; i++)
        COPSE_TRY(
            copse_note(check_value(r->v, r->change, all->items[i]), "given by replica %zu", i));
    if (!is_same || r->v->aggregation != COPSE_AGGREGATION_SUM || st->group.ranks == 1 ||
        (all && st->replica_count == 1))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "variable '%s': all %u replicas give the same value, which is not "
                      "%u values to add up; use MEAN, or a value of each replica's own",
                      r->v->name, st->group.ranks, st->group.ranks);
}

/* Replica 0's request: all have the same. */
static copse_status change_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    const struct request *r = user;
    copse_value *one = NULL, *all = NULL;
    (void)result, (void)count;
    copse_status s = find_given(st, args[0], &all);
    if (!s)
        s = check_given(st, r, args[0], all);
    if (!s && !all)
        return change_cross(r->v, r->change, args[0]);
    s = copse__variable_aggregate(r->v, all, s, &one);
    if (!s)
        s = change_cross(r->v, r->change, one);
    copse_value_release(&one);
    copse_value_release(&all);
    return s;
}

copse_status copse__variable_assign_each(copse_variable *v, copse_value *each)
{
    const struct request r = { v, COPSE_CHANGE_SET };
    COPSE_TRY(check_given(v->strategy, &r, each, each));
    if (!copse__variable_is_local(v) && each->count > 1)
        return change_merge(v->strategy, &each, 1, (void *)(uintptr_t)&r, NULL);
    for (uint32_t i = 0; i < copse__strategy_copies(v->strategy); i++)
        COPSE_TRY(change_component(v, i, COPSE_CHANGE_SET, each->items[i]));
    return COPSE_OK;
}

static copse_status change_together(const struct copse_frame *f, copse_variable *v,
                                    enum copse_change change, copse_value *value)
{
    char what[160];
    if (v->aggregation == COPSE_AGGREGATION_NONE)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': mirrored, and without an aggregation; "
                          "replicas cannot write it",
                          v->name);
    if (change >= COPSE_SCATTER_UPDATE && v->aggregation != COPSE_AGGREGATION_ONLY_FIRST_REPLICA)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "variable '%s': slices that rows are set to, multiplied or "
                          "compared with are not added up or averaged over replicas; "
                          "make it with COPSE_AGGREGATION_ONLY_FIRST_REPLICA",
                          v->name);
    snprintf(what, sizeof what, "%s variable '%s'", texts[change].merge, v->name);
    struct request request = { v, change };
    struct copse_merge m = {
        .what = what, .subject = v, .fn = change_merge, .user = &request, .args = &value, .count = 1
    };
    const copse_status s = copse__merge_call((copse_replica_context *)f->handle, &m);
    copse_value_release(&m.result);
    return s;
}

static copse_status change_in_replica(const struct copse_frame *f, copse_variable *v,
                                      enum copse_change change, copse_value *value)
{
    if (f->is_graph)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "variable '%s': changed in the loss function of replica %u, which builds a graph "
            "and runs once for all steps",
            v->name, f->rank);
    const bool is_alone = v->strategy->table->has_one_copy && v->strategy->replica_count == 1;
    if (!copse__variable_is_local(v) && !is_alone)
        return change_together(f, v, change, value);
    COPSE_TRY(check_value(v, change, value));
    return change_at(v, f->rank, change, value);
}

/* In an update function: one component. Those of a mirrored variable are equal again when all
   replicas have had theirs. */
static copse_status change_in_update(const struct copse_frame *f, copse_variable *v,
                                     enum copse_change change, copse_value *value)
{
    if (f->is_partial && !copse__variable_is_local(v))
        return copse_fail(COPSE_ERR_CONTEXT,
                          "variable '%s': mirrored; an update of some replicas alone "
                          "would leave its components unequal; give all ranks, or use "
                          "copse_strategy_update",
                          v->name);
    COPSE_TRY(check_value(v, change, value));
    return change_at(v, f->update_rank, change, value);
}

static copse_status change_variable(copse_variable *v, enum copse_change change, copse_value *value)
{
    const char *call = texts[change].call;
    COPSE_TRY(copse__variable_check(v, call));
    if (!value)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: the value for variable '%s' is NULL", call,
                          v->name);
    const struct copse_frame *f = copse__context_top();
    COPSE_TRY(copse__require_strategy_of(v));
    if (!f || !f->is_graph) /* there change_in_replica refuses it */
        COPSE_TRY(copse__callback_check(call, v->strategy));
    copse_value *mine;
    if (!f || (!f->handle && f->update_rank == COPSE_HOST))
        return change_cross(v, change, value);
    if (!f->handle)
        return change_in_update(f, v, change, value);
    COPSE_TRY(copse__select_replica(value, f->rank, &mine));
    const copse_status s = change_in_replica(f, v, change, mine);
    copse_value_release(&mine);
    return s;
}

#define DEFINE(fn, how, merge)                             \
    copse_status fn(copse_variable *v, copse_value *value) \
    {                                                      \
        return change_variable(v, how, value);             \
    }
CHANGES(DEFINE)
