/* SPDX-License-Identifier: MIT */
/* Losses of models by name: their text, and their ops. */
#include "copse/train/model_loss.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "copse/ops/losses.h"
#include "core/model/model.h"

enum { SMOOTHING = 1, WEIGHTS = 2, IGNORE = 4, POSITIVE = 8, DELTA = 16, BETA = 32 };
static const char *const setting_names[] = { "smoothing", "weights", "ignore",
                                             "positive",  "delta",   "beta" };

static const char weights[] = "weights=", balanced[] = "weights=balanced";

/* h: outputs; y: labels or targets. */
typedef copse_tensor *loss_fn(const struct copse_model_loss *l, copse_graph *g, copse_tensor *h,
                              copse_tensor *y);

struct copse_model_loss_row {
    const char *name;
    loss_fn *make;
    unsigned settings;
    bool is_of_numbers;
};

/* ---- the losses ---- */

static copse_tensor *cross_entropy(const struct copse_model_loss *l, copse_graph *g,
                                   copse_tensor *h, copse_tensor *y)
{
    struct copse_cross_entropy_params p = { .label_smoothing = l->value,
                                            .ignores = l->ignores,
                                            .ignored_label = l->ignored };
    if (l->is_balanced && l->weight_count == 0)
        return copse_graph_fail(g, COPSE_ERR_ARGUMENT,
                                "model: weights=balanced counts the rows of the classes: call "
                                "copse_model_balance_loss with the data that train");
    if (l->weight_count > 0)
        p.class_weights = copse_constant(g, COPSE_F32, COPSE_SHAPE(l->weight_count), l->weights);
    return copse_cross_entropy(g, h, y, &p);
}

static copse_tensor *binary_cross_entropy(const struct copse_model_loss *l, copse_graph *g,
                                          copse_tensor *h, copse_tensor *y)
{
    copse_tensor *targets, *positive = NULL;
    const copse_shape shape = copse_tensor_shape(h);
    COPSE_LATCH(g, copse_graph_status(g));
    targets = copse_one_hot(g, y, shape.dims[shape.rank - 1]);
    if (l->value > 0.0f)
        positive = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)l->value);
    return copse_binary_cross_entropy(g, h, targets, positive, COPSE_MEAN);
}

static copse_tensor *mean_squared_error(const struct copse_model_loss *l, copse_graph *g,
                                        copse_tensor *h, copse_tensor *y)
{
    (void)l;
    return copse_mean_squared_error(g, h, y);
}

static copse_tensor *model_loss_huber(const struct copse_model_loss *l, copse_graph *g,
                                      copse_tensor *h, copse_tensor *y)
{
    return copse_huber_loss(g, h, y, l->value, COPSE_MEAN);
}

static copse_tensor *smooth_l1(const struct copse_model_loss *l, copse_graph *g, copse_tensor *h,
                               copse_tensor *y)
{
    return copse_smooth_l1_loss(g, h, y, l->value, COPSE_MEAN);
}

static copse_tensor *model_loss_cosine(const struct copse_model_loss *l, copse_graph *g,
                                       copse_tensor *h, copse_tensor *y)
{
    (void)l;
    copse_tensor *near = copse_cosine_similarity(g, h, y);
    near = copse_mean(g, near, NULL, 0, false);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1.0);
    return copse_sub(g, one, near);
}

static const struct copse_model_loss_row rows[] = {
    { "cross_entropy", cross_entropy, SMOOTHING | WEIGHTS | IGNORE, false },
    { "binary_cross_entropy", binary_cross_entropy, POSITIVE, false },
    { "mean_squared_error", mean_squared_error, 0, true },
    { "huber", model_loss_huber, DELTA, true },
    { "smooth_l1", smooth_l1, BETA, true },
    { "cosine", model_loss_cosine, 0, true },
};

/* ---- the text ---- */

/* The names of all losses, or of those for numbers or not. */
static const char *model_loss_names(bool has_all, bool is_of_numbers, char text[160])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        if (has_all || rows[i].is_of_numbers == is_of_numbers)
            used += (size_t)snprintf(text + used, 160 - used, "%s%s", used > 0 ? ", " : "",
                                     rows[i].name);
    return text;
}

static copse_status model_loss_find(const char *at, size_t length, struct copse_model_loss *out)
{
    char list[160];
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, at, length) == 0)
            out->row = &rows[i];
    return out->row
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "model: there is no loss '%.*s': it is one of %s",
                            (int)COPSE_MIN(length, (size_t)40), at,
                            model_loss_names(true, false, list));
}

static copse_status no_setting(const struct copse_model_loss *l, const char *at, size_t length)
{
    char list[80] = "";
    size_t used = 0;
    for (size_t i = 0; i < COPSE_COUNT(setting_names); i++)
        if (l->row->settings >> i & 1)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s=", used > 0 ? ", " : "",
                                     setting_names[i]);
    const bool is_weights = l->row->settings & WEIGHTS && length >= strlen(weights) &&
                            memcmp(at, weights, strlen(weights)) == 0;
    return copse_fail(
        COPSE_ERR_ARGUMENT, "model: loss %s: '%.*s' is no setting with its number; it has %s%s",
        l->row->name, (int)COPSE_MIN(length, (size_t)40), at, used > 0 ? list : "none",
        is_weights ? "; write weights=balanced, or weights=W,W,... with a number for each class"
                   : "");
}

/* Numbers of one setting, separated by commas. */
static bool take_numbers(const char *at, const char *end, float *to, uint32_t most, uint32_t *count)
{
    for (*count = 0; *count < most; at++) {
        char *next;
        to[*count] = strtof(at, &next);
        if (next == at || next > end || !isfinite(to[*count]) || to[*count] < 0.0f ||
            isspace((unsigned char)*at))
            return false;
        ++*count;
        at = next;
        if (at == end)
            return true;
        if (*at != ',')
            return false;
    }
    return false;
}

static copse_status take_setting(const char *at, size_t length, struct copse_model_loss *l)
{
    const char *equals = memchr(at, '=', length), *end = at + length;
    unsigned bit = 0;
    uint32_t count = 0;
    float numbers[COPSE_MODEL_WEIGHTS];
    if (length == strlen(balanced) && memcmp(at, balanced, length) == 0 &&
        l->row->settings & WEIGHTS) {
        l->is_balanced = true;
        l->weight_count = 0;
        return COPSE_OK;
    }
    for (size_t i = 0; equals && i < COPSE_COUNT(setting_names); i++)
        if (strlen(setting_names[i]) == (size_t)(equals - at) &&
            memcmp(setting_names[i], at, (size_t)(equals - at)) == 0)
            bit = 1u << i & l->row->settings;
    if (bit == 0 ||
        !take_numbers(equals + 1, end, numbers, bit == WEIGHTS ? COPSE_MODEL_WEIGHTS : 1, &count))
        return no_setting(l, at, length);
    const float x = numbers[0];
    if ((bit == SMOOTHING && x > 1.0f) || ((bit == DELTA || bit == POSITIVE) && x == 0.0f) ||
        (bit == IGNORE && (x != floorf(x) || x > 1e6f)))
        return copse_fail(COPSE_ERR_ARGUMENT, "model: loss %s: '%.*s': %s", l->row->name,
                          (int)length, at,
                          bit == SMOOTHING ? "a number from 0 to 1 is needed"
                          : bit == IGNORE  ? "the number of a class is needed"
                                           : "a number > 0 is needed");
    if (bit == IGNORE) {
        l->ignores = true;
        l->ignored = (int32_t)x;
    } else if (bit == WEIGHTS) {
        l->is_balanced = false;
        l->weight_count = count;
        memcpy(l->weights, numbers, count * sizeof *numbers);
    } else {
        l->value = x;
    }
    return COPSE_OK;
}

static copse_status model_loss_parse(const char *text, struct copse_model_loss *out)
{
    static const char blank[] = " \t\n";
    *out = (struct copse_model_loss){ .row = NULL };
    for (const char *at = text + strspn(text, blank); *at || !out->row; at += strspn(at, blank)) {
        const size_t length = strcspn(at, blank);
        if (!out->row) {
            COPSE_TRY(model_loss_find(at, length, out));
            out->value = out->row->settings & (DELTA | BETA) ? 1.0f : 0.0f;
        } else {
            COPSE_TRY(take_setting(at, length, out));
        }
        at += length;
    }
    return COPSE_OK;
}

/* ---- the model ---- */

copse_status copse_model_check_loss(const char *text)
{
    struct copse_model_loss l;
    COPSE_TRY(copse_need("model", text));
    return model_loss_parse(text, &l);
}

copse_status copse_model_set_loss(copse_model *m, const char *text)
{
    struct copse_model_loss l;
    char list[160];
    COPSE_TRY(copse_need("model", m, text));
    COPSE_TRY(model_loss_parse(text, &l));
    if (l.row->is_of_numbers != (m->targets != NULL))
        return copse_fail(COPSE_ERR_ARGUMENT, "model: the loss %s is not one for %s: use one of %s",
                          l.row->name, m->targets ? "numbers" : "classes",
                          model_loss_names(false, m->targets != NULL, list));
    if (l.row->make == model_loss_cosine && m->is.outputs < 2)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: the loss cosine needs two targets or more, the data have one");
    if (l.weight_count > 0 && l.weight_count != m->is.outputs)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: loss %s: %u weights for %u classes: give one for each",
                          l.row->name, l.weight_count, m->is.outputs);
    if (l.is_balanced &&
        (m->is.task != COPSE_TASK_CLASSIFICATION || m->is.outputs > COPSE_MODEL_WEIGHTS))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: loss %s: weights=balanced is for 2 to %u classes of rows, not "
                          "for %s",
                          l.row->name, COPSE_MODEL_WEIGHTS,
                          m->is.task != COPSE_TASK_CLASSIFICATION ? "the tokens of a text"
                                                                  : "more");
    m->loss = l;
    return COPSE_OK;
}

/* Whether the data has a class for each row. */
static copse_status need_classes(const copse_model *m, const copse_dataset *data)
{
    struct copse_dataset_info info;
    struct copse_column y = { .name = NULL };
    copse_dataset_describe(data, &info);
    for (size_t i = 0; i < info.columns && (!y.name || strcmp(y.name, "y") != 0); i++)
        COPSE_TRY(copse_dataset_column(data, i, &y));
    if (!y.name || strcmp(y.name, "y") != 0 || y.type != COPSE_I32 || y.shape.rank != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "model: weights=balanced counts the classes of column \"y\", an i32 for "
                          "each row, which the data lacks");
    if (info.classes > m->is.outputs)
        return copse_fail(COPSE_ERR_ARGUMENT, "model: the data has %u classes, the model %u",
                          info.classes, m->is.outputs);
    return COPSE_OK;
}

/* Count the rows of each class. */
static copse_status count_classes(const copse_model *m, const copse_dataset *data, uint64_t *counts)
{
    enum { AT_ONCE = 4096 };
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    struct copse_dataset_info info;
    copse_dataset_describe(data, &info);
    uint32_t *at = copse__alloc(mem, AT_ONCE, sizeof *at);
    int32_t *labels = copse__alloc(mem, AT_ONCE, sizeof *labels);
    copse_status s = copse_need_memory(at && labels, "model");
    for (size_t i = 0, n; s == COPSE_OK && i < info.rows; i += n) {
        n = COPSE_MIN(info.rows - i, (size_t)AT_ONCE);
        for (size_t k = 0; k < n; k++)
            at[k] = (uint32_t)(i + k);
        s = copse_dataset_gather(data, "y", at, n, labels);
        for (size_t k = 0; s == COPSE_OK && k < n; k++)
            if (labels[k] >= 0 && (uint32_t)labels[k] < m->is.outputs)
                counts[labels[k]]++;
    }
    copse__free(mem, labels);
    copse__free(mem, at);
    return s;
}

copse_status copse_model_balance_loss(copse_model *m, const copse_dataset *data)
{
    uint64_t counts[COPSE_MODEL_WEIGHTS] = { 0 }, all = 0;
    uint32_t present = 0;
    COPSE_TRY(copse_need("model", m, data));
    struct copse_model_loss *l = &m->loss;
    if (!l->is_balanced)
        return COPSE_OK;
    COPSE_TRY(need_classes(m, data));
    COPSE_TRY(count_classes(m, data, counts));
    for (uint32_t i = 0; i < m->is.outputs; i++) {
        if (l->ignores && i == (uint32_t)l->ignored)
            counts[i] = 0;
        all += counts[i];
        present += counts[i] > 0;
    }
    for (uint32_t i = 0; i < m->is.outputs; i++)
        l->weights[i] =
            counts[i] > 0 ? (float)((double)all / ((double)present * (double)counts[i])) : 1.0f;
    l->weight_count = m->is.outputs;
    return COPSE_OK;
}

copse_tensor *copse__model_make_loss(const copse_model *m, copse_graph *g, copse_tensor *h,
                                     copse_tensor *y)
{
    return m->loss.row->make(&m->loss, g, h, y);
}

/* ---- mixup ---- */

static copse_tensor *mixed_cross_entropy(const struct copse_model_loss *l, copse_graph *g,
                                         copse_tensor *h, copse_tensor *y, copse_tensor *other,
                                         copse_tensor *part)
{
    const struct copse_cross_entropy_params each = { .averaging = COPSE_EACH,
                                                     .label_smoothing = l->value };
    if (l->ignores || l->is_balanced || l->weight_count > 0)
        return copse_graph_fail(g, COPSE_ERR_ARGUMENT,
                                "model: loss cross_entropy: mixup needs it without weights= and "
                                "ignore=, which divide by the labels of a batch");
    copse_tensor *of_other = copse_cross_entropy(g, h, other, &each);
    copse_tensor *more = copse_sub(g, copse_cross_entropy(g, h, y, &each), of_other);
    return copse_mean(g, copse_add(g, of_other, copse_mul(g, part, more)), NULL, 0, false);
}

static copse_tensor *mixed_binary_cross_entropy(const struct copse_model_loss *l, copse_graph *g,
                                                copse_tensor *h, copse_tensor *y,
                                                copse_tensor *other, copse_tensor *part)
{
    const copse_shape shape = copse_tensor_shape(h);
    copse_tensor *positive = NULL;
    COPSE_LATCH(g, copse_graph_status(g));
    const uint32_t classes = shape.dims[shape.rank - 1];
    part = copse_reshape(g, part, COPSE_SHAPE(shape.dims[0], 1));
    copse_tensor *of_other = copse_one_hot(g, other, classes);
    copse_tensor *more = copse_sub(g, copse_one_hot(g, y, classes), of_other);
    copse_tensor *targets = copse_add(g, of_other, copse_mul(g, part, more));
    if (l->value > 0.0f)
        positive = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)l->value);
    return copse_binary_cross_entropy(g, h, targets, positive, COPSE_MEAN);
}

copse_tensor *copse__model_mixed_loss(const copse_model *m, copse_graph *g, copse_tensor *h,
                                      copse_tensor *y, copse_tensor *other, copse_tensor *part)
{
    const struct copse_model_loss *l = &m->loss;
    return l->row && l->row->make == binary_cross_entropy
               ? mixed_binary_cross_entropy(l, g, h, y, other, part)
               : mixed_cross_entropy(l, g, h, y, other, part);
}
