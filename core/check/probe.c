/* SPDX-License-Identifier: MIT */
#include "core/check/probe.h"

#include "core/device/host_launch.h"
#include "core/device/pace.h"

void copse__probe_free(struct copse_probe *p)
{
    for (int when = 0; p->dev && when < COPSE_PROBE_WHEN; when++)
        copse__free(&p->dev->base->mem, p->areas[when].memory);
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

static bool may_write(const struct copse_command *c, uint32_t i)
{
    return copse__probe_is_result(c, i) || is_real(c, i);
}

/* Place the copies of the buffers that `has` takes. */
static copse_status make_room(struct copse_probe *p, enum copse_probe_when when,
                              bool (*has)(const struct copse_command *c, uint32_t i))
{
    struct copse_probe_area *a = &p->areas[when];
    size_t bytes = 0;
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        a->at[i] = has && !has(&p->command, i) ? SIZE_MAX : bytes;
        if (a->at[i] != SIZE_MAX)
            bytes += copse__round_up(p->command.bindings[i].size, COPSE_ALIGNMENT);
    }
    if (a->memory && a->room >= bytes)
        return COPSE_OK;
    copse__free(&p->dev->base->mem, a->memory);
    a->memory = copse__alloc(&p->dev->base->mem, COPSE_MAX(bytes, 1), 1);
    a->room = a->memory ? bytes : 0;
    return copse_need_memory(a->memory, "audit");
}

unsigned char *copse__probe_copy(const struct copse_probe *p, enum copse_probe_when when,
                                 uint32_t i)
{
    return p->areas[when].memory + p->areas[when].at[i];
}

static bool has_copy(const struct copse_probe *p, enum copse_probe_when when, uint32_t i)
{
    return p->areas[when].at[i] != SIZE_MAX && p->command.bindings[i].size > 0;
}

static copse_status read_all(struct copse_probe *p, copse_queue *q, enum copse_probe_when when)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (has_copy(p, when, i))
            COPSE_TRY(
                copse_queue_read(q, b->buffer, b->offset, copse__probe_copy(p, when, i), b->size));
    }
    return COPSE_OK;
}

static copse_status write_all(const struct copse_probe *p, copse_queue *q,
                              enum copse_probe_when when,
                              bool (*has)(const struct copse_command *c, uint32_t i))
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const struct copse_binding *b = &p->command.bindings[i];
        if (has_copy(p, when, i) && has(&p->command, i))
            COPSE_TRY(
                copse_queue_write(q, b->buffer, b->offset, copse__probe_copy(p, when, i), b->size));
    }
    return COPSE_OK;
}

copse_status copse__probe_reserve(struct copse_probe *p, const copse_queue *q,
                                  const struct copse_command *c)
{
    if (p->dev && p->dev != q->dev) {
        struct copse_probe old = *p;
        memset(p->areas, 0, sizeof p->areas);
        copse__probe_free(&old);
    }
    p->dev = q->dev;
    p->command = copse__pace_whole(c);
    COPSE_TRY(make_room(p, COPSE_PROBE_BEFORE, NULL));
    return make_room(p, COPSE_PROBE_AFTER, copse__probe_is_result);
}

copse_status copse__probe_reserve_kept(struct copse_probe *p, bool has_operands)
{
    return make_room(p, COPSE_PROBE_KEPT, has_operands ? NULL : copse__probe_is_result);
}

copse_status copse__probe_queue(struct copse_probe *p, copse_queue *q,
                                const struct copse_command *c)
{
    COPSE_TRY(copse__probe_reserve(p, q, c));
    if (!p->is_written)
        COPSE_TRY(read_all(p, q, COPSE_PROBE_BEFORE));
    p->is_written = false;
    COPSE_TRY(copse__pace_encode(q, c));
    return read_all(p, q, COPSE_PROBE_AFTER);
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
    COPSE_TRY(copse__probe_reserve_kept(p, true));
    COPSE_TRY(read_all(p, q, COPSE_PROBE_KEPT));
    return copse_queue_finish(q);
}

copse_status copse__probe_fill(struct copse_probe *p, copse_queue *q)
{
    const struct copse_command *c = &p->command;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        uint32_t *words = (uint32_t *)(void *)copse__probe_copy(p, COPSE_PROBE_BEFORE, i);
        const size_t count = c->bindings[i].size / COPSE_WORD_BYTES;
        memcpy(words, copse__probe_copy(p, COPSE_PROBE_KEPT, i), c->bindings[i].size);
        for (size_t k = 0; k < count && is_real(c, i); k++)
            words[k] = probe_number(k + 31 * (size_t)i, !copse__probe_is_result(c, i));
    }
    COPSE_TRY(write_all(p, q, COPSE_PROBE_BEFORE, may_write));
    p->is_written = true;
    return copse_queue_finish(q);
}

bool copse__probe_is_unchanged(const struct copse_probe *p)
{
    bool has_floats = false;
    for (uint32_t i = 0; i < p->command.binding_count; i++)
        if (copse__probe_is_result(&p->command, i)) {
            if (memcmp(copse__probe_copy(p, COPSE_PROBE_BEFORE, i),
                       copse__probe_copy(p, COPSE_PROBE_AFTER, i),
                       p->command.bindings[i].size) != 0)
                return false;
            has_floats |= is_real(&p->command, i);
        }
    return has_floats;
}

copse_status copse__probe_disturb(struct copse_probe *p, copse_queue *q)
{
    const struct copse_command *c = &p->command;
    COPSE_TRY(copse__probe_reserve_kept(p, false));
    for (uint32_t i = 0; i < c->binding_count; i++) {
        if (!copse__probe_is_result(c, i))
            continue;
        float *x = (float *)(void *)copse__probe_copy(p, COPSE_PROBE_BEFORE, i);
        memcpy(copse__probe_copy(p, COPSE_PROBE_KEPT, i), x, c->bindings[i].size);
        for (size_t k = 0; is_real(c, i) && k < c->bindings[i].size / COPSE_WORD_BYTES; k++)
            x[k] = x[k] + 1.0f != x[k] ? x[k] + 1.0f : 1.0f;
    }
    COPSE_TRY(write_all(p, q, COPSE_PROBE_BEFORE, copse__probe_is_result));
    p->is_written = true;
    return copse_queue_finish(q);
}

copse_status copse__probe_restore(const struct copse_probe *p, copse_queue *q)
{
    return write_all(p, q, COPSE_PROBE_KEPT, may_write);
}

uint64_t copse__probe_results(const struct copse_probe *p)
{
    uint64_t hash = COPSE_HASH_START;
    for (uint32_t i = 0; i < p->command.binding_count; i++)
        if (copse__probe_is_result(&p->command, i))
            hash = copse__hash(hash, copse__probe_copy(p, COPSE_PROBE_AFTER, i),
                               p->command.bindings[i].size);
    return hash;
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

copse_status copse__probe_clear(const struct copse_segment *seg)
{
    for (; seg; seg = seg->rest)
        for (size_t i = 0; i < seg->count; i++)
            for (uint32_t k = 0; k < seg->commands[i].binding_count; k++) {
                const struct copse_binding *b = &seg->commands[i].bindings[k];
                if (b->size > 0 && copse__probe_is_result(&seg->commands[i], k))
                    COPSE_TRY(copse_queue_fill(seg->queue, b->buffer, b->offset, b->size, 0));
            }
    return COPSE_OK;
}

copse_status copse__probe_hashes(struct copse_probe *p, const struct copse_segment *seg,
                                 size_t *count, copse_probe_hash_fn *fn, void *user)
{
    for (; seg; seg = seg->rest) {
        for (size_t i = 0; i < seg->count; i++) {
            if (copse__pace_continues(&seg->commands[i]))
                continue;
            COPSE_TRY(copse__probe_queue(p, seg->queue, &seg->commands[i]));
            COPSE_TRY(copse_queue_finish(seg->queue));
            fn(user, (*count)++, copse__command_name(&seg->commands[i]), copse__probe_results(p));
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
        const struct copse_gemm *g = &c->gemm;
        const uint32_t sizes[] = {
            g->m,     g->n,       g->k,     g->a_transposed, g->b_transposed,
            g->batch, g->k_begin, g->k_end, g->a_is_shared,  g->b_is_shared
        };
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
