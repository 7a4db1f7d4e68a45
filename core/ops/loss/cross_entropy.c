/* SPDX-License-Identifier: MIT */
/* Cross-entropy of softmax with one class per example, forward and gradient fused: the
   probabilities are not stored. */
#include <math.h>

#include "core/device/kernel/launch_split.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/softmax.h"

struct loss_attr {
    int32_t is_mean;
};

static copse_status cross_entropy_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    (void)y;
    *shape = COPSE_SCALAR;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status cross_entropy_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct loss_attr *a = y->attr;
    const struct copse_params_cross_entropy p = { y->in[0]->shape.dims[0],
                                                  y->in[0]->shape.dims[1] };
    struct copse_operand rows = copse__of(y);
    if (p.rows > 0)
        COPSE_TRY(copse__scratch(l, p.rows, &rows));
    COPSE_TRY(COPSE_LAUNCH(l, cross_entropy, NULL, p,
                           copse__groups_for(l, COPSE_KERNEL_cross_entropy, p.rows),
                           copse__of(y->in[0]), copse__of(y->in[1]), copse__of(y->in[2]), rows));
    return copse__lower_reduce(l, a->is_mean ? COPSE_AXIS_MEAN : COPSE_AXIS_SUM, 1, p.rows, 1, rows,
                               copse__of(y));
}

static void cross_entropy_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                   copse_tensor **dx)
{
    const struct loss_attr *a = y->attr;
    dx[0] = copse__cross_entropy_grad(g, y->in[0], y->in[1], y->in[2], dy, a->is_mean);
}

static const struct copse_op op_loss = {
    .name = "sparse_cross_entropy",
    .attr_size = sizeof(struct loss_attr),
    .infer = cross_entropy_infer,
    .gradient = cross_entropy_gradient,
    .lower = cross_entropy_lower,
};

copse_tensor *copse_sparse_cross_entropy(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                                         copse_averaging reduction)
{
    const struct loss_attr a = { reduction == COPSE_MEAN };
    char x[96], y[96];
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("sparse_cross_entropy", g, logits, labels));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &logits));
    if (reduction != COPSE_MEAN && reduction != COPSE_SUM)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "sparse_cross_entropy: unknown reduction %d",
                             (int)reduction);
    if (logits->type != COPSE_F32 || logits->shape.rank != 2 || logits->shape.dims[1] == 0 ||
        labels->type != COPSE_I32 || labels->shape.rank != 1 ||
        labels->shape.dims[0] != logits->shape.dims[0])
        return copse__refuse(
            g, COPSE_ERR_SHAPE,
            "sparse_cross_entropy: operands %s%s and %s%s: expected f32 logits "
            "[examples, classes] and i32 labels [examples]",
            logits->type == COPSE_F32 ? "f32" : "i32", copse__shape_text(logits->shape, x),
            labels->type == COPSE_F32 ? "f32" : "i32", copse__shape_text(labels->shape, y));
    copse_tensor *stats = copse__row_stats(g, logits);
    return COPSE_NODE(g, &op_loss, &a, logits, labels, stats);
}

/* ---- references ---- */

static void cross_entropy_host(const void *params, const int32_t *spec,
                               const struct copse_host_arg *args)
{
    (void)spec;
    const struct copse_params_cross_entropy *p = params;
    for (size_t row = 0; row < p->rows; row++) {
        const int32_t label = copse__load_i(&args[1], row);
        double loss = NAN;
        if (label >= 0 && (uint32_t)label < p->cols)
            loss = log1p(copse__load(&args[2], 2 * row + 1)) -
                   (copse__load(&args[0], row * p->cols + (size_t)label) -
                    copse__load(&args[2], 2 * row));
        copse__store(&args[3], row, loss);
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_COLS

static void cross_entropy_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_cross_entropy p = { R, C };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, R), R * C, R, 2 * R, R);
    copse__test_quarters(t, 2);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- laws ---- */

static bool cross_entropy_split(const struct copse_command *c, struct copse_split *o)
{
    (void)c;
    return COPSE_SPLIT_EACH(o, 1, o->params[1], 1, 2, 1);
}

const struct copse_law copse_law_cross_entropy = {
    .host = cross_entropy_host,
    .split = cross_entropy_split,
    .limit = { .ulp = 4, .floor = 8 },
    .self_test = cross_entropy_test,
};
