/* SPDX-License-Identifier: MIT */
/* Rotation, zoom and crop: the fixed-point pixels against the definition in double precision; exact
   cases; the smallest pictures. */
#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/pictures/augment.h"
#include "tests/rig/rig.h"

enum { MOST = 70 * 50 * 3 };

static uint8_t source[MOST], pixels[MOST], scratch[MOST];

static void make_source(uint32_t seed)
{
    struct copse_stream s;
    copse__stream_init(&s, seed, 0);
    for (int i = 0; i < MOST; i++)
        source[i] = (uint8_t)copse__stream_below(&s, 256);
}

static void change(uint32_t width, uint32_t height, uint32_t channels,
                   const struct copse_geometry *g)
{
    const struct copse_augment_picture p = { width, height, channels, pixels, scratch };
    memcpy(pixels, source, sizeof pixels);
    copse__augment_geometry(&p, g);
}

static double source_at(int64_t x, int64_t y, uint32_t width, uint32_t height, uint32_t channels,
                        uint32_t c)
{
    return x < 0 || y < 0 || x >= width || y >= height
               ? 0.0
               : source[((size_t)y * width + (size_t)x) * channels + c];
}

/* c + R (crop / 100 (p - c) + o) 100 / zoom */
static double defined_at(uint32_t x, uint32_t y, uint32_t c, uint32_t width, uint32_t height,
                         uint32_t channels, const struct copse_geometry *g)
{
    const double pi = 3.14159265358979323846, angle = g->degrees * pi / 180.0,
                 part = g->crop / 100.0, factor = 100.0 / g->zoom;
    const double cx = (width - 1) / 2.0, cy = (height - 1) / 2.0;
    const double u = (part * (x - cx) + g->right / 65536.0 * (1.0 - part) * cx) * factor,
                 v = (part * (y - cy) + g->down / 65536.0 * (1.0 - part) * cy) * factor;
    const double sx = cx + cos(angle) * u - sin(angle) * v,
                 sy = cy + sin(angle) * u + cos(angle) * v;
    const int64_t left = (int64_t)floor(sx), top = (int64_t)floor(sy);
    const double right = sx - (double)left, down = sy - (double)top;
    return (1 - down) * ((1 - right) * source_at(left, top, width, height, channels, c) +
                         right * source_at(left + 1, top, width, height, channels, c)) +
           down * ((1 - right) * source_at(left, top + 1, width, height, channels, c) +
                   right * source_at(left + 1, top + 1, width, height, channels, c));
}

/* A place is rounded to 1/256 pixel in each direction, down: at most 2 of 255, and rounding. */
static void pixels_are_those_of_the_definition(void **state)
{
    static const uint32_t sizes[][3] = { { 1, 1, 1 },   { 2, 1, 3 },   { 1, 9, 1 },
                                         { 28, 28, 1 }, { 33, 17, 3 }, { 70, 50, 3 } };
    struct copse_stream s;
    (void)state;
    copse__stream_init(&s, 4, 0);
    make_source(1);
    for (int i = 0; i < 120; i++) {
        const uint32_t *size = sizes[i % 6], width = size[0], height = size[1], channels = size[2];
        const struct copse_geometry g = {
            .degrees = (int32_t)copse__stream_below(&s, 361) - 180,
            .crop = 100 - (int32_t)copse__stream_below(&s, 91),
            .zoom = 10 + (int32_t)copse__stream_below(&s, 181),
            .right = (int32_t)copse__stream_below(&s, 131073) - 65536,
            .down = (int32_t)copse__stream_below(&s, 131073) - 65536,
        };
        change(width, height, channels, &g);
        for (uint32_t k = 0; k < width * height * channels; k++) {
            const uint32_t c = k % channels, x = k / channels % width, y = k / channels / width;
            const double want = defined_at(x, y, c, width, height, channels, &g);
            if (!(fabs(pixels[k] - want) <= 3.0))
                fail_msg("%u x %u, turn %d, crop %d, zoom %d: pixel %u, %u is %u, not %.3f", width,
                         height, g.degrees, g.crop, g.zoom, x, y, pixels[k], want);
        }
    }
}

/* Whole turns of a square, and no change, are exact. */
static void whole_turns_are_exact(void **state)
{
    enum { SIDE = 31 };
    (void)state;
    make_source(2);
    for (int quarter = -2; quarter <= 2; quarter++) {
        const struct copse_geometry g = { .degrees = 90 * quarter, .crop = 100, .zoom = 100 };
        change(SIDE, SIDE, 1, &g);
        for (int k = 0; k < SIDE * SIDE; k++) {
            int x = k % SIDE - SIDE / 2, y = k / SIDE - SIDE / 2;
            for (int turn = 0; turn < (quarter + 4) % 4; turn++) {
                const int before = x;
                x = -y;
                y = before;
            }
            assert_int_equal(pixels[k], source[(y + SIDE / 2) * SIDE + x + SIDE / 2]);
        }
    }
}

/* The two ends of the range of a cut-out: corners of the picture stay corners. */
static void cut_outs_reach_the_corners(void **state)
{
    enum { SIDE = 41 };
    (void)state;
    make_source(3);
    for (int corner = 0; corner < 4; corner++) {
        const int right = corner % 2 ? 65536 : -65536, down = corner / 2 ? 65536 : -65536;
        const struct copse_geometry g = { .crop = 50, .zoom = 100, .right = right, .down = down };
        const int at = (down > 0 ? SIDE - 1 : 0) * SIDE + (right > 0 ? SIDE - 1 : 0);
        change(SIDE, SIDE, 1, &g);
        assert_int_equal(pixels[at], source[at]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_the_definition),
        cmocka_unit_test(whole_turns_are_exact),
        cmocka_unit_test(cut_outs_reach_the_corners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
