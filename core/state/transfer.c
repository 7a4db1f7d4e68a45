/* SPDX-License-Identifier: MIT */
/* Moves the entries of a state between devices, parameter stores, other workers and host memory.
   Each owner holds the slots of its range; here the slots of a variable are one array. */
#include <math.h>
#include <stdio.h>

#include "core/state/state.h"
#include "core/value/value.h"

static copse_status transfer_finish(const copse_strategy *st)
{
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_queue_finish(st->replicas[r].queue));
    return COPSE_OK;
}

/* ---- reading ---- */

/* An optimizer with a snapshot of the variable, or NULL. */
static struct copse_optimizer *seen_by(const struct copse_state *s, const copse_variable *v)
{
    for (size_t i = 0; i < s->optimizers.count; i++) {
        struct copse_optimizer *o = s->optimizers.at[i].optimizer;
        if (o->table->snapshot && copse__optimizer_bucket(o, v) != COPSE_NO_BUCKET)
            return o;
    }
    return NULL;
}

static copse_status read_entry(const struct copse_state *s, const struct copse_state_entry *e,
                               void *to)
{
    struct copse_optimizer *o = e->optimizer;
    struct copse_optimizer *seen = o ? NULL : seen_by(s, e->variable);
    if (o)
        return o->table->read_slot(o, e->variable, e->slot, to);
    if (e->component > 0) /* with the first one all are read: they follow */
        return e->component == 1 ? copse__state_read_components(e->variable, to) : COPSE_OK;
    return seen ? seen->table->read_slot(seen, e->variable, COPSE_SLOT_VALUE, to)
                : copse__state_read_variable(e->variable, to);
}

static copse_status read_entries(struct copse_state *s)
{
    char *next = s->words;
    for (size_t i = 0; i < s->entries.count; i++) {
        struct copse_state_entry *e = &s->entries.at[i];
        if (!e->variable)
            continue;
        COPSE_TRY(copse_note(read_entry(s, e, next), "while reading '%s'", e->name));
        e->view.data = next;
        next += COPSE_WORD_BYTES * copse__state_words(e);
    }
    return copse_note(transfer_finish(s->strategy), "while reading the optimizer's slots");
}

/* Keeps the text of the earlier failure. */
static void transfer_drain(struct copse_state *s)
{
    const copse_strategy *st = s->strategy;
    char text[512];
    snprintf(text, sizeof text, "%s", copse_last_error());
    for (uint32_t r = 0; r < st->replica_count; r++)
        if (copse_queue_finish(st->replicas[r].queue) == COPSE_ERR_TIMEOUT)
            s->is_stuck = true;
    copse__fail_again(text);
}

static copse_status take_snapshots(const struct copse_state *s)
{
    for (size_t i = 0; i < s->optimizers.count; i++) {
        struct copse_optimizer *o = s->optimizers.at[i].optimizer;
        if (o->table->snapshot)
            COPSE_TRY(o->table->snapshot(o));
    }
    return COPSE_OK;
}

static bool is_trained(const struct copse_state *s, const copse_variable *v)
{
    for (size_t i = 0; i < s->optimizers.count; i++)
        if (copse__optimizer_bucket(s->optimizers.at[i].optimizer, v) != COPSE_NO_BUCKET)
            return true;
    return false;
}

static copse_status check_finite(const struct copse_state *s)
{
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        const float *x = e->view.data;
        if (!e->variable || !is_trained(s, e->variable) || e->view.type != COPSE_F32)
            continue;
        for (uint64_t k = 0; k < copse__state_words(e); k++)
            if (!isfinite(x[k]))
                return copse_fail(
                    COPSE_ERR_NONFINITE,
                    "checkpoint: '%s' is %s at element %llu after step %llu; it was not written",
                    e->name, isnan(x[k]) ? "NaN" : "infinite", (unsigned long long)k,
                    (unsigned long long)s->step);
    }
    return COPSE_OK;
}

copse_status copse__state_read(struct copse_state *s)
{
    size_t elements = 0;
    for (size_t i = 0; i < s->entries.count; i++)
        if (s->entries.at[i].variable &&
            !copse__add(elements, (size_t)copse__state_words(&s->entries.at[i]), &elements))
            return copse_no_memory("checkpoint");
    s->words = copse__alloc(&s->strategy->ctx->base.mem, elements, 4);
    if (!s->words)
        return copse_no_memory("checkpoint");
    copse_status status = take_snapshots(s);
    if (!status)
        status = read_entries(s);
    s->is_stuck = status == COPSE_ERR_TIMEOUT;
    /* one device failed: work queued on the others still writes to `words` */
    if (status != COPSE_OK)
        transfer_drain(s);
    return status ? status : check_finite(s);
}

copse_status copse__state_join(struct copse_state *s)
{
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (e->optimizer)
            COPSE_TRY(copse__slot_join(e->optimizer, e->name, (uint32_t *)(uintptr_t)e->view.data,
                                       (size_t)copse__state_words(e), COPSE_OK));
    }
    return COPSE_OK;
}

/* ---- writing ---- */

/* An array of bytes in a file may end within a word. */
static copse_status write_slot(const struct copse_state_entry *e)
{
    struct copse_optimizer *o = e->optimizer;
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    if (e->view.type != COPSE_U8)
        return o->table->write_slot(o, e->variable, e->slot, e->view.data);
    uint32_t *words = copse__alloc(mem, (size_t)copse__state_words(e), sizeof *words);
    COPSE_TRY(copse_need_memory(words, "checkpoint"));
    memcpy(words, e->view.data, (size_t)e->variable->count);
    const copse_status s = o->table->write_slot(o, e->variable, e->slot, words);
    copse__free(mem, words);
    return s;
}

copse_status copse__state_write(struct copse_state *s)
{
    COPSE_TRY(transfer_finish(s->strategy)); /* running work must not overwrite it */
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (e->variable && !e->optimizer)
            COPSE_TRY(copse_note(
                e->component > 0
                    ? copse__state_write_component(e->variable, e->component - 1, e->view.data)
                    : copse__state_write_variable(e->variable, e->view.data),
                "while writing '%s'", e->name));
    }
    COPSE_TRY(copse__state_reset_named(s));
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (e->optimizer)
            COPSE_TRY(copse_note(write_slot(e), "while writing '%s'", e->name));
    }
    COPSE_TRY(copse_note(transfer_finish(s->strategy), "while writing the optimizer's slots"));
    return copse__state_finish_named(s);
}

/* ---- with other workers ---- */

copse_status copse__state_settle(copse_strategy *st, bool is_torn, copse_status mine,
                                 const char *what)
{
    if (mine && (is_torn || copse__group_has_failed_device(&st->group)))
        copse__group_abort(&st->group);
    return copse__group_vote(&st->group, mine, what);
}
