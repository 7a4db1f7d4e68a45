/* SPDX-License-Identifier: MIT */
/* Making and releasing trainers. What a step does stands in run.c. */
#include "core/train/trainer.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

/* ---- what it trains ---- */

static copse_status check_trained(const copse_strategy *st, const copse_variable *v, size_t i)
{
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: variable %zu to train is NULL", i);
    if (v->strategy != st)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: variable '%s' to train belongs to another "
                                              "strategy", v->name);
    if (!v->is_trained)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: variable '%s' is not trainable: it is frozen, "
                                              "replica-local or of whole numbers", v->name);
    return COPSE_OK;
}

/* `list` by index of the variable. */
static copse_status mark_trained(const copse_trainer *t, const struct copse_trainer_params *p,
                                 bool *list)
{
    const copse_strategy *st = t->strategy;
    for (size_t i = 0; p->variables && i < p->variable_count; i++) {
        COPSE_TRY(check_trained(st, p->variables[i], i));
        list[p->variables[i]->index] = true;
    }
    for (size_t i = 0; !p->variables && i < st->variables.count; i++)
        list[i] = st->variables.at[i]->is_trained;
    return COPSE_OK;
}

static copse_status make_optimizer(copse_trainer *t, const struct copse_trainer_params *p)
{
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    bool *list = copse__alloc(mem, st->variables.count, sizeof *list);
    t->trained = copse__alloc(mem, st->variables.count, sizeof(copse_variable *));
    copse_status s = list && t->trained ? mark_trained(t, p, list) : no_memory();
    for (size_t i = 0; s == COPSE_OK && i < st->variables.count; i++)
        if (list[i])
            t->trained[t->trained_count++] = st->variables.at[i];
    if (s == COPSE_OK && t->trained_count == 0)
        s = copse_fail(COPSE_ERR_ARGUMENT, "trainer: the strategy has no variables to train");
    if (s == COPSE_OK)
        s = t->optimizer->table->prepare(t->optimizer, t->trained, t->trained_count);
    copse__free(mem, list);
    return s;
}

/* ---- where results land ---- */

static void free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    copse__across_free_slot(t, slot);
    copse__free(&t->strategy->ctx->base.mem, slot->examples);
}

static copse_status make_slot(copse_trainer *t, struct copse_step_slot *slot, uint32_t parts)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    size_t all;
    if (!copse__mul(parts, t->strategy->rank_total, &all))
        return no_memory();
    slot->room = parts;
    slot->replicas = t->strategy->replica_count;
    slot->examples = copse__alloc(mem, all, sizeof *slot->examples);
    return slot->examples ? copse__across_make_slot(t, slot) : no_memory();
}

/* A ring of slots, one behind another for each replica, so that a run is read back at once. */
static copse_status make_slots(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const uint32_t parts = t->params.accumulate, replicas = t->strategy->replica_count;
    size_t each, rows, stride;
    t->ring = COPSE_MAX(2 * t->strategy->steps_per_run, COPSE_STEPS_UNDER_WAY);
    t->slots = copse__alloc(mem, t->ring, sizeof *t->slots);
    if (!t->slots || !copse__mul(parts, COPSE_REPORT_BYTES, &each) ||
        !copse__mul(each, t->ring, &stride) || !copse__mul(t->ring, parts, &rows) ||
        !copse__mul(rows, replicas, &rows))
        return no_memory();
    t->landing = copse__alloc(mem, rows, COPSE_REPORT_BYTES);
    t->evaluation.bytes = copse__alloc(mem, replicas, COPSE_REPORT_BYTES);
    t->evaluation.stride = COPSE_REPORT_BYTES;
    if (!t->landing || !t->evaluation.bytes)
        return no_memory();
    for (uint32_t i = 0; i < t->ring; i++) {
        t->slots[i].bytes = t->landing + i * each;
        t->slots[i].stride = stride;
        COPSE_TRY(make_slot(t, &t->slots[i], parts));
    }
    return make_slot(t, &t->evaluation, 1);
}

static void free_slots(copse_trainer *t, bool is_idle)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    for (uint32_t i = 0; t->slots && i < t->ring; i++)
        free_slot(t, &t->slots[i]);
    free_slot(t, &t->evaluation);
    copse__free(mem, t->slots);
    if (!is_idle) /* a read may still land there */
        return;
    copse__free(mem, t->landing);
    copse__free(mem, t->evaluation.bytes);
}

static copse_status make_buffer(copse_trainer *t, uint32_t r, size_t bytes, copse_buffer **out)
{
    copse_queue *q = t->strategy->replicas[r].queue;
    COPSE_TRY(copse_buffer_create(t->strategy->replicas[r].dev,
                                  &(struct copse_buffer_params){ .size = bytes }, out));
    COPSE_TRY(copse_queue_fill(q, *out, 0, bytes, 0));
    return copse_queue_finish(q);
}

static copse_status make_watches(copse_trainer *t)
{
    size_t bytes;
    if (!copse__mul(t->trained_count, COPSE_WATCHES * COPSE_REPORT_STRIDE, &bytes))
        return no_memory();
    t->watched = copse__alloc(&t->strategy->ctx->base.mem, t->strategy->replica_count, bytes);
    if (!t->watched)
        return no_memory();
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(make_buffer(t, r, bytes, &t->watches[r]));
    return COPSE_OK;
}

static copse_status init(copse_trainer *t, const struct copse_trainer_params *p)
{
    copse_strategy *st = t->strategy;
    COPSE_TRY(copse__optimizer_create(st, NULL, &t->optimizer));
    COPSE_TRY(copse__optimizer_rule(t->optimizer, &p->optimizer));
    COPSE_TRY(copse__split_init(t, p));
    COPSE_TRY(copse__across_init(t));
    COPSE_TRY(make_slots(t));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(make_buffer(t, r, COPSE_REPORT_BYTES, &t->reports[r]));
    COPSE_TRY(copse__store_build(st));
    COPSE_TRY(make_optimizer(t, p));
    COPSE_TRY(copse__infeed_init(t));
    COPSE_TRY(copse__ahead_init(t));
    return copse__trainer_watches(t) ? make_watches(t) : COPSE_OK;
}

static copse_status check(const struct copse_trainer_params *p)
{
    if (!p->loss)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: needs a loss function");
    if (p->example.rank >= COPSE_MAX_RANK || p->target.rank >= COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: examples have at most %d dimensions",
                          COPSE_MAX_RANK - 1);
    if (p->target_type != COPSE_F32 && p->target_type != COPSE_I32)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: unknown target type %d",
                          (int)p->target_type);
    if (p->reduction != COPSE_LOSS_MEAN && p->reduction != COPSE_LOSS_SUM)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: there is no reduction of losses %d",
                          (int)p->reduction);
    if ((int)p->gating < 0 || p->gating > COPSE_GATE_GRAPH)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: there is no gating %d", (int)p->gating);
    if (p->variables && p->variable_count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: the list of variables to train is empty; "
                                              "NULL means all");
    if (p->accumulate > 1u << 16)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: %u micro-batches to a step, at most 65536 "
                                              "are possible", p->accumulate);
    if (p->prefetch > COPSE_PREFETCH_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: %u batches to be uploaded ahead, at most %d are "
                                              "possible", p->prefetch, COPSE_PREFETCH_MAX);
    return COPSE_OK;
}

copse_status copse_trainer_create(copse_strategy *st, const struct copse_trainer_params *params,
                                  copse_trainer **out)
{
    if (!st || !params || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: strategy, params or result is NULL");
    *out = NULL;
    COPSE_TRY(check(params));
    if (copse_strategy_kind_of(st) == COPSE_STRATEGY_DEFAULT)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "trainer: the default strategy has no device; make a "
                                                 "strategy with one");
    copse_trainer *t = copse__alloc(&st->ctx->base.mem, 1, sizeof *t);
    if (!t)
        return copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
    t->strategy = copse_strategy_retain(st);
    t->params = *params;
    t->params.variables = NULL; /* the caller's */
    t->is_listed = params->variables != NULL;
    t->params.accumulate = COPSE_MAX(params->accumulate, 1);
    if (params->recordings == 0)
        t->params.recordings = COPSE_RECORDINGS;
    const copse_status s = init(t, params);
    if (s != COPSE_OK)
        copse_trainer_release(&t);
    else
        *out = t;
    return copse_note(s, "while making a trainer");
}

void copse_trainer_release(copse_trainer **trainer)
{
    if (!trainer || !*trainer)
        return;
    copse_trainer *t = *trainer;
    copse_strategy *st = t->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    bool is_idle = true;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status s = copse_queue_finish(st->replicas[r].queue);
        is_idle &= s != COPSE_ERR_TIMEOUT;
        if (s != COPSE_OK)
            copse__log(&st->ctx->base.log, COPSE_LOG_WARN, "trainer: %s did not finish: %s",
                       st->replicas[r].dev->info.id, copse_last_error());
    }
    copse__gathered_drop(t);
    copse__recordings_fini(t);
    for (size_t i = 0; i < COPSE_COUNT(t->layouts); i++)
        copse__layout_fini(t, &t->layouts[i]);
    copse__optimizer_release(&t->optimizer);
    copse__ahead_fini(t);
    copse__infeed_fini(t);
    free_slots(t, is_idle);
    if (is_idle)
        copse__free(mem, t->watched);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_buffer_release(&t->reports[r]);
        copse_buffer_release(&t->watches[r]);
    }
    for (uint32_t i = 0; i < t->report_count; i++)
        copse__free(mem, t->report_names[i]);
    copse__free(mem, t->trained);
    copse__free(mem, t->ready.at);
    copse_context *ctx = copse_context_retain(st->ctx); /* mem lives in it */
    copse__free(mem, t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
    *trainer = NULL;
}
