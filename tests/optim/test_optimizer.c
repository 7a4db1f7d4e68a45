/* SPDX-License-Identifier: MIT */
/* What optimizers do with gradients and variables beside the rule, under every strategy, compared
   with double: clipping of the sum over all replicas and workers, and moving averages of the
   variables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/copse.h"
#include "copse/train/slots.h"
#include "core/base/platform.h"
#include "core/comm/local.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/workers/worker_rig.h"

#define OK(expr)                                                                       \
    do {                                                                               \
        const copse_status ok_ = (expr);                                               \
        if (ok_)                                                                       \
            fail_msg("%s: %s: %s", #expr, copse_status_name(ok_), copse_last_error()); \
    } while (0)

enum {
    FIRST = 300,
    SECOND = 7,
    ALL = FIRST + SECOND,
    VARIABLES = 2,
    ROWS = 12,
    STEPS = 5,
    STRATEGIES = 5
};

static const struct {
    const char *name;
    int count;
} parts[VARIABLES] = { { "first", FIRST }, { "second", SECOND } };

#include "tests/rig/train/mean_rig.h"

/* ---- the truth ---- */

struct truth {
    double value[ALL], mean[ALL];
};

static void run_truth(const struct copse_optimizer_params *p, struct truth *out)
{
    double m[ALL] = { 0 }, v[ALL] = { 0 };
    for (int i = 0; i < ALL; i++) {
        out->value[i] = (double)first_value(i);
        out->mean[i] = 0;
    }
    for (int t = 1; t <= STEPS; t++)
        for (int i = 0; i < ALL; i++) {
            double g = gradient_of(t - 1, i);
            if (p->clip_value > 0)
                g = fmax(-(double)p->clip_value, fmin((double)p->clip_value, g));
            double change = (double)p->learning_rate * g;
            if (p->kind == COPSE_ADAM) {
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                change = (double)p->learning_rate * m[i] / (1 - pow(0.9, t)) /
                         (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
            }
            out->value[i] -= change;
            const double d = (double)p->average;
            out->mean[i] += (1 - d) / (1 - pow(d, t)) * (out->value[i] - out->mean[i]);
        }
}

/* ---- a run ---- */

struct result {
    float value[ALL], mean[ALL];
};

static copse_status read_all(copse_trainer *t, const struct model *m, bool has_mean,
                             struct result *out)
{
    COPSE_TRY(read_values(m, out->value));
    for (int k = 0; k < VARIABLES && has_mean; k++)
        COPSE_TRY(copse_trainer_slot(t, m->v[k], "average", out->mean + k * FIRST));
    return COPSE_OK;
}

static copse_status run(copse_strategy *st, const struct copse_optimizer_params *p,
                        struct result *out)
{
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, p, &m, &t));
    copse_status s = train(t, 0, STEPS);
    if (!s)
        s = read_all(t, &m, p->average > 0, out);
    copse_trainer_release(&t);
    return s;
}

static const struct copse_optimizer_params settings[] = {
    { .kind = COPSE_SGD, .learning_rate = 0.1f, .clip_value = 0.25f },
    { .kind = COPSE_SGD, .learning_rate = 0.1f, .average = 0.75f },
    { .kind = COPSE_ADAM, .learning_rate = 0.05f, .clip_value = 0.25f, .average = 0.9f },
};

static void compare(const struct copse_optimizer_params *p, const char *name,
                    const struct result *is)
{
    struct truth want;
    run_truth(p, &want);
    for (int i = 0; i < ALL; i++) {
        if (!(fabs((double)is->value[i] - want.value[i]) <= 2e-6))
            fail_msg("%s: value %d is %.9g, not %.9g", name, i, (double)is->value[i],
                     want.value[i]);
        if (p->average > 0 && !(fabs((double)is->mean[i] - want.mean[i]) <= 2e-6))
            fail_msg("%s: average %d is %.9g, not %.9g", name, i, (double)is->mean[i],
                     want.mean[i]);
    }
}

static void every_strategy_clips_and_averages(void **state)
{
    const char *name;
    struct result is;
    copse_strategy *st;
    (void)state;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
        for (int i = 0; (st = strategy_of(i, &name)); i++) {
            OK(run(st, &settings[k], &is));
            compare(&settings[k], name, &is);
            copse_strategy_release(&st);
        }
}

/* ---- several workers ---- */

static struct result of_worker[4];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run(st, w->job, &of_worker[w->rank]);
}

/* The sum over all workers is clipped, not a worker's part; all get whole averages. */
static void workers_clip_and_average_as_one(void **state)
{
    struct worker w[2];
    (void)state;
    host_alone();
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        run_workers_over(&copse__transport_local, w, 2, 2, &settings[k], run_in_worker);
        assert_all_ok(w, 2);
        compare(&settings[k], "two workers", &of_worker[0]);
        assert_memory_equal(of_worker[0].value, of_worker[1].value, sizeof of_worker[0].value);
        if (settings[k].average > 0)
            assert_memory_equal(of_worker[0].mean, of_worker[1].mean, sizeof of_worker[0].mean);
    }
    devices_back();
}

/* ---- state ---- */

/* A restored run has the averages and goes on with the same bits. */
static void averages_are_in_checkpoints(void **state)
{
    const struct copse_optimizer_params *p = &settings[2];
    struct result whole, cut;
    const char *name;
    copse_strategy *st;
    struct model m;
    copse_trainer *t;
    (void)state;
    temp_begin();
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        OK(run(st, p, &whole));
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        OK(create(st, p, &m, &t));
        OK(train(t, 0, 2));
        OK(copse_trainer_checkpoint(t, temp_path("cut"), NULL));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        OK(create(st, p, &m, &t));
        OK(copse_trainer_restore(t, temp_path("cut"), NULL, NULL));
        OK(train(t, 2, STEPS));
        OK(read_all(t, &m, true, &cut));
        assert_memory_equal(&cut, &whole, sizeof whole);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    temp_end();
}

static void slots_are_read_by_name(void **state)
{
    float values[FIRST];
    const char *name;
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(ONE_DEVICE, &name);
    (void)state;
    OK(create(st, &settings[0], &m, &t));
    assert_int_equal(copse_trainer_slot(t, m.v[0], "average", values), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "has no slot 'average'"));
    assert_int_equal(copse_trainer_slot(t, NULL, "average", values), COPSE_ERR_ARGUMENT);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void settings_are_checked(void **state)
{
    static const struct copse_optimizer_params wrong[] = {
        { .clip_value = -1.0f },
        { .clip_value = INFINITY },
        { .average = 1.0f },
        { .average = -0.5f },
    };
    const char *name;
    struct model m;
    copse_trainer *t;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        copse_strategy *st = strategy_of(ONE_DEVICE, &name);
        assert_int_equal(create(st, &wrong[i], &m, &t), COPSE_ERR_ARGUMENT);
        copse_strategy_release(&st);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_clips_and_averages),
        cmocka_unit_test(workers_clip_and_average_as_one),
        cmocka_unit_test(averages_are_in_checkpoints),
        cmocka_unit_test(slots_are_read_by_name),
        cmocka_unit_test(settings_are_checked),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
