/* SPDX-License-Identifier: MIT */
/* Adapters on a disk that is full. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/language/adapter_rig.h"

/* The system refuses to write more than the settings, as on a full disk: a new folder is removed,
   an older one keeps its adapter. */
static void test_full_disk(void **state)
{
    struct rlimit before, small;
    (void)state;
    on = "host:0";
    open_adapted(&(struct copse_adapter_params){ .rank = RANK, .alpha = 3 });
    OK(copse_language_save_adapter(language, path_of("full_old")));
    close_file();
    open_adapted(&(struct copse_adapter_params){ .rank = RANK, .alpha = 7 });
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 3000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const copse_status first = copse_language_save_adapter(language, path_of("full_new")),
                       next = copse_language_save_adapter(language, path_of("full_old"));
    setrlimit(RLIMIT_FSIZE, &before);
    close_file();
    assert_int_equal(first, COPSE_ERR_IO);
    assert_int_equal(next, COPSE_ERR_IO);
    assert_int_equal(access(path_of("full_new"), F_OK), -1);
    FILE *f = fopen(path_of("full_old/adapter_config.json"), "rb");
    static char config[3000];
    assert_non_null(f);
    assert_true(fread(config, 1, sizeof config - 1, f) > 100);
    fclose(f);
    assert_non_null(strstr(config, "\"lora_alpha\":\t3"));
    assert_true(loaded_alpha(path_of("full_old")) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_full_disk) };
    return cmocka_run_group_tests(tests, begin, end);
}
