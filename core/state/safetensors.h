/* SPDX-License-Identifier: MIT */
/* The header of a safetensors file: JSON text to checked entries. Touches no file.
   And checkpoints in memory. */
#ifndef COPSE_SAFETENSORS_H
#define COPSE_SAFETENSORS_H

#include "copse/checkpoint.h"
#include "core/base/base.h"

#define COPSE_ST_HEADER_MAX 100000000u /* bytes, the format's own limit */
#define COPSE_ST_ARRAYS_MAX 1000000u
#define COPSE_ST_NAME_MAX   1024u /* bytes */
#define COPSE_ST_METADATA   "__metadata__"

struct copse_st_entry {
    const char *name;
    copse_element type;
    uint32_t rank;
    size_t shape[COPSE_ARRAY_MAX_RANK];
    uint64_t begin, end; /* in the data behind the header */
    size_t order;        /* in the header */
};

struct copse_st_header {
    struct copse_st_entry *entries; /* by position in the data, without gap or overlap */
    size_t entry_count;
    struct copse_metadata *metadata;
    size_t metadata_count;
    uint64_t data_bytes; /* end of the last entry */
};

/* Results live in the arena. `path` stands in error texts. */
copse_status copse__st_parse(struct copse_arena *arena, const char *path, const char *text,
                             size_t size, struct copse_st_header *out);

/* A checkpoint of a header's text, with all elements zero. `data_bytes`: how many bytes there are of
   them, to compare; or NULL. */
copse_status copse__checkpoint_parse(copse_context *ctx, const char *path, const char *text,
                                     size_t size, const uint64_t *data_bytes,
                                     copse_checkpoint **out);
/* The text of its header, for the above; freed by the caller. */
copse_status copse__checkpoint_header(const copse_checkpoint *c, char **out);
/* Its arrays in the order of the header, to be filled in. */
copse_array *const *copse__checkpoint_storage(const copse_checkpoint *c);

/* The first of `count` strings that is there twice, or NULL; sorts `names`. */
const char *copse__st_twice(const char **names, size_t count);

#endif
