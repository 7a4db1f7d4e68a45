/* SPDX-License-Identifier: MIT */
/* The layers of later decoders, rotary attention and gated units: variables, the same bits as their
   operations, refusals. */
#include <math.h>

#include "copse/distribute/replica.h"
#include "copse/ops/attention.h"
#include "copse/ops/gated.h"
#include "copse/ops/rotary.h"
#include "core/graph/graph.h"
#include "tests/nn/layer_rig.h"

/* A layer and the same by hand. */
struct layer {
    const char *text;
    copse_tensor *(*by_hand)(copse_graph *g, copse_tensor *x);
    uint64_t parameters;
    copse_shape in, out;
};

static copse_tensor *weight(const char *name)
{
    return copse_variable_tensor(variable_of(copse_current_strategy(), name));
}

/* Two query heads for one key and one value head, of 6 numbers each. */
static copse_tensor *rotary_by_hand(copse_graph *g, copse_tensor *x)
{
    static const struct copse_attention_params params = { .is_causal = true };
    const copse_shape s = copse_tensor_shape(x);
    copse_tensor *t, *part[2];
    t = copse_dense(g, x, weight("attention1.qkv"), NULL, COPSE_LINEAR);
    copse_split(g, t, 2, (const uint32_t[]){ 18, 6 }, 2, part);
    t = copse_reshape(g, part[0], COPSE_SHAPE(s.dims[0], s.dims[1], 3, 6));
    t = copse_rotary(g, t, &(struct copse_rotary_params){ .base = 50 });
    part[0] = copse_reshape(g, t, COPSE_SHAPE(s.dims[0], s.dims[1], 18));
    t = copse_concat(g, part, 2, 2);
    t = copse_self_attention(g, t, 2, 1, &params);
    return copse_dense(g, t, weight("attention1.out"), NULL, COPSE_LINEAR);
}

static copse_tensor *glu_by_hand(copse_graph *g, copse_tensor *x)
{
    copse_tensor *t, *part[2];
    t = copse_dense(g, x, weight("glu1.weight"), weight("glu1.bias"), COPSE_LINEAR);
    copse_split(g, t, 2, NULL, 2, part);
    return copse_glu(g, part[0], part[1], COPSE_SILU);
}

/* The largest difference of both; the mean magnitude as a report. */
static copse_tensor *difference(copse_graph *g, const copse_batch *in, void *user)
{
    const void *const *both = user;
    const struct layer *l = both[0];
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_layer_apply(both[1], g, in, x);
    copse_tensor *hand = l->by_hand(g, x);
    y = copse_sub(g, y, hand);
    y = copse_abs(g, y);
    copse_tensor *loss = copse_max(g, y, NULL, 0, false);
    hand = copse_abs(g, hand);
    hand = copse_mean(g, hand, NULL, 0, false);
    copse_report(g, "size", hand);
    return loss;
}

static void check(const struct layer *of)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed(of->text);
    copse_trainer *t;
    copse_shape out;
    struct copse_step_result r;
    const void *both[] = { of, l };
    float x[2 * 5 * 12];
    for (int i = 0; i < 2 * 5 * 12; i++)
        x[i] = sinf((float)i);
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = of->in, .seed = 4 }));
    assert_int_equal(copse_layer_parameters(l), of->parameters);
    OK(copse_layer_output(l, &out));
    assert_true(copse__shape_equal(out, of->out));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = difference,
                                                            .user = (void *)both,
                                                            .optimizer = { .kind = COPSE_SGD } },
                            &t));
    const struct copse_host_batch batch = { COPSE_COLUMNS({ "x", COPSE_F32, of->in, x }),
                                            .count = 2 };
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_result(t, true, &r));
    if (r.loss != 0.0 || !(r.reports[0] > 0.02))
        fail_msg("%s: differs by %g of %g", of->text, r.loss, r.reports[0]);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void layers_are_their_operations(void **state)
{
    (void)state;
    check(&(struct layer){ "attention 2 causal=yes kv_heads=1 rotary=yes base=50 bias=no",
                           rotary_by_hand, 12 * 24 + 12 * 12, COPSE_SHAPE(5, 12),
                           COPSE_SHAPE(5, 12) });
    check(&(struct layer){ "glu 7 silu", glu_by_hand, 12 * 14 + 14, COPSE_SHAPE(5, 12),
                           COPSE_SHAPE(5, 7) });
}

static void texts_are_canonical(void **state)
{
    static const char *const texts[] = { "attention 2 causal=yes rotary=yes base=500 bias=no",
                                         "glu 7", "glu 7 silu bias=no", "glu 7 linear scale=0.5" };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(texts); i++) {
        copse_layer *l = parsed(texts[i]);
        assert_string_equal(text_of(l), texts[i]);
        copse_layer_release(&l);
    }
    copse_layer *l = parsed("attention 2 rotary=yes base=1e4; glu 7 sigmoid bias=yes");
    assert_string_equal(text_of(l), "attention 2 rotary=yes; glu 7");
    copse_layer_release(&l);
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
    refused("attention 4 rotary=yes", COPSE_SHAPE(3, 12),
            "layer 1 'attention 4 rotary=yes': rotary positions turn pairs, and a head of [3, 12] "
            "has 3 numbers");
    refused("glu 4", COPSE_SCALAR, "layer 1 'glu 4': the input [] has no last axis");
    refused("glu 4", COPSE_SHAPE(3, 0), "the input [3, 0] has no last axis with elements");
    refused("glu 1073741824", COPSE_SHAPE(3), "1073741824 units are too many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_their_operations),
        cmocka_unit_test(texts_are_canonical),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
