/* SPDX-License-Identifier: MIT */
/* A worker's reads of its server's window that do not end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "tests/rig/workers/window_rig.h"

static struct copse_transport_table faulty;
/* of the worker's thread alone */
static void *late;
static size_t late_size;
static copse_transport_op *stuck[8];
static size_t stuck_count;
static bool was_asked_instead, left_in_order[2];

/* A worker's reads of two variables do not end. The bytes of one come behind those of the message
   that is asked for instead, before what follows them. */
static copse_status get_in_vain(struct copse_transport *t, uint32_t peer, size_t offset,
                                void *bytes, size_t size, copse_transport_op **op)
{
    const bool is_first = size == MODEL_IN * 32 * sizeof(float);
    if (t->rank != 0 || (!is_first && size != 16 * MODEL_CLASSES * sizeof(float)))
        return copse__transport_local.window_get(t, peer, offset, bytes, size, op);
    if (is_first) {
        late = bytes;
        late_size = size;
    }
    /* nobody sends it */
    const copse_status s = copse__transport_local.recv(t, peer, 77, bytes, size, op);
    if (!s && stuck_count < COPSE_COUNT(stuck))
        stuck[stuck_count++] = *op;
    return s;
}

/* They end when the worker has long been given what it wanted, and looks for them once more. */
static copse_status wait_that_ends_at_last(struct copse_transport *t, copse_transport_op *op,
                                           uint64_t timeout_ns)
{
    for (size_t i = 0; t->rank == 0 && i < stuck_count && was_asked_instead; i++)
        if (stuck[i] == op) {
            stuck[i] = NULL;
            copse__transport_local.drop(t, op);
            return COPSE_OK;
        }
    return copse__transport_local.wait(t, op, timeout_ns);
}

static void note_close(struct copse_transport *t, bool is_orderly)
{
    left_in_order[t->rank] = is_orderly;
    copse__transport_local.close(t, is_orderly);
}

static copse_status recv_behind_late_bytes(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                           void *bytes, size_t size, copse_transport_op **op)
{
    if (t->rank == 0 && late)
        was_asked_instead = true;
    if (t->rank == 0 && late && size == 32 * sizeof(float))
        memset(late, 0x55, late_size);
    return copse__transport_local.recv(t, peer, tag, bytes, size, op);
}

static void train_by_messages(void **state)
{
    struct job off = { .one_sided = COPSE_ONE_SIDED_OFF };
    (void)state;
    train(&off, by_messages);
}

static void test_what_comes_late_is_no_value(void **state)
{
    (void)state;
    struct job job = { .engine = &faulty, .deadline_ms = 2000 };
    faulty = copse__transport_local;
    faulty.window_get = get_in_vain;
    faulty.recv = recv_behind_late_bytes;
    faulty.wait = wait_that_ends_at_last;
    faulty.close = note_close;
    const struct copse_one_sided_info how = train(&job, otherwise);
    assert_non_null(late);
    assert_int_equal(how.pulls, 0);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
    assert_true(late_ns > 0 && late_ns < 3500000000); /* both in one deadline */
    assert_int_equal(stuck_count, 2);
    assert_true(left_in_order[0] && left_in_order[1]);
}

/* A worker reads its server's window, which does not end, and has nothing else to do. */
static unsigned char room[64];

static copse_status read_in_vain(struct copse_transport *t, uint32_t peer, size_t offset,
                                 void *bytes, size_t size, copse_transport_op **op)
{
    /* nobody sends it */
    return bytes == room ? copse__transport_local.recv(t, peer, 77, bytes, size, op)
                         : copse__transport_local.window_get(t, peer, offset, bytes, size, op);
}

static copse_status read_once(struct job *job, uint32_t worker, copse_strategy *st)
{
    const struct copse_window_range part = { 0, room, sizeof room };
    (void)job;
    (void)worker;
    CHECK(copse__window_get(st->group.job, 1, &part, 1, 20000000, "a read") == COPSE_ERR_TIMEOUT);
    CHECK(st->group.job->window.stuck == 2);
    return COPSE_OK;
}

/* An orderly end would wait for it for ever. All leave otherwise, the one that has no such read,
   too. */
static void test_a_read_that_never_ends_keeps_nobody(void **state)
{
    struct job job = {
        .engine = &faulty, .workers = 1, .servers = 1, .replicas = 1, .work = read_once
    };
    (void)state;
    faulty = copse__transport_local;
    faulty.window_get = read_in_vain;
    faulty.close = note_close;
    left_in_order[0] = left_in_order[1] = true;
    run_job(&job);
    assert_all_done(&job);
    assert_false(left_in_order[0]);
    assert_false(left_in_order[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_by_messages), /* first: the others compare with its bytes */
        TEST(test_what_comes_late_is_no_value),
        TEST(test_a_read_that_never_ends_keeps_nobody),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
