/* SPDX-License-Identifier: MIT */
/* Reads and writes named arrays as a safetensors file: 8 bytes length, JSON header, the
   elements. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/data/reader/byte_stream.h"
#include "core/state/safetensors.h"

#define DATA_ALIGNMENT 64u                /* of the first element in the file */
#define WRITE_BYTES    ((size_t)64 << 10) /* a multiple of every element size */

/* ---- writing ---- */

static bool is_name(const char *text, size_t most)
{
    size_t size = text != NULL ? strlen(text) : SIZE_MAX;
    return size <= most && copse__utf8_valid(text, size) == size;
}

static copse_status check_params(struct copse_mem *mem, const struct copse_checkpoint_params *p,
                                 bool has_elements)
{
    size_t count, bytes, n = 0;

    if (p->array_count > COPSE_ST_ARRAYS_MAX || p->metadata_count > COPSE_ST_ARRAYS_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "safetensors: more than %u arrays",
                          COPSE_ST_ARRAYS_MAX);
    const char **names =
        copse__alloc(mem, COPSE_MAX(p->array_count, p->metadata_count), sizeof *names);
    if (names == NULL)
        return copse_no_memory("safetensors");
    const char *problem = NULL;
    for (size_t i = 0; i < p->array_count && problem == NULL; i++) {
        const struct copse_array_view *a = &p->arrays[i].array;
        if (!is_name(p->arrays[i].name, COPSE_ST_NAME_MAX) ||
            strcmp(p->arrays[i].name, COPSE_ST_METADATA) == 0)
            problem = "has no allowed name";
        else if (copse_type_size(a->type) == 0 || a->rank > COPSE_ARRAY_MAX_RANK ||
                 !copse__shape_size(a->rank, a->shape, copse_type_size(a->type), &count, &bytes))
            problem = "has no allowed type and shape";
        else if (has_elements && bytes > 0 && a->data == NULL)
            problem = "has no elements";
        names[n++] = p->arrays[i].name;
    }
    copse_status s = COPSE_OK;
    if (problem != NULL)
        s = copse_fail(COPSE_ERR_ARGUMENT, "safetensors: array %zu %s", n - 1, problem);
    const char *twice = problem == NULL ? copse__st_twice(names, n) : NULL;
    n = 0;
    for (size_t i = 0; i < p->metadata_count && s == COPSE_OK; i++) {
        if (!is_name(p->metadata[i].key, COPSE_ST_NAME_MAX) ||
            !is_name(p->metadata[i].value, COPSE_ST_HEADER_MAX))
            s = copse_fail(COPSE_ERR_ARGUMENT, "safetensors: metadata %zu is not allowed text", i);
        names[n++] = p->metadata[i].key;
    }
    if (s == COPSE_OK && twice == NULL)
        twice = copse__st_twice(names, n);
    if (s == COPSE_OK && twice != NULL)
        s = copse_fail(COPSE_ERR_ARGUMENT, "safetensors: the name \"%.200s\" is there twice",
                       twice);
    copse__free(mem, (void *)names);
    return s;
}

/* Numbers are inserted as text: the printer would write large ones with an exponent. */
static bool add_number(cJSON *array, uint64_t v)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
}

static bool add_array(cJSON *root, const struct copse_named_array *named, uint64_t *offset)
{
    const struct copse_array_view *a = &named->array;
    size_t count, bytes;

    copse__shape_size(a->rank, a->shape, copse_type_size(a->type), &count, &bytes);
    cJSON *object = cJSON_AddObjectToObject(root, named->name);
    cJSON *dtype = cJSON_AddStringToObject(object, "dtype", copse__type(a->type)->dtype);
    cJSON *shape = cJSON_AddArrayToObject(object, "shape");
    cJSON *offsets = cJSON_AddArrayToObject(object, "data_offsets");
    bool ok = dtype != NULL && shape != NULL && offsets != NULL;
    for (uint32_t i = 0; i < a->rank && ok; i++)
        ok = add_number(shape, a->shape[i]);
    ok = ok && add_number(offsets, *offset) && add_number(offsets, *offset + bytes);
    *offset += bytes;
    return ok;
}

/* The header's text, to be freed with cJSON_free; NULL without memory. */
static char *print_header(const struct copse_checkpoint_params *p)
{
    char *text = NULL;
    uint64_t offset = 0;

    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL;
    if (p->metadata_count > 0) {
        cJSON *object = cJSON_AddObjectToObject(root, COPSE_ST_METADATA);
        ok = object != NULL;
        for (size_t i = 0; i < p->metadata_count && ok; i++)
            ok = cJSON_AddStringToObject(object, p->metadata[i].key, p->metadata[i].value) != NULL;
    }
    for (size_t i = 0; i < p->array_count && ok; i++)
        ok = add_array(root, &p->arrays[i], &offset);
    if (ok)
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

static bool write_elements(FILE *stream, const struct copse_array_view *a, unsigned char *buffer)
{
    size_t size = copse_type_size(a->type), count, bytes;

    copse__shape_size(a->rank, a->shape, size, &count, &bytes);
    for (size_t at = 0; at < bytes; at += WRITE_BYTES) {
        size_t n = COPSE_MIN(WRITE_BYTES, bytes - at);
        memcpy(buffer, (const char *)a->data + at, n);
        copse__swap_from_little(buffer, n / size, size);
        if (fwrite(buffer, 1, n, stream) != n)
            return false;
    }
    return true;
}

/* A file that is written. */
struct writing {
    struct copse_mem *mem;
    const char *path;
    const struct copse_checkpoint_params *params;
    const struct copse_st_elements *from; /* NULL: elements are in the arrays */
    const char *header;
    size_t header_size;
    unsigned char *buffer;
    bool may_retry; /* the file could be made, so that another attempt may succeed */
};

static bool write_header(const struct writing *w, FILE *stream)
{
    const uint64_t padded = copse__round_up(w->header_size + 8, DATA_ALIGNMENT) - 8;

    for (int i = 0; i < 8; i++)
        w->buffer[i] = (unsigned char)(padded >> (8 * i));
    memset(w->buffer + 8, ' ', DATA_ALIGNMENT);
    return fwrite(w->buffer, 1, 8, stream) == 8 &&
           fwrite(w->header, 1, w->header_size, stream) == w->header_size &&
           fwrite(w->buffer + 8, 1, padded - w->header_size, stream) == padded - w->header_size;
}

static copse_status write_all(struct writing *w, FILE *stream)
{
    bool ok = write_header(w, stream);

    for (size_t i = 0; i < w->params->array_count && ok; i++) {
        struct copse_array_view a = w->params->arrays[i].array;
        if (w->from != NULL) {
            const copse_status s = w->from->fetch(w->from->user, i, &a.data);
            w->may_retry = s == COPSE_OK;
            COPSE_TRY(s);
        }
        ok = write_elements(stream, &a, w->buffer);
    }
    return ok ? COPSE_OK
              : copse_fail(COPSE_ERR_IO, "safetensors: cannot write %s: is the disk full?",
                           w->path);
}

/* Write the file once. */
static copse_status write_file(struct writing *w)
{
    struct copse_atomic_file file = { 0 };

    w->may_retry = false;
    COPSE_TRY(copse__atomic_open(&file, w->mem, w->path));
    w->may_retry = true;
    const copse_status s = write_all(w, file.stream);
    if (s == COPSE_OK)
        return copse__atomic_commit(&file);
    copse__atomic_abort(&file);
    return s;
}

/* A disk may be full for a moment, and a device may report one error. */
static copse_status write_patiently(struct writing *w)
{
    static const uint64_t pauses_ns[] = { 20000000, 100000000 };
    copse_status s = write_file(w);

    for (size_t i = 0; s == COPSE_ERR_IO && w->may_retry && i < COPSE_COUNT(pauses_ns); i++) {
        copse__sleep_ns(pauses_ns[i]);
        s = write_file(w);
    }
    return s;
}

copse_status copse__checkpoint_write_from(copse_context *ctx, const char *path,
                                          const struct copse_checkpoint_params *params,
                                          const struct copse_st_elements *from)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;

    COPSE_TRY(check_params(mem, params, from == NULL));
    unsigned char *buffer = copse__alloc(mem, WRITE_BYTES, 1);
    char *header = print_header(params);
    struct writing w = { .mem = mem,
                         .path = path,
                         .params = params,
                         .from = from,
                         .header = header,
                         .header_size = header != NULL ? strlen(header) : 0,
                         .buffer = buffer };
    copse_status s = COPSE_OK;
    if (buffer == NULL || header == NULL)
        s = copse_no_memory("safetensors: %s", path);
    else if (w.header_size + DATA_ALIGNMENT > COPSE_ST_HEADER_MAX)
        s = copse_fail(COPSE_ERR_ARGUMENT,
                       "safetensors: %s: the header would have %zu bytes, at most %u "
                       "are allowed",
                       path, w.header_size, COPSE_ST_HEADER_MAX);
    if (s == COPSE_OK)
        s = write_patiently(&w);
    cJSON_free(header);
    copse__free(mem, buffer);
    return s;
}

copse_status copse_checkpoint_write(copse_context *ctx, const char *path,
                                    const struct copse_checkpoint_params *params)
{
    COPSE_TRY(copse_need("safetensors", ctx, path, params));
    COPSE_TRY(copse_no_reserved(copse_checkpoint_params, params));
    return copse__checkpoint_write_from(ctx, path, params, NULL);
}

/* ---- reading ---- */

struct copse_checkpoint {
    copse_refs refs;
    copse_context *ctx;
    struct copse_arena arena; /* names, metadata, lists */
    struct copse_st_header header;
    struct copse_named_array *named;
    copse_array **arrays; /* NULL: not read yet */
    const char *path;     /* for error texts */
    FILE *stream;         /* NULL: none, or all is read */
    uint64_t data_begin;  /* in the file */
    uint64_t place;       /* of the stream, in the data */
};

static copse_status read_bytes(FILE *stream, const char *path, void *to, size_t size)
{
    if (fread(to, 1, size, stream) == size)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_IO, "safetensors: cannot read %s: %s", path,
                      ferror(stream) ? "the system reports an error" : "it changed meanwhile");
}

/* The header's text; the caller frees it. */
static copse_status read_header(struct copse_mem *mem, FILE *stream, const char *path,
                                uint64_t size, char **text, size_t *length)
{
    unsigned char digits[8];
    uint64_t n = 0;

    if (size < 8)
        return copse_fail(COPSE_ERR_FORMAT, "safetensors: %s has only %llu bytes", path,
                          (unsigned long long)size);
    COPSE_TRY(read_bytes(stream, path, digits, 8));
    if (memcmp(digits, "GGUF", 4) == 0)
        return copse_fail(COPSE_ERR_FORMAT,
                          "safetensors: %s is a GGUF file; `copse generate`, `copse evaluate` and "
                          "`copse info` take it, weights are read from safetensors",
                          path);
    for (int i = 8; i-- > 0;)
        n = n << 8 | digits[i];
    if (n > COPSE_ST_HEADER_MAX || n > size - 8)
        return copse_fail(COPSE_ERR_FORMAT,
                          "safetensors: %s: a header of %llu bytes in a file of %llu bytes: the "
                          "file is cut off, or is no safetensors file",
                          path, (unsigned long long)n, (unsigned long long)size);
    *length = (size_t)n;
    *text = copse__alloc(mem, (size_t)n, 1);
    return *text ? read_bytes(stream, path, *text, (size_t)n)
                 : copse_no_memory("safetensors: %s", path);
}

static copse_status list_arrays(copse_checkpoint *c, const char *path)
{
    const size_t count = c->header.entry_count;
    c->path = copse__arena_strdup(&c->arena, path);
    c->named = copse__arena_alloc(&c->arena, count, sizeof *c->named);
    c->arrays = copse__arena_alloc(&c->arena, count, sizeof *c->arrays);
    if (c->path == NULL || c->named == NULL || c->arrays == NULL)
        return copse_no_memory("safetensors: %s", path);
    for (size_t i = 0; i < count; i++) {
        const struct copse_st_entry *e = &c->header.entries[i];
        struct copse_array_view *a = &c->named[i].array;
        c->named[i].name = e->name;
        a->type = e->type;
        a->rank = e->rank;
        memcpy(a->shape, e->shape, sizeof e->shape);
    }
    return COPSE_OK;
}

copse_status copse__checkpoint_parse(copse_context *ctx, const char *path, const char *text,
                                     size_t size, const uint64_t *data_bytes,
                                     copse_checkpoint **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    *out = NULL;
    copse_checkpoint *c = copse__alloc(mem, 1, sizeof *c);
    if (c == NULL)
        return copse_no_memory("safetensors: %s", path);
    atomic_init(&c->refs, 1);
    c->ctx = copse_context_retain(ctx);
    c->arena.mem = mem;
    copse_status s = copse__st_parse(&c->arena, path, text, size, &c->header);
    if (s == COPSE_OK && data_bytes && c->header.data_bytes != *data_bytes)
        s = copse_fail(COPSE_ERR_FORMAT,
                       "safetensors: %s: the header promises %llu bytes of data, there are %llu",
                       path, (unsigned long long)c->header.data_bytes,
                       (unsigned long long)*data_bytes);
    if (s == COPSE_OK)
        s = list_arrays(c, path);
    if (s != COPSE_OK)
        copse_checkpoint_release(&c);
    *out = c;
    return s;
}

copse_status copse__checkpoint_copy(copse_checkpoint *c, size_t i, void *to)
{
    const struct copse_st_entry *e = &c->header.entries[i];
    const size_t bytes = (size_t)(e->end - e->begin), size = copse_type_size(e->type);
    if (c->place != e->begin && !copse__file_seek(c->stream, c->data_begin + e->begin))
        return copse_fail(COPSE_ERR_IO, "safetensors: cannot read %s", c->path);
    c->place = UINT64_MAX;
    COPSE_TRY(read_bytes(c->stream, c->path, to, bytes));
    c->place = e->end;
    copse__swap_from_little(to, bytes / size, size);
    return COPSE_OK;
}

copse_status copse__checkpoint_array(copse_checkpoint *c, size_t i, copse_array **out)
{
    const struct copse_st_entry *e = &c->header.entries[i];

    if (c->arrays[i] == NULL) {
        copse_array *a;
        COPSE_TRY(copse_note(copse__array_create(c->ctx, e->type, e->rank, e->shape, NULL, &a),
                             "for '%.200s' of %s", e->name, c->path));
        if (c->stream == NULL) /* the values come from another worker */
            memset(a->data, 0, a->bytes);
        const copse_status s = c->stream ? copse__checkpoint_copy(c, i, a->data) : COPSE_OK;
        if (s != COPSE_OK) {
            copse_array_release(&a);
            return s;
        }
        c->arrays[i] = a;
        c->named[i].array.data = a->data;
    }
    *out = c->arrays[i];
    return COPSE_OK;
}

copse_status copse_checkpoint_fetch(copse_checkpoint *checkpoint, const char *name)
{
    copse_array *a;

    COPSE_TRY(copse_need("safetensors", checkpoint, name));
    for (size_t i = 0; i < checkpoint->header.entry_count; i++)
        if (strcmp(checkpoint->named[i].name, name) == 0)
            return copse__checkpoint_array(checkpoint, i, &a);
    return copse_fail(COPSE_ERR_ARGUMENT, "safetensors: %s has no array '%.200s'", checkpoint->path,
                      name);
}

copse_status copse__checkpoint_header(const copse_checkpoint *c, char **out)
{
    const struct copse_checkpoint_params p = {
        .arrays = c->named,
        .array_count = c->header.entry_count,
        .metadata = c->header.metadata,
        .metadata_count = c->header.metadata_count,
    };
    char *text = print_header(&p);
    *out = text ? copse__strdup(c->arena.mem, text) : NULL;
    cJSON_free(text);
    return *out ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "safetensors: no memory for a header");
}

copse_status copse_checkpoint_open(copse_context *ctx, const char *path, copse_checkpoint **out)
{
    COPSE_TRY(copse_need("safetensors", ctx, path, out));
    struct copse_mem *mem = &copse__base(ctx)->mem;
    FILE *stream = NULL;
    char *text = NULL;
    size_t length = 0;
    uint64_t size = 0;

    *out = NULL;
    copse_status s = copse__file_open(path, &stream, &size);
    if (s == COPSE_OK)
        s = read_header(mem, stream, path, size, &text, &length);
    if (s == COPSE_OK) {
        const uint64_t data_bytes = size - 8 - length;
        s = copse__checkpoint_parse(ctx, path, text, length, &data_bytes, out);
    }
    copse__free(mem, text);
    if (s == COPSE_OK) {
        (*out)->stream = stream;
        (*out)->data_begin = 8 + length;
    } else if (stream != NULL) {
        fclose(stream);
    }
    return s;
}

static void close_file(copse_checkpoint *c)
{
    if (c->stream != NULL)
        fclose(c->stream);
    c->stream = NULL;
}

copse_status copse_checkpoint_read(copse_context *ctx, const char *path, copse_checkpoint **out)
{
    copse_array *a;

    COPSE_TRY(copse_checkpoint_open(ctx, path, out));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < (*out)->header.entry_count && s == COPSE_OK; i++)
        s = copse__checkpoint_array(*out, i, &a);
    close_file(*out);
    if (s != COPSE_OK)
        copse_checkpoint_release(out);
    return s;
}

copse_checkpoint *copse_checkpoint_retain(copse_checkpoint *checkpoint)
{
    if (checkpoint != NULL)
        copse__ref(&checkpoint->refs);
    return checkpoint;
}

void copse_checkpoint_release(copse_checkpoint **checkpoint)
{
    if (checkpoint == NULL || *checkpoint == NULL)
        return;
    copse_checkpoint *c = *checkpoint;
    *checkpoint = NULL;
    if (!copse__unref(&c->refs))
        return;
    copse_context *ctx = c->ctx;
    close_file(c);
    for (size_t i = 0; c->arrays != NULL && i < c->header.entry_count; i++)
        copse_array_release(&c->arrays[i]);
    copse__arena_fini(&c->arena);
    copse__free(&copse__base(ctx)->mem, c);
    copse_context_release(&ctx);
}

const struct copse_named_array *copse_checkpoint_arrays(const copse_checkpoint *checkpoint,
                                                        size_t *count)
{
    if (count != NULL)
        *count = checkpoint != NULL ? checkpoint->header.entry_count : 0;
    return checkpoint != NULL ? checkpoint->named : NULL;
}

const struct copse_metadata *copse_checkpoint_metadata(const copse_checkpoint *checkpoint,
                                                       size_t *count)
{
    if (count != NULL)
        *count = checkpoint != NULL ? checkpoint->header.metadata_count : 0;
    return checkpoint != NULL ? checkpoint->header.metadata : NULL;
}

const struct copse_array_view *copse_checkpoint_find(const copse_checkpoint *checkpoint,
                                                     const char *name)
{
    for (size_t i = 0; checkpoint != NULL && name != NULL && i < checkpoint->header.entry_count;
         i++)
        if (strcmp(checkpoint->named[i].name, name) == 0)
            return &checkpoint->named[i].array;
    return NULL;
}
