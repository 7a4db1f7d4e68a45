/* SPDX-License-Identifier: MIT */
/* .npy files, read and written:
   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. The header is a Python
   literal; only the three keys written by NumPy are accepted, and nothing is evaluated. */
#include <stdio.h>

#include "copse/data.h"
#include "copse/data/readers.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/data/reader/byte_stream.h"

#define HEADER_MAX 10000 /* NumPy's limit */

/* After the character of the byte order. */
static const struct {
    char code[3];
    copse_type type;
} types[] = {
    { "b1", COPSE_BOOL }, { "i1", COPSE_I8 },  { "i2", COPSE_I16 }, { "i4", COPSE_I32 },
    { "i8", COPSE_I64 },  { "u1", COPSE_U8 },  { "u2", COPSE_U16 }, { "u4", COPSE_U32 },
    { "u8", COPSE_U64 },  { "f2", COPSE_F16 }, { "f4", COPSE_F32 }, { "f8", COPSE_F64 },
};

/* ---- reading ---- */

struct npy_header {
    char descr[8];
    bool is_fortran;
    uint32_t rank;
    size_t shape[COPSE_ARRAY_MAX_RANK];
};

/* The remaining header text. */
struct cursor {
    const char *p, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

static bool npy_accept(struct cursor *c, char wanted)
{
    skip_space(c);
    if (c->p == c->end || *c->p != wanted)
        return false;
    c->p++;
    return true;
}

/* A quoted string without escapes, into `text` with its NUL. */
static bool take_string(struct cursor *c, char *text, size_t room)
{
    size_t n = 0;

    skip_space(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"'))
        return false;
    char quote = *c->p++;
    while (c->p < c->end && *c->p != quote) {
        if (*c->p == '\\' || n + 1 == room)
            return false;
        text[n++] = *c->p++;
    }
    if (c->p == c->end)
        return false;
    c->p++;
    text[n] = 0;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

static bool take_size(struct cursor *c, size_t *out)
{
    size_t v = 0;

    skip_space(c);
    const char *start = c->p;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (!copse__mul(v, 10, &v) || !copse__add(v, (size_t)(*c->p - '0'), &v))
            return false;
    *out = v;
    return c->p > start && (*start != '0' || c->p == start + 1);
}

/* (), (3,), (3, 4) or (3, 4,) */
static bool take_shape(struct cursor *c, struct npy_header *h)
{
    bool has_comma = true;

    if (!npy_accept(c, '('))
        return false;
    while (!npy_accept(c, ')')) {
        if (!has_comma || h->rank == COPSE_ARRAY_MAX_RANK || !take_size(c, &h->shape[h->rank++]))
            return false;
        has_comma = npy_accept(c, ',');
    }
    return h->rank != 1 || has_comma;
}

static bool parse_header(struct cursor c, struct npy_header *h)
{
    bool has_descr = false, has_order = false, has_shape = false, has_comma = true;
    char key[16];

    if (!npy_accept(&c, '{'))
        return false;
    while (!npy_accept(&c, '}')) {
        if (!has_comma || !take_string(&c, key, sizeof key) || !npy_accept(&c, ':'))
            return false;
        if (strcmp(key, "descr") == 0 && !has_descr) {
            has_descr = true;
            if (!take_string(&c, h->descr, sizeof h->descr))
                return false;
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            h->is_fortran = take_word(&c, "True");
            if (!h->is_fortran && !take_word(&c, "False"))
                return false;
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            if (!take_shape(&c, h))
                return false;
        } else {
            return false;
        }
        has_comma = npy_accept(&c, ',');
    }
    skip_space(&c);
    return c.p == c.end && has_descr && has_order && has_shape;
}

static bool type_of_descr(const char *descr, copse_type *out, bool *is_big)
{
    for (size_t i = 0; i < COPSE_COUNT(types); i++) {
        if (descr[0] == 0 || strcmp(descr + 1, types[i].code) != 0)
            continue;
        *out = types[i].type;
        *is_big = descr[0] == '>';
        return descr[0] == '<' || descr[0] == '>' ||
               (descr[0] == '|' && copse_type_size(*out) == 1);
    }
    return false;
}

/* Column-major `from` to row-major `to`: iterate over `to` and track the offset in `from`. */
static void to_c_order(const struct npy_header *h, size_t count, size_t size, const char *from,
                       char *to)
{
    size_t index[COPSE_ARRAY_MAX_RANK] = { 0 }, stride[COPSE_ARRAY_MAX_RANK], place = 0, step = 1;

    for (uint32_t i = 0; i < h->rank; i++) {
        stride[i] = step;
        step *= h->shape[i];
    }
    for (size_t n = 0; n < count; n++) {
        memcpy(to + n * size, from + place * size, size);
        for (uint32_t i = h->rank; i-- > 0;) {
            place += stride[i];
            if (++index[i] < h->shape[i])
                break;
            place -= stride[i] * h->shape[i];
            index[i] = 0;
        }
    }
}

static copse_status read_header(struct copse_input *in, char *text, struct npy_header *h)
{
    unsigned char magic[8], length[4] = { 0 };

    COPSE_TRY(copse__input_take(in, magic, sizeof magic, "npy", "header"));
    if (memcmp(magic, "\x93NUMPY", 6) != 0)
        return copse_fail(COPSE_ERR_FORMAT, "npy: %s does not begin as a .npy file", in->path);
    if (magic[6] < 1 || magic[6] > 3 || magic[7] != 0)
        return copse_fail(COPSE_ERR_FORMAT, "npy: %s has the unknown format version %u.%u",
                          in->path, magic[6], magic[7]);
    COPSE_TRY(copse__input_take(in, length, magic[6] == 1 ? 2 : 4, "npy", "header"));
    size_t size =
        length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (size > HEADER_MAX)
        return copse_fail(COPSE_ERR_FORMAT,
                          "npy: the header of %s has %zu bytes, at most %d are read", in->path,
                          size, HEADER_MAX);
    COPSE_TRY(copse__input_take(in, text, size, "npy", "header"));
    if (!parse_header((struct cursor){ text, text + size }, h))
        return copse_fail(
            COPSE_ERR_FORMAT,
            "npy: the header of %s is not {descr, fortran_order, shape} of a plain array",
            in->path);
    return COPSE_OK;
}

static copse_status read_npy(copse_context *ctx, struct copse_input *in, copse_array **out,
                             copse_array **columns)
{
    struct npy_header h = { .rank = 0 };
    size_t count, bytes;
    copse_type type;
    bool is_big;

    char *text = copse__alloc(in->mem, HEADER_MAX, 1);
    if (text == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "npy: %s: no memory", in->path);
    copse_status s = read_header(in, text, &h);
    copse__free(in->mem, text);
    COPSE_TRY(s);
    if (!type_of_descr(h.descr, &type, &is_big))
        return copse_fail(
            COPSE_ERR_FORMAT,
            "npy: %s holds elements \"%s\"; only booleans, integers and floats are read", in->path,
            h.descr);
    size_t size = copse_type_size(type);
    if (!copse__shape_size(h.rank, h.shape, size, &count, &bytes))
        return copse_fail(COPSE_ERR_FORMAT, "npy: the header of %s promises more than fits memory",
                          in->path);
    COPSE_TRY(copse__input_claim(in, bytes, "npy"));
    COPSE_TRY(copse__array_create(ctx, type, h.rank, h.shape, NULL, out));
    copse_array *target = *out;
    if (h.is_fortran && h.rank > 1) {
        COPSE_TRY(copse__array_create(ctx, type, h.rank, h.shape, NULL, columns));
        target = *columns;
    }
    COPSE_TRY(copse__input_take(in, target->data, bytes, "npy", "data"));
    COPSE_TRY(copse__input_end(in, "npy"));
    if (is_big)
        copse__swap_from_big(target->data, count, size);
    else
        copse__swap_from_little(target->data, count, size);
    if (target != *out)
        to_c_order(&h, count, size, target->data, (*out)->data);
    return COPSE_OK;
}

copse_status copse_read_npy(copse_context *ctx, const char *path,
                            const struct copse_read_params *params, copse_array **out)
{
    COPSE_TRY(copse_need("npy", ctx, path, out));
    struct copse_input in;
    copse_array *columns = NULL;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_read_params, params));
    copse_status s = copse__input_open(&in, &copse__base(ctx)->mem, path,
                                       params != NULL ? params->max_bytes : 0);
    if (s == COPSE_OK)
        s = read_npy(ctx, &in, out, &columns);
    copse__input_close(&in);
    copse_array_release(&columns);
    if (s != COPSE_OK)
        copse_array_release(out);
    return s;
}

/* ---- writing ---- */

/* The header is padded with blanks, so that the elements begin at a multiple of 64. */
static void write_header(FILE *to, const struct copse_array_view *a, copse_type type)
{
    char text[320];
    size_t i = 0;
    while (types[i].type != type)
        i++;
    int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     copse_type_size(type) == 1 ? '|' : '<', types[i].code);
    for (uint32_t axis = 0; axis < a->rank; axis++)
        n += snprintf(text + n, sizeof text - (size_t)n, axis ? " %zu," : "%zu,", a->shape[axis]);
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    const int size = (10 + n + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, to);
    fputc(size & 255, to);
    fputc(size >> 8, to);
    fprintf(to, "%s%*s\n", text, size - n - 1, "");
}

static void write_elements(FILE *to, const struct copse_array_view *a, copse_type type,
                           size_t count)
{
    enum { ELEMENTS = 1024 };
    const size_t size = copse_type_size(type);
    uint64_t chunk[ELEMENTS];
    for (size_t at = 0, n; at < count; at += n) {
        n = COPSE_MIN(count - at, ELEMENTS);
        if (type == a->type)
            memcpy(chunk, (const char *)a->data + at * size, n * size);
        for (size_t i = 0; type != a->type && i < n; i++)
            ((float *)chunk)[i] = (float)copse__type_load(a->type, a->data, at + i);
        copse__swap_from_little(chunk, n, size);
        fwrite(chunk, size, n, to);
    }
}

copse_status copse_write_npy(copse_context *ctx, const char *path,
                             const struct copse_array_view *array)
{
    COPSE_TRY(copse_need("npy", ctx, path, array));
    struct copse_atomic_file f;
    size_t count, bytes;
    const size_t element = copse_type_size(array->type);
    const copse_type type = array->type == COPSE_BF16 ? COPSE_F32 : array->type;
    if (element == 0 || array->rank > COPSE_ARRAY_MAX_RANK ||
        !copse__shape_size(array->rank, array->shape, element, &count, &bytes) ||
        (count > 0 && !array->data))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "npy: no array for %s: its type, rank, shape or elements", path);
    COPSE_TRY(copse__atomic_open(&f, &copse__base(ctx)->mem, path));
    write_header(f.stream, array, type);
    write_elements(f.stream, array, type, count);
    return copse__atomic_commit(&f);
}
