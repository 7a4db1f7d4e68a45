/* SPDX-License-Identifier: MIT */
/* A model from the inside. */
#ifndef COPSE_CORE_MODEL_H
#define COPSE_CORE_MODEL_H

#include "copse/data/checkpoint.h"
#include "copse/data/schema.h"
#include "copse/train/evaluate.h"
#include "copse/train/model_file.h"
#include "core/replica/replica_context.h"
#include "core/state/weights.h"
#include "core/train/predictor.h"

#define COPSE_MODEL_FORMAT "copse-model-1"
/* Lines of metadata: in a checkpoint behind "application.". */
#define COPSE_MODEL_LINES 5
#define COPSE_MODEL_ROWS  1000u /* predicted at once, at most */
/* outputs of the rows that are predicted at once, about */
#define COPSE_MODEL_NUMBERS    (1u << 24)
#define COPSE_MODEL_RECORDINGS 8
#define COPSE_MODEL_WHY        400 /* bytes of a text */

/* A target of a regression: value = output * scale + mean. */
struct copse_model_target {
    double mean, scale;
};

/* A loss by name (model_loss.c). */
#define COPSE_MODEL_WEIGHTS 256
struct copse_model_loss_row;
struct copse_model_loss {
    const struct copse_model_loss_row *row; /* NULL: cross-entropy, or mean squared error */
    /* the number of the loss: smoothing, positive weight, delta or beta */
    float value;
    bool ignores;
    int32_t ignored;
    bool is_balanced;      /* weights are to be made from the rows of the data */
    uint32_t weight_count; /* 0: all are 1 */
    float weights[COPSE_MODEL_WEIGHTS];
};

struct copse_model {
    copse_refs refs;
    copse_strategy *strategy;
    copse_schema *schema;
    copse_layer *layer; /* built */
    struct copse_schema_info is;
    struct copse_model_target *targets; /* [outputs] of a regression; else NULL */
    copse_type input;                   /* of the layers' input */
    /* predictions for a row: the tokens of a window, where the network predicts each; else 1 */
    uint32_t positions;
    copse_type label_type; /* of column "y" */
    copse_shape label_shape;
    char *scope, *network;
    uint64_t seed;
    copse_variable **variables; /* in order of creation */
    size_t variable_count;
    char seed_text[24];
    struct copse_metadata lines[COPSE_MODEL_LINES];
    struct copse_model_loss loss;
    struct copse_predictor predictor; /* without a strategy until the first prediction */
    struct copse_model_cells *cells;  /* NULL until the first prediction for cells */
    /* of the last copse_model_load_weights: its report, and why layers were left out, or "" */
    struct copse_weights weights;
    char why_input[COPSE_MODEL_WHY], why_head[COPSE_MODEL_WHY];
};

/* The layers of a network for a schema, without variables; `elements` is the number of all that
   they would make. (model.c) */
copse_status copse__model_plan(copse_context *ctx, const copse_schema *schema, const char *network,
                               copse_layer **out, uint64_t *elements);

/* ---- model_outputs.c ---- */

/* The outputs of the network for a batch, before softmax: f32 [count, positions, outputs]; or of
   the last position alone, which is length - 1 where the batch has lengths of windows: at most
   COPSE_MODEL_ROWS rows, whose lengths copse__short_window_check has seen. */
copse_status copse__model_outputs(copse_model *m, const struct copse_host_batch *batch,
                                  bool is_last, float *values);
/* Rows that are predicted at once. */
size_t copse__model_rows(const copse_model *m);
/* Column "length" of the windows of a text, i32 [count]; NULL: they are whole. */
const int32_t *copse__model_lengths(const copse_model *m, const struct copse_host_batch *batch);

/* ---- model_predict.c ---- */

/* Batches of all rows in their order. The data is of the model's schema. */
copse_status copse__model_batches(const copse_model *m, const copse_dataset *data,
                                  bool needs_labels, copse_loader **out);
/* Softmax of a row, in double. */
void copse__model_softmax(const float *outputs, uint32_t count, double *probabilities);

/* Probabilities, or values in the target's unit, in place of outputs. `row`: memory for the outputs
   of one row. */
void copse__model_convert(const copse_model *m, float *values, size_t rows, double *row);

/* ---- short_window.c ---- */

/* COPSE_ERR_ARGUMENT if windows of a batch are not whole, and the network needs them whole: computed
   for each window that is shorter than all before. `checked`: the shortest of them; 0: none. */
copse_status copse__short_window_check(copse_model *m, const struct copse_host_batch *batch,
                                       int32_t *checked);

/* ---- model_cells.c ---- */

void copse__model_cells_release(copse_model *m);

/* ---- model_graph.c ---- */

/* The network's input from column "x", and its outputs [examples, outputs] or [examples, positions,
   outputs]. */
copse_tensor *copse__model_apply(const copse_model *m, copse_graph *g, const copse_batch *in);
/* The last of the positions, [examples, ...] of a tensor [examples, positions, ...] of at most
   three axes. */
copse_tensor *copse__model_last(copse_graph *g, copse_tensor *x);
/* The position length - 1 of each example, f32 [examples, outputs] of [examples, positions,
   outputs]; `lengths`: i32 [examples]. */
copse_tensor *copse__model_at(const copse_model *m, copse_graph *g, copse_tensor *y,
                              copse_tensor *lengths);

/* ---- model_loss.c ---- */

/* The loss that was set, of outputs [examples, outputs] and labels or targets; a scalar. */
copse_tensor *copse__model_make_loss(const copse_model *m, copse_graph *g, copse_tensor *h,
                                     copse_tensor *y);
/* The same for mixup: part * loss(y) + (1 - part) * loss(other), i32 and f32 [examples]. */
copse_tensor *copse__model_mixed_loss(const copse_model *m, copse_graph *g, copse_tensor *h,
                                      copse_tensor *y, copse_tensor *other, copse_tensor *part);

#endif
