/* SPDX-License-Identifier: MIT */
/* Layers: their variables, shapes, values, tables, and the calls that are refused. */
#include <math.h>

#include "copse/distribute/replica.h"
#include "copse/nn/layers.h"
#include "core/base/base.h"
#include "tests/nn/layer_rig.h"
#include "tests/rig/graph_rig.h"

/* ---- variables ---- */

/* "name type shape;" for every variable */
static const char *variables_of(copse_strategy *st)
{
    static char text[2048];
    copse_variable *const *list;
    size_t count, at = 0;
    copse_strategy_variables(st, &list, &count);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const copse_shape s = copse_variable_shape(list[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", copse_variable_name(list[i]));
        for (uint32_t d = 0; d < s.rank; d++)
            at += (size_t)snprintf(text + at, sizeof text - at, " %u", s.dims[d]);
        at += (size_t)snprintf(text + at, sizeof text - at, ";");
    }
    return text;
}

static void variables_are_numbered_by_kind_in_the_whole_tree(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed(
        "dense 8 relu; residual { dense 8 bias=no; residual { dense 8 } }; dropout 0.1; dense out");
    assert_int_equal(copse_layer_parameters(l), 0);
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(4), .outputs = 3 }));
    assert_string_equal(variables_of(st),
                        "dense1.weight 4 8;dense1.bias 8;dense2.weight 8 8;dense3.weight 8 8;"
                        "dense3.bias 8;dense4.weight 8 3;dense4.bias 3;");
    assert_int_equal(copse_layer_parameters(l), 40 + 64 + 72 + 27);
    copse_shape out;
    OK(copse_layer_output(l, &out));
    assert_int_equal(out.rank, 1);
    assert_int_equal(out.dims[0], 3);
    assert_string_equal(
        text_of(l),
        "dense 8 relu; residual { dense 8 bias=no; residual { dense 8 } }; dropout 0.1; "
        "dense 3");
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void shortcuts_have_variables_of_their_own(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("residual { conv 8 3x3 stride=2; shortcut { conv 8 1x1 stride=2 } }; "
                            "global_pool; dense out");
    copse_shape out;
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(7, 5, 3), .outputs = 3 }));
    assert_string_equal(variables_of(st),
                        "conv1.weight 3 3 3 8;conv1.bias 8;conv2.weight 1 1 3 8;conv2.bias 8;"
                        "dense1.weight 8 3;dense1.bias 3;");
    assert_string_equal(
        text_of(l),
        "residual { conv 8 3x3 stride=2; shortcut { conv 8 1x1 stride=2 } }; global_pool; dense 3");
    OK(copse_layer_output(l, &out));
    assert_int_equal(out.dims[0], 3);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void a_scope_goes_in_front_of_names(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *a = parsed("dense 2"), *b = parsed("dense 2");
    OK(copse_layer_build(a, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(2), .scope = "left" }));
    OK(copse_layer_build(
        b, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(2), .scope = "right/inner" }));
    assert_string_equal(variables_of(st),
                        "left/dense1.weight 2 2;left/dense1.bias 2;right/inner/dense1.weight 2 2;"
                        "right/inner/dense1.bias 2;");
    copse_layer_release(&a);
    copse_layer_release(&b);
    copse_strategy_release(&st);
}

/* ---- initial values ---- */

struct moments {
    double mean, deviation, least, most;
};

static struct moments moments_of(copse_strategy *st, const char *name)
{
    copse_variable *v = variable_of(st, name);
    const copse_shape s = copse_variable_shape(v);
    const size_t n = (size_t)s.dims[0] * (s.rank > 1 ? s.dims[1] : 1);
    float *x = malloc(n * sizeof *x);
    struct moments m = { 0, 0, INFINITY, -INFINITY };
    OK(copse_variable_read(v, 0, x));
    for (size_t i = 0; i < n; i++) {
        m.mean += (double)x[i] / (double)n;
        m.least = fmin(m.least, (double)x[i]);
        m.most = fmax(m.most, (double)x[i]);
    }
    for (size_t i = 0; i < n; i++)
        m.deviation += ((double)x[i] - m.mean) * ((double)x[i] - m.mean) / (double)n;
    m.deviation = sqrt(m.deviation);
    free(x);
    return m;
}

static void near(double got, double expected, double limit)
{
    if (!(fabs(got - expected) <= limit))
        fail_msg("%.6g, expected %.6g within %.2g", got, expected, limit);
}

static void initial_values_follow_their_rule(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed(
        "dense 300 relu; dense 300; dense 300 tanh init=he; dense 300 gelu init=glorot scale=2;"
        "dense 300 init=normal scale=0.5; dense 300 init=zeros; dense 300 init=ones; dense 300 "
        "init=-0.25; dense 300 silu; dense 300 init=truncated_normal; "
        "dense 300 init=truncated_normal scale=0.5; dense 100 init=orthogonal scale=2");
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(200), .seed = 3 }));
    const double he = sqrt(2.0 / 300), glorot = sqrt(6.0 / 600);
    struct moments m = moments_of(st, "dense1.weight"); /* before ReLU: He */
    near(m.mean, 0, 0.002);
    near(m.deviation, sqrt(2.0 / 200), 0.001);
    m = moments_of(st, "dense2.weight"); /* without activation: Glorot */
    near(m.deviation, glorot / sqrt(3.0), 0.001);
    near(m.most, glorot, 1e-4);
    assert_true(m.most <= glorot);
    near(moments_of(st, "dense3.weight").deviation, he, 0.001);
    m = moments_of(st, "dense4.weight");
    near(m.most, 2 * glorot, 2e-4);
    near(moments_of(st, "dense5.weight").deviation, 0.5, 0.005);
    near(moments_of(st, "dense6.weight").most, 0, 0);
    near(moments_of(st, "dense6.weight").least, 0, 0);
    near(moments_of(st, "dense7.weight").least, 1, 0);
    near(moments_of(st, "dense8.weight").least, -0.25, 0);
    near(moments_of(st, "dense8.weight").most, -0.25, 0);
    near(moments_of(st, "dense9.weight").deviation, he, 0.001);
    near(moments_of(st, "dense1.bias").most, 0, 0);
    m = moments_of(st, "dense10.weight");
    near(m.deviation, 0.02 * 0.8796, 2e-4);
    assert_true(m.most <= 0.04 && m.least >= -0.04);
    m = moments_of(st, "dense11.weight");
    near(m.most, 1, 0.01);
    assert_true(m.most <= 1);
    /* columns of length 2 */
    near(moments_of(st, "dense12.weight").deviation, 2 / sqrt(300.0), 1e-3);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* ---- values ---- */

struct net {
    copse_layer *layers;
    copse_tensor *dummy;
    copse_type type;
    copse_strategy *strategy;
};

/* Reports the first elements of the output. */
static copse_tensor *report_output(copse_graph *g, const copse_batch *in, void *user)
{
    static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6" };
    const struct net *net = user;
    copse_tensor *part;
    uint32_t n = 1;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(net->layers, g, in, x);
    const copse_shape s = copse_tensor_shape(y);
    for (uint32_t i = 0; i < s.rank; i++)
        n *= s.dims[i];
    y = copse_reshape(g, y, COPSE_SHAPE(n));
    for (uint32_t i = 0; i < n && i < 7; i++) {
        part = copse_slice(g, y, &i, (const uint32_t[]){ 1 });
        copse_report(g, names[i], part);
    }
    return copse_sum(g, net->dummy, NULL, 0, false);
}

/* Computes a description for one batch of `rows`; the first elements of the output must be
   these. */
static void gives(const char *text, copse_type type, copse_shape shape, const void *x,
                  uint32_t rows, const double *y, uint32_t count)
{
    copse_strategy *st = on_host();
    copse_variable *dummy;
    copse_trainer *t;
    struct copse_step_result r;
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "dummy", .shape = COPSE_SHAPE(1) }, &dummy));
    struct net net = { parsed(text), copse_variable_tensor(dummy), type, st };
    OK(copse_layer_build(
        net.layers, st,
        &(struct copse_build_params){ .type = type, .shape = shape, .outputs = 2 }));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = report_output, .user = &net }, &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", type, shape, x }), .count = rows };
    OK(copse_trainer_evaluate(t, &batch, &r));
    assert_int_equal(r.report_count, count);
    for (uint32_t i = 0; i < count; i++)
        if (!(fabs(r.reports[i] - y[i]) <= 1e-5 * (1 + fabs(y[i]))))
            fail_msg("%s: element %u is %.9g, expected %.9g", text, i, r.reports[i], y[i]);
    copse_trainer_release(&t);
    copse_layer_release(&net.layers);
    copse_strategy_release(&st);
}

static void outputs_have_the_values_of_the_definition(void **state)
{
    (void)state;
    const copse_shape four = COPSE_SHAPE(4), pair = COPSE_SHAPE(2, 2);
    const float x[] = { 1, -2, 3, 0.5f };
    const uint8_t bytes[] = { 1, 2, 3, 250 };
    gives("dense 2 init=ones", COPSE_F32, four, x, 1, (const double[]){ 2.5, 2.5 }, 2);
    gives("dense out init=-2 bias=no relu", COPSE_F32, four, x, 1, (const double[]){ 0, 0 }, 2);
    gives("dense 1 init=ones sigmoid", COPSE_F32, four, x, 1,
          (const double[]){ 1 / (1 + exp(-2.5)) }, 1);
    /* the last axis alone */
    gives("dense 1 init=ones", COPSE_F32, pair, x, 1, (const double[]){ -1, 3.5 }, 2);
    gives("flatten; dense 1 init=ones", COPSE_F32, pair, x, 1, (const double[]){ 2.5 }, 1);
    gives("flatten", COPSE_F32, COPSE_SCALAR, x, 3, (const double[]){ 1, -2, 3 }, 3);
    gives("relu", COPSE_F32, four, x, 1, (const double[]){ 1, 0, 3, 0.5 }, 4);
    gives("tanh", COPSE_F32, four, x, 1, (const double[]){ tanh(1), tanh(-2), tanh(3), tanh(0.5) },
          4);
    gives("silu", COPSE_F32, COPSE_SHAPE(1), x, 1, (const double[]){ 1 / (1 + exp(-1)) }, 1);
    gives("gelu", COPSE_F32, COPSE_SHAPE(1), x, 1, (const double[]){ 0.5 * (1 + erf(sqrt(0.5))) },
          1);
    /* an evaluation drops nothing */
    gives("dropout 0.5", COPSE_F32, four, x, 1, (const double[]){ 1, -2, 3, 0.5 }, 4);
    gives("residual { relu; relu }", COPSE_F32, four, x, 1, (const double[]){ 2, -2, 6, 1 }, 4);
    gives("residual { relu; shortcut { relu; relu } }", COPSE_F32, four, x, 1,
          (const double[]){ 2, 0, 6, 1 }, 4);
    const double m = 0.625,
                 d = sqrt((0.375 * 0.375 + 2.625 * 2.625 + 2.375 * 2.375 + 0.125 * 0.125) / 4 +
                          1e-5);
    gives("layer_norm", COPSE_F32, four, x, 1,
          (const double[]){ (1 - m) / d, (-2 - m) / d, (3 - m) / d, (0.5 - m) / d }, 4);
    const double r = sqrt(14.25 / 4 + 1e-5);
    gives("rms_norm", COPSE_F32, four, x, 1, (const double[]){ 1 / r, -2 / r, 3 / r, 0.5 / r }, 4);
    gives("rms_norm epsilon=2", COPSE_F32, pair, x, 1,
          (const double[]){ 1 / sqrt(4.5), -2 / sqrt(4.5), 3 / sqrt(6.625), 0.5 / sqrt(6.625) }, 4);
    /* [places, channels]: channels 1, 3 and -2, 0.5 */
    gives("group_norm 1", COPSE_F32, pair, x, 1,
          (const double[]){ (1 - m) / d, (-2 - m) / d, (3 - m) / d, (0.5 - m) / d }, 4);
    gives("group_norm 2 epsilon=3", COPSE_F32, pair, x, 1,
          (const double[]){ -0.5, -1.25 / sqrt(4.5625), 0.5, 1.25 / sqrt(4.5625) }, 4);
    gives("instance_norm epsilon=3", COPSE_F32, pair, x, 1,
          (const double[]){ -0.5, -1.25 / sqrt(4.5625), 0.5, 1.25 / sqrt(4.5625) }, 4);
    gives("batch_norm epsilon=3", COPSE_F32, four, x, 1, (const double[]){ 0.5, -1, 1.5, 0.25 }, 4);
    const int32_t tokens[] = { 1, 0, 2 };
    const uint8_t letters[] = { 2, 2 };
    gives("embedding 3 2 init=0.5; dense 1 init=ones", COPSE_I32, COPSE_SHAPE(3), tokens, 1,
          (const double[]){ 1, 1, 1 }, 3);
    gives("embedding 3 2 init=0.5", COPSE_U8, COPSE_SHAPE(2), letters, 1,
          (const double[]){ 0.5, 0.5, 0.5, 0.5 }, 4);
    gives("embedding 3 1 init=0.5 scale=4", COPSE_I64, COPSE_SCALAR, (const int64_t[]){ 2, 0 }, 2,
          (const double[]){ 2, 2 }, 2);
    gives("positions init=0.5", COPSE_F32, pair, x, 1, (const double[]){ 1.5, -1.5, 3.5, 1 }, 4);
    gives("embedding 3 2 init=0.5; positions init=ones scale=2", COPSE_I32, COPSE_SHAPE(3), tokens,
          1, (const double[]){ 2.5, 2.5, 2.5, 2.5, 2.5, 2.5 }, 6);
    const float picture[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    const copse_shape grey = COPSE_SHAPE(3, 3);
    gives("conv 1 2x2 padding=no init=ones", COPSE_F32, grey, picture, 1,
          (const double[]){ 12, 16, 24, 28 }, 4);
    gives("conv 1 3x3 init=ones stride=2", COPSE_F32, grey, picture, 1,
          (const double[]){ 12, 16, 24, 28 }, 4);
    gives("conv 2 2 init=ones padding=no bias=no", COPSE_F32, grey, picture, 1,
          (const double[]){ 21, 21, 39, 39 }, 4);
    gives("conv 2 1x2 init=-1 relu; global_pool", COPSE_F32, grey, picture, 1,
          (const double[]){ 0, 0 }, 2);
    gives("conv 3 2 groups=3 init=ones dilation=2 padding=no", COPSE_F32, grey, picture, 1,
          (const double[]){ 8, 10, 12 }, 3);
    gives("max_pool 2x2 stride=1", COPSE_F32, grey, picture, 1, (const double[]){ 5, 6, 8, 9 }, 4);
    gives("max_pool 2x2 padding=yes", COPSE_F32, grey, picture, 1, (const double[]){ 5, 6, 8, 9 },
          4);
    gives("average_pool 2", COPSE_F32, grey, picture, 1, (const double[]){ 2.5, 3.5, 4.5 }, 3);
    gives("average_pool 2x2 padding=yes stride=2x3", COPSE_F32, grey, picture, 1,
          (const double[]){ 3, 7.5 }, 2);
    gives("global_pool", COPSE_F32, grey, picture, 1, (const double[]){ 4, 5, 6 }, 3);
    gives("mlp:3", COPSE_F32, pair, (const float[]){ 0, 0, 0, 0 }, 1, (const double[]){ 0, 0 }, 2);
    /* stored types are converted */
    gives("dense 1 init=ones", COPSE_U8, four, bytes, 1, (const double[]){ 256 }, 1);
}

static copse_tensor *train_output(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *net = user;
    (void)report_output(g, in, user);
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(net->layers, g, in, x);
    return copse_mean(g, y, NULL, 0, false);
}

static void dropout_acts_while_training(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    struct net net = { parsed("dense 64 init=ones; dropout 0.5"), NULL, COPSE_F32, st };
    float x[8];
    struct copse_step_result r;
    copse_trainer *t;
    for (int i = 0; i < 8; i++)
        x[i] = 1;
    OK(copse_layer_build(net.layers, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(1) }));
    net.dummy = copse_variable_tensor(variable_of(st, "dense1.bias"));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = train_output,
                                                            .user = &net,
                                                            .optimizer = { .kind = COPSE_SGD } },
                            &t));
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 8 };
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_result(t, true, &r));
    uint32_t zeros = 0, twos = 0;
    for (uint32_t i = 0; i < 7; i++) {
        zeros += r.reports[i] == 0.0;
        twos += r.reports[i] == 2.0;
    }
    assert_int_equal(zeros + twos, 7);
    assert_true(zeros > 0 && twos > 0);
    copse_trainer_release(&t);
    copse_layer_release(&net.layers);
    copse_strategy_release(&st);
}

/* Learns a permutation of tokens: the rows of the table must be found, and get their own
   gradients. */
static copse_tensor *permute(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *logits = copse_layer_apply(user, g, in, x);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

/* Each position has numbers of its own, the same for all examples. */
static void positions_have_a_row_each(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("embedding 5 2; positions; dense 3; positions scale=0.02 init=normal");
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .type = COPSE_I32, .shape = COPSE_SHAPE(400) }));
    assert_string_equal(
        variables_of(st),
        "embedding1.weight 5 2;positions1.weight 400 2;dense1.weight 2 3;dense1.bias 3;"
        "positions2.weight 400 3;");
    near(moments_of(st, "positions1.weight").deviation, 1, 0.1);
    near(moments_of(st, "positions2.weight").deviation, 0.02, 0.002);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void embeddings_learn(void **state)
{
    (void)state;
    const int32_t x[] = { 0, 1, 2, 3, 4 }, y[] = { 3, 0, 4, 1, 2 };
    copse_strategy *st = on_host();
    copse_layer *l = parsed("embedding 5 8; dense out");
    copse_trainer *t;
    struct copse_step_result r;
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .type = COPSE_I64, .outputs = 5 }));
    near(moments_of(st, "embedding1.weight").deviation, 1, 0.3);
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = permute, .user = l, .optimizer = { .learning_rate = 0.05f } },
        &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_I32, COPSE_SCALAR, x },
                                                          { "y", COPSE_I32, COPSE_SCALAR, y }),
                                            .count = 5 };
    for (int i = 0; i < 60; i++) {
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &r));
    }
    assert_true(r.loss < 0.1);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* ---- calls that make layers ---- */

static void calls_and_text_make_the_same_layers(void **state)
{
    (void)state;
    copse_layer *l[6], *inner, *all;
    OK(copse_nn_dense(ctx, 64, COPSE_RELU, &l[0]));
    OK(copse_nn_dropout(ctx, 0.25f, &l[1]));
    OK(copse_nn_flatten(ctx, &l[2]));
    OK(copse_nn_sequential(l, 2, &inner));
    OK(copse_nn_residual(inner, &l[3]));
    OK(copse_nn_activation(ctx, COPSE_SILU, &l[4]));
    OK(copse_nn_dense(ctx, 0, COPSE_LINEAR, &l[5]));
    copse_layer_release(&inner);
    OK(copse_nn_sequential(l, 6, &all));
    for (int i = 0; i < 6; i++)
        copse_layer_release(&l[i]);
    assert_string_equal(
        text_of(all),
        "dense 64 relu; dropout 0.25; flatten; residual { dense 64 relu; dropout 0.25 }; "
        "silu; dense out");
    /* several in a row become a part of the row */
    OK(copse_nn_sequential(&all, 1, &inner));
    assert_string_equal(text_of(inner), text_of(all));
    copse_layer_release(&inner);
    copse_layer_release(&all);
    OK(copse_nn_layer_norm(ctx, &l[0]));
    OK(copse_nn_rms_norm(ctx, &l[1]));
    OK(copse_nn_batch_norm(ctx, &l[2]));
    OK(copse_nn_embedding(ctx, 1000, 32, &l[3]));
    OK(copse_nn_sequential(l, 4, &all));
    for (int i = 0; i < 4; i++)
        copse_layer_release(&l[i]);
    assert_string_equal(text_of(all), "layer_norm; rms_norm; batch_norm; embedding 1000 32");
    copse_layer_release(&all);
    OK(copse_nn_mlp(ctx, (const uint32_t[]){ 512, 256 }, 2, COPSE_GELU, &all));
    inner = parsed("mlp:512,256 gelu");
    assert_string_equal(text_of(all), "flatten; dense 512 gelu; dense 256 gelu; dense out");
    assert_string_equal(text_of(inner), text_of(all));
    copse_layer_release(&inner);
    copse_layer_release(&all);
    OK(copse_nn_mlp(ctx, NULL, 0, COPSE_RELU, &all));
    assert_string_equal(text_of(all), "flatten; dense out");
    copse_layer_release(&all);
}

/* A layer may be used in several trees, and several times in one: each has its own variables. */
static void inner_layers_are_copied(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *dense, *both;
    OK(copse_nn_dense(ctx, 4, COPSE_RELU, &dense));
    OK(copse_nn_sequential((copse_layer *[]){ dense, dense }, 2, &both));
    OK(copse_layer_build(dense, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(2), .scope = "one" }));
    OK(copse_layer_build(both, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(2) }));
    assert_int_equal(copse_layer_parameters(dense), 12);
    assert_int_equal(copse_layer_parameters(both), 12 + 20);
    copse_layer_release(&both);
    OK(copse_nn_residual(dense, &both)); /* of a built one the description alone */
    assert_int_equal(copse_layer_parameters(both), 0);
    copse_layer_release(&both);
    copse_layer_release(&dense);
    copse_strategy_release(&st);
}

static void calls_refuse_wrong_numbers(void **state)
{
    (void)state;
    copse_layer *l = NULL, *none[1] = { NULL };
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_dense(ctx, 1u << 31, COPSE_RELU, &l),
          "dense: UNITS is 2147483648");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_dense(ctx, 1, (copse_activation)99, &l),
          "dense: ACTIVATION is 99: linear, relu");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_activation(ctx, COPSE_LINEAR, &l),
          "0 is no activation that changes");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_embedding(ctx, 3, 0, &l),
          "embedding: WIDTH is 0: a whole number from 1");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_dropout(ctx, 1.0f, &l),
          "dropout: RATE is 1: a number from 0 to below 1");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_dropout(ctx, NAN, &l), "dropout: RATE is");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_mlp(ctx, (const uint32_t[]){ 3, 0 }, 2, COPSE_RELU, &l),
          "width is 0");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_sequential(none, 0, &l), "no layer");
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_sequential(none, 1, &l), "layers[0] is NULL");
    assert_null(l);
}

static void trees_have_limits(void **state)
{
    (void)state;
    copse_layer *l, *next;
    copse_status s = COPSE_OK;
    uint32_t depth = 0;
    OK(copse_nn_flatten(ctx, &l));
    while (s == COPSE_OK && depth < 1000) {
        s = copse_nn_residual(l, &next);
        if (s)
            break;
        depth++;
        copse_layer_release(&l);
        l = next;
    }
    assert_int_equal(depth, 64);
    assert_non_null(strstr(copse_last_error(), "nested more than 64 deep"));
    copse_layer_release(&l);
    OK(copse_nn_flatten(ctx, &l));
    size_t count = 1;
    while ((s = copse_nn_sequential((copse_layer *[]){ l, l }, 2, &next)) == COPSE_OK &&
           count < 100000) {
        count *= 2;
        copse_layer_release(&l);
        l = next;
    }
    assert_int_equal(count, 8192);
    assert_non_null(strstr(copse_last_error(), "16384 layers are more than 10000"));
    copse_layer_release(&l);
}

/* ---- refused builds and applications ---- */

static void refused_build(const char *text, copse_shape shape, copse_status code, const char *word)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed(text);
    copse_variable *const *list;
    size_t count;
    FAILS(code, copse_layer_build(l, st, &(struct copse_build_params){ .shape = shape }), word);
    copse_strategy_variables(st, &list, &count);
    assert_int_equal(count, 0);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void builds_name_line_layer_and_shapes(void **state)
{
    (void)state;
    refused_build("dense 64 relu\nresidual {\n  dense 32\n}", COPSE_SHAPE(64), COPSE_ERR_SHAPE,
                  "line 2, layer 2 'residual': its layers turn the input [64] into [32]; a sum "
                  "needs equal shapes");
    refused_build("residual { dense 32; shortcut { dense 16 } }", COPSE_SHAPE(64), COPSE_ERR_SHAPE,
                  "layer 1 'residual': its shortcut gives [16] and its layers [32]; a sum needs "
                  "equal shapes");
    refused_build("residual { shortcut { dense 16 } }", COPSE_SHAPE(64), COPSE_ERR_ARGUMENT,
                  "layer 1 'residual': it has a shortcut and no other layer");
    refused_build("residual { shortcut { relu }; relu }", COPSE_SHAPE(64), COPSE_ERR_ARGUMENT,
                  "layer 2 'shortcut': a shortcut is the last layer in the braces of residual");
    refused_build("shortcut { relu }", COPSE_SHAPE(64), COPSE_ERR_ARGUMENT,
                  "layer 1 'shortcut': a shortcut is the last layer");
    refused_build("dense 64\n\ndense out", COPSE_SHAPE(64), COPSE_ERR_ARGUMENT,
                  "line 3, layer 2 'dense out': `out` is");
    refused_build("dense 4", COPSE_SCALAR, COPSE_ERR_SHAPE,
                  "line 1, layer 1 'dense 4': the input is one number");
    refused_build(
        "flatten; dense 2000000", COPSE_SHAPE(2000, 8), COPSE_ERR_SHAPE,
        "layer 2 'dense 2000000': its weight [16000, 2000000] has not 1 to 2^31-1 elements");
    refused_build("flatten", COPSE_SHAPE(2000, 2000, 2000), COPSE_ERR_SHAPE,
                  "the input [2000, 2000, 2000] has not");
    refused_build("dense 4 relu init=glorot scale=1.25 bias=no; dense out", COPSE_SHAPE(0),
                  COPSE_ERR_SHAPE,
                  "layer 1 'dense 4 relu bias=no init=glorot scale=1.25': the last axis of the "
                  "input is empty");
    refused_build("embedding 3 2", COPSE_SHAPE(2), COPSE_ERR_SHAPE,
                  "line 1, layer 1 'embedding 3 2': it takes i32, the input is f32[2]");
    refused_build("positions", COPSE_SHAPE(6), COPSE_ERR_SHAPE,
                  "layer 1 'positions': the input [6] has no two last axes");
    refused_build("positions", COPSE_SHAPE(0, 6), COPSE_ERR_SHAPE,
                  "the input [0, 6] has no two last axes with elements");
    refused_build("relu", COPSE_SHAPE(1, 1, 1, 1, 1, 1), COPSE_ERR_ARGUMENT, "rank 6: at most 5");
}

static void other_refused_builds(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *a = parsed("dense 4; relu"), *b = parsed("relu; dense 4");
    const struct copse_build_params p = { .shape = COPSE_SHAPE(4) };
    FAILS(COPSE_ERR_SHAPE,
          copse_layer_build(a, st,
                            &(struct copse_build_params){ .shape = p.shape, .type = COPSE_I32 }),
          "line 1, layer 1 'dense 4': it takes f32, the input is i32[4]");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_layer_build(
              a, st, &(struct copse_build_params){ .shape = p.shape, .type = (copse_type)77 }),
          "type 77");
    FAILS(
        COPSE_ERR_ARGUMENT,
        copse_layer_build(a, st, &(struct copse_build_params){ .shape = p.shape, .scope = "\xff" }),
        "scope");
    OK(copse_layer_build(a, st, &p));
    FAILS(COPSE_ERR_ARGUMENT, copse_layer_build(a, st, &p), "these layers are built");
    FAILS(COPSE_ERR_ARGUMENT, copse_layer_build(b, st, &p),
          "line 1, layer 2 'dense 4': the strategy has a variable 'dense1.weight'");
    OK(copse_layer_build(b, st, &(struct copse_build_params){ .shape = p.shape, .scope = "b" }));
    copse_layer_release(&a);
    copse_layer_release(&b);
    copse_strategy_release(&st);
}

static copse_status build_in_replica(copse_replica_context *rc, copse_value *const *args,
                                     size_t count, void *user, copse_value **result)
{
    (void)args, (void)count, (void)result;
    const copse_status s = copse_layer_build(
        user, copse_replica_strategy(rc), &(struct copse_build_params){ .shape = COPSE_SHAPE(2) });
    CHECK(s == COPSE_ERR_CONTEXT && strstr(copse_last_error(), "the thread is in a replica or in"));
    return COPSE_OK;
}

static copse_tensor *build_in_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct net *net = user;
    const copse_status s = copse_layer_build(
        net->layers, net->strategy, &(struct copse_build_params){ .shape = COPSE_SHAPE(2) });
    (void)in;
    CHECK_GRAPH(g, s == COPSE_ERR_CONTEXT && strstr(copse_last_error(), "or in a loss function"));
    return copse_sum(g, net->dummy, NULL, 0, false);
}

static void functions_of_the_application_cannot_build(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_variable *dummy, *const *list;
    copse_trainer *t;
    struct copse_step_result r;
    size_t count;
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "dummy", .shape = COPSE_SHAPE(1) }, &dummy));
    struct net net = { parsed("dense 2"), copse_variable_tensor(dummy), COPSE_F32, st };
    OK(copse_strategy_run(st, build_in_replica, NULL, 0, net.layers, NULL));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = build_in_loss, .user = &net }, &t));
    const struct copse_host_batch batch = { RIG_X(1, (const float[]){ 1 }), .count = 1 };
    OK(copse_trainer_evaluate(t, &batch, &r));
    copse_strategy_variables(st, &list, &count);
    assert_int_equal(count, 1);
    copse_trainer_release(&t);
    copse_layer_release(&net.layers);
    copse_strategy_release(&st);
}

static void refused_applications(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("dense 4; relu");
    copse_graph *g;
    copse_tensor *x[4];
    copse_shape shape;
    char text[8];
    size_t needed;
    OK(copse_graph_create(ctx, &g));
    x[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3, 4));
    x[1] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3, 5));
    x[2] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(4));
    x[3] = copse_graph_input(g, "x", COPSE_I32, COPSE_SHAPE(3, 4));
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_layer_apply(l, g, NULL, x[0])), "not built");
    FAILS(COPSE_ERR_ARGUMENT, copse_layer_output(l, &shape), "not built");
    FAILS(COPSE_ERR_ARGUMENT, copse_layer_summary(l, NULL, 0, &needed), "not built");
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(4) }));
    OK(rig_failure(g, copse_layer_apply(l, g, NULL, x[0])));
    FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_layer_apply(l, g, NULL, x[1])),
          "the input is f32[3, 5], the layers were built for examples of f32[4]");
    FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_layer_apply(l, g, NULL, x[2])),
          "the input is f32[4], ");
    FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_layer_apply(l, g, NULL, x[3])),
          "the input is i32[3, 4], ");
    FAILS(COPSE_ERR_ARGUMENT, copse_layer_text(l, text, sizeof text, &needed),
          "14 bytes are needed, there are 8");
    copse_graph_release(&g);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* Built layers keep their strategy. */
static void layers_outlive_other_references(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("dense 4");
    copse_graph *g;
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(4) }));
    copse_strategy_release(&st);
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3, 4));
    OK(rig_failure(g, copse_layer_apply(l, g, NULL, x)));
    copse_layer *again = copse_layer_retain(l);
    copse_layer_release(&l);
    assert_int_equal(copse_layer_parameters(again), 20);
    copse_graph_release(&g);
    copse_layer_release(&again);
}

/* ---- the table ---- */

static void a_table_shows_layers_outputs_and_parameters(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l =
        parsed("flatten; dense 1024 relu; residual { dense 1024 }; dropout 0.1; dense out");
    char text[1024];
    size_t needed;
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(8, 8), .outputs = 10 }));
    OK(copse_layer_summary(l, text, sizeof text, &needed));
    assert_string_equal(
        text, "layer                              output                    parameters\n"
              "flatten1                           [64]                               0\n"
              "dense1 1024 relu                   [1024]                        66,560\n"
              "residual1                          [1024]                             0\n"
              "  dense2 1024                      [1024]                     1,049,600\n"
              "dropout1 0.1                       [1024]                             0\n"
              "dense3 10                          [10]                          10,250\n"
              "total                                                         1,126,410\n");
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_are_numbered_by_kind_in_the_whole_tree),
        cmocka_unit_test(shortcuts_have_variables_of_their_own),
        cmocka_unit_test(a_scope_goes_in_front_of_names),
        cmocka_unit_test(initial_values_follow_their_rule),
        cmocka_unit_test(outputs_have_the_values_of_the_definition),
        cmocka_unit_test(dropout_acts_while_training),
        cmocka_unit_test(positions_have_a_row_each),
        cmocka_unit_test(embeddings_learn),
        cmocka_unit_test(calls_and_text_make_the_same_layers),
        cmocka_unit_test(inner_layers_are_copied),
        cmocka_unit_test(calls_refuse_wrong_numbers),
        cmocka_unit_test(trees_have_limits),
        cmocka_unit_test(builds_name_line_layer_and_shapes),
        cmocka_unit_test(other_refused_builds),
        cmocka_unit_test(functions_of_the_application_cannot_build),
        cmocka_unit_test(refused_applications),
        cmocka_unit_test(layers_outlive_other_references),
        cmocka_unit_test(a_table_shows_layers_outputs_and_parameters),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
