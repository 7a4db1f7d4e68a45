/* SPDX-License-Identifier: MIT */
/* Client of a ps task: the server interface over messages and windows. */
#include <stdio.h>

#include "core/graph/op.h"
#include "core/ps/one_sided.h"
#include "core/ps/protocol.h"

#define RETRY_NS 5000000ull  /* until the chief has made a variable */
#define LEAVE_NS 20000000ull /* until all workers are done */

struct ps_client {
    struct copse_server server;
    copse_cluster *cluster; /* retained */
    uint32_t rank;
    struct copse_one_sided_client window; /* one-sided access to the server's window */
    struct copse_server_request request;
    struct copse_server_reply reply;
    unsigned char *scratch;
    size_t room;
    struct {
        uint64_t *at;
        size_t count, room;
    } sizes;        /* bytes of variables, by id */
    bool is_broken; /* a request was interrupted: later messages cannot be interpreted */
};

static struct ps_client *client_of(struct copse_server *s)
{
    return (struct ps_client *)(void *)s;
}

/* ---- one request ---- */

static copse_status make_room(struct ps_client *client, size_t bytes)
{
    struct copse_mem *mem = &client->server.ctx->base.mem;
    if (bytes <= client->room)
        return COPSE_OK;
    copse__free(mem, client->scratch);
    client->room = 0;
    client->scratch = copse__alloc(mem, bytes, 1);
    if (!client->scratch)
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for a message");
    client->room = bytes;
    return COPSE_OK;
}

static struct copse_server_request *new_request(struct ps_client *client, enum copse_server_op op)
{
    client->request = (struct copse_server_request){ .magic = COPSE_SERVER_MAGIC, .op = op };
    return &client->request;
}

static copse_status ps_client_exchange(struct ps_client *client, const void *payload, size_t size)
{
    copse_cluster *c = client->cluster;
    const uint64_t most = c->deadline_ns;
    client->request.size = size;
    COPSE_TRY(copse__peer_send(c, client->rank, &client->request, sizeof client->request, most,
                               "a request"));
    COPSE_TRY(copse__peer_send(c, client->rank, payload, size, most, "a request"));
    COPSE_TRY(
        copse__peer_recv(c, client->rank, &client->reply, sizeof client->reply, most, "a reply"));
    if (client->reply.magic != COPSE_SERVER_MAGIC)
        return copse_fail(COPSE_ERR_COMM, "parameter server: malformed reply");
    return COPSE_OK;
}

/* Send the request and its payload, and receive the reply; the caller receives its payloads. */
static copse_status ps_client_call(struct ps_client *client, const void *payload, size_t size)
{
    if (client->is_broken)
        return copse_fail(COPSE_ERR_COMM, "parameter server: it was lost before");
    client->is_broken = true;
    COPSE_TRY(ps_client_exchange(client, payload, size));
    client->is_broken = false;
    client->reply.text[sizeof client->reply.text - 1] = '\0';
    return client->reply.status
               ? copse_fail(copse__status_of(client->reply.status), "%s", client->reply.text)
               : COPSE_OK;
}

/* A malformed reply: later messages cannot be interpreted. */
static copse_status ps_client_wrong(struct ps_client *client, const char *what)
{
    client->is_broken = true;
    return copse_fail(COPSE_ERR_COMM, "parameter server: it replied with %s", what);
}

/* Receive a payload of the reply. */
static copse_status ps_client_take(struct ps_client *client, void *bytes, size_t size)
{
    const copse_status s = copse__peer_recv(client->cluster, client->rank, bytes, size,
                                            client->cluster->deadline_ns, "values");
    client->is_broken |= s != COPSE_OK;
    return s;
}

static copse_status take_values(struct ps_client *client, void *values, uint64_t size)
{
    return client->reply.size == size ? ps_client_take(client, values, (size_t)size)
                                      : ps_client_wrong(client, "values of another size");
}

/* Bytes of a variable; 0 of an unknown one. */
static uint64_t size_of(const struct ps_client *client, uint32_t id)
{
    return id < client->sizes.count ? client->sizes.at[id] : 0;
}

static copse_status ps_client_remember(struct ps_client *client, uint32_t id, uint64_t size)
{
    if (id >= COPSE_SERVER_VARIABLES)
        return ps_client_wrong(client, "a variable's number that none has");
    while (client->sizes.count <= id)
        if (!COPSE_PUSH(&client->server.ctx->base.mem, &client->sizes, 0))
            return copse_no_memory("parameter server");
    client->sizes.at[id] = size;
    return copse__one_sided_client_add(&client->window, id, client->reply.value, size);
}

/* ---- the table ---- */

static copse_status client_make(struct copse_server *server, const struct copse_server_variable *v,
                                uint32_t *id)
{
    struct ps_client *client = client_of(server);
    const size_t name = strlen(v->name) + 1, padded = copse__round_up(name, COPSE_WORD_BYTES);
    const size_t values = v->may_begin ? (size_t)copse__elements(v->shape) * COPSE_WORD_BYTES : 0;
    struct copse_server_making making = { .type = v->type,
                                          .rank = v->shape.rank,
                                          .may_begin = v->may_begin,
                                          .name_bytes = (uint32_t)padded };
    const size_t size = sizeof making + padded + values;
    const uint64_t end = copse__now_ns() + client->cluster->deadline_ns;
    if (padded > COPSE_SERVER_NAME_BYTES)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%.32s...': a name of %zu bytes; with parameter servers it has "
                          "at most %u",
                          v->name, name - 1, COPSE_SERVER_NAME_BYTES - 1);
    COPSE_TRY(make_room(client, size));
    memcpy(making.dims, v->shape.dims, sizeof making.dims);
    memset(client->scratch, 0, sizeof making + padded);
    memcpy(client->scratch, &making, sizeof making);
    memcpy(client->scratch + sizeof making, v->name, name);
    if (values > 0)
        memcpy(client->scratch + sizeof making + padded, v->values, values);
    for (;;) {
        new_request(client, COPSE_SERVER_MAKE);
        const copse_status s = ps_client_call(client, client->scratch, size);
        *id = client->reply.id;
        if (!s)
            return ps_client_remember(client, *id, copse__elements(v->shape) * COPSE_WORD_BYTES);
        if (s != COPSE_ERR_TIMEOUT || client->is_broken)
            return s;
        if (copse__now_ns() >= end)
            return copse_fail(COPSE_ERR_TIMEOUT,
                              "variable '%s': the chief, which gives it its first "
                              "values, has not made it within %.3g s",
                              v->name, (double)client->cluster->deadline_ns / 1e9);
        copse__sleep_ns(RETRY_NS);
    }
}

static copse_status client_pull(struct copse_server *server, const uint32_t *ids, uint32_t count,
                                uint64_t *seen, void *const *values)
{
    struct ps_client *client = client_of(server);
    const size_t list = count * sizeof(struct copse_server_seen);
    bool is_done = count == 0;
    if (!is_done && !client->is_broken)
        COPSE_TRY(
            copse__one_sided_client_fetch(&client->window, ids, count, seen, values, &is_done));
    if (is_done)
        return COPSE_OK;
    COPSE_TRY(make_room(client, list));
    struct copse_server_seen *all = (void *)client->scratch;
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct copse_server_seen){ .version = seen[i], .id = ids[i] };
    new_request(client, COPSE_SERVER_PULL)->count = count;
    COPSE_TRY(ps_client_call(client, all, list));
    COPSE_TRY(ps_client_take(client, all, list));
    for (uint32_t i = 0; i < count; i++) {
        if ((uint64_t)all[i].elements * COPSE_WORD_BYTES !=
            (all[i].version == seen[i] ? 0 : size_of(client, ids[i])))
            return ps_client_wrong(client, "values of another size");
        if (all[i].version == seen[i])
            continue;
        COPSE_TRY(ps_client_take(client, values[i], (size_t)all[i].elements * COPSE_WORD_BYTES));
        seen[i] = all[i].version;
    }
    return COPSE_OK;
}

static copse_status client_read(struct copse_server *server, uint32_t id, void *values)
{
    struct ps_client *client = client_of(server);
    new_request(client, COPSE_SERVER_READ)->id = id;
    COPSE_TRY(ps_client_call(client, NULL, 0));
    return take_values(client, values, size_of(client, id));
}

static copse_status client_change(struct copse_server *server, uint32_t id, enum copse_change how,
                                  uint64_t count, const void *values)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_CHANGE);
    r->id = id;
    r->how = how;
    return ps_client_call(client, values, (size_t)count * COPSE_WORD_BYTES);
}

static copse_status client_scatter(struct copse_server *server, uint32_t id, enum copse_change how,
                                   const struct copse_rows *rows)
{
    struct ps_client *client = client_of(server);
    size_t size;
    if (!copse__mul(rows->count, COPSE_WORD_BYTES * (1 + rows->row), &size))
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for a message");
    COPSE_TRY(make_room(client, size));
    const size_t indices = COPSE_WORD_BYTES * (size_t)rows->count;
    memcpy(client->scratch, rows->indices, indices);
    memcpy(client->scratch + indices, rows->values, indices * rows->row);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_SCATTER);
    r->id = id;
    r->how = how;
    r->count = rows->count;
    return ps_client_call(client, client->scratch, size);
}

static copse_status client_group(struct copse_server *server, uint64_t key, const uint32_t *ids,
                                 uint32_t count, const struct copse_optimizer_params *p,
                                 uint32_t *group)
{
    struct ps_client *client = client_of(server);
    const struct copse_server_rule rule = {
        .kind = (uint32_t)p->kind,
        .is_centred = p->is_centred,
        .learning_rate = p->learning_rate,
        .momentum = p->momentum,
        .beta1 = p->beta1,
        .beta2 = p->beta2,
        .epsilon = p->epsilon,
        .weight_decay = p->weight_decay,
        .average = p->average,
        .initial = p->initial,
        .l1 = p->l1,
        .l2 = p->l2,
        .momentum_decay = p->momentum_decay,
        .trust = p->trust,
        .epsilon_in_root = p->epsilon_in_root,
        .plain_average = p->plain_average,
    };
    const size_t size = sizeof rule + count * sizeof *ids;
    COPSE_TRY(make_room(client, size));
    memcpy(client->scratch, &rule, sizeof rule);
    memcpy(client->scratch + sizeof rule, ids, count * sizeof *ids);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_GROUP);
    r->value = key;
    r->count = count;
    const copse_status s = ps_client_call(client, client->scratch, size);
    *group = client->reply.id;
    return s;
}

static void client_drop(struct copse_server *server, uint32_t group)
{
    struct ps_client *client = client_of(server);
    new_request(client, COPSE_SERVER_DROP)->group = group;
    if (!client->is_broken && ps_client_call(client, NULL, 0) != COPSE_OK)
        copse__log(&server->ctx->base.log, COPSE_LOG_INFO, "parameter server: %s",
                   copse_last_error());
}

static copse_status client_snapshot(struct copse_server *server, uint32_t group, uint64_t count,
                                    void *words, struct copse_server_state *out)
{
    struct ps_client *client = client_of(server);
    new_request(client, COPSE_SERVER_SNAPSHOT)->group = group;
    COPSE_TRY(ps_client_call(client, NULL, 0));
    COPSE_TRY(ps_client_take(client, out, sizeof *out));
    return take_values(client, words, count * COPSE_WORD_BYTES);
}

static copse_status client_progress(struct copse_server *server, uint32_t group,
                                    enum copse_progress_op op,
                                    struct copse_server_progress *progress)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_PROGRESS);
    r->group = group;
    r->how = op;
    COPSE_TRY(ps_client_call(client, progress, op == COPSE_PROGRESS_SET ? sizeof *progress : 0));
    return op == COPSE_PROGRESS_READ ? ps_client_take(client, progress, sizeof *progress)
                                     : COPSE_OK;
}

static copse_status client_push(struct copse_server *server, uint32_t group,
                                const struct copse_server_push *p, uint64_t *count)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_PUSH);
    r->group = group;
    r->rate = p->rate;
    r->scale = p->scale;
    r->progress = p->progress;
    r->how = p->is_unchecked;
    if (!client->is_broken)
        r->value = copse__one_sided_client_publish(&client->window, p->gradients,
                                                   p->elements * COPSE_WORD_BYTES);
    copse_status s =
        ps_client_call(client, p->gradients, r->value ? 0 : (size_t)p->elements * COPSE_WORD_BYTES);
    if (s && r->value && !client->is_broken && client->reply.id == COPSE_SERVER_UNREAD) {
        client->window.is_unread = true;
        r->value = 0;
        s = ps_client_call(client, p->gradients, (size_t)p->elements * COPSE_WORD_BYTES);
    }
    *count = s ? *count : client->reply.value;
    return s;
}

static copse_status client_updates(struct copse_server *server, uint32_t group, bool is_set,
                                   uint64_t *count)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_UPDATES);
    r->group = group;
    r->how = is_set;
    r->value = *count;
    COPSE_TRY(ps_client_call(client, NULL, 0));
    *count = client->reply.value;
    return COPSE_OK;
}

static copse_status client_slot(struct copse_server *server, uint32_t group, uint32_t member,
                                uint32_t slot, bool is_set, uint64_t count, void *values)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_SLOT);
    r->group = group;
    r->id = member;
    r->count = slot;
    r->how = is_set;
    COPSE_TRY(ps_client_call(client, is_set ? values : NULL,
                             is_set ? (size_t)count * COPSE_WORD_BYTES : 0));
    return is_set ? COPSE_OK : take_values(client, values, count * COPSE_WORD_BYTES);
}

static copse_status client_counter(struct copse_server *server, bool is_set, uint64_t *value)
{
    struct ps_client *client = client_of(server);
    struct copse_server_request *r = new_request(client, COPSE_SERVER_COUNTER);
    r->how = is_set;
    r->value = *value;
    COPSE_TRY(ps_client_call(client, NULL, 0));
    *value = client->reply.value;
    return COPSE_OK;
}

static void client_leave(struct copse_server *server)
{
    struct ps_client *client = client_of(server);
    copse_context *ctx = copse_context_retain(server->ctx);
    copse_status s = COPSE_OK;
    while (!client->is_broken) {
        new_request(client, COPSE_SERVER_LEAVE);
        s = ps_client_call(client, NULL, 0);
        if (s || client->reply.value || !client->cluster->table->ends_together)
            break;
        copse__sleep_ns(LEAVE_NS);
    }
    if (s)
        copse__log(&ctx->base.log, COPSE_LOG_INFO, "parameter server: while leaving: %s",
                   copse_last_error());
    copse__one_sided_client_fini(&client->window);
    copse__free(&ctx->base.mem, client->sizes.at);
    if (client->cluster->window.stuck >> client->rank & 1)
        copse__window_keep(client->cluster, client->scratch);
    else
        copse__free(&ctx->base.mem, client->scratch);
    copse_cluster_release(&client->cluster);
    copse__free(&ctx->base.mem, client);
    copse_context_release(&ctx);
}

static const struct copse_server_table table = {
    .make = client_make,
    .pull = client_pull,
    .read = client_read,
    .change = client_change,
    .scatter = client_scatter,
    .group = client_group,
    .drop = client_drop,
    .push = client_push,
    .updates = client_updates,
    .slot = client_slot,
    .snapshot = client_snapshot,
    .progress = client_progress,
    .counter = client_counter,
    .leave = client_leave,
};

copse_status copse__server_remote(copse_cluster *c, uint32_t rank, struct copse_server **out)
{
    *out = NULL;
    struct ps_client *client = copse__alloc(&c->ctx->base.mem, 1, sizeof *client);
    if (!client)
        return copse_no_memory("parameter server");
    client->server = (struct copse_server){ &table, c->ctx };
    client->cluster = copse_cluster_retain(c);
    client->rank = rank;
    copse__one_sided_client_init(&client->window, c, rank);
    *out = &client->server;
    return COPSE_OK;
}
