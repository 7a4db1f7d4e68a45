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

static struct number exact(double v)
{
    return (struct number){ v, 0 };
}

/* 0 where a factor is 0: the other may be infinite. */
static double times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : fabs(a * b);
}

static struct number sum(struct number a, struct number b)
{
    return (struct number){ a.v + b.v, a.e + b.e + fabs(a.v + b.v) };
}

static struct number product(struct number a, struct number b)
{
    return (struct number){ a.v * b.v,
                            times(a.v, b.e) + times(b.v, a.e) + times(a.v, b.v) + LEAST };
}

static struct number sigmoid(struct number x)
{
    const double e = exp(-fabs(x.v)), v = 1 / (1 + exp(-x.v));
    return (struct number){ v, times(e / ((1 + e) * (1 + e)), x.e) + v + LEAST };
}

static struct number hyperbolic(struct number x)
{
    const double e = exp(-2 * fabs(x.v)), v = tanh(x.v);
    return (struct number){ v, times(4 * e / ((1 + e) * (1 + e)), x.e) + fabs(v) + LEAST };
}

static struct number minus(struct number x)
{
    return (struct number){ -x.v, x.e };
}

/* d times the derivative at x of sigmoid, or of tanh. The second derivative is at most twice the
   first. */
static struct number slope(struct number x, struct number d, bool is_tanh)
{
    const double e = exp((is_tanh ? -2 : -1) * fabs(x.v)),
                 s = (is_tanh ? 4 : 1) * e / ((1 + e) * (1 + e));
    return (struct number){ d.v * s, times(d.v * s, 1 + 2 * x.e) + times(s, d.e) + LEAST };
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
        g.from[k] = exact(copse__load(from, from_first + at + k * width));
        g.product[k] = exact(copse__load(hidden, hidden_first + at + k * width));
        g.x[k] = sum(g.from[k], g.product[k]);
    }
    return g;
}

static size_t count_of(int32_t kind)
{
    return kind == LSTM ? 4 : kind == GRU ? 3 : 1;
}

static struct number candidate(const struct gates *g)
{
    return sum(g->from[2], product(sigmoid(g->x[0]), g->product[2]));
}

static struct number cell_of(const struct gates *g, double c)
{
    return sum(product(sigmoid(g->x[1]), exact(c)), product(sigmoid(g->x[0]), hyperbolic(g->x[2])));
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
        struct number y = hyperbolic(g.x[0]);
        if (spec[0] == LSTM) {
            const struct number cell = cell_of(&g, copse__load(state, p->before + p->n + i));
            copse__store(state, p->after + p->n + i, cell.e);
            y = product(sigmoid(g.x[3]), hyperbolic(cell));
        } else if (spec[0] == GRU) {
            const struct number z = sigmoid(g.x[1]), rest = sigmoid(minus(g.x[1]));
            y = sum(product((struct number){ rest.v, rest.e + z.e }, hyperbolic(candidate(&g))),
                    product(z, exact(old)));
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
    struct slopes s = { .dh = exact(0), .dc = exact(0) };
    if (kind == LSTM) {
        const struct number cell = cell_of(g, c), in = sigmoid(g->x[0]), forget = sigmoid(g->x[1]);
        const struct number d = sum(dc, slope(cell, product(dh, sigmoid(g->x[3])), true));
        s.from[0] = slope(g->x[0], product(d, hyperbolic(g->x[2])), false);
        s.from[1] = slope(g->x[1], product(d, exact(c)), false);
        s.from[2] = slope(g->x[2], product(d, in), true);
        s.from[3] = slope(g->x[3], product(dh, hyperbolic(cell)), false);
        s.dc = product(d, forget);
    } else if (kind == GRU) {
        const struct number n = candidate(g);
        s.from[2] = slope(n, product(dh, sigmoid(minus(g->x[1]))), true);
        s.from[1] = slope(g->x[1], product(dh, sum(exact(h), minus(hyperbolic(n)))), false);
        s.from[0] = slope(g->x[0], product(s.from[2], g->product[2]), false);
        s.hidden = product(s.from[2], sigmoid(g->x[0]));
        s.dh = product(dh, sigmoid(g->x[1]));
    } else
        s.from[0] = slope(g->x[0], dh, true);
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
        struct number dh = exact(copse__load(slopes, p->slope_first + i)), dc = exact(0);
        if (has_cell)
            dc = exact(copse__load(slopes, p->slope_first + p->n + i));
        if (!p->is_first) {
            dh = sum(dh,
                     sum(exact(copse__load(carry, i)), exact(copse__load(carry, p->passed + i))));
            if (has_cell)
                dc = sum(dc, exact(copse__load(carry, p->passed + p->n + i)));
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
