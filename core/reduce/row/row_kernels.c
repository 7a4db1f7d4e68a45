/* SPDX-License-Identifier: MIT */
/* Host functions and self-tests of the kernels of the row exchange. Sums are stepwise f32: every
   device gives these bits. */
#include "core/device/kernel/divisor.h"
#include "core/reduce/sum_schedule.h"
#include "core/reduce/tree.h"

#define NOWHERE UINT32_MAX

/* Lists are walked side by side. */
static void row_find_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_row_find *p = params;
    const uint32_t *rows = args[0].data;
    uint32_t *leads = args[1].data, *places = args[2].data;
    uint32_t at[COPSE_MAX_REPLICAS] = { 0 };
    (void)spec;
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t list = i / p->each, row = rows[i];
        bool is_first = i % p->each == 0 || rows[i - 1] != row;
        for (uint32_t k = 0; k < p->lists; k++) {
            const uint32_t end = (k + 1) * p->each;
            if (i % p->each == 0)
                at[k] = k * p->each;
            while (at[k] < end && rows[at[k]] < row)
                at[k]++;
            const bool has = at[k] < end && rows[at[k]] == row;
            places[(size_t)k * p->n + i] = has ? at[k] : NOWHERE;
            is_first &= !has || k >= list;
        }
        leads[i] = is_first ? row : p->rows;
    }
}

static void row_join_host(const void *params, const int32_t *spec,
                          const struct copse_host_arg *args)
{
    const struct copse_params_row_join *p = params;
    const uint32_t *leads = args[0].data, *places = args[1].data;
    const float *terms = args[2].data;
    float *to = args[3].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const size_t entry = i / p->width;
        float of[COPSE_MAX_REPLICAS] = { 0 };
        void *rows[COPSE_MAX_REPLICAS];
        for (uint32_t k = 0; k < p->lists; k++) {
            const uint32_t place = places[(size_t)k * p->entries + entry];
            rows[k] = &of[k];
            if (place != NOWHERE && leads[entry] < p->rows)
                of[k] = terms[(size_t)place * p->width + i % p->width];
        }
        copse__tree_rows(rows, p->lists, 1, COPSE_F32);
        to[i] = of[0];
    }
}

static void row_put_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_row_put *p = params;
    const float *from = args[0].data;
    const uint32_t *rows = args[1].data;
    float *table = args[2].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        if (rows[i / p->width] < p->rows)
            table[(size_t)rows[i / p->width] * p->width + i % p->width] = from[i];
}

/* ---- self-tests: three lists of 12 places, with rows below 20 ---- */

enum { LISTS = 3, EACH = 12, ENTRIES = LISTS * EACH, ROWS = 20, WIDTH = 3 };

static uint64_t groups_of(const struct copse_kernel *k, uint64_t n)
{
    const uint64_t each = (uint64_t)k->group_x * k->group_y;
    return (n + each - 1) / each;
}

/* List k has multiples of k + 1, each twice, and then no row. */
static void row_kernels_fill(uint32_t *rows)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const uint32_t row = i % EACH / 2 * 2 * (i / EACH + 1);
        rows[i] = row < ROWS ? row : ROWS;
    }
}

static void row_find_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_row_find p = { ENTRIES, LISTS, EACH, ROWS };
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, p.n);
    t->counts[0] = t->counts[1] = ENTRIES;
    t->counts[2] = LISTS * ENTRIES;
    row_kernels_fill(t->words[0]);
}

static void row_join_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_row_join p = {
        .n = ENTRIES * WIDTH, .entries = ENTRIES, .lists = LISTS, .rows = ROWS, .width = WIDTH
    };
    const struct copse_params_row_find find_p = { ENTRIES, LISTS, EACH, ROWS };
    uint32_t rows[ENTRIES];
    copse__divisor(p.width, &p.m, &p.h);
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, p.n);
    t->counts[0] = ENTRIES;
    t->counts[1] = LISTS * ENTRIES;
    t->counts[2] = t->counts[3] = ENTRIES * WIDTH;
    row_kernels_fill(rows);
    row_find_host(&find_p, NULL,
                  (struct copse_host_arg[]){ { rows, ENTRIES, false },
                                             { t->words[0], ENTRIES, false },
                                             { t->words[1], LISTS * ENTRIES, false } });
}

/* Every third entry is none. */
static void row_put_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    struct copse_params_row_put p = { .n = ENTRIES * WIDTH, .width = WIDTH, .rows = ENTRIES };
    copse__divisor(p.width, &p.m, &p.h);
    memcpy(t->params, &p, sizeof p);
    t->groups = groups_of(k, p.n);
    t->counts[0] = t->counts[2] = ENTRIES * WIDTH;
    t->counts[1] = ENTRIES;
    for (uint32_t i = 0; i < ENTRIES; i++)
        t->words[1][i] = i % 3 == 0 ? ENTRIES : (ENTRIES - i);
}

/* ---- laws ---- */

const struct copse_law copse_law_row_find = { .host = row_find_host, .self_test = row_find_test };
const struct copse_law copse_law_row_join = { .host = row_join_host, .self_test = row_join_test };
const struct copse_law copse_law_row_put = { .host = row_put_host, .self_test = row_put_test };
