/* SPDX-License-Identifier: MIT */
/* Cross-device operations of the application in the steps of a trainer, over the replicas of several
   workers: the first worker's function gets what all replicas have, and what it fails with all
   workers return, before anything has changed. */
#include "tests/rig/train/own_sums.h"
#include "tests/rig/workers/worker_rig.h"

static const uint32_t layouts[][2] = { { 2, 1 }, { 3, 1 }, { 2, 2 } };

static copse_status accumulate(void *user, copse_value *const *values, size_t count,
                               copse_value **out)
{
    return own_accumulate(ctx, user, values, count, out);
}

/* Rows n, ..., 2, 1 of the whole batch, one for each replica. */
static const float all_rows[] = { 4, 3, 2, 1 }, *const rows_end = all_rows + 4;

static copse_status make_trainer(copse_strategy *st, struct own_model *m,
                                 const struct copse_optimizer_params *rule, copse_trainer **t)
{
    const struct copse_trainer_params p = {
        .loss = own_loss, .user = m, .optimizer = *rule, .reduction = COPSE_LOSS_SUM
    };
    return copse_trainer_create(st, &p, t);
}

/* Steps with a maximum; then one that fails as the job says, and one more. */
static copse_status train(struct worker *w, copse_strategy *st)
{
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = 1 };
    const uint32_t n = w->size * w->replicas;
    const struct copse_host_batch batch = { RIG_X(1, rows_end - n), .count = n };
    struct own_sums own = *(const struct own_sums *)w->job;
    const uint32_t fails_at = own.fails_at;
    struct own_model m;
    copse_trainer *t = NULL;
    own.fails_at = UINT32_MAX;
    COPSE_TRY(own_set(ctx, st, accumulate, &own, false));
    COPSE_TRY(own_model(st, &m));
    COPSE_TRY(make_trainer(st, &m, &sgd, &t));
    own.kind = OWN_MAXIMUM;
    copse_status s = copse_trainer_step(t, &batch);
    if (!s)
        s = own_holds(st, &m, -(float)n);
    w->seen[0] = own.calls;
    own.kind = ((const struct own_sums *)w->job)->kind;
    own.fails_at = own.calls + fails_at;
    if (!s) {
        w->seen[1] = (uint32_t)copse_trainer_step(t, &batch);
        snprintf(w->path, sizeof w->path, "%.60s", copse_last_error());
        s = own_holds(st, &m, -(float)n);
    }
    own.kind = OWN_MAXIMUM;
    if (!s)
        s = copse_trainer_step(t, &batch);
    if (!s)
        s = own_holds(st, &m, -2 * (float)n);
    copse_trainer_release(&t);
    return s;
}

static const struct {
    int kind;
    copse_status status;
    const char *text;
} failures[] = {
    { OWN_FAILS, COPSE_ERR_IO, "the link of the application is down" },
    { OWN_GIVES_NOTHING, COPSE_ERR_ARGUMENT, "returned nothing" },
    { OWN_GIVES_OTHER_SHAPE, COPSE_ERR_SHAPE, "another shape or type" },
};

static void check_layouts(void)
{
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        for (uint32_t i = 0; i < 2 * COPSE_COUNT(failures); i++) {
            const struct own_sums job = { .kind = failures[i / 2].kind, .fails_at = i % 2 };
            const uint32_t size = layouts[l][0];
            struct worker w[4];
            run_workers_over(&copse__transport_local, w, size, layouts[l][1], &job, train);
            assert_all_ok(w, size);
            for (uint32_t v = 0; v < size; v++) {
                assert_int_equal(w[v].seen[0], v == 0 ? 2 : 0);
                assert_int_equal(w[v].seen[1], failures[i / 2].status);
                if (v == 0 ? !strstr(w[v].path, failures[i / 2].text)
                           : !strstr(w[v].path, "could not take part"))
                    fail_msg("worker %u: %s", v, w[v].path);
            }
        }
}

static void all_workers_take_what_the_operations_give(void **state)
{
    (void)state;
    check_layouts();
}

static void on_the_host_too(void **state)
{
    (void)state;
    host_alone();
    check_layouts();
    devices_back();
}

/* ---- bits ---- */

/* Adam with a norm, of sums in the canonical order: by the application, or by the exchange. */
static copse_status train_bits(struct worker *w, copse_strategy *st)
{
    static const struct copse_optimizer_params rule = { .kind = COPSE_ADAM,
                                                        .learning_rate = 0.1f,
                                                        .clip_global_norm = 0.5f };
    const float x[] = { 0.1f, 3.3e7f, -0.7f, -3.3e7f, 1.0f / 3, 0.2f, 5, 1e-3f };
    const struct copse_host_batch batch = { RIG_X(1, x), .count = w->size * w->replicas };
    struct own_sums own = { .kind = OWN_TREE, .fails_at = UINT32_MAX };
    struct own_model m;
    copse_trainer *t = NULL;
    if (w->job)
        COPSE_TRY(own_set(ctx, st, accumulate, &own, true));
    COPSE_TRY(own_model(st, &m));
    COPSE_TRY(make_trainer(st, &m, &rule, &t));
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < 3 && !s; i++)
        s = copse_trainer_step(t, &batch);
    float b[OWN_B];
    if (!s)
        s = copse_variable_read(m.a, 0, w->values);
    if (!s)
        s = copse_variable_read(m.b, 0, b);
    memcpy(w->values + OWN_A, b, 100 * sizeof *b);
    memcpy(w->values + OWN_A + 100, b + OWN_B - 100, 100 * sizeof *b);
    copse_trainer_release(&t);
    return s;
}

static void canonical_sums_give_the_bits_of_the_exchange(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        const uint32_t size = layouts[l][0], replicas = layouts[l][1];
        const bool is_own = true;
        struct worker want[4], got[4];
        run_workers_over(&copse__transport_local, want, size, replicas, NULL, train_bits);
        assert_all_ok(want, size);
        run_workers_over(&copse__transport_local, got, size, replicas, &is_own, train_bits);
        assert_all_ok(got, size);
        for (uint32_t v = 0; v < size; v++)
            assert_memory_equal(got[v].values, want[v].values, sizeof want[v].values);
    }
}

/* ---- workers with different settings ---- */

static copse_status set_on_one(struct worker *w, copse_strategy *st)
{
    const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = 1 };
    struct own_sums own = { .kind = OWN_MAXIMUM };
    struct own_model m;
    copse_trainer *t = NULL;
    if (w->rank == 1)
        COPSE_TRY(own_set(ctx, st, accumulate, &own, false));
    COPSE_TRY(own_model(st, &m));
    w->seen[0] = (uint32_t)make_trainer(st, &m, &sgd, &t);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    copse_trainer_release(&t);
    return COPSE_OK;
}

static void operations_of_one_worker_alone_are_refused(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 1, set_on_one);
    assert_all_ok(w, 2);
    for (uint32_t v = 0; v < 2; v++) {
        if (w[v].seen[0] != COPSE_ERR_ARGUMENT || !strstr(w[v].text, "cross-device"))
            fail_msg("worker %u: %s", v, w[v].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_workers_take_what_the_operations_give),
        cmocka_unit_test(on_the_host_too),
        cmocka_unit_test(canonical_sums_give_the_bits_of_the_exchange),
        cmocka_unit_test(operations_of_one_worker_alone_are_refused),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
