/* SPDX-License-Identifier: MIT */
/* Limits in time: cuts of segments and launches, which devices have them, and what a loss changes. */
#include "tests/rig/fake/fault_rig.h"

#include "core/device/pace.h"

enum { GROUPS = 100, LAUNCHES = 4 };

static void describe_gpu(struct copse_device_info *info)
{
    info->kind = COPSE_DEVICE_DISCRETE;
    info->limits.has_group_base = true;
}

static void describe_cpu(struct copse_device_info *info)
{
    info->kind = COPSE_DEVICE_CPU;
    info->limits.has_group_base = true;
}

struct work {
    copse_context *ctx;
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *buf;
    struct copse_segment *seg;
};

/* A segment of launches; with `units` of estimated work in all, the limit is that of one launch. */
static void make_work(struct work *w, void (*describe)(struct copse_device_info *), uint64_t limit)
{
    struct copse_command c[LAUNCHES];
    copse_fake.devices[0].describe = describe;
    w->ctx = context(NULL);
    w->dev = device(w->ctx);
    if (limit > 0)
        w->dev->pace.submission_ns = limit;
    struct copse_kernel *k = unary(w->dev);
    const size_t n = (size_t)GROUPS * k->group_x * k->group_y;
    const struct copse_params_unary params = { .n = (uint32_t)n };
    OK(copse_queue_create(w->dev, &w->queue));
    OK(copse_buffer_create(w->dev, &(struct copse_buffer_params){ .size = 8 * n }, &w->buf));
    const struct copse_binding bindings[] = { { w->buf, 0, 4 * n }, { w->buf, 4 * n, 4 * n } };
    for (int i = 0; i < LAUNCHES; i++)
        OK(copse__dispatch_init(&c[i], k, bindings, 2, &params, GROUPS, 0));
    OK(copse__segment_create(w->queue, c, LAUNCHES, &w->seg));
}

static void free_work(struct work *w)
{
    copse__segment_release(&w->seg);
    copse_buffer_release(&w->buf);
    copse_queue_release(&w->queue);
    copse_device_release(&w->dev);
    expect_balance();
    copse_context_release(&w->ctx);
}

/* All groups of each launch, once and in order; a piece is at most `most` groups. */
static uint32_t count_pieces(const struct work *w, uint32_t most)
{
    uint32_t pieces = 0, next = 0;
    for (const struct copse_segment *part = w->seg; part; part = part->rest)
        for (size_t i = 0; i < part->count; i++) {
            const struct copse_command *c = &part->commands[i];
            assert_int_equal(c->params[c->kernel->row->param_words], next);
            assert_true(c->groups_x * c->groups_y <= most);
            next = (next + c->groups_x * c->groups_y) % GROUPS;
            pieces++;
        }
    assert_int_equal(next, 0);
    return pieces;
}

static void only_devices_with_a_watchdog_have_limits(void **state)
{
    struct work w;
    (void)state;
    make_work(&w, describe_cpu, 0);
    assert_int_equal(w.dev->pace.submission_ns, 0);
    assert_int_equal(copse__segment_parts(w.seg), 1);
    assert_int_equal(count_pieces(&w, GROUPS), LAUNCHES);
    free_work(&w);
    fake_reset();
    make_work(&w, describe_gpu, 0);
    assert_int_equal(w.dev->pace.submission_ns, 100000000u);
    assert_int_equal(copse__segment_parts(w.seg), 1); /* far below it */
    free_work(&w);
}

static void long_launches_and_segments_are_cut(void **state)
{
    struct work w;
    (void)state;
    make_work(&w, describe_gpu, 1);
    assert_int_equal(count_pieces(&w, 1), LAUNCHES * GROUPS);
    assert_int_equal(copse__segment_parts(w.seg), LAUNCHES * GROUPS);
    free_work(&w);
}

/* Parts of 30 % of the limit: three of them are a submission. */
static void submissions_end_before_the_limit(void **state)
{
    struct work w;
    (void)state;
    make_work(&w, describe_gpu, 1);
    w.dev->pace.submission_ns = 1000;
    for (struct copse_segment *part = w.seg; part; part = part->rest) {
        part->measured = 2;
        part->ns = 300;
    }
    const uint64_t before = copse_queue_submissions(w.queue);
    OK(copse__segment_replay(w.seg));
    OK(copse_queue_finish(w.queue));
    assert_int_equal(copse_queue_submissions(w.queue) - before, (LAUNCHES * GROUPS + 2) / 3);
    free_work(&w);
}

static void new_parts_are_measured(void **state)
{
    struct work w;
    (void)state;
    make_work(&w, describe_gpu, 0);
    assert_int_equal(w.seg->measured, 0);
    for (int i = 0; i < 3; i++)
        OK(copse__segment_replay(w.seg));
    OK(copse_queue_finish(w.queue));
    assert_int_equal(w.seg->measured, 2);
    assert_true(w.seg->ns > 0 && w.seg->units > 0);
    free_work(&w);
}

/* [ps] a unit: at once slower, by and by faster, and not slower by what is mostly latency. */
static void estimates_follow_the_slowest_rate(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = describe_gpu;
    copse_context *ctx = context(NULL);
    copse_device *dev = device(ctx);
    const uint64_t first = copse__pace_estimate(dev, 1000000);
    copse__pace_note(dev, 10, 5000000); /* 5 ms */
    assert_int_equal(copse__pace_estimate(dev, 1000000), first);
    copse__pace_note(dev, 1000000, 50000000);
    assert_int_equal(copse__pace_estimate(dev, 1000000), 50000000);
    copse__pace_note(dev, 1000000, 1000);
    assert_in_range(copse__pace_estimate(dev, 1000000), 43000000, 44000000);
    copse__pace_note(dev, 1, UINT64_MAX / 2000);
    assert_int_equal(copse__pace_estimate(dev, 1), 1000);
    copse_device_release(&dev);
    copse_context_release(&ctx);
}

static void a_loss_halves_the_limits(void **state)
{
    (void)state;
    copse_fake.devices[0].describe = describe_gpu;
    copse_context *ctx = context(NULL);
    for (uint32_t losses = 0; losses < 10; losses++) {
        copse_device *dev = device(ctx);
        copse_queue *queue = NULL;
        assert_int_equal(dev->pace.submission_ns, 100000000u >> (losses < 6 ? losses : 6));
        OK(copse_queue_create(dev, &queue));
        fake_fail(0, FAKE_SUBMIT, 1, COPSE_ERR_DEVICE_LOST, false);
        assert_int_equal(copse_queue_submit(queue, NULL), COPSE_ERR_DEVICE_LOST);
        assert_int_equal(copse_queue_submit(queue, NULL), COPSE_ERR_DEVICE_LOST); /* once */
        copse_queue_release(&queue);
        copse_device_release(&dev);
    }
    copse_context_release(&ctx);
}

static void the_environment_forces_a_limit(void **state)
{
    static const struct {
        const char *text;
        uint64_t cpu, gpu;
    } rows[] = {
        { "1", 1000000, 1000000 }, { "0", 0, 0 },        { "x", 0, 100000000 },
        { "60001", 0, 100000000 }, { "", 0, 100000000 }, { "-1", 0, 100000000 },
        { "20ms", 0, 100000000 },
    };
    (void)state;
    for (size_t i = 0; i < 2 * COPSE_COUNT(rows); i++) {
        copse_fake.devices[0].describe = i % 2 ? describe_gpu : describe_cpu;
        setenv("COPSE_SUBMIT_MS", rows[i / 2].text, 1);
        copse_context *ctx = context(NULL);
        copse_device *dev = device(ctx);
        assert_int_equal(dev->pace.submission_ns, i % 2 ? rows[i / 2].gpu : rows[i / 2].cpu);
        copse_device_release(&dev);
        copse_context_release(&ctx);
    }
    unsetenv("COPSE_SUBMIT_MS");
}

int main(void)
{
    unsetenv("COPSE_SUBMIT_MS");
#define TEST(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        TEST(only_devices_with_a_watchdog_have_limits), TEST(long_launches_and_segments_are_cut),
        TEST(submissions_end_before_the_limit),         TEST(new_parts_are_measured),
        TEST(estimates_follow_the_slowest_rate),        TEST(a_loss_halves_the_limits),
        TEST(the_environment_forces_a_limit),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
