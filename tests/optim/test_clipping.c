/* SPDX-License-Identifier: MIT */
/* Clipping by the norm of each variable and by the global norm: of the sum over all replicas and
   workers, under every strategy, against the formulas in double. The loss is the sum over examples
   of x . w, so the gradient of w is the sum of the rows of x. They are whole numbers: the sum is
   exact in any order, and results must have the same bits however it is formed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/loop/feed.h"

#include "tests/rig/train/gradient_rig.h"

/* ---- the truth ---- */

static double norm_of(const double *g, int first, int count)
{
    double sum = 0;
    for (int i = first; i < first + count; i++)
        sum += g[i] * g[i];
    return sqrt(sum);
}

static void clip(const struct copse_optimizer_params *p, double *g)
{
    const double all = norm_of(g, 0, ALL), most = (double)p->clip_global_norm,
                 each = (double)p->clip_norm;
    for (int k = 0; k < TRAINED; k++) {
        const double norm = norm_of(g, starts[k], counts[k]);
        for (int i = starts[k]; i < starts[k] + counts[k]; i++)
            g[i] *= most > 0 ? most / fmax(all, most) : each > 0 ? each / fmax(norm, each) : 1;
    }
}

static void run_truth(const struct copse_optimizer_params *p, int steps, double *value)
{
    static double g[ALL], m[ALL], v[ALL];
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (int i = 0; i < ALL; i++)
        value[i] = (double)first_value(i);
    for (int t = 1; t <= steps; t++) {
        memset(g, 0, sizeof g);
        for (int i = 0; i < ROWS * ALL; i++)
            g[i % ALL] += (double)data_x[(t - 1) % SETS][i];
        clip(p, g);
        for (int i = 0; i < ALL; i++) {
            double change = (double)p->learning_rate * g[i];
            if (p->kind == COPSE_ADAM) {
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                change = (double)p->learning_rate * m[i] / (1 - pow(0.9, t)) /
                         (sqrt(v[i] / (1 - pow(0.999, t))) + (double)p->epsilon);
            }
            value[i] -= change;
        }
    }
}

/* ---- a run ---- */

static copse_status train(copse_trainer *t, const struct job *job)
{
    const int parts = job->accumulate > 1 ? (int)job->accumulate : 1, rows = ROWS / parts;
    for (int i = 0; i < job->steps; i++)
        for (int k = 0; k < parts; k++)
            COPSE_TRY(step(t, data_x[i % SETS] + (size_t)k * rows * ALL, rows));
    return copse_trainer_fed(t) > 0 ? copse_trainer_run(t) : COPSE_OK;
}

static copse_status run(copse_strategy *st, const struct job *job, struct result *out)
{
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, job, &m, &t));
    copse_status s = train(t, job);
    if (!s)
        s = read_all(&m, out);
    copse_trainer_release(&t);
    return s;
}

static void run_on(const struct setup *s, const struct job *job, struct result *out)
{
    copse_strategy *st = make_strategy(s);
    OK(run(st, job, out));
    copse_strategy_release(&st);
}

static void compare(const struct job *job, const char *name, const struct result *is, double limit)
{
    static double want[ALL];
    run_truth(&job->optimizer, job->steps, want);
    for (int i = 0; i < ALL; i++)
        if (!(fabs((double)is->value[i] - want[i]) <= limit))
            fail_msg("%s, %d steps: value %d is %.9g, not %.9g", name, job->steps, i,
                     (double)is->value[i], want[i]);
    for (int i = 0; i < counts[TRAINED]; i++)
        assert_true(is->frozen[i] == first_value(i));
}

#define GLOBAL                                                                 \
    {                                                                          \
        .kind = COPSE_SGD, .learning_rate = 0.125f, .clip_global_norm = 100.0f \
    }
#define EACH                                                           \
    {                                                                  \
        .kind = COPSE_SGD, .learning_rate = 0.125f, .clip_norm = 20.0f \
    }
#define ADAM                                                                                   \
    {                                                                                          \
        .kind = COPSE_ADAM, .learning_rate = 0.01f, .epsilon = 1e-3f, .clip_global_norm = 1.0f \
    }

/* ---- tests ---- */

static void norms_are_clipped_as_defined(void **state)
{
    static const struct job jobs[] = { { GLOBAL, 1, 1 },  { GLOBAL, 1, 10 }, { GLOBAL, 1, MOST },
                                       { EACH, 1, 1 },    { EACH, 1, 10 },   { EACH, 1, MOST },
                                       { ADAM, 1, 1 },    { ADAM, 1, 10 },   { ADAM, 1, MOST },
                                       { GLOBAL, 3, 10 }, { EACH, 3, 10 } };
    static struct result is;
    (void)state;
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        run_on(&setups[0], &jobs[k], &is);
        compare(&jobs[k], setups[0].name, &is, 1e-7 * (10 + jobs[k].steps) * 4);
    }
}

static void every_strategy_clips_the_same_sum(void **state)
{
    static const struct job jobs[] = {
        { GLOBAL, 1, 10 }, { EACH, 1, 10 }, { GLOBAL, 3, 4 }, { EACH, 3, 4 }
    };
    static struct result want, is;
    (void)state;
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        run_on(&setups[0], &jobs[k], &want);
        compare(&jobs[k], setups[0].name, &want, 1e-5);
        for (int i = 1; i < SETUPS; i++) {
            run_on(&setups[i], &jobs[k], &is);
            same(setups[i].name, &is, &want);
        }
    }
}

static struct result of_worker[4];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run(st, w->job, &of_worker[w->rank]);
}

/* A worker's own part, which is all that it could clip alone, is another one. */
static void workers_clip_the_sum_over_all(void **state)
{
    static const struct job jobs[] = { { GLOBAL, 1, 10 }, { EACH, 1, 10 }, { GLOBAL, 3, 4 } };
    static struct result want;
    struct worker w[3];
    (void)state;
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        run_on(&setups[0], &jobs[k], &want);
        for (uint32_t workers = 2; workers <= 3; workers++)
            for (uint32_t replicas = 1; replicas <= 2; replicas++) {
                run_workers_over(&copse__transport_local, w, workers, replicas, &jobs[k],
                                 run_in_worker);
                assert_all_ok(w, workers);
                for (uint32_t v = 0; v < workers; v++)
                    same("workers", &of_worker[v], &want);
            }
    }
}

/* The last row is the last replica's. */
static void run_special(const struct setup *s, const struct copse_optimizer_params *p, int at,
                        float x, struct result *out)
{
    const struct job job = { *p, 1, 1 };
    float *row = data_x[0] + (size_t)(ROWS - 1) * ALL;
    const float kept = row[at];
    row[at] = x;
    run_on(s, &job, out);
    row[at] = kept;
}

/* tf.clip_by_global_norm: all gradients become NaN. */
static void a_global_norm_that_is_not_finite_makes_all_nan(void **state)
{
    static const struct copse_optimizer_params p = GLOBAL;
    static struct result is;
    const float bad[] = { INFINITY, -INFINITY, NAN };
    (void)state;
    for (int i = 0; i < SETUPS; i++)
        for (int b = 0; b < 3; b++) {
            run_special(&setups[i], &p, 5003, bad[b], &is);
            for (int k = 0; k < ALL; k++)
                if (!isnan(is.value[k]))
                    fail_msg("%s, %g: value %d is %g", setups[i].name, (double)bad[b], k,
                             (double)is.value[k]);
        }
}

/* tf.clip_by_norm: an infinite norm leaves NaN where the gradient is infinite and 0 elsewhere; NaN
   makes all NaN. Other variables are clipped as ever. */
static void a_norm_that_is_not_finite_stays_with_its_variable(void **state)
{
    static const struct copse_optimizer_params p = EACH;
    static struct result is, want;
    (void)state;
    const struct job job = { p, 1, 1 };
    run_on(&setups[0], &job, &want);
    for (int i = 0; i < SETUPS; i++) {
        run_special(&setups[i], &p, 5003, INFINITY, &is);
        for (int k = 0; k < ALL; k++) {
            const bool is_small = k >= starts[1] && k < starts[1] + counts[1];
            if (k == 5003 ? !isnan(is.value[k])
                          : is.value[k] != (is_small ? first_value(k) : want.value[k]))
                fail_msg("%s, inf: value %d is %g", setups[i].name, k, (double)is.value[k]);
        }
        run_special(&setups[i], &p, 5003, NAN, &is);
        for (int k = 0; k < ALL; k++) {
            const bool is_small = k >= starts[1] && k < starts[1] + counts[1];
            if (is_small ? !isnan(is.value[k]) : is.value[k] != want.value[k])
                fail_msg("%s, NaN: value %d is %g", setups[i].name, k, (double)is.value[k]);
        }
    }
}

/* Squares of these would overflow, or vanish, in f32. */
static void norms_have_the_range_of_gradients(void **state)
{
    static const float sizes[] = { 0x1p100f, 0x1p-100f };
    static struct result is, want;
    static float kept[ROWS * ALL];
    (void)state;
    memcpy(kept, data_x[0], sizeof kept);
    for (int k = 0; k < 2; k++)
        for (int each = 0; each < 2; each++) {
            struct job job = { GLOBAL, 1, 1 };
            job.optimizer.learning_rate = 0.5f;
            job.optimizer.clip_global_norm = each ? 0 : 8;
            job.optimizer.clip_norm = each ? 8 : 0;
            run_on(&setups[0], &job, &want);
            for (int i = 0; i < ROWS * ALL; i++)
                data_x[0][i] = kept[i] * sizes[k];
            job.optimizer.learning_rate = k == 0 ? 0.5f : 0x1p99f;
            job.optimizer.clip_global_norm *= k == 0 ? 1 : sizes[k];
            job.optimizer.clip_norm *= k == 0 ? 1 : sizes[k];
            for (int i = 0; i < SETUPS; i += 4) {
                run_on(&setups[i], &job, &is);
                for (int v = 0; v < ALL; v++)
                    if (!(fabsf(is.value[v] - want.value[v]) <= 1e-6f))
                        fail_msg("%s, %g: value %d is %g, not %g", setups[i].name, (double)sizes[k],
                                 v, (double)is.value[v], (double)want.value[v]);
            }
            memcpy(data_x[0], kept, sizeof kept);
        }
}

static void zero_gradients_change_nothing(void **state)
{
    static const struct copse_optimizer_params rules[] = { GLOBAL, EACH };
    static struct result is;
    static float kept[ROWS * ALL];
    (void)state;
    memcpy(kept, data_x[0], sizeof kept);
    memset(data_x[0], 0, sizeof kept);
    for (int i = 0; i < SETUPS; i++)
        for (int k = 0; k < 2; k++) {
            const struct job job = { rules[k], 1, 1 };
            run_on(&setups[i], &job, &is);
            for (int v = 0; v < ALL; v++)
                assert_true(is.value[v] == first_value(v));
        }
    memcpy(data_x[0], kept, sizeof kept);
}

/* A limit above all norms gives the bits of no limit. */
static void a_norm_below_the_limit_changes_no_bit(void **state)
{
    static struct result is, want;
    struct job job = { { .kind = COPSE_ADAM }, 1, 5 };
    (void)state;
    for (int i = 0; i < SETUPS; i++) {
        job.optimizer.clip_norm = job.optimizer.clip_global_norm = 0;
        run_on(&setups[i], &job, &want);
        job.optimizer.clip_norm = 1e6f;
        run_on(&setups[i], &job, &is);
        same(setups[i].name, &is, &want);
        job.optimizer.clip_norm = 0;
        job.optimizer.clip_global_norm = 1e6f;
        run_on(&setups[i], &job, &is);
        same(setups[i].name, &is, &want);
    }
}

/* A flush updates with the micro-batches that are there. */
static void a_flush_clips(void **state)
{
    static struct result is, want;
    const struct job one = { GLOBAL, 1, 1 }, many = { GLOBAL, 20, 0 };
    (void)state;
    run_on(&setups[0], &one, &want);
    for (int i = 0; i < SETUPS; i++) {
        struct model m;
        copse_trainer *t;
        copse_strategy *st = make_strategy(&setups[i]);
        OK(create(st, &many, &m, &t));
        for (int k = 0; k < 3; k++)
            OK(step(t, data_x[0] + (size_t)k * 5 * ALL, 5));
        if (copse_trainer_fed(t) > 0)
            OK(copse_trainer_run(t));
        OK(copse_trainer_flush(t));
        OK(read_all(&m, &is));
        same(setups[i].name, &is, &want);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* ---- tower optimizers ---- */

struct tower {
    struct model *m;
    copse_tower_optimizer *t;
    int set;
};

/* Rows are dealt out in turn. */
static copse_status give(copse_replica_context *rc, copse_value *const *args, size_t count,
                         void *user, copse_value **out)
{
    static _Thread_local float sums[ALL];
    const struct tower *w = user;
    struct copse_tower_gradient pairs[TRAINED] = { { NULL, NULL } };
    const uint32_t rank = copse_replica_id(rc), all = copse_replica_count(rc);
    (void)args;
    (void)count;
    (void)out;
    memset(sums, 0, sizeof sums);
    for (int r = (int)rank; r < ROWS; r += (int)all)
        for (int i = 0; i < ALL; i++)
            sums[i] += data_x[w->set][r * ALL + i];
    copse_status s = COPSE_OK;
    for (int k = 0; k < TRAINED && !s; k++) {
        pairs[k].variable = w->m->v[k];
        s = copse_value_create(ctx, COPSE_F32, COPSE_SHAPE((uint64_t)counts[k]), sums + starts[k],
                               &pairs[k].gradient);
    }
    if (!s)
        s = copse_tower_apply(w->t, pairs, TRAINED, true);
    for (int k = 0; k < TRAINED; k++)
        copse_value_release(&pairs[k].gradient);
    return s;
}

static copse_status run_tower(copse_strategy *st, const struct job *job, struct result *out)
{
    struct model m;
    struct tower w = { .m = &m };
    COPSE_TRY(model_create(&m, st));
    COPSE_TRY(copse_tower_create(
        st,
        &(struct copse_tower_params){ .optimizer = job->optimizer, .reduction = COPSE_LOSS_SUM },
        &w.t));
    copse_status s = COPSE_OK;
    for (int i = 0; i < job->steps && !s; i++) {
        w.set = i % SETS;
        s = copse_strategy_run(st, give, NULL, 0, &w, NULL);
        if (!s)
            s = copse_tower_finish(w.t);
    }
    if (!s)
        s = read_all(&m, out);
    copse_tower_release(&w.t);
    return s;
}

static copse_status tower_in_worker(struct worker *w, copse_strategy *st)
{
    return run_tower(st, w->job, &of_worker[w->rank]);
}

static void tower_optimizers_clip_as_trainers_do(void **state)
{
    static const struct job jobs[] = { { GLOBAL, 1, 6 }, { EACH, 1, 6 } };
    static struct result is, want;
    struct worker w[2];
    (void)state;
    for (int k = 0; k < 2; k++) {
        run_on(&setups[0], &jobs[k], &want);
        for (int i = 0; i < SETUPS; i++) {
            copse_strategy *st = make_strategy(&setups[i]);
            OK(run_tower(st, &jobs[k], &is));
            same(setups[i].name, &is, &want);
            copse_strategy_release(&st);
        }
        run_workers_over(&copse__transport_local, w, 2, 2, &jobs[k], tower_in_worker);
        assert_all_ok(w, 2);
        same("first worker", &of_worker[0], &want);
        same("second worker", &of_worker[1], &want);
    }
}

/* ---- settings ---- */

static void settings_are_checked(void **state)
{
    static const struct {
        struct copse_optimizer_params p;
        const char *word;
    } wrong[] = {
        { { .clip_norm = -1.0f }, "clip_norm is -1" },
        { { .clip_norm = NAN }, "clip_norm is " },
        { { .clip_norm = INFINITY }, "clip_norm is inf" },
        { { .clip_global_norm = -1.0f }, "clip_global_norm is -1" },
        { { .clip_global_norm = NAN }, "clip_global_norm is " },
        { { .clip_norm = 1.0f, .clip_global_norm = 1.0f }, "one of them" },
        { { .clip_value = 1.0f, .clip_global_norm = 1.0f }, "one of them" },
        { { .clip_value = 1.0f, .clip_norm = 1.0f }, "one of them" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct job job = { wrong[i].p, 1, 1 };
        struct model m;
        copse_trainer *t;
        copse_strategy *st = make_strategy(&setups[0]);
        assert_int_equal(create(st, &job, &m, &t), COPSE_ERR_ARGUMENT);
        if (!strstr(copse_last_error(), wrong[i].word))
            fail_msg("'%s' does not have '%s'", copse_last_error(), wrong[i].word);
        copse_strategy_release(&st);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_clipped_as_defined),
        cmocka_unit_test(every_strategy_clips_the_same_sum),
        cmocka_unit_test(workers_clip_the_sum_over_all),
        cmocka_unit_test(a_global_norm_that_is_not_finite_makes_all_nan),
        cmocka_unit_test(a_norm_that_is_not_finite_stays_with_its_variable),
        cmocka_unit_test(norms_have_the_range_of_gradients),
        cmocka_unit_test(zero_gradients_change_nothing),
        cmocka_unit_test(a_norm_below_the_limit_changes_no_bit),
        cmocka_unit_test(a_flush_clips),
        cmocka_unit_test(tower_optimizers_clip_as_trainers_do),
        cmocka_unit_test(settings_are_checked),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
