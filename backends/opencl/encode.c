/* SPDX-License-Identifier: MIT */
/* OpenCL commands, one at a time or as a recorded segment. The queue is in order, so no barriers
   are necessary. */
#include "backends/opencl/cl_internal.h"

static void release_mems(const struct copse_cl_device *d, const cl_mem *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        d->cl.ReleaseMemObject(mems[i]);
}

static copse_status enqueue_kernel(copse_queue *q, const struct copse_command *c, cl_kernel kernel)
{
    const struct copse_cl_device *d = q->dev->priv;
    const struct copse_cl_queue *p = q->priv;
    const size_t group[2] = { c->kernel->group_x, c->kernel->group_y };
    const size_t global[2] = { group[0] * c->groups_x, group[1] * c->groups_y };
    const cl_int e =
        d->cl.EnqueueNDRangeKernel(p->queue, kernel, 2, NULL, global, group, 0, NULL, NULL);
    if (e != CL_SUCCESS)
        return copse_fail(copse_cl_error_status(e), "opencl: kernel '%s' on %s: %s (%d)",
                          c->kernel->row->name, q->dev->info.id, copse_cl_error_name(e), (int)e);
    return COPSE_OK;
}

/* `mems` receives views of all bindings, `*count` their number, with a reference each, also on
   failure. */
static copse_status view_all(const struct copse_command *c, cl_mem *mems, size_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        COPSE_TRY(copse_cl_view(&c->bindings[i], &mems[i]));
        ++*count;
    }
    return COPSE_OK;
}

static copse_status gemm_now(copse_queue *q, const struct copse_command *c)
{
    cl_mem mems[COPSE_MAX_BINDINGS];
    size_t count;
    copse_status s = view_all(c, mems, &count);
    if (s == COPSE_OK)
        s = copse_cl_gemm(q, c, mems);
    release_mems(q->dev->priv, mems, count);
    return s;
}

static copse_status dispatch_now(copse_queue *q, const struct copse_command *c)
{
    const struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_kernel *ck = c->kernel->priv;
    cl_mem mems[COPSE_MAX_BINDINGS];
    size_t count;
    copse_status s = view_all(c, mems, &count);
    copse__mutex_lock(&ck->lock);
    if (s == COPSE_OK)
        s = copse_cl_set_args(c, ck->kernel, mems);
    if (s == COPSE_OK)
        s = enqueue_kernel(q, c, ck->kernel);
    copse__mutex_unlock(&ck->lock);
    release_mems(d, mems, count);
    return s;
}

/* The queue is locked. */
static copse_status encode_append(copse_queue *q, const struct copse_command *c)
{
    const struct copse_cl_device *d = q->dev->priv;
    const struct copse_cl_queue *p = q->priv;
    const struct copse_binding *b = c->bindings;
    const struct copse_cl_buffer *first = b[0].buffer->priv;
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return dispatch_now(q, c);
    case COPSE_COMMAND_COPY: {
        const struct copse_cl_buffer *to = b[1].buffer->priv;
        return copse_cl_check(d->cl.EnqueueCopyBuffer(p->queue, first->mem, to->mem, b[0].offset,
                                                      b[1].offset, b[0].size, 0, NULL, NULL),
                              "clEnqueueCopyBuffer");
    }
    case COPSE_COMMAND_FILL:
        return copse_cl_check(d->cl.EnqueueFillBuffer(p->queue, first->mem, &c->word,
                                                      sizeof c->word, b[0].offset, b[0].size, 0,
                                                      NULL, NULL),
                              "clEnqueueFillBuffer");
    case COPSE_COMMAND_GEMM:
        return gemm_now(q, c);
    }
    return copse_fail(COPSE_ERR_INTERNAL, "opencl: command of kind %d", (int)c->kind);
}

copse_status copse_cl_encode(copse_queue *q, const struct copse_command *c)
{
    copse_cl_lock(q->dev->priv);
    const copse_status s = encode_append(q, c);
    copse_cl_unlock(q->dev->priv);
    return s;
}

/* Buffers that a segment keeps for a command. */
static size_t mems_of(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH || c->kind == COPSE_COMMAND_GEMM ? c->binding_count
                                                                              : 0;
}

copse_status copse_cl_segment_init(struct copse_segment *seg)
{
    copse_device *dev = seg->queue->dev;
    struct copse_cl_segment *cs = seg->priv;
    size_t room = 0;
    for (size_t i = 0; i < seg->count; i++)
        room += mems_of(&seg->commands[i]);
    cs->kernels = copse__alloc(&dev->base->mem, seg->count, sizeof *cs->kernels);
    cs->mems = copse__alloc(&dev->base->mem, room, sizeof *cs->mems);
    if (cs->kernels == NULL || cs->mems == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "opencl: no memory for a segment of %zu commands",
                          seg->count);
    for (size_t i = 0; i < seg->count; i++) {
        const struct copse_command *c = &seg->commands[i];
        size_t count = 0;
        if (mems_of(c) == 0)
            continue;
        if (c->kind == COPSE_COMMAND_DISPATCH)
            COPSE_TRY(copse_cl_create_kernel(c->kernel, &cs->kernels[i]));
        cl_mem *mems = cs->mems + cs->mem_count;
        const copse_status s = view_all(c, mems, &count);
        cs->mem_count += count;
        COPSE_TRY(s);
        if (c->kind == COPSE_COMMAND_DISPATCH)
            COPSE_TRY(copse_cl_set_args(c, cs->kernels[i], mems));
    }
    return COPSE_OK;
}

void copse_cl_segment_fini(struct copse_segment *seg)
{
    copse_device *dev = seg->queue->dev;
    struct copse_cl_device *d = dev->priv;
    struct copse_cl_segment *cs = seg->priv;
    if (!atomic_load(&d->is_stuck)) {
        for (size_t i = 0; cs->kernels != NULL && i < seg->count; i++)
            if (cs->kernels[i] != NULL)
                d->cl.ReleaseKernel(cs->kernels[i]);
        release_mems(d, cs->mems, cs->mem_count);
    }
    copse__free(&dev->base->mem, cs->kernels);
    copse__free(&dev->base->mem, cs->mems);
}

copse_status copse_cl_replay(struct copse_segment *seg)
{
    const struct copse_cl_device *d = seg->queue->dev->priv;
    const struct copse_cl_segment *cs = seg->priv;
    copse_status s = COPSE_OK;
    const cl_mem *mems = cs->mems;
    copse_cl_lock(d);
    for (size_t i = 0; i < seg->count && s == COPSE_OK; i++) {
        const struct copse_command *c = &seg->commands[i];
        s = cs->kernels[i] != NULL          ? enqueue_kernel(seg->queue, c, cs->kernels[i])
            : c->kind == COPSE_COMMAND_GEMM ? copse_cl_gemm(seg->queue, c, mems)
                                            : encode_append(seg->queue, c);
        mems += mems_of(c);
    }
    copse_cl_unlock(d);
    return s;
}
