/* SPDX-License-Identifier: MIT */
/* What an OpenCL driver says of a device, in OpenCL's names. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/opencl/cl_internal.h"

enum { DEVICE_UUID_KHR = 0x106A, DRIVER_UUID_KHR = 0x106B, UUID_SIZE = 16 };

static const struct {
    const char *name;
    cl_device_info what;
} texts[] = {
    { "CL_DEVICE_VENDOR", CL_DEVICE_VENDOR },
    { "CL_DEVICE_VERSION", CL_DEVICE_VERSION },
    { "CL_DEVICE_OPENCL_C_VERSION", CL_DEVICE_OPENCL_C_VERSION },
    { "CL_DEVICE_PROFILE", CL_DEVICE_PROFILE },
    { "CL_DRIVER_VERSION", CL_DRIVER_VERSION },
    { "CL_DEVICE_BUILT_IN_KERNELS", CL_DEVICE_BUILT_IN_KERNELS },
};

/* Numbers of 4 or 8 bytes. */
/* clang-format off */
#define NUMBERS(X) \
    X(CL_DEVICE_TYPE) X(CL_DEVICE_VENDOR_ID) X(CL_DEVICE_MAX_COMPUTE_UNITS) \
    X(CL_DEVICE_MAX_CLOCK_FREQUENCY) X(CL_DEVICE_ADDRESS_BITS) \
    X(CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS) X(CL_DEVICE_MAX_WORK_GROUP_SIZE) \
    X(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) X(CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE) \
    X(CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF) X(CL_DEVICE_GLOBAL_MEM_SIZE) \
    X(CL_DEVICE_GLOBAL_MEM_CACHE_TYPE) X(CL_DEVICE_GLOBAL_MEM_CACHE_SIZE) \
    X(CL_DEVICE_LOCAL_MEM_TYPE) X(CL_DEVICE_LOCAL_MEM_SIZE) X(CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE) \
    X(CL_DEVICE_MAX_PARAMETER_SIZE) X(CL_DEVICE_MEM_BASE_ADDR_ALIGN) X(CL_DEVICE_IMAGE_SUPPORT) \
    X(CL_DEVICE_SINGLE_FP_CONFIG) X(CL_DEVICE_DOUBLE_FP_CONFIG) \
    X(CL_DEVICE_ERROR_CORRECTION_SUPPORT) X(CL_DEVICE_PROFILING_TIMER_RESOLUTION) \
    X(CL_DEVICE_ENDIAN_LITTLE) X(CL_DEVICE_EXECUTION_CAPABILITIES) X(CL_DEVICE_QUEUE_PROPERTIES) \
    X(CL_DEVICE_PARTITION_MAX_SUB_DEVICES) X(CL_DEVICE_PRINTF_BUFFER_SIZE) \
    X(CL_DEVICE_PREFERRED_INTEROP_USER_SYNC)
/* clang-format on */

static const struct {
    const char *name;
    cl_device_info what;
} numbers[] = {
#define ROW(name) { #name, name },
    NUMBERS(ROW)
#undef ROW
};

static void add_numbers(const struct copse_cl_api *cl, cl_device_id id, struct copse_fact_sink *to)
{
    size_t items[3] = { 0 }, got = 0;
    char text[80];
    for (size_t i = 0; i < COPSE_COUNT(numbers); i++) {
        unsigned char bytes[8] = { 0 };
        uint64_t wide;
        uint32_t narrow;
        if (cl->GetDeviceInfo(id, numbers[i].what, sizeof bytes, bytes, &got) != CL_SUCCESS ||
            (got != 4 && got != 8))
            continue;
        memcpy(&wide, bytes, sizeof wide);
        memcpy(&narrow, bytes, sizeof narrow);
        copse__fact_number(to, numbers[i].name, got == 4 ? narrow : wide);
    }
    if (cl->GetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, &got) ==
        CL_SUCCESS) {
        snprintf(text, sizeof text, "%zu, %zu, %zu", items[0], items[1], items[2]);
        to->add(to, COPSE_FACT_LIMIT, "CL_DEVICE_MAX_WORK_ITEM_SIZES", text);
    }
}

/* Names that are separated by spaces; changes `list`. */
static void add_names(struct copse_fact_sink *to, char *list)
{
    while (*list) {
        char *end = list + strcspn(list, " ");
        const bool is_last = *end == '\0';
        *end = '\0';
        if (*list)
            to->add(to, COPSE_FACT_EXTENSION, "", list);
        list = is_last ? end : end + 1;
    }
}

static void add_uuids(const struct copse_cl_api *cl, cl_device_id id, struct copse_fact_sink *to)
{
    unsigned char uuid[UUID_SIZE];
    char text[2 * UUID_SIZE + 1];
    size_t got = 0;
    if (cl->GetDeviceInfo(id, DEVICE_UUID_KHR, sizeof uuid, uuid, &got) == CL_SUCCESS &&
        got == sizeof uuid)
        to->add(to, COPSE_FACT_ID, "device_uuid", copse__fact_bytes(text, uuid, sizeof uuid));
    if (cl->GetDeviceInfo(id, DRIVER_UUID_KHR, sizeof uuid, uuid, &got) == CL_SUCCESS &&
        got == sizeof uuid)
        to->add(to, COPSE_FACT_ID, "driver_uuid", copse__fact_bytes(text, uuid, sizeof uuid));
}

void copse_cl_facts(const struct copse_cl_api *cl, cl_platform_id platform, cl_device_id id,
                    struct copse_fact_sink *to)
{
    char text[8192];
    copse_cl_device_text(cl, id, CL_DEVICE_EXTENSIONS, text, sizeof text);
    if (strstr(text, "cl_khr_device_uuid"))
        add_uuids(cl, id, to);
    add_names(to, text);
    copse_cl_platform_text(cl, platform, CL_PLATFORM_NAME, text, sizeof text);
    to->add(to, COPSE_FACT_LIMIT, "CL_PLATFORM_NAME", text);
    copse_cl_platform_text(cl, platform, CL_PLATFORM_VERSION, text, sizeof text);
    to->add(to, COPSE_FACT_LIMIT, "CL_PLATFORM_VERSION", text);
    for (size_t i = 0; i < COPSE_COUNT(texts); i++) {
        copse_cl_device_text(cl, id, texts[i].what, text, sizeof text);
        to->add(to, COPSE_FACT_LIMIT, texts[i].name, text);
    }
    add_numbers(cl, id, to);
    copse__fact_libraries(to, "clInitLayer", "clGetExtensionFunctionAddress");
}
