/* SPDX-License-Identifier: MIT */
/* Folders of gemma, gemma2 and gemma3 with heads of 256 numbers, the size of the published ones:
   settings that its programs have written in several ways. */
#define LANGUAGE_HEAD 256
#include "tests/language/folder_rig.h"

static void try_kind(const struct kind *k, const struct folder_change *cases, size_t count)
{
    make_folder(k, COPSE_F32);
    OK(open_path(folder_write(&made, ctx, k)));
    assert_right(k, "as it is");
    close_file();
    try_changes("config.json", k, cases, count);
}

/* The function of gemma has three names; the head is the embedding unless the file denies it. */
static void test_gemma(void **state)
{
    static const struct folder_change cases[] = {
        { COPSE_OK, "\"gelu_pytorch_tanh\"", "\"gelu\"", NULL },
        { COPSE_OK, "{", "{\"hidden_activation\": null, ", NULL },
        { COPSE_OK, "\"hidden_act\": \"gelu_pytorch_tanh\"",
          "\"hidden_act\": \"silu\", \"hidden_activation\": \"gelu_pytorch_tanh\"", NULL },
        { COPSE_OK, "\"head_dim\": 256", "\"head_dim\": null", NULL },
        { COPSE_ERR_UNSUPPORTED, "{", "{\"hidden_activation\": \"gelu\", ",
          "\"hidden_activation\" is \"gelu\"" },
        { COPSE_ERR_UNSUPPORTED, "gelu_pytorch_tanh", "silu", "\"hidden_act\" is \"silu\"" },
        { COPSE_ERR_FORMAT, "\"tie_word_embeddings\": null", "\"tie_word_embeddings\": false",
          "has no tensor \"lm_head.weight\"" },
        { COPSE_ERR_UNSUPPORTED, "\"head_dim\": 256", "\"head_dim\": 258",
          "heads of 258 numbers; attention takes up to 256" },
        { COPSE_ERR_UNSUPPORTED, "\"gemma\"", "\"gemma3\"", "has the model type \"gemma3\"" },
    };
    (void)state;
    try_kind(&gemma, cases, sizeof cases / sizeof *cases);
}

/* Caps of scores and of outputs, norms after the parts of a block, a window of every second layer. */
static void test_gemma2(void **state)
{
    static const struct folder_change cases[] = {
        { COPSE_OK, "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
          "\"layer_types\": null", NULL },
        { COPSE_ERR_FORMAT, "\"attn_logit_softcapping\": 2", "\"attn_logit_softcapping\": -2",
          "\"attn_logit_softcapping\" is no positive number" },
        { COPSE_ERR_UNSUPPORTED, "\"attn_logit_softcapping\": 2",
          "\"attn_logit_softcapping\": 1e-9", "\"attn_logit_softcapping\" is \"below 1e-6\"" },
        { COPSE_ERR_FORMAT, "\"query_pre_attn_scalar\": 9", "\"query_pre_attn_scalar\": \"9\"",
          "\"query_pre_attn_scalar\" is no positive number" },
        { COPSE_ERR_UNSUPPORTED, "\"full_attention\"", "\"chunked_attention\"",
          "\"layer_types\" is \"chunked_attention\"" },
        { COPSE_ERR_FORMAT, "\"full_attention\"", "\"full_attention\", \"full_attention\"",
          "\"layer_types\" has 3 layers, the model 2" },
    };
    struct kind k = gemma2;
    (void)state;
    k.scalar = 9;
    try_kind(&k, cases, sizeof cases / sizeof *cases);
    k.cap = 0;
    try_kind(&k, NULL, 0);
    k.last_cap = 0;
    try_kind(&k, NULL, 0);
    k.window = 400;
    try_kind(&k, NULL, 0);
}

/* Layers with a window have rotary positions of their own base; heads have norms. */
static void test_gemma3(void **state)
{
    static const char bases[] =
        "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", "
        "\"rope_theta\": 100}, \"sliding_attention\": {\"rope_theta\": 20}}";
    static const struct folder_change cases[] = {
        { COPSE_OK, bases, "\"rope_theta\": 100, \"rope_local_base_freq\": 20", NULL },
        { COPSE_OK, "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
          "\"sliding_window_pattern\": 2", NULL },
        { COPSE_ERR_UNSUPPORTED, "\"rope_theta\": 20",
          "\"rope_theta\": 20, \"rope_type\": \"linear\", \"factor\": 2",
          "\"rope_type\" is \"linear\"" },
        { COPSE_ERR_UNSUPPORTED, "{", "{\"use_bidirectional_attention\": true, ",
          "\"use_bidirectional_attention\" is \"true\"" },
        { COPSE_ERR_FORMAT, "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
          "\"sliding_window_pattern\": 0", "\"sliding_window_pattern\" is no number" },
    };
    (void)state;
    try_kind(&gemma3, cases, sizeof cases / sizeof *cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gemma), cmocka_unit_test(test_gemma2),
                                        cmocka_unit_test(test_gemma3) };
    return cmocka_run_group_tests(tests, begin, end);
}
