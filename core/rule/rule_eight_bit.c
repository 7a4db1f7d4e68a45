/* SPDX-License-Identifier: MIT */
/* Host function and self-test of kernel `adam8`: the operations of the kernel in single
   precision. */
#include <float.h>

#include "core/rule/eight_bit.h"
#include "core/rule/host.h"
#include "core/rule/rule.h"
#include "core/rule/rule_self_tests.h"
#include "core/rule/rule_sizes.h"

/* What the elements of a launch share. */
struct shared {
    const struct copse_params_adam8 *p;
    float rate, scale, pace, epsilon, decay;
    int32_t how;
};

/* Where the slots of a range are: see the kernel. */
struct places {
    uint32_t *means, *squares;
    float *mean_scales, *square_scales;
};

static struct places places_of(uint32_t *slots, size_t n)
{
    const size_t words = (n + 3) / 4, blocks = (n + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
    uint32_t *second = slots + words + blocks;
    return (struct places){ slots, second, (float *)(void *)(slots + words),
                            (float *)(void *)(second + words) };
}

/* Elements [first, first + count), a block. */
static void update_block(const struct shared *c, const struct places *s, const float *grad,
                         float *value, size_t first, size_t count)
{
    float means[COPSE_RULE_BLOCK], squares[COPSE_RULE_BLOCK];
    float *mean_scale = &s->mean_scales[first / COPSE_RULE_BLOCK],
          *square_scale = &s->square_scales[first / COPSE_RULE_BLOCK];
    for (size_t k = 0; k < count; k++) {
        const size_t i = first + k;
        float m = copse__code_mean(copse__code_at(s->means, i), *mean_scale);
        float v = copse__rule_settled(
            copse__code_square(copse__code_at(s->squares, i), *square_scale), 1e-36f);
        float g = c->scale * grad[i];
        if (c->how == 1)
            g = g + c->p->decay * value[i];
        const float term = copse__rule_settled(c->p->rest2 * g * g, 1e-37f);
        m = copse__rule_settled(c->p->beta1 * m + c->p->rest1 * g, 1e-30f);
        v = copse__rule_settled(c->p->beta2 * v + term, 1e-36f);
        float d = c->pace * m / (sqrtf(v) + c->epsilon);
        if (c->how == 2)
            d = d + c->decay * value[i];
        value[i] = value[i] - d;
        means[k] = m;
        squares[k] = isnan(v) ? 0.0f : v > FLT_MAX ? FLT_MAX : v;
    }
    *mean_scale = copse__code_means(means, count, s->means + first / 4);
    *square_scale = copse__code_squares(squares, count, s->squares + first / 4);
}

static void adam8_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_adam8 *p = params;
    const float rate = copse__rule_word(&args[3], COPSE_STEP_RATE + p->group);
    const float root = sqrtf(copse__rule_word(&args[3], COPSE_STEP_BIAS2));
    const struct shared c = {
        .p = p,
        .rate = rate,
        .scale = copse__rule_word(&args[3], COPSE_STEP_SCALE),
        .pace = rate * root / copse__rule_word(&args[3], COPSE_STEP_BIAS1),
        .epsilon = p->epsilon * root,
        .decay = rate * p->decay,
        .how = spec[0],
    };
    const struct places s = places_of(args[2].data, p->n);
    for (size_t i = 0; i < p->n; i += COPSE_RULE_BLOCK)
        update_block(&c, &s, args[0].data, args[1].data, i,
                     COPSE_MIN(p->n - i, (size_t)COPSE_RULE_BLOCK));
}

/* ---- what the kernel takes ---- */

static void adam8_take(const struct copse_update_numbers *s, void *params, int32_t *spec)
{
    *(struct copse_params_adam8 *)params = (struct copse_params_adam8){ .n = s->n,
                                                                        .decay = s->decay,
                                                                        .beta1 = s->beta1,
                                                                        .beta2 = s->beta2,
                                                                        .rest1 = s->rest1,
                                                                        .rest2 = s->rest2,
                                                                        .epsilon = s->epsilon,
                                                                        .group = s->group };
    spec[0] = (int32_t)s->apply;
}
const struct copse_rule_kernel copse_rule_kernel_adam8 = { .id = COPSE_KERNEL_adam8,
                                                           .take = adam8_take,
                                                           .is_coded = true };

/* ---- laws ---- */

/* It does not split: its slots are of several kinds. */
const struct copse_law copse_law_adam8 = {
    .host = adam8_host,
    .limit = { .ulp = 1, .ratio = 8, .size = copse__adam8_size, .is_single = true },
    .self_test = copse__adam8_test,
};
