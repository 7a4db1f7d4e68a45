/* SPDX-License-Identifier: MIT */
/* Calls of one function by several threads: each index once, and the failure of the smallest
   one. */
#include <stdatomic.h>

#include "core/base/base.h"
#include "core/base/platform.h"
#include "core/data/picture/parallel.h"
#include "tests/rig/rig.h"

enum { COUNT = 1000 };

struct calls {
    atomic_uint each[COUNT];
    atomic_bool has_failed; /* call 2 */
};

static copse_status count(void *user, size_t i)
{
    atomic_fetch_add(&((struct calls *)user)->each[i], 1);
    return COPSE_OK;
}

static void test_each_index_once(void **state)
{
    static struct calls c;
    (void)state;
    for (uint32_t threads = 0; threads <= COPSE_PARALLEL_MAX + 1; threads++) {
        memset(&c, 0, sizeof c);
        OK(copse__parallel_for(threads, COUNT, count, &c));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(c.each[i], 1);
    }
    OK(copse__parallel_for(4, 0, count, &c));
}

/* Call 1 fails after call 2 has failed on another thread. */
static copse_status fail_out_of_order(void *user, size_t i)
{
    struct calls *c = user;
    atomic_fetch_add(&c->each[i], 1);
    while (i == 1 && !atomic_load(&c->has_failed))
        copse__sleep_ns(100000);
    if (i == 1 || i == 2) {
        const copse_status s = copse_fail(i == 1 ? COPSE_ERR_FORMAT : COPSE_ERR_IO, "call %zu", i);
        atomic_store(&c->has_failed, i == 2 || c->has_failed);
        return s;
    }
    return COPSE_OK;
}

static void test_the_first_failure_is_reported(void **state)
{
    static struct calls c;
    (void)state;
    for (int i = 0; i < 20; i++) {
        memset(&c, 0, sizeof c);
        FAILS(COPSE_ERR_FORMAT, copse__parallel_for(2, COUNT, fail_out_of_order, &c), "call 1");
        assert_int_equal(c.each[COUNT - 1], 0); /* none begins after a failure */
    }
    c.has_failed = true;
    FAILS(COPSE_ERR_FORMAT, copse__parallel_for(1, COUNT, fail_out_of_order, &c), "call 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_index_once),
                                        cmocka_unit_test(test_the_first_failure_is_reported) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
