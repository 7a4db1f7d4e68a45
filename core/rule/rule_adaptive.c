/* SPDX-License-Identifier: MIT */
/* Host function and self-test of kernel `adaptive`: the operations of the kernel in single
   precision. */
#include "core/device/kernel/launch_split.h"
#include "core/rule/host.h"
#include "core/rule/rows.h"
#include "core/rule/rule_self_tests.h"
#include "core/rule/rule_sizes.h"

/* What all elements of a launch share. */
struct shared {
    const struct copse_params_adaptive *p;
    float rate, scale, pace, epsilon, slow, quick, nesterov_gradient, nesterov_mean;
    bool is_centred, has_momentum, is_in_root;
};

/* Returns the change of the value; `s` are the slots. */
typedef float change_fn(const struct shared *c, float g, float *const s[3]);

static float rule_adaptive_mean(float beta, float rest, float before, float g)
{
    return copse__rule_settled(beta * before + rest * g, 1e-30f);
}

static float mean_square(float beta, float rest, float before, float g)
{
    return copse__rule_settled(beta * before + rest * g * g, 1e-36f);
}

static float rule_adaptive_larger(float a, float b)
{
    return a > b ? a : b;
}

static float rule_adaptive_adagrad(const struct shared *c, float g, float *const s[3])
{
    *s[0] = copse__rule_settled(*s[0] + g * g, 1e-36f);
    return c->rate * g / (sqrtf(*s[0]) + c->p->epsilon);
}

static float rule_adaptive_adadelta(const struct shared *c, float g, float *const s[3])
{
    *s[0] = mean_square(c->p->beta2, c->p->rest2, *s[0], g);
    const float change = sqrtf(*s[1] + c->p->epsilon) / sqrtf(*s[0] + c->p->epsilon) * g;
    *s[1] = mean_square(c->p->beta2, c->p->rest2, *s[1], change);
    return c->rate * change;
}

static float rule_adaptive_rmsprop(const struct shared *c, float g, float *const s[3])
{
    float *buffer = s[c->is_centred ? 2 : 1];
    *s[0] = mean_square(c->p->beta2, c->p->rest2, *s[0], g);
    float w = *s[0];
    if (c->is_centred) {
        *s[1] = rule_adaptive_mean(c->p->beta2, c->p->rest2, *s[1], g);
        const float square = *s[1] * *s[1];
        w = *s[0] - square;
        w = w < 0.0f ? 0.0f : w;
    }
    const float divisor = c->is_in_root ? sqrtf(w + c->p->epsilon) : sqrtf(w) + c->p->epsilon;
    const float u = g / divisor;
    if (!c->has_momentum)
        return c->rate * u;
    *buffer = copse__rule_settled(c->p->momentum * *buffer + u, 1e-30f);
    return c->rate * *buffer;
}

static float rule_adaptive_amsgrad(const struct shared *c, float g, float *const s[3])
{
    *s[0] = rule_adaptive_mean(c->p->beta1, c->p->rest1, *s[0], g);
    *s[1] = mean_square(c->p->beta2, c->p->rest2, *s[1], g);
    *s[2] = rule_adaptive_larger(*s[2], *s[1]);
    return c->pace * *s[0] / (sqrtf(*s[2]) + c->epsilon);
}

static float rule_adaptive_adamax(const struct shared *c, float g, float *const s[3])
{
    *s[0] = rule_adaptive_mean(c->p->beta1, c->p->rest1, *s[0], g);
    *s[1] = rule_adaptive_larger(c->p->beta2 * *s[1], fabsf(g) + c->p->epsilon);
    return c->slow * *s[0] / *s[1];
}

static float rule_adaptive_nadam(const struct shared *c, float g, float *const s[3])
{
    *s[0] = rule_adaptive_mean(c->p->beta1, c->p->rest1, *s[0], g);
    *s[1] = mean_square(c->p->beta2, c->p->rest2, *s[1], g);
    const float ahead = c->nesterov_gradient * g + c->nesterov_mean * *s[0];
    return c->quick * ahead / (sqrtf(*s[1]) + c->epsilon);
}

static float rule_adaptive_lion(const struct shared *c, float g, float *const s[3])
{
    const float ahead = c->p->beta1 * *s[0] + c->p->rest1 * g;
    *s[0] = rule_adaptive_mean(c->p->beta2, c->p->rest2, *s[0], g);
    return ahead > 0.0f ? c->rate : ahead < 0.0f ? -c->rate : isnan(ahead) ? ahead : 0.0f;
}

static change_fn *const changes[] = {
    [COPSE_ADAPTIVE_ADAGRAD] = rule_adaptive_adagrad,
    [COPSE_ADAPTIVE_ADADELTA] = rule_adaptive_adadelta,
    [COPSE_ADAPTIVE_RMSPROP] = rule_adaptive_rmsprop,
    [COPSE_ADAPTIVE_AMSGRAD] = rule_adaptive_amsgrad,
    [COPSE_ADAPTIVE_ADAMAX] = rule_adaptive_adamax,
    [COPSE_ADAPTIVE_NADAM] = rule_adaptive_nadam,
    [COPSE_ADAPTIVE_LION] = rule_adaptive_lion,
};

/* Rules that return the value, whatever it was. */
static float rule_adaptive_ftrl(const struct shared *c, float g, float x, float *const s[3])
{
    const float square = g * g, before = *s[0];
    *s[0] = before + square;
    const float deviation = sqrtf(*s[0]);
    const float sigma = square / (deviation + sqrtf(before)) / c->rate;
    *s[1] = *s[1] + g - sigma * x;
    return -copse__rule_shrunk(*s[1], c->p->l1) / (deviation / c->rate + 2.0f * c->p->l2);
}

static float rule_adaptive_proximal(const struct shared *c, float g, float x, float *const s[3])
{
    *s[0] = *s[0] + g * g;
    const float r = c->rate / sqrtf(*s[0]);
    const float y = x - r * g;
    return copse__rule_shrunk(y, r * c->p->l1) / (1.0f + r * c->p->l2);
}

static void adaptive_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_adaptive *p = params;
    const float rate = copse__rule_word(&args[3], COPSE_STEP_RATE + p->group);
    const float root = sqrtf(copse__rule_word(&args[3], COPSE_STEP_BIAS2));
    const struct shared c = {
        .p = p,
        .rate = rate,
        .scale = copse__rule_word(&args[3], COPSE_STEP_SCALE),
        .pace = rate * root / copse__rule_word(&args[3], COPSE_STEP_BIAS1),
        .epsilon = p->epsilon * root,
        .slow = rate / copse__rule_word(&args[3], COPSE_STEP_BIAS1),
        .quick = rate * root,
        .nesterov_gradient = copse__rule_word(&args[3], COPSE_STEP_NESTEROV_GRADIENT),
        .nesterov_mean = copse__rule_word(&args[3], COPSE_STEP_NESTEROV_MEAN),
        .is_centred = (spec[4] & 1) != 0,
        .has_momentum = spec[5] != 0,
        .is_in_root = (spec[4] & 2) != 0,
    };
    const float decay = rate * p->decay, *grad = args[0].data;
    float *value = args[1].data, *slots = args[2].data;
    const size_t n = p->n, last = args[2].count / COPSE_MAX(n, 1);
    for (size_t i = 0; i < n; i++) {
        float *const s[3] = { slots + i, slots + (last > 1 ? n : 0) + i,
                              slots + (last > 2 ? 2 * n : 0) + i };
        float g = c.scale * grad[i], d;
        if (spec[3] == 1)
            g = g + p->decay * value[i];
        if (spec[2] == COPSE_ADAPTIVE_FTRL || spec[2] == COPSE_ADAPTIVE_PROXIMAL) {
            value[i] =
                (spec[2] == COPSE_ADAPTIVE_FTRL ? rule_adaptive_ftrl
                                                : rule_adaptive_proximal)(&c, g, value[i], s);
            continue;
        }
        d = changes[spec[2]](&c, g, s);
        if (spec[3] == 2)
            d = d + decay * value[i];
        value[i] = value[i] - d;
    }
}

/* ---- what the kernel takes ---- */

static void adaptive_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_adaptive *)params =
        (struct copse_params_adaptive){ .n = s->n,
                                        .decay = s->decay,
                                        .momentum = s->momentum,
                                        .beta1 = s->beta1,
                                        .beta2 = s->beta2,
                                        .rest1 = s->rest1,
                                        .rest2 = s->rest2,
                                        .epsilon = s->epsilon,
                                        .l1 = s->l1,
                                        .l2 = s->l2,
                                        .group = s->group };
    spec[0] = s->number;
    spec[1] = (int32_t)s->apply;
    spec[2] = s->is_centred + 2 * s->is_in_root;
    spec[3] = s->has_momentum;
}

/* mu of step t: beta1 (1 - 0.96^(t momentum_decay) / 2). */
static double nadam_momentum(const struct copse_optimizer_params *p, double t)
{
    return (double)p->beta1 * (1.0 - 0.5 * pow(0.96, t * (double)p->momentum_decay));
}

/* The product of mu over all steps until t: 0 from where it does not change 1 - product. */
static double nadam_product(const struct copse_optimizer_params *p, uint64_t step)
{
    double product = 1.0;
    for (uint64_t t = 1; t <= step && product > 0x1p-60; t++)
        product *= nadam_momentum(p, (double)t);
    return product > 0x1p-60 ? product : 0.0;
}

static void adaptive_words(const struct copse_optimizer_params *p, uint64_t step, uint32_t words[])
{
    if (p->kind != COPSE_NADAM)
        return;
    const double now = nadam_momentum(p, (double)step),
                 next = nadam_momentum(p, (double)step + 1.0);
    const double product = nadam_product(p, step);
    words[COPSE_STEP_NESTEROV_GRADIENT] = copse__rule_bits((1.0 - now) / (1.0 - product));
    words[COPSE_STEP_NESTEROV_MEAN] = copse__rule_bits(next / (1.0 - product * next));
}

const struct copse_rule_kernel copse_rule_kernel_adaptive = { .id = COPSE_KERNEL_adaptive,
                                                              .take = adaptive_take,
                                                              .words = adaptive_words };

/* ---- laws ---- */

static bool adaptive_split(const struct copse_command *c, struct copse_split *o)
{
    const uint64_t n = o->params[0];
    COPSE_SPLIT_EACH(o, 1, 1, 1, 1, 0);
    copse__split_pieces(o, 2, n > 0 ? copse__split_size(c, 2) / n : 0, n, 1); /* the slots */
    return true;
}

/* Roots and quotients of roots: twice as many roundings as in Adam. */
const struct copse_law copse_law_adaptive = {
    .host = adaptive_host,
    .split = adaptive_split,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__adaptive_size, .is_single = true },
    .self_test = copse__adaptive_test,
};
