/* SPDX-License-Identifier: MIT */
/* OpenCL: finds the loader, lists devices, opens and closes them. The table of the backend. */
#include <stdio.h>

#include "backends/opencl/cl_internal.h"

#define MAX_PLATFORMS 32
#define MAX_DEVICES   64 /* of one platform */
#define MAX_PARTS     64

#define INSTALL_DRIVER \
    "install the GPU vendor's OpenCL driver, or on Debian: apt-get install pocl-opencl-icd"
#define INSTALL_LOADER                                                                   \
    "install the GPU vendor's driver, or on Debian: apt-get install ocl-icd-libopencl1 " \
    "pocl-opencl-icd"

/* The library is never closed, because drivers keep threads that outlive our objects. */
static void *open_loader(const char **found)
{
#if defined(_WIN32)
    static const char *const names[] = { "OpenCL.dll" };
#else
    static const char *const names[] = { "libOpenCL.so.1", "libOpenCL.so" };
#endif
    void *library = NULL;
    for (size_t i = 0; i < COPSE_COUNT(names) && library == NULL; i++) {
        *found = names[i];
        library = copse__library_open((const char *const[]){ names[i], NULL });
    }
    return library;
}

static copse_cl_function in_library(void *library, const char *name)
{
    copse_cl_function function;
    void *symbol = copse__library_symbol(library, name);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

const char *copse_cl_load(struct copse_cl_api *cl,
                          copse_cl_function (*get_proc)(void *user, const char *name), void *user)
{
    const char *found;
    copse_cl_function function;
    if (get_proc == NULL) {
        get_proc = in_library;
        user = open_loader(&found);
        if (user == NULL)
            return "a loader";
    }
#define LOOK_UP(result, name, params)              \
    function = get_proc(user, "cl" #name);         \
    memcpy(&cl->name, &function, sizeof function); \
    if (function == NULL)                          \
        return "cl" #name;
    COPSE_CL_CALLS(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

/* Calls `visit` for every device of every platform until it returns false, always in the same
   order: the position is the device's index. */
static void each_device(const struct copse_cl_api *cl, const struct copse_logger *log,
                        cl_uint *platform_count,
                        bool (*visit)(void *user, cl_platform_id platform, cl_device_id device),
                        void *user)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;
    cl_int e = cl->GetPlatformIDs(MAX_PLATFORMS, platforms, &count);
    if (e != CL_SUCCESS) /* -1001: a loader without drivers */
        count = 0;
    count = COPSE_MIN(count, MAX_PLATFORMS);
    *platform_count = count;
    for (cl_uint p = 0; p < count; p++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint n = 0;
        e = cl->GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &n);
        if (e != CL_SUCCESS) {
            if (e != CL_DEVICE_NOT_FOUND) {
                char name[96];
                copse_cl_platform_text(cl, platforms[p], CL_PLATFORM_NAME, name, sizeof name);
                copse__log(log, COPSE_LOG_WARN, "opencl: platform '%s' cannot list devices: %s",
                           name, copse_cl_error_name(e));
            }
            continue;
        }
        for (cl_uint i = 0; i < COPSE_MIN(n, MAX_DEVICES); i++)
            if (!visit(user, platforms[p], devices[i]))
                return;
    }
}

struct listing {
    const struct copse_cl_api *cl;
    struct copse_device_sink *sink;
    bool has_gemm;
    copse_status status;
};

static bool device_report(void *user, cl_platform_id platform, cl_device_id device)
{
    struct listing *l = user;
    struct copse_device_info info = { 0 };
    copse_cl_describe(l->cl, platform, device, &info);
    info.limits.has_library_gemm = info.is_usable && l->has_gemm;
    l->status = l->sink->add(l->sink, &info);
    return l->status == COPSE_OK;
}

static copse_status cl_list(struct copse_device_sink *sink)
{
    struct copse_cl_api cl;
    const char *found;
    if (open_loader(&found) == NULL || copse_cl_load(&cl, NULL, NULL) != NULL) {
        snprintf(sink->detail, sizeof sink->detail, "no OpenCL loader; %s", INSTALL_LOADER);
        return COPSE_OK;
    }
    sink->is_loaded = true;
    struct listing l = { .cl = &cl, .sink = sink, .has_gemm = copse_cl_gemm_exists() };
    cl_uint platforms = 0;
    each_device(&cl, &sink->base->log, &platforms, device_report, &l);
    if (platforms == 0)
        snprintf(sink->detail, sizeof sink->detail, "%s without a driver; %s", found,
                 INSTALL_DRIVER);
    else
        snprintf(sink->detail, sizeof sink->detail, "%s, %u platform%s", found, (unsigned)platforms,
                 platforms == 1 ? "" : "s");
    return l.status;
}

struct search {
    uint32_t left;
    cl_platform_id platform;
    cl_device_id device;
};

static bool device_find(void *user, cl_platform_id platform, cl_device_id device)
{
    struct search *s = user;
    if (s->left-- != 0)
        return true;
    s->platform = platform;
    s->device = device;
    return false;
}

static copse_status cl_facts(uint32_t index, struct copse_fact_sink *to)
{
    struct copse_cl_api cl;
    struct search s = { .left = index };
    cl_uint platforms;
    if (copse_cl_load(&cl, NULL, NULL) != NULL)
        return COPSE_OK;
    each_device(&cl, &to->base->log, &platforms, device_find, &s);
    if (s.device != NULL)
        copse_cl_facts(&cl, s.platform, s.device, to);
    return COPSE_OK;
}

/* Some drivers that cannot partition a device have no clCreateSubDevices: query before the call. */
static bool can_divide(const struct copse_cl_device *d, uint32_t count)
{
    cl_uint most = 0;
    return d->cl.GetDeviceInfo(d->id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most,
                               NULL) == CL_SUCCESS &&
           most >= count;
}

/* Replace d->id with our part of a CPU's compute units; keep the whole device if that is
   impossible. */
static void take_part(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    const uint32_t units = dev->info.limits.compute_units, parts = dev->parts;
    if (parts < 2 || parts > MAX_PARTS || dev->info.kind != COPSE_DEVICE_CPU || units < parts ||
        !can_divide(d, parts))
        return;
    cl_device_partition_property by_counts[MAX_PARTS + 3] = { CL_DEVICE_PARTITION_BY_COUNTS };
    for (uint32_t i = 0; i < parts; i++)
        by_counts[1 + i] = (cl_device_partition_property)(units / parts + (i < units % parts));
    by_counts[1 + parts] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    const cl_device_partition_property equally[] = { CL_DEVICE_PARTITION_EQUALLY,
                                                     (cl_device_partition_property)(units / parts),
                                                     0 };
    cl_device_id devices[2 * MAX_PARTS];
    cl_uint count = 0;
    cl_int e = d->cl.CreateSubDevices(d->id, by_counts, MAX_PARTS, devices, &count);
    if (e != CL_SUCCESS)
        e = d->cl.CreateSubDevices(d->id, equally, 2 * MAX_PARTS, devices, &count);
    if (e != CL_SUCCESS || count <= dev->part) {
        copse__log(&dev->base->log, COPSE_LOG_INFO,
                   "opencl: %s cannot be divided (%s), each part is the whole device", dev->info.id,
                   copse_cl_error_name(e));
        count = e == CL_SUCCESS ? count : 0;
    } else {
        d->id = devices[dev->part];
        d->is_part = d->has_id = true;
        cl_uint own = 0;
        if (d->cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof own, &own, NULL) ==
            CL_SUCCESS)
            dev->info.limits.compute_units = own;
    }
    for (cl_uint i = 0; i < count; i++)
        if (devices[i] != d->id)
            d->cl.ReleaseDevice(devices[i]);
}

static copse_status open_own(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    if (copse_cl_load(&d->cl, NULL, NULL) != NULL)
        return copse_fail(COPSE_ERR_NO_DEVICE, "opencl: the loader is gone; %s", INSTALL_LOADER);
    struct search s = { .left = dev->index };
    cl_uint platforms;
    each_device(&d->cl, &dev->base->log, &platforms, device_find, &s);
    if (s.device == NULL)
        return copse_fail(COPSE_ERR_NO_DEVICE, "opencl: device %u is gone; list devices again",
                          dev->index);
    d->id = s.device;
    take_part(dev);
    const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM,
                                                 (cl_context_properties)s.platform, 0 };
    cl_int e = CL_SUCCESS;
    d->context = d->cl.CreateContext(properties, 1, &d->id, NULL, NULL, &e);
    return copse_cl_check(e, "clCreateContext");
}

/* 301: PoCL 3.1; 1: PoCL of an unknown version; 0: another driver. */
static unsigned version_of_pocl(const struct copse_cl_device *d)
{
    static const char before[] = "PoCL ";
    char name[64] = "", version[256] = "";
    cl_platform_id platform = NULL;
    if (d->cl.GetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
        CL_SUCCESS)
        copse_cl_platform_text(&d->cl, platform, CL_PLATFORM_NAME, name, sizeof name);
    if (strcmp(name, "Portable Computing Language") != 0)
        return 0;
    copse_cl_platform_text(&d->cl, platform, CL_PLATFORM_VERSION, version, sizeof version);
    const char *at = strstr(version, before);
    if (at == NULL)
        return 1;
    char *end;
    const unsigned long major = strtoul(at + sizeof before - 1, &end, 10),
                        minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return COPSE_MAX((unsigned)(100 * major + minor), 1u);
}

static copse_status cl_open(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    COPSE_TRY(copse__mutex_init(&d->lock));
    d->has_lock = true;
    COPSE_TRY(dev->foreign != NULL ? copse_cl_attach(d, dev->foreign) : open_own(dev));
    copse_cl_priority_init(dev);
    const unsigned pocl = version_of_pocl(d);
    d->is_pocl = dev->compiles_serially = pocl != 0;
    d->builds_code = pocl >= 301;
    struct copse_limits *limits = &dev->info.limits;
    if (limits->host_import_alignment != 0 &&
        !copse_cl_import_works(d, limits->host_import_alignment, &dev->base->mem))
        limits->host_import_alignment = 0;
    return COPSE_OK;
}

static void cl_close(copse_device *dev)
{
    struct copse_cl_device *d = dev->priv;
    if (!atomic_load(&d->is_stuck)) {
        copse_cl_gemm_fini(d);
        if (d->lent != NULL)
            d->cl.ReleaseCommandQueue(d->lent);
        if (d->context != NULL)
            d->cl.ReleaseContext(d->context);
        if (d->has_id)
            d->cl.ReleaseDevice(d->id);
    }
    if (d->has_lock)
        copse__mutex_fini(&d->lock);
}

static copse_status cl_memory(copse_device *dev, struct copse_device_memory *out)
{
    struct copse_cl_device *d = dev->priv;
    out->is_free_known = copse_cl_free_bytes(&d->cl, d->id, &out->free);
    out->total = dev->info.memory_bytes;
    return COPSE_OK;
}

static bool has_kernel(const copse_device *dev, const struct copse_kernel_row *row)
{
    /* The library's variants are for wide vectors; compilers for other devices need minutes to
       compile them. */
    const bool is_wide = row->is_variant && row >= copse_kernel_table &&
                         row < copse_kernel_table + copse_kernel_count;
    return row->cl_text && (!is_wide || dev->info.limits.has_wide_vectors);
}

static const char *const variables[] = {
    "OCL_", "OPENCL_", "CL_",  "CLBLAST_", "POCL_", "RUSTICL_", "MESA_", "GALLIUM_", "LP_", "AMD_",
    "ROC_", "HSA_",    "GPU_", "INTEL_",   "NEO_",  "IGC_",     "CUDA_", "NVIDIA_",  NULL,
};

const struct copse_backend copse_backend_opencl = {
    .name = "opencl",
    .device_priv = sizeof(struct copse_cl_device),
    .buffer_priv = sizeof(struct copse_cl_buffer),
    .kernel_priv = sizeof(struct copse_cl_kernel),
    .queue_priv = sizeof(struct copse_cl_queue),
    .segment_priv = sizeof(struct copse_cl_segment),
    .variables = variables,
    .list = cl_list,
    .facts = cl_facts,
    .import = copse_cl_import,
    .lend = copse_cl_lend,
    .open = cl_open,
    .close = cl_close,
    .memory = cl_memory,
    .buffer_init = copse_cl_buffer_init,
    .buffer_fini = copse_cl_buffer_fini,
    .has_kernel = has_kernel,
    .kernel_init = copse_cl_kernel_init,
    .kernel_fini = copse_cl_kernel_fini,
    .is_stored = copse_cl_is_stored,
    .queue_init = copse_cl_queue_init,
    .queue_fini = copse_cl_queue_fini,
    .write = copse_cl_write,
    .read = copse_cl_read,
    .encode = copse_cl_encode,
    .gemm_scratch = copse_cl_gemm_scratch,
    .segment_init = copse_cl_segment_init,
    .segment_fini = copse_cl_segment_fini,
    .replay = copse_cl_replay,
    .submit = copse_cl_submit,
    .wait = copse_cl_wait,
    .settle = copse_cl_settle,
    .wait_queue = copse_cl_wait_queue,
    .stamp = copse_cl_stamp,
    .stamp_read = copse_cl_stamp_read,
};
