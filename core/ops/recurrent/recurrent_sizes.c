/* SPDX-License-Identifier: MIT */
/* The bases of tolerances of recurrent layers: see struct copse_limit. Numbers carry a bound of
   their error, from which the bound of a sum, a product or a gate follows. */
#include "core/ops/recurrent/recurrent_sizes.h"

#include <math.h>

#include "core/device/device.h"

/* Intermediate results below this are rounded to a multiple of 2^-149. */
#define LEAST 0x1p-126

enum { TANH, LSTM, GRU }; /* kernels/recurrent/recurrent.cl */

struct number {
    double v, e;
};

static struct number recurrent_sizes_exact(double v)
{
    return (struct number){ v, 0 };
}

/* 0 where a factor is 0: the other may be infinite. */
static double recurrent_sizes_times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : fabs(a * b);
}

static struct number recurrent_sizes_sum(struct number a, struct number b)
{
    return (struct number){ a.v + b.v, a.e + b.e + fabs(a.v + b.v) };
}

static struct number recurrent_sizes_product(struct number a, struct number b)
{
    return (struct number){ a.v * b.v, recurrent_sizes_times(a.v, b.e) +
                                           recurrent_sizes_times(b.v, a.e) +
                                           recurrent_sizes_times(a.v, b.v) + LEAST };
}

static struct number recurrent_sizes_sigmoid(struct number x)
{
    const double e = exp(-fabs(x.v)), v = 1 / (1 + exp(-x.v));
    return (struct number){ v, recurrent_sizes_times(e / ((1 + e) * (1 + e)), x.e) + v + LEAST };
}

static struct number recurrent_sizes_hyperbolic(struct number x)
{
    const double e = exp(-2 * fabs(x.v)), v = tanh(x.v);
    return (struct number){ v, recurrent_sizes_times(4 * e / ((1 + e) * (1 + e)), x.e) + fabs(v) +
                                   LEAST };
}

static struct number recurrent_sizes_minus(struct number x)
{
    return (struct number){ -x.v, x.e };
}

/* d times the derivative at x of sigmoid, or of tanh. The second derivative is at most twice the
   first. */
static struct number recurrent_sizes_slope(struct number x, struct number d, bool is_tanh)
{
    const double e = exp((is_tanh ? -2 : -1) * fabs(x.v)),
                 s = (is_tanh ? 4 : 1) * e / ((1 + e) * (1 + e));
    return (struct number){ d.v * s, recurrent_sizes_times(d.v * s, 1 + 2 * x.e) +
                                         recurrent_sizes_times(s, d.e) + LEAST };
}

/* What the input and the hidden state give the gates of unit i. */
struct gates {
    struct number from[4], product[4], x[4];
};

static struct gates gates_of(const struct copse_host_arg *from, size_t from_first,
                             const struct copse_host_arg *hidden, size_t hidden_first, size_t count,
                             size_t width, size_t i)
{
    struct gates g = { .from = { { 0, 0 } } };
    const size_t at = i / width * width * count + i % width;
    for (size_t k = 0; k < count; k++) {
        g.from[k] = recurrent_sizes_exact(copse__load(from, from_first + at + k * width));
        g.product[k] = recurrent_sizes_exact(copse__load(hidden, hidden_first + at + k * width));
        g.x[k] = recurrent_sizes_sum(g.from[k], g.product[k]);
    }
    return g;
}

static size_t count_of(int32_t kind)
{
    return kind == LSTM ? 4 : kind == GRU ? 3 : 1;
}

static struct number recurrent_sizes_candidate(const struct gates *g)
{
    return recurrent_sizes_sum(
        g->from[2], recurrent_sizes_product(recurrent_sizes_sigmoid(g->x[0]), g->product[2]));
}

static struct number cell_of(const struct gates *g, double c)
{
    return recurrent_sizes_sum(
        recurrent_sizes_product(recurrent_sizes_sigmoid(g->x[1]), recurrent_sizes_exact(c)),
        recurrent_sizes_product(recurrent_sizes_sigmoid(g->x[0]),
                                recurrent_sizes_hyperbolic(g->x[2])));
}

void copse__recurrent_size(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_recurrent *p = params;
    const struct copse_host_arg *state = &args[3], *now = &args[4];
    for (size_t i = 0; i < p->n; i++) {
        const struct gates g =
            gates_of(&args[0], p->from_first, &args[1], 0, count_of(spec[0]), p->width, i);
        const double old = copse__load(state, p->before + i);
        struct number y = recurrent_sizes_hyperbolic(g.x[0]);
        if (spec[0] == LSTM) {
            const struct number cell = cell_of(&g, copse__load(state, p->before + p->n + i));
            copse__store(state, p->after + p->n + i, cell.e);
            y = recurrent_sizes_product(recurrent_sizes_sigmoid(g.x[3]),
                                        recurrent_sizes_hyperbolic(cell));
        } else if (spec[0] == GRU) {
            const struct number z = recurrent_sizes_sigmoid(g.x[1]),
                                rest = recurrent_sizes_sigmoid(recurrent_sizes_minus(g.x[1]));
            y = recurrent_sizes_sum(
                recurrent_sizes_product((struct number){ rest.v, rest.e + z.e },
                                        recurrent_sizes_hyperbolic(recurrent_sizes_candidate(&g))),
                recurrent_sizes_product(z, recurrent_sizes_exact(old)));
        }
        copse__store(state, p->after + i, y.e);
        copse__store(now, i, y.e);
    }
}

struct slopes {
    struct number from[4], hidden, dh, dc;
};

static struct slopes slopes_of(const struct gates *g, int32_t kind, double h, double c,
                               struct number dh, struct number dc)
{
    struct slopes s = { .dh = recurrent_sizes_exact(0), .dc = recurrent_sizes_exact(0) };
    if (kind == LSTM) {
        const struct number cell = cell_of(g, c), in = recurrent_sizes_sigmoid(g->x[0]),
                            forget = recurrent_sizes_sigmoid(g->x[1]);
        const struct number d = recurrent_sizes_sum(
            dc, recurrent_sizes_slope(
                    cell, recurrent_sizes_product(dh, recurrent_sizes_sigmoid(g->x[3])), true));
        s.from[0] = recurrent_sizes_slope(
            g->x[0], recurrent_sizes_product(d, recurrent_sizes_hyperbolic(g->x[2])), false);
        s.from[1] = recurrent_sizes_slope(
            g->x[1], recurrent_sizes_product(d, recurrent_sizes_exact(c)), false);
        s.from[2] = recurrent_sizes_slope(g->x[2], recurrent_sizes_product(d, in), true);
        s.from[3] = recurrent_sizes_slope(
            g->x[3], recurrent_sizes_product(dh, recurrent_sizes_hyperbolic(cell)), false);
        s.dc = recurrent_sizes_product(d, forget);
    } else if (kind == GRU) {
        const struct number n = recurrent_sizes_candidate(g);
        s.from[2] = recurrent_sizes_slope(
            n, recurrent_sizes_product(dh, recurrent_sizes_sigmoid(recurrent_sizes_minus(g->x[1]))),
            true);
        s.from[1] = recurrent_sizes_slope(
            g->x[1],
            recurrent_sizes_product(
                dh, recurrent_sizes_sum(recurrent_sizes_exact(h),
                                        recurrent_sizes_minus(recurrent_sizes_hyperbolic(n)))),
            false);
        s.from[0] = recurrent_sizes_slope(g->x[0],
                                          recurrent_sizes_product(s.from[2], g->product[2]), false);
        s.hidden = recurrent_sizes_product(s.from[2], recurrent_sizes_sigmoid(g->x[0]));
        s.dh = recurrent_sizes_product(dh, recurrent_sizes_sigmoid(g->x[1]));
    } else
        s.from[0] = recurrent_sizes_slope(g->x[0], dh, true);
    return s;
}

void copse__recurrent_grad_size(const void *params, const int32_t *spec,
                                const struct copse_host_arg *args)
{
    const struct copse_params_recurrent_grad *p = params;
    const struct copse_host_arg *state = &args[3], *slopes = &args[4], *carry = &args[5],
                                *to = &args[6], *now = &args[7];
    const size_t count = count_of(spec[0]), wide = count + (spec[0] == GRU);
    const bool has_cell = spec[0] == LSTM;
    for (size_t i = 0; i < p->n; i++) {
        const size_t row = i / p->width, col = i % p->width;
        const bool is_on = spec[2] && (!spec[1] || (int64_t)p->step < copse__load_i(&args[2], row));
        struct number dh = recurrent_sizes_exact(copse__load(slopes, p->slope_first + i)),
                      dc = recurrent_sizes_exact(0);
        if (has_cell)
            dc = recurrent_sizes_exact(copse__load(slopes, p->slope_first + p->n + i));
        if (!p->is_first) {
            dh = recurrent_sizes_sum(
                dh, recurrent_sizes_sum(recurrent_sizes_exact(copse__load(carry, i)),
                                        recurrent_sizes_exact(copse__load(carry, p->passed + i))));
            if (has_cell)
                dc = recurrent_sizes_sum(
                    dc, recurrent_sizes_exact(copse__load(carry, p->passed + p->n + i)));
        }
        struct slopes s = { .dh = dh, .dc = dc };
        if (is_on) {
            const struct gates g =
                gates_of(&args[0], p->from_first, &args[1], p->from_first, count, p->width, i);
            s = slopes_of(&g, spec[0], copse__load(state, p->before + i),
                          has_cell ? copse__load(state, p->before + p->n + i) : 0, dh, dc);
        }
        for (size_t k = 0; spec[2] && k < count; k++) {
            const struct number of_hidden = spec[0] == GRU && k == 2 ? s.hidden : s.from[k];
            copse__store(to, p->to_first + (row * wide + k) * p->width + col, s.from[k].e);
            copse__store(now, (row * count + k) * p->width + col, of_hidden.e);
        }
        if (spec[2] && wide > count)
            copse__store(to, p->to_first + (row * wide + count) * p->width + col, s.hidden.e);
        if (!spec[2])
            copse__store(to, p->to_first + i, s.dh.e);
        if (!spec[2] && has_cell)
            copse__store(to, p->to_first + p->n + i, s.dc.e);
        copse__store(carry, p->passed + i, s.dh.e);
        if (has_cell)
            copse__store(carry, p->passed + p->n + i, s.dc.e);
    }
}
