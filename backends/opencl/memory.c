/* SPDX-License-Identifier: MIT */
/* OpenCL buffers, imported host memory, and the sub-buffers that represent ranges for kernels. */
#include "backends/opencl/cl_internal.h"

/* Sub-buffers kept per buffer. The limit is needed because a buffer may be reused indefinitely. */
#define MAX_VIEWS 1024
#define PROBE_NS  (120ull * 1000000000ull)

copse_status copse_cl_buffer_init(copse_buffer *buf)
{
    struct copse_cl_device *d = buf->dev->priv;
    struct copse_cl_buffer *b = buf->priv;
    const cl_mem_flags flags =
        CL_MEM_READ_WRITE | (buf->host != NULL ? (cl_mem_flags)CL_MEM_USE_HOST_PTR : 0);
    cl_int e = CL_SUCCESS;
    b->mem = d->cl.CreateBuffer(d->context, flags, buf->size, buf->host, &e);
    if (e != CL_SUCCESS)
        return copse_fail(copse_cl_error_status(e), "opencl: buffer of %zu bytes: %s (%d)",
                          buf->size, copse_cl_error_name(e), (int)e);
    return COPSE_OK;
}

static void drop_views(struct copse_cl_device *d, struct copse_cl_buffer *b)
{
    for (size_t i = 0; i < b->views.count; i++)
        d->cl.ReleaseMemObject(b->views.at[i].mem);
    b->views.count = 0;
}

void copse_cl_buffer_fini(copse_buffer *buf)
{
    struct copse_cl_device *d = buf->dev->priv;
    struct copse_cl_buffer *b = buf->priv;
    if (!atomic_load(&d->is_stuck)) {
        drop_views(d, b);
        if (b->mem != NULL)
            d->cl.ReleaseMemObject(b->mem);
    }
    copse__free(&buf->dev->base->mem, b->views.at);
}

/* Position of the view, or its insertion point. */
static size_t find_view(const struct copse_cl_buffer *b, size_t offset, size_t size)
{
    size_t low = 0, high = b->views.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct copse_cl_view *v = &b->views.at[middle];
        if (v->offset < offset || (v->offset == offset && v->size < size))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static copse_status find_or_make_view(struct copse_cl_device *d, struct copse_mem *mem,
                                      const struct copse_binding *binding, cl_mem *out)
{
    struct copse_cl_buffer *b = binding->buffer->priv;
    size_t at = find_view(b, binding->offset, binding->size);
    if (at < b->views.count && b->views.at[at].offset == binding->offset &&
        b->views.at[at].size == binding->size) {
        *out = b->views.at[at].mem;
        return COPSE_OK;
    }
    if (b->views.count >= MAX_VIEWS) {
        drop_views(d, b);
        at = 0;
    }
    if (!COPSE_RESERVE(mem, &b->views, b->views.count + 1))
        return copse_fail(COPSE_ERR_NO_MEMORY, "opencl: no memory for a view of a buffer");
    const cl_buffer_region region = { binding->offset, binding->size };
    cl_int e = CL_SUCCESS;
    cl_mem made =
        d->cl.CreateSubBuffer(b->mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &e);
    COPSE_TRY(copse_cl_check(e, "clCreateSubBuffer"));
    memmove(&b->views.at[at + 1], &b->views.at[at], (b->views.count - at) * sizeof *b->views.at);
    b->views.at[at] = (struct copse_cl_view){ binding->offset, binding->size, made };
    b->views.count++;
    *out = made;
    return COPSE_OK;
}

copse_status copse_cl_view(const struct copse_binding *binding, cl_mem *out)
{
    copse_device *dev = binding->buffer->dev;
    struct copse_cl_device *d = dev->priv;
    struct copse_cl_buffer *b = binding->buffer->priv;
    copse_status s = COPSE_OK;
    cl_mem mem = b->mem;
    copse__mutex_lock(&d->lock);
    if (binding->offset != 0 || binding->size != binding->buffer->size)
        s = find_or_make_view(d, &dev->base->mem, binding, &mem);
    /* The reference is taken under the lock, because another thread may drop the views at any
       time. */
    if (s == COPSE_OK)
        s = copse_cl_check(d->cl.RetainMemObject(mem), "clRetainMemObject");
    copse__mutex_unlock(&d->lock);
    if (s == COPSE_OK)
        *out = mem;
    return s;
}

/* Waits until the queue has run all of its work. False if this is unknown: a call failed, or the
   time expired. */
static bool finish_queue(const struct copse_cl_api *cl, cl_command_queue queue)
{
    cl_event end = NULL;
    const bool is_finished = cl->EnqueueMarkerWithWaitList(queue, 0, NULL, &end) == CL_SUCCESS &&
                             cl->Flush(queue) == CL_SUCCESS &&
                             copse_cl_wait_event(cl, end, PROBE_NS) == COPSE_OK;
    if (is_finished)
        cl->ReleaseEvent(end);
    return is_finished;
}

/* OpenCL guarantees shared contents only around map and unmap; some drivers keep a copy. The test:
   the device must see a word that the host stored after the import, and the host must see one from
   the device. */
bool copse_cl_import_works(struct copse_cl_device *d, size_t alignment, struct copse_mem *mem)
{
    enum { FROM_HOST = 0x1234567, FROM_DEVICE = 0x7654321 };
    const struct copse_cl_api *cl = &d->cl;
    const size_t size = copse__round_up(3 * sizeof(cl_uint), alignment);
    void *host = copse__alloc_aligned(mem, size, alignment);
    volatile cl_uint *words = host; /* [0] the host's, [1] the device's, [2] [0] read back */
    const cl_uint word = FROM_DEVICE;
    cl_mem imported = NULL;
    cl_int e = CL_SUCCESS;
    bool works = false;
    cl_command_queue queue = cl->CreateCommandQueue(d->context, d->id, 0, &e);
    if (host == NULL || e != CL_SUCCESS)
        goto out;
    imported = cl->CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                2 * sizeof word, host, &e);
    if (e != CL_SUCCESS)
        goto out;
    words[0] = FROM_HOST;
    if (cl->EnqueueFillBuffer(queue, imported, &word, sizeof word, sizeof word, sizeof word, 0,
                              NULL, NULL) != CL_SUCCESS)
        goto out;
    works = cl->EnqueueReadBuffer(queue, imported, CL_FALSE, 0, sizeof word, (char *)host + 8, 0,
                                  NULL, NULL) == CL_SUCCESS;
    if (!finish_queue(cl, queue))
        return false; /* the queue may still write to the block: nothing is freed */
    works = works && words[1] == FROM_DEVICE && words[2] == FROM_HOST;
out:
    if (imported != NULL)
        cl->ReleaseMemObject(imported);
    if (queue != NULL)
        cl->ReleaseCommandQueue(queue);
    copse__free_aligned(mem, host);
    return works;
}
