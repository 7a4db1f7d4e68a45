/* SPDX-License-Identifier: MIT */
/* Contexts that applications lend: the handles are checked against each other and retained. */
#include "backends/opencl/cl_internal.h"
#include "copse/device/opencl.h"

/* The backend's copy of copse_opencl_handles. */
struct cl_lent {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    copse_cl_function (*get_proc)(void *user, const char *name);
    void *user;
    bool is_guarded;
};

#define MAX_CONTEXT_DEVICES 256

/* ---- the public handles ---- */

copse_status copse_opencl_import(copse_context *ctx, const struct copse_opencl_handles *handles,
                                 copse_device **out)
{
    COPSE_TRY(copse_need("opencl: import", ctx, handles, out));
    const struct copse_opencl_handles *h = handles;
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_opencl_handles, handles));
    if (h->context == NULL || h->device == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "opencl: import: %s is missing",
                          h->context == NULL ? "context" : "device");
    if (h->queue == NULL && h->lock_queue != NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "opencl: import: lock_queue without a queue");
    const struct cl_lent lent = { h->context,  h->device, h->queue,
                                  h->get_proc, h->user,   h->lock_queue != NULL };
    const struct copse_foreign_device foreign = {
        .handles = &lent,
        .handles_size = sizeof lent,
        .guard = { h->lock_queue, h->unlock_queue, h->user },
        .memory_limit = h->memory_limit,
    };
    return copse__device_import(ctx, &copse_backend_opencl, &foreign, out);
}

/* ---- the device behind them ---- */

static copse_status import_load(struct copse_cl_api *cl, const struct cl_lent *h)
{
    const char *missing = copse_cl_load(cl, h->get_proc, h->user);
    return missing == NULL
               ? COPSE_OK
               : copse_fail(COPSE_ERR_UNSUPPORTED, "opencl: import: %s does not know %s",
                            h->get_proc != NULL ? "get_proc" : "the system", missing);
}

static copse_status check_context(const struct copse_cl_api *cl, const struct cl_lent *h)
{
    cl_device_id list[MAX_CONTEXT_DEVICES];
    size_t size = 0;
    COPSE_TRY(
        copse_cl_check(cl->GetContextInfo(h->context, CL_CONTEXT_DEVICES, sizeof list, list, &size),
                       "import: clGetContextInfo"));
    for (size_t i = 0; i < size / sizeof *list; i++)
        if (list[i] == h->device)
            return COPSE_OK;
    return copse_fail(COPSE_ERR_ARGUMENT, "opencl: import: the device is none of the context's %zu",
                      size / sizeof *list);
}

static copse_status check_queue(const struct copse_cl_api *cl, const struct cl_lent *h)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int e = cl->GetCommandQueueInfo(h->queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (e == CL_SUCCESS)
        e = cl->GetCommandQueueInfo(h->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (e == CL_SUCCESS)
        e = cl->GetCommandQueueInfo(h->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties,
                                    NULL);
    COPSE_TRY(copse_cl_check(e, "import: clGetCommandQueueInfo"));
    if (context != h->context || device != h->device)
        return copse_fail(COPSE_ERR_ARGUMENT, "opencl: import: the queue belongs to another %s",
                          context != h->context ? "context" : "device");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "opencl: import: the queue runs commands out of order; lend one that keeps "
            "the order, or none, and Copse makes its own in the context");
    return COPSE_OK;
}

copse_status copse_cl_import(struct copse_base *base, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info)
{
    const struct cl_lent *h = foreign->handles;
    struct copse_cl_api cl;
    cl_platform_id platform = NULL;
    (void)base;
    COPSE_TRY(import_load(&cl, h));
    COPSE_TRY(check_context(&cl, h));
    if (h->queue != NULL)
        COPSE_TRY(check_queue(&cl, h));
    COPSE_TRY(copse_cl_check(
        cl.GetDeviceInfo(h->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL),
        "import: clGetDeviceInfo"));
    copse_cl_describe(&cl, platform, h->device, info);
    info->limits.has_library_gemm = info->is_usable && copse_cl_gemm_exists();
    return COPSE_OK;
}

copse_status copse_cl_attach(struct copse_cl_device *d, const struct copse_foreign_device *foreign)
{
    const struct cl_lent *h = foreign->handles;
    cl_device_id parent = NULL;
    COPSE_TRY(import_load(&d->cl, h));
    COPSE_TRY(copse_cl_check(d->cl.RetainDevice(h->device), "clRetainDevice"));
    d->id = h->device;
    d->has_id = true;
    d->is_part = d->cl.GetDeviceInfo(d->id, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent,
                                     NULL) == CL_SUCCESS &&
                 parent != NULL;
    COPSE_TRY(copse_cl_check(d->cl.RetainContext(h->context), "clRetainContext"));
    d->context = h->context;
    if (h->queue == NULL)
        return COPSE_OK;
    COPSE_TRY(copse_cl_check(d->cl.RetainCommandQueue(h->queue), "clRetainCommandQueue"));
    d->lent = h->queue;
    if (h->is_guarded)
        d->guard = foreign->guard;
    return COPSE_OK;
}

/* ---- our own context as an application's ---- */

copse_status copse_cl_lend(copse_queue *q, const struct copse_queue_guard *guard,
                           copse_device **out)
{
    struct copse_cl_device *d = q->dev->priv;
    const struct copse_cl_queue *p = q->priv;
    d->guard = *guard;
    return copse_opencl_import(q->dev->ctx,
                               &(struct copse_opencl_handles){
                                   .context = d->context,
                                   .device = d->id,
                                   .queue = p->queue,
                                   .lock_queue = guard->lock,
                                   .unlock_queue = guard->unlock,
                                   .user = guard->user,
                               },
                               out);
}
