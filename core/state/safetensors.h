/* SPDX-License-Identifier: MIT */
/* The header of a safetensors file: parses JSON text to checked entries. Opens no file. Also
   checkpoints in memory. */
#ifndef COPSE_SAFETENSORS_H
#define COPSE_SAFETENSORS_H

#include "copse/data/checkpoint.h"
#include "core/base/base.h"

#define COPSE_ST_HEADER_MAX 100000000u /* bytes, the format's own limit */
#define COPSE_ST_ARRAYS_MAX 1000000u
#define COPSE_ST_NAME_MAX   1024u /* bytes */
#define COPSE_ST_METADATA   "__metadata__"

struct copse_st_entry {
    const char *name;
    copse_type type;
    uint32_t rank;
    size_t shape[COPSE_ARRAY_MAX_RANK];
    uint64_t begin, end; /* in the data after the header */
    size_t order;        /* in the header */
};

struct copse_st_header {
    struct copse_st_entry *entries; /* by position in the data, without gaps or overlaps */
    size_t entry_count;
    struct copse_metadata *metadata;
    size_t metadata_count;
    uint64_t data_bytes; /* end of the last entry */
};

/* Elements of arrays that are not in memory together. `fetch` gives the elements of array i, valid
   until its next call. */
struct copse_st_elements {
    copse_status (*fetch)(void *user, size_t i, const void **data);
    void *user;
};
/* copse_checkpoint_write; `from`: instead of the arrays' data, NULL: these. After an error of the
   disk each array is fetched again. */
copse_status copse__checkpoint_write_from(copse_context *ctx, const char *path,
                                          const struct copse_checkpoint_params *params,
                                          const struct copse_st_elements *from);

/* Results are allocated in the arena. Error texts name `path`. */
copse_status copse__st_parse(struct copse_arena *arena, const char *path, const char *text,
                             size_t size, struct copse_st_header *out);

/* A checkpoint from a header's text, without elements. `data_bytes`: the size of the data in the
   file, which is checked; or NULL. */
copse_status copse__checkpoint_parse(copse_context *ctx, const char *path, const char *text,
                                     size_t size, const uint64_t *data_bytes,
                                     copse_checkpoint **out);
/* The text of its header, for the function above; the caller frees it. */
copse_status copse__checkpoint_header(const copse_checkpoint *c, char **out);
/* Array i in the order of the header, with its elements: from the file, or zeros where there is
   none. Borrowed. */
copse_status copse__checkpoint_array(copse_checkpoint *c, size_t i, copse_array **out);
/* The elements of array i of an open file, in memory of the caller. */
copse_status copse__checkpoint_copy(copse_checkpoint *c, size_t i, void *to);

/* The first of `count` strings that occurs twice, or NULL; sorts `names`. */
const char *copse__st_twice(const char **names, size_t count);

#endif
