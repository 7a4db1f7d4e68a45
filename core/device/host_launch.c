/* SPDX-License-Identifier: MIT */
/* See host_launch.h. The host function is the one of `host:0`: it gets all buffers of the launch as
   they are on the device. A written buffer does not overlap another one (command.c), so that each
   has memory of its own. */
#include "core/device/host_launch.h"

struct copse_host_launch {
    struct copse_command command;
    unsigned char *memory;
    size_t at[COPSE_MAX_BINDINGS]; /* of each buffer in `memory` */
};

copse_status copse__host_launch_create(copse_device *dev, const struct copse_command *c,
                                       struct copse_host_launch **out)
{
    size_t bytes = 0;
    struct copse_host_launch *l = *out = copse__alloc(&dev->base->mem, 1, sizeof *l);
    if (!l)
        return copse_fail(COPSE_ERR_NO_MEMORY, "kernel: no memory for a launch of %s on the host",
                          c->kernel->row->name);
    l->command = *c;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        copse_buffer_retain(c->bindings[i].buffer);
        l->at[i] = bytes;
        bytes += copse__round_up(c->bindings[i].size, COPSE_ALIGNMENT);
    }
    l->memory = copse__alloc(&dev->base->mem, bytes, 1);
    if (l->memory)
        return COPSE_OK;
    copse__host_launch_release(dev, out);
    return copse_fail(COPSE_ERR_NO_MEMORY, "kernel: no memory for %zu bytes of %s on the host",
                      bytes, c->kernel->row->name);
}

void copse__host_launch_release(copse_device *dev, struct copse_host_launch **launch)
{
    struct copse_host_launch *l = *launch;
    *launch = NULL;
    for (uint32_t i = 0; l && i < l->command.binding_count; i++)
        copse_buffer_release(&l->command.bindings[i].buffer);
    if (l)
        copse__free(&dev->base->mem, l->memory);
    copse__free(&dev->base->mem, l);
}

static copse_status read_all(copse_queue *q, struct copse_host_launch *l,
                             struct copse_host_arg *args)
{
    for (uint32_t i = 0; i < l->command.binding_count; i++) {
        const struct copse_binding *b = &l->command.bindings[i];
        args[i] = (struct copse_host_arg){ .data = l->memory + l->at[i],
                                           .count = b->size / COPSE_WORD_BYTES };
        COPSE_TRY(copse_queue_read(q, b->buffer, b->offset, args[i].data, b->size));
    }
    return copse_queue_finish(q);
}

copse_status copse__host_launch_run(copse_queue *q, struct copse_host_launch *l)
{
    const struct copse_kernel *k = l->command.kernel;
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
    if (!l->memory)
        return copse_fail(COPSE_ERR_TIMEOUT, "kernel: %s hangs since the host computed %s",
                          q->dev->info.id, k->row->name);
    const copse_status s = read_all(q, l, args);
    if (s == COPSE_ERR_TIMEOUT) /* the device may still write there */
        l->memory = NULL;
    COPSE_TRY(copse_note(s, "while the host computes %s", k->row->name));
    k->row->law->host(l->command.params, k->spec, args);
    for (uint32_t i = 0; i < l->command.binding_count; i++) {
        const struct copse_binding *b = &l->command.bindings[i];
        if (k->row->args[i].is_written)
            COPSE_TRY(copse_queue_write(q, b->buffer, b->offset, args[i].data, b->size));
    }
    return COPSE_OK;
}
