/* SPDX-License-Identifier: MIT */
/* Workers that send nothing to a parameter server: a long step does not count as silence, a process
   that is stopped for good is named and given up, and the others go on. A worker that failed
   reports why; no other worker reports a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "core/comm/heartbeat.h"
#include "tests/rig/workers/server_rig.h"

#define DEADLINE_MS 2000
#define MS          1000000ull

static copse_status two_reads(copse_strategy *st, copse_variable **v)
{
    float value[3];
    if (!*v)
        COPSE_TRY(copse_variable_create(
            st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(3) }, v));
    for (int i = 0; i < 2; i++)
        COPSE_TRY(copse_variable_read(*v, 0, value));
    return COPSE_OK;
}

/* ---- a long step ---- */

static copse_status think(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *v = NULL;
    (void)job;
    COPSE_TRY(two_reads(st, &v));
    if (worker == 1)
        copse__sleep_ns(DEADLINE_MS * MS * 3 / 2);
    return two_reads(st, &v);
}

static void test_a_long_step_is_no_silence(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 2, .replicas = 1, .work = think, .deadline_ms = DEADLINE_MS
    };
    run_job(&job);
    assert_all_done(&job);
    for (uint32_t k = 2; k < 4; k++)
        assert_int_equal(job.tasks[k].summary.lost, 0);
}

/* ---- stopped for good ---- */

static copse_status stand_still(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_cluster *c = job->tasks[worker].cluster;
    copse_variable *v = NULL;
    COPSE_TRY(two_reads(st, &v));
    if (worker == 0) {
        COPSE_TRY(await(job, 1));
        return two_reads(st, &v);
    }
    copse__heartbeats_end(c); /* as if the whole process stood still */
    const uint64_t end = copse__now_ns() + 20000 * MS;
    while (!copse__peer_is_gone(c, 2) && copse__now_ns() < end)
        copse__sleep_ns(20 * MS);
    reach(job, 1);
    if (two_reads(st, &v) != COPSE_ERR_COMM ||
        !strstr(copse_last_error(), "ps 0 (s0:1) has dropped this worker"))
        return copse_fail(COPSE_ERR_INTERNAL, "a worker that was given up: %s", copse_last_error());
    return COPSE_OK;
}

static void test_a_worker_that_stands_still_is_given_up(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 1, .replicas = 1, .work = stand_still, .deadline_ms = DEADLINE_MS
    };
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[2].summary.lost, 1);
}

/* ---- stopped within a request, over an engine that has begun to receive it ---- */

#define LARGE 5000 /* numbers */

static struct copse_transport_table faulty;
static atomic_bool is_cut_short;
static copse_transport_op *cut_op; /* the server's */
static unsigned char *late;        /* where the rest of the request would go */
static const void *sent;           /* what the server sends values from */
static bool falls_among_others;
static uint32_t received_later;

static copse_status send_but_for_the_rest(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                          const void *bytes, size_t size, copse_transport_op **op)
{
    const bool is_rest = t->rank == 1 && size == 4 * LARGE && atomic_load(&is_cut_short);
    if (t->rank == 2 && size == 4 * LARGE)
        sent = bytes;
    /* nobody receives 99 */
    return copse__transport_local.send(t, peer, is_rest ? 99 : tag, bytes, size, op);
}

static copse_status recv_noting_where(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                      void *bytes, size_t size, copse_transport_op **op)
{
    const copse_status s = copse__transport_local.recv(t, peer, tag, bytes, size, op);
    if (t->rank != 2 || size != 4 * LARGE || s)
        return s;
    if (peer == 1) {
        cut_op = *op;
        late = bytes;
    } else if (late) {
        received_later++;
        falls_among_others |=
            (unsigned char *)bytes < late + size && late < (unsigned char *)bytes + size;
    }
    return s;
}

static bool drop_what_was_begun(struct copse_transport *t, copse_transport_op *op)
{
    const bool was_begun = t->rank == 2 && op == cut_op;
    copse__transport_local.drop(t, op);
    return was_begun;
}

static copse_status write_large(struct job *job, uint32_t worker, copse_strategy *st)
{
    static float values[LARGE];
    copse_variable *v;
    COPSE_TRY(copse_variable_create(
        st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(LARGE) }, &v));
    if (worker == 1) {
        atomic_store(&is_cut_short, true);
        reach(job, 1);
        return copse_variable_assign(v, values) ? COPSE_OK
                                                : copse_fail(COPSE_ERR_INTERNAL, "it was whole");
    }
    COPSE_TRY(await(job, 1));
    /* long enough for the other one to have been given up in between */
    for (int i = 0; i < 20; i++) {
        COPSE_TRY(copse_variable_assign(v, values));
        copse__sleep_ns(50 * MS);
    }
    return COPSE_OK;
}

static void test_the_rest_of_a_request_falls_among_no_other(void **state)
{
    (void)state;
    struct job job = { .workers = 2,
                       .servers = 1,
                       .replicas = 1,
                       .work = write_large,
                       .deadline_ms = DEADLINE_MS,
                       .one_sided = COPSE_ONE_SIDED_OFF,
                       .engine = &faulty };
    faulty = copse__transport_local;
    faulty.send = send_but_for_the_rest;
    faulty.recv = recv_noting_where;
    faulty.drop = drop_what_was_begun;
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[2].summary.lost, 1);
    assert_non_null(late);
    assert_true(received_later > 0);
    assert_false(falls_among_others);
}

/* ---- requests are signs of life, too ---- */

static copse_status ask_on(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_variable *v = NULL;
    COPSE_TRY(two_reads(st, &v));
    if (worker == 1)
        copse__heartbeats_end(job->tasks[worker].cluster);
    for (int i = 0; i < 12; i++) {
        copse__sleep_ns(DEADLINE_MS * MS / 8);
        COPSE_TRY(two_reads(st, &v));
    }
    return COPSE_OK;
}

static void test_who_asks_is_there(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 1, .replicas = 1, .work = ask_on, .deadline_ms = DEADLINE_MS
    };
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[2].summary.lost, 0);
}

/* ---- who left, and why ---- */

static void wait_until_gone(copse_cluster *c, uint32_t peer)
{
    const uint64_t end = copse__now_ns() + 20000 * MS;
    while (!copse__peer_is_gone(c, peer) && copse__now_ns() < end)
        copse__sleep_ns(20 * MS);
}

/* The second worker fails, the chief hears of it and is done, and the third asks for what only the
   chief makes. */
static copse_status leave_early(struct job *job, uint32_t worker, copse_strategy *st)
{
    copse_cluster *c = job->tasks[worker].cluster;
    copse_variable *v = NULL;
    if (worker == 1) {
        copse_cluster_end_job(c, COPSE_ERR_NO_MEMORY, "no room for the data", 1);
        return copse_fail(COPSE_ERR_NO_MEMORY, "no room for the data");
    }
    wait_until_gone(c, 1);
    if (worker == 0)
        return c->why_status == COPSE_ERR_NO_MEMORY
                   ? COPSE_OK
                   : copse_fail(COPSE_ERR_INTERNAL, "it heard nothing");
    wait_until_gone(c, 0);
    copse__sleep_ns(200 * MS); /* as the server has */
    if (two_reads(st, &v) != COPSE_ERR_COMM || !strstr(copse_last_error(), "the chief has left"))
        return copse_fail(COPSE_ERR_INTERNAL, "of a chief that is done: %s", copse_last_error());
    return COPSE_OK;
}

static void test_a_failure_is_its_own(void **state)
{
    (void)state;
    struct job job = { .workers = 3, .servers = 1, .replicas = 1, .work = leave_early };
    run_job(&job);
    assert_int_equal(job.tasks[1].status, COPSE_ERR_NO_MEMORY);
    job.tasks[1].status = COPSE_OK;
    assert_all_done(&job);
}

/* ---- over an engine in which nothing passes a message that was given up ---- */

static struct copse_transport_table blocking;
static char waiting; /* stands for a message of the worker's that nobody takes */
static bool is_blocked;

static copse_status send_but_beats(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                   const void *bytes, size_t size, copse_transport_op **op)
{
    if (t->rank != 0 || (tag != COPSE_TAG_HEARTBEAT && !is_blocked))
        return copse__transport_local.send(t, peer, tag, bytes, size, op);
    *op = (copse_transport_op *)(void *)&waiting;
    return COPSE_OK;
}

static copse_status wait_but_beats(struct copse_transport *t, copse_transport_op *op,
                                   uint64_t timeout_ns)
{
    if ((void *)op != &waiting)
        return copse__transport_local.wait(t, op, timeout_ns);
    if (timeout_ns > 0)
        copse__sleep_ns(timeout_ns);
    return COPSE_ERR_TIMEOUT;
}

static bool drop_and_block(struct copse_transport *t, copse_transport_op *op)
{
    if ((void *)op != &waiting)
        return copse__transport_local.drop(t, op);
    is_blocked = true;
    return false;
}

static copse_status fail_at_once(struct job *job, uint32_t worker, copse_strategy *st)
{
    (void)st;
    copse_cluster_end_job(job->tasks[worker].cluster, COPSE_ERR_NO_MEMORY, "no room for the data",
                          1);
    return copse_fail(COPSE_ERR_NO_MEMORY, "no room for the data");
}

static void test_a_failure_waits_behind_no_beat(void **state)
{
    (void)state;
    struct job job = {
        .workers = 1, .servers = 1, .replicas = 1, .work = fail_at_once, .engine = &blocking
    };
    blocking = copse__transport_local;
    blocking.send = send_but_beats;
    blocking.wait = wait_but_beats;
    blocking.drop = drop_and_block;
    run_job(&job);
    assert_int_equal(job.tasks[1].status, COPSE_ERR_NO_MEMORY);
    assert_non_null(strstr(job.tasks[1].text, "no room for the data"));
    assert_true(is_blocked); /* at the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_step_is_no_silence),
        cmocka_unit_test(test_a_worker_that_stands_still_is_given_up),
        cmocka_unit_test(test_the_rest_of_a_request_falls_among_no_other),
        cmocka_unit_test(test_who_asks_is_there),
        cmocka_unit_test(test_a_failure_is_its_own),
        cmocka_unit_test(test_a_failure_waits_behind_no_beat),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
