/* SPDX-License-Identifier: MIT */
/* The layer of attention: variables, the same bits as its operations, refusals; a transformer that
   learns what needs attention, in 16 bits as well, which take less memory. */
#include <math.h>

#include "copse/distribute/replica.h"
#include "copse/ops/attention.h"
#include "core/base/base.h"
#include "core/base/random.h"
#include "core/train/trainer.h"
#include "tests/nn/layer_rig.h"

enum { LENGTH = 12, PERIOD = 4, TOKENS = 6, EXAMPLES = 32 };

/* Each example repeats a random word of four tokens: the token after a position is the one three
   places before it. */
static void repeated_words(struct copse_stream *s, int32_t *x, int32_t *y)
{
    for (uint32_t e = 0; e < EXAMPLES; e++) {
        int32_t word[PERIOD];
        for (uint32_t i = 0; i < PERIOD; i++)
            word[i] = (int32_t)copse__stream_below(s, TOKENS);
        for (uint32_t i = 0; i < LENGTH; i++) {
            x[e * LENGTH + i] = word[i % PERIOD];
            y[e * LENGTH + i] = word[(i + 1) % PERIOD];
        }
    }
}

/* The loss of the positions whose next token has occurred. */
static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *logits = copse_layer_apply(user, g, in, x);
    const uint32_t n = copse_tensor_shape(x).dims[0], from[] = { 0, PERIOD - 1, 0 };
    const uint32_t size[] = { n, LENGTH - PERIOD + 1, TOKENS };
    logits = copse_slice(g, logits, from, size);
    y = copse_slice(g, y, from, size);
    logits = copse_reshape(g, logits, COPSE_SHAPE(n * (LENGTH - PERIOD + 1), TOKENS));
    y = copse_reshape(g, y, COPSE_SHAPE(n * (LENGTH - PERIOD + 1)));
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

/* `bytes`: of the values of a step; NULL: not wanted. */
static double loss_after(const char *device, const char *text, int steps, copse_type precision,
                         size_t *bytes)
{
    static int32_t x[EXAMPLES * LENGTH], y[EXAMPLES * LENGTH];
    struct copse_stream s;
    struct copse_step_result r = { 0 };
    copse_strategy *st;
    copse_trainer *t;
    copse_layer *l = parsed(text);
    copse__stream_init(&s, 3, 0);
    OK(copse_one_device_create(ctx, device, NULL, &st));
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .type = COPSE_I32,
                                                       .shape = COPSE_SHAPE(LENGTH),
                                                       .outputs = TOKENS,
                                                       .tokens = TOKENS,
                                                       .seed = 5 }));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = loss_of,
                                .user = l,
                                .precision = precision,
                                .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.01f } },
                            &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                { "x", COPSE_I32, COPSE_SHAPE(LENGTH), x },
                                                { "y", COPSE_I32, COPSE_SHAPE(LENGTH), y }),
                                            .count = EXAMPLES };
    for (int i = 0; i < steps; i++) {
        repeated_words(&s, x, y);
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &r));
    }
    if (bytes)
        *bytes = copse__program_bytes(t->recordings.of[0].at[0]->program);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
    return r.loss;
}

#define BEGIN "embedding in 16 scale=0.5; positions scale=0.5; "
#define BLOCK                                                                                 \
    "residual { layer_norm; attention 2 causal=yes }; residual { layer_norm; dense 32 gelu; " \
    "dense 16 }; "
#define END "layer_norm; dense out"

/* Without learned positions and biases. */
#define LATER                                                                                    \
    "embedding in 16 scale=0.5; residual { rms_norm; attention 2 causal=yes rotary=yes bias=no " \
    "}; "                                                                                        \
    "residual { rms_norm; glu 32 silu bias=no; dense 16 bias=no }; rms_norm; dense out bias=no"

static void a_transformer_learns_to_repeat(void **state)
{
    static const char *const devices[] = { "host:0", "opencl:0", "vulkan:0" };
    (void)state;
    assert_true(loss_after("host:0", BEGIN "residual { layer_norm; dense 32 gelu; dense 16 }; " END,
                           80, COPSE_F32, NULL) > 1.0);
    for (size_t d = 0; d < COPSE_COUNT(devices); d++) {
        copse_device *dev;
        if (copse_device_open(ctx, devices[d], NULL, &dev) != COPSE_OK) {
            print_message("%s is not here: not trained\n", devices[d]);
            continue;
        }
        copse_device_release(&dev);
        const double loss = loss_after(devices[d], BEGIN BLOCK END, 80, COPSE_F32, NULL);
        const double later = loss_after(devices[d], LATER, 80, COPSE_F32, NULL);
        print_message("%s: loss %.4f, of rotary positions %.4f\n", devices[d], loss, later);
        assert_true(loss < 0.2 && later < 0.2);
    }
}

static void sixteen_bits_learn_with_less_memory(void **state)
{
    static const copse_type types[] = { COPSE_F16, COPSE_BF16 };
    copse_device *dev;
    size_t whole, bytes;
    (void)state;
    if (copse_device_open(ctx, "opencl:0", NULL, &dev) != COPSE_OK) {
        print_message("opencl:0 is not here: not trained\n");
        return;
    }
    copse_device_release(&dev);
    loss_after("opencl:0", BEGIN BLOCK BLOCK BLOCK BLOCK END, 1, COPSE_F32, &whole);
    for (size_t i = 0; i < COPSE_COUNT(types); i++) {
        const double loss = loss_after("opencl:0", BEGIN BLOCK END, 80, types[i], NULL);
        loss_after("opencl:0", BEGIN BLOCK BLOCK BLOCK BLOCK END, 1, types[i], &bytes);
        print_message("type %d: loss %.4f, %zu bytes of %zu\n", (int)types[i], loss, bytes, whole);
        assert_true(loss < 0.2);
        assert_true(bytes < whole);
    }
}

/* ---- one layer ---- */

/* The largest difference of the layer and the same operations by hand. */
static copse_tensor *difference(copse_graph *g, const copse_batch *in, void *user)
{
    static const struct copse_attention_params params = { .is_causal = true, .window = 3 };
    copse_tensor *x, *y, *hand, *of[4];
    static const char *const names[] = { "attention1.qkv", "attention1.qkv_bias", "attention1.out",
                                         "attention1.out_bias" };
    for (int i = 0; i < 4; i++)
        of[i] = copse_variable_tensor(variable_of(copse_current_strategy(), names[i]));
    x = copse_input(in, "x");
    y = copse_layer_apply(user, g, in, x);
    hand = copse_dense(g, x, of[0], of[1], COPSE_LINEAR);
    hand = copse_self_attention(g, hand, 4, 2, &params);
    hand = copse_dense(g, hand, of[2], of[3], COPSE_LINEAR);
    y = copse_sub(g, y, hand);
    y = copse_abs(g, y);
    copse_tensor *loss = copse_max(g, y, NULL, 0, false);
    hand = copse_abs(g, hand);
    hand = copse_mean(g, hand, NULL, 0, false);
    copse_report(g, "size", hand);
    return loss;
}

static void the_layer_is_its_operations(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("attention 4 causal=yes kv_heads=2 window=3");
    copse_trainer *t;
    copse_shape out;
    struct copse_step_result r;
    float x[2 * 5 * 12];
    for (int i = 0; i < 2 * 5 * 12; i++)
        x[i] = sinf((float)i);
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(5, 12), .seed = 4 }));
    assert_int_equal(copse_layer_parameters(l), 12 * 24 + 24 + 12 * 12 + 12);
    OK(copse_layer_output(l, &out));
    assert_true(out.rank == 2 && out.dims[0] == 5 && out.dims[1] == 12);
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = difference, .user = l, .optimizer = { .kind = COPSE_SGD } },
                            &t));
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(5, 12), x }), .count = 2
    };
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_result(t, true, &r));
    assert_true(r.loss == 0.0);
    assert_true(r.reports[0] > 0.05);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void refused(const char *text, copse_shape shape, const char *says)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed(text);
    assert_true(copse_layer_build(l, st, &(struct copse_build_params){ .shape = shape }) !=
                COPSE_OK);
    if (!strstr(copse_last_error(), says))
        fail_msg("%s: '%s', expected '%s'", text, copse_last_error(), says);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refused("attention 4", COPSE_SHAPE(12),
            "layer 1 'attention 4': the input is [12]; it takes positions and width [t, w]");
    refused("attention 4", COPSE_SHAPE(2, 3, 12), "it takes positions and width");
    refused("attention 4", COPSE_SHAPE(0, 12), "it takes positions and width");
    refused("attention 5", COPSE_SHAPE(3, 12),
            "the width of [3, 12] does not divide into 5 heads of 1 to 256 numbers");
    refused("attention 1", COPSE_SHAPE(3, 257),
            "the width of [3, 257] does not divide into 1 heads of 1 to 256 numbers");
    refused("attention 4 kv_heads=3", COPSE_SHAPE(3, 12), "3 key heads do not divide 4 heads");
    refused("attention 4 kv_heads=8", COPSE_SHAPE(3, 12), "8 key heads do not divide 4 heads");
    refused("attention 4 kv_heads=2", COPSE_SHAPE(8193, 12),
            "8193 positions of 2 heads for each key head: at most 16384");
    refused("attention 4", COPSE_SHAPE(16385, 12), "16385 positions of 1 heads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layer_is_its_operations),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(a_transformer_learns_to_repeat),
        cmocka_unit_test(sixteen_bits_learn_with_less_memory),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
