/* SPDX-License-Identifier: MIT */
/* Binaries of OpenCL kernels that an application keeps: they are loaded, and one of PoCL that has no
   code is built anew: PoCL aborts when it loads such a one. */
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
    if (is_pocl)
        OK(copse__kernel_get(dev, COPSE_KERNEL_copy, spec, &k));
    if (is_there)
        copse_device_release(&dev);
    copse_context_release(&ctx);
    return is_pocl;
}

/* As PoCL writes it while its own file is empty: the length of the code, in four bytes before it,
   is 0. */
static void take_code_away(void)
{
    static const unsigned char mark[] = { 'B', 'C', 0xc0, 0xde };
    size_t at = HEADER + 4;
    uint32_t length;
    while (at + sizeof mark <= kept.size && memcmp(kept.bytes + at, mark, sizeof mark) != 0)
        at++;
    assert_true(at + sizeof mark <= kept.size);
    memcpy(&length, kept.bytes + at - sizeof length, sizeof length);
    assert_true(length > 0 && length <= kept.size - at);
    memset(kept.bytes + at - sizeof length, 0, sizeof length);
    memmove(kept.bytes + at, kept.bytes + at + length, kept.size - at - length);
    kept.size -= length;
    const uint64_t size = kept.size - HEADER,
                   digest = copse__hash(COPSE_HASH_START, kept.bytes + HEADER, size);
    memcpy(kept.bytes + HEADER - sizeof digest - sizeof size, &size, sizeof size);
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
