/* SPDX-License-Identifier: MIT */
/* --folds K: cross-validation. Each of K runs holds another fold out; the scores of the models that
   they would save are printed, then means and deviations. With --save a last run trains on all
   examples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/folds.h"
#include "copse/data/schema.h"
#include "copse/train/evaluate.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"
#include "tools/train/train_run.h"

/* What is measured of a fold. */
static const struct fold_measure {
    const char *name, *key;
    bool is_of_numbers, is_of_classes;
} measures[FOLD_MEASURES] = {
    { "accuracy", "accuracy", false, true },
    { "balanced accuracy", "balanced_accuracy", false, true },
    { "F1", "f1", false, true },
    { "ROC AUC", "auc", false, true },
    { "R2", "r2", true, false },
    { "mean absolute error", "mae", true, false },
    { "loss", "loss", true, true },
};

static const char one_process[] =
    "--folds trains in one process: leave options of jobs and servers out, and start it without "
    "`copse launch`, mpirun or SLURM";

const char *folds_check(const struct train_settings *s)
{
    const struct {
        bool is_given;
        const char *text;
    } wrong[] = {
        { s->folds < 2, "--folds: at least 2" },
        { s->held_out, "--folds holds each example out once: leave --held-out out" },
        { s->checkpoint || s->is_resume,
          "--folds: its runs write no checkpoints: leave --checkpoint and --resume out" },
        { s->plot || s->logdir || s->trace || s->hashes.path,
          "--folds makes several runs: leave --plot, --logdir, --trace and --hash out" },
        { settings_are_text(s), "--folds: the windows of a text overlap: leave --tokens out" },
        { s->is_worker || s->cluster || s->servers > 0 ||
              s->strategy.at->value == STRATEGY_PARAMETER_SERVER ||
              s->strategy.at->value == STRATEGY_COLLECTIVE,
          one_process },
        { s->save && strstr(s->schedule, "plateau"),
          "--folds with --save trains on all examples at last, and --schedule plateau needs a "
          "held-out part" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (wrong[i].is_given)
            return wrong[i].text;
    return NULL;
}

copse_status run_leave_job(struct run *r)
{
    uint32_t tasks = 0;
    for (int role = COPSE_ROLE_CHIEF; r->job && role <= COPSE_ROLE_EVALUATOR; role++)
        tasks += copse_cluster_spec_tasks(r->job, (copse_role)role);
    copse_cluster_spec_release(&r->job);
    return tasks > 1 ? session_set_error(COPSE_ERR_ARGUMENT, "%s", one_process) : COPSE_OK;
}

/* Count the rows of each class. */
static copse_status count_rows(const struct run *r, uint32_t *counts, uint32_t classes, size_t rows)
{
    enum { AT_ONCE = 1024 };
    uint32_t at[AT_ONCE];
    int32_t labels[AT_ONCE];
    for (size_t i = 0, n; i < rows; i += n) {
        n = rows - i < AT_ONCE ? rows - i : AT_ONCE;
        for (size_t k = 0; k < n; k++)
            at[k] = (uint32_t)(i + k);
        COPSE_TRY(copse_dataset_gather(r->all, "y", at, n, labels));
        for (size_t k = 0; k < n; k++)
            if (labels[k] >= 0 && (uint32_t)labels[k] < classes)
                counts[labels[k]]++;
    }
    return COPSE_OK;
}

/* A class with fewer rows than folds is missing in some of them: not all scores are of all folds. */
static copse_status warn_of_rare(const struct run *r)
{
    struct copse_dataset_info info;
    struct copse_schema_info is;
    const copse_schema *schema = copse_dataset_schema(r->all);
    char number[16], others[48];
    if (r->fold != 1 || !schema || copse_schema_describe(schema, &is) != COPSE_OK ||
        is.task != COPSE_TASK_CLASSIFICATION)
        return COPSE_OK;
    copse_dataset_describe(r->all, &info);
    uint32_t *counts = calloc((size_t)is.outputs + 1, sizeof *counts);
    if (!counts)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory to count the classes");
    const copse_status s = count_rows(r, counts, is.outputs, info.rows);
    uint32_t rare = 0, first = 0;
    for (uint32_t i = is.outputs; s == COPSE_OK && i-- > 0;)
        if (counts[i] > 0 && counts[i] < r->settings.folds) {
            rare++;
            first = i;
        }
    const char *name = copse_schema_class(schema, first);
    snprintf(number, sizeof number, "%u", first);
    snprintf(others, sizeof others, " (and %u more)", rare - 1);
    if (rare > 0)
        fprintf(stderr,
                "copse: warning: --folds %u: class \"%s\"%s has fewer rows (%u) than folds; a fold "
                "without rows of a class has no ROC AUC: use fewer folds, or add rows\n",
                r->settings.folds, name ? session_shown(name) : number, rare > 1 ? others : "",
                counts[first]);
    free(counts);
    return s;
}

copse_status run_divide_fold(struct run *r)
{
    const struct copse_fold_params how = {
        .folds = r->settings.folds,
        .fold = r->fold - 1,
        .seed = r->settings.seed,
        .stratify = r->settings.split.at->value == SPLIT_STRATIFIED,
    };
    struct copse_dataset_info info;
    copse_dataset_describe(r->all, &info);
    if (how.folds > info.rows)
        return session_set_error(COPSE_ERR_ARGUMENT, "--folds %u: the data has %zu example%s",
                                 how.folds, info.rows, plural_end(info.rows));
    COPSE_TRY(warn_of_rare(r));
    return copse_dataset_fold(r->all, &how, &r->train, &r->held_out);
}

/* The variables have the values of the result. */
static copse_status measure_fold(struct run *r)
{
    const uint32_t classes = r->model.is_regression ? 0 : r->model.outputs;
    double *auc = calloc(classes + 1, sizeof *auc), mean = 0;
    struct copse_evaluation is;
    if (!auc)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the scores");
    const struct copse_evaluation_params how = { .class_auc = classes > 0 ? auc : NULL };
    const copse_status s = copse_model_evaluate(r->model.model, r->held_out, &how, &is);
    for (uint32_t i = 0; i < classes; i++)
        mean += auc[i] / classes;
    free(auc);
    const double scores[FOLD_MEASURES] = {
        is.accuracy, is.balanced_accuracy, is.f1, mean, is.r2, is.mae, is.loss
    };
    memcpy(r->fold_scores, scores, sizeof scores);
    return s;
}

static bool is_measured(const struct run *r, size_t measure)
{
    return r->model.is_regression ? measures[measure].is_of_numbers
                                  : measures[measure].is_of_classes;
}

copse_status run_finish_fold(struct run *r)
{
    const uint32_t best = run_best_epoch(r) ? run_best_epoch(r) : r->epoch;
    COPSE_TRY(run_with_best(r, measure_fold));
    if (r->settings.is_json) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "fold");
        json_add_count(o, "fold", r->fold);
        json_add_count(o, "folds", r->settings.folds);
        json_add_count(o, "best_epoch", best);
        for (size_t i = 0; i < FOLD_MEASURES; i++)
            if (is_measured(r, i) && !isnan(r->fold_scores[i]))
                json_add_number(o, measures[i].key, r->fold_scores[i]);
        return json_print(o);
    }
    if (r->settings.is_quiet)
        return COPSE_OK;
    printf("fold %u/%u  epoch %u", r->fold, r->settings.folds, best);
    for (size_t i = 0; i < FOLD_MEASURES; i++)
        if (is_measured(r, i) && isnan(r->fold_scores[i]))
            printf("  %s -", measures[i].name);
        else if (is_measured(r, i))
            printf("  %s %.5g", measures[i].name, r->fold_scores[i]);
    printf("\n");
    fflush(stdout);
    return COPSE_OK;
}

/* Means and standard deviations over the folds. */
static copse_status show_means(const struct run *last, double (*scores)[FOLD_MEASURES], bool saves)
{
    const uint32_t folds = last->settings.folds;
    cJSON *o = last->settings.is_json ? cJSON_CreateObject() : NULL;
    if (o) {
        json_add_text(o, "event", "folds");
        json_add_count(o, "folds", folds);
    } else if (!last->settings.is_quiet) {
        printf("\n");
    }
    for (size_t i = 0; i < FOLD_MEASURES; i++) {
        double mean = 0, squares = 0;
        uint32_t count = 0; /* folds that have this score */
        char key[40];
        for (uint32_t k = 0; k < folds; k++)
            count += !isnan(scores[k][i]);
        for (uint32_t k = 0; k < folds; k++)
            mean += isnan(scores[k][i]) ? 0 : scores[k][i] / count;
        for (uint32_t k = 0; k < folds; k++)
            squares +=
                isnan(scores[k][i]) ? 0 : (scores[k][i] - mean) * (scores[k][i] - mean) / count;
        if (!is_measured(last, i) || (o && count == 0))
            continue;
        if (o) {
            json_add_number(o, measures[i].key, mean);
            snprintf(key, sizeof key, "%s_deviation", measures[i].key);
            json_add_number(o, key, sqrt(squares));
        } else if (count == 0) {
            printf("%s -\n", measures[i].name);
        } else {
            printf("%s %.4f +- %.4f", measures[i].name, mean, sqrt(squares));
            if (count < folds)
                printf(" (%u of %u folds)", count, folds);
            printf("\n");
        }
    }
    if (o)
        return json_print(o);
    if (!last->settings.is_quiet)
        printf("mean and standard deviation of %u folds%s\n", folds,
               saves ? "; a model of all rows follows"
                     : "; no model is saved (--save FILE trains one on all)");
    fflush(stdout);
    return COPSE_OK;
}

/* The run on all examples. Its length is the mean of the folds' epochs: they may be those with the
   lowest held-out losses. */
static int train_on_all(struct run *r, const struct train_settings *s, uint64_t epochs)
{
    r->settings = *s;
    r->settings.folds = 0;
    r->settings.held_out = "none";
    r->settings.saves_last = false;
    r->settings.patience = 0;
    r->settings.min_delta = 0;
    r->settings.epochs = (uint32_t)((epochs + s->folds / 2) / s->folds);
    if (is_talking(r))
        printf("\n");
    return run_once(r);
}

int train_folds(const struct train_settings *s)
{
    double(*scores)[FOLD_MEASURES] = NULL, (*more)[FOLD_MEASURES];
    copse_context *ctx = NULL;
    copse_dataset *all = NULL;
    uint64_t epochs = 0;
    int code = EXIT_DONE;
    for (uint64_t k = 1; code == EXIT_DONE && k <= (uint64_t)s->folds + (s->save != NULL); k++) {
        struct run r = { .ctx = copse_context_retain(ctx), .all = copse_dataset_retain(all) };
        if (k <= s->folds) {
            r.settings = *s;
            r.settings.save = NULL;
            r.fold = (uint32_t)k;
            code = run_once(&r); /* the first one compares the folds with the rows */
            more = code == EXIT_DONE ? realloc(scores, (size_t)k * sizeof *scores) : NULL;
            if (more)
                memcpy((scores = more)[k - 1], r.fold_scores, sizeof r.fold_scores);
            else if (code == EXIT_DONE)
                code = session_fail(session_set_error(COPSE_ERR_NO_MEMORY,
                                                      "no memory for the scores of the folds"));
            epochs += run_best_epoch(&r) ? run_best_epoch(&r) : r.epoch;
        } else {
            code = train_on_all(&r, s, epochs);
        }
        if (k == s->folds && code == EXIT_DONE &&
            show_means(&r, scores, s->save != NULL) != COPSE_OK)
            code = session_fail(COPSE_ERR_IO);
        if (k == 1) {
            ctx = copse_context_retain(r.ctx);
            all = copse_dataset_retain(r.all);
        }
        run_close(&r);
    }
    copse_dataset_release(&all);
    copse_context_release(&ctx);
    free(scores);
    return code;
}
