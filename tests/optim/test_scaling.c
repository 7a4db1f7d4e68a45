/* SPDX-License-Identifier: MIT */
/* Gradient scaling under every strategy: a scale that is a power of two changes no bit; an update
   with a sum over replicas and workers that is not finite changes nothing, and is not counted; the
   scale follows its rule, and goes on from checkpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/loop/feed.h"
#include "copse/state.h"
#include "copse/train/update.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/gradient_rig.h"

#define SCALE 65536.0f

/* Times the scale more than any f32; the loss, of values up to 1, is finite. In the last row, which
   is the last replica's. */
#define LARGE 0x1p115f

enum { BAD = 1, STEPS = 7 }; /* number of the step with it, of how many; within a run of steps */

static float bad_x[ROWS * ALL]; /* of that step */

static void make_bad(void)
{
    memcpy(bad_x, data_x[BAD % SETS], sizeof bad_x);
    bad_x[(size_t)(ROWS - 1) * ALL + 5003] = LARGE;
}

struct seen {
    float scales[STEPS];
    bool is_skipped[STEPS];
};

/* Train steps [from, to), with or without the bad one. All micro-batches of a step have the same
   sizes. */
static copse_status train(copse_trainer *t, const struct job *job, int from, int to,
                          bool leaves_out, struct seen *seen)
{
    const int parts = job->accumulate > 1 ? (int)job->accumulate : 1, rows = ROWS / parts;
    const uint64_t first = copse_trainer_steps(t);
    for (int i = from; i < to; i++)
        for (int k = 0; k < parts && !(leaves_out && i == BAD); k++) {
            const float *x = i == BAD ? bad_x : data_x[i % SETS];
            COPSE_TRY(step(t, x + (size_t)k * rows * ALL, rows));
        }
    if (copse_trainer_fed(t) > 0)
        COPSE_TRY(copse_trainer_run(t));
    for (uint64_t i = first; seen && i < copse_trainer_steps(t); i++) {
        struct copse_step_result r;
        COPSE_TRY(copse_trainer_result(t, true, &r));
        seen->scales[r.step - 1] = r.loss_scale;
        seen->is_skipped[r.step - 1] = r.is_skipped;
    }
    return COPSE_OK;
}

static copse_status run(copse_strategy *st, const struct job *job, bool leaves_out,
                        struct result *out, struct seen *seen)
{
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, job, &m, &t));
    copse_status s = train(t, job, 0, job->steps, leaves_out, seen);
    if (!s)
        s = read_all(&m, out);
    copse_trainer_release(&t);
    return s;
}

static void run_on(const struct setup *s, const struct job *job, bool leaves_out,
                   struct result *out, struct seen *seen)
{
    copse_strategy *st = make_strategy(s);
    OK(run(st, job, leaves_out, out, seen));
    copse_strategy_release(&st);
}

/* Powers of two with slots and counts: the rate of Adam depends on the number of updates. */
#define ADAM .kind = COPSE_ADAM, .learning_rate = 0.01f, .epsilon = 1e-3f
#define SGD  .kind = COPSE_SGD, .learning_rate = 0.125f

static const struct copse_optimizer_params plain[] = {
    { ADAM },
    { ADAM, .average = 0.75f },
    { SGD, .clip_global_norm = 100.0f },
    { SGD, .clip_norm = 20.0f },
    { SGD, .clip_value = 3.0f },
};

static struct copse_optimizer_params scaled(const struct copse_optimizer_params *p)
{
    struct copse_optimizer_params out = *p;
    out.loss_scale = SCALE;
    out.loss_scale_interval = 3;
    return out;
}

/* ---- tests ---- */

static void a_scale_changes_no_bit(void **state)
{
    static struct result is, want;
    size_t at = 0;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(plain); k++)
        for (int i = 0; i < SETUPS; i++)
            for (uint32_t accumulate = 1; accumulate <= 3; accumulate += 2) {
                if (!rig_takes(at++, 3))
                    continue;
                struct job job = { plain[k], accumulate, 3 };
                run_on(&setups[i], &job, true, &want, NULL);
                job.optimizer = scaled(&plain[k]);
                run_on(&setups[i], &job, true, &is, NULL);
                same(setups[i].name, &is, &want);
            }
}

/* As if the step had not been; and three good updates double the scale. */
static void check_seen(const char *name, const struct seen *seen)
{
    static const float scales[STEPS] = {
        SCALE, SCALE, SCALE / 2, SCALE / 2, SCALE / 2, SCALE, SCALE
    };
    for (int i = 0; i < STEPS; i++)
        if (seen->scales[i] != scales[i] || seen->is_skipped[i] != (i == BAD))
            fail_msg("%s: step %d: scale %g, not %g, skipped: %d", name, i, (double)seen->scales[i],
                     (double)scales[i], seen->is_skipped[i]);
}

static void an_update_that_is_not_finite_is_skipped(void **state)
{
    static struct result is, want;
    size_t at = 0;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(plain); k++)
        for (int i = 0; i < SETUPS; i++)
            for (uint32_t accumulate = 1; accumulate <= 3; accumulate += 2) {
                if (!rig_takes(at++, 3))
                    continue;
                const struct job job = { scaled(&plain[k]), accumulate, STEPS };
                struct seen seen = { { 0 }, { false } };
                run_on(&setups[i], &job, true, &want, NULL);
                run_on(&setups[i], &job, false, &is, &seen);
                check_seen(setups[i].name, &seen);
                same(setups[i].name, &is, &want);
            }
}

static struct result of_worker[4];
static struct seen by_worker[4];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    return run(st, w->job, false, &of_worker[w->rank], &by_worker[w->rank]);
}

/* The element that is too large is on one replica of the last worker. */
static void workers_skip_together(void **state)
{
    static struct result want;
    struct worker w[3];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(plain); k++)
        for (uint32_t workers = 2; workers <= 3; workers++) {
            const struct job job = { scaled(&plain[k]), 1, STEPS };
            host_alone();
            run_on(&setups[0], &job, true, &want, NULL);
            run_workers_over(&copse__transport_local, w, workers, 2, &job, run_in_worker);
            devices_back();
            assert_all_ok(w, workers);
            for (uint32_t v = 0; v < workers; v++) {
                check_seen("a worker", &by_worker[v]);
                same("a worker", &of_worker[v], &want);
            }
        }
}

/* Scale, count of good updates and number of skipped ones go on: behind the bad step, and one
   before the scale grows. */
static void a_checkpoint_has_the_scale(void **state)
{
    static struct result whole, cut;
    (void)state;
    temp_begin();
    for (int i = 0; i < SETUPS; i++)
        for (int at = BAD + 1; at < STEPS; at += 2) {
            const struct job job = { scaled(&plain[1]), 1, STEPS };
            struct seen seen = { { 0 }, { false } };
            struct model m;
            copse_trainer *t;
            run_on(&setups[i], &job, false, &whole, NULL);
            copse_strategy *st = make_strategy(&setups[i]);
            OK(create(st, &job, &m, &t));
            OK(train(t, &job, 0, at, false, &seen));
            OK(copse_trainer_checkpoint(t, temp_path("cut"), NULL));
            copse_trainer_release(&t);
            copse_strategy_release(&st);
            st = make_strategy(&setups[i]);
            OK(create(st, &job, &m, &t));
            OK(copse_trainer_restore(t, temp_path("cut"), NULL, NULL));
            OK(train(t, &job, at, STEPS, false, &seen));
            OK(read_all(&m, &cut));
            check_seen(setups[i].name, &seen);
            same(setups[i].name, &cut, &whole);
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
    temp_end();
}

/* A fixed scale stays; a step with NaN is skipped, too, and one at the lower bound keeps the
   scale. */
static void a_scale_keeps_to_its_bounds(void **state)
{
    static struct result is;
    struct seen seen;
    (void)state;
    struct job job = { { SGD, .loss_scale = SCALE }, 1, STEPS };
    run_on(&setups[1], &job, false, &is, &seen);
    for (int i = 0; i < STEPS; i++)
        assert_true(seen.scales[i] == SCALE && seen.is_skipped[i] == (i == BAD));
    job.optimizer =
        (struct copse_optimizer_params){ SGD, .loss_scale = SCALE, .loss_scale_interval = 2,
                                         .loss_scale_growth = 4.0f,
                                         .loss_scale_backoff = 0x1p-20f };
    run_on(&setups[1], &job, false, &is, &seen);
    static const float scales[STEPS] = { SCALE, SCALE, 1, 1, 4, 4, 16 };
    for (int i = 0; i < STEPS; i++)
        if (seen.scales[i] != scales[i])
            fail_msg("step %d: scale %g, not %g", i, (double)seen.scales[i], (double)scales[i]);
}

/* ---- updates of the loss function ---- */

struct counting {
    struct model m;
    copse_variable *count;
};

static copse_tensor *counting_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct counting *c = user;
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1.0);
    copse_tensor *sum = copse_add(g, copse_variable_tensor(c->count), one);
    copse_update(g, c->count, sum);
    return model_loss(g, in, &c->m);
}

static void a_skipped_step_assigns_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const float zero = 0;
        struct counting c;
        copse_trainer *t;
        float count;
        copse_strategy *st = make_strategy(&setups[i]);
        const struct job job = { scaled(&plain[0]), 1, STEPS };
        OK(model_create(&c.m, st));
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = "count",
                                             .shape = COPSE_SCALAR,
                                             .values = &zero,
                                             .is_frozen = true,
                                             .aggregation = COPSE_AGGREGATION_MEAN },
            &c.count));
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){ .loss = counting_loss,
                                                                .user = &c,
                                                                .reduction = COPSE_LOSS_SUM,
                                                                .optimizer = job.optimizer },
                                &t));
        OK(train(t, &job, 0, STEPS, false, NULL));
        OK(copse_variable_read(c.count, 0, &count));
        if (count != STEPS - 1)
            fail_msg("%s: %g assignments in %d steps with one skipped", setups[i].name,
                     (double)count, STEPS);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* ---- tower optimizers ---- */

struct tower {
    struct model *m;
    copse_tower_optimizer *t;
    int step;
    bool is_bad;
};

/* Differentiates its rows; the large element comes into the gradient of the last replica. */
static copse_status minimize(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **out)
{
    static _Thread_local float rows[ROWS * ALL];
    const struct tower *w = user;
    const uint32_t rank = copse_replica_id(rc), all = copse_replica_count(rc);
    uint32_t n = 0;
    (void)args;
    (void)count;
    (void)out;
    for (uint32_t r = rank; r < ROWS; r += all)
        memcpy(rows + (size_t)n++ * ALL, data_x[w->step % SETS] + (size_t)r * ALL,
               ALL * sizeof *rows);
    if (w->is_bad && rank + 1 == all)
        rows[5003] = LARGE;
    copse_value *x;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(n, ALL), rows, &x));
    const struct copse_tower_loss of = { .loss = model_loss, .user = w->m, .x = x };
    const copse_status s = copse_tower_minimize(w->t, &of, NULL, 0, true, NULL);
    copse_value_release(&x);
    return s;
}

static copse_status run_tower(copse_strategy *st, const struct copse_optimizer_params *p,
                              bool leaves_out, struct result *out, struct seen *seen)
{
    struct model m;
    struct tower w = { .m = &m };
    COPSE_TRY(model_create(&m, st));
    COPSE_TRY(copse_tower_create(
        st, &(struct copse_tower_params){ .optimizer = *p, .reduction = COPSE_LOSS_SUM }, &w.t));
    copse_status s = COPSE_OK;
    for (w.step = 0; w.step < STEPS && !s; w.step++) {
        w.is_bad = w.step == BAD;
        if (w.is_bad && leaves_out)
            continue;
        seen->scales[w.step] = copse_tower_loss_scale(w.t);
        s = copse_strategy_run(st, minimize, NULL, 0, &w, NULL);
        seen->is_skipped[w.step] = copse_tower_is_skipped(w.t);
        if (!s)
            s = copse_tower_finish(w.t);
    }
    if (!s && copse_tower_steps(w.t) != STEPS - 1)
        s = copse_fail(COPSE_ERR_INTERNAL, "%llu updates",
                       (unsigned long long)copse_tower_steps(w.t));
    if (!s)
        s = read_all(&m, out);
    copse_tower_release(&w.t);
    return s;
}

static copse_status tower_in_worker(struct worker *w, copse_strategy *st)
{
    const struct job *job = w->job;
    return run_tower(st, &job->optimizer, false, &of_worker[w->rank], &by_worker[w->rank]);
}

static void tower_optimizers_skip(void **state)
{
    static struct result is, want;
    struct worker w[2];
    (void)state;
    for (int i = 0; i < SETUPS; i++) {
        const struct job job = { scaled(&plain[0]), 1, STEPS };
        struct seen seen;
        copse_strategy *st = make_strategy(&setups[i]);
        OK(run_tower(st, &job.optimizer, true, &want, &seen));
        copse_strategy_release(&st);
        st = make_strategy(&setups[i]);
        OK(run_tower(st, &job.optimizer, false, &is, &seen));
        check_seen(setups[i].name, &seen);
        same(setups[i].name, &is, &want);
        copse_strategy_release(&st);
        if (i > 0)
            continue;
        host_alone();
        run_workers_over(&copse__transport_local, w, 2, 2, &job, tower_in_worker);
        devices_back();
        assert_all_ok(w, 2);
        for (int v = 0; v < 2; v++) {
            check_seen("a worker", &by_worker[v]);
            same("a worker", &of_worker[v], &want);
        }
    }
}

static void settings_are_checked(void **state)
{
    static const struct {
        struct copse_optimizer_params p;
        const char *word;
    } wrong[] = {
        { { .loss_scale = 0.5f }, "loss_scale is 0.5" },
        { { .loss_scale = -2.0f }, "loss_scale is -2" },
        { { .loss_scale = NAN }, "loss_scale is " },
        { { .loss_scale = INFINITY }, "loss_scale is inf" },
        { { .loss_scale_interval = 3 }, "loss_scale_interval is 3" },
        { { .loss_scale = 2.0f, .loss_scale_growth = 1.0f }, "loss_scale_growth is 1" },
        { { .loss_scale = 2.0f, .loss_scale_growth = NAN }, "loss_scale_growth is " },
        { { .loss_scale = 2.0f, .loss_scale_backoff = 1.0f }, "loss_scale_backoff is 1" },
        { { .loss_scale = 2.0f, .loss_scale_backoff = -1.0f }, "loss_scale_backoff is -1" },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
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
        cmocka_unit_test(a_scale_changes_no_bit),
        cmocka_unit_test(an_update_that_is_not_finite_is_skipped),
        cmocka_unit_test(workers_skip_together),
        cmocka_unit_test(a_checkpoint_has_the_scale),
        cmocka_unit_test(a_scale_keeps_to_its_bounds),
        cmocka_unit_test(a_skipped_step_assigns_nothing),
        cmocka_unit_test(tower_optimizers_skip),
        cmocka_unit_test(settings_are_checked),
    };
    make_data();
    make_bad();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
