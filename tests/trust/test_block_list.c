/* SPDX-License-Identifier: MIT */
/* Blocked kernels: kept per device and driver, shared through the kernel cache, never believed when
   damaged, and avoided: a driver that lies about one variant does not spoil training. */
#include "copse/device/conformance.h"

#include "tests/rig/fake/kept.h"

#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/fake/lying_backend.h"
#include "tests/rig/train/train_model.h"

/* ---- a kernel cache that outlives contexts ---- */

static unsigned warnings;

static void count_warnings(void *user, copse_log_level level, const char *line)
{
    (void)user;
    warnings += level <= COPSE_LOG_WARN && strstr(line, "damaged") != NULL;
}

static bool has_self_tests;

static copse_context *open_over(const struct copse_backend *const *backends)
{
    copse_context *ctx;
    OK(copse__context_create_with(
        &(struct copse_context_params){ .cache = { .get = get_kept, .put = keep },
                                        .log = count_warnings,
                                        .no_self_test = !has_self_tests },
        backends, &ctx));
    return ctx;
}

static copse_context *open_fake(void)
{
    return open_over(fake_backends);
}

static int reset(void **state)
{
    (void)state;
    fake_reset();
    copse_fake.device_count = 2;
    drop_kept();
    kept_prefix = "blocked-"; /* compiled kernels are not what is tested */
    warnings = 0;
    has_self_tests = false;
    copse_lie.how = LIE_NONE;
    copse_lie.kernel = "";
    return 0;
}

static size_t blocked_count(copse_context *ctx, const char *device)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    OK(copse_device_blocked(ctx, device, &list, &count));
    return count;
}

static size_t count_in_new_context(const char *device)
{
    copse_context *ctx = open_fake();
    const size_t count = blocked_count(ctx, device);
    copse_context_release(&ctx);
    return count;
}

/* ---- what a block does ---- */

static void blocked_kernel_is_refused(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    copse_device *dev, *other;
    struct copse_kernel *k;
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    OK(copse_device_open(ctx, "fake:1", NULL, &other));
    OK(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k));

    OK(copse_device_block(ctx, "fake:0", "softmax", "element 3 is wrong"));
    assert_false(copse__kernel_fits(dev, COPSE_KERNEL_softmax));
    assert_true(copse__kernel_fits(dev, COPSE_KERNEL_unary));
    assert_true(copse__kernel_fits(other, COPSE_KERNEL_softmax));
    assert_int_equal(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "softmax is blocked on fake:0: element 3 is wrong"));

    dev->tries_blocked = true;
    assert_true(copse__kernel_fits(dev, COPSE_KERNEL_softmax));
    dev->tries_blocked = false;
    OK(copse_device_unblock(ctx, "fake:0", "softmax"));
    assert_true(copse__kernel_fits(dev, COPSE_KERNEL_softmax));
    copse_device_release(&dev);
    copse_device_release(&other);
    copse_context_release(&ctx);
}

static void newest_reason_counts(void **state)
{
    (void)state;
    const struct copse_blocked_kernel *list;
    size_t count;
    char longest[400];
    copse_context *ctx = open_fake();
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    OK(copse_device_block(ctx, "fake:0", "softmax", longest));
    OK(copse_device_block(ctx, "fake:0", "unary", NULL));
    OK(copse_device_block(ctx, "fake:0", "softmax", "line\nblock unary"));
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].kernel, "softmax");
    assert_string_equal(list[0].reason, "line block unary");
    assert_string_equal(list[1].reason, "blocked by the application");
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 2);
}

/* ---- cases ---- */

static copse_status fail_case(copse_context *ctx, const char *kernel, const char *name,
                              copse_verdict verdict)
{
    const struct copse_case_result r = { .mode = "run",
                                         .op = "softmax",
                                         .name = name,
                                         .variant = kernel,
                                         .verdict = verdict,
                                         .text = "by the test" };
    return copse_device_block_case(ctx, "fake:0", &r, COPSE_CONFORM_STANDARD);
}

static bool pass_case(copse_context *ctx, const char *name, copse_conformance_tier tier)
{
    const struct copse_kernel_case c = {
        .kernel = "softmax", .mode = "run", .op = "softmax", .name = name, .tier = (uint32_t)tier
    };
    copse_device *dev;
    uint64_t id;
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    const bool has_failed = copse__device_has_failed(dev, &c, &id);
    OK(copse__device_pass_case(dev, "softmax", id, (uint32_t)tier));
    copse_device_release(&dev);
    return has_failed;
}

static void pass_three_times(copse_context *ctx, const char *name, copse_conformance_tier tier)
{
    for (int i = 0; i < 3; i++)
        assert_true(pass_case(ctx, name, tier));
}

/* Each step in a context of its own, as in a process of its own. */
static void failed_cases_are_kept(void **state)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    (void)state;
    copse_context *ctx = open_fake();
    OK(fail_case(ctx, "softmax", "one", COPSE_VERDICT_CRASH));
    OK(fail_case(ctx, "softmax", "two", COPSE_VERDICT_DEVICE_LOST));
    OK(fail_case(ctx, COPSE_LIBRARY_PRODUCT, "one", COPSE_VERDICT_FAIL));
    OK(fail_case(ctx, "unary", "one", COPSE_VERDICT_TIMEOUT));
    copse_context_release(&ctx);

    ctx = open_fake();
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].kernel, "softmax");
    assert_non_null(strstr(list[0].reason, "run/softmax/two: by the test [standard, 2"));
    assert_false(list[0].is_lasting);
    assert_string_equal(list[1].kernel, COPSE_LIBRARY_PRODUCT);
    assert_false(pass_case(ctx, "one", COPSE_CONFORM_QUICK));
    assert_false(pass_case(ctx, "three", COPSE_CONFORM_FULL));
    pass_three_times(ctx, "one", COPSE_CONFORM_STANDARD);
    assert_false(pass_case(ctx, "one", COPSE_CONFORM_STANDARD)); /* forgotten */
    copse_context_release(&ctx);

    ctx = open_fake();
    assert_int_equal(blocked_count(ctx, "fake:0"), 2);
    assert_true(pass_case(ctx, "two", COPSE_CONFORM_EXHAUSTIVE));
    copse_context_release(&ctx);

    ctx = open_fake();
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[0].passes, 1);
    assert_true(pass_case(ctx, "two", COPSE_CONFORM_EXHAUSTIVE));
    OK(fail_case(ctx, "softmax", "two", COPSE_VERDICT_FAIL)); /* the passes were not in a row */
    assert_true(pass_case(ctx, "two", COPSE_CONFORM_EXHAUSTIVE));
    assert_true(pass_case(ctx, "two", COPSE_CONFORM_EXHAUSTIVE));
    assert_int_equal(blocked_count(ctx, "fake:0"), 2);
    assert_true(pass_case(ctx, "two", COPSE_CONFORM_EXHAUSTIVE));
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 1);

    ctx = open_fake();
    OK(fail_case(ctx, "unary", "one", COPSE_VERDICT_TIMEOUT)); /* the second time */
    assert_int_equal(blocked_count(ctx, "fake:0"), 2);
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    OK(fail_case(ctx, "unary", "one", COPSE_VERDICT_TIMEOUT)); /* forgotten with the rest */
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 0);
    assert_int_equal(warnings, 0);
}

/* What is stored does not grow without end; what fails so often is no matter of single cases. */
static void many_failed_cases_make_the_block_lasting(void **state)
{
    const struct copse_blocked_kernel *list;
    char name[16];
    size_t count;
    (void)state;
    copse_context *ctx = open_fake();
    for (unsigned i = 0; i < 1025; i++) {
        snprintf(name, sizeof name, "%u", i);
        OK(fail_case(ctx, "softmax", name, COPSE_VERDICT_FAIL));
        OK(copse_device_blocked(ctx, "fake:0", &list, &count));
        assert_int_equal(count, 1);
        assert_int_equal(list[0].is_lasting, i == 1024);
    }
    assert_true(kept[0].size < 1024);
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 1);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    const struct copse_blocked_kernel *list;
    size_t count;
    copse_context *ctx = open_fake();
    assert_int_equal(copse_device_block(ctx, "fake:0", "softmin", "x"), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_block(ctx, "fake:0", "soft", "x"), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_block(ctx, "fake:0", NULL, "x"), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_block(ctx, "fake:7", "softmax", "x"), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_device_block(ctx, NULL, "softmax", "x"), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_block(NULL, "fake:0", "softmax", "x"), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_unblock(ctx, "fake:0", "softmin"), COPSE_ERR_ARGUMENT);
    assert_int_equal(fail_case(ctx, "softmin", "one", COPSE_VERDICT_FAIL), COPSE_ERR_ARGUMENT);
    assert_int_equal(fail_case(ctx, NULL, "one", COPSE_VERDICT_FAIL), COPSE_ERR_ARGUMENT);
    assert_int_equal(fail_case(ctx, "softmax", NULL, COPSE_VERDICT_FAIL), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_block_case(ctx, "fake:0", NULL, COPSE_CONFORM_QUICK),
                     COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_blocked(ctx, "fake:0", NULL, &count), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_blocked(ctx, "fake:7", &list, &count), COPSE_ERR_NO_DEVICE);
    assert_int_equal(blocked_count(ctx, "fake:0"), 0);
    assert_int_equal(kept_count, 0);
    copse_context_release(&ctx);
}

/* ---- what is kept ---- */

static const char *driver = "maker 1.0";

static void describe(struct copse_device_info *info)
{
    snprintf(info->driver, sizeof info->driver, "%s", driver);
}

static void block_is_kept_for_the_driver_version(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = describe;
    copse_context *ctx = open_fake();
    OK(copse_device_block(ctx, "fake:0", "softmax", "x"));
    copse_context_release(&ctx);

    assert_int_equal(count_in_new_context("fake:0"), 1);
    assert_int_equal(count_in_new_context("fake:1"), 0);
    driver = "maker 1.1";
    assert_int_equal(count_in_new_context("fake:0"), 0);
    driver = "maker 1.0";
    assert_int_equal(count_in_new_context("fake:0"), 1);

    ctx = open_fake();
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 0);
    assert_int_equal(warnings, 0);
}

/* As two processes would. */
static void contexts_do_not_overwrite_each_other(void **state)
{
    (void)state;
    copse_context *a = open_fake(), *b = open_fake();
    assert_int_equal(blocked_count(a, "fake:0"), 0);
    assert_int_equal(blocked_count(b, "fake:0"), 0);
    OK(copse_device_block(a, "fake:0", "softmax", "a"));
    OK(copse_device_block(b, "fake:0", "unary", "b"));
    assert_int_equal(blocked_count(b, "fake:0"), 2);
    copse_context_release(&a);
    copse_context_release(&b);
    assert_int_equal(count_in_new_context("fake:0"), 2);
}

static void what_another_context_takes_back_stays_so(void **state)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    (void)state;
    copse_context *a = open_fake();
    OK(fail_case(a, "softmax", "one", COPSE_VERDICT_FAIL));
    OK(fail_case(a, "binary", "one", COPSE_VERDICT_TIMEOUT));
    OK(copse_device_block(a, "fake:0", "reduce", "a"));
    copse_context *b = open_fake();
    assert_int_equal(blocked_count(b, "fake:0"), 2);
    pass_three_times(a, "one", COPSE_CONFORM_STANDARD);
    OK(copse_device_unblock(a, "fake:0", "reduce"));
    OK(copse_device_unblock(a, "fake:0", "binary")); /* and forget that it was late */
    OK(copse_device_block(b, "fake:0", "unary", "b"));
    OK(copse_device_blocked(b, "fake:0", &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].kernel, "unary");
    OK(fail_case(b, "binary", "one", COPSE_VERDICT_TIMEOUT));
    assert_int_equal(count_in_new_context("fake:0"), 1);

    /* Not even one of its own comes back. */
    OK(copse_device_unblock(a, "fake:0", NULL));
    OK(fail_case(b, "argmax", "one", COPSE_VERDICT_FAIL));
    assert_int_equal(blocked_count(b, "fake:0"), 1);
    assert_int_equal(count_in_new_context("fake:0"), 1);
    copse_context_release(&a);
    copse_context_release(&b);
}

/* A folder that cannot be written, or was emptied: nothing that is known gets lost with it. */
static void what_is_not_kept_is_known_all_the_same(void **state)
{
    (void)state;
    copse_context *ctx = open_fake(), *other = open_fake();
    OK(copse_device_block(ctx, "fake:0", "softmax", "x"));
    kept_prefix = "nothing-";
    OK(copse_device_block(ctx, "fake:0", "unary", "x"));
    OK(fail_case(ctx, "binary", "one", COPSE_VERDICT_FAIL));
    assert_int_equal(blocked_count(ctx, "fake:0"), 3);
    assert_int_equal(count_in_new_context("fake:0"), 1);
    kept_prefix = "blocked-";
    OK(copse_device_block(other, "fake:0", "argmax", "x"));
    OK(copse_device_block(ctx, "fake:0", "reduce", "x"));
    assert_int_equal(blocked_count(ctx, "fake:0"), 5);
    drop_kept();
    OK(copse_device_unblock(ctx, "fake:0", "reduce"));
    assert_int_equal(count_in_new_context("fake:0"), 4);
    copse_context_release(&other);
    copse_context_release(&ctx);
}

/* ---- a cache that several share ---- */

static char calls[400]; /* l: locked, g: got, p: put, u: unlocked */

static void note_call(char call)
{
    const size_t length = strlen(calls);
    assert_true(length + 1 < sizeof calls);
    calls[length] = call;
}

static void *lock_kept(void *user, const char *key)
{
    (void)user;
    assert_memory_equal(key, "blocked-", 8);
    note_call('l');
    return calls;
}

static void unlock_kept(void *user, void *locked)
{
    (void)user;
    assert_ptr_equal(locked, calls);
    note_call('u');
}

static void get_noted(void *user, const char *key,
                      void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    if (strncmp(key, kept_prefix, strlen(kept_prefix)) == 0)
        note_call('g');
    get_kept(user, key, take, to);
}

static void keep_noted(void *user, const char *key, const void *bytes, size_t size)
{
    note_call('p');
    keep(user, key, bytes, size);
}

/* The cache is locked from before a list is read until it is stored, and never for longer. */
static void every_change_is_made_under_the_lock(void **state)
{
    copse_context *ctx;
    (void)state;
    const struct copse_context_params how = {
        .cache = { .get = get_noted, .put = keep_noted, .lock = lock_kept, .unlock = unlock_kept },
        .no_self_test = true,
    };
    OK(copse__context_create_with(&how, fake_backends, &ctx));
    OK(copse_device_block(ctx, "fake:0", "unary", "x"));
    for (unsigned i = 0; i < 4; i++) {
        memset(calls, 0, sizeof calls);
        if (i == 0)
            OK(copse_device_block(ctx, "fake:0", "softmax", "x"));
        else if (i == 1)
            OK(copse_device_unblock(ctx, "fake:0", NULL));
        else if (i == 2)
            OK(fail_case(ctx, "softmax", "one", COPSE_VERDICT_FAIL));
        else
            assert_true(pass_case(ctx, "one", COPSE_CONFORM_STANDARD));
        assert_string_equal(calls, "lgpgu"); /* the second look: whether it was kept */
    }
    memset(calls, 0, sizeof calls);
    FAILS(COPSE_ERR_ARGUMENT, copse_device_block(ctx, "fake:0", "softmin", "x"), "softmin");
    OK(copse_device_unblock(ctx, "fake:0", "unary"));
    assert_string_equal(calls, "lgpgu");
    copse_context_release(&ctx);
}

static void damaged_store_is_ignored(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    OK(copse_device_block(ctx, "fake:0", "softmax", "x"));
    OK(fail_case(ctx, "unary", "y", COPSE_VERDICT_FAIL));
    copse_context_release(&ctx);
    assert_int_equal(kept_count, 1);
    const struct kept whole = copy_of_kept(0);
    assert_int_equal(count_in_new_context("fake:0"), 2);

    for (size_t i = 0; i < whole.size; i++) {
        kept[0].bytes[i] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
        kept[0].size = i;
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
    }
    assert_int_equal(warnings, 2 * whole.size);
    free(whole.bytes);
    kept[0].bytes[kept[0].size++] = '\n';
    assert_int_equal(count_in_new_context("fake:0"), 0);
}

/* Whole, but of another device, or with lines that are none of ours. */
static void store_of_another_is_ignored(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    OK(copse_device_block(ctx, "fake:0", "softmax", "x"));
    OK(copse_device_unblock(ctx, "fake:1", NULL));
    copse_context_release(&ctx);
    assert_int_equal(kept_count, 2);
    restore_kept(1, &kept[0]);
    assert_int_equal(count_in_new_context("fake:1"), 0);

    static const char *const lines[] = { "block softmin x\n",
                                         "block softmax\n",
                                         "block \n",
                                         "block",
                                         "clock softmax x\n",
                                         "block softmax x",
                                         "\n",
                                         "fail softmin x\n",
                                         "fail softmax\n",
                                         "case softmax 1 wrong 0123456789abcde\n",
                                         "case softmax 1 wrong 0123456789abcdef0\n",
                                         "case softmax 1 wrong 0123456789ABCDEF\n",
                                         "case softmax x wrong 0123456789abcdef\n",
                                         "case softmax 1 right 0123456789abcdef\n",
                                         "case softmin 1 wrong 0123456789abcdef\n",
                                         "case softmax 1 late 0123456789abcdef",
                                         "case softmax\n" };
    for (size_t i = 0; i < COPSE_COUNT(lines); i++) {
        char body[1024];
        const char *old = memchr(kept[0].bytes, '\n', kept[0].size);
        const size_t size = kept[0].size - (size_t)(old + 1 - (const char *)kept[0].bytes);
        const struct kept whole = copy_of_kept(0);
        memcpy(body, old + 1, size);
        const size_t length =
            size + (size_t)snprintf(body + size, sizeof body - size, "%s", lines[i]);
        kept[0].size = (size_t)snprintf(
            (char *)kept[0].bytes, whole.size + 256, "copse-blocked 1 %zu %016llx\n", length,
            (unsigned long long)copse__hash(COPSE_HASH_START, body, length));
        memcpy(kept[0].bytes + kept[0].size, body, length);
        kept[0].size += length;
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
        free(whole.bytes);
    }
    assert_int_equal(count_in_new_context("fake:0"), 1);
}

/* ---- training on a driver that lies ---- */

static float *train(const struct copse_backend *const *backends, const char *block,
                    const char **variant)
{
    copse_context *ctx = open_over(backends);
    const struct copse_device_info *list;
    size_t count;
    float *values = NULL;
    copse_context_devices(ctx, &list, &count);
    if (count > 1 && list[0].is_usable) { /* the last is host:0 */
        *variant = list[0].limits.has_wide_vectors  ? "matmul_wide"
                   : list[0].limits.has_fast_texels ? "matmul_texel"
                                                    : NULL;
        if (block)
            OK(copse_device_block(ctx, "lying:0", block, "by the test"));
        const struct run r = { .devices = { "lying:0" }, .device_count = 1, .is_unwatched = true };
        if (*variant)
            assert_non_null(values = run_model(ctx, &r, &count));
    }
    copse_context_release(&ctx);
    return values;
}

static void check_training(const char *backend)
{
    const struct copse_backend *const *backends = lying_backends(backend);
    const char *variant = NULL;
    float *honest = backends ? train(backends, NULL, &variant) : NULL;
    if (!honest) {
        printf("skipped: no device of %s with a matrix product of its own\n", backend);
        skip();
    }
    copse_lie.how = LIE_CORRUPT;
    copse_lie.kernel = variant;
    atomic_store(&copse_lie.met, 0u);
    float *spoiled = train(backends, NULL, &variant);
    assert_true(atomic_load(&copse_lie.met) > 0);
    assert_true(model_distance(honest, spoiled) > 0.01);

    atomic_store(&copse_lie.met, 0u);
    float *avoided = train(backends, variant, &variant);
    assert_int_equal(atomic_load(&copse_lie.met), 0);
    printf("%s: %s spoils parameters by %.2g, blocked by %.2g\n", backend, variant,
           model_distance(honest, spoiled), model_distance(honest, avoided));
    assert_true(model_distance(honest, avoided) < 1e-5);

    /* The self-test blocks the kernel before its first use, and the next process does not try it.
       Up to 4 threads compile and test specialisations at once, so up to 4 may meet the lie. A
       training step would meet it more often. */
    has_self_tests = true;
    drop_kept();
    atomic_store(&copse_lie.met, 0u);
    float *checked = train(backends, NULL, &variant);
    assert_in_range(atomic_load(&copse_lie.met), 1, 4);
    assert_true(model_distance(honest, checked) < 1e-5);
    assert_non_null(strstr((const char *)kept[0].bytes, variant));
    assert_non_null(strstr((const char *)kept[0].bytes, "self-test: element"));
    free(checked);
    atomic_store(&copse_lie.met, 0u);
    checked = train(backends, NULL, &variant);
    assert_int_equal(atomic_load(&copse_lie.met), 0);
    assert_true(model_distance(honest, checked) < 1e-5);
    free(checked);
    free(honest);
    free(spoiled);
    free(avoided);
}

static void training_avoids_a_blocked_variant_of_opencl(void **state)
{
    (void)state;
    check_training("opencl");
}

static void training_avoids_a_blocked_variant_of_vulkan(void **state)
{
    (void)state;
    check_training("vulkan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(blocked_kernel_is_refused, reset),
        cmocka_unit_test_setup(newest_reason_counts, reset),
        cmocka_unit_test_setup(failed_cases_are_kept, reset),
        cmocka_unit_test_setup(many_failed_cases_make_the_block_lasting, reset),
        cmocka_unit_test_setup(bad_arguments_are_refused, reset),
        cmocka_unit_test_setup(block_is_kept_for_the_driver_version, reset),
        cmocka_unit_test_setup(contexts_do_not_overwrite_each_other, reset),
        cmocka_unit_test_setup(what_another_context_takes_back_stays_so, reset),
        cmocka_unit_test_setup(what_is_not_kept_is_known_all_the_same, reset),
        cmocka_unit_test_setup(every_change_is_made_under_the_lock, reset),
        cmocka_unit_test_setup(damaged_store_is_ignored, reset),
        cmocka_unit_test_setup(store_of_another_is_ignored, reset),
        cmocka_unit_test_setup(training_avoids_a_blocked_variant_of_opencl, reset),
        cmocka_unit_test_setup(training_avoids_a_blocked_variant_of_vulkan, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
