/* SPDX-License-Identifier: MIT */
/* Tuning: kept per device, driver and version, never believed when damaged; a device chooses by what
   was known when it was opened, among what it can run. */
#include "tests/kept.h"

#include "core/base/random.h"
#include "core/ops/column_sum.h"
#include "tests/fake_backend.h"

/* ---- a kernel cache that outlives contexts ---- */

static unsigned warnings;

static void count_warnings(void *user, copse_log_level level, const char *line)
{
    (void)user;
    warnings += level <= COPSE_LOG_WARN && strstr(line, "damaged") != NULL;
}

static const struct copse_context_params params = {
    .cache = { get_kept, keep, NULL }, .log = count_warnings,
};

static copse_context *open_fake(void)
{
    copse_context *ctx;
    OK(copse__context_create_with(&params, fake_backends, &ctx));
    return ctx;
}

static const char *driver = "maker 1.0";
static uint32_t units = 4;

static void describe(struct copse_device_info *info)
{
    snprintf(info->driver, sizeof info->driver, "%s", driver);
    info->limits.compute_units = units;
}

static int reset(void **state)
{
    (void)state;
    fake_reset();
    copse_fake.device_count = 2;
    copse_fake.devices[0].describe = describe;
    drop_kept();
    kept_prefix = "tuning-"; /* compiled kernels are not what is tested */
    warnings = 0;
    driver = "maker 1.0";
    units = 4;
    return 0;
}

static struct copse_tuning_entry make(const char *size_class, const char *variant, uint64_t rate)
{
    struct copse_tuning_entry e = { .family = "matmul", .rate = rate };
    snprintf(e.size_class, sizeof e.size_class, "%s", size_class);
    snprintf(e.variant, sizeof e.variant, "%s", variant);
    return e;
}

static void set(copse_context *ctx, const char *device, const char *size_class, const char *variant,
                uint64_t rate)
{
    const struct copse_tuning_entry e = make(size_class, variant, rate);
    OK(copse_device_tuning_set(ctx, device, &e, 1));
}

static size_t count_of(copse_context *ctx, const char *device)
{
    const struct copse_tuning_entry *list;
    size_t count;
    OK(copse_device_tuning(ctx, device, &list, &count));
    return count;
}

static size_t count_in_new_context(const char *device)
{
    copse_context *ctx = open_fake();
    const size_t count = count_of(ctx, device);
    copse_context_release(&ctx);
    return count;
}

/* ---- what is kept ---- */

static void newest_rate_counts(void **state)
{
    (void)state;
    const struct copse_tuning_entry *list;
    size_t count;
    copse_context *ctx = open_fake(), *other = open_fake();
    assert_int_equal(count_of(other, "fake:0"), 0);
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 300);
    set(other, "fake:0", "nn-32-32-128", "matmul", 500); /* as another process would */
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 200);
    assert_int_equal(count_of(ctx, "fake:0"), 3);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 0);
    set(ctx, "fake:0", "nn-32-32-32", "never_there", 0);
    OK(copse_device_tuning(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].variant, "matmul");
    assert_int_equal(list[0].rate, 200);
    assert_string_equal(list[1].size_class, "nn-32-32-128");
    copse_context_release(&ctx);
    copse_context_release(&other);
    assert_int_equal(count_in_new_context("fake:0"), 2);
    assert_int_equal(count_in_new_context("fake:1"), 0);
    driver = "maker 1.1";
    assert_int_equal(count_in_new_context("fake:0"), 0);
    driver = "maker 1.0";
    units = 8;
    assert_int_equal(count_in_new_context("fake:0"), 0);
    units = 4;
    ctx = open_fake();
    OK(copse_device_tuning_clear(ctx, "fake:0"));
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 0);
    assert_int_equal(warnings, 0);
}

static void bad_entries_are_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *family, *size_class, *variant;
        uint64_t rate;
    } bad[] = {
        { "", "a", "b", 1 },       { "a", "", "b", 1 },  { "a", "b", "", 1 },
        { "a b", "a", "b", 1 },    { "a", "b\n", "c", 1 }, { "a", "b", "C", 1 },
        { "a", "b", "c", UINT64_MAX }, { "a", "b", "c", 1000000000000001ull },
    };
    copse_context *ctx = open_fake();
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        struct copse_tuning_entry e[2] = { make("nn-32-32-32", "matmul", 7) };
        snprintf(e[1].family, sizeof e[1].family, "%s", bad[i].family);
        snprintf(e[1].size_class, sizeof e[1].size_class, "%s", bad[i].size_class);
        snprintf(e[1].variant, sizeof e[1].variant, "%s", bad[i].variant);
        e[1].rate = bad[i].rate;
        assert_int_equal(copse_device_tuning_set(ctx, "fake:0", e, 2), COPSE_ERR_ARGUMENT);
    }
    struct copse_tuning_entry endless = make("a", "b", 1);
    memset(endless.variant, 'x', sizeof endless.variant);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", &endless, 1), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", NULL, 1), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, NULL, &endless, 0), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(NULL, "fake:0", &endless, 0), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_tuning_set(ctx, "fake:7", &endless, 0), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_device_tuning_clear(ctx, "fake:7"), COPSE_ERR_NO_DEVICE);
    assert_int_equal(count_of(ctx, "fake:0"), 0);

    struct copse_tuning_entry *many = calloc(4097, sizeof *many);
    assert_non_null(many);
    for (int i = 0; i < 4097; i++) {
        char size_class[24];
        snprintf(size_class, sizeof size_class, "class-%d", i);
        many[i] = make(size_class, "matmul", 1);
    }
    assert_int_equal(copse_device_tuning_set(ctx, "fake:0", many, 4097), COPSE_ERR_ARGUMENT);
    assert_int_equal(count_of(ctx, "fake:0"), 0);
    OK(copse_device_tuning_set(ctx, "fake:0", many, 4096));
    assert_int_equal(count_of(ctx, "fake:0"), 4096);
    free(many);
    copse_context_release(&ctx);
}

/* ---- the text ---- */

static size_t save(copse_context *ctx, const char *device, char *text, size_t room)
{
    size_t needed;
    OK(copse_device_tuning_save(ctx, device, NULL, 0, &needed));
    assert_true(needed <= room);
    assert_int_equal(copse_device_tuning_save(ctx, device, text, needed - 1, &needed),
                     COPSE_ERR_ARGUMENT);
    OK(copse_device_tuning_save(ctx, device, text, room, &needed));
    assert_int_equal(strlen(text) + 1, needed);
    return needed - 1;
}

static void text_goes_to_another_machine(void **state)
{
    (void)state;
    char text[2048];
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nt-512-32-32", "matmul_wide", 1000000000000000);
    const size_t size = save(ctx, "fake:0", text, sizeof text);
    OK(copse_device_tuning_clear(ctx, "fake:0"));
    set(ctx, "fake:0", "tn-32-32-32", "matmul", 5);
    OK(copse_device_tuning_load(ctx, "fake:0", text, size));
    assert_int_equal(count_of(ctx, "fake:0"), 3);
    assert_int_equal(copse_device_tuning_load(ctx, "fake:1", text, size), COPSE_ERR_FORMAT);
    assert_int_equal(count_of(ctx, "fake:1"), 0);
    assert_int_equal(copse_device_tuning_load(ctx, "fake:0", NULL, 1), COPSE_ERR_ARGUMENT);
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 3);
}

static void damaged_store_is_ignored_with_one_warning(void **state)
{
    (void)state;
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    set(ctx, "fake:0", "nn-32-32-32", "matmul_wide", 10);
    copse_context_release(&ctx);
    assert_int_equal(kept_count, 1);
    const struct kept whole = copy_of_kept(0);
    for (size_t i = 0; i < whole.size; i++) {
        kept[0].bytes[i] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
        kept[0].size = i;
        assert_int_equal(count_in_new_context("fake:0"), 0);
        restore_kept(0, &whole);
    }
    assert_int_equal(warnings, 2 * whole.size);
    free(whole.bytes);

    kept[0].bytes[kept[0].size / 2] ^= 1;
    warnings = 0;
    ctx = open_fake();
    for (int i = 0; i < 3; i++) {
        copse_device *dev;
        OK(copse_device_open(ctx, "fake:0", NULL, &dev));
        copse_device_release(&dev);
    }
    assert_int_equal(warnings, 1);
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100); /* written anew */
    copse_context_release(&ctx);
    assert_int_equal(count_in_new_context("fake:0"), 1);
}

/* The head is right again, so that only the reader of lines stands in the way. */
static size_t with_lines(const struct kept *whole, const char *lines, size_t size, char *out)
{
    const char *body = memchr(whole->bytes, '\n', whole->size);
    const char *end = strstr(body, "\nrate ");
    const size_t own = (size_t)(end - body);
    char *copy = malloc(own + size + 1);
    assert_non_null(copy);
    memcpy(copy, body + 1, own);
    memcpy(copy + own, lines, size);
    const size_t head =
        (size_t)snprintf(out, 128, "copse-tuning 1 %zu %016llx\n", own + size,
                         (unsigned long long)copse__hash(COPSE_HASH_START, copy, own + size));
    memcpy(out + head, copy, own + size);
    free(copy);
    return head + own + size;
}

static void lines_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "rate", "rate \n", "rate a b c 1", "rate a b c\n", "rate a b c 0\n", "rate a b c 01\n",
        "rate a b c +1\n", "rate a b c -1\n", "rate a b c 1 \n", "rate a b c 1 2\n",
        "rate  a b c 1\n", "rate a b c 1.5\n", "rate a b c 1e3\n", "Rate a b c 1\n",
        "rate A b c 1\n", "rate a b c 1000000000000001\n", "rate a b c 99999999999999999999\n",
        "block softmax x\n", "\n", "rate a b c 1\n\n", "rate aaaaaaaaaaaaaaaa b c 1\n",
    };
    char text[2048];
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    const struct kept whole = copy_of_kept(0);
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        const size_t size = with_lines(&whole, bad[i], strlen(bad[i]), text);
        if (copse_device_tuning_load(ctx, "fake:0", text, size) != COPSE_ERR_FORMAT)
            fail_msg("'%s' was read", bad[i]);
    }
    const size_t size = with_lines(&whole, "rate a b c 1\n", 13, text);
    OK(copse_device_tuning_load(ctx, "fake:0", text, size));
    assert_int_equal(count_of(ctx, "fake:0"), 2);
    copse_context_release(&ctx);
    free(whole.bytes);
}

/* Random changes of good lines under a right head: read or refused, and what is read is good. */
static void changed_lines_never_do_harm(void **state)
{
    (void)state;
    static const char good[] = "rate matmul nn-32-32-32 matmul 100\n"
                               "rate matmul nn-32-32-32 matmul_wide 2000\n"
                               "rate sum 4096 reduce 77\n";
    char text[2048], lines[256];
    size_t taken = 0;
    struct copse_stream random;
    copse__stream_init(&random, 7, 1);
    copse_context *ctx = open_fake();
    set(ctx, "fake:0", "nn-32-32-32", "matmul", 100);
    const struct kept whole = copy_of_kept(0);
    for (int turn = 0; turn < 20000; turn++) {
        size_t size = sizeof good - 1;
        memcpy(lines, good, size);
        for (int changes = 1 + turn % 4; changes-- > 0;) {
            const size_t at = (size_t)(copse__stream_unit(&random) * (float)size) % size;
            const float how = copse__stream_unit(&random);
            if (how < 0.2f && size > 1) {
                memmove(lines + at, lines + at + 1, --size - at);
            } else if (how < 0.4f && size + 1 < sizeof lines) {
                memmove(lines + at + 1, lines + at, size++ - at);
            } else {
                lines[at] = (char)(unsigned char)(256.0f * copse__stream_unit(&random));
                lines[at] = how < 0.7f ? "0 \n-z_9"[(unsigned char)lines[at] % 7] : lines[at];
            }
        }
        const size_t length = with_lines(&whole, lines, size, text);
        OK(copse_device_tuning_clear(ctx, "fake:0"));
        const copse_status s = copse_device_tuning_load(ctx, "fake:0", text, length);
        assert_true(s == COPSE_OK || s == COPSE_ERR_FORMAT);
        const struct copse_tuning_entry *list;
        size_t count;
        OK(copse_device_tuning(ctx, "fake:0", &list, &count));
        assert_true(s == COPSE_OK ? count <= 4 : count == 0);
        for (size_t i = 0; i < count; i++) {
            assert_true(list[i].rate > 0 && list[i].rate <= 1000000000000000ull);
            assert_true(list[i].family[0] && list[i].size_class[0] && list[i].variant[0]);
        }
        taken += s == COPSE_OK;
    }
    assert_true(taken > 500 && taken < 19500);
    copse_context_release(&ctx);
    free(whole.bytes);
}

/* ---- what is chosen ---- */

/* The product of two matrices of ones on this device; checks the result. */
static void multiply(copse_context *ctx, copse_device *dev, uint32_t side)
{
    const size_t n = (size_t)side * side;
    float *values = malloc(n * sizeof *values);
    copse_tensor *a, *b, *y;
    copse_graph *g;
    copse_function *f;
    assert_non_null(values);
    OK(copse_graph_create(ctx, &g));
    OK(copse_input(g, "a", COPSE_F32, COPSE_SHAPE(side, side), &a));
    OK(copse_input(g, "b", COPSE_F32, COPSE_SHAPE(side, side), &b));
    OK(copse_matmul(g, a, b, false, false, &y));
    OK(copse_function_create(dev, &(struct copse_function_params){ g, &y, 1, NULL }, &f));
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
    if (at == count || !(fast == COPSE_KERNEL_matmul_wide ? list[at].limits.has_wide_vectors
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
    check_choice("opencl:0", COPSE_KERNEL_matmul_wide);
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
        .device = "fake:0", .modes = COPSE_CONFORM_TUNE, .case_name = name, .variant = "matmul",
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
        .device = "fake:0", .modes = COPSE_CONFORM_TUNE, .ops = "column_sum",
        .case_name = "256 x 32", .variant = variant,
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

/* Sums down a matrix of 300 x 10 on a device that has both kernels: true when it is the wide one. */
static bool sums_wide(copse_context *ctx, const char *id)
{
    static float x[300 * 10], sums[10];
    copse_tensor *in, *y;
    copse_device *dev;
    copse_graph *g;
    copse_function *f;
    for (size_t i = 0; i < COPSE_COUNT(x); i++)
        x[i] = (float)(i % 7);
    OK(copse_device_open(ctx, id, NULL, &dev));
    OK(copse_graph_create(ctx, &g));
    OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(300, 10), &in));
    OK(copse__column_sum(g, in, &y));
    OK(copse_function_create(dev, &(struct copse_function_params){ g, &y, 1, NULL }, &f));
    OK(copse_function_write(f, in, x));
    OK(copse_function_run(f));
    OK(copse_function_wait(f));
    OK(copse_function_read(f, 0, sums));
    for (size_t j = 0; j < 10; j++) {
        float expected = 0.0f;
        for (size_t i = 0; i < 300; i++)
            expected += x[i * 10 + j];
        assert_float_equal(sums[j], expected, 0.0f);
    }
    const bool is_wide = has_compiled(dev, COPSE_KERNEL_column_sum_wide);
    assert_true(is_wide != has_compiled(dev, COPSE_KERNEL_reduce));
    copse_function_release(&f);
    copse_graph_release(&g);
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
        cmocka_unit_test_setup(newest_rate_counts, reset),
        cmocka_unit_test_setup(bad_entries_are_refused_whole, reset),
        cmocka_unit_test_setup(text_goes_to_another_machine, reset),
        cmocka_unit_test_setup(damaged_store_is_ignored_with_one_warning, reset),
        cmocka_unit_test_setup(lines_that_are_none_are_refused, reset),
        cmocka_unit_test_setup(changed_lines_never_do_harm, reset),
        cmocka_unit_test_setup(absurd_choice_is_taken_on_opencl, reset),
        cmocka_unit_test_setup(absurd_choice_is_taken_on_vulkan, reset),
        cmocka_unit_test_setup(mode_keeps_what_was_right, reset),
        cmocka_unit_test_setup(mode_measures_sums_down_columns, reset),
        cmocka_unit_test_setup(sums_are_chosen_on_opencl, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
