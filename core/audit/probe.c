/* SPDX-License-Identifier: MIT */
#include "core/audit/probe.h"

#include "core/device/host_launch.h"

void copse__probe_free(struct copse_probe *p)
{
    if (p->dev)
        copse__free(&p->dev->base->mem, p->memory);
    *p = (struct copse_probe){ .dev = NULL };
}

bool copse__probe_can(const struct copse_command *c)
{
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return true;
    const struct copse_kernel_row *row = &copse_kernel_table[c->kernel->id];
    return !c->kernel->on_host && (row->host || row->self_test) && c->params[row->param_words] == 0;
}

size_t copse__probe_bytes(const struct copse_command *c)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->binding_count; i++)
        bytes += c->bindings[i].size;
    return bytes;
}

static bool is_result(const struct copse_command *c, uint32_t i)
{
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return c->kernel->row->args[i].is_written;
    case COPSE_COMMAND_COPY:
        return i == 1;
    case COPSE_COMMAND_FILL:
        return i == 0;
    case COPSE_COMMAND_GEMM:
        return i == 2;
    }
    return false;
}

static copse_status make_room(struct copse_probe *p, copse_device *dev)
{
    if (p->dev && p->dev != dev)
        copse__probe_free(&(struct copse_probe){ .dev = p->dev, .memory = p->memory });
    if (p->dev != dev || p->room < 2 * p->bytes) {
        if (p->dev == dev)
            copse__free(&dev->base->mem, p->memory);
        p->room = 2 * p->bytes;
        p->memory = copse__alloc(&dev->base->mem, p->room, 1);
    }
    p->dev = dev;
    if (!p->memory)
        p->room = 0;
    return copse_need_memory(p->memory, "audit");
}

static copse_status read_all(struct copse_probe *p, copse_queue *q, bool is_after)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (b->size > 0 && (!is_after || is_result(&p->command, i)))
            COPSE_TRY(copse_queue_read(q, b->buffer, b->offset, p->memory + (is_after ? p->bytes : 0) + p->at[i],
                                       b->size));
    }
    return COPSE_OK;
}

copse_status copse__probe_queue(struct copse_probe *p, copse_queue *q, const struct copse_command *c)
{
    p->command = *c;
    p->bytes = 0;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        p->at[i] = p->bytes;
        p->bytes += copse__round_up(c->bindings[i].size, COPSE_ALIGNMENT);
    }
    COPSE_TRY(make_room(p, q->dev));
    COPSE_TRY(read_all(p, q, false));
    COPSE_TRY(copse__queue_encode(q, c));
    return read_all(p, q, true);
}

copse_status copse__probe_restore(const struct copse_probe *p, copse_queue *q)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (b->size > 0 && is_result(&p->command, i))
            COPSE_TRY(copse_queue_write(q, b->buffer, b->offset, p->memory + p->at[i], b->size));
    }
    return COPSE_OK;
}

/* ---- segments ---- */

const struct copse_command *copse__probe_command(const struct copse_segment *seg, size_t which)
{
    for (; seg; seg = seg->rest) {
        if (which < seg->count)
            return &seg->commands[which];
        which -= seg->count;
    }
    return NULL;
}

copse_status copse__probe_replay(struct copse_probe *p, const struct copse_segment *seg, size_t which)
{
    for (; seg; seg = seg->rest) {
        for (size_t i = 0; i < seg->count; i++)
            COPSE_TRY(i == which ? copse__probe_queue(p, seg->queue, &seg->commands[i])
                                 : copse__queue_encode(seg->queue, &seg->commands[i]));
        which = which < seg->count ? SIZE_MAX : which - seg->count;
        if (seg->host)
            COPSE_TRY(copse__host_launch_run(seg->queue, seg->host));
    }
    return COPSE_OK;
}

uint64_t copse__probe_hash(uint64_t hash, const struct copse_command *c)
{
    uint64_t words[COPSE_MAX_BINDINGS + 3] = { (uint64_t)c->kind, c->binding_count, c->word };
    for (uint32_t i = 0; i < c->binding_count; i++)
        words[3 + i] = c->bindings[i].size;
    hash = copse__hash(hash, words, sizeof words);
    if (c->kind == COPSE_COMMAND_GEMM) {
        const uint32_t sizes[] = { c->gemm.m, c->gemm.n, c->gemm.k, c->gemm.a_transposed, c->gemm.b_transposed };
        return copse__hash(hash, sizes, sizeof sizes);
    }
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return hash;
    const struct copse_kernel *k = c->kernel;
    const uint32_t shape[] = { k->id, k->group_x, k->group_y, c->groups_x, c->groups_y };
    hash = copse__hash(hash, &k->row->source_hash, sizeof k->row->source_hash);
    hash = copse__hash(hash, shape, sizeof shape);
    hash = copse__hash(hash, k->spec, sizeof k->spec);
    return copse__hash(hash, c->params, sizeof c->params);
}
