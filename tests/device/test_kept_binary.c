/* SPDX-License-Identifier: MIT */
/* Binaries of OpenCL kernels that an application keeps: they are loaded. One of PoCL is LLVM's code
   alone, since PoCL generates code that no launch uses for another one. One without code is built
   anew: some versions of PoCL abort when they load such a one. */
#include "core/base/base.h"
#include "core/device/device.h"
#include "core/device/kernel/kernel.h"
#include "tests/rig/rig.h"

enum { HEADER = 32 }; /* bytes: a word, identity, size, digest */

static struct {
    char key[64];
    unsigned char *bytes;
    size_t size;
} kept; /* the newest */
static unsigned refused;
static bool is_new; /* PoCL 3.1 or later */

static void kept_get(void *user, const char *key,
                     void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    (void)user;
    if (kept.bytes && strcmp(key, kept.key) == 0)
        take(to, kept.bytes, kept.size);
}

static void kept_put(void *user, const char *key, const void *bytes, size_t size)
{
    (void)user;
    free(kept.bytes);
    kept.bytes = malloc(size);
    assert_non_null(kept.bytes);
    memcpy(kept.bytes, bytes, kept.size = size);
    snprintf(kept.key, sizeof kept.key, "%s", key);
}

static void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    refused += level == COPSE_LOG_WARN && strstr(line, "cannot be used, it is built anew") != NULL;
}

/* One kernel on the device; false: there is no such device of PoCL. */
static bool get_kernel(void)
{
    const struct copse_context_params p = { .cache = { .get = kept_get, .put = kept_put },
                                            .disable = "vulkan",
                                            .no_self_test = true,
                                            .log = take_log,
                                            .log_level = COPSE_LOG_WARN };
    const int32_t spec[COPSE_MAX_SPECS] = { 1 };
    copse_context *ctx;
    copse_device *dev;
    struct copse_kernel *k;
    OK(copse_context_create(&p, &ctx));
    const bool is_there = copse_device_open(ctx, "opencl:0", NULL, &dev) == COPSE_OK;
    const bool is_pocl = is_there && dev->compiles_serially;
    if (is_pocl) {
        const char *version = strrchr(dev->info.driver, ' ');
        is_new = version && strtod(version, NULL) > 3.05;
        OK(copse__kernel_get(dev, COPSE_KERNEL_copy, spec, &k));
    }
    if (is_there)
        copse_device_release(&dev);
    copse_context_release(&ctx);
    return is_pocl;
}

static bool is_code(const unsigned char *at)
{
    static const unsigned char mark[] = { 'B', 'C', 0xc0, 0xde };
    return memcmp(at, mark, sizeof mark) == 0;
}

/* The first bytes of the code are others, and the digest is right. */
static void take_code_away(void)
{
    size_t at = HEADER;
    while (at + 4 <= kept.size && !is_code(kept.bytes + at))
        at++;
    assert_true(at + 4 <= kept.size);
    memset(kept.bytes + at, 0, 4);
    const uint64_t digest = copse__hash(COPSE_HASH_START, kept.bytes + HEADER, kept.size - HEADER);
    memcpy(kept.bytes + HEADER - sizeof digest, &digest, sizeof digest);
}

static void a_binary_without_code_is_not_loaded(void **state)
{
    (void)state;
    if (!get_kernel()) {
        printf("skipped: opencl:0 is not a device of PoCL\n");
        return;
    }
    assert_non_null(kept.bytes);
    assert_true(kept.size > HEADER + 4 && is_code(kept.bytes + HEADER) == is_new);
    assert_true(get_kernel());
    assert_int_equal(refused, 0);
    take_code_away();
    assert_true(get_kernel());
    assert_int_equal(refused, 1);
    assert_true(get_kernel()); /* the new one is kept */
    assert_int_equal(refused, 1);
    free(kept.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_binary_without_code_is_not_loaded) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
