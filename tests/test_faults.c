/* SPDX-License-Identifier: MIT */
/* core/device when things go wrong, and what it decides alone: faults of every backend function,
   lost devices, failing allocators, delayed tickets, the pool, caps, folding, selectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "copse/conformance.h"
#include "tests/fake_backend.h"

#define N 256

static int fresh(void **state)
{
    (void)state;
    fake_reset();
    unsetenv("COPSE_DISABLE");
    return 0;
}

static copse_context *context(const struct copse_context_params *params)
{
    copse_context *ctx = NULL;
    assert_int_equal(copse__context_create_with(params, fake_backends, &ctx), COPSE_OK);
    return ctx;
}

static copse_device *device(copse_context *ctx)
{
    copse_device *dev = NULL;
    assert_int_equal(copse_device_open(ctx, "fake:0", NULL, &dev), COPSE_OK);
    return dev;
}

static struct copse_kernel *unary(copse_device *dev)
{
    struct copse_kernel *k = NULL;
    assert_int_equal(copse__kernel_get(dev, COPSE_KERNEL_unary, NULL, &k), COPSE_OK);
    return k;
}

/* ---- a life with everything in it ---- */

struct life {
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *a, *b;
    struct copse_segment *seg;
    float x[N], y[N];
};

static copse_status begin(struct life *l, copse_context *ctx)
{
    struct copse_kernel *k = NULL;
    struct copse_command c;
    const struct copse_buffer_params size = { .size = sizeof l->x };

    for (int i = 0; i < N; i++)
        l->x[i] = (float)i;
    COPSE_TRY(copse_device_open(ctx, "fake:0", NULL, &l->dev));
    COPSE_TRY(copse_queue_create(l->dev, &l->queue));
    COPSE_TRY(copse_buffer_create(l->dev, &size, &l->a));
    COPSE_TRY(copse__buffer_acquire(l->dev, size.size, &l->b));
    COPSE_TRY(copse__kernel_get(l->dev, COPSE_KERNEL_unary, NULL, &k));
    COPSE_TRY(copse__dispatch_init(
        &c, k, (struct copse_binding[]){ { l->a, 0, size.size }, { l->b, 0, size.size } }, 2,
        &(struct copse_params_unary){ .n = N }, 1, 0));
    COPSE_TRY(copse__segment_create(l->queue, &c, 1, &l->seg));
    return COPSE_OK;
}

static copse_status go_on(struct life *l)
{
    uint64_t free_bytes, total;
    COPSE_TRY(copse_device_memory(l->dev, &free_bytes, &total));
    COPSE_TRY(copse_queue_write(l->queue, l->a, 0, l->x, sizeof l->x));
    COPSE_TRY(copse_queue_fill(l->queue, l->b, 0, sizeof l->y, 0));
    COPSE_TRY(copse__segment_replay(l->seg));
    COPSE_TRY(copse_queue_read(l->queue, l->b, 0, l->y, sizeof l->y));
    return copse_queue_finish(l->queue);
}

static void end(struct life *l)
{
    copse_device_release(&l->dev);
    copse_buffer_release(&l->b);
    copse__segment_release(&l->seg);
    copse_buffer_release(&l->a);
    copse_queue_release(&l->queue);
}

static void expect_balance(void)
{
    static const enum fake_fn pairs[][2] = { { FAKE_OPEN, FAKE_CLOSE },
                                             { FAKE_BUFFER_INIT, FAKE_BUFFER_FINI },
                                             { FAKE_KERNEL_INIT, FAKE_KERNEL_FINI },
                                             { FAKE_QUEUE_INIT, FAKE_QUEUE_FINI },
                                             { FAKE_SEGMENT_INIT, FAKE_SEGMENT_FINI } };
    for (size_t i = 0; i < COPSE_COUNT(pairs); i++)
        assert_int_equal(fake_calls(0, pairs[i][0]), fake_calls(0, pairs[i][1]));
    assert_int_equal(copse_fake.early_fini, 0);
}

/* A context keeps the list of blocked kernels of a device once it was asked for. */
static void know_verdicts(copse_context *ctx, const char *id)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    assert_int_equal(copse_device_blocked(ctx, id, &list, &count), COPSE_OK);
}

static size_t live(copse_context *ctx)
{
    struct copse_memory_stats stats;
    copse_context_memory(ctx, &stats);
    return stats.live_blocks;
}

static void every_fault_comes_out_and_leaves_nothing(void **state)
{
    (void)state;
    static const copse_status codes[] = { COPSE_ERR_NO_DEVICE_MEMORY, COPSE_ERR_DEVICE_LOST,
                                          COPSE_ERR_COMPILE };
    for (int fn = FAKE_OPEN; fn < FAKE_FN_COUNT; fn++)
        for (size_t code = 0; code < COPSE_COUNT(codes); code++)
            for (uint32_t n = 1; n <= 2; n++) {
                fake_reset();
                copse_context *ctx = context(NULL);
                know_verdicts(ctx, "fake:0");
                const size_t before = live(ctx);
                struct life l = { 0 };
                fake_fail(0, (enum fake_fn)fn, n, codes[code], true);
                copse_status s = begin(&l, ctx);
                if (!s)
                    s = go_on(&l);
                const uint32_t calls = fake_calls(0, (enum fake_fn)fn);
                const bool has_status = fn != FAKE_CLOSE && fn != FAKE_BUFFER_FINI &&
                                        fn != FAKE_KERNEL_FINI && fn != FAKE_QUEUE_FINI &&
                                        fn != FAKE_SEGMENT_FINI;
                if (has_status && calls >= n && s != codes[code])
                    fail_msg("function %d, call %u: %s instead of %s", fn, n, copse_status_name(s),
                             copse_status_name(codes[code]));
                if (s)
                    assert_non_null(strstr(copse_last_error(), "fake: fault"));
                memset(copse_fake.devices[0].faults, 0, sizeof copse_fake.devices[0].faults);
                end(&l);
                expect_balance();
                assert_int_equal(live(ctx), before);
                copse_context_release(&ctx);
            }
}

static void a_lost_device_stays_lost_and_can_be_opened_again(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    struct life l = { 0 }, again = { 0 };
    copse_buffer *buf = NULL;
    copse_queue *queue = NULL;

    assert_int_equal(begin(&l, ctx), COPSE_OK);
    assert_int_equal(go_on(&l), COPSE_OK);
    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_DEVICE_LOST, false);
    assert_int_equal(go_on(&l), COPSE_ERR_DEVICE_LOST);

    uint32_t calls = 0, later = 0;
    for (int fn = 0; fn < FAKE_FN_COUNT; fn++)
        calls += fake_calls(0, (enum fake_fn)fn);
    assert_int_equal(go_on(&l), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse_queue_write(l.queue, l.a, 0, l.x, 4), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse_queue_write(l.queue, l.a, 0, l.x, 0), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse_queue_wait(l.queue, 1, 0), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse_queue_submit(l.queue, NULL), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse__segment_replay(l.seg), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse_queue_create(l.dev, &queue), COPSE_ERR_DEVICE_LOST);
    assert_int_equal(copse__buffer_acquire(l.dev, 4, &buf), COPSE_ERR_DEVICE_LOST);
    assert_non_null(strstr(copse_last_error(), "open it again"));
    for (int fn = 0; fn < FAKE_FN_COUNT; fn++)
        later += fake_calls(0, (enum fake_fn)fn);
    assert_int_equal(later, calls); /* the backend hears nothing of it */

    assert_int_equal(begin(&again, ctx), COPSE_OK); /* while the lost one is still there */
    end(&l);
    assert_int_equal(go_on(&again), COPSE_OK);
    end(&again);
    expect_balance();
    copse_context_release(&ctx);
}

/* ---- failing allocators ---- */

static unsigned allocations_left;
static size_t blocks;

static void *scarce(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        blocks -= block != NULL;
        free(block);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    blocks += block == NULL;
    return realloc(block, size);
}

static void every_failed_allocation_comes_out_and_leaves_nothing(void **state)
{
    (void)state;
    const struct copse_context_params params = { .resize = scarce };
    unsigned n;
    for (n = 0; n < 100; n++) {
        copse_context *ctx = NULL;
        struct life l = { 0 };
        allocations_left = n;
        copse_status s = copse__context_create_with(&params, fake_backends, &ctx);
        if (!s)
            s = begin(&l, ctx);
        if (!s)
            s = go_on(&l);
        const bool is_through = allocations_left > 0 && !s;
        if (s && s != COPSE_ERR_NO_MEMORY && s != COPSE_ERR_NO_DEVICE_MEMORY)
            fail_msg("allocation %u: %s", n, copse_last_error());
        end(&l);
        copse_context_release(&ctx);
        assert_int_equal(blocks, 0);
        if (is_through)
            break;
    }
    assert_in_range(n, 10, 99);
    expect_balance();
}

/* ---- tickets, garbage, pool ---- */

static void released_buffers_outlive_queued_work(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_polls = 2;
    copse_device *dev = device(ctx);
    copse_queue *queue = NULL, *other = NULL;
    copse_buffer *buf = NULL;
    uint64_t ticket;

    assert_int_equal(copse_queue_create(dev, &queue), COPSE_OK);
    assert_int_equal(copse_queue_create(dev, &other), COPSE_OK);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf),
                     COPSE_OK);
    assert_int_equal(copse_queue_fill(queue, buf, 0, 64, 1), COPSE_OK);
    copse_buffer_release(&buf);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_submit(queue, &ticket), COPSE_OK);
    assert_int_equal(copse_queue_finish(other), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_ERR_TIMEOUT);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_ERR_TIMEOUT);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 0);
    assert_int_equal(copse_queue_wait(queue, ticket, 0), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);

    /* A caller that only ever submits gets its memory back too. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(
            copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf), COPSE_OK);
        assert_int_equal(copse_queue_fill(queue, buf, 0, 64, 1), COPSE_OK);
        copse_buffer_release(&buf);
        assert_int_equal(copse_queue_submit(queue, NULL), COPSE_OK);
    }
    assert_true(fake_calls(0, FAKE_BUFFER_FINI) >= 5);
    copse_queue_release(&other);
    copse_queue_release(&queue);
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

static void a_new_queue_in_an_old_place_holds_nothing_up(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_polls = 1;
    copse_device *dev = device(ctx);
    copse_queue *first = NULL, *second = NULL;
    copse_buffer *buf = NULL;

    assert_int_equal(copse_queue_create(dev, &first), COPSE_OK);
    assert_int_equal(copse_queue_create(dev, &second), COPSE_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(copse_queue_finish(first), COPSE_OK);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 64 }, &buf),
                     COPSE_OK);
    assert_int_equal(copse_queue_fill(second, buf, 0, 64, 1), COPSE_OK);
    copse_buffer_release(&buf); /* remembers ticket 5 of the first queue */
    copse_queue_release(&first);
    assert_int_equal(copse_queue_create(dev, &first), COPSE_OK);
    assert_int_equal(copse_queue_finish(second), COPSE_OK);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);
    copse_queue_release(&first);
    copse_queue_release(&second);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void waits_end_at_their_deadline_and_reads_land_with_their_ticket(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_fake.devices[0].delay_ns = 50000000;
    struct life l = { 0 };
    uint64_t ticket;

    assert_int_equal(begin(&l, ctx), COPSE_OK);
    assert_int_equal(copse_queue_fill(l.queue, l.a, 0, sizeof l.x, 7), COPSE_OK);
    assert_int_equal(copse_queue_read(l.queue, l.a, 0, l.y, sizeof l.y), COPSE_OK);
    assert_int_equal(copse_queue_submit(l.queue, &ticket), COPSE_OK);
    const uint64_t start = copse__now_ns();
    assert_int_equal(copse_queue_wait(l.queue, ticket, 5000000), COPSE_ERR_TIMEOUT);
    assert_true(copse__now_ns() - start < 40000000);
    assert_true(l.y[0] == 0.0f);
    assert_int_equal(copse_queue_wait(l.queue, ticket, 5000000000ull), COPSE_OK);
    uint32_t word;
    memcpy(&word, l.y, sizeof word);
    assert_int_equal(word, 7);
    end(&l);
    copse_context_release(&ctx);
}

static void the_pool_gives_the_same_memory_again(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    copse_buffer *buf = NULL, *first;
    struct copse_memory_stats stats;

    for (size_t size = 4; size < 5000000; size += 1 + size / 3) {
        assert_int_equal(copse__buffer_acquire(dev, size, &buf), COPSE_OK);
        assert_true(copse_buffer_size(buf) >= size && copse_buffer_size(buf) % 4 == 0);
        assert_true(copse_buffer_size(buf) <= size + size / 4 + 256);
        first = buf;
        copse_buffer_release(&buf);
        assert_int_equal(copse__buffer_acquire(dev, size, &buf), COPSE_OK);
        assert_ptr_equal(buf, first);
        copse_buffer_release(&buf);
    }
    copse_context_memory(ctx, &stats);
    assert_true(stats.device_allocations == fake_calls(0, FAKE_BUFFER_INIT));

    /* Buffers made by hand are freed at once. */
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 256 }, &buf),
                     COPSE_OK);
    copse_buffer_release(&buf);
    assert_int_equal(fake_calls(0, FAKE_BUFFER_FINI), 1);

    /* A full device gets the pool back first. */
    assert_non_null(dev->pool);
    fake_fail(0, FAKE_BUFFER_INIT, 1, COPSE_ERR_NO_DEVICE_MEMORY, false);
    assert_int_equal(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 256 }, &buf),
                     COPSE_OK);
    assert_null(dev->pool);
    copse_buffer_release(&buf);
    fake_fail(0, FAKE_BUFFER_INIT, 1, COPSE_ERR_NO_DEVICE_MEMORY, true);
    assert_int_equal(copse__buffer_acquire(dev, 256, &buf), COPSE_ERR_NO_DEVICE_MEMORY);
    assert_non_null(strstr(copse_last_error(), "256 bytes on fake:0"));
    copse_device_release(&dev);
    expect_balance();
    copse_context_release(&ctx);
}

/* ---- limits ---- */

static void small(struct copse_device_info *info)
{
    info->limits.max_group_count = 100;
    info->limits.max_group_size = 96;
    info->limits.offset_alignment = 256;
    info->limits.max_buffer_bytes = (1 << 20) + 3;
    info->limits.has_group_base = true;
}

static void groups_are_folded_without_overlap(void **state)
{
    (void)state;
    static const struct {
        uint64_t groups;
        uint32_t x, y;
    } rows[] = { { 0, 0, 0 }, { 1, 1, 1 }, { 100, 100, 1 }, { 101, 51, 2 }, { 250, 84, 3 },
                 { 300, 100, 3 }, { 9999, 100, 100 }, { 10000, 100, 100 } };
    copse_fake.devices[0].describe = small;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    struct copse_kernel *k = unary(dev);
    struct copse_command c;
    const struct copse_binding none[2] = { { 0 } };
    const struct copse_params_unary params = { .n = 77 };

    assert_true(k->group_x * k->group_y <= 96 && k->group_x * k->group_y >= 48);
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, rows[i].groups, 5),
                         COPSE_OK);
        assert_int_equal(c.groups_x, rows[i].x);
        assert_int_equal(c.groups_y, rows[i].y);
        assert_int_equal(c.params[0], 77);
        assert_int_equal(c.params[k->row->param_words], 5);
    }
    assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, 10001, 0),
                     COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse__dispatch_init(&c, k, none, 2, &params, 100, UINT32_MAX - 50),
                     COPSE_ERR_UNSUPPORTED);
    assert_int_equal(copse__dispatch_init(&c, k, none, 1, &params, 1, 0), COPSE_ERR_ARGUMENT);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void large(struct copse_device_info *info)
{
    info->limits.max_group_size = 1024;
    info->limits.group_memory_bytes = 1 << 20;
    info->limits.offset_alignment = 1;
    info->limits.max_bindings = 64;
    info->limits.max_buffer_bytes = 1u << 30;
    info->limits.max_binding_bytes = UINT32_MAX;
}

static void wide(struct copse_device_info *info)
{
    info->limits.offset_alignment = 1024;
}

static void tiny(struct copse_device_info *info)
{
    info->limits.max_binding_bytes = 4096;
}

static void limits_are_capped_and_poor_devices_rejected(void **state)
{
    (void)state;
    copse_fake.device_count = 3;
    copse_fake.devices[0].describe = large;
    copse_fake.devices[1].describe = wide;
    copse_fake.devices[2].describe = tiny;
    copse_context *ctx = context(NULL);
    const struct copse_device_info *d;
    size_t count;
    copse_device *dev = NULL;

    copse_context_devices(ctx, &d, &count);
    assert_int_equal(count, 4);
    assert_int_equal(d[0].limits.max_group_size, 256);
    assert_int_equal(d[0].limits.group_memory_bytes, 32 * 1024);
    assert_int_equal(d[0].limits.offset_alignment, 4);
    assert_int_equal(d[0].limits.max_bindings, COPSE_MAX_BINDINGS);
    assert_int_equal(d[0].limits.max_binding_bytes, 1u << 30);
    assert_false(d[1].is_usable);
    assert_non_null(strstr(d[1].reason, "1024"));
    assert_false(d[2].is_usable);
    assert_int_equal(copse_device_open(ctx, "fake:1", NULL, &dev), COPSE_ERR_NO_DEVICE);
    assert_non_null(strstr(copse_last_error(), "multiples of 1024"));
    assert_string_equal(d[3].id, "host:0");
    copse_context_release(&ctx);
}

/* ---- the list of devices ---- */

static void gpu_a(struct copse_device_info *info)
{
    info->has_uuid = true;
    info->uuid[0] = 1;
}

static void broken_gpu_a(struct copse_device_info *info)
{
    gpu_a(info);
    info->is_usable = false;
    snprintf(info->reason, sizeof info->reason, "no shaders");
}

static void gpu_b_at_pci_7(struct copse_device_info *info)
{
    info->has_uuid = info->has_pci = true;
    info->uuid[0] = 2;
    info->pci[1] = 7;
}

static void gpu_at_pci_7(struct copse_device_info *info)
{
    info->has_pci = true;
    info->pci[1] = 7;
}

static void cpu_at_pci_7(struct copse_device_info *info)
{
    gpu_at_pci_7(info);
    info->kind = COPSE_DEVICE_CPU;
}

static void expect_selection(copse_context *ctx, const char *selector, const char *want)
{
    char ids[8][32], got[300] = "";
    size_t count = 0;
    if (copse_select_devices(ctx, selector, ids, 8, &count))
        fail_msg("%s: %s", selector, copse_last_error());
    for (size_t i = 0; i < count; i++) {
        strcat(got, i ? " " : "");
        strcat(got, ids[i]);
    }
    assert_string_equal(got, want);
}

static void selectors_choose_devices(void **state)
{
    (void)state;
    static void (*const devices[])(struct copse_device_info *) = {
        cpu_at_pci_7, broken_gpu_a, gpu_a, gpu_b_at_pci_7, gpu_a, gpu_at_pci_7, cpu_at_pci_7
    };
    static const int same_as[] = { -1, -1, 1, -1, 1, 3, -1, -1 };
    char ids[1][32];
    size_t count;
    const struct copse_device_info *d;

    copse_fake.device_count = COPSE_COUNT(devices);
    for (size_t i = 0; i < COPSE_COUNT(devices); i++)
        copse_fake.devices[i].describe = devices[i];
    copse_context *ctx = context(NULL);
    copse_context_devices(ctx, &d, &count);
    assert_int_equal(count, COPSE_COUNT(same_as));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(d[i].same_as, same_as[i]);

    expect_selection(ctx, "auto", "fake:2 fake:3");
    expect_selection(ctx, NULL, "fake:2 fake:3");
    expect_selection(ctx, "all", "fake:0 fake:2 fake:3 fake:4 fake:5 fake:6");
    expect_selection(ctx, "host", "host:0");
    expect_selection(ctx, "host:0, fake:3,host:0", "host:0 fake:3 host:0");

    assert_int_equal(copse_select_devices(ctx, "fake:1", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_non_null(strstr(copse_last_error(), "no shaders"));
    assert_int_equal(copse_select_devices(ctx, "fake:99", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_select_devices(ctx, "vulkan", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    assert_int_equal(copse_select_devices(ctx, "all", ids, 1, &count), COPSE_ERR_ARGUMENT);
    static const char *const unreadable[] = { "some", "fake:", ":0", "fake:x", "fake:0,",
                                              ",fake:0", "fake:0 fake:2", "fake:-1" };
    for (size_t i = 0; i < COPSE_COUNT(unreadable); i++)
        assert_int_equal(copse_select_devices(ctx, unreadable[i], ids, 1, &count),
                         COPSE_ERR_ARGUMENT);
    copse_context_release(&ctx);

    fake_reset();
    copse_fake.device_count = 2;
    copse_fake.devices[0].describe = copse_fake.devices[1].describe = cpu_at_pci_7;
    ctx = context(NULL);
    expect_selection(ctx, "auto", "fake:0 fake:1");
    copse_context_release(&ctx);
    copse_fake.device_count = 0;
    ctx = context(NULL);
    expect_selection(ctx, "auto", "host:0");
    assert_int_equal(copse_select_devices(ctx, "all", ids, 1, &count), COPSE_ERR_NO_DEVICE);
    copse_context_release(&ctx);
}

static size_t device_count(copse_context *ctx)
{
    const struct copse_device_info *d;
    size_t count;
    copse_context_devices(ctx, &d, &count);
    return count;
}

static void backends_can_be_disabled(void **state)
{
    (void)state;
    const struct copse_backend_info *b;
    size_t count;
    copse_context *ctx = context(&(struct copse_context_params){ .disable = " vulkan, fake" });
    assert_int_equal(device_count(ctx), 1);
    copse_context_backends(ctx, &b, &count);
    assert_int_equal(count, 2);
    assert_false(b[0].is_loaded);
    assert_string_equal(b[0].detail, "disabled by the application");
    assert_true(b[1].is_loaded);
    copse_context_release(&ctx);

    setenv("COPSE_DISABLE", "fake,host,nothing", 1);
    ctx = context(NULL);
    assert_int_equal(device_count(ctx), 1);
    copse_context_backends(ctx, &b, &count);
    assert_string_equal(b[0].detail, "disabled by COPSE_DISABLE");
    copse_context_release(&ctx);
    ctx = context(&(struct copse_context_params){ .no_env = true });
    assert_int_equal(device_count(ctx), 2);
    copse_context_release(&ctx);
    assert_int_equal(fake_calls(0, FAKE_LIST), 1);

    static const char *const wrong[] = { "opengl", "host", "fake,fak" };
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        assert_int_equal(copse__context_create_with(
                             &(struct copse_context_params){ .disable = wrong[i] }, fake_backends,
                             &ctx),
                         COPSE_ERR_ARGUMENT);
        assert_null(ctx);
    }
}

static char warning[300];

static void keep_warning(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN)
        snprintf(warning, sizeof warning, "%s", line);
}

static void a_backend_that_fails_hides_no_other(void **state)
{
    (void)state;
    const struct copse_backend_info *b;
    size_t count;
    fake_fail(0, FAKE_LIST, 1, COPSE_ERR_INTERNAL, false);
    copse_context *ctx = context(&(struct copse_context_params){ .log = keep_warning });
    copse_context_backends(ctx, &b, &count);
    assert_non_null(strstr(b[0].detail, "fake: fault"));
    assert_non_null(strstr(warning, "fake: fault"));
    expect_selection(ctx, "auto", "host:0");
    copse_context_release(&ctx);
}

/* ---- the rest ---- */

static void take_bytes(void *to, const void *bytes, size_t size)
{
    memcpy(to, bytes, COPSE_MIN(size, 16));
}

static void compiled_kernels_are_kept_in_memory(void **state)
{
    (void)state;
    allocations_left = 100;
    copse_context *ctx = context(&(struct copse_context_params){ .resize = scarce });
    const struct copse_cache_params *c = &ctx->base.cache;
    char got[16] = "nothing";

    c->get(c->user, "a", take_bytes, got);
    assert_string_equal(got, "nothing");
    c->put(c->user, "a", "one", 4);
    c->put(c->user, "b", "two", 4);
    c->put(c->user, "a", "three", 6);
    c->put(c->user, "empty", "", 0);
    c->get(c->user, "a", take_bytes, got);
    assert_string_equal(got, "three");
    c->get(c->user, "b", take_bytes, got);
    assert_string_equal(got, "two");
    allocations_left = 0;
    c->put(c->user, "b", "three", 6); /* no memory: the old one stays */
    c->get(c->user, "b", take_bytes, got);
    assert_string_equal(got, "two");
    copse_context_release(&ctx);
    assert_int_equal(blocks, 0);
}

static void one_kernel_can_be_made_wrong(void **state)
{
    (void)state;
    copse_context *ctx = context(NULL);
    struct life l = { 0 };
    assert_int_equal(begin(&l, ctx), COPSE_OK);
    copse_fake.devices[0].perturb = "no_such_kernel";
    assert_int_equal(go_on(&l), COPSE_OK);
    assert_true(l.y[3] == -3.0f);
    copse_fake.devices[0].perturb = "unary";
    assert_int_equal(go_on(&l), COPSE_OK);
    assert_true(l.y[0] == 0.0f);
    uint32_t word;
    memcpy(&word, &l.y[3], sizeof word);
    assert_int_equal(word, 0xc0400001);
    end(&l);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup(f, fresh)
        TEST(every_fault_comes_out_and_leaves_nothing),
        TEST(a_lost_device_stays_lost_and_can_be_opened_again),
        TEST(every_failed_allocation_comes_out_and_leaves_nothing),
        TEST(released_buffers_outlive_queued_work),
        TEST(a_new_queue_in_an_old_place_holds_nothing_up),
        TEST(waits_end_at_their_deadline_and_reads_land_with_their_ticket),
        TEST(the_pool_gives_the_same_memory_again),
        TEST(groups_are_folded_without_overlap),
        TEST(limits_are_capped_and_poor_devices_rejected),
        TEST(selectors_choose_devices),
        TEST(backends_can_be_disabled),
        TEST(a_backend_that_fails_hides_no_other),
        TEST(compiled_kernels_are_kept_in_memory),
        TEST(one_kernel_can_be_made_wrong),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
