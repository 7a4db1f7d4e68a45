/* SPDX-License-Identifier: MIT */
/* Convolutions, pooling and resizing: of images [n, c, h, w] and sequences [n, c, w], computed
   channels-last. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/conv.h"
#include "copse/ops/pool.h"
#include "copse/ops/resize.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* Windows along the spatial axes. */
struct windows {
    uint32_t axes;
    int64_t size[2], stride[2], dilation[2], before[2], after[2];
};

#define SIDE_MOST 65535 /* of strides, dilations and pads */

/* A list of an attribute with an entry for each axis. */
static bool window_list(struct onnx_walk *w, const char *name, uint32_t axes, int64_t normal,
                        int64_t low, int64_t *out)
{
    size_t count;
    const int64_t *given = copse__onnx_ints(w->step->node, name, &count);
    if (given && count != axes)
        return copse__onnx_refuse(w, "%zu %s for %u axes", count, name, axes);
    for (uint32_t i = 0; i < axes; i++) {
        out[i] = given ? given[i] : normal;
        if (out[i] < low || out[i] > SIDE_MOST)
            return copse__onnx_refuse(w, "%s of %lld", name, (long long)out[i]);
    }
    return true;
}

/* The elements that a window spans on axis i. */
static int64_t window_span(const struct windows *s, uint32_t i)
{
    return (s->size[i] - 1) * s->dilation[i] + 1;
}

/* `total` zeros on both sides of axis i: the larger half is at the end, or at the beginning. */
static void window_halves(struct windows *s, uint32_t i, int64_t total, bool is_lower)
{
    const int64_t small = total / 2;
    s->before[i] = is_lower ? total - small : small;
    s->after[i] = total - s->before[i];
}

static bool is_same(const struct onnx_walk *w, bool *is_lower)
{
    *is_lower = copse__onnx_text_is(w->step->node, "auto_pad", "NOTSET", "SAME_LOWER");
    return *is_lower || copse__onnx_text_is(w->step->node, "auto_pad", "NOTSET", "SAME_UPPER");
}

/* Sizes are set. */
static bool windows_read(struct onnx_walk *w, struct windows *s, copse_shape shape)
{
    int64_t pads[4] = { 0 };
    bool is_lower;
    size_t count;
    const int64_t *given = copse__onnx_ints(w->step->node, "pads", &count);
    if (!window_list(w, "strides", s->axes, 1, 1, s->stride) ||
        !window_list(w, "dilations", s->axes, 1, 1, s->dilation))
        return false;
    if (given && count != 2 * s->axes)
        return copse__onnx_refuse(w, "%zu pads for %u axes", count, s->axes);
    for (uint32_t i = 0; given && i < count; i++) {
        pads[i] = given[i];
        if (pads[i] < 0 || pads[i] > SIDE_MOST)
            return copse__onnx_refuse(w, "pads of %lld", (long long)pads[i]);
    }
    for (uint32_t i = 0; i < s->axes; i++) {
        s->before[i] = pads[i];
        s->after[i] = pads[i + s->axes];
        if (is_same(w, &is_lower)) {
            const int64_t n = shape.dims[2 + i], out = (n + s->stride[i] - 1) / s->stride[i];
            const int64_t total = (out - 1) * s->stride[i] + window_span(s, i) - n;
            window_halves(s, i, COPSE_MAX(total, 0), is_lower);
        }
    }
    return true;
}

static bool has_windows(struct onnx_walk *w, copse_shape s)
{
    return s.rank == 3 || s.rank == 4 ||
           copse__onnx_refuse(w, "windows of shape %s: one or two spatial axes are computed",
                              COPSE_SHAPE_TEXT(s));
}

/* Sizes from the weights [.., .., taps..]. */
static bool windows_of(struct onnx_walk *w, struct windows *s, copse_shape x, copse_shape weights)
{
    s->axes = x.rank - 2;
    if (weights.rank != x.rank)
        return copse__onnx_refuse(w, "weights of shape %s", COPSE_SHAPE_TEXT(weights));
    for (uint32_t i = 0; i < s->axes; i++)
        s->size[i] = weights.dims[2 + i];
    return true;
}

static struct copse_conv_params conv_params(const struct windows *s, uint32_t groups)
{
    struct copse_conv_params p = { .groups = groups };
    for (uint32_t i = 0; i < s->axes; i++) {
        p.stride[i] = (uint32_t)s->stride[i];
        p.dilation[i] = (uint32_t)s->dilation[i];
        p.before[i] = (uint32_t)s->before[i];
        p.after[i] = (uint32_t)s->after[i];
    }
    return p;
}

static copse_tensor *conv_bias(struct onnx_walk *w)
{
    struct onnx_value *b = copse__onnx_in(w, 2);
    return b ? copse__onnx_f32(w, b) : NULL;
}

static bool groups_of(struct onnx_walk *w, uint32_t channels, uint32_t *out)
{
    const int64_t n = copse__onnx_int(w->step->node, "group", 1);
    if (n < 1 || n > channels || channels % n)
        return copse__onnx_refuse(w, "%lld groups of %u channels", (long long)n, channels);
    *out = (uint32_t)n;
    return true;
}

void copse__onnx_conv(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *k = copse__onnx_in(w, 1);
    struct windows s = { 0 };
    uint32_t groups, order[COPSE_MAX_RANK];
    if (!has_windows(w, x->shape) || !windows_of(w, &s, x->shape, k->shape) ||
        !windows_read(w, &s, x->shape) || !groups_of(w, x->shape.dims[1], &groups))
        return;
    for (uint32_t i = 0; i < s.axes; i++)
        order[i] = 2 + i;
    order[s.axes] = 1;
    order[s.axes + 1] = 0;
    const struct copse_conv_params p = conv_params(&s, groups);
    copse_tensor *weights = copse_transpose(w->g, copse__onnx_f32(w, k), order);
    copse__onnx_set_either(
        w, 0, x->type, copse_conv(w->g, copse__onnx_last(w, x), weights, conv_bias(w), &p), true);
}

/* Pads of a transposed convolution from its output's shape; false: refused. */
static bool transposed_pads(struct onnx_walk *w, struct windows *s, copse_shape x, int64_t *extra)
{
    bool is_lower;
    size_t count;
    const int64_t *shape = copse__onnx_ints(w->step->node, "output_shape", &count);
    const bool is_auto = is_same(w, &is_lower);
    if (!shape && !is_auto)
        return true;
    if (shape && count != s->axes && count != s->axes + 2)
        return copse__onnx_refuse(w, "an output of %zu axes", count);
    for (uint32_t i = 0; i < s->axes; i++) {
        const int64_t n = x.dims[2 + i],
                      out = shape ? shape[count - s->axes + i] : n * s->stride[i];
        const int64_t total = (n - 1) * s->stride[i] + window_span(s, i) + extra[i] - out;
        if (out < 1 || out > INT32_MAX || total > SIDE_MOST)
            return copse__onnx_refuse(w, "an output of %lld", (long long)out);
        extra[i] += COPSE_MAX(-total, 0);
        /* without SAME the larger half is at the beginning */
        window_halves(s, i, COPSE_MAX(total, 0), is_auto ? is_lower : true);
    }
    return true;
}

void copse__onnx_conv_transposed(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *k = copse__onnx_in(w, 1);
    struct windows s = { 0 };
    uint32_t groups;
    int64_t extra[2] = { 0 };
    if (!has_windows(w, x->shape) || !windows_of(w, &s, x->shape, k->shape) ||
        !windows_read(w, &s, x->shape) || !groups_of(w, x->shape.dims[1], &groups) ||
        !window_list(w, "output_padding", s.axes, 0, 0, extra) ||
        !transposed_pads(w, &s, x->shape, extra))
        return;
    struct copse_conv_params p = conv_params(&s, groups);
    for (uint32_t i = 0; i < s.axes; i++)
        p.extra[i] = (uint32_t)extra[i];
    /* [c, o / groups, taps] as [taps, c / groups, o] */
    const uint32_t inner = k->shape.dims[0] / groups, each = k->shape.dims[1],
                   taps = (uint32_t)(s.size[0] * (s.axes > 1 ? s.size[1] : 1));
    copse_tensor *weights =
        copse_reshape(w->g, copse__onnx_f32(w, k), COPSE_SHAPE(groups, inner, each, taps));
    weights = copse_transpose(w->g, weights, (const uint32_t[]){ 3, 1, 0, 2 });
    weights = copse_reshape(
        w->g, weights,
        s.axes == 1 ? COPSE_SHAPE(taps, inner, groups * each)
                    : COPSE_SHAPE((uint32_t)s.size[0], (uint32_t)s.size[1], inner, groups * each));
    copse__onnx_set_either(
        w, 0, x->type,
        copse_conv_transposed(w->g, copse__onnx_last(w, x), weights, conv_bias(w), &p), true);
}

/* ---- pooling ---- */

/* Longer ends, so that a last window that is not full counts. Whether there are any. */
static bool pool_reach(struct windows *s, copse_shape x)
{
    bool is_longer = false;
    for (uint32_t i = 0; i < s->axes; i++) {
        const int64_t n = x.dims[2 + i], span = window_span(s, i);
        int64_t out = (n + s->before[i] + s->after[i] - span + s->stride[i] - 1) / s->stride[i] + 1;
        if ((out - 1) * s->stride[i] >= n + s->before[i]) /* a window begins inside or before */
            out--;
        const int64_t end = (out - 1) * s->stride[i] + span - n - s->before[i];
        is_longer = is_longer || end > s->after[i];
        s->after[i] = COPSE_MAX(s->after[i], end);
    }
    return is_longer;
}

void copse__onnx_pool(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const onnx_node *n = w->step->node;
    const char *name = w->step->row->name;
    const bool counts = copse__onnx_int(n, "count_include_pad", 0) != 0,
               is_powers = strcmp(name, "LpPool") == 0;
    struct windows s = { .axes = x->shape.rank - 2 };
    if (!has_windows(w, x->shape) || !window_list(w, "kernel_shape", s.axes, 0, 1, s.size) ||
        !windows_read(w, &s, x->shape))
        return;
    if (copse__onnx_int(n, "ceil_mode", 0) != 0 && pool_reach(&s, x->shape) &&
        (counts || is_powers)) {
        copse__onnx_refuse(w, "a mean that counts some of the padding");
        return;
    }
    if (is_powers && copse__onnx_int(n, "p", 2) != 2) {
        copse__onnx_refuse(w, "p %lld", (long long)copse__onnx_int(n, "p", 2));
        return;
    }
    struct copse_pool_params p = { .counts_padding = counts || is_powers };
    uint64_t elements = 1;
    for (uint32_t i = 0; i < s.axes; i++) {
        p.window[i] = (uint32_t)s.size[i];
        p.stride[i] = (uint32_t)s.stride[i];
        p.dilation[i] = (uint32_t)s.dilation[i];
        p.before[i] = (uint32_t)s.before[i];
        p.after[i] = (uint32_t)s.after[i];
        elements *= (uint64_t)s.size[i];
    }
    copse_tensor *t = copse__onnx_last(w, x);
    if (strcmp(name, "MaxPool") == 0)
        t = copse_max_pool(w->g, t, &p);
    else
        t = copse_average_pool(w->g, is_powers ? copse_square(w->g, t) : t, &p);
    if (is_powers)
        t = copse_sqrt(w->g, copse_multiply_by(w->g, t, (float)elements));
    copse__onnx_set_either(w, 0, x->type, t, true);
}

void copse__onnx_global_pool(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const uint32_t rank = x->shape.rank;
    uint32_t axes[COPSE_MAX_RANK];
    if (rank < 3) {
        copse__onnx_refuse(w, "shape %s", COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    const bool is_last = copse__onnx_is_last(x);
    for (uint32_t i = 2; i < rank; i++)
        axes[i - 2] = is_last ? i - 1 : i;
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_f32(w, x);
    t = strcmp(w->step->row->name, "GlobalMaxPool") == 0
            ? copse_max(w->g, t, axes, rank - 2, true)
            : copse_mean(w->g, t, axes, rank - 2, true);
    copse__onnx_set_either(w, 0, x->type, t, is_last);
}

/* x / (bias + alpha / size * sum of squares of `size` channels)^beta */
void copse__onnx_lrn(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const onnx_node *n = w->step->node;
    const int64_t size = copse__onnx_int(n, "size", 1);
    const float alpha = copse__onnx_float(n, "alpha", 1e-4f),
                beta = copse__onnx_float(n, "beta", 0.75f);
    const uint32_t rank = x->shape.rank;
    if (rank < 2 || size < 1 || size > 1024) {
        copse__onnx_refuse(w, "a size of %lld", (long long)size);
        return;
    }
    uint32_t before[COPSE_MAX_RANK] = { 0 }, after[COPSE_MAX_RANK] = { 0 },
             start[COPSE_MAX_RANK] = { 0 };
    copse_tensor *t = copse__onnx_f32(w, x), *sum = NULL;
    before[1] = (uint32_t)(size - 1) / 2;
    after[1] = (uint32_t)size / 2;
    copse_tensor *squares = copse_pad(w->g, copse_square(w->g, t), before, after, 0);
    for (; start[1] < size; start[1]++) {
        copse_tensor *part = copse_slice(w->g, squares, start, x->shape.dims);
        sum = sum ? copse_add(w->g, sum, part) : part;
    }
    sum = copse_add(w->g, copse_multiply_by(w->g, sum, alpha / (float)size),
                    copse_scalar(w->g, (double)copse__onnx_float(n, "bias", 1.0f)));
    copse__onnx_set(w, 0, x->type, copse_mul(w->g, t, copse_pow(w->g, sum, -beta)));
}

/* ---- resizing: a matrix of weights for each axis ---- */

enum place_kind { PLACE_HALF, PLACE_TORCH, PLACE_CORNERS, PLACE_PLAIN };

struct resizing {
    bool is_nearest, is_cubic;
    enum place_kind kind;
    float cubic;
    bool leaves_outside;
};

/* Where element i of a result lies on an axis. */
static double resize_place(const struct resizing *r, uint32_t i, uint32_t size, uint32_t to,
                           double scale)
{
    if (r->kind == PLACE_PLAIN)
        return i / scale;
    if (r->kind == PLACE_CORNERS)
        return to > 1 ? (double)i * (size - 1) / (to - 1) : 0;
    if (r->kind == PLACE_TORCH && to <= 1)
        return 0;
    return (i + 0.5) / scale - 0.5;
}

static double nearest_of(const onnx_node *n, double x)
{
    const char *normal = "round_prefer_floor";
    if (copse__onnx_text_is(n, "nearest_mode", normal, "floor"))
        return floor(x);
    if (copse__onnx_text_is(n, "nearest_mode", normal, "ceil"))
        return ceil(x);
    return copse__onnx_text_is(n, "nearest_mode", normal, "round_prefer_ceil") ? floor(x + 0.5)
                                                                               : ceil(x - 0.5);
}

/* Keys' cubic kernel (1981). */
static double cubic_weight(double a, double d)
{
    d = fabs(d);
    return d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
           : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4)
                   : 0;
}

/* [to, size]: the weights of the elements. */
static float *resize_weights(struct onnx_walk *w, const struct resizing *r, uint32_t size,
                             uint32_t to, double scale)
{
    float *m = copse__onnx_room(w, (size_t)to * size, sizeof *m);
    const double last = (double)size - 1;
    for (uint32_t i = 0; m && i < to; i++) {
        const double at = resize_place(r, i, size, to, scale), base = floor(at);
        double sum = 0;
        for (int k = r->is_cubic ? -1 : 0; k <= (r->is_cubic ? 2 : 1); k++) {
            const double weight = r->is_cubic ? cubic_weight((double)r->cubic, at - (base + k))
                                              : 1 - fabs(at - (base + k));
            const double place = base + k;
            if (r->is_cubic && r->leaves_outside && (place < 0 || place > last))
                continue;
            m[(size_t)i * size + (size_t)fmin(fmax(place, 0), last)] += (float)weight;
            sum += weight;
        }
        for (uint32_t k = 0; r->leaves_outside && sum != 0 && k < size; k++)
            m[(size_t)i * size + k] /= (float)sum;
    }
    return m;
}

/* Multiply along the axis: t [.., size, ..] by [to, size]. */
static copse_tensor *resize_axis(struct onnx_walk *w, copse_tensor *t, uint32_t axis,
                                 copse_tensor *weights)
{
    const copse_shape s = copse_tensor_shape(t);
    uint32_t rows = 1, columns = 1;
    for (uint32_t i = 0; i < s.rank; i++)
        *(i < axis ? &rows : &columns) *= i == axis ? 1 : s.dims[i];
    copse_shape out = s;
    out.dims[axis] = copse_tensor_shape(weights).dims[0];
    if (columns == 1)
        t = copse_matmul(w->g, copse_reshape(w->g, t, COPSE_SHAPE(rows, s.dims[axis])), weights,
                         false, true);
    else
        t = copse_matmul(w->g, weights,
                         copse_reshape(w->g, t, COPSE_SHAPE(rows, s.dims[axis], columns)), false,
                         false);
    return copse_reshape(w->g, t, out);
}

/* Sizes and scales of the result; false: refused. */
static bool resize_sizes(struct onnx_walk *w, copse_shape x, copse_shape *to, double *scales)
{
    const onnx_node *n = w->step->node;
    const bool is_old = w->m->opset < 11 || strcmp(w->step->row->name, "Upsample") == 0;
    struct onnx_value *scale = copse__onnx_in(w, is_old ? 1 : 2),
                      *size = is_old ? NULL : copse__onnx_in(w, 3);
    size_t count, factors;
    const int64_t *axes = copse__onnx_ints(n, "axes", &count);
    const CopseOnnx__Attribute *given = copse__onnx_attribute(n, "scales");
    const bool has_size = size && copse__elements(size->shape) > 0;
    struct onnx_value *by = has_size ? size : scale;
    const double *numbers = by ? copse__onnx_known(w, by, "size") : NULL;
    factors = by ? (size_t)copse__elements(by->shape) : given ? given->n_floats : 0;
    *to = x;
    for (uint32_t i = 0; i < x.rank; i++)
        scales[i] = 1;
    if ((by && !numbers) || factors != (count > 0 ? count : x.rank))
        return copse__onnx_refuse(w, "%zu sizes for shape %s", factors, COPSE_SHAPE_TEXT(x));
    double ratio = 0;
    const bool is_larger =
        has_size && copse__onnx_text_is(n, "keep_aspect_ratio_policy", "stretch", "not_larger");
    const bool is_smaller =
        has_size && copse__onnx_text_is(n, "keep_aspect_ratio_policy", "stretch", "not_smaller");
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < factors; i++) {
            uint32_t a = (uint32_t)i;
            const double f = numbers ? numbers[i] : (double)given->floats[i];
            if (count > 0 && !copse__onnx_axis(w, axes[i], x.rank, &a))
                return false;
            double s = has_size ? f / x.dims[a] : f;
            if (pass == 0) {
                ratio = i == 0 ? s : is_larger ? fmin(ratio, s) : is_smaller ? fmax(ratio, s) : s;
                continue;
            }
            s = is_larger || is_smaller ? ratio : s;
            const double out = is_larger || is_smaller ? floor(ratio * x.dims[a] + 0.5)
                               : has_size              ? f
                                                       : floor(f * x.dims[a]);
            if (!(out >= 1 && out <= 1 << 20))
                return copse__onnx_refuse(w, "an axis of %g elements", out);
            scales[a] = s;
            to->dims[a] = (uint32_t)out;
        }
    return copse__onnx_shape_fits(*to) || copse__onnx_refuse(w, "2^31 elements or more");
}

static bool resize_settings(struct onnx_walk *w, struct resizing *r)
{
    const onnx_node *n = w->step->node;
    const char *place = "coordinate_transformation_mode",
               *normal = w->m->opset < 11 ? "asymmetric" : "half_pixel";
    r->is_nearest = copse__onnx_text_is(n, "mode", "nearest", "nearest");
    r->is_cubic = copse__onnx_text_is(n, "mode", "nearest", "cubic");
    r->cubic = copse__onnx_float(n, "cubic_coeff_a", -0.75f);
    r->leaves_outside = copse__onnx_int(n, "exclude_outside", 0) != 0;
    r->kind = copse__onnx_text_is(n, place, normal, "asymmetric")           ? PLACE_PLAIN
              : copse__onnx_text_is(n, place, normal, "align_corners")      ? PLACE_CORNERS
              : copse__onnx_text_is(n, place, normal, "pytorch_half_pixel") ? PLACE_TORCH
                                                                            : PLACE_HALF;
    if (r->kind == PLACE_HALF && !copse__onnx_text_is(n, place, normal, "half_pixel"))
        return copse__onnx_refuse(w, "its %s", place);
    if (!r->is_nearest && !r->is_cubic && !copse__onnx_text_is(n, "mode", "nearest", "linear"))
        return copse__onnx_refuse(w, "its mode");
    return copse__onnx_int(n, "antialias", 0) == 0 || copse__onnx_refuse(w, "antialias");
}

static void resize_nearest(struct onnx_walk *w, struct onnx_value *x, const struct resizing *r,
                           copse_shape to, const double *scales)
{
    const char *old = w->m->opset < 11 ? "floor" : "round_prefer_floor";
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    bool is_plain = x->shape.rank == 4 || x->shape.rank == 3;
    for (uint32_t a = 0; a < to.rank; a++) {
        maps[a] = copse__onnx_room(w, to.dims[a], sizeof **maps);
        for (uint32_t i = 0; maps[a] && i < to.dims[a]; i++) {
            double at = resize_place(r, i, x->shape.dims[a], to.dims[a], scales[a]);
            at = *old == 'f' ? floor(at) : nearest_of(w->step->node, at);
            maps[a][i] = (int32_t)fmin(fmax(at, 0), (double)x->shape.dims[a] - 1);
            is_plain =
                is_plain && maps[a][i] == (int32_t)((uint64_t)i * x->shape.dims[a] / to.dims[a]);
        }
        if (!maps[a])
            return;
        is_plain = is_plain && (a >= 2 || to.dims[a] == x->shape.dims[a]);
    }
    if (!is_plain || to.dims[2] > 16384 || to.dims[to.rank - 1] > 16384) {
        copse__onnx_set_mapped(w, 0, x, to, maps, 0);
        return;
    }
    copse__onnx_set_either(
        w, 0, x->type,
        copse_resize(w->g, copse__onnx_last(w, x), &to.dims[2], COPSE_RESIZE_NEAREST), true);
}

void copse__onnx_resize(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    struct resizing r;
    copse_shape to;
    double scales[COPSE_MAX_RANK];
    if (x->shape.rank == 0 || copse__elements(x->shape) == 0) {
        copse__onnx_refuse(w, "shape %s", COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    if (!resize_settings(w, &r) || !resize_sizes(w, x->shape, &to, scales))
        return;
    if (r.is_nearest) {
        resize_nearest(w, x, &r, to, scales);
        return;
    }
    copse_tensor *t = copse__onnx_f32(w, x);
    for (uint32_t a = 0; a < to.rank; a++) {
        const uint32_t size = x->shape.dims[a];
        if (to.dims[a] == size && scales[a] == 1)
            continue;
        float *m = resize_weights(w, &r, size, to.dims[a], scales[a]);
        if (!m)
            return;
        t = resize_axis(w, t, a, copse_constant(w->g, COPSE_F32, COPSE_SHAPE(to.dims[a], size), m));
        if (copse_graph_status(w->g) != COPSE_OK)
            return;
    }
    copse__onnx_set(w, 0, x->type, t);
}
