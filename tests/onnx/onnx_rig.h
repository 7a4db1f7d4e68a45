/* SPDX-License-Identifier: MIT */
/* Small ONNX files, written with the functions that protoc-c makes. */
#ifndef ONNX_RIG_H
#define ONNX_RIG_H

#include <math.h>

#include "tests/rig/rig.h"

#include "copse/device/function.h"
#include "copse/nn/onnx.h"
#include "core/onnx/onnx.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;

#define MOST_PARTS 64

/* A model under construction. Its memory is freed by rig_free. */
struct model_rig {
    CopseOnnx__Model model;
    CopseOnnx__Graph graph;
    CopseOnnx__OperatorSetId set, *sets[1];
    CopseOnnx__Node *nodes[MOST_PARTS];
    CopseOnnx__Tensor *tensors[MOST_PARTS];
    CopseOnnx__ValueInfo *inputs[MOST_PARTS], *outputs[MOST_PARTS];
    void *blocks[1000];
    size_t block_count;
};

static void *rig_block(struct model_rig *r, size_t size)
{
    void *p = calloc(1, size);
    assert_non_null(p);
    assert_true(r->block_count < COPSE_COUNT(r->blocks));
    return r->blocks[r->block_count++] = p;
}

static inline char *rig_text(struct model_rig *r, const char *text)
{
    return strcpy(rig_block(r, strlen(text) + 1), text);
}

static inline void rig_begin(struct model_rig *r, int64_t opset)
{
    memset(r, 0, sizeof *r);
    copse_onnx__model__init(&r->model);
    copse_onnx__graph__init(&r->graph);
    copse_onnx__operator_set_id__init(&r->set);
    r->set.has_version = true;
    r->set.version = opset;
    r->sets[0] = &r->set;
    r->model.has_ir_version = true;
    r->model.ir_version = 8;
    r->model.graph = &r->graph;
    r->model.n_opset_import = 1;
    r->model.opset_import = r->sets;
    r->model.producer_name = rig_text(r, "rig");
    r->graph.node = r->nodes;
    r->graph.initializer = r->tensors;
    r->graph.input = r->inputs;
    r->graph.output = r->outputs;
}

static inline void rig_free(struct model_rig *r)
{
    for (size_t i = 0; i < r->block_count; i++)
        free(r->blocks[i]);
}

/* An initialiser with `rank` dimensions. */
static inline CopseOnnx__Tensor *rig_tensor(struct model_rig *r, const char *name, int32_t type,
                                            const int64_t *dims, size_t rank)
{
    CopseOnnx__Tensor *t = rig_block(r, sizeof *t);
    copse_onnx__tensor__init(t);
    t->name = rig_text(r, name);
    t->has_data_type = true;
    t->data_type = type;
    t->n_dims = rank;
    t->dims = memcpy(rig_block(r, rank * sizeof *dims + 1), dims, rank * sizeof *dims);
    r->tensors[r->graph.n_initializer++] = t;
    return t;
}

#define DIMS(...) \
    (const int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)

/* f32, as a list or as bytes. */
static inline CopseOnnx__Tensor *rig_reals(struct model_rig *r, const char *name,
                                           const int64_t *dims, size_t rank, const float *values,
                                           bool is_raw)
{
    CopseOnnx__Tensor *t = rig_tensor(r, name, ONNX_FLOAT, dims, rank);
    size_t count = 1;
    for (size_t i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    void *copy = memcpy(rig_block(r, count * sizeof *values + 1), values, count * sizeof *values);
    t->has_raw_data = is_raw;
    if (is_raw)
        t->raw_data = (ProtobufCBinaryData){ count * sizeof *values, copy };
    else {
        t->n_float_data = count;
        t->float_data = copy;
    }
    return t;
}

static inline CopseOnnx__Tensor *rig_wholes(struct model_rig *r, const char *name,
                                            const int64_t *values, size_t count)
{
    CopseOnnx__Tensor *t = rig_tensor(r, name, ONNX_INT64, DIMS((int64_t)count));
    t->n_int64_data = count;
    t->int64_data =
        memcpy(rig_block(r, count * sizeof *values + 1), values, count * sizeof *values);
    return t;
}

/* Names that blanks separate; "-" is the empty one. */
static inline size_t rig_names(struct model_rig *r, const char *text, char ***out)
{
    char *copy = rig_text(r, text);
    size_t n = 0;
    *out = rig_block(r, 16 * sizeof **out);
    for (char *c = strtok(copy, " "); c; c = strtok(NULL, " "))
        (*out)[n++] = strcmp(c, "-") == 0 ? c + 1 : c;
    return n;
}

static inline CopseOnnx__Node *rig_node(struct model_rig *r, const char *op, const char *in,
                                        const char *out)
{
    CopseOnnx__Node *n = rig_block(r, sizeof *n);
    copse_onnx__node__init(n);
    n->op_type = rig_text(r, op);
    n->n_input = rig_names(r, in, &n->input);
    n->n_output = rig_names(r, out, &n->output);
    n->attribute = rig_block(r, 8 * sizeof *n->attribute);
    r->nodes[r->graph.n_node++] = n;
    return n;
}

static inline CopseOnnx__Attribute *rig_attribute(struct model_rig *r, CopseOnnx__Node *n,
                                                  const char *name)
{
    CopseOnnx__Attribute *a = rig_block(r, sizeof *a);
    copse_onnx__attribute__init(a);
    a->name = rig_text(r, name);
    n->attribute[n->n_attribute++] = a;
    return a;
}

static inline void rig_int(struct model_rig *r, CopseOnnx__Node *n, const char *name, int64_t value)
{
    CopseOnnx__Attribute *a = rig_attribute(r, n, name);
    a->has_i = true;
    a->i = value;
}

static inline void rig_ints(struct model_rig *r, CopseOnnx__Node *n, const char *name,
                            const int64_t *values, size_t count)
{
    CopseOnnx__Attribute *a = rig_attribute(r, n, name);
    a->n_ints = count;
    a->ints = memcpy(rig_block(r, count * sizeof *values + 1), values, count * sizeof *values);
}

/* A length of -1 has a name instead. */
static inline CopseOnnx__ValueInfo *rig_value(struct model_rig *r, const char *name, int32_t type,
                                              const int64_t *dims, size_t rank)
{
    CopseOnnx__ValueInfo *v = rig_block(r, sizeof *v);
    copse_onnx__value_info__init(v);
    v->name = rig_text(r, name);
    v->type = rig_block(r, sizeof *v->type);
    copse_onnx__type__init(v->type);
    v->type->tensor_type = rig_block(r, sizeof *v->type->tensor_type);
    copse_onnx__tensor_type__init(v->type->tensor_type);
    v->type->tensor_type->has_elem_type = true;
    v->type->tensor_type->elem_type = type;
    CopseOnnx__Dims *s = v->type->tensor_type->shape = rig_block(r, sizeof *s);
    copse_onnx__dims__init(s);
    s->dim = rig_block(r, (rank + 1) * sizeof *s->dim);
    for (size_t i = 0; i < rank; i++) {
        s->dim[i] = rig_block(r, sizeof **s->dim);
        copse_onnx__dim__init(s->dim[i]);
        s->dim[i]->has_value = dims[i] >= 0;
        s->dim[i]->value = dims[i];
        if (dims[i] < 0)
            s->dim[i]->param = rig_text(r, "batch");
    }
    s->n_dim = rank;
    return v;
}

static inline void rig_input(struct model_rig *r, const char *name, int32_t type,
                             const int64_t *dims, size_t rank)
{
    r->inputs[r->graph.n_input++] = rig_value(r, name, type, dims, rank);
}

static inline void rig_output(struct model_rig *r, const char *name)
{
    CopseOnnx__ValueInfo *v = rig_block(r, sizeof *v);
    copse_onnx__value_info__init(v);
    v->name = rig_text(r, name);
    r->outputs[r->graph.n_output++] = v;
}

/* The bytes of the model; freed with it. */
static inline uint8_t *rig_bytes(struct model_rig *r, size_t *size)
{
    *size = copse_onnx__model__get_packed_size(&r->model);
    uint8_t *bytes = rig_block(r, *size);
    assert_int_equal(copse_onnx__model__pack(&r->model, bytes), *size);
    return bytes;
}

static inline copse_status rig_open(struct model_rig *r, copse_onnx **out)
{
    size_t size;
    const uint8_t *bytes = rig_bytes(r, &size);
    return copse_onnx_open(ctx, temp_write("model.onnx", bytes, size), out);
}

/* ---- running a network on the host ---- */

struct given {
    const char *name;
    copse_type type;
    copse_shape shape;
    const void *values;
};

/* The status of a graph with the network; the first output in `out`. */
static inline copse_status rig_run(const copse_onnx *m, const struct given *given, size_t count,
                                   const char *output, float *out, copse_shape *shape)
{
    copse_graph *g = NULL;
    copse_device *dev = NULL;
    copse_function *f = NULL;
    struct copse_onnx_feed feeds[8];
    size_t outputs;
    (void)copse_onnx_outputs(m, &outputs);
    copse_tensor **y = calloc(outputs + 1, sizeof *y);
    assert_non_null(y);
    OK(copse_graph_create(ctx, &g));
    for (size_t i = 0; i < count; i++)
        feeds[i] = (struct copse_onnx_feed){
            given[i].name, copse_graph_input(g, given[i].name, given[i].type, given[i].shape)
        };
    const struct copse_onnx_apply_params params = { .inputs = feeds,
                                                    .input_count = count,
                                                    .outputs = output ? &output : NULL,
                                                    .output_count = output != NULL };
    copse_onnx_apply(m, g, &params, y);
    copse_status s = copse_graph_status(g);
    if (s == COPSE_OK && out) {
        *shape = copse_tensor_shape(y[0]);
        OK(copse_device_open(ctx, "host:0", NULL, &dev));
        OK(copse_function_create(
            dev, &(struct copse_function_params){ .graph = g, .outputs = y, .output_count = 1 },
            &f));
        for (size_t i = 0; i < count; i++)
            OK(copse_function_write(f, feeds[i].tensor, given[i].values));
        OK(copse_function_run(f));
        OK(copse_function_wait(f));
        OK(copse_function_read(f, 0, out));
    }
    free(y);
    copse_function_release(&f);
    copse_device_release(&dev);
    copse_graph_release(&g);
    return s;
}

#endif
