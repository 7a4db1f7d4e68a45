/* SPDX-License-Identifier: MIT */
/** @file
 * Networks of other programs, from ONNX files and to them: docs/onnx.md.
 *
 * A file is opened, asked what is in it, and applied in a function that builds a graph: named
 * tensors go in, named tensors come out. Its weights become variables where a strategy is given,
 * else constants. It is saved again with the values that training gave them.
 */
#ifndef COPSE_PUBLIC_NN_ONNX_H
#define COPSE_PUBLIC_NN_ONNX_H

#include "copse/array.h"
#include "copse/data.h"
#include "copse/nn.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** The newest operator set that is read. */
#define COPSE_ONNX_OPSET 28

/** The network of a file. */
typedef struct copse_onnx copse_onnx;

/** An input, an output or a weight. Texts live as long as the network. */
struct copse_onnx_tensor {
    const char *name;
    const char *type; /**< as ONNX calls it: "float", "int64"; "unknown" */
    int has_rank;     /**< 0: the file does not say */
    uint32_t rank;    /**< axes */
    /** length of each axis; -1: it varies, or the file does not say */
    int64_t shape[COPSE_ARRAY_MAX_RANK];
    uint64_t elements;    /**< of a weight; else 0 */
    int is_trained;       /**< a weight that copse_onnx_make trains unless it is told otherwise */
    uint64_t reserved[3]; /**< 0 */
};

/** Nodes with one operator. */
struct copse_onnx_op {
    const char *name;
    uint64_t count;
    int is_read;          /**< 0: at least one of the nodes is refused */
    uint64_t reserved[2]; /**< 0 */
};

/** A node that is not read. */
struct copse_onnx_refusal {
    const char *node; /**< its name, or the name of its first output */
    const char *op;   /**< "Loop" */
    const char *why;
};

/** What a file says about itself. */
struct copse_onnx_info {
    int64_t ir_version, opset; /**< the opset of ONNX's own operators */
    const char *producer;      /**< "pytorch 2.4.0"; "" */
    const char *graph;         /**< the name of the graph; "" */
    uint64_t nodes, refused;   /**< nodes; nodes that are refused */
    uint64_t weights;          /**< of floating-point numbers */
    uint64_t parameters;       /**< their elements */
    uint64_t reserved[4];      /**< 0 */
};

/** Whether this build reads ONNX files. Where it does not, every call that returns a status returns
    COPSE_ERR_UNSUPPORTED, with a text that says so. */
COPSE_API bool copse_onnx_is_read(void);

/**
 * Read a file. Nodes that are refused are no error here: copse_onnx_check.
 * @retval COPSE_ERR_IO           The file, or a file of its weights, cannot be read.
 * @retval COPSE_ERR_FORMAT       It is no ONNX file, or breaks a rule; the text says which and
 *                                where.
 * @retval COPSE_ERR_UNSUPPORTED  A newer operator set; a type or a form of weights that is not
 *                                read.
 * @retval COPSE_ERR_NO_MEMORY    Also: it needs more than 48 MiB, twice its size, and twice the
 *                                size of the files of its weights.
 * Any thread. Blocks while the file is read.
 */
COPSE_API COPSE_CHECKED copse_status copse_onnx_open(copse_context *ctx, const char *path,
                                                     copse_onnx **out);
COPSE_API copse_onnx *copse_onnx_retain(copse_onnx *m);
/** Its variables stay with their strategy. */
COPSE_API void copse_onnx_release(copse_onnx **m);

COPSE_API COPSE_CHECKED copse_status copse_onnx_describe(const copse_onnx *m,
                                                         struct copse_onnx_info *out);
/** Inputs without a value in the file, outputs, weights of floating-point numbers, operators by
    name, refused nodes; in the order of the file, borrowed. */
COPSE_API const struct copse_onnx_tensor *copse_onnx_inputs(const copse_onnx *m, size_t *count);
COPSE_API const struct copse_onnx_tensor *copse_onnx_outputs(const copse_onnx *m, size_t *count);
COPSE_API const struct copse_onnx_tensor *copse_onnx_weights(const copse_onnx *m, size_t *count);
COPSE_API const struct copse_onnx_op *copse_onnx_ops(const copse_onnx *m, size_t *count);
COPSE_API const struct copse_onnx_refusal *copse_onnx_refusals(const copse_onnx *m, size_t *count);
/** COPSE_ERR_UNSUPPORTED if a node is refused; the text names as many of them as it has room
    for. */
COPSE_API COPSE_CHECKED copse_status copse_onnx_check(const copse_onnx *m);

/** How weights become variables. */
struct copse_onnx_make_params {
    const char *scope; /**< variables are "scope/name"     [NULL: "name"] */
    /** patterns of names, separated by commas, where * is any text and ? one character: these
       weights are trained, the others frozen [NULL: all but statistics and single numbers] */
    const char *trained;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a variable of each weight, with its name and shape. Numbers that the import must know, such
 * as the bounds of a clip, stay constants. Once for each network; not in a loss function.
 * @param params  NULL: the defaults.
 * @retval COPSE_ERR_ARGUMENT     It was called before; a name is taken; no weight fits a pattern.
 * @retval COPSE_ERR_UNSUPPORTED  As copse_onnx_check.
 * Otherwise as copse_variable_create.
 */
COPSE_API COPSE_CHECKED copse_status copse_onnx_make(copse_onnx *m, copse_strategy *st,
                                                     const struct copse_onnx_make_params *params);
/** Its variables, borrowed: in the order of copse_onnx_weights, without weights that are
    constants. */
COPSE_API copse_variable *const *copse_onnx_variables(const copse_onnx *m, size_t *count);

/** A tensor with the name that the file has for it. */
struct copse_onnx_feed {
    const char *name;
    copse_tensor *tensor;
};

/** What to apply a network to. */
struct copse_onnx_apply_params {
    const struct copse_onnx_feed *inputs; /**< all that the outputs need */
    size_t input_count;
    /** names of inner tensors, or of outputs [NULL: the outputs of the file] */
    const char *const *outputs;
    size_t output_count;
    bool is_training; /**< Dropout acts */
    /** in training BatchNormalization takes the statistics of the batch, and updates the running
       ones [false: the running ones, which stay] */
    bool batch_statistics;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Add the network to a graph. The inputs decide all shapes, so each graph has one size of batch.
 * Whole numbers are i32, truth values f32 or i32 with 1 and 0 [results: f32]; other inputs f32.
 * @param results  A tensor for each output, in its shape in the file. After a failure they are
 *                 failed tensors.
 * @retval COPSE_ERR_ARGUMENT     An input is missing or unknown, or no tensor has the name of an
 *                                output.
 * @retval COPSE_ERR_SHAPE        Shapes do not fit; the text names the node.
 * @retval COPSE_ERR_UNSUPPORTED  Nodes are refused; the text names them.
 * Any thread: the network does not change.
 */
COPSE_API void copse_onnx_apply(const copse_onnx *m, copse_graph *g,
                                const struct copse_onnx_apply_params *params,
                                copse_tensor **results);

/**
 * A copse_loss_fn of a network with one input; `user` is the network. Column "x" is the input:
 * rows as the file says, rows of as many elements, or pictures whose channels are at the end.
 * Column "y": i32, the classes of the first output, less than its numbers: softmax cross-entropy
 * of what enters its last Softmax or Sigmoid, or of the output; of an output of one number binary
 * cross-entropy; reports "accuracy". f32, values: mean squared error; reports "mae".
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_onnx_loss(copse_graph *g, const copse_batch *in,
                                                      void *network);
/**
 * The first output for every row of column "x", as copse_onnx_loss reads it, on this process's
 * replicas.
 * @param out  f32 or i32, [rows, ...].
 * @retval COPSE_ERR_ARGUMENT  copse_onnx_make was not called, or the first column is not "x".
 * @retval COPSE_ERR_SHAPE     Shapes do not fit, or the output has no row for each row of the data.
 * Otherwise as copse_trainer_predict. One thread at a time. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_onnx_predict(copse_onnx *m, const copse_dataset *data,
                                                        copse_array **out);

/**
 * Write the file again, atomically: the same graph with the values that the variables have.
 * @retval COPSE_ERR_IO  It cannot be written.
 * One thread at a time. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_onnx_save(copse_onnx *m, const char *path);

/** How layers are written. */
struct copse_onnx_write_params {
    /** the layers get (x - input_offset) * input_scale [0, and 0 = 1] */
    float input_offset, input_scale;
    bool is_softmax; /**< a softmax of the last axis follows [false] */
    /** "y" is output * scale + mean, for each element of the last axis [NULL: 1 and 0] */
    const double *output_scales, *output_means;
    /** likewise before the layers: (x - mean) / scale */
    const double *input_means, *input_scales;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Write layers of this library as a file with the input "x", [batch, shape...] as they were built
 * for, channels at the end, and the output "y".
 * @param params  NULL: the defaults.
 * @retval COPSE_ERR_ARGUMENT     The layers are not built.
 * @retval COPSE_ERR_UNSUPPORTED  A layer has no form in ONNX; the text names it.
 * @retval COPSE_ERR_IO           The file cannot be written.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_onnx_write(const copse_layer *l, const char *path,
                                                      const struct copse_onnx_write_params *params);

#if defined(__cplusplus)
}
#endif
#endif
