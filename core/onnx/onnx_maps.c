/* SPDX-License-Identifier: MIT */
/* Operators that move elements along axes: a list of source places for each axis. */
#include "copse/ops.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

#include <stdlib.h>

void copse__onnx_set_mapped(struct onnx_walk *w, size_t i, struct onnx_value *v, copse_shape shape,
                            int32_t *const *maps, double fill)
{
    const uint32_t rank = v->shape.rank;
    if (!copse__onnx_shape_fits(shape)) {
        copse__onnx_refuse(w, "its result has 2^31 elements or more");
        return;
    }
    const size_t count = (size_t)copse__elements(shape);
    int32_t *flat = copse__onnx_room(w, count, sizeof *flat);
    uint32_t at[COPSE_MAX_RANK] = { 0 };
    for (size_t k = 0; flat && k < count; k++) {
        int64_t place = 0;
        for (uint32_t a = 0; a < rank && place >= 0; a++) {
            const int32_t own = maps[a] ? maps[a][at[a]] : (int32_t)at[a];
            place = own < 0 ? -1 : place * v->shape.dims[a] + own;
        }
        flat[k] = (int32_t)place;
        for (uint32_t a = rank; a-- > 0;) {
            if (++at[a] < shape.dims[a])
                break;
            at[a] = 0;
        }
    }
    if (flat)
        copse__onnx_set_picked(w, i, v, shape, flat, fill);
}

/* ---- slices ---- */

/* The elements of an axis from start to end, by step: as in Python. Returns their number. */
static uint32_t slice_count(int64_t *start, int64_t end, int64_t step, uint32_t size)
{
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : (int64_t)size - 1;
    if (*start < 0)
        *start += size;
    if (end < 0)
        end = end < -(int64_t)size ? -1 - (step > 0) : end + size;
    *start = COPSE_MIN(COPSE_MAX(*start, low), high);
    end = COPSE_MIN(COPSE_MAX(end, low), high);
    if (step == INT64_MIN)
        step++;
    const int64_t span = step > 0 ? end - *start : *start - end, by = step > 0 ? step : -step;
    return span <= 0 ? 0 : (uint32_t)((span - 1) / by + 1);
}

struct slicing {
    uint32_t start[COPSE_MAX_RANK];
    int32_t *maps[COPSE_MAX_RANK];
    copse_shape shape;
    bool has_steps;
};

static bool slice_axis(struct onnx_walk *w, struct slicing *s, uint32_t axis, int64_t start,
                       int64_t end, int64_t step)
{
    if (step == 0)
        return copse__onnx_refuse(w, "a step of 0");
    const uint32_t n = slice_count(&start, end, step, s->shape.dims[axis]);
    int32_t *map = copse__onnx_room(w, n, sizeof *map);
    for (uint32_t i = 0; map && i < n; i++)
        map[i] = (int32_t)(start + (int64_t)i * step);
    s->maps[axis] = map;
    s->start[axis] = n > 0 ? (uint32_t)start : 0;
    s->shape.dims[axis] = n;
    s->has_steps = s->has_steps || step != 1;
    return map != NULL;
}

static void slice_set(struct onnx_walk *w, size_t i, struct onnx_value *x, struct slicing *s)
{
    if (copse__onnx_numbers(w, x) || s->has_steps) {
        copse__onnx_set_mapped(w, i, x, s->shape, s->maps, 0);
        return;
    }
    copse__onnx_set(w, i, x->type,
                    copse_slice(w->g, copse__onnx_plain(w, x), s->start, s->shape.dims));
}

void copse__onnx_slice(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t starts, ends, axes, steps;
    const int64_t *start = copse__onnx_list(w, 1, "starts", &starts),
                  *end = copse__onnx_list(w, 2, "ends", &ends),
                  *given = copse__onnx_list(w, 3, "axes", &axes),
                  *step = copse__onnx_list(w, 4, NULL, &steps);
    struct slicing s = { .shape = x->shape };
    if (w->status != COPSE_OK)
        return;
    if (starts != ends || (axes > 0 && axes != starts) || (steps > 0 && steps != starts)) {
        copse__onnx_refuse(w, "%zu starts and %zu ends", starts, ends);
        return;
    }
    for (size_t i = 0; i < starts; i++) {
        uint32_t axis;
        if (!copse__onnx_axis(w, axes > 0 ? given[i] : (int64_t)i, x->shape.rank, &axis) ||
            s.maps[axis] || !slice_axis(w, &s, axis, start[i], end[i], steps > 0 ? step[i] : 1)) {
            copse__onnx_refuse(w, "an axis twice");
            return;
        }
    }
    slice_set(w, 0, x, &s);
}

void copse__onnx_split(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t given, count = w->step->node->n_output;
    uint32_t axis, at = 0;
    const int64_t *sizes = copse__onnx_list(w, 1, "split", &given);
    if (w->status != COPSE_OK ||
        !copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 0), x->shape.rank, &axis))
        return;
    const uint32_t size = x->shape.dims[axis];
    const uint32_t each = count > 0 ? (uint32_t)((size + count - 1) / count) : 0;
    if (given > 0 && given != count) {
        copse__onnx_refuse(w, "%zu sizes for %zu results", given, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct slicing s = { .shape = x->shape };
        const int64_t n = given > 0 ? sizes[i] : (int64_t)COPSE_MIN(each, size - at);
        if (n < 0 || n > (int64_t)(size - at)) {
            copse__onnx_refuse(w, "its sizes do not sum to %u", size);
            return;
        }
        if (n == 0) { /* a slice from the end, of nothing */
            s.shape.dims[axis] = 0;
            copse__onnx_set(w, i, x->type, copse_fill(w->g, COPSE_F32, s.shape, 0));
        } else if (slice_axis(w, &s, axis, at, (int64_t)at + n, 1)) {
            slice_set(w, i, x, &s);
        }
        at += (uint32_t)n;
    }
}

/* ---- repetition ---- */

static bool map_axis(struct onnx_walk *w, int32_t **map, uint32_t count)
{
    *map = copse__onnx_room(w, count, sizeof **map);
    return *map != NULL;
}

void copse__onnx_tile(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t count;
    const int64_t *repeats = copse__onnx_list(w, 1, NULL, &count);
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    copse_shape shape = x->shape;
    if (w->status != COPSE_OK)
        return;
    if (count != shape.rank) {
        copse__onnx_refuse(w, "%zu repeats of %u axes", count, shape.rank);
        return;
    }
    for (uint32_t a = 0; a < shape.rank; a++) {
        if (repeats[a] < 0 || repeats[a] > INT32_MAX ||
            (uint64_t)repeats[a] * shape.dims[a] > INT32_MAX) {
            copse__onnx_refuse(w, "a repeat of %lld", (long long)repeats[a]);
            return;
        }
        shape.dims[a] *= (uint32_t)repeats[a];
        if (!copse__onnx_shape_fits(shape) || !map_axis(w, &maps[a], shape.dims[a])) {
            copse__onnx_refuse(w, "its result has 2^31 elements or more");
            return;
        }
        for (uint32_t i = 0; i < shape.dims[a]; i++)
            maps[a][i] = (int32_t)(i % x->shape.dims[a]);
    }
    copse__onnx_set_mapped(w, 0, x, shape, maps, 0);
}

void copse__onnx_expand(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t count;
    copse_shape to, shape;
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    const int64_t *dims = copse__onnx_list(w, 1, NULL, &count);
    if (w->status != COPSE_OK || !copse__onnx_shape(w, dims, count, &to))
        return;
    if (!copse__onnx_broadcast(x->shape, to, &shape)) {
        copse__onnx_refuse(w, "shape %s does not become %s", COPSE_SHAPE_TEXT(x->shape),
                           COPSE_SHAPE_TEXT(to));
        return;
    }
    if (!copse__onnx_numbers(w, x) || copse__elements(shape) > ONNX_KNOWN_MOST) {
        copse__onnx_set(w, 0, x->type, copse_broadcast_to(w->g, copse__onnx_plain(w, x), shape));
        return;
    }
    struct onnx_value same = *x; /* with leading axes of 1 */
    same.shape.rank = shape.rank;
    for (uint32_t a = 0; a < shape.rank; a++) {
        const uint32_t lead = shape.rank - x->shape.rank;
        same.shape.dims[a] = a < lead ? 1 : x->shape.dims[a - lead];
        if (!map_axis(w, &maps[a], shape.dims[a]))
            return;
        for (uint32_t i = 0; i < shape.dims[a]; i++)
            maps[a][i] = same.shape.dims[a] == 1 ? 0 : (int32_t)i;
    }
    copse__onnx_set_mapped(w, 0, &same, shape, maps, 0);
}

/* ---- padding ---- */

enum padding { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* The place of i, counted from the first element, on an axis of `size`. */
static int32_t padded_place(enum padding mode, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return (int32_t)i;
    if (mode == PAD_CONSTANT || size == 0)
        return -1;
    if (mode == PAD_EDGE)
        return (int32_t)(i < 0 ? 0 : size - 1);
    const int64_t turn = mode == PAD_WRAP ? size : COPSE_MAX(2 * size - 2, 1);
    i = (i % turn + turn) % turn;
    return (int32_t)(i < size ? i : turn - i);
}

static enum padding pad_mode(const onnx_node *n)
{
    return copse__onnx_text_is(n, "mode", "constant", "reflect") ? PAD_REFLECT
           : copse__onnx_text_is(n, "mode", "constant", "edge")  ? PAD_EDGE
           : copse__onnx_text_is(n, "mode", "constant", "wrap")  ? PAD_WRAP
                                                                 : PAD_CONSTANT;
}

#define PADS_MOST ((int64_t)1 << 24)

/* Zeros before and after each axis. */
static bool pad_sides(struct onnx_walk *w, uint32_t rank, int64_t *before, int64_t *after)
{
    size_t count, axes;
    const int64_t *pads = copse__onnx_list(w, 1, "pads", &count),
                  *given = copse__onnx_list(w, 3, NULL, &axes);
    if (w->status != COPSE_OK)
        return false;
    if (count != 2 * (axes > 0 ? axes : rank))
        return copse__onnx_refuse(w, "%zu pads of %u axes", count, rank);
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t axis = (uint32_t)i;
        if (axes > 0 && !copse__onnx_axis(w, given[i], rank, &axis))
            return false;
        for (size_t k = i; k < count; k += count / 2)
            if (pads[k] < -PADS_MOST || pads[k] > PADS_MOST)
                return copse__onnx_refuse(w, "%lld pads", (long long)pads[k]);
        before[axis] = pads[i];
        after[axis] = pads[i + count / 2];
    }
    return true;
}

/* The axis of a tensor in the other order. */
static uint32_t axis_last(uint32_t axis, uint32_t rank)
{
    return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

static void pad_device(struct onnx_walk *w, struct onnx_value *x, const int64_t *before,
                       const int64_t *after, double value)
{
    const uint32_t rank = x->shape.rank;
    const bool is_last = copse__onnx_is_last(x);
    uint32_t low[COPSE_MAX_RANK], high[COPSE_MAX_RANK];
    for (uint32_t a = 0; a < rank; a++) {
        const uint32_t to = is_last ? axis_last(a, rank) : a;
        low[to] = (uint32_t)before[a];
        high[to] = (uint32_t)after[a];
    }
    copse_tensor *t = is_last ? copse__onnx_last(w, x) : copse__onnx_plain(w, x);
    copse__onnx_set_either(w, 0, x->type, copse_pad(w->g, t, low, high, value), is_last);
}

void copse__onnx_pad(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *fill = copse__onnx_in(w, 2);
    const enum padding mode = pad_mode(w->step->node);
    const uint32_t rank = x->shape.rank;
    int64_t before[COPSE_MAX_RANK] = { 0 }, after[COPSE_MAX_RANK] = { 0 };
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    copse_shape shape = x->shape;
    double value = (double)copse__onnx_float(w->step->node, "value", 0.0f);
    bool is_cut = false;
    if (!pad_sides(w, rank, before, after))
        return;
    if (fill && copse__elements(fill->shape) == 1) {
        const double *known = copse__onnx_known(w, fill, "value");
        if (!known)
            return;
        value = *known;
    }
    for (uint32_t a = 0; a < rank; a++) {
        const int64_t size = before[a] + shape.dims[a] + after[a];
        is_cut = is_cut || before[a] < 0 || after[a] < 0;
        if (size < 0 || size > INT32_MAX) {
            copse__onnx_refuse(w, "an axis of %lld elements", (long long)size);
            return;
        }
        shape.dims[a] = (uint32_t)size;
    }
    if (mode == PAD_CONSTANT && !is_cut && !copse__onnx_numbers(w, x)) {
        pad_device(w, x, before, after, value);
        return;
    }
    for (uint32_t a = 0; a < rank && copse__onnx_shape_fits(shape); a++) {
        if (!map_axis(w, &maps[a], shape.dims[a]))
            return;
        for (uint32_t i = 0; i < shape.dims[a]; i++)
            maps[a][i] = padded_place(mode, (int64_t)i - before[a], x->shape.dims[a]);
    }
    copse__onnx_set_mapped(w, 0, x, shape, maps, value);
}

/* Cut from the middle, or pad with zeros on both sides. */
void copse__onnx_crop(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t count, axes;
    const int64_t *sizes = copse__onnx_list(w, 1, NULL, &count),
                  *given = copse__onnx_ints(w->step->node, "axes", &axes);
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    copse_shape shape = x->shape;
    if (w->status != COPSE_OK)
        return;
    if (count != (axes > 0 ? axes : shape.rank)) {
        copse__onnx_refuse(w, "%zu sizes of %u axes", count, shape.rank);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t a = (uint32_t)i;
        if ((axes > 0 && !copse__onnx_axis(w, given[i], shape.rank, &a)) || sizes[i] < 0 ||
            sizes[i] > 1 << 24) {
            copse__onnx_refuse(w, "a size of %lld", (long long)sizes[i]);
            return;
        }
        const int64_t more = sizes[i] - shape.dims[a];
        const int64_t before = more >= 0 ? more / 2 : -(-more / 2);
        shape.dims[a] = (uint32_t)sizes[i];
        if (!copse__onnx_shape_fits(shape) || !map_axis(w, &maps[a], shape.dims[a])) {
            copse__onnx_refuse(w, "its result has 2^31 elements or more");
            return;
        }
        for (uint32_t k = 0; k < shape.dims[a]; k++)
            maps[a][k] = padded_place(PAD_CONSTANT, (int64_t)k - before, x->shape.dims[a]);
    }
    copse__onnx_set_mapped(w, 0, x, shape, maps, 0);
}
