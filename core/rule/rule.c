/* SPDX-License-Identifier: MIT */
/* Update rules: checks settings and sets defaults, makes the dispatch of each rule, computes the
   words of a step. */
#include <math.h>
#include <stdio.h>

#include "core/base/callback.h"
#include "core/rule/host.h"
#include "core/rule/rule.h"

/* ---- settings ---- */

static copse_status rule_bad(const char *name, float value, const char *expected)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %s is %g: %s", name, (double)value, expected);
}

/* Zero means the default. */
static copse_status rule_positive(const char *name, float *value, float fallback)
{
    if (*value == 0.0f)
        *value = fallback;
    return *value > 0.0f && isfinite(*value)
               ? COPSE_OK
               : rule_bad(name, *value, "a finite number > 0 is needed");
}

static copse_status rule_fraction(const char *name, float *value, float fallback)
{
    if (*value == 0.0f)
        *value = fallback;
    return *value > 0.0f && *value < 1.0f
               ? COPSE_OK
               : rule_bad(name, *value, "a number between 0 and 1 is needed");
}

/* Zero means off. */
static copse_status rule_limit(const char *name, float value)
{
    return value >= 0.0f && isfinite(value)
               ? COPSE_OK
               : rule_bad(name, value, "a finite number >= 0 is needed");
}

static copse_status check_clipping(const struct copse_rule_row *row,
                                   const struct copse_optimizer_params *p)
{
    COPSE_TRY(rule_limit("clip_value", p->clip_value));
    COPSE_TRY(rule_limit("clip_norm", p->clip_norm));
    COPSE_TRY(rule_limit("clip_global_norm", p->clip_global_norm));
    if ((p->clip_value > 0.0f) + (p->clip_norm > 0.0f) + (p->clip_global_norm > 0.0f) > 1)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "optimizer: clip_value is %g, clip_norm is %g, clip_global_norm is %g: set "
            "one of them at most",
            (double)p->clip_value, (double)p->clip_norm, (double)p->clip_global_norm);
    if (row->kernel->trusts &&
        (p->clip_value > 0.0f || p->clip_norm > 0.0f || p->clip_global_norm > 0.0f))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "optimizer: %s limits the update of each variable by its norms and has no "
            "clipping: set clip_value, clip_norm and clip_global_norm to 0",
            row->info.name);
    return COPSE_OK;
}

static copse_status check_scaling(struct copse_optimizer_params *p)
{
    if (p->loss_scale != 0.0f && !(p->loss_scale >= 1.0f && p->loss_scale <= 0x1p126f))
        return rule_bad("loss_scale", p->loss_scale, "0, or a number from 1 to 2^126 is needed");
    if (p->loss_scale_interval > 0 && p->loss_scale == 0.0f)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "optimizer: loss_scale_interval is %u and loss_scale is 0: the scale to begin "
            "with is needed",
            p->loss_scale_interval);
    if (p->loss_scale_growth != 0.0f &&
        !(p->loss_scale_growth > 1.0f && isfinite(p->loss_scale_growth)))
        return rule_bad("loss_scale_growth", p->loss_scale_growth, "a finite number > 1 is needed");
    if (p->loss_scale_growth == 0.0f)
        p->loss_scale_growth = 2.0f;
    return rule_fraction("loss_scale_backoff", &p->loss_scale_backoff, 0.5f);
}

static copse_status rule_flag(const char *name, uint32_t value)
{
    return value > 1 ? rule_bad(name, (float)value, "0 or 1 is needed") : COPSE_OK;
}

/* Settings that the rule does not have must be 0. */
static copse_status check_own(const struct copse_rule_row *row,
                              const struct copse_optimizer_params *p)
{
    const struct {
        unsigned bit;
        const char *name;
        float value;
    } own[] = {
        { COPSE_HAS_INITIAL, "initial", p->initial },
        { COPSE_HAS_L1, "l1", p->l1 },
        { COPSE_HAS_L2, "l2", p->l2 },
        { COPSE_HAS_MOMENTUM_DECAY, "momentum_decay", p->momentum_decay },
        { COPSE_HAS_CENTRED, "is_centred", (float)p->is_centred },
        { COPSE_HAS_TRUST, "trust", p->trust },
        { COPSE_HAS_IN_ROOT, "epsilon_in_root", (float)p->epsilon_in_root },
    };
    for (size_t i = 0; i < COPSE_COUNT(own); i++) {
        COPSE_TRY(rule_limit(own[i].name, own[i].value));
        if (own[i].value > 0.0f && !(row->has & own[i].bit))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "optimizer: %s is %g: %s has no such setting; set it to 0",
                              own[i].name, (double)own[i].value, row->info.name);
    }
    COPSE_TRY(rule_flag("is_centred", p->is_centred));
    COPSE_TRY(rule_flag("epsilon_in_root", p->epsilon_in_root));
    COPSE_TRY(rule_flag("plain_average", p->plain_average));
    if (p->plain_average && p->average == 0.0f)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "optimizer: plain_average is 1, and there is no average; set it, too");
    return COPSE_OK;
}

static float or_else(float x, float fallback)
{
    return x > 0.0f ? x : fallback;
}

/* Without a setting `momentum` the rule has none. */
static bool may_lack_momentum(const struct copse_rule_row *row)
{
    for (size_t i = 0; i < COPSE_RULE_OWN_SLOTS; i++)
        if (row->slots[i].need == COPSE_SLOT_MOMENTUM)
            return true;
    return false;
}

/* The rule's default; of a setting that the rule does not use that of Adam. */
static copse_status set_defaults(const struct copse_rule_row *row, struct copse_optimizer_params *p)
{
    const struct copse_optimizer_rule *d = &row->info;
    COPSE_TRY(rule_positive("learning rate", &p->learning_rate, d->learning_rate));
    if (!may_lack_momentum(row) || p->momentum != 0.0f)
        COPSE_TRY(rule_fraction("momentum", &p->momentum, or_else(d->momentum, 0.9f)));
    COPSE_TRY(rule_fraction("beta1", &p->beta1, or_else(d->beta1, 0.9f)));
    COPSE_TRY(rule_fraction("beta2", &p->beta2, or_else(d->beta2, 0.999f)));
    COPSE_TRY(rule_positive("epsilon", &p->epsilon, or_else(d->epsilon, 1e-8f)));
    p->initial = or_else(p->initial, d->initial);
    p->momentum_decay = or_else(p->momentum_decay, d->momentum_decay);
    p->trust = or_else(p->trust, d->trust);
    return COPSE_OK;
}

static void add_slots(struct copse_rule *rule)
{
    const struct copse_optimizer_params *p = &rule->params;
    for (size_t i = 0; i < COPSE_RULE_OWN_SLOTS && rule->row->slots[i].name; i++) {
        const enum copse_slot_need need = rule->row->slots[i].need;
        if ((need == COPSE_SLOT_CENTRED && !p->is_centred) ||
            (need == COPSE_SLOT_MOMENTUM && p->momentum == 0.0f))
            continue;
        rule->slot_names[rule->slots] = rule->row->slots[i].name;
        if (rule->row->kernel->is_coded)
            rule->slot_kinds[rule->slots] = i % 2 == 0 ? COPSE_SLOT_CODES : COPSE_SLOT_SCALES;
        rule->slot_starts[rule->slots++] = rule->row->slots[i].is_initial ? p->initial : 0.0f;
    }
    rule->update_slots = rule->slots;
    if (p->average != 0.0f)
        rule->slot_names[rule->slots++] = "average";
}

uint64_t copse__rule_slot_words(const struct copse_rule *rule, uint32_t slot, uint64_t count)
{
    switch (rule->slot_kinds[slot]) {
    case COPSE_SLOT_CODES:
        return (count + COPSE_WORD_BYTES - 1) / COPSE_WORD_BYTES;
    case COPSE_SLOT_SCALES:
        return (count + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
    default:
        return count;
    }
}

uint64_t copse__rule_slot_at(const struct copse_rule *rule, uint32_t slot, uint64_t count)
{
    uint64_t words = 0;
    for (uint32_t k = 0; k < slot; k++)
        words += copse__rule_slot_words(rule, k, count);
    return words;
}

copse_status copse__rule_init(const struct copse_optimizer_params *params, struct copse_rule *out)
{
    *out = (struct copse_rule){ .slots = 0 };
    if (params)
        out->params = *params;
    struct copse_optimizer_params *p = &out->params;
    out->row = copse__rule_row(p->kind);
    if (!out->row)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: there is no kind %d", (int)p->kind);
    COPSE_TRY(check_own(out->row, p));
    COPSE_TRY(check_clipping(out->row, p));
    COPSE_TRY(check_scaling(p));
    COPSE_TRY(copse__groups_parse(p->groups, &out->groups));
    p->groups = NULL; /* the caller's */
    out->clips = p->clip_norm > 0.0f || p->clip_global_norm > 0.0f || p->loss_scale > 0.0f;
    out->trusts = out->row->kernel->trusts;
    out->measures = out->clips || out->trusts;
    if (p->average != 0.0f)
        COPSE_TRY(rule_fraction("average", &p->average, 0.0f));
    COPSE_TRY(set_defaults(out->row, p));
    add_slots(out);
    return rule_limit("weight decay", p->weight_decay);
}

void copse__rule_of_group(const struct copse_rule *rule, uint32_t group, struct copse_rule *out)
{
    *out = *rule;
    out->groups.count = out->groups.factor_count = 0;
    out->group = copse__groups_offset(&rule->groups, group);
    if (group < rule->groups.count && rule->groups.at[group].has_decay)
        out->params.weight_decay = rule->groups.at[group].decay;
}

char *copse__rule_text(const struct copse_optimizer_params *p, char text[COPSE_RULE_TEXT])
{
    const char *groups = p->groups ? p->groups : "";
    snprintf(text, COPSE_RULE_TEXT,
             "optimizer %d\nlearning rate %.9g\nmomentum %.9g\nbetas %.9g %.9g\nepsilon "
             "%.9g\nweight decay %.9g\n"
             "clipping %.9g %.9g %.9g\nloss scale %.9g %u %.9g %.9g\naverage %.9g\nschedule %d\n"
             "own %.9g %.9g %.9g %.9g %u %.9g %u %u\ngroups %016llx\n",
             (int)p->kind, (double)p->learning_rate, (double)p->momentum, (double)p->beta1,
             (double)p->beta2, (double)p->epsilon, (double)p->weight_decay, (double)p->clip_value,
             (double)p->clip_norm, (double)p->clip_global_norm, (double)p->loss_scale,
             p->loss_scale_interval, (double)p->loss_scale_growth, (double)p->loss_scale_backoff,
             (double)p->average, p->schedule != NULL, (double)p->initial, (double)p->l1,
             (double)p->l2, (double)p->momentum_decay, p->is_centred, (double)p->trust,
             p->epsilon_in_root, p->plain_average,
             (unsigned long long)copse__hash(COPSE_HASH_START, groups, strlen(groups)));
    return text;
}

/* "sgd, momentum": those with a sparse form. */
static void list_sparse(char *text, size_t room)
{
    size_t at = 0;
    const struct copse_rule_row *row;
    for (int kind = 0; at < room && (row = copse__rule_row((copse_optimizer_kind)kind)); kind++)
        if (row->rows != COPSE_ROWS_NONE)
            at +=
                (size_t)snprintf(text + at, room - at, "%s%s", at > 0 ? ", " : "", row->info.name);
}

copse_status copse__rule_takes_rows(const struct copse_rule *rule, const char *name)
{
    const struct copse_optimizer_params *p = &rule->params;
    char rules[256] = "";
    if (rule->row->rows == COPSE_ROWS_NONE) {
        list_sparse(rules, sizeof rules);
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "optimizer: %s has no sparse form, and variable '%s' is sparse: use one of %s, or "
            "a variable that is not sparse",
            rule->row->info.name, name, rules);
    }
    if (p->weight_decay > 0.0f)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "optimizer: weight_decay is %g, and variable '%s' is sparse: give it a parameter "
            "group with decay=0",
            (double)p->weight_decay, name);
    if (p->average > 0.0f)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "optimizer: average is %g, and variable '%s' is sparse: set it to 0, or use a "
            "variable that is not sparse",
            (double)p->average, name);
    return COPSE_OK;
}

const char *copse__rule_name(const struct copse_rule *rule)
{
    return rule->row->info.name;
}

/* ---- commands ---- */

struct request {
    const struct copse_rule *rule;
    copse_device *dev;
    struct copse_binding bindings[5]; /* factors, if any, gradients, values, then slots and step */
    uint32_t binding_count;
    uint64_t count;
};

/* The first two entries of `spec`, COPSE_RULE_PER and RUNS, are not yet set. */
static copse_status rule_dispatch(const struct request *r, enum copse_kernel_id id, int32_t *spec,
                                  const void *params, struct copse_command *out)
{
    struct copse_kernel *k;
    spec[0] = COPSE_RULE_PER;
    spec[1] = r->dev->limits->has_wide_vectors;
    COPSE_TRY(copse__kernel_get(r->dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * COPSE_RULE_PER;
    return copse__dispatch_init(out, k, r->bindings, r->binding_count, params,
                                (r->count + each - 1) / each, 0);
}

static struct copse_update_numbers numbers_of(const struct copse_rule *rule, uint64_t count)
{
    const struct copse_optimizer_params *p = &rule->params;
    return (struct copse_update_numbers){
        .n = (uint32_t)count,
        .group = rule->group,
        .decay = p->weight_decay,
        .momentum = p->momentum,
        .beta1 = p->beta1,
        .beta2 = p->beta2,
        .rest1 = (float)(1.0 - (double)p->beta1),
        .rest2 = (float)(1.0 - (double)p->beta2),
        .epsilon = p->epsilon,
        .l1 = p->l1,
        .l2 = p->l2,
        .number = rule->row->number,
        .apply = p->weight_decay == 0.0f   ? COPSE_DECAY_NONE
                 : rule->row->decays_apart ? COPSE_DECAY_APART
                                           : COPSE_DECAY_GRADIENT,
        .is_centred = p->is_centred != 0,
        .is_in_root = p->epsilon_in_root != 0,
        .has_momentum = may_lack_momentum(rule->row) && p->momentum > 0.0f,
    };
}

static copse_status rule_update(const struct request *r, struct copse_command *out)
{
    const struct copse_rule_kernel *kernel = r->rule->row->kernel;
    const struct copse_update_numbers numbers = numbers_of(r->rule, r->count);
    uint32_t params[COPSE_MAX_PARAM_WORDS] = { 0 };
    int32_t spec[COPSE_MAX_SPECS] = { 0 };
    struct copse_kernel *k;
    kernel->take(&numbers, params, kernel->is_coded ? spec : spec + 2);
    if (!kernel->is_coded)
        return rule_dispatch(r, kernel->id, spec, params, out);
    COPSE_TRY(copse__kernel_get(r->dev, kernel->id, spec, &k));
    return copse__dispatch_init(out, k, r->bindings, r->binding_count, params,
                                (r->count + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK, 0);
}

copse_status
copse__rule_command(const struct copse_rule *rule, copse_device *dev,
                    const struct copse_binding *values, const struct copse_binding *gradients,
                    const struct copse_binding *slots, const struct copse_binding *step,
                    const struct copse_binding *factors, uint64_t count, struct copse_command *out)
{
    struct request r = { .rule = rule, .dev = dev, .count = count };
    if (count > UINT32_MAX / COPSE_RULE_SLOTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %llu elements in one range",
                          (unsigned long long)count);
    if (rule->trusts)
        r.bindings[r.binding_count++] = *factors;
    r.bindings[r.binding_count++] = *gradients;
    r.bindings[r.binding_count++] = *values;
    if (rule->update_slots > 0) {
        r.bindings[r.binding_count] = *slots;
        r.bindings[r.binding_count++].size =
            (size_t)(4 * copse__rule_slot_at(rule, rule->update_slots, count));
    }
    r.bindings[r.binding_count++] = *step;
    return rule_update(&r, out);
}

copse_status copse__rule_average(const struct copse_rule *rule, copse_device *dev,
                                 const struct copse_binding *values,
                                 const struct copse_binding *slots,
                                 const struct copse_binding *step, uint64_t count,
                                 struct copse_command *out)
{
    const struct request r = { .rule = rule,
                               .dev = dev,
                               .bindings = { *values, *slots, *step },
                               .binding_count = 3,
                               .count = count };
    const struct copse_params_average p = {
        .n = (uint32_t)count, .at = (uint32_t)copse__rule_slot_at(rule, rule->update_slots, count)
    };
    return rule_dispatch(&r, COPSE_KERNEL_average, (int32_t[]){ 0, 0 }, &p, out);
}

copse_status copse__rule_clip(const struct copse_rule *rule, copse_device *dev,
                              const struct copse_binding *gradients,
                              const struct copse_binding *step, uint64_t count,
                              struct copse_command *out)
{
    const struct request r = { .rule = rule,
                               .dev = dev,
                               .bindings = { *step, *gradients },
                               .binding_count = 2,
                               .count = count };
    const struct copse_params_clip p = { .n = (uint32_t)count, .limit = rule->params.clip_value };
    return rule_dispatch(&r, COPSE_KERNEL_clip, (int32_t[]){ 0, 0 }, &p, out);
}

/* One invocation for each block. */
static copse_status dispatch_blocks(const struct request *r, enum copse_kernel_id id,
                                    const void *params, struct copse_command *out)
{
    const int32_t none[COPSE_MAX_SPECS] = { 0 };
    struct copse_kernel *k;
    if (r->count > UINT32_MAX / COPSE_RULE_SLOTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %llu elements in one range",
                          (unsigned long long)r->count);
    COPSE_TRY(copse__kernel_get(r->dev, id, none, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * COPSE_RULE_BLOCK;
    return copse__dispatch_init(out, k, r->bindings, r->binding_count, params,
                                (r->count + each - 1) / each, 0);
}

copse_status copse__rule_measure(copse_device *dev, const struct copse_binding *gradients,
                                 const struct copse_binding *parts, uint64_t count,
                                 struct copse_command *out)
{
    const struct copse_params_square_sum p = { .n = (uint32_t)count };
    const struct request r = {
        .dev = dev, .bindings = { *gradients, *parts }, .binding_count = 2, .count = count
    };
    return dispatch_blocks(&r, COPSE_KERNEL_square_sum, &p, out);
}

copse_status copse__rule_measure_trust(const struct copse_rule *rule, copse_device *dev,
                                       const struct copse_binding *values,
                                       const struct copse_binding *gradients,
                                       const struct copse_binding *slots,
                                       const struct copse_binding *step,
                                       const struct copse_binding parts[2], uint64_t count,
                                       struct copse_command out[2])
{
    const struct copse_update_numbers s = numbers_of(rule, count);
    const struct copse_params_lamb_sum p = { .n = s.n,
                                             .decay = s.decay,
                                             .beta1 = s.beta1,
                                             .beta2 = s.beta2,
                                             .rest1 = s.rest1,
                                             .rest2 = s.rest2,
                                             .epsilon = s.epsilon };
    struct request r = { .rule = rule,
                         .dev = dev,
                         .bindings = { *gradients, *values, *slots, *step, parts[0] },
                         .binding_count = 5,
                         .count = count };
    r.bindings[2].size = (size_t)(COPSE_WORD_BYTES * rule->update_slots * count);
    COPSE_TRY(copse__rule_measure(dev, values, &parts[1], count, &out[1]));
    return rule->row->number == COPSE_TRUST_LAMB
               ? dispatch_blocks(&r, COPSE_KERNEL_lamb_sum, &p, &out[0])
               : copse__rule_measure(dev, gradients, &parts[0], count, &out[0]);
}

/* Norms of 0 change nothing, as in the implementations of both papers. */
float copse__rule_trust(const struct copse_rule *rule, double first, double values, float scale)
{
    const struct copse_optimizer_params *p = &rule->params;
    const bool is_lars = rule->row->number == COPSE_TRUST_LARS;
    const double divisor =
        is_lars ? fabs((double)scale) * first + (double)p->weight_decay * values : first;
    if (values == 0.0 || divisor == 0.0)
        return 1.0f;
    return (float)((is_lars ? (double)p->trust : 1.0) * values / divisor);
}

copse_status copse__rule_scale(copse_device *dev, const struct copse_binding *factors,
                               const struct copse_binding *gradients, uint64_t count,
                               struct copse_command *out)
{
    const struct request r = {
        .dev = dev, .bindings = { *factors, *gradients }, .binding_count = 2, .count = count
    };
    const struct copse_params_block_scale p = { .n = (uint32_t)count };
    return rule_dispatch(&r, COPSE_KERNEL_block_scale, (int32_t[]){ 0, 0 }, &p, out);
}

/* ---- the step ---- */

/* The weight of the new value in update `t`, from 1. The first update sets the average. */
static double average_weight(const struct copse_optimizer_params *p, double t)
{
    const double rest = 1.0 - (double)p->average;
    if (p->plain_average)
        return t > 1 ? rest : 1.0;
    return rest / (1.0 - pow((double)p->average, t));
}

void copse__rule_words(const struct copse_rule *rule, uint64_t step, float rate, uint32_t words[])
{
    const struct copse_optimizer_params *p = &rule->params;
    const double t = (double)step;
    words[COPSE_STEP_RATE] = copse__rule_bits((double)rate);
    words[COPSE_STEP_BIAS1] = copse__rule_bits(1.0 - pow((double)p->beta1, t));
    words[COPSE_STEP_BIAS2] = copse__rule_bits(1.0 - pow((double)p->beta2, t));
    words[COPSE_STEP_AVERAGE] = copse__rule_bits(average_weight(p, t));
    words[COPSE_STEP_SHRINK] = copse__rule_bits(1.0 / (1.0 + (double)rate * (double)p->l2));
    for (uint32_t k = 0; k < rule->groups.factor_count; k++) {
        const float own = (float)((double)rate * (double)rule->groups.factors[k]);
        words[COPSE_STEP_RATE + COPSE_STEP_GROUP + k] = copse__rule_bits((double)own);
        words[COPSE_STEP_SHRINK + COPSE_STEP_GROUP + k] =
            copse__rule_bits(1.0 / (1.0 + (double)own * (double)p->l2));
    }
    if (rule->row->kernel->words)
        rule->row->kernel->words(p, step, words);
}

void copse__rule_step(const struct copse_rule *rule, uint64_t step, uint32_t words[])
{
    const struct copse_optimizer_params *p = &rule->params;
    copse__rule_words(rule, step,
                      p->schedule ? p->schedule(p->schedule_user, step) : p->learning_rate, words);
}

copse_status copse__rule_step_of(const struct copse_rule *rule, const void *owner, uint64_t step,
                                 uint32_t words[])
{
    struct copse_callback here = { .name = "the schedule of an optimizer",
                                   .is_passive = true,
                                   .used = { owner } };
    copse__callback_enter(&here);
    copse__rule_step(rule, step, words);
    return copse__callback_leave(&here, COPSE_OK);
}
