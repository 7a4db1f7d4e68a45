/* SPDX-License-Identifier: MIT */
/* Host functions of the update kernels: the operations of the kernels in single precision, so that
   a replica on the host has the same values as the devices. They are never nodes of a graph:
   arguments are float. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/rule/host.h"
#include "core/rule/rule.h"
#include "core/rule/rule_self_tests.h"
#include "core/rule/rule_sizes.h"

static void sgd_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_sgd *p = params;
    const float rate = copse__rule_word(&args[2], COPSE_STEP_RATE + p->group),
                scale = copse__rule_word(&args[2], COPSE_STEP_SCALE);
    const float *grad = args[0].data;
    float *value = args[1].data;
    for (size_t i = 0; i < p->n; i++) {
        float g = scale * grad[i];
        if (spec[2])
            g = g + p->decay * value[i];
        float x = value[i] - rate * g;
        if (spec[3])
            x = copse__rule_shrunk(x, rate * p->l1) *
                copse__rule_word(&args[2], COPSE_STEP_SHRINK + p->group);
        value[i] = x;
    }
}

static void momentum_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_momentum *p = params;
    const float rate = copse__rule_word(&args[3], COPSE_STEP_RATE + p->group),
                scale = copse__rule_word(&args[3], COPSE_STEP_SCALE);
    const float *grad = args[0].data;
    float *value = args[1].data, *slot = args[2].data;
    for (size_t i = 0; i < p->n; i++) {
        float g = scale * grad[i];
        if (spec[2])
            g = g + p->decay * value[i];
        float v = copse__rule_settled(p->momentum * slot[i] + g, 1e-30f);
        slot[i] = v;
        if (spec[3])
            v = g + p->momentum * v;
        value[i] = value[i] - rate * v;
    }
}

static void adam_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adam *p = params;
    const float rate = copse__rule_word(&args[3], COPSE_STEP_RATE + p->group),
                scale = copse__rule_word(&args[3], COPSE_STEP_SCALE);
    const float root = sqrtf(copse__rule_word(&args[3], COPSE_STEP_BIAS2));
    const float pace = rate * root / copse__rule_word(&args[3], COPSE_STEP_BIAS1);
    const float epsilon = p->epsilon * root, decay = rate * p->decay;
    const float *grad = args[0].data;
    float *value = args[1].data, *mean = args[2].data, *square = mean + p->n;
    for (size_t i = 0; i < p->n; i++) {
        float g = scale * grad[i];
        if (spec[2] == 1)
            g = g + p->decay * value[i];
        const float m = copse__rule_settled(p->beta1 * mean[i] + p->rest1 * g, 1e-30f);
        const float v = copse__rule_settled(p->beta2 * square[i] + p->rest2 * g * g, 1e-36f);
        float d = pace * m / (sqrtf(v) + epsilon);
        if (spec[2] == 2)
            d = d + decay * value[i];
        mean[i] = m;
        square[i] = v;
        value[i] = value[i] - d;
    }
}

static void average_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_average *p = params;
    const float weight = copse__rule_word(&args[2], COPSE_STEP_AVERAGE);
    const float *value = args[0].data;
    float *mean = (float *)args[1].data + p->at;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const float change = value[i] - mean[i];
        mean[i] = mean[i] + weight * change;
    }
}

static void clip_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_clip *p = params;
    const float most = p->limit / copse__rule_word(&args[0], COPSE_STEP_SCALE);
    float *grad = args[1].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        grad[i] = grad[i] > most ? most : grad[i] < -most ? -most : grad[i];
}

static uint32_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* Of one block. */
static void sum_squares(const float *grad, size_t count, float parts[2])
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = COPSE_MAX(most, bits_of(grad[i]) & exponent);
    const uint32_t up = most == 0 || most == exponent ? 0x3f800000u : COPSE_MIN(most, 0x7e800000u);
    const float down = float_of(0x7f000000u - up);
    float sum = 0.0f;
    for (size_t k = 0; k < 4; k++) {
        float part = 0.0f;
        for (size_t i = k; i < count; i += 4) {
            const float x = ((bits_of(grad[i]) & exponent) == 0 ? 0.0f : grad[i]) * down;
            const float square = x * x;
            part = part + square;
        }
        sum = sum + part;
    }
    parts[0] = sum;
    parts[1] = float_of(up);
}

static void square_sum_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_square_sum *p = params;
    const float *grad = args[0].data;
    float *parts = args[1].data;
    (void)spec;
    copse__rule_measure_host(grad, p->n, parts);
}

void copse__rule_measure_host(const float *gradients, uint64_t count, float *parts)
{
    for (uint64_t i = 0; i < count; i += COPSE_RULE_BLOCK)
        sum_squares(gradients + i, (size_t)COPSE_MIN(count - i, COPSE_RULE_BLOCK),
                    parts + 2 * (i / COPSE_RULE_BLOCK));
}

static void block_scale_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_block_scale *p = params;
    const float *factors = args[0].data;
    float *grad = args[1].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        grad[i] = grad[i] * factors[i / COPSE_RULE_BLOCK];
}

/* ---- what the kernels take ---- */

static void sgd_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_sgd *)params =
        (struct copse_params_sgd){ .n = s->n, .decay = s->decay, .l1 = s->l1, .group = s->group };
    spec[0] = s->apply != COPSE_DECAY_NONE;
    spec[1] = s->number;
}
const struct copse_rule_kernel copse_rule_kernel_sgd = { .id = COPSE_KERNEL_sgd, .take = sgd_take };

static void momentum_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_momentum *)params = (struct copse_params_momentum){
        .n = s->n, .decay = s->decay, .momentum = s->momentum, .group = s->group
    };
    spec[0] = s->apply != COPSE_DECAY_NONE;
    spec[1] = s->number;
}
const struct copse_rule_kernel copse_rule_kernel_momentum = { .id = COPSE_KERNEL_momentum,
                                                              .take = momentum_take };

static void adam_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_adam *)params = (struct copse_params_adam){ .n = s->n,
                                                                      .decay = s->decay,
                                                                      .beta1 = s->beta1,
                                                                      .beta2 = s->beta2,
                                                                      .rest1 = s->rest1,
                                                                      .rest2 = s->rest2,
                                                                      .epsilon = s->epsilon,
                                                                      .group = s->group };
    spec[0] = (int32_t)s->apply;
}
const struct copse_rule_kernel copse_rule_kernel_adam = { .id = COPSE_KERNEL_adam,
                                                          .take = adam_take };

/* ---- laws ---- */

static bool sgd_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, 1, 1, 0);
}

static bool momentum_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, 1, 1, 1, 0);
}

static bool adam_split(const struct copse_command *c, struct copse_split *o)
{
    const uint64_t n = o->params[0];
    COPSE_SPLIT_EACH(o, 1, 1, 1, 1, 0);
    copse__split_pieces(o, 2, n > 0 ? copse__split_size(c, 2) / n : 0, n, 1); /* the slots */
    return true;
}

static bool average_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    struct copse_params_average *p = COPSE_SPLIT_PARAMS(average, o);
    COPSE_SPLIT_EACH(o, 1, 1, 1, 0);
    o->buffers[1].first = p->at;
    p->at = 0;
    return true;
}

static bool clip_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, 0, 1);
}

static bool square_sum_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, COPSE_RULE_BLOCK, COPSE_RULE_BLOCK, 2);
}

static bool block_scale_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, COPSE_RULE_BLOCK, 1, COPSE_RULE_BLOCK);
}

const struct copse_law copse_law_sgd = {
    .host = sgd_host,
    .split = sgd_split,
    .self_test = copse__sgd_test,
};
const struct copse_law copse_law_momentum = {
    .host = momentum_host,
    .split = momentum_split,
    .self_test = copse__momentum_test,
};
/* The limit of one step: 8 half-ULPs of the change and the rounding of the result. The host's own
   errors are in it. */
const struct copse_law copse_law_adam = {
    .host = adam_host,
    .split = adam_split,
    .limit = { .ulp = 1, .ratio = 8, .size = copse__adam_size, .is_single = true },
    .self_test = copse__adam_test,
};
const struct copse_law copse_law_average = {
    .host = average_host,
    .split = average_split,
    .self_test = copse__average_test,
};
const struct copse_law copse_law_clip = {
    .host = clip_host,
    .split = clip_split,
    .self_test = copse__clip_test,
};
const struct copse_law copse_law_square_sum = {
    .host = square_sum_host,
    .split = square_sum_split,
    .self_test = copse__square_sum_test,
};
const struct copse_law copse_law_block_scale = {
    .host = block_scale_host,
    .split = block_scale_split,
    .self_test = copse__block_scale_test,
};
