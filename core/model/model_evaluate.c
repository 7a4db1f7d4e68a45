/* SPDX-License-Identifier: MIT */
/* Comparison of a model's predictions with labels. */
#include <math.h>

#include "copse/data/text.h"
#include "core/model/class_scores.h"
#include "core/model/model.h"

/* Sums over the rows so far. */
struct sums {
    const struct copse_evaluation_params *p;
    size_t rows, worst_count;
    double loss;
    size_t right;
    float *outputs; /* of a batch */
    double *row;    /* of one row; probabilities */
    double *losses; /* of the worst rows, if the caller has no room for them */
    uint8_t *sizes; /* bytes of each token of a text; otherwise 0 */
    uint64_t bytes; /* of the labels */
    struct copse_class_count *classes;
    float *scores; /* of all rows where `class_auc` is wanted: probabilities; then labels */
    int32_t *labels;
    struct target_sums {
        double first, shifted, squares; /* of labels, less the first one */
        double errors, absolute;        /* of predictions: squared, absolute */
    } *targets;
};

/* ---- the worst rows: a list in falling order ---- */

static void note_worst(struct sums *s, uint32_t row, double loss)
{
    size_t i = s->worst_count;
    while (i > 0 && s->losses[i - 1] < loss)
        i--;
    if (i == s->p->worst_count)
        return;
    s->worst_count += s->worst_count < s->p->worst_count;
    for (size_t k = s->worst_count - 1; k > i; k--) {
        s->losses[k] = s->losses[k - 1];
        if (s->p->worst)
            s->p->worst[k] = s->p->worst[k - 1];
    }
    s->losses[i] = loss;
    if (s->p->worst)
        s->p->worst[i] = row;
}

/* ---- one row ---- */

static double add_class(struct sums *s, const float *outputs, uint32_t classes, int32_t label)
{
    uint32_t guess = 0;
    double largest = -INFINITY, sum = 0.0;
    for (uint32_t i = 0; i < classes; i++) {
        guess = outputs[i] > outputs[guess] ? i : guess;
        largest = fmax(largest, (double)outputs[i]);
    }
    for (uint32_t i = 0; i < classes; i++)
        sum += exp((double)outputs[i] - largest);
    s->right += guess == (uint32_t)label;
    s->classes[label].rows++;
    s->classes[guess].predicted++;
    s->classes[label].right += guess == (uint32_t)label;
    for (uint32_t i = 0; s->scores && i < classes; i++)
        s->scores[s->rows * classes + i] = (float)(exp((double)outputs[i] - largest) / sum);
    if (s->scores)
        s->labels[s->rows] = label;
    if (s->p->confusion)
        s->p->confusion[(size_t)label * classes + guess]++;
    return log(sum) + largest - (double)outputs[label];
}

/* The mean over the positions. */
static copse_status add_classes(struct sums *s, const copse_model *m, const float *outputs,
                                const int32_t *labels, double *loss)
{
    const uint32_t classes = m->is.outputs;
    *loss = 0.0;
    for (uint32_t i = 0; i < m->positions; i++) {
        if (labels[i] < 0 || (uint32_t)labels[i] >= classes)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "model: row %zu has the label %d, the model has %u classes", s->rows,
                              labels[i], classes);
        *loss += add_class(s, outputs + (size_t)i * classes, classes, labels[i]) / m->positions;
        s->bytes += s->sizes[labels[i]];
    }
    return COPSE_OK;
}

static double add_values(struct sums *s, const copse_model *m, const float *outputs,
                         const float *labels)
{
    double loss = 0.0;
    for (uint32_t i = 0; i < m->is.outputs; i++) {
        struct target_sums *t = &s->targets[i];
        const double label = (double)labels[i], error = (double)outputs[i] - label;
        if (s->rows == 0)
            t->first = label;
        t->shifted += label - t->first;
        t->squares += (label - t->first) * (label - t->first);
        t->errors += error * error;
        t->absolute += fabs(error);
        loss += error * error / m->is.outputs;
    }
    return loss;
}

static copse_status add_batch(struct sums *s, copse_model *m, const struct copse_host_batch *batch)
{
    const void *labels = copse_batch_column(batch, "y")->data;
    const size_t outputs = m->is.outputs, label_count = (size_t)copse__elements(m->label_shape);
    COPSE_TRY(copse__model_outputs(m, batch, false, s->outputs));
    for (size_t r = 0; r < batch->count; r++) {
        const float *row = s->outputs + r * m->positions * outputs;
        double loss;
        if (m->targets)
            loss = add_values(s, m, row, (const float *)labels + r * outputs);
        else
            COPSE_TRY(add_classes(
                s, m, row, (const int32_t *)labels + (r + 1) * label_count - m->positions, &loss));
        s->loss += loss;
        if (s->p->worst_count > 0)
            note_worst(s, (uint32_t)s->rows, loss);
        s->rows++;
    }
    return COPSE_OK;
}

/* ---- all rows ---- */

static void model_evaluate_conclude(const struct sums *s, const copse_model *m,
                                    struct copse_evaluation *out)
{
    const double n = (double)s->rows;
    out->rows = s->rows;
    out->loss = s->loss / n;
    out->worst_count = s->worst_count;
    if (!m->targets) {
        out->accuracy = (double)s->right / (n * m->positions);
        copse__class_scores(s->classes, m->is.outputs, out);
        if (s->bytes > 0)
            out->bits_per_byte = s->loss * m->positions / log(2.0) / (double)s->bytes;
        return;
    }
    for (uint32_t i = 0; i < m->is.outputs; i++) {
        const struct target_sums *t = &s->targets[i];
        const double spread = t->squares - t->shifted * t->shifted / n;
        const double r2 = spread > 0.0 ? 1.0 - t->errors / spread : NAN;
        const double mae = t->absolute / n * fabs(m->targets[i].scale);
        out->r2 += r2 / m->is.outputs;
        out->mae += mae / m->is.outputs;
        if (s->p->target_r2)
            s->p->target_r2[i] = r2;
        if (s->p->target_mae)
            s->p->target_mae[i] = mae;
    }
}

static copse_status conclude_auc(const struct sums *s, const copse_model *m)
{
    const uint32_t classes = m->targets ? 0 : m->is.outputs;
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    for (uint32_t i = 0; !s->scores && s->p->class_auc && i < classes; i++)
        s->p->class_auc[i] = NAN; /* the tokens of a text */
    if (!s->scores)
        return COPSE_OK;
    struct copse_ranked *list = copse__alloc(mem, s->rows, sizeof *list);
    COPSE_TRY(copse_need_memory(list, "model"));
    for (uint32_t i = 0; i < classes; i++) {
        for (size_t r = 0; r < s->rows; r++)
            list[r] =
                (struct copse_ranked){ s->scores[r * classes + i], s->labels[r] == (int32_t)i };
        s->p->class_auc[i] = copse__class_auc(list, s->rows);
    }
    copse__free(mem, list);
    return COPSE_OK;
}

static copse_status model_evaluate_run(struct sums *s, copse_model *m, copse_loader *batches)
{
    struct copse_host_batch batch;
    copse_status status;
    while ((status = copse_loader_next(batches, &batch)) == COPSE_OK)
        COPSE_TRY(add_batch(s, m, &batch));
    return status == COPSE_ERR_END ? COPSE_OK : status;
}

static copse_status prepare_scores(struct sums *s, const copse_model *m, size_t rows)
{
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    s->classes = copse__alloc(mem, m->is.outputs, sizeof *s->classes);
    COPSE_TRY(copse_need_memory(s->classes, "model"));
    if (!s->p->class_auc || m->targets || m->positions > 1)
        return COPSE_OK;
    s->scores = copse__alloc(mem, rows * m->is.outputs, sizeof *s->scores);
    s->labels = copse__alloc(mem, rows, sizeof *s->labels);
    return copse_need_memory(s->scores && s->labels, "model");
}

static copse_status model_evaluate_prepare(struct sums *s, const copse_model *m, size_t rows)
{
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    const size_t outputs = m->is.outputs;
    COPSE_TRY(prepare_scores(s, m, rows));
    s->outputs =
        copse__alloc(mem, copse__model_rows(m) * m->positions * outputs, sizeof *s->outputs);
    s->targets = copse__alloc(mem, outputs, sizeof *s->targets);
    s->losses = s->p->worst_losses ? s->p->worst_losses
                                   : copse__alloc(mem, s->p->worst_count, sizeof *s->losses);
    s->sizes = copse__alloc(mem, outputs, sizeof *s->sizes);
    for (uint32_t i = 0; s->sizes && m->is.kind == COPSE_DATA_TEXT && i < outputs; i++)
        s->sizes[i] = (uint8_t)copse_text_token(m->schema, i, NULL);
    if (s->p->confusion && !m->targets)
        memset(s->p->confusion, 0, outputs * outputs * sizeof *s->p->confusion);
    return s->outputs && s->targets && s->losses && s->sizes ? COPSE_OK : copse_no_memory("model");
}

copse_status copse_model_evaluate(copse_model *m, const copse_dataset *data,
                                  const struct copse_evaluation_params *params,
                                  struct copse_evaluation *out)
{
    static const struct copse_evaluation_params none;
    struct sums s = { .p = params ? params : &none };
    copse_loader *batches;
    COPSE_TRY(copse_need("model", m, data, out));
    *out = (struct copse_evaluation){ 0 };
    COPSE_TRY(copse_no_reserved(copse_evaluation_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_evaluate", m));
    struct copse_mem *mem = &m->strategy->ctx->base.mem;
    COPSE_TRY(copse__model_batches(m, data, true, &batches));
    struct copse_dataset_info info;
    copse_dataset_describe(data, &info);
    copse_status status = model_evaluate_prepare(&s, m, info.rows);
    if (status == COPSE_OK)
        status = model_evaluate_run(&s, m, batches);
    if (status == COPSE_OK)
        model_evaluate_conclude(&s, m, out);
    if (status == COPSE_OK)
        status = conclude_auc(&s, m);
    copse__free(mem, s.outputs);
    copse__free(mem, s.targets);
    copse__free(mem, s.sizes);
    copse__free(mem, s.classes);
    copse__free(mem, s.scores);
    copse__free(mem, s.labels);
    if (!s.p->worst_losses)
        copse__free(mem, s.losses);
    copse_loader_release(&batches);
    return status;
}
