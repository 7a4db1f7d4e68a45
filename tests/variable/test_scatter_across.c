/* SPDX-License-Identifier: MIT */
/* Scattered changes of variables across workers: from outside before they have met, and by all
   replicas; every number is compared with one process that has all the replicas. */
#include "copse/distribute/replica.h"
#include "tests/rig/workers/worker_rig.h"

#define ROWS 3u
#define ALL  (ROWS * 2u) /* rows of two columns */
#define ONES 6u          /* variables */

typedef copse_status scatter_fn(copse_variable *v, copse_value *slices);

static copse_status variable(copse_strategy *st, const char *name, const float *values,
                             bool is_frozen, copse_aggregation aggregation, copse_variable **v)
{
    const struct copse_variable_params p = { .name = name,
                                             .shape = COPSE_SHAPE(ROWS, 2),
                                             .values = values,
                                             .aggregation = aggregation,
                                             .is_frozen = is_frozen };
    return copse_variable_create(st, &p, v);
}

static copse_status slices_of(uint32_t count, const int32_t *rows, const float *values,
                              copse_value **out)
{
    const struct copse_sparse_params p = { COPSE_SHAPE(ROWS, 2), count, rows, values };
    return copse_value_sparse(ctx, &p, out);
}

/* All components on this worker are the same: one of them, number `n` of the worker's values. */
static copse_status keep(struct worker *w, copse_strategy *st, copse_variable *v, uint32_t n)
{
    float other[ALL], *first = &w->values[n * ALL];
    COPSE_TRY(copse_variable_read(v, 0, first));
    for (uint32_t r = 1; r < copse_strategy_replicas(st); r++) {
        COPSE_TRY(copse_variable_read(v, r, other));
        if (memcmp(other, first, sizeof other) != 0)
            return copse_fail(COPSE_ERR_INTERNAL, "'%s': replica %u differs",
                              copse_variable_name(v), r);
    }
    return COPSE_OK;
}

/* ---- from outside ---- */

static copse_status scatter_first(struct worker *w, copse_strategy *st)
{
    const float mine = 100 * (float)w->rank, values[ALL] = { mine, 1, 2, mine, 4, 5 };
    const int32_t rows[] = { 2, 0, 2 };
    copse_variable *v;
    copse_value *slices;
    COPSE_TRY(variable(st, "trained", values, false, COPSE_AGGREGATION_NONE, &v));
    COPSE_TRY(slices_of(3, rows, (const float[]){ 1, 2, 10, 20, 3, 4 }, &slices));
    copse_status s = copse_scatter_add(v, slices);
    copse_value_release(&slices);
    return s ? s : keep(w, st, v, 0);
}

static void all_start_from_the_first_workers_rows(void **state)
{
    static const float want[ALL] = { 10, 21, 2, 0, 8, 11 };
    struct worker w[2];
    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        run_workers(w, 2, replicas, scatter_first);
        assert_all_ok(w, 2);
        for (uint32_t v = 0; v < 2; v++)
            assert_memory_equal(w[v].values, want, sizeof want);
    }
}

/* ---- by all replicas ---- */

struct scattering {
    copse_variable *v;
    scatter_fn *scatter;
    uint32_t total;
    bool is_alike; /* the same slices on all replicas */
};

/* Replica `id` of `total` has id + 1 slices, of rows id, id + 1, ...; the last one has none. */
static copse_status scatter_own(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    const struct scattering *s = user;
    const uint32_t id = s->is_alike ? 1 : copse_replica_id(rc);
    const uint32_t n = !s->is_alike && id > 0 && id + 1 == s->total ? 0 : id + 1;
    int32_t rows[8];
    float values[2 * 8];
    copse_value *slices;
    (void)args, (void)count, (void)result;
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (int32_t)((id + i) % ROWS);
        values[2 * i] = 0.1f + (float)(id + i);
        values[2 * i + 1] = 1e6f / (3.0f + (float)id);
    }
    COPSE_TRY(slices_of(n, rows, values, &slices));
    const copse_status status = s->scatter(s->v, slices);
    copse_value_release(&slices);
    return status;
}

static copse_status scatter_all(struct worker *w, copse_strategy *st)
{
    static const float values[ALL] = { 1, 2, 3, 4, 5, 6 };
    static const struct {
        const char *name;
        scatter_fn *fn[2];
        copse_aggregation by;
        bool is_alike;
    } ones[ONES] = {
        { "sum", { copse_scatter_add, copse_scatter_sub }, COPSE_AGGREGATION_SUM, false },
        { "product",
          { copse_scatter_mul, copse_scatter_div },
          COPSE_AGGREGATION_ONLY_FIRST_REPLICA,
          false },
        { "limits",
          { copse_scatter_max, copse_scatter_min },
          COPSE_AGGREGATION_ONLY_FIRST_REPLICA,
          true },
        { "mean", { copse_scatter_sub, copse_scatter_sub }, COPSE_AGGREGATION_MEAN, false },
        { "alike", { copse_scatter_add, copse_scatter_sub }, COPSE_AGGREGATION_MEAN, true },
        { "first",
          { copse_scatter_update, copse_scatter_add },
          COPSE_AGGREGATION_ONLY_FIRST_REPLICA,
          false },
    };
    for (uint32_t k = 0; k < ONES; k++) {
        struct scattering s = { .total = copse_strategy_replicas_in_sync(st),
                                .is_alike = ones[k].is_alike };
        COPSE_TRY(variable(st, ones[k].name, values, k % 2 == 0, ones[k].by, &s.v));
        for (int i = 0; i < 2; i++) {
            s.scatter = ones[k].fn[i];
            COPSE_TRY(copse_note(copse_strategy_run(st, scatter_own, NULL, 0, &s, NULL),
                                 "'%s', change %d", ones[k].name, i));
        }
        COPSE_TRY(keep(w, st, s.v, k));
    }
    return COPSE_OK;
}

static void what_replicas_scatter_goes_over_all_workers(void **state)
{
    static const uint32_t layouts[][2] = { { 2, 1 }, { 2, 2 }, { 3, 1 }, { 4, 2 } };
    struct worker one[1], w[4];
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        run_workers(one, 1, size * replicas, scatter_all);
        assert_all_ok(one, 1);
        run_workers(w, size, replicas, scatter_all);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++)
            assert_memory_equal(w[v].values, one[0].values, ONES * ALL * sizeof(float));
    }
}

/* The first replica of all has no slices but an array: nobody hangs, nothing is changed. */
static copse_status refused(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const float x[] = { 1, 2, 3, 4 };
    const int32_t row = 0;
    copse_value *value;
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_replica_id(rc) == 0 ? copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(ROWS, 2),
                                                             (const float[ALL]){ 0 }, &value)
                                        : slices_of(1, &row, x, &value));
    const copse_status status = copse_scatter_add(user, value);
    copse_value_release(&value);
    return status;
}

static copse_status refuse_all(struct worker *w, copse_strategy *st)
{
    static const float values[ALL] = { 1, 2, 3, 4, 5, 6 };
    const copse_aggregation by[] = { COPSE_AGGREGATION_SUM, COPSE_AGGREGATION_ONLY_FIRST_REPLICA };
    for (uint32_t k = 0; k < 2; k++) {
        copse_variable *v;
        COPSE_TRY(variable(st, k ? "first" : "sum", values, true, by[k], &v));
        w->seen[k] = (uint32_t)copse_strategy_run(st, refused, NULL, 0, v, NULL);
        COPSE_TRY(keep(w, st, v, k));
    }
    return COPSE_OK;
}

static void a_wrong_value_of_one_worker_changes_nothing(void **state)
{
    static const float values[ALL] = { 1, 2, 3, 4, 5, 6 };
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, refuse_all);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(w[v].seen[k], COPSE_ERR_ARGUMENT); /* the others have heard of it */
            assert_memory_equal(&w[v].values[k * ALL], values, sizeof values);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_start_from_the_first_workers_rows),
        cmocka_unit_test(what_replicas_scatter_goes_over_all_workers),
        cmocka_unit_test(a_wrong_value_of_one_worker_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
