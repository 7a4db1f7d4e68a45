/* SPDX-License-Identifier: MIT */
/* Outputs of steps on several workers: those of all replicas of all workers, the same on each. */
#include "copse/compat/single_loss.h"
#include "copse/loop/step.h"
#include "copse/ops.h"
#include "tests/rig/workers/worker_rig.h"

/* ---- a single-loss step: two workers with one example each ---- */

struct single {
    copse_strategy *st;
    copse_variable *w;
};

/* The mean of x, and 0 w. */
static copse_tensor *constant_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct single *u = user;
    copse_tensor *loss = copse_mean(g, rig_x(in), NULL, 0, false);
    copse_tensor *zero = copse_multiply_by(g, copse_variable_tensor(u->w), 0);
    loss = copse_add(g, loss, zero);
    copse_tensor *three = copse_fill(g, COPSE_F32, COPSE_SCALAR, 3);
    copse_report(g, "constant", three);
    copse_report(g, "value", loss);
    return loss;
}

static copse_status constant_make(void *user, copse_trainer **out)
{
    struct single *u = user;
    return copse_trainer_create(
        u->st,
        &(struct copse_trainer_params){ .loss = constant_loss,
                                        .user = u,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.5f } },
        out);
}

static copse_status constant_data(void *user, copse_strategy *st, copse_dataset **out)
{
    static const float x[] = { 4, 5 };
    const struct copse_array_view view = {
        .type = COPSE_F32, .rank = 2, .shape = { 2, 1 }, .data = x
    };
    (void)user, (void)st;
    return copse_dataset_create(ctx, &view, NULL,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

static const struct copse_output_params wanted[] = {
    { "loss", COPSE_OUTPUT_MEAN, 7 },
    { "constant", COPSE_OUTPUT_MEAN, 0 },
    { "value", COPSE_OUTPUT_SUM, 0 },
};

/* values: count and value of each output, first the initial ones. */
static copse_status put_outputs(struct worker *w, copse_step *step, float *to)
{
    copse_outputs *outputs;
    (void)w;
    COPSE_TRY(copse_step_outputs(step, &outputs));
    for (size_t i = 0; i < COPSE_COUNT(wanted); i++) {
        struct copse_output out;
        COPSE_TRY(copse_outputs_get(outputs, wanted[i].name, &out));
        *to++ = (float)out.count;
        *to++ = (float)out.values[0];
    }
    return COPSE_OK;
}

static copse_status known_figures(struct worker *w, copse_strategy *st)
{
    struct single u = { .st = st };
    copse_step *step;
    COPSE_TRY(copse_variable_create(st, &(struct copse_variable_params){ .name = "w" }, &u.w));
    COPSE_TRY(copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = constant_data, .batches = { .batch = 2, .no_shuffle = true } },
            .make = constant_make,
            .make_user = &u,
            .outputs = wanted,
            .output_count = COPSE_COUNT(wanted) },
        &step));
    copse_status s = put_outputs(w, step, w->values);
    if (!s)
        s = copse_step_run(step);
    if (!s)
        s = put_outputs(w, step, w->values + 6);
    copse_step_release(&step);
    return s;
}

static void outputs_of_a_single_loss_step_are_those_of_all_workers(void **state)
{
    static const float expected[] = { 1, 7, 1, 0, 1, 0, 1, 4.5f, 1, 3, 1, 9 };
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, known_figures);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++)
        for (size_t i = 0; i < COPSE_COUNT(expected); i++)
            if (w[v].values[i] != expected[i])
                fail_msg("worker %u, number %zu: %g, not %g", v, i, (double)w[v].values[i],
                         (double)expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_a_single_loss_step_are_those_of_all_workers),
    };
    return cmocka_run_group_tests_name("steps_across", tests, open_workers, close_workers);
}
