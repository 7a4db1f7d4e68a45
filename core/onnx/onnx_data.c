/* SPDX-License-Identifier: MIT */
/* A network with data: its one input from column "x", its loss by column "y", predictions. */
#include "copse/ops.h"
#include "copse/ops/losses.h"
#include "core/data/array.h"
#include "core/data/input/shard.h"
#include "core/graph/op.h"
#include "core/onnx/onnx.h"

#define PREDICTED_ROWS 64u /* at once */

/* ---- the input ---- */

static copse_status has_one_input(const copse_onnx *m)
{
    if (m->input_count == 1 && m->output_count >= 1)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_UNSUPPORTED,
                      "onnx: %s has %zu inputs and %zu outputs: data goes to networks with one "
                      "input; apply it in a function of your own (copse_onnx_apply)",
                      m->path, m->input_count, m->output_count);
}

/* Rows of x in the shape that the file says, with one length that it leaves open. */
static copse_tensor *input_reshaped(const copse_onnx *m, copse_graph *g, copse_tensor *x)
{
    const struct copse_onnx_tensor *is = &m->inputs[0];
    const copse_shape s = copse_tensor_shape(x);
    copse_shape to = { .rank = is->rank, .dims = { s.dims[0] } };
    uint64_t rest = 1;
    uint32_t open = 0;
    const size_t row = copse__row_elements(s);
    bool fits = is->rank >= 1 && is->rank <= COPSE_MAX_RANK;
    for (uint32_t i = 1; fits && i < is->rank; i++) {
        if (is->shape[i] >= 0 && (uint64_t)is->shape[i] <= INT32_MAX && rest <= INT32_MAX) {
            to.dims[i] = (uint32_t)is->shape[i];
            rest *= to.dims[i];
        } else {
            fits = is->shape[i] < 0 && open == 0;
            open = i;
        }
    }
    if (fits && open > 0 && rest > 0 && row % rest == 0) {
        to.dims[open] = (uint32_t)(row / rest);
        rest *= to.dims[open];
    }
    return fits && rest == row ? copse_reshape(g, x, to) : x;
}

/* Colour pictures have their channels at the end, the networks of files before the places. */
static bool is_picture_of(const struct copse_onnx_tensor *is, copse_shape s)
{
    return is->rank == 4 && s.rank == 4 && is->shape[1] == s.dims[3] &&
           (is->shape[2] < 0 || is->shape[2] == s.dims[1]) &&
           (is->shape[3] < 0 || is->shape[3] == s.dims[2]) && is->shape[1] != s.dims[1];
}

static copse_tensor *input_of(const copse_onnx *m, copse_graph *g, copse_tensor *x)
{
    const struct copse_onnx_tensor *is = &m->inputs[0];
    const copse_shape s = copse_tensor_shape(x);
    bool fits = !is->has_rank || is->rank == s.rank;
    if (copse_graph_status(g) != COPSE_OK)
        return x;
    if (copse_tensor_type(x) == COPSE_U8)
        x = copse_cast(g, x, copse__onnx_is_real(m->input_types[0]) ? COPSE_F32 : COPSE_I32);
    for (uint32_t i = 1; fits && is->has_rank && i < s.rank; i++)
        fits = is->shape[i] < 0 || is->shape[i] == s.dims[i];
    if (fits)
        return x;
    if (is_picture_of(is, s))
        return copse_transpose(g, x, (const uint32_t[]){ 0, 3, 1, 2 });
    return input_reshaped(m, g, x);
}

/* A tensor of the network, by its value, of an input x. */
static copse_tensor *apply_to(const copse_onnx *m, copse_graph *g, copse_tensor *x, uint32_t value,
                              bool is_training)
{
    copse_tensor *y = NULL;
    const struct copse_onnx_feed feed = { m->inputs[0].name, input_of(m, g, x) };
    const char *const name = m->values[value];
    copse_onnx_apply(m, g,
                     &(struct copse_onnx_apply_params){ .inputs = &feed,
                                                        .input_count = 1,
                                                        .outputs = &name,
                                                        .output_count = 1,
                                                        .is_training = is_training },
                     &y);
    return y;
}

/* ---- the loss ---- */

/* The step that makes a value; NULL: it is an input or a weight. */
static const struct onnx_step *step_of(const copse_onnx *m, uint32_t value)
{
    for (size_t k = m->step_count; k-- > 0;)
        for (size_t i = 0; i < m->steps[k].node->n_output; i++)
            if (m->steps[k].out[i] == value)
                return &m->steps[k];
    return NULL;
}

static bool step_is(const struct onnx_step *s, const char *op)
{
    return s && s->row && strcmp(s->row->name, op) == 0;
}

static copse_tensor *loss_of_classes(copse_graph *g, copse_tensor *h, copse_tensor *y)
{
    const copse_shape s = copse_tensor_shape(h);
    const uint32_t rows = copse_tensor_shape(y).dims[0],
                   classes = (uint32_t)(copse__elements(s) / COPSE_MAX(rows, 1u));
    if (copse_tensor_shape(y).rank != 1 || rows == 0 || copse__elements(s) % rows)
        return copse__refuse(g, COPSE_ERR_SHAPE, "onnx: output %s with labels %s",
                             COPSE_SHAPE_TEXT(s), COPSE_SHAPE_TEXT(copse_tensor_shape(y)));
    copse_tensor *loss, *is_right;
    if (classes == 1) {
        h = copse_reshape(g, h, COPSE_SHAPE(rows));
        y = copse_cast(g, y, COPSE_F32);
        is_right = copse_equal(g, copse_less(g, copse_scalar(g, 0), h), y);
        loss = copse_binary_cross_entropy(g, h, y, NULL, COPSE_MEAN);
    } else {
        h = copse_reshape(g, h, COPSE_SHAPE(rows, classes));
        is_right = copse_equal(g, copse_argmax(g, h, 1), y);
        loss = copse_sparse_cross_entropy(g, h, y, COPSE_MEAN);
    }
    copse_report(g, "accuracy", copse_mean(g, is_right, NULL, 0, false));
    return loss;
}

copse_tensor *copse_onnx_loss(copse_graph *g, const copse_batch *in, void *network)
{
    COPSE_LATCH(g, copse_need("onnx", g, in, network));
    const copse_onnx *m = network;
    COPSE_LATCH(g, has_one_input(m));
    copse_tensor *y = copse_input(in, "y");
    COPSE_LATCH(g, copse_graph_status(g));
    const bool has_classes = copse_tensor_type(y) == COPSE_I32;
    /* of classes the loss takes what enters the last softmax or sigmoid */
    uint32_t value = m->output_values[0];
    const struct onnx_step *s = step_of(m, value);
    while (step_is(s, "Identity"))
        s = step_of(m, s->in[0]);
    if (has_classes && (step_is(s, "Softmax") || step_is(s, "Sigmoid")))
        value = s->in[0];
    copse_tensor *h = apply_to(m, g, copse_input(in, "x"), value, in->is_training);
    COPSE_LATCH(g, copse_graph_status(g));
    if (has_classes)
        return loss_of_classes(g, h, y);
    if (copse__elements(copse_tensor_shape(h)) != copse__elements(copse_tensor_shape(y)))
        return copse__refuse(g, COPSE_ERR_SHAPE, "onnx: output %s with targets %s",
                             COPSE_SHAPE_TEXT(copse_tensor_shape(h)),
                             COPSE_SHAPE_TEXT(copse_tensor_shape(y)));
    h = copse_reshape(g, h, copse_tensor_shape(y));
    copse_report(g, "mae", copse_mean(g, copse_abs(g, copse_sub(g, h, y)), NULL, 0, false));
    return copse_mean_squared_error(g, h, y);
}

/* ---- predictions ---- */

static copse_tensor *first_output(copse_graph *g, const copse_batch *in, void *network)
{
    const copse_onnx *m = network;
    return apply_to(m, g, copse_input(in, "x"), m->output_values[0], false);
}

/* The type and the shape of `rows` rows of the output. */
static copse_status output_shape(const copse_onnx *m, const struct copse_column *x, size_t rows,
                                 struct copse_array_view *out)
{
    copse_graph *g = NULL;
    copse_shape s = { .rank = x->shape.rank + 1, .dims = { 1 } };
    COPSE_TRY(copse_graph_create(m->ctx, &g));
    for (uint32_t i = 0; i < x->shape.rank; i++)
        s.dims[i + 1] = x->shape.dims[i];
    copse_tensor *y = apply_to(m, g, copse_graph_input(g, "x", copse__type_on_devices(x->type), s),
                               m->output_values[0], false);
    copse_status status = copse_graph_status(g);
    s = copse_tensor_shape(y);
    if (status == COPSE_OK && (s.rank == 0 || s.dims[0] != 1))
        status = copse_fail(COPSE_ERR_SHAPE,
                            "onnx: %s: output '%s' of one row is %s: it has no row for each row of "
                            "the data",
                            m->path, m->outputs[0].name, COPSE_SHAPE_TEXT(s));
    *out = (struct copse_array_view){ .type = copse_tensor_type(y), .rank = s.rank };
    out->shape[0] = rows;
    for (uint32_t i = 1; i < s.rank; i++)
        out->shape[i] = s.dims[i];
    copse_graph_release(&g);
    return status;
}

static copse_status predict_batches(copse_onnx *m, copse_loader *batches, size_t row, char *values)
{
    struct copse_host_batch batch;
    struct copse_shard shards[COPSE_MAX_REPLICAS];
    copse_status s;
    while ((s = copse_loader_next(batches, &batch)) == COPSE_OK) {
        COPSE_TRY(copse__shard(COPSE_SHARD_BALANCED, batch.count, batch.count,
                               m->strategy->replica_count, shards));
        COPSE_TRY(copse__predict(&m->predictor, &batch, shards, values, batch.count * row));
        values += batch.count * row;
    }
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

copse_status copse_onnx_predict(copse_onnx *m, const copse_dataset *data, copse_array **out)
{
    struct copse_dataset_info info;
    struct copse_column x;
    struct copse_array_view view;
    copse_loader *batches = NULL;
    copse_array *made = NULL;
    COPSE_TRY(copse_need("onnx", out));
    *out = NULL;
    COPSE_TRY(copse_need("onnx", m, data));
    if (!m->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT, "onnx: %s has no variables: call copse_onnx_make",
                          m->path);
    COPSE_TRY(has_one_input(m));
    COPSE_TRY(copse__require_no_replica("copse_onnx_predict", m));
    copse_dataset_describe(data, &info);
    COPSE_TRY(copse_dataset_column(data, 0, &x));
    COPSE_TRY(output_shape(m, &x, info.rows, &view));
    if (!m->predictor.strategy)
        COPSE_TRY(copse__predictor_init(&m->predictor, m->strategy, m, ONNX_RECORDINGS));
    m->predictor.fn = first_output;
    m->predictor.user = m;
    COPSE_TRY(copse_loader_create(
        (copse_dataset *)(uintptr_t)data,
        &(struct copse_loader_params){ .batch = COPSE_MIN(info.rows, (size_t)PREDICTED_ROWS),
                                       .no_shuffle = true },
        &batches));
    size_t count, bytes;
    copse_status s =
        copse__shape_size(view.rank, view.shape, copse_type_size(view.type), &count, &bytes)
            ? copse__array_create(m->ctx, view.type, view.rank, view.shape, NULL, &made)
            : copse_no_memory("onnx: predictions of %zu rows", info.rows);
    size_t row = copse_type_size(view.type);
    for (uint32_t i = 1; i < view.rank; i++)
        row *= view.shape[i];
    if (s == COPSE_OK)
        s = predict_batches(m, batches, row, made->data);
    copse_loader_release(&batches);
    if (s != COPSE_OK)
        copse_array_release(&made);
    *out = made;
    return s;
}
