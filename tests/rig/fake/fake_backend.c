/* SPDX-License-Identifier: MIT */
/* See fake_backend.h. Commands run when they are appended, but reads complete only when their
   ticket is reached, and a ticket is reached only when the test allows it. */
#include "tests/rig/fake/fake_backend.h"

#include <stdio.h>
#include <stdlib.h>

#define HOST_ROOM 4096 /* for the host backend's private part, which comes first */

extern const struct copse_backend copse_backend_host;
static const struct copse_backend *const host = &copse_backend_host;

struct copse_fake copse_fake = { .device_count = 1 };

struct fake_use {
    uint64_t queue, ticket; /* serial number of the queue that used the buffer last in this slot */
};

struct fake_buffer {
    struct fake_use uses[8];
};

struct fake_read {
    struct fake_read *next;
    uint64_t ticket;
    void *dst;
    size_t size;
    unsigned char bytes[];
};

struct fake_ticket {
    struct fake_ticket *next;
    uint64_t number, ready_ns;
    uint32_t polls;
};

struct fake_queue {
    uint64_t serial;
    atomic_ullong reached;
    /* a wait for this ticket was made to time out: so do all waits for it until the next submit */
    uint64_t hung;
    struct fake_read *reads;     /* oldest first */
    struct fake_ticket *tickets; /* in flight, oldest first */
    uint64_t clock_ns, stamps[COPSE_STAMPS];
};

#define FAKE_CLOCK_NS 1000u /* when a queue is made */

#define LONG_NS 500000000u /* core waits tick by tick: a tick of the library's deadline is longer */

static atomic_ullong serials;

static struct fake_device *fake(const copse_device *dev)
{
    return &copse_fake.devices[dev->foreign ? FAKE_LENT : dev->index];
}

static struct fake_buffer *fake_buffer(const copse_buffer *buf)
{
    return (struct fake_buffer *)((unsigned char *)buf->priv + HOST_ROOM);
}

static struct fake_queue *fake_queue(const copse_queue *q)
{
    return (struct fake_queue *)((unsigned char *)q->priv + HOST_ROOM);
}

void fake_reset(void)
{
    memset(&copse_fake, 0, sizeof copse_fake);
    copse_fake.device_count = 1;
}

void fake_fail(uint32_t device, enum fake_fn fn, uint32_t n, copse_status status,
               bool is_persistent)
{
    struct fake_device *d = &copse_fake.devices[device];
    d->faults[fn].at = fake_calls(device, fn) + n;
    d->faults[fn].status = status;
    d->faults[fn].is_persistent = is_persistent;
}

uint32_t fake_calls(uint32_t device, enum fake_fn fn)
{
    return atomic_load(&copse_fake.devices[device].calls[fn]);
}

/* Count the call; returns the fault that is set for it. */
static copse_status enter(struct fake_device *d, enum fake_fn fn)
{
    const uint32_t n = atomic_fetch_add(&d->calls[fn], 1u) + 1;
    const uint32_t at = d->faults[fn].at;
    if (at == 0 || n < at || (n > at && !d->faults[fn].is_persistent))
        return COPSE_OK;
    return copse_fail(d->faults[fn].status, "fake: fault %d, call %u", (int)fn, n);
}

/* ---- device ---- */

struct relay {
    struct copse_device_sink sink; /* first */
    struct copse_device_sink *to;
};

static copse_status relay_add(struct copse_device_sink *sink, const struct copse_device_info *info)
{
    struct relay *r = (struct relay *)sink;
    for (uint32_t i = 0; i < copse_fake.device_count; i++) {
        struct copse_device_info d = *info;
        snprintf(d.name, sizeof d.name, "fake device %u", i);
        d.kind = COPSE_DEVICE_DISCRETE;
        if (copse_fake.devices[i].describe)
            copse_fake.devices[i].describe(&d);
        COPSE_TRY(r->to->add(r->to, &d));
    }
    return COPSE_OK;
}

static copse_status fake_list(struct copse_device_sink *sink)
{
    struct relay r = { .sink = { .base = sink->base, .add = relay_add }, .to = sink };
    COPSE_TRY(enter(&copse_fake.devices[0], FAKE_LIST));
    if (host->buffer_priv > HOST_ROOM || host->queue_priv > HOST_ROOM)
        return copse_fail(COPSE_ERR_INTERNAL, "fake: HOST_ROOM is too small");
    sink->is_loaded = true;
    snprintf(sink->detail, sizeof sink->detail, "part of the tests");
    return host->list(&r.sink);
}

struct capture {
    struct copse_device_sink sink; /* first */
    struct copse_device_info *to;
};

static copse_status capture_add(struct copse_device_sink *sink,
                                const struct copse_device_info *info)
{
    *((struct capture *)sink)->to = *info;
    return COPSE_OK;
}

static copse_status fake_import(struct copse_base *base, const struct copse_foreign_device *foreign,
                                struct copse_device_info *info)
{
    struct capture c = { .sink = { .base = base, .add = capture_add }, .to = info };
    (void)foreign;
    COPSE_TRY(host->list(&c.sink));
    if (copse_fake.devices[FAKE_LENT].describe)
        copse_fake.devices[FAKE_LENT].describe(info);
    return COPSE_OK;
}

static copse_status fake_lend(copse_queue *q, const struct copse_queue_guard *guard,
                              copse_device **out)
{
    const struct copse_foreign_device foreign = { .handles = "",
                                                  .handles_size = 1,
                                                  .guard = *guard };
    return copse__device_import(q->dev->ctx, &copse_backend_fake, &foreign, out);
}

static copse_status fake_open(copse_device *dev)
{
    COPSE_TRY(enter(fake(dev), FAKE_OPEN));
    dev->has_priority = fake(dev)->has_priorities;
    return host->open(dev);
}

static void fake_close(copse_device *dev)
{
    (void)enter(fake(dev), FAKE_CLOSE);
    host->close(dev);
}

static copse_status fake_memory(copse_device *dev, struct copse_device_memory *out)
{
    COPSE_TRY(enter(fake(dev), FAKE_MEMORY));
    const uint64_t budget = fake(dev)->memory_budget, used = atomic_load(&dev->bytes);
    COPSE_TRY(host->memory(dev, out));
    if (budget > 0)
        *out = (struct copse_device_memory){ .total = budget,
                                             .is_free_known = true,
                                             .free = budget > used ? budget - used : 0,
                                             .over_budget = used > budget ? used - budget : 0 };
    return COPSE_OK;
}

static copse_status fake_buffer_init(copse_buffer *buf)
{
    COPSE_TRY(enter(fake(buf->dev), FAKE_BUFFER_INIT));
    return host->buffer_init(buf);
}

static void fake_buffer_fini(copse_buffer *buf)
{
    copse_device *dev = buf->dev;
    (void)enter(fake(dev), FAKE_BUFFER_FINI);
    copse__mutex_lock(&dev->lock);
    for (const copse_queue *q = dev->queues; q && !atomic_load(&dev->is_lost); q = q->next) {
        const struct fake_use *use = &fake_buffer(buf)->uses[q->slot];
        const struct fake_queue *fq = fake_queue(q);
        if (use->queue == fq->serial && use->ticket > atomic_load(&fq->reached))
            atomic_fetch_add(&copse_fake.early_fini, 1u);
    }
    copse__mutex_unlock(&dev->lock);
    host->buffer_fini(buf);
}

static bool fake_has_kernel(const copse_device *dev, const struct copse_kernel_row *row)
{
    return host->has_kernel(dev, row);
}

static copse_status fake_kernel_init(struct copse_kernel *k)
{
    COPSE_TRY(enter(fake(k->dev), FAKE_KERNEL_INIT));
    return host->kernel_init(k);
}

static void fake_kernel_fini(struct copse_kernel *k)
{
    (void)enter(fake(k->dev), FAKE_KERNEL_FINI);
    host->kernel_fini(k);
}

/* ---- queue ---- */

static copse_status fake_queue_init(copse_queue *q)
{
    struct fake_queue *fq = fake_queue(q);
    COPSE_TRY(enter(fake(q->dev), FAKE_QUEUE_INIT));
    fq->serial = atomic_fetch_add(&serials, 1u) + 1;
    return host->queue_init(q);
}

static void fake_queue_fini(copse_queue *q)
{
    struct fake_queue *fq = fake_queue(q);
    (void)enter(fake(q->dev), FAKE_QUEUE_FINI);
    for (struct fake_read *r = fq->reads, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    for (struct fake_ticket *t = fq->tickets, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    host->queue_fini(q);
}

static void use(copse_queue *q, const struct copse_binding *bindings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        fake_buffer(bindings[i].buffer)->uses[q->slot] =
            (struct fake_use){ fake_queue(q)->serial, q->submitted + 1 };
}

static copse_status fake_write(copse_queue *q, const struct copse_binding *dst, const void *src)
{
    COPSE_TRY(enter(fake(q->dev), FAKE_WRITE));
    use(q, dst, 1);
    return host->write(q, dst, src);
}

static copse_status fake_read(copse_queue *q, const struct copse_binding *src, void *dst)
{
    struct fake_read **at = &fake_queue(q)->reads;
    COPSE_TRY(enter(fake(q->dev), FAKE_READ));
    use(q, src, 1);
    struct fake_read *r = malloc(sizeof *r + src->size);
    if (!r)
        return copse_fail(COPSE_ERR_NO_MEMORY, "fake: read");
    *r = (struct fake_read){ .ticket = q->submitted + 1, .dst = dst, .size = src->size };
    const copse_status s = host->read(q, src, r->bytes);
    if (s) {
        free(r);
        return s;
    }
    while (*at)
        at = &(*at)->next;
    *at = r;
    return COPSE_OK;
}

static const char *name_of(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_GEMM ? COPSE_LIBRARY_PRODUCT
           : c->kernel                   ? c->kernel->row->name
                                         : "";
}

static bool names(const char *name, const struct copse_command *c)
{
    return name && strcmp(name, name_of(c)) == 0;
}

static uint32_t arg_count(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_GEMM ? c->binding_count : c->kernel->row->arg_count;
}

static bool writes_floats(const struct copse_command *c, uint32_t arg)
{
    if (c->kind == COPSE_COMMAND_GEMM)
        return arg == COPSE_GEMM_C;
    return c->kernel->row->args[arg].is_written && c->kernel->row->args[arg].kind == COPSE_ARG_F32;
}

static float *floats_at(const struct copse_binding *b)
{
    unsigned char *bytes;
    memcpy(&bytes, b->buffer->priv, sizeof bytes);
    return (float *)(void *)(bytes + b->offset);
}

/* The library's matrix product, which the host backend does not have. */
static void gemm(const struct copse_command *c)
{
    const struct copse_gemm *g = &c->gemm;
    const size_t m = g->m, n = g->n, k = g->k;
    for (size_t i = 0; i < g->batch * m * n; i++) {
        const size_t item = i / (m * n), row = i / n % m, col = i % n;
        const float *a =
            floats_at(&c->bindings[COPSE_GEMM_A]) + (g->a_is_shared ? 0 : item * m * k);
        const float *b =
            floats_at(&c->bindings[COPSE_GEMM_B]) + (g->b_is_shared ? 0 : item * k * n);
        float *to = floats_at(&c->bindings[COPSE_GEMM_C]) + i, sum = g->k_begin > 0 ? *to : 0.0f;
        for (size_t l = g->k_begin; l < g->k_end; l++)
            sum += a[g->a_transposed ? l * m + row : row * k + l] *
                   b[g->b_transposed ? col * k + l : l * n + col];
        *to = sum;
    }
}

/* Products of 128 x 128 x 128 and more need a copy of both operands. */
static copse_status fake_gemm_scratch(const copse_device *dev, const struct copse_gemm *g,
                                      size_t *bytes)
{
    const uint64_t mn = (uint64_t)g->m * g->n, k = g->k_end - g->k_begin;
    (void)dev;
    *bytes = mn * k < UINT64_C(128) * 128 * 128 ? 0 : 4 * (size_t)(k * g->m + k * g->n);
    return COPSE_OK;
}

static void perturb(struct fake_device *d, const struct copse_command *c)
{
    if (!names(d->perturb, c))
        return;
    const uint32_t n = atomic_fetch_add(&d->perturb_runs, 1u) + 1;
    if (d->perturb_period && n % d->perturb_period)
        return;
    for (uint32_t i = 0; i < arg_count(c); i++) {
        if (!writes_floats(c, i))
            continue;
        unsigned char *bytes = (unsigned char *)floats_at(&c->bindings[i]);
        for (size_t at = 0; at < c->bindings[i].size; at += 4) {
            uint32_t word;
            memcpy(&word, bytes + at, sizeof word);
            if (word << 1)
                word ^= d->perturb_bits ? d->perturb_bits : 1u;
            memcpy(bytes + at, &word, sizeof word);
        }
    }
}

static void stray(const struct fake_device *d, const struct copse_command *c)
{
    const uint32_t word = 0x3f800000u;
    if (!names(d->stray, c))
        return;
    for (uint32_t i = arg_count(c); i-- > 0;)
        if (c->kind == COPSE_COMMAND_GEMM ? i == COPSE_GEMM_C
                                          : c->kernel->row->args[i].is_written) {
            memcpy((unsigned char *)floats_at(&c->bindings[i]) + d->stray_at, &word, sizeof word);
            return;
        }
}

/* Copies of the results of a command, from the first word that is cut on. */
struct cut {
    void *words[COPSE_MAX_BINDINGS];
};

static size_t cut_size(const struct fake_device *d, const struct copse_command *c, uint32_t i)
{
    const size_t from = 4 * (size_t)d->cut_from, size = c->bindings[i].size;
    return c->kernel->row->args[i].is_written && size > from ? size - from : 0;
}

static bool is_cut(struct fake_device *d, const struct copse_command *c, bool is_replay)
{
    if (!names(d->cut, c) || c->kind != COPSE_COMMAND_DISPATCH || (d->cuts_replays && !is_replay))
        return false;
    const uint32_t n = atomic_fetch_add(&d->cut_runs, 1u) + 1;
    return !d->cut_period || n % d->cut_period == 0;
}

static copse_status begin_cut(const struct fake_device *d, const struct copse_command *c,
                              struct cut *to)
{
    for (uint32_t i = 0; i < c->binding_count; i++) {
        const size_t size = cut_size(d, c, i);
        to->words[i] = size > 0 ? malloc(size) : NULL;
        if (size > 0 && !to->words[i])
            return copse_fail(COPSE_ERR_NO_MEMORY, "fake: cut");
        if (size > 0)
            memcpy(to->words[i], floats_at(&c->bindings[i]) + d->cut_from, size);
    }
    return COPSE_OK;
}

static void end_cut(const struct fake_device *d, const struct copse_command *c,
                    const struct cut *from)
{
    for (uint32_t i = 0; i < c->binding_count; i++) {
        if (from->words[i])
            memcpy(floats_at(&c->bindings[i]) + d->cut_from, from->words[i], cut_size(d, c, i));
        free(from->words[i]);
    }
}

static copse_status run(copse_queue *q, const struct copse_command *c, bool is_replay)
{
    struct cut cut;
    const bool has_cut = is_cut(fake(q->dev), c, is_replay);
    fake_queue(q)->clock_ns += c->kind == COPSE_COMMAND_DISPATCH ? fake(q->dev)->launch_ns : 0;
    use(q, c->bindings, c->binding_count);
    const bool is_folded = c->kind == COPSE_COMMAND_DISPATCH && c->groups_y > 1;
    const bool is_dropped =
        names(fake(q->dev)->dropped, c) || (is_folded && fake(q->dev)->drops_folded);
    if (has_cut)
        COPSE_TRY(begin_cut(fake(q->dev), c, &cut));
    if (!is_dropped && c->kind == COPSE_COMMAND_GEMM)
        gemm(c);
    else if (!is_dropped)
        COPSE_TRY(host->encode(q, c));
    if (has_cut)
        end_cut(fake(q->dev), c, &cut);
    perturb(fake(q->dev), c);
    stray(fake(q->dev), c);
    return COPSE_OK;
}

static copse_status fake_encode(copse_queue *q, const struct copse_command *c)
{
    COPSE_TRY(enter(fake(q->dev), FAKE_ENCODE));
    return run(q, c, false);
}

static copse_status fake_segment_init(struct copse_segment *seg)
{
    COPSE_TRY(enter(fake(seg->queue->dev), FAKE_SEGMENT_INIT));
    return host->segment_init(seg);
}

static void fake_segment_fini(struct copse_segment *seg)
{
    const copse_queue *q = seg->queue;
    if (!atomic_load(&q->dev->is_lost) && seg->last > atomic_load(&fake_queue(q)->reached))
        atomic_fetch_add(&copse_fake.early_fini, 1u);
    (void)enter(fake(seg->queue->dev), FAKE_SEGMENT_FINI);
    host->segment_fini(seg);
}

static copse_status fake_replay(struct copse_segment *seg)
{
    COPSE_TRY(enter(fake(seg->queue->dev), FAKE_REPLAY));
    for (size_t i = 0; i < seg->count; i++)
        COPSE_TRY(run(seg->queue, &seg->commands[i], true));
    return COPSE_OK;
}

static void use_lock(const copse_device *dev)
{
    const struct fake_device *d = fake(dev);
    if (!dev->foreign || d->forgets_lock)
        return;
    const struct copse_queue_guard *g = &dev->foreign->guard;
    g->lock(g->user);
    if (d->takes_lock_twice)
        g->lock(g->user);
    g->unlock(g->user);
    if (d->gives_lock_twice)
        g->unlock(g->user);
}

static copse_status fake_submit(copse_queue *q, uint64_t *ticket)
{
    struct fake_device *d = fake(q->dev);
    struct fake_ticket **at = &fake_queue(q)->tickets;

    COPSE_TRY(enter(d, FAKE_SUBMIT));
    use_lock(q->dev);
    fake_queue(q)->hung = 0;
    struct fake_ticket *t = malloc(sizeof *t);
    if (!t)
        return copse_fail(COPSE_ERR_NO_MEMORY, "fake: submit");
    *t = (struct fake_ticket){ .number = q->submitted + 1,
                               .ready_ns = copse__now_ns() + d->delay_ns,
                               .polls = d->delay_polls };
    while (*at)
        at = &(*at)->next;
    *at = t;
    *ticket = t->number;
    return COPSE_OK;
}

/* Poll the tickets up to `ticket` once. */
static void look(struct fake_queue *fq, uint64_t ticket, const struct fake_device *d)
{
    while (fq->tickets && fq->tickets->number <= ticket) {
        struct fake_ticket *t = fq->tickets;
        if (d->polled)
            d->polled();
        if (t->polls) {
            t->polls -= t->polls != FAKE_NEVER;
            return;
        }
        if (copse__now_ns() < t->ready_ns)
            return;
        for (struct fake_read **at = &fq->reads; *at && (*at)->ticket <= t->number;) {
            struct fake_read *r = *at;
            if (r->ticket == t->number && r->size <= d->late_bytes) {
                at = &r->next;
                continue;
            }
            memcpy(r->dst, r->bytes, r->size);
            *at = r->next;
            free(r);
        }
        atomic_store(&fq->reached, t->number);
        fq->tickets = t->next;
        free(t);
    }
}

static copse_status fake_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    struct fake_queue *fq = fake_queue(q);
    const uint64_t start = copse__now_ns();

    const copse_status s = enter(fake(q->dev), FAKE_WAIT);
    if (s == COPSE_ERR_TIMEOUT && timeout_ns >= LONG_NS &&
        !fake(q->dev)->faults[FAKE_WAIT].is_persistent)
        fq->hung = ticket;
    if (s || fq->hung == ticket)
        return s ? s
                 : copse_fail(COPSE_ERR_TIMEOUT, "fake: ticket %llu hangs",
                              (unsigned long long)ticket);
    for (;;) {
        look(fq, ticket, fake(q->dev));
        if (atomic_load(&fq->reached) >= ticket)
            return host->wait(q, ticket, timeout_ns);
        if (copse__now_ns() - start >= timeout_ns)
            return copse_fail(COPSE_ERR_TIMEOUT, "fake: ticket %llu is not reached",
                              (unsigned long long)ticket);
        copse__sleep_ns(20000);
    }
}

/* As a driver whose calls fail while its work goes on. */
static copse_status fake_settle(copse_queue *q, uint64_t timeout_ns)
{
    struct fake_queue *fq = fake_queue(q);
    (void)timeout_ns;
    for (const struct fake_ticket *t = fq->tickets; t; t = t->next)
        if (t->polls == FAKE_NEVER)
            return COPSE_ERR_TIMEOUT;
    if (fake(q->dev)->never_settles)
        return COPSE_ERR_TIMEOUT;
    for (struct fake_read *r; (r = fq->reads);) {
        memcpy(r->dst, r->bytes, r->size);
        fq->reads = r->next;
        free(r);
    }
    return COPSE_OK;
}

static copse_status fake_stamp(copse_queue *q, uint32_t slot)
{
    if (!fake(q->dev)->has_clock)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "fake: there is no clock");
    COPSE_TRY(enter(fake(q->dev), FAKE_STAMP));
    fake_queue(q)->stamps[slot] = FAKE_CLOCK_NS + fake_queue(q)->clock_ns;
    return COPSE_OK;
}

static copse_status fake_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns)
{
    *ns = fake_queue(q)->stamps[slot];
    return COPSE_OK;
}

/* No wait_queue and no time, so that core's fallbacks are tested. */
const struct copse_backend copse_backend_fake = {
    .name = "fake",
    .buffer_priv = HOST_ROOM + sizeof(struct fake_buffer),
    .queue_priv = HOST_ROOM + sizeof(struct fake_queue),
    .list = fake_list,
    .import = fake_import,
    .lend = fake_lend,
    .open = fake_open,
    .close = fake_close,
    .memory = fake_memory,
    .buffer_init = fake_buffer_init,
    .buffer_fini = fake_buffer_fini,
    .has_kernel = fake_has_kernel,
    .kernel_init = fake_kernel_init,
    .kernel_fini = fake_kernel_fini,
    .queue_init = fake_queue_init,
    .queue_fini = fake_queue_fini,
    .write = fake_write,
    .read = fake_read,
    .encode = fake_encode,
    .gemm_scratch = fake_gemm_scratch,
    .segment_init = fake_segment_init,
    .segment_fini = fake_segment_fini,
    .replay = fake_replay,
    .submit = fake_submit,
    .wait = fake_wait,
    .settle = fake_settle,
    .stamp = fake_stamp,
    .stamp_read = fake_stamp_read,
};

const struct copse_backend *const fake_backends[] = { &copse_backend_fake, &copse_backend_host,
                                                      NULL };
