/* SPDX-License-Identifier: MIT */
/* Workers of a job as threads of this process, each with a collective strategy over the local
   transport. */
#ifndef COPSE_WORKER_RIG_H
#define COPSE_WORKER_RIG_H

#include "copse/distribute/collective.h"

#include "core/variable/flat_store.h"
#include "tests/rig/found.h"
#include "tests/rig/workers/hub_rig.h"

static copse_context *ctx;

struct worker {
    copse_thread thread;
    struct copse_local_hub *hub;
    const struct copse_transport_table *transport;
    uint32_t rank, size, replicas;
    const char *ids[8];
    copse_status (*run)(struct worker *w, copse_strategy *st);
    const void *job; /* data from the test */
    copse_cluster *cluster;
    float values[256];
    uint32_t seen[8];
    char path[64];
    copse_status status;
    char text[1024];
};

static copse_status run_worker(struct worker *w)
{
    copse_cluster_spec *spec;
    copse_strategy *st = NULL;
    COPSE_TRY(worker_spec(ctx, w->rank, w->size, &spec));
    const struct copse_cluster_params params = { .deadline_ms = 60000 };
    copse_status s =
        copse__cluster_open_with(ctx, spec, &params, w->transport, w->hub, &w->cluster);
    if (!s)
        s = copse_collective_create(ctx, w->cluster, w->ids, w->replicas, NULL, &st);
    if (!s)
        s = w->run(w, st);
    if (s)
        snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    copse_strategy_release(&st);
    copse_cluster_release(&w->cluster);
    copse_cluster_spec_release(&spec);
    return s;
}

static void worker_main(void *p)
{
    struct worker *w = p;
    w->status = run_worker(w);
}

/* The replicas of all workers use the devices found, in turn. */
static void run_workers_over(const struct copse_transport_table *transport, struct worker *w,
                             uint32_t size, uint32_t replicas, const void *job,
                             copse_status (*run)(struct worker *, copse_strategy *))
{
    struct copse_local_hub *hub;
    assert_int_equal(copse__local_hub_create(ctx, &hub), COPSE_OK);
    memset(w, 0, size * sizeof *w);
    for (uint32_t v = 0; v < size; v++) {
        w[v].hub = hub;
        w[v].transport = transport;
        w[v].rank = v;
        w[v].size = size;
        w[v].replicas = replicas;
        w[v].run = run;
        w[v].job = job;
        for (uint32_t r = 0; r < replicas; r++)
            w[v].ids[r] = found[(v * replicas + r) % found_count];
    }
    for (uint32_t v = 0; v < size; v++)
        assert_int_equal(copse__thread_start(&w[v].thread, worker_main, &w[v]), COPSE_OK);
    for (uint32_t v = 0; v < size; v++)
        copse__thread_join(&w[v].thread);
    copse__local_hub_free(&hub);
}

static inline void run_workers(struct worker *w, uint32_t size, uint32_t replicas,
                               copse_status (*run)(struct worker *, copse_strategy *))
{
    run_workers_over(&copse__transport_local, w, size, replicas, NULL, run);
}

static inline void assert_all_ok(struct worker *w, uint32_t size)
{
    for (uint32_t v = 0; v < size; v++)
        if (w[v].status)
            fail_msg("worker %u: %s: %s", v, copse_status_name(w[v].status), w[v].text);
}

/* Use host:0 for everything until devices_back. */
static const char *first_found;
static uint32_t all_found;

static inline void host_alone(void)
{
    first_found = found[0];
    all_found = found_count;
    found[0] = "host:0";
    found_count = 1;
}

static inline void devices_back(void)
{
    found[0] = first_found;
    found_count = all_found;
}

static inline int open_workers(void **state)
{
    (void)state;
    if (copse_context_create(NULL, &ctx))
        return -1;
    find_devices(ctx);
    return 0;
}

static inline int close_workers(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

#endif
