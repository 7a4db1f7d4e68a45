/* SPDX-License-Identifier: MIT */
/* Cooperative matrices: the shape that a device reports for f16 operands with f32 sums, and the
   form of SPIR-V that drivers take. Kernels use GL_NV_cooperative_matrix, because compilers have it
   since 2019 and GL_KHR_cooperative_matrix since 2023. The instructions are the same, but a type of
   VK_KHR_cooperative_matrix names the operand that it is for, and a load or store takes a layout
   instead of a flag. */
#include "vk_internal.h"

/* ---- what the device reports ---- */

/* Declarations of VK_KHR_cooperative_matrix, which headers before 1.3.255 lack. */
#define TYPE_FEATURES   ((VkStructureType)1000506000)
#define TYPE_PROPERTIES ((VkStructureType)1000506001)
enum { COMPONENT_F16 = 0, COMPONENT_F32 = 1, SCOPE_SUBGROUP = 3 };

struct matrix_properties {
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturates;
    uint32_t scope;
};
typedef VkResult(VKAPI_PTR *matrix_properties_fn)(VkPhysicalDevice, uint32_t *,
                                                  struct matrix_properties *);

/* The kernel's tiles of 64 x 64 sums and strips of 32 terms are whole matrices. */
static bool fits_tiles(const struct matrix_properties *p)
{
    return p->m > 0 && p->n > 0 && p->k > 0 && 64 % p->m == 0 && 64 % p->n == 0 && 32 % p->k == 0 &&
           p->m >= 4 && p->n >= 4 && p->k >= 2;
}

static bool is_wanted(const struct matrix_properties *p)
{
    return p->scope == SCOPE_SUBGROUP && p->a == COMPONENT_F16 && p->b == COMPONENT_F16 &&
           p->c == COMPONENT_F32 && p->result == COMPONENT_F32 && !p->saturates && fits_tiles(p);
}

static bool has_features(struct vk_device *vd, VkPhysicalDevice physical)
{
    struct copse_vk_cooperative_features f;
    copse_vk_cooperative_chain(&f, false);
    VkPhysicalDeviceFeatures2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &f };
    vd->vk.GetPhysicalDeviceFeatures2(physical, &all);
    return f.has_matrices && f.arithmetic.shaderFloat16 && f.memory.vulkanMemoryModel;
}

copse_status copse_vk_cooperative_shape(struct vk_device *vd, VkPhysicalDevice physical,
                                        uint8_t shape[3])
{
    const matrix_properties_fn ask = (matrix_properties_fn)vd->vk.GetInstanceProcAddr(
        vd->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    uint32_t count = 0;
    uint64_t most = 0;
    if (!ask || !has_features(vd, physical) || ask(physical, &count, NULL) != VK_SUCCESS ||
        count == 0)
        return COPSE_OK;
    struct matrix_properties *list = copse__alloc(&vd->base->mem, count, sizeof *list);
    if (!list)
        return copse_fail(COPSE_ERR_NO_MEMORY, "vulkan: no host memory to list shapes of matrices");
    for (uint32_t i = 0; i < count; i++)
        list[i].type = TYPE_PROPERTIES;
    if (ask(physical, &count, list) < 0)
        count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = (uint64_t)list[i].m * list[i].n * list[i].k;
        if (!is_wanted(&list[i]) || size <= most)
            continue;
        most = size;
        shape[0] = (uint8_t)list[i].m;
        shape[1] = (uint8_t)list[i].n;
        shape[2] = (uint8_t)list[i].k;
    }
    copse__free(&vd->base->mem, list);
    return COPSE_OK;
}

void copse_vk_cooperative_chain(struct copse_vk_cooperative_features *f, bool is_enabled)
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
    };
}

bool copse_vk_cooperative_is_enabled(const VkPhysicalDeviceFeatures2 *features)
{
    bool has_matrices = false, has_arithmetic = false, has_memory = false;
    for (const VkBaseInStructure *s = (const void *)features; s; s = s->pNext) {
        const void *x = s;
        if (s->sType == TYPE_FEATURES)
            has_matrices |= ((const struct copse_vk_cooperative_features *)x)->has_matrices != 0;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES)
            has_arithmetic |=
                ((const VkPhysicalDeviceShaderFloat16Int8Features *)x)->shaderFloat16 != 0;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES)
            has_memory |=
                ((const VkPhysicalDeviceVulkanMemoryModelFeatures *)x)->vulkanMemoryModel != 0;
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
            has_arithmetic |= ((const VkPhysicalDeviceVulkan12Features *)x)->shaderFloat16 != 0;
            has_memory |= ((const VkPhysicalDeviceVulkan12Features *)x)->vulkanMemoryModel != 0;
        }
    }
    return has_matrices && has_arithmetic && has_memory;
}

/* ---- SPIR-V ---- */

#define HEADER   5u /* words before the first instruction; the fourth one is the bound of ids */
#define BOUND    3u
#define MOST_IDS (1u << 22)
enum {
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT = 50,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    NV_CAPABILITY = 5357,
    NV_TYPE,
    NV_LOAD,
    NV_STORE,
    NV_MUL_ADD,
    NV_LENGTH,
    KHR_TYPE = 4456,
    KHR_LOAD,
    KHR_STORE,
    KHR_MUL_ADD,
    KHR_LENGTH,
    KHR_CAPABILITY = 6022,
};
enum use { USE_A, USE_B, USE_SUM, USE_NONE };

/* One instruction: words[0] has the count and the code. */
static uint32_t length_of(const uint32_t *words)
{
    return words[0] >> 16;
}

static uint32_t code_of(const uint32_t *words)
{
    return words[0] & 0xffffu;
}

static uint32_t cooperative_head(uint32_t length, uint32_t code)
{
    return length << 16 | code;
}

struct id {
    uint32_t type; /* of a constant or a matrix; 0 = another id */
    uint32_t flag; /* OP_CONSTANT_TRUE or OP_CONSTANT_FALSE */
    bool is_matrix_type;
    uint8_t use; /* of a matrix type: enum use */
};

struct module {
    struct copse_mem *mem;
    const uint32_t *words;
    size_t count;
    struct id *ids;
    uint32_t bound; /* of ids; the last two are new constants */
    uint32_t scope; /* a constant of 32 bits without sign */
    uint32_t types;
    uint32_t *out;
    size_t at;
};

static copse_status cooperative_bad(const char *why)
{
    return copse_fail(COPSE_ERR_COMPILE, "vulkan: cooperative matrices: %s", why);
}

static const uint32_t *next_of(const uint32_t *words)
{
    return words + length_of(words);
}

/* Visits all instructions in order until one fails. */
static copse_status cooperative_visit(struct module *m,
                                      copse_status (*each)(struct module *m, const uint32_t *words))
{
    const uint32_t *end = m->words + m->count;
    for (const uint32_t *w = m->words + HEADER; w < end; w = next_of(w))
        COPSE_TRY(each(m, w));
    return COPSE_OK;
}

static bool is_valid(const struct module *m)
{
    const uint32_t *end = m->words + m->count;
    for (const uint32_t *w = m->words + HEADER; w < end; w = next_of(w)) {
        static const uint8_t least[] = { 2, 6, 6, 5, 6, 4 }; /* from NV_CAPABILITY on */
        const uint32_t code = code_of(w), length = length_of(w);
        const bool is_ours = code > NV_CAPABILITY && code <= NV_LENGTH;
        if (length == 0 || length > (size_t)(end - w) ||
            (is_ours && length < least[code - NV_CAPABILITY]))
            return false;
        for (uint32_t i = 1; is_ours && i < least[code - NV_CAPABILITY]; i++)
            if (w[i] >= m->words[BOUND])
                return false;
        if ((code == OP_CONSTANT || code == OP_SPEC_CONSTANT || code == OP_CONSTANT_TRUE ||
             code == OP_CONSTANT_FALSE) &&
            (length < 3 || w[1] >= m->words[BOUND] || w[2] >= m->words[BOUND]))
            return false;
    }
    return true;
}

/* Types of constants and of matrices. */
static copse_status note_types(struct module *m, const uint32_t *w)
{
    const uint32_t code = code_of(w);
    const bool is_text = code == OP_NAME || code == OP_MEMBER_NAME || code == OP_DECORATE ||
                         code == OP_MEMBER_DECORATE;
    if (code == NV_TYPE) {
        m->ids[w[1]] = (struct id){ .is_matrix_type = true, .use = USE_NONE };
        m->scope = w[3];
        m->types++;
    } else if (code == OP_CONSTANT || code == OP_SPEC_CONSTANT) {
        m->ids[w[2]].type = w[1];
    } else if (code == OP_CONSTANT_TRUE || code == OP_CONSTANT_FALSE) {
        m->ids[w[2]].flag = code;
    } else if (!is_text && length_of(w) > 2 && w[1] < m->bound && w[2] < m->bound &&
               m->ids[w[1]].is_matrix_type) {
        m->ids[w[2]].type = w[1];
    }
    return COPSE_OK;
}

static copse_status set_use(struct module *m, uint32_t type, enum use use)
{
    struct id *t = &m->ids[type];
    if (!t->is_matrix_type)
        return cooperative_bad("an operand of a product has no matrix type");
    if (t->use != USE_NONE && t->use != use)
        return cooperative_bad(
            "two operands of a product have one type; give their shapes different constants");
    t->use = (uint8_t)use;
    return COPSE_OK;
}

static copse_status note_uses(struct module *m, const uint32_t *w)
{
    if (code_of(w) != NV_MUL_ADD)
        return COPSE_OK;
    COPSE_TRY(set_use(m, m->ids[w[3]].type, USE_A));
    COPSE_TRY(set_use(m, m->ids[w[4]].type, USE_B));
    COPSE_TRY(set_use(m, m->ids[w[5]].type, USE_SUM));
    return set_use(m, w[1], USE_SUM);
}

static void cooperative_put(struct module *m, uint32_t word)
{
    m->out[m->at++] = word;
}

static void put_all(struct module *m, const uint32_t *words, uint32_t count)
{
    memcpy(m->out + m->at, words, count * sizeof *words);
    m->at += count;
}

/* The constants 0 and 1, which are the layouts by rows and by columns and the uses A and B, and
   2. */
static uint32_t cooperative_constant(const struct module *m, uint32_t value)
{
    return m->bound + value;
}

static void put_type(struct module *m, const uint32_t *w)
{
    const uint8_t use = m->ids[w[1]].use;
    for (uint32_t i = 0; m->types > 0 && i < 3; i++) { /* once, before the first type */
        const uint32_t words[] = { cooperative_head(4, OP_CONSTANT), m->ids[m->scope].type,
                                   cooperative_constant(m, i), i };
        put_all(m, words, 4);
    }
    m->types = 0;
    cooperative_put(m, cooperative_head(7, KHR_TYPE));
    put_all(m, w + 1, 5);
    cooperative_put(m, cooperative_constant(m, use == USE_NONE ? USE_SUM : use));
}

/* A load or a store: the flag of columns comes after the stride, the layout before it. */
static copse_status put_access(struct module *m, const uint32_t *w, uint32_t code)
{
    const uint32_t first = code == KHR_LOAD ? 4 : 3, flag = m->ids[w[first + 1]].flag;
    if (flag == 0)
        return cooperative_bad("the order of rows and columns is no constant");
    cooperative_put(m, cooperative_head(length_of(w), code));
    put_all(m, w + 1, first - 1);
    cooperative_put(m, cooperative_constant(m, flag == OP_CONSTANT_TRUE));
    cooperative_put(m, w[first]);
    put_all(m, w + first + 2, length_of(w) - first - 2);
    return COPSE_OK;
}

static bool names_extension(const uint32_t *w, const char *name)
{
    return code_of(w) == OP_EXTENSION && (length_of(w) - 1) * sizeof *w > strlen(name) &&
           memcmp(w + 1, name, strlen(name) + 1) == 0;
}

static copse_status put_changed(struct module *m, const uint32_t *w)
{
    static const char khr[28] = "SPV_KHR_cooperative_matrix"; /* whole words */
    const uint32_t code = code_of(w);
    if (names_extension(w, "SPV_NV_cooperative_matrix")) {
        cooperative_put(m, cooperative_head(1 + sizeof khr / sizeof *w, OP_EXTENSION));
        memcpy(m->out + m->at, khr, sizeof khr);
        m->at += sizeof khr / sizeof *w;
    } else if (code == OP_CAPABILITY && w[1] == NV_CAPABILITY) {
        cooperative_put(m, w[0]);
        cooperative_put(m, KHR_CAPABILITY);
    } else if (code == NV_TYPE) {
        put_type(m, w);
    } else if (code == NV_LOAD || code == NV_STORE) {
        return put_access(m, w, code - NV_LOAD + KHR_LOAD);
    } else {
        put_all(m, w, length_of(w));
        if (code == NV_MUL_ADD || code == NV_LENGTH)
            m->out[m->at - length_of(w)] =
                cooperative_head(length_of(w), code - NV_LOAD + KHR_LOAD);
    }
    return COPSE_OK;
}

static copse_status cooperative_convert(struct module *m)
{
    COPSE_TRY(cooperative_visit(m, note_types));
    COPSE_TRY(cooperative_visit(m, note_uses));
    if (m->types == 0 || m->ids[m->scope].type == 0)
        return cooperative_bad("the scope of a matrix is no constant");
    const size_t room = m->count + m->types + 3 * 4 + 1;
    m->out = copse__alloc(m->mem, room, sizeof *m->out);
    if (!m->out)
        return copse_no_memory("vulkan");
    put_all(m, m->words, HEADER);
    m->out[BOUND] = m->bound + 3;
    return cooperative_visit(m, put_changed);
}

static bool has_capability(const uint32_t *words, size_t count)
{
    for (size_t i = HEADER;
         i + 1 < count && code_of(words + i) == OP_CAPABILITY && length_of(words + i) == 2; i += 2)
        if (words[i + 1] == NV_CAPABILITY)
            return true;
    return false;
}

copse_status copse_vk_cooperative_code(struct copse_mem *mem, const uint32_t *words, size_t bytes,
                                       uint32_t **out, size_t *out_bytes)
{
    struct module m = { .mem = mem, .words = words, .count = bytes / sizeof *words };
    *out = NULL;
    if (m.count < HEADER || !has_capability(words, m.count))
        return COPSE_OK;
    m.bound = words[BOUND];
    if (m.bound > MOST_IDS || !is_valid(&m))
        return cooperative_bad("this is no valid SPIR-V");
    m.ids = copse__alloc(mem, m.bound, sizeof *m.ids);
    if (!m.ids)
        return copse_no_memory("vulkan");
    const copse_status s = cooperative_convert(&m);
    copse__free(mem, m.ids);
    if (s != COPSE_OK) {
        copse__free(mem, m.out);
        return s;
    }
    *out = m.out;
    *out_bytes = m.at * sizeof *m.out;
    return COPSE_OK;
}
