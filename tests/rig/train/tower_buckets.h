/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the buckets of tower optimizers: updates of several variables, not always
   of all. */
#ifndef COPSE_TOWER_BUCKETS_H
#define COPSE_TOWER_BUCKETS_H

#include <math.h>

#include "copse/compat/replicated.h"
#include "copse/distribute/replica.h"
#include "core/compat/tower.h"

enum { PARTS = 3, MOST_ELEMENTS = 3000 };
static const uint32_t part_elements[PARTS] = { 5, MOST_ELEMENTS, 300 };
/* Bits of the variables that an update has. */
static const uint32_t part_updates[] = { 7, 7, 4, 3, 1, 7, 2, 7 };
/* Buckets after it: at first one, at last one for each variable. */
static const size_t part_buckets[] = { 1, 1, 2, 2, 3, 3, 3, 3 };

struct parts {
    copse_strategy *strategy;
    copse_variable *v[PARTS];
    copse_tower_optimizer *t;
    uint32_t update;
};

/* `is_apart`: an untrained variable follows each of them, so each has a bucket of its own. */
static inline copse_status parts_create(copse_strategy *st,
                                        const struct copse_optimizer_params *rule, const char *name,
                                        bool is_apart, struct parts *p)
{
    static float start[MOST_ELEMENTS];
    char text[64];
    *p = (struct parts){ .strategy = st };
    for (int i = 0; i < MOST_ELEMENTS; i++)
        start[i] = sinf(0.37f * (float)i);
    for (uint32_t i = 0; i < PARTS; i++) {
        copse_variable *between;
        snprintf(text, sizeof text, "%s_%u", name, i);
        COPSE_TRY(copse_variable_create(
            st,
            &(struct copse_variable_params){
                .name = text, .shape = COPSE_SHAPE(part_elements[i]), .values = start },
            &p->v[i]));
        snprintf(text, sizeof text, "%s_between_%u", name, i);
        if (is_apart)
            COPSE_TRY(copse_variable_create(
                st, &(struct copse_variable_params){ .name = text, .shape = COPSE_SHAPE(4) },
                &between));
    }
    const struct copse_tower_params params = { .optimizer = *rule, .name = name };
    return copse_tower_create(st, &params, &p->t);
}

static inline copse_status parts_give(copse_replica_context *rc, copse_value *const *args,
                                      size_t count, void *user, copse_value **result)
{
    const struct parts *p = user;
    struct copse_tower_gradient pairs[PARTS] = { { NULL, NULL } };
    size_t pair_count = 0;
    copse_status s = COPSE_OK;
    (void)args, (void)count, (void)result;
    for (uint32_t i = 0; i < PARTS && !s; i++) {
        float g[MOST_ELEMENTS];
        for (uint32_t k = 0; k < part_elements[i]; k++)
            g[k] = cosf(1.7f * (float)k + (float)(copse_replica_id(rc) + 5 * p->update + i));
        if (!(part_updates[p->update] >> i & 1))
            continue;
        pairs[pair_count].variable = p->v[i];
        s = copse_value_create(p->strategy->ctx, COPSE_F32, COPSE_SHAPE(part_elements[i]), g,
                               &pairs[pair_count++].gradient);
    }
    if (!s)
        s = copse_tower_apply(p->t, pairs, pair_count, true);
    for (size_t i = 0; i < pair_count; i++)
        copse_value_release(&pairs[i].gradient);
    return s;
}

/* All updates. `out`: the values on the last replica after each, PARTS * MOST_ELEMENTS of them. */
static inline copse_status parts_train(struct parts *p, float *out)
{
    for (p->update = 0; p->update < COPSE_COUNT(part_updates); p->update++) {
        COPSE_TRY(copse_strategy_run(p->strategy, parts_give, NULL, 0, p, NULL));
        for (uint32_t i = 0; i < PARTS; i++, out += MOST_ELEMENTS)
            COPSE_TRY(copse_variable_read(p->v[i], copse_strategy_replicas(p->strategy) - 1, out));
    }
    return COPSE_OK;
}

#define PARTS_NUMBERS (COPSE_COUNT(part_updates) * PARTS * MOST_ELEMENTS)

#endif
