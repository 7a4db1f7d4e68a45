/* SPDX-License-Identifier: MIT */
/* The monitor: counting steps, what it refuses, going on after an interruption, surviving a failed
   device. */
#include "copse/compat/single_loss.h"

#include "tests/rig/rig.h"

#include "tests/rig/data/temp_files.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/train/train_job.h"

static char log_text[4000];

static void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN && strlen(log_text) + strlen(line) + 2 < sizeof log_text)
        strcat(strcat(log_text, line), "\n");
}

static copse_context *open_context(void)
{
    copse_context *ctx;
    OK(copse_context_create(&(struct copse_context_params){ .log = take_log }, &ctx));
    return ctx;
}

static int begin(void **state)
{
    (void)state;
    temp_begin();
    fake_reset();
    log_text[0] = '\0';
    return 0;
}

static int end(void **state)
{
    (void)state;
    temp_end();
    return 0;
}

/* ---- a step that only counts ---- */

struct counter {
    unsigned runs, rows, fail_at;
    copse_status failure;
};

static copse_status count_run(void *user)
{
    struct counter *c = user;
    if (c->runs == c->rows)
        return COPSE_ERR_END;
    if (c->runs + 1 == c->fail_at) {
        c->fail_at = 0;
        return copse_fail(c->failure, "counter: told to fail");
    }
    c->runs++;
    return COPSE_OK;
}

static uint64_t count_progress(void *user)
{
    return ((const struct counter *)user)->runs;
}

static void mon_1(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    static const struct copse_step_functions functions = { .run = count_run };
    struct counter c = { .rows = 5 };
    copse_step *step;
    copse_monitor *m;
    uint64_t done = 99;
    OK(copse_step_create(ctx, NULL, &functions, &c, &step));
    OK(copse_monitor_create(step, NULL, &m));
    copse_step_release(&step); /* the monitor has it */
    OK(copse_monitor_run(m, 0, &done));
    assert_int_equal(done, 0);
    OK(copse_monitor_run(m, 3, &done));
    assert_int_equal(done, 3);
    OK(copse_monitor_run(m, 10, &done));
    assert_int_equal(done, 2);
    OK(copse_monitor_run(m, COPSE_ALL, &done));
    assert_int_equal(done, 0);
    OK(copse_monitor_run(m, 1, NULL));
    assert_int_equal(c.runs, 5);
    copse_monitor_release(&m);

    /* A part of a step before the end is not counted, and stays. */
    struct job j = { .ctx = ctx, .iterations = 3 };
    OK(job_step(&j, &step));
    OK(copse_monitor_create(step, NULL, &m));
    OK(copse_monitor_run(m, COPSE_ALL, &done));
    assert_int_equal(done, 2);
    assert_int_equal(copse_trainer_steps(copse_step_trainer(step)), JOB_BATCHES);
    copse_monitor_release(&m);
    copse_step_release(&step);
    copse_context_release(&ctx);
}

static void expect_wrong(copse_step *step, const struct copse_monitor_params *p, const char *text)
{
    copse_monitor *m;
    assert_int_equal(copse_monitor_create(step, p, &m), COPSE_ERR_ARGUMENT);
    assert_null(m);
    if (!strstr(copse_last_error(), text))
        fail_msg("'%s' is not in: %s", text, copse_last_error());
    assert_int_equal(temp_count(), 0);
}

static void mon_2(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    static const struct copse_step_functions functions = { .run = count_run };
    struct counter c = { .rows = 50, .fail_at = 5, .failure = COPSE_ERR_SHAPE };
    struct job j = { .ctx = ctx };
    copse_step *step, *whole;
    copse_monitor *m;
    uint64_t done;
    const char *folder = temp_path("folder"), *file = temp_path("file");
    OK(copse_step_create(ctx, NULL, &functions, &c, &step));
    OK(job_step(&j, &whole));

    /* A place that cannot be used, and wishes without a place. */
    expect_wrong(step, &(struct copse_monitor_params){ .folder = folder }, "cannot be saved");
    expect_wrong(whole, &(struct copse_monitor_params){ .every_steps = 3 }, "no folder or file");
    expect_wrong(whole, &(struct copse_monitor_params){ .keep = 3 }, "no folder or file");
    expect_wrong(whole, &(struct copse_monitor_params){ .folder = folder, .file = file }, "both");
    expect_wrong(whole, &(struct copse_monitor_params){ .file = file, .keep = 2 },
                 "one checkpoint");
    expect_wrong(whole, &(struct copse_monitor_params){ .file = "" }, "empty");
    expect_wrong(whole, &(struct copse_monitor_params){ .file = file, .every_seconds = -1.0 },
                 "every -1 seconds");
    struct copse_step_functions half = functions;
    copse_step *bad;
    half.progress = count_progress;
    assert_int_equal(copse_step_create(ctx, NULL, &half, &c, &bad), COPSE_ERR_ARGUMENT);

    /* Other errors come out, with the steps before counted; the monitor goes on. */
    OK(copse_monitor_create(step, NULL, &m));
    assert_int_equal(copse_monitor_run(m, 20, &done), COPSE_ERR_SHAPE);
    assert_int_equal(done, 4);
    assert_non_null(strstr(copse_last_error(), "told to fail"));
    OK(copse_monitor_run(m, 20, &done));
    assert_int_equal(done, 20);
    /* Without checkpoints a failed device is an error as well. */
    c.fail_at = c.runs + 3;
    c.failure = COPSE_ERR_DEVICE_LOST;
    assert_int_equal(copse_monitor_run(m, 20, &done), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(done, 2);
    assert_non_null(strstr(copse_last_error(), "name a folder or a file"));
    OK(copse_monitor_run(m, COPSE_ALL, &done));
    assert_int_equal(c.runs, 50);
    assert_int_equal(copse_monitor_checkpoint(m), COPSE_ERR_ARGUMENT);
    copse_monitor_release(&m);
    copse_step_release(&step);
    copse_step_release(&whole);
    copse_context_release(&ctx);
}

/* ---- going on ---- */

enum { EPOCHS = 3, STEPS = EPOCHS * JOB_BATCHES };

static float *undisturbed(copse_context *ctx, const struct job *like)
{
    struct job j = *like;
    copse_step *step;
    copse_monitor *m;
    j.ctx = ctx;
    OK(job_step(&j, &step));
    OK(copse_monitor_create(step, NULL, &m));
    OK(copse_monitor_run(m, COPSE_ALL, NULL));
    float *values = job_values(&j, 0);
    assert_non_null(values);
    copse_monitor_release(&m);
    copse_step_release(&step);
    return values;
}

struct life {
    struct job j;
    copse_context *ctx;
    copse_step *step;
    copse_monitor *m;
};

static copse_status start(struct life *l, const struct job *like,
                          const struct copse_monitor_params *p)
{
    l->j = *like;
    l->j.ctx = l->ctx;
    OK(job_step(&l->j, &l->step));
    return copse_monitor_create(l->step, p, &l->m);
}

/* As if the process ended: nothing more is written. */
static void stop(struct life *l)
{
    copse_monitor_release(&l->m);
    copse_step_release(&l->step);
}

static void check_values(const struct job *j, const float *wanted)
{
    const uint32_t replicas = j->device_count ? (uint32_t)j->device_count : 1;
    for (uint32_t r = 0; r < replicas; r++) {
        float *values = job_values(j, r);
        assert_non_null(values);
        assert_memory_equal(values, wanted, model_parameters() * sizeof *values);
        free(values);
    }
}

static void mon_3(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    for (size_t i = 0; i < job_mixtures(ctx); i++) {
        const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 4 };
        struct job j = { .epochs = EPOCHS, .seed = 21 };
        struct copse_monitor_info info;
        struct life l = { .ctx = ctx };
        uint64_t done;
        job_devices(ctx, &j, i);
        float *wanted = undisturbed(ctx, &j);

        /* Cut again and again, in the middle of an epoch and where one ends. */
        static const uint64_t cuts[] = { 2, 9, 7, 3 }; /* resumes at 0, 8, 12, 12 */
        for (size_t k = 0; k < COPSE_COUNT(cuts); k++) {
            static const uint64_t at[] = { 0, 0, 8, 12 };
            OK(start(&l, &j, &p));
            copse_monitor_describe(l.m, &info);
            assert_true((info.resumed_from != NULL) == (k > 0));
            assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), at[k]);
            OK(copse_monitor_run(l.m, cuts[k], &done));
            assert_int_equal(done, cuts[k]);
            stop(&l);
        }
        OK(start(&l, &j, &p));
        OK(copse_monitor_run(l.m, COPSE_ALL, &done));
        assert_int_equal(done, STEPS - 12);
        assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), STEPS);
        check_values(&l.j, wanted);
        stop(&l);

        /* A finished run has nothing left to do, and has all of it. */
        OK(start(&l, &j, &p));
        OK(copse_monitor_run(l.m, COPSE_ALL, &done));
        assert_int_equal(done, 0);
        check_values(&l.j, wanted);
        stop(&l);
        free(wanted);
        temp_remove(temp_path("run"));
    }
    copse_context_release(&ctx);
}

static size_t files_in(const char *folder)
{
    size_t n = 0;
    struct dirent *entry;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static void spoil(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fputc('#', f), '#');
    fclose(f);
}

static void damaged_checkpoints_are_passed_over(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    const struct copse_monitor_params p = { .folder = temp_path("run"),
                                            .every_steps = 2,
                                            .keep = 3 };
    struct job j = { .epochs = EPOCHS, .seed = 21 };
    struct copse_monitor_info info;
    struct life l = { .ctx = ctx };
    char path[3][300];
    float *wanted = undisturbed(ctx, &j);
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/step-%012d.safetensors", temp_path("run"), 6 + 2 * i);

    OK(start(&l, &j, &p));
    OK(copse_monitor_run(l.m, 11, NULL));
    stop(&l);
    assert_int_equal(files_in(temp_path("run")), 3); /* the last three: 6, 8, 10 */
    spoil(path[2], -5);
    assert_int_equal(truncate(path[1], 500), 0);
    temp_write("run/step-000000000012.safetensors.tmp7fffffff-0", "torn", 4);
    temp_write("run/step-000000000012.safetensors.tmp-by-hand", "other", 5);
    temp_write("run/notes.txt", "other", 5);

    log_text[0] = '\0';
    OK(start(&l, &j, &p));
    copse_monitor_describe(l.m, &info);
    assert_string_equal(info.resumed_from, path[0]);
    assert_int_equal(info.skipped, 2);
    assert_non_null(strstr(log_text, "step-000000000010.safetensors is passed over"));
    assert_non_null(strstr(log_text, "damaged"));
    assert_non_null(strstr(log_text, "step-000000000008.safetensors is passed over"));
    assert_int_equal(files_in(temp_path("run")), 5); /* without the torn leftover */
    OK(copse_monitor_run(l.m, 3, NULL)); /* the damaged 8 is replaced; what is whole is kept */
    stop(&l);
    OK(start(&l, &j, &p));
    copse_monitor_describe(l.m, &info);
    assert_string_equal(info.resumed_from, path[1]);
    OK(copse_monitor_run(l.m, COPSE_ALL, NULL));
    check_values(&l.j, wanted);
    stop(&l);
    assert_int_equal(files_in(temp_path("run")), 5); /* 3 checkpoints and what is not ours */

    /* Nothing whole is left: an error, not a new start. */
    for (int at = 18; at <= 21; at++) {
        snprintf(path[0], sizeof path[0], "%s/step-%012d.safetensors", temp_path("run"), at);
        FILE *f = fopen(path[0], "rb");
        if (f) {
            fclose(f);
            spoil(path[0], 100);
        }
    }
    assert_int_equal(start(&l, &j, &p), COPSE_ERR_FORMAT);
    assert_non_null(strstr(copse_last_error(), "no other checkpoint"));
    stop(&l);

    /* One of another model is not passed over. */
    j.optimizer.kind = COPSE_SGD;
    const struct copse_monitor_params other = { .file = temp_path("one.safetensors") };
    OK(start(&l, &j, &other));
    stop(&l);
    j.optimizer.kind = COPSE_ADAM;
    assert_int_equal(start(&l, &j, &other), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "optimizer"));
    stop(&l);
    free(wanted);
    copse_context_release(&ctx);
}

static void one_file_is_enough(void **state)
{
    (void)state;
    copse_context *ctx = open_context();
    struct copse_monitor_params p = { .file = temp_path("one.safetensors"), .every_seconds = 1e-9 };
    struct job j = { .epochs = EPOCHS };
    struct copse_monitor_info info;
    struct life l = { .ctx = ctx };
    float *wanted = undisturbed(ctx, &j);
    OK(start(&l, &j, &p));
    OK(copse_monitor_run(l.m, 10, NULL));
    copse_monitor_describe(l.m, &info);
    assert_int_equal(info.saved, 11);  /* the first, and one every step */
    OK(copse_monitor_checkpoint(l.m)); /* there already */
    copse_monitor_describe(l.m, &info);
    assert_int_equal(info.saved, 11);
    stop(&l);
    temp_write("one.safetensors.tmp7fffffff-12", "torn", 4);
    temp_write("one.safetensors2", "other", 5);
    assert_int_equal(temp_count(), 3);
    p.is_new = true;
    assert_int_equal(start(&l, &j, &p), COPSE_ERR_ARGUMENT);
    assert_non_null(strstr(copse_last_error(), "one.safetensors"));
    stop(&l);
    p.is_new = false;
    p.every_seconds = 0.0;
    OK(start(&l, &j, &p));
    assert_int_equal(temp_count(), 2);
    assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), 10);
    OK(copse_monitor_run(l.m, COPSE_ALL, NULL)); /* the end of data writes one */
    check_values(&l.j, wanted);
    stop(&l);
    OK(start(&l, &j, &p));
    assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), STEPS);
    stop(&l);
    free(wanted);
    copse_context_release(&ctx);
}

/* ---- failed devices ---- */

static copse_context *open_fake(void)
{
    copse_context *ctx;
    fake_reset();
    copse_fake.device_count = 2;
    OK(copse__context_create_with(&(struct copse_context_params){ .log = take_log }, fake_backends,
                                  &ctx));
    return ctx;
}

static const struct job fake_job = {
    .devices = { "fake:0", "fake:1", "host:0" },
    .device_count = 3,
    .epochs = 2,
    .seed = 4,
};

/* The line about the first recovery names the step of the checkpoint, and the file. */
static void check_step_in_log(void)
{
    unsigned long long step;
    char line[400];
    const char *at = strstr(log_text, "starting over from step ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "starting over from step %llu", &step), 1);
    snprintf(line, sizeof line, "step %llu, %s/step-%012llu.safetensors (1 of 3)", step,
             temp_path("run"), step);
    assert_non_null(strstr(at, line));
    assert_true(step % 3 == 0 && step < JOB_BATCHES * 2);
}

static void mon_4(void **state)
{
    (void)state;
    static const enum fake_fn places[] = { FAKE_WRITE, FAKE_REPLAY, FAKE_SUBMIT, FAKE_WAIT,
                                           FAKE_READ };
    copse_context *ctx = open_fake();
    float *wanted = undisturbed(ctx, &fake_job);
    copse_context_release(&ctx);
    unsigned recovered = 0;
    for (size_t i = 0; i < COPSE_COUNT(places); i++)
        for (uint32_t n = 1; n <= 40; n += 3) {
            struct life l = { .ctx = open_fake() };
            const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 3 };
            struct copse_monitor_info info;
            uint64_t done = 0;
            OK(start(&l, &fake_job, &p));
            OK(copse_monitor_run(l.m, 4, &done));
            assert_int_equal(done, 4);
            log_text[0] = '\0';
            fake_fail(n % 2, places[i], n, COPSE_ERR_DEVICE_LOST, false);
            OK(copse_monitor_run(l.m, 5, &done));
            assert_int_equal(done, 5);
            assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), 9);
            OK(copse_monitor_run(l.m, COPSE_ALL, &done));
            assert_int_equal(done, 5);
            copse_monitor_describe(l.m, &info);
            if (info.recoveries > 0)
                check_step_in_log();
            recovered += (unsigned)info.recoveries;
            copse_fake.devices[0].faults[places[i]].at =
                copse_fake.devices[1].faults[places[i]].at = 0;
            check_values(&l.j, wanted);
            stop(&l);
            copse_context_release(&l.ctx);
            temp_remove(temp_path("run"));
        }
    printf("  %u failed devices survived\n", recovered);
    assert_in_range(recovered, 40, 70);

    /* For good: an error after the retries, the checkpoint as it was, and it still loads. */
    struct life l = { .ctx = open_fake() };
    const struct copse_monitor_params p = { .file = temp_path("run"),
                                            .every_steps = 3,
                                            .retries = 2 };
    struct copse_monitor_info info;
    uint64_t done;
    OK(start(&l, &fake_job, &p));
    OK(copse_monitor_run(l.m, 4, NULL));
    size_t size, size_after;
    unsigned char *before = temp_bytes(temp_path("run"), &size);
    fake_fail(1, FAKE_SUBMIT, 5, COPSE_ERR_DEVICE_LOST, true);
    assert_int_equal(copse_monitor_run(l.m, COPSE_ALL, &done), COPSE_ERR_DEVICE_LOST);
    copse_monitor_describe(l.m, &info);
    assert_int_equal(info.recoveries, 0);
    assert_int_equal(l.j.made, 3); /* the first trainer and two tries */
    assert_non_null(strstr(log_text, "(2 of 2)"));
    assert_non_null(strstr(copse_last_error(), "after 2 tries"));
    unsigned char *after = temp_bytes(temp_path("run"), &size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
    assert_int_equal(temp_count(), 1);
    stop(&l);
    copse_context_release(&l.ctx);
    l.ctx = open_fake();
    OK(start(&l, &fake_job, &p));
    assert_int_equal(copse_trainer_steps(copse_step_trainer(l.step)), 3);
    OK(copse_monitor_run(l.m, COPSE_ALL, NULL));
    check_values(&l.j, wanted);
    stop(&l);
    copse_context_release(&l.ctx);
    free(wanted);
}

/* The application leaves the failed device out: the run goes on with one replica less. */
static void a_run_goes_on_without_the_device(void **state)
{
    (void)state;
    struct life l = { .ctx = open_fake() };
    struct job j = { .devices = { "host:0", "fake:0", "fake:1" },
                     .device_count = 3,
                     .epochs = 2,
                     .seed = 4,
                     .lose_after = 2 };
    const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 2 };
    uint64_t done;
    struct job whole = j;
    whole.lose_after = 0;
    float *wanted = undisturbed(l.ctx, &whole);
    OK(start(&l, &j, &p));
    OK(copse_monitor_run(l.m, 5, NULL));
    fake_fail(1, FAKE_SUBMIT, 2, COPSE_ERR_DEVICE_LOST, true);
    OK(copse_monitor_run(l.m, COPSE_ALL, &done));
    assert_int_equal(done, 9);
    assert_int_equal(copse_strategy_replicas(copse_step_strategy(l.step)), 2);
    float *values = job_values(&l.j, 0);
    assert_non_null(values);
    assert_true(model_distance(wanted, values) <= 1e-5);
    free(values);
    free(wanted);
    stop(&l);
    copse_context_release(&l.ctx);
}

/* An update cut short by something else than a lost device: the error comes out, and the next call
   starts over from the checkpoint. */
static void an_update_cut_short_is_repeated(void **state)
{
    (void)state;
    struct life l = { .ctx = open_fake() };
    const struct copse_monitor_params p = { .folder = temp_path("run"), .every_steps = 2 };
    copse_status s = COPSE_OK;
    float *wanted = undisturbed(l.ctx, &fake_job);
    OK(start(&l, &fake_job, &p));
    OK(copse_monitor_run(l.m, 5, NULL));
    fake_fail(0, FAKE_REPLAY, 4, COPSE_ERR_NO_DEVICE_MEMORY, false);
    s = copse_monitor_run(l.m, COPSE_ALL, NULL);
    assert_int_equal(s, COPSE_ERR_NO_DEVICE_MEMORY);
    OK(copse_monitor_run(l.m, COPSE_ALL, NULL));
    check_values(&l.j, wanted);
    free(wanted);
    stop(&l);
    copse_context_release(&l.ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mon_1),
        TEST(mon_2),
        TEST(mon_3),
        TEST(mon_4),
        TEST(damaged_checkpoints_are_passed_over),
        TEST(one_file_is_enough),
        TEST(a_run_goes_on_without_the_device),
        TEST(an_update_cut_short_is_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
