/* SPDX-License-Identifier: MIT */
/* Checkpoints of `copse train`: the trainer's state, the history, and the settings that must stay
   the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/train/model_file.h"

#include "tools/common/events.h"
#include "tools/common/plural.h"
#include "tools/train/train_run.h"

#define STEPS "application/steps" /* f64 [steps, 2]: loss, accuracy */
/* f64 [epochs, 3]: step, held-out loss, accuracy; of a regression [epochs, 4]: step, held-out loss,
   R2, mean absolute error */
#define EPOCHS       "application/epochs"
#define STOPPED      "application.stopped_early"
#define HISTORY_ROWS 10000
#define SETTINGS     "application.settings" /* a run continues only with them */
#define TRAINING     "application.training" /* the same in a model file, for people */

/* ---- settings: "--name=value" lines ---- */

struct text {
    char bytes[SETTINGS_BYTES];
    size_t used;
};

static void train_state_add(struct text *t, const char *name, const char *value)
{
    if (t->used < sizeof t->bytes)
        t->used +=
            (size_t)snprintf(t->bytes + t->used, sizeof t->bytes - t->used, "%s=%s\n", name, value);
}

static void add_number(struct text *t, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    train_state_add(t, name, text);
}

static void add_count(struct text *t, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    train_state_add(t, name, text);
}

/* Identifies the data by content, whatever its path. */
static void add_data(struct text *t, const struct run *r)
{
    struct copse_dataset_info info;
    char text[160];
    copse_dataset_describe(r->all, &info);
    snprintf(text, sizeof text, "%zu examples of %zu numbers, %u %s, labels %08x", info.rows,
             info.row_size, r->model.outputs, r->model.is_regression ? "targets" : "classes",
             (unsigned)r->label_sum);
    train_state_add(t, "--data", text);
}

/* The settings that must stay the same and, only for the file, the planned length of the run: a run
   may be made longer. */
static copse_status train_state_describe(const struct run *r, bool is_for_file, struct text *t)
{
    const struct train_settings *s = &r->settings;
    add_data(t, r);
    train_state_add(t, "--held-out", run_held_out_text(r)); /* first: defaults depend on its rows */
    train_state_add(t, "--split", run_split_text(r));
    train_state_add(t, "--scale", s->scale.at->name);
    train_state_add(t, "--task", s->task.at->name);
    train_state_add(t, "--missing", s->missing.at->name);
    train_state_add(t, "--header", s->header.at->name);
    train_state_add(t, "--label", s->label ? s->label : "");
    train_state_add(t, "--ignore", s->ignore ? s->ignore : "");
    if (settings_are_text(s)) {
        train_state_add(t, "--tokens", text_tokens_name(s));
        add_count(t, "--context", s->context);
        add_count(t, "--stride", s->stride);
    }
    train_state_add(t, "--resize", s->resize ? s->resize : "");
    train_state_add(t, "--augment", s->augment ? s->augment : "");
    train_state_add(t, "--model", s->model);
    if (s->loss || !is_for_file) /* files without it have the loss of the task */
        train_state_add(t, "--loss", s->loss ? s->loss : "");
    train_state_add(t, "--optimizer", s->optimizer.at->name);
    if (s->rule)
        train_state_add(t, "--optimizer-settings", s->rule);
    if (s->groups)
        train_state_add(t, "--group", s->groups);
    if (s->freeze)
        train_state_add(t, "--freeze", s->freeze);
    if (s->body_lr != UNSET_BODY)
        add_number(t, "--body-lr", (double)s->body_lr);
    train_state_add(t, "--schedule", s->schedule);
    add_number(t, "--lr", (double)s->lr);
    add_number(t, "--momentum", (double)s->momentum);
    add_number(t, "--weight-decay", (double)s->weight_decay);
    if (s->average > 0.0f)
        add_number(t, "--average", (double)s->average);
    if (s->precision.at->value != COPSE_F32 || !is_for_file) /* files without it are of f32 */
        train_state_add(t, "--precision", s->precision.at->name);
    if (bits_are_portable(&s->bits) || !is_for_file) /* files without it have fast ones */
        train_state_add(t, "--bits", bits_text(&s->bits));
    add_number(t, "--dropout", (double)s->dropout);
    add_count(t, "--batch", s->batch);
    if (is_for_file)
        add_count(t, "--epochs", s->epochs);
    add_count(t, "--seed", s->seed);
    return t->used < sizeof t->bytes
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT,
                                   "the settings are too long for a checkpoint");
}

copse_status run_describe(const struct run *r, char *text, size_t room)
{
    const struct train_settings *s = &r->settings;
    struct text t = { .used = 0 };
    COPSE_TRY(train_state_describe(r, true, &t));
    const int used =
        snprintf(text, room,
                 "%s--on-loss=%s\n--init=%s\n--init-layout=%s\n--save=%s\n--save-average=%d\n--"
                 "checkpoint=%s\n--patience=%u\n--min-delta=%.9g\n--save-last=%d\n",
                 t.bytes, s->on_loss.at->name, s->init ? "FILE" : "(none)", s->init_layout.at->name,
                 s->save ? "FILE" : "(none)", s->saves_average, s->checkpoint ? "PATH" : "(none)",
                 s->patience, (double)s->min_delta, s->saves_last);
    return used >= 0 && (size_t)used < room
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT, "the settings are too long to be compared");
}

/* The line of `text` with the option that `line` begins with, or the end of `text`. */
static const char *find_line(const char *text, const char *line)
{
    const size_t name = strcspn(line, "=") + 1;
    while (*text && strncmp(text, line, name) != 0) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

/* `then` and `now` are lines; one of them may be empty. */
static copse_status fail_setting(const char *path, const char *then, const char *now)
{
    const char *name = *then ? then : now;
    const int length = (int)strcspn(name, "=");
    return session_set_error(COPSE_ERR_ARGUMENT,
                             "'%s' was made with%s%.*s, now it is %s%.*s: give the same settings, "
                             "or another --checkpoint",
                             path, *then ? " " : "out ", *then ? (int)strcspn(then, "\n") : length,
                             name, *now ? "" : "without ", *now ? (int)strcspn(now, "\n") : length,
                             *now ? now : name);
}

/* The first setting that differs, or that only one of the two has. */
static copse_status train_state_compare(const char *path, const char *then, const char *now)
{
    for (const char *line = now; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *old = find_line(then, line);
        const size_t length = strcspn(line, "\n");
        if (strcspn(old, "\n") != length || strncmp(old, line, length) != 0)
            return fail_setting(path, old, line);
    }
    for (const char *line = then; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, "--epochs=", strlen("--epochs=")) != 0 && *find_line(now, line) == '\0')
            return fail_setting(path, line, "");
    return COPSE_OK;
}

const char *run_find(const copse_checkpoint *file, const char *key)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, key) == 0)
            return list[i].value;
    return NULL;
}

static copse_status check_settings(const struct run *r, const copse_checkpoint *file,
                                   const char *path)
{
    /* of versions without these options */
    static const char before[] =
        "--scale=max\n--task=auto\n--missing=refuse\n--header=auto\n--label=\n--ignore=\n";
    struct text now = { .used = 0 };
    static const char precision[] = "--precision=f32\n", bits[] = "--bits=fast\n",
                      loss[] = "--loss=\n", split[] = "--held-out=0.2\n--split=random\n";
    char then[sizeof now.bytes + sizeof before + sizeof precision + sizeof bits + sizeof loss +
              sizeof split];
    const char *found = run_find(file, SETTINGS);
    if (!found || strlen(found) >= sizeof now.bytes)
        return session_set_error(COPSE_ERR_ARGUMENT, "'%s' was not made by copse train", path);
    COPSE_TRY(train_state_describe(r, false, &now));
    if (!strstr(found, "--held-out=") && r->settings.split.at->value == SPLIT_STRATIFIED)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' is of a version that split at random: give --split random, "
                                 "or another --checkpoint",
                                 path);
    snprintf(then, sizeof then, "%s%s%s%s%s%s", found, strstr(found, "--scale=") ? "" : before,
             strstr(found, "--precision=") ? "" : precision, strstr(found, "--bits=") ? "" : bits,
             strstr(found, "--loss=") ? "" : loss, strstr(found, "--held-out=") ? "" : split);
    return train_state_compare(path, then, now.bytes);
}

bool run_was_stopped_early(const copse_checkpoint *file)
{
    return run_find(file, STOPPED) != NULL;
}

copse_status run_settings_of(copse_context *ctx, const char *path, char *text, size_t room)
{
    copse_checkpoint *file;
    COPSE_TRY(copse_checkpoint_open(ctx, path, &file));
    const char *found = run_find(file, SETTINGS);
    const bool ok = found && strlen(found) < room;
    if (ok)
        strcpy(text, found);
    copse_checkpoint_release(&file);
    return ok ? COPSE_OK
              : session_set_error(COPSE_ERR_ARGUMENT,
                                  "'%s' was not made by copse train --checkpoint", path);
}

/* ---- saving ---- */

static size_t epoch_columns(const struct run *r)
{
    return r->test.is_regression ? 4 : 3;
}

/* What checkpoints and model files hold beside the variables: settings, the split, the model's
   description in a checkpoint, and the history. */
struct extras {
    struct text settings;
    char seed[24], shares[64 * COPSE_MAX_REPLICAS];
    struct copse_metadata lines[17];
    size_t line_count;
    struct copse_named_array arrays[2]; /* of a model file */
    struct copse_named_array *all;      /* of a checkpoint, with early stopping; owned */
    size_t array_count;
    double *steps, *epochs; /* owned */
};

/* Rows of a history. Model files have at most HISTORY_ROWS: each is the mean of as many steps, or
   the last of as many epochs. */
static size_t group_of(size_t rows, bool is_checkpoint)
{
    return is_checkpoint || rows <= HISTORY_ROWS ? 1 : (rows + HISTORY_ROWS - 1) / HISTORY_ROWS;
}

static copse_status collect_steps(const struct history *h, bool is_checkpoint, struct extras *e)
{
    const size_t group = group_of(h->step_count, is_checkpoint),
                 rows = (h->step_count + group - 1) / group;
    e->steps = malloc((rows + 1) * 2 * sizeof *e->steps);
    if (!e->steps)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
    for (size_t i = 0; i < rows; i++) {
        const size_t first = i * group,
                     end = first + group < h->step_count ? first + group : h->step_count;
        double loss = 0.0, accuracy = 0.0;
        for (size_t k = first; k < end; k++) {
            loss += h->steps[k].loss;
            accuracy += h->steps[k].accuracy;
        }
        e->steps[2 * i] = loss / (double)(end - first);
        e->steps[2 * i + 1] = accuracy / (double)(end - first);
    }
    e->arrays[0] = (struct copse_named_array){
        STEPS, { .type = COPSE_F64, .rank = 2, .shape = { rows, 2 }, .data = e->steps }
    };
    return COPSE_OK;
}

static copse_status collect_epochs(const struct run *r, bool is_checkpoint, struct extras *e)
{
    const struct history *h = &r->history;
    const size_t group = group_of(h->epoch_count, is_checkpoint),
                 rows = (h->epoch_count + group - 1) / group;
    const size_t columns = epoch_columns(r);
    e->epochs = malloc((rows + 1) * columns * sizeof *e->epochs);
    if (!e->epochs)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
    for (size_t i = 0; i < rows; i++) {
        const size_t last =
            (i + 1) * group < h->epoch_count ? (i + 1) * group - 1 : h->epoch_count - 1;
        double *to = e->epochs + columns * i;
        to[0] = (double)h->epochs[last].step;
        to[1] = h->epochs[last].score.loss;
        to[2] = h->epochs[last].score.accuracy;
        if (columns > 3)
            to[3] = h->epochs[last].score.mae;
    }
    e->arrays[1] = (struct copse_named_array){
        EPOCHS, { .type = COPSE_F64, .rank = 2, .shape = { rows, columns }, .data = e->epochs }
    };
    return COPSE_OK;
}

static void extras_free(struct extras *e)
{
    free(e->steps);
    free(e->epochs);
    free(e->all);
}

static copse_status collect_best(const struct run *r, struct extras *e)
{
    const struct copse_named_array *best = NULL;
    size_t count = 0;
    if (r->stopping)
        COPSE_TRY(copse_early_stopping_arrays(r->stopping, &best, &count));
    e->all = malloc((2 + count) * sizeof *e->all);
    if (!e->all)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the best values");
    memcpy(e->all, e->arrays, sizeof e->arrays);
    if (count > 0)
        memcpy(e->all + 2, best, count * sizeof *best);
    e->array_count = 2 + count;
    return COPSE_OK;
}

static copse_status train_state_collect(const struct run *r, bool is_checkpoint, struct extras *e)
{
    size_t count = 0;
    *e = (struct extras){ .line_count = 0 };
    COPSE_TRY(train_state_describe(r, true, &e->settings));
    snprintf(e->seed, sizeof e->seed, "%llu", (unsigned long long)r->settings.seed);
    e->lines[e->line_count++] =
        (struct copse_metadata){ is_checkpoint ? SETTINGS : TRAINING, e->settings.bytes };
    e->lines[e->line_count++] = (struct copse_metadata){ "application.split_seed", e->seed };
    e->lines[e->line_count++] =
        (struct copse_metadata){ "application.split_fraction", run_held_out_text(r) };
    if (is_checkpoint && shares_text(r, e->shares, sizeof e->shares))
        e->lines[e->line_count++] = (struct copse_metadata){ SHARES_KEY, e->shares };
    const struct copse_metadata *model = copse_model_metadata(r->model.model, &count);
    if (is_checkpoint && e->line_count + count + 1 > sizeof e->lines / sizeof *e->lines)
        return session_set_error(COPSE_ERR_UNSUPPORTED,
                                 "a checkpoint has no room for the %zu lines of the model", count);
    for (size_t i = 0; is_checkpoint && i < count; i++)
        e->lines[e->line_count++] = model[i];
    if (is_checkpoint && run_is_stopped_early(r))
        e->lines[e->line_count++] = (struct copse_metadata){ STOPPED, "yes" };
    COPSE_TRY(collect_steps(&r->history, is_checkpoint, e));
    COPSE_TRY(collect_epochs(r, is_checkpoint, e));
    return is_checkpoint ? collect_best(r, e) : COPSE_OK;
}

copse_status run_save_model(struct run *r, const char *path)
{
    struct extras e;
    copse_status s = train_state_collect(r, false, &e);
    if (s == COPSE_OK)
        s = copse_model_save(r->model.model, path,
                             &(struct copse_model_save_params){ .arrays = e.arrays,
                                                                .array_count = 2,
                                                                .metadata = e.lines,
                                                                .metadata_count = e.line_count });
    extras_free(&e);
    return s;
}

copse_status run_save(void *user, const char *path)
{
    struct run *r = user;
    struct extras e;
    uint32_t epoch;
    size_t index;
    if (!r->trainer)
        return session_set_error(COPSE_ERR_DEVICE_LOST, "the devices could not be opened again");
    COPSE_TRY(run_results(r, 0));
    copse_status s = train_state_collect(r, true, &e);
    copse_loader_position(r->batches, &epoch, &index);
    const struct copse_position position = { r->epoch, run_is_over(r) ? 0 : index };
    if (s == COPSE_OK)
        s = copse_trainer_checkpoint(
            r->trainer, path,
            &(struct copse_state_params){ .position = position,
                                          .arrays = e.all,
                                          .array_count = e.array_count,
                                          .metadata = e.lines,
                                          .metadata_count = e.line_count });
    extras_free(&e);
    COPSE_TRY(s);
    r->saved_position = position;
    return is_json(r)
               ? event_checkpoint("checkpoint", path, copse_trainer_steps(r->trainer), &position)
               : COPSE_OK;
}

/* ---- restoring ---- */

static const double *rows_of(const copse_checkpoint *file, const char *name, size_t columns,
                             size_t *count)
{
    const struct copse_array_view *a = copse_checkpoint_find(file, name);
    *count = 0;
    if (!a || a->type != COPSE_F64 || a->rank != 2 || a->shape[1] != columns)
        return NULL;
    *count = a->shape[0];
    return a->data;
}

static copse_status take_history(struct run *r, const copse_checkpoint *file)
{
    size_t count;
    bool ok = true;
    const size_t columns = epoch_columns(r);
    history_free(&r->history);
    const double *x = rows_of(file, EPOCHS, columns, &count);
    if (r->schedule)
        COPSE_TRY(copse_schedule_restore(r->schedule, ""));
    for (size_t i = 0; ok && i < count; i++, x += columns) {
        r->test.loss = x[1];
        r->test.accuracy = x[2];
        r->test.mae = columns > 3 ? x[3] : 0.0;
        ok = history_epoch(&r->history, (uint64_t)x[0], &r->test);
        if (r->schedule && r->held_out)
            COPSE_TRY(copse_schedule_observe(r->schedule, x[1]));
    }
    x = rows_of(file, STEPS, 2, &count);
    for (size_t i = 0; ok && i < count; i++) /* the epochs say which epoch a step is of */
        COPSE_TRY(run_add_result(r, x[2 * i], x[2 * i + 1]));
    r->progress.step = copse_trainer_steps(r->trainer);
    return ok ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the loss curve");
}

static copse_status take_position(struct run *r, const char *path, const struct copse_position *at)
{
    const uint32_t epochs = r->settings.epochs;
    const bool is_over = at->epoch == epochs && at->batch == 0;
    if (!is_over && (at->epoch >= epochs || at->batch > copse_loader_count(r->batches)))
        return session_set_error(COPSE_ERR_ARGUMENT, "'%s' is of epoch %u already, --epochs is %u",
                                 path, at->epoch, epochs);
    r->epoch = at->epoch;
    r->progress.epoch = is_over ? epochs : at->epoch + 1;
    r->saved_position = *at;
    return is_over ? COPSE_OK : copse_loader_start(r->batches, at->epoch, (size_t)at->batch);
}

/* The epochs that the file's run was to have. */
static uint32_t epochs_of(const copse_checkpoint *file)
{
    const char *text = run_find(file, SETTINGS), *at = text ? strstr(text, "--epochs=") : NULL;
    return at ? (uint32_t)strtoul(at + strlen("--epochs="), NULL, 10) : 0;
}

/* A schedule then follows the curve of the new length from the next step on. */
static void show_length(const struct run *r, uint32_t before)
{
    const uint32_t epochs = r->settings.epochs;
    const char *schedule = r->settings.schedule;
    if (is_talking(r) && before > 0 && before != epochs)
        printf("         %u epoch%s instead of %u%s%s%s\n", epochs, plural_end(epochs), before,
               r->schedule ? "; the learning rate follows the " : "",
               !r->schedule                      ? ""
               : strcmp(schedule, "cosine") == 0 ? "cosine"
                                                 : "schedule",
               r->schedule ? " of the new length" : "");
}

static copse_status train_state_show(struct run *r, const char *path,
                                     const struct copse_position *at, uint32_t epochs)
{
    const uint64_t step = copse_trainer_steps(r->trainer);
    if (!r->is_recovering)
        r->progress.resumed_step = step;
    if (is_json(r))
        return event_checkpoint("resume", path, step, at);
    if (is_talking(r))
        printf("resumed  %s: after %llu step%s, in epoch %u\n", path, (unsigned long long)step,
               plural_end(step), r->progress.epoch);
    show_length(r, epochs);
    if (is_talking(r))
        printf("\n");
    return COPSE_OK;
}

/* Compare the settings before anything is restored, and before the warnings of a restore. Several
   workers read the file once, in the restore. */
static copse_status check_alone(const struct run *r, const char *path)
{
    copse_checkpoint *file;
    if (r->job || copse_checkpoint_open(r->ctx, path, &file) != COPSE_OK) /* the restore says why */
        return COPSE_OK;
    const copse_status s = check_settings(r, file, path);
    copse_checkpoint_release(&file);
    return s;
}

copse_status run_take(struct run *r, const char *path, struct copse_position *at,
                      copse_checkpoint **file)
{
    *file = NULL;
    COPSE_TRY(check_alone(r, path));
    copse_status s = copse_trainer_restore(r->trainer, path, at, file);
    /* naming a setting helps more than naming an array */
    if (s == COPSE_ERR_ARGUMENT || s == COPSE_ERR_SHAPE) {
        char text[600];
        session_plain(text, sizeof text, copse_last_error());
        /* the first worker wrote the file */
        if (is_silent(r) || (copse_checkpoint_open(r->ctx, path, file) == COPSE_OK &&
                             check_settings(r, *file, path) == COPSE_OK))
            session_set_error(s, "%s", text);
        copse_checkpoint_release(file);
        return s;
    }
    COPSE_TRY(s);
    s = check_settings(r, *file, path);
    if (s != COPSE_OK)
        copse_checkpoint_release(file);
    return s;
}

/* Restore this worker's part of the chief's state. */
static copse_status restore_apart(struct run *r)
{
    struct copse_position at;
    COPSE_TRY(copse_trainer_restore(r->trainer, "", &at, NULL));
    r->progress.step = copse_trainer_steps(r->trainer);
    return take_position(r, "the chief's checkpoint", &at);
}

copse_status run_restore(void *user, const char *path)
{
    struct run *r = user;
    struct copse_position at;
    copse_checkpoint *file = NULL;
    if (run_is_apart(r))
        return restore_apart(r);
    COPSE_TRY(run_take(r, path, &at, &file));
    copse_status s = take_position(r, path, &at);
    if (s == COPSE_OK)
        s = take_history(r, file);
    if (s == COPSE_OK && r->stopping)
        s = copse_early_stopping_resume(r->stopping, file);
    if (s == COPSE_OK && run_is_over(r))
        r->progress.epoch = r->epoch;
    const uint32_t epochs = epochs_of(file);
    copse_checkpoint_release(&file);
    return s == COPSE_OK ? train_state_show(r, path, &at, epochs) : s;
}
