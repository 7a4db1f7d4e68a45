/* SPDX-License-Identifier: MIT */
/* The server that a ps task keeps, from a worker's side. */
#include <stdio.h>

#include "core/graph/op.h"
#include "core/ps/protocol.h"
#include "core/ps/window.h"

#define RETRY_NS 5000000ull  /* until the chief has made a variable */
#define LEAVE_NS 20000000ull /* until all workers are done */

struct there {
    struct copse_server server;
    copse_cluster *cluster; /* retained */
    uint32_t rank;
    struct copse_window_reader window; /* the server's, where there is one */
    struct copse_server_request request;
    struct copse_server_reply reply;
    unsigned char *scratch;
    size_t room;
    struct { uint64_t *at; size_t count, room; } sizes; /* bytes of variables, by id */
    bool is_broken; /* a request was cut short: what comes belongs to nothing */
};

static struct there *there_of(struct copse_server *s)
{
    return (struct there *)(void *)s;
}

/* ---- one request ---- */

static copse_status make_room(struct there *t, size_t bytes)
{
    struct copse_mem *mem = &t->server.ctx->base.mem;
    if (bytes <= t->room)
        return COPSE_OK;
    copse__free(mem, t->scratch);
    t->room = 0;
    t->scratch = copse__alloc(mem, bytes, 1);
    if (!t->scratch)
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for a message");
    t->room = bytes;
    return COPSE_OK;
}

static struct copse_server_request *ask(struct there *t, enum copse_server_op op)
{
    t->request = (struct copse_server_request){ .magic = COPSE_SERVER_MAGIC, .op = op };
    return &t->request;
}

static copse_status exchange(struct there *t, const void *payload, size_t size)
{
    copse_cluster *c = t->cluster;
    const uint64_t most = c->deadline_ns;
    t->request.size = size;
    COPSE_TRY(copse__peer_send(c, t->rank, &t->request, sizeof t->request, most, "a request"));
    COPSE_TRY(copse__peer_send(c, t->rank, payload, size, most, "a request"));
    COPSE_TRY(copse__peer_recv(c, t->rank, &t->reply, sizeof t->reply, most, "a reply"));
    if (t->reply.magic != COPSE_SERVER_MAGIC)
        return copse_fail(COPSE_ERR_COMM, "parameter server: what came is no reply");
    return COPSE_OK;
}

/* Send the request and its payload, and take the reply; its payloads are the caller's. */
static copse_status talk(struct there *t, const void *payload, size_t size)
{
    if (t->is_broken)
        return copse_fail(COPSE_ERR_COMM, "parameter server: it was lost before");
    t->is_broken = true;
    COPSE_TRY(exchange(t, payload, size));
    t->is_broken = false;
    t->reply.text[sizeof t->reply.text - 1] = '\0';
    return t->reply.status == COPSE_OK ? COPSE_OK
                                        : copse_fail(copse__status_of(t->reply.status), "%s", t->reply.text);
}

/* What came, or comes, belongs to nothing. */
static copse_status wrong(struct there *t, const char *what)
{
    t->is_broken = true;
    return copse_fail(COPSE_ERR_COMM, "parameter server: it replied with %s", what);
}

/* What comes behind a reply. */
static copse_status take(struct there *t, void *bytes, size_t size)
{
    const copse_status s = copse__peer_recv(t->cluster, t->rank, bytes, size, t->cluster->deadline_ns,
                                            "values");
    t->is_broken |= s != COPSE_OK;
    return s;
}

static copse_status take_values(struct there *t, void *values, uint64_t size)
{
    return t->reply.size == size ? take(t, values, (size_t)size) : wrong(t, "values of another size");
}

/* Bytes of a variable; 0 of one that this worker has not made. */
static uint64_t size_of(const struct there *t, uint32_t id)
{
    return id < t->sizes.count ? t->sizes.at[id] : 0;
}

static copse_status know(struct there *t, uint32_t id, uint64_t size)
{
    if (id >= COPSE_SERVER_VARIABLES)
        return wrong(t, "a variable's number that none has");
    while (t->sizes.count <= id)
        if (!COPSE_PUSH(&t->server.ctx->base.mem, &t->sizes, 0))
            return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
    t->sizes.at[id] = size;
    return copse__reader_add(&t->window, id, t->reply.value, size);
}

/* ---- the table ---- */

static copse_status there_make(struct copse_server *server, const struct copse_server_variable *v,
                               uint32_t *id)
{
    struct there *t = there_of(server);
    const size_t name = strlen(v->name) + 1, padded = copse__round_up(name, 4);
    const size_t values = v->may_begin ? (size_t)copse__elements(v->shape) * 4 : 0;
    struct copse_server_making making = { .type = v->type, .rank = v->shape.rank,
                                          .may_begin = v->may_begin, .name_bytes = (uint32_t)padded };
    const size_t size = sizeof making + padded + values;
    const uint64_t end = copse__now_ns() + t->cluster->deadline_ns;
    if (padded > COPSE_SERVER_NAME_BYTES)
        return copse_fail(COPSE_ERR_ARGUMENT, "variable '%.32s...': a name of %zu bytes; with parameter servers it has "
                                              "at most %u", v->name, name - 1, COPSE_SERVER_NAME_BYTES - 1);
    COPSE_TRY(make_room(t, size));
    memcpy(making.dims, v->shape.dims, sizeof making.dims);
    memset(t->scratch, 0, sizeof making + padded);
    memcpy(t->scratch, &making, sizeof making);
    memcpy(t->scratch + sizeof making, v->name, name);
    if (values > 0)
        memcpy(t->scratch + sizeof making + padded, v->values, values);
    for (;;) {
        ask(t, COPSE_SERVER_MAKE);
        const copse_status s = talk(t, t->scratch, size);
        *id = t->reply.id;
        if (!s)
            return know(t, *id, copse__elements(v->shape) * 4);
        if (s != COPSE_ERR_TIMEOUT || t->is_broken)
            return s;
        if (copse__now_ns() >= end)
            return copse_fail(COPSE_ERR_TIMEOUT, "variable '%s': the chief, which gives it its first "
                                                 "values, has not made it within %.3g s", v->name,
                              (double)t->cluster->deadline_ns / 1e9);
        copse__sleep_ns(RETRY_NS);
    }
}

static copse_status there_pull(struct copse_server *server, const uint32_t *ids, uint32_t count,
                               uint64_t *seen, void *const *values)
{
    struct there *t = there_of(server);
    const size_t list = count * sizeof(struct copse_server_seen);
    bool is_done = count == 0;
    if (!is_done && !t->is_broken)
        COPSE_TRY(copse__reader_pull(&t->window, ids, count, seen, values, &is_done));
    if (is_done)
        return COPSE_OK;
    COPSE_TRY(make_room(t, list));
    struct copse_server_seen *all = (void *)t->scratch;
    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct copse_server_seen){ .version = seen[i], .id = ids[i] };
    ask(t, COPSE_SERVER_PULL)->count = count;
    COPSE_TRY(talk(t, all, list));
    COPSE_TRY(take(t, all, list));
    for (uint32_t i = 0; i < count; i++) {
        if ((uint64_t)all[i].elements * 4 != (all[i].version == seen[i] ? 0 : size_of(t, ids[i])))
            return wrong(t, "values of another size");
        if (all[i].version == seen[i])
            continue;
        COPSE_TRY(take(t, values[i], (size_t)all[i].elements * 4));
        seen[i] = all[i].version;
    }
    return COPSE_OK;
}

static copse_status there_read(struct copse_server *server, uint32_t id, void *values)
{
    struct there *t = there_of(server);
    ask(t, COPSE_SERVER_READ)->id = id;
    COPSE_TRY(talk(t, NULL, 0));
    return take_values(t, values, size_of(t, id));
}

static copse_status there_change(struct copse_server *server, uint32_t id, enum copse_change how,
                                 uint64_t count, const void *values)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_CHANGE);
    r->id = id;
    r->how = how;
    return talk(t, values, (size_t)count * 4);
}

static copse_status there_scatter(struct copse_server *server, uint32_t id, enum copse_change how,
                                  const struct copse_rows *rows)
{
    struct there *t = there_of(server);
    size_t size;
    if (!copse__mul(rows->count, 4 * (1 + rows->row), &size))
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for a message");
    COPSE_TRY(make_room(t, size));
    memcpy(t->scratch, rows->indices, 4 * (size_t)rows->count);
    memcpy(t->scratch + 4 * (size_t)rows->count, rows->values, 4 * (size_t)rows->count * rows->row);
    struct copse_server_request *r = ask(t, COPSE_SERVER_SCATTER);
    r->id = id;
    r->how = how;
    r->count = rows->count;
    return talk(t, t->scratch, size);
}

static copse_status there_group(struct copse_server *server, uint64_t key, const uint32_t *ids,
                                uint32_t count, const struct copse_optimizer_params *p, uint32_t *group)
{
    struct there *t = there_of(server);
    const struct copse_server_rule rule = { (uint32_t)p->kind, p->learning_rate, p->momentum, p->beta1,
                                            p->beta2, p->epsilon, p->weight_decay, p->average };
    const size_t size = sizeof rule + count * sizeof *ids;
    COPSE_TRY(make_room(t, size));
    memcpy(t->scratch, &rule, sizeof rule);
    memcpy(t->scratch + sizeof rule, ids, count * sizeof *ids);
    struct copse_server_request *r = ask(t, COPSE_SERVER_GROUP);
    r->value = key;
    r->count = count;
    const copse_status s = talk(t, t->scratch, size);
    *group = t->reply.id;
    return s;
}

static void there_drop(struct copse_server *server, uint32_t group)
{
    struct there *t = there_of(server);
    ask(t, COPSE_SERVER_DROP)->group = group;
    if (!t->is_broken && talk(t, NULL, 0) != COPSE_OK)
        copse__log(&server->ctx->base.log, COPSE_LOG_INFO, "parameter server: %s", copse_last_error());
}

static copse_status there_look(struct copse_server *server, uint32_t group, uint64_t count,
                               void *words, struct copse_server_state *out)
{
    struct there *t = there_of(server);
    ask(t, COPSE_SERVER_LOOK)->group = group;
    COPSE_TRY(talk(t, NULL, 0));
    COPSE_TRY(take(t, out, sizeof *out));
    return take_values(t, words, count * 4);
}

static copse_status there_places(struct copse_server *server, uint32_t group,
                                 enum copse_server_say say, struct copse_server_places *places)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_PLACES);
    r->group = group;
    r->how = say;
    COPSE_TRY(talk(t, places, say == COPSE_PLACES_SET ? sizeof *places : 0));
    return say == COPSE_PLACES_READ ? take(t, places, sizeof *places) : COPSE_OK;
}

static copse_status there_push(struct copse_server *server, uint32_t group,
                               const struct copse_server_push *p, uint64_t *count)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_PUSH);
    r->group = group;
    r->rate = p->rate;
    r->scale = p->scale;
    r->place = p->place;
    r->value = t->is_broken ? 0 : copse__reader_offer(&t->window, p->gradients, p->elements * 4);
    copse_status s = talk(t, p->gradients, r->value ? 0 : (size_t)p->elements * 4);
    if (s && r->value && !t->is_broken && t->reply.id == COPSE_SERVER_UNREAD) {
        t->window.is_unread = true;
        r->value = 0;
        s = talk(t, p->gradients, (size_t)p->elements * 4);
    }
    *count = s ? *count : t->reply.value;
    return s;
}

static copse_status there_updates(struct copse_server *server, uint32_t group, bool is_set,
                                  uint64_t *count)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_UPDATES);
    r->group = group;
    r->how = is_set;
    r->value = *count;
    COPSE_TRY(talk(t, NULL, 0));
    *count = t->reply.value;
    return COPSE_OK;
}

static copse_status there_slot(struct copse_server *server, uint32_t group, uint32_t member,
                               uint32_t slot, bool is_set, uint64_t count, void *values)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_SLOT);
    r->group = group;
    r->id = member;
    r->count = slot;
    r->how = is_set;
    COPSE_TRY(talk(t, is_set ? values : NULL, is_set ? (size_t)count * 4 : 0));
    return is_set ? COPSE_OK : take_values(t, values, count * 4);
}

static copse_status there_counter(struct copse_server *server, bool is_set, uint64_t *value)
{
    struct there *t = there_of(server);
    struct copse_server_request *r = ask(t, COPSE_SERVER_COUNTER);
    r->how = is_set;
    r->value = *value;
    COPSE_TRY(talk(t, NULL, 0));
    *value = t->reply.value;
    return COPSE_OK;
}

static void there_leave(struct copse_server *server)
{
    struct there *t = there_of(server);
    copse_context *ctx = copse_context_retain(server->ctx);
    copse_status s = COPSE_OK;
    while (!t->is_broken) {
        ask(t, COPSE_SERVER_LEAVE);
        s = talk(t, NULL, 0);
        if (s || t->reply.value || !t->cluster->table->ends_together)
            break;
        copse__sleep_ns(LEAVE_NS);
    }
    if (s)
        copse__log(&ctx->base.log, COPSE_LOG_INFO, "parameter server: while leaving: %s",
                   copse_last_error());
    copse__reader_fini(&t->window);
    copse__free(&ctx->base.mem, t->sizes.at);
    if (t->cluster->window.stuck >> t->rank & 1)
        copse__window_keep(t->cluster, t->scratch);
    else
        copse__free(&ctx->base.mem, t->scratch);
    copse_cluster_release(&t->cluster);
    copse__free(&ctx->base.mem, t);
    copse_context_release(&ctx);
}

static const struct copse_server_table table = {
    .make = there_make,
    .pull = there_pull,
    .read = there_read,
    .change = there_change,
    .scatter = there_scatter,
    .group = there_group,
    .drop = there_drop,
    .push = there_push,
    .updates = there_updates,
    .slot = there_slot,
    .look = there_look,
    .places = there_places,
    .counter = there_counter,
    .leave = there_leave,
};

copse_status copse__server_there(copse_cluster *c, uint32_t rank, struct copse_server **out)
{
    *out = NULL;
    struct there *t = copse__alloc(&c->ctx->base.mem, 1, sizeof *t);
    if (!t)
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
    t->server = (struct copse_server){ &table, c->ctx };
    t->cluster = copse_cluster_retain(c);
    t->rank = rank;
    copse__reader_init(&t->window, c, rank);
    *out = &t->server;
    return COPSE_OK;
}
