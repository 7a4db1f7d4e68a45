/* SPDX-License-Identifier: MIT */
/* Gated units: the op, and the kernel variants of it and of its derivatives with their launches.
   Gates and values are the two halves of each row of one tensor, or two tensors. */
#include <math.h>
#include <stdio.h>

#include "copse/ops/gated.h"
#include "core/graph/variant.h"
#include "core/ops/elementwise/unary.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

/* The rows of unary.def that are activations. */
enum {
#define UNARY(name, number, ...)  UNARY_##name = number,
#define SCALED(name, number, ...) UNARY_##name = number,
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    UNARY_none = -1
};

static const int32_t functions[] = {
    [COPSE_LINEAR] = UNARY_none, [COPSE_RELU] = UNARY_relu, [COPSE_SIGMOID] = UNARY_sigmoid,
    [COPSE_TANH] = UNARY_tanh,   [COPSE_GELU] = UNARY_gelu, [COPSE_SILU] = UNARY_silu,
};

struct glu_attr {
    int32_t function;
};

/* ---- launches ---- */

enum { FORWARD, GRADIENT };

struct launch {
    int32_t function;
    uint32_t rows, stride, first, to_stride, to_first;
    const copse_tensor *gate, *value, *dy, *to;
};

/* The input of the family: small, as jobs of mode tune have no tensors. */
struct glu {
    uint32_t kind, cols;
    const struct launch *of;
};

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct glu *a = work;
    const struct launch *w = a->of;
    const int32_t spec[COPSE_MAX_SPECS] = { w->function };
    const uint32_t n = w->rows * a->cols;
    if (a->kind == FORWARD) {
        struct copse_params_glu p = { n, a->cols, w->stride, w->first, 0, 0 };
        copse__divisor(p.cols, &p.m, &p.h);
        return COPSE_LAUNCH(l, glu, spec, p, copse__groups_for(l, COPSE_KERNEL_glu, n),
                            copse__of(w->gate), copse__of(w->value), copse__of(w->to));
    }
    struct copse_params_glu_grad p = { n,           a->cols, w->stride, w->first, w->to_stride,
                                       w->to_first, 0,       0 };
    copse__divisor(p.cols, &p.m, &p.h);
    return COPSE_LAUNCH(l, glu_grad, spec, p, copse__groups_for(l, COPSE_KERNEL_glu_grad, n),
                        copse__of(w->gate), copse__of(w->value), copse__of(w->dy),
                        copse__of(w->to));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { EACH = 2048 }; /* elements that an invocation computes */
    const struct glu *a = work;
    const struct launch *w = a->of;
    const int32_t spec[COPSE_MAX_SPECS] = { w->function };
    const uint32_t n = w->rows * a->cols, each = COPSE_MAX(EACH / a->cols, 1u);
    const uint64_t groups = ((uint64_t)w->rows + each - 1) / each;
    if (a->kind == FORWARD) {
        const struct copse_params_glu_wide p = { n, a->cols, w->stride, w->first, each };
        return COPSE_LAUNCH(l, glu_wide, spec, p, groups, copse__of(w->gate), copse__of(w->value),
                            copse__of(w->to));
    }
    const struct copse_params_glu_grad_wide p = { n,        a->cols,      w->stride,
                                                  w->first, w->to_stride, w->to_first,
                                                  each };
    return COPSE_LAUNCH(l, glu_grad_wide, spec, p, groups, copse__of(w->gate), copse__of(w->value),
                        copse__of(w->dy), copse__of(w->to));
}

static bool has_vectors(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct glu *)work)->cols >= 16;
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain",
      COPSE_KERNEL_glu,
      { 0, 1, 0, 0 },
      .lower = lower_plain,
      COPSE_NEEDS(COPSE_KERNEL_glu_grad) },
    { "wide",
      COPSE_KERNEL_glu_wide,
      { 1, 0, 1, 1 },
      .fits = has_vectors,
      .lower = lower_wide,
      COPSE_NEEDS(COPSE_KERNEL_glu_grad_wide) },
};

#define JOB_ELEMENTS 65536u

static bool glu_size(const void *work, struct copse_size *out)
{
    const struct glu *w = work;
    out->kind = w->kind != FORWARD;
    out->of[0] = w->cols; /* elements of a row */
    return w->cols > 0;
}

static void glu_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct glu w = { at->kind ? GRADIENT : FORWARD, at->of[0], NULL };
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "%u x %u, silu%s", (unsigned)(JOB_ELEMENTS / w.cols),
             (unsigned)w.cols, w.kind == FORWARD ? "" : ", gradient");
    j->in[0] = COPSE_SHAPE(JOB_ELEMENTS / w.cols, 2 * w.cols);
    if (w.kind == GRADIENT)
        j->in[1] = COPSE_SHAPE(JOB_ELEMENTS / w.cols, w.cols);
}

static const struct copse_op op_grad;

static copse_tensor *glu_build(copse_graph *g, const struct copse_tune_job *j,
                               copse_tensor *const *in)
{
    const struct glu_attr a = { UNARY_silu };
    if (((const struct glu *)j->work)->kind == FORWARD)
        return copse_glu(g, in[0], NULL, COPSE_SILU);
    return COPSE_NODE(g, &op_grad, &a, in[1], in[0]);
}

const struct copse_family copse_family_glu = {
    .name = "glu",
    COPSE_VARIANTS(variants),
    .slack = 1e-4f,
    .kinds = { "forward", "gradient" },
    .sizes = { { 64, 1024 } },
    .size = glu_size,
    .job = glu_job,
    .operations = { 10, 20 },
    .build = glu_build,
};

/* ---- the derivatives: of dy, and gate and value; of both in one tensor ---- */

static uint32_t glu_columns(copse_shape s)
{
    return s.rank > 0 ? s.dims[s.rank - 1] : 1;
}

/* Of dy or y with `shape`, and the operands. */
static struct launch launch_of(const struct glu_attr *a, copse_shape shape,
                               copse_tensor *const *operands, bool is_packed)
{
    const uint32_t cols = glu_columns(shape), n = (uint32_t)copse__elements(shape);
    struct launch w = { .function = a->function,
                        .rows = cols > 0 ? n / cols : 0,
                        .gate = operands[0],
                        .value = operands[is_packed ? 0 : 1] };
    w.stride = w.to_stride = is_packed ? 2 * cols : cols;
    w.first = is_packed ? cols : 0;
    w.to_first = is_packed ? cols : n;
    return w;
}

static copse_status grad_infer(const copse_tensor *dx, copse_shape *shape, copse_type *type)
{
    *shape = dx->in_count == 2 ? dx->in[1]->shape
                               : COPSE_SHAPE(2, (uint32_t)copse__elements(dx->in[0]->shape));
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *dx)
{
    const copse_shape shape = dx->in[0]->shape;
    struct launch w = launch_of(dx->attr, shape, dx->in + 1, dx->in_count == 2);
    w.dy = dx->in[0];
    w.to = dx;
    return w.rows == 0 ? COPSE_OK
                       : copse__lower_variant(l, &copse_family_glu,
                                              &(struct glu){ GRADIENT, glu_columns(shape), &w });
}

/* f(gate) or dy f'(gate). */
static copse_tensor *apply_function(copse_graph *g, int32_t function, copse_tensor *gate,
                                    copse_tensor *dy)
{
    const struct copse_unary_attr f = { function, 0.0f, 0.0f };
    if (function == UNARY_none)
        return dy ? dy : gate;
    if (dy)
        return copse__unary_grad(g, &f, gate, dy);
    switch (function) {
    case UNARY_relu:
        return copse_relu(g, gate);
    case UNARY_sigmoid:
        return copse_sigmoid(g, gate);
    case UNARY_tanh:
        return copse_tanh(g, gate);
    case UNARY_gelu:
        return copse_gelu(g, gate);
    default:
        return copse_silu(g, gate);
    }
}

/* dy value f'(gate) and dy f(gate), of other ops, differentiated. */
static void glu_second(copse_graph *g, const copse_tensor *dx, copse_tensor *slope,
                       copse_tensor **out)
{
    const int32_t function = ((const struct glu_attr *)dx->attr)->function;
    const bool is_packed = dx->in_count == 2;
    const copse_shape shape = dx->in[0]->shape;
    const uint32_t cols = glu_columns(shape), n = (uint32_t)copse__elements(shape);
    copse_tensor *dy = dx->in[0], *halves[2], *t;
    if (is_packed)
        copse_split(g, dx->in[1], shape.rank - 1, (const uint32_t[]){ cols, cols }, 2, halves);
    else
        memcpy(halves, dx->in + 1, sizeof halves);
    t = apply_function(g, function, halves[0], NULL);
    t = copse_mul(g, t, dy);
    halves[1] = copse_mul(g, halves[1], dy);
    halves[0] = apply_function(g, function, halves[0], halves[1]);
    halves[1] = t;
    if (!is_packed)
        for (uint32_t i = 0; i < 2; i++)
            halves[i] = copse_reshape(g, halves[i], COPSE_SHAPE(1, n));
    t = copse_concat(g, halves, 2, is_packed ? shape.rank - 1 : 0);
    copse__partials(g, t, slope, dx->in, dx->in_count, out);
}

static const struct copse_op op_grad = {
    .name = "glu_grad",
    .attr_size = sizeof(struct glu_attr),
    .infer = grad_infer,
    .gradient = glu_second,
    .lower = grad_lower,
};

static void glu_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    if (y->in_count == 1) {
        dx[0] = COPSE_NODE(g, &op_grad, y->attr, dy, y->in[0]);
        return;
    }
    const uint32_t count = (uint32_t)copse__elements(y->shape);
    copse_tensor *both = COPSE_NODE(g, &op_grad, y->attr, dy, y->in[0], y->in[1]);
    for (uint32_t i = 0; i < 2; i++)
        if (y->in[i]->needs_gradient) {
            dx[i] = copse_slice(g, both, COPSE_SHAPE(i, 0).dims, COPSE_SHAPE(1, count).dims);
            dx[i] = copse_reshape(g, dx[i], y->shape);
        }
}

/* ---- the op ---- */

static copse_status glu_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const bool is_packed = y->in_count == 1;
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    if (is_packed && (y->in[0]->type != COPSE_F32 || shape->rank == 0 || glu_columns(*shape) % 2))
        return copse__shape_error(y, "expected f32 gates and values [.., 2 n]");
    if (!is_packed && (y->in[0]->type != COPSE_F32 || y->in[1]->type != COPSE_F32 ||
                       !copse__shape_equal(y->in[1]->shape, *shape)))
        return copse__shape_error(y, "expected f32 gates and values of one shape");
    if (is_packed)
        shape->dims[shape->rank - 1] /= 2;
    return COPSE_OK;
}

static copse_status glu_lower(struct copse_lowering *l, const copse_tensor *y)
{
    struct launch w = launch_of(y->attr, y->shape, y->in, y->in_count == 1);
    w.to = y;
    return w.rows == 0 ? COPSE_OK
                       : copse__lower_variant(l, &copse_family_glu,
                                              &(struct glu){ FORWARD, glu_columns(y->shape), &w });
}

static const struct copse_op op_glu = {
    .name = "glu",
    .attr_size = sizeof(struct glu_attr),
    .infer = glu_infer,
    .gradient = glu_gradient,
    .lower = glu_lower,
};

copse_tensor *copse_glu(copse_graph *g, copse_tensor *gate, copse_tensor *value,
                        copse_activation activation)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("glu", g, gate));
    if (value)
        COPSE_LATCH(g, COPSE_CHECK_OPERANDS("glu", g, value));
    if ((int)activation < 0 || (size_t)activation >= COPSE_COUNT(functions))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "glu: %d is no activation", (int)activation);
    const struct glu_attr a = { functions[activation] };
    return value ? COPSE_NODE(g, &op_glu, &a, gate, value) : COPSE_NODE(g, &op_glu, &a, gate);
}

/* ---- reference ---- */

/* of the specification: the magnitudes of the terms of dy value f'(gate), for limits */
#define ADDS_MAGNITUDES 5

/* The kernels for wide vectors have the same first parameters. */
static double glu_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                     size_t i)
{
    const struct copse_params_glu *p = params;
    const size_t at = i / p->cols * p->stride + i % p->cols;
    return copse__unary_value(spec[0], copse__load(&args[0], at)) *
           copse__load(&args[1], p->first + at);
}

static double glu_grad_at(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_glu_grad *p = params;
    /* gates and values of a row side by side; else all gates, then all values */
    const bool is_packed = p->to_stride != p->cols;
    const size_t pair = is_packed ? p->to_stride : 2 * (size_t)p->n, of_pair = place % pair;
    const bool is_value = of_pair >= p->to_first;
    const size_t i =
        (is_packed ? place / pair * p->cols : 0) + of_pair - (is_value ? p->to_first : 0);
    const size_t at = i / p->cols * p->stride + i % p->cols;
    const double x = copse__load(&args[0], at), dy = copse__load(&args[2], i);
    if (is_value)
        return spec[ADDS_MAGNITUDES] ? 0 : dy * copse__unary_value(spec[0], x);
    const double slope = dy * copse__load(&args[1], p->first + at);
    return spec[ADDS_MAGNITUDES] ? fabs(slope) * copse__slope_size(spec[0], x)
                                 : copse__unary_slope(spec[0], x, slope);
}

static void glu_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_glu *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i, glu_at(params, spec, args, i));
}

static void glu_grad_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_glu_grad *p = params;
    for (size_t i = 0; i < 2 * (size_t)p->n; i++)
        copse__store(&args[3], i, glu_grad_at(params, spec, args, i));
}

/* ---- self-tests: rows of gates and values ---- */

enum { ROWS = 5, COLS = 19 };

static void glu_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_glu p = { ROWS * COLS, COLS, 2 * COLS, COLS, 0, 0 };
    copse__divisor(COLS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 2 * p.n, 2 * p.n, p.n);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void glu_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_glu_grad p = { ROWS * COLS, COLS, 2 * COLS, COLS, 2 * COLS, COLS, 0, 0 };
    copse__divisor(COLS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), 2 * p.n, 2 * p.n, p.n, 2 * p.n);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* The kernels for wide vectors have the same first parameters. */
static void glu_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_glu_wide p = { ROWS * COLS, COLS, 2 * COLS, COLS, 2 };
    (void)k;
    COPSE_SELF_TEST(t, p, 3, 2 * p.n, 2 * p.n, p.n);
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void glu_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_glu_grad_wide p = { ROWS * COLS, COLS, 2 * COLS, COLS,
                                                  2 * COLS,    COLS, 2 };
    (void)k;
    COPSE_SELF_TEST(t, p, 3, 2 * p.n, 2 * p.n, p.n, 2 * p.n);
    t->slack = COPSE_SELF_TEST_SLACK;
}

/* ---- laws ---- */

static struct copse_elements glu_grad_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_glu_grad *p = params;
    (void)spec;
    return (struct copse_elements){ 2 * (uint64_t)p->n, 1 };
}

static struct copse_elements glu_grad_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_glu_grad_wide *p = params;
    (void)spec;
    return (struct copse_elements){ 2 * (uint64_t)p->n, 1 };
}

/* With the last constant the host function adds the magnitudes of its terms. */
static void glu_grad_magnitudes(int32_t *spec)
{
    spec[5] = 1;
}

/* The function of the gate and a product. */
static void glu_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    struct copse_unary_ulps of;
    (void)params;
    if (copse__unary_ulps(spec[0], &of))
        limit->ulp += of.ulp;
}

/* The function, or its derivative, and two products. */
static void glu_grad_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    struct copse_unary_ulps of;
    (void)params;
    if (copse__unary_ulps(spec[0], &of))
        limit->ulp += COPSE_MAX(of.ulp, of.ulp_grad);
    limit->ratio = copse__slope_ratio(spec[0]);
}

const struct copse_law copse_law_glu = {
    .host = glu_host,
    .at = glu_at,
    .limit = { .ulp = 1 },
    .limit_of = glu_limit,
    .self_test = glu_test,
};
const struct copse_law copse_law_glu_wide = {
    .host = glu_host,
    .at = glu_at,
    .limit = { .ulp = 1 },
    .limit_of = glu_limit,
    .self_test = glu_wide_test,
};
const struct copse_law copse_law_glu_grad = {
    .host = glu_grad_host,
    .at = glu_grad_at,
    .elements = glu_grad_elements,
    .limit = { .ulp = 2 },
    .limit_of = glu_grad_limit,
    .magnitudes = glu_grad_magnitudes,
    .has_signs = true,
    .self_test = glu_grad_test,
};
const struct copse_law copse_law_glu_grad_wide = {
    .host = glu_grad_host,
    .at = glu_grad_at,
    .elements = glu_grad_wide_elements,
    .limit = { .ulp = 2 },
    .limit_of = glu_grad_limit,
    .magnitudes = glu_grad_magnitudes,
    .has_signs = true,
    .self_test = glu_grad_wide_test,
};
