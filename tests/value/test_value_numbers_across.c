/* SPDX-License-Identifier: MIT */
/* Tower optimizers, values, variables and input: every public function that returns a number gives
   the same on several workers as in one process. test_numbers_across.c has trainers and steps. */
#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/distribute/input.h"
#include "copse/ops.h"
#include "tests/rig/workers/numbers_rig.h"

/* ---- tower optimizers and replicated models ---- */

struct towers {
    copse_variable *w, *metric;
    copse_tower_optimizer *t;
    struct numbers *n;
};

static copse_tensor *tower_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *u = user;
    copse_tensor *p = copse_matmul(g, rig_x(in), copse_variable_tensor(u->w), false, false);
    p = copse_square(g, p);
    return copse_mean(g, p, NULL, 0, false);
}

static copse_status tower_model(copse_replica_context *rc, const struct copse_model_call *call,
                                struct copse_model_spec *spec)
{
    struct towers *u = call->user;
    const uint32_t id = copse_replica_id(rc);
    const struct copse_tower_loss of = { .loss = tower_loss, .user = u, .x = call->features };
    copse_value *own;
    if (call->mode == COPSE_MODEL_TRAIN) {
        COPSE_TRY(copse_tower_minimize(u->t, &of, &u->w, 1, true, &spec->loss));
        return put_value(u->n, &id, spec->loss);
    }
    COPSE_TRY(copse_tower_forward(u->t, &of, &spec->loss));
    COPSE_TRY(put_value(u->n, &id, spec->loss));
    spec->metrics[0] = u->metric;
    spec->metric_count = 1;
    spec->outputs = copse_value_retain(call->features);
    COPSE_TRY(copse_value_scalar(ctx, row_value(id), &own));
    const copse_status s = copse_assign_add(u->metric, own);
    copse_value_release(&own);
    return s;
}

static copse_status put_towers(copse_strategy *st, struct towers *u)
{
    const uint32_t count = 2 * copse_strategy_replicas(st),
                   first = 2 * copse_strategy_first_rank(st);
    struct copse_replicated_result r;
    copse_value *x, *slot, *all;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(count, WIDTH),
                                 features() + first * WIDTH, &x));
    const struct copse_replicated_params p = { tower_model, u, COPSE_LOSS_MEAN };
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < 3 && !s; i++) {
        s = copse_replicated_run(st, &p, i < 2 ? COPSE_MODEL_TRAIN : COPSE_MODEL_EVAL, x, NULL, &r);
        put(u->n, r.loss);
    }
    copse_value_release(&x);
    copse_value_release(&r.outputs);
    COPSE_TRY(s);
    put(u->n, (double)copse_tower_steps(u->t));
    put(u->n, (double)copse_tower_slot_count(u->t));
    put(u->n, (double)copse_global_step(st));
    COPSE_TRY(copse_tower_slot(u->t, u->w, "v", &slot));
    s = put_value(u->n, NULL, slot);
    copse_value_release(&slot);
    COPSE_TRY(s);
    COPSE_TRY(copse_read(u->metric, &all)); /* reduced by the evaluation, and once more */
    s = put_value(u->n, NULL, all);
    copse_value_release(&all);
    COPSE_TRY(s);
    COPSE_TRY(copse_metrics_reduce(st, &u->metric, 1));
    COPSE_TRY(copse_read(u->metric, &all));
    s = put_value(u->n, NULL, all);
    copse_value_release(&all);
    return s;
}

static copse_status tower_numbers(copse_strategy *st, struct numbers *n)
{
    struct towers u = { .n = n };
    static const float start[] = { 0.5f, -1.25f, 2 };
    COPSE_TRY(copse_variable_create(st,
                                    &(struct copse_variable_params){ .name = "w",
                                                                     .shape = COPSE_SHAPE(WIDTH, 1),
                                                                     .values = start },
                                    &u.w));
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "metric",
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        &u.metric));
    COPSE_TRY(copse_tower_create(
        st,
        &(struct copse_tower_params){ .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.1f } },
        &u.t));
    const copse_status s = put_towers(st, &u);
    copse_tower_release(&u.t);
    return s;
}

/* ---- values ---- */

/* [2 + rank % lengths] x WIDTH numbers on every replica; i32 or f32. */
static copse_status per_rank(copse_strategy *st, copse_type type, uint32_t lengths,
                             copse_value **out)
{
    copse_value *c[RANKS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
        const uint32_t rank = copse_strategy_first_rank(st) + r, length = 2 + rank % lengths;
        float x[5 * WIDTH];
        int32_t whole[5 * WIDTH];
        for (uint32_t i = 0; i < length * WIDTH; i++) {
            x[i] = row_value(100 * rank + i);
            whole[i] = (int32_t)(1000 * x[i]);
        }
        s = copse_value_create_on(st, r, type, COPSE_SHAPE(length, WIDTH),
                                  type == COPSE_I32 ? (const void *)whole : x, &c[r]);
    }
    if (!s)
        s = copse_value_per_replica(st, c, copse_strategy_replicas(st), out);
    for (uint32_t r = 0; r < RANKS; r++)
        copse_value_release(&c[r]);
    return s;
}

static copse_status put_reduced(copse_strategy *st, struct numbers *n, copse_reduce_op op,
                                copse_type type)
{
    static const int axes[] = { 0, -1 };
    copse_value *v, *out = NULL;
    COPSE_TRY(per_rank(st, type, 1, &v));
    copse_status s = copse_strategy_reduce(st, op, v, NULL, &out);
    if (!s)
        s = put_value(n, NULL, out);
    copse_value_release(&out);
    if (!s)
        s = copse_strategy_reduce(st, op, v, &axes[1], &out);
    if (!s)
        s = put_value(n, NULL, out);
    copse_value_release(&out);
    if (!s)
        s = copse_strategy_reduce_to(st, op, v, NULL, &out);
    for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
        const uint32_t rank = copse_strategy_first_rank(st) + r;
        s = put_value(n, &rank, copse_value_item(out, r));
    }
    copse_value_release(&out);
    copse_value_release(&v);
    COPSE_TRY(s);
    COPSE_TRY(per_rank(st, type, 4, &v)); /* ragged along the axis */
    s = copse_strategy_reduce(st, op, v, &axes[0], &out);
    if (!s)
        s = put_value(n, NULL, out);
    copse_value_release(&out);
    copse_value_release(&v);
    return s;
}

static copse_status largest(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    size_t best = 0;
    float most = -INFINITY;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        float x[2 * WIDTH];
        COPSE_TRY(copse_value_read(values[i], x));
        if (x[1] > most) {
            most = x[1];
            best = i;
        }
    }
    *out = copse_value_retain(values[best]);
    return COPSE_OK;
}

static copse_status put_accumulated(copse_strategy *st, struct numbers *n)
{
    const struct copse_cross_device_params own = { .kind = COPSE_CROSS_TO_ONE,
                                                   .accumulate = largest };
    copse_cross_device *x;
    copse_value *v = NULL, *out = NULL;
    COPSE_TRY(copse_cross_device_create(ctx, &own, &x));
    copse_status s = per_rank(st, COPSE_F32, 1, &v);
    if (!s)
        s = copse_cross_reduce(x, st, COPSE_REDUCE_MEAN, v, NULL, &out);
    if (!s)
        s = put_value(n, NULL, copse_value_item(out, 0));
    copse_value_release(&out);
    copse_value_release(&v);
    copse_cross_device_release(&x);
    return s;
}

/* A dense and a sparse value in one batch. */
static copse_status put_batch(copse_strategy *st, struct numbers *n)
{
    copse_value *c[RANKS] = { NULL }, *v[2] = { NULL }, *out[2] = { NULL }, *dense;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++) {
        const uint32_t rank = copse_strategy_first_rank(st) + r;
        const int32_t row = (int32_t)(rank % 3);
        s = copse_value_sparse(
            ctx, &(struct copse_sparse_params){ COPSE_SHAPE(3, WIDTH), 1, &row, features() + rank },
            &c[r]);
    }
    if (!s)
        s = copse_value_per_replica(st, c, copse_strategy_replicas(st), &v[0]);
    for (uint32_t r = 0; r < RANKS; r++)
        copse_value_release(&c[r]);
    if (!s)
        s = per_rank(st, COPSE_F32, 1, &v[1]);
    if (!s)
        s = copse_strategy_batch_reduce_to(st, COPSE_REDUCE_MEAN, v, NULL, 2, out);
    if (!s)
        s = put_value(n, NULL, copse_value_item(out[1], 0));
    if (!s)
        s = copse_value_densify(copse_value_item(out[0], 0), &dense);
    if (!s) {
        s = put_value(n, NULL, dense);
        copse_value_release(&dense);
    }
    for (int i = 0; i < 2; i++) {
        copse_value_release(&v[i]);
        copse_value_release(&out[i]);
    }
    return s;
}

static copse_status value_numbers(copse_strategy *st, struct numbers *n)
{
    for (uint32_t op = 0; op < 2; op++)
        for (uint32_t type = 0; type < 2; type++)
            COPSE_TRY(put_reduced(st, n, (copse_reduce_op)op, type ? COPSE_I32 : COPSE_F32));
    COPSE_TRY(put_batch(st, n));
    return put_accumulated(st, n);
}

/* ---- contexts, and variables that replicas change ---- */

struct in_run {
    struct numbers *n;
    copse_variable *v[5]; /* mirrored SUM, MEAN, first; replica-local SUM, MEAN */
};

static copse_status one_replica(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    struct in_run *u = user;
    const uint32_t id = copse_replica_id(rc);
    copse_value *own, *sum;
    const float x[2] = { row_value(7 * id), row_value(7 * id + 1) };
    (void)args, (void)count, (void)result;
    put_each(u->n, id, copse_replica_count(rc));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), x, &own));
    copse_status s = copse_replica_all_reduce(rc, COPSE_REDUCE_MEAN, own, &sum);
    if (!s) {
        s = put_value(u->n, &id, sum);
        copse_value_release(&sum);
    }
    for (size_t i = 0; i < 5 && !s; i++)
        s = i % 2 ? copse_assign_add(u->v[i], own) : copse_assign_sub(u->v[i], own);
    for (size_t i = 0; i < 5 && !s; i++) {
        s = copse_read(u->v[i], &sum);
        if (!s) {
            s = put_value(u->n, &id, sum);
            copse_value_release(&sum);
        }
    }
    copse_value_release(&own);
    return s;
}

static copse_status variable_numbers(copse_strategy *st, struct numbers *n)
{
    static const struct copse_variable_params kinds[] = {
        { .name = "sum", .aggregation = COPSE_AGGREGATION_SUM },
        { .name = "mean", .aggregation = COPSE_AGGREGATION_MEAN },
        { .name = "first", .aggregation = COPSE_AGGREGATION_ONLY_FIRST_REPLICA },
        { .name = "local sum",
          .aggregation = COPSE_AGGREGATION_SUM,
          .synchronization = COPSE_SYNC_ON_READ },
        { .name = "local mean",
          .aggregation = COPSE_AGGREGATION_MEAN,
          .synchronization = COPSE_SYNC_ON_READ },
    };
    static const float start[] = { 0.1f, -7 };
    struct in_run u = { .n = n };
    put(n, copse_strategy_replicas_in_sync(st));
    for (size_t i = 0; i < COPSE_COUNT(kinds); i++) {
        struct copse_variable_params p = kinds[i];
        p.shape = COPSE_SHAPE(2);
        p.values = start;
        COPSE_TRY(copse_variable_create(st, &p, &u.v[i]));
    }
    for (int k = 0; k < 2; k++)
        COPSE_TRY(copse_strategy_run(st, one_replica, NULL, 0, &u, NULL));
    for (size_t i = 0; i < 5; i++) {
        copse_value *all;
        float x[2];
        COPSE_TRY(copse_read(u.v[i], &all));
        const copse_status s = put_value(n, NULL, all);
        copse_value_release(&all);
        COPSE_TRY(s);
        for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
            COPSE_TRY(copse_variable_read(u.v[i], r, x));
            put_each(n, copse_strategy_first_rank(st) + r, (double)x[0]);
        }
    }
    return COPSE_OK;
}

/* ---- input ---- */

static copse_status input_numbers(copse_strategy *st, struct numbers *n)
{
    const uint32_t ranks = copse_strategy_replicas_in_sync(st), own = copse_strategy_replicas(st);
    const struct copse_input_context in = { .pipelines = ranks / own,
                                            .pipeline = copse_strategy_first_rank(st) / own,
                                            .replicas = ranks };
    struct copse_host_batch shards[RANKS];
    copse_dataset *data;
    copse_distributed *walk;
    size_t size;
    COPSE_TRY(copse_input_per_replica_batch(&in, 16 * ranks, &size));
    put(n, (double)size);
    COPSE_TRY(labelled_rows(&data));
    copse_status s = copse_distributed_create(
        ctx,
        &(struct copse_distributed_params){ .data = data,
                                            .input = in,
                                            .policy = COPSE_INPUT_DATA,
                                            .batches = { .batch = 8, .seed = 5 } },
        &walk);
    copse_dataset_release(&data);
    COPSE_TRY(s);
    put(n, (double)copse_distributed_steps(walk));
    while ((s = copse_distributed_next(walk, shards)) == COPSE_OK)
        for (uint32_t r = 0; r < own; r++) {
            const uint32_t i = in.pipeline + r * in.pipelines; /* minibatch of the step */
            put_each(n, i, (double)shards[r].count);
            put_each(n, i, (double)shards[r].index);
            put_each(n, i, shards[r].count ? (double)rig_floats(&shards[r])[0] : 0);
        }
    copse_distributed_release(&walk);
    return s == COPSE_ERR_END ? COPSE_OK : s;
}

/* ---- the table ---- */

static const struct group groups[] = {
    { "copse_tower_minimize, _forward, _steps, _slot, _slot_count, copse_replicated_run, "
      "copse_metrics_reduce",
      tower_numbers },
    { "copse_strategy_reduce, _reduce_to, _batch_reduce_to, copse_cross_reduce", value_numbers },
    { "copse_replica_id, _count, _all_reduce, copse_assign_add, _sub, copse_read, "
      "copse_variable_read, "
      "copse_strategy_replicas_in_sync",
      variable_numbers },
    { "copse_input_per_replica_batch, copse_distributed_steps, copse_distributed_next",
      input_numbers },
};

static void workers_return_the_numbers_of_one_process(void **state)
{
    (void)state;
    compare_groups(groups, COPSE_COUNT(groups));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_return_the_numbers_of_one_process),
    };
    return cmocka_run_group_tests_name("value_numbers_across", tests, open_workers, close_workers);
}
