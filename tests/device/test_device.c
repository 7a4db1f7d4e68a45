/* SPDX-License-Identifier: MIT */
/* The backend contract. The same tests run on every device found and on the fake backend:
 *
 *     device              all devices found, one line each, and the fake backend
 *     device --list       the ids of the usable devices
 *     device opencl:0     that device only; "fake:0" for the fake backend
 */
#include "tests/rig/contract/contract.h"

#include <stdio.h>

static const struct CMUnitTest contract[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, contract_set_up, contract_tear_down),
    CONTRACT(TEST)
};

static int run(const char *id)
{
    contract_device = id;
    return cmocka_run_group_tests_name(id, contract, NULL, NULL);
}

int main(int argc, char **argv)
{
    copse_context *ctx = NULL;
    const struct copse_device_info *devices;
    size_t count;
    int failed = 0;

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
