/* SPDX-License-Identifier: MIT */
/* Tower optimizers and replicated models, on the host alone and over every kind of device found. */
#include <math.h>

#include "copse/compat/train_step.h"
#include "core/compat/tower.h"
#include "tests/rig/train/tower_rig.h"

/* ---- the model: sum |c x - y| for each variable, each with its optimizer ---- */

static copse_tensor *distance_of(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *d = product_of(g, in, user);
    d = copse_sub(g, d, rig_y(in));
    d = copse_abs(g, d);
    return copse_sum(g, d, NULL, 0, false);
}

static copse_status train_model(copse_replica_context *rc, const struct copse_model_call *call,
                                struct copse_model_spec *spec)
{
    struct model *m = call->user;
    CHECK(m->calls++ % copse_replica_count(rc) == copse_replica_id(rc));
    for (size_t i = 0; i < m->count; i++) {
        const struct copse_tower_loss of = {
            .loss = distance_of, .user = m->variables[i], .x = call->features, .y = call->labels
        };
        copse_value *loss;
        if (i + 1 == m->count && m->silent == copse_replica_id(rc))
            continue;
        COPSE_TRY(copse_tower_minimize(m->optimizers[i], &of, &m->variables[i], 1, i == 0, &loss));
        if (i == 0)
            spec->loss = loss;
        else
            copse_value_release(&loss);
    }
    return COPSE_OK;
}

static double train(copse_strategy *st, struct model *m, copse_loss_reduction reduction,
                    const float *x, uint32_t count)
{
    const struct copse_replicated_params p = { train_model, m, reduction };
    struct copse_replicated_result result;
    copse_value *features = row(x, count), *labels = row(x, count);
    OK(copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, features, labels, &result));
    assert_null(result.outputs);
    copse_value_release(&features);
    copse_value_release(&labels);
    return result.loss;
}

static void two_1(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(2, mixed);
        struct model m = {
            { make_one(st, 10) }, { optimizer(st, COPSE_SGD, 1) }, 1, UINT32_MAX, 0
        };
        assert_true(train(st, &m, COPSE_LOSS_MEAN, (const float[]){ 1, 2 }, 2) == 13.5);
        all_are(m.variables[0], 8.5f);
        OK(copse_variable_assign(m.variables[0], (const float[]){ 10 }));
        assert_true(train(st, &m, COPSE_LOSS_SUM, (const float[]){ 1, 2 }, 2) == 27);
        all_are(m.variables[0], 7);
        assert_true(train(st, &m, COPSE_LOSS_SUM, (const float[]){ 1.5f, 2.5f }, 2) == 24);
        all_are(m.variables[0], 3);
        release_model(&m);
    }
}

static void two_2(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(2, mixed);
        copse_variable *c = make_one(st, 10);
        struct model m = { { c, c },
                           { optimizer(st, COPSE_SGD, 1), optimizer(st, COPSE_ADAM, 1) },
                           2,
                           UINT32_MAX,
                           0 };
        train(st, &m, COPSE_LOSS_SUM, (const float[]){ 1, 2 }, 2);
        all_are(c, 6);
        release_model(&m);
        m = (struct model){ { make_one(st, 10), make_one(st, 2) },
                            { optimizer(st, COPSE_SGD, 1), optimizer(st, COPSE_SGD, 1) },
                            2,
                            UINT32_MAX,
                            0 };
        train(st, &m, COPSE_LOSS_SUM, (const float[]){ 1, 2 }, 2);
        all_are(m.variables[0], 7);
        all_are(m.variables[1], -1);
        release_model(&m);
    }
}

/* ---- recordings ---- */

enum { ROUNDS = 14 };

static void train_on_sizes(copse_strategy *st, uint32_t limit, float out[ROUNDS])
{
    struct model m = { { make_one(st, 10) }, { NULL }, 1, UINT32_MAX, 0 };
    const struct copse_tower_params p = {
        .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.3f }, .recordings = limit
    };
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = sinf((float)i) + 1.5f;
    OK(copse_tower_create(st, &p, &m.optimizers[0]));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        train(st, &m, COPSE_LOSS_MEAN, x, 2 * (1 + i * 5 % 12));
        out[i] = component(m.variables[0], 0);
        assert_true(out[i] == component(m.variables[0], 1));
        for (int r = 0; r < 2; r++)
            assert_int_equal(m.optimizers[0]->computing.recordings[r].count,
                             COPSE_MIN(COPSE_MIN(i + 1, 12), limit));
    }
    release_model(&m);
}

/* Arguments of ever new shapes: few recordings are kept, and no bit depends on how many. */
static void recordings_are_bounded(void **unused)
{
    float want[ROUNDS], got[ROUNDS];
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(2, mixed);
        train_on_sizes(st, 20, want);
        for (uint32_t limit = 1; limit <= 4; limit += 3) {
            train_on_sizes(st, limit, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

/* A shape that comes again between new ones stays. */
static void used_recording_stays(void **unused)
{
    copse_strategy *st = strategy_of(1, 0);
    struct model m = { { make_one(st, 10) }, { NULL }, 1, UINT32_MAX, 0 };
    const struct copse_tower_params p = { .optimizer = { .learning_rate = 0.1f }, .recordings = 2 };
    static const float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    (void)unused;
    OK(copse_tower_create(st, &p, &m.optimizers[0]));
    train(st, &m, COPSE_LOSS_MEAN, x, 8);
    train(st, &m, COPSE_LOSS_MEAN, x, 1);
    const struct copse_recordings *tapes = &m.optimizers[0]->computing.recordings[0];
    const struct copse_recording *first = tapes->at[0];
    for (uint32_t n = 2; n <= 7; n++) {
        train(st, &m, COPSE_LOSS_MEAN, x, n);
        train(st, &m, COPSE_LOSS_MEAN, x, 1);
        assert_ptr_equal(tapes->at[0], first);
        assert_int_equal(tapes->at[1]->inputs[0].is.shape.dims[0], n);
    }
    release_model(&m);
}

/* ---- the N-th call ---- */

static copse_status holds(copse_variable *v, float x)
{
    copse_value *now;
    float f = 0;
    COPSE_TRY(copse_read(v, &now));
    const copse_status s = copse_value_read(now, &f);
    copse_value_release(&now);
    CHECK(s == COPSE_OK && f == x);
    return COPSE_OK;
}

/* c has a gradient of 2 on every replica, d one of 5 on replica 0 alone. */
static copse_status give_and_look(copse_replica_context *rc, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    const struct calls *k = user;
    const uint32_t r = copse_replica_id(rc), n = copse_replica_count(rc);
    (void)args, (void)count, (void)result;
    COPSE_TRY(holds(k->c, 100));
    COPSE_TRY(give(k, r == 0));
    CHECK(copse_tower_is_used(k->t));
    if (r + 1 < n) {
        COPSE_TRY(holds(k->c, 100));
        COPSE_TRY(holds(k->d, 100));
        CHECK(copse_tower_steps(k->t) == 0 && copse_tower_slot_count(k->t) == 0);
        CHECK(copse_global_step(copse_replica_strategy(rc)) == 7);
        return COPSE_OK;
    }
    COPSE_TRY(holds(k->c, 100 - 2 * (float)n));
    COPSE_TRY(holds(k->d, 95));
    CHECK(copse_tower_steps(k->t) == 1);
    CHECK(copse_global_step(copse_replica_strategy(rc)) == 8);
    return COPSE_OK;
}

static float slot_of(copse_tower_optimizer *t, copse_variable *v, const char *name)
{
    copse_value *slot;
    OK(copse_tower_slot(t, v, name, &slot));
    const float x = scalar_of(slot);
    copse_value_release(&slot);
    return x;
}

static void two_3(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct calls k = { make_one(st, 100), make_one(st, 100), optimizer(st, COPSE_MOMENTUM, 1),
                           0 };
        const char *const *names, *name;
        copse_value *none;
        size_t count;
        assert_false(copse_tower_is_used(k.t));
        copse_global_step_set(st, 7);
        OK(copse_strategy_run(st, give_and_look, NULL, 0, &k, NULL));
        OK(copse_tower_finish(k.t));
        all_are(k.c, 100 - 2 * (float)n);
        all_are(k.d, 95);
        OK(copse_tower_slot_names(k.t, &names, &count));
        OK(copse_tower_name(k.t, &name));
        assert_true(count == 1 && strcmp(names[0], "v") == 0 && strcmp(name, "momentum") == 0);
        assert_int_equal(copse_tower_slot_count(k.t), 2);
        assert_true(slot_of(k.t, k.c, "v") == 2 * (float)n && slot_of(k.t, k.d, "v") == 5);
        OK(copse_tower_slot(k.t, k.c, "m", &none));
        assert_null(none);
        OK(copse_tower_slot(k.t, make_one(st, 1), "v", &none));
        assert_null(none);
        copse_tower_release(&k.t);
    }
}

/* ---- refusals, and the split ---- */

static copse_status look_at_parts(copse_replica_context *rc, const struct copse_model_call *call,
                                  struct copse_model_spec *spec)
{
    float x[2];
    const copse_value *a = copse_value_find(call->features, "a");
    CHECK(a && copse_value_shape(a).dims[0] == 2 && !call->labels);
    COPSE_TRY(copse_value_read(a, x));
    CHECK(x[0] == 2 * (float)copse_replica_id(rc) && x[1] == x[0] + 1);
    CHECK(copse_value_count(copse_value_find(call->features, "s")) ==
          (copse_replica_id(rc) ? 0 : 2));
    spec->outputs = copse_value_retain(call->features);
    return copse_value_scalar(ctx, 1, &spec->loss);
}

static copse_status try_to_apply(const struct model *m)
{
    REFUSED(COPSE_ERR_CONTEXT, copse_tower_apply(m->optimizers[0], NULL, 0, false), "graph");
    return COPSE_OK;
}

static copse_tensor *apply_in_loss(copse_graph *g, const copse_batch *in, void *user)
{
    struct model *m = user;
    COPSE_GRAPH_TRY(g, try_to_apply(m));
    return product_of(g, in, m->variables[0]);
}

static copse_status misuse_model(copse_replica_context *rc, const struct copse_model_call *call,
                                 struct copse_model_spec *spec)
{
    struct model *m = call->user;
    copse_value *x = scalar(1), *wide = row((const float[]){ 1, 2 }, 2);
    struct copse_tower_gradient pairs[2] = { { x, m->variables[0] }, { x, m->variables[0] } };
    const struct copse_tower_loss of = { .loss = apply_in_loss, .user = m, .x = wide };
    (void)rc;
    REFUSED(COPSE_ERR_ARGUMENT, copse_tower_apply(m->optimizers[0], pairs, 2, false), "twice");
    pairs[0].gradient = wide;
    REFUSED(COPSE_ERR_SHAPE, copse_tower_apply(m->optimizers[0], pairs, 1, false), "its gradient");
    REFUSED(COPSE_ERR_SHAPE, copse_tower_compute(m->optimizers[0], &of, pairs, 1, NULL), "scalar");
    REFUSED(COPSE_ERR_CONTEXT, copse_tower_finish(m->optimizers[0]), "end of a step");
    copse_value_release(&x);
    copse_value_release(&wide);
    (void)spec;
    return copse_fail(COPSE_ERR_CANCELLED, "the model's own");
}

static void two_4(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(2, mixed);
        struct model m = { { make_one(st, 10), make_one(st, 2) },
                           { optimizer(st, COPSE_SGD, 1), optimizer(st, COPSE_SGD, 1) },
                           2,
                           1,
                           0 };
        struct copse_replicated_params p = { train_model, &m, COPSE_LOSS_SUM };
        struct copse_replicated_result result;
        const float numbers[] = { 0, 1, 2, 3 };
        const struct copse_sparse_params slices = { COPSE_SHAPE(3), 2, (const int32_t[]){ 0, 1 },
                                                    numbers };
        copse_value *three = row(numbers, 3), *four = row(numbers, 4), *sparse, *nest;
        OK(copse_value_sparse(ctx, &slices, &sparse));
        OK(copse_value_dict(ctx, (const char *const[]){ "a", "s" },
                            (copse_value *[]){ four, sparse }, 2, &nest));
        FAILS(COPSE_ERR_ARGUMENT,
              copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, three, three, &result), "3 rows");
        assert_int_equal(m.calls, 0);
        /* replica 1 leaves one call of the second optimizer out, which then does nothing */
        FAILS(COPSE_ERR_CONTEXT,
              copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, four, four, &result),
              "replica 1 handed gradients over 0 times, replica 0 1 times");
        all_are(m.variables[1], 2);
        m.silent = UINT32_MAX; /* and nothing of it is left */
        OK(copse_variable_assign(m.variables[1], (const float[]){ 2 }));
        OK(copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, four, four, &result));
        all_are(m.variables[1], 2 - 6);
        FAILS(COPSE_ERR_ARGUMENT, copse_tower_apply(m.optimizers[0], NULL, 0, false),
              "no replica has a gradient");
        p.model = misuse_model;
        FAILS(COPSE_ERR_CANCELLED,
              copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, NULL, NULL, &result),
              "the model's own");
        p.model = look_at_parts;
        FAILS(COPSE_ERR_ARGUMENT,
              copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, nest, NULL, &result),
              "tower optimizer");
        copse_value_release(&three);
        copse_value_release(&four);
        copse_value_release(&sparse);
        copse_value_release(&nest);
        release_model(&m);
    }
}

/* ---- evaluation ---- */

static copse_variable *make_state(copse_strategy *st)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("state"),
                                             .shape = COPSE_SCALAR,
                                             .synchronization = COPSE_SYNC_ON_READ,
                                             .aggregation = COPSE_AGGREGATION_SUM };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

struct metrics {
    copse_variable *states[4];
    bool is_uneven;
};

static copse_status measure(copse_replica_context *rc, const struct copse_model_call *call,
                            struct copse_model_spec *spec)
{
    const struct metrics *m = call->user;
    const uint32_t r = copse_replica_id(rc);
    copse_value *state = scalar(1.3f * (float)(r + 1));
    spec->metric_count = m->is_uneven ? (r == 0 ? 4 : 3) : 1;
    memcpy(spec->metrics, m->states, sizeof m->states);
    const copse_status s = copse_assign(m->states[0], state);
    copse_value_release(&state);
    return s ? s : copse_value_scalar(ctx, 2 * (float)(r + 1), &spec->loss);
}

static void two_5(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(3, mixed);
        struct metrics m = { .is_uneven = false };
        struct copse_replicated_params p = { measure, &m, COPSE_LOSS_SUM };
        struct copse_replicated_result result;
        copse_variable *mirrored = make_one(st, 1);
        for (uint32_t i = 0; i < 4; i++)
            m.states[i] = make_state(st);
        OK(copse_replicated_run(st, &p, COPSE_MODEL_EVAL, NULL, NULL, &result));
        assert_true(result.loss == 12);
        const float sum = component(m.states[0], 0);
        assert_true(fabsf(sum - 7.8f) <= 1e-6f);
        for (int turn = 0; turn < 20; turn++) {
            OK(copse_metrics_reduce(st, m.states, 1));
            assert_true(component(m.states[0], 0) == sum);
            assert_true(component(m.states[0], 1) == 0 && component(m.states[0], 2) == 0);
        }
        p.reduction = COPSE_LOSS_MEAN;
        OK(copse_replicated_run(st, &p, COPSE_MODEL_EVAL, NULL, NULL, &result));
        assert_true(fabs(result.loss - 4) <= 1e-6);
        m.is_uneven = true;
        FAILS(COPSE_ERR_ARGUMENT,
              copse_replicated_run(st, &p, COPSE_MODEL_EVAL, NULL, NULL, &result),
              "10 metric states over 3");
        FAILS(COPSE_ERR_ARGUMENT, copse_metrics_reduce(st, &mirrored, 1), "is mirrored");
    }
}

/* ---- against the trainer ---- */

#define WIDTH 5u
#define ROWS  4u /* of a replica */

static copse_tensor *squares_of(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *d = product_of(g, in, user);
    d = copse_sub(g, d, rig_y(in));
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}

static copse_status minimize_squares(copse_replica_context *rc, const struct copse_model_call *call,
                                     struct copse_model_spec *spec)
{
    const struct model *m = call->user;
    const struct copse_tower_loss of = {
        .loss = squares_of, .user = m->variables[0], .x = call->features, .y = call->labels
    };
    (void)rc;
    return copse_tower_minimize(m->optimizers[0], &of, m->variables, 1, true, &spec->loss);
}

static int factories;

static copse_status adam(void *user, struct copse_optimizer_params *out)
{
    factories += user == NULL;
    *out = (struct copse_optimizer_params){ .kind = COPSE_ADAM, .learning_rate = 0.1f };
    return COPSE_OK;
}

/* The same batches to a trainer and to towers; the same bits. */
static void trains_like_a_trainer(copse_strategy *st, uint32_t n)
{
    static float x[MAX_RANKS * ROWS * WIDTH], y[MAX_RANKS * ROWS * WIDTH];
    const float start[WIDTH] = { 1, -2, 3, 0.5f, 0 };
    copse_variable *a = make(st, COPSE_SHAPE(WIDTH), start),
                   *b = make(st, COPSE_SHAPE(WIDTH), start);
    struct model m = { .variables = { b } };
    const struct copse_replicated_params p = { minimize_squares, &m, COPSE_LOSS_MEAN };
    const struct copse_tower_params tower = { .factory = adam };
    struct copse_trainer_params params = { .loss = squares_of,
                                           .user = a,

                                           .variables = &a,
                                           .variable_count = 1 };
    copse_trainer *t;
    OK(adam(&m, &params.optimizer));
    OK(copse_trainer_create(st, &params, &t));
    factories = 0;
    OK(copse_tower_create(st, &tower, &m.optimizers[0]));
    assert_int_equal(factories, 0);
    for (uint32_t i = 0; i < n * ROWS * WIDTH; i++) {
        x[i] = sinf((float)i * 1.7f);
        y[i] = cosf((float)i * 0.9f);
    }
    copse_value *features, *labels;
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(n * ROWS, WIDTH), x, &features));
    OK(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(n * ROWS, WIDTH), y, &labels));
    const struct copse_host_batch batch = { RIG_PAIR(WIDTH, x, WIDTH, y), .count = n * ROWS };
    for (uint32_t step = 0; step < 12; step++) {
        struct copse_replicated_result towers;
        struct copse_step_result trained;
        float from[WIDTH], to[WIDTH];
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &trained));
        OK(copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, features, labels, &towers));
        assert_true(fabs(towers.loss - trained.loss) <= 1e-6 * trained.loss);
        assert_true(n > 1 || towers.loss == trained.loss);
        OK(copse_variable_read(a, n - 1, from));
        OK(copse_variable_read(b, n - 1, to));
        assert_memory_equal(from, to, sizeof to);
        assert_true(to[0] != start[0]);
    }
    assert_int_equal(factories, 1);
    assert_int_equal(copse_tower_steps(m.optimizers[0]), 12);
    copse_value_release(&features);
    copse_value_release(&labels);
    release_model(&m);
    copse_trainer_release(&t);
}

static void two_6(void **unused)
{
    (void)unused;
    for (uint32_t f = 0; f < found_count; f++) {
        copse_strategy *st;
        OK(copse_one_device_create(ctx, found[f], NULL, &st));
        trains_like_a_trainer(st, 1);
        copse_strategy_release(&st);
    }
}

static void several_replicas_train_like_a_trainer(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    trains_like_a_trainer(st, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_1),
        cmocka_unit_test(two_2),
        cmocka_unit_test(two_3),
        cmocka_unit_test(two_4),
        cmocka_unit_test(two_5),
        cmocka_unit_test(two_6),
        cmocka_unit_test(recordings_are_bounded),
        cmocka_unit_test(used_recording_stays),
        cmocka_unit_test(several_replicas_train_like_a_trainer),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
