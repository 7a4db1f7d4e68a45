/* SPDX-License-Identifier: MIT */
/* Self-tests of kernels: every row has one that honest devices pass in every specialisation, and
   that finds a word that is wrong, missing or out of range; what is found is blocked and said
   once. */
#include "copse/device/function.h"

#include "tests/rig/rig.h"

#include "tests/rig/conformance/spec_rig.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/fake/fake_backend.h"

static unsigned warnings, tested, repeated, slowly_built;

static void count(void *user, copse_log_level level, const char *line)
{
    (void)user;
    warnings += level <= COPSE_LOG_WARN && strstr(line, "self-test") != NULL;
    tested += level == COPSE_LOG_DEBUG && strncmp(line, "self-test: ", 11) == 0;
    if (strstr(line, "few_builtins.clh lacks one")) {
        printf("%s\n", line);
        slowly_built++;
    }
    repeated += level == COPSE_LOG_DEBUG && strncmp(line, "repeated: ", 10) == 0;
}

static const struct copse_context_params params = { .log = count, .log_level = COPSE_LOG_DEBUG };

static copse_context *open_fake(const struct copse_context_params *p)
{
    copse_context *ctx;
    OK(copse__context_create_with(p, fake_backends, &ctx));
    return ctx;
}

static int reset(void **state)
{
    (void)state;
    fake_reset();
    warnings = tested = repeated = 0;
    return 0;
}

static bool is_here(copse_context *ctx, const char *id)
{
    const struct copse_device_info *list;
    size_t devices;
    copse_context_devices(ctx, &list, &devices);
    for (size_t i = 0; i < devices; i++)
        if (strcmp(list[i].id, id) == 0 && list[i].is_usable)
            return true;
    printf("skipped: there is no %s\n", id);
    return false;
}

/* Drivers take long to compile: of a real device one specialisation of each kernel is tested. On
   PoCL the short list of declarations has all that it calls. */
static void pass_all(copse_context *ctx, const char *id)
{
    const bool is_fake = strncmp(id, "fake", 4) == 0;
    copse_device *dev;
    unsigned fitting = 0, done = 0;
    if (!is_here(ctx, id))
        return;
    tested = 0;
    OK(copse_device_open(ctx, id, NULL, &dev));
    for (size_t i = 0; i < copse_kernel_count; i++) {
        int32_t spec[COPSE_MAX_SPECS];
        struct copse_kernel *k;
        if (!copse__kernel_fits(dev, (enum copse_kernel_id)i))
            continue;
        fitting++;
        for (uint32_t turn = 0; spec_of((enum copse_kernel_id)i, turn, spec); turn++, done++) {
            OK(copse__kernel_get(dev, (enum copse_kernel_id)i, spec, &k));
            if (!is_fake) {
                done++;
                break;
            }
        }
    }
    printf("%s: %u kernels, %u specialisations, %u tested\n", id, fitting, done, tested);
    assert_true(tested >= done - 2 && fitting >= 25);
    copse_device_release(&dev);
}

static void honest_devices_pass(void **state)
{
    (void)state;
    copse_context *ctx = open_fake(&params);
    pass_all(ctx, "fake:0");
    copse_context_release(&ctx);
    unsetenv("COPSE_TEST_KERNELS"); /* each kernel is built */
    OK(copse_context_create(&params, &ctx));
    pass_all(ctx, "opencl:0");
    pass_all(ctx, "vulkan:0");
    copse_context_release(&ctx);
    assert_int_equal(warnings, 0);
    assert_int_equal(slowly_built, 0);
}

/* Compiles one kernel on a fresh device that does what the test has set up. */
static copse_status get_kernel(copse_context *ctx, enum copse_kernel_id id, bool *is_blocked)
{
    int32_t spec[COPSE_MAX_SPECS];
    copse_device *dev;
    struct copse_kernel *k;
    char reason[192];
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    assert_true(spec_of(id, 0, spec));
    const copse_status s = copse__kernel_get(dev, id, spec, &k);
    *is_blocked = copse__kernel_is_blocked(dev, copse_kernel_table[id].name, reason, sizeof reason);
    copse_device_release(&dev);
    return s;
}

static void check_found(enum copse_kernel_id id, const char *what)
{
    const char *name = copse_kernel_table[id].name;
    copse_context *ctx = open_fake(&params);
    bool is_blocked;
    warnings = 0;
    const copse_status s = get_kernel(ctx, id, &is_blocked);
    if (s != COPSE_ERR_UNSUPPORTED || !is_blocked || warnings != 1)
        fail_msg("%s, %s: status %d, %s, %u warnings: %s", name, what, (int)s,
                 is_blocked ? "blocked" : "not blocked", warnings, copse_last_error());
    assert_non_null(strstr(copse_last_error(), "self-test"));
    /* Blocked now: refused without another test, and said no more. */
    const unsigned before = tested;
    assert_int_equal(get_kernel(ctx, id, &is_blocked), COPSE_ERR_UNSUPPORTED);
    assert_int_equal(tested, before);
    assert_int_equal(warnings, 1);
    copse_context_release(&ctx);
}

static void every_kernel_that_is_wrong_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < copse_kernel_count; i++) {
        const struct copse_kernel_row *row = &copse_kernel_table[i];
        bool writes_floats = false;
        if (row->is_variant)
            continue; /* not on the host, where these are run */
        for (uint32_t a = 0; a < row->arg_count; a++)
            writes_floats |= row->args[a].is_written && row->args[a].kind == COPSE_ARG_F32;
        fake_reset();
        copse_fake.devices[0].dropped = row->name;
        check_found((enum copse_kernel_id)i, "not run");
        fake_reset();
        copse_fake.devices[0].stray = row->name;
        copse_fake.devices[0].stray_at = -4;
        if (i != COPSE_KERNEL_fill && i != COPSE_KERNEL_fill_i32) /* nothing stands before them */
            check_found((enum copse_kernel_id)i, "a word before the result");
        fake_reset();
        copse_fake.devices[0].perturb = row->name;
        copse_fake.devices[0].perturb_bits = 1u << 22; /* a quarter or more, whatever is accepted */
        if (writes_floats)
            check_found((enum copse_kernel_id)i, "one bit in each word");
    }
}

/* ---- the matrix product of a vendor's library ---- */

static void with_library(struct copse_device_info *info)
{
    info->limits.has_library_gemm = true;
}

static void with_library_and_small_buffers(struct copse_device_info *info)
{
    with_library(info);
    info->limits.max_buffer_bytes = 2 << 20;
}

static void make_library_fastest(copse_context *ctx)
{
    const struct copse_tuning_entry entries[] = {
        { "matmul", "nn-32-32-32", "matmul", 100 },
        { "matmul", "nn-32-32-32", COPSE_LIBRARY_PRODUCT, 200 },
        { "matmul", "tn-32-32-32", "matmul", 100 },
        { "matmul", "tn-32-32-32", COPSE_LIBRARY_PRODUCT, 200 },
        { "matmul", "nt-32-32-32", "matmul", 100 },
        { "matmul", "nt-32-32-32", COPSE_LIBRARY_PRODUCT, 200 },
        { "matmul", "tt-32-32-32", "matmul", 100 },
        { "matmul", "tt-32-32-32", COPSE_LIBRARY_PRODUCT, 200 },
    };
    OK(copse_device_tuning_set(ctx, "fake:0", entries, COPSE_COUNT(entries)));
}

/* [2 3] [5 7]' by the forced `kernels`, NULL = the library's choice, with the first, the second (1
   and 2) or both stored transposed; 31 where it is right. */
static copse_status multiply(copse_device *dev, const char *kernels, unsigned layout, float *out)
{
    const bool at = (layout & 1u) != 0, bt = (layout & 2u) != 0;
    static const float x[] = { 2.0f, 3.0f }, y[] = { 5.0f, 7.0f };
    copse_graph *g;
    copse_function *f;
    *out = 0.0f;
    OK(copse_graph_create(dev->ctx, &g));
    copse_tensor *a =
        copse_graph_input(g, "a", COPSE_F32, at ? COPSE_SHAPE(2, 1) : COPSE_SHAPE(1, 2));
    copse_tensor *b =
        copse_graph_input(g, "b", COPSE_F32, bt ? COPSE_SHAPE(1, 2) : COPSE_SHAPE(2, 1));
    copse_tensor *c = copse_matmul(g, a, b, at, bt);
    const struct copse_function_params p = {
        .graph = g, .outputs = &c, .output_count = 1, .kernels = kernels
    };
    const copse_status s = copse_function_create(dev, &p, &f);
    if (s == COPSE_OK) {
        OK(copse_function_write(f, a, x));
        OK(copse_function_write(f, b, y));
        OK(copse_function_run(f));
        OK(copse_function_wait(f));
        OK(copse_function_read(f, 0, out));
        copse_function_release(&f);
    }
    copse_graph_release(&g);
    return s;
}

static bool library_is_blocked(const copse_device *dev)
{
    char reason[192];
    return copse__kernel_is_blocked(dev, COPSE_LIBRARY_PRODUCT, reason, sizeof reason) &&
           strncmp(reason, "self-test: ", 11) == 0;
}

static void library_product_is_tested_once_a_layout(void **state)
{
    copse_device *dev;
    float product;
    (void)state;
    copse_fake.devices[0].describe = with_library;
    copse_context *ctx = open_fake(&params);
    make_library_fastest(ctx);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    for (unsigned i = 0; i < 2; i++) {
        OK(multiply(dev, i == 1 ? "matmul=clblast" : NULL, 0, &product));
        assert_float_equal(product, 31.0f, 0.0f);
    }
    assert_int_equal(tested, 1);
    for (unsigned i = 0; i < 8; i++) {
        OK(multiply(dev, "matmul=clblast", i % 4, &product));
        assert_float_equal(product, 31.0f, 0.0f);
    }
    assert_int_equal(tested, 4);
    assert_false(copse__kernel_is_compiled(dev, &copse_kernel_table[COPSE_KERNEL_matmul]));
    assert_int_equal(warnings, 0);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* The library's own product is taken in its place; asked for by name, it is refused with the
   reason. */
static void check_library_found(const char *what, unsigned layout, const char *reason)
{
    copse_context *ctx = open_fake(&params);
    copse_device *dev;
    float product;
    warnings = 0;
    make_library_fastest(ctx);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    for (unsigned i = 0; i < 2; i++) {
        OK(multiply(dev, NULL, layout, &product));
        if (product < 31.0f || product > 31.0f || warnings != 1 || !library_is_blocked(dev))
            fail_msg("%s: %g, %u warnings, %s", what, (double)product, warnings,
                     library_is_blocked(dev) ? "blocked" : "not blocked");
    }
    assert_true(copse__kernel_is_compiled(dev, &copse_kernel_table[COPSE_KERNEL_matmul]));
    FAILS(COPSE_ERR_UNSUPPORTED, multiply(dev, "matmul=clblast", 0, &product), reason);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void library_product_that_is_wrong_is_found(void **state)
{
    struct fake_device *d = &copse_fake.devices[0];
    (void)state;
    fake_reset();
    d->describe = with_library;
    d->dropped = COPSE_LIBRARY_PRODUCT;
    check_library_found("not run", 0,
                        "self-test: element 0 of a product of 33 x 37 x 19 is nan, not ");
    fake_reset();
    d->describe = with_library;
    d->perturb = COPSE_LIBRARY_PRODUCT;
    d->perturb_period = 1;
    check_library_found("the last bit", 3, "of 33 x 37 x 19, a transposed, b transposed is ");
    fake_reset();
    d->describe = with_library;
    d->stray = COPSE_LIBRARY_PRODUCT;
    d->stray_at = -4;
    check_library_found("a word before the result", 1, "self-test: wrote outside of the result");
    fake_reset();
    d->describe = with_library;
    fake_fail(0, FAKE_ENCODE, 1, COPSE_ERR_INTERNAL, false);
    check_library_found("it cannot be called", 2, "self-test: ");
}

/* A product of [size, size] matrices is made, and not run. */
static copse_status make_square(copse_device *dev, uint32_t size)
{
    copse_graph *g;
    copse_function *f;
    OK(copse_graph_create(dev->ctx, &g));
    copse_tensor *a = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(size, size));
    copse_tensor *b = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(size, size));
    copse_tensor *c = copse_matmul(g, a, b, false, false);
    const copse_status s = copse_function_create(
        dev,
        &(struct copse_function_params){
            .graph = g, .outputs = &c, .output_count = 1, .kernels = "matmul=clblast" },
        &f);
    if (s == COPSE_OK)
        copse_function_release(&f);
    copse_graph_release(&g);
    return s;
}

/* Large products have kernels of their own: two tests, of odd sizes and of whole tiles. So have
   products of more than 256 terms, which are in parts. */
static void library_product_is_tested_where_it_gets_larger(void **state)
{
    static const struct {
        uint32_t size;
        unsigned tested; /* in all */
    } table[] = { { 127, 1 }, { 128, 3 }, { 100, 3 }, { 128, 3 }, { 200, 3 }, { 700, 6 } };
    copse_device *dev;
    float product;
    (void)state;
    fake_reset();
    copse_fake.devices[0].describe = with_library;
    copse_context *ctx = open_fake(&params);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    for (size_t i = 0; i < COPSE_COUNT(table); i++) {
        OK(make_square(dev, table[i].size));
        if (tested != table[i].tested)
            fail_msg("%u tests before a product of %u", tested, (unsigned)table[i].size);
    }
    OK(multiply(dev, "matmul=clblast", 1, &product)); /* another layout: small, and that alone */
    assert_int_equal(tested, 7);
    assert_int_equal(warnings, 0);
    copse_device_release(&dev);
    copse_context_release(&ctx);

    /* The tests of odd sizes and of whole tiles are wrong. Before them are the small test and four for
       its bits, and two more for the bits of odd sizes. */
    for (unsigned at = 6; at <= 9; at += 3) {
        fake_reset();
        copse_fake.devices[0].describe = with_library;
        copse_fake.devices[0].perturb = COPSE_LIBRARY_PRODUCT;
        copse_fake.devices[0].perturb_period = at;
        ctx = open_fake(&params);
        OK(copse_device_open(ctx, "fake:0", NULL, &dev));
        warnings = 0;
        OK(make_square(dev, 127));
        FAILS(COPSE_ERR_UNSUPPORTED, make_square(dev, 128),
              at == 6 ? "of a product of 129 x 131 x 133 is"
                      : "of a product of 128 x 128 x 128 is");
        assert_true(library_is_blocked(dev));
        assert_int_equal(warnings, 1);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }

    /* No memory for the test is no reason to refuse the product. */
    fake_reset();
    copse_fake.devices[0].describe = with_library;
    ctx = open_fake(&params);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    OK(make_square(dev, 127));
    fake_fail(0, FAKE_ENCODE, 1, COPSE_ERR_NO_DEVICE_MEMORY, false);
    OK(make_square(dev, 128));
    assert_false(library_is_blocked(dev));
    copse_device_release(&dev);
    copse_context_release(&ctx);

    /* Nor is a device whose buffers are smaller than the test. */
    fake_reset();
    copse_fake.devices[0].describe = with_library_and_small_buffers;
    ctx = open_fake(&params);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    OK(make_square(dev, 704)); /* tested with more than 2 MiB */
    assert_false(library_is_blocked(dev));
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* Each product has its own bits, which are tested once: a later device and a later context take the
   verdict that is kept. */
static void library_product_has_the_same_bits(void **state)
{
    copse_device *dev;
    float product;
    (void)state;
    for (unsigned at = 2; at <= 5; at++) { /* the first of four runs, or another */
        fake_reset();
        copse_fake.devices[0].describe = with_library;
        copse_fake.devices[0].perturb = COPSE_LIBRARY_PRODUCT;
        copse_fake.devices[0].perturb_period = at;
        check_library_found("other bits", 0, "of 33 x 37 x 19 had other bits when it was repeated");
        if (repeated > 0)
            fail_msg("run %u differs, and the bits are taken as the same", at);
    }
    fake_reset();
    copse_fake.devices[0].describe = with_library;
    struct copse_context_params kept = params;
    temp_begin();
    kept.cache_folder = temp_folder;
    warnings = 0;
    for (unsigned i = 0; i < 2; i++) {
        copse_context *ctx = open_fake(&kept);
        tested = 0;
        for (unsigned turn = 0; turn < 2; turn++) {
            OK(copse_device_open(ctx, "fake:0", NULL, &dev));
            OK(multiply(dev, "matmul=clblast", 0, &product));
            assert_int_equal(repeated, 1);
            assert_int_equal(tested, 1 + turn);
            copse_device_release(&dev);
        }
        copse_context_release(&ctx);
    }
    temp_end();
    assert_int_equal(warnings, 0);
}

/* Blocks of a context, so that memory that is kept on purpose is no leak: after COPSE_ERR_TIMEOUT a
   device may still use it. */
static void *blocks[4096];

static void *resize_known(void *user, void *block, size_t size)
{
    size_t i = 0;
    (void)user;
    while (i < COPSE_COUNT(blocks) && blocks[i] != block)
        i++;
    assert_true(i < COPSE_COUNT(blocks));
    if (size == 0) {
        free(block);
        return blocks[i] = NULL;
    }
    void *moved = realloc(block, size);
    if (moved)
        blocks[i] = moved;
    return moved;
}

/* What is not the library's fault blocks nothing, and is tested again. */
static void library_product_is_not_blamed_for_others(void **state)
{
    static const copse_status others[] = { COPSE_ERR_NO_DEVICE_MEMORY, COPSE_ERR_NO_MEMORY,
                                           COPSE_ERR_TIMEOUT };
    struct copse_context_params known = params;
    (void)state;
    known.resize = resize_known;
    for (size_t i = 0; i < COPSE_COUNT(others); i++) {
        copse_device *dev;
        float product;
        fake_reset();
        copse_fake.devices[0].describe = with_library;
        copse_context *ctx = open_fake(&known);
        OK(copse_device_open(ctx, "fake:0", NULL, &dev));
        fake_fail(0, FAKE_ENCODE, 1, others[i], false);
        FAILS(others[i], multiply(dev, "matmul=clblast", 0, &product), "self-test");
        assert_false(library_is_blocked(dev));
        OK(multiply(dev, "matmul=clblast", 0, &product));
        assert_float_equal(product, 31.0f, 0.0f);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }
    assert_int_equal(warnings, 0);
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    bool is_blocked;
    copse_fake.devices[0].dropped = "softmax";
    struct copse_context_params p = params;
    p.no_self_test = true;
    copse_context *ctx = open_fake(&p);
    OK(get_kernel(ctx, COPSE_KERNEL_softmax, &is_blocked));
    copse_context_release(&ctx);
    setenv("COPSE_NO_SELF_TEST", "1", 1);
    ctx = open_fake(&params);
    OK(get_kernel(ctx, COPSE_KERNEL_softmax, &is_blocked));
    copse_context_release(&ctx);
    p = params;
    p.no_env = true;
    ctx = open_fake(&p);
    assert_int_equal(get_kernel(ctx, COPSE_KERNEL_softmax, &is_blocked), COPSE_ERR_UNSUPPORTED);
    assert_true(is_blocked);
    copse_context_release(&ctx);
    unsetenv("COPSE_NO_SELF_TEST");

    /* A device under test runs what it is given. */
    copse_device *dev;
    struct copse_kernel *k;
    ctx = open_fake(&params);
    OK(copse_device_open(ctx, "fake:0", NULL, &dev));
    dev->tries_blocked = true;
    OK(copse__kernel_get(dev, COPSE_KERNEL_softmax, NULL, &k));
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(honest_devices_pass, reset),
        cmocka_unit_test_setup(every_kernel_that_is_wrong_is_found, reset),
        cmocka_unit_test_setup(library_product_is_tested_once_a_layout, reset),
        cmocka_unit_test_setup(library_product_that_is_wrong_is_found, reset),
        cmocka_unit_test_setup(library_product_is_tested_where_it_gets_larger, reset),
        cmocka_unit_test_setup(library_product_has_the_same_bits, reset),
        cmocka_unit_test_setup(library_product_is_not_blamed_for_others, reset),
        cmocka_unit_test_setup(it_can_be_switched_off, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
