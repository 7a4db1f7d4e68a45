/* SPDX-License-Identifier: MIT */
/* The kernel cache in a folder, shared by processes: lists of blocked kernels that several
   processes change at once keep all changes, and waiting for a lock ends. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copse/device/conformance.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

#include "core/base/cache_folder.h"
#include "tests/rig/fake/fake_backend.h"

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

/* Blocked and taken back, again and again, and blocked at the end. A change of one's own that got
   lost shows at once. */
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
        const bool is_open = copse__cache_folder_open(&mem, "", &cache) == NULL;
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
    assert_null(copse__cache_folder_open(&mem, "", &cache));
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

/* The first context compiles or changes; the second finds it, in a folder of the application's
   choice, too. */
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

static char warned[1200];

static void take_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN && strncmp(line, "context: ", 9) == 0)
        snprintf(warned, sizeof warned, "%s", line);
}

/* Whether a context uses the folder; else the line says why not. */
static void expect_folder(const char *path, const char *why)
{
    const struct copse_context_params p = { .no_self_test = true,
                                            .cache_folder = path,
                                            .log = take_warning };
    copse_context *ctx;
    char text[1300];
    warned[0] = '\0';
    OK(copse__context_create_with(&p, fake_backends, &ctx));
    OK(copse_device_block(ctx, "fake:0", "softmax", NULL));
    copse_context_release(&ctx);
    snprintf(text, sizeof text, "context: compiled kernels are not kept: the folder '%s' %s", path,
             why ? why : "");
    if (strcmp(warned, why ? text : "") != 0)
        fail_msg("'%s', not '%s'", warned, why ? text : "");
}

static void folders_that_are_not_used(void **state)
{
    char own[300], link[300], file[300], target[300];
    (void)state;
    snprintf(own, sizeof own, "%s/own", temp_folder);
    snprintf(link, sizeof link, "%s/link", temp_folder);
    snprintf(file, sizeof file, "%s/file", temp_folder);
    expect_folder(own, NULL);
    assert_int_equal(symlink(own, link), 0);
    expect_folder(link, NULL); /* the user's own link */
    assert_int_equal(chmod(own, 0770), 0);
    expect_folder(own, "can be written by other users");
    expect_folder(link, "can be written by other users");
    assert_int_equal(chmod(own, 0700), 0);
    fclose(fopen(file, "w"));
    expect_folder(file, "is no folder");
    unlink(link);
    assert_int_equal(symlink("nowhere", link), 0);
    expect_folder(link, "is a link that leads nowhere");
    unlink(link);
    if (geteuid() != 0) {
        printf("skipped: files of other users need root\n");
        return;
    }
    snprintf(target, sizeof target, "%s/documents", temp_folder);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(lchown(link, 65534, 65534), 0);
    expect_folder(link, "is a link of another user");
    assert_int_equal(rmdir(target), 0); /* nothing was written there */
    unlink(link);
    assert_int_equal(chown(own, 65534, 65534), 0);
    expect_folder(own, "belongs to another user");
    assert_int_equal(chown(own, 0, 0), 0);
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
        cmocka_unit_test(folders_that_are_not_used),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
