/* SPDX-License-Identifier: MIT */
/* Families of kernel variants: each is forced where a case makes use of it and nowhere else, and
   the one that is wrong is blamed alone and replaced by the next. */
#include <math.h>

#include "prover/cases/tables.h"
#include "tests/rig/conformance/op_harness.h"

#include "prover/conformance/rig/case_rig.h"
#include "tests/rig/column_sums.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/fake/lying_backend.h"

/* ---- where variants are forced ---- */

static void ask_for_another(const struct copse_case *c, bool has_gradient)
{
    struct copse_rig rig;
    struct copse_rig_program *p = NULL;
    OK(copse__rig_open(harness_context(), c, 1, has_gradient, &rig));
    rig.first = has_gradient;
    const copse_status s = copse__rig_program_open(&rig, harness_device(0), "no_variant", &p);
    if (s != COPSE_ERR_ARGUMENT || !strstr(copse_last_error(), "no variant 'no_variant'"))
        fail_msg("%s '%s'%s does not look at the variant that is forced", c->op, c->name,
                 has_gradient ? ", gradient" : "");
    copse__rig_program_close(&p);
    copse__rig_close(&rig);
}

static void a_forced_variant_is_what_the_case_runs(void **state)
{
    size_t count = 0;
    (void)state;
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->count; i++) {
            const struct copse_case *c = &copse_case_tables[t]->cases[i];
            if (!c->family || c->tier > COPSE_TIER_STANDARD)
                continue;
            if (!c->family_is_of_gradient)
                ask_for_another(c, false);
            if (copse__case_has_gradient(c))
                ask_for_another(c, true);
            count++;
        }
    assert_true(count > 200);
}

static struct {
    size_t forced[2]; /* run, grad */
    size_t plain[2];
} listed;

static void note_listed(void *user, const struct copse_case_result *r)
{
    const size_t mode = strcmp(r->mode, "grad") == 0;
    (void)user;
    if (strcmp(r->variant, "reduce") == 0 || strcmp(r->variant, "column_sum_wide") == 0 ||
        strcmp(r->variant, "column_sums") == 0)
        listed.forced[mode]++;
    else if (!*r->variant)
        listed.plain[mode]++;
}

static void list(const char *ops, copse_conformance_tier tier)
{
    const struct copse_conformance_params p = {
        .device = "host:0",
        .modes = COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD,
        .ops = ops,
        .tier = tier,
        .result = note_listed,
    };
    memset(&listed, 0, sizeof listed);
    OK(copse_conformance_list(harness_context(), &p));
}

static void sums_down_columns_are_forced_in_results_and_gradients(void **state)
{
    (void)state;
    list("column_sum", COPSE_CONFORM_QUICK);
    assert_true(listed.plain[0] >= 2 && listed.forced[0] == 0);
    list("column_sum", COPSE_CONFORM_STANDARD);
    assert_true(listed.plain[0] >= 15 && listed.plain[1] == 0);
    /* none without rows or columns */
    assert_int_equal(listed.forced[0], 3 * (listed.plain[0] - 2));
    list("dense", COPSE_CONFORM_STANDARD);
    assert_int_equal(listed.forced[0], 0); /* the result has none */
    assert_int_equal(listed.forced[1], 3 * 7);
}

/* ---- the same bits ---- */

enum { SUMS = 4, MOST_ROWS = 300001, COLS = 17 };

/* Sums of x to x^4. */
static void sum_by(copse_device *dev, const char *kernels, uint32_t rows, const float *x,
                   float sums[SUMS * COLS])
{
    copse_tensor *in, *next, *all, *y[SUMS];
    copse_graph *g;
    copse_function *f;
    OK(copse_graph_create(harness_context(), &g));
    in = next = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(rows, COLS));
    for (uint32_t i = 0; i < SUMS; i++) {
        y[i] = copse__column_sum(g, next);
        next = copse_mul(g, next, in);
    }
    all = copse_stack(g, y, SUMS, 0);
    OK(copse_function_create(
        dev,
        &(struct copse_function_params){
            .graph = g, .outputs = &all, .output_count = 1, .kernels = kernels },
        &f));
    OK(copse_function_write(f, in, x));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, sums));
    copse_function_release(&f);
    copse_graph_release(&g);
}

static void one_launch_has_the_bits_of_two(void **state)
{
    static const uint32_t rows[] = { 1, 7, 8, 63, 64, 65, 513, 1000, 4096, 4097, 18432, MOST_ROWS };
    static float x[MOST_ROWS * COLS], two[SUMS * COLS], one[SUMS * COLS];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(x); i++)
        x[i] = sinf((float)i) * exp2f((float)(i % 23) - 11.0f);
    x[5] = -0.0f;
    for (uint32_t d = 0; d < harness_device_count(); d++)
        for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
            copse_device *dev = harness_device(d);
            if (strcmp(dev->backend->name, "host") == 0)
                continue; /* sums of double, rounded after each launch */
            sum_by(dev, "column_sum=reduce", rows[i], x, two);
            sum_by(dev, "column_sum=group", rows[i], x, one);
            assert_memory_equal(one, two, sizeof one);
        }
}

/* ---- which one is to blame ---- */

static struct {
    /* by variant: "", reduce, column_sum_wide, column_sums */
    uint64_t count[4][COPSE_VERDICT_COUNT];
} seen;

static void note_seen(void *user, const struct copse_case_result *r)
{
    const size_t i = strcmp(r->variant, "reduce") == 0            ? 1
                     : strcmp(r->variant, "column_sum_wide") == 0 ? 2
                     : strcmp(r->variant, "column_sums") == 0     ? 3
                                                                  : 0;
    (void)user;
    seen.count[i][r->verdict]++;
}

static void run(copse_context *ctx, unsigned modes, const char *ops, const char *case_name,
                copse_conformance_tier tier)
{
    const struct copse_conformance_params p = { .device = "lying:0",
                                                .modes = modes,
                                                .ops = ops,
                                                .case_name = case_name,
                                                .tier = tier,
                                                .result = note_seen };
    struct copse_conformance_summary summary;
    memset(&seen, 0, sizeof seen);
    OK(copse_conformance_run(ctx, &p, &summary));
}

/* "" = none, "?" = several. */
static const char *blocked_alone(copse_context *ctx)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    OK(copse_device_blocked(ctx, "lying:0", &list, &count));
    return count == 0 ? "" : count == 1 ? list[0].kernel : "?";
}

/* Sums of [70, 40] by the library's choice; how often the lie was met. */
static unsigned sum_by_choice(copse_context *ctx)
{
    copse_device *dev;
    atomic_store(&copse_lie.met, 0u);
    OK(copse_device_open(ctx, "lying:0", NULL, &dev));
    check_column_sums(ctx, dev, 70, 40);
    copse_device_release(&dev);
    return atomic_load(&copse_lie.met);
}

/* NULL where there is no device that has both. */
static copse_context *open_lying(const char *kernel)
{
    const struct copse_context_params p = { .no_self_test = true };
    const struct copse_backend *const *backends = lying_backends("opencl");
    const struct copse_device_info *list;
    copse_context *ctx = NULL;
    size_t count = 0;
    copse_lie.how = LIE_CORRUPT;
    copse_lie.kernel = kernel;
    if (backends) {
        OK(copse__context_create_with(&p, backends, &ctx));
        copse_context_devices(ctx, &list, &count);
    }
    if (count > 1 && list[0].is_usable && list[0].limits.has_wide_vectors)
        return ctx;
    copse_context_release(&ctx);
    printf("skipped: no OpenCL device with wide vectors\n");
    skip();
    return NULL;
}

static void the_variant_that_is_wrong_is_blocked_alone(void **state)
{
    static const struct {
        const char *kernel;
        size_t at, other;            /* as in `seen` */
        copse_conformance_tier tier; /* `quick` forces variants when the choice fails only */
    } table[] = { { "column_sum_wide", 2, 1, COPSE_CONFORM_QUICK },
                  { "column_sum_wide", 2, 1, COPSE_CONFORM_STANDARD },
                  { "reduce", 1, 2, COPSE_CONFORM_STANDARD } };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(table); i++) {
        copse_context *ctx = open_lying(table[i].kernel);
        run(ctx, COPSE_CONFORM_RUN, "column_sum", NULL, table[i].tier);
        assert_true(seen.count[table[i].at][COPSE_VERDICT_FAIL] >= 2);
        assert_int_equal(seen.count[table[i].at][COPSE_VERDICT_PASS], 0);
        assert_true(seen.count[table[i].other][COPSE_VERDICT_PASS] >= 2);
        assert_int_equal(seen.count[table[i].other][COPSE_VERDICT_FAIL], 0);
        assert_string_equal(blocked_alone(ctx), table[i].kernel);
        assert_int_equal(sum_by_choice(ctx), 0);
        OK(copse_device_unblock(ctx, "lying:0", NULL));

        run(ctx, COPSE_CONFORM_GRAD, "dense", "bias gradient, 64 x 32", COPSE_CONFORM_STANDARD);
        assert_int_equal(seen.count[table[i].at][COPSE_VERDICT_FAIL], 1);
        assert_int_equal(seen.count[table[i].other][COPSE_VERDICT_PASS], 1);
        assert_string_equal(blocked_alone(ctx), table[i].kernel);
        copse_lie.how = LIE_NONE;
        for (int k = 0; k < 3; k++) {
            assert_string_equal(blocked_alone(ctx), table[i].kernel);
            run(ctx, COPSE_CONFORM_GRAD, "dense", "bias gradient, 64 x 32", COPSE_CONFORM_STANDARD);
        }
        assert_string_equal(blocked_alone(ctx), "");
        copse_context_release(&ctx);
    }
}

static void no_variant_is_blamed_for_another_kernel(void **state)
{
    (void)state;
    copse_context *ctx = open_lying("matmul_wide");
    run(ctx, COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD, "dense,column_sum", "bias gradient, 64 x 32",
        COPSE_CONFORM_STANDARD);
    /* the result, by the library's choice */
    assert_int_equal(seen.count[0][COPSE_VERDICT_FAIL], 1);
    assert_int_equal(seen.count[0][COPSE_VERDICT_PASS], 1);
    assert_int_equal(seen.count[1][COPSE_VERDICT_PASS], 1);
    assert_int_equal(seen.count[2][COPSE_VERDICT_PASS], 1);
    assert_int_equal(seen.count[3][COPSE_VERDICT_PASS], 1);
    assert_string_equal(blocked_alone(ctx), "matmul_wide"); /* the only kernel of the result */
    copse_context_release(&ctx);

    /* One that writes out of range: the result's kernel is not even run. */
    fake_reset();
    copse_fake.devices[0].stray = "matmul";
    copse_fake.devices[0].stray_at = -4;
    OK(copse__context_create_with(NULL, fake_backends, &ctx));
    const struct copse_conformance_params p = {
        .device = "fake:0",
        .modes = COPSE_CONFORM_GRAD,
        .ops = "dense",
        .case_name = "bias gradient, 64 x 32",
        .tier = COPSE_CONFORM_STANDARD,
        .result = note_seen,
    };
    struct copse_conformance_summary summary;
    memset(&seen, 0, sizeof seen);
    OK(copse_conformance_run(ctx, &p, &summary));
    assert_int_equal(seen.count[0][COPSE_VERDICT_PASS], 1);
    assert_int_equal(seen.count[1][COPSE_VERDICT_PASS], 1);
    assert_int_equal(seen.count[2][COPSE_VERDICT_UNSUPPORTED], 1); /* it has no form for the host */
    copse_context_release(&ctx);
    fake_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forced_variant_is_what_the_case_runs),
        cmocka_unit_test(sums_down_columns_are_forced_in_results_and_gradients),
        cmocka_unit_test(one_launch_has_the_bits_of_two),
        cmocka_unit_test(the_variant_that_is_wrong_is_blocked_alone),
        cmocka_unit_test(no_variant_is_blamed_for_another_kernel),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
