/* SPDX-License-Identifier: MIT */
/* Hostile files of models: whatever a file says, a process that opens it has at most 64 MiB of
   memory, libraries and all, and twice the bytes of the files. */
#if !defined(_DEFAULT_SOURCE)
#    define _DEFAULT_SOURCE /* wait4 */
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/language/folder_rig.h"

#include "copse/data/checkpoint.h"
#include "copse/data/readers.h"
#include "copse/nn/onnx.h"
#include "copse/train/adapt.h"
#include "copse/train/model_file.h"

#define MIB ((size_t)1 << 20)

/* A text that grows. */
static struct gguf_made out;

static void say(const char *words)
{
    gguf_put(&out, words, strlen(words));
}

static void say_often(const char *what, size_t count)
{
    for (size_t i = 0; i < count; i++)
        say(what);
}

/* Each time another number where %zu is. */
static void count_up(const char *format, size_t count)
{
    char line[200];
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof line, format, i);
        say(line);
    }
}

static void save(const char *path)
{
    temp_write(path, out.at, out.size);
    out.size = 0;
}

/* The number of bytes of a header, which are after eight, is there. */
static void end_header(const char *words, const char *path)
{
    say(words);
    const uint64_t size = out.size - 8;
    for (int i = 0; i < 8; i++)
        out.at[i] = (unsigned char)(size >> 8 * i);
    save(path);
}

static void write_folder(void)
{
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
}

/* ---- GGUF ---- */

static void save_gguf(struct gguf_file *f)
{
    gguf_bytes(f);
    temp_write("model.gguf", f->all.at, f->all.size);
}

static void many_keys(void)
{
    struct gguf_file f = { .key_count = 0 };
    char name[40];
    for (int i = 0; i < 60000; i++) {
        snprintf(name, sizeof name, "%x", i);
        gguf_key(&f, name, 0);
        gguf_number(&f.keys, 0, 1);
    }
    save_gguf(&f);
}

static void many_tensors(void)
{
    struct gguf_file f = { .key_count = 0 };
    char name[40];
    fill_all();
    put_model(&f, &llama);
    for (int i = 0; i < 60000; i++) {
        snprintf(name, sizeof name, "%x", i);
        gguf_tensor(&f, name, 0, 1, (const uint64_t[]){ 1 }, &i, 4);
    }
    save_gguf(&f);
}

static void gguf_head(struct gguf_file *f, const char *model)
{
    gguf_key_text(f, "general.architecture", "llama");
    gguf_key_text(f, "tokenizer.ggml.model", model);
    gguf_key_text(f, "tokenizer.ggml.pre", "smollm");
}

/* As many tokens as are read, without a letter; each merge is of the same two. */
static void empty_tokens(void)
{
    struct gguf_file f = { .key_count = 0 };
    gguf_head(&f, "gpt2");
    gguf_key_list(&f, "tokenizer.ggml.merges", 8, MIB);
    for (size_t i = 0; i < MIB; i++)
        gguf_text(&f.keys, "a b");
    gguf_key_list(&f, "tokenizer.ggml.tokens", 8, MIB);
    for (size_t i = 0; i < MIB; i++)
        gguf_number(&f.keys, 0, 8);
    save_gguf(&f);
}

/* Tokens that all differ, and merges that all join two of them. */
static void full_tokens(void)
{
    struct gguf_file f = { .key_count = 0 };
    char word[16];
    size_t tokens = 0, merges = 0;
    gguf_head(&f, "gpt2");
    struct gguf_made list = { .size = 0 }, joins = { .size = 0 };
    for (size_t i = 0; i < MIB; i++, tokens++) {
        snprintf(word, sizeof word, "%zx", i);
        gguf_text(&list, word);
        if (i >= 16) {
            snprintf(word, sizeof word, "%zx %zx", i / 16, i % 16);
            gguf_text(&joins, word);
            merges++;
        }
    }
    gguf_key_list(&f, "tokenizer.ggml.merges", 8, merges);
    gguf_put(&f.keys, joins.at, joins.size);
    gguf_key_list(&f, "tokenizer.ggml.tokens", 8, tokens);
    gguf_put(&f.keys, list.at, list.size);
    save_gguf(&f);
}

static void few_tokens_many_merges(void)
{
    struct gguf_file f = { .key_count = 0 };
    gguf_head(&f, "gpt2");
    gguf_key_list(&f, "tokenizer.ggml.tokens", 8, 3);
    gguf_text(&f.keys, "a"), gguf_text(&f.keys, "b"), gguf_text(&f.keys, "ab");
    gguf_key_list(&f, "tokenizer.ggml.merges", 8, MIB);
    for (size_t i = 0; i < MIB; i++)
        gguf_text(&f.keys, "a b");
    save_gguf(&f);
}

/* Counts and sizes that the file does not have. */
static void lying_gguf(void)
{
    struct gguf_file f = { .key_count = 0 };
    fill_all();
    put_model(&f, &llama);
    gguf_key_list(&f, "list", 8, (uint64_t)1 << 63);
    f.tensor_count = (uint64_t)1 << 60;
    save_gguf(&f);
}

static void lying_shape(void)
{
    struct gguf_file f = { .key_count = 0 };
    const uint64_t shape[2] = { (uint64_t)1 << 31, (uint64_t)1 << 31 };
    fill_all();
    put_model(&f, &llama);
    gguf_entry(&f, "large", 0, 2, shape, 0);
    save_gguf(&f);
}

/* ---- folders ---- */

static void config_of_numbers(void)
{
    write_folder();
    say("{\"x\":[0"), say_often(",0", MIB / 2 - 100), say("]}");
    save("model/generation_config.json");
    say("{\"x\":[0"), say_often(",0", MIB / 2 - 100), say("]}");
    save("model/config.json");
}

static void deep_config(void)
{
    write_folder();
    say_often("[", MIB - 100);
    save("model/config.json");
}

static void steps_of_numbers(void)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "post_processor" };
    write_folder();
    say("{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}");
    for (int i = 0; i < 3; i++) {
        say(", \""), say(parts[i]), say("\": {\"type\": \"Sequence\", \"x\": [0");
        say_often(",0", MIB / 2 - 100);
        say("]}");
    }
    say("}");
    save("model/tokenizer.json");
}

static void folder_of_tokens(const char *format, size_t merges)
{
    static float none[MIB];
    char config[600];
    write_folder();
    made.count = 0;
    folder_add(&made, "model.embed_tokens.weight", MIB, 1, none);
    folder_weights(&made, ctx, "model.safetensors", 0, 1);
    snprintf(config, sizeof config,
             "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 1, "
             "\"intermediate_size\": 1, \"num_attention_heads\": 1, \"head_dim\": 2, "
             "\"max_position_embeddings\": 8, \"vocab_size\": %zu, \"rms_norm_eps\": 0.01, "
             "\"hidden_act\": \"silu\"}",
             MIB);
    folder_text("config.json", config);
    say("{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"model\": "
        "{\"type\": \"BPE\", \"vocab\": {\"\":0");
    count_up(format, MIB - 1);
    say("}, \"merges\": [\"0 0\"");
    say_often(",\"0 0\"", merges);
    say("]}}");
    save("model/tokenizer.json");
}

static void tokens_of_json(void)
{
    folder_of_tokens(",\"%zx\":1", 0);
}

static void merges_of_json(void)
{
    folder_of_tokens(",\"%1$zx\":%1$zu", MIB - 1);
}

static void long_header(void)
{
    write_folder();
    say("12345678{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
    count_up(",\"%zx\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", 60000);
    end_header("}", "model/model.safetensors");
}

static void lying_header(void)
{
    write_folder();
    say("\xff\xff\xff\xff\xff\xff\xff\x7f{}");
    save("model/model.safetensors");
}

static void long_index(void)
{
    write_folder();
    unlink(temp_path("model/model.safetensors"));
    folder_weights(&made, ctx, "a.safetensors", 0, made.count);
    say("{\"weight_map\": {\"a\":\"a.safetensors\"");
    count_up(",\"%zx\":\"a.safetensors\"", 300000);
    say("}}");
    save("model/model.safetensors.index.json");
}

static void long_template(void)
{
    write_folder();
    say_often("{{ x }}", MIB / 7 - 1);
    save("model/chat_template.jinja");
    say("{\"chat_template\": [{\"name\": \"default\", \"template\": \"x\"}");
    say_often(",{}", MIB / 3 - 100);
    say("]}");
    save("model/tokenizer_config.json");
}

/* ---- ONNX ---- */

/* A field of bytes: its number, and how many. */
static void field(unsigned number, size_t size)
{
    gguf_number(&out, number << 3 | 2, 1);
    for (; size > 127; size >>= 7)
        gguf_number(&out, (size & 127) | 128, 1);
    gguf_number(&out, size, 1);
}

/* A graph (field 7) of empty messages: nodes are 1, initialisers 5, inputs 11. */
static void empty_messages(unsigned number)
{
    const size_t count = 4 * MIB;
    field(7, 2 * count);
    for (size_t i = 0; i < count; i++)
        field(number, 0);
    save("model.onnx");
}

static void empty_nodes(void)
{
    empty_messages(1);
}

static void empty_tensors(void)
{
    empty_messages(5);
}

/* A node with names of no letters. */
static void empty_names(void)
{
    const size_t count = 4 * MIB;
    field(7, 2 * count + 5);
    field(1, 2 * count);
    for (size_t i = 0; i < count; i++)
        field(1, 0);
    save("model.onnx");
}

static void lying_message(void)
{
    field(7, (size_t)1 << 62);
    save("model.onnx");
}

/* ---- schemas of model files ---- */

/* Begin the file of a model whose schema follows, with a backslash before each quotation mark. */
static void begin_schema(void)
{
    say("12345678{\"__metadata__\":{\"format\":\"copse-model-1\",\"network\":\"mlp:3\","
        "\"seed\":\"1\",\"schema\":\"");
}

static void schema_of_numbers(void)
{
    begin_schema();
    say("{\\\"scaling\\\":{\\\"mean\\\":[0"), say_often(",0", 3 * MIB / 2);
    end_header("]}}\"}}", "model.safetensors");
}

/* As many as are read. */
static void schema_of_keys(void)
{
    begin_schema();
    say("{\\\"a\\\":0"), say_often(",\\\"a\\\":0", MIB / 4);
    end_header("}\"}}", "model.safetensors");
}

static void deep_schema(void)
{
    begin_schema();
    say_often("[", MIB);
    end_header("\"}}", "model.safetensors");
}

/* ---- adapters and conversations ---- */

static void adapter_of_numbers(void)
{
    write_folder();
    mkdir(temp_path("adapter"), 0700);
    say("12345678");
    end_header("{}", "adapter/adapter_model.safetensors");
    say("{\"peft_type\":\"LORA\",\"x\":[0"), say_often(",0", MIB / 2 - 100), say("]}");
    save("adapter/adapter_config.json");
}

static void write_chat(void)
{
    write_folder();
    folder_text("chat_template.jinja", "'<|im_start|>' + message['role']");
}

static void line_of_letters(void)
{
    write_chat();
    say("{\"prompt\":\"a\",\"answer\":\""), say_often("a", 32 * MIB), say("\"}\n");
    save("lines.jsonl");
}

static void line_of_numbers(void)
{
    write_chat();
    say("{\"prompt\":\"a\",\"answer\":\"b\",\"x\":[0"), say_often(",0", MIB - 100), say("]}\n");
    save("lines.jsonl");
}

static void line_of_keys(void)
{
    write_chat();
    say("{\"prompt\":\"a\",\"answer\":\"b\""), count_up(",\"%zx\":0", MIB / 8), say("}\n");
    save("lines.jsonl");
}

static void deep_line(void)
{
    write_chat();
    say_often("[", 2 * MIB);
    save("lines.jsonl");
}

/* ---- opening ---- */

static const struct hostile {
    const char *name, *path;
    void (*write)(void);
    const char *says; /* the error [NULL: any, or none] */
} files[] = {
    { "many keys", "model.gguf", many_keys, NULL },
    { "many tensors", "model.gguf", many_tensors, NULL },
    { "tokens without letters", "model.gguf", empty_tokens, NULL },
    { "tokens and merges", "model.gguf", full_tokens, NULL },
    { "many merges", "model.gguf", few_tokens_many_merges, NULL },
    { "lying counts", "model.gguf", lying_gguf, NULL },
    { "a lying shape", "model.gguf", lying_shape, NULL },
    { "configurations of numbers", "model", config_of_numbers, NULL },
    { "a deep configuration", "model", deep_config, NULL },
    { "steps of numbers", "model", steps_of_numbers, NULL },
    { "tokens with one number", "model", tokens_of_json, NULL },
    { "merges in JSON", "model", merges_of_json, NULL },
    { "a long header", "model", long_header, NULL },
    { "a lying header", "model", lying_header, NULL },
    { "a long index", "model", long_index, NULL },
    { "a long template", "model", long_template, NULL },
    { "empty nodes", "model.onnx", empty_nodes, NULL },
    { "empty tensors", "model.onnx", empty_tensors, NULL },
    { "empty names", "model.onnx", empty_names, NULL },
    { "a lying message", "model.onnx", lying_message, NULL },
    { "a schema of numbers", "model.safetensors", schema_of_numbers, "values in" },
    { "a schema of keys", "model.safetensors", schema_of_keys, "unknown field" },
    { "a deep schema", "model.safetensors", deep_schema, "values in" },
    { "an adapter of numbers", "adapter", adapter_of_numbers, "not one JSON object" },
    { "a line of letters", "lines.jsonl", line_of_letters, "bytes, at most" },
    { "a line of numbers", "lines.jsonl", line_of_numbers, "not one JSON object" },
    { "a line of keys", "lines.jsonl", line_of_keys, "not one JSON object" },
    { "a deep line", "lines.jsonl", deep_line, "not one JSON object" },
};

/* Runs in a process of its own; returns its peak of resident memory. */
static size_t peak_of(const struct hostile *h, void (*run)(const struct hostile *))
{
    struct rusage used;
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run(h);
        _exit(0);
    }
    assert_int_equal(wait4(child, &status, 0, &used), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s: status %d", h->name, status);
    return (size_t)used.ru_maxrss * 1024;
}

/* Bytes of a file, or of the files of a folder. */
static size_t bytes_of(const char *path)
{
    struct stat is;
    struct dirent *entry;
    size_t sum = 0;
    assert_int_equal(stat(path, &is), 0);
    if (!S_ISDIR(is.st_mode))
        return (size_t)is.st_size;
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        char name[600];
        snprintf(name, sizeof name, "%.300s/%.250s", path, entry->d_name);
        sum += entry->d_name[0] == '.' ? 0 : bytes_of(name);
    }
    closedir(d);
    return sum;
}

static void begin_context(void)
{
    if (copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx) !=
        COPSE_OK)
        _exit(3);
}

static void write_files(const struct hostile *h)
{
    begin_context();
    h->write();
}

static copse_status open_model(const char *path)
{
    copse_checkpoint *file;
    copse_schema *schema;
    copse_layer *layer;
    OK(copse_checkpoint_open(ctx, path, &file));
    return copse_model_describe(ctx, file, &schema, &layer);
}

static copse_status open_adapter(const char *path)
{
    OK(open_path(temp_path("model")));
    return copse_language_load_adapter(language, path);
}

static copse_status open_lines(const char *path)
{
    copse_array *lines;
    copse_dataset *data;
    OK(open_path(temp_path("model")));
    OK(copse_read_text(ctx, path, NULL, &lines));
    const struct copse_array_view *view = copse_array_view(lines);
    return copse_language_conversations(language, view->data, (size_t)view->shape[0], 0, NULL,
                                        &data);
}

static copse_status open_network(const char *path)
{
    copse_onnx *network;
    return copse_onnx_open(ctx, path, &network);
}

/* An error, or a model that can be used. */
static void open_files(const struct hostile *h)
{
    static const struct {
        const char *ending;
        copse_status (*open)(const char *path);
    } kinds[] = { { ".onnx", open_network },
                  { ".safetensors", open_model },
                  { "adapter", open_adapter },
                  { ".jsonl", open_lines },
                  { "", open_path } };
    size_t kind = 0;
    while (!strstr(h->path, kinds[kind].ending))
        kind++;
    begin_context();
    const copse_status s = kinds[kind].open(temp_path(h->path));
    if (s != COPSE_OK && s != COPSE_ERR_FORMAT && s != COPSE_ERR_UNSUPPORTED &&
        s != COPSE_ERR_NO_MEMORY)
        fail_msg("%s: %s: %s", h->name, copse_status_name(s), copse_last_error());
    if (h->says && (s == COPSE_OK || !strstr(copse_last_error(), h->says)))
        fail_msg("%s: %s: %s", h->name, copse_status_name(s), copse_last_error());
}

/* Sanitizers keep memory of their own, beside the memory of the program. */
#if defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define IS_SANITIZED true
#    endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define IS_SANITIZED true
#endif
#if !defined(IS_SANITIZED)
#    define IS_SANITIZED false
#endif

static void test_memory(void **state)
{
    (void)state;
    size_t wrong = 0;
    if (IS_SANITIZED) {
        print_message("skipped: the memory of a sanitizer counts, too\n");
        skip();
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        temp_begin();
        (void)peak_of(&files[i], write_files);
        const size_t bytes = bytes_of(temp_path(files[i].path)), most = 64 * MIB + 2 * bytes,
                     is = peak_of(&files[i], open_files);
        printf("%s: %zu bytes, at most %zu of memory, %zu used\n", files[i].name, bytes, most, is);
        wrong += is > most;
        temp_end();
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
