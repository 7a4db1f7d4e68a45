/* SPDX-License-Identifier: MIT */
/* Language models from folders: the same predictions as a reference in double precision and as a
   GGUF file of the same weights; folders that are not as they must be are refused. */
#include "tests/language/folder_rig.h"

static void assert_refused(copse_status status, const char *says)
{
    FAILS(status, open_path(temp_path("model")), says);
    assert_null(language);
    copse_strategy_release(&st);
}

/* Each architecture and each type; also from one file by its name. */
static void test_losses(void **state)
{
    static const struct kind *const kinds[] = { &llama, &qwen2, &qwen3, &gemma };
    static const copse_type types[] = { COPSE_F32, COPSE_F16, COPSE_BF16 };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t t = 0; t < 3; t++) {
            make_folder(kinds[i], types[t]);
            OK(open_path(folder_write(&made, ctx, kinds[i])));
            assert_right(kinds[i], copse_type_name(types[t]));
            close_file();
        }
    OK(open_path(temp_path("model/model.safetensors")));
    assert_right(&gemma, "by the name of the file");
    close_file();
}

/* A GGUF file of the same weights has the same numbers. */
static void test_as_gguf(void **state)
{
    uint64_t tokens;
    (void)state;
    make_folder(&llama, COPSE_F32);
    OK(open_path(folder_write(&made, ctx, &llama)));
    const double loss = folder_loss(&tokens);
    close_file();
    open_kind(&llama);
    assert_true(folder_loss(&tokens) == loss);
    close_file();
}

/* So have positions that are scaled alike. */
static void test_linear_as_gguf(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    uint64_t tokens;
    (void)state;
    make_folder(&llama, COPSE_F32);
    made.more = ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}";
    OK(open_path(folder_write(&made, ctx, &llama)));
    const double loss = folder_loss(&tokens);
    close_file();
    for (int i = 0; i < 2; i++) {
        put_model(&f, &llama);
        if (i == 0)
            gguf_key_text(&f, "llama.rope.scaling.type", "linear");
        gguf_key_f32(&f, i ? "llama.rope.scale_linear" : "llama.rope.scaling.factor", 4.0f);
        OK(open_file(&f));
        assert_true(folder_loss(&tokens) == loss);
        close_file();
    }
    made.more = NULL;
}

static void write_index(const char *second, const char *more)
{
    static char index[16384];
    char *to = index + sprintf(index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < made.count; i++)
        to += sprintf(to, "%s\"%s\": \"%s\"", i ? ", " : "", made.names[i],
                      i < made.count / 2 ? "model-1.safetensors" : second);
    sprintf(to, "%s}}", more);
    folder_text("model.safetensors.index.json", index);
}

/* Several files with an index that says where a tensor is. */
static void test_index(void **state)
{
    static const struct {
        const char *second, *more, *says;
    } wrong[] = {
        { "../model-2.safetensors", "", "is no name of a .safetensors file in its folder" },
        { "/model-2.safetensors", "", "is no name of a .safetensors file" },
        { ".safetensors", "", "is no name of a .safetensors file" },
        { "model-2.bin", "", "is no name of a .safetensors file" },
        { "model-2.safetensors", ", \"extra\": \"model-2.safetensors\"",
          "\"model-2.safetensors\" has no tensor \"extra\"" },
        { "model-2.safetensors", ", \"extra\": 3", "the file of \"extra\" is no text" },
        { "model-2.safetensors", ", \"model.norm.weight\": \"model-1.safetensors\"",
          "tensors; its files have" },
        { "model-1.safetensors", "", "has no tensor" },
        { "model-2.safetensors", "}}, {\"a\": {\"a\":", "this is no index" },
    };
    (void)state;
    make_folder(&qwen2, COPSE_F32);
    folder_write(&made, ctx, &qwen2);
    unlink(temp_path("model/model.safetensors"));
    assert_refused(COPSE_ERR_IO, "has neither model.safetensors nor model.safetensors.index.json");
    folder_weights(&made, ctx, "model-1.safetensors", 0, made.count / 2);
    folder_weights(&made, ctx, "model-2.safetensors", made.count / 2, made.count);
    write_index("model-2.safetensors", "");
    OK(open_path(temp_path("model")));
    assert_right(&qwen2, "two files");
    close_file();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_index(wrong[i].second, wrong[i].more);
        assert_refused(COPSE_ERR_FORMAT, wrong[i].says);
    }
    write_index("model-3.safetensors", "");
    assert_refused(COPSE_ERR_IO, "model-3.safetensors");
    write_index("model-2.safetensors", "");
    folder_weights(&made, ctx, "model-2.safetensors", made.count / 2 - 1, made.count);
    assert_refused(COPSE_ERR_FORMAT, "which model-1.safetensors has too");
    unlink(temp_path("model/model.safetensors.index.json"));
}

/* ---- config.json ---- */

/* Waves that are longer by a factor are places that are nearer: a window of one token differs. */
static void test_turns(void **state)
{
    static const struct {
        const char *more, *says; /* NULL: it is right */
    } cases[] = {
        { ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}", NULL },
        { ", \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 100}",
          NULL },
        { ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}",
          "scales its rotary positions (\"yarn\")" },
        { ", \"rope_scaling\": {\"rope_type\": \"linear\"}", "has no \"factor\"" },
        { ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}",
          "\"factor\" is no positive number" },
        { ", \"rope_parameters\": 3", "has neither \"rope_theta\" nor \"rope_type\"" },
        { ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}",
          "has neither \"rope_theta\" nor \"rope_type\"" },
        { ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
          "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 64}",
          "is not above the low one" },
        { ", \"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\" is \"not 1\"" },
    };
    double losses[2];
    uint64_t tokens;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    OK(open_path(temp_path("model")));
    const double plain = folder_loss(&tokens);
    close_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made.more = cases[i].more;
        folder_config(&made, &llama);
        if (cases[i].says) {
            FAILS((strstr(cases[i].more, "yarn") || strstr(cases[i].more, "partial"))
                      ? COPSE_ERR_UNSUPPORTED
                      : COPSE_ERR_FORMAT,
                  open_path(temp_path("model")), cases[i].says);
            copse_strategy_release(&st);
            continue;
        }
        OK(open_path(temp_path("model")));
        losses[i] = folder_loss(&tokens);
        close_file();
    }
    made.more = NULL;
    assert_true(losses[0] == losses[1] && fabs(losses[0] - plain) > 1e-4);
}

/* A window as long as the text changes nothing, a short one does; layers are all alike. */
static void test_window(void **state)
{
    static const struct kind mistral = { .name = "mistral", .is_tied = true };
    uint64_t tokens;
    (void)state;
    make_folder(&llama, COPSE_F32);
    made.more = ", \"sliding_window\": null";
    OK(open_path(folder_write(&made, ctx, &mistral)));
    const double all = folder_loss(&tokens);
    close_file();
    made.more = ", \"sliding_window\": 10";
    folder_config(&made, &mistral);
    OK(open_path(temp_path("model")));
    assert_true(fabs(folder_loss(&tokens) - all) < 1e-6);
    close_file();
    made.more = ", \"sliding_window\": 2";
    folder_config(&made, &mistral);
    OK(open_path(temp_path("model")));
    assert_true(fabs(folder_loss(&tokens) - all) > 1e-4);
    close_file();
    /* these settings are not of mistral */
    made.more = ", \"sliding_window\": 2, \"use_sliding_window\": false, \"layer_types\": 3";
    folder_config(&made, &mistral);
    OK(open_path(temp_path("model")));
    assert_true(fabs(folder_loss(&tokens) - all) > 1e-4);
    close_file();
    made.more = NULL;
}

/* Qwen's models say whether there is a window, and in which layers. */
static void test_window_of_layers(void **state)
{
#define TYPES(a, b) ", \"layer_types\": [\"" a "_attention\", \"" b "_attention\"]"
#define USED        ", \"use_sliding_window\": true"
    static const struct {
        const char *more;
        copse_status status;
        const char *says; /* of COPSE_OK: NULL: there is no window of two tokens */
    } cases[] = {
        { ", \"sliding_window\": 2, \"max_window_layers\": 0", COPSE_OK, NULL },
        { ", \"sliding_window\": 2" USED, COPSE_OK, NULL }, /* layers from 28 on */
        { ", \"sliding_window\": 2, \"max_window_layers\": 0" USED, COPSE_OK, "window" },
        { ", \"max_window_layers\": 0" USED, COPSE_OK, NULL }, /* of 4096 tokens */
        { ", \"sliding_window\": null, \"max_window_layers\": 0" USED, COPSE_OK, NULL },
        { ", \"sliding_window\": 2, \"max_window_layers\": 1" USED, COPSE_OK, "window" },
        { ", \"max_window_layers\": -1" USED, COPSE_ERR_FORMAT, "\"max_window_layers\" is no" },
        { ", \"sliding_window\": 2" TYPES("sliding", "sliding"), COPSE_OK, NULL },
        { ", \"sliding_window\": 2" TYPES("sliding", "sliding") USED, COPSE_OK, "window" },
        { ", \"sliding_window\": 2" TYPES("sliding", "full") USED, COPSE_OK, "window" },
        { TYPES("full", "linear"), COPSE_ERR_UNSUPPORTED,
          "\"layer_types\" is \"linear_attention\"" },
        { ", \"layer_types\": [\"full_attention\"]", COPSE_ERR_FORMAT,
          "\"layer_types\" has 1 layers, the model 2" },
    };
    uint64_t tokens;
    (void)state;
    make_folder(&qwen2, COPSE_F32);
    OK(open_path(folder_write(&made, ctx, &qwen2)));
    const double all = folder_loss(&tokens);
    close_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made.more = cases[i].more;
        folder_config(&made, &qwen2);
        if (cases[i].status != COPSE_OK) {
            assert_refused(cases[i].status, cases[i].says);
            continue;
        }
        OK(open_path(temp_path("model")));
        if ((fabs(folder_loss(&tokens) - all) > 1e-4) != (cases[i].says != NULL))
            fail_msg("%s: %s", cases[i].more, cases[i].says ? "no window" : "a window");
        close_file();
    }
    made.more = NULL;
}

static void test_refused(void **state)
{
    static const struct folder_change cases[] = {
        { COPSE_ERR_UNSUPPORTED, "\"llama\"", "\"gpt_neox\"", "has the model type \"gpt_neox\"" },
        { COPSE_ERR_FORMAT, "\"model_type\"", "\"model_kind\"", "has no \"model_type\"" },
        { COPSE_ERR_FORMAT, "\"hidden_size\": 32", "\"hidden_size\": 9223372036854775808",
          "\"hidden_size\" is no number from 1" },
        { COPSE_ERR_FORMAT, "\"hidden_size\": 32", "\"hidden_size\": -1", "is no number from 1" },
        { COPSE_ERR_FORMAT, "\"hidden_size\": 32", "\"hidden_size\": \"32\"", "is no number" },
        { COPSE_ERR_UNSUPPORTED, "\"hidden_size\": 32", "\"hidden_size\": 1000000",
          "attention takes up to 256" },
        { COPSE_ERR_FORMAT, "\"vocab_size\": 260", "\"vocab_size\": 2000000000",
          "\"model.embed_tokens.weight\" is not [2000000000, 32]" },
        { COPSE_ERR_FORMAT, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
          "has no tensor \"model.layers.2.input_layernorm.weight\"" },
        { COPSE_ERR_UNSUPPORTED, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
          "has no tensor \"model.layers.1." },
        { COPSE_ERR_UNSUPPORTED, "\"silu\"", "\"gelu\"", "\"hidden_act\" is \"gelu\"" },
        { COPSE_ERR_UNSUPPORTED, "{", "{\"quantization_config\": {}, ", "quantization_config" },
        { COPSE_ERR_UNSUPPORTED, "{", "{\"attention_bias\": true, ", "\"attention_bias\" is" },
        { COPSE_ERR_FORMAT, "\"eos_token_id\": 257", "\"eos_token_id\": 260",
          "\"eos_token_id\" is no token" },
        { COPSE_ERR_FORMAT, "{", "{\"bos_token_id\": 260, ", "\"bos_token_id\" is no token" },
        { COPSE_ERR_FORMAT, "}", "", "is not one JSON object" },
        { COPSE_ERR_FORMAT, "{", "[", "is not one JSON object" },
        { COPSE_ERR_FORMAT, "{", "\xff{", "is not UTF-8" },
    };
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    try_changes("config.json", &llama, cases, sizeof cases / sizeof *cases);
    unlink(temp_path("model/config.json"));
    assert_refused(COPSE_ERR_IO, "config.json");
    FAILS(COPSE_ERR_IO, open_path(temp_path("no_model")), "no_model");
    copse_strategy_release(&st);
}

/* Tensors that are too few, too many, or of another type or shape. */
static void test_tensors(void **state)
{
    static const int32_t whole[TOKENS * WIDTH];
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    folder_weights(&made, ctx, "model.safetensors", 0, made.count - 1);
    assert_refused(COPSE_ERR_FORMAT, "has no tensor \"model.layers.1.mlp.down_proj.weight\"");
    folder_add(&made, "lm_head.weight", TOKENS, WIDTH, net.head); /* not used: the head is tied */
    folder_add(&made, "model.layers.0.self_attn.rotary_emb.inv_freq", 0, HEAD / 2, net.norm);
    folder_write(&made, ctx, &llama);
    OK(open_path(temp_path("model")));
    assert_right(&llama, "spare tensors");
    close_file();
    folder_add(&made, "model.layers.0.self_attn.q_proj.bias", 0, HEADS * HEAD, net.layer[0].bias);
    folder_write(&made, ctx, &llama);
    assert_refused(COPSE_ERR_UNSUPPORTED, "has no tensor \"model.layers.0.self_attn.q_proj.bias\"");
    make_folder(&llama, COPSE_F32);
    made.arrays[0].array.data = whole;
    made.arrays[0].array.type = COPSE_I32;
    folder_write(&made, ctx, &llama);
    assert_refused(COPSE_ERR_UNSUPPORTED, "\"model.embed_tokens.weight\" is i32");
    make_folder(&llama, COPSE_F32);
    made.arrays[1].array.shape[0]--;
    folder_write(&made, ctx, &llama);
    assert_refused(COPSE_ERR_FORMAT, "\"model.norm.weight\" is not [1, 32]");
}

/* ---- the tokenizer ---- */

static void assert_tokens(const char *of, const int32_t *expected, size_t count)
{
    int32_t tokens[32];
    size_t n;
    OK(copse_language_encode(language, of, strlen(of), tokens, 32, &n));
    if (n != count || memcmp(tokens, expected, count * sizeof *tokens) != 0)
        fail_msg("'%s': %zu tokens, the first is %d, not %d", of, n, n ? tokens[0] : -1,
                 expected[0]);
}
#define TOKENS_ARE(of, ...)                             \
    assert_tokens(of, (const int32_t[]){ __VA_ARGS__ }, \
                  sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t))

static void test_tokens(void **state)
{
    struct copse_language_info info;
    size_t size;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    folder_text("tokenizer_config.json",
                "{\"chat_template\": [{\"name\": \"default\", \"template\": "
                "\"{{ '<|im_start|>system\\nBe brief.<|im_end|>' }}\"}]}");
    OK(open_path(temp_path("model")));
    TOKENS_ARE("hello<|im_end|> he\xff", HELLO, 'l', 'o', END, ' ', HE, 0xff);
    TOKENS_ARE("he 12", HE, ' ', '1', '2');
    assert_memory_equal(copse_language_token(language, HELLO, &size), "hel", 3);
    OK(copse_language_describe(language, &info));
    assert_string_equal(info.chat, "chatml");
    close_file();
    folder_text("chat_template.jinja", "{{ '<|assistant|>' }}");
    OK(open_path(temp_path("model")));
    OK(copse_language_describe(language, &info));
    assert_string_equal(info.chat, "zephyr");
    close_file();
    folder_text("tokenizer_config.json", "{\"add_bos_token\": true}");
    assert_refused(COPSE_ERR_FORMAT, "\"add_bos_token\" is true, and the model has no");
    made.more = ", \"bos_token_id\": 256";
    folder_config(&made, &llama);
    OK(open_path(temp_path("model")));
    TOKENS_ARE("he", BEGIN, HE);
    close_file();
    folder_text("tokenizer_config.json", "{\"add_eos_token\": true}");
    assert_refused(COPSE_ERR_UNSUPPORTED, "\"add_eos_token\" is true");
    folder_text("tokenizer_config.json", "{\"add_bos_token\": 1}");
    assert_refused(COPSE_ERR_FORMAT, "\"add_bos_token\" is neither true nor false");
    made.more = NULL;
    unlink(temp_path("model/chat_template.jinja"));
    unlink(temp_path("model/tokenizer_config.json"));
}

/* Pieces: spaces are U+2581, what has no token is bytes, and a text begins with a token. */
static void write_pieces(const char *cuts)
{
    char *to = made.tokenizer;
    to += sprintf(to,
                  "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true, "
                  "\"normalized\": false}], \"post_processor\": {\"type\": "
                  "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
                  "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": {\"ids\": "
                  "[1]}}}, %s, \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, "
                  "\"unk_token\": \"<s>\", \"vocab\": {\"<s>\": 1, \"\u2581\": 2, \"a\": 0, "
                  "\"b\": 259, \"\u2581a\": 258, \"ab\": 257",
                  cuts);
    for (int i = 3; i < 256; i++)
        to += sprintf(to, ", \"<0x%02X>\": %d", i, i);
    sprintf(to, "}, \"merges\": [\"a b\", \"\u2581 a\"]}}");
    folder_text("tokenizer.json", made.tokenizer);
}

static void replace_piece(const char *from, const char *to)
{
    static char changed[sizeof made.tokenizer];
    const char *at = strstr(made.tokenizer, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - made.tokenizer), made.tokenizer, to,
             at + strlen(from));
    memcpy(made.tokenizer, changed, sizeof changed);
    folder_text("tokenizer.json", made.tokenizer);
}

static void test_pieces(void **state)
{
    static const char prepend[] = "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
                                  "[{\"type\": \"Prepend\", \"prepend\": \"\u2581\"}, {\"type\": "
                                  "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
                                  "\"\u2581\"}]}, \"pre_tokenizer\": null",
                      first[] = "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": "
                                "\"\u2581\", \"prepend_scheme\": \"first\", \"split\": false}";
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    write_pieces(prepend);
    OK(open_path(temp_path("model")));
    TOKENS_ARE("", 1);
    TOKENS_ARE("ab", 1, 2, 257); /* "a b" is merged first */
    TOKENS_ARE("a", 1, 258);
    TOKENS_ARE(" a", 1, 2, 258);
    TOKENS_ARE("a<s>a", 1, 258, 1, 258); /* a space after each special token */
    TOKENS_ARE("a\u2581z\xc3\xa9", 1, 258, 2, 'z', 0xc3, 0xa9);
    close_file();
    write_pieces(first);
    OK(open_path(temp_path("model")));
    TOKENS_ARE("a<s>a", 1, 258, 1, 0);
    TOKENS_ARE(" a", 1, 258); /* a space is there */
    TOKENS_ARE("<s>a", 1, 1, 0);
    close_file();
    /* the token at the beginning is no added one */
    write_pieces(prepend);
    replace_piece("{\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": false}",
                  "");
    OK(open_path(temp_path("model")));
    TOKENS_ARE("a", 1, 258);
    close_file();
    /* a byte of the character has no token: the character becomes one unknown token */
    replace_piece(", \"<0xA9>\": 169", "");
    OK(open_path(temp_path("model")));
    TOKENS_ARE("a\xc3\xa9", 1, 258, 1);
    close_file();
    write_pieces(prepend);
    replace_piece("\"normalized\": false", "\"normalized\": true");
    assert_refused(COPSE_ERR_UNSUPPORTED, "\"<s>\" has \"normalized\"");
    write_pieces(prepend);
    replace_piece("\"pre_tokenizer\": null", first);
    assert_refused(COPSE_ERR_UNSUPPORTED, "Metaspace after the normalizer Prepend");
    write_pieces(prepend);
    replace_piece("{\"type\": \"Prepend\"", "{\"type\": \"NFC\"}, {\"type\": \"Prepend\"");
    assert_refused(COPSE_ERR_UNSUPPORTED, "the normalizer NFC for a vocabulary of pieces");
}

/* An added token that the vocabulary has, too, takes part in merges. */
static void test_added_in_vocabulary(void **state)
{
    static char changed[17000];
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    const char *at = strstr(made.tokenizer, "{\"id\": 256");
    assert_non_null(at);
    snprintf(changed, sizeof changed,
             "%.*s{\"id\": 113, \"content\": \"q\"}, {\"id\": %d, \"content\": \"he\"}, %s",
             (int)(at - made.tokenizer), made.tokenizer, HE, at);
    folder_text("tokenizer.json", changed);
    OK(open_path(temp_path("model")));
    TOKENS_ARE("hel", HE, 'l'); /* named ones are cut out first */
    TOKENS_ARE("aq", 'a', 'q');
    close_file();
}

static void test_tokenizers_refused(void **state)
{
    static const struct folder_change cases[] = {
        { COPSE_ERR_UNSUPPORTED, "\"BPE\"", "\"Unigram\"", "of the kind \"Unigram\"" },
        { COPSE_ERR_UNSUPPORTED, "\"Digits\"", "\"Whitespace\"", "pre-tokenizer \"Whitespace\"" },
        { COPSE_ERR_UNSUPPORTED, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}",
          "its normalizer \"NFKC\"" },
        { COPSE_ERR_UNSUPPORTED, "\"post_processor\": null",
          "\"post_processor\": {\"type\": \"BertProcessing\"}", "\"BertProcessing\"" },
        { COPSE_ERR_UNSUPPORTED, "\"type\": \"Digits\", \"individual_digits\": true",
          "\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"a+\"}",
          "its pattern of words \"a+\"" },
        { COPSE_ERR_UNSUPPORTED, "\"BPE\"", "\"BPE\", \"end_of_word_suffix\": \"</w>\"",
          "end_of_word_suffix" },
        { COPSE_ERR_UNSUPPORTED, "\"BPE\"", "\"BPE\", \"byte_fallback\": true", "byte_fallback" },
        { COPSE_ERR_UNSUPPORTED, "\"special\": true", "\"special\": true, \"lstrip\": true",
          "has \"lstrip\"" },
        { COPSE_ERR_FORMAT, "\"id\": 256", "\"id\": 260", "is not one of the 260 of the model" },
        { COPSE_ERR_FORMAT, "\"id\": 256", "\"id\": 25.5", "is not one of the 260" },
        { COPSE_ERR_FORMAT, "\"hel\": 259", "\"hel\": 258", "the number 258 has two tokens" },
        { COPSE_ERR_FORMAT, "\"hel\": 259", "\"he\": 259", "are the same text" },
        { COPSE_ERR_FORMAT, "\"hel\": 259", "\"hel\": 1e300", "is not one of the 260" },
        { COPSE_ERR_FORMAT, "\"h e\"", "\"h ee\"", "merge 0 does not join" },
        { COPSE_ERR_FORMAT, "\"h e\"", "[\"h\", \"e\", \"l\"]", "merge 0 does not join" },
        { COPSE_ERR_FORMAT, "\"version\": \"1.0\"", "\"model\": {}", "\"model\" is there twice" },
        { COPSE_ERR_FORMAT, "\"hel\"", "\"hel", "this is no tokenizer" },
        { COPSE_ERR_FORMAT, "\"q\": 113, ", "", "neither a token for the byte 0x71" },
        { COPSE_ERR_UNSUPPORTED, "\"vocab\": {\"\u0100\": 0, ",
          "\"fuse_unk\": true, \"unk_token\": \"he\", \"vocab\": {",
          "\"fuse_unk\": true and bytes without a token" },
    };
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    try_changes("tokenizer.json", &llama, cases, sizeof cases / sizeof *cases);
    unlink(temp_path("model/tokenizer.json"));
    assert_refused(COPSE_ERR_IO, "tokenizer.json");
}

/* Damaged files of a folder: an error or a model, nothing is lost. */
static void test_damaged(void **state)
{
    static const char *const names[] = { "config.json", "tokenizer.json",
                                         "model.safetensors.index.json" };
    struct copse_memory_stats before, after;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    unlink(temp_path("model/model.safetensors"));
    folder_weights(&made, ctx, "model-1.safetensors", 0, made.count / 2);
    folder_weights(&made, ctx, "model-2.safetensors", made.count / 2, made.count);
    write_index("model-2.safetensors", "");
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_context_memory(ctx, &before);
    random_state = 5;
    for (int i = 0; i < 300; i++) {
        float where[3];
        size_t size;
        char path[100];
        snprintf(path, sizeof path, "model/%s", names[i % 3]);
        unsigned char *bytes = temp_bytes(temp_path(path), &size);
        fill(where, 3, 1, 1);
        const size_t at = (size_t)(where[0] / 2 * (float)(size - 1));
        const unsigned char old = bytes[at];
        bytes[at] = where[1] < 1 ? (unsigned char)(where[2] * 127) : old ^ 1;
        temp_write(path, bytes, i % 10 == 0 ? at : size);
        const copse_status s = copse_language_open(st, temp_path("model"), NULL, &language);
        if (s == COPSE_OK)
            copse_language_release(&language);
        else if (s != COPSE_ERR_FORMAT && s != COPSE_ERR_UNSUPPORTED && s != COPSE_ERR_IO)
            fail_msg("change %d: %s: %s", i, copse_status_name(s), copse_last_error());
        bytes[at] = old;
        temp_write(path, bytes, size);
        free(bytes);
    }
    close_file();
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_context_memory(ctx, &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
    close_file();
    folder_free(&made);
    made.count = 0;
}

/* ---- memory ---- */

static unsigned calls, failing; /* from which call; 0: none */

static void *resize_or_fail(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return failing > 0 && ++calls >= failing ? NULL : realloc(block, size);
}

/* Wherever memory ends, the strategy has no variable of the model: it can be opened again. */
static void test_without_memory(void **state)
{
    copse_context *own;
    struct copse_memory_stats before, after;
    unsigned failures = 0;
    (void)state;
    make_folder(&llama, COPSE_BF16);
    const char *path = folder_write(&made, ctx, &llama);
    OK(copse_context_create(
        &(struct copse_context_params){ .disable = "opencl,vulkan", .resize = resize_or_fail },
        &own));
    OK(copse_one_device_create(own, "host:0", NULL, &st));
    OK(copse_language_open(st, path, NULL, &language));
    copse_language_release(&language);
    copse_context_memory(own, &before);
    for (unsigned i = 1; !language; i++) {
        calls = 0;
        failing = i;
        const copse_status s = copse_language_open(st, path, NULL, &language);
        failing = 0;
        if (s == COPSE_OK)
            break;
        failures++;
        if (s != COPSE_ERR_NO_MEMORY)
            fail_msg("call %u: %s: %s", i, copse_status_name(s), copse_last_error());
        assert_null(language);
        copse_context_memory(own, &after);
        assert_true(after.live_blocks <= before.live_blocks); /* a pool may be emptied */
    }
    assert_true(failures > 20);
    copse_language_release(&language);
    copse_strategy_release(&st);
    copse_context_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_as_gguf),
        cmocka_unit_test(test_linear_as_gguf),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_window_of_layers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_added_in_vocabulary),
        cmocka_unit_test(test_tokenizers_refused),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
