/* SPDX-License-Identifier: MIT */
/* Kernel `adopt`: what it takes, its host function - the operations of the kernel in single
   precision -, its law and its self-test. */
#include "core/device/kernel/launch_split.h"
#include "core/rule/host.h"
#include "core/rule/rows.h"
#include "core/rule/rule_self_tests.h"

/* Words of a step: the limit of a quotient, and the weight of a square. */
enum { MOST = COPSE_STEP_NESTEROV_GRADIENT, WEIGHT = COPSE_STEP_NESTEROV_MEAN };

static void adopt_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adopt *p = params;
    const float rate = copse__rule_word(&args[3], COPSE_STEP_RATE + p->group),
                scale = copse__rule_word(&args[3], COPSE_STEP_SCALE),
                most = copse__rule_word(&args[3], MOST),
                weight = copse__rule_word(&args[3], WEIGHT);
    const float *grad = args[0].data;
    float *value = args[1].data, *mean = args[2].data, *square = mean + p->n;
    for (size_t i = 0; i < p->n; i++) {
        float g = scale * grad[i];
        if (spec[2] == COPSE_DECAY_GRADIENT)
            g = g + p->decay * value[i];
        const float root = sqrtf(square[i]);
        float q = g / (root < p->epsilon ? p->epsilon : root);
        q = q > most ? most : q < -most ? -most : q;
        mean[i] = copse__rule_settled(p->beta1 * mean[i] + p->rest1 * q, 1e-30f);
        value[i] = value[i] - rate * mean[i];
        square[i] = copse__rule_settled(p->beta2 * square[i] + weight * g * g, 1e-36f);
    }
}

/* ---- what the kernel takes ---- */

static void adopt_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_adopt *)params = (struct copse_params_adopt){ .n = s->n,
                                                                        .decay = s->decay,
                                                                        .beta1 = s->beta1,
                                                                        .beta2 = s->beta2,
                                                                        .rest1 = s->rest1,
                                                                        .epsilon = s->epsilon,
                                                                        .group = s->group };
    spec[0] = (int32_t)s->apply;
}

static void adopt_words(const struct copse_optimizer_params *p, uint64_t step, uint32_t words[])
{
    words[MOST] = copse__rule_bits(pow((double)step - 1.0, 0.25));
    words[WEIGHT] = copse__rule_bits(step == 1 ? 1.0 : 1.0 - (double)p->beta2);
}

const struct copse_rule_kernel copse_rule_kernel_adopt = {
    .id = COPSE_KERNEL_adopt,
    .take = adopt_take,
    .words = adopt_words,
};

/* ---- the law ---- */

static void adopt_size(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adopt *p = params;
    const float *step = args[3].data, *grad = args[0].data;
    float *value = args[1].data, *mean = args[2].data, *square = mean + p->n;
    const double most = fabs((double)step[MOST]);
    for (size_t i = 0; i < p->n; i++) {
        const double x = fabs((double)value[i]);
        double g = fabs((double)step[COPSE_STEP_SCALE] * (double)grad[i]);
        if (spec[2] == COPSE_DECAY_GRADIENT)
            g += (double)p->decay * x;
        double q = g / fmax(sqrt((double)square[i]), (double)p->epsilon);
        if (spec[2] != COPSE_DECAY_GRADIENT && q > most)
            q = most; /* the limit has no error; with decay the terms of g may cancel */
        const double m = (double)p->beta1 * fabs((double)mean[i]) + (double)p->rest1 * q;
        mean[i] = (float)m;
        value[i] = (float)(fabs((double)step[COPSE_STEP_RATE + p->group]) * m);
        square[i] =
            (float)((double)p->beta2 * (double)square[i] + fabs((double)step[WEIGHT]) * g * g);
    }
}

static bool adopt_split(const struct copse_command *c, struct copse_split *o)
{
    const uint64_t n = o->params[0];
    COPSE_SPLIT_EACH(o, 1, 1, 1, 1, 0);
    copse__split_pieces(o, 2, n > 0 ? copse__split_size(c, 2) / n : 0, n, 1); /* the slots */
    return true;
}

static void adopt_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_adopt p = { .n = COPSE_UPDATE_TEST_N,
                                          .decay = 0.25f,
                                          .beta1 = 0.5f,
                                          .beta2 = 0.75f,
                                          .rest1 = 0.5f,
                                          .epsilon = 1.5f };
    copse__update_test(k, t, &p, 2);
    copse__test_float(t, 3, MOST, 2.0f);
    copse__test_float(t, 3, WEIGHT, 0.25f);
    t->slack = 1e-3f; /* of roots and quotients */
}

/* As Adam. */
const struct copse_law copse_law_adopt = {
    .host = adopt_host,
    .split = adopt_split,
    .limit = { .ulp = 1, .ratio = 8, .size = adopt_size, .is_single = true },
    .self_test = adopt_test,
};
