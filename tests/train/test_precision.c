/* SPDX-License-Identifier: MIT */
/* Mixed precision: products of a trainer's loss function read 16 bits, variables are f32. All
   strategies give the same bits; f16 begins with a scale of the loss that is too large here, so its
   first step is skipped; a run goes on from a checkpoint; a network with a hidden layer learns as
   it does in f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/device/tuning.h"
#include "copse/matmul.h"
#include "copse/ops/precision.h"
#include "copse/state.h"
#include "core/base/half.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/gradient_rig.h"

enum { STEPS = 5 };
#define RATE 0x1p-25f

/* Whole numbers that have more digits than both types of 16 bits; sums of the rounded ones are
   exact. */
static float whole_x[SETS][ROWS * ALL];

static void make_whole(void)
{
    uint32_t seed = 7;
    for (int t = 0; t < SETS; t++)
        for (int i = 0; i < ROWS * ALL; i++) {
            seed = seed * 1664525u + 1013904223u;
            whole_x[t][i] = (float)((int)((seed >> 16) % 16411) - 8205);
        }
}

/* The sum over examples of x w. */
static copse_tensor *product_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *w = copse_concat(g, m->w, TRAINED, 0);
    w = copse_reshape(g, w, COPSE_SHAPE(ALL, 1));
    copse_tensor *y = copse_matmul(g, x, w, false, false);
    return copse_sum(g, y, NULL, 0, false);
}

static void start(const struct setup *s, copse_type precision, copse_strategy **st, struct model *m,
                  copse_trainer **t)
{
    *st = make_strategy(s);
    OK(model_create(m, *st));
    OK(copse_trainer_create(
        *st,
        &(struct copse_trainer_params){ .loss = product_loss,
                                        .user = m,
                                        .reduction = COPSE_LOSS_SUM,
                                        .precision = precision,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = RATE } },
        t));
}

static void stop(copse_strategy **st, copse_trainer **t)
{
    copse_trainer_release(t);
    copse_strategy_release(st);
}

/* Steps [from, to), with the scales that they should have. */
static void train(copse_trainer *t, const char *name, copse_type precision, int from, int to)
{
    const uint64_t first = copse_trainer_steps(t);
    for (int i = from; i < to; i++)
        OK(step(t, whole_x[i % SETS], ROWS));
    if (copse_trainer_fed(t) > 0)
        OK(copse_trainer_run(t));
    for (uint64_t i = first; i < copse_trainer_steps(t); i++) {
        struct copse_step_result r;
        OK(copse_trainer_result(t, true, &r));
        const bool is_skipped = precision == COPSE_F16 && r.step == 1;
        const float scale = precision != COPSE_F16 ? 0 : is_skipped ? 65536 : 32768;
        if (r.is_skipped != is_skipped || r.loss_scale != scale)
            fail_msg("%s: step %llu has the scale %g, skipped: %d", name,
                     (unsigned long long)r.step, (double)r.loss_scale, r.is_skipped);
    }
}

static float rounded(copse_type precision, float x)
{
    return precision == COPSE_F16    ? copse__f16_to_f32(copse__f32_to_f16(x))
           : precision == COPSE_BF16 ? copse__bf16_to_f32(copse__f32_to_bf16(x))
                                     : x;
}

/* By the definition: gradients are sums of rounded rows; variables are f32 and change by less than
   16 bits show. */
static void expected(copse_type precision, struct result *want)
{
    for (int i = 0; i < ALL; i++) {
        want->value[i] = first_value(i);
        for (int t = precision == COPSE_F16; t < STEPS; t++) {
            float sum = 0;
            for (int row = 0; row < ROWS; row++)
                sum += rounded(precision, whole_x[t % SETS][row * ALL + i]);
            want->value[i] -= RATE * sum;
        }
    }
}

static const copse_type types[] = { COPSE_F32, COPSE_F16, COPSE_BF16 };

static void all_strategies_give_the_bits_of_the_definition(void **state)
{
    static struct result is, want;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(types); k++) {
        expected(types[k], &want);
        for (int i = 0; i < SETUPS; i++) {
            copse_strategy *st;
            copse_trainer *t;
            struct model m;
            start(&setups[i], types[k], &st, &m, &t);
            train(t, setups[i].name, types[k], 0, STEPS);
            OK(read_all(&m, &is));
            same(setups[i].name, &is, &want);
            stop(&st, &t);
        }
    }
}

/* The scale is that of the file, not the one that a trainer begins with. */
static void a_run_goes_on_from_a_checkpoint(void **state)
{
    static struct result is, want;
    (void)state;
    temp_begin();
    for (size_t k = 1; k < COPSE_COUNT(types); k++) {
        expected(types[k], &want);
        for (int i = 1; i < SETUPS; i += 2) { /* each kind of strategy */
            copse_strategy *st;
            copse_trainer *t;
            struct model m;
            start(&setups[i], types[k], &st, &m, &t);
            train(t, setups[i].name, types[k], 0, 3);
            OK(copse_trainer_checkpoint(t, temp_path("cut"), NULL));
            stop(&st, &t);
            start(&setups[i], types[k], &st, &m, &t);
            OK(copse_trainer_restore(t, temp_path("cut"), NULL, NULL));
            train(t, setups[i].name, types[k], 3, STEPS);
            OK(read_all(&m, &is));
            same(setups[i].name, &is, &want);
            stop(&st, &t);
        }
    }
    temp_end();
}

/* ---- a network ---- */

enum { EXAMPLES = 60, IN = 8, HIDDEN = 24, CLASSES = 3, LONG = 40 };

static float net_x[EXAMPLES * IN];
static int32_t net_y[EXAMPLES];

static void make_classes(void)
{
    for (int i = 0; i < EXAMPLES; i++) {
        float most = -INFINITY;
        for (int k = 0; k < IN; k++)
            net_x[i * IN + k] = (float)((i * 37 + k * 59 + i * k * 11) % 41) / 20.0f - 1.0f;
        for (int c = 0; c < CLASSES; c++) {
            const float v = net_x[i * IN + c] - 0.7f * net_x[i * IN + c + CLASSES];
            net_y[i] = v > most ? c : net_y[i];
            most = fmaxf(v, most);
        }
    }
}

struct net {
    copse_variable *w[2], *b[2];
    bool is_f32_outside; /* the second layer is not in 16 bits */
};

static copse_tensor *net_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *n = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *h = copse_dense(g, x, copse_variable_tensor(n->w[0]),
                                  copse_variable_tensor(n->b[0]), COPSE_RELU);
    if (n->is_f32_outside)
        copse_set_precision(g, COPSE_F32);
    h = copse_dense(g, h, copse_variable_tensor(n->w[1]), copse_variable_tensor(n->b[1]),
                    COPSE_LINEAR);
    return copse_sparse_cross_entropy(g, h, y, COPSE_MEAN);
}

static void net_create(struct net *n, copse_strategy *st)
{
    static const char *const names[] = { "w0", "w1", "b0", "b1" };
    const copse_shape shapes[] = { COPSE_SHAPE(IN, HIDDEN), COPSE_SHAPE(HIDDEN, CLASSES),
                                   COPSE_SHAPE(HIDDEN), COPSE_SHAPE(CLASSES) };
    float values[IN * HIDDEN];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < IN * HIDDEN; i++)
            values[i] = k < 2 ? (float)((i * 53 + k) % 29 - 14) / 40.0f : 0.0f;
        OK(copse_variable_create(st,
                                 &(struct copse_variable_params){
                                     .name = names[k], .shape = shapes[k], .values = values },
                                 k < 2 ? &n->w[k] : &n->b[k - 2]));
    }
}

/* The losses of the first and the last step. */
static void net_train(const char *const *ids, uint32_t count, copse_type precision,
                      bool is_f32_outside, double losses[2])
{
    const struct copse_column columns[] = { { "x", COPSE_F32, COPSE_SHAPE(IN), net_x },
                                            { "y", COPSE_I32, COPSE_SCALAR, net_y } };
    const struct copse_host_batch batch = { .columns = columns,
                                            .column_count = 2,
                                            .count = EXAMPLES };
    float first[IN * HIDDEN], values[IN * HIDDEN];
    struct net n = { .is_f32_outside = is_f32_outside };
    copse_strategy *st;
    copse_trainer *t;
    OK(copse_mirrored_create(ctx, ids, count, NULL, &st));
    net_create(&n, st);
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = net_loss,
                                        .user = &n,
                                        .precision = precision,
                                        .optimizer = { .learning_rate = 0.02f } },
        &t));
    for (int i = 0; i < LONG; i++) {
        struct copse_step_result r;
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &r));
        if (i == 0 || i == LONG - 1)
            losses[i > 0] = r.loss;
    }
    for (uint32_t r = 0; r < count; r++) {
        OK(copse_variable_read(n.w[0], r, r ? values : first));
        assert_true(r == 0 || memcmp(first, values, sizeof first) == 0);
    }
    stop(&st, &t);
}

static void a_network_learns(void **state)
{
    (void)state;
    const char *all[4];
    for (uint32_t i = 0; i < found_count; i++)
        all[i] = found[i];
    for (uint32_t d = 0; d <= found_count; d++) {
        const char *const *ids = d < found_count ? &all[d] : all;
        const uint32_t count = d < found_count ? 1 : found_count;
        double plain[2], is[2], part[2];
        net_train(ids, count, COPSE_F32, false, plain);
        assert_true(plain[1] < 0.6 * plain[0]);
        for (size_t k = 1; k < COPSE_COUNT(types); k++) {
            const double digits = types[k] == COPSE_F16 ? 0x1p-11 : 0x1p-8;
            net_train(ids, count, types[k], false, is);
            net_train(ids, count, types[k], true, part);
            if (is[0] == plain[0] || part[0] == is[0] || fabs(is[0] - plain[0]) > 4 * digits ||
                is[1] > plain[1] + 16 * digits)
                fail_msg("%s of %u: losses %.7g and %.7g, in f32 %.7g and %.7g; the second layer "
                         "in f32: %.7g",
                         ids[0], count, is[0], is[1], plain[0], plain[1], part[0]);
        }
    }
}

static void settings_are_checked(void **state)
{
    static const copse_type wrong[] = { COPSE_I32, COPSE_U8, COPSE_I64, (copse_type)99 };
    copse_strategy *st = make_strategy(&setups[0]);
    copse_trainer *t;
    struct model m;
    (void)state;
    OK(model_create(&m, st));
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        const struct copse_trainer_params p = { .loss = product_loss,
                                                .user = &m,
                                                .precision = wrong[i] };
        assert_int_equal(copse_trainer_create(st, &p, &t), COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(copse_last_error(), "trainer: precision is element type"));
    }
    /* A scale that is given stays. */
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = product_loss,
                                                            .user = &m,
                                                            .precision = COPSE_F16,
                                                            .reduction = COPSE_LOSS_SUM,
                                                            .optimizer = { .loss_scale = 8.0f } },
                            &t));
    struct copse_step_result r;
    OK(step(t, whole_x[0], ROWS));
    OK(copse_trainer_result(t, true, &r));
    assert_true(r.loss_scale == 8.0f && !r.is_skipped);
    stop(&st, &t);
}

/* ---- the warning ---- */

static char warning[400];
static int warnings;

static void keep_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level != COPSE_LOG_WARN || !strstr(line, "slower than f32"))
        return;
    snprintf(warning, sizeof warning, "%s", line);
    warnings++;
}

/* Warnings of a trainer of the type on two replicas of host:0, made twice, where products of this
   size class were measured with these rates: f32, f16 of each other kernel, f16 of the one that
   reads 16 bits. */
static int warnings_of(copse_type type, const char *kernels, uint64_t whole, uint64_t widened,
                       uint64_t half)
{
    static const char *const ids[] = { "host:0", "host:0" };
    static const char *const others[] = { "matmul", "matmul_wide", "matmul_texel" };
    copse_context *own;
    OK(copse_context_create(
        &(struct copse_context_params){ .log = keep_warning, .disable = "opencl,vulkan" }, &own));
    for (size_t i = 0; whole > 0 && i < COPSE_COUNT(others); i++) {
        struct copse_tuning_entry e = { "matmul", "nn-128-128-128", "", whole };
        snprintf(e.variant, sizeof e.variant, "%s", others[i]);
        OK(copse_device_tuning_set(own, "host:0", &e, 1));
        snprintf(e.size_class, sizeof e.size_class, "nn-128-128-128_f16");
        e.rate = widened;
        OK(copse_device_tuning_set(own, "host:0", &e, 1));
    }
    if (half > 0)
        OK(copse_device_tuning_set(
            own, "host:0",
            &(struct copse_tuning_entry){ "matmul", "nn-128-128-128_f16", "matmul_half", half },
            1));
    warnings = 0;
    for (int i = 0; i < 2; i++) {
        copse_strategy *st;
        copse_trainer *t;
        struct model m;
        const struct copse_strategy_params params = { .kernels = kernels };
        OK(copse_mirrored_create(own, ids, 2, &params, &st));
        OK(model_create(&m, st));
        OK(copse_trainer_create(
            st, &(struct copse_trainer_params){ .loss = model_loss, .user = &m, .precision = type },
            &t));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    copse_context_release(&own);
    return warnings;
}

static void slower_precisions_are_warned_of_once(void **state)
{
    (void)state;
    assert_int_equal(warnings_of(COPSE_F32, NULL, 0, 0, 0), 0);
    assert_int_equal(warnings_of(COPSE_F16, NULL, 0, 0, 0), 1);
    assert_non_null(strstr(warning, "trainer: f16 is slower than f32 on host:0: "));
    assert_non_null(strstr(warning, "; use f32"));
    assert_int_equal(warnings_of(COPSE_BF16, NULL, 0, 0, 0), 1);
    assert_int_equal(warnings_of(COPSE_BF16, "matmul=half", 0, 0, 0), 0);
    assert_int_equal(warnings_of(COPSE_F16, "matmul=shared", 0, 0, 0), 1);
    /* measured: faster than f32, than widened operands alone, and than neither */
    assert_int_equal(warnings_of(COPSE_F16, NULL, 100, 80, 150), 0);
    assert_int_equal(warnings_of(COPSE_F16, NULL, 200, 80, 150), 1);
    assert_int_equal(warnings_of(COPSE_F16, NULL, 100, 80, 60), 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_strategies_give_the_bits_of_the_definition),
        cmocka_unit_test(a_run_goes_on_from_a_checkpoint),
        cmocka_unit_test(slower_precisions_are_warned_of_once),
        cmocka_unit_test(a_network_learns),
        cmocka_unit_test(settings_are_checked),
    };
    make_whole();
    make_classes();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
