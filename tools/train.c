/* SPDX-License-Identifier: MIT */
/* copse train: data, devices, model and optimizer make a run; shows how it goes and what came out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/events.h"
#include "tools/train.h"

/* Everything a run owns. */
struct run {
    struct train_settings settings;
    copse_context *ctx;
    copse_dataset *all, *train, *test;
    copse_batches *batches;
    copse_strategy *strategy;
    copse_trainer *trainer;
    struct mlp model;
    struct history history;
    struct progress progress;
    double test_loss, test_accuracy;
    uint32_t saved_epoch; /* counts from 1; 0: nothing was saved */
    float *x; /* room for one batch of the held-out part */
    int32_t *y;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_talking(const struct run *r)
{
    return !r->settings.is_json && !r->settings.is_quiet;
}

/* ---- before the run ---- */

static copse_status open_data(struct run *r)
{
    const struct train_settings *s = &r->settings;
    struct copse_dataset_info info, train, test;
    const struct copse_dataset_params params = { .labels = s->labels, .classes = s->classes };
    COPSE_TRY(copse_dataset_open(r->ctx, s->data, &params, &r->all));
    copse_dataset_describe(r->all, &info);
    if (!info.has_labels)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' has no labels: name their file with --labels, or give a CSV "
                                 "with a label column or a folder with an IDX pair", s->data);
    COPSE_TRY(copse_dataset_split(r->all, &(struct copse_split_params){ .seed = s->seed },
                                  &r->train, &r->test));
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->test, &test);
    if (is_talking(r))
        printf("data     %s: %zu examples of %zu numbers, %u classes\n"
               "         %zu for training, %zu held out, shuffled with seed %llu\n",
               s->is_default_data ? "hand-written digits" : s->data, info.rows, info.row_size,
               info.classes, train.rows, test.rows, (unsigned long long)s->seed);
    r->model.widths[0] = (uint32_t)info.row_size;
    return copse_batches_create(r->train,
                                &(struct copse_batches_params){
                                    .batch = s->batch, .seed = s->seed, .prefetch = 2 },
                                &r->batches);
}

static copse_status open_devices(struct run *r)
{
    const struct train_settings *s = &r->settings;
    char ids[COPSE_MAX_REPLICAS][32];
    const char *names[COPSE_MAX_REPLICAS];
    size_t count = 0;
    COPSE_TRY(copse_select_devices(r->ctx, s->devices, ids, COPSE_MAX_REPLICAS, &count));
    for (size_t i = 0; i < count; i++)
        names[i] = ids[i];
    if (s->strategy.at->value == STRATEGY_ONE_DEVICE && count > 1) {
        if (strcmp(s->devices, "auto") != 0 && strcmp(s->devices, "all") != 0)
            return session_set_error(COPSE_ERR_ARGUMENT,
                                     "--strategy one_device takes one device, --devices %s names "
                                     "%zu", s->devices, count);
        count = 1;
    }
    const struct copse_strategy_params params = {
        .reduction = (copse_reduce_algorithm)s->reduction.at->value,
        .transfer = (copse_transfer)s->transfer.at->value,
        .bucket_bytes = (size_t)s->bucket_bytes,
        .matmul = s->matmul,
    };
    COPSE_TRY(copse_mirrored_create(r->ctx, names, count, &params, &r->strategy));
    for (uint32_t i = 0; is_talking(r) && i < copse_strategy_replicas(r->strategy); i++) {
        const struct copse_device_info *d = copse_strategy_device(r->strategy, i);
        printf("%s %-10s %s%s%s%s\n", i == 0 ? "devices " : "        ", d->id, d->name,
               d->driver[0] ? " (" : "", d->driver, d->driver[0] ? ")" : "");
    }
    return COPSE_OK;
}

static float cosine(void *user, uint64_t step)
{
    const struct run *r = user;
    const double at = (double)(step - 1) / (double)r->progress.steps;
    return (float)(0.5 * r->settings.lr * (1.0 + cos(3.14159265358979323846 * at)));
}

/* For the library a momentum of 0 means its default; without momentum both rules are SGD. */
static copse_optimizer_kind optimizer_of(const struct train_settings *s)
{
    const copse_optimizer_kind kind = (copse_optimizer_kind)s->optimizer.at->value;
    const bool has_momentum = kind == COPSE_MOMENTUM || kind == COPSE_NESTEROV;
    return has_momentum && s->momentum == 0.0f ? COPSE_SGD : kind;
}

static copse_status make_trainer(struct run *r)
{
    const struct train_settings *s = &r->settings;
    struct copse_dataset_info info;
    copse_dataset_describe(r->all, &info);
    const uint32_t inputs = r->model.widths[0];
    mlp_parse(s->model, &r->model); /* checked with the settings */
    r->model.widths[0] = inputs;
    r->model.widths[r->model.layers] = info.classes;
    r->model.dropout = s->dropout;
    r->progress.epochs = s->epochs;
    r->progress.steps = (uint64_t)copse_batches_count(r->batches) * s->epochs;
    COPSE_TRY(mlp_create(&r->model, r->strategy, s->seed));
    const struct copse_trainer_params params = {
        .loss = mlp_loss,
        .user = &r->model,
        .example = COPSE_SHAPE((uint32_t)info.row_size),
        .target_type = COPSE_I32,
        .optimizer = {
            .kind = optimizer_of(s),
            .learning_rate = s->lr,
            .momentum = s->momentum,
            .weight_decay = s->weight_decay,
            .schedule = s->schedule.at->value == SCHEDULE_COSINE ? cosine : NULL,
            .schedule_user = r,
        },
        .seed = s->seed,
    };
    COPSE_TRY(copse_trainer_create(r->strategy, &params, &r->trainer));
    if (is_talking(r)) {
        uint64_t parameters = 0;
        printf("model    %u", r->model.widths[0]);
        for (uint32_t i = 0; i < r->model.layers; i++) {
            printf("-%u", r->model.widths[i + 1]);
            parameters += ((uint64_t)r->model.widths[i] + 1) * r->model.widths[i + 1];
        }
        printf(" perceptron, %llu parameters; %s, learning rate %g (%s), batch %u\n",
               (unsigned long long)parameters, s->optimizer.at->name,
               (double)s->lr, s->schedule.at->name, s->batch);
        if (copse_strategy_replicas(r->strategy) > 1)
            printf("replicas %u in step, gradients through %s\n",
                   copse_strategy_replicas(r->strategy), copse_strategy_transfer(r->strategy));
        printf("\n");
    }
    return COPSE_OK;
}

/* ---- the run ---- */

/* Mean loss and accuracy on the held-out part. */
static copse_status evaluate(struct run *r)
{
    struct copse_dataset_info info;
    copse_dataset_describe(r->test, &info);
    const size_t most = 1000 < info.rows ? 1000 : info.rows;
    if (!r->x) {
        r->x = malloc(most * info.row_size * sizeof *r->x);
        r->y = malloc(most * sizeof *r->y);
    }
    uint32_t *rows = malloc(most * sizeof *rows);
    copse_status s = COPSE_OK;
    double loss = 0.0, right = 0.0;
    if (!r->x || !r->y || !rows)
        s = session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the held-out part");
    for (size_t first = 0; s == COPSE_OK && first < info.rows; first += most) {
        const size_t n = info.rows - first < most ? info.rows - first : most;
        struct copse_step_result result;
        for (size_t i = 0; i < n; i++)
            rows[i] = (uint32_t)(first + i);
        s = copse_dataset_gather(r->test, rows, n, r->x, r->y);
        if (s == COPSE_OK)
            s = copse_trainer_evaluate(
                r->trainer, &(struct copse_host_batch){ .x = r->x, .y = r->y, .count = n }, &result);
        if (s == COPSE_OK) {
            loss += result.loss * (double)n;
            right += round(result.reports[0] * (double)n); /* a count, whatever the rounding */
        }
    }
    free(rows);
    r->test_loss = loss / (double)info.rows;
    r->test_accuracy = right / (double)info.rows;
    return s;
}

/* Take finished steps; all of them when `wait`. */
static copse_status take_results(struct run *r, bool wait)
{
    struct copse_step_result result;
    for (;;) {
        const copse_status s = copse_trainer_result(r->trainer, wait, &result);
        if (s == COPSE_ERR_END || (!wait && s == COPSE_ERR_TIMEOUT))
            return COPSE_OK;
        COPSE_TRY(s);
        struct progress *p = &r->progress;
        const double keep = p->step < 20 ? (double)p->step / (double)(p->step + 1) : 0.95;
        p->loss = keep * p->loss + (1.0 - keep) * result.loss;
        p->accuracy = keep * p->accuracy + (1.0 - keep) * result.reports[0];
        p->step = result.step;
        if (!history_step(&r->history, result.loss, result.reports[0]))
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
    }
}

static copse_status run_epoch(struct run *r, uint32_t epoch)
{
    struct progress *p = &r->progress;
    struct copse_host_batch batch;
    copse_status s;
    const double before = p->seconds, start = now();
    double drawn = start;
    p->epoch = epoch + 1;
    COPSE_TRY(copse_batches_start(r->batches, epoch, 0));
    while ((s = copse_batches_next(r->batches, &batch)) == COPSE_OK) {
        COPSE_TRY(copse_trainer_step(r->trainer, &batch));
        p->samples += batch.count;
        COPSE_TRY(take_results(r, false));
        p->seconds = before + now() - start;
        if (is_talking(r) && now() - drawn > 0.1) {
            bar_draw(p);
            drawn = now();
        }
    }
    if (s != COPSE_ERR_END)
        return s;
    COPSE_TRY(take_results(r, true));
    p->seconds = before + now() - start;
    return COPSE_OK;
}

static copse_status show_epoch(const struct run *r)
{
    const struct progress *p = &r->progress;
    unsigned columns;
    if (r->settings.is_json) {
        return event_epoch(p, r->test_loss, r->test_accuracy);
    } else if (is_talking(r)) {
        /* A terminal has the bar: every tenth of the run is enough. */
        const uint32_t every = terminal_is(&columns) ? (p->epochs + 9) / 10 : 1;
        bar_clear();
        if (p->epoch % every == 0 || p->epoch == p->epochs)
            printf("epoch %3u/%u  loss %.4f  accuracy %5.1f %%  held-out loss %.4f  "
                   "accuracy %5.1f %%\n",
                   p->epoch, p->epochs, p->loss, 100.0 * p->accuracy, r->test_loss,
                   100.0 * r->test_accuracy);
        fflush(stdout);
    }
    return COPSE_OK;
}

static copse_status run_epochs(struct run *r)
{
    for (uint32_t epoch = 0; epoch < r->settings.epochs; epoch++) {
        COPSE_TRY(run_epoch(r, epoch));
        COPSE_TRY(evaluate(r));
        if (!history_epoch(&r->history, r->progress.step, r->test_loss, r->test_accuracy))
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
        COPSE_TRY(show_epoch(r));
        /* The last update of an epoch shows here first. */
        if (!isfinite(r->test_loss))
            return session_set_error(COPSE_ERR_NONFINITE, "the held-out loss is %s",
                                     isnan(r->test_loss) ? "NaN" : "infinite");
        if (r->settings.save) {
            COPSE_TRY(copse_trainer_save(r->trainer, r->settings.save));
            r->saved_epoch = epoch + 1;
        }
    }
    return COPSE_OK;
}

static copse_status finish(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const struct progress *p = &r->progress;
    struct copse_dataset_info test;
    unsigned columns;
    copse_dataset_describe(r->test, &test);
    if (s->plot) {
        char title[256];
        snprintf(title, sizeof title, "copse train %s, %u epochs: %.2f %% held-out accuracy",
                 s->model, s->epochs, 100.0 * r->test_accuracy);
        COPSE_TRY(plot_write(s->plot, &r->history, title));
    }
    if (s->is_json)
        return event_done(p, r->test_loss, r->test_accuracy, r->strategy);
    if (!s->is_quiet && terminal_is(&columns))
        curve_draw(&r->history);
    printf("%s%.2f %% of the %zu held-out examples are right (loss %.4f)\n"
           "%llu steps in %.1f s, %.0f samples/s on %u device%s\n",
           s->is_quiet ? "" : "\n", 100.0 * r->test_accuracy, test.rows, r->test_loss,
           (unsigned long long)p->step, p->seconds,
           p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0,
           copse_strategy_replicas(r->strategy),
           copse_strategy_replicas(r->strategy) == 1 ? "" : "s");
    if (s->save && !s->is_quiet)
        printf("parameters: %s (safetensors)\n", s->save);
    if (s->plot && !s->is_quiet)
        printf("plot:       %s\n", s->plot);
    return COPSE_OK;
}

static copse_status run(struct run *r)
{
    struct copse_dataset_info train, test;
    COPSE_TRY(session_open(r->settings.is_verbose, r->settings.no_cache, &r->ctx));
    COPSE_TRY(open_data(r));
    COPSE_TRY(open_devices(r));
    COPSE_TRY(make_trainer(r));
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->test, &test);
    if (r->settings.is_json)
        COPSE_TRY(event_start(&r->settings, r->strategy, train.rows, test.rows));
    COPSE_TRY(run_epochs(r));
    return finish(r);
}

/* One line that says what went wrong and, after a loss that is not finite, what is left. */
static int fail(const struct run *r, copse_status s)
{
    bar_clear();
    if (s != COPSE_ERR_NONFINITE)
        return session_fail(s);
    fprintf(stderr, "copse train: %s in epoch %u; training stopped: lower --lr (it is %g)",
            session_error(), r->progress.epoch, (double)r->settings.lr);
    if (r->saved_epoch > 0)
        fprintf(stderr, "; '%s' keeps the parameters of epoch %u", r->settings.save,
                r->saved_epoch);
    else if (r->settings.save)
        fprintf(stderr, "; '%s' was not written", r->settings.save);
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

int cmd_train(int argc, char **argv)
{
    struct run r = { 0 };
    int code = train_settings_parse(argc, argv, &r.settings);
    if (code >= 0)
        return code;
    const copse_status s = run(&r);
    code = EXIT_DONE;
    if (s != COPSE_OK)
        code = fail(&r, s);
    copse_trainer_release(&r.trainer);
    copse_strategy_release(&r.strategy);
    copse_batches_release(&r.batches);
    copse_dataset_release(&r.test);
    copse_dataset_release(&r.train);
    copse_dataset_release(&r.all);
    copse_context_release(&r.ctx);
    history_free(&r.history);
    free(r.x);
    free(r.y);
    return code;
}
