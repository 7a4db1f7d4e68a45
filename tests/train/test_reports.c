/* SPDX-License-Identifier: MIT */
/* Reports of a step: as many as a graph may have, by their names; results that nobody takes. */
#include <math.h>

#include "tests/rig/rig.h"

static copse_context *ctx;
static unsigned warnings;
static char warning[256];

static void keep_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level != COPSE_LOG_WARN || !strstr(line, "results wait"))
        return;
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

static int open_context(void **state)
{
    (void)state;
    return copse_context_create(&(struct copse_context_params){ .log = keep_warning }, &ctx) ==
                   COPSE_OK
               ? 0
               : -1;
}

static int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

struct sums {
    copse_variable *w;
    uint32_t count; /* of the reports: r0, r1, ... */
};

/* w mean(x); report i is i times the mean of the shard. */
static copse_tensor *sums_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct sums *s = user;
    copse_tensor *mean = copse_mean(g, copse_input(in, "x"), NULL, 0, false);
    for (uint32_t i = 0; i < s->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%u", i);
        copse_report(g, name, copse_multiply_by(g, mean, (float)i));
    }
    return copse_mul(g, mean, copse_variable_tensor(s->w));
}

static const float numbers[3] = { 1, 2, 6 };
static const struct copse_column column = { "x", COPSE_F32, { 0 }, numbers };
static const struct copse_host_batch three = { .columns = &column, .column_count = 1, .count = 3 };

static copse_trainer *sums_trainer(struct sums *s)
{
    static const char *const devices[] = { "host:0", "host:0" };
    copse_strategy *st;
    copse_trainer *t;
    OK(copse_mirrored_create(ctx, devices, 2, NULL, &st));
    const struct copse_variable_params w = { .name = "w", .initializer = COPSE_INIT_ONES };
    OK(copse_variable_create(st, &w, &s->w));
    const struct copse_trainer_params params = { .loss = sums_loss, .user = s };
    OK(copse_trainer_create(st, &params, &t));
    copse_strategy_release(&st);
    return t;
}

static void a_graph_has_many_reports(void **state)
{
    struct sums s = { .count = COPSE_MAX_REPORTS };
    struct copse_step_result r;
    copse_trainer *t = sums_trainer(&s);
    (void)state;
    OK(copse_trainer_step(t, &three));
    OK(copse_trainer_result(t, true, &r));
    assert_int_equal(r.report_count, COPSE_MAX_REPORTS);
    for (uint32_t i = 0; i < COPSE_MAX_REPORTS; i++) {
        char name[16];
        double value;
        snprintf(name, sizeof name, "r%u", i);
        OK(copse_step_report(&r, name, &value));
        assert_true(fabs(value - 3.0 * i) <= 1e-5 * i);
    }
    copse_trainer_release(&t);
}

static void one_report_more_is_refused(void **state)
{
    struct sums s = { .count = COPSE_MAX_REPORTS + 1 };
    copse_trainer *t = sums_trainer(&s);
    (void)state;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &three),
          "report 'r31': a graph has at most 31 reports (COPSE_MAX_REPORTS)");
    copse_trainer_release(&t);
}

static void a_name_that_is_not_there_lists_the_others(void **state)
{
    struct sums s = { .count = 2 };
    struct copse_step_result r;
    double value = 7;
    copse_trainer *t = sums_trainer(&s);
    (void)state;
    OK(copse_trainer_evaluate(t, &three, &r));
    OK(copse_step_report(&r, "r1", &value));
    assert_true(fabs(value - 3) <= 1e-5);
    FAILS(COPSE_ERR_ARGUMENT, copse_step_report(&r, "r2", &value),
          "report 'r2': there is none, there are r0, r1");
    assert_true(value == 0);
    copse_trainer_release(&t);
    s.count = 0;
    t = sums_trainer(&s);
    OK(copse_trainer_evaluate(t, &three, &r));
    FAILS(COPSE_ERR_ARGUMENT, copse_step_report(&r, "r0", &value), "the result has no reports");
    copse_trainer_release(&t);
}

/* The log says once for each trainer that results are dropped, and from which step on. */
static void dropped_results_are_logged_once(void **state)
{
    struct sums s = { .count = 1 };
    struct copse_step_result r;
    copse_trainer *t = sums_trainer(&s);
    (void)state;
    warnings = 0;
    for (int i = 0; i < COPSE_STEPS_IN_PROGRESS; i++)
        OK(copse_trainer_step(t, &three));
    assert_int_equal(warnings, 0);
    for (int i = 0; i < 5; i++)
        OK(copse_trainer_step(t, &three));
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "8 results wait, so the oldest are dropped, from step 1 on"));
    assert_non_null(strstr(warning, "copse_trainer_result"));
    OK(copse_trainer_result(t, true, &r));
    assert_int_equal(r.step, 6);
    copse_trainer_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_has_many_reports),
        cmocka_unit_test(one_report_more_is_refused),
        cmocka_unit_test(a_name_that_is_not_there_lists_the_others),
        cmocka_unit_test(dropped_results_are_logged_once),
    };
    return cmocka_run_group_tests_name("reports", tests, open_context, close_context);
}
