/* SPDX-License-Identifier: MIT */
/* Tuning records that ship with the library: for the same device and driver of any version, below what
   the user has measured; each text in core/trust/records/ is whole. */
#include "core/trust/records.h"
#include "tests/rig/conformance/tuning_rig.h"

static const char *const record[] = {
    "copse-tuning 1 0 0000000000000000\n", /* not read here */
    "device fake fake device 0\n",
    "driver maker 0.9\n",
    "api \n",
    "library 0.0.9\n",
    "units 60\n",
    "rate matmul nn-32-32-32 matmul 100\n",
    "rate matmul nn-32-32-32 matmul_wide 300\n",
    "rate matmul nn-32-32-128 matmul 200\n",
    "rate matmul nn-32-32-128 matmul_wide 100\n",
    "rate shares 0123456789abcdef replica-0 17\n", /* left out: of jobs of another machine */
    NULL,
};
static const char *const *const records[] = { record, NULL };

static uint64_t rate(copse_context *ctx, const char *id, const char *size_class,
                     const char *variant)
{
    copse_device *dev;
    OK(copse_device_open(ctx, id, NULL, &dev));
    const uint64_t r = copse__tuning_rate(dev, "matmul", size_class, variant);
    copse_device_release(&dev);
    return r;
}

static copse_context *open_shipped(void)
{
    copse_context *ctx = open_fake();
    ctx->trust.records = records;
    return ctx;
}

static void record_counts_for_its_device(void **state)
{
    (void)state;
    copse_context *ctx = open_shipped();
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-32", "matmul_wide"), 300);
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-128", "matmul"), 200);
    assert_int_equal(rate(ctx, "fake:1", "nn-32-32-32", "matmul_wide"), 0); /* another name */
    copse_context_release(&ctx);
    driver = "made by others 0.9";
    ctx = open_shipped();
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-32", "matmul_wide"), 0);
    copse_context_release(&ctx);
    driver = "maker 12.5"; /* the same driver, newer */
    ctx = open_shipped();
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-32", "matmul_wide"), 300);
    copse_context_release(&ctx);
}

static void own_measurements_come_first(void **state)
{
    (void)state;
    copse_context *ctx = open_shipped();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 50);
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-32", "matmul"), 50);
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-32", "matmul_wide"), 0); /* not mixed */
    assert_int_equal(rate(ctx, "fake:0", "nn-32-32-128", "matmul"), 200);
    assert_int_equal(count_of(ctx, "fake:0"), 1); /* what is saved is the user's alone */
    copse_context_release(&ctx);
}

static unsigned told;

static void note_line(void *user, copse_log_level level, const char *line)
{
    (void)user, (void)level;
    told += strstr(line, "2 measurements that ship") != NULL ? 2 : 0;
    told += strstr(line, "4 measurements that ship") != NULL ? 4 : 0;
}

static void one_line_says_so(void **state)
{
    (void)state;
    const struct copse_context_params verbose = { .cache = params.cache,
                                                  .log = note_line,
                                                  .log_level = COPSE_LOG_INFO };
    copse_context *ctx;
    OK(copse__context_create_with(&verbose, fake_backends, &ctx));
    ctx->trust.records = records;
    told = 0;
    rate(ctx, "fake:1", "nn-32-32-32", "matmul");
    assert_int_equal(told, 0);
    rate(ctx, "fake:0", "nn-32-32-32", "matmul");
    assert_int_equal(told, 4);
    assert_int_equal(copse__records_count(&ctx->trust, &ctx->devices[0]), 4);
    copse_context_release(&ctx);
}

/* Size and digest of the first line belong to the rest. */
static void shipped_texts_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; copse_shipped_records[i]; i++) {
        const char *const *lines = copse_shipped_records[i];
        uint64_t digest = COPSE_HASH_START;
        size_t size = 0;
        char head[64];
        struct copse_tuning_entry e;
        for (size_t k = 1; lines[k]; k++) {
            digest = copse__hash(digest, lines[k], strlen(lines[k]));
            size += strlen(lines[k]);
            if (k > 5)
                assert_non_null(copse__tuning_line(lines[k], &e));
        }
        snprintf(head, sizeof head, "copse-tuning 1 %zu %016llx\n", size,
                 (unsigned long long)digest);
        assert_string_equal(lines[0], head);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(record_counts_for_its_device, reset),
        cmocka_unit_test_setup(own_measurements_come_first, reset),
        cmocka_unit_test_setup(one_line_says_so, reset),
        cmocka_unit_test_setup(shipped_texts_are_whole, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
