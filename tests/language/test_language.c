/* SPDX-License-Identifier: MIT */
/* Language models from GGUF files: a small one, made here with random weights, predicts and writes
   what a reference in double precision says; files that are not as they must be are refused. */
#include "core/language/language.h"

#include "tests/language/language_rig.h"

static int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx) != COPSE_OK;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* ---- what is right ---- */

static void test_losses(void **state)
{
    static const struct kind *const kinds[] = { &llama, &qwen2,  &qwen3, &llama_blocks,
                                                &gemma, &gemma2, &gemma3 };
    static const char text[] = "the hen 12 hello\nowl fox ?";
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct copse_language_evaluation e;
        int32_t tokens[MOST];
        double outputs[TOKENS], sum = 0;
        size_t count, windows = 0;
        open_kind(kinds[i]);
        OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
        assert_true(count > 20 && count < MOST);
        OK(copse_language_evaluate(language, text, sizeof text - 1, 10, &e));
        for (size_t t = 0; t < count; t++) {
            windows += t % 10 == 0;
            if (t % 10 > 0)
                sum += loss_of(outputs, tokens[t]);
            predict(kinds[i], tokens[t], (int)(t % 10), outputs);
        }
        assert_int_equal(e.tokens, count - windows);
        if (!(fabs(e.loss - sum / (double)e.tokens) < 2e-5))
            fail_msg("%s: loss %.9g, not %.9g", kinds[i]->name, e.loss, sum / (double)e.tokens);
        close_file();
    }
}

static struct copse_tokens_seen {
    uint32_t at[MOST];
    size_t count;
} seen;

static copse_status see_token(void *user, uint32_t token, const char *text, size_t size)
{
    (void)user, (void)text, (void)size;
    seen.at[seen.count++] = token;
    return COPSE_OK;
}

/* The likeliest tokens, from a prompt of more than a chunk to more than the slots before. */
static void write_and_compare(const struct kind *k, size_t prompt_bytes)
{
    static char prompt[] = "the owl sleeps, the fox runs and the cat waits; the hen sings all day "
                           "long while the dog is away from home and nobody sees the thief come in";
    int32_t tokens[MOST];
    double outputs[TOKENS];
    size_t count;
    const struct copse_generate_params how = { .length = 24 };
    open_kind(k);
    seen.count = 0;
    OK(copse_language_encode(language, prompt, prompt_bytes, tokens, MOST, &count));
    OK(copse_language_generate(language, prompt, prompt_bytes, &how, see_token, NULL));
    for (size_t t = 0; t < count; t++)
        predict(k, tokens[t], (int)t, outputs);
    for (size_t i = 0; i < how.length; i++) {
        uint32_t best = 0;
        for (uint32_t t = 1; t < TOKENS; t++)
            best = outputs[t] > outputs[best] ? t : best;
        if (best == END) {
            assert_int_equal(seen.count, i);
            break;
        }
        assert_true(i < seen.count);
        if (seen.at[i] != best && !(outputs[best] - outputs[seen.at[i]] < 1e-4))
            fail_msg("%s, prompt of %zu: token %zu is %u, not %u", k->name, count, i, seen.at[i],
                     best);
        predict(k, (int32_t)seen.at[i], (int)(count + i), outputs);
    }
    close_file();
}

static void test_writes(void **state)
{
    static const size_t sizes[] = { 1, 63, 64, 65, 66, 129, 130 };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        write_and_compare(&llama, sizes[i]);
    write_and_compare(&qwen3, 100);
    write_and_compare(&gemma, 100);
    write_and_compare(&gemma2, 100);
    write_and_compare(&gemma3, 100);
    write_and_compare(&llama_blocks, 100);
}

/* Quantised matrices stay quantised, or become f32 if that is asked for: with the same results. */
static void test_weights(void **state)
{
    enum { COLUMNS = TOKENS + LAYERS * (2 * HEADS * HEAD + 2 * KV * HEAD + 2 * HIDDEN) };
    static const char text[] = "the hen 12 hello\nowl fox ?";
    struct copse_language_evaluation e[2];
    struct copse_language_info info[2];
    copse_variable *const *list;
    size_t counts[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        how_to_open.weights = i == 0 ? COPSE_WEIGHTS_FILE : COPSE_WEIGHTS_F32;
        open_kind(&llama_blocks);
        OK(copse_language_evaluate(language, text, sizeof text - 1, 10, &e[i]));
        OK(copse_language_describe(language, &info[i]));
        copse_strategy_variables(st, &list, &counts[i]);
        for (size_t v = 0; v < counts[i]; v++)
            assert_false(copse_variable_is_trained(list[v]));
        close_file();
    }
    how_to_open.weights = COPSE_WEIGHTS_FILE;
    /* the embedding has words and scales, six matrices of a layer offsets, too */
    assert_int_equal(counts[0], counts[1] + 1 + 2 * 6 * LAYERS);
    assert_true(fabs(e[0].loss - e[1].loss) < 1e-6);
    assert_int_equal(info[0].parameters, info[1].parameters);
    assert_int_equal(info[1].weight_bytes, 4 * info[1].parameters);
    /* of 32 numbers: 128 bytes; of 8 bits with a scale 36, of 4 bits with scale and offset 24 */
    assert_int_equal(info[1].weight_bytes - info[0].weight_bytes,
                     COLUMNS * WIDTH / 32 * (128 - 24) - TOKENS * WIDTH / 32 * (36 - 24));
    how_to_open.weights = (copse_weights)2;
    struct gguf_file f = { .key_count = 0 };
    put_model(&f, &llama_blocks);
    FAILS(COPSE_ERR_ARGUMENT, open_file(&f), "weights 2");
    how_to_open.weights = COPSE_WEIGHTS_FILE;
    close_file();
}

static void test_tokens(void **state)
{
    static const char text[] = "hello<|im_end|> he\xff";
    static const int32_t expected[] = { HELLO, 'l', 'o', END, ' ', HE, 0xff };
    int32_t tokens[16];
    struct copse_language_info info;
    char chat[200];
    size_t count, size;
    (void)state;
    open_kind(&llama);
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, 16, &count));
    assert_int_equal(count, sizeof expected / sizeof *expected);
    assert_memory_equal(tokens, expected, sizeof expected);
    assert_memory_equal(copse_language_token(language, HELLO, &size), "hel", 3);
    assert_int_equal(size, 3);
    assert_memory_equal(copse_language_token(language, 0xff, &size), "\xff", 1);
    assert_null(copse_language_token(language, TOKENS, &size));
    assert_null(copse_language_token(language, -1, &size));
    OK(copse_language_describe(language, &info));
    assert_string_equal(info.chat, "chatml");
    assert_int_equal(info.vocabulary, TOKENS);
    OK(copse_language_chat(language, NULL, "Why?", chat, sizeof chat, &size));
    assert_string_equal(chat, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?"
                              "<|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(size, strlen(chat) + 1);
    OK(copse_language_chat(language, "", "Why?", chat, sizeof chat, &size));
    assert_memory_equal(chat, "<|im_start|>user", 16);
    FAILS(COPSE_ERR_ARGUMENT, copse_language_chat(language, "", "Why?", chat, 9, &size), "bytes");
    char *long_text = malloc((16 << 20) + 2);
    assert_non_null(long_text);
    memset(long_text, 'a', (16 << 20) + 1);
    long_text[(16 << 20) + 1] = '\0';
    FAILS(COPSE_ERR_ARGUMENT, copse_language_chat(language, long_text, "", chat, 0, &size),
          "the text of the system has more than 16777216 bytes");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_chat(language, "", long_text, chat, 0, &size),
          "the question has more than 16777216 bytes");
    OK(copse_language_chat(language, long_text + 1, "", NULL, 0, &size));
    assert_true(size > 16 << 20);
    free(long_text);
    close_file();
}

/* A text begins with the token for that where the file says so, or nothing and its pattern does. */
static void test_begins(void **state)
{
    static const struct {
        const char *pre;
        int said; /* 2: nothing */
        size_t count;
    } cases[] = {
        { "smollm", 2, 1 }, { "llama-bpe", 2, 2 }, { "smollm", 1, 2 }, { "llama-bpe", 0, 1 }
    };
    (void)state;
    fill_all();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_file f = { .key_count = 0 };
        int32_t tokens[2];
        size_t count;
        pre = cases[i].pre;
        put_model(&f, &llama);
        gguf_key_u32(&f, "tokenizer.ggml.bos_token_id", BEGIN);
        if (cases[i].said < 2)
            gguf_key(&f, "tokenizer.ggml.add_bos_token", 7),
                gguf_number(&f.keys, (uint64_t)cases[i].said, 1);
        OK(open_file(&f));
        OK(copse_language_encode(language, "a", 1, tokens, 2, &count));
        assert_int_equal(count, cases[i].count);
        assert_int_equal(tokens[0], count == 2 ? BEGIN : 'a');
        close_file();
    }
    pre = "smollm";
}

/* A text ends with the token for that, and with the token for the end of a turn. */
static void test_ends(void **state)
{
    (void)state;
    fill_all();
    for (int has_turn = 0; has_turn < 2; has_turn++) {
        struct gguf_file f = { .key_count = 0 };
        put_model(&f, &llama);
        if (has_turn)
            gguf_key_u32(&f, "tokenizer.ggml.eot_token_id", HELLO);
        OK(open_file(&f));
        assert_true(language->tokenizer.tokens[END].is_end);
        assert_int_equal(language->tokenizer.tokens[HELLO].is_end, has_turn);
        close_file();
    }
}

/* A model with one head of two numbers, so that long texts are quick. */
static void put_small(struct gguf_file *f)
{
    static const char *const sizes[] = { "block_count", "attention.head_count",
                                         "attention.head_count_kv" };
    static const char *const squares[] = { "attn_q.weight",      "attn_k.weight",   "attn_v.weight",
                                           "attn_output.weight", "ffn_gate.weight", "ffn_up.weight",
                                           "ffn_down.weight" };
    gguf_key_text(f, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        put_size(f, &llama, sizes[i], 1);
    put_size(f, &llama, "embedding_length", 2), put_size(f, &llama, "feed_forward_length", 2);
    put_size(f, &llama, "context_length", 1 << 20);
    gguf_key_f32(f, "llama.attention.layer_norm_rms_epsilon", 0.01f);
    put_tokenizer(f);
    gguf_matrix(f, "token_embd.weight", TOKENS, 2, net.table);
    gguf_matrix(f, "output_norm.weight", 0, 2, net.norm);
    gguf_matrix(f, part_name(0, "attn_norm.weight"), 0, 2, net.norm);
    gguf_matrix(f, part_name(0, "ffn_norm.weight"), 0, 2, net.norm);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        gguf_matrix(f, part_name(0, squares[i]), 2, 2, net.layer[0].q + 4 * i);
}

static copse_status count_token(void *user, uint32_t token, const char *text, size_t size)
{
    (void)token, (void)text, (void)size;
    ++*(size_t *)user;
    return COPSE_OK;
}

/* Up to the last token of the longest context: a prompt in chunks, then single tokens. */
static void test_longest(void **state)
{
    enum { LONGEST = 16384 };
    static char prompt[LONGEST - 3];
    const struct copse_generate_params how = { .length = LONGEST - sizeof prompt },
                                       more = { .length = how.length + 1 };
    struct gguf_file f = { .key_count = 0 };
    size_t count = 0;
    (void)state;
    memset(prompt, 'a', sizeof prompt);
    fill_all();
    put_small(&f);
    OK(open_file(&f));
    OK(copse_language_generate(language, prompt, sizeof prompt, &how, count_token, &count));
    assert_int_equal(count, how.length);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_language_generate(language, prompt, sizeof prompt, &more, count_token, &count),
          "more than the 16384 that the model takes");
    close_file();
}

/* Two heads for each key head: 8192 queries, and the token that is predicted only. */
static void test_longest_window(void **state)
{
    struct copse_language_evaluation e;
    (void)state;
    context_length = 1 << 20;
    open_kind(&llama);
    FAILS(COPSE_ERR_ARGUMENT, copse_language_evaluate(language, "abc", 3, 8194, &e),
          "2 to 8193 are allowed");
    close_file();
    context_length = 400;
}

/* ---- memory ---- */

static struct {
    unsigned calls, failing; /* from which call; 0: none */
} allocator;

static void *resize_or_fail(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (allocator.failing > 0 && ++allocator.calls >= allocator.failing)
        return NULL;
    return realloc(block, size);
}

/* Wherever memory ends, the strategy has no variable of the model: it can be opened again. */
static void test_without_memory(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    copse_context *own;
    struct copse_memory_stats before, after;
    unsigned failures = 0;
    (void)state;
    fill_all();
    quantise_all();
    put_model(&f, &llama_blocks);
    gguf_bytes(&f);
    const char *path = temp_write("model.gguf", f.all.at, f.all.size);
    OK(copse_context_create(
        &(struct copse_context_params){ .disable = "opencl,vulkan", .resize = resize_or_fail },
        &own));
    OK(copse_one_device_create(own, "host:0", NULL, &st));
    OK(copse_language_open(st, path, NULL, &language));
    copse_language_release(&language);
    copse_context_memory(own, &before);
    for (unsigned i = 1; !language; i++) {
        allocator.calls = 0;
        allocator.failing = i;
        const copse_status s = copse_language_open(st, path, NULL, &language);
        allocator.failing = 0;
        if (s == COPSE_OK)
            break;
        failures++;
        assert_int_equal(s, COPSE_ERR_NO_MEMORY);
        assert_null(language);
        copse_context_memory(own, &after);
        assert_true(after.live_blocks <= before.live_blocks); /* a pool may be emptied */
    }
    assert_true(failures > 20);
    copse_language_release(&language);
    copse_strategy_release(&st);
    copse_context_release(&own);
    gguf_free(&f);
}

/* ---- what is refused ---- */

static void assert_not_opened(struct gguf_file *f, copse_status status, const char *text)
{
    FAILS(status, open_file(f), text);
    assert_null(language);
    copse_strategy_release(&st);
}

static void test_refused(void **state)
{
    static const struct kind neox = { .name = "gptneox" };
    struct kind below = gemma2;
    struct gguf_file f = { .key_count = 0 };
    const struct copse_generate_params how = { .length = 400 };
    struct copse_language_evaluation e;
    (void)state;
    below.cap = -1;
    fill_all();
    put_model(&f, &neox);
    assert_not_opened(&f, COPSE_ERR_UNSUPPORTED,
                      "architecture \"gptneox\"; llama, qwen2, qwen3, gemma, gemma2 and gemma3");
    put_model(&f, &llama);
    gguf_matrix(&f, "blk.0.attn_q.bias", 0, HEADS * HEAD, net.layer[0].bias);
    assert_not_opened(&f, COPSE_ERR_UNSUPPORTED, "has no tensor \"blk.0.attn_q.bias\"");
    put_model(&f, &llama);
    gguf_matrix(&f, "blk.2.attn_norm.weight", 0, WIDTH, net.norm);
    assert_not_opened(&f, COPSE_ERR_UNSUPPORTED, "has no tensor \"blk.2.attn_norm.weight\"");
    put_model(&f, &llama);
    gguf_key_text(&f, "llama.rope.scaling.type", "yarn");
    assert_not_opened(&f, COPSE_ERR_UNSUPPORTED, "scales its rotary positions (yarn)");
    put_model(&f, &llama);
    gguf_key_u32(&f, "llama.attention.key_length", 6);
    assert_not_opened(&f, COPSE_ERR_FORMAT, "\"blk.0.attn_q.weight\" is not [24, 32]");
    put_model(&f, &llama);
    gguf_key_f32(&f, "llama.rope.scaling.factor", -4.0f);
    assert_not_opened(&f, COPSE_ERR_FORMAT, "\"llama.rope.scaling.factor\" is no positive number");
    put_model(&f, &below);
    assert_not_opened(&f, COPSE_ERR_FORMAT, "\"gemma2.attn_logit_softcapping\" is no cap");
    put_model(&f, &llama);
    put_size(&f, &llama, "rope.scaling.factor", 1);
    gguf_key_f32(&f, "llama.rope.scale_linear", 0.0f);
    OK(open_file(&f));
    close_file();
    gguf_key_text(&f, "general.architecture", "llama");
    assert_not_opened(&f, COPSE_ERR_FORMAT, "has 0 tokens; 1 to 1048576 are read");
    gguf_key_text(&f, "general.architecture", "llama");
    gguf_key_list(&f, "tokenizer.ggml.tokens", 8, (1 << 20) + 1);
    for (int i = 0; i <= 1 << 20; i++)
        gguf_number(&f.keys, 0, 8);
    assert_not_opened(&f, COPSE_ERR_FORMAT, "has 1048577 tokens");
    open_kind(&llama);
    FAILS(COPSE_ERR_ARGUMENT, copse_language_generate(language, "a", 1, &how, see_token, NULL),
          "a prompt of 1 tokens and 400 new ones are more than the 400");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_evaluate(language, "a", 1, 0, &e), "has 1 tokens");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_evaluate(language, "ab", 2, 401, &e), "2 to 400");
    close_file();
}

static copse_status encode_text(const char *text)
{
    int32_t tokens[8];
    size_t count;
    return copse_language_encode(language, text, strlen(text), tokens, 8, &count);
}

/* One letter of the vocabulary is there twice, so that a byte has no token. */
static void lose_byte(struct gguf_file *f, int byte, int other)
{
    fill_all();
    put_model(f, &llama);
    struct gguf_made from = { .size = 0 }, to = { .size = 0 };
    put_letter(&from, byte), put_letter(&to, other);
    assert_int_equal(from.size, to.size);
    size_t at = 0;
    while (memcmp(f->keys.at + at, "tokenizer.ggml.tokens", 21) != 0)
        at++;
    while (memcmp(f->keys.at + at, from.at, from.size) != 0)
        at++;
    memcpy(f->keys.at + at, to.at, to.size);
    free(from.at), free(to.at);
}

/* No byte of a text is dropped. */
static void test_lost_bytes(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    (void)state;
    lose_byte(&f, 'q', 'r');
    assert_not_opened(&f, COPSE_ERR_FORMAT, "neither a token for the byte 0x71");
    lose_byte(&f, 'q', 'r');
    gguf_key_u32(&f, "tokenizer.ggml.unknown_token_id", BEGIN);
    OK(open_file(&f));
    OK(encode_text("quick"));
    close_file();
    lose_byte(&f, 0xff, 0xfe); /* of no text in UTF-8 */
    OK(open_file(&f));
    OK(encode_text("quick"));
    FAILS(COPSE_ERR_ARGUMENT, encode_text("quick\xff"), "the text has the byte 0xff");
    close_file();
}

/* Damaged descriptions: an error or a model, nothing is lost. */
static void test_damaged(void **state)
{
    struct gguf_file f = { .key_count = 0 };
    struct copse_memory_stats before, after;
    (void)state;
    fill_all();
    put_model(&f, &llama);
    gguf_bytes(&f);
    const size_t size = f.keys.size + f.tensors.size;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_context_memory(ctx, &before);
    random_state = 99;
    for (int i = 0; i < 400; i++) {
        float where[3];
        fill(where, 3, 1, 1);
        /* most of the description is the vocabulary: half of the changes are elsewhere */
        const size_t at =
            i % 2 ? 24 + (size_t)(where[0] / 2 * (float)(size - 1))
                  : 24 + f.keys.size + (size_t)(where[0] / 2 * (float)(f.tensors.size - 1));
        const unsigned char old = f.all.at[at];
        f.all.at[at] = where[1] < 1 ? (unsigned char)(where[2] * 127) : old ^ 1;
        const char *path = temp_write("damaged.gguf", f.all.at, f.all.size);
        f.all.at[at] = old;
        const copse_status s = copse_language_open(st, path, NULL, &language);
        if (s == COPSE_OK)
            copse_language_release(&language);
        else if (s != COPSE_ERR_FORMAT && s != COPSE_ERR_UNSUPPORTED)
            fail_msg("change %d: %s: %s", i, copse_status_name(s), copse_last_error());
    }
    close_file();
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_context_memory(ctx, &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
    close_file();
    gguf_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses),         cmocka_unit_test(test_writes),
        cmocka_unit_test(test_tokens),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damaged),        cmocka_unit_test(test_begins),
        cmocka_unit_test(test_ends),           cmocka_unit_test(test_longest),
        cmocka_unit_test(test_longest_window), cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_lost_bytes),     cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
