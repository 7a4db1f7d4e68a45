/* SPDX-License-Identifier: MIT */
/* Layers of decoders: transposed convolution, resize, adaptive pooling, pixel shuffle, PReLU, squeeze and excitation. Their
   shapes and values, initial values, refusals, and a network of all of them that learns to
   reproduce pictures. */
#include <math.h>

#include "copse/distribute/replica.h"
#include "copse/ops/conv.h"
#include "copse/ops/functions.h"
#include "copse/ops/resize.h"
#include "core/base/base.h"
#include "core/base/random.h"
#include "tests/nn/layer_rig.h"

/* ---- values ---- */

typedef copse_tensor *by_hand(copse_graph *g, copse_tensor *x);

struct row {
    const char *text;
    copse_shape in, out; /* of one example */
    const float *x;      /* NULL: sines */
    const float *y;      /* or: */
    by_hand *hand;
};

static copse_tensor *tensor_of(const char *name)
{
    return copse_variable_tensor(variable_of(copse_current_strategy(), name));
}

static copse_tensor *transposed(copse_graph *g, copse_tensor *x)
{
    static const struct copse_conv_params p = {
        .stride = { 2, 3 }, .dilation = { 2, 1 }, .groups = 2, .activation = COPSE_GELU
    };
    return copse_conv_transposed(g, x, tensor_of("conv_transposed1.weight"),
                                 tensor_of("conv_transposed1.bias"), &p);
}

static copse_tensor *transposed_same(copse_graph *g, copse_tensor *x)
{
    static const struct copse_conv_params p = { .stride = { 2, 2 },
                                                .dilation = { 2, 2 },
                                                .padding = COPSE_PADDING_SAME };
    return copse_conv_transposed(g, x, tensor_of("conv_transposed1.weight"), NULL, &p);
}

static copse_tensor *slopes(copse_graph *g, copse_tensor *x)
{
    return copse_prelu(g, x, tensor_of("prelu1.slope"));
}

static copse_tensor *linear(copse_graph *g, copse_tensor *x)
{
    return copse_resize(g, x, (const uint32_t[]){ 6, 12 }, COPSE_RESIZE_LINEAR);
}

static copse_tensor *nearest(copse_graph *g, copse_tensor *x)
{
    return copse_resize(g, x, (const uint32_t[]){ 2, 7 }, COPSE_RESIZE_NEAREST);
}

static copse_tensor *area(copse_graph *g, copse_tensor *x)
{
    return copse_resize(g, x, (const uint32_t[]){ 3, 2 }, COPSE_RESIZE_AREA);
}

static copse_tensor *shuffle(copse_graph *g, copse_tensor *x)
{
    return copse_pixel_shuffle(g, x, 3);
}

static copse_tensor *squeezed(copse_graph *g, copse_tensor *x)
{
    const copse_shape in = copse_tensor_shape(x);
    const uint32_t places = in.dims[1] * in.dims[2], channels = in.dims[3];
    copse_tensor *flat = copse_reshape(g, x, COPSE_SHAPE(in.dims[0], places, channels));
    copse_tensor *m = copse_mean(g, flat, (const uint32_t[]){ 1 }, 1, true);
    m = copse_dense(g, m, tensor_of("squeeze_excite1.squeeze"),
                    tensor_of("squeeze_excite1.squeeze_bias"), COPSE_GELU);
    m = copse_dense(g, m, tensor_of("squeeze_excite1.excite"),
                    tensor_of("squeeze_excite1.excite_bias"), COPSE_SIGMOID);
    return copse_reshape(g, copse_mul(g, flat, m), in);
}

static const float four[] = { 1, -2, 3, 4 }, three[] = { 1, -2, 4 };
#define VALUES (const float[])
static const struct row rows[] = {
    { "conv_transposed 1 2x2 stride=2 init=ones",
      { 2, { 2, 2 } },
      { 3, { 4, 4, 1 } },
      four,
      VALUES{ 1, 1, -2, -2, 1, 1, -2, -2, 3, 3, 4, 4, 3, 3, 4, 4 },
      NULL },
    { "conv_transposed 1 3 stride=2 padding=no init=ones",
      { 2, { 2, 1 } },
      { 2, { 5, 1 } },
      four,
      VALUES{ 1, 1, -1, -2, -2 },
      NULL },
    { "conv_transposed 1 3 relu init=0.5",
      { 2, { 3, 1 } },
      { 2, { 3, 1 } },
      three,
      VALUES{ 0, 1.5f, 1 },
      NULL },
    { "conv_transposed 4 3x2 gelu stride=2x3 dilation=2x1 groups=2 padding=no",
      { 3, { 3, 4, 6 } },
      { 3, { 9, 11, 4 } },
      NULL,
      NULL,
      transposed },
    { "conv_transposed out 3 stride=2 dilation=2 bias=no",
      { 3, { 3, 4, 2 } },
      { 3, { 6, 8, 5 } },
      NULL,
      NULL,
      transposed_same },
    { "resize factor=2x1",
      { 2, { 2, 2 } },
      { 3, { 4, 2, 1 } },
      four,
      VALUES{ 1, -2, 1, -2, 3, 4, 3, 4 },
      NULL },
    { "resize linear size=4",
      { 2, { 2, 1 } },
      { 2, { 4, 1 } },
      four,
      VALUES{ 1, 0.25f, -1.25f, -2 },
      NULL },
    { "resize linear factor=2x3", { 3, { 3, 4, 2 } }, { 3, { 6, 12, 2 } }, NULL, NULL, linear },
    { "resize size=2x7", { 3, { 3, 4, 2 } }, { 3, { 2, 7, 2 } }, NULL, NULL, nearest },
    { "adaptive_pool 2", { 2, { 3, 1 } }, { 2, { 2, 1 } }, three, VALUES{ -0.5f, 1 }, NULL },
    { "adaptive_pool 1x2", { 2, { 2, 2 } }, { 3, { 1, 2, 1 } }, four, VALUES{ 2, 1 }, NULL },
    { "adaptive_pool 3x2", { 3, { 7, 5, 2 } }, { 3, { 3, 2, 2 } }, NULL, NULL, area },
    { "pixel_shuffle 2",
      { 3, { 1, 1, 4 } },
      { 3, { 2, 2, 1 } },
      four,
      VALUES{ 1, -2, 3, 4 },
      NULL },
    { "pixel_shuffle 3", { 3, { 2, 3, 18 } }, { 3, { 6, 9, 2 } }, NULL, NULL, shuffle },
    { "prelu", { 2, { 2, 2 } }, { 2, { 2, 2 } }, four, VALUES{ 1, -0.5f, 3, 4 }, NULL },
    { "prelu slope=-2", { 2, { 2, 2 } }, { 2, { 2, 2 } }, four, VALUES{ 1, 4, 3, 4 }, NULL },
    { "prelu slope=0", { 1, { 3 } }, { 1, { 3 } }, three, VALUES{ 1, 0, 4 }, NULL },
    { "prelu", { 3, { 3, 4, 6 } }, { 3, { 3, 4, 6 } }, NULL, NULL, slopes },
    /* 1, -2, 4 have the mean 1: the factors are sigmoid(2), and sigmoid(0) where relu cuts off */
    { "squeeze_excite 2 init=ones",
      { 2, { 3, 1 } },
      { 2, { 3, 1 } },
      three,
      VALUES{ 0.8807970779778823f, -1.7615941559557646f, 3.523188311911529f },
      NULL },
    { "squeeze_excite 3 init=-1",
      { 2, { 3, 1 } },
      { 2, { 3, 1 } },
      three,
      VALUES{ 0.5f, -1, 2 },
      NULL },
    { "squeeze_excite 2 gelu", { 3, { 3, 4, 6 } }, { 3, { 3, 4, 6 } }, NULL, NULL, squeezed },
};

struct net {
    copse_layer *layer;
    const struct row *row;
    copse_tensor *dummy;
};

/* The largest difference from the expected values or from the operation. */
static copse_tensor *difference(copse_graph *g, const copse_batch *in, void *user)
{
    const struct net *net = user;
    const struct row *row = net->row;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(net->layer, g, in, x);
    const copse_shape shape = copse_tensor_shape(y);
    CHECK_GRAPH(g, shape.rank == row->out.rank + 1);
    for (uint32_t i = 0; i < row->out.rank; i++)
        CHECK_GRAPH(g, shape.dims[i + 1] == row->out.dims[i]);
    copse_tensor *expected =
        row->hand ? row->hand(g, x) : copse_constant(g, COPSE_F32, shape, row->y);
    y = copse_sub(g, y, expected);
    y = copse_abs(g, y);
    copse_tensor *loss = copse_max(g, y, NULL, 0, false);
    copse_tensor *zero = copse_sum(g, net->dummy, NULL, 0, false);
    loss = copse_add(g, loss, zero);
    expected = copse_square(g, expected);
    expected = copse_mean(g, expected, NULL, 0, false);
    copse_report(g, "size", expected);
    return loss;
}

static void row_has_its_values(const struct row *row)
{
    copse_strategy *st = on_host();
    copse_variable *dummy;
    copse_trainer *t;
    copse_shape out;
    struct copse_step_result r;
    float sines[2 * 3 * 4 * 6];
    for (size_t i = 0; i < COPSE_COUNT(sines); i++)
        sines[i] = sinf((float)(i * i));
    OK(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "dummy", .shape = COPSE_SHAPE(1) }, &dummy));
    struct net net = { parsed(row->text), row, copse_variable_tensor(dummy) };
    OK(copse_layer_build(
        net.layer, st, &(struct copse_build_params){ .shape = row->in, .outputs = 5, .seed = 4 }));
    OK(copse_layer_output(net.layer, &out));
    assert_int_equal(out.rank, row->out.rank);
    assert_memory_equal(out.dims, row->out.dims, out.rank * sizeof *out.dims);
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = difference, .user = &net },
                            &t));
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", COPSE_F32, row->in, row->x ? row->x : sines }), .count = 1
    };
    OK(copse_trainer_evaluate(t, &batch, &r));
    if (!(r.loss <= (row->hand ? 0.0 : 1e-6)))
        fail_msg("%s: an element is wrong by %.9g", row->text, r.loss);
    if (!(r.reports[0] > 1e-3)) /* zeros would show nothing */
        fail_msg("%s: the mean square of the expected values is %.9g", row->text, r.reports[0]);
    copse_trainer_release(&t);
    copse_layer_release(&net.layer);
    copse_strategy_release(&st);
}

static void layers_have_the_shapes_and_values_of_their_ops(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        row_has_its_values(&rows[i]);
}

/* ---- initial values ---- */

static void weight_is(const char *text, uint32_t taps, double deviation)
{
    static float w[16 * 32 * 64];
    const uint32_t n = taps * 32 * 64;
    double sum = 0;
    copse_strategy *st = on_host();
    copse_layer *l = parsed(text);
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(2, 2, 32), .seed = 7 }));
    copse_variable *v = variable_of(st, "conv_transposed1.weight");
    const copse_shape shape = copse_variable_shape(v);
    assert_true(shape.rank == 4 && shape.dims[0] * shape.dims[1] == taps && shape.dims[2] == 32 &&
                shape.dims[3] == 64);
    OK(copse_variable_read(v, 0, w));
    for (uint32_t i = 0; i < n; i++)
        sum += (double)w[i] * (double)w[i];
    if (!(fabs(sqrt(sum / n) / deviation - 1) < 0.03))
        fail_msg("%s: deviation %.6g, expected %.6g", text, sqrt(sum / n), deviation);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* fan_in is the number of input elements that an output element reads: taps / stride along an
   axis. */
static void initial_weights_follow_the_fan_of_the_output(void **state)
{
    (void)state;
    weight_is("conv_transposed 64 4x4 relu", 16, sqrt(2.0 / (16 * 32)));
    weight_is("conv_transposed 64 4x4 relu stride=2", 16, sqrt(2.0 / (4 * 32)));
    weight_is("conv_transposed 64 4x4 relu stride=2x1 scale=3", 16, 3 * sqrt(2.0 / (8 * 32)));
    weight_is("conv_transposed 64 1x1 relu stride=3", 1, sqrt(2.0 / 32));
    weight_is("conv_transposed 64 4x4 stride=2", 16, sqrt(2.0 / (4 * 32 + 16 * 64)));
    weight_is("conv_transposed 64 4x4 stride=2 init=normal scale=0.1", 16, 0.1);
}

/* ---- refusals ---- */

static void refused(const char *text, copse_shape shape, const char *says)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed(text);
    const copse_status s = copse_layer_build(l, st, &(struct copse_build_params){ .shape = shape });
    if (s == COPSE_OK || !strstr(copse_last_error(), says))
        fail_msg("%s: '%s', expected '%s'", text, s ? copse_last_error() : "no error", says);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    const copse_shape picture = COPSE_SHAPE(4, 4, 6);
    (void)state;
    refused("relu\nconv_transposed 8 3x3 groups=4", picture,
            "line 2, layer 2 'conv_transposed 8 3x3 groups=4': 4 groups do not divide 6 input and "
            "8 output channels");
    refused("conv_transposed 8 3x3", COPSE_SHAPE(4),
            "layer 1 'conv_transposed 8 3x3': the input [4] is no image");
    refused("conv_transposed out 3x3", picture, "`out` is the number of outputs");
    refused("conv_transposed 8 3x3", COPSE_SHAPE(0, 4, 6), "an axis of the input is empty");
    refused("conv_transposed 8 3x3 stride=32767", COPSE_SHAPE(4, 40000, 1),
            "an axis of the output has 1310680000 elements; at most 1073741824 are possible");
    refused("flatten\nresize", picture,
            "line 2, layer 2 'resize': size=... or factor=... is missing");
    refused("resize size=2 factor=2", picture,
            "layer 1 'resize size=2 factor=2': size and factor are both given");
    refused("resize size=16385", picture,
            "an axis of the output has 16385 elements; 1 to 16384 are possible");
    refused("resize linear factor=5000", picture,
            "'resize linear factor=5000': an axis of the output has 20000 elements");
    refused("resize size=2", COPSE_SHAPE(4, 0, 6), "an axis of the input has 0 elements");
    refused("resize size=2", COPSE_SHAPE(4),
            "the input [4] is no image [height, width, channels] and no sequence");
    refused("adaptive_pool 20000", picture,
            "layer 1 'adaptive_pool 20000': an axis of the output has 20000 elements");
    refused("adaptive_pool 2", COPSE_SHAPE(20000, 1), "an axis of the input has 20000 elements");
    refused(
        "pixel_shuffle 2", picture,
        "layer 1 'pixel_shuffle 2': 6 channels are not a multiple of 4, the square of the factor");
    refused("pixel_shuffle 2147483647", picture,
            "6 channels are not a multiple of 4611686014132420609");
    refused("pixel_shuffle 1", COPSE_SHAPE(4, 6), "the input [4, 6] is no image");
    refused("pixel_shuffle 2", COPSE_SHAPE(4, 4, 0), "the input [4, 4, 0] is no image");
    refused("pixel_shuffle 2", COPSE_SHAPE(1u << 31, 1, 4),
            "an axis of the output has 4294967296 elements");
    refused("squeeze_excite 2", COPSE_SHAPE(6),
            "layer 1 'squeeze_excite 2': the input [6] has no channels of several places");
    refused("squeeze_excite 2", COPSE_SHAPE(0, 6), "the input [0, 6] has no channels");
    refused("prelu", COPSE_SCALAR, "layer 1 'prelu': the input [] has no last axis with channels");
}

/* ---- training ---- */

enum { SIDE = 8, EXAMPLES = 16, STEPS = 60 };

static const char autoencoder[] = "# encoder: [8, 8] to [2, 2, 4]\n"
                                  "conv 4 3x3 stride=2\n"
                                  "prelu\n"
                                  "adaptive_pool 2\n"
                                  "# decoder: to [8, 8, 1]\n"
                                  "conv_transposed 8 3x3 stride=2; prelu slope=0.1\n"
                                  "resize linear factor=2\n"
                                  "conv 8 3x3 stride=2 tanh\n"
                                  "conv 4 3x3; pixel_shuffle 2\n";

/* Slopes in random directions. */
static void make_pictures(float *x)
{
    struct copse_stream s;
    copse__stream_init(&s, 11, 0);
    for (int e = 0; e < EXAMPLES; e++) {
        const float down = copse__stream_normal(&s), across = copse__stream_normal(&s);
        for (int i = 0; i < SIDE * SIDE; i++)
            x[e * SIDE * SIDE + i] =
                down * ((float)(i / SIDE) / 3.5f - 1) + across * ((float)(i % SIDE) / 3.5f - 1);
    }
}

static copse_tensor *reproduction(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(user, g, in, x);
    y = copse_reshape(g, y, copse_tensor_shape(x));
    return copse_mean_squared_error(g, y, x);
}

/* Every variable of the strategy, one behind the other. */
static size_t values_of(copse_strategy *st, float *to, size_t room)
{
    copse_variable *const *list;
    size_t count, at = 0;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const copse_shape s = copse_variable_shape(list[i]);
        size_t n = 1;
        for (uint32_t d = 0; d < s.rank; d++)
            n *= s.dims[d];
        assert_true(at + n <= room);
        OK(copse_variable_read(list[i], 0, to + at));
        at += n;
    }
    return at;
}

static double trains_on(const char *device)
{
    static float x[EXAMPLES * SIDE * SIDE], before[4096], after[4096];
    copse_strategy *st;
    copse_trainer *t;
    copse_layer *l = parsed(autoencoder);
    struct copse_step_result r;
    double first = 0;
    make_pictures(x);
    OK(copse_one_device_create(ctx, device, NULL, &st));
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(SIDE, SIDE), .seed = 2 }));
    const size_t count = values_of(st, before, COPSE_COUNT(before));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = reproduction,
                                .user = l,
                                .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.02f } },
                            &t));
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(SIDE, SIDE), x }), .count = EXAMPLES
    };
    for (int i = 0; i < STEPS; i++) {
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &r));
        first = i == 0 ? r.loss : first;
    }
    assert_int_equal(values_of(st, after, COPSE_COUNT(after)), count);
    for (size_t i = 0; i < count; i++)
        if (before[i] == after[i])
            fail_msg("%s: number %zu of the variables is not trained", device, i);
    print_message("%s: loss %.4f -> %.4f\n", device, first, r.loss);
    assert_true(r.loss < 0.1 * first);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
    return r.loss;
}

static void an_autoencoder_learns_on_each_device(void **state)
{
    static const char *const devices[] = { "opencl:0", "vulkan:0" };
    (void)state;
    const double host = trains_on("host:0");
    for (size_t d = 0; d < COPSE_COUNT(devices); d++) {
        copse_device *dev;
        if (copse_device_open(ctx, devices[d], NULL, &dev) != COPSE_OK) {
            print_message("%s is not here: not trained\n", devices[d]);
            continue;
        }
        copse_device_release(&dev);
        assert_true(fabs(trains_on(devices[d]) - host) < 0.1 * host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_the_shapes_and_values_of_their_ops),
        cmocka_unit_test(initial_weights_follow_the_fan_of_the_output),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(an_autoencoder_learns_on_each_device),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
