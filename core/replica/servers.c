/* SPDX-License-Identifier: MIT */
/* The parameter server strategy: one authoritative copy of each variable, with a server. */
#include <stdio.h>

#include "copse/parameter_server.h"
#include "core/replica/servers.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "strategy: no memory");
}

static struct copse_server_shelf *shelf_of(const copse_variable *v)
{
    return &v->strategy->servers->at[v->server];
}

/* ---- the strategy ---- */

void copse__servers_free(copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_servers *all = st->servers;
    for (uint32_t k = 0; all && k < all->count; k++) {
        struct copse_server_shelf *s = &all->at[k];
        copse__server_release(&s->server);
        for (size_t i = 0; i < s->pulled.count; i++)
            copse__free(mem, s->pulled.at[i]);
        copse__free(mem, s->variables.at);
        copse__free(mem, s->ids.at);
        copse__free(mem, s->seen.at);
        copse__free(mem, s->written.at);
        copse__free(mem, s->pulled.at);
    }
    copse__free(mem, all);
    st->servers = NULL;
}

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

static copse_status open_here(copse_strategy *st, const char *device)
{
    struct copse_servers *all = st->servers;
    if (!device)
        device = parameter_device(st);
    if (strlen(device) >= sizeof all->device)
        return copse_fail(COPSE_ERR_NO_DEVICE, "strategy: there is no device '%s'", device);
    strcpy(all->device, device);
    all->may_begin = true;
    all->count = 1;
    return copse__server_here(st->ctx, device, &all->at[0].server);
}

static copse_status open_there(copse_strategy *st, copse_cluster *c)
{
    struct copse_servers *all = st->servers;
    st->cluster = copse_cluster_retain(c);
    all->may_begin = copse_cluster_is_chief(c);
    const uint32_t workers = copse_cluster_size(c), servers = copse_cluster_servers(c);
    for (uint32_t k = 0; k < servers; k++) {
        COPSE_TRY(copse__server_there(c, workers + k, &all->at[k].server));
        all->count++;
    }
    return COPSE_OK;
}

static copse_status check_cluster(const copse_cluster *c)
{
    if (!c)
        return COPSE_OK;
    if (copse_cluster_servers(c) == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the cluster has no parameter server: name a "
                                              "task of the role ps, or train with one process alone");
    if (copse_cluster_rank(c) >= copse_cluster_size(c))
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: this task is a parameter server and has no "
                                              "replicas; it serves, see copse_parameter_server_serve");
    return copse__cluster_check(c);
}

copse_status copse_parameter_server_create(copse_context *ctx, copse_cluster *cluster,
                                           const char *const *devices, size_t count,
                                           const struct copse_strategy_params *params,
                                           copse_strategy **out)
{
    const char *device = params ? params->parameter_device : NULL;
    copse_strategy *st;
    COPSE_TRY(copse_need("strategy", ctx, devices, out));
    *out = NULL;
    COPSE_TRY(check_cluster(cluster));
    if (cluster && device)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the variables are with the cluster's parameter "
                                              "servers, not on this worker's %s", device);
    COPSE_TRY(copse_mirrored_create(ctx, devices, count, params, &st));
    st->kind = COPSE_STRATEGY_PARAMETER_SERVER;
    st->servers = copse__alloc(&ctx->base.mem, 1, sizeof *st->servers);
    copse_status s = st->servers ? COPSE_OK : no_memory();
    if (!s)
        s = cluster ? open_there(st, cluster) : open_here(st, device);
    if (s) {
        copse_strategy_release(&st);
        return copse_note(s, "while making the parameter server strategy");
    }
    *out = st;
    return COPSE_OK;
}

uint32_t copse_parameter_servers(const copse_strategy *st)
{
    return st && st->servers ? st->servers->count : 0;
}

const char *copse_parameter_device(const copse_strategy *st)
{
    return st && st->servers && st->servers->device[0] ? st->servers->device : NULL;
}

uint32_t copse_variable_server(const copse_variable *v)
{
    return v && v->strategy->servers ? v->server : COPSE_NO_SERVER;
}

/* ---- variables ---- */

static copse_status add(struct copse_mem *mem, struct copse_server_shelf *s, copse_variable *v,
                        uint32_t id)
{
    void *pulled = copse__alloc(mem, (size_t)v->count, 4);
    if (!pulled || !COPSE_RESERVE(mem, &s->variables, s->ids.count + 1) ||
        !COPSE_RESERVE(mem, &s->ids, s->ids.count + 1) ||
        !COPSE_RESERVE(mem, &s->seen, s->ids.count + 1) ||
        !COPSE_RESERVE(mem, &s->written, s->ids.count + 1) ||
        !COPSE_RESERVE(mem, &s->pulled, s->ids.count + 1)) {
        copse__free(mem, pulled);
        return no_memory();
    }
    s->variables.at[s->variables.count++] = v;
    s->ids.at[s->ids.count++] = id;
    s->seen.at[s->seen.count++] = 0;
    s->written.at[s->written.count++] = 0;
    s->pulled.at[s->pulled.count++] = pulled;
    return COPSE_OK;
}

copse_status copse__servers_make(copse_variable *v, const copse_variable *beside, const void *values)
{
    struct copse_servers *all = v->strategy->servers;
    const struct copse_server_variable as = {
        .name = v->name,
        .type = v->tensor.type,
        .shape = v->tensor.shape,
        .values = values,
        .may_begin = all->may_begin,
    };
    uint32_t id;
    v->server = beside ? beside->server : all->placed % all->count;
    struct copse_server_shelf *s = shelf_of(v);
    COPSE_TRY(s->server->table->make(s->server, &as, &id));
    COPSE_TRY(add(&v->strategy->ctx->base.mem, s, v, id));
    v->shelf_place = (uint32_t)s->ids.count - 1;
    all->placed += !beside;
    return COPSE_OK;
}

void copse__servers_forget(copse_variable *v)
{
    shelf_of(v)->written.at[v->shelf_place] = 0;
}

copse_status copse__servers_read(copse_variable *v, void *values)
{
    struct copse_server_shelf *s = shelf_of(v);
    return copse_note(s->server->table->read(s->server, s->ids.at[v->shelf_place], values),
                      "while reading variable '%s'", v->name);
}

copse_status copse__servers_change(copse_variable *v, enum copse_change how, const void *values)
{
    struct copse_server_shelf *s = shelf_of(v);
    return copse_note(s->server->table->change(s->server, s->ids.at[v->shelf_place], how, v->count,
                                                values),
                      "while changing variable '%s'", v->name);
}

copse_status copse__servers_scatter(copse_variable *v, enum copse_change how,
                                    const struct copse_server_rows *rows)
{
    struct copse_server_shelf *s = shelf_of(v);
    return copse_note(s->server->table->scatter(s->server, s->ids.at[v->shelf_place], how, rows),
                      "while changing rows of variable '%s'", v->name);
}

/* ---- working copies ---- */

static copse_status write_copies(const copse_variable *v, const void *values)
{
    const copse_strategy *st = v->strategy;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_binding to = copse__variable_values(v, r);
        COPSE_TRY(copse_note(copse_queue_write(st->replicas[r].queue, to.buffer, to.offset, values,
                                               (size_t)v->count * 4),
                             "while bringing variable '%s' to replica %u", v->name, r));
    }
    return COPSE_OK;
}

/* A read that was given up may still write where it should: what comes is not to fall among later values. */
static void set_aside(const copse_strategy *st, struct copse_server_shelf *s)
{
    for (size_t i = 0; i < s->pulled.count; i++) {
        if (s->pulled.at[i])
            copse__window_keep(st->cluster, s->pulled.at[i]);
        s->pulled.at[i] = NULL;
        s->seen.at[i] = 0; /* all come again, into other memory */
    }
}

static uint64_t stuck(const copse_strategy *st)
{
    return st->cluster ? st->cluster->window.stuck : 0;
}

static copse_status pull(const copse_strategy *st, struct copse_server_shelf *s)
{
    const uint64_t before = stuck(st);
    for (size_t i = 0; i < s->pulled.count; i++) {
        if (!s->pulled.at[i])
            s->pulled.at[i] = copse__alloc(&st->ctx->base.mem, (size_t)s->variables.at[i]->count, 4);
        if (!s->pulled.at[i])
            return no_memory();
    }
    const copse_status status =
        s->server->table->pull(s->server, s->ids.at, (uint32_t)s->ids.count, s->seen.at, s->pulled.at);
    if (stuck(st) != before)
        set_aside(st, s);
    return status;
}

copse_status copse__servers_pull(copse_strategy *st)
{
    for (uint32_t k = 0; st->servers && k < st->servers->count; k++) {
        struct copse_server_shelf *s = &st->servers->at[k];
        COPSE_TRY(pull(st, s));
        for (size_t i = 0; i < s->ids.count; i++) {
            const copse_variable *v = s->variables.at[i];
            if (s->written.at[i] == s->seen.at[i] || (v->is_trained && !v->is_placed) || v->holder)
                continue;
            COPSE_TRY(write_copies(v, s->pulled.at[i]));
            s->written.at[i] = s->seen.at[i];
        }
    }
    return COPSE_OK;
}
