/* SPDX-License-Identifier: MIT */
/* See app.h. */
#include "tests/rig/app/app.h"

#if defined(COPSE_HAVE_VULKAN)

#    include <stdio.h>
#    include <stdlib.h>

#    define WORDS 256u

struct app_lock app_vulkan_lock;
atomic_uint app_vulkan_forbidden;

/* ---- the application's own entry points ---- */

#    define FUNCTIONS(X)                          \
        X(DestroyInstance)                        \
        X(EnumeratePhysicalDevices)               \
        X(EnumerateDeviceExtensionProperties)     \
        X(GetPhysicalDeviceFeatures2)             \
        X(GetPhysicalDeviceProperties)            \
        X(GetPhysicalDeviceQueueFamilyProperties) \
        X(GetPhysicalDeviceMemoryProperties)      \
        X(CreateDevice)                           \
        X(DestroyDevice)                          \
        X(GetDeviceProcAddr)                      \
        X(GetDeviceQueue)                         \
        X(QueueSubmit)                            \
        X(CreateBuffer)                           \
        X(DestroyBuffer)                          \
        X(GetBufferMemoryRequirements)            \
        X(AllocateMemory)                         \
        X(FreeMemory)                             \
        X(BindBufferMemory)                       \
        X(MapMemory)                              \
        X(CreateCommandPool)                      \
        X(DestroyCommandPool)                     \
        X(ResetCommandPool)                       \
        X(AllocateCommandBuffers)                 \
        X(BeginCommandBuffer)                     \
        X(EndCommandBuffer)                       \
        X(CmdFillBuffer)                          \
        X(CmdPipelineBarrier)                     \
        X(CreateFence)                            \
        X(DestroyFence)                           \
        X(WaitForFences)                          \
        X(ResetFences)

static struct {
#    define MEMBER(name) PFN_vk##name name;
    FUNCTIONS(MEMBER)
#    undef MEMBER
} vk;
static PFN_vkGetInstanceProcAddr real_get;

#    define MUST(call)                                               \
        do {                                                         \
            const VkResult must_ = (call);                           \
            if (must_ != VK_SUCCESS) {                               \
                fprintf(stderr, "app: %s: %d\n", #call, (int)must_); \
                abort();                                             \
            }                                                        \
        } while (0)

/* ---- what the library is given instead, to watch it ---- */

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo *infos, VkFence fence)
{
    app_lock_check(&app_vulkan_lock);
    return vk.QueueSubmit(queue, count, infos, fence);
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device,
                                                 const VkAllocationCallbacks *allocator)
{
    (void)device;
    (void)allocator;
    atomic_fetch_add(&app_vulkan_forbidden, 1u);
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance,
                                                   const VkAllocationCallbacks *allocator)
{
    (void)instance;
    (void)allocator;
    atomic_fetch_add(&app_vulkan_forbidden, 1u);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_idle(void *handle)
{
    (void)handle;
    atomic_fetch_add(&app_vulkan_forbidden, 1u);
    return VK_SUCCESS;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char *name)
{
    if (strcmp(name, "vkQueueSubmit") == 0)
        return (PFN_vkVoidFunction)submit;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)destroy_device;
    if (strcmp(name, "vkQueueWaitIdle") == 0 || strcmp(name, "vkDeviceWaitIdle") == 0)
        return (PFN_vkVoidFunction)wait_idle;
    return vk.GetDeviceProcAddr(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance instance, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_device;
    if (strcmp(name, "vkDestroyInstance") == 0)
        return (PFN_vkVoidFunction)destroy_instance;
    return real_get(instance, name);
}

/* ---- the device ---- */

static const char *make_instance(struct app_vulkan *a)
{
    void *library =
        copse__library_open((const char *const[]){ "libvulkan.so.1", "vulkan-1.dll", NULL });
    void *symbol = library ? copse__library_symbol(library, "vkGetInstanceProcAddr") : NULL;
    if (!symbol)
        return "no Vulkan loader";
    memcpy(&real_get, &symbol, sizeof symbol);
    a->get_proc_addr = real_get;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)real_get(NULL, "vkCreateInstance");
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .pApplicationName = "a test",
                                    .apiVersion = a->api_version };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                        .pApplicationInfo = &app };
    if (!create || create(&info, NULL, &a->instance) != VK_SUCCESS)
        return "no Vulkan instance";
#    define LOAD(name)                                             \
        vk.name = (PFN_vk##name)real_get(a->instance, "vk" #name); \
        if (!vk.name)                                              \
            return "no vk" #name;
    FUNCTIONS(LOAD)
#    undef LOAD
    uint32_t count = 1;
    if (vk.EnumeratePhysicalDevices(a->instance, &count, &a->physical) < 0 || !count) {
        vk.DestroyInstance(a->instance, NULL);
        return "no Vulkan device";
    }
    return NULL;
}

static bool has_extension(const struct app_vulkan *a, const char *name)
{
    static VkExtensionProperties list[512];
    uint32_t count = COPSE_COUNT(list);
    if (vk.EnumerateDeviceExtensionProperties(a->physical, NULL, &count, list) < 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].extensionName, name) == 0)
            return true;
    return false;
}

static void choose_features(struct app_vulkan *a, bool has_everything)
{
    a->features = (VkPhysicalDeviceFeatures2){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
    };
    if (!has_everything)
        return;
    VkPhysicalDevice16BitStorageFeatures f16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES
    };
    VkPhysicalDeviceFeatures2 have = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                       .pNext = &f16 };
    vk.GetPhysicalDeviceFeatures2(a->physical, &have);
    a->features.features.shaderFloat64 = have.features.shaderFloat64;
    a->features11 = (VkPhysicalDeviceVulkan11Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .storageBuffer16BitAccess = f16.storageBuffer16BitAccess,
    };
    if (a->api_version >= VK_API_VERSION_1_2)
        a->features.pNext = &a->features11;
    if (has_extension(a, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
        a->extensions[a->extension_count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
}

static void make_device(struct app_vulkan *a)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = COPSE_COUNT(families);
    vk.GetPhysicalDeviceQueueFamilyProperties(a->physical, &count, families);
    while (a->family < count && !(families[a->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        a->family++;
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = a->family,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    const VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = &a->features,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue,
                                      .enabledExtensionCount = a->extension_count,
                                      .ppEnabledExtensionNames = a->extensions };
    MUST(vk.CreateDevice(a->physical, &info, NULL, &a->device));
    vk.GetDeviceQueue(a->device, a->family, 0, &a->queue);
}

/* ---- its own work ---- */

static void make_buffer(struct app_vulkan *a)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .size = 4 * WORDS,
                                      .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT };
    VkPhysicalDeviceMemoryProperties memory;
    VkMemoryRequirements need;
    void *map;
    MUST(vk.CreateBuffer(a->device, &info, NULL, &a->buffer));
    vk.GetBufferMemoryRequirements(a->device, a->buffer, &need);
    vk.GetPhysicalDeviceMemoryProperties(a->physical, &memory);
    uint32_t type = 0;
    while (!(need.memoryTypeBits >> type & 1) ||
           (memory.memoryTypes[type].propertyFlags & wanted) != wanted)
        type++;
    const VkMemoryAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .allocationSize = need.size,
                                            .memoryTypeIndex = type };
    MUST(vk.AllocateMemory(a->device, &allocate, NULL, &a->memory));
    MUST(vk.BindBufferMemory(a->device, a->buffer, a->memory, 0));
    MUST(vk.MapMemory(a->device, a->memory, 0, VK_WHOLE_SIZE, 0, &map));
    a->map = map;
}

static void make_commands(struct app_vulkan *a)
{
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .queueFamilyIndex = a->family };
    const VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
    MUST(vk.CreateCommandPool(a->device, &pool, NULL, &a->pool));
    const VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = a->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    MUST(vk.AllocateCommandBuffers(a->device, &commands, &a->commands));
    MUST(vk.CreateFence(a->device, &fence, NULL, &a->fence));
}

bool app_vulkan_work(void *app, uint32_t round)
{
    struct app_vulkan *a = app;
    const VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
    const VkMemoryBarrier shown = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                    .dstAccessMask = VK_ACCESS_HOST_READ_BIT };
    const VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .commandBufferCount = 1,
                                .pCommandBuffers = &a->commands };
    MUST(vk.ResetCommandPool(a->device, a->pool, 0));
    MUST(vk.BeginCommandBuffer(a->commands, &begin));
    vk.CmdFillBuffer(a->commands, a->buffer, 0, VK_WHOLE_SIZE, round);
    vk.CmdPipelineBarrier(a->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                          0, 1, &shown, 0, NULL, 0, NULL);
    MUST(vk.EndCommandBuffer(a->commands));
    app_lock_take(&app_vulkan_lock);
    const VkResult r = vk.QueueSubmit(a->queue, 1, &info, a->fence);
    app_lock_give(&app_vulkan_lock);
    MUST(r);
    MUST(vk.WaitForFences(a->device, 1, &a->fence, VK_TRUE, 60000000000ull));
    MUST(vk.ResetFences(a->device, 1, &a->fence));
    for (uint32_t i = 0; i < WORDS; i++)
        if (a->map[i] != round)
            return false;
    return true;
}

const char *app_vulkan_open(struct app_vulkan *a, const struct app_vulkan_how *how)
{
    memset(a, 0, sizeof *a);
    a->api_version = how->api_version;
    const char *why = make_instance(a);
    if (why)
        return why;
    choose_features(a, how->has_everything);
    make_device(a);
    make_buffer(a);
    make_commands(a);
    a->worker.work = app_vulkan_work;
    a->worker.app = a;
    app_lock_init(&app_vulkan_lock);
    atomic_store(&app_vulkan_forbidden, 0u);
    return NULL;
}

struct copse_vulkan_handles app_vulkan_handles(struct app_vulkan *a)
{
    return (struct copse_vulkan_handles){
        .get_proc_addr = get_instance,
        .instance = a->instance,
        .api_version = a->api_version,
        .physical_device = a->physical,
        .device = a->device,
        .queue_family = a->family,
        .queue = a->queue,
        .extensions = a->extensions,
        .extension_count = a->extension_count,
        .features = &a->features,
        .lock_queue = app_lock_take,
        .unlock_queue = app_lock_give,
        .user = &app_vulkan_lock,
    };
}

void app_vulkan_close(struct app_vulkan *a)
{
    vk.DestroyFence(a->device, a->fence, NULL);
    vk.DestroyCommandPool(a->device, a->pool, NULL);
    vk.DestroyBuffer(a->device, a->buffer, NULL);
    vk.FreeMemory(a->device, a->memory, NULL);
    vk.DestroyDevice(a->device, NULL);
    vk.DestroyInstance(a->instance, NULL);
    app_lock_fini(&app_vulkan_lock);
}

#endif
