/* SPDX-License-Identifier: MIT */
/* The ring of step slots: memory for the reports of each step. */
#include "core/train/result/step_slots.h"

copse_status copse__slot_wait(const struct copse_step_ring *ring,
                              const struct copse_step_slot *slot, bool wait)
{
    for (uint32_t r = 0; r < ring->strategy->replica_count; r++) {
        copse_queue *q = ring->strategy->replicas[r].queue;
        COPSE_TRY(wait ? copse__queue_await(q, slot->tickets[r])
                       : copse_queue_wait(q, slot->tickets[r], 0));
    }
    return copse__verify_end(ring->verifier, slot->step, wait);
}

float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i)
{
    float value;
    memcpy(&value, copse__slot_row(slot, row) + i * COPSE_REPORT_STRIDE, sizeof value);
    return value;
}

size_t copse__slot_message_bytes(const struct copse_group *g, const struct copse_step_slot *slot,
                                 uint32_t worker)
{
    return COPSE_MESSAGE_HEAD +
           (size_t)slot->room * g->rank_counts[worker] * COPSE_MESSAGE_VALUES * sizeof(float);
}

unsigned char *copse__slot_message(const struct copse_group *g, const struct copse_step_slot *slot,
                                   uint32_t worker)
{
    unsigned char *at = slot->all;
    for (uint32_t v = 0; v < worker; v++)
        at += copse__slot_message_bytes(g, slot, v);
    return at;
}

static void free_slot(copse_strategy *st, struct copse_step_slot *slot)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const struct copse_group *g = &st->group;
    copse__free(mem, slot->examples);
    if (!slot->all)
        return;
    /* Other workers may not have received the messages yet, and their own messages need a
       receiver. */
    if (!g->cluster->is_failed)
        (void)copse__cluster_wait(g->cluster, slot->sends, g->workers, "results", NULL, NULL);
    if (!g->cluster->is_failed)
        (void)copse__cluster_wait(g->cluster, slot->recvs, g->workers, "results", NULL, NULL);
    copse__cluster_drop(g->cluster, slot->sends, g->workers);
    copse__cluster_drop(g->cluster, slot->recvs, g->workers);
    copse__free(mem, slot->all);
}

static copse_status make_slot(copse_strategy *st, struct copse_step_slot *slot, uint32_t parts)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const struct copse_group *g = &st->group;
    size_t all, bytes = 0;
    COPSE_TRY(copse_need_memory(copse__mul(parts, g->ranks, &all), "trainer"));
    slot->room = parts;
    slot->replicas = st->replica_count;
    COPSE_TRY(copse_need_memory(slot->examples = copse__alloc(mem, all, sizeof *slot->examples),
                                "trainer"));
    for (uint32_t v = 0; g->workers > 1 && v < g->workers; v++)
        bytes += copse__slot_message_bytes(g, slot, v);
    return g->workers == 1 ? COPSE_OK
                           : copse_need_memory(slot->all = copse__alloc(mem, bytes, 1), "trainer");
}

/* The rows of one replica follow each other in all slots, so that one read has the reports of a
   run. */
copse_status copse__step_slots_make(struct copse_step_ring *ring, copse_strategy *st,
                                    struct copse_verifier *verifier, uint32_t steps, uint32_t parts)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const uint32_t replicas = st->replica_count;
    size_t each, rows, stride;
    ring->strategy = st;
    ring->verifier = verifier;
    ring->count = steps;
    ring->at = copse__alloc(mem, steps, sizeof *ring->at);
    const bool fits = copse__mul(parts, COPSE_REPORT_BYTES, &each) &&
                      copse__mul(each, steps, &stride) && copse__mul(steps, parts, &rows) &&
                      copse__mul(rows, replicas, &rows);
    COPSE_TRY(copse_need_memory(ring->at && fits, "trainer"));
    ring->landing = copse__alloc(mem, rows, COPSE_REPORT_BYTES);
    ring->evaluation.bytes = copse__alloc(mem, replicas, COPSE_REPORT_BYTES);
    ring->evaluation.stride = COPSE_REPORT_BYTES;
    COPSE_TRY(copse_need_memory(ring->landing && ring->evaluation.bytes, "trainer"));
    for (uint32_t i = 0; i < steps; i++) {
        ring->at[i].bytes = ring->landing + i * each;
        ring->at[i].stride = stride;
        COPSE_TRY(make_slot(st, &ring->at[i], parts));
    }
    return make_slot(st, &ring->evaluation, 1);
}

void copse__step_slots_free(struct copse_step_ring *ring, bool is_idle)
{
    if (!ring->strategy)
        return;
    struct copse_mem *mem = &ring->strategy->ctx->base.mem;
    for (uint32_t i = 0; ring->at && i < ring->count; i++)
        free_slot(ring->strategy, &ring->at[i]);
    free_slot(ring->strategy, &ring->evaluation);
    copse__free(mem, ring->at);
    if (!is_idle) /* a read may still land there */
        return;
    copse__free(mem, ring->landing);
    copse__free(mem, ring->evaluation.bytes);
}

struct copse_step_slot *copse__slot_of(const struct copse_step_ring *ring, uint64_t step)
{
    return &ring->at[step % ring->count];
}

void copse__slot_note(const struct copse_step_ring *ring, struct copse_step_slot *slot,
                      uint32_t part, const struct copse_shard *of_all)
{
    const uint32_t ranks = ring->strategy->group.ranks;
    for (uint32_t r = 0; r < ranks; r++)
        slot->examples[(size_t)part * ranks + r] = of_all[r].count;
    slot->parts = part + 1;
}
