/* SPDX-License-Identifier: MIT */
/* Files of PNG and JPEG become pixels: every kind of PNG, grey and colour, orientation, sizes; and
   what is refused. */
#include "core/data/array.h"
#include "core/pictures/picture.h"
#include "tests/rig/data/data_rig.h"
#include "tests/rig/data/picture_files.h"

#if defined(COPSE_HAVE_PICTURES)

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };

static struct copse_mem *mem;
static char path[300];

static const char *named(const char *name)
{
    snprintf(path, sizeof path, "%.200s/%.80s", temp_folder, name);
    return path;
}

static void expect(const char *file, uint32_t width, uint32_t height, uint32_t channels,
                   const uint8_t *pixels)
{
    uint8_t got[4096];
    const struct copse_picture_shape shape = { width, height, channels, false };

    OK(copse__picture_read(mem, file, &shape, got));
    for (size_t i = 0; i < (size_t)width * height * channels; i++)
        if (got[i] != pixels[i])
            fail_msg("%s: byte %zu is %d, not %d", file, i, got[i], pixels[i]);
}

static void expect_png(const struct png_file *p, uint32_t channels, bool is_grey,
                       const uint8_t *pixels)
{
    struct copse_picture header;

    for (int i = 0; i < 2; i++) {
        struct png_file each = *p;
        each.is_interlaced = i == 1;
        png_write(named("kind.png"), &each);
        OK(copse__picture_header(mem, path, &header));
        assert_int_equal(header.width, p->width);
        assert_int_equal(header.height, p->height);
        assert_int_equal(header.is_grey, is_grey);
        expect(path, p->width, p->height, channels, pixels);
    }
}

static void test_every_kind_of_png(void **state)
{
    (void)state;
    const uint8_t bits[] = { 0xa0, 0x40 }, twos[] = { 0x1b, 0xe4 },
                  fours[] = { 0x0f, 0x50, 0x9a, 0xf0 };
    expect_png(&(struct png_file){ 3, 2, 1, GREY, .rows = bits, .row_bytes = 1 }, 1, true,
               (const uint8_t[]){ 255, 0, 255, 0, 255, 0 });
    expect_png(&(struct png_file){ 4, 2, 2, GREY, .rows = twos, .row_bytes = 1 }, 1, true,
               (const uint8_t[]){ 0, 85, 170, 255, 255, 170, 85, 0 });
    expect_png(&(struct png_file){ 3, 2, 4, GREY, .rows = fours, .row_bytes = 2 }, 1, true,
               (const uint8_t[]){ 0, 255, 85, 153, 170, 255 });
    /* 128/257 is less than a half, 129/257 more */
    const uint8_t wide[] = { 0x00, 0x80, 0x00, 0x81, 0x12, 0x34, 0xff, 0xff };
    expect_png(&(struct png_file){ 4, 1, 16, GREY, .rows = wide, .row_bytes = 8 }, 1, true,
               (const uint8_t[]){ 0, 1, 0x12, 255 });
    const uint8_t colour[] = { 1, 2, 3, 4, 5, 6 };
    expect_png(&(struct png_file){ 2, 1, 8, RGB, .rows = colour, .row_bytes = 6 }, 3, false,
               colour);
    /* 1 0 0, 0 1 0 of 2 bits */
    const uint8_t palette[] = { 9, 8, 7, 200, 100, 50, 0, 0, 0 }, at[] = { 0x40, 0x10 };
    expect_png(&(struct png_file){ 3, 2, 2, PALETTE, .rows = at, .row_bytes = 1, .palette = palette,
                                   .colours = 3 },
               3, false,
               (const uint8_t[]){ 200, 100, 50, 9, 8, 7, 9, 8, 7, 9, 8, 7, 200, 100, 50, 9, 8, 7 });
    const uint8_t greys[] = { 10, 10, 10, 77, 77, 77 }, index[] = { 0, 1, 1 };
    expect_png(&(struct png_file){ 3, 1, 8, PALETTE, .rows = index, .row_bytes = 3,
                                   .palette = greys, .colours = 2 },
               1, true, (const uint8_t[]){ 10, 77, 77 });
    const uint8_t opaque[] = { 5, 255, 6, 255 }, opaque4[] = { 5, 6, 7, 255 };
    expect_png(&(struct png_file){ 2, 1, 8, GREY_ALPHA, .rows = opaque, .row_bytes = 4 }, 1, true,
               (const uint8_t[]){ 5, 6 });
    expect_png(&(struct png_file){ 1, 1, 8, RGBA, .rows = opaque4, .row_bytes = 4 }, 3, false,
               (const uint8_t[]){ 5, 6, 7 });
    const uint8_t unused[] = { 1, 2 }; /* value 3 is transparent, and absent */
    expect_png(&(struct png_file){ 2, 1, 8, GREY, .rows = unused, .row_bytes = 2, .key = 3 }, 1,
               true, unused);
}

static void test_transparent_pixels_are_refused(void **state)
{
    const struct copse_picture_shape shape = { 2, 2, 1, false };
    uint8_t got[12];
    (void)state;
    png_write(named("alpha.png"),
              &(struct png_file){ 2, 2, 8, GREY_ALPHA,
                                  .rows = (const uint8_t[]){ 5, 255, 6, 255, 7, 254, 8, 255 },
                                  .row_bytes = 4 });
    FAILS(COPSE_ERR_FORMAT, copse__picture_read(mem, path, &shape, got),
          "alpha.png has transparent pixels, at row 2, column 1");
    png_write(named("key.png"),
              &(struct png_file){ 2, 2, 8, GREY, .rows = (const uint8_t[]){ 1, 3, 1, 1 },
                                  .row_bytes = 2, .key = 3 });
    FAILS(COPSE_ERR_FORMAT, copse__picture_read(mem, path, &shape, got), "at row 1, column 2");
    png_write(named("palette.png"),
              &(struct png_file){ 2, 2, 8, PALETTE, .rows = (const uint8_t[]){ 0, 0, 0, 1 },
                                  .row_bytes = 2, .palette = (const uint8_t[]){ 1, 1, 1, 2, 2, 2 },
                                  .colours = 2, .alpha = (const uint8_t[]){ 255, 0 },
                                  .alphas = 2 });
    FAILS(COPSE_ERR_FORMAT, copse__picture_read(mem, path, &shape, got), "at row 2, column 2");
}

static void test_grey_and_colour_become_each_other(void **state)
{
    (void)state;
    png_write_grey(named("grey.png"), 2, 1, (const uint8_t[]){ 7, 200 });
    expect(path, 2, 1, 3, (const uint8_t[]){ 7, 7, 7, 200, 200, 200 });
    png_write_colour(named("colour.png"), 4, 1,
                     (const uint8_t[]){ 255, 0, 0, 0, 255, 0, 0, 0, 255, 82, 81, 74 });
    /* 0.299, 0.587 and 0.114 of 255; one just above 80.5 */
    expect(path, 4, 1, 1, (const uint8_t[]){ 76, 150, 29, 81 });
}

/* Letters are the pixels of the file "abc" over "def", in upright order. */
static void test_orientations(void **state)
{
    static const struct {
        uint32_t width, height;
        const char *pixels;
    } upright[] = {
        { 3, 2, "abcdef" }, { 3, 2, "cbafed" }, { 3, 2, "fedcba" }, { 3, 2, "defabc" },
        { 2, 3, "adbecf" }, { 2, 3, "daebfc" }, { 2, 3, "fcebda" }, { 2, 3, "cfbead" },
    };
    struct copse_picture header;
    (void)state;
    for (int i = 0; i < 8; i++) {
        png_write(named("turned.png"), &(struct png_file){ 3, 2, .rows = (const uint8_t *)"abcdef",
                                                           .row_bytes = 3, .orientation = i + 1 });
        OK(copse__picture_header(mem, path, &header));
        assert_int_equal(header.width, upright[i].width);
        assert_int_equal(header.height, upright[i].height);
        expect(path, upright[i].width, upright[i].height, 1, (const uint8_t *)upright[i].pixels);
    }
    /* left half 200, right half 20; turned clockwise the left half is on top */
    uint8_t half[16 * 8 * 3];
    for (int i = 0; i < 16 * 8; i++)
        memset(half + 3 * i, i % 16 < 8 ? 200 : 20, 3);
    jpeg_write(named("turned.jpg"),
               &(struct jpeg_file){ 16, 8, 3, .orientation = 6, .pixels = half });
    memset(half, 200, sizeof half / 2);
    memset(half + sizeof half / 2, 20, sizeof half / 2);
    expect(path, 8, 16, 3, half);
}

static void test_jpeg(void **state)
{
    uint8_t pixels[24 * 16 * 3], first[sizeof pixels], got[sizeof pixels];
    struct copse_picture header;
    (void)state;
    for (int channels = 1; channels <= 3; channels += 2)
        for (int progressive = 0; progressive < 2; progressive++) {
            for (int i = 0; i < 24 * 16; i++)
                for (int c = 0; c < channels; c++)
                    pixels[i * channels + c] = (uint8_t)(i % 24 * 7 + i / 24 * 4 + 20 * c);
            jpeg_write(named("smooth.jpg"),
                       &(struct jpeg_file){ 24, 16, channels, progressive, 0, pixels });
            OK(copse__picture_header(mem, path, &header));
            assert_int_equal(header.is_grey, channels == 1);
            OK(copse__picture_read(
                mem, path, &(struct copse_picture_shape){ 24, 16, (uint32_t)channels, false },
                got));
            for (int i = 0; i < 24 * 16 * channels; i++)
                assert_in_range(got[i] + 3, pixels[i], pixels[i] + 6);
            if (progressive) /* the same coefficients in another order */
                assert_memory_equal(first, got, (size_t)(24 * 16 * channels));
            memcpy(first, got, sizeof got);
        }
    jpeg_write(named("cmyk.jpg"), &(struct jpeg_file){ 8, 8, 4, .pixels = pixels });
    FAILS(COPSE_ERR_FORMAT, copse__picture_header(mem, path, &header),
          "cmyk.jpg is a CMYK JPEG; convert it to RGB");
}

/* By hand: weights 1 - |distance| of the centres, divided by their sum. */
static void test_resize(void **state)
{
    uint8_t got[64];
    (void)state;
    OK(copse__picture_resize(mem, (const uint8_t[]){ 0, 255 }, 2, 1, 1, 4, 1, got));
    assert_memory_equal(got, ((const uint8_t[]){ 0, 64, 191, 255 }), 4);
    OK(copse__picture_resize(mem, (const uint8_t[]){ 0, 100, 200, 255 }, 4, 1, 1, 2, 1, got));
    assert_memory_equal(got, ((const uint8_t[]){ 71, 209 }), 2);
    OK(copse__picture_resize(mem, (const uint8_t[]){ 0, 100, 200, 255 }, 1, 4, 1, 1, 2, got));
    assert_memory_equal(got, ((const uint8_t[]){ 71, 209 }), 2);
    /* channels stay apart */
    OK(copse__picture_resize(mem, (const uint8_t[]){ 0, 10, 20, 255, 9, 9 }, 2, 1, 3, 4, 1, got));
    assert_memory_equal(got, ((const uint8_t[]){ 0, 10, 20, 64, 10, 17, 191, 9, 12, 255, 9, 9 }),
                        12);
    uint8_t noise[61 * 47], all[23 * 90];
    uint32_t v = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)((v = v * 1664525u + 1013904223u) >> 24);
    /* Pillow's BILINEAR gives the same bytes */
    OK(copse__picture_resize(mem, noise, 61, 47, 1, 23, 90, all));
    assert_true(copse__hash(COPSE_HASH_START, all, sizeof all) == 0x4b55241cf68a094dull);
}

/* ---- what is refused ---- */

static size_t load(const char *file, uint8_t *to, size_t room)
{
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    const size_t size = fread(to, 1, room, f);
    assert_true(size < room);
    fclose(f);
    return size;
}

static void store(const char *file, const void *bytes, size_t size)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

#    define STEP 5 /* writing thousands of files takes seconds on a busy machine */

/* Every shorter file is refused by name, and with checksums so is every file with one wrong byte;
   none ends the process. */
static void damage(const char *file, uint32_t channels, bool has_checksums)
{
    static uint8_t whole[65536], broken[65536], pixels[16 * 16 * 3];
    const struct copse_picture_shape shape = { 16, 16, channels, false };
    const size_t size = load(file, whole, sizeof whole);
    char name[300];
    size_t refused = 0, tried = 0;

    snprintf(name, sizeof name, "%.200s/broken.bin", temp_folder);
    for (size_t i = 0; i < size; i += i + 20 < size ? STEP : 1, tried++) {
        store(name, whole, i);
        const copse_status s = copse__picture_read(mem, name, &shape, pixels);
        if ((s != COPSE_ERR_FORMAT && s != COPSE_ERR_IO) ||
            strstr(copse_last_error(), "broken.bin") == NULL)
            fail_msg("%s, first %zu of %zu bytes: %s: %s", file, i, size, copse_status_name(s),
                     copse_last_error());
        memcpy(broken, whole, size);
        broken[i] ^= (uint8_t)(1u << i % 8);
        store(name, broken, size);
        refused += copse__picture_read(mem, name, &shape, pixels) != COPSE_OK;
    }
    if (has_checksums && refused != tried)
        fail_msg("%s: %zu of %zu files with a wrong byte are read", file, tried - refused, tried);
}

static void test_damaged_files(void **state)
{
    uint8_t pixels[16 * 16 * 3];
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i * 7);
    png_write_colour(named("good.png"), 16, 16, pixels);
    damage(path, 3, true);
    png_write(named("laced.png"), &(struct png_file){ 16, 16, .is_interlaced = true, .rows = pixels,
                                                      .row_bytes = 16, .orientation = 3 });
    damage(path, 1, true);
    for (int progressive = 0; progressive < 2; progressive++) {
        jpeg_write(named("good.jpg"), &(struct jpeg_file){ 16, 16, 3, progressive, 3, pixels });
        damage(path, 3, false);
    }
}

static void test_sizes_are_checked_before_memory_is_allocated(void **state)
{
    uint8_t file[256];
    struct copse_picture header;
    (void)state;
    png_write_grey(named("bomb.png"), 1, 1, (const uint8_t[]){ 0 });
    const size_t size = load(path, file, sizeof file);
    static const struct {
        uint32_t width, height;
        const char *text;
    } sizes[] = {
        { 32769, 1, "has 32769 x 1 pixels" },
        { 1, 2147483647, "has 1 x 2147483647 pixels" },
        { 32768, 2049, "has 32768 x 2049 pixels" },
        { 0, 1, "damaged PNG" },
    };
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
        for (int k = 0; k < 4; k++) {
            file[16 + k] = (uint8_t)(sizes[i].width >> (24 - 8 * k));
            file[20 + k] = (uint8_t)(sizes[i].height >> (24 - 8 * k));
        }
        const uLong crc = crc32(0, file + 12, 17);
        for (int k = 0; k < 4; k++)
            file[29 + k] = (uint8_t)(crc >> (24 - 8 * k));
        store(path, file, size);
        FAILS(COPSE_ERR_FORMAT, copse__picture_header(mem, path, &header), sizes[i].text);
        assert_non_null(strstr(copse_last_error(), "bomb.png"));
    }
}

static void test_other_files_are_refused(void **state)
{
    struct copse_picture header;
    (void)state;
    store(named("text.png"), "hello, world\n", 13);
    FAILS(COPSE_ERR_FORMAT, copse__picture_header(mem, path, &header),
          "text.png is not a picture (PNG or JPEG)");
    store(named("a.gif"), "GIF89a\1\0\1\0", 10);
    FAILS(COPSE_ERR_FORMAT, copse__picture_header(mem, path, &header), "a.gif is not a picture");
    store(named("empty.jpg"), "", 0);
    FAILS(COPSE_ERR_FORMAT, copse__picture_header(mem, path, &header),
          "empty.jpg is not a picture");
    FAILS(COPSE_ERR_IO, copse__picture_header(mem, named("none.png"), &header), "none.png");
    FAILS(COPSE_ERR_IO, copse__picture_header(mem, temp_folder, &header), "not a regular file");
}

static int begin_pictures(void **state)
{
    const int s = begin(state);
    mem = &copse__base(ctx)->mem;
    return s;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_png),
        cmocka_unit_test(test_transparent_pixels_are_refused),
        cmocka_unit_test(test_grey_and_colour_become_each_other),
        cmocka_unit_test(test_orientations),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_sizes_are_checked_before_memory_is_allocated),
        cmocka_unit_test(test_other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, begin_pictures, end);
}

#else

int main(void)
{
    printf("skipped: this build reads no pictures (libpng and libjpeg-turbo were not found)\n");
    return 77;
}

#endif
