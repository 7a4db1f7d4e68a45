/* SPDX-License-Identifier: MIT */
/* The cores of the accelerator strategy: which ones, their order, and values reduced between
   them. */
#include "copse/distribute/accelerator.h"
#include "copse/distribute/replica.h"

#include "tests/rig/value/accelerator_rig.h"

#include "core/strategy/create.h"

/* ---- TPU-3: the mean of 1 and 3 is 2, on both ---- */

static copse_status means(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    copse_value *mine;
    (void)args, (void)count, (void)user;
    COPSE_TRY(copse_value_scalar(ctx, 1.0f + 2.0f * (float)copse_replica_id(rc), &mine));
    const copse_status s = copse_replica_all_reduce(rc, COPSE_REDUCE_MEAN, mine, result);
    copse_value_release(&mine);
    return s;
}

static void tpu_3(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const char *const ids[2] = { backends[b], backends[b] };
        copse_value *out, *list[2];
        copse_strategy *st;
        size_t count;
        if (!is_found(ids[0]))
            continue;
        OK(copse_accelerator_create(ctx, ids, 2, NULL, &st));
        OK(copse_strategy_run(st, means, NULL, 0, NULL, &out));
        copse_local_results(out, list, 2, &count);
        assert_int_equal(count, 2);
        for (size_t r = 0; r < 2; r++) {
            float x = 0;
            OK(copse_value_read(list[r], &x));
            assert_true(x == 2.0f);
        }
        copse_value_release(&out);
        copse_strategy_release(&st);
    }
}

/* ---- TPU-5: which cores ---- */

static void tpu_5(void **state)
{
    const char *const four[4] = { "host:0", "host:0", "host:0", "host:0" };
    const char *const middle = is_found("opencl:0") ? "opencl:0" : "host:0";
    const char *const last = is_found("vulkan:0") ? "vulkan:0" : middle;
    const char *const mixed[3] = { last, middle, "host:0" }; /* not in order */
    const uint32_t turned[] = { 2, 0 }, twice[] = { 1, 1 }, none[] = { 0, 3 };
    struct copse_accelerator_params p = { .cores = 3 };
    copse_strategy *st;
    (void)state;
    OK(copse_accelerator_create(ctx, four, 4, &p, &st));
    assert_int_equal(copse_strategy_kind_of(st), COPSE_STRATEGY_ACCELERATOR);
    assert_string_equal(copse_strategy_name(st), "accelerator");
    assert_int_equal(copse_strategy_replicas(st), 3);
    assert_int_equal(copse_accelerator_steps_per_run(st), 1);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(copse_accelerator_core(st, r), r);
    assert_true(copse_accelerator_core(st, 3) == UINT32_MAX);
    assert_true(copse_accelerator_is_resident(st));
    assert_true(copse__device_id_compare("opencl:2", "opencl:10") < 0);
    copse_strategy_release(&st);
    p.cores = 5;
    FAILS(COPSE_ERR_ARGUMENT, copse_accelerator_create(ctx, four, 4, &p, &st), "5 cores");
    assert_null(st);
    FAILS(COPSE_ERR_ARGUMENT,
          copse_accelerator_create(
              ctx, four, 4,
              &(struct copse_accelerator_params){ .steps_per_run = COPSE_MAX_STEPS_PER_RUN + 1 },
              &st),
          "steps");

    OK(copse_accelerator_create(ctx, mixed, 3, &(struct copse_accelerator_params){ .cores = 2 },
                                &st));
    assert_string_equal(copse_strategy_device(st, 0)->id, "host:0");
    assert_string_equal(copse_strategy_device(st, 1)->id, middle);
    copse_strategy_release(&st);

    p = (struct copse_accelerator_params){ .cores = 2, .assignment = turned };
    OK(copse_accelerator_create(ctx, mixed, 3, &p, &st));
    assert_string_equal(copse_strategy_device(st, 0)->id, last);
    assert_string_equal(copse_strategy_device(st, 1)->id, "host:0");
    assert_int_equal(copse_accelerator_core(st, 0), 2);
    assert_int_equal(copse_accelerator_core(st, 1), 0);
    copse_strategy_release(&st);
    p.assignment = twice;
    FAILS(COPSE_ERR_ARGUMENT, copse_accelerator_create(ctx, mixed, 3, &p, &st), "another");
    p.assignment = none;
    FAILS(COPSE_ERR_ARGUMENT, copse_accelerator_create(ctx, mixed, 3, &p, &st), "there is not");
    p.cores = 0;
    FAILS(COPSE_ERR_ARGUMENT, copse_accelerator_create(ctx, mixed, 3, &p, &st), "number of cores");
    FAILS(COPSE_ERR_NO_DEVICE,
          copse_accelerator_create(ctx, (const char *const[]){ "host:17" }, 1, NULL, &st),
          "host:17");
}

static void ids_are_in_the_order_of_their_numbers(void **state)
{
    static const char *const sorted[] = {
        "host:0",    "import:9",   "import:10", "opencl",
        "opencl:",   "opencl:0",   "opencl:2",  "opencl:10",
        "opencl:11", "opencl:100", "vulkan:3",  "vulkan:18446744073709551616"
    };
    const size_t count = sizeof sorted / sizeof *sorted;
    (void)state;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++) {
            const int order = copse__device_id_compare(sorted[a], sorted[b]);
            if ((a < b) != (order < 0) || (a == b) != (order == 0))
                fail_msg("%s, %s: %d", sorted[a], sorted[b], order);
        }
    assert_int_equal(copse__device_id_compare("opencl:02", "opencl:2"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tpu_3),
        cmocka_unit_test(tpu_5),
        cmocka_unit_test(ids_are_in_the_order_of_their_numbers),
    };
    return cmocka_run_group_tests_name("accelerator_cores", tests, open_context, close_context);
}
