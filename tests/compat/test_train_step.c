/* SPDX-License-Identifier: MIT */
/* Train steps: losses in and out, what may be asked for between them, and what is refused. */
#include "copse/compat/gradients.h"
#include "copse/compat/train_step.h"
#include "copse/loop/feed.h"

#include "tests/rig/train/step_rig.h"

struct linear {
    copse_variable *a, *b;
};

static void close_step(copse_train_step **ts, copse_strategy **st)
{
    copse_train_step_release(ts);
    copse_strategy_release(st);
}

static struct copse_train_step_params params_of(copse_losses_fn *losses, struct linear *l,
                                                float rate)
{
    return (struct copse_train_step_params){
        .losses = losses,
        .user = l,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = rate },
    };
}

static void one(struct copse_losses *losses, const char *name, copse_tensor *t)
{
    losses->names[losses->count] = name;
    losses->at[losses->count++] = t;
}

/* ---- 1: a classifier ---- */

static void classify(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    const struct linear *l = user;
    copse_tensor *y = copse_dense(g, rig_x(in), copse_variable_tensor(l->a),
                                  copse_variable_tensor(l->b), COPSE_LINEAR);
    y = copse_sparse_cross_entropy(g, y, rig_y(in), COPSE_MEAN);
    one(losses, "cross entropy", y);
}

static void cts_1(void **state)
{
    (void)state;
    static const float x[6] = { 1, 2, 2, 3, 3, 4 }, ones[6] = { 1, 1, 1, 1, 1, 1 },
                       zeros[3] = { 0 };
    static const int32_t y[3] = { 0, 1, 2 };
    static const double expected[7] = { 1.098612, 1.064379, 1.052803, 1.046709,
                                        1.042076, 1.037908, 1.033918 };
    const struct copse_host_batch batch = { RIG_XY(2, x, y), .count = 3 };
    for (size_t n = 1; n <= 5; n++) {
        copse_strategy *st = rig_strategy(n, NULL);
        struct linear l = { rig_variable(st, "w", COPSE_SHAPE(2, 3), ones),
                            rig_variable(st, "b", COPSE_SHAPE(3), zeros) };
        struct copse_train_step_params params = params_of(classify, &l, 0.1f);
        copse_train_step *ts;
        OK(copse_train_step_create(st, &params, &ts));
        for (uint64_t i = 0; i < 7; i++) {
            struct copse_train_step_result r;
            OK(copse_train_step_run(ts, &batch, &r));
            rig_near(r.losses[0], expected[i], 1e-6);
            assert_true(r.total == r.losses[0] && r.step == i + 1 && r.global_step == i + 1);
            assert_string_equal(r.names[0], "cross entropy");
        }
        close_step(&ts, &st);
    }
}

/* Batches that were fed to the trainer inside train as batches that a run is given. */
static void prefetched(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    static const float x[2 * STEPS][2] = { { 1, 2 }, { 2, 3 },  { 3, 4 }, { -1, 1 },
                                           { 0, 5 }, { 2, -2 }, { 1, 1 }, { 4, 0 } };
    static const int32_t y[2 * STEPS] = { 0, 1, 2, 1, 0, 2, 1, 0 };
    static const float ones[6] = { 1, 1, 1, 1, 1, 1 }, zeros[3] = { 0 };
    double losses[2][STEPS];
    float w[2][6];
    for (uint32_t prefetch = 0; prefetch <= 2; prefetch += 2) {
        copse_strategy *st = rig_strategy(2, NULL);
        struct linear l = { rig_variable(st, "w", COPSE_SHAPE(2, 3), ones),
                            rig_variable(st, "b", COPSE_SHAPE(3), zeros) };
        struct copse_train_step_params params = params_of(classify, &l, 0.1f);
        params.prefetch = prefetch;
        copse_train_step *ts;
        OK(copse_train_step_create(st, &params, &ts));
        copse_trainer *t = copse_train_step_trainer(ts);
        for (uint32_t i = 0; i < STEPS; i++) {
            const struct copse_host_batch batch = { RIG_XY(2, x[2 * i], &y[2 * i]), .count = 2,
                                                    .index = i };
            struct copse_train_step_result r;
            if (prefetch > 0)
                OK(copse_trainer_feed(t, &batch));
            assert_int_equal(copse_trainer_fed(t), prefetch > 0);
            OK(copse_train_step_run(ts, prefetch > 0 ? NULL : &batch, &r));
            losses[prefetch > 0][i] = r.total;
        }
        OK(copse_variable_read(l.a, 0, w[prefetch > 0]));
        close_step(&ts, &st);
    }
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
}

/* ---- 2, 3: what is returned, what moves ---- */

/* 3 a, whatever the batch. */
static void three(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    (void)in;
    copse_tensor *y = copse_multiply_by(g, copse_variable_tensor(((struct linear *)user)->a), 3.0f);
    one(losses, "three", y);
}

static void cts_2(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(4);
    for (size_t n = 1; n <= 5; n++) {
        copse_strategy *st = rig_strategy(n, NULL);
        struct linear l = { .a = rig_scalar(st, "w", 2.0f) };
        const struct copse_train_step_params params = params_of(three, &l, 0.1f);
        copse_train_step *ts;
        struct copse_train_step_result r;
        OK(copse_train_step_create(st, &params, &ts));
        OK(copse_train_step_run(ts, &rows, &r));
        rig_near(r.total, 6.0, 1e-6);
        for (uint32_t i = 0; i < n; i++)
            rig_near((double)rig_value(l.a, i), 1.7, 1e-6);
        OK(copse_train_step_run(ts, &rows, &r));
        rig_near(r.total, 5.1, 2e-6);
        close_step(&ts, &st);
    }
}

static void two(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    three(g, in, user, losses);
    copse_tensor *y = copse_square(g, copse_variable_tensor(((struct linear *)user)->b));
    one(losses, "deep/square", y);
}

static copse_tensor *first_loss(copse_graph *g, const struct copse_losses *losses, void *user)
{
    (void)g;
    (void)user;
    return losses->at[0];
}

static void cts_3(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(3);
    for (size_t n = 1; n <= 3; n += 2) {
        copse_strategy *st = rig_strategy(n, NULL);
        struct linear l = { rig_scalar(st, "a", 2.0f), rig_scalar(st, "b", 5.0f) };
        struct copse_train_step_params params = params_of(two, &l, 0.1f);
        copse_train_step *ts;
        struct copse_train_step_result r;
        OK(copse_train_step_create(st, &params, &ts));
        FAILS(COPSE_ERR_ARGUMENT, copse_train_step_run(ts, &rows, &r),
              "2 losses need a total_loss");
        copse_train_step_release(&ts);
        params.total_loss = first_loss;
        OK(copse_train_step_create(st, &params, &ts));
        OK(copse_train_step_run(ts, &rows, &r));
        assert_int_equal(r.loss_count, 2);
        assert_string_equal(r.names[1], "deep/square");
        rig_near(r.total, 6.0, 1e-6);
        rig_near(r.losses[0], 6.0, 1e-6);
        rig_near(r.losses[1], 25.0, 1e-5);
        rig_near((double)rig_value(l.a, 0), 1.7, 1e-6);
        assert_true(rig_value(l.b, 0) == 5.0f);
        copse_train_step_release(&ts);
        params.reduction = COPSE_LOSS_SUM; /* of the replicas' losses, every one of them */
        OK(copse_train_step_create(st, &params, &ts));
        OK(copse_train_step_run(ts, &rows, &r));
        rig_near(r.losses[1], 25.0 * (double)n, 1e-4);
        close_step(&ts, &st);
    }
}

/* ---- 4: transforms ---- */

/* 4 a + 2 b. */
static void four_two(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    (void)in;
    const struct linear *l = user;
    copse_tensor *y = copse_multiply_by(g, copse_variable_tensor(l->a), 4.0f);
    copse_tensor *z = copse_multiply_by(g, copse_variable_tensor(l->b), 2.0f);
    y = copse_add(g, y, z);
    one(losses, "loss", y);
}

static void clip(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    copse_gradients_clip_norms(g, pairs, count, *(const float *)user);
}

static void clip_all(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)copse_gradients_clip_global_norm(g, pairs, count, *(const float *)user);
}

static void halve_first(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    const struct copse_multiplier factor = { ((struct linear *)user)->a, 0.5f };
    copse_gradients_multiply(g, pairs, count, &factor, 1);
}

static void swap(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    (void)g;
    (void)count;
    (void)user;
    pairs[0].variable = pairs[1].variable;
}

static void transformed(copse_transform_fn *fn, void *user, bool is_own, double a, double b)
{
    copse_strategy *st = rig_strategy(1, NULL);
    struct linear l = { rig_scalar(st, "a", 10.0f), rig_scalar(st, "b", 10.0f) };
    struct copse_train_step_params params = params_of(four_two, &l, 1.0f);
    params.transform = fn;
    params.transform_user = is_own ? (void *)&l : user;
    params.summarize_gradients = true;
    copse_train_step *ts;
    struct copse_train_step_result r;
    struct copse_gradient_summary summary;
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(
        ts, &(struct copse_host_batch){ RIG_X(1, (const float[]){ 0 }), .count = 1 }, &r));
    rig_near((double)rig_value(l.a, 0), 10.0 - a, 1e-5);
    rig_near((double)rig_value(l.b, 0), 10.0 - b, 1e-5);
    OK(copse_trainer_gradient(copse_train_step_trainer(ts), l.a, 0, &summary));
    assert_true(summary.is_known);
    rig_near(summary.norm, a, 1e-5);
    assert_int_equal(summary.bins[9], a >= 1.0); /* from 1 to below 10 */
    close_step(&ts, &st);
}

static void cts_4(void **state)
{
    (void)state;
    float three_ = 3.0f;
    transformed(clip, &three_, false, 3.0, 2.0);
    transformed(clip_all, &three_, false, 4.0 * 3.0 / sqrt(20.0), 2.0 * 3.0 / sqrt(20.0));
    transformed(halve_first, NULL, true, 2.0, 2.0);
    /* Clipping acts on each replica's part, factors on the whole. */
    copse_strategy *st = rig_strategy(2, NULL);
    struct linear l = { rig_scalar(st, "a", 10.0f), rig_scalar(st, "b", 10.0f) };
    struct copse_train_step_params params = params_of(four_two, &l, 1.0f);
    const struct copse_host_batch rows = rig_rows(2);
    struct copse_train_step_result r;
    copse_train_step *ts;
    params.transform = halve_first;
    params.transform_user = &l;
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(ts, &rows, &r));
    rig_near((double)rig_value(l.a, 1), 8.0, 1e-5);
    copse_train_step_release(&ts);
    OK(copse_variable_assign(l.a, (const float[]){ 10.0f }));
    OK(copse_variable_assign(l.b, (const float[]){ 10.0f }));
    float limit = 1.5f; /* each part of 4 is 2 and becomes 1.5, each part of 2 is 1 and stays */
    params.transform = clip;
    params.transform_user = &limit;
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(ts, &rows, &r));
    for (uint32_t k = 0; k < 2; k++) {
        rig_near((double)rig_value(l.a, k), 10.0 - 3.0, 1e-5);
        rig_near((double)rig_value(l.b, k), 10.0 - 2.0, 1e-5);
    }
    OK(copse_variable_assign(l.a, (const float[]){ 10.0f }));
    const struct copse_host_batch three = rig_rows(3); /* parts of 8/3 and 4/3, 4/3 and 2/3 */
    OK(copse_train_step_run(ts, &three, &r));
    rig_near((double)rig_value(l.a, 0), 10.0 - 1.5 - 4.0 / 3, 1e-5);
    rig_near((double)rig_value(l.b, 1), 8.0 - 2.0, 1e-5);
    copse_train_step_release(&ts);
    params.transform = swap;
    params.transform_user = &l;
    OK(copse_train_step_create(st, &params, &ts));
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_run(ts, &rows, &r), "must leave 'a'");
    close_step(&ts, &st);
}

/* ---- 5: what is not finite ---- */

/* Mean of a x + b^2. */
static void with_rows(copse_graph *g, const copse_batch *in, void *user,
                      struct copse_losses *losses)
{
    const struct linear *l = user;
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(l->a));
    copse_tensor *z = copse_square(g, copse_variable_tensor(l->b));
    y = copse_add(g, y, z);
    y = copse_mean(g, y, NULL, 0, false);
    one(losses, "loss", y);
}

/* sqrt(a x): at 0 the loss is finite and the derivative is not. */
static void steep(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(((struct linear *)user)->a));
    y = copse_sqrt(g, y);
    y = copse_mean(g, y, NULL, 0, false);
    one(losses, "loss", y);
}

static void good_and_bad(size_t n, float bad, float *values)
{
    float x[5] = { 1, 2, 3, 4, 5 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 5 };
    copse_strategy *st = rig_strategy(n, &(struct copse_strategy_params){ .bucket_bytes = 4 });
    struct linear l = { rig_scalar(st, "a", 2.0f), rig_scalar(st, "b", 1.0f) };
    struct copse_train_step_params params = params_of(with_rows, &l, 0.1f);
    struct copse_train_step_result r;
    copse_train_step *ts;
    params.optimizer = (struct copse_optimizer_params){ .kind = COPSE_ADAM, .learning_rate = 0.1f };
    OK(copse_train_step_create(st, &params, &ts));
    for (int i = 0; i < 3; i++) {
        OK(copse_train_step_run(ts, &batch, &r));
        const float a = rig_value(l.a, 0), b = rig_value(l.b, 0);
        if (bad == 0.0f)
            continue;
        x[4] = bad; /* of one replica, when there are several */
        FAILS(COPSE_ERR_NONFINITE, copse_train_step_run(ts, &batch, &r), "nothing was changed");
        x[4] = 5;
        for (uint32_t k = 0; k < n; k++)
            assert_true(rig_value(l.a, k) == a && rig_value(l.b, k) == b);
        assert_int_equal(copse_global_step(st), i + 1);
    }
    values[0] = rig_value(l.a, 0); /* slots and step numbers were left alone, too */
    values[1] = rig_value(l.b, 0);
    close_step(&ts, &st);
}

static void cts_5(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 5; n++) {
        float base[2], other[2];
        good_and_bad(n, 0.0f, base);
        good_and_bad(n, NAN, other);
        assert_memory_equal(base, other, sizeof base);
        good_and_bad(n, INFINITY, other);
        assert_memory_equal(base, other, sizeof base);
    }
    for (size_t n = 1; n <= 3; n += 2) { /* without the check */
        copse_strategy *st = rig_strategy(n, NULL);
        struct linear l = { rig_scalar(st, "a", 2.0f), rig_scalar(st, "b", 1.0f) };
        struct copse_train_step_params params = params_of(with_rows, &l, 0.1f);
        struct copse_train_step_result r;
        copse_train_step *ts;
        params.skip_numerics = true;
        OK(copse_train_step_create(st, &params, &ts));
        OK(copse_train_step_run(
            ts, &(struct copse_host_batch){ RIG_X(1, (const float[]){ 1, NAN, 1 }), .count = 3 },
            &r));
        assert_true(isnan(r.total) && r.global_step == 1);
        for (uint32_t k = 0; k < n; k++)
            assert_true(isnan(rig_value(l.a, k)));
        /* Infinity: the derivative of a is the mean of the rows, that of b is 2 b. */
        OK(copse_variable_assign(l.a, (const float[]){ 2.0f }));
        OK(copse_variable_assign(l.b, (const float[]){ 1.0f }));
        OK(copse_train_step_run(
            ts,
            &(struct copse_host_batch){ RIG_X(1, (const float[]){ 1, INFINITY, 1 }), .count = 3 },
            &r));
        assert_true(isinf(r.total) && r.total > 0 && r.global_step == 2);
        for (uint32_t k = 0; k < n; k++) {
            assert_true(isinf(rig_value(l.a, k)) && rig_value(l.a, k) < 0);
            rig_near((double)rig_value(l.b, k), 0.8, 1e-6);
        }
        copse_train_step_release(&ts);
        /* Gradients are looked at when that is asked for. */
        OK(copse_variable_assign(l.a, (const float[]){ 2.0f }));
        params = params_of(steep, &l, 0.1f);
        params.check_gradients = true;
        OK(copse_train_step_create(st, &params, &ts));
        FAILS(COPSE_ERR_NONFINITE,
              copse_train_step_run(
                  ts,
                  &(struct copse_host_batch){ RIG_X(1, (const float[]){ 1, 1, 0 }), .count = 3 },
                  &r),
              "gradient of 'a'");
        assert_true(rig_value(l.a, (uint32_t)n - 1) == 2.0f);
        OK(copse_train_step_run(
            ts, &(struct copse_host_batch){ RIG_X(1, (const float[]){ 1, 1, 1 }), .count = 3 },
            &r));
        assert_true(rig_value(l.a, 0) < 2.0f);
        close_step(&ts, &st);
    }
}

/* ---- 6: counters and hooks ---- */

static copse_status set_to_five(copse_strategy *st, void *user)
{
    (void)st;
    return copse_variable_assign(((struct linear *)user)->a, (const float[]){ 5.0f });
}

static copse_status refuse(copse_strategy *st, void *user)
{
    (void)st;
    (void)user;
    return COPSE_ERR_CANCELLED;
}

static void cts_6(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(2);
    copse_strategy *st = rig_strategy(2, NULL);
    struct linear l = { .a = rig_scalar(st, "w", 2.0f) };
    struct copse_train_step_params params = params_of(three, &l, 0.1f);
    struct copse_train_step_result r;
    copse_train_step *ts;
    uint64_t counter = 40;
    static const uint64_t expected[3][2] = { { 2, 40 }, { 2, 40 }, { 2, 42 } };
    for (int kind = COPSE_GLOBAL_STEP_DEFAULT; kind <= COPSE_GLOBAL_STEP_OWN; kind++) {
        params.global_step = (copse_global_step_kind)kind;
        params.counter = kind == COPSE_GLOBAL_STEP_OWN ? &counter : NULL;
        OK(copse_train_step_create(st, &params, &ts));
        for (int i = 0; i < 2; i++)
            OK(copse_train_step_run(ts, &rows, &r));
        assert_int_equal(copse_global_step(st), expected[kind][0]);
        assert_int_equal(counter, expected[kind][1]);
        assert_int_equal(r.step, 2);
        copse_train_step_release(&ts);
    }
    struct copse_update_hook hooks[2] = { { set_to_five, &l }, { refuse, NULL } };
    params = params_of(three, &l, 0.1f);
    params.update_hooks = hooks;
    params.update_hook_count = 1;
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(ts, &rows, &r));
    rig_near(r.total, 15.0, 1e-5);
    rig_near((double)rig_value(l.a, 1), 4.7, 1e-5);
    copse_train_step_release(&ts);
    params.update_hook_count = 2;
    OK(copse_train_step_create(st, &params, &ts));
    assert_int_equal(copse_train_step_run(ts, &rows, &r), COPSE_ERR_CANCELLED);
    assert_true(rig_value(l.a, 0) == 5.0f);
    assert_int_equal(copse_global_step(st), 3);
    copse_train_step_release(&ts);
    params.update_hook_count = 0;
    params.accumulate = 2; /* counters count updates */
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(ts, &rows, &r));
    assert_true(!r.is_updated && copse_global_step(st) == 3);
    OK(copse_train_step_run(ts, &rows, &r));
    assert_true(r.is_updated && r.step == 1 && r.global_step == 4);
    close_step(&ts, &st);
}

/* ---- 7: what is refused ---- */

static void nothing(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    (void)user;
    copse_tensor *y = copse_mean(g, rig_x(in), NULL, 0, false);
    one(losses, "constant", y);
}

static copse_tensor *no_total(copse_graph *g, const struct copse_losses *losses, void *user)
{
    (void)g;
    (void)losses;
    (void)user;
    return NULL;
}

static void cts_7(void **state)
{
    (void)state;
    const struct copse_host_batch rows = rig_rows(2);
    copse_strategy *st = rig_strategy(2, NULL), *strange = rig_strategy(1, NULL);
    struct linear l = { rig_scalar(st, "a", 2.0f), rig_scalar(st, "b", 1.0f) };
    copse_variable *const other = rig_scalar(strange, "far", 1.0f), *const none = NULL, *fixed;
    OK(copse_variable_create(st,
                             &(struct copse_variable_params){
                                 .name = "fixed", .shape = COPSE_SHAPE(1), .is_frozen = true },
                             &fixed));
    const struct copse_train_step_params plain = params_of(three, &l, 0.1f);
    struct copse_train_step_params params = plain;
    struct copse_train_step_result r;
    copse_train_step *ts;
    params.variables = &l.a; /* of length 0 */
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts),
          "list of variables to train is empty");
    params.variable_count = 1;
    params.variables = &fixed;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts),
          "'fixed' is not trainable");
    params.variables = &none;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts), "variable 0");
    params.variables = &other;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts), "'far'");
    params.variables = &l.b; /* the loss depends on a only */
    OK(copse_train_step_create(st, &params, &ts));
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_run(ts, &rows, &r), "depends on none");
    assert_true(rig_value(l.a, 0) == 2.0f && copse_global_step(st) == 0);
    copse_train_step_release(&ts);
    params.variables = &l.a; /* b is left alone, its bucket does not exist */
    OK(copse_train_step_create(st, &params, &ts));
    OK(copse_train_step_run(ts, &rows, &r));
    assert_true(rig_value(l.a, 1) < 2.0f && rig_value(l.b, 1) == 1.0f);
    copse_train_step_release(&ts);
    params = plain;
    params.losses = nothing;
    OK(copse_train_step_create(st, &params, &ts));
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_run(ts, &rows, &r), "depends on none");
    copse_train_step_release(&ts);
    params = plain;
    params.total_loss = no_total;
    OK(copse_train_step_create(st, &params, &ts));
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_run(ts, &rows, &r), "returned no tensor");
    copse_train_step_release(&ts);
    params = plain;
    params.losses = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts), "function of losses");
    params = plain;
    params.gating = (copse_gating)2;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts), "gating 2");
    params = plain;
    params.global_step = COPSE_GLOBAL_STEP_OWN;
    FAILS(COPSE_ERR_ARGUMENT, copse_train_step_create(st, &params, &ts), "counter");
    /* All gatings train alike. */
    float values[2];
    for (int i = 0; i < 2; i++) {
        OK(copse_variable_assign(l.a, (const float[]){ 2.0f }));
        params = plain;
        params.gating = (copse_gating)i;
        OK(copse_train_step_create(st, &params, &ts));
        OK(copse_train_step_run(ts, &rows, &r));
        values[i] = rig_value(l.a, 0);
        copse_train_step_release(&ts);
    }
    assert_true(values[0] == values[1]);
    copse_strategy_release(&st);
    copse_strategy_release(&strange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cts_1), cmocka_unit_test(prefetched), cmocka_unit_test(cts_2),
        cmocka_unit_test(cts_3), cmocka_unit_test(cts_4),      cmocka_unit_test(cts_5),
        cmocka_unit_test(cts_6), cmocka_unit_test(cts_7),
    };
    return cmocka_run_group_tests_name("train_step", tests, open_context, close_context);
}
