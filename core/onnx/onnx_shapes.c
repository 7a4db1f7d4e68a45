/* SPDX-License-Identifier: MIT */
/* Operators of shapes, and constants. */
#include <math.h>

#include "copse/ops.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

void copse__onnx_same(struct onnx_walk *w)
{
    copse__onnx_set_same(w, 0, copse__onnx_in(w, 0));
}

/* ---- the same elements ---- */

void copse__onnx_reshape(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    size_t count;
    const int64_t *given = copse__onnx_list(w, 1, "shape", &count);
    const bool allows_zero = copse__onnx_int(w->step->node, "allowzero", 0) != 0;
    int64_t dims[COPSE_MAX_RANK];
    size_t free_axis = SIZE_MAX;
    uint64_t rest = 1;
    copse_shape shape;
    if (w->status != COPSE_OK)
        return;
    if (count > COPSE_MAX_RANK) {
        copse__onnx_refuse(w, "a shape of %zu axes; at most %d", count, COPSE_MAX_RANK);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        dims[i] = given[i];
        if (dims[i] == 0 && !allows_zero && i < x->shape.rank)
            dims[i] = x->shape.dims[i];
        if (dims[i] == -1 && free_axis == SIZE_MAX)
            free_axis = i;
        else if (dims[i] >= 0 && dims[i] <= INT32_MAX && rest <= INT32_MAX)
            rest *= (uint64_t)dims[i];
    }
    if (free_axis != SIZE_MAX)
        dims[free_axis] = rest > 0 ? (int64_t)(copse__elements(x->shape) / rest) : 0;
    if (copse__onnx_shape(w, dims, count, &shape))
        copse__onnx_set_reshaped(w, 0, x, shape);
}

void copse__onnx_flatten(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    int64_t axis = copse__onnx_int(w->step->node, "axis", 1);
    axis += axis < 0 ? x->shape.rank : 0;
    uint64_t rows = 1, columns = 1;
    if (axis < 0 || axis > x->shape.rank) {
        copse__onnx_refuse(w, "axis %lld of %u", (long long)axis, x->shape.rank);
        return;
    }
    for (uint32_t i = 0; i < x->shape.rank; i++)
        *(i < axis ? &rows : &columns) *= x->shape.dims[i];
    copse__onnx_set_reshaped(w, 0, x, COPSE_SHAPE((uint32_t)rows, (uint32_t)columns));
}

/* Axes as marks; false: refused. */
static bool mark_axes(struct onnx_walk *w, const int64_t *axes, size_t count, uint32_t rank,
                      bool *marks)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!copse__onnx_axis(w, axes[i], rank, &axis))
            return false;
        marks[axis] = true;
    }
    return true;
}

void copse__onnx_squeeze(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    bool marks[COPSE_MAX_RANK] = { false };
    copse_shape shape = { .rank = 0 };
    size_t count;
    const int64_t *axes = copse__onnx_list(w, 1, "axes", &count);
    if (w->status != COPSE_OK || !mark_axes(w, axes, count, x->shape.rank, marks))
        return;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        if (count > 0 ? !marks[i] : x->shape.dims[i] != 1)
            shape.dims[shape.rank++] = x->shape.dims[i];
    copse__onnx_set_reshaped(w, 0, x, shape);
}

void copse__onnx_unsqueeze(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    bool marks[COPSE_MAX_RANK] = { false };
    copse_shape shape = { .rank = x->shape.rank };
    size_t count;
    const int64_t *axes = copse__onnx_list(w, 1, "axes", &count);
    if (w->status != COPSE_OK)
        return;
    if (count > COPSE_MAX_RANK - x->shape.rank) {
        copse__onnx_refuse(w, "a shape of %zu axes; at most %d", x->shape.rank + count,
                           COPSE_MAX_RANK);
        return;
    }
    shape.rank += (uint32_t)count;
    if (!mark_axes(w, axes, count, shape.rank, marks))
        return;
    for (uint32_t i = 0, from = 0; i < shape.rank; i++)
        shape.dims[i] = marks[i] ? 1 : from < x->shape.rank ? x->shape.dims[from++] : 1;
    copse__onnx_set_reshaped(w, 0, x, shape);
}

/* ---- transposition ---- */

/* Whether the order makes [n, c, ..] of [n, .., c], or the reverse. */
static bool order_makes_first(const uint32_t *order, uint32_t rank)
{
    bool is = rank >= 3 && order[0] == 0 && order[1] == rank - 1;
    for (uint32_t i = 2; is && i < rank; i++)
        is = order[i] == i - 1;
    return is;
}

static bool order_makes_last(const uint32_t *order, uint32_t rank)
{
    bool is = rank >= 3 && order[0] == 0 && order[rank - 1] == 1;
    for (uint32_t i = 2; is && i < rank; i++)
        is = order[i - 1] == i;
    return is;
}

static void transpose_numbers(struct onnx_walk *w, struct onnx_value *x, const uint32_t *order)
{
    const uint32_t rank = x->shape.rank;
    copse_shape shape = { .rank = rank };
    size_t steps[COPSE_MAX_RANK], step = 1;
    const size_t count = (size_t)copse__elements(x->shape);
    for (uint32_t i = rank; i-- > 0; step *= x->shape.dims[i])
        steps[i] = step;
    for (uint32_t i = 0; i < rank; i++)
        shape.dims[i] = x->shape.dims[order[i]];
    int32_t *flat = copse__onnx_room(w, count, sizeof *flat);
    for (size_t k = 0; flat && k < count; k++) {
        size_t left = k, at = 0;
        for (uint32_t i = rank; i-- > 0; left /= shape.dims[i])
            at += left % shape.dims[i] * steps[order[i]];
        flat[k] = (int32_t)at;
    }
    if (flat)
        copse__onnx_set_picked(w, 0, x, shape, flat, 0);
}

void copse__onnx_transpose(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const uint32_t rank = x->shape.rank;
    uint32_t order[COPSE_MAX_RANK];
    bool marks[COPSE_MAX_RANK] = { false };
    size_t count;
    const int64_t *given = copse__onnx_ints(w->step->node, "perm", &count);
    if (count > 0 && count != rank) {
        copse__onnx_refuse(w, "an order of %zu axes for %u", count, rank);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        order[i] = rank - 1 - i;
        if (given && !copse__onnx_axis(w, given[i], rank, &order[i]))
            return;
        if (marks[order[i]]) {
            copse__onnx_refuse(w, "axis %u twice", order[i]);
            return;
        }
        marks[order[i]] = true;
    }
    if (copse__onnx_is_last(x) && order_makes_last(order, rank))
        copse__onnx_set(w, 0, x->type, x->last);
    else if (!copse__onnx_numbers(w, x) && order_makes_first(order, rank) &&
             copse__onnx_is_real(x->type))
        copse__onnx_set_last(w, 0, copse__onnx_f32(w, x));
    else if (copse__onnx_numbers(w, x) && !copse__onnx_is_real(x->type))
        transpose_numbers(w, x, order);
    else
        copse__onnx_set(w, 0, x->type, copse_transpose(w->g, copse__onnx_plain(w, x), order));
}

/* Blocks of channels become places, or the reverse: reshape, transpose, reshape. */
void copse__onnx_space(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const onnx_node *n = w->step->node;
    const bool is_out = strcmp(w->step->row->name, "DepthToSpace") == 0;
    const int64_t b = copse__onnx_int(n, "blocksize", 0);
    const bool is_columns = copse__onnx_text_is(n, "mode", "DCR", "CRD");
    const copse_shape s = x->shape;
    if (s.rank != 4 || b < 1 || b > 4096 || (is_out && s.dims[1] % (b * b)) ||
        (!is_out && (s.dims[2] % b || s.dims[3] % b))) {
        copse__onnx_refuse(w, "blocks of %lld of shape %s", (long long)b, COPSE_SHAPE_TEXT(s));
        return;
    }
    const uint32_t k = (uint32_t)b, c = is_out ? s.dims[1] / (k * k) : s.dims[1],
                   h = is_out ? s.dims[2] : s.dims[2] / k, v = is_out ? s.dims[3] : s.dims[3] / k;
    copse_tensor *t = copse__onnx_plain(w, x);
    if (is_out && is_columns) {
        t = copse_reshape(w->g, t, COPSE_SHAPE(s.dims[0], c, k, k, h, v));
        t = copse_transpose(w->g, t, (const uint32_t[]){ 0, 1, 4, 2, 5, 3 });
    } else if (is_out) {
        t = copse_reshape(w->g, t, COPSE_SHAPE(s.dims[0], k, k, c, h, v));
        t = copse_transpose(w->g, t, (const uint32_t[]){ 0, 3, 4, 1, 5, 2 });
    } else {
        static const uint32_t rows[] = { 0, 3, 5, 1, 2, 4 }, columns[] = { 0, 1, 3, 5, 2, 4 };
        t = copse_reshape(w->g, t, COPSE_SHAPE(s.dims[0], c, h, k, v, k));
        t = copse_transpose(w->g, t, is_columns ? columns : rows);
    }
    const copse_shape y =
        is_out ? COPSE_SHAPE(s.dims[0], c, h * k, v * k) : COPSE_SHAPE(s.dims[0], c * k * k, h, v);
    copse__onnx_set(w, 0, x->type, copse_reshape(w->g, t, y));
}

/* ---- joining ---- */

static void concat_numbers(struct onnx_walk *w, size_t count, uint32_t axis, copse_shape shape)
{
    size_t outer = 1, inner = 1, at = 0;
    for (uint32_t i = 0; i < shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : shape.dims[i];
    double *y = copse__onnx_room(w, (size_t)copse__elements(shape), sizeof *y);
    for (size_t o = 0; y && o < outer; o++)
        for (size_t k = 0; k < count; k++) {
            const struct onnx_value *v = copse__onnx_in(w, k);
            const size_t part = v->shape.dims[axis] * inner;
            memcpy(y + at, v->numbers + o * part, part * sizeof *y);
            at += part;
        }
    if (y)
        copse__onnx_set_numbers(w, 0, copse__onnx_in(w, 0)->type, shape, y);
}

static void concat_tensors(struct onnx_walk *w, size_t count, uint32_t axis, bool is_last)
{
    const uint32_t rank = copse__onnx_in(w, 0)->shape.rank;
    const int32_t type = copse__onnx_in(w, 0)->type;
    const bool is_whole = copse__onnx_is_whole(type) && type != ONNX_BOOL;
    copse_tensor **parts = copse__onnx_room(w, count, sizeof(copse_tensor *));
    size_t used = 0;
    for (size_t k = 0; parts && k < count; k++) {
        struct onnx_value *v = copse__onnx_in(w, k);
        if (v->shape.dims[axis] > 0 || count == 1)
            parts[used++] = is_whole  ? copse__onnx_i32(w, v)
                            : is_last ? copse__onnx_last(w, v)
                                      : copse__onnx_f32(w, v);
    }
    if (!parts || used == 0) {
        copse__onnx_refuse(w, "all of its operands are empty");
        return;
    }
    if (is_last)
        axis = axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
    copse__onnx_set_either(w, 0, type, copse_concat(w->g, parts, used, axis), is_last);
}

void copse__onnx_concat(struct onnx_walk *w)
{
    const size_t count = copse__onnx_inputs_of(w);
    bool is_known = true, is_last = false;
    uint32_t axis;
    copse_shape shape = copse__onnx_in(w, 0)->shape;
    uint64_t total = 0;
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 1), shape.rank, &axis))
        return;
    for (size_t k = 0; k < count; k++) {
        struct onnx_value *v = copse__onnx_in(w, k);
        bool fits = v && v->shape.rank == shape.rank;
        for (uint32_t i = 0; fits && i < shape.rank; i++)
            fits = i == axis || v->shape.dims[i] == shape.dims[i];
        if (!fits) {
            copse__onnx_refuse(w, "its operands have other shapes");
            return;
        }
        total += v->shape.dims[axis];
        is_known = is_known && copse__onnx_numbers(w, v);
        is_last = is_last || copse__onnx_is_last(v);
    }
    shape.dims[axis] = (uint32_t)COPSE_MIN(total, (uint64_t)UINT32_MAX);
    if (!copse__onnx_shape_fits(shape))
        copse__onnx_refuse(w, "its result has 2^31 elements or more");
    else if (is_known)
        concat_numbers(w, count, axis, shape);
    else
        concat_tensors(w, count, axis, is_last && shape.rank >= 3);
}

/* ---- numbers of shapes ---- */

void copse__onnx_shape_of(struct onnx_walk *w)
{
    const struct onnx_value *x = copse__onnx_in(w, 0);
    const int64_t rank = x->shape.rank;
    int64_t start = copse__onnx_int(w->step->node, "start", 0),
            end = copse__onnx_int(w->step->node, "end", rank);
    start = COPSE_MIN(COPSE_MAX(start < 0 ? start + rank : start, 0), rank);
    end = COPSE_MIN(COPSE_MAX(end < 0 ? end + rank : end, start), rank);
    double *y = copse__onnx_room(w, (size_t)rank + 1, sizeof *y);
    for (int64_t i = start; y && i < end; i++)
        y[i - start] = x->shape.dims[i];
    if (y)
        copse__onnx_set_numbers(w, 0, ONNX_INT64, COPSE_SHAPE((uint32_t)(end - start)), y);
}

void copse__onnx_size_of(struct onnx_walk *w)
{
    double *y = copse__onnx_room(w, 1, sizeof *y);
    if (y) {
        *y = (double)copse__elements(copse__onnx_in(w, 0)->shape);
        copse__onnx_set_numbers(w, 0, ONNX_INT64, COPSE_SCALAR, y);
    }
}

/* Numbers that are attributes; tensors are weights. */
void copse__onnx_constant(struct onnx_walk *w)
{
    const onnx_node *n = w->step->node;
    const CopseOnnx__Attribute *a = n->n_attribute > 0 ? n->attribute[0] : NULL;
    const char *name = a && a->name ? a->name : "";
    const bool is_whole = strncmp(name, "value_int", 9) == 0;
    if (!is_whole && strncmp(name, "value_float", 11) != 0) {
        copse__onnx_refuse(w, "its attribute '%.40s' is not read", name);
        return;
    }
    const bool is_list = name[strlen(name) - 1] == 's';
    const size_t count = !is_list ? 1 : is_whole ? a->n_ints : a->n_floats;
    double *y = copse__onnx_room(w, count, sizeof *y);
    for (size_t i = 0; y && i < count; i++)
        y[i] = is_list    ? (is_whole ? (double)a->ints[i] : (double)a->floats[i])
               : is_whole ? (double)a->i
                          : (double)a->f;
    if (y)
        copse__onnx_set_numbers(w, 0, is_whole ? ONNX_INT64 : ONNX_FLOAT,
                                is_list ? COPSE_SHAPE((uint32_t)count) : COPSE_SCALAR, y);
}

void copse__onnx_constant_of_shape(struct onnx_walk *w)
{
    const CopseOnnx__Attribute *a = copse__onnx_attribute(w->step->node, "value");
    size_t count;
    copse_shape shape, one;
    const int64_t *dims = copse__onnx_list(w, 0, NULL, &count);
    int32_t type = ONNX_FLOAT;
    double value = 0;
    if (w->status != COPSE_OK || !copse__onnx_shape(w, dims, count, &shape))
        return;
    if (a && a->t) {
        type = a->t->data_type;
        if (copse__onnx_tensor_check(a->t, "value", w->m->path, &one) != COPSE_OK ||
            copse__elements(one) < 1 ||
            (!copse__onnx_is_real(type) && !copse__onnx_is_whole(type))) {
            copse__onnx_refuse(w, "its value is not read");
            return;
        }
        value = copse__onnx_element(a->t, 0);
    }
    const size_t elements = (size_t)copse__elements(shape);
    if (elements > ONNX_KNOWN_MOST) {
        const bool is_whole = copse__onnx_is_whole(type) && type != ONNX_BOOL;
        copse__onnx_set(w, 0, type,
                        copse_fill(w->g, is_whole ? COPSE_I32 : COPSE_F32, shape, value));
        return;
    }
    double *y = copse__onnx_room(w, elements, sizeof *y);
    for (size_t i = 0; y && i < elements; i++)
        y[i] = value;
    if (y)
        copse__onnx_set_numbers(w, 0, type, shape, y);
}

void copse__onnx_range(struct onnx_walk *w)
{
    const double *x[3];
    for (size_t i = 0; i < 3; i++) {
        struct onnx_value *v = copse__onnx_in(w, i);
        x[i] = copse__elements(v->shape) == 1 ? copse__onnx_known(w, v, "range") : NULL;
        if (!x[i]) {
            copse__onnx_refuse(w, "its range is no number");
            return;
        }
    }
    const double n = ceil((*x[1] - *x[0]) / *x[2]);
    if (!(n <= (double)ONNX_KNOWN_MOST)) {
        copse__onnx_refuse(w, "a range of %g numbers", n);
        return;
    }
    const size_t count = n > 0 ? (size_t)n : 0;
    double *y = copse__onnx_room(w, count, sizeof *y);
    for (size_t i = 0; y && i < count; i++)
        y[i] = copse__onnx_rounded(copse__onnx_in(w, 0)->type, *x[0] + (double)i * *x[2]);
    if (y)
        copse__onnx_set_numbers(w, 0, copse__onnx_in(w, 0)->type, COPSE_SHAPE((uint32_t)count), y);
}

void copse__onnx_eye(struct onnx_walk *w)
{
    const struct onnx_value *x = copse__onnx_in(w, 0);
    const int64_t k = copse__onnx_int(w->step->node, "k", 0);
    const size_t count = (size_t)copse__elements(x->shape);
    int32_t type;
    if (!copse__onnx_type_of(w, "dtype", x->type, &type))
        return;
    if (x->shape.rank != 2 || count > ONNX_KNOWN_MOST) {
        copse__onnx_refuse(w, "shape %s", COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    const uint32_t columns = x->shape.dims[1];
    double *y = copse__onnx_room(w, count, sizeof *y);
    for (size_t i = 0; y && i < count; i++)
        y[i] = (int64_t)(i % columns) - (int64_t)(i / columns) == k;
    if (y)
        copse__onnx_set_numbers(w, 0, type, x->shape, y);
}
