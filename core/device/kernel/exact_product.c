/* SPDX-License-Identifier: MIT */
/* See exact_product.h. R. Freivalds, Probabilistic machines can use less running time (1977): C w =
   A (B w), and likewise from the left. Whole numbers make every sum exact, so one wrong element is
   always detected, and several are detected unless they cancel along their row and their column. */
#include "core/device/kernel/exact_product.h"

#include <stdint.h>

/* From 1 to 7, so that every single wrong element is detected. */
static double exact_product_weight(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u + (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    x ^= x >> 13;
    return (double)(1 + x % 7);
}

static double a_at(const struct copse_exact_product *p, size_t i, size_t l)
{
    return (double)(p->a_transposed ? p->a[l * p->m + i] : p->a[i * p->k + l]);
}

static double b_at(const struct copse_exact_product *p, size_t l, size_t j)
{
    return (double)(p->b_transposed ? p->b[j * p->k + l] : p->b[l * p->n + j]);
}

static bool is_right(const struct copse_exact_product *p, size_t i, size_t j, double *expected)
{
    *expected = 0.0;
    for (size_t l = 0; l < p->k; l++)
        *expected += a_at(p, i, l) * b_at(p, l, j);
    return (double)p->c[i * p->n + j] == *expected;
}

static size_t wrong_in_row(const struct copse_exact_product *p, size_t i, double *expected)
{
    size_t j = 0;
    while (j + 1 < p->n && is_right(p, i, j, expected))
        j++;
    if (j + 1 == p->n)
        (void)is_right(p, i, j, expected);
    return i * p->n + j;
}

static size_t wrong_in_column(const struct copse_exact_product *p, size_t j, double *expected)
{
    size_t i = 0;
    while (i + 1 < p->m && is_right(p, i, j, expected))
        i++;
    if (i + 1 == p->m)
        (void)is_right(p, i, j, expected);
    return i * p->n + j;
}

/* Read B row by row as it is stored, transposed or not. */
static void exact_product_weigh(const struct copse_exact_product *p, double *by_columns,
                                double *by_rows)
{
    for (size_t l = 0; l < p->k; l++)
        by_columns[l] = by_rows[l] = 0.0;
    for (size_t o = 0; o < (p->b_transposed ? p->n : p->k); o++)
        for (size_t i = 0; i < (p->b_transposed ? p->k : p->n); i++) {
            const size_t l = p->b_transposed ? i : o, j = p->b_transposed ? o : i;
            by_columns[l] += b_at(p, l, j) * exact_product_weight(3, j);
        }
    for (size_t o = 0; o < (p->a_transposed ? p->k : p->m); o++)
        for (size_t i = 0; i < (p->a_transposed ? p->m : p->k); i++) {
            const size_t l = p->a_transposed ? o : i, row = p->a_transposed ? i : o;
            by_rows[l] += exact_product_weight(4, row) * a_at(p, row, l);
        }
}

size_t copse__exact_product_wrong(const struct copse_exact_product *p, double *scratch,
                                  double *expected)
{
    double *by_columns = scratch, *by_rows = scratch + p->k; /* B times weights; weights times A */
    exact_product_weigh(p, by_columns, by_rows);
    for (size_t i = 0; i < p->m; i++) {
        double sum = 0.0, wanted = 0.0;
        for (size_t j = 0; j < p->n; j++)
            sum += (double)p->c[i * p->n + j] * exact_product_weight(3, j);
        for (size_t l = 0; l < p->k; l++)
            wanted += a_at(p, i, l) * by_columns[l];
        if (!(sum == wanted))
            return wrong_in_row(p, i, expected);
    }
    for (size_t j = 0; j < p->n; j++) {
        double sum = 0.0, wanted = 0.0;
        for (size_t i = 0; i < p->m; i++)
            sum += exact_product_weight(4, i) * (double)p->c[i * p->n + j];
        for (size_t l = 0; l < p->k; l++)
            wanted += by_rows[l] * b_at(p, l, j);
        if (!(sum == wanted))
            return wrong_in_column(p, j, expected);
    }
    return p->m * p->n;
}
