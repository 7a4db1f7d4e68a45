/* SPDX-License-Identifier: MIT */
/* The list of all tables of conformance cases, and of the variants that kernels come in. */
#include "core/ops/cases.h"

const struct copse_case_table *const copse_case_tables[] = {
#define TABLE(family) &copse_cases_##family,
    COPSE_CASE_TABLE_MAP(TABLE)
#undef TABLE
    NULL,
};

const char *const *copse__case_variants(const char *family)
{
    static const char *const products[] = { "matmul", "matmul_wide", "matmul_texel",
                                            COPSE_LIBRARY_PRODUCT, NULL };
    static const char *const column_sums[] = { "reduce", "column_sum_wide", NULL };
    return strcmp(family, "matmul") == 0       ? products
           : strcmp(family, "column_sum") == 0 ? column_sums
                                               : NULL;
}
