/* SPDX-License-Identifier: MIT */
/* Kernel variants: lists and names, texts that force them, and the one function that chooses: by
   limits, by measurement and by force. */
#include "copse/device/conformance.h"
#include "copse/matmul.h"
#include "core/graph/lowering.h"
#include "core/graph/variant.h"
#include "tests/rig/conformance/tuning_rig.h"

/* ---- a family of three, whose kernels every device has ---- */

static bool is_small(const struct copse_limits *limits, const void *work)
{
    (void)limits;
    return *(const uint32_t *)work < 100;
}

static bool size_class(const void *work, char name[COPSE_SIZE_CLASS])
{
    strcpy(name, *(const uint32_t *)work == 9 ? "small_f16"
                 : is_small(NULL, work)       ? "small"
                                              : "large");
    return *(const uint32_t *)work != 7; /* which is not measured */
}

static copse_status lower(struct copse_lowering *l, const void *work)
{
    (void)l;
    return copse_fail(COPSE_ERR_CANCELLED, "work %u was lowered",
                      (unsigned)*(const uint32_t *)work);
}

/* Plain devices take the second row, those with wide vectors the third, those with fast texels the
   first, GPUs the third. */
static const struct copse_variant rows[] = {
    { "first", COPSE_KERNEL_reduce, { 5, 5, 0, 2 }, .lower = lower },
    { "second", COPSE_KERNEL_softmax, { 1, 6, 1, 3 }, .fits = is_small, .lower = lower },
    { "third", COPSE_KERNEL_argmax, { COPSE_NO_PRIOR, 0, 4, 0 }, .lower = lower },
};
static const struct copse_family three = { .name = "three",
                                           COPSE_VARIANTS(rows),
                                           .size_class = size_class };

static const char *chosen(const copse_device *dev, const struct copse_limits *limits, uint32_t work,
                          const char *forced)
{
    const struct copse_choice choice = { "three", forced };
    const struct copse_lowering l = { .limits = limits ? limits : dev->limits,
                                      .dev = dev,
                                      .choices = &choice,
                                      .choice_count = forced != NULL };
    const struct copse_variant *v;
    return copse__choose(&l, &three, &work, &v) == COPSE_OK ? v->name : copse_last_error();
}

static copse_device *open_device(copse_context *ctx)
{
    copse_device *dev;
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    return dev;
}

static void limits_choose(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    copse_device *dev = open_device(ctx);
    const struct copse_limits plain = { .has_wide_vectors = false },
                              wide = { .has_wide_vectors = true },
                              texels = { .has_fast_texels = true },
                              gpu = { .is_gpu = true, .max_texel_elements = 1u << 27 };
    assert_string_equal(chosen(dev, &plain, 5, NULL), "second");
    assert_string_equal(chosen(dev, &plain, 500, NULL), "first"); /* too large for the second */
    assert_string_equal(chosen(dev, &wide, 5, NULL), "third");
    assert_string_equal(chosen(dev, &texels, 5, NULL), "first");
    assert_string_equal(chosen(dev, &gpu, 5, NULL), "third");

    OK(copse_device_block(ctx, "fake:0", "softmax", "by the test"));
    assert_string_equal(chosen(dev, &plain, 5, NULL), "first");
    /* the third has no prior here */
    OK(copse_device_block(ctx, "fake:0", "reduce", "by the test"));
    assert_string_equal(chosen(dev, &plain, 5, NULL), "first");
    assert_string_equal(chosen(dev, &texels, 5, NULL), "third");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void set_rate(copse_context *ctx, const char *size, const char *kernel, uint64_t rate)
{
    struct copse_tuning_entry e = { .family = "three", .rate = rate };
    snprintf(e.size_class, sizeof e.size_class, "%s", size);
    snprintf(e.variant, sizeof e.variant, "%s", kernel);
    OK(copse_device_tuning_set(ctx, "fake:0", &e, 1));
}

static void measurements_choose(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    set_rate(ctx, "small", "softmax", 1000);
    set_rate(ctx, "small", "reduce", 1030); /* hardly faster */
    set_rate(ctx, "large", "argmax", 5000); /* alone */
    copse_device *dev = open_device(ctx);
    const struct copse_limits plain = { .has_wide_vectors = false };
    assert_string_equal(chosen(dev, &plain, 5, NULL), "second");
    assert_string_equal(chosen(dev, &plain, 500, NULL), "first");
    copse_device_release(&dev);

    set_rate(ctx, "small", "argmax", 1032);
    set_rate(ctx, "large", "reduce", 1000);
    set_rate(ctx, "large", "softmax", 90000); /* which cannot do large work */
    dev = open_device(ctx);
    assert_string_equal(chosen(dev, &plain, 5, NULL), "third");
    assert_string_equal(chosen(dev, &plain, 7, NULL), "second");
    assert_string_equal(chosen(dev, &plain, 500, NULL), "third");
    OK(copse_device_block(ctx, "fake:0", "argmax", "by the test"));
    assert_string_equal(chosen(dev, &plain, 5, NULL), "second");
    assert_string_equal(chosen(dev, &plain, 500, NULL), "first");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* A class that is a part of another one. */
static void measurements_of_a_part_choose(void **state)
{
    (void)state;
    const struct copse_limits plain = { .has_wide_vectors = false };
    copse_context *ctx = open_fake();
    set_rate(ctx, "small", "softmax", 1000);
    set_rate(ctx, "small", "reduce", 2000);
    set_rate(ctx, "small_f16", "argmax", 9000); /* alone */
    copse_device *dev = open_device(ctx);
    assert_string_equal(chosen(dev, &plain, 9, NULL), "first"); /* as in the whole class */
    copse_device_release(&dev);
    set_rate(ctx, "small_f16", "softmax", 1000);
    dev = open_device(ctx);
    assert_string_equal(chosen(dev, &plain, 9, NULL), "third");
    assert_string_equal(chosen(dev, &plain, 5, NULL), "first");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void force_chooses(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    set_rate(ctx, "small", "softmax", 1000);
    set_rate(ctx, "small", "reduce", 9000);
    copse_device *dev = open_device(ctx);
    assert_string_equal(chosen(dev, NULL, 5, NULL), "first");
    assert_string_equal(chosen(dev, NULL, 5, "second"), "second");
    assert_string_equal(chosen(dev, NULL, 5, "third"), "third");
    assert_string_equal(chosen(dev, NULL, 5, "argmax"), "third"); /* its kernel */
    /* which does what the second cannot */
    assert_string_equal(chosen(dev, NULL, 500, "second"), "first");
    assert_non_null(strstr(chosen(dev, NULL, 5, "fourth"),
                           "three: no variant 'fourth'; there are first, second, third"));
    OK(copse_device_block(ctx, "fake:0", "softmax", "by the test"));
    assert_non_null(
        strstr(chosen(dev, NULL, 5, "second"), "softmax is blocked on fake:0: by the test"));

    struct copse_lowering l = { .limits = dev->limits, .dev = dev };
    const uint32_t work = 12;
    FAILS(COPSE_ERR_CANCELLED, copse__lower_variant(&l, &three, &work), "work 12 was lowered");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* ---- names ---- */

static void variants_are_listed(void **state)
{
    (void)state;
    struct copse_kernel_variant v, last = { .family = "" };
    size_t count = 0, first = 0, wide = 0;
    for (; copse_kernel_variant_at(count, &v); count++) {
        const struct copse_family *f = copse__family(v.family);
        assert_non_null(f);
        assert_true(strcmp(last.family, v.family) <= 0); /* family by family */
        first += copse__variant(f, v.name) == f->variants;
        assert_ptr_equal(copse__variant(f, v.name), copse__variant(f, v.kernel));
        wide += strcmp(v.family, "matmul") == 0 && strcmp(v.name, "wide") == 0 &&
                strcmp(v.kernel, "matmul_wide") == 0;
        last = v;
    }
    size_t families = 0;
    for (; copse_families[families]; families++) {
        const struct copse_family *f = copse_families[families];
        assert_true(f->count > 0 && !f->variants[0].fits &&
                    f->variants[0].kernel != COPSE_LIBRARY_KERNEL);
        /* the double reference runs it */
        assert_false(copse_kernel_table[f->variants[0].kernel].is_variant);
    }
    assert_true(families >= 2 && families <= COPSE_MAX_FAMILIES && first == families && wide == 1);
    assert_false(copse_kernel_variant_at(count, &v));
    assert_false(copse_kernel_variant_at(0, NULL));
    assert_null(copse__family("no such family"));
}

/* A row without a prior for a class has 0 there, as the row that is chosen. */
static void each_row_has_a_prior_of_its_own_in_each_class(void **state)
{
    (void)state;
    for (size_t i = 0; copse_families[i]; i++) {
        const struct copse_family *f = copse_families[i];
        for (size_t c = 0; c < COPSE_CLASS_COUNT; c++)
            for (size_t a = 0; a < f->count; a++)
                for (size_t b = 0; b < a; b++)
                    if (f->variants[a].prior[c] == f->variants[b].prior[c] &&
                        f->variants[a].prior[c] != COPSE_NO_PRIOR)
                        fail_msg("%s: %s and %s have one prior in class %zu", f->name,
                                 f->variants[a].name, f->variants[b].name, c);
    }
}

static const char *parsed(const char *text)
{
    static char out[COPSE_CHOICES_TEXT];
    struct copse_choices c;
    const copse_status s = copse__choices_parse(text, &c);
    assert_true(s == COPSE_OK || s == COPSE_ERR_ARGUMENT);
    return s == COPSE_OK ? copse__choices_text(&c, out) : copse_last_error();
}

static void texts_force_variants(void **state)
{
    (void)state;
    assert_string_equal(parsed(NULL), "auto");
    assert_string_equal(parsed("matmul=wide"), "matmul=wide");
    assert_string_equal(parsed("matmul=matmul_wide"), "matmul=wide"); /* one spelling */
    assert_string_equal(parsed("matmul=clblast,column_sum=reduce"),
                        "column_sum=reduce,matmul=clblast");
    assert_non_null(strstr(
        parsed("matmul=nonsense"),
        "kernels: matmul has no variant 'nonsense'; it has shared, wide, chunk, texel, clblast"));
    assert_non_null(
        strstr(parsed("fft=wide"),
               "kernels: no family 'fft'; the families are attention "
               "(plain, wide, texel, tile), blocks (shared, one, one_wide, wide, rows, tile), "));
    assert_non_null(strstr(parsed("wide"), "'wide' is not family=variant"));
    assert_non_null(strstr(parsed(""), "'' is not family=variant"));
    assert_non_null(strstr(parsed("matmul=wide,"), "'' is not family=variant"));
    assert_non_null(strstr(parsed("matmul="), "no variant ''"));
    assert_non_null(strstr(parsed("matmul=wide,matmul=shared"), "matmul is named twice"));
    assert_non_null(
        strstr(parsed("matmul=a_variant_with_a_name_that_is_longer_than_all_others_together"),
               "is not family=variant"));
}

/* ---- where they are used ---- */

static void strategies_refuse_unknown_variants(void **state)
{
    (void)state;
    static const char *const devices[] = { "fake:0", "fake:1" };
    copse_context *ctx = open_fake();
    copse_strategy *st;
    struct copse_strategy_params p = { .kernels = "matmul=nonsense" };
    FAILS(COPSE_ERR_ARGUMENT, copse_one_device_create(ctx, "fake:0", &p, &st),
          "it has shared, wide, chunk, texel, clblast");
    FAILS(COPSE_ERR_ARGUMENT, copse_mirrored_create(ctx, devices, 2, &p, &st), "nonsense");
    assert_int_equal(fake_calls(0, FAKE_OPEN), 0); /* before a device is opened */
    p.kernels = "column_sum=reduce,matmul=shared";
    OK(copse_mirrored_create(ctx, devices, 2, &p, &st));
    copse_strategy_release(&st);
    copse_context_release(&ctx);
}

static void a_device_says_what_it_would_choose(void **state)
{
    (void)state;
    struct copse_kernel_variant v;
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    copse_device *dev = open_device(ctx);
    OK(copse_kernel_choice(dev, NULL, "matmul", "nn-32-32-32", &v));
    assert_string_equal(v.family, "matmul");
    assert_string_equal(v.name, "shared");
    assert_string_equal(v.kernel, "matmul");
    OK(copse_kernel_choice(dev, "matmul=shared", "column_sum", "256-32", &v));
    assert_string_equal(v.kernel, "reduce");
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_kernel_choice(dev, "matmul=wide", "matmul", "tn-32-128-512", &v),
          "cannot run the variant matmul_wide");
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_kernel_choice(dev, "matmul=cooperative", "matmul", "nn-32-32-32_f16", &v),
          "cannot run the variant matmul_cooperative: kernel: matmul_cooperative multiplies "
          "cooperative matrices of 16 bits "
          "with f32 sums, fake:0 reports no shape of them");
    OK(copse_kernel_choice(dev, NULL, "matmul", "nn-32-32-32_f16", &v));
    assert_string_equal(v.kernel, "matmul");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, "matmul=w", "matmul", "nn-32-32-32", &v),
          "'w'");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, NULL, "fft", "nn-32-32-32", &v),
          "no family 'fft'");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, NULL, "matmul", "nn-33-32-32", &v),
          "matmul has no size class 'nn-33-32-32'");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(NULL, NULL, "matmul", "nn-32-32-32", &v),
          "'dev' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, NULL, NULL, "nn-32-32-32", &v), "family");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, NULL, "matmul", NULL, &v), "size_class");
    FAILS(COPSE_ERR_ARGUMENT, copse_kernel_choice(dev, NULL, "matmul", "nn-32-32-32", NULL),
          "'out' is NULL");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void describe_units(struct copse_device_info *d)
{
    memset(d->limits.cooperative_shape, 16, 3);
}

/* Reported, but of no use. */
static void matrix_units_need_their_subgroups(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = describe_units;
    copse_context *ctx = open_fake();
    copse_device *dev = open_device(ctx);
    struct copse_kernel_variant v;
    FAILS(COPSE_ERR_UNSUPPORTED,
          copse_kernel_choice(dev, "matmul=cooperative", "matmul", "nn-32-32-32_f16", &v),
          "needs subgroups of the size that the matrix units of fake:0 work with");
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* ---- size classes and jobs ---- */

/* Tuning records are kept by these names, so they never change. */
static void size_classes_keep_their_names(void **state)
{
    static const struct {
        const char *family;
        size_t jobs;
        const char *first, *last, *first_job, *last_job;
    } want[] = {
        { "attention", 6, "forward-32", "gradient-512", "4 x 32 x 4 x 32, causal",
          "4 x 512 x 4 x 32, causal, gradient" },
        { "channel_norm", 2, "16", "64", "2 x 2048 places of 16 channels",
          "2 x 2048 places of 64 channels" },
        { "column_sum", 12, "32-8", "2048-512", "32 x 8", "2048 x 512" },
        { "conv_weight", 9, "4-4", "128-128", "8 x 14 x 14, 3 x 3, 4 to 4 channels",
          "8 x 14 x 14, 3 x 3, 128 to 128 channels" },
        { "dropout", 2, "4096", "262144", "4096 elements", "262144 elements" },
        { "glu", 4, "forward-64", "gradient-1024", "1024 x 64, silu", "64 x 1024, silu, gradient" },
        { "layer_norm", 6, "forward-32", "gradient-2048", "256 x 32", "256 x 2048, gradient" },
        { "matmul", 162, "nn-32-32-32", "nt-512-512-512_f16", "32 x 32 x 32",
          "512 x 512 x 512, b transposed, f16" },
        { "pool_grad", 2, "8", "64", "8 x 14 x 14 x 8, 2 x 2", "8 x 14 x 14 x 64, 2 x 2" },
        { "recurrent", 2, "32", "256", "lstm of 32 units, 16 x 8, with derivatives",
          "lstm of 256 units, 16 x 8, with derivatives" },
        { "rotary", 2, "32", "128", "2048 x 4 x 32", "2048 x 4 x 128" },
        { "softmax", 2, "10", "1000", "256 x 10", "256 x 1000" },
        { "unary_grad", 2, "4096", "262144", "derivative of gelu of 4096",
          "derivative of gelu of 262144" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct copse_family *f = copse__family(want[i].family);
        uint64_t work[COPSE_TUNE_WORK / sizeof(uint64_t)];
        char class[COPSE_SIZE_CLASS];
        assert_int_equal(copse__tune_jobs(f), want[i].jobs);
        for (int last = 0; last < 2; last++) {
            struct copse_tune_job j = { .work = work };
            copse__tune_job(f, last ? want[i].jobs - 1 : 0, &j);
            assert_string_equal(j.name, last ? want[i].last_job : want[i].first_job);
            assert_true(copse__size_class_of(f, work, class));
            assert_string_equal(class, last ? want[i].last : want[i].first);
        }
    }
}

/* Each job is of a class of its own, with shapes and operations. */
static void each_job_has_a_class(void **state)
{
    (void)state;
    for (size_t i = 0; copse_families[i]; i++) {
        const struct copse_family *f = copse_families[i];
        char class[COPSE_SIZE_CLASS], before[COPSE_SIZE_CLASS] = "";
        for (size_t k = 0; k < copse__tune_jobs(f); k++) {
            uint64_t work[COPSE_TUNE_WORK / sizeof(uint64_t)];
            struct copse_tune_job j = { .work = work };
            copse__tune_job(f, k, &j);
            assert_true(copse__size_class_of(f, work, class));
            assert_string_not_equal(class, before);
            strcpy(before, class);
            assert_true(j.operations > 0 && j.in_count > 0 && j.name[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(limits_choose, reset),
        cmocka_unit_test_setup(measurements_choose, reset),
        cmocka_unit_test_setup(measurements_of_a_part_choose, reset),
        cmocka_unit_test_setup(force_chooses, reset),
        cmocka_unit_test_setup(variants_are_listed, reset),
        cmocka_unit_test(each_row_has_a_prior_of_its_own_in_each_class),
        cmocka_unit_test_setup(texts_force_variants, reset),
        cmocka_unit_test_setup(strategies_refuse_unknown_variants, reset),
        cmocka_unit_test_setup(a_device_says_what_it_would_choose, reset),
        cmocka_unit_test_setup(matrix_units_need_their_subgroups, reset),
        cmocka_unit_test(size_classes_keep_their_names),
        cmocka_unit_test(each_job_has_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
