/* SPDX-License-Identifier: MIT */
/* A picture file costs memory for what it can hold, not for what its header claims. */
#include <stdlib.h>

#include "core/data/array.h"
#include "core/pictures/picture.h"
#include "tests/rig/data/data_rig.h"
#include "tests/rig/data/picture_files.h"

#if defined(COPSE_HAVE_PICTURES)

#    define SMALL ((size_t)256 << 10) /* libpng and zlib alone, and a row */

/* ---- memory that knows how much of it is asked for ---- */

struct block {
    size_t size;
    max_align_t bytes[];
};
static size_t asked, peak;

static void *count(void *user, void *bytes, size_t size)
{
    struct block *old =
        bytes != NULL ? (struct block *)((char *)bytes - offsetof(struct block, bytes)) : NULL;
    (void)user;
    asked -= old != NULL ? old->size : 0;
    asked += size;
    peak = COPSE_MAX(peak, asked);
    if (size == 0) {
        free(old);
        return NULL;
    }
    struct block *made = realloc(old, sizeof *made + size);
    assert_non_null(made);
    made->size = size;
    return made->bytes;
}
static struct copse_mem counted = { .resize = count };

static char path[300];

static copse_status load(bool has_pixels)
{
    struct copse_picture p;

    asked = peak = 0;
    const copse_status s = copse__picture_load(&counted, path, has_pixels, &p);
    copse__free(&counted, p.pixels);
    assert_int_equal(asked, 0);
    return s;
}

/* ---- files by hand ---- */

static uint8_t file[1 << 21];
static size_t length;

static void put(const void *bytes, size_t size)
{
    assert_true(length + size <= sizeof file);
    if (size > 0)
        memcpy(file + length, bytes, size);
    length += size;
}

static void put_u32(uint32_t v)
{
    put((const uint8_t[]){ (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v },
        4);
}

static void put_chunk(const char *name, const void *body, uint32_t size)
{
    put_u32(size);
    const size_t start = length;
    put(name, 4);
    put(body, size);
    put_u32((uint32_t)crc32(0, file + start, (uInt)(length - start)));
}

static void begin_png(uint32_t width, uint32_t height, int depth, int type, int interlaced)
{
    uint8_t head[13] = { (uint8_t)(width >> 24),
                         (uint8_t)(width >> 16),
                         (uint8_t)(width >> 8),
                         (uint8_t)width,
                         (uint8_t)(height >> 24),
                         (uint8_t)(height >> 16),
                         (uint8_t)(height >> 8),
                         (uint8_t)height,
                         (uint8_t)depth,
                         (uint8_t)type,
                         0,
                         0,
                         (uint8_t)interlaced };
    length = 0;
    put("\x89PNG\r\n\x1a\n", 8);
    put_chunk("IHDR", head, sizeof head);
}

static void write_file(const char *name)
{
    snprintf(path, sizeof path, "%.200s/%.80s", temp_folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, length, f), length);
    fclose(f);
}

static void read_file(void)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    length = fread(file, 1, sizeof file, f);
    fclose(f);
}

/* ---- PNG ---- */

static void test_a_png_without_pixels(void **state)
{
    static const struct {
        int depth, type;
    } kinds[] = {
        { 8, 0 }, { 16, 0 }, { 8, 2 }, { 16, 2 }, { 16, 4 }, { 8, 6 }, { 16, 6 },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(kinds); i++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            begin_png(8192, 8192, kinds[i].depth, kinds[i].type, interlaced);
            put_chunk("IDAT", "\x78\x01\x03\0\0\0\0\1", 8);
            put_chunk("IEND", NULL, 0);
            assert_int_equal(length, 65);
            write_file("claims.png");
            for (int has_pixels = 0; has_pixels < 2; has_pixels++) {
                FAILS(COPSE_ERR_FORMAT, load(has_pixels),
                      "claims.png has 8192 x 8192 pixels in 65 bytes: it is damaged or cut off");
                if (peak > SMALL)
                    fail_msg("depth %d, type %d: %zu bytes of memory", kinds[i].depth,
                             kinds[i].type, peak);
            }
        }
}

static void put_pixel(void)
{
    put_chunk("IDAT", "\x78\x01\x63\x60\0\0\0\2\0\1", 10);
    put_chunk("IEND", NULL, 0);
}

static void test_chunks_that_are_not_used(void **state)
{
    static uint8_t zeros[4 << 20], body[1 << 16] = "Comment\0";
    (void)state;
    uLongf packed = sizeof body - 9;
    assert_int_equal(compress2(body + 9, &packed, zeros, sizeof zeros, 9), Z_OK);
    static const char *const names[] = { "zTXt", "iCCP", "tEXt", "prVt", "sPLT" };
    for (size_t i = 0; i < COPSE_COUNT(names); i++) {
        begin_png(1, 1, 8, 0, 0);
        for (int k = 0; k < (i == 1 ? 1 : 100); k++)
            put_chunk(names[i], body, (uint32_t)packed + 9);
        put_pixel();
        write_file("chunks.png");
        for (int has_pixels = 0; has_pixels < 2; has_pixels++) {
            OK(load(has_pixels));
            if (peak > SMALL)
                fail_msg("%s: %zu bytes of memory for a file of %zu", names[i], peak, length);
        }
    }
}

static void test_a_chunk_longer_than_the_file(void **state)
{
    static const char *const names[] = { "eXIf", "PLTE", "iCCP", "tRNS", "prVt" };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(names); i++) {
        begin_png(1, 1, 8, 3, 0);
        put_u32(7000000);
        put(names[i], 4);
        put_u32(0);
        write_file("chunk.png");
        FAILS(COPSE_ERR_FORMAT, load(true), "chunk.png is a damaged PNG: ");
        if (peak > SMALL)
            fail_msg("%s: %zu bytes of memory for a file of %zu", names[i], peak, length);
    }
}

/* ---- JPEG ---- */

static const uint8_t flat[2048 * 2048];

/* The first marker of a frame; returns its place. */
static size_t frame(void)
{
    for (size_t i = 0; i + 9 < length; i++)
        if (file[i] == 0xff && (file[i + 1] == 0xc0 || file[i + 1] == 0xc2))
            return i;
    fail_msg("no frame");
    return 0;
}

static void test_a_jpeg_without_pixels(void **state)
{
    (void)state;
    for (int progressive = 0; progressive < 2; progressive++)
        for (int channels = 1; channels <= 3; channels += 2) {
            snprintf(path, sizeof path, "%.200s/claims.jpg", temp_folder);
            jpeg_write(path, &(struct jpeg_file){ 8, 8, channels, progressive, 0, flat });
            read_file();
            const size_t at = frame();
            memcpy(file + at + 5, "\x20\0\x20\0", 4);
            write_file("claims.jpg");
            for (int has_pixels = 0; has_pixels < 2; has_pixels++) {
                FAILS(COPSE_ERR_FORMAT, load(has_pixels), "claims.jpg has 8192 x 8192 pixels in");
                assert_in_range(peak, 0, SMALL);
            }
        }
    jpeg_write(path, &(struct jpeg_file){ 8, 8, 1, false, 0, flat });
    read_file();
    file[frame() + 1] = 0xc9;
    write_file("coded.jpg");
    FAILS(COPSE_ERR_FORMAT, load(true),
          "coded.jpg is a JPEG with arithmetic coding; convert it, such as by jpegtran");
}

/* ---- real pictures that are packed most ---- */

static void test_flat_pictures_are_read(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%.200s/flat.png", temp_folder);
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        png_write(path, &(struct png_file){ 2048, 2048, .is_interlaced = interlaced, .rows = flat,
                                            .row_bytes = 2048 });
        OK(load(true));
    }
    snprintf(path, sizeof path, "%.200s/flat.jpg", temp_folder);
    for (int progressive = 0; progressive < 2; progressive++)
        for (int channels = 1; channels <= 3; channels += 2) {
            jpeg_write(path, &(struct jpeg_file){ channels == 1 ? 2048 : 1024, 1024, channels,
                                                  progressive, 0, flat });
            OK(load(true));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_png_without_pixels),
        cmocka_unit_test(test_chunks_that_are_not_used),
        cmocka_unit_test(test_a_chunk_longer_than_the_file),
        cmocka_unit_test(test_a_jpeg_without_pixels),
        cmocka_unit_test(test_flat_pictures_are_read),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    printf("skipped: this build reads no pictures (libpng and libjpeg-turbo were not found)\n");
    return 77;
}

#endif
