/* SPDX-License-Identifier: MIT */
/* Device memory and buffers: selects the heap; small buffers share blocks (drivers allow few
   allocations), large and imported ones have their own allocation. */
#include "vk_internal.h"

#define BLOCK_BYTES ((VkDeviceSize)64 << 20)

/* ---- choice of memory ---- */

/* Kinds of memory that need a feature or an extension that we do not enable. */
#define STRANGE_TYPES                                                                          \
    (VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |              \
     VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD | \
     VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV)

uint32_t copse_vk_main_heap(const VkPhysicalDeviceMemoryProperties *m)
{
    uint32_t best = 0;
    bool best_is_local = false;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++) {
        const bool is_local = m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        if (is_local > best_is_local ||
            (is_local == best_is_local && m->memoryHeaps[i].size > m->memoryHeaps[best].size)) {
            best = i;
            best_is_local = is_local;
        }
    }
    return best;
}

/* The memory types for a buffer, best first: the main heap, then other memory of the device. Never
   host memory for a discrete device, because kernels would be very slow without any warning. */
static uint32_t buffer_types(const struct vk_device *vd, uint32_t allowed,
                             uint32_t list[VK_MAX_MEMORY_TYPES])
{
    const uint32_t main_heap = copse_vk_main_heap(&vd->memory);
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < vd->memory.memoryTypeCount; i++) {
            const VkMemoryType *t = &vd->memory.memoryTypes[i];
            const bool is_main = t->heapIndex == main_heap;
            if (!(allowed >> i & 1) || (t->propertyFlags & STRANGE_TYPES) || is_main != (pass == 0))
                continue;
            if (is_main || (t->propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
                list[count++] = i;
        }
    return count;
}

copse_status copse_vk_memory(copse_device *dev, struct copse_device_memory *out)
{
    struct vk_device *vd = dev->priv;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
    };
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = vd->traits.has_budget ? &budget : NULL
    };
    vd->vk.GetPhysicalDeviceMemoryProperties2(vd->physical, &m);
    const uint32_t heap = copse_vk_main_heap(&m.memoryProperties);
    const VkDeviceSize most = budget.heapBudget[heap], used = budget.heapUsage[heap];
    out->total = m.memoryProperties.memoryHeaps[heap].size;
    out->is_free_known = most > 0; /* lavapipe lists the extension, and reports 0 */
    out->free = most > used ? most - used : 0;
    out->over_budget = most > 0 && used > most ? used - most : 0;
    return COPSE_OK;
}

/* ---- blocks ---- */

static VkDeviceSize round_up(VkDeviceSize n, VkDeviceSize to)
{
    return (n + to - 1) / to * to;
}

/* Some drivers accept more than the heap holds and page, or fail at first use, so we count. */
static VkResult memory_allocate(struct vk_device *vd, VkDeviceSize size, uint32_t type,
                                VkDeviceMemory *out)
{
    const uint32_t heap = vd->memory.memoryTypes[type].heapIndex;
    /* The last to be moved to the host when memory is short. */
    const VkMemoryPriorityAllocateInfoEXT priority = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_PRIORITY_ALLOCATE_INFO_EXT,
        .priority = 1.0f,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = vd->traits.has_memory_priority ? &priority : NULL,
        .allocationSize = size,
        .memoryTypeIndex = type,
    };
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (atomic_fetch_add(&vd->allocated[heap], size) + size <= vd->memory.memoryHeaps[heap].size)
        r = vd->vk.AllocateMemory(vd->device, &info, NULL, out);
    if (r != VK_SUCCESS)
        atomic_fetch_sub(&vd->allocated[heap], size);
    return r;
}

static void memory_release(struct vk_device *vd, VkDeviceMemory memory, VkDeviceSize size,
                           uint32_t type)
{
    vd->vk.FreeMemory(vd->device, memory, NULL);
    atomic_fetch_sub(&vd->allocated[vd->memory.memoryTypes[type].heapIndex], size);
}

/* First fit; false if no range is free. */
static bool block_take(struct vk_device *vd, struct vk_block *b, VkDeviceSize size,
                       VkDeviceSize align, VkDeviceSize *offset)
{
    VkDeviceSize start = 0;
    size_t i = 0;
    for (; i < b->count; i++) {
        if (start + size <= b->at[i].offset)
            break;
        start = round_up(b->at[i].offset + b->at[i].size, align);
    }
    if (start + size > b->size || !COPSE_RESERVE(&vd->base->mem, b, b->count + 1))
        return false;
    memmove(&b->at[i + 1], &b->at[i], (b->count - i) * sizeof *b->at);
    b->at[i] = (struct vk_range){ start, size };
    b->count++;
    *offset = start;
    return true;
}

static void block_destroy(struct vk_device *vd, struct vk_block *b)
{
    if (!atomic_load(&vd->is_abandoned))
        memory_release(vd, b->memory, b->size, b->type);
    copse__free(&vd->base->mem, b->at);
    copse__free(&vd->base->mem, b);
}

static void block_give(struct vk_device *vd, struct vk_block *b, VkDeviceSize offset)
{
    size_t i = 0;
    while (b->at[i].offset != offset)
        i++;
    memmove(&b->at[i], &b->at[i + 1], (b->count - i - 1) * sizeof *b->at);
    if (--b->count)
        return;
    /* One empty block per type is kept, so that repeated creation and release of a buffer is
       cheap. */
    for (struct vk_block **at = &vd->blocks; *at; at = &(*at)->next)
        if (*at != b && (*at)->type == b->type && (*at)->count == 0) {
            struct vk_block *old = *at;
            *at = old->next;
            block_destroy(vd, old);
            return;
        }
}

/* A range of `size` bytes in a block of memory type `type`, which may be a new block. */
static VkResult sub_allocate(struct vk_device *vd, const VkMemoryRequirements *need, uint32_t type,
                             VkDeviceSize block_bytes, struct vk_buffer *out)
{
    for (struct vk_block *b = vd->blocks; b; b = b->next)
        if (b->type == type && block_take(vd, b, need->size, need->alignment, &out->offset)) {
            out->block = b;
            out->memory = b->memory;
            return VK_SUCCESS;
        }
    struct vk_block *b = copse__alloc(&vd->base->mem, 1, sizeof *b);
    if (!b)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult r = memory_allocate(vd, block_bytes, type, &b->memory);
    if (r != VK_SUCCESS) {
        copse__free(&vd->base->mem, b);
        return r;
    }
    b->size = block_bytes;
    b->type = type;
    if (!block_take(vd, b, need->size, need->alignment, &out->offset)) {
        block_destroy(vd, b);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    b->next = vd->blocks;
    vd->blocks = b;
    out->block = b;
    out->memory = b->memory;
    return VK_SUCCESS;
}

void copse_vk_memory_fini(struct vk_device *vd)
{
    while (vd->blocks) {
        struct vk_block *b = vd->blocks;
        vd->blocks = b->next;
        block_destroy(vd, b);
    }
}

/* ---- buffers ---- */

static VkResult find_memory(struct vk_device *vd, struct vk_buffer *vb)
{
    VkMemoryRequirements need;
    vd->vk.GetBufferMemoryRequirements(vd->device, vb->handle, &need);
    uint32_t types[VK_MAX_MEMORY_TYPES];
    const uint32_t count = buffer_types(vd, need.memoryTypeBits, types);
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (uint32_t i = 0; i < count && r == VK_ERROR_OUT_OF_DEVICE_MEMORY; i++) {
        const VkDeviceSize heap =
            vd->memory.memoryHeaps[vd->memory.memoryTypes[types[i]].heapIndex].size;
        const VkDeviceSize block = COPSE_MIN(BLOCK_BYTES, heap / 8);
        if (need.size <= block / 4) {
            copse__mutex_lock(&vd->memory_lock);
            r = sub_allocate(vd, &need, types[i], block, vb);
            copse__mutex_unlock(&vd->memory_lock);
            if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY)
                return r;
        }
        r = memory_allocate(vd, need.size, types[i], &vb->memory);
        if (r == VK_SUCCESS) {
            vb->own_size = need.size;
            vb->type = types[i];
        }
    }
    return r;
}

static copse_status import_host(struct vk_device *vd, const copse_buffer *buf, struct vk_buffer *vb)
{
    const VkExternalMemoryHandleTypeFlagBits handle =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    VkMemoryHostPointerPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT
    };
    VkMemoryRequirements need;
    vd->vk.GetBufferMemoryRequirements(vd->device, vb->handle, &need);
    VkResult r = vd->vk.GetMemoryHostPointerPropertiesEXT(vd->device, handle, buf->host, &host);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "use this host memory");
    /* Only coherent memory: the application cannot flush memory that it did not map through us. */
    uint32_t type = vd->memory.memoryTypeCount;
    for (uint32_t i = 0; i < vd->memory.memoryTypeCount; i++)
        if ((host.memoryTypeBits & need.memoryTypeBits) >> i & 1 &&
            vd->memory.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) {
            type = i;
            break;
        }
    if (type == vd->memory.memoryTypeCount || need.size > buf->size)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "vulkan: the driver cannot use this host memory as a buffer; make a "
                          "buffer without host memory and copy");
    const VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = handle,
        .pHostPointer = buf->host,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &import,
        .allocationSize = buf->size,
        .memoryTypeIndex = type,
    };
    r = vd->vk.AllocateMemory(vd->device, &info, NULL, &vb->memory);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "import host memory");
    atomic_store(&vd->has_imports, true);
    return COPSE_OK;
}

VkBufferUsageFlags copse_vk_buffer_usage(bool has_texels)
{
    return VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
           VK_BUFFER_USAGE_TRANSFER_DST_BIT |
           (has_texels ? VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT : 0);
}

/* lavapipe compiles a shader again for texel buffers whose size is a power of two. With a few bytes
   more no buffer has such a size, and one compilation serves all launches. */
static VkDeviceSize create_size(const copse_buffer *buf)
{
    const VkDeviceSize size = buf->size;
    const bool is_power = (size & (size - 1)) == 0;
    return is_power && !buf->host && buf->dev->limits->has_fast_texels &&
                   size < buf->dev->limits->max_buffer_bytes
               ? size + 16
               : size;
}

copse_status copse_vk_buffer_init(copse_buffer *buf)
{
    struct vk_device *vd = buf->dev->priv;
    struct vk_buffer *vb = buf->priv;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
    };
    const uint32_t families[] = { vd->traits.family, vd->traits.transfer_family };
    const bool is_shared = vd->traits.has_transfer_lane && families[0] != families[1];
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = buf->host ? &external : NULL,
        .size = create_size(buf),
        .usage = copse_vk_buffer_usage(vd->traits.max_texel_args > 0),
        .sharingMode = is_shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = is_shared ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    VkResult r = vd->vk.CreateBuffer(vd->device, &info, NULL, &vb->handle);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "create a buffer");
    if (buf->host) {
        COPSE_TRY(import_host(vd, buf, vb));
    } else {
        r = find_memory(vd, vb);
        if (r != VK_SUCCESS)
            return copse_fail(copse_vk_status(r),
                              "vulkan: no memory for a buffer of %zu bytes on %s: %s", buf->size,
                              buf->dev->info.name, copse_vk_result_name(r));
    }
    r = vd->vk.BindBufferMemory(vd->device, vb->handle, vb->memory, vb->offset);
    if (r != VK_SUCCESS)
        return copse_vk_fail(r, "bind memory to a buffer");
    return COPSE_OK;
}

void copse_vk_buffer_fini(copse_buffer *buf)
{
    struct vk_device *vd = buf->dev->priv;
    struct vk_buffer *vb = buf->priv;
    if (atomic_load(&vd->is_abandoned))
        return;
    vd->vk.DestroyBuffer(vd->device, vb->handle, NULL);
    if (vb->block) {
        copse__mutex_lock(&vd->memory_lock);
        block_give(vd, vb->block, vb->offset);
        copse__mutex_unlock(&vd->memory_lock);
    } else {
        memory_release(vd, vb->memory, vb->own_size, vb->type);
    }
}
