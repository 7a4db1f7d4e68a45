/* SPDX-License-Identifier: MIT */
/* First values of variables. The same name and seed give the same values on every machine. */
#include <math.h>

#include "core/base/random.h"
#include "core/variable/storage.h"

/* What a row of the table gets. */
struct start {
    const struct copse_variable_params *p;
    struct copse_mem *mem;
    struct copse_stream stream;
    float scale;
    double fan_in, fan_out;
    float *to;
    uint64_t count;
};

static copse_status initializers_zeros(struct start *s)
{
    memset(s->to, 0, (size_t)s->count * sizeof(float));
    return COPSE_OK;
}

static copse_status initializers_ones(struct start *s)
{
    for (uint64_t i = 0; i < s->count; i++)
        s->to[i] = s->scale;
    return COPSE_OK;
}

static copse_status glorot_uniform(struct start *s)
{
    const float width = (float)sqrt(6.0 / (s->fan_in + s->fan_out));
    for (uint64_t i = 0; i < s->count; i++)
        s->to[i] = s->scale * width * (2.0f * copse__stream_unit(&s->stream) - 1.0f);
    return COPSE_OK;
}

static copse_status he_normal(struct start *s)
{
    const float width = (float)sqrt(2.0 / s->fan_in);
    for (uint64_t i = 0; i < s->count; i++)
        s->to[i] = s->scale * width * copse__stream_normal(&s->stream);
    return COPSE_OK;
}

static copse_status initializers_normal(struct start *s)
{
    for (uint64_t i = 0; i < s->count; i++)
        s->to[i] = s->scale * copse__stream_normal(&s->stream);
    return COPSE_OK;
}

/* Numbers beyond 2 are drawn again. */
static copse_status truncated_normal(struct start *s)
{
    for (uint64_t i = 0; i < s->count; i++) {
        float x = copse__stream_normal(&s->stream);
        while (fabsf(x) > 2.0f)
            x = copse__stream_normal(&s->stream);
        s->to[i] = s->scale * x;
    }
    return COPSE_OK;
}

/* ---- orthogonal ---- */

/* Eight sums in one fixed order, which compilers vectorize. */
static double initializers_dot(const double *a, const double *b, size_t n)
{
    double part[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            part[k] += a[i + k] * b[i + k];
    for (size_t k = 0; i < n; i++, k++)
        part[k] += a[i] * b[i];
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

/* v without its parts along the unit vectors before it. */
static void remove_parts(const double *before, size_t count, double *v, size_t n)
{
    for (size_t j = 0; j < count; j++) {
        const double along = initializers_dot(before + j * n, v, n);
        for (size_t i = 0; i < n; i++)
            v[i] -= along * before[j * n + i];
    }
}

/* The next unit vector: a normal one, orthogonal to those before it. Twice is enough (Giraud,
   Langou, Rozloznik, 2005). A vector that nearly depends on the others is drawn again. */
static void next_vector(struct copse_stream *stream, const double *before, size_t count, double *v,
                        size_t n)
{
    double start, length;
    do {
        for (size_t i = 0; i < n; i++)
            v[i] = (double)copse__stream_normal(stream);
        start = sqrt(initializers_dot(v, v, n));
        remove_parts(before, count, v, n);
        remove_parts(before, count, v, n);
        length = sqrt(initializers_dot(v, v, n));
    } while (!(length > 1e-6 * start));
    for (size_t i = 0; i < n; i++)
        v[i] /= length;
}

/* Orthonormal columns, or rows where these are fewer, of the matrix [all axes but the last,
   last]. */
static copse_status initializers_orthogonal(struct start *s)
{
    const copse_shape shape = s->p->shape;
    const size_t cols = shape.rank ? shape.dims[shape.rank - 1] : 1, rows = (size_t)s->count / cols;
    const size_t few = COPSE_MIN(rows, cols), many = COPSE_MAX(rows, cols);
    double *v = copse__alloc(s->mem, few * many, sizeof *v);
    COPSE_TRY(copse_need_memory(v, "variable '%s'", s->p->name));
    for (size_t i = 0; i < few; i++)
        next_vector(&s->stream, v, i, v + i * many, many);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            s->to[i * cols + j] =
                (float)((double)s->scale * (rows < cols ? v[i * many + j] : v[j * many + i]));
    copse__free(s->mem, v);
    return COPSE_OK;
}

/* ---- the table ---- */

static copse_status (*const rows[])(struct start *s) = {
    [COPSE_INIT_ZEROS] = initializers_zeros,
    [COPSE_INIT_ONES] = initializers_ones,
    [COPSE_INIT_GLOROT_UNIFORM] = glorot_uniform,
    [COPSE_INIT_HE_NORMAL] = he_normal,
    [COPSE_INIT_NORMAL] = initializers_normal,
    [COPSE_INIT_ORTHOGONAL] = initializers_orthogonal,
    [COPSE_INIT_TRUNCATED_NORMAL] = truncated_normal,
};

/* The product of all dimensions but the last two, the taps of a convolution; 1 where there are no
   others. */
static double taps_of(copse_shape s)
{
    double taps = 1;
    for (uint32_t i = 0; i + 2 < s.rank; i++)
        taps *= s.dims[i];
    return taps;
}

copse_status copse__initialize(struct copse_mem *mem, const struct copse_variable_params *p,
                               void *values)
{
    const copse_shape shape = p->shape;
    struct start s = {
        .p = p,
        .mem = mem,
        .scale = p->scale == 0.0f ? 1.0f : p->scale,
        .fan_in = shape.rank > 1 ? taps_of(shape) * shape.dims[shape.rank - 2]
                  : shape.rank   ? shape.dims[0]
                                 : 1,
        .fan_out = shape.rank ? taps_of(shape) * shape.dims[shape.rank - 1] : 1,
        .to = values,
        .count = copse__elements(shape),
    };
    if (p->type == COPSE_I32) { /* zeros or ones */
        for (uint64_t i = 0; i < s.count; i++)
            ((int32_t *)values)[i] = p->initializer == COPSE_INIT_ONES;
        return COPSE_OK;
    }
    copse__stream_init(&s.stream, p->seed ^ copse__hash(COPSE_HASH_START, p->name, strlen(p->name)),
                       0);
    return rows[p->initializer](&s);
}
