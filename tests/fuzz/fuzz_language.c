/* SPDX-License-Identifier: MIT */
/* Language models and adapters on the host's device: the small model of the tests. The bytes replace
   one of its files. */
#include "tests/fuzz/fuzz.h"
#include "tests/language/language_rig.h"
#include "tests/rig/data/language_folder.h"

#include "copse/train/adapt.h"
#include "core/base/base.h"

static const char words[] = "the hen sings, hello fox <|im_end|> 12 ???";

static void seed_file(const char *seeds, const char *name, const char *path)
{
    size_t size;
    void *bytes = temp_bytes(path, &size);
    fuzz_seed(seeds, name, bytes, size);
    free(bytes);
}

/* Opens a model and uses it, to where an error comes. */
static copse_status use_model(const char *path)
{
    int32_t tokens[64];
    size_t count;
    OK(copse_strategy_open(ctx, on, NULL, &st));
    copse_status s = copse_language_open(st, path, &how_to_open, &language);
    if (s == COPSE_OK)
        s = copse_language_encode(language, words, sizeof words - 1, tokens, COPSE_COUNT(tokens),
                                  &count);
    return s;
}

static void begin_files(copse_context *context)
{
    ctx = context;
    temp_begin();
    atexit(temp_end);
    fill_all();
    OK(copse_strategy_open(ctx, on, NULL, &st)); /* what the context keeps of its devices */
    copse_strategy_release(&st);
}

/* ---- one file ---- */

static void begin_model(copse_context *context, const char *seeds)
{
    begin_files(context);
    const struct kind *const kinds[] = { &llama, &llama_blocks, &qwen2, &qwen3,
                                         &gemma, &gemma2,       &gemma3 };
    quantise_all();
    for (size_t i = 0; i < COPSE_COUNT(kinds); i++) {
        const char name[] = { 'a', (char)('0' + i), 0 };
        struct gguf_file f = { .key_count = 0 };
        put_model(&f, kinds[i]);
        gguf_bytes(&f);
        fuzz_seed(seeds, name, f.all.at, f.all.size);
        gguf_free(&f);
    }
}

static void read_model(const uint8_t *bytes, size_t size)
{
    (void)!use_model(temp_write("input.gguf", bytes, size));
    close_file();
}

/* ---- a file of a folder ---- */

static struct folder_made made = { .type = COPSE_F32 };

static void begin_folder(copse_context *context, const char *seeds, const char *file)
{
    begin_files(context);
    folder_model(&made, &llama);
    (void)!folder_write(&made, ctx, &llama);
    seed_file(seeds, "file", folder_path(file));
}

static void read_folder(const char *file, const uint8_t *bytes, size_t size)
{
    char path[100];
    snprintf(path, sizeof path, "model/%s", file);
    temp_write(path, bytes, size);
    (void)!use_model(temp_path("model"));
    close_file();
}

#define FOLDER_TARGET(name, file)                                       \
    static void begin_##name(copse_context *context, const char *seeds) \
    {                                                                   \
        begin_folder(context, seeds, file);                             \
    }                                                                   \
    static void read_##name(const uint8_t *bytes, size_t size)          \
    {                                                                   \
        read_folder(file, bytes, size);                                 \
    }
FOLDER_TARGET(config, "config.json")
FOLDER_TARGET(folder_tokenizer, "tokenizer.json")
FOLDER_TARGET(weights, "model.safetensors")

static void begin_index(copse_context *context, const char *seeds)
{
    static const char index[] = "{\"metadata\": {\"total_size\": 9}, \"weight_map\": "
                                "{\"model.norm.weight\": \"a.safetensors\"}}";
    begin_files(context);
    folder_model(&made, &llama);
    (void)!folder_write(&made, ctx, &llama);
    char from[300];
    snprintf(from, sizeof from, "%s", folder_path("model.safetensors"));
    if (rename(from, folder_path("a.safetensors")) != 0)
        exit(1);
    fuzz_seed(seeds, "index", index, sizeof index - 1);
}

static void read_index(const uint8_t *bytes, size_t size)
{
    read_folder("model.safetensors.index.json", bytes, size);
}

/* ---- adapters and conversations of the small model ---- */

static void begin_adapter(copse_context *context, const char *seeds, const char *name,
                          const char *file)
{
    const bool is_gguf = strstr(file, ".gguf") != NULL; /* which cannot hold DoRA */
    begin_files(context);
    for (int dora = 0; dora < 2 - is_gguf; dora++) {
        struct gguf_file f = { .key_count = 0 };
        put_model(&f, &llama);
        OK(open_file(&f));
        const struct copse_adapter_params params = { .rank = 2, .seed = 3, .is_dora = dora != 0 };
        OK(copse_language_adapt(language, &params));
        char path[300];
        snprintf(path, sizeof path, "%s", temp_path(name));
        OK(copse_language_save_adapter(language, path));
        close_file();
        seed_file(seeds, dora ? "dora" : "lora", temp_path(file));
    }
}

static void read_adapter(const char *name, const char *file, const uint8_t *bytes, size_t size)
{
    temp_write(file, bytes, size);
    OK(use_model(temp_path("model.gguf")));
    (void)!copse_language_load_adapter(language, temp_path(name));
    close_file();
}

#define ADAPTER_TARGET(id, name, file)                                \
    static void begin_##id(copse_context *context, const char *seeds) \
    {                                                                 \
        begin_adapter(context, seeds, name, file);                    \
    }                                                                 \
    static void read_##id(const uint8_t *bytes, size_t size)          \
    {                                                                 \
        read_adapter(name, file, bytes, size);                        \
    }
ADAPTER_TARGET(adapter_gguf, "a.gguf", "a.gguf")
ADAPTER_TARGET(adapter_file, "a.safetensors", "a.safetensors")
ADAPTER_TARGET(adapter_config, "a", "a/adapter_config.json")

static void begin_conversations(copse_context *context, const char *seeds)
{
    static const char lines[] =
        "{\"prompt\": \"a\\u00e4\", \"answer\": \"hello\"}\n"
        "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
        "\"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}\n";
    struct gguf_file f = { .key_count = 0 };
    begin_files(context);
    put_model(&f, &llama);
    OK(open_file(&f));
    close_file();
    fuzz_seed(seeds, "lines", lines, sizeof lines - 1);
}

static void read_conversations(const uint8_t *bytes, size_t size)
{
    struct copse_conversations_info info;
    copse_dataset *data = NULL;
    OK(use_model(temp_path("model.gguf")));
    (void)!copse_language_conversations(language, (const char *)bytes, size, 0, &info, &data);
    copse_dataset_release(&data);
    close_file();
}

const struct fuzz_target fuzz_language_targets[] = {
    { "language", begin_model, read_model },
    { "config", begin_config, read_config },
    { "folder_tokenizer", begin_folder_tokenizer, read_folder_tokenizer },
    { "weights", begin_weights, read_weights },
    { "index", begin_index, read_index },
    { "adapter_gguf", begin_adapter_gguf, read_adapter_gguf },
    { "adapter_file", begin_adapter_file, read_adapter_file },
    { "adapter_config", begin_adapter_config, read_adapter_config },
    { "conversations", begin_conversations, read_conversations },
    { .name = NULL },
};
