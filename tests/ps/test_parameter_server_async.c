/* SPDX-License-Identifier: MIT */
/* Parameter servers across workers, as threads of this process: where variables stand, what all
   change together, that nobody waits for anybody, and training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "copse/compat/train_step.h"
#include "copse/distribute/collective.h"
#include "copse/distribute/partition.h"

#include "tests/rig/workers/server_rig.h"

static copse_status make(copse_strategy *st, const char *name, float value,
                         copse_aggregation aggregation, copse_variable *beside,
                         copse_variable **out)
{
    return copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = name,
                                                                  .shape = COPSE_SCALAR,
                                                                  .values = &value,
                                                                  .is_frozen = true,
                                                                  .colocate_with = beside,
                                                                  .aggregation = aggregation },
                                 out);
}

/* ---- PS-1: round robin in order of creation ---- */

static copse_status place_six(struct job *job, uint32_t worker, copse_strategy *st)
{
    static const char *const names[] = { "n", "x", "y", "z", "u", "v" };
    static const uint32_t servers[] = { 0, 1, 1, 0, 1, 0 };
    copse_variable *v[6];
    (void)worker;
    CHECK(copse_parameter_servers(st) == 2);
    CHECK(copse_parameter_device(st) == NULL);
    CHECK(copse_strategy_replicas_in_sync(st) == job->replicas);
    for (int i = 0; i < 6; i++) {
        COPSE_TRY(
            make(st, names[i], (float)i, COPSE_AGGREGATION_NONE, i == 2 ? v[1] : NULL, &v[i]));
        CHECK(copse_variable_server(v[i]) == servers[i]);
    }
    for (int i = 0; i < 6; i++) {
        float x;
        COPSE_TRY(copse_variable_read(v[i], 0, &x));
        CHECK(x == (float)i);
    }
    return COPSE_OK;
}

static void ps_1(void **state)
{
    (void)state;
    struct job job = { .workers = 2, .servers = 2, .replicas = 2, .work = place_six };
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[2].summary.variables, 3);
    assert_int_equal(job.tasks[3].summary.variables, 3);
    assert_int_equal(job.tasks[2].summary.lost, 0);
}

/* ---- PS-3: every replica of every worker adds 1 ---- */

static copse_status add_ones(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *v[2];
    set_links(st);
    COPSE_TRY(make(st, "x", 10.0f, COPSE_AGGREGATION_SUM, NULL, &v[0]));
    COPSE_TRY(make(st, "y", 30.0f, COPSE_AGGREGATION_ONLY_FIRST_REPLICA, NULL, &v[1]));
    COPSE_TRY(copse_strategy_run(st, add_one, NULL, 0, v, NULL));
    copse__mutex_lock(&job->lock);
    job->at++;
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
    COPSE_TRY(await(job, job->workers));
    for (int i = 0; i < 2; i++)
        COPSE_TRY(copse_variable_read(v[i], 0, &job->seen[worker][i]));
    return COPSE_OK;
}

static void ps_3(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++)
        for (uint32_t replicas = 1; replicas <= 3; replicas++) {
            struct job job = { .workers = workers,
                               .servers = 1 + workers % 2,
                               .replicas = replicas,
                               .is_mixed = workers == 2,
                               .work = add_ones };
            run_job(&job);
            assert_all_done(&job);
            for (uint32_t w = 0; w < workers; w++) {
                assert_true(job.seen[w][0] == 10.0f + (float)(workers * replicas));
                assert_true(job.seen[w][1] == 30.0f + (float)workers);
            }
        }
}

/* ---- PS-4: a variable in two parts, one with each server ---- */

static copse_status add_rows(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **result)
{
    static const float rows[] = { 3.0f, 5.0f };
    copse_value *by;
    (void)rc;
    (void)args;
    (void)count;
    (void)result;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), rows, &by));
    const copse_status s = copse_partitioned_assign_add(user, by);
    copse_value_release(&by);
    return s;
}

static copse_status add_to_parts(struct job *job, uint32_t worker, copse_strategy *st)
{
    static const float first[] = { 10.0f, 20.0f };
    copse_partitioned *p;
    copse_variable *const *parts;
    copse_value *read;
    size_t count;
    set_links(st);
    COPSE_TRY(copse_partitioned_create(
        st,
        &(struct copse_variable_params){ .name = "p",
                                         .shape = COPSE_SHAPE(2),
                                         .values = first,
                                         .is_frozen = true,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        copse_partition_fixed_shards(COPSE_SHAPE(2), 2), &p));
    copse_partitioned_parts(p, &parts, &count);
    CHECK(count == 2 && copse_variable_server(parts[0]) == 0 &&
          copse_variable_server(parts[1]) == 1);
    CHECK(strcmp(copse_variable_name(parts[1]), "p/part_1") == 0);
    COPSE_TRY(copse_strategy_run(st, add_rows, NULL, 0, p, NULL));
    COPSE_TRY(copse_partitioned_read(p, &read));
    COPSE_TRY(copse_value_read(read, job->seen[worker]));
    copse_value_release(&read);
    copse_partitioned_release(&p);
    return COPSE_OK;
}

static void ps_4(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        struct job job = { .workers = 1,
                           .servers = 2,
                           .replicas = replicas,
                           .is_mixed = replicas > 1,
                           .work = add_to_parts };
        run_job(&job);
        assert_all_done(&job);
        assert_true(job.seen[0][0] == 10.0f + 3.0f * (float)replicas);
        assert_true(job.seen[0][1] == 20.0f + 5.0f * (float)replicas);
    }
}

/* ---- training ---- */

/* ---- PS-6: one worker stalls between the gradients and the push of a step ---- */

static copse_status stall(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    copse_variable *v;
    double loss;
    float before[MODEL_CLASSES], after[MODEL_CLASSES];
    copse_status s;
    model_data(d->x, d->y);
    s = make_trainer(st, &m, COPSE_SGD, &t);
    v = m.variables[5];
    if (!s && worker == 1) { /* it works on while the other stands still */
        s = await(job, 1);
        if (!s)
            s = copse_variable_read(v, 0, before);
        for (uint32_t i = 0; i < 5 && !s; i++)
            s = one_step(t, d, i, &loss);
        if (!s)
            s = copse_variable_read(v, 0, after);
        if (!s && memcmp(before, after, sizeof after) == 0)
            s = copse_fail(COPSE_ERR_INTERNAL, "nothing of the other's updates appeared");
        reach(job, 2);
    } else if (!s) {
        s = one_step(t, d, 0, &loss);
        if (!s)
            s = copse_variable_read(v, 0, before);
        reach(job, 1);
        if (!s)
            s = await(job, 2); /* stalled */
        if (!s)
            s = copse_variable_read(v, 0, after);
        if (!s && memcmp(before, after, sizeof after) == 0)
            s = copse_fail(COPSE_ERR_INTERNAL, "the stalled worker does not see the updates");
        if (!s)
            s = one_step(t, d, 7, &loss);
    }
    if (s)
        reach(job, 2);
    copse_trainer_release(&t);
    free(d);
    return s;
}

/* Staleness: both pull w = 0, both push 1 at rate 1; the second is applied to what the first
   left. */
static copse_tensor *parabola(copse_graph *g, const copse_batch *in, void *user)
{
    (void)in;
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(1), 1.0);
    copse_tensor *y = copse_sub(g, copse_variable_tensor(*(copse_variable **)user), one);
    return copse_square(g, y);
}

/* Called by the schedule, that is after the pull and before the push. */
struct turn {
    struct job *job;
    uint32_t worker;
};

static float rate_of(void *user, uint64_t step)
{
    struct turn *t = user;
    (void)step;
    if (t->worker == 1) { /* has pulled; the other may push now, and this one behind it */
        reach(t->job, 2);
        (void)!await(t->job, 3);
    } else {
        (void)!await(t->job, 2);
    }
    return 0.25f;
}

static copse_status stale(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct turn turn = { job, worker };
    float zero = 0.0f, x = 0.0f;
    copse_variable *w;
    copse_trainer *t;
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1), .values = &zero },
        &w));
    COPSE_TRY(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = parabola,
            .user = &w,
            .reduction = COPSE_LOSS_SUM,
            .optimizer = { .kind = COPSE_SGD, .schedule = rate_of, .schedule_user = &turn } },
        &t));
    copse_status s = copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(1, &x), .count = 1 });
    if (!s)
        s = copse_variable_read(w, 0, &job->seen[worker][0]);
    if (worker == 0) /* its update is there */
        reach(job, 3);
    copse_trainer_release(&t);
    return s;
}

static void ps_6(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers <= 2; servers++) {
        struct job job = { .workers = 2, .servers = servers, .replicas = 1, .work = stall };
        run_job(&job);
        assert_all_done(&job);
        assert_int_equal(job.tasks[2].summary.updates, 7);
    }
    struct job job = { .workers = 2, .servers = 1, .replicas = 1, .work = stale };
    run_job(&job);
    assert_all_done(&job);
    /* gradient -2 of w = 0 both times: 0.5 and then 1, where one after the other would give 0.75 */
    assert_true(job.seen[0][0] == 0.5f);
    assert_true(job.seen[1][0] == 1.0f);
}

/* ---- training of several workers ---- */

static copse_status learn(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    double loss = 0.0;
    model_data(d->x, d->y);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    for (uint32_t i = 0; i < 60 && !s; i++) {
        s = one_step(t, d, 3 * i + worker, &loss);
        if (i == 0)
            job->first_loss[worker] = loss;
        job->last_loss[worker] = loss;
    }
    copse_trainer_release(&t);
    free(d);
    return s;
}

static void test_training(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers <= 2; servers++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            struct job job = { .workers = 2,
                               .servers = servers,
                               .replicas = replicas,
                               .is_mixed = replicas == 2,
                               .work = learn };
            run_job(&job);
            assert_all_done(&job);
            for (uint32_t w = 0; w < 2; w++)
                if (!(job.last_loss[w] < 0.5 * job.first_loss[w]))
                    fail_msg("worker %u: loss from %g to %g", w, job.first_loss[w],
                             job.last_loss[w]);
            for (uint32_t k = 0; k < servers; k++)
                assert_int_equal(job.tasks[2 + k].summary.updates, 120);
        }
}

/* The global step counts every worker's steps: each of W workers makes S, and it is W S. */
static void one_loss(copse_graph *g, const copse_batch *in, void *user, struct copse_losses *losses)
{
    losses->names[0] = "loss";
    losses->count = 1;
    losses->at[0] = parabola(g, in, user);
}

static copse_status count_steps(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *w;
    copse_train_step *step;
    struct copse_train_step_result result = { .global_step = 0 };
    const float x = 0.0f;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1) }, &w));
    COPSE_TRY(copse_train_step_create(
        st,
        &(struct copse_train_step_params){
            .losses = one_loss, .user = &w, .optimizer = { .kind = COPSE_SGD } },
        &step));
    for (uint32_t i = 0; i < 5 && !s; i++) {
        const uint64_t before = result.global_step;
        s = copse_train_step_run(step, &(struct copse_host_batch){ RIG_X(1, &x), .count = 1 },
                                 &result);
        if (!s && result.global_step <= before)
            s = copse_fail(COPSE_ERR_INTERNAL, "the global step went from %llu to %llu",
                           (unsigned long long)before, (unsigned long long)result.global_step);
    }
    copse_train_step_release(&step);
    copse__mutex_lock(&job->lock);
    job->at++;
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
    if (!s)
        s = await(job, job->workers);
    job->global[worker] = copse_global_step(st);
    return s;
}

static void test_global_step(void **state)
{
    (void)state;
    struct job job = { .workers = 3, .servers = 1, .replicas = 1, .work = count_steps };
    run_job(&job);
    assert_all_done(&job);
    for (uint32_t w = 0; w < 3; w++)
        assert_int_equal(job.global[w], 15);
}

/* ---- losses ---- */

static copse_status die(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    double loss = 0.0;
    model_data(d->x, d->y);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    for (uint32_t i = 0; i < 20 && !s; i++) {
        if (i == 5 && worker == 1) {
            copse__local_hub_kill(job->hub, 1);
            reach(job, 1);
            s = copse_fail(COPSE_ERR_COMM, "killed");
        }
        if (i == 5 && worker == 0)
            s = await(job, 1);
        if (!s)
            s = one_step(t, d, i, &loss);
    }
    copse_trainer_release(&t);
    free(d);
    return s;
}

/* A lost worker does not stop the others. */
static void test_lost_worker(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers <= 2; servers++) {
        struct job job = { .workers = 3, .servers = servers, .replicas = 1, .work = die };
        run_job(&job);
        for (uint32_t r = 0; r < job.workers + servers; r++)
            if (r != 1 && job.tasks[r].status)
                fail_msg("task %u: %s", r, job.tasks[r].text);
        assert_int_equal(job.tasks[1].status, COPSE_ERR_COMM);
        for (uint32_t k = 0; k < servers; k++) {
            assert_int_equal(job.tasks[3 + k].summary.lost, 1);
            assert_int_equal(job.tasks[3 + k].summary.updates, 45);
        }
    }
}

/* ---- what is refused in a cluster: PS-7 ---- */

static copse_status refuse(struct job *job, uint32_t worker, copse_strategy *st)
{
    const char *ids[] = { "host:0" };
    copse_cluster *c = job->tasks[worker].cluster;
    copse_strategy *other;
    copse_variable *v;
    struct copse_parameter_server_summary summary;
    REFUSED(COPSE_ERR_ARGUMENT, copse_collective_create(ctx, c, ids, 1, NULL, &other),
            "has parameter servers");
    REFUSED(COPSE_ERR_ARGUMENT,
            copse_parameter_server_create(
                ctx, c, ids, 1, &(struct copse_strategy_params){ .parameter_device = "host:0" },
                &other),
            "not on this worker's host:0");
    REFUSED(COPSE_ERR_ARGUMENT, copse_parameter_server_serve(ctx, c, NULL, &summary),
            "is a worker");
    COPSE_TRY(make(st, "v", 1.0f, COPSE_AGGREGATION_NONE, NULL, &v));
    COPSE_TRY(await(job, 0));
    if (worker == 0) { /* the server has it as the chief made it */
        COPSE_TRY(copse_variable_create(
            st, &(struct copse_variable_params){ .name = "u", .shape = COPSE_SHAPE(3) }, &v));
        reach(job, 1);
        return COPSE_OK;
    }
    COPSE_TRY(await(job, 1));
    REFUSED(COPSE_ERR_SHAPE,
            copse_variable_create(
                st, &(struct copse_variable_params){ .name = "u", .shape = COPSE_SHAPE(4) }, &v),
            "f32 [3]");
    return COPSE_OK;
}

static copse_status alone(struct job *job, uint32_t worker, copse_strategy *st)
{
    (void)job;
    (void)worker;
    (void)st;
    return COPSE_OK;
}

static void ps_7(void **state)
{
    (void)state;
    struct job job = { .workers = 2, .servers = 1, .replicas = 1, .work = refuse };
    run_job(&job);
    assert_all_done(&job);
    struct job none = { .workers = 2, .replicas = 1, .work = alone };
    run_job(&none);
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(none.tasks[w].status, COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(none.tasks[w].text, "no parameter server"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ps_1),
        cmocka_unit_test(ps_3),
        cmocka_unit_test(ps_4),
        cmocka_unit_test(ps_6),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_global_step),
        cmocka_unit_test(test_lost_worker),
        cmocka_unit_test(ps_7),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
