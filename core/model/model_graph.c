/* SPDX-License-Identifier: MIT */
/* A model in graphs: its input, the network, its loss. */
#include "copse/data/pictures.h"
#include "copse/ops/losses.h"
#include "copse/train/hidden.h"
#include "core/graph/graph.h"
#include "core/graph/recording.h"
#include "core/model/model.h"

/* Column "x", scaled as the schema says, of the type that the layers were built for. */
static copse_tensor *read_input(const copse_model *m, copse_graph *g, const copse_batch *in)
{
    copse_tensor *x = copse_input(in, "x");
    if (copse_tensor_type(x) != m->input)
        x = copse_cast(g, x, m->input);
    if (m->is.input_offset != 0.0f) {
        copse_tensor *offset = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)m->is.input_offset);
        x = copse_sub(g, x, offset);
    }
    return m->is.input_scale != 1.0f ? copse_multiply_by(g, x, m->is.input_scale) : x;
}

copse_tensor *copse__model_apply(const copse_model *m, copse_graph *g, const copse_batch *in)
{
    return copse_layer_apply(m->layer, g, in, read_input(m, g, in));
}

copse_tensor *copse__model_last(copse_graph *g, copse_tensor *x)
{
    const copse_shape all = copse_tensor_shape(x);
    const uint32_t start[3] = { 0, all.dims[1] - 1, 0 }, size[3] = { all.dims[0], 1, all.dims[2] };
    const copse_shape shape =
        all.rank == 3 ? COPSE_SHAPE(all.dims[0], all.dims[2]) : COPSE_SHAPE(all.dims[0]);
    return copse_reshape(g, copse_slice(g, x, start, size), shape);
}

copse_tensor *copse__model_at(const copse_model *m, copse_graph *g, copse_tensor *y,
                              copse_tensor *lengths)
{
    float before[COPSE_MODEL_ROWS]; /* positions before the last one of an example; below 2^24 */
    const uint32_t rows = copse_tensor_shape(lengths).dims[0];
    for (uint32_t i = 0; i < rows; i++)
        before[i] = (float)(i * m->positions) - 1.0f;
    copse_tensor *at = copse_add(g, copse_cast(g, lengths, COPSE_F32),
                                 copse_constant(g, COPSE_F32, COPSE_SHAPE(rows), before));
    y = copse_reshape(g, y, COPSE_SHAPE(rows * m->positions, m->is.outputs));
    return copse_gather(g, y, copse_cast(g, at, COPSE_I32));
}

static copse_tensor *model_graph_classification(const copse_model *m, copse_graph *g,
                                                const copse_batch *in, copse_tensor *h,
                                                copse_tensor *y)
{
    copse_tensor *is_right = copse_equal(g, copse_argmax(g, h, 1), y);
    copse_report(g, "accuracy", copse_mean(g, is_right, NULL, 0, false));
    if (copse__batch_has(in, COPSE_MIXUP_PART))
        return copse__model_mixed_loss(m, g, h, y, copse_input(in, COPSE_MIXUP_LABEL),
                                       copse_input(in, COPSE_MIXUP_PART));
    return m->loss.row ? copse__model_make_loss(m, g, h, y)
                       : copse_sparse_cross_entropy(g, h, y, COPSE_MEAN);
}

/* The mean over the tokens: of each position, or of the tokens after the windows. */
static copse_tensor *model_graph_sequence(const copse_model *m, copse_graph *g,
                                          const copse_batch *in, copse_tensor *h, copse_tensor *y)
{
    const uint32_t rows = copse_tensor_shape(y).dims[0];
    if (m->positions == 1) {
        y = copse__model_last(g, y);
        return model_graph_classification(m, g, in, h, y);
    }
    h = copse_reshape(g, h, COPSE_SHAPE(rows * m->positions, m->is.outputs));
    y = copse_reshape(g, y, COPSE_SHAPE(rows * m->positions));
    return model_graph_classification(m, g, in, h, y);
}

/* The logits of larger vocabularies are not kept: docs/performance.md, "Large vocabularies". The
   number of examples has no influence: all recordings of a trainer compute the gradients in the
   same order. */
#define LARGE_VOCABULARY 16384

/* The same for a large vocabulary, if the network ends with a product; else NULL. */
static copse_tensor *large_sequence(const copse_model *m, copse_graph *g, const copse_batch *in,
                                    copse_tensor *y)
{
    copse_tensor *h, *w, *bias, *hits;
    copse_layer_apply_hidden(m->layer, g, in, read_input(m, g, in), &h, &w, &bias);
    if (!h)
        return NULL;
    COPSE_LATCH(g, copse_graph_status(g));
    if (m->positions == 1)
        y = copse__model_last(g, y);
    const uint32_t rows = copse_tensor_shape(y).dims[0] * m->positions;
    h = copse_reshape(g, h, COPSE_SHAPE(rows, copse_tensor_shape(w).dims[0]));
    y = copse_reshape(g, y, COPSE_SHAPE(rows));
    copse_tensor *loss = copse_dense_cross_entropy(g, h, w, bias, y, NULL, &hits);
    copse_report(g, "accuracy", copse_mean(g, hits, NULL, 0, false));
    return loss;
}

static copse_tensor *model_graph_regression(const copse_model *m, copse_graph *g, copse_tensor *h,
                                            copse_tensor *y)
{
    copse_tensor *error = copse_abs(g, copse_sub(g, h, y));
    error = copse_mean(g, error, NULL, 0, false);
    error = copse_multiply_by(g, error, m->is.outputs == 1 ? (float)m->targets[0].scale : 1.0f);
    copse_report(g, "mae", error);
    return m->loss.row ? copse__model_make_loss(m, g, h, y) : copse_mean_squared_error(g, h, y);
}

copse_tensor *copse_model_loss(copse_graph *g, const copse_batch *in, void *model)
{
    COPSE_LATCH(g, copse_need("model", g, in, model));
    const copse_model *m = model;
    copse_tensor *y = copse_input(in, "y");
    COPSE_LATCH(g, copse_graph_status(g));
    if (m->is.task == COPSE_TASK_SEQUENCE && m->is.outputs > LARGE_VOCABULARY && !m->loss.row) {
        copse_tensor *loss = large_sequence(m, g, in, y);
        if (loss)
            return loss;
    }
    copse_tensor *h = copse__model_apply(m, g, in);
    return m->targets                          ? model_graph_regression(m, g, h, y)
           : m->is.task == COPSE_TASK_SEQUENCE ? model_graph_sequence(m, g, in, h, y)
                                               : model_graph_classification(m, g, in, h, y);
}
