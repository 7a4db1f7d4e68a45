/* SPDX-License-Identifier: MIT */
/* Adapters of language models: what they add is compared with a reference in double precision; what
   trains, what does not; several replicas; files, also those that are not as they must be. */
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "copse/train/adapt.h"
#include "tests/language/language_rig.h"
#include "tests/rig/found.h"

enum { RANK = 3, WINDOW = 12 };
static const char text[] = "the hen sings and the owl sleeps, hello fox; the cat waits ???";

static int begin(void **state)
{
    (void)state;
    temp_begin();
    if (copse_context_create(&(struct copse_context_params){ .disable = NULL }, &ctx) != COPSE_OK)
        return 1;
    find_devices(ctx);
    return 0;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* ---- what the tests share ---- */

static const char *path_of(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", temp_folder, name);
    return path;
}

static copse_variable *variable_of(const char *name)
{
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(copse_variable_name(list[i]), name) == 0)
            return list[i];
    return NULL;
}

static size_t elements_of(copse_variable *v)
{
    const copse_shape s = copse_variable_shape(v);
    return (size_t)s.dims[0] * (s.rank > 1 ? s.dims[1] : 1);
}

/* All values of the strategy's variables that are adapters or are not; the caller frees them. */
static float *values_of(bool is_adapter, size_t *total)
{
    copse_variable *const *list;
    size_t count;
    float *all = malloc(sizeof *all * 200000);
    assert_non_null(all);
    *total = 0;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if ((strstr(copse_variable_name(list[i]), ".lora_") != NULL) == is_adapter) {
            assert_true(*total + elements_of(list[i]) < 200000);
            OK(copse_variable_read(list[i], 0, all + *total));
            *total += elements_of(list[i]);
        }
    return all;
}

static double evaluate(void)
{
    struct copse_language_evaluation e;
    OK(copse_language_evaluate(language, text, sizeof text - 1, WINDOW, &e));
    return e.loss;
}

/* Random values for all matrices, those with zeros too. */
static void fill_matrices(void)
{
    copse_variable *const *list;
    static float numbers[HIDDEN * WIDTH];
    size_t count;
    random_state = 31;
    copse_strategy_variables(st, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strstr(copse_variable_name(list[i]), ".lora_")) {
            fill(numbers, elements_of(list[i]), 0, 0.6f);
            OK(copse_variable_assign(list[i], numbers));
        }
}

static void open_adapted(const struct copse_adapter_params *how)
{
    open_kind(&llama);
    OK(copse_language_adapt(language, how));
}

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

/* W + s B A in the reference. */
static void merge_into(float *w, uint32_t rows, uint32_t columns, uint32_t layer, const char *name,
                       double scale)
{
    char full[200];
    static float a[RANK * HIDDEN], b[HIDDEN * RANK];
    snprintf(full, sizeof full, "base_model.model.model.layers.%u.%s.lora_A.weight", layer, name);
    copse_variable *v = variable_of(full);
    if (!v)
        return;
    assert_int_equal(copse_variable_shape(v).dims[0], RANK);
    assert_int_equal(copse_variable_shape(v).dims[1], columns);
    OK(copse_variable_read(v, 0, a));
    full[strlen(full) - strlen("A.weight")] = 'B';
    OK(copse_variable_read(variable_of(full), 0, b));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            double sum = 0;
            for (uint32_t k = 0; k < RANK; k++)
                sum += (double)b[r * RANK + k] * (double)a[k * columns + c];
            w[r * columns + c] = (float)((double)w[r * columns + c] + scale * sum);
        }
}

static void merge_all(double scale)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        struct layer *l = &net.layer[i];
        merge_into(l->q, HEADS * HEAD, WIDTH, i, "self_attn.q_proj", scale);
        merge_into(l->k, KV * HEAD, WIDTH, i, "self_attn.k_proj", scale);
        merge_into(l->v, KV * HEAD, WIDTH, i, "self_attn.v_proj", scale);
        merge_into(l->o, WIDTH, HEADS * HEAD, i, "self_attn.o_proj", scale);
        merge_into(l->gate, HIDDEN, WIDTH, i, "mlp.gate_proj", scale);
        merge_into(l->up, HIDDEN, WIDTH, i, "mlp.up_proj", scale);
        merge_into(l->down, WIDTH, HIDDEN, i, "mlp.down_proj", scale);
    }
}

static double reference_loss(const struct kind *k)
{
    int32_t tokens[MOST];
    double outputs[TOKENS], sum = 0;
    size_t count, predicted = 0;
    OK(copse_language_encode(language, text, sizeof text - 1, tokens, MOST, &count));
    for (size_t t = 0; t < count; t++) {
        if (t % WINDOW > 0) {
            sum += loss_of(outputs, tokens[t]);
            predicted++;
        }
        predict(k, tokens[t], (int)(t % WINDOW), outputs);
    }
    return sum / (double)predicted;
}

static void test_values(void **state)
{
    static const struct {
        const struct kind *kind;
        struct copse_adapter_params how;
        double scale;
    } rows[] = {
        { &llama, { .rank = RANK }, 2 },
        { &qwen2, { .rank = RANK, .alpha = 1.5f, .dropout = 0.5f }, 0.5 },
        { &qwen3, { .rank = RANK, .alpha = 1, .is_rank_stabilised = true }, 0.57735026918962576 },
        { &llama, { .rank = RANK, .targets = "q_proj, model.layers.1.mlp.*" }, 2 },
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
            assert_memory_equal(&zero, &before, sizeof zero);
            OK(copse_language_describe_adapter(language, &info));
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

/* ---- files ---- */

static void test_files(void **state)
{
    static const char *const names[] = { "adapter.safetensors", "adapter" };
    (void)state;
    on = "host:0";
    for (int i = 0; i < 2; i++) {
        struct copse_adapter_info before, after;
        size_t count;
        const struct copse_adapter_params how = { .rank = RANK,
                                                  .alpha = 5,
                                                  .dropout = 0.25f,
                                                  .is_rank_stabilised = i == 1,
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
        close_file();
        free(saved), free(loaded);
    }
}

static void load_config(const char *config, copse_status status, const char *word)
{
    const double before = evaluate();
    temp_write("adapter_config.json", config, strlen(config));
    FAILS(status, copse_language_load_adapter(language, path_of("some.safetensors")), word);
    const double after = evaluate();
    assert_memory_equal(&before, &after, sizeof before);
}

/* Arrays [rows, columns] of these names. */
static void write_arrays(const char *const *names, const size_t (*shapes)[2], size_t count)
{
    static const float zeros[HIDDEN * 64];
    struct copse_named_array arrays[4];
    for (size_t i = 0; i < count; i++)
        arrays[i] =
            (struct copse_named_array){ names[i],
                                        { COPSE_F32, 2, { shapes[i][0], shapes[i][1] }, zeros } };
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
    load_config("[1]", COPSE_ERR_FORMAT, "are no JSON object");
    load_config("{\"peft_type\"", COPSE_ERR_FORMAT, "are no JSON object");
    load_config("{\"r\": 3}", COPSE_ERR_UNSUPPORTED, "\"peft_type\" is not \"LORA\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 3}", COPSE_ERR_FORMAT, "\"lora_alpha\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 6}", COPSE_ERR_FORMAT,
                "\"r\"");
    load_config("{\"peft_type\": \"LORA\", \"r\": 2.5, \"lora_alpha\": 6}", COPSE_ERR_FORMAT,
                "the rank is 2.5");
    load_config(GOOD ", \"lora_dropout\": 1}", COPSE_ERR_FORMAT, "\"lora_dropout\"");
    load_config(GOOD ", \"use_dora\": true}", COPSE_ERR_UNSUPPORTED, "\"use_dora\"");
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
    temp_write("adapter_config.json", GOOD "}", strlen(GOOD "}"));
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

/* ---- what is refused ---- */

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
        { "{\"prompt\": \"a\\u0000\", \"answer\": \"b\"}", "line 1: it is not one JSON object" },
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
    close_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_first_values),
        cmocka_unit_test(test_trains),        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_files),         cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_windows),       cmocka_unit_test(test_gguf_files),
        cmocka_unit_test(test_conversations),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
