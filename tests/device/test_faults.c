/* SPDX-License-Identifier: MIT */
/* core/device when things go wrong: faults of every backend function, lost devices, failing
   allocators; and kernels that are kept, or made wrong. */
#include "copse/device/conformance.h"

#include "tests/rig/fake/fault_rig.h"

/* ---- failing calls ---- */

/* A context keeps what is known of a device's kernels once it was asked for. */
static void know_blocked(copse_context *ctx, const char *id)
{
    const struct copse_blocked_kernel *list;
    const struct copse_tuning_entry *tuned;
    size_t count;
    assert_int_equal(copse_device_blocked(ctx, id, &list, &count), COPSE_OK);
    assert_int_equal(copse_device_tuning(ctx, id, &tuned, &count), COPSE_OK);
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
                know_blocked(ctx, "fake:0");
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

/* ---- kernels ---- */

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

/* Drivers compile when a kernel first runs, so a device with a new one gets more time. */
static void a_device_with_new_kernels_is_waited_for_longer(void **state)
{
    (void)state;
    const struct copse_buffer_params size = { .size = 64 };
    const uint32_t word = 0;
    copse_context *ctx = context(NULL);
    struct copse_kernel *k;
    struct life l = { 0 };
    OK(copse_device_open(ctx, "fake:0", NULL, &l.dev));
    OK(copse_queue_create(l.dev, &l.queue));
    OK(copse_buffer_create(l.dev, &size, &l.a));
    OK(copse_queue_fill(l.queue, l.a, 0, size.size, word));
    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
    FAILS(COPSE_ERR_TIMEOUT, copse_queue_finish(l.queue), "fake:0 did not answer within 120 s");
    OK(copse_queue_finish(l.queue));
    OK(copse__kernel_get(l.dev, COPSE_KERNEL_unary, NULL, &k));
    OK(copse_queue_fill(l.queue, l.a, 0, size.size, word));
    fake_fail(0, FAKE_WAIT, 1, COPSE_ERR_TIMEOUT, false);
    FAILS(COPSE_ERR_TIMEOUT, copse_queue_finish(l.queue), "fake:0 did not answer within 600 s");
    OK(copse_queue_finish(l.queue));
    end(&l);
    copse_context_release(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_fault_comes_out_and_leaves_nothing),
        TEST(a_lost_device_stays_lost_and_can_be_opened_again),
        TEST(every_failed_allocation_comes_out_and_leaves_nothing),
        TEST(compiled_kernels_are_kept_in_memory),
        TEST(a_device_with_new_kernels_is_waited_for_longer),
        TEST(one_kernel_can_be_made_wrong),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
