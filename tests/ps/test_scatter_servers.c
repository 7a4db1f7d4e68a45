/* SPDX-License-Identifier: MIT */
/* Scattered changes of variables with servers: of this process and of others, on every kind of
   device, from outside and in replicas, trained variables and others; of several workers none is
   lost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "core/ps/server.h"
#include "tests/rig/workers/server_rig.h"

#define ROWS 5u
#define ROW  3u
#define ALL  (ROWS * ROW)

typedef copse_status scatter_fn(copse_variable *v, copse_value *slices);

static scatter_fn *const functions[] = { copse_scatter_add, copse_scatter_sub, copse_scatter_update,
                                         copse_scatter_mul, copse_scatter_div, copse_scatter_min,
                                         copse_scatter_max };
static const int32_t indices[] = { 4, 0, 4, 2 };
static const float slices_values[] = { 2, 3, -4, 5, -0.5f, 7, 8, 0.25f, 10, 11, -12, 13 };

static float apply(scatter_fn *fn, float now, float by)
{
    return fn == copse_scatter_add   ? now + by
           : fn == copse_scatter_sub ? now - by
           : fn == copse_scatter_mul ? now * by
           : fn == copse_scatter_div ? now / by
           : fn == copse_scatter_min ? fminf(now, by)
           : fn == copse_scatter_max ? fmaxf(now, by)
                                     : by;
}

static void first_values(float *values)
{
    for (uint32_t i = 0; i < ALL; i++)
        values[i] = 1.5f * (float)i - 4;
}

static copse_status make(copse_strategy *st, const char *name, copse_aggregation aggregation,
                         bool is_frozen, copse_variable **out)
{
    float values[ALL];
    first_values(values);
    return copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = name,
                                                                  .shape = COPSE_SHAPE(ROWS, ROW),
                                                                  .values = values,
                                                                  .aggregation = aggregation,
                                                                  .is_frozen = is_frozen },
                                 out);
}

static copse_status slices_of(copse_value **out)
{
    const struct copse_sparse_params p = { COPSE_SHAPE(ROWS, ROW), COPSE_COUNT(indices), indices,
                                           slices_values };
    return copse_value_sparse(ctx, &p, out);
}

/* What `fn` makes of `want`, and the variable holds that. */
static copse_status follow(scatter_fn *fn, copse_variable *v, float *want, const char *where)
{
    float now[ALL];
    for (uint32_t k = 0; k < COPSE_COUNT(indices); k++)
        for (uint32_t i = 0; i < ROW; i++) {
            float *x = &want[(uint32_t)indices[k] * ROW + i];
            *x = apply(fn, *x, slices_values[k * ROW + i]);
        }
    COPSE_TRY(copse_variable_read(v, 0, now));
    return memcmp(now, want, sizeof now) == 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_INTERNAL, "'%s', %s: other values", copse_variable_name(v),
                            where);
}

struct scattering {
    copse_variable *v;
    scatter_fn *fn;
    copse_value *slices;
};

static copse_status scatters(copse_replica_context *rc, copse_value *const *args, size_t count,
                             void *user, copse_value **result)
{
    const struct scattering *s = user;
    (void)rc, (void)args, (void)count, (void)result;
    return s->fn(s->v, s->slices);
}

/* All of them, one after another, from outside and by all replicas. */
static copse_status scatter_all(copse_strategy *st)
{
    const bool is_alone = copse_strategy_replicas(st) == 1;
    copse_value *slices;
    copse_variable *outside, *first, *sum;
    float want[2][ALL], total[ALL];
    first_values(want[0]);
    first_values(want[1]);
    first_values(total);
    COPSE_TRY(make(st, "outside", COPSE_AGGREGATION_NONE, false, &outside));
    COPSE_TRY(make(st, "first", COPSE_AGGREGATION_ONLY_FIRST_REPLICA, true, &first));
    COPSE_TRY(make(st, "sum", COPSE_AGGREGATION_SUM, true, &sum));
    COPSE_TRY(slices_of(&slices));
    copse_status s = COPSE_OK;
    for (size_t k = 0; k < COPSE_COUNT(functions) && !s; k++) {
        struct scattering in = { first, functions[k], slices };
        s = functions[k](outside, slices);
        s = s ? s : follow(functions[k], outside, want[0], "from outside");
        s = s ? s : copse_strategy_run(st, scatters, NULL, 0, &in, NULL);
        s = s ? s : follow(functions[k], first, want[1], "in replicas");
        in.v = sum;
        if (!s && is_alone) { /* nobody to agree with */
            s = copse_strategy_run(st, scatters, NULL, 0, &in, NULL);
            s = s ? s : follow(functions[k], sum, total, "in a single replica");
        } else if (!s) {
            const copse_status refused = copse_strategy_run(st, scatters, NULL, 0, &in, NULL);
            if (refused != (k < 2 ? COPSE_ERR_ARGUMENT : COPSE_ERR_UNSUPPORTED))
                s = copse_fail(COPSE_ERR_INTERNAL, "change %zu of a sum: %s", k,
                               copse_status_name(refused));
        }
    }
    copse_value_release(&slices);
    return s;
}

static void servers_of_this_process(void **unused)
{
    (void)unused;
    for (uint32_t d = 0; d < found_count; d++)
        for (uint32_t replicas = 1; replicas <= 3; replicas++) {
            const char *ids[] = { found[d], found[(d + 1) % found_count], "host:0" };
            copse_strategy *st;
            OK(copse_parameter_server_create(
                ctx, NULL, ids, replicas,
                &(struct copse_strategy_params){ .parameter_device = found[d] }, &st));
            OK(scatter_all(st));
            copse_strategy_release(&st);
        }
}

static copse_status scatter_there(struct job *job, uint32_t worker, copse_strategy *st)
{
    (void)job, (void)worker;
    return scatter_all(st);
}

static void servers_of_other_processes(void **unused)
{
    (void)unused;
    for (uint32_t replicas = 1; replicas <= 2; replicas++)
        for (uint32_t servers = 1; servers <= 2; servers++) {
            struct job job = { .workers = 1,
                               .servers = servers,
                               .replicas = replicas,
                               .is_mixed = true,
                               .work = scatter_there };
            run_job(&job);
            assert_all_done(&job);
        }
}

/* ---- several workers ---- */

#define ROUNDS 40u

/* Different replicas have different slices: {1, 2, 3} times id + 1 to row id. */
static copse_status adds(copse_replica_context *rc, copse_value *const *args, size_t count,
                         void *user, copse_value **result)
{
    const int32_t id = (int32_t)copse_replica_id(rc);
    const float x = (float)id + 1, values[] = { x, 2 * x, 3 * x };
    const struct copse_sparse_params p = { COPSE_SHAPE(ROWS, ROW), 1, &id, values };
    copse_value *slices;
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_value_sparse(ctx, &p, &slices));
    const copse_status s = copse_scatter_add(user, slices);
    copse_value_release(&slices);
    return s;
}

static copse_status add_often(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *v;
    float now[ALL], want[ALL];
    (void)worker;
    first_values(want);
    COPSE_TRY(make(st, "sum", COPSE_AGGREGATION_SUM, true, &v));
    for (uint32_t i = 0; i < ROUNDS; i++)
        COPSE_TRY(copse_strategy_run(st, adds, NULL, 0, v, NULL));
    copse__mutex_lock(&job->lock);
    job->at++;
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
    COPSE_TRY(await(job, job->workers));
    COPSE_TRY(copse_variable_read(v, 0, now));
    for (uint32_t r = 0; r < job->replicas; r++)
        for (uint32_t i = 0; i < ROW; i++)
            want[r * ROW + i] += (float)(ROUNDS * job->workers * (r + 1) * (i + 1));
    return memcmp(now, want, sizeof now) == 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_INTERNAL, "a worker's rows are lost: %g, not %g",
                            (double)now[0], (double)want[0]);
}

static void nothing_of_several_workers_is_lost(void **unused)
{
    (void)unused;
    struct job job = { .workers = 3, .servers = 2, .replicas = 2, .work = add_often };
    run_job(&job);
    assert_all_done(&job);
}

/* ---- what a server refuses ---- */

static void rows_that_are_not_there(void **unused)
{
    const float values[3] = { 1, 2, 3 };
    const int32_t bad[] = { 5, -1 };
    struct copse_server *server;
    uint32_t id;
    float first[ALL];
    (void)unused;
    first_values(first);
    OK(copse__server_local(ctx, "host:0", &server));
    const struct copse_server_variable as = { "v", COPSE_F32, COPSE_SHAPE(ROWS, ROW), first, true };
    OK(server->table->make(server, &as, &id));
    for (uint32_t k = 0; k < 2; k++)
        FAILS(COPSE_ERR_ARGUMENT,
              server->table->scatter(server, id, COPSE_SCATTER_ADD,
                                     &(struct copse_rows){ 1, ROW, &bad[k], values }),
              "has no row");
    FAILS(COPSE_ERR_ARGUMENT,
          server->table->scatter(server, id, COPSE_SCATTER_ADD,
                                 &(struct copse_rows){ 1, ROW - 1, &indices[0], values }),
          "other rows");
    copse__server_release(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_of_this_process),
        cmocka_unit_test(servers_of_other_processes),
        cmocka_unit_test(nothing_of_several_workers_is_lost),
        cmocka_unit_test(rows_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
