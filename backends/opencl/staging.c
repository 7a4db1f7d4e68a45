/* SPDX-License-Identifier: MIT */
/* Host copies of OpenCL queues through memory that the driver allocates, mapped once: only such
   memory is certain to be copied without blocking. Of a device that shares the memory of the host,
   reads go to their destination directly; all others land in that memory, and the host copies them
   out when it waits for them. */
#include "backends/opencl/cl_internal.h"

#define WRITE_BYTES ((size_t)COPSE_CL_BLOCKS * COPSE_CL_BLOCK_BYTES)
#define READ_BYTES  WRITE_BYTES

copse_status copse_cl_staging_init(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    const bool lands = !q->dev->limits->has_unified_memory;
    const size_t size = WRITE_BYTES + (lands ? READ_BYTES : 0);
    cl_int e = CL_SUCCESS;
    cl_event mapped = NULL;
    p->staging =
        d->cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &e);
    COPSE_TRY(copse_cl_check(e, "clCreateBuffer of staging memory"));
    copse_cl_lock(d);
    p->mapped = d->cl.EnqueueMapBuffer(p->queue, p->staging, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
                                       0, size, 0, NULL, &mapped, &e);
    copse_cl_unlock(d);
    COPSE_TRY(copse_cl_check(e, "clEnqueueMapBuffer of staging memory"));
    p->reads.map = lands ? p->mapped + WRITE_BYTES : NULL;
    copse_status s = copse_cl_flush(d, p->queue);
    if (s == COPSE_OK)
        s = copse_cl_wait_event(&d->cl, mapped, copse__device_wait_ns(q->dev));
    d->cl.ReleaseEvent(mapped);
    if (s == COPSE_ERR_TIMEOUT)
        return copse_fail(s, "opencl: the driver does not map staging memory");
    return s;
}

void copse_cl_staging_unmap(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    if (p->mapped == NULL)
        return;
    copse_cl_lock(d);
    d->cl.EnqueueUnmapMemObject(p->queue, p->staging, p->mapped, 0, NULL, NULL);
    copse_cl_unlock(d);
}

void copse_cl_staging_fini(copse_queue *q)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    for (size_t i = 0; i < COPSE_CL_BLOCKS; i++)
        if (p->blocks[i].last != NULL)
            d->cl.ReleaseEvent(p->blocks[i].last);
    if (p->read != NULL)
        d->cl.ReleaseEvent(p->read);
    if (p->staging != NULL)
        d->cl.ReleaseMemObject(p->staging);
}

static copse_status staging_full(copse_status s)
{
    return s != COPSE_ERR_TIMEOUT
               ? s
               : copse_fail(s, "opencl: staging memory is full and the device does not proceed");
}

/* ---- writes ---- */

/* Make block `i` empty again. */
static copse_status reclaim_block(struct copse_cl_device *d, struct copse_cl_queue *p, size_t i,
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
    const copse_status s = reclaim_block(d, p, p->block, 0);
    if (s != COPSE_ERR_TIMEOUT)
        return s;
    const size_t next = (p->block + 1) % COPSE_CL_BLOCKS;
    COPSE_TRY(copse_cl_flush(d, p->queue));
    COPSE_TRY(staging_full(reclaim_block(d, p, next, copse__device_wait_ns(q->dev))));
    p->block = next;
    return COPSE_OK;
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

/* ---- reads that land ---- */

/* Takes the reference to the event. */
static void note_newest(const struct copse_cl_device *d, struct copse_cl_queue *p, cl_event read)
{
    if (p->read != NULL)
        d->cl.ReleaseEvent(p->read);
    p->read = read;
}

static struct copse_cl_landing *oldest_read(struct copse_cl_queue *p)
{
    return &p->reads.at[p->reads.first];
}

static void forget_oldest(const struct copse_cl_device *d, struct copse_cl_queue *p)
{
    struct copse_cl_landing *l = oldest_read(p);
    d->cl.ReleaseEvent(l->read);
    p->reads.tail = l->end;
    p->reads.first = (p->reads.first + 1) % COPSE_CL_LANDINGS;
    p->reads.count--;
}

/* Wait for the oldest read and copy it out. After a failure other than COPSE_ERR_TIMEOUT it never
   will be, and the queue has failed. */
static copse_status land_oldest(copse_queue *q, uint64_t timeout_ns)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    const struct copse_cl_landing *l = oldest_read(p);
    const copse_status s = copse_cl_wait_event(&d->cl, l->read, timeout_ns);
    if (s == COPSE_ERR_TIMEOUT)
        return s;
    if (s == COPSE_OK)
        memcpy(l->dst, p->reads.map + l->at, l->size);
    else
        p->failed = s;
    forget_oldest(d, p);
    return s;
}

copse_status copse_cl_land(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    struct copse_cl_queue *p = q->priv;
    while (p->reads.count > 0 && oldest_read(p)->ticket <= ticket)
        COPSE_TRY(land_oldest(q, timeout_ns));
    return COPSE_OK;
}

bool copse_cl_land_all(copse_queue *q, struct copse_deadline *left)
{
    struct copse_cl_queue *p = q->priv;
    while (p->reads.count > 0)
        if (land_oldest(q, copse__deadline_left(left)) == COPSE_ERR_TIMEOUT)
            return false;
    return true;
}

void copse_cl_drop_reads(copse_queue *q)
{
    struct copse_cl_queue *p = q->priv;
    while (p->reads.count > 0)
        forget_oldest(q->dev->priv, p);
}

/* Find `size` contiguous bytes to land in; wait for earlier reads until they are free. */
static copse_status take_landing(copse_queue *q, size_t size, size_t *at)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    for (;;) {
        const size_t begin = p->reads.head % READ_BYTES;
        const size_t skip = begin + size > READ_BYTES ? READ_BYTES - begin : 0;
        if (p->reads.count == 0) /* the place of a read that could not be queued is free, too */
            p->reads.tail = p->reads.head;
        if (p->reads.count < COPSE_CL_LANDINGS &&
            p->reads.head + skip + size - p->reads.tail <= READ_BYTES) {
            p->reads.head += skip + size;
            *at = skip > 0 ? 0 : begin;
            return COPSE_OK;
        }
        COPSE_TRY(copse_cl_flush(d, p->queue));
        COPSE_TRY(staging_full(land_oldest(q, copse__device_wait_ns(q->dev))));
    }
}

static copse_status read_part(copse_queue *q, const struct copse_cl_buffer *b, size_t offset,
                              size_t size, void *dst)
{
    struct copse_cl_device *d = q->dev->priv;
    struct copse_cl_queue *p = q->priv;
    struct copse_cl_landing l = { .dst = dst, .size = size, .ticket = q->submitted + 1 };
    COPSE_TRY(take_landing(q, copse__round_up(size, 64), &l.at));
    l.end = p->reads.head;
    copse_cl_lock(d);
    const cl_int e = d->cl.EnqueueReadBuffer(p->queue, b->mem, CL_FALSE, offset, size,
                                             p->reads.map + l.at, 0, NULL, &l.read);
    copse_cl_unlock(d);
    COPSE_TRY(copse_cl_check(e, "clEnqueueReadBuffer"));
    d->cl.RetainEvent(l.read);
    note_newest(d, p, l.read);
    p->reads.at[(p->reads.first + p->reads.count++) % COPSE_CL_LANDINGS] = l;
    return COPSE_OK;
}

/* ---- reads ---- */

static copse_status read_directly(copse_queue *q, const struct copse_binding *src, void *dst)
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
    note_newest(d, p, read);
    return COPSE_OK;
}

copse_status copse_cl_read(copse_queue *q, const struct copse_binding *src, void *dst)
{
    const struct copse_cl_queue *p = q->priv;
    if (p->reads.map == NULL)
        return read_directly(q, src, dst);
    for (size_t done = 0; done < src->size;) {
        const size_t part = COPSE_MIN(src->size - done, COPSE_CL_BLOCK_BYTES);
        COPSE_TRY(read_part(q, src->buffer->priv, src->offset + done, part, (char *)dst + done));
        done += part;
    }
    return COPSE_OK;
}
