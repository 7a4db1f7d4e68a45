/* SPDX-License-Identifier: MIT */
/* The parameter server strategy: one authoritative copy of each variable, with a server. */
#include "copse/distribute/parameter_server.h"

#include "core/strategy/create.h"
#include "core/variable/servers.h"

/* The first server adds up the steps of all workers. */
static copse_status parameter_server_count(copse_strategy *st, bool is_set, uint64_t *value)
{
    struct copse_server *first = copse__servers_of(st)->at[0].server;
    if (is_set)
        st->global_step = *value;
    COPSE_TRY(first->table->counter(first, is_set, value));
    st->global_step = *value;
    return COPSE_OK;
}

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_PARAMETER_SERVER,
    .name = "parameter server",
    .has_one_copy = true,
    .count = parameter_server_count,
    .dispose = copse__strategy_dispose,
};

/* ---- making one ---- */

static bool is_accelerator(const struct copse_device_info *d)
{
    return d->kind == COPSE_DEVICE_INTEGRATED || d->kind == COPSE_DEVICE_DISCRETE ||
           d->kind == COPSE_DEVICE_OTHER;
}

/* Exactly one accelerator takes the variables, whatever else there is; else the host does. */
static const char *parameter_device(const copse_strategy *st)
{
    const char *only = NULL;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_device_info *d = &st->replicas[r].dev->info;
        if (!is_accelerator(d) || (only && strcmp(only, d->id) == 0))
            continue;
        if (only)
            return "host:0";
        only = d->id;
    }
    return only ? only : "host:0";
}

static copse_status open_here(copse_strategy *st, struct copse_servers *all, const char *device)
{
    if (!device)
        device = parameter_device(st);
    if (strlen(device) >= sizeof all->device)
        return copse_fail(COPSE_ERR_NO_DEVICE, "strategy: there is no device '%s'", device);
    strcpy(all->device, device);
    all->may_begin = true;
    all->count = 1;
    return copse__server_local(st->ctx, device, &all->at[0].server);
}

static copse_status open_there(copse_strategy *st, struct copse_servers *all, copse_cluster *c)
{
    st->group.job = copse_cluster_retain(c);
    all->may_begin = copse_cluster_is_chief(c);
    const uint32_t workers = copse_cluster_size(c), servers = copse_cluster_servers(c);
    for (uint32_t k = 0; k < servers; k++) {
        COPSE_TRY(copse__server_remote(c, workers + k, &all->at[k].server));
        all->count++;
    }
    return COPSE_OK;
}

static copse_status check_cluster(const copse_cluster *c)
{
    if (!c)
        return COPSE_OK;
    if (copse_cluster_servers(c) == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "strategy: the cluster has no parameter server: name a "
                          "task of the role ps, or train with one process alone");
    if (copse_cluster_rank(c) >= copse_cluster_size(c))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "strategy: this task is a parameter server and has no "
                          "replicas; it serves, see copse_parameter_server_serve");
    return copse__cluster_check(c);
}

copse_status copse_parameter_server_create(copse_context *ctx, copse_cluster *cluster,
                                           const char *const *devices, size_t replicas,
                                           const struct copse_strategy_params *params,
                                           copse_strategy **out)
{
    const char *device = params ? params->parameter_device : NULL;
    copse_strategy *st;
    COPSE_TRY(copse_need("strategy", ctx, devices, out));
    *out = NULL;
    COPSE_TRY(check_cluster(cluster));
    if (cluster && device)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "strategy: the variables are with the cluster's parameter "
                          "servers, not on this worker's %s",
                          device);
    COPSE_TRY(copse__strategy_create(ctx, &table, devices, replicas, params, &st));
    struct copse_servers *servers = copse__alloc(&ctx->base.mem, 1, sizeof *servers);
    copse_status s = copse_need_memory(servers, "strategy");
    if (!s) {
        servers->storage.table = &copse__on_servers;
        st->storage = &servers->storage;
    }
    if (!s)
        s = cluster ? open_there(st, servers, cluster) : open_here(st, servers, device);
    if (s) {
        copse_strategy_release(&st);
        return copse_note(s, "while making the parameter server strategy");
    }
    *out = st;
    return COPSE_OK;
}

/* ---- what it is ---- */

uint32_t copse_parameter_servers(const copse_strategy *st)
{
    const struct copse_servers *all = copse__servers_of(st);
    return all ? all->count : 0;
}

const char *copse_parameter_device(const copse_strategy *st)
{
    const struct copse_servers *all = copse__servers_of(st);
    return all && all->device[0] ? all->device : NULL;
}

uint32_t copse_variable_server(const copse_variable *v)
{
    return v && copse__servers_of(v->strategy) ? v->server : COPSE_NO_SERVER;
}
