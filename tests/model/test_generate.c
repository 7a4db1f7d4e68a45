/* SPDX-License-Identifier: MIT */
/* Texts written by models: each token is the most likely one behind the window that ends there,
   while the window fills and while it slides; seeds; the function that takes the tokens; wrong
   models, prompts and settings. */
#include "tests/rig/train/model_rig.h"

#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/train/generate.h"
#include "core/model/model.h"

enum { WINDOW = 6, LENGTH = 20 };

static const char rhyme[] =
    "the rain in spain stays mainly in the plain, and the same again in maine: "
    "the rain in spain stays mainly in the plain.\n";

static copse_dataset *make_text(const char *text, size_t size, copse_tokens tokens,
                                copse_text_rows rows, const copse_schema *schema)
{
    copse_dataset *data = NULL;
    const struct copse_text_params how = {
        .tokens = tokens, .context = WINDOW, .stride = 1, .rows = rows
    };
    const struct copse_source_params source = { .text = &how };
    OK(copse_text_create(ctx, text, size,
                         &(struct copse_dataset_params){ .schema = schema, .source = &source },
                         &data));
    return data;
}

/* A model of the rhyme after some epochs. */
static copse_model *make_rhyme_model(copse_tokens tokens, const char *network, int epochs,
                                     size_t replicas)
{
    copse_strategy *st = strategy_of(ctx, replicas);
    copse_dataset *data = make_text(rhyme, strlen(rhyme), tokens, COPSE_TEXT_WINDOWS, NULL);
    copse_model *m = make_model(st, data, network, NULL);
    copse_trainer *t = train(m, data, epochs);
    copse_trainer_release(&t);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    return m;
}

/* What a call wrote. */
struct written {
    uint32_t tokens[4 * LENGTH];
    char text[4 * LENGTH * COPSE_TOKEN_BYTES];
    size_t count, size, most; /* `most`: the call is stopped behind so many tokens; 0: never */
};

static copse_status take(void *user, uint32_t token, const char *text, size_t size)
{
    struct written *w = user;
    w->tokens[w->count++] = token;
    memcpy(w->text + w->size, text, size);
    w->size += size;
    return w->most > 0 && w->count == w->most ? COPSE_ERR_CANCELLED : COPSE_OK;
}

static struct written generate(copse_model *m, const char *prompt, struct copse_generate_params how)
{
    struct written w = { .count = 0 };
    how.length = how.length ? how.length : LENGTH;
    OK(copse_model_generate(m, prompt, prompt ? strlen(prompt) : 0, &how, take, &w));
    assert_int_equal(w.count, how.length);
    return w;
}

static void refused(copse_model *m, const char *prompt, struct copse_generate_params how,
                    copse_status code, const char *error)
{
    struct written w = { .count = 0 };
    FAILS(code, copse_model_generate(m, prompt, strlen(prompt), &how, take, &w), error);
    assert_int_equal(w.count, 0);
}

static uint32_t largest(const float *row, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* The outputs [WINDOW, tokens] of a window that begins with `count` tokens; its other positions are
   filled with `filler`. Returns the most likely token after `count`. */
static uint32_t outputs_of(copse_model *m, const char *text, size_t count, uint8_t filler,
                           float *values)
{
    uint8_t window[WINDOW];
    memset(window, filler, sizeof window);
    for (size_t i = 0; i < count; i++) {
        uint8_t token = 0;
        while (copse_schema_class(m->schema, token)[0] != text[i])
            token++;
        window[i] = token;
    }
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", COPSE_U8, COPSE_SHAPE(WINDOW), window }), .count = 1
    };
    OK(copse__model_outputs(m, &batch, false, values));
    return largest(values + (count - 1) * m->is.outputs, m->is.outputs);
}

/* The most likely token after `count` tokens: by copse_model_predict if they are a window. */
static uint32_t expected(copse_model *m, const char *text, size_t count, uint8_t filler)
{
    float values[WINDOW * 256];
    if (count < WINDOW)
        return outputs_of(m, text, count, filler, values);
    copse_dataset *end =
        make_text(text, count, COPSE_TOKENS_CHARACTERS, COPSE_TEXT_END, copse_model_schema(m));
    OK(copse_model_predict(m, end, values));
    copse_dataset_release(&end);
    return largest(values, m->is.outputs);
}

static void each_token_is_the_most_likely_one_behind_the_window(void **state)
{
    static const struct {
        const char *network, *prompt;
    } cases[] = {
        { "embedding in 4; flatten; dense out", "the ra" },
        { "embedding in 4; flatten; dense out", "stays mainly" },
        { "embedding in 4; dense out", "p" },
        { "embedding in 8; positions; residual { layer_norm; attention 2 causal=yes }; dense out",
          "sp" },
        { "embedding in 8; positions; residual { layer_norm; attention 2 causal=yes }; dense out",
          "mainly in" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, cases[i].network, 4, 1 + i % 2);
        const struct written w =
            generate(m, cases[i].prompt, (struct copse_generate_params){ .seed = 5 });
        char text[100];
        size_t size = strlen(cases[i].prompt);
        memcpy(text, cases[i].prompt, size);
        assert_int_equal(w.size, w.count);
        for (size_t k = 0; k < w.count; k++) {
            assert_int_equal(w.tokens[k], expected(m, text, size, (uint8_t)(k % 5)));
            assert_int_equal(w.text[k], copse_schema_class(copse_model_schema(m), w.tokens[k])[0]);
            text[size++] = w.text[k];
        }
        copse_model_release(&m);
    }
}

/* Rows of a short text and of short lines: the probabilities are the softmax at the last token of
   the window, whatever is after it, on one replica and on three. */
static void texts_that_are_shorter_than_the_window_are_predicted(void **state)
{
    static const char *const networks[] = {
        "embedding in 4; dense out",
        "embedding in 8; positions; residual { layer_norm; attention 2 causal=yes }; dense out",
        "embedding in 8; gru 8; dense out",
    };
    static const char text[] = "r\nsta\n\nmainly in\np";
    static const size_t ends[] = { 1, 5, 6, 16, 18 };
    const struct copse_text_params how = { .rows = COPSE_TEXT_LINES, .takes_short = true };
    const struct copse_source_params source = { .text = &how };
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, networks[i], 4, 1 + 2 * (i % 2));
        const struct copse_dataset_params params = { .schema = copse_model_schema(m),
                                                     .source = &source };
        struct copse_dataset_info info;
        copse_dataset *lines = NULL;
        float values[5 * 64], outputs[WINDOW * 64];
        OK(copse_text_create(ctx, text, strlen(text), &params, &lines));
        copse_dataset_describe(lines, &info);
        assert_int_equal(info.rows, 5);
        OK(copse_model_predict(m, lines, values));
        for (size_t r = 0; r < 5; r++) {
            const float *row = values + r * m->is.outputs;
            double sum = 0.0;
            const size_t count = ends[r] < WINDOW ? ends[r] : WINDOW;
            assert_int_equal(largest(row, m->is.outputs),
                             outputs_of(m, text + ends[r] - count, count, 3, outputs));
            const float *last = outputs + (count - 1) * m->is.outputs;
            for (uint32_t k = 0; k < m->is.outputs; k++)
                sum += exp((double)last[k]);
            for (uint32_t k = 0; k < m->is.outputs; k++)
                rig_near((double)row[k], exp((double)last[k]) / sum, 1e-6);
        }
        copse_dataset_release(&lines);
        copse_model_release(&m);
    }
}

/* A network that needs the whole window says so, in predictions and when it writes. */
static void short_texts_are_refused_where_later_positions_count(void **state)
{
    static const struct {
        const char *network, *error;
    } cases[] = {
        { "embedding in 4; flatten; dense out",
          "has 2 characters; the network predicts only the token after a window of 6: give at "
          "least 6" },
        { "embedding in 8; positions; residual { layer_norm; attention 2 }; dense out",
          "has 2 characters; what the network predicts after them depends on later positions of "
          "its window of 6: give at least 6" },
    };
    const struct copse_text_params how = { .rows = COPSE_TEXT_END, .takes_short = true };
    const struct copse_source_params source = { .text = &how };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, cases[i].network, 1, 1);
        const struct copse_dataset_params params = { .schema = copse_model_schema(m),
                                                     .source = &source };
        copse_dataset *end = NULL;
        float values[64];
        OK(copse_text_create(ctx, "ra", 2, &params, &end));
        FAILS(COPSE_ERR_ARGUMENT, copse_model_predict(m, end, values), cases[i].error);
        copse_dataset_release(&end);
        OK(copse_text_create(ctx, "the rain", 8, &params, &end)); /* it has a window */
        OK(copse_model_predict(m, end, values));
        copse_dataset_release(&end);
        (void)generate(m, "the rain", (struct copse_generate_params){ .length = 2 });
        copse_model_release(&m);
    }
    copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, cases[1].network, 1, 1);
    refused(m, "ra", (struct copse_generate_params){ .length = 1 }, COPSE_ERR_ARGUMENT,
            cases[1].error);
    copse_model_release(&m);
}

/* Without a prompt a text begins behind a line end. */
static void an_empty_prompt_is_a_line_end(void **state)
{
    (void)state;
    copse_model *m = make_rhyme_model(COPSE_TOKENS_BYTES, "embedding in 4; dense out", 3, 1);
    const struct copse_generate_params how = { .seed = 3, .temperature = 1.0f };
    const struct written empty = generate(m, NULL, how), line = generate(m, "\n", how),
                         other = generate(m, "r", how);
    assert_memory_equal(empty.tokens, line.tokens, LENGTH * sizeof(uint32_t));
    assert_memory_not_equal(empty.tokens, other.tokens, LENGTH * sizeof(uint32_t));
    copse_model_release(&m);
}

static void the_same_seed_gives_the_same_text(void **state)
{
    (void)state;
    copse_model *m = make_rhyme_model(COPSE_TOKENS_BYTES, "embedding in 4; dense out", 1, 1);
    struct copse_generate_params how = { .seed = 3, .temperature = 1.5f, .length = 3 * LENGTH };
    const struct written one = generate(m, "r", how), again = generate(m, "r", how);
    how.seed = 4;
    const struct written other = generate(m, "r", how);
    assert_memory_equal(one.tokens, again.tokens, sizeof one.tokens);
    assert_memory_not_equal(one.tokens, other.tokens, sizeof one.tokens);
    for (size_t i = 0; i < one.count; i++) /* bytes */
        assert_int_equal((unsigned char)one.text[i], one.tokens[i]);
    how.top_k = 1;
    const struct written narrow = generate(m, "r", how);
    const struct written greedy =
        generate(m, "r", (struct copse_generate_params){ .length = 3 * LENGTH });
    assert_memory_equal(narrow.tokens, greedy.tokens, sizeof narrow.tokens);
    copse_model_release(&m);
}

/* Of a network whose outputs are all 0, the bytes of the training text have equal probabilities,
   and other bytes none. */
static void each_token_is_drawn_with_a_number_of_its_own(void **state)
{
    static const float zeros[256 * 4];
    bool is_drawn[256] = { false }, is_there[256] = { false };
    size_t different = 0, all = 0;
    (void)state;
    copse_model *m = make_rhyme_model(COPSE_TOKENS_BYTES, "embedding in 4; dense out", 1, 1);
    for (size_t i = 0; i < m->variable_count; i++)
        OK(copse_variable_assign(m->variables[i], zeros));
    const struct written w = generate(
        m, "r", (struct copse_generate_params){ .temperature = 1.0f, .length = 3 * LENGTH });
    for (const char *c = rhyme; *c; c++) {
        all += !is_there[(unsigned char)*c];
        is_there[(unsigned char)*c] = true;
    }
    for (size_t i = 0; i < w.count; i++) {
        assert_true(is_there[w.tokens[i]]);
        different += !is_drawn[w.tokens[i]];
        is_drawn[w.tokens[i]] = true;
    }
    assert_true(all > 10 && different + 2 >= all);
    copse_model_release(&m);
}

static copse_status call_the_model(void *user, uint32_t token, const char *text, size_t size)
{
    struct written w = { .count = 0 };
    (void)token, (void)text, (void)size;
    return copse_model_generate(user, "r", 1, &(struct copse_generate_params){ .length = 1 }, take,
                                &w);
}

static void the_function_that_takes_tokens_may_stop_and_may_not_call_the_model(void **state)
{
    (void)state;
    copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, "embedding in 4; dense out", 1, 1);
    const struct copse_generate_params how = { .length = LENGTH };
    struct written w = { .most = 3 };
    assert_int_equal(copse_model_generate(m, "r", 1, &how, take, &w), COPSE_ERR_CANCELLED);
    assert_int_equal(w.count, 3);
    FAILS(COPSE_ERR_CONTEXT, copse_model_generate(m, "r", 1, &how, call_the_model, m),
          "the function that takes the tokens");
    copse_model_release(&m);
}

/* Nothing is written. */
static void wrong_models_prompts_and_settings_are_refused(void **state)
{
    static const float x[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const int32_t y[4] = { 0, 1, 0, 1 };
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { 4, 2 }, .data = x
    };
    const struct copse_array_view labels = {
        .type = COPSE_I32, .rank = 1, .shape = { 4 }, .data = y
    };
    const struct copse_generate_params one = { .length = 1 };
    copse_dataset *points = NULL;
    (void)state;
    copse_model *whole =
        make_rhyme_model(COPSE_TOKENS_CHARACTERS, "embedding in 4; flatten; dense out", 1, 1);
    copse_model *each =
        make_rhyme_model(COPSE_TOKENS_CHARACTERS, "embedding in 4; dense out", 1, 1);
    copse_strategy *st = strategy_of(ctx, 1);
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &points));
    copse_model *other = make_model(st, points, "dense out", NULL);
    refused(other, "", one, COPSE_ERR_ARGUMENT, "the model is not of a text");
    refused(whole, "", one, COPSE_ERR_ARGUMENT,
            "has 0 characters; the network predicts only the token after a window of 6");
    refused(whole, "rain ", one, COPSE_ERR_ARGUMENT, "the prompt has 5 characters");
    refused(each, "rain\nor", one, COPSE_ERR_FORMAT,
            "the prompt: line 2, column 1: the character \"o\" (U+006F) is none of");
    refused(each, "ra\xff", one, COPSE_ERR_FORMAT,
            "the prompt: line 1, column 3 (byte 2): invalid UTF-8");
    refused(each, "r", (struct copse_generate_params){ .length = 0 }, COPSE_ERR_ARGUMENT,
            "the length is 0");
    const struct copse_generate_params cold = { .length = 1, .temperature = -1.0f },
                                       wide = { .length = 1, .top_p = 2.0f };
    refused(each, "r", cold, COPSE_ERR_ARGUMENT, "the temperature is -1");
    refused(each, "r", wide, COPSE_ERR_ARGUMENT, "top_p is 2");
    copse_model_release(&other);
    copse_model_release(&each);
    copse_model_release(&whole);
    copse_dataset_release(&points);
    copse_strategy_release(&st);
}

/* The prompt is encoded, and the tokens that are written are those of their bytes; from a file,
   too. */
static void byte_pairs_are_encoded_and_decoded(void **state)
{
    const struct copse_generate_params how = { .seed = 3, .temperature = 1.0f };
    copse_strategy *one = strategy_of(ctx, 1);
    copse_model *loaded = NULL;
    (void)state;
    temp_begin();
    copse_model *m = make_rhyme_model(COPSE_TOKENS_BPE, "embedding in 8; dense out", 20, 1);
    assert_true(m->is.outputs > 256 && m->is.outputs < 320);
    const struct written w = generate(m, "the rain", how);
    char text[sizeof w.text], bytes[COPSE_TOKEN_BYTES];
    size_t size = 0, pairs = 0;
    for (size_t i = 0; i < w.count; i++) {
        const size_t length = copse_text_token(copse_model_schema(m), w.tokens[i], bytes);
        memcpy(text + size, bytes, length);
        size += length;
        pairs += w.tokens[i] >= 256;
    }
    assert_int_equal(size, w.size);
    assert_memory_equal(text, w.text, size);
    assert_true(pairs > LENGTH / 4);
    assert_int_equal(generate(m, "\xff\xfe", how).count, LENGTH); /* any bytes */
    /* a prompt of one token: what follows depends on the last token alone */
    const uint32_t last = 256;
    const size_t length = copse_text_token(copse_model_schema(m), last, bytes);
    char prompt[COPSE_TOKEN_BYTES + 2] = "\n";
    memcpy(prompt + 1, bytes, length);
    const struct written behind = generate(m, prompt, how), alone = generate(m, prompt + 1, how);
    assert_memory_equal(behind.tokens, alone.tokens, sizeof alone.tokens);
    OK(copse_model_save(m, temp_path("pairs.safetensors"), NULL));
    OK(copse_model_load(one, temp_path("pairs.safetensors"), NULL, &loaded));
    const struct written again = generate(loaded, "the rain", how);
    assert_memory_equal(w.tokens, again.tokens, sizeof w.tokens);
    copse_model_release(&loaded);
    copse_model_release(&m);
    copse_strategy_release(&one);
    temp_end();
}

static void outputs_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    copse_model *m = make_rhyme_model(COPSE_TOKENS_CHARACTERS, "embedding in 4; dense out", 1, 1);
    float bias[256];
    copse_variable *last = m->variables[m->variable_count - 1];
    OK(copse_variable_read(last, 0, bias));
    bias[3] = NAN;
    OK(copse_variable_assign(last, bias));
    refused(m, "r", (struct copse_generate_params){ .length = 1 }, COPSE_ERR_NONFINITE,
            "output for token 3 is NaN");
    copse_model_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_token_is_the_most_likely_one_behind_the_window),
        cmocka_unit_test(texts_that_are_shorter_than_the_window_are_predicted),
        cmocka_unit_test(short_texts_are_refused_where_later_positions_count),
        cmocka_unit_test(an_empty_prompt_is_a_line_end),
        cmocka_unit_test(the_same_seed_gives_the_same_text),
        cmocka_unit_test(each_token_is_drawn_with_a_number_of_its_own),
        cmocka_unit_test(the_function_that_takes_tokens_may_stop_and_may_not_call_the_model),
        cmocka_unit_test(wrong_models_prompts_and_settings_are_refused),
        cmocka_unit_test(byte_pairs_are_encoded_and_decoded),
        cmocka_unit_test(outputs_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
