/* SPDX-License-Identifier: MIT */
/* A monitored run that is cut and goes on: replica-local variables go on as well. */
#include <math.h>

#include "copse/distribute/replica.h"

#include "tests/rig/rig.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/train_job.h"

enum { COUNTED, SUMMED, AVERAGED, FIRST, LOCALS };

/* A trainer whose every step is followed by what the replicas add to variables of their own. */
struct local_job {
    struct job j;
    copse_trainer *t;
    copse_variable *locals[LOCALS];
    copse_loader *batches;
};

static copse_status add_own(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct local_job *l = user;
    const uint64_t step = copse_trainer_steps(l->t);
    const int32_t whole = (int32_t)(step * 7 + copse_replica_id(rc));
    (void)args, (void)count, (void)result;
    for (int i = 0; i < LOCALS; i++) {
        const float number = (float)whole;
        copse_value *v;
        COPSE_TRY(copse_value_create(l->j.ctx, i == COUNTED ? COPSE_I32 : COPSE_F32, COPSE_SCALAR,
                                     i == COUNTED ? (const void *)&whole : &number, &v));
        const copse_status s = copse_assign_add(l->locals[i], v);
        copse_value_release(&v);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

static copse_status local_run(void *user)
{
    struct local_job *l = user;
    struct copse_host_batch batch;
    struct copse_step_result result;
    COPSE_TRY(copse_loader_next(l->batches, &batch));
    COPSE_TRY(copse_trainer_step(l->t, &batch));
    COPSE_TRY(copse_trainer_result(l->t, true, &result));
    return copse_strategy_run(copse_trainer_strategy(l->t), add_own, NULL, 0, l, NULL);
}

static copse_status local_save(void *user, const char *path)
{
    const struct local_job *l = user;
    struct copse_state_params p = { .position = { 0, 0 } };
    size_t index;
    copse_loader_position(l->batches, &p.position.epoch, &index);
    p.position.batch = index;
    return copse_trainer_checkpoint(l->t, path, &p);
}

static copse_status local_restore(void *user, const char *path)
{
    const struct local_job *l = user;
    struct copse_position at;
    COPSE_TRY(copse_trainer_restore(l->t, path, &at, NULL));
    return copse_loader_start(l->batches, at.epoch, (size_t)at.batch);
}

static uint64_t local_progress(void *user)
{
    return copse_trainer_steps(((const struct local_job *)user)->t);
}

static void local_open(struct local_job *l, copse_step **step)
{
    static const char *const names[] = { "counted", "summed", "averaged", "first" };
    static const copse_aggregation aggregations[] = { COPSE_AGGREGATION_SUM, COPSE_AGGREGATION_SUM,
                                                      COPSE_AGGREGATION_MEAN,
                                                      COPSE_AGGREGATION_ONLY_FIRST_REPLICA };
    static const struct copse_step_functions functions = {
        .run = local_run, .save = local_save, .restore = local_restore, .progress = local_progress
    };
    copse_dataset *data;
    OK(job_make(&l->j, &l->t));
    copse_strategy *st = copse_trainer_strategy(l->t);
    for (int i = 0; i < LOCALS; i++)
        OK(copse_variable_create(
            st,
            &(struct copse_variable_params){ .name = names[i],
                                             .shape = COPSE_SCALAR,
                                             .type = i == COUNTED ? COPSE_I32 : COPSE_F32,
                                             .synchronization = COPSE_SYNC_ON_READ,
                                             .aggregation = aggregations[i] },
            &l->locals[i]));
    OK(job_dataset(&l->j, st, &data));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 32, .seed = 5 },
                           &l->batches));
    copse_dataset_release(&data);
    OK(copse_step_create(l->j.ctx, st, &functions, l, step));
}

/* What the local variables read as, and the trained values; then everything is given back. */
static void local_close(struct local_job *l, copse_step **step, double *read, float **values)
{
    for (int i = 0; i < LOCALS; i++) {
        union {
            float number;
            int32_t whole;
        } at;
        copse_value *v;
        OK(copse_scope_enter(copse_trainer_strategy(l->t)));
        OK(copse_read(l->locals[i], &v));
        OK(copse_scope_leave(copse_trainer_strategy(l->t)));
        OK(copse_value_read(v, &at));
        read[i] = i == COUNTED ? at.whole : (double)at.number;
        copse_value_release(&v);
    }
    *values = job_values(&l->j, 0);
    assert_non_null(*values);
    copse_step_release(step);
    copse_loader_release(&l->batches);
    copse_trainer_release(&l->t);
}

/* MON-3 with them: the run ends after step 2, and after step 5, which was not saved. */
static void mon_3_with_local_variables(void **state)
{
    static const uint64_t cuts[] = { 2, 3, COPSE_ALL };
    (void)state;
    copse_context *ctx;
    OK(copse_context_create(NULL, &ctx));
    const size_t mixtures[] = { 1, job_mixtures(ctx) - 2 }; /* 2 on the host, 3 of all kinds */
    for (size_t i = 0; i < 2; i++) {
        const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 2 };
        double wanted[LOCALS], read[LOCALS];
        float *values, *undisturbed_values;
        copse_monitor *m;
        copse_step *step;
        struct local_job l = { .j = { .ctx = ctx, .seed = 21 } };
        job_devices(ctx, &l.j, mixtures[i]);
        const double n = (double)l.j.device_count;
        local_open(&l, &step);
        OK(copse_monitor_create(step, NULL, &m));
        OK(copse_monitor_run(m, COPSE_ALL, NULL));
        copse_monitor_release(&m);
        local_close(&l, &step, wanted, &undisturbed_values);
        assert_true(wanted[COUNTED] == n * 7 * 28 + 7 * n * (n - 1) / 2); /* steps 1 to 7 */
        assert_true(wanted[FIRST] == 7 * 28);
        for (size_t k = 0; k < 3; k++) {
            uint64_t done;
            local_open(&l, &step);
            OK(copse_monitor_create(step, &p, &m));
            assert_int_equal(copse_trainer_steps(l.t), 2 * k);
            OK(copse_monitor_run(m, cuts[k], &done));
            assert_int_equal(done, k < 2 ? cuts[k] : JOB_BATCHES - 4);
            copse_monitor_release(&m);
            local_close(&l, &step, read, &values);
            if (k < 2)
                free(values);
        }
        /* f32 sums come back as sum/n in every component, which rounds for 3. */
        for (int v = 0; v < LOCALS; v++)
            assert_true(fabs(read[v] - wanted[v]) <=
                        (v == SUMMED && n == 3 ? 1e-6 * wanted[v] : 0));
        assert_memory_equal(values, undisturbed_values, model_parameters() * sizeof *values);
        free(values);
        free(undisturbed_values);
        temp_remove(temp_path("run"));
    }
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mon_3_with_local_variables, temp_setup, temp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
