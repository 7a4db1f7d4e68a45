/* SPDX-License-Identifier: MIT */
/* copse_trainer_fit: the bits and the means of a loop of steps, whatever the way of the steps; how
   it ends; what its epoch function may do. And copse_strategy_open. */
#include <math.h>
#include <stdlib.h>

#include "copse/distribute/accelerator.h"
#include "tests/rig/train/step_rig.h"
#include "tests/rig/train/train_model.h"

enum { ROWS = 70, BATCH = 16, EPOCHS = 3, VALUES = 2048 };

struct job {
    copse_strategy *st;
    struct model *m; /* on the heap: the trainer has its address */
    copse_dataset *data, *held_out;
    copse_loader *batches, *held_batches;
    copse_trainer *t;
};

static float x[MODEL_ROWS * MODEL_IN];
static int32_t y[MODEL_ROWS];

static copse_dataset *dataset_of(const float *from, size_t rows)
{
    copse_dataset *data = NULL;
    const struct copse_array_view xs = { COPSE_F32, 2, { rows, MODEL_IN }, from };
    const struct copse_array_view ys = { COPSE_I32, 1, { rows }, y };
    OK(copse_dataset_create(ctx, &xs, &ys,
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, &data));
    return data;
}

/* A trainer on `st`, which the job takes, and batches of its own. */
static struct job begin(copse_strategy *st, struct copse_trainer_params params)
{
    struct job j = { .st = st };
    model_data(x, y);
    j.m = calloc(1, sizeof *j.m);
    assert_non_null(j.m);
    OK(model_create(j.m, st));
    j.data = dataset_of(x, ROWS);
    j.held_out = dataset_of(x, 33);
    OK(copse_loader_create(j.data, &(struct copse_loader_params){ .batch = BATCH, .seed = 4 },
                           &j.batches));
    OK(copse_loader_create(j.held_out,
                           &(struct copse_loader_params){ .batch = BATCH, .no_shuffle = true },
                           &j.held_batches));
    params.loss = model_loss;
    params.user = j.m;
    OK(copse_trainer_create(st, &params, &j.t));
    return j;
}

static void end(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_loader_release(&j->batches);
    copse_loader_release(&j->held_batches);
    copse_dataset_release(&j->data);
    copse_dataset_release(&j->held_out);
    copse_strategy_release(&j->st);
    free(j->m);
}

static void read_all(const struct job *j, float *out)
{
    memset(out, 0, VALUES * sizeof *out);
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        const copse_shape s = copse_variable_shape(j->m->variables[v]);
        OK(copse_variable_read(j->m->variables[v], 0, out));
        out += s.rank == 2 ? s.dims[0] * s.dims[1] : s.dims[0];
    }
}

/* ---- the same as a loop ---- */

struct epochs {
    uint32_t count, stop_after;
    struct copse_epoch at[EPOCHS];
    copse_status answer;
};

static copse_status keep_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct epochs *to = user;
    to->at[to->count++] = *e;
    *stop = to->count == to->stop_after;
    return to->answer;
}

/* The loop that copse_trainer_fit stands for, a step at a time; means over the examples of an
   epoch. */
static void loop(struct job *j, double loss[EPOCHS], double accuracy[EPOCHS])
{
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct copse_host_batch batch;
        struct copse_step_result r;
        copse_status s;
        double examples = 0, accumulated = 0;
        loss[epoch] = accuracy[epoch] = 0;
        OK(copse_loader_start(j->batches, epoch, 0));
        for (bool is_over = false; !is_over;) {
            s = copse_loader_next(j->batches, &batch);
            is_over = s == COPSE_ERR_END;
            if (is_over) {
                OK(copse_trainer_flush(j->t));
            } else {
                OK(s);
                OK(copse_trainer_step(j->t, &batch));
                accumulated += (double)batch.count;
            }
            if (copse_trainer_accumulated(j->t) > 0 || accumulated == 0)
                continue;
            OK(copse_trainer_result(j->t, true, &r));
            loss[epoch] += r.loss * accumulated;
            accuracy[epoch] += r.reports[0] * accumulated;
            examples += accumulated;
            accumulated = 0;
        }
        assert_int_equal(examples, ROWS);
        loss[epoch] /= examples;
        accuracy[epoch] /= examples;
    }
}

static copse_strategy *cores(uint32_t steps_per_run)
{
    copse_strategy *st = NULL;
    static const char *const ids[] = { "host:0", "host:0" };
    OK(copse_accelerator_create(
        ctx, ids, 2, &(struct copse_accelerator_params){ .steps_per_run = steps_per_run }, &st));
    return st;
}

static copse_strategy *mirrored(size_t count)
{
    return rig_strategy(count, NULL);
}

static void check_fit(copse_strategy *by_hand, copse_strategy *fitted,
                      struct copse_trainer_params params, struct copse_trainer_params fit_params)
{
    float want[VALUES], is[VALUES];
    double loss[EPOCHS], accuracy[EPOCHS];
    struct epochs epochs = { 0 };
    struct job j = begin(by_hand, params);
    loop(&j, loss, accuracy);
    read_all(&j, want);
    end(&j);
    j = begin(fitted, fit_params);
    OK(copse_trainer_fit(j.t, j.batches,
                         &(struct copse_fit_params){ .epochs = EPOCHS,
                                                     .held_out = j.held_batches,
                                                     .on_epoch = keep_epoch,
                                                     .user = &epochs }));
    read_all(&j, is);
    assert_memory_equal(is, want, sizeof want);
    assert_int_equal(epochs.count, EPOCHS);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        assert_int_equal(epochs.at[e].epoch, e + 1);
        assert_true(fabs(epochs.at[e].training.loss - loss[e]) <= 1e-12 * loss[e]);
        assert_true(fabs(epochs.at[e].training.reports[0] - accuracy[e]) <= 1e-12);
        assert_true(epochs.at[e].held_out.loss > 0);
    }
    assert_int_equal(epochs.at[EPOCHS - 1].training.step, copse_trainer_steps(j.t));
    end(&j);
}

static void bits_and_means_are_those_of_a_loop(void **state)
{
    (void)state;
    const struct copse_trainer_params plain = { 0 }, fed = { .prefetch = 2 },
                                      accumulated = { .accumulate = 2 };
    check_fit(mirrored(1), mirrored(1), plain, plain);
    check_fit(mirrored(3), mirrored(3), plain, plain);
    check_fit(mirrored(3), mirrored(3), plain, fed);
    check_fit(mirrored(2), mirrored(2), accumulated, accumulated);
}

/* Runs of three steps, and an epoch whose last batch is smaller. */
static void runs_of_an_accelerator_have_the_same_bits(void **state)
{
    (void)state;
    const struct copse_trainer_params plain = { 0 };
    static const char *const ids[] = { "host:0", "host:0" };
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, ids, 2, NULL, &st));
    check_fit(st, cores(3), plain, plain);
    OK(copse_mirrored_create(ctx, ids, 2, NULL, &st));
    check_fit(st, cores(1), plain, plain);
}

static void held_out_part_is_a_mean_over_its_examples(void **state)
{
    (void)state;
    struct epochs epochs = { 0 };
    struct copse_step_result r;
    struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    OK(copse_trainer_fit(
        j.t, j.batches,
        &(struct copse_fit_params){
            .epochs = 1, .held_out = j.held_batches, .on_epoch = keep_epoch, .user = &epochs }));
    const struct copse_host_batch all = { RIG_XY(MODEL_IN, x, y), .count = 33 };
    OK(copse_trainer_evaluate(j.t, &all, &r));
    assert_true(fabs(epochs.at[0].held_out.loss - r.loss) <= 1e-6 * r.loss);
    assert_true(fabs(epochs.at[0].held_out.reports[0] - r.reports[0]) <= 1e-6);
    end(&j);
}

/* ---- how it ends ---- */

static void function_stops_and_later_call_continues(void **state)
{
    (void)state;
    float want[VALUES], is[VALUES];
    struct epochs epochs = { .stop_after = 2 };
    struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    OK(copse_trainer_fit(j.t, j.batches, &(struct copse_fit_params){ .epochs = EPOCHS }));
    read_all(&j, want);
    end(&j);
    j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    OK(copse_trainer_fit(
        j.t, j.batches,
        &(struct copse_fit_params){ .epochs = EPOCHS, .on_epoch = keep_epoch, .user = &epochs }));
    assert_int_equal(epochs.count, 2);
    OK(copse_trainer_fit(j.t, j.batches,
                         &(struct copse_fit_params){ .epochs = EPOCHS, .first = 2 }));
    read_all(&j, is);
    assert_memory_equal(is, want, sizeof want);
    end(&j);
}

static void errors_end_it(void **state)
{
    (void)state;
    struct epochs epochs = { .answer = COPSE_ERR_IO };
    struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    assert_int_equal(copse_trainer_fit(j.t, j.batches, &(struct copse_fit_params){ .epochs = 0 }),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(
        copse_trainer_fit(j.t, j.batches, &(struct copse_fit_params){ .epochs = 1, .first = 2 }),
        COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_trainer_fit(j.t, j.batches,
                                       &(struct copse_fit_params){ .epochs = EPOCHS,
                                                                   .on_epoch = keep_epoch,
                                                                   .user = &epochs }),
                     COPSE_ERR_IO);
    assert_int_equal(epochs.count, 1);
    end(&j);

    j = begin(mirrored(2),
              (struct copse_trainer_params){ .optimizer = { .learning_rate = 1e30f } });
    assert_int_equal(
        copse_trainer_fit(j.t, j.batches, &(struct copse_fit_params){ .epochs = EPOCHS }),
        COPSE_ERR_NONFINITE);
    assert_non_null(strstr(copse_last_error(), "step "));
    end(&j);
}

/* ---- a batch function ---- */

struct batches {
    uint64_t stop_at, trained, calls; /* stop_at: a call, from 1 */
    uint32_t epochs;
    copse_status answer, refused;
    struct job *steps; /* a step is tried */
};

static copse_status count_batch(void *user, uint64_t trained, bool *stop)
{
    struct batches *to = user;
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x, y), .count = 9 };
    to->trained = trained;
    *stop = ++to->calls == to->stop_at;
    if (to->steps)
        to->refused = copse_trainer_step(to->steps->t, &batch);
    return to->answer;
}

static copse_status count_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)e, (void)stop;
    ((struct batches *)user)->epochs++;
    return COPSE_OK;
}

/* So many steps from the beginning. */
static void values_after(copse_strategy *st, const struct copse_trainer_params *params,
                         uint64_t count, float *out)
{
    struct job j = begin(st, *params);
    struct copse_host_batch batch;
    const uint64_t in_epoch = copse_loader_count(j.batches);
    for (uint64_t done = 0; done < count; done++) {
        if (done % in_epoch == 0) {
            OK(copse_trainer_flush(j.t));
            OK(copse_loader_start(j.batches, (uint32_t)(done / in_epoch), 0));
        }
        OK(copse_loader_next(j.batches, &batch));
        OK(copse_trainer_step(j.t, &batch));
    }
    OK(copse_trainer_flush(j.t));
    read_all(&j, out);
    end(&j);
}

/* An epoch has 5 batches. The batches that were taken are trained, those of a feed ahead and of an
   update that waits for more of them, too. */
static void batch_function_stops_within_an_epoch(void **state)
{
    static const struct copse_trainer_params ways[] = { { 0 },
                                                        { .prefetch = 3 },
                                                        { .accumulate = 4 } };
    (void)state;
    float want[VALUES], is[VALUES];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct batches b = { .stop_at = 7 };
        const struct copse_fit_params how = {
            .epochs = EPOCHS, .on_epoch = count_epoch, .on_batch = count_batch, .user = &b
        };
        values_after(mirrored(2), &ways[i], 7, want);
        struct job j = begin(mirrored(2), ways[i]);
        OK(copse_trainer_fit(j.t, j.batches, &how));
        read_all(&j, is);
        assert_memory_equal(is, want, sizeof want);
        assert_int_equal(b.trained, 7);
        assert_int_equal(b.epochs, 1);
        end(&j);
    }
}

/* The held-out part has 3 batches: the second epoch ends with call 13, its judgement would end with
   call 16. The values are the first epoch's, the only one that was judged. */
static void batch_function_stops_a_judgement(void **state)
{
    (void)state;
    float want[VALUES], is[VALUES];
    for (uint64_t stop_at = 12; stop_at <= 15; stop_at++) {
        struct batches b = { .stop_at = stop_at };
        values_after(mirrored(2), &(struct copse_trainer_params){ 0 }, 5, want);
        struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
        OK(copse_trainer_fit(j.t, j.batches,
                             &(struct copse_fit_params){ .epochs = EPOCHS,
                                                         .held_out = j.held_batches,
                                                         .on_epoch = count_epoch,
                                                         .on_batch = count_batch,
                                                         .user = &b }));
        read_all(&j, is);
        assert_memory_equal(is, want, sizeof want);
        assert_int_equal(b.trained, stop_at == 12 ? 9 : 10);
        assert_int_equal(b.epochs, 1);
        assert_int_equal(b.calls, stop_at);
        end(&j);
    }
}

static void batch_function_fails_and_may_not_train(void **state)
{
    (void)state;
    struct batches b = { .answer = COPSE_ERR_IO };
    struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    struct copse_fit_params how = { .epochs = 1, .on_batch = count_batch, .user = &b };
    assert_int_equal(copse_trainer_fit(j.t, j.batches, &how), COPSE_ERR_IO);
    assert_int_equal(b.calls, 1);
    b = (struct batches){ .steps = &j };
    OK(copse_trainer_fit(j.t, j.batches, &how));
    assert_int_equal(b.refused, COPSE_ERR_CONTEXT);
    assert_int_equal(b.trained, 5);
    end(&j);
}

/* ---- what the function may do ---- */

static copse_status use_the_trainer(void *user, const struct copse_epoch *e, bool *stop)
{
    struct job *j = user;
    struct copse_step_result r;
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x, y), .count = 9 };
    (void)e, (void)stop;
    COPSE_TRY(copse_trainer_evaluate(j->t, &batch, &r));
    return copse_trainer_fit(j->t, j->held_batches, &(struct copse_fit_params){ .epochs = 1 });
}

static copse_status release_trainer(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)e, (void)stop;
    copse_trainer_release(&((struct job *)user)->t);
    return COPSE_OK;
}

static copse_status release_batches(void *user, const struct copse_epoch *e, bool *stop)
{
    (void)e, (void)stop;
    copse_loader_release(&((struct job *)user)->batches);
    return COPSE_OK;
}

static void function_may_use_but_not_release(void **state)
{
    static copse_epoch_fn *const refused[] = { release_trainer, release_batches };
    (void)state;
    struct job j = begin(mirrored(2), (struct copse_trainer_params){ 0 });
    OK(copse_trainer_fit(
        j.t, j.batches,
        &(struct copse_fit_params){ .epochs = 2, .on_epoch = use_the_trainer, .user = &j }));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(copse_trainer_fit(j.t, j.batches,
                                           &(struct copse_fit_params){
                                               .epochs = 2, .on_epoch = refused[i], .user = &j }),
                         COPSE_ERR_CONTEXT);
        assert_non_null(j.t);
        assert_non_null(j.batches);
    }
    end(&j);
}

/* ---- copse_strategy_open ---- */

static void selector_decides_the_strategy(void **state)
{
    (void)state;
    copse_strategy *st = NULL;
    OK(copse_strategy_open(ctx, "host:0", NULL, &st));
    assert_int_equal(copse_strategy_kind_of(st), COPSE_STRATEGY_ONE_DEVICE);
    copse_strategy_release(&st);
    OK(copse_strategy_open(ctx, "host:0,host:0,host:0", NULL, &st));
    assert_int_equal(copse_strategy_kind_of(st), COPSE_STRATEGY_MIRRORED);
    assert_int_equal(copse_strategy_replicas(st), 3);
    copse_strategy_release(&st);
    OK(copse_strategy_open(ctx, NULL, NULL, &st));
    assert_true(copse_strategy_replicas(st) >= 1);
    copse_strategy_release(&st);
    assert_int_equal(copse_strategy_open(ctx, "opencl:77", NULL, &st), COPSE_ERR_NO_DEVICE);
    assert_null(st);
    char many[65 * 7 + 1] = "host:0";
    for (int i = 1; i < 65; i++)
        strcat(many, ",host:0");
    assert_int_equal(copse_strategy_open(ctx, many, NULL, &st), COPSE_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_and_means_are_those_of_a_loop),
        cmocka_unit_test(runs_of_an_accelerator_have_the_same_bits),
        cmocka_unit_test(held_out_part_is_a_mean_over_its_examples),
        cmocka_unit_test(function_stops_and_later_call_continues),
        cmocka_unit_test(errors_end_it),
        cmocka_unit_test(batch_function_stops_within_an_epoch),
        cmocka_unit_test(batch_function_stops_a_judgement),
        cmocka_unit_test(batch_function_fails_and_may_not_train),
        cmocka_unit_test(function_may_use_but_not_release),
        cmocka_unit_test(selector_decides_the_strategy),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
