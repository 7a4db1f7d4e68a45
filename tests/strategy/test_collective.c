/* SPDX-License-Identifier: MIT */
/* The strategy across workers, as threads of this process: initial values, sums and means, batches,
   saving, cancelling, and who differs. cluster.sh trains over MPI and Gloo between processes. */
#include <unistd.h>

#include "copse/compat/replicated.h"
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "core/train/trainer.h"
#include "core/variable/flat_store.h"
#include "tests/rig/train/train_model.h"
#include "tests/rig/workers/worker_rig.h"

#define WORKERS 3

/* ---- one number: the loss is the sum or mean over examples of w * x ---- */

struct one {
    copse_variable *v;
    bool is_sum;
    struct worker *w;
};

static copse_tensor *product(copse_graph *g, const copse_batch *in, void *user)
{
    struct one *o = user;
    if (o->w) {
        const uint32_t local = in->replica - o->w->rank * o->w->replicas;
        o->w->seen[local] = rig_x(in)->shape.dims[0];
        o->w->seen[4 + local] = in->replica * 100 + in->replicas;
    }
    copse_tensor *y = copse_mul(g, rig_x(in), copse_variable_tensor(o->v));
    return o->is_sum ? copse_sum(g, y, NULL, 0, false) : copse_mean(g, y, NULL, 0, false);
}

static copse_status make_one(copse_strategy *st, struct one *o, float first, copse_trainer **t)
{
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1), .values = &first },
        &o->v));
    const struct copse_trainer_params params = {
        .loss = product,
        .user = o,
        .reduction = o->is_sum ? COPSE_LOSS_SUM : COPSE_LOSS_MEAN,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1.0f },
    };
    return copse_trainer_create(st, &params, t);
}

static copse_status read_one(struct worker *w, copse_strategy *st, struct one *o, uint32_t at)
{
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        COPSE_TRY(copse_variable_read(o->v, r, &w->values[at + r]));
    return COPSE_OK;
}

static copse_status two_and_four(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    copse_trainer *t;
    struct copse_step_result result;
    float x[4];
    COPSE_TRY(make_one(st, &o, 10.0f, &t));
    copse_status s = copse_trainer_step(
        t, &(struct copse_host_batch){ RIG_X(1, (float[]){ 2, 4 }), .count = 2 });
    if (!s)
        s = read_one(w, st, &o, 0);
    if (!s)
        s = copse_trainer_result(t, true, &result);
    if (!s)
        w->values[8] = (float)result.loss;
    for (uint32_t step = 0; step < 100 && !s; step++) {
        for (uint32_t i = 0; i < 4; i++)
            x[i] = (float)((step * 7 + i * 3) % 11) / 7.0f - 0.7f;
        s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 1 + step % 4 });
    }
    if (!s)
        s = read_one(w, st, &o, 4);
    copse_trainer_release(&t);
    return s;
}

static void clu_4(void **unused)
{
    struct worker w[2];
    (void)unused;
    run_workers(w, 2, 1, two_and_four);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        assert_true(w[v].values[0] == 4.0f);  /* 10 - (2 + 4) */
        assert_true(w[v].values[8] == 60.0f); /* the loss of all examples */
        assert_memory_equal(&w[v].values[4], &w[0].values[4], 4);
    }
    assert_true(w[0].values[4] != 4.0f);
}

static copse_status one_to_four(struct worker *w, copse_strategy *st)
{
    static const float x[] = { 1, 2, 3, 4 };
    copse_status s = COPSE_OK;
    struct one o[2] = { { .is_sum = true }, { .is_sum = false } };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o[0], 0.0f, &t));
    s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
    if (!s)
        s = read_one(w, st, &o[0], 0);
    copse_trainer_release(&t);
    if (s)
        return s;
    /* the same variable again, with the mean */
    o[1].v = o[0].v;
    COPSE_TRY(copse_variable_assign(o[1].v, (float[]){ 0 }));
    const struct copse_trainer_params params = {
        .loss = product,
        .user = &o[1],
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1.0f },
    };
    COPSE_TRY(copse_trainer_create(st, &params, &t));
    s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 4 });
    if (!s)
        s = read_one(w, st, &o[1], 4);
    copse_trainer_release(&t);
    return s;
}

static void ops_8(void **unused)
{
    struct worker w[2];
    (void)unused;
    run_workers(w, 2, 2, one_to_four);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t r = 0; r < 2; r++) {
            assert_true(w[v].values[r] == -10.0f);
            assert_true(w[v].values[4 + r] == -2.5f);
        }
    run_workers(w, 1, 1, one_to_four); /* one worker, one replica: the same without messages */
    assert_all_ok(w, 1);
    assert_true(w[0].values[0] == -10.0f && w[0].values[4] == -2.5f);
}

/* ---- initial values ---- */

static copse_status own_values(struct worker *w, copse_strategy *st)
{
    static const float values[2][2] = { { 1, 2 }, { 9, 9 } };
    struct one o = { .is_sum = true };
    copse_variable *v;
    copse_trainer *t;
    const struct copse_variable_params params = { .name = "pair",
                                                  .shape = COPSE_SHAPE(2),
                                                  .values = values[w->rank] };
    COPSE_TRY(copse_variable_create(st, &params, &v));
    COPSE_TRY(make_one(st, &o, (float)w->rank, &t));
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < copse_strategy_replicas(st) && !s; r++)
        s = copse_variable_read(v, r, &w->values[2 * r]);
    if (!s)
        s = read_one(w, st, &o, 4);
    copse_trainer_release(&t);
    return s;
}

static void clu_3(void **unused)
{
    struct worker w[2];
    (void)unused;
    run_workers(w, 2, 2, own_values);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t r = 0; r < 2; r++) {
            assert_true(w[v].values[2 * r] == 1.0f && w[v].values[2 * r + 1] == 2.0f);
            assert_true(w[v].values[4 + r] == 0.0f);
        }
}

/* ---- batches ---- */

static copse_status batch_of_eight(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true, .w = w };
    float x[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o, 0.0f, &t));
    const copse_status s =
        copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, x), .count = 8 });
    copse_trainer_release(&t);
    w->seen[2] = copse_cluster_size(w->cluster);
    w->seen[3] = copse_cluster_rank(w->cluster);
    w->values[0] = (float)copse_strategy_first_rank(st);
    w->values[1] = (float)copse_strategy_replicas_in_sync(st);
    return s;
}

static void clu_7(void **unused)
{
    struct worker w[2];
    (void)unused;
    run_workers(w, 2, 2, batch_of_eight);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        assert_int_equal(w[v].seen[0], 2); /* per replica */
        assert_int_equal(w[v].seen[1], 2);
        assert_int_equal(w[v].seen[2], 2); /* pipelines */
        assert_int_equal(w[v].seen[3], v); /* and which */
        assert_int_equal(w[v].seen[4], 200 * v + 4);
        assert_int_equal(w[v].seen[5], 200 * v + 104);
        assert_true(w[v].values[0] == 2.0f * (float)v && w[v].values[1] == 4.0f);
    }
}

/* ---- saving ---- */

static char folder[] = "/tmp/copse_collective_XXXXXX";

static copse_status save(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o, 3.0f, &t));
    snprintf(w->path, sizeof w->path, "%s/%u.safetensors", folder, w->rank);
    copse_status s = copse_trainer_save(t, w->path);
    if (!s) { /* what the chief cannot write, nobody has saved */
        char path[96];
        snprintf(path, sizeof path, "%s/nowhere/file", folder);
        w->seen[0] = copse_trainer_save(t, path);
        snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    }
    copse_trainer_release(&t);
    return s;
}

/* The chief's path counts. Where it has none, all hear of it; the others need none. */
static copse_status save_without_paths(struct worker *w, copse_strategy *st)
{
    const bool is_chief = w->rank == 0;
    struct one o = { .is_sum = true };
    copse_trainer *t;
    char path[96];
    copse_status s;
    COPSE_TRY(make_one(st, &o, 3.0f, &t));
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    w->seen[0] = copse_trainer_save(t, is_chief ? "" : path);
    w->seen[1] = copse_trainer_checkpoint(t, is_chief ? NULL : path, NULL);
    w->seen[2] = copse_trainer_restore(t, is_chief ? "" : path, NULL, NULL);
    w->seen[3] = copse_replicated_checkpoint(st, is_chief ? "" : path, NULL);
    w->seen[4] = copse_replicated_restore(st, is_chief ? NULL : path, NULL, NULL);
    s = copse_trainer_save(t, is_chief ? path : NULL);
    s = s ? s : copse_trainer_checkpoint(t, is_chief ? path : "", NULL);
    s = s ? s : copse_trainer_restore(t, is_chief ? path : "", NULL, NULL);
    s = s ? s : copse_replicated_checkpoint(st, is_chief ? path : NULL, NULL);
    s = s ? s : copse_replicated_restore(st, is_chief ? path : NULL, NULL, NULL);
    copse_trainer_release(&t);
    return s;
}

static void clu_6(void **unused)
{
    struct worker w[WORKERS];
    (void)unused;
    assert_non_null(mkdtemp(folder));
    run_workers(w, WORKERS, 1, save);
    assert_all_ok(w, WORKERS);
    for (uint32_t v = 0; v < WORKERS; v++)
        assert_int_equal(access(w[v].path, F_OK) == 0, v == 0);
    assert_int_equal(w[0].seen[0], COPSE_ERR_IO);
    assert_int_equal(w[1].seen[0], COPSE_ERR_COMM);
    assert_non_null(strstr(w[1].text, "save: worker 0 failed"));
    unlink(w[0].path);
    run_workers(w, WORKERS, 1, save_without_paths);
    assert_all_ok(w, WORKERS);
    for (uint32_t i = 0; i < 5; i++) {
        const bool is_read = i == 2 || i == 4; /* the chief's verdict, as it is */
        assert_int_equal(w[0].seen[i], COPSE_ERR_ARGUMENT);
        assert_int_equal(w[1].seen[i], is_read ? COPSE_ERR_ARGUMENT : COPSE_ERR_COMM);
    }
    snprintf(w[0].path, sizeof w[0].path, "%s/state.safetensors", folder);
    unlink(w[0].path);
    rmdir(folder);
}

/* ---- who differs ---- */

static copse_status other_shape(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    copse_variable *v;
    copse_trainer *t;
    const struct copse_variable_params params = { .name = "bias",
                                                  .shape = COPSE_SHAPE(w->rank == 1 ? 3 : 4) };
    COPSE_TRY(copse_variable_create(st, &params, &v));
    return make_one(st, &o, 0.0f, &t);
}

static copse_status other_rate(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = w->rank == 2 };
    copse_trainer *t;
    return make_one(st, &o, 0.0f, &t);
}

static copse_status other_batch(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    float x[4] = { 1, 2, 3, 4 };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o, 0.0f, &t));
    copse_status s = copse_trainer_step(
        t, &(struct copse_host_batch){ RIG_X(1, x), .count = w->rank == 1 ? 3 : 4 });
    copse_trainer_release(&t);
    return s;
}

static void the_worker_that_differs_is_named(void **unused)
{
    struct worker w[WORKERS];
    (void)unused;
    run_workers(w, WORKERS, 1, other_shape);
    for (uint32_t v = 0; v < WORKERS; v++)
        if (w[v].status != COPSE_ERR_ARGUMENT || !strstr(w[v].text, "variable 'bias' f32 [3]") ||
            !strstr(w[v].text, "variable 'bias' f32 [4]") ||
            !strstr(w[v].text, v == 1 ? "worker 0 (h0:1) is at" : "worker 1 (h1:1) is at"))
            fail_msg("worker %u: %s", v, w[v].text);
    run_workers(w, WORKERS, 1, other_rate);
    for (uint32_t v = 0; v < WORKERS; v++)
        if (w[v].status != COPSE_ERR_ARGUMENT ||
            !strstr(w[v].text, "worker 2 (h2:1) differs in the settings of the trainer: it has "
                               "'loss 1', the first worker 'loss 0'"))
            fail_msg("worker %u: %s", v, w[v].text);
    run_workers(w, WORKERS, 1, other_batch);
    for (uint32_t v = 0; v < WORKERS; v++)
        assert_int_equal(w[v].status, COPSE_ERR_ARGUMENT);
    if (!strstr(w[0].text, "worker 1 (h1:1) has another step or another batch"))
        fail_msg("%s", w[0].text);
}

/* ---- a step that one worker does not take ---- */

static copse_status cancel_one(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    float x[4] = { 1, 2, 3, 4 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 4 };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o, 0.0f, &t));
    if (w->rank == 1)
        copse_trainer_cancel(t);
    w->seen[0] = copse_trainer_step(t, &batch);
    copse_status s = read_one(w, st, &o, 0);
    if (!s) /* the next one is as if nothing had been */
        s = copse_trainer_step(t, &batch);
    if (!s)
        s = read_one(w, st, &o, 4);
    /* a batch that is refused on one worker is on all */
    w->seen[1] = copse_trainer_step(t, w->rank == 2 ? NULL : &batch);
    if (!s)
        s = copse_trainer_step(t, &batch);
    if (!s)
        s = read_one(w, st, &o, 8);
    copse_trainer_release(&t);
    return s;
}

static void a_step_is_taken_by_all_or_none(void **unused)
{
    struct worker w[WORKERS];
    (void)unused;
    run_workers(w, WORKERS, 1, cancel_one);
    assert_all_ok(w, WORKERS);
    for (uint32_t v = 0; v < WORKERS; v++) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_CANCELLED);
        assert_int_equal(w[v].seen[1], COPSE_ERR_ARGUMENT);
        assert_true(w[v].values[0] == 0.0f && w[v].values[4] == -10.0f);
        assert_true(w[v].values[8] == -20.0f);
    }
}

static copse_status lose_one(struct worker *w, copse_strategy *st)
{
    struct one o = { .is_sum = true };
    float x[4] = { 1, 2, 3, 4 };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = 4 };
    copse_trainer *t;
    COPSE_TRY(make_one(st, &o, 0.0f, &t));
    copse_status s = copse_trainer_step(t, &batch);
    if (!s && w->rank == 1)
        copse__local_hub_kill(w->hub, 1);
    if (!s)
        s = copse_trainer_step(t, &batch);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    w->seen[0] = s;
    w->seen[1] = copse_trainer_step(t, &batch); /* and then never again */
    copse_trainer_release(&t);
    return COPSE_OK;
}

static void a_lost_worker_ends_training(void **unused)
{
    struct worker w[WORKERS];
    (void)unused;
    run_workers(w, WORKERS, 1, lose_one);
    for (uint32_t v = 0; v < WORKERS; v += 2) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_COMM);
        /* the step was cut short, or the cluster is known to have failed */
        assert_true(w[v].seen[1] == COPSE_ERR_DEVICE_LOST || w[v].seen[1] == COPSE_ERR_COMM);
        if (!strstr(w[v].text, "lost worker 1 (h1:1)"))
            fail_msg("worker %u: %s", v, w[v].text);
    }
}

/* ---- a network ---- */

static uint32_t ahead; /* batches that every second worker uploads ahead of their steps */

/* Step `i` of 20, on a batch that was fed where there is `prefetch`. */
static copse_status train_batch(copse_trainer *t, uint32_t i, uint32_t prefetch, const float *x,
                                const int32_t *y)
{
    for (uint32_t k = i + copse_trainer_fed(t); k < 20 && k <= i + prefetch; k++) {
        const size_t first = k * 30 % 170, count = k % 3 ? 30 : 3;
        const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x + first * MODEL_IN, y + first),
                                                .count = count, .first = (uint32_t)first };
        if (prefetch == 0)
            return copse_trainer_step(t, &batch);
        if (copse_trainer_fed(t) < prefetch)
            COPSE_TRY(copse_trainer_feed(t, &batch));
    }
    return copse_trainer_step(t, NULL);
}

static copse_status train_model(struct worker *w, copse_strategy *st)
{
    static float x[MODEL_ROWS * MODEL_IN];
    static int32_t y[MODEL_ROWS];
    struct model m = { .dropout = 0.2f };
    copse_trainer *t;
    size_t at = 0;
    if (w->rank == 0)
        model_data(x, y);
    uint32_t mine = 0, all[COPSE_MAX_WORKERS]; /* the data is there */
    COPSE_TRY(copse__cluster_allgather(w->cluster, &mine, all, 4, "data"));
    COPSE_TRY(model_create(&m, st));
    const struct copse_trainer_params params = {
        .loss = model_loss,
        .user = &m,
        .seed = 5,
        .prefetch = w->rank % 2 ? ahead : 0,
    };
    COPSE_TRY(copse_trainer_create(st, &params, &t));
    copse_status s = COPSE_OK;
    double sum = 0;
    for (uint32_t step = 0; step < 20 && !s; step++) {
        struct copse_step_result result;
        s = train_batch(t, step, params.prefetch, x, y);
        if (!s)
            s = copse_trainer_result(t, true, &result);
        if (!s)
            sum += result.loss + result.reports[0];
    }
    for (uint32_t i = 0; i < 3 && !s; i++) {
        float bias[32];
        s = copse_variable_read(m.variables[2 * i + 1], copse_strategy_replicas(st) - 1, bias);
        const size_t n = m.variables[2 * i + 1]->count;
        memcpy(w->values + at, bias, 4 * n);
        at += n;
    }
    w->values[at] = (float)sum;
    copse_trainer_release(&t);
    return s;
}

/* 4 workers with one replica, 2 with two, one with four: the same bits, the losses too. */
static void check_bits(uint32_t ahead_in_jobs)
{
    struct worker one[1], two[2], four[4];
    const uint32_t count = found_count;
    found_count = 1; /* the first device everywhere */
    run_workers(one, 1, 4, train_model);
    ahead = ahead_in_jobs;
    run_workers(two, 2, 2, train_model);
    run_workers(four, 4, 1, train_model);
    ahead = 0;
    found_count = count;
    assert_all_ok(one, 1);
    assert_all_ok(two, 2);
    assert_all_ok(four, 4);
    for (uint32_t v = 0; v < 2; v++)
        assert_memory_equal(two[v].values, one[0].values, sizeof one[0].values);
    for (uint32_t v = 0; v < 4; v++)
        assert_memory_equal(four[v].values, one[0].values, sizeof one[0].values);
    assert_true(one[0].values[0] != 0.0f);
}

static void a_network_trains_to_the_same_bits(void **unused)
{
    (void)unused;
    check_bits(0);
}

/* Some workers upload ahead, others do not: nobody else's affair. */
static void batches_ahead_keep_the_bits(void **unused)
{
    (void)unused;
    check_bits(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clu_3),
        cmocka_unit_test(clu_4),
        cmocka_unit_test(clu_6),
        cmocka_unit_test(clu_7),
        cmocka_unit_test(ops_8),
        cmocka_unit_test(the_worker_that_differs_is_named),
        cmocka_unit_test(a_step_is_taken_by_all_or_none),
        cmocka_unit_test(a_lost_worker_ends_training),
        cmocka_unit_test(a_network_trains_to_the_same_bits),
        cmocka_unit_test(batches_ahead_keep_the_bits),
    };
    return cmocka_run_group_tests_name("collective", tests, open_workers, close_workers);
}
