/* SPDX-License-Identifier: MIT */
/* The tensors of a GGUF file or of a folder: see model_source.h. */
#include "core/language/model_source.h"

#include <stdio.h>

#include "core/base/files.h"
#include "core/base/platform.h"

/* A folder, or its file of weights; all else is a GGUF file. */
copse_status copse__model_source_open(struct copse_model_source *s, copse_context *ctx,
                                      const char *path)
{
    static const char ending[] = ".safetensors";
    const size_t size = strlen(path), n = sizeof ending - 1;
    const bool is_folder = copse__is_directory(path);
    if (is_folder || (size > n && strcmp(path + size - n, ending) == 0))
        return copse__tensor_files_open(&s->files, ctx, path, is_folder);
    return copse_gguf_open(ctx, path, &s->gguf);
}

void copse__model_source_close(struct copse_model_source *s)
{
    copse_gguf_release(&s->gguf);
    copse__tensor_files_end(&s->files);
}

void copse__model_source_name(const struct copse_model_source *s, enum copse_part part,
                              uint32_t layer, char name[COPSE_PART_NAME])
{
    snprintf(name, COPSE_PART_NAME, s->gguf ? copse__parts[part].gguf : copse__parts[part].name,
             layer);
}

static struct copse_model_tensor of_gguf(const struct copse_gguf_tensor *t)
{
    struct copse_model_tensor out = { .name = t->name, .rank = t->rank };
    memcpy(out.shape, t->shape, sizeof t->shape);
    out.type = strcmp(t->type, "F16") == 0    ? COPSE_F16
               : strcmp(t->type, "BF16") == 0 ? COPSE_BF16
                                              : COPSE_F32;
    out.is_quantised = out.type == COPSE_F32 && strcmp(t->type, "F32") != 0;
    return out;
}

static struct copse_model_tensor of_entry(const struct copse_tensor_entry *e)
{
    struct copse_model_tensor out = { .name = e->name,
                                      .rank = e->array->rank,
                                      .type = e->array->type };
    for (uint32_t i = 0; i < out.rank; i++)
        out.shape[i] = e->array->shape[i];
    return out;
}

size_t copse__model_source_count(const struct copse_model_source *s)
{
    size_t count = s->files.count;
    if (s->gguf)
        copse_gguf_tensors(s->gguf, &count);
    return count;
}

struct copse_model_tensor copse__model_source_tensor(const struct copse_model_source *s, size_t i)
{
    size_t count;
    return s->gguf ? of_gguf(&copse_gguf_tensors(s->gguf, &count)[i])
                   : of_entry(&s->files.entries[i]);
}

bool copse__model_source_find(const struct copse_model_source *s, const char *name,
                              struct copse_model_tensor *out)
{
    const struct copse_gguf_tensor *t = s->gguf ? copse_gguf_find(s->gguf, name) : NULL;
    const struct copse_tensor_entry *e = s->gguf ? NULL : copse__tensor_files_find(&s->files, name);
    if (out && t)
        *out = of_gguf(t);
    if (out && e)
        *out = of_entry(e);
    return t || e;
}

copse_status copse__model_source_read(struct copse_model_source *s, const char *name, float *values,
                                      size_t count)
{
    if (s->gguf)
        return copse_gguf_read(s->gguf, name, values, count);
    const struct copse_tensor_entry *e = copse__tensor_files_find(&s->files, name);
    return e ? copse__tensor_files_read(&s->files, e, values)
             : copse_fail(COPSE_ERR_ARGUMENT, "there is no tensor \"%.200s\"", name);
}

/* ---- a model that is opened again ---- */

copse_status copse__model_source_matrix(const struct copse_model_source *s, const copse_language *l,
                                        uint32_t layer, enum copse_part part, size_t *index)
{
    char name[COPSE_PART_NAME];
    uint32_t shape[2];
    const size_t count = copse__model_source_count(s);
    copse__model_source_name(s, part, layer, name);
    copse__part_shape(l->architecture, &l->is, part, shape);
    for (size_t i = 0; i < count; i++) {
        const struct copse_model_tensor t = copse__model_source_tensor(s, i);
        *index = i;
        if (strcmp(t.name, name) == 0 && t.rank == 2 && t.shape[0] == shape[0] &&
            t.shape[1] == shape[1])
            return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_FORMAT,
                      "%s has changed since the model was opened: \"%s\" is not [%u, %u]", l->path,
                      name, shape[0], shape[1]);
}

uint32_t copse__model_source_row(const struct copse_model_source *s, const copse_language *l,
                                 enum copse_part part, uint32_t row)
{
    const uint32_t head = l->is.head, i = row % head;
    const bool is_turned = s->gguf && l->architecture->is_interleaved &&
                           (part == COPSE_PART_QUERY || part == COPSE_PART_KEY);
    return is_turned ? row - i + i / 2 + i % 2 * (head / 2) : row;
}
