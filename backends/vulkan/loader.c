/* SPDX-License-Identifier: MIT */
/* The Vulkan library, opened at run time: entry points, the instance, names of results. */
#include "vk_internal.h"

#include <stdio.h>

#if defined(_WIN32)
#    define INSTALL "install the GPU vendor's driver"
static const char *const library_names[] = { "vulkan-1.dll", NULL };
#elif defined(__APPLE__)
static const char *const library_names[] = { "libvulkan.1.dylib", "libMoltenVK.dylib", NULL };
#else
static const char *const library_names[] = { "libvulkan.so.1", "libvulkan.so", NULL };
#endif
#if !defined(INSTALL)
#    define INSTALL \
        "apt-get install libvulkan1 mesa-vulkan-drivers, or install the GPU vendor's driver"
#endif

#define INSTANCE_TRIES 3

/* ---- results ---- */

#define RESULT_MAP(X)                   \
    X(VK_SUCCESS)                       \
    X(VK_NOT_READY)                     \
    X(VK_TIMEOUT)                       \
    X(VK_INCOMPLETE)                    \
    X(VK_ERROR_OUT_OF_HOST_MEMORY)      \
    X(VK_ERROR_OUT_OF_DEVICE_MEMORY)    \
    X(VK_ERROR_INITIALIZATION_FAILED)   \
    X(VK_ERROR_DEVICE_LOST)             \
    X(VK_ERROR_MEMORY_MAP_FAILED)       \
    X(VK_ERROR_LAYER_NOT_PRESENT)       \
    X(VK_ERROR_EXTENSION_NOT_PRESENT)   \
    X(VK_ERROR_FEATURE_NOT_PRESENT)     \
    X(VK_ERROR_INCOMPATIBLE_DRIVER)     \
    X(VK_ERROR_TOO_MANY_OBJECTS)        \
    X(VK_ERROR_FORMAT_NOT_SUPPORTED)    \
    X(VK_ERROR_FRAGMENTED_POOL)         \
    X(VK_ERROR_OUT_OF_POOL_MEMORY)      \
    X(VK_ERROR_INVALID_EXTERNAL_HANDLE) \
    X(VK_ERROR_NOT_PERMITTED_EXT)       \
    X(VK_ERROR_FRAGMENTATION)           \
    X(VK_ERROR_INVALID_SHADER_NV)       \
    X(VK_ERROR_UNKNOWN)

const char *copse_vk_result_name(VkResult r)
{
    switch (r) {
#define RESULT_CASE(name) \
    case name:            \
        return #name;
        RESULT_MAP(RESULT_CASE)
#undef RESULT_CASE
    default:
        return "a result this library does not know";
    }
}

copse_status copse_vk_status(VkResult r)
{
    switch (r) {
    case VK_SUCCESS:
        return COPSE_OK;
    case VK_TIMEOUT:
    case VK_NOT_READY:
        return COPSE_ERR_TIMEOUT;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return COPSE_ERR_NO_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS: /* of memory allocations */
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_FRAGMENTATION:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
        return COPSE_ERR_NO_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return COPSE_ERR_DEVICE_LOST;
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return COPSE_ERR_NO_DEVICE;
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_FORMAT_NOT_SUPPORTED:
    case VK_ERROR_INVALID_EXTERNAL_HANDLE:
        return COPSE_ERR_UNSUPPORTED;
    case VK_ERROR_INVALID_SHADER_NV:
        return COPSE_ERR_COMPILE;
    default:
        return COPSE_ERR_INTERNAL;
    }
}

/* ---- entry points ---- */

/* The first entry point that is missing, or NULL. */
static const char *global_entries(struct vk_api *vk)
{
#define LOAD(name)                                                      \
    vk->name = (PFN_vk##name)vk->GetInstanceProcAddr(NULL, "vk" #name); \
    if (!vk->name)                                                      \
        return "vk" #name;
    COPSE_VK_GLOBAL_MAP(LOAD)
#undef LOAD
    return NULL;
}

const char *copse_vk_instance_entries(struct vk_device *vd)
{
    struct vk_api *vk = &vd->vk;
#define LOAD(name)                                                              \
    vk->name = (PFN_vk##name)vk->GetInstanceProcAddr(vd->instance, "vk" #name); \
    if (!vk->name)                                                              \
        return "vk" #name;
    COPSE_VK_INSTANCE_MAP(LOAD)
#undef LOAD
    return NULL;
}

const char *copse_vk_device_entries(struct vk_device *vd)
{
    struct vk_api *vk = &vd->vk;
#define LOAD(name)                                                          \
    vk->name = (PFN_vk##name)vk->GetDeviceProcAddr(vd->device, "vk" #name); \
    if (!vk->name)                                                          \
        return "vk" #name;
    COPSE_VK_DEVICE_MAP(LOAD)
    if (vd->traits.import_alignment) {
        LOAD(GetMemoryHostPointerPropertiesEXT)
    }
#undef LOAD
    return NULL;
}

/* ---- instance ---- */

/* Drivers on top of another API, such as MoltenVK, are listed only on request. */
static bool has_portability_enumeration(struct vk_device *vd)
{
    uint32_t count = 0;
    if (vd->vk.EnumerateInstanceExtensionProperties(NULL, &count, NULL) != VK_SUCCESS)
        return false;
    VkExtensionProperties *list = copse__alloc(&vd->base->mem, count, sizeof *list);
    bool found = false;
    if (list && vd->vk.EnumerateInstanceExtensionProperties(NULL, &count, list) >= 0)
        for (uint32_t i = 0; i < count && !found; i++)
            found = !strcmp(list[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    copse__free(&vd->base->mem, list);
    return found;
}

bool copse_vk_instance_open(struct vk_device *vd, char *why, size_t room)
{
    vd->library = copse__library_open(library_names);
    if (!vd->library) {
        snprintf(why, room, "no Vulkan loader (%s): " INSTALL, library_names[0]);
        return false;
    }
    void *symbol = copse__library_symbol(vd->library, "vkGetInstanceProcAddr");
    memcpy(&vd->vk.GetInstanceProcAddr, &symbol, sizeof symbol);
    const char *missing = symbol ? global_entries(&vd->vk) : "vkGetInstanceProcAddr";
    if (missing) {
        snprintf(why, room, "the Vulkan loader lacks %s, it is older than Vulkan 1.1: " INSTALL,
                 missing);
        return false;
    }
    VkResult r = vd->vk.EnumerateInstanceVersion(&vd->version);
    if (r != VK_SUCCESS || vd->version < VK_API_VERSION_1_1) {
        snprintf(why, room, "the Vulkan loader is older than Vulkan 1.1: " INSTALL);
        return false;
    }

    static const char *const extensions[] = { VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME };
    const bool portable = has_portability_enumeration(vd);
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "copse",
        .apiVersion = VK_API_VERSION_1_3,
    };
    vd->api_version = app.apiVersion;
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = portable ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &app,
        .enabledExtensionCount = portable ? 1 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    /* Drivers fail for a moment, such as while another process resets the device. */
    for (int i = 0;
         i == 0 || (i < INSTANCE_TRIES && r != VK_SUCCESS && r != VK_ERROR_INCOMPATIBLE_DRIVER);
         i++)
        r = vd->vk.CreateInstance(&info, NULL, &vd->instance);
    if (r == VK_ERROR_INCOMPATIBLE_DRIVER) {
        snprintf(why, room, "the Vulkan loader found no driver: " INSTALL);
        return false;
    }
    if (r != VK_SUCCESS) {
        snprintf(why, room,
                 "vkCreateInstance: %s in %d tries, so no Vulkan device is used; "
                 "VK_LOADER_DEBUG=all shows more",
                 copse_vk_result_name(r), INSTANCE_TRIES);
        vd->is_refused = true;
        return false;
    }
    vd->owns_instance = true;
    missing = copse_vk_instance_entries(vd);
    if (missing) {
        snprintf(why, room, "the Vulkan loader lacks %s", missing);
        return false;
    }
    snprintf(why, room, "%s, Vulkan %u.%u.%u", library_names[0], VK_API_VERSION_MAJOR(vd->version),
             VK_API_VERSION_MINOR(vd->version), VK_API_VERSION_PATCH(vd->version));
    return true;
}

void copse_vk_instance_close(struct vk_device *vd)
{
    if (vd->owns_instance && vd->vk.DestroyInstance)
        vd->vk.DestroyInstance(vd->instance, NULL);
    vd->owns_instance = false;
    vd->instance = VK_NULL_HANDLE;
    /* The library stays loaded: loaders keep locks and drivers keep threads in global state, and
       unloading and reloading them while another thread uses them is unsafe. */
}

VkResult copse_vk_physical_devices(struct vk_device *vd, VkPhysicalDevice **list, uint32_t *count)
{
    *list = NULL;
    *count = 0;
    VkResult r = vd->vk.EnumeratePhysicalDevices(vd->instance, count, NULL);
    if (r != VK_SUCCESS)
        return r;
    *list = copse__alloc(&vd->base->mem, *count, sizeof **list);
    if (!*list)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    r = vd->vk.EnumeratePhysicalDevices(vd->instance, count, *list);
    if (r < 0) {
        copse__free(&vd->base->mem, *list);
        *list = NULL;
        *count = 0;
        return r;
    }
    return VK_SUCCESS; /* VK_INCOMPLETE: a device was plugged in during the call */
}
