/* SPDX-License-Identifier: MIT */
/* The backend contract: the order of commands and queues, tickets, kernels. */
#include "tests/rig/contract/contract.h"

#include <stdlib.h>

/* ---- order ---- */

void dependent_commands_run_in_order(void **state)
{
    struct rig *r = *state;
    for (uint32_t seed = 0; seed < 4; seed++)
        run_mixture(r->queue, r, seed, 150);
}

void tickets_grow_and_are_reached_in_order(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = rig_buffer(r, MIB);
    uint64_t tickets[5];

    for (uint32_t i = 0; i < 5; i++) {
        OK(copse_queue_fill(r->queue, buf, 0, MIB, i));
        OK(copse_queue_submit(r->queue, &tickets[i]));
        assert_true(i == 0 || tickets[i] > tickets[i - 1]);
    }
    const copse_status asked = copse_queue_wait(r->queue, tickets[4], 0);
    assert_true(asked == COPSE_OK || asked == COPSE_ERR_TIMEOUT);
    OK(copse_queue_wait(r->queue, tickets[4], LONG_NS));
    for (int i = 0; i < 5; i++)
        OK(copse_queue_wait(r->queue, tickets[i], 0));
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_wait(r->queue, tickets[4] + 1, 0), "not given out");
    copse_buffer_release(&buf);
}

void asking_becomes_true_without_waiting(void **state)
{
    struct rig *r = *state;
    copse_buffer *buf = rig_buffer(r, 64);
    uint64_t ticket;
    OK(copse_queue_fill(r->queue, buf, 0, 64, 5));
    OK(copse_queue_submit(r->queue, &ticket));
    const uint64_t deadline = copse__now_ns() + LONG_NS;
    copse_status s;
    while ((s = copse_queue_wait(r->queue, ticket, 0)) == COPSE_ERR_TIMEOUT) {
        assert_true(copse__now_ns() < deadline);
        copse__sleep_ns(100000);
    }
    OK(s);
    copse_buffer_release(&buf);
}

void two_queues_work_and_wait_for_each_other(void **state)
{
    struct rig *r = *state;
    enum { N = 100000 };
    copse_queue *second = NULL;
    copse_buffer *a = rig_buffer(r, N * 4), *b = rig_buffer(r, N * 4);
    float *x = floats(N), *got = floats(N);
    uint64_t ticket;

    OK(copse_queue_create(r->dev, &second));
    for (int round = 0; round < 5; round++) {
        x[7] = (float)round;
        const struct copse_command c = negate_all(r, a, b, N);
        OK(copse_queue_write(r->queue, a, 0, x, N * 4));
        OK(copse__queue_encode(r->queue, &c));
        OK(copse_queue_submit(r->queue, &ticket));
        OK(copse__queue_wait_for(second, r->queue, ticket));
        OK(copse_queue_read(second, b, 0, got, N * 4));
        OK(copse_queue_submit(second, &ticket));
        OK(copse__queue_wait_for(r->queue, second, ticket)); /* a may be written again */
        OK(copse_queue_wait(second, ticket, LONG_NS));
        for (size_t i = 0; i < N; i++)
            if (got[i] != -x[i])
                fail_msg("round %d: element %zu is %g, not %g", round, i, got[i], -x[i]);
    }
    free(x);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    copse_queue_release(&second);
}

/* Two ranges that one queue writes alternately and the other reads, with only waits between queues:
   no range may be read before it is written, or overwritten before it was read. */
void one_queue_uploads_ahead_of_another(void **state)
{
    struct rig *r = *state;
    enum { N = 20000, ROUNDS = 24 };
    copse_queue *uploads = NULL;
    copse_buffer *places[2] = { rig_buffer(r, N * 4), rig_buffer(r, N * 4) };
    copse_buffer *in = rig_buffer(r, N * 4), *out = rig_buffer(r, N * 4);
    copse_buffer *all = rig_buffer(r, (size_t)ROUNDS * N * 4);
    float *x = floats(N), *got = floats((size_t)ROUNDS * N);
    uint64_t written, read[2] = { 0, 0 };
    const struct copse_command c = negate_all(r, in, out, N);

    OK(copse__queue_create(r->dev, true, &uploads));
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_wait_for(r->queue, uploads, 1), "not given out");
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(uploads, &c), "takes no kernels");
    for (int k = 0; k < ROUNDS; k++) {
        for (size_t i = 0; i < N; i++)
            x[i] = (float)(k * 10 + (int)(i % 7));
        OK(copse__queue_wait_for(uploads, r->queue, read[k % 2]));
        OK(copse_queue_write(uploads, places[k % 2], 0, x, N * 4));
        OK(copse_queue_submit(uploads, &written));
        OK(copse__queue_wait_for(r->queue, uploads, written));
        OK(copse_queue_copy(r->queue, places[k % 2], 0, in, 0, N * 4));
        OK(copse_queue_submit(r->queue, &read[k % 2]));
        OK(copse__queue_encode(r->queue, &c));
        OK(copse_queue_copy(r->queue, out, 0, all, (size_t)k * N * 4, N * 4));
    }
    read_now(r->queue, all, 0, got, (size_t)ROUNDS * N * 4);
    for (size_t i = 0; i < (size_t)ROUNDS * N; i++)
        if (got[i] != -(float)(i / N * 10 + i % N % 7))
            fail_msg("round %zu: element %zu is %g", i / N, i % N, got[i]);
    free(x);
    free(got);
    for (int i = 0; i < 2; i++)
        copse_buffer_release(&places[i]);
    copse_buffer_release(&in);
    copse_buffer_release(&out);
    copse_buffer_release(&all);
    copse_queue_release(&uploads);
}

struct worker {
    struct rig *r;
    copse_queue *queue;
    uint32_t seed;
};

static void work(void *arg)
{
    struct worker *w = arg;
    run_mixture(w->queue, w->r, w->seed, 60);
}

void two_threads_have_a_queue_each(void **state)
{
    struct rig *r = *state;
    struct worker w[2] = { { r, r->queue, 11 }, { r, NULL, 12 } };
    copse_thread thread;

    OK(copse_queue_create(r->dev, &w[1].queue));
    OK(copse__thread_start(&thread, work, &w[1]));
    work(&w[0]);
    copse__thread_join(&thread);
    copse_queue_release(&w[1].queue);
}

/* ---- kernels ---- */

void kernels_are_compiled_once_per_specialisation(void **state)
{
    struct rig *r = *state;
    struct copse_kernel *a = negate(r), *b = absolute(r);
    assert_ptr_equal(a, negate(r));
    assert_true(copse__kernel_fits(r->dev, COPSE_KERNEL_unary));
    assert_true(a->group_x * a->group_y <= r->dev->limits->max_group_size);
    assert_ptr_not_equal(a, b);

    copse_buffer *x = rig_buffer(r, 64), *y = rig_buffer(r, 64);
    const float want[16] = { -3, 4, -0.0f };
    float got[16];
    struct copse_command c;
    OK(copse__dispatch_init(&c, b, (struct copse_binding[]){ { x, 0, 64 }, { y, 0, 64 } }, 2,
                            &(struct copse_params_unary){ .n = 16 }, 1, 0));
    OK(copse_queue_write(r->queue, x, 0, want, 64));
    OK(copse__queue_encode(r->queue, &c));
    read_now(r->queue, y, 0, got, 64);
    assert_true(got[0] == 3.0f && got[1] == 4.0f && got[2] == 0.0f);
    copse_buffer_release(&x);
    copse_buffer_release(&y);
}

void a_dispatch_keeps_to_its_binding(void **state)
{
    struct rig *r = *state;
    const size_t n = 1001, step = 2048 * 4; /* a multiple of every alignment */
    copse_buffer *a = rig_buffer(r, 3 * step), *b = rig_buffer(r, 3 * step);
    float *x = floats(3 * step / 4), *got = floats(3 * step / 4);

    OK(copse_queue_write(r->queue, a, 0, x, 3 * step));
    OK(copse_queue_fill(r->queue, b, 0, 3 * step, 0x40e00000)); /* 7.0 */
    const struct copse_command c =
        negate_part(r, a, 2 * step, b, step, n, 0, negate_groups(negate(r), n));
    OK(copse__queue_encode(r->queue, &c));
    read_now(r->queue, b, 0, got, 3 * step);
    for (size_t i = 0; i < 3 * step / 4; i++) {
        const size_t at = i - step / 4;
        const float want = i >= step / 4 && at < n ? -x[2 * step / 4 + at] : 7.0f;
        if (got[i] != want)
            fail_msg("element %zu is %g, not %g", i, got[i], want);
    }
    free(x);
    free(got);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void more_groups_than_an_axis_holds_are_folded(void **state)
{
    struct rig *r = *state;
    const struct copse_kernel *k = negate(r);
    const size_t n = (size_t)65541 * k->group_x * k->group_y + 5;
    copse_buffer *a = rig_buffer(r, n * 4), *b = rig_buffer(r, n * 4);
    float *x = floats(n);

    const struct copse_command c = negate_all(r, a, b, n);
    assert_true((uint64_t)c.groups_x * c.groups_y >= negate_groups(k, n));
    assert_true(c.groups_x <= r->dev->limits->max_group_count);
    OK(copse_queue_write(r->queue, a, 0, x, n * 4));
    OK(copse__queue_encode(r->queue, &c));
    expect_negated(r, b, x, n);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}

void a_cut_dispatch_gives_the_same(void **state)
{
    struct rig *r = *state;
    const struct copse_kernel *k = negate(r);
    const size_t n = (size_t)100 * k->group_x * k->group_y + 3;
    const uint64_t groups = negate_groups(k, n);
    copse_buffer *a = rig_buffer(r, n * 4), *b = rig_buffer(r, n * 4);

    if (!r->dev->limits->has_group_base) {
        struct copse_command c;
        const struct copse_binding bindings[] = { { a, 0, n * 4 }, { b, 0, n * 4 } };
        FAILS(COPSE_ERR_UNSUPPORTED,
              copse__dispatch_init(&c, negate(r), bindings, 2,
                                   &(struct copse_params_unary){ .n = (uint32_t)n }, 50, 50),
              "cut");
        copse_buffer_release(&a);
        copse_buffer_release(&b);
        SKIP("dispatches are never cut");
    }
    float *x = floats(n);
    OK(copse_queue_write(r->queue, a, 0, x, n * 4));
    OK(copse_queue_fill(r->queue, b, 0, n * 4, 0));
    for (uint64_t from = 0, to; from < groups; from = to) {
        to = COPSE_MIN(from + 33, groups);
        const struct copse_command c = negate_part(r, a, 0, b, 0, n, from, to);
        OK(copse__queue_encode(r->queue, &c));
    }
    expect_negated(r, b, x, n);
    free(x);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
}
