/* SPDX-License-Identifier: MIT */
/* Operators that read or write places by index, and orders of elements. */
#include "copse/ops.h"
#include "copse/ops/scan.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

/* A known index on an axis of `size`, which may count from the end; false: refused. */
static bool index_of(struct onnx_walk *w, double given, uint32_t size, int32_t *out)
{
    const double index = given < 0 ? given + size : given;
    if (!(index >= 0 && index < size))
        return copse__onnx_refuse(w, "index %g of %u", given, size);
    *out = (int32_t)index;
    return true;
}

/* An axis moved to the end, or back. */
static copse_tensor *axis_to_last(struct onnx_walk *w, copse_tensor *t, uint32_t axis,
                                  uint32_t rank, bool is_back)
{
    uint32_t order[COPSE_MAX_RANK], k = 0;
    if (axis == rank - 1)
        return t;
    for (uint32_t i = 0; i < rank; i++)
        if (is_back)
            order[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
        else if (i != axis)
            order[k++] = i;
    if (!is_back)
        order[k] = axis;
    return copse_transpose(w->g, t, order);
}

/* ---- gather ---- */

/* Rows of an axis by indices: a table of the rows, then the axes in their order. */
static void gather_tensor(struct onnx_walk *w, struct onnx_value *x, struct onnx_value *at,
                          uint32_t axis)
{
    const uint32_t rank = x->shape.rank, more = at->shape.rank;
    const bool is_whole = copse__onnx_is_whole(x->type) && x->type != ONNX_BOOL;
    uint32_t order[COPSE_MAX_RANK] = { axis }, back[2 * COPSE_MAX_RANK], n = 0;
    copse_tensor *t = copse__onnx_f32(w, x), *indices = copse__onnx_i32(w, at);
    for (uint32_t i = 0, k = 1; i < rank; i++)
        if (i != axis)
            order[k++] = i;
    if (!copse__onnx_numbers(w, at)) { /* places from the end */
        copse_tensor *is_low =
            copse_less(w->g, indices, copse_fill(w->g, COPSE_I32, COPSE_SCALAR, 0));
        copse_tensor *high = copse_add(w->g, copse_cast(w->g, indices, COPSE_F32),
                                       copse_scalar(w->g, x->shape.dims[axis]));
        indices = copse_where(w->g, is_low, copse_cast(w->g, high, COPSE_I32), indices);
    }
    t = axis == 0 ? t : copse_transpose(w->g, t, order);
    t = copse_gather(w->g, t, indices);
    for (uint32_t i = 0; i < axis; i++)
        back[n++] = more + i;
    for (uint32_t i = 0; i < more; i++)
        back[n++] = i;
    for (uint32_t i = axis; i + 1 < rank; i++)
        back[n++] = more + i;
    t = axis == 0 ? t : copse_transpose(w->g, t, back);
    copse__onnx_set(w, 0, x->type, is_whole ? copse_cast(w->g, t, COPSE_I32) : t);
}

static void gather_numbers(struct onnx_walk *w, struct onnx_value *x, struct onnx_value *at,
                           uint32_t axis, copse_shape shape)
{
    size_t outer = 1, inner = 1, k = 0;
    const size_t count = (size_t)copse__elements(at->shape);
    for (uint32_t i = 0; i < x->shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->shape.dims[i];
    int32_t *flat = copse__onnx_room(w, (size_t)copse__elements(shape), sizeof *flat);
    for (size_t o = 0; flat && o < outer; o++)
        for (size_t c = 0; c < count; c++) {
            int32_t place = 0;
            if (!index_of(w, at->numbers[c], x->shape.dims[axis], &place))
                return;
            for (size_t i = 0; i < inner; i++)
                flat[k++] = (int32_t)((o * x->shape.dims[axis] + (size_t)place) * inner + i);
        }
    if (flat)
        copse__onnx_set_picked(w, 0, x, shape, flat, 0);
}

void copse__onnx_gather(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *at = copse__onnx_in(w, 1);
    uint32_t axis;
    copse_shape shape = { .rank = 0 };
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 0), x->shape.rank, &axis))
        return;
    if (x->shape.rank + at->shape.rank - 1 > COPSE_MAX_RANK) {
        copse__onnx_refuse(w, "a result of %u axes", x->shape.rank + at->shape.rank - 1);
        return;
    }
    for (uint32_t i = 0; i < axis; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];
    for (uint32_t i = 0; i < at->shape.rank; i++)
        shape.dims[shape.rank++] = at->shape.dims[i];
    for (uint32_t i = axis + 1; i < x->shape.rank; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];
    if (copse__onnx_shape_fits(shape) && copse__onnx_numbers(w, at) &&
        (copse__onnx_numbers(w, x) || copse__elements(at->shape) == 1))
        gather_numbers(w, x, at, axis, shape);
    else if (copse__onnx_numbers(w, at)) { /* indices that count from the end become others */
        const size_t count = (size_t)copse__elements(at->shape);
        double *places = copse__onnx_room(w, count, sizeof *places);
        struct onnx_value known = { .type = ONNX_INT64, .shape = at->shape, .numbers = places };
        int32_t place = 0;
        for (size_t i = 0; places && i < count; i++) {
            if (!index_of(w, at->numbers[i], x->shape.dims[axis], &place))
                return;
            places[i] = place;
        }
        if (places)
            gather_tensor(w, x, &known, axis);
    } else
        gather_tensor(w, x, at, axis);
}

/* The coordinates of element `k` of a shape. */
static void coordinates_of(copse_shape s, size_t k, uint32_t *at)
{
    for (uint32_t i = s.rank; i-- > 0; k /= s.dims[i])
        at[i] = (uint32_t)(k % s.dims[i]);
}

static size_t flat_of(copse_shape s, const uint32_t *at)
{
    size_t k = 0;
    for (uint32_t i = 0; i < s.rank; i++)
        k = k * s.dims[i] + at[i];
    return k;
}

/* For each index of GatherElements or ScatterElements the flat place in `shape`; NULL: refused. */
static int32_t *element_places(struct onnx_walk *w, copse_shape shape, struct onnx_value *at)
{
    uint32_t axis, c[COPSE_MAX_RANK];
    const double *numbers = copse__onnx_known(w, at, "indices");
    if (!numbers ||
        !copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 0), shape.rank, &axis))
        return NULL;
    bool fits = at->shape.rank == shape.rank;
    for (uint32_t i = 0; fits && i < shape.rank; i++)
        fits = i == axis || at->shape.dims[i] <= shape.dims[i];
    if (!fits) {
        copse__onnx_refuse(w, "indices of shape %s for %s", COPSE_SHAPE_TEXT(at->shape),
                           COPSE_SHAPE_TEXT(shape));
        return NULL;
    }
    const size_t count = (size_t)copse__elements(at->shape);
    int32_t *flat = copse__onnx_room(w, count, sizeof *flat), place = 0;
    for (size_t k = 0; flat && k < count; k++) {
        coordinates_of(at->shape, k, c);
        if (!index_of(w, numbers[k], shape.dims[axis], &place))
            return NULL;
        c[axis] = (uint32_t)place;
        flat[k] = (int32_t)flat_of(shape, c);
    }
    return flat;
}

/* Indices of a device: a sum over the axis, in which one element counts. */
static void gather_on_device(struct onnx_walk *w, struct onnx_value *x, struct onnx_value *at)
{
    uint32_t axis, k = 0;
    const uint32_t rank = x->shape.rank;
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 0), rank, &axis))
        return;
    bool fits = at->shape.rank == rank && rank < COPSE_MAX_RANK;
    for (uint32_t i = 0; fits && i < rank; i++)
        fits = i == axis || at->shape.dims[i] == x->shape.dims[i];
    if (!fits) {
        copse__onnx_refuse(w, "indices of shape %s that depend on the input for %s",
                           COPSE_SHAPE_TEXT(at->shape), COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    const uint32_t size = x->shape.dims[axis];
    copse_tensor *i = axis_to_last(w, copse__onnx_i32(w, at), axis, rank, false);
    copse_tensor *t = axis_to_last(w, copse__onnx_f32(w, x), axis, rank, false);
    copse_tensor *low = copse_less(w->g, i, copse_fill(w->g, COPSE_I32, COPSE_SCALAR, 0));
    copse_tensor *high = copse_add(w->g, copse_cast(w->g, i, COPSE_F32), copse_scalar(w->g, size));
    i = copse_where(w->g, low, copse_cast(w->g, high, COPSE_I32), i);
    copse_shape wide = { rank + 1, { 0 } };
    for (uint32_t a = 0; a < rank; a++)
        if (a != axis)
            wide.dims[k++] = x->shape.dims[a];
    wide.dims[k++] = 1;
    wide.dims[k] = size;
    copse_tensor *picked = copse_where(w->g, copse_one_hot(w->g, i, size),
                                       copse_reshape(w->g, t, wide), copse_scalar(w->g, 0));
    const uint32_t last = rank;
    t = copse_sum(w->g, picked, &last, 1, false);
    copse__onnx_set_either(w, 0, x->type, axis_to_last(w, t, axis, rank, true), false);
}

void copse__onnx_gather_elements(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *at = copse__onnx_in(w, 1);
    if (!copse__onnx_numbers(w, at)) {
        gather_on_device(w, x, at);
        return;
    }
    const int32_t *flat = element_places(w, x->shape, at);
    if (flat)
        copse__onnx_set_picked(w, 0, x, at->shape, flat, 0);
}

/* For each entry of the last axis of `at` the flat places of what it names; NULL: refused. */
static int32_t *entry_places(struct onnx_walk *w, copse_shape shape, struct onnx_value *at,
                             uint32_t batch, copse_shape *out)
{
    const double *numbers = copse__onnx_known(w, at, "indices");
    if (!numbers || at->shape.rank == 0)
        return NULL;
    const uint32_t depth = at->shape.dims[at->shape.rank - 1], lead = at->shape.rank - 1;
    bool fits = batch + depth <= shape.rank && batch <= lead &&
                lead + shape.rank - batch - depth <= COPSE_MAX_RANK;
    for (uint32_t i = 0; fits && i < batch; i++)
        fits = at->shape.dims[i] == shape.dims[i];
    if (!fits) {
        copse__onnx_refuse(w, "indices of shape %s for %s", COPSE_SHAPE_TEXT(at->shape),
                           COPSE_SHAPE_TEXT(shape));
        return NULL;
    }
    size_t inner = 1, entries = 1, items = 1;
    *out = (copse_shape){ .rank = 0 };
    for (uint32_t i = 0; i < lead; i++) {
        entries *= out->dims[out->rank++] = at->shape.dims[i];
        items *= i < batch ? at->shape.dims[i] : 1;
    }
    for (uint32_t i = batch + depth; i < shape.rank; i++)
        inner *= out->dims[out->rank++] = shape.dims[i];
    if (!copse__onnx_shape_fits(*out)) {
        copse__onnx_refuse(w, "its result has 2^31 elements or more");
        return NULL;
    }
    int32_t *flat = copse__onnx_room(w, entries * inner, sizeof *flat), place = 0;
    for (size_t e = 0; flat && e < entries; e++) {
        size_t from = items > 0 ? e / (entries / items) : 0;
        for (uint32_t d = 0; d < depth; d++) {
            if (!index_of(w, numbers[e * depth + d], shape.dims[batch + d], &place))
                return NULL;
            from = from * shape.dims[batch + d] + (size_t)place;
        }
        for (size_t i = 0; i < inner; i++)
            flat[e * inner + i] = (int32_t)(from * inner + i);
    }
    return flat;
}

void copse__onnx_gather_nd(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *at = copse__onnx_in(w, 1);
    const int64_t batch = copse__onnx_int(w->step->node, "batch_dims", 0);
    copse_shape shape;
    if (batch < 0 || batch > COPSE_MAX_RANK) {
        copse__onnx_refuse(w, "batch_dims %lld", (long long)batch);
        return;
    }
    const int32_t *flat = entry_places(w, x->shape, at, (uint32_t)batch, &shape);
    if (flat)
        copse__onnx_set_picked(w, 0, x, shape, flat, 0);
}

/* ---- scatter ---- */

static void scatter_add(struct onnx_walk *w, struct onnx_value *x, struct onnx_value *updates,
                        const int32_t *flat, uint32_t count)
{
    /* sums by place are the derivative of a gather */
    const uint32_t size = (uint32_t)copse__elements(x->shape);
    copse_tensor *table = copse_fill(w->g, COPSE_F32, COPSE_SHAPE(size, 1), 0), *sums = NULL;
    copse_tensor *rows =
        copse_gather(w->g, table, copse_constant(w->g, COPSE_I32, COPSE_SHAPE(count), flat));
    copse_tensor *dy = copse_reshape(w->g, copse__onnx_f32(w, updates), COPSE_SHAPE(count, 1));
    copse_gradients(w->g, rows, dy, &table, 1, &sums);
    copse__onnx_set_either(
        w, 0, x->type, copse_add(w->g, copse__onnx_f32(w, x), copse_reshape(w->g, sums, x->shape)),
        false);
}

void copse__onnx_scatter(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *at = copse__onnx_in(w, 1),
                      *updates = copse__onnx_in(w, 2);
    const onnx_node *n = w->step->node;
    copse_shape shape = at->shape;
    const int32_t *flat = strcmp(w->step->row->name, "ScatterND") == 0
                              ? entry_places(w, x->shape, at, 0, &shape)
                              : element_places(w, x->shape, at);
    if (!flat)
        return;
    const size_t size = (size_t)copse__elements(x->shape), count = (size_t)copse__elements(shape);
    if (!copse__shape_equal(shape, updates->shape)) {
        copse__onnx_refuse(w, "updates of shape %s for %s", COPSE_SHAPE_TEXT(updates->shape),
                           COPSE_SHAPE_TEXT(shape));
        return;
    }
    if (copse__onnx_text_is(n, "reduction", "none", "add")) {
        scatter_add(w, x, updates, flat, (uint32_t)count);
        return;
    }
    if (!copse__onnx_text_is(n, "reduction", "none", "none")) {
        copse__onnx_refuse(w, "its reduction is not read");
        return;
    }
    int32_t *from = copse__onnx_room(w, size, sizeof *from),
            *is_new = copse__onnx_room(w, size, sizeof *is_new);
    for (size_t k = 0; from && is_new && k < count; k++) {
        from[flat[k]] = (int32_t)k;
        is_new[flat[k]] = 1;
    }
    if (!from || !is_new || count == 0) {
        copse__onnx_set_same(w, 0, x);
        return;
    }
    copse__onnx_set_picked(w, 0, updates, x->shape, from, 0);
    struct onnx_value picked = copse__onnx_wants(w, 0) ? w->values[w->step->out[0]] : w->unwanted;
    copse_tensor *y = copse_where(w->g, copse_constant(w->g, COPSE_I32, x->shape, is_new),
                                  copse__onnx_f32(w, &picked), copse__onnx_f32(w, x));
    copse__onnx_set_either(w, 0, x->type, y, false);
}

/* ---- others ---- */

void copse__onnx_one_hot(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *depth = copse__onnx_in(w, 1),
                      *values = copse__onnx_in(w, 2);
    const double *n = copse__onnx_known(w, depth, "depth"),
                 *two = copse__onnx_known(w, values, "values");
    const uint32_t rank = x->shape.rank + 1;
    uint32_t axis, order[COPSE_MAX_RANK], k = 0;
    if (!n || !two || copse__elements(depth->shape) != 1 || copse__elements(values->shape) != 2 ||
        !(*n >= 1 && *n < 1 << 24) || rank > COPSE_MAX_RANK) {
        copse__onnx_refuse(w, "its depth or its values");
        return;
    }
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", -1), rank, &axis))
        return;
    copse_tensor *at = copse__onnx_i32(w, x);
    copse_tensor *low = copse_less(w->g, at, copse_fill(w->g, COPSE_I32, COPSE_SCALAR, 0));
    copse_tensor *high = copse_add(w->g, copse_cast(w->g, at, COPSE_F32), copse_scalar(w->g, *n));
    at = copse_where(w->g, low, copse_cast(w->g, high, COPSE_I32), at);
    copse_tensor *y = copse_one_hot(w->g, at, (uint32_t)*n);
    y = copse_add(w->g, copse_multiply_by(w->g, y, (float)(two[1] - two[0])),
                  copse_scalar(w->g, two[0]));
    for (uint32_t i = 0; i < rank; i++)
        order[i] = i == axis ? rank - 1 : k++;
    copse__onnx_set_either(w, 0, values->type, copse_transpose(w->g, y, order), false);
}

void copse__onnx_trilu(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *given = copse__onnx_in(w, 1);
    const double *k = given ? copse__onnx_known(w, given, "diagonal") : NULL;
    const bool is_upper = copse__onnx_int(w->step->node, "upper", 1) != 0;
    const uint32_t rank = x->shape.rank;
    if (rank < 2 || (given && !k)) {
        copse__onnx_refuse(w, "shape %s", COPSE_SHAPE_TEXT(x->shape));
        return;
    }
    const uint32_t columns = x->shape.dims[rank - 1], rows = x->shape.dims[rank - 2];
    const bool is_known = copse__onnx_numbers(w, x) != NULL;
    const size_t count =
        is_known ? (size_t)copse__elements(x->shape) : (size_t)rows * columns; /* the last axes */
    int32_t *flat = copse__onnx_room(w, count, sizeof *flat);
    for (size_t i = 0; flat && i < count; i++) {
        const double off = (double)(i % columns) - (double)(i / columns % rows) - (k ? *k : 0);
        const bool stays = is_upper ? off >= 0 : off <= 0;
        flat[i] = is_known ? (stays ? (int32_t)i : -1) : stays;
    }
    if (flat && is_known) {
        copse__onnx_set_picked(w, 0, x, x->shape, flat, 0);
    } else if (flat) {
        copse_tensor *mask = copse_constant(w->g, COPSE_I32, COPSE_SHAPE(rows, columns), flat);
        copse_tensor *y = copse_where(w->g, mask, copse__onnx_f32(w, x), copse_scalar(w->g, 0));
        copse__onnx_set_either(w, 0, x->type, y, false);
    }
}

void copse__onnx_compress(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *c = copse__onnx_in(w, 1);
    const double *take = copse__onnx_known(w, c, "condition");
    const bool is_flat = !copse__onnx_attribute(w->step->node, "axis");
    const size_t conditions = (size_t)copse__elements(c->shape);
    struct onnx_value flat_x = *x, *from = x;
    uint32_t axis = 0, n = 0;
    if (!take)
        return;
    if (is_flat) {
        flat_x.shape = COPSE_SHAPE((uint32_t)copse__elements(x->shape));
        if (!copse__onnx_numbers(w, x))
            flat_x = (struct onnx_value){ .type = x->type,
                                          .shape = flat_x.shape,
                                          .plain = copse_reshape(w->g, copse__onnx_plain(w, x),
                                                                 flat_x.shape) };
        from = &flat_x;
    } else if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", 0), x->shape.rank,
                                 &axis)) {
        return;
    }
    int32_t *maps[COPSE_MAX_RANK] = { NULL };
    copse_shape shape = from->shape;
    maps[axis] = copse__onnx_room(w, conditions, sizeof *maps[axis]);
    for (size_t i = 0; maps[axis] && i < conditions && i < from->shape.dims[axis]; i++)
        if (take[i] != 0)
            maps[axis][n++] = (int32_t)i;
    shape.dims[axis] = n;
    if (maps[axis])
        copse__onnx_set_mapped(w, 0, from, shape, maps, 0);
}

void copse__onnx_reverse(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *lengths = copse__onnx_in(w, 1);
    const double *length = copse__onnx_known(w, lengths, "lengths");
    uint32_t time, batch, c[COPSE_MAX_RANK];
    if (!length ||
        !copse__onnx_axis(w, copse__onnx_int(w->step->node, "time_axis", 0), x->shape.rank,
                          &time) ||
        !copse__onnx_axis(w, copse__onnx_int(w->step->node, "batch_axis", 1), x->shape.rank,
                          &batch))
        return;
    if (copse__elements(lengths->shape) != x->shape.dims[batch]) {
        copse__onnx_refuse(w, "lengths of shape %s", COPSE_SHAPE_TEXT(lengths->shape));
        return;
    }
    const size_t count = (size_t)copse__elements(x->shape);
    int32_t *flat = copse__onnx_room(w, count, sizeof *flat);
    for (size_t k = 0; flat && k < count; k++) {
        coordinates_of(x->shape, k, c);
        const double n = length[c[batch]];
        if (c[time] < n && n <= x->shape.dims[time])
            c[time] = (uint32_t)n - 1 - c[time];
        flat[k] = (int32_t)flat_of(x->shape, c);
    }
    if (flat)
        copse__onnx_set_picked(w, 0, x, x->shape, flat, 0);
}

void copse__onnx_non_zero(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0);
    const double *numbers = copse__onnx_known(w, x, "operand");
    const size_t count = (size_t)copse__elements(x->shape);
    size_t n = 0, at = 0;
    uint32_t c[COPSE_MAX_RANK];
    for (size_t i = 0; numbers && i < count; i++)
        n += numbers[i] != 0;
    double *y = numbers ? copse__onnx_room(w, n * x->shape.rank, sizeof *y) : NULL;
    for (size_t i = 0; y && i < count; i++) {
        if (numbers[i] == 0)
            continue;
        coordinates_of(x->shape, i, c);
        for (uint32_t a = 0; a < x->shape.rank; a++)
            y[a * n + at] = c[a];
        at++;
    }
    if (y)
        copse__onnx_set_numbers(w, 0, ONNX_INT64, COPSE_SHAPE(x->shape.rank, (uint32_t)n), y);
}

/* ---- orders and sums along an axis ---- */

void copse__onnx_top_k(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *given = copse__onnx_in(w, 1);
    const uint32_t rank = x->shape.rank;
    double n = (double)copse__onnx_int(w->step->node, "k", 0);
    uint32_t axis;
    if (given) {
        const double *known = copse__onnx_known(w, given, "k");
        n = known && copse__elements(given->shape) == 1 ? *known : 0;
    }
    if (!copse__onnx_axis(w, copse__onnx_int(w->step->node, "axis", -1), rank, &axis))
        return;
    if (!(n >= 1 && n <= x->shape.dims[axis])) {
        copse__onnx_refuse(w, "k %g of %u", n, x->shape.dims[axis]);
        return;
    }
    const bool is_largest = copse__onnx_int(w->step->node, "largest", 1) != 0;
    copse_tensor *t = axis_to_last(w, copse__onnx_f32(w, x), axis, rank, false), *indices = NULL;
    t = copse_top_k(w->g, is_largest ? t : copse_neg(w->g, t), (uint32_t)n, &indices);
    t = is_largest ? t : copse_neg(w->g, t);
    copse__onnx_set_either(w, 0, x->type, axis_to_last(w, t, axis, rank, true), false);
    copse__onnx_set(w, 1, ONNX_INT64, axis_to_last(w, indices, axis, rank, true));
}

void copse__onnx_cumsum(struct onnx_walk *w)
{
    struct onnx_value *x = copse__onnx_in(w, 0), *given = copse__onnx_in(w, 1);
    const double *known = copse__onnx_known(w, given, "axis");
    uint32_t axis;
    if (!known || copse__elements(given->shape) != 1 ||
        !copse__onnx_axis(w, (int64_t)*known, x->shape.rank, &axis))
        return;
    copse_tensor *t = copse_cumsum(w->g, copse__onnx_f32(w, x), axis,
                                   copse__onnx_int(w->step->node, "exclusive", 0) != 0,
                                   copse__onnx_int(w->step->node, "reverse", 0) != 0);
    copse__onnx_set_either(w, 0, x->type, t, false);
}
