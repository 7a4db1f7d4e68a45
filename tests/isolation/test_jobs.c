/* SPDX-License-Identifier: MIT */
/* Jobs of conformance in helper processes, which are this program again: drivers that abort and
   hang, helper programs that are none, cancelling, waiting, two jobs at a time, results and
   files. */
#include "tests/rig/rig.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/platform.h"
#include "prover/isolation/isolation.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/fake/lying_context.h"

static copse_context *plain; /* has no device lying:0 */
static const char *self;

/* ---- what this program does as a helper process ---- */

#define WAYS "COPSE_TEST_HELPER" /* environment: garbage, long, die, version, stuck */

static void write_all(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(3, bytes, size);
        if (n <= 0)
            return;
        bytes += n;
        size -= (size_t)n;
    }
}

static int help(int argc, char **argv)
{
    const char *way = getenv(WAYS);
    if (way && strcmp(way, "garbage") == 0)
        write_all("text\n{\"event\":\"end\",\"status\":0}\n", 32);
    if (way && strcmp(way, "version") == 0)
        write_all("{\"event\":\"helper\",\"version\":\"0.0.9\"}\n", 38);
    for (int i = 0; way && strcmp(way, "long") == 0 && i < 64; i++) {
        static const char bytes[65536];
        write_all(bytes, sizeof bytes);
    }
    if (way && strcmp(way, "stuck") == 0) {
        struct copse_request q;
        const pid_t parent = getppid();
        while (copse__request_read(argc, argv, &q) && q.kind == COPSE_REQUEST_COMPILE &&
               getppid() == parent)
            copse__sleep_ns(10000000);
        way = NULL;
    }
    return way ? 7 : lying_helper(argc, argv, NULL);
}

/* ---- a job ---- */

struct seen {
    atomic_uint begun, counts[COPSE_VERDICT_COUNT], modes, summaries, repeatable;
    copse_conformance_job *_Atomic job; /* its callback waits for it */
    copse_status waited;
    char text[512], op[32];
};

static void take(void *user, const struct copse_conformance_event *e)
{
    struct seen *s = user;
    s->begun += e->kind == COPSE_CONFORM_BEGIN;
    s->modes += e->kind == COPSE_CONFORM_MODE;
    s->summaries += e->kind == COPSE_CONFORM_SUMMARY;
    if (e->kind != COPSE_CONFORM_RESULT)
        return;
    s->counts[e->result->verdict]++;
    if (copse_verdict_fails(e->result->verdict)) {
        snprintf(s->text, sizeof s->text, "%s", e->result->text);
        snprintf(s->op, sizeof s->op, "%s", e->result->op);
        s->repeatable += strstr(e->again, "copse conformance run --device lying:0 --ops ") != NULL;
    }
    if (s->job)
        s->waited = copse_conformance_wait(s->job, 0, NULL);
}

static struct copse_conformance_job_params params_of(struct seen *s, const char *ops)
{
    return (struct copse_conformance_job_params){
        .devices = "lying:0",
        .modes = COPSE_CONFORM_RUN,
        .ops = ops,
        .helper = self,
        .event = take,
        .user = s,
    };
}

/* COPSE_LIE during a job; NULL: honest. */
static void lie(const char *what)
{
    if (what)
        setenv("COPSE_LIE", what, 1);
    else
        unsetenv("COPSE_LIE");
}

static copse_status run(const struct copse_conformance_job_params *p,
                        struct copse_conformance_outcome *out)
{
    copse_conformance_job *job;
    COPSE_TRY(copse_conformance_start(plain, p, &job));
    const copse_status s = copse_conformance_wait(job, -1, out);
    copse_conformance_job_release(&job);
    assert_null(job);
    return s;
}

/* ---- drivers that fail ---- */

static void a_crash_ends_a_case(void **unused)
{
    struct copse_conformance_outcome honest, out;
    struct seen s = { .begun = 0 };
    const struct copse_conformance_job_params p = params_of(&s, "argmax,relu");
    (void)unused;
    OK(run(&p, &honest));
    assert_true(honest.is_trusted && honest.failed == 0 && honest.not_reached == 0);
    lie("crash:argmax");
    OK(run(&p, &out));
    lie(NULL);
    const uint64_t crashes = out.summary.counts[COPSE_VERDICT_CRASH];
    assert_true(crashes > 0 && out.failed == crashes && !out.is_trusted);
    assert_int_equal(out.summary.counts[COPSE_VERDICT_PASS] + crashes,
                     honest.summary.counts[COPSE_VERDICT_PASS]);
    assert_true(s.counts[COPSE_VERDICT_CRASH] == crashes && s.repeatable == crashes);
    assert_string_equal(s.op, "argmax");
    assert_non_null(strstr(s.text, "signal 6"));
    assert_true(s.summaries == 2 && s.modes == 2);
}

static void a_hang_ends_a_case(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "argmax");
    (void)unused;
    p.deadline = 0.2;
    lie("hang:argmax");
    OK(run(&p, &out));
    lie(NULL);
    assert_true(out.summary.counts[COPSE_VERDICT_TIMEOUT] > 0 &&
                out.failed == out.summary.counts[COPSE_VERDICT_TIMEOUT]);
    assert_non_null(strstr(s.text, "no end after 0.2 s"));
}

static void take_line(void *user, copse_log_level level, const char *line)
{
    char *text = user;
    (void)level;
    if (strstr(line, "kernels are compiled one by one"))
        snprintf(text, 512, "%s", line);
}

/* The deadline of a case does not end it, the part of `seconds` does. */
static void a_hang_ends_compiling(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "relu");
    const struct copse_context_params with_log = { .disable = "opencl,vulkan",
                                                   .log = take_line,
                                                   .log_user = s.text };
    copse_conformance_job *job;
    copse_context *ctx;
    (void)unused;
    temp_begin();
    p.cache_folder = temp_folder;
    p.deadline = 3600;
    p.seconds = 3;
    OK(copse_context_create(&with_log, &ctx));
    setenv(WAYS, "stuck", 1);
    OK(copse_conformance_start(ctx, &p, &job));
    OK(copse_conformance_wait(job, -1, &out));
    unsetenv(WAYS);
    copse_conformance_job_release(&job);
    copse_context_release(&ctx);
    assert_non_null(strstr(s.text, "no end after "));
    assert_int_equal(out.failed, 0);
    temp_end();
}

/* The application's context has the device: the kernel is blocked there. */
static void a_crash_blocks_the_kernel(void **unused)
{
    const struct copse_blocked_kernel *list;
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "matmul");
    copse_context *ctx;
    copse_conformance_job *job;
    size_t count;
    (void)unused;
    lie("crash:matmul");
    p.variant = "matmul";
    OK(lying_context_create(NULL, &ctx));
    OK(copse_conformance_start(ctx, &p, &job));
    OK(copse_conformance_wait(job, -1, &out));
    copse_conformance_job_release(&job);
    lie(NULL);
    assert_true(out.summary.counts[COPSE_VERDICT_CRASH] > 0);
    OK(copse_device_blocked(ctx, "lying:0", &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].kernel, "matmul");
    copse_context_release(&ctx);
}

/* ---- cancelling and waiting ---- */

static void cancel_ends_a_hang(void **unused)
{
    struct copse_conformance_outcome out;
    struct copse_conformance_progress progress;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "argmax");
    copse_conformance_job *job;
    char path[256];
    (void)unused;
    temp_begin();
    snprintf(path, sizeof path, "%s/r.csv", temp_folder);
    p.csv = path;
    p.deadline = 3600;
    lie("hang:argmax");
    OK(copse_conformance_start(plain, &p, &job));
    assert_null(copse_conformance_job_results(job));
    while (s.begun == 0)
        copse__sleep_ns(1000000);
    FAILS(COPSE_ERR_TIMEOUT, copse_conformance_wait(job, 0, &out), "goes on");
    copse_conformance_job_progress(job, &progress);
    assert_true(!progress.is_finished && progress.planned > 0 &&
                strstr(progress.running, "lying:0 run argmax: "));
    copse_conformance_cancel(job);
    FAILS(COPSE_ERR_CANCELLED, copse_conformance_wait(job, -1, &out), "cancelled");
    lie(NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    copse_conformance_job_progress(job, &progress);
    assert_true(progress.is_finished && !progress.running[0]);
    assert_non_null(copse_conformance_job_results(job));
    copse_conformance_job_release(&job);
    assert_int_equal(temp_count(), 0); /* no file was written */
    temp_end();
}

static void release_cancels(void **unused)
{
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "argmax");
    copse_conformance_job *job;
    (void)unused;
    p.deadline = 3600;
    lie("hang:argmax");
    OK(copse_conformance_start(plain, &p, &job));
    copse_conformance_job_release(&job);
    lie(NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void a_callback_cannot_wait(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    const struct copse_conformance_job_params p = params_of(&s, "relu");
    copse_conformance_job *job;
    (void)unused;
    OK(copse_conformance_start(plain, &p, &job));
    s.job = job;
    OK(copse_conformance_wait(job, -1, &out));
    copse_conformance_job_release(&job);
    assert_int_equal(s.waited, COPSE_ERR_ARGUMENT);
}

static void two_jobs_at_a_time(void **unused)
{
    struct copse_conformance_outcome out[2];
    struct seen s[2] = { { .begun = 0 } };
    copse_conformance_job *jobs[2];
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const struct copse_conformance_job_params p = params_of(&s[i], i ? "relu" : "argmax");
        OK(copse_conformance_start(plain, &p, &jobs[i]));
    }
    for (int i = 0; i < 2; i++) {
        OK(copse_conformance_wait(jobs[i], -1, &out[i]));
        assert_true(out[i].is_trusted);
        copse_conformance_job_release(&jobs[i]);
    }
}

/* Children of the application are its own: their ends, and whether it hears of them. */
static void other_children_are_left_alone(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    const struct copse_conformance_job_params p = params_of(&s, "relu");
    struct sigaction before, after;
    int status = 0;
    (void)unused;
    sigaction(SIGCHLD, NULL, &before);
    const pid_t child = fork();
    if (child == 0)
        _exit(9);
    OK(run(&p, &out));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    sigaction(SIGCHLD, NULL, &after);
    assert_ptr_equal(before.sa_handler, after.sa_handler);
    /* ... and an application that ignores SIGCHLD */
    signal(SIGCHLD, SIG_IGN);
    lie("crash:argmax");
    const struct copse_conformance_job_params crash = params_of(&s, "argmax");
    OK(run(&crash, &out));
    lie(NULL);
    signal(SIGCHLD, SIG_DFL);
    assert_true(out.summary.counts[COPSE_VERDICT_CRASH] > 0);
}

/* ---- helper programs ---- */

static void refuses(const char *helper, const char *way, copse_status status, const char *text)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "relu");
    p.helper = helper;
    if (way)
        setenv(WAYS, way, 1);
    assert_int_equal(run(&p, &out), status);
    unsetenv(WAYS);
    if (!strstr(copse_last_error(), text) || !strstr(copse_last_error(), helper))
        fail_msg("'%s' is not in: %s", text, copse_last_error());
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void helper_programs_are_checked(void **unused)
{
    (void)unused;
    refuses("/nowhere/helper", NULL, COPSE_ERR_IO, "no program");
    refuses("no-such-program-of-copse", NULL, COPSE_ERR_IO, "in PATH");
    refuses("/bin/true", NULL, COPSE_ERR_INTERNAL, "is no helper program");
    refuses(self, "die", COPSE_ERR_INTERNAL, "is no helper program");
    refuses(self, "garbage", COPSE_ERR_INTERNAL, "is no helper program");
    refuses(self, "long", COPSE_ERR_INTERNAL, "is no helper program");
    refuses(self, "version", COPSE_ERR_INTERNAL, "version 0.0.9");
}

static void a_helper_process_starts_no_job(void **unused)
{
    struct seen s = { .begun = 0 };
    const struct copse_conformance_job_params p = params_of(&s, "relu");
    copse_conformance_job *job;
    (void)unused;
    setenv("COPSE_CONFORMANCE_HELPER", "1", 1);
    FAILS(COPSE_ERR_ARGUMENT, copse_conformance_start(plain, &p, &job), "helper process");
    unsetenv("COPSE_CONFORMANCE_HELPER");
    assert_null(job);
}

/* ---- parameters, results, files ---- */

static void wrong_parameters_are_refused(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    copse_conformance_job *job;
    (void)unused;
#define REFUSED_WITH(status, word, call, ...)                          \
    do {                                                               \
        struct copse_conformance_job_params p = params_of(&s, "relu"); \
        __VA_ARGS__;                                                   \
        FAILS(status, call, word);                                     \
    } while (0)
    REFUSED_WITH(COPSE_ERR_ARGUMENT, "no modes", copse_conformance_start(plain, &p, &job),
                 p.modes = 1u << 20);
    REFUSED_WITH(COPSE_ERR_ARGUMENT, "at least 0", copse_conformance_start(plain, &p, &job),
                 p.seconds = -1);
    REFUSED_WITH(COPSE_ERR_ARGUMENT, "go together", copse_conformance_start(plain, &p, &job),
                 p.own_path = "x");
    REFUSED_WITH(COPSE_ERR_ARGUMENT, "two results", copse_conformance_start(plain, &p, &job),
                 p.csv = p.html = "/tmp/copse-both");
    REFUSED_WITH(COPSE_ERR_IO, "nowhere", copse_conformance_start(plain, &p, &job),
                 p.csv = "/nowhere/r.csv");
    REFUSED_WITH(COPSE_ERR_ARGUMENT, "no such op", run(&p, &out), p.ops = "no such op");
    REFUSED_WITH(COPSE_ERR_NO_DEVICE, "lying:7", run(&p, &out), p.devices = "lying:7");
}

static void files_are_written_and_read(void **unused)
{
    static const char *const names[] = { "r.html", "r.md", "r.xml", "r.csv", "r.json" };
    struct copse_conformance_outcome out;
    struct copse_conformance_summary read;
    struct copse_checked_device device;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "argmax,relu");
    copse_conformance_results *results;
    char paths[5][256];
    (void)unused;
    temp_begin();
    for (int i = 0; i < 5; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", temp_folder, names[i]);
    p.html = paths[0], p.markdown = paths[1], p.junit = paths[2], p.csv = paths[3],
    p.json = paths[4];
    OK(run(&p, &out));
    OK(copse_conformance_results_read(plain, paths[4], &results));
    copse_conformance_results_summary(results, &read);
    assert_memory_equal(read.counts, out.summary.counts, sizeof read.counts);
    assert_true(copse_conformance_device(results, 0, &device));
    assert_string_equal(device.id, "lying:0");
    assert_string_equal(copse_conformance_modes(results), "run");
    const struct copse_case_result *c = copse_conformance_case(results, 0);
    assert_true(c->seed != 0 && c->verdict == COPSE_VERDICT_PASS && copse_case_share(c) <= 1.0);
    assert_null(copse_conformance_case(results, copse_conformance_case_count(results)));
    copse_conformance_results_release(&results);
    assert_int_equal(temp_count(), 5);
    temp_end();
}

static void in_this_process(void **unused)
{
    struct copse_conformance_outcome out;
    struct seen s = { .begun = 0 };
    struct copse_conformance_job_params p = params_of(&s, "relu");
    (void)unused;
    p.helper = "/nowhere";
    p.in_process = &lying_helper_params;
    OK(run(&p, &out));
    assert_true(out.is_trusted && s.begun > 0);
}

int main(int argc, char **argv)
{
    static char path[4096];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_ends_a_case),
        cmocka_unit_test(a_hang_ends_a_case),
        cmocka_unit_test(a_hang_ends_compiling),
        cmocka_unit_test(a_crash_blocks_the_kernel),
        cmocka_unit_test(cancel_ends_a_hang),
        cmocka_unit_test(release_cancels),
        cmocka_unit_test(a_callback_cannot_wait),
        cmocka_unit_test(two_jobs_at_a_time),
        cmocka_unit_test(other_children_are_left_alone),
        cmocka_unit_test(helper_programs_are_checked),
        cmocka_unit_test(a_helper_process_starts_no_job),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(files_are_written_and_read),
        cmocka_unit_test(in_this_process),
    };
    if (argc > 1)
        return help(argc, argv);
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        puts("skipped: no /proc/self/exe");
        return 77;
    }
    self = path;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &plain));
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&plain);
    return failures;
}
