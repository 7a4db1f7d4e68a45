/* SPDX-License-Identifier: MIT */
/* Tower optimizers into checkpoints and back. */
#include <math.h>
#include <stdio.h>

#include "copse/train_step.h"
#include "core/train/state.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
}

static bool trains(const copse_tower_optimizer *t, const copse_variable *v)
{
    return copse__optimizer_bucket(t->optimizer, v) != COPSE_NO_BUCKET;
}

copse_status copse__towers_whole(const copse_strategy *st)
{
    for (const copse_tower_optimizer *t = st->towers; t; t = t->next) {
        if (t->optimizer->is_torn)
            return copse_fail(COPSE_ERR_DEVICE_LOST, "checkpoint: the last update of tower optimizer '%s' was "
                                                     "cut short; the parameters are not a whole step's",
                              t->optimizer->name);
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (t->kept[r].count > 0)
                return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: tower optimizer '%s' keeps gradients of "
                                                      "replica %u: end the step first",
                                  t->optimizer->name, st->rank_first + r);
    }
    return COPSE_OK;
}

bool copse__towers_train(const copse_variable *v)
{
    for (const copse_tower_optimizer *t = v->strategy->towers; t; t = t->next)
        if (trains(t, v))
            return true;
    return false;
}

/* ---- names ---- */

/* The parts one behind another, in the arena; NULL: no memory. */
static char *text_of(struct copse_tower_state *s, const char *const *parts, size_t count)
{
    size_t length = 1;
    for (size_t i = 0; i < count; i++)
        length += strlen(parts[i]);
    char *text = copse__arena_alloc(&s->arena, length, 1), *at = text;
    for (size_t i = 0; text && i < count; i++) {
        const size_t n = strlen(parts[i]);
        memcpy(at, parts[i], n);
        at += n;
    }
    return text;
}

#define TEXT(s, ...)                                                                               \
    text_of(s, (const char *const[]){ __VA_ARGS__ },                                               \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

/* ---- the list ---- */

static copse_status add(struct copse_tower_state *s, copse_tower_optimizer *t, copse_variable *v, uint32_t slot)
{
    struct copse_tower_array *a = &s->arrays[s->count];
    const char *name = TEXT(s, v->name, "/", t->optimizer->name, "/", t->optimizer->rule.slot_names[slot]);
    if (!name)
        return no_memory();
    *a = (struct copse_tower_array){ .tower = t, .variable = v, .slot = slot };
    a->named.name = name;
    a->named.array.type = COPSE_ELEMENT_F32;
    a->named.array.rank = v->tensor.shape.rank;
    for (uint32_t d = 0; d < v->tensor.shape.rank; d++)
        a->named.array.shape[d] = v->tensor.shape.dims[d];
    s->count++;
    return COPSE_OK;
}

/* Room for all that there can be. */
static copse_status begin(copse_strategy *st, struct copse_tower_state *out)
{
    *out = (struct copse_tower_state){ .strategy = st, .arena.mem = &st->ctx->base.mem };
    for (const copse_tower_optimizer *t = st->towers; t; t = t->next)
        out->tower_count++;
    out->arrays = copse__arena_alloc(&out->arena, 2 * st->variables.count,
                                     COPSE_MAX(out->tower_count, 1) * sizeof *out->arrays);
    out->progress = copse__arena_alloc(&out->arena, COPSE_MAX(out->tower_count, 1), sizeof *out->progress);
    out->metadata = copse__arena_alloc(&out->arena, 3 + st->variables.count,
                                       (out->tower_count + 1) * sizeof *out->metadata);
    return out->arrays && out->progress && out->metadata ? COPSE_OK : no_memory();
}

copse_status copse__towers_list(copse_strategy *st, struct copse_tower_state *out)
{
    COPSE_TRY(begin(st, out));
    for (copse_tower_optimizer *t = st->towers; t; t = t->next)
        for (size_t i = 0; i < st->variables.count; i++)
            for (uint32_t k = 0; k < t->optimizer->rule.slots && trains(t, st->variables.at[i]); k++)
                COPSE_TRY(add(out, t, st->variables.at[i], k));
    return COPSE_OK;
}

void copse__towers_fini(struct copse_tower_state *s)
{
    if (s->strategy && !s->is_stuck)
        copse__free(s->arena.mem, s->values);
    if (s->strategy)
        copse__arena_fini(&s->arena);
    *s = (struct copse_tower_state){ 0 };
}

/* ---- reading ---- */

static copse_status put(struct copse_tower_state *s, const char *key, const char *value)
{
    if (!key || !value)
        return no_memory();
    s->metadata[s->metadata_count++] = (struct copse_metadata){ key, value };
    return COPSE_OK;
}

static copse_status put_number(struct copse_tower_state *s, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return put(s, key, TEXT(s, text));
}

/* Servers count each variable's updates, those of all workers. */
static copse_status put_counts(struct copse_tower_state *s, copse_tower_optimizer *t, uint64_t *most)
{
    const copse_strategy *st = s->strategy;
    struct copse_optimizer *o = t->optimizer;
    uint64_t count = 0;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (!trains(t, v))
            continue;
        COPSE_TRY(o->table->counts(o, v, false, &count));
        *most = COPSE_MAX(*most, count);
        COPSE_TRY(put_number(s, TEXT(s, COPSE_TOWER_KEY, o->name, ".server_updates.", v->name), count));
    }
    return COPSE_OK;
}

static copse_status describe(struct copse_tower_state *s, copse_tower_optimizer *t)
{
    uint64_t slots = 0, updates = t->optimizer->table->counts ? 0 : t->optimizer->step;
    for (size_t i = 0; i < s->count; i++)
        slots += s->arrays[i].tower == t;
    if (t->optimizer->table->counts)
        COPSE_TRY(put_counts(s, t, &updates));
    COPSE_TRY(put_number(s, TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".updates"), updates));
    COPSE_TRY(put_number(s, TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".slots"), slots));
    return t->optimizer->has_rule ? put(s, TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".optimizer"), copse__rule_name(&t->optimizer->rule))
                       : COPSE_OK;
}

static copse_status check_finite(const struct copse_tower_array *a, const float *x)
{
    for (uint64_t k = 0; k < a->variable->count; k++)
        if (!isfinite(x[k]))
            return copse_fail(COPSE_ERR_NONFINITE, "checkpoint: '%s' is %s at element %llu; it was not written",
                              a->named.name, isnan(x[k]) ? "NaN" : "infinite", (unsigned long long)k);
    return COPSE_OK;
}

static copse_status read_slot(struct copse_tower_state *s, const struct copse_tower_array *a, float *to)
{
    struct copse_optimizer *o = a->tower->optimizer;
    copse_status status = o->table->read_slot(o, a->variable, a->slot, to);
    for (uint32_t r = 0; r < s->strategy->replica_count; r++) {
        const copse_status done = copse_queue_finish(s->strategy->replicas[r].queue);
        status = done == COPSE_ERR_TIMEOUT || !status ? done : status;
    }
    return status == COPSE_ERR_TIMEOUT ? status
                                       : copse__slot_join(o, a->variable->name, (uint32_t *)(void *)to,
                                                          (size_t)a->variable->count, status);
}

static copse_status read_arrays(struct copse_tower_state *s)
{
    float *at = s->values;
    for (size_t i = 0; i < s->count; i++) {
        struct copse_tower_array *a = &s->arrays[i];
        COPSE_TRY(copse_note(read_slot(s, a, at),
                             "while reading '%s'", a->named.name));
        a->named.array.data = at;
        at += a->variable->count;
    }
    for (size_t i = 0; i < s->count; i++)
        COPSE_TRY(check_finite(&s->arrays[i], s->arrays[i].named.array.data));
    return COPSE_OK;
}

copse_status copse__towers_read(struct copse_tower_state *s)
{
    size_t elements = 0;
    if (s->tower_count == 0)
        return COPSE_OK;
    for (size_t i = 0; i < s->count; i++)
        if (!copse__add(elements, (size_t)s->arrays[i].variable->count, &elements))
            return no_memory();
    s->values = copse__alloc(s->arena.mem, elements, sizeof *s->values);
    COPSE_TRY(copse__group_settle(&s->strategy->group, s->values ? COPSE_OK : no_memory(), "room for a checkpoint"));
    const copse_status status = read_arrays(s);
    s->is_stuck = status == COPSE_ERR_TIMEOUT;
    COPSE_TRY(status);
    for (copse_tower_optimizer *t = s->strategy->towers; t; t = t->next)
        COPSE_TRY(describe(s, t));
    return put_number(s, COPSE_TOWER_GLOBAL_KEY, copse_global_step(s->strategy));
}

/* ---- matching ---- */

/* The variable's slots: all of them are there, or none. */
static copse_status match_variable(struct copse_tower_state *s, const char *path, copse_tower_optimizer *t,
                                   copse_variable *v)
{
    const size_t first = s->count;
    size_t there = 0;
    for (uint32_t k = 0; k < t->optimizer->rule.slots; k++) {
        COPSE_TRY(add(s, t, v, k));
        there += copse_checkpoint_find(s->file, s->arrays[first + k].named.name) != NULL;
    }
    if (there == 0) {
        s->count = first;
        return COPSE_OK;
    }
    for (size_t i = first; i < s->count; i++)
        COPSE_TRY(copse__state_find(path, s->file, &s->arrays[i].named));
    return COPSE_OK;
}

static copse_status match_tower(struct copse_tower_state *s, const char *path, copse_tower_optimizer *t,
                                uint64_t *updates)
{
    const copse_strategy *st = s->strategy;
    const char *updates_key = TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".updates");
    const char *slots_key = TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".slots");
    const char *rule_key = TEXT(s, COPSE_TOWER_KEY, t->optimizer->name, ".optimizer");
    const size_t first = s->count;
    uint64_t slots;
    if (!updates_key || !slots_key || !rule_key)
        return no_memory();
    if (!copse__state_text(s->file, updates_key))
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has no tower optimizer '%s'", path, t->optimizer->name);
    COPSE_TRY(copse__state_number(path, s->file, updates_key, UINT64_MAX, updates));
    COPSE_TRY(copse__state_number(path, s->file, slots_key, UINT64_MAX, &slots));
    const char *rule = copse__state_text(s->file, rule_key);
    if (rule) {
        COPSE_TRY(copse__tower_rule(t));
        if (strcmp(rule, copse__rule_name(&t->optimizer->rule)) != 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s was made with the tower optimizer '%s' as %s, "
                                                  "here it is %s",
                              path, t->optimizer->name, rule, copse__rule_name(&t->optimizer->rule));
    }
    for (size_t i = 0; i < st->variables.count && rule; i++)
        if (st->variables.at[i]->is_trained)
            COPSE_TRY(match_variable(s, path, t, st->variables.at[i]));
    if (s->count - first != slots)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has %zu arrays for the slots of tower optimizer "
                                              "'%s', of %llu: a variable's are missing",
                          path, s->count - first, t->optimizer->name, (unsigned long long)slots);
    return COPSE_OK;
}

/* Metadata of an optimizer that is not there. */
static copse_status check_others(const struct copse_tower_state *s, const char *path)
{
    const size_t prefix = strlen(COPSE_TOWER_KEY);
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(s->file, &count);
    for (size_t i = 0; i < count; i++) {
        bool is_known = strncmp(list[i].key, COPSE_TOWER_KEY, prefix) != 0;
        for (const copse_tower_optimizer *t = s->strategy->towers; t && !is_known; t = t->next) {
            const size_t n = strlen(t->optimizer->name);
            is_known = strncmp(list[i].key + prefix, t->optimizer->name, n) == 0 && list[i].key[prefix + n] == '.';
        }
        if (!is_known)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has '%s', of a tower optimizer that the "
                                                  "strategy has not", path, list[i].key);
    }
    return COPSE_OK;
}

copse_status copse__towers_match(copse_strategy *st, struct copse_tower_state *s, const char *path,
                                 const copse_checkpoint *file)
{
    size_t n = 0;
    COPSE_TRY(begin(st, s));
    s->file = file;
    COPSE_TRY(check_others(s, path));
    for (copse_tower_optimizer *t = st->towers; t; t = t->next) {
        s->progress[n].tower = t;
        COPSE_TRY(match_tower(s, path, t, &s->progress[n++].updates));
    }
    return st->towers ? copse__state_number(path, file, COPSE_TOWER_GLOBAL_KEY, UINT64_MAX, &s->global_step)
                      : COPSE_OK;
}

bool copse__towers_know(const struct copse_tower_state *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->arrays[i].named.name, name) == 0)
            return true;
    return false;
}

/* ---- writing ---- */

void copse__towers_forget(const copse_strategy *st)
{
    for (copse_tower_optimizer *t = st->towers; t; t = t->next) {
        copse__tower_drop_all(t);
        t->optimizer->is_torn = false;
    }
}

/* What the file has no slots of had not been updated then. */
static copse_status write_zeros(copse_tower_optimizer *t, const copse_variable *v)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    copse_status s = COPSE_OK;
    float *zeros = copse__alloc(mem, (size_t)v->count, sizeof *zeros);
    if (!zeros)
        return no_memory();
    for (uint32_t k = 0; k < t->optimizer->rule.slots && !s; k++)
        s = t->optimizer->table->write_slot(t->optimizer, v, k, zeros);
    copse__free(mem, zeros);
    return s;
}

static copse_status set_count(const struct copse_tower_state *s, const struct copse_tower_progress *p,
                              const copse_variable *v)
{
    struct copse_optimizer *o = p->tower->optimizer;
    const char *parts[] = { COPSE_TOWER_KEY, o->name, ".server_updates.", v->name };
    char key[1280];
    uint64_t count = p->updates;
    const int n = snprintf(key, sizeof key, "%s%s%s%s", parts[0], parts[1], parts[2], parts[3]);
    if (n > 0 && (size_t)n < sizeof key && copse__state_text(s->file, key))
        COPSE_TRY(copse__state_number("it", s->file, key, UINT64_MAX, &count));
    return o->table->counts(o, v, true, &count);
}

static copse_status write_tower(const struct copse_tower_state *s, const struct copse_tower_progress *p)
{
    copse_tower_optimizer *t = p->tower;
    struct copse_optimizer *o = t->optimizer;
    const copse_strategy *st = s->strategy;
    copse__tower_drop_all(t);
    o->is_torn = true; /* until all is there */
    for (size_t i = 0; i < st->variables.count; i++)
        if (trains(t, st->variables.at[i]))
            COPSE_TRY(write_zeros(t, st->variables.at[i]));
    for (size_t i = 0; i < s->count; i++) {
        const struct copse_tower_array *a = &s->arrays[i];
        if (a->tower != t)
            continue;
        if (!trains(t, a->variable))
            COPSE_TRY(o->table->prepare(o, &a->variable, 1));
        COPSE_TRY(copse_note(o->table->write_slot(o, a->variable, a->slot, a->named.array.data),
                             "while writing '%s'", a->named.name));
    }
    for (size_t i = 0; i < st->variables.count && o->table->counts; i++)
        if (trains(t, st->variables.at[i]))
            COPSE_TRY(set_count(s, p, st->variables.at[i]));
    return COPSE_OK;
}

copse_status copse__towers_write(const struct copse_tower_state *s)
{
    copse_strategy *st = s->strategy;
    if (s->tower_count == 0 || !s->file)
        return COPSE_OK;
    if (s->count > 0)
        COPSE_TRY(copse__store_build(st));
    for (size_t i = 0; i < s->tower_count; i++)
        COPSE_TRY(write_tower(s, &s->progress[i]));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_note(copse_queue_finish(st->replicas[r].queue), "while writing the slots of tower "
                                                                        "optimizers"));
    for (size_t i = 0; i < s->tower_count; i++) {
        s->progress[i].tower->optimizer->step = s->progress[i].updates;
        s->progress[i].tower->optimizer->is_torn = false;
    }
    copse_global_step_set(st, s->global_step);
    return COPSE_OK;
}
