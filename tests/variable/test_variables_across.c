/* SPDX-License-Identifier: MIT */
/* Variables of a strategy across workers: where they start, what replicas of all workers assign,
   and what they read as; every number is compared with one process that has all the replicas. */
#include <unistd.h>

#include "copse/compat/replicated.h"
#include "copse/distribute/replica.h"
#include "tests/rig/workers/worker_rig.h"

static copse_status variable(copse_strategy *st, const char *name, copse_type type,
                             const void *first, copse_synchronization sync,
                             copse_aggregation aggregation, copse_variable **v)
{
    return copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = name,
                                                                  .shape = COPSE_SHAPE(2),
                                                                  .type = type,
                                                                  .values = first,
                                                                  .synchronization = sync,
                                                                  .aggregation = aggregation,
                                                                  .is_frozen = true },
                                 v);
}

/* Words of every replica's component, one behind another, at the places of all replicas. */
static copse_status read_components(struct worker *w, copse_strategy *st, copse_variable *v,
                                    uint32_t at)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        COPSE_TRY(
            copse_variable_read(v, r, &w->values[at + 2 * (copse_strategy_first_rank(st) + r)]));
    return COPSE_OK;
}

/* ---- in replicas: every aggregation, every change, both types ---- */

enum { CHANGES = 3, KINDS = 2 * 3 };

struct step {
    copse_variable *v;
    int change;
    copse_type type;
    bool is_alike; /* all replicas give the same numbers */
};

static copse_status change_one(copse_variable *v, int change, copse_value *value)
{
    return change == 0   ? copse_assign(v, value)
           : change == 1 ? copse_assign_add(v, value)
                         : copse_assign_sub(v, value);
}

static copse_status change_in_replica(copse_replica_context *rc, copse_value *const *args,
                                      size_t count, void *user, copse_value **result)
{
    const struct step *s = user;
    const int32_t id = s->is_alike ? 5 : (int32_t)copse_replica_id(rc);
    const int32_t whole[] = { 3 + id, 100 - 7 * id };
    const float x[] = { 0.1f + (float)id, 1e6f / (3.0f + (float)id) };
    copse_value *value;
    (void)args;
    (void)count;
    (void)result;
    COPSE_TRY(copse_value_create(ctx, s->type, COPSE_SHAPE(2),
                                 s->type == COPSE_I32 ? (const void *)whole : x, &value));
    const copse_status status = change_one(s->v, s->change, value);
    copse_value_release(&value);
    return status;
}

static copse_status run_step(copse_strategy *st, struct step s)
{
    return copse_strategy_run(st, change_in_replica, NULL, 0, &s, NULL);
}

static const copse_aggregation aggregations[] = { COPSE_AGGREGATION_SUM, COPSE_AGGREGATION_MEAN,
                                                  COPSE_AGGREGATION_ONLY_FIRST_REPLICA };

/* Mirrored variables; 16 words for each. */
static copse_status assign_all(struct worker *w, copse_strategy *st)
{
    const copse_synchronization sync = COPSE_SYNC_ON_WRITE;
    for (uint32_t k = 0; k < KINDS; k++) {
        const copse_type type = k < 3 ? COPSE_F32 : COPSE_I32;
        const copse_aggregation by = aggregations[k % 3];
        const int32_t whole[] = { 10 + (int32_t)w->rank, -4 };
        const float x[] = { 10.0f + (float)w->rank, -4.0f };
        char name[] = { 'v', (char)('0' + k), 0 };
        copse_variable *v;
        COPSE_TRY(
            variable(st, name, type, type == COPSE_I32 ? (const void *)whole : x, sync, by, &v));
        for (int change = 0; change < CHANGES; change++) {
            const bool is_alike = type == COPSE_I32 && by == COPSE_AGGREGATION_MEAN;
            COPSE_TRY(run_step(st, (struct step){ v, (change + 1) % 3, type, is_alike }));
        }
        COPSE_TRY(run_step(st, (struct step){ v, 1, type, type == COPSE_I32 && k % 3 == 1 }));
        COPSE_TRY(read_components(w, st, v, 16 * k));
    }
    return COPSE_OK;
}

static void compare_with_one(uint32_t size, uint32_t replicas, uint32_t rows, const void *job,
                             copse_status (*run)(struct worker *, copse_strategy *))
{
    struct worker one[1], w[4];
    run_workers_over(&copse__transport_local, one, 1, size * replicas, job, run);
    assert_all_ok(one, 1);
    run_workers_over(&copse__transport_local, w, size, replicas, job, run);
    assert_all_ok(w, size);
    for (uint32_t v = 0; v < size; v++)
        for (uint32_t k = 0; k < rows; k++)
            assert_memory_equal(&w[v].values[16 * k + 2 * v * replicas],
                                &one[0].values[16 * k + 2 * v * replicas], 8 * replicas);
}

static const uint32_t layouts[][2] = { { 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 } };

static void what_replicas_assign_goes_over_all_workers(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        compare_with_one(layouts[l][0], layouts[l][1], KINDS, NULL, assign_all);
}

/* The numbers of var_1 and var_3, with two workers. */
static copse_status known_numbers(struct worker *w, copse_strategy *st)
{
    static const float ones[] = { 1, 1 }, threes[] = { 3, 3 };
    copse_variable *mean, *first;
    copse_value *seen;
    float x[2];
    COPSE_TRY(
        variable(st, "mean", COPSE_F32, ones, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, &mean));
    COPSE_TRY(variable(st, "first", COPSE_F32, threes, COPSE_SYNC_ON_READ,
                       COPSE_AGGREGATION_ONLY_FIRST_REPLICA, &first));
    COPSE_TRY(run_step(st, (struct step){ mean, 1, COPSE_F32, false }));
    COPSE_TRY(run_step(st, (struct step){ first, 1, COPSE_F32, false }));
    COPSE_TRY(copse_variable_read(mean, 0, x)); /* 1 + mean of 0.1 and 1.1 */
    CHECK(x[0] == 1.0f + (0.1f + 1.1f) / 2);
    COPSE_TRY(copse_variable_read(first, 0, x));
    CHECK(x[0] == 3.0f + (w->rank ? 1.1f : 0.1f));
    COPSE_TRY(copse_read(first, &seen));
    COPSE_TRY(copse_value_read(seen, x));
    CHECK(x[0] == 3.1f);
    copse_value_release(&seen);
    return COPSE_OK;
}

static void var_1_and_3(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, known_numbers);
    assert_all_ok(w, 2);
}

/* ---- replica-local ones ---- */

/* Components, what they read as, and after an assignment from outside: 3 rows of 16 words for
   each. */
static copse_status local_all(struct worker *w, copse_strategy *st)
{
    for (uint32_t k = 0; k < KINDS - 1; k++) { /* not the mean of integers */
        const uint32_t kind = k < 4 ? k : 5;
        const copse_type type = kind < 3 ? COPSE_F32 : COPSE_I32;
        const int32_t whole[] = { 2, 2 }, total[] = { 7, -7 };
        const float x[] = { 2, 2 }, all[] = { 7, -7 };
        char name[] = { 'l', (char)('0' + k), 0 };
        copse_variable *v;
        copse_value *seen, *value;
        COPSE_TRY(variable(st, name, type, type == COPSE_I32 ? (const void *)whole : x,
                           COPSE_SYNC_ON_READ, aggregations[kind % 3], &v));
        COPSE_TRY(run_step(st, (struct step){ v, 1, type, false }));
        COPSE_TRY(copse_read(v, &seen));
        for (uint32_t r = 0; r < 8; r++)
            COPSE_TRY(copse_value_read(seen, &w->values[48 * k + 2 * r]));
        copse_value_release(&seen);
        COPSE_TRY(read_components(w, st, v, 48 * k + 16));
        COPSE_TRY(copse_value_create(ctx, type, COPSE_SHAPE(2),
                                     type == COPSE_I32 ? (const void *)total : all, &value));
        copse_status s = copse_assign(v, value);
        copse_value_release(&value);
        COPSE_TRY(s);
        COPSE_TRY(read_components(w, st, v, 48 * k + 32));
        COPSE_TRY(copse_read(v, &seen));
        float back[2];
        s = copse_value_read(seen, back);
        copse_value_release(&seen);
        COPSE_TRY(s);
        CHECK(memcmp(back, type == COPSE_I32 ? (const void *)total : all, sizeof back) == 0);
    }
    return COPSE_OK;
}

static void what_replicas_keep_is_read_over_all_workers(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        compare_with_one(layouts[l][0], layouts[l][1], 3 * (KINDS - 1), NULL, local_all);
}

/* Sums of all workers' replicas go to the first of all; what the state reads as stays. */
static copse_status reduce_metric(struct worker *w, copse_strategy *st)
{
    static const float zeros[] = { 0, 0 };
    copse_variable *v;
    copse_value *seen;
    COPSE_TRY(
        variable(st, "metric", COPSE_F32, zeros, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, &v));
    COPSE_TRY(run_step(st, (struct step){ v, 1, COPSE_F32, false }));
    for (int turn = 0; turn < 2; turn++)
        COPSE_TRY(copse_metrics_reduce(st, &v, 1));
    COPSE_TRY(read_components(w, st, v, 0));
    COPSE_TRY(copse_read(v, &seen));
    for (uint32_t r = 0; r < 8; r++)
        COPSE_TRY(copse_value_read(seen, &w->values[16 + 2 * r]));
    copse_value_release(&seen);
    return COPSE_OK;
}

static void metrics_are_reduced_over_all_workers(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        compare_with_one(layouts[l][0], layouts[l][1], 2, NULL, reduce_metric);
}

/* ---- integers that differ, refused on all workers alike ---- */

static copse_status mean_of_integers(struct worker *w, copse_strategy *st)
{
    static const int32_t five[] = { 5, 5 };
    copse_variable *v, *local;
    copse_value *seen;
    COPSE_TRY(variable(st, "v", COPSE_I32, five, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN, &v));
    COPSE_TRY(
        variable(st, "l", COPSE_I32, five, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_MEAN, &local));
    w->seen[0] = run_step(st, (struct step){ v, 0, COPSE_I32, false });
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    COPSE_TRY(copse_read(local, &seen)); /* they are equal still */
    copse_value_release(&seen);
    COPSE_TRY(run_step(st, (struct step){ local, 0, COPSE_I32, false }));
    w->seen[1] = copse_read(local, &seen);
    COPSE_TRY(run_step(st, (struct step){ v, 0, COPSE_I32, true }));
    return read_components(w, st, v, 0);
}

static void integers_that_differ_have_no_mean_anywhere(void **state)
{
    struct worker w[3];
    const int32_t expected[] = { 8, 65 };
    (void)state;
    run_workers(w, 3, 1, mean_of_integers);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_ARGUMENT);
        assert_int_equal(w[v].seen[1], COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(w[v].text, "have no i32 mean"));
        assert_memory_equal(&w[v].values[2 * v], expected, sizeof expected);
    }
}

/* ---- where they start ---- */

static copse_status start(struct worker *w, copse_strategy *st)
{
    static const float firsts[2][2] = { { 1, 2 }, { 9, 9 } };
    static const int32_t wholes[2][2] = { { 3, 4 }, { 8, 8 } };
    copse_variable *v[3];
    COPSE_TRY(variable(st, "frozen", COPSE_F32, firsts[w->rank], COPSE_SYNC_ON_WRITE,
                       COPSE_AGGREGATION_NONE, &v[0]));
    COPSE_TRY(variable(st, "local", COPSE_I32, wholes[w->rank], COPSE_SYNC_ON_READ,
                       COPSE_AGGREGATION_NONE, &v[1]));
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "trained",
                                         .shape = COPSE_SHAPE(2),
                                         .values = firsts[w->rank],
                                         .aggregation = COPSE_AGGREGATION_SUM },
        &v[2]));
    for (uint32_t i = 0; i < 2; i++)
        COPSE_TRY(read_components(w, st, v[i], 16 * i));
    /* changed before anything is trained: all start from the first worker's values */
    COPSE_TRY(run_step(st, (struct step){ v[2], 1, COPSE_F32, true }));
    return read_components(w, st, v[2], 32);
}

static void clu_3(void **state)
{
    struct worker w[2];
    const int32_t whole[] = { 3, 4 };
    (void)state;
    run_workers(w, 2, 1, start);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        const float *x = &w[v].values[2 * v];
        assert_true(x[0] == 1.0f && x[1] == 2.0f);
        assert_memory_equal(x + 16, whole, sizeof whole);
        assert_true(x[32] == 1.0f + (5.1f + 5.1f) && x[33] == 2.0f + (125000.0f + 125000.0f));
    }
}

/* All replicas of all workers make it once; it starts with what replica 0 of the first worker
   says. */
static copse_status make_in_replica(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    copse_variable *v;
    const float id = 7 + (float)copse_replica_id(rc), values[] = { id, id };
    (void)args;
    (void)count;
    (void)result;
    COPSE_TRY(variable(copse_replica_strategy(rc), "made", COPSE_F32, values, COPSE_SYNC_ON_READ,
                       COPSE_AGGREGATION_SUM, &v));
    *(copse_variable **)user = v;
    return COPSE_OK;
}

static copse_status make_in_run(struct worker *w, copse_strategy *st)
{
    copse_variable *v;
    COPSE_TRY(copse_strategy_run(st, make_in_replica, NULL, 0, &v, NULL));
    return read_components(w, st, v, 0);
}

static void replicas_of_all_workers_make_one_variable(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 2, make_in_run);
    assert_all_ok(w, 2);
    for (uint32_t r = 0; r < 4; r++)
        assert_true(w[r / 2].values[2 * r] == 7.0f);
}

/* ---- checkpoints ---- */

static char folder[] = "/tmp/copse_variables_XXXXXX";

static copse_tensor *weight_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(user));
    return copse_sum(g, y, NULL, 0, false);
}

/* The sum over all replicas and their components are saved; as many replicas get their own
   components back. */
static copse_status save_and_restore(struct worker *w, copse_strategy *st)
{
    static const int32_t zeros[2];
    copse_variable *sum, *weight;
    copse_trainer *t;
    char path[96];
    COPSE_TRY(
        variable(st, "sum", COPSE_I32, zeros, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM, &sum));
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "weight", .shape = COPSE_SHAPE(1) }, &weight));
    const struct copse_trainer_params params = { .loss = weight_loss, .user = weight };
    COPSE_TRY(copse_trainer_create(st, &params, &t));
    snprintf(path, sizeof path, "%s/%u.safetensors", folder, w->size);
    copse_status s = run_step(st, (struct step){ sum, 1, COPSE_I32, false });
    if (!s)
        s = copse_trainer_checkpoint(t, path, NULL);
    if (!s)
        s = copse_variable_assign(sum, zeros);
    if (!s)
        s = copse_trainer_restore(t, path, NULL, NULL);
    if (!s)
        s = read_components(w, st, sum, 0);
    copse_trainer_release(&t);
    return s;
}

static void var_7(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    compare_with_one(2, 2, 1, NULL, save_and_restore);
    struct worker w[4];
    run_workers(w, 4, 1, save_and_restore);
    assert_all_ok(w, 4);
    for (uint32_t v = 0; v < 4; v++) {
        const int32_t part[] = { 3 + (int32_t)v, 100 - 7 * (int32_t)v };
        assert_memory_equal(&w[v].values[2 * v], part, sizeof part);
    }
    for (uint32_t size = 1; size <= 4; size++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%u.safetensors", folder, size);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

static copse_status other_shape(struct worker *w, copse_strategy *st)
{
    copse_variable *v;
    return copse_variable_create(
        st,
        &(struct copse_variable_params){
            .name = "bias", .is_frozen = true, .shape = COPSE_SHAPE(w->rank == 1 ? 3 : 4) },
        &v);
}

static copse_status taken_name(struct worker *w, copse_strategy *st)
{
    static const float zeros[2];
    const copse_synchronization sync = COPSE_SYNC_ON_WRITE;
    copse_variable *v;
    COPSE_TRY(variable(st, "a", COPSE_F32, zeros, sync, COPSE_AGGREGATION_NONE, &v));
    w->seen[0] =
        variable(st, w->rank == 1 ? "a" : "b", COPSE_F32, zeros, sync, COPSE_AGGREGATION_NONE, &v);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    return variable(st, "c", COPSE_F32, zeros, sync, COPSE_AGGREGATION_NONE, &v);
}

static void variables_that_differ_are_refused(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, other_shape);
    for (uint32_t v = 0; v < 2; v++) {
        assert_int_equal(w[v].status, COPSE_ERR_ARGUMENT);
        if (!strstr(w[v].text, "variable 'bias' f32 [3]") || !strstr(w[v].text, "f32 [4]"))
            fail_msg("worker %u: %s", v, w[v].text);
    }
    run_workers(w, 2, 1, taken_name); /* one that cannot be made is made by none */
    assert_all_ok(w, 2);
    assert_int_equal(w[0].seen[0], COPSE_ERR_ARGUMENT);
    assert_int_equal(w[1].seen[0], COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(w[0].text, "worker 1 (h1:1) could not take part"));
    assert_non_null(strstr(w[1].text, "the name is taken"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(var_1_and_3),
        cmocka_unit_test(var_7),
        cmocka_unit_test(clu_3),
        cmocka_unit_test(replicas_of_all_workers_make_one_variable),
        cmocka_unit_test(what_replicas_assign_goes_over_all_workers),
        cmocka_unit_test(what_replicas_keep_is_read_over_all_workers),
        cmocka_unit_test(metrics_are_reduced_over_all_workers),
        cmocka_unit_test(integers_that_differ_have_no_mean_anywhere),
        cmocka_unit_test(variables_that_differ_are_refused),
    };
    return cmocka_run_group_tests_name("variables_across", tests, open_workers, close_workers);
}
