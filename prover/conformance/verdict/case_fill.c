/* SPDX-License-Identifier: MIT */
/* The input values of a case: always the same for the same name and seed, all representable in its
   type. */
#include <math.h>

#include "core/base/random.h"
#include "core/graph/type.h"
#include "prover/conformance/verdict/conformance.h"

#define KINK 1e-3 /* smaller numbers are moved away from zero, where derivatives may jump */

uint64_t copse__case_seed(const char *op, const char *name)
{
    uint64_t h = copse__hash(COPSE_HASH_START, op, strlen(op));
    h = copse__hash(h, "/", 1);
    return copse__hash(h, name, strlen(name));
}

uint64_t copse__run_seed(uint64_t seed, const char *op, const char *name)
{
    const uint64_t own = copse__case_seed(op, name);
    return seed ? copse__hash(own, &seed, sizeof seed) : own;
}

/* ---- special values ---- */

/* Ends of ranges, halves, neighbours of powers of two, subnormals. Each is used with both signs. */
static const double specials_f32[] = {
    NAN,
    INFINITY,
    0x1.fffffep127,
    0x1.000002p64,
    0x1p64,
    0x1.fffffep63,
    0x1.000002p63,
    0x1p63,
    0x1.fffffep62,
    0x1.000002p32,
    0x1p32,
    0x1.fffffep31,
    0x1.000002p31,
    0x1p31,
    0x1.fffffep30,
    1000,
    100,
    88.75,
    87.5,
    0x1.000002p2,
    4,
    0x1.fffffep1,
    3,
    0x1.000002p1,
    2,
    0x1.fffffep0,
    1.5,
    0x1.000002p0,
    1,
    0x1.fffffep-1,
    0x1.000002p-1,
    0.5,
    0x1.fffffep-2,
    0x1.000002p-2,
    0.25,
    0x1.fffffep-3,
    0x1.ad7f2ap-24,
    0x1.000002p-126,
    0x1p-126,
    0x1.fffffcp-127,
    0x1.000004p-127,
    0x1p-127,
    0x1.fffffp-130,
    0x1.8p-148,
    0x1p-148,
    0x1p-149,
    0,
};

static const double specials_i32[] = {
    0, 1, 2, 7, 16777215, 16777216, 16777217, 2147483646, 2147483647,
};

/* Element i is pair number p: input 0 iterates through the values fastest. With fewer elements than
   pairs, a stride selects pairs so that every value still occurs in every input. */
static double case_fill_special(copse_type type, uint32_t index, size_t i, size_t count)
{
    const double *table = copse__type(type)->computed == COPSE_I32 ? specials_i32 : specials_f32;
    const size_t half = copse__type(type)->computed == COPSE_I32 ? COPSE_COUNT(specials_i32)
                                                                 : COPSE_COUNT(specials_f32);
    const size_t values = 2 * half, pairs = values * values;
    size_t p = count < pairs ? i % pairs * 7919 % pairs : i; /* 7919 is prime to both tables */
    for (uint32_t k = 0; k < index; k++)
        p /= values;
    const double v = table[p % values % half];
    return p % values < half ? v : -v;
}

/* ---- bit patterns ---- */

static bool is_prime(uint64_t n)
{
    for (uint64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

uint64_t copse__pattern_stride(size_t count)
{
    uint64_t stride = ((uint64_t)1 << 32) / COPSE_MAX(count, 1) + 1;
    while (!is_prime(stride))
        stride++;
    return stride;
}

/* For a type of fewer bits: all of its patterns in turn. */
static double short_pattern(const struct copse_type_row *type, uint64_t seed, size_t i)
{
    const uint64_t bits = (seed + i) * 7919; /* odd: every pattern occurs */
    return type->get(&bits, 0);
}

/* Inputs other than the first use the same patterns in other orders: every odd factor permutes. */
static double case_fill_pattern(uint32_t index, uint64_t seed, uint64_t stride, size_t i)
{
    const uint32_t factor = index == 0 ? 1 : 2654435761u * (2 * index - 1);
    const uint32_t bits = (uint32_t)(seed % stride + i * stride) * factor;
    float f;
    memcpy(&f, &bits, sizeof f);
    return isnan(f) ? NAN : (double)f;
}

/* ---- sums ---- */

/* Largest magnitude for which sums of products of whole numbers are exact for any summed axes. */
static double largest_integer(const struct copse_case *c)
{
    uint64_t terms = 1;
    for (size_t i = 0; i < c->in_count; i++)
        terms = COPSE_MAX(terms, copse__elements(c->in[i].shape));
    return fmin(100, fmax(1, floor(sqrt(0x1p24 / (double)terms))));
}

/* A checkerboard: neighbours along any axis have nearly the same magnitude and opposite signs. A
   second operand keeps its sign, so that products cancel like the first operand. */
static double case_fill_cancelling(copse_shape shape, uint32_t index, uint64_t seed, size_t i,
                                   double unit)
{
    size_t rest = i, parity = 0;
    uint64_t block = copse__hash(seed, &index, sizeof index);
    for (uint32_t k = shape.rank; k-- > 0;) {
        const size_t at = shape.dims[k] ? rest % shape.dims[k] : 0;
        const uint64_t half = at / 2;
        rest = shape.dims[k] ? rest / shape.dims[k] : 0;
        parity += at;
        block = copse__hash(block, &half, sizeof half);
    }
    const double v = (1 + (double)(block >> 40) * 0x1p-24) * (1 + 0x1p-10 * unit);
    return parity % 2 && index % 2 == 0 ? -v : v;
}

/* One number for each row. Half of a ULP of it is 2^-24, so a chain that it begins loses the
   others. */
static double of_row(const struct copse_case_input *in, uint32_t index, uint64_t seed, size_t i)
{
    const size_t length = in->shape.rank ? in->shape.dims[in->shape.rank - 1] : 1,
                 row = i / COPSE_MAX(length, 1);
    const uint64_t key[2] = { index, row };
    if (in->fill == COPSE_FILL_LOST && i % length > 0)
        return 0x1.fffffep-25;
    return 1 + (double)(copse__hash(seed, key, sizeof key) >> 41) * 0x1p-23;
}

/* ---- a value ---- */

static double case_fill_away(double x)
{
    return fabs(x) < KINK ? x + copysign(KINK, x) : x;
}

static double case_fill_draw(struct copse_stream *s, const struct copse_case_input *in, double a)
{
    const bool has_range = in->low != in->high;
    switch (in->fill) {
    case COPSE_FILL_INTEGERS:
        if (has_range)
            return in->low + (double)copse__stream_below(s, (uint32_t)(in->high - in->low) + 1);
        return (double)copse__stream_below(s, (uint32_t)(2 * a) + 1) - a;
    case COPSE_FILL_NORMAL:
        return case_fill_away((double)copse__stream_normal(s));
    case COPSE_FILL_POSITIVE:
        return 0.5 + (double)copse__stream_unit(s);
    case COPSE_FILL_SPREAD: {
        const double low = has_range ? in->low : -60, high = has_range ? in->high : 60;
        const uint32_t span = (uint32_t)(high - low) + 1;
        const double x = (double)copse__stream_normal(s);
        return ldexp(x, (int)low + (int)copse__stream_below(s, span));
    }
    default:
        if (copse__type(in->type)->computed == COPSE_I32)
            return floor(in->low + (double)copse__stream_unit(s) * (in->high - in->low + 1));
        return case_fill_away(in->low + (double)copse__stream_unit(s) * (in->high - in->low));
    }
}

/* The slope, from which the gradient starts, is the input after the last: whole numbers if all
   inputs are. */
static struct copse_case_input slope_of(const struct copse_case *c)
{
    struct copse_case_input slope = { .type = COPSE_F32, .low = -2, .high = 2 };
    bool is_whole = c->in_count > 0;
    for (size_t i = 0; i < c->in_count; i++)
        is_whole = is_whole && c->in[i].fill == COPSE_FILL_INTEGERS;
    if (is_whole) {
        slope.fill = COPSE_FILL_INTEGERS;
        slope.low = slope.high = 0;
    }
    return slope;
}

void copse__fill(const struct copse_case *c, uint32_t index, uint64_t seed, size_t count,
                 double *values)
{
    const struct copse_case_input in = index < c->in_count ? c->in[index] : slope_of(c);
    const uint64_t stride = in.fill == COPSE_FILL_PATTERNS ? copse__pattern_stride(count) : 0;
    const double a = largest_integer(c);
    double element[1]; /* of any type */
    struct copse_stream s;
    copse__stream_init(&s, seed, index + 1);
    for (size_t i = 0; i < count; i++) {
        double v;
        switch (in.fill) {
        case COPSE_FILL_SPECIAL:
            v = case_fill_special(in.type, index, i, count);
            break;
        case COPSE_FILL_PATTERNS:
            v = copse__type_bytes(in.type) < 4 ? short_pattern(copse__type(in.type), seed, i)
                                               : case_fill_pattern(index, seed, stride, i);
            break;
        case COPSE_FILL_VALUES:
            v = in.value_count ? in.values[i % in.value_count] : 0;
            break;
        case COPSE_FILL_LAST: {
            const uint32_t row = in.shape.rank ? in.shape.dims[in.shape.rank - 1] : 1;
            v = i % row + 1 == row ? in.high + 2 : case_fill_draw(&s, &in, a);
            break;
        }
        case COPSE_FILL_CANCELLING:
            v = case_fill_cancelling(in.shape, index, seed, i, (double)copse__stream_unit(&s));
            break;
        case COPSE_FILL_ROWS:
        case COPSE_FILL_LOST:
            v = of_row(&in, index, seed, i);
            break;
        default:
            v = case_fill_draw(&s, &in, a);
        }
        copse__type(in.type)->put(element, 0, v);
        values[i] = copse__type(in.type)->get(element, 0);
    }
}
