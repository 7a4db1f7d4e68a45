/* SPDX-License-Identifier: MIT */
/* Settings are powers of two. */
#include "core/rule/rule_self_tests.h"

#include "core/graph/op.h"

#define N COPSE_UPDATE_TEST_N

void copse__test_float(struct copse_self_test *t, uint32_t buffer, uint32_t word, float value)
{
    memcpy(&t->words[buffer][word], &value, sizeof value);
}

void copse__update_test(const struct copse_kernel *k, struct copse_self_test *t, const void *params,
                        uint32_t slots)
{
    const uint64_t each = (uint64_t)k->group_x * k->group_y * (uint32_t)COPSE_MAX(k->spec[0], 1);
    const uint32_t step = k->row->arg_count - 1u;
    memcpy(t->params, params, 4u * k->row->param_words);
    t->groups = (N + each - 1) / each;
    t->counts[0] = t->counts[1] = N;
    if (slots > 0)
        t->counts[2] = slots * N;
    t->counts[step] = COPSE_STEP_WORDS;
    for (uint32_t a = 1; a < step; a++)
        for (uint32_t i = 0; i < t->counts[a]; i++)
            copse__test_float(t, a, i, (float)(1 + (i + i / 8) % 8));
    copse__test_float(t, step, COPSE_STEP_RATE, 0.5f);
    copse__test_float(t, step, COPSE_STEP_SCALE, 2.0f);
    copse__test_float(t, step, COPSE_STEP_BIAS1, 0.5f);
    copse__test_float(t, step, COPSE_STEP_BIAS2, 0.25f);
    copse__test_float(t, step, COPSE_STEP_SHRINK, 0.5f);
}

void copse__sgd_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sgd p = { .n = N, .decay = 0.25f, .l1 = 0.5f };
    copse__update_test(k, t, &p, 0);
}

void copse__momentum_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_momentum p = { .n = N, .decay = 0.25f, .momentum = 0.5f };
    copse__update_test(k, t, &p, 1);
}

/* Its roots and quotients are rounded by the device. */
void copse__adam_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_adam p = { .n = N,
                                         .decay = 0.25f,
                                         .beta1 = 0.5f,
                                         .beta2 = 0.75f,
                                         .rest1 = 0.5f,
                                         .rest2 = 0.25f,
                                         .epsilon = 0.125f };
    copse__update_test(k, t, &p, 2);
    t->slack = 1e-3f;
}

static uint64_t groups_of(const struct copse_kernel *k, uint32_t lanes)
{
    const uint64_t each = (uint64_t)k->group_x * k->group_y;
    return (lanes + each - 1) / each;
}

/* Averages follow a slot of the update. */
void copse__average_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_average p = { .n = N, .at = N };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, (N + (uint32_t)k->spec[0] - 1) / (uint32_t)COPSE_MAX(k->spec[0], 1));
    t->counts[0] = N;
    t->counts[1] = 2 * N;
    t->counts[2] = COPSE_STEP_WORDS;
    for (uint32_t i = 0; i < 2 * N; i++)
        copse__test_float(t, 1, i, (float)(1 + (i + i / 8) % 8));
    copse__test_float(t, 2, COPSE_STEP_AVERAGE, 0.25f);
}

/* Some elements exceed the limits on either side, some do not. */
void copse__clip_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_clip p = { .n = N, .limit = 4.0f };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, (N + (uint32_t)k->spec[0] - 1) / (uint32_t)COPSE_MAX(k->spec[0], 1));
    t->counts[0] = COPSE_STEP_WORDS;
    t->counts[1] = N;
    for (uint32_t i = 0; i < N; i++)
        copse__test_float(t, 1, i, (float)((i + i / 8) % 8) - 3.5f);
    copse__test_float(t, 0, COPSE_STEP_SCALE, 2.0f);
}

/* Three blocks, the last one shorter. */
void copse__square_sum_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_square_sum p = { .n = 300 };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, 3);
    t->counts[0] = 300;
    t->counts[1] = 6;
}

void copse__block_scale_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_block_scale p = { .n = 300 };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, (300 + (uint32_t)k->spec[0] - 1) / (uint32_t)COPSE_MAX(k->spec[0], 1));
    t->counts[0] = 3;
    t->counts[1] = 300;
    for (uint32_t i = 0; i < 300; i++)
        copse__test_float(t, 1, i, (float)(1 + i % 8));
}

static void set_step(struct copse_self_test *t, uint32_t step)
{
    copse__test_float(t, step, COPSE_STEP_RATE, 0.5f);
    copse__test_float(t, step, COPSE_STEP_SCALE, 2.0f);
    copse__test_float(t, step, COPSE_STEP_BIAS1, 0.5f);
    copse__test_float(t, step, COPSE_STEP_BIAS2, 0.25f);
}

/* Small positive numbers in buffers [first, step), and the words of a step. */
static void set_numbers(struct copse_self_test *t, uint32_t first, uint32_t step)
{
    for (uint32_t a = first; a < step; a++)
        for (uint32_t i = 0; i < t->counts[a]; i++)
            copse__test_float(t, a, i, (float)(1 + (i + i / 8) % 8));
    t->counts[step] = COPSE_STEP_WORDS;
    set_step(t, step);
}

/* Two blocks, the last one shorter. Roots and quotients of LAMB are rounded. */
void copse__trust_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_trust p = { .n = 2 * N,
                                          .decay = 0.25f,
                                          .momentum = 0.5f,
                                          .beta1 = 0.5f,
                                          .beta2 = 0.75f,
                                          .rest1 = 0.5f,
                                          .rest2 = 0.25f,
                                          .epsilon = 0.125f };
    memcpy(t->params, &p, sizeof p);
    t->groups =
        groups_of(k, (2 * N + (uint32_t)k->spec[0] - 1) / (uint32_t)COPSE_MAX(k->spec[0], 1));
    t->counts[0] = 2;
    t->counts[1] = t->counts[2] = 2 * N;
    t->counts[3] = 4 * N;
    set_numbers(t, 2, 4);
    t->slack = 1e-3f;
}

void copse__lamb_sum_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_lamb_sum p = { .n = 2 * N,
                                             .decay = 0.25f,
                                             .beta1 = 0.5f,
                                             .beta2 = 0.75f,
                                             .rest1 = 0.5f,
                                             .rest2 = 0.25f,
                                             .epsilon = 0.125f };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, 2);
    t->counts[0] = t->counts[1] = 2 * N;
    t->counts[2] = 4 * N;
    set_numbers(t, 1, 3);
    t->counts[4] = 4;
    t->slack = 1e-3f;
}

/* Two blocks, the last one shorter; codes of one and of two bytes, scales that are powers of
   two. */
void copse__adam8_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_adam8 p = { .n = 2 * N,
                                          .decay = 0.25f,
                                          .beta1 = 0.5f,
                                          .beta2 = 0.75f,
                                          .rest1 = 0.5f,
                                          .rest2 = 0.25f,
                                          .epsilon = 0.125f };
    (void)k;
    memcpy(t->params, &p, sizeof p);
    t->groups = 2;
    t->counts[0] = t->counts[1] = 2 * N;
    t->counts[2] = 2 * (N / 2 + 2);
    for (uint32_t i = 0; i < 2 * N; i++)
        copse__test_float(t, 1, i, (float)(1 + (i + i / 8) % 8));
    for (uint32_t i = 0; i < t->counts[2]; i++)
        t->words[2][i] = 0x01020304u + 0x10203070u * i;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t b = 0; b < 2; b++)
            copse__test_float(t, 2, half * (N / 2 + 2) + N / 2 + b, b ? 4.0f : 2.0f);
    t->counts[3] = COPSE_STEP_WORDS;
    set_step(t, 3);
    t->slack = 1e-3f;
}

/* Roots and quotients are rounded, as those of Adam. The rule is that of k->spec. */
void copse__adaptive_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_adaptive p = { .n = N,
                                             .decay = 0.25f,
                                             .momentum = 0.5f,
                                             .beta1 = 0.5f,
                                             .beta2 = 0.75f,
                                             .rest1 = 0.5f,
                                             .rest2 = 0.25f,
                                             .epsilon = 0.125f,
                                             .l1 = 0.5f,
                                             .l2 = 0.25f };
    copse__update_test(k, t, &p, 3);
    copse__test_float(t, 3, COPSE_STEP_NESTEROV_GRADIENT, 0.5f);
    copse__test_float(t, 3, COPSE_STEP_NESTEROV_MEAN, 2.0f);
    t->slack = 1e-3f;
}
