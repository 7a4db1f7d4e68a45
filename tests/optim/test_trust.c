/* SPDX-License-Identifier: MIT */
/* LARS and LAMB: the norms are those of whole variables, over all replicas and workers, under every
   strategy. Gradients are whole numbers, so that their sums have no error: results must have the
   same bits however they are formed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/train/slots.h"
#include "core/rule/rule.h"
#include "prover/conformance/modes/modes.h"
#include "tests/rig/train/gradient_rig.h"

#define LARS                                                                              \
    {                                                                                     \
        .kind = COPSE_LARS, .learning_rate = 0.5f, .trust = 0.02f, .weight_decay = 0.125f \
    }
#define LAMB                                                               \
    {                                                                      \
        .kind = COPSE_LAMB, .learning_rate = 0.02f, .weight_decay = 0.125f \
    }
#define OWN                                                                              \
    {                                                                                    \
        .kind = COPSE_LAMB, .learning_rate = 0.02f, .groups = "small: decay=0.5, rate=2" \
    }

/* ---- the truth ---- */

static void run_truth(const struct copse_optimizer_params *p, int steps, double *value)
{
    static double g[ALL], slots[3][ALL], size[ALL];
    struct copse_rule rule;
    OK(copse__rule_init(p, &rule));
    memset(slots, 0, sizeof slots);
    for (int i = 0; i < ALL; i++)
        value[i] = (double)first_value(i);
    for (int t = 1; t <= steps; t++) {
        memset(g, 0, sizeof g);
        for (int i = 0; i < ROWS * ALL; i++)
            g[i % ALL] += (double)data_x[(t - 1) % SETS][i];
        for (int k = 0; k < TRAINED; k++) {
            const int at = starts[k];
            const struct copse_conform_variable v = {
                (size_t)counts[k], value + at, { slots[0] + at, slots[1] + at, slots[2] + at }, size
            };
            copse__conform_update(&rule, t, g + at, &v);
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

/* ---- tests ---- */

static void norms_are_those_of_whole_variables(void **state)
{
    static const struct job jobs[] = { { LARS, 1, 1 }, { LARS, 1, 10 }, { LARS, 1, MOST },
                                       { LAMB, 1, 1 }, { LAMB, 1, 10 }, { LAMB, 1, MOST } };
    static struct result is;
    static double want[ALL];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(jobs); k++)
        for (int s = 0; s < SETUPS; s++) {
            if (jobs[k].steps == MOST && s > 0)
                continue;
            run_truth(&jobs[k].optimizer, jobs[k].steps, want);
            run_on(&setups[s], &jobs[k], &is);
            for (int i = 0; i < ALL; i++)
                if (!(fabs((double)is.value[i] - want[i]) <= 4e-7 * (10 + jobs[k].steps)))
                    fail_msg("%s, %s, %d steps: value %d is %.9g, not %.9g",
                             jobs[k].optimizer.kind == COPSE_LARS ? "lars" : "lamb", setups[s].name,
                             jobs[k].steps, i, (double)is.value[i], want[i]);
        }
}

/* LARS has only products and sums; the roots and quotients of LAMB are rounded by each device. */
static void every_strategy_has_the_same_bits(void **state)
{
    static const struct job jobs[] = {
        { LARS, 1, 10 }, { LARS, 3, 4 }, { LAMB, 1, 10 }, { LAMB, 3, 4 }, { OWN, 1, 4 }
    };
    static struct result want, is;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(jobs); k++) {
        run_on(&setups[0], &jobs[k], &want);
        for (int i = 1; i < SETUPS; i++) {
            if (setups[i].is_mixed && jobs[k].optimizer.kind == COPSE_LAMB)
                continue;
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

static void workers_have_the_same_bits(void **state)
{
    static const struct job jobs[] = { { LARS, 1, 10 }, { LAMB, 1, 10 }, { OWN, 3, 4 } };
    static struct result want;
    struct worker w[3];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(jobs); k++) {
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

/* Row 0 of the first set has `x` at element `at` while the job runs. */
static void run_special(const struct setup *s, const struct job *job, int at, float x,
                        struct result *out)
{
    const float kept = data_x[0][at];
    data_x[0][at] = x;
    run_on(s, job, out);
    data_x[0][at] = kept;
}

static void a_number_that_is_not_finite_stays_with_its_variable(void **state)
{
    static const struct job jobs[] = { { LARS, 1, 1 }, { LAMB, 1, 1 } };
    static struct result is, want;
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(jobs); k++) {
        run_on(&setups[0], &jobs[k], &want);
        for (int i = 0; i < SETUPS; i++) {
            if (setups[i].is_mixed)
                continue;
            run_special(&setups[i], &jobs[k], 5003, NAN, &is);
            for (int v = 0; v < ALL; v++) {
                const bool is_small = v >= starts[1] && v < starts[1] + counts[1];
                if (is_small ? !isnan(is.value[v]) : is.value[v] != want.value[v])
                    fail_msg("%s: value %d is %g", setups[i].name, v, (double)is.value[v]);
            }
        }
    }
}

/* The update of the first step is skipped: values and slots are those before it. */
static void scaled_updates_are_skipped_whole(void **state)
{
    static const struct copse_optimizer_params rules[] = { LARS, LAMB };
    static struct result is;
    static float slot[5000];
    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(rules); k++)
        for (int i = 0; i < SETUPS; i++) {
            struct job job = { rules[k], 1, 1 };
            struct model m;
            copse_trainer *t;
            copse_strategy *st = make_strategy(&setups[i]);
            job.optimizer.loss_scale = 4.0f;
            data_x[0][5003] = INFINITY;
            OK(create(st, &job, &m, &t));
            OK(train(t, &job));
            data_x[0][5003] = 1.0f;
            OK(read_all(&m, &is));
            OK(copse_trainer_slot(t, m.v[0], "v", slot));
            for (int v = 0; v < ALL; v++)
                assert_true(is.value[v] == first_value(v));
            for (int v = 0; v < counts[0]; v++)
                assert_true(slot[v] == 0.0f);
            OK(train(t, &job));
            OK(read_all(&m, &is));
            assert_true(is.value[0] != first_value(0));
            copse_trainer_release(&t);
            copse_strategy_release(&st);
        }
}

/* Norms of 0 have the factor 1: of values that are 0, LAMB goes by the rate alone. */
static void zeros_have_the_factor_one(void **state)
{
    struct copse_rule rule;
    (void)state;
    OK(copse__rule_init(&(struct copse_optimizer_params)LARS, &rule));
    assert_true(copse__rule_trust(&rule, 3.0, 0.0, 1.0f) == 1.0f);
    assert_true(copse__rule_trust(&rule, 0.0, 2.0, 1.0f) == 0.02f / 0.125f);
    assert_true(copse__rule_trust(&rule, 4.0, 8.0, 0.5f) == (float)((double)0.02f * 8.0 / 3.0));
    assert_true(isnan(copse__rule_trust(&rule, (double)NAN, 2.0, 1.0f)));
    OK(copse__rule_init(&(struct copse_optimizer_params)LAMB, &rule));
    assert_true(copse__rule_trust(&rule, 3.0, 0.0, 1.0f) == 1.0f &&
                copse__rule_trust(&rule, 0.0, 3.0, 1.0f) == 1.0f);
    assert_true(copse__rule_trust(&rule, 4.0, 2.0, 0.125f) == 0.5f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_whole_variables),
        cmocka_unit_test(every_strategy_has_the_same_bits),
        cmocka_unit_test(workers_have_the_same_bits),
        cmocka_unit_test(a_number_that_is_not_finite_stays_with_its_variable),
        cmocka_unit_test(scaled_updates_are_skipped_whole),
        cmocka_unit_test(zeros_have_the_factor_one),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
