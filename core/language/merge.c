/* SPDX-License-Identifier: MIT */
/* A model with its adapter as a model of its own, in the form of the file that it was read from:
   that file is read again, and adapted weights become W + s B A. */
#include <math.h>
#include <stdio.h>

#include "core/base/files.h"
#include "core/base/half.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/data/reader/json_walk.h"
#include "core/language/adapter_file.h"
#include "core/language/model_source.h"
#include "core/state/safetensors.h"

#define COPY_BYTES ((size_t)64 << 10)

/* A tensor of the file. */
struct merged_tensor {
    bool is_adapted;
    uint32_t layer;
    enum copse_part part;
    copse_type type; /* of the adapted tensor in the new file */
};

struct merging {
    copse_language *l;
    struct copse_mem *mem;
    struct copse_adapter_values v;
    struct copse_model_source source;
    struct merged_tensor *tensors; /* in the order of the source */
    size_t count;
    void *room;   /* elements of the newest tensor that was asked for */
    double *sums; /* of a row */
    struct copse_merge_info is;
    bool is_retyped; /* a weight has another type than in the file */
};

/* ---- which tensors ---- */

static copse_status merge_find(struct merging *m, const struct copse_merge_params *how,
                               uint32_t layer, enum copse_part part)
{
    size_t i;
    COPSE_TRY(copse__model_source_matrix(&m->source, m->l, layer, part, &i));
    const struct copse_model_tensor t = copse__model_source_tensor(&m->source, i);
    m->tensors[i] = (struct merged_tensor){ true, layer, part, how->has_type ? how->type : t.type };
    m->is_retyped = m->is_retyped || m->tensors[i].type != t.type;
    m->is.weights++;
    m->is.quantised += t.is_quantised;
    return COPSE_OK;
}

static copse_status merge_plan(struct merging *m, const struct copse_merge_params *how)
{
    const struct copse_language *l = m->l;
    m->count = copse__model_source_count(&m->source);
    m->tensors = copse__alloc(m->mem, m->count, sizeof *m->tensors);
    COPSE_TRY(copse_need_memory(m->tensors, "merge"));
    for (uint32_t layer = 0; layer < l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            if (copse__adapter_matrix(l, layer, (enum copse_part)part, COPSE_ADAPTER_A))
                COPSE_TRY(merge_find(m, how, layer, (enum copse_part)part));
    return COPSE_OK;
}

/* ---- elements ---- */

/* A row of the weight in the file becomes the row of W + s B A, with its magnitude. */
static void merge_into_row(const struct merging *m, const struct merged_tensor *t, uint32_t row,
                           uint32_t columns, float *values)
{
    const struct copse_adapter_values *v = &m->v;
    const uint32_t rank = v->is.rank,
                   of_model = copse__model_source_row(&m->source, m->l, t->part, row);
    const float *a = v->at[copse__adapter_place(m->l, t->layer, t->part, COPSE_ADAPTER_A)],
                *b = v->at[copse__adapter_place(m->l, t->layer, t->part, COPSE_ADAPTER_B)] +
                     (size_t)of_model * rank,
                *magnitudes =
                    v->at[copse__adapter_place(m->l, t->layer, t->part, COPSE_ADAPTER_MAGNITUDES)];
    double squares = 0, factor = 1;
    for (uint32_t c = 0; c < columns; c++)
        m->sums[c] = 0;
    for (uint32_t k = 0; k < rank; k++, a += columns)
        for (uint32_t c = 0; c < columns; c++)
            m->sums[c] += (double)b[k] * (double)a[c];
    for (uint32_t c = 0; c < columns; c++) {
        m->sums[c] = (double)values[c] + (double)v->is.scale * m->sums[c];
        squares += m->sums[c] * m->sums[c];
    }
    if (magnitudes && squares > 0)
        factor = (double)magnitudes[of_model] / sqrt(squares);
    for (uint32_t c = 0; c < columns; c++)
        values[c] = (float)(factor * m->sums[c]);
}

/* To f16 or bf16 in place. */
static void merge_narrow(copse_type type, float *values, size_t count)
{
    unsigned char *to = (unsigned char *)values;
    for (size_t i = 0; i < count; i++) {
        const uint16_t bits =
            type == COPSE_F16 ? copse__f32_to_f16(values[i]) : copse__f32_to_bf16(values[i]);
        memcpy(to + 2 * i, &bits, 2);
    }
}

static copse_status merge_tensor(struct merging *m, size_t i)
{
    const struct merged_tensor *t = &m->tensors[i];
    const struct copse_model_tensor in_file = copse__model_source_tensor(&m->source, i);
    const uint32_t rows = (uint32_t)in_file.shape[0], columns = (uint32_t)in_file.shape[1];
    const size_t count = (size_t)rows * columns;
    const double most = t->type == COPSE_F16 ? 65519.99 : t->type == COPSE_BF16 ? 3.394e38 : 3.5e38;
    m->room = copse__alloc(m->mem, count, sizeof(float));
    m->sums = copse__alloc(m->mem, columns, sizeof *m->sums);
    COPSE_TRY(copse_need_memory(m->room && m->sums, "merge"));
    float *values = m->room;
    COPSE_TRY(copse__model_source_read(&m->source, in_file.name, values, count));
    for (uint32_t row = 0; row < rows; row++)
        merge_into_row(m, t, row, columns, values + (size_t)row * columns);
    for (size_t k = 0; k < count; k++)
        if (!(fabs((double)values[k]) < most))
            return copse_fail(COPSE_ERR_NONFINITE,
                              "merge: element %zu of \"%.200s\" would be %g, which %s lacks: %s", k,
                              in_file.name, (double)values[k], copse_type_name(t->type),
                              t->type == COPSE_F16 ? "take the type bf16 or f32, or a smaller "
                                                     "factor of the adapter"
                                                   : "take a smaller factor of the adapter");
    if (t->type != COPSE_F32)
        merge_narrow(t->type, values, count);
    return COPSE_OK;
}

static void merge_forget(struct merging *m)
{
    copse__free(m->mem, m->room);
    copse__free(m->mem, m->sums);
    m->room = NULL;
    m->sums = NULL;
}

/* ---- a GGUF file ---- */

static copse_status merged_for_gguf(void *user, size_t i, const void **data)
{
    struct merging *m = user;
    const struct copse_model_tensor t = copse__model_source_tensor(&m->source, i);
    const size_t size = copse_type_size(m->tensors[i].type);
    merge_forget(m);
    COPSE_TRY(merge_tensor(m, i));
    copse__swap_from_little(m->room, (size_t)(t.shape[0] * t.shape[1]), size);
    *data = m->room;
    return COPSE_OK;
}

enum { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_BF16 = 30 };

/* "general.file_type" names the type of most tensors: another one if that has changed. */
static uint32_t merge_file_type(const struct merging *m, const uint32_t *types)
{
    enum { OF_F32, OF_F16, OF_BF16, OTHERS, KINDS };
    static const uint32_t numbers[KINDS] = { 0, 1, 32, COPSE_GGUF_AS_IT_IS };
    static const char *const names[OTHERS] = { "F32", "F16", "BF16" };
    size_t count, before[KINDS] = { 0 }, after[KINDS] = { 0 };
    const struct copse_gguf_tensor *tensors = copse_gguf_tensors(m->source.gguf, &count);
    int first = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        int kind = 0;
        while (kind < OTHERS && strcmp(tensors[i].type, names[kind]) != 0)
            kind++;
        before[kind]++;
        after[types[i] == COPSE_GGUF_AS_IT_IS ? kind
              : types[i] == GGUF_F32          ? OF_F32
              : types[i] == GGUF_F16          ? OF_F16
                                              : OF_BF16]++;
    }
    for (int kind = 1; kind < KINDS; kind++) {
        first = before[kind] > before[first] ? kind : first;
        last = after[kind] > after[last] ? kind : last;
    }
    return first == last ? COPSE_GGUF_AS_IT_IS : numbers[last];
}

static copse_status merge_gguf(struct merging *m, const char *path)
{
    uint32_t *types = copse__alloc(m->mem, m->count, sizeof *types);
    COPSE_TRY(copse_need_memory(types, "merge"));
    for (size_t i = 0; i < m->count; i++)
        types[i] = !m->tensors[i].is_adapted          ? COPSE_GGUF_AS_IT_IS
                   : m->tensors[i].type == COPSE_F16  ? GGUF_F16
                   : m->tensors[i].type == COPSE_BF16 ? GGUF_BF16
                                                      : GGUF_F32;
    const struct copse_gguf_copy how = { types, merged_for_gguf, m, merge_file_type(m, types) };
    const copse_status s = copse__gguf_copy(m->source.gguf, path, &how);
    copse__free(m->mem, types);
    return s;
}

/* ---- a folder ---- */

/* What a folder of a model may have beside its weights. */
static const char *const merge_beside[] = {
    "config.json",         "tokenizer.json",  "tokenizer_config.json",   "generation_config.json",
    "chat_template.jinja", "vocab.json",      "special_tokens_map.json", "added_tokens.json",
    "merges.txt",          "tokenizer.model",
};
#define WEIGHTS    "model.safetensors"
#define CONFIG_MAX ((uint64_t)1 << 20) /* bytes of config.json */

static copse_status merged_for_folder(void *user, size_t i, const void **data)
{
    struct merging *m = user;
    const struct copse_tensor_entry *e = &m->source.files.entries[i];
    size_t count, bytes;
    merge_forget(m);
    if (m->tensors[i].is_adapted) {
        COPSE_TRY(merge_tensor(m, i));
    } else {
        copse__shape_size(e->array->rank, e->array->shape, copse_type_size(e->array->type), &count,
                          &bytes);
        m->room = copse__alloc(m->mem, COPSE_MAX(bytes, (size_t)1), 1);
        COPSE_TRY(copse_need_memory(m->room, "merge"));
        COPSE_TRY(copse__checkpoint_copy(m->source.files.files[e->file], e->place, m->room));
    }
    *data = m->room;
    return COPSE_OK;
}

static copse_status merge_weights(struct merging *m, const char *path)
{
    const struct copse_metadata format = { "format", "pt" }; /* what transformers asks for */
    struct copse_named_array *list = copse__alloc(m->mem, m->count, sizeof *list);
    COPSE_TRY(copse_need_memory(list, "merge"));
    for (size_t i = 0; i < m->count; i++) {
        list[i].name = m->source.files.entries[i].name;
        list[i].array = *m->source.files.entries[i].array;
        if (m->tensors[i].is_adapted)
            list[i].array.type = m->tensors[i].type;
    }
    const struct copse_checkpoint_params params = {
        .arrays = list, .array_count = m->count, .metadata = &format, .metadata_count = 1
    };
    const struct copse_st_elements from = { merged_for_folder, m };
    const copse_status s = copse__checkpoint_write_from(m->l->strategy->ctx, path, &params, &from);
    copse__free(m->mem, list);
    return s;
}

static copse_status merge_copy_file(struct copse_mem *mem, const char *from, const char *to)
{
    struct copse_atomic_file file = { 0 };
    unsigned char *buffer = copse__alloc(mem, COPY_BYTES, 1);
    FILE *stream = NULL;
    uint64_t left;
    copse_status s = copse_need_memory(buffer, "merge");
    if (s == COPSE_OK)
        s = copse__file_open(from, &stream, &left);
    if (s == COPSE_OK)
        s = copse__atomic_open(&file, mem, to);
    for (size_t n; s == COPSE_OK && left > 0; left -= n) {
        n = (size_t)COPSE_MIN((uint64_t)COPY_BYTES, left);
        if (fread(buffer, 1, n, stream) != n)
            s = copse_fail(COPSE_ERR_IO, "merge: cannot read %s", from);
        else if (fwrite(buffer, 1, n, file.stream) != n)
            s = copse_fail(COPSE_ERR_IO, "merge: cannot write %s: is the disk full?", to);
    }
    if (s == COPSE_OK)
        s = copse__atomic_commit(&file);
    copse__atomic_abort(&file);
    if (stream)
        fclose(stream);
    copse__free(mem, buffer);
    return s;
}

/* Paths in the new folder: of the weights, and of the files beside them. They are made first, so that
   a failure can remove these without memory. */
struct merged_paths {
    char *at[1 + COPSE_COUNT(merge_beside)];
};

static copse_status merge_name_paths(const struct merging *m, const char *path,
                                     struct merged_paths *to)
{
    bool ok = true;
    for (size_t i = 0; i < COPSE_COUNT(to->at); i++) {
        to->at[i] = copse__path_beside(m->mem, path, true, i > 0 ? merge_beside[i - 1] : WEIGHTS);
        ok = ok && to->at[i];
    }
    return copse_need_memory(ok, "merge");
}

/* The type that all tensors of the new model have, else f32. */
static const char *merge_type(const struct merging *m)
{
    bool has[2] = { false, false }, has_others = false;
    for (size_t i = 0; i < m->count; i++) {
        const copse_type type =
            m->tensors[i].is_adapted ? m->tensors[i].type : m->source.files.entries[i].array->type;
        has[0] = has[0] || type == COPSE_F16;
        has[1] = has[1] || type == COPSE_BF16;
        has_others = has_others || (type != COPSE_F16 && type != COPSE_BF16);
    }
    return has_others || has[0] == has[1] ? "\"float32\"" : has[0] ? "\"float16\"" : "\"bfloat16\"";
}

/* The settings, with the type of the new tensors where they name one: programs that read the model
   convert it to that. */
static copse_status merge_config(const struct merging *m, const char *from, const char *to)
{
    static const char *const names[] = { "torch_dtype", "dtype" };
    struct copse_json_item items[2];
    struct copse_atomic_file file = { 0 };
    char *text;
    size_t size;
    COPSE_TRY(copse__json_load(m->mem, from, CONFIG_MAX, &text, &size));
    copse_status s = copse__json_pick(
        (struct copse_json){
            .before = "", .path = from, .after = ": no object", .text = text, .size = size },
        names, COPSE_COUNT(names), items);
    if (s == COPSE_OK)
        s = copse__atomic_open(&file, m->mem, to);
    if (s == COPSE_OK) {
        const bool is_turned = items[0].value && items[1].value && items[1].value < items[0].value;
        const char *at = text, *end = text + size;
        bool ok = true;
        for (size_t i = 0; i < COPSE_COUNT(names); i++) {
            const struct copse_json_item *item = &items[is_turned ? 1 - i : i];
            if (!item->value)
                continue;
            ok = ok &&
                 fwrite(at, 1, (size_t)(item->value - at), file.stream) ==
                     (size_t)(item->value - at) &&
                 fputs(merge_type(m), file.stream) >= 0;
            at = item->value + item->size;
        }
        ok = ok && fwrite(at, 1, (size_t)(end - at), file.stream) == (size_t)(end - at);
        s = ok ? copse__atomic_commit(&file)
               : copse_fail(COPSE_ERR_IO, "merge: cannot write %s: is the disk full?", to);
    }
    copse__atomic_abort(&file);
    copse__free(m->mem, text);
    return s;
}

/* Copy a file of the model's folder, if it is there. */
static copse_status merge_beside_file(const struct merging *m, size_t i, const char *to)
{
    char *from =
        copse__path_beside(m->mem, m->l->path, copse__is_directory(m->l->path), merge_beside[i]);
    copse_status s = copse_need_memory(from, "merge");
    if (s == COPSE_OK && copse__path_exists(from))
        s = i == 0 && m->is_retyped ? merge_config(m, from, to) : merge_copy_file(m->mem, from, to);
    copse__free(m->mem, from);
    return s;
}

/* The folder gets its name when it is complete. */
static copse_status merge_into_folder(struct merging *m, const char *path, const char *temporary,
                                      const struct merged_paths *to)
{
    bool is_new = false;
    if (copse__path_exists(path))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "merge: the folder %s exists; name a new one for the merged model", path);
    COPSE_TRY(copse__folder_make(temporary, &is_new));
    if (!is_new)
        return copse_fail(COPSE_ERR_IO,
                          "merge: the folder %s exists, of a run that did not end; remove it",
                          temporary);
    copse_status s = merge_weights(m, to->at[0]);
    for (size_t i = 1; s == COPSE_OK && i < COPSE_COUNT(to->at); i++)
        s = merge_beside_file(m, i - 1, to->at[i]);
    if (s == COPSE_OK)
        s = copse__folder_rename(temporary, path);
    if (s != COPSE_OK) {
        char why[1024]; /* removing files must not replace the text */
        snprintf(why, sizeof why, "%s", copse_last_error());
        for (size_t i = 0; i < COPSE_COUNT(to->at); i++)
            (void)copse__file_remove(to->at[i]);
        copse__folder_remove(temporary);
        s = copse_fail(s, "%s", why);
    }
    return s;
}

/* The temporary folder is beside the new one. */
static copse_status merge_folder(struct merging *m, const char *path)
{
    struct merged_paths to = { { NULL } };
    size_t n = strlen(path);
    const size_t room = n + 24;
    char *temporary = copse__alloc(m->mem, room, 1);
    COPSE_TRY(copse_need_memory(temporary, "merge"));
    while (n > 1 && copse__path_name(path + n - 1) != path + n - 1) /* a separator */
        n--;
    snprintf(temporary, room, "%.*s.tmp%lx", (int)n, path, (unsigned long)copse__process_id());
    copse_status s = merge_name_paths(m, temporary, &to);
    if (s == COPSE_OK)
        s = merge_into_folder(m, path, temporary, &to);
    for (size_t i = 0; i < COPSE_COUNT(to.at); i++)
        copse__free(m->mem, to.at[i]);
    copse__free(m->mem, temporary);
    return s;
}

/* ---- the function ---- */

static copse_status check_merge(const copse_language *l, const char *path,
                                const struct copse_merge_params *how)
{
    if (*path == '\0')
        return copse_fail(COPSE_ERR_ARGUMENT, "merge: there is no path");
    if (how->has_type && how->type != COPSE_F32 && how->type != COPSE_F16 &&
        how->type != COPSE_BF16)
        return copse_fail(COPSE_ERR_ARGUMENT, "merge: the type %s; f32, f16 and bf16 are written",
                          copse_type_name(how->type));
    if (l->adapter.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "merge: %s has no adapter", l->path);
    if (copse__file_is_same(path, l->path))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "merge: %s is the model itself; name another file or folder", path);
    return COPSE_OK;
}

copse_status copse_language_save_merged(copse_language *language, const char *path,
                                        const struct copse_merge_params *params,
                                        struct copse_merge_info *info)
{
    static const struct copse_merge_params normal = { .has_type = false };
    COPSE_TRY(copse_need("merge", language, path));
    params = params ? params : &normal;
    COPSE_TRY(copse_no_reserved(copse_merge_params, params));
    COPSE_TRY(copse__require_no_replica("copse_language_save_merged", language->strategy));
    COPSE_TRY(check_merge(language, path, params));
    struct merging m = { .l = language, .mem = language->arena.mem };
    copse_status s = copse__adapter_values_begin(&m.v, language);
    if (s == COPSE_OK)
        s = copse__adapter_values_read(&m.v);
    if (s == COPSE_OK)
        s = copse__model_source_open(&m.source, language->strategy->ctx, language->path);
    if (s == COPSE_OK)
        s = merge_plan(&m, params);
    if (s == COPSE_OK)
        s = m.source.gguf ? merge_gguf(&m, path) : merge_folder(&m, path);
    if (s == COPSE_OK && info)
        *info = m.is;
    merge_forget(&m);
    copse__free(m.mem, m.tensors);
    copse__model_source_close(&m.source);
    copse__adapter_values_end(&m.v);
    return s;
}
