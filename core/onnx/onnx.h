/* SPDX-License-Identifier: MIT */
/* The network of an ONNX file from the inside. onnx.c opens files, onnx_weights.c reads their
   tensors, onnx_apply.c walks over the nodes, onnx_table.c has a row for each operator, and the
   functions of the rows are in onnx_<kind>.c. onnx_data.c has losses and predictions of data sets,
   onnx_save.c writes files. */
#ifndef COPSE_CORE_ONNX_H
#define COPSE_CORE_ONNX_H

#include "copse/nn/onnx.h"
#include "core/base/base.h"
#include "core/graph/graph.h"
#include "core/replica/replica_context.h"
#include "core/train/predictor.h"
#include "onnx.pb-c.h"

typedef CopseOnnx__Tensor onnx_tensor;
typedef CopseOnnx__Node onnx_node;

/* Types of elements, by the numbers of the format. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_COMPLEX64,
    ONNX_COMPLEX128,
    ONNX_BFLOAT16,
};

/* ---- types and tensors of files (onnx_weights.c) ---- */

const char *copse__onnx_type_name(int32_t type);
/* float, double, float16, bfloat16. */
bool copse__onnx_is_real(int32_t type);
/* Integers and bool. */
bool copse__onnx_is_whole(int32_t type);
/* Check sizes and data of a tensor of a file. `path`: of the file. */
copse_status copse__onnx_tensor_check(const onnx_tensor *t, const char *name, const char *path,
                                      copse_shape *shape);
/* Its elements, by the checks above. */
double copse__onnx_element(const onnx_tensor *t, size_t i);
/* As f32: in the tensor itself if they are there as such, otherwise in `values`, which has room for
   all. */
const float *copse__onnx_floats(const onnx_tensor *t, size_t count, float *values);

/* ---- the network ---- */

/* A tensor with a name: an input, a weight or a constant of the file, or a result of a node. */
struct onnx_name {
    const char *name;
    uint32_t id;
};

/* A weight, or another tensor of the file: of an initialiser or a Constant node. */
struct onnx_weight {
    const char *name;
    onnx_tensor *tensor;
    copse_shape shape;
    uint32_t value; /* its place among the values */
    bool is_known;  /* an operand whose numbers the import must know has this tensor */
    bool is_statistic;
    bool is_of_node;          /* a Constant node has it */
    copse_variable *variable; /* NULL: a constant */
};

/* A file of data beside the model, in a list. */
struct onnx_beside {
    const char *path;
    struct onnx_beside *next;
};

struct copse_onnx_row;

struct onnx_step {
    const onnx_node *node;
    const struct copse_onnx_row *row; /* NULL: it is refused */
    uint32_t *in, *out;               /* values; ONNX_NOTHING: left out */
};
#define ONNX_NOTHING UINT32_MAX

struct copse_onnx {
    copse_refs refs;
    copse_context *ctx;
    struct copse_arena arena;
    const char *path, *producer;
    CopseOnnx__Model *model;
    uint64_t used, limit;       /* bytes of messages */
    struct onnx_beside *beside; /* files of data that were read */
    bool is_full;
    struct onnx_name *names; /* by hash */
    size_t name_room;
    int64_t opset;
    struct onnx_step *steps; /* in an order in which operands come first */
    size_t step_count;
    const char **values; /* names */
    size_t value_count;
    struct onnx_weight *weights; /* all tensors of the file */
    size_t weight_count;
    struct copse_onnx_tensor *inputs, *outputs, *listed; /* listed: of weights of real numbers */
    uint32_t *input_values, *output_values;
    int32_t *input_types;
    size_t input_count, output_count, listed_count;
    struct onnx_weight **listed_weights;
    struct copse_onnx_op *ops;
    size_t op_count;
    struct copse_onnx_refusal *refusals;
    size_t refusal_count;
    uint64_t parameters;
    copse_strategy *strategy; /* of the variables; NULL: there are none */
    copse_variable **variables;
    size_t variable_count;
    struct copse_predictor predictor;
};
#define ONNX_RECORDINGS 8u

/* Memory of messages, within the limit. */
ProtobufCAllocator copse__onnx_allocator(copse_onnx *m);
/* Read the data of a tensor that are in a file of their own. (onnx_weights.c) */
copse_status copse__onnx_load_external(copse_onnx *m, const char *name, onnx_tensor *t);
/* The value of a name; ONNX_NOTHING: there is none. */
uint32_t copse__onnx_find(const copse_onnx *m, const char *name);
/* The name of a node for messages. */
const char *copse__onnx_node_name(const onnx_node *n);
/* A text of all refusals, as an error. */
copse_status copse__onnx_refuse_all(const copse_onnx *m, const struct copse_onnx_refusal *list,
                                    size_t count);

/* Write a message as a file, atomically. (onnx_save.c) */
copse_status copse__onnx_write(struct copse_mem *mem, const CopseOnnx__Model *model,
                               const char *path);

/* ---- attributes (onnx_messages.c) ---- */

const CopseOnnx__Attribute *copse__onnx_attribute(const onnx_node *n, const char *name);
int64_t copse__onnx_int(const onnx_node *n, const char *name, int64_t normal);
float copse__onnx_float(const onnx_node *n, const char *name, float normal);
/* Whether an attribute, or `normal` where it is missing, is this text. */
bool copse__onnx_text_is(const onnx_node *n, const char *name, const char *normal,
                         const char *text);
/* Whole numbers; NULL and 0 where it is missing. */
const int64_t *copse__onnx_ints(const onnx_node *n, const char *name, size_t *count);

/* ---- walking (onnx_apply.c, onnx_values.c) ---- */

/* A value while a graph is built. Its tensor may be in the order of channels-last operations: then
   `last` is [n, .., c] of the shape [n, c, ..]. Numbers that are known are in `numbers`. */
struct onnx_value {
    int32_t type;
    copse_shape shape; /* as in the file */
    const double *numbers;
    copse_tensor *plain, *last;
    const struct onnx_weight *weight;
    bool is_there, is_refused;
};

struct onnx_walk {
    const copse_onnx *m;
    copse_graph *g;
    struct copse_arena arena;
    struct onnx_value *values, unwanted;
    const struct copse_onnx_apply_params *params;
    struct {
        struct copse_onnx_refusal *at;
        size_t count, room;
    } refusals;
    const struct onnx_step *step; /* at hand */
    copse_status status;          /* COPSE_ERR_UNSUPPORTED: the step is refused */
};

#define ONNX_KNOWN_MOST ((uint64_t)1 << 22) /* numbers of a value that the import knows */

/* Refuse the step at hand; the first reason counts. Returns false. */
bool copse__onnx_refuse(struct onnx_walk *w, const char *fmt, ...) COPSE_PRINTF(2, 3);

size_t copse__onnx_inputs_of(const struct onnx_walk *w);
/* Operand `i` of the step at hand; NULL: it is left out. */
struct onnx_value *copse__onnx_in(struct onnx_walk *w, size_t i);
/* Whether result `i` is wanted. */
bool copse__onnx_wants(const struct onnx_walk *w, size_t i);

/* The tensor of a value, in its shape: f32 or i32. */
copse_tensor *copse__onnx_plain(struct onnx_walk *w, struct onnx_value *v);
/* The same as f32; of whole numbers converted. */
copse_tensor *copse__onnx_f32(struct onnx_walk *w, struct onnx_value *v);
/* The same as i32. */
copse_tensor *copse__onnx_i32(struct onnx_walk *w, struct onnx_value *v);
/* f32 [n, .., c] of a value [n, c, ..]; rank 3 or more. */
copse_tensor *copse__onnx_last(struct onnx_walk *w, struct onnx_value *v);
/* A tensor [n, c, ..] as [n, .., c]. */
copse_tensor *copse__onnx_move_last(struct onnx_walk *w, copse_tensor *t);
/* Whether only its channels-last tensor is there. */
bool copse__onnx_is_last(const struct onnx_value *v);

/* The numbers of a value; NULL: they are not known, and the step is refused. */
const double *copse__onnx_known(struct onnx_walk *w, struct onnx_value *v, const char *what);
/* The same without a refusal. */
const double *copse__onnx_numbers(struct onnx_walk *w, struct onnx_value *v);
/* Whole numbers from operand `i`, or from an attribute where there is none: NULL and 0 where both
   are missing. */
const int64_t *copse__onnx_list(struct onnx_walk *w, size_t i, const char *attribute,
                                size_t *count);
/* Zeroed memory that lives as long as the walk; NULL: the step is refused, or the graph has
   failed. */
void *copse__onnx_room(struct onnx_walk *w, size_t count, size_t size);

/* Results of the step at hand. */
void copse__onnx_set(struct onnx_walk *w, size_t i, int32_t type, copse_tensor *t);
void copse__onnx_set_last(struct onnx_walk *w, size_t i, copse_tensor *t);
void copse__onnx_set_numbers(struct onnx_walk *w, size_t i, int32_t type, copse_shape shape,
                             const double *numbers);
/* The same value under another name, or in another shape of as many elements. */
void copse__onnx_set_same(struct onnx_walk *w, size_t i, struct onnx_value *v);
void copse__onnx_set_reshaped(struct onnx_walk *w, size_t i, struct onnx_value *v,
                              copse_shape shape);
/* Elements of `v` by their flat numbers, -1 for `fill`: known numbers stay known. */
void copse__onnx_set_picked(struct onnx_walk *w, size_t i, struct onnx_value *v, copse_shape shape,
                            const int32_t *flat, double fill);

/* The same with a list for each axis: the place on it in `v` of each place of the result, -1 for
   `fill`; NULL: the axis stays. (onnx_maps.c) */
void copse__onnx_set_mapped(struct onnx_walk *w, size_t i, struct onnx_value *v, copse_shape shape,
                            int32_t *const *maps, double fill);

/* An axis of a rank, which may count from the end; false: it is out of range, and the step is
   refused. */
bool copse__onnx_axis(struct onnx_walk *w, int64_t given, uint32_t rank, uint32_t *out);
/* A shape of whole numbers; false: refused. */
bool copse__onnx_shape(struct onnx_walk *w, const int64_t *dims, size_t rank, copse_shape *out);
bool copse__onnx_shape_fits(copse_shape s); /* fewer than 2^31 elements */
/* NumPy's rule; false: they do not fit. */
bool copse__onnx_broadcast(copse_shape a, copse_shape b, copse_shape *out);
/* An attribute that is the number of a type, `normal` where it is missing; false: it is no type, and
   the step is refused. */
bool copse__onnx_type_of(struct onnx_walk *w, const char *name, int32_t normal, int32_t *out);
/* Round a number as the type does. */
double copse__onnx_rounded(int32_t type, double x);

/* ---- operators ---- */

enum { ONNX_MANY = 255 };

/* A row of the table: what a node of an operator may have, and what builds it. */
struct copse_onnx_row {
    const char *name;
    uint8_t since;        /* the first opset of this form */
    uint8_t fewest, most; /* operands */
    uint8_t outputs;      /* most results */
    uint32_t known;       /* operands whose numbers must be known: bits */
    uint32_t statistics;  /* operands that are no parameters */
    void (*build)(struct onnx_walk *w);
    int32_t type; /* of the results [0: of the first operand] */
    copse_tensor *(*one)(copse_graph *g, copse_tensor *x);
    copse_tensor *(*with)(copse_graph *g, copse_tensor *x, const onnx_node *n); /* instead */
    copse_tensor *(*two)(copse_graph *g, copse_tensor *a, copse_tensor *b);
    double (*number)(double x);            /* of known numbers */
    double (*numbers)(double a, double b); /* likewise */
};
extern const struct copse_onnx_row copse__onnx_rows[];
extern const size_t copse__onnx_row_count;

/* onnx_elementwise.c: functions of each element */
void copse__onnx_one(struct onnx_walk *w);     /* of one operand */
void copse__onnx_two(struct onnx_walk *w);     /* of two, with broadcasting */
void copse__onnx_compare(struct onnx_walk *w); /* results are truth values */
void copse__onnx_many(struct onnx_walk *w);    /* of any number */
void copse__onnx_div(struct onnx_walk *w);
void copse__onnx_swiglu(struct onnx_walk *w);
void copse__onnx_mod(struct onnx_walk *w);
void copse__onnx_pow(struct onnx_walk *w);
void copse__onnx_clip(struct onnx_walk *w);
void copse__onnx_where(struct onnx_walk *w);
void copse__onnx_cast(struct onnx_walk *w);
void copse__onnx_dropout(struct onnx_walk *w);
/* The tensors of two operands for a function with broadcasting, f32: both channels-last where one
   is. Returns whether they are. */
bool copse__onnx_pair(struct onnx_walk *w, struct onnx_value *a, struct onnx_value *b,
                      copse_tensor *pair[2]);
/* The result of the step at hand, in the order of copse__onnx_pair. */
void copse__onnx_set_either(struct onnx_walk *w, size_t i, int32_t type, copse_tensor *t,
                            bool is_last);

/* onnx_activations.c: functions with settings */
typedef copse_tensor *onnx_with(copse_graph *g, copse_tensor *x, const onnx_node *n);
onnx_with copse__onnx_leaky_relu, copse__onnx_elu, copse__onnx_celu, copse__onnx_selu,
    copse__onnx_hard_sigmoid, copse__onnx_thresholded_relu, copse__onnx_shrink, copse__onnx_swish,
    copse__onnx_gelu, copse__onnx_softsign, copse__onnx_reciprocal, copse__onnx_sign,
    copse__onnx_floor, copse__onnx_ceil, copse__onnx_round, copse__onnx_is_nan, copse__onnx_is_inf,
    copse__onnx_binarizer;

/* onnx_shapes.c */
void copse__onnx_same(struct onnx_walk *w);
void copse__onnx_reshape(struct onnx_walk *w);
void copse__onnx_flatten(struct onnx_walk *w);
void copse__onnx_squeeze(struct onnx_walk *w);
void copse__onnx_unsqueeze(struct onnx_walk *w);
void copse__onnx_transpose(struct onnx_walk *w);
void copse__onnx_expand(struct onnx_walk *w);
void copse__onnx_tile(struct onnx_walk *w);
void copse__onnx_concat(struct onnx_walk *w);
void copse__onnx_split(struct onnx_walk *w);
void copse__onnx_slice(struct onnx_walk *w);
void copse__onnx_pad(struct onnx_walk *w);
void copse__onnx_shape_of(struct onnx_walk *w);
void copse__onnx_size_of(struct onnx_walk *w);
void copse__onnx_constant(struct onnx_walk *w);
void copse__onnx_constant_of_shape(struct onnx_walk *w);
void copse__onnx_range(struct onnx_walk *w);
void copse__onnx_eye(struct onnx_walk *w);
void copse__onnx_space(struct onnx_walk *w);

/* onnx_indices.c */
void copse__onnx_gather(struct onnx_walk *w);
void copse__onnx_gather_elements(struct onnx_walk *w);
void copse__onnx_gather_nd(struct onnx_walk *w);
void copse__onnx_scatter(struct onnx_walk *w);
void copse__onnx_one_hot(struct onnx_walk *w);
void copse__onnx_trilu(struct onnx_walk *w);
void copse__onnx_compress(struct onnx_walk *w);
void copse__onnx_reverse(struct onnx_walk *w);
void copse__onnx_non_zero(struct onnx_walk *w);
void copse__onnx_crop(struct onnx_walk *w);
void copse__onnx_top_k(struct onnx_walk *w);
void copse__onnx_cumsum(struct onnx_walk *w);

/* onnx_sums.c */
void copse__onnx_matmul(struct onnx_walk *w);
void copse__onnx_gemm(struct onnx_walk *w);
void copse__onnx_reduce(struct onnx_walk *w);
void copse__onnx_arg(struct onnx_walk *w);
void copse__onnx_softmax(struct onnx_walk *w);
void copse__onnx_layer_norm(struct onnx_walk *w);
void copse__onnx_rms_norm(struct onnx_walk *w);
void copse__onnx_group_norm(struct onnx_walk *w);
void copse__onnx_batch_norm(struct onnx_walk *w);
void copse__onnx_other_norm(struct onnx_walk *w);

/* onnx_einsum.c, onnx_attention.c */
void copse__onnx_einsum(struct onnx_walk *w);
void copse__onnx_attention(struct onnx_walk *w);
void copse__onnx_rotary(struct onnx_walk *w);

/* onnx_quantised.c, onnx_sample.c */
void copse__onnx_quantize(struct onnx_walk *w);
void copse__onnx_dequantize(struct onnx_walk *w);
void copse__onnx_quantize_dynamic(struct onnx_walk *w);
void copse__onnx_matmul_integer(struct onnx_walk *w);
void copse__onnx_grid_sample(struct onnx_walk *w);

/* onnx_losses.c */
void copse__onnx_loss_of(struct onnx_walk *w);

/* onnx_spatial.c */
void copse__onnx_conv(struct onnx_walk *w);
void copse__onnx_conv_transposed(struct onnx_walk *w);
void copse__onnx_pool(struct onnx_walk *w);
void copse__onnx_global_pool(struct onnx_walk *w);
void copse__onnx_resize(struct onnx_walk *w);
void copse__onnx_lrn(struct onnx_walk *w);

/* onnx_recurrent.c */
void copse__onnx_recurrent(struct onnx_walk *w);

#endif
