/* SPDX-License-Identifier: MIT */
/* Networks of ONNX files: what is in them, what they compute, how they are trained and saved. */
#include "tests/onnx/onnx_rig.h"

#include "copse/ops.h"
#include "copse/optimizer.h"
#include "copse/trainer.h"

static const float first_weights[] = { 1, 2, -1, 0.5f, -2, 3 },                      /* [3, 2] */
    first_bias[] = { 0.5f, -1, 0.25f }, second_weights[] = { 1, 0, 2, -1, 0.5f, 1 }, /* [3, 2] */
    second_bias[] = { 0.125f, -0.5f };

/* x [n, 2]: Gemm of transposed weights, Relu, MatMul, Add. */
static void put_mlp(struct model_rig *r, bool is_raw)
{
    rig_begin(r, 17);
    rig_input(r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_reals(r, "layer.weight", DIMS(3, 2), first_weights, is_raw);
    rig_reals(r, "layer.bias", DIMS(3), first_bias, is_raw);
    rig_reals(r, "head.weight", DIMS(3, 2), second_weights, is_raw);
    rig_reals(r, "head.bias", DIMS(2), second_bias, is_raw);
    rig_int(r, rig_node(r, "Gemm", "x layer.weight layer.bias", "a"), "transB", 1);
    rig_node(r, "Relu", "a", "b");
    rig_node(r, "MatMul", "b head.weight", "c");
    rig_node(r, "Add", "c head.bias", "y");
    rig_output(r, "y");
}

static void mlp_of(const float *x, float *y)
{
    double h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = (double)first_bias[i] + (double)first_weights[2 * i] * (double)x[0] +
               (double)first_weights[2 * i + 1] * (double)x[1];
        h[i] = h[i] > 0 ? h[i] : 0;
    }
    for (int k = 0; k < 2; k++) {
        double sum = (double)second_bias[k];
        for (int i = 0; i < 3; i++)
            sum += h[i] * (double)second_weights[2 * i + k];
        y[k] = (float)sum;
    }
}

static void test_describe(void **state)
{
    (void)state;
    struct model_rig r;
    struct copse_onnx_info is;
    copse_onnx *m = NULL;
    size_t count;
    put_mlp(&r, true);
    OK(rig_open(&r, &m));
    OK(copse_onnx_describe(m, &is));
    assert_int_equal(is.opset, 17);
    assert_int_equal(is.nodes, 4);
    assert_int_equal(is.refused, 0);
    assert_int_equal(is.weights, 4);
    assert_int_equal(is.parameters, 6 + 3 + 6 + 2);
    assert_string_equal(is.producer, "rig");
    const struct copse_onnx_tensor *in = copse_onnx_inputs(m, &count);
    assert_int_equal(count, 1);
    assert_string_equal(in->name, "x");
    assert_string_equal(in->type, "float");
    assert_int_equal(in->rank, 2);
    assert_int_equal(in->shape[0], -1);
    assert_int_equal(in->shape[1], 2);
    const struct copse_onnx_op *ops = copse_onnx_ops(m, &count);
    assert_int_equal(count, 4);
    assert_string_equal(ops[0].name, "Add");
    assert_int_equal(ops[0].count, 1);
    copse_onnx_release(&m);
    assert_null(m);
    rig_free(&r);
}

static void test_mlp(void **state)
{
    (void)state;
    const float x[] = { 1, 2, -3, 0.5f, 0, 0, INFINITY, 1 };
    for (int is_raw = 0; is_raw < 2; is_raw++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        copse_shape shape;
        float y[8], want[2];
        put_mlp(&r, is_raw);
        OK(rig_open(&r, &m));
        /* any number of examples: a graph of its own for each */
        for (uint32_t n = 1; n <= 4; n += 3) {
            OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(n, 2), x } }, 1, NULL, y,
                       &shape));
            assert_int_equal(shape.dims[0], n);
            for (uint32_t i = 0; i < n; i++) {
                mlp_of(x + 2 * i, want);
                for (int k = 0; k < 2; k++)
                    if (!(fabsf(y[2 * i + (uint32_t)k] - want[k]) < 1e-5f) &&
                        !(isnan(want[k]) && isnan(y[2 * i + (uint32_t)k])) && !isinf(want[k]))
                        fail_msg("row %u: %g, not %g", i, (double)y[2 * i + (uint32_t)k],
                                 (double)want[k]);
            }
        }
        OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), x } }, 1, "b", y,
                   &shape));
        assert_int_equal(shape.dims[1], 3);
        assert_true(y[0] == 5.5f); /* an inner tensor */
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

/* ---- images ---- */

/* Conv, BatchNormalization, MaxPool, Flatten; the tensors before and after are in ONNX's order. */
static void test_image(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_shape shape;
    float kernel[2 * 1 * 3 * 3], x[2 * 1 * 4 * 4], y[2 * 2 * 2 * 2];
    const float scale[] = { 2, -1 }, offset[] = { 1, 0.5f }, mean[] = { 0.5f, -0.25f },
                variance[] = { 4, 1 };
    for (int i = 0; i < 18; i++)
        kernel[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 32; i++)
        x[i] = (float)(i * 7 % 11) - 5;
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 1, 4, 4));
    rig_reals(&r, "w", DIMS(2, 1, 3, 3), kernel, true);
    rig_reals(&r, "scale", DIMS(2), scale, true);
    rig_reals(&r, "offset", DIMS(2), offset, true);
    rig_reals(&r, "mean", DIMS(2), mean, true);
    rig_reals(&r, "variance", DIMS(2), variance, true);
    rig_ints(&r, rig_node(&r, "Conv", "x w", "a"), "pads", DIMS(1, 1, 1, 1));
    rig_node(&r, "BatchNormalization", "a scale offset mean variance", "b");
    CopseOnnx__Node *pool = rig_node(&r, "MaxPool", "b", "y");
    rig_ints(&r, pool, "kernel_shape", DIMS(2, 2));
    rig_ints(&r, pool, "strides", DIMS(2, 2));
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(2, 1, 4, 4), x } }, 1, NULL, y,
               &shape));
    assert_true(shape.rank == 4 && shape.dims[1] == 2 && shape.dims[3] == 2);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 2; c++)
            for (int p = 0; p < 4; p++) {
                double most = -1e30;
                for (int q = 0; q < 4; q++) {
                    const int row = 2 * (p / 2) + q / 2, column = 2 * (p % 2) + q % 2;
                    double sum = 0;
                    for (int k = 0; k < 9; k++) {
                        const int i = row + k / 3 - 1, j = column + k % 3 - 1;
                        if (i >= 0 && i < 4 && j >= 0 && j < 4)
                            sum += (double)kernel[9 * c + k] * (double)x[16 * n + 4 * i + j];
                    }
                    sum = (sum - (double)mean[c]) / sqrt((double)variance[c] + 1e-5) *
                              (double)scale[c] +
                          (double)offset[c];
                    most = sum > most ? sum : most;
                }
                const float got = y[8 * n + 4 * c + p];
                if (!(fabs((double)got - most) < 1e-4))
                    fail_msg("[%d, %d, %d]: %g, not %g", n, c, p, (double)got, most);
            }
    size_t count;
    const struct copse_onnx_tensor *w = copse_onnx_weights(m, &count);
    assert_int_equal(count, 5);
    assert_true(w[1].is_trained && !w[3].is_trained && !w[4].is_trained); /* statistics */
    copse_onnx_release(&m);
    rig_free(&r);
}

/* ---- shapes that are computed ---- */

static void test_folding(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_shape shape;
    float x[2 * 3 * 4], y[24];
    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 3, 4));
    rig_wholes(&r, "zero", (int64_t[]){ 0 }, 1);
    rig_wholes(&r, "rest", (int64_t[]){ -1 }, 1);
    rig_node(&r, "Shape", "x", "shape");
    rig_node(&r, "Gather", "shape zero", "batch");
    rig_node(&r, "Mul", "batch batch", "square");
    rig_node(&r, "Div", "square batch", "again");
    rig_int(&r, rig_node(&r, "Concat", "again rest", "to"), "axis", 0);
    rig_node(&r, "Reshape", "x to", "y");
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(2, 3, 4), x } }, 1, NULL, y,
               &shape));
    assert_true(shape.rank == 2 && shape.dims[0] == 2 && shape.dims[1] == 12);
    assert_memory_equal(x, y, sizeof x);
    copse_onnx_release(&m);
    rig_free(&r);
}

/* ---- nodes that are not read ---- */

static void test_refused(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    size_t count;
    const float x[2] = { 1, 2 };
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_node(&r, "Relu", "x", "a");
    rig_node(&r, "Frobnicate", "a", "b");
    rig_node(&r, "Relu", "b", "c");
    rig_node(&r, "Det", "x", "d");
    rig_node(&r, "Add", "c d", "y");
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    const struct copse_onnx_refusal *list = copse_onnx_refusals(m, &count);
    assert_int_equal(count, 2);
    assert_string_equal(list[0].op, "Frobnicate");
    assert_string_equal(list[0].node, "b");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_check(m), "'d' (Det)");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_check(m), "'b' (Frobnicate)");
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), x };
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), "'b' (Frobnicate)");
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), "'d' (Det)");
    /* what does not need them is computed */
    float y[2];
    copse_shape shape;
    OK(rig_run(m, &given, 1, "a", y, &shape));
    assert_true(y[1] == 2);
    copse_onnx_release(&m);
    rig_free(&r);
}

static void test_inputs(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    const float x[6] = { 0 };
    put_mlp(&r, false);
    OK(rig_open(&r, &m));
    FAILS(COPSE_ERR_ARGUMENT, rig_run(m, NULL, 0, NULL, NULL, NULL), "input 'x' is missing");
    FAILS(COPSE_ERR_ARGUMENT,
          rig_run(m, (struct given[]){ { "z", COPSE_F32, COPSE_SHAPE(1, 2), x } }, 1, NULL, NULL,
                  NULL),
          "no input 'z'");
    FAILS(COPSE_ERR_SHAPE,
          rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 3), x } }, 1, NULL, NULL,
                  NULL),
          "[?, 2]");
    FAILS(COPSE_ERR_ARGUMENT,
          rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), x } }, 1, "nothing",
                  NULL, NULL),
          "no tensor 'nothing'");
    copse_onnx_release(&m);
    rig_free(&r);
}

/* ---- training ---- */

static copse_tensor *square_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = NULL;
    const struct copse_onnx_feed feed = { "x", copse_input(in, "x") };
    const struct copse_onnx_apply_params params = {
        .inputs = &feed, .input_count = 1, .is_training = in->is_training, .batch_statistics = true
    };
    copse_onnx_apply(user, g, &params, &y);
    return copse_mean_squared_error(g, y, copse_input(in, "y"));
}

static double train_steps(copse_strategy *st, copse_onnx *m, int steps, float rate,
                          const struct copse_host_batch *batch)
{
    copse_trainer *t = NULL;
    struct copse_step_result result;
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = square_loss,
                                        .user = m,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = rate } },
        &t));
    for (int i = 0; i < steps; i++) {
        OK(copse_trainer_step(t, batch));
        OK(copse_trainer_result(t, 0, &result));
    }
    copse_trainer_release(&t);
    return result.loss;
}

/* Patterns pass over numbers that the graph depends on; their names are refused. */
static void test_patterns(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_strategy *st = NULL;
    size_t count;
    const float two = 2;
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_reals(&r, "a.bias", DIMS(2), second_bias, true);
    rig_reals(&r, "a.power", DIMS(1), &two, true);
    rig_node(&r, "Add", "x a.bias", "a");
    rig_node(&r, "Pow", "a a.power", "y");
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    FAILS(COPSE_ERR_ARGUMENT,
          copse_onnx_make(m, st, &(struct copse_onnx_make_params){ .trained = "a.power" }),
          "'a.power' cannot be trained");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_onnx_make(m, st, &(struct copse_onnx_make_params){ .trained = "*, *power " }),
          "fits '*power'");
    OK(copse_onnx_make(m, st, &(struct copse_onnx_make_params){ .trained = " a.* , a.?ias" }));
    copse_variable *const *list = copse_onnx_variables(m, &count);
    assert_int_equal(count, 1);
    assert_true(copse_variable_is_trained(list[0]));
    copse_onnx_release(&m);
    copse_strategy_release(&st);
    rig_free(&r);
}

/* Trained, saved, and opened again: the file has the new weights, and those that are frozen. */
static void test_train(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL, *again = NULL;
    copse_strategy *st = NULL;
    size_t count;
    copse_shape shape;
    float before[2], after[2], read[6];
    const float x[] = { 1, 2 }, y[] = { 3, -4 };
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(2), y }),
                                            .count = 1 };
    put_mlp(&r, false);
    OK(rig_open(&r, &m));
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    FAILS(COPSE_ERR_ARGUMENT,
          copse_onnx_make(m, st, &(struct copse_onnx_make_params){ .trained = "head.*,tail.*" }),
          "tail.*");
    OK(copse_onnx_make(m, st,
                       &(struct copse_onnx_make_params){ .scope = "net", .trained = "head.*" }));
    FAILS(COPSE_ERR_ARGUMENT, copse_onnx_make(m, st, NULL), "already");
    copse_variable *const *list = copse_onnx_variables(m, &count);
    assert_int_equal(count, 4);
    assert_string_equal(copse_variable_name(list[0]), "net/layer.weight");
    assert_false(copse_variable_is_trained(list[0]));
    assert_true(copse_variable_is_trained(list[2]));
    const double first = train_steps(st, m, 1, 0.01f, &batch),
                 last = train_steps(st, m, 20, 0.01f, &batch);
    if (!(last < first / 2))
        fail_msg("the loss went from %g to %g", first, last);
    OK(copse_variable_read(list[0], 0, read));
    assert_memory_equal(read, first_weights, sizeof first_weights);
    OK(copse_onnx_save(m, temp_path("saved.onnx")));
    OK(copse_onnx_save(m, temp_path("saved.onnx"))); /* again, over itself */
    OK(copse_onnx_open(ctx, temp_path("saved.onnx"), &again));
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), x };
    OK(rig_run(again, &given, 1, NULL, after, &shape));
    mlp_of(x, before);
    assert_true(fabsf(after[0] - y[0]) < fabsf(before[0] - y[0]));
    copse_onnx_release(&again);
    copse_onnx_release(&m);
    copse_strategy_release(&st);
    rig_free(&r);
}

/* In training, BatchNormalization takes the batch's statistics, and moves the running ones. */
static void test_statistics(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_strategy *st = NULL;
    const float one[] = { 1 }, zero[] = { 0 }, x[] = { 1, 3 }, y[] = { 0, 0 };
    float mean, variance;
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x },
                                                          { "y", COPSE_F32, COPSE_SHAPE(1), y }),
                                            .count = 2 };
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 1));
    rig_reals(&r, "scale", DIMS(1), one, true);
    rig_reals(&r, "offset", DIMS(1), zero, true);
    rig_reals(&r, "mean", DIMS(1), zero, true);
    rig_reals(&r, "variance", DIMS(1), one, true);
    rig_node(&r, "BatchNormalization", "x scale offset mean variance", "y");
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_onnx_make(m, st, NULL));
    const double loss = train_steps(st, m, 1, 0.0f, &batch);
    assert_true(fabs(loss - 1) < 1e-3); /* normalised: -1 and 1 */
    size_t count;
    copse_variable *const *list = copse_onnx_variables(m, &count);
    assert_int_equal(count, 4);
    OK(copse_variable_read(list[2], 0, &mean));
    OK(copse_variable_read(list[3], 0, &variance));
    assert_true(fabsf(mean - 0.2f) < 1e-6f); /* 0.9 * 0 + 0.1 * 2 */
    assert_true(fabsf(variance - 1.0f) < 1e-6f);
    copse_onnx_release(&m);
    copse_strategy_release(&st);
    rig_free(&r);
}

/* Rows of numbers as [1, 2], classes and values, predictions of several batches. */
static void test_data(void **state)
{
    (void)state;
    enum { ROWS = 150 };
    struct model_rig r;
    copse_onnx *m = NULL;
    copse_strategy *st = NULL;
    copse_dataset *data = NULL;
    copse_trainer *t = NULL;
    copse_array *out = NULL;
    struct copse_step_result result;
    static float x[2 * ROWS];
    static int32_t y[ROWS];
    float want[2];
    for (int i = 0; i < 2 * ROWS; i++)
        x[i] = (float)(i * 13 % 17) / 8 - 1;
    const struct copse_array_view view = { COPSE_F32, 2, { ROWS, 2 }, x };
    put_mlp(&r, true);
    rig_node(&r, "Softmax", "y", "p");
    r.outputs[0]->name = rig_text(&r, "p");
    OK(rig_open(&r, &m));
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    OK(copse_dataset_create(ctx, &view, NULL,
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }, &data));
    FAILS(COPSE_ERR_ARGUMENT, copse_onnx_predict(m, data, &out), "copse_onnx_make");
    OK(copse_onnx_make(m, st, NULL));
    OK(copse_onnx_predict(m, data, &out));
    const struct copse_array_view *got = copse_array_view(out);
    assert_true(got->rank == 2 && got->shape[0] == ROWS && got->shape[1] == 2);
    double loss = 0, hits = 0;
    for (int i = 0; i < ROWS; i++) {
        mlp_of(x + 2 * i, want);
        const double p = 1 / (1 + exp((double)(want[1] - want[0])));
        assert_true(fabs((double)((const float *)got->data)[2 * i] - p) < 1e-5);
        y[i] = i % 3 == 0;
        loss -= log(y[i] ? 1 - p : p) / ROWS; /* of what enters the softmax */
        hits += (double)(y[i] == (want[1] > want[0])) / ROWS;
    }
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x },
                                                          { "y", COPSE_I32, COPSE_SCALAR, y }),
                                            .count = ROWS };
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = copse_onnx_loss, .user = m }, &t));
    OK(copse_trainer_evaluate(t, &batch, &result));
    assert_true(fabs(result.loss - loss) < 1e-5);
    assert_string_equal(result.report_names[0], "accuracy");
    assert_true(fabs(result.reports[0] - hits) < 1e-6);
    const struct copse_host_batch values = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x },
                                                           { "y", COPSE_F32, COPSE_SHAPE(2), x }),
                                             .count = ROWS };
    copse_trainer_release(&t);
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = copse_onnx_loss, .user = m }, &t));
    OK(copse_trainer_evaluate(t, &values, &result));
    assert_string_equal(result.report_names[0], "mae");
    copse_trainer_release(&t);
    copse_array_release(&out);
    copse_dataset_release(&data);
    copse_onnx_release(&m);
    copse_strategy_release(&st);
    rig_free(&r);
}

/* The page lists each operator of the table. */
static void test_page(void **state)
{
    (void)state;
    size_t size;
    char name[64];
    unsigned char *page = temp_bytes("docs/onnx.md", &size);
    page[size] = '\0';
    for (size_t i = 0; i < copse__onnx_row_count; i++) {
        bool is_listed = false;
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "%s%s%s", k & 1 ? "| " : ", ", copse__onnx_rows[i].name,
                     k & 2 ? " |" : ",");
            is_listed = is_listed || strstr((char *)page, name);
        }
        if (!is_listed)
            fail_msg("docs/onnx.md does not list %s", copse__onnx_rows[i].name);
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),   cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_image),      cmocka_unit_test(test_folding),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_train),      cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_statistics), cmocka_unit_test(test_page),
        cmocka_unit_test(test_data),
    };
    temp_begin();
    OK(copse_context_create(NULL, &ctx));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    temp_end();
    return failed;
}
