/* SPDX-License-Identifier: MIT */
/* SPIR-V with the instructions of SPV_NV_cooperative_matrix becomes SPIR-V with those of
   SPV_KHR_cooperative_matrix: types get their use, loads and stores a layout, the rest stays, and f16
   becomes bf16 where that is asked for. Modules that cannot be converted are refused. What is made of
   a device: the size of its subgroups, and whether its units are used. */
#include "tests/rig/rig.h"

#if defined(COPSE_HAVE_VULKAN)
#    include "backends/vulkan/vk_internal.h"
#    include "tests/rig/fake/fake_backend.h"

enum {
    UINT = 1,
    HALF,
    FLOAT,
    SCOPE,
    SIZE_M,
    SIZE_N,
    SIZE_K,
    FALSE_,
    TRUE_,
    TYPE_A,
    TYPE_B,
    TYPE_C,
    A,
    B,
    C,
    SUM,
    POINTER,
    STRIDE,
    LENGTH,
    BOUND,
    ZERO = BOUND,
    ONE,
    TWO,
    NEW_BOUND,
};

struct module {
    uint32_t words[256];
    size_t count;
};

static void add(struct module *m, uint32_t code, const uint32_t *operands, uint32_t count)
{
    m->words[m->count++] = (count + 1) << 16 | code;
    memcpy(m->words + m->count, operands, count * sizeof *operands);
    m->count += count;
}

#    define ADD(m, code, ...) \
        add(m, code, (const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)

/* As much of a module as the conversion reads. */
static void begin(struct module *m, uint32_t bound, uint32_t capability, const char *extension)
{
    uint32_t text[7] = { 0 };
    memcpy(text, extension, strlen(extension) + 1);
    *m = (struct module){ .words = { 0x07230203, 0x00010300, 0, bound, 0 }, .count = 5 };
    ADD(m, 17, 1); /* OpCapability Shader */
    ADD(m, 17, capability);
    add(m, 10, text, 7);     /* OpExtension */
    ADD(m, 5, TYPE_A, A);    /* OpName: its text looks like an id */
    ADD(m, 21, UINT, 32, 0); /* OpTypeInt */
    ADD(m, 22, HALF, 16);    /* OpTypeFloat */
    ADD(m, 22, FLOAT, 32);
    ADD(m, 43, UINT, SCOPE, 3);  /* OpConstant */
    ADD(m, 50, UINT, SIZE_M, 8); /* OpSpecConstant */
    ADD(m, 50, UINT, SIZE_N, 8);
    ADD(m, 50, UINT, SIZE_K, 8);
    ADD(m, 42, UINT, FALSE_); /* OpConstantFalse */
    ADD(m, 41, UINT, TRUE_);
}

/* With the type and the order of columns of B, for modules that are refused. */
static void make_nv(struct module *m, uint32_t type_b, uint32_t columns)
{
    begin(m, BOUND, 5357, "SPV_NV_cooperative_matrix");
    ADD(m, 5358, TYPE_A, HALF, SCOPE, SIZE_M, SIZE_K);
    ADD(m, 5358, TYPE_B, HALF, SCOPE, SIZE_K, SIZE_N);
    ADD(m, 5358, TYPE_C, FLOAT, SCOPE, SIZE_M, SIZE_N);
    ADD(m, 5359, TYPE_A, A, POINTER, STRIDE, FALSE_, 0x28, SCOPE); /* with memory operands */
    ADD(m, 5359, type_b, B, POINTER, STRIDE, columns);
    ADD(m, 61, TYPE_C, C, POINTER); /* OpLoad of a variable */
    ADD(m, 5361, TYPE_C, SUM, A, B, C);
    ADD(m, 5360, POINTER, SUM, STRIDE, FALSE_, 0x18, SCOPE);
    ADD(m, 5362, UINT, LENGTH, TYPE_C);
}

static void finish_khr(struct module *m)
{
    ADD(m, 43, UINT, ZERO, 0);
    ADD(m, 43, UINT, ONE, 1);
    ADD(m, 43, UINT, TWO, 2);
    ADD(m, 4456, TYPE_A, HALF, SCOPE, SIZE_M, SIZE_K, ZERO);
    ADD(m, 4456, TYPE_B, HALF, SCOPE, SIZE_K, SIZE_N, ONE);
    ADD(m, 4456, TYPE_C, FLOAT, SCOPE, SIZE_M, SIZE_N, TWO);
    ADD(m, 4457, TYPE_A, A, POINTER, ZERO, STRIDE, 0x28, SCOPE);
    ADD(m, 4457, TYPE_B, B, POINTER, ONE, STRIDE);
    ADD(m, 61, TYPE_C, C, POINTER);
    ADD(m, 4459, TYPE_C, SUM, A, B, C);
    ADD(m, 4458, POINTER, SUM, ZERO, STRIDE, 0x18, SCOPE);
    ADD(m, 4460, UINT, LENGTH, TYPE_C);
}

static void make_khr(struct module *m)
{
    begin(m, NEW_BOUND, 6022, "SPV_KHR_cooperative_matrix");
    finish_khr(m);
}

/* A word of the module becomes `count` others. */
static void replace(struct module *m, size_t at, const uint32_t *words, size_t count)
{
    memmove(m->words + at + count, m->words + at + 1, (m->count - at - 1) * 4);
    memcpy(m->words + at, words, count * 4);
    m->count += count - 1;
}

/* The same with matrices of bf16: two capabilities, an extension, and the encoding of the type. */
static void make_bfloat(struct module *m)
{
    static const char name[20] = "SPV_KHR_bfloat16";
    const uint32_t matrices[] = { 6022, 2 << 16 | 17, 5116, 2 << 16 | 17, 5118 };
    uint32_t extension[7];
    make_khr(m);
    const size_t type = 5 + 2 + 2 + 8 + 3 + 4; /* of f16 */
    assert_int_equal(m->words[type], 3 << 16 | 22);
    m->words[type] = 4 << 16 | 22;
    replace(m, type + 2, (const uint32_t[]){ 16, 0 }, 2);
    extension[0] = m->words[5 + 2 + 2 + 7];
    extension[1] = 6 << 16 | 10;
    memcpy(extension + 2, name, sizeof name);
    replace(m, 5 + 2 + 2 + 7, extension, 7);
    replace(m, 5 + 2 + 1, matrices, 5);
}

static copse_context *ctx;

static int open_context(void **state)
{
    (void)state;
    fake_reset();
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

static void instructions_are_converted(void **state)
{
    struct module nv, khr, bfloat;
    uint32_t *words;
    size_t bytes;
    (void)state;
    make_nv(&nv, TYPE_B, TRUE_);
    make_khr(&khr);
    OK(copse_vk_cooperative_code(&ctx->base.mem, nv.words, 4 * nv.count, false, &words, &bytes));
    assert_int_equal(bytes, 4 * khr.count);
    assert_memory_equal(words, khr.words, bytes);
    copse__free(&ctx->base.mem, words);

    make_bfloat(&bfloat);
    OK(copse_vk_cooperative_code(&ctx->base.mem, nv.words, 4 * nv.count, true, &words, &bytes));
    assert_int_equal(bytes, 4 * bfloat.count);
    assert_memory_equal(words, bfloat.words, bytes);
    copse__free(&ctx->base.mem, words);

    OK(copse_vk_cooperative_code(&ctx->base.mem, khr.words, 4 * khr.count, false, &words, &bytes));
    assert_null(words); /* nothing to convert */
}

static void refuses(const struct module *m, size_t count, const char *says)
{
    uint32_t *words;
    size_t bytes;
    FAILS(COPSE_ERR_COMPILE,
          copse_vk_cooperative_code(&ctx->base.mem, m->words, 4 * count, true, &words, &bytes),
          says);
    assert_null(words);
}

static void other_modules_are_refused(void **state)
{
    struct module m;
    (void)state;
    make_nv(&m, TYPE_A, TRUE_);
    refuses(&m, m.count, "two operands of a product have one type");
    make_nv(&m, TYPE_B, STRIDE);
    refuses(&m, m.count, "the order of rows and columns is no constant");
    make_nv(&m, UINT, TRUE_);
    refuses(&m, m.count, "an operand of a product has no matrix type");
    make_nv(&m, TYPE_B, TRUE_);
    /* cut in every place: no access past the end */
    for (size_t count = 9; count < m.count; count++) {
        uint32_t *copy = malloc(4 * count), *words = NULL;
        size_t bytes;
        assert_non_null(copy);
        memcpy(copy, m.words, 4 * count);
        if (copse_vk_cooperative_code(&ctx->base.mem, copy, 4 * count, true, &words, &bytes) ==
            COPSE_OK)
            copse__free(&ctx->base.mem, words);
        free(copy);
    }
    refuses(&m, m.count - 1, "this is no valid SPIR-V");
    m.words[m.count - 1] = BOUND; /* an id out of range */
    refuses(&m, m.count, "this is no valid SPIR-V");
    make_nv(&m, TYPE_B, TRUE_);
    ADD(&m, 5360, POINTER, SUM); /* a store without stride and order */
    refuses(&m, m.count, "this is no valid SPIR-V");
    make_nv(&m, TYPE_B, TRUE_);
    m.words[3] = UINT32_MAX;
    refuses(&m, m.count, "this is no valid SPIR-V");
}

/* The kernels of the library: those that say that they multiply cooperative matrices are converted,
   no others. */
static void kernels_are_converted(void **state)
{
    unsigned count = 0;
    (void)state;
    for (size_t i = 0; i < copse_kernel_count; i++) {
        const struct copse_kernel_row *row = &copse_kernel_table[i];
        uint32_t *words;
        size_t bytes;
        if (!row->spirv)
            continue;
        const bool is_bfloat = i % 2 != 0;
        OK(copse_vk_cooperative_code(&ctx->base.mem, row->spirv, row->spirv_bytes, is_bfloat,
                                     &words, &bytes));
        assert_int_equal(words != NULL, row->is_cooperative);
        for (size_t w = 5; words && w < bytes / 4; w += words[w] >> 16) {
            const uint32_t code = words[w] & 0xffffu;
            assert_true(words[w] >> 16 > 0 && (code < 5357 || code > 5362));
            count += code == 4459;
        }
        copse__free(&ctx->base.mem, words);
    }
    assert_true(count > 0);
}

static uint8_t enabled_units(const VkPhysicalDeviceFeatures2 *features)
{
    struct copse_vk_matrices m;
    copse_vk_matrices_enabled(features, true, true, &m);
    return m.units & (COPSE_MATRIX_F16 | COPSE_MATRIX_BF16);
}

static void features_are_recognised(void **state)
{
    enum { F16 = COPSE_MATRIX_F16, BOTH = COPSE_MATRIX_F16 | COPSE_MATRIX_BF16 };
    const struct copse_vk_matrices matrices = { .units = BOTH, .sets_subgroup = true };
    struct copse_vk_cooperative_features f;
    struct copse_vk_matrices m;
    VkPhysicalDeviceFeatures2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &f };
    (void)state;
    copse_vk_cooperative_chain(&f, &matrices, true);
    assert_int_equal(enabled_units(&all), BOTH);
    copse_vk_matrices_enabled(&all, false, true, &m);
    assert_int_equal(m.units, 0);
    copse_vk_matrices_enabled(&all, true, false, &m);
    assert_int_equal(m.units & BOTH, F16);
    assert_true(m.sets_subgroup);
    f.sizes.computeFullSubgroups = VK_FALSE;
    copse_vk_matrices_enabled(&all, true, true, &m);
    assert_false(m.sets_subgroup);
    f.bfloat.has_matrices = VK_FALSE;
    assert_int_equal(enabled_units(&all), F16);
    copse_vk_cooperative_chain(&f, &(struct copse_vk_matrices){ .units = F16 }, true);
    copse_vk_matrices_enabled(&all, true, true, &m);
    assert_int_equal(m.units & BOTH, F16);
    assert_false(m.sets_subgroup);
    f.arithmetic.shaderFloat16 = VK_FALSE;
    assert_int_equal(enabled_units(&all), 0);
    copse_vk_cooperative_chain(&f, &matrices, true);
    f.has_matrices = VK_FALSE;
    assert_int_equal(enabled_units(&all), 0);
    copse_vk_cooperative_chain(&f, &matrices, true);
    f.memory.vulkanMemoryModel = VK_FALSE;
    assert_int_equal(enabled_units(&all), 0);
    f.arithmetic = (VkPhysicalDeviceShaderFloat16Int8Features){ .sType = f.arithmetic.sType };
    VkPhysicalDeviceVulkan13Features thirteen = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE,
    };
    VkPhysicalDeviceVulkan12Features twelve = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = &thirteen,
        .shaderFloat16 = VK_TRUE,
        .vulkanMemoryModel = VK_TRUE
    };
    f.next = &twelve;
    copse_vk_matrices_enabled(&all, true, true, &m);
    assert_int_equal(m.units & BOTH, F16);
    assert_true(m.sets_subgroup);
    assert_int_equal(enabled_units(NULL), 0);
}

enum { NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086, MESA = 0x10005 };

/* Size of subgroups, whether it is set, and the units. */
static void architectures_have_their_subgroups(void **state)
{
    static const struct {
        struct copse_vk_matrix_facts facts;
        uint8_t subgroup;
        bool sets, is_usable, is_preferred;
    } rows[] = {
        /* vendor, default, has_sizes, dot, bfloat, least, most, can set, mixed dot */
        { { NVIDIA, 32, true, true, true, 32, 32, true, false }, 32, true, true, true },
        { { NVIDIA, 32, false, false, false, 32, 32, false, false }, 32, false, true, true },
        { { AMD, 64, true, true, true, 32, 64, true, true }, 64, true, true, true }, /* RDNA3 */
        { { AMD, 64, true, true, false, 32, 64, true, false }, 64, true, true, false },
        { { AMD, 64, true, true, false, 64, 64, true, true }, 64, true, true, false }, /* CDNA */
        { { AMD, 32, true, true, true, 32, 64, false, true }, 64, false, false, false },
        { { INTEL, 32, true, true, true, 16, 32, true, true }, 16, true, true, true }, /* Xe2 */
        { { INTEL, 32, true, true, true, 8, 32, true, true }, 8, true, true, false },  /* Xe */
        { { INTEL, 32, true, true, true, 8, 32, false, true }, 8, false, false, false },
        { { MESA, 8, true, true, true, 8, 8, true, false }, 8, true, true, false },
        { { MESA, 8, false, false, false, 8, 8, false, false }, 8, false, true, false },
        { { MESA, 0, false, false, false, 0, 0, false, false }, 0, false, false, false },
        { { MESA, 24, true, true, true, 24, 24, true, false }, 0, true, false, false },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        struct copse_vk_matrices m = { .shape = { 8, 8, 8 }, .units = COPSE_MATRIX_F16 };
        copse_vk_matrix_judge(&rows[i].facts, &m);
        printf("  row %zu\n", i);
        assert_int_equal(m.subgroup, rows[i].subgroup);
        assert_int_equal(m.sets_subgroup, rows[i].sets);
        assert_int_equal(m.units != 0, rows[i].is_usable);
        assert_int_equal((m.units & COPSE_MATRIX_PREFERRED) != 0, rows[i].is_preferred);
    }
    /* small subgroups with large matrices: no room to stage the sums */
    struct copse_vk_matrices m = { .shape = { 16, 16, 16 }, .units = COPSE_MATRIX_F16 };
    copse_vk_matrix_judge(&rows[10].facts, &m);
    assert_int_equal(m.units, 0);
}

static void a_lent_device_has_what_is_enabled(void **state)
{
    enum { ALL = COPSE_MATRIX_F16 | COPSE_MATRIX_BF16 | COPSE_MATRIX_PREFERRED };
    const struct copse_vk_matrices has = {
        .shape = { 16, 16, 16 }, .units = ALL, .subgroup = 64, .sets_subgroup = true
    };
    struct copse_vk_matrices m = has;
    (void)state;
    copse_vk_matrices_keep(&has, 32, &m);
    assert_memory_equal(&m, &has, sizeof m);
    copse_vk_matrices_keep(&(struct copse_vk_matrices){ .units = ALL & ~COPSE_MATRIX_BF16 }, 64,
                           &m); /* the default size is the right one */
    assert_int_equal(m.units, ALL & ~COPSE_MATRIX_BF16);
    assert_false(m.sets_subgroup);
    copse_vk_matrices_keep(&(struct copse_vk_matrices){ .units = ALL }, 32, &m);
    assert_int_equal(m.units, 0);
    assert_int_equal(m.shape[0], 16);
    m = has;
    copse_vk_matrices_keep(&(struct copse_vk_matrices){ .sets_subgroup = true }, 64, &m);
    assert_int_equal(m.units, 0);
    assert_int_equal(m.shape[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_converted),
        cmocka_unit_test(other_modules_are_refused),
        cmocka_unit_test(kernels_are_converted),
        cmocka_unit_test(features_are_recognised),
        cmocka_unit_test(architectures_have_their_subgroups),
        cmocka_unit_test(a_lent_device_has_what_is_enabled),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
#else
int main(void)
{
    printf("skipped: no Vulkan backend in this build\n");
    return 77;
}
#endif
