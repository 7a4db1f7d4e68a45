/* SPDX-License-Identifier: MIT */
/* Mode args, operations: every one without a graph, a result or an operand, with an operand of
   another graph or element type; and the numbers and shapes that each of them refuses. */
#include <math.h>
#include <stdio.h>

#include "core/conformance/args.h"
#include "copse/matmul.h"
#include "copse/ops.h"

/* ---- operands: one row per operation ---- */

typedef copse_status call_fn(copse_graph *g, copse_tensor *const *in, copse_tensor **out);

#define CALL(name, ...)                                                                        \
    static copse_status call_##name(copse_graph *g, copse_tensor *const *in, copse_tensor **y) \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
#define UNARY(name, ...) CALL(name, copse_##name(g, in[0], y))
#define SCALED(name, ...)
#include "kernels/unary.def"
#undef UNARY
#undef SCALED
#define BINARY(name, ...)  CALL(name, copse_##name(g, in[0], in[1], y))
#define COMPARE(name, ...) CALL(name, copse_##name(g, in[0], in[1], y))
#include "kernels/binary.def"
#undef BINARY
#undef COMPARE
CALL(leaky_relu, copse_leaky_relu(g, in[0], 0.1f, y))
CALL(elu, copse_elu(g, in[0], 1.0f, y))
CALL(pow, copse_pow(g, in[0], 2.0f, y))
CALL(clip, copse_clip(g, in[0], 0.0f, 1.0f, y))
CALL(multiply_by, copse_multiply_by(g, in[0], 2.0f, y))
CALL(sum, copse_sum(g, in[0], NULL, 0, false, y))
CALL(mean, copse_mean(g, in[0], NULL, 0, true, y))
CALL(max, copse_max(g, in[0], (const uint32_t[]){ 0 }, 1, false, y))
CALL(argmax, copse_argmax(g, in[0], 1, y))
CALL(softmax, copse_softmax(g, in[0], y))
CALL(log_softmax, copse_log_softmax(g, in[0], y))
CALL(sparse_cross_entropy, copse_sparse_cross_entropy(g, in[0], in[1], COPSE_MEAN, y))
CALL(mean_squared_error, copse_mean_squared_error(g, in[0], in[1], y))
CALL(reshape, copse_reshape(g, in[0], COPSE_SHAPE(4), y))
CALL(transpose, copse_transpose(g, in[0], (const uint32_t[]){ 1, 0 }, y))
CALL(slice, copse_slice(g, in[0], (const uint32_t[]){ 0, 1 }, (const uint32_t[]){ 1, 1 }, y))
CALL(concat, copse_concat(g, in, 2, 0, y))
CALL(broadcast_to, copse_broadcast_to(g, in[0], COPSE_SHAPE(3, 2, 2), y))
CALL(cast, copse_cast(g, in[0], COPSE_I32, y))
CALL(dropout, copse_dropout(g, in[0], 0.5f, true, y))
CALL(matmul, copse_matmul(g, in[0], in[1], false, false, y))
CALL(dense, copse_dense(g, in[0], in[1], NULL, COPSE_RELU, y))

enum { ANY = -1, F = COPSE_F32, LABELS = COPSE_I32 };

/* Operands are f32 [2, 2], or labels i32 [2]. */
static const struct row {
    const char *op;
    call_fn *call;
    int operands[2]; /* element type, ANY = every type is legal */
    uint32_t count;
} rows[] = {
#define UNARY(name, ...) { #name, call_##name, { F }, 1 },
#define SCALED(name, ...)
#include "kernels/unary.def"
#undef UNARY
#undef SCALED
#define BINARY(name, ...)  { #name, call_##name, { F, F }, 2 },
#define COMPARE(name, ...) { #name, call_##name, { F, F }, 2 },
#include "kernels/binary.def"
#undef BINARY
#undef COMPARE
#define ONE(name, type) { #name, call_##name, { type }, 1 }
#define TWO(name, a, b) { #name, call_##name, { a, b }, 2 }
    ONE(leaky_relu, F), ONE(elu, F), ONE(pow, F), ONE(clip, F), ONE(multiply_by, F), ONE(sum, F),
    ONE(mean, F), ONE(max, F), ONE(argmax, F), ONE(softmax, F), ONE(log_softmax, F),
    TWO(sparse_cross_entropy, F, LABELS), TWO(mean_squared_error, F, F), ONE(reshape, ANY),
    ONE(transpose, ANY), ONE(slice, ANY), TWO(concat, ANY, ANY), ONE(broadcast_to, ANY),
    ONE(cast, ANY), ONE(dropout, F), TWO(matmul, F, F), TWO(dense, F, F),
};

struct stage {
    copse_graph *g, *other;
    copse_tensor *f, *i, *labels; /* f32 [2, 2], i32 [2, 2], i32 [2] */
    copse_tensor *far[2];         /* f32 [2, 2] and i32 [2] of the other graph */
};

static copse_status open_stage(copse_context *ctx, struct stage *s)
{
    COPSE_TRY(copse_graph_create(ctx, &s->g));
    COPSE_TRY(copse_graph_create(ctx, &s->other));
    COPSE_TRY(copse_graph_input(s->g, "f", COPSE_F32, COPSE_SHAPE(2, 2), &s->f));
    COPSE_TRY(copse_graph_input(s->g, "i", COPSE_I32, COPSE_SHAPE(2, 2), &s->i));
    COPSE_TRY(copse_graph_input(s->g, "labels", COPSE_I32, COPSE_SHAPE(2), &s->labels));
    COPSE_TRY(copse_graph_input(s->other, "f", COPSE_F32, COPSE_SHAPE(2, 2), &s->far[0]));
    return copse_graph_input(s->other, "labels", COPSE_I32, COPSE_SHAPE(2), &s->far[1]);
}

static void judge(struct copse_conform_outcome *out, const struct row *row, const char *what,
                  copse_status got, copse_status expected, const copse_tensor *y)
{
    char call[96];
    snprintf(call, sizeof call, "copse_%s %s", row->op, what);
    copse__args_judge(out, call, got, expected, y == NULL);
}

static void check_operands(struct stage *s, const struct row *row,
                           struct copse_conform_outcome *out)
{
    copse_tensor *const good[2] = { s->f, row->operands[1] == LABELS ? s->labels : s->f };
    copse_tensor *in[2], *y = s->f;
    memcpy(in, good, sizeof in);
    judge(out, row, "without a result", row->call(s->g, in, NULL), COPSE_ERR_ARGUMENT, NULL);
    const copse_status without = row->call(NULL, in, &y);
    judge(out, row, "without a graph", without, COPSE_ERR_ARGUMENT, y == s->f ? NULL : y);
    for (uint32_t i = 0; i < row->count; i++) {
        const bool is_labels = row->operands[i] == LABELS;
        const struct {
            copse_tensor *operand;
            copse_status code;
            const char *what;
        } bad[] = {
            { NULL, COPSE_ERR_ARGUMENT, "without an operand" },
            { s->far[is_labels], COPSE_ERR_ARGUMENT, "with an operand of another graph" },
            { is_labels ? s->f : s->i, COPSE_ERR_SHAPE, "with an operand of another type" },
        };
        for (size_t k = 0; k < (row->operands[i] == ANY ? 2 : COPSE_COUNT(bad)); k++) {
            memcpy(in, good, sizeof in);
            in[i] = bad[k].operand;
            y = s->f;
            const copse_status got = row->call(s->g, in, &y);
            judge(out, row, bad[k].what, got, bad[k].code, y);
        }
    }
    memcpy(in, good, sizeof in); /* all that did no harm */
    copse__args_judge(out, row->op, row->call(s->g, in, &y), COPSE_OK, true);
}

/* ---- numbers and shapes ---- */

#define ARGUMENT COPSE_ERR_ARGUMENT
#define SHAPE    COPSE_ERR_SHAPE
/* The result is NULL after a failure. */
#define BAD(code, ...)                                                     \
    do {                                                                   \
        copse_tensor *y = s->f;                                            \
        const copse_status bad_ = (__VA_ARGS__);                           \
        copse__args_judge(out, #__VA_ARGS__, bad_, code, !y);              \
    } while (0)

static void check_settings(struct stage *s, struct copse_conform_outcome *out)
{
    copse_graph *g = s->g;
    BAD(ARGUMENT, copse_leaky_relu(g, s->f, NAN, &y));
    BAD(ARGUMENT, copse_elu(g, s->f, NAN, &y));
    BAD(ARGUMENT, copse_pow(g, s->f, INFINITY, &y));
    BAD(ARGUMENT, copse_pow(g, s->f, NAN, &y));
    BAD(ARGUMENT, copse_clip(g, s->f, 1.0f, 0.0f, &y));
    BAD(ARGUMENT, copse_clip(g, s->f, NAN, 0.0f, &y));
    BAD(ARGUMENT, copse_multiply_by(g, s->f, NAN, &y));
    BAD(ARGUMENT, copse_dropout(g, s->f, 1.0f, true, &y));
    BAD(ARGUMENT, copse_dropout(g, s->f, -0.1f, true, &y));
    BAD(ARGUMENT, copse_dropout(g, s->f, NAN, true, &y));
    BAD(ARGUMENT, copse_cast(g, s->f, (copse_type)9, &y));
    BAD(ARGUMENT, copse_fill(g, (copse_type)9, COPSE_SCALAR, 0.0, &y));
    BAD(ARGUMENT, copse_fill(g, COPSE_F32, (copse_shape){ COPSE_MAX_RANK + 1, { 1 } }, 0.0, &y));
    BAD(SHAPE, copse_fill(g, COPSE_F32, COPSE_SHAPE(65536, 65536), 0.0, &y));
    BAD(ARGUMENT, copse_fill(NULL, COPSE_F32, COPSE_SCALAR, 0.0, &y));
    BAD(ARGUMENT, copse_sparse_cross_entropy(g, s->f, s->labels, (copse_averaging)9, &y));
    BAD(ARGUMENT, copse_dense(g, s->f, s->f, NULL, (copse_activation)99, &y));
}

static void check_axes(struct stage *s, struct copse_conform_outcome *out)
{
    copse_graph *g = s->g;
    const uint32_t beyond[] = { 2, 0 }, twice[] = { 1, 1 }, far[] = { 0, 2 }, two[] = { 2, 1 };
    BAD(ARGUMENT, copse_sum(g, s->f, NULL, 1, false, &y));
    BAD(SHAPE, copse_sum(g, s->f, beyond, 1, false, &y));
    BAD(SHAPE, copse_mean(g, s->f, twice, 2, false, &y));
    BAD(SHAPE, copse_max(g, s->f, beyond, 2, true, &y));
    BAD(SHAPE, copse_argmax(g, s->f, 2, &y));
    BAD(ARGUMENT, copse_transpose(g, s->f, NULL, &y));
    BAD(SHAPE, copse_transpose(g, s->f, twice, &y));
    BAD(SHAPE, copse_transpose(g, s->f, beyond, &y));
    BAD(ARGUMENT, copse_slice(g, s->f, NULL, two, &y));
    BAD(ARGUMENT, copse_slice(g, s->f, two, NULL, &y));
    BAD(SHAPE, copse_slice(g, s->f, far, two, &y));
    BAD(SHAPE, copse_slice(g, s->f, (const uint32_t[]){ UINT32_MAX, 0 }, two, &y));
    BAD(ARGUMENT, copse_concat(g, NULL, 2, 0, &y));
    BAD(ARGUMENT, copse_concat(g, &s->f, 0, 0, &y));
    BAD(SHAPE, copse_concat(g, &s->f, 1, 2, &y));
    BAD(SHAPE, copse_concat(g, (copse_tensor *[]){ s->f, s->i }, 2, 0, &y));
}

static copse_status check_shapes(struct stage *s, struct copse_conform_outcome *out)
{
    copse_graph *g = s->g;
    copse_tensor *f3, *f23, *empty, *one, *long_labels;
    COPSE_TRY(copse_graph_input(g, "f3", COPSE_F32, COPSE_SHAPE(3), &f3));
    COPSE_TRY(copse_graph_input(g, "f23", COPSE_F32, COPSE_SHAPE(2, 3), &f23));
    COPSE_TRY(copse_graph_input(g, "empty", COPSE_F32, COPSE_SHAPE(2, 0), &empty));
    COPSE_TRY(copse_graph_input(g, "one", COPSE_F32, COPSE_SCALAR, &one));
    COPSE_TRY(copse_graph_input(g, "long_labels", COPSE_I32, COPSE_SHAPE(3), &long_labels));
    BAD(SHAPE, copse_add(g, s->f, f3, &y));
    BAD(SHAPE, copse_div(g, f23, s->f, &y));
    BAD(SHAPE, copse_maximum(g, f3, s->f, &y));
    BAD(SHAPE, copse_equal(g, s->f, f3, &y));
    BAD(SHAPE, copse_less(g, s->f, s->i, &y));
    BAD(SHAPE, copse_mean_squared_error(g, s->f, f3, &y));
    BAD(SHAPE, copse_argmax(g, empty, 1, &y));
    BAD(SHAPE, copse_sparse_cross_entropy(g, s->f, long_labels, COPSE_MEAN, &y));
    BAD(SHAPE, copse_sparse_cross_entropy(g, f3, s->labels, COPSE_SUM, &y));
    BAD(SHAPE, copse_sparse_cross_entropy(g, empty, s->labels, COPSE_SUM, &y));
    BAD(SHAPE, copse_reshape(g, s->f, COPSE_SHAPE(5), &y));
    BAD(ARGUMENT, copse_reshape(g, s->f, (copse_shape){ COPSE_MAX_RANK + 1, { 4 } }, &y));
    BAD(SHAPE, copse_broadcast_to(g, s->f, COPSE_SHAPE(2, 3), &y));
    BAD(SHAPE, copse_broadcast_to(g, s->f, COPSE_SHAPE(2), &y));
    BAD(SHAPE, copse_concat(g, (copse_tensor *[]){ s->f, f23 }, 2, 0, &y));
    BAD(SHAPE, copse_matmul(g, f23, s->f, false, false, &y));
    BAD(SHAPE, copse_matmul(g, f3, s->f, false, false, &y));
    BAD(SHAPE, copse_matmul(g, one, one, false, false, &y));
    BAD(SHAPE, copse_dense(g, f23, s->f, NULL, COPSE_LINEAR, &y));
    BAD(SHAPE, copse_dense(g, s->f, f3, NULL, COPSE_LINEAR, &y));
    BAD(SHAPE, copse_dense(g, one, s->f, NULL, COPSE_LINEAR, &y));
    BAD(SHAPE, copse_dense(g, s->f, s->f, f3, COPSE_TANH, &y));
    BAD(ARGUMENT, copse_dense(g, s->f, s->f, s->far[0], COPSE_TANH, &y));
    return COPSE_OK;
}

static copse_status check(struct copse_conform_run *r, void *user,
                          struct copse_conform_outcome *out)
{
    const struct row *row = user; /* NULL: the settings, axes and shapes of all */
    struct stage s = { .g = NULL };
    copse_status status = open_stage(r->ctx, &s);
    if (!status && row) {
        check_operands(&s, row, out);
    } else if (!status) {
        check_settings(&s, out);
        check_axes(&s, out);
        status = check_shapes(&s, out);
    }
    copse_graph_release(&s.g);
    copse_graph_release(&s.other);
    return status;
}

void copse__args_ops(struct copse_conform_run *r)
{
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        struct row row = rows[i];
        copse__conform_one(r, &(struct copse_conform_case){ "args", row.op, "operands", "" }, check,
                           &row);
    }
    copse__conform_one(r, &(struct copse_conform_case){ "args", "ops", "settings and shapes", "" },
                       check, NULL);
}
