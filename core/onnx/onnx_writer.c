/* SPDX-License-Identifier: MIT */
/* Nodes, attributes and tensors of a file that is written. */
#include "core/onnx/onnx_writer.h"

#include <stdio.h>

#define FIELDS_MOST 8

/* ---- messages ---- */

void *copse__onnx_writer_room(struct layer_writer *w, size_t count, size_t size)
{
    void *p = copse__arena_alloc(&w->arena, COPSE_MAX(count, 1u), size);
    w->is_full = w->is_full || !p;
    return p;
}

char *copse__onnx_writer_text(struct layer_writer *w, const char *text)
{
    char *p = copse__arena_strdup(&w->arena, text);
    w->is_full = w->is_full || !p;
    return p;
}

void copse__onnx_writer_push(struct layer_writer *w, struct message_list *list, void *message)
{
    if (!message || !COPSE_PUSH(w->mem, list, message))
        w->is_full = true;
}

const char *copse__onnx_new_name(struct layer_writer *w, const char *what)
{
    char text[64];
    snprintf(text, sizeof text, "%.40s_%u", what, ++w->number);
    return copse__onnx_writer_text(w, text);
}

/* A node of `inputs` (up to NULL) with one result, whose name is returned. */
onnx_node *copse__onnx_put_node(struct layer_writer *w, const char *op, const char *const *inputs,
                                const char *output)
{
    onnx_node *n = copse__onnx_writer_room(w, 1, sizeof *n);
    char **names = copse__onnx_writer_room(w, FIELDS_MOST, sizeof *names),
         **out = copse__onnx_writer_room(w, 1, sizeof *out);
    CopseOnnx__Attribute **attributes =
        copse__onnx_writer_room(w, FIELDS_MOST, sizeof(CopseOnnx__Attribute *));
    if (!n || !names || !out || !attributes)
        return NULL;
    copse_onnx__node__init(n);
    n->op_type = copse__onnx_writer_text(w, op);
    n->name = copse__onnx_writer_text(w, output ? output : op);
    n->input = names;
    for (; inputs[n->n_input]; n->n_input++)
        names[n->n_input] = copse__onnx_writer_text(w, inputs[n->n_input]);
    *out = copse__onnx_writer_text(w, output ? output : op);
    n->output = out;
    n->n_output = 1;
    n->attribute = attributes;
    copse__onnx_writer_push(w, &w->nodes, n);
    return n;
}

static CopseOnnx__Attribute *put_attribute(struct layer_writer *w, onnx_node *n, const char *name,
                                           int32_t type)
{
    CopseOnnx__Attribute *a = n ? copse__onnx_writer_room(w, 1, sizeof *a) : NULL;
    if (!a)
        return NULL;
    copse_onnx__attribute__init(a);
    a->name = copse__onnx_writer_text(w, name);
    a->has_type = true;
    a->type = type;
    n->attribute[n->n_attribute++] = a;
    return a;
}

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_FLOATS = 6, ATTRIBUTE_INTS = 7 };

void copse__onnx_put_int(struct layer_writer *w, onnx_node *n, const char *name, int64_t value)
{
    CopseOnnx__Attribute *a = put_attribute(w, n, name, ATTRIBUTE_INT);
    if (a) {
        a->has_i = true;
        a->i = value;
    }
}

void copse__onnx_put_float(struct layer_writer *w, onnx_node *n, const char *name, float value)
{
    CopseOnnx__Attribute *a = put_attribute(w, n, name, ATTRIBUTE_FLOAT);
    if (a) {
        a->has_f = true;
        a->f = value;
    }
}

void copse__onnx_put_ints(struct layer_writer *w, onnx_node *n, const char *name,
                          const int64_t *values, size_t count)
{
    CopseOnnx__Attribute *a = put_attribute(w, n, name, ATTRIBUTE_INTS);
    int64_t *copy = copse__onnx_writer_room(w, count, sizeof *copy);
    if (!a || !copy)
        return;
    memcpy(copy, values, count * sizeof *copy);
    a->n_ints = count;
    a->ints = copy;
}

const char *copse__onnx_put_constants(struct layer_writer *w, const double *values, uint32_t count)
{
    const char *name = copse__onnx_new_name(w, "numbers");
    onnx_node *n =
        name ? copse__onnx_put_node(w, "Constant", (const char *const[]){ NULL }, name) : NULL;
    CopseOnnx__Attribute *a = put_attribute(w, n, "value_floats", ATTRIBUTE_FLOATS);
    float *copy = copse__onnx_writer_room(w, count, sizeof *copy);
    if (!a || !copy)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        copy[i] = (float)values[i];
    a->n_floats = count;
    a->floats = copy;
    return name;
}

/* An initialiser; its data are set by the caller. */
onnx_tensor *copse__onnx_put_tensor(struct layer_writer *w, const char *name, int32_t type,
                                    copse_shape shape)
{
    onnx_tensor *t = copse__onnx_writer_room(w, 1, sizeof *t);
    int64_t *dims = copse__onnx_writer_room(w, shape.rank, sizeof *dims);
    if (!t || !dims)
        return NULL;
    copse_onnx__tensor__init(t);
    t->name = copse__onnx_writer_text(w, name);
    t->has_data_type = true;
    t->data_type = type;
    t->dims = dims;
    for (; t->n_dims < shape.rank; t->n_dims++)
        dims[t->n_dims] = shape.dims[t->n_dims];
    copse__onnx_writer_push(w, &w->tensors, t);
    return t;
}

const char *copse__onnx_put_wholes(struct layer_writer *w, const int64_t *values, uint32_t count)
{
    const char *name = copse__onnx_new_name(w, "numbers");
    onnx_tensor *t = name ? copse__onnx_put_tensor(w, name, ONNX_INT64, COPSE_SHAPE(count)) : NULL;
    int64_t *copy = copse__onnx_writer_room(w, count, sizeof *copy);
    if (t && copy) {
        memcpy(copy, values, count * sizeof *copy);
        t->n_int64_data = count;
        t->int64_data = copy;
    }
    return name ? name : "";
}

/* Room for the values of an f32 initialiser; NULL: there is none. */
float *copse__onnx_put_reals(struct layer_writer *w, const char *name, copse_shape shape)
{
    const size_t count = (size_t)copse__elements(shape);
    float *values = copse__onnx_writer_room(w, count, sizeof *values);
    onnx_tensor *t = name ? copse__onnx_put_tensor(w, name, ONNX_FLOAT, shape) : NULL;
    if (!t || !values)
        return NULL;
    t->n_float_data = count;
    t->float_data = values;
    return values;
}

const char *copse__onnx_put_real(struct layer_writer *w, double value)
{
    const char *name = copse__onnx_new_name(w, "number");
    float *to = copse__onnx_put_reals(w, name, COPSE_SCALAR);
    if (to)
        *to = (float)value;
    return name ? name : "";
}

/* ---- what flows ---- */

/* A node of `now` and other operands; its result flows on. */
onnx_node *copse__onnx_flow_node(struct layer_writer *w, const char *op, const char *second,
                                 const char *third)
{
    const char *out = copse__onnx_new_name(w, op);
    onnx_node *n =
        out ? copse__onnx_put_node(w, op, (const char *const[]){ w->now, second, third, NULL }, out)
            : NULL;
    if (out)
        w->now = out;
    return n;
}

void copse__onnx_flow_transpose(struct layer_writer *w, bool to_first)
{
    const uint32_t rank = w->shape.rank + 1;
    int64_t order[COPSE_MAX_RANK] = { 0 };
    if (w->is_first == to_first || rank < 3)
        return;
    for (uint32_t i = 1; i < rank; i++)
        order[i] = to_first ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    copse__onnx_put_ints(w, copse__onnx_flow_node(w, "Transpose", NULL, NULL), "perm", order, rank);
    w->is_first = to_first;
}

void copse__onnx_flow_activation(struct layer_writer *w, copse_activation a)
{
    static const char *const names[] = { [COPSE_RELU] = "Relu",
                                         [COPSE_SIGMOID] = "Sigmoid",
                                         [COPSE_TANH] = "Tanh",
                                         [COPSE_GELU] = "Gelu" };
    const char *before = w->now;
    if (a == COPSE_LINEAR)
        return;
    if (a == COPSE_SILU) {
        (void)copse__onnx_flow_node(w, "Sigmoid", NULL, NULL);
        (void)copse__onnx_flow_node(w, "Mul", before, NULL);
        return;
    }
    (void)copse__onnx_flow_node(w, names[a], NULL, NULL);
}
