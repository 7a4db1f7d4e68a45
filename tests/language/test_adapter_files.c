/* SPDX-License-Identifier: MIT */
/* Files of adapters, also those that are not as they must be. */
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "tests/language/adapter_rig.h"

static void test_files(void **state)
{
    static const char *const names[] = { "adapter.safetensors", "adapter", "dora" };
    (void)state;
    on = "host:0";
    for (int i = 0; i < 3; i++) {
        struct copse_adapter_info before, after;
        size_t count;
        const struct copse_adapter_params how = { .rank = RANK,
                                                  .alpha = 5,
                                                  .dropout = 0.25f,
                                                  .is_rank_stabilised = i == 1,
                                                  .is_dora = i == 2,
                                                  .targets =
                                                      i ? "*_proj" : "*.0.self_attn.?_proj" };
        open_adapted(&how);
        fill_matrices();
        OK(copse_language_describe_adapter(language, &before));
        float *saved = values_of(true, &count);
        const double loss = evaluate();
        OK(copse_language_save_adapter(language, path_of(names[i])));
        close_file();
        open_kind(&llama);
        OK(copse_language_load_adapter(language, path_of(names[i])));
        OK(copse_language_describe_adapter(language, &after));
        assert_memory_equal(&before, &after, sizeof before);
        float *loaded = values_of(true, &count);
        assert_memory_equal(saved, loaded, count * sizeof *saved);
        const double again = evaluate();
        assert_memory_equal(&loss, &again, sizeof loss);
        FAILS(COPSE_ERR_ARGUMENT, copse_language_load_adapter(language, path_of(names[i])),
              "has an adapter of rank 3");
        FAILS(COPSE_ERR_ARGUMENT, copse_language_adapt(language, &how), "has an adapter of rank 3");
        if (i == 2)
            FAILS(COPSE_ERR_UNSUPPORTED,
                  copse_language_save_adapter(language, path_of("dora.gguf")),
                  "GGUF files cannot hold DoRA");
        close_file();
        free(saved), free(loaded);
    }
}

static char warnings[2000];

static void note_line(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN)
        snprintf(warnings, sizeof warnings, "%s", line);
}

/* The arrays of a folder have their settings: with the file of an older adapter they compute the
   same. */
static void test_folder_with_older_settings(void **state)
{
    static char older[3000];
    copse_context *usual = ctx;
    (void)state;
    on = "host:0";
    OK(copse_context_create(&(struct copse_context_params){ .log = note_line }, &ctx));
    for (int i = 0; i < 2; i++) {
        open_adapted(&(struct copse_adapter_params){ .rank = RANK, .alpha = i ? 7 : 3 });
        OK(copse_language_save_adapter(language, path_of("twice")));
        close_file();
        FILE *f = fopen(path_of("twice/adapter_config.json"), i ? "wb" : "rb");
        assert_non_null(f);
        if (i)
            assert_true(fputs(older, f) >= 0);
        else
            assert_true(fread(older, 1, sizeof older - 1, f) > 100);
        fclose(f);
        warnings[0] = '\0';
        assert_true(loaded_alpha(path_of("twice")) == (i ? 7.0f : 3.0f));
        assert_true(i ? strstr(warnings, "has other settings") != NULL : warnings[0] == '\0');
    }
    assert_int_equal(remove(path_of("twice/adapter_config.json")), 0);
    assert_true(loaded_alpha(path_of("twice")) == 7);
    assert_non_null(strstr(warnings, "is missing or"));
    copse_context_release(&ctx);
    ctx = usual;
}

static void load_config(const char *config, copse_status status, const char *word)
{
    const double before = evaluate();
    temp_write("adapter_config.json", config, strlen(config));
    FAILS(status, copse_language_load_adapter(language, path_of("some.safetensors")), word);
    const double after = evaluate();
    assert_memory_equal(&before, &after, sizeof before);
}

#define NO_COLUMNS SIZE_MAX

/* Arrays [rows, columns] of these names; [rows] where there are 0 columns. */
static void write_arrays(const char *const *names, const size_t (*shapes)[2], size_t count)
{
    static const float zeros[HIDDEN * 64];
    struct copse_named_array arrays[4];
    for (size_t i = 0; i < count; i++)
        arrays[i] = (struct copse_named_array){ names[i],
                                                { COPSE_F32,
                                                  shapes[i][1] ? 2 : 1,
                                                  { shapes[i][0],
                                                    shapes[i][1] == NO_COLUMNS ? 0 : shapes[i][1] },
                                                  zeros } };
    OK(copse_checkpoint_write(
        ctx, path_of("some.safetensors"),
        &(struct copse_checkpoint_params){ .arrays = arrays, .array_count = count }));
}

#define GOOD  "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 6"
#define LAYER "base_model.model.model.layers.0.self_attn."

static void test_wrong_files(void **state)
{
    static const char *const names[] = { LAYER "v_proj.lora_A.weight", LAYER "v_proj.lora_B.weight",
                                         "base_model.model.lm_head.lora_A.weight" };
    static const size_t shapes[][2] = { { RANK, WIDTH }, { KV * HEAD, RANK }, { RANK, WIDTH } };
    (void)state;
    on = "host:0";
    open_kind(&llama);
    write_arrays(names, shapes, 2);
    load_config("[1]", COPSE_ERR_FORMAT, "are not one JSON object");
    load_config("{\"peft_type\"", COPSE_ERR_FORMAT, "are not one JSON object");
    load_config("{\"r\": 3}", COPSE_ERR_UNSUPPORTED, "\"peft_type\" is not \"LORA\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 3}", COPSE_ERR_FORMAT, "\"lora_alpha\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 6}", COPSE_ERR_FORMAT,
                "\"r\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 2.5, \"lora_alpha\": 6}", COPSE_ERR_FORMAT,
                "the rank is 2.5");
    static const char *const alphas[] = { "1e31", "3e38", "1e300", "1e-50", "0", "-1" };
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        char config[200];
        snprintf(config, sizeof config, "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": %s}",
                 alphas[i]);
        load_config(config, COPSE_ERR_FORMAT, "\"lora_alpha\" is no number from 1e-30 to 1e30");
    }
    static const char *const begins[] = { "\"pissa\"", "\"pissa_niter_16\"", "\"olora\"",
                                          "\"corda\"", "\"loftq\"",          "\"anything\"",
                                          "3" };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        char config[200];
        snprintf(config, sizeof config, GOOD ", \"init_lora_weights\": %s}", begins[i]);
        load_config(config, COPSE_ERR_UNSUPPORTED, "\"init_lora_weights\" is ");
    }
    load_config(GOOD ", \"use_rslora\": \"true\"}", COPSE_ERR_FORMAT, "\"use_rslora\" is neither");
    load_config(GOOD ", \"bias\": true}", COPSE_ERR_FORMAT, "\"bias\" is neither");
    load_config(GOOD ", \"lora_dropout\": 1}", COPSE_ERR_FORMAT, "\"lora_dropout\"");
    load_config(GOOD ", \"use_dora\": true}", COPSE_ERR_FORMAT,
                "lacks \"" LAYER "v_proj.lora_magnitude_vector\"");
    load_config(GOOD ", \"use_dora\": 1}", COPSE_ERR_FORMAT, "\"use_dora\" is neither");
    load_config(GOOD ", \"rank_pattern\": {\"q_proj\": 4}}", COPSE_ERR_UNSUPPORTED,
                "\"rank_pattern\"");
    load_config(GOOD ", \"bias\": \"all\"}", COPSE_ERR_UNSUPPORTED, "\"bias\" is \"all\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 6}", COPSE_ERR_UNSUPPORTED,
                "is [3, 32]; for the rank 4");
    write_arrays(names, shapes, 1);
    load_config(GOOD "}", COPSE_ERR_FORMAT, "lacks \"" LAYER "v_proj.lora_B.weight\"");
    write_arrays(names, shapes, 0);
    load_config(GOOD "}", COPSE_ERR_FORMAT, "has no adapter of a weight");
    write_arrays(names, shapes, 3);
    load_config(GOOD "}", COPSE_ERR_UNSUPPORTED, "lm_head.lora_A.weight\" adapts no weight");
    const char *const dora[] = { names[0], names[1], LAYER "v_proj.lora_magnitude_vector" };
    write_arrays(dora,
                 (const size_t[][2]){ { RANK, WIDTH }, { KV * HEAD, RANK }, { KV * HEAD, 0 } }, 3);
    load_config(GOOD "}", COPSE_ERR_FORMAT,
                "lora_magnitude_vector\", and \"use_dora\" is not true");
    write_arrays(
        dora, (const size_t[][2]){ { RANK, WIDTH }, { KV * HEAD, RANK }, { KV * HEAD + 1, 0 } }, 3);
    load_config(GOOD ", \"use_dora\": true}", COPSE_ERR_SHAPE, "is not [16]");
    write_arrays(
        dora,
        (const size_t[][2]){ { RANK, WIDTH }, { KV * HEAD, RANK }, { KV * HEAD, NO_COLUMNS } }, 3);
    load_config(GOOD ", \"use_dora\": true}", COPSE_ERR_SHAPE, "is [16, 0]");
    write_arrays(names, (const size_t[][2]){ { RANK, WIDTH + 1 } }, 1);
    load_config(GOOD "}", COPSE_ERR_SHAPE, "is [3, 33]");
    remove(path_of("adapter_config.json"));
    FAILS(COPSE_ERR_IO, copse_language_load_adapter(language, path_of("some.safetensors")),
          "adapter_config.json");
    FAILS(COPSE_ERR_IO, copse_language_load_adapter(language, path_of("missing")), "missing");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_adapter(language, path_of("x.safetensors")),
          "has none to save");
    /* after all these a right one is taken */
    write_arrays(names, shapes, 2);
    static const char right[] = GOOD ", \"init_lora_weights\": \"eva\", \"use_rslora\": null, "
                                     "\"bias\": null}";
    temp_write("adapter_config.json", right, sizeof right - 1);
    OK(copse_language_load_adapter(language, path_of("some.safetensors")));
    FAILS(COPSE_ERR_IO, copse_language_save_adapter(language, path_of("none/x/y")), "none/x");
    copse_variable *v = variable_of(names[0]);
    float bad[RANK * WIDTH] = { [5] = NAN };
    OK(copse_variable_assign(v, bad));
    FAILS(COPSE_ERR_NONFINITE, copse_language_save_adapter(language, path_of("x.safetensors")),
          "element 5 of " LAYER "v_proj.lora_A.weight");
    close_file();
}

static void test_damaged_files(void **state)
{
    static unsigned char bytes[300000];
    (void)state;
    on = "host:0";
    open_adapted(&(struct copse_adapter_params){ .rank = 1, .targets = "v_proj" });
    OK(copse_language_save_adapter(language, path_of("good.safetensors")));
    close_file();
    FILE *f = fopen(path_of("good.safetensors"), "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    uint64_t header = 0;
    memcpy(&header, bytes, 8);
    assert_true(header < size);
    random_state = 12;
    int taken = 0;
    for (int i = 0; i < 60; i++) {
        float where[2];
        fill(where, 2, 1, 1);
        const size_t at = 8 + (size_t)(where[0] / 2 * (float)(header - 1));
        const unsigned char old = bytes[at];
        bytes[at] = (unsigned char)(32 + where[1] * 47);
        temp_write("damaged.safetensors", bytes, i % 4 ? size : at);
        bytes[at] = old;
        open_kind(&llama);
        const copse_status s =
            copse_language_load_adapter(language, path_of("damaged.safetensors"));
        taken += s == COPSE_OK;
        if (s != COPSE_OK && s != COPSE_ERR_FORMAT && s != COPSE_ERR_UNSUPPORTED &&
            s != COPSE_ERR_SHAPE && s != COPSE_ERR_IO)
            fail_msg("change %d: %s: %s", i, copse_status_name(s), copse_last_error());
        close_file();
    }
    assert_true(taken < 45);
}

/* A GGUF file keeps what an adapter computes, for both orders of rows; its bytes are as llama.cpp
   defines them. */
static void test_gguf_files(void **state)
{
    static const struct kind *const kinds[] = { &llama, &qwen2 };
    (void)state;
    on = "host:0";
    for (int i = 0; i < 2; i++) {
        struct copse_adapter_info info;
        struct copse_gguf_value alpha;
        float b[HEADS * HEAD * RANK], in_file[HEADS * HEAD * RANK];
        copse_gguf *f;
        open_kind(kinds[i]);
        OK(copse_language_adapt(language,
                                &(struct copse_adapter_params){ .rank = RANK,
                                                                .alpha = 2,
                                                                .is_rank_stabilised = true,
                                                                .targets = "q_proj,down_proj" }));
        fill_matrices();
        const double loss = evaluate();
        OK(copse_variable_read(variable_of(LAYER "q_proj.lora_B.weight"), 0, b));
        OK(copse_language_save_adapter(language, path_of("adapter.gguf")));
        close_file();
        OK(copse_gguf_open(ctx, path_of("adapter.gguf"), &f));
        OK(copse_gguf_get(f, "adapter.lora.alpha", 0, &alpha));
        assert_true(fabs(alpha.real - 2 / sqrt(RANK) * RANK) < 1e-6);
        OK(copse_gguf_read(f, "blk.0.attn_q.weight.lora_b", in_file, HEADS * HEAD * RANK));
        for (uint32_t r = 0; r < HEADS * HEAD; r++) {
            const uint32_t k = r % HEAD, from = i ? r : r - k + k / 2 + k % 2 * (HEAD / 2);
            assert_memory_equal(in_file + r * RANK, b + from * RANK, RANK * sizeof *b);
        }
        const struct copse_gguf_tensor *t = copse_gguf_find(f, "blk.1.ffn_down.weight.lora_a");
        assert_non_null(t);
        assert_true(t->shape[0] == RANK && t->shape[1] == HIDDEN);
        copse_gguf_release(&f);
        open_kind(kinds[i]);
        OK(copse_language_load_adapter(language, path_of("adapter.gguf")));
        OK(copse_language_describe_adapter(language, &info));
        assert_int_equal(info.weights, 2 * LAYERS);
        const double again = evaluate();
        assert_true(fabs(again - loss) < 1e-6);
        close_file();
        open_kind(kinds[1 - i]);
        FAILS(COPSE_ERR_UNSUPPORTED, copse_language_load_adapter(language, path_of("adapter.gguf")),
              "\"general.architecture\" is not");
        FAILS(COPSE_ERR_UNSUPPORTED, copse_language_load_adapter(language, path_of("model.gguf")),
              "\"general.type\" is not \"adapter\"");
        close_file();
    }
}

/* Alpha has one range: what is made can be saved and loaded. */
static void test_alphas(void **state)
{
    static const float alphas[] = { 1e-30f, 1e30f };
    static const char *const names[] = { "alpha.safetensors", "alpha", "alpha.gguf" };
    (void)state;
    on = "host:0";
    for (int i = 0; i < 2; i++) {
        open_adapted(&(struct copse_adapter_params){
            .rank = RANK, .alpha = alphas[i], .dropout = 0.99999994f, .targets = "v_proj" });
        for (int n = 0; n < 3; n++)
            OK(copse_language_save_adapter(language, path_of(names[n])));
        close_file();
        for (int n = 0; n < 3; n++)
            assert_true(loaded_alpha(path_of(names[n])) == alphas[i]);
    }
    open_adapted(&(struct copse_adapter_params){
        .rank = RANK, .alpha = 1e30f, .is_rank_stabilised = true, .targets = "v_proj" });
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_adapter(language, path_of("alpha.gguf")),
          "alpha sqrt(rank) is 1.73205e+30");
    close_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_gguf_files),
        cmocka_unit_test(test_alphas),

        cmocka_unit_test(test_folder_with_older_settings),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
