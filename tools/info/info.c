/* SPDX-License-Identifier: MIT */
/* copse info: what a file of weights holds, and the memory of a training step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/checkpoint.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"
#include "tools/common/use.h"
#include "tools/info/info_folder.h"
#include "tools/info/info_gguf.h"
#include "tools/info/info_memory.h"
#include "tools/info/info_model.h"
#include "tools/info/info_onnx.h"
#include "tools/train/train.h"

#define VALUE_SHOWN 400 /* bytes of a metadata value */

struct info {
    const char *path;
    copse_checkpoint *file;
    const struct copse_named_array *arrays;
    const struct copse_metadata *lines;
    size_t count, line_count;
    const char **names; /* sorted */
    struct info_model model;
    uint64_t bytes, parameters;
    /* arrays that are no parameters: slots of an optimizer, data of the application */
    size_t others;
};

static uint64_t info_elements(const struct copse_array_view *a)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        n *= a->shape[i];
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "application/..." and, where there is an array "dense1.weight", "dense1.weight/...", as in
   checkpoints. */
static bool is_other(const struct info *in, const char *name)
{
    char prefix[1025];
    if (strncmp(name, "application/", 12) == 0)
        return true;
    for (const char *c = strchr(name, '/'); c; c = strchr(c + 1, '/')) {
        const char *key = prefix;
        snprintf(prefix, sizeof prefix, "%.*s", (int)(c - name), name);
        if (bsearch(&key, in->names, in->count, sizeof *in->names, by_text))
            return true;
    }
    return false;
}

static copse_status info_examine(copse_context *ctx, struct info *in)
{
    struct system_file file;
    COPSE_TRY(copse_checkpoint_open(ctx, in->path, &in->file));
    in->arrays = copse_checkpoint_arrays(in->file, &in->count);
    in->lines = copse_checkpoint_metadata(in->file, &in->line_count);
    in->bytes = system_look(in->path, &file) ? file.size : 0;
    in->names = malloc((in->count + 1) * sizeof *in->names);
    if (!in->names)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %zu names", in->count);
    for (size_t i = 0; i < in->count; i++)
        in->names[i] = in->arrays[i].name;
    qsort(in->names, in->count, sizeof *in->names, by_text);
    for (size_t i = 0; i < in->count; i++)
        if (is_other(in, in->arrays[i].name))
            in->others++;
        else
            in->parameters += info_elements(&in->arrays[i].array);
    return info_model_open(ctx, in->file, &in->model);
}

/* ---- text ---- */

static void shape_text(const struct copse_array_view *a, char text[200])
{
    int n = snprintf(text, 200, "[");
    for (uint32_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, (size_t)(200 - n), i ? ", %zu" : "%zu", a->shape[i]);
    snprintf(text + n, (size_t)(200 - n), "]");
}

/* A value may have lines; further ones are indented. */
static void print_value(const char *key, const char *value, int width)
{
    const size_t size = strlen(value);
    char plain[1100];
    printf("  %-*s  ", width, session_plain(plain, sizeof plain, key));
    for (size_t at = 0; at < size && at < VALUE_SHOWN;) {
        const size_t rest = VALUE_SHOWN - at, line = strcspn(value + at, "\n");
        char text[VALUE_SHOWN + 1];
        snprintf(text, sizeof text, "%.*s", (int)(line < rest ? line : rest), value + at);
        if (at > 0)
            printf("\n  %-*s  ", width, "");
        printf("%s", session_plain(plain, sizeof plain, text));
        at += line + 1;
    }
    if (size > VALUE_SHOWN)
        printf(" ... (%zu bytes)", size);
    printf("\n");
}

static copse_status print_text(const struct info *in)
{
    char plain[1100], shape[200];
    int width = 4, key_width = 0;
    for (size_t i = 0; i < in->count; i++) {
        const int n = (int)strlen(in->arrays[i].name);
        width = n > width ? n < 48 ? n : 48 : width;
    }
    for (size_t i = 0; i < in->line_count; i++) {
        const int n = (int)strlen(in->lines[i].key);
        key_width = n > key_width ? n < 32 ? n : 32 : key_width;
    }
    printf("%s: %" PRIu64 " parameter%s, %zu array%s, %" PRIu64 " bytes\n",
           session_plain(plain, sizeof plain, in->path), in->parameters, plural_end(in->parameters),
           in->count, plural_end(in->count), in->bytes);
    if (in->others > 0)
        printf("%zu of the arrays are slots of an optimizer or data of an application\n",
               in->others);
    COPSE_TRY(info_model_print(&in->model));
    if (in->count > 0)
        printf("\n  %-*s  type  %-18s %12s\n", width, "name", "shape", "elements");
    for (size_t i = 0; i < in->count; i++) {
        const struct copse_array_view *a = &in->arrays[i].array;
        shape_text(a, shape);
        printf("  %-*s  %-4s  %-18s %12" PRIu64 "\n", width,
               session_plain(plain, sizeof plain, in->arrays[i].name), copse_type_name(a->type),
               shape, info_elements(a));
    }
    if (in->line_count > 0)
        printf("\n");
    for (size_t i = 0; i < in->line_count; i++)
        print_value(in->lines[i].key, in->lines[i].value, key_width);
    return COPSE_OK;
}

/* ---- JSON ---- */

static bool add_array(cJSON *list, const struct copse_named_array *named)
{
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, o))
        return false;
    json_add_text(o, "name", named->name);
    json_add_text(o, "type", copse_type_name(named->array.type));
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (uint32_t i = 0; shape && i < named->array.rank; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%zu", named->array.shape[i]);
        if (!cJSON_AddItemToArray(shape, cJSON_CreateRaw(digits)))
            return false;
    }
    json_add_count(o, "elements", info_elements(&named->array));
    return shape != NULL;
}

static copse_status print_json(const struct info *in)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "path", in->path);
    json_add_count(o, "bytes", in->bytes);
    json_add_count(o, "parameters", in->parameters);
    cJSON *list = cJSON_AddArrayToObject(o, "arrays"),
          *lines = cJSON_AddObjectToObject(o, "metadata");
    bool ok = list && lines;
    for (size_t i = 0; ok && i < in->count; i++)
        ok = add_array(list, &in->arrays[i]);
    for (size_t i = 0; ok && i < in->line_count; i++)
        json_add_text(lines, in->lines[i].key, in->lines[i].value);
    copse_status s =
        ok ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the arrays as JSON");
    if (s == COPSE_OK)
        s = info_model_add(&in->model, o);
    if (s == COPSE_OK)
        return json_print(o);
    cJSON_Delete(o);
    return s;
}

static int print_file(struct info *in, bool is_json)
{
    copse_context *ctx = NULL;
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = info_examine(ctx, in);
    if (s == COPSE_OK && is_json)
        s = print_json(in);
    else if (s == COPSE_OK)
        s = print_text(in);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    info_model_close(&in->model);
    free(in->names);
    copse_checkpoint_release(&in->file);
    copse_context_release(&ctx);
    return code;
}

/* Options that go together; an error text, or NULL. */
static const char *info_check(const struct option_words *words, const struct info_memory *m,
                              bool is_plan)
{
    const struct info_memory normal = info_memory_defaults();
    if (!is_plan)
        return words->count != 1 ? "which file? give one FILE"
               : m->model || m->data || m->context > 0 || m->budget > 0 ||
                       m->devices != normal.devices || m->batch != normal.batch ||
                       m->tokens.at != normal.tokens.at || m->optimizer.at != normal.optimizer.at ||
                       m->precision.at != normal.precision.at
                   ? "--model, --data, --tokens, --context, --batch, --optimizer, --precision, "
                     "--budget and --devices belong to --memory"
                   : NULL;
    if (words->count == 1 && (use_is_language(words->at[0]) || use_is_onnx(words->at[0])))
        return "--memory: FILE is a model or a checkpoint of `copse train`, not a language model "
               "or an ONNX file";
    if (words->count + (m->model != NULL) != 1)
        return "--memory: give either one FILE or --model";
    if (words->count > 0 && (m->data || m->context > 0 || m->tokens.at->value != TEXT_NONE))
        return "--data, --tokens and --context belong to --model: FILE has its data";
    if (m->tokens.at->value != TEXT_NONE && !m->data)
        return "--tokens reads a text: name it with --data";
    return m->batch == 0 ? "--batch: must be at least 1" : NULL;
}

int cmd_info(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct info in = { .path = NULL };
    struct info_memory m = info_memory_defaults();
    bool is_json = false, is_plan = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "FILE",
          "weights, a model, a checkpoint; a GGUF or ONNX file; a folder" },
        { "memory", OPTION_FLAG, &is_plan, NULL,
          "the memory of a training step instead: memory.md" },
        { "model", OPTION_TEXT, &m.model, "NET",
          "of this network instead of FILE, as for `copse train`" },
        { "data", OPTION_TEXT, &m.data, "PATH",
          "its data [of gpt, gru, lstm: bytes; else the digits set]" },
        { "tokens", OPTION_CHOICE, &m.tokens, "NAME",
          "--data is a text of characters or bytes [none]" },
        { "context", OPTION_COUNT, &m.context, "N", "tokens in a window of a text [16]" },
        { "batch", OPTION_COUNT, &m.batch, "N", "examples of a step [64]" },
        { "optimizer", OPTION_CHOICE, &m.optimizer, "NAME", "as for `copse train` [adam]" },
        { "precision", OPTION_CHOICE, &m.precision, "NAME", "as for `copse train` [f32]" },
        { "budget", OPTION_BYTES, &m.budget, "BYTES",
          "recompute to this budget of a device [as little memory as possible]" },
        { "devices", OPTION_TEXT, &m.devices, "WHICH", "as for `copse train` [auto]" },
        { "json", OPTION_FLAG, &is_json, NULL,
          "one JSON object; with --memory one for each device" },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse info model.safetensors" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse info --memory --model gpt:12,64,2 --batch 8 --context 128" },
        { 0 },
    };
    const int code = options_parse(
        argc, argv, rows,
        "Prints what a file holds: arrays and metadata; of a model also its layers, "
        "its data\n(columns with their scaling, classes, vocabulary) and the course of "
        "its training.\nWith --memory: the device memory of a training step, without and "
        "with recomputation.");
    if (code >= 0)
        return code;
    const char *wrong = info_check(&words, &m, is_plan);
    if (wrong) {
        fprintf(stderr, "copse info: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    in.path = m.path = words.count > 0 ? words.at[0] : NULL;
    m.is_json = is_json;
    if (is_plan)
        return info_memory_run(&m);
    return use_is_gguf(in.path)           ? info_gguf_run(in.path, is_json)
           : use_is_model_folder(in.path) ? info_folder_run(in.path, is_json)
           : use_is_onnx(in.path)         ? info_onnx_run(in.path, is_json)
                                          : print_file(&in, is_json);
}
