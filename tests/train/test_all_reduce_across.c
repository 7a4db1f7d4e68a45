/* SPDX-License-Identifier: MIT */
/* Sums over replicas inside a loss function, over the replicas of several workers: values,
   derivatives and batch normalisation with the bits of one process, and workers whose functions
   differ. */
#include "copse/train/update.h"
#include "tests/rig/train/norm_model.h"
#include "tests/rig/workers/worker_rig.h"

static const uint32_t layouts[][2] = { { 2, 1 }, { 2, 2 }, { 4, 1 } };

/* All words of `values` are those of one process. */
static void compare_with_one(const void *job,
                             copse_status (*run)(struct worker *, copse_strategy *))
{
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        struct worker one[1], w[4];
        run_workers_over(&copse__transport_local, one, 1, size * replicas, job, run);
        assert_all_ok(one, 1);
        run_workers_over(&copse__transport_local, w, size, replicas, job, run);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++)
            assert_memory_equal(w[v].values, one[0].values, sizeof one[0].values);
    }
}

/* ---- values and derivatives ---- */

struct shared {
    copse_averaging op;
    bool is_inside; /* w stands in the operand */
    uint32_t rows;
    copse_variable *w;
    uint32_t odd; /* crossings more on the worker that differs */
};

/* s = sum of x over the shard; loss = w all_reduce(s), or all_reduce(w s). */
static copse_tensor *shared_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct shared *m = user;
    copse_tensor *s, *w = copse_variable_tensor(m->w);
    s = copse_sum(g, rig_x(in), NULL, 0, false);
    s = copse_reshape(g, s, COPSE_SHAPE(1));
    if (m->is_inside)
        s = copse_mul(g, s, w);
    for (uint32_t i = 0; i < 1 + m->odd; i++)
        s = copse_all_reduce(g, s, m->op);
    copse_report(g, "sum", s);
    if (!m->is_inside)
        s = copse_mul(g, s, w);
    return s;
}

static copse_status make_shared(copse_strategy *st, struct shared *m, copse_trainer **t)
{
    static const float two = 2;
    const struct copse_trainer_params params = {
        .loss = shared_loss,
        .user = m,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-2f },
    };
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1), .values = &two },
        &m->w));
    return copse_trainer_create(st, &params, t);
}

/* One step, of whole numbers. values: the report, the loss, the weight afterwards, the number of
   replicas. */
static copse_status shared_step(struct worker *w, copse_strategy *st)
{
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    struct shared m = *(const struct shared *)w->job;
    const struct copse_host_batch batch = { RIG_X(1, x), .count = m.rows };
    struct copse_step_result r;
    copse_trainer *t;
    COPSE_TRY(make_shared(st, &m, &t));
    copse_status s = copse_trainer_step(t, &batch);
    if (!s)
        s = copse_trainer_result(t, true, &r);
    for (uint32_t k = 0; k < copse_strategy_replicas(st) && !s; k++) {
        float other;
        s = copse_variable_read(m.w, k, &other);
        if (k > 0 && other != w->values[2])
            s = copse_fail(COPSE_ERR_INTERNAL, "replica %u has %g", k, (double)other);
        w->values[2] = other;
    }
    w->values[0] = (float)r.reports[0];
    w->values[1] = (float)r.loss;
    w->values[3] = (float)copse_strategy_replicas_in_sync(st);
    copse_trainer_release(&t);
    return s;
}

static void sums_and_derivatives_are_those_of_all_workers(void **state)
{
    static const uint32_t rows[] = { 10, 7, 3 }; /* even, uneven, and empty shards */
    struct worker w[4];
    (void)state;
    host_alone();
    for (size_t i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            const struct shared m = { k % 2 ? COPSE_MEAN : COPSE_SUM, k / 2, rows[i], NULL, 0 };
            const float all = (float)(rows[i] * (rows[i] + 1) / 2);
            run_workers_over(&copse__transport_local, w, 4, 1, &m, shared_step);
            assert_all_ok(w, 4);
            const float value = k % 2 ? all / 4 : all;
            for (uint32_t v = 0; v < 4; v++) {
                assert_true(w[v].values[0] == (m.is_inside ? 2 * value : value));
                assert_true(w[v].values[1] == 2 * value);
                assert_true(w[v].values[2] > 2 - 1.00001e-2f * value &&
                            w[v].values[2] < 2 - 0.99999e-2f * value);
            }
            compare_with_one(&m, shared_step);
        }
    devices_back();
    const struct shared mean = { COPSE_MEAN, true, 7, NULL, 0 };
    compare_with_one(&mean, shared_step);
}

/* ---- batch normalisation ---- */

/* Parameters after six steps, and the sum of the losses. */
static copse_status norm_train(struct worker *w, copse_strategy *st)
{
    const size_t batch = *(const uint32_t *)w->job;
    float x[ROWS * IN], other[VALUES];
    int32_t y[ROWS];
    struct norm m;
    copse_trainer *t;
    double losses = 0;
    norm_data(x, y);
    COPSE_TRY(norm_create(&m, st, &t));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < 6 && !s; i++) {
        struct copse_step_result r;
        const size_t first = i * batch % (ROWS - batch + 1);
        s = copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_XY(IN, x + first * IN, y + first), .count = batch });
        if (!s)
            s = copse_trainer_result(t, true, &r);
        if (!s)
            losses += r.loss;
    }
    if (!s)
        s = norm_values(&m, 0, w->values);
    for (uint32_t k = 1; k < copse_strategy_replicas(st) && !s; k++) {
        s = norm_values(&m, k, other);
        if (!s && memcmp(other, w->values, sizeof other) != 0)
            s = copse_fail(COPSE_ERR_INTERNAL, "replica %u differs", k);
    }
    w->values[VALUES] = (float)losses;
    copse_trainer_release(&t);
    return s;
}

static void normalised_batches_have_the_bits_of_one_process(void **state)
{
    static const uint32_t batches[] = { 24, 23, 3 }; /* even, uneven, and empty shards */
    (void)state;
    host_alone();
    for (size_t i = 0; i < COPSE_COUNT(batches); i++)
        compare_with_one(&batches[i], norm_train);
    devices_back();
    compare_with_one(&batches[1], norm_train);
}

/* ---- workers that differ ---- */

static copse_status one_more(struct worker *w, copse_strategy *st)
{
    static const float x[] = { 1, 2, 3, 4 };
    struct shared m = { .op = COPSE_SUM, .odd = w->rank };
    copse_trainer *t;
    COPSE_TRY(make_shared(st, &m, &t));
    const copse_status s =
        copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
    copse_trainer_release(&t);
    return s;
}

static void workers_with_other_crossings_are_named(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, one_more);
    for (uint32_t v = 0; v < 2; v++) {
        const char *name = v ? "worker 0 (h0:1)" : "worker 1 (h1:1)";
        if (w[v].status != COPSE_ERR_ARGUMENT || !strstr(w[v].text, name))
            fail_msg("worker %u: %s: %s", v, copse_status_name(w[v].status), w[v].text);
    }
}

/* ---- updates of variables ---- */

struct updated {
    copse_variable *w, *mean, *count, *total;
};

static copse_tensor *updated_loss(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t axis = 0;
    const struct updated *m = user;
    copse_tensor *variance;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *mean = copse_sync_moments(g, x, &axis, 1, &variance);
    copse_tensor *old = copse_multiply_by(g, copse_variable_tensor(m->mean), 0.5f);
    copse_tensor *sum = copse_multiply_by(g, mean, 0.5f);
    sum = copse_add(g, old, sum);
    copse_update(g, m->mean, sum);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    one = copse_add(g, copse_variable_tensor(m->count), one);
    copse_update(g, m->count, one);
    sum = copse_sum(g, x, &axis, 1, true);
    copse_update(g, m->total, sum);
    x = copse_sub(g, x, copse_variable_tensor(m->w));
    x = copse_mul(g, x, copse_variable_tensor(m->mean));
    return copse_mean(g, x, NULL, 0, false);
}

static copse_status make_updated(copse_strategy *st, struct updated *m, copse_trainer **t)
{
    const copse_shape row = COPSE_SHAPE(1, IN);
    struct copse_variable_params p = { .name = "w", .shape = row, .initializer = COPSE_INIT_ZEROS };
    COPSE_TRY(copse_variable_create(st, &p, &m->w));
    p.is_frozen = true;
    p.name = "mean";
    p.aggregation = COPSE_AGGREGATION_MEAN;
    COPSE_TRY(copse_variable_create(st, &p, &m->mean));
    p.name = "total";
    p.aggregation = COPSE_AGGREGATION_SUM;
    COPSE_TRY(copse_variable_create(st, &p, &m->total));
    p.name = "count";
    p.shape = COPSE_SHAPE(1);
    p.aggregation = COPSE_AGGREGATION_ONLY_FIRST_REPLICA;
    COPSE_TRY(copse_variable_create(st, &p, &m->count));
    return copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = updated_loss, .user = m }, t);
}

/* values: the average, the total of the last batch, the count, the weights. */
static copse_status updated_train(struct worker *w, copse_strategy *st)
{
    const size_t batch = *(const uint32_t *)w->job;
    float x[ROWS * IN];
    int32_t y[ROWS];
    struct updated m;
    copse_trainer *t;
    norm_data(x, y);
    COPSE_TRY(make_updated(st, &m, &t));
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < 6 && !s; i++) {
        const size_t first = i * batch % (ROWS - batch + 1);
        s = copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_X(IN, x + first * IN), .count = batch });
    }
    for (uint32_t k = copse_strategy_replicas(st); k-- > 0 && !s;) {
        s = copse_variable_read(m.mean, k, w->values);
        if (!s)
            s = copse_variable_read(m.total, k, w->values + IN);
        if (!s)
            s = copse_variable_read(m.count, k, w->values + 2 * IN);
        if (!s && w->values[2 * IN] != 6.0f)
            s = copse_fail(COPSE_ERR_INTERNAL, "replica %u counts %g", k,
                           (double)w->values[2 * IN]);
    }
    if (!s)
        s = copse_variable_read(m.w, 0, w->values + 2 * IN + 1);
    copse_trainer_release(&t);
    return s;
}

static void updates_have_the_bits_of_one_process(void **state)
{
    static const uint32_t batches[] = { 24, 23, 3 };
    (void)state;
    host_alone();
    for (size_t i = 0; i < COPSE_COUNT(batches); i++)
        compare_with_one(&batches[i], updated_train);
    devices_back();
    compare_with_one(&batches[1], updated_train);
}

/* A sum over replicas of a tensor with a row for each example. The workers have different numbers
   of examples. */
static copse_tensor *rows_loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_variable *const *w = user;
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(*w));
    y = copse_all_reduce(g, y, COPSE_SUM);
    return copse_mean(g, y, NULL, 0, false);
}

/* The step is refused and changes nothing; another trainer of the strategy goes on. */
static copse_status ragged_rows(struct worker *w, copse_strategy *st)
{
    static const float x[] = { 1, 2, 3 }, one = 1;
    struct shared m = { .op = COPSE_SUM };
    copse_variable *v;
    copse_trainer *ragged, *even;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(1), .values = &one },
        &v));
    COPSE_TRY(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = rows_loss,
                                        .user = &v,
                                        .variables = &v,
                                        .variable_count = 1,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } },
        &ragged));
    w->seen[0] = copse_trainer_step(ragged, &(struct copse_host_batch){ RIG_X(1, x), .count = 3 });
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    copse_status s = copse_variable_read(v, 0, w->values);
    copse_trainer_release(&ragged);
    if (!s)
        s = make_shared(st, &m, &even);
    if (s)
        return s;
    s = copse_trainer_step(even, &(struct copse_host_batch){ RIG_X(1, x), .count = 2 });
    copse_trainer_release(&even);
    return s;
}

static void crossings_of_other_shapes_are_refused_by_all(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, ragged_rows);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        const char *says =
            v ? "worker 0 (h0:1) has f32 [2] in 'bucket" : "worker 1 (h1:1) has f32 [1] in 'bucket";
        if (w[v].seen[0] != COPSE_ERR_SHAPE || !strstr(w[v].text, says) ||
            !strstr(w[v].text, "all_reduce 0"))
            fail_msg("worker %u: %u: %s", v, w[v].seen[0], w[v].text);
        assert_true(w[v].values[0] == 1.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_derivatives_are_those_of_all_workers),
        cmocka_unit_test(normalised_batches_have_the_bits_of_one_process),
        cmocka_unit_test(workers_with_other_crossings_are_named),
        cmocka_unit_test(updates_have_the_bits_of_one_process),
        cmocka_unit_test(crossings_of_other_shapes_are_refused_by_all),
    };
    return cmocka_run_group_tests_name("all_reduce_across", tests, open_workers, close_workers);
}
