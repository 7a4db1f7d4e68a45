/* SPDX-License-Identifier: MIT */
/* Results of steps on several workers. Some workers take them and others do not; a fault that one
   worker finds reaches all. */
#include <math.h>

#include "tests/rig/workers/worker_rig.h"

#define STEPS 30

/* loss = w * mean of x */
static copse_tensor *scaled_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *w = user;
    copse_tensor *x = copse_mean(g, rig_x(in), NULL, 0, false);
    return copse_mul(g, x, copse_variable_tensor(*w));
}

/* The second batch has a NaN. The first worker takes every result, and does not mind; the others
   take none, so that the trainer does when its memory is full. seen: the step that was refused, how
   many were, steps done. */
static copse_status mind_or_not(struct worker *w, copse_strategy *st)
{
    static const float one = 1;
    float x[4] = { 1, 2, 3, 4 };
    copse_variable *v;
    copse_trainer *t;
    struct copse_step_result r;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .values = &one }, &v));
    COPSE_TRY(copse_trainer_create(st,
                                   &(struct copse_trainer_params){
                                       .loss = scaled_loss,
                                       .user = &v,
                                       .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                   &t));
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < STEPS && (s == COPSE_OK || s == COPSE_ERR_NONFINITE); i++) {
        x[0] = i == 1 ? NAN : 1.0f;
        s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
        if (s == COPSE_ERR_NONFINITE && w->seen[1]++ == 0) {
            w->seen[0] = i;
            snprintf(w->path, sizeof w->path, "%.60s", copse_last_error());
        }
        while (w->rank == 0 && copse_trainer_result(t, true, &r) != COPSE_ERR_END)
            ;
    }
    w->seen[2] = (uint32_t)copse_trainer_steps(t);
    copse_trainer_release(&t);
    return s == COPSE_ERR_NONFINITE ? COPSE_OK : s;
}

static void a_loss_that_one_worker_finds_reaches_all(void **state)
{
    struct worker w[3];
    (void)state;
    host_alone();
    run_workers(w, 3, 1, mind_or_not);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        assert_true(w[v].seen[0] > 1 && w[v].seen[0] < STEPS);
        assert_int_equal(w[v].seen[0], w[0].seen[0]);
        assert_int_equal(w[v].seen[1], w[0].seen[1]);
        /* left out by all, and the job goes on */
        assert_int_equal(w[v].seen[2], STEPS - w[0].seen[1]);
    }
    /* of the two that found it the one that is heard first */
    if (!strstr(w[0].path, "worker 1 (h1:1) could not take part") &&
        !strstr(w[0].path, "worker 2 (h2:1) could not take part"))
        fail_msg("worker 0: '%s'", w[0].path);
    assert_non_null(strstr(w[1].path, "the loss of step 2 is NaN"));
    devices_back();
}

/* An update of the second worker is changed between two steps: all workers stop at the audit. */
static copse_status differ(struct worker *w, copse_strategy *st)
{
    static const float one = 1, wrong = 1.5f;
    const float x[4] = { 1, 2, 3, 4 };
    copse_variable *v;
    copse_trainer *t;
    struct copse_step_result r;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .values = &one }, &v));
    COPSE_TRY(copse_trainer_create(st,
                                   &(struct copse_trainer_params){
                                       .loss = scaled_loss,
                                       .user = &v,
                                       .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                   &t));
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < 8 && s == COPSE_OK; i++) {
        if (i == 5 && w->rank == 1) {
            const struct copse_binding at = copse__variable_values(v, 0);
            COPSE_TRY(copse_queue_write(st->replicas[0].queue, at.buffer, at.offset, &wrong,
                                        sizeof wrong));
        }
        s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
        if (s == COPSE_OK)
            s = copse_trainer_result(t, true, &r);
        w->seen[0] = i + 1;
    }
    if (s == COPSE_ERR_UNRELIABLE)
        snprintf(w->path, sizeof w->path, "%.60s", copse_last_error());
    w->seen[1] = s == COPSE_ERR_UNRELIABLE;
    copse_trainer_release(&t);
    return COPSE_OK;
}

static void values_that_differ_between_workers_are_found(void **state)
{
    struct worker w[3];
    (void)state;
    host_alone();
    run_workers(w, 3, 1, differ);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        if (!w[v].seen[1] || w[v].seen[0] != 6 ||
            !strstr(w[v].path, "audit of step 6: this worker (host:0) and w"))
            fail_msg("worker %u: step %u: %s", v, (unsigned)w[v].seen[0], w[v].path);
    }
    devices_back();
}

/* Train, restore and train again. No result is taken before the last step. */
static copse_status restore_without_taking(struct worker *w, copse_strategy *st)
{
    static const float one = 1;
    const float x[4] = { 1, 2, 3, 4 };
    const char *path = "test_results_across.safetensors";
    copse_variable *v;
    copse_trainer *t;
    struct copse_step_result r;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .values = &one }, &v));
    COPSE_TRY(copse_trainer_create(st,
                                   &(struct copse_trainer_params){
                                       .loss = scaled_loss,
                                       .user = &v,
                                       .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.01f } },
                                   &t));
    copse_status s = copse_trainer_checkpoint(t, path, NULL);
    for (uint32_t i = 0; i < 10 && s == COPSE_OK; i++) {
        if (i == 5)
            s = copse_trainer_restore(t, path, NULL, NULL);
        if (s == COPSE_OK)
            s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
    }
    while (s == COPSE_OK && (s = copse_trainer_result(t, true, &r)) == COPSE_OK)
        w->seen[0]++;
    copse_trainer_release(&t);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

static void results_from_before_a_restore_are_dropped(void **state)
{
    struct copse_memory_stats before, after;
    struct worker w[3];
    (void)state;
    host_alone();
    copse_context_memory(ctx, &before);
    run_workers(w, 3, 1, restore_without_taking);
    copse_context_memory(ctx, &after);
    devices_back();
    remove("test_results_across.safetensors");
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++)
        assert_int_equal(w[v].seen[0], 5);
    assert_int_equal(after.live_blocks, before.live_blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_differ_between_workers_are_found),
        cmocka_unit_test(a_loss_that_one_worker_finds_reaches_all),
        cmocka_unit_test(results_from_before_a_restore_are_dropped),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
