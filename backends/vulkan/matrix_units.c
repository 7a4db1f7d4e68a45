/* SPDX-License-Identifier: MIT */
/* Matrix units: the shape of matrices that a device reports for operands of 16 bits with f32 sums, the
   size of subgroups that its units work with, and where they are known to be fast. */
#include "vk_internal.h"

/* Declarations of VK_KHR_cooperative_matrix, which headers before 1.3.255 lack, and of
   VK_KHR_shader_bfloat16. */
#define TYPE_FEATURES        ((VkStructureType)1000506000)
#define TYPE_PROPERTIES      ((VkStructureType)1000506001)
#define TYPE_BFLOAT_FEATURES ((VkStructureType)1000141000)
enum { COMPONENT_F16 = 0, COMPONENT_F32 = 1, COMPONENT_BF16 = 1000141000, SCOPE_SUBGROUP = 3 };

struct matrix_properties {
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturates;
    uint32_t scope;
};
typedef VkResult(VKAPI_PTR *matrix_properties_fn)(VkPhysicalDevice, uint32_t *,
                                                  struct matrix_properties *);

/* ---- architectures ---- */

enum vendor { ANY_VENDOR = 0, AMD = 0x1002, NVIDIA = 0x10de, INTEL = 0x8086 };

/* The first row that a device fits. docs/half-precision.md, "Where matrix units are known to be fast",
   has the source of each row. */
static const struct architecture {
    uint32_t vendor;
    uint32_t min_subgroup, max_subgroup; /* 0 = any */
    bool has_mixed_dot;                  /* products of i8 and u8 in hardware */
    uint32_t subgroup;                   /* that the units work with; 0 = the default */
    bool is_preferred;
} architectures[] = {
    { NVIDIA, 0, 0, false, 32, true }, /* Turing and later */
    { AMD, 32, 64, true, 64, true },   /* RDNA3 and later */
    { AMD, 0, 0, false, 0, false },    /* earlier: the proprietary driver lists them, too */
    { INTEL, 16, 0, false, 16, true }, /* Xe2 and later */
    { INTEL, 8, 0, false, 8, false },  /* Xe: up to a thousand times slower in single cases */
    { ANY_VENDOR, 0, 0, false, 0, false },
};

static bool fits_architecture(const struct architecture *a, const struct copse_vk_matrix_facts *f)
{
    return (a->vendor == ANY_VENDOR || a->vendor == f->vendor) &&
           (a->min_subgroup == 0 || a->min_subgroup == f->min_subgroup) &&
           (a->max_subgroup == 0 || a->max_subgroup == f->max_subgroup) &&
           (!a->has_mixed_dot || f->has_mixed_dot);
}

/* A group of matmul_cooperative has 128 invocations at least, and stages a matrix for each
   subgroup, or for each matrix of the tile, if these are fewer, in 5120 words. */
static bool can_stage(const struct copse_vk_matrices *m)
{
    enum { GROUP = 256, WORDS = 5120, TILE = 128 };
    const uint32_t matrix = (uint32_t)m->shape[0] * m->shape[1],
                   count = COPSE_MIN(GROUP / m->subgroup, TILE * TILE / matrix);
    return count * matrix <= WORDS;
}

void copse_vk_matrix_judge(const struct copse_vk_matrix_facts *f, struct copse_vk_matrices *m)
{
    const struct architecture *a = architectures;
    while (!fits_architecture(a, f))
        a++;
    const uint32_t size = a->subgroup ? a->subgroup : f->subgroup;
    const bool is_size = size >= 4 && size <= 128 && (size & (size - 1)) == 0;
    m->subgroup = is_size ? (uint8_t)size : 0;
    m->sets_subgroup = f->can_set_subgroup && size >= f->min_subgroup && size <= f->max_subgroup;
    if (!is_size || !m->shape[0] || (!m->sets_subgroup && size != f->subgroup) || !can_stage(m))
        m->units = 0;
    else if (m->units && a->is_preferred)
        m->units |= COPSE_MATRIX_PREFERRED;
}

/* ---- what the device reports ---- */

static bool is_size_of(uint32_t size, uint32_t whole)
{
    return size >= 8 && whole % size == 0;
}

/* The kernel's tiles of 64 x 64 sums and strips of 32 terms are whole matrices, whose rows are whole
   eights. */
static bool fits_tiles(const struct matrix_properties *p)
{
    return is_size_of(p->m, 64) && is_size_of(p->n, 64) && is_size_of(p->k, 32);
}

static bool is_wanted(const struct matrix_properties *p, uint32_t component)
{
    return p->scope == SCOPE_SUBGROUP && p->a == component && p->b == component &&
           p->c == COMPONENT_F32 && p->result == COMPONENT_F32 && !p->saturates && fits_tiles(p);
}

/* The largest shape of f16; bf16 if it is listed, too. */
static void take_shapes(const struct matrix_properties *list, uint32_t count, bool has_bfloat,
                        struct copse_vk_matrices *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = (uint64_t)list[i].m * list[i].n * list[i].k;
        if (!is_wanted(&list[i], COMPONENT_F16) || size <= most)
            continue;
        most = size;
        m->shape[0] = (uint8_t)list[i].m;
        m->shape[1] = (uint8_t)list[i].n;
        m->shape[2] = (uint8_t)list[i].k;
        m->units = COPSE_MATRIX_F16;
    }
    for (uint32_t i = 0; i < count && has_bfloat; i++)
        if (is_wanted(&list[i], COMPONENT_BF16) && list[i].m == m->shape[0] &&
            list[i].n == m->shape[1] && list[i].k == m->shape[2])
            m->units |= COPSE_MATRIX_BF16;
}

static void ask_size(struct vk_device *vd, VkPhysicalDevice physical,
                     const struct copse_vk_cooperative_features *has,
                     struct copse_vk_matrix_facts *f)
{
    VkPhysicalDeviceSubgroupSizeControlProperties size = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES
    };
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES
    };
    VkPhysicalDeviceProperties2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
    if (f->has_sizes)
        all.pNext = &size;
    if (f->has_dot) {
        dot.pNext = all.pNext;
        all.pNext = &dot;
    }
    vd->vk.GetPhysicalDeviceProperties2(physical, &all);
    f->min_subgroup = f->has_sizes ? size.minSubgroupSize : f->subgroup;
    f->max_subgroup = f->has_sizes ? size.maxSubgroupSize : f->subgroup;
    f->can_set_subgroup = f->has_sizes && has->sizes.subgroupSizeControl &&
                          has->sizes.computeFullSubgroups &&
                          (size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    f->has_mixed_dot = dot.integerDotProduct4x8BitPackedMixedSignednessAccelerated;
}

copse_status copse_vk_matrices_describe(struct vk_device *vd, VkPhysicalDevice physical,
                                        struct copse_vk_matrix_facts *f,
                                        struct copse_vk_matrices *m)
{
    const matrix_properties_fn ask = (matrix_properties_fn)vd->vk.GetInstanceProcAddr(
        vd->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    struct copse_vk_cooperative_features has;
    uint32_t count = 0;
    copse_vk_cooperative_chain(
        &has,
        &(struct copse_vk_matrices){ .units = f->has_bfloat ? COPSE_MATRIX_BF16 : 0,
                                     .sets_subgroup = f->has_sizes },
        false);
    VkPhysicalDeviceFeatures2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &has };
    vd->vk.GetPhysicalDeviceFeatures2(physical, &all);
    if (!ask || !has.has_matrices || !has.arithmetic.shaderFloat16 ||
        !has.memory.vulkanMemoryModel || ask(physical, &count, NULL) != VK_SUCCESS || count == 0)
        return COPSE_OK;
    struct matrix_properties *list = copse__alloc(&vd->base->mem, count, sizeof *list);
    if (!list)
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory to list shapes of matrices");
    for (uint32_t i = 0; i < count; i++)
        list[i].type = TYPE_PROPERTIES;
    if (ask(physical, &count, list) < 0)
        count = 0;
    take_shapes(list, count, f->has_bfloat && has.bfloat.has_type && has.bfloat.has_matrices, m);
    copse__free(&vd->base->mem, list);
    ask_size(vd, physical, &has, f);
    copse_vk_matrix_judge(f, m);
    return COPSE_OK;
}

/* ---- features ---- */

void copse_vk_cooperative_chain(struct copse_vk_cooperative_features *f,
                                const struct copse_vk_matrices *m, bool is_enabled)
{
    *f = (struct copse_vk_cooperative_features){
        .type = TYPE_FEATURES,
        .next = &f->arithmetic,
        .has_matrices = is_enabled,
        .arithmetic = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                        .pNext = &f->memory,
                        .shaderFloat16 = is_enabled },
        .memory = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                    .vulkanMemoryModel = is_enabled },
        .sizes = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                   .subgroupSizeControl = is_enabled,
                   .computeFullSubgroups = is_enabled },
        .bfloat = { .type = TYPE_BFLOAT_FEATURES,
                    .has_type = is_enabled,
                    .has_matrices = is_enabled },
    };
    if (m->sets_subgroup)
        f->memory.pNext = &f->sizes;
    f->bfloat.next = f->memory.pNext;
    if (m->units & COPSE_MATRIX_BF16)
        f->memory.pNext = &f->bfloat;
}

uint32_t copse_vk_matrix_extensions(const struct vk_traits *t, const char **names)
{
    uint32_t count = 0;
    if (!t->matrices.units)
        return 0;
    names[count++] = COPSE_VK_COOPERATIVE_MATRIX;
    if (t->matrices.sets_subgroup && t->version < VK_API_VERSION_1_3)
        names[count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (t->matrices.units & COPSE_MATRIX_BF16)
        names[count++] = COPSE_VK_BFLOAT;
    return count;
}

struct enabled {
    bool has_matrices, has_arithmetic, has_memory, has_sizes, has_bfloat;
};

static struct enabled enabled_of(const VkPhysicalDeviceFeatures2 *features)
{
    struct enabled e = { false };
    for (const VkBaseInStructure *s = (const void *)features; s; s = s->pNext) {
        const void *x = s;
        if (s->sType == TYPE_FEATURES)
            e.has_matrices |= ((const struct copse_vk_cooperative_features *)x)->has_matrices != 0;
        if (s->sType == TYPE_BFLOAT_FEATURES) {
            const struct copse_vk_bfloat_features *b = x;
            e.has_bfloat |= b->has_type && b->has_matrices;
        }
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES)
            e.has_arithmetic |=
                ((const VkPhysicalDeviceShaderFloat16Int8Features *)x)->shaderFloat16 != 0;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES)
            e.has_memory |=
                ((const VkPhysicalDeviceVulkanMemoryModelFeatures *)x)->vulkanMemoryModel != 0;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            const VkPhysicalDeviceSubgroupSizeControlFeatures *z = x;
            e.has_sizes |= z->subgroupSizeControl && z->computeFullSubgroups;
        }
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
            e.has_arithmetic |= ((const VkPhysicalDeviceVulkan12Features *)x)->shaderFloat16 != 0;
            e.has_memory |= ((const VkPhysicalDeviceVulkan12Features *)x)->vulkanMemoryModel != 0;
        }
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) {
            const VkPhysicalDeviceVulkan13Features *z = x;
            e.has_sizes |= z->subgroupSizeControl && z->computeFullSubgroups;
        }
    }
    return e;
}

void copse_vk_matrices_enabled(const VkPhysicalDeviceFeatures2 *features, bool lists_matrices,
                               bool lists_bfloat, struct copse_vk_matrices *out)
{
    const struct enabled e = enabled_of(features);
    *out = (struct copse_vk_matrices){ .sets_subgroup = e.has_sizes };
    if (lists_matrices && e.has_matrices && e.has_arithmetic && e.has_memory)
        out->units = (uint8_t)(COPSE_MATRIX_PREFERRED | COPSE_MATRIX_F16 |
                               (lists_bfloat && e.has_bfloat ? COPSE_MATRIX_BF16 : 0));
}

void copse_vk_matrices_keep(const struct copse_vk_matrices *enabled, uint32_t subgroup,
                            struct copse_vk_matrices *m)
{
    m->units &= enabled->units;
    m->sets_subgroup = m->sets_subgroup && enabled->sets_subgroup;
    if (!m->sets_subgroup && m->subgroup != subgroup)
        m->units = 0;
    if (!enabled->units)
        memset(m->shape, 0, sizeof m->shape);
}
