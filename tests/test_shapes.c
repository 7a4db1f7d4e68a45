/* SPDX-License-Identifier: MIT */
/* Ops that move elements, on every device found, bit for bit; and the errors of all ops: code, op,
   operands and what was expected. */
#include <math.h>

#include "tests/op_harness.h"

struct shuffle {
    enum { RESHAPE, TRANSPOSE, SLICE, BROADCAST, CONCAT, CAST, FILL } kind;
    copse_type type;
    copse_shape x[3];
    copse_shape to;
    uint32_t a[6], b[6];
};

static copse_status build(copse_graph *g, copse_tensor *const *in, const void *user,
                          copse_tensor **y)
{
    const struct shuffle *s = user;
    size_t count = 0;
    switch (s->kind) {
    case RESHAPE:
        return copse_reshape(g, in[0], s->to, y);
    case TRANSPOSE:
        return copse_transpose(g, in[0], s->a, y);
    case SLICE:
        return copse_slice(g, in[0], s->a, s->b, y);
    case BROADCAST:
        return copse_broadcast_to(g, in[0], s->to, y);
    case CONCAT:
        while (count < 3 && s->x[count].rank)
            count++;
        return copse_concat(g, in, count, s->a[0], y);
    case CAST:
        return copse_cast(g, in[0], s->type == COPSE_F32 ? COPSE_I32 : COPSE_F32, y);
    case FILL:
        return copse_fill(g, s->type, s->to, 2.5, y);
    }
    return COPSE_ERR_INTERNAL;
}

static const struct shuffle shuffles[] = {
    { .kind = RESHAPE, .x = { { 2, { 6, 10 } } }, .to = { 3, { 4, 5, 3 } } },
    { .kind = RESHAPE, .x = { { 2, { 1, 1 } } }, .to = { 0, { 0 } } },
    { .kind = RESHAPE, .x = { { 2, { 0, 3 } } }, .to = { 1, { 0 } } },
    { .kind = TRANSPOSE, .x = { { 2, { 37, 53 } } }, .a = { 1, 0 } },
    { .kind = TRANSPOSE, .x = { { 3, { 3, 4, 5 } } }, .a = { 2, 0, 1 } },
    { .kind = TRANSPOSE, .x = { { 4, { 2, 3, 4, 5 } } }, .a = { 0, 2, 1, 3 } },
    { .kind = TRANSPOSE, .x = { { 6, { 2, 3, 2, 3, 2, 3 } } }, .a = { 5, 3, 1, 0, 4, 2 } },
    { .kind = TRANSPOSE, .x = { { 3, { 3, 1, 5 } } }, .a = { 1, 2, 0 } },
    { .kind = TRANSPOSE, .x = { { 2, { 0, 5 } } }, .a = { 1, 0 } },
    { .kind = TRANSPOSE, .x = { { 0, { 0 } } } },
    { .kind = SLICE, .x = { { 2, { 9, 20 } } }, .a = { 2, 3 }, .b = { 5, 11 } },
    { .kind = SLICE, .x = { { 3, { 4, 5, 6 } } }, .a = { 0, 4, 0 }, .b = { 4, 1, 6 } },
    { .kind = SLICE, .x = { { 2, { 9, 20 } } }, .a = { 9, 0 }, .b = { 0, 20 } },
    { .kind = SLICE, .x = { { 2, { 9, 20 } } }, .a = { 0, 0 }, .b = { 9, 20 } },
    { .kind = BROADCAST, .x = { { 0, { 0 } } }, .to = { 2, { 5, 70 } } },
    { .kind = BROADCAST, .x = { { 2, { 1, 70 } } }, .to = { 2, { 5, 70 } } },
    { .kind = BROADCAST, .x = { { 2, { 5, 1 } } }, .to = { 3, { 3, 5, 7 } } },
    { .kind = BROADCAST, .x = { { 1, { 1 } } }, .to = { 2, { 0, 7 } } },
    { .kind = CONCAT, .x = { { 2, { 3, 4 } }, { 2, { 3, 1 } }, { 2, { 3, 7 } } }, .a = { 1 } },
    { .kind = CONCAT, .x = { { 2, { 3, 4 } }, { 2, { 0, 4 } }, { 2, { 300, 4 } } }, .a = { 0 } },
    { .kind = CONCAT, .x = { { 3, { 2, 3, 4 } }, { 3, { 2, 5, 4 } } }, .a = { 1 } },
    { .kind = CONCAT, .x = { { 1, { 3 } } }, .a = { 0 } },
};

static void elements_move(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(shuffles); i++)
        for (int is_int = 0; is_int < 2; is_int++) {
            struct shuffle s = shuffles[i];
            s.type = is_int ? COPSE_I32 : COPSE_F32;
            struct harness_case c = {
                .name = "shuffle", .build = build, .user = &s,
                /* a broadcast's derivative is a sum; the others only move */
                .backward = { .ulp = s.kind == BROADCAST ? 16 : 0,
                              .of_max = s.kind == BROADCAST ? 1e-6 : 0 },
                .seed = i + 1,
            };
            for (size_t k = 0; k < 3 && (k == 0 || s.x[k].rank); k++)
                c.in[c.in_count++] =
                    (struct harness_input){ s.type, s.x[k], -1000, 1000, NULL, false };
            c.skips_differences = true;
            harness_run(&c);
            for (size_t k = 0; k < c.in_count; k++) {
                c.in[k].low = -1;
                c.in[k].high = 1;
            }
            c.skips_differences = false;
            if (!is_int)
                harness_run(&c);
        }
}

static void casts(void **state)
{
    (void)state;
    static const double f[] = { 0, -0.0, 1.9, -1.9, 2147483520.0, 2147483648.0, -2147483648.0, 3e9,
                                -3e9, INFINITY, -INFINITY, NAN, 0.5, -0.5, 1e-40, 16777216 };
    static const double i[] = { 0, 1, -1, 16777216, 16777217, 16777219, 2147483647, -2147483648.0 };
    const struct shuffle to_int = { .kind = CAST, .type = COPSE_F32 };
    const struct shuffle to_float = { .kind = CAST, .type = COPSE_I32 };
    const struct harness_case a = {
        .name = "cast to i32", .build = build, .user = &to_int,
        .in = { { COPSE_F32, { 1, { COPSE_COUNT(f) } }, 0, 0, f, true } }, .in_count = 1,
    };
    harness_run(&a);
    const struct harness_case b = {
        .name = "cast to f32", .build = build, .user = &to_float,
        .in = { { COPSE_I32, { 1, { COPSE_COUNT(i) } }, 0, 0, i, true } }, .in_count = 1,
    };
    harness_run(&b);
}

static void fills(void **state)
{
    (void)state;
    const struct shuffle rows[] = {
        { .kind = FILL, .type = COPSE_F32, .to = { 2, { 3, 300 } } },
        { .kind = FILL, .type = COPSE_I32, .to = { 2, { 3, 300 } } },
        { .kind = FILL, .type = COPSE_F32, .to = { 0, { 0 } } },
        { .kind = FILL, .type = COPSE_F32, .to = { 2, { 3, 0 } } },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct harness_case c = { .name = "fill", .build = build, .user = &rows[i] };
        harness_run(&c);
    }
}

/* ---- errors: `y` stays NULL, the text says what was wrong ---- */

#define FAILS(expr, code, word)                                                                    \
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

    FAILS(copse_add(g, x, v, &y), COPSE_ERR_SHAPE, "add: operands f32[4, 6] and f32[5]: expected");
    FAILS(copse_mul(g, x, n, &y), COPSE_ERR_SHAPE, "mul: operands f32[4, 6] and i32[4]: expected");
    FAILS(copse_equal(g, x, n, &y), COPSE_ERR_SHAPE, "one element type");
    FAILS(copse_equal(g, x, v, &y), COPSE_ERR_SHAPE, "equal or 1");
    FAILS(copse_relu(g, n, &y), COPSE_ERR_SHAPE, "relu: operand i32[4]: expected f32");
    FAILS(copse_sum(g, x, axes, 2, false, &y), COPSE_ERR_SHAPE, "sum: axis 1 of operand [4, 6]");
    FAILS(copse_mean(g, x, high, 1, false, &y), COPSE_ERR_SHAPE, "mean: axis 2");
    FAILS(copse_max(g, n, NULL, 0, false, &y), COPSE_ERR_SHAPE, "max: operand i32[4]");
    FAILS(copse_sum(g, x, NULL, 1, false, &y), COPSE_ERR_ARGUMENT, "axes");
    FAILS(copse_argmax(g, x, 2, &y), COPSE_ERR_SHAPE, "argmax: operand f32[4, 6]");
    FAILS(copse_argmax(g, e, 1, &y), COPSE_ERR_SHAPE, "argmax");
    FAILS(copse_softmax(g, n, &y), COPSE_ERR_SHAPE, "softmax: operand i32[4]");
    FAILS(copse_log_softmax(g, n, &y), COPSE_ERR_SHAPE, "log_softmax");
    FAILS(copse_sparse_cross_entropy(g, x, v, COPSE_MEAN, &y), COPSE_ERR_SHAPE,
          "sparse_cross_entropy: operands f32[4, 6] and f32[5]: expected f32 logits");
    FAILS(copse_sparse_cross_entropy(g, v, n, COPSE_MEAN, &y), COPSE_ERR_SHAPE, "f32[5]");
    FAILS(copse_sparse_cross_entropy(g, e, n, COPSE_MEAN, &y), COPSE_ERR_SHAPE, "f32[4, 0]");
    FAILS(copse_sparse_cross_entropy(g, x, n, (copse_averaging)7, &y), COPSE_ERR_ARGUMENT, "7");
    FAILS(copse_mean_squared_error(g, x, v, &y), COPSE_ERR_SHAPE, "mean_squared_error");
    FAILS(copse_reshape(g, x, COPSE_SHAPE(5, 5), &y), COPSE_ERR_SHAPE,
          "reshape: operand f32[4, 6]");
    FAILS(copse_reshape(g, x, (copse_shape){ .rank = 7 }, &y), COPSE_ERR_ARGUMENT, "rank 7");
    FAILS(copse_transpose(g, x, order, &y), COPSE_ERR_SHAPE, "order[1] is 0");
    FAILS(copse_transpose(g, x, NULL, &y), COPSE_ERR_ARGUMENT, "order is NULL");
    FAILS(copse_slice(g, x, start, size, &y), COPSE_ERR_SHAPE,
          "4 elements from 3 on exceed axis 1");
    FAILS(copse_slice(g, x, NULL, size, &y), COPSE_ERR_ARGUMENT, "slice");
    FAILS(copse_concat(g, (copse_tensor *[]){ x, v }, 2, 0, &y), COPSE_ERR_SHAPE,
          "concat: operands");
    FAILS(copse_concat(g, (copse_tensor *[]){ x, e }, 2, 0, &y), COPSE_ERR_SHAPE, "axis 0");
    FAILS(copse_concat(g, (copse_tensor *[]){ x, x }, 2, 2, &y), COPSE_ERR_SHAPE, "no axis 2");
    FAILS(copse_concat(g, NULL, 0, 0, &y), COPSE_ERR_ARGUMENT, "at least one");
    FAILS(copse_broadcast_to(g, v, COPSE_SHAPE(5, 4), &y), COPSE_ERR_SHAPE,
          "[5] does not broadcast to [5, 4]");
    FAILS(copse_broadcast_to(g, x, COPSE_SHAPE(6), &y), COPSE_ERR_SHAPE, "does not broadcast");
    FAILS(copse_cast(g, x, (copse_type)9, &y), COPSE_ERR_ARGUMENT, "type 9");
    FAILS(copse_fill(g, (copse_type)9, COPSE_SCALAR, 0, &y), COPSE_ERR_ARGUMENT, "fill");
    FAILS(copse_dropout(g, x, 1.0f, true, &y), COPSE_ERR_ARGUMENT, "rate 1");
    FAILS(copse_dropout(g, x, NAN, true, &y), COPSE_ERR_ARGUMENT, "rate");
    FAILS(copse_dropout(g, n, 0.5f, true, &y), COPSE_ERR_SHAPE, "dropout: operand i32[4]");
    FAILS(copse_clip(g, x, 2, 1, &y), COPSE_ERR_ARGUMENT, "low 2 is above high 1");
    FAILS(copse_pow(g, x, INFINITY, &y), COPSE_ERR_ARGUMENT, "finite");
    FAILS(copse_elu(g, x, NAN, &y), COPSE_ERR_ARGUMENT, "NaN");
    FAILS(copse_add(g, x, NULL, &y), COPSE_ERR_ARGUMENT, "add: operand 1 is NULL");
    FAILS(copse_softmax(g, NULL, &y), COPSE_ERR_ARGUMENT, "softmax: operand 0 is NULL");
    harness_fails(copse_exp(NULL, x, &y), COPSE_ERR_ARGUMENT, "exp");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_move),
        cmocka_unit_test(casts),
        cmocka_unit_test(fills),
        cmocka_unit_test(shape_errors),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
