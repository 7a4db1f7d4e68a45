/* SPDX-License-Identifier: MIT */
/* Tuning: a device chooses by what was known when it was opened, among what it can run; mode tune
   measures what was right. */
#include "copse/device/conformance.h"

#include "tests/rig/column_sums.h"
#include "tests/rig/conformance/tuning_rig.h"

/* ---- what is chosen ---- */

/* The product of two matrices of ones on this device; checks the result. */
static void multiply(copse_context *ctx, copse_device *dev, uint32_t side)
{
    const size_t n = (size_t)side * side;
    float *values = malloc(n * sizeof *values);
    copse_graph *g;
    copse_function *f;
    assert_non_null(values);
    OK(copse_graph_create(ctx, &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(side, side));
    copse_tensor *b = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(side, side));
    copse_tensor *y = copse_matmul(g, a, b, false, false);
    OK(copse_function_create(
        dev, &(struct copse_function_params){ .graph = g, .outputs = &y, .output_count = 1 }, &f));
    for (size_t i = 0; i < n; i++)
        values[i] = 1.0f;
    OK(copse_function_write(f, a, values));
    OK(copse_function_write(f, b, values));
    OK(copse_function_run(f));
    OK(copse_function_read(f, 0, values));
    for (size_t i = 0; i < n; i++)
        assert_true(values[i] == (float)side);
    copse_function_release(&f);
    copse_graph_release(&g);
    free(values);
}

static bool has_compiled(copse_device *dev, enum copse_kernel_id id)
{
    return copse__kernel_is_compiled(dev, &copse_kernel_table[id]);
}

/* Opens the device, multiplies, and tells which of two kernels did it. */
static enum copse_kernel_id choice(copse_context *ctx, const char *id, uint32_t side,
                                   enum copse_kernel_id other)
{
    copse_device *dev;
    OK(copse_device_open(ctx, id, NULL, &dev));
    multiply(ctx, dev, side);
    const bool is_shared = has_compiled(dev, COPSE_KERNEL_matmul);
    assert_int_equal(is_shared, !has_compiled(dev, other));
    copse_device_release(&dev);
    return is_shared ? COPSE_KERNEL_matmul : other;
}

static void check_choice(const char *id, enum copse_kernel_id fast)
{
    const char *name = copse_kernel_table[fast].name;
    const struct copse_device_info *list;
    size_t count, at = 0;
    copse_context *ctx;
    OK(copse_context_create(&params, &ctx));
    copse_context_devices(ctx, &list, &count);
    while (at < count && (strcmp(list[at].id, id) != 0 || !list[at].is_usable))
        at++;
    if (at == count || !(fast == COPSE_KERNEL_matmul_chunk ? list[at].limits.has_wide_vectors
                                                           : list[at].limits.has_fast_texels)) {
        printf("skipped: there is no %s on which %s is the fast one\n", id, name);
        copse_context_release(&ctx);
        skip();
    }
    assert_int_equal(choice(ctx, id, 40, fast), fast);

    /* Absurd, and believed: for this class of sizes only. */
    set(ctx, id, "nn-32-32-32", "matmul", 1000000000);
    assert_int_equal(choice(ctx, id, 40, fast), fast); /* not measured beside the other */
    set(ctx, id, "nn-32-32-32", name, 1000);
    set(ctx, id, "nn-32-32-32", "no_such_variant", 1000000000000);
    assert_int_equal(choice(ctx, id, 40, fast), COPSE_KERNEL_matmul);
    assert_int_equal(choice(ctx, id, 80, fast), fast);

    /* In another context, as in another process; hardly faster is not faster. */
    copse_context *later;
    OK(copse_context_create(&params, &later));
    assert_int_equal(choice(later, id, 40, fast), COPSE_KERNEL_matmul);
    set(later, id, "nn-32-32-32", "matmul", 1010);
    assert_int_equal(choice(later, id, 40, fast), fast);
    copse_context_release(&later);

    /* An open device does not change its mind. */
    copse_device *dev;
    set(ctx, id, "nn-32-32-32", "matmul", 1000000000);
    OK(copse_device_open(ctx, id, NULL, &dev));
    OK(copse_device_tuning_clear(ctx, id));
    multiply(ctx, dev, 40);
    assert_true(has_compiled(dev, COPSE_KERNEL_matmul) && !has_compiled(dev, fast));
    copse_device_release(&dev);
    assert_int_equal(choice(ctx, id, 40, fast), fast);

    /* What is blocked is not chosen, however fast. */
    set(ctx, id, "nn-32-32-32", "matmul", 1000000000);
    set(ctx, id, "nn-32-32-32", name, 1000);
    OK(copse_device_block(ctx, id, "matmul", "by the test"));
    assert_int_equal(choice(ctx, id, 40, fast), fast);
    OK(copse_device_unblock(ctx, id, NULL));
    copse_context_release(&ctx);
}

static void absurd_choice_is_taken_on_opencl(void **state)
{
    (void)state;
    check_choice("opencl:0", COPSE_KERNEL_matmul_chunk);
}

static void absurd_choice_is_taken_on_vulkan(void **state)
{
    (void)state;
    check_choice("vulkan:0", COPSE_KERNEL_matmul_texel);
}

/* ---- measuring ---- */

static size_t passed, skipped;

static void note(void *user, const struct copse_case_result *r)
{
    (void)user;
    assert_string_equal(r->mode, "tune");
    passed += r->verdict == COPSE_VERDICT_PASS && r->gflops > 0;
    skipped += r->verdict == COPSE_VERDICT_SKIP;
}

static void tune_case(copse_context *ctx, const char *name, copse_verdict verdict)
{
    struct copse_conformance_summary summary;
    const struct copse_conformance_params p = {
        .device = "fake:0",
        .modes = COPSE_CONFORM_TUNE,
        .case_name = name,
        .variant = "matmul",
        .result = note,
    };
    OK(copse_conformance_run(ctx, &p, &summary));
    assert_int_equal(summary.counts[verdict], 1);
}

static void mode_keeps_what_was_right(void **state)
{
    (void)state;
    static const char name[] = "32 x 32 x 128, a transposed";
    const struct copse_tuning_entry *list;
    size_t count;
    copse_context *ctx = open_fake();
    passed = skipped = 0;
    tune_case(ctx, name, COPSE_VERDICT_PASS);
    assert_int_equal(passed, 1);
    OK(copse_device_tuning(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].family, "matmul");
    assert_string_equal(list[0].size_class, "tn-32-32-128");
    assert_string_equal(list[0].variant, "matmul");
    assert_true(list[0].rate > 0);

    /* One bit in one element, however many runs are right: no longer kept, and blocked. */
    copse_fake.devices[0].perturb = "matmul";
    copse_fake.devices[0].perturb_bits = 1u << 22;
    tune_case(ctx, name, COPSE_VERDICT_FAIL);
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    const struct copse_blocked_kernel *blocked;
    OK(copse_device_blocked(ctx, "fake:0", &blocked, &count));
    assert_int_equal(count, 1);
    assert_string_equal(blocked[0].kernel, "matmul");

    /* What is blocked is not measured. */
    copse_fake.devices[0].perturb = NULL;
    tune_case(ctx, name, COPSE_VERDICT_UNSUPPORTED);
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    copse_context_release(&ctx);
}

/* ---- sums down columns ---- */

static void tune_sums(copse_context *ctx, const char *variant, copse_verdict expected)
{
    passed = skipped = 0;
    const struct copse_conformance_params p = {
        .device = "fake:0",
        .modes = COPSE_CONFORM_TUNE,
        .ops = "column_sum",
        .case_name = "256 x 32",
        .variant = variant,
    };
    struct copse_conformance_summary summary;
    OK(copse_conformance_run(ctx, &p, &summary));
    assert_int_equal(summary.counts[expected], 1);
}

static void mode_measures_sums_down_columns(void **state)
{
    (void)state;
    const struct copse_tuning_entry *list;
    size_t count;
    copse_context *ctx = open_fake();
    tune_sums(ctx, "reduce", COPSE_VERDICT_PASS);
    tune_sums(ctx, "column_sum_wide", COPSE_VERDICT_UNSUPPORTED); /* it has no form for the host */
    OK(copse_device_tuning(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].family, "column_sum");
    assert_string_equal(list[0].size_class, "256-32");
    assert_string_equal(list[0].variant, "reduce");
    assert_true(list[0].rate > 0);

    copse_fake.devices[0].perturb = "reduce";
    tune_sums(ctx, "reduce", COPSE_VERDICT_FAIL);
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    const struct copse_blocked_kernel *blocked;
    OK(copse_device_blocked(ctx, "fake:0", &blocked, &count));
    assert_int_equal(count, 1);
    assert_string_equal(blocked[0].kernel, "reduce");
    copse_context_release(&ctx);
}

/* Sums down a matrix of 300 x 10 on a device that has both kernels: true when it is the wide
   one. */
static bool sums_wide(copse_context *ctx, const char *id)
{
    copse_device *dev;
    OK(copse_device_open(ctx, id, NULL, &dev));
    check_column_sums(ctx, dev, 300, 10);
    const bool is_wide = has_compiled(dev, COPSE_KERNEL_column_sum_wide);
    assert_true(is_wide != has_compiled(dev, COPSE_KERNEL_reduce));
    copse_device_release(&dev);
    return is_wide;
}

static void set_sums(copse_context *ctx, uint64_t wide, uint64_t reduce)
{
    const struct copse_tuning_entry e[] = { { "column_sum", "256-8", "column_sum_wide", wide },
                                            { "column_sum", "256-8", "reduce", reduce } };
    OK(copse_device_tuning_set(ctx, "opencl:0", e, COPSE_COUNT(e)));
}

static void sums_are_chosen_on_opencl(void **state)
{
    (void)state;
    const struct copse_device_info *list;
    size_t count, at = 0;
    copse_context *ctx;
    OK(copse_context_create(&params, &ctx));
    copse_context_devices(ctx, &list, &count);
    while (at < count && strcmp(list[at].id, "opencl:0") != 0)
        at++;
    if (at == count || !list[at].is_usable || !list[at].limits.has_wide_vectors) {
        printf("skipped: no opencl:0 with wide vectors\n");
        copse_context_release(&ctx);
        skip();
    }
    assert_true(sums_wide(ctx, "opencl:0"));
    set_sums(ctx, 100, 101); /* hardly faster */
    assert_true(sums_wide(ctx, "opencl:0"));
    set_sums(ctx, 100, 200);
    assert_false(sums_wide(ctx, "opencl:0"));
    set_sums(ctx, 0, 200); /* not measured beside the usual one */
    assert_true(sums_wide(ctx, "opencl:0"));
    set_sums(ctx, 0, 0);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(absurd_choice_is_taken_on_opencl, reset),
        cmocka_unit_test_setup(absurd_choice_is_taken_on_vulkan, reset),
        cmocka_unit_test_setup(mode_keeps_what_was_right, reset),
        cmocka_unit_test_setup(mode_measures_sums_down_columns, reset),
        cmocka_unit_test_setup(sums_are_chosen_on_opencl, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
