/* SPDX-License-Identifier: MIT */
/* PNG files through libpng: every colour type and depth, interlaced or not, as 8-bit grey or
   colour. Gamma and colour profiles are not applied. */
#include <png.h>

#include "core/pictures/picture.h"

#define CHUNK_BYTES_MAX 8000000u /* of one that is not pixels */
/* more than a row; libpng asks for more only if a chunk claims to be so long */
#define ROOM_BYTES   1000000u
#define DEFLATE_MOST 1032u /* deflate packs at most so many bytes into one */

struct reader {
    struct copse_picture_input *in;
    bool has_pixels;
    struct copse_picture *out;
    png_structp png;
    png_infop info;
    copse_status status; /* of the failure that libpng jumps out with */
    uint32_t channels;   /* of the rows that libpng gives: with alpha, 2 or 4 */
};

static void on_error(png_structp png, png_const_charp text)
{
    struct reader *r = png_get_error_ptr(png);

    if (r->status == COPSE_OK)
        r->status =
            copse_fail(COPSE_ERR_FORMAT, "picture: %s is a damaged PNG: %s", r->in->path, text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static png_voidp decode_png_allocate(png_structp png, png_alloc_size_t size)
{
    struct reader *r = png_get_mem_ptr(png);

    if (size > COPSE_MAX(r->in->bytes, ROOM_BYTES)) {
        r->status = copse_fail(COPSE_ERR_FORMAT,
                               "picture: %s is a damaged PNG: it has a chunk longer than the file",
                               r->in->path);
        return NULL;
    }
    void *block = copse__resize(r->in->mem, NULL, size, 1);
    if (block == NULL)
        r->status = copse_fail(COPSE_ERR_NO_MEMORY, "picture: %s: no memory", r->in->path);
    return block;
}

static void decode_png_release(png_structp png, png_voidp block)
{
    copse__free(((struct reader *)png_get_mem_ptr(png))->in->mem, block);
}

static void read_bytes(png_structp png, png_bytep to, size_t size)
{
    struct reader *r = png_get_io_ptr(png);

    if (fread(to, 1, size, r->in->stream) == size)
        return;
    if (ferror(r->in->stream))
        r->status = copse_fail(COPSE_ERR_IO, "picture: cannot read %s", r->in->path);
    png_error(png, "the file is cut off");
}

/* Grey, or a palette of grey only. */
static bool is_grey(const struct reader *r)
{
    const png_byte type = png_get_color_type(r->png, r->info);
    png_colorp palette;
    int count = 0;

    if (type != PNG_COLOR_TYPE_PALETTE)
        return (type & PNG_COLOR_MASK_COLOR) == 0;
    png_get_PLTE(r->png, r->info, &palette, &count);
    for (int i = 0; i < count; i++)
        if (palette[i].red != palette[i].green || palette[i].red != palette[i].blue)
            return false;
    return true;
}

/* Chunks that are not used here are skipped: libpng would keep and unpack them. */
static void set_limits(struct reader *r)
{
    /* copse__picture_check_size names the file */
    png_set_user_limits(r->png, 0x7fffffffu, 0x7fffffffu);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES_MAX);
#if defined(PNG_HANDLE_AS_UNKNOWN_SUPPORTED)
    static const png_byte unused[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0hIST\0pCAL\0sCAL";
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0); /* unknown ones */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, unused, (int)(sizeof unused / 5));
#endif
}

static uint64_t least_bytes(const struct reader *r)
{
    const uint64_t bits =
        (uint64_t)png_get_bit_depth(r->png, r->info) * png_get_channels(r->png, r->info);

    return (uint64_t)r->out->width * r->out->height * bits / 8 / DEFLATE_MOST;
}

/* May jump, as the function below. */
static void read_header(struct reader *r)
{
    struct copse_picture *p = r->out;

    set_limits(r);
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_read_fn(r->png, r, read_bytes);
    png_read_info(r->png, r->info);
    p->width = png_get_image_width(r->png, r->info);
    p->height = png_get_image_height(r->png, r->info);
    p->is_grey = is_grey(r);
    r->status = copse__picture_check_size(r->in->path, p->width, p->height);
    if (r->status == COPSE_OK)
        r->status = copse__picture_check_bytes(r->in, p, least_bytes(r));
    if (r->status != COPSE_OK)
        png_longjmp(r->png, 1);
#if defined(PNG_eXIf_SUPPORTED)
    png_bytep exif;
    png_uint_32 size;
    if (png_get_eXIf_1(r->png, r->info, &size, &exif) != 0)
        p->orientation = copse__exif_orientation(exif, size);
#endif
}

static void read_pixels(struct reader *r)
{
    struct copse_picture *p = r->out;

    png_set_expand(r->png);   /* palette, fewer than 8 bits, tRNS */
    png_set_scale_16(r->png); /* round(v / 257) */
    const int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->channels = png_get_channels(r->png, r->info);
    const size_t row = (size_t)p->width * r->channels;
    if (png_get_rowbytes(r->png, r->info) != row)
        png_error(r->png, "rows have an unexpected length");
    p->pixels = copse__alloc(r->in->mem, p->height, row);
    if (p->pixels == NULL) {
        r->status = copse_fail(COPSE_ERR_NO_MEMORY, "picture: %s: no memory for %u x %u pixels",
                               r->in->path, p->width, p->height);
        png_longjmp(r->png, 1);
    }
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < p->height; y++)
            png_read_row(r->png, p->pixels + y * row, NULL);
    png_read_end(r->png, NULL);
}

/* setjmp is in a function without variables, and `r` belongs to its caller: libpng may jump from
   anywhere. */
static copse_status read_all(struct reader *r)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return r->status != COPSE_OK
                   ? r->status
                   : copse_fail(COPSE_ERR_FORMAT, "picture: %s is a damaged PNG", r->in->path);
    read_header(r);
    if (r->has_pixels)
        read_pixels(r);
    return COPSE_OK;
}

/* Remove an opaque alpha channel in place. */
static copse_status drop_alpha(struct reader *r)
{
    struct copse_picture *p = r->out;
    const size_t count = (size_t)p->width * p->height, from = r->channels, to = p->channels;

    for (size_t i = 0; i < count; i++) {
        if (p->pixels[i * from + to] != 255)
            return copse_fail(COPSE_ERR_FORMAT,
                              "picture: %s has transparent pixels, at row %zu, column %zu first; "
                              "put it on a background",
                              r->in->path, i / p->width + 1, i % p->width + 1);
        for (size_t k = 0; k < to; k++)
            p->pixels[i * to + k] = p->pixels[i * from + k];
    }
    return COPSE_OK;
}

copse_status copse__png_read(struct copse_picture_input *in, bool has_pixels,
                             struct copse_picture *out)
{
    struct reader r = { .in = in, .has_pixels = has_pixels, .out = out };
    copse_status s = COPSE_ERR_NO_MEMORY;

    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, &r,
                                     decode_png_allocate, decode_png_release);
    if (r.png != NULL)
        r.info = png_create_info_struct(r.png);
    if (r.info != NULL)
        s = read_all(&r);
    else
        s = copse_fail(COPSE_ERR_NO_MEMORY, "picture: %s: libpng cannot start", in->path);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    if (s != COPSE_OK || !has_pixels)
        return s;
    out->channels = r.channels >= 3 ? 3 : 1;
    return r.channels != out->channels ? drop_alpha(&r) : COPSE_OK;
}
