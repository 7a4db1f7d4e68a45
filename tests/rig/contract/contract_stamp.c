/* SPDX-License-Identifier: MIT */
/* The backend contract: stamps of the device's clock. */
#include "tests/rig/contract/contract.h"

#include <stdlib.h>

#include "copse/device/trace.h"

/* Whether the device has a clock; else the reason is printed. */
static bool has_clock(struct rig *r)
{
    uint64_t stamp;
    const copse_status s = copse_queue_stamp(r->queue, &stamp);
    if (s == COPSE_ERR_UNSUPPORTED)
        return false;
    OK(s);
    OK(copse_queue_finish(r->queue));
    return true;
}

/* Two halves of the work add up to the whole, which fits into the host's time around it. */
void stamps_are_ordered_and_fit_the_hosts_time(void **state)
{
    struct rig *r = *state;
    enum { N = 1 << 20 };
    uint64_t stamps[3];
    double first, second, whole;
    if (!has_clock(r))
        SKIP("it has no clock that queues can read");
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    struct copse_segment *seg = NULL;
    const struct copse_command commands[] = { negate_all(r, a, b, N), negate_all(r, b, a, N) };
    OK(copse__segment_create(r->queue, commands, COPSE_COUNT(commands), &seg));
    OK(copse_queue_fill(r->queue, a, 0, N * 4, 0x3f800000u));
    OK(copse__segment_replay(seg)); /* drivers compile when kernels first run */
    OK(copse_queue_finish(r->queue));
    const uint64_t start = copse__now_ns();
    OK(copse_queue_stamp(r->queue, &stamps[0]));
    OK(copse__segment_replay(seg));
    OK(copse_queue_stamp(r->queue, &stamps[1]));
    OK(copse__queue_encode(r->queue, &commands[0]));
    OK(copse_queue_stamp(r->queue, &stamps[2]));
    OK(copse_queue_finish(r->queue));
    const double host = (double)(copse__now_ns() - start) * 1e-9;
    OK(copse_queue_elapsed(r->queue, stamps[0], stamps[1], &first));
    OK(copse_queue_elapsed(r->queue, stamps[1], stamps[2], &second));
    OK(copse_queue_elapsed(r->queue, stamps[0], stamps[2], &whole));
    assert_true(first > 0 && second > 0);
    assert_float_equal(first + second, whole, 1e-9 + 1e-6 * whole);
    assert_true(whole <= host * 1.01);
    copse__segment_release(&seg);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void stamps_that_are_not_known_are_refused(void **state)
{
    struct rig *r = *state;
    uint64_t stamp, newest;
    double seconds;
    if (!has_clock(r))
        SKIP("it has no clock that queues can read");
    OK(copse_queue_stamp(r->queue, &stamp));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_elapsed(r->queue, stamp, stamp, &seconds),
          "not complete");
    OK(copse_queue_finish(r->queue));
    OK(copse_queue_elapsed(r->queue, stamp, stamp, &seconds));
    assert_true(!(seconds > 0));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_elapsed(r->queue, stamp, stamp + 1, &seconds),
          "not complete");
    for (int i = 0; i < COPSE_STAMPS; i++)
        OK(copse_queue_stamp(r->queue, &newest));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_stamp(r->queue, &newest), "wait");
    OK(copse_queue_finish(r->queue));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_elapsed(r->queue, stamp, newest, &seconds), "came after");
    OK(copse_queue_elapsed(r->queue, newest - COPSE_STAMPS + 1, newest, &seconds));
}

/* Replays with a trace and without one, and how many spans the trace has. */
static uint64_t replay_traced(struct rig *r, bool is_traced, uint32_t *out, size_t n)
{
    enum { ROUNDS = 40 }; /* with more stamps than there are slots */
    struct copse_trace_summary s = { .events = 0 };
    copse_buffer *a = rig_buffer(r, n * 4), *b = rig_buffer(r, n * 4);
    float *x = floats(n);
    struct copse_segment *seg = NULL;
    const struct copse_command commands[] = { negate_all(r, a, b, n), copy_all(b, a, n * 4) };
    OK(copse__segment_create(r->queue, commands, COPSE_COUNT(commands), &seg));
    if (is_traced)
        OK(copse_trace_start(r->ctx, &(struct copse_trace_params){ .path = NULL }));
    OK(copse_queue_write(r->queue, a, 0, x, n * 4));
    for (int i = 0; i < ROUNDS; i++) {
        OK(copse__segment_replay(seg));
        for (int k = 0; k < i; k++)
            OK(copse__segment_replay(seg));
        OK(copse_queue_submit(r->queue, NULL));
    }
    read_now(r->queue, a, 0, out, n * 4);
    if (is_traced)
        OK(copse_trace_stop(r->ctx, &s));
    copse__segment_release(&seg);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    return s.events;
}

void a_trace_of_the_devices_clock_changes_no_bit(void **state)
{
    struct rig *r = *state;
    enum { N = 5000 };
    uint32_t *with = words(N, 1), *without = words(N, 2);
    assert_int_equal(replay_traced(r, false, without, N), 0);
    assert_true(replay_traced(r, true, with, N) > 0);
    expect_words(with, without, N);
    free(with);
    free(without);
}
