/* SPDX-License-Identifier: MIT */
/* Stamps: markers of a command queue with CL_QUEUE_PROFILING_ENABLE. Queues are made without it,
   because with it drivers keep times of every command. The first stamp replaces the queue by one of
   the same priority. */
#include "backends/opencl/cl_internal.h"

static copse_status check_lent(copse_queue *q)
{
    const struct copse_cl_device *d = q->dev->priv;
    const struct copse_cl_queue *p = q->priv;
    cl_command_queue_properties has = 0;
    const cl_int e =
        d->cl.GetCommandQueueInfo(p->queue, CL_QUEUE_PROPERTIES, sizeof has, &has, NULL);
    if (e != CL_SUCCESS || !(has & CL_QUEUE_PROFILING_ENABLE))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "opencl: the application's queue of %s was made without "
                          "CL_QUEUE_PROFILING_ENABLE",
                          q->dev->info.id);
    return COPSE_OK;
}

/* Work of the new queue begins after the old one's, whose markers stay valid. */
static copse_status follow_queue(copse_queue *q, cl_command_queue next)
{
    const struct copse_cl_device *d = q->dev->priv;
    const struct copse_cl_queue *p = q->priv;
    cl_event last = NULL;
    copse_cl_lock(d);
    cl_int e = d->cl.EnqueueMarkerWithWaitList(p->queue, 0, NULL, &last);
    e = e == CL_SUCCESS ? d->cl.Flush(p->queue) : e;
    e = e == CL_SUCCESS ? d->cl.EnqueueBarrierWithWaitList(next, 1, &last, NULL) : e;
    copse_cl_unlock(d);
    if (last != NULL)
        d->cl.ReleaseEvent(last);
    return copse_cl_check(e, "a queue with times to follow one without");
}

static copse_status enable_times(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    cl_int e = CL_SUCCESS;
    if (d->lent != NULL)
        return check_lent(q);
    cl_command_queue next = copse_cl_queue_make(q->dev, CL_QUEUE_PROFILING_ENABLE, &e);
    if (e == CL_INVALID_QUEUE_PROPERTIES || e == CL_INVALID_VALUE)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "opencl: %s makes no queues with times%s",
                          q->dev->info.id, d->create_queue != NULL ? " and a priority" : "");
    COPSE_TRY(copse_cl_check(e, "create a queue with times"));
    const copse_status s = follow_queue(q, next);
    if (s == COPSE_OK) {
        cl_command_queue old = p->queue;
        p->queue = next;
        next = old;
    }
    d->cl.ReleaseCommandQueue(next);
    return s;
}

copse_status copse_cl_stamp(copse_queue *q, uint32_t slot)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    cl_event marker = NULL;
    if (!p->has_times)
        COPSE_TRY(enable_times(q));
    p->has_times = true;
    copse_cl_lock(d);
    const cl_int e = d->cl.EnqueueMarkerWithWaitList(p->queue, 0, NULL, &marker);
    copse_cl_unlock(d);
    COPSE_TRY(copse_cl_check(e, "clEnqueueMarkerWithWaitList for a stamp"));
    if (p->stamps[slot] != NULL)
        d->cl.ReleaseEvent(p->stamps[slot]);
    p->stamps[slot] = marker;
    return COPSE_OK;
}

copse_status copse_cl_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    cl_ulong end = 0;
    *ns = 0;
    if (p->stamps[slot] == NULL)
        return COPSE_OK;
    const cl_int e = d->cl.GetEventProfilingInfo(p->stamps[slot], CL_PROFILING_COMMAND_END,
                                                 sizeof end, &end, NULL);
    d->cl.ReleaseEvent(p->stamps[slot]);
    p->stamps[slot] = NULL;
    *ns = e == CL_SUCCESS ? end : 0;
    return COPSE_OK;
}

void copse_cl_stamps_fini(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    for (size_t i = 0; i < COPSE_STAMPS; i++)
        if (p->stamps[i] != NULL)
            d->cl.ReleaseEvent(p->stamps[i]);
}
