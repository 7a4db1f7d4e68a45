/* SPDX-License-Identifier: MIT */
/* Recurrent layers: variables, the same bits as their operations, refusals; networks that learn
   what needs memory. */
#include <math.h>

#include "copse/distribute/replica.h"
#include "copse/ops/recurrent.h"
#include "core/base/base.h"
#include "core/base/random.h"
#include "tests/nn/layer_rig.h"

enum { LENGTH = 7, TOKENS = 4, EXAMPLES = 32 };

/* The class of an example is its first token. */
static void remembered(struct copse_stream *s, int32_t *x, int32_t *y)
{
    for (uint32_t e = 0; e < EXAMPLES; e++) {
        for (uint32_t i = 0; i < LENGTH; i++)
            x[e * LENGTH + i] = (int32_t)copse__stream_below(s, TOKENS);
        y[e] = x[e * LENGTH];
    }
}

static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_input(in, "y");
    copse_tensor *logits = copse_layer_apply(user, g, in, x);
    return copse_sparse_cross_entropy(g, logits, y, COPSE_MEAN);
}

static double loss_after(const char *device, const char *text, int steps)
{
    static int32_t x[EXAMPLES * LENGTH], y[EXAMPLES];
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
                                .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.02f } },
                            &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                { "x", COPSE_I32, COPSE_SHAPE(LENGTH), x },
                                                { "y", COPSE_I32, COPSE_SCALAR, y }),
                                            .count = EXAMPLES };
    for (int i = 0; i < steps; i++) {
        remembered(&s, x, y);
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &r));
    }
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
    return r.loss;
}

static void they_learn_to_remember(void **state)
{
    static const char *const devices[] = { "host:0", "opencl:0", "vulkan:0" };
    static const char *const texts[] = { "embedding in 8; gru 16 last=yes; dense out",
                                         "embedding in 8; lstm 16 last=yes; dense out" };
    (void)state;
    assert_true(loss_after("host:0", "embedding in 8; dense 16 tanh; global_pool; dense out", 80) >
                0.8);
    for (size_t d = 0; d < COPSE_COUNT(devices); d++) {
        copse_device *dev;
        if (copse_device_open(ctx, devices[d], NULL, &dev) != COPSE_OK) {
            print_message("%s is not here: not trained\n", devices[d]);
            continue;
        }
        copse_device_release(&dev);
        for (size_t i = 0; i < COPSE_COUNT(texts); i++) {
            const double loss = loss_after(devices[d], texts[i], 150);
            print_message("%s, %s: loss %.4f\n", devices[d], texts[i], loss);
            assert_true(loss < 0.2);
        }
    }
}

/* ---- one layer ---- */

static copse_tensor *tensor_of(const char *name)
{
    return copse_variable_tensor(variable_of(copse_current_strategy(), name));
}

static copse_tensor *by_hand(copse_graph *g, copse_tensor *x)
{
    const struct copse_recurrent_params of_gru = { .bias = tensor_of("gru1.bias"),
                                                   .recurrent_bias =
                                                       tensor_of("gru1.recurrent_bias") };
    const struct copse_recurrent_params of_lstm = { .bias = tensor_of("lstm1.bias") };
    copse_tensor *last;
    x = copse_gru(g, x, tensor_of("gru1.weight"), tensor_of("gru1.recurrent"), &of_gru, NULL);
    x = copse_lstm(g, x, tensor_of("lstm1.weight"), tensor_of("lstm1.recurrent"), &of_lstm, NULL,
                   NULL);
    (void)copse_rnn(g, x, tensor_of("rnn1.weight"), tensor_of("rnn1.recurrent"), NULL, &last);
    return last;
}

/* The largest difference of the layers and the same operations by hand. */
static copse_tensor *difference(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(user, g, in, x);
    copse_tensor *hand = by_hand(g, x);
    y = copse_sub(g, y, hand);
    y = copse_abs(g, y);
    copse_tensor *loss = copse_max(g, y, NULL, 0, false);
    hand = copse_abs(g, hand);
    hand = copse_mean(g, hand, NULL, 0, false);
    copse_report(g, "size", hand);
    return loss;
}

static void the_layers_are_their_operations(void **state)
{
    (void)state;
    copse_strategy *st = on_host();
    copse_layer *l = parsed("gru 5; lstm 4; rnn 3 last=yes bias=no");
    copse_trainer *t;
    copse_shape out;
    struct copse_step_result r;
    float x[2 * 6 * 7];
    for (int i = 0; i < 2 * 6 * 7; i++)
        x[i] = sinf((float)i);
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(6, 7), .seed = 4 }));
    assert_int_equal(copse_layer_parameters(l),
                     7 * 15 + 5 * 15 + 15 + 15 + 5 * 16 + 4 * 16 + 16 + 4 * 3 + 3 * 3);
    OK(copse_layer_output(l, &out));
    assert_true(out.rank == 1 && out.dims[0] == 3);
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = difference, .user = l, .optimizer = { .kind = COPSE_SGD } },
                            &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(6, 7), x }),
                                            .count = 2 };
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_result(t, true, &r));
    assert_true(r.loss == 0.0);
    assert_true(r.reports[0] > 0.02);
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

static void wrong_inputs_are_refused(void **state)
{
    (void)state;
    refused("gru 4", COPSE_SHAPE(5),
            "layer 1 'gru 4': the input is [5]; it takes positions and width [t, w]");
    refused("lstm 4", COPSE_SHAPE(2, 5, 3), "the input is [2, 5, 3]");
    refused("rnn 4", COPSE_SHAPE(0, 3), "the input is [0, 3]");
    refused("gru 4", COPSE_SHAPE(16385, 1), "16385 positions: at most 16384");
    refused("lstm 2147483647", COPSE_SHAPE(5, 3), "2147483647 units are too many");
    refused("gru 40000", COPSE_SHAPE(5, 3),
            "its recurrent [40000, 120000] has not 1 to 2^31-1 elements");
    refused("gru 4 last=yes; gru 4", COPSE_SHAPE(5, 3), "layer 2 'gru 4': the input is [4]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_learn_to_remember),
        cmocka_unit_test(the_layers_are_their_operations),
        cmocka_unit_test(wrong_inputs_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
