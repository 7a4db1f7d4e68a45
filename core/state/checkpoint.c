/* SPDX-License-Identifier: MIT */
/* Writes a state to a file. */
#include "core/state/state.h"

#include <stdio.h>
#include <zlib.h>

#include "core/data/array.h"

#define CHUNK_BYTES ((size_t)64 << 10) /* a multiple of every element size */

/* ---- checksum ---- */

static uLong sum_text(uLong sum, const char *text)
{
    return crc32_z(sum, (const Bytef *)text, strlen(text) + 1);
}

static uLong sum_elements(uLong sum, const struct copse_array_view *a, unsigned char *chunk)
{
    const size_t size = copse_type_size(a->type);
    size_t count, bytes;
    copse__shape_size(a->rank, a->shape, size, &count, &bytes);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        const size_t n = COPSE_MIN(CHUNK_BYTES, bytes - at);
        memcpy(chunk, (const char *)a->data + at, n);
        copse__swap_from_little(chunk, n / size, size);
        sum = crc32_z(sum, chunk, n);
    }
    return sum;
}

copse_status copse__checksum(struct copse_mem *mem, const struct copse_checkpoint_params *p,
                             char text[16])
{
    uLong sum = crc32_z(0, NULL, 0);
    unsigned char *chunk = copse__alloc(mem, CHUNK_BYTES, 1);
    if (!chunk)
        return copse_no_memory("checkpoint");
    for (size_t i = 0; i < p->metadata_count; i++)
        if (strcmp(p->metadata[i].key, COPSE_CHECKSUM_KEY) != 0) {
            sum = sum_text(sum, p->metadata[i].key);
            sum = sum_text(sum, p->metadata[i].value);
        }
    for (size_t i = 0; i < p->array_count; i++) {
        sum = sum_text(sum, p->arrays[i].name);
        sum = sum_elements(sum, &p->arrays[i].array, chunk);
    }
    copse__free(mem, chunk);
    snprintf(text, 16, "crc32:%08lx", (unsigned long)sum);
    return COPSE_OK;
}

/* ---- writing ---- */

bool copse__state_is_writer(const copse_strategy *st)
{
    return copse__group_is_chief(&st->group);
}

static copse_status list_arrays(struct copse_state *s, struct copse_checkpoint_params *out)
{
    struct copse_named_array *list =
        copse__arena_alloc(&s->arena, s->entries.count + 1, sizeof *list);
    if (!list)
        return copse_no_memory("checkpoint");
    out->arrays = list;
    for (size_t i = 0; i < s->entries.count; out->array_count++) {
        list[out->array_count].name = s->entries.at[i].name;
        /* their data are contiguous */
        i += copse__state_whole(s, i, &list[out->array_count].array);
    }
    return COPSE_OK;
}

copse_status copse__state_save(struct copse_state *s, const char *path, bool has_checksum)
{
    copse_strategy *st = s->strategy;
    struct copse_checkpoint_params p = { .metadata = s->lines.at,
                                         .metadata_count = s->lines.count };
    char checksum[16];
    if (!copse__state_is_writer(st))
        return COPSE_OK;
    COPSE_TRY(list_arrays(s, &p));
    if (has_checksum) {
        COPSE_TRY(copse__checksum(&st->ctx->base.mem, &p, checksum));
        COPSE_TRY(copse__state_put(s, COPSE_CHECKSUM_KEY, COPSE_STATE_TEXT(s, checksum)));
        p.metadata = s->lines.at;
        p.metadata_count = s->lines.count;
    }
    return copse_checkpoint_write(st->ctx, path, &p);
}
