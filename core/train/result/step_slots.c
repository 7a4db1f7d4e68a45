/* SPDX-License-Identifier: MIT */
/* The ring of step slots: memory for the reports of each step. */
#include "core/train/trainer.h"

copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot, bool wait)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_queue *q = t->strategy->replicas[r].queue;
        COPSE_TRY(wait ? copse__queue_await(q, slot->tickets[r])
                       : copse_queue_wait(q, slot->tickets[r], 0));
    }
    return copse__verify_end(&t->watches.verifier, slot->step, wait);
}

float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i)
{
    float value;
    memcpy(&value, copse__slot_row(slot, row) + i * COPSE_REPORT_STRIDE, sizeof value);
    return value;
}

size_t copse__slot_message_bytes(const copse_trainer *t, const struct copse_step_slot *slot,
                                 uint32_t worker)
{
    return COPSE_MESSAGE_HEAD + (size_t)slot->room * t->strategy->group.rank_counts[worker] *
                                    COPSE_MESSAGE_VALUES * sizeof(float);
}

unsigned char *copse__slot_message(const copse_trainer *t, const struct copse_step_slot *slot,
                                   uint32_t worker)
{
    unsigned char *at = slot->all;
    for (uint32_t v = 0; v < worker; v++)
        at += copse__slot_message_bytes(t, slot, v);
    return at;
}

static void free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const struct copse_group *g = &t->strategy->group;
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

static copse_status make_slot(copse_trainer *t, struct copse_step_slot *slot, uint32_t parts)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const struct copse_group *g = &t->strategy->group;
    size_t all, bytes = 0;
    COPSE_TRY(copse_need_memory(copse__mul(parts, g->ranks, &all), "trainer"));
    slot->room = parts;
    slot->replicas = t->strategy->replica_count;
    COPSE_TRY(copse_need_memory(slot->examples = copse__alloc(mem, all, sizeof *slot->examples),
                                "trainer"));
    for (uint32_t v = 0; g->workers > 1 && v < g->workers; v++)
        bytes += copse__slot_message_bytes(t, slot, v);
    return g->workers == 1 ? COPSE_OK
                           : copse_need_memory(slot->all = copse__alloc(mem, bytes, 1), "trainer");
}

/* The rows of one replica follow each other in all slots, so that one read has the reports of a
   run. */
copse_status copse__slots_make(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const uint32_t parts = t->params.accumulate, replicas = t->strategy->replica_count;
    size_t each, rows, stride;
    t->ring.count = COPSE_MAX(2 * t->strategy->accelerator.steps_per_run, COPSE_STEPS_IN_PROGRESS);
    t->ring.at = copse__alloc(mem, t->ring.count, sizeof *t->ring.at);
    const bool fits = copse__mul(parts, COPSE_REPORT_BYTES, &each) &&
                      copse__mul(each, t->ring.count, &stride) &&
                      copse__mul(t->ring.count, parts, &rows) && copse__mul(rows, replicas, &rows);
    COPSE_TRY(copse_need_memory(t->ring.at && fits, "trainer"));
    t->ring.landing = copse__alloc(mem, rows, COPSE_REPORT_BYTES);
    t->ring.evaluation.bytes = copse__alloc(mem, replicas, COPSE_REPORT_BYTES);
    t->ring.evaluation.stride = COPSE_REPORT_BYTES;
    COPSE_TRY(copse_need_memory(t->ring.landing && t->ring.evaluation.bytes, "trainer"));
    for (uint32_t i = 0; i < t->ring.count; i++) {
        t->ring.at[i].bytes = t->ring.landing + i * each;
        t->ring.at[i].stride = stride;
        COPSE_TRY(make_slot(t, &t->ring.at[i], parts));
    }
    return make_slot(t, &t->ring.evaluation, 1);
}

void copse__slots_free(copse_trainer *t, bool is_idle)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    for (uint32_t i = 0; t->ring.at && i < t->ring.count; i++)
        free_slot(t, &t->ring.at[i]);
    free_slot(t, &t->ring.evaluation);
    copse__free(mem, t->ring.at);
    if (!is_idle) /* a read may still land there */
        return;
    copse__free(mem, t->ring.landing);
    copse__free(mem, t->ring.evaluation.bytes);
}

copse_status copse__trainer_buffer(copse_trainer *t, uint32_t r, size_t bytes, copse_buffer **out)
{
    copse_queue *q = t->strategy->replicas[r].queue;
    COPSE_TRY(copse_buffer_create(t->strategy->replicas[r].dev,
                                  &(struct copse_buffer_params){ .size = bytes }, out));
    COPSE_TRY(copse_queue_fill(q, *out, 0, bytes, 0));
    return copse_queue_finish(q);
}

struct copse_step_slot *copse__slot_of(copse_trainer *t, uint64_t step)
{
    return &t->ring.at[step % t->ring.count];
}

void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shards *s)
{
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        slot->examples[(size_t)part * t->strategy->group.ranks + r] = s->of_all[r].count;
    slot->parts = part + 1;
}
