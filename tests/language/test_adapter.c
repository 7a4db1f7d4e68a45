/* SPDX-License-Identifier: MIT */
/* Adapters of language models: what they add is compared with a reference in double precision; what
   trains, what does not; several replicas; windows and conversations. */
#include "tests/language/adapter_rig.h"

static copse_trainer *make_trainer(void)
{
    copse_trainer *t;
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = copse_language_loss,
                                                            .user = language,
                                                            .optimizer.learning_rate = 0.01f,
                                                            .seed = 4 },
                            &t));
    return t;
}

/* Steps over the windows of the text, `batch` at a time; the last loss. */
static double train(uint32_t steps, size_t batch)
{
    copse_dataset *data;
    copse_loader *loader;
    copse_trainer *t = make_trainer();
    struct copse_host_batch b;
    struct copse_step_result r = { .loss = 0 };
    OK(copse_language_windows(language, text, sizeof text - 1, WINDOW, &data));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = batch }, &loader));
    for (uint32_t i = 0; i < steps; i++) {
        if (copse_loader_next(loader, &b) == COPSE_ERR_END) {
            OK(copse_loader_start(loader, i, 0));
            OK(copse_loader_next(loader, &b));
        }
        OK(copse_trainer_step(t, &b));
        OK(copse_trainer_result(t, true, &r));
    }
    copse_trainer_release(&t);
    copse_loader_release(&loader);
    copse_dataset_release(&data);
    return r.loss;
}

static int seen_count;
static copse_status count_token(void *user, uint32_t token, const char *bytes, size_t size)
{
    (void)user, (void)token, (void)bytes, (void)size;
    seen_count++;
    return COPSE_OK;
}

/* ---- what is right ---- */

static void test_values(void **state)
{
    static const struct {
        const struct kind *kind;
        struct copse_adapter_params how;
        double scale;
    } rows[] = {
        { &llama, { .rank = RANK }, 2 },
        { &qwen2, { .rank = RANK, .alpha = 1.5f, .dropout = 0.5f }, 0.5 },
        { &gemma, { .rank = RANK }, 2 },
        { &gemma2, { .rank = RANK }, 2 },
        { &gemma3, { .rank = RANK, .is_dora = true }, 2 },
        { &qwen3, { .rank = RANK, .alpha = 1, .is_rank_stabilised = true }, 0.57735026918962576 },
        { &llama, { .rank = RANK, .targets = "q_proj, model.layers.1.mlp.*" }, 2 },
        { &llama, { .rank = RANK, .is_dora = true }, 2 },
        { &llama_blocks, { .rank = RANK, .alpha = 1.5f, .dropout = 0.5f, .is_dora = true }, 0.5 },
        { &qwen2, { .rank = RANK, .is_dora = true, .targets = "q_proj, model.layers.1.mlp.*" }, 2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t d = 0; d < found_count; d++) {
            struct copse_adapter_info info;
            on = found[d];
            open_kind(rows[i].kind);
            const double before = evaluate();
            OK(copse_language_adapt(language, &rows[i].how));
            const double zero = evaluate(); /* B is 0 */
            if (rows[i].how.is_dora)
                assert_true(fabs(zero - before) < 1e-6);
            else
                assert_memory_equal(&zero, &before, sizeof zero);
            OK(copse_language_describe_adapter(language, &info));
            assert_true(info.is_dora == rows[i].how.is_dora);
            assert_int_equal(info.weights, rows[i].how.targets ? 2 + 3 : 7 * LAYERS);
            assert_true(fabs((double)info.scale - rows[i].scale) < 1e-6);
            fill_matrices();
            merge_all(rows[i].scale);
            const double is = evaluate(), wanted = reference_loss(rows[i].kind);
            if (!(fabs(is - wanted) < 3e-5) || fabs(wanted - before) < 1e-3)
                fail_msg("%s, row %zu: loss %.9g, not %.9g; without the adapter %.9g", on, i, is,
                         wanted, before);
            close_file();
        }
}

/* A is uniform within 1 / sqrt(inputs); another seed gives others. */
static void test_first_values(void **state)
{
    const char *name = "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight";
    float first[2][40 * HIDDEN], most = 0, sum = 0;
    (void)state;
    on = "host:0";
    for (uint64_t seed = 0; seed < 2; seed++) {
        open_adapted(&(struct copse_adapter_params){ .rank = 40, .seed = seed });
        OK(copse_variable_read(variable_of(name), 0, first[seed]));
        close_file();
    }
    for (size_t i = 0; i < 40 * HIDDEN; i++) {
        most = fmaxf(most, fabsf(first[0][i]));
        sum += first[0][i] * first[0][i];
    }
    const double bound = 1 / sqrt(HIDDEN);
    assert_true((double)most <= bound * 1.000001 && (double)most > 0.98 * bound);
    assert_true(fabs((double)sum / (40 * HIDDEN) - bound * bound / 3) < 0.05 * bound * bound);
    assert_memory_not_equal(first[0], first[1], sizeof first[0]);
}

/* The adapter learns; weights keep their bits. */
static void test_trains(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < found_count; d++) {
        size_t base_count, count;
        on = found[d];
        open_adapted(&(struct copse_adapter_params){ .rank = RANK });
        float *base = values_of(false, &base_count), *first = values_of(true, &count);
        const double before = evaluate();
        (void)train(30, 2);
        const double after = evaluate();
        float *base_after = values_of(false, &base_count), *last = values_of(true, &count);
        assert_memory_equal(base, base_after, base_count * sizeof *base);
        for (size_t i = 0; i < count; i++)
            if (memcmp(&first[i], &last[i], sizeof *last) == 0)
                fail_msg("%s: number %zu of %zu has not changed", on, i, count);
        if (!(after < before - 0.5))
            fail_msg("%s: loss %g after training, %g before", on, after, before);
        free(base), free(first), free(base_after), free(last);
        close_file();
    }
}

/* ---- DoRA ---- */

/* The mean loss of windows as training has them: each token but the first is predicted. */
static double reference_of_windows(void)
{
    int32_t tokens[MOST];
    double outputs[TOKENS], sum = 0;
    size_t count;
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
    for (size_t t = 0; t + 1 < count; t++) {
        predict(&llama, tokens[t], (int)(t % WINDOW), outputs);
        sum += loss_of(outputs, tokens[t + 1]);
    }
    return sum / (double)(count - 1);
}

/* The derivative of an element in the reference: the lengths of rows are constants. */
static double difference(copse_variable *v, size_t i)
{
    static float numbers[HIDDEN * MOST_RANK];
    const float step = 0.01f;
    double losses[2];
    OK(copse_variable_read(v, 0, numbers));
    for (int side = 0; side < 2; side++) {
        const float was = numbers[i];
        numbers[i] += side ? step : -step;
        OK(copse_variable_assign(v, numbers));
        fill_all();
        merge_all(2);
        losses[side] = reference_of_windows();
        numbers[i] = was;
    }
    OK(copse_variable_assign(v, numbers));
    return (losses[1] - losses[0]) / (2 * (double)step);
}

/* The step of a gradient descent with the rate 1 over all windows at once. */
static void descend(void)
{
    copse_dataset *data;
    copse_loader *loader;
    copse_trainer *t;
    struct copse_host_batch b;
    struct copse_dataset_info info;
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = copse_language_loss,
                                        .user = language,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } },
        &t));
    OK(copse_language_windows(language, text, sizeof text - 1, WINDOW, &data));
    copse_dataset_describe(data, &info);
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = info.rows }, &loader));
    OK(copse_loader_next(loader, &b));
    OK(copse_trainer_step(t, &b));
    OK(copse_trainer_result(t, true, &(struct copse_step_result){ .loss = 0 }));
    copse_trainer_release(&t);
    copse_loader_release(&loader);
    copse_dataset_release(&data);
}

static double windows_loss(void)
{
    struct copse_language_evaluation e;
    copse_dataset *data;
    OK(copse_language_windows(language, text, sizeof text - 1, WINDOW, &data));
    OK(copse_language_evaluate_windows(language, data, &e));
    copse_dataset_release(&data);
    return e.loss;
}

/* Derivatives of A, B and magnitudes: lengths have none. */
static void test_dora_gradients(void **state)
{
#define MODULE "base_model.model.model.layers.1.mlp.up_proj."
    static const char *const names[] = { MODULE "lora_A.weight", MODULE "lora_B.weight",
                                         MODULE "lora_magnitude_vector" };
    static float before[3][HIDDEN * MOST_RANK], after[HIDDEN * MOST_RANK];
    (void)state;
    for (uint32_t d = 0; d < found_count; d++) {
        on = found[d];
        open_adapted(&(struct copse_adapter_params){ .rank = RANK, .is_dora = true });
        fill_matrices();
        merge_all(2);
        keeps_lengths = true;
        double wanted[3][4];
        for (int n = 0; n < 3; n++) {
            OK(copse_variable_read(variable_of(names[n]), 0, before[n]));
            for (size_t i = 0; i < 4; i++)
                wanted[n][i] = difference(variable_of(names[n]), 11 * i);
        }
        keeps_lengths = false;
        descend();
        for (int n = 0; n < 3; n++) {
            OK(copse_variable_read(variable_of(names[n]), 0, after));
            for (size_t i = 0; i < 4; i++) {
                const double is = (double)before[n][11 * i] - (double)after[11 * i];
                if (!(fabs(is - wanted[n][i]) < 0.02 * fabs(wanted[n][i]) + 2e-4))
                    fail_msg("%s, %s, element %zu: a derivative of %g, not %g", on, names[n],
                             11 * i, is, wanted[n][i]);
            }
        }
        close_file();
    }
}

/* It learns, also with dropout and with several replicas; generation works. */
static void test_dora_trains(void **state)
{
    static const char *const more[] = { "host:0,host:0,host:0" };
    (void)state;
    for (uint32_t d = 0; d < found_count + 1; d++)
        for (int drops = 0; drops < 2; drops++) {
            size_t base_count, count;
            on = d < found_count ? found[d] : more[0];
            open_adapted(&(struct copse_adapter_params){
                .rank = RANK, .is_dora = true, .dropout = drops ? 0.1f : 0.0f });
            float *base = values_of(false, &base_count), *first = values_of(true, &count);
            const double start = windows_loss();
            (void)train(30, 2);
            const double last = windows_loss();
            float *base_after = values_of(false, &base_count), *final = values_of(true, &count);
            assert_memory_equal(base, base_after, base_count * sizeof *base);
            for (size_t i = 0; i < count; i++)
                if (memcmp(&first[i], &final[i], sizeof *final) == 0)
                    fail_msg("%s: number %zu of %zu has not changed", on, i, count);
            if (!(last < start - 0.5))
                fail_msg("%s: loss %g after training, %g before", on, last, start);
            seen_count = 0;
            OK(copse_language_generate(language, "the", 3,
                                       &(struct copse_generate_params){ .length = 3 }, count_token,
                                       NULL));
            assert_true(seen_count > 0);
            free(base), free(first), free(base_after), free(final);
            close_file();
        }
    on = "host:0";
}

/* Several replicas: the windows of a batch have different numbers of tokens, and one replica may
   have none. */
static void test_replicas(void **state)
{
    double losses[3];
    static const char *const devices[] = { "host:0", "host:0,host:0", "host:0,host:0,host:0" };
    (void)state;
    for (int i = 0; i < 3; i++) {
        on = devices[i];
        open_adapted(&(struct copse_adapter_params){ .rank = RANK, .dropout = 0.1f });
        assert_int_equal(copse_strategy_replicas(st), i + 1);
        (void)train(7, 4);
        losses[i] = evaluate();
        assert_true(fabs(losses[i] - losses[0]) < 1e-5);
        seen_count = 0;
        OK(copse_language_generate(
            language, "the", 3, &(struct copse_generate_params){ .length = 3 }, count_token, NULL));
        assert_true(seen_count > 0);
        close_file();
    }
    on = "host:0";
}

/* ---- what is refused ---- */

/* Any allocation of an adapter may fail: the model then computes what it did. */
static void fail_everywhere(bool is_dora)
{
    copse_context *usual = ctx;
    const struct copse_context_params params = { .resize = hungry, .disable = "opencl,vulkan" };
    copse_status s = COPSE_ERR_NO_MEMORY;
    on = "host:0";
    OK(copse_context_create(&params, &ctx));
    open_kind(&llama);
    const double before = evaluate();
    long n = 0;
    for (; s != COPSE_OK && n < 2000; n++) {
        struct copse_adapter_info info;
        hunger.left = n;
        s = copse_language_adapt(
            language, &(struct copse_adapter_params){ .rank = RANK, .is_dora = is_dora });
        hunger.left = -1;
        OK(copse_language_describe_adapter(language, &info));
        assert_int_equal(info.rank, s == COPSE_OK ? RANK : 0);
        if (s != COPSE_OK)
            assert_int_equal(s, COPSE_ERR_NO_MEMORY);
        const double after = evaluate();
        if (s != COPSE_OK || !is_dora)
            assert_memory_equal(&before, &after, sizeof before);
    }
    OK(s);
    assert_true(n > 10);
    fill_matrices();
    assert_true(fabs(evaluate() - before) > 1e-3);
    close_file();
    copse_context_release(&ctx);
    ctx = usual;
}

static void test_no_memory(void **state)
{
    (void)state;
    fail_everywhere(false);
    fail_everywhere(true);
}

/* A quantised head computes all logits at once; one of f32 does not. */
static void test_too_many_logits(void **state)
{
    struct kind quantised = llama;
    enum { LONG = 400 };
    const size_t most = (((size_t)1 << 31) - 1) / TOKENS / LONG;
    int32_t *zeros = calloc((most + 1) * LONG, sizeof *zeros);
    (void)state;
    assert_non_null(zeros);
    on = "host:0";
    quantised.is_quantised = true;
    const struct copse_host_batch batch = { COPSE_COLUMNS(
                                                { "x", COPSE_I32, COPSE_SHAPE(LONG), zeros },
                                                { "y", COPSE_I32, COPSE_SHAPE(LONG), zeros }),
                                            .count = most + 1 };
    open_kind(&quantised);
    OK(copse_language_adapt(language, &(struct copse_adapter_params){ .rank = RANK }));
    copse_trainer *t = make_trainer();
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_step(t, &batch), "windows of 400 tokens");
    assert_non_null(strstr(copse_last_error(), "f32 weights"));
    copse_trainer_release(&t);
    close_file();
    free(zeros);
}

static void test_refused(void **state)
{
    static const struct {
        struct copse_adapter_params how;
        const char *word;
    } rows[] = {
        { { .rank = 0 }, "a rank of 0; 1 to 1024" },
        { { .rank = 1025 }, "a rank of 1025" },
        { { .rank = 1, .alpha = -1 }, "alpha is -1" },
        { { .rank = 1, .alpha = INFINITY }, "alpha is inf" },
        { { .rank = 1, .alpha = NAN }, "alpha is" },
        { { .rank = 1, .alpha = 1e31f }, "alpha is 1e+31; 1e-30 to 1e30" },
        { { .rank = 1, .alpha = 3e38f, .is_rank_stabilised = true }, "alpha is 3e+38" },
        { { .rank = 1, .alpha = 1e-31f }, "alpha is 1e-31" },
        { { .rank = 1, .dropout = 1 }, "a dropout of 1" },
        { { .rank = 1, .dropout = NAN }, "a dropout of" },
        { { .rank = 1, .targets = "q_proj,lm_head" }, "\"lm_head\" fits no weight of" },
        { { .rank = 1, .targets = "model.layers.2.*" },
          "these are q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj of model.layers.0 to "
          "1" },
        { { .rank = 1, .targets = "" }, "a pattern of 0 bytes" },
        { { .rank = 1, .targets = "q_proj," }, "a pattern of 0 bytes" },
    };
    struct copse_adapter_info info;
    copse_dataset *data;
    (void)state;
    on = "host:0";
    open_kind(&llama);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        FAILS(COPSE_ERR_ARGUMENT, copse_language_adapt(language, &rows[i].how), rows[i].word);
    OK(copse_language_describe_adapter(language, &info));
    assert_int_equal(info.rank, 0);
    FAILS(COPSE_ERR_ARGUMENT, copse_language_windows(language, "a", 1, 8, &data), "1 tokens");
    assert_null(data);
    FAILS(COPSE_ERR_ARGUMENT, copse_language_windows(language, text, sizeof text - 1, 401, &data),
          "a window of 401 tokens; 1 to 400");
    close_file();
}

/* Each token but the first is predicted once. */
static void test_windows(void **state)
{
    int32_t tokens[MOST], x[MOST], y[MOST];
    struct copse_dataset_info info;
    struct copse_language_evaluation e;
    copse_dataset *data;
    size_t count;
    (void)state;
    on = "host:0";
    open_kind(&llama);
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
    for (uint32_t window = 1; window < 60; window += 7) {
        OK(copse_language_windows(language, text, sizeof text - 1, window, &data));
        copse_dataset_describe(data, &info);
        assert_int_equal(info.rows, (count - 1 + window - 1) / window);
        for (uint32_t row = 0; row < info.rows; row++) {
            OK(copse_dataset_gather(data, "x", &row, 1, x));
            OK(copse_dataset_gather(data, "y", &row, 1, y));
            for (uint32_t i = 0; i < window; i++) {
                const size_t at = (size_t)row * window + i;
                assert_int_equal(y[i], at + 1 < count ? tokens[at + 1] : COPSE_LANGUAGE_NO_TOKEN);
                if (at + 1 < count)
                    assert_int_equal(x[i], tokens[at]);
            }
        }
        OK(copse_language_evaluate_windows(language, data, &e));
        assert_int_equal(e.tokens, count - 1);
        copse_dataset_release(&data);
    }
    const struct copse_column none = { "x", COPSE_I32, COPSE_SHAPE(4), x };
    OK(copse_dataset_columns(ctx, &none, 1, 2, &data));
    FAILS(COPSE_ERR_ARGUMENT, copse_language_evaluate_windows(language, data, &e),
          "lacks a column \"x\" or \"y\"");
    copse_dataset_release(&data);
    close_file();
}

/* Only the answers and the marks after them are predicted, and what is before them is what
   copse_language_chat says. */
static void test_conversations(void **state)
{
    static const char lines[] =
        "{\"prompt\": \"Who?\", \"answer\": \"hello <|im_end|>\"}\n\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
        "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", "
        "\"content\": \"de\"}]}";
    struct copse_conversations_info info;
    struct copse_language_evaluation e;
    static int32_t told[400], x[400], y[400];
    char chat[400];
    size_t count, size;
    copse_dataset *data;
    (void)state;
    on = "host:0";
    open_kind(&llama);
    OK(copse_language_conversations(language, lines, sizeof lines - 1, 0, &info, &data));
    assert_true(info.conversations == 2 && info.cut == 0 && info.dropped == 0);
    /* hel, l, o, ' ', the letters of a mark that is text, and the mark */
    assert_int_equal(info.predicted, 4 + 10 + 1 + 2 + 3);
    OK(copse_language_chat(language, NULL, "Who?", chat, sizeof chat, &size));
    OK(copse_language_encode(language, chat, size - 1, told, 400, &count));
    for (uint32_t row = 0; row < 2; row++) {
        uint32_t predicted = 0;
        OK(copse_dataset_gather(data, "x", &row, 1, x));
        OK(copse_dataset_gather(data, "y", &row, 1, y));
        if (row == 0) {
            assert_memory_equal(x, told, count * sizeof *x);
            for (size_t i = 0; i + 1 < count; i++)
                assert_int_equal(y[i], COPSE_LANGUAGE_NO_TOKEN);
            assert_int_equal(y[count - 1], HELLO);
            assert_int_equal(y[count + 13], END);
            assert_int_equal(y[count + 14], COPSE_LANGUAGE_NO_TOKEN);
        }
        for (uint32_t i = 0; i < info.window; i++) {
            predicted += y[i] != COPSE_LANGUAGE_NO_TOKEN;
            if (y[i] != COPSE_LANGUAGE_NO_TOKEN && i + 1 < info.window && x[i + 1] != 0)
                assert_int_equal(x[i + 1], y[i]);
        }
        assert_int_equal(predicted, row ? 5 : 15);
    }
    OK(copse_language_evaluate_windows(language, data, &e));
    assert_int_equal(e.tokens, info.predicted);
    copse_dataset_release(&data);
    /* windows that end within the first answer, and before it */
    OK(copse_language_conversations(language, lines, sizeof lines - 1, (uint32_t)count + 2, &info,
                                    &data));
    assert_true(info.cut >= 1 && info.window == count + 2);
    copse_dataset_release(&data);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_language_conversations(language, lines, sizeof lines - 1, 5, &info, &data),
          "2 of them, and no answer begins in a window of 5");
    static const char *const wrong[][2] = {
        { "{\"prompt\": \"a\", \"answer\": \"b\"} {}", "line 1: it is not one JSON object" },
        { "{\"prompt\": \"a\\\\\\u0000\", \"answer\": \"b\"}",
          "line 1: a text has the character \\u0000" },
        { "{\"prompt\": \"\\ud83d\", \"answer\": \"b\"}",
          "line 1: \\ud83d is half of a surrogate" },
        { "{\"prompt\": \"\\ude00\\ud83d\", \"answer\": \"b\"}", "line 1: \\ude00 is half" },
        { "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\"}], \"answer\": \"b\"}",
          "line 1: it has \"messages\" and also \"answer\"" },
        { "{\"prompt\": \"a\", \"answer\": \"b\"}\n[1]", "line 2: it is not one JSON object" },
        { "{\"prompt\": \"a\"", "line 1: it is not one JSON object" },
        { "{\"prompt\": \"a\"}", "line 1: neither a list \"messages\"" },
        { "{\"messages\": []}", "no message is of the assistant" },
        { "{\"messages\": [3]}", "no texts \"role\" and \"content\"" },
        { "{\"messages\": [{\"role\": \"tool\", \"content\": \"\"}]}", "the role \"tool\"" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"system\", "
          "\"content\": \"\"}]}",
          "is not the first" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(COPSE_ERR_FORMAT,
              copse_language_conversations(language, wrong[i][0], strlen(wrong[i][0]), 0, NULL,
                                           &data),
              wrong[i][1]);
    static const char zero[] = "{\"prompt\": \"a\", \"answer\": \"b\"}\n\0";
    FAILS(COPSE_ERR_FORMAT,
          copse_language_conversations(language, zero, sizeof zero - 1, 0, NULL, &data),
          "line 2: it has a byte 0");
    assert_null(data);
    /* a mark of UTF-8, a backslash before "u0000", a pair of surrogates */
    static const char right[] = "\xef\xbb\xbf{\"prompt\": \"a\\\\u0000\\ud83d\\ude00\", "
                                "\"answer\": \"b\"}\r\n \t";
    OK(copse_language_conversations(language, right, sizeof right - 1, 0, &info, &data));
    assert_int_equal(info.conversations, 1);
    copse_dataset_release(&data);
    close_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_first_values),
        cmocka_unit_test(test_trains),        cmocka_unit_test(test_dora_gradients),
        cmocka_unit_test(test_dora_trains),   cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_too_many_logits),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_windows),
        cmocka_unit_test(test_conversations),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
