/* SPDX-License-Identifier: MIT */
/* OpenCL queues: tickets, waits with deadlines. Nothing waits while it holds a lock. */
#include "backends/opencl/cl_internal.h"

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

copse_status copse_cl_flush(struct copse_cl_device *d, cl_command_queue queue)
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
    copse_status s = copse_cl_wait_event(&d->cl, marker, timeout_ns);
    d->cl.ReleaseEvent(marker);
    if (s == COPSE_OK)
        s = copse_cl_land(q, ticket, timeout_ns);
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
    cl_int e = CL_SUCCESS;
    if (d->lent != NULL) {
        COPSE_TRY(copse_cl_check(d->cl.RetainCommandQueue(d->lent), "clRetainCommandQueue"));
        p->queue = d->lent;
    } else {
        p->queue = copse_cl_queue_make(q->dev, 0, &e);
        COPSE_TRY(copse_cl_check(e, "create a queue"));
    }
    return copse_cl_staging_init(q);
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
static bool queue_ended(copse_queue *q, struct copse_deadline *left)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    bool is_over = false;
    for (int i = 0; i < 2 && !is_over; i++) {
        cl_event marker;
        if (queue_mark(d, p->queue, &marker) != COPSE_OK)
            continue;
        is_over = has_ended(&d->cl, marker, left);
        d->cl.ReleaseEvent(marker);
    }
    if (!is_over && atomic_load(&q->dev->imports) == 0)
        is_over = p->read == NULL || has_ended(&d->cl, p->read, left);
    return is_over;
}

/* Reads that land are copied out here only, so that none of a lost device's is under way. */
copse_status copse_cl_settle(copse_queue *q, uint64_t timeout_ns)
{
    const struct copse_cl_queue *p = q->priv;
    struct copse_deadline left = copse__deadline(timeout_ns);
    if (p->reads.map != NULL && atomic_load(&q->dev->is_lost)) {
        copse_cl_drop_reads(q);
        if (atomic_load(&q->dev->imports) == 0)
            return COPSE_OK;
    }
    return queue_ended(q, &left) && copse_cl_land_all(q, &left)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_TIMEOUT, "opencl: it is not known whether %s works",
                            q->dev->info.id);
}

void copse_cl_queue_fini(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    if (p->queue == NULL)
        return;
    copse_cl_drop_reads(q); /* their waiters have returned */
    copse_cl_staging_unmap(q);
    struct copse_deadline left = copse__deadline(copse__device_wait_ns(q->dev));
    if (!queue_ended(q, &left)) {
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
    copse_cl_stamps_fini(q);
    copse_cl_staging_fini(q);
    d->cl.ReleaseCommandQueue(p->queue);
}
