/* SPDX-License-Identifier: MIT */
/* Sums of the files of a language model: see model_sum.h. */
#include "tools/train/model_sum.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/common/use.h"

#define HEAD      ((uint64_t)16 << 20) /* bytes that are all read */
#define BLOCK     ((uint64_t)4 << 10)
#define SAMPLES   4096u
#define FILES_MAX 1024
#define INDEX_MAX ((uint64_t)64 << 20) /* bytes of model.safetensors.index.json */

uint64_t model_sum_bytes(uint64_t sum, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

static copse_status sum_failed(const char *path)
{
    return session_set_error(COPSE_ERR_IO, "--model: cannot read '%s'", path);
}

/* The samples have equal distances. */
static copse_status sum_file(const char *path, uint64_t *sum)
{
    unsigned char block[BLOCK];
    struct system_file file;
    FILE *f = system_look(path, &file) && file.kind == SYSTEM_FILE ? system_open(path, "rb") : NULL;
    if (!f)
        return sum_failed(path);
    const uint64_t gap = file.size > 2 * HEAD ? (file.size - HEAD - SAMPLES * BLOCK) / SAMPLES : 0;
    bool ok = true;
    *sum = model_sum_bytes(*sum, &file.size, sizeof file.size);
    for (uint64_t at = 0; ok && at < file.size;) {
        if (at >= HEAD && gap > 0) {
            ok = fseek(f, (long)gap, SEEK_CUR) == 0;
            at += gap;
        }
        const uint64_t left = at < file.size ? file.size - at : 0;
        const size_t size = (size_t)(left < BLOCK ? left : BLOCK);
        ok = ok && fread(block, 1, size, f) == size;
        *sum = model_sum_bytes(*sum, block, ok ? size : 0);
        at += BLOCK;
    }
    fclose(f);
    return ok ? COPSE_OK : sum_failed(path);
}

static copse_status sum_beside(const char *model, const char *name, bool is_needed, uint64_t *sum)
{
    char path[USE_PATH];
    struct system_file file;
    if (!use_beside(path, model, name))
        return session_set_error(COPSE_ERR_ARGUMENT, "--model: the path is too long");
    return is_needed || system_look(path, &file) ? sum_file(path, sum) : COPSE_OK;
}

/* Each file that an index names, once, in its order. */
static copse_status sum_named(const char *model, const cJSON *map, uint64_t *sum)
{
    const char *names[FILES_MAX];
    size_t count = 0, i;
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        for (i = count; i > 0 && strcmp(names[i - 1], name) != 0; i--)
            ;
        if (i > 0)
            continue;
        if (count == FILES_MAX)
            return session_set_error(COPSE_ERR_FORMAT, "--model: '%s' has more than %d files",
                                     model, FILES_MAX);
        names[count++] = name;
        COPSE_TRY(sum_beside(model, name, true, sum));
    }
    return COPSE_OK;
}

static copse_status sum_indexed(const char *model, uint64_t *sum)
{
    char path[USE_PATH];
    struct system_file file = { .size = 0 };
    const bool fits = use_beside(path, model, "model.safetensors.index.json");
    FILE *f =
        fits && system_look(path, &file) && file.size <= INDEX_MAX ? system_open(path, "rb") : NULL;
    char *text = f ? malloc((size_t)file.size + 1) : NULL;
    const size_t size = text ? fread(text, 1, (size_t)file.size, f) : 0;
    cJSON *index = size > 0 ? json_parse(text, size) : NULL;
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map");
    const copse_status s = map ? sum_named(model, map, sum) : sum_failed(path);
    cJSON_Delete(index);
    free(text);
    if (f)
        fclose(f);
    return s;
}

copse_status model_sum(const char *path, uint64_t *sum)
{
    static const char weights[] = "model.safetensors";
    char beside[USE_PATH];
    struct system_file file;
    *sum = MODEL_SUM_START;
    if (!use_is_model_folder(path))
        return sum_file(path, sum);
    COPSE_TRY(sum_beside(path, "config.json", true, sum));
    COPSE_TRY(sum_beside(path, "tokenizer.json", false, sum));
    if (system_look(path, &file) && file.kind == SYSTEM_FILE)
        return sum_file(path, sum);
    return use_beside(beside, path, weights) && system_look(beside, &file) ? sum_file(beside, sum)
                                                                           : sum_indexed(path, sum);
}
