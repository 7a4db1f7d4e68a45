/* SPDX-License-Identifier: MIT */
/* In sanitized builds: driver libraries stay loaded until the process ends. The Vulkan loader
   unloads them with the last instance, and the leak checker then cannot name the driver of a leak,
   so that suppressions/ could not match it. */
#if !defined(_DEFAULT_SOURCE)
#    define _DEFAULT_SOURCE /* RTLD_NODELETE */
#endif
#include <dlfcn.h>
#include <stddef.h>

__attribute__((constructor)) static void keep_drivers(void)
{
    static const char *const names[] = { "libvulkan_lvp.so",
                                         "libvulkan_radeon.so",
                                         "libvulkan_intel.so",
                                         "libVkLayer_MESA_device_select.so",
                                         "libVkLayer_khronos_validation.so",
                                         NULL };
    for (size_t i = 0; names[i]; i++)
        (void)dlopen(names[i], RTLD_LAZY | RTLD_NODELETE); /* absent: nothing to keep loaded */
}
