/* SPDX-License-Identifier: MIT */
/* Host functions and self-tests of the kernels of recurrent layers. */
#include <math.h>

#include "core/ops/recurrent/recurrent_sizes.h"
#include "core/ops/recurrent/recurrent_variants.h"
#include "core/ops/self_tests.h"

/* ---- references ---- */

static double recurrent_host_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Its derivative, also where 1 - sigmoid(x) has no digits. */
static double sigmoid_slope(double x)
{
    const double e = exp(-fabs(x));
    return e / ((1 + e) * (1 + e));
}

static double tanh_slope(double x)
{
    const double e = exp(-2 * fabs(x));
    return 4 * e / ((1 + e) * (1 + e));
}

/* The gates of a unit of a sequence: what the input and the hidden state give each of them. */
struct gates {
    double from[4], product[4];
};

static struct gates gates_of(const struct copse_host_arg *from, size_t from_first,
                             const struct copse_host_arg *product, size_t product_first,
                             int32_t kind, size_t width, size_t i)
{
    const size_t count = copse__recurrent_gates(kind), at = i / width * width * count + i % width;
    struct gates g = { { 0 }, { 0 } };
    for (size_t k = 0; k < count; k++) {
        g.from[k] = copse__load(from, from_first + at + k * width);
        g.product[k] = copse__load(product, product_first + at + k * width);
    }
    return g;
}

static void recurrent_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_recurrent *p = params;
    const struct copse_host_arg *state = &args[3], *now = &args[4];
    for (size_t i = 0; i < p->n; i++) {
        const struct gates g = gates_of(&args[0], p->from_first, &args[1], 0, spec[0], p->width, i);
        const double old = copse__load(state, p->before + i);
        const bool is_on = !spec[1] || (int64_t)p->step < copse__load_i(&args[2], i / p->width);
        double y = tanh(g.from[0] + g.product[0]);
        if (spec[0] == COPSE_RECURRENT_LSTM) {
            const double c = copse__load(state, p->before + p->n + i);
            const double next =
                recurrent_host_sigmoid(g.from[1] + g.product[1]) * c +
                recurrent_host_sigmoid(g.from[0] + g.product[0]) * tanh(g.from[2] + g.product[2]);
            y = recurrent_host_sigmoid(g.from[3] + g.product[3]) * tanh(next);
            copse__store(state, p->after + p->n + i, is_on ? next : c);
        } else if (spec[0] == COPSE_RECURRENT_GRU) {
            const double r = recurrent_host_sigmoid(g.from[0] + g.product[0]),
                         x = g.from[1] + g.product[1];
            y = recurrent_host_sigmoid(-x) * tanh(g.from[2] + r * g.product[2]) +
                recurrent_host_sigmoid(x) * old;
        }
        copse__store(state, p->after + i, is_on ? y : old);
        copse__store(now, i, is_on ? y : old);
    }
}

/* The derivatives of the gates from those of the states: of the products of the input, and of those
   of the hidden state. What is passed to the states before replaces *dh and *dc. */
struct slopes {
    double from[4], product[4];
};

static struct slopes slopes_of(const struct gates *g, int32_t kind, double h, double c, double *dh,
                               double *dc)
{
    struct slopes s = { { 0 }, { 0 } };
    double x[4];
    for (int k = 0; k < 4; k++)
        x[k] = g->from[k] + g->product[k];
    if (kind == COPSE_RECURRENT_LSTM) {
        const double in = recurrent_host_sigmoid(x[0]), keep = recurrent_host_sigmoid(x[1]),
                     candidate = tanh(x[2]), next = keep * c + in * candidate;
        const double d = *dc + *dh * recurrent_host_sigmoid(x[3]) * tanh_slope(next);
        s.from[0] = d * candidate * sigmoid_slope(x[0]);
        s.from[1] = d * c * sigmoid_slope(x[1]);
        s.from[2] = d * in * tanh_slope(x[2]);
        s.from[3] = *dh * tanh(next) * sigmoid_slope(x[3]);
        *dh = 0;
        *dc = d * keep;
    } else if (kind == COPSE_RECURRENT_GRU) {
        const double r = recurrent_host_sigmoid(x[0]), n = g->from[2] + r * g->product[2];
        s.from[2] = *dh * recurrent_host_sigmoid(-x[1]) * tanh_slope(n);
        s.from[1] = *dh * (h - tanh(n)) * sigmoid_slope(x[1]);
        s.from[0] = s.from[2] * g->product[2] * sigmoid_slope(x[0]);
        *dh *= recurrent_host_sigmoid(x[1]);
        memcpy(s.product, s.from, sizeof s.product);
        s.product[2] = s.from[2] * r;
        return s;
    } else {
        s.from[0] = *dh * tanh_slope(x[0]);
        *dh = 0;
    }
    memcpy(s.product, s.from, sizeof s.product);
    return s;
}

static void recurrent_grad_host(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_recurrent_grad *p = params;
    const struct copse_host_arg *state = &args[3], *slope = &args[4], *carry = &args[5],
                                *to = &args[6], *now = &args[7];
    const size_t count = copse__recurrent_gates(spec[0]),
                 wide = count + (spec[0] == COPSE_RECURRENT_GRU);
    const bool has_cell = spec[0] == COPSE_RECURRENT_LSTM;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->width, col = i % p->width;
        const bool is_on = spec[2] && (!spec[1] || (int64_t)p->step < copse__load_i(&args[2], row));
        double dh = copse__load(slope, p->slope_first + i),
               dc = has_cell ? copse__load(slope, p->slope_first + p->n + i) : 0;
        if (!p->is_first) {
            dh += copse__load(carry, i) + copse__load(carry, p->passed + i);
            dc += has_cell ? copse__load(carry, p->passed + p->n + i) : 0;
        }
        struct slopes s = { { 0 }, { 0 } };
        if (is_on) {
            const struct gates g =
                gates_of(&args[0], p->from_first, &args[1], p->from_first, spec[0], p->width, i);
            s = slopes_of(&g, spec[0], copse__load(state, p->before + i),
                          has_cell ? copse__load(state, p->before + p->n + i) : 0, &dh, &dc);
        }
        for (size_t k = 0; spec[2] && k < count; k++) {
            copse__store(to, p->to_first + (row * wide + k) * p->width + col, s.from[k]);
            copse__store(now, (row * count + k) * p->width + col, s.product[k]);
        }
        if (spec[2] && wide > count)
            copse__store(to, p->to_first + (row * wide + count) * p->width + col,
                         s.product[count - 1]);
        if (!spec[2])
            copse__store(to, p->to_first + i, dh);
        if (!spec[2] && has_cell)
            copse__store(to, p->to_first + p->n + i, dc);
        copse__store(carry, p->passed + i, dh);
        if (has_cell)
            copse__store(carry, p->passed + p->n + i, dc);
    }
}

/* ---- self-tests ---- */

/* Three sequences of 7 units, one or two of them ended; operands begin after other words. */
enum { ROWS = 3, UNITS = 7, N = ROWS * UNITS };
/* More than a vector of 16 units. */
enum { WIDE_UNITS = 18, WIDE_N = ROWS * WIDE_UNITS };

/* The states before the step, and the lengths. */
static void set_states(struct copse_self_test *t, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        copse__test_set(t, 3, i, 0.25f * (float)(i % 7) - 0.5f);
    memcpy(t->words[2], (const uint32_t[]){ 3, 2, 9 }, ROWS * sizeof(uint32_t));
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void set_carry(struct copse_self_test *t)
{
    for (uint32_t i = 0; i < t->counts[5]; i++)
        copse__test_set(t, 5, i, 0.25f * (float)(i % 5) - 0.5f);
    memcpy(t->words[2], (const uint32_t[]){ 3, 2, 9 }, ROWS * sizeof(uint32_t));
    t->slack = COPSE_SELF_TEST_SLACK;
}

static void recurrent_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t gates = copse__recurrent_gates(k->spec[0]),
                   states = copse__recurrent_states(k->spec[0]);
    struct copse_params_recurrent p = {
        .n = N, .width = UNITS, .step = 2, .from_first = 3, .before = 1, .after = 1 + states * N
    };
    copse__divisor(UNITS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), p.from_first + gates * N, gates * N, ROWS,
                    p.after + states * N, N);
    set_states(t, p.after);
}

static void recurrent_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t gates = copse__recurrent_gates(k->spec[0]),
                   states = copse__recurrent_states(k->spec[0]);
    const struct copse_params_recurrent_wide p = { .n = WIDE_N,
                                                   .width = WIDE_UNITS,
                                                   .step = 2,
                                                   .from_first = 3,
                                                   .before = 1,
                                                   .after = 1 + states * WIDE_N,
                                                   .each = 2 };
    COPSE_SELF_TEST(t, p, 2, p.from_first + gates * WIDE_N, gates * WIDE_N, ROWS,
                    p.after + states * WIDE_N, WIDE_N);
    set_states(t, p.after);
}

static void recurrent_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t gates = copse__recurrent_gates(k->spec[0]),
                   states = copse__recurrent_states(k->spec[0]);
    const uint32_t wide = gates + (k->spec[0] == COPSE_RECURRENT_GRU);
    struct copse_params_recurrent_grad p = { .n = N,
                                             .width = UNITS,
                                             .step = 2,
                                             .from_first = 3,
                                             .before = 1,
                                             .slope_first = 2,
                                             .passed = N + 4,
                                             .to_first = 5 };
    copse__divisor(UNITS, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, N), p.from_first + gates * N,
                    p.from_first + gates * N, ROWS, p.before + states * N,
                    p.slope_first + states * N, p.passed + states * N, p.to_first + wide * N,
                    gates * N);
    set_carry(t);
}

static void recurrent_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t gates = copse__recurrent_gates(k->spec[0]),
                   states = copse__recurrent_states(k->spec[0]),
                   wide = gates + (k->spec[0] == COPSE_RECURRENT_GRU);
    const struct copse_params_recurrent_grad_wide p = { .n = WIDE_N,
                                                        .width = WIDE_UNITS,
                                                        .step = 2,
                                                        .from_first = 3,
                                                        .before = 1,
                                                        .slope_first = 2,
                                                        .passed = WIDE_N + 4,
                                                        .to_first = 5,
                                                        .each = 2 };
    COPSE_SELF_TEST(t, p, 2, p.from_first + gates * WIDE_N, p.from_first + gates * WIDE_N, ROWS,
                    p.before + states * WIDE_N, p.slope_first + states * WIDE_N,
                    p.passed + states * WIDE_N, p.to_first + wide * WIDE_N, gates * WIDE_N);
    set_carry(t);
}

/* ---- laws: the kernels for wide vectors have the same first parameters ---- */

const struct copse_law copse_law_recurrent = {
    .host = recurrent_host,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__recurrent_size },
    .self_test = recurrent_test,
};
const struct copse_law copse_law_recurrent_wide = {
    .host = recurrent_host,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__recurrent_size },
    .self_test = recurrent_wide_test,
};
const struct copse_law copse_law_recurrent_grad = {
    .host = recurrent_grad_host,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__recurrent_grad_size },
    .self_test = recurrent_grad_test,
};
const struct copse_law copse_law_recurrent_grad_wide = {
    .host = recurrent_grad_host,
    .limit = { .ulp = 1, .ratio = 16, .size = copse__recurrent_grad_size },
    .self_test = recurrent_grad_wide_test,
};
