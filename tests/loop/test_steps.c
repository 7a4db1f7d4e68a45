/* SPDX-License-Identifier: MIT */
/* Steps: sums of gradients, several iterations, the end of data, outputs of the last iteration. */
#include <math.h>

#include "copse/compat/single_loss.h"

#include "tests/rig/one_context.h"

#include "tests/rig/train/train_job.h"

/* ---- one weight: loss (w x + b - 1)^2 ---- */

struct line {
    const float *x;
    size_t rows;
    const char *devices[8];
    size_t replicas;
    bool has_bias;
    bool is_constant; /* the loss is the mean of x instead */
    uint32_t iterations;
    const struct copse_output_params *outputs;
    size_t output_count;
    copse_variable *w, *b;
};

static copse_tensor *line_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *loss = NULL;
    const struct line *l = user;
    if (l->is_constant) {
        loss = copse_mean(g, rig_x(in), NULL, 0, false);
        copse_report(g, "again", loss);
        return loss;
    }
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(l->w));
    if (l->has_bias)
        y = copse_add(g, y, copse_variable_tensor(l->b));
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    y = copse_sub(g, y, one);
    y = copse_mul(g, y, y);
    return copse_sum(g, y, NULL, 0, false);
}

static copse_status line_make(void *user, copse_trainer **out)
{
    struct line *l = user;
    copse_strategy *st;
    COPSE_TRY(copse_mirrored_create(ctx, l->devices, l->replicas, NULL, &st));
    copse_status s = copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1) }, &l->w);
    if (s == COPSE_OK)
        s = copse_variable_create(
            st, &(struct copse_variable_params){ .name = "b", .shape = COPSE_SHAPE(1) }, &l->b);
    if (s == COPSE_OK)
        s = copse_trainer_create(st,
                                 &(struct copse_trainer_params){
                                     .loss = line_loss,
                                     .user = l,
                                     .reduction = l->is_constant ? COPSE_LOSS_MEAN : COPSE_LOSS_SUM,
                                     .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.2f } },
                                 out);
    copse_strategy_release(&st);
    return s;
}

static copse_status line_dataset(void *user, copse_strategy *st, copse_dataset **out)
{
    const struct line *l = user;
    const struct copse_array_view x = {
        .type = COPSE_F32, .rank = 2, .shape = { l->rows, 1 }, .data = l->x
    };
    assert_non_null(st);
    return copse_dataset_create(ctx, &x, NULL,
                                &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, out);
}

static copse_step *line_step(struct line *l, size_t batch)
{
    copse_step *step;
    OK(copse_single_loss_step_create(
        ctx,
        &(struct copse_single_loss_params){
            .input = { .dataset = line_dataset,
                       .user = l,
                       .batches = { .batch = batch, .no_shuffle = true } },
            .make = line_make,
            .make_user = l,
            .iterations_per_step = l->iterations,
            .outputs = l->outputs,
            .output_count = l->output_count },
        &step));
    return step;
}

static void line_devices(struct line *l, size_t replicas, size_t mixture)
{
    struct job j = { 0 };
    job_devices(ctx, &j, mixture ? 7 : 3); /* five devices */
    l->replicas = replicas;
    for (size_t r = 0; r < replicas; r++)
        l->devices[r] = j.devices[r % 5];
}

static float value(copse_variable *v, uint32_t replica)
{
    float x = NAN;
    OK(copse_variable_read(v, replica, &x));
    return x;
}

static void check_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-6 * fmax(1.0, fabs(wanted))))
        fail_msg("%.9g instead of %.9g", got, wanted);
}

static const float ones[60] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
};

/* Gradients of replicas are added: N replicas with the same data take a step N times as long. */
static void step_1(void **state)
{
    (void)state;
    for (size_t mixture = 0; mixture < job_mixtures(ctx) / 4; mixture++)
        for (size_t n = 1; n <= 6; n++) {
            struct line l = { .x = ones, .rows = 60 };
            line_devices(&l, n, mixture);
            copse_step *step = line_step(&l, n);
            double error = -1.0;
            for (int i = 0; i < 6; i++) {
                OK(copse_step_run(step));
                error *= 1.0 - 0.4 * (double)n;
                for (uint32_t r = 0; r < n; r++)
                    check_near((double)value(l.w, r), 1.0 + error);
            }
            if (n == 5) /* the error only changes its sign */
                check_near((double)value(l.w, 0), 0.0);
            if (n == 6)
                assert_true(fabs((double)value(l.w, 0) - 1.0) > 7.0);
            copse_step_release(&step);
        }
}

static void step_2(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        struct line l = { .x = ones, .rows = 60, .has_bias = true };
        line_devices(&l, n, 1);
        copse_step *step = line_step(&l, n);
        double error = -1.0;
        for (int i = 0; i < 4; i++) {
            OK(copse_step_run(step));
            error *= 1.0 - 0.8 * (double)n;
            check_near((double)value(l.w, 0) + (double)value(l.b, 0), 1.0 + error);
        }
        copse_step_release(&step);
    }
}

/* The data ends inside the third run: what was applied stays applied. */
static void step_3(void **state)
{
    (void)state;
    for (size_t mixture = 0; mixture < job_mixtures(ctx) / 4; mixture++) {
        struct line l = { .x = ones, .rows = 10, .iterations = 2 };
        struct copse_position at;
        line_devices(&l, 2, mixture);
        copse_step *step = line_step(&l, 2);
        OK(copse_step_run(step));
        OK(copse_step_run(step));
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 4);
        check_near((double)value(l.w, 0), 1.0 - 0.2 * 0.2 * 0.2 * 0.2);
        assert_int_equal(copse_step_run(step), COPSE_ERR_END);
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 5);
        check_near((double)value(l.w, 0), 1.0 - 0.2 * 0.2 * 0.2 * 0.2 * 0.2 * -1.0 * -1.0);
        OK(copse_step_position(step, &at));
        assert_int_equal(at.epoch, 0);
        assert_int_equal(at.batch, 5);
        assert_int_equal(copse_step_run(step), COPSE_ERR_END); /* and stays there */
        assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 5);
        copse_step_release(&step);
    }
}

static void step_4(void **state)
{
    (void)state;
    static const float two[2] = { 1, 3 }, three[3] = { 5, 4, 3 };
    static const struct copse_output_params wanted[2] = {
        { .name = "loss", .reduction = COPSE_OUTPUT_MEAN },
        { .name = "again", .reduction = COPSE_OUTPUT_NONE },
    };
    struct copse_output out;
    copse_outputs *outputs;
    for (size_t mixture = 0; mixture < job_mixtures(ctx) / 4; mixture++) {
        /* Three replicas: the last one has no example. */
        for (size_t n = 2; n <= 3; n++) {
            struct line l = {
                .x = two, .rows = 2, .is_constant = true, .outputs = wanted, .output_count = 2
            };
            line_devices(&l, n, mixture);
            copse_step *step = line_step(&l, 2);
            OK(copse_step_run(step));
            OK(copse_step_outputs(step, &outputs));
            OK(copse_outputs_get(outputs, "loss", &out));
            assert_true(out.is_reduced && out.count == 1 && out.values[0] == 2.0);
            OK(copse_outputs_get(outputs, "again", &out));
            assert_true(!out.is_reduced && out.count == n);
            assert_true(out.values[0] == 1.0 && out.values[1] == 3.0);
            assert_true(n == 2 || out.values[2] == 0.0);
            assert_int_equal(copse_outputs_get(outputs, "nothing", &out), COPSE_ERR_ARGUMENT);
            copse_step_release(&step);
        }
        struct line l = { .x = three,
                          .rows = 3,
                          .is_constant = true,
                          .iterations = 3,
                          .outputs = wanted,
                          .output_count = 1 };
        line_devices(&l, 1, mixture);
        copse_step *step = line_step(&l, 1);
        OK(copse_step_run(step));
        OK(copse_step_outputs(step, &outputs));
        OK(copse_outputs_get(outputs, "loss", &out));
        assert_true(out.count == 1 && out.values[0] == 3.0);
        copse_step_release(&step);
    }
    /* Asking for what is not reported. */
    static const struct copse_output_params unknown = { .name = "accuracy" };
    struct line l = {
        .x = two, .rows = 2, .is_constant = true, .outputs = &unknown, .output_count = 1
    };
    line_devices(&l, 1, 0);
    copse_step *step = line_step(&l, 1);
    OK(copse_step_run(step));
    assert_int_equal(copse_step_outputs(step, &outputs), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "accuracy"));
    copse_step_release(&step);
}

static void step_5(void **state)
{
    (void)state;
    copse_outputs *o;
    struct copse_output out;
    void *const *objects;
    size_t count;
    char bar[] = "bar";
    int ids[4] = { 0, 1, 2, 3 };
    OK(copse_outputs_create(ctx, 4, &o));

    assert_int_equal(copse_outputs_set_replica(o, 0, "x", 1.0, COPSE_OUTPUT_NONE),
                     COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "needs a reduction"));
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(copse_outputs_get(o, "x", &out), COPSE_ERR_ARGUMENT); /* not all have */
        OK(copse_outputs_set_replica(o, r, "x", (double)r, COPSE_OUTPUT_SUM));
    }
    OK(copse_outputs_get(o, "x", &out));
    assert_true(out.is_reduced && out.count == 1 && out.values[0] == 6.0);
    for (uint32_t r = 4; r-- > 0;) /* in any order; overwrites */
        OK(copse_outputs_set_replica(o, r, "x", (double)r, COPSE_OUTPUT_MEAN));
    OK(copse_outputs_get(o, "x", &out));
    assert_true(out.values[0] == 1.5);

    /* A round that does not agree is dropped, and the next one is whole. */
    OK(copse_outputs_set_replica(o, 0, "x", 9.0, COPSE_OUTPUT_SUM));
    assert_int_equal(copse_outputs_set_replica(o, 1, "x", 9.0, COPSE_OUTPUT_MEAN),
                     COPSE_ERR_ARGUMENT);
    OK(copse_outputs_set_replica(o, 0, "x", 9.0, COPSE_OUTPUT_SUM));
    assert_int_equal(copse_outputs_set_replica(o, 0, "x", 9.0, COPSE_OUTPUT_SUM),
                     COPSE_ERR_ARGUMENT);
    OK(copse_outputs_get(o, "x", &out));
    assert_true(out.values[0] == 1.5);
    for (uint32_t r = 0; r < 4; r++)
        OK(copse_outputs_set_replica(o, r, "x", 2.0, COPSE_OUTPUT_SUM));
    OK(copse_outputs_get(o, "x", &out));
    assert_true(out.values[0] == 8.0);

    OK(copse_outputs_set(o, "x", (const double[]){ 1, 2, 3, 4 }, COPSE_OUTPUT_NONE));
    OK(copse_outputs_get(o, "x", &out));
    assert_true(!out.is_reduced && out.count == 4 && out.values[3] == 4.0);

    for (uint32_t r = 0; r < 4; r++)
        OK(copse_outputs_set_replica_object(o, r, "same", bar));
    OK(copse_outputs_objects(o, "same", &objects, &count));
    assert_true(count == 1 && objects[0] == bar);
    for (uint32_t r = 0; r < 4; r++)
        OK(copse_outputs_set_replica_object(o, r, "ids", &ids[r]));
    OK(copse_outputs_objects(o, "ids", &objects, &count));
    assert_true(count == 4 && objects[0] == &ids[0] && objects[3] == &ids[3]);
    OK(copse_outputs_set_object(o, "ids", bar));
    OK(copse_outputs_objects(o, "ids", &objects, &count));
    assert_true(count == 1 && objects[0] == bar);
    assert_int_equal(copse_outputs_objects(o, "none", &objects, &count), COPSE_ERR_ARGUMENT);
    copse_outputs_release(&o);
}

static copse_status no_dataset(void *user, copse_strategy *st, copse_dataset **out)
{
    (void)user;
    (void)st;
    *out = NULL;
    return COPSE_OK;
}

static void step_6(void **state)
{
    (void)state;
    copse_step *step;
    struct copse_host_batch batch;
    OK(copse_step_create(ctx, NULL, NULL, NULL, &step));
    assert_int_equal(copse_step_run(step), COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse_step_next(step, &batch), COPSE_ERR_UNSUPPORTED);
    copse_step_release(&step);

    /* The input step is abstract too; it has batches, epoch behind epoch. */
    static const float x[5] = { 1, 2, 3, 4, 5 };
    struct line l = { .x = x, .rows = 5 };
    copse_strategy *st;
    const char *host = "host:0";
    struct copse_input_params input = { .dataset = line_dataset,
                                        .user = &l,
                                        .epochs = 2,
                                        .batches = { .batch = 2, .no_shuffle = true } };
    OK(copse_mirrored_create(ctx, &host, 1, NULL, &st));
    OK(copse_input_step_create(ctx, st, &input, NULL, NULL, &step));
    assert_ptr_equal(copse_step_strategy(step), st);
    assert_int_equal(copse_step_run(step), COPSE_ERR_UNSUPPORTED);
    for (int i = 0; i < 6; i++) {
        OK(copse_step_next(step, &batch));
        assert_true(batch.epoch == (uint32_t)(i / 3) &&
                    rig_floats(&batch)[0] == (float)(1 + i % 3 * 2));
    }
    assert_int_equal(copse_step_next(step, &batch), COPSE_ERR_END);
    OK(copse_step_seek(step, &(struct copse_position){ 1, 2 }));
    OK(copse_step_next(step, &batch));
    assert_true(batch.count == 1 && rig_floats(&batch)[0] == 5.0f);
    assert_int_equal(copse_step_seek(step, &(struct copse_position){ 0, 4 }), COPSE_ERR_ARGUMENT);
    copse_step_release(&step);
    input.dataset = no_dataset;
    assert_int_equal(copse_input_step_create(ctx, st, &input, NULL, NULL, &step),
                     COPSE_ERR_ARGUMENT);
    assert_null(step);
    copse_strategy_release(&st);

    /* No iterations: no update, the initial outputs. */
    static const struct copse_output_params wanted[2] = {
        { .name = "loss", .reduction = COPSE_OUTPUT_SUM, .initial = 7.0 },
        { .name = "again", .reduction = COPSE_OUTPUT_NONE, .initial = -1.0 },
    };
    struct line none = { .x = x,
                         .rows = 5,
                         .iterations = COPSE_NO_ITERATIONS,
                         .is_constant = true,
                         .outputs = wanted,
                         .output_count = 2 };
    struct copse_output out;
    copse_outputs *outputs;
    line_devices(&none, 2, 1);
    step = line_step(&none, 2);
    OK(copse_step_run(step));
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 0);
    OK(copse_step_outputs(step, &outputs));
    OK(copse_outputs_get(outputs, "loss", &out));
    assert_true(out.count == 1 && out.values[0] == 7.0);
    OK(copse_outputs_get(outputs, "again", &out));
    assert_true(out.count == 2 && out.values[1] == -1.0);
    copse_step_release(&step);
}

/* K iterations a step are K steps of one iteration, bit for bit. */
static void iterations_are_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_mixtures(ctx); i += 3) {
        float *values[2];
        for (int k = 0; k < 2; k++) {
            struct job j = { .ctx = ctx, .iterations = k ? 5 : 1, .epochs = 2 };
            copse_step *step;
            copse_status s;
            job_devices(ctx, &j, i);
            OK(job_step(&j, &step));
            while ((s = copse_step_run(step)) == COPSE_OK)
                ;
            assert_int_equal(s, COPSE_ERR_END);
            assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 2 * JOB_BATCHES);
            values[k] = job_values(&j, 0);
            assert_non_null(values[k]);
            copse_step_release(&step);
        }
        assert_memory_equal(values[0], values[1], model_parameters() * sizeof **values);
        free(values[0]);
        free(values[1]);
    }
}

/* Parameters and data move together or not at all: a batch that was not trained comes again. */
static void a_cancelled_step_loses_no_batch(void **state)
{
    (void)state;
    struct job j = { .ctx = ctx };
    copse_step *step;
    struct copse_position at;
    OK(job_step(&j, &step));
    OK(copse_step_run(step));
    copse_trainer_cancel(copse_step_trainer(step));
    assert_int_equal(copse_step_run(step), COPSE_ERR_CANCELLED);
    OK(copse_step_position(step, &at));
    assert_int_equal(at.batch, 1);
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), 1);
    for (int i = 0; i < JOB_BATCHES - 1; i++)
        OK(copse_step_run(step));
    assert_int_equal(copse_step_run(step), COPSE_ERR_END);
    copse_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_1),
        cmocka_unit_test(step_2),
        cmocka_unit_test(step_3),
        cmocka_unit_test(step_4),
        cmocka_unit_test(step_5),
        cmocka_unit_test(step_6),
        cmocka_unit_test(iterations_are_steps),
        cmocka_unit_test(a_cancelled_step_loses_no_batch),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
