/* SPDX-License-Identifier: MIT */
/* copse train: creates a run from data, devices, model and optimizer, and prints progress and
   result. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "copse/train/audit.h"
#include "copse/train/model_file.h"
#include "copse/train/model_loss.h"

#include "tools/common/events.h"
#include "tools/common/plural.h"
#include "tools/train/adapt.h"
#include "tools/train/train_onnx.h"
#include "tools/train/train_run.h"

#define WAIT_SHOWN         0.05 /* part of the time */
#define WAIT_SHOWN_SECONDS 0.5

/* ---- before the run ---- */

/* Find other workers and connect to them. Only the chief prints and writes. */
static copse_status open_cluster(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const int strategy = s->strategy.at->value;
    const bool is_alone = strategy != STRATEGY_AUTO && strategy != STRATEGY_COLLECTIVE &&
                          strategy != STRATEGY_PARAMETER_SERVER && !s->is_worker;
    COPSE_TRY(s->cluster ? copse_cluster_spec_parse(r->ctx, s->cluster, &r->job)
                         : copse_cluster_spec_find(r->ctx, &r->job));
    if (r->fold > 0)
        return run_leave_job(r);
    r->is_evaluator = r->job && copse_cluster_spec_role(r->job) == COPSE_ROLE_EVALUATOR;
    if (is_alone || r->is_evaluator) { /* an evaluator always uses a single process */
        copse_cluster_spec_release(&r->job);
        return COPSE_OK;
    }
    if (!r->job && s->is_worker)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "no job is described: set COPSE_CONFIG, give --cluster, or start "
                                 "this under mpirun");
    if (!r->job && s->servers > 0)
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "--servers: there are no ranks to be parameter servers: start this under "
            "mpirun, or leave it out");
    if (s->evaluator_patience > 0 && (!r->job || copse_cluster_spec_is_launched(r->job)))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--evaluator-patience: belongs to a job with an evaluator, which "
                                 "COPSE_CONFIG or --cluster "
                                 "describes; here it is an option of `copse evaluate --watch`");
    COPSE_TRY(run_set_servers(r));
    if (!run_has_servers(r) && settings_want_windows(s))
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "--one-sided on, --one-sided-bytes and --window-bytes: there is no job with "
            "parameter servers, which alone have windows: name some with --servers under "
            "mpirun, or leave it out");
    if (!r->job)
        return COPSE_OK;
    if (strategy == STRATEGY_PARAMETER_SERVER && !run_has_servers(r))
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "--strategy parameter_server: the job has no parameter server: name tasks of the "
            "role ps, or give --servers N under mpirun");
    const struct copse_cluster_params params = {
        .engine = (copse_engine)s->engine.at->value,
        .deadline_ms = 1000 * s->worker_deadline,
        .one_sided = (copse_one_sided)s->one_sided.at->value,
        .window_bytes = s->window_bytes,
        .one_sided_bytes = s->one_sided_bytes,
    };
    COPSE_TRY(copse_cluster_open(r->ctx, r->job, &params, &r->cluster));
    if (s->on_loss.at->value == COPSE_LOSS_CONTINUES && !copse_cluster_can_regroup(r->cluster))
        return session_set_error(
            COPSE_ERR_UNSUPPORTED,
            "--on-loss continue: over %s the whole job ends with a worker that is "
            "lost; use --engine gloo, or start it again with --resume",
            copse_cluster_engine(r->cluster));
    if (is_talking(r))
        printf("workers  %u over %s, this is the chief\n", copse_cluster_size(r->cluster),
               copse_cluster_engine(r->cluster));
    if (is_talking(r) && run_is_served(r))
        run_show_access(r);
    return COPSE_OK;
}

static copse_status make_schedule(struct run *r)
{
    const struct train_settings *s = &r->settings;
    copse_schedule_release(&r->schedule);
    if (s->find.start_lr > 0.0f)
        return copse_find_lr_schedule(r->ctx, &s->find, &r->schedule);
    if (strcmp(s->schedule, "constant") == 0)
        return COPSE_OK;
    if (run_is_apart(r) && strstr(s->schedule, "plateau"))
        return session_set_error(
            COPSE_ERR_ARGUMENT, "--schedule plateau: only the first worker of a job with parameter "
                                "servers evaluates; choose another schedule");
    return copse_schedule_create(r->ctx,
                                 &(struct copse_schedule_params){
                                     .text = s->schedule, .rate = s->lr, .steps = run_updates(r) },
                                 &r->schedule);
}

copse_status run_make_trainer(struct run *r)
{
    const struct train_settings *s = &r->settings;
    r->progress.epochs = s->epochs;
    r->progress.steps = run_steps(r);
    COPSE_TRY(network_create(&r->model, r->strategy, r->ctx, copse_dataset_schema(r->all),
                             s->network ? s->network : s->model, s->dropout, s->seed));
    COPSE_TRY(text_measure(r));
    if (s->loss)
        COPSE_TRY(copse_model_set_loss(r->model.model, s->loss));
    COPSE_TRY(copse_model_balance_loss(r->model.model, r->train));
    COPSE_TRY(make_schedule(r));
    if (s->average > 0.0f && run_is_served(r))
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "--average: parameter servers have the variables, and other workers would "
            "read the averages; choose another strategy");
    struct copse_trainer_params params = {
        .loss = copse_model_loss,
        .user = r->model.model,
        .optimizer = {
            .schedule = r->schedule ? copse_schedule_rate : NULL,
            .schedule_user = r->schedule,
        },
        .seed = s->seed,
        .prefetch = s->prefetch,
        .precision = (copse_type)s->precision.at->value,
        .memory_budget = s->memory,
        .sharding = shares_are_weighted(&r->mixture) ? COPSE_SHARD_WEIGHTED : COPSE_SHARD_BALANCED,
    };
    const char *names[COPSE_MAX_REPLICAS];
    float weights[COPSE_MAX_REPLICAS];
    (void)shares_replicas(&r->mixture, names, weights);
    params.shard_weights = params.sharding == COPSE_SHARD_WEIGHTED ? weights : NULL;
    char groups[4096];
    train_optimizer_fill(s, &params.optimizer);
    COPSE_TRY(freeze_groups(r, groups, sizeof groups));
    params.optimizer.groups = groups;
    COPSE_TRY(freeze_explain(r, copse_trainer_create(r->strategy, &params, &r->trainer)));
    const struct copse_audit_params audit = { .every = s->audit,
                                              .is_off = s->audit == 0,
                                              .is_cross_check_off = s->has_no_cross_check };
    COPSE_TRY(copse_trainer_audit(r->trainer, &audit));
    COPSE_TRY(run_best_open(r));
    if (is_talking(r) && !r->is_recovering) {
        const bool is_half = s->precision.at->value != COPSE_F32;
        printf("model    %s: %llu parameters; %s, learning rate %g (%s), batch %u%s%s\n", s->model,
               (unsigned long long)copse_layer_parameters(copse_model_layer(r->model.model)),
               s->optimizer.at->name, (double)s->lr, s->schedule, s->batch,
               is_half ? ", products of " : "", is_half ? s->precision.at->name : "");
        freeze_show(r, groups);
        lines_announce(r);
        if (copse_strategy_replicas(r->strategy) > 1)
            printf("replicas %u in step, gradients through %s\n",
                   copse_strategy_replicas_in_sync(r->strategy),
                   copse_strategy_transfer(r->strategy));
        printf("\n");
    }
    return COPSE_OK;
}

copse_status run_open(struct run *r)
{
    COPSE_TRY(run_open_data(r));
    COPSE_TRY(run_open_devices(r));
    return run_make_trainer(r);
}

void run_close(struct run *r)
{
    (void)run_log_close(r); /* a run without errors closed it */
    (void)hash_file_close(&r->hashes);
    copse_monitor_release(&r->monitor);
    copse_early_stopping_release(&r->stopping);
    copse_trainer_release(&r->trainer);
    copse_schedule_release(&r->schedule);
    copse_model_release(&r->model.model);
    copse_strategy_release(&r->strategy);
    copse_cluster_release(&r->cluster);
    copse_cluster_spec_release(&r->job);
    copse_loader_release(&r->held);
    copse_loader_release(&r->batches);
    copse_dataset_release(&r->held_out);
    copse_dataset_release(&r->train);
    copse_dataset_release(&r->all);
    copse_context_release(&r->ctx);
    history_free(&r->history);
}

/* ---- the run ---- */

copse_status run_results(struct run *r, uint64_t most)
{
    struct copse_step_result result;
    for (;;) {
        const bool wait = copse_trainer_steps(r->trainer) - r->progress.step > most;
        const copse_status s = copse_trainer_result(r->trainer, wait, &result);
        if (s == COPSE_ERR_END || (!wait && s == COPSE_ERR_TIMEOUT))
            return COPSE_OK;
        COPSE_TRY(s);
        r->progress.step = result.step;
        COPSE_TRY(run_add_result(r, result.loss, result.reports[0]));
    }
}

/* End of a pass over the data. */
static copse_status end_epoch(struct run *r)
{
    COPSE_TRY(run_results(r, 0));
    r->progress.seconds += run_now() - r->clock;
    if (!r->held_out)
        r->test.loss = r->test.accuracy = r->test.mae = NAN;
    else if (!run_is_apart(r))
        COPSE_TRY(run_evaluate(r));
    if (!history_epoch(&r->history, r->progress.step, &r->test))
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
    if (is_json(r) && r->fold == 0)
        COPSE_TRY(event_epoch(&r->progress, &r->test));
    COPSE_TRY(run_log_epoch(r));
    /* A non-finite last update of an epoch is first detected here. */
    if (r->held_out && !isfinite(r->test.loss)) {
        lines_show(r, true);
        return session_set_error(COPSE_ERR_NONFINITE, "the held-out loss is %s",
                                 isnan(r->test.loss) ? "NaN" : "infinite");
    }
    if (r->schedule && r->held_out)
        COPSE_TRY(copse_schedule_observe(r->schedule, r->test.loss));
    COPSE_TRY(run_best_observe(r));
    r->epoch++;
    lines_show(r, run_is_over(r));
    r->progress.examples = 0; /* the bar has no numbers until the next epoch has results */
    COPSE_TRY(run_save_epoch(r));
    r->clock = run_now();
    return run_is_over(r) ? COPSE_OK : copse_loader_start(r->batches, r->epoch, 0);
}

/* Workers of parameter servers learn from the next batch whether the epoch has one for them. */
static bool is_epoch_complete(const struct run *r)
{
    uint32_t epoch;
    size_t next;
    copse_loader_position(r->batches, &epoch, &next);
    return !run_is_served(r) && epoch == r->epoch && next == copse_loader_count(r->batches);
}

/* One batch, or run, and the work between two passes: a checkpoint after the last batch of an epoch
   has its score, and whether it stops the run. */
static copse_status run_step(void *user)
{
    struct run *r = user;
    struct progress *p = &r->progress;
    struct copse_host_batch batch;
    copse_status s = COPSE_ERR_END;
    if (!r->trainer)
        return session_set_error(COPSE_ERR_DEVICE_LOST, "the devices could not be opened again");
    if (run_is_over(r))
        return COPSE_ERR_END;
    if (signals_caught() && (!r->cluster || run_is_served(r)))
        return COPSE_ERR_CANCELLED;
    while (!run_is_over(r) && (s = run_next(r, &batch)) == COPSE_ERR_END)
        COPSE_TRY(end_epoch(r));
    if (run_is_over(r))
        return COPSE_ERR_END;
    COPSE_TRY(s);
    p->epoch = r->epoch + 1;
    s = run_train(r, &batch);
    if (s == COPSE_ERR_CANCELLED)
        COPSE_TRY(copse_loader_start(r->batches, batch.epoch, batch.index));
    COPSE_TRY(s);
    if (is_epoch_complete(r))
        return end_epoch(r);
    const uint32_t each = run_steps_per_run(r);
    COPSE_TRY(run_results(r, each > 7 ? each : 7));
    if (is_talking(r) && r->fold == 0 && run_now() - r->drawn > 0.1) {
        p->seconds += run_now() - r->clock;
        r->clock = r->drawn = run_now();
        bar_draw(p);
    }
    return COPSE_OK;
}

/* A device failed or workers are lost: recreate all objects on devices; the values come from the
   checkpoint. */
static copse_status train_recover(void *user)
{
    struct run *r = user;
    r->is_recovering = true;
    run_drop_trainer(r);
    if (r->cluster && copse_cluster_lost(r->cluster) > 0) {
        const bool was_first = copse_cluster_rank(r->cluster) == 0;
        COPSE_TRY(copse_cluster_regroup(r->cluster));
        r->is_successor |= !was_first && copse_cluster_rank(r->cluster) == 0;
    }
    COPSE_TRY(run_open_strategy(r));
    COPSE_TRY(run_make_trainer(r));
    return run_init(r);
}

static uint64_t count_steps(void *user)
{
    const struct run *r = user;
    return r->trainer ? copse_trainer_steps(r->trainer) : 0;
}

static copse_status make_monitor(struct run *r)
{
    static const struct copse_step_functions functions = {
        .run = run_step,
        .save = run_save,
        .restore = run_restore,
        .progress = count_steps,
        .recover = train_recover,
    };
    const struct train_settings *s = &r->settings;
    copse_step *step;
    COPSE_TRY(copse_step_create(r->ctx, NULL, &functions, r, &step));
    const copse_status status = copse_monitor_create(
        step,
        &(struct copse_monitor_params){ .folder = s->is_one_file ? NULL : s->checkpoint,
                                        .file = s->is_one_file ? s->checkpoint : NULL,
                                        .every_progress = s->every_steps,
                                        .every_seconds = s->every_seconds,
                                        .keep = s->keep,
                                        .on_loss = run_is_served(r) /* continues in any case */
                                                       ? COPSE_LOSS_STOPS
                                                       : (copse_on_loss)s->on_loss.at->value,
                                        .cluster = r->cluster,
                                        .is_new = s->checkpoint && !s->is_resume },
        &r->monitor);
    copse_step_release(&step);
    if (status == COPSE_ERR_ARGUMENT && !s->is_resume) {
        char text[600];
        return session_set_error(status, "%s; add --resume to go on from it, or name another place",
                                 session_plain(text, sizeof text, copse_last_error()));
    }
    return status;
}

/* The result where no example is held out. */
static void show_training(const struct run *r)
{
    const struct progress *p = &r->progress;
    struct copse_dataset_info train;
    copse_dataset_describe(r->train, &train);
    if (p->is_regression)
        printf("mean absolute error %.6g on the %zu training examples in the last epoch (loss "
               "%.4f); none is held out\n",
               p->accuracy, train.rows, p->loss);
    else
        printf("%.2f %% of the %zu training %s were right in the last epoch (loss %.4f); none is "
               "held out\n",
               100.0 * p->accuracy, train.rows * r->model.positions,
               r->test.is_sequence ? "tokens" : "examples", p->loss);
}

static copse_status train_finish(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const struct progress *p = &r->progress;
    const struct score *score = run_best_score(r);
    struct copse_dataset_info test;
    unsigned columns;
    copse_dataset_describe(r->held_out, &test);
    if (is_silent(r))
        return COPSE_OK;
    if (s->plot) {
        char title[256];
        snprintf(title, sizeof title,
                 score->is_absent ? "copse train %s, %u epoch%s"
                                  : "copse train %s, %u epoch%s: held-out %s %.*f%s",
                 s->model, r->epoch, plural_end(r->epoch), score->is_regression ? "R2" : "accuracy",
                 score->is_regression ? 4 : 2,
                 score->is_regression ? score->accuracy : 100.0 * score->accuracy,
                 score->is_regression ? "" : " %");
        COPSE_TRY(plot_write(s->plot, &r->history, title));
    }
    if (is_json(r))
        return event_done(p, score, run_best_epoch(r) ? run_best_epoch(r) : r->epoch, r->strategy,
                          run_shards_each(r), copse_trainer_audits(r->trainer));
    if (!s->is_quiet && terminal_is(&columns))
        curve_draw(&r->history);
    printf("%s", s->is_quiet ? "" : "\n");
    if (score->is_absent)
        show_training(r);
    else
        score_print(score, test.rows * r->model.positions);
    if (!s->is_quiet && r->stopping && r->held_out)
        run_best_show(r);
    if (p->resumed_step > 0)
        printf("%llu of ", (unsigned long long)(p->step - p->resumed_step));
    const uint32_t devices = copse_strategy_replicas_in_sync(r->strategy) / run_shards_each(r);
    printf("%llu step%s in %.1f s, %.0f samples/s on %u device%s", (unsigned long long)p->step,
           plural_end(p->step), p->seconds,
           p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0, devices, plural_end(devices));
    if (progress_wait(p) > WAIT_SHOWN && p->waited > WAIT_SHOWN_SECONDS)
        printf("; %.0f %% of the time steps waited for data", 100.0 * progress_wait(p));
    printf("\n");
    if (!s->is_quiet && run_is_saved(r))
        printf("model:      %s (safetensors)\n", s->save);
    if (s->checkpoint && !s->is_quiet) {
        struct copse_monitor_info info;
        copse_monitor_describe(r->monitor, &info);
        printf("checkpoint: %s\n", info.newest);
    }
    if (s->plot && !s->is_quiet)
        printf("plot:       %s\n", s->plot);
    if (s->logdir && !s->is_quiet)
        printf("events:     %s (TensorBoard)\n", s->logdir);
    fflush(stdout); /* a launcher may end this process with the others during the shutdown */
    return COPSE_OK;
}

/* The monitor's text does not know the option. */
static copse_status note_loss(const struct run *r, copse_status s)
{
    char text[1000];
    if (s != COPSE_ERR_DEVICE_LOST || r->settings.checkpoint || r->cluster)
        return s;
    return session_set_error(s, "%s, with --checkpoint PATH",
                             session_plain(text, sizeof text, session_error()));
}

static copse_status train_network(struct run *r)
{
    struct copse_dataset_info train, test;
    if (!r->ctx) /* a fold has the context of the first one */
        COPSE_TRY(session_open(&r->settings.how, &r->ctx));
    COPSE_TRY(open_cluster(r));
    compiling_show(is_json(r) ? COMPILING_JSON : is_talking(r) ? COMPILING_TEXT : COMPILING_SILENT);
    /* a server that gets a signal lets its workers end first */
    if (r->settings.checkpoint || r->settings.save || r->settings.trace)
        signals_catch();
    if (run_is_server(r))
        return run_serve(r);
    if (r->is_evaluator)
        return run_evaluator(r);
    COPSE_TRY(run_trace_open(r));
    COPSE_TRY(run_open(r));
    COPSE_TRY(run_compare(r));
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->held_out, &test);
    if (is_json(r) && r->fold == 0)
        COPSE_TRY(
            event_start(&r->settings, r->strategy, run_shards_each(r), train.rows, test.rows));
    COPSE_TRY(run_init(r));
    COPSE_TRY(make_monitor(r));
    COPSE_TRY(freeze_warn(r));
    COPSE_TRY(run_log_open(r));
    if (!is_silent(r))
        hash_file_plan(&r->hashes, &r->settings.hashes);
    r->clock = r->drawn = run_now();
    r->is_training = true;
    const copse_status s = copse_monitor_run(r->monitor, COPSE_ALL, NULL);
    r->progress.seconds += run_now() - r->clock;
    const bool is_unwritten =
        s == COPSE_ERR_IO && run_is_over(r) && (!r->cluster || run_is_served(r));
    if (is_unwritten)
        snprintf(r->unwritten, sizeof r->unwritten, "%s", session_error());
    else
        COPSE_TRY(note_loss(r, s));
    COPSE_TRY(run_log_close(r));
    COPSE_TRY(hash_file_end(&r->hashes));
    if (r->fold > 0)
        return run_finish_fold(r);
    if (r->saved_epoch == 0) /* resumed with no training left */
        COPSE_TRY(run_save_epoch(r));
    return train_finish(r);
}

/* A signal: write and report the state, and how to resume. */
static copse_status train_stop(struct run *r)
{
    const uint64_t steps = r->trainer ? copse_trainer_steps(r->trainer) : 0;
    struct copse_monitor_info info = { 0 };
    copse_status s =
        r->monitor && r->settings.checkpoint ? copse_monitor_checkpoint(r->monitor) : COPSE_OK;
    bar_clear();
    COPSE_TRY(s);
    if (r->monitor)
        copse_monitor_describe(r->monitor, &info);
    COPSE_TRY(run_save_stopped(r));
    if (is_json(r) && info.newest)
        s = event_checkpoint("stopped", info.newest, steps, &r->saved_position);
    else if (is_json(r))
        s = event_stopped(steps);
    else if (!is_silent(r) && (info.newest || r->stopped_text[0]))
        fprintf(stderr, "copse train: stopped after step %llu%s%s%s%s\n", (unsigned long long)steps,
                r->stopped_text, info.newest ? "; the checkpoint is '" : "",
                info.newest ? info.newest : "",
                info.newest ? "'; resume with the same command and --resume" : "");
    return s;
}

/* The shell's exit code for the signal. A worker that stops because another one got the signal
   returns the same code. */
static int stopped_code(void)
{
    return 128 + (signals_caught() ? signals_caught() : SIGTERM);
}

/* Other workers are lost: print which, and how to resume. */
static int end_without_others(const struct run *r)
{
    struct copse_monitor_info info = { 0 };
    if (r->monitor)
        copse_monitor_describe(r->monitor, &info);
    fprintf(stderr, "copse: %s%s\n", session_error(),
            info.newest ? "; start all workers again with --resume" : "");
    return EXIT_LOST;
}

/* What was to be written while training could not be: no wrong input. */
static bool is_disk_error(const struct run *r)
{
    struct copse_monitor_info info = { 0 };
    copse_monitor_describe(r->monitor, &info);
    return r->has_write_error || info.failed > 0;
}

/* Print the error in one line. */
static int train_fail(const struct run *r, copse_status s)
{
    const bool is_between_workers = s == COPSE_ERR_COMM || s == COPSE_ERR_TIMEOUT;
    bar_clear();
    if (is_between_workers && r->cluster && copse_cluster_lost(r->cluster) > 0)
        return end_without_others(r);
    if (s == COPSE_ERR_UNRELIABLE) {
        struct copse_monitor_info info = { 0 };
        if (r->monitor)
            copse_monitor_describe(r->monitor, &info);
        fprintf(stderr, "copse: %s; %s%s\n", session_error(),
                info.newest ? "the last checkpoint is " : "there is no checkpoint",
                info.newest ? info.newest : "");
        return EXIT_FAILED;
    }
    if (s == COPSE_ERR_NONFINITE && r->is_training)
        return run_fail_nonfinite(r);
    const int code = session_fail(s);
    return s == COPSE_ERR_IO && r->is_training && is_disk_error(r) ? EXIT_FAILED : code;
}

int run_once(struct run *r)
{
    copse_status s = train_network(r);
    int code = EXIT_DONE;
    if (s == COPSE_OK && (r->unsaved[0] || r->unwritten[0])) {
        run_show_unwritten(r);
        code = EXIT_FAILED;
    }
    if (s == COPSE_OK && run_has_diverged(r)) {
        run_show_diverged(r);
        code = EXIT_FAILED;
    }
    if (!r->is_evaluator && s == COPSE_ERR_CANCELLED && (signals_caught() || r->cluster)) {
        s = train_stop(r);
        code = stopped_code();
    }
    if (s != COPSE_OK)
        code = r->is_evaluator ? evaluation_fail(r, s) : train_fail(r, s);
    if (s != COPSE_OK && s != COPSE_ERR_CANCELLED && r->cluster) /* so all end with this code */
        copse_cluster_end_job(r->cluster, s, session_error(), code);
    const bool has_failed = s != COPSE_OK && s != COPSE_ERR_CANCELLED;
    /* Last: results do not depend on it. After a failure the release of the context writes it, if it
       has a step. */
    s = has_failed ? COPSE_OK : run_trace_close(r);
    if (s != COPSE_OK) {
        const int trace_code = session_fail(s);
        code = code == EXIT_DONE ? trace_code : code;
    }
    return code;
}

static int train_command(int argc, char **argv, bool is_worker)
{
    struct run r = { 0 };
    int code = train_settings_parse(argc, argv, is_worker, &r.settings);
    if (code >= 0)
        return code;
    if (r.settings.folds > 0)
        return train_folds(&r.settings);
    code = run_once(&r);
    run_close(&r);
    return code;
}

int cmd_train(int argc, char **argv)
{
    return adapt_is_meant(argc, argv)        ? train_adapter(argc, argv)
           : train_onnx_is_meant(argc, argv) ? train_onnx(argc, argv)
                                             : train_command(argc, argv, false);
}

int cmd_worker(int argc, char **argv)
{
    return train_command(argc, argv, true);
}
