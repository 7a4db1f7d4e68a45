/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of update rules: see struct copse_limit. The sum of the magnitudes of the
   terms of each result, from words or their magnitudes. Divisors are the least ones: a gradient may
   cancel with the weight decay. */
#include "core/rule/rule_sizes.h"

#include <math.h>

#include "core/graph/op.h"
#include "core/rule/eight_bit.h"
#include "core/rule/rule.h"

/* ---- Adam ---- */

void copse__adam_size(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adam *p = params;
    const float *step = args[3].data, *grad = args[0].data;
    float *value = args[1].data, *mean = args[2].data, *square = mean + p->n;
    const double rate = (double)step[COPSE_STEP_RATE + p->group],
                 scale = (double)step[COPSE_STEP_SCALE];
    const double root = sqrt((double)step[COPSE_STEP_BIAS2]);
    const double pace = rate * root / (double)step[COPSE_STEP_BIAS1];
    for (size_t i = 0; i < p->n; i++) {
        const double x = fabs((double)value[i]), decay = (double)p->decay * x;
        const double g = fabs(scale * (double)grad[i]) + (spec[2] == 1 ? decay : 0.0);
        const double m = (double)p->beta1 * fabs((double)mean[i]) + (double)p->rest1 * g;
        const double v = (double)p->beta2 * (double)square[i] + (double)p->rest2 * g * g;
        const double least = (double)p->beta2 * (double)square[i]; /* g may cancel with the decay */
        mean[i] = (float)m;
        square[i] = (float)v;
        value[i] = (float)(pace * m / (sqrt(spec[2] == 1 ? least : v) + (double)p->epsilon * root) +
                           (spec[2] == 2 ? rate * decay : 0.0));
    }
}

/* ---- the rules of kernel `adaptive` ---- */

struct sizes {
    const struct copse_params_adaptive *p;
    double rate, pace, slow, quick, root, ahead_gradient, ahead_mean;
    bool is_centred, has_momentum, is_in_root;
};

/* Magnitudes of an element: the gradient, what is left of it at least, the value. Returns the basis
   of the value; `s`, of the slots, get theirs. */
struct element {
    double g, least_g, x;
};
typedef double size_fn(const struct sizes *c, const struct element *e, float *const s[3]);

static double rule_sizes_grow(float *s, double beta, double rest, double term)
{
    const double sum = beta * fabs((double)*s) + rest * term;
    *s = (float)sum;
    return sum;
}

static double size_adagrad(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double least = (double)*s[0] + e->least_g * e->least_g;
    rule_sizes_grow(s[0], 1, 1, e->g * e->g);
    return c->rate * e->g / (sqrt(least) + (double)c->p->epsilon);
}

/* The mean of squares at least, where `s` becomes its basis. */
static double least_square(const struct sizes *c, const struct element *e, float *s)
{
    const double least =
        (double)c->p->beta2 * (double)*s + (double)c->p->rest2 * e->least_g * e->least_g;
    rule_sizes_grow(s, (double)c->p->beta2, (double)c->p->rest2, e->g * e->g);
    return least;
}

static double size_adadelta(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double epsilon = (double)c->p->epsilon, least = least_square(c, e, s[0]);
    const double change = sqrt((double)*s[1] + epsilon) / sqrt(least + epsilon) * e->g;
    rule_sizes_grow(s[1], (double)c->p->beta2, (double)c->p->rest2, change * change);
    return c->rate * change;
}

/* The variance is a difference: errors of its terms grow by their share in it. */
static double size_rmsprop(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double epsilon = (double)c->p->epsilon;
    double least = least_square(c, e, s[0]), share = 1.0;
    if (c->is_centred) {
        const double m = rule_sizes_grow(s[1], (double)c->p->beta2, (double)c->p->rest2, e->g);
        const double terms = (double)*s[0] + m * m;
        least -= m * m;
        if (!(least > 0x1p-20 * terms)) /* the root of almost nothing */
            least = 0x1p-20 * terms;
        const double under_root = least + (c->is_in_root ? epsilon : 0.0);
        share += under_root > 0.0 ? terms / under_root : 0.0;
    }
    const double u = share * e->g / (c->is_in_root ? sqrt(least + epsilon) : sqrt(least) + epsilon);
    float *buffer = s[c->is_centred ? 2 : 1];
    return c->rate * (c->has_momentum ? rule_sizes_grow(buffer, (double)c->p->momentum, 1, u) : u);
}

static double size_amsgrad(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double m = rule_sizes_grow(s[0], (double)c->p->beta1, (double)c->p->rest1, e->g);
    const double least = fmax(least_square(c, e, s[1]), (double)*s[2]);
    *s[2] = fmaxf(*s[1], *s[2]);
    return c->pace * m / (sqrt(least) + (double)c->p->epsilon * c->root);
}

static double size_adamax(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double m = rule_sizes_grow(s[0], (double)c->p->beta1, (double)c->p->rest1, e->g);
    const double kept = (double)c->p->beta2 * (double)*s[1], epsilon = (double)c->p->epsilon;
    *s[1] = (float)fmax(kept, e->g + epsilon);
    return c->slow * m / fmax(kept, e->least_g + epsilon);
}

static double size_nadam(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double m = rule_sizes_grow(s[0], (double)c->p->beta1, (double)c->p->rest1, e->g),
                 least = least_square(c, e, s[1]);
    return c->quick * (c->ahead_gradient * e->g + c->ahead_mean * m) /
           (sqrt(least) + (double)c->p->epsilon * c->root);
}

/* The sign has no error: products and a sum that all devices round alike. */
static double size_lion(const struct sizes *c, const struct element *e, float *const s[3])
{
    rule_sizes_grow(s[0], (double)c->p->beta2, (double)c->p->rest2, e->g);
    return c->rate;
}

static double size_ftrl(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double before = (double)*s[0], deviation = sqrt(before + e->least_g * e->least_g);
    const double sigma = e->g * e->g / (deviation + sqrt(before)) / c->rate;
    rule_sizes_grow(s[0], 1, 1, e->g * e->g);
    const double linear = rule_sizes_grow(s[1], 1, 1, e->g + sigma * e->x);
    return (linear + (double)c->p->l1) / (deviation / c->rate + 2 * (double)c->p->l2);
}

static double size_proximal(const struct sizes *c, const struct element *e, float *const s[3])
{
    const double r = c->rate / sqrt((double)*s[0] + e->least_g * e->least_g);
    rule_sizes_grow(s[0], 1, 1, e->g * e->g);
    return e->x + r * (e->g + (double)c->p->l1);
}

/* By RULE of the kernel. */
static size_fn *const size_fns[] = { size_adagrad, size_adadelta, size_rmsprop,
                                     size_amsgrad, size_adamax,   size_nadam,
                                     size_lion,    size_ftrl,     size_proximal };

void copse__adaptive_size(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_adaptive *p = params;
    const float *step = args[3].data, *grad = args[0].data;
    float *value = args[1].data, *slots = args[2].data;
    const double rate = (double)step[COPSE_STEP_RATE + p->group],
                 root = sqrt((double)step[COPSE_STEP_BIAS2]);
    const struct sizes c = {
        .p = p,
        .rate = rate,
        .root = root,
        .quick = rate * root,
        .pace = rate * root / (double)step[COPSE_STEP_BIAS1],
        .slow = rate / (double)step[COPSE_STEP_BIAS1],
        .ahead_gradient = (double)step[COPSE_STEP_NESTEROV_GRADIENT],
        .ahead_mean = (double)step[COPSE_STEP_NESTEROV_MEAN],
        .is_centred = (spec[4] & 1) != 0,
        .has_momentum = spec[5] != 0,
        .is_in_root = (spec[4] & 2) != 0,
    };
    const size_t n = p->n, count = args[2].count / COPSE_MAX(n, 1);
    for (size_t i = 0; i < n; i++) {
        float *const s[3] = { slots + i, slots + (count > 1 ? n : 0) + i,
                              slots + (count > 2 ? 2 * n : 0) + i };
        const double x = fabs((double)value[i]),
                     g = fabs((double)step[COPSE_STEP_SCALE] * (double)grad[i]);
        const struct element e = { g + (spec[3] == 1 ? (double)p->decay * x : 0.0),
                                   spec[3] == 1 ? 0.0 : g, x };
        value[i] = (float)(size_fns[spec[2]](&c, &e, s) +
                           (spec[3] == 2 ? rate * (double)p->decay * x : 0.0));
    }
}

/* ---- rules that trust ---- */

/* Of the update of LAMB, for an element; its slots get their bases. */
static double size_lamb(double pace, double epsilon, double decay, const double beta[2],
                        const double rest[2], double g, double x, float *mean, float *square)
{
    const double m = rule_sizes_grow(mean, beta[0], rest[0], g);
    const double v = rule_sizes_grow(square, beta[1], rest[1], g * g);
    return pace * m / (sqrt(v) + epsilon) + decay * x;
}

void copse__trust_size(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_trust *p = params;
    const float *step = args[4].data, *factors = args[0].data, *grad = args[1].data;
    float *value = args[2].data, *slots = args[3].data;
    const double rate = (double)step[COPSE_STEP_RATE + p->group],
                 root = sqrt((double)step[COPSE_STEP_BIAS2]);
    const double pace = root / (double)step[COPSE_STEP_BIAS1], epsilon = (double)p->epsilon * root,
                 decay = (double)p->decay;
    const double beta[] = { (double)p->beta1, (double)p->beta2 },
                 rest[] = { (double)p->rest1, (double)p->rest2 };
    for (size_t i = 0; i < p->n; i++) {
        const double own = rate * fabs((double)factors[i / COPSE_RULE_BLOCK]),
                     x = fabs((double)value[i]);
        const double g = fabs((double)step[COPSE_STEP_SCALE] * (double)grad[i]);
        value[i] = (float)(spec[2] == COPSE_TRUST_LARS
                               ? rule_sizes_grow(&slots[i], (double)p->momentum, own, g + decay * x)
                               : own * size_lamb(pace, epsilon, decay, beta, rest, g, x, &slots[i],
                                                 &slots[p->n + i]));
    }
}

void copse__lamb_sum_size(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_lamb_sum *p = params;
    const float *step = args[3].data, *grad = args[0].data, *value = args[1].data,
                *slots = args[2].data;
    const double root = sqrt((double)step[COPSE_STEP_BIAS2]),
                 pace = root / (double)step[COPSE_STEP_BIAS1];
    const double beta[] = { (double)p->beta1, (double)p->beta2 },
                 rest[] = { (double)p->rest1, (double)p->rest2 };
    float *parts = args[4].data;
    (void)spec;
    for (size_t first = 0; first < p->n; first += COPSE_RULE_BLOCK, parts += 2) {
        double sum = 0.0;
        for (size_t i = first; i < COPSE_MIN(first + COPSE_RULE_BLOCK, p->n); i++) {
            float m = slots[i], v = slots[p->n + i];
            const double u = size_lamb(pace, (double)p->epsilon * root, (double)p->decay, beta,
                                       rest, fabs((double)step[COPSE_STEP_SCALE] * (double)grad[i]),
                                       fabs((double)value[i]), &m, &v);
            sum += u * u;
        }
        parts[0] = (float)sum;
        parts[1] = 1.0f;
    }
}

/* Words of the slots have no tolerance. */
void copse__adam8_size(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adam8 *p = params;
    const float *step = args[3].data, *grad = args[0].data;
    const size_t words = ((size_t)p->n + 3) / 4,
                 blocks = ((size_t)p->n + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
    const uint32_t *means = args[2].data, *squares = means + words + blocks;
    const float *mean_scales = (const float *)(const void *)(means + words);
    const float *square_scales = (const float *)(const void *)(squares + words);
    const double rate = (double)step[COPSE_STEP_RATE + p->group],
                 root = sqrt((double)step[COPSE_STEP_BIAS2]);
    const double pace = rate * root / (double)step[COPSE_STEP_BIAS1],
                 epsilon = (double)p->epsilon * root;
    float *value = args[1].data;
    for (size_t i = 0; i < p->n; i++) {
        const double x = fabs((double)value[i]), decay = (double)p->decay * x;
        const double g =
            fabs((double)step[COPSE_STEP_SCALE] * (double)grad[i]) + (spec[0] == 1 ? decay : 0.0);
        const double m = fabs(
            (double)copse__code_mean(copse__code_at(means, i), mean_scales[i / COPSE_RULE_BLOCK]));
        const double least =
            (double)p->beta2 * (double)copse__code_square(copse__code_at(squares, i),
                                                          square_scales[i / COPSE_RULE_BLOCK]);
        /* g may cancel with the decay */
        const double v = least + (spec[0] == 1 ? 0.0 : (double)p->rest2 * g * g);
        value[i] =
            (float)(pace * ((double)p->beta1 * m + (double)p->rest1 * g) / (sqrt(v) + epsilon) +
                    (spec[0] == 2 ? rate * decay : 0.0));
    }
}
