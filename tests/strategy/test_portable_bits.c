/* SPDX-License-Identifier: MIT */
/* Portable bits: which strategies, shards and devices are refused, and why. Their bits are compared
   by tests/tool/certificate.sh. */
#include "copse/distribute/accelerator.h"
#include "copse/distribute/parameter_server.h"
#include "copse/distribute/portable.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/rig.h"

static copse_context *ctx;

static int begin(void **state)
{
    (void)state;
    fake_reset();
    copse_fake.device_count = 5;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    return 0;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    fake_reset();
    return 0;
}

static const char *const ids[] = { "fake:0", "fake:1", "fake:2", "fake:3", "fake:4" };

static void refused(size_t count, uint32_t shards, copse_status status, const char *says)
{
    const struct copse_strategy_params p = { .portable_shards = shards };
    copse_strategy *st;
    assert_int_equal(copse_mirrored_create(ctx, ids, count, &p, &st), status);
    assert_null(st);
    assert_non_null(strstr(copse_last_error(), says));
}

static void shards_are_checked(void **state)
{
    (void)state;
    refused(5, 12, COPSE_ERR_ARGUMENT, "12 shards are no multiple of 5 devices");
    refused(2, 9, COPSE_ERR_ARGUMENT, "9 shards are no multiple of 2 devices");
    refused(4, 2, COPSE_ERR_ARGUMENT, "2 shards are no multiple of 4 devices");
    refused(1, 65, COPSE_ERR_ARGUMENT, "65 shards, at most 64");
}

static void other_strategies_are_refused(void **state)
{
    const struct copse_strategy_params p = { .portable_shards = COPSE_PORTABLE_SHARDS };
    const struct copse_accelerator_params a = { .strategy = p };
    copse_strategy *st;
    (void)state;
    assert_int_equal(copse_one_device_create(ctx, "fake:0", &p, &st), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "'one device' has no portable bits"));
    assert_int_equal(copse_accelerator_create(ctx, ids, 1, &a, &st), COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse_parameter_server_create(ctx, NULL, ids, 1, &p, &st),
                     COPSE_ERR_UNSUPPORTED);
}

/* The kernels of the fakes are the host functions, which compute in double precision. */
static void other_roundings_are_refused(void **state)
{
    (void)state;
    refused(1, 12, COPSE_ERR_UNSUPPORTED, "fake:0");
    refused(3, 12, COPSE_ERR_UNSUPPORTED, "has no portable bits: it computes ");
    const char *host = "host:0";
    copse_strategy *st;
    const struct copse_strategy_params p = { .portable_shards = COPSE_PORTABLE_SHARDS };
    assert_int_equal(copse_mirrored_create(ctx, &host, 1, &p, &st), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "has no portable bits"));
}

/* What a device has is no reason to compute otherwise. */
static void limits_are_the_same(void **state)
{
    const struct copse_device_params p = { .is_portable = true };
    copse_device *dev;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        OK(copse_device_open(ctx, ids[i], &p, &dev));
        const struct copse_limits *l = &copse_device_describe(dev)->limits;
        assert_int_equal(l->max_group_size, 256);
        assert_int_equal(l->compute_units, 16);
        assert_false(l->is_gpu || l->has_wide_vectors || l->has_fast_texels || l->has_library_gemm);
        assert_int_equal(l->cooperative_shape[0], 0);
        copse_device_release(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shards_are_checked, begin, end),
        cmocka_unit_test_setup_teardown(other_strategies_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(other_roundings_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(limits_are_the_same, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
