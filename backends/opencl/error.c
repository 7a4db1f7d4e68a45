/* SPDX-License-Identifier: MIT */
/* OpenCL error codes: their names, and the corresponding status. */
#include "backends/opencl/cl_internal.h"

#define CL_ERRORS(X)                                  \
    X(SUCCESS, 0)                                     \
    X(DEVICE_NOT_FOUND, -1)                           \
    X(DEVICE_NOT_AVAILABLE, -2)                       \
    X(COMPILER_NOT_AVAILABLE, -3)                     \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4)              \
    X(OUT_OF_RESOURCES, -5)                           \
    X(OUT_OF_HOST_MEMORY, -6)                         \
    X(PROFILING_INFO_NOT_AVAILABLE, -7)               \
    X(MEM_COPY_OVERLAP, -8)                           \
    X(BUILD_PROGRAM_FAILURE, -11)                     \
    X(MAP_FAILURE, -12)                               \
    X(MISALIGNED_SUB_BUFFER_OFFSET, -13)              \
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14) \
    X(COMPILE_PROGRAM_FAILURE, -15)                   \
    X(LINKER_NOT_AVAILABLE, -16)                      \
    X(LINK_PROGRAM_FAILURE, -17)                      \
    X(DEVICE_PARTITION_FAILED, -18)                   \
    X(KERNEL_ARG_INFO_NOT_AVAILABLE, -19)             \
    X(INVALID_VALUE, -30)                             \
    X(INVALID_DEVICE_TYPE, -31)                       \
    X(INVALID_PLATFORM, -32)                          \
    X(INVALID_DEVICE, -33)                            \
    X(INVALID_CONTEXT, -34)                           \
    X(INVALID_QUEUE_PROPERTIES, -35)                  \
    X(INVALID_COMMAND_QUEUE, -36)                     \
    X(INVALID_HOST_PTR, -37)                          \
    X(INVALID_MEM_OBJECT, -38)                        \
    X(INVALID_BINARY, -42)                            \
    X(INVALID_BUILD_OPTIONS, -43)                     \
    X(INVALID_PROGRAM, -44)                           \
    X(INVALID_PROGRAM_EXECUTABLE, -45)                \
    X(INVALID_KERNEL_NAME, -46)                       \
    X(INVALID_KERNEL_DEFINITION, -47)                 \
    X(INVALID_KERNEL, -48)                            \
    X(INVALID_ARG_INDEX, -49)                         \
    X(INVALID_ARG_VALUE, -50)                         \
    X(INVALID_ARG_SIZE, -51)                          \
    X(INVALID_KERNEL_ARGS, -52)                       \
    X(INVALID_WORK_DIMENSION, -53)                    \
    X(INVALID_WORK_GROUP_SIZE, -54)                   \
    X(INVALID_WORK_ITEM_SIZE, -55)                    \
    X(INVALID_GLOBAL_OFFSET, -56)                     \
    X(INVALID_EVENT_WAIT_LIST, -57)                   \
    X(INVALID_EVENT, -58)                             \
    X(INVALID_OPERATION, -59)                         \
    X(INVALID_BUFFER_SIZE, -61)                       \
    X(INVALID_GLOBAL_WORK_SIZE, -63)                  \
    X(INVALID_PROPERTY, -64)                          \
    X(INVALID_COMPILER_OPTIONS, -66)                  \
    X(INVALID_LINKER_OPTIONS, -67)                    \
    X(INVALID_DEVICE_PARTITION_COUNT, -68)            \
    X(PLATFORM_NOT_FOUND_KHR, -1001)

const char *copse_cl_error_name(cl_int code)
{
    switch (code) {
#define CL_ERROR_NAME(name, value) \
    case value:                    \
        return "CL_" #name;
        CL_ERRORS(CL_ERROR_NAME)
#undef CL_ERROR_NAME
    default:
        return "unknown OpenCL error";
    }
}

copse_status copse_cl_error_status(cl_int code)
{
    switch (code) {
    case CL_SUCCESS:
        return COPSE_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
        return COPSE_ERR_NO_DEVICE_MEMORY;
    case CL_OUT_OF_HOST_MEMORY:
        return COPSE_ERR_NO_MEMORY;
    /* A kernel's registers may allow a smaller size than the device does; the kernel text states
       the size it needs (reqd_work_group_size), so most drivers refuse at build time. */
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
        return COPSE_ERR_UNSUPPORTED;
    /* Codes that drivers return after a kernel fault or a reset of the device. */
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
    case CL_INVALID_COMMAND_QUEUE:
        return COPSE_ERR_DEVICE_LOST;
    default: /* vendors' own codes, such as -9999, indicate a device fault */
        return code < -1100 ? COPSE_ERR_DEVICE_LOST : COPSE_ERR_INTERNAL;
    }
}
