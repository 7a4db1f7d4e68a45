/* SPDX-License-Identifier: MIT */
/* Rules whose update depends on norms of a variable, on a parameter store. It measures the blocks
   that an exchange measures, and the sums are exact: the factors have the bits of every other
   strategy. */
#include "core/ps/parameter_store.h"
#include "core/rule/squares.h"

enum { GRADIENT, VALUES, MEASURES };

static size_t blocks_of(const struct copse_pstore_variable *v)
{
    return (size_t)((v->count + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK);
}

/* Bytes of a measure of a variable. */
static size_t room_of(const struct copse_pstore_variable *v)
{
    return copse__round_up(blocks_of(v) * 2 * COPSE_WORD_BYTES, COPSE_ALIGNMENT);
}

static struct copse_pstore_variable *
parameter_store_trust_member(const struct copse_pstore *s, const struct copse_pstore_group *g,
                             uint32_t i)
{
    return &s->variables.at[g->ids[i]];
}

/* The first byte of variable `i`; of `g->count`: of all. */
static size_t parameter_store_trust_place(const struct copse_pstore *s,
                                          const struct copse_pstore_group *g, uint32_t i)
{
    size_t at = 0;
    for (uint32_t k = 0; k < i; k++)
        at += MEASURES * room_of(parameter_store_trust_member(s, g, k));
    return at;
}

static struct copse_binding parts_of(const struct copse_pstore *s,
                                     const struct copse_pstore_group *g, uint32_t i,
                                     uint32_t measure)
{
    const struct copse_pstore_variable *v = parameter_store_trust_member(s, g, i);
    return (struct copse_binding){ g->trust.parts,
                                   parameter_store_trust_place(s, g, i) + measure * room_of(v),
                                   blocks_of(v) * 2 * COPSE_WORD_BYTES };
}

copse_status copse__pstore_trust_begin(struct copse_pstore *s, struct copse_pstore_group *g)
{
    struct copse_pstore_variable *v;
    if (!g->rule.trusts)
        return COPSE_OK;
    for (uint32_t i = 0; i < g->count; i++)
        COPSE_TRY(copse__pstore_find(s, g->ids[i], &v));
    return copse_buffer_create(
        s->dev,
        &(struct copse_buffer_params){ .size = parameter_store_trust_place(s, g, g->count) },
        &g->trust.parts);
}

struct copse_binding copse__pstore_trust_factors(const struct copse_pstore *s,
                                                 const struct copse_pstore_group *g, uint32_t i)
{
    return g->rule.trusts ? parts_of(s, g, i, GRADIENT) : (struct copse_binding){ .size = 0 };
}

copse_status copse__pstore_trust_record(struct copse_pstore *s, struct copse_pstore_group *g)
{
    const struct copse_binding step = { s->step, 0, COPSE_WORD_BYTES * COPSE_STEP_WORDS };
    copse_status status = COPSE_OK;
    if (!g->rule.trusts)
        return COPSE_OK;
    struct copse_command *commands =
        copse__alloc(&s->ctx->base.mem, g->count + 1, MEASURES * sizeof *commands);
    COPSE_TRY(copse_need_memory(commands, "parameter server"));
    for (uint32_t i = 0; i < g->count && !status; i++) {
        const struct copse_pstore_variable *v = parameter_store_trust_member(s, g, i);
        const struct copse_binding values = { v->values, 0, (size_t)v->count * COPSE_WORD_BYTES };
        const struct copse_binding gradient = { v->gradient, 0, values.size };
        /* floats */
        const struct copse_binding slots = { g->slots[i], 0, g->rule.slots * values.size };
        const struct copse_binding parts[] = { parts_of(s, g, i, GRADIENT),
                                               parts_of(s, g, i, VALUES) };
        status = copse__rule_measure_trust(&g->rule, s->dev, &values, &gradient, &slots, &step,
                                           parts, v->count, &commands[MEASURES * i]);
    }
    if (!status)
        status = copse__segment_create(s->queue, commands, MEASURES * g->count, &g->trust.measure);
    copse__free(&s->ctx->base.mem, commands);
    return status;
}

void copse__pstore_trust_end(struct copse_pstore_group *g)
{
    copse__segment_release(&g->trust.measure);
    copse_buffer_release(&g->trust.parts);
}

/* The norm of measure `parts` of a variable. */
static double norm_of(const struct copse_pstore_variable *v, const void *parts)
{
    struct copse_squares sum = { { 0 } };
    copse__squares_add(&sum, parts, blocks_of(v));
    return copse__squares_root(&sum);
}

copse_status copse__pstore_trust(struct copse_pstore *s, struct copse_pstore_group *g, float scale)
{
    const size_t bytes = parameter_store_trust_place(s, g, g->count);
    COPSE_TRY(copse__segment_replay(g->trust.measure));
    COPSE_TRY(copse__pstore_reserve_staging(s, bytes));
    COPSE_TRY(copse_queue_read(s->queue, g->trust.parts, 0, s->staging, bytes));
    COPSE_TRY(copse__pstore_wait_reads(s));
    char *at = s->staging;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct copse_pstore_variable *v = parameter_store_trust_member(s, g, i);
        float *factors = (void *)at;
        const float factor =
            copse__rule_trust(&g->rule, norm_of(v, at), norm_of(v, at + room_of(v)), scale);
        for (size_t b = 0; b < blocks_of(v); b++)
            factors[b] = factor;
        at += MEASURES * room_of(v);
    }
    return copse_queue_write(s->queue, g->trust.parts, 0, s->staging, bytes);
}
