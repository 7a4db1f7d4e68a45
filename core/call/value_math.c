/* SPDX-License-Identifier: MIT */
/* Arithmetic of values: calls of one node. */
#include "copse/matmul.h"
#include "core/call/call.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/replica/replica_context.h"
#include "core/value/cross_device.h"

/* ---- the nodes: a function for each, so that each has recordings of its own ---- */

#define BINARY_NODE(name)                                                               \
    static copse_tensor *name##_node(copse_graph *g, const copse_batch *in, void *user) \
    {                                                                                   \
        (void)user;                                                                     \
        return copse_##name(g, copse_input(in, "0"), copse_input(in, "1"));             \
    }
BINARY_NODE(add)
BINARY_NODE(sub)
BINARY_NODE(mul)
BINARY_NODE(div)

static copse_tensor *matmul_node(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_matmul(g, copse_input(in, "0"), copse_input(in, "1"), false, false);
}

static copse_tensor *sum_node(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_sum(g, copse_input(in, "0"), NULL, 0, false);
}

/* The type is the user: a number. */
static copse_tensor *cast_node(copse_graph *g, const copse_batch *in, void *user)
{
    return copse_cast(g, copse_input(in, "0"), (copse_type)(uintptr_t)user);
}

/* ---- where and how ---- */

struct operation {
    copse_call_fn *node;
    void *user;
    copse_value *operands[2];
    size_t count;
};

static const copse_value *find_distributed(const struct operation *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (copse__value_is_distributed(o->operands[i]))
            return o->operands[i];
    return NULL;
}

static bool is_one_device(const copse_strategy *st)
{
    for (uint32_t r = 1; r < st->replica_count; r++)
        if (strcmp(st->replicas[r].dev->info.id, st->replicas[0].dev->info.id) != 0)
            return false;
    return true;
}

/* Devices that differ may round differently: replica 0 computes, and the others get a copy. */
static copse_status run_first(const struct operation *o, copse_strategy *st, copse_value *args,
                              copse_value **out)
{
    copse_value *first;
    struct copse_ranks all;
    copse__destinations_all(st, &all);
    COPSE_TRY(copse__call_at(st, 0, true, o->node, o->user, args, &first));
    const copse_status s = copse__value_spread(st, first, &all, out);
    copse_value_release(&first);
    return s;
}

/* Replicas on one device compute the same bits. */
static copse_status run_each(const struct operation *o, copse_strategy *st, copse_value *args,
                             copse_value **out)
{
    copse_value *each;
    COPSE_TRY(copse__map_here(st, o->node, o->user, args, &each));
    copse_value *const *items = st->replica_count > 1 ? each->items : &each;
    const copse_status s =
        copse__value_distributed(st, COPSE_VALUE_MIRRORED, items, NULL, st->replica_count, out);
    copse_value_release(&each);
    return s;
}

static copse_status run_distributed(const struct operation *o, copse_strategy *st,
                                    copse_value *args, copse_value **out)
{
    bool is_mirrored = true;
    for (size_t i = 0; i < o->count; i++)
        is_mirrored &= o->operands[i]->kind != COPSE_VALUE_PER_REPLICA;
    if (!is_mirrored)
        return copse__map_here(st, o->node, o->user, args, out);
    COPSE_TRY(copse__require_cross(st, "arithmetic of values"));
    return is_one_device(st) ? run_each(o, st, args, out) : run_first(o, st, args, out);
}

/* Plain operands outside of replicas: on the device of the first that is on a device, or of the
   scope. */
static copse_status run_plain(const struct operation *o, copse_value *args, copse_value **out)
{
    copse_strategy *st = NULL;
    uint32_t rank = 0;
    bool is_alone = true;
    for (size_t i = o->count; i-- > 0;)
        if (o->operands[i]->strategy && o->operands[i]->rank < COPSE_ALL_RANKS) {
            st = o->operands[i]->strategy;
            rank = o->operands[i]->rank;
        }
    if (!st)
        COPSE_TRY(copse__call_place(&st, &rank, &is_alone));
    COPSE_TRY(copse__require_cross(st, "arithmetic of values"));
    return copse__call_at(st, rank, is_alone, o->node, o->user, args, out);
}

static copse_status run_operation(const struct operation *o, copse_value **out)
{
    const struct copse_frame *f = copse__context_top();
    const copse_value *distributed;
    copse_value *args;
    *out = NULL;
    COPSE_TRY(copse_value_list(o->operands[0]->ctx, o->operands, o->count, &args));
    copse_status s;
    if (f && (f->handle || f->update_rank != COPSE_HOST))
        s = copse_call(o->node, o->user, args, out);
    else if ((distributed = find_distributed(o)))
        s = run_distributed(o, distributed->strategy, args, out);
    else
        s = run_plain(o, args, out);
    copse_value_release(&args);
    return s;
}

/* ---- public ---- */

#define BINARY_VALUE(name, node)                                                       \
    copse_status copse_value_##name(copse_value *a, copse_value *b, copse_value **out) \
    {                                                                                  \
        COPSE_TRY(copse_need("value: " #name, a, b, out));                             \
        const struct operation o = { node##_node, NULL, { a, b }, 2 };                 \
        return copse_note(run_operation(&o, out), "in copse_value_" #name);            \
    }
BINARY_VALUE(add, add)
BINARY_VALUE(subtract, sub)
BINARY_VALUE(multiply, mul)
BINARY_VALUE(divide, div)

copse_status copse_value_multiply_by(copse_value *a, float factor, copse_value **out)
{
    copse_value *b;
    COPSE_TRY(copse_need("value: multiply_by", a, out));
    *out = NULL;
    COPSE_TRY(copse_value_scalar(a->ctx, factor, &b));
    const copse_status s = copse_value_multiply(a, b, out);
    copse_value_release(&b);
    return s;
}

copse_status copse_value_matmul(copse_value *a, copse_value *b, copse_value **out)
{
    COPSE_TRY(copse_need("value: matmul", a, b, out));
    const struct operation o = { matmul_node, NULL, { a, b }, 2 };
    return copse_note(run_operation(&o, out), "in copse_value_matmul");
}

copse_status copse_value_sum(copse_value *a, copse_value **out)
{
    COPSE_TRY(copse_need("value: sum", a, out));
    const struct operation o = { sum_node, NULL, { a }, 1 };
    return copse_note(run_operation(&o, out), "in copse_value_sum");
}

copse_status copse_value_convert(copse_value *a, copse_type type, copse_value **out)
{
    COPSE_TRY(copse_need("value: convert", a, out));
    const struct operation o = { cast_node, (void *)(uintptr_t)type, { a }, 1 };
    return copse_note(run_operation(&o, out), "in copse_value_convert");
}
