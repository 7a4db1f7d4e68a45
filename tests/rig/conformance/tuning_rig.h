/* SPDX-License-Identifier: MIT */
/* Shared by the tests of tuning: fake devices, whose driver can change, and a kernel cache. */
#ifndef COPSE_TESTS_TUNING_RIG_H
#define COPSE_TESTS_TUNING_RIG_H

#include "tests/rig/fake/kept.h"

#include "tests/rig/fake/fake_backend.h"

/* ---- a kernel cache that outlives contexts ---- */

static unsigned warnings;

static void count_warnings(void *user, copse_log_level level, const char *line)
{
    (void)user;
    warnings += level <= COPSE_LOG_WARN && strstr(line, "damaged") != NULL;
}

static const struct copse_context_params params = {
    .cache = { .get = get_kept, .put = keep },
    .log = count_warnings,
};

static inline copse_context *open_fake(void)
{
    copse_context *ctx;
    OK(copse__context_create_with(&params, fake_backends, &ctx));
    return ctx;
}

static const char *driver = "maker 1.0";
static uint32_t units = 4;

static void describe(struct copse_device_info *info)
{
    snprintf(info->driver, sizeof info->driver, "%s", driver);
    info->limits.compute_units = units;
}

static inline int reset(void **state)
{
    (void)state;
    fake_reset();
    copse_fake.device_count = 2;
    copse_fake.devices[0].describe = describe;
    drop_kept();
    kept_prefix = "tuning-"; /* compiled kernels are not under test */
    warnings = 0;
    driver = "maker 1.0";
    units = 4;
    return 0;
}

static inline struct copse_tuning_entry make(const char *size_class, const char *variant,
                                             uint64_t rate)
{
    struct copse_tuning_entry e = { .family = "matmul", .rate = rate };
    snprintf(e.size_class, sizeof e.size_class, "%s", size_class);
    snprintf(e.variant, sizeof e.variant, "%s", variant);
    return e;
}

static inline void set(copse_context *ctx, const char *device, const char *size_class,
                       const char *variant, uint64_t rate)
{
    const struct copse_tuning_entry e = make(size_class, variant, rate);
    OK(copse_device_tuning_set(ctx, device, &e, 1));
}

static inline size_t count_of(copse_context *ctx, const char *device)
{
    const struct copse_tuning_entry *list;
    size_t count;
    OK(copse_device_tuning(ctx, device, &list, &count));
    return count;
}

#endif
