/* SPDX-License-Identifier: MIT */
/* Converts OpenCL's device queries to copse_device_info. Creates no objects. */
#include <stdio.h>

#include "backends/opencl/cl_internal.h"

/* Queries of extensions, used only if the device lists the extension. */
enum {
    UUID_KHR = 0x106A,
    PCI_BUS_INFO_KHR = 0x410F,
    PREFERRED_GROUP_MULTIPLE = 0x1067, /* OpenCL 3.0 */
    WARP_SIZE_NV = 0x4003,
    PCI_BUS_NV = 0x4008,
    PCI_SLOT_NV = 0x4009,
    PCI_DOMAIN_NV = 0x400A,
    TOPOLOGY_AMD = 0x4037,
    FREE_MEMORY_AMD = 0x4039,
    WAVEFRONT_AMD = 0x4043,
};

/* Drivers return an error, not a shorter text, for a buffer that is too small. */
#define TEXT_ROOM 8192

static void take_text(cl_int answer, char *text, char *out, size_t size)
{
    text[answer == CL_SUCCESS ? TEXT_ROOM - 1 : 0] = '\0';
    const size_t length = COPSE_MIN(strlen(text), size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

void copse_cl_platform_text(const struct copse_cl_api *cl, cl_platform_id id, cl_platform_info what,
                            char *out, size_t size)
{
    char text[TEXT_ROOM];
    take_text(cl->GetPlatformInfo(id, what, sizeof text, text, NULL), text, out, size);
}

void copse_cl_device_text(const struct copse_cl_api *cl, cl_device_id id, cl_device_info what,
                          char *out, size_t size)
{
    char text[TEXT_ROOM];
    take_text(cl->GetDeviceInfo(id, what, sizeof text, text, NULL), text, out, size);
}

struct query {
    const struct copse_cl_api *cl;
    cl_device_id id;
};

/* False leaves `out` unchanged. */
static bool describe_ask(const struct query *q, cl_device_info what, void *out, size_t size)
{
    char answer[64];
    size_t got = 0;
    if (size > sizeof answer ||
        q->cl->GetDeviceInfo(q->id, what, sizeof answer, answer, &got) != CL_SUCCESS || got != size)
        return false;
    memcpy(out, answer, size);
    return true;
}

static cl_uint ask_uint(const struct query *q, cl_device_info what)
{
    cl_uint v = 0;
    describe_ask(q, what, &v, sizeof v);
    return v;
}

static cl_ulong ask_ulong(const struct query *q, cl_device_info what)
{
    cl_ulong v = 0;
    describe_ask(q, what, &v, sizeof v);
    return v;
}

static size_t ask_size(const struct query *q, cl_device_info what)
{
    size_t v = 0;
    describe_ask(q, what, &v, sizeof v);
    return v;
}

static bool describe_lists(const char *extensions, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = extensions; (at = strstr(at, name)) != NULL; at += length)
        if ((at == extensions || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* "OpenCL <major>.<minor> ..." as major * 100 + minor * 10; 0 if it cannot be parsed. */
static unsigned version_of(const char *text)
{
    unsigned major = 0, minor = 0;
    if (sscanf(text, "OpenCL %u.%u", &major, &minor) != 2 || major > 99 || minor > 9)
        return 0;
    return major * 100 + minor * 10;
}

static void describe_place(const struct query *q, const char *extensions,
                           struct copse_device_info *out)
{
    if (describe_lists(extensions, "cl_khr_device_uuid"))
        out->has_uuid = describe_ask(q, UUID_KHR, out->uuid, sizeof out->uuid);
    if (describe_lists(extensions, "cl_khr_pci_bus_info") &&
        describe_ask(q, PCI_BUS_INFO_KHR, out->pci, sizeof out->pci)) {
        out->has_pci = true;
        return;
    }
    cl_uint bus, slot;
    if (describe_lists(extensions, "cl_nv_device_attribute_query") &&
        describe_ask(q, PCI_BUS_NV, &bus, sizeof bus) &&
        describe_ask(q, PCI_SLOT_NV, &slot, sizeof slot)) {
        out->pci[0] = ask_uint(q, PCI_DOMAIN_NV); /* older drivers do not support it: 0 */
        out->pci[1] = bus;
        out->pci[2] = slot >> 3;
        out->pci[3] = slot & 7;
        out->has_pci = true;
        return;
    }
    struct {
        cl_uint type;
        unsigned char unused[17], bus, device, function;
    } topology;
    if (describe_lists(extensions, "cl_amd_device_attribute_query") &&
        describe_ask(q, TOPOLOGY_AMD, &topology, sizeof topology) && topology.type == 1) {
        out->pci[0] = 0;
        out->pci[1] = topology.bus;
        out->pci[2] = topology.device;
        out->pci[3] = topology.function;
        out->has_pci = true;
    }
}

static uint32_t subgroup_size(const struct query *q, const char *extensions, unsigned version,
                              copse_device_kind kind)
{
    uint32_t size = 0;
    if (kind == COPSE_DEVICE_CPU)
        return 1;
    if (describe_lists(extensions, "cl_nv_device_attribute_query"))
        size = ask_uint(q, WARP_SIZE_NV);
    else if (describe_lists(extensions, "cl_amd_device_attribute_query"))
        size = ask_uint(q, WAVEFRONT_AMD);
    else if (version >= 300)
        size = (uint32_t)COPSE_MIN(ask_size(q, PREFERRED_GROUP_MULTIPLE), 1024);
    return COPSE_MAX(size, 1);
}

static void describe_limits(const struct query *q, const char *extensions, unsigned version,
                            struct copse_device_info *out)
{
    struct copse_limits *l = &out->limits;
    l->max_buffer_bytes = ask_ulong(q, CL_DEVICE_MAX_MEM_ALLOC_SIZE) & ~(cl_ulong)3;
    l->max_binding_bytes = l->max_buffer_bytes;
    l->offset_alignment = COPSE_MAX(ask_uint(q, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 4);
    /* one per axis; `ask` requires the exact size, which depends on the number of axes */
    size_t items[8] = { 0 };
    const cl_uint axes = ask_uint(q, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
    describe_ask(q, CL_DEVICE_MAX_WORK_ITEM_SIZES, items, COPSE_MIN(axes, 8) * sizeof *items);
    size_t group = COPSE_MIN(ask_size(q, CL_DEVICE_MAX_WORK_GROUP_SIZE), 1024);
    l->max_group_size = (uint32_t)COPSE_MIN(group, items[0]);
    /* OpenCL defines no limit; every driver accepts this on both axes */
    l->max_group_count = 65535;
    l->group_memory_bytes = (uint32_t)COPSE_MIN(ask_ulong(q, CL_DEVICE_LOCAL_MEM_SIZE), 1u << 30);
    l->max_bindings = COPSE_MAX_BINDINGS;
    const size_t pointers = COPSE_MAX_BINDINGS * (ask_uint(q, CL_DEVICE_ADDRESS_BITS) / 8);
    const size_t arguments = ask_size(q, CL_DEVICE_MAX_PARAMETER_SIZE);
    l->max_param_bytes =
        arguments > pointers ? (uint32_t)COPSE_MIN(arguments - pointers, 1u << 16) : 0;
    l->compute_units = ask_uint(q, CL_DEVICE_MAX_COMPUTE_UNITS);
    l->subgroup_size = subgroup_size(q, extensions, version, out->kind);
    l->has_unified_memory = ask_uint(q, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    if (out->kind == COPSE_DEVICE_CPU && l->has_unified_memory)
        l->host_import_alignment = COPSE_MAX(l->offset_alignment, 64);
    l->has_group_base = true;
    /* 1: a driver that maps one invocation to each lane, and splits vectors. */
    l->has_wide_vectors =
        out->kind == COPSE_DEVICE_CPU && ask_uint(q, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) > 1;
    l->is_gpu =
        (ask_ulong(q, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0 && out->kind != COPSE_DEVICE_CPU;
    l->has_f64 = ask_ulong(q, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    l->has_f16_storage = true; /* every OpenCL C has vload_half and vstore_half */
    const cl_ulong single = ask_ulong(q, CL_DEVICE_SINGLE_FP_CONFIG);
    l->rounds_to_nearest = (single & CL_FP_ROUND_TO_NEAREST) != 0;
    l->keeps_denormals = (single & CL_FP_DENORM) != 0;
}

/* The reason why the device cannot be used, NULL if it can. */
static const char *describe_reject(const struct query *q, unsigned version)
{
    if (version < 120)
        return "OpenCL 1.2 is needed; install a newer driver";
    if (ask_uint(q, CL_DEVICE_AVAILABLE) == 0)
        return "the driver reports the device as not available";
    if (ask_uint(q, CL_DEVICE_COMPILER_AVAILABLE) == 0 ||
        ask_uint(q, CL_DEVICE_LINKER_AVAILABLE) == 0)
        return "the driver has no compiler for the device";
    return NULL;
}

void copse_cl_describe(const struct copse_cl_api *cl, cl_platform_id platform, cl_device_id id,
                       struct copse_device_info *out)
{
    const struct query q = { cl, id };
    char platform_name[96], platform_version[96], version_text[96], driver[96];
    copse_cl_platform_text(cl, platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    copse_cl_platform_text(cl, platform, CL_PLATFORM_VERSION, platform_version,
                           sizeof platform_version);
    copse_cl_device_text(cl, id, CL_DEVICE_VERSION, version_text, sizeof version_text);
    copse_cl_device_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver);
    copse_cl_device_text(cl, id, CL_DEVICE_NAME, out->name, sizeof out->name);
    snprintf(out->driver, sizeof out->driver, "%s %s", platform_name, driver);
    const unsigned version = COPSE_MIN(version_of(version_text), version_of(platform_version));
    snprintf(out->api_version, sizeof out->api_version, "OpenCL %u.%u", version / 100,
             version / 10 % 10);

    const cl_uint vendor = ask_uint(&q, CL_DEVICE_VENDOR_ID);
    out->vendor_id = vendor <= 0xFFFF ? vendor : 0; /* above: not a PCI vendor */
    const cl_ulong type = ask_ulong(&q, CL_DEVICE_TYPE);
    if (type & CL_DEVICE_TYPE_CPU)
        out->kind = COPSE_DEVICE_CPU;
    else if (type & CL_DEVICE_TYPE_GPU)
        out->kind = ask_uint(&q, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0 ? COPSE_DEVICE_INTEGRATED
                                                                     : COPSE_DEVICE_DISCRETE;
    else
        out->kind = COPSE_DEVICE_OTHER;
    out->memory_bytes = ask_ulong(&q, CL_DEVICE_GLOBAL_MEM_SIZE);

    char extensions[TEXT_ROOM];
    copse_cl_device_text(cl, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    describe_place(&q, extensions, out);

    const char *reason = describe_reject(&q, version);
    out->is_usable = reason == NULL;
    if (reason != NULL)
        snprintf(out->reason, sizeof out->reason, "%s", reason);
    else
        describe_limits(&q, extensions, version, out);
}

bool copse_cl_has(const struct copse_cl_api *cl, cl_device_id id, const char *extension)
{
    char extensions[TEXT_ROOM];
    copse_cl_device_text(cl, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    return describe_lists(extensions, extension);
}

bool copse_cl_free_bytes(const struct copse_cl_api *cl, cl_device_id id, uint64_t *out)
{
    size_t kib[2] = { 0 }; /* total, largest block */
    if (!copse_cl_has(cl, id, "cl_amd_device_attribute_query") ||
        cl->GetDeviceInfo(id, FREE_MEMORY_AMD, sizeof kib, kib, NULL) != CL_SUCCESS)
        return false;
    *out = (uint64_t)kib[0] << 10;
    return true;
}
