/* SPDX-License-Identifier: MIT */
/* A model compared with labels: loss, accuracy, classes, confusion matrix, the worst rows. */
#include "tools/evaluate/evaluate_model.h"
#include "tools/common/plural.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/pictures.h"
#include "copse/train/model_file.h"

#include "tools/common/characters.h"
#include "tools/common/json.h"

#define PLOT_CLASSES 1000       /* of a text */
#define MOST_SCORES  (1u << 28) /* probabilities that are kept for the areas under the curve */

struct class_counts verdict_class(const struct verdict *v, uint32_t i)
{
    const uint32_t classes = v->use.info.outputs;
    struct class_counts c = { .right = v->confusion[(size_t)i * classes + i] };
    for (uint32_t k = 0; k < classes; k++) {
        c.rows += v->confusion[(size_t)i * classes + k];
        c.predicted += v->confusion[(size_t)k * classes + i];
    }
    return c;
}

double verdict_share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : NAN;
}

/* ---- text ---- */

static void print_share(uint64_t part, uint64_t whole)
{
    if (whole > 0)
        printf(" %9.1f%%", 100.0 * (double)part / (double)whole);
    else
        printf(" %10s", "-");
}

/* Of a column of names, in characters. */
static size_t name_width(const struct verdict *v)
{
    const size_t longest = verdict_longest_name(v);
    return longest > 24 ? longest : 24;
}

/* The mean over the classes; NaN: one has none. */
static double mean_auc(const struct verdict *v)
{
    double sum = v->auc ? 0 : NAN;
    for (uint32_t i = 0; v->auc && i < v->use.info.outputs; i++)
        sum += v->auc[i] / v->use.info.outputs;
    return sum;
}

static void print_classes(const struct verdict *v)
{
    char plain[200];
    printf("\n  balanced accuracy %.2f %%, F1 %.4f, ROC AUC ", 100.0 * v->is.balanced_accuracy,
           v->is.f1);
    if (isnan(mean_auc(v)))
        printf("not known: %s\n", v->auc ? "a class has no row" : "too many rows");
    else
        printf("%.4f\n", mean_auc(v));
    const size_t width = name_width(v);
    printf("\n  ");
    characters_put("class", width, false);
    printf(" %8s %10s %10s %10s\n", "rows", "precision", "recall", "F1");
    for (uint32_t i = 0; i < v->use.info.outputs; i++) {
        const struct class_counts c = verdict_class(v, i);
        if (c.rows == 0 && c.predicted == 0)
            continue;
        printf("  ");
        characters_put(session_plain(plain, sizeof plain, use_name(&v->use, i)), width, false);
        printf(" %8llu", (unsigned long long)c.rows);
        print_share(c.right, c.predicted);
        print_share(c.right, c.rows);
        print_share(2 * c.right, c.rows + c.predicted);
        printf("\n");
    }
}

static void print_worst(const struct verdict *v)
{
    const bool has_files = copse_dataset_file(v->use.data, 0) != NULL;
    char plain[1100];
    printf("\n  largest losses: %s (loss)\n%s", has_files ? "file" : "row", has_files ? "" : " ");
    for (size_t i = 0; i < v->is.worst_count; i++)
        if (has_files)
            printf("  %s (%.3g)\n",
                   session_plain(plain, sizeof plain, copse_dataset_file(v->use.data, v->worst[i])),
                   v->losses[i]);
        else
            printf(" %u (%.3g)%s", v->worst[i] + 1, v->losses[i],
                   i + 1 < v->is.worst_count ? "," : "\n");
}

/* Name of a target; a number from 1 where the data has no names. */
static const char *target_name(const struct verdict *v, uint32_t i, char number[16])
{
    const char *name = use_name(&v->use, i);
    if (strcmp(name, "value") != 0)
        return name;
    snprintf(number, 16, "%u", i + 1);
    return number;
}

static void print_targets(const struct verdict *v)
{
    char plain[200], number[16];
    printf("R2 %.4f over %zu row%s and %u targets (loss %.4f)\n", v->is.r2, v->is.rows,
           plural_end(v->is.rows), v->use.info.outputs, v->is.loss);
    const size_t width = name_width(v);
    printf("\n  ");
    characters_put("target", width, false);
    printf(" %10s %21s\n", "R2", "mean absolute error");
    for (uint32_t i = 0; i < v->use.info.outputs; i++) {
        printf("  ");
        characters_put(session_plain(plain, sizeof plain, target_name(v, i, number)), width, false);
        printf(" %10.4f %21.6g\n", v->r2[i], v->mae[i]);
    }
}

static bool is_text(const struct verdict *v)
{
    return v->use.info.kind == COPSE_DATA_TEXT;
}

/* The windows with the largest losses, and what follows them. */
static copse_status print_windows(const struct verdict *v)
{
    char window[100], token[TOKEN_TEXT];
    uint64_t line, column;
    int32_t *next = malloc(v->use.rows.row_size * sizeof *next);
    copse_status s =
        next ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a window");
    printf("\n  largest losses: line, column of the token behind the window (loss)\n");
    for (size_t i = 0; s == COPSE_OK && i < v->is.worst_count; i++) {
        s = copse_dataset_gather(v->use.data, "y", &v->worst[i], 1, next);
        if (s == COPSE_OK)
            s = use_window(&v->use, v->worst[i], window, sizeof window);
        if (s == COPSE_OK)
            s = copse_text_place(v->use.data, v->worst[i], &line, &column);
        if (s != COPSE_OK)
            break;
        token_text(v->use.schema, (uint32_t)next[v->use.rows.row_size - 1], token);
        printf("  %llu, %llu (%.3g): \"%s\" then \"%s\"\n", (unsigned long long)line,
               (unsigned long long)column, v->losses[i], window, token);
    }
    free(next);
    return s;
}

static copse_status print_text_score(const struct verdict *v, bool is_quiet)
{
    printf("%.2f %% of the %zu tokens are right (loss %.4f, perplexity %.2f, %.4f bits per byte)\n",
           100.0 * v->is.accuracy, v->is.rows * v->positions, v->is.loss, exp(v->is.loss),
           v->is.bits_per_byte);
    return is_quiet ? COPSE_OK : print_windows(v);
}

static void print_text(const struct verdict *v, bool is_quiet)
{
    if (v->confusion)
        printf("%.2f %% of the %zu row%s are right (loss %.4f)\n", 100.0 * v->is.accuracy,
               v->is.rows, plural_end(v->is.rows), v->is.loss);
    else if (v->use.info.outputs > 1)
        print_targets(v); /* which may have different units */
    else
        printf("R2 %.4f over %zu row%s, mean absolute error %.6g (loss %.4f)\n", v->is.r2,
               v->is.rows, plural_end(v->is.rows), v->is.mae, v->is.loss);
    if (is_quiet)
        return;
    if (v->confusion) {
        print_classes(v);
        confusion_print(v);
    }
    print_worst(v);
}

/* ---- JSON ---- */

static bool add_classes(cJSON *o, const struct verdict *v)
{
    const uint32_t classes = v->use.info.outputs;
    cJSON *list = cJSON_AddArrayToObject(o, "classes"),
          *matrix = cJSON_AddArrayToObject(o, "confusion");
    bool ok = list && matrix;
    json_add_number(o, "balanced_accuracy", v->is.balanced_accuracy);
    json_add_number(o, "f1", v->is.f1);
    json_add_number(o, "auc", mean_auc(v));
    for (uint32_t i = 0; ok && i < classes; i++) {
        const struct class_counts c = verdict_class(v, i);
        cJSON *one = cJSON_CreateObject(), *row = cJSON_CreateArray();
        ok = cJSON_AddItemToArray(list, one) && cJSON_AddItemToArray(matrix, row);
        json_add_text(one, "class", use_name(&v->use, i));
        json_add_count(one, "rows", c.rows);
        json_add_number(one, "precision", verdict_share(c.right, c.predicted));
        json_add_number(one, "recall", verdict_share(c.right, c.rows));
        json_add_number(one, "f1", verdict_share(2 * c.right, c.rows + c.predicted));
        json_add_number(one, "auc", v->auc ? v->auc[i] : NAN);
        for (uint32_t k = 0; ok && k < classes; k++)
            ok = cJSON_AddItemToArray(
                row, cJSON_CreateNumber((double)v->confusion[(size_t)i * classes + k]));
    }
    return ok;
}

static bool add_targets(cJSON *o, const struct verdict *v)
{
    cJSON *list = cJSON_AddArrayToObject(o, "targets");
    bool ok = list != NULL;
    for (uint32_t i = 0; ok && i < v->use.info.outputs; i++) {
        char number[16];
        cJSON *one = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(list, one);
        json_add_text(one, "target", target_name(v, i, number));
        json_add_number(one, "r2", v->r2[i]);
        json_add_number(one, "mae", v->mae[i]);
    }
    return ok;
}

/* Where a window ends, and its text. */
static bool add_window(cJSON *o, const struct verdict *v, uint32_t row)
{
    char window[400];
    uint64_t line, column;
    if (copse_text_place(v->use.data, row, &line, &column) != COPSE_OK ||
        use_window(&v->use, row, window, sizeof window) != COPSE_OK)
        return false;
    json_add_count(o, "line", line);
    json_add_count(o, "column", column);
    json_add_text(o, "window", window);
    return true;
}

static copse_status print_json(const struct verdict *v)
{
    cJSON *o = cJSON_CreateObject();
    json_add_count(o, "rows", v->is.rows);
    json_add_number(o, "loss", v->is.loss);
    if (v->use.info.task != COPSE_TASK_REGRESSION) {
        json_add_number(o, "accuracy", v->is.accuracy);
        if (is_text(v)) {
            json_add_count(o, "tokens", v->is.rows * v->positions);
            json_add_number(o, "perplexity", exp(v->is.loss));
            json_add_number(o, "bits_per_byte", v->is.bits_per_byte);
        }
    } else {
        json_add_number(o, "r2", v->is.r2);
        json_add_number(o, "mae", v->is.mae);
    }
    cJSON *worst = cJSON_AddArrayToObject(o, "worst");
    bool ok = worst != NULL;
    if (v->use.info.task == COPSE_TASK_REGRESSION)
        ok = ok && (v->use.info.outputs == 1 || add_targets(o, v));
    else if (!is_text(v))
        ok = ok && add_classes(o, v);
    for (size_t i = 0; ok && i < v->is.worst_count; i++) {
        cJSON *one = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(worst, one);
        json_add_count(one, "row", v->worst[i] + 1u);
        if (copse_dataset_file(v->use.data, v->worst[i]))
            json_add_text(one, "file", copse_dataset_file(v->use.data, v->worst[i]));
        json_add_number(one, "loss", v->losses[i]);
        if (is_text(v))
            ok = ok && add_window(one, v, v->worst[i]);
    }
    if (ok)
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the result as JSON");
}

/* ---- the command ---- */

static copse_status evaluate_model_evaluate(struct verdict *v, bool is_plotted)
{
    copse_shape shape;
    COPSE_TRY(use_open(&v->use));
    if (!v->use.rows.has_labels)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' has no labels to compare with; `copse predict` needs none",
                                 v->use.data_path);
    const size_t classes = v->use.info.outputs;
    COPSE_TRY(copse_layer_output(copse_model_layer(v->use.model), &shape));
    v->positions = shape.rank == 2 ? shape.dims[0] : 1;
    if (is_text(v) && is_plotted && classes > PLOT_CLASSES)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--plot draws at most %d classes, the text has %zu", PLOT_CLASSES,
                                 classes);
    if (v->use.info.task != COPSE_TASK_REGRESSION && (!is_text(v) || is_plotted)) {
        v->confusion = malloc(classes * classes * sizeof *v->confusion);
        if (!v->confusion)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a table of %zu classes",
                                     classes);
    } else if (v->use.info.task == COPSE_TASK_REGRESSION) {
        v->r2 = malloc(2 * classes * sizeof *v->r2);
        if (!v->r2)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu targets", classes);
        v->mae = v->r2 + classes;
    }
    if (v->confusion && !is_text(v) && v->use.rows.rows <= MOST_SCORES / classes) {
        v->auc = malloc(classes * sizeof *v->auc);
        if (!v->auc)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu classes", classes);
    }
    return copse_model_evaluate(v->use.model, v->use.data,
                                &(struct copse_evaluation_params){ .confusion = v->confusion,
                                                                   .worst = v->worst,
                                                                   .worst_losses = v->losses,
                                                                   .worst_count = WORST_ROWS,
                                                                   .target_r2 = v->r2,
                                                                   .target_mae = v->mae,
                                                                   .class_auc = v->auc },
                                &v->is);
}

int evaluate_model(const struct use *use, const struct evaluate_outputs *out)
{
    const char *plot = out->plot;
    struct verdict v = { .use = *use };
    copse_status s = plot ? output_check(plot) : COPSE_OK;
    if (s == COPSE_OK)
        s = evaluate_model_evaluate(&v, plot != NULL);
    if (s == COPSE_OK && plot && !v.confusion)
        s = session_set_error(COPSE_ERR_ARGUMENT,
                              "--plot draws a confusion matrix, and the model is a regression");
    if (s == COPSE_OK && plot)
        s = confusion_plot(plot, &v);
    if (s == COPSE_OK && out->logdir)
        s = worst_pictures(out->logdir, &v);
    if (s == COPSE_OK && out->is_json)
        s = print_json(&v);
    else if (s == COPSE_OK && is_text(&v))
        s = print_text_score(&v, out->is_quiet);
    else if (s == COPSE_OK)
        print_text(&v, out->is_quiet);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    free(v.confusion);
    free(v.r2);
    free(v.auc);
    use_close(&v.use);
    return code;
}
