/* SPDX-License-Identifier: MIT */
/* Layer norm and RMS norm over the last axis: one kernel computes a row's statistics and the
   requested result. The gradient computes the statistics again, so that only operands stay
   alive. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"

/* Row limit: an invocation loops four times over every 64th element, and all rounds of its loops
   count. */
#define MOST_COLS (1u << 19)

/* The results computed from u = (x - mean) / sqrt(variance + epsilon):
   kernels/norm/layer_norm.cl. */
enum { FORWARD, GRADIENT, SCALE_GRADIENT };

struct layer_norm {
    int32_t op, is_centered; /* 0: RMS norm */
    uint32_t rows, cols;
    float epsilon;
    const copse_tensor *x, *a, *b, *y; /* scale and offset; scale and dy; dy twice */
};

struct layer_norm_attr {
    float epsilon;
    int32_t is_centered;
};

static uint32_t cols_of(copse_shape s)
{
    return s.dims[s.rank - 1];
}

static uint32_t rows_of(copse_shape s)
{
    uint32_t rows = 1;
    for (uint32_t i = 0; i + 1 < s.rank; i++)
        rows *= s.dims[i];
    return rows;
}

/* ---- launches ---- */

static copse_status lower_shared(struct copse_lowering *l, const void *work)
{
    const struct layer_norm *w = work;
    const struct copse_params_layer_norm p = { w->rows, w->cols, w->epsilon };
    const int32_t spec[COPSE_MAX_SPECS] = {
        w->op, w->is_centered, w->cols <= 3 * copse__group_size(l, COPSE_KERNEL_layer_norm)
    };
    return COPSE_LAUNCH(l, layer_norm, spec, p, w->cols > 0 ? w->rows : 0, copse__of(w->x),
                        copse__of(w->a), copse__of(w->b), copse__of(w->y));
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { ENOUGH = 4096 }; /* elements per invocation for short rows */
    const struct layer_norm *w = work;
    const struct copse_params_layer_norm_wide p = {
        w->rows, w->cols, w->epsilon, COPSE_MAX(ENOUGH / COPSE_MAX(w->cols, 1u), 1u)
    };
    const int32_t spec[COPSE_MAX_SPECS] = { w->op, w->is_centered };
    return COPSE_LAUNCH(l, layer_norm_wide, spec, p,
                        w->cols > 0 ? (w->rows + p.each - 1) / p.each : 0, copse__of(w->x),
                        copse__of(w->a), copse__of(w->b), copse__of(w->y));
}

static bool fits_held(const struct copse_limits *limits, const void *work)
{
    const struct layer_norm *w = work;
    struct copse_held held;
    return copse__held_rows(limits, COPSE_KERNEL_layer_norm_held, w->rows, w->cols, &held);
}

static copse_status lower_held(struct copse_lowering *l, const void *work)
{
    const struct layer_norm *w = work;
    const struct copse_params_layer_norm_held p = { w->rows, w->cols, w->epsilon };
    struct copse_held held;
    copse__held_rows(copse__limits(l), COPSE_KERNEL_layer_norm_held, p.rows, p.cols, &held);
    const int32_t spec[COPSE_MAX_SPECS] = { w->op, w->is_centered, held.log_lanes, held.more,
                                            held.in_quads };
    return COPSE_LAUNCH(l, layer_norm_held, spec, p, held.groups, copse__of(w->x), copse__of(w->a),
                        copse__of(w->b), copse__of(w->y));
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "shared", COPSE_KERNEL_layer_norm, { 0, 1, 0, 1 }, .lower = lower_shared },
    { "wide", COPSE_KERNEL_layer_norm_wide, { 1, 0, 1, 2 }, .lower = lower_wide },
    { "held",
      COPSE_KERNEL_layer_norm_held,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = fits_held,
      .lower = lower_held },
};

static bool layer_norm_work_size(const void *work, struct copse_size *out)
{
    const struct layer_norm *w = work;
    out->kind = w->op != FORWARD;
    out->of[0] = w->cols;
    return w->rows > 0 && w->cols > 0;
}

static void layer_norm_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct layer_norm w = {
        .op = at->kind ? GRADIENT : FORWARD, .is_centered = 1, .rows = 256, .cols = at->of[0]
    };
    COPSE_JOB_WORK(j, w);
    j->in[0] = COPSE_SHAPE(w.rows, w.cols);
    j->in[1] = COPSE_SHAPE(w.cols);
    j->in[2] = w.op == FORWARD ? j->in[1] : j->in[0];
}

static const struct copse_op op_gradient;

static copse_tensor *layer_norm_build(copse_graph *g, const struct copse_tune_job *j,
                                      copse_tensor *const *in)
{
    const struct layer_norm_attr a = { 1.0f, 1 };
    return ((const struct layer_norm *)j->work)->op == FORWARD
               ? copse_layer_norm(g, in[0], in[1], in[2], a.epsilon)
               : COPSE_NODE(g, &op_gradient, &a, in[0], in[1], in[2]);
}

const struct copse_family copse_family_layer_norm = {
    .name = "layer_norm",
    COPSE_VARIANTS(variants),
    .slack = 1e-4f,
    .kinds = { "forward", "gradient" },
    .sizes = { { 32, 256, 2048 } },
    .size = layer_norm_work_size,
    .job = layer_norm_job,
    .operations = { 8, 16 },
    .build = layer_norm_build,
};

/* ---- the derivatives ---- */

static copse_status lower_as(struct copse_lowering *l, const copse_tensor *y, int32_t op,
                             const copse_tensor *a, const copse_tensor *b)
{
    const struct layer_norm_attr *attr = y->attr;
    const struct layer_norm w = {
        op, attr->is_centered, rows_of(y->shape), cols_of(y->shape), attr->epsilon, y->in[0], a, b,
        y
    };
    return copse__lower_variant(l, &copse_family_layer_norm, &w);
}

static copse_status infer_as_x(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status gradient_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, GRADIENT, y->in[1], y->in[2]);
}

static copse_status scale_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, SCALE_GRADIENT, y->in[1], y->in[1]);
}

/* The mean over the last axis, which is kept. */
static copse_tensor *mean_of_row(copse_graph *g, copse_tensor *x)
{
    const uint32_t last = x->shape.rank - 1;
    return copse__is_failed(x) ? x : copse_mean(g, x, &last, 1, true);
}

/* u = (x - mean) / sigma, and 1 / sigma, of other ops. */
static copse_tensor *compose_unit(copse_graph *g, const struct layer_norm_attr *a, copse_tensor *x,
                                  copse_tensor **inverse)
{
    copse_tensor *t;
    if (a->is_centered) {
        t = mean_of_row(g, x);
        x = copse_sub(g, x, t);
    }
    t = copse_square(g, x);
    t = mean_of_row(g, t);
    *inverse = copse_scalar(g, (double)a->epsilon);
    *inverse = copse_add(g, t, *inverse);
    *inverse = copse_rsqrt(g, *inverse);
    return copse_mul(g, x, *inverse);
}

/* dx = (s - mean of s - u mean of s u) / sigma with s = scale dy, of other ops, differentiated. */
static void gradient_second(copse_graph *g, const copse_tensor *y, copse_tensor *slope,
                            copse_tensor **out)
{
    const struct layer_norm_attr *a = y->attr;
    copse_tensor *u, *inverse, *s, *t, *dx;
    u = compose_unit(g, a, y->in[0], &inverse);
    s = copse_mul(g, y->in[2], y->in[1]);
    t = copse_mul(g, s, u);
    t = mean_of_row(g, t);
    t = copse_mul(g, u, t);
    dx = copse_sub(g, s, t);
    if (a->is_centered) {
        t = mean_of_row(g, s);
        dx = copse_sub(g, dx, t);
    }
    dx = copse_mul(g, dx, inverse);
    copse__partials(g, dx, slope, y->in, y->in_count, out);
}

static void scale_second(copse_graph *g, const copse_tensor *y, copse_tensor *slope,
                         copse_tensor **out)
{
    copse_tensor *inverse, *u = compose_unit(g, y->attr, y->in[0], &inverse);
    u = copse_mul(g, u, y->in[1]);
    copse__partials(g, u, slope, y->in, y->in_count, out);
}

/* dx of x, scale, dy. */
static const struct copse_op op_gradient = {
    .name = "layer_norm_gradient",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = infer_as_x,
    .gradient = gradient_second,
    .lower = gradient_lower,
};
/* u dy from x, dy: the derivative of the scale is its sum. */
static const struct copse_op op_scale_gradient = {
    .name = "layer_norm_scale_gradient",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = infer_as_x,
    .gradient = scale_second,
    .lower = scale_lower,
};

static copse_tensor *sum_rows(copse_graph *g, copse_tensor *x)
{
    if (copse__is_failed(x))
        return x;
    x = copse_reshape(g, x, COPSE_SHAPE(rows_of(x->shape), cols_of(x->shape)));
    return copse__column_sum(g, x);
}

/* ---- the op ---- */

static copse_status layer_norm_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    for (uint32_t i = 0; i < y->in_count; i++)
        if (y->in[i]->type != COPSE_F32)
            return copse__shape_error(y, "expected f32 operands");
    if (shape->rank < 1 || cols_of(*shape) > MOST_COLS)
        return copse__shape_error(y, "expected x with a last axis of at most %u elements",
                                  MOST_COLS);
    for (uint32_t i = 1; i < y->in_count; i++)
        if (y->in[i]->shape.rank != 1 || y->in[i]->shape.dims[0] != cols_of(*shape))
            return copse__shape_error(y, "expected a scale%s of %u elements, the last axis of x",
                                      y->in_count > 2 ? " and an offset" : "",
                                      (unsigned)cols_of(*shape));
    return COPSE_OK;
}

static void layer_norm_op_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                   copse_tensor **dx)
{
    copse_tensor *x = y->in[0], *scale = y->in[1], *t;
    if (x->needs_gradient)
        dx[0] = COPSE_NODE(g, &op_gradient, y->attr, x, scale, dy);
    if (scale->needs_gradient) {
        t = COPSE_NODE(g, &op_scale_gradient, y->attr, x, dy);
        dx[1] = sum_rows(g, t);
    }
    if (y->in_count > 2 && y->in[2]->needs_gradient)
        dx[2] = sum_rows(g, dy);
}

static copse_status layer_norm_lower(struct copse_lowering *l, const copse_tensor *y)
{
    return lower_as(l, y, FORWARD, y->in[1], y->in[y->in_count - 1]);
}

static const struct copse_op op_layer_norm = {
    .name = "layer_norm",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = layer_norm_infer,
    .gradient = layer_norm_op_gradient,
    .lower = layer_norm_lower,
};

static const struct copse_op op_rms_norm = {
    .name = "rms_norm",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = layer_norm_infer,
    .gradient = layer_norm_op_gradient,
    .lower = layer_norm_lower,
};

static copse_status check_epsilon(const char *op, float epsilon)
{
    if (!(epsilon >= FLT_MIN && isfinite(epsilon)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: epsilon %g is not a finite number of at least %g", op,
                          (double)epsilon, (double)FLT_MIN);
    return COPSE_OK;
}

copse_tensor *copse_layer_norm(copse_graph *g, copse_tensor *x, copse_tensor *scale,
                               copse_tensor *offset, float epsilon)
{
    const struct layer_norm_attr a = { epsilon, 1 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("layer_norm", g, x, scale, offset));
    COPSE_LATCH(g, check_epsilon("layer_norm", epsilon));
    return COPSE_NODE(g, &op_layer_norm, &a, x, scale, offset);
}

copse_tensor *copse_rms_norm(copse_graph *g, copse_tensor *x, copse_tensor *scale, float epsilon)
{
    const struct layer_norm_attr a = { epsilon, 0 };
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("rms_norm", g, x, scale));
    COPSE_LATCH(g, check_epsilon("rms_norm", epsilon));
    return COPSE_NODE(g, &op_rms_norm, &a, x, scale);
}

/* ---- reference ---- */

static double mean_of(const struct copse_host_arg *x, size_t base, size_t cols)
{
    double sum = 0;
    for (size_t k = 0; k < cols; k++)
        sum += copse__load(x, base + k);
    return sum / (double)cols;
}

static double inverse_of(const struct copse_host_arg *x, size_t base, size_t cols, double mean,
                         double epsilon)
{
    double squares = 0;
    for (size_t k = 0; k < cols; k++) {
        const double d = copse__load(x, base + k) - mean;
        squares += d * d;
    }
    return 1 / sqrt(squares / (double)cols + epsilon);
}

/* Of layer_norm_held, too, which has the same parameters. */
static void layer_norm_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm *p = params;
    const struct copse_host_arg *x = &args[0], *a = &args[1], *b = &args[2];
    const size_t cols = p->cols;
    for (size_t base = 0; base < p->rows * cols; base += cols) {
        const double mean = spec[1] ? mean_of(x, base, cols) : 0;
        const double inverse = inverse_of(x, base, cols, mean, (double)p->epsilon);
        double slopes = 0, along = 0;
        for (size_t k = 0; spec[0] == GRADIENT && k < cols; k++) {
            const double slope = copse__load(b, base + k) * copse__load(a, k);
            slopes += spec[1] ? slope : 0;
            along += slope * (copse__load(x, base + k) - mean) * inverse;
        }
        for (size_t k = 0; k < cols; k++) {
            const double u = (copse__load(x, base + k) - mean) * inverse;
            copse__store(
                &args[3], base + k,
                spec[0] == FORWARD    ? u * copse__load(a, k) + (spec[1] ? copse__load(b, k) : 0)
                : spec[0] == GRADIENT ? (copse__load(b, base + k) * copse__load(a, k) -
                                         slopes / (double)cols - u * along / (double)cols) *
                                            inverse
                                      : u * copse__load(b, base + k));
        }
    }
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_LINE

static void layer_norm_launch(const struct copse_kernel *k, uint32_t cols,
                              struct copse_self_test *t)
{
    t->counts[0] = t->counts[3] = R * cols;
    t->counts[1] = cols;
    t->counts[2] = k->spec[0] == FORWARD ? cols : R * cols;
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void layer_norm_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_layer_norm p = { R, C, 1.0f };
    memcpy(t->params, &p, sizeof p);
    t->groups = R;
    layer_norm_launch(k, C, t);
}

static void layer_norm_wide_host(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm_wide *p = params;
    const struct copse_params_layer_norm shared = { p->rows, p->cols, p->epsilon };
    layer_norm_host(&shared, spec, args);
}

static void layer_norm_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_layer_norm_wide p = { R, C, 1.0f, 2 };
    memcpy(t->params, &p, sizeof p);
    t->groups = 2;
    layer_norm_launch(k, C, t);
}

static void layer_norm_held_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_layer_norm_held p = { R, copse__held_test_cols(k->spec + 2), 1.0f };
    memcpy(t->params, &p, sizeof p);
    t->groups = copse__held_test_groups(k, k->spec[2]);
    layer_norm_launch(k, p.cols, t);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

struct norm {
    uint32_t rows, cols;
    double epsilon;
};

static double size_mean(const struct copse_host_arg *x, size_t base, size_t cols)
{
    double sum = 0;
    for (size_t k = 0; k < cols; k++)
        sum += copse__load(x, base + k);
    return sum / (double)cols;
}

/* The basis of the limits in docs/conformance.md: |scale| (|x| + |mean|) / sigma + |offset|, and
   likewise for the derivatives. */
static void size_row(const struct norm *p, const int32_t *spec, const struct copse_host_arg *args,
                     size_t base)
{
    const struct copse_host_arg *x = &args[0], *a = &args[1], *b = &args[2];
    const double mean = spec[1] ? size_mean(x, base, p->cols) : 0.0;
    double squares = 0, slopes = 0, along = 0;
    for (size_t k = 0; k < p->cols; k++)
        squares += pow(copse__load(x, base + k) - mean, 2);
    const double inverse = 1 / sqrt(squares / p->cols + p->epsilon);
    for (size_t k = 0; spec[0] == GRADIENT && k < p->cols; k++) {
        const double slope = fabs(copse__load(b, base + k) * copse__load(a, k));
        slopes += slope / p->cols;
        along += slope * (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse / p->cols;
    }
    for (size_t k = 0; k < p->cols; k++) {
        const double u = (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse + LEAST;
        copse__store(&args[3], base + k,
                     spec[0] == FORWARD
                         ? u * fabs(copse__load(a, k)) + (spec[1] ? fabs(copse__load(b, k)) : 0)
                     : spec[0] == GRADIENT ? (fabs(copse__load(b, base + k) * copse__load(a, k)) +
                                              slopes + u * along) *
                                                 inverse
                                           : u * fabs(copse__load(b, base + k)));
    }
}

static void layer_norm_size(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm *k = params;
    const struct norm p = { k->rows, k->cols, (double)k->epsilon };
    for (size_t row = 0; row < p.rows; row++)
        size_row(&p, spec, args, row * p.cols);
}

static void layer_norm_wide_size(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm_wide *k = params;
    const struct copse_params_layer_norm p = { k->rows, k->cols, k->epsilon };
    layer_norm_size(&p, spec, args);
}

/* ---- laws ---- */

static bool layer_norm_split(const struct copse_command *c, struct copse_split *o)
{
    const uint64_t cols = o->params[1];
    /* an offset of each column */
    return COPSE_SPLIT_EACH(o, 1, cols, 0, c->kernel->spec[0] == FORWARD ? 0 : cols, cols);
}

const struct copse_law copse_law_layer_norm = {
    .host = layer_norm_host,
    .split = layer_norm_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = layer_norm_size },
    .self_test = layer_norm_test,
};
const struct copse_law copse_law_layer_norm_wide = {
    .host = layer_norm_wide_host,
    .split = layer_norm_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = layer_norm_wide_size },
    .self_test = layer_norm_wide_test,
};
const struct copse_law copse_law_layer_norm_held = {
    .host = layer_norm_host,
    .split = layer_norm_split,
    .limit = { .ulp = 0.5, .ratio = 16, .size = layer_norm_size },
    .self_test = layer_norm_held_test,
};
