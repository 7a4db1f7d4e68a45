/* SPDX-License-Identifier: MIT */
/* Variables with servers: which server keeps each, and the working copies that replicas have for
   graphs. */
#include "core/variable/servers.h"
#include "core/variable/storage.h"

static struct copse_server_store *store_of(const copse_variable *v)
{
    return &copse__servers_of(v->strategy)->at[v->server];
}

static void servers_release(copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_servers *all = copse__servers_of(st);
    for (uint32_t k = 0; k < all->count; k++) {
        struct copse_server_store *s = &all->at[k];
        copse__server_release(&s->server);
        for (size_t i = 0; i < s->pulled.count; i++)
            copse__free(mem, s->pulled.at[i]);
        copse__free(mem, s->ids.at);
        copse__free(mem, s->seen.at);
        copse__free(mem, s->pulled.at);
    }
    copse__free(mem, all);
    st->storage = NULL;
}

/* ---- variables ---- */

static copse_status servers_add(struct copse_mem *mem, struct copse_server_store *s,
                                copse_variable *v, uint32_t id)
{
    const size_t want = s->ids.count + 1;
    COPSE_TRY(copse_need_memory(COPSE_RESERVE(mem, &s->ids, want) &&
                                    COPSE_RESERVE(mem, &s->seen, want) &&
                                    COPSE_RESERVE(mem, &s->pulled, want),
                                "strategy"));
    v->server_index = (uint32_t)s->ids.count;
    s->ids.at[s->ids.count++] = id;
    s->seen.at[s->seen.count++] = 0;
    s->pulled.at[s->pulled.count++] = NULL;
    return COPSE_OK;
}

/* Memory for the values that are pulled. */
static copse_status make_pulled(const copse_variable *v)
{
    void **pulled = &store_of(v)->pulled.at[v->server_index];
    if (!*pulled)
        *pulled = copse__alloc(&v->strategy->ctx->base.mem, (size_t)v->count, 4);
    return copse_need_memory(*pulled, "strategy");
}

static copse_status servers_keep(copse_variable *v, const copse_variable *like, const void *values)
{
    struct copse_servers *all = copse__servers_of(v->strategy);
    const struct copse_server_variable as = {
        .name = v->name,
        .type = v->tensor.type,
        .shape = v->tensor.shape,
        .values = values,
        .may_begin = all->may_begin,
    };
    uint32_t id;
    v->server = like ? like->server : all->placed % all->count;
    struct copse_server_store *s = store_of(v);
    COPSE_TRY(s->server->table->make(s->server, &as, &id));
    COPSE_TRY(servers_add(&v->strategy->ctx->base.mem, s, v, id));
    all->placed += !like;
    return make_pulled(v);
}

static void servers_moved(copse_variable *v)
{
    v->server_version = 0;
}

static copse_status servers_read(copse_variable *v, uint32_t replica, void *values)
{
    (void)replica;
    struct copse_server_store *s = store_of(v);
    return copse_note(s->server->table->read(s->server, s->ids.at[v->server_index], values),
                      "while reading variable '%s'", v->name);
}

static copse_status servers_change(copse_variable *v, uint32_t replica, enum copse_change how,
                                   const void *values)
{
    (void)replica;
    struct copse_server_store *s = store_of(v);
    return copse_note(
        s->server->table->change(s->server, s->ids.at[v->server_index], how, v->count, values),
        "while changing variable '%s'", v->name);
}

static copse_status servers_scatter(copse_variable *v, uint32_t replica, enum copse_change how,
                                    const struct copse_rows *rows)
{
    (void)replica;
    struct copse_server_store *s = store_of(v);
    return copse_note(s->server->table->scatter(s->server, s->ids.at[v->server_index], how, rows),
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

/* A one-sided read that has timed out may still write to its memory. That memory is not used again,
   and all values are read once more, into new memory. */
static void set_aside(const copse_strategy *st, struct copse_server_store *s)
{
    for (size_t i = 0; i < s->pulled.count; i++) {
        if (s->pulled.at[i])
            copse__window_keep(st->group.job, s->pulled.at[i]);
        s->pulled.at[i] = NULL;
        s->seen.at[i] = 0;
    }
}

static uint64_t servers_stuck(const copse_strategy *st)
{
    return st->group.job ? st->group.job->window.stuck : 0;
}

static copse_status pull_store(const copse_strategy *st, struct copse_server_store *s)
{
    const uint64_t before = servers_stuck(st);
    const copse_status status = s->server->table->pull(s->server, s->ids.at, (uint32_t)s->ids.count,
                                                       s->seen.at, s->pulled.at);
    if (servers_stuck(st) != before)
        set_aside(st, s);
    return status;
}

static copse_status servers_pull(copse_strategy *st)
{
    struct copse_servers *all = copse__servers_of(st);
    for (size_t i = 0; i < st->variables.count; i++)
        COPSE_TRY(make_pulled(st->variables.at[i]));
    for (uint32_t k = 0; k < all->count; k++)
        COPSE_TRY(pull_store(st, &all->at[k]));
    for (size_t i = 0; i < st->variables.count; i++) {
        copse_variable *v = st->variables.at[i];
        const struct copse_server_store *s = store_of(v);
        const uint64_t seen = s->seen.at[v->server_index];
        if (v->server_version == seen || (v->is_trained && !v->is_placed) || v->accumulator)
            continue;
        COPSE_TRY(write_copies(v, s->pulled.at[v->server_index]));
        v->server_version = seen;
    }
    return COPSE_OK;
}

static copse_status read_block(copse_variable *v, uint32_t replica, struct copse_block *to)
{
    struct copse_mem *mem = &v->strategy->ctx->base.mem;
    void *values = copse__alloc(mem, (size_t)v->count, 4);
    COPSE_TRY(copse_need_memory(values, "strategy"));
    copse_status s = servers_read(v, replica, values);
    if (!s)
        s = copse__block_write(to, values);
    copse__free(mem, values);
    return s;
}

static copse_status servers_assign(copse_variable *v, const void *values)
{
    return servers_change(v, 0, COPSE_CHANGE_SET, values);
}

static struct copse_binding servers_target(const copse_variable *v, uint32_t replica)
{
    (void)v, (void)replica;
    return (struct copse_binding){ .buffer = NULL };
}

const struct copse_storage_table copse__on_servers = {
    .keep = servers_keep,
    .moved = servers_moved,
    .read = servers_read,
    .read_block = read_block,
    .change = servers_change,
    .scatter = servers_scatter,
    .assign = servers_assign,
    .target = servers_target,
    .pull = servers_pull,
    .release = servers_release,
};
