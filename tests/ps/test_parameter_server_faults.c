/* SPDX-License-Identifier: MIT */
/* Parameter servers with faults: whatever allocation fails, the failure is returned and nothing is
   left; a server that does not answer, leaves or is lost is named in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "copse/distribute/parameter_server.h"
#include "copse/distribute/partition.h"
#include "core/base/platform.h"
#include "core/comm/local.h"
#include "core/ps/server.h"
#include "tests/rig/train/train_model.h"
#include "tests/rig/value/value_rig.h"

static unsigned allocations, fails_at;

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return ++allocations == fails_at ? NULL : realloc(block, size);
}

/* What a context remembers of a device once it was open is not of interest. */
static size_t live_blocks(copse_context *ctx)
{
    struct copse_memory_stats stats;
    copse_strategy *st;
    OK(copse_one_device_create(ctx, "host:0", NULL, &st));
    copse_strategy_release(&st);
    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

/* ---- memory ---- */

static float x[MODEL_ROWS * MODEL_IN];
static int32_t y[MODEL_ROWS];

static copse_status train(copse_strategy *st)
{
    struct model m = { .dropout = 0.0f };
    copse_partitioned *p = NULL;
    copse_trainer *t = NULL;
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x, y), .count = 32 };
    const struct copse_variable_params params = { .name = "p",
                                                  .shape = COPSE_SHAPE(5),
                                                  .is_frozen = true };
    copse_status s = model_create(&m, st);
    if (!s)
        s = copse_partitioned_create(st, &params, 2, &p);
    if (!s)
        s = copse_trainer_create(
            st, &(struct copse_trainer_params){ .loss = model_loss, .user = &m }, &t);
    for (int i = 0; i < 2 && !s; i++)
        s = copse_trainer_step(t, &batch);
    if (!s)
        s = copse_variable_read(m.variables[5], 0, x + 64 * MODEL_IN);
    copse_trainer_release(&t);
    copse_partitioned_release(&p);
    return s;
}

static void test_every_allocation_may_fail(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    unsigned failures = 0, last = 1;
    (void)state;
    model_data(x, y);
    for (unsigned n = 0; n <= last; n++) {
        struct copse_context_params params = with_kept;
        params.disable = "opencl,vulkan";
        params.resize = resize;
        struct copse_memory_stats stats;
        copse_context *ctx;
        copse_strategy *st;
        fails_at = 0;
        OK(copse_context_create(&params, &ctx));
        const size_t live = live_blocks(ctx);
        allocations = 0;
        fails_at = n;
        copse_status s = copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &st);
        if (!s) {
            s = train(st);
            copse_strategy_release(&st);
        }
        if (n == 0) {
            OK(s);
            last = allocations;
        }
        if (s)
            assert_int_equal(s, COPSE_ERR_NO_MEMORY);
        failures += s != COPSE_OK;
        fails_at = 0;
        copse_context_memory(ctx, &stats);
        if (stats.live_blocks != live)
            fail_msg("allocation %u of %u: %zu blocks are left", n, last, stats.live_blocks - live);
        copse_context_release(&ctx);
    }
    assert_true(failures > 100);
    drop_kept();
}

/* No step allocates once the first is over. */
static void test_steps_allocate_nothing(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    const struct copse_context_params params = { .disable = "opencl,vulkan", .resize = resize };
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x, y), .count = 32 };
    struct model m = { .dropout = 0.0f };
    copse_context *ctx;
    copse_strategy *st;
    copse_trainer *t;
    struct copse_step_result result;
    (void)state;
    fails_at = 0;
    model_data(x, y);
    OK(copse_context_create(&params, &ctx));
    OK(copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &st));
    OK(model_create(&m, st));
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = model_loss, .user = &m },
                            &t));
    for (int i = 0; i < 20; i++) {
        if (i == 10)
            allocations = 0;
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
    }
    assert_int_equal(allocations, 0);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
}

/* ---- servers that do not answer ---- */

enum behaviour { SILENT, GOES, LOST };

struct side {
    copse_context *ctx;
    struct copse_local_hub *hub;
    enum behaviour behaviour;
    copse_status status;
    uint64_t took_ns;
    char text[512];
    copse_thread thread;
    copse_mutex lock;
    copse_cond changed;
    bool is_over;
};

static copse_status open_side(struct side *s, const char *task, copse_cluster **out)
{
    char json[256];
    copse_cluster_spec *spec;
    const struct copse_cluster_params params = { .warn_ms = 50, .deadline_ms = 1000 };
    snprintf(json, sizeof json,
             "{\"cluster\":{\"worker\":[\"w:1\"],\"ps\":[\"s:1\"]},\"task\":{\"type\":\"%s\"}}",
             task);
    COPSE_TRY(copse_cluster_spec_parse(s->ctx, json, &spec));
    const copse_status status =
        copse__cluster_open_with(s->ctx, spec, &params, &copse__transport_local, s->hub, out);
    copse_cluster_spec_release(&spec);
    return status;
}

/* Takes part, and never serves. */
static void server_main(void *p)
{
    struct side *s = p;
    copse_cluster *c = NULL;
    if (open_side(s, "ps", &c))
        return;
    if (s->behaviour == SILENT) {
        copse__mutex_lock(&s->lock);
        while (!s->is_over && copse__cond_wait(&s->changed, &s->lock, UINT64_MAX))
            ;
        copse__mutex_unlock(&s->lock);
    }
    if (s->behaviour == LOST)
        copse__local_hub_kill(s->hub, 1);
    copse_cluster_release(&c);
}

static copse_status ask(struct side *s)
{
    static const char *const ids[] = { "host:0" };
    copse_cluster *c;
    copse_strategy *st;
    copse_variable *v;
    COPSE_TRY(open_side(s, "worker", &c));
    const uint64_t begin = copse__now_ns();
    copse_status status = copse_parameter_server_create(s->ctx, c, ids, 1, NULL, &st);
    if (!status) {
        status = copse_variable_create(
            st, &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(3) }, &v);
        snprintf(s->text, sizeof s->text, "%s", status ? copse_last_error() : "");
        /* and nothing that follows hangs or speaks of anything else */
        if (copse_variable_create(
                st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(3) }, &v) ==
            COPSE_OK)
            status = COPSE_ERR_INTERNAL;
        copse_strategy_release(&st);
    }
    s->took_ns = copse__now_ns() - begin;
    copse__mutex_lock(&s->lock);
    s->is_over = true;
    copse__cond_signal_all(&s->changed);
    copse__mutex_unlock(&s->lock);
    copse_cluster_release(&c);
    return status;
}

static void test_servers_that_do_not_answer(void **state)
{
    static const struct {
        enum behaviour behaviour;
        copse_status status;
        const char *text;
    } cases[] = {
        { SILENT, COPSE_ERR_TIMEOUT, "ps 0 (s:1) did not answer within 1 s" },
        { GOES, COPSE_ERR_COMM, "lost ps 0 (s:1)" },
        { LOST, COPSE_ERR_COMM, "lost ps 0 (s:1)" },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        struct copse_context_params params = with_kept;
        params.disable = "opencl,vulkan";
        struct copse_memory_stats after;
        struct side s = { .behaviour = cases[i].behaviour };
        OK(copse_context_create(&params, &s.ctx));
        const size_t live = live_blocks(s.ctx);
        OK(copse__local_hub_create(s.ctx, &s.hub));
        OK(copse__mutex_init(&s.lock));
        OK(copse__cond_init(&s.changed));
        OK(copse__thread_start(&s.thread, server_main, &s));
        s.status = ask(&s);
        copse__thread_join(&s.thread);
        copse__cond_fini(&s.changed);
        copse__mutex_fini(&s.lock);
        copse__local_hub_free(&s.hub);
        copse_context_memory(s.ctx, &after);
        if (s.status != cases[i].status || !strstr(s.text, cases[i].text))
            fail_msg("case %zu: %s: %s", i, copse_status_name(s.status), s.text);
        assert_true(s.took_ns < 20000000000ull);
        assert_int_equal(after.live_blocks, live);
        copse_context_release(&s.ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_servers_that_do_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
