/* SPDX-License-Identifier: MIT */
/* Recurrent layers, made of a product of all inputs, the loop over time, and what cuts its states
   into results. */
#include "copse/ops/recurrent.h"
#include "copse/matmul.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/recurrent/recurrent_variants.h"

struct layer {
    const char *name;
    enum copse_recurrent_kind kind;
    copse_tensor *x, *w, *r;
    struct copse_recurrent_params params;
    uint32_t batch, time, units;
};

/* ---- checks ---- */

static copse_status check_weights(struct layer *a)
{
    const copse_shape x = a->x->shape, w = a->w->shape, r = a->r->shape;
    const uint32_t gates = copse__recurrent_gates(a->kind);
    if (!copse__type_is_smooth(a->x->type) || !copse__type_is_smooth(a->w->type) ||
        !copse__type_is_smooth(a->r->type) || x.rank != 3 || w.rank != 2 || r.rank != 2 ||
        w.dims[0] != x.dims[2] || r.dims[1] != (uint64_t)gates * r.dims[0] ||
        w.dims[1] != r.dims[1])
        return copse_fail(
            COPSE_ERR_SHAPE,
            "%s: operands %s%s, %s%s and %s%s: expected f32 x [batch, time, features], "
            "w [features, %u units] and r [units, %u units]",
            a->name, copse_type_name(a->x->type), COPSE_SHAPE_TEXT(x), copse_type_name(a->w->type),
            COPSE_SHAPE_TEXT(w), copse_type_name(a->r->type), COPSE_SHAPE_TEXT(r), (unsigned)gates,
            (unsigned)gates);
    a->batch = x.dims[0];
    a->time = x.dims[1];
    a->units = r.dims[0];
    if (a->time > COPSE_MOST_STEPS)
        return copse_fail(COPSE_ERR_SHAPE, "%s: %u steps: at most %u", a->name, (unsigned)a->time,
                          COPSE_MOST_STEPS);
    return COPSE_OK;
}

static copse_status check_one(const struct layer *a, const copse_tensor *x, const char *what,
                              copse_type type, copse_shape shape)
{
    if (!x || (x->type == type && copse__shape_equal(x->shape, shape)))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE, "%s: %s %s%s: expected %s%s", a->name, what,
                      copse_type_name(x->type), COPSE_SHAPE_TEXT(x->shape), copse_type_name(type),
                      COPSE_SHAPE_TEXT(shape));
}

static copse_status check_params(copse_graph *g, struct layer *a)
{
    struct copse_recurrent_params *p = &a->params;
    const copse_shape bias = COPSE_SHAPE(copse__recurrent_gates(a->kind) * a->units),
                      state = COPSE_SHAPE(a->batch, a->units);
    copse_tensor **const smooth[] = { &p->bias, &p->recurrent_bias, &p->hidden, &p->cell };
    for (size_t i = 0; i < COPSE_COUNT(smooth); i++)
        if (*smooth[i])
            COPSE_TRY(COPSE_COMPUTE_IN_F32(g, smooth[i]));
    if (p->cell && a->kind != COPSE_RECURRENT_LSTM)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: has no cell; an LSTM has one", a->name);
    COPSE_TRY(check_one(a, p->bias, "bias", COPSE_F32, bias));
    COPSE_TRY(check_one(a, p->recurrent_bias, "recurrent bias", COPSE_F32, bias));
    COPSE_TRY(check_one(a, p->hidden, "hidden state", COPSE_F32, state));
    COPSE_TRY(check_one(a, p->cell, "cell", COPSE_F32, state));
    return check_one(a, p->lengths, "lengths", COPSE_I32, COPSE_SHAPE(a->batch));
}

/* ---- the parts ---- */

/* 1 where a sequence has a step, else 0: [batch, time, 1]. */
static copse_tensor *mask_of(copse_graph *g, const struct layer *a)
{
    int32_t *numbers = copse__alloc(&g->ctx->base.mem, COPSE_MAX(a->time, 1u), sizeof *numbers);
    COPSE_LATCH(g, copse_need_memory(numbers, "%s", a->name));
    for (uint32_t i = 0; i < a->time; i++)
        numbers[i] = (int32_t)i;
    copse_tensor *steps = copse_constant(g, COPSE_I32, COPSE_SHAPE(1, a->time, 1), numbers);
    copse__free(&g->ctx->base.mem, numbers);
    copse_tensor *ends = copse_reshape(g, a->params.lengths, COPSE_SHAPE(a->batch, 1, 1));
    return copse_less(g, steps, ends);
}

/* x where the mask is, else 0. */
static copse_tensor *recurrent_masked(copse_graph *g, copse_tensor *mask, copse_tensor *x)
{
    if (!mask)
        return x;
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    copse_tensor *zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    return copse_where(g, mask, x, zero);
}

/* [states, batch, units]: what the parameters have, or zeros. */
static copse_tensor *first_state(copse_graph *g, const struct layer *a)
{
    copse_tensor *parts[2] = { a->params.hidden, a->params.cell };
    const uint32_t states = copse__recurrent_states(a->kind);
    const copse_shape shape = COPSE_SHAPE(states, a->batch, a->units);
    if (!parts[0] && !parts[1])
        return copse_fill(g, COPSE_F32, shape, 0);
    for (uint32_t i = 0; i < states; i++)
        if (!parts[i])
            parts[i] = copse_fill(g, COPSE_F32, COPSE_SHAPE(a->batch, a->units), 0);
    return states == 1 ? copse_reshape(g, parts[0], shape) : copse_stack(g, parts, states, 0);
}

/* The other of two orders of the axes: sequences first, or steps first. */
static copse_tensor *recurrent_turn(copse_graph *g, copse_tensor *x)
{
    static const uint32_t order[] = { 1, 0, 2 };
    const copse_shape s = x->shape;
    return s.dims[0] == 1 || s.dims[1] == 1
               ? copse_reshape(g, x, COPSE_SHAPE(s.dims[1], s.dims[0], s.dims[2]))
               : copse_transpose(g, x, order);
}

/* Vector `i` of the states from step `from` on, as [count, batch, units]. */
static copse_tensor *states_of(copse_graph *g, const struct layer *a, copse_tensor *states,
                               uint32_t i, uint32_t from, uint32_t count)
{
    copse_tensor *part = copse_slice(g, states, COPSE_SHAPE(from, i, 0, 0).dims,
                                     COPSE_SHAPE(count, 1, a->batch, a->units).dims);
    return copse_reshape(g, part, COPSE_SHAPE(count, a->batch, a->units));
}

static copse_tensor *end_state(copse_graph *g, const struct layer *a, copse_tensor *states,
                               uint32_t i)
{
    copse_tensor *end = states_of(g, a, states, i, a->time, 1);
    return copse_reshape(g, end, COPSE_SHAPE(a->batch, a->units));
}

static copse_tensor *recurrent_add(copse_graph *g, struct layer *a, copse_tensor **last,
                                   copse_tensor **cell)
{
    copse_tensor *mask = a->params.lengths ? mask_of(g, a) : NULL;
    a->x = recurrent_masked(g, mask, a->x);
    a->x = recurrent_turn(g, a->x);
    copse_tensor *t = copse_dense(g, a->x, a->w, a->params.bias, COPSE_LINEAR);
    copse_tensor *first = first_state(g, a);
    copse_tensor *states = copse__recurrent_steps(g, a->kind, t, a->r, first,
                                                  a->params.recurrent_bias, a->params.lengths);
    if (last)
        *last = end_state(g, a, states, 0);
    if (cell)
        *cell = end_state(g, a, states, 1);
    t = states_of(g, a, states, 0, 1, a->time);
    t = recurrent_turn(g, t);
    return recurrent_masked(g, mask, t);
}

/* ---- the layers ---- */

static copse_tensor *add_checked(copse_graph *g, struct layer *a,
                                 const struct copse_recurrent_params *params, copse_tensor **last,
                                 copse_tensor **cell)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(a->name, g, a->x, a->w, a->r));
    COPSE_LATCH(g, copse_no_reserved(copse_recurrent_params, params));
    if (params)
        a->params = *params;
    COPSE_LATCH(g, check_weights(a));
    COPSE_LATCH(g, check_params(g, a));
    return copse__noted(g, recurrent_add(g, a, last, cell), "while adding %s", a->name);
}

static copse_tensor *add_layer(copse_graph *g, const char *name, enum copse_recurrent_kind kind,
                               copse_tensor *x, copse_tensor *w, copse_tensor *r,
                               const struct copse_recurrent_params *params, copse_tensor **last,
                               copse_tensor **cell)
{
    struct layer a = { .name = name, .kind = kind, .x = x, .w = w, .r = r };
    copse_tensor *y = add_checked(g, &a, params, last, cell);
    if (last && copse__is_failed(y))
        *last = y;
    if (cell && copse__is_failed(y))
        *cell = y;
    return y;
}

copse_tensor *copse_gru(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                        const struct copse_recurrent_params *params, copse_tensor **last)
{
    return add_layer(g, "gru", COPSE_RECURRENT_GRU, x, w, r, params, last, NULL);
}

copse_tensor *copse_lstm(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                         const struct copse_recurrent_params *params, copse_tensor **last,
                         copse_tensor **cell)
{
    return add_layer(g, "lstm", COPSE_RECURRENT_LSTM, x, w, r, params, last, cell);
}

copse_tensor *copse_rnn(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                        const struct copse_recurrent_params *params, copse_tensor **last)
{
    return add_layer(g, "rnn", COPSE_RECURRENT_TANH, x, w, r, params, last, NULL);
}
