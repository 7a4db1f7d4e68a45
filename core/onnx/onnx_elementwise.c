/* SPDX-License-Identifier: MIT */
/* Functions of each element, with broadcasting: of known numbers here, of others as ops. On devices
   whole numbers are computed as f32, which is exact below 2^24. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

static bool is_integer(int32_t type)
{
    return copse__onnx_is_whole(type) && type != ONNX_BOOL;
}

/* ---- results ---- */

void copse__onnx_set_either(struct onnx_walk *w, size_t i, int32_t type, copse_tensor *t,
                            bool is_last)
{
    if (!is_last) {
        copse__onnx_set(w, i, type, is_integer(type) ? copse_cast(w->g, t, COPSE_I32) : t);
        return;
    }
    copse__onnx_set_last(w, i, t);
    struct onnx_value *v = copse__onnx_wants(w, i) ? &w->values[w->step->out[i]] : &w->unwanted;
    if (is_integer(type))
        copse__onnx_set(w, i, type, copse_cast(w->g, copse__onnx_plain(w, v), COPSE_I32));
    else
        v->type = type;
}

/* ---- of one operand ---- */

void copse__onnx_one(struct onnx_walk *w)
{
    const struct copse_onnx_row *row = w->step->row;
    struct onnx_value *x = copse__onnx_in(w, 0);
    const int32_t type = row->type ? row->type : x->type;
    if (row->number && copse__onnx_numbers(w, x)) {
        const size_t count = (size_t)copse__elements(x->shape);
        double *y = copse__onnx_room(w, count, sizeof *y);
        for (size_t i = 0; y && i < count; i++)
            y[i] = copse__onnx_rounded(type, row->number(x->numbers[i]));
        if (y)
            copse__onnx_set_numbers(w, 0, type, x->shape, y);
        return;
    }
    const bool is_last = copse__onnx_is_last(x) && !is_integer(type);
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    t = row->one ? row->one(w->g, t) : row->with(w->g, t, w->step->node);
    copse__onnx_set_either(w, 0, type, t, is_last);
}

/* ---- of two operands ---- */

/* A tensor of a lower rank as channels-last of this rank. */
static copse_tensor *pad_last(struct onnx_walk *w, struct onnx_value *v, uint32_t rank)
{
    if (v->shape.rank == rank)
        return copse__onnx_last(w, v);
    copse_shape s = { rank, { 0 } };
    for (uint32_t i = 0; i < rank; i++)
        s.dims[i] = i < rank - v->shape.rank ? 1 : v->shape.dims[i - (rank - v->shape.rank)];
    return copse__onnx_move_last(w, copse_reshape(w->g, copse__onnx_f32(w, v), s));
}

bool copse__onnx_pair(struct onnx_walk *w, struct onnx_value *a, struct onnx_value *b,
                      copse_tensor *pair[2])
{
    const uint32_t rank = COPSE_MAX(a->shape.rank, b->shape.rank);
    const bool is_last = (copse__onnx_is_last(a) && a->shape.rank == rank) ||
                         (copse__onnx_is_last(b) && b->shape.rank == rank);
    pair[0] = is_last ? pad_last(w, a, rank) : copse__onnx_f32(w, a);
    pair[1] = is_last ? pad_last(w, b, rank) : copse__onnx_f32(w, b);
    return is_last;
}

/* The place in `s`, padded with axes of 1, of element `i` of `whole`. */
static size_t place_of(copse_shape whole, copse_shape s, size_t i)
{
    size_t at = 0, step = 1;
    for (uint32_t k = 1; k <= whole.rank; k++) {
        const uint32_t d = whole.dims[whole.rank - k], own = k <= s.rank ? s.dims[s.rank - k] : 1;
        at += own == 1 ? 0 : i % d * step;
        step *= own;
        i /= d;
    }
    return at;
}

/* Compute known numbers. False: some are not known. */
static bool fold_two(struct onnx_walk *w, struct onnx_value *a, struct onnx_value *b, int32_t type,
                     double (*f)(double, double), struct onnx_value *out)
{
    copse_shape shape;
    if (!f || !copse__onnx_numbers(w, a) || !copse__onnx_numbers(w, b) ||
        !copse__onnx_broadcast(a->shape, b->shape, &shape) ||
        copse__elements(shape) > ONNX_KNOWN_MOST)
        return false;
    const size_t count = (size_t)copse__elements(shape);
    double *y = copse__onnx_room(w, count, sizeof *y);
    for (size_t i = 0; y && i < count; i++)
        y[i] = copse__onnx_rounded(type, f(a->numbers[place_of(shape, a->shape, i)],
                                           b->numbers[place_of(shape, b->shape, i)]));
    *out = (struct onnx_value){ .type = type, .shape = shape, .numbers = y, .is_there = true };
    return true;
}

void copse__onnx_two(struct onnx_walk *w)
{
    const struct copse_onnx_row *row = w->step->row;
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1), y;
    const int32_t type = row->type ? row->type : a->type;
    if (fold_two(w, a, b, type, row->numbers, &y)) {
        copse__onnx_set_numbers(w, 0, type, y.shape, y.numbers);
        return;
    }
    copse_tensor *pair[2];
    const bool is_last = copse__onnx_pair(w, a, b, pair);
    copse__onnx_set_either(w, 0, type, row->two(w->g, pair[0], pair[1]), is_last);
}

void copse__onnx_compare(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1), y;
    const struct copse_onnx_row *row = w->step->row;
    if (!is_integer(a->type) || !is_integer(b->type)) {
        copse__onnx_two(w);
        return;
    }
    if (fold_two(w, a, b, ONNX_BOOL, row->numbers, &y))
        copse__onnx_set_numbers(w, 0, ONNX_BOOL, y.shape, y.numbers);
    else
        copse__onnx_set(w, 0, ONNX_BOOL,
                        row->two(w->g, copse__onnx_i32(w, a), copse__onnx_i32(w, b)));
}

/* Whole numbers: towards zero. (|a| + 1/2) / |b| is never near a whole number. */
void copse__onnx_div(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1), y;
    if (!is_integer(a->type)) {
        copse__onnx_two(w);
        return;
    }
    if (fold_two(w, a, b, a->type, w->step->row->numbers, &y)) {
        copse__onnx_set_numbers(w, 0, a->type, y.shape, y.numbers);
        return;
    }
    copse_tensor *x = copse__onnx_f32(w, a);
    x = copse_add(w->g, x, copse_multiply_by(w->g, copse__onnx_sign(w->g, x, NULL), 0.5f));
    copse__onnx_set_either(w, 0, a->type, copse_div(w->g, x, copse__onnx_f32(w, b)), false);
}

/* The product of a swish and another operand. */
void copse__onnx_swiglu(struct onnx_walk *w)
{
    copse_tensor *pair[2];
    const bool is_last = copse__onnx_pair(w, copse__onnx_in(w, 0), copse__onnx_in(w, 1), pair);
    copse_tensor *gate = copse__onnx_swish(w->g, pair[0], w->step->node);
    copse__onnx_set_either(w, 0, copse__onnx_in(w, 0)->type, copse_mul(w->g, gate, pair[1]),
                           is_last);
}

/* With the sign of b, also of 0. */
static double mod_floor(double a, double b)
{
    const double r = fmod(a, b);
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

void copse__onnx_mod(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1), y;
    const bool is_fmod = copse__onnx_int(w->step->node, "fmod", 0) != 0;
    if (fold_two(w, a, b, a->type, is_fmod ? fmod : mod_floor, &y))
        copse__onnx_set_numbers(w, 0, a->type, y.shape, y.numbers);
    else
        copse__onnx_refuse(w, "its operands must be known when the graph is built");
}

void copse__onnx_pow(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1), y;
    if (fold_two(w, a, b, a->type, pow, &y)) {
        copse__onnx_set_numbers(w, 0, a->type, y.shape, y.numbers);
        return;
    }
    const double *e = copse__onnx_known(w, b, "exponent");
    if (!e || copse__elements(b->shape) != 1 || b->shape.rank > a->shape.rank || !isfinite(*e)) {
        copse__onnx_refuse(w, "its exponent must be one finite number");
        return;
    }
    const bool is_last = copse__onnx_is_last(a);
    copse_tensor *x = is_last ? copse__onnx_last(w, a) : copse__onnx_f32(w, a);
    x = *e == 2.0   ? copse_square(w->g, x)
        : *e == 0.5 ? copse_sqrt(w->g, x)
                    : copse_pow(w->g, x, (float)*e);
    copse__onnx_set_either(w, 0, a->type, x, is_last);
}

/* ---- of any number ---- */

void copse__onnx_many(struct onnx_walk *w)
{
    const struct copse_onnx_row *row = w->step->row;
    const size_t count = copse__onnx_inputs_of(w);
    const bool is_mean = strcmp(row->name, "Mean") == 0;
    const int32_t type = copse__onnx_in(w, 0)->type;
    struct onnx_value y = *copse__onnx_in(w, 0);
    for (size_t i = 1; i < count; i++) {
        struct onnx_value *b = copse__onnx_in(w, i), a = y;
        if (fold_two(w, &a, b, type, row->numbers, &y))
            continue;
        copse_tensor *pair[2];
        const bool is_last = copse__onnx_pair(w, &a, b, pair);
        copse_tensor *t = row->two(w->g, pair[0], pair[1]);
        if (copse_graph_status(w->g) != COPSE_OK)
            return;
        copse__onnx_set_either(w, 0, type, t, is_last);
        y = copse__onnx_wants(w, 0) ? w->values[w->step->out[0]] : w->unwanted;
    }
    if (!is_mean) {
        copse__onnx_set_same(w, 0, &y);
        return;
    }
    const bool is_last = copse__onnx_is_last(&y);
    copse_tensor *t = is_last ? copse__onnx_last(w, &y) : copse__onnx_f32(w, &y);
    copse__onnx_set_either(w, 0, type, copse_multiply_by(w->g, t, 1.0f / (float)count), is_last);
}

/* ---- others ---- */

/* A bound of a clip as a number; false: it is a tensor. */
static bool bound_of(struct onnx_walk *w, size_t i, const char *attribute, double normal,
                     double *out)
{
    struct onnx_value *v = copse__onnx_in(w, i);
    *out = normal;
    if (!v)
        *out = (double)copse__onnx_float(w->step->node, attribute, (float)normal);
    else if (copse__elements(v->shape) != 1 || !copse__onnx_numbers(w, v))
        return false;
    else
        *out = v->numbers[0];
    return true;
}

void copse__onnx_clip(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    double low, high;
    const bool has_low = bound_of(w, 1, "min", -INFINITY, &low),
               has_high = bound_of(w, 2, "max", INFINITY, &high);
    if (has_low && has_high && copse__onnx_numbers(w, x)) {
        const size_t count = (size_t)copse__elements(x->shape);
        double *y = copse__onnx_room(w, count, sizeof *y);
        for (size_t i = 0; y && i < count; i++)
            y[i] = fmin(fmax(x->numbers[i], low), high);
        if (y)
            copse__onnx_set_numbers(w, 0, x->type, x->shape, y);
        return;
    }
    const bool is_last = copse__onnx_is_last(x);
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    if (has_low && has_high) { /* ONNX: the upper bound where the lower one is above it */
        t = copse_clip(w->g, t, (float)fmin(low, high), (float)high);
    } else {
        struct onnx_value *a = copse__onnx_in(w, 1), *b = copse__onnx_in(w, 2);
        if (a)
            t = copse_maximum(w->g, t, copse__onnx_f32(w, a));
        if (b)
            t = copse_minimum(w->g, t, copse__onnx_f32(w, b));
    }
    copse__onnx_set_either(w, 0, x->type, t, is_last);
}

static bool fold_where(struct onnx_walk *w, struct onnx_value *c, struct onnx_value *a,
                       struct onnx_value *b)
{
    copse_shape ab, shape;
    if (!copse__onnx_numbers(w, c) || !copse__onnx_numbers(w, a) || !copse__onnx_numbers(w, b) ||
        !copse__onnx_broadcast(a->shape, b->shape, &ab) ||
        !copse__onnx_broadcast(ab, c->shape, &shape) || copse__elements(shape) > ONNX_KNOWN_MOST)
        return false;
    const size_t count = (size_t)copse__elements(shape);
    double *y = copse__onnx_room(w, count, sizeof *y);
    for (size_t i = 0; y && i < count; i++)
        y[i] = c->numbers[place_of(shape, c->shape, i)] != 0
                   ? a->numbers[place_of(shape, a->shape, i)]
                   : b->numbers[place_of(shape, b->shape, i)];
    if (y)
        copse__onnx_set_numbers(w, 0, a->type, shape, y);
    return true;
}

void copse__onnx_where(struct onnx_walk *w)
{
    struct onnx_value *c = copse__onnx_in(w, 0), *a = copse__onnx_in(w, 1),
                      *b = copse__onnx_in(w, 2);
    if (fold_where(w, c, a, b))
        return;
    const bool is_whole = is_integer(a->type) && is_integer(b->type);
    copse_tensor *x = is_whole ? copse__onnx_i32(w, a) : copse__onnx_f32(w, a),
                 *y = is_whole ? copse__onnx_i32(w, b) : copse__onnx_f32(w, b);
    copse__onnx_set(w, 0, a->type, copse_where(w->g, copse__onnx_plain(w, c), x, y));
}

/* A known number as another type; small integers wrap around. */
static double cast_number(int32_t to, double x)
{
    static const uint8_t bits[] = { 0, 0, 8, 8, 16, 16, 32 };
    x = copse__onnx_rounded(to, x);
    if (to < ONNX_UINT8 || to > ONNX_INT32 || fabs(x) > 9e15)
        return x;
    const int64_t span = (int64_t)1 << bits[to];
    int64_t y = (int64_t)x % span;
    y += y < 0 ? span : 0;
    const bool is_signed = to == ONNX_INT8 || to == ONNX_INT16 || to == ONNX_INT32;
    return (double)(is_signed && y >= span / 2 ? y - span : y);
}

void copse__onnx_cast(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *like = copse__onnx_in(w, 1);
    int32_t to = like ? like->type : 0;
    if (!like && !copse__onnx_type_of(w, "to", 0, &to))
        return;
    if (!copse__onnx_is_real(to) && !copse__onnx_is_whole(to)) {
        copse__onnx_refuse(w, "it makes the type %s", copse__onnx_type_name(to));
        return;
    }
    if (copse__onnx_numbers(w, x) && !(x->weight && copse__onnx_is_real(x->type) &&
                                       copse__onnx_is_real(to) && to != ONNX_FLOAT16)) {
        const size_t count = (size_t)copse__elements(x->shape);
        double *y = copse__onnx_room(w, count, sizeof *y);
        for (size_t i = 0; y && i < count; i++)
            y[i] = cast_number(to, x->numbers[i]);
        if (y)
            copse__onnx_set_numbers(w, 0, to, x->shape, y);
        return;
    }
    const bool is_small =
        to == ONNX_UINT8 || to == ONNX_INT8 || to == ONNX_UINT16 || to == ONNX_INT16;
    if (is_small && x->type != ONNX_BOOL && x->type != to) {
        copse__onnx_refuse(w, "it makes the type %s, which wraps around",
                           copse__onnx_type_name(to));
        return;
    }
    const bool is_last = copse__onnx_is_last(x) && !is_integer(to);
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    if (to == ONNX_BOOL)
        t = copse_not_equal(w->g, t, copse_scalar(w->g, 0));
    else if ((to == ONNX_FLOAT16 || to == ONNX_BFLOAT16) && to != x->type)
        t = copse_cast(w->g, copse_cast(w->g, t, to == ONNX_FLOAT16 ? COPSE_F16 : COPSE_BF16),
                       COPSE_F32);
    if (is_integer(to) && is_integer(x->type)) {
        copse__onnx_set(w, 0, to, copse__onnx_plain(w, x));
        return;
    }
    copse__onnx_set_either(w, 0, to, t, is_last);
}

void copse__onnx_dropout(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *given = copse__onnx_in(w, 1);
    double rate = (double)copse__onnx_float(w->step->node, "ratio", 0.5f);
    struct onnx_value *mode = copse__onnx_in(w, 2);
    if (given && copse__elements(given->shape) == 1) {
        const double *known = copse__onnx_known(w, given, "ratio");
        rate = known ? *known : 0;
    }
    const double *is_on = mode ? copse__onnx_numbers(w, mode) : NULL;
    const bool acts = w->params->is_training && rate > 0;
    if (is_on && *is_on != 0 && rate > 0 && !acts) {
        copse__onnx_refuse(w, "it acts in predictions, too");
        return;
    }
    if (copse__onnx_wants(w, 1) && acts)
        copse__onnx_refuse(w, "its mask is not computed");
    else if (copse__onnx_wants(w, 1))
        copse__onnx_set(w, 1, ONNX_BOOL, copse_fill(w->g, COPSE_F32, x->shape, 1));
    if (acts)
        copse__onnx_set(w, 0, x->type,
                        copse_dropout(w->g, copse__onnx_f32(w, x), (float)rate, true));
    else
        copse__onnx_set_same(w, 0, x);
}
