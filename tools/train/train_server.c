/* SPDX-License-Identifier: MIT */
/* `copse train` and `copse worker` with parameter servers: which tasks serve, and which worker
   takes which batch. */
#include <stdio.h>
#include <string.h>

#include "tools/common/events.h"
#include "tools/common/plural.h"
#include "tools/train/train_run.h"

bool run_is_served(const struct run *r)
{
    const int strategy = r->settings.strategy.at->value;
    return strategy == STRATEGY_PARAMETER_SERVER ||
           (strategy == STRATEGY_AUTO && r->cluster && copse_cluster_servers(r->cluster) > 0);
}

bool run_has_servers(const struct run *r)
{
    return r->job && copse_cluster_spec_tasks(r->job, COPSE_ROLE_PS) > 0;
}

bool run_is_server(const struct run *r)
{
    return r->job && copse_cluster_spec_role(r->job) == COPSE_ROLE_PS;
}

bool run_is_apart(const struct run *r)
{
    return r->cluster && run_is_served(r) && !copse_cluster_is_chief(r->cluster);
}

copse_status run_set_servers(struct run *r)
{
    return r->job && r->settings.servers > 0
               ? copse_cluster_spec_set_servers(r->job, r->settings.servers)
               : COPSE_OK;
}

void run_show_access(const struct run *r)
{
    struct copse_one_sided_info how;
    copse_cluster_one_sided(r->cluster, &how);
    printf("servers  %u, reached by %s%s%s\n", copse_cluster_servers(r->cluster),
           how.is_used ? "windows" : "messages (windows: ", how.why, how.is_used ? "" : ")");
}

copse_status run_serve(struct run *r)
{
    struct copse_parameter_server_summary did;
    struct copse_one_sided_info how;
    const char *which = r->settings.devices;
    char ids[COPSE_MAX_REPLICAS][32] = { "host:0" };
    size_t count = 1;
    if (strcmp(which, "auto") != 0)
        COPSE_TRY(copse_select_devices(r->ctx, which, ids, COPSE_MAX_REPLICAS, &count));
    COPSE_TRY(copse_parameter_server_serve(r->ctx, r->cluster, ids[0], &did));
    copse_cluster_one_sided(r->cluster, &how);
    if (r->settings.is_json)
        return event_served(copse_cluster_spec_index(r->job), ids[0], &did, how.pushes);
    printf("parameter server %u on %s: %u variable%s, %llu update%s; all workers are done",
           copse_cluster_spec_index(r->job), ids[0], did.variables, plural_end(did.variables),
           (unsigned long long)did.updates, plural_end(did.updates));
    if (did.lost > 0)
        printf(", %u of them lost", did.lost);
    if (how.pushes > 0)
        printf("; %llu updates by windows", (unsigned long long)how.pushes);
    printf("\n");
    fflush(stdout); /* a launcher may end this process with the others during the shutdown */
    return COPSE_OK;
}

/* ---- batches: workers with parameter servers take turns ---- */

static uint32_t workers_of(const struct run *r)
{
    return r->cluster && run_is_served(r) ? copse_cluster_size(r->cluster) : 1;
}

static uint32_t rank_of(const struct run *r)
{
    return workers_of(r) > 1 ? copse_cluster_rank(r->cluster) : 0;
}

copse_status run_next(struct run *r, struct copse_host_batch *out)
{
    const uint32_t workers = workers_of(r), rank = rank_of(r);
    do
        COPSE_TRY(run_wait_for_batch(r, out));
    while (out->index % workers != rank);
    return COPSE_OK;
}

size_t run_examples(const struct run *r, uint64_t step)
{
    struct copse_dataset_info info;
    copse_dataset_describe(r->train, &info);
    const uint64_t before = (step * workers_of(r) + rank_of(r)) * r->settings.batch;
    const bool is_smaller = before < info.rows && info.rows - before < r->settings.batch;
    return is_smaller ? info.rows - (size_t)before : r->settings.batch;
}

uint64_t run_steps(const struct run *r)
{
    const uint32_t workers = workers_of(r);
    return (uint64_t)(copse_loader_count(r->batches) + workers - 1) / workers * r->settings.epochs;
}

uint64_t run_updates(const struct run *r)
{
    return (uint64_t)copse_loader_count(r->batches) * r->settings.epochs;
}
