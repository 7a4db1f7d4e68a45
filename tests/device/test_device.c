/* SPDX-License-Identifier: MIT */
/* The backend contract. The same tests run on every device found and on the fake backend:
 *
 *     device              all devices found, one line each, and the fake backend
 *     device --list       the ids of the usable devices
 *     device opencl:0     that device only; "fake:0" for the fake backend
 *     device vulkan:0 own_memory    that device, of which a layer says that it has memory of its own
 */
#include "tests/rig/contract/contract.h"

#include <stdio.h>
#include <string.h>

static const struct CMUnitTest contract[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, contract_set_up, contract_tear_down),
    CONTRACT(TEST)
};

static int run(const char *id)
{
    contract_device = id;
    return cmocka_run_group_tests_name(id, contract, NULL, NULL);
}

/* A layer that was not loaded would make its test one of the driver. */
static int run_described(const char *id)
{
    copse_context *ctx = NULL;
    const struct copse_device_info *devices = NULL;
    size_t count = 0, i = 0;
    if (copse_context_create(NULL, &ctx) == COPSE_OK)
        copse_context_devices(ctx, &devices, &count);
    while (i < count && strcmp(devices[i].id, id) != 0)
        i++;
    const bool is_described = i < count && !devices[i].limits.has_unified_memory;
    copse_context_release(&ctx);
    if (i < count && !is_described)
        fprintf(stderr, "%s shares the memory of the host: is the layer loaded?\n", id);
    return i < count && !is_described ? 1 : run(id);
}

int main(int argc, char **argv)
{
    copse_context *ctx = NULL;
    const struct copse_device_info *devices;
    size_t count;
    int failed = 0;

    if (argc > 2)
        return run_described(argv[1]) != 0;
    if (argc > 1 && strcmp(argv[1], "--list") != 0)
        return run(argv[1]) != 0;
    if (copse_context_create(NULL, &ctx)) {
        fprintf(stderr, "%s\n", copse_last_error());
        return 1;
    }
    copse_context_devices(ctx, &devices, &count);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1) {
            if (devices[i].is_usable)
                puts(devices[i].id);
        } else if (devices[i].is_usable) {
            printf("%s: %s, %s\n", devices[i].id, devices[i].name, devices[i].driver);
            failed += run(devices[i].id);
        } else {
            printf("%s: %s is not used: %s\n", devices[i].id, devices[i].name, devices[i].reason);
        }
    }
    copse_context_release(&ctx);
    if (argc == 1)
        failed += run("fake:0");
    return failed != 0;
}
