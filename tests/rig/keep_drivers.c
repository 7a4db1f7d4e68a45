/* SPDX-License-Identifier: MIT */
/* In sanitized builds: driver libraries stay loaded until the process ends. The Vulkan loader
   unloads them with the last instance, and the leak checker then cannot name the driver of a leak,
   so that suppressions/ could not match it. A process that cannot open a Vulkan driver opens none
   here: their libraries take most of the time of a short process. */
#if !defined(_DEFAULT_SOURCE)
#    define _DEFAULT_SOURCE /* RTLD_NODELETE */
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the first loader on the path of libraries is an empty file. It is not opened, since some
   tests watch that no loader is. */
static bool is_loader_hidden(void)
{
    const char *folders = getenv("LD_LIBRARY_PATH");
    while (folders && *folders) {
        const size_t length = strcspn(folders, ":");
        char path[4096];
        struct stat file;
        snprintf(path, sizeof path, "%.*s/libvulkan.so.1", (int)length, folders);
        if (stat(path, &file) == 0)
            return file.st_size == 0;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* Tests hide the loader by an empty file, and the drivers by the path of a missing file. */
static bool are_hidden(void)
{
    const char *drivers = getenv("VK_DRIVER_FILES");
    return is_loader_hidden() || (drivers && !strchr(drivers, ':') && access(drivers, F_OK) != 0);
}

__attribute__((constructor)) static void keep_drivers(void)
{
    static const char *const names[] = { "libvulkan_lvp.so",
                                         "libvulkan_radeon.so",
                                         "libvulkan_intel.so",
                                         "libVkLayer_MESA_device_select.so",
                                         "libVkLayer_khronos_validation.so",
                                         NULL };
    if (are_hidden())
        return;
    for (size_t i = 0; names[i]; i++)
        (void)dlopen(names[i], RTLD_LAZY | RTLD_NODELETE); /* absent: nothing to keep loaded */
}
