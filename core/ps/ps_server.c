/* SPDX-License-Identifier: MIT */
/* A ps task: serves the requests of all workers, one at a time in order of arrival, until all
   workers have left. The loss of a worker does not affect the others. */
#include <stdio.h>

#include "copse/distribute/parameter_server.h"
#include "core/ps/failure_detector.h"
#include "core/ps/one_sided.h"
#include "core/ps/parameter_store.h"
#include "core/ps/protocol.h"

#define IDLE_NS  50000ull
#define CHECK_NS 50000000ull

/* The n-th optimizer without a key of every worker, or the optimizer with the key. */
struct shared_group {
    uint64_t key;
    uint32_t number;  /* n, without a key */
    uint32_t group;   /* the store's */
    uint64_t holders; /* workers that use it */
    uint64_t joined;  /* workers that have joined it since it was made */
    bool is_used;
};

struct client {
    struct copse_pending pending; /* of its next request */
    struct copse_failure_detector detector;
    struct copse_server_request request;
    uint32_t groups; /* number of its GROUP requests without a key */
    bool is_done;    /* it has sent LEAVE */
    bool is_over;    /* no further request is expected */
};

struct ps_server {
    copse_cluster *cluster;
    struct copse_pstore *store;
    struct copse_server *server; /* the store's */
    struct copse_one_sided_server window;
    struct client clients[COPSE_MAX_WORKERS];
    uint32_t client_count;
    uint64_t checked_ns; /* last check of heartbeats */
    struct {
        struct shared_group *at;
        size_t count, room;
    } groups;
    struct {
        uint32_t *at;
        size_t count, room;
    } changed; /* of a pull */
    unsigned char *payload;
    size_t room;
    struct copse_server_reply reply;
    const void *values;                 /* sent after the reply */
    struct copse_server_seen *versions; /* sent after the reply; in the payload */
    struct copse_server_state state;    /* sent after the reply: the first `state_size` bytes */
    size_t state_size;
    struct copse_parameter_server_summary summary;
};

/* Timeout within a request; workers that wait for their turn have twice that. */
static uint64_t timeout_ns(const struct ps_server *ps)
{
    return ps->cluster->deadline_ns / 2;
}

/* ---- payloads ---- */

static copse_status ps_server_bad(const char *what)
{
    return copse_fail(COPSE_ERR_COMM, "parameter server: malformed %s", what);
}

/* The size was checked. The memory is not zeroed: pages that receive no bytes are not used. */
static copse_status take_payload(struct ps_server *ps, uint32_t worker, size_t size)
{
    struct copse_mem *mem = &ps->store->ctx->base.mem;
    if (size > ps->room || !ps->payload) {
        copse__free(mem, ps->payload);
        ps->room = 0;
        ps->payload = copse__resize(mem, NULL, size, 1);
        if (!ps->payload)
            return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory for %zu bytes",
                              size);
        ps->room = size;
    }
    return copse__peer_recv(ps->cluster, worker, ps->payload, size, timeout_ns(ps), "a request");
}

/* If the chief has exited, workers skip the chief-only phase. */
static copse_status check_chief(const struct ps_server *ps, const char *what)
{
    if (!ps->clients[0].is_done && !ps->clients[0].is_over)
        return COPSE_OK;
    copse__notices_poll(ps->cluster);
    const copse_status failure = copse__peer_failure(ps->cluster, 0);
    return failure
               ? copse_fail(failure, "parameter server: %s", ps->cluster->notices[0].why)
               : copse_fail(COPSE_ERR_COMM, "parameter server: the chief has left, and %s", what);
}

/* ---- requests; the store checks ids ---- */

static copse_status do_make(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_server_making m;
    memcpy(&m, ps->payload, sizeof m);
    const uint64_t rest = r->size - sizeof m;
    struct copse_server_variable v = { .type = (copse_type)m.type, .may_begin = m.may_begin };
    v.shape.rank = m.rank;
    memcpy(v.shape.dims, m.dims, sizeof m.dims);
    const uint64_t elements = m.rank > COPSE_MAX_RANK ? 0 : copse__elements(v.shape);
    if (m.type > COPSE_I32 || elements == 0 || elements >= (uint64_t)1 << 31 || m.name_bytes == 0 ||
        m.name_bytes % 4 != 0 || m.name_bytes > COPSE_MIN(rest, COPSE_SERVER_NAME_BYTES) ||
        ps->payload[sizeof m + m.name_bytes - 1] != 0 ||
        rest - m.name_bytes != (m.may_begin ? elements * COPSE_WORD_BYTES : 0))
        return ps_server_bad("variable");
    if (ps->store->variables.count >= COPSE_SERVER_VARIABLES)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "parameter server: it has %u variables; make fewer, or more servers",
                          COPSE_SERVER_VARIABLES);
    v.name = (const char *)ps->payload + sizeof m;
    v.values = ps->payload + sizeof m + m.name_bytes;
    const copse_status s = ps->server->table->make(ps->server, &v, &ps->reply.id);
    if (s == COPSE_ERR_TIMEOUT)
        COPSE_TRY(check_chief(ps, "has not made this variable"));
    return s;
}

static copse_status do_pull(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_variable *v;
    struct copse_server_seen *seen = (void *)ps->payload;
    if (!COPSE_RESERVE(&ps->store->ctx->base.mem, &ps->changed, r->count))
        return copse_no_memory("parameter server");
    ps->changed.count = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        COPSE_TRY(copse__pstore_find(ps->store, seen[i].id, &v));
        seen[i].elements = seen[i].version != v->version ? (uint32_t)v->count : 0;
        seen[i].version = v->version;
        if (seen[i].elements > 0)
            ps->changed.at[ps->changed.count++] = seen[i].id;
    }
    ps->versions = seen;
    return copse__pstore_snapshot(ps->store, ps->changed.at, (uint32_t)ps->changed.count,
                                  &ps->values);
}

static copse_status do_read(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_variable *v;
    COPSE_TRY(copse__pstore_find(ps->store, r->id, &v));
    ps->reply.size = v->count * COPSE_WORD_BYTES;
    return copse__pstore_snapshot(ps->store, &r->id, 1, &ps->values);
}

static copse_status do_change(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_variable *v;
    COPSE_TRY(copse__pstore_find(ps->store, r->id, &v));
    if (r->how > COPSE_CHANGE_SUB)
        return ps_server_bad("change");
    return ps->server->table->change(ps->server, r->id, (enum copse_change)r->how, v->count,
                                     ps->payload);
}

static copse_status do_scatter(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_variable *v;
    COPSE_TRY(copse__pstore_find(ps->store, r->id, &v));
    const uint64_t row = v->shape.rank > 0 ? v->count / v->shape.dims[0] : 0;
    if (row == 0 || r->how < COPSE_SCATTER_ADD || r->how >= COPSE_CHANGES)
        return ps_server_bad("change of rows");
    const struct copse_rows rows = { r->count, (size_t)row, (const void *)ps->payload,
                                     (const void *)(ps->payload +
                                                    COPSE_WORD_BYTES * (size_t)r->count) };
    return ps->server->table->scatter(ps->server, r->id, (enum copse_change)r->how, &rows);
}

static struct shared_group *find_group(struct ps_server *ps, uint64_t key, uint32_t number)
{
    const struct shared_group fresh = { .key = key, .number = number };
    for (size_t i = 0; i < ps->groups.count; i++)
        if (ps->groups.at[i].key == key && ps->groups.at[i].number == number)
            return &ps->groups.at[i];
    return COPSE_PUSH(&ps->store->ctx->base.mem, &ps->groups, fresh)
               ? &ps->groups.at[ps->groups.count - 1]
               : NULL;
}

static bool is_of(const struct ps_server *ps, const struct shared_group *shared,
                  const uint32_t *ids, uint32_t count, const struct copse_optimizer_params *rule)
{
    struct copse_pstore_group *g;
    return copse__pstore_group(ps->store, shared->group, &g) == COPSE_OK &&
           copse__pstore_group_is(g, ids, count, rule);
}

static void drop_group(struct ps_server *ps, struct shared_group *shared)
{
    ps->server->table->drop(ps->server, shared->group);
    shared->is_used = false;
}

/* Make the group, or join it and check that rule and variables are the same. */
static copse_status do_group(struct ps_server *ps, uint32_t worker,
                             const struct copse_server_request *r)
{
    struct copse_server_rule as;
    memcpy(&as, ps->payload, sizeof as);
    const uint32_t *ids = (const void *)(ps->payload + sizeof as);
    const struct copse_optimizer_params rule = {
        .kind = (copse_optimizer_kind)as.kind,
        .learning_rate = as.learning_rate,
        .momentum = as.momentum,
        .beta1 = as.beta1,
        .beta2 = as.beta2,
        .epsilon = as.epsilon,
        .weight_decay = as.weight_decay,
        .average = as.average,
        .initial = as.initial,
        .l1 = as.l1,
        .l2 = as.l2,
        .momentum_decay = as.momentum_decay,
        .is_centred = as.is_centred,
        .trust = as.trust,
        .epsilon_in_root = as.epsilon_in_root,
        .plain_average = as.plain_average,
    };
    const uint32_t n = r->value ? 0 : ps->clients[worker].groups;
    struct shared_group *shared = find_group(ps, r->value, n);
    if (!shared)
        return copse_no_memory("parameter server");
    if (shared->is_used && r->value && !shared->holders && !is_of(ps, shared, ids, r->count, &rule))
        drop_group(ps, shared); /* it was kept for workers that join with other variables now */
    if (!shared->is_used) {
        COPSE_TRY(
            ps->server->table->group(ps->server, r->value, ids, r->count, &rule, &shared->group));
        shared->is_used = true;
        shared->joined = 0;
    }
    if (!is_of(ps, shared, ids, r->count, &rule) && r->value)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "parameter server: another worker's optimizer of that name has "
                          "another rule or other variables");
    if (!is_of(ps, shared, ids, r->count, &rule))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "parameter server: another worker's optimizer %u is of other "
                          "variables or another rule; all workers make the same "
                          "trainers in the same order",
                          n);
    shared->holders |= 1ull << worker;
    shared->joined |= 1ull << worker;
    ps->clients[worker].groups += !r->value;
    ps->reply.id = shared->group;
    return COPSE_OK;
}

/* Whether a worker may still join: the group holds its restored progress, and the others may be
   done already. Any worker may join a group with a key. */
static bool may_be_joined(const struct ps_server *ps, const struct shared_group *shared)
{
    for (uint32_t w = 0; w < ps->client_count; w++) {
        const struct client *c = &ps->clients[w];
        const bool has_joined =
            shared->key ? (shared->joined >> w & 1) != 0 : c->groups > shared->number;
        if (!c->is_done && !c->is_over && !has_joined)
            return true;
    }
    return false;
}

/* The last worker that leaves a group drops it. */
static void leave_group(struct ps_server *ps, uint32_t worker, struct shared_group *shared)
{
    shared->holders &= ~(1ull << worker);
    if (shared->is_used && shared->holders == 0 && !may_be_joined(ps, shared))
        drop_group(ps, shared);
}

static copse_status do_drop(struct ps_server *ps, uint32_t worker,
                            const struct copse_server_request *r)
{
    for (size_t i = 0; i < ps->groups.count; i++)
        if (ps->groups.at[i].is_used && ps->groups.at[i].group == r->group)
            leave_group(ps, worker, &ps->groups.at[i]);
    return COPSE_OK;
}

static copse_status take_gradients(struct ps_server *ps, uint32_t worker, uint64_t number,
                                   size_t size, const void **gradients)
{
    char name[COPSE_WORKERS_TEXT];
    bool is_unread;
    const copse_status s = copse__one_sided_server_fetch(&ps->window, worker, number, size,
                                                         timeout_ns(ps), gradients, &is_unread);
    if (is_unread) {
        ps->reply.id = COPSE_SERVER_UNREAD;
        copse__log(&ps->store->ctx->base.log, COPSE_LOG_INFO,
                   "parameter server: gradients of %s are sent by message: %s",
                   copse__cluster_names(ps->cluster, 1ull << worker, name), copse_last_error());
    }
    return s;
}

static copse_status do_push(struct ps_server *ps, uint32_t worker,
                            const struct copse_server_request *r)
{
    struct copse_pstore_group *g;
    const void *gradients = ps->payload;
    COPSE_TRY(copse__pstore_group(ps->store, r->group, &g));
    if (r->value)
        COPSE_TRY(take_gradients(ps, worker, r->value, (size_t)g->elements * COPSE_WORD_BYTES,
                                 &gradients));
    const struct copse_server_push push = {
        .worker = worker,
        .progress = r->progress,
        .rate = r->rate,
        .scale = r->scale,
        .gradients = gradients,
        .elements = g->elements,
        .is_unchecked = r->how != 0,
    };
    ps->summary.updates++;
    return ps->server->table->push(ps->server, r->group, &push, &ps->reply.value);
}

static copse_status do_slot(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_group *g;
    COPSE_TRY(copse__pstore_group(ps->store, r->group, &g));
    if (!r->how)
        return copse__pstore_snapshot_slot(ps->store, r->group, r->id, r->count, &ps->values,
                                           &ps->reply.size);
    return ps->server->table->slot(ps->server, r->group, r->id, r->count, true,
                                   r->size / COPSE_WORD_BYTES, ps->payload);
}

static copse_status do_snapshot(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_pstore_group *g;
    COPSE_TRY(copse__pstore_group(ps->store, r->group, &g));
    ps->state = (struct copse_server_state){ g->updates, g->progress };
    ps->state_size = sizeof ps->state;
    return copse__pstore_snapshot_group(ps->store, r->group, &ps->values, &ps->reply.size);
}

static copse_status do_progress(struct ps_server *ps, const struct copse_server_request *r)
{
    struct copse_server_progress *progress = (void *)&ps->state;
    if (r->how > COPSE_PROGRESS_OPEN)
        return ps_server_bad("progress record");
    if (r->how == COPSE_PROGRESS_SET)
        memcpy(progress, ps->payload, sizeof *progress);
    COPSE_TRY(ps->server->table->progress(ps->server, r->group, (enum copse_progress_op)r->how,
                                          progress));
    if (r->how != COPSE_PROGRESS_READ)
        return COPSE_OK;
    ps->state_size = sizeof *progress;
    return progress->is_open
               ? COPSE_OK
               : check_chief(ps, "has neither restored nor written a checkpoint: see its "
                                 "log");
}

static copse_status do_counts(struct ps_server *ps, const struct copse_server_request *r)
{
    ps->reply.value = r->value;
    return r->op == COPSE_SERVER_COUNTER
               ? ps->server->table->counter(ps->server, r->how, &ps->reply.value)
               : ps->server->table->updates(ps->server, r->group, r->how, &ps->reply.value);
}

static copse_status do_leave(struct ps_server *ps, uint32_t worker)
{
    ps->clients[worker].is_done = true;
    ps->reply.value = 1;
    for (uint32_t w = 0; w < ps->client_count; w++)
        ps->reply.value &= ps->clients[w].is_done || ps->clients[w].is_over;
    return COPSE_OK;
}

static copse_status ps_server_perform(struct ps_server *ps, uint32_t worker)
{
    const struct copse_server_request *r = &ps->clients[worker].request;
    switch ((enum copse_server_op)r->op) {
    case COPSE_SERVER_MAKE:
        return do_make(ps, r);
    case COPSE_SERVER_PULL:
        return do_pull(ps, r);
    case COPSE_SERVER_READ:
        return do_read(ps, r);
    case COPSE_SERVER_CHANGE:
        return do_change(ps, r);
    case COPSE_SERVER_SCATTER:
        return do_scatter(ps, r);
    case COPSE_SERVER_GROUP:
        return do_group(ps, worker, r);
    case COPSE_SERVER_DROP:
        return do_drop(ps, worker, r);
    case COPSE_SERVER_PUSH:
        return do_push(ps, worker, r);
    case COPSE_SERVER_SLOT:
        return do_slot(ps, r);
    case COPSE_SERVER_SNAPSHOT:
        return do_snapshot(ps, r);
    case COPSE_SERVER_PROGRESS:
        return do_progress(ps, r);
    case COPSE_SERVER_UPDATES:
    case COPSE_SERVER_COUNTER:
        return do_counts(ps, r);
    case COPSE_SERVER_LEAVE:
        return do_leave(ps, worker);
    case COPSE_SERVER_OPS:
        break;
    }
    return ps_server_bad("request");
}

/* ---- the loop ---- */

static copse_status ps_server_expect(struct ps_server *ps, uint32_t worker)
{
    struct client *c = &ps->clients[worker];
    c->pending.peer = worker;
    return ps->cluster->table->recv(&ps->cluster->t, worker, COPSE_TAG_PEER, &c->request,
                                    sizeof c->request, &c->pending.op);
}

static copse_status send_values(struct ps_server *ps, uint32_t worker,
                                const struct copse_server_request *r)
{
    const unsigned char *at = ps->values;
    COPSE_TRY(copse__peer_send(ps->cluster, worker, &ps->state, ps->state_size, timeout_ns(ps),
                               "a state"));
    if (!ps->versions)
        return copse__peer_send(ps->cluster, worker, ps->values, (size_t)ps->reply.size,
                                timeout_ns(ps), "values");
    COPSE_TRY(copse__peer_send(ps->cluster, worker, ps->versions, (size_t)r->size, timeout_ns(ps),
                               "values"));
    for (uint32_t i = 0; i < r->count; i++) {
        const size_t size = (size_t)ps->versions[i].elements * COPSE_WORD_BYTES;
        COPSE_TRY(copse__peer_send(ps->cluster, worker, at, size, timeout_ns(ps), "values"));
        at += size;
    }
    return COPSE_OK;
}

static copse_status ps_server_answer(struct ps_server *ps, uint32_t worker)
{
    const struct copse_server_request *r = &ps->clients[worker].request;
    COPSE_TRY(copse__request_check(ps->store, r));
    COPSE_TRY(take_payload(ps, worker, (size_t)r->size));
    ps->reply = (struct copse_server_reply){ .magic = COPSE_SERVER_MAGIC };
    ps->values = NULL;
    ps->versions = NULL;
    ps->state_size = 0;
    copse_status s = ps_server_perform(ps, worker);
    /* publish changes before the reply; requests that return values change nothing */
    if (!s && !ps->values)
        s = copse__one_sided_server_publish(&ps->window);
    if (!s && r->op == COPSE_SERVER_MAKE)
        ps->reply.value = copse__one_sided_server_offset(&ps->window, ps->reply.id);
    ps->reply.status = (uint32_t)s;
    if (s)
        snprintf(ps->reply.text, sizeof ps->reply.text, "%s", copse_last_error());
    COPSE_TRY(copse__peer_send(ps->cluster, worker, &ps->reply, sizeof ps->reply, timeout_ns(ps),
                               "a reply"));
    return s ? COPSE_OK : send_values(ps, worker, r);
}

/* A late write of a dropped message must not hit the memory of another worker's request. */
static void keep_stuck(struct ps_server *ps, uint32_t worker)
{
    if (!(ps->cluster->window.stuck >> worker & 1))
        return;
    copse__window_keep(ps->cluster, ps->payload);
    copse__window_keep(ps->cluster, ps->store->staging);
    ps->payload = NULL;
    ps->store->staging = NULL;
    ps->room = ps->store->staging_bytes = 0;
}

/* The worker is lost or sent a malformed request: stop serving it. */
static void abort_worker(struct ps_server *ps, uint32_t worker, const char *why)
{
    struct client *c = &ps->clients[worker];
    char name[COPSE_WORKERS_TEXT];
    keep_stuck(ps, worker);
    copse__cluster_drop(ps->cluster, &c->pending, 1);
    copse__failure_detector_end(ps->cluster, &c->detector);
    c->is_over = true;
    if (!copse__peer_is_gone(ps->cluster, worker)) /* it may be alive */
        copse__peer_abort(ps->cluster, worker);
    if (c->is_done)
        return;
    ps->summary.lost++;
    copse__log(&ps->store->ctx->base.log, COPSE_LOG_WARN,
               "parameter server: %s is lost, the others continue%s%s",
               copse__cluster_names(ps->cluster, 1ull << worker, name), *why ? ": " : "", why);
}

/* Whether its next request has arrived. If none can arrive, stop serving it. */
static bool has_request(struct ps_server *ps, uint32_t worker)
{
    struct client *c = &ps->clients[worker];
    const struct copse_transport_table *table = ps->cluster->table;
    bool is_gone = false;
    copse_status s = table->wait(&ps->cluster->t, c->pending.op, 0);
    if (s == COPSE_ERR_TIMEOUT && copse__peer_is_gone(ps->cluster, worker)) {
        is_gone = true; /* its last message may have arrived */
        s = table->wait(&ps->cluster->t, c->pending.op, IDLE_NS);
    }
    if (s != COPSE_ERR_TIMEOUT)
        c->pending.op = NULL;
    if (s && (is_gone || s != COPSE_ERR_TIMEOUT)) {
        copse__notices_poll(ps->cluster); /* its notice arrived before its end */
        abort_worker(ps, worker,
                     copse__peer_failure(ps->cluster, worker) ? ps->cluster->notices[worker].why
                                                              : "");
    }
    return s == COPSE_OK;
}

static void serve_request(struct ps_server *ps, uint32_t worker)
{
    struct client *c = &ps->clients[worker];
    copse_status s = ps_server_answer(ps, worker);
    /* over an engine whose ranks leave together it repeats LEAVE until all are done */
    if (!s && c->is_done && (ps->reply.value || !ps->cluster->table->ends_together))
        c->is_over = true;
    else if (!s)
        s = ps_server_expect(ps, worker);
    if (s)
        abort_worker(ps, worker, copse_last_error());
}

/* Stop serving workers without heartbeats. Not in every iteration: a check costs as much as polling
   a request. */
static void check_heartbeats(struct ps_server *ps)
{
    const uint64_t now = copse__now_ns(), passed = now - ps->checked_ns;
    if (passed < COPSE_MIN(ps->cluster->deadline_ns / 40, CHECK_NS))
        return;
    ps->checked_ns = now;
    for (uint32_t w = 0; w < ps->client_count; w++) {
        struct client *c = &ps->clients[w];
        if (!c->is_over && copse__failure_detector_check(ps->cluster, w, &c->detector, passed))
            abort_worker(ps, w, copse_last_error());
    }
}

static bool all_over(const struct ps_server *ps)
{
    for (uint32_t w = 0; w < ps->client_count; w++)
        if (!ps->clients[w].is_over)
            return false;
    return true;
}

/* If all workers have failed, return the failure of the first. */
static copse_status check_failures(const struct ps_server *ps)
{
    copse__notices_poll(ps->cluster);
    for (uint32_t w = 0; w < ps->client_count; w++)
        if (!copse__peer_failure(ps->cluster, w))
            return COPSE_OK;
    return copse_fail(copse__peer_failure(ps->cluster, 0), "parameter server: %s",
                      ps->cluster->notices[0].why);
}

static copse_status ps_server_serve(struct ps_server *ps)
{
    ps->client_count = copse_cluster_size(ps->cluster);
    ps->checked_ns = copse__now_ns();
    for (uint32_t w = 0; w < ps->client_count; w++)
        if (ps_server_expect(ps, w) ||
            copse__failure_detector_begin(ps->cluster, w, &ps->clients[w].detector))
            abort_worker(ps, w, ps->cluster->t.text);
    while (!all_over(ps)) {
        bool is_any = false;
        for (uint32_t w = 0; w < ps->client_count; w++)
            if (!ps->clients[w].is_over && has_request(ps, w)) {
                copse__failure_detector_heard(&ps->clients[w].detector);
                serve_request(ps, w);
                is_any = true;
            }
        check_heartbeats(ps);
        for (size_t i = 0; i < ps->groups.count; i++)
            for (uint32_t w = 0; w < ps->client_count; w++)
                if (ps->clients[w].is_over &&
                    (ps->groups.at[i].holders >> w & 1 || !ps->groups.at[i].holders))
                    leave_group(ps, w, &ps->groups.at[i]);
        if (!is_any)
            copse__sleep_ns(IDLE_NS);
    }
    for (uint32_t w = 0; w < ps->client_count; w++)
        copse__failure_detector_end(ps->cluster, &ps->clients[w].detector);
    return check_failures(ps);
}

copse_status copse_parameter_server_serve(copse_context *ctx, copse_cluster *cluster,
                                          const char *device,
                                          struct copse_parameter_server_summary *out)
{
    struct ps_server *ps;
    if (!ctx || !cluster)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: context or cluster is NULL");
    if (out)
        *out = (struct copse_parameter_server_summary){ 0 };
    COPSE_TRY(copse__cluster_check(cluster));
    if (copse_cluster_rank(cluster) < copse_cluster_size(cluster))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "parameter server: this task is a worker; only a task "
                          "with the role ps serves");
    ps = copse__alloc(&ctx->base.mem, 1, sizeof *ps);
    if (!ps)
        return copse_no_memory("parameter server");
    ps->cluster = cluster;
    copse_status s = copse__pstore_create(ctx, device ? device : "host:0", &ps->store);
    if (!s) {
        ps->server = &ps->store->server;
        copse__one_sided_server_init(&ps->window, cluster, ps->store);
        s = ps_server_serve(ps);
        ps->summary.variables = (uint32_t)ps->store->variables.count;
        copse__one_sided_server_fini(&ps->window);
    }
    if (out)
        *out = ps->summary;
    copse__pstore_release(&ps->store);
    copse__free(&ctx->base.mem, ps->groups.at);
    copse__free(&ctx->base.mem, ps->changed.at);
    copse__free(&ctx->base.mem, ps->payload);
    copse__free(&ctx->base.mem, ps);
    return s;
}
