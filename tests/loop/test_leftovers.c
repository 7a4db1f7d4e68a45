/* SPDX-License-Identifier: MIT */
/* What a monitor finds beside checkpoints: leftovers of killed processes go, what another process
   is writing at the moment stays. */
#include <sys/wait.h>
#include <unistd.h>

#include "copse/loop/monitor.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

static copse_status stand(void *user)
{
    (void)user;
    return COPSE_ERR_END;
}

static copse_status keep(void *user, const char *path)
{
    (void)user, (void)path;
    return COPSE_OK;
}

static uint64_t come_to(void *user)
{
    (void)user;
    return 0;
}

/* Whether a monitor that is made there leaves NAME.tmp<process>-0 alone. */
static bool stays(const char *place, const char *name, pid_t process)
{
    static const struct copse_step_functions functions = {
        .run = stand, .save = keep, .restore = keep, .progress = come_to
    };
    const bool is_folder = strstr(place, ".safetensors") == NULL;
    const char *at = temp_path(place);
    char file[100];
    copse_context *ctx;
    copse_step *step;
    copse_monitor *m;

    snprintf(file, sizeof file, "%s%s.tmp%x-0", is_folder ? "run/" : "", name, (unsigned)process);
    const char *leftover = temp_write(file, "half", 4);
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    OK(copse_step_create(ctx, NULL, &functions, NULL, &step));
    OK(copse_monitor_create(step,
                            &(struct copse_monitor_params){ .folder = is_folder ? at : NULL,
                                                            .file = is_folder ? NULL : at },
                            &m));
    const bool is_there = access(leftover, F_OK) == 0;
    copse_monitor_release(&m);
    copse_step_release(&step);
    copse_context_release(&ctx);
    unlink(leftover);
    return is_there;
}

/* A process that stands still until its pipe is closed. */
static pid_t start(int *end)
{
    int ends[2];
    char byte;

    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    assert_true(child > 0);
    *end = ends[1];
    return child;
}

static void what_a_living_process_writes_stays(void **state)
{
    (void)state;
    int end, status;

    temp_begin();
    const pid_t child = start(&end);
    assert_int_equal(mkdir(temp_path("run"), 0777), 0);
    assert_true(stays("run", "step-000000000004.safetensors", child));
    assert_true(stays("one.safetensors", "one.safetensors", child));
    close(end);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(stays("run", "step-000000000004.safetensors", child));
    assert_false(stays("one.safetensors", "one.safetensors", child));
    /* of an earlier process */
    assert_false(stays("run", "step-000000000004.safetensors", getpid()));
    temp_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_a_living_process_writes_stays) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
