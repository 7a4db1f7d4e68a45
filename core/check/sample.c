/* SPDX-License-Identifier: MIT */
#include "core/check/sample.h"

#include <stdlib.h>

#define WORK  ((uint64_t)1 << 19)
#define LEAST 16u
#define MOST  2048u
#define AXIS  65535u /* groups: the largest count of an axis on many devices */

bool copse__sample_of(const struct copse_command *c, struct copse_sample *out)
{
    const struct copse_law *law = copse__law_of(c);
    const void *params = copse__law_params(c);
    const int32_t *spec = copse__law_spec(c);
    if (!law->at)
        return false;
    const struct copse_elements all =
        law->elements ? law->elements(params, spec) : (struct copse_elements){ c->params[0], 1 };
    const uint32_t results = law->results ? law->results(spec) : 1;
    *out = (struct copse_sample){
        law, params, spec, c->binding_count - results, all.count, results * all.count, all.depth
    };
    return true;
}

bool copse__line_sample_of(const struct copse_command *c, struct copse_line_sample *out)
{
    const struct copse_law *law = copse__law_of(c);
    if (!law->lines)
        return false;
    *out = (struct copse_line_sample){ .law = law->lines, .spec = copse__law_spec(c) };
    if (law->line_params)
        law->line_params(copse__law_params(c), out->params);
    else
        memcpy(out->params, copse__law_params(c), sizeof out->params);
    out->count = law->lines->count(out->params);
    const uint64_t work = law->work ? law->work(copse__law_params(c), out->spec) : out->count;
    out->depth = work / COPSE_MAX(out->count, 1);
    return out->count > 0;
}

/* ---- the choice ---- */

static int sample_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void add_range(struct copse_choice *to, uint64_t first, uint64_t end, uint64_t units)
{
    for (uint64_t i = first; i < COPSE_MIN(end, units); i++)
        to->at[to->count++] = i;
}

static void add_parts(struct copse_choice *to, uint64_t parts, uint64_t units)
{
    for (uint64_t i = 0; i < parts; i++) {
        const uint64_t begin = units * i / parts, end = units * (i + 1) / parts;
        to->at[to->count++] =
            begin + (copse__hash(COPSE_HASH_START, &i, sizeof i) >> 16) % (end - begin);
    }
}

static void drop_repeated(struct copse_choice *c)
{
    size_t kept = 0;
    qsort(c->at, c->count, sizeof *c->at, sample_compare);
    for (size_t i = 0; i < c->count; i++)
        if (kept == 0 || c->at[i] != c->at[kept - 1])
            c->at[kept++] = c->at[i];
    c->count = kept;
}

copse_status copse__choose_units(struct copse_mem *mem, const struct copse_command *c,
                                 uint64_t units, uint64_t cost, struct copse_choice *out)
{
    const uint64_t affordable =
        COPSE_MIN(COPSE_MAX(WORK / COPSE_MAX(cost, 1), cost <= WORK ? LEAST : 2), MOST);
    const uint64_t groups = COPSE_MAX((uint64_t)c->groups_x * c->groups_y, 1);
    out->count = 0;
    out->at = copse__alloc(mem, (size_t)COPSE_MIN(affordable, units) + 1, sizeof *out->at);
    COPSE_TRY(copse_need_memory(out->at, "audit"));
    if (units <= affordable) {
        add_range(out, 0, units, units);
        return COPSE_OK;
    }
    /* One half for equal parts, a quarter for both ends, a quarter for the place behind the most
       groups of an axis. */
    const uint64_t edge = COPSE_MAX(COPSE_MIN((units + groups - 1) / groups, affordable / 8), 1);
    add_range(out, 0, edge, units);
    add_range(out, units - edge, units, units);
    if (groups > AXIS && affordable >= LEAST) {
        const uint64_t behind = (uint64_t)((double)units / (double)groups * AXIS);
        add_range(out, behind - COPSE_MIN(edge, behind), behind + edge, units);
    }
    if (affordable >= LEAST)
        add_parts(out, affordable / 2, units);
    drop_repeated(out);
    return COPSE_OK;
}
