/* SPDX-License-Identifier: MIT */
/* --held-out and --split: which examples train, and which ones judge. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "copse/distribute/evaluator.h"

#include "tools/train/train_run.h"

#define PART_DEFAULT "0.2"

const struct option_name split_names[] = {
    { "auto", SPLIT_AUTO },
    { "stratified", SPLIT_STRATIFIED },
    { "random", SPLIT_RANDOM },
    { NULL, 0 },
};

/* The part as a number; 0: the text is none. */
static double part_of(const char *text)
{
    char *end;
    const double part = strtod(text, &end);
    return *text && *end == '\0' && part > 0.0 && part < 1.0 ? part : 0.0;
}

static bool is_number(const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return *text && *end == '\0';
}

/* "30%", "30 %" */
static bool is_percentage(const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return end != text && strcmp(end + strspn(end, " "), "%") == 0;
}

bool split_is_none(const struct train_settings *s)
{
    return s->held_out && strcmp(s->held_out, "none") == 0;
}

static bool is_file(const struct train_settings *s)
{
    return s->held_out && !split_is_none(s) && part_of(s->held_out) == 0.0;
}

const char *split_check(const struct train_settings *s)
{
    if (s->held_out && !*s->held_out)
        return "--held-out: give a part such as 0.2, a FILE, or none";
    if (s->held_out && is_percentage(s->held_out))
        return "--held-out: a part is a number: write 0.3 for 30 %";
    if (s->held_out && strcmp(s->held_out, "-") == 0)
        return "--held-out: standard input cannot judge: give a part such as 0.2, a FILE, or none";
    if (s->held_out && is_number(s->held_out) && part_of(s->held_out) == 0.0)
        return "--held-out: a part is above 0 and below 1; none holds nothing out";
    if (s->held_out && s->tokens.at->value == 1 + COPSE_TOKENS_BPE && part_of(s->held_out) > 0.2)
        return "--held-out: at most 0.2 with --tokens bpe, whose byte pairs are learned from the "
               "first four fifths of the text";
    if (split_is_none(s) && s->patience > 0 && s->patience != UINT32_MAX)
        return "--patience needs a held-out part, and --held-out none has none";
    if (split_is_none(s) && s->min_delta > 0.0f)
        return "--min-delta needs a held-out part, and --held-out none has none";
    if (split_is_none(s) && s->saves_last)
        return "--save-last: with --held-out none the last epoch is saved anyway; leave one out";
    if (split_is_none(s) && strstr(s->schedule, "plateau"))
        return "--schedule plateau needs a held-out part, and --held-out none has none";
    if (s->split.at->value != SPLIT_AUTO && s->held_out && part_of(s->held_out) == 0.0)
        return "--split belongs to a part of --data, such as --held-out 0.2";
    if (s->saves_last && !s->save && !s->checkpoint && (s->folds == 0 || s->folds == UINT32_MAX))
        return "--save-last belongs to --save FILE";
    return NULL;
}

/* ---- a run that is resumed ---- */

/* The value of a line "--name=value" in `text`, or false. */
static bool find_value(const char *text, const char *name, char *value, size_t room)
{
    const char *line = strstr(text, name);
    if (!line)
        return false;
    line += strlen(name);
    snprintf(value, room, "%.*s", (int)strcspn(line, "\n"), line);
    return true;
}

bool run_find_checkpoint(const struct run *r, char *path, size_t room)
{
    struct copse_found_checkpoint found;
    if (r->settings.is_one_file)
        snprintf(path, room, "%s", r->settings.checkpoint);
    else if (copse_monitor_find(r->ctx, r->settings.checkpoint, 0, true, &found) != COPSE_OK)
        return false;
    else
        snprintf(path, room, "%s", found.path);
    return true;
}

copse_status run_keep_split(struct run *r)
{
    static char text[SETTINGS_BYTES], part[64], split[64];
    struct train_settings *s = &r->settings;
    char path[4200];
    if (!s->is_resume || r->job || !run_find_checkpoint(r, path, sizeof path) ||
        run_settings_of(r->ctx, path, text, sizeof text) != COPSE_OK)
        return COPSE_OK; /* whoever restores it says why */
    if (!s->held_out && find_value(text, "--held-out=", part, sizeof part)) {
        (void)split_take(s, "--held-out", part);
        const char *wrong = split_check(s);
        if (wrong)
            return session_set_error(COPSE_ERR_ARGUMENT, "%s ('%s' was made with --held-out %s)",
                                     wrong, path, part);
    }
    if (s->split.at->value == SPLIT_AUTO)
        option_choose(&s->split,
                      find_value(text, "--split=", split, sizeof split) ? split : "random");
    return COPSE_OK;
}

/* ---- the data ---- */

/* Read by the schema of the data, as new data is. */
static copse_status open_held_out(struct run *r)
{
    const struct train_settings *s = &r->settings;
    struct copse_dataset_params params = { .schema = copse_dataset_schema(r->all) };
    struct copse_dataset_info info;
    if (s->data && output_is_same(s->held_out, s->data))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--held-out: '%s' is the file of --data, so it would judge what "
                                 "it trains: name another file, or a part such as 0.2",
                                 s->held_out);
    COPSE_TRY(text_open(r, s->held_out, &params, &r->held_out));
    copse_dataset_describe(r->held_out, &info);
    if (!info.has_labels)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--held-out: '%s' has no labels, so it cannot judge", s->held_out);
    r->train = copse_dataset_retain(r->all);
    return COPSE_OK;
}

/* Both parts have an example; the library would name no option. */
static copse_status check_part(const struct run *r, double train_fraction)
{
    const char *part = r->settings.held_out;
    struct copse_dataset_info info;
    copse_dataset_describe(r->all, &info);
    const double train = floor((double)info.rows * train_fraction + 0.5);
    if (!part || (train_fraction < 1.0 && train >= 1.0 && train < (double)info.rows))
        return COPSE_OK;
    return session_set_error(COPSE_ERR_ARGUMENT, "--held-out %s holds out %s of the %zu examples",
                             part, train < 1.0 ? "all" : "none", info.rows);
}

copse_status run_divide(struct run *r)
{
    struct train_settings *s = &r->settings;
    struct copse_schema_info info;
    COPSE_TRY(copse_schema_describe(copse_dataset_schema(r->all), &info));
    if (s->split.at->value == SPLIT_AUTO)
        option_choose(&s->split, info.task == COPSE_TASK_CLASSIFICATION ? "stratified" : "random");
    if (s->split.at->value == SPLIT_STRATIFIED && info.task != COPSE_TASK_CLASSIFICATION)
        return session_set_error(
            COPSE_ERR_ARGUMENT,
            "--split stratified divides the examples of each class, and %s has "
            "no classes: leave --split out",
            info.task == COPSE_TASK_REGRESSION ? "a regression" : "a text");
    if (r->fold > 0)
        return run_divide_fold(r);
    if (split_is_none(s)) {
        r->train = copse_dataset_retain(r->all);
        return COPSE_OK;
    }
    if (is_file(s))
        return open_held_out(r);
    const struct copse_split_params how = {
        .train_fraction = 1.0 - part_of(s->held_out ? s->held_out : PART_DEFAULT),
        .seed = s->seed,
        .stratify = s->split.at->value == SPLIT_STRATIFIED,
    };
    COPSE_TRY(check_part(r, how.train_fraction));
    return copse_dataset_split(r->all, &how, &r->train, &r->held_out);
}

const char *run_held_out_text(const struct run *r)
{
    static char text[80];
    const struct train_settings *s = &r->settings;
    struct copse_dataset_info info;
    uint32_t labels = 0;
    if (!is_file(s))
        return s->held_out ? s->held_out : PART_DEFAULT;
    copse_dataset_describe(r->held_out, &info);
    if (run_sum_labels(r->held_out, &labels) != COPSE_OK)
        labels = 0;
    snprintf(text, sizeof text, "%zu examples, labels %08x", info.rows, (unsigned)labels);
    return text;
}

const char *run_split_text(const struct run *r)
{
    const struct train_settings *s = &r->settings;
    return is_file(s) || split_is_none(s) ? "none" : s->split.at->name;
}

bool split_take(struct train_settings *s, const char *name, const char *value)
{
    if (strcmp(name, "--split") == 0)
        return strcmp(value, "none") == 0 || option_choose(&s->split, value);
    if (strcmp(name, "--held-out") != 0)
        return false;
    if (part_of(value) == 0.0 && strcmp(value, "none") != 0)
        s->is_held_file = true;
    else if (s->held_out)
        s->taken_part = value;
    else
        s->held_out = value;
    return true;
}

copse_status split_check_taken(const struct train_settings *s, const char *path)
{
    if (s->taken_part)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' was made with --held-out %s, which holds no file out: leave "
                                 "--held-out out",
                                 path, s->taken_part);
    return s->is_held_file && s->held_out && !is_file(s)
               ? session_set_error(COPSE_ERR_ARGUMENT,
                                   "--held-out %s: the run held out a file of its own: name it",
                                   s->held_out)
               : COPSE_OK;
}
