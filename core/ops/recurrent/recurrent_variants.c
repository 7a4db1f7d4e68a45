/* SPDX-License-Identifier: MIT */
/* The loop over time of recurrent layers: for each step a product of the hidden state and one
   launch for the gates. The derivative computes the products of all steps again, in one product,
   and goes back through the steps; the derivatives of the weights are one product of all steps.
   Operands of launches are windows of a step, so that no launch reads the other steps.
   The family `recurrent` chooses the kernels of the launches for the gates. Its tuning job builds
   the op, and the op launches the family, so both are in this file. */
#include <stdio.h>

#include "core/graph/variant.h"
#include "core/ops/ops.h"
#include "core/ops/product/product.h"
#include "core/ops/recurrent/recurrent_variants.h"
#include "core/ops/reduce/column_sum.h"

struct steps_attr {
    int32_t kind;
    bool has_bias, has_lengths;
};

/* Operands of the node; the bias and the lengths follow them. */
enum { PRODUCTS, WEIGHTS, FIRST, OTHERS };
/* Of the node of the derivatives; the lengths follow them. */
enum { GRAD_PRODUCTS, GRAD_RECURRENT, GRAD_STATES, GRAD_SLOPE, GRAD_TURNED, GRAD_LENGTHS };

struct sizes {
    uint32_t time, batch, units, gates, states;
    uint32_t n, row; /* units of all sequences; gates of them */
};

static struct sizes sizes_of(copse_shape products, int32_t kind)
{
    struct sizes s = { .time = products.dims[0],
                       .batch = products.dims[1],
                       .gates = copse__recurrent_gates(kind),
                       .states = copse__recurrent_states(kind) };
    s.units = products.dims[2] / s.gates;
    s.n = s.batch * s.units;
    s.row = s.n * s.gates;
    return s;
}

/* `count` words of x from `first` on, as a range that begins at a multiple of COPSE_UNIT; *at is
   the first one's place in it. */
static struct copse_operand recurrent_steps_window(const copse_tensor *x, uint32_t first,
                                                   uint32_t count, uint32_t *at)
{
    struct copse_operand o = copse__of(x);
    *at = first % COPSE_UNIT;
    o.first = first - *at;
    o.count = *at + (uint64_t)count;
    return o;
}

/* The lengths of sequences, or words that no kernel reads. */
static copse_status lengths_of(struct copse_lowering *l, const copse_tensor *lengths,
                               struct copse_operand *out)
{
    if (!lengths)
        return copse__scratch(l, 1, out);
    *out = copse__of(lengths);
    return COPSE_OK;
}

/* ---- launches ---- */

/* One launch of a step: the pointwise part, or its derivatives. The kernels have parameters of the
   same names. */
struct launch {
    int32_t kind;
    bool is_packed, is_on;
    uint32_t n, width, step, is_first, from_first, before, after, slope_first, passed, to_first;
    struct copse_operand args[8]; /* of recurrent, or of recurrent_grad */
};

/* The input of the family: small, as jobs of mode tune have no launches. */
struct recurrent {
    uint32_t units;
    bool is_gradient;
    const struct launch *of;
};

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    const struct recurrent *a = work;
    const struct launch *w = a->of;
    const struct copse_operand *x = w->args;
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, w->is_packed, a->is_gradient && w->is_on };
    if (!a->is_gradient) {
        struct copse_params_recurrent p = { w->n,      w->width, w->step, w->from_first,
                                            w->before, w->after, 0,       0 };
        copse__divisor(p.width, &p.m, &p.h);
        return COPSE_LAUNCH(l, recurrent, spec, p,
                            copse__groups_for(l, COPSE_KERNEL_recurrent, p.n), x[0], x[1], x[2],
                            x[3], x[4]);
    }
    struct copse_params_recurrent_grad p = {
        w->n,      w->width,       w->step,   w->is_first, w->from_first,
        w->before, w->slope_first, w->passed, w->to_first, 0,
        0
    };
    copse__divisor(p.width, &p.m, &p.h);
    return COPSE_LAUNCH(l, recurrent_grad, spec, p,
                        copse__groups_for(l, COPSE_KERNEL_recurrent_grad, p.n), x[0], x[1], x[2],
                        x[3], x[4], x[5], x[6], x[7]);
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    enum { EACH = 1024 }; /* units that an invocation computes */
    const struct recurrent *a = work;
    const struct launch *w = a->of;
    const struct copse_operand *x = w->args;
    const int32_t spec[COPSE_MAX_SPECS] = { w->kind, w->is_packed, a->is_gradient && w->is_on };
    const uint32_t rows = w->n / w->width, each = COPSE_MAX(EACH / w->width, 1u);
    const uint64_t groups = ((uint64_t)rows + each - 1) / each;
    if (!a->is_gradient) {
        const struct copse_params_recurrent_wide p = { w->n,      w->width, w->step, w->from_first,
                                                       w->before, w->after, each };
        return COPSE_LAUNCH(l, recurrent_wide, spec, p, groups, x[0], x[1], x[2], x[3], x[4]);
    }
    const struct copse_params_recurrent_grad_wide p = {
        w->n,      w->width,       w->step,   w->is_first, w->from_first,
        w->before, w->slope_first, w->passed, w->to_first, each
    };
    return COPSE_LAUNCH(l, recurrent_grad_wide, spec, p, groups, x[0], x[1], x[2], x[3], x[4], x[5],
                        x[6], x[7]);
}

static bool has_vectors(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return ((const struct recurrent *)work)->units >= 16;
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain",
      COPSE_KERNEL_recurrent,
      { 0, 1, 0, 0 },
      .lower = lower_plain,
      COPSE_NEEDS(COPSE_KERNEL_recurrent_grad) },
    { "wide",
      COPSE_KERNEL_recurrent_wide,
      { 1, 0, 1, 1 },
      .fits = has_vectors,
      .lower = lower_wide,
      COPSE_NEEDS(COPSE_KERNEL_recurrent_grad_wide) },
};

static bool recurrent_size(const void *work, struct copse_size *out)
{
    out->of[0] = ((const struct recurrent *)work)->units;
    return out->of[0] > 0;
}

/* The steps of an LSTM, and their derivatives. */
static void recurrent_job(const struct copse_size *at, struct copse_tune_job *j)
{
    enum { BATCH = 16, TIME = 8 };
    const struct recurrent w = { .units = at->of[0] };
    const uint32_t gates = copse__recurrent_gates(COPSE_RECURRENT_LSTM) * w.units;
    COPSE_JOB_WORK(j, w);
    snprintf(j->name, sizeof j->name, "lstm of %u units, %d x %d, with derivatives",
             (unsigned)w.units, BATCH, TIME);
    j->operations = 6.0 * BATCH * TIME * w.units * gates;
    j->in[0] = COPSE_SHAPE(TIME, BATCH, gates);
    j->in[1] = COPSE_SHAPE(w.units, gates);
    j->in[2] = COPSE_SHAPE(2, BATCH, w.units);
}

static copse_tensor *recurrent_build(copse_graph *g, const struct copse_tune_job *j,
                                     copse_tensor *const *in)
{
    copse_tensor *const x[] = { in[0] };
    copse_tensor *dx[1];
    (void)j;
    copse_tensor *y =
        copse__recurrent_steps(g, COPSE_RECURRENT_LSTM, in[0], in[1], in[2], NULL, NULL);
    if (copse__is_failed(y))
        return y;
    copse_gradients(g, y, y, x, 1, dx);
    return dx[0];
}

const struct copse_family copse_family_recurrent = {
    .name = "recurrent",
    COPSE_VARIANTS(variants),
    .slack = 1e-4f,
    .sizes = { { 32, 256 } },
    .size = recurrent_size,
    .job = recurrent_job,
    .build = recurrent_build,
};

static copse_status lower_launch(struct copse_lowering *l, bool is_gradient,
                                 const struct launch *of)
{
    return copse__lower_variant(l, &copse_family_recurrent,
                                &(struct recurrent){ of->width, is_gradient, of });
}

/* ---- forward ---- */

struct forward {
    const copse_tensor *y;
    struct sizes size;
    struct copse_product product;
    struct copse_operand lengths, recurrent, now;
};

static copse_status recurrent_steps_step(struct copse_lowering *l, struct forward *f, uint32_t t)
{
    const struct steps_attr *a = f->y->attr;
    const struct sizes *s = &f->size;
    struct launch x = {
        .kind = a->kind, .is_packed = a->has_lengths, .n = s->n, .width = s->units, .step = t
    };
    f->product.a = t ? f->now : copse__of(f->y->in[FIRST]);
    COPSE_TRY(copse__lower_product(l, &f->product));
    x.args[0] = recurrent_steps_window(f->y->in[PRODUCTS], t * s->row, s->row, &x.from_first);
    x.args[1] = f->recurrent;
    x.args[2] = f->lengths;
    x.args[3] = recurrent_steps_window(f->y, t * s->states * s->n, 2 * s->states * s->n, &x.before);
    x.args[4] = f->now;
    x.after = x.before + s->states * s->n;
    return lower_launch(l, false, &x);
}

static copse_status recurrent_steps_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct steps_attr *a = y->attr;
    struct forward f = { .y = y, .size = sizes_of(y->in[PRODUCTS]->shape, a->kind) };
    copse_status status = COPSE_OK;
    if (f.size.n == 0)
        return COPSE_OK;
    COPSE_TRY(lengths_of(l, a->has_lengths ? y->in[y->in_count - 1] : NULL, &f.lengths));
    COPSE_TRY(copse__scratch(l, f.size.row, &f.recurrent));
    COPSE_TRY(copse__scratch(l, f.size.n, &f.now));
    f.product = (struct copse_product){ .a = f.now,
                                        .b = copse__of(y->in[WEIGHTS]),
                                        .bias = a->has_bias ? y->in[OTHERS] : NULL,
                                        .c = f.recurrent,
                                        .batch = 1,
                                        .m = f.size.batch,
                                        .n = f.size.gates * f.size.units,
                                        .k = f.size.units };
    if (f.size.time > 1)
        COPSE_TRY(copse__product_share(l, &f.product));
    COPSE_TRY(copse__launch_copy(l, copse__of(y->in[FIRST]), copse__of(y),
                                 (uint64_t)f.size.states * f.size.n));
    for (uint32_t t = 0; t < f.size.time && status == COPSE_OK; t++) {
        copse__scratch_round(l);
        status = recurrent_steps_step(l, &f, t);
    }
    copse__scratch_rounds_end(l);
    return status;
}

static copse_status recurrent_steps_infer(const copse_tensor *y, copse_shape *shape,
                                          copse_type *type)
{
    const struct sizes s =
        sizes_of(y->in[PRODUCTS]->shape, ((const struct steps_attr *)y->attr)->kind);
    *shape = COPSE_SHAPE(s.time + 1, s.states, s.batch, s.units);
    *type = COPSE_F32;
    return COPSE_OK;
}

/* ---- the derivatives, in one tensor: those of the gates of all steps, then that of the first
   state ---- */

/* Rows of a gate's derivatives: a GRU has those of both parts of n. */
static uint32_t slopes_of(const struct sizes *s, int32_t kind)
{
    return s->gates + (kind == COPSE_RECURRENT_GRU);
}

/* Words of the products passed back: what follows them begins at a multiple of COPSE_UNIT. */
static uint32_t room_of(uint32_t words)
{
    return (words + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT;
}

static copse_status grad_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const int32_t kind = ((const struct steps_attr *)y->attr)->kind;
    const struct sizes s = sizes_of(y->in[GRAD_PRODUCTS]->shape, kind);
    const uint64_t words = (uint64_t)s.states * s.n + (uint64_t)s.time * s.n * slopes_of(&s, kind);
    *type = COPSE_F32;
    *shape = COPSE_SHAPE((uint32_t)words);
    return words <= INT32_MAX
               ? COPSE_OK
               : copse__shape_error(y, "the derivatives have more than 2^31-1 elements");
}

struct backward {
    const copse_tensor *y;
    struct sizes size;
    struct copse_product product;
    struct copse_operand lengths, carry, now;
};

/* The derivatives of step t; or, after the last of them, what step 0 passes to the first state. */
static copse_status step_back(struct copse_lowering *l, const struct backward *b, uint32_t t,
                              bool is_on, bool is_first)
{
    const struct steps_attr *a = b->y->attr;
    const struct sizes *s = &b->size;
    const uint32_t states = s->states * s->n, slopes = s->n * slopes_of(s, a->kind);
    struct launch x = {
        .kind = a->kind,
        .is_packed = a->has_lengths,
        .is_on = is_on,
        .n = s->n,
        .width = s->units,
        .step = t,
        .is_first = is_first,
        .passed = room_of(s->n),
        .args = { [2] = b->lengths, [5] = b->carry, [7] = b->now },
    };
    uint32_t same;
    x.args[0] = recurrent_steps_window(b->y->in[GRAD_PRODUCTS], t * s->row, s->row, &x.from_first);
    x.args[1] = recurrent_steps_window(b->y->in[GRAD_RECURRENT], t * s->row, s->row, &same);
    x.args[3] = recurrent_steps_window(b->y->in[GRAD_STATES], t * states, states, &x.before);
    x.args[4] =
        recurrent_steps_window(b->y->in[GRAD_SLOPE], (t + is_on) * states, states, &x.slope_first);
    x.args[6] = is_on ? recurrent_steps_window(b->y, t * slopes, slopes, &x.to_first)
                      : recurrent_steps_window(b->y, s->time * slopes, states, &x.to_first);
    COPSE_TRY(lower_launch(l, true, &x));
    return is_on ? copse__lower_product(l, &b->product) : COPSE_OK;
}

static copse_status grad_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct steps_attr *a = y->attr;
    struct backward b = { .y = y, .size = sizes_of(y->in[GRAD_PRODUCTS]->shape, a->kind) };
    const struct sizes *s = &b.size;
    const uint32_t states = s->states * s->n;
    copse_status status = COPSE_OK;
    if (s->time == 0)
        return copse__launch_copy(l, copse__of(y->in[GRAD_SLOPE]), copse__of(y), states);
    if (s->n == 0)
        return COPSE_OK;
    COPSE_TRY(lengths_of(l, a->has_lengths ? y->in[GRAD_LENGTHS] : NULL, &b.lengths));
    COPSE_TRY(copse__scratch(l, room_of(s->n) + states, &b.carry));
    COPSE_TRY(copse__scratch(l, s->row, &b.now));
    b.product = (struct copse_product){ .a = b.now,
                                        .b = copse__of(y->in[GRAD_TURNED]),
                                        .c = b.carry,
                                        .batch = 1,
                                        .m = s->batch,
                                        .n = s->units,
                                        .k = s->gates * s->units };
    if (s->time > 1)
        COPSE_TRY(copse__product_share(l, &b.product));
    for (uint32_t t = s->time; t-- > 0 && status == COPSE_OK;) {
        copse__scratch_round(l);
        status = step_back(l, &b, t, true, t + 1 == s->time);
    }
    copse__scratch_rounds_end(l);
    COPSE_TRY(status);
    return step_back(l, &b, 0, false, false);
}

static const struct copse_op op_grad = {
    .name = "recurrent_grad",
    .advice = "write the steps of a layer that is differentiated twice with copse_dense and "
              "copse_mul",
    .attr_size = sizeof(struct steps_attr),
    .infer = grad_infer,
    .lower = grad_lower,
};

/* ---- the derivative ---- */

static copse_tensor *recurrent_steps_part(copse_graph *g, copse_tensor *x, copse_shape start,
                                          copse_shape size, copse_shape shape)
{
    return copse_reshape(g, copse_slice(g, x, start.dims, size.dims), shape);
}

/* The derivatives of the products of the input, and those of the hidden state; rows are steps and
   sequences. */
static copse_tensor *gate_slopes(copse_graph *g, copse_tensor *all, const struct sizes *s,
                                 int32_t kind, copse_tensor **of_hidden)
{
    const uint32_t rows = s->time * s->batch, width = s->units * slopes_of(s, kind),
                   two = 2 * s->units;
    copse_tensor *gates, *of_input, *parts[2];
    gates = recurrent_steps_part(g, all, COPSE_SHAPE(0), COPSE_SHAPE(rows * width),
                                 COPSE_SHAPE(rows, width));
    *of_hidden = gates;
    if (kind != COPSE_RECURRENT_GRU)
        return gates;
    of_input = copse_slice(g, gates, COPSE_SHAPE(0, 0).dims, COPSE_SHAPE(rows, 3 * s->units).dims);
    parts[0] = copse_slice(g, gates, COPSE_SHAPE(0, 0).dims, COPSE_SHAPE(rows, two).dims);
    parts[1] =
        copse_slice(g, gates, COPSE_SHAPE(0, 3 * s->units).dims, COPSE_SHAPE(rows, s->units).dims);
    *of_hidden = copse_concat(g, parts, 2, 1);
    return of_input;
}

static void add_derivatives(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                            copse_tensor **dx)
{
    const struct steps_attr *a = y->attr;
    const struct sizes s = sizes_of(y->in[PRODUCTS]->shape, a->kind);
    const uint32_t rows = s.time * s.batch, order[] = { 1, 0 };
    copse_tensor *states = g->nodes.at[y->id], *bias = a->has_bias ? y->in[OTHERS] : NULL, *before,
                 *again, *turned, *all, *of_input, *of_hidden;
    before =
        recurrent_steps_part(g, states, COPSE_SHAPE(0, 0, 0, 0),
                             COPSE_SHAPE(s.time, 1, s.batch, s.units), COPSE_SHAPE(rows, s.units));
    again = copse_dense(g, before, y->in[WEIGHTS], bias, COPSE_LINEAR);
    turned = copse_transpose(g, y->in[WEIGHTS], order);
    copse_tensor *const in[] = { y->in[PRODUCTS], again,
                                 states,          dy,
                                 turned,          a->has_lengths ? y->in[y->in_count - 1] : NULL };
    all = copse__node(g, &op_grad, a, in, GRAD_LENGTHS + a->has_lengths);
    of_input = gate_slopes(g, all, &s, a->kind, &of_hidden);
    dx[PRODUCTS] = copse_reshape(g, of_input, y->in[PRODUCTS]->shape);
    if (y->in[WEIGHTS]->needs_gradient)
        dx[WEIGHTS] = copse_matmul(g, before, of_hidden, true, false);
    if (y->in[FIRST]->needs_gradient)
        dx[FIRST] = recurrent_steps_part(g, all, COPSE_SHAPE(s.time * s.n * slopes_of(&s, a->kind)),
                                         COPSE_SHAPE(s.states * s.n), y->in[FIRST]->shape);
    if (bias && bias->needs_gradient)
        dx[OTHERS] = copse__column_sum(g, of_hidden);
}

/* In f32, as the products of the steps. */
static void recurrent_steps_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                                     copse_tensor **dx)
{
    const copse_type precision = g->precision;
    g->precision = COPSE_F32;
    add_derivatives(g, y, dy, dx);
    g->precision = precision;
}

static const struct copse_op op_steps = {
    .name = "recurrent",
    .attr_size = sizeof(struct steps_attr),
    .infer = recurrent_steps_infer,
    .gradient = recurrent_steps_gradient,
    .lower = recurrent_steps_lower,
};

copse_tensor *copse__recurrent_steps(copse_graph *g, enum copse_recurrent_kind kind,
                                     copse_tensor *products, copse_tensor *weights,
                                     copse_tensor *first, copse_tensor *bias, copse_tensor *lengths)
{
    const struct steps_attr a = { (int32_t)kind, bias != NULL, lengths != NULL };
    copse_tensor *in[OTHERS + 2] = { products, weights, first };
    uint32_t count = OTHERS;
    if (bias)
        in[count++] = bias;
    if (lengths)
        in[count++] = lengths;
    return copse__node(g, &op_steps, &a, in, count);
}
