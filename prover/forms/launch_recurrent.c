/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of recurrent layers. */
#include "core/ops/ops.h"
#include "core/ops/recurrent/recurrent_variants.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES, INDEX = COPSE_CONTENT_INDEX };

/* Seven units of each sequence; operands begin behind other words. */
enum {
    UNITS = 7,
    STEP = 2,
    LENGTHS = 5,
    FROM_FIRST = 3,
    BEFORE = 1,
    SLOPE_FIRST = 2,
    TO_FIRST = 5,
    GAP = 4
};

static uint32_t rows_of(uint32_t n)
{
    return (n + UNITS - 1) / UNITS;
}

static void plan_forward(struct copse_launch *l)
{
    const uint32_t states = copse__recurrent_states(l->spec[0]);
    struct copse_params_recurrent p = { .n = (uint32_t)copse__launch_extent(l,
                                                                            copse__launch_group(l)),
                                        .width = UNITS,
                                        .step = STEP,
                                        .from_first = FROM_FIRST,
                                        .before = BEFORE };
    const size_t rows = rows_of(p.n), gates = rows * copse__recurrent_gates(l->spec[0]) * UNITS;
    p.after = BEFORE + states * p.n;
    copse__divisor(UNITS, &p.m, &p.h);
    l->range = LENGTHS;
    COPSE_LAUNCH_PLAN(l, p, l->want, FROM_FIRST + gates, gates, rows,
                      (size_t)p.after + (size_t)states * p.n, p.n);
}

static void plan_grad(struct copse_launch *l, bool is_first)
{
    const size_t count = copse__recurrent_gates(l->spec[0]),
                 wide = count + (l->spec[0] == COPSE_RECURRENT_GRU);
    struct copse_params_recurrent_grad p = { .n = (uint32_t)copse__launch_extent(
                                                 l, copse__launch_group(l)),
                                             .width = UNITS,
                                             .step = STEP,
                                             .is_first = is_first,
                                             .from_first = FROM_FIRST,
                                             .before = BEFORE,
                                             .slope_first = SLOPE_FIRST,
                                             .to_first = TO_FIRST };
    const size_t rows = rows_of(p.n), gates = rows * count * UNITS,
                 states = (size_t)copse__recurrent_states(l->spec[0]) * p.n;
    p.passed = p.n + GAP;
    copse__divisor(UNITS, &p.m, &p.h);
    l->range = LENGTHS;
    COPSE_LAUNCH_PLAN(l, p, l->want, FROM_FIRST + gates, FROM_FIRST + gates, rows, BEFORE + states,
                      SLOPE_FIRST + states, p.passed + states,
                      TO_FIRST + (l->spec[2] ? rows * wide * UNITS : states),
                      l->spec[2] ? gates : 1);
}

/* Whole rows: more than a vector; few units with many groups. */
enum { WIDE = 21, NARROW = 3, WIDE_STEP = 1 };

static uint32_t each_of(const struct copse_launch *l)
{
    return l->want > COPSE_AXIS_GROUPS ? 1 : 6;
}

static uint32_t width_of(const struct copse_launch *l)
{
    return each_of(l) == 1 ? NARROW : WIDE;
}

static void plan_forward_wide(struct copse_launch *l)
{
    const uint32_t states = copse__recurrent_states(l->spec[0]), width = width_of(l),
                   rows = (uint32_t)copse__launch_extent(l, each_of(l));
    struct copse_params_recurrent_wide p = { .n = rows * width,
                                             .width = width,
                                             .step = WIDE_STEP,
                                             .from_first = FROM_FIRST,
                                             .before = BEFORE,
                                             .each = each_of(l) };
    const size_t gates = (size_t)p.n * copse__recurrent_gates(l->spec[0]);
    p.after = BEFORE + states * p.n;
    l->range = LENGTHS;
    COPSE_LAUNCH_PLAN(l, p, l->want, FROM_FIRST + gates, gates, rows,
                      (size_t)p.after + (size_t)states * p.n, p.n);
}

static void plan_grad_wide(struct copse_launch *l, bool is_first)
{
    const uint32_t width = width_of(l), rows = (uint32_t)copse__launch_extent(l, each_of(l));
    const size_t count = copse__recurrent_gates(l->spec[0]),
                 wide = count + (l->spec[0] == COPSE_RECURRENT_GRU);
    struct copse_params_recurrent_grad_wide p = { .n = rows * width,
                                                  .width = width,
                                                  .step = WIDE_STEP,
                                                  .is_first = is_first,
                                                  .from_first = FROM_FIRST,
                                                  .before = BEFORE,
                                                  .slope_first = SLOPE_FIRST,
                                                  .to_first = TO_FIRST,
                                                  .each = each_of(l) };
    const size_t gates = p.n * count, states = (size_t)copse__recurrent_states(l->spec[0]) * p.n;
    p.passed = p.n + GAP;
    l->range = LENGTHS;
    COPSE_LAUNCH_PLAN(l, p, l->want, FROM_FIRST + gates, FROM_FIRST + gates, rows, BEFORE + states,
                      SLOPE_FIRST + states, p.passed + states,
                      TO_FIRST + (l->spec[2] ? p.n * wide : states), l->spec[2] ? gates : 1);
}

static void plan_recurrent_grad(struct copse_launch *l)
{
    plan_grad(l, false);
}

static void plan_recurrent_grad_wide(struct copse_launch *l)
{
    plan_grad_wide(l, false);
}

static void plan_recurrent_grad_wide_first(struct copse_launch *l)
{
    plan_grad_wide(l, true);
}

static void plan_recurrent_grad_first(struct copse_launch *l)
{
    plan_grad(l, true);
}

/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. The
   derivative of a gate is not 0 at 15, nor where one of two sums is. */
#define SOME .cap = 15, .is_rare = true, .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define FORWARD(label, kind, is_packed)                                                   \
    {                                                                                     \
        .kernel = COPSE_KERNEL_recurrent, .name = label,                                  \
        .spec = { COPSE_RECURRENT_##kind, is_packed },                                    \
        .contents = { VALUES, VALUES, INDEX, VALUES, RESULT }, .plan = plan_forward, SOME \
    }
#define FORWARD_WIDE(label, kind, is_packed)                                                   \
    {                                                                                          \
        .kernel = COPSE_KERNEL_recurrent_wide, .name = label,                                  \
        .spec = { COPSE_RECURRENT_##kind, is_packed },                                         \
        .contents = { VALUES, VALUES, INDEX, VALUES, RESULT }, .plan = plan_forward_wide, SOME \
    }
#define GRAD_WIDE(label, kind, is_packed, is_on, plan_)                                \
    {                                                                                  \
        .kernel = COPSE_KERNEL_recurrent_grad_wide, .name = label,                     \
        .spec = { COPSE_RECURRENT_##kind, is_packed, is_on },                          \
        .contents = { VALUES, VALUES, INDEX, VALUES, VALUES, VALUES, RESULT, RESULT }, \
        .plan = plan_, SOME                                                            \
    }
#define GRAD(label, kind, is_packed, is_on, plan_)                                     \
    {                                                                                  \
        .kernel = COPSE_KERNEL_recurrent_grad, .name = label,                          \
        .spec = { COPSE_RECURRENT_##kind, is_packed, is_on },                          \
        .contents = { VALUES, VALUES, INDEX, VALUES, VALUES, VALUES, RESULT, RESULT }, \
        .plan = plan_, SOME                                                            \
    }

static const struct copse_launch_form forms[] = {
    FORWARD("rnn", TANH, 0),
    FORWARD("rnn, packed", TANH, 1),
    FORWARD("lstm", LSTM, 0),
    FORWARD("lstm, packed", LSTM, 1),
    FORWARD("gru", GRU, 0),
    FORWARD("gru, packed", GRU, 1),
    GRAD("rnn", TANH, 0, 1, plan_recurrent_grad),
    GRAD("rnn, packed", TANH, 1, 1, plan_recurrent_grad),
    GRAD("lstm", LSTM, 0, 1, plan_recurrent_grad),
    GRAD("lstm, packed", LSTM, 1, 1, plan_recurrent_grad),
    GRAD("gru", GRU, 0, 1, plan_recurrent_grad),
    GRAD("gru, packed", GRU, 1, 1, plan_recurrent_grad),
    GRAD("gru, last step", GRU, 0, 1, plan_recurrent_grad_first),
    GRAD("lstm, last step", LSTM, 0, 1, plan_recurrent_grad_first),
    GRAD("state alone", TANH, 0, 0, plan_recurrent_grad),
    GRAD("state and cell alone", LSTM, 1, 0, plan_recurrent_grad),
    GRAD("state and cell alone, not packed", LSTM, 0, 0, plan_recurrent_grad),
    GRAD("state alone, packed", TANH, 1, 0, plan_recurrent_grad),
    GRAD("gru, state alone", GRU, 0, 0, plan_recurrent_grad),
    GRAD("gru, state alone, packed", GRU, 1, 0, plan_recurrent_grad),
    FORWARD_WIDE("rnn", TANH, 0),
    FORWARD_WIDE("rnn, packed", TANH, 1),
    FORWARD_WIDE("lstm", LSTM, 0),
    FORWARD_WIDE("lstm, packed", LSTM, 1),
    FORWARD_WIDE("gru", GRU, 0),
    FORWARD_WIDE("gru, packed", GRU, 1),
    GRAD_WIDE("rnn", TANH, 0, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("rnn, packed", TANH, 1, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("lstm", LSTM, 0, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("lstm, packed", LSTM, 1, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("gru", GRU, 0, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("gru, packed", GRU, 1, 1, plan_recurrent_grad_wide),
    GRAD_WIDE("gru, last step", GRU, 0, 1, plan_recurrent_grad_wide_first),
    GRAD_WIDE("lstm, last step", LSTM, 0, 1, plan_recurrent_grad_wide_first),
    GRAD_WIDE("state alone", TANH, 0, 0, plan_recurrent_grad_wide),
    GRAD_WIDE("state and cell alone", LSTM, 1, 0, plan_recurrent_grad_wide),
    GRAD_WIDE("state and cell alone, not packed", LSTM, 0, 0, plan_recurrent_grad_wide),
    GRAD_WIDE("state alone, packed", TANH, 1, 0, plan_recurrent_grad_wide),
    GRAD_WIDE("gru, state alone", GRU, 0, 0, plan_recurrent_grad_wide),
    GRAD_WIDE("gru, state alone, packed", GRU, 1, 0, plan_recurrent_grad_wide),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(recurrent, COPSE_WALKS_NONE),
    COPSE_NO_LINE(recurrent_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(recurrent_wide, COPSE_WALKS_NONE),
    COPSE_NO_LINE(recurrent_grad_wide, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_recurrent = { forms, COPSE_COUNT(forms), lines,
                                                          COPSE_COUNT(lines) };
