/* SPDX-License-Identifier: MIT */
/* Shared by the tests of contexts, variables and strategies: strategies of several sizes, on the
   host only and on every kind of device found, opened once; checks for functions that replicas
   run. */
#ifndef COPSE_REPLICA_RIG_H
#define COPSE_REPLICA_RIG_H

#include "copse/distribute/replica.h"
#include "tests/rig/value/value_rig.h"

/* FAILS for functions that run on threads of replicas. */
#define REFUSED(code, expr, word)                                                            \
    do {                                                                                     \
        const copse_status refused_ = (expr);                                                \
        if (refused_ != (code) || !strstr(copse_last_error(), word))                         \
            return copse_fail(COPSE_ERR_INTERNAL, "%s: %s, not %s about '%s': %s", #expr,    \
                              copse_status_name(refused_), #code, word, copse_last_error()); \
    } while (0)

static copse_context *ctx;
static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 8 };
static copse_strategy *opened[2][MAX_RANKS + 1];
static char fresh_name[32];

static inline int open_rig(void **state)
{
    (void)state;
    if (copse_context_create(NULL, &ctx) != COPSE_OK)
        return -1;
    find_devices(ctx);
    return 0;
}

static inline int close_rig(void **state)
{
    struct copse_memory_stats stats;
    (void)state;
    for (uint32_t mixed = 0; mixed < 2; mixed++)
        for (uint32_t n = 0; n <= MAX_RANKS; n++)
            copse_strategy_release(&opened[mixed][n]);
    copse_context_memory(ctx, &stats);
    copse_context_release(&ctx);
    return 0;
}

/* Link costs are given, because measuring them takes long under sanitizers and changes no
   result. */
static inline void set_links(copse_strategy *st)
{
    struct copse_link links[MAX_RANKS + 1];
    for (uint32_t r = 0; r <= copse_strategy_replicas(st); r++)
        links[r] = (struct copse_link){ 1e-5, 1e9, 1e9, 1e9 };
    OK(copse_strategy_set_links(st, links));
}

/* Mirrored, on the host only or on all devices in turn. */
static inline copse_strategy *strategy_of(uint32_t ranks, bool is_mixed)
{
    copse_strategy **st = &opened[is_mixed][ranks];
    if (!*st) {
        const char *ids[MAX_RANKS];
        for (uint32_t r = 0; r < ranks; r++)
            ids[r] = is_mixed ? found[r % found_count] : "host:0";
        OK(copse_mirrored_create(ctx, ids, ranks, NULL, st));
        set_links(*st);
    }
    return *st;
}

/* Every size, on the host and on the mixture. */
#define FOR_EACH_STRATEGY(st, n)                                      \
    for (uint32_t i_ = 0; i_ < 2 * COPSE_COUNT(sizes); i_++)          \
        for (uint32_t n = sizes[i_ / 2], once_ = 1; once_; once_ = 0) \
            for (copse_strategy *st = strategy_of(n, i_ % 2); once_; once_ = 0)

/* A new variable name. */
static inline const char *fresh(const char *stem)
{
    static unsigned count;
    snprintf(fresh_name, sizeof fresh_name, "%s%u", stem, ++count);
    return fresh_name;
}

static inline copse_value *scalar(float x)
{
    copse_value *v = NULL;
    return copse_value_scalar(ctx, x, &v) ? NULL : v;
}

static inline copse_value *whole(int32_t x)
{
    copse_value *v = NULL;
    return copse_value_create(ctx, COPSE_I32, COPSE_SCALAR, &x, &v) ? NULL : v;
}

/* The context of the thread, for comparisons. */
struct standing {
    copse_strategy *strategy, *cross;
    copse_replica_context *replica;
    bool has_strategy;
    uint32_t update_rank;
};

static inline struct standing standing(void)
{
    return (struct standing){ copse_current_strategy(), copse_current_cross_replica(),
                              copse_current_replica(), copse_has_strategy(),
                              copse_current_update_rank() };
}

static inline bool stands(struct standing a)
{
    const struct standing b = standing();
    return a.strategy == b.strategy && a.cross == b.cross && a.replica == b.replica &&
           a.has_strategy == b.has_strategy && a.update_rank == b.update_rank;
}

/* The context of a new thread. */
static inline bool stands_outside(void)
{
    const copse_replica_context *rc = copse_current_replica();
    return rc && copse_replica_id(rc) == 0 && copse_replica_count(rc) == 1 &&
           copse_replica_strategy(rc) == copse_current_strategy() && !copse_has_strategy() &&
           !copse_current_cross_replica() && copse_current_update_rank() == COPSE_HOST &&
           copse_strategy_kind_of(copse_current_strategy()) == COPSE_STRATEGY_DEFAULT &&
           strcmp(copse_replica_device(rc), "host") == 0 && copse_require_replica(rc) == COPSE_OK;
}

static inline bool stands_across(copse_strategy *st)
{
    return !copse_current_replica() && copse_current_cross_replica() == st &&
           copse_current_strategy() == st;
}

/* A function for replicas: adds 1 to both of two variables, `user`. */
static inline copse_status add_one(copse_replica_context *rc, copse_value *const *args,
                                   size_t count, void *user, copse_value **result)
{
    copse_variable *const *v = user;
    copse_value *one = scalar(1.0f);
    (void)rc;
    (void)args;
    (void)count;
    (void)result;
    for (int i = 0; i < 2; i++)
        COPSE_TRY(copse_assign_add(v[i], one));
    copse_value_release(&one);
    return COPSE_OK;
}

#endif
