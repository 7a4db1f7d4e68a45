/* SPDX-License-Identifier: MIT */
/* How the values of replicas become one value, and how that is taken apart again. */
#include <stdio.h>

#include "core/value/value.h"

bool copse__value_same(const copse_value *a, const copse_value *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind)
        return false;
    if (a->kind == COPSE_VALUE_OBJECT)
        return a->object == b->object;
    return a->kind == COPSE_VALUE_VARIABLE && a->variable == b->variable && a->rank == b->rank;
}

/* ---- regroup ---- */

struct regroup {
    copse_strategy *st;
    copse_value_kind kind;
    const uint32_t *ranks;
    size_t count;
    char path[160]; /* of what is looked at, as in "[1].loss" */
};

static uint32_t rank_of(const struct regroup *g, size_t i)
{
    return g->ranks ? g->ranks[i] : (uint32_t)i;
}

static void structure_describe(const copse_value *v, char *text, size_t room)
{
    if (copse__value_is_structure(v))
        snprintf(text, room, "a %s of %zu", v->kind == COPSE_VALUE_LIST ? "list" : "dictionary",
                 v->count);
    else
        snprintf(text, room, "a single value");
}

static copse_status structure_mismatch(const struct regroup *g, copse_value *const *values,
                                       size_t i)
{
    char a[48], b[48];
    structure_describe(values[0], a, sizeof a);
    structure_describe(values[i], b, sizeof b);
    return copse_fail(COPSE_ERR_SHAPE,
                      "replicas returned different structures: result%s is %s on replica "
                      "%u, %s on replica %u",
                      g->path, a, rank_of(g, 0), b, rank_of(g, i));
}

static copse_status regroup_leaf(struct regroup *g, copse_value *const *values, copse_value **out)
{
    bool is_same = true, is_container = true;
    for (size_t i = 0; i < g->count; i++) {
        const copse_value *v = values[i];
        is_same = is_same && copse__value_same(values[0], v);
        is_container = is_container && v->kind == COPSE_VALUE_VARIABLE &&
                       v->variable == values[0]->variable && v->rank == rank_of(g, i);
    }
    if (is_container && g->count == g->st->replica_count)
        return copse__value_of_variable(values[0]->variable, COPSE_ALL_RANKS, out);
    if (is_same) {
        *out = copse_value_retain(values[0]);
        return COPSE_OK;
    }
    return copse_note(copse__value_distributed(g->st, g->kind, values, g->ranks, g->count, out),
                      "while regrouping result%s of the replicas", g->path);
}

static copse_status structure_regroup(struct regroup *g, copse_value *const *values,
                                      copse_value **out);

/* Item `at` of the first replica's value and its counterparts. */
static copse_status regroup_item(struct regroup *g, copse_value *const *values, size_t at,
                                 copse_value **out)
{
    copse_value *items[COPSE_MAX_REPLICAS];
    const size_t length = strlen(g->path);
    const char *name = copse_value_name(values[0], at);
    for (size_t i = 0; i < g->count; i++) {
        items[i] = name ? copse_value_find(values[i], name) : values[i]->items[at];
        if (!items[i])
            return copse_fail(COPSE_ERR_SHAPE,
                              "replicas returned different structures: result%s has an item "
                              "'%s' on replica %u, none on replica %u",
                              g->path, name, rank_of(g, 0), rank_of(g, i));
    }
    if (name)
        snprintf(g->path + length, sizeof g->path - length, ".%s", name);
    else
        snprintf(g->path + length, sizeof g->path - length, "[%zu]", at);
    const copse_status s = structure_regroup(g, items, out);
    g->path[length] = 0;
    return s;
}

static copse_status structure_regroup(struct regroup *g, copse_value *const *values,
                                      copse_value **out)
{
    const bool is_structure = copse__value_is_structure(values[0]);
    for (size_t i = 1; i < g->count; i++)
        if (copse__value_is_structure(values[i]) != is_structure ||
            (is_structure &&
             (values[i]->kind != values[0]->kind || values[i]->count != values[0]->count)))
            return structure_mismatch(g, values, i);
    if (!is_structure)
        return regroup_leaf(g, values, out);
    copse_value **items = copse__alloc(&values[0]->ctx->base.mem, values[0]->count, sizeof *items);
    copse_status s = copse_need_memory(items, "value");
    for (size_t at = 0; at < values[0]->count && !s; at++)
        s = regroup_item(g, values, at, &items[at]);
    return copse__value_like(s, values[0], items, out);
}

copse_status copse__regroup(copse_strategy *st, copse_value_kind kind, copse_value *const *values,
                            const uint32_t *ranks, size_t count, copse_value **out)
{
    struct regroup g = { .st = st, .kind = kind, .ranks = ranks, .count = count };
    *out = NULL;
    if (count == 0 || count > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "value: %zu results to regroup", count);
    for (size_t i = 1; i < count; i++)
        if (!values[i] != !values[0])
            return copse_fail(COPSE_ERR_SHAPE,
                              "replicas returned different structures: replica %u returned "
                              "%s, replica %u %s",
                              rank_of(&g, 0), values[0] ? "a value" : "nothing", rank_of(&g, i),
                              values[i] ? "a value" : "nothing");
    return values[0] ? structure_regroup(&g, values, out) : COPSE_OK;
}

/* ---- select ---- */

copse_value *copse__component_at(const copse_value *v, uint32_t rank)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->ranks[i] == rank)
            return v->items[i];
    return v->kind == COPSE_VALUE_MIRRORED ? v->items[0] : NULL;
}

struct selection {
    uint32_t rank;
    bool is_update;
};

static copse_status select_leaf(void *user, copse_value *v, copse_value **out)
{
    const struct selection *x = user;
    const bool is_whole = v->kind == COPSE_VALUE_VARIABLE && v->rank == COPSE_ALL_RANKS;
    if (x->is_update && v->kind == COPSE_VALUE_PER_REPLICA)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "update: replicas may differ in an argument; give a plain or "
                          "mirrored value, such as a reduced one");
    if (copse__value_is_distributed(v))
        v = copse__component_at(v, x->rank);
    else if (x->is_update && is_whole && x->rank < v->count)
        v = v->items[x->rank];
    *out = copse_value_retain(v);
    return v ? COPSE_OK
             : copse_fail(COPSE_ERR_ARGUMENT, "value: has no component for replica %u", x->rank);
}

copse_status copse__select_replica(copse_value *v, uint32_t rank, copse_value **out)
{
    return copse__value_map(v, select_leaf, &(struct selection){ rank, false }, out);
}

copse_status copse__select_update(copse_value *v, uint32_t rank, copse_value **out)
{
    return copse__value_map(v, select_leaf, &(struct selection){ rank, true }, out);
}

copse_status copse__check_components(const copse_value *v, uint32_t replicas)
{
    for (size_t i = 0; copse__value_is_structure(v) && i < v->count; i++)
        COPSE_TRY(copse__check_components(v->items[i], replicas));
    if (v->kind == COPSE_VALUE_PER_REPLICA && v->count != replicas)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "value: %zu components, one for each replica of another "
                          "strategy; there are %u replicas here",
                          v->count, replicas);
    return COPSE_OK;
}

/* ---- local results, container ---- */

void copse_local_results(copse_value *v, copse_value **list, size_t room, size_t *count)
{
    const bool is_whole = v && v->kind == COPSE_VALUE_VARIABLE && v->count > 1;
    const bool is_apart = is_whole || (v && copse__value_is_distributed(v));
    const size_t all = is_apart ? v->count : v ? 1 : 0;
    for (size_t i = 0; list && i < COPSE_MIN(all, room); i++)
        list[i] = is_apart ? v->items[i] : v;
    if (count)
        *count = all;
}

copse_value *copse_value_container(copse_value *v)
{
    copse_value *whole = NULL;
    if (!v || v->kind != COPSE_VALUE_VARIABLE || v->rank == COPSE_ALL_RANKS)
        return copse_value_retain(v);
    return copse__value_of_variable(v->variable, COPSE_ALL_RANKS, &whole) ? NULL : whole;
}
