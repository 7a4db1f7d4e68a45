/* SPDX-License-Identifier: MIT */
/* Checkpoints of a monitor as files: how often they are written, and how another process finds
   them. */
#include "copse/distribute/evaluator.h"
#include "copse/loop/monitor.h"
#include "core/base/base.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

static copse_context *open_context(void)
{
    copse_context *ctx;
    OK(copse_context_create(NULL, &ctx));
    return ctx;
}

/* ---- finding ---- */

static void expect_found(copse_context *ctx, const char *folder, uint64_t from, bool is_newest,
                         uint64_t progress)
{
    struct copse_found_checkpoint found;
    char name[64];
    snprintf(name, sizeof name, "/step-%012llu.safetensors", (unsigned long long)progress);
    OK(copse_monitor_find(ctx, folder, from, is_newest, &found));
    assert_int_equal(found.progress, progress);
    assert_non_null(strstr(found.path, name));
    assert_memory_equal(found.path, folder, strlen(folder));
}

static void checkpoints_are_found_by_others(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    struct copse_found_checkpoint found = { .progress = 7 };
    const char *const folder = temp_folder;
    assert_int_equal(copse_monitor_find(ctx, folder, 0, false, &found), COPSE_ERR_END);
    temp_text("step-000000000020.safetensors", "x");
    temp_text("step-000000000000.safetensors", "x");
    temp_text("step-1234567890123.safetensors", "x"); /* more digits than are padded to */
    temp_text("step-000000000100.safetensors", "x");
    temp_text("step-50.safetensors", "x"); /* none of a monitor's */
    temp_text("step-000000000060.safetensors.old", "x");
    /* the writer's affair */
    const char *leftover = temp_text("step-000000000070.safetensors.tmp1f3-0", "x");
    expect_found(ctx, folder, 0, false, 0);
    expect_found(ctx, folder, 1, false, 20);
    expect_found(ctx, folder, 20, false, 20);
    expect_found(ctx, folder, 21, false, 100);
    expect_found(ctx, folder, 0, true, 1234567890123);
    expect_found(ctx, folder, 101, true, 1234567890123);
    assert_int_equal(copse_monitor_find(ctx, folder, 1234567890124, false, &found), COPSE_ERR_END);
    assert_int_equal(copse_monitor_find(ctx, folder, UINT64_MAX, true, &found), COPSE_ERR_END);
    assert_int_equal(found.progress, 7); /* untouched where nothing was found */
    assert_int_equal(access(leftover, F_OK), 0);
    assert_int_equal(copse_monitor_find(ctx, temp_path("nowhere"), 0, false, &found), COPSE_ERR_IO);
    assert_int_equal(copse_monitor_find(NULL, folder, 0, false, &found), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_monitor_find(ctx, NULL, 0, false, &found), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_monitor_find(ctx, "", 0, false, &found), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_monitor_find(ctx, folder, 0, false, NULL), COPSE_ERR_ARGUMENT);
    copse_context_release(&ctx);
}

/* ---- how often ---- */

/* Steps that come further by 5, 5, 2, 5, 5, 2, ...; what was saved is noted. */
struct walker {
    unsigned runs;
    uint64_t progress, saved[40];
    size_t count;
};

static copse_status walk(void *user)
{
    struct walker *w = user;
    if (w->runs == 12)
        return COPSE_ERR_END;
    w->progress += w->runs++ % 3 == 2 ? 2 : 5;
    return COPSE_OK;
}

static copse_status keep(void *user, const char *path)
{
    struct walker *w = user;
    (void)path;
    w->saved[w->count++] = w->progress;
    return COPSE_OK;
}

static copse_status bring_back(void *user, const char *path)
{
    (void)user, (void)path;
    return COPSE_ERR_FORMAT; /* nobody is to come here */
}

static uint64_t come_to(void *user)
{
    return ((const struct walker *)user)->progress;
}

static void expect_saved(copse_context *ctx, const struct copse_monitor_params *p,
                         const uint64_t *saved, size_t count)
{
    static const struct copse_step_functions functions = {
        .run = walk, .save = keep, .restore = bring_back, .progress = come_to
    };
    struct walker w = { 0 };
    copse_step *step;
    copse_monitor *m;
    OK(copse_step_create(ctx, NULL, &functions, &w, &step));
    OK(copse_monitor_create(step, p, &m));
    OK(copse_monitor_run(m, COPSE_ALL, NULL));
    assert_int_equal(w.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(w.saved[i], saved[i]);
    copse_monitor_release(&m);
    copse_step_release(&step);
}

/* ---- a disk that fails ---- */

static char warnings[2000];

static void take_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN)
        strncat(strncat(warnings, line, 400), "\n", 2);
}

struct disk {
    unsigned runs, tried;
    uint64_t fails; /* bit i: try i fails */
    copse_status failure;
    uint64_t saved[40];
    size_t count;
};

static copse_status disk_run(void *user)
{
    struct disk *d = user;
    return d->runs == 10 ? COPSE_ERR_END : (d->runs++, COPSE_OK);
}

static copse_status disk_save(void *user, const char *path)
{
    struct disk *d = user;
    if (d->fails >> d->tried++ & 1)
        return copse_fail(d->failure, "cannot write %s: No space left on device", path);
    d->saved[d->count++] = d->runs;
    return COPSE_OK;
}

static uint64_t disk_progress(void *user)
{
    return ((const struct disk *)user)->runs;
}

static const struct copse_step_functions disk_functions = {
    .run = disk_run, .save = disk_save, .restore = bring_back, .progress = disk_progress
};

static copse_monitor *disk_monitor(copse_context *ctx, struct disk *d, copse_step **step)
{
    copse_monitor *m;
    OK(copse_step_create(ctx, NULL, &disk_functions, d, step));
    OK(copse_monitor_create(
        *step, &(struct copse_monitor_params){ .folder = temp_path("disk"), .every_steps = 3 },
        &m));
    return m;
}

static void a_checkpoint_that_fails_ends_nothing(void **state)
{
    (void)state;
    copse_context *ctx;
    OK(copse_context_create(&(struct copse_context_params){ .log = take_warning }, &ctx));
    struct disk d = { .fails = 3 << 1, .failure = COPSE_ERR_IO }; /* after 3 and 6 steps */
    struct copse_monitor_info info;
    copse_step *step;
    copse_monitor *m = disk_monitor(ctx, &d, &step);
    warnings[0] = '\0';
    OK(copse_monitor_run(m, COPSE_ALL, NULL));
    assert_int_equal(d.runs, 10);
    const uint64_t saved[] = { 0, 9, 10 };
    assert_int_equal(d.count, 3);
    assert_memory_equal(d.saved, saved, sizeof saved);
    copse_monitor_describe(m, &info);
    assert_int_equal(info.failed, 2);
    assert_int_equal(info.saved, 3);
    assert_non_null(strstr(info.newest, "step-000000000010"));
    /* one line where it begins, and one where it ends */
    assert_non_null(
        strstr(warnings, "No space left on device; it goes on, the newest checkpoint is "));
    assert_non_null(strstr(warnings, "step-000000000000.safetensors\n"));
    assert_non_null(strstr(warnings, "checkpoints are written again"));
    const char *first = strchr(warnings, '\n');
    assert_true(first && strchr(first + 1, '\n') && !strchr(strchr(first + 1, '\n') + 1, '\n'));
    copse_monitor_release(&m);
    copse_step_release(&step);

    /* The last one is an error, after all steps; a call may try it again. Other errors end the run,
       and so does the first. */
    d = (struct disk){ .fails = 1 << 4, .failure = COPSE_ERR_IO };
    m = disk_monitor(ctx, &d, &step);
    FAILS(COPSE_ERR_IO, copse_monitor_run(m, COPSE_ALL, NULL), "No space left");
    assert_int_equal(d.runs, 10);
    copse_monitor_describe(m, &info);
    assert_non_null(strstr(info.newest, "step-000000000009"));
    OK(copse_monitor_run(m, COPSE_ALL, NULL));
    copse_monitor_release(&m);
    copse_step_release(&step);
    d = (struct disk){ .fails = 1 << 1, .failure = COPSE_ERR_NONFINITE };
    m = disk_monitor(ctx, &d, &step);
    FAILS(COPSE_ERR_NONFINITE, copse_monitor_run(m, COPSE_ALL, NULL), "No space left");
    assert_int_equal(d.runs, 3);
    copse_monitor_release(&m);
    copse_step_release(&step);
    d = (struct disk){ .fails = 1, .failure = COPSE_ERR_IO };
    OK(copse_step_create(ctx, NULL, &disk_functions, &d, &step));
    FAILS(COPSE_ERR_IO,
          copse_monitor_create(step, &(struct copse_monitor_params){ .folder = temp_path("first") },
                               &m),
          "No space left");
    copse_step_release(&step);
    copse_context_release(&ctx);
}

static void intervals_count_steps_or_progress(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    const char *folder = temp_path("points");
    /* after 5 10 12 | 17 22 24 | 29 34 36 | 41 46 48 */
    expect_saved(ctx, &(struct copse_monitor_params){ .folder = folder, .every_progress = 10 },
                 (const uint64_t[]){ 0, 10, 22, 34, 46, 48 }, 6);
    expect_saved(ctx, &(struct copse_monitor_params){ .folder = folder, .every_progress = 12 },
                 (const uint64_t[]){ 0, 12, 24, 36, 48 }, 5);
    expect_saved(ctx, &(struct copse_monitor_params){ .folder = folder, .every_steps = 4 },
                 (const uint64_t[]){ 0, 17, 34, 48 }, 4);
    /* whichever comes first */
    expect_saved(
        ctx,
        &(struct copse_monitor_params){ .folder = folder, .every_steps = 3, .every_progress = 10 },
        (const uint64_t[]){ 0, 10, 22, 34, 46, 48 }, 6);
    copse_monitor *m;
    copse_step *step;
    struct walker w = { 0 };
    static const struct copse_step_functions functions = { .run = walk };
    OK(copse_step_create(ctx, NULL, &functions, &w, &step));
    assert_int_equal(
        copse_monitor_create(step, &(struct copse_monitor_params){ .every_progress = 1 }, &m),
        COPSE_ERR_ARGUMENT);
    copse_step_release(&step);
    copse_context_release(&ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(checkpoints_are_found_by_others),
        TEST(a_checkpoint_that_fails_ends_nothing),
        TEST(intervals_count_steps_or_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
