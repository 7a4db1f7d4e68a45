/* SPDX-License-Identifier: MIT */
/* OpenCL queues: host copies through pinned staging memory, tickets, waits with deadlines. */
#include "backends/opencl/cl_internal.h"
#include "core/base/deadline.h"

/* ---- events ---- */

copse_status copse_cl_wait_event(const struct copse_cl_api *cl, cl_event event, uint64_t timeout_ns)
{
    /* clWaitForEvents has no deadline. Poll often at first, for short kernels; then sleep for a
       small fraction of the elapsed time, so that a long wait costs little time and no core. */
    enum { SPIN_NS = 20000, LEAST_SLEEP_NS = 10000, LONGEST_SLEEP_NS = 1000000 };
    const uint64_t start = copse__now_ns();
    struct copse_deadline d = copse__deadline(timeout_ns);
    for (;;) {
        cl_int state = CL_QUEUED;
        const cl_int e =
            cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (e != CL_SUCCESS)
            state = e;
        if (state == CL_COMPLETE)
            return COPSE_OK;
        if (state < 0) {
            copse_status s = copse_cl_error_status(state);
            if (s == COPSE_ERR_INTERNAL)
                s = COPSE_ERR_DEVICE_LOST;
            return copse_fail(s, "opencl: queued work failed: %s (%d)", copse_cl_error_name(state),
                              (int)state);
        }
        const uint64_t elapsed = copse__now_ns() - start, left = copse__deadline_left(&d);
        if (left == 0)
            return COPSE_ERR_TIMEOUT;
        if (elapsed < SPIN_NS)
            continue;
        uint64_t nap = COPSE_MAX(elapsed / 32, LEAST_SLEEP_NS);
        nap = COPSE_MIN(nap, LONGEST_SLEEP_NS);
        copse__sleep_ns(COPSE_MIN(nap, left));
    }
}

/* The marker of `ticket`, with a reference; a later one if it was replaced. */
static cl_event marker_of(copse_queue *q, uint64_t ticket)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    copse__mutex_lock(&d->lock);
    if (ticket + COPSE_CL_EVENTS <= p->newest)
        ticket = p->newest - COPSE_CL_EVENTS + 1;
    cl_event event = ticket <= p->newest ? p->events[ticket % COPSE_CL_EVENTS] : NULL;
    if (event != NULL)
        d->cl.RetainEvent(event);
    copse__mutex_unlock(&d->lock);
    return event;
}

/* Append a marker to the queue, and flush it. */
static copse_status queue_mark(struct copse_cl_device *d, cl_command_queue queue, cl_event *out)
{
    cl_event marker = NULL;
    copse_cl_lock(d);
    copse_status s = copse_cl_check(d->cl.EnqueueMarkerWithWaitList(queue, 0, NULL, &marker),
                                    "clEnqueueMarkerWithWaitList");
    if (s == COPSE_OK)
        s = copse_cl_check(d->cl.Flush(queue), "clFlush");
    copse_cl_unlock(d);
    if (s != COPSE_OK && marker != NULL)
        d->cl.ReleaseEvent(marker);
    *out = s == COPSE_OK ? marker : NULL;
    return s;
}

static copse_status queue_flush(struct copse_cl_device *d, cl_command_queue queue)
{
    copse_cl_lock(d);
    const cl_int e = d->cl.Flush(queue);
    copse_cl_unlock(d);
    return copse_cl_check(e, "clFlush");
}

copse_status copse_cl_submit(copse_queue *q, uint64_t *ticket)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    cl_event marker = NULL;
    if (p->failed != COPSE_OK)
        return copse_fail(p->failed, "opencl: earlier work of this queue failed");
    COPSE_TRY(queue_mark(d, p->queue, &marker));
    copse__mutex_lock(&d->lock);
    p->newest = q->submitted + 1;
    cl_event *slot = &p->events[p->newest % COPSE_CL_EVENTS];
    cl_event old = *slot;
    *slot = marker;
    copse__mutex_unlock(&d->lock);
    if (old != NULL)
        d->cl.ReleaseEvent(old);
    *ticket = q->submitted + 1;
    return COPSE_OK;
}

copse_status copse_cl_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    if (p->failed != COPSE_OK)
        return copse_fail(p->failed, "opencl: earlier work of this queue failed");
    cl_event marker = marker_of(q, ticket);
    if (marker == NULL)
        return COPSE_OK;
    const copse_status s = copse_cl_wait_event(&d->cl, marker, timeout_ns);
    d->cl.ReleaseEvent(marker);
    if (s == COPSE_ERR_TIMEOUT && timeout_ns > 0)
        return copse_fail(s, "opencl: ticket not reached within %.3f s", (double)timeout_ns * 1e-9);
    if (s != COPSE_ERR_TIMEOUT)
        p->failed = s;
    return s;
}

copse_status copse_cl_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    cl_event marker = marker_of(other, ticket);
    if (marker == NULL)
        return COPSE_OK;
    copse_cl_lock(d);
    const cl_int e = d->cl.EnqueueBarrierWithWaitList(p->queue, 1, &marker, NULL);
    copse_cl_unlock(d);
    d->cl.ReleaseEvent(marker);
    return copse_cl_check(e, "clEnqueueBarrierWithWaitList");
}

/* ---- begin and end ---- */

copse_status copse_cl_queue_init(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    const size_t size = (size_t)COPSE_CL_BLOCKS * COPSE_CL_BLOCK_BYTES;
    cl_int e = CL_SUCCESS;
    cl_event mapped = NULL;
    if (d->lent != NULL) {
        COPSE_TRY(copse_cl_check(d->cl.RetainCommandQueue(d->lent), "clRetainCommandQueue"));
        p->queue = d->lent;
    } else {
        p->queue = copse_cl_queue_make(q->dev, 0, &e);
        COPSE_TRY(copse_cl_check(e, "create a queue"));
    }
    /* Memory allocated by the driver, because only such memory is certain to be copied without
       blocking. */
    p->staging =
        d->cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &e);
    COPSE_TRY(copse_cl_check(e, "clCreateBuffer of staging memory"));
    copse_cl_lock(d);
    p->mapped = d->cl.EnqueueMapBuffer(p->queue, p->staging, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
                                       0, size, 0, NULL, &mapped, &e);
    copse_cl_unlock(d);
    COPSE_TRY(copse_cl_check(e, "clEnqueueMapBuffer of staging memory"));
    copse_status s = queue_flush(d, p->queue);
    if (s == COPSE_OK)
        s = copse_cl_wait_event(&d->cl, mapped, copse__device_wait_ns(q->dev));
    d->cl.ReleaseEvent(mapped);
    if (s == COPSE_ERR_TIMEOUT)
        return copse_fail(s, "opencl: the driver does not map staging memory");
    return s;
}

/* Whether the work up to the event has ended, well or not. A driver that fails once is asked
   again. */
static bool has_ended(const struct copse_cl_api *cl, cl_event event, struct copse_deadline *d)
{
    enum { NAP_NS = 1000000, REFUSALS = 3 };
    for (int refusals = 0; refusals < REFUSALS; copse__sleep_ns(NAP_NS)) {
        cl_int state = CL_QUEUED;
        if (cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                             NULL) != CL_SUCCESS)
            refusals++;
        else if (state <= CL_COMPLETE)
            return true;
        else if (copse__deadline_left(d) == 0)
            return false;
    }
    return false;
}

/* A marker ends when all work of the queue has. Where the driver takes none, the newest read tells
   of all reads. */
copse_status copse_cl_settle(copse_queue *q, uint64_t timeout_ns)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    struct copse_deadline left = copse__deadline(timeout_ns);
    bool is_over = false;
    for (int i = 0; i < 2 && !is_over; i++) {
        cl_event marker;
        if (queue_mark(d, p->queue, &marker) != COPSE_OK)
            continue;
        is_over = has_ended(&d->cl, marker, &left);
        d->cl.ReleaseEvent(marker);
    }
    if (!is_over && atomic_load(&q->dev->imports) == 0)
        is_over = p->read == NULL || has_ended(&d->cl, p->read, &left);
    return is_over ? COPSE_OK
                   : copse_fail(COPSE_ERR_TIMEOUT, "opencl: it is not known whether %s works",
                                q->dev->info.id);
}

void copse_cl_queue_fini(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    if (p->queue == NULL)
        return;
    if (p->mapped != NULL) {
        copse_cl_lock(d);
        d->cl.EnqueueUnmapMemObject(p->queue, p->staging, p->mapped, 0, NULL, NULL);
        copse_cl_unlock(d);
    }
    if (copse_cl_settle(q, copse__device_wait_ns(q->dev)) != COPSE_OK) {
        /* In some drivers, releasing objects of a stuck queue blocks forever. */
        atomic_store(&d->is_stuck, true);
        copse__log(&q->dev->base->log, COPSE_LOG_ERROR,
                   "opencl: %s did not finish its work, its objects are left behind",
                   q->dev->info.id);
        return;
    }
    for (size_t i = 0; i < COPSE_CL_EVENTS; i++)
        if (p->events[i] != NULL)
            d->cl.ReleaseEvent(p->events[i]);
    for (size_t i = 0; i < COPSE_CL_BLOCKS; i++)
        if (p->blocks[i].last != NULL)
            d->cl.ReleaseEvent(p->blocks[i].last);
    copse_cl_stamps_fini(q);
    if (p->read != NULL)
        d->cl.ReleaseEvent(p->read);
    if (p->staging != NULL)
        d->cl.ReleaseMemObject(p->staging);
    d->cl.ReleaseCommandQueue(p->queue);
}

/* ---- host copies ---- */

/* Make block `i` empty again. */
static copse_status queue_reclaim(struct copse_cl_device *d, struct copse_cl_queue *p, size_t i,
                                  uint64_t timeout_ns)
{
    if (p->blocks[i].last != NULL) {
        COPSE_TRY(copse_cl_wait_event(&d->cl, p->blocks[i].last, timeout_ns));
        d->cl.ReleaseEvent(p->blocks[i].last);
        p->blocks[i].last = NULL;
    }
    p->blocks[i].used = 0;
    return COPSE_OK;
}

/* Ensure that the current block has `size` free bytes. */
static copse_status make_room(copse_queue *q, size_t size)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    if (size <= COPSE_CL_BLOCK_BYTES - p->blocks[p->block].used)
        return COPSE_OK;
    copse_status s = queue_reclaim(d, p, p->block, 0);
    if (s != COPSE_ERR_TIMEOUT)
        return s;
    const size_t next = (p->block + 1) % COPSE_CL_BLOCKS;
    COPSE_TRY(queue_flush(d, p->queue));
    s = queue_reclaim(d, p, next, copse__device_wait_ns(q->dev));
    if (s == COPSE_ERR_TIMEOUT)
        return copse_fail(s, "opencl: staging memory is full and the device does not proceed");
    p->block = next;
    return s;
}

copse_status copse_cl_write(copse_queue *q, const struct copse_binding *dst, const void *src)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    struct copse_cl_buffer *b = dst->buffer->priv;
    for (size_t done = 0; done < dst->size;) {
        const size_t part = COPSE_MIN(dst->size - done, COPSE_CL_BLOCK_BYTES);
        COPSE_TRY(make_room(q, part));
        const size_t used = p->blocks[p->block].used;
        char *staged = p->mapped + p->block * COPSE_CL_BLOCK_BYTES + used;
        cl_event written = NULL;
        memcpy(staged, (const char *)src + done, part);
        copse_cl_lock(d);
        const cl_int e = d->cl.EnqueueWriteBuffer(p->queue, b->mem, CL_FALSE, dst->offset + done,
                                                  part, staged, 0, NULL, &written);
        copse_cl_unlock(d);
        COPSE_TRY(copse_cl_check(e, "clEnqueueWriteBuffer"));
        if (p->blocks[p->block].last != NULL)
            d->cl.ReleaseEvent(p->blocks[p->block].last);
        p->blocks[p->block].last = written;
        p->blocks[p->block].used = used + copse__round_up(part, 64);
        done += part;
    }
    return COPSE_OK;
}

copse_status copse_cl_read(copse_queue *q, const struct copse_binding *src, void *dst)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    struct copse_cl_buffer *b = src->buffer->priv;
    cl_event read = NULL;
    copse_cl_lock(d);
    const cl_int e = d->cl.EnqueueReadBuffer(p->queue, b->mem, CL_FALSE, src->offset, src->size,
                                             dst, 0, NULL, &read);
    copse_cl_unlock(d);
    COPSE_TRY(copse_cl_check(e, "clEnqueueReadBuffer"));
    if (p->read != NULL)
        d->cl.ReleaseEvent(p->read);
    p->read = read;
    return COPSE_OK;
}
