/* SPDX-License-Identifier: MIT */
/* Variables that are updated together share buckets. When an update has a part of a bucket's
   variables only, the bucket becomes two, and the slots move. */
#include "core/optim/optimizer.h"

struct separation {
    struct copse_optimizer *o;
    const unsigned char *is_in; /* by index of the variable; not 0: it is updated */
    uint32_t first;             /* buckets from this one on are cut again */
    copse_variable **list;
    uint32_t *parts;            /* of each: its bucket and side */
    struct copse_block **slots; /* of each: one block for each slot, [count][slots] */
    size_t count;
};

static bool is_moved(const struct separation *p, const copse_variable *v)
{
    const uint32_t bucket = copse__optimizer_bucket(p->o, v);
    return bucket != COPSE_NO_BUCKET && bucket >= p->first;
}

/* The first bucket with variables of both kinds, or COPSE_NO_BUCKET. */
static uint32_t first_mixed(const struct copse_optimizer *o, const unsigned char *is_in)
{
    const copse_strategy *st = o->strategy;
    uint32_t found = COPSE_NO_BUCKET;
    for (uint32_t b = 0; b < o->buckets.count && found == COPSE_NO_BUCKET; b++) {
        bool has[2] = { false, false };
        for (size_t i = 0; i < st->variables.count; i++)
            if (copse__optimizer_bucket(o, st->variables.at[i]) == b)
                has[is_in[i] != 0] = true;
        if (has[0] && has[1])
            found = b;
    }
    return found;
}

static copse_status list_moved(struct separation *p)
{
    const copse_strategy *st = p->o->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t all = st->variables.count;
    p->list = copse__alloc(mem, all, sizeof(copse_variable *));
    p->parts = copse__alloc(mem, all, sizeof *p->parts);
    p->slots = copse__alloc(mem, all * COPSE_MAX(p->o->rule.slots, 1), sizeof(*p->slots));
    COPSE_TRY(copse_need_memory(p->list && p->parts && p->slots, "optimizer"));
    for (size_t i = 0; i < all; i++) {
        copse_variable *v = st->variables.at[i];
        if (!is_moved(p, v))
            continue;
        p->parts[p->count] = 2 * copse__optimizer_bucket(p->o, v) + (p->is_in[i] != 0);
        p->list[p->count++] = v;
    }
    return COPSE_OK;
}

static copse_status slots_save(struct separation *p)
{
    const uint32_t slots = p->o->rule.slots;
    for (size_t i = 0; i < p->count; i++)
        for (uint32_t k = 0; k < slots; k++)
            COPSE_TRY(copse__slot_read_words(p->o, p->list[i], k, &p->slots[i * slots + k]));
    return COPSE_OK;
}

/* Variables of one part are updated together as before. */
static copse_status parts_prepare(struct separation *p)
{
    copse_variable **some =
        copse__alloc(&p->o->strategy->ctx->base.mem, p->count, sizeof(copse_variable *));
    copse_status s = copse_need_memory(some, "optimizer");
    for (uint32_t part = 2 * p->first; part < 2 * COPSE_NO_BUCKET && !s; part++) {
        size_t count = 0, left = 0;
        for (size_t i = 0; i < p->count; i++) {
            left += p->parts[i] > part;
            if (p->parts[i] == part)
                some[count++] = p->list[i];
        }
        if (count > 0)
            s = p->o->table->prepare(p->o, some, count);
        if (left == 0)
            break;
    }
    copse__free(&p->o->strategy->ctx->base.mem, some);
    return s;
}

static copse_status slots_restore(struct separation *p)
{
    const uint32_t slots = p->o->rule.slots;
    const copse_strategy *st = p->o->strategy;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < p->count && !s; i++)
        for (uint32_t k = 0; k < slots && !s; k++)
            s = p->o->table->write_slot(p->o, p->list[i], k, p->slots[i * slots + k]->host);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const copse_status done = copse_queue_finish(st->replicas[r].queue);
        s = done == COPSE_ERR_TIMEOUT || !s ? done : s;
    }
    return s;
}

static copse_status separate_from(struct separation *p, copse_status mine)
{
    struct copse_optimizer *o = p->o;
    copse_status s = mine ? mine : list_moved(p);
    COPSE_TRY(copse__group_barrier(&o->strategy->group, "buckets", p->count, s));
    COPSE_TRY(slots_save(p));
    o->is_torn = true; /* until the slots are back */
    copse__optimizer_drop(o, p->first);
    COPSE_TRY(parts_prepare(p));
    COPSE_TRY(slots_restore(p));
    o->is_torn = false;
    return COPSE_OK;
}

copse_status copse__optimizer_separate(struct copse_optimizer *o, const unsigned char *is_in,
                                       copse_status mine)
{
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    struct separation p = { .o = o, .is_in = is_in, .first = first_mixed(o, is_in) };
    if (p.first == COPSE_NO_BUCKET)
        return mine;
    const copse_status s = separate_from(&p, mine);
    for (size_t i = 0; p.slots && i < p.count * o->rule.slots; i++)
        if (s != COPSE_ERR_TIMEOUT) /* a device may still use them */
            copse__block_release(&p.slots[i]);
    copse__free(mem, p.slots);
    copse__free(mem, p.parts);
    copse__free(mem, p.list);
    return s;
}
