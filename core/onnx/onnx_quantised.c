/* SPDX-License-Identifier: MIT */
/* Whole numbers with scales and zero points: x = (number - zero point) * scale. Known numbers are
   computed here; others are i32 on devices, and arithmetic is done in f32. Whole numbers have no
   derivative. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* ---- scales ---- */

/* Scales and zero points of a tensor: one, one for each place on an axis, or one for each block of
   places. */
struct scales {
    const double *scale, *zero;   /* zero: NULL: all are 0 */
    size_t count, inner;          /* inner: elements after the axis */
    size_t length, blocks, block; /* block: 0: one scale, or one for each place on the axis */
    uint32_t axis;
    bool is_per_axis;
};

static bool scales_fit(struct onnx_walk *w, const struct onnx_value *x, const struct onnx_value *s,
                       struct scales *out)
{
    const onnx_node *n = w->step->node;
    const int64_t block = copse__onnx_int(n, "block_size", 0);
    out->count = (size_t)copse__elements(s->shape);
    if (block == 0 && s->shape.rank <= 1 && out->count == 1)
        return true;
    if (!copse__onnx_axis(w, copse__onnx_int(n, "axis", 1), x->shape.rank, &out->axis))
        return false;
    const uint32_t axis = out->axis;
    out->length = x->shape.dims[axis];
    out->inner = 1;
    for (uint32_t i = axis + 1; i < x->shape.rank; i++)
        out->inner *= x->shape.dims[i];
    copse_shape want = x->shape;
    if (block == 0) {
        want = COPSE_SHAPE(x->shape.dims[axis]);
        out->is_per_axis = true;
    } else if (block > 0 && block <= INT32_MAX) {
        out->block = (size_t)block;
        want.dims[axis] = (uint32_t)((out->length + out->block - 1) / out->block);
    }
    out->blocks = out->block ? (out->length + out->block - 1) / out->block : 0;
    bool fits = (out->is_per_axis || out->block > 0) && s->shape.rank == want.rank;
    for (uint32_t i = 0; fits && i < want.rank; i++)
        fits = s->shape.dims[i] == want.dims[i];
    return fits || copse__onnx_refuse(w, "scales %s with blocks of %lld on axis %u of %s",
                                      COPSE_SHAPE_TEXT(s->shape), (long long)block, axis,
                                      COPSE_SHAPE_TEXT(x->shape));
}

/* Whether all scales are above 0 and finite in f32; false: refused. */
static bool scales_are_valid(struct onnx_walk *w, const struct onnx_value *s, const double *scale)
{
    const size_t count = (size_t)copse__elements(s->shape);
    for (size_t i = 0; i < count; i++)
        if (!isfinite((float)scale[i]) || (float)scale[i] <= 0)
            return copse__onnx_refuse(w, "scale %zu is %g: scales are above 0 and finite", i,
                                      scale[i]);
    return true;
}

/* Operands 1 and 2 of the step at hand, for x, and whole numbers of `type`; false: refused. */
static bool scales_find(struct onnx_walk *w, const struct onnx_value *x, int32_t type,
                        struct scales *out)
{
    struct onnx_value *s = copse__onnx_in(w, 1), *z = copse__onnx_in(w, 2);
    *out = (struct scales){ .scale = copse__onnx_known(w, s, "scale") };
    if (!out->scale || !scales_are_valid(w, s, out->scale))
        return false;
    if (z && z->type != type)
        return copse__onnx_refuse(w, "zero points of type %s with numbers of type %s",
                                  copse__onnx_type_name(z->type), copse__onnx_type_name(type));
    if (z && copse__elements(z->shape) != copse__elements(s->shape))
        return copse__onnx_refuse(w, "scales %s with zero points %s", COPSE_SHAPE_TEXT(s->shape),
                                  COPSE_SHAPE_TEXT(z->shape));
    out->zero = z ? copse__onnx_known(w, z, "zero point") : NULL;
    return (!z || out->zero) && scales_fit(w, x, s, out);
}

/* The scale of element `i` of x. */
static size_t scales_place(const struct scales *s, size_t i)
{
    if (s->block == 0 && !s->is_per_axis)
        return 0;
    const size_t on_axis = i / s->inner % s->length;
    if (s->is_per_axis)
        return on_axis;
    return (i / s->inner / s->length * s->blocks + on_axis / s->block) * s->inner + i % s->inner;
}

/* As a tensor that is broadcast over x; NULL: refused. */
static copse_tensor *scales_tensor(struct onnx_walk *w, const struct onnx_value *x,
                                   const struct scales *s, const double *numbers)
{
    copse_shape shape = { .rank = 0 };
    float *values = copse__onnx_room(w, s->count, sizeof *values);
    if (s->block > 1) {
        copse__onnx_refuse(w, "blocks of numbers that depend on an input");
        return NULL;
    }
    for (size_t i = 0; values && i < s->count; i++)
        values[i] = (float)numbers[i];
    if (s->is_per_axis || s->block == 1) {
        shape.rank = x->shape.rank;
        for (uint32_t i = 0; i < shape.rank; i++)
            shape.dims[i] = i == s->axis || s->block == 1 ? x->shape.dims[i] : 1;
    }
    return values ? copse_constant(w->g, COPSE_F32, shape, values) : NULL;
}

/* ---- rounding ---- */

struct range {
    double low, high;
};

/* The numbers of a type that QuantizeLinear makes; false: refused. */
static bool range_of(struct onnx_walk *w, int32_t type, struct range *out)
{
    static const struct range ranges[] = { [ONNX_UINT8] = { 0, 255 },
                                           [ONNX_INT8] = { -128, 127 },
                                           [ONNX_UINT16] = { 0, 65535 },
                                           [ONNX_INT16] = { -32768, 32767 } };
    if (type < ONNX_UINT8 || type > ONNX_INT16)
        return copse__onnx_refuse(w, "it makes the type %s", copse__onnx_type_name(type));
    *out = ranges[type];
    return true;
}

/* The type that `output_dtype` says; `normal` without it, or where it is 0. false: refused. */
static bool output_type(struct onnx_walk *w, int32_t normal, int32_t *out)
{
    if (!copse__onnx_type_of(w, "output_dtype", 0, out))
        return false;
    *out = *out ? *out : normal;
    return true;
}

/* Settings of QuantizeLinear that would change its results; false: refused. */
static bool quantize_settings(struct onnx_walk *w)
{
    int32_t precision;
    if (!copse__onnx_type_of(w, "precision", 0, &precision))
        return false;
    if (precision != 0 && precision != ONNX_FLOAT)
        return copse__onnx_refuse(w, "precision %s: the division is computed in float",
                                  copse__onnx_type_name(precision));
    const int64_t saturate = copse__onnx_int(w->step->node, "saturate", 1);
    return saturate == 1 ||
           copse__onnx_refuse(w, "saturate %lld: numbers out of range become the last one",
                              (long long)saturate);
}

static copse_tensor *round_tensor(struct onnx_walk *w, copse_tensor *t, copse_tensor *scale,
                                  copse_tensor *zero, struct range r)
{
    t = copse__onnx_round(w->g, copse_div(w->g, t, scale), NULL);
    t = zero ? copse_add(w->g, t, zero) : t;
    return copse_clip(w->g, t, (float)r.low, (float)r.high);
}

void copse__onnx_quantize(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *z = copse__onnx_in(w, 2);
    const size_t count = (size_t)copse__elements(x->shape);
    int32_t type;
    struct scales s;
    struct range r;
    if (!output_type(w, z ? z->type : ONNX_UINT8, &type) || !quantize_settings(w))
        return;
    if (!copse__onnx_is_real(x->type))
        copse__onnx_refuse(w, "numbers of type %s", copse__onnx_type_name(x->type));
    else if (!range_of(w, type, &r) || !scales_find(w, x, type, &s))
        return;
    else if (copse__onnx_numbers(w, x)) {
        double *y = copse__onnx_room(w, count, sizeof *y);
        for (size_t i = 0; y && i < count; i++) {
            const size_t k = scales_place(&s, i);
            const double q = (double)nearbyintf((float)x->numbers[i] / (float)s.scale[k]);
            y[i] = fmin(fmax(q + (s.zero ? s.zero[k] : 0), r.low), r.high);
        }
        if (y)
            copse__onnx_set_numbers(w, 0, type, x->shape, y);
    } else {
        copse_tensor *scale = scales_tensor(w, x, &s, s.scale);
        copse_tensor *zero = s.zero && scale ? scales_tensor(w, x, &s, s.zero) : NULL;
        if (scale)
            copse__onnx_set_either(w, 0, type,
                                   round_tensor(w, copse__onnx_f32(w, x), scale, zero, r), false);
    }
}

void copse__onnx_dequantize(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *of = copse__onnx_in(w, 1);
    const size_t count = (size_t)copse__elements(x->shape);
    int32_t type;
    struct scales s;
    if (!output_type(w, of->type, &type))
        return;
    if (!copse__onnx_is_whole(x->type) || !copse__onnx_is_real(type)) {
        copse__onnx_refuse(w, "it makes %s of %s", copse__onnx_type_name(type),
                           copse__onnx_type_name(x->type));
        return;
    }
    if (!scales_find(w, x, x->type, &s))
        return;
    if (copse__onnx_numbers(w, x)) {
        double *y = copse__onnx_room(w, count, sizeof *y);
        for (size_t i = 0; y && i < count; i++) {
            const size_t k = scales_place(&s, i);
            y[i] =
                copse__onnx_rounded(type, (x->numbers[i] - (s.zero ? s.zero[k] : 0)) * s.scale[k]);
        }
        if (y)
            copse__onnx_set_numbers(w, 0, type, x->shape, y);
        return;
    }
    copse_tensor *scale = scales_tensor(w, x, &s, s.scale), *t = copse__onnx_f32(w, x);
    copse_tensor *zero = s.zero && scale ? scales_tensor(w, x, &s, s.zero) : NULL;
    if (scale)
        copse__onnx_set_either(w, 0, type,
                               copse_mul(w->g, zero ? copse_sub(w->g, t, zero) : t, scale), false);
}

/* One scale for all elements, by the smallest and the largest one, and 0. */
void copse__onnx_quantize_dynamic(struct onnx_walk *w)
{
    copse_graph *g = w->g;
    copse_tensor *x = copse__onnx_f32(w, copse__onnx_in(w, 0)), *none = copse_scalar(g, 0);
    copse_tensor *high = copse_maximum(g, copse_max(g, x, NULL, 0, false), none);
    copse_tensor *low =
        copse_minimum(g, copse_neg(g, copse_max(g, copse_neg(g, x), NULL, 0, false)), none);
    copse_tensor *scale = copse_multiply_by(g, copse_sub(g, high, low), 1.0f / 255);
    scale = copse_where(g, copse_equal(g, scale, none), copse_scalar(g, 1), scale);
    copse_tensor *zero = copse_div(g, copse_neg(g, low), scale);
    zero = copse__onnx_round(g, copse_clip(g, zero, 0, 255), NULL);
    copse__onnx_set_either(w, 0, ONNX_UINT8,
                           round_tensor(w, x, scale, zero, (struct range){ 0, 255 }), false);
    copse__onnx_set(w, 1, ONNX_FLOAT, scale);
    copse__onnx_set_either(w, 2, ONNX_UINT8, zero, false);
}

/* ---- products ---- */

/* Operands are whole numbers of 8 bits, and their zero points have their type; false: refused. */
static bool operand_fits(struct onnx_walk *w, size_t i)
{
    const struct onnx_value *x = copse__onnx_in(w, i), *z = copse__onnx_in(w, i + 2);
    if (x->type != ONNX_UINT8 && x->type != ONNX_INT8)
        return copse__onnx_refuse(w, "operand %zu of type %s: it takes uint8 and int8", i + 1,
                                  copse__onnx_type_name(x->type));
    return !z || z->type == x->type ||
           copse__onnx_refuse(w, "zero points of type %s with numbers of type %s",
                              copse__onnx_type_name(z->type), copse__onnx_type_name(x->type));
}

/* An operand minus its zero points: one number, or one for each row of the first operand and for
   each column of the second operand. */
static copse_tensor *shift_operand(struct onnx_walk *w, size_t i)
{
    struct onnx_value *x = copse__onnx_in(w, i), *z = copse__onnx_in(w, i + 2);
    copse_tensor *t = copse__onnx_f32(w, x);
    if (!z)
        return t;
    const uint32_t rank = x->shape.rank, count = (uint32_t)copse__elements(z->shape);
    const uint32_t rows = rank >= 2 ? x->shape.dims[rank - 2 + i] : 1;
    if (z->shape.rank > 1 || (count != 1 && (rank < 2 || count != rows))) {
        copse__onnx_refuse(w, "zero points %s of %s", COPSE_SHAPE_TEXT(z->shape),
                           COPSE_SHAPE_TEXT(x->shape));
        return t;
    }
    const copse_shape shape = count == 1 ? COPSE_SCALAR
                              : i == 0   ? COPSE_SHAPE(count, 1)
                                         : COPSE_SHAPE(count);
    return copse_sub(w->g, t, copse_reshape(w->g, copse__onnx_f32(w, z), shape));
}

void copse__onnx_matmul_integer(struct onnx_walk *w)
{
    struct onnx_value *a = copse__onnx_in(w, 0), *b = copse__onnx_in(w, 1);
    if (a->shape.rank < 2 || b->shape.rank < 2) {
        copse__onnx_refuse(w, "operands %s and %s", COPSE_SHAPE_TEXT(a->shape),
                           COPSE_SHAPE_TEXT(b->shape));
        return;
    }
    if (!operand_fits(w, 0) || !operand_fits(w, 1))
        return;
    copse_tensor *x = shift_operand(w, 0), *y = shift_operand(w, 1);
    copse__onnx_set_either(w, 0, ONNX_INT32, copse_matmul(w->g, x, y, false, false), false);
}
