/* SPDX-License-Identifier: MIT */
/* Cases of recurrent layers. in[0] is x; in[1] has the rows of w, of the bias and of the recurrent
   bias; in[2] is r, in[3] the first state. The result has every hidden state of a sequence, then
   its last state. */
#include "copse/ops/recurrent.h"
#include "core/ops/recurrent/recurrent_variants.h"
#include "prover/cases/cases.h"

#define NO_LENGTHS \
    {              \
        -1         \
    }

struct settings {
    int32_t kind;
    bool is_plain;      /* without biases and first state */
    int32_t lengths[4]; /* the first one -1: none */
};

typedef copse_tensor *layer_fn(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                               const struct copse_recurrent_params *params, copse_tensor **last);

/* The rows of in[1]. */
static copse_tensor *weights_of(copse_graph *g, copse_tensor *rows,
                                struct copse_recurrent_params *p)
{
    const uint32_t count = rows->shape.dims[0], columns = rows->shape.dims[1],
                   sizes[] = { count - 2, 1, 1 };
    copse_tensor *part[3];
    copse_split(g, rows, 0, sizes, 3, part);
    p->bias = copse_reshape(g, part[1], COPSE_SHAPE(columns));
    p->recurrent_bias = copse_reshape(g, part[2], COPSE_SHAPE(columns));
    return part[0];
}

static void state_of(copse_graph *g, copse_tensor *state, struct copse_recurrent_params *p)
{
    const uint32_t batch = state->shape.dims[1], units = state->shape.dims[2];
    copse_tensor *part[2] = { NULL, NULL };
    copse_split(g, state, 0, NULL, state->shape.dims[0], part);
    p->hidden = copse_reshape(g, part[0], COPSE_SHAPE(batch, units));
    if (part[1])
        p->cell = copse_reshape(g, part[1], COPSE_SHAPE(batch, units));
}

static copse_tensor *recurrent_layer(copse_graph *g, int32_t kind, copse_tensor *x, copse_tensor *w,
                                     copse_tensor *r, const struct copse_recurrent_params *p,
                                     copse_tensor **last, copse_tensor **cell)
{
    if (kind == COPSE_RECURRENT_LSTM)
        return copse_lstm(g, x, w, r, p, last, cell);
    return kind == COPSE_RECURRENT_GRU ? copse_gru(g, x, w, r, p, last)
                                       : copse_rnn(g, x, w, r, p, last);
}

static copse_tensor *recurrent_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    struct copse_recurrent_params p = { .bias = NULL };
    copse_tensor *w = in[1], *part[3];
    const bool has_state = s->is_plain || in[3];
    if (!g || !in[0] || !in[1] || !in[2] || !has_state) /* mode args */
        return recurrent_layer(g, s->kind, in[0], in[1], has_state ? in[2] : NULL, &p, &part[1],
                               &part[2]);
    const uint32_t batch = in[0]->shape.dims[0];
    if (!s->is_plain) {
        w = weights_of(g, in[1], &p);
        state_of(g, in[3], &p);
    }
    if (s->lengths[0] >= 0)
        p.lengths = copse_constant(g, COPSE_I32, COPSE_SHAPE(batch), s->lengths);
    part[0] = recurrent_layer(g, s->kind, in[0], w, in[2], &p, &part[1], &part[2]);
    if (copse__is_failed(part[0]))
        return part[0];
    const uint32_t count = 1 + copse__recurrent_states(s->kind), units = part[0]->shape.dims[2];
    for (uint32_t i = 1; i < count; i++)
        part[i] = copse_reshape(g, part[i], COPSE_SHAPE(batch, 1, units));
    return copse_concat(g, part, count, 1);
}

/* ---- the ops ---- */

static const struct settings rnn = { COPSE_RECURRENT_TANH, .lengths = NO_LENGTHS },
                             lstm = { COPSE_RECURRENT_LSTM, .lengths = NO_LENGTHS },
                             gru = { COPSE_RECURRENT_GRU, .lengths = NO_LENGTHS },
                             plain_rnn = { COPSE_RECURRENT_TANH, true, NO_LENGTHS },
                             plain_lstm = { COPSE_RECURRENT_LSTM, true, NO_LENGTHS },
                             plain_gru = { COPSE_RECURRENT_GRU, true, NO_LENGTHS },
                             packed_rnn = { COPSE_RECURRENT_TANH, .lengths = { 2, 0, 3 } },
                             packed_lstm = { COPSE_RECURRENT_LSTM, .lengths = { 2, 0, 3 } },
                             packed_gru = { COPSE_RECURRENT_GRU, .lengths = { 2, 0, 3 } },
                             beyond_gru = { COPSE_RECURRENT_GRU, .lengths = { 900, 1, 2 } };

/* Rows of in[0] through a layer of their width, with weights of one size. */
static copse_tensor *random_layer(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const int32_t kind = ((const struct settings *)user)->kind;
    const copse_shape s = in[0]->shape;
    const uint32_t width = s.dims[s.rank - 1], columns = copse__recurrent_gates(kind) * width;
    copse_tensor *x = copse_tanh(g, in[0]);
    x = copse_reshape(g, x, s.rank == 3 ? s : COPSE_SHAPE(1, s.dims[0], s.dims[1]));
    copse_tensor *w = copse_fill(g, COPSE_F32, COPSE_SHAPE(width, columns), 0.25);
    copse_tensor *r = copse_fill(g, COPSE_F32, COPSE_SHAPE(width, columns), -0.125);
    return copse_reshape(g, recurrent_layer(g, kind, x, w, r, NULL, NULL, NULL), s);
}

#define OP(label, settings, gates)                                                            \
    {                                                                                         \
        .name = label, .accuracy = COPSE_ACCURACY_recurrent, .divides = true,                 \
        .call = recurrent_build, .user = settings,                                            \
        .in = { F32_OF(2, 3, 2), F32_OF(2, gates * 2), F32_OF(2, gates * 2) }, .in_count = 3, \
        .random = random_layer                                                                \
    }

static const struct copse_case_op ops[] = {
    OP("rnn", &plain_rnn, 1),
    OP("lstm", &plain_lstm, 4),
    OP("gru", &plain_gru, 3),
};

#define SPEED(label, settings, gates)                                                       \
    {                                                                                       \
        .op = label, .name = "16 x 128 x 128", .build = recurrent_build, .user = settings,  \
        .in = { F32_OF(16, 128, 128), F32_OF(128, gates * 128), F32_OF(128, gates * 128) }, \
        .in_count = 3, .flops = 2.0 * 2 * 16 * 128 * 128 * 128 * gates                      \
    }

static const struct copse_case speeds[] = {
    SPEED("gru", &plain_gru, 3),
    SPEED("lstm", &plain_lstm, 4),
};

static void recurrent_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 4));
    copse_tensor *flat = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 4));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 4));
    copse_tensor *w = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 9));
    copse_tensor *w4 = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 12));
    copse_tensor *u = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 9));
    copse_tensor *u4 = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 12));
    copse_tensor *state = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 3));
    copse_tensor *lengths = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3));
    copse_tensor *real = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 16385, 4));
    const struct copse_recurrent_params with_cell = { .cell = state }, wide = { .bias = w },
                                        narrow = { .recurrent_bias = real },
                                        other = { .hidden = flat }, three = { .lengths = lengths },
                                        halves = { .lengths = real },
                                        foreign = { .hidden = r->other };
    REFUSES(r, SHAPE,
            "gru: operands f32[2, 4], f32[4, 9] and f32[3, 9]: expected f32 x [batch, time, "
            "features], w [features, 3 units] and r [units, 3 units]",
            copse_gru(g, flat, w, u, NULL, NULL));
    REFUSES(r, SHAPE, "gru: operands i32[2, 5, 4]", copse_gru(g, n, w, u, NULL, NULL));
    REFUSES(r, SHAPE, "expected f32 x", copse_gru(g, x, u, u, NULL, NULL));
    REFUSES(r, SHAPE, "expected f32 x", copse_gru(g, x, w4, u4, NULL, NULL));
    REFUSES(r, SHAPE, "expected f32 x", copse_gru(g, x, w4, u, NULL, NULL));
    REFUSES(r, SHAPE, "expected f32 x", copse_gru(g, x, w, state, NULL, NULL));
    REFUSES(r, SHAPE,
            "lstm: operands f32[2, 5, 4], f32[4, 9] and f32[3, 9]: expected f32 x [batch, time, "
            "features], w [features, 4 units]",
            copse_lstm(g, x, w, u, NULL, NULL, NULL));
    REFUSES(r, SHAPE, "rnn: operands f32[2, 5, 4], f32[4, 9] and f32[3, 9]",
            copse_rnn(g, x, w, u, NULL, NULL));
    REFUSES(r, SHAPE, "gru: 16385 steps: at most 16384", copse_gru(g, far, w, u, NULL, NULL));
    REFUSES(r, ARGUMENT, "gru: has no cell; an LSTM has one",
            copse_gru(g, x, w, u, &with_cell, NULL));
    REFUSES(r, SHAPE, "gru: bias f32[4, 9]: expected f32[9]", copse_gru(g, x, w, u, &wide, NULL));
    REFUSES(r, SHAPE, "gru: recurrent bias f32[2]: expected f32[9]",
            copse_gru(g, x, w, u, &narrow, NULL));
    REFUSES(r, SHAPE, "lstm: hidden state f32[2, 4]: expected f32[2, 3]",
            copse_lstm(g, x, w4, u4, &other, NULL, NULL));
    REFUSES(r, SHAPE, "gru: lengths i32[3]: expected i32[2]", copse_gru(g, x, w, u, &three, NULL));
    REFUSES(r, SHAPE, "gru: lengths f32[2]: expected i32[2]", copse_gru(g, x, w, u, &halves, NULL));
    REFUSES(r, SHAPE, "gru: hidden state f32[2, 2]", copse_gru(g, x, w, u, &foreign, NULL));
    REFUSES(r, ARGUMENT, "gru: operand 2 is NULL", copse_gru(g, x, w, NULL, NULL, NULL));
}

/* ---- the cases ---- */

#define LIMITS .forward = { .of_max = 2e-6 }, .backward = { .of_max = 4e-6 }
#define FORCED .family = "recurrent" /* what has steps of a sequence looks for a variant */
#define CASE(op_, label, settings, states, gates, batch, time, features, units, ...) \
    {                                                                                \
        .op = op_, .name = label, .build = recurrent_build, .user = settings,        \
        FOUR_INPUTS(FILL(NORMAL, DIMS(batch, time, features)),                       \
                    UNIFORM(-0.7, 0.7, DIMS(features + 2, gates * units)),           \
                    UNIFORM(-0.7, 0.7, DIMS(units, gates * units)),                  \
                    UNIFORM(-1, 1, DIMS(states, batch, units))),                     \
        LIMITS, __VA_ARGS__                                                          \
    }
#define GRU(label, settings, ...)  CASE("gru", label, settings, 1, 3, __VA_ARGS__, FORCED)
#define LSTM(label, settings, ...) CASE("lstm", label, settings, 2, 4, __VA_ARGS__, FORCED)
#define RNN(label, settings, ...)  CASE("rnn", label, settings, 1, 1, __VA_ARGS__, FORCED)
#define PLAIN(op_, label, settings, gates, batch, time, features, units, ...) \
    {                                                                         \
        .op = op_, .name = label, .build = recurrent_build, .user = settings, \
        THREE_INPUTS(FILL(NORMAL, DIMS(batch, time, features)),               \
                     UNIFORM(-0.7, 0.7, DIMS(features, gates * units)),       \
                     UNIFORM(-0.7, 0.7, DIMS(units, gates * units))),         \
        LIMITS, FORCED, __VA_ARGS__                                           \
    }
#define ROUGH .skips_differences = true
/* One unit whose gates are open or closed: the result shows which weight belongs to each gate. */
#define STATED(op_, label, settings, gates, states, steps, x, rows, state, want_)      \
    {                                                                                  \
        .op = op_, .name = label, .build = recurrent_build, .user = settings,          \
        FOUR_INPUTS(VALUES(x, DIMS(1, steps, 1)), VALUES(rows, DIMS(3, gates)),        \
                    VALUES(zeros, DIMS(1, gates)), VALUES(state, DIMS(states, 1, 1))), \
        LIMITS, FORCED, .want = want_, .has_no_gradient = true, .is_poor = true, QUICK \
    }

#define TANH_HALF    0.46211715726000975
#define TANH_QUARTER 0.24491866240370913
static const double zeros[] = { 0 }, one[] = { 1 }, three[] = { 3 }, pair[] = { 3, 0.5 };
/* Rows: w, the bias, the recurrent bias. */
static const double reset[] = { 0, 0, 0, -40, -40, 0.5, 0, 0, 7 },
                    reset_want[] = { TANH_HALF, TANH_HALF };
static const double update[] = { 0, 40, 0, -40, 0, 0.5, 0, 0, 7 }, update_want[] = { 3, 3 };
static const double open[] = { 40, -40, 0.5, 0, 0, 0, 0, 0, -0.25 },
                    open_want[] = { TANH_QUARTER, TANH_QUARTER };
static const double keep[] = { -40, 0, 0, 0, 0, 40, 7, 0, 0, 0, 0, 40 },
                    keep_want[] = { TANH_HALF, TANH_HALF, 0.5 };
static const double take[] = { 40, -40, 0.25, 0, 0, 0, 0.25, 0, 0, 0, 0, 0 };
/* tanh(tanh(0.5)) / 2 */
static const double take_want[] = { 0.21590409029755304, 0.21590409029755304, TANH_HALF };
static const double each[] = { 0.25, 0.5, 0 }, sums[] = { 1, 0.125, -0.125 };
static const double sums_want[] = { TANH_QUARTER, TANH_HALF, 0, 0 };

static const struct copse_case cases[] = {
    STATED("gru", "stated: a closed reset gate", &gru, 3, 1, 1, one, reset, three, reset_want),
    STATED("gru", "stated: the update gate keeps the state", &gru, 3, 1, 1, one, update, three,
           update_want),
    STATED("gru", "stated: an open reset gate", &gru, 3, 1, 1, one, open, three, open_want),
    STATED("lstm", "stated: the forget gate keeps the cell", &lstm, 4, 2, 1, one, keep, pair,
           keep_want),
    STATED("lstm", "stated: the input gate takes the candidate", &lstm, 4, 2, 1, one, take, pair,
           take_want),
    STATED("rnn", "stated: every state", &rnn, 1, 1, 3, each, sums, three, sums_want),
    GRU("three steps", &gru, 2, 3, 2, 3, QUICK),
    LSTM("three steps", &lstm, 2, 3, 2, 3, QUICK),
    RNN("three steps", &rnn, 2, 3, 2, 3, QUICK),
    GRU("packed", &packed_gru, 3, 4, 2, 3, QUICK),
    LSTM("packed", &packed_lstm, 3, 4, 2, 3, QUICK),
    RNN("packed", &packed_rnn, 3, 4, 2, 3, QUICK),
    GRU("lengths beyond the steps", &beyond_gru, 3, 2, 2, 3, STANDARD),
    PLAIN("gru", "without biases and first state", &plain_gru, 3, 2, 3, 2, 3, QUICK),
    PLAIN("lstm", "without biases and first state", &plain_lstm, 4, 2, 3, 2, 3, STANDARD),
    PLAIN("rnn", "without biases and first state", &plain_rnn, 1, 2, 3, 2, 3, STANDARD),
    GRU("one step", &gru, 3, 1, 2, 4, STANDARD),
    LSTM("one step", &lstm, 3, 1, 2, 4, STANDARD),
    GRU("one sequence", &gru, 1, 5, 3, 4, STANDARD),
    GRU("one unit", &gru, 2, 3, 1, 1, STANDARD),
    LSTM("one unit", &lstm, 2, 3, 1, 1, STANDARD),
    GRU("16 units: whole vectors", &gru, 4, 3, 8, 16, STANDARD, ROUGH),
    LSTM("65 units: no whole vectors", &lstm, 3, 7, 5, 65, STANDARD, ROUGH),
    GRU("37 units, many steps", &gru, 5, 70, 9, 37, STANDARD, ROUGH),
    LSTM("32 units, many steps", &lstm, 2, 130, 16, 32, FULL, ROUGH),
    GRU("several groups", &gru, 9, 4, 16, 128, FULL, ROUGH),
    CASE("gru", "no steps", &gru, 1, 3, 2, 0, 2, 3, STANDARD, .is_poor = true),
    CASE("lstm", "no steps", &lstm, 2, 4, 2, 0, 2, 3, STANDARD, .is_poor = true),
    CASE("gru", "no sequences", &gru, 1, 3, 0, 3, 2, 3, STANDARD),
    LSTM("no features", &lstm, 2, 3, 0, 3, STANDARD),
};

COPSE_CASE_TABLE(recurrent, OPS, SPEEDS, .refusals = recurrent_refusals)
