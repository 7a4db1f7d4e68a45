/* SPDX-License-Identifier: MIT */
/* The list of a state: entries, lines of metadata, settings. */
#include "core/state/state.h"

#include <stdio.h>

#include "core/graph/type.h"

void copse__state_begin(struct copse_state *s, copse_strategy *st, uint64_t step)
{
    *s = (struct copse_state){ .strategy = st, .step = step, .arena.mem = &st->ctx->base.mem };
}

void copse__state_end(struct copse_state *s)
{
    if (!s->strategy)
        return;
    struct copse_mem *mem = &s->strategy->ctx->base.mem;
    for (size_t i = 0; i < s->optimizers.count; i++)
        if (s->optimizers.at[i].optimizer->table->forget)
            s->optimizers.at[i].optimizer->table->forget(s->optimizers.at[i].optimizer);
    if (!s->is_stuck)
        copse__free(mem, s->words);
    copse__free(mem, s->entries.at);
    copse__free(mem, s->optimizers.at);
    copse__free(mem, s->lines.at);
    copse__arena_fini(&s->arena);
    *s = (struct copse_state){ 0 };
}

char *copse__state_text(struct copse_state *s, const char *const *parts, size_t count)
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

/* ---- entries ---- */

static uint8_t kind_of(const struct copse_state_entry *e)
{
    return e->optimizer ? e->optimizer->rule.slot_kinds[e->slot] : COPSE_SLOT_FLOATS;
}

uint64_t copse__state_words(const struct copse_state_entry *e)
{
    return e->optimizer ? copse__rule_slot_words(&e->optimizer->rule, e->slot, e->variable->count)
                        : e->variable->count;
}

copse_status copse__state_add(struct copse_state *s, const struct copse_state_entry *e)
{
    const copse_variable *v = e->variable;
    if (!e->name || !COPSE_PUSH(&s->strategy->ctx->base.mem, &s->entries, *e))
        return copse_no_memory("checkpoint");
    if (!v)
        return COPSE_OK;
    struct copse_array_view *view = &s->entries.at[s->entries.count - 1].view;
    const uint8_t kind = kind_of(e);
    view->type = kind == COPSE_SLOT_CODES ? COPSE_U8 : v->tensor.type;
    view->rank = kind == COPSE_SLOT_SCALES ? 1 : v->tensor.shape.rank;
    for (uint32_t d = 0; d < view->rank; d++)
        view->shape[d] = v->tensor.shape.dims[d];
    if (kind == COPSE_SLOT_SCALES)
        view->shape[0] = copse__state_words(e);
    return COPSE_OK;
}

copse_status copse__state_add_list(struct copse_state *s, copse_variable *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        copse_variable *v = list[i];
        if (v->is_of_file)
            continue;
        const struct copse_state_entry e = { .variable = v,
                                             .name = v->whole ? v->whole->name : v->name,
                                             .part_name = v->whole ? v->name : NULL };
        COPSE_TRY(copse__state_add(s, &e));
    }
    return COPSE_OK;
}

copse_status copse__state_add_variables(struct copse_state *s)
{
    return copse__state_add_list(s, s->strategy->variables.at, s->strategy->variables.count);
}

static bool state_trains(const struct copse_optimizer *o, const copse_variable *v)
{
    return copse__optimizer_bucket(o, v) != COPSE_NO_BUCKET;
}

/* The parts are joined if all of them are trained, and have floats. Otherwise each part has its own
   slots. */
static bool are_joined(const struct copse_optimizer *o, const copse_variable *v)
{
    if (o->rule.slot_kinds[0] != COPSE_SLOT_FLOATS)
        return false;
    copse_variable *const *parts = &o->strategy->variables.at[v->index - v->part];
    for (uint32_t i = 0; i < v->whole->parts; i++)
        if (!state_trains(o, parts[i]))
            return false;
    return true;
}

static copse_status add_slot(struct copse_state *s, struct copse_optimizer *o, copse_variable *v,
                             uint32_t slot, bool is_joined)
{
    const char *name = o->rule.slot_names[slot];
    struct copse_state_entry e = { .variable = v, .optimizer = o, .slot = slot };
    e.name = COPSE_STATE_TEXT(s, is_joined ? v->whole->name : v->name, "/", name);
    if (is_joined) {
        e.part_name = COPSE_STATE_TEXT(s, v->name, "/", name);
        if (!e.part_name)
            return copse_no_memory("checkpoint");
    }
    return copse__state_add(s, &e);
}

copse_status copse__state_add_optimizer(struct copse_state *s, struct copse_optimizer *o)
{
    const copse_strategy *st = s->strategy;
    uint32_t count;
    if (!COPSE_PUSH(&st->ctx->base.mem, &s->optimizers,
                    ((struct copse_state_optimizer){ .optimizer = o })))
        return copse_no_memory("checkpoint");
    for (size_t i = 0; i < st->variables.count; i += count) {
        copse_variable *const *at = &st->variables.at[i];
        const bool is_joined = at[0]->whole && are_joined(o, at[0]);
        count = is_joined ? at[0]->whole->parts : 1;
        for (uint32_t k = 0; k < o->rule.slots && state_trains(o, at[0]); k++)
            for (uint32_t p = 0; p < count; p++)
                COPSE_TRY(add_slot(s, o, at[p], k, is_joined));
    }
    return COPSE_OK;
}

copse_status copse__state_check_application(const struct copse_state_params *p)
{
    for (size_t i = 0; i < p->array_count; i++)
        if (!p->arrays[i].name || strncmp(p->arrays[i].name, COPSE_APPLICATION_ARRAY,
                                          strlen(COPSE_APPLICATION_ARRAY)) != 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "checkpoint: array %zu of the application: its name "
                              "must begin with \"" COPSE_APPLICATION_ARRAY "\"",
                              i);
    for (size_t i = 0; i < p->metadata_count; i++)
        if (!p->metadata[i].key ||
            strncmp(p->metadata[i].key, COPSE_APPLICATION_KEY, strlen(COPSE_APPLICATION_KEY)) != 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "checkpoint: metadata %zu of the application: its key "
                              "must begin with \"" COPSE_APPLICATION_KEY "\"",
                              i);
    return COPSE_OK;
}

copse_status copse__state_add_application(struct copse_state *s, const struct copse_state_params *p)
{
    for (size_t i = 0; i < p->array_count; i++)
        COPSE_TRY(copse__state_add(s, &(struct copse_state_entry){ .name = p->arrays[i].name,
                                                                   .view = p->arrays[i].array }));
    return COPSE_OK;
}

size_t copse__state_whole(const struct copse_state *s, size_t i, struct copse_array_view *out)
{
    const struct copse_state_entry *e = &s->entries.at[i];
    *out = e->view;
    if (!e->part_name)
        return 1;
    const struct copse_whole *w = e->variable->whole;
    for (uint32_t d = 0; d < w->shape.rank; d++)
        out->shape[d] = w->shape.dims[d];
    return w->parts;
}

/* ---- metadata ---- */

copse_status copse__state_put(struct copse_state *s, const char *key, const char *value)
{
    const struct copse_metadata line = { key, value };
    return key && value && COPSE_PUSH(&s->strategy->ctx->base.mem, &s->lines, line)
               ? COPSE_OK
               : copse_no_memory("checkpoint");
}

copse_status copse__state_put_number(struct copse_state *s, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return copse__state_put(s, key, COPSE_STATE_TEXT(s, text));
}

copse_status copse__state_put_head(struct copse_state *s)
{
    COPSE_TRY(copse__state_put(s, "producer", "copse"));
    return copse__state_put(s, "format", COPSE_CHECKPOINT_FORMAT);
}

copse_status copse__state_put_counters(struct copse_state *s, uint64_t seed,
                                       const struct copse_position *position)
{
    COPSE_TRY(copse__state_put_number(s, "step", s->step));
    COPSE_TRY(copse__state_put_number(s, "seed", seed));
    COPSE_TRY(copse__state_put_number(s, "epoch", position->epoch));
    return copse__state_put_number(s, "batch", position->batch);
}

copse_status copse__state_put_application(struct copse_state *s, const struct copse_state_params *p)
{
    for (size_t i = 0; i < p->metadata_count; i++)
        COPSE_TRY(copse__state_put(s, p->metadata[i].key,
                                   p->metadata[i].value ? p->metadata[i].value : ""));
    return COPSE_OK;
}

/* ---- settings ---- */

static struct copse_setting *next_setting(struct copse_state *s, const char *key)
{
    struct copse_setting *at = &s->settings[s->setting_count++];
    at->key = key;
    return at;
}

void copse__state_set_text(struct copse_state *s, const char *key, const char *value)
{
    struct copse_setting *at = next_setting(s, key);
    snprintf(at->value, sizeof at->value, "%s", value);
}

/* 9 digits identify every float. Always a decimal point, independent of the application's
   locale. */
static void set_float(struct copse_state *s, const char *key, float value)
{
    struct copse_setting *at = next_setting(s, key);
    char text[sizeof at->value];
    size_t used = 0;
    snprintf(text, sizeof text, "%.9g", (double)value);
    for (const char *c = text; *c; c++)
        if (strchr("+-0123456789einfa", *c))
            at->value[used++] = *c;
        else if (used > 0 && at->value[used - 1] != '.')
            at->value[used++] = '.';
    at->value[used] = '\0';
}

void copse__state_set_kernels(struct copse_state *s)
{
    char text[COPSE_CHOICES_TEXT];
    copse__state_set_text(s, "kernels", copse__choices_text(&s->strategy->choices, text));
}

void copse__state_set_replicas(struct copse_state *s)
{
    struct copse_setting *at = next_setting(s, "replicas");
    snprintf(at->value, sizeof at->value, "%u", s->strategy->group.ranks);
}

void copse__state_set_rule(struct copse_state *s, const struct copse_rule *rule)
{
    const struct copse_optimizer_params *p = &rule->params;
    copse__state_set_text(s, "optimizer", copse__rule_name(rule));
    if (p->schedule) /* a function: its values belong to the application */
        copse__state_set_text(s, "learning_rate", "scheduled");
    else
        set_float(s, "learning_rate", p->learning_rate);
    const struct copse_optimizer_rule *row = &rule->row->info;
    const struct {
        const char *name;
        bool has;
        float value;
    } own[] = {
        { "momentum", row->momentum > 0.0f || (p->kind == COPSE_RMSPROP && p->momentum > 0.0f),
          p->momentum },
        { "beta1", row->beta1 > 0.0f, p->beta1 },
        { "beta2", row->beta2 > 0.0f, p->beta2 },
        { "epsilon", row->epsilon > 0.0f, p->epsilon },
        { "initial", p->initial > 0.0f, p->initial },
        { "l1", p->l1 > 0.0f, p->l1 },
        { "l2", p->l2 > 0.0f, p->l2 },
        { "momentum_decay", row->momentum_decay > 0.0f, p->momentum_decay },
        { "trust", row->trust > 0.0f, p->trust },
        { "centred", p->is_centred > 0, (float)p->is_centred },
        { "epsilon_in_root", p->epsilon_in_root > 0, (float)p->epsilon_in_root },
        { "plain_average", p->plain_average > 0, (float)p->plain_average },
    };
    for (size_t i = 0; i < COPSE_COUNT(own); i++)
        if (own[i].has)
            set_float(s, own[i].name, own[i].value);
    set_float(s, "weight_decay", p->weight_decay);
    if (p->clip_norm > 0.0f)
        set_float(s, "clip_norm", p->clip_norm);
    if (p->clip_global_norm > 0.0f)
        set_float(s, "clip_global_norm", p->clip_global_norm);
    if (p->average > 0.0f)
        set_float(s, "average", p->average);
}

copse_status copse__state_put_settings(struct copse_state *s)
{
    for (size_t i = 0; i < s->setting_count; i++)
        COPSE_TRY(copse__state_put(s, s->settings[i].key, s->settings[i].value));
    return COPSE_OK;
}
