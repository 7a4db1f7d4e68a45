/* SPDX-License-Identifier: MIT */
/* Stamps that applications ask for. */
#include "core/device/clock.h"
#include "core/device/device.h"

copse_status copse_queue_stamp(copse_queue *queue, uint64_t *stamp)
{
    COPSE_TRY(copse_need("queue: stamp", queue, stamp));
    COPSE_TRY(copse__device_check(queue->dev));
    COPSE_TRY(copse__clock_open(queue));
    COPSE_TRY(copse__queue_begin(queue));
    return copse__queue_result(queue, copse__clock_stamp(queue, stamp));
}

copse_status copse_queue_elapsed(copse_queue *queue, uint64_t from, uint64_t to, double *seconds)
{
    COPSE_TRY(copse_need("queue: elapsed", queue, seconds));
    return copse__clock_elapsed(queue, from, to, seconds);
}
