/* SPDX-License-Identifier: MIT */
/* Messages and collectives between workers, as threads of this process: order, loss, deadlines,
   regrouping. cluster.sh runs the same over MPI and Gloo between processes. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/data/temp_files.h"
#include "tests/rig/workers/hub_rig.h"

#define MOST 8

static copse_context *ctx;
static char logged[4096];

struct worker {
    copse_thread thread;
    struct copse_local_hub *hub;
    copse_cluster *c;
    uint32_t rank, size, deadline_ms;
    void (*run)(struct worker *w);
    copse_status status;
    char text[1024];
    uint32_t numbers[MOST];
};

static void keep(struct worker *w, copse_status s)
{
    w->status = s;
    snprintf(w->text, sizeof w->text, "%s", s ? copse_last_error() : "");
}

/* The engine, with a note of who left in order. */
static struct copse_transport_table watched;
static bool left_in_order[MOST];

static void note_close(struct copse_transport *t, bool is_orderly)
{
    left_in_order[t->rank] = is_orderly;
    copse__transport_local.close(t, is_orderly);
}

static void worker_main(void *p)
{
    struct worker *w = p;
    copse_cluster_spec *spec;
    keep(w, worker_spec(ctx, w->rank, w->size, &spec));
    if (w->status)
        return;
    const struct copse_cluster_params params = { .deadline_ms = w->deadline_ms, .warn_ms = 50 };
    keep(w, copse__cluster_open_with(ctx, spec, &params, &watched, w->hub, &w->c));
    if (!w->status)
        w->run(w);
    copse_cluster_release(&w->c);
    copse_cluster_spec_release(&spec);
}

/* Runs `run` as `size` workers; `absent` of them never come. */
static void run_workers(struct worker *w, uint32_t size, uint32_t absent, uint32_t deadline_ms,
                        void (*run)(struct worker *))
{
    struct copse_local_hub *hub;
    assert_int_equal(copse__local_hub_create(ctx, &hub), COPSE_OK);
    memset(w, 0, size * sizeof *w);
    for (uint32_t r = 0; r < size; r++) {
        w[r].hub = hub;
        w[r].rank = r;
        w[r].size = size;
        w[r].deadline_ms = deadline_ms;
        w[r].run = run;
    }
    for (uint32_t r = 0; r < size - absent; r++)
        assert_int_equal(copse__thread_start(&w[r].thread, worker_main, &w[r]), COPSE_OK);
    for (uint32_t r = 0; r < size - absent; r++)
        copse__thread_join(&w[r].thread);
    copse__local_hub_free(&hub);
}

static void assert_all(struct worker *w, uint32_t count, copse_status expected, const char *text)
{
    for (uint32_t r = 0; r < count; r++)
        if (w[r].status != expected || !strstr(w[r].text, text))
            fail_msg("worker %u: expected %s with \"%s\", got %s: %s", r,
                     copse_status_name(expected), text, copse_status_name(w[r].status), w[r].text);
}

/* ---- collectives ---- */

static void gather_and_broadcast(struct worker *w)
{
    uint32_t mine = 10 + w->rank, first = mine;
    for (int i = 0; i < 50 && !w->status; i++)
        keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine, "numbers"));
    if (!w->status)
        keep(w, copse__cluster_broadcast(w->c, &first, sizeof first, "the first"));
    if (!w->status && first != 10)
        keep(w, copse_fail(COPSE_ERR_INTERNAL, "broadcast gave %u", first));
    if (!w->status)
        keep(w, copse__cluster_agree(w->c, "model", "a\nb\n"));
}

static void test_collectives(void **state)
{
    struct worker w[MOST];
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        run_workers(w, size, 0, 10000, gather_and_broadcast);
        assert_all(w, size, COPSE_OK, "");
        for (uint32_t r = 0; r < size; r++)
            for (uint32_t i = 0; i < size; i++)
                assert_int_equal(w[r].numbers[i], 10 + i);
    }
}

static void disagree(struct worker *w)
{
    keep(w, copse__cluster_agree(w->c, "the model",
                                 w->rank == 2 ? "w1 f32 [2,3]\nw2 f32 [5]\n"
                                              : "w1 f32 [2,3]\nw2 f32 [4]\n"));
}

static void test_disagreement_names_worker_and_line(void **state)
{
    struct worker w[4];
    (void)state;
    run_workers(w, 4, 0, 10000, disagree);
    assert_all(
        w, 4, COPSE_ERR_ARGUMENT,
        "worker 2 (h2:1) differs in the model: it has 'w2 f32 [5]', the first worker 'w2 f32 "
        "[4]'");
}

/* Collectives in another order are no wrong numbers and no hang. */
static void other_order(struct worker *w)
{
    uint32_t mine = 1;
    const char *const order[] = { "gradients", "losses" };
    for (uint32_t i = 0; i < 2 && !w->status; i++)
        keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine,
                                         order[w->rank == 1 ? 1 - i : i]));
}

static void clu_5(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 0, 60000, other_order);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(w[r].status, COPSE_ERR_ARGUMENT);
        assert_non_null(strstr(w[r].text, "is at another collective: "));
    }
    assert_non_null(strstr(w[0].text, "worker 1 (h1:1) is at another collective: losses"));
    assert_non_null(strstr(w[1].text, "this one at losses"));
}

/* ---- a worker that cannot take part ---- */

static void refuse(struct worker *w)
{
    uint32_t mine = 7;
    copse_status s =
        copse__collective_begin(w->c, "a step", 0, w->rank == 1 ? COPSE_ERR_CANCELLED : COPSE_OK);
    if (!s)
        s = copse__collective_barrier(w->c, NULL, NULL);
    keep(w, s);
    if (s == COPSE_ERR_CANCELLED) /* the cluster goes on */
        w->numbers[0] =
            copse__cluster_allgather(w->c, &mine, w->numbers + 1, sizeof mine, "n") == 0;
}

static void test_a_verdict_reaches_all(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 0, 10000, refuse);
    assert_all(w, 3, COPSE_ERR_CANCELLED, "");
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(w[r].numbers[0], 1);
    assert_non_null(strstr(w[0].text, "worker 1 (h1:1) could not take part"));
}

/* ---- loss ---- */

static void lose_one(struct worker *w)
{
    uint32_t mine = 10 + w->rank;
    keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine, "before"));
    if (w->rank == 1) {
        copse__local_hub_kill(w->hub, 1);
        return;
    }
    keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine, "after"));
    w->numbers[4] = copse_cluster_is_lost(w->c, 1) && !copse_cluster_is_lost(w->c, 2);
    uint32_t nothing;
    w->numbers[5] = copse__cluster_broadcast(w->c, &nothing, 4, "later") == COPSE_ERR_COMM;
    if (copse_cluster_regroup(w->c) == COPSE_OK) {
        w->numbers[6] = copse_cluster_size(w->c);
        w->numbers[7] = copse__cluster_allgather(w->c, &mine, w->numbers, 4, "again") == COPSE_OK;
    }
}

static void test_survivors_name_the_lost_and_regroup(void **state)
{
    struct worker w[4];
    (void)state;
    run_workers(w, 4, 0, 20000, lose_one);
    for (uint32_t r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        assert_int_equal(w[r].status, COPSE_ERR_COMM);
        if (!strstr(w[r].text, "lost worker 1 (h1:1) (after)"))
            fail_msg("worker %u: %s", r, w[r].text);
        const uint32_t expected[] = { 10, 12, 13, 0, 1, 1, 3, 1 };
        for (uint32_t i = 0; i < 8; i++)
            if (i != 3)
                assert_int_equal(w[r].numbers[i], expected[i]);
    }
}

static void be_silent(struct worker *w)
{
    uint32_t mine = 1;
    if (w->rank != 2)
        keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine, "sizes"));
    else
        copse__sleep_ns(1500000000ull);
}

static void test_deadline_names_who_is_missing(void **state)
{
    struct worker w[3];
    (void)state;
    logged[0] = '\0';
    run_workers(w, 3, 0, 500, be_silent);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(w[r].status == COPSE_ERR_TIMEOUT || w[r].status == COPSE_ERR_COMM);
        assert_non_null(strstr(w[r].text, "worker 2 (h2:1)"));
    }
    assert_non_null(strstr(logged, "waiting since 0.05 s for worker 2 (h2:1) (sizes)"));
}

static void test_who_never_comes_is_named(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 1, 300, gather_and_broadcast);
    assert_all(w, 2, COPSE_ERR_TIMEOUT, "worker 2 (h2:1) did not come within 0.3 s");
}

static void leave_early(struct worker *w)
{
    uint32_t mine = 1;
    if (w->rank != 0)
        keep(w, copse__cluster_allgather(w->c, &mine, w->numbers, sizeof mine, "sizes"));
}

static void test_who_leaves_early_is_named(void **state)
{
    struct worker w[2];
    (void)state;
    run_workers(w, 2, 0, 10000, leave_early);
    assert_int_equal(w[1].status, COPSE_ERR_COMM);
    assert_non_null(strstr(w[1].text, "worker 0 (h0:1) left before the end"));
}

/* Worker 0 hears that worker 1 leaves before it leaves itself; worker 1 still waits to hear the
   same of it. */
static void leave_behind_another(struct worker *w)
{
    keep(w, COPSE_OK);
    const uint64_t end = copse__now_ns() + 10000000000ull;
    while (w->rank == 0 && !w->c->notified && copse__now_ns() < end) {
        copse__notices_poll(w->c);
        copse__sleep_ns(1000000);
    }
}

static void test_who_leaves_first_hears_of_the_others(void **state)
{
    struct worker w[2];
    (void)state;
    memset(left_in_order, 0, sizeof left_in_order);
    run_workers(w, 2, 0, 10000, leave_behind_another);
    assert_all(w, 2, COPSE_OK, "");
    assert_true(left_in_order[0]);
    assert_true(left_in_order[1]);
}

/* ---- engines that are not there ---- */

static void test_missing_engines_name_the_package(void **state)
{
    copse_cluster_spec *spec;
    copse_cluster *c;
    (void)state;
    assert_int_equal(
        copse_cluster_spec_parse(ctx,
                                 "{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":"
                                 "\"worker\"}}",
                                 &spec),
        COPSE_OK);
    struct copse_cluster_params p = { .modules = "/nowhere" };
    assert_int_equal(copse_cluster_open(ctx, spec, &p, &c), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(),
                           "/nowhere/copse_gloo.so: build the library with the Debian package "
                           "libgloo-dev"));
    p.engine = COPSE_ENGINE_MPI;
    assert_int_equal(copse_cluster_open(ctx, spec, &p, &c), COPSE_ERR_UNSUPPORTED);
    assert_non_null(strstr(copse_last_error(), "libopenmpi-dev"));
    p.modules = "nowhere";
    assert_int_equal(copse_cluster_open(ctx, spec, &p, &c), COPSE_ERR_ARGUMENT);
    p.engine = (copse_engine)9;
    assert_int_equal(copse_cluster_open(ctx, spec, &p, &c), COPSE_ERR_ARGUMENT);
    copse_cluster_spec_release(&spec);

    /* one worker needs no engine */
    assert_int_equal(
        copse_cluster_spec_parse(
            ctx, "{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\"}}", &spec),
        COPSE_OK);
    p.engine = COPSE_ENGINE_AUTO;
    assert_int_equal(copse_cluster_open(ctx, spec, &p, &c), COPSE_OK);
    uint32_t mine = 3, all = 0;
    assert_int_equal(copse__cluster_allgather(c, &mine, &all, 4, "n"), COPSE_OK);
    assert_int_equal(all, 3);
    assert_true(copse_cluster_is_chief(c));
    copse_cluster_release(&c);
    copse_cluster_spec_release(&spec);
}

/* ---- engines that others can change ---- */

static copse_status load_from(const char *folder)
{
    const struct copse_transport_table *table;
    return copse__module_load(ctx, folder, "none", "none", &table);
}

/* Not loaded, and not for want of trust: the file is no library. */
#define TRUSTED(folder)          FAILS(COPSE_ERR_UNSUPPORTED, load_from(folder), "cannot be loaded")
#define DISTRUSTED(folder, word) FAILS(COPSE_ERR_ARGUMENT, load_from(folder), word)

static void test_engines_that_others_can_change(void **state)
{
    char above[300], folder[320], file[360], link[360];
    (void)state;
    temp_begin();
    snprintf(above, sizeof above, "%s/above", temp_folder);
    snprintf(folder, sizeof folder, "%s/engines", above);
    snprintf(file, sizeof file, "%s/copse_none.so", folder);
    snprintf(link, sizeof link, "%s/link", temp_folder);
    assert_int_equal(mkdir(above, 0755), 0);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(chmod(above, 0755) || chmod(folder, 0755), 0);
    fclose(fopen(file, "wb"));
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(symlink(folder, link), 0);
    TRUSTED(folder);
    TRUSTED(link);
    assert_int_equal(chmod(file, 0646), 0);
    DISTRUSTED(folder, "copse_none.so can be written by other users (chown, chmod go-w)");
    DISTRUSTED(link, "copse_none.so can be written by other users");
    assert_int_equal(chmod(file, 0644) || chmod(folder, 0757), 0);
    DISTRUSTED(folder, "/above/engines can be written by other users");
    assert_int_equal(chmod(folder, 0755) || chmod(above, 0757), 0);
    DISTRUSTED(folder, "/above can be written by other users");
    assert_int_equal(chmod(above, 01757), 0); /* as /tmp */
    TRUSTED(folder);
    setenv("COPSE_MODULES", folder, 1);
    assert_int_equal(chmod(file, 0646), 0);
    DISTRUSTED(NULL, "can be written by other users");
    unsetenv("COPSE_MODULES");
    assert_int_equal(chmod(file, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(file, 65534, 0), 0);
        DISTRUSTED(folder, "copse_none.so belongs to another user");
        assert_int_equal(chown(file, 0, 0) || chown(folder, 65534, 0), 0);
        DISTRUSTED(folder, "/engines belongs to another user");
        assert_int_equal(chown(folder, 0, 0) || chown(file, 0, 65534) || chmod(file, 0664), 0);
        DISTRUSTED(folder, "can be written by other users");
        assert_int_equal(chown(file, 0, 0), 0);
        TRUSTED(folder);
    } else {
        printf("skipped: files of other users need root\n");
    }
    temp_end();
}

static void take_line(void *user, copse_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (strlen(logged) + strlen(line) + 2 < sizeof logged)
        strcat(strcat(logged, line), "\n");
}

static int setup(void **state)
{
    (void)state;
    const struct copse_context_params params = { .disable = "opencl,vulkan", .log = take_line };
    watched = copse__transport_local;
    watched.close = note_close;
    return copse_context_create(&params, &ctx);
}

static int teardown(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

static size_t live_blocks(void)
{
    struct copse_memory_stats stats;
    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

static size_t before;
static int note_blocks(void **state)
{
    (void)state;
    before = live_blocks();
    return 0;
}
static int check_blocks(void **state)
{
    (void)state;
    if (live_blocks() != before)
        print_error("%zu blocks before, %zu after\n", before, live_blocks());
    return live_blocks() != before;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, note_blocks, check_blocks)
    const struct CMUnitTest tests[] = {
        TEST(test_collectives),
        TEST(test_disagreement_names_worker_and_line),
        TEST(clu_5),
        TEST(test_a_verdict_reaches_all),
        TEST(test_survivors_name_the_lost_and_regroup),
        TEST(test_deadline_names_who_is_missing),
        TEST(test_who_never_comes_is_named),
        TEST(test_who_leaves_early_is_named),
        TEST(test_who_leaves_first_hears_of_the_others),
        TEST(test_missing_engines_name_the_package),
        TEST(test_engines_that_others_can_change),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
