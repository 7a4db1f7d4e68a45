/* SPDX-License-Identifier: MIT */
/* copse info: what a safetensors file holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "copse/data/checkpoint.h"

#include "tools/common/json.h"
#include "tools/info/info_model.h"

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
    size_t others; /* arrays that are no parameters: slots of an optimizer, data of the application */
};

static uint64_t elements(const struct copse_array_view *a)
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

/* "application/..." and, where there is an array "dense1.weight", "dense1.weight/...", as in checkpoints. */
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

static copse_status examine(copse_context *ctx, struct info *in)
{
    struct stat file;
    COPSE_TRY(copse_checkpoint_read(ctx, in->path, &in->file));
    in->arrays = copse_checkpoint_arrays(in->file, &in->count);
    in->lines = copse_checkpoint_metadata(in->file, &in->line_count);
    in->bytes = stat(in->path, &file) == 0 ? (uint64_t)file.st_size : 0;
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
            in->parameters += elements(&in->arrays[i].array);
    return info_model_open(ctx, in->path, in->file, &in->model);
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
    printf("%s: %" PRIu64 " parameters, %zu arrays, %" PRIu64 " bytes\n", session_plain(plain, sizeof plain, in->path),
           in->parameters, in->count, in->bytes);
    if (in->others > 0)
        printf("%zu of the arrays are slots of an optimizer or data of an application\n", in->others);
    COPSE_TRY(info_model_print(&in->model));
    if (in->count > 0)
        printf("\n  %-*s  type  %-18s %12s\n", width, "name", "shape", "elements");
    for (size_t i = 0; i < in->count; i++) {
        const struct copse_array_view *a = &in->arrays[i].array;
        shape_text(a, shape);
        printf("  %-*s  %-4s  %-18s %12" PRIu64 "\n", width, session_plain(plain, sizeof plain, in->arrays[i].name),
               copse_element_name(a->type), shape, elements(a));
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
    json_add_text(o, "type", copse_element_name(named->array.type));
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (uint32_t i = 0; shape && i < named->array.rank; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%zu", named->array.shape[i]);
        if (!cJSON_AddItemToArray(shape, cJSON_CreateRaw(digits)))
            return false;
    }
    json_add_count(o, "elements", elements(&named->array));
    return shape != NULL;
}

static copse_status print_json(const struct info *in)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "path", in->path);
    json_add_count(o, "bytes", in->bytes);
    json_add_count(o, "parameters", in->parameters);
    cJSON *list = cJSON_AddArrayToObject(o, "arrays"), *lines = cJSON_AddObjectToObject(o, "metadata");
    bool ok = list && lines;
    for (size_t i = 0; ok && i < in->count; i++)
        ok = add_array(list, &in->arrays[i]);
    for (size_t i = 0; ok && i < in->line_count; i++)
        json_add_text(lines, in->lines[i].key, in->lines[i].value);
    copse_status s = ok ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the arrays as JSON");
    if (s == COPSE_OK)
        s = info_model_add(&in->model, o);
    if (s == COPSE_OK)
        return json_print(o);
    cJSON_Delete(o);
    return s;
}

int cmd_info(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct info in = { .path = NULL };
    copse_context *ctx = NULL;
    bool is_json = false;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "FILE", "a safetensors file: weights, a model or a checkpoint" },
        { "json", OPTION_FLAG, &is_json, NULL, "one JSON object" },
        { 0 },
    };
    int code = options_parse(argc, argv, rows, "Prints what a safetensors file holds: arrays and metadata; of a model also its layers, "
                                               "its data\n(columns with their scaling, classes, vocabulary) and the course of "
                                               "its training.");
    if (code >= 0)
        return code;
    if (words.count != 1) {
        fprintf(stderr, "copse info: which file? give one FILE\n");
        return EXIT_BAD_INPUT;
    }
    in.path = words.at[0];
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = examine(ctx, &in);
    if (s == COPSE_OK && is_json)
        s = print_json(&in);
    else if (s == COPSE_OK)
        s = print_text(&in);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    info_model_close(&in.model);
    free(in.names);
    copse_checkpoint_release(&in.file);
    copse_context_release(&ctx);
    return code;
}
