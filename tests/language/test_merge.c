/* SPDX-License-Identifier: MIT */
/* Models merged with adapters: their weights are those of a reference, everything else is as in the
   file. */
#include "copse/data/checkpoint.h"
#include "copse/data/gguf.h"
#include "tests/language/adapter_rig.h"
#include "tests/rig/data/language_folder.h"

static const struct copse_adapter_params some = { .rank = RANK,
                                                  .alpha = 2,
                                                  .targets = "q_proj,k_proj,o_proj,*.1.mlp.*" };
enum { ADAPTED = 3 * LAYERS + 3 };
#define SCALE (2.0 / RANK)

static copse_status open_path(const char *path)
{
    OK(copse_strategy_open(ctx, on, NULL, &st));
    return copse_language_open(st, path, NULL, &language);
}

static bool is_adapted(const char *name)
{
    static const char *const parts[] = { "attn_q.w", "attn_k.w", "attn_output.w", "q_proj.w",
                                         "k_proj.w", "o_proj.w", ".1.ffn_",       ".1.mlp." };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]) && !strstr(name, "norm"))
            return true;
    return false;
}

/* ---- GGUF ---- */

static void assert_same_keys(const copse_gguf *a, const copse_gguf *b)
{
    size_t count, same;
    const struct copse_gguf_key *list = copse_gguf_keys(a, &count), *of = copse_gguf_keys(b, &same);
    assert_int_equal(count, same);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i].name, of[i].name);
        assert_int_equal(list[i].count, of[i].count);
        for (uint64_t k = 0; k < list[i].count; k++) {
            struct copse_gguf_value x, y;
            OK(copse_gguf_get(a, list[i].name, k, &x));
            OK(copse_gguf_get(b, list[i].name, k, &y));
            assert_true(x.kind == y.kind && x.whole == y.whole && x.size == y.size &&
                        memcmp(&x.real, &y.real, sizeof x.real) == 0);
            if (x.size > 0)
                assert_memory_equal(x.text, y.text, x.size);
        }
    }
}

/* Tensors that are not adapted have their types and values. */
static void assert_rest(const char *from, const char *merged, const char *type)
{
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH];
    copse_gguf *a, *b;
    size_t count, changed = 0;
    OK(copse_gguf_open(ctx, from, &a));
    OK(copse_gguf_open(ctx, merged, &b));
    assert_same_keys(a, b);
    const struct copse_gguf_tensor *list = copse_gguf_tensors(a, &count);
    for (size_t i = 0; i < count; i++) {
        const struct copse_gguf_tensor *t = copse_gguf_find(b, list[i].name);
        assert_non_null(t);
        OK(copse_gguf_read(a, t->name, x, (size_t)t->elements));
        OK(copse_gguf_read(b, t->name, y, (size_t)t->elements));
        assert_string_equal(t->type, is_adapted(t->name) ? type : list[i].type);
        const bool is_same = memcmp(x, y, t->elements * sizeof *x) == 0;
        assert_true(is_same != is_adapted(t->name));
        changed += !is_same;
    }
    assert_int_equal(changed, ADAPTED);
    copse_gguf_release(&a);
    copse_gguf_release(&b);
}

static void test_gguf(void **state)
{
    static const struct kind *const kinds[] = { &llama, &llama_blocks, &qwen2, &llama_blocks };
    struct copse_adapter_params how = some;
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint32_t d = 0; d < found_count; d++) {
            struct copse_merge_info info;
            on = found[d];
            open_kind(kinds[i]);
            const double before = evaluate();
            how.is_dora = i == 3;
            OK(copse_language_adapt(language, &how));
            fill_matrices();
            merge_all(SCALE);
            OK(copse_language_save_merged(language, path_of("merged.gguf"), NULL, &info));
            assert_int_equal(info.weights, ADAPTED);
            /* rows of down are no whole blocks */
            assert_int_equal(info.quantised, kinds[i]->is_quantised ? ADAPTED - 1 : 0);
            close_file();
            assert_rest(path_of("model.gguf"), path_of("merged.gguf"), "F32");
            OK(open_path(path_of("merged.gguf")));
            const double is = evaluate(), wanted = reference_loss(kinds[i]);
            if (!(fabs(is - wanted) < 3e-5) || fabs(before - wanted) < 1e-3)
                fail_msg("%s, row %zu: loss %.9g, not %.9g; without the adapter %.9g", on, i, is,
                         wanted, before);
            close_file();
        }
    on = "host:0";
}

static void test_gguf_types(void **state)
{
    static const struct {
        copse_type type;
        const char *name;
        double bound;
    } rows[] = { { COPSE_F32, "F32", 3e-5 },
                 { COPSE_F16, "F16", 5e-3 },
                 { COPSE_BF16, "BF16", 4e-2 } };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_kind(&llama_blocks);
        OK(copse_language_adapt(language, &some));
        fill_matrices();
        const double loss = evaluate();
        OK(copse_language_save_merged(
            language, path_of("merged.gguf"),
            &(struct copse_merge_params){ .has_type = true, .type = rows[i].type }, NULL));
        close_file();
        assert_rest(path_of("model.gguf"), path_of("merged.gguf"), rows[i].name);
        OK(open_path(path_of("merged.gguf")));
        assert_true(fabs(evaluate() - loss) < rows[i].bound);
        close_file();
    }
}

/* The key names the type of most tensors, as llama.cpp's programs write it. */
static void test_file_type(void **state)
{
    static const struct {
        const struct kind *kind;
        const char *targets;
        struct copse_merge_params how;
        uint32_t before, after;
    } rows[] = {
        { &llama_blocks, NULL, { .has_type = false }, 3, 0 },
        { &llama_blocks, NULL, { .has_type = true, .type = COPSE_F16 }, 3, 1 },
        { &llama_blocks, NULL, { .has_type = true, .type = COPSE_BF16 }, 3, 32 },
        { &llama_blocks, "q_proj", { .has_type = false }, 15, 15 }, /* most are quantised */
        { &llama, NULL, { .has_type = false }, 0, 0 },
        { &llama, NULL, { .has_type = true, .type = COPSE_F16 }, 0, 1 },
        { &llama, "q_proj", { .has_type = true, .type = COPSE_F16 }, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct copse_adapter_params how = some;
        struct gguf_file f = { .key_count = 0 };
        struct copse_gguf_value type, name;
        copse_gguf *merged;
        how.targets = rows[i].targets;
        fill_all();
        if (rows[i].kind->is_quantised)
            quantise_all();
        gguf_key_u32(&f, "general.file_type", rows[i].before);
        put_model(&f, rows[i].kind);
        OK(open_file(&f));
        OK(copse_language_adapt(language, &how));
        OK(copse_language_save_merged(language, path_of("merged.gguf"), &rows[i].how, NULL));
        close_file();
        OK(copse_gguf_open(ctx, path_of("merged.gguf"), &merged));
        OK(copse_gguf_get(merged, "general.file_type", 0, &type));
        OK(copse_gguf_get(merged, "tokenizer.chat_template", 0, &name)); /* the keys after it */
        if (type.whole != rows[i].after || name.size < 10)
            fail_msg("row %zu: the type %lld, not %u", i, (long long)type.whole, rows[i].after);
        copse_gguf_release(&merged);
        OK(open_path(path_of("merged.gguf")));
        close_file();
    }
}

/* ---- folders ---- */

static float number_of(const struct copse_array_view *a, size_t i)
{
    if (a->type == COPSE_F32)
        return ((const float *)a->data)[i];
    const uint32_t bits = ((const uint16_t *)a->data)[i];
    float value;
    if (a->type == COPSE_BF16) {
        const uint32_t wide = bits << 16;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    const int exponent = (int)(bits >> 10 & 31);
    value =
        ldexpf((float)(bits & 0x3ff) + (exponent ? 1024.0f : 0.0f), (exponent ? exponent : 1) - 25);
    return bits & 0x8000 ? -value : value;
}

/* Each value is the reference's, rounded to f32 and then to the type. */
static void assert_values(const copse_checkpoint *c, const char *name, const float *wanted,
                          size_t count)
{
    const struct copse_array_view *a = copse_checkpoint_find(c, name);
    assert_non_null(a);
    const double part = a->type == COPSE_F16 ? 0x1p-11 : a->type == COPSE_BF16 ? 0x1p-8 : 0x1p-22;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)(number_of(a, i) - wanted[i])) <= part * fabs((double)wanted[i]) + 1e-7))
            fail_msg("%s, %s, element %zu: %.9g, not %.9g", name, copse_type_name(a->type), i,
                     (double)number_of(a, i), (double)wanted[i]);
}

static void assert_copied(const char *name)
{
    char a[4096], b[4096], path[100];
    snprintf(path, sizeof path, "merged/%s", name);
    FILE *x = fopen(folder_path(name), "rb"), *y = fopen(path_of(path), "rb");
    assert_true(x && y);
    for (size_t n = 1; n > 0;) {
        n = fread(a, 1, sizeof a, x);
        assert_int_equal(fread(b, 1, sizeof b, y), n);
        assert_memory_equal(a, b, n);
    }
    fclose(x), fclose(y);
}

/* The settings name another type, and are otherwise as they were: vectors are f32 here. */
static void assert_config(const char *type)
{
    static const char key[] = "\"torch_dtype\": \"";
    size_t size, of_old;
    char *is = (char *)temp_bytes(path_of("merged/config.json"), &size),
         *old = (char *)temp_bytes(folder_path("config.json"), &of_old);
    is[size] = old[of_old] = '\0';
    const char *at = strstr(is, key), *was = strstr(old, key);
    assert_true(at && was && at - is == was - old);
    assert_memory_equal(is, old, at - is);
    at += sizeof key - 1;
    assert_memory_equal(at, type, strlen(type));
    assert_string_equal(strchr(at, '"'), strchr(was + sizeof key - 1, '"'));
    free(is), free(old);
}

static void remove_merged(void)
{
    temp_remove(path_of("merged"));
}

static void make_folder(copse_type type, struct folder_made *made)
{
    fill_all();
    round_all();
    *made = (struct folder_made){ .type = type, .more = ", \"torch_dtype\": \"of old\"" };
    folder_model(made, &llama);
    folder_write(made, ctx, &llama);
    folder_text("generation_config.json", "{}");
}

static void test_folders(void **state)
{
    static const copse_type types[] = { COPSE_F32, COPSE_F16, COPSE_BF16 };
    static struct folder_made made;
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct copse_merge_info info;
        const copse_type of_file = types[i % 3], type = i < 3 ? of_file : types[(i + 1) % 3];
        const struct copse_merge_params how = { .has_type = i >= 3, .type = type };
        copse_checkpoint *c;
        make_folder(of_file, &made);
        OK(open_path(folder_path("model.safetensors")));
        OK(copse_language_adapt(language, &some));
        fill_matrices();
        merge_all(SCALE);
        OK(copse_language_save_merged(language, path_of("merged"), &how, &info));
        assert_true(info.weights == ADAPTED && info.quantised == 0);
        FAILS(COPSE_ERR_ARGUMENT,
              copse_language_save_merged(language, path_of("merged"), NULL, NULL),
              "merged exists; name a new one");
        close_file();
        OK(copse_checkpoint_read(ctx, path_of("merged/model.safetensors"), &c));
        size_t count;
        const struct copse_metadata *about = copse_checkpoint_metadata(c, &count);
        assert_true(count == 1 && strcmp(about->key, "format") == 0 &&
                    strcmp(about->value, "pt") == 0);
        const struct copse_named_array *list = copse_checkpoint_arrays(c, &count);
        assert_int_equal(count, made.count);
        for (size_t n = 0; n < count; n++)
            if (list[n].array.rank == 2)
                assert_int_equal(list[n].array.type, is_adapted(list[n].name) ? type : of_file);
        const struct layer *l = &net.layer[1];
        assert_values(c, "model.layers.1.self_attn.q_proj.weight", l->q, HEADS * HEAD * WIDTH);
        assert_values(c, "model.layers.1.self_attn.v_proj.weight", l->v, KV * HEAD * WIDTH);
        assert_values(c, "model.layers.1.mlp.down_proj.weight", l->down, WIDTH * HIDDEN);
        assert_values(c, "model.embed_tokens.weight", net.table, TOKENS * WIDTH);
        copse_checkpoint_release(&c);
        if (type == of_file)
            assert_copied("config.json");
        else
            assert_config("float32\"");
        assert_copied("tokenizer.json");
        assert_copied("generation_config.json");
        OK(open_path(path_of("merged")));
        assert_true(fabs(evaluate() - reference_loss(&llama)) < (type == COPSE_F32 ? 3e-5 : 4e-2));
        close_file();
        remove_merged();
        folder_free(&made);
    }
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    static struct folder_made made;
    const struct copse_merge_params half = { .has_type = true, .type = COPSE_F16 },
                                    whole = { .has_type = true, .type = COPSE_I32 };
    FILE *f;
    (void)state;
    make_folder(COPSE_F32, &made);
    OK(open_path(temp_path("model")));
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_merged(language, path_of("merged"), NULL, NULL),
          "has no adapter");
    OK(copse_language_adapt(language, &(struct copse_adapter_params){ .rank = 1, .alpha = 1e6f }));
    fill_matrices();
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_merged(language, "", NULL, NULL), "no path");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_merged(language, path_of("merged"), &whole, NULL),
          "the type i32; f32, f16 and bf16 are written");
    FAILS(COPSE_ERR_IO, copse_language_save_merged(language, path_of("none/merged"), NULL, NULL),
          "none/merged");
    const size_t left = temp_count();
    FAILS(COPSE_ERR_NONFINITE, copse_language_save_merged(language, path_of("merged"), &half, NULL),
          "which f16 lacks: take the type bf16 or f32, or a smaller factor");
    FAILS(COPSE_ERR_ARGUMENT, copse_language_save_merged(language, temp_path("model"), NULL, NULL),
          "is the model itself");
    assert_int_equal(mkdir(folder_path("tokenizer_config.json"), 0700), 0); /* cannot be copied */
    FAILS(COPSE_ERR_IO, copse_language_save_merged(language, path_of("merged"), NULL, NULL),
          "tokenizer_config.json");
    remove(folder_path("tokenizer_config.json"));
    assert_int_equal(temp_count(), left); /* nothing is left */
    remove(folder_path("model.safetensors"));
    FAILS(COPSE_ERR_IO, copse_language_save_merged(language, path_of("merged"), NULL, NULL),
          "neither model.safetensors nor");
    made.arrays[3].array.shape[1]--; /* q_proj of the first layer */
    folder_weights(&made, ctx, "model.safetensors", 0, made.count);
    FAILS(COPSE_ERR_FORMAT, copse_language_save_merged(language, path_of("merged"), NULL, NULL),
          "has changed since the model was opened: \"model.layers.0.self_attn.q_proj.weight\"");
    close_file();
    folder_free(&made);
    open_kind(&llama);
    OK(copse_language_adapt(language, &(struct copse_adapter_params){ .rank = 1, .alpha = 1e6f }));
    fill_matrices();
    temp_text("old.gguf", "old");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_language_save_merged(language, path_of("model.gguf"), NULL, NULL),
          "model.gguf is the model itself");
    FAILS(COPSE_ERR_NONFINITE,
          copse_language_save_merged(language, path_of("old.gguf"), &half, NULL),
          "which f16 lacks");
    f = fopen(path_of("old.gguf"), "rb");
    assert_non_null(f);
    assert_true(fgetc(f) == 'o'); /* it is unchanged */
    fclose(f);
    close_file();
}

/* Any allocation may fail: nothing is left of the new model. */
static void test_no_memory(void **state)
{
    static struct folder_made made;
    copse_context *usual = ctx;
    (void)state;
    make_folder(COPSE_F16, &made);
    OK(copse_context_create(
        &(struct copse_context_params){ .resize = hungry, .disable = "opencl,vulkan" }, &ctx));
    for (int i = 0; i < 2; i++) {
        const char *const to = i ? "merged" : "less.gguf";
        copse_status s = COPSE_ERR_NO_MEMORY;
        if (i)
            OK(open_path(temp_path("model")));
        else
            open_kind(&llama);
        OK(copse_language_adapt(language, &some));
        const size_t before = temp_count();
        long n = 0;
        for (; s != COPSE_OK && n < 5000; n++) {
            hunger.left = n;
            s = copse_language_save_merged(language, path_of(to), NULL, NULL);
            hunger.left = -1;
            assert_int_equal(temp_count(), before + (s == COPSE_OK));
            if (s != COPSE_OK)
                assert_int_equal(s, COPSE_ERR_NO_MEMORY);
        }
        OK(s);
        assert_true(n > 10);
        close_file();
    }
    copse_context_release(&ctx);
    ctx = usual;
    remove_merged();
    folder_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),      cmocka_unit_test(test_gguf_types),
        cmocka_unit_test(test_file_type), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
