/* SPDX-License-Identifier: MIT */
/* The settings and tensors of a folder of a language model, as a text and as JSON. */
#include "tools/info/info_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/checkpoint.h"

#include "tools/common/json.h"
#include "tools/common/plural.h"
#include "tools/common/use.h"

#define CONFIG_MAX ((size_t)1 << 20)  /* bytes of config.json */
#define INDEX_MAX  ((size_t)64 << 20) /* bytes of model.safetensors.index.json */
#define FILES_MAX  1024
#define TEXT_SHOWN 200

struct folder_info {
    copse_context *ctx;
    const char *path;
    cJSON *config;
    copse_checkpoint *files[FILES_MAX];
    char *names[FILES_MAX];
    size_t file_count, tensors;
    uint64_t elements, bytes;
};

/* ---- reading ---- */

static bool is_file(const char *path)
{
    struct system_file file;
    return system_look(path, &file) && file.kind == SYSTEM_FILE;
}

static copse_status read_object(const char *path, size_t most, cJSON **out)
{
    FILE *f = is_file(path) ? system_open(path, "rb") : NULL;
    char *text = f ? malloc(most + 1) : NULL;
    const size_t size = text ? fread(text, 1, most + 1, f) : 0;
    *out = size <= most && size > 0 ? json_parse(text, size) : NULL;
    free(text);
    if (f)
        fclose(f);
    if (cJSON_IsObject(*out))
        return COPSE_OK;
    cJSON_Delete(*out);
    *out = NULL;
    return f ? session_set_error(COPSE_ERR_FORMAT,
                                 "%s: this is not one JSON object of at most %zu MiB and %u values",
                                 path, most >> 20, JSON_VALUES)
             : session_set_error(COPSE_ERR_IO, "%s: there is no file that can be read", path);
}

static uint64_t array_elements(const struct copse_array_view *a)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        n *= a->shape[i];
    return n;
}

static copse_status folder_add(struct folder_info *in, const char *path)
{
    size_t count;
    if (in->file_count == FILES_MAX)
        return session_set_error(COPSE_ERR_FORMAT, "%s names more than %d files", in->path,
                                 FILES_MAX);
    COPSE_TRY(copse_checkpoint_open(in->ctx, path, &in->files[in->file_count++]));
    const struct copse_named_array *list =
        copse_checkpoint_arrays(in->files[in->file_count - 1], &count);
    in->tensors += count;
    for (size_t i = 0; i < count; i++) {
        const uint64_t n = array_elements(&list[i].array);
        in->elements += n;
        in->bytes += n * copse_type_size(list[i].array.type);
    }
    return COPSE_OK;
}

/* The files of an index, in its order. */
static copse_status folder_add_named(struct folder_info *in, const cJSON *map)
{
    char path[USE_PATH];
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        bool is_there = false;
        for (size_t i = 0; i < in->file_count && !is_there; i++)
            is_there = strcmp(in->names[i], name) == 0;
        if (is_there)
            continue;
        if (!*name || *name == '.' || strpbrk(name, "/\\:") || !use_beside(path, in->path, name))
            return session_set_error(COPSE_ERR_FORMAT,
                                     "%s: its index names '%.100s', which is no file in the folder",
                                     in->path, name);
        if (in->file_count < FILES_MAX && !(in->names[in->file_count] = strdup(name)))
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for names");
        COPSE_TRY(folder_add(in, path));
    }
    return COPSE_OK;
}

static copse_status folder_open(struct folder_info *in)
{
    char path[USE_PATH];
    cJSON *index = NULL;
    if (!use_beside(path, in->path, "config.json"))
        return session_set_error(COPSE_ERR_ARGUMENT, "%s: the path is too long", in->path);
    COPSE_TRY(read_object(path, CONFIG_MAX, &in->config));
    if (is_file(in->path))
        return folder_add(in, in->path);
    if (use_beside(path, in->path, "model.safetensors") && is_file(path))
        return folder_add(in, path);
    if (!use_beside(path, in->path, "model.safetensors.index.json"))
        return session_set_error(COPSE_ERR_ARGUMENT, "%s: the path is too long", in->path);
    COPSE_TRY(read_object(path, INDEX_MAX, &index));
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map");
    const copse_status s =
        cJSON_IsObject(map)
            ? folder_add_named(in, map)
            : session_set_error(COPSE_ERR_FORMAT, "%s has no object \"weight_map\"", path);
    cJSON_Delete(index);
    return s;
}

/* ---- printing ---- */

static void shape_words(const struct copse_array_view *a, char text[200])
{
    int n = snprintf(text, 200, "[");
    for (uint32_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, (size_t)(200 - n), i ? ", %zu" : "%zu", a->shape[i]);
    snprintf(text + n, (size_t)(200 - n), "]");
}

static void print_settings(const cJSON *config)
{
    const cJSON *item;
    char plain[4 * TEXT_SHOWN + 1], name[1100];
    cJSON_ArrayForEach(item, config)
    {
        char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item),
             shown[TEXT_SHOWN + 1];
        snprintf(shown, sizeof shown, "%s",
                 text                   ? text
                 : cJSON_IsString(item) ? item->valuestring
                                        : "");
        printf("  %-26s  %s\n", session_plain(name, sizeof name, item->string),
               session_plain(plain, sizeof plain, shown));
        cJSON_free(text);
    }
}

static copse_status print_folder_text(const struct folder_info *in)
{
    char plain[1100], shape[200];
    int width = 4;
    size_t count;
    for (size_t f = 0; f < in->file_count; f++) {
        const struct copse_named_array *list = copse_checkpoint_arrays(in->files[f], &count);
        for (size_t i = 0; i < count; i++) {
            const int n = (int)strlen(list[i].name);
            width = n > width ? n < 56 ? n : 56 : width;
        }
    }
    printf("%s: a language model in %zu file%s, %" PRIu64 " parameters, %zu tensor%s of %" PRIu64
           " bytes\n\n",
           session_plain(plain, sizeof plain, in->path), in->file_count, plural_end(in->file_count),
           in->elements, in->tensors, plural_end(in->tensors), in->bytes);
    print_settings(in->config);
    printf("\n  %-*s  type  %-18s %12s\n", width, "name", "shape", "elements");
    for (size_t f = 0; f < in->file_count; f++) {
        const struct copse_named_array *list = copse_checkpoint_arrays(in->files[f], &count);
        for (size_t i = 0; i < count; i++) {
            shape_words(&list[i].array, shape);
            printf("  %-*s  %-4s  %-18s %12" PRIu64 "\n", width,
                   session_plain(plain, sizeof plain, list[i].name),
                   copse_type_name(list[i].array.type), shape, array_elements(&list[i].array));
        }
    }
    return COPSE_OK;
}

static bool add_tensor(cJSON *list, const struct copse_named_array *t)
{
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, o))
        return false;
    json_add_text(o, "name", t->name);
    json_add_text(o, "type", copse_type_name(t->array.type));
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (uint32_t i = 0; shape && i < t->array.rank; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%zu", t->array.shape[i]);
        if (!cJSON_AddItemToArray(shape, cJSON_CreateRaw(digits)))
            return false;
    }
    json_add_count(o, "elements", array_elements(&t->array));
    return shape != NULL;
}

static copse_status print_folder_json(struct folder_info *in)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "path", in->path);
    json_add_text(o, "format", "folder");
    json_add_count(o, "parameters", in->elements);
    json_add_count(o, "bytes", in->bytes);
    bool ok = cJSON_AddItemToObject(o, "config", in->config);
    in->config = ok ? NULL : in->config;
    cJSON *list = cJSON_AddArrayToObject(o, "tensors");
    ok = ok && list;
    for (size_t f = 0; ok && f < in->file_count; f++) {
        size_t count;
        const struct copse_named_array *arrays = copse_checkpoint_arrays(in->files[f], &count);
        for (size_t i = 0; ok && i < count; i++)
            ok = add_tensor(list, &arrays[i]);
    }
    if (ok)
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the tensors as JSON");
}

int info_folder_run(const char *path, bool is_json)
{
    struct folder_info *in = calloc(1, sizeof *in);
    copse_status s = in ? session_open_files(&in->ctx)
                        : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a folder");
    if (s == COPSE_OK) {
        in->path = path;
        s = folder_open(in);
    }
    if (s == COPSE_OK)
        s = is_json ? print_folder_json(in) : print_folder_text(in);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    for (size_t i = 0; in && i < FILES_MAX; i++) {
        copse_checkpoint_release(&in->files[i]);
        free(in->names[i]);
    }
    if (in) {
        cJSON_Delete(in->config);
        copse_context_release(&in->ctx);
    }
    free(in);
    return code;
}
