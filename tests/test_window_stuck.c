/* SPDX-License-Identifier: MIT */
/* A worker's reads of its server's window that do not end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "tests/window_rig.h"

static struct copse_transport_table faulty;
static void *late;
static size_t late_size;

/* A worker's reads of two variables do not end. The bytes of one come behind those of the message that is asked for
   instead, before what follows them. */
static copse_status get_in_vain(struct copse_transport *t, uint32_t peer, size_t offset, void *bytes,
                                size_t size, copse_transport_op **op)
{
    const bool is_first = size == MODEL_IN * 32 * sizeof(float);
    if (t->rank != 0 || (!is_first && size != 16 * MODEL_CLASSES * sizeof(float)))
        return copse__transport_local.window_get(t, peer, offset, bytes, size, op);
    if (is_first) {
        late = bytes;
        late_size = size;
    }
    return copse__transport_local.recv(t, peer, 77, bytes, size, op); /* nobody sends it */
}

static copse_status recv_behind_late_bytes(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                                           size_t size, copse_transport_op **op)
{
    if (late && t->rank == 0 && size == 32 * sizeof(float))
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
    const struct copse_one_sided_info how = train(&job, otherwise);
    assert_non_null(late);
    assert_int_equal(how.pulls, 0);
    assert_memory_equal(by_messages, otherwise, sizeof trained);
    assert_true(late_ns > 0 && late_ns < 3500000000); /* both in one deadline */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_by_messages), /* first: the others compare with its bytes */
        TEST(test_what_comes_late_is_no_value),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
