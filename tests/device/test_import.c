/* SPDX-License-Identifier: MIT */
/* Devices that an application lends: it makes them with its own calls, uses their queues from its
   own thread all the time, and watches what the library does with them. */
#include "tests/rig/contract/contract.h"
/* after the above */
#include <stdio.h>
#include <stdlib.h>

#include "copse/device/conformance.h"
#include "core/device/device.h"
#include "tests/rig/app/app.h"
#include "tests/rig/train/train_model.h"

/* Nothing but what is lent: the library looks for no devices itself. */
static copse_context *bare_context(void)
{
    copse_context *ctx;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    return ctx;
}

/* Training on the devices ends with these bits. */
static float *bits(copse_context *ctx, const char *a, const char *b, const char *c, size_t *count)
{
    struct run r = { .devices = { a, b, c }, .device_count = 1 + (b != NULL) + (c != NULL) };
    float *values = run_model(ctx, &r, count);
    assert_non_null(values);
    return values;
}

static void expect_same_bits(copse_context *ctx, const char *const lent[3],
                             const char *const own[3])
{
    size_t count, own_count;
    float *a = bits(ctx, lent[0], lent[1], lent[2], &count);
    float *b = bits(ctx, own[0], own[1], own[2], &own_count);
    assert_int_equal(count, own_count);
    assert_memory_equal(a, b, count * sizeof *a);
    free(a);
    free(b);
}

static const char *id_of(const copse_device *dev)
{
    return copse_device_describe(dev)->id;
}

/* ---- ids, on a device that only pretends ---- */

static copse_status lend_fake(copse_context *ctx, uint64_t limit, copse_device **out)
{
    const struct copse_foreign_device foreign = { .handles = "",
                                                  .handles_size = 1,
                                                  .memory_limit = limit };
    return copse__device_import(ctx, &copse_backend_fake, &foreign, out);
}

static void an_id_lives_as_long_as_a_device(void **unused)
{
    copse_context *ctx;
    copse_device *first, *second, *again;
    const struct copse_device_info *list;
    const struct copse_blocked_kernel *blocked;
    char ids[4][32];
    size_t count, before;
    (void)unused;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    copse_context_devices(ctx, &list, &before);
    FAILS(COPSE_ERR_NO_DEVICE, copse_device_open(ctx, "import:0", NULL, &again),
          "lent device ends");
    assert_null(again);
    OK(lend_fake(ctx, 0, &first));
    OK(lend_fake(ctx, 0, &second));
    assert_string_equal(id_of(first), "import:0");
    assert_string_equal(id_of(second), "import:1");
    assert_string_equal(copse_device_describe(first)->backend, "fake");
    copse_context_devices(ctx, &list, &count);
    assert_int_equal(count, before);

    OK(copse_select_devices(ctx, "import:1, host:0,import:0", ids, 4, &count));
    assert_int_equal(count, 3);
    assert_string_equal(ids[0], "import:1");
    assert_string_equal(ids[2], "import:0");
    OK(copse_select_devices(ctx, "all", ids, 4, &count));
    for (size_t i = 0; i < count; i++)
        assert_true(strncmp(ids[i], "import:", 7) != 0);

    OK(copse_device_block(ctx, "import:0", "softmax", "for a test"));
    OK(copse_device_blocked(ctx, "import:1", &blocked, &count)); /* the same kind of device */
    assert_int_equal(count, 1);
    OK(copse_device_unblock(ctx, "import:1", NULL));

    OK(copse_device_open(ctx, "import:0", NULL, &again));
    assert_ptr_not_equal(again, first);
    copse_device_release(&first);
    assert_string_equal(id_of(again), "import:0");
    OK(copse_select_devices(ctx, "import:0", ids, 4, &count));
    copse_device_release(&again);
    FAILS(COPSE_ERR_NO_DEVICE, copse_select_devices(ctx, "import:0", ids, 4, &count), "import:0");
    OK(lend_fake(ctx, 0, &first)); /* numbers are not used again */
    assert_string_equal(id_of(first), "import:2");
    copse_context_release(&ctx);
    copse_device_release(&second);
    copse_device_release(&first);
}

static void memory_is_counted_over_all_devices(void **unused)
{
    copse_context *ctx;
    copse_device *dev, *other;
    copse_buffer *a, *b, *pooled;
    uint64_t free_bytes, total;
    (void)unused;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    OK(lend_fake(ctx, 1u << 20, &dev));
    OK(copse_device_open(ctx, id_of(dev), NULL, &other));
    assert_int_equal(copse_device_describe(dev)->memory_bytes, 1u << 20);
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 700 << 10 }, &a));
    FAILS(COPSE_ERR_NO_DEVICE_MEMORY,
          copse_buffer_create(other, &(struct copse_buffer_params){ .size = 400 << 10 }, &b),
          "limit of 1048576 on import:0");
    assert_null(b);
    OK(copse_device_memory(other, &free_bytes, &total));
    assert_int_equal(total, 1u << 20);
    assert_int_equal(free_bytes, 324 << 10);
    copse_buffer_release(&a);
    OK(copse__buffer_acquire(other, 600 << 10, &pooled));
    copse_buffer_release(&pooled); /* to the pool, which makes room for what is wanted */
    OK(copse_buffer_create(other, &(struct copse_buffer_params){ .size = 1024 << 10 }, &b));
    copse_buffer_release(&b);
    OK(copse_device_memory(other, &free_bytes, &total));
    assert_int_equal(free_bytes, 1u << 20);
    copse_device_release(&dev);
    copse_device_release(&other);
    copse_context_release(&ctx);
}

static void failures_leave_nothing(void **unused)
{
    copse_context *ctx;
    copse_device *dev;
    struct copse_memory_stats before, after;
    (void)unused;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    OK(lend_fake(ctx, 0, &dev)); /* its list of blocked kernels stays */
    copse_device_release(&dev);
    copse_context_memory(ctx, &before);
    fake_fail(FAKE_LENT, FAKE_OPEN, 1, COPSE_ERR_DEVICE_LOST, false);
    assert_int_equal(lend_fake(ctx, 0, &dev), COPSE_ERR_DEVICE_LOST);
    assert_null(dev);
    FAILS(COPSE_ERR_ARGUMENT,
          copse__device_import(ctx, &copse_backend_fake,
                               &(struct copse_foreign_device){ .handles = "",
                                                               .handles_size = 1,
                                                               .guard = { .lock = app_lock_take } },
                               &dev),
          "lock_queue without");
    copse_context_memory(ctx, &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
    copse_context_release(&ctx);
    fake_reset();
}

/* ---- Vulkan ---- */

#if defined(COPSE_HAVE_VULKAN)

#    define OPEN_VULKAN(app, ...)                                                             \
        do {                                                                                  \
            const char *why_ = app_vulkan_open(app, &(struct app_vulkan_how){ __VA_ARGS__ }); \
            if (why_) {                                                                       \
                print_message("skipped: %s\n", why_);                                         \
                skip();                                                                       \
            }                                                                                 \
        } while (0)

static void expect_good_manners(void)
{
    assert_true(app_lock_is_fine(&app_vulkan_lock));
    assert_int_equal(app_vulkan_forbidden, 0);
    assert_true(app_vulkan_lock.submitted > 0);
    assert_int_equal(app_vulkan_lock.taken, app_vulkan_lock.submitted);
}

static void vulkan_trains_as_on_the_own_device(void **unused)
{
    struct app_vulkan app;
    copse_context *ctx;
    copse_device *dev;
    (void)unused;
    OPEN_VULKAN(&app, VK_API_VERSION_1_3, true);
    app_worker_start(&app.worker);
    OK(copse_context_create(NULL, &ctx));
    const struct copse_vulkan_handles handles = app_vulkan_handles(&app);
    OK(copse_vulkan_import(ctx, &handles, &dev));
    assert_int_equal(copse_device_describe(dev)->same_as >= 0, true);
    char id[32];
    snprintf(id, sizeof id, "%s", id_of(dev));
    expect_same_bits(ctx, (const char *[]){ id, NULL, NULL },
                     (const char *[]){ "vulkan:0", NULL, NULL });
    expect_same_bits(ctx, (const char *[]){ id, "host:0", id },
                     (const char *[]){ "vulkan:0", "host:0", "vulkan:0" });
    copse_device_release(&dev);
    copse_context_release(&ctx);
    assert_true(app_worker_stop(&app.worker));
    expect_good_manners();
    print_message("%u submissions beside %u of the application's\n", app_vulkan_lock.submitted,
                  app.worker.rounds);
    /* it is all still there, and nothing else: see the layers */
    assert_true(app_vulkan_work(&app, 77));
    app_vulkan_close(&app);
}

static void vulkan_lends_to_a_context_without_backends(void **unused)
{
    struct app_vulkan app;
    copse_device *dev;
    (void)unused;
    OPEN_VULKAN(&app, VK_API_VERSION_1_1, false);
    copse_context *ctx = bare_context();
    struct copse_vulkan_handles handles = app_vulkan_handles(&app);
    handles.lock_queue = handles.unlock_queue = NULL;
    OK(copse_vulkan_import(ctx, &handles, &dev));
    size_t count;
    float *values = bits(ctx, id_of(dev), id_of(dev), NULL, &count);
    free(values);
    assert_int_equal(app_vulkan_forbidden, 0);
    assert_true(app_vulkan_lock.submitted > 0);
    assert_int_equal(app_vulkan_lock.taken, 0);
    copse_context_release(&ctx);
    copse_device_release(&dev);
    app_vulkan_close(&app);
}

static void vulkan_uses_what_was_enabled_only(void **unused)
{
    struct app_vulkan app;
    copse_context *ctx;
    copse_device *dev, *own;
    copse_buffer *buf;
    void *host = NULL;
    (void)unused;
    OK(copse_context_create(NULL, &ctx));
    OPEN_VULKAN(&app, VK_API_VERSION_1_3, true);
    OK(copse_device_open(ctx, "vulkan:0", NULL, &own));
    const struct copse_limits all = copse_device_describe(own)->limits;
    copse_device_release(&own);
    struct copse_vulkan_handles handles = app_vulkan_handles(&app);
    OK(copse_vulkan_import(ctx, &handles, &dev));
    const struct copse_limits lent = copse_device_describe(dev)->limits;
    assert_memory_equal(&lent, &all, sizeof all);
    copse_device_release(&dev);

    handles.extension_count = 0; /* enabled but not said so: as if it were not there */
    handles.features = NULL;
    OK(copse_vulkan_import(ctx, &handles, &dev));
    struct copse_limits less = all;
    less.has_f64 = less.has_f16_storage = false;
    less.host_import_alignment = 0;
    const struct copse_limits bare = copse_device_describe(dev)->limits;
    assert_memory_equal(&bare, &less, sizeof less);
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 4096, .host = &host },
                              &buf),
          "cannot use host memory");
    copse_device_release(&dev);
    copse_context_release(&ctx);
    app_vulkan_close(&app);

    /* And where they really are not: the layers would tell. */
    OPEN_VULKAN(&app, VK_API_VERSION_1_1, false);
    ctx = bare_context();
    handles = app_vulkan_handles(&app);
    OK(copse_vulkan_import(ctx, &handles, &dev));
    size_t count;
    free(bits(ctx, id_of(dev), "host:0", NULL, &count));
    copse_device_release(&dev);
    copse_context_release(&ctx);
    expect_good_manners();
    app_vulkan_close(&app);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL know_nothing(VkInstance instance, const char *name)
{
    (void)instance;
    (void)name;
    return NULL;
}

static void vulkan_refuses_by_name(void **unused)
{
    struct app_vulkan app;
    copse_device *dev;
    (void)unused;
    OPEN_VULKAN(&app, VK_API_VERSION_1_2, false);
    copse_context *ctx = bare_context();
    const struct copse_vulkan_handles good = app_vulkan_handles(&app);
    struct copse_vulkan_handles h;
    const VkPhysicalDeviceFeatures2 no_features = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO };
    FAILS(COPSE_ERR_ARGUMENT, copse_vulkan_import(NULL, &good, &dev), "'ctx' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_vulkan_import(ctx, NULL, &dev), "'handles' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_vulkan_import(ctx, &good, NULL), "'out' is NULL");
#    define REFUSES(code, word, member, value)                 \
        h = good;                                              \
        h.member = value;                                      \
        FAILS(code, copse_vulkan_import(ctx, &h, &dev), word); \
        assert_null(dev)
    REFUSES(COPSE_ERR_ARGUMENT, "get_proc_addr is missing", get_proc_addr, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "instance is missing", instance, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "physical_device is missing", physical_device, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "device is missing", device, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "queue is missing", queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "lock_queue without", unlock_queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "lock_queue without", lock_queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "features.sType", features, &no_features);
    REFUSES(COPSE_ERR_ARGUMENT, "queue_family is 99", queue_family, 99);
    REFUSES(COPSE_ERR_ARGUMENT, "physical_device is none", physical_device, (VkPhysicalDevice)&app);
    REFUSES(COPSE_ERR_UNSUPPORTED, "Vulkan 1.0, 1.1 is needed", api_version, VK_API_VERSION_1_0);
    REFUSES(COPSE_ERR_UNSUPPORTED, "Vulkan 0.0", api_version, 0);
    REFUSES(COPSE_ERR_UNSUPPORTED, "does not know vk", get_proc_addr, know_nothing);
    h = good;
    h.extensions = NULL;
    h.extension_count = 1;
    FAILS(COPSE_ERR_ARGUMENT, copse_vulkan_import(ctx, &h, &dev), "extensions is missing");
#    undef REFUSES
    h = good; /* and nothing of this is in the way afterwards */
    OK(copse_vulkan_import(ctx, &h, &dev));
    copse_device_release(&dev);
    copse_context_release(&ctx);
    app_vulkan_close(&app);
}

#endif

/* ---- OpenCL ---- */

#if defined(COPSE_HAVE_OPENCL)

#    define OPEN_OPENCL(app, properties)                         \
        do {                                                     \
            const char *why_ = app_opencl_open(app, properties); \
            if (why_) {                                          \
                print_message("skipped: %s\n", why_);            \
                skip();                                          \
            }                                                    \
        } while (0)

static void opencl_trains_as_on_the_own_device(void **unused)
{
    struct app_opencl app;
    copse_context *ctx;
    copse_device *dev;
    (void)unused;
    OPEN_OPENCL(&app, CL_QUEUE_PROFILING_ENABLE);
    app_worker_start(&app.worker);
    OK(copse_context_create(NULL, &ctx));
    const struct copse_opencl_handles handles = app_opencl_handles(&app);
    OK(copse_opencl_import(ctx, &handles, &dev));
    assert_int_equal(app_opencl_held, 2); /* context and queue */
    char id[32];
    snprintf(id, sizeof id, "%s", id_of(dev));
    expect_same_bits(ctx, (const char *[]){ id, NULL, NULL },
                     (const char *[]){ "opencl:0", NULL, NULL });
    expect_same_bits(ctx, (const char *[]){ id, "host:0", NULL },
                     (const char *[]){ "opencl:0", "host:0", NULL });
    size_t count;
    free(bits(ctx, id, "host:0", id, &count)); /* two queues of ours on one of theirs */
    copse_device_release(&dev);
    copse_context_release(&ctx);
    assert_true(app_worker_stop(&app.worker));
    assert_true(app_lock_is_fine(&app_opencl_lock));
    assert_true(app_opencl_lock.submitted > app_opencl_lock.taken); /* segments go as one */
    print_message("%u commands under %u locks beside %u rounds of the application's\n",
                  app_opencl_lock.submitted, app_opencl_lock.taken, app.worker.rounds);
    assert_true(app_opencl_work(&app, 77));
    assert_int_equal(app_opencl_held, 0);
    app_opencl_close(&app);
}

static void opencl_makes_queues_where_none_is_lent(void **unused)
{
    struct app_opencl app;
    copse_device *dev;
    (void)unused;
    OPEN_OPENCL(&app, 0);
    copse_context *ctx = bare_context();
    struct copse_opencl_handles handles = app_opencl_handles(&app);
    handles.queue = NULL;
    handles.lock_queue = handles.unlock_queue = NULL;
    OK(copse_opencl_import(ctx, &handles, &dev));
    assert_int_equal(app_opencl_held, 1);
    size_t count;
    free(bits(ctx, id_of(dev), id_of(dev), NULL, &count));
    copse_device_release(&dev);
    copse_context_release(&ctx);
    assert_int_equal(app_opencl_lock.submitted, 0);
    assert_int_equal(app_opencl_held, 0);
    app_opencl_close(&app);
}

static copse_opencl_fn knows_nothing(void *user, const char *name)
{
    (void)user;
    (void)name;
    return NULL;
}

static void opencl_refuses_by_name(void **unused)
{
    struct app_opencl app, other;
    copse_device *dev;
    (void)unused;
    OPEN_OPENCL(&app, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    app_opencl_another(&app, &other);
    copse_context *ctx = bare_context();
    struct copse_opencl_handles good = app_opencl_handles(&app), h = good;
    FAILS(COPSE_ERR_UNSUPPORTED, copse_opencl_import(ctx, &h, &dev), "out of order");
    h.queue = other.queue;
    FAILS(COPSE_ERR_ARGUMENT, copse_opencl_import(ctx, &h, &dev), "another context");
    good = app_opencl_handles(&other);
    FAILS(COPSE_ERR_ARGUMENT, copse_opencl_import(NULL, &good, &dev), "'ctx' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_opencl_import(ctx, NULL, &dev), "'handles' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_opencl_import(ctx, &good, NULL), "'out' is NULL");
#    define REFUSES(code, word, member, value)                 \
        h = good;                                              \
        h.member = value;                                      \
        FAILS(code, copse_opencl_import(ctx, &h, &dev), word); \
        assert_null(dev)
    REFUSES(COPSE_ERR_ARGUMENT, "context is missing", context, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "device is missing", device, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "lock_queue without a queue", queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "lock_queue without", unlock_queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "lock_queue without", lock_queue, NULL);
    REFUSES(COPSE_ERR_ARGUMENT, "none of the context's 1", device, (cl_device_id)&app);
    REFUSES(COPSE_ERR_UNSUPPORTED, "get_proc does not know cl", get_proc, knows_nothing);
#    undef REFUSES
    OK(copse_opencl_import(ctx, &good, &dev));
    copse_device_release(&dev);
    copse_context_release(&ctx);
    assert_int_equal(app_opencl_held, 0);
    app_opencl_close(&other);
    app_opencl_close(&app);
}

#endif

/* ---- both ---- */

#if defined(COPSE_HAVE_VULKAN) && defined(COPSE_HAVE_OPENCL)

static void a_strategy_over_lent_devices_gives_the_same_bits(void **unused)
{
    struct app_vulkan vulkan;
    struct app_opencl opencl;
    copse_context *ctx;
    copse_device *first, *second;
    (void)unused;
    OPEN_VULKAN(&vulkan, VK_API_VERSION_1_3, true);
    OPEN_OPENCL(&opencl, 0);
    app_worker_start(&vulkan.worker);
    app_worker_start(&opencl.worker);
    OK(copse_context_create(NULL, &ctx));
    const struct copse_vulkan_handles by_vulkan = app_vulkan_handles(&vulkan);
    const struct copse_opencl_handles by_opencl = app_opencl_handles(&opencl);
    OK(copse_vulkan_import(ctx, &by_vulkan, &first));
    OK(copse_opencl_import(ctx, &by_opencl, &second));
    expect_same_bits(ctx, (const char *[]){ id_of(first), id_of(second), "host:0" },
                     (const char *[]){ "vulkan:0", "opencl:0", "host:0" });
    copse_device_release(&first);
    copse_device_release(&second);
    copse_context_release(&ctx);
    assert_true(app_worker_stop(&vulkan.worker));
    assert_true(app_worker_stop(&opencl.worker));
    expect_good_manners();
    assert_true(app_lock_is_fine(&app_opencl_lock));
    app_vulkan_close(&vulkan);
    app_opencl_close(&opencl);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_lives_as_long_as_a_device),
        cmocka_unit_test(memory_is_counted_over_all_devices),
        cmocka_unit_test(failures_leave_nothing),
#if defined(COPSE_HAVE_VULKAN)
        cmocka_unit_test(vulkan_refuses_by_name),
        cmocka_unit_test(vulkan_uses_what_was_enabled_only),
        cmocka_unit_test(vulkan_lends_to_a_context_without_backends),
        cmocka_unit_test(vulkan_trains_as_on_the_own_device),
#endif
#if defined(COPSE_HAVE_OPENCL)
        cmocka_unit_test(opencl_refuses_by_name),
        cmocka_unit_test(opencl_makes_queues_where_none_is_lent),
        cmocka_unit_test(opencl_trains_as_on_the_own_device),
#endif
#if defined(COPSE_HAVE_VULKAN) && defined(COPSE_HAVE_OPENCL)
        cmocka_unit_test(a_strategy_over_lent_devices_gives_the_same_bits),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
