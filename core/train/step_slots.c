/* SPDX-License-Identifier: MIT */
/* The ring of step slots: memory for the reports of each step. */
#include "core/train/trainer.h"

copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot, bool wait)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        copse_queue *q = t->strategy->replicas[r].queue;
        COPSE_TRY(wait ? copse__queue_await(q, slot->tickets[r]) : copse_queue_wait(q, slot->tickets[r], 0));
    }
    return COPSE_OK;
}

float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i)
{
    float value;
    memcpy(&value, copse__slot_row(slot, row) + i * COPSE_REPORT_STRIDE, sizeof value);
    return value;
}

size_t copse__slot_message_bytes(const copse_trainer *t, const struct copse_step_slot *slot, uint32_t worker)
{
    return COPSE_MESSAGE_HEAD + (size_t)slot->room * t->strategy->group.rank_counts[worker] *
                                     COPSE_MESSAGE_VALUES * sizeof(float);
}

unsigned char *copse__slot_message(const copse_trainer *t, const struct copse_step_slot *slot, uint32_t worker)
{
    unsigned char *at = slot->all;
    for (uint32_t v = 0; v < worker; v++)
        at += copse__slot_message_bytes(t, slot, v);
    return at;
}

static copse_status make_messages(copse_trainer *t, struct copse_step_slot *slot)
{
    size_t bytes = 0;
    if (t->strategy->group.workers == 1)
        return COPSE_OK;
    for (uint32_t v = 0; v < t->strategy->group.workers; v++)
        bytes += copse__slot_message_bytes(t, slot, v);
    slot->all = copse__alloc(&t->strategy->ctx->base.mem, bytes, 1);
    return copse_need_memory(slot->all, "trainer");
}

static void free_messages(copse_trainer *t, struct copse_step_slot *slot)
{
    if (!slot->all)
        return;
    copse_cluster *c = t->strategy->group.cluster;
    /* Other workers may not have received the messages yet, and their own messages need a receiver. */
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->sends, t->strategy->group.workers, "results", NULL, NULL);
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->recvs, t->strategy->group.workers, "results", NULL, NULL);
    copse__cluster_drop(c, slot->sends, t->strategy->group.workers);
    copse__cluster_drop(c, slot->recvs, t->strategy->group.workers);
    copse__free(&t->strategy->ctx->base.mem, slot->all);
    slot->all = NULL;
}

static void free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    free_messages(t, slot);
    copse__free(&t->strategy->ctx->base.mem, slot->examples);
}

static copse_status make_slot(copse_trainer *t, struct copse_step_slot *slot, uint32_t parts)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    size_t all;
    COPSE_TRY(copse_need_memory(copse__mul(parts, t->strategy->group.ranks, &all), "trainer"));
    slot->room = parts;
    slot->replicas = t->strategy->replica_count;
    slot->examples = copse__alloc(mem, all, sizeof *slot->examples);
    return slot->examples ? make_messages(t, slot) : copse_no_memory("trainer");
}

/* The rows of one replica follow each other in all slots, so that one read has the reports of a run. */
copse_status copse__slots_make(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    const uint32_t parts = t->params.accumulate, replicas = t->strategy->replica_count;
    size_t each, rows, stride;
    t->ring.count = COPSE_MAX(2 * t->strategy->accelerator.steps_per_run, COPSE_STEPS_UNDER_WAY);
    t->ring.at = copse__alloc(mem, t->ring.count, sizeof *t->ring.at);
    const bool fits = copse__mul(parts, COPSE_REPORT_BYTES, &each) && copse__mul(each, t->ring.count, &stride) &&
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

void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part, const struct copse_shares *s)
{
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        slot->examples[(size_t)part * t->strategy->group.ranks + r] = s->of_all[r].count;
    slot->parts = part + 1;
}
