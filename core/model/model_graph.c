/* SPDX-License-Identifier: MIT */
/* A model in graphs: its input, the network, its loss. */
#include "copse/ops/losses.h"
#include "copse/train/hidden.h"
#include "core/graph/graph.h"
#include "core/model/model.h"

/* Column "x", scaled as the schema says, of the type that the layers were built for. */
static copse_status read_input(const copse_model *m, copse_graph *g, const copse_batch *in,
                               copse_tensor **x)
{
    copse_tensor *offset;
    COPSE_TRY(copse_input(in, "x", x));
    if (copse_tensor_type(*x) != m->input)
        COPSE_TRY(copse_cast(g, *x, m->input, x));
    if (m->is.input_offset != 0.0f) {
        COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)m->is.input_offset, &offset));
        COPSE_TRY(copse_sub(g, *x, offset, x));
    }
    return m->is.input_scale != 1.0f ? copse_multiply_by(g, *x, m->is.input_scale, x) : COPSE_OK;
}

copse_status copse__model_apply(const copse_model *m, copse_graph *g, const copse_batch *in,
                                copse_tensor **y)
{
    copse_tensor *x;
    COPSE_TRY(read_input(m, g, in, &x));
    return copse_layer_apply(m->layer, g, in, x, y);
}

copse_status copse__model_last(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    const copse_shape all = copse_tensor_shape(x);
    const uint32_t start[3] = { 0, all.dims[1] - 1, 0 }, size[3] = { all.dims[0], 1, all.dims[2] };
    copse_tensor *last;
    COPSE_TRY(copse_slice(g, x, start, size, &last));
    return copse_reshape(
        g, last, all.rank == 3 ? COPSE_SHAPE(all.dims[0], all.dims[2]) : COPSE_SHAPE(all.dims[0]),
        out);
}

static copse_status classification(const copse_model *m, copse_graph *g, copse_tensor *h,
                                   copse_tensor *y, copse_tensor **loss)
{
    copse_tensor *guess, *is_right, *accuracy;
    COPSE_TRY(copse_argmax(g, h, 1, &guess));
    COPSE_TRY(copse_equal(g, guess, y, &is_right));
    COPSE_TRY(copse_mean(g, is_right, NULL, 0, false, &accuracy));
    COPSE_TRY(copse_report(g, "accuracy", accuracy));
    return m->loss.row ? copse__model_make_loss(m, g, h, y, loss)
                       : copse_sparse_cross_entropy(g, h, y, COPSE_MEAN, loss);
}

/* The mean over the tokens: of each position, or those behind the windows. */
static copse_status sequence(const copse_model *m, copse_graph *g, copse_tensor *h, copse_tensor *y,
                             copse_tensor **loss)
{
    const uint32_t rows = copse_tensor_shape(y).dims[0];
    if (m->positions == 1) {
        COPSE_TRY(copse__model_last(g, y, &y));
        return classification(m, g, h, y, loss);
    }
    COPSE_TRY(copse_reshape(g, h, COPSE_SHAPE(rows * m->positions, m->is.outputs), &h));
    COPSE_TRY(copse_reshape(g, y, COPSE_SHAPE(rows * m->positions), &y));
    return classification(m, g, h, y, loss);
}

/* The logits of larger vocabularies are not kept: docs/performance.md, "Large vocabularies". The
   number of examples has no influence: all recordings of a trainer compute the gradients in the
   same order. */
#define LARGE_VOCABULARY 16384

/* The same for a large vocabulary, if the network ends with a product; else *loss is NULL. */
static copse_status large_sequence(const copse_model *m, copse_graph *g, const copse_batch *in,
                                   copse_tensor *y, copse_tensor **loss)
{
    copse_tensor *x, *h, *w, *bias, *hits, *accuracy;
    *loss = NULL;
    COPSE_TRY(read_input(m, g, in, &x));
    COPSE_TRY(copse_layer_apply_hidden(m->layer, g, in, x, &h, &w, &bias));
    if (!h)
        return COPSE_OK;
    if (m->positions == 1)
        COPSE_TRY(copse__model_last(g, y, &y));
    const uint32_t rows = copse_tensor_shape(y).dims[0] * m->positions;
    COPSE_TRY(copse_reshape(g, h, COPSE_SHAPE(rows, copse_tensor_shape(w).dims[0]), &h));
    COPSE_TRY(copse_reshape(g, y, COPSE_SHAPE(rows), &y));
    COPSE_TRY(copse_dense_cross_entropy(g, h, w, bias, y, NULL, loss, &hits));
    COPSE_TRY(copse_mean(g, hits, NULL, 0, false, &accuracy));
    return copse_report(g, "accuracy", accuracy);
}

static copse_status regression(const copse_model *m, copse_graph *g, copse_tensor *h,
                               copse_tensor *y, copse_tensor **loss)
{
    copse_tensor *error;
    COPSE_TRY(copse_sub(g, h, y, &error));
    COPSE_TRY(copse_abs(g, error, &error));
    COPSE_TRY(copse_mean(g, error, NULL, 0, false, &error));
    COPSE_TRY(copse_multiply_by(g, error, m->is.outputs == 1 ? (float)m->targets[0].scale : 1.0f,
                                &error));
    COPSE_TRY(copse_report(g, "mae", error));
    return m->loss.row ? copse__model_make_loss(m, g, h, y, loss)
                       : copse_mean_squared_error(g, h, y, loss);
}

copse_status copse_model_loss(copse_graph *g, const copse_batch *in, void *model,
                              copse_tensor **loss)
{
    copse_tensor *h, *y;
    COPSE_TRY(copse_need("model", g, in, model, loss));
    const copse_model *m = model;
    COPSE_TRY(copse_input(in, "y", &y)); /* first: dropout draws by the number of its node */
    if (m->is.task == COPSE_TASK_SEQUENCE && m->is.outputs > LARGE_VOCABULARY && !m->loss.row) {
        COPSE_TRY(large_sequence(m, g, in, y, loss));
        if (*loss)
            return COPSE_OK;
    }
    COPSE_TRY(copse__model_apply(m, g, in, &h));
    return m->targets                          ? regression(m, g, h, y, loss)
           : m->is.task == COPSE_TASK_SEQUENCE ? sequence(m, g, h, y, loss)
                                               : classification(m, g, h, y, loss);
}
