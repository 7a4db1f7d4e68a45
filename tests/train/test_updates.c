/* SPDX-License-Identifier: MIT */
/* Assignments that a step executes (copse_update): moving averages over all replicas, counters,
   replica-local values; and steps that change nothing. */
#include "copse/loop/feed.h"
#include "copse/train/update.h"

#include "tests/rig/graph_rig.h"
#include "tests/rig/train/step_rig.h"

#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/sync.h"
#include "core/base/base.h"
#include "core/base/random.h"

enum { WIDTH = 5, BATCH = 12, STEPS = 8, AVERAGES = 2 * WIDTH };

/* ---- a model with a normalised layer ---- */

struct averages {
    copse_variable *w, *mean, *variance, *count, *seen;
    bool has_seen;
};

/* moving = 0.75 moving + 0.25 now */
static copse_status move(copse_graph *g, copse_variable *moving, copse_tensor *now)
{
    copse_tensor *old = copse_multiply_by(g, copse_variable_tensor(moving), 0.75f);
    copse_tensor *sum = copse_multiply_by(g, now, 0.25f);
    sum = copse_add(g, old, sum);
    copse_update(g, moving, sum);
    return copse_graph_status(g);
}

static copse_status add(copse_graph *g, copse_variable *v, double amount)
{
    copse_tensor *x = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), amount);
    x = copse_add(g, copse_variable_tensor(v), x);
    copse_update(g, v, x);
    return copse_graph_status(g);
}

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    static const uint32_t axis = 0;
    const struct averages *a = user;
    copse_tensor *mean, *variance;
    const struct copse_batch_norm norm = { .mean = &mean, .variance = &variance };
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *h = copse_sync_batch_norm(g, x, &axis, 1, &norm);
    COPSE_GRAPH_TRY(g, move(g, a->mean, mean));
    COPSE_GRAPH_TRY(g, move(g, a->variance, variance));
    COPSE_GRAPH_TRY(g, add(g, a->count, 1.0));
    if (a->has_seen)
        COPSE_GRAPH_TRY(g, add(g, a->seen, copse_tensor_shape(x).dims[0]));
    /* before the update */
    copse_tensor *y = copse_sum(g, copse_variable_tensor(a->count), NULL, 0, false);
    copse_report(g, "count", y);
    h = copse_add(g, h, copse_variable_tensor(a->mean));
    h = copse_sub(g, h, copse_variable_tensor(a->w));
    h = copse_square(g, h);
    return copse_mean(g, h, NULL, 0, false);
}

static copse_variable *frozen(copse_strategy *st, const char *name, copse_shape shape,
                              copse_aggregation how, copse_synchronization sync)
{
    copse_variable *v = NULL;
    OK(copse_variable_create(st,
                             &(struct copse_variable_params){ .name = name,
                                                              .shape = shape,
                                                              .is_frozen = true,
                                                              .aggregation = how,
                                                              .synchronization = sync,
                                                              .initializer = COPSE_INIT_ZEROS },
                             &v));
    return v;
}

struct way {
    const char *const *ids;
    size_t count;
    uint32_t accumulate, prefetch, steps_per_run;
    bool is_served;
    size_t batch;
};

static copse_strategy *strategy_of(const struct way *p)
{
    const struct copse_strategy_params how = { .bucket_bytes = 64 };
    copse_strategy *st = NULL;
    if (p->steps_per_run > 0)
        OK(copse_accelerator_create(ctx, p->ids, p->count,
                                    &(struct copse_accelerator_params){
                                        .strategy = how, .steps_per_run = p->steps_per_run },
                                    &st));
    else if (p->is_served)
        OK(copse_parameter_server_create(ctx, NULL, p->ids, p->count, &how, &st));
    else if (p->count == 1)
        OK(copse_one_device_create(ctx, p->ids[0], &how, &st));
    else
        OK(copse_mirrored_create(ctx, p->ids, p->count, &how, &st));
    return st;
}

static void open_averages(const struct way *p, struct averages *a, copse_strategy **st,
                          copse_trainer **t)
{
    static const float start[WIDTH] = { 0.5f, -0.5f, 1, -1, 0 };
    *st = strategy_of(p);
    a->w = rig_variable(*st, "w", COPSE_SHAPE(1, WIDTH), start);
    a->mean = frozen(*st, "mean", COPSE_SHAPE(1, WIDTH), COPSE_AGGREGATION_MEAN, COPSE_SYNC_AUTO);
    a->variance =
        frozen(*st, "variance", COPSE_SHAPE(1, WIDTH), COPSE_AGGREGATION_MEAN, COPSE_SYNC_AUTO);
    a->count =
        frozen(*st, "count", COPSE_SHAPE(1), COPSE_AGGREGATION_ONLY_FIRST_REPLICA, COPSE_SYNC_AUTO);
    a->has_seen = !p->is_served;
    if (a->has_seen)
        a->seen = frozen(*st, "seen", COPSE_SHAPE(1), COPSE_AGGREGATION_SUM, COPSE_SYNC_ON_READ);
    OK(copse_trainer_create(
        *st,
        &(struct copse_trainer_params){ .loss = loss,
                                        .user = a,
                                        .check_numerics = !p->steps_per_run,
                                        .accumulate = p->accumulate,
                                        .prefetch = p->prefetch,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f } },
        t));
}

static struct copse_host_batch batch_at(uint32_t i, size_t count)
{
    static float x[64 * WIDTH];
    if (x[0] == 0.0f) {
        struct copse_stream s;
        copse__stream_init(&s, 11, 0);
        for (int k = 0; k < 64 * WIDTH; k++)
            x[k] = (float)copse__stream_below(&s, 1000) * 1e-3f + (float)(k % WIDTH);
    }
    return rig_kept((struct copse_host_batch){ RIG_X(WIDTH, x + i * 5 * WIDTH), .count = count });
}

static void read_averages(const struct averages *a, uint32_t replica, float *out)
{
    OK(copse_variable_read(a->mean, replica, out));
    OK(copse_variable_read(a->variance, replica, out + WIDTH));
}

/* Values of replica 0 after STEPS (micro-)batches; those of the others have the same bits. */
static void run(const struct way *p, float out[AVERAGES])
{
    struct averages a;
    copse_strategy *st;
    copse_trainer *t;
    struct copse_step_result r;
    copse_status s;
    float other[AVERAGES], seen = 0;
    const uint32_t ahead = COPSE_MAX(p->prefetch, p->steps_per_run);
    open_averages(p, &a, &st, &t);
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct copse_host_batch b = batch_at(i, p->batch);
        if (ahead > 0)
            OK(copse_trainer_feed(t, &b));
        if (p->steps_per_run == 0)
            OK(copse_trainer_step(t, ahead > 0 ? NULL : &b));
        else if ((i + 1) % p->steps_per_run == 0)
            OK(copse_trainer_run(t));
        if (i == 3) {
            float before[AVERAGES], after[AVERAGES];
            read_averages(&a, 0, before);
            OK(copse_trainer_evaluate(t, &b, &r));
            read_averages(&a, 0, after);
            assert_memory_equal(before, after, sizeof before);
            rig_near(r.reports[0], 4, 1e-5);
        }
    }
    while ((s = copse_trainer_result(t, true, &r)) == COPSE_OK)
        if (p->accumulate < 2)
            rig_near(r.reports[0], (double)r.step - 1, 1e-5);
    assert_int_equal(s, COPSE_ERR_END);
    read_averages(&a, 0, out);
    rig_near(rig_value(a.count, 0), STEPS, 0);
    for (uint32_t k = 1; k < p->count && !p->is_served; k++) {
        read_averages(&a, k, other);
        assert_memory_equal(other, out, sizeof other);
        rig_near(rig_value(a.count, k), STEPS, 0);
    }
    for (uint32_t k = 0; k < p->count && a.has_seen; k++)
        seen += rig_value(a.seen, k);
    if (a.has_seen)
        rig_near(seen, (double)(STEPS * p->batch), 0);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void near_all(const float *got, const float *want)
{
    for (int i = 0; i < AVERAGES; i++)
        rig_near(got[i], want[i], 2e-6 * (1 + fabs((double)want[i])));
}

/* What the definition gives, in double precision. */
static void expect(size_t batch, float want[AVERAGES])
{
    double moving[AVERAGES] = { 0 };
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct copse_host_batch b = batch_at(i, batch);
        for (int k = 0; k < WIDTH; k++) {
            double mean = 0, variance = 0;
            for (size_t n = 0; n < batch; n++)
                mean += (double)rig_floats(&b)[n * WIDTH + (size_t)k] / (double)batch;
            for (size_t n = 0; n < batch; n++)
                variance +=
                    pow((double)rig_floats(&b)[n * WIDTH + (size_t)k] - mean, 2) / (double)batch;
            moving[k] = 0.75 * moving[k] + 0.25 * mean;
            moving[WIDTH + k] = 0.75 * moving[WIDTH + k] + 0.25 * variance;
        }
    }
    for (int i = 0; i < AVERAGES; i++)
        want[i] = (float)moving[i];
}

static void averages_are_those_of_the_whole_batch(void **state)
{
    static const char *const cores[] = { "host:0", "host:0", "host:0" };
    /* even, uneven and empty shards of three replicas */
    static const size_t batches[] = { BATCH, 7, 2 };
    float want[AVERAGES], one[AVERAGES], got[AVERAGES];
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        expect(batches[k], want);
        for (size_t i = 0; i < 3; i++) {
            run(&(struct way){ .ids = &rig_devices[i], .count = 1, .batch = batches[k] }, one);
            near_all(one, want);
        }
        const struct way ways[] = {
            { .ids = rig_devices, .count = 3 },
            { .ids = rig_devices, .count = 3, .accumulate = 2 },
            { .ids = rig_devices, .count = 3, .prefetch = 2 },
            { .ids = rig_devices + 1, .count = 2, .prefetch = 2, .accumulate = 2 },
            { .ids = cores, .count = 3, .steps_per_run = 4 },
            { .ids = rig_devices, .count = 3, .steps_per_run = 2, .accumulate = 2 },
            { .ids = rig_devices, .count = 3, .is_served = true },
            { .ids = rig_devices, .count = 1, .is_served = true, .prefetch = 1 },
        };
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct way p = ways[i];
            p.batch = batches[k];
            run(&p, got);
            near_all(got, want);
        }
    }
}

/* ---- steps that change nothing ---- */

static void refused_step_changes_nothing(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 3; n += 2) {
        static float bad[BATCH * WIDTH];
        const struct way p = { .ids = rig_devices, .count = n };
        struct averages a;
        copse_strategy *st;
        copse_trainer *t;
        float before[AVERAGES], after[AVERAGES];
        open_averages(&p, &a, &st, &t);
        const struct copse_host_batch b = batch_at(0, BATCH),
                                      nan = { RIG_X(WIDTH, bad), .count = BATCH };
        OK(copse_trainer_step(t, &b));
        read_averages(&a, 0, before);
        for (int i = 0; i < BATCH * WIDTH; i++)
            bad[i] = i == 3 ? NAN : 1.0f;
        FAILS(COPSE_ERR_NONFINITE, copse_trainer_step(t, &nan), "nothing was changed");
        copse_trainer_cancel(t);
        FAILS(COPSE_ERR_CANCELLED, copse_trainer_step(t, &b), "cancelled");
        for (uint32_t k = 0; k < n; k++) {
            read_averages(&a, k, after);
            assert_memory_equal(before, after, sizeof before);
            rig_near(rig_value(a.count, k), 1, 0);
        }
        OK(copse_trainer_step(t, &b));
        rig_near(rig_value(a.count, 0), 2, 0);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* ---- rules ---- */

enum fault { TRAINED, TWICE, NO_AGGREGATION, OTHER_SHAPE, OTHER_TYPE, WHOLE_NUMBERS, BY_SIZE };

struct faulty {
    copse_variable *w, *v, *plain, *whole;
    enum fault fault;
};

static copse_tensor *faulty_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct faulty *m = user;
    copse_tensor *x = copse_input(in, "x");
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    copse_tensor *two = copse_fill(g, COPSE_F32, COPSE_SHAPE(2), 1.0);
    copse_tensor *whole = copse_fill(g, COPSE_I32, COPSE_SHAPE(1), 1.0);
    if (m->fault == TRAINED)
        copse_update(g, m->w, one);
    if (m->fault == TWICE || (m->fault == BY_SIZE && copse_tensor_shape(x).dims[0] == 1))
        copse_update(g, m->v, one);
    if (m->fault == TWICE)
        copse_update(g, m->v, one);
    if (m->fault == NO_AGGREGATION)
        copse_update(g, m->plain, one);
    if (m->fault == OTHER_SHAPE)
        copse_update(g, m->v, two);
    if (m->fault == OTHER_TYPE)
        copse_update(g, m->v, whole);
    if (m->fault == WHOLE_NUMBERS)
        copse_update(g, m->whole, whole);
    x = copse_mul(g, x, copse_variable_tensor(m->w));
    return copse_mean(g, x, NULL, 0, false);
}

static void rules_are_enforced(void **state)
{
    static const struct {
        copse_status code;
        const char *word;
    } wants[] = {
        [TRAINED] = { COPSE_ERR_ARGUMENT, "'w' is trained" },
        [TWICE] = { COPSE_ERR_ARGUMENT, "'v' is updated twice" },
        [NO_AGGREGATION] = { COPSE_ERR_ARGUMENT, "'plain' has no aggregation" },
        [OTHER_SHAPE] = { COPSE_ERR_SHAPE, "'v' is f32[1], the value is f32[2]" },
        [OTHER_TYPE] = { COPSE_ERR_SHAPE, "'v' is f32[1], the value is i32[1]" },
        [WHOLE_NUMBERS] = { COPSE_ERR_UNSUPPORTED, "'whole' is i32" },
        [BY_SIZE] = { COPSE_ERR_ARGUMENT, "updates other variables" },
    };
    (void)state;
    for (enum fault f = TRAINED; f <= BY_SIZE; f++) {
        copse_strategy *st = rig_strategy(2, NULL);
        struct faulty m = {
            rig_scalar(st, "w", 1.0f),
            frozen(st, "v", COPSE_SHAPE(1), COPSE_AGGREGATION_MEAN, COPSE_SYNC_AUTO),
            frozen(st, "plain", COPSE_SHAPE(1), COPSE_AGGREGATION_NONE, COPSE_SYNC_AUTO), NULL, f
        };
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = "whole",
                                             .shape = COPSE_SHAPE(1),
                                             .type = COPSE_I32,
                                             .aggregation = COPSE_AGGREGATION_MEAN },
            &m.whole));
        copse_trainer *t;
        OK(copse_trainer_create(
            st, &(struct copse_trainer_params){ .loss = faulty_loss, .user = &m }, &t));
        const struct copse_host_batch two = rig_rows(2), four = rig_rows(4);
        if (f == BY_SIZE)
            OK(copse_trainer_step(t, &four));
        FAILS(wants[f].code, copse_trainer_step(t, &two), wants[f].word);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    copse_graph *g;
    copse_strategy *st = rig_strategy(1, NULL);
    copse_variable *v = frozen(st, "v", COPSE_SHAPE(1), COPSE_AGGREGATION_MEAN, COPSE_SYNC_AUTO);
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1));
    copse_update(g, v, x);
    FAILS(COPSE_ERR_UNSUPPORTED, copse__graph_take_failure(g), "only a trainer's step");
    copse_update(g, NULL, x);
    FAILS(COPSE_ERR_ARGUMENT, copse__graph_take_failure(g), "NULL");
    copse_graph_release(&g);
    copse_strategy_release(&st);
}

static void step_allocates_nothing_after_warm_up(void **state)
{
    const struct way p = { .ids = rig_devices, .count = 3 };
    struct copse_memory_stats before, after;
    struct averages a;
    copse_strategy *st;
    copse_trainer *t;
    struct copse_step_result r;
    (void)state;
    open_averages(&p, &a, &st, &t);
    for (uint32_t i = 0; i < 40; i++) {
        const struct copse_host_batch b = batch_at(i % 8, BATCH);
        if (i == 25)
            copse_context_memory(ctx, &before);
        OK(copse_trainer_step(t, &b));
        copse_status s = COPSE_ERR_END;
        while (i % 5 == 4 && (s = copse_trainer_result(t, true, &r)) == COPSE_OK)
            continue;
        assert_int_equal(s, COPSE_ERR_END);
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.device_allocations, before.device_allocations);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_are_those_of_the_whole_batch),
        cmocka_unit_test(refused_step_changes_nothing),
        cmocka_unit_test(rules_are_enforced),
        cmocka_unit_test(step_allocates_nothing_after_warm_up),
    };
    return cmocka_run_group_tests_name("updates", tests, open_context, close_context);
}
