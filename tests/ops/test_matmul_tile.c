/* SPDX-License-Identifier: MIT */
/* The product in tiles: which tiles and parts a product gets, as a table of shapes and devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "copse/device/choice.h"
#include "core/device/device.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/matmul_tile.h"

enum {
    LARGE = COPSE_TILE_LARGE,
    SMALL = COPSE_TILE_SMALL,
    FLAT = COPSE_TILE_FLAT,
    THIN = COPSE_TILE_THIN
};

static struct copse_tile_choice choice_for(uint32_t units, const struct copse_product *p)
{
    const struct copse_limits limits = { .compute_units = units, .max_group_size = 256 };
    return copse__tile_choice(&limits, p);
}

static void products_get_the_tiles_of_the_table(void **state)
{
    static const struct {
        uint32_t m, n, k, batch, units;
        int shape;
        uint32_t parts;
    } table[] = {
        /* large products: the last ones have 128 groups of large tiles, 1 round or 4, and 512 of small ones, 4 or 13 */
        { 4096, 4096, 4096, 1, 132, LARGE, 1 },
        { 2048, 2048, 2048, 1, 132, LARGE, 1 },
        { 1024, 1024, 1024, 1, 132, LARGE, 2 },
        { 1024, 1024, 1024, 1, 40, SMALL, 2 },
        /* 32 groups would leave most of 132 units idle; 8 units have work either way */
        { 512, 512, 512, 1, 132, SMALL, 2 },
        { 512, 512, 512, 1, 8, LARGE, 2 },
        { 256, 512, 784, 1, 132, SMALL, 3 },
        { 256, 512, 784, 1, 8, LARGE, 3 },
        /* one group */
        { 1, 1, 1, 1, 132, SMALL, 1 },
        { 64, 64, 64, 1, 132, SMALL, 1 },
        { 10, 10, 10, 1, 1, SMALL, 1 },
        /* one row: columns and terms fill the device */
        { 1, 4096, 4096, 1, 132, FLAT, 4 },
        { 1, 1000, 512, 1, 132, SMALL, 2 },
        { 1, 1000, 512, 1, 8, FLAT, 2 },
        { 1, 50257, 768, 1, 40, FLAT, 1 },
        { 32, 512, 512, 1, 40, SMALL, 2 },
        { 32, 512, 512, 1, 4, FLAT, 2 },
        /* thin: a few classes of many examples, and a gradient of few weights from many examples */
        { 4096, 10, 128, 1, 132, SMALL, 1 },
        { 4096, 10, 128, 1, 40, THIN, 1 },
        { 4096, 1, 512, 1, 16, THIN, 2 },
        { 128, 10, 8192, 1, 132, SMALL, 16 },
        { 128, 10, 8192, 1, 12, THIN, 16 },
        /* a batch: heads of attention */
        { 128, 128, 32, 32, 132, SMALL, 1 },
        { 128, 128, 32, 32, 32, LARGE, 1 },
        { 1, 128, 64, 96, 16, FLAT, 1 },
        /* a driver that does not say the number of units has 32 */
        { 512, 512, 512, 1, 0, LARGE, 2 },
        { 512, 512, 512, 1, 32, LARGE, 2 },
        { 32, 512, 512, 1, 0, SMALL, 2 },
        { 32, 512, 512, 1, 32, SMALL, 2 },
    };
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct copse_product p = {
            .batch = table[i].batch, .m = table[i].m, .n = table[i].n, .k = table[i].k
        };
        const struct copse_tile_choice c = choice_for(table[i].units, &p);
        if ((int)c.shape == table[i].shape && c.parts == table[i].parts)
            continue;
        wrong++;
        print_error("%u x %u x %u, batch %u, %u units: shape %d, %u parts, not %d, %u\n", p.m, p.n,
                    p.k, p.batch, table[i].units, (int)c.shape, c.parts, table[i].shape,
                    table[i].parts);
    }
    assert_int_equal(wrong, 0);
}

/* The order of additions is that of the parts, which no device changes; a part is no shorter than a
   chain, so that parts add no roundings. */
static void parts_depend_on_the_shape_alone(void **state)
{
    static const uint32_t sizes[] = { 1, 31, 33, 64, 500, 3000 }, units[] = { 0, 1, 7, 84, 500 };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    (void)state;
    for (size_t i = 0; i < SIZES * SIZES; i++)
        for (uint32_t k = 1; k < 70000; k = k * 3 + 1) {
            const struct copse_product p = {
                .batch = 1, .m = sizes[i % SIZES], .n = sizes[i / SIZES], .k = k
            };
            const struct copse_tile_choice one = choice_for(1, &p);
            assert_true(one.parts == 1 || one.part >= COPSE_SUM_CHAIN);
            assert_true((uint64_t)one.part * one.parts >= k && one.part * (one.parts - 1) < k);
            assert_int_equal(one.part % 16, 0);
            for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
                const struct copse_tile_choice c = choice_for(units[u], &p);
                assert_int_equal(c.part, one.part);
                assert_int_equal(c.parts, one.parts);
            }
        }
}

/* Their texts are long. */
static void sigmoid_and_tanh_have_no_large_tiles(void **state)
{
    struct copse_product p = { .batch = 1, .m = 4096, .n = 4096, .k = 64 };
    (void)state;
    assert_int_equal(choice_for(40, &p).shape, LARGE);
    p.activation = COPSE_RELU;
    assert_int_equal(choice_for(40, &p).shape, LARGE);
    p.activation = COPSE_TANH;
    assert_int_equal(choice_for(40, &p).shape, SMALL);
}

/* Matrix units are for the types that they have, and lead only where they are known to be fast. */
static void matrix_units_take_numbers_of_16_bits(void **state)
{
    enum { F16 = COPSE_MATRIX_F16, BF16 = COPSE_MATRIX_BF16, FAST = COPSE_MATRIX_PREFERRED };
    static const struct {
        uint8_t units;
        copse_type type;
        bool fits, leads;
    } rows[] = {
        { 0, COPSE_F16, false, false },
        { F16, COPSE_F16, true, false },
        { F16 | FAST, COPSE_F16, true, true },
        { F16 | FAST, COPSE_BF16, false, true },
        { F16 | BF16, COPSE_BF16, true, false },
        { F16 | BF16 | FAST, COPSE_BF16, true, true },
        { F16 | BF16 | FAST, COPSE_F32, false, true },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct copse_limits limits = { .matrix_units = rows[i].units,
                                             .max_binding_bytes = 1u << 27 };
        const copse_device dev = { .limits = &limits };
        struct copse_product p = { .type = rows[i].type, .batch = 1, .m = 64, .n = 64, .k = 64 };
        assert_int_equal(copse__cooperative_fits(&limits, &p), rows[i].fits);
        assert_int_equal(copse__cooperative_leads(&dev, &p), rows[i].leads);
        p.k = 0;
        assert_false(copse__cooperative_fits(&limits, &p));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_get_the_tiles_of_the_table),
        cmocka_unit_test(parts_depend_on_the_shape_alone),
        cmocka_unit_test(matrix_units_take_numbers_of_16_bits),
        cmocka_unit_test(sigmoid_and_tanh_have_no_large_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
