/* SPDX-License-Identifier: MIT */
/* The bound of sums of products: the roundings of a term, counted by the loops of the kernels; what
   copse/matmul.h states; numbers that need the bound are no fault of a device. */
#include <math.h>

#include "copse/copse.h"
#include "copse/train/audit.h"
#include "core/device/device.h"
#include "core/device/kernel/kernel.h"
#include "core/device/kernel/sum_bound.h"
#include "tests/rig/found.h"
#include "tests/rig/one_context.h"

#define CHAIN 256u

/* The largest number of roundings that a term of a sum takes part in. */
struct sum {
    uint64_t roundings;
    bool has_terms;
};

static void add_term(struct sum *s)
{
    s->roundings++;
    s->has_terms = true;
}

/* Zero plus a sum is exact. */
static void add_sum(struct sum *to, struct sum *from)
{
    if (!from->has_terms)
        return;
    to->roundings = to->has_terms ? COPSE_MAX(to->roundings, from->roundings) + 1 : from->roundings;
    to->has_terms = true;
    *from = (struct sum){ 0, false };
}

/* Chains; parts of `chains` of them; launches of `most` terms. */
static uint64_t count_product(uint64_t terms, uint64_t chains, uint64_t most)
{
    struct sum all = { 0, false }, part = all, chain = all;
    for (uint64_t i = 0; i < terms; i++) {
        if (i > 0 && i % CHAIN == 0)
            add_sum(&part, &chain);
        if (i > 0 && (i % (chains * CHAIN) == 0 || i % most == 0))
            add_sum(&all, &part);
        add_term(&chain);
    }
    add_sum(&part, &chain);
    add_sum(&all, &part);
    return all.roundings;
}

static void products_have_the_roundings_of_their_loops(void **state)
{
    static const uint64_t terms[] = { 1,    2,    255,  256,   257,   512,   513,   1000,
                                      8191, 8192, 8193, 16384, 16385, 65536, 65537, 140000 };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(terms); i++) {
        const uint64_t k = terms[i];
        const struct {
            const struct copse_law *law;
            uint64_t counted;
        } rows[] = {
            { &copse_law_matmul, count_product(k, 32, 8192) },
            { &copse_law_matmul_half, count_product(k, 32, 8192) },
            { &copse_law_matmul_texel, count_product(k, 256, 65536) },
            { &copse_law_matmul_wide, count_product(k, 64, k) },
            { &copse_law_matmul_chunk, count_product(k, 1, k) },
            { &copse_law_conv_weight, count_product(k, k, k) },
            { &copse__law_product, count_product(k, 1, k) },
        };
        for (size_t r = 0; r < COPSE_COUNT(rows); r++)
            assert_int_equal(rows[r].law->roundings(k), rows[r].counted);
        /* copse/matmul.h */
        const uint64_t stated = COPSE_MIN(k, 256) + COPSE_MIN((k - 1) / 256, 255) + (k - 1) / 8192;
        for (size_t r = 0; r < 4; r++)
            assert_true(rows[r].counted <= stated);
        /* a vendor's library, and matmul_chunk, which has no more terms */
        assert_true(k > 65536 || count_product(k, 1, k) <= stated);
    }
    assert_int_equal(copse_law_matmul.roundings(0), 0);
    for (uint64_t k = 1; k < 300000; k += 1 + k / 300) {
        const uint64_t n = copse_law_matmul_tile.roundings(k),
                       chains = COPSE_MIN(k, 256) + (k - 1) / 256;
        assert_true(k > 16384 ? n < chains : n == chains);
        assert_int_equal(copse_law_blocks_tile.roundings(k), n);
        assert_true(n <= COPSE_MIN(k, 256) + COPSE_MIN((k - 1) / 256, 255) + (k - 1) / 8192);
    }
    /* 9 parts of 15,568 terms; the last one is shorter */
    assert_int_equal(copse_law_matmul_tile.roundings(140000), 256 + 60 + 8);
}

/* A matrix unit cuts off what it adds. The operations of a strip of 32 terms make a chain, which is
   added to the sums of a chunk, and the sums of the chunks are added. A part of `part` terms. */
static uint64_t count_units(uint64_t terms, uint64_t part)
{
    struct sum all = { 0, false }, piece = all, chunk = all, chain = all;
    for (uint64_t i = 0; i < terms; i++) {
        if (i > 0 && i % part % 32 == 0)
            add_sum(&chunk, &chain);
        if (i > 0 && (i % part % 4096 == 0))
            add_sum(&piece, &chunk);
        if (i > 0 && i % part == 0)
            add_sum(&all, &piece);
        add_term(&chain);
        add_term(&chain);
    }
    add_sum(&chunk, &chain);
    add_sum(&piece, &chunk);
    add_sum(&all, &piece);
    return all.roundings;
}

/* The bound of copse/matmul.h, from 66 terms on; below, as for a device that does not round to
   nearest, at most twice of it. */
static void matrix_units_stay_within_the_bound(void **state)
{
    (void)state;
    const struct copse_law *law = &copse_law_matmul_cooperative;
    const struct copse_params_matmul_cooperative launch = { .k = 9000, .part = 8240, .parts = 2 };
    const int32_t spec[COPSE_MAX_SPECS] = { 1 };
    assert_int_equal(law->roundings(0), 0);
    assert_int_equal(law->roundings(1), 2);
    assert_int_equal(law->roundings(33), 64 + 1);
    assert_int_equal(law->roundings(8192), 64 + 127 + 1);
    assert_int_equal(law->sum(&launch, spec).roundings, count_units(8240, 8240) + 1);
    for (uint64_t k = 1; k < 300000; k += 1 + k / 300) {
        const uint64_t n = law->roundings(k),
                       stated = COPSE_MIN(k, 256) + COPSE_MIN((k - 1) / 256, 255) + (k - 1) / 8192;
        assert_true(n <= (k < 66 ? 2 * k : stated));
        assert_true(k > 16384 || n >= count_units(k, k));
        assert_true(k > 511 || n == count_units(k, k)); /* one part */
    }
}

/* An operation of a unit that aligns `terms` and the chain to the largest of them, cuts each off
   there, adds exactly, and cuts the result off. */
static double cut_at(double x, int place)
{
    return ldexp(trunc(ldexp(x, -place)), place);
}

static double unit_adds(double chain, const double *terms, size_t count)
{
    double most = fabs(chain), sum;
    int top;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(terms[i]));
    frexp(most, &top);
    sum = cut_at(chain, top - 24);
    for (size_t i = 0; i < count; i++)
        sum += cut_at(terms[i], top - 24);
    frexp(sum, &top);
    return cut_at(sum, top - 24);
}

/* Chains of operations of 8 and of 16 terms, with terms at which the unit loses most, and at random:
   the error is within 2 roundings for each term. */
static void a_unit_that_cuts_off_stays_within_its_chain(void **state)
{
    double terms[32], worst = 0;
    uint32_t seed = 1;
    (void)state;
    for (int turn = 0; turn < 4000; turn++) {
        const size_t count = 1 + (size_t)turn % 32, each = turn / 32 % 2 ? 8 : 16;
        const int kind = turn / 64 % 4;
        double sum = 0, size = 0, chain = 0;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1664525u + 1013904223u;
            const double x = 1 + (double)(seed >> 10) * 0x1p-22;
            terms[i] = kind == 0   ? x
                       : kind == 1 ? (i == 0 ? 1 : 0x1.fffffep-24)
                       : kind == 2 ? (i % each == 0 ? 1 : -x * 0x1p-24)
                                   : ldexp(seed & 512 ? x : -x, -(int)(seed >> 4 & 31));
            sum += terms[i];
            size += fabs(terms[i]);
        }
        for (size_t i = 0; i < count; i += each)
            chain = unit_adds(chain, terms + i, COPSE_MIN(each, count - i));
        const double error = fabs(chain - sum) / size / 0x1p-24, n = 2 * (double)count;
        assert_true(error <= n / (1 - n * 0x1p-24));
        worst = fmax(worst, error / n);
    }
    printf("  at most %.2f of the bound\n", worst);
    assert_true(worst > 0.5); /* so a bound of half as many would be wrong */
}

/* Launches of parts of the channels; a chain ends where those of the next tap do not fit. */
static uint64_t count_conv(uint32_t taps, uint32_t channels)
{
    const uint32_t most = (60000 - 3 * taps) / taps;
    struct sum all = { 0, false }, launch = all, chain = all;
    for (uint32_t begin = 0; begin < channels; begin += most) {
        const uint32_t end = COPSE_MIN(begin + most, channels);
        uint32_t terms = 0;
        for (uint32_t t = 0; t < taps; t++)
            for (uint32_t c0 = begin; c0 < end; c0 += CHAIN) {
                const uint32_t c1 = COPSE_MIN(c0 + CHAIN, end);
                if (terms + c1 - c0 > CHAIN) {
                    add_sum(&launch, &chain);
                    terms = 0;
                }
                terms += c1 - c0;
                for (uint32_t c = c0; c < c1; c++)
                    add_term(&chain);
            }
        add_sum(&launch, &chain);
        add_sum(&all, &launch);
    }
    return all.roundings;
}

/* Texels of four channels; chains of whole taps, or of 64 texels of one. */
static uint64_t count_texels(uint32_t taps, uint32_t channels)
{
    const uint32_t texels = (channels + 3) / 4, each = texels < 64 ? 64 / texels : 1;
    struct sum all = { 0, false }, chain = all;
    for (uint32_t t0 = 0; t0 < taps; t0 += each)
        for (uint32_t c0 = 0; c0 < texels; c0 += 64) {
            for (uint32_t t = t0; t < COPSE_MIN(t0 + each, taps); t++)
                for (uint32_t c = 4 * c0; c < COPSE_MIN(4 * (c0 + 64), channels); c++)
                    add_term(&chain);
            add_sum(&all, &chain);
        }
    return all.roundings;
}

static void convolutions_have_at_most_the_roundings_of_the_bound(void **state)
{
    static const uint32_t taps[] = { 1, 2, 9, 49, 289, 1000, 8192 };
    static const uint32_t channels[] = { 1,   2,   3,   4,   5,   16,  64,  127, 128,
                                         129, 130, 253, 255, 256, 257, 300, 600, 1000 };
    (void)state;
    for (size_t t = 0; t < COPSE_COUNT(taps); t++)
        for (size_t c = 0; c < COPSE_COUNT(channels); c++) {
            const uint64_t k = (uint64_t)taps[t] * channels[c];
            assert_true(count_conv(taps[t], channels[c]) <= copse_law_conv.roundings(k));
            assert_true(count_texels(taps[t], channels[c]) <= copse_law_conv_texel.roundings(k));
            /* copse/ops/conv.h */
            assert_true(copse_law_conv.roundings(k) <= COPSE_MIN(k, 256) + k / 64);
            assert_true(copse_law_conv_wide.roundings(k) <= COPSE_MIN(k, 256) + k / 64);
            assert_true(copse_law_conv_texel.roundings(k) <= COPSE_MIN(k, 256) + k / 64);
            assert_true(copse_law_conv_tile.roundings(k) <= COPSE_MIN(k, 256) + k / 64);
        }
}

/* Chains of 256 terms in parts that are added one by one. */
static void tiles_of_convolutions_have_the_roundings_of_their_parts(void **state)
{
    (void)state;
    assert_int_equal(copse_law_conv_tile.roundings(256), 256);
    assert_int_equal(copse_law_conv_tile.roundings(576), 256 + 2);
    /* 18 parts of 7,792 terms; the last one is shorter */
    assert_int_equal(copse_law_conv_tile.roundings(140000), 256 + 30 + 17);
    for (uint64_t k = 1; k < 3000000; k += 1 + k / 300)
        assert_true(copse_law_conv_weight_tile.roundings(k) <= copse_law_conv_weight.roundings(k));
}

static void a_device_that_does_not_round_to_nearest_has_twice_the_bound(void **state)
{
    const struct copse_limits nearest = { .rounds_to_nearest = true },
                              other = { .rounds_to_nearest = false };
    (void)state;
    const double n = 256 + 3 + 1; /* with a bias */
    assert_true(copse__sum_bound(&copse_law_matmul, 1000, &nearest) == n / (1 - n * 0x1p-24));
    assert_true(copse__sum_bound(&copse_law_matmul, 1000, &other) == 2 * n / (1 - 2 * n * 0x1p-24));
}

/* ---- training ---- */

enum { ROWS = 4, TERMS = 256, OUTPUTS = 16 };

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *y = copse_matmul(g, x, copse_variable_tensor(user), false, false);
    return copse_mean(g, y, NULL, 0, false);
}

/* A sum that begins with 1 loses 255 terms below half of its ULP, one by one. */
static void a_sum_that_loses_its_terms_is_no_fault(void **state)
{
    static float x[ROWS][TERMS];
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < TERMS; k++)
            x[i][k] = k == 0 ? 1.0f : 0x1.fffffep-25f;
    for (uint32_t d = 0; d < found_count; d++) {
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(TERMS), x }), .count = ROWS
        };
        struct copse_step_result result;
        copse_strategy *st;
        copse_variable *w;
        copse_trainer *t;
        OK(copse_one_device_create(ctx, found[d], NULL, &st));
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){
                .name = "w", .shape = COPSE_SHAPE(TERMS, OUTPUTS), .initializer = COPSE_INIT_ONES },
            &w));
        OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = loss, .user = w }, &t));
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
        assert_true(copse_trainer_cross_checked(t) > 0 || strncmp(found[d], "host", 4) == 0);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* The same terms as gradients of a row of a table that all examples look up, and of a bias. */
static copse_tensor *sum_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *v = user;
    copse_tensor *slope = copse_input(in, "slope");
    copse_tensor *row = copse_input(in, "row");
    copse_tensor *y = copse_gather(g, copse_variable_tensor(v[0]), row);
    const copse_shape s = copse_tensor_shape(y);
    copse_tensor *none = copse_fill(g, COPSE_F32, COPSE_SHAPE(s.dims[1], s.dims[1]), 0.0);
    copse_tensor *z = copse_dense(g, y, none, copse_variable_tensor(v[1]), COPSE_LINEAR);
    y = copse_add(g, y, z);
    y = copse_mul(g, y, slope);
    return copse_sum(g, y, NULL, 0, false);
}

static void gradients_that_lose_their_terms_are_no_fault(void **state)
{
    enum { EXAMPLES = 64, WIDTH = 10 };
    static float slopes[EXAMPLES][WIDTH];
    static int32_t rows[EXAMPLES];
    (void)state;
    for (int i = 0; i < EXAMPLES; i++)
        for (int k = 0; k < WIDTH; k++)
            slopes[i][k] = i == 0 ? 1.0f : 0x1.fffffep-25f;
    for (uint32_t d = 0; d < found_count; d++) {
        const struct copse_host_batch batch = {
            COPSE_COLUMNS({ "slope", COPSE_F32, COPSE_SHAPE(WIDTH), slopes },
                          { "row", COPSE_I32, COPSE_SCALAR, rows }),
            .count = EXAMPLES
        };
        struct copse_step_result result;
        copse_strategy *st;
        copse_variable *v[2];
        copse_trainer *t;
        OK(copse_one_device_create(ctx, found[d], NULL, &st));
        const struct copse_variable_params table = { .name = "table",
                                                     .shape = COPSE_SHAPE(3, WIDTH) };
        const struct copse_variable_params bias = { .name = "bias", .shape = COPSE_SHAPE(WIDTH) };
        OK(copse_variable_create(st, &table, &v[0]));
        OK(copse_variable_create(st, &bias, &v[1]));
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = sum_loss, .user = v, .reduction = COPSE_LOSS_SUM },
                                &t));
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_the_roundings_of_their_loops),
        cmocka_unit_test(matrix_units_stay_within_the_bound),
        cmocka_unit_test(a_unit_that_cuts_off_stays_within_its_chain),
        cmocka_unit_test(convolutions_have_at_most_the_roundings_of_the_bound),
        cmocka_unit_test(tiles_of_convolutions_have_the_roundings_of_their_parts),
        cmocka_unit_test(a_device_that_does_not_round_to_nearest_has_twice_the_bound),
        cmocka_unit_test(a_sum_that_loses_its_terms_is_no_fault),
        cmocka_unit_test(gradients_that_lose_their_terms_are_no_fault),
    };
    return cmocka_run_group_tests(tests, open_all, close_context);
}
