/* SPDX-License-Identifier: MIT */
/* IDX files: 00 00 TYPE RANK, RANK big-endian lengths, then big-endian elements and nothing else.
 */
#include "copse/data.h"
#include "copse/data/readers.h"
#include "core/data/array.h"
#include "core/data/reader/byte_stream.h"

static bool type_of_code(unsigned code, copse_type *out)
{
    static const struct {
        unsigned code;
        copse_type type;
    } types[] = {
        { 0x08, COPSE_U8 },  { 0x09, COPSE_I8 },  { 0x0b, COPSE_I16 },
        { 0x0c, COPSE_I32 }, { 0x0d, COPSE_F32 }, { 0x0e, COPSE_F64 },
    };

    for (size_t i = 0; i < COPSE_COUNT(types); i++)
        if (types[i].code == code) {
            *out = types[i].type;
            return true;
        }
    return false;
}

static copse_status read_idx(copse_context *ctx, struct copse_input *in, copse_array **out)
{
    unsigned char head[4], lengths[16];
    size_t shape[4], count, bytes;
    copse_type type;

    COPSE_TRY(copse__input_take(in, head, sizeof head, "idx", "header"));
    if (head[0] != 0 || head[1] != 0)
        return copse_fail(COPSE_ERR_FORMAT, "idx: %s does not begin as an IDX file", in->path);
    if (!type_of_code(head[2], &type))
        return copse_fail(COPSE_ERR_FORMAT, "idx: %s has the unknown element type 0x%02x", in->path,
                          head[2]);
    uint32_t rank = head[3];
    if (rank < 1 || rank > 4)
        return copse_fail(COPSE_ERR_FORMAT, "idx: %s has %u axes, only 1 to 4 are allowed",
                          in->path, rank);
    COPSE_TRY(copse__input_take(in, lengths, rank * 4, "idx", "header"));
    for (uint32_t i = 0; i < rank; i++) {
        const unsigned char *b = lengths + i * 4;
        shape[i] = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
        if (shape[i] == 0)
            return copse_fail(COPSE_ERR_FORMAT, "idx: %s has an axis of length 0", in->path);
    }
    size_t size = copse_type_size(type);
    if (!copse__shape_size(rank, shape, size, &count, &bytes))
        return copse_fail(COPSE_ERR_FORMAT, "idx: the header of %s promises more than fits memory",
                          in->path);
    COPSE_TRY(copse__input_claim(in, bytes, "idx"));
    COPSE_TRY(copse__array_create(ctx, type, rank, shape, NULL, out));
    COPSE_TRY(copse__input_take(in, (*out)->data, bytes, "idx", "data"));
    COPSE_TRY(copse__input_end(in, "idx"));
    copse__swap_from_big((*out)->data, count, size);
    return COPSE_OK;
}

copse_status copse_read_idx(copse_context *ctx, const char *path,
                            const struct copse_read_params *params, copse_array **out)
{
    COPSE_TRY(copse_need("idx", ctx, path, out));
    struct copse_input in;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_read_params, params));
    copse_status s = copse__input_open(&in, &copse__base(ctx)->mem, path,
                                       params != NULL ? params->max_bytes : 0);
    if (s == COPSE_OK)
        s = read_idx(ctx, &in, out);
    copse__input_close(&in);
    if (s != COPSE_OK)
        copse_array_release(out);
    return s;
}
