/* SPDX-License-Identifier: MIT */
/* A file as a byte stream, decompressed if gzipped. Uses reads, never a mapping: if the file
   changes during the read, the result is an error, not a signal. */
#include "core/data/reader/byte_stream.h"

#include <limits.h>

#include "core/base/files.h"

#define CHUNK_BYTES       ((size_t)64 << 10)
#define DEFLATE_MAX_RATIO 1032u /* the maximum of the format */

static voidpf zlib_alloc(voidpf user, uInt count, uInt size)
{
    return copse__alloc(user, count, size);
}

static void zlib_free(voidpf user, voidpf block)
{
    copse__free(user, block);
}

/* *got is 0 at the end of the file. */
static copse_status read_stream(const struct copse_input *in, void *to, size_t size, size_t *got)
{
    *got = fread(to, 1, size, in->stream);
    if (*got == 0 && ferror(in->stream))
        return copse_fail(COPSE_ERR_IO, "file: cannot read %s", in->path);
    return COPSE_OK;
}

/* Refill the empty chunk; afterwards have == 0 means the end of the file. */
static copse_status byte_stream_fill(struct copse_input *in)
{
    in->at = 0;
    return read_stream(in, in->chunk, CHUNK_BYTES, &in->have);
}

copse_status copse__input_open(struct copse_input *in, struct copse_mem *mem, const char *path,
                               uint64_t max_bytes)
{
    memset(in, 0, sizeof *in);
    in->mem = mem;
    in->path = path;
    in->limit = max_bytes == 0 ? COPSE_INPUT_MAX_BYTES : max_bytes;
    COPSE_TRY(copse__file_open(path, &in->stream, &in->file_size));
    in->chunk = copse__alloc(mem, CHUNK_BYTES, 1);
    if (in->chunk == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "file: %s: no memory", path);
    COPSE_TRY(byte_stream_fill(in));
    in->is_gzip = in->have >= 2 && in->chunk[0] == 0x1f && in->chunk[1] == 0x8b;
    if (!in->is_gzip) {
        if (in->file_size > in->limit)
            return copse_fail(COPSE_ERR_FORMAT, "file: %s has %llu bytes, more than the limit %llu",
                              path, (unsigned long long)in->file_size,
                              (unsigned long long)in->limit);
        return COPSE_OK;
    }
    in->inflate.zalloc = zlib_alloc;
    in->inflate.zfree = zlib_free;
    in->inflate.opaque = mem;
    if (inflateInit2(&in->inflate, 15 + 16) != Z_OK)
        return copse_fail(COPSE_ERR_NO_MEMORY, "gzip: %s: no memory", path);
    in->has_inflate = true;
    return COPSE_OK;
}

void copse__input_close(struct copse_input *in)
{
    if (in->has_inflate)
        inflateEnd(&in->inflate);
    if (in->stream != NULL)
        fclose(in->stream);
    if (in->mem != NULL)
        copse__free(in->mem, in->chunk);
    memset(in, 0, sizeof *in);
}

static copse_status read_plain(struct copse_input *in, unsigned char *to, size_t size, size_t *got)
{
    while (*got < size && !in->is_done) {
        /* without a copy through the chunk */
        const bool is_direct = in->at == in->have && size - *got >= CHUNK_BYTES;
        size_t n = 0;
        if (is_direct)
            COPSE_TRY(read_stream(in, to + *got, size - *got, &n));
        else if (in->at == in->have)
            COPSE_TRY(byte_stream_fill(in));
        if (!is_direct) {
            n = COPSE_MIN(size - *got, in->have - in->at);
            memcpy(to + *got, in->chunk + in->at, n);
            in->at += n;
        }
        in->is_done = n == 0;
        in->given += n;
        *got += n;
    }
    if (in->given > in->file_size || (in->is_done && in->given != in->file_size))
        return copse_fail(COPSE_ERR_IO, "file: %s changed while it was read", in->path);
    return COPSE_OK;
}

static copse_status read_gzip(struct copse_input *in, unsigned char *to, size_t size, size_t *got)
{
    z_stream *z = &in->inflate;
    bool is_first = in->given == 0;

    while (*got < size && !in->is_done) {
        if (in->at == in->have) {
            COPSE_TRY(byte_stream_fill(in));
            if (in->have == 0)
                return copse_fail(COPSE_ERR_FORMAT, "gzip: %s is cut off", in->path);
        }
        uInt want = (uInt)COPSE_MIN(size - *got, (size_t)INT_MAX);
        z->next_in = in->chunk + in->at;
        z->avail_in = (uInt)(in->have - in->at);
        z->next_out = to + *got;
        z->avail_out = want;
        int r = inflate(z, Z_NO_FLUSH);
        in->at = in->have - z->avail_in;
        *got += want - z->avail_out;
        in->given += want - z->avail_out;
        if (in->given > in->limit)
            return copse_fail(COPSE_ERR_FORMAT,
                              "gzip: %s unpacks to more than the limit of %llu bytes", in->path,
                              (unsigned long long)in->limit);
        if (r == Z_STREAM_END) {
            if (in->at == in->have)
                COPSE_TRY(byte_stream_fill(in));
            if (in->at < in->have)
                return copse_fail(COPSE_ERR_FORMAT,
                                  "gzip: %s has more after the end of its compressed data",
                                  in->path);
            in->is_done = true;
        } else if (r == Z_MEM_ERROR) {
            return copse_fail(COPSE_ERR_NO_MEMORY, "gzip: %s: no memory", in->path);
        } else if (r != Z_OK && r != Z_BUF_ERROR) {
            return copse_fail(COPSE_ERR_FORMAT, "gzip: %s is damaged: %s (after %llu bytes)",
                              in->path, z->msg != NULL ? z->msg : "it needs a dictionary",
                              (unsigned long long)in->given);
        }
    }
    if (is_first && *got >= 2 && to[0] == 0x1f && to[1] == 0x8b)
        return copse_fail(COPSE_ERR_FORMAT, "gzip: %s is compressed twice; unpack it once",
                          in->path);
    return COPSE_OK;
}

copse_status copse__input_read(struct copse_input *in, void *to, size_t size, size_t *got)
{
    *got = 0;
    return in->is_gzip ? read_gzip(in, to, size, got) : read_plain(in, to, size, got);
}

copse_status copse__input_take(struct copse_input *in, void *to, size_t size, const char *format,
                               const char *what)
{
    size_t got;

    COPSE_TRY(copse__input_read(in, to, size, &got));
    if (got < size)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %s ends inside the %s, after %llu bytes", format,
                          in->path, what, (unsigned long long)in->given);
    return COPSE_OK;
}

copse_status copse__input_end(struct copse_input *in, const char *format)
{
    char probe;
    size_t got;

    COPSE_TRY(copse__input_read(in, &probe, 1, &got));
    if (got != 0)
        return copse_fail(COPSE_ERR_FORMAT, "%s: %s has more bytes than its header says (%llu)",
                          format, in->path, (unsigned long long)(in->given - 1));
    return COPSE_OK;
}

uint64_t copse__input_room(const struct copse_input *in)
{
    uint64_t most = in->file_size;

    if (in->is_gzip)
        most = COPSE_MIN(in->limit, in->file_size > UINT64_MAX / DEFLATE_MAX_RATIO
                                        ? UINT64_MAX
                                        : in->file_size * DEFLATE_MAX_RATIO);
    return most > in->given ? most - in->given : 0;
}

copse_status copse__input_claim(const struct copse_input *in, uint64_t bytes, const char *format)
{
    uint64_t room = copse__input_room(in);

    if (bytes > room)
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: the header of %s promises %llu bytes, but there are at most %llu",
                          format, in->path, (unsigned long long)bytes, (unsigned long long)room);
    if (!in->is_gzip && bytes < room)
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: %s has %llu bytes after its header, which promises %llu", format,
                          in->path, (unsigned long long)room, (unsigned long long)bytes);
    return COPSE_OK;
}

copse_status copse__file_kind(struct copse_mem *mem, const char *path, enum copse_file_kind *out)
{
    struct copse_input in;
    unsigned char magic[4] = { '0' };
    size_t got = 0;

    copse_status s = copse__input_open(&in, mem, path, 0);
    if (s == COPSE_OK)
        s = copse__input_read(&in, magic, sizeof magic, &got);
    copse__input_close(&in);
    *out = COPSE_FILE_CSV;
    if (got == sizeof magic && magic[0] == 0 && magic[1] == 0)
        *out = COPSE_FILE_IDX;
    if (got == sizeof magic && memcmp(magic, "\x93NUM", 4) == 0)
        *out = COPSE_FILE_NPY;
    return s;
}
