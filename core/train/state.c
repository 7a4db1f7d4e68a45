/* SPDX-License-Identifier: MIT */
/* A trainer's arrays between devices and host memory. Slots stand in parts at their owners; here
   they become one array per variable. */
#include <stdio.h>

#include "core/train/state.h"

/* ---- the list ---- */

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
}

/* "name" or "name/slot". */
static const char *entry_name(struct copse_state *s, const char *name, const char *slot)
{
    const size_t length = strlen(name) + 1;
    char *text = slot ? copse__arena_alloc(&s->arena, length + strlen(slot) + 1, 1) : NULL;
    if (!text)
        return slot ? NULL : name;
    memcpy(text, name, length - 1);
    text[length - 1] = '/';
    strcpy(text + length, slot);
    return text;
}

static bool add(struct copse_state *s, copse_variable *v, uint32_t slot, const char *slot_name,
                bool is_joined)
{
    struct copse_entry *e = &s->entries[s->count++];
    e->variable = v;
    e->slot = slot;
    e->view.type = v->tensor.type == COPSE_I32 ? COPSE_ELEMENT_I32 : COPSE_ELEMENT_F32;
    e->view.rank = v->tensor.shape.rank;
    for (uint32_t d = 0; d < e->view.rank; d++)
        e->view.shape[d] = v->tensor.shape.dims[d];
    e->name = entry_name(s, is_joined ? v->whole->name : v->name, slot_name);
    if (is_joined)
        e->part_name = entry_name(s, v->name, slot_name);
    return e->name && (!is_joined || e->part_name);
}

bool copse__trainer_trains(const copse_trainer *t, const copse_variable *v)
{
    return t->optimizer && copse__optimizer_bucket(t->optimizer, v) != COPSE_NO_BUCKET;
}

/* Parts whose slots are joined: all of them are trained. Else each part has its own. */
static bool are_trained(const copse_trainer *t, const copse_variable *v)
{
    copse_variable *const *parts = &t->strategy->variables.at[v->index - v->part];
    for (uint32_t i = 0; i < v->whole->parts; i++)
        if (!copse__trainer_trains(t, parts[i]))
            return false;
    return true;
}

static bool add_slots(struct copse_state *s, const copse_trainer *t, uint32_t slots)
{
    const copse_strategy *st = t->strategy;
    uint32_t count;
    for (size_t i = 0; i < st->variables.count; i += count) {
        copse_variable *const *at = &st->variables.at[i];
        const bool is_joined = at[0]->whole && are_trained(t, at[0]);
        count = is_joined ? at[0]->whole->parts : 1;
        for (uint32_t k = 0; k < slots && copse__trainer_trains(t, at[0]); k++)
            for (uint32_t p = 0; p < count; p++)
                if (!add(s, at[p], k, t->optimizer->rule.slot_names[k], is_joined))
                    return false;
    }
    return true;
}

copse_status copse__state_list(copse_trainer *t, bool has_slots, struct copse_state *out)
{
    copse_strategy *st = t->strategy;
    const uint32_t slots = has_slots && t->optimizer ? t->optimizer->rule.slots : 0;
    *out = (struct copse_state){ .trainer = t, .arena.mem = &st->ctx->base.mem, .has_slots = has_slots };
    out->entries = copse__arena_alloc(&out->arena, st->variables.count,
                                      (1 + slots) * sizeof *out->entries);
    bool ok = out->entries != NULL;
    for (size_t i = 0; ok && i < st->variables.count; i++)
        ok = add(out, st->variables.at[i], COPSE_ENTRY_VALUE, NULL, st->variables.at[i]->whole != NULL);
    if (ok && add_slots(out, t, slots))
        return COPSE_OK;
    copse__state_fini(out);
    return no_memory();
}

size_t copse__state_join(const struct copse_state *s, size_t i, struct copse_array_view *out)
{
    const struct copse_entry *e = &s->entries[i];
    *out = e->view;
    if (!e->part_name)
        return 1;
    const struct copse_whole *w = e->variable->whole;
    for (uint32_t d = 0; d < w->shape.rank; d++)
        out->shape[d] = w->shape.dims[d];
    return w->parts;
}

void copse__state_fini(struct copse_state *s)
{
    if (s->arena.mem && !s->is_stuck)
        copse__free(s->arena.mem, s->words);
    copse__towers_fini(&s->towers);
    copse__arena_fini(&s->arena);
    *s = (struct copse_state){ 0 };
}

static copse_status finish(const copse_trainer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_finish(t->strategy->replicas[r].queue));
    return COPSE_OK;
}

/* ---- both ways ---- */

static copse_status read_entries(struct copse_state *s)
{
    copse_trainer *t = s->trainer;
    char *next = s->words;
    for (size_t i = 0; i < s->count; i++) {
        struct copse_entry *e = &s->entries[i];
        const bool is_seen = s->has_slots && t->optimizer && t->optimizer->table->snapshot &&
                             copse__trainer_trains(t, e->variable);
        if (e->slot == COPSE_ENTRY_VALUE && !is_seen)
            COPSE_TRY(copse_note(copse__variable_checkpoint(e->variable, next),
                                 "while reading '%s'", e->name));
        else
            COPSE_TRY(copse_note(t->optimizer->table->read_slot(t->optimizer, e->variable, e->slot, (float *)(void *)next),
                                 "while reading '%s'", e->name));
        e->view.data = next;
        next += 4 * e->variable->count;
    }
    return copse_note(finish(s->trainer), "while reading the optimizer's slots");
}

/* Keeps the text of the failure that led here. */
static void drain(struct copse_state *s)
{
    const copse_strategy *st = s->trainer->strategy;
    char text[512];
    snprintf(text, sizeof text, "%s", copse_last_error());
    for (uint32_t r = 0; r < st->replica_count; r++)
        if (copse_queue_finish(st->replicas[r].queue) == COPSE_ERR_TIMEOUT)
            s->is_stuck = true;
    copse__fail_again(text);
}

copse_status copse__state_read(struct copse_state *s)
{
    size_t elements = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!copse__add(elements, (size_t)s->entries[i].variable->count, &elements))
            return no_memory();
    s->words = copse__alloc(s->arena.mem, elements, 4);
    if (!s->words)
        return no_memory();
    struct copse_optimizer *o = s->trainer->optimizer;
    const bool is_shared = o && o->table->snapshot && s->has_slots;
    copse_status status = is_shared ? o->table->snapshot(o) : COPSE_OK;
    if (!status)
        status = read_entries(s);
    if (is_shared)
        o->table->forget(o);
    s->is_stuck = status == COPSE_ERR_TIMEOUT;
    if (status != COPSE_OK) /* one device failed: what others have queued still lands in `words` */
        drain(s);
    return status;
}

copse_status copse__state_write(const struct copse_state *s)
{
    struct copse_optimizer *o = s->trainer->optimizer;
    COPSE_TRY(finish(s->trainer)); /* nothing that still runs writes over it */
    for (size_t i = 0; i < s->count; i++) {
        const struct copse_entry *e = &s->entries[i];
        if (e->slot == COPSE_ENTRY_VALUE)
            COPSE_TRY(copse_note(copse__variable_restore(e->variable, e->view.data),
                                 "while writing '%s'", e->name));
        else
            COPSE_TRY(copse_note(o->table->write_slot(o, e->variable, e->slot, e->view.data), "while writing '%s'", e->name));
    }
    COPSE_TRY(copse_note(finish(s->trainer), "while writing the optimizer's slots"));
    return copse__towers_write(&s->towers);
}
