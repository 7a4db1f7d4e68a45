/* SPDX-License-Identifier: MIT */
/* The backend contract: devices, limits, and errors that name the wrong argument. */
#include "tests/rig/contract/contract.h"

#include <stdlib.h>

void a_device_opens_several_times_and_in_parts(void **state)
{
    struct rig *r = *state;
    for (uint32_t number = 0; number < 2; number++) {
        struct rig part = { .ctx = r->ctx };
        OK(copse_device_open(r->ctx, contract_device,
                             &(struct copse_device_params){ .part = number, .parts = 2 },
                             &part.dev));
        OK(copse_queue_create(part.dev, &part.queue));
        run_mixture(part.queue, &part, number, 40);
        run_mixture(r->queue, r, number, 40);
        copse_queue_release(&part.queue);
        copse_device_release(&part.dev);
    }
    copse_device *dev = NULL;
    FAILS(COPSE_ERR_ARGUMENT,
          copse_device_open(r->ctx, contract_device,
                            &(struct copse_device_params){ .part = 2, .parts = 2 }, &dev),
          "part 2 of 2");
}

void unknown_ids_are_no_devices(void **state)
{
    struct rig *r = *state;
    static const char *const ids[] = { "", "opencl", "opencl:999", "none:0", "host:00", "host:0 " };
    copse_device *dev = NULL;
    for (size_t i = 0; i < COPSE_COUNT(ids); i++) {
        FAILS(COPSE_ERR_NO_DEVICE, copse_device_open(r->ctx, ids[i], NULL, &dev), ids[i]);
        assert_null(dev);
    }
}

void the_description_makes_sense(void **state)
{
    struct rig *r = *state;
    const struct copse_device_info *d = copse_device_describe(r->dev);
    const struct copse_limits *l = &d->limits;
    uint64_t free_bytes = 1, total = 1;

    assert_string_equal(d->id, contract_device);
    assert_true(contract_lend || strncmp(d->id, d->backend, strlen(d->backend)) == 0);
    assert_true(d->is_usable && d->name[0]);
    assert_true(l->max_buffer_bytes >= MIB && l->max_binding_bytes <= l->max_buffer_bytes);
    assert_in_range(l->offset_alignment, 4, 256);
    assert_in_range(l->max_group_size, 1, 256);
    assert_in_range(l->max_bindings, 4, COPSE_MAX_BINDINGS);
    assert_true(l->group_memory_bytes <= 32 * KIB && l->max_param_bytes >= 128);
    assert_true(l->max_group_count >= 1 && l->subgroup_size >= 1);
    assert_true(l->compute_units >= 1 || l->is_gpu);
    OK(copse_device_memory(r->dev, &free_bytes, &total));
    assert_true(total == 0 || free_bytes <= total);
}

void broken_rules_are_named_and_queue_nothing(void **state)
{
    struct rig *r = *state;
    const size_t step = 256;
    copse_buffer *a = rig_buffer(r, 1024), *b = rig_buffer(r, 1024), *foreign = NULL, *none = NULL;
    copse_device *dev = NULL;
    copse_queue *q = r->queue;
    uint32_t *want = words(256, 1), got[256];
    const struct copse_limits *l = r->dev->limits;

    OK(copse_device_open(r->ctx, contract_device, NULL, &dev));
    OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = 1024 }, &foreign));
    OK(copse_queue_write(q, a, 0, want, 1024));

    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 2, got, 4), "multiples of 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 0, got, 6), "multiples of 4");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 1024, got, 4), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 8, got, SIZE_MAX - 3), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, foreign, 0, got, 4), "another opened device");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, NULL, 0, got, 4), "'dst' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_write(q, a, 0, NULL, 4), "'src' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_read(q, a, 4, got, 1024), "ends behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_read(q, a, 0, NULL, 4), "'dst' is NULL");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_fill(q, a, 0, 1028, 0), "end behind");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, a, 4, 8), "overlaps");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, foreign, 0, 8), "another opened device");
    FAILS(COPSE_ERR_ARGUMENT, copse_queue_copy(q, a, 0, b, 1020, 8), "end behind");

    struct copse_command c = negate_part(r, a, 0, a, 0, 8, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "overlap");
    c = negate_part(r, a, 0, foreign, 0, 8, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "another opened device");
    c = negate_part(r, a, step * 3, b, 0, 256, 0, 1);
    FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "end behind");
    if (l->offset_alignment > 4) {
        c = negate_part(r, a, l->offset_alignment / 2, b, 0, 8, 0, 1);
        FAILS(COPSE_ERR_ARGUMENT, copse__queue_encode(q, &c), "multiples of");
    }
    struct copse_segment *seg = NULL;
    FAILS(COPSE_ERR_ARGUMENT, copse__segment_create(q, &c, 1, &seg), "command 0 of 1");
    FAILS(COPSE_ERR_ARGUMENT, copse__kernel_get(r->dev, COPSE_KERNEL_COUNT, NULL, &c.kernel),
          "no kernel");

    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = 0 }, &none),
          "one byte");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = SIZE_MAX }, &none),
          "largest buffer");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_buffer_create(
              r->dev, &(struct copse_buffer_params){ .size = l->max_buffer_bytes + 1 }, &none),
          "largest buffer");
    assert_null(none);

    read_now(q, a, 0, got, 1024);
    expect_words(got, want, 256);
    free(want);
    copse_buffer_release(&a);
    copse_buffer_release(&b);
    copse_buffer_release(&foreign);
    copse_device_release(&dev);
}

void queues_are_limited_and_their_places_return(void **state)
{
    struct rig *r = *state;
    copse_queue *queues[8] = { NULL };
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++)
            OK(copse_queue_create(r->dev, &queues[i]));
        FAILS(COPSE_ERR_UNSUPPORTED, copse_queue_create(r->dev, &queues[7]), "queues already");
        run_mixture(queues[3 + round], r, 5, 20);
        for (int i = 0; i < 7; i++)
            copse_queue_release(&queues[i]);
    }
}
