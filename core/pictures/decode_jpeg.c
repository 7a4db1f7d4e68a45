/* SPDX-License-Identifier: MIT */
/* JPEG files through libjpeg-turbo: baseline and progressive, grey and colour, with the accurate
   integer DCT, so that all machines compute the same pixels. CMYK is refused. libjpeg allocates its
   memory itself. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "core/pictures/picture.h"

/* of a progressive file; a small file could claim thousands, and take minutes */
#define SCANS_MAX  500
#define EXIF_BEGIN "Exif\0"

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct copse_picture_input *in;
    bool has_pixels;
    struct copse_picture *out;
    copse_status status; /* of the failure that is jumped out with */
    jmp_buf back;
};

static void decode_jpeg_jump(struct reader *r, copse_status s)
{
    r->status = s;
    longjmp(r->back, 1);
}

static void on_error(j_common_ptr jpeg)
{
    struct reader *r = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];

    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        decode_jpeg_jump(r, copse_fail(COPSE_ERR_NO_MEMORY, "picture: %s: no memory", r->in->path));
    jpeg->err->format_message(jpeg, text);
    if (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JERR_INPUT_EMPTY)
        snprintf(text, sizeof text, "the file is cut off");
    decode_jpeg_jump(
        r, copse_fail(COPSE_ERR_FORMAT, "picture: %s is a damaged JPEG: %s", r->in->path, text));
}

/* A warning is an error, unless it says that all pixels are there. Trace messages have a level of
   at least 0. */
static void on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;

    if (level < 0 && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR &&
        code != JWRN_EXTRANEOUS_DATA && code != JWRN_TOO_MUCH_DATA)
        on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    struct reader *r = jpeg->client_data;

    if (r->jpeg.input_scan_number > SCANS_MAX)
        decode_jpeg_jump(r, copse_fail(COPSE_ERR_FORMAT,
                                       "picture: %s is a JPEG with more than %d scans", r->in->path,
                                       SCANS_MAX));
}

static void read_orientation(struct reader *r)
{
    for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m != NULL; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof EXIF_BEGIN &&
            memcmp(m->data, EXIF_BEGIN, sizeof EXIF_BEGIN) == 0) {
            r->out->orientation = copse__exif_orientation(m->data + sizeof EXIF_BEGIN,
                                                          m->data_length - sizeof EXIF_BEGIN);
            return;
        }
}

/* Huffman codes have at least one bit for each block of 8 x 8 samples. Arithmetic coding has no
   such bound: a picture of 2^26 pixels fits into 100 bytes. */
static copse_status check_bytes(const struct reader *r)
{
    const struct jpeg_decompress_struct *j = &r->jpeg;
    uint64_t blocks = 0;

    if (j->arith_code)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "picture: %s is a JPEG with arithmetic coding; convert it, such as by jpegtran",
            r->in->path);
    for (int i = 0; i < j->num_components; i++)
        blocks += (uint64_t)j->comp_info[i].width_in_blocks * j->comp_info[i].height_in_blocks;
    return copse__picture_check_bytes(r->in, r->out, blocks / 8);
}

/* May jump, as the function below. */
static void read_header(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;

    jpeg_stdio_src(j, r->in->stream);
    jpeg_save_markers(j, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(j, TRUE);
    r->out->width = j->image_width;
    r->out->height = j->image_height;
    r->out->is_grey = j->jpeg_color_space == JCS_GRAYSCALE;
    copse_status s = copse__picture_check_size(r->in->path, j->image_width, j->image_height);
    if (s == COPSE_OK)
        s = check_bytes(r);
    if (s != COPSE_OK)
        decode_jpeg_jump(r, s);
    if (j->num_components == 4)
        decode_jpeg_jump(r,
                         copse_fail(COPSE_ERR_FORMAT,
                                    "picture: %s is a CMYK JPEG; convert it to RGB", r->in->path));
    if (j->num_components != (r->out->is_grey ? 1 : 3))
        decode_jpeg_jump(r, copse_fail(COPSE_ERR_FORMAT,
                                       "picture: %s is a JPEG with %d components; 1 and 3 are read",
                                       r->in->path, j->num_components));
    read_orientation(r);
}

static void read_pixels(struct reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    struct copse_picture *p = r->out;

    j->out_color_space = p->is_grey ? JCS_GRAYSCALE : JCS_RGB;
    j->dct_method = JDCT_ISLOW;
    r->progress.progress_monitor = on_progress;
    j->progress = &r->progress;
    jpeg_start_decompress(j);
    p->channels = (uint32_t)j->output_components;
    const size_t row = (size_t)p->width * p->channels;
    p->pixels = copse__alloc(r->in->mem, p->height, row);
    if (p->pixels == NULL)
        decode_jpeg_jump(r, copse_fail(COPSE_ERR_NO_MEMORY,
                                       "picture: %s: no memory for %u x %u pixels", r->in->path,
                                       p->width, p->height));
    while (j->output_scanline < j->output_height) {
        JSAMPROW to = p->pixels + j->output_scanline * row;
        jpeg_read_scanlines(j, &to, 1);
    }
    jpeg_finish_decompress(j);
}

/* setjmp is in a function without variables, and `r` belongs to its caller: libjpeg may jump from
   anywhere. */
static copse_status read_all(struct reader *r)
{
    if (setjmp(r->back) != 0)
        return r->status;
    jpeg_create_decompress(&r->jpeg);
    read_header(r);
    if (r->has_pixels)
        read_pixels(r);
    return COPSE_OK;
}

copse_status copse__jpeg_read(struct copse_picture_input *in, bool has_pixels,
                              struct copse_picture *out)
{
    struct reader r = { .in = in, .has_pixels = has_pixels, .out = out };

    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r; /* jpeg_create_decompress keeps it */
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    const copse_status s = read_all(&r);
    jpeg_destroy_decompress(&r.jpeg);
    return s;
}
