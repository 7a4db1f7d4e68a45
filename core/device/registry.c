/* SPDX-License-Identifier: MIT */
/* The only file that names backends. The order is that of the device list. */
#include "core/device/device.h"

#define ALWAYS(X, name) X(name)
#define NEVER(X, name)
#if defined(COPSE_HAVE_OPENCL)
#    define WITH_OPENCL ALWAYS
#else
#    define WITH_OPENCL NEVER
#endif
#if defined(COPSE_HAVE_VULKAN)
#    define WITH_VULKAN ALWAYS
#else
#    define WITH_VULKAN NEVER
#endif

#define BUILT_BACKENDS(X)  \
    WITH_OPENCL(X, opencl) \
    WITH_VULKAN(X, vulkan) \
    ALWAYS(X, host)

#define DECLARE(name) extern const struct copse_backend copse_backend_##name;
BUILT_BACKENDS(DECLARE)

#define ROW(name) &copse_backend_##name,
const struct copse_backend *const copse_backends[] = { BUILT_BACKENDS(ROW) NULL };

const char *const copse_backend_names[] = { "opencl", "vulkan", "host", NULL };
