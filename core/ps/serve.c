/* SPDX-License-Identifier: MIT */
/* A ps task: takes requests of all workers, one at a time, whoever comes first, until all are gone. A
   worker that is lost is left alone; the others notice nothing. */
#include <stdio.h>

#include "copse/distribute/parameter_server.h"
#include "core/ps/protocol.h"
#include "core/ps/shelf.h"
#include "core/ps/silence.h"
#include "core/ps/window.h"

#define IDLE_NS   50000ull
#define LISTEN_NS 50000000ull

/* The n-th optimizer without a key of every worker that has come to it, or that with the key. */
struct shared_group {
    uint64_t key;
    uint32_t number;  /* n, without a key */
    uint32_t group;   /* the shelf's */
    uint64_t holders; /* workers */
    uint64_t guests;  /* workers that have come since it was made */
    bool is_used;
};

struct client {
    struct copse_parcel parcel; /* of its next request */
    struct copse_silence silence;
    struct copse_server_request request;
    uint32_t groups;  /* that it has asked for, ever */
    bool is_done;     /* it has said so */
    bool is_over;     /* nothing comes any more */
};

struct hall {
    copse_cluster *cluster;
    struct copse_shelf *shelf;
    struct copse_server *server; /* the shelf's */
    struct copse_window_keeper window;
    struct client clients[COPSE_MAX_WORKERS];
    uint32_t client_count;
    uint64_t listened_ns; /* for signs of life */
    struct { struct shared_group *at; size_t count, room; } groups;
    struct { uint32_t *at; size_t count, room; } changed; /* of a pull */
    unsigned char *payload;
    size_t room;
    struct copse_server_reply reply;
    const void *values; /* that go behind the reply */
    struct copse_server_seen *versions; /* the same; in the payload */
    struct copse_server_state state;    /* the same: the first `state_size` bytes of it */
    size_t state_size;
    struct copse_parameter_server_summary summary;
};

/* Inside of a request; others, who wait for their turn, have twice that. */
static uint64_t patience(const struct hall *h)
{
    return h->cluster->deadline_ns / 2;
}

/* ---- payloads ---- */

static copse_status bad(const char *what)
{
    return copse_fail(COPSE_ERR_COMM, "parameter server: %s is not as it should be", what);
}

/* The size is that of the operation. The memory is not zeroed: pages that no bytes come for are not used. */
static copse_status take_payload(struct hall *h, uint32_t worker, size_t size)
{
    struct copse_mem *mem = &h->shelf->ctx->base.mem;
    if (size > h->room || !h->payload) {
        copse__free(mem, h->payload);
        h->room = 0;
        h->payload = copse__resize(mem, NULL, size, 1);
        if (!h->payload)
            return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for %zu bytes", size);
        h->room = size;
    }
    return copse__peer_recv(h->cluster, worker, h->payload, size, patience(h), "a request");
}

/* Nobody waits for what only the chief does when it is not there any more. */
static copse_status check_chief(const struct hall *h, const char *what)
{
    if (!h->clients[0].is_done && !h->clients[0].is_over)
        return COPSE_OK;
    copse__notices_look(h->cluster);
    const copse_status failure = copse__peer_failure(h->cluster, 0);
    return failure ? copse_fail(failure, "parameter server: %s", h->cluster->notices[0].why)
                   : copse_fail(COPSE_ERR_COMM, "parameter server: the chief is gone, and %s", what);
}

/* ---- requests; the shelf says what is wrong with ids ---- */

static copse_status do_make(struct hall *h, const struct copse_server_request *r)
{
    struct copse_server_making m;
    memcpy(&m, h->payload, sizeof m);
    const uint64_t rest = r->size - sizeof m;
    struct copse_server_variable v = { .type = (copse_type)m.type, .may_begin = m.may_begin };
    v.shape.rank = m.rank;
    memcpy(v.shape.dims, m.dims, sizeof m.dims);
    const uint64_t elements = m.rank > COPSE_MAX_RANK ? 0 : copse__elements(v.shape);
    if (m.type > COPSE_I32 || elements == 0 || elements >= (uint64_t)1 << 31 || m.name_bytes == 0 ||
        m.name_bytes % 4 != 0 || m.name_bytes > COPSE_MIN(rest, COPSE_SERVER_NAME_BYTES) ||
        h->payload[sizeof m + m.name_bytes - 1] != 0 ||
        rest - m.name_bytes != (m.may_begin ? elements * 4 : 0))
        return bad("a variable");
    if (h->shelf->variables.count >= COPSE_SERVER_VARIABLES)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "parameter server: it has %u variables; make fewer, or more servers",
                          COPSE_SERVER_VARIABLES);
    v.name = (const char *)h->payload + sizeof m;
    v.values = h->payload + sizeof m + m.name_bytes;
    const copse_status s = h->server->table->make(h->server, &v, &h->reply.id);
    if (s == COPSE_ERR_TIMEOUT)
        COPSE_TRY(check_chief(h, "has not made this variable"));
    return s;
}

static copse_status do_pull(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_variable *v;
    struct copse_server_seen *seen = (void *)h->payload;
    if (!COPSE_RESERVE(&h->shelf->ctx->base.mem, &h->changed, r->count))
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
    h->changed.count = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        COPSE_TRY(copse__shelf_find(h->shelf, seen[i].id, &v));
        seen[i].elements = seen[i].version != v->version ? (uint32_t)v->count : 0;
        seen[i].version = v->version;
        if (seen[i].elements > 0)
            h->changed.at[h->changed.count++] = seen[i].id;
    }
    h->versions = seen;
    return copse__shelf_look(h->shelf, h->changed.at, (uint32_t)h->changed.count, &h->values);
}

static copse_status do_read(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_variable *v;
    COPSE_TRY(copse__shelf_find(h->shelf, r->id, &v));
    h->reply.size = v->count * 4;
    return copse__shelf_look(h->shelf, &r->id, 1, &h->values);
}

static copse_status do_change(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_variable *v;
    COPSE_TRY(copse__shelf_find(h->shelf, r->id, &v));
    if (r->how > COPSE_CHANGE_SUB)
        return bad("a change");
    return h->server->table->change(h->server, r->id, (enum copse_change)r->how, v->count, h->payload);
}

static copse_status do_scatter(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_variable *v;
    COPSE_TRY(copse__shelf_find(h->shelf, r->id, &v));
    const uint64_t row = v->shape.rank > 0 ? v->count / v->shape.dims[0] : 0;
    if (row == 0 || r->how < COPSE_SCATTER_ADD || r->how >= COPSE_CHANGES)
        return bad("a change of rows");
    const struct copse_rows rows = { r->count, (size_t)row, (const void *)h->payload,
                                            (const void *)(h->payload + 4 * (size_t)r->count) };
    return h->server->table->scatter(h->server, r->id, (enum copse_change)r->how, &rows);
}

static struct shared_group *find_group(struct hall *h, uint64_t key, uint32_t number)
{
    const struct shared_group fresh = { .key = key, .number = number };
    for (size_t i = 0; i < h->groups.count; i++)
        if (h->groups.at[i].key == key && h->groups.at[i].number == number)
            return &h->groups.at[i];
    return COPSE_PUSH(&h->shelf->ctx->base.mem, &h->groups, fresh) ? &h->groups.at[h->groups.count - 1]
                                                                   : NULL;
}

static bool is_of(const struct hall *h, const struct shared_group *shared, const uint32_t *ids, uint32_t count,
                  const struct copse_optimizer_params *rule)
{
    struct copse_shelf_group *g;
    return copse__shelf_group(h->shelf, shared->group, &g) == COPSE_OK && copse__shelf_group_is(g, ids, count, rule);
}

static void drop_group(struct hall *h, struct shared_group *shared)
{
    h->server->table->drop(h->server, shared->group);
    shared->is_used = false;
}

/* The one with the key, or the n-th of this worker is the n-th of all: make it, or check that it is the same. */
static copse_status do_group(struct hall *h, uint32_t worker, const struct copse_server_request *r)
{
    struct copse_server_rule as;
    memcpy(&as, h->payload, sizeof as);
    const uint32_t *ids = (const void *)(h->payload + sizeof as);
    const struct copse_optimizer_params rule = {
        .kind = (copse_optimizer_kind)as.kind, .learning_rate = as.learning_rate,
        .momentum = as.momentum, .beta1 = as.beta1, .beta2 = as.beta2, .epsilon = as.epsilon,
        .weight_decay = as.weight_decay, .average = as.average,
    };
    const uint32_t n = r->value ? 0 : h->clients[worker].groups;
    struct shared_group *shared = find_group(h, r->value, n);
    if (!shared)
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
    if (shared->is_used && r->value && !shared->holders && !is_of(h, shared, ids, r->count, &rule))
        drop_group(h, shared); /* kept for others, who come to this one now */
    if (!shared->is_used) {
        COPSE_TRY(h->server->table->group(h->server, r->value, ids, r->count, &rule, &shared->group));
        shared->is_used = true;
        shared->guests = 0;
    }
    if (!is_of(h, shared, ids, r->count, &rule) && r->value)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: another worker's optimizer of that name has "
                                              "another rule or other variables");
    if (!is_of(h, shared, ids, r->count, &rule))
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: another worker's optimizer %u is of other "
                                              "variables or another rule; all workers make the same "
                                              "trainers in the same order", n);
    shared->holders |= 1ull << worker;
    shared->guests |= 1ull << worker;
    h->clients[worker].groups += !r->value;
    h->reply.id = shared->group;
    return COPSE_OK;
}

/* Whether a worker that has not come to it yet still may: the others may have done all of their steps by then, and
   what was restored for it stands there. Who comes to one with a key is not known: anybody may. */
static bool is_awaited(const struct hall *h, const struct shared_group *shared)
{
    for (uint32_t w = 0; w < h->client_count; w++) {
        const struct client *c = &h->clients[w];
        const bool has_come = shared->key ? (shared->guests >> w & 1) != 0 : c->groups > shared->number;
        if (!c->is_done && !c->is_over && !has_come)
            return true;
    }
    return false;
}

/* The last worker to let go of an optimizer takes its slots along. */
static void let_go(struct hall *h, uint32_t worker, struct shared_group *shared)
{
    shared->holders &= ~(1ull << worker);
    if (shared->is_used && shared->holders == 0 && !is_awaited(h, shared))
        drop_group(h, shared);
}

static copse_status do_drop(struct hall *h, uint32_t worker, const struct copse_server_request *r)
{
    for (size_t i = 0; i < h->groups.count; i++)
        if (h->groups.at[i].is_used && h->groups.at[i].group == r->group)
            let_go(h, worker, &h->groups.at[i]);
    return COPSE_OK;
}

static copse_status take_gradients(struct hall *h, uint32_t worker, uint64_t number, size_t size,
                                   const void **gradients)
{
    char name[COPSE_WORKERS_TEXT];
    bool is_unread;
    const copse_status s = copse__keeper_take(&h->window, worker, number, size, patience(h), gradients,
                                              &is_unread);
    if (is_unread) {
        h->reply.id = COPSE_SERVER_UNREAD;
        copse__log(&h->shelf->ctx->base.log, COPSE_LOG_INFO, "parameter server: gradients of %s go by messages: %s",
                   copse__cluster_names(h->cluster, 1ull << worker, name), copse_last_error());
    }
    return s;
}

static copse_status do_push(struct hall *h, uint32_t worker, const struct copse_server_request *r)
{
    struct copse_shelf_group *g;
    const void *gradients = h->payload;
    COPSE_TRY(copse__shelf_group(h->shelf, r->group, &g));
    if (r->value)
        COPSE_TRY(take_gradients(h, worker, r->value, (size_t)g->elements * 4, &gradients));
    const struct copse_server_push push = {
        .worker = worker, .place = r->place, .rate = r->rate, .scale = r->scale,
        .gradients = gradients, .elements = g->elements,
    };
    h->summary.updates++;
    return h->server->table->push(h->server, r->group, &push, &h->reply.value);
}

static copse_status do_slot(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_group *g;
    COPSE_TRY(copse__shelf_group(h->shelf, r->group, &g));
    if (!r->how)
        return copse__shelf_look_slot(h->shelf, r->group, r->id, r->count, &h->values, &h->reply.size);
    return h->server->table->slot(h->server, r->group, r->id, r->count, true, r->size / 4, h->payload);
}

static copse_status do_look(struct hall *h, const struct copse_server_request *r)
{
    struct copse_shelf_group *g;
    COPSE_TRY(copse__shelf_group(h->shelf, r->group, &g));
    h->state = (struct copse_server_state){ g->updates, g->places };
    h->state_size = sizeof h->state;
    return copse__shelf_look_group(h->shelf, r->group, &h->values, &h->reply.size);
}

static copse_status do_places(struct hall *h, const struct copse_server_request *r)
{
    struct copse_server_places *places = (void *)&h->state;
    if (r->how > COPSE_PLACES_OPEN)
        return bad("a list of places");
    if (r->how == COPSE_PLACES_SET)
        memcpy(places, h->payload, sizeof *places);
    COPSE_TRY(h->server->table->places(h->server, r->group, (enum copse_server_say)r->how, places));
    if (r->how != COPSE_PLACES_READ)
        return COPSE_OK;
    h->state_size = sizeof *places;
    return places->is_open ? COPSE_OK : check_chief(h, "has neither restored nor written a checkpoint: "
                                                        "what did it say?");
}

static copse_status do_counts(struct hall *h, const struct copse_server_request *r)
{
    h->reply.value = r->value;
    return r->op == COPSE_SERVER_COUNTER
               ? h->server->table->counter(h->server, r->how, &h->reply.value)
               : h->server->table->updates(h->server, r->group, r->how, &h->reply.value);
}

static copse_status do_leave(struct hall *h, uint32_t worker)
{
    h->clients[worker].is_done = true;
    h->reply.value = 1;
    for (uint32_t w = 0; w < h->client_count; w++)
        h->reply.value &= h->clients[w].is_done || h->clients[w].is_over;
    return COPSE_OK;
}

static copse_status perform(struct hall *h, uint32_t worker)
{
    const struct copse_server_request *r = &h->clients[worker].request;
    switch ((enum copse_server_op)r->op) {
    case COPSE_SERVER_MAKE:
        return do_make(h, r);
    case COPSE_SERVER_PULL:
        return do_pull(h, r);
    case COPSE_SERVER_READ:
        return do_read(h, r);
    case COPSE_SERVER_CHANGE:
        return do_change(h, r);
    case COPSE_SERVER_SCATTER:
        return do_scatter(h, r);
    case COPSE_SERVER_GROUP:
        return do_group(h, worker, r);
    case COPSE_SERVER_DROP:
        return do_drop(h, worker, r);
    case COPSE_SERVER_PUSH:
        return do_push(h, worker, r);
    case COPSE_SERVER_SLOT:
        return do_slot(h, r);
    case COPSE_SERVER_LOOK:
        return do_look(h, r);
    case COPSE_SERVER_PLACES:
        return do_places(h, r);
    case COPSE_SERVER_UPDATES:
    case COPSE_SERVER_COUNTER:
        return do_counts(h, r);
    case COPSE_SERVER_LEAVE:
        return do_leave(h, worker);
    case COPSE_SERVER_OPS:
        break;
    }
    return bad("a request");
}

/* ---- the loop ---- */

static copse_status expect(struct hall *h, uint32_t worker)
{
    struct client *c = &h->clients[worker];
    c->parcel.peer = worker;
    return h->cluster->table->recv(&h->cluster->t, worker, COPSE_TAG_PEER, &c->request,
                                   sizeof c->request, &c->parcel.op);
}

static copse_status send_values(struct hall *h, uint32_t worker, const struct copse_server_request *r)
{
    const unsigned char *at = h->values;
    COPSE_TRY(copse__peer_send(h->cluster, worker, &h->state, h->state_size, patience(h), "a state"));
    if (!h->versions)
        return copse__peer_send(h->cluster, worker, h->values, (size_t)h->reply.size, patience(h),
                                "values");
    COPSE_TRY(copse__peer_send(h->cluster, worker, h->versions, (size_t)r->size, patience(h),
                              "values"));
    for (uint32_t i = 0; i < r->count; i++) {
        const size_t size = (size_t)h->versions[i].elements * 4;
        COPSE_TRY(copse__peer_send(h->cluster, worker, at, size, patience(h), "values"));
        at += size;
    }
    return COPSE_OK;
}

static copse_status answer(struct hall *h, uint32_t worker)
{
    const struct copse_server_request *r = &h->clients[worker].request;
    COPSE_TRY(copse__request_check(h->shelf, r));
    COPSE_TRY(take_payload(h, worker, (size_t)r->size));
    h->reply = (struct copse_server_reply){ .magic = COPSE_SERVER_MAGIC };
    h->values = NULL;
    h->versions = NULL;
    h->state_size = 0;
    copse_status s = perform(h, worker);
    if (!s && !h->values) /* who hears of a change finds it in the window; who reads changes nothing */
        s = copse__keeper_publish(&h->window);
    if (!s && r->op == COPSE_SERVER_MAKE)
        h->reply.value = copse__keeper_place(&h->window, h->reply.id);
    h->reply.status = (uint32_t)s;
    if (s)
        snprintf(h->reply.text, sizeof h->reply.text, "%s", copse_last_error());
    COPSE_TRY(copse__peer_send(h->cluster, worker, &h->reply, sizeof h->reply, patience(h),
                              "a reply"));
    return s ? COPSE_OK : send_values(h, worker, r);
}

/* What comes late of a message that was given up must not fall among another worker's. */
static void set_aside(struct hall *h, uint32_t worker)
{
    if (!(h->cluster->window.stuck >> worker & 1))
        return;
    copse__window_keep(h->cluster, h->payload);
    copse__window_keep(h->cluster, h->shelf->landing);
    h->payload = NULL;
    h->shelf->landing = NULL;
    h->room = h->shelf->landing_bytes = 0;
}

/* It is gone, or not to be understood: its part is over. */
static void give_up(struct hall *h, uint32_t worker, const char *why)
{
    struct client *c = &h->clients[worker];
    char name[COPSE_WORKERS_TEXT];
    set_aside(h, worker);
    copse__cluster_drop(h->cluster, &c->parcel, 1);
    copse__silence_end(h->cluster, &c->silence);
    c->is_over = true;
    if (!copse__peer_is_gone(h->cluster, worker)) /* should it wake up, or mean something else */
        copse__notice_give_up(h->cluster, worker);
    if (c->is_done)
        return;
    h->summary.lost++;
    copse__log(&h->shelf->ctx->base.log, COPSE_LOG_WARN, "parameter server: %s is lost, the others go on%s%s",
               copse__cluster_names(h->cluster, 1ull << worker, name), *why ? ": " : "", why);
}

/* Whether its next request is there. Where none can come any more, its part is over. */
static bool has_asked(struct hall *h, uint32_t worker)
{
    struct client *c = &h->clients[worker];
    const struct copse_transport_table *table = h->cluster->table;
    bool is_gone = false;
    copse_status s = table->wait(&h->cluster->t, c->parcel.op, 0);
    if (s == COPSE_ERR_TIMEOUT && copse__peer_is_gone(h->cluster, worker)) {
        is_gone = true; /* what it sent last may be here all the same */
        s = table->wait(&h->cluster->t, c->parcel.op, IDLE_NS);
    }
    if (s != COPSE_ERR_TIMEOUT)
        c->parcel.op = NULL;
    if (s && (is_gone || s != COPSE_ERR_TIMEOUT)) {
        copse__notices_look(h->cluster); /* what it said came before its end */
        give_up(h, worker, copse__peer_failure(h->cluster, worker) ? h->cluster->notices[worker].why : "");
    }
    return s == COPSE_OK;
}

static void take_turn(struct hall *h, uint32_t worker)
{
    struct client *c = &h->clients[worker];
    copse_status s = answer(h, worker);
    /* over an engine whose ranks leave together it asks until all are done */
    if (!s && c->is_done && (h->reply.value || !h->cluster->table->ends_together))
        c->is_over = true;
    else if (!s)
        s = expect(h, worker);
    if (s)
        give_up(h, worker, copse_last_error());
}

/* Who has been silent for too long is given up. Now and then: it costs as much as asking for a request. */
static void listen_to_all(struct hall *h)
{
    const uint64_t now = copse__now_ns(), passed = now - h->listened_ns;
    if (passed < COPSE_MIN(h->cluster->deadline_ns / 40, LISTEN_NS))
        return;
    h->listened_ns = now;
    for (uint32_t w = 0; w < h->client_count; w++) {
        struct client *c = &h->clients[w];
        if (!c->is_over && copse__silence_look(h->cluster, w, &c->silence, passed))
            give_up(h, w, copse_last_error());
    }
}

static bool all_over(const struct hall *h)
{
    for (uint32_t w = 0; w < h->client_count; w++)
        if (!h->clients[w].is_over)
            return false;
    return true;
}

/* Where all have failed, so has the job, and as the first of them. */
static copse_status check_failures(const struct hall *h)
{
    copse__notices_look(h->cluster);
    for (uint32_t w = 0; w < h->client_count; w++)
        if (!copse__peer_failure(h->cluster, w))
            return COPSE_OK;
    return copse_fail(copse__peer_failure(h->cluster, 0), "parameter server: %s", h->cluster->notices[0].why);
}

static copse_status serve(struct hall *h)
{
    h->client_count = copse_cluster_size(h->cluster);
    h->listened_ns = copse__now_ns();
    for (uint32_t w = 0; w < h->client_count; w++)
        if (expect(h, w) || copse__silence_begin(h->cluster, w, &h->clients[w].silence))
            give_up(h, w, h->cluster->t.text);
    while (!all_over(h)) {
        bool is_any = false;
        for (uint32_t w = 0; w < h->client_count; w++)
            if (!h->clients[w].is_over && has_asked(h, w)) {
                copse__silence_break(&h->clients[w].silence);
                take_turn(h, w);
                is_any = true;
            }
        listen_to_all(h);
        for (size_t i = 0; i < h->groups.count; i++)
            for (uint32_t w = 0; w < h->client_count; w++)
                if (h->clients[w].is_over && (h->groups.at[i].holders >> w & 1 || !h->groups.at[i].holders))
                    let_go(h, w, &h->groups.at[i]);
        if (!is_any)
            copse__sleep_ns(IDLE_NS);
    }
    for (uint32_t w = 0; w < h->client_count; w++)
        copse__silence_end(h->cluster, &h->clients[w].silence);
    return check_failures(h);
}

copse_status copse_parameter_server_serve(copse_context *ctx, copse_cluster *cluster,
                                          const char *device,
                                          struct copse_parameter_server_summary *out)
{
    struct hall *h;
    if (!ctx || !cluster)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: context or cluster is NULL");
    if (out)
        *out = (struct copse_parameter_server_summary){ 0 };
    COPSE_TRY(copse__cluster_check(cluster));
    if (copse_cluster_rank(cluster) < copse_cluster_size(cluster))
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: this task is a worker, and serves "
                                              "nobody");
    h = copse__alloc(&ctx->base.mem, 1, sizeof *h);
    if (!h)
        return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
    h->cluster = cluster;
    copse_status s = copse__shelf_create(ctx, device ? device : "host:0", &h->shelf);
    if (!s) {
        h->server = &h->shelf->server;
        copse__keeper_init(&h->window, cluster, h->shelf);
        s = serve(h);
        h->summary.variables = (uint32_t)h->shelf->variables.count;
        copse__keeper_fini(&h->window);
    }
    if (out)
        *out = h->summary;
    copse__shelf_release(&h->shelf);
    copse__free(&ctx->base.mem, h->groups.at);
    copse__free(&ctx->base.mem, h->changed.at);
    copse__free(&ctx->base.mem, h->payload);
    copse__free(&ctx->base.mem, h);
    return s;
}
