/* SPDX-License-Identifier: MIT */
/* Replicas: opening their devices, queues and step buffers, and the references to the strategy that
   has them. */
#include "core/reduce/value/value_reduce.h"
#include "core/replica/strategy.h"

/* ---- opening and closing ---- */

/* How many replicas of the list share the device of replica r, which of them r is, and the first of
   them. */
static struct copse_device_params part_of(const char *const *devices, size_t count, size_t r,
                                          size_t *first)
{
    struct copse_device_params p = { .part = 0 };
    for (size_t i = count; i-- > 0;)
        if (strcmp(devices[i], devices[r]) == 0) {
            p.part += i < r;
            p.parts++;
            *first = i;
        }
    return p;
}

static copse_status open_one(copse_strategy *st, const char *const *devices, size_t count)
{
    const uint32_t index = st->replica_count++;
    size_t twin = index;
    const struct copse_device_params part = part_of(devices, count, index, &twin);
    struct copse_replica *r = &st->replicas[index];
    if (st->table->shares_devices && twin < index) { /* a logical core */
        r->dev = copse_device_retain(st->replicas[twin].dev);
        r->queue = copse_queue_retain(st->replicas[twin].queue);
    } else {
        COPSE_TRY(copse_device_open(st->ctx, devices[index],
                                    st->table->shares_devices ? NULL : &part, &r->dev));
        COPSE_TRY(copse__device_refuse_unreliable(r->dev));
        COPSE_TRY(copse_queue_create(r->dev, &r->queue));
    }
    COPSE_TRY(copse_buffer_create(
        r->dev, &(struct copse_buffer_params){ .size = 4 * COPSE_STEP_WORDS }, &r->step));
    return COPSE_OK;
}

copse_status copse__replica_transfer(struct copse_replica *r)
{
    return r->transfer ? COPSE_OK : copse_queue_create(r->dev, &r->transfer);
}

copse_status copse__replicas_open(copse_strategy *st, const char *const *devices, size_t count)
{
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(copse_note(open_one(st, devices, count), "while opening replica %zu on %s", i,
                             devices[i]));
    return COPSE_OK;
}

void copse__replicas_close(copse_strategy *st)
{
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_buffer_release(&st->replicas[r].step);
        copse_queue_release(&st->replicas[r].transfer);
        copse_queue_release(&st->replicas[r].queue);
        copse_device_release(&st->replicas[r].dev);
    }
}

uint64_t copse__replicas_binding_bytes(const copse_strategy *st)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_limits *l = st->replicas[r].dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes;
}

/* ---- what belongs to a strategy ---- */

copse_status copse__strategy_reducer(copse_strategy *st, copse_value_reducer **out)
{
    copse_queue *queues[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < st->replica_count; r++)
        queues[r] = st->replicas[r].queue;
    if (!st->reducer)
        COPSE_TRY(copse__value_reducer_create(st->ctx, queues, st->replica_count, &st->reducer));
    *out = st->reducer;
    return COPSE_OK;
}

copse_status copse__strategy_count(copse_strategy *st, bool is_set, uint64_t *value)
{
    st->global_step = is_set ? *value : st->global_step + *value;
    *value = st->global_step;
    return COPSE_OK;
}

void copse__dependant_add(copse_strategy *st, struct copse_dependant *d, const void *kind)
{
    d->kind = kind;
    d->next = st->dependants;
    st->dependants = d;
}

void copse__dependant_remove(copse_strategy *st, struct copse_dependant *d)
{
    struct copse_dependant **link = &st->dependants;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
}

void *copse__dependant_next(const copse_strategy *st, const struct copse_dependant *d,
                            const void *kind)
{
    struct copse_dependant *next = d ? d->next : st->dependants;
    while (next && next->kind != kind)
        next = next->next;
    return next;
}

/* ---- references ---- */

copse_strategy *copse_strategy_retain(copse_strategy *st)
{
    if (st && st->table->dispose)
        copse__ref(&st->refs);
    return st;
}

void copse_strategy_release(copse_strategy **st)
{
    if (!st || !*st)
        return;
    if ((*st)->table->dispose && copse__unref(&(*st)->refs))
        (*st)->table->dispose(*st);
    *st = NULL;
}

/* ---- getters ---- */

COPSE_PROPERTY(uint32_t, copse_strategy_replicas, copse_strategy, x->replica_count, 0)
COPSE_PROPERTY(uint32_t, copse_strategy_replicas_in_sync, copse_strategy, x->group.ranks, 0)
COPSE_PROPERTY(uint32_t, copse_strategy_first_rank, copse_strategy, x->group.first, 0)

const struct copse_device_info *copse_strategy_device(const copse_strategy *st, uint32_t replica)
{
    return st && replica < st->replica_count && st->replicas[replica].dev
               ? &st->replicas[replica].dev->info
               : NULL;
}
