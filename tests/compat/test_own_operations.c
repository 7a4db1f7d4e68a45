/* SPDX-License-Identifier: MIT */
/* Cross-device operations of the application in train steps, tower optimizers and replicated models,
   on the replicas of one process and of several workers: what they give is what every replica gets,
   and what they fail with all return, before anything has changed. */
#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "tests/rig/train/own_sums.h"
#include "tests/rig/workers/worker_rig.h"

static const uint32_t layouts[][2] = { { 1, 2 }, { 1, 3 }, { 2, 1 }, { 2, 2 } };

static copse_status accumulate(void *user, copse_value *const *values, size_t count,
                               copse_value **out)
{
    return own_accumulate(ctx, user, values, count, out);
}

static const struct copse_optimizer_params sgd = { .kind = COPSE_SGD, .learning_rate = 1 };

/* Rows n, ..., 2, 1, one for each replica. */
static const float all_rows[] = { 4, 3, 2, 1 }, *const rows_end = all_rows + 4;

struct towers {
    struct own_model m;
    copse_variable *late, *table;
    copse_tower_optimizer *first, *second;
    uint32_t ranks;
};

static copse_status make_towers(copse_strategy *st, struct towers *t)
{
    const struct copse_tower_params p = { .optimizer = sgd, .reduction = COPSE_LOSS_SUM },
                                    q = { .optimizer = sgd, .name = "second" };
    const float zeros[2] = { 0 };
    t->ranks = copse_strategy_replicas_in_sync(st);
    COPSE_TRY(own_model(st, &t->m));
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "late", .shape = COPSE_SHAPE(1) }, &t->late));
    COPSE_TRY(copse_variable_create(st,
                                    &(struct copse_variable_params){ .name = "table",
                                                                     .shape = COPSE_SHAPE(2, 1),
                                                                     .values = zeros },
                                    &t->table));
    COPSE_TRY(copse_tower_create(st, &p, &t->first));
    return copse_tower_create(st, &q, &t->second);
}

/* The last replica gives 5 for `late`, and every one a slice of 1 for row 1 of `table`. */
static copse_status give_more(copse_replica_context *rc, const struct towers *t)
{
    static const int32_t row[] = { 1 };
    static const float one[] = { 1 }, five[] = { 5 };
    const struct copse_sparse_params slice = { COPSE_SHAPE(2, 1), 1, row, one };
    struct copse_tower_gradient pairs[] = { { NULL, t->table }, { NULL, t->late } };
    copse_status s = copse_value_sparse(ctx, &slice, &pairs[0].gradient);
    if (!s && copse_replica_id(rc) + 1 == t->ranks)
        s = copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(1), five, &pairs[1].gradient);
    if (!s)
        s = copse_tower_apply(t->second, pairs, 2, false);
    copse_value_release(&pairs[0].gradient);
    copse_value_release(&pairs[1].gradient);
    return s;
}

static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    struct towers *t = call->user;
    const struct copse_tower_loss of = { .loss = own_loss, .user = &t->m, .x = call->features };
    copse_variable *both[] = { t->m.a, t->m.b };
    COPSE_TRY(copse_tower_minimize(t->first, &of, both, 2, true, &spec->loss));
    return give_more(rc, t);
}

static copse_status run_model(const struct worker *w, copse_strategy *st, struct towers *t)
{
    const struct copse_replicated_params p = { model, t, COPSE_LOSS_SUM };
    struct copse_replicated_result result;
    copse_value *x;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(w->replicas, 1),
                                 rows_end - w->size * w->replicas + copse_strategy_first_rank(st),
                                 &x));
    const copse_status s = copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, x, NULL, &result);
    copse_value_release(&x);
    return s;
}

/* After `steps` steps. Slices are summed by the library; a replica without a gradient gives zeros. */
static copse_status check_towers(copse_strategy *st, const struct towers *t, uint32_t steps)
{
    const float n = (float)t->ranks, all = (float)steps;
    COPSE_TRY(own_holds(st, &t->m, -n * all));
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++) {
        float late, table[2];
        COPSE_TRY(copse_variable_read(t->late, r, &late));
        COPSE_TRY(copse_variable_read(t->table, r, table));
        if (late != -5 * all || table[0] != 0 || table[1] != -n * all)
            return copse_fail(COPSE_ERR_INTERNAL, "replica %u: late %g, table %g %g", r,
                              (double)late, (double)table[0], (double)table[1]);
    }
    CHECK(copse_tower_steps(t->first) == steps && copse_tower_steps(t->second) == steps);
    return COPSE_OK;
}

static copse_status run_steps(struct worker *w, copse_strategy *st, struct towers *t,
                              struct own_sums *own)
{
    COPSE_TRY(make_towers(st, t));
    COPSE_TRY(run_model(w, st, t));
    COPSE_TRY(check_towers(st, t, 1));
    *own = *(const struct own_sums *)w->job;
    w->seen[0] = (uint32_t)run_model(w, st, t);
    snprintf(w->path, sizeof w->path, "%.60s", copse_last_error());
    COPSE_TRY(check_towers(st, t, 1));
    *own = (struct own_sums){ .kind = OWN_MAXIMUM };
    COPSE_TRY(run_model(w, st, t));
    return check_towers(st, t, 2);
}

static copse_status train_towers(struct worker *w, copse_strategy *st)
{
    struct own_sums own = { .kind = OWN_MAXIMUM };
    struct towers t = { .first = NULL };
    COPSE_TRY(own_set(ctx, st, accumulate, &own, w->replicas == 2));
    const copse_status s = run_steps(w, st, &t, &own);
    copse_tower_release(&t.first);
    copse_tower_release(&t.second);
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

/* In the sum of the first variable, or of the second. */
static void check_layouts(void)
{
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++)
        for (uint32_t i = 0; i < 2 * COPSE_COUNT(failures); i++) {
            const struct own_sums job = { .kind = failures[i / 2].kind, .fails_at = i % 2 };
            struct worker w[2];
            run_workers_over(&copse__transport_local, w, layouts[l][0], layouts[l][1], &job,
                             train_towers);
            assert_all_ok(w, layouts[l][0]);
            for (uint32_t v = 0; v < layouts[l][0]; v++) {
                assert_int_equal(w[v].seen[0], failures[i / 2].status);
                if (!strstr(w[v].path, v == 0 ? failures[i / 2].text : "could not take part"))
                    fail_msg("worker %u: %s", v, w[v].path);
            }
        }
}

static void towers_take_what_the_operations_give(void **state)
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

/* ---- train steps ---- */

static void losses(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *out)
{
    out->names[0] = "own";
    out->count = 1;
    out->at[0] = own_loss(g, in, user);
}

static copse_status train_step(struct worker *w, copse_strategy *st)
{
    const uint32_t n = w->size * w->replicas;
    const struct copse_host_batch batch = { RIG_X(1, rows_end - n), .count = n };
    struct own_sums own = { .kind = OWN_MAXIMUM };
    struct copse_train_step_result result;
    struct own_model m;
    copse_train_step *ts;
    COPSE_TRY(own_set(ctx, st, accumulate, &own, false));
    COPSE_TRY(own_model(st, &m));
    const struct copse_train_step_params p = {
        .losses = losses, .user = &m, .optimizer = sgd, .reduction = COPSE_LOSS_SUM
    };
    COPSE_TRY(copse_train_step_create(st, &p, &ts));
    copse_status s = copse_train_step_run(ts, &batch, &result);
    if (!s)
        s = own_holds(st, &m, -(float)batch.count);
    copse_train_step_release(&ts);
    return s;
}

static void train_steps_take_what_the_operations_give(void **state)
{
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(layouts); l++) {
        struct worker w[2];
        run_workers(w, layouts[l][0], layouts[l][1], train_step);
        assert_all_ok(w, layouts[l][0]);
    }
}

/* ---- settings ---- */

static copse_status change_under_tower(struct worker *w, copse_strategy *st)
{
    struct own_sums own = { .kind = OWN_MAXIMUM };
    struct towers t = { .first = NULL };
    (void)w;
    COPSE_TRY(make_towers(st, &t));
    const copse_status refused = own_set(ctx, st, accumulate, &own, false);
    snprintf(w->path, sizeof w->path, "%.63s", copse_last_error());
    copse_tower_release(&t.first);
    copse_tower_release(&t.second);
    CHECK(refused == COPSE_ERR_UNSUPPORTED && strstr(w->path, "cross-device operations"));
    COPSE_TRY(copse_strategy_set_cross_device(st, NULL));
    return own_set(ctx, st, accumulate, &own, false);
}

static void operations_do_not_change_under_a_tower(void **state)
{
    struct worker w[1];
    (void)state;
    run_workers(w, 1, 2, change_under_tower);
    assert_all_ok(w, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_take_what_the_operations_give),
        cmocka_unit_test(on_the_host_too),
        cmocka_unit_test(train_steps_take_what_the_operations_give),
        cmocka_unit_test(operations_do_not_change_under_a_tower),
    };
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
