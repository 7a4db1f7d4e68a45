/* SPDX-License-Identifier: MIT */
/* A file as a byte stream, decompressed if gzipped; and the UTF-8 check. Private to the readers. */
#ifndef COPSE_DATA_INPUT_H
#define COPSE_DATA_INPUT_H

#include <stdio.h>
#include <zlib.h>

#include "core/base/base.h"

#define COPSE_INPUT_MAX_BYTES (8ull << 30)

struct copse_input {
    struct copse_mem *mem;
    const char *path; /* not owned */
    FILE *stream;
    uint64_t file_size, limit;
    uint64_t given; /* payload bytes returned */
    unsigned char *chunk;
    size_t at, have; /* unread part of chunk */
    bool is_gzip, has_inflate, is_done;
    z_stream inflate;
};

/* `max_bytes` 0 = COPSE_INPUT_MAX_BYTES. Close also on failure. */
copse_status copse__input_open(struct copse_input *in, struct copse_mem *mem, const char *path,
                               uint64_t max_bytes);
void copse__input_close(struct copse_input *in);

/* Up to `size` bytes; *got is less only at the end, which has then been checked: length, CRC, no
   data after the gzip member. */
copse_status copse__input_read(struct copse_input *in, void *to, size_t size, size_t *got);
/* Exactly `size` bytes, or COPSE_ERR_FORMAT "FORMAT: PATH: the file ends inside WHAT". */
copse_status copse__input_take(struct copse_input *in, void *to, size_t size, const char *format,
                               const char *what);
/* The file must end here. */
copse_status copse__input_end(struct copse_input *in, const char *format);

/* Upper bound of the remaining payload bytes, from the length of the file. Checked before memory is
   allocated for a size that a header states. */
uint64_t copse__input_room(const struct copse_input *in);
/* Fails if a header states a rest of `bytes` that is impossible. */
copse_status copse__input_claim(const struct copse_input *in, uint64_t bytes, const char *format);

/* The file format, from its first bytes. */
enum copse_file_kind { COPSE_FILE_CSV, COPSE_FILE_IDX, COPSE_FILE_NPY };
copse_status copse__file_kind(struct copse_mem *mem, const char *path, enum copse_file_kind *out);

#endif
