/* SPDX-License-Identifier: MIT */
/* Ops that move elements, on every device found: the table of conformance cases; and the errors of
   all ops: code, op, operands and what was expected. */
#include <math.h>

#include "tests/op_harness.h"

static void elements_move(void **state)
{
    (void)state;
    harness_run_named("shapes");
}

/* ---- errors: `y` stays NULL, the text says what was wrong ---- */

#define REFUSES(expr, code, word)                                                                    \
    do {                                                                                           \
        y = x;                                                                                     \
        harness_fails(expr, code, word);                                                           \
        assert_null(y);                                                                            \
    } while (0)

static void shape_errors(void **state)
{
    (void)state;
    copse_graph *g;
    copse_tensor *x, *v, *n, *e, *y;
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(4, 6), &x));
    OK(copse_input(g, "v", COPSE_F32, COPSE_SHAPE(5), &v));
    OK(copse_input(g, "n", COPSE_I32, COPSE_SHAPE(4), &n));
    OK(copse_input(g, "e", COPSE_F32, COPSE_SHAPE(4, 0), &e));
    const uint32_t axes[] = { 1, 1 }, high[] = { 2 }, order[] = { 0, 0 }, start[] = { 0, 3 },
                   size[] = { 4, 4 };

    REFUSES(copse_add(g, x, v, &y), COPSE_ERR_SHAPE, "add: operands f32[4, 6] and f32[5]: expected");
    REFUSES(copse_mul(g, x, n, &y), COPSE_ERR_SHAPE, "mul: operands f32[4, 6] and i32[4]: expected");
    REFUSES(copse_equal(g, x, n, &y), COPSE_ERR_SHAPE, "one element type");
    REFUSES(copse_equal(g, x, v, &y), COPSE_ERR_SHAPE, "equal or 1");
    REFUSES(copse_relu(g, n, &y), COPSE_ERR_SHAPE, "relu: operand i32[4]: expected f32");
    REFUSES(copse_sum(g, x, axes, 2, false, &y), COPSE_ERR_SHAPE, "sum: axis 1 of operand [4, 6]");
    REFUSES(copse_mean(g, x, high, 1, false, &y), COPSE_ERR_SHAPE, "mean: axis 2");
    REFUSES(copse_max(g, n, NULL, 0, false, &y), COPSE_ERR_SHAPE, "max: operand i32[4]");
    REFUSES(copse_sum(g, x, NULL, 1, false, &y), COPSE_ERR_ARGUMENT, "axes");
    REFUSES(copse_argmax(g, x, 2, &y), COPSE_ERR_SHAPE, "argmax: operand f32[4, 6]");
    REFUSES(copse_argmax(g, e, 1, &y), COPSE_ERR_SHAPE, "argmax");
    REFUSES(copse_softmax(g, n, &y), COPSE_ERR_SHAPE, "softmax: operand i32[4]");
    REFUSES(copse_log_softmax(g, n, &y), COPSE_ERR_SHAPE, "log_softmax");
    REFUSES(copse_sparse_cross_entropy(g, x, v, COPSE_MEAN, &y), COPSE_ERR_SHAPE,
          "sparse_cross_entropy: operands f32[4, 6] and f32[5]: expected f32 logits");
    REFUSES(copse_sparse_cross_entropy(g, v, n, COPSE_MEAN, &y), COPSE_ERR_SHAPE, "f32[5]");
    REFUSES(copse_sparse_cross_entropy(g, e, n, COPSE_MEAN, &y), COPSE_ERR_SHAPE, "f32[4, 0]");
    REFUSES(copse_sparse_cross_entropy(g, x, n, (copse_averaging)7, &y), COPSE_ERR_ARGUMENT, "7");
    REFUSES(copse_mean_squared_error(g, x, v, &y), COPSE_ERR_SHAPE, "mean_squared_error");
    REFUSES(copse_reshape(g, x, COPSE_SHAPE(5, 5), &y), COPSE_ERR_SHAPE,
          "reshape: operand f32[4, 6]");
    REFUSES(copse_reshape(g, x, (copse_shape){ .rank = 7 }, &y), COPSE_ERR_ARGUMENT, "rank 7");
    REFUSES(copse_transpose(g, x, order, &y), COPSE_ERR_SHAPE, "order[1] is 0");
    REFUSES(copse_transpose(g, x, NULL, &y), COPSE_ERR_ARGUMENT, "order is NULL");
    REFUSES(copse_slice(g, x, start, size, &y), COPSE_ERR_SHAPE,
          "4 elements from 3 on exceed axis 1");
    REFUSES(copse_slice(g, x, NULL, size, &y), COPSE_ERR_ARGUMENT, "slice");
    REFUSES(copse_concat(g, (copse_tensor *[]){ x, v }, 2, 0, &y), COPSE_ERR_SHAPE,
          "concat: operands");
    REFUSES(copse_concat(g, (copse_tensor *[]){ x, e }, 2, 0, &y), COPSE_ERR_SHAPE, "axis 0");
    REFUSES(copse_concat(g, (copse_tensor *[]){ x, x }, 2, 2, &y), COPSE_ERR_SHAPE, "no axis 2");
    REFUSES(copse_concat(g, NULL, 0, 0, &y), COPSE_ERR_ARGUMENT, "at least one");
    REFUSES(copse_broadcast_to(g, v, COPSE_SHAPE(5, 4), &y), COPSE_ERR_SHAPE,
          "[5] does not broadcast to [5, 4]");
    REFUSES(copse_broadcast_to(g, x, COPSE_SHAPE(6), &y), COPSE_ERR_SHAPE, "does not broadcast");
    REFUSES(copse_cast(g, x, (copse_type)9, &y), COPSE_ERR_ARGUMENT, "type 9");
    REFUSES(copse_fill(g, (copse_type)9, COPSE_SCALAR, 0, &y), COPSE_ERR_ARGUMENT, "fill");
    REFUSES(copse_dropout(g, x, 1.0f, true, &y), COPSE_ERR_ARGUMENT, "rate 1");
    REFUSES(copse_dropout(g, x, NAN, true, &y), COPSE_ERR_ARGUMENT, "rate");
    REFUSES(copse_dropout(g, n, 0.5f, true, &y), COPSE_ERR_SHAPE, "dropout: operand i32[4]");
    REFUSES(copse_clip(g, x, 2, 1, &y), COPSE_ERR_ARGUMENT, "low 2 is above high 1");
    REFUSES(copse_pow(g, x, INFINITY, &y), COPSE_ERR_ARGUMENT, "finite");
    REFUSES(copse_elu(g, x, NAN, &y), COPSE_ERR_ARGUMENT, "NaN");
    REFUSES(copse_add(g, x, NULL, &y), COPSE_ERR_ARGUMENT, "add: operand 1 is NULL");
    REFUSES(copse_softmax(g, NULL, &y), COPSE_ERR_ARGUMENT, "softmax: operand 0 is NULL");
    harness_fails(copse_exp(NULL, x, &y), COPSE_ERR_ARGUMENT, "exp");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_move),
        cmocka_unit_test(shape_errors),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
