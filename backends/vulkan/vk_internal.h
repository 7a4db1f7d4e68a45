/* SPDX-License-Identifier: MIT */
/* Shared by the files of the Vulkan backend: entry points loaded at run time and the private tails
   of core's handles. Only this folder includes it. */
#ifndef COPSE_VK_INTERNAL_H
#define COPSE_VK_INTERNAL_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "copse/device/choice.h"
#include "copse/device/queue.h"

#include "core/base/deadline.h"
#include "core/device/backend.h"

extern const struct copse_backend copse_backend_vulkan;

/* facts.c */
copse_status copse_vk_facts(uint32_t index, struct copse_fact_sink *to);

/* ---- entry points ---- */

#define COPSE_VK_GLOBAL_MAP(X)  \
    X(CreateInstance)           \
    X(EnumerateInstanceVersion) \
    X(EnumerateInstanceExtensionProperties)

#define COPSE_VK_INSTANCE_MAP(X)                 \
    X(DestroyInstance)                           \
    X(EnumeratePhysicalDevices)                  \
    X(EnumerateDeviceExtensionProperties)        \
    X(GetPhysicalDeviceProperties)               \
    X(GetPhysicalDeviceProperties2)              \
    X(GetPhysicalDeviceFeatures2)                \
    X(GetPhysicalDeviceMemoryProperties2)        \
    X(GetPhysicalDeviceQueueFamilyProperties)    \
    X(GetPhysicalDeviceFormatProperties)         \
    X(GetPhysicalDeviceExternalBufferProperties) \
    X(CreateDevice)                              \
    X(GetDeviceProcAddr)

#define COPSE_VK_DEVICE_MAP(X)      \
    X(DestroyDevice)                \
    X(GetDeviceQueue)               \
    X(QueueSubmit)                  \
    X(CreateBuffer)                 \
    X(DestroyBuffer)                \
    X(GetBufferMemoryRequirements)  \
    X(AllocateMemory)               \
    X(FreeMemory)                   \
    X(BindBufferMemory)             \
    X(MapMemory)                    \
    X(FlushMappedMemoryRanges)      \
    X(InvalidateMappedMemoryRanges) \
    X(CreateBufferView)             \
    X(DestroyBufferView)            \
    X(CreateShaderModule)           \
    X(DestroyShaderModule)          \
    X(CreateDescriptorSetLayout)    \
    X(DestroyDescriptorSetLayout)   \
    X(CreatePipelineLayout)         \
    X(DestroyPipelineLayout)        \
    X(CreatePipelineCache)          \
    X(DestroyPipelineCache)         \
    X(GetPipelineCacheData)         \
    X(CreateComputePipelines)       \
    X(DestroyPipeline)              \
    X(CreateDescriptorPool)         \
    X(DestroyDescriptorPool)        \
    X(ResetDescriptorPool)          \
    X(AllocateDescriptorSets)       \
    X(UpdateDescriptorSets)         \
    X(CreateCommandPool)            \
    X(DestroyCommandPool)           \
    X(ResetCommandPool)             \
    X(AllocateCommandBuffers)       \
    X(BeginCommandBuffer)           \
    X(EndCommandBuffer)             \
    X(CmdBindPipeline)              \
    X(CmdBindDescriptorSets)        \
    X(CmdPushConstants)             \
    X(CmdDispatch)                  \
    X(CmdCopyBuffer)                \
    X(CmdFillBuffer)                \
    X(CmdPipelineBarrier)           \
    X(CreateSemaphore)              \
    X(DestroySemaphore)             \
    X(CreateFence)                  \
    X(DestroyFence)                 \
    X(ResetFences)                  \
    X(CreateQueryPool)              \
    X(DestroyQueryPool)             \
    X(CmdResetQueryPool)            \
    X(CmdWriteTimestamp)            \
    X(GetQueryPoolResults)          \
    X(WaitForFences)

struct vk_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define COPSE_VK_FIELD(name) PFN_vk##name name;
    COPSE_VK_GLOBAL_MAP(COPSE_VK_FIELD)
    COPSE_VK_INSTANCE_MAP(COPSE_VK_FIELD)
    COPSE_VK_DEVICE_MAP(COPSE_VK_FIELD)
#undef COPSE_VK_FIELD
    PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT; /* with import */
};

/* ---- device ---- */

/* Cooperative matrices (matrix_units.c). */
struct copse_vk_matrices {
    uint8_t shape[3];   /* as in copse_limits */
    uint8_t units;      /* as in copse_limits */
    uint8_t subgroup;   /* invocations in a subgroup that multiplies */
    bool sets_subgroup; /* the size has to be set, and can be */
};

/* The properties of a physical device that this backend uses. */
struct vk_traits {
    uint32_t version; /* of the API, at most the version that we support */
    uint32_t family;  /* queue family */
    bool has_transfer_lane;
    uint32_t transfer_family; /* of that lane: another one, or the second queue of `family` */
    uint32_t driver;          /* driver version, vendor's own encoding */
    uint32_t vendor, device;
    uint8_t cache_uuid[VK_UUID_SIZE];
    VkDeviceSize atom;             /* nonCoherentAtomSize */
    VkDeviceSize import_alignment; /* 0 = host memory cannot be imported */
    uint32_t max_texel_args;       /* texel buffers per kernel, 0 = none */
    /* what kernels may ask for: bits of enum copse_vk_float_mode (portable.c) */
    uint8_t float_modes;
    bool has_budget, has_memory_priority, has_portability_subset, has_f64, has_f16_storage;
    /* the extension of priorities among processes, NULL = none */
    const char *global_priority;
    bool has_occupancy; /* VK_NV_compute_occupancy_priority */
    struct copse_vk_matrices matrices;
};

/* A block of device memory that several buffers share. */
struct vk_block {
    VkDeviceMemory memory;
    VkDeviceSize size;
    uint32_t type;
    struct vk_range {
        VkDeviceSize offset, size;
    } *at; /* used ranges, by ascending offset */
    size_t count, room;
    struct vk_block *next;
};

/* A VkQueue (lane.c). */
struct vk_lane {
    VkQueue queue;
    uint32_t family;
    VkPipelineStageFlags stages; /* of its commands */
    VkAccessFlags writes, reads;
    VkSemaphore done; /* counts its submissions; VK_NULL_HANDLE: there is one lane only */
    uint64_t value;   /* of the newest one; guarded by the guard */
};

struct vk_device {
    struct copse_base *base;
    struct vk_api vk;
    void *library;
    uint32_t version;     /* of the loader */
    uint32_t api_version; /* used to create the instance */
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    struct vk_lane lanes[2];         /* computes; moves data, if traits.has_transfer_lane */
    bool owns_instance, owns_device; /* false for an application's */
    /* the loader failed to make an instance although there is a driver */
    bool is_refused;
    struct vk_traits traits;
    PFN_vkVoidFunction set_occupancy; /* in each command buffer, with `occupancy`; NULL = none */
    float occupancy;
    VkPhysicalDeviceMemoryProperties memory;
    copse_mutex memory_lock;        /* guards blocks */
    copse_mutex queue_lock;         /* one submission at a time */
    struct copse_queue_guard guard; /* locks it, or the application's lock */
    bool has_locks;
    struct vk_block *blocks;
    atomic_ullong allocated[VK_MAX_MEMORY_HEAPS]; /* by us, for buffers */
    atomic_bool has_imports; /* some buffer is host memory: submissions end visible to the host */
    /* work did not end in time: no object of the device may be destroyed */
    atomic_bool is_abandoned;
};

/* Load the library and create an instance; on failure write the reason and return false.
   copse_vk_instance_close may be called after a failed open. */
bool copse_vk_instance_open(struct vk_device *vd, char *why, size_t room);
void copse_vk_instance_close(struct vk_device *vd);
/* All physical devices in the driver's order; the caller frees the array. */
VkResult copse_vk_physical_devices(struct vk_device *vd, VkPhysicalDevice **list, uint32_t *count);
/* Fill the instance-level entry points; NULL or the name of the first missing one. */
const char *copse_vk_instance_entries(struct vk_device *vd);
/* Fill the device-level entry points; NULL or the name of the first missing one. */
const char *copse_vk_device_entries(struct vk_device *vd);

/* Set *info and *traits, including the reason; fails only without host memory. */
copse_status copse_vk_describe(struct vk_device *vd, VkPhysicalDevice physical,
                               struct copse_device_info *info, struct vk_traits *traits);

/* import.c. Sets vd to an application's device; creates no objects. */
copse_status copse_vk_attach(struct vk_device *vd, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info);
copse_status copse_vk_import(struct copse_base *base, const struct copse_foreign_device *foreign,
                             struct copse_device_info *info);
copse_status copse_vk_lend(copse_queue *q, const struct copse_queue_guard *guard,
                           copse_device **out);

const char *copse_vk_result_name(VkResult r);
copse_status copse_vk_status(VkResult r);
/* Failure of a Vulkan call: `what` is a string literal, "create a fence". */
#define copse_vk_fail(r, what) \
    copse_fail(copse_vk_status(r), "vulkan: cannot " what ": %s", copse_vk_result_name(r))

/* ---- memory.c ---- */

struct vk_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    struct vk_block *block; /* NULL: the buffer has its own allocation */
    VkDeviceSize offset;    /* in the block */
    VkDeviceSize own_size;  /* of its own allocation, imported memory not counted */
    uint32_t type;
};

copse_status copse_vk_memory(copse_device *dev, struct copse_device_memory *out);
void copse_vk_memory_fini(struct vk_device *vd);
copse_status copse_vk_buffer_init(copse_buffer *buf);
void copse_vk_buffer_fini(copse_buffer *buf);
VkBufferUsageFlags copse_vk_buffer_usage(bool has_texels); /* of every buffer of core */
/* Index of the heap that buffers come from. */
uint32_t copse_vk_main_heap(const VkPhysicalDeviceMemoryProperties *memory);

/* ---- kernel.c ---- */

struct vk_kernel {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t storage_count, texel_count; /* descriptors by type */
};

copse_status copse_vk_kernel_init(struct copse_kernel *k);
void copse_vk_kernel_fini(struct copse_kernel *k);
bool copse_vk_is_stored(const struct copse_kernel *k);

/* ---- matrix_units.c, cooperative.c ---- */

#define COPSE_VK_COOPERATIVE_MATRIX "VK_KHR_cooperative_matrix"
#define COPSE_VK_BFLOAT             "VK_KHR_shader_bfloat16"

/* What is known of a device that lists VK_KHR_cooperative_matrix. The first row are inputs of
   copse_vk_matrices_describe, which asks for the others. */
struct copse_vk_matrix_facts {
    uint32_t vendor, subgroup;           /* the default size */
    bool has_sizes, has_dot, has_bfloat; /* what may be asked for, by version or extension */
    uint32_t min_subgroup, max_subgroup;
    bool can_set_subgroup, has_mixed_dot;
};
/* The largest shape of f16 operands and f32 sums that the device reports and the kernel can take, and
   how it is used; left alone if there is none. Fails only without host memory. */
copse_status copse_vk_matrices_describe(struct vk_device *vd, VkPhysicalDevice physical,
                                        struct copse_vk_matrix_facts *f,
                                        struct copse_vk_matrices *m);
/* With shape and units of the types set: the size of subgroups, and whether the units are preferred,
   or cannot be used. */
void copse_vk_matrix_judge(const struct copse_vk_matrix_facts *f, struct copse_vk_matrices *m);

/* The features that kernels with cooperative matrices need: a chain for VkPhysicalDeviceFeatures2.
   The first four members are VkPhysicalDeviceCooperativeMatrixFeaturesKHR, and `bfloat` is
   VkPhysicalDeviceShaderBfloat16FeaturesKHR, which older headers lack. */
struct copse_vk_cooperative_features {
    VkStructureType type;
    void *next;
    VkBool32 has_matrices, has_robust_access;
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory;
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes; /* in the chain if m->sets_subgroup */
    struct copse_vk_bfloat_features {
        VkStructureType type;
        void *next;
        VkBool32 has_type, has_dot, has_matrices;
    } bfloat; /* in the chain with units of bf16 */
};
void copse_vk_cooperative_chain(struct copse_vk_cooperative_features *f,
                                const struct copse_vk_matrices *m, bool is_enabled);
/* The extensions of a device with these traits, at most COPSE_VK_MATRIX_EXTENSIONS; returns their
   number. */
#define COPSE_VK_MATRIX_EXTENSIONS 3
uint32_t copse_vk_matrix_extensions(const struct vk_traits *t, const char **names);
/* What an application enabled; NULL = nothing. */
void copse_vk_matrices_enabled(const VkPhysicalDeviceFeatures2 *features, bool lists_matrices,
                               bool lists_bfloat, struct copse_vk_matrices *out);
/* Leave what is enabled; `subgroup` is the default size. */
void copse_vk_matrices_keep(const struct copse_vk_matrices *enabled, uint32_t subgroup,
                            struct copse_vk_matrices *m);

/* SPIR-V with the instructions of SPV_NV_cooperative_matrix as SPIR-V with those of
   SPV_KHR_cooperative_matrix; with bf16 where it has f16 if is_bfloat; the caller frees *out. NULL:
   the module has no such instructions.
   COPSE_ERR_COMPILE: it cannot be converted. */
copse_status copse_vk_cooperative_code(struct copse_mem *mem, const uint32_t *words, size_t bytes,
                                       bool is_bfloat, uint32_t **out, size_t *out_bytes);

/* portable.c */
enum copse_vk_float_mode {
    COPSE_VK_KEEPS_DENORMALS = 1,
    COPSE_VK_KEEPS_ZEROS = 2, /* their signs, infinities and NaN */
    COPSE_VK_ROUNDS_TO_EVEN = 4,
};
/* The same code with portable bits, in these modes; freed with copse__free. */
copse_status copse_vk_portable_code(struct copse_mem *mem, const uint32_t *words, size_t bytes,
                                    uint8_t modes, uint32_t **out, size_t *out_bytes);

/* ---- priority.c ---- */

/* The extension that older headers have as VK_EXT_global_priority, with the same values. */
#define COPSE_VK_GLOBAL_PRIORITY "VK_KHR_global_priority"
#define COPSE_VK_OCCUPANCY       "VK_NV_compute_occupancy_priority"
/* VkPhysicalDeviceComputeOccupancyPriorityFeaturesNV, which older headers lack. */
struct copse_vk_occupancy_features {
    VkStructureType type;
    void *next;
    VkBool32 has_priority;
};
void copse_vk_occupancy_chain(struct copse_vk_occupancy_features *f, void *next, bool is_enabled);
/* Whether the device asks for a global priority, and for one of occupancy. */
bool copse_vk_wants_global_priority(const copse_device *dev);
bool copse_vk_wants_occupancy(const copse_device *dev);
VkQueueGlobalPriorityEXT copse_vk_global_priority(copse_priority priority);
/* The device was not made with what is wanted. Want less: at first no global priority, then no
   occupancy. False: nothing more can be left out. */
bool copse_vk_priority_refused(copse_device *dev, VkResult r);
/* The device was made with what it wants. */
void copse_vk_priority_given(copse_device *dev);
/* At the begin of a command buffer. */
void copse_vk_priority_record(const struct vk_device *vd, VkCommandBuffer commands);

/* ---- record.c ---- */

/* Descriptor pools, used one after the other and reset together. */
struct vk_sets {
    struct vk_pool {
        VkDescriptorPool handle;
        uint32_t sets, storage, texels;                /* capacities */
        uint32_t sets_left, storage_left, texels_left; /* since the last reset */
    } *at;
    size_t count, room, current;
};
copse_status copse_vk_sets_add(struct vk_device *vd, struct vk_sets *s, uint32_t sets,
                               uint32_t storage, uint32_t texels);
copse_status copse_vk_sets_reset(struct vk_device *vd, struct vk_sets *s);
void copse_vk_sets_fini(struct vk_device *vd, struct vk_sets *s);

struct vk_views {
    VkBufferView *at;
    size_t count, room;
};
void copse_vk_views_reset(struct vk_device *vd, struct vk_views *v);
void copse_vk_views_fini(struct vk_device *vd, struct vk_views *v);

/* The bytes that a command accesses. */
struct vk_access {
    VkBuffer buffer;
    VkDeviceSize begin, end;
    bool is_write;
};

/* A command buffer being recorded, with the accesses since its last barrier. */
struct vk_recorder {
    struct vk_device *vd;
    const struct vk_lane *lane;
    VkCommandBuffer commands;
    struct vk_sets *sets;
    struct vk_views *views;
    VkPipeline bound;
    struct vk_access seen[64];
    uint32_t seen_count;
};
/* Begin, with a barrier after all earlier submissions. */
copse_status copse_vk_record_begin(struct vk_recorder *r, VkCommandBufferUsageFlags usage);
/* Insert a barrier if one of `list` conflicts with an access since the last one. */
void copse_vk_record_order(struct vk_recorder *r, const struct vk_access *list, uint32_t count);
copse_status copse_vk_record(struct vk_recorder *r, const struct copse_command *c);
struct vk_access copse_vk_access(const struct copse_binding *b, bool is_write);

/* ---- queue.c, staging.c ---- */

#define VK_FAMILIES   16 /* queue families that are looked at */
#define VK_FRAMES     16 /* submissions in flight */
#define VK_MARKS      64 /* tickets whose submissions are known */
#define VK_RING_BYTES (16u << 20)
/* one transfer; smaller than the ring so that host and device overlap */
#define VK_PIECE_BYTES (VK_RING_BYTES / 4)

/* One submission: its objects and the work to do when it has completed. */
struct vk_frame {
    bool is_busy; /* open or in flight */
    VkCommandPool pool;
    VkFence fence;
    struct {
        VkCommandBuffer *at;
        size_t count, room;
    } own, list; /* allocated from the pool; to submit, including segments */
    size_t own_used;
    struct vk_sets sets;
    struct vk_views views;
    struct {
        struct vk_landing {
            void *dst;
            VkDeviceSize offset; /* in the ring */
            size_t size;
        } *at;
        size_t count, room;
    } reads;
    uint64_t ticket;      /* reached when this frame completes; 0 = none */
    uint64_t staging_end; /* ring position that is then free */
};

struct vk_queue {
    struct vk_lane *lane;
    /* Numbers of submissions: `newest_value` is the queue's newest one in its lane, `values` has the ones of
       its newest tickets (both guarded by the guard). The next submission waits for `wait_value` in the
       other lane; 0: for none. */
    uint64_t newest_value, newest_ticket, values[VK_MARKS], wait_value;
    struct vk_frame frames[VK_FRAMES];
    struct vk_frame *flying[VK_FRAMES]; /* ring of those in flight, oldest first */
    uint32_t first, in_flight;
    struct vk_frame *open; /* being filled, or NULL */
    bool is_recording;     /* its newest command buffer is open for commands */
    bool has_reads;        /* in that command buffer */
    struct vk_recorder recorder;
    uint64_t reached; /* newest ticket */
    struct {
        VkBuffer buffer;
        VkDeviceMemory memory;
        uint8_t *map;
        VkDeviceSize align;
        bool is_coherent;
        uint64_t head, tail; /* total bytes allocated and freed */
    } ring;
    /* stamp.c */
    struct vk_stamps {
        VkQueryPool pool; /* VK_NULL_HANDLE: no stamp was made */
        double period;    /* ns of a tick */
        uint64_t mask;    /* of the bits that count */
        uint64_t newest, ticks;
        bool is_read; /* the two are of a stamp */
    } stamps;
};

copse_status copse_vk_queue_init(copse_queue *q);
void copse_vk_queue_fini(copse_queue *q);
copse_status copse_vk_encode(copse_queue *q, const struct copse_command *c);
copse_status copse_vk_replay(struct copse_segment *seg);
copse_status copse_vk_submit(copse_queue *q, uint64_t *ticket);
copse_status copse_vk_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns);
copse_status copse_vk_settle(copse_queue *q, uint64_t timeout_ns);
copse_status copse_vk_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket);

/* lane.c */
void copse_vk_lane_find(struct vk_device *vd, VkPhysicalDevice physical, struct vk_traits *t);
/* Set what its barriers order. */
void copse_vk_lane_uses(struct vk_lane *lane, bool has_kernels);
/* `lent`: the application's queue, or NULL. */
copse_status copse_vk_lanes_init(struct vk_device *vd, VkQueue lent);
void copse_vk_lanes_fini(struct vk_device *vd);
VkResult copse_vk_lane_submit(struct vk_device *vd, struct vk_queue *vq, const struct vk_frame *f);
/* The ticket is reached when all submissions so far are complete. */
void copse_vk_lane_mark(struct vk_device *vd, struct vk_queue *vq, uint64_t ticket);
/* The next submission of the queue runs after the other queue's ticket. */
void copse_vk_lane_wait(struct vk_device *vd, struct vk_queue *vq, const struct vk_queue *other,
                        uint64_t ticket);

/* stamp.c */
copse_status copse_vk_stamp(copse_queue *q, uint32_t slot);
copse_status copse_vk_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns);

/* The recorder of the open command buffer; opens one if necessary. */
copse_status copse_vk_queue_recorder(copse_queue *q, struct vk_recorder **out);
/* Submit the recorded commands without a ticket. */
copse_status copse_vk_flush(copse_queue *q);
/* Wait for the oldest frame in flight and reclaim it. */
copse_status copse_vk_retire(copse_queue *q, struct copse_deadline *d);

copse_status copse_vk_staging_init(copse_queue *q);
void copse_vk_staging_fini(copse_queue *q);
copse_status copse_vk_write(copse_queue *q, const struct copse_binding *dst, const void *src);
copse_status copse_vk_read(copse_queue *q, const struct copse_binding *src, void *dst);
/* Copy the results of the frame's reads to their destinations. */
copse_status copse_vk_staging_land(copse_queue *q, struct vk_frame *f);

/* ---- segment.c ---- */

struct vk_segment {
    VkCommandPool pool;
    VkCommandBuffer commands;
    struct vk_sets sets;
    struct vk_views views;
};
copse_status copse_vk_segment_init(struct copse_segment *seg);
void copse_vk_segment_fini(struct copse_segment *seg);

#endif
