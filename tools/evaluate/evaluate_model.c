/* SPDX-License-Identifier: MIT */
/* A model compared with labels: loss, accuracy, classes, confusion matrix, the worst rows. */
#include "tools/evaluate/evaluate_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"

#define MATRIX_SHOWN 20 /* classes */

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

static void print_classes(const struct verdict *v)
{
    char plain[200];
    printf("\n  %-24s %8s %10s %10s\n", "class", "rows", "precision", "recall");
    for (uint32_t i = 0; i < v->use.info.outputs; i++) {
        const struct class_counts c = verdict_class(v, i);
        if (c.rows == 0 && c.predicted == 0)
            continue;
        printf("  %-24s %8llu", session_plain(plain, sizeof plain, use_name(&v->use, i)), (unsigned long long)c.rows);
        print_share(c.right, c.predicted);
        print_share(c.right, c.rows);
        printf("\n");
    }
}

static void print_matrix(const struct verdict *v)
{
    const uint32_t classes = v->use.info.outputs;
    char plain[200];
    if (classes > MATRIX_SHOWN)
        return;
    printf("\n  label \\ predicted       ");
    for (uint32_t i = 0; i < classes; i++)
        printf(" %6.6s", session_plain(plain, sizeof plain, use_name(&v->use, i)));
    printf("\n");
    for (uint32_t i = 0; i < classes; i++) {
        printf("  %-24.24s", session_plain(plain, sizeof plain, use_name(&v->use, i)));
        for (uint32_t k = 0; k < classes; k++)
            printf(" %6llu", (unsigned long long)v->confusion[(size_t)i * classes + k]);
        printf("\n");
    }
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
    printf("R2 %.4f over %zu rows and %u targets (loss %.4f)\n", v->is.r2, v->is.rows, v->use.info.outputs, v->is.loss);
    printf("\n  %-24s %10s %21s\n", "target", "R2", "mean absolute error");
    for (uint32_t i = 0; i < v->use.info.outputs; i++)
        printf("  %-24s %10.4f %21.6g\n", session_plain(plain, sizeof plain, target_name(v, i, number)), v->r2[i], v->mae[i]);
}

static void print_text(const struct verdict *v, bool is_quiet)
{
    if (v->confusion)
        printf("%.2f %% of the %zu rows are right (loss %.4f)\n", 100.0 * v->is.accuracy, v->is.rows, v->is.loss);
    else if (v->use.info.outputs > 1)
        print_targets(v); /* which may have different units */
    else
        printf("R2 %.4f over %zu rows, mean absolute error %.6g (loss %.4f)\n", v->is.r2, v->is.rows, v->is.mae, v->is.loss);
    if (is_quiet)
        return;
    if (v->confusion) {
        print_classes(v);
        print_matrix(v);
    }
    printf("\n  largest losses: row (loss)\n ");
    for (size_t i = 0; i < v->is.worst_count; i++)
        printf(" %u (%.3g)%s", v->worst[i] + 1, v->losses[i], i + 1 < v->is.worst_count ? "," : "\n");
}

/* ---- JSON ---- */

static bool add_classes(cJSON *o, const struct verdict *v)
{
    const uint32_t classes = v->use.info.outputs;
    cJSON *list = cJSON_AddArrayToObject(o, "classes"), *matrix = cJSON_AddArrayToObject(o, "confusion");
    bool ok = list && matrix;
    for (uint32_t i = 0; ok && i < classes; i++) {
        const struct class_counts c = verdict_class(v, i);
        cJSON *one = cJSON_CreateObject(), *row = cJSON_CreateArray();
        ok = cJSON_AddItemToArray(list, one) && cJSON_AddItemToArray(matrix, row);
        json_add_text(one, "class", use_name(&v->use, i));
        json_add_count(one, "rows", c.rows);
        json_add_number(one, "precision", verdict_share(c.right, c.predicted));
        json_add_number(one, "recall", verdict_share(c.right, c.rows));
        for (uint32_t k = 0; ok && k < classes; k++)
            ok = cJSON_AddItemToArray(row, cJSON_CreateNumber((double)v->confusion[(size_t)i * classes + k]));
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

static copse_status print_json(const struct verdict *v)
{
    cJSON *o = cJSON_CreateObject();
    json_add_count(o, "rows", v->is.rows);
    json_add_number(o, "loss", v->is.loss);
    if (v->confusion) {
        json_add_number(o, "accuracy", v->is.accuracy);
    } else {
        json_add_number(o, "r2", v->is.r2);
        json_add_number(o, "mae", v->is.mae);
    }
    cJSON *worst = cJSON_AddArrayToObject(o, "worst");
    bool ok = worst && (v->confusion ? add_classes(o, v) : v->use.info.outputs == 1 || add_targets(o, v));
    for (size_t i = 0; ok && i < v->is.worst_count; i++) {
        cJSON *one = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(worst, one);
        json_add_count(one, "row", v->worst[i] + 1u);
        json_add_number(one, "loss", v->losses[i]);
    }
    if (ok)
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the result as JSON");
}

/* ---- the command ---- */

static copse_status evaluate(struct verdict *v)
{
    COPSE_TRY(use_open(&v->use));
    if (!v->use.rows.has_labels)
        return session_set_error(COPSE_ERR_ARGUMENT, "'%s' has no labels to compare with; `copse predict` needs none",
                                 v->use.data_path);
    const size_t classes = v->use.info.outputs;
    if (v->use.info.task != COPSE_TASK_REGRESSION) {
        v->confusion = malloc(classes * classes * sizeof *v->confusion);
        if (!v->confusion)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a table of %zu classes", classes);
    } else {
        v->r2 = malloc(2 * classes * sizeof *v->r2);
        if (!v->r2)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu targets", classes);
        v->mae = v->r2 + classes;
    }
    return copse_model_evaluate(v->use.model, v->use.data,
                                &(struct copse_evaluation_params){ .confusion = v->confusion, .worst = v->worst,
                                                                   .worst_losses = v->losses, .worst_count = WORST_ROWS,
                                                                   .target_r2 = v->r2, .target_mae = v->mae },
                                &v->is);
}

int evaluate_model(const struct use *use, const char *plot, bool is_json, bool is_quiet)
{
    struct verdict v = { .use = *use };
    copse_status s = plot ? output_check(plot) : COPSE_OK;
    if (s == COPSE_OK)
        s = evaluate(&v);
    if (s == COPSE_OK && plot && !v.confusion)
        s = session_set_error(COPSE_ERR_ARGUMENT, "--plot draws a confusion matrix, and the model is a regression");
    if (s == COPSE_OK && plot)
        s = confusion_plot(plot, &v);
    if (s == COPSE_OK && is_json)
        s = print_json(&v);
    else if (s == COPSE_OK)
        print_text(&v, is_quiet);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    free(v.confusion);
    free(v.r2);
    use_close(&v.use);
    return code;
}
