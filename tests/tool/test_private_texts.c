/* SPDX-License-Identifier: MIT */
/* What files of `copse gpucheck` do not tell: each text, and what is left of it. */
#include "tests/rig/rig.h"
#include "tools/gpucheck/gpucheck.h"

static const struct row {
    const char *text, *left;
} rows[] = {
    { "GPU-6c1a2b3c-1111-2222-3333-444455556666 x", "GPU-<number> x" },
    { "MIG-6c1a2b3c-1111-2222-3333-444455556666", "MIG-<number>" },
    { "6c1a2b3c-1111-2222-3333-444455556666", "<number>" },
    { "a >/srv/x/y b", "a ><path> b" },
    { "-I/opt/acme/inc z", "-I<path> z" },
    { "file:///srv/a/b c", "file://<path> c" },
    { "/home/someone/c", "<path>" },
    { "on node7 now", "on <host> now" },
    { "on node7.example.org now", "on <host> now" },
    { "of someone", "of <user>" },
    { "12 GB/s of node77", "12 GB/s of node77" },
};

static void names_and_paths_are_removed(void **state)
{
    (void)state;
    const struct gpucheck_private names = { .host = "node7.example.org",
                                            .user = "someone",
                                            .home = "/home/someone" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cJSON *event = cJSON_CreateObject();
        assert_non_null(cJSON_AddStringToObject(event, "text", rows[i].text));
        gpucheck_private_clean(&names, event);
        assert_string_equal(cJSON_GetObjectItem(event, "text")->valuestring, rows[i].left);
        cJSON_Delete(event);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_and_paths_are_removed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
