/* SPDX-License-Identifier: MIT */
/* A Vulkan layer that describes a device as a discrete GPU with a queue family for transfers and
   priorities of memory, and keeps the submissions of its two queues until they must run: VK_INSTANCE_LAYERS=VK_LAYER_COPSE_lanes.
   COPSE_LANES says which of them run as soon as their semaphores let them, "transfers" or "kernels".
   The others run when the host or these wait for them. With COPSE_LANES_FAMILY=same the second queue is
   one of the family that computes. So work that does not wait for the other
   queue comes too early in one of the two orders. Uses that the specification forbids end the
   process. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/layers/vulkan_layer.h"

enum { COMPUTE, TRANSFERS, LANES };

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "lanes layer: %s\n", why);
    abort();
}

static void *get_memory(void *old, size_t count, size_t size)
{
    void *memory = realloc(old, count * size);
    if (memory == NULL)
        give_up("no memory");
    return memory;
}

/* ---- devices ---- */

/* A submission that has not run. */
struct held {
    VkCommandBuffer *buffers;
    uint32_t count;
    VkSemaphore wait, signal; /* of timelines */
    uint64_t wait_value, signal_value;
    VkFence fence;
    struct held *next;
};

static struct device {
    void *key;
    VkDevice handle;
    PFN_vkGetDeviceProcAddr get;
    PFN_vkSetDeviceLoaderData set_loader_data;
    uint32_t families; /* of the driver; this number is the family of transfers */
    VkQueue queue;
    void **transfers; /* as a VkQueue: its first word is the loader's */
    struct held *first[LANES];
    unsigned long storage_buffers, with_priority;
    PFN_vkDestroyDevice destroy;
    PFN_vkGetDeviceQueue get_queue;
    PFN_vkQueueSubmit submit;
    PFN_vkWaitForFences wait;
    PFN_vkCreateCommandPool create_pool;
    PFN_vkAllocateCommandBuffers allocate;
    PFN_vkCmdPipelineBarrier barrier;
    PFN_vkCmdDispatch dispatch;
    PFN_vkCreateBuffer create_buffer;
    PFN_vkCreateSemaphore create_semaphore;
    PFN_vkAllocateMemory allocate_memory;
} devices[64];

static struct device *device_of(const void *handle)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i].key == key_of(handle))
            return &devices[i];
    give_up("unknown device");
}

static PFN_vkGetDeviceProcAddr next_device_proc(VkDevice device)
{
    return device_of(device)->get;
}

/* ---- values of semaphores, and objects of the family of transfers ---- */

static struct {
    struct {
        uint64_t handle, value;
    } *at;
    size_t count;
} semaphores, own_objects;

static uint64_t bits_of(const void *handle, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, handle, size);
    return bits;
}
#define BITS(handle) bits_of(&(handle), sizeof(handle))

static uint64_t *value_of(VkSemaphore semaphore)
{
    for (size_t i = 0; i < semaphores.count; i++)
        if (semaphores.at[i].handle == BITS(semaphore))
            return &semaphores.at[i].value;
    semaphores.at = get_memory(semaphores.at, semaphores.count + 1, sizeof *semaphores.at);
    semaphores.at[semaphores.count].handle = BITS(semaphore);
    semaphores.at[semaphores.count].value = 0;
    return &semaphores.at[semaphores.count++].value;
}

/* The handle may have been another object's. */
static void note_object(uint64_t handle, bool is_of_transfers)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < own_objects.count; i++)
        if (own_objects.at[i].handle == handle)
            own_objects.at[i--] = own_objects.at[--own_objects.count];
    if (is_of_transfers) {
        own_objects.at = get_memory(own_objects.at, own_objects.count + 1, sizeof *own_objects.at);
        own_objects.at[own_objects.count++].handle = handle;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_of_transfers(uint64_t handle)
{
    bool is = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < own_objects.count; i++)
        is = is || own_objects.at[i].handle == handle;
    pthread_mutex_unlock(&lock);
    return is;
}

/* ---- the order ---- */

static bool is_same_family(void)
{
    const char *text = getenv("COPSE_LANES_FAMILY");
    return text != NULL && strcmp(text, "same") == 0;
}

static int eager_lane(void)
{
    const char *text = getenv("COPSE_LANES");
    if (text != NULL && strcmp(text, "transfers") == 0)
        return TRANSFERS;
    if (text == NULL || strcmp(text, "kernels") != 0)
        give_up("COPSE_LANES is neither transfers nor kernels");
    return COMPUTE;
}

static bool may_run(const struct held *h)
{
    return h != NULL && (h->wait == VK_NULL_HANDLE || *value_of(h->wait) >= h->wait_value);
}

static VkResult run_first(struct device *d, int lane)
{
    struct held *h = d->first[lane];
    const VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .commandBufferCount = h->count,
                                .pCommandBuffers = h->buffers };
    const VkResult r = d->submit(d->queue, 1, &info, h->fence);

    if (h->signal != VK_NULL_HANDLE)
        *value_of(h->signal) = h->signal_value;
    d->first[lane] = h->next;
    free(h->buffers);
    free(h);
    return r;
}

static VkResult run_eager(struct device *d)
{
    const int lane = eager_lane();
    VkResult r = VK_SUCCESS;

    while (r == VK_SUCCESS && may_run(d->first[lane]))
        r = run_first(d, lane);
    return r;
}

static int lane_of_fence(const struct device *d, VkFence fence)
{
    for (int lane = 0; lane < LANES; lane++)
        for (const struct held *h = d->first[lane]; h != NULL; h = h->next)
            if (h->fence == fence)
                return lane;
    return -1;
}

/* Run what must have run before the fence is signalled. */
static VkResult run_for(struct device *d, VkFence fence)
{
    VkResult r = run_eager(d);

    for (int lane; r == VK_SUCCESS && (lane = lane_of_fence(d, fence)) >= 0;) {
        if (!may_run(d->first[lane]))
            lane = 1 - lane;
        if (!may_run(d->first[lane]))
            give_up("the queues wait for each other, or for work that was not submitted");
        r = run_first(d, lane);
        if (r == VK_SUCCESS)
            r = run_eager(d);
    }
    return r;
}

static struct held *hold(const VkSubmitInfo *info, VkFence fence)
{
    struct held *h = get_memory(NULL, 1, sizeof *h);
    const VkTimelineSemaphoreSubmitInfo *times = info->pNext;

    *h = (struct held){ .count = info->commandBufferCount, .fence = fence };
    if (info->waitSemaphoreCount > 1 || info->signalSemaphoreCount > 1 ||
        (times && times->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) ||
        (!times && info->waitSemaphoreCount + info->signalSemaphoreCount > 0))
        give_up("a submission with other semaphores");
    if (info->waitSemaphoreCount > 0) {
        h->wait = info->pWaitSemaphores[0];
        h->wait_value = times->pWaitSemaphoreValues[0];
    }
    if (info->signalSemaphoreCount > 0) {
        h->signal = info->pSignalSemaphores[0];
        h->signal_value = times->pSignalSemaphoreValues[0];
        if (h->signal_value <= *value_of(h->signal))
            give_up("a timeline that does not grow");
    }
    h->buffers = get_memory(NULL, h->count + 1, sizeof(VkCommandBuffer));
    for (uint32_t i = 0; i < h->count; i++)
        h->buffers[i] = info->pCommandBuffers[i];
    return h;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo *infos, VkFence fence)
{
    struct device *d = device_of(queue);
    const int lane = (void *)queue == (void *)d->transfers ? TRANSFERS : COMPUTE;

    if (count != 1)
        give_up("a call with other than one submission");
    for (uint32_t i = 0; i < infos->commandBufferCount && !is_same_family(); i++)
        if (is_of_transfers(BITS(infos->pCommandBuffers[i])) != (lane == TRANSFERS))
            give_up("a command buffer in a queue of another family");
    pthread_mutex_lock(&lock);
    struct held **end = &d->first[lane];
    while (*end != NULL)
        end = &(*end)->next;
    *end = hold(infos, fence);
    const VkResult r = run_eager(d);
    pthread_mutex_unlock(&lock);
    return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice device, uint32_t count,
                                                      const VkFence *fences, VkBool32 all,
                                                      uint64_t timeout)
{
    struct device *d = device_of(device);
    VkResult r = VK_SUCCESS;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count && r == VK_SUCCESS; i++)
        r = run_for(d, fences[i]);
    pthread_mutex_unlock(&lock);
    return r == VK_SUCCESS ? d->wait(device, count, fences, all, timeout) : r;
}

/* ---- the second family ---- */

static VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice device, uint32_t *count,
                                           VkQueueFamilyProperties *list)
{
    const uint32_t room = *count;
    uint32_t own = room;

    instance_of(device)->families(device, &own, list);
    *count = own;
    if (list != NULL && is_same_family())
        list[0].queueCount = 2;
    if (is_same_family() || (list != NULL && own == room))
        return;
    if (list != NULL)
        list[own] =
            (VkQueueFamilyProperties){ .queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = 1 };
    *count = own + 1;
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceProperties *out)
{
    instance_of(device)->properties(device, out);
    out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device,
                                              VkPhysicalDeviceProperties2 *out)
{
    instance_of(device)->properties2(device, out);
    out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index,
                                            VkQueue *out)
{
    struct device *d = device_of(device);

    if (family == d->families || index == 1) {
        *out = (VkQueue)(void *)d->transfers;
        return;
    }
    d->get_queue(device, family, index, out);
    d->queue = *out;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device,
                                                  const VkCommandPoolCreateInfo *info,
                                                  const VkAllocationCallbacks *calls,
                                                  VkCommandPool *out)
{
    struct device *d = device_of(device);
    VkCommandPoolCreateInfo own = *info;

    own.queueFamilyIndex = info->queueFamilyIndex == d->families ? 0 : info->queueFamilyIndex;
    const VkResult r = d->create_pool(device, &own, calls, out);
    if (r == VK_SUCCESS)
        note_object(BITS(*out), info->queueFamilyIndex == d->families);
    return r;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device,
                                               const VkCommandBufferAllocateInfo *info,
                                               VkCommandBuffer *out)
{
    const VkResult r = device_of(device)->allocate(device, info, out);

    for (uint32_t i = 0; r == VK_SUCCESS && i < info->commandBufferCount; i++)
        note_object(BITS(out[i]), is_of_transfers(BITS(info->commandPool)));
    return r;
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer b, uint32_t x, uint32_t y, uint32_t z)
{
    if (is_of_transfers(BITS(b)))
        give_up("a dispatch in the family of transfers");
    device_of(b)->dispatch(b, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer b, VkPipelineStageFlags from,
                                          VkPipelineStageFlags to, VkDependencyFlags flags,
                                          uint32_t memory_count, const VkMemoryBarrier *memory,
                                          uint32_t buffer_count,
                                          const VkBufferMemoryBarrier *buffers,
                                          uint32_t image_count, const VkImageMemoryBarrier *images)
{
    if (is_of_transfers(BITS(b)) && ((from | to) & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT))
        give_up("a barrier of kernels in the family of transfers");
    device_of(b)->barrier(b, from, to, flags, memory_count, memory, buffer_count, buffers,
                          image_count, images);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                                    const VkAllocationCallbacks *calls,
                                                    VkBuffer *out)
{
    struct device *d = device_of(device);
    VkBufferCreateInfo own = *info;

    if ((info->usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) && !is_same_family() &&
        info->sharingMode != VK_SHARING_MODE_CONCURRENT)
        give_up("a buffer of one family");
    own.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    own.queueFamilyIndexCount = 0;
    pthread_mutex_lock(&lock);
    d->storage_buffers += (info->usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) != 0;
    pthread_mutex_unlock(&lock);
    return d->create_buffer(device, &own, calls, out);
}

/* The handle may have been another semaphore's. */
static VKAPI_ATTR VkResult VKAPI_CALL create_semaphore(VkDevice device,
                                                       const VkSemaphoreCreateInfo *info,
                                                       const VkAllocationCallbacks *calls,
                                                       VkSemaphore *out)
{
    const VkResult r = device_of(device)->create_semaphore(device, info, calls, out);

    pthread_mutex_lock(&lock);
    if (r == VK_SUCCESS)
        *value_of(*out) = 0;
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- priorities of memory ---- */

#define MEMORY_PRIORITY VK_EXT_MEMORY_PRIORITY_EXTENSION_NAME

static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer,
                                                 uint32_t *count, VkExtensionProperties *list)
{
    const uint32_t room = *count;
    const VkResult r = instance_of(device)->extensions(device, layer, count, list);

    for (uint32_t i = 0; list != NULL && i < *count; i++)
        if (strcmp(list[i].extensionName, MEMORY_PRIORITY) == 0)
            give_up("the driver has priorities of memory");
    if (layer != NULL || r != VK_SUCCESS)
        return r;
    if (list != NULL && room == *count)
        return VK_INCOMPLETE;
    if (list != NULL)
        list[*count] = (VkExtensionProperties){ .extensionName = MEMORY_PRIORITY };
    (*count)++;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    instance_of(device)->features2(device, out);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)out; s != NULL; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT)
            ((VkPhysicalDeviceMemoryPriorityFeaturesEXT *)s)->memoryPriority = VK_TRUE;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device,
                                                      const VkMemoryAllocateInfo *info,
                                                      const VkAllocationCallbacks *calls,
                                                      VkDeviceMemory *out)
{
    struct device *d = device_of(device);
    const VkBaseInStructure *s = info->pNext;

    pthread_mutex_lock(&lock);
    while (s != NULL && s->sType != VK_STRUCTURE_TYPE_MEMORY_PRIORITY_ALLOCATE_INFO_EXT)
        s = s->pNext;
    d->with_priority += s != NULL;
    pthread_mutex_unlock(&lock);
    return d->allocate_memory(device, info, calls, out);
}

/* The driver gets the device without the extension. */
static void leave_out_priority(VkDeviceCreateInfo *info, const char *names[32])
{
    uint32_t count = 0;
    bool has = false, has_feature = false;

    if (info->enabledExtensionCount > 32)
        give_up("a device with many extensions");
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], MEMORY_PRIORITY) == 0)
            has = true;
        else
            names[count++] = info->ppEnabledExtensionNames[i];
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)info->pNext; s != NULL; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PRIORITY_FEATURES_EXT) {
            VkPhysicalDeviceMemoryPriorityFeaturesEXT *f = (void *)s;
            has_feature = f->memoryPriority;
            f->memoryPriority = VK_FALSE;
        }
    if (!has || !has_feature)
        give_up("a device without priorities of memory");
    info->enabledExtensionCount = count;
    info->ppEnabledExtensionNames = names;
}

/* ---- the chain of layers ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *calls,
                                                      VkInstance *out)
{
    return create_next_instance(info, calls, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *calls,
                                                    VkDevice *out)
{
    struct instance *of = instance_of(physical);
    PFN_vkSetDeviceLoaderData set_loader_data = NULL;
    VkDeviceCreateInfo own = *info;
    const char *names[32];
    uint32_t count = 0;

    const PFN_vkGetDeviceProcAddr get = next_of_device(info, &set_loader_data);
    if (get == NULL || set_loader_data == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    of->families(physical, &count, NULL);
    VkDeviceQueueCreateInfo queue = info->pQueueCreateInfos[0];
    if (is_same_family() ? info->queueCreateInfoCount != 1 || queue.queueCount != 2
                         : info->queueCreateInfoCount != 2 ||
                               info->pQueueCreateInfos[1].queueFamilyIndex != count)
        give_up("a device without a queue for transfers");
    queue.queueCount = 1;
    own.queueCreateInfoCount = 1;
    own.pQueueCreateInfos = &queue;
    leave_out_priority(&own, names);
    const VkResult result = of->create_device(physical, &own, calls, out);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (devices[i].key != NULL && devices[i].key != key_of(*out))
        if (++i == sizeof devices / sizeof *devices)
            give_up("too many devices");
    devices[i] = (struct device){
        .key = key_of(*out),
        .handle = *out,
        .get = get,
        .set_loader_data = set_loader_data,
        .families = count,
        .transfers = get_memory(NULL, 1, sizeof(void *)),
        .destroy = (PFN_vkDestroyDevice)get(*out, "vkDestroyDevice"),
        .get_queue = (PFN_vkGetDeviceQueue)get(*out, "vkGetDeviceQueue"),
        .submit = (PFN_vkQueueSubmit)get(*out, "vkQueueSubmit"),
        .wait = (PFN_vkWaitForFences)get(*out, "vkWaitForFences"),
        .create_pool = (PFN_vkCreateCommandPool)get(*out, "vkCreateCommandPool"),
        .allocate = (PFN_vkAllocateCommandBuffers)get(*out, "vkAllocateCommandBuffers"),
        .barrier = (PFN_vkCmdPipelineBarrier)get(*out, "vkCmdPipelineBarrier"),
        .dispatch = (PFN_vkCmdDispatch)get(*out, "vkCmdDispatch"),
        .create_buffer = (PFN_vkCreateBuffer)get(*out, "vkCreateBuffer"),
        .create_semaphore = (PFN_vkCreateSemaphore)get(*out, "vkCreateSemaphore"),
        .allocate_memory = (PFN_vkAllocateMemory)get(*out, "vkAllocateMemory"),
    };
    devices[i].transfers[0] = key_of(*out);
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device,
                                                 const VkAllocationCallbacks *calls)
{
    struct device *d = device_of(device);

    if (d->first[COMPUTE] != NULL || d->first[TRANSFERS] != NULL)
        give_up("a device that is destroyed while it has work");
    /* all but the staging memory of queues, which is the host's */
    if (d->storage_buffers > 0 && d->with_priority == 0)
        give_up("memory without a priority");
    free(d->transfers);
    d->key = NULL;
    d->destroy(device, calls);
}

/* ---- names ---- */

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
    bool is_of_instance;
} functions[] = {
#define OF(name, function, is_of_instance)                        \
    {                                                             \
        "vk" name, (PFN_vkVoidFunction)(function), is_of_instance \
    }
    OF("CreateInstance", create_instance, true),
    OF("DestroyInstance", destroy_instance, true),
    OF("CreateDevice", create_device, true),
    OF("GetPhysicalDeviceProperties", properties, true),
    OF("GetPhysicalDeviceProperties2", properties2, true),
    OF("GetPhysicalDeviceQueueFamilyProperties", families, true),
    OF("GetPhysicalDeviceFeatures2", features2, true),
    OF("GetPhysicalDeviceFeatures2KHR", features2, true),
    OF("EnumerateDeviceExtensionProperties", extensions, true),
    OF("DestroyDevice", destroy_device, false),
    OF("GetDeviceQueue", get_queue, false),
    OF("QueueSubmit", submit, false),
    OF("WaitForFences", wait_for_fences, false),
    OF("CreateCommandPool", create_pool, false),
    OF("AllocateCommandBuffers", allocate, false),
    OF("CmdPipelineBarrier", barrier, false),
    OF("CmdDispatch", dispatch, false),
    OF("CreateBuffer", create_buffer, false),
    OF("CreateSemaphore", create_semaphore, false),
    OF("AllocateMemory", allocate_memory, false),
#undef OF
};

static PFN_vkVoidFunction find(const char *name, bool is_device)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0 && !(is_device && functions[i].is_of_instance))
            return functions[i].function;
    return NULL;
}
