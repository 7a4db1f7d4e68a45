/* SPDX-License-Identifier: MIT */
/* Second pass of a program: nodes become launches, and values get a location. */
#include "core/graph/recorder.h"
#include "core/graph/type.h"

static copse_status push_allocation(struct copse_recorder *r, uint64_t bytes, uint32_t first,
                                    uint32_t last, uint32_t *index)
{
    const size_t size = copse__round_up((size_t)COPSE_MAX(bytes, 1), COPSE_ALIGNMENT);
    *index = (uint32_t)r->allocations.count;
    if (!COPSE_PUSH(r->mem, &r->allocations,
                    ((struct copse_allocation){ .size = size, .first = first, .last = last })))
        return copse_no_memory("program");
    return COPSE_OK;
}

static copse_status launches_scratch(struct copse_lowering *l, uint64_t words,
                                     struct copse_operand *out)
{
    struct copse_recorder *r = (struct copse_recorder *)l;
    uint32_t allocation;
    COPSE_TRY(push_allocation(r, 4 * words, r->now, r->now, &allocation));
    *out = (struct copse_operand){ COPSE_OPERAND_SCRATCH, NULL, (uint32_t)r->scratch.count, 0, 0 };
    if (!COPSE_PUSH(r->mem, &r->scratch, allocation))
        return copse_no_memory("program");
    return COPSE_OK;
}

static copse_status push_launch(struct copse_recorder *r, struct copse_launch *x,
                                const struct copse_operand *args, uint32_t arg_count)
{
    x->node += r->now;
    x->arg_count = arg_count;
    memcpy(x->args, args, arg_count * sizeof *args);
    if (!COPSE_PUSH(r->mem, &r->launches, *x))
        return copse_no_memory("program");
    return COPSE_OK;
}

static copse_status launches_launch(struct copse_lowering *l, enum copse_kernel_id id,
                                    const int32_t *spec, const void *params, uint64_t groups,
                                    const struct copse_operand *args, uint32_t arg_count)
{
    const struct copse_kernel_row *row = copse__row(id);
    struct copse_launch x = { .kind = COPSE_LAUNCH_KERNEL, .id = id, .groups = groups };
    if (spec)
        memcpy(x.spec, spec, row->spec_count * sizeof *spec);
    memcpy(x.params, params, 4u * row->param_words);
    return push_launch((struct copse_recorder *)l, &x, args, arg_count);
}

static copse_status launches_copy(struct copse_lowering *l, struct copse_operand from,
                                  struct copse_operand to, uint64_t count)
{
    struct copse_launch x = { .kind = COPSE_LAUNCH_COPY, .count = count };
    return push_launch((struct copse_recorder *)l, &x, (const struct copse_operand[]){ from, to },
                       2);
}

static copse_status launches_gemm(struct copse_lowering *l, const struct copse_command *shape,
                                  const struct copse_operand *args)
{
    struct copse_launch x = { .kind = COPSE_LAUNCH_GEMM, .gemm = *shape };
    return push_launch((struct copse_recorder *)l, &x, args, COPSE_GEMM_BINDINGS);
}

static copse_status launches_settle(struct copse_recorder *r, const copse_tensor *t)
{
    struct copse_home *h = &r->homes[t->id];
    const uint64_t bytes = copse__type_room(t->type, copse__elements(t->shape));
    if (bytes > r->lowering.limits->max_binding_bytes)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%s '%s': %llu bytes, but %s binds at most %llu",
                          t->op->name, t->name ? t->name : "", (unsigned long long)bytes,
                          r->lowering.dev->info.id,
                          (unsigned long long)r->lowering.limits->max_binding_bytes);
    const struct copse_placement *at =
        copse__is_leaf(t) ? copse__placement_find(r->params->inputs, r->params->input_count, t)
                          : copse__placement_of(r, t);
    if (t->op->crosses)
        at = NULL;
    if (t->variable || at) {
        h->kind = COPSE_HOME_FIXED;
        if (!t->variable) {
            h->fixed = at->at;
            return COPSE_OK;
        }
        if (!r->params->locate)
            return copse_fail(COPSE_ERR_ARGUMENT, "program: variable '%s' has no memory", t->name);
        return r->params->locate(r->params->user, t->variable, &h->fixed);
    }
    for (size_t i = 0; i < r->all_reduces.count; i++) {
        const struct copse_recorder_all_reduce *c = &r->all_reduces.at[i];
        if (c->node == t || (c->is_direct && c->node->in[0] == t)) {
            h->kind = COPSE_HOME_FIXED;
            h->fixed = c->node == t ? c->result : c->operand;
            return COPSE_OK;
        }
    }
    h->kind = COPSE_HOME_ARENA;
    const bool is_input = copse__is_leaf(t);
    return push_allocation(r, bytes, is_input ? 0 : COPSE_MIN(t->id, r->place[t->id]),
                           is_input ? (uint32_t)r->graph->nodes.count : r->last_use[t->id],
                           &h->allocation);
}

/* A result that cannot be computed at its location is copied there. `index` numbers placements,
   then exchanges. */
static copse_status push_copy(struct copse_recorder *r, const copse_tensor *t, size_t index,
                              uint32_t later)
{
    struct copse_launch x = { .kind = COPSE_LAUNCH_COPY,
                              .count = copse__elements(t->shape),
                              .node = later };
    const struct copse_operand args[2] = {
        copse__of(t),
        { .kind = COPSE_OPERAND_TENSOR, .tensor = NULL, .scratch = (uint32_t)index },
    };
    return x.count > 0 ? push_launch(r, &x, args, 2) : COPSE_OK;
}

/* Placements that need a copy: leaves, views, a second placement of a tensor, and exchanged
   results, which are available in the next segment. */
static copse_status place_copies(struct copse_recorder *r, const copse_tensor *t)
{
    for (size_t i = 0; i < r->params->placement_count; i++) {
        const struct copse_placement *p = &r->params->placements[i];
        if (p->tensor == t && p->at.buffer &&
            (copse__root(t) != t || copse__is_leaf(t) || t->op->crosses ||
             copse__placement_of(r, t) != p))
            COPSE_TRY(push_copy(r, t, i, t->op->crosses));
    }
    return COPSE_OK;
}

static copse_status lower_joined(struct copse_recorder *r, const copse_tensor *t)
{
    const struct copse_join *j = copse__join_of(r, t->id);
    const copse_tensor *list[COPSE_MOST_JOINED];
    if (!j)
        return COPSE_OK; /* with a later one */
    for (uint32_t i = 0; i < j->count; i++)
        list[i] = r->graph->nodes.at[j->at[i]];
    return t->op->lower_many(&r->lowering, list, j->count);
}

static copse_status lower_fused(struct copse_recorder *r, const copse_tensor *t)
{
    if (r->place[t->id] != t->id)
        return COPSE_OK; /* with another one */
    const struct copse_fused *f = copse__fusion_at(r, t->id);
    return f->at[0]->op->lower_fused(&r->lowering, f);
}

static copse_status lower_node(struct copse_recorder *r, const copse_tensor *t)
{
    if (r->fused[t->id])
        return lower_fused(r, t);
    if (r->joined[t->id])
        return lower_joined(r, t);
    if (!t->op->crosses)
        return t->op->lower ? t->op->lower(&r->lowering, t) : COPSE_OK;
    size_t i = 0;
    while (r->all_reduces.at[i].node != t)
        i++;
    return r->all_reduces.at[i].is_direct
               ? COPSE_OK
               : push_copy(r, t->in[0], r->params->placement_count + i, 0);
}

static copse_status lower_all(struct copse_recorder *r)
{
    r->launches.count = r->allocations.count = r->scratch.count = 0;
    memset(r->homes, 0, r->graph->nodes.count * sizeof *r->homes);
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        if (!r->needed[n])
            continue;
        r->now = n;
        if (copse__root(t) == t && r->fused[n] != COPSE_FUSED_INNER)
            COPSE_TRY(launches_settle(r, t));
        COPSE_TRY(copse_note(lower_node(r, t), "while lowering %s", t->op->name));
        COPSE_TRY(place_copies(r, t));
    }
    return COPSE_OK;
}

/* `shares` 32nds more than the program needs without an order or a join; within the budget. */
static uint64_t allow_bytes(const struct copse_recorder *r, uint64_t alone, uint64_t shares)
{
    const uint64_t most = alone < UINT64_MAX ? alone + alone / 32 * shares : 0;
    return r->params->budget ? COPSE_MIN(most, COPSE_MAX(alone, r->params->budget)) : most;
}

/* Lower with the fusions and joins that were found; false: that needs more than `most` bytes. */
static copse_status lower_within(struct copse_recorder *r, uint64_t most, bool *fits)
{
    uint64_t together;
    COPSE_TRY(lower_all(r));
    COPSE_TRY(copse__bytes_needed(r, r->allocations.at, &together));
    *fits = together <= most;
    return COPSE_OK;
}

/* Only free fusions; no joins. */
static copse_status lower_alone(struct copse_recorder *r)
{
    copse__joins_drop(r);
    copse__fusions_drop(r);
    COPSE_TRY(copse__fusions_find(r, true));
    return lower_all(r);
}

/* The fusions that were found, with joins. */
static copse_status lower_with_joins(struct copse_recorder *r, uint64_t most, bool *fits)
{
    COPSE_TRY(copse__joins_find(r));
    return r->joins.count > 0 ? lower_within(r, most, fits) : COPSE_OK;
}

/* Nodes share launches only if that costs little memory: all fusions with joins, or without these;
   else free fusions with joins, or without these. */
static copse_status lower_together(struct copse_recorder *r, uint64_t most)
{
    const size_t free_ones = r->fusions.count;
    bool fits = false;
    COPSE_TRY(copse__fusions_find(r, false));
    const bool has_more = r->fusions.count > free_ones;
    COPSE_TRY(lower_with_joins(r, most, &fits));
    if (!fits && has_more) {
        copse__joins_drop(r);
        COPSE_TRY(lower_within(r, most, &fits));
        if (!fits) {
            copse__fusions_drop(r);
            COPSE_TRY(copse__fusions_find(r, true));
            COPSE_TRY(lower_with_joins(r, most, &fits));
        }
    }
    const bool is_alone = !has_more && r->joins.count == 0; /* as it is lowered already */
    return fits || is_alone ? COPSE_OK : lower_alone(r);
}

copse_status copse__lower(struct copse_recorder *r)
{
    uint64_t alone;
    COPSE_TRY(lower_alone(r));
    copse__schedule_none(r);
    if (r->is_plain)
        return COPSE_OK;
    COPSE_TRY(copse__bytes_needed(r, r->allocations.at, &alone));
    COPSE_TRY(lower_together(r, allow_bytes(r, alone, 1)));
    r->most_bytes = allow_bytes(r, alone, 2);
    return copse__schedule_helps(r) ? copse__schedule(r) : COPSE_OK;
}

/* ---- for fusions ---- */

static const copse_tensor *launches_reader(const struct copse_lowering *l, const copse_tensor *t,
                                           uint32_t index)
{
    const struct copse_recorder *r = (const struct copse_recorder *)l;
    for (uint32_t n = t->id + 1; n < r->graph->nodes.count; n++) {
        const copse_tensor *reader = r->graph->nodes.at[n];
        bool reads = false;
        for (uint32_t k = 0; r->needed[n] && k < reader->in_count; k++)
            reads |= reader->in[k] == t;
        if (reads && index-- == 0)
            return reader;
    }
    return NULL;
}

void copse__lower_init(struct copse_recorder *r)
{
    r->lowering.scratch = launches_scratch;
    r->lowering.launch = launches_launch;
    r->lowering.copy = launches_copy;
    r->lowering.gemm = launches_gemm;
    r->lowering.reader = launches_reader;
}
