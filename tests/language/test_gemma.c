/* SPDX-License-Identifier: MIT */
/* Folders of gemma: settings that its programs have written in several ways. */
#include "tests/language/folder_rig.h"

/* The function of gemma has three names; the head is the embedding unless the file denies it. */
static void test_gemma(void **state)
{
    static const struct {
        const char *from, *to, *says; /* says NULL: the model is read */
    } cases[] = {
        { "\"gelu_pytorch_tanh\"", "\"gelu\"", NULL },
        { "{", "{\"hidden_activation\": null, ", NULL },
        { "\"hidden_act\": \"gelu_pytorch_tanh\"",
          "\"hidden_act\": \"silu\", \"hidden_activation\": \"gelu_pytorch_tanh\"", NULL },
        { "{", "{\"hidden_activation\": \"gelu\", ", "\"hidden_activation\" is \"gelu\"" },
        { "gelu_pytorch_tanh", "silu", "\"hidden_act\" is \"silu\"" },
        { "\"tie_word_embeddings\": null", "\"tie_word_embeddings\": false",
          "has no tensor \"lm_head.weight\"" },
        { "\"head_dim\": 8", "\"head_dim\": null",
          "heads of 256 numbers; attention takes up to 128" },
        { "\"gemma\"", "\"gemma2\"", "has the model type \"gemma2\"" },
    };
    size_t size;
    (void)state;
    make_folder(&gemma, COPSE_F32);
    folder_write(&made, ctx, &gemma);
    char *config = (char *)temp_bytes(temp_path("model/config.json"), &size);
    config[size] = '\0';
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char changed[2048];
        const char *at = strstr(config, cases[i].from);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - config), config, cases[i].to,
                 at + strlen(cases[i].from));
        folder_text("config.json", changed);
        if (cases[i].says) {
            const copse_status s = open_path(temp_path("model"));
            assert_true(s == COPSE_ERR_UNSUPPORTED || s == COPSE_ERR_FORMAT);
            if (!strstr(copse_last_error(), cases[i].says))
                fail_msg("case %zu: %s", i, copse_last_error());
            copse_strategy_release(&st);
        } else {
            OK(open_path(temp_path("model")));
            assert_right(&gemma, cases[i].to);
            close_file();
        }
    }
    free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gemma) };
    return cmocka_run_group_tests(tests, begin, end);
}
