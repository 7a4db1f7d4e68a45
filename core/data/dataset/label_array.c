/* SPDX-License-Identifier: MIT */
/* Labels that come as an array: which task they are of, and their values as a schema has them. */
#include "core/data/dataset/label_array.h"

#include <math.h>
#include <stdio.h>

#include "core/data/array.h"

static bool is_class(double v)
{
    return v >= 0 && v <= INT32_MAX && v == floor(v);
}

static copse_status check_shape(const struct copse_array_view *from, size_t rows, const char *name)
{
    if (from->rank < 1 || from->rank > 2 || (from->rank == 2 && from->shape[1] == 0))
        return copse_fail(COPSE_ERR_SHAPE,
                          "dataset: %s: labels must have the shape [rows] or [rows, targets]",
                          name);
    if (from->shape[0] != rows)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: %zu labels for %zu rows of features", name,
                          from->shape[0], rows);
    if (from->data == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %s: labels without data", name);
    return COPSE_OK;
}

static size_t targets_of(const struct copse_array_view *from)
{
    return from->rank == 2 ? from->shape[1] : 1;
}

/* Labels that do not begin at 0, or have wide gaps, create classes without examples. */
static copse_status warn_of_unused_classes(copse_context *ctx, const struct copse_array_view *from,
                                           uint32_t classes, const char *name)
{
    const struct copse_base *base = copse__base(ctx);
    bool *seen = copse__alloc(&copse__base(ctx)->mem, classes, sizeof *seen);
    uint32_t used = 0, least = classes;

    if (seen == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    for (size_t i = 0; i < from->shape[0]; i++) {
        const uint32_t label = (uint32_t)copse__type_load(from->type, from->data, i);
        used += !seen[label];
        seen[label] = true;
        least = COPSE_MIN(least, label);
    }
    copse__free(&copse__base(ctx)->mem, seen);
    if (used < classes - used)
        copse__log(&base->log, COPSE_LOG_WARN,
                   "dataset: %s: labels are %u to %u, which makes %u classes, and %u of them never "
                   "occur: number labels "
                   "from 0, or give the number of classes",
                   name, least, classes - 1, classes, classes - used);
    return COPSE_OK;
}

static copse_status set_classes(copse_context *ctx, const struct copse_array_view *from,
                                uint32_t classes, const char *name, struct copse_schema_parts *out)
{
    const double limit = classes != 0 ? classes : COPSE_NAMED_CLASSES_MAX;
    double largest = 0;

    if (targets_of(from) != 1)
        return copse_fail(COPSE_ERR_SHAPE,
                          "dataset: %s: the labels of a classification have the shape [rows]",
                          name);
    for (size_t i = 0; i < from->shape[0]; i++) {
        const double v = copse__type_load(from->type, from->data, i);
        if (!is_class(v))
            return copse_fail(
                COPSE_ERR_FORMAT,
                "dataset: %s: row %zu: the label %g is not a class (a whole number from 0)%s", name,
                i + 1, v,
                isfinite(v) && v == floor(v) ? "; if it is a value, the task is regression" : "");
        if (v >= limit)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "dataset: %s: row %zu: the label %.0f is out of range, %s %.0f classes", name,
                i + 1, v, classes != 0 ? "there are" : "by default at most", limit);
        largest = fmax(largest, v);
    }
    out->task = COPSE_TASK_CLASSIFICATION;
    out->is_numbered = true;
    out->outputs = classes != 0 ? classes : (uint32_t)largest + 1;
    return classes != 0 ? COPSE_OK : warn_of_unused_classes(ctx, from, out->outputs, name);
}

static copse_status set_target(const struct copse_array_view *from, size_t target, bool is_scaled,
                               const char *name, struct copse_schema_target *out)
{
    const size_t targets = targets_of(from);
    double mean = 0, squares = 0;

    for (size_t i = 0; i < from->shape[0]; i++) {
        const double v = copse__type_load(from->type, from->data, i * targets + target);
        if (!isfinite((float)v))
            return copse_fail(COPSE_ERR_FORMAT, "dataset: %s: row %zu: the target %g is not finite",
                              name, i + 1, v);
        const double before = v - mean;
        mean += before / (double)(i + 1);
        squares += before * (v - mean);
    }
    const double deviation = sqrt(squares / (double)from->shape[0]);
    *out = (struct copse_schema_target){ "", 0, 1 };
    if (is_scaled)
        *out = (struct copse_schema_target){ "", mean, deviation > 0 ? deviation : 1 };
    return COPSE_OK;
}

static bool have_fractions(const struct copse_array_view *from)
{
    const size_t count = from->shape[0] * targets_of(from);

    for (size_t i = 0; i < count; i++) {
        const double v = copse__type_load(from->type, from->data, i);
        if (v != floor(v))
            return true;
    }
    return false;
}

copse_status copse__label_array_parts(copse_context *ctx, const struct copse_array_view *labels,
                                      size_t rows, const struct copse_dataset_params *params,
                                      bool is_scaled, const char *name, struct copse_arena *arena,
                                      struct copse_schema_parts *out)
{
    copse_task task = params->task;

    COPSE_TRY(check_shape(labels, rows, name));
    const size_t targets = targets_of(labels);
    if (task == COPSE_TASK_AUTO)
        task = params->classes == 0 && (targets > 1 || have_fractions(labels))
                   ? COPSE_TASK_REGRESSION
                   : COPSE_TASK_CLASSIFICATION;
    if (task != COPSE_TASK_REGRESSION)
        return set_classes(ctx, labels, params->classes, name, out);
    struct copse_schema_target *to = copse__arena_alloc(arena, targets, sizeof *to);
    if (to == NULL || targets > UINT32_MAX)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    out->task = COPSE_TASK_REGRESSION;
    out->outputs = (uint32_t)targets;
    out->targets = to;
    for (size_t i = 0; i < targets; i++)
        COPSE_TRY(set_target(labels, i, is_scaled, name, &to[i]));
    return COPSE_OK;
}

/* The class of a label that is a number, or -1. */
static int32_t find_class(const copse_schema *schema, double v)
{
    const uint32_t count = COPSE_MIN(schema->is.outputs, COPSE_NAMED_CLASSES_MAX);
    char digits[32];

    if (schema->is_counted)
        return is_class(v) && v < schema->is.outputs ? (int32_t)v : -1;
    snprintf(digits, sizeof digits, "%.0f", v + 0.0);
    for (uint32_t i = 0; schema->is.is_numbered && v == floor(v) && i < count; i++)
        if (strcmp(schema->is.classes[i], digits) == 0)
            return (int32_t)i;
    return -1;
}

copse_status copse__label_array_read(copse_context *ctx, const struct copse_array_view *labels,
                                     size_t rows, const copse_schema *schema, const char *name,
                                     copse_array **out)
{
    const bool is_regression = schema->is.task == COPSE_TASK_REGRESSION;
    const size_t targets = is_regression ? schema->is.outputs : 1, shape[2] = { rows, targets };

    *out = NULL;
    COPSE_TRY(check_shape(labels, rows, name));
    if (targets_of(labels) != targets)
        return copse_fail(COPSE_ERR_SHAPE, "dataset: %s: a row has %zu labels, training had %zu",
                          name, targets_of(labels), targets);
    COPSE_TRY(copse__array_create(ctx, is_regression ? COPSE_F32 : COPSE_I32, is_regression ? 2 : 1,
                                  shape, NULL, out));
    for (size_t i = 0; i < rows * targets; i++) {
        const double v = copse__type_load(labels->type, labels->data, i);
        if (is_regression) {
            const struct copse_schema_target *t = &schema->is.targets[i % targets];
            const float y = (float)((v - t->mean) / t->scale);
            ((float *)(*out)->data)[i] = y;
            if (isfinite(y))
                continue;
        } else {
            const int32_t class = find_class(schema, v);
            ((int32_t *)(*out)->data)[i] = class;
            if (class >= 0)
                continue;
        }
        copse_array_release(out);
        return copse_fail(
            COPSE_ERR_FORMAT, "dataset: %s: row %zu: the label %g is %s", name, i / targets + 1, v,
            is_regression ? "not finite" : "not one of the classes that training had");
    }
    return COPSE_OK;
}
