/* SPDX-License-Identifier: MIT */
/* Named optimizers in a state. Variables are added to them one by one, so a file has an array
   "<variable>/<optimizer>/<slot>" for each slot of an updated variable, and metadata
   "tower.<optimizer>....". */
#include "copse/compat/train_step.h"
#include "core/state/state.h"

static bool named_trains(const struct copse_optimizer *o, const copse_variable *v)
{
    return copse__optimizer_bucket(o, v) != COPSE_NO_BUCKET;
}

/* The next named optimizer of the strategy, from `o` on. */
static struct copse_optimizer *optimizer_named(const copse_strategy *st,
                                               const struct copse_optimizer *o)
{
    struct copse_optimizer *next = copse__optimizer_next(st, o);
    while (next && !next->name[0])
        next = copse__optimizer_next(st, next);
    return next;
}

copse_status copse__state_check_named(const copse_strategy *st)
{
    for (struct copse_optimizer *o = optimizer_named(st, NULL); o; o = optimizer_named(st, o)) {
        if (o->is_torn)
            return copse_fail(COPSE_ERR_DEVICE_LOST,
                              "checkpoint: the last update of tower optimizer '%s' was "
                              "cut short; the parameters are not a whole step's",
                              o->name);
        for (uint32_t r = 0; r < st->replica_count; r++)
            if (o->held[r] > 0)
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "checkpoint: tower optimizer '%s' keeps gradients of "
                                  "replica %u: end the step first",
                                  o->name, st->group.first + r);
    }
    return COPSE_OK;
}

/* ---- saving ---- */

static copse_status add_slots(struct copse_state *s, struct copse_optimizer *o, copse_variable *v)
{
    for (uint32_t k = 0; k < o->rule.slots; k++) {
        const struct copse_state_entry e = { .variable = v,
                                             .optimizer = o,
                                             .slot = k,
                                             .name = COPSE_STATE_TEXT(s, v->name, "/", o->name, "/",
                                                                      o->rule.slot_names[k]) };
        COPSE_TRY(copse__state_add(s, &e));
    }
    return COPSE_OK;
}

copse_status copse__state_add_named(struct copse_state *s)
{
    const copse_strategy *st = s->strategy;
    for (struct copse_optimizer *o = optimizer_named(st, NULL); o; o = optimizer_named(st, o)) {
        if (!COPSE_PUSH(&st->ctx->base.mem, &s->optimizers,
                        ((struct copse_state_optimizer){ .optimizer = o })))
            return copse_no_memory("checkpoint");
        for (size_t i = 0; i < st->variables.count; i++)
            if (named_trains(o, st->variables.at[i]))
                COPSE_TRY(add_slots(s, o, st->variables.at[i]));
    }
    return COPSE_OK;
}

/* Parameter stores count each variable's updates from all workers. */
static copse_status put_counts(struct copse_state *s, struct copse_optimizer *o, uint64_t *most)
{
    const copse_strategy *st = s->strategy;
    uint64_t count = 0;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (!named_trains(o, v))
            continue;
        COPSE_TRY(o->table->counts(o, v, false, &count));
        *most = COPSE_MAX(*most, count);
        COPSE_TRY(copse__state_put_number(
            s, COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".server_updates.", v->name), count));
    }
    return COPSE_OK;
}

static copse_status named_describe(struct copse_state *s, struct copse_optimizer *o)
{
    uint64_t slots = 0, updates = o->table->counts ? 0 : o->step;
    for (size_t i = 0; i < s->entries.count; i++)
        slots += s->entries.at[i].optimizer == o;
    if (o->table->counts)
        COPSE_TRY(put_counts(s, o, &updates));
    COPSE_TRY(copse__state_put_number(s, COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".updates"),
                                      updates));
    COPSE_TRY(
        copse__state_put_number(s, COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".slots"), slots));
    if (o->scaling.scale > 0.0f) {
        char text[COPSE_SCALING_TEXT];
        copse__scaling_write(o, text);
        COPSE_TRY(copse__state_put(s, COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".scaling"),
                                   COPSE_STATE_TEXT(s, text)));
    }
    return o->has_rule
               ? copse__state_put(s, COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".optimizer"),
                                  copse__rule_name(&o->rule))
               : COPSE_OK;
}

copse_status copse__state_put_named(struct copse_state *s)
{
    const copse_strategy *st = s->strategy;
    bool is_any = false;
    for (struct copse_optimizer *o = optimizer_named(st, NULL); o; o = optimizer_named(st, o)) {
        COPSE_TRY(named_describe(s, o));
        is_any = true;
    }
    return is_any ? copse__state_put_number(s, COPSE_NAMED_GLOBAL_KEY, copse_global_step(st))
                  : COPSE_OK;
}

/* ---- matching ---- */

/* The variable's slots: the file must have all of them, or none. */
static copse_status match_variable(struct copse_state *s, struct copse_optimizer *o,
                                   copse_variable *v)
{
    const size_t first = s->entries.count;
    size_t found = 0;
    COPSE_TRY(add_slots(s, o, v));
    for (size_t i = first; i < s->entries.count; i++)
        found += copse_checkpoint_find(s->file, s->entries.at[i].name) != NULL;
    if (found == 0)
        s->entries.count = first;
    for (size_t i = first; i < s->entries.count; i++) {
        struct copse_state_entry *e = &s->entries.at[i];
        COPSE_TRY(copse__state_find(s, e->name, &e->view, &e->view.data));
    }
    return COPSE_OK;
}

static copse_status match_rule(const struct copse_state *s, struct copse_optimizer *o,
                               const char *name)
{
    if (!o->has_rule)
        COPSE_TRY(o->owner.make_rule(o->owner.user));
    return strcmp(name, copse__rule_name(&o->rule)) == 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "checkpoint: %s was made with the tower optimizer '%s' as %s, "
                            "here it is %s",
                            s->path, o->name, name, copse__rule_name(&o->rule));
}

static copse_status match_one(struct copse_state *s, struct copse_optimizer *o, uint64_t *updates)
{
    const copse_strategy *st = s->strategy;
    const char *updates_key = COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".updates");
    const char *slots_key = COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".slots");
    const char *rule_key = COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".optimizer");
    const size_t first = s->entries.count;
    uint64_t slots;
    if (!updates_key || !slots_key || !rule_key)
        return copse_no_memory("checkpoint");
    if (!copse__state_line(s, updates_key))
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has no tower optimizer '%s'", s->path,
                          o->name);
    COPSE_TRY(copse__state_number(s, updates_key, UINT64_MAX, updates));
    COPSE_TRY(copse__state_number(s, slots_key, UINT64_MAX, &slots));
    const char *rule = copse__state_line(s, rule_key);
    if (rule)
        COPSE_TRY(match_rule(s, o, rule));
    for (size_t i = 0; i < st->variables.count && rule; i++)
        if (st->variables.at[i]->is_trained)
            COPSE_TRY(match_variable(s, o, st->variables.at[i]));
    if (s->entries.count - first != slots)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "checkpoint: %s has %zu arrays for the slots of tower optimizer "
                          "'%s', of %llu: a variable's are missing",
                          s->path, s->entries.count - first, o->name, (unsigned long long)slots);
    return COPSE_OK;
}

/* Metadata of an optimizer that the strategy does not have. */
static copse_status check_others(const struct copse_state *s)
{
    const size_t prefix = strlen(COPSE_NAMED_KEY);
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(s->file, &count);
    for (size_t i = 0; i < count; i++) {
        bool is_known = strncmp(list[i].key, COPSE_NAMED_KEY, prefix) != 0;
        for (struct copse_optimizer *o = optimizer_named(s->strategy, NULL); o && !is_known;
             o = optimizer_named(s->strategy, o)) {
            const size_t n = strlen(o->name);
            is_known =
                strncmp(list[i].key + prefix, o->name, n) == 0 && list[i].key[prefix + n] == '.';
        }
        if (!is_known)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "checkpoint: %s has '%s', of a tower optimizer that the "
                              "strategy has not",
                              s->path, list[i].key);
    }
    return COPSE_OK;
}

copse_status copse__state_match_named(struct copse_state *s)
{
    copse_strategy *st = s->strategy;
    COPSE_TRY(check_others(s));
    for (struct copse_optimizer *o = optimizer_named(st, NULL); o; o = optimizer_named(st, o)) {
        struct copse_state_optimizer in = { .optimizer = o };
        const char *key = COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".scaling");
        if (!key)
            return copse_no_memory("checkpoint");
        COPSE_TRY(match_one(s, o, &in.updates));
        COPSE_TRY(copse__scaling_read(s->path, copse__state_line(s, key), &in.scaling));
        if (!COPSE_PUSH(&st->ctx->base.mem, &s->optimizers, in))
            return copse_no_memory("checkpoint");
    }
    return optimizer_named(st, NULL)
               ? copse__state_number(s, COPSE_NAMED_GLOBAL_KEY, UINT64_MAX, &s->global)
               : COPSE_OK;
}

/* ---- restoring ---- */

void copse__state_forget_named(const copse_strategy *st)
{
    for (struct copse_optimizer *o = optimizer_named(st, NULL); o; o = optimizer_named(st, o)) {
        o->owner.drop_held(o->owner.user);
        o->is_torn = false;
    }
}

/* A variable that had not been updated when the file was written. */
static copse_status write_zeros(struct copse_optimizer *o, const copse_variable *v)
{
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    copse_status s = COPSE_OK;
    float *zeros = copse__alloc(mem, (size_t)v->count, sizeof *zeros);
    if (!zeros)
        return copse_no_memory("checkpoint");
    for (uint32_t k = 0; k < o->rule.slots && !s; k++)
        s = o->table->write_slot(o, v, k, zeros);
    copse__free(mem, zeros);
    return s;
}

static bool has_entry(const struct copse_state *s, const struct copse_optimizer *o,
                      const copse_variable *v)
{
    bool has = false;
    for (size_t i = 0; i < s->entries.count && !has; i++)
        has = s->entries.at[i].optimizer == o && s->entries.at[i].variable == v;
    return has;
}

/* The variables that the file has slots of. */
static copse_status prepare_saved(const struct copse_state *s, struct copse_optimizer *o)
{
    const copse_strategy *st = s->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    copse_variable **list = copse__alloc(mem, st->variables.count, sizeof(copse_variable *));
    size_t count = 0;
    COPSE_TRY(copse_need_memory(list, "checkpoint"));
    for (size_t i = 0; i < st->variables.count; i++)
        if (!named_trains(o, st->variables.at[i]) && has_entry(s, o, st->variables.at[i]))
            list[count++] = st->variables.at[i];
    const copse_status ready = count > 0 ? o->table->prepare(o, list, count) : COPSE_OK;
    copse__free(mem, list);
    return ready;
}

static copse_status named_reset(const struct copse_state *s, struct copse_optimizer *o)
{
    const copse_strategy *st = s->strategy;
    o->owner.drop_held(o->owner.user);
    o->is_torn = true; /* until everything is written */
    for (size_t i = 0; i < st->variables.count; i++)
        if (named_trains(o, st->variables.at[i]))
            COPSE_TRY(write_zeros(o, st->variables.at[i]));
    return prepare_saved(s, o);
}

copse_status copse__state_reset_named(const struct copse_state *s)
{
    bool has_slots = false;
    for (size_t i = 0; i < s->entries.count; i++)
        has_slots |= s->entries.at[i].optimizer && s->entries.at[i].optimizer->name[0];
    if (has_slots)
        COPSE_TRY(copse__store_build(s->strategy));
    for (size_t i = 0; i < s->optimizers.count; i++)
        if (s->optimizers.at[i].optimizer->name[0])
            COPSE_TRY(named_reset(s, s->optimizers.at[i].optimizer));
    return COPSE_OK;
}

static copse_status set_counts(struct copse_state *s, const struct copse_state_optimizer *in)
{
    struct copse_optimizer *o = in->optimizer;
    const copse_strategy *st = s->strategy;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        uint64_t count = in->updates;
        if (!named_trains(o, v))
            continue;
        const char *key =
            COPSE_STATE_TEXT(s, COPSE_NAMED_KEY, o->name, ".server_updates.", v->name);
        if (!key)
            return copse_no_memory("checkpoint");
        if (copse__state_line(s, key))
            COPSE_TRY(copse__state_number(s, key, UINT64_MAX, &count));
        COPSE_TRY(o->table->counts(o, v, true, &count));
    }
    return COPSE_OK;
}

copse_status copse__state_finish_named(struct copse_state *s)
{
    bool is_any = false;
    for (size_t i = 0; i < s->optimizers.count; i++) {
        const struct copse_state_optimizer *in = &s->optimizers.at[i];
        if (!in->optimizer->name[0])
            continue;
        if (in->optimizer->table->counts)
            COPSE_TRY(set_counts(s, in));
        in->optimizer->step = in->updates;
        copse__scaling_set(in->optimizer, &in->scaling);
        in->optimizer->is_torn = false;
        is_any = true;
    }
    if (is_any)
        copse_global_step_set(s->strategy, s->global);
    return COPSE_OK;
}
