/* SPDX-License-Identifier: MIT */
/* Private structs of the OpenCL backend and the table of entry points, which are resolved at run
   time. The table has only OpenCL 1.2 calls: a newer call on an older platform may hang its
   loader. */
#ifndef COPSE_CL_INTERNAL_H
#define COPSE_CL_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "copse/device/queue.h"

#include "core/base/deadline.h"
#include "core/device/backend.h"

/* X(result, name without "cl", parameters) */
#define COPSE_CL_CALLS(X)                                                                          \
    X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                              \
    X(cl_int, GetPlatformInfo, (cl_platform_id, cl_platform_info, size_t, void *, size_t *))       \
    X(cl_int, GetDeviceIDs, (cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *))  \
    X(cl_int, GetDeviceInfo, (cl_device_id, cl_device_info, size_t, void *, size_t *))             \
    X(cl_int, CreateSubDevices,                                                                    \
      (cl_device_id, const cl_device_partition_property *, cl_uint, cl_device_id *, cl_uint *))    \
    X(cl_int, RetainDevice, (cl_device_id))                                                        \
    X(cl_int, ReleaseDevice, (cl_device_id))                                                       \
    X(cl_context, CreateContext,                                                                   \
      (const cl_context_properties *, cl_uint, const cl_device_id *,                               \
       void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *, cl_int *))         \
    X(cl_int, GetContextInfo, (cl_context, cl_context_info, size_t, void *, size_t *))             \
    X(cl_int, RetainContext, (cl_context))                                                         \
    X(cl_int, ReleaseContext, (cl_context))                                                        \
    X(cl_command_queue, CreateCommandQueue,                                                        \
      (cl_context, cl_device_id, cl_command_queue_properties, cl_int *))                           \
    X(cl_int, GetCommandQueueInfo,                                                                 \
      (cl_command_queue, cl_command_queue_info, size_t, void *, size_t *))                         \
    X(cl_int, RetainCommandQueue, (cl_command_queue))                                              \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue))                                             \
    X(void *, GetExtensionFunctionAddressForPlatform, (cl_platform_id, const char *))              \
    X(cl_mem, CreateBuffer, (cl_context, cl_mem_flags, size_t, void *, cl_int *))                  \
    X(cl_mem, CreateSubBuffer,                                                                     \
      (cl_mem, cl_mem_flags, cl_buffer_create_type, const void *, cl_int *))                       \
    X(cl_int, RetainMemObject, (cl_mem))                                                           \
    X(cl_int, ReleaseMemObject, (cl_mem))                                                          \
    X(cl_program, CreateProgramWithSource,                                                         \
      (cl_context, cl_uint, const char **, const size_t *, cl_int *))                              \
    X(cl_program, CreateProgramWithBinary,                                                         \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **,          \
       cl_int *, cl_int *))                                                                        \
    X(cl_int, BuildProgram,                                                                        \
      (cl_program, cl_uint, const cl_device_id *, const char *,                                    \
       void(CL_CALLBACK *)(cl_program, void *), void *))                                           \
    X(cl_int, CompileProgram,                                                                      \
      (cl_program, cl_uint, const cl_device_id *, const char *, cl_uint, const cl_program *,       \
       const char **, void(CL_CALLBACK *)(cl_program, void *), void *))                            \
    X(cl_program, LinkProgram,                                                                     \
      (cl_context, cl_uint, const cl_device_id *, const char *, cl_uint, const cl_program *,       \
       void(CL_CALLBACK *)(cl_program, void *), void *, cl_int *))                                 \
    X(cl_int, GetProgramInfo, (cl_program, cl_program_info, size_t, void *, size_t *))             \
    X(cl_int, GetProgramBuildInfo,                                                                 \
      (cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *))                 \
    X(cl_int, ReleaseProgram, (cl_program))                                                        \
    X(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                               \
    X(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                            \
    X(cl_int, ReleaseKernel, (cl_kernel))                                                          \
    X(cl_int, EnqueueWriteBuffer,                                                                  \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, \
       cl_event *))                                                                                \
    X(cl_int, EnqueueReadBuffer,                                                                   \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *,       \
       cl_event *))                                                                                \
    X(cl_int, EnqueueCopyBuffer,                                                                   \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *,        \
       cl_event *))                                                                                \
    X(cl_int, EnqueueFillBuffer,                                                                   \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *,  \
       cl_event *))                                                                                \
    X(void *, EnqueueMapBuffer,                                                                    \
      (cl_command_queue, cl_mem, cl_bool, cl_map_flags, size_t, size_t, cl_uint, const cl_event *, \
       cl_event *, cl_int *))                                                                      \
    X(cl_int, EnqueueUnmapMemObject,                                                               \
      (cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, cl_event *))                   \
    X(cl_int, EnqueueNDRangeKernel,                                                                \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,       \
       cl_uint, const cl_event *, cl_event *))                                                     \
    X(cl_int, EnqueueMarkerWithWaitList,                                                           \
      (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                   \
    X(cl_int, EnqueueBarrierWithWaitList,                                                          \
      (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                   \
    X(cl_int, GetEventInfo, (cl_event, cl_event_info, size_t, void *, size_t *))                   \
    X(cl_int, GetEventProfilingInfo, (cl_event, cl_profiling_info, size_t, void *, size_t *))      \
    X(cl_int, RetainEvent, (cl_event))                                                             \
    X(cl_int, ReleaseEvent, (cl_event))                                                            \
    X(cl_int, Flush, (cl_command_queue))

struct copse_cl_api {
#define COPSE_CL_MEMBER(result, name, params) result(CL_API_CALL *name) params;
    COPSE_CL_CALLS(COPSE_CL_MEMBER)
#undef COPSE_CL_MEMBER
};

/* CLBlast: set with the queue, once. */
struct copse_cl_gemms {
    int (*product)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, cl_mem,
                   size_t, size_t, float, cl_mem, size_t, size_t, cl_command_queue *, cl_event *,
                   cl_mem);
    int (*batch)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, size_t,
                 cl_mem, size_t, size_t, size_t, float, cl_mem, size_t, size_t, size_t, size_t,
                 cl_command_queue *, cl_event *);
    int (*scratch)(int, int, int, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t,
                   size_t, cl_command_queue *, size_t *);
    int (*clear)(void);
    cl_command_queue queue; /* to ask for scratch memory */
};

struct copse_cl_device {
    struct copse_cl_api cl;
    cl_device_id id;  /* the whole device or our sub-device */
    bool is_part;     /* a sub-device, made by us or by the application */
    bool has_id;      /* we hold a reference */
    bool is_pocl;     /* kernel.c: its binaries */
    bool builds_code; /* PoCL that links LLVM's code when it is built */
    cl_context context;
    /* the application's, shared by all our queues; NULL = each has its own */
    cl_command_queue lent;
    /* makes a queue of the device's priority; NULL = it has none */
    cl_command_queue(CL_API_CALL *create_queue)(cl_context, cl_device_id, const cl_bitfield *,
                                                cl_int *);
    struct copse_queue_guard guard; /* around commands appended to queues, if lock is not NULL */
    bool has_lock;
    copse_mutex lock;     /* sub-buffer caches, event rings, opening CLBlast */
    atomic_bool is_stuck; /* a queue did not drain: its objects are no longer used or freed */
    void *clblast;        /* library handle, opened by the first GEMM */
    struct copse_cl_gemms gemms;
};

struct copse_cl_view {
    size_t offset, size;
    cl_mem mem;
};

struct copse_cl_buffer {
    cl_mem mem;
    struct {
        struct copse_cl_view *at; /* sub-buffers by offset and size, sorted */
        size_t count, room;
    } views;
};

struct copse_cl_kernel {
    cl_program program;
    cl_kernel kernel; /* for immediate dispatches; its arguments are guarded by the lock */
    bool has_lock;
    copse_mutex lock;
};

#define COPSE_CL_BLOCKS      4
#define COPSE_CL_BLOCK_BYTES (2u << 20)
#define COPSE_CL_EVENTS      64
#define COPSE_CL_LANDINGS    256

/* A read in staging memory that is not copied out yet. */
struct copse_cl_landing {
    void *dst;
    size_t at, size;      /* in staging memory */
    uint64_t end, ticket; /* the ring's head after it; its submission */
    cl_event read;
};

struct copse_cl_queue {
    cl_command_queue queue;
    /* Tickets: the marker of ticket t is in slot t % COPSE_CL_EVENTS until a newer one replaces
       it. */
    cl_event events[COPSE_CL_EVENTS];
    uint64_t newest;
    copse_status failed; /* sticky: an error of the device */
    /* Staging (staging.c): pinned host memory, mapped. Writes use it in blocks; a block is free
       again after its last write completes. */
    cl_mem staging;
    char *mapped;
    struct {
        size_t used;
        cl_event last;
    } blocks[COPSE_CL_BLOCKS];
    size_t block;
    struct {
        char *map;           /* a ring; NULL: reads go to their destination */
        uint64_t head, tail; /* total bytes taken and freed */
        struct copse_cl_landing at[COPSE_CL_LANDINGS];
        size_t first, count;
    } reads;
    cl_event read;  /* the newest read, or NULL */
    bool has_times; /* the driver's queue keeps times */
    cl_event stamps[COPSE_STAMPS];
};

struct copse_cl_segment {
    /* one per command, arguments set; NULL for commands other than dispatches */
    cl_kernel *kernels;
    cl_mem *mems; /* the buffers of the kernels and of products, retained */
    size_t mem_count;
};

extern const struct copse_backend copse_backend_opencl;

/* Commands for a queue that other code also uses are appended between these. */
static inline void copse_cl_lock(const struct copse_cl_device *d)
{
    if (d->guard.lock != NULL)
        d->guard.lock(d->guard.user);
}

static inline void copse_cl_unlock(const struct copse_cl_device *d)
{
    if (d->guard.lock != NULL)
        d->guard.unlock(d->guard.user);
}

/* device.c */
typedef void (*copse_cl_function)(void);
/* Resolve the entry points, from the system's loader if `get_proc` is NULL. Returns NULL, or the
   missing name. */
const char *copse_cl_load(struct copse_cl_api *cl,
                          copse_cl_function (*get_proc)(void *user, const char *name), void *user);

/* import.c */
copse_status copse_cl_import(struct copse_base *base, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info);
/* Set `d` to the application's device. */
copse_status copse_cl_attach(struct copse_cl_device *d, const struct copse_foreign_device *foreign);
copse_status copse_cl_lend(copse_queue *q, const struct copse_queue_guard *guard,
                           copse_device **out);

/* error.c */
const char *copse_cl_error_name(cl_int code);
copse_status copse_cl_error_status(cl_int code);
/* CL_SUCCESS is COPSE_OK; anything else fails with "opencl: <what>: <name of the code>". */
#define copse_cl_check(code, what)                                                               \
    ((code) == CL_SUCCESS ? COPSE_OK                                                             \
                          : copse_fail(copse_cl_error_status(code), "opencl: %s: %s (%d)", what, \
                                       copse_cl_error_name(code), (int)(code)))

/* facts.c */
void copse_cl_facts(const struct copse_cl_api *cl, cl_platform_id platform, cl_device_id id,
                    struct copse_fact_sink *to);

/* describe.c */
/* Texts of a platform and a device, cut to `size`; "" if unknown. */
void copse_cl_platform_text(const struct copse_cl_api *cl, cl_platform_id id, cl_platform_info what,
                            char *out, size_t size);
void copse_cl_device_text(const struct copse_cl_api *cl, cl_device_id id, cl_device_info what,
                          char *out, size_t size);
void copse_cl_describe(const struct copse_cl_api *cl, cl_platform_id platform, cl_device_id id,
                       struct copse_device_info *out);
/* Whether the device lists an extension. */
bool copse_cl_has(const struct copse_cl_api *cl, cl_device_id id, const char *extension);
/* False: unknown. OpenCL has no query for it, but AMD has. */
bool copse_cl_free_bytes(const struct copse_cl_api *cl, cl_device_id id, uint64_t *out);

/* priority.c */
/* Find out whether the device, which has a context, takes the priority it should have. */
void copse_cl_priority_init(copse_device *dev);
/* A queue of the device's priority that also has the properties `has`. */
cl_command_queue copse_cl_queue_make(copse_device *dev, cl_command_queue_properties has, cl_int *e);

/* memory.c */
copse_status copse_cl_buffer_init(copse_buffer *buf);
void copse_cl_buffer_fini(copse_buffer *buf);
/* The memory object of a binding, with a reference for the caller. */
copse_status copse_cl_view(const struct copse_binding *binding, cl_mem *out);
/* Whether device and host see each other's stores to imported memory without mapping it. */
bool copse_cl_import_works(struct copse_cl_device *d, size_t alignment, struct copse_mem *mem);

/* kernel.c */
copse_status copse_cl_kernel_init(struct copse_kernel *k);
void copse_cl_kernel_fini(struct copse_kernel *k);
bool copse_cl_is_stored(const struct copse_kernel *k);
/* Set all arguments of `kernel` from a dispatch and the views of its bindings. */
copse_status copse_cl_set_args(const struct copse_command *c, cl_kernel kernel, const cl_mem *mems);
/* A kernel object owned by the caller. */
copse_status copse_cl_create_kernel(struct copse_kernel *k, cl_kernel *out);

/* queue.c */
copse_status copse_cl_queue_init(copse_queue *q);
void copse_cl_queue_fini(copse_queue *q);
copse_status copse_cl_submit(copse_queue *q, uint64_t *ticket);
copse_status copse_cl_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns);
copse_status copse_cl_settle(copse_queue *q, uint64_t timeout_ns);
copse_status copse_cl_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket);
/* COPSE_ERR_TIMEOUT without text if `event` does not complete in time. */
copse_status copse_cl_wait_event(const struct copse_cl_api *cl, cl_event event,
                                 uint64_t timeout_ns);
copse_status copse_cl_flush(struct copse_cl_device *d, cl_command_queue queue);

/* staging.c */
copse_status copse_cl_staging_init(copse_queue *q);
void copse_cl_staging_unmap(copse_queue *q);
void copse_cl_staging_fini(copse_queue *q); /* of an idle queue */
copse_status copse_cl_write(copse_queue *q, const struct copse_binding *dst, const void *src);
copse_status copse_cl_read(copse_queue *q, const struct copse_binding *src, void *dst);
/* Copy out the reads up to `ticket`, which is reached. COPSE_ERR_TIMEOUT: the driver does not say
   yet that a read is complete. After another failure the read is lost. */
copse_status copse_cl_land(copse_queue *q, uint64_t ticket, uint64_t timeout_ns);
/* Copy out all reads that succeed. False: some are under way after that time. */
bool copse_cl_land_all(copse_queue *q, struct copse_deadline *left);
/* No earlier read is copied out any more. */
void copse_cl_drop_reads(copse_queue *q);

/* stamp.c */
copse_status copse_cl_stamp(copse_queue *q, uint32_t slot);
copse_status copse_cl_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns);
void copse_cl_stamps_fini(copse_queue *q);

/* encode.c */
copse_status copse_cl_encode(copse_queue *q, const struct copse_command *c);
copse_status copse_cl_segment_init(struct copse_segment *seg);
void copse_cl_segment_fini(struct copse_segment *seg);
copse_status copse_cl_replay(struct copse_segment *seg);

/* gemm.c */
bool copse_cl_gemm_exists(void);
copse_status copse_cl_gemm_scratch(const copse_device *dev, const struct copse_gemm *g,
                                   size_t *bytes);
/* `mems`: views of the bindings. */
copse_status copse_cl_gemm(copse_queue *q, const struct copse_command *c, const cl_mem *mems);
void copse_cl_gemm_fini(struct copse_cl_device *d);

#endif
