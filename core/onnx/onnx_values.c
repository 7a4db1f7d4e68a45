/* SPDX-License-Identifier: MIT */
/* Values while a graph is built: known numbers, or tensors, which may be channels-last. A tensor is
   made from numbers, from a weight or from its other order when it is asked for. */
#include "core/onnx/onnx.h"

#include <math.h>
#include <stdio.h>

#include "copse/ops.h"
#include "core/base/half.h"
#include "core/graph/op.h"

#define ROOM_MOST ((size_t)256 << 20) /* bytes of a list that is made while a graph is built */

bool copse__onnx_refuse(struct onnx_walk *w, const char *fmt, ...)
{
    char text[256];
    if (w->status != COPSE_OK)
        return false;
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    const struct copse_onnx_refusal r = { copse__onnx_node_name(w->step->node),
                                          w->step->node->op_type,
                                          copse__arena_strdup(&w->arena, text) };
    w->status = COPSE_ERR_UNSUPPORTED;
    if (!r.why || !COPSE_PUSH(w->arena.mem, &w->refusals, r))
        (void)copse__failed(w->g, copse_no_memory("onnx"));
    return false;
}

void *copse__onnx_room(struct onnx_walk *w, size_t count, size_t size)
{
    if (count > ROOM_MOST / size) {
        copse__onnx_refuse(w, "the import would make a list of %zu numbers", count);
        return NULL;
    }
    void *p = copse__arena_alloc(&w->arena, COPSE_MAX(count, 1u), size);
    if (!p)
        (void)copse__failed(w->g, copse_no_memory("onnx"));
    return p;
}

/* ---- operands ---- */

size_t copse__onnx_inputs_of(const struct onnx_walk *w)
{
    size_t n = w->step->node->n_input;
    while (n > 0 && w->step->in[n - 1] == ONNX_NOTHING)
        n--;
    return n;
}

struct onnx_value *copse__onnx_in(struct onnx_walk *w, size_t i)
{
    const struct onnx_step *s = w->step;
    return i < s->node->n_input && s->in[i] != ONNX_NOTHING ? &w->values[s->in[i]] : NULL;
}

bool copse__onnx_wants(const struct onnx_walk *w, size_t i)
{
    return i < w->step->node->n_output && w->step->out[i] != ONNX_NOTHING;
}

bool copse__onnx_is_last(const struct onnx_value *v)
{
    return v->last && !v->plain;
}

/* ---- orders ---- */

/* Whether moving the channels to the end moves no element. */
static bool order_is_same(copse_shape s)
{
    uint64_t places = 1;
    for (uint32_t i = 2; i < s.rank; i++)
        places *= s.dims[i];
    return places == 1 || s.dims[1] == 1;
}

static copse_shape shape_last(copse_shape s)
{
    copse_shape y = { s.rank, { s.dims[0] } };
    for (uint32_t i = 2; i < s.rank; i++)
        y.dims[i - 1] = s.dims[i];
    y.dims[s.rank - 1] = s.dims[1];
    return y;
}

static copse_shape shape_first(copse_shape s)
{
    copse_shape y = { s.rank, { s.dims[0], s.dims[s.rank - 1] } };
    for (uint32_t i = 2; i < s.rank; i++)
        y.dims[i] = s.dims[i - 1];
    return y;
}

static copse_tensor *order_first(struct onnx_walk *w, copse_tensor *t, copse_shape shape)
{
    if (order_is_same(shape))
        return copse_reshape(w->g, t, shape);
    uint32_t order[COPSE_MAX_RANK] = { 0, shape.rank - 1 };
    for (uint32_t i = 2; i < shape.rank; i++)
        order[i] = i - 1;
    return copse_transpose(w->g, t, order);
}

copse_tensor *copse__onnx_move_last(struct onnx_walk *w, copse_tensor *t)
{
    const copse_shape shape = copse_tensor_shape(t);
    if (order_is_same(shape))
        return copse_reshape(w->g, t, shape_last(shape));
    uint32_t order[COPSE_MAX_RANK] = { 0 };
    for (uint32_t i = 2; i < shape.rank; i++)
        order[i - 1] = i;
    order[shape.rank - 1] = 1;
    return copse_transpose(w->g, t, order);
}

/* ---- tensors ---- */

static copse_tensor *tensor_of_numbers(struct onnx_walk *w, const struct onnx_value *v)
{
    const size_t count = (size_t)copse__elements(v->shape);
    const bool is_whole = copse__onnx_is_whole(v->type) && v->type != ONNX_BOOL;
    union {
        float f;
        int32_t i;
    } *values = copse__alloc(w->arena.mem, count, sizeof *values);
    if (!values)
        return copse__failed(w->g, copse_no_memory("onnx"));
    bool fits = true;
    for (size_t i = 0; i < count; i++)
        if (is_whole) {
            fits = fits && v->numbers[i] >= INT32_MIN && v->numbers[i] <= INT32_MAX;
            values[i].i = fits ? (int32_t)v->numbers[i] : 0;
        } else {
            values[i].f = (float)v->numbers[i];
        }
    copse_tensor *t = NULL;
    if (fits)
        t = copse_constant(w->g, is_whole ? COPSE_I32 : COPSE_F32, v->shape, values);
    else
        copse__onnx_refuse(w, "a whole number does not fit in 32 bits");
    copse__free(w->arena.mem, values);
    return t ? t : copse_fill(w->g, COPSE_I32, v->shape, 0);
}

static copse_tensor *tensor_of_weight(struct onnx_walk *w, const struct onnx_weight *given)
{
    const size_t count = (size_t)copse__elements(given->shape);
    if (given->variable)
        return copse_variable_tensor(given->variable);
    float *room = copse__alloc(w->arena.mem, count, sizeof *room);
    if (!room)
        return copse__failed(w->g, copse_no_memory("onnx"));
    const float *values = copse__onnx_floats(given->tensor, count, room);
    copse_tensor *t = copse_constant(w->g, COPSE_F32, given->shape, values ? values : room);
    copse__free(w->arena.mem, room);
    return t;
}

copse_tensor *copse__onnx_plain(struct onnx_walk *w, struct onnx_value *v)
{
    if (!v->plain && v->last)
        v->plain = order_first(w, v->last, v->shape);
    else if (!v->plain && v->weight && copse__onnx_is_real(v->type))
        v->plain = tensor_of_weight(w, v->weight);
    else if (!v->plain && copse__onnx_numbers(w, v))
        v->plain = tensor_of_numbers(w, v);
    if (v->plain)
        return v->plain;
    copse__onnx_refuse(w, "an operand has the type %s, or more numbers than the import reads",
                       copse__onnx_type_name(v->type));
    return copse_fill(w->g, COPSE_F32, COPSE_SCALAR, 0);
}

copse_tensor *copse__onnx_f32(struct onnx_walk *w, struct onnx_value *v)
{
    copse_tensor *t = copse__onnx_plain(w, v);
    return copse_tensor_type(t) == COPSE_F32 ? t : copse_cast(w->g, t, COPSE_F32);
}

copse_tensor *copse__onnx_i32(struct onnx_walk *w, struct onnx_value *v)
{
    copse_tensor *t = copse__onnx_plain(w, v);
    return copse_tensor_type(t) == COPSE_I32 ? t : copse_cast(w->g, t, COPSE_I32);
}

copse_tensor *copse__onnx_last(struct onnx_walk *w, struct onnx_value *v)
{
    if (!v->last) {
        copse_tensor *t = copse__onnx_f32(w, v);
        if (copse_graph_status(w->g) != COPSE_OK)
            return t;
        v->last = copse__onnx_move_last(w, t);
    }
    return v->last;
}

/* ---- known numbers ---- */

const double *copse__onnx_numbers(struct onnx_walk *w, struct onnx_value *v)
{
    const uint64_t count = copse__elements(v->shape);
    if (v->numbers || !v->weight || v->weight->variable || count > ONNX_KNOWN_MOST ||
        (!copse__onnx_is_real(v->type) && !copse__onnx_is_whole(v->type)))
        return v->numbers;
    double *numbers = copse__onnx_room(w, (size_t)count, sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = copse__onnx_element(v->weight->tensor, i);
    return v->numbers = numbers;
}

const double *copse__onnx_known(struct onnx_walk *w, struct onnx_value *v, const char *what)
{
    const double *numbers = copse__onnx_numbers(w, v);
    if (!numbers)
        copse__onnx_refuse(w, "its %s must be known when the graph is built", what);
    return numbers;
}

const int64_t *copse__onnx_list(struct onnx_walk *w, size_t i, const char *attribute, size_t *count)
{
    struct onnx_value *v = copse__onnx_in(w, i);
    if (!v && !attribute) {
        *count = 0;
        return NULL;
    }
    if (!v)
        return copse__onnx_ints(w->step->node, attribute, count);
    *count = 0;
    const double *numbers = copse__onnx_known(w, v, attribute ? attribute : "operand");
    const size_t n = (size_t)copse__elements(v->shape);
    int64_t *list = numbers ? copse__onnx_room(w, n, sizeof *list) : NULL;
    for (size_t k = 0; list && k < n; k++) {
        if (isnan(numbers[k])) {
            copse__onnx_refuse(w, "a number of its %s is NaN", attribute ? attribute : "operand");
            return NULL;
        }
        list[k] = numbers[k] >= 9.2e18    ? INT64_MAX
                  : numbers[k] <= -9.2e18 ? INT64_MIN
                                          : (int64_t)numbers[k];
    }
    *count = list ? n : 0;
    return list;
}

bool copse__onnx_type_of(struct onnx_walk *w, const char *name, int32_t normal, int32_t *out)
{
    const int64_t type = copse__onnx_int(w->step->node, name, normal);
    if (type < 0 || type > INT32_MAX)
        return copse__onnx_refuse(w, "%s %lld is no type", name, (long long)type);
    *out = (int32_t)type;
    return true;
}

double copse__onnx_rounded(int32_t type, double x)
{
    switch (type) {
    case ONNX_DOUBLE:
        return x;
    case ONNX_BOOL:
        return x != 0;
    case ONNX_FLOAT16:
        return (double)copse__f16_to_f32(copse__f32_to_f16((float)x));
    case ONNX_BFLOAT16:
        return (double)copse__bf16_to_f32(copse__f32_to_bf16((float)x));
    default:
        return !copse__onnx_is_whole(type) ? (double)(float)x : isfinite(x) ? trunc(x) : 0.0;
    }
}

/* ---- results ---- */

static struct onnx_value *result_of(struct onnx_walk *w, size_t i)
{
    struct onnx_value *v = copse__onnx_wants(w, i) ? &w->values[w->step->out[i]] : &w->unwanted;
    *v = (struct onnx_value){ .is_there = true };
    return v;
}

void copse__onnx_set(struct onnx_walk *w, size_t i, int32_t type, copse_tensor *t)
{
    struct onnx_value *v = result_of(w, i);
    v->type = type;
    v->plain = t;
    v->shape = copse_tensor_shape(t);
}

void copse__onnx_set_last(struct onnx_walk *w, size_t i, copse_tensor *t)
{
    struct onnx_value *v = result_of(w, i);
    const copse_shape shape = copse_tensor_shape(t);
    v->type = ONNX_FLOAT;
    v->last = t;
    v->shape = shape.rank >= 3 ? shape_first(shape) : shape;
}

void copse__onnx_set_numbers(struct onnx_walk *w, size_t i, int32_t type, copse_shape shape,
                             const double *numbers)
{
    struct onnx_value *v = result_of(w, i);
    v->type = type;
    v->shape = shape;
    v->numbers = numbers;
}

void copse__onnx_set_same(struct onnx_walk *w, size_t i, struct onnx_value *v)
{
    const struct onnx_value same = *v;
    *result_of(w, i) = same;
}

void copse__onnx_set_reshaped(struct onnx_walk *w, size_t i, struct onnx_value *v,
                              copse_shape shape)
{
    const int32_t type = v->type;
    if (copse__elements(shape) != copse__elements(v->shape))
        copse__onnx_refuse(w, "shape %s does not become %s", COPSE_SHAPE_TEXT(v->shape),
                           COPSE_SHAPE_TEXT(shape));
    else if (copse__onnx_numbers(w, v))
        copse__onnx_set_numbers(w, i, type, shape, v->numbers);
    else
        copse__onnx_set(w, i, type, copse_reshape(w->g, copse__onnx_plain(w, v), shape));
}

static void pick_numbers(struct onnx_walk *w, size_t i, const struct onnx_value *v,
                         copse_shape shape, const int32_t *flat, double fill)
{
    const size_t count = (size_t)copse__elements(shape);
    double *numbers = copse__onnx_room(w, count, sizeof *numbers);
    for (size_t k = 0; numbers && k < count; k++)
        numbers[k] = flat[k] < 0 ? fill : v->numbers[flat[k]];
    if (numbers)
        copse__onnx_set_numbers(w, i, v->type, shape, numbers);
}

void copse__onnx_set_picked(struct onnx_walk *w, size_t i, struct onnx_value *v, copse_shape shape,
                            const int32_t *flat, double fill)
{
    const uint32_t elements = (uint32_t)copse__elements(v->shape);
    const size_t count = (size_t)copse__elements(shape);
    const int32_t type = v->type;
    if (copse__onnx_numbers(w, v)) {
        pick_numbers(w, i, v, shape, flat, fill);
        return;
    }
    copse_tensor *x = copse__onnx_f32(w, v);
    const bool is_whole = copse_tensor_type(copse__onnx_plain(w, v)) == COPSE_I32;
    int32_t *places = copse__onnx_room(w, count, sizeof *places),
            *inside = copse__onnx_room(w, count, sizeof *inside);
    if (!places || !inside)
        return;
    bool is_filled = false;
    for (size_t k = 0; k < count; k++) {
        inside[k] = flat[k] >= 0;
        places[k] = inside[k] ? flat[k] : 0;
        is_filled = is_filled || !inside[k];
    }
    copse_tensor *y;
    if (count == 0 || elements == 0) {
        y = copse_fill(w->g, COPSE_F32, shape, fill);
    } else {
        y = copse_reshape(
            w->g,
            copse_gather(w->g, copse_reshape(w->g, x, COPSE_SHAPE(elements, 1)),
                         copse_constant(w->g, COPSE_I32, COPSE_SHAPE((uint32_t)count), places)),
            shape);
        if (is_filled)
            y = copse_where(w->g, copse_constant(w->g, COPSE_I32, shape, inside), y,
                            copse_scalar(w->g, fill));
    }
    copse__onnx_set(w, i, type, is_whole ? copse_cast(w->g, y, COPSE_I32) : y);
}

/* ---- shapes ---- */

bool copse__onnx_axis(struct onnx_walk *w, int64_t given, uint32_t rank, uint32_t *out)
{
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank)
        return copse__onnx_refuse(w, "axis %lld of %u", (long long)given, rank);
    *out = (uint32_t)axis;
    return true;
}

bool copse__onnx_shape_fits(copse_shape s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s.rank; i++)
        if ((n *= s.dims[i]) > INT32_MAX)
            return false;
    return true;
}

bool copse__onnx_shape(struct onnx_walk *w, const int64_t *dims, size_t rank, copse_shape *out)
{
    *out = (copse_shape){ .rank = 0 };
    if (rank > COPSE_MAX_RANK)
        return copse__onnx_refuse(w, "a shape of %zu axes; at most %d", rank, COPSE_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || dims[i] > INT32_MAX)
            return copse__onnx_refuse(w, "an axis of %lld elements", (long long)dims[i]);
        out->dims[out->rank++] = (uint32_t)dims[i];
    }
    return copse__onnx_shape_fits(*out) ||
           copse__onnx_refuse(w, "a shape of 2^31 elements or more");
}

bool copse__onnx_broadcast(copse_shape a, copse_shape b, copse_shape *out)
{
    *out = (copse_shape){ .rank = COPSE_MAX(a.rank, b.rank) };
    for (uint32_t i = 1; i <= out->rank; i++) {
        const uint32_t x = i <= a.rank ? a.dims[a.rank - i] : 1,
                       y = i <= b.rank ? b.dims[b.rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out->dims[out->rank - i] = x == 1 ? y : x;
    }
    return copse__onnx_shape_fits(*out);
}
