/* SPDX-License-Identifier: MIT */
/* See app.h. */
#include "tests/rig/app/app.h"

#if defined(COPSE_HAVE_OPENCL)

#    include <stdio.h>
#    include <stdlib.h>

#    define WORDS 256u

struct app_lock app_opencl_lock;
atomic_int app_opencl_held;
static cl_command_queue watched; /* the lent queue, and its context */
static cl_context watched_context;
static void *library;

/* X(result, name, parameters, arguments): commands for the queue, which is the first argument. */
#    define WATCHED(X)                                                                             \
        X(cl_int, EnqueueWriteBuffer,                                                              \
          (cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s, const void *p, cl_uint n,  \
           const cl_event *w, cl_event *e),                                                        \
          (q, m, b, o, s, p, n, w, e))                                                             \
        X(cl_int, EnqueueReadBuffer,                                                               \
          (cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s, void *p, cl_uint n,        \
           const cl_event *w, cl_event *e),                                                        \
          (q, m, b, o, s, p, n, w, e))                                                             \
        X(cl_int, EnqueueCopyBuffer,                                                               \
          (cl_command_queue q, cl_mem a, cl_mem b, size_t ao, size_t bo, size_t s, cl_uint n,      \
           const cl_event *w, cl_event *e),                                                        \
          (q, a, b, ao, bo, s, n, w, e))                                                           \
        X(cl_int, EnqueueFillBuffer,                                                               \
          (cl_command_queue q, cl_mem m, const void *p, size_t ps, size_t o, size_t s, cl_uint n,  \
           const cl_event *w, cl_event *e),                                                        \
          (q, m, p, ps, o, s, n, w, e))                                                            \
        X(void *, EnqueueMapBuffer,                                                                \
          (cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags f, size_t o, size_t s, cl_uint n, \
           const cl_event *w, cl_event *e, cl_int *r),                                             \
          (q, m, b, f, o, s, n, w, e, r))                                                          \
        X(cl_int, EnqueueUnmapMemObject,                                                           \
          (cl_command_queue q, cl_mem m, void *p, cl_uint n, const cl_event *w, cl_event *e),      \
          (q, m, p, n, w, e))                                                                      \
        X(cl_int, EnqueueNDRangeKernel,                                                            \
          (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g,           \
           const size_t *l, cl_uint n, const cl_event *w, cl_event *e),                            \
          (q, k, d, o, g, l, n, w, e))                                                             \
        X(cl_int, EnqueueMarkerWithWaitList,                                                       \
          (cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e), (q, n, w, e))           \
        X(cl_int, EnqueueBarrierWithWaitList,                                                      \
          (cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e), (q, n, w, e))           \
        X(cl_int, Flush, (cl_command_queue q), (q))

/* X(result, name, parameters): calls of the application itself. */
#    define CALLED(X)                                                                          \
        X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                      \
        X(cl_int, GetDeviceIDs,                                                                \
          (cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *))                \
        X(cl_context, CreateContext,                                                           \
          (const cl_context_properties *, cl_uint, const cl_device_id *,                       \
           void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *, cl_int *)) \
        X(cl_int, RetainContext, (cl_context))                                                 \
        X(cl_int, ReleaseContext, (cl_context))                                                \
        X(cl_command_queue, CreateCommandQueue,                                                \
          (cl_context, cl_device_id, cl_command_queue_properties, cl_int *))                   \
        X(cl_int, RetainCommandQueue, (cl_command_queue))                                      \
        X(cl_int, ReleaseCommandQueue, (cl_command_queue))                                     \
        X(cl_mem, CreateBuffer, (cl_context, cl_mem_flags, size_t, void *, cl_int *))          \
        X(cl_int, ReleaseMemObject, (cl_mem))                                                  \
        X(cl_int, WaitForEvents, (cl_uint, const cl_event *))                                  \
        X(cl_int, ReleaseEvent, (cl_event))

static struct {
#    define MEMBER(result, name, ...) result(CL_API_CALL *name) FIRST(__VA_ARGS__, ~);
#    define FIRST(a, ...)             a
    WATCHED(MEMBER)
    CALLED(MEMBER)
#    undef MEMBER
} cl;

/* ---- what the library is given, to watch it ---- */

#    define WATCH(result, name, parameters, arguments)    \
        static result CL_API_CALL watch_##name parameters \
        {                                                 \
            if (q == watched)                             \
                app_lock_check(&app_opencl_lock);         \
            return cl.name arguments;                     \
        }
WATCHED(WATCH)
#    undef WATCH

/* Drivers hold references themselves, so only those of the library are counted. */
static cl_int CL_API_CALL hold_context(cl_context context)
{
    atomic_fetch_add(&app_opencl_held, context == watched_context);
    return cl.RetainContext(context);
}

static cl_int CL_API_CALL drop_context(cl_context context)
{
    atomic_fetch_sub(&app_opencl_held, context == watched_context);
    return cl.ReleaseContext(context);
}

static cl_int CL_API_CALL hold_queue(cl_command_queue queue)
{
    atomic_fetch_add(&app_opencl_held, queue == watched);
    return cl.RetainCommandQueue(queue);
}

static cl_int CL_API_CALL drop_queue(cl_command_queue queue)
{
    atomic_fetch_sub(&app_opencl_held, queue == watched);
    return cl.ReleaseCommandQueue(queue);
}

static copse_opencl_fn get_proc(void *user, const char *name)
{
    copse_opencl_fn function;
    (void)user;
#    define CASE(result, member, ...)        \
        if (strcmp(name, "cl" #member) == 0) \
            return (copse_opencl_fn)watch_##member;
    WATCHED(CASE)
#    undef CASE
    if (strcmp(name, "clRetainContext") == 0)
        return (copse_opencl_fn)hold_context;
    if (strcmp(name, "clReleaseContext") == 0)
        return (copse_opencl_fn)drop_context;
    if (strcmp(name, "clRetainCommandQueue") == 0)
        return (copse_opencl_fn)hold_queue;
    if (strcmp(name, "clReleaseCommandQueue") == 0)
        return (copse_opencl_fn)drop_queue;
    void *symbol = copse__library_symbol(library, name);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

/* ---- the context ---- */

static void must(cl_int e, const char *what)
{
    if (e == CL_SUCCESS)
        return;
    fprintf(stderr, "app: %s: %d\n", what, (int)e);
    abort();
}

static const char *load(void)
{
    library = copse__library_open((const char *const[]){ "libOpenCL.so.1", "OpenCL.dll", NULL });
    if (!library)
        return "no OpenCL loader";
    void *symbol;
#    define LOAD(result, name, ...)                          \
        symbol = copse__library_symbol(library, "cl" #name); \
        memcpy(&cl.name, &symbol, sizeof symbol);            \
        if (!symbol)                                         \
            return "no cl" #name;
    WATCHED(LOAD)
    CALLED(LOAD)
#    undef LOAD
    return NULL;
}

static void make_objects(struct app_opencl *a, cl_command_queue_properties properties)
{
    const cl_context_properties on[] = { CL_CONTEXT_PLATFORM, (cl_context_properties)a->platform,
                                         0 };
    cl_int e;
    a->context = cl.CreateContext(on, 1, &a->device, NULL, NULL, &e);
    must(e, "clCreateContext");
    a->queue = cl.CreateCommandQueue(a->context, a->device, properties, &e);
    must(e, "clCreateCommandQueue");
    a->buffer = cl.CreateBuffer(a->context, CL_MEM_READ_WRITE, 4 * WORDS, NULL, &e);
    must(e, "clCreateBuffer");
    a->worker.work = app_opencl_work;
    a->worker.app = a;
}

const char *app_opencl_open(struct app_opencl *a, cl_command_queue_properties properties)
{
    cl_uint count = 0;
    memset(a, 0, sizeof *a);
    const char *why = load();
    if (why)
        return why;
    if (cl.GetPlatformIDs(1, &a->platform, &count) != CL_SUCCESS || !count ||
        cl.GetDeviceIDs(a->platform, CL_DEVICE_TYPE_ALL, 1, &a->device, &count) != CL_SUCCESS)
        return "no OpenCL device";
    make_objects(a, properties);
    app_lock_init(&app_opencl_lock);
    watched = a->queue;
    watched_context = a->context;
    atomic_store(&app_opencl_held, 0);
    return NULL;
}

void app_opencl_another(const struct app_opencl *a, struct app_opencl *out)
{
    *out = (struct app_opencl){ .platform = a->platform, .device = a->device };
    make_objects(out, 0);
}

struct copse_opencl_handles app_opencl_handles(struct app_opencl *a)
{
    return (struct copse_opencl_handles){
        .context = a->context,
        .device = a->device,
        .queue = a->queue,
        .get_proc = get_proc,
        .lock_queue = app_lock_take,
        .unlock_queue = app_lock_give,
        .user = &app_opencl_lock,
    };
}

bool app_opencl_work(void *app, uint32_t round)
{
    struct app_opencl *a = app;
    uint32_t got[WORDS] = { 0 };
    cl_event done;
    app_lock_take(&app_opencl_lock);
    must(cl.EnqueueFillBuffer(a->queue, a->buffer, &round, sizeof round, 0, sizeof got, 0, NULL,
                              NULL),
         "clEnqueueFillBuffer");
    must(cl.EnqueueReadBuffer(a->queue, a->buffer, CL_FALSE, 0, sizeof got, got, 0, NULL, &done),
         "clEnqueueReadBuffer");
    must(cl.Flush(a->queue), "clFlush");
    app_lock_give(&app_opencl_lock);
    must(cl.WaitForEvents(1, &done), "clWaitForEvents");
    cl.ReleaseEvent(done);
    for (uint32_t i = 0; i < WORDS; i++)
        if (got[i] != round)
            return false;
    return true;
}

void app_opencl_close(struct app_opencl *a)
{
    cl.ReleaseMemObject(a->buffer);
    cl.ReleaseCommandQueue(a->queue);
    cl.ReleaseContext(a->context);
}

#endif
