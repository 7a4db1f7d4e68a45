/* SPDX-License-Identifier: MIT */
/* Queues: arguments are checked here, once; then one call of the backend.

   One thread uses a queue, but any thread may release a buffer and then reads the queue's ticket
   numbers: they are written under the device's lock. */
#include "core/base/deadline.h"
#include "core/base/trace.h"
#include "core/device/clock.h"
#include "core/device/device.h"

#define MAX_QUEUES COPSE_COUNT(((copse_buffer *)NULL)->after)

#define LOST_WAIT_NS 5000000000u /* until the work of a lost device has ended */

/* ---- failures ---- */

static bool uses_host(const copse_queue *q)
{
    return q->read_ticket > q->reached || atomic_load(&q->dev->imports) > 0;
}

copse_status copse__queue_result(copse_queue *q, copse_status s)
{
    copse_device *dev = q->dev;
    char text[COPSE_ERROR_BYTES];
    s = copse__device_result(dev, s);
    if (s == COPSE_OK || s == COPSE_ERR_TIMEOUT || !uses_host(q) || !dev->backend->settle)
        return s;
    memcpy(text, copse_last_error(), sizeof text);
    const uint64_t most = atomic_load(&dev->is_lost) ? LOST_WAIT_NS : copse__device_wait_ns(dev);
    if (!q->is_unsettled)
        q->is_unsettled = dev->backend->settle(q, most) != COPSE_OK;
    if (q->is_unsettled)
        return copse_fail(COPSE_ERR_TIMEOUT,
                          "%.*s; %s may still use host memory, which is not freed",
                          (int)sizeof text - 100, text, dev->info.id);
    q->read_ticket = 0;
    copse__fail_again(text);
    return s;
}

static copse_status check_device(copse_queue *q)
{
    return copse__queue_result(q, copse__device_check(q->dev));
}

/* ---- tickets ---- */

/* Work begins with its first command: drivers may start before it is submitted, and `host:0`
   computes. Later work begins when the work before it is known to have ended. */
static void note_begun(copse_queue *q)
{
    if (q->work_began == 0 && copse__trace_is_on(q->dev->base->trace))
        q->work_began = copse__now_ns();
}

static void note_reached(copse_queue *q, uint64_t ticket)
{
    char name[COPSE_TRACE_NAME];
    struct copse_trace *t = q->dev->base->trace;
    const uint64_t began = q->work_began;
    q->work_began = 0;
    if (began == 0 || !copse__trace_is_on(t) || copse__clock_works(q))
        return;
    snprintf(name, sizeof name, "%s%s", q->owner, q->dev->info.id);
    copse__trace_queue(t, q, name,
                       &(struct copse_trace_event){ .begin = began,
                                                    .end = copse__now_ns(),
                                                    .first = q->reached + 1,
                                                    .last = ticket,
                                                    .kind = COPSE_SPAN_DEVICE },
                       "work");
    if (ticket < q->submitted || q->has_open_work)
        note_begun(q);
}

static void set_reached(copse_queue *q, uint64_t ticket)
{
    if (ticket > q->reached)
        note_reached(q, ticket);
    if (q->clock)
        copse__clock_collect(q, ticket);
    copse__mutex_lock(&q->dev->lock);
    q->reached = COPSE_MAX(q->reached, ticket);
    const bool has_garbage = q->dev->garbage != NULL;
    copse__mutex_unlock(&q->dev->lock);
    if (has_garbage)
        copse__garbage_collect(q->dev);
}

/* A trace records when work ends; here the host does not wait for it. */
static void ask_queue(copse_queue *q)
{
    if (copse__trace_is_on(q->dev->base->trace) && q->reached < q->submitted && !q->is_unsettled &&
        q->dev->backend->wait(q, q->submitted, 0) == COPSE_OK)
        set_reached(q, q->submitted);
}

copse_status copse__queue_begin(copse_queue *q)
{
    COPSE_TRY(check_device(q));
    if (!q->has_open_work) {
        ask_queue(q);
        note_begun(q);
        copse__mutex_lock(&q->dev->lock);
        q->has_open_work = true;
        copse__mutex_unlock(&q->dev->lock);
        if (copse__trace_is_on(q->dev->base->trace))
            copse__clock_note(q, COPSE_STAMP_BEGIN);
    }
    return COPSE_OK;
}

/* ---- life ---- */

/* Takes a free slot of copse_buffer.after; false if there is none. */
static bool queue_join(copse_device *dev, copse_queue *q)
{
    uint32_t taken = 0;

    copse__mutex_lock(&dev->lock);
    for (const copse_queue *other = dev->queues; other; other = other->next)
        taken |= 1u << other->slot;
    while (q->slot < MAX_QUEUES && (taken >> q->slot & 1u))
        q->slot++;
    const bool has_room = q->slot < MAX_QUEUES;
    if (has_room) {
        q->next = dev->queues;
        dev->queues = q;
    }
    copse__mutex_unlock(&dev->lock);
    return has_room;
}

static void queue_leave(copse_device *dev, copse_queue *q)
{
    copse__mutex_lock(&dev->lock);
    for (copse_queue **at = &dev->queues; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            copse__garbage_forget_slot(dev, q->slot);
            break;
        }
    copse__mutex_unlock(&dev->lock);
}

copse_status copse__queue_create(copse_device *dev, bool is_for_transfers, copse_queue **out)
{
    COPSE_TRY(copse_need("queue", dev, out));
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));

    void *priv = NULL;
    copse_queue *q =
        copse__handle_alloc(&dev->base->mem, sizeof *q, dev->backend->queue_priv, &priv);
    if (!q)
        return copse_fail(COPSE_ERR_NO_MEMORY, "queue: no memory for the handle");
    atomic_init(&q->refs, 1);
    q->dev = dev;
    q->is_for_transfers = is_for_transfers;
    q->priv = priv;
    if (!queue_join(dev, q)) {
        copse__free(&dev->base->mem, q);
        return copse_fail(COPSE_ERR_UNSUPPORTED, "queue: %s has %zu queues already, no more fit",
                          dev->info.id, MAX_QUEUES);
    }
    const copse_status s = copse__device_result(dev, dev->backend->queue_init(q));
    if (s) {
        dev->backend->queue_fini(q);
        queue_leave(dev, q);
        copse__free(&dev->base->mem, q);
        return copse_note(s, "while making a queue on %s", dev->info.id);
    }
    copse_device_retain(dev);
    *out = q;
    return COPSE_OK;
}

copse_status copse_queue_create(copse_device *dev, copse_queue **out)
{
    return copse__queue_create(dev, false, out);
}

copse_queue *copse_queue_retain(copse_queue *queue)
{
    if (queue)
        copse__ref(&queue->refs);
    return queue;
}

void copse_queue_release(copse_queue **at)
{
    if (!at || !*at)
        return;
    copse_queue *q = *at;
    *at = NULL;
    if (!copse__unref(&q->refs))
        return;

    copse_device *dev = q->dev;
    /* Complete the queued work, as the user requested; a failure cannot be returned to any
       caller. */
    if (q->has_open_work || q->reached < q->submitted)
        if (!atomic_load(&dev->is_lost) && copse_queue_finish(q))
            copse__log(&dev->base->log, COPSE_LOG_ERROR, "queue: work of %s is lost: %s",
                       dev->info.id, copse_last_error());
    dev->backend->queue_fini(q);
    queue_leave(dev, q);
    copse__trace_forget(dev->base->trace, q);
    copse__clock_release(q);
    copse__free(&dev->base->mem, q);
    copse__garbage_collect(dev);
    copse_device_release(&dev);
}

/* ---- commands ---- */

static copse_status check_range(const copse_queue *q, const copse_buffer *buf, size_t offset,
                                size_t size, const char *what)
{
    if (buf->dev != q->dev)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s: the buffer belongs to another opened device (%s, not %s)",
                          what, buf->dev->info.id, q->dev->info.id);
    if (offset % 4 || size % 4)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s of %zu bytes at %zu: both must be multiples of 4", what, size,
                          offset);
    if (offset > buf->size || size > buf->size - offset)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "queue: %s of %zu bytes at %zu ends behind the buffer's %zu", what, size,
                          offset, buf->size);
    return COPSE_OK;
}

copse_status copse_queue_write(copse_queue *queue, copse_buffer *dst, size_t offset,
                               const void *src, size_t size)
{
    COPSE_TRY(copse_need("queue: write", queue, dst));
    COPSE_TRY(check_range(queue, dst, offset, size, "write"));
    if (size > 0)
        COPSE_TRY(copse_need("queue: write", src));
    if (size == 0)
        return copse__device_check(queue->dev);
    COPSE_TRY(copse__queue_begin(queue));
    const struct copse_binding to = { dst, offset, size };
    return copse__queue_result(queue, queue->dev->backend->write(queue, &to, src));
}

copse_status copse__queue_write_bytes(copse_queue *queue, copse_buffer *dst, size_t offset,
                                      const void *src, size_t size)
{
    const size_t whole = size / 4 * 4;
    uint32_t last = 0;
    COPSE_TRY(copse_queue_write(queue, dst, offset, src, whole));
    if (whole == size)
        return COPSE_OK;
    memcpy(&last, (const char *)src + whole, size - whole);
    return copse_queue_write(queue, dst, offset + whole, &last, sizeof last);
}

copse_status copse_queue_read(copse_queue *queue, copse_buffer *src, size_t offset, void *dst,
                              size_t size)
{
    COPSE_TRY(copse_need("queue: read", queue, src));
    COPSE_TRY(check_range(queue, src, offset, size, "read"));
    if (size > 0)
        COPSE_TRY(copse_need("queue: read", dst));
    if (size == 0)
        return copse__device_check(queue->dev);
    COPSE_TRY(copse__queue_begin(queue));
    const struct copse_binding from = { src, offset, size };
    queue->read_ticket = copse__queue_next(queue);
    return copse__queue_result(queue, queue->dev->backend->read(queue, &from, dst));
}

/* ---- submit and wait ---- */

copse_status copse_queue_submit(copse_queue *queue, uint64_t *ticket)
{
    COPSE_TRY(copse_need("queue: submit", queue));
    copse_device *dev = queue->dev;
    uint64_t number = 0;

    COPSE_TRY(check_device(queue));
    if (queue->has_open_work && copse__trace_is_on(dev->base->trace))
        copse__clock_note(queue, COPSE_STAMP_END);
    COPSE_TRY(copse__queue_result(queue, dev->backend->submit(queue, &number)));

    copse__mutex_lock(&dev->lock);
    queue->submitted = number;
    queue->has_open_work = false;
    queue->paced_ns = 0;
    const uint64_t oldest = copse__garbage_ticket(dev, queue);
    copse__mutex_unlock(&dev->lock);
    if (ticket)
        *ticket = number;

    /* Reclaim released buffers also for a caller that seldom waits. */
    if (oldest && oldest < number) {
        const copse_status s = copse__queue_result(queue, dev->backend->wait(queue, oldest, 0));
        if (s == COPSE_OK)
            set_reached(queue, oldest);
        else if (s != COPSE_ERR_TIMEOUT)
            return s;
    }
    return COPSE_OK;
}

uint64_t copse_queue_submissions(const copse_queue *queue)
{
    return queue ? queue->submitted : 0; /* tickets are numbered without a gap */
}

/* Tick by tick, so that time in which the process was stopped does not count. */
static copse_status wait_for(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    copse_device *dev = q->dev;
    struct copse_deadline d = copse__deadline(timeout_ns);
    const struct copse_span span =
        timeout_ns > 0 ? copse__span_begin(dev->base) : (struct copse_span){ NULL, 0 };
    copse_status s;
    do
        s = dev->backend->wait(q, ticket, copse__deadline_tick(&d));
    while (s == COPSE_ERR_TIMEOUT && copse__deadline_spend(&d) > 0);
    copse__span_end(span, COPSE_SPAN_WAIT, dev->info.id, s);
    return s == COPSE_ERR_TIMEOUT && timeout_ns > 0
               ? copse_fail(s, "queue: ticket %llu of %s was not reached within %.3f s",
                            (unsigned long long)ticket, dev->info.id, (double)timeout_ns * 1e-9)
               : copse__queue_result(q, s);
}

copse_status copse_queue_wait(copse_queue *queue, uint64_t ticket, uint64_t timeout_ns)
{
    COPSE_TRY(copse_need("queue: wait", queue));
    if (ticket > queue->submitted)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: ticket %llu was not given out yet",
                          (unsigned long long)ticket);
    COPSE_TRY(check_device(queue));
    if (ticket <= queue->reached)
        return COPSE_OK;
    COPSE_TRY(wait_for(queue, ticket, timeout_ns));
    set_reached(queue, ticket);
    queue->is_unsettled = queue->is_unsettled && ticket < queue->read_ticket;
    return COPSE_OK;
}

uint64_t copse__device_wait_ns(const copse_device *dev)
{
    const uint64_t made = atomic_load(&dev->kernel_made_ns), second = 1000000000u;
    return made && copse__now_ns() - made < 600 * second ? 600 * second : 120 * second;
}

static copse_status queue_explain(copse_status s, const copse_queue *q, uint64_t ns)
{
    if (s != COPSE_ERR_TIMEOUT || q->is_unsettled)
        return s;
    return copse_fail(s, "queue: %s did not answer within %llu s", q->dev->info.id,
                      (unsigned long long)(ns / 1000000000u));
}

copse_status copse__queue_await(copse_queue *q, uint64_t ticket)
{
    const uint64_t most = copse__device_wait_ns(q->dev);
    return queue_explain(copse_queue_wait(q, ticket, most), q, most);
}

copse_status copse__queue_wait_unless(copse_queue *q, uint64_t ticket, const atomic_bool *stop)
{
    const uint64_t most = copse__device_wait_ns(q->dev);
    struct copse_deadline d = copse__deadline(most);
    if (!stop)
        return copse__queue_await(q, ticket);
    for (;;) {
        const copse_status s = copse_queue_wait(q, ticket, COPSE_STOP_NS);
        if (s != COPSE_ERR_TIMEOUT || q->is_unsettled)
            return s;
        if (atomic_load(stop))
            return copse_fail(COPSE_ERR_CANCELLED, "queue: cancelled while %s computes",
                              q->dev->info.id);
        if (copse__deadline_left(&d) == 0)
            return queue_explain(s, q, most);
    }
}

copse_status copse_queue_finish(copse_queue *queue)
{
    uint64_t ticket;
    COPSE_TRY(copse_queue_submit(queue, &ticket));
    return copse__queue_await(queue, ticket);
}

copse_status copse__queue_wait_for(copse_queue *q, copse_queue *other, uint64_t ticket)
{
    if (q->dev != other->dev)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: the queues belong to different devices");
    if (ticket > other->submitted)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: ticket %llu was not given out yet",
                          (unsigned long long)ticket);
    COPSE_TRY(copse__device_check(q->dev));
    if (q == other || ticket <= other->reached)
        return COPSE_OK;
    if (!q->dev->backend->wait_queue)
        return copse__queue_await(other, ticket);
    COPSE_TRY(copse__queue_begin(q));
    return copse__device_result(q->dev, q->dev->backend->wait_queue(q, other, ticket));
}
