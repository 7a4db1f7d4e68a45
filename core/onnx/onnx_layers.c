/* SPDX-License-Identifier: MIT */
/* Layers of this library as the nodes of an ONNX file. Tensors flow as the layers have them, with
   the channels at the end; before windows and norms of channels they are transposed, if they are
   not already, and back where a layer needs it. */
#include "copse/copse.h"
#include "core/onnx/onnx_writer.h"

#define OPSET_WRITTEN 21

/* ---- layers ---- */

/* A setting by its name; all layers with this name for it mean the same. */
static struct copse_setting_value setting_of(const copse_layer *l, const char *name)
{
    for (uint32_t i = 0; i < COPSE_LAYER_SETTINGS && l->kind->setting[i].name; i++)
        if (strcmp(l->kind->setting[i].name, name) == 0)
            return l->value[i];
    return (struct copse_setting_value){ 0 };
}

/* The values of a variable; NULL: it has none, or the status is set. */
static float *values_of(struct layer_writer *w, uint32_t i, copse_status *s)
{
    copse_variable *v = w->layer->variable[i];
    if (!v || *s != COPSE_OK)
        return NULL;
    float *values = copse__onnx_writer_room(w, (size_t)copse__elements(copse_variable_shape(v)),
                                            sizeof *values);
    if (values)
        *s = copse_variable_read(v, 0, values);
    return values && *s == COPSE_OK ? values : NULL;
}

/* A variable as it is, as an initialiser; NULL: the layer has none. */
static const char *put_variable(struct layer_writer *w, uint32_t i, copse_status *s)
{
    const float *values = values_of(w, i, s);
    if (!values)
        return NULL;
    const copse_variable *v = w->layer->variable[i];
    const copse_shape shape = copse_variable_shape(v);
    float *to = copse__onnx_put_reals(w, copse_variable_name(v), shape);
    if (to)
        memcpy(to, values, (size_t)copse__elements(shape) * sizeof *to);
    return copse_variable_name(v);
}

static copse_status put_dense(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    (void)copse__onnx_flow_node(w, "MatMul", put_variable(w, 0, &s), NULL);
    if (w->layer->variable[1])
        (void)copse__onnx_flow_node(w, "Add", put_variable(w, 1, &s), NULL);
    copse__onnx_flow_activation(w, (copse_activation)setting_of(w->layer, "ACTIVATION").count);
    return s;
}

static copse_status put_function(struct layer_writer *w)
{
    static const char *const words[] = { "", "relu", "sigmoid", "tanh", "gelu", "silu" };
    for (int a = 1; a < (int)COPSE_COUNT(words); a++)
        if (strcmp(w->layer->kind->name, words[a]) == 0)
            copse__onnx_flow_activation(w, (copse_activation)a);
    return COPSE_OK;
}

static copse_status put_nothing(struct layer_writer *w)
{
    (void)w;
    return COPSE_OK;
}

static copse_status put_flatten(struct layer_writer *w)
{
    copse__onnx_flow_transpose(w, false);
    copse__onnx_put_int(w, copse__onnx_flow_node(w, "Flatten", NULL, NULL), "axis", 1);
    return COPSE_OK;
}

/* ---- windows ---- */

struct layer_window {
    uint32_t axes;
    int64_t size[2], stride[2], dilation[2], pads[4];
};

static void sides_of(struct copse_setting_value v, int64_t sides[2])
{
    sides[1] = v.count & 0xffff;
    sides[0] = v.count >> 16 ? v.count >> 16 : sides[1];
}

/* The window of a layer, and `now` with channels first. */
static struct layer_window put_window(struct layer_writer *w, bool has_padding, bool is_transposed)
{
    const struct copse_setting_value window = setting_of(w->layer, "WINDOW");
    struct layer_window k = { .dilation = { 1, 1 } };
    if (w->shape.rank == 2 && window.count >> 16) { /* an image of one channel */
        copse__onnx_flow_transpose(w, false);
        (void)copse__onnx_flow_node(w, "Unsqueeze",
                                    copse__onnx_put_wholes(w, (const int64_t[]){ 3 }, 1), NULL);
        w->shape.dims[w->shape.rank++] = 1;
    }
    copse__onnx_flow_transpose(w, true);
    k.axes = w->shape.rank - 1;
    sides_of(window, k.size);
    sides_of(setting_of(w->layer, "stride").count ? setting_of(w->layer, "stride") : window,
             k.stride);
    if (setting_of(w->layer, "dilation").count)
        sides_of(setting_of(w->layer, "dilation"), k.dilation);
    for (uint32_t i = 0; i < k.axes && has_padding; i++) {
        const int64_t n = w->shape.dims[i], span = (k.size[i] - 1) * k.dilation[i] + 1,
                      out = (n + k.stride[i] - 1) / k.stride[i],
                      total =
                          is_transposed ? span - k.stride[i] : (out - 1) * k.stride[i] + span - n;
        k.pads[i] = COPSE_MAX(total, 0) / 2;
        k.pads[k.axes + i] = COPSE_MAX(total, 0) - k.pads[i];
    }
    return k;
}

static void put_strides(struct layer_writer *w, onnx_node *n, const struct layer_window *k)
{
    copse__onnx_put_ints(w, n, "kernel_shape", k->size, k->axes);
    copse__onnx_put_ints(w, n, "strides", k->stride, k->axes);
    copse__onnx_put_ints(w, n, "pads", k->pads, 2 * (size_t)k->axes);
}

/* Weights [taps.., inner, outputs] as [outputs, inner, taps..], or transposed as [groups inner,
   outputs / groups, taps..]. */
static const char *put_kernel(struct layer_writer *w, const struct layer_window *k, uint32_t groups,
                              bool is_transposed, copse_status *s)
{
    const copse_variable *v = w->layer->variable[0];
    const float *from = values_of(w, 0, s);
    if (!from)
        return NULL;
    const copse_shape is = copse_variable_shape(v);
    const uint32_t inner = is.dims[is.rank - 2], units = is.dims[is.rank - 1],
                   each = units / groups,
                   taps = (uint32_t)(k->size[0] * (k->axes > 1 ? k->size[1] : 1));
    copse_shape shape = {
        is.rank, { is_transposed ? groups * inner : units, is_transposed ? each : inner }
    };
    for (uint32_t i = 0; i < k->axes; i++)
        shape.dims[2 + i] = (uint32_t)k->size[i];
    float *to = copse__onnx_put_reals(w, copse_variable_name(v), shape);
    for (uint32_t t = 0; to && t < taps; t++)
        for (uint32_t c = 0; c < inner; c++)
            for (uint32_t o = 0; o < units; o++) {
                const size_t row = is_transposed ? (size_t)(o / each) * inner + c : o,
                             column = is_transposed ? o % each : c,
                             width = is_transposed ? each : inner;
                to[(row * width + column) * taps + t] = from[((size_t)t * inner + c) * units + o];
            }
    return copse_variable_name(v);
}

static copse_status put_conv_of(struct layer_writer *w, bool is_transposed)
{
    copse_status s = COPSE_OK;
    const uint32_t groups = setting_of(w->layer, "groups").count;
    const bool is_padded = setting_of(w->layer, "padding").count != 0;
    const struct layer_window k = put_window(w, is_padded, is_transposed);
    int64_t extra[2] = { 0 };
    for (uint32_t i = 0; i < k.axes && is_padded && is_transposed; i++)
        extra[i] = COPSE_MAX(k.stride[i] - ((k.size[i] - 1) * k.dilation[i] + 1), 0);
    const char *kernel = put_kernel(w, &k, groups, is_transposed, &s);
    const char *bias = w->layer->variable[1] ? put_variable(w, 1, &s) : NULL;
    onnx_node *n = copse__onnx_flow_node(w, is_transposed ? "ConvTranspose" : "Conv", kernel, bias);
    put_strides(w, n, &k);
    copse__onnx_put_ints(w, n, "dilations", k.dilation, k.axes);
    copse__onnx_put_int(w, n, "group", groups);
    if (is_transposed)
        copse__onnx_put_ints(w, n, "output_padding", extra, k.axes);
    copse__onnx_flow_activation(w, (copse_activation)setting_of(w->layer, "ACTIVATION").count);
    return s;
}

static copse_status put_conv(struct layer_writer *w)
{
    return put_conv_of(w, false);
}

static copse_status put_conv_transposed(struct layer_writer *w)
{
    return put_conv_of(w, true);
}

static copse_status put_pool(struct layer_writer *w)
{
    const bool is_padded = setting_of(w->layer, "padding").count != 0;
    const struct layer_window k = put_window(w, is_padded, false);
    put_strides(
        w,
        copse__onnx_flow_node(
            w, w->layer->kind == &copse__layer_max_pool ? "MaxPool" : "AveragePool", NULL, NULL),
        &k);
    return COPSE_OK;
}

static copse_status put_global_pool(struct layer_writer *w)
{
    copse__onnx_flow_transpose(w, true);
    (void)copse__onnx_flow_node(w, "GlobalAveragePool", NULL, NULL);
    copse__onnx_put_int(w, copse__onnx_flow_node(w, "Flatten", NULL, NULL), "axis", 1);
    w->is_first = false;
    return COPSE_OK;
}

/* ---- norms ---- */

static copse_status put_batch_norm(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, true);
    const char *out = copse__onnx_new_name(w, "BatchNormalization");
    const char *const in[] = { w->now,
                               put_variable(w, 0, &s),
                               put_variable(w, 1, &s),
                               put_variable(w, 2, &s),
                               put_variable(w, 3, &s),
                               NULL };
    if (!out || s != COPSE_OK)
        return s;
    copse__onnx_put_float(w, copse__onnx_put_node(w, "BatchNormalization", in, out), "epsilon",
                          setting_of(w->layer, "epsilon").number);
    w->now = out;
    return s;
}

static copse_status put_channel_norm(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    const bool is_instance = w->layer->kind == &copse__layer_instance_norm;
    if (w->shape.rank < 2)
        return copse_layer_fail(w->layer, COPSE_ERR_UNSUPPORTED,
                                "ONNX has it for channels of several places alone");
    copse__onnx_flow_transpose(w, true);
    const char *scale = put_variable(w, 0, &s), *offset = put_variable(w, 1, &s);
    onnx_node *n = copse__onnx_flow_node(
        w, is_instance ? "InstanceNormalization" : "GroupNormalization", scale, offset);
    copse__onnx_put_float(w, n, "epsilon", setting_of(w->layer, "epsilon").number);
    if (!is_instance)
        copse__onnx_put_int(w, n, "num_groups", setting_of(w->layer, "groups").count);
    return s;
}

static copse_status put_layer_norm(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    const char *scale = put_variable(w, 0, &s), *offset = put_variable(w, 1, &s);
    onnx_node *n = copse__onnx_flow_node(w, "LayerNormalization", scale, offset);
    copse__onnx_put_int(w, n, "axis", -1);
    copse__onnx_put_float(w, n, "epsilon", setting_of(w->layer, "epsilon").number);
    return s;
}

/* ONNX has it from operator set 23 on: x / sqrt(mean of x^2 + epsilon) scale. */
static copse_status put_rms_norm(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    const char *x = w->now;
    (void)copse__onnx_flow_node(w, "Mul", x, NULL);
    (void)copse__onnx_flow_node(w, "ReduceMean",
                                copse__onnx_put_wholes(w, (const int64_t[]){ -1 }, 1), NULL);
    (void)copse__onnx_flow_node(
        w, "Add", copse__onnx_put_real(w, (double)setting_of(w->layer, "epsilon").number), NULL);
    (void)copse__onnx_flow_node(w, "Sqrt", NULL, NULL);
    const char *length = w->now;
    w->now = x;
    (void)copse__onnx_flow_node(w, "Div", length, NULL);
    (void)copse__onnx_flow_node(w, "Mul", put_variable(w, 0, &s), NULL);
    return s;
}

/* ---- others ---- */

static copse_status put_prelu(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    (void)copse__onnx_flow_node(w, "PRelu", put_variable(w, 0, &s), NULL);
    return s;
}

static copse_status put_positions(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    (void)copse__onnx_flow_node(w, "Add", put_variable(w, 0, &s), NULL);
    return s;
}

static copse_status put_embedding(struct layer_writer *w)
{
    copse_status s = COPSE_OK;
    const char *table = put_variable(w, 0, &s), *out = copse__onnx_new_name(w, "Gather");
    if (table && out)
        (void)copse__onnx_put_node(w, "Gather", (const char *const[]){ table, w->now, NULL }, out);
    if (out)
        w->now = out;
    return s;
}

/* Columns of gates [rows, gates units] as rows [1, gates units, rows], in the order of ONNX. */
static const char *put_gates(struct layer_writer *w, uint32_t i, uint32_t gates,
                             const uint8_t *order, copse_status *s)
{
    const float *from = values_of(w, i, s);
    if (!from)
        return NULL;
    const copse_variable *v = w->layer->variable[i];
    const copse_shape is = copse_variable_shape(v);
    const uint32_t rows = is.dims[0], columns = is.dims[1], units = columns / gates;
    float *to = copse__onnx_put_reals(w, copse_variable_name(v), COPSE_SHAPE(1, columns, rows));
    for (uint32_t g = 0; to && g < gates; g++)
        for (uint32_t u = 0; u < units; u++)
            for (uint32_t r = 0; r < rows; r++)
                to[(size_t)(g * units + u) * rows + r] =
                    from[(size_t)r * columns + order[g] * units + u];
    return copse_variable_name(v);
}

/* [1, 2 gates units]: of the input, then of the state. */
static const char *put_gate_bias(struct layer_writer *w, uint32_t gates, uint32_t units,
                                 const uint8_t *order, copse_status *s)
{
    if (!w->layer->variable[2])
        return "";
    const float *from[2] = { values_of(w, 2, s), values_of(w, 3, s) };
    const char *name = copse_variable_name(w->layer->variable[2]);
    float *to =
        *s == COPSE_OK ? copse__onnx_put_reals(w, name, COPSE_SHAPE(1, 2 * gates * units)) : NULL;
    for (uint32_t k = 0; to && k < 2; k++)
        for (uint32_t g = 0; from[k] && g < gates; g++)
            memcpy(to + (size_t)(k * gates + g) * units, from[k] + (size_t)order[g] * units,
                   units * sizeof *to);
    return name;
}

static copse_status put_recurrent(struct layer_writer *w)
{
    static const uint8_t of_gru[] = { 1, 0, 2 }, of_lstm[] = { 0, 3, 1, 2 }, of_rnn[] = { 0 };
    const copse_layer *l = w->layer;
    const bool is_gru = l->kind == &copse__layer_gru, is_lstm = l->kind == &copse__layer_lstm,
               is_last = setting_of(l, "last").count != 0;
    const char *op = is_gru ? "GRU" : is_lstm ? "LSTM" : "RNN";
    const uint8_t *order = is_gru ? of_gru : is_lstm ? of_lstm : of_rnn;
    const uint32_t gates = is_gru ? 3 : is_lstm ? 4 : 1, units = setting_of(l, "UNITS").count;
    copse_status s = COPSE_OK;
    copse__onnx_flow_transpose(w, false);
    copse__onnx_put_ints(w, copse__onnx_flow_node(w, "Transpose", NULL, NULL), "perm",
                         (const int64_t[]){ 1, 0, 2 }, 3);
    const char *const in[] = { w->now, put_gates(w, 0, gates, order, &s),
                               put_gates(w, 1, gates, order, &s),
                               put_gate_bias(w, gates, units, order, &s), NULL };
    const char *states = copse__onnx_new_name(w, op), *last = copse__onnx_new_name(w, op);
    if (s != COPSE_OK || !states || !last)
        return s;
    onnx_node *n = copse__onnx_put_node(w, op, in, states);
    char **outputs = copse__onnx_writer_room(w, 2, sizeof *outputs);
    if (!n || !outputs)
        return s;
    outputs[0] = n->output[0];
    outputs[1] = copse__onnx_writer_text(w, last);
    n->output = outputs;
    n->n_output = 2;
    copse__onnx_put_int(w, n, "hidden_size", units);
    if (is_gru)
        copse__onnx_put_int(w, n, "linear_before_reset", 1);
    w->now = is_last ? last : states;
    (void)copse__onnx_flow_node(
        w, "Squeeze", copse__onnx_put_wholes(w, (const int64_t[]){ is_last ? 0 : 1 }, 1), NULL);
    if (!is_last)
        copse__onnx_put_ints(w, copse__onnx_flow_node(w, "Transpose", NULL, NULL), "perm",
                             (const int64_t[]){ 1, 0, 2 }, 3);
    return s;
}

/* ---- the tree ---- */

static copse_status put_layer(struct layer_writer *w, const copse_layer *l);

static copse_status put_row(struct layer_writer *w)
{
    const copse_layer *l = w->layer;
    for (size_t i = 0; i < l->inner.count; i++)
        COPSE_TRY(put_layer(w, l->inner.at[i]));
    return COPSE_OK;
}

/* Its last inner layer may be a shortcut, which takes the place of the input in the sum. */
static copse_status put_residual(struct layer_writer *w)
{
    const copse_layer *l = w->layer;
    const copse_layer *last = l->inner.at[l->inner.count - 1];
    const bool has_shortcut = last->kind == &copse__layer_shortcut;
    copse__onnx_flow_transpose(w, false);
    const char *x = w->now;
    const copse_shape shape = w->shape;
    for (size_t i = 0; i + has_shortcut < l->inner.count; i++)
        COPSE_TRY(put_layer(w, l->inner.at[i]));
    copse__onnx_flow_transpose(w, false);
    const char *inner = w->now;
    w->now = x;
    if (has_shortcut) {
        w->shape = shape;
        COPSE_TRY(put_layer(w, last));
        copse__onnx_flow_transpose(w, false);
    }
    (void)copse__onnx_flow_node(w, "Add", inner, NULL);
    return COPSE_OK;
}

static const struct {
    const struct copse_layer_kind *kind;
    copse_status (*put)(struct layer_writer *w);
} written[] = {
    { &copse__layer_row, put_row },
    { &copse__layer_shortcut, put_row },
    { &copse__layer_residual, put_residual },
    { &copse__layer_dense, put_dense },
    { &copse__layer_flatten, put_flatten },
    { &copse__layer_dropout, put_nothing },
    { &copse__layer_conv, put_conv },
    { &copse__layer_conv_transposed, put_conv_transposed },
    { &copse__layer_max_pool, put_pool },
    { &copse__layer_average_pool, put_pool },
    { &copse__layer_global_pool, put_global_pool },
    { &copse__layer_batch_norm, put_batch_norm },
    { &copse__layer_group_norm, put_channel_norm },
    { &copse__layer_instance_norm, put_channel_norm },
    { &copse__layer_layer_norm, put_layer_norm },
    { &copse__layer_rms_norm, put_rms_norm },
    { &copse__layer_prelu, put_prelu },
    { &copse__layer_positions, put_positions },
    { &copse__layer_embedding, put_embedding },
    { &copse__layer_gru, put_recurrent },
    { &copse__layer_lstm, put_recurrent },
    { &copse__layer_rnn, put_recurrent },
    { &copse__layer_activations[COPSE_RELU - 1], put_function },
    { &copse__layer_activations[COPSE_SIGMOID - 1], put_function },
    { &copse__layer_activations[COPSE_TANH - 1], put_function },
    { &copse__layer_activations[COPSE_GELU - 1], put_function },
    { &copse__layer_activations[COPSE_SILU - 1], put_function },
};

static copse_status put_layer(struct layer_writer *w, const copse_layer *l)
{
    const copse_layer *outer = w->layer;
    for (size_t i = 0; i < COPSE_COUNT(written); i++)
        if (written[i].kind == l->kind) {
            w->layer = l;
            COPSE_TRY(written[i].put(w));
            w->layer = outer;
            w->shape = l->out.shape;
            return w->is_full ? copse_no_memory("onnx") : COPSE_OK;
        }
    return copse_layer_fail(l, COPSE_ERR_UNSUPPORTED, "it is not written to ONNX files");
}

/* ---- the file ---- */

static CopseOnnx__ValueInfo *put_value(struct layer_writer *w, const char *name, int32_t type,
                                       copse_shape shape)
{
    CopseOnnx__ValueInfo *v = copse__onnx_writer_room(w, 1, sizeof *v);
    CopseOnnx__Type *t = copse__onnx_writer_room(w, 1, sizeof *t);
    CopseOnnx__TensorType *tensor = copse__onnx_writer_room(w, 1, sizeof *tensor);
    CopseOnnx__Dims *dims = copse__onnx_writer_room(w, 1, sizeof *dims);
    CopseOnnx__Dim **list = copse__onnx_writer_room(w, shape.rank + 1u, sizeof(CopseOnnx__Dim *)),
                   *each = copse__onnx_writer_room(w, shape.rank + 1u, sizeof *each);
    if (!v || !t || !tensor || !dims || !list || !each)
        return NULL;
    copse_onnx__value_info__init(v);
    copse_onnx__type__init(t);
    copse_onnx__tensor_type__init(tensor);
    copse_onnx__dims__init(dims);
    for (uint32_t i = 0; i <= shape.rank; i++) {
        copse_onnx__dim__init(list[i] = &each[i]);
        if (i == 0)
            each[i].param = copse__onnx_writer_text(w, "batch");
        else {
            each[i].has_value = true;
            each[i].value = shape.dims[i - 1];
        }
    }
    v->name = copse__onnx_writer_text(w, name);
    v->type = t;
    t->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = type;
    tensor->shape = dims;
    dims->n_dim = shape.rank + 1u;
    dims->dim = list;
    return v;
}

static copse_status write_model(struct layer_writer *w, const copse_layer *l, int32_t type,
                                const char *path)
{
    CopseOnnx__Model model = COPSE_ONNX__MODEL__INIT;
    CopseOnnx__Graph graph = COPSE_ONNX__GRAPH__INIT;
    CopseOnnx__OperatorSetId set = COPSE_ONNX__OPERATOR_SET_ID__INIT, *sets[] = { &set };
    CopseOnnx__ValueInfo *in[] = { put_value(w, "x", type, l->in.shape) },
                         *out[] = { put_value(w, "y", ONNX_FLOAT, l->out.shape) };
    model.has_ir_version = true;
    model.ir_version = 10;
    model.producer_name = copse__onnx_writer_text(w, "copse");
    model.producer_version = copse__onnx_writer_text(w, copse_version());
    model.graph = &graph;
    model.n_opset_import = 1;
    model.opset_import = sets;
    set.domain = copse__onnx_writer_text(w, "");
    set.has_version = true;
    set.version = OPSET_WRITTEN;
    graph.name = copse__onnx_writer_text(w, "network");
    graph.n_node = w->nodes.count;
    graph.node = (onnx_node **)w->nodes.at;
    graph.n_initializer = w->tensors.count;
    graph.initializer = (onnx_tensor **)w->tensors.at;
    graph.n_input = graph.n_output = 1;
    graph.input = in;
    graph.output = out;
    return w->is_full ? copse_no_memory("onnx: %s", path) : copse__onnx_write(w->mem, &model, path);
}

/* A number for each element of the last axis; NULL: none. */
static void put_factors(struct layer_writer *w, const char *op, const double *values,
                        copse_shape shape)
{
    const uint32_t count = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
    const char *name = values ? copse__onnx_put_constants(w, values, count) : NULL;
    if (name)
        (void)copse__onnx_flow_node(w, op, name, NULL);
}

static copse_status write_layers(struct layer_writer *w, const copse_layer *l,
                                 const struct copse_onnx_write_params *p, const char *path)
{
    const int32_t type = l->type == COPSE_I32 ? ONNX_INT64 : ONNX_FLOAT;
    w->now = "x";
    w->shape = l->in.shape;
    put_factors(w, "Sub", p->input_means, l->in.shape);
    put_factors(w, "Div", p->input_scales, l->in.shape);
    if (p->input_offset != 0.0f)
        (void)copse__onnx_flow_node(w, "Sub", copse__onnx_put_real(w, (double)p->input_offset),
                                    NULL);
    if (p->input_scale != 0.0f && p->input_scale != 1.0f)
        (void)copse__onnx_flow_node(w, "Mul", copse__onnx_put_real(w, (double)p->input_scale),
                                    NULL);
    COPSE_TRY(put_layer(w, l));
    copse__onnx_flow_transpose(w, false);
    if (p->is_softmax)
        copse__onnx_put_int(w, copse__onnx_flow_node(w, "Softmax", NULL, NULL), "axis", -1);
    put_factors(w, "Mul", p->output_scales, l->out.shape);
    put_factors(w, "Add", p->output_means, l->out.shape);
    if (w->is_full)
        return copse_no_memory("onnx");
    if (w->nodes.count == 0)
        (void)copse__onnx_flow_node(w, "Identity", NULL, NULL);
    ((onnx_node *)w->nodes.at[w->nodes.count - 1])->output[0] = copse__onnx_writer_text(w, "y");
    return write_model(w, l, type, path);
}

copse_status copse_onnx_write(const copse_layer *l, const char *path,
                              const struct copse_onnx_write_params *params)
{
    static const struct copse_onnx_write_params normal = { .input_scale = 0.0f };
    COPSE_TRY(copse_need("onnx", l, path));
    params = params ? params : &normal;
    COPSE_TRY(copse_no_reserved(copse_onnx_write_params, params));
    if (!l->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT, "onnx: the layers are not built: see "
                                              "copse_layer_build");
    struct layer_writer w = { .mem = &l->ctx->base.mem };
    w.arena.mem = w.mem;
    const copse_status s = write_layers(&w, l, params, path);
    copse__free(w.mem, (void *)w.nodes.at);
    copse__free(w.mem, (void *)w.tensors.at);
    copse__arena_fini(&w.arena);
    return s;
}
