/* SPDX-License-Identifier: MIT */
/* Early stopping: which epoch stops, which values are kept, in copse_trainer_fit, in a loop, after a
   resumption, and with two workers. */
#include <math.h>

#include "copse/distribute/parameter_server.h"
#include "copse/loop/early_stopping.h"
#include "tests/rig/workers/worker_rig.h"
/* after the above */
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/train_model.h"

enum { TRAIN = 48, HELD = 40, BATCH = 16, EPOCHS = 12, VALUES = 2048 };

static float x[MODEL_ROWS * MODEL_IN];
static int32_t y[MODEL_ROWS];

/* ---- a run of the small model ---- */

struct job {
    struct model m; /* on the heap: the trainer has its address */
    copse_dataset *data[2];
    copse_loader *batches, *held_out;
    copse_trainer *t;
};

/* The rows of both parts differ, so the held-out loss falls and rises again. */
static copse_status job_begin(struct job *j, copse_strategy *st, uint64_t seed)
{
    for (int i = 0; i < 2; i++) {
        const size_t first = i == 0 ? 0 : MODEL_ROWS - HELD, rows = i == 0 ? TRAIN : HELD;
        const struct copse_array_view xs = {
            COPSE_F32, 2, { rows, MODEL_IN }, x + first * MODEL_IN
        };
        const struct copse_array_view ys = { COPSE_I32, 1, { rows }, y + first };
        COPSE_TRY(copse_dataset_create(ctx, &xs, &ys,
                                       &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE },
                                       &j->data[i]));
    }
    COPSE_TRY(copse_loader_create(
        j->data[0], &(struct copse_loader_params){ .batch = BATCH, .seed = seed }, &j->batches));
    COPSE_TRY(copse_loader_create(
        j->data[1], &(struct copse_loader_params){ .batch = HELD, .no_shuffle = true },
        &j->held_out));
    COPSE_TRY(model_create(&j->m, st));
    return copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = model_loss,
                                    .user = &j->m,
                                    .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.02f },
                                },
                                &j->t);
}

static void job_end(struct job *j)
{
    copse_trainer_release(&j->t);
    copse_loader_release(&j->batches);
    copse_loader_release(&j->held_out);
    copse_dataset_release(&j->data[0]);
    copse_dataset_release(&j->data[1]);
}

static copse_status read_all(const struct job *j, float *out)
{
    memset(out, 0, VALUES * sizeof *out);
    for (int v = 0; v < MODEL_VARIABLES; v++) {
        COPSE_TRY(copse_variable_read(j->m.variables[v], 0, out));
        out += j->m.variables[v]->count;
    }
    return COPSE_OK;
}

struct epochs {
    struct job *job;
    uint32_t count, best[EPOCHS];
    double loss[EPOCHS];
    float (*values)[VALUES]; /* after each epoch */
};

static copse_status note_epoch(void *user, const struct copse_epoch *e, bool *stop)
{
    struct epochs *to = user;
    (void)stop;
    to->best[e->epoch - 1] = e->best_epoch;
    to->loss[e->epoch - 1] = e->held_out.loss;
    to->count = e->epoch;
    return to->values ? read_all(to->job, to->values[e->epoch - 1]) : COPSE_OK;
}

static copse_strategy *mirrored(size_t count)
{
    static const char *const ids[] = { "host:0", "host:0" };
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(ctx, ids, count, NULL, &st));
    return st;
}

static struct job *fit(copse_strategy *st, struct copse_fit_params p, struct epochs *noted)
{
    struct job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    OK(job_begin(j, st, 4));
    noted->job = j;
    p.held_out = j->held_out;
    p.on_epoch = note_epoch;
    p.user = noted;
    OK(copse_trainer_fit(j->t, j->batches, &p));
    return j;
}

static void finish(struct job *j, copse_strategy *st)
{
    job_end(j);
    free(j);
    copse_strategy_release(&st);
}

static uint32_t lowest(const struct epochs *e, uint32_t count)
{
    uint32_t best = 1;
    for (uint32_t i = 2; i <= count; i++)
        if (e->loss[i - 1] < e->loss[best - 1])
            best = i;
    return best;
}

/* ---- copse_trainer_fit ---- */

static void variables_end_with_the_best_values(void **state)
{
    (void)state;
    static float values[EPOCHS][VALUES], is[VALUES];
    for (size_t replicas = 1; replicas <= 2; replicas++) {
        struct epochs all = { .values = values };
        copse_strategy *st = mirrored(replicas);
        struct job *j = fit(st, (struct copse_fit_params){ .epochs = EPOCHS }, &all);
        const uint32_t best = lowest(&all, EPOCHS);
        assert_int_equal(all.count, EPOCHS);
        assert_in_range(best, 2, EPOCHS - 3); /* else this shows nothing */
        OK(read_all(j, is));
        assert_memory_equal(is, values[best - 1], sizeof is);
        for (uint32_t e = 1; e <= EPOCHS; e++)
            assert_int_equal(all.best[e - 1], lowest(&all, e));
        finish(j, st);

        st = mirrored(replicas);
        j = fit(st, (struct copse_fit_params){ .epochs = EPOCHS, .keep_last = true }, &all);
        OK(read_all(j, is));
        assert_memory_equal(is, values[EPOCHS - 1], sizeof is);
        finish(j, st);
    }
}

static void patience_ends_the_training(void **state)
{
    (void)state;
    static float values[EPOCHS][VALUES], is[VALUES];
    struct epochs all = { .values = values }, some = { .values = NULL };
    copse_strategy *st = mirrored(1);
    finish(fit(st, (struct copse_fit_params){ .epochs = EPOCHS }, &all), st);
    const uint32_t best = lowest(&all, EPOCHS);
    for (int keep_last = 0; keep_last < 2; keep_last++) {
        st = mirrored(1);
        struct job *j = fit(
            st,
            (struct copse_fit_params){ .epochs = EPOCHS, .patience = 2, .keep_last = keep_last },
            &some);
        assert_int_equal(some.count, best + 2);
        OK(read_all(j, is));
        assert_memory_equal(is, values[keep_last ? best + 1 : best - 1], sizeof is);
        finish(j, st);
    }
}

/* The second call goes on from the best values. They are restored again, unless it finds better
   ones; a checkpoint between the two has them. */
static void second_fit_knows_the_best_values(void **state)
{
    (void)state;
    enum { MORE = 2 };
    static float values[EPOCHS][VALUES], is[VALUES];
    for (int is_worse = 0; is_worse < 2; is_worse++) {
        struct epochs noted = { .values = values };
        copse_strategy *st = mirrored(1);
        struct job *j = calloc(1, sizeof *j);
        copse_early_stopping *e = NULL;
        const struct copse_named_array *arrays;
        const char *name;
        size_t count;
        assert_non_null(j);
        OK(job_begin(j, st, 4));
        OK(copse_early_stopping_create(j->t, NULL, &e));
        noted.job = j;
        struct copse_fit_params p = { .epochs = EPOCHS - MORE,
                                      .held_out = j->held_out,
                                      .on_epoch = note_epoch,
                                      .user = &noted,
                                      .stopping = e };
        OK(copse_trainer_fit(j->t, j->batches, &p));
        const uint32_t best = lowest(&noted, EPOCHS - MORE);
        assert_in_range(best, 2, EPOCHS - MORE - 1); /* else this shows nothing */
        for (int k = 0; k < 2; k++) { /* the second time the variables have the last values */
            OK(copse_early_stopping_arrays(e, &arrays, &count));
            assert_int_equal(count, 1 + MODEL_VARIABLES);
            name = arrays[1].name;
            OK(copse_early_stopping_arrays(e, &arrays, &count));
            assert_ptr_equal(arrays[1].name, name); /* a checkpoint takes no more memory */
            const float *first = arrays[1].array.data;
            for (size_t a = 2; a < count; a++)
                if (strstr(arrays[a].name, j->m.variables[0]->name))
                    first = arrays[a].array.data;
            assert_memory_equal(first, values[best - 1], j->m.variables[0]->count * sizeof *first);
            OK(copse_early_stopping_swap(e));
        }
        if (is_worse) /* the last values are worse, so that all later epochs are */
            for (int v = 0; v < MODEL_VARIABLES; v++) {
                for (uint32_t k = 0; k < VALUES; k++)
                    is[k] = 30.0f * (float)((k * 7 + (uint32_t)v) % 5) - 60.0f;
                OK(copse_variable_assign(j->m.variables[v], is));
            }
        p.first = EPOCHS - MORE;
        p.epochs = EPOCHS;
        OK(copse_trainer_fit(j->t, j->batches, &p));
        assert_int_equal(noted.count, EPOCHS);
        const uint32_t then = lowest(&noted, EPOCHS);
        if (is_worse)
            assert_int_equal(then, best);
        OK(read_all(j, is));
        assert_memory_equal(is, values[then - 1], sizeof is);
        copse_early_stopping_release(&e);
        finish(j, st);
    }
}

static void refusals_say_why(void **state)
{
    (void)state;
    struct job *j = calloc(1, sizeof *j);
    copse_strategy *st = mirrored(1);
    copse_early_stopping *e = NULL;
    assert_non_null(j);
    OK(job_begin(j, st, 4));
    assert_int_equal(copse_trainer_fit(j->t, j->batches,
                                       &(struct copse_fit_params){ .epochs = 2, .patience = 1 }),
                     COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "held_out"));
    const float wrong[] = { -1e-6f, NAN, INFINITY };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++)
        assert_int_equal(
            copse_early_stopping_create(
                j->t, &(struct copse_early_stopping_params){ .min_delta = wrong[i] }, &e),
            COPSE_ERR_ARGUMENT);
    OK(copse_early_stopping_create(j->t, NULL, &e));
    assert_int_equal(copse_early_stopping_swap(e), COPSE_ERR_ARGUMENT);
    bool stop;
    OK(copse_early_stopping_observe(e, 3, 1.0, &stop));
    assert_int_equal(copse_early_stopping_observe(e, 3, 1.0, &stop), COPSE_ERR_ARGUMENT);
    copse_trainer *other = NULL;
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = model_loss, .user = &j->m, .optimizer = { COPSE_SGD } },
                            &other));
    struct copse_fit_params borrowed = { .epochs = 2, .held_out = j->held_out, .stopping = e };
    assert_int_equal(copse_trainer_fit(other, j->batches, &borrowed), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "another trainer"));
    /* settings that `stopping` has itself */
    borrowed.patience = 2;
    assert_int_equal(copse_trainer_fit(j->t, j->batches, &borrowed), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "its own patience"));
    copse_trainer_release(&other);
    copse_early_stopping_release(&e);
    finish(j, st);

    static const char *const ids[] = { "host:0" };
    OK(copse_parameter_server_create(ctx, NULL, ids, 1, NULL, &st));
    j = calloc(1, sizeof *j);
    assert_non_null(j);
    OK(job_begin(j, st, 4));
    struct copse_fit_params p = { .epochs = 2, .patience = 1, .held_out = j->held_out };
    assert_int_equal(copse_trainer_fit(j->t, j->batches, &p), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "parameter servers"));
    p.patience = 0; /* the last values stay */
    OK(copse_trainer_fit(j->t, j->batches, &p));
    finish(j, st);
}

/* ---- which loss is lower ---- */

/* `best` and `stop` after each loss; stop = 0: never. */
static void check_losses(uint32_t patience, float min_delta, const double *losses, uint32_t count,
                         const uint32_t *best, uint32_t stops)
{
    struct job *j = calloc(1, sizeof *j);
    copse_strategy *st = mirrored(1);
    copse_early_stopping *e = NULL;
    struct copse_early_stopping_info info;
    assert_non_null(j);
    OK(job_begin(j, st, 4));
    OK(copse_early_stopping_create(
        j->t, &(struct copse_early_stopping_params){ .patience = patience, .min_delta = min_delta },
        &e));
    for (uint32_t i = 0; i < count; i++) {
        bool stop;
        OK(copse_early_stopping_observe(e, i + 1, losses[i], &stop));
        copse_early_stopping_describe(e, &info);
        assert_int_equal(info.best_epoch, best[i]);
        assert_int_equal(info.has_values, best[i] > 0);
        assert_int_equal(stop, stops > 0 && i + 1 >= stops);
        assert_int_equal(info.is_over, stop);
        if (best[i] > 0)
            assert_true(info.best_loss == losses[best[i] - 1]);
        else
            assert_true(isinf(info.best_loss));
    }
    copse_early_stopping_release(&e);
    finish(j, st);
}

static void lower_losses_are_finite_and_lower(void **state)
{
    (void)state;
    const double falls[] = { 3, 2, 2, 1.5, 1.6, 1.5, 1.5 };
    check_losses(0, 0, falls, 7, (const uint32_t[]){ 1, 2, 2, 4, 4, 4, 4 }, 0);
    check_losses(3, 0, falls, 7, (const uint32_t[]){ 1, 2, 2, 4, 4, 4, 4 }, 7);
    /* the best one is the lowest, though it is not lower by min_delta */
    const double creeps[] = { 3, 2.9, 2.8, 2.7 };
    check_losses(3, 0.2f, creeps, 4, (const uint32_t[]){ 1, 2, 3, 4 }, 4);
    const double holes[] = { NAN, INFINITY, 5, NAN, -INFINITY, 4, INFINITY };
    check_losses(0, 0, holes, 7, (const uint32_t[]){ 0, 0, 3, 3, 3, 6, 6 }, 0);
    check_losses(2, 0, holes, 2, (const uint32_t[]){ 0, 0 }, 2);
    const double below[] = { -1, -2, -1.5 };
    check_losses(1, 0, below, 3, (const uint32_t[]){ 1, 2, 2 }, 3);
}

/* ---- values of all sizes ---- */

static copse_tensor *sum_of_all(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable **v = user;
    copse_tensor *sum = NULL;
    (void)in;
    for (int i = 0; i < 3; i++) {
        copse_tensor *one = copse_mean(g, copse_variable_tensor(v[i]), NULL, 0, false);
        sum = sum ? copse_add(g, sum, one) : one;
    }
    return sum;
}

static void swap_gives_all_values_and_takes_them_back(void **state)
{
    (void)state;
    enum { MOST = 70000 };
    static const uint32_t counts[] = { 1, 257, MOST, 3 }; /* the last one is not trained */
    static float was[MOST], is[MOST];
    copse_strategy *st = mirrored(2);
    copse_variable *v[4];
    copse_trainer *t = NULL;
    copse_early_stopping *e = NULL;
    bool stop;
    for (uint32_t k = 0; k < MOST; k++)
        was[k] = (float)k / 7;
    was[1] = NAN, was[2] = INFINITY;
    for (int i = 0; i < 4; i++) {
        const char name[] = { 'v', (char)('0' + i), 0 };
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){
                .name = name, .shape = COPSE_SHAPE(counts[i]), .values = was, .is_frozen = i == 3 },
            &v[i]));
    }
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = sum_of_all, .user = v, .variables = v, .variable_count = 3 },
        &t));
    OK(copse_early_stopping_create(t, NULL, &e));
    OK(copse_early_stopping_observe(e, 1, 1.0, &stop));
    for (int i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < counts[i]; k++)
            is[k] = 5;
        OK(copse_variable_assign(v[i], is));
    }
    for (int round = 0; round < 2; round++) {
        OK(copse_early_stopping_swap(e));
        for (int i = 0; i < 4; i++)
            for (uint32_t r = 0; r < 2; r++) {
                OK(copse_variable_read(v[i], r, is));
                if (round == 0)
                    assert_memory_equal(is, was, counts[i] * sizeof *is);
                else
                    for (uint32_t k = 0; k < counts[i]; k++)
                        assert_true(is[k] == 5);
            }
    }
    copse_early_stopping_release(&e);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- a run that is resumed ---- */

struct saved {
    copse_early_stopping *stopping;
    copse_trainer *t;
    uint32_t after;
    char path[256];
    struct epochs epochs;
};

static copse_status save_one(void *user, const struct copse_epoch *e, bool *stop)
{
    struct saved *s = user;
    const struct copse_named_array *arrays;
    size_t count;
    COPSE_TRY(note_epoch(&s->epochs, e, stop));
    if (e->epoch != s->after)
        return COPSE_OK;
    *stop = true;
    COPSE_TRY(copse_early_stopping_arrays(s->stopping, &arrays, &count));
    return copse_trainer_checkpoint(s->t, s->path,
                                    &(struct copse_state_params){ .position = { .epoch = e->epoch },
                                                                  .arrays = arrays,
                                                                  .array_count = count });
}

static void resumed_run_ends_as_the_undisturbed_one(void **state)
{
    (void)state;
    static float want[VALUES], is[VALUES];
    struct epochs all = { .values = NULL };
    copse_strategy *st = mirrored(2);
    struct job *j = fit(st, (struct copse_fit_params){ .epochs = EPOCHS, .patience = 3 }, &all);
    OK(read_all(j, want));
    finish(j, st);
    const uint32_t best = lowest(&all, all.count);
    assert_true(all.count == best + 3 && best > 1 && all.count < EPOCHS);

    /* cut before the best epoch, after it, in the last epoch, and where the run is over */
    const uint32_t cuts[] = { 1, best, best + 1, best + 2, best + 3 };
    for (size_t i = 0; i < COPSE_COUNT(cuts); i++) {
        struct saved s = { .after = cuts[i] };
        const struct copse_early_stopping_params how = { .patience = 3 };
        snprintf(s.path, sizeof s.path, "%s/cut", temp_folder);
        for (int part = 0; part < 2; part++) {
            copse_checkpoint *file = NULL;
            struct copse_position at = { 0 };
            st = mirrored(2);
            j = calloc(1, sizeof *j);
            assert_non_null(j);
            OK(job_begin(j, st, 4));
            OK(copse_early_stopping_create(j->t, &how, &s.stopping));
            s.t = j->t;
            if (part == 1) {
                OK(copse_trainer_restore(j->t, s.path, &at, &file));
                OK(copse_early_stopping_resume(s.stopping, file));
                s.after = 0;
            }
            OK(copse_trainer_fit(j->t, j->batches,
                                 &(struct copse_fit_params){ .epochs = EPOCHS,
                                                             .first = at.epoch,
                                                             .held_out = j->held_out,
                                                             .stopping = s.stopping,
                                                             .on_epoch = save_one,
                                                             .user = &s }));
            if (part == 1) {
                OK(read_all(j, is));
                assert_memory_equal(is, want, sizeof want);
                assert_int_equal(s.epochs.count, all.count);
                assert_int_equal(s.epochs.best[all.count - 1], best);
            }
            copse_checkpoint_release(&file);
            copse_early_stopping_release(&s.stopping);
            finish(j, st);
        }
    }
}

static void checkpoint_without_it_begins_anew(void **state)
{
    (void)state;
    char path[256];
    copse_strategy *st = mirrored(1);
    struct job *j = calloc(1, sizeof *j);
    copse_early_stopping *e = NULL;
    copse_checkpoint *file = NULL;
    struct copse_early_stopping_info info;
    bool stop;
    assert_non_null(j);
    snprintf(path, sizeof path, "%s/old", temp_folder);
    OK(job_begin(j, st, 4));
    OK(copse_trainer_checkpoint(j->t, path, NULL));
    OK(copse_trainer_restore(j->t, path, NULL, &file));
    OK(copse_early_stopping_create(j->t, NULL, &e));
    OK(copse_early_stopping_resume(e, file));
    copse_early_stopping_describe(e, &info);
    assert_int_equal(info.best_epoch, 0);
    OK(copse_early_stopping_observe(e, 7, 1.0, &stop));
    copse_early_stopping_describe(e, &info);
    assert_int_equal(info.best_epoch, 7);
    copse_checkpoint_release(&file);

    /* arrays of another model */
    const double counters[4] = { 2, 1, 1, 0.5 };
    const float other[1] = { 1 };
    const struct copse_named_array wrong[2] = {
        { "application/early_stopping/counters", { COPSE_F64, 1, { 4 }, counters } },
        { "application/early_stopping/other", { COPSE_F32, 1, { 1 }, other } },
    };
    OK(copse_trainer_checkpoint(j->t, path,
                                &(struct copse_state_params){ .arrays = wrong, .array_count = 2 }));
    OK(copse_trainer_restore(j->t, path, NULL, &file));
    assert_int_equal(copse_early_stopping_resume(e, file), COPSE_ERR_ARGUMENT);
    copse_early_stopping_describe(e, &info);
    assert_int_equal(info.best_epoch, 7);
    copse_checkpoint_release(&file);
    copse_early_stopping_release(&e);
    finish(j, st);
}

/* ---- two workers ---- */

/* Each worker observes losses of its own; the first one's count. */
static copse_status observe_others(struct worker *w, copse_strategy *st)
{
    static const double losses[2][4] = { { 3, 2, 2.5, 2.6 }, { 1, 5, NAN, 0.1 } };
    struct job *j = calloc(1, sizeof *j);
    copse_early_stopping *e = NULL;
    struct copse_early_stopping_info info;
    bool stop = false;
    uint32_t epoch = 0;
    CHECK(j);
    copse_status s = job_begin(j, st, 4);
    if (!s)
        s = copse_early_stopping_create(j->t,
                                        &(struct copse_early_stopping_params){ .patience = 2 }, &e);
    while (!s && !stop && epoch < 4) {
        s = copse_early_stopping_observe(e, epoch + 1, losses[w->rank][epoch], &stop);
        epoch++;
    }
    copse_early_stopping_describe(e, &info);
    w->seen[0] = epoch;
    w->seen[1] = info.best_epoch;
    if (!s && w->rank == 1) /* it fails alone: all fail, and the group goes on */
        epoch = 0;
    const copse_status refused = s ? s : copse_early_stopping_observe(e, epoch + 1, 1, &stop);
    w->seen[2] = refused != COPSE_OK;
    if (!s)
        s = copse_early_stopping_observe(e, 9, 1.0, &stop);
    copse_early_stopping_release(&e);
    job_end(j);
    free(j);
    return s;
}

static copse_status fit_together(struct worker *w, copse_strategy *st)
{
    struct job *j = calloc(1, sizeof *j);
    struct epochs noted = { .job = j };
    float *is = calloc(VALUES, sizeof *is);
    CHECK(j && is);
    copse_status s = job_begin(j, st, 4);
    if (!s)
        s = copse_trainer_fit(j->t, j->batches,
                              &(struct copse_fit_params){ .epochs = EPOCHS,
                                                          .patience = 2,
                                                          .held_out = j->held_out,
                                                          .on_epoch = note_epoch,
                                                          .user = &noted });
    w->seen[0] = noted.count;
    w->seen[1] = noted.count > 0 ? noted.best[noted.count - 1] : 0;
    if (!s)
        s = read_all(j, is);
    memcpy(w->values, is, sizeof w->values);
    job_end(j);
    free(j);
    free(is);
    return s;
}

static void first_worker_decides_for_all(void **state)
{
    (void)state;
    struct worker w[2];
    host_alone();
    run_workers(w, 2, 1, observe_others);
    devices_back();
    assert_all_ok(w, 2);
    for (int v = 0; v < 2; v++) {
        assert_int_equal(w[v].seen[0], 4);
        assert_int_equal(w[v].seen[1], 2);
        assert_int_equal(w[v].seen[2], 1);
    }
}

static void workers_stop_in_the_same_epoch(void **state)
{
    (void)state;
    static float want[VALUES];
    struct epochs all = { .values = NULL };
    struct worker w[2];
    copse_strategy *st = mirrored(2);
    struct job *j = fit(st, (struct copse_fit_params){ .epochs = EPOCHS, .patience = 2 }, &all);
    OK(read_all(j, want));
    finish(j, st);
    assert_true(all.count < EPOCHS);
    host_alone();
    run_workers(w, 2, 1, fit_together);
    devices_back();
    assert_all_ok(w, 2);
    for (int v = 0; v < 2; v++) {
        assert_int_equal(w[v].seen[0], all.count);
        assert_int_equal(w[v].seen[1], all.count - 2);
        assert_memory_equal(w[v].values, want, sizeof w[v].values);
    }
}

static int open_all(void **state)
{
    model_data(x, y);
    return open_workers(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_end_with_the_best_values),
        cmocka_unit_test(patience_ends_the_training),
        cmocka_unit_test(second_fit_knows_the_best_values),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(lower_losses_are_finite_and_lower),
        cmocka_unit_test(swap_gives_all_values_and_takes_them_back),
        cmocka_unit_test_setup_teardown(resumed_run_ends_as_the_undisturbed_one, temp_setup,
                                        temp_teardown),
        cmocka_unit_test_setup_teardown(checkpoint_without_it_begins_anew, temp_setup,
                                        temp_teardown),
        cmocka_unit_test(first_worker_decides_for_all),
        cmocka_unit_test(workers_stop_in_the_same_epoch),
    };
    return cmocka_run_group_tests(tests, open_all, close_workers);
}
