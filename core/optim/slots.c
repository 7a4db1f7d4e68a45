/* SPDX-License-Identifier: MIT */
/* Slots of variables: the ranges of their buckets, at the owners of this worker and others. */
#include "core/optim/optimizer.h"
#include "core/reduce/group_sum.h"
#include "core/rule/eight_bit.h"

#include <stdio.h>

/* Of a sparse variable the owner has whole slots. */
static bool part_of_rows(const struct copse_optimizer *o, const copse_row_exchange *rows, size_t i,
                         struct copse_slot_part *out)
{
    struct copse_slice_memory all;
    size_t stride;
    if (i > 0 || !copse__row_exchange_slots(rows, &all, &stride))
        return false;
    *out = (struct copse_slot_part){ .queue = o->strategy->replicas[all.rank].queue,
                                     .buffer = all.buffer,
                                     .count = all.count,
                                     .all = stride / COPSE_WORD_BYTES };
    return true;
}

bool copse__slot_part(const struct copse_optimizer *o, const copse_variable *v, size_t i,
                      struct copse_slot_part *out)
{
    const struct copse_slice_memory *list;
    const uint32_t bucket = copse__optimizer_bucket(o, v);
    size_t count = 0;
    *out = (struct copse_slot_part){ .count = 0 };
    if (bucket != COPSE_NO_BUCKET && o->buckets.at[bucket].rows)
        return part_of_rows(o, o->buckets.at[bucket].rows, i, out);
    if (bucket != COPSE_NO_BUCKET)
        copse__exchange_slots(o->strategy->store->exchange, o->buckets.at[bucket].id, &list,
                              &count);
    if (i >= count)
        return false;
    const uint64_t first = COPSE_MAX(list[i].first, v->first);
    const uint64_t end = COPSE_MIN(list[i].first + list[i].count, v->first + v->count);
    if (first < end)
        *out = (struct copse_slot_part){
            .queue = o->strategy->replicas[list[i].rank].queue,
            .buffer = list[i].buffer,
            .first = first - list[i].first,
            .count = end - first,
            .all = list[i].count,
            .at = (size_t)(first - v->first),
        };
    return true;
}

/* Bytes of a slot: of a part in its range, from `offset` on; in the whole slot of the variable,
   from `at` on. Parts begin with blocks, so that these are whole words. */
struct bytes {
    size_t offset, at, size;
};

static struct bytes bytes_of(const struct copse_rule *rule, uint32_t slot,
                             const struct copse_slot_part *p)
{
    const uint64_t before =
        copse__rule_slot_at(rule, slot, p->all) + copse__rule_slot_words(rule, slot, p->first);
    return (struct bytes){ COPSE_WORD_BYTES * (size_t)before,
                           COPSE_WORD_BYTES * (size_t)copse__rule_slot_words(rule, slot, p->at),
                           COPSE_WORD_BYTES *
                               (size_t)copse__rule_slot_words(rule, slot, p->count) };
}

copse_status copse__slot_read_own(const struct copse_optimizer *o, const copse_variable *v,
                                  uint32_t slot, void *values)
{
    struct copse_slot_part p;
    for (size_t i = 0; copse__slot_part(o, v, i, &p); i++) {
        const struct bytes b = bytes_of(&o->rule, slot, &p);
        if (p.count > 0)
            COPSE_TRY(copse_queue_read(p.queue, p.buffer, b.offset, (char *)values + b.at, b.size));
    }
    return COPSE_OK;
}

copse_status copse__slot_write_own(const struct copse_optimizer *o, const copse_variable *v,
                                   uint32_t slot, const void *values)
{
    struct copse_slot_part p;
    for (size_t i = 0; copse__slot_part(o, v, i, &p); i++) {
        const struct bytes b = bytes_of(&o->rule, slot, &p);
        if (p.count > 0)
            COPSE_TRY(copse_queue_write(p.queue, p.buffer, b.offset, (const char *)values + b.at,
                                        b.size));
    }
    return COPSE_OK;
}

copse_status copse__slot_join(struct copse_optimizer *o, const char *what, uint32_t *words,
                              size_t count, copse_status mine)
{
    copse_strategy *st = o->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    char line[sizeof((struct copse_header *)0)->what];
    if (st->group.workers == 1)
        return mine;
    uint32_t *room = copse__alloc(mem, copse__group_sum_room(&st->group, count), sizeof *room);
    if (!mine && !room)
        mine = copse_no_memory("optimizer");
    snprintf(line, sizeof line, "slots of %.*s", (int)(sizeof line - 16), what);
    copse_status s = copse__group_barrier(&st->group, line, count, mine);
    if (!s)
        /* of integers: a number and zeros */
        s = copse__group_sum(&st->group, words, 0, count, room);
    copse__free(mem, room);
    return s;
}

bool copse__slot_find(const struct copse_optimizer *o, const char *name, uint32_t *slot)
{
    for (*slot = 0; *slot < o->rule.slots; ++*slot)
        if (strcmp(o->rule.slot_names[*slot], name) == 0)
            return true;
    return false;
}

static copse_status read_whole(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                               uint32_t *words)
{
    memset(words, 0, (size_t)copse__rule_slot_words(&o->rule, slot, v->count) * sizeof *words);
    copse_status s = o->table->read_slot(o, v, slot, words);
    for (uint32_t r = 0; r < o->strategy->replica_count; r++) {
        const copse_status done = copse_queue_finish(o->strategy->replicas[r].queue);
        s = done == COPSE_ERR_TIMEOUT || !s ? done : s;
    }
    return s;
}

copse_status copse__slot_read_words(struct copse_optimizer *o, const copse_variable *v,
                                    uint32_t slot, struct copse_block **out)
{
    const uint64_t words = copse__rule_slot_words(&o->rule, slot, v->count);
    struct copse_block *block = NULL;
    copse_status s = copse__block_create(o->strategy->ctx, NULL, COPSE_F32, words, &block);
    *out = NULL;
    if (!s)
        s = read_whole(o, v, slot, block->host);
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* a device may still write there */
    s = copse__slot_join(o, v->name, block ? block->host : NULL, (size_t)words, s);
    if (s)
        copse__block_release(&block);
    *out = block;
    return s;
}

/* Codes of means and of squares have a sign or not. */
static void slots_decode(const struct copse_rule *rule, uint32_t slot, const void *codes,
                         const float *scales, uint64_t count, float *to)
{
    const bool is_code = rule->slot_kinds[slot] == COPSE_SLOT_CODES, is_mean = slot == 0;
    for (uint64_t i = 0; i < count; i++) {
        const float scale = scales[i / COPSE_RULE_BLOCK];
        const uint32_t code = is_code ? copse__code_at(codes, (size_t)i) : 0;
        to[i] = !is_code  ? scale
                : is_mean ? copse__code_mean(code, scale)
                          : copse__code_square(code, scale);
    }
}

copse_status copse__slot_read(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                              struct copse_block **out)
{
    struct copse_block *codes = NULL, *scales = NULL;
    const uint8_t kind = o->rule.slot_kinds[slot];
    *out = NULL;
    if (kind == COPSE_SLOT_FLOATS)
        return copse__slot_read_words(o, v, slot, out);
    copse_status s =
        copse__slot_read_words(o, v, kind == COPSE_SLOT_CODES ? slot + 1 : slot, &scales);
    if (!s && kind == COPSE_SLOT_CODES)
        s = copse__slot_read_words(o, v, slot, &codes);
    if (!s)
        s = copse__block_create(o->strategy->ctx, NULL, COPSE_F32, v->count, out);
    if (!s)
        slots_decode(&o->rule, slot, codes ? codes->host : NULL, scales->host, v->count,
                     (*out)->host);
    copse__block_release(&codes);
    copse__block_release(&scales);
    return s;
}
