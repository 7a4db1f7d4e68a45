/* SPDX-License-Identifier: MIT */
#include "core/check/probe.h"

#include "core/device/host_launch.h"
#include "core/device/pace.h"

/* Of `memory`. */
enum area { BEFORE, AFTER, KEPT, AREAS };

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
    const struct copse_kernel_row *row = c->kernel->row;
    return !c->kernel->on_host && row->law->host && c->params[row->param_words] == 0;
}

size_t copse__probe_bytes(const struct copse_command *c)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->binding_count; i++)
        bytes += c->bindings[i].size;
    return bytes;
}

bool copse__probe_is_result(const struct copse_command *c, uint32_t i)
{
    return c->kind == COPSE_COMMAND_DISPATCH ? c->kernel->row->args[i].is_written
                                             : i == c->binding_count - 1;
}

static bool is_real(const struct copse_command *c, uint32_t i)
{
    return c->kind != COPSE_COMMAND_DISPATCH || c->kernel->row->args[i].kind == COPSE_ARG_F32;
}

static copse_status make_room(struct copse_probe *p, copse_device *dev)
{
    if (p->dev && p->dev != dev)
        copse__probe_free(&(struct copse_probe){ .dev = p->dev, .memory = p->memory });
    if (p->dev != dev || p->room < AREAS * p->bytes) {
        if (p->dev == dev)
            copse__free(&dev->base->mem, p->memory);
        p->room = AREAS * p->bytes;
        p->memory = copse__alloc(&dev->base->mem, p->room, 1);
    }
    p->dev = dev;
    if (!p->memory)
        p->room = 0;
    return copse_need_memory(p->memory, "audit");
}

static unsigned char *probe_place(const struct copse_probe *p, enum area area, uint32_t i)
{
    return p->memory + area * p->bytes + p->at[i];
}

static copse_status read_all(struct copse_probe *p, copse_queue *q, enum area area)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (b->size > 0 && (area != AFTER || copse__probe_is_result(&p->command, i)))
            COPSE_TRY(copse_queue_read(q, b->buffer, b->offset, probe_place(p, area, i), b->size));
    }
    return COPSE_OK;
}

static copse_status write_all(const struct copse_probe *p, copse_queue *q, enum area area)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (b->size > 0 && (copse__probe_is_result(&p->command, i) || is_real(&p->command, i)))
            COPSE_TRY(copse_queue_write(q, b->buffer, b->offset, probe_place(p, area, i), b->size));
    }
    return COPSE_OK;
}

copse_status copse__probe_reserve(struct copse_probe *p, const copse_queue *q,
                                  const struct copse_command *c)
{
    p->command = copse__pace_whole(c);
    p->bytes = 0;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        p->at[i] = p->bytes;
        p->bytes += copse__round_up(c->bindings[i].size, COPSE_ALIGNMENT);
    }
    return make_room(p, q->dev);
}

copse_status copse__probe_queue(struct copse_probe *p, copse_queue *q,
                                const struct copse_command *c)
{
    COPSE_TRY(copse__probe_reserve(p, q, c));
    if (!p->is_written)
        COPSE_TRY(read_all(p, q, BEFORE));
    p->is_written = false;
    COPSE_TRY(copse__pace_encode(q, c));
    return read_all(p, q, AFTER);
}

/* ---- contents with which a launch shows what it does ---- */

/* The bits of a float from 2^-6 to 2^2. */
static uint32_t probe_number(size_t i, bool is_signed)
{
    uint32_t x = (uint32_t)(i + 1) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    const uint32_t exponent = 121u + (x >> 8) % 8u, sign = is_signed ? x & 0x80000000u : 0u;
    return sign | exponent << 23 | (x & 0x7fu) << 16 | (x >> 16 & 0xffffu);
}

copse_status copse__probe_keep(struct copse_probe *p, copse_queue *q, const struct copse_command *c)
{
    COPSE_TRY(copse__probe_reserve(p, q, c));
    COPSE_TRY(read_all(p, q, KEPT));
    return copse_queue_finish(q);
}

copse_status copse__probe_fill(struct copse_probe *p, copse_queue *q)
{
    const struct copse_command *c = &p->command;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        uint32_t *words = (uint32_t *)(void *)probe_place(p, BEFORE, i);
        const size_t count = c->bindings[i].size / COPSE_WORD_BYTES;
        memcpy(words, probe_place(p, KEPT, i), c->bindings[i].size);
        for (size_t k = 0; k < count && is_real(c, i); k++)
            words[k] = probe_number(k + 31 * (size_t)i, !copse__probe_is_result(c, i));
    }
    COPSE_TRY(write_all(p, q, BEFORE));
    p->is_written = true;
    return copse_queue_finish(q);
}

bool copse__probe_is_unchanged(const struct copse_probe *p)
{
    bool has_floats = false;
    for (uint32_t i = 0; i < p->command.binding_count; i++)
        if (copse__probe_is_result(&p->command, i)) {
            if (memcmp(probe_place(p, BEFORE, i), probe_place(p, AFTER, i),
                       p->command.bindings[i].size) != 0)
                return false;
            has_floats |= is_real(&p->command, i);
        }
    return has_floats;
}

copse_status copse__probe_disturb(struct copse_probe *p, copse_queue *q)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        float *x = (float *)(void *)probe_place(p, BEFORE, i);
        memcpy(probe_place(p, KEPT, i), x, p->command.bindings[i].size);
        for (size_t k = 0; k < p->command.bindings[i].size / COPSE_WORD_BYTES; k++)
            if (copse__probe_is_result(&p->command, i) && is_real(&p->command, i))
                x[k] = x[k] + 1.0f != x[k] ? x[k] + 1.0f : 1.0f;
    }
    COPSE_TRY(write_all(p, q, BEFORE));
    p->is_written = true;
    return copse_queue_finish(q);
}

copse_status copse__probe_restore(const struct copse_probe *p, copse_queue *q)
{
    return write_all(p, q, KEPT);
}

/* ---- segments ---- */

const struct copse_command *copse__probe_command(const struct copse_segment *seg, size_t which)
{
    for (; seg; seg = seg->rest)
        for (size_t i = 0; i < seg->count; i++)
            if (!copse__pace_continues(&seg->commands[i]) && which-- == 0)
                return &seg->commands[i];
    return NULL;
}

static copse_status end_part(const struct copse_segment *part)
{
    if (part->rest && copse__pace_is_on(part->queue->dev))
        COPSE_TRY(copse_queue_submit(part->queue, NULL));
    return part->host ? copse__host_launch_run(part->queue, part->host) : COPSE_OK;
}

copse_status copse__probe_replay(struct copse_probe *p, const struct copse_segment *seg,
                                 size_t which)
{
    const struct copse_command *probed = copse__probe_command(seg, which);
    for (; seg; seg = seg->rest) {
        for (size_t i = 0; i < seg->count; i++) {
            const struct copse_command *c = &seg->commands[i];
            if (!copse__pace_continues(c))
                COPSE_TRY(c == probed ? copse__probe_queue(p, seg->queue, c)
                                      : copse__pace_encode(seg->queue, c));
        }
        COPSE_TRY(end_part(seg));
    }
    return COPSE_OK;
}

/* Cuts by measured rates differ from start to start. */
uint64_t copse__probe_hash(uint64_t hash, const struct copse_command *command)
{
    const struct copse_command whole = copse__pace_whole(command), *c = &whole;
    if (copse__pace_continues(command))
        return hash;
    uint64_t words[COPSE_MAX_BINDINGS + 3] = { (uint64_t)c->kind, c->binding_count, c->word };
    for (uint32_t i = 0; i < c->binding_count; i++)
        words[3 + i] = c->bindings[i].size;
    hash = copse__hash(hash, words, sizeof words);
    if (c->kind == COPSE_COMMAND_GEMM) {
        const uint32_t sizes[] = { c->gemm.m, c->gemm.n, c->gemm.k, c->gemm.a_transposed,
                                   c->gemm.b_transposed };
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
