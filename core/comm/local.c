/* SPDX-License-Identifier: MIT */
/* The engine between threads: sends and receives wait in one list until they match and the bytes
   are copied. */
#include "core/comm/local.h"

struct copse_transport_op {
    struct copse_transport_op *next; /* of the hub's list */
    uint64_t job;
    uint32_t src, dst, tag;
    bool is_send, is_done, is_broken;
    const void *from;
    void *to;
    size_t size;
};

struct copse_local_hub {
    copse_context *ctx; /* retained */
    copse_mutex lock;
    copse_cond changed;
    struct copse_transport_op *first, **last; /* in posting order */
    uint64_t messages[COPSE_MAX_WORKERS];     /* by sender */
    struct group {
        uint64_t job, here; /* ranks that have arrived and not left */
        uint64_t came;
        unsigned char *windows[COPSE_MAX_WORKERS]; /* by rank */
    } groups[16];
    uint32_t group_count;
};

copse_status copse__local_hub_create(copse_context *ctx, struct copse_local_hub **out)
{
    struct copse_local_hub *hub = copse__alloc(&ctx->base.mem, 1, sizeof *hub);
    if (!hub)
        return copse_no_memory("cluster");
    hub->ctx = copse_context_retain(ctx);
    hub->last = &hub->first;
    copse_status s = copse__mutex_init(&hub->lock);
    if (!s)
        s = copse__cond_init(&hub->changed);
    *out = hub;
    return s;
}

void copse__local_hub_free(struct copse_local_hub **at)
{
    struct copse_local_hub *hub = *at;
    if (!hub)
        return;
    copse_context *ctx = hub->ctx;
    copse__cond_fini(&hub->changed);
    copse__mutex_fini(&hub->lock);
    copse__free(&ctx->base.mem, hub);
    copse_context_release(&ctx);
    *at = NULL;
}

static struct copse_local_hub *hub_of(struct copse_transport *t)
{
    return t->user;
}

static void unlink_op(struct copse_local_hub *hub, struct copse_transport_op *op)
{
    struct copse_transport_op **at = &hub->first;
    while (*at && *at != op)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = op->next;
    if (hub->last == &op->next)
        hub->last = at;
}

/* All ops of a lost worker fail. Locked. */
static void break_ops(struct copse_local_hub *hub, uint64_t job, uint32_t rank)
{
    for (struct copse_transport_op *op = hub->first; op; op = op->next)
        if (op->job == job && (op->src == rank || op->dst == rank))
            op->is_broken = true;
    for (struct copse_transport_op **at = &hub->first; *at;)
        if ((*at)->is_broken)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    for (hub->last = &hub->first; *hub->last; hub->last = &(*hub->last)->next)
        ;
}

static struct group *group_of(struct copse_local_hub *hub, uint64_t job)
{
    for (uint32_t i = 0; i < hub->group_count; i++)
        if (hub->groups[i].job == job)
            return &hub->groups[i];
    if (hub->group_count == COPSE_COUNT(hub->groups))
        return NULL;
    hub->groups[hub->group_count].job = job;
    return &hub->groups[hub->group_count++];
}

void copse__local_hub_kill(struct copse_local_hub *hub, uint32_t rank)
{
    copse__mutex_lock(&hub->lock);
    struct group *g = &hub->groups[hub->group_count - 1];
    g->here &= ~(1ull << rank);
    break_ops(hub, g->job, rank);
    copse__cond_signal_all(&hub->changed);
    copse__mutex_unlock(&hub->lock);
}

static copse_status local_open(struct copse_transport *t)
{
    struct copse_local_hub *hub = hub_of(t);
    const uint64_t all = t->size == 64 ? UINT64_MAX : (1ull << t->size) - 1;
    copse_status s = COPSE_OK;
    copse__mutex_lock(&hub->lock);
    struct group *g = group_of(hub, t->job);
    if (!g)
        s = copse_transport_fail(t, COPSE_ERR_UNSUPPORTED, "too many groups");
    else
        g->here |= 1ull << t->rank;
    if (!s)
        g->came |= 1ull << t->rank;
    copse__cond_signal_all(&hub->changed);
    while (!s && (g->came & all) != all)
        if (!copse__cond_wait(&hub->changed, &hub->lock, t->deadline_ns)) {
            t->missing = all & ~g->came;
            s = copse_transport_fail(t, COPSE_ERR_TIMEOUT, "not all ranks arrived");
        }
    copse__mutex_unlock(&hub->lock);
    t->priv = s ? NULL : g;
    return s;
}

uint64_t copse__local_hub_messages(struct copse_local_hub *hub, uint32_t rank)
{
    copse__mutex_lock(&hub->lock);
    const uint64_t messages = hub->messages[rank];
    copse__mutex_unlock(&hub->lock);
    return messages;
}

static void local_close(struct copse_transport *t, bool is_orderly)
{
    struct copse_local_hub *hub = hub_of(t);
    struct group *g = t->priv;
    (void)is_orderly;
    if (!g)
        return;
    copse__mutex_lock(&hub->lock);
    g->here &= ~(1ull << t->rank);
    break_ops(hub, t->job, t->rank);
    t->resize(t->resize_user, g->windows[t->rank], 0);
    g->windows[t->rank] = NULL;
    copse__cond_signal_all(&hub->changed);
    copse__mutex_unlock(&hub->lock);
    t->priv = NULL;
}

/* Its other half, posted first. Locked. */
static struct copse_transport_op *find_match(struct copse_local_hub *hub,
                                             const struct copse_transport_op *op)
{
    struct copse_transport_op *o = hub->first;
    while (o && !(o->is_send != op->is_send && o->job == op->job && o->src == op->src &&
                  o->dst == op->dst && o->tag == op->tag))
        o = o->next;
    return o;
}

static copse_status local_post(struct copse_transport *t, struct copse_transport_op *op,
                               copse_transport_op **out)
{
    struct copse_local_hub *hub = hub_of(t);
    struct group *g = t->priv;
    copse_status s = COPSE_OK;
    copse__mutex_lock(&hub->lock);
    hub->messages[t->rank] += op->is_send;
    const uint32_t peer = op->is_send ? op->dst : op->src;
    struct copse_transport_op *other = find_match(hub, op);
    if (!(g->here >> peer & 1)) {
        t->lost |= 1ull << peer;
        s = copse_transport_fail(t, COPSE_ERR_COMM, "rank %u is gone", peer);
    } else if (!(g->here >> t->rank & 1)) {
        s = copse_transport_fail(t, COPSE_ERR_COMM, "this worker was killed");
    } else if (!other) {
        *hub->last = op;
        hub->last = &op->next;
    } else if (other->size != op->size) {
        s = copse_transport_fail(t, COPSE_ERR_INTERNAL,
                                 "a send of %zu bytes matches a receive of %zu", op->size,
                                 other->size);
    } else {
        memcpy(op->is_send ? other->to : op->to, op->is_send ? op->from : other->from, op->size);
        unlink_op(hub, other);
        other->is_done = op->is_done = true;
        copse__cond_signal_all(&hub->changed);
    }
    copse__mutex_unlock(&hub->lock);
    if (s)
        t->resize(t->resize_user, op, 0);
    else
        *out = op;
    return s;
}

static copse_status local_begin(struct copse_transport *t, const struct copse_transport_op *as,
                                copse_transport_op **out)
{
    struct copse_transport_op *op = t->resize(t->resize_user, NULL, sizeof *op);
    if (!op)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "no memory for a message");
    *op = *as;
    return local_post(t, op, out);
}

static copse_status local_send(struct copse_transport *t, uint32_t peer, uint32_t tag,
                               const void *bytes, size_t size, copse_transport_op **op)
{
    const struct copse_transport_op as = { .job = t->job,
                                           .src = t->rank,
                                           .dst = peer,
                                           .tag = tag,
                                           .is_send = true,
                                           .from = bytes,
                                           .size = size };
    return local_begin(t, &as, op);
}

static copse_status local_recv(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                               size_t size, copse_transport_op **op)
{
    const struct copse_transport_op as = {
        .job = t->job, .src = peer, .dst = t->rank, .tag = tag, .to = bytes, .size = size
    };
    return local_begin(t, &as, op);
}

static copse_status local_wait(struct copse_transport *t, copse_transport_op *op,
                               uint64_t timeout_ns)
{
    struct copse_local_hub *hub = hub_of(t);
    const uint64_t end = copse__now_ns() + timeout_ns;
    copse__mutex_lock(&hub->lock);
    while (!op->is_done && !op->is_broken && copse__now_ns() < end)
        copse__cond_wait(&hub->changed, &hub->lock, end);
    const bool is_done = op->is_done, is_broken = op->is_broken;
    copse__mutex_unlock(&hub->lock);
    if (!is_done && !is_broken)
        return COPSE_ERR_TIMEOUT;
    const uint32_t peer = op->is_send ? op->dst : op->src;
    t->resize(t->resize_user, op, 0);
    if (is_done)
        return COPSE_OK;
    t->lost |= 1ull << peer;
    return copse_transport_fail(t, COPSE_ERR_COMM, "rank %u is gone", peer);
}

static bool local_drop(struct copse_transport *t, copse_transport_op *op)
{
    struct copse_local_hub *hub = hub_of(t);
    copse__mutex_lock(&hub->lock);
    if (!op->is_done && !op->is_broken)
        unlink_op(hub, op);
    copse__mutex_unlock(&hub->lock);
    t->resize(t->resize_user, op, 0);
    return false;
}

/* ---- windows: copied in chunks, so that a reader can see a partial write ---- */

#define PIECE ((size_t)256)

static copse_status local_window_open(struct copse_transport *t, size_t size, uint64_t timeout_ns)
{
    struct copse_local_hub *hub = hub_of(t);
    struct group *g = t->priv;
    (void)timeout_ns;
    unsigned char *bytes = t->resize(t->resize_user, NULL, size);
    if (!bytes)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "no memory for a window");
    memset(bytes, 0, COPSE_MIN(size, PIECE));
    copse__mutex_lock(&hub->lock);
    g->windows[t->rank] = bytes;
    copse__mutex_unlock(&hub->lock);
    return COPSE_OK;
}

/* Returns whether the window exists. */
static bool copy_piece(struct copse_transport *t, uint32_t rank, bool is_put, size_t offset,
                       void *bytes, size_t size)
{
    struct copse_local_hub *hub = hub_of(t);
    const struct group *g = t->priv;
    copse__mutex_lock(&hub->lock);
    unsigned char *window = g->here >> rank & 1 ? g->windows[rank] : NULL;
    if (window)
        memcpy(is_put ? window + offset : bytes, is_put ? bytes : window + offset, size);
    copse__mutex_unlock(&hub->lock);
    return window != NULL;
}

static void local_window_put(struct copse_transport *t, size_t offset, const void *bytes,
                             size_t size)
{
    for (size_t at = 0; at < size; at += PIECE)
        copy_piece(t, t->rank, true, offset + at, (char *)(uintptr_t)bytes + at,
                   COPSE_MIN(size - at, PIECE));
}

static copse_status local_window_get(struct copse_transport *t, uint32_t peer, size_t offset,
                                     void *bytes, size_t size, copse_transport_op **out)
{
    bool is_there = true;
    for (size_t at = 0; at < size && is_there; at += PIECE)
        is_there = copy_piece(t, peer, false, offset + at, (char *)bytes + at,
                              COPSE_MIN(size - at, PIECE));
    if (!is_there) {
        t->lost |= 1ull << peer;
        return copse_transport_fail(t, COPSE_ERR_COMM, "rank %u is gone", peer);
    }
    struct copse_transport_op *op = t->resize(t->resize_user, NULL, sizeof *op);
    if (!op)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "no memory for a read");
    *op = (struct copse_transport_op){ .src = peer, .dst = t->rank, .is_done = true };
    *out = op;
    return COPSE_OK;
}

const struct copse_transport_table copse__transport_local = {
    .version = COPSE_TRANSPORT_VERSION,
    .name = "local",
    .is_ordered = true,
    .open = local_open,
    .close = local_close,
    .send = local_send,
    .recv = local_recv,
    .wait = local_wait,
    .drop = local_drop,
    .window_open = local_window_open,
    .window_put = local_window_put,
    .window_get = local_window_get,
};
