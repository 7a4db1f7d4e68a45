/* SPDX-License-Identifier: MIT */
/* Descriptions of clusters: roles, ranks, and one message for everything that can be wrong. */
#include "tests/rig/rig.h"

#include "copse/copse.h"
#include "copse/distribute/cluster.h"

static copse_context *ctx;
static size_t live_blocks;

static void assert_bad(const char *json, copse_status expected, const char *text)
{
    copse_cluster_spec *spec = (copse_cluster_spec *)&spec;
    FAILS(expected, copse_cluster_spec_parse(ctx, json, &spec), text);
    assert_null(spec);
}

/* ---- roles and ranks ---- */

#define WITH_CHIEF                                                                     \
    "{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\",\"c:1\"],\"ps\":[\"d:1\"]," \
    "\"evaluator\":[\"e:1\"]},"
#define WITHOUT_CHIEF "{\"cluster\":{\"worker\":[\"b:1\",\"c:1\"]},"

static void assert_place(const char *json, uint32_t count, uint32_t rank, bool is_chief)
{
    copse_cluster_spec *spec;
    uint32_t n, r;
    OK(copse_cluster_spec_parse(ctx, json, &spec));
    OK(copse_cluster_spec_workers(spec, &n));
    OK(copse_cluster_spec_rank(spec, &r));
    assert_int_equal(n, count);
    assert_int_equal(r, rank);
    assert_int_equal(copse_cluster_spec_is_chief(spec), is_chief);
    assert_false(copse_cluster_spec_is_launched(spec));
    copse_cluster_spec_release(&spec);
    assert_null(spec);
}

static void clu_1(void **state)
{
    (void)state;
    assert_place(WITH_CHIEF "\"task\":{\"type\":\"chief\",\"index\":0}}", 3, 0, true);
    assert_place(WITH_CHIEF "\"task\":{\"type\":\"worker\",\"index\":0}}", 3, 1, false);
    assert_place(WITH_CHIEF "\"task\":{\"type\":\"worker\",\"index\":1}}", 3, 2, false);
    assert_place(WITH_CHIEF "\"task\":{\"type\":\"evaluator\",\"index\":0}}", 1, 0, true);
    assert_place(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":0}}", 2, 0, true);
    assert_place(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":1}}", 2, 1, false);
    /* the index is 0 where it is missing; what we do not know is left alone */
    assert_place(WITHOUT_CHIEF "\"rpc_layer\":\"grpc\",\"task\":{\"type\":\"worker\"}}", 2, 0,
                 true);

    copse_cluster_spec *spec;
    uint32_t n;
    OK(copse_cluster_spec_parse(ctx, WITH_CHIEF "\"task\":{\"type\":\"ps\"}}", &spec));
    assert_false(copse_cluster_spec_is_chief(spec));
    FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_workers(spec, &n), "parameter server");
    FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_rank(spec, &n), "parameter server");
    assert_int_equal(copse_cluster_spec_role(spec), COPSE_ROLE_PS);
    assert_int_equal(copse_cluster_spec_index(spec), 0);
    assert_int_equal(copse_cluster_spec_tasks(spec, COPSE_ROLE_WORKER), 2);
    assert_string_equal(copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, 1), "c:1");
    assert_null(copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, 2));
    assert_string_equal(copse_role_name(COPSE_ROLE_EVALUATOR), "evaluator");
    copse_cluster_spec_release(&spec);
}

/* ---- everything that can be wrong ---- */

#define TASK "\"task\":{\"type\":\"worker\",\"index\":0}"

static void clu_2(void **state)
{
    (void)state;
    assert_bad("{" TASK "}", COPSE_ERR_ARGUMENT, "has no 'cluster'");
    assert_bad("{\"cluster\":{\"worker\":[\"a:1\"]}}", COPSE_ERR_ARGUMENT, "has no 'task'");
    assert_bad("{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"index\":0}}", COPSE_ERR_ARGUMENT,
               "has no 'type'");
    assert_bad("{\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"chief\"}}",
               COPSE_ERR_ARGUMENT, "2 chiefs");
    assert_bad("{\"cluster\":{\"worker\":[\"c:1\"],\"evaluator\":[\"a:1\",\"b:1\"]}," TASK "}",
               COPSE_ERR_ARGUMENT, "2 evaluators");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":2}}", COPSE_ERR_ARGUMENT,
               "worker 0 to 1");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":-1}}", COPSE_ERR_ARGUMENT,
               "worker 0 to 1");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":0.5}}", COPSE_ERR_FORMAT,
               "whole number");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":1e300}}", COPSE_ERR_ARGUMENT,
               "worker 0 to 1");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":\"0\"}}", COPSE_ERR_FORMAT,
               "whole number");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"gpu\"}}", COPSE_ERR_ARGUMENT,
               "unknown role 'gpu' in 'task.type'");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":1}}", COPSE_ERR_FORMAT, "name of a role");
    assert_bad(WITHOUT_CHIEF "\"task\":{\"type\":\"chief\"}}", COPSE_ERR_ARGUMENT,
               "the cluster has none");
    assert_bad("{\"cluster\":{\"gpu\":[\"a:1\"]}," TASK "}", COPSE_ERR_ARGUMENT,
               "unknown role 'gpu'");
    assert_bad("{\"cluster\":{\"ps\":[\"a:1\"]},\"task\":{\"type\":\"ps\"}}", COPSE_ERR_ARGUMENT,
               "neither a chief nor a worker");
    assert_bad("{\"cluster\":{}," TASK "}", COPSE_ERR_ARGUMENT, "neither a chief nor a worker");
    assert_bad("{\"cluster\":[]," TASK "}", COPSE_ERR_FORMAT, "must be an object of roles");
    assert_bad("{\"cluster\":{\"worker\":\"a:1\"}," TASK "}", COPSE_ERR_FORMAT,
               "list of addresses");
    assert_bad("{\"cluster\":{\"worker\":[7]}," TASK "}", COPSE_ERR_FORMAT, "list of addresses");
    assert_bad("{\"cluster\":{\"worker\":[\"a:1\"],\"worker\":[\"b:1\"]}," TASK "}",
               COPSE_ERR_FORMAT, "twice");
    assert_bad("{\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"a:1\"]}," TASK "}", COPSE_ERR_ARGUMENT,
               "same address a:1");
    assert_bad(WITHOUT_CHIEF "\"task\":[]}", COPSE_ERR_FORMAT, "'task' must be an object");
    assert_bad("[]", COPSE_ERR_FORMAT, "must be an object");
    assert_bad("{\"cluster\":", COPSE_ERR_FORMAT, "not JSON");
    assert_bad(WITHOUT_CHIEF TASK "} x", COPSE_ERR_FORMAT, "not JSON");

    static const char *const addresses[] = {
        "a",   "a:",    ":1",   "a:0",  "a:65536", "a:1 ",
        "a:x", "::1:7", "[]:7", "a:-1", "a b:80",  "a:99999999999999999999"
    };
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"cluster\":{\"worker\":[\"%s\"]}," TASK "}", addresses[i]);
        assert_bad(json, COPSE_ERR_ARGUMENT, "must be host:port");
    }
    copse_cluster_spec *spec;
    OK(copse_cluster_spec_parse(ctx, "{\"cluster\":{\"worker\":[\"[::1]:7\"]}," TASK "}", &spec));
    copse_cluster_spec_release(&spec);
    FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_parse(ctx, NULL, &spec), "NULL");
}

/* ---- the environment ---- */

static void forget(void)
{
    static const char *const names[] = { "COPSE_CONFIG",
                                         "TF_CONFIG",
                                         "PMI_RANK",
                                         "OMPI_COMM_WORLD_RANK",
                                         "PMI_SIZE",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "SLURM_PROCID",
                                         "SLURM_STEP_NUM_TASKS",
                                         "SLURM_NODEID",
                                         "SLURM_STEP_NODELIST",
                                         "SLURM_STEP_TASKS_PER_NODE",
                                         "SLURM_JOB_ID",
                                         "SLURM_STEP_ID",
                                         "COPSE_PORT" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void test_environment(void **state)
{
    copse_cluster_spec *spec;
    uint32_t n, r;
    (void)state;
    forget();
    OK(copse_cluster_spec_find(ctx, &spec));
    assert_null(spec);

    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    OK(copse_cluster_spec_find(ctx, &spec));
    assert_true(copse_cluster_spec_is_launched(spec));
    OK(copse_cluster_spec_workers(spec, &n));
    OK(copse_cluster_spec_rank(spec, &r));
    assert_int_equal(n, 4);
    assert_int_equal(r, 1);
    assert_false(copse_cluster_spec_is_chief(spec));
    assert_null(copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, 0));
    copse_cluster_spec_release(&spec);
    setenv("OMPI_COMM_WORLD_SIZE", "65", 1);
    FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_find(ctx, &spec), "rank 1 of 65");

    setenv("TF_CONFIG", WITHOUT_CHIEF "\"task\":{\"type\":\"worker\",\"index\":1}}", 1);
    OK(copse_cluster_spec_find(ctx, &spec));
    assert_false(copse_cluster_spec_is_launched(spec));
    assert_int_equal(copse_cluster_spec_index(spec), 1);
    copse_cluster_spec_release(&spec);

    setenv("COPSE_CONFIG", "{", 1);
    FAILS(COPSE_ERR_FORMAT, copse_cluster_spec_find(ctx, &spec), "in COPSE_CONFIG");
    forget();
}

/* ---- SLURM ---- */

static void set_step(const char *rank, const char *size, const char *node, const char *hosts,
                     const char *tasks)
{
    forget();
    setenv("SLURM_PROCID", rank, 1);
    setenv("SLURM_STEP_NUM_TASKS", size, 1);
    setenv("SLURM_NODEID", node, 1);
    setenv("SLURM_STEP_NODELIST", hosts, 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1);
    setenv("COPSE_PORT", "9000", 1);
}

static void tasks_of_slurm_have_addresses(void **state)
{
    static const struct {
        const char *rank, *size, *node, *hosts, *tasks, *all;
    } rows[] = {
        { "0", "2", "0", "login", "2", "login:9000 login:9001" },
        { "1", "2", "1", "a,b", "1(x2)", "a:9000 b:9000" },
        { "3", "7", "1", "n[08-10,2]", "2(x3),1",
          "n08:9000 n08:9001 n09:9000 n09:9001 n10:9000 n10:9001 n2:9000" },
        { "0", "4", "0", "gpu[1]x,c-2,r[1-2]", "1(x4)", "gpu1x:9000 c-2:9000 r1:9000 r2:9000" },
        { "0", "6", "0", "r[1-2]n[1-3].lan", "1(x6)",
          "r1n1.lan:9000 r1n2.lan:9000 r1n3.lan:9000 r2n1.lan:9000 r2n2.lan:9000 r2n3.lan:9000" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        copse_cluster_spec *spec;
        char all[512] = "";
        set_step(rows[i].rank, rows[i].size, rows[i].node, rows[i].hosts, rows[i].tasks);
        OK(copse_cluster_spec_find(ctx, &spec));
        assert_non_null(spec);
        assert_int_equal(copse_cluster_spec_index(spec), atoi(rows[i].rank));
        assert_false(copse_cluster_spec_is_launched(spec));
        for (uint32_t k = 0; k < copse_cluster_spec_tasks(spec, COPSE_ROLE_WORKER); k++)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? " " : "",
                     copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, k));
        assert_string_equal(all, rows[i].all);
        copse_cluster_spec_release(&spec);
    }
    forget();
}

/* The last ranks become servers, with their addresses. */
static void servers_of_slurm_keep_their_addresses(void **state)
{
    copse_cluster_spec *spec;
    (void)state;
    set_step("3", "4", "1", "a,b", "2(x2)");
    OK(copse_cluster_spec_find(ctx, &spec));
    OK(copse_cluster_spec_set_servers(spec, 2));
    assert_int_equal(copse_cluster_spec_role(spec), COPSE_ROLE_PS);
    assert_int_equal(copse_cluster_spec_index(spec), 1);
    assert_string_equal(copse_cluster_spec_address(spec, COPSE_ROLE_PS, 0), "b:9000");
    assert_string_equal(copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, 1), "a:9001");
    assert_null(copse_cluster_spec_address(spec, COPSE_ROLE_WORKER, 2));
    copse_cluster_spec_release(&spec);
    forget();
}

static void steps_of_slurm_that_are_wrong(void **state)
{
    static const struct {
        const char *hosts, *tasks, *node, *word;
    } rows[] = {
        { "a,b", "1(x2)", "0", "distribution=block" }, { "a", "1", "1", "has no node" },
        { "a,b", "1(x2", "1", "has no node" },         { "a,b", "0,2", "1", "has no node" },
        { "a[1-2", "1(x2)", "1", "has no node" },      { "a[2-1]", "1(x2)", "1", "has no node" },
        { "a[]", "1(x2)", "1", "has no node" },
    };
    copse_cluster_spec *spec;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_step("1", "2", rows[i].node, rows[i].hosts, rows[i].tasks);
        FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_find(ctx, &spec), rows[i].word);
    }
    static const char *const ports[] = { "0", "abc", "70000", "65472", "-1" };
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        set_step("0", "2", "0", "a", "2");
        setenv("COPSE_PORT", ports[i], 1);
        FAILS(COPSE_ERR_ARGUMENT, copse_cluster_spec_find(ctx, &spec), "COPSE_PORT");
    }
    set_step("0", "1", "0", "a", "1"); /* a task alone */
    OK(copse_cluster_spec_find(ctx, &spec));
    assert_null(spec);
    set_step("0", "2", "0", "a", "2");
    unsetenv("SLURM_STEP_NUM_TASKS"); /* the script of a batch job */
    OK(copse_cluster_spec_find(ctx, &spec));
    assert_null(spec);
    forget();
}

static int setup(void **state)
{
    (void)state;
    struct copse_memory_stats stats;
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    if (copse_context_create(&params, &ctx))
        return -1;
    copse_context_memory(ctx, &stats);
    live_blocks = stats.live_blocks;
    return 0;
}

/* Nothing is left behind, by failures neither. */
static int teardown(void **state)
{
    struct copse_memory_stats stats;
    (void)state;
    copse_context_memory(ctx, &stats);
    const bool leaks = stats.live_blocks != live_blocks;
    copse_context_release(&ctx);
    return leaks;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clu_1),
        cmocka_unit_test(clu_2),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(tasks_of_slurm_have_addresses),
        cmocka_unit_test(servers_of_slurm_keep_their_addresses),
        cmocka_unit_test(steps_of_slurm_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
