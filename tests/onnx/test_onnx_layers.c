/* SPDX-License-Identifier: MIT */
/* Layers of this library written as ONNX files, and read again: the same outputs. */
#include "tests/onnx/onnx_rig.h"

#include "copse/ops.h"
#include "copse/predict.h"

enum { ROWS = 3 };

static const struct {
    const char *network;
    copse_type type;
    copse_shape shape;
} networks[] = {
    { "dense 7 relu; dense 5 sigmoid bias=no; dense 4 tanh; dense 3 gelu; dense 2 silu",
      COPSE_F32,
      { 1, { 6 } } },
    { "conv 4 3 relu; max_pool 2; conv 6 3 stride=2 padding=no; flatten; dense 3",
      COPSE_F32,
      { 3, { 8, 8, 2 } } },
    { "conv 4 3x5 silu groups=2 dilation=2; batch_norm; relu; average_pool 3 stride=2 padding=yes; "
      "global_pool; dense 3",
      COPSE_F32,
      { 3, { 9, 7, 2 } } },
    { "conv 4 3x3; dense 3", COPSE_F32, { 2, { 6, 5 } } },
    { "conv 4 5 stride=3; instance_norm; group_norm 2; prelu; conv_transposed 2 4 stride=2",
      COPSE_F32,
      { 2, { 17, 3 } } },
    { "conv_transposed 4 3 stride=2 padding=no groups=2; conv_transposed 3 2 stride=3 relu",
      COPSE_F32,
      { 3, { 4, 5, 2 } } },
    { "residual { layer_norm; dense 12 gelu; dense 6 }; rms_norm; dense 2",
      COPSE_F32,
      { 2, { 5, 6 } } },
    { "residual { conv 4 3; relu; conv 4 3; shortcut { conv 4 1 } }; relu; global_pool; dropout "
      "0.5; "
      "dense 3",
      COPSE_F32,
      { 3, { 6, 6, 3 } } },
    { "embedding 11 8; positions; gru 5; dense 3", COPSE_I32, { 1, { 6 } } },
    { "embedding 11 8; lstm 5; rnn 4 last=yes; dense 3", COPSE_I32, { 1, { 6 } } },
    { "gru 4 last=yes bias=no; dense 2", COPSE_F32, { 2, { 5, 3 } } },
};

static copse_tensor *layer_outputs(copse_graph *g, const copse_batch *in, void *layer)
{
    return copse_layer_apply(layer, g, in, copse_input(in, "x"));
}

static copse_tensor *layer_loss(copse_graph *g, const copse_batch *in, void *layer)
{
    return copse_mean(g, copse_square(g, layer_outputs(g, in, layer)), NULL, 0, false);
}

static void check_network(size_t i)
{
    static float x[ROWS * 400], want[ROWS * 4000], got[ROWS * 4000];
    static int32_t tokens[ROWS * 400];
    copse_strategy *st = NULL;
    copse_layer *l = NULL;
    copse_trainer *t = NULL;
    copse_onnx *m = NULL;
    copse_shape shape, all = { networks[i].shape.rank + 1, { ROWS } };
    size_t count = 1, size = ROWS, outputs = ROWS;
    for (uint32_t k = 0; k < networks[i].shape.rank; k++)
        size *= all.dims[k + 1] = networks[i].shape.dims[k];
    for (size_t k = 0; k < size; k++) {
        x[k] = (float)(k * 37 % 41) / 20 - 1;
        tokens[k] = (int32_t)(k * 7 % 11);
    }
    const bool is_whole = networks[i].type == COPSE_I32;
    const struct copse_column column = { "x", networks[i].type, networks[i].shape,
                                         is_whole ? (const void *)tokens : x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = ROWS };
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_nn_parse(ctx, networks[i].network, &l));
    FAILS(COPSE_ERR_ARGUMENT, copse_onnx_write(l, temp_path("layers.onnx"), NULL), "not built");
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){
                             .type = networks[i].type, .shape = networks[i].shape, .seed = i }));
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = layer_loss,
                                        .user = l,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        &t));
    OK(copse_trainer_step(t, &batch)); /* biases and statistics are no longer 0 and 1 */
    OK(copse_layer_output(l, &shape));
    for (uint32_t k = 0; k < shape.rank; k++)
        outputs *= shape.dims[k];
    assert_true(outputs <= sizeof want / sizeof *want);
    OK(copse_trainer_predict(t, layer_outputs, l, &batch, want, outputs * sizeof *want));
    OK(copse_onnx_write(l, temp_path("layers.onnx"), NULL));
    OK(copse_onnx_open(ctx, temp_path("layers.onnx"), &m));
    (void)copse_onnx_inputs(m, &count);
    assert_int_equal(count, 1);
    OK(rig_run(m, (struct given[]){ { "x", networks[i].type, all, column.data } }, 1, NULL, got,
               &shape));
    for (size_t k = 0; k < outputs; k++)
        if (!(fabsf(got[k] - want[k]) <= 1e-5f + 1e-5f * fabsf(want[k])))
            fail_msg("%s: element %zu is %g, not %g", networks[i].network, k, (double)got[k],
                     (double)want[k]);
    copse_onnx_release(&m);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(networks); i++)
        check_network(i);
}

static void test_not_written(void **state)
{
    (void)state;
    copse_strategy *st = NULL;
    copse_layer *l = NULL;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_nn_parse(ctx, "dense 8; attention 2; dense 2", &l));
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(4, 8) }));
    FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_write(l, temp_path("none.onnx"), NULL), "attention");
    FILE *f = fopen(temp_path("none.onnx"), "rb");
    assert_null(f);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* What stands before and after the layers. */
static void test_scaled(void **state)
{
    (void)state;
    copse_strategy *st = NULL;
    copse_layer *l = NULL;
    copse_onnx *m = NULL;
    copse_shape shape;
    const float x[] = { 3, 5 };
    const double scales[] = { 2, 4 }, means[] = { 1, -1 };
    float y[2];
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_nn_parse(ctx, "relu", &l));
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(2) }));
    OK(copse_onnx_write(l, temp_path("scaled.onnx"),
                        &(struct copse_onnx_write_params){ .input_offset = 4,
                                                           .input_scale = 0.5f,
                                                           .output_scales = scales,
                                                           .output_means = means }));
    OK(copse_onnx_open(ctx, temp_path("scaled.onnx"), &m));
    OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), x } }, 1, NULL, y,
               &shape));
    assert_true(y[0] == 1 && y[1] == 1); /* relu(-0.5) * 2 + 1, relu(0.5) * 4 - 1 */
    size_t count;
    const struct copse_onnx_tensor *weights = copse_onnx_weights(m, &count);
    for (size_t i = 0; i < count; i++) /* scales and means are facts about the data */
        assert_false(weights[i].is_trained);
    copse_onnx_release(&m);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_not_written),
        cmocka_unit_test(test_scaled),
    };
    temp_begin();
    OK(copse_context_create(NULL, &ctx));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    temp_end();
    return failed;
}
