/* SPDX-License-Identifier: MIT */
/* Radix sort of positions by row index. An invocation processes a block of positions one after the
   other, so the sort is stable and needs no atomics. */
#include "core/ops/sort/row_sort.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define DIGIT_BITS 8u   /* most bits of a digit */
#define BLOCK      128u /* positions of a block, at least */
#define MAX_BLOCKS 4096u

static uint32_t bits_of(uint32_t n)
{
    uint32_t bits = 0;
    for (; n > 0; n >>= 1)
        bits++;
    return bits;
}

static copse_status row_sort_pass(struct copse_lowering *l, const copse_tensor *indices,
                                  const struct copse_params_sort_count *p,
                                  struct copse_operand from, struct copse_operand to,
                                  struct copse_operand counts, struct copse_operand totals)
{
    const int32_t spec[COPSE_MAX_SPECS] = { p->shift == 0 };
    const struct copse_params_sort_offsets offsets = { p->blocks, p->digits };
    const struct copse_params_sort_place place = { p->n,    p->rows,  p->blocks,
                                                   p->each, p->shift, p->digits };
    COPSE_TRY(COPSE_LAUNCH(l, sort_count, spec, *p,
                           copse__groups_for(l, COPSE_KERNEL_sort_count, p->blocks),
                           copse__of(indices), from, counts));
    COPSE_TRY(COPSE_LAUNCH(l, sort_offsets, NULL, offsets,
                           copse__groups_for(l, COPSE_KERNEL_sort_offsets, p->digits), counts,
                           totals));
    return COPSE_LAUNCH(l, sort_place, spec, place,
                        copse__groups_for(l, COPSE_KERNEL_sort_place, p->blocks),
                        copse__of(indices), from, totals, counts, to);
}

copse_status copse__lower_row_order(struct copse_lowering *l, const copse_tensor *indices,
                                    uint32_t rows, struct copse_operand *out)
{
    const uint32_t n = (uint32_t)copse__elements(indices->shape);
    const uint32_t bits = COPSE_MAX(bits_of(rows), 1),
                   passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    const uint32_t each = COPSE_MAX(BLOCK, (n + MAX_BLOCKS - 1) / MAX_BLOCKS);
    const uint32_t digit = (bits + passes - 1) / passes;
    struct copse_params_sort_count p = {
        .n = n, .rows = rows, .blocks = (n + each - 1) / each, .each = each, .digits = 1u << digit
    };
    struct copse_operand order[2], counts, totals;
    COPSE_TRY(copse__scratch(l, n, &order[0]));
    /* One pass does not read it, but every argument needs its own buffer. */
    COPSE_TRY(copse__scratch(l, passes > 1 ? n : 1, &order[1]));
    COPSE_TRY(copse__scratch(l, (uint64_t)p.digits * p.blocks, &counts));
    COPSE_TRY(copse__scratch(l, p.digits, &totals));
    for (uint32_t i = 0; i < passes; i++) {
        p.shift = i * digit;
        COPSE_TRY(row_sort_pass(l, indices, &p, order[(i + 1) % 2], order[i % 2], counts, totals));
    }
    *out = order[(passes + 1) % 2];
    return COPSE_OK;
}

copse_status copse__lower_row_sort(struct copse_lowering *l, const copse_tensor *indices,
                                   uint32_t rows, struct copse_row_sort *out)
{
    const struct copse_params_sort_starts starts = { (uint32_t)copse__elements(indices->shape),
                                                     rows };
    COPSE_TRY(copse__lower_row_order(l, indices, rows, &out->order));
    COPSE_TRY(copse__scratch(l, (uint64_t)rows + 1, &out->starts));
    return COPSE_LAUNCH(l, sort_starts, NULL, starts,
                        copse__groups_for(l, COPSE_KERNEL_sort_starts, (uint64_t)rows + 1),
                        copse__of(indices), out->order, out->starts);
}

/* ---- references ---- */

static uint32_t row_of(const struct copse_host_arg *indices, size_t place, uint32_t rows)
{
    return COPSE_MIN((uint32_t)copse__load_i(indices, place), rows);
}

static size_t place_of(const struct copse_host_arg *order, size_t k, bool is_first)
{
    return is_first ? k : (size_t)copse__load_i(order, k);
}

static void sort_count_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_sort_count *p = params;
    for (size_t i = 0; i < (size_t)p->digits * p->blocks; i++)
        copse__store_i(&args[2], i, 0);
    for (size_t k = 0; k < p->n; k++) {
        const uint32_t row = row_of(&args[0], place_of(&args[1], k, spec[0]), p->rows);
        const size_t at = (size_t)(row >> p->shift & (p->digits - 1)) * p->blocks + k / p->each;
        copse__store_i(&args[2], at, copse__load_i(&args[2], at) + 1);
    }
}

static void sort_offsets_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_sort_offsets *p = params;
    (void)spec;
    for (size_t d = 0; d < p->digits; d++) {
        uint32_t sum = 0; /* modulo 2^32, as the kernel */
        for (size_t at = d * p->blocks; at < (d + 1) * p->blocks; at++) {
            const uint32_t count = (uint32_t)copse__load_i(&args[0], at);
            copse__store_i(&args[0], at, (int32_t)sum);
            sum += count;
        }
        copse__store_i(&args[1], d, (int32_t)sum);
    }
}

static void sort_place_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_sort_place *p = params;
    int32_t before = 0;
    for (size_t d = 0; d < p->digits; d++) {
        for (size_t at = d * p->blocks; at < (d + 1) * p->blocks; at++)
            copse__store_i(&args[3], at, copse__load_i(&args[3], at) + before);
        before += copse__load_i(&args[2], d);
    }
    for (size_t k = 0; k < p->n; k++) {
        const size_t place = place_of(&args[1], k, spec[0]);
        const uint32_t row = row_of(&args[0], place, p->rows);
        const size_t at = (size_t)(row >> p->shift & (p->digits - 1)) * p->blocks + k / p->each;
        const int32_t to = copse__load_i(&args[3], at);
        copse__store_i(&args[4], (size_t)to, (int32_t)place);
        copse__store_i(&args[3], at, to + 1);
    }
}

static void sort_starts_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_sort_starts *p = params;
    size_t k = 0;
    (void)spec;
    for (uint32_t row = 0; row <= p->rows; row++) {
        while (k < p->n && row_of(&args[0], (size_t)copse__load_i(&args[1], k), p->rows) < row)
            k++;
        copse__store_i(&args[2], row, (int32_t)k);
    }
}

/* ---- self-tests: 100 indices from 0 to 3; 3 is out of range ---- */

#define N      100u
#define ROWS   3u
#define DIGITS 4u
#define BLOCKS 4u
#define EACH   30u

/* The positions from the last to the first. */
static void row_sort_reverse(uint32_t *order)
{
    for (uint32_t i = 0; i < N; i++)
        order[i] = N - 1 - i;
}

static void sort_count_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sort_count p = { N, ROWS, BLOCKS, EACH, 0, DIGITS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, BLOCKS), N, N, DIGITS * BLOCKS);
    row_sort_reverse(t->words[1]);
}

static void sort_offsets_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sort_offsets p = { BLOCKS, DIGITS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, DIGITS), DIGITS * BLOCKS, DIGITS);
    for (uint32_t i = 0; i < DIGITS * BLOCKS; i++)
        t->words[0][i] = i % 7;
}

static void sort_place_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sort_place p = { N, ROWS, BLOCKS, EACH, 0, DIGITS };
    uint32_t counts[DIGITS][BLOCKS] = { { 0 } };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, BLOCKS), N, N, DIGITS, DIGITS * BLOCKS, N);
    row_sort_reverse(t->words[1]);
    memset(t->words[2], 0, DIGITS * sizeof t->words[2][0]);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t digit = t->words[0][k->spec[0] ? i : N - 1 - i];
        counts[digit][i / EACH]++;
        t->words[2][digit]++;
    }
    for (uint32_t d = 0; d < DIGITS; d++)
        for (uint32_t b = 0, sum = 0; b < BLOCKS; sum += counts[d][b++])
            t->words[3][d * BLOCKS + b] = sum;
}

/* The indices are sorted, except that their positions are reversed. */
static void sort_starts_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_sort_starts p = { N, ROWS };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, ROWS + 1), N, N, ROWS + 1);
    row_sort_reverse(t->words[1]);
    for (uint32_t i = 0; i < N; i++)
        t->words[0][N - 1 - i] = i * 4 / N;
}

/* ---- laws ---- */

const struct copse_law copse_law_sort_count = {
    .host = sort_count_host,
    .self_test = sort_count_test,
};
const struct copse_law copse_law_sort_offsets = {
    .host = sort_offsets_host,
    .self_test = sort_offsets_test,
};
const struct copse_law copse_law_sort_place = {
    .host = sort_place_host,
    .self_test = sort_place_test,
};
const struct copse_law copse_law_sort_starts = {
    .host = sort_starts_host,
    .self_test = sort_starts_test,
};
