/* SPDX-License-Identifier: MIT */
/* Kernels that no cache has: several are compiled at once, each once, with reports of progress. The
   backend is the fake one with a driver that compiles. The kernels that it compiled are in the
   context's cache. */
#include "copse/device/compile.h"
#include "tests/rig/fake/fault_rig.h"

enum { KERNELS = 5, MOST = 64 };

static const struct copse_kernel_want wants[KERNELS] = {
    { .id = COPSE_KERNEL_unary },       { .id = COPSE_KERNEL_unary, .spec = { 1 } },
    { .id = COPSE_KERNEL_fill },        { .id = COPSE_KERNEL_unary, .spec = { 2 } },
    { .id = COPSE_KERNEL_step_scalar },
};

/* ---- a store that outlives contexts ---- */

static struct {
    copse_mutex lock;
    char keys[MOST][64];
    size_t count;
} store;

static void store_get(void *user, const char *key,
                      void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    (void)user;
    bool is_there = false;
    copse__mutex_lock(&store.lock);
    for (size_t i = 0; i < store.count; i++)
        is_there |= strcmp(store.keys[i], key) == 0;
    copse__mutex_unlock(&store.lock);
    if (is_there)
        take(to, key, 1);
}

static void store_put(void *user, const char *key, const void *bytes, size_t size)
{
    (void)user, (void)bytes, (void)size;
    copse__mutex_lock(&store.lock);
    assert_true(store.count < MOST);
    snprintf(store.keys[store.count++], sizeof store.keys[0], "%s", key);
    copse__mutex_unlock(&store.lock);
}

/* ---- a backend that compiles ---- */

static atomic_uint compiled;
static bool is_serial; /* one kernel at a time */

static void key_of(const struct copse_kernel *k, char key[64])
{
    snprintf(key, 64, "test-%s-%d", k->row->name, (int)k->spec[0]);
}

static void note(void *to, const void *bytes, size_t size)
{
    (void)bytes, (void)size;
    *(bool *)to = true;
}

static bool is_stored(const struct copse_kernel *k)
{
    char key[64];
    bool is_there = false;
    key_of(k, key);
    k->dev->base->cache.get(k->dev->base->cache.user, key, note, &is_there);
    return is_there;
}

static copse_status kernel_init(struct copse_kernel *k)
{
    char key[64];
    COPSE_TRY(copse_backend_fake.kernel_init(k));
    if (!is_stored(k)) {
        atomic_fetch_add(&compiled, 1u);
        key_of(k, key);
        k->dev->base->cache.put(k->dev->base->cache.user, key, key, 1);
    }
    return COPSE_OK;
}

static copse_status open_serial(copse_device *dev)
{
    dev->compiles_serially = is_serial;
    return copse_backend_fake.open(dev);
}

static void is_cpu(struct copse_device_info *d)
{
    d->kind = COPSE_DEVICE_CPU;
}

/* ---- reports ---- */

static struct {
    uint32_t done, total;
} reports[MOST];
static size_t report_count;

static void report(void *user, const struct copse_progress *p)
{
    (void)user;
    assert_string_equal(p->device, "fake:0");
    assert_true(report_count < MOST);
    reports[report_count].done = p->done;
    reports[report_count++].total = p->total;
}

static void expect_reports(uint32_t total)
{
    assert_int_equal(report_count, total + 1);
    for (uint32_t i = 0; i <= total; i++) {
        assert_int_equal(reports[i].done, i);
        assert_int_equal(reports[i].total, total);
    }
    report_count = 0;
}

/* ---- tests ---- */

static copse_context *open_context(bool has_store)
{
    static struct copse_backend table;
    static const struct copse_backend *list[] = { &table, NULL };
    const struct copse_context_params p = {
        .cache = { .get = has_store ? store_get : NULL, .put = has_store ? store_put : NULL },
        .progress = report,
    };
    copse_context *ctx;
    table = copse_backend_fake;
    table.is_stored = is_stored;
    table.kernel_init = kernel_init;
    table.open = open_serial;
    OK(copse__context_create_with(&p, list, &ctx));
    return ctx;
}

static int begin_fresh(void **state)
{
    fresh(state);
    store.count = 0;
    report_count = 0;
    atomic_store(&compiled, 0u);
    is_serial = false;
    return copse__mutex_init(&store.lock) == COPSE_OK ? 0 : -1;
}

static void use_all(copse_device *dev)
{
    struct copse_kernel *k;
    for (size_t i = 0; i < KERNELS; i++)
        OK(copse__kernel_get(dev, wants[i].id, wants[i].spec, &k));
}

/* A GPU: on the device itself. The next context finds everything in the store. */
static void a_gpu_compiles_each_kernel_once(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        copse_context *ctx = open_context(true);
        copse_device *dev = device(ctx);
        const uint32_t before = fake_calls(0, FAKE_KERNEL_INIT);
        copse__kernels_compile(dev, wants, KERNELS);
        if (round == 0) {
            expect_reports(KERNELS);
            assert_int_equal(fake_calls(0, FAKE_KERNEL_INIT) - before, KERNELS);
        }
        use_all(dev);
        assert_int_equal(fake_calls(0, FAKE_KERNEL_INIT) - before, KERNELS);
        assert_int_equal(atomic_load(&compiled), KERNELS);
        assert_int_equal(report_count, 0);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }
    assert_int_equal(fake_calls(0, FAKE_OPEN), 2);
    expect_balance();
}

/* A CPU: on copies of the device, and its own kernels are loaded from the store. */
static void a_cpu_compiles_on_the_device_opened_again(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = is_cpu;
    copse_context *ctx = open_context(true);
    copse_device *dev = device(ctx);
    copse__kernels_compile(dev, wants, KERNELS);
    expect_reports(KERNELS);
    assert_true(fake_calls(0, FAKE_OPEN) > 1);
    assert_int_equal(fake_calls(0, FAKE_OPEN) - fake_calls(0, FAKE_CLOSE), 1);
    assert_int_equal(atomic_load(&compiled), KERNELS);
    assert_false(copse__kernel_is_compiled(dev, copse__kernel_row(dev, COPSE_KERNEL_fill)));
    use_all(dev);
    assert_int_equal(atomic_load(&compiled), KERNELS);
    assert_int_equal(report_count, 0);
    copse__kernels_compile(dev, wants, KERNELS);
    assert_int_equal(report_count, 0);
    copse_device_release(&dev);
    copse_context_release(&ctx);
    expect_balance();
}

/* A CPU whose driver compiles one kernel at a time: on the device itself, once. */
static void a_serial_driver_compiles_on_the_device(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = is_cpu;
    is_serial = true;
    for (int round = 0; round < 2; round++) {
        copse_context *ctx = open_context(true);
        copse_device *dev = device(ctx);
        copse__kernels_compile(dev, wants, KERNELS);
        assert_int_equal(fake_calls(0, FAKE_OPEN), round + 1);
        if (round == 0)
            expect_reports(KERNELS);
        use_all(dev);
        assert_int_equal(report_count, 0);
        assert_int_equal(atomic_load(&compiled), KERNELS);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }
    assert_int_equal(report_count, 0);
    expect_balance();
}

/* It needs no cache for that. */
static void a_serial_driver_compiles_at_once_without_a_kept_cache(void **state)
{
    (void)state;
    is_serial = true;
    copse_context *ctx = open_context(false);
    copse_device *dev = device(ctx);
    copse__kernels_compile(dev, wants, KERNELS);
    expect_reports(KERNELS);
    use_all(dev);
    copse_device_release(&dev);
    assert_int_equal(report_count, 0);
    copse_context_release(&ctx);
    expect_balance();
}

/* A store that ends with the context passes nothing on: each kernel is compiled when it is used,
   and reported. */
static void a_cpu_without_a_kept_cache_compiles_one_by_one(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = is_cpu;
    copse_context *ctx = open_context(false);
    copse_device *dev = device(ctx);
    struct copse_kernel *k;
    copse__kernels_compile(dev, wants, KERNELS);
    assert_int_equal(report_count, 0);
    assert_int_equal(fake_calls(0, FAKE_OPEN), 1);
    for (size_t i = 0; i < KERNELS; i++) {
        OK(copse__kernel_get(dev, wants[i].id, wants[i].spec, &k));
        expect_reports(1);
    }
    copse_device_release(&dev);
    copse_context_release(&ctx);
    expect_balance();
}

/* A driver that fails for one kernel: the others are compiled, all are reported, and the use of
   that one fails. */
static void a_kernel_that_does_not_compile_fails_when_it_is_used(void **state)
{
    (void)state;
    struct copse_kernel *k;
    size_t failed = 0;
    for (int cpu = 0; cpu < 2; cpu++) {
        begin_fresh(state);
        copse_fake.devices[0].describe = cpu ? is_cpu : NULL;
        fake_fail(0, FAKE_KERNEL_INIT, 2, COPSE_ERR_COMPILE, false);
        copse_context *ctx = open_context(true);
        copse_device *dev = device(ctx);
        copse__kernels_compile(dev, wants, KERNELS);
        expect_reports(KERNELS);
        assert_int_equal(atomic_load(&compiled), KERNELS - 1);
        fake_fail(0, FAKE_KERNEL_INIT, 1, COPSE_ERR_COMPILE, true);
        failed = 0;
        for (size_t i = 0; i < KERNELS; i++)
            failed += copse__kernel_get(dev, wants[i].id, wants[i].spec, &k) == COPSE_ERR_COMPILE;
        assert_int_equal(failed, cpu ? KERNELS : 1);
        copse_device_release(&dev);
        copse_context_release(&ctx);
        expect_balance();
    }
}

/* The copy cannot be opened: nothing is compiled ahead, and all is reported as over. */
static void a_cpu_that_opens_once_compiles_when_kernels_are_used(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = is_cpu;
    copse_context *ctx = open_context(true);
    copse_device *dev = device(ctx);
    fake_fail(0, FAKE_OPEN, 1, COPSE_ERR_NO_DEVICE_MEMORY, true);
    copse__kernels_compile(dev, wants, KERNELS);
    assert_int_equal(report_count, 2);
    assert_int_equal(reports[1].done, KERNELS);
    assert_int_equal(atomic_load(&compiled), 0);
    use_all(dev);
    assert_int_equal(atomic_load(&compiled), KERNELS);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

/* ---- compiled elsewhere ---- */

static struct {
    size_t calls, wanted; /* kernels that it was asked for */
    size_t takes;         /* it compiles so many of them */
    size_t reports;       /* and reports so many */
} elsewhere;

/* In another context with the same store, as another process does. */
static void compile_elsewhere(void *user, const struct copse_compile_work *work)
{
    copse_context *ctx = open_context(true);
    copse_device *dev = device(ctx);
    assert_ptr_equal(user, &elsewhere);
    assert_string_equal(work->device, "fake:0");
    elsewhere.calls++;
    elsewhere.wanted += work->count;
    for (size_t i = 0; i < work->count && i < elsewhere.takes; i++)
        OK(copse_device_compile(dev, work->kernels[i]));
    for (size_t i = 0; i < elsewhere.reports; i++)
        work->done(work);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void compile_with_others(bool serial, size_t takes, size_t given)
{
    elsewhere.calls = elsewhere.wanted = 0;
    elsewhere.takes = elsewhere.reports = takes;
    is_serial = serial;
    copse_context *ctx = open_context(true);
    OK(copse_context_compile_with(ctx, compile_elsewhere, &elsewhere));
    copse_device *dev = device(ctx);
    copse__kernels_compile(dev, wants, given);
    use_all(dev);
    assert_int_equal(atomic_load(&compiled), KERNELS);
    copse_device_release(&dev);
    copse_context_release(&ctx);
    expect_balance();
}

/* Each is compiled there, is loaded here, and is reported once. */
static void others_compile_for_a_serial_driver(void **state)
{
    (void)state;
    compile_with_others(true, KERNELS, KERNELS);
    assert_int_equal(elsewhere.calls, 1);
    assert_int_equal(elsewhere.wanted, KERNELS);
}

/* What they leave out is compiled here. */
static void what_others_leave_out_is_compiled_here(void **state)
{
    compile_with_others(true, 2, KERNELS);
    assert_int_equal(elsewhere.calls, 1);
    begin_fresh(state);
    compile_with_others(true, 0, KERNELS);
    assert_int_equal(elsewhere.calls, 1);
}

/* Not for a driver that compiles several kernels at once, and not for a few kernels. */
static void others_compile_nothing_where_it_gains_nothing(void **state)
{
    compile_with_others(false, KERNELS, KERNELS);
    assert_int_equal(elsewhere.calls, 0);
    begin_fresh(state);
    compile_with_others(true, KERNELS, 3);
    assert_int_equal(elsewhere.calls, 0);
}

/* Reports: from 0 to all, also where the function says nothing or too much. */
static void progress_of_others_ends_with_all(void **state)
{
    for (size_t said = 0; said < 3 * KERNELS; said += KERNELS + 1) {
        begin_fresh(state);
        is_serial = true;
        elsewhere.takes = KERNELS;
        elsewhere.reports = said;
        copse_context *ctx = open_context(true);
        OK(copse_context_compile_with(ctx, compile_elsewhere, &elsewhere));
        copse_device *dev = device(ctx);
        copse__kernels_compile(dev, wants, KERNELS);
        assert_int_equal(reports[0].done, 0);
        for (size_t i = 0; i < report_count; i++) {
            assert_true(reports[i].done <= KERNELS);
            assert_true(i == 0 || reports[i].done >= reports[i - 1].done);
        }
        assert_int_equal(reports[report_count - 1].done, KERNELS);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }
}

static void texts_of_other_versions_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "unary",
                                         "unary 0 0 0 0 0",
                                         "unary 0 0 0 0 0 0 0",
                                         "unary 0 0 0 0 0 x",
                                         "unary 0 0 0 0 0 99999999999",
                                         "unary  0 0 0 0 0 0x1",
                                         "unar 0 0 0 0 0 0",
                                         "no_kernel 0 0 0 0 0 0" };
    copse_context *ctx = open_context(true);
    copse_device *dev = device(ctx);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(copse_device_compile(dev, texts[i]), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_compile(dev, NULL), COPSE_ERR_ARGUMENT);
    assert_int_equal(copse_device_compile(NULL, "fill 0 0 0 0 0 0"), COPSE_ERR_ARGUMENT);
    OK(copse_device_compile(dev, "fill 0 0 0 0 0 0"));
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_gpu_compiles_each_kernel_once, begin_fresh),
        cmocka_unit_test_setup(a_cpu_compiles_on_the_device_opened_again, begin_fresh),
        cmocka_unit_test_setup(a_serial_driver_compiles_on_the_device, begin_fresh),
        cmocka_unit_test_setup(a_serial_driver_compiles_at_once_without_a_kept_cache, begin_fresh),
        cmocka_unit_test_setup(a_cpu_without_a_kept_cache_compiles_one_by_one, begin_fresh),
        cmocka_unit_test_setup(a_kernel_that_does_not_compile_fails_when_it_is_used, begin_fresh),
        cmocka_unit_test_setup(a_cpu_that_opens_once_compiles_when_kernels_are_used, begin_fresh),
        cmocka_unit_test_setup(others_compile_for_a_serial_driver, begin_fresh),
        cmocka_unit_test_setup(what_others_leave_out_is_compiled_here, begin_fresh),
        cmocka_unit_test_setup(others_compile_nothing_where_it_gains_nothing, begin_fresh),
        cmocka_unit_test_setup(progress_of_others_ends_with_all, begin_fresh),
        cmocka_unit_test_setup(texts_of_other_versions_are_refused, begin_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
