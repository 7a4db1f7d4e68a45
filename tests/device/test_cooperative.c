/* SPDX-License-Identifier: MIT */
/* SPIR-V with the instructions of SPV_NV_cooperative_matrix becomes SPIR-V with those of
   SPV_KHR_cooperative_matrix: types get their use, loads and stores a layout, the rest stays.
   Modules that cannot be converted are refused. */
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

static void make_khr(struct module *m)
{
    begin(m, NEW_BOUND, 6022, "SPV_KHR_cooperative_matrix");
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
    struct module nv, khr;
    uint32_t *words;
    size_t bytes;
    (void)state;
    make_nv(&nv, TYPE_B, TRUE_);
    make_khr(&khr);
    OK(copse_vk_cooperative_code(&ctx->base.mem, nv.words, 4 * nv.count, &words, &bytes));
    assert_int_equal(bytes, 4 * khr.count);
    assert_memory_equal(words, khr.words, bytes);
    copse__free(&ctx->base.mem, words);

    OK(copse_vk_cooperative_code(&ctx->base.mem, khr.words, 4 * khr.count, &words, &bytes));
    assert_null(words); /* nothing to convert */
}

static void refuses(const struct module *m, size_t count, const char *says)
{
    uint32_t *words;
    size_t bytes;
    FAILS(COPSE_ERR_COMPILE,
          copse_vk_cooperative_code(&ctx->base.mem, m->words, 4 * count, &words, &bytes), says);
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
        if (copse_vk_cooperative_code(&ctx->base.mem, copy, 4 * count, &words, &bytes) == COPSE_OK)
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
        OK(copse_vk_cooperative_code(&ctx->base.mem, row->spirv, row->spirv_bytes, &words, &bytes));
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

static void features_are_recognised(void **state)
{
    struct copse_vk_cooperative_features f;
    VkPhysicalDeviceFeatures2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &f };
    (void)state;
    copse_vk_cooperative_chain(&f, true);
    assert_true(copse_vk_cooperative_is_enabled(&all));
    f.arithmetic.shaderFloat16 = VK_FALSE;
    assert_false(copse_vk_cooperative_is_enabled(&all));
    copse_vk_cooperative_chain(&f, true);
    f.has_matrices = VK_FALSE;
    assert_false(copse_vk_cooperative_is_enabled(&all));
    copse_vk_cooperative_chain(&f, true);
    f.memory.vulkanMemoryModel = VK_FALSE;
    assert_false(copse_vk_cooperative_is_enabled(&all));
    f.arithmetic = (VkPhysicalDeviceShaderFloat16Int8Features){ .sType = f.arithmetic.sType };
    VkPhysicalDeviceVulkan12Features twelve = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .shaderFloat16 = VK_TRUE,
        .vulkanMemoryModel = VK_TRUE
    };
    f.next = &twelve;
    assert_true(copse_vk_cooperative_is_enabled(&all));
    assert_false(copse_vk_cooperative_is_enabled(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_converted),
        cmocka_unit_test(other_modules_are_refused),
        cmocka_unit_test(kernels_are_converted),
        cmocka_unit_test(features_are_recognised),
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
