/* SPDX-License-Identifier: MIT */
/* Host functions of kernels `trust` and `lamb_sum`: the operations of the kernels in single
   precision. */
#include "core/device/kernel/launch_split.h"
#include "core/rule/host.h"
#include "core/rule/rule.h"
#include "core/rule/rule_self_tests.h"
#include "core/rule/rule_sizes.h"

static void rule_trust_lars(const struct copse_params_trust *p, float rate, float scale,
                            const struct copse_host_arg *args)
{
    const float *factors = args[0].data, *grad = args[1].data;
    float *value = args[2].data, *slot = args[3].data;
    for (size_t i = 0; i < p->n; i++) {
        const float g = scale * grad[i], own = rate * factors[i / COPSE_RULE_BLOCK];
        const float v =
            copse__rule_settled(p->momentum * slot[i] + own * (g + p->decay * value[i]), 1e-30f);
        slot[i] = v;
        value[i] = value[i] - v;
    }
}

/* What the elements of a launch of LAMB share. */
struct shared {
    float scale, pace, epsilon, decay, beta1, beta2, rest1, rest2;
};

/* The update of an element of value x and gradient `grad`; *m and *v are its slots. */
static float lamb_update(const struct shared *c, float grad, float x, float *m, float *v)
{
    const float g = c->scale * grad;
    *m = copse__rule_settled(c->beta1 * *m + c->rest1 * g, 1e-30f);
    *v = copse__rule_settled(c->beta2 * *v + c->rest2 * g * g, 1e-36f);
    return c->pace * *m / (sqrtf(*v) + c->epsilon) + c->decay * x;
}

static void rule_trust_lamb(const struct copse_params_trust *p, float rate, const struct shared *c,
                            const struct copse_host_arg *args)
{
    const float *factors = args[0].data, *grad = args[1].data;
    float *value = args[2].data, *mean = args[3].data, *square = mean + p->n;
    for (size_t i = 0; i < p->n; i++) {
        const float own = rate * factors[i / COPSE_RULE_BLOCK];
        value[i] = value[i] - own * lamb_update(c, grad[i], value[i], &mean[i], &square[i]);
    }
}

static void trust_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_trust *p = params;
    const struct copse_host_arg *step = &args[4];
    const float rate = copse__rule_word(step, COPSE_STEP_RATE + p->group);
    const float root = sqrtf(copse__rule_word(step, COPSE_STEP_BIAS2));
    const struct shared c = { copse__rule_word(step, COPSE_STEP_SCALE),
                              root / copse__rule_word(step, COPSE_STEP_BIAS1),
                              p->epsilon * root,
                              p->decay,
                              p->beta1,
                              p->beta2,
                              p->rest1,
                              p->rest2 };
    if (spec[2] == COPSE_TRUST_LARS)
        rule_trust_lars(p, rate, c.scale, args);
    else
        rule_trust_lamb(p, rate, &c, args);
}

static void lamb_sum_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_lamb_sum *p = params;
    const float *grad = args[0].data, *value = args[1].data, *mean = args[2].data,
                *square = mean + p->n;
    const float root = sqrtf(copse__rule_word(&args[3], COPSE_STEP_BIAS2));
    const struct shared c = { copse__rule_word(&args[3], COPSE_STEP_SCALE),
                              root / copse__rule_word(&args[3], COPSE_STEP_BIAS1),
                              p->epsilon * root,
                              p->decay,
                              p->beta1,
                              p->beta2,
                              p->rest1,
                              p->rest2 };
    float *parts = args[4].data;
    (void)spec;
    for (size_t first = 0; first < p->n; first += COPSE_RULE_BLOCK, parts += 2) {
        const size_t end = COPSE_MIN(first + COPSE_RULE_BLOCK, p->n);
        float sum = 0.0f;
        for (size_t k = 0; k < 4; k++) {
            float part = 0.0f;
            for (size_t i = first + k; i < end; i += 4) {
                float m = mean[i], v = square[i];
                const float u = lamb_update(&c, grad[i], value[i], &m, &v);
                const float term = u * u;
                part = part + term;
            }
            sum = sum + part;
        }
        parts[0] = copse__rule_settled(sum, 1e-37f);
        parts[1] = 1.0f;
    }
}

/* ---- what the kernel takes ---- */

static void trust_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_trust *)params = (struct copse_params_trust){ .n = s->n,
                                                                        .decay = s->decay,
                                                                        .momentum = s->momentum,
                                                                        .beta1 = s->beta1,
                                                                        .beta2 = s->beta2,
                                                                        .rest1 = s->rest1,
                                                                        .rest2 = s->rest2,
                                                                        .epsilon = s->epsilon,
                                                                        .group = s->group };
    spec[0] = s->number;
}
const struct copse_rule_kernel copse_rule_kernel_trust = { .id = COPSE_KERNEL_trust,
                                                           .take = trust_take,
                                                           .trusts = true };

/* ---- laws ---- */

/* Buffer `i` is slots of the elements, a unit is a block of each. The last block of a slot must be
   whole. */
static bool split_slots(const struct copse_command *c, struct copse_split *o, uint32_t i)
{
    const uint64_t n = o->params[0];
    copse__split_pieces(o, i, n > 0 ? copse__split_size(c, i) / n : 0, n, COPSE_RULE_BLOCK);
    return n % COPSE_RULE_BLOCK == 0;
}

static bool trust_split(const struct copse_command *c, struct copse_split *o)
{
    COPSE_SPLIT_EACH(o, COPSE_RULE_BLOCK, 1, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK,
                     0);
    return split_slots(c, o, 3);
}

static bool lamb_sum_split(const struct copse_command *c, struct copse_split *o)
{
    COPSE_SPLIT_EACH(o, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, 0,
                     2);
    return split_slots(c, o, 2);
}

const struct copse_law copse_law_trust = {
    .host = trust_host,
    .split = trust_split,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__trust_size, .is_single = true },
    .self_test = copse__trust_test,
};
/* Squares of updates, which have the limit of LAMB, and their sum. */
const struct copse_law copse_law_lamb_sum = {
    .host = lamb_sum_host,
    .split = lamb_sum_split,
    .limit = { .ulp = 1, .ratio = 32, .size = copse__lamb_sum_size, .is_single = true },
    .self_test = copse__lamb_sum_test,
};
