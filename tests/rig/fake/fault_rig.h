/* SPDX-License-Identifier: MIT */
/* Shared by the tests of core/device on the fake backend. */
#ifndef COPSE_FAULT_RIG_H
#define COPSE_FAULT_RIG_H

#include "tests/rig/rig.h"
/* checks of statuses, and then the backend that fails on demand */
#include "tests/rig/fake/fake_backend.h"

#define N 256

static inline int fresh(void **state)
{
    (void)state;
    fake_reset();
    unsetenv("COPSE_DISABLE");
    return 0;
}

static inline copse_context *context(const struct copse_context_params *params)
{
    copse_context *ctx = NULL;
    assert_int_equal(copse__context_create_with(params, fake_backends, &ctx), COPSE_OK);
    return ctx;
}

static inline copse_device *device(copse_context *ctx)
{
    copse_device *dev = NULL;
    assert_int_equal(copse_device_open(ctx, "fake:0", NULL, &dev), COPSE_OK);
    return dev;
}

static inline struct copse_kernel *unary(copse_device *dev)
{
    struct copse_kernel *k = NULL;
    assert_int_equal(copse__kernel_get(dev, COPSE_KERNEL_unary, NULL, &k), COPSE_OK);
    return k;
}

static inline void expect_balance(void)
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

/* ---- a life with everything in it ---- */

struct life {
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *a, *b;
    struct copse_segment *seg;
    float x[N], y[N];
};

static inline copse_status begin(struct life *l, copse_context *ctx)
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

static inline copse_status go_on(struct life *l)
{
    uint64_t free_bytes, total;
    COPSE_TRY(copse_device_memory(l->dev, &free_bytes, &total));
    COPSE_TRY(copse_queue_write(l->queue, l->a, 0, l->x, sizeof l->x));
    COPSE_TRY(copse_queue_fill(l->queue, l->b, 0, sizeof l->y, 0));
    COPSE_TRY(copse__segment_replay(l->seg));
    COPSE_TRY(copse_queue_read(l->queue, l->b, 0, l->y, sizeof l->y));
    return copse_queue_finish(l->queue);
}

static inline void end(struct life *l)
{
    copse_device_release(&l->dev);
    copse_buffer_release(&l->b);
    copse__segment_release(&l->seg);
    copse_buffer_release(&l->a);
    copse_queue_release(&l->queue);
}

#define TEST(f) cmocka_unit_test_setup(f, fresh)

#endif
