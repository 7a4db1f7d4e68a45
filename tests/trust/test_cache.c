/* SPDX-License-Identifier: MIT */
/* The kernel cache in a folder, shared by processes: lists of blocked kernels that several processes change at once keep
   all changes, and waiting for a lock ends. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copse/device/conformance.h"

#include "tests/rig/rig.h"
#include "tests/rig/temp_files.h"

#include "tests/rig/fake_backend.h"
#include "core/base/cache_folder.h"

enum { PROCESSES = 4, ROUNDS = 25 };

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}

static struct copse_mem mem = { .resize = resize };

/* Each has kernels of its own. */
static const char *const kernels[PROCESSES] = { "softmax", "unary", "binary", "reduce" };

static copse_context *open_shared(void)
{
    const struct copse_context_params p = { .no_self_test = true, .cache_folder = "" };
    copse_context *ctx;
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    return ctx;
}

static size_t blocked(copse_context *ctx)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    return count;
}

/* Blocked and taken back, again and again, and blocked at the end. A change of one's own that got lost
   shows at once. */
static int change_often(copse_context *ctx, const char *kernel)
{
    for (unsigned i = 0; i < 2 * ROUNDS + 1; i++) {
        const struct copse_blocked_kernel *list;
        size_t count, k = 0;
        copse_context *fresh = open_shared();
        const bool is_to_be = i % 2 == 1;
        OK(copse_device_blocked(fresh, "fake:0", &list, &count));
        while (k < count && strcmp(list[k].kernel, kernel) != 0)
            k++;
        const bool is_blocked = k < count;
        copse_context_release(&fresh);
        if (is_blocked != is_to_be)
            return 1;
        if (is_blocked ? copse_device_unblock(ctx, "fake:0", kernel)
                       : copse_device_block(ctx, "fake:0", kernel, "by the test"))
            return 2;
    }
    return 0;
}

static void processes_change_one_list_at_once(void **state)
{
    pid_t child[PROCESSES];
    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            copse_context *ctx = open_shared();
            const int code = change_often(ctx, kernels[i]);
            copse_context_release(&ctx);
            _exit(code);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int how;
        assert_int_equal(waitpid(child[i], &how, 0), child[i]);
        if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
            fail_msg("the process that blocks %s lost a change (%x)", kernels[i], (unsigned)how);
    }
    copse_context *ctx = open_shared();
    assert_int_equal(blocked(ctx), PROCESSES);
    copse_context_release(&ctx);
}

/* A holder that is stopped, or works for ever. */
static void a_lock_that_is_not_given_back_stops_nobody(void **state)
{
    int ready[2];
    char byte;
    (void)state;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct copse_cache_params cache;
        const bool is_open = copse__cache_folder_open(&mem, "", &cache);
        if (is_open)
            cache.lock(cache.user, "blocked-0");
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    copse_context *ctx = open_shared();
    OK(copse_device_unblock(ctx, "fake:0", NULL));
    assert_int_equal(blocked(ctx), 0);
    copse_context_release(&ctx);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

/* Of two contexts of one process the end of one's change does not end the other's. */
static void a_lock_is_one_callers_not_the_processs(void **state)
{
    struct copse_cache_params cache;
    char path[1100];
    (void)state;
    assert_true(copse__cache_folder_open(&mem, "", &cache));
    snprintf(path, sizeof path, "%s/copse/.lock", temp_folder);
    for (int i = 0; i < 2; i++) {
        void *locked = cache.lock(cache.user, "blocked-0");
        const int other = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(other >= 0);
        assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
        close(other);
        cache.unlock(cache.user, locked);
    }
    copse__cache_folder_close(&mem, &cache);
}

/* The first context compiles or changes; the second finds it, in a folder of the application's choice, too. */
static void a_folder_of_the_application(void **state)
{
    char path[1100];
    struct copse_context_params p = { .no_self_test = true, .cache_folder = path };
    copse_context *ctx;
    (void)state;
    snprintf(path, sizeof path, "%s/above/mine", temp_folder);
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    OK(copse_device_block(ctx, "fake:0", "softmax", NULL));
    copse_context_release(&ctx);
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    assert_int_equal(blocked(ctx), 1);
    copse_context_release(&ctx);
    p.cache_folder = NULL;
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    assert_int_equal(blocked(ctx), 0);
    copse_context_release(&ctx);
    /* A folder that others may write to is not used; the context works without it. */
    assert_int_equal(chmod(path, 0777), 0);
    p.cache_folder = path;
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    assert_int_equal(blocked(ctx), 0);
    copse_context_release(&ctx);
}

static int begin(void **state)
{
    (void)state;
    temp_begin();
    setenv("XDG_CACHE_HOME", temp_folder, 1);
    fake_reset();
    return 0;
}

static int end(void **state)
{
    (void)state;
    temp_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_change_one_list_at_once),
        cmocka_unit_test(a_lock_that_is_not_given_back_stops_nobody),
        cmocka_unit_test(a_lock_is_one_callers_not_the_processs),
        cmocka_unit_test(a_folder_of_the_application),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
