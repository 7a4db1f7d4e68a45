/* SPDX-License-Identifier: MIT */
/* Layer norm and RMS norm over the last axis: one kernel computes a row's statistics and the
   requested result. The gradient computes the statistics again, so that only operands stay
   alive. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/launch_split.h"
#include "core/graph/variant.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/ops.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"
#include "core/ops/softmax/row_held.h"

/* Row limit: an invocation loops four times over every 64th element, and all rounds of its loops
   count. */
#define MOST_COLS (1u << 19)

/* The results computed from u = (x - mean) / sqrt(variance + epsilon):
   kernels/norm/layer_norm.cl. */
enum { FORWARD, GRADIENT, SCALE_GRADIENT, BOTH };

struct layer_norm {
    int32_t op, is_centered; /* 0: RMS norm */
    uint32_t rows, cols;
    float epsilon;
    const copse_tensor *x, *a, *b, *y; /* scale and offset; scale and dy; dy twice */
    const copse_tensor *r; /* what is added to x, or to the derivative of x [NULL: nothing] */
    const copse_tensor *z; /* gets x + r, or u dy of BOTH [NULL: there is none] */
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

/* x, a, b, r, y and z: an absent r is bound as x, an absent z as a word that nothing writes. */
enum { ARGS = 6 };

static copse_status norm_operands(struct copse_lowering *l, const struct layer_norm *w,
                                  struct copse_operand args[ARGS])
{
    args[0] = copse__of(w->x);
    args[1] = copse__of(w->a);
    args[2] = copse__of(w->b);
    args[3] = copse__of(w->r ? w->r : w->x);
    args[4] = copse__of(w->y);
    if (!w->z)
        return copse__scratch(l, 1, &args[5]);
    args[5] = copse__of(w->z);
    return COPSE_OK;
}

static copse_status lower_shared(struct copse_lowering *l, const void *work)
{
    const struct layer_norm *w = work;
    const struct copse_params_layer_norm p = { w->rows, w->cols, w->epsilon };
    const int32_t spec[COPSE_MAX_SPECS] = { w->op, w->is_centered, w->r != NULL,
                                            w->cols <=
                                                3 * copse__group_size(l, COPSE_KERNEL_layer_norm) };
    struct copse_operand args[ARGS];
    COPSE_TRY(norm_operands(l, w, args));
    return copse__launch(l, COPSE_KERNEL_layer_norm, spec, &p, w->cols > 0 ? w->rows : 0, args,
                         ARGS);
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { ENOUGH = 4096 }; /* elements per invocation for short rows */
    const struct layer_norm *w = work;
    const struct copse_params_layer_norm_wide p = {
        w->rows, w->cols, w->epsilon, COPSE_MAX(ENOUGH / COPSE_MAX(w->cols, 1u), 1u)
    };
    const int32_t spec[COPSE_MAX_SPECS] = { w->op, w->is_centered, w->r != NULL };
    struct copse_operand args[ARGS];
    COPSE_TRY(norm_operands(l, w, args));
    return copse__launch(l, COPSE_KERNEL_layer_norm_wide, spec, &p,
                         w->cols > 0 ? (w->rows + p.each - 1) / p.each : 0, args, ARGS);
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
    const int32_t spec[COPSE_MAX_SPECS] = { w->op,          w->is_centered, w->r != NULL,
                                            held.log_lanes, held.more,      held.in_quads };
    struct copse_operand args[ARGS];
    COPSE_TRY(norm_operands(l, w, args));
    return copse__launch(l, COPSE_KERNEL_layer_norm_held, spec, &p, held.groups, args, ARGS);
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

static struct layer_norm work_of(const copse_tensor *y, int32_t op, const copse_tensor *a,
                                 const copse_tensor *b)
{
    const struct layer_norm_attr *attr = y->attr;
    return (struct layer_norm){ op,
                                attr->is_centered,
                                rows_of(y->shape),
                                cols_of(y->shape),
                                attr->epsilon,
                                y->in[0],
                                a,
                                b,
                                y,
                                NULL,
                                NULL };
}

static copse_status lower_as(struct copse_lowering *l, const copse_tensor *y, int32_t op,
                             const copse_tensor *a, const copse_tensor *b)
{
    const struct layer_norm w = work_of(y, op, a, b);
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

/* ---- the derivatives in one launch ---- */

enum { OF_X, OF_SCALE, SUM }; /* the places of the nodes in a fusion */

static const struct copse_op op_scale_gradient;

/* The derivative of the scale, with the same x and dy; NULL: none. */
static const copse_tensor *find_scale_gradient(struct copse_lowering *l, const copse_tensor *dx)
{
    const copse_tensor *x = dx->in[0], *dy = dx->in[2], *t;
    for (uint32_t i = 0; (t = copse__reader(l, dy, i)) != NULL; i++)
        if (t->op == &op_scale_gradient && t->in[0] == x && t->in[1] == dy &&
            memcmp(t->attr, dx->attr, sizeof(struct layer_norm_attr)) == 0)
            return t;
    return NULL;
}

/* The derivative of x, which only its addition to another one reads, and the derivative of the scale:
   all of them, or two. */
static bool gradient_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                          struct copse_fused *out)
{
    enum { HAS_SCALE = 1, HAS_SUM = 2 };
    static const uint32_t choices[] = { HAS_SCALE | HAS_SUM, HAS_SCALE, HAS_SUM };
    if (turn >= COPSE_COUNT(choices))
        return false;
    const copse_tensor *sum = choices[turn] & HAS_SUM ? copse__reader(l, y, 0) : NULL;
    out->at[OF_SCALE] = choices[turn] & HAS_SCALE ? find_scale_gradient(l, y) : NULL;
    if (sum && copse__is_sum_of_two(sum)) {
        out->at[SUM] = sum;
        out->inside[SUM] = sum->in[0] == y ? 1 : 2;
        out->is_inner[OF_X] = true;
    }
    return true;
}

static copse_status lower_gradients(struct copse_lowering *l, const struct copse_fused *f)
{
    const copse_tensor *dx = f->at[OF_X], *sum = f->at[SUM];
    struct layer_norm w = work_of(dx, f->at[OF_SCALE] ? BOTH : GRADIENT, dx->in[1], dx->in[2]);
    w.z = f->at[OF_SCALE];
    if (sum) {
        w.r = sum->in[sum->in[0] == dx];
        w.y = sum;
    }
    return copse__lower_variant(l, &copse_family_layer_norm, &w);
}

/* dx of x, scale, dy. */
static const struct copse_op op_gradient = {
    .name = "layer_norm_gradient",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = infer_as_x,
    .gradient = gradient_second,
    .lower = gradient_lower,
    .fuse = gradient_fuse,
    .lower_fused = lower_gradients,
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

/* The norm of a sum, and the sum. */
enum { NORM, NORM_SUM };

static bool norm_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                      struct copse_fused *out)
{
    (void)l;
    out->at[NORM_SUM] = y->in[0];
    out->inside[NORM] = 1;
    return turn == 0 && copse__is_sum_of_two(y->in[0]);
}

static copse_status lower_norm_of_sum(struct copse_lowering *l, const struct copse_fused *f)
{
    const copse_tensor *y = f->at[NORM], *sum = f->at[NORM_SUM];
    struct layer_norm w = work_of(y, FORWARD, y->in[1], y->in[y->in_count - 1]);
    w.x = sum->in[0];
    w.r = sum->in[1];
    w.z = sum;
    return copse__lower_variant(l, &copse_family_layer_norm, &w);
}

static const struct copse_op op_layer_norm = {
    .name = "layer_norm",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = layer_norm_infer,
    .gradient = layer_norm_op_gradient,
    .lower = layer_norm_lower,
    .fuse = norm_fuse,
    .lower_fused = lower_norm_of_sum,
};

static const struct copse_op op_rms_norm = {
    .name = "rms_norm",
    .attr_size = sizeof(struct layer_norm_attr),
    .infer = layer_norm_infer,
    .gradient = layer_norm_op_gradient,
    .lower = layer_norm_lower,
    .fuse = norm_fuse,
    .lower_fused = lower_norm_of_sum,
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

/* A launch: what it computes, and with which terms. */
struct norm {
    uint32_t rows, cols;
    double epsilon;
    int32_t op;
    bool is_centered, adds;
    bool has_sum;    /* the rows are x + r */
    bool has_slopes; /* the derivative of x */
};

static struct norm norm_of(const void *params, const int32_t *spec)
{
    const struct copse_params_layer_norm *p = params;
    return (struct norm){
        .rows = p->rows,
        .cols = p->cols,
        .epsilon = (double)p->epsilon,
        .op = spec[0],
        .is_centered = spec[1] != 0,
        .adds = spec[2] != 0,
        .has_sum = spec[0] == FORWARD && spec[2],
        .has_slopes = spec[0] == GRADIENT || spec[0] == BOTH,
    };
}

static void host_row(const struct norm *p, const struct copse_host_arg *args, size_t base)
{
    const struct copse_host_arg *x = p->has_sum ? &args[5] : &args[0], *a = &args[1], *b = &args[2];
    const size_t cols = p->cols;
    for (size_t k = base; p->has_sum && k < base + cols; k++) /* as a float, where x is one */
        copse__store(&args[5], k, copse__load(&args[0], k) + copse__load(&args[3], k));
    const double mean = p->is_centered ? mean_of(x, base, cols) : 0;
    const double inverse = inverse_of(x, base, cols, mean, p->epsilon);
    if (p->op == FORWARD) {
        for (size_t k = 0; k < cols; k++)
            copse__store(&args[4], base + k,
                         (copse__load(x, base + k) - mean) * inverse * copse__load(a, k) +
                             (p->is_centered ? copse__load(b, k) : 0));
        return;
    }
    double slopes = 0, along = 0;
    for (size_t k = 0; p->has_slopes && k < cols; k++) {
        const double slope = copse__load(b, base + k) * copse__load(a, k);
        slopes += p->is_centered ? slope : 0;
        along += slope * (copse__load(x, base + k) - mean) * inverse;
    }
    for (size_t k = 0; k < cols; k++) {
        const double u = (copse__load(x, base + k) - mean) * inverse;
        double y = u * copse__load(b, base + k);
        if (p->op == BOTH)
            copse__store(&args[5], base + k, y);
        if (p->has_slopes)
            y = (copse__load(b, base + k) * copse__load(a, k) - slopes / (double)cols -
                 u * along / (double)cols) *
                inverse;
        copse__store(&args[4], base + k, y);
        if (p->adds) /* rounded before, as if stored */
            copse__store(&args[4], base + k,
                         copse__load(&args[4], base + k) + copse__load(&args[3], base + k));
    }
}

/* Of layer_norm_held, too, which has the same parameters. */
static void layer_norm_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct norm p = norm_of(params, spec);
    for (size_t row = 0; row < p.rows; row++)
        host_row(&p, args, row * p.cols);
}

/* ---- self-tests ---- */

#define R COPSE_TEST_ROWS
#define C COPSE_TEST_LINE

static void layer_norm_launch(const struct copse_kernel *k, uint32_t cols,
                              struct copse_self_test *t)
{
    const bool has_z = k->spec[0] == BOTH || (k->spec[0] == FORWARD && k->spec[2]);
    t->counts[0] = t->counts[3] = t->counts[4] = R * cols;
    t->counts[1] = cols;
    t->counts[2] = k->spec[0] == FORWARD ? cols : R * cols;
    t->counts[5] = has_z ? R * cols : 1;
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
    const struct copse_params_layer_norm_held p = { R, copse__held_test_cols(k->spec + 3), 1.0f };
    memcpy(t->params, &p, sizeof p);
    t->groups = copse__held_test_groups(k, k->spec[3]);
    layer_norm_launch(k, p.cols, t);
}

/* ---- bases of tolerances ---- */

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

/* The basis of the limits in docs/conformance.md: |scale| (|x| + |mean|) / sigma + |offset|, and
   likewise for the derivatives. A sum has the magnitude of what is added. */
static void size_row(const struct norm *p, const struct copse_host_arg *args, size_t base)
{
    const struct copse_host_arg *x = p->has_sum ? &args[5] : &args[0], *a = &args[1], *b = &args[2];
    for (size_t k = base; p->has_sum && k < base + p->cols; k++)
        copse__store(&args[5], k, copse__load(&args[0], k) + copse__load(&args[3], k));
    const double mean = p->is_centered ? mean_of(x, base, p->cols) : 0.0;
    double squares = 0, slopes = 0, along = 0;
    for (size_t k = 0; k < p->cols; k++)
        squares += pow(copse__load(x, base + k) - mean, 2);
    const double inverse = 1 / sqrt(squares / p->cols + p->epsilon);
    for (size_t k = 0; p->has_slopes && k < p->cols; k++) {
        const double slope = fabs(copse__load(b, base + k) * copse__load(a, k));
        slopes += slope / p->cols;
        along += slope * (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse / p->cols;
    }
    for (size_t k = 0; k < p->cols; k++) {
        const double u = (fabs(copse__load(x, base + k)) + fabs(mean)) * inverse + LEAST;
        double size = u * fabs(copse__load(b, p->op == FORWARD ? k : base + k));
        if (p->op == BOTH)
            copse__store(&args[5], base + k, size);
        if (p->has_sum) /* one rounding: the limit has it */
            copse__store(&args[5], base + k, 0);
        if (p->op == FORWARD)
            size = u * fabs(copse__load(a, k)) + (p->is_centered ? fabs(copse__load(b, k)) : 0);
        if (p->has_slopes)
            size =
                (fabs(copse__load(b, base + k) * copse__load(a, k)) + slopes + u * along) * inverse;
        if (p->adds && p->op != FORWARD)
            size += fabs(copse__load(&args[3], base + k));
        copse__store(&args[4], base + k, size);
    }
}

static void layer_norm_size(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct norm p = norm_of(params, spec);
    for (size_t row = 0; row < p.rows; row++)
        size_row(&p, args, row * p.cols);
}

static void layer_norm_wide_size(const void *params, const int32_t *spec,
                                 const struct copse_host_arg *args)
{
    const struct copse_params_layer_norm_wide *k = params;
    const struct copse_params_layer_norm p = { k->rows, k->cols, k->epsilon };
    layer_norm_size(&p, spec, args);
}

/* ---- laws ---- */

/* An offset of each column; z where the launch has one. */
static bool layer_norm_split(const struct copse_command *c, struct copse_split *o)
{
    const int32_t *spec = c->kernel->spec;
    const uint64_t cols = o->params[1], of_b = spec[0] == FORWARD ? 0 : cols,
                   of_z = spec[0] == BOTH || (spec[0] == FORWARD && spec[2]) ? cols : 0;
    return COPSE_SPLIT_EACH(o, 1, cols, 0, of_b, cols, cols, of_z);
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
