/* SPDX-License-Identifier: MIT */
/* Update rules: checks settings and sets defaults, makes the dispatch of each rule, computes the words of a step. */
#include <math.h>
#include <stdio.h>

#include "core/base/callback.h"
#include "core/rule/rule.h"

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

/* Zero means off. */
static copse_status limit(const char *name, float value)
{
    return value >= 0.0f && isfinite(value) ? COPSE_OK : bad(name, value, "a finite number >= 0 is needed");
}

static copse_status check_clipping(const struct copse_optimizer_params *p)
{
    COPSE_TRY(limit("clip_value", p->clip_value));
    COPSE_TRY(limit("clip_norm", p->clip_norm));
    COPSE_TRY(limit("clip_global_norm", p->clip_global_norm));
    if ((p->clip_value > 0.0f) + (p->clip_norm > 0.0f) + (p->clip_global_norm > 0.0f) > 1)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: clip_value is %g, clip_norm is %g, clip_global_norm is %g: set "
                                              "one of them at most", (double)p->clip_value, (double)p->clip_norm,
                          (double)p->clip_global_norm);
    return COPSE_OK;
}

static copse_status check_scaling(struct copse_optimizer_params *p)
{
    if (p->loss_scale != 0.0f && !(p->loss_scale >= 1.0f && p->loss_scale <= 0x1p126f))
        return bad("loss_scale", p->loss_scale, "0, or a number from 1 to 2^126 is needed");
    if (p->loss_scale_interval > 0 && p->loss_scale == 0.0f)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: loss_scale_interval is %u and loss_scale is 0: the scale to begin "
                                              "with is needed", p->loss_scale_interval);
    if (p->loss_scale_growth != 0.0f && !(p->loss_scale_growth > 1.0f && isfinite(p->loss_scale_growth)))
        return bad("loss_scale_growth", p->loss_scale_growth, "a finite number > 1 is needed");
    if (p->loss_scale_growth == 0.0f)
        p->loss_scale_growth = 2.0f;
    return fraction("loss_scale_backoff", &p->loss_scale_backoff, 0.5f);
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
    COPSE_TRY(check_clipping(p));
    COPSE_TRY(check_scaling(p));
    out->measures = p->clip_norm > 0.0f || p->clip_global_norm > 0.0f || p->loss_scale > 0.0f;
    if (p->average != 0.0f)
        COPSE_TRY(fraction("average", &p->average, 0.0f));
    COPSE_TRY(positive("learning rate", &p->learning_rate, is_adam(out) ? 1e-3f : 1e-2f));
    COPSE_TRY(fraction("momentum", &p->momentum, 0.9f));
    COPSE_TRY(fraction("beta1", &p->beta1, 0.9f));
    COPSE_TRY(fraction("beta2", &p->beta2, 0.999f));
    COPSE_TRY(positive("epsilon", &p->epsilon, 1e-8f));
    return limit("weight decay", p->weight_decay);
}

char *copse__rule_text(const struct copse_optimizer_params *p, char text[COPSE_RULE_TEXT])
{
    snprintf(text, COPSE_RULE_TEXT,
             "optimizer %d\nlearning rate %.9g\nmomentum %.9g\nbetas %.9g %.9g\nepsilon %.9g\nweight decay %.9g\n"
             "clipping %.9g %.9g %.9g\nloss scale %.9g %u %.9g %.9g\naverage %.9g\nschedule %d\n",
             (int)p->kind, (double)p->learning_rate, (double)p->momentum, (double)p->beta1, (double)p->beta2,
             (double)p->epsilon, (double)p->weight_decay, (double)p->clip_value, (double)p->clip_norm,
             (double)p->clip_global_norm, (double)p->loss_scale, p->loss_scale_interval, (double)p->loss_scale_growth,
             (double)p->loss_scale_backoff, (double)p->average, p->schedule != NULL);
    return text;
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

/* The first two entries of `spec`, COPSE_RULE_PER and RUNS, are not yet set. */
static copse_status dispatch(const struct request *r, enum copse_kernel_id id, int32_t *spec,
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

copse_status copse__rule_measure(copse_device *dev, const struct copse_binding *gradients,
                                 const struct copse_binding *parts, uint64_t count, struct copse_command *out)
{
    const struct copse_params_square_sum p = { .n = (uint32_t)count };
    const struct copse_binding both[] = { *gradients, *parts };
    const int32_t none[COPSE_MAX_SPECS] = { 0 };
    struct copse_kernel *k;
    if (count > UINT32_MAX - COPSE_RULE_BLOCK)
        return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: %llu elements in one range", (unsigned long long)count);
    COPSE_TRY(copse__kernel_get(dev, COPSE_KERNEL_square_sum, none, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * COPSE_RULE_BLOCK;
    return copse__dispatch_init(out, k, both, 2, &p, (count + each - 1) / each, 0);
}

copse_status copse__rule_scale(copse_device *dev, const struct copse_binding *factors,
                               const struct copse_binding *gradients, uint64_t count, struct copse_command *out)
{
    const struct request r = { .dev = dev, .bindings = { *factors, *gradients }, .binding_count = 2, .count = count };
    const struct copse_params_block_scale p = { .n = (uint32_t)count };
    return dispatch(&r, COPSE_KERNEL_block_scale, (int32_t[]){ 0, 0 }, &p, out);
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
