/* SPDX-License-Identifier: MIT */
/* What the Vulkan layers of the tests share: the links to the next layer, instances, and the functions that
   the loader asks for. Each layer is one file, which includes this one once. */
#ifndef TESTS_LAYERS_VULKAN_LAYER_H
#define TESTS_LAYERS_VULKAN_LAYER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

/* Each layer defines these. */
_Noreturn static void give_up(const char *why);
static PFN_vkVoidFunction find(const char *name, bool is_device); /* the layer's own, or NULL */
static PFN_vkGetDeviceProcAddr next_device_proc(VkDevice device);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the next layer ---- */

/* Instances and devices are found by their dispatch tables. */
static void *key_of(const void *handle)
{
    return *(void *const *)handle;
}

/* Takes the first link of the loader's list. NULL: the list has none. */
static PFN_vkGetInstanceProcAddr next_of_instance(const VkInstanceCreateInfo *info)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link != NULL && (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
                            link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (link == NULL)
        return NULL;
    const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    return get;
}

/* The same of a device. *set_loader_data stays as it is if the loader gives none. */
static PFN_vkGetDeviceProcAddr next_of_device(const VkDeviceCreateInfo *info,
                                              PFN_vkSetDeviceLoaderData *set_loader_data)
{
    VkLayerDeviceCreateInfo *link = NULL;
    for (VkLayerDeviceCreateInfo *l = (VkLayerDeviceCreateInfo *)info->pNext; l != NULL;
         l = (VkLayerDeviceCreateInfo *)l->pNext) {
        if (l->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
            continue;
        if (l->function == VK_LAYER_LINK_INFO && link == NULL)
            link = l;
        if (l->function == VK_LOADER_DATA_CALLBACK)
            *set_loader_data = l->u.pfnSetDeviceLoaderData;
    }
    if (link == NULL)
        return NULL;
    const PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    return get;
}

/* ---- instances ---- */

static struct instance {
    void *key;
    VkInstance handle;
    PFN_vkGetInstanceProcAddr get;
    PFN_vkDestroyInstance destroy;
    PFN_vkCreateDevice create_device;
    PFN_vkGetPhysicalDeviceProperties properties;
    PFN_vkGetPhysicalDeviceProperties2 properties2;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties families;
    PFN_vkGetPhysicalDeviceFeatures2 features2;
    PFN_vkEnumerateDeviceExtensionProperties extensions;
} instances[64];

static struct instance *instance_of(const void *handle)
{
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
        if (instances[i].key == key_of(handle))
            return &instances[i];
    give_up("unknown instance");
}

static VkResult create_next_instance(const VkInstanceCreateInfo *info,
                                     const VkAllocationCallbacks *calls, VkInstance *out)
{
    const PFN_vkGetInstanceProcAddr get = next_of_instance(info);
    if (get == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    const VkResult result =
        ((PFN_vkCreateInstance)get(VK_NULL_HANDLE, "vkCreateInstance"))(info, calls, out);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (instances[i].key != NULL && instances[i].key != key_of(*out))
        if (++i == sizeof instances / sizeof *instances)
            give_up("too many instances");
    instances[i] = (struct instance){
        .key = key_of(*out),
        .handle = *out,
        .get = get,
        .destroy = (PFN_vkDestroyInstance)get(*out, "vkDestroyInstance"),
        .create_device = (PFN_vkCreateDevice)get(*out, "vkCreateDevice"),
        .properties = (PFN_vkGetPhysicalDeviceProperties)get(*out, "vkGetPhysicalDeviceProperties"),
        .properties2 =
            (PFN_vkGetPhysicalDeviceProperties2)get(*out, "vkGetPhysicalDeviceProperties2"),
        .families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)get(
            *out, "vkGetPhysicalDeviceQueueFamilyProperties"),
        .features2 = (PFN_vkGetPhysicalDeviceFeatures2)get(*out, "vkGetPhysicalDeviceFeatures2"),
        .extensions = (PFN_vkEnumerateDeviceExtensionProperties)get(
            *out, "vkEnumerateDeviceExtensionProperties"),
    };
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance,
                                                   const VkAllocationCallbacks *calls)
{
    struct instance *i = instance_of(instance);
    i->key = NULL;
    i->destroy(instance, calls);
}

/* ---- what the loader asks for ---- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device_proc;
    const PFN_vkVoidFunction own = find(name, true);
    return own != NULL ? own : next_device_proc(device)(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance,
                                                                  const char *name)
{
    if (strcmp(name, "vkGetInstanceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_instance_proc;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device_proc;
    const PFN_vkVoidFunction own = find(name, false);
    if (own != NULL || instance == VK_NULL_HANDLE)
        return own;
    return instance_of(instance)->get(instance, name);
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
    if (version->loaderLayerInterfaceVersion > 2)
        version->loaderLayerInterfaceVersion = 2;
    version->pfnGetInstanceProcAddr = get_instance_proc;
    version->pfnGetDeviceProcAddr = get_device_proc;
    version->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}

#endif
