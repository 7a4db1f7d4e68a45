/* SPDX-License-Identifier: MIT */
/* SPIR-V with portable bits: no fused products, every arithmetic instruction is NoContraction, the
   module asks for what the device keeps; damaged modules are refused. */
#include "tests/rig/rig.h"

#if defined(COPSE_HAVE_VULKAN)
#    include "backends/vulkan/vk_internal.h"
#    include "core/device/kernel/kernel.h"
#    include "tests/rig/fake/fake_backend.h"

enum { HEADER = 5, FMA = 50, MODES = 7 };

static copse_context *ctx;

static int begin(void **state)
{
    (void)state;
    fake_reset();
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    return 0;
}

static int end(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

struct counts {
    size_t arithmetic, fused, decorated, twice, modes, capabilities, extensions;
};

static bool is_arithmetic(uint32_t code)
{
    return code == 129 || code == 131 || code == 133 || code == 136 || code == 140 || code == 141 ||
           code == 142 || code == 148;
}

static struct counts count(const uint32_t *words, size_t bytes)
{
    const uint32_t *end_of = words + bytes / 4, bound = words[3];
    struct counts n = { 0 };
    uint8_t *marks = calloc(bound, 1), *made = calloc(bound, 1);
    assert_non_null(marks);
    assert_non_null(made);
    for (const uint32_t *w = words + HEADER; w < end_of; w += w[0] >> 16) {
        const uint32_t code = w[0] & 0xffff;
        assert_true(w[0] >> 16 > 0 && w[0] >> 16 <= (size_t)(end_of - w));
        if (code == 71 && w[2] == 42) {
            assert_true(w[1] < bound);
            n.twice += marks[w[1]]++ > 0;
        }
        if (is_arithmetic(code)) {
            assert_true(w[2] < bound && made[w[2]]++ == 0);
            n.arithmetic++;
            n.decorated += marks[w[2]];
        }
        n.fused += code == 12 && w[4] == FMA && w[0] >> 16 == 8;
        n.modes += code == 16 && w[2] >= 4459 && w[2] <= 4462;
        n.capabilities += code == 17 && w[1] >= 4464 && w[1] <= 4467;
        n.extensions += code == 10 && memcmp(w + 1, "SPV_KHR_float_controls", 23) == 0;
    }
    free(marks);
    free(made);
    return n;
}

static void every_kernel_is_portable(void **state)
{
    size_t kernels = 0, fused = 0;
    (void)state;
    for (uint32_t id = 0; id < COPSE_KERNEL_COUNT; id++) {
        const struct copse_kernel_row *row = &copse_kernel_table[id];
        if (!row->spirv || row->is_cooperative)
            continue;
        const struct counts before = count(row->spirv, row->spirv_bytes);
        for (uint8_t modes = 0; modes <= MODES; modes = (uint8_t)(modes ? 2 * modes + 1 : 1)) {
            const size_t asked = modes == 7 ? 3 : modes == 3 ? 2 : modes;
            uint32_t *words;
            size_t bytes;
            OK(copse_vk_portable_code(&ctx->base.mem, row->spirv, row->spirv_bytes, modes, &words,
                                      &bytes));
            const struct counts after = count(words, bytes);
            assert_int_equal(after.fused, 0);
            assert_int_equal(after.arithmetic, before.arithmetic + 2 * before.fused);
            assert_int_equal(after.decorated, after.arithmetic);
            assert_int_equal(after.twice, 0);
            assert_int_equal(after.modes, asked);
            assert_int_equal(after.capabilities, asked);
            assert_int_equal(after.extensions, asked > 0);
            const char *folder = getenv("COPSE_PORTABLE_CODE"); /* for spirv-val, by hand */
            if (folder && modes == MODES) {
                char path[256];
                snprintf(path, sizeof path, "%s/%s.spv", folder, row->name);
                FILE *f = fopen(path, "wb");
                assert_non_null(f);
                assert_int_equal(fwrite(words, 1, bytes, f), bytes);
                fclose(f);
            }
            copse__free(&ctx->base.mem, words);
        }
        kernels++;
        fused += before.fused;
    }
    assert_true(kernels > 50 && fused > 10);
}

/* Whether it is taken as a module; else the error is one of compilation. */
static bool take_or_refuse(const uint32_t *code, size_t count)
{
    uint32_t *words = NULL;
    size_t bytes;
    const copse_status s =
        copse_vk_portable_code(&ctx->base.mem, code, 4 * count, MODES, &words, &bytes);
    if (s != COPSE_OK)
        assert_int_equal(s, COPSE_ERR_COMPILE);
    copse__free(&ctx->base.mem, words);
    return s == COPSE_OK;
}

/* Changed anywhere: refused, or some module; never a read or write outside of the words. */
static void damaged_code_is_refused(void **state)
{
    const struct copse_kernel_row *row = &copse_kernel_table[COPSE_KERNEL_matmul];
    const size_t all = row->spirv_bytes / 4;
    uint32_t *copy = malloc(row->spirv_bytes), *words;
    size_t bytes;
    (void)state;
    assert_non_null(copy);
    for (size_t n = 0; n <= HEADER; n++)
        assert_int_equal(
            copse_vk_portable_code(&ctx->base.mem, row->spirv, 4 * n, MODES, &words, &bytes),
            COPSE_ERR_COMPILE);
    memcpy(copy, row->spirv, row->spirv_bytes);
    for (size_t i = 0; i < all; i++) {
        copy[i] ^= 0xffffffffu;
        take_or_refuse(copy, all);
        copy[i] ^= 0xffffffffu;
        copy[i] ^= 1u << i % 32;
        take_or_refuse(copy, all);
        copy[i] ^= 1u << i % 32;
    }
    copy[HEADER] &= 0xffffu; /* an instruction without a length */
    assert_int_equal(
        copse_vk_portable_code(&ctx->base.mem, copy, row->spirv_bytes, MODES, &words, &bytes),
        COPSE_ERR_COMPILE);
    free(copy);
}

/* Exactly as many words are in memory as the module has. */
static void cut_code_is_refused(void **state)
{
    const struct copse_kernel_row *row = &copse_kernel_table[COPSE_KERNEL_matmul];
    size_t starts = 0, good = 0;
    (void)state;
    for (size_t n = 1, next = HEADER; n < row->spirv_bytes / 4; n++) {
        const bool is_start = n == next;
        uint32_t *copy = malloc(4 * n);
        assert_non_null(copy);
        memcpy(copy, row->spirv, 4 * n);
        const bool is_taken = take_or_refuse(copy, n);
        free(copy);
        assert_true(!is_taken || is_start); /* within an instruction: refused */
        starts += is_start;
        good += is_taken;
        next += is_start ? row->spirv[n] >> 16 : 0;
    }
    assert_true(starts > 100 && good + 1 >= starts); /* one without an instruction is none */
}

/* Every bit of the smallest kernel. */
static void changed_bits_are_survived(void **state)
{
    const struct copse_kernel_row *row = NULL;
    (void)state;
    for (uint32_t id = 0; id < COPSE_KERNEL_COUNT; id++) {
        const struct copse_kernel_row *each = &copse_kernel_table[id];
        if (each->spirv && (!row || each->spirv_bytes < row->spirv_bytes))
            row = each;
    }
    const size_t all = row->spirv_bytes / 4;
    uint32_t *copy = malloc(row->spirv_bytes);
    assert_non_null(copy);
    memcpy(copy, row->spirv, row->spirv_bytes);
    for (size_t bit = 0; bit < 32 * all; bit++) {
        copy[bit / 32] ^= 1u << bit % 32;
        take_or_refuse(copy, all);
        copy[bit / 32] ^= 1u << bit % 32;
    }
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kernel_is_portable, begin, end),
        cmocka_unit_test_setup_teardown(damaged_code_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(cut_code_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(changed_bits_are_survived, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: this build has no Vulkan");
    return 77;
}
#endif
