/* SPDX-License-Identifier: MIT */
/* The backend contract: recorded segments, and the release of objects in use. */
#include "tests/rig/contract/contract.h"

#include <stdlib.h>

#include "core/check/check.h"

/* ---- segments ---- */

void segments_are_replayed_many_times(void **state)
{
    struct rig *r = *state;
    enum { N = 5000 };
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    float *x = floats(N);
    struct copse_segment *seg = NULL;
    struct copse_memory_stats before, after;

    struct copse_command commands[] = { negate_all(r, a, b, N), negate_all(r, a, b, 0),
                                        copy_all(b, a, N * 4) };
    OK(copse__segment_create(r->queue, commands, COPSE_COUNT(commands), &seg));
    memset(commands, 0xff, sizeof commands); /* they were copied */
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    for (int i = 0; i < 11; i++) { /* without waiting */
        OK(copse__segment_replay(seg));
        if (i % 3 == 0)
            OK(copse_queue_submit(r->queue, NULL));
    }
    expect_negated(r, a, x, N);

    copse_context_memory(r->ctx, &before);
    for (int i = 0; i < 20; i++) { /* with a wait each time, without host allocation */
        OK(copse__segment_replay(seg));
        OK(copse_queue_finish(r->queue));
    }
    copse_context_memory(r->ctx, &after);
    assert_int_equal(after.calls, before.calls);
    expect_negated(r, a, x, N);
    copse__segment_release(&seg);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void replays_are_ordered_with_what_surrounds_them(void **state)
{
    struct rig *r = *state;
    enum { N = 3000, ROUNDS = 6 };
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    float *x[ROUNDS], *got[ROUNDS];
    struct copse_segment *first = NULL, *second = NULL;

    const struct copse_command there = negate_all(r, a, b, N), back = negate_all(r, b, a, N);
    OK(copse__segment_create(r->queue, &there, 1, &first));
    OK(copse__segment_create(r->queue, &back, 1, &second));
    for (int i = 0; i < ROUNDS; i++) {
        x[i] = floats(N);
        got[i] = floats(N);
        x[i][i] = 0.25f;
        OK(copse_queue_write(r->queue, a, 0, x[i], N * 4));
        OK(copse__segment_replay(first));
        OK(copse__segment_replay(second));
        OK(copse__segment_replay(first));
        OK(copse_queue_read(r->queue, b, 0, got[i], N * 4));
        OK(copse_queue_fill(r->queue, b, 0, N * 4, 0));
    }
    OK(copse_queue_finish(r->queue));
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t j = 0; j < N; j++)
            if (got[i][j] != -x[i][j])
                fail_msg("round %d: element %zu is %g, not %g", i, j, got[i][j], -x[i][j]);
        free(x[i]);
        free(got[i]);
    }
    copse__segment_release(&first);
    copse__segment_release(&second);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void a_long_segment_keeps_its_order(void **state)
{
    struct rig *r = *state;
    enum { N = 300, COMMANDS = 401 }; /* an odd number of negations */
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    float *x = floats(N);
    struct copse_command *commands = malloc(COMMANDS * sizeof *commands);
    struct copse_segment *seg = NULL;

    for (int i = 0; i < COMMANDS; i++)
        commands[i] = i % 2 ? negate_all(r, b, a, N) : negate_all(r, a, b, N);
    OK(copse__segment_create(r->queue, commands, COMMANDS, &seg));
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    OK(copse__segment_replay(seg));
    expect_negated(r, b, x, N);
    copse__segment_release(&seg);
    free(commands);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

static size_t pieces_of(const struct copse_segment *seg)
{
    size_t pieces = 0;
    for (; seg; seg = seg->rest)
        pieces += seg->count;
    return pieces;
}

/* Recorded whole and, where the device can, in pieces. All that looks at launches finds the same
   ones, and the pieces compute what the launch does. */
void long_launches_are_cut_and_compared_whole(void **state)
{
    struct rig *r = *state;
    const uint64_t limit = r->dev->pace.submission_ns;
    const size_t n = (size_t)100 * negate(r)->group_x * negate(r)->group_y + 3;
    copse_buffer *a = rig_buffer(r, n * 4), *b = rig_buffer(r, n * 4);
    struct copse_segment *seg[2] = { NULL, NULL };
    float *x = floats(n);
    uint64_t hashes[2];
    const struct copse_command commands[] = { negate_all(r, a, b, n), copy_all(b, a, n * 4),
                                              negate_all(r, a, b, n) };
    for (int i = 0; i < 2; i++) {
        struct copse_check check = { .queue = r->queue };
        struct copse_probe probe = { .dev = NULL };
        struct copse_probe_fault fault;
        r->dev->pace.submission_ns = i ? 1 : 0;
        OK(copse__segment_create(r->queue, commands, COPSE_COUNT(commands), &seg[i]));
        if (i == 0 || !r->dev->limits->has_group_base)
            assert_int_equal(pieces_of(seg[i]), COPSE_COUNT(commands));
        else
            assert_true(pieces_of(seg[i]) > 100);

        OK(copse_queue_write(r->queue, a, 0, x, n * 4));
        OK(copse__segment_replay(seg[i]));
        expect_negated(r, a, x, n);
        check.chain.most = UINT64_MAX;
        OK(copse_queue_write(r->queue, a, 0, x, n * 4));
        OK(copse_queue_fill(r->queue, b, 0, n * 4, 0));
        OK(copse__chain_run(&check.chain, seg[i]));
        assert_false(check.chain.fault.is_found);
        assert_int_equal(check.chain.compared, COPSE_COUNT(commands));
        copse__probe_free(&check.chain.probe);

        assert_non_null(copse__probe_command(seg[i], 2));
        assert_null(copse__probe_command(seg[i], 3));
        OK(copse_queue_write(r->queue, a, 0, x, n * 4));
        OK(copse__probe_replay(&probe, seg[i], 2));
        OK(copse_queue_finish(r->queue));
        OK(copse__probe_judge(&probe, &fault));
        assert_false(fault.is_found);
        copse__probe_free(&probe);
        expect_negated(r, a, x, n);
        copse__check_hash(&check, seg[i]);
        hashes[i] = check.hash;
        copse__segment_release(&seg[i]);
    }
    assert_true(hashes[0] == hashes[1]);
    r->dev->pace.submission_ns = limit;
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void a_segment_holds_its_buffers_and_waits_on_release(void **state)
{
    struct rig *r = *state;
    enum { N = 4000 };
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4), *hold = b;
    float *x = floats(N);
    struct copse_segment *seg = NULL;

    const struct copse_command c = negate_all(r, a, b, N);
    OK(copse__segment_create(r->queue, &c, 1, &seg));
    OK(copse_queue_write(r->queue, a, 0, x, N * 4));
    copse_buffer_release(&a);
    copse_buffer_retain(hold);
    copse_buffer_release(&b);
    OK(copse__segment_replay(seg));
    OK(copse__segment_replay(seg));
    copse__segment_release(&seg); /* not submitted yet */
    expect_negated(r, hold, x, N);
    free(x);
    copse_buffer_release(&hold);
}

/* ---- release ---- */

void buffers_may_be_released_while_work_is_queued(void **state)
{
    struct rig *r = *state;
    enum { N = 20000, ROUNDS = 20 };
    float *x[ROUNDS], *got[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        x[i] = floats(N);
        got[i] = floats(N);
        x[i][1] = (float)i;
        copse_buffer *a = rig_buffer(r, N * 4), *b = NULL;
        OK(copse__buffer_acquire(r->dev, N * 4, &b));
        const struct copse_command c = negate_all(r, a, b, N);
        OK(copse_queue_write(r->queue, a, 0, x[i], N * 4));
        OK(copse__queue_encode(r->queue, &c));
        copse_buffer_release(&a);
        OK(copse_queue_read(r->queue, b, 0, got[i], N * 4));
        copse_buffer_release(&b);
        if (i % 4 == 3)
            OK(copse_queue_submit(r->queue, NULL));
    }
    OK(copse_queue_finish(r->queue));
    assert_null(r->dev->garbage);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t j = 0; j < N; j++)
            if (got[i][j] != -x[i][j])
                fail_msg("round %d: element %zu is %g, not %g", i, j, got[i][j], -x[i][j]);
        free(x[i]);
        free(got[i]);
    }
}

void any_release_order_is_legal(void **state)
{
    struct rig *r = *state;
    enum { N = 2000 };
    copse_context *ctx = rig_context();
    copse_device *dev = NULL;
    copse_queue *queue = NULL;
    copse_buffer *buf = NULL;
    uint32_t *want = words(N, 4), *got = words(N, 0);

    (void)r;
    OK(rig_open(ctx, &dev));
    copse_context_release(&ctx);
    OK(copse_queue_create(dev, &queue));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = N * 4 }, &buf));
    copse_device_release(&dev);
    OK(copse_queue_write(queue, buf, 0, want, N * 4));
    OK(copse_queue_read(queue, buf, 0, got, N * 4));
    copse_buffer_release(&buf);
    copse_queue_release(&queue); /* waits */
    expect_words(got, want, N);
    copse_queue_release(&queue); /* NULL is allowed */
    free(want);
    free(got);
}
