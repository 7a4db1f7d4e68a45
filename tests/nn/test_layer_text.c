/* SPDX-License-Identifier: MIT */
/* Descriptions of layers: what they accept, the text of each error, text -> layers -> text, and
   hostile texts. */
#include <locale.h>

#include "copse/nn/layers.h"
#include "copse/train/model_file.h"
#include "core/base/base.h"
#include "core/base/random.h"
#include "tests/nn/layer_rig.h"

/* ---- accepted ---- */

static void reads(const char *text, const char *canonical)
{
    copse_layer *l = parsed(text);
    assert_string_equal(text_of(l), canonical);
    copse_layer_release(&l);
}

static void descriptions_have_one_canonical_form(void **state)
{
    (void)state;
    reads("dense 64", "dense 64");
    reads(" ;; dense\t64\r\n\n relu ; # the rest\n#x\n", "dense 64; relu");
    reads("dense 64 linear bias=yes init=auto", "dense 64");
    reads("dense bias=no init=0.5 64 scale=3 tanh", "dense 64 tanh bias=no init=0.5 scale=3");
    reads("dense 2147483647 init=-1e-7", "dense 2147483647 init=-1e-07");
    reads("residual{dense 8}", "residual { dense 8 }");
    reads("residual { dense 8\n shortcut { dense 8 } }",
          "residual { dense 8; shortcut { dense 8 } }");
    reads("residual {\n dense 8 gelu # inside\n ; residual { relu } }\ndense out",
          "residual { dense 8 gelu; residual { relu } }; dense out");
    reads("mlp", "flatten; dense out");
    reads("mlp:", "flatten; dense out");
    reads("mlp:12,5", "flatten; dense 12 relu; dense 5 relu; dense out");
    reads("mlp:12 silu dropout=0.25; relu",
          "flatten; dense 12 silu; dropout 0.25; dense out; relu");
    reads("dropout .1; dropout 0", "dropout 0.1; dropout 0");
    reads("conv_transposed 8 3 linear stride=1 padding=yes", "conv_transposed 8 3");
    reads("conv_transposed stride=2x3 out 3x3 gelu", "conv_transposed out 3x3 gelu stride=2x3");
    reads("resize factor=2 nearest", "resize factor=2");
    reads("resize size=16x12 linear", "resize linear size=16x12");
    reads("adaptive_pool 2x3; pixel_shuffle 2", "adaptive_pool 2x3; pixel_shuffle 2");
    reads("prelu slope=.25; prelu slope=0.1", "prelu; prelu slope=0.1");
    reads("relu # \xc3\xa9t\xc3\xa9", "relu");
    reads("dense 64#relu", "dense 64");
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE.utf8") &&
        !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        printf("no locale with a decimal comma is installed: only the C locale is tried\n");
    reads("dropout 0.25; dense 3 init=-1.5", "dropout 0.25; dense 3 init=-1.5");
    setlocale(LC_NUMERIC, "C");
}

/* ---- errors ---- */

static void refuses(const char *text, const char *word)
{
    copse_layer *l = (copse_layer *)1;
    FAILS(COPSE_ERR_ARGUMENT, copse_nn_parse(ctx, text, &l), word);
    assert_null(l);
}

static void errors_name_line_and_layer(void **state)
{
    (void)state;
    refuses("", "no layer");
    refuses("# only a comment", "no layer");
    refuses("relu; dropout 0.1\ndens 64 relu",
            "line 2, layer 3 'dens 64 relu': no layer has this name; did you mean dense?");
    refuses("conv 8 3x", "line 1, layer 1 'conv 8 3x': WINDOW is '3x': a whole number from 1 to "
                         "32767, or two, as 3x5, is needed");
    refuses("conv 8 3x40000", "WINDOW is '3x40000'");
    refuses("max_pool 2 stride=0", "stride is '0'");
    refuses("conv_transposed 8", "layer 1 'conv_transposed 8': WINDOW is missing: write "
                                 "conv_transposed UNITS WINDOW [ACTIVATION] [stride=...]");
    refuses(
        "relu\nresize cubic factor=2",
        "line 2, layer 2 'resize cubic factor=2': KIND is 'cubic': nearest or linear is needed");
    refuses("resize 2", "KIND is '2': nearest or linear is needed");
    refuses("resize factor=0",
            "factor is '0': a whole number from 1 to 32767, or two, as 3x5, is needed");
    refuses("resize factor=1.5", "factor is '1.5'");
    refuses("adaptive_pool",
            "line 1, layer 1 'adaptive_pool': SIZE is missing: write adaptive_pool SIZE");
    refuses("pixel_shuffle 2x2", "FACTOR is '2x2': a whole number from 1 to 2147483647 is needed");
    refuses("prelu slope=nan", "slope is 'nan': a number from -1e+30 to below 1e+30 is needed");
    refuses("prelu 0.1", "'0.1' does not belong to this layer: write prelu [slope=...]");
    refuses("pixel_shufle 2", "did you mean pixel_shuffle?");
    refuses("dropuot 0.1", "did you mean dropout?");
    refuses("banana", "line 1, layer 1 'banana': no layer has this name; the layers are dense, ");
    refuses("dense",
            "line 1, layer 1 'dense': UNITS is missing: write dense UNITS [ACTIVATION] [bias=...]");
    refuses("dense 0", "UNITS is '0': a whole number from 1 to 2147483647, or out is needed");
    refuses("dense -3", "UNITS is '-3'");
    refuses("dense 064", "UNITS is '064'");
    refuses("dense 2147483648", "UNITS is '2147483648'");
    refuses("dense 99999999999999999999999999999999999999999999999", "UNITS is '9999999999");
    refuses("dense 64 rellu",
            "ACTIVATION is 'rellu': linear, relu, sigmoid, tanh, gelu or silu is needed");
    refuses("dense 64 relu tanh", "'tanh' does not belong to this layer: write dense UNITS");
    refuses("dense 64 units=3", "'units=3' does not belong to this layer");
    refuses("dense 64 UNITS=3", "'UNITS=3' does not belong to this layer");
    refuses("dense 64 =3", "'=3' does not belong to this layer");
    refuses("dense 64 bias=", "bias is '': yes or no is needed");
    refuses("dense 64 bias=no bias=no", "bias is given twice");
    refuses("dense 64 init=best",
            "init is 'best': auto, glorot, he, normal, truncated_normal, orthogonal, zeros, ");
    refuses("dense 64 init=nan", "init is 'nan'");
    refuses("dense 64 init=1e999", "init is '1e999'");
    refuses("dense 64 scale=0", "scale is '0': a number from 1e-30");
    refuses("dropout 1", "RATE is '1': a number from 0 to below 1 is needed");
    refuses("dropout 0.99999999999", "RATE is '0.99999999999'"); /* 1 as a float */
    refuses("dropout -0.1", "RATE is '-0.1'");
    refuses("dropout 0x1p-3", "RATE is '0x1p-3'");
    refuses("relu 3", "'3' does not belong to this layer: write relu");
    refuses("flatten; mlp:12,", "write mlp:WIDTH,WIDTH,... with the widths of the hidden layers");
    refuses("mlp:12,0", "UNITS is '0'");
    refuses("mlp:,3", "UNITS is ''");
    refuses("mlp:12,out", "write mlp:WIDTH,WIDTH,...");
    refuses("mlp:12, 13", "ACTIVATION is '13'");
    refuses("mlp:12 dropout=1", "dropout is '1'");
    refuses("mlpx", "no layer has this name");
}

static void braces_must_fit(void **state)
{
    (void)state;
    refuses("residual\n{ relu }",
            "line 1, layer 1 'residual': '{' is missing: write residual { LAYERS }");
    refuses("residual", "line 1, layer 1 'residual': '{' is missing");
    refuses("residual {", "line 1, layer 1 'residual': its '{' has no '}'");
    refuses("relu\nresidual {\n relu; residual { relu }\n",
            "line 2, layer 2 'residual': its '{' has no '}'");
    refuses("residual { }", "line 1, layer 1 'residual': has no layer in its braces");
    refuses("residual { ; # }\n }", "has no layer in its braces");
    refuses("relu }", "line 1, layer 1 'relu': '}' has no '{'");
    refuses("}", "line 1, layer 1 '': '}' without a layer in front");
    refuses("relu; { relu }", "line 1, layer 2 '': '{' without a layer in front");
    refuses("relu { relu }",
            "line 1, layer 1 'relu': only residual and shortcut have layers in braces");
    refuses("residual { relu } relu", "a ';' or an end of line is missing behind '}'");
    refuses("residual 3 { relu }", "'3' does not belong to this layer: write residual { LAYERS }");
}

static void messages_stay_short_and_clean(void **state)
{
    char text[5000] = "dense ";
    (void)state;
    memset(text + 6, '7', 4000);
    refuses(text, "line 1, layer 1 'dense 7777777777777777777777777777777777...': UNITS is "
                  "'777777777777777777777777777"
                  "7777777777777...': a whole number");
    refuses("den\x01se 4", "'den?se 4'");
    refuses("dense 4\n\n\xff", "line 3: byte 0xff is not UTF-8");
    refuses("dense 4 # \xc3", "line 1: byte 0xc3 is not UTF-8");
    refuses("\xed\xa0\x80", "line 1: byte 0xed is not UTF-8");
    /* a character is not cut */
    refuses("dense aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9",
            "'dense aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'");
}

/* ---- limits ---- */

static void depth_and_number_of_layers_are_limited(void **state)
{
    static char text[200000];
    (void)state;
    for (int depth = 64; depth <= 65; depth++) {
        size_t at = 0;
        for (int i = 0; i < depth; i++)
            at += (size_t)sprintf(text + at, "residual {\n");
        at += (size_t)sprintf(text + at, "relu");
        for (int i = 0; i < depth; i++)
            at += (size_t)sprintf(text + at, "}");
        if (depth == 64) {
            copse_layer *l = parsed(text);
            copse_layer_release(&l);
        } else {
            refuses(text, "line 65, layer 65 'residual': layers are nested more than 64 deep");
        }
    }
    memset(text, '{', 100000);
    text[100000] = '\0';
    refuses(text, "'{' without a layer in front");
    size_t at = 0;
    for (int i = 0; i < 10000; i++)
        at += (size_t)sprintf(text + at, "relu\n");
    copse_layer *l = parsed(text);
    copse_layer_release(&l);
    sprintf(text + at, "relu");
    refuses(text, "line 10001, layer 10001 'relu': a description has at most 10000 layers");
    at = (size_t)sprintf(text, "mlp:");
    for (int i = 0; i < 20000; i++)
        at += (size_t)sprintf(text + at, i ? ",3" : "3");
    refuses(text, "layers are more than 10000");
}

/* ---- round trips ---- */

static uint32_t below(struct copse_stream *s, uint32_t bound)
{
    return copse__stream_below(s, bound);
}

/* A random tree, by calls and by texts of single layers. */
static copse_layer *random_layer(struct copse_stream *s, uint32_t depth)
{
    static const char *const texts[] = {
        "dense 7 bias=no",
        "dense out init=he",
        "dense 3 gelu init=0.1 scale=0.7",
        "flatten",
        "dropout 0.3",
        "layer_norm",
        "rms_norm epsilon=0.001",
        "embedding 4 5",
        "embedding in 5",
        "embedding 4 5 init=zeros sparse=yes",
        "batch_norm momentum=0.99",
        "conv 7 3x5 relu stride=2 padding=no",
        "conv out 3 dilation=1x2 groups=4",
        "conv_transposed out 3x5 silu stride=2 padding=no init=he",
        "resize factor=2",
        "resize linear size=3x5",
        "adaptive_pool 2",
        "pixel_shuffle 2",
        "prelu slope=-0.1",
        "squeeze_excite 4",
        "squeeze_excite 4 silu init=he scale=0.5",
        "max_pool 2",
        "average_pool 3x2 stride=1 padding=yes",
        "global_pool",
        "group_norm 4",
        "group_norm 2 epsilon=0.001",
        "instance_norm",
        "positions",
        "positions init=normal scale=0.02",
        "gru 5",
        "lstm 6 last=yes bias=no",
        "rnn 7 init=he scale=0.5",
        "attention 4",
        "attention 4 causal=yes kv_heads=2 window=9 bias=no init=normal scale=0.02"
    };
    copse_layer *l = NULL, *inner[4];
    const uint32_t kind = below(s, depth > 0 ? 7 : 5);
    if (kind == 0)
        OK(copse_nn_dense(ctx, below(s, 5) * (1 + below(s, 1u << 28)),
                          (copse_activation)below(s, 6), &l));
    else if (kind == 1)
        OK(copse_nn_dropout(ctx, copse__stream_unit(s), &l));
    else if (kind == 2)
        OK(copse_nn_activation(ctx, (copse_activation)(1 + below(s, 5)), &l));
    else if (kind < 5)
        l = parsed(texts[below(s, COPSE_COUNT(texts))]);
    else if (kind == 5) {
        inner[0] = random_layer(s, depth - 1);
        OK(copse_nn_residual(inner[0], &l));
        copse_layer_release(&inner[0]);
    } else {
        const uint32_t count = 1 + below(s, 4);
        for (uint32_t i = 0; i < count; i++)
            inner[i] = random_layer(s, depth - 1);
        OK(copse_nn_sequential(inner, count, &l));
        for (uint32_t i = 0; i < count; i++)
            copse_layer_release(&inner[i]);
    }
    return l;
}

static void text_of_any_tree_makes_the_same_tree(void **state)
{
    struct copse_stream s;
    (void)state;
    copse__stream_init(&s, 20, 0);
    for (int i = 0; i < 2000; i++) {
        copse_layer *l = random_layer(&s, 5), *again;
        OK(copse_nn_parse(ctx, text_of(l), &again));
        assert_string_equal(text_of(again), text_of(l));
        copse_layer_release(&again);
        copse_layer_release(&l);
    }
}

/* ---- hostile texts ---- */

/* Random pieces of the language and random bytes: each text is refused with a line of text, or has
   a canonical form. */
static void random_texts_are_read_or_refused(void **state)
{
    static const char *const pieces[] = {
        "dense",
        "dense 4",
        " ",
        "\n",
        ";",
        "{",
        "}",
        "#",
        "residual",
        "residual {",
        "relu",
        "mlp:",
        ",",
        "=",
        "bias=no",
        "init=",
        "0.5",
        "out",
        "-1",
        "1e9",
        "99999999999999999999",
        "\xff",
        "\xc3\xa9",
        "\x01",
        "dropout 0.1",
        "scale=2",
        "flatten;",
        "layer_norm\n",
        "\r",
        "mlp:3,4 dropout=0.1",
        "\t",
    };
    struct copse_stream s;
    uint32_t accepted = 0;
    (void)state;
    copse__stream_init(&s, 21, 0);
    for (int i = 0; i < 30000; i++) {
        char text[600] = "";
        size_t at = 0;
        for (uint32_t k = below(&s, 12); k > 0; k--) {
            if (below(&s, 10) == 0)
                text[at++] = (char)(1 + below(&s, 255));
            else
                at += (size_t)sprintf(text + at, "%s", pieces[below(&s, COPSE_COUNT(pieces))]);
        }
        text[at] = '\0';
        copse_layer *l, *again;
        const copse_status status = copse_nn_parse(ctx, text, &l);
        if (status) {
            assert_int_equal(status, COPSE_ERR_ARGUMENT);
            assert_null(l);
            assert_null(strchr(copse_last_error(), '\n'));
            continue;
        }
        accepted++;
        OK(copse_nn_parse(ctx, text_of(l), &again));
        assert_string_equal(text_of(again), text_of(l));
        copse_layer_release(&again);
        copse_layer_release(&l);
    }
    printf("%u of 30000 random texts are descriptions\n", accepted);
    assert_true(accepted > 500);
}

/* ---- memory ---- */

static int allocations_left = -1; /* < 0: no limit */

static void *limited(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    allocations_left -= allocations_left > 0;
    return realloc(block, size);
}

/* Whichever allocation fails: the status says so, and nothing is left. */
static void memory_may_end_anywhere(void **state)
{
    static const char text[] =
        "mlp:4,3 dropout=0.1; residual { relu; residual { dense 4 } }; layer_norm";
    const struct copse_context_params params = { .resize = limited, .disable = "opencl,vulkan" };
    struct copse_memory_stats before, after;
    copse_context *small;
    copse_layer *l, *copy = NULL;
    copse_status s = COPSE_ERR_NO_MEMORY;
    int tries = 0;
    (void)state;
    OK(copse_context_create(&params, &small));
    copse_context_memory(small, &before);
    for (; s == COPSE_ERR_NO_MEMORY && tries < 1000; tries++) {
        allocations_left = tries;
        s = copse_nn_parse(small, text, &l);
        if (s == COPSE_OK && (s = copse_nn_residual(l, &copy)) == COPSE_OK)
            copse_layer_release(&copy);
        assert_null(copy);
        copse_layer_release(&l);
        copse_context_memory(small, &after);
        assert_int_equal(after.live_blocks, before.live_blocks);
    }
    allocations_left = -1;
    assert_int_equal(s, COPSE_OK);
    assert_true(tries > 20);
    copse_context_release(&small);
}

/* `embedding in` and `dense out` get their numbers from the build; the shape of the output needs no
   build. */
static void tokens_and_shapes_before_a_build(void **state)
{
    const struct copse_build_params p = {
        .type = COPSE_I32, .shape = COPSE_SHAPE(6), .outputs = 9, .tokens = 7
    };
    copse_layer *l = parsed("embedding in 4; dense out"),
                *flat = parsed("embedding in 4; flatten; dense out"), *called;
    copse_strategy *st = on_host();
    copse_shape shape, built;
    (void)state;
    uint64_t elements;
    OK(copse_layer_shape(l, &p, &shape, &elements));
    assert_int_equal(elements, 7 * 4 + 4 * 9 + 9);
    assert_true(shape.rank == 2 && shape.dims[0] == 6 && shape.dims[1] == 9);
    assert_string_equal(text_of(l), "embedding in 4; dense out"); /* unchanged */
    OK(copse_layer_build(l, st, &p));
    OK(copse_layer_output(l, &built));
    assert_true(built.rank == 2 && built.dims[0] == 6 && built.dims[1] == 9);
    assert_string_equal(text_of(l), "embedding 7 4; dense 9");
    assert_int_equal(copse_layer_parameters(l), 7 * 4 + 4 * 9 + 9);
    OK(copse_layer_shape(flat, &p, &shape, NULL));
    assert_true(shape.rank == 1 && shape.dims[0] == 9);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_layer_shape(flat, &(struct copse_build_params){ .type = COPSE_I32, .outputs = 9 },
                            &shape, NULL),
          "layer 1 'embedding in 4': `in` is the number of different tokens of the data, which has "
          "none");
    FAILS(COPSE_ERR_SHAPE,
          copse_layer_shape(flat, &(struct copse_build_params){ .outputs = 9, .tokens = 7 }, &shape,
                            NULL),
          "it takes i32");
    OK(copse_nn_embedding(ctx, 0, 4, &called));
    assert_string_equal(text_of(called), "embedding in 4");
    copse_layer_release(&called);
    copse_layer_release(&flat);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptions_have_one_canonical_form),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(errors_name_line_and_layer),
        cmocka_unit_test(braces_must_fit),
        cmocka_unit_test(messages_stay_short_and_clean),
        cmocka_unit_test(depth_and_number_of_layers_are_limited),
        cmocka_unit_test(text_of_any_tree_makes_the_same_tree),
        cmocka_unit_test(random_texts_are_read_or_refused),
        cmocka_unit_test(memory_may_end_anywhere),
        cmocka_unit_test(tokens_and_shapes_before_a_build),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
