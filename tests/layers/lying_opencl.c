/* SPDX-License-Identifier: MIT */
/* An OpenCL layer that plays a fault (lie.h) between the loader and every driver:
   OPENCL_LAYERS=FILE. */
#define CL_TARGET_OPENCL_VERSION 300
#include <pthread.h>

#include <CL/cl_ext.h>
#include <CL/cl_layer.h>

#include "tests/layers/lie.h"

static struct lie lie;
static struct lie_reads reads;
static const cl_icd_dispatch *next;
static cl_icd_dispatch table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- a dispatch that waits for the next one ---- */

static struct {
    cl_command_queue queue;
    cl_kernel kernel; /* NULL: none */
    cl_uint dimensions;
    size_t global[3], local[3];
} held;

static cl_int run_held(void)
{
    const cl_kernel kernel = held.kernel;

    if (kernel == NULL)
        return CL_SUCCESS;
    held.kernel = NULL;
    return next->clEnqueueNDRangeKernel(held.queue, kernel, held.dimensions, NULL, held.global,
                                        held.local, 0, NULL, NULL);
}

static void hold(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *global,
                 const size_t *local)
{
    held.queue = queue;
    held.kernel = kernel;
    held.dimensions = dimensions;
    memcpy(held.global, global, dimensions * sizeof *global);
    memcpy(held.local, local, dimensions * sizeof *local);
}

static void settle(void)
{
    pthread_mutex_lock(&lock);
    (void)run_held();
    pthread_mutex_unlock(&lock);
}

static cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size,
                                         const void *value)
{
    pthread_mutex_lock(&lock);
    if (held.kernel == kernel) /* the waiting dispatch has the old arguments */
        (void)run_held();
    pthread_mutex_unlock(&lock);
    return next->clSetKernelArg(kernel, index, size, value);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    settle();
    return next->clReleaseKernel(kernel);
}

/* ---- dispatches ---- */

static cl_int CL_API_CALL dispatch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                   const size_t *offset, const size_t *global, const size_t *local,
                                   cl_uint count, const cl_event *wait, cl_event *event)
{
    const bool is_plain = offset == NULL && local != NULL && count == 0 && event == NULL;
    cl_int e = CL_SUCCESS;

    pthread_mutex_lock(&lock);
    if (is_plain && lie_now(&lie, LIE_DISPATCH_LOST)) {
        ;
    } else if (is_plain && held.kernel == NULL && lie_now(&lie, LIE_DISPATCHES_SWAPPED)) {
        hold(queue, kernel, dimensions, global, local);
    } else {
        e = next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, count,
                                         wait, event);
        const cl_int of_held = run_held();
        e = e != CL_SUCCESS ? e : of_held;
    }
    pthread_mutex_unlock(&lock);
    return e;
}

/* Commands that end the wait of a dispatch. */
static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    settle();
    return next->clFlush(queue);
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    settle();
    return next->clFinish(queue);
}

static cl_int CL_API_CALL copy(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                               size_t to_offset, size_t size, cl_uint count, const cl_event *wait,
                               cl_event *event)
{
    settle();
    return next->clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, count, wait,
                                     event);
}

static cl_int CL_API_CALL fill(cl_command_queue queue, cl_mem to, const void *pattern,
                               size_t pattern_size, size_t offset, size_t size, cl_uint count,
                               const cl_event *wait, cl_event *event)
{
    settle();
    return next->clEnqueueFillBuffer(queue, to, pattern, pattern_size, offset, size, count, wait,
                                     event);
}

/* ---- memory of the driver, which the host has mapped ---- */

static struct {
    cl_mem buffer; /* allocated by the driver in host memory */
    const char *begin;
    size_t size;
} pinned[64];

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                        void *host, cl_int *e)
{
    const cl_mem made = next->clCreateBuffer(context, flags, size, host, e);

    pthread_mutex_lock(&lock);
    for (size_t i = 0; made && i < sizeof pinned / sizeof *pinned; i++)
        if (pinned[i].buffer == made)
            pinned[i].buffer = NULL;
    for (size_t i = 0; made && (flags & CL_MEM_ALLOC_HOST_PTR); i++)
        if (i == sizeof pinned / sizeof *pinned) {
            fprintf(stderr, "lying layer: too many buffers in host memory\n");
            abort();
        } else if (pinned[i].buffer == NULL) {
            pinned[i].buffer = made;
            pinned[i].size = 0;
            break;
        }
    pthread_mutex_unlock(&lock);
    return made;
}

static void note_mapping(cl_mem buffer, const void *bytes, size_t size)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        if (pinned[i].buffer == buffer) {
            pinned[i].begin = bytes;
            pinned[i].size = size;
        }
    pthread_mutex_unlock(&lock);
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem buffer, void *bytes, cl_uint count,
                                const cl_event *wait, cl_event *event)
{
    note_mapping(buffer, NULL, 0);
    return next->clEnqueueUnmapMemObject(queue, buffer, bytes, count, wait, event);
}

static cl_int CL_API_CALL release_buffer(cl_mem buffer)
{
    cl_uint references = 0;

    pthread_mutex_lock(&lock);
    (void)next->clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof references, &references,
                                   NULL);
    for (size_t i = 0; references <= 1 && i < sizeof pinned / sizeof *pinned; i++)
        if (pinned[i].buffer == buffer)
            pinned[i].buffer = NULL;
    pthread_mutex_unlock(&lock);
    return next->clReleaseMemObject(buffer);
}

/* Whether a transfer blocks: drivers of discrete GPUs copy only memory of their own meanwhile. */
static bool blocks(const void *bytes, size_t size, const char *what)
{
    const char *at = bytes;
    bool is_pinned = lie.fault != LIE_DISCRETE;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; !is_pinned && i < sizeof pinned / sizeof *pinned; i++)
        is_pinned = pinned[i].buffer != NULL && at >= pinned[i].begin &&
                    at + size <= pinned[i].begin + pinned[i].size;
    pthread_mutex_unlock(&lock);
    if (!is_pinned)
        fprintf(stderr, "lying layer: a %s of %zu bytes blocks\n", what, size);
    return !is_pinned;
}

/* ---- transfers ---- */

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem to, cl_bool is_blocking,
                                       size_t offset, size_t size, const void *bytes, cl_uint count,
                                       const cl_event *wait, cl_event *event)
{
    settle();
    return next->clEnqueueWriteBuffer(queue, to, blocks(bytes, size, "write") || is_blocking,
                                      offset, size, bytes, count, wait, event);
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_uint count, const cl_event *wait,
                                 cl_event *event)
{
    settle();
    return next->clEnqueueMarkerWithWaitList(queue, count, wait, event);
}

static cl_int CL_API_CALL barrier(cl_command_queue queue, cl_uint count, const cl_event *wait,
                                  cl_event *event)
{
    settle();
    return next->clEnqueueBarrierWithWaitList(queue, count, wait, event);
}

/* ---- results that the host reads ---- */

static void spoil(void *bytes, size_t size)
{
    pthread_mutex_lock(&lock);
    if (lie_now(&lie, LIE_BIT_FLIPPED))
        lie_flip(bytes, size);
    if (lie.fault == LIE_READ_STALE)
        (void)lie_stale(&reads, lie_now(&lie, LIE_READ_STALE), bytes, size);
    pthread_mutex_unlock(&lock);
}

/* A faulty read ends at once, so that the fault is there when the caller looks. */
static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem from, cl_bool is_blocking,
                                      size_t offset, size_t size, void *bytes, cl_uint count,
                                      const cl_event *wait, cl_event *event)
{
    const bool is_meant = lie.fault == LIE_BIT_FLIPPED || lie.fault == LIE_READ_STALE;

    settle();
    const cl_int e = next->clEnqueueReadBuffer(
        queue, from, is_meant || blocks(bytes, size, "read") ? CL_TRUE : is_blocking, offset, size,
        bytes, count, wait, event);
    if (e == CL_SUCCESS && is_meant)
        spoil(bytes, size);
    return e;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking,
                                    cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                                    const cl_event *wait, cl_event *event, cl_int *status)
{
    const bool is_meant =
        (flags & CL_MAP_READ) && (lie.fault == LIE_BIT_FLIPPED || lie.fault == LIE_READ_STALE);

    settle();
    void *bytes = next->clEnqueueMapBuffer(queue, buffer, is_meant ? CL_TRUE : is_blocking, flags,
                                           offset, size, count, wait, event, status);
    if (bytes != NULL && is_meant)
        spoil(bytes, size);
    note_mapping(buffer, bytes, bytes != NULL ? size : 0);
    return bytes;
}

/* ---- priorities ---- */

static cl_command_queue CL_API_CALL queue_of_priority(cl_context context, cl_device_id device,
                                                      const cl_queue_properties_khr *properties,
                                                      cl_int *e)
{
    const cl_queue_properties_khr has = properties[2] == CL_QUEUE_PROPERTIES ? properties[3] : 0;

    if (properties[0] != CL_QUEUE_PRIORITY_KHR || (properties[2] != 0 && has == 0) ||
        !lie_gives_priority(&lie, properties[1]) || (has != 0 && lie.every == 3)) {
        *e = CL_INVALID_QUEUE_PROPERTIES;
        return NULL;
    }
    if (has != 0)
        fprintf(stderr, "lying layer: a queue of this priority with times\n");
    return next->clCreateCommandQueue(context, device, has, e);
}

static void *CL_API_CALL extension_function(cl_platform_id platform, const char *name)
{
    void *function = NULL;
    cl_command_queue(CL_API_CALL *const own)(
        cl_context, cl_device_id, const cl_queue_properties_khr *, cl_int *) = queue_of_priority;

    if (lie.fault != LIE_PRIORITY || strcmp(name, "clCreateCommandQueueWithPropertiesKHR") != 0)
        return next->clGetExtensionFunctionAddressForPlatform(platform, name);
    memcpy(&function, &own, sizeof function);
    return function;
}

static cl_int claim_priorities(cl_device_id device, size_t room, char *value, size_t *needed)
{
    static const char claimed[] = " cl_khr_priority_hints cl_khr_create_command_queue";
    size_t size = 0;
    const cl_int e = next->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);

    if (e != CL_SUCCESS)
        return e;
    if (needed != NULL)
        *needed = size + sizeof claimed - 1;
    if (value == NULL)
        return CL_SUCCESS;
    if (room < size + sizeof claimed - 1)
        return CL_INVALID_VALUE;
    memset(value, 0, size);
    (void)next->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, value, NULL);
    strcat(value, claimed);
    return CL_SUCCESS;
}

/* ---- what the device is ---- */

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room,
                                      void *value, size_t *needed)
{
    if (lie.fault == LIE_PRIORITY && what == CL_DEVICE_EXTENSIONS)
        return claim_priorities(device, room, value, needed);
    const cl_int e = next->clGetDeviceInfo(device, what, room, value, needed);

    if (e == CL_SUCCESS && value != NULL && lie.fault == LIE_DISCRETE) {
        if (what == CL_DEVICE_HOST_UNIFIED_MEMORY)
            *(cl_bool *)value = CL_FALSE;
        else if (what == CL_DEVICE_TYPE && lie.every == 2)
            *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    }
    if (e != CL_SUCCESS || value == NULL || lie.fault != LIE_LIMITS)
        return e;
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE)
        *(size_t *)value *= 16;
    else if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE || what == CL_DEVICE_GLOBAL_MEM_SIZE ||
             what == CL_DEVICE_LOCAL_MEM_SIZE)
        *(cl_ulong *)value *= 16;
    else if (what == CL_DEVICE_MEM_BASE_ADDR_ALIGN)
        *(cl_uint *)value = 8; /* [bits] */
    return e;
}

/* ---- the compiler ---- */

/* Code that is compiled calls no fma that the compiler cannot link. */
static bool has_text(cl_program program)
{
    size_t size = 0;
    return next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) == CL_SUCCESS &&
           size > 1;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count,
                                        const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *done)(cl_program program, void *user),
                                        void *user)
{
    if (lie.fault == LIE_FMA && (options == NULL || strstr(options, "-Dfma=mad") == NULL) &&
        has_text(program))
        return CL_BUILD_PROGRAM_FAILURE;
    if (lie.fault == LIE_CODE && !has_text(program))
        return CL_BUILD_PROGRAM_FAILURE;
    return next->clBuildProgram(program, count, devices, options, done, user);
}

static cl_int CL_API_CALL compile_program(cl_program program, cl_uint count,
                                          const cl_device_id *devices, const char *options,
                                          cl_uint headers, const cl_program *texts,
                                          const char **names,
                                          void(CL_CALLBACK *done)(cl_program program, void *user),
                                          void *user)
{
    if (lie.fault == LIE_FMA && (options == NULL || strstr(options, "-Dfma=mad") == NULL))
        return CL_COMPILE_PROGRAM_FAILURE;
    return next->clCompileProgram(program, count, devices, options, headers, texts, names, done,
                                  user);
}

/* ---- the layer ---- */

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *value,
                                               size_t *needed)
{
    static const char name[] = "copse lying layer";
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = what == CL_LAYER_API_VERSION ? (const void *)&version : name;
    const size_t size = what == CL_LAYER_API_VERSION ? sizeof version : sizeof name;

    if ((what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME) || (value != NULL && room < size))
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, from, size);
    if (needed != NULL)
        *needed = size;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *count_out, const cl_icd_dispatch **out)
{
    if (count < sizeof table / sizeof(void *) || count_out == NULL || out == NULL)
        return CL_INVALID_VALUE;
    lie_init(&lie);
    next = target;
    table = *target;
    table.clSetKernelArg = set_kernel_arg;
    table.clReleaseKernel = release_kernel;
    table.clEnqueueNDRangeKernel = dispatch;
    table.clFlush = flush;
    table.clFinish = finish;
    table.clEnqueueCopyBuffer = copy;
    table.clEnqueueFillBuffer = fill;
    table.clCreateBuffer = create_buffer;
    table.clReleaseMemObject = release_buffer;
    table.clEnqueueUnmapMemObject = unmap;
    table.clEnqueueWriteBuffer = write_buffer;
    table.clEnqueueMarkerWithWaitList = marker;
    table.clEnqueueBarrierWithWaitList = barrier;
    table.clEnqueueReadBuffer = read_buffer;
    table.clEnqueueMapBuffer = map_buffer;
    table.clGetDeviceInfo = device_info;
    table.clBuildProgram = build_program;
    table.clGetExtensionFunctionAddressForPlatform = extension_function;
    table.clCompileProgram = compile_program;
    *count_out = sizeof table / sizeof(void *);
    *out = &table;
    return CL_SUCCESS;
}
