/* SPDX-License-Identifier: MIT */
/* Products with matrices of blocks in tiles: the bits of the product with the matrix as f32 in the
   same tiles; which kernel a GPU has by default; the scratch memory of a language model's head. */
#include <math.h>
#include <stdlib.h>

#include "copse/device/function.h"
#include "copse/device/tuning.h"
#include "copse/ops/blocks.h"
#include "core/base/random.h"
#include "core/device/backend.h"
#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/graph/variant.h"
#include "core/ops/product/matmul_tile.h"
#include "tests/rig/found.h"
#include "tests/rig/one_context.h"

/* x [m, k] times a matrix [n, k], transposed, or [k, n]. */
struct product {
    uint32_t m, n, k, bits, group;
    bool has_offsets, transpose;
};

struct numbers {
    float *x, *scales, *offsets, *y[2];
    int32_t *words;
};

static size_t count_of(const struct product *p, uint32_t in_one)
{
    return (size_t)p->n * p->k / in_one;
}

static float drawn(struct copse_stream *s)
{
    return copse__stream_normal(s);
}

static void numbers_make(const struct product *p, struct numbers *of)
{
    const size_t words = count_of(p, 32 / p->bits), groups = count_of(p, p->group),
                 results = (size_t)p->m * p->n;
    struct copse_stream s;
    copse__stream_init(&s, p->m + p->k, p->n);
    *of =
        (struct numbers){ calloc((size_t)p->m * p->k, sizeof *of->x),
                          calloc(groups, sizeof *of->scales),
                          calloc(groups, sizeof *of->offsets),
                          { calloc(results, sizeof *of->y[0]), calloc(results, sizeof *of->y[1]) },
                          calloc(words, sizeof *of->words) };
    for (size_t i = 0; i < (size_t)p->m * p->k; i++)
        of->x[i] = drawn(&s);
    for (size_t i = 0; i < groups; i++) {
        of->scales[i] = drawn(&s) / 64;
        of->offsets[i] = drawn(&s);
    }
    for (size_t i = 0; i < words; i++)
        of->words[i] =
            (int32_t)(copse__stream_below(&s, 65536) << 16 | copse__stream_below(&s, 65536));
}

static void numbers_free(struct numbers *of)
{
    free(of->x);
    free(of->scales);
    free(of->offsets);
    free(of->y[0]);
    free(of->y[1]);
    free(of->words);
}

static void multiply(copse_device *dev, const struct product *p, const struct numbers *of,
                     const char *kernels, float *y)
{
    const uint32_t rows = p->transpose ? p->n : p->k, columns = p->transpose ? p->k : p->n;
    copse_graph *g;
    copse_function *f;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(p->m, p->k));
    struct copse_blocks w = {
        .words = copse_graph_input(g, "w", COPSE_I32, COPSE_SHAPE(rows, columns * p->bits / 32)),
        .scales = copse_graph_input(g, "s", COPSE_F32, COPSE_SHAPE(rows, columns / p->group)),
        .bits = p->bits,
    };
    if (p->has_offsets)
        w.offsets = copse_graph_input(g, "o", COPSE_F32, COPSE_SHAPE(rows, columns / p->group));
    copse_tensor *to = copse_matmul_blocks(g, x, &w, p->transpose);
    OK(copse_function_create(
        dev,
        &(struct copse_function_params){
            .graph = g, .outputs = &to, .output_count = 1, .kernels = kernels },
        &f));
    OK(copse_function_write(f, x, of->x));
    OK(copse_function_write(f, w.words, of->words));
    OK(copse_function_write(f, w.scales, of->scales));
    if (w.offsets)
        OK(copse_function_write(f, w.offsets, of->offsets));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, y));
    copse_function_release(&f);
    copse_graph_release(&g);
}

/* Where the result is NaN, its other bits are not compared. Returns the number of these elements. */
static size_t same_bits(copse_device *dev, const struct product *p, const struct numbers *of)
{
    size_t nans = 0;
    multiply(dev, p, of, "blocks=tile", of->y[0]);
    multiply(dev, p, of, "blocks=rows,matmul=tile", of->y[1]);
    for (size_t i = 0; i < (size_t)p->m * p->n; i++) {
        const float tile = of->y[0][i], rows = of->y[1][i];
        if (isnan(tile) ? !isnan(rows) : memcmp(&tile, &rows, sizeof tile) != 0)
            fail_msg("%s: %u x %u x %u, %u bits, groups of %u: element %zu is %.9g, not %.9g",
                     dev->info.id, (unsigned)p->m, (unsigned)p->n, (unsigned)p->k,
                     (unsigned)p->bits, (unsigned)p->group, i, (double)tile, (double)rows);
        nans += isnan(tile) != 0;
    }
    return nans;
}

static bool has_tiles(size_t d)
{
    return strncmp(found[d], "host", 4) != 0;
}

enum { UNITS = 4 }; /* the number of compute units chooses tiles */

static copse_device *device_open(size_t d)
{
    copse_device *dev;
    for (size_t i = 0; i < ctx->device_count; i++)
        if (strcmp(ctx->devices[i].id, found[d]) == 0)
            ctx->devices[i].limits.compute_units = UNITS;
    OK(copse_device_open(ctx, found[d], NULL, &dev));
    return dev;
}

static struct copse_tile_choice tile_choice(const copse_device *dev, const struct product *p)
{
    const struct copse_product product = { .batch = 1, .m = p->m, .n = p->n, .k = p->k };
    return copse__tile_choice(dev->limits, &product);
}

static void bits_are_those_of_the_matrix_as_f32(void **state)
{
    static const struct product products[] = {
        /* the result: rows of words along k */
        { 1, 70, 48, 4, 16, false, true },
        { 5, 133, 64, 8, 32, true, true },
        { 64, 64, 256, 4, 256, true, true },
        { 129, 200, 272, 8, 16, false, true },
        { 300, 260, 96, 4, 32, false, true },
        { 300, 300, 288, 4, 32, true, true },
        { 129, 17, 768, 8, 256, true, true },
        { 5, 40, 8192, 4, 32, false, true },  /* parts */
        { 64, 33, 18432, 8, 16, true, true }, /* parts of several chains */
        { 1, 1, 70016, 4, 64, false, true },
        /* the gradient of x: rows of words along n */
        { 1, 16, 1, 4, 16, false, false },
        { 5, 160, 37, 8, 32, true, false },
        { 64, 256, 64, 4, 256, false, false },
        { 129, 208, 301, 8, 16, true, false },
        { 300, 288, 100, 4, 32, true, false },
        { 300, 16, 260, 8, 16, false, false },
        { 5, 32, 8193, 4, 32, true, false },
        { 64, 48, 9220, 8, 16, false, false },
        { 129, 272, 49, 4, 16, true, false },
        { 640, 640, 20, 4, 128, false, false },
        { 640, 512, 32, 8, 32, false, true },
        { 5, 1040, 96, 8, 32, true, true },
        { 6, 1040, 37, 4, 16, false, false },
    };
    (void)state;
    for (size_t d = 0; d < found_count; d++) {
        unsigned shapes = 0;
        if (!has_tiles(d))
            continue;
        copse_device *dev = device_open(d);
        for (size_t i = 0; i < COPSE_COUNT(products); i++) {
            struct numbers of;
            numbers_make(&products[i], &of);
            assert_int_equal(same_bits(dev, &products[i], &of), 0);
            numbers_free(&of);
            shapes |= 1u << tile_choice(dev, &products[i]).shape;
        }
        assert_int_equal(shapes, (1u << COPSE_TILE_SHAPES) - 1);
        assert_true(copse__kernel_is_compiled(dev, &copse_kernel_table[COPSE_KERNEL_blocks_tile]));
        copse_device_release(&dev);
    }
}

/* Infinities and NaN stay in their row of x, or in the columns of their group, also where the last
   strip of k, and the last tile, are not whole. Subnormal scales, and numbers that a sum loses. */
static void what_is_not_finite_stays_in_its_row_and_its_column(void **state)
{
    static const struct product products[] = {
        { 7, 21, 304, 4, 16, true, true },
        { 7, 21, 304, 8, 16, false, true },
        { 7, 48, 301, 4, 16, false, false },
        { 7, 48, 300, 8, 16, true, false },
    };
    (void)state;
    for (size_t d = 0; d < found_count; d++) {
        if (!has_tiles(d))
            continue;
        copse_device *dev = device_open(d);
        for (size_t i = 0; i < COPSE_COUNT(products); i++) {
            const struct product *p = &products[i];
            const size_t groups = count_of(p, p->group);
            struct numbers of;
            numbers_make(p, &of);
            of.x[2 * p->k + p->k - 1] = (float)INFINITY;
            of.x[4 * p->k] = (float)NAN;
            of.x[5 * p->k + 3] = 1e30f;
            of.scales[1] = 1e-41f;
            of.scales[groups - 1] = (float)INFINITY; /* in the last row, or column, of B */
            const size_t nans = same_bits(dev, p, &of);
            /* a row of NaN; infinity times 0 in others, and infinities of both signs */
            const size_t columns = p->transpose ? 1 : p->group;
            assert_true(nans >= p->n && nans <= 2 * p->n + 5 * columns);
            for (size_t j = 0; j < p->n - columns; j++) {
                assert_true(isfinite(of.y[0][j]) && isfinite(of.y[0][6 * p->n + j]));
                assert_true(isnan(of.y[0][4 * p->n + j]));
                assert_false(isfinite(of.y[0][2 * p->n + j]));
            }
            numbers_free(&of);
        }
        copse_device_release(&dev);
    }
}

static copse_context *open_as_gpus(bool is_gpu)
{
    copse_context *of;
    OK(copse_context_create(NULL, &of));
    for (size_t i = 0; i < of->device_count; i++)
        of->devices[i].limits.is_gpu = is_gpu;
    return of;
}

static void gpus_take_tiles_for_many_rows(void **state)
{
    static const char *const sizes[][2] = {
        { "forward-1", "blocks_one" },    { "forward-32", "blocks_tile" },
        { "forward-512", "blocks_tile" }, { "gradient-1", "blocks_tile" },
        { "gradient-32", "blocks_tile" }, { "gradient-512", "blocks_tile" },
    };
    (void)state;
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        copse_context *of = open_as_gpus(is_gpu);
        for (size_t d = 0; d < found_count; d++) {
            copse_device *dev;
            if (!has_tiles(d))
                continue;
            OK(copse_device_open(of, found[d], NULL, &dev));
            for (size_t i = 0; i < COPSE_COUNT(sizes); i++) {
                struct copse_kernel_variant v;
                OK(copse_kernel_choice(dev, NULL, "blocks", sizes[i][0], &v));
                if (is_gpu)
                    assert_string_equal(v.kernel, sizes[i][1]);
                else
                    assert_string_not_equal(v.kernel, "blocks_tile");
            }
            copse_device_release(&dev);
        }
        copse_context_release(&of);
    }
}

/* ---- memory ---- */

enum { TOKENS = 49152, WIDTH = 576 }; /* of SmolLM2-135M */

/* The most bytes in use for the product of `rows` positions with the head, or for its derivative. */
static size_t bytes_of_head(copse_context *of, copse_device *dev, uint32_t rows, bool transpose,
                            const char *variant)
{
    const struct copse_choice choice = { "blocks", variant };
    struct copse_program_memory memory;
    copse_graph *g;
    copse_queue *queue;
    copse_buffer *buffer;
    OK(copse_queue_create(dev, &queue));
    OK(copse_graph_create(of, &g));
    copse_tensor *x =
        copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(rows, transpose ? WIDTH : TOKENS));
    const struct copse_blocks head = {
        .words = copse_graph_input(g, "w", COPSE_I32, COPSE_SHAPE(TOKENS, WIDTH / 4)),
        .scales = copse_graph_input(g, "s", COPSE_F32, COPSE_SHAPE(TOKENS, WIDTH / 32)),
        .bits = 8,
    };
    copse_tensor *y = copse_matmul_blocks(g, x, &head, transpose);
    const size_t room = sizeof(float) * (size_t)copse__elements(y->shape);
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = room }, &buffer));
    const struct copse_placement at = { .tensor = y, .at = { buffer, 0, room } };
    OK(copse__program_measure(&(struct copse_program_params){ .graph = g,
                                                              .queue = queue,
                                                              .placements = &at,
                                                              .placement_count = 1,
                                                              .choices = &choice,
                                                              .choice_count = variant != NULL,
                                                              .is_plain = true },
                              SIZE_MAX, &memory));
    copse_buffer_release(&buffer);
    copse_graph_release(&g);
    copse_queue_release(&queue);
    return memory.peak;
}

/* `shared` has no scratch memory, `rows` has the matrix, and by default a GPU has the parts of k. */
static void a_head_is_not_copied(void **state)
{
    const size_t matrix = sizeof(float) * TOKENS * WIDTH, small = 4096;
    (void)state;
    copse_context *of = open_as_gpus(true);
    for (size_t d = 0; d < found_count; d++)
        for (uint32_t rows = 64; has_tiles(d) && rows <= 256; rows *= 2)
            for (int transpose = 0; transpose < 2; transpose++) {
                copse_device *dev;
                OK(copse_device_open(of, found[d], NULL, &dev));
                const struct product p = { .m = rows,
                                           .n = transpose ? TOKENS : WIDTH,
                                           .k = transpose ? WIDTH : TOKENS };
                const size_t parts = tile_choice(dev, &p).parts,
                             least = bytes_of_head(of, dev, rows, transpose, "shared"),
                             of_rows = bytes_of_head(of, dev, rows, transpose, "rows") - least,
                             of_gpu = bytes_of_head(of, dev, rows, transpose, NULL) - least;
                print_message("  %s, %u rows, %s: %zu bytes of scratch, rows %zu\n", found[d],
                              (unsigned)rows, transpose ? "result" : "gradient", of_gpu, of_rows);
                assert_true(of_rows >= matrix);
                assert_true(of_gpu <= (parts > 1 ? sizeof(float) * parts * p.m * p.n : 0) + small);
                copse_device_release(&dev);
            }
    copse_context_release(&of);
}

static int open_all(void **state)
{
    if (open_context(state))
        return -1;
    find_devices(ctx);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_matrix_as_f32),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row_and_its_column),
        cmocka_unit_test(gpus_take_tiles_for_many_rows),
        cmocka_unit_test(a_head_is_not_copied),
    };
    return cmocka_run_group_tests(tests, open_all, close_context);
}
