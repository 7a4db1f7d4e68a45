/* SPDX-License-Identifier: MIT */
/* The backend contract on devices that an application lends and goes on using. */
#include "tests/rig/contract/contract.h"
/* after the above */
#include "tests/rig/app/app.h"

static const struct CMUnitTest contract[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, contract_set_up, contract_tear_down),
    CONTRACT(TEST)
};

#if defined(COPSE_HAVE_VULKAN)

static struct app_vulkan vulkan_app;

static copse_status lend_vulkan(copse_context *ctx, copse_device **out)
{
    const struct copse_vulkan_handles handles = app_vulkan_handles(&vulkan_app);
    return copse_vulkan_import(ctx, &handles, out);
}

static int keep_vulkan_contract(void)
{
    const char *why =
        app_vulkan_open(&vulkan_app, &(struct app_vulkan_how){ VK_API_VERSION_1_3, true });
    if (why) {
        print_message("the contract is not run on Vulkan: %s\n", why);
        return 0;
    }
    contract_lend = lend_vulkan;
    app_worker_start(&vulkan_app.worker);
    const int failed = cmocka_run_group_tests_name("lent by Vulkan", contract, NULL, NULL);
    const bool is_fine = app_worker_stop(&vulkan_app.worker) && app_lock_is_fine(&app_vulkan_lock);
    app_vulkan_close(&vulkan_app);
    return failed + !is_fine;
}

#endif
#if defined(COPSE_HAVE_OPENCL)

static struct app_opencl opencl_app;

static copse_status lend_opencl(copse_context *ctx, copse_device **out)
{
    const struct copse_opencl_handles handles = app_opencl_handles(&opencl_app);
    return copse_opencl_import(ctx, &handles, out);
}

static int keep_opencl_contract(void)
{
    const char *why = app_opencl_open(&opencl_app, 0);
    if (why) {
        print_message("the contract is not run on OpenCL: %s\n", why);
        return 0;
    }
    contract_lend = lend_opencl;
    app_worker_start(&opencl_app.worker);
    const int failed = cmocka_run_group_tests_name("lent by OpenCL", contract, NULL, NULL);
    const bool is_fine = app_worker_stop(&opencl_app.worker) && app_lock_is_fine(&app_opencl_lock);
    app_opencl_close(&opencl_app);
    return failed + !is_fine;
}

#endif

int main(void)
{
    int failed = 0;
    contract_device = "import:1";
#if defined(COPSE_HAVE_VULKAN)
    failed += keep_vulkan_contract();
#endif
#if defined(COPSE_HAVE_OPENCL)
    failed += keep_opencl_contract();
#endif
    (void)contract;
    return failed != 0;
}
