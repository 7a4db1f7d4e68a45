/* SPDX-License-Identifier: MIT */
/* Monitors of several workers, as threads of this process: a job that is cut and resumed ends with
   the bytes of one that was not, the first worker alone has files and clock, and survivors stop or
   go on. cluster_kills_train.sh does it with processes over MPI and Gloo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/compat/single_loss.h"

#include "core/base/platform.h"
#include "core/comm/local.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/train/train_job.h"

#define MOST       4
#define EPOCHS     3 /* 21 steps */
#define FILE_BYTES (1 << 18)

static copse_context *ctx;

/* What is asked of every worker of a job. */
struct plan {
    uint32_t size;
    uint64_t steps; /* 0: until the data ends */
    struct copse_monitor_params params;
    bool is_shared;           /* all see the folder; else the first alone */
    bool differs;             /* the others want a checkpoint every 1e8 s */
    uint32_t victim, dies_at; /* after so many steps; 0: nobody */
};

struct worker {
    copse_thread thread;
    const struct plan *plan;
    struct copse_local_hub *hub;
    uint32_t rank;
    struct job job;
    uint64_t done, steps;
    uint32_t workers, replicas; /* at the end */
    struct copse_monitor_info info;
    copse_status status;
    char text[1024];
};

static copse_status train(struct worker *w, copse_monitor *m)
{
    const struct plan *p = w->plan;
    if (p->dies_at && w->rank == p->victim) {
        COPSE_TRY(copse_monitor_run(m, p->dies_at, NULL));
        copse__local_hub_kill(w->hub, w->rank);
        return COPSE_OK;
    }
    return copse_monitor_run(m, p->steps ? p->steps : COPSE_ALL, &w->done);
}

static copse_status work(struct worker *w)
{
    char elsewhere[64];
    copse_step *step;
    copse_monitor *m;
    struct copse_monitor_params params = w->plan->params;
    snprintf(elsewhere, sizeof elsewhere, "/nowhere/worker-%u", w->rank);
    if (!w->plan->is_shared && w->rank > 0)
        params.folder = elsewhere;
    if (w->plan->differs && w->rank > 0)
        params.every_seconds = 1e8;
    COPSE_TRY(job_step(&w->job, &step));
    copse_status s = copse_monitor_create(step, &params, &m);
    if (s == COPSE_OK)
        s = train(w, m);
    if (s != COPSE_OK)
        snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    if (m) {
        copse_monitor_describe(m, &w->info);
        copse_trainer *t = copse_step_trainer(step);
        w->steps = t ? copse_trainer_steps(t) : 0;
        w->replicas = t ? copse_strategy_replicas_in_sync(copse_trainer_strategy(t)) : 0;
    }
    w->info.newest = w->info.resumed_from = NULL; /* the monitor's */
    copse_monitor_release(&m);
    copse_step_release(&step);
    return s;
}

static copse_status open_and_work(struct worker *w)
{
    char json[256];
    copse_cluster_spec *spec;
    int used = snprintf(json, sizeof json, "{\"cluster\":{\"worker\":[");
    for (uint32_t r = 0; r < w->plan->size; r++)
        used += snprintf(json + used, sizeof json - (size_t)used, "%s\"h%u:1\"", r ? "," : "", r);
    snprintf(json + used, sizeof json - (size_t)used,
             "]},\"task\":{\"type\":\"worker\",\"index\":%u}}", w->rank);
    COPSE_TRY(copse_cluster_spec_parse(ctx, json, &spec));
    const struct copse_cluster_params params = { .deadline_ms = 60000 };
    w->job = (struct job){ .ctx = ctx, .epochs = EPOCHS, .seed = 9 };
    copse_status s = copse__cluster_open_with(ctx, spec, &params, &copse__transport_local, w->hub,
                                              &w->job.cluster);
    if (s == COPSE_OK)
        s = work(w);
    if (s != COPSE_OK && !w->text[0])
        snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    w->workers = w->job.cluster ? copse_cluster_size(w->job.cluster) : 0;
    copse_cluster_release(&w->job.cluster);
    copse_cluster_spec_release(&spec);
    return s;
}

static void worker_main(void *p)
{
    struct worker *w = p;
    w->status = open_and_work(w);
}

static void run(struct worker *w, const struct plan *plan)
{
    struct copse_local_hub *hub;
    assert_int_equal(copse__local_hub_create(ctx, &hub), COPSE_OK);
    memset(w, 0, MOST * sizeof *w);
    for (uint32_t v = 0; v < plan->size; v++) {
        w[v].plan = plan;
        w[v].hub = hub;
        w[v].rank = v;
        assert_int_equal(copse__thread_start(&w[v].thread, worker_main, &w[v]), COPSE_OK);
    }
    for (uint32_t v = 0; v < plan->size; v++)
        copse__thread_join(&w[v].thread);
    copse__local_hub_free(&hub);
}

static void run_well(struct worker *w, const struct plan *plan)
{
    run(w, plan);
    for (uint32_t v = 0; v < plan->size; v++)
        if (w[v].status)
            fail_msg("worker %u: %s: %s", v, copse_status_name(w[v].status), w[v].text);
}

static void expect(const struct worker *w, copse_status status, const char *text)
{
    if (w->status != status || !strstr(w->text, text))
        fail_msg("worker %u: %s: %s", w->rank, copse_status_name(w->status), w->text);
}

/* ---- files ---- */

static size_t slurp(const char *path, void *to)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    const size_t n = fread(to, 1, FILE_BYTES, f);
    fclose(f);
    return n;
}

static const char *checkpoint_of(const char *folder, uint64_t step)
{
    char name[80];
    snprintf(name, sizeof name, "%s/step-%012llu.safetensors", folder, (unsigned long long)step);
    return temp_path(name);
}

static void assert_same_files(const char *a, const char *b)
{
    static unsigned char x[FILE_BYTES], y[FILE_BYTES];
    const size_t n = slurp(a, x);
    assert_true(n > 1000 && n < FILE_BYTES);
    assert_int_equal(slurp(b, y), n);
    assert_memory_equal(x, y, n);
}

static void copy_checkpoint(const char *from, const char *to, uint64_t step)
{
    static unsigned char bytes[FILE_BYTES];
    const size_t n = slurp(checkpoint_of(from, step), bytes);
    FILE *f = fopen(checkpoint_of(to, step), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

#define STEPS (EPOCHS * JOB_BATCHES)

static struct plan plan_of(uint32_t size, const char *folder)
{
    return (struct plan){
        .size = size, .params = { .folder = temp_path(folder), .every_steps = 4, .keep = 100 }
    };
}

/* ---- tests ---- */

static void a_resumed_job_ends_with_the_same_bytes(void **state)
{
    struct worker w[MOST];
    (void)state;
    struct plan one = plan_of(1, "one"), whole = plan_of(4, "whole"), cut = plan_of(4, "cut");
    run_well(w, &whole);
    for (uint32_t v = 0; v < 4; v++) {
        assert_int_equal(w[v].steps, STEPS);
        assert_int_equal(w[v].info.saved, 7); /* 0, 4, ..., 20, 21 */
    }
    cut.steps = 10;
    run_well(w, &cut);
    cut.steps = 0;
    run_well(w, &cut);
    for (uint32_t v = 0; v < 4; v++)
        assert_int_equal(w[v].done, STEPS - 8);
    assert_same_files(checkpoint_of("cut", STEPS), checkpoint_of("whole", STEPS));

    /* and with those of one process with as many replicas */
    copse_step *step;
    copse_monitor *m;
    struct job j = { .ctx = ctx,
                     .epochs = EPOCHS,
                     .seed = 9,
                     .device_count = 4,
                     .devices = { "host:0", "host:0", "host:0", "host:0" } };
    assert_int_equal(job_step(&j, &step), COPSE_OK);
    assert_int_equal(copse_monitor_create(step, &one.params, &m), COPSE_OK);
    assert_int_equal(copse_monitor_run(m, COPSE_ALL, NULL), COPSE_OK);
    copse_monitor_release(&m);
    copse_step_release(&step);
    assert_same_files(checkpoint_of("one", STEPS), checkpoint_of("whole", STEPS));
    assert_same_files(checkpoint_of("one", 8), checkpoint_of("whole", 8));

    /* fewer workers go on from it, too */
    struct plan fewer = plan_of(3, "cut");
    remove(checkpoint_of("cut", STEPS));
    run_well(w, &fewer);
    assert_int_equal(w[2].done, 1);
}

static void a_damaged_checkpoint_is_passed_over_by_all(void **state)
{
    struct worker w[MOST];
    struct plan p = plan_of(3, "run");
    (void)state;
    p.steps = 9;
    run_well(w, &p);
    FILE *f = fopen(checkpoint_of("run", 8), "r+b");
    assert_non_null(f);
    fseek(f, -5, SEEK_END);
    fputc('x', f);
    fclose(f);
    p.steps = 1;
    run_well(w, &p);
    for (uint32_t v = 0; v < 3; v++) {
        assert_int_equal(w[v].info.skipped, 1);
        assert_int_equal(w[v].steps, 5); /* 4 is whole */
    }
}

static void what_the_first_refuses_all_refuse(void **state)
{
    struct worker w[MOST];
    struct plan p = plan_of(3, "run");
    (void)state;
    p.steps = 1;
    run_well(w, &p);
    p.params.is_new = true;
    run(w, &p);
    for (uint32_t v = 0; v < 3; v++)
        expect(&w[v], COPSE_ERR_ARGUMENT, "there is a checkpoint already");
    p.params.is_new = false;
    p.params.folder = temp_text("file", "no folder");
    run(w, &p);
    expect(&w[0], COPSE_ERR_IO, "file");
    expect(&w[1], COPSE_ERR_IO, "file");
    p.params = (struct copse_monitor_params){ .on_loss = COPSE_LOSS_CONTINUES };
    p.is_shared = true;
    run(w, &p);
    expect(&w[2], COPSE_ERR_ARGUMENT, "to go on without lost workers it needs a place");
}

/* Whatever their clocks say, all save after the same steps. */
static void the_clock_of_the_first_counts(void **state)
{
    struct worker w[MOST];
    struct plan p = plan_of(3, "run");
    (void)state;
    p.params.every_steps = 0;
    p.params.every_seconds = 1e-9;
    p.differs = true;
    run_well(w, &p);
    for (uint32_t v = 0; v < 3; v++)
        assert_int_equal(w[v].info.saved, 1 + STEPS);
    p = plan_of(3, "again");
    p.params.every_steps = 0;
    p.params.every_seconds = 1e8;
    run_well(w, &p);
    for (uint32_t v = 0; v < 3; v++)
        assert_int_equal(w[v].info.saved, 2); /* the first and the last */
}

static void survivors_stop_and_name_the_lost(void **state)
{
    struct worker w[MOST];
    struct plan p = plan_of(3, "run"), whole = plan_of(3, "whole");
    (void)state;
    run_well(w, &whole);
    p.victim = 1;
    p.dies_at = 6;
    run(w, &p);
    for (uint32_t v = 0; v < 3; v += 2)
        expect(&w[v], COPSE_ERR_COMM, "lost worker 1 (h1:1)");
    p.dies_at = 0;
    run_well(w, &p);
    assert_int_equal(w[0].done, STEPS - 4);
    assert_same_files(checkpoint_of("run", STEPS), checkpoint_of("whole", STEPS));
}

/* The victim is the first, or not; the others come to what as many workers come to that begin with
   the checkpoint. */
static void survivors_go_on(void **state)
{
    struct worker w[MOST];
    (void)state;
    for (uint32_t victim = 0; victim < 2; victim++) {
        struct plan p = plan_of(4, victim ? "run1" : "run0");
        struct plan like = plan_of(3, victim ? "like1" : "like0");
        p.is_shared = true;
        p.params.on_loss = COPSE_LOSS_CONTINUES;
        p.victim = victim;
        p.dies_at = 6;
        run(w, &p);
        for (uint32_t v = 0; v < 4; v++) {
            if (v == victim)
                continue;
            if (w[v].status)
                fail_msg("worker %u: %s", v, w[v].text);
            assert_int_equal(w[v].workers, 3);
            assert_int_equal(w[v].replicas, 3);
            assert_int_equal(w[v].steps, STEPS);
            assert_int_equal(w[v].done, STEPS);
            assert_int_equal(w[v].info.recoveries, 1);
        }
        assert_int_equal(mkdir(temp_path(victim ? "like1" : "like0"), 0777), 0);
        copy_checkpoint(victim ? "run1" : "run0", victim ? "like1" : "like0", 4);
        run_well(w, &like);
        assert_same_files(checkpoint_of(victim ? "run1" : "run0", STEPS),
                          checkpoint_of(victim ? "like1" : "like0", STEPS));
    }
}

static void half_goes_on_with_the_first_only(void **state)
{
    struct worker w[MOST];
    struct plan p = plan_of(2, "run");
    (void)state;
    p.is_shared = true;
    p.params.on_loss = COPSE_LOSS_CONTINUES;
    p.victim = 1;
    p.dies_at = 6;
    run(w, &p);
    assert_int_equal(w[0].status, COPSE_OK);
    assert_int_equal(w[0].workers, 1);
    assert_int_equal(w[0].steps, STEPS);
    p = plan_of(2, "other");
    p.is_shared = true;
    p.params.on_loss = COPSE_LOSS_CONTINUES;
    p.dies_at = 6;
    run(w, &p);
    expect(&w[1], COPSE_ERR_COMM, "only 1 of 2 workers are left here");
    struct plan unseen = plan_of(3, "unseen"); /* the next one sees no checkpoints */
    unseen.params.on_loss = COPSE_LOSS_CONTINUES;
    unseen.dies_at = 6;
    run(w, &unseen);
    expect(&w[1], COPSE_ERR_IO, "/nowhere/worker-1");
    expect(&w[2], COPSE_ERR_IO, "/nowhere/worker-1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_resumed_job_ends_with_the_same_bytes),
        TEST(a_damaged_checkpoint_is_passed_over_by_all),
        TEST(what_the_first_refuses_all_refuse),
        TEST(the_clock_of_the_first_counts),
        TEST(survivors_stop_and_name_the_lost),
        TEST(survivors_go_on),
        TEST(half_goes_on_with_the_first_only),
    };
    if (copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx))
        return 1;
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    return result;
}
