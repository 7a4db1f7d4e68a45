/* SPDX-License-Identifier: MIT */
/* Update rules: checks settings and sets defaults, makes the dispatch of each rule, computes the words of a step. */
#include <math.h>

#include "core/base/callback.h"
#include "core/rule/rule.h"

#define PER 32 /* elements per invocation: a group of 64 then takes about 10 us on a CPU */

/* ---- settings ---- */

static copse_status bad(const char *name, float value, const char *expected)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %s is %g: %s", name, (double)value, expected);
}

/* Zero means the default. */
static copse_status positive(const char *name, float *value, float fallback)
{
    if (*value == 0.0f)
        *value = fallback;
    return *value > 0.0f && isfinite(*value) ? COPSE_OK
                                             : bad(name, *value, "a finite number > 0 is needed");
}

static copse_status fraction(const char *name, float *value, float fallback)
{
    if (*value == 0.0f)
        *value = fallback;
    return *value > 0.0f && *value < 1.0f ? COPSE_OK
                                          : bad(name, *value, "a number between 0 and 1 is needed");
}

static bool is_adam(const struct copse_rule *rule)
{
    return rule->params.kind == COPSE_ADAM || rule->params.kind == COPSE_ADAMW;
}

copse_status copse__rule_init(const struct copse_optimizer_params *params, struct copse_rule *out)
{
    *out = (struct copse_rule){ .slots = 0 };
    if (params)
        out->params = *params;
    struct copse_optimizer_params *p = &out->params;
    switch (p->kind) {
    case COPSE_ADAM:
    case COPSE_ADAMW:
        out->slots = 2;
        out->slot_names[0] = "m";
        out->slot_names[1] = "v";
        break;
    case COPSE_MOMENTUM:
    case COPSE_NESTEROV:
        out->slots = 1;
        out->slot_names[0] = "v";
        break;
    case COPSE_SGD:
        break;
    default:
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: there is no kind %d", (int)p->kind);
    }
    out->update_slots = out->slots;
    if (p->average != 0.0f)
        out->slot_names[out->slots++] = "average";
    if (!(p->clip_value >= 0.0f) || !isfinite(p->clip_value))
        return bad("clip_value", p->clip_value, "a finite number >= 0 is needed");
    if (p->average != 0.0f)
        COPSE_TRY(fraction("average", &p->average, 0.0f));
    COPSE_TRY(positive("learning rate", &p->learning_rate, is_adam(out) ? 1e-3f : 1e-2f));
    COPSE_TRY(fraction("momentum", &p->momentum, 0.9f));
    COPSE_TRY(fraction("beta1", &p->beta1, 0.9f));
    COPSE_TRY(fraction("beta2", &p->beta2, 0.999f));
    COPSE_TRY(positive("epsilon", &p->epsilon, 1e-8f));
    if (!(p->weight_decay >= 0.0f) || !isfinite(p->weight_decay))
        return bad("weight decay", p->weight_decay, "a finite number >= 0 is needed");
    return COPSE_OK;
}

const char *copse__rule_name(const struct copse_rule *rule)
{
    static const char *const names[] = {
        [COPSE_ADAM] = "adam",         [COPSE_ADAMW] = "adamw",       [COPSE_SGD] = "sgd",
        [COPSE_MOMENTUM] = "momentum", [COPSE_NESTEROV] = "nesterov",
    };
    return names[rule->params.kind];
}

/* ---- commands ---- */

struct request {
    const struct copse_rule *rule;
    copse_device *dev;
    struct copse_binding bindings[4]; /* gradients, values, then slots and step */
    uint32_t binding_count;
    uint64_t count;
};

/* The first two entries of `spec`, PER and RUNS, are not yet set. */
static copse_status dispatch(const struct request *r, enum copse_kernel_id id, int32_t *spec,
                             const void *params, struct copse_command *out)
{
    struct copse_kernel *k;
    spec[0] = PER;
    spec[1] = r->dev->limits->has_wide_vectors;
    COPSE_TRY(copse__kernel_get(r->dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * PER;
    return copse__dispatch_init(out, k, r->bindings, r->binding_count, params,
                                (r->count + each - 1) / each, 0);
}

static copse_status sgd(const struct request *r, struct copse_command *out)
{
    const struct copse_optimizer_params *s = &r->rule->params;
    const struct copse_params_sgd p = { .n = (uint32_t)r->count, .decay = s->weight_decay };
    return dispatch(r, COPSE_KERNEL_sgd, (int32_t[]){ 0, 0, s->weight_decay > 0.0f }, &p, out);
}

static copse_status momentum(const struct request *r, struct copse_command *out)
{
    const struct copse_optimizer_params *s = &r->rule->params;
    const struct copse_params_momentum p = { .n = (uint32_t)r->count,
                                             .decay = s->weight_decay,
                                             .momentum = s->momentum };
    int32_t spec[] = { 0, 0, s->weight_decay > 0.0f, s->kind == COPSE_NESTEROV };
    return dispatch(r, COPSE_KERNEL_momentum, spec, &p, out);
}

static copse_status adam(const struct request *r, struct copse_command *out)
{
    const struct copse_optimizer_params *s = &r->rule->params;
    const struct copse_params_adam p = { .n = (uint32_t)r->count,
                                         .decay = s->weight_decay,
                                         .beta1 = s->beta1,
                                         .beta2 = s->beta2,
                                         .rest1 = (float)(1.0 - (double)s->beta1),
                                         .rest2 = (float)(1.0 - (double)s->beta2),
                                         .epsilon = s->epsilon };
    const int32_t decay = s->weight_decay == 0.0f ? 0 : s->kind == COPSE_ADAM ? 1 : 2;
    return dispatch(r, COPSE_KERNEL_adam, (int32_t[]){ 0, 0, decay }, &p, out);
}

copse_status copse__rule_command(const struct copse_rule *rule, copse_device *dev,
                                 const struct copse_binding *values,
                                 const struct copse_binding *gradients,
                                 const struct copse_binding *slots,
                                 const struct copse_binding *step, uint64_t count,
                                 struct copse_command *out)
{
    struct request r = { .rule = rule,
                         .dev = dev,
                         .bindings = { *gradients, *values },
                         .binding_count = 2,
                         .count = count };
    if (count > UINT32_MAX / 3)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %llu elements in one range",
                          (unsigned long long)count);
    if (rule->update_slots > 0) {
        r.bindings[r.binding_count] = *slots;
        r.bindings[r.binding_count++].size = (size_t)(4 * rule->update_slots * count);
    }
    r.bindings[r.binding_count++] = *step;
    return is_adam(rule) ? adam(&r, out) : rule->update_slots > 0 ? momentum(&r, out) : sgd(&r, out);
}

copse_status copse__rule_average(const struct copse_rule *rule, copse_device *dev, const struct copse_binding *values,
                                 const struct copse_binding *slots, const struct copse_binding *step,
                                 uint64_t count, struct copse_command *out)
{
    const struct request r = { .rule = rule, .dev = dev, .bindings = { *values, *slots, *step },
                               .binding_count = 3, .count = count };
    const struct copse_params_average p = { .n = (uint32_t)count, .at = (uint32_t)(rule->update_slots * count) };
    return dispatch(&r, COPSE_KERNEL_average, (int32_t[]){ 0, 0 }, &p, out);
}

copse_status copse__rule_clip(const struct copse_rule *rule, copse_device *dev,
                              const struct copse_binding *gradients, const struct copse_binding *step,
                              uint64_t count, struct copse_command *out)
{
    const struct request r = { .rule = rule, .dev = dev, .bindings = { *step, *gradients }, .binding_count = 2,
                               .count = count };
    const struct copse_params_clip p = { .n = (uint32_t)count, .limit = rule->params.clip_value };
    return dispatch(&r, COPSE_KERNEL_clip, (int32_t[]){ 0, 0 }, &p, out);
}

/* ---- the step ---- */

static uint32_t bits(double value)
{
    const float f = (float)value;
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

void copse__rule_step(const struct copse_rule *rule, uint64_t step, uint32_t words[])
{
    const struct copse_optimizer_params *p = &rule->params;
    const double t = (double)step;
    words[COPSE_STEP_RATE] =
        bits((double)(p->schedule ? p->schedule(p->schedule_user, step) : p->learning_rate));
    words[COPSE_STEP_BIAS1] = bits(1.0 - pow((double)p->beta1, t));
    words[COPSE_STEP_BIAS2] = bits(1.0 - pow((double)p->beta2, t));
    words[COPSE_STEP_AVERAGE] = bits((1.0 - (double)p->average) / (1.0 - pow((double)p->average, t)));
}

copse_status copse__rule_step_of(const struct copse_rule *rule, const void *owner, uint64_t step, uint32_t words[])
{
    struct copse_callback here = { .name = "the schedule of an optimizer", .is_passive = true, .used = { owner } };
    copse__callback_enter(&here);
    copse__rule_step(rule, step, words);
    return copse__callback_leave(&here, COPSE_OK);
}
