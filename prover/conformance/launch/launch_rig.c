/* SPDX-License-Identifier: MIT */
/* The buffers of a launch on a device. Each is between two guard bands of NaN, or between one and a
   page without access (fence.h). */
#include "prover/conformance/launch/launch.h"

#define BAND COPSE_LAUNCH_BAND
/* a NaN, so that an out-of-range read also shows, and more for each buffer: results have the NaN of
   the operand */
#define GUARD 0xffffa5a5u
/* 1e30, and more for each buffer: the guard in class edges, because a NaN hides a read past a table
   that should give NaN, and a NaN stays the same in an update */
#define OTHER 0x7149f2cau

static size_t room_of(const struct copse_launch_rig *g, const struct copse_launch *l, uint32_t arg)
{
    return copse__fence_room(g->dev, l->counts[arg]);
}

copse_status copse__launch_open(struct copse_conform_run *r, copse_device *dev,
                                const struct copse_launch *l, uint32_t arg_count,
                                struct copse_launch_rig *g)
{
    uint32_t *words[COPSE_MAX_BINDINGS] = { NULL };
    g->dev = dev;
    COPSE_TRY(copse_queue_create(dev, &g->queue));
    for (uint32_t a = 0; a < arg_count; a++) {
        const size_t bytes = room_of(g, l, a);
        COPSE_TRY(copse__fence_open(dev, bytes, &g->buffers[a]));
        COPSE_TRY(copse__conform_memory(r, bytes, 1, &g->before[a]));
        COPSE_TRY(copse__conform_memory(r, bytes, 1, &g->after[a]));
        for (size_t i = 0; i < bytes / COPSE_WORD_BYTES; i++)
            g->before[a][i] = l->values == COPSE_VALUES_EDGES ? OTHER + 0x100000u * a : GUARD + a;
        words[a] = g->before[a] + BAND / COPSE_WORD_BYTES;
        copse__launch_fill(l, a, words[a]);
    }
    if (l->form->arrange)
        l->form->arrange(l, words);
    return COPSE_OK;
}

void copse__launch_close(struct copse_conform_run *r, struct copse_launch_rig *g)
{
    copse_queue_release(&g->queue); /* waits for reads */
    for (uint32_t a = 0; a < COPSE_MAX_BINDINGS; a++) {
        if (g->buffers[a].buffer || g->buffers[a].block)
            copse__fence_close(g->dev, &g->buffers[a]);
        copse__free(&r->ctx->base.mem, g->before[a]);
        copse__free(&r->ctx->base.mem, g->after[a]);
    }
}

copse_status copse__launch_run(const struct copse_launch *l, struct copse_kernel *k,
                               struct copse_launch_rig *g)
{
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    struct copse_command c;
    const uint32_t count = k->row->arg_count;
    for (uint32_t a = 0; a < count; a++)
        COPSE_TRY(
            copse_queue_write(g->queue, g->buffers[a].buffer, 0, g->before[a], room_of(g, l, a)));
    for (uint32_t a = 0; a < count; a++)
        bindings[a] = (struct copse_binding){ g->buffers[a].buffer, BAND,
                                              copse__fence_binding(g->dev, l->counts[a]) };
    COPSE_TRY(copse__dispatch_init(&c, k, bindings, count, l->params, l->groups, 0));
    if (l->grid[0] > 0) {
        c.groups_x = l->grid[0];
        c.groups_y = l->grid[1];
    }
    COPSE_TRY(copse__queue_encode(g->queue, &c));
    for (uint32_t a = 0; a < count; a++)
        COPSE_TRY(
            copse_queue_read(g->queue, g->buffers[a].buffer, 0, g->after[a], room_of(g, l, a)));
    return copse_queue_finish(g->queue);
}

/* Words around a buffer, and of buffers that the kernel may only read, must not change. */
void copse__launch_check_untouched(const struct copse_launch *l, const struct copse_kernel_row *row,
                                   const struct copse_launch_rig *g,
                                   struct copse_conform_outcome *out)
{
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const size_t first = BAND / COPSE_WORD_BYTES, end = first + l->counts[a];
        for (size_t i = 0; i < room_of(g, l, a) / COPSE_WORD_BYTES; i++) {
            const bool is_inside = i >= first && i < end;
            if (g->after[a][i] == g->before[a][i] || (is_inside && row->args[a].is_written))
                continue;
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "the kernel wrote word %lld of buffer %u, which has %zu words%s",
                               (long long)i - (long long)first, a, l->counts[a],
                               is_inside ? " and is only read" : "");
            break;
        }
    }
}
