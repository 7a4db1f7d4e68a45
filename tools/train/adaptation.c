/* SPDX-License-Identifier: MIT */
/* copse train of a language model: the adapter, its data, the steps, and what is printed. */
#include "tools/train/adapt_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/readers.h"
#include "copse/distribute/cluster.h"
#include "copse/loop/early_stopping.h"
#include "copse/optim/schedule.h"
#include "copse/train/audit.h"

#include "tools/common/json.h"
#include "tools/common/language_data.h"
#include "tools/common/plural.h"
#include "tools/common/use.h"
#include "tools/train/model_sum.h"

#define HELD_OUT_MOST ((size_t)64 << 10) /* bytes, where --held-out was not given */
#define STEPS_AHEAD   2

struct adaptation {
    struct adapt_settings settings;
    copse_context *ctx;
    copse_strategy *strategy;
    copse_language *language;
    copse_dataset *train, *held_out; /* held_out: NULL: none */
    copse_loader *batches;
    copse_schedule *schedule;
    copse_trainer *trainer;
    copse_early_stopping *stopping;
    struct hash_file hashes;
    size_t windows, held_windows;
    uint64_t steps, step, taken; /* taken: the step of the newest result */
    double loss;                 /* of the steps since the newest line, summed */
    uint32_t count;
    double clock, seconds; /* of these steps */
    uint32_t judged;       /* evaluations */
    double held_loss;      /* of the newest one */
    uint64_t best_step;    /* with the lowest held-out loss */
    bool is_chat, is_over; /* the data are conversations; --patience has ended the run */
    bool is_finishing;     /* the values to save are chosen */
    struct adapt_data data;
    uint64_t resumed_step;      /* 0: the run begins */
    struct copse_position next; /* in the data */
};

static struct adapt_run adapt_run_of(const struct adaptation *a)
{
    return (struct adapt_run){ &a->settings, a->ctx,      a->strategy, a->language,
                               a->trainer,   a->stopping, &a->data };
}

/* Write the checkpoint, if there is to be one; all results are taken. */
static copse_status adapt_checkpoint(const struct adaptation *a)
{
    const struct adapt_run run = adapt_run_of(a);
    const struct adapt_progress p = { .step = a->step,
                                      .best_step = a->best_step,
                                      .judged = a->judged,
                                      .count = a->count,
                                      .held_loss = a->held_loss,
                                      .loss = a->loss,
                                      .seconds = a->seconds,
                                      .next = a->next };
    return a->settings.checkpoint ? adapt_save(&run, &p) : COPSE_OK;
}

/* Go on from the checkpoint, if --resume is given and there is one. */
static copse_status adapt_continue(struct adaptation *a)
{
    const struct adapt_run run = adapt_run_of(a);
    struct adapt_progress p;
    struct copse_early_stopping_info info = { .is_over = false };
    bool found;
    COPSE_TRY(adapt_resume(&run, &p, &found));
    if (!found)
        return COPSE_OK;
    a->step = a->taken = a->resumed_step = p.step;
    a->best_step = p.best_step;
    a->judged = p.judged;
    a->count = p.count;
    a->held_loss = p.held_loss;
    a->loss = p.loss;
    a->seconds = p.seconds;
    a->next = p.next;
    if (a->stopping)
        copse_early_stopping_describe(a->stopping, &info);
    a->is_over = info.is_over;
    return COPSE_OK;
}

static bool adapt_is_talking(const struct adaptation *a)
{
    return !a->settings.is_json && !a->settings.is_quiet;
}

/* ---- the model ---- */

/* Each task of a job would train the same adapter and write the same file. */
static copse_status adapt_refuse_job(struct adaptation *a)
{
    copse_cluster_spec *job = NULL;
    uint32_t tasks = 0;
    COPSE_TRY(copse_cluster_spec_find(a->ctx, &job));
    for (int role = COPSE_ROLE_CHIEF; job && role <= COPSE_ROLE_EVALUATOR; role++)
        tasks += copse_cluster_spec_tasks(job, (copse_role)role);
    copse_cluster_spec_release(&job);
    return tasks <= 1 ? COPSE_OK
                      : session_set_error(COPSE_ERR_UNSUPPORTED,
                                          "adapters are trained by one process, and this is one of "
                                          "%u tasks of a job; use --devices",
                                          tasks);
}

static copse_status adapt_open_devices(struct adaptation *a)
{
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count;
    struct copse_strategy_params params = { .kernels = NULL };
    bits_fill(&a->settings.bits, &params);
    if (a->settings.devices)
        return copse_strategy_open(a->ctx, a->settings.devices, &params, &a->strategy);
    COPSE_TRY(copse_select_devices(a->ctx, "auto", ids, COPSE_MAX_REPLICAS, &count));
    if (bits_are_portable(&a->settings.bits))
        return copse_strategy_open(a->ctx, ids[0], &params, &a->strategy);
    return copse_one_device_create(a->ctx, ids[0], NULL, &a->strategy);
}

static copse_status adapt_open_model(struct adaptation *a)
{
    const struct adapt_settings *s = &a->settings;
    const struct copse_adapter_params how = { .rank = s->rank,
                                              .alpha = s->alpha,
                                              .dropout = s->dropout,
                                              .is_rank_stabilised = s->is_rank_stabilised,
                                              .is_dora = s->is_dora,
                                              .targets = s->targets,
                                              .seed = s->seed };
    const struct copse_language_params params = { .weights = (copse_weights)s->weights.at->value,
                                                  .date = s->date };
    COPSE_TRY(copse_language_open(a->strategy, s->model, &params, &a->language));
    COPSE_TRY(s->init ? copse_language_load_adapter(a->language, s->init)
                      : copse_language_adapt(a->language, &how));
    struct copse_adapter_info adapter;
    COPSE_TRY(copse_language_describe_adapter(a->language, &adapter));
    if (adapter.is_dora && use_has_ending(s->save, ".gguf"))
        return session_set_error(COPSE_ERR_UNSUPPORTED, "%s", adapt_no_dora);
    return s->checkpoint ? model_sum(s->model, &a->data.model_sum) : COPSE_OK;
}

/* ---- the data ---- */

/* Where the last line of text[0, size) begins. */
static size_t adapt_last_line(const char *text, size_t size)
{
    while (size > 0 && strchr(" \t\r\n", text[size - 1]))
        size--;
    while (size > 0 && text[size - 1] != '\n')
        size--;
    return size;
}

/* Where the held-out part begins: after a line end, if one is near or lines are conversations; never
   inside a character. It has at least the last line of several; `size`: there is one line. */
static size_t adapt_cut(const struct adaptation *a, const char *text, size_t size)
{
    const size_t near = a->is_chat ? size : 1000, last = adapt_last_line(text, size);
    size_t part = (size_t)((double)size * a->settings.part);
    if (!a->settings.held_out && part > HELD_OUT_MOST)
        part = HELD_OUT_MOST;
    size_t cut = size - part;
    if (cut > last && last > 0 && (a->is_chat || cut - last < near))
        return last;
    for (size_t at = cut; at < size && at - cut < near; at++)
        if (text[at] == '\n' && at + 1 <= last)
            return at + 1;
    if (a->is_chat) /* the cut is in the last line, the only one */
        return size;
    while (cut > 0 && cut < size && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

/* The windows of a text, or of conversations. */
static copse_status adapt_make_windows(struct adaptation *a, bool is_chat, const char *text,
                                       size_t size, copse_dataset **out)
{
    struct copse_conversations_info info;
    if (!is_chat)
        return copse_language_windows(a->language, text, size, a->settings.context, out);
    COPSE_TRY(
        copse_language_conversations(a->language, text, size, a->settings.context, &info, out));
    a->settings.context = info.window; /* of the held-out ones, too */
    if (adapt_is_talking(a))
        printf("answers  %llu conversation%s in windows of %u tokens, %llu token%s to predict\n",
               (unsigned long long)info.conversations, plural_end(info.conversations), info.window,
               (unsigned long long)info.predicted, plural_end(info.predicted));
    if (info.cut + info.dropped > 0)
        fprintf(stderr,
                "copse train: conversations longer than a window: %llu cut, %llu left out, because "
                "no answer begins in the window; --context makes it longer\n",
                (unsigned long long)info.cut, (unsigned long long)info.dropped);
    return COPSE_OK;
}

static copse_status adapt_held_file(struct adaptation *a)
{
    copse_array *bytes = NULL;
    COPSE_TRY(copse_read_text(a->ctx, a->settings.held_out, NULL, &bytes));
    const struct copse_array_view *view = copse_array_view(bytes);
    bool is_chat;
    a->data.held_sum = model_sum_bytes(MODEL_SUM_START, view->data, view->shape[0]);
    copse_status s = conversations_tell(a->settings.held_out, view->data, view->shape[0], &is_chat);
    if (s == COPSE_OK)
        s = adapt_make_windows(a, is_chat, view->data, view->shape[0], &a->held_out);
    copse_array_release(&bytes);
    return s;
}

/* The training part and the held-out part of the data. */
static copse_status adapt_split(struct adaptation *a, const char *text, size_t size)
{
    struct adapt_settings *s = &a->settings;
    COPSE_TRY(conversations_tell(s->data, text, size, &a->is_chat));
    if (s->context == 0 && !a->is_chat)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--context 0: is for conversations; windows of a text have at "
                                 "least 1 token");
    if (s->context == ADAPT_UNSET)
        s->context = 0;
    const size_t cut = s->part > 0 ? adapt_cut(a, text, size) : size;
    if (s->part > 0 && cut == size && (s->held_out || s->patience > 0))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "%s: '%s' is one line, too short for a held-out part; give "
                                 "--held-out FILE",
                                 s->held_out ? "--held-out" : "--patience", s->data);
    COPSE_TRY(adapt_make_windows(a, a->is_chat, text, cut, &a->train));
    if (cut == size)
        return COPSE_OK;
    const copse_status held =
        adapt_make_windows(a, a->is_chat, text + cut, size - cut, &a->held_out);
    if (held != COPSE_ERR_ARGUMENT)
        return held;
    char why[512];
    snprintf(why, sizeof why, "%s", session_error());
    return session_set_error(
        held, "the held-out part, %zu byte%s at the end of '%s': %s; change --held-out", size - cut,
        plural_end(size - cut), s->data, why);
}

static copse_status adapt_open_data(struct adaptation *a)
{
    const struct adapt_settings *s = &a->settings;
    copse_array *bytes = NULL;
    struct copse_dataset_info info;
    COPSE_TRY(copse_read_text(a->ctx, s->data, NULL, &bytes));
    const struct copse_array_view *view = copse_array_view(bytes);
    a->data.sum = model_sum_bytes(MODEL_SUM_START, view->data, view->shape[0]);
    copse_status status = adapt_split(a, view->data, view->shape[0]);
    copse_array_release(&bytes);
    if (status == COPSE_OK && s->part < 0)
        status = adapt_held_file(a);
    COPSE_TRY(status);
    copse_dataset_describe(a->train, &info);
    a->windows = info.rows;
    if (a->held_out) {
        copse_dataset_describe(a->held_out, &info);
        a->held_windows = info.rows;
    }
    if (s->batch > a->windows)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--batch %u: the text has %zu window%s; make it or --context "
                                 "smaller",
                                 s->batch, a->windows, plural_end(a->windows));
    const struct copse_loader_params params = { .batch = s->batch, .seed = s->seed };
    COPSE_TRY(copse_loader_create(a->train, &params, &a->batches));
    const uint64_t epochs = s->epochs > 0 ? s->epochs : 1;
    a->steps = s->steps > 0 ? s->steps : epochs * copse_loader_count(a->batches);
    a->data.batches = copse_loader_count(a->batches);
    a->data.windows = a->windows;
    a->data.held_windows = a->held_windows;
    a->data.steps = a->steps;
    return COPSE_OK;
}

/* ---- the trainer ---- */

static copse_status adapt_make_trainer(struct adaptation *a)
{
    const struct adapt_settings *s = &a->settings;
    if (strcmp(s->schedule, "constant") != 0)
        COPSE_TRY(copse_schedule_create(a->ctx,
                                        &(struct copse_schedule_params){
                                            .text = s->schedule, .rate = s->lr, .steps = a->steps },
                                        &a->schedule));
    const struct copse_trainer_params params = {
        .loss = copse_language_loss,
        .user = a->language,
        .optimizer = { .learning_rate = s->lr,
                       .schedule = a->schedule ? copse_schedule_rate : NULL,
                       .schedule_user = a->schedule },
        .seed = s->seed,
        .memory_budget = s->memory,
    };
    COPSE_TRY(copse_trainer_create(a->strategy, &params, &a->trainer));
    const struct copse_audit_params audit = { .is_cross_check_off = s->has_no_cross_check };
    COPSE_TRY(copse_trainer_audit(a->trainer, &audit));
    const struct copse_early_stopping_params stopping = { .patience = s->patience,
                                                          .keep_last = s->saves_last };
    return a->held_out ? copse_early_stopping_create(a->trainer, &stopping, &a->stopping)
                       : COPSE_OK;
}

/* ---- output ---- */

/* With portable bits a device has several replicas, one after the other. */
static void adapt_show_devices(const struct adaptation *a)
{
    const uint32_t count = copse_strategy_replicas(a->strategy);
    for (uint32_t i = 0, next; i < count; i = next) {
        const char *id = copse_strategy_device(a->strategy, i)->id;
        next = i + 1;
        while (bits_are_portable(&a->settings.bits) && next < count &&
               strcmp(copse_strategy_device(a->strategy, next)->id, id) == 0)
            next++;
        printf("device   %s", id);
        if (bits_are_portable(&a->settings.bits))
            printf(", %u shard%s", next - i, plural_end(next - i));
        printf("\n");
    }
}

static copse_status adapt_show_start(const struct adaptation *a)
{
    const struct adapt_settings *s = &a->settings;
    struct copse_language_info model;
    struct copse_adapter_info adapter;
    COPSE_TRY(copse_language_describe(a->language, &model));
    COPSE_TRY(copse_language_describe_adapter(a->language, &adapter));
    if (s->is_json) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "start");
        json_add_text(o, "model", s->model);
        json_add_count(o, "parameters", model.parameters);
        json_add_count(o, "rank", adapter.rank);
        json_add_number(o, "alpha", (double)adapter.alpha);
        cJSON_AddBoolToObject(o, "rank_stabilised", adapter.is_rank_stabilised);
        cJSON_AddBoolToObject(o, "dora", adapter.is_dora);
        json_add_count(o, "adapted", adapter.weights);
        json_add_count(o, "adapter_parameters", adapter.parameters);
        json_add_count(o, "windows", a->windows);
        json_add_count(o, "held_out_windows", a->held_windows);
        json_add_count(o, "steps", a->steps);
        json_add_count(o, "resumed_step", a->resumed_step);
        return json_print(o);
    }
    if (s->is_quiet)
        return COPSE_OK;
    printf("model    %s, %llu parameters\n", model.architecture,
           (unsigned long long)model.parameters);
    printf("adapter  %srank %u, alpha %g%s, dropout %g: %u weight%s, %llu parameters\n",
           adapter.is_dora ? "DoRA, " : "", adapter.rank, (double)adapter.alpha,
           adapter.is_rank_stabilised ? " (rank-stabilised)" : "", (double)adapter.dropout,
           adapter.weights, plural_end(adapter.weights), (unsigned long long)adapter.parameters);
    printf("data     %zu window%s%s\n", a->windows, plural_end(a->windows),
           a->held_out ? "" : "; none is held out: nothing judges the adapter");
    if (a->held_out)
        printf("held out %zu window%s%s\n", a->held_windows, plural_end(a->held_windows),
               s->part < 0 ? " of another file" : " at the end of the text");
    adapt_show_devices(a);
    printf("training %llu step%s of %u window%s each, learning rate %g (%s)\n",
           (unsigned long long)a->steps, plural_end(a->steps), s->batch, plural_end(s->batch),
           (double)s->lr, s->schedule);
    if (a->resumed_step > 0)
        printf("resumed  after step %llu, from '%s'\n", (unsigned long long)a->resumed_step,
               session_shown(s->checkpoint));
    fflush(stdout);
    return COPSE_OK;
}

/* The mean loss since the newest line, and what was measured. */
static copse_status adapt_show(struct adaptation *a, const struct copse_language_evaluation *e)
{
    const double per_step = a->count > 0 ? a->seconds / a->count : 0;
    if (a->settings.is_json) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", e ? "evaluated" : "steps");
        json_add_count(o, "step", a->step);
        if (a->count > 0) {
            json_add_number(o, "loss", a->loss / a->count);
            json_add_number(o, "seconds_per_step", per_step);
        }
        if (e) {
            json_add_number(o, "held_out_loss", e->loss);
            json_add_number(o, "held_out_perplexity", exp(e->loss));
            json_add_number(o, "bits_per_byte", e->bits_per_byte);
        }
        COPSE_TRY(json_print(o));
    } else if (adapt_is_talking(a)) {
        printf("step %5llu/%llu", (unsigned long long)a->step, (unsigned long long)a->steps);
        if (a->count > 0)
            printf("  loss %.4f  %.2f s a step", a->loss / a->count, per_step);
        if (e)
            printf("  held-out loss %.4f  perplexity %.3f", e->loss, exp(e->loss));
        printf("\n");
        fflush(stdout);
    }
    a->loss = a->seconds = 0;
    a->count = 0;
    return COPSE_OK;
}

static copse_status adapt_judge(struct adaptation *a)
{
    struct copse_language_evaluation e;
    bool stop = false;
    if (!a->held_out)
        return adapt_show(a, NULL);
    COPSE_TRY(copse_language_evaluate_windows(a->language, a->held_out, &e));
    COPSE_TRY(adapt_show(a, &e));
    if (!isfinite(e.loss))
        return session_set_error(COPSE_ERR_NONFINITE, "the held-out loss is %s after step %llu",
                                 isnan(e.loss) ? "NaN" : "infinite", (unsigned long long)a->step);
    COPSE_TRY(copse_early_stopping_observe(a->stopping, ++a->judged, e.loss, &stop));
    struct copse_early_stopping_info info;
    copse_early_stopping_describe(a->stopping, &info);
    a->held_loss = e.loss;
    if (info.best_epoch == a->judged)
        a->best_step = a->step;
    if (stop && a->step < a->steps && adapt_is_talking(a))
        printf("stopped  after step %llu: %u epoch%s without a lower held-out loss (--patience)\n",
               (unsigned long long)a->step, info.waited, plural_end(info.waited));
    a->is_over = a->is_over || stop;
    return COPSE_OK;
}

/* ---- the run ---- */

/* Take results until at most `most` steps have none. */
static copse_status adapt_take_results(struct adaptation *a, uint64_t most)
{
    struct copse_step_result r;
    for (;;) {
        const bool wait = a->step - a->taken > most;
        const copse_status s = copse_trainer_result(a->trainer, wait, &r);
        if (s == COPSE_ERR_END || (!wait && s == COPSE_ERR_TIMEOUT))
            return COPSE_OK;
        COPSE_TRY(s);
        a->taken = r.step;
        a->loss += r.loss;
        a->count++;
    }
}

static copse_status adapt_step(struct adaptation *a, const struct copse_host_batch *batch)
{
    const uint64_t every = a->settings.every > 0 ? a->settings.every : (a->steps + 19) / 20;
    const double start = system_now();
    COPSE_TRY(hash_file_begin(&a->hashes, a->trainer));
    COPSE_TRY(copse_trainer_step(a->trainer, batch));
    a->step++;
    COPSE_TRY(hash_file_step(&a->hashes, a->trainer));
    const bool is_line = a->step % every == 0 || a->step == a->steps;
    COPSE_TRY(adapt_take_results(a, is_line ? 0 : STEPS_AHEAD));
    a->seconds += system_now() - start;
    return is_line && a->step < a->steps ? adapt_show(a, NULL) : COPSE_OK;
}

/* A step, and the checkpoint after it, if it is its turn. After an epoch adapt_steps writes one. */
static copse_status adapt_step_and_state(struct adaptation *a, const struct copse_host_batch *batch)
{
    const uint32_t every = a->settings.checkpoint_every;
    size_t index;
    COPSE_TRY(adapt_step(a, batch));
    copse_loader_position(a->batches, &a->next.epoch, &index);
    a->next.batch = index;
    if (every == ADAPT_UNSET || a->step % every != 0 || a->step == a->steps ||
        index == a->data.batches)
        return COPSE_OK;
    COPSE_TRY(adapt_take_results(a, 0));
    return adapt_checkpoint(a);
}

/* Epochs until all steps are done. */
static copse_status adapt_steps(struct adaptation *a)
{
    struct copse_host_batch batch;
    while (a->step < a->steps && !a->is_over) {
        const uint32_t epoch = a->next.epoch;
        copse_status s = copse_loader_start(a->batches, epoch, (size_t)a->next.batch);
        while (s == COPSE_OK && a->step < a->steps) {
            if (signals_caught())
                return COPSE_ERR_CANCELLED;
            s = copse_loader_next(a->batches, &batch);
            if (s == COPSE_OK)
                s = adapt_step_and_state(a, &batch);
        }
        if (s != COPSE_OK && s != COPSE_ERR_END)
            return s;
        COPSE_TRY(adapt_take_results(a, 0));
        COPSE_TRY(adapt_judge(a));
        a->next = (struct copse_position){ .epoch = epoch + 1 };
        COPSE_TRY(adapt_checkpoint(a));
    }
    return COPSE_OK;
}

/* The values with the lowest held-out loss, or with --save-last the last ones; the file. */
static copse_status adapt_finish(struct adaptation *a)
{
    const struct adapt_settings *s = &a->settings;
    struct copse_early_stopping_info info = { .best_epoch = 0 };
    copse_early_stopping_describe(a->stopping, &info);
    a->is_finishing = true;
    if (info.has_values && info.best_epoch < a->judged)
        COPSE_TRY(copse_early_stopping_swap(a->stopping));
    COPSE_TRY(copse_language_save_adapter(a->language, s->save));
    const double loss = info.has_values ? info.best_loss : a->held_loss;
    const uint64_t step = info.has_values ? a->best_step : a->step;
    if (s->is_json) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "done");
        json_add_count(o, "step", a->step);
        json_add_text(o, "saved", s->save);
        json_add_count(o, "saved_step", step);
        cJSON_AddBoolToObject(o, "stopped_early", a->is_over && a->step < a->steps);
        if (a->stopping) {
            json_add_number(o, "held_out_loss", loss);
            json_add_number(o, "held_out_perplexity", exp(loss));
        }
        return json_print(o);
    }
    printf("saved    '%s': the values of step %llu", s->save, (unsigned long long)step);
    if (a->stopping)
        printf(", held-out loss %.4f, perplexity %.3f", loss, exp(loss));
    printf("\n");
    return COPSE_OK;
}

static copse_status adapt_train(struct adaptation *a)
{
    COPSE_TRY(session_open(&a->settings.how, &a->ctx));
    COPSE_TRY(adapt_refuse_job(a));
    COPSE_TRY(adapt_open_devices(a));
    COPSE_TRY(adapt_open_model(a));
    COPSE_TRY(adapt_open_data(a));
    COPSE_TRY(adapt_make_trainer(a));
    hash_file_plan(&a->hashes, &a->settings.hashes);
    COPSE_TRY(adapt_continue(a));
    COPSE_TRY(adapt_show_start(a));
    signals_catch();
    if (a->resumed_step == 0)
        COPSE_TRY(adapt_judge(a));
    COPSE_TRY(adapt_steps(a));
    COPSE_TRY(hash_file_end(&a->hashes));
    return adapt_finish(a);
}

/* After losses that are not finite, or the loss of a device: the best values before are saved. */
static int adapt_fail(struct adaptation *a, copse_status status)
{
    const struct adapt_settings *s = &a->settings;
    const bool is_diverged = status == COPSE_ERR_NONFINITE;
    struct copse_early_stopping_info info = { .best_epoch = 0 };
    struct system_file file;
    char why[1024], advice[128] = "";
    if (a->is_finishing || !a->trainer || (!is_diverged && status != COPSE_ERR_DEVICE_LOST))
        return session_fail(status);
    snprintf(why, sizeof why, "%s", session_error());
    if (is_diverged && a->step > 0)
        snprintf(advice, sizeof advice, "; training stopped: lower --lr (it is %g)", (double)s->lr);
    else if (is_diverged)
        snprintf(advice, sizeof advice, ": no update was made: look at --model, --init and --data");
    copse_early_stopping_describe(a->stopping, &info);
    if (info.has_values && a->best_step > 0 && copse_early_stopping_swap(a->stopping) == COPSE_OK &&
        copse_language_save_adapter(a->language, s->save) == COPSE_OK)
        session_set_error(
            status, "%s%s; '%s' has the values of step %llu, with the lowest held-out loss, %.4f",
            why, advice, s->save, (unsigned long long)a->best_step, info.best_loss);
    else
        session_set_error(status, "%s%s; '%s' %s", why, advice, s->save,
                          system_look(s->save, &file) ? "is unchanged" : "was not written");
    const int code = session_fail(status);
    return is_diverged ? EXIT_FAILED : code;
}

/* A signal: the adapter has the values of the newest step. */
static int adapt_stop(struct adaptation *a)
{
    copse_status s = adapt_take_results(a, 0);
    if (s == COPSE_OK && a->step > 0)
        s = adapt_checkpoint(a);
    if (s == COPSE_OK && a->step > 0)
        s = copse_language_save_adapter(a->language, a->settings.save);
    if (s != COPSE_OK)
        return adapt_fail(a, s);
    fprintf(stderr, "copse train: stopped after step %llu%s%s%s\n", (unsigned long long)a->step,
            a->step > 0 ? "; '" : "", a->step > 0 ? a->settings.save : "",
            a->step == 0             ? ""
            : a->settings.checkpoint ? "' has its values; the same command with --resume goes on"
                                     : "' has its values; --init continues from them");
    return 128 + signals_caught();
}

int train_adapter(int argc, char **argv)
{
    struct adaptation a = { .step = 0 };
    int code = adapt_settings_parse(argc, argv, &a.settings);
    if (code >= 0)
        return code;
    const copse_status s = adapt_train(&a);
    code = s == COPSE_OK                                  ? EXIT_DONE
           : s == COPSE_ERR_CANCELLED && signals_caught() ? adapt_stop(&a)
                                                          : adapt_fail(&a, s);
    if (hash_file_close(&a.hashes) != COPSE_OK) /* after a failure, which is reported */
        fprintf(stderr, "copse train: %s\n", session_error());
    copse_early_stopping_release(&a.stopping);
    copse_trainer_release(&a.trainer);
    copse_schedule_release(&a.schedule);
    copse_loader_release(&a.batches);
    copse_dataset_release(&a.held_out);
    copse_dataset_release(&a.train);
    copse_language_release(&a.language);
    copse_strategy_release(&a.strategy);
    copse_context_release(&a.ctx);
    return code;
}
