/* SPDX-License-Identifier: MIT */
/* Steps of an application on the accelerator strategy: one is a run, its outputs are those of the
   last step in it, and the batches of a run that fails come again. */
#include "copse/compat/single_loss.h"
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "copse/train/audit.h"

#include "tests/rig/value/accelerator_rig.h"

/* ---- TPU-2: outputs are those of the last step; none: the initial values ---- */

struct levels {
    copse_variable *w;
    uint32_t cores, steps_per_run, accumulate;
    const char *id;
    uint64_t cancelled_in; /* this update */
    copse_trainer *t;
};

static float cancelling(void *user, uint64_t step);

/* The loss is the mean of the examples, "level" the same; w moves by itself. */
static copse_tensor *levels_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct levels *l = user;
    copse_tensor *mean = copse_mean(g, rig_x(in), NULL, 0, false);
    copse_report(g, "level", mean);
    copse_tensor *w = copse_sum(g, copse_variable_tensor(l->w), NULL, 0, false);
    return copse_add(g, mean, w);
}

static copse_status levels_make(void *user, copse_trainer **out)
{
    struct levels *l = user;
    const char *const ids[3] = { l->id, l->id, l->id };
    copse_strategy *st;
    COPSE_TRY(copse_accelerator_create(
        ctx, ids, 3,
        &(struct copse_accelerator_params){ .cores = l->cores, .steps_per_run = l->steps_per_run },
        &st));
    copse_status s = copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1) }, &l->w);
    if (s == COPSE_OK)
        s = copse_trainer_create(
            st,
            &(struct copse_trainer_params){ .loss = levels_loss,
                                            .user = l,
                                            .optimizer = { .kind = COPSE_SGD,
                                                           .learning_rate = 0.25f,
                                                           .schedule = cancelling,
                                                           .schedule_user = l },
                                            .accumulate = l->accumulate },
            out);
    copse_strategy_release(&st);
    return s;
}

static const float steps_of_levels[14] = { 5, 7, 4, 8, 3, 9, 1, 3, 2, 6, 10, 14, 0, 1 };

static copse_status levels_data(void *user, copse_strategy *st, copse_dataset **out)
{
    const struct copse_array_view x = { COPSE_F32, 2, { 14, 1 }, steps_of_levels };
    (void)user, (void)st;
    return copse_dataset_create(ctx, &x, NULL,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

static const struct copse_output_params level_outputs[] = {
    { "level", COPSE_OUTPUT_NONE, 77.0 },
    { "loss", COPSE_OUTPUT_MEAN, 88.0 },
};

static copse_status levels_step(struct levels *l, size_t batch, bool drop_last, uint32_t iterations,
                                copse_step **out)
{
    return copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = levels_data,
                       .batches = { .batch = batch, .no_shuffle = true, .drop_last = drop_last } },
            .make = levels_make,
            .make_user = l,
            .iterations_per_step = iterations,
            .outputs = level_outputs,
            .output_count = 2 },
        out);
}

static struct copse_output output_of(copse_step *step, const char *name)
{
    struct copse_output o;
    copse_outputs *table;
    OK(copse_step_outputs(step, &table));
    OK(copse_outputs_get(table, name, &o));
    return o;
}

static void tpu_2(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        struct levels l = { .cores = 2, .steps_per_run = 3, .id = backends[b] };
        copse_step *step;
        if (!is_found(l.id))
            continue;
        OK(levels_step(&l, 2, false, COPSE_NO_ITERATIONS, &step));
        OK(copse_step_run(step));
        struct copse_output o = output_of(step, "level");
        assert_true(o.count == 2 && o.values[0] == 77.0 && o.values[1] == 77.0);
        assert_true(output_of(step, "loss").values[0] == 88.0);
        assert_true(rig_value(l.w, 0) == 0.0f);
        copse_step_release(&step);

        OK(levels_step(&l, 2, false, 0, &step)); /* as many as the strategy has to a run */
        OK(copse_trainer_audit(copse_step_trainer(step),
                               &(struct copse_audit_params){ .is_cross_check_off = true }));
        const uint64_t before = copse_strategy_submissions(copse_step_strategy(step));
        OK(copse_step_run(step));
        assert_int_equal(copse_strategy_submissions(copse_step_strategy(step)), before + 1);
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 3);
        o = output_of(step, "level"); /* examples 3 and 9 */
        assert_true(o.count == 2 && o.values[0] == 3.0 && o.values[1] == 9.0);
        assert_true(output_of(step, "loss").values[0] == 6.0 - 0.5); /* w was -1/4 twice before */
        OK(copse_step_run(step));
        o = output_of(step, "level");
        assert_true(o.values[0] == 10.0 && o.values[1] == 14.0);
        /* One batch is left: it is run, and then the data has ended. */
        assert_int_equal(copse_step_run(step), COPSE_ERR_END);
        o = output_of(step, "level");
        assert_true(o.values[0] == 0.0 && o.values[1] == 1.0);
        assert_true(rig_value(l.w, 0) == -7 * 0.25f && rig_value(l.w, 1) == -7 * 0.25f);
        copse_step_release(&step);

        OK(levels_step(&l, 2, false, 5, &step)); /* runs of 3 and 2 */
        OK(copse_step_run(step));
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 5);
        assert_true(output_of(step, "level").values[0] == 2.0);
        copse_step_release(&step);
    }
}

/* What a run did not reach comes again. */
static void batches_of_a_run_that_fails_come_again(void **state)
{
    struct levels l = { .cores = 2, .steps_per_run = 3, .id = "host:0" };
    copse_step *step;
    (void)state;
    OK(levels_step(&l, 2, false, 0, &step));
    OK(copse_step_run(step));
    copse_trainer_cancel(copse_step_trainer(step));
    FAILS(COPSE_ERR_CANCELLED, copse_step_run(step),
          "in a run of 3 batches, at batch 3 of epoch 0");
    assert_int_equal(copse_trainer_fed(copse_step_trainer(step)), 0);
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 3);
    OK(copse_step_run(step));
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 6);
    assert_true(output_of(step, "level").values[0] == 10.0);
    assert_true(rig_value(l.w, 1) == -6 * 0.25f);
    copse_step_release(&step);
}

static float cancelling(void *user, uint64_t step)
{
    struct levels *l = user;
    if (step == l->cancelled_in)
        copse_trainer_cancel(l->t);
    return 0.25f;
}

/* Runs of 3, two batches to an update: the first batch of the update that is cut is in the run
   before, and comes again with it. */
static void gathered_batches_of_a_run_that_fails_come_again(void **state)
{
    struct levels l = {
        .cores = 2, .steps_per_run = 3, .accumulate = 2, .cancelled_in = 3, .id = "host:0"
    };
    copse_step *step;
    (void)state;
    OK(levels_step(&l, 2, false, 3, &step));
    l.t = copse_step_trainer(step);
    FAILS(COPSE_ERR_CANCELLED, copse_step_run(step),
          "in a run of 3 batches, at batch 3 of epoch 0");
    assert_int_equal(copse_trainer_accumulated(l.t), 0);
    assert_int_equal(copse_trainer_steps(l.t), 1);
    l.cancelled_in = 0;
    struct copse_position at;
    OK(copse_step_position(step, &at));
    assert_int_equal(at.batch, 2);
    copse_step_release(&step);
}

/* ---- TPU-4 ---- */

static void tpu_4_of_a_step(void **state)
{
    struct levels l = { .cores = 1, .steps_per_run = 2, .id = "host:0" };
    copse_step *step;
    (void)state;
    /* It knows when it is made. */
    FAILS(COPSE_ERR_ARGUMENT, levels_step(&l, 4, false, 2, &step), "drop_last");
    OK(levels_step(&l, 4, true, 2, &step));
    OK(copse_step_run(step));
    assert_int_equal(copse_step_run(step), COPSE_ERR_END);
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 3);
    copse_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tpu_2),
        cmocka_unit_test(batches_of_a_run_that_fails_come_again),
        cmocka_unit_test(gathered_batches_of_a_run_that_fails_come_again),
        cmocka_unit_test(tpu_4_of_a_step),
    };
    return cmocka_run_group_tests_name("accelerator_steps", tests, open_context, close_context);
}
