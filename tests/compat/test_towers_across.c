/* SPDX-License-Identifier: MIT */
/* Tower optimizers and replicated models of several workers: every number is compared with one
   process that has all the replicas, bit by bit. */
#include <math.h>

#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/ops.h"
#include "tests/rig/train/tower_buckets.h"
#include "tests/rig/workers/worker_rig.h"

#define WIDTH 6u
#define ROWS  4u /* of a replica */
#define MOST  8u /* replicas */
#define STEPS 6u

static const uint32_t layouts[][2] = { { 2, 1 }, { 4, 1 }, { 3, 1 }, { 2, 2 }, { 4, 2 } };

/* ---- a model with two optimizers, dropout, and a third variable that one replica alone has slices
   for ---- */

struct towers {
    copse_variable *weights, *offset, *table;
    copse_tower_optimizer *adam, *momentum;
    uint32_t step, fails; /* the replica of this number fails, in step 2; or none */
};

static copse_status make_towers(copse_strategy *st, struct towers *m)
{
    float start[WIDTH], rows[2 * WIDTH];
    const bool is_first = copse_strategy_first_rank(st) == 0; /* whose values all start from */
    for (uint32_t i = 0; i < 2 * WIDTH; i++) {
        rows[i] = is_first ? 0.1f * (float)i : 77;
        start[i % WIDTH] = is_first ? 0.3f * (float)(i % WIDTH) - 1 : 99;
    }
    const struct copse_variable_params p[] = {
        { .name = "weights", .shape = COPSE_SHAPE(WIDTH), .values = start },
        { .name = "offset", .shape = COPSE_SHAPE(WIDTH), .values = start },
        { .name = "table", .shape = COPSE_SHAPE(2, WIDTH), .values = rows },
    };
    const struct copse_tower_params adam = {
        .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.05f }, .seed = 11
    };
    const struct copse_tower_params momentum = {
        .optimizer = { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f, .momentum = 0.8f },
        .name = "slow",
    };
    *m = (struct towers){ .fails = UINT32_MAX };
    COPSE_TRY(copse_variable_create(st, &p[0], &m->weights));
    COPSE_TRY(copse_variable_create(st, &p[1], &m->offset));
    COPSE_TRY(copse_variable_create(st, &p[2], &m->table));
    COPSE_TRY(copse_tower_create(st, &adam, &m->adam));
    return copse_tower_create(st, &momentum, &m->momentum);
}

static void free_towers(struct towers *m)
{
    copse_tower_release(&m->adam);
    copse_tower_release(&m->momentum);
}

static copse_tensor *distance(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *m = user;
    copse_tensor *d = copse_dropout(g, rig_x(in), 0.3f, in->is_training);
    d = copse_mul(g, d, copse_variable_tensor(m->weights));
    d = copse_add(g, d, copse_variable_tensor(m->offset));
    d = copse_sub(g, d, rig_y(in));
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}

/* Slices of `table`: of all replicas but the second in odd steps, dense ones in every third. */
static copse_status give_table(copse_replica_context *rc, struct towers *m)
{
    const uint32_t id = copse_replica_id(rc);
    const int32_t rows[] = { (int32_t)(id % 2), 1 };
    float values[2 * WIDTH];
    struct copse_tower_gradient pair = { NULL, m->table };
    const struct copse_sparse_params p = { COPSE_SHAPE(2, WIDTH), 2, rows, values };
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < 2 * WIDTH; i++)
        values[i] = sinf(1.3f * (float)(i + 1) * (float)(id + 1) * (float)(m->step + 1));
    if (m->step % 3 == 2)
        s = copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2, WIDTH), values, &pair.gradient);
    else if (m->step % 2 == 0 || id == 1)
        s = copse_value_sparse(ctx, &p, &pair.gradient);
    if (!s)
        s = copse_tower_apply(m->momentum, &pair, 1, false);
    copse_value_release(&pair.gradient);
    return s;
}

static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    struct towers *m = call->user;
    const struct copse_tower_loss of = {
        .loss = distance, .user = m, .x = call->features, .y = call->labels
    };
    copse_variable *both[] = { m->weights, m->offset };
    if (m->step == 2 && m->fails == copse_replica_id(rc))
        return copse_fail(COPSE_ERR_CANCELLED, "replica %u has had enough", m->fails);
    if (call->mode == COPSE_MODEL_PREDICT)
        return copse_tower_forward(m->adam, &of, &spec->outputs);
    if (call->mode == COPSE_MODEL_EVAL)
        return copse_tower_forward(m->adam, &of, &spec->loss);
    COPSE_TRY(copse_tower_minimize(m->adam, &of, both, 2, true, &spec->loss));
    return give_table(rc, m);
}

/* The rows of step `step` that this worker's replicas have. */
static copse_status rows_of(copse_strategy *st, uint32_t step, copse_value **x, copse_value **y)
{
    const uint32_t first = copse_strategy_first_rank(st) * ROWS,
                   count = copse_strategy_replicas(st) * ROWS;
    static const float slope[WIDTH] = { 1, -2, 0.5f, 3, -1, 0.25f };
    float in[MOST * ROWS * WIDTH], out[MOST * ROWS * WIDTH];
    for (uint32_t i = 0; i < count * WIDTH; i++) {
        in[i] = sinf(0.7f * (float)(first * WIDTH + i) + (float)step);
        out[i] = slope[i % WIDTH] * in[i] + cosf((float)(first * WIDTH + i));
    }
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(count, WIDTH), in, x));
    return copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(count, WIDTH), out, y);
}

static copse_status run_model(copse_strategy *st, struct towers *m, copse_model_mode mode,
                              struct copse_replicated_result *result)
{
    const struct copse_replicated_params p = { model, m, COPSE_LOSS_MEAN };
    copse_value *x = NULL, *y = NULL;
    COPSE_TRY(rows_of(st, m->step, &x, &y));
    const copse_status s = copse_replicated_run(st, &p, mode, x, y, result);
    copse_value_release(&x);
    copse_value_release(&y);
    return s;
}

static copse_status read_slot(copse_tower_optimizer *t, copse_variable *v, const char *name,
                              float *to)
{
    copse_value *slot;
    COPSE_TRY(copse_tower_slot(t, v, name, &slot));
    CHECK(slot);
    const copse_status s = copse_value_read(slot, to);
    copse_value_release(&slot);
    return s;
}

/* Values, slots and losses of STEPS steps into the worker's values. */
static copse_status train(struct worker *w, copse_strategy *st)
{
    struct towers m;
    struct copse_replicated_result result;
    float *at = w->values;
    copse_status s = make_towers(st, &m);
    for (; m.step < STEPS && !s; m.step++) {
        s = run_model(st, &m, COPSE_MODEL_TRAIN, &result);
        *at++ = (float)result.loss;
    }
    s = s ? s : run_model(st, &m, COPSE_MODEL_EVAL, &result);
    *at++ = (float)result.loss;
    copse_variable *const all[] = { m.weights, m.offset, m.table };
    for (uint32_t i = 0; i < 3 && !s; i++)
        for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
            float *to = at + r * 2 * WIDTH;
            s = copse_variable_read(all[i], r, to);
            if (!s && memcmp(to, at, 4 * WIDTH) != 0)
                s = copse_fail(COPSE_ERR_INTERNAL, "variable %u differs on replica %u", i, r);
            at += r + 1 == copse_strategy_replicas(st) ? 2 * WIDTH : 0;
        }
    s = s ? s : read_slot(m.adam, m.weights, "m", at);
    s = s ? s : read_slot(m.adam, m.offset, "v", at + WIDTH);
    s = s ? s : read_slot(m.momentum, m.table, "v", at + 2 * WIDTH);
    w->seen[0] = (uint32_t)copse_tower_steps(m.adam);
    w->seen[1] = (uint32_t)copse_tower_steps(m.momentum);
    w->seen[2] = (uint32_t)copse_global_step(st);
    free_towers(&m);
    return s;
}

#define NUMBERS (STEPS + 1 + 6 * WIDTH + 4 * WIDTH)

static void workers_hold_the_bits_of_one_process(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        struct worker one[1], w[4];
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        run_workers(one, 1, size * replicas, train);
        assert_all_ok(one, 1);
        assert_true(one[0].values[0] > one[0].values[STEPS]); /* it learns */
        run_workers(w, size, replicas, train);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++) {
            for (uint32_t i = 0; i < NUMBERS; i++)
                if (memcmp(&w[v].values[i], &one[0].values[i], sizeof(float)) != 0)
                    fail_msg("%u workers of %u: number %u of worker %u: %a, not %a", size, replicas,
                             i, v, (double)w[v].values[i], (double)one[0].values[i]);
            assert_int_equal(w[v].seen[0], STEPS);
            assert_int_equal(w[v].seen[1], STEPS);
            assert_int_equal(w[v].seen[2], STEPS);
        }
    }
}

/* ---- predictions and metrics ---- */

static copse_status keep_rows(copse_replica_context *rc, const struct copse_model_call *call,
                              struct copse_model_spec *spec)
{
    copse_value *one;
    (void)rc;
    spec->outputs = copse_value_retain(call->features);
    if (call->mode == COPSE_MODEL_PREDICT)
        return COPSE_OK;
    spec->metrics[0] = call->user;
    spec->metric_count = 1;
    COPSE_TRY(copse_value_scalar(ctx, (float)(copse_replica_id(rc) + 1), &one));
    spec->loss = copse_value_retain(one);
    const copse_status s = copse_assign(call->user, one);
    copse_value_release(&one);
    return s;
}

static copse_status evaluate(struct worker *w, copse_strategy *st)
{
    const uint32_t n = copse_strategy_replicas_in_sync(st), first = copse_strategy_first_rank(st);
    const struct copse_variable_params params = { .name = "state",
                                                  .shape = COPSE_SCALAR,
                                                  .synchronization = COPSE_SYNC_ON_READ,
                                                  .aggregation = COPSE_AGGREGATION_SUM };
    struct copse_replicated_params p = { keep_rows, NULL, COPSE_LOSS_SUM };
    struct copse_replicated_result result;
    copse_variable *v;
    copse_value *x, *y;
    float rows[MOST * ROWS * WIDTH], now;
    COPSE_TRY(copse_variable_create(st, &params, &v));
    p.user = v;
    COPSE_TRY(rows_of(st, 3, &x, &y));
    copse_status s = copse_replicated_run(st, &p, COPSE_MODEL_PREDICT, x, NULL, &result);
    if (!s) {
        s = copse_value_read(result.outputs, rows);
        if (!s && rows[0] != sinf(0.7f * (float)(first * ROWS * WIDTH) + 3))
            s = copse_fail(COPSE_ERR_INTERNAL, "other rows than this worker's");
        copse_value_release(&result.outputs);
    }
    if (!s)
        s = copse_replicated_run(st, &p, COPSE_MODEL_EVAL, x, NULL, &result);
    copse_value_release(&result.outputs);
    copse_value_release(&x);
    copse_value_release(&y);
    COPSE_TRY(s);
    COPSE_TRY(copse_variable_read(v, 0, &now));
    CHECK(result.loss == n * (n + 1) / 2);
    CHECK(now == (first == 0 ? (float)(n * (n + 1) / 2) : 0));
    (void)w;
    return COPSE_OK;
}

static void outputs_are_each_workers_own(void **state)
{
    struct worker w[4];
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        run_workers(w, layouts[l][0], layouts[l][1], evaluate);
        assert_all_ok(w, layouts[l][0]);
    }
}

/* ---- failures ---- */

/* A replica of one worker fails in its third step: all workers hear of it, nothing of the step is
   done, and the same step can be done again; the bits are those without a failure. */
static copse_status fail_once(struct worker *w, copse_strategy *st)
{
    struct towers m;
    struct copse_replicated_result result;
    copse_status s = make_towers(st, &m);
    m.fails = w->replicas * w->size - 1;
    for (; m.step < STEPS && !s; m.step++) {
        s = run_model(st, &m, COPSE_MODEL_TRAIN, &result);
        if (m.step == 2 && m.fails != UINT32_MAX) {
            w->seen[0] = (uint32_t)s;
            snprintf(w->path, sizeof w->path, "%.60s", copse_last_error());
            m.fails = UINT32_MAX;
            s = s ? run_model(st, &m, COPSE_MODEL_TRAIN, &result) : s;
        }
    }
    s = s ? s : copse_variable_read(m.weights, 0, w->values);
    s = s ? s : copse_variable_read(m.table, 0, w->values + WIDTH);
    free_towers(&m);
    return s;
}

static void what_one_worker_fails_with_all_return(void **state)
{
    struct worker w[4], one[1];
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        run_workers(one, 1, size * replicas, fail_once);
        assert_all_ok(one, 1);
        run_workers(w, size, replicas, fail_once);
        assert_all_ok(w, size);
        for (uint32_t v = 0; v < size; v++) {
            assert_int_equal(w[v].seen[0], COPSE_ERR_CANCELLED);
            assert_non_null(
                strstr(w[v].path, v + 1 == size ? "had enough" : "could not take part"));
            assert_memory_equal(w[v].values, one[0].values, 3 * WIDTH * sizeof(float));
        }
    }
}

struct uneven {
    struct towers *m;
    uint32_t rank;
    bool is_none;
};

/* The second worker hands gradients over once more than the first; or nobody has any. */
static copse_status give_unevenly(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    const struct uneven *u = user;
    const float ones[WIDTH] = { 1, 1, 1, 1, 1, 1 };
    struct copse_tower_gradient pair = { NULL, u->m->weights };
    (void)rc, (void)args, (void)count, (void)result;
    if (!u->is_none)
        COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(WIDTH), ones, &pair.gradient));
    copse_status s = copse_tower_apply(u->m->momentum, &pair, 1, false);
    if (!s && u->rank == 1 && !u->is_none)
        s = copse_tower_apply(u->m->momentum, &pair, 1, false);
    copse_value_release(&pair.gradient);
    return s;
}

static copse_status misuse(struct worker *w, copse_strategy *st)
{
    struct towers m;
    struct uneven u = { &m, w->rank, true };
    copse_tower_optimizer *other;
    COPSE_TRY(make_towers(st, &m));
    const struct copse_tower_params same = { .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 },
                                             .name = "slow" };
    const struct copse_tower_params differs = {
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 + (float)w->rank }
    };
    copse_status s = copse_tower_create(st, &same, &other);
    CHECK(s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "another one of the name 'slow'"));
    s = copse_tower_create(st, &differs, &other);
    CHECK(s == COPSE_ERR_ARGUMENT &&
          strstr(copse_last_error(), "'learning rate 2', the first worker 'learning rate 1'") &&
          !other);
    s = copse_strategy_run(st, give_unevenly, NULL, 0, &u, NULL);
    CHECK(s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "no replica has a gradient"));
    u.is_none = false;
    s = copse_strategy_run(st, give_unevenly, NULL, 0, &u, NULL);
    CHECK(w->rank == 1
              ? s == COPSE_ERR_ARGUMENT &&
                    strstr(copse_last_error(), "worker 0 (h0:1) has ended this run without 'an "
                                               "update of 'slow'")
              : s == COPSE_OK);
    s = copse_tower_finish(m.momentum);
    free_towers(&m);
    return s;
}

static void misuse_is_named(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, misuse);
    assert_all_ok(w, 2);
}

/* ---- buckets ---- */

/* The hash of all values. Slots move between workers when a bucket is split. */
static copse_status train_parts(struct worker *w, copse_strategy *st)
{
    const struct copse_optimizer_params rule = { .kind = COPSE_ADAM8, .learning_rate = 0.1f };
    struct parts p;
    float *all = calloc(PARTS_NUMBERS, sizeof *all);
    CHECK(all);
    copse_status s = parts_create(st, &rule, "parts", false, &p);
    s = s ? s : parts_train(&p, all);
    const uint64_t hash = copse__hash(COPSE_HASH_START, all, PARTS_NUMBERS * sizeof *all);
    w->seen[0] = (uint32_t)hash;
    w->seen[1] = (uint32_t)(hash >> 32);
    w->seen[2] = (uint32_t)copse_tower_steps(p.t);
    copse_tower_release(&p.t);
    free(all);
    return s;
}

static void updates_of_some_variables_have_the_bits_of_one_process(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        struct worker one[1], w[4];
        run_workers(one, 1, layouts[l][0] * layouts[l][1], train_parts);
        assert_all_ok(one, 1);
        run_workers(w, layouts[l][0], layouts[l][1], train_parts);
        assert_all_ok(w, layouts[l][0]);
        for (uint32_t v = 0; v < layouts[l][0]; v++)
            assert_memory_equal(w[v].seen, one[0].seen, 3 * sizeof(uint32_t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_hold_the_bits_of_one_process),
        cmocka_unit_test(outputs_are_each_workers_own),
        cmocka_unit_test(what_one_worker_fails_with_all_return),
        cmocka_unit_test(updates_of_some_variables_have_the_bits_of_one_process),
        cmocka_unit_test(misuse_is_named),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
