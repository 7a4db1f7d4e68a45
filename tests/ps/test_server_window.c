/* SPDX-License-Identifier: MIT */
/* Windows between parameter servers and workers, as threads of this process: what is read is whole,
 * the bytes are those of messages, and where windows do not work everything goes by messages.
 * cluster_ps.sh does it over MPI.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "core/graph/op.h"
#include "core/variable/servers.h"
#include "tests/rig/workers/window_rig.h"

/* ---- whole reads ---- */

#define VARIABLES 3
#define PUSHES    200
static const uint32_t sizes_of[VARIABLES] = { 300, 5000, 1 };
#define ELEMENTS 5301

struct table {
    struct copse_server *server;
    uint32_t ids[VARIABLES], group;
    uint64_t seen[VARIABLES];
    float *values[VARIABLES], *gradients;
};

static copse_status make_table(struct table *t, uint32_t worker, copse_strategy *st)
{
    static const char *const names[VARIABLES] = { "a", "b", "c" };
    const struct copse_optimizer_params rule = { .kind = COPSE_SGD, .learning_rate = 1.0f };
    *t = (struct table){ .server = copse__servers_of(st)->at[0].server };
    t->gradients = malloc(ELEMENTS * sizeof *t->gradients);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        t->gradients[i] = -1.0f;
    for (uint32_t i = 0; i < VARIABLES; i++) {
        t->values[i] = calloc(sizes_of[i], sizeof(float));
        const struct copse_server_variable v = { names[i], COPSE_F32, COPSE_SHAPE(sizes_of[i]),
                                                 t->values[i], worker == 0 };
        COPSE_TRY(t->server->table->make(t->server, &v, &t->ids[i]));
    }
    return t->server->table->group(t->server, 0, t->ids, VARIABLES, &rule, &t->group);
}

static void free_table(struct table *t)
{
    for (uint32_t i = 0; i < VARIABLES; i++)
        free(t->values[i]);
    free(t->gradients);
}

static copse_status pull(struct table *t)
{
    return t->server->table->pull(t->server, t->ids, VARIABLES, t->seen, (void *const *)t->values);
}

/* Every update adds 1 to everything: what is of one moment is the same number everywhere. */
static copse_status check_whole(const struct table *t, float least)
{
    for (uint32_t i = 0; i < VARIABLES; i++)
        for (uint32_t k = 0; k < sizes_of[i]; k++)
            if (t->values[i][k] != t->values[0][0])
                return copse_fail(COPSE_ERR_INTERNAL, "%u of variable %u is %g beside %g", k, i,
                                  (double)t->values[i][k], (double)t->values[0][0]);
    if (t->values[0][0] < least)
        return copse_fail(COPSE_ERR_INTERNAL, "%g after %g: an update was not seen",
                          (double)t->values[0][0], (double)least);
    return COPSE_OK;
}

static copse_status push_and_pull(struct table *t)
{
    const struct copse_server_push push = {
        .rate = 1.0f, .scale = 1.0f, .gradients = t->gradients, .elements = ELEMENTS
    };
    float before = 0.0f;
    for (uint32_t i = 0; i < PUSHES; i++) {
        uint64_t count;
        COPSE_TRY(t->server->table->push(t->server, t->group, &push, &count));
        COPSE_TRY(pull(t));
        COPSE_TRY(check_whole(t, COPSE_MAX(before + 1.0f, (float)count)));
        before = t->values[0][0];
    }
    return COPSE_OK;
}

static copse_status write_and_read(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct table t;
    struct copse_one_sided_info before, after;
    copse_cluster *c = job->tasks[worker].cluster;
    copse_status s = make_table(&t, worker, st);
    if (!s)
        s = push_and_pull(&t);
    copse__mutex_lock(&job->lock);
    job->at++;
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
    if (!s)
        s = await(job, job->workers); /* nobody pushes any more */
    copse_cluster_one_sided(c, &before);
    if (!s)
        s = pull(&t);
    if (!s)
        s = check_whole(&t, (float)(job->workers * PUSHES));
    copse_cluster_one_sided(c, &after);
    if (!s && (before.is_used ? after.pulls != before.pulls + 1 : after.asked != before.asked + 1))
        s = copse_fail(COPSE_ERR_INTERNAL, "the last pull went the other way");
    free_table(&t);
    return s;
}

static void test_what_is_read_is_whole(void **state)
{
    (void)state;
    for (int by_windows = 1; by_windows >= 0; by_windows--) {
        struct job job = { .workers = 3,
                           .servers = 1,
                           .replicas = 1,
                           .work = write_and_read,
                           .one_sided = by_windows ? COPSE_ONE_SIDED_ON : COPSE_ONE_SIDED_OFF };
        run_job(&job);
        assert_all_done(&job);
        assert_int_equal(job.tasks[3].access.is_used, by_windows);
        assert_int_equal(job.tasks[3].access.pushes, by_windows ? 3 * PUSHES : 0);
        for (uint32_t w = 0; w < 3; w++) {
            const struct copse_one_sided_info *a = &job.tasks[w].access;
            assert_int_equal(a->pushes, by_windows ? PUSHES : 0);
            assert_int_equal(a->pulls + a->asked, PUSHES + 1);
            print_message("%s, worker %u: %llu read, %llu tries again, %llu asked\n",
                          by_windows ? "windows" : "messages", w, (unsigned long long)a->pulls,
                          (unsigned long long)a->retries, (unsigned long long)a->asked);
        }
    }
}

/* A push comes between the reads of two variables: the pull begins again. */
static struct copse_transport_table faulty;
static struct job *disturbed;
static bool was_disturbed;

static copse_status get_around_a_push(struct copse_transport *t, uint32_t peer, size_t offset,
                                      void *bytes, size_t size, copse_transport_op **op)
{
    if (t->rank == 1 && size == sizes_of[1] * 4 && !was_disturbed) {
        was_disturbed = true;
        reach(disturbed, 1);
        COPSE_TRY(await(disturbed, 2));
    }
    return copse__transport_local.window_get(t, peer, offset, bytes, size, op);
}

static copse_status disturb(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct table t;
    uint64_t count;
    const float one = 1.0f;
    copse_status s = make_table(&t, worker, st);
    const struct copse_server_push push = {
        .rate = 1.0f, .scale = 1.0f, .gradients = t.gradients, .elements = ELEMENTS
    };
    if (!s && worker == 1)
        s = pull(&t);
    else if (!s)
        s = await(job, 1);
    if (!s && worker == 0)
        s = t.server->table->push(t.server, t.group, &push, &count);
    if (worker == 0)
        reach(job, 2);
    if (!s && worker == 1)
        s = check_whole(&t, one);
    free_table(&t);
    return s;
}

static void test_a_disturbed_read_begins_again(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 1, .replicas = 1, .work = disturb, .engine = &faulty
    };
    faulty = copse__transport_local;
    faulty.window_get = get_around_a_push;
    disturbed = &job;
    was_disturbed = false;
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[1].access.retries, 1);
    assert_int_equal(job.tasks[1].access.pulls, 1);
    assert_int_equal(job.tasks[1].access.asked, 0);
}

/* ---- training ---- */

static void test_the_bytes_of_messages(void **state)
{
    (void)state;
    struct job off = { .one_sided = COPSE_ONE_SIDED_OFF }, on = { .one_sided = COPSE_ONE_SIDED_ON };
    struct copse_one_sided_info how = train(&off, by_messages);
    assert_false(how.is_used);
    assert_string_equal(off.tasks[0].why, "they are off");
    how = train(&on, otherwise);
    assert_true(how.is_used);
    assert_true(how.pulls >= STEPS);
    assert_int_equal(how.pushes, STEPS);
    assert_int_equal(how.asked, 0);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
    /* no room for the larger variables, and none for all gradients together */
    struct job small = { .window_bytes = 4096 };
    how = train(&small, otherwise);
    assert_true(how.is_used);
    assert_int_equal(how.pulls, 0);
    assert_int_equal(how.pushes, 0);
    assert_true(how.asked >= STEPS);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
}

/* ---- small ones by the window, large ones by messages ---- */

/* Pulls of the small variables, of all, and of all when nothing is new. */
static copse_status pull_by_size(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct table t;
    struct copse_one_sided_info how[4];
    uint64_t count;
    copse_cluster *c = job->tasks[worker].cluster;
    copse_status s = make_table(&t, worker, st);
    const struct copse_server_push push = {
        .rate = 1.0f, .scale = 1.0f, .gradients = t.gradients, .elements = ELEMENTS
    };
    const uint32_t small[] = { t.ids[0], t.ids[2] };
    void *const into[] = { t.values[0], t.values[2] };
    uint64_t seen[2] = { 0 };
    if (!s)
        s = t.server->table->push(t.server, t.group, &push, &count);
    copse_cluster_one_sided(c, &how[0]);
    if (!s)
        s = t.server->table->pull(t.server, small, 2, seen, into);
    copse_cluster_one_sided(c, &how[1]);
    for (uint32_t i = 2; i < 4 && !s; i++) {
        s = pull(&t);
        copse_cluster_one_sided(c, &how[i]);
    }
    if (!s)
        s = check_whole(&t, 1.0f);
    if (!s && (how[1].pulls != how[0].pulls + 1 || how[1].asked != how[0].asked))
        s = copse_fail(COPSE_ERR_INTERNAL, "small ones did not go by the window");
    if (!s && (how[2].pulls != how[1].pulls || how[2].asked != how[1].asked + 1))
        s = copse_fail(COPSE_ERR_INTERNAL, "a large one did not go by a message");
    if (!s && (how[3].pulls != how[2].pulls + 1 || how[3].asked != how[2].asked))
        s = copse_fail(COPSE_ERR_INTERNAL, "that nothing was new did not stand in the window");
    free_table(&t);
    return s;
}

static void test_auto_chooses_by_size(void **state)
{
    (void)state;
    struct job job = { .workers = 1,
                       .servers = 1,
                       .replicas = 1,
                       .work = pull_by_size,
                       .one_sided_bytes = sizes_of[1] * 4 - 1 };
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[0].access.retries, 0);
    /* training: two of its variables are larger */
    struct job some = { .one_sided_bytes = 1024 }, off = { .one_sided = COPSE_ONE_SIDED_OFF };
    train(&off, by_messages);
    const struct copse_one_sided_info how = train(&some, otherwise);
    assert_true(how.is_used);
    assert_true(how.asked >= STEPS);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
    /* one that is as large as may be goes by the window, with `on` every one does */
    struct job all = { .one_sided_bytes = MODEL_IN * 32 * 4 };
    assert_int_equal(train(&all, otherwise).asked, 0);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
}

/* ---- engines whose windows do not work ---- */

static uint32_t gets_left; /* of worker 0, until reading fails */

static copse_status open_not_everywhere(struct copse_transport *t, size_t size, uint64_t timeout_ns)
{
    return t->rank == 0
               ? copse_transport_fail(t, COPSE_ERR_UNSUPPORTED, "there is no room for a window")
               : copse__transport_local.window_open(t, size, timeout_ns);
}

static copse_status get_something_else(struct copse_transport *t, uint32_t peer, size_t offset,
                                       void *bytes, size_t size, copse_transport_op **op)
{
    const copse_status s = copse__transport_local.window_get(t, peer, offset, bytes, size, op);
    if (!s && t->rank == 1)
        ((unsigned char *)bytes)[size - 1] ^= 1;
    return s;
}

static copse_status get_until_it_fails(struct copse_transport *t, uint32_t peer, size_t offset,
                                       void *bytes, size_t size, copse_transport_op **op)
{
    if (t->rank == 0 && gets_left-- == 0)
        return gets_left = 0, copse_transport_fail(t, COPSE_ERR_COMM, "it cannot be read any more");
    return copse__transport_local.window_get(t, peer, offset, bytes, size, op);
}

/* A number that is not the request's. */
static void put_another_number(struct copse_transport *t, size_t offset, const void *bytes,
                               size_t size)
{
    uint64_t word = 7777;
    if (t->rank == 0 && offset == 0 && size == sizeof word)
        bytes = &word;
    copse__transport_local.window_put(t, offset, bytes, size);
}

static void assert_falls_back(const char *why)
{
    struct job maybe = { .engine = &faulty }, on = { .engine = &faulty,
                                                     .one_sided = COPSE_ONE_SIDED_ON,
                                                     .workers = 1,
                                                     .servers = 1,
                                                     .replicas = 1,
                                                     .work = learn };
    const struct copse_one_sided_info how = train(&maybe, otherwise);
    assert_false(how.is_used);
    assert_int_equal(how.pulls, 0);
    for (uint32_t r = 0; r < 2; r++)
        if (!strstr(maybe.tasks[r].why, why))
            fail_msg("rank %u says: %s", r, maybe.tasks[r].why);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
    run_job(&on);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(on.tasks[r].status, COPSE_ERR_UNSUPPORTED);
        if (!strstr(on.tasks[r].text, why) ||
            !strstr(on.tasks[r].text, "windows are on and cannot be used"))
            fail_msg("rank %u says: %s", r, on.tasks[r].text);
    }
}

static void test_what_does_not_work_is_not_used(void **state)
{
    (void)state;
    faulty = copse__transport_local;
    faulty.window_open = NULL;
    assert_falls_back("the engine local has none");
    faulty.window_open = open_not_everywhere;
    assert_falls_back("worker 0 (w0:1): there is no room for a window");
    faulty = copse__transport_local;
    faulty.window_get = get_something_else;
    assert_falls_back("ps 0 (s0:1): its read of rank 0 returned other bytes than that rank wrote");
}

/* Reads that fail later: the server is asked. */
static void test_a_read_that_fails_is_asked_for(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 12; more++) {
        struct job job = { .engine = &faulty };
        faulty = copse__transport_local;
        faulty.window_get = get_until_it_fails;
        gets_left = 4 + more; /* four are to try windows */
        const struct copse_one_sided_info how = train(&job, otherwise);
        assert_true(how.is_used);
        assert_true(how.asked > 0);
        assert_memory_equal(by_messages, otherwise, sizeof trained);
    }
}

static void test_gradients_of_another_push_are_refused(void **state)
{
    (void)state;
    struct job job = {
        .workers = 1, .servers = 1, .replicas = 1, .work = write_and_read, .engine = &faulty
    };
    faulty = copse__transport_local;
    faulty.window_put = put_another_number;
    run_job(&job);
    assert_int_equal(job.tasks[0].status, COPSE_ERR_COMM);
    assert_non_null(strstr(job.tasks[0].text, "the worker's window holds other gradients"));
    assert_int_equal(job.tasks[1].status, COPSE_OK);
    assert_int_equal(job.tasks[1].summary.updates, 0);
}

/* A read of worker 0's gradients does not end; or these come late, and the read of their number
   does not end. The bytes come when they are not waited for any more. */
static bool is_second, has_slept;
static void *late;
static size_t late_size;
static copse_transport_op *late_op;

static copse_status get_much_later(struct copse_transport *t, uint32_t peer, size_t offset,
                                   void *bytes, size_t size, copse_transport_op **op)
{
    if (late && t->rank == 2)
        memset(late, 0x55, late_size);
    const bool is_of_push = t->rank == 2 && peer == 0,
               are_gradients = size == ELEMENTS * sizeof(float);
    const bool is_number = has_slept && offset == 0 && size == sizeof(uint64_t);
    if (is_of_push && are_gradients && is_second) {
        has_slept = true;
        copse__sleep_ns(1500000000);
    }
    if (!is_of_push || !(is_second ? is_number : are_gradients))
        return copse__transport_local.window_get(t, peer, offset, bytes, size, op);
    late = bytes;
    late_size = size;
    const copse_status s = t->table->recv(t, peer, 77, bytes, size, op); /* nobody sends it */
    late_op = s ? NULL : *op;
    return s;
}

/* It ends when the server leaves, and waits for it once more: not for an instant between two
   looks. */
static copse_status wait_that_ends_at_last(struct copse_transport *t, copse_transport_op *op,
                                           uint64_t timeout_ns)
{
    if (t->rank != 2 || op != late_op || timeout_ns < 100000000)
        return copse__transport_local.wait(t, op, timeout_ns);
    late_op = NULL;
    copse__transport_local.drop(t, op);
    return COPSE_OK;
}

static void test_a_stuck_read_concerns_one_worker(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) {
        struct job job = { .workers = 2,
                           .servers = 1,
                           .replicas = 1,
                           .work = write_and_read,
                           .engine = &faulty,
                           .deadline_ms = 2000 };
        faulty = copse__transport_local;
        faulty.window_get = get_much_later;
        faulty.wait = wait_that_ends_at_last;
        late = NULL;
        is_second = second;
        has_slept = false;
        run_job(&job);
        assert_all_done(&job);
        assert_non_null(late);
        assert_int_equal(job.tasks[2].summary.updates, 2 * PUSHES); /* each once */
        assert_int_equal(job.tasks[2].summary.lost, 0);
        assert_int_equal(job.tasks[2].access.pushes, PUSHES);
        assert_int_equal(job.tasks[0].access.pushes, 1); /* the others were sent */
        assert_int_equal(job.tasks[1].access.pushes, PUSHES);
    }
}

/* An engine in which opening a window never comes back, and what it is asked for afterwards. */
static _Thread_local bool is_hung;
static atomic_uint asked_in_vain;

static copse_status open_for_ever(struct copse_transport *t, size_t size, uint64_t timeout_ns)
{
    (void)size, (void)timeout_ns;
    is_hung = true;
    return copse_transport_fail(t, COPSE_ERR_TIMEOUT, "allocating a window did not end");
}

static copse_status in_vain(struct copse_transport *t)
{
    atomic_fetch_add(&asked_in_vain, 1);
    return copse_transport_fail(t, COPSE_ERR_COMM, "a call has not come back");
}

static copse_status send_unless_hung(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                     const void *bytes, size_t size, copse_transport_op **op)
{
    return is_hung ? in_vain(t) : copse__transport_local.send(t, peer, tag, bytes, size, op);
}

static copse_status wait_unless_hung(struct copse_transport *t, copse_transport_op *op,
                                     uint64_t timeout_ns)
{
    return is_hung ? in_vain(t) : copse__transport_local.wait(t, op, timeout_ns);
}

static void test_nothing_is_waited_for_when_opening_hangs(void **state)
{
    (void)state;
    struct job job = {
        .workers = 2, .servers = 1, .replicas = 1, .work = learn, .engine = &faulty
    };
    faulty = copse__transport_local;
    faulty.ends_together = true;
    faulty.window_open = open_for_ever;
    faulty.send = send_unless_hung;
    faulty.wait = wait_unless_hung;
    atomic_store(&asked_in_vain, 0);
    run_job(&job);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(job.tasks[r].status, COPSE_ERR_TIMEOUT);
        assert_non_null(strstr(job.tasks[r].text, "allocating a window did not end"));
    }
    assert_int_equal(atomic_load(&asked_in_vain), 0);
}

/* ---- settings ---- */

static copse_status nothing(struct job *job, uint32_t worker, copse_strategy *st)
{
    (void)job;
    (void)worker;
    (void)st;
    return COPSE_OK;
}

static void test_settings(void **state)
{
    (void)state;
    static const struct {
        copse_one_sided wish;
        uint64_t bytes;
        const char *text;
    } wrong[] = {
        { (copse_one_sided)3, 0, "one_sided is auto, on or off, not 3" },
        { COPSE_ONE_SIDED_AUTO, 4095, "windows of 4095 bytes" },
        { COPSE_ONE_SIDED_AUTO, (1ull << 30) + 1, "windows of 1073741825 bytes" },
    };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        struct job job = { .workers = 1,
                           .servers = 1,
                           .replicas = 1,
                           .work = nothing,
                           .one_sided = wrong[i].wish,
                           .window_bytes = wrong[i].bytes };
        run_job(&job);
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(job.tasks[r].status, COPSE_ERR_ARGUMENT);
            assert_non_null(strstr(job.tasks[r].text, wrong[i].text));
        }
    }
    /* workers in step have none */
    struct job none = {
        .workers = 2, .replicas = 1, .work = nothing, .one_sided = COPSE_ONE_SIDED_ON
    };
    run_job(&none);
    assert_false(none.tasks[0].access.is_used);
    assert_string_equal(none.tasks[0].why, "the job has no parameter server");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bytes_of_messages), /* first: the others compare with its bytes */
        TEST(test_auto_chooses_by_size),
        TEST(test_what_is_read_is_whole),
        TEST(test_a_disturbed_read_begins_again),
        TEST(test_what_does_not_work_is_not_used),
        TEST(test_a_read_that_fails_is_asked_for),
        TEST(test_gradients_of_another_push_are_refused),
        TEST(test_a_stuck_read_concerns_one_worker),
        TEST(test_nothing_is_waited_for_when_opening_hangs),
        TEST(test_settings),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
