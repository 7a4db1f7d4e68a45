/* SPDX-License-Identifier: MIT */
/* Commands that are appended to a queue at once. The backend gets all but those that the host
   computes. */
#include "core/device/host_launch.h"

copse_status copse_queue_copy(copse_queue *queue, copse_buffer *src, size_t src_offset,
                              copse_buffer *dst, size_t dst_offset, size_t size)
{
    COPSE_TRY(copse_need("queue: copy", queue, src, dst));
    return copse__queue_encode(
        queue, &(struct copse_command){
                   .kind = COPSE_COMMAND_COPY,
                   .bindings = { { src, src_offset, size }, { dst, dst_offset, size } },
                   .binding_count = 2,
               });
}

copse_status copse_queue_fill(copse_queue *queue, copse_buffer *dst, size_t offset, size_t size,
                              uint32_t word)
{
    COPSE_TRY(copse_need("queue: fill", queue, dst));
    return copse__queue_encode(queue, &(struct copse_command){
                                          .kind = COPSE_COMMAND_FILL,
                                          .bindings = { { dst, offset, size } },
                                          .binding_count = 1,
                                          .word = word,
                                      });
}

copse_status copse__queue_encode(copse_queue *q, const struct copse_command *c)
{
    bool is_empty = false;
    COPSE_TRY(copse__command_check(q->dev, c, &is_empty));
    if (q->is_for_transfers && c->kind != COPSE_COMMAND_COPY && c->kind != COPSE_COMMAND_FILL)
        return copse_fail(COPSE_ERR_ARGUMENT, "queue: %s: a queue for transfers takes no kernels",
                          copse__command_name(c));
    if (is_empty)
        return copse__device_check(q->dev);
    COPSE_TRY(copse__queue_begin(q));
    if (!copse__is_on_host(c))
        return copse__queue_result(q, q->dev->backend->encode(q, c));
    struct copse_host_launch *launch;
    COPSE_TRY(copse__host_launch_create(q->dev, c, &launch));
    const copse_status s = copse__host_launch_run(q, launch);
    copse__host_launch_release(q->dev, &launch);
    return s;
}
