/* SPDX-License-Identifier: MIT */
/* State that stands with parameter servers of a job: checkpoints, slots, counts, and workers that
   send half of a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#include "copse/compat/train_step.h"
#include "copse/ops.h"
#include "core/ps/protocol.h"
#include "tests/rig/workers/server_rig.h"

#define STEPS 12
#define CUT   7

static char path[64];

/* ---- checkpoints ---- */

static copse_status read_all(const struct model *m, float *to)
{
    for (int i = 0; i < MODEL_VARIABLES; i++) {
        COPSE_TRY(copse_variable_read(m->variables[i], 0, to));
        to += m->variables[i]->count;
    }
    return COPSE_OK;
}

/* Steps [first, end) of the one order that all runs here have. */
static copse_status some_steps(copse_trainer *t, const struct data *d, uint32_t first, uint32_t end)
{
    double loss;
    for (uint32_t i = first; i < end; i++)
        COPSE_TRY(one_step(t, d, i, &loss));
    return COPSE_OK;
}

static float *trained[2];

static copse_status cut_and_go_on(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    (void)job;
    model_data(d->x, d->y);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = some_steps(t, d, 0, CUT);
    if (!s)
        s = copse_trainer_checkpoint(t, path, NULL);
    if (!s)
        s = some_steps(t, d, 0, 4); /* values, slots and counts that must go */
    if (!s)
        s = copse_trainer_restore(t, path, NULL, NULL);
    if (!s)
        s = some_steps(t, d, CUT, STEPS);
    if (!s)
        s = read_all(&m, trained[worker]);
    copse_trainer_release(&t);
    free(d);
    return s;
}

/* The same without a cut, on one device. */
static copse_status in_one_piece(float *to)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_strategy *st;
    copse_trainer *t = NULL;
    model_data(d->x, d->y);
    COPSE_TRY(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = some_steps(t, d, 0, STEPS);
    if (!s)
        s = read_all(&m, to);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    free(d);
    return s;
}

/* One worker alone waits for nobody and has everything of its own: the bits of one device, whoever
   keeps the variables, and whether it was cut or not. */
static void test_one_worker_has_the_bits_of_one_device(void **state)
{
    const size_t n = model_parameters();
    float *whole = malloc(n * sizeof *whole);
    (void)state;
    trained[0] = malloc(n * sizeof *whole);
    OK(in_one_piece(whole));
    for (uint32_t servers = 1; servers <= 3; servers++) {
        struct job job = { .workers = 1, .servers = servers, .replicas = 1, .work = cut_and_go_on };
        run_job(&job);
        assert_all_done(&job);
        assert_memory_equal(whole, trained[0], n * sizeof *whole);
        unlink(path);
    }
    free(trained[0]);
    free(whole);
}

/* ---- only the chief writes ---- */

static copse_status both_save(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    char mine[96];
    model_data(d->x, d->y);
    snprintf(mine, sizeof mine, "%s.%u", path, worker);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = some_steps(t, d, 0, 3);
    if (!s)
        s = copse_trainer_checkpoint(t, mine, NULL);
    if (!s)
        s = copse_trainer_save(t, mine);
    if (!s && (access(mine, F_OK) == 0) != (worker == 0))
        s = copse_fail(COPSE_ERR_INTERNAL, "worker %u: %s", worker,
                       worker ? "it wrote" : "no file");
    unlink(mine);
    copse_trainer_release(&t);
    free(d);
    (void)job;
    return s;
}

static void test_the_chief_writes(void **state)
{
    (void)state;
    struct job job = { .workers = 2, .servers = 2, .replicas = 1, .work = both_save };
    run_job(&job);
    assert_all_done(&job);
}

/* ---- where each worker is ---- */

static const uint32_t steps_of[3] = { 3, 5, 0 }; /* before the checkpoint */
static struct copse_position places[3];
static uint64_t steps_then[3];

/* Worker w's i-th batch is number w + 2 i of epoch 4. */
static copse_status turns(copse_trainer *t, const struct data *d, uint32_t worker, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        COPSE_TRY(copse_trainer_step(t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, d->x, d->y),
                                                                    .count = 32, .epoch = 4,
                                                                    .index = worker + 2 * i }));
    return COPSE_OK;
}

static copse_status save_places(struct job *job, uint32_t worker, copse_strategy *st,
                                copse_trainer *t)
{
    struct data *d = malloc(sizeof *d);
    model_data(d->x, d->y);
    copse_status s = turns(t, d, worker, steps_of[worker]);
    copse_global_step_set(st, 77);
    if (!s && worker == 1)
        reach(job, 1);
    if (!s)
        s = await(job, 1);
    if (!s && worker == 0)
        s = copse_trainer_checkpoint(t, path, &(struct copse_state_params){ .position = { 4, 6 } });
    reach(job, worker == 0 && !s ? 2 : 0);
    if (!s)
        s = await(job, 2);
    free(d);
    return s;
}

static copse_status take_places(struct job *job, uint32_t worker, copse_strategy *st,
                                copse_trainer *t)
{
    copse_status s = COPSE_OK;
    if (worker == 0)
        copse__sleep_ns(50000000); /* the others come first, and wait */
    s = copse_trainer_restore(t, worker == 0 ? path : "", &places[worker], NULL);
    steps_then[worker] = copse_trainer_steps(t);
    if (!s && copse_global_step(st) != 77)
        s = copse_fail(COPSE_ERR_INTERNAL, "the job's counter is at %u",
                       (unsigned)copse_global_step(st));
    (void)job;
    return s;
}

static bool is_taking;

static copse_status save_or_take(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = (is_taking ? take_places : save_places)(job, worker, st, t);
    if (!s && worker == 0)
        s = read_all(&m, trained[is_taking]);
    copse_trainer_release(&t);
    return s;
}

/* The chief has restored, has nothing left to do, and lets go before the other one has come to its
   trainer. */
static copse_status come_late(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    copse_status s = worker == 0 ? COPSE_OK : await(job, 1);
    if (!s)
        s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = copse_trainer_restore(t, worker == 0 ? path : "", &places[worker], NULL);
    if (!s)
        steps_then[worker] = copse_trainer_steps(t);
    copse_trainer_release(&t);
    reach(job, 1);
    return s;
}

static void test_workers_go_on_where_they_were(void **state)
{
    (void)state;
    const size_t bytes = model_parameters() * sizeof(float);
    trained[0] = malloc(bytes);
    trained[1] = malloc(bytes);
    is_taking = false;
    struct job job = { .workers = 2, .servers = 2, .replicas = 1, .work = save_or_take };
    run_job(&job);
    assert_all_done(&job);
    is_taking = true;
    for (uint32_t servers = 1; servers <= 2; servers++) {
        struct job next = { .workers = 2, .servers = servers, .replicas = 1, .work = save_or_take };
        run_job(&next);
        assert_all_done(&next);
        assert_memory_equal(trained[0], trained[1], bytes);
        assert_int_equal(steps_then[0], 3);
        assert_int_equal(steps_then[1], 5);
        assert_int_equal(places[0].epoch, 4);
        assert_int_equal(places[0].batch, 6); /* as the chief has said */
        assert_int_equal(places[1].epoch, 4);
        assert_int_equal(places[1].batch, 10); /* behind 1, 3, 5, 7, 9 */
    }
    struct job late = { .workers = 2, .servers = 2, .replicas = 1, .work = come_late };
    places[1].batch = steps_then[1] = 0;
    run_job(&late);
    assert_all_done(&late);
    assert_int_equal(steps_then[1], 5);
    assert_int_equal(places[1].batch, 10);
    /* three take turns anew from where the slowest was */
    struct job more = { .workers = 3, .servers = 1, .replicas = 1, .work = save_or_take };
    run_job(&more);
    assert_all_done(&more);
    for (int w = 0; w < 3; w++)
        assert_int_equal(places[w].batch, 6);
    unlink(path);
    free(trained[0]);
    free(trained[1]);
}

/* ---- the chief never comes to it ---- */

static copse_status wait_for_nothing(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    COPSE_TRY(make_trainer(st, &m, COPSE_ADAM, &t));
    if (worker == 0) {
        reach(job, 1);
        copse_trainer_release(&t);
        return job->params ? await(job, 2) : COPSE_OK;
    }
    copse_status s = await(job, 1);
    if (!s) {
        s = copse_trainer_restore(t, "", NULL, NULL);
        const copse_status wanted = job->params ? COPSE_ERR_TIMEOUT : COPSE_ERR_COMM;
        const char *expected =
            job->params ? "the chief has restored or written none within" : "the chief has left";
        s = s == wanted && strstr(copse_last_error(), expected)
                ? COPSE_OK
                : copse_fail(COPSE_ERR_INTERNAL, "waited for nothing: %s", copse_last_error());
    }
    reach(job, 2);
    copse_trainer_release(&t);
    return s;
}

static void test_a_chief_that_restores_nothing(void **state)
{
    static const struct copse_strategy_params other = { .message_bytes = 0 };
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct job job = { .workers = 2,
                           .servers = 1,
                           .replicas = 1,
                           .work = wait_for_nothing,
                           .params = kind ? &other : NULL,
                           .deadline_ms = 1000 };
        run_job(&job);
        assert_all_done(&job);
    }
}

/* Where nothing is trained the servers keep no place of a worker: there is no trainer that would
   wait for one. */
static copse_tensor *no_loss(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_mean(g, rig_x(in), NULL, 0, false);
}

static copse_status train_nothing(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *v;
    copse_trainer *t = NULL;
    (void)job;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .is_frozen = true }, &v));
    copse_status s =
        copse_trainer_create(st, &(struct copse_trainer_params){ .loss = no_loss }, &t);
    if (!s && worker == 1)
        s = copse_trainer_restore(t, "", NULL, NULL);
    copse_trainer_release(&t);
    return s;
}

static void test_a_trainer_of_nothing(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 1, .replicas = 1, .work = train_nothing, .deadline_ms = 5000
    };
    run_job(&job);
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(job.tasks[w].status, COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(job.tasks[w].text, "the strategy has no variables to train"));
    }
    assert_int_equal(job.tasks[2].status, COPSE_OK);
}

/* ---- a server that is lost ---- */

static copse_status save_from_the_dead(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    copse_trainer *t = NULL;
    (void)worker;
    model_data(d->x, d->y);
    copse_status s = make_trainer(st, &m, COPSE_ADAM, &t);
    if (!s)
        s = some_steps(t, d, 0, 3);
    copse__local_hub_kill(job->hub, 2);
    if (!s && (copse_trainer_checkpoint(t, path, NULL) != COPSE_ERR_COMM ||
               !strstr(copse_last_error(), "lost ps 1 (s1:1)") || access(path, F_OK) == 0))
        s = copse_fail(COPSE_ERR_INTERNAL, "a checkpoint without the server: %s",
                       copse_last_error());
    if (!s && (copse_trainer_step(t, &(struct copse_host_batch){ RIG_XY(MODEL_IN, d->x, d->y),
                                                                 .count = 32 }) != COPSE_ERR_COMM))
        s = copse_fail(COPSE_ERR_INTERNAL, "a step without the server: %s", copse_last_error());
    copse_trainer_release(&t);
    free(d);
    return s;
}

static void test_a_lost_server_is_named(void **state)
{
    (void)state;
    struct job job = { .workers = 1, .servers = 2, .replicas = 1, .work = save_from_the_dead };
    run_job(&job);
    assert_int_equal(job.tasks[0].status, COPSE_OK);
    assert_int_equal(job.tasks[1].status, COPSE_OK);
}

/* ---- an accumulated step has the values that it began with ---- */

static void test_evaluating_between_micro_batches(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    struct data *d = malloc(sizeof *d);
    struct model m = { .dropout = 0.0f };
    struct copse_step_result before, within, after;
    copse_strategy *st;
    copse_trainer *t;
    (void)state;
    model_data(d->x, d->y);
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, d->x, d->y), .count = 32 };
    OK(copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &st));
    OK(model_create(&m, st));
    OK(copse_trainer_create(
        st, &(struct copse_trainer_params){ .loss = model_loss, .user = &m, .accumulate = 2 }, &t));
    float *zeros = calloc(m.variables[0]->count, sizeof *zeros);
    OK(copse_trainer_evaluate(t, &batch, &before));
    OK(copse_trainer_step(t, &batch));
    OK(copse_variable_assign(m.variables[0], zeros)); /* as another worker's push may */
    OK(copse_trainer_evaluate(t, &batch, &within));
    assert_true(within.loss == before.loss);
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_evaluate(t, &batch, &after));
    assert_true(after.loss != before.loss);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    free(zeros);
    free(d);
}

/* ---- half a request, and nonsense ---- */

static copse_status disturb(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_cluster *c = job->tasks[worker].cluster;
    copse_variable *v;
    float value[3];
    struct copse_server_request r = { .magic = COPSE_SERVER_MAGIC,
                                      .op = COPSE_SERVER_CHANGE,
                                      .size = 12 };
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(3) }, &v));
    if (worker == 0) {
        COPSE_TRY(await(job, 1));
        for (int i = 0; i < 5; i++)
            COPSE_TRY(copse_variable_read(v, 0, value));
        reach(job, 2);
        return COPSE_OK;
    }
    if (job->params == NULL) /* one that is half */
        COPSE_TRY(copse__peer_send(c, 2, &r, sizeof r, 1000000000, "half"));
    else { /* one that is nothing */
        r.magic = 1;
        COPSE_TRY(copse__peer_send(c, 2, &r, sizeof r, 1000000000, "nonsense"));
    }
    reach(job, 1);
    return await(job, 2);
}

static void test_half_a_request(void **state)
{
    static const struct copse_strategy_params other = { .message_bytes = 0 };
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct job job = { .workers = 2,
                           .servers = 1,
                           .replicas = 1,
                           .work = disturb,
                           .params = kind ? &other : NULL,
                           .deadline_ms = 1000 };
        run_job(&job);
        assert_all_done(&job);
        assert_int_equal(job.tasks[2].summary.lost, 1);
    }
}

static int open_all_of_it(void **state)
{
    snprintf(path, sizeof path, "/tmp/copse_ps_state_%d.safetensors", (int)getpid());
    return open_rig(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker_has_the_bits_of_one_device),
        cmocka_unit_test(test_the_chief_writes),
        cmocka_unit_test(test_workers_go_on_where_they_were),
        cmocka_unit_test(test_a_chief_that_restores_nothing),
        cmocka_unit_test(test_a_trainer_of_nothing),
        cmocka_unit_test(test_a_lost_server_is_named),
        cmocka_unit_test(test_evaluating_between_micro_batches),
        cmocka_unit_test(test_half_a_request),
    };
    return cmocka_run_group_tests(tests, open_all_of_it, close_rig);
}
