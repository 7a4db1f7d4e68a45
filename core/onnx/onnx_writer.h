/* SPDX-License-Identifier: MIT */
/* A network that is written to an ONNX file: its nodes and tensors, and the tensor that flows from
   one layer to the next. */
#ifndef COPSE_ONNX_WRITER_H
#define COPSE_ONNX_WRITER_H

#include "core/nn/layer.h"
#include "core/onnx/onnx.h"

/* A list of messages that grows. */
struct message_list {
    void **at;
    size_t count, room;
};

struct layer_writer {
    struct copse_mem *mem;
    struct copse_arena arena;
    struct message_list nodes, tensors;
    const char *now;   /* the tensor that flows */
    copse_shape shape; /* of an example, channels at the end */
    bool is_first;     /* `now` is [n, channels, ..] */
    uint32_t number;   /* of names */
    const copse_layer *layer;
    bool is_full; /* there was no memory */
};

/* Zeroed memory, a copy of a text: they live as long as the writer. NULL: there is no memory, which
   the writer notes. */
void *copse__onnx_writer_room(struct layer_writer *w, size_t count, size_t size);
char *copse__onnx_writer_text(struct layer_writer *w, const char *text);
void copse__onnx_writer_push(struct layer_writer *w, struct message_list *list, void *message);
/* "what_7" */
const char *copse__onnx_new_name(struct layer_writer *w, const char *what);

/* A node of inputs, up to NULL, with one result. */
onnx_node *copse__onnx_put_node(struct layer_writer *w, const char *op, const char *const *inputs,
                                const char *output);
/* Attributes of a node; NULL: there was no memory for it. */
void copse__onnx_put_int(struct layer_writer *w, onnx_node *n, const char *name, int64_t value);
void copse__onnx_put_float(struct layer_writer *w, onnx_node *n, const char *name, float value);
void copse__onnx_put_ints(struct layer_writer *w, onnx_node *n, const char *name,
                          const int64_t *values, size_t count);
/* An initialiser whose data the caller sets. */
onnx_tensor *copse__onnx_put_tensor(struct layer_writer *w, const char *name, int32_t type,
                                    copse_shape shape);
/* Initialisers of whole numbers, of f32 with room for their values, of one f32. */
const char *copse__onnx_put_wholes(struct layer_writer *w, const int64_t *values, uint32_t count);
float *copse__onnx_put_reals(struct layer_writer *w, const char *name, copse_shape shape);
const char *copse__onnx_put_real(struct layer_writer *w, double value);

/* f32 [count] as a node: unlike an initialiser, no weight that training may change. NULL: there was
   no memory. */
const char *copse__onnx_put_constants(struct layer_writer *w, const double *values, uint32_t count);

/* A node of what flows and other operands; its result flows on. */
onnx_node *copse__onnx_flow_node(struct layer_writer *w, const char *op, const char *second,
                                 const char *third);
/* Move the channels of what flows to the front, or to the end, if they are not there. */
void copse__onnx_flow_transpose(struct layer_writer *w, bool to_first);
void copse__onnx_flow_activation(struct layer_writer *w, copse_activation a);

#endif
