/* SPDX-License-Identifier: MIT */
/* Laws of commands that are no kernels of ours. */
#include "core/base/base.h"
#include "core/device/kernel/command.h"
#include "core/device/kernel/sum_bound.h"

/* ---- C = A B of a vendor's library ---- */

static double product_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                         size_t i)
{
    const struct copse_gemm *g = params;
    const size_t m = g->m, n = g->n, k = g->k, item = i / (m * n), row = i / n % m, col = i % n;
    const size_t a = g->a_is_shared ? 0 : item * m * k, b = g->b_is_shared ? 0 : item * k * n;
    double sum = g->k_begin > 0 ? copse__load(&args[COPSE_GEMM_C], i) : 0;
    (void)spec;
    for (size_t l = g->k_begin; l < g->k_end; l++)
        sum += copse__load(&args[COPSE_GEMM_A], a + (g->a_transposed ? l * m + row : row * k + l)) *
               copse__load(&args[COPSE_GEMM_B], b + (g->b_transposed ? col * k + l : l * n + col));
    return sum;
}

static void product_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_gemm *g = params;
    for (size_t i = 0; i < (size_t)g->batch * g->m * g->n; i++)
        copse__store(&args[COPSE_GEMM_C], i, product_at(params, spec, args, i));
}

static struct copse_elements product_elements(const void *params, const int32_t *spec)
{
    const struct copse_gemm *g = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)g->batch * g->m * g->n, g->k_end - g->k_begin };
}

/* A library may add the terms of one command in one chain; commands have COPSE_SUM_CHAIN terms at
   most. */
static uint64_t product_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, UINT64_MAX, terms);
}

static struct copse_sum product_sum(const void *params, const int32_t *spec)
{
    const struct copse_gemm *g = params;
    const uint64_t terms = g->k_end - g->k_begin;
    (void)spec;
    return (struct copse_sum){ terms + (g->k_begin > 0), 1 };
}

const struct copse_law copse__law_product = {
    .host = product_host,
    .at = product_at,
    .elements = product_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .roundings = product_roundings,
    .sum = product_sum,
};

/* ---- copies and fills ---- */

static void copy_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    (void)params;
    (void)spec;
    memcpy(args[1].data, args[0].data, args[1].count * COPSE_WORD_BYTES);
}

static void fill_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const uint32_t *word = params;
    (void)spec;
    for (size_t i = 0; i < args[0].count; i++)
        memcpy((uint32_t *)args[0].data + i, word, sizeof *word);
}

static const struct copse_law law_copy = { .host = copy_host }, law_fill = { .host = fill_host };

/* ---- limits ---- */

void copse__law_limit(const struct copse_law *law, const void *params, const int32_t *spec,
                      struct copse_limit *out)
{
    *out = law->limit;
    if (law->limit_of)
        law->limit_of(params, spec, out);
    if (copse__limit_is_exact(out))
        /* moves and integers: words are compared, and no double would be exact */
        out->is_single = true;
}

/* ---- of a command ---- */

const struct copse_law *copse__law_of(const struct copse_command *c)
{
    switch (c->kind) {
    case COPSE_COMMAND_COPY:
        return &law_copy;
    case COPSE_COMMAND_FILL:
        return &law_fill;
    case COPSE_COMMAND_GEMM:
        return &copse__law_product;
    case COPSE_COMMAND_DISPATCH:
        break;
    }
    return c->kernel->row->law;
}

const void *copse__law_params(const struct copse_command *c)
{
    switch (c->kind) {
    case COPSE_COMMAND_FILL:
        return &c->word;
    case COPSE_COMMAND_GEMM:
        return &c->gemm;
    case COPSE_COMMAND_COPY:
    case COPSE_COMMAND_DISPATCH:
        break;
    }
    return c->params;
}

const int32_t *copse__law_spec(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH ? c->kernel->spec : NULL;
}
