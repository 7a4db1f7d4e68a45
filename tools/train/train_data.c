/* SPDX-License-Identifier: MIT */
/* The data of a run: opens and splits it, and prints how its columns are used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"
#include "copse/data/schema.h"

#include "tools/common/plural.h"
#include "tools/train/train_run.h"

#define CLASSES_SHOWN 5

/* `source`: filled in, for the result. */
static struct copse_dataset_params params_of(const struct train_settings *s,
                                             struct copse_source_params *source)
{
    *source = (struct copse_source_params){
        .resize = s->resize,
        .is_weighted = s->loss && strstr(s->loss, "weights="),
    };
    const bool is_position = s->label && s->label[strspn(s->label, "0123456789")] == '\0';
    return (struct copse_dataset_params){
        .labels = s->labels,
        .classes = s->classes,
        .scale = (copse_feature_scale)s->scale.at->value,
        .csv = { .label_name = is_position ? NULL : s->label,
                 .label_column = is_position ? (uint32_t)strtoul(s->label, NULL, 10) : 0,
                 .header = (copse_csv_header)s->header.at->value },
        .task = (copse_task)s->task.at->value,
        .missing = (copse_missing)s->missing.at->value,
        .ignore = s->ignore,
        .source = source,
    };
}

/* ---- what is printed ---- */

static void show_columns(const copse_schema *schema, const struct copse_schema_info *info)
{
    uint32_t numbers = 0, categories = 0, values = 0, dates = 0, ignored = 0;
    bool is_scaled = false, has_mean = false;
    struct copse_schema_column c;
    for (uint32_t i = 0; copse_schema_column(schema, i, &c) == COPSE_OK && i < info->columns; i++) {
        numbers += c.role == COPSE_COLUMN_NUMBER;
        ignored += c.role == COPSE_COLUMN_IGNORED;
        categories += c.role == COPSE_COLUMN_CATEGORY;
        values += c.role == COPSE_COLUMN_CATEGORY ? c.width : 0;
        dates += c.role == COPSE_COLUMN_DATE;
        is_scaled |= c.scale != 1.0;
        has_mean |= c.mean != 0.0;
    }
    printf("         columns: %u of numbers%s", numbers,
           numbers == 0 ? ""
           : has_mean   ? ", each with mean 0 and deviation 1"
           : is_scaled  ? ", divided by the largest"
                        : "");
    if (categories > 0)
        printf("; %u of text, with %u categor%s", categories, values, values == 1 ? "y" : "ies");
    if (dates > 0)
        printf("; %u of dates, as year, month, day, weekday ...", dates);
    if (ignored > 0)
        printf("; %u left out", ignored);
    printf("\n");
}

static void show_pictures(const struct train_settings *s, const struct copse_schema_info *info)
{
    printf("         pictures: %u x %u, %s", info->shape.dims[1], info->shape.dims[0],
           info->shape.rank == 3 ? "colour" : "grey");
    if (s->resize)
        printf("; resized");
    if (s->augment)
        printf("; changed while training: %s", s->augment);
    printf("\n");
}

static void show_task(const struct train_settings *s, const copse_schema *schema,
                      const struct copse_schema_info *info)
{
    const bool is_several = info->task == COPSE_TASK_REGRESSION && info->outputs > 1;
    const char *how = info->kind == COPSE_DATA_PICTURES                            ? ", by folder"
                      : is_several && info->kind == COPSE_DATA_TABLE && !s->labels ? ""
                      : s->task.at->value == COPSE_TASK_AUTO
                          ? ", found from the labels (--task sets it)"
                          : "";
    const char *name;
    double mean, scale;
    if (info->task != COPSE_TASK_REGRESSION) {
        printf("         task: classification%s; classes", how);
        for (uint32_t i = 0;
             i < info->outputs && i < CLASSES_SHOWN && copse_schema_class(schema, i); i++)
            printf("%s %s", i > 0 ? "," : "", session_shown(copse_schema_class(schema, i)));
        printf("%s\n", info->outputs > CLASSES_SHOWN ? ", ..." : "");
        return;
    }
    printf("         task: regression%s", how);
    for (uint32_t i = 0; is_several && i < info->outputs && i < CLASSES_SHOWN; i++)
        if (copse_schema_target(schema, i, &name, &mean, &scale) == COPSE_OK && name[0])
            printf("%s \"%s\"", i > 0 ? "," : "; targets", session_shown(name));
    if (is_several && info->outputs > CLASSES_SHOWN)
        printf(", ...");
    if (info->outputs == 1 && copse_schema_target(schema, 0, &name, &mean, &scale) == COPSE_OK) {
        if (name[0])
            printf("; target \"%s\"", session_shown(name));
        if (mean != 0.0 || scale != 1.0)
            printf(" with mean %.6g and deviation %.6g", mean, scale);
    }
    printf("\n");
}

static void train_data_show(const struct run *r, const copse_schema *schema)
{
    const struct train_settings *s = &r->settings;
    struct copse_dataset_info all, train, test;
    struct copse_schema_info info;
    copse_dataset_describe(r->all, &all);
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->held_out, &test);
    if (copse_schema_describe(schema, &info) != COPSE_OK)
        return;
    if (info.kind == COPSE_DATA_TEXT) {
        text_show(r, schema);
        return;
    }
    printf("data     %s: %zu example%s of %zu number%s, %u %s%s\n",
           s->is_default_data ? "hand-written digits" : s->data, all.rows, plural_end(all.rows),
           all.row_size, plural_end(all.row_size), info.outputs,
           info.task != COPSE_TASK_REGRESSION ? "classes" : "target",
           info.task == COPSE_TASK_REGRESSION && info.outputs > 1 ? "s" : "");
    if (info.kind == COPSE_DATA_TABLE)
        show_columns(schema, &info);
    const bool has_files = copse_dataset_file(r->all, 0) != NULL;
    if (has_files)
        show_pictures(s, &info);
    if (info.kind == COPSE_DATA_TABLE || has_files || info.task == COPSE_TASK_REGRESSION)
        show_task(s, schema, &info);
    if (r->fold > 0)
        printf("         %u folds: each example is held out once, %sshuffled with seed %llu\n",
               s->folds, s->split.at->value == SPLIT_STRATIFIED ? "of each class its part, " : "",
               (unsigned long long)s->seed);
    else if (!r->held_out)
        printf("         all for training, none held out: the last epoch counts\n");
    else if (train.rows == all.rows)
        printf("         %zu for training, %zu held out: %s\n", train.rows, test.rows, s->held_out);
    else
        printf("         %zu for training, %zu held out, %sshuffled with seed %llu\n", train.rows,
               test.rows, s->split.at->value == SPLIT_STRATIFIED ? "of each class its part, " : "",
               (unsigned long long)s->seed);
}

/* ---- the data ---- */

/* The squared differences of held-out targets, or else of all, from their mean, over all targets:
   what R2 compares with. */
static copse_status measure_spread(struct run *r, uint32_t targets)
{
    const copse_dataset *held = r->held_out ? r->held_out : r->all;
    struct copse_dataset_info test;
    copse_dataset_describe(held, &test);
    float *y = malloc(test.rows * targets * sizeof *y);
    if (!y)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the targets");
    const copse_status s = copse_dataset_gather(held, "y", NULL, test.rows, y);
    r->spread = 0.0;
    for (uint32_t t = 0; s == COPSE_OK && t < targets; t++) {
        double mean = 0.0;
        for (size_t i = 0; i < test.rows; i++)
            mean += (double)y[i * targets + t] / (double)test.rows;
        for (size_t i = 0; i < test.rows; i++)
            r->spread += pow((double)y[i * targets + t] - mean, 2.0);
    }
    free(y);
    return s;
}

copse_status run_sum_labels(const copse_dataset *data, uint32_t *out)
{
    enum { ROWS = 1024 };
    struct copse_dataset_info info;
    struct copse_column y = { .name = NULL };
    uint32_t rows[ROWS];
    size_t words = 1;
    copse_dataset_describe(data, &info);
    for (size_t i = 0; i < info.columns && (!y.name || strcmp(y.name, "y") != 0); i++)
        COPSE_TRY(copse_dataset_column(data, i, &y));
    for (uint32_t i = 0; i < y.shape.rank; i++)
        words *= y.shape.dims[i];
    uint32_t *labels = malloc(ROWS * words * sizeof *labels);
    copse_status s =
        labels ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the labels");
    *out = 2166136261u;
    for (size_t at = 0, n; s == COPSE_OK && at < info.rows; at += n) {
        n = info.rows - at < ROWS ? info.rows - at : ROWS;
        for (size_t i = 0; i < n; i++)
            rows[i] = (uint32_t)(at + i);
        s = copse_dataset_gather(data, "y", rows, n, labels);
        for (size_t i = 0; s == COPSE_OK && i < n * words; i++)
            *out = (*out ^ labels[i]) * 16777619u;
    }
    free(labels);
    return s;
}

static copse_status take_schema(struct run *r, const copse_schema *schema)
{
    struct copse_schema_info info;
    const char *name;
    double mean;
    COPSE_TRY(copse_schema_describe(schema, &info));
    struct network *m = &r->model;
    m->type = info.type;
    m->shape = info.shape;
    m->outputs = info.outputs;
    m->input_offset = info.input_offset;
    m->input_scale = info.input_scale;
    m->is_regression = info.task == COPSE_TASK_REGRESSION;
    m->target_scale = 1.0;
    r->test.is_regression = r->progress.is_regression = r->history.is_regression = m->is_regression;
    r->test.is_sequence = info.task == COPSE_TASK_SEQUENCE;
    if (r->test.is_sequence && info.outputs < 2)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s': all characters are \"%s\", so there is nothing to learn",
                                 r->settings.data, copse_schema_class(schema, 0));
    if (!m->is_regression && info.outputs < 2)
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "'%s': all labels are \"%s\", so there is nothing to learn; is it the "
            "right column (--label)?",
            r->settings.data, info.outputs == 1 ? copse_schema_class(schema, 0) : "");
    if (!m->is_regression)
        return COPSE_OK;
    if (info.outputs == 1)
        COPSE_TRY(copse_schema_target(schema, 0, &name, &mean, &m->target_scale));
    return measure_spread(r, info.outputs);
}

copse_status run_open_data(struct run *r)
{
    struct train_settings *s = &r->settings;
    struct copse_dataset_info info, train, test;
    struct copse_source_params source;
    struct copse_dataset_params params = params_of(s, &source);
    COPSE_TRY(run_keep_split(r));
    if (!r->all)
        COPSE_TRY(text_open(r, s->data, &params, &r->all));
    copse_dataset_describe(r->all, &info);
    if (!info.has_labels)
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            copse_dataset_file(r->all, 0)
                ? "'%s': the pictures have no classes: give a folder with one sub-folder per class"
                : "'%s' has no labels: name their file with --labels, or give a CSV "
                  "with a label column or a folder with an IDX pair",
            s->data);
    if (s->is_held_file && !s->held_out)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "the run held out a file of its own: name it with --held-out");
    COPSE_TRY(run_divide(r));
    r->test.is_absent = !r->held_out;
    copse_dataset_describe(r->train, &train);
    copse_dataset_describe(r->held_out, &test);
    COPSE_TRY(train_settings_fit(s, r->train, r->held_out,
                                 r->held_out && !run_is_served(r) && !r->is_evaluator));
    if (r->is_evaluator && s->batch > train.rows)
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "'%s' has %zu example%s for training, and the run has batches of %u: give the "
            "--data of the run",
            s->data, train.rows, plural_end(train.rows), s->batch);
    COPSE_TRY(take_schema(r, copse_dataset_schema(r->all)));
    COPSE_TRY(run_sum_labels(r->all, &r->label_sum));
    if (is_talking(r))
        train_data_show(r, copse_dataset_schema(r->all));
    const struct copse_loader_params held = { .batch = test.rows < 1000 ? test.rows : 1000,
                                              .no_shuffle = true };
    if (r->held_out)
        COPSE_TRY(copse_loader_create(r->held_out, &held, &r->held));
    return copse_loader_create(
        r->train,
        &(struct copse_loader_params){
            .batch = s->batch, .seed = s->seed, .prefetch = 8, .augment = s->augment },
        &r->batches);
}
