/* SPDX-License-Identifier: MIT */
/* A Vulkan layer that plays a fault (lie.h) between the loader and a driver:
   VK_INSTANCE_LAYERS=VK_LAYER_COPSE_lying.

   The layer keeps the commands of each command buffer. A submission in which the fault happens runs
   other command buffers, made of the same commands with the fault, so that a command buffer that is
   recorded once and submitted many times is faulty in some submissions only. It knows the commands
   that Copse records; others end the process. */

#include "tests/layers/lie.h"
#include "tests/layers/vulkan_layer.h"

#define MAX 16384u

/* Device functions of the next layer that this one calls. */
/* clang-format off */
#define DEVICE_FUNCTIONS(X) \
    X(AllocateCommandBuffers) X(AllocateMemory) X(BeginCommandBuffer) X(CmdBindDescriptorSets) \
    X(CmdBindPipeline) X(CmdCopyBuffer) X(CmdDispatch) X(CmdFillBuffer) X(CmdPipelineBarrier) \
    X(CmdPushConstants) X(CreateCommandPool) X(DestroyCommandPool) X(DestroyDevice) \
    X(EndCommandBuffer) X(FreeCommandBuffers) X(MapMemory) X(QueueSubmit) X(QueueWaitIdle) \
    X(WaitForFences) X(CreateBuffer) X(BindBufferMemory) X(FreeMemory)
/* clang-format on */

struct next {
#define MEMBER(name) PFN_vk##name name;
    DEVICE_FUNCTIONS(MEMBER)
#undef MEMBER
};

static struct lie lie;
static struct lie_reads reads;

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "lying layer: %s\n", why);
    abort();
}

/* ---- devices ---- */

static struct device {
    void *key;
    VkDevice handle;
    PFN_vkGetDeviceProcAddr get;
    PFN_vkSetDeviceLoaderData set_loader_data;
    struct next next;
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

/* ---- recorded commands ---- */

enum kind { BIND_PIPELINE, BIND_SETS, PUSH, DISPATCH, COPY, FILL, BARRIER };

struct command {
    enum kind kind;
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSet set;
    uint32_t size, groups[3], word;
    uint32_t bytes[64];
    VkBuffer from, to;
    VkBufferCopy region;
    VkDeviceSize offset, length;
    VkPipelineStageFlags stages[2];
    VkMemoryBarrier memory;
};

static struct recording {
    VkCommandBuffer buffer;
    VkDevice device;
    struct command *commands;
    size_t count, room;
} recordings[MAX];

static struct recording *recording_of(VkCommandBuffer buffer)
{
    struct recording *unused = NULL;

    for (size_t i = 0; i < MAX; i++) {
        if (recordings[i].buffer == buffer)
            return &recordings[i];
        if (recordings[i].buffer == VK_NULL_HANDLE && unused == NULL)
            unused = &recordings[i];
    }
    if (unused == NULL)
        give_up("too many command buffers");
    unused->buffer = buffer;
    return unused;
}

static struct command *append(VkCommandBuffer buffer, enum kind kind)
{
    struct recording *r = recording_of(buffer);

    if (r->count == r->room) {
        r->room = 2 * r->room + 64;
        r->commands = realloc(r->commands, r->room * sizeof *r->commands);
        if (r->commands == NULL)
            give_up("no memory");
    }
    struct command *c = &r->commands[r->count++];
    memset(c, 0, sizeof *c);
    c->kind = kind;
    return c;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer buffer,
                                            const VkCommandBufferBeginInfo *info)
{
    pthread_mutex_lock(&lock);
    recording_of(buffer)->count = 0;
    pthread_mutex_unlock(&lock);
    return device_of(buffer)->next.BeginCommandBuffer(buffer, info);
}

#define RECORD(buffer, kind, ...)                     \
    do {                                              \
        pthread_mutex_lock(&lock);                    \
        struct command *c = append((buffer), (kind)); \
        __VA_ARGS__;                                  \
        pthread_mutex_unlock(&lock);                  \
    } while (0)

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer b, VkPipelineBindPoint point,
                                                VkPipeline pipeline)
{
    RECORD(b, BIND_PIPELINE, c->pipeline = pipeline);
    device_of(b)->next.CmdBindPipeline(b, point, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer b, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, uint32_t first, uint32_t count,
                                            const VkDescriptorSet *sets, uint32_t offset_count,
                                            const uint32_t *offsets)
{
    if (first != 0 || count != 1 || offset_count != 0)
        give_up("more than one descriptor set");
    RECORD(b, BIND_SETS, c->layout = layout, c->set = *sets);
    device_of(b)->next.CmdBindDescriptorSets(b, point, layout, first, count, sets, offset_count,
                                             offsets);
}

static VKAPI_ATTR void VKAPI_CALL push(VkCommandBuffer b, VkPipelineLayout layout,
                                       VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                                       const void *values)
{
    if (offset != 0 || size > sizeof((struct command *)0)->bytes)
        give_up("push constants");
    RECORD(b, PUSH, c->layout = layout, c->size = size, memcpy(c->bytes, values, size));
    device_of(b)->next.CmdPushConstants(b, layout, stages, offset, size, values);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer b, uint32_t x, uint32_t y, uint32_t z)
{
    RECORD(b, DISPATCH, c->groups[0] = x, c->groups[1] = y, c->groups[2] = z);
    device_of(b)->next.CmdDispatch(b, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer b, uint32_t bx, uint32_t by,
                                                uint32_t bz, uint32_t x, uint32_t y, uint32_t z)
{
    (void)b, (void)bx, (void)by, (void)bz, (void)x, (void)y, (void)z;
    give_up("vkCmdDispatchBase");
}

static VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer b, VkBuffer from, VkBuffer to,
                                       uint32_t count, const VkBufferCopy *regions)
{
    for (uint32_t i = 0; i < count; i++)
        RECORD(b, COPY, c->from = from, c->to = to, c->region = regions[i]);
    device_of(b)->next.CmdCopyBuffer(b, from, to, count, regions);
}

static VKAPI_ATTR void VKAPI_CALL fill(VkCommandBuffer b, VkBuffer to, VkDeviceSize offset,
                                       VkDeviceSize length, uint32_t word)
{
    RECORD(b, FILL, c->to = to, c->offset = offset, c->length = length, c->word = word);
    device_of(b)->next.CmdFillBuffer(b, to, offset, length, word);
}

static VKAPI_ATTR void VKAPI_CALL pipeline_barrier(
    VkCommandBuffer b, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags,
    uint32_t memory_count, const VkMemoryBarrier *memory, uint32_t buffer_count,
    const VkBufferMemoryBarrier *buffers, uint32_t image_count, const VkImageMemoryBarrier *images)
{
    if (memory_count != 1 || buffer_count != 0 || image_count != 0)
        give_up("a barrier that is not of memory");
    RECORD(b, BARRIER, c->stages[0] = from, c->stages[1] = to, c->memory = *memory);
    device_of(b)->next.CmdPipelineBarrier(b, from, to, flags, memory_count, memory, buffer_count,
                                          buffers, image_count, images);
}

/* ---- submissions with a fault ---- */

static void replay(const struct next *n, VkCommandBuffer b, const struct command *c)
{
    switch (c->kind) {
    case BIND_PIPELINE:
        n->CmdBindPipeline(b, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline);
        break;
    case BIND_SETS:
        n->CmdBindDescriptorSets(b, VK_PIPELINE_BIND_POINT_COMPUTE, c->layout, 0, 1, &c->set, 0,
                                 NULL);
        break;
    case PUSH:
        n->CmdPushConstants(b, c->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, c->size, c->bytes);
        break;
    case DISPATCH:
        n->CmdDispatch(b, c->groups[0], c->groups[1], c->groups[2]);
        break;
    case COPY:
        n->CmdCopyBuffer(b, c->from, c->to, 1, &c->region);
        break;
    case FILL:
        n->CmdFillBuffer(b, c->to, c->offset, c->length, c->word);
        break;
    case BARRIER:
        n->CmdPipelineBarrier(b, c->stages[0], c->stages[1], 0, 1, &c->memory, 0, NULL, 0, NULL);
        break;
    }
}

/* Copse binds the descriptor set and the constants of each dispatch before it, the pipeline only if
   it changes. */
struct dispatch {
    const struct command *pipeline, *sets, *push, *run;
};

static void replay_dispatch(const struct next *n, VkCommandBuffer b, const struct dispatch *d)
{
    replay(n, b, d->pipeline);
    replay(n, b, d->sets);
    replay(n, b, d->push);
    replay(n, b, d->run);
}

static void order(const struct next *n, VkCommandBuffer b)
{
    const VkMemoryBarrier all = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                  .dstAccessMask =
                                      VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT };

    n->CmdPipelineBarrier(b, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                          0, 1, &all, 0, NULL, 0, NULL);
}

/* Records the commands of `r` with those faults that `plan` has, one character for each
   dispatch. */
static void record_faulty(const struct next *n, const struct recording *r, const char *plan,
                          VkCommandBuffer b)
{
    struct dispatch now = { NULL, NULL, NULL, NULL }, held = { NULL, NULL, NULL, NULL };

    for (size_t i = 0; i < r->count; i++) {
        const struct command *c = &r->commands[i];
        if (c->kind == BIND_PIPELINE)
            now.pipeline = c;
        else if (c->kind == BIND_SETS)
            now.sets = c;
        else if (c->kind == PUSH)
            now.push = c;
        if (c->kind != DISPATCH) {
            if (c->kind == COPY || c->kind == FILL || c->kind == BARRIER)
                replay(n, b, c);
            continue;
        }
        now.run = c;
        const bool is_faulty = *plan++ == '1';
        if (is_faulty && lie.fault == LIE_DISPATCH_LOST)
            continue;
        if (is_faulty && held.run == NULL) {
            held = now;
            continue;
        }
        replay_dispatch(n, b, &now);
        if (held.run != NULL) {
            order(n, b);
            replay_dispatch(n, b, &held);
            order(n, b);
            held.run = NULL;
        }
    }
    if (held.run != NULL)
        replay_dispatch(n, b, &held);
}

/* A character for each dispatch of `r`; NULL if none is faulty. */
static char *plan_of(const struct recording *r)
{
    char *plan = malloc(r->count + 1);
    size_t at = 0;
    bool is_faulty = false;

    for (size_t i = 0; i < r->count; i++)
        if (r->commands[i].kind == DISPATCH) {
            const bool now = lie_now(&lie, lie.fault);
            plan[at++] = now ? '1' : '0';
            is_faulty = is_faulty || now;
        }
    if (!is_faulty) {
        free(plan);
        plan = NULL;
    }
    return plan;
}

/* Wait until the commands of a faulty submission have been executed, so that they can be freed. */
static VkResult submit_faulty(struct device *d, VkQueue queue, const VkSubmitInfo *info,
                              char *const *plans, VkFence fence)
{
    const VkCommandPoolCreateInfo of_pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO };
    VkCommandBuffer *buffers = calloc(info->commandBufferCount, sizeof(VkCommandBuffer));
    VkSubmitInfo changed = *info;
    VkCommandPool pool;

    if (d->next.CreateCommandPool(d->handle, &of_pool, NULL, &pool) != VK_SUCCESS)
        give_up("no command pool");
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        buffers[i] = info->pCommandBuffers[i];
        if (plans[i] == NULL)
            continue;
        const VkCommandBufferAllocateInfo of_buffer = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1
        };
        const VkCommandBufferBeginInfo of_begin = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
        };
        if (d->next.AllocateCommandBuffers(d->handle, &of_buffer, &buffers[i]) != VK_SUCCESS)
            give_up("no command buffer");
        if (d->set_loader_data != NULL)
            (void)d->set_loader_data(d->handle, buffers[i]);
        d->next.BeginCommandBuffer(buffers[i], &of_begin);
        record_faulty(&d->next, recording_of(info->pCommandBuffers[i]), plans[i], buffers[i]);
        d->next.EndCommandBuffer(buffers[i]);
    }
    changed.pCommandBuffers = buffers;
    const VkResult result = d->next.QueueSubmit(queue, 1, &changed, fence);
    d->next.QueueWaitIdle(queue);
    d->next.DestroyCommandPool(d->handle, pool, NULL);
    free(buffers);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo *infos, VkFence fence)
{
    struct device *d = device_of(queue);
    VkResult result = VK_SUCCESS;

    if (lie.fault != LIE_DISPATCH_LOST && lie.fault != LIE_DISPATCHES_SWAPPED)
        return d->next.QueueSubmit(queue, count, infos, fence);
    if (count == 0)
        return d->next.QueueSubmit(queue, count, infos, fence);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        char **plans = calloc(infos[i].commandBufferCount, sizeof *plans);
        bool is_faulty = false;
        for (uint32_t k = 0; k < infos[i].commandBufferCount; k++) {
            plans[k] = plan_of(recording_of(infos[i].pCommandBuffers[k]));
            is_faulty = is_faulty || plans[k] != NULL;
        }
        const VkFence last = i + 1 == count ? fence : VK_NULL_HANDLE;
        result = is_faulty ? submit_faulty(d, queue, &infos[i], plans, last)
                           : d->next.QueueSubmit(queue, 1, &infos[i], last);
        for (uint32_t k = 0; k < infos[i].commandBufferCount; k++)
            free(plans[k]);
        free(plans);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- results that the host reads: mapped buffers, as targets of copies ---- */

static struct mapping {
    VkDevice device;
    VkDeviceMemory memory;
    unsigned char *bytes;
} mappings[256];

static struct binding {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceSize offset;
} bindings[MAX];

static VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice device, VkDeviceMemory memory,
                                                 VkDeviceSize offset, VkDeviceSize size,
                                                 VkMemoryMapFlags flags, void **out)
{
    const VkResult result =
        device_of(device)->next.MapMemory(device, memory, offset, size, flags, out);

    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (mappings[i].bytes == NULL) {
            mappings[i] = (struct mapping){ device, memory, (unsigned char *)*out - offset };
            break;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                              const VkAllocationCallbacks *calls)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (mappings[i].memory == memory && mappings[i].device == device)
            mappings[i].bytes = NULL;
    pthread_mutex_unlock(&lock);
    device_of(device)->next.FreeMemory(device, memory, calls);
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice device, VkBuffer buffer,
                                                  VkDeviceMemory memory, VkDeviceSize offset)
{
    pthread_mutex_lock(&lock);
    size_t at = 0;
    for (size_t i = MAX; i-- > 0;)
        if (bindings[i].buffer == VK_NULL_HANDLE || bindings[i].buffer == buffer)
            at = i;
    bindings[at] = (struct binding){ buffer, memory, offset };
    pthread_mutex_unlock(&lock);
    return device_of(device)->next.BindBufferMemory(device, buffer, memory, offset);
}

static unsigned char *mapped(VkBuffer buffer)
{
    for (size_t i = 0; i < MAX; i++)
        if (bindings[i].buffer == buffer)
            for (size_t k = 0; k < sizeof mappings / sizeof *mappings; k++)
                if (mappings[k].bytes != NULL && mappings[k].memory == bindings[i].memory)
                    return mappings[k].bytes + bindings[i].offset;
    return NULL;
}

static void spoil(const struct recording *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct command *c = &r->commands[i];
        unsigned char *bytes = c->kind == COPY ? mapped(c->to) : NULL;
        if (bytes == NULL)
            continue;
        if (lie_now(&lie, LIE_BIT_FLIPPED))
            lie_flip(bytes + c->region.dstOffset, c->region.size);
        if (lie.fault == LIE_READ_STALE)
            (void)lie_stale(&reads, lie_now(&lie, LIE_READ_STALE), bytes + c->region.dstOffset,
                            c->region.size);
    }
}

/* Such a submission is waited for, so that the fault is there when the host looks. */
static VKAPI_ATTR VkResult VKAPI_CALL submit_and_spoil(VkQueue queue, uint32_t count,
                                                       const VkSubmitInfo *infos, VkFence fence)
{
    struct device *d = device_of(queue);
    const VkResult result = d->next.QueueSubmit(queue, count, infos, fence);

    if (result != VK_SUCCESS)
        return result;
    d->next.QueueWaitIdle(queue);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < infos[i].commandBufferCount; k++)
            spoil(recording_of(infos[i].pCommandBuffers[k]));
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- limits ---- */

static void enlarge(VkPhysicalDeviceLimits *l)
{
    l->maxComputeSharedMemorySize *= 16;
    l->maxComputeWorkGroupInvocations *= 16;
    for (size_t i = 0; i < 3; i++)
        l->maxComputeWorkGroupSize[i] *= 16;
    l->maxTexelBufferElements = UINT32_MAX;
    l->maxStorageBufferRange = UINT32_MAX;
    l->minStorageBufferOffsetAlignment = 4;
    l->minTexelBufferOffsetAlignment = 4;
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceProperties *out)
{
    instance_of(device)->properties(device, out);
    if (lie.fault == LIE_LIMITS)
        enlarge(&out->limits);
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device,
                                              VkPhysicalDeviceProperties2 *out)
{
    instance_of(device)->properties2(device, out);
    if (lie.fault == LIE_LIMITS)
        enlarge(&out->properties.limits);
}

/* ---- priorities ---- */

#define GLOBAL_PRIORITY "VK_KHR_global_priority"
#define OCCUPANCY       "VK_NV_compute_occupancy_priority"
#define OCCUPANCY_TYPE  ((VkStructureType)1000645001)

/* VkPhysicalDeviceComputeOccupancyPriorityFeaturesNV, which older headers lack. */
struct occupancy_features {
    VkStructureType type;
    const void *next;
    VkBool32 has_priority;
};

static bool claims_global(void)
{
    return lie.fault == LIE_PRIORITY && lie.every != 3;
}

static bool claims_occupancy(void)
{
    return lie.fault == LIE_PRIORITY && lie.every >= 3;
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    instance_of(device)->features2(device, out);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)out; s != NULL; s = s->pNext)
        if (s->sType == OCCUPANCY_TYPE)
            ((struct occupancy_features *)s)->has_priority = claims_occupancy();
}

static VKAPI_ATTR void VKAPI_CALL set_occupancy(VkCommandBuffer commands, const void *parameters)
{
    (void)commands;
    (void)parameters;
}

static bool has_name(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer,
                                                 uint32_t *count, VkExtensionProperties *list)
{
    const uint32_t room = *count;
    const VkResult result = instance_of(device)->extensions(device, layer, count, list);
    const uint32_t more = (uint32_t)claims_global() + (uint32_t)claims_occupancy();

    if (layer != NULL || result != VK_SUCCESS)
        return result;
    if (list != NULL && room - *count < more)
        return VK_INCOMPLETE;
    if (list != NULL && claims_global())
        list[*count] = (VkExtensionProperties){ .extensionName = GLOBAL_PRIORITY };
    if (list != NULL && claims_occupancy())
        list[*count + more - 1] = (VkExtensionProperties){ .extensionName = OCCUPANCY };
    *count += more;
    return VK_SUCCESS;
}

/* The driver gets the device without the priority. */
static VkResult create_with_priority(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                     const VkAllocationCallbacks *calls, VkDevice *out)
{
    const VkDeviceQueueGlobalPriorityCreateInfoEXT *wanted = info->pQueueCreateInfos->pNext;
    VkDeviceQueueCreateInfo queue = *info->pQueueCreateInfos;
    VkDeviceCreateInfo own = *info;
    const char *names[16];

    if (wanted == NULL && !has_name(info, OCCUPANCY))
        return instance_of(physical)->create_device(physical, info, calls, out);
    if (info->queueCreateInfoCount != 1 || info->enabledExtensionCount > 16 ||
        (wanted && wanted->sType != VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_EXT))
        give_up("a device with unknown queues");
    if ((wanted != NULL) != has_name(info, GLOBAL_PRIORITY))
        give_up("a priority without its extension");
    if (wanted && !lie_gives_priority(&lie, wanted->globalPriority))
        return VK_ERROR_NOT_PERMITTED_EXT;
    if (has_name(info, OCCUPANCY) && lie.every == 3)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    if (has_name(info, OCCUPANCY))
        fprintf(stderr, "lying layer: a priority of occupancy\n");
    queue.pNext = NULL;
    own.pQueueCreateInfos = &queue;
    own.enabledExtensionCount = 0;
    own.ppEnabledExtensionNames = names;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], GLOBAL_PRIORITY) != 0 &&
            strcmp(info->ppEnabledExtensionNames[i], OCCUPANCY) != 0)
            names[own.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    return instance_of(physical)->create_device(physical, &own, calls, out);
}

/* ---- the chain of layers ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *calls,
                                                      VkInstance *out)
{
    pthread_mutex_lock(&lock);
    if (lie.every == 0)
        lie_init(&lie);
    pthread_mutex_unlock(&lock);
    return lie_at_first(&lie, LIE_START) ? VK_ERROR_INITIALIZATION_FAILED
                                         : create_next_instance(info, calls, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *calls,
                                                    VkDevice *out)
{
    PFN_vkSetDeviceLoaderData set_loader_data = NULL;

    const PFN_vkGetDeviceProcAddr get = next_of_device(info, &set_loader_data);
    if (get == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    const VkResult result = create_with_priority(physical, info, calls, out);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i].key == NULL || devices[i].key == key_of(*out)) {
            struct device *d = &devices[i];
            *d = (struct device){
                .key = key_of(*out), .handle = *out, .get = get, .set_loader_data = set_loader_data
            };
#define GET(name) d->next.name = (PFN_vk##name)get(*out, "vk" #name);
            DEVICE_FUNCTIONS(GET)
#undef GET
            break;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device,
                                                 const VkAllocationCallbacks *calls)
{
    struct device *d = device_of(device);
    const PFN_vkDestroyDevice destroy = d->next.DestroyDevice;

    d->key = NULL;
    destroy(device, calls);
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
    OF("EnumerateDeviceExtensionProperties", extensions, true),
    OF("GetPhysicalDeviceProperties", properties, true),
    OF("GetPhysicalDeviceProperties2", properties2, true),
    OF("GetPhysicalDeviceProperties2KHR", properties2, true),
    OF("GetPhysicalDeviceFeatures2", features2, true),
    OF("GetPhysicalDeviceFeatures2KHR", features2, true),
    OF("DestroyDevice", destroy_device, false),
    OF("CmdSetComputeOccupancyPriorityNV", set_occupancy, false),
    OF("BeginCommandBuffer", begin, false),
    OF("CmdBindPipeline", bind_pipeline, false),
    OF("CmdBindDescriptorSets", bind_sets, false),
    OF("CmdPushConstants", push, false),
    OF("CmdDispatch", dispatch, false),
    OF("CmdDispatchBase", dispatch_base, false),
    OF("CmdCopyBuffer", copy, false),
    OF("CmdFillBuffer", fill, false),
    OF("CmdPipelineBarrier", pipeline_barrier, false),
    OF("MapMemory", map_memory, false),
    OF("FreeMemory", free_memory, false),
    OF("BindBufferMemory", bind_memory, false),
#undef OF
};

static PFN_vkVoidFunction find(const char *name, bool is_device)
{
    if (strcmp(name, "vkQueueSubmit") == 0)
        return lie.fault == LIE_BIT_FLIPPED || lie.fault == LIE_READ_STALE
                   ? (PFN_vkVoidFunction)submit_and_spoil
                   : (PFN_vkVoidFunction)submit;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0 && !(is_device && functions[i].is_of_instance))
            return functions[i].function;
    return NULL;
}
