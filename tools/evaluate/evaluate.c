/* SPDX-License-Identifier: MIT */
/* Loss and accuracy on the held-out part: of a run, of a checkpoint, and of each checkpoint that a
   job writes. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/distribute/evaluator.h"

#include "tools/common/events.h"
#include "tools/evaluate/evaluate_model.h"
#include "tools/train/train_run.h"

#define LOOK_NS  100000000L /* between two reads of the folder */
#define PATIENCE 1800       /* s */

static copse_status evaluate_file(struct run *r)
{
    struct copse_dataset_info info;
    struct copse_step_result result;
    struct copse_host_batch batch;
    double loss = 0.0, report = 0.0;
    copse_status s;
    if (!r->held_out)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "the run holds no examples out (--held-out none), so there is "
                                 "nothing to evaluate it with");
    copse_dataset_describe(r->held_out, &info);
    COPSE_TRY(copse_loader_start(r->held, 0, 0));
    while ((s = copse_loader_next(r->held, &batch)) == COPSE_OK) {
        const double n = (double)batch.count, predictions = n * r->model.positions;
        COPSE_TRY(copse_trainer_evaluate(r->trainer, &batch, &result));
        loss += result.loss * n;
        report += r->model.is_regression ? result.reports[0] * n
                                         /* recovers the exact count after rounding */
                                         : round(result.reports[0] * predictions);
    }
    if (s != COPSE_ERR_END)
        return s;
    r->test.loss = loss / (double)info.rows;
    r->test.accuracy = report / (double)info.rows / r->model.positions;
    if (r->test.is_regression) {
        r->test.mae = r->test.accuracy;
        r->test.accuracy = r->spread > 0.0 ? 1.0 - loss * r->model.outputs / r->spread : 0.0;
    }
    return COPSE_OK;
}

copse_status run_evaluate(struct run *r)
{
    return r->settings.average > 0.0f ? run_with_averages(r, evaluate_file) : evaluate_file(r);
}

/* ---- one checkpoint after the other ---- */

/* The progress of an evaluator through the checkpoints of its job. */
struct watch {
    struct run *r;
    struct system_file seen; /* of the file when it was last read; of a folder before it is read */
    uint64_t from;           /* the smallest step wanted in a folder */
    uint64_t below; /* if is_below: only checkpoints with less progress; newer ones are damaged */
    bool is_below;
    uint64_t count; /* evaluated */
    uint64_t step;  /* of the newest of them */
    char path[4096], made_with[SETTINGS_BYTES];
    struct copse_position at; /* the chief's */
    /* workers that share the batches: those of a job with parameter servers, else 1 */
    uint32_t workers;
    bool is_stopped; /* the newest of them is of a run that --patience ended */
};

static bool is_file_of(const char *path, const struct system_file *then)
{
    struct system_file now;
    return system_look(path, &now) && now.number == then->number && now.size == then->size &&
           now.changed == then->changed;
}

/* The newest checkpoint with less progress than `below`. */
static copse_status find_below(const struct watch *w, struct copse_found_checkpoint *out)
{
    struct copse_found_checkpoint one;
    copse_status s, best = COPSE_ERR_END;
    for (uint64_t from = 0;; from = one.progress + 1) {
        s = copse_monitor_find(w->r->ctx, w->r->settings.checkpoint, from, false, &one);
        if (s != COPSE_OK || one.progress >= w->below)
            return s == COPSE_OK || s == COPSE_ERR_END ? best : s;
        *out = one;
        best = COPSE_OK;
    }
}

/* The next checkpoint, into `path`; COPSE_ERR_END: none yet. */
static copse_status evaluate_find(struct watch *w, bool is_newest)
{
    const struct train_settings *s = &w->r->settings;
    struct copse_found_checkpoint found;
    struct system_file info;
    if (!system_look(s->checkpoint, &info)) /* the chief creates it */
        return errno == ENOENT ? COPSE_ERR_END
                               : session_set_error(COPSE_ERR_IO, "cannot look at '%s': %s",
                                                   s->checkpoint, strerror(errno));
    if (s->is_one_file == (info.kind == SYSTEM_FOLDER))
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            s->is_one_file ? "--checkpoint: '%s' is a folder: a folder of checkpoints has "
                             "another name, one checkpoint is FILE.safetensors"
                           : "--checkpoint: '%s' is neither a folder of checkpoints nor "
                             "FILE.safetensors",
            s->checkpoint);
    if (s->is_one_file) {
        if (is_file_of(s->checkpoint, &w->seen))
            return COPSE_ERR_END;
        w->seen = info;
        snprintf(w->path, sizeof w->path, "%s", s->checkpoint);
        return COPSE_OK;
    }
    COPSE_TRY(w->is_below
                  ? find_below(w, &found)
                  : copse_monitor_find(w->r->ctx, s->checkpoint, w->from, is_newest, &found));
    if (!system_look(found.path, &w->seen))
        return COPSE_ERR_END; /* removed in the meantime */
    w->from = found.progress + 1;
    memcpy(w->path, found.path, sizeof w->path);
    return COPSE_OK;
}

/* Settings that the command line omits come from the checkpoint. */
static copse_status take_settings(struct watch *w)
{
    struct run *r = w->r;
    if (r->settings.batch > 0)
        return COPSE_OK;
    COPSE_TRY(run_settings_of(r->ctx, w->path, w->made_with, sizeof w->made_with));
    return train_settings_take(&r->settings, w->made_with)
               ? split_check_taken(&r->settings, w->path)
               : session_set_error(COPSE_ERR_UNSUPPORTED,
                                   "'%s' keeps settings that this version does not know", w->path);
}

static copse_status evaluate_show(const struct watch *w)
{
    const struct run *r = w->r;
    struct copse_dataset_info test;
    if (is_json(r))
        return event_evaluated("evaluated", w->path, w->step, &w->at, &r->test);
    copse_dataset_describe(r->held_out, &test);
    if (!r->settings.is_watching || is_talking(r)) {
        if (r->settings.is_watching)
            printf("step %llu: ", (unsigned long long)w->step);
        score_print(&r->test, test.rows * r->model.positions);
        fflush(stdout);
    }
    return COPSE_OK;
}

/* If workers share the batches, the file has the position of each, "steps:epoch:batch", the chief's
   first. The trainer itself would resume from the position of the slowest worker. */
static void take_places(struct watch *w, const copse_checkpoint *file)
{
    const char *places = run_find(file, "worker_places");
    unsigned long long steps, epoch, batch;
    w->workers = 1;
    if (!places || sscanf(places, "%llu:%llu:%llu", &steps, &epoch, &batch) != 3)
        return;
    w->at = (struct copse_position){ (uint32_t)epoch, batch };
    while ((places = strchr(places, ' ')) != NULL)
        places++, w->workers++;
}

static copse_status evaluate_take(struct watch *w)
{
    struct run *r = w->r;
    copse_checkpoint *file = NULL;
    COPSE_TRY(run_take(r, w->path, &w->at, &file));
    take_places(w, file);
    w->is_stopped = run_was_stopped_early(file);
    copse_checkpoint_release(&file);
    const uint64_t step = copse_trainer_steps(r->trainer);
    if (w->count > 0 && step == w->step) /* the single file was replaced while it was opened */
        return COPSE_OK;
    COPSE_TRY(run_evaluate(r));
    w->step = step;
    w->count++;
    return evaluate_show(w);
}

/* Load the checkpoint that was found. A file that was removed or replaced during the read is not an
   error: a newer one exists. A damaged file is skipped: always while newer ones may come, and
   otherwise once in favour of the one before it, as for resuming. */
static copse_status take_found(struct watch *w)
{
    copse_status s = take_settings(w);
    if (s == COPSE_OK && !w->r->trainer)
        COPSE_TRY(run_open(w->r));
    if (s == COPSE_OK)
        s = evaluate_take(w);
    if (s != COPSE_ERR_IO && s != COPSE_ERR_FORMAT)
        return s;
    if (!is_file_of(w->path, &w->seen)) {
        w->seen = (struct system_file){ 0 };
        session_set_error(COPSE_OK, "%s", "");
        return COPSE_OK;
    }
    const bool is_once = !w->r->settings.is_watching;
    if (is_once ? w->r->settings.is_one_file : s == COPSE_ERR_IO)
        return s;
    if (is_once) {
        w->is_below = true;
        w->below = w->from - 1;
    }
    fprintf(stderr, "copse: warning: %s is passed over: %s\n", w->path, session_error());
    session_set_error(COPSE_OK, "%s", "");
    return COPSE_OK;
}

/* ---- until the job is done ---- */

/* No checkpoint follows this one: its epoch is the last, and its batch is the last one or the
   chief's last one. A checkpoint that is due at the last step is written before the end of the last
   epoch, and is not repeated after it. */
static bool is_over(const struct watch *w)
{
    const uint32_t epochs = w->r->settings.epochs;
    if (w->count == 0 || epochs == 0)
        return false;
    return w->is_stopped || w->at.epoch >= epochs ||
           (w->at.epoch + 1 == epochs &&
            w->at.batch + w->workers > copse_loader_count(w->r->batches));
}

static double patience_of(const struct train_settings *s)
{
    const double three = 3.0 * s->every_seconds;
    return s->evaluator_patience > 0 ? s->evaluator_patience : three > PATIENCE ? three : PATIENCE;
}

static copse_status fail_patience(const struct watch *w)
{
    const struct train_settings *s = &w->r->settings;
    const char *at = s->is_one_file ? "at" : "in";
    w->r->is_left_alone = true;
    if (w->count == 0)
        return session_set_error(
            COPSE_ERR_TIMEOUT,
            "no new checkpoint %s '%s' for %.0f s, none came at all: is it the --checkpoint of "
            "the job? if so, start this again with a longer --evaluator-patience",
            at, s->checkpoint, patience_of(s));
    return session_set_error(
        COPSE_ERR_TIMEOUT,
        "no new checkpoint %s '%s' for %.0f s, the last one is of step %llu: if the job still "
        "runs, start this again with a longer --evaluator-patience",
        at, s->checkpoint, patience_of(s), (unsigned long long)w->step);
}

/* Wait for the next checkpoint. */
static copse_status evaluate_await(struct watch *w)
{
    const double end = system_now() + patience_of(&w->r->settings);
    for (;;) {
        if (signals_caught())
            return COPSE_ERR_CANCELLED;
        const copse_status s = evaluate_find(w, false);
        if (s != COPSE_ERR_END)
            return s;
        if (system_now() >= end)
            return fail_patience(w);
        system_sleep_ns(LOOK_NS); /* a signal interrupts it */
    }
}

static copse_status evaluate_finish(const struct watch *w)
{
    const struct run *r = w->r;
    struct copse_dataset_info test;
    copse_dataset_describe(r->held_out, &test);
    if (is_json(r))
        return event_evaluated("done", w->path, w->step, &w->at, &r->test);
    if (is_talking(r))
        printf("\nthe run is over; %llu of its checkpoints were evaluated:\n",
               (unsigned long long)w->count);
    score_print(&r->test, test.rows * r->model.positions);
    return COPSE_OK;
}

static copse_status evaluate_watch(struct watch *w)
{
    signals_catch();
    w->r->settings.is_watching = true;
    while (!is_over(w)) {
        COPSE_TRY(evaluate_await(w));
        COPSE_TRY(take_found(w));
    }
    return evaluate_finish(w);
}

copse_status run_evaluator(struct run *r)
{
    struct watch w = { .r = r };
    if (!r->settings.checkpoint)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "an evaluator reads the checkpoints that the chief writes: "
                                 "give it the job's --checkpoint PATH");
    COPSE_TRY(run_open(r)); /* detects errors before the first checkpoint */
    return evaluate_watch(&w);
}

int evaluation_fail(const struct run *r, copse_status s)
{
    if (s == COPSE_ERR_CANCELLED && signals_caught()) {
        fprintf(stderr, "copse: evaluating '%s' was stopped\n", r->settings.checkpoint);
        return 128 + signals_caught();
    }
    const int code = session_fail(s);
    return s == COPSE_ERR_TIMEOUT && r->is_left_alone ? EXIT_LOST : code;
}

/* ---- copse evaluate ---- */

/* Evaluate the newest checkpoint once; retry if it was removed during the read. */
static copse_status evaluate_once(struct watch *w)
{
    const struct train_settings *s = &w->r->settings;
    while (w->count == 0) {
        const copse_status found = evaluate_find(w, true);
        if (found == COPSE_ERR_END && w->is_below)
            return session_set_error(COPSE_ERR_FORMAT, "no checkpoint in '%s' is whole",
                                     s->checkpoint);
        if (found == COPSE_ERR_END)
            return session_set_error(COPSE_ERR_IO, "there is no checkpoint %s '%s'",
                                     s->is_one_file ? "file" : "in", s->checkpoint);
        COPSE_TRY(found);
        if (is_talking(w->r))
            printf("checkpoint %s\n", w->path);
        COPSE_TRY(take_found(w));
    }
    return COPSE_OK;
}

int cmd_evaluate(int argc, char **argv)
{
    struct run r = { .is_evaluator = true };
    struct watch w = { .r = &r };
    int code = evaluate_settings_parse(argc, argv, &r.settings);
    if (code >= 0)
        return code;
    compiling_show(is_json(&r)      ? COMPILING_JSON
                   : is_talking(&r) ? COMPILING_TEXT
                                    : COMPILING_SILENT);
    const struct train_settings *p = &r.settings;
    const char *const inputs[] = { p->words.count == 2 ? p->words.at[0] : NULL,
                                   p->words.count == 2 ? p->words.at[1] : NULL, p->labels };
    for (size_t i = 0; p->plot && i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && output_overwrites(p->plot, inputs[i]))
            return session_fail(session_set_error(
                COPSE_ERR_ARGUMENT,
                "--plot would replace '%s', which this command reads; name another file", p->plot));
    if (p->words.count == 2 && (p->kernels || p->classes > 0))
        return session_fail(
            session_set_error(COPSE_ERR_ARGUMENT, "--kernel and --classes belong to --checkpoint"));
    if (p->words.count == 2) {
        const struct use use = { .model_path = p->words.at[0],
                                 .data_path = p->words.at[1],
                                 .labels = p->labels,
                                 .lora = p->lora,
                                 .missing = (copse_missing)p->missing.at->value,
                                 .unknown = (copse_unknown)p->unknown.at->value,
                                 .weights = p->weights.at,
                                 .date = p->date,
                                 .devices = p->devices,
                                 .how = p->how };
        const struct evaluate_outputs out = {
            .plot = p->plot, .logdir = p->logdir, .is_json = p->is_json, .is_quiet = p->is_quiet
        };
        return use_is_language(use.model_path) ? evaluate_language(&use, &out)
                                               : evaluate_model(&use, &out);
    }
    copse_status s = session_open(&r.settings.how, &r.ctx);
    if (s == COPSE_OK)
        s = r.settings.is_watching ? evaluate_watch(&w) : evaluate_once(&w);
    code = s == COPSE_OK ? EXIT_DONE : evaluation_fail(&r, s);
    run_close(&r);
    return code;
}
