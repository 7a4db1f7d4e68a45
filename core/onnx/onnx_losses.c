/* SPDX-License-Identifier: MIT */
/* Losses as operators: -weight log p of each label, then a mean by the weights, a sum, or each. */
#include "copse/ops.h"
#include "copse/ops/logic.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* x [n, c, ..] as [rows, c]. */
static copse_tensor *class_rows(struct onnx_walk *w, struct onnx_value *x, uint32_t *rows)
{
    const uint32_t classes = x->shape.dims[1];
    copse_tensor *t = x->shape.rank > 2 ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    *rows = (uint32_t)(copse__elements(x->shape) / COPSE_MAX(classes, 1u));
    return copse_reshape(w->g, t, COPSE_SHAPE(*rows, classes));
}

void copse__onnx_loss_of(struct onnx_walk *w)
{
    const onnx_node *n = w->step->node;
    struct onnx_value *x = copse__onnx_in(w, 0), *labels = copse__onnx_in(w, 1),
                      *weights = copse__onnx_in(w, 2);
    const bool is_softmax = strcmp(w->step->row->name, "SoftmaxCrossEntropyLoss") == 0,
               has_ignored = copse__onnx_attribute(n, "ignore_index") != NULL,
               is_each = copse__onnx_text_is(n, "reduction", "mean", "none"),
               is_mean = copse__onnx_text_is(n, "reduction", "mean", "mean");
    copse_graph *g = w->g;
    uint32_t rows;
    if (x->shape.rank < 2 || x->shape.dims[1] == 0 ||
        copse__elements(labels->shape) * x->shape.dims[1] != copse__elements(x->shape) ||
        (weights && copse__elements(weights->shape) != x->shape.dims[1])) {
        copse__onnx_refuse(w, "scores %s with labels %s", COPSE_SHAPE_TEXT(x->shape),
                           COPSE_SHAPE_TEXT(labels->shape));
        return;
    }
    const uint32_t classes = x->shape.dims[1], last = 1;
    copse_tensor *log_p = class_rows(w, x, &rows);
    if (is_softmax)
        log_p = copse_log_softmax(g, log_p);
    copse_tensor *y = copse_reshape(g, copse__onnx_i32(w, labels), COPSE_SHAPE(rows));
    copse_tensor *weight = copse_fill(g, COPSE_F32, COPSE_SHAPE(rows), 1);
    copse_tensor *is_label = copse_one_hot(g, y, classes);
    if (weights) { /* no gather: a label that is ignored may be out of range */
        copse_tensor *all = copse_reshape(g, copse__onnx_f32(w, weights), COPSE_SHAPE(1, classes));
        weight = copse_sum(g, copse_where(g, is_label, all, copse_scalar(g, 0)), &last, 1, false);
    }
    if (has_ignored) {
        copse_tensor *ignored =
            copse_fill(g, COPSE_I32, COPSE_SCALAR, (double)copse__onnx_int(n, "ignore_index", 0));
        weight = copse_mul(g, weight, copse_not_equal(g, y, ignored));
    }
    copse_tensor *picked =
        copse_sum(g, copse_where(g, is_label, log_p, copse_scalar(g, 0)), &last, 1, false);
    copse_tensor *loss = copse_neg(g, copse_mul(g, picked, weight));
    if (is_each)
        loss = copse_reshape(g, loss, labels->shape);
    else
        loss = copse_sum(g, loss, NULL, 0, false);
    if (is_mean)
        loss = copse_div(g, loss, copse_sum(g, weight, NULL, 0, false));
    if (copse__onnx_wants(w, 1)) {
        copse_shape s = { x->shape.rank, { x->shape.dims[0] } };
        for (uint32_t i = 2; i < s.rank; i++)
            s.dims[i - 1] = x->shape.dims[i];
        s.dims[s.rank - 1] = classes;
        copse__onnx_set_either(w, 1, ONNX_FLOAT, copse_reshape(g, log_p, s), s.rank > 2);
    }
    copse__onnx_set(w, 0, ONNX_FLOAT, loss);
}
