/* SPDX-License-Identifier: MIT */
/* The list of devices: caps of their limits, folding of dispatches by these, selectors, and
   backends that are disabled or fail. */
#include "copse/device/choice.h"

#include "tests/rig/fake/fault_rig.h"

/* ---- limits ---- */

static void small(struct copse_device_info *info)
{
    info->limits.max_group_count = 100;
    info->limits.max_group_size = 96;
    info->limits.offset_alignment = 256;
    info->limits.max_buffer_bytes = (1 << 20) + 3;
    info->limits.has_group_base = true;
}

static void groups_are_folded_without_overlap(void **state)
{
    (void)state;
    static const struct {
        uint64_t groups;
        uint32_t x, y;
    } rows[] = { { 0, 0, 0 },    { 1, 1, 1 },     { 100, 100, 1 },    { 101, 51, 2 },
                 { 250, 84, 3 }, { 300, 100, 3 }, { 9999, 100, 100 }, { 10000, 100, 100 } };
    copse_fake.devices[0].describe = small;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    struct copse_kernel *k = unary(dev);
    struct copse_command c;
    const struct copse_binding none[2] = { { 0 } };
    const struct copse_params_unary params = { .n = 77 };

    assert_true(k->group_x * k->group_y <= 96 && k->group_x * k->group_y >= 48);
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, rows[i].groups, 5),
                         COPSE_OK);
        assert_int_equal(c.groups_x, rows[i].x);
        assert_int_equal(c.groups_y, rows[i].y);
        assert_int_equal(c.params[0], 77);
        assert_int_equal(c.params[k->row->param_words], 5);
    }
    assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, 10001, 0),
                     COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, 100, UINT32_MAX - 50),
                     COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse__dispatch_init(&c, k, none, 1, &params, 1, 0), COPSE_ERR_ARGUMENT);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void large(struct copse_device_info *info)
{
    info->limits.max_group_size = 1024;
    info->limits.group_memory_bytes = 1 << 20;
    info->limits.offset_alignment = 1;
    info->limits.max_bindings = 64;
    info->limits.max_buffer_bytes = 1u << 30;
    info->limits.max_binding_bytes = UINT32_MAX;
}

static void wide(struct copse_device_info *info)
{
    info->limits.offset_alignment = 1024;
}

static void tiny(struct copse_device_info *info)
{
    info->limits.max_binding_bytes = 4096;
}

static void limits_are_capped_and_poor_devices_rejected(void **state)
{
    (void)state;
    copse_fake.device_count = 3;
    copse_fake.devices[0].describe = large;
    copse_fake.devices[1].describe = wide;
    copse_fake.devices[2].describe = tiny;
    copse_context *ctx = context(NULL);
    const struct copse_device_info *d;
    size_t count;
    copse_device *dev = NULL;

    copse_context_devices(ctx, &d, &count);
    assert_int_equal(count, 4);
    assert_int_equal(d[0].limits.max_group_size, 256);
    assert_int_equal(d[0].limits.group_memory_bytes, 32 * 1024);
    assert_int_equal(d[0].limits.offset_alignment, 4);
    assert_int_equal(d[0].limits.max_bindings, COPSE_MAX_BINDINGS);
    assert_int_equal(d[0].limits.max_binding_bytes, 1u << 30);
    assert_false(d[1].is_usable);
    assert_non_null(strstr(d[1].reason, "1024"));
    assert_false(d[2].is_usable);
    assert_int_equal(copse_device_open(ctx, "fake:1", NULL, &dev), COPSE_ERR_NO_DEVICE);
    assert_non_null(strstr(copse_last_error(), "multiples of 1024"));
    assert_string_equal(d[3].id, "host:0");
    copse_context_release(&ctx);
}

/* ---- the list of devices ---- */

static void gpu_a(struct copse_device_info *info)
{
    info->has_uuid = true;
    info->uuid[0] = 1;
}

static void broken_gpu_a(struct copse_device_info *info)
{
    gpu_a(info);
    info->is_usable = false;
    snprintf(info->reason, sizeof info->reason, "no shaders");
}

static void gpu_b_at_pci_7(struct copse_device_info *info)
{
    info->has_uuid = info->has_pci = true;
    info->uuid[0] = 2;
    info->pci[1] = 7;
}

static void gpu_at_pci_7(struct copse_device_info *info)
{
    info->has_pci = true;
    info->pci[1] = 7;
}

static void cpu_at_pci_7(struct copse_device_info *info)
{
    gpu_at_pci_7(info);
    info->kind = COPSE_DEVICE_CPU;
}

static void expect_selection(copse_context *ctx, const char *selector, const char *want)
{
    char ids[8][32], got[300] = "";
    size_t count = 0;
    if (copse_select_devices(ctx, selector, ids, 8, &count))
        fail_msg("%s: %s", selector, copse_last_error());
    for (size_t i = 0; i < count; i++) {
        strcat(got, i ? " " : "");
        strcat(got, ids[i]);
    }
    assert_string_equal(got, want);
}

static void cpu_with_wide_vectors(struct copse_device_info *d)
{
    cpu_at_pci_7(d);
    d->limits.has_wide_vectors = true;
}

static void selectors_choose_devices(void **state)
{
    (void)state;
    static void (*const devices[])(struct copse_device_info *) = {
        cpu_at_pci_7, broken_gpu_a, gpu_a, gpu_b_at_pci_7, gpu_a, gpu_at_pci_7, cpu_at_pci_7
    };
    static const int same_as[] = { -1, -1, 1, -1, 1, 3, -1, -1 };
    char ids[1][32], drivers[8][32];
    size_t count;
    const struct copse_device_info *d;

    copse_fake.device_count = COPSE_COUNT(devices);
    for (size_t i = 0; i < COPSE_COUNT(devices); i++)
        copse_fake.devices[i].describe = devices[i];
    copse_context *ctx = context(NULL);
    copse_context_devices(ctx, &d, &count);
    assert_int_equal(count, COPSE_COUNT(same_as));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(d[i].same_as, same_as[i]);

    expect_selection(ctx, "auto", "fake:2 fake:3");
    expect_selection(ctx, NULL, "fake:2 fake:3");
    expect_selection(ctx, "all", "fake:0 fake:2 fake:3");
    expect_selection(ctx, "host", "host:0");
    expect_selection(ctx, "host:0, fake:3,host:0", "host:0 fake:3 host:0");

    assert_int_equal(copse_select_devices(ctx, "fake:1", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_non_null(strstr(copse_last_error(), "no shaders"));
    assert_int_equal(copse_select_devices(ctx, "fake:99", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_select_devices(ctx, "vulkan", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_select_devices(ctx, "all", ids, 1, &count), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_select_drivers(ctx, "all", drivers, 8, &count), COPSE_OK);
    assert_int_equal(count, 6);
    static const char *const unreadable[] = { "some",          "fake:",   ":0",
                                              "fake:x",        "fake:0,", ",fake:0",
                                              "fake:0 fake:2", "fake:-1" };
    for (size_t i = 0; i < COPSE_COUNT(unreadable); i++)
        assert_int_equal(copse_select_devices(ctx, unreadable[i], ids, 1, &count),
                         COPSE_ERR_ARGUMENT);
    copse_context_release(&ctx);

    fake_reset();
    copse_fake.device_count = 2;
    copse_fake.devices[0].describe = copse_fake.devices[1].describe = cpu_at_pci_7;
    ctx = context(NULL);
    expect_selection(ctx, "auto", "fake:0");
    expect_selection(ctx, "fake:0,fake:1", "fake:0 fake:1");
    expect_selection(ctx, "all", "fake:0");
    copse_context_release(&ctx);
    copse_fake.devices[1].describe = cpu_with_wide_vectors;
    ctx = context(NULL);
    expect_selection(ctx, "auto", "fake:1");
    copse_context_release(&ctx);
    copse_fake.device_count = 0;
    ctx = context(NULL);
    expect_selection(ctx, "auto", "host:0");
    assert_int_equal(copse_select_devices(ctx, "all", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    copse_context_release(&ctx);
}

static size_t device_count(copse_context *ctx)
{
    const struct copse_device_info *d;
    size_t count;
    copse_context_devices(ctx, &d, &count);
    return count;
}

static void backends_can_be_disabled(void **state)
{
    (void)state;
    const struct copse_backend_info *b;
    size_t count;
    copse_context *ctx = context(&(struct copse_context_params){ .disable = " vulkan, fake" });
    assert_int_equal(device_count(ctx), 1);
    copse_context_backends(ctx, &b, &count);
    assert_int_equal(count, 2);
    assert_false(b[0].is_loaded);
    assert_string_equal(b[0].detail, "disabled by the application");
    assert_true(b[1].is_loaded);
    copse_context_release(&ctx);

    setenv("COPSE_DISABLE", "fake,host,nothing", 1);
    ctx = context(NULL);
    assert_int_equal(device_count(ctx), 1);
    copse_context_backends(ctx, &b, &count);
    assert_string_equal(b[0].detail, "disabled by COPSE_DISABLE");
    copse_context_release(&ctx);
    ctx = context(&(struct copse_context_params){ .no_env = true });
    assert_int_equal(device_count(ctx), 2);
    copse_context_release(&ctx);
    assert_int_equal(fake_calls(0, FAKE_LIST), 1);

    static const char *const wrong[] = { "opengl", "host", "fake,fak" };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        assert_int_equal(
            copse__context_create_with(&(struct copse_context_params){ .disable = wrong[i] },
                                       fake_backends, &ctx),
            COPSE_ERR_ARGUMENT);
        assert_null(ctx);
    }
}

static char warning[300];

static void keep_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN)
        snprintf(warning, sizeof warning, "%s", line);
}

static void a_backend_that_fails_hides_no_other(void **state)
{
    (void)state;
    const struct copse_backend_info *b;
    size_t count;
    fake_fail(0, FAKE_LIST, 1, COPSE_ERR_INTERNAL, false);
    copse_context *ctx = context(&(struct copse_context_params){ .log = keep_warning });
    copse_context_backends(ctx, &b, &count);
    assert_non_null(strstr(b[0].detail, "fake: fault"));
    assert_non_null(strstr(warning, "fake: fault"));
    expect_selection(ctx, "auto", "host:0");
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(groups_are_folded_without_overlap),
        TEST(limits_are_capped_and_poor_devices_rejected),
        TEST(selectors_choose_devices),
        TEST(backends_can_be_disabled),
        TEST(a_backend_that_fails_hides_no_other),
    };
    return cmocka_run_group_tests_name("device_list", tests, NULL, NULL);
}
