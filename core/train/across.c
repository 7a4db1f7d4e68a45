/* SPDX-License-Identifier: MIT */
/* A trainer across workers: what must be the same everywhere, a step that one worker cannot take, and the
   results of all replicas on every worker. A step's results are sent before the step returns, so that nobody
   who waits for them waits for what another worker does later. */
#include <stdio.h>

#include "core/train/trainer.h"

#define TAG_RESULTS 2u
#define VALUES      (1 + COPSE_MAX_REPORTS)

/* What a worker sends of a step: this, then VALUES floats per replica, for every micro-batch. */
struct head {
    uint64_t step;
};

static size_t message_bytes(const copse_trainer *t, const struct copse_step_slot *slot,
                            uint32_t worker)
{
    return sizeof(struct head) + (size_t)slot->room * t->strategy->group.rank_counts[worker] *
                                     VALUES * sizeof(float);
}

static unsigned char *message_of(const copse_trainer *t, const struct copse_step_slot *slot,
                                 uint32_t worker)
{
    unsigned char *at = slot->all;
    for (uint32_t v = 0; v < worker; v++)
        at += message_bytes(t, slot, v);
    return at;
}

copse_status copse__across_init(copse_trainer *t)
{
    const struct copse_trainer_params *p = &t->params;
    char rule[COPSE_RULE_TEXT], text[COPSE_RULE_TEXT + 256];
    snprintf(text, sizeof text,
             "loss %d\n%sseed %llu\nmicro-batches %u\nsharing %d\nbatch size %llu\ngating %d\nchecks %d %d\n",
             (int)p->reduction, copse__rule_text(&p->optimizer, rule), (unsigned long long)p->seed, p->accumulate,
             (int)p->sharing, (unsigned long long)p->batch_size, (int)p->gating, p->check_numerics,
             p->check_gradients);
    return copse__group_agree(&t->strategy->group, "the settings of the trainer", text);
}

copse_status copse__across_make_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    size_t bytes = 0;
    if (t->strategy->group.workers == 1)
        return COPSE_OK;
    for (uint32_t v = 0; v < t->strategy->group.workers; v++)
        bytes += message_bytes(t, slot, v);
    slot->all = copse__alloc(&t->strategy->ctx->base.mem, bytes, 1);
    return slot->all ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "trainer: no memory");
}

void copse__across_free_slot(copse_trainer *t, struct copse_step_slot *slot)
{
    if (!slot->all)
        return;
    copse_cluster *c = t->strategy->group.cluster;
    /* The others may not have taken them yet; and what they send must find somebody who takes it. */
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->sends, t->strategy->group.workers, "results", NULL, NULL);
    if (!c->is_failed)
        (void)copse__cluster_wait(c, slot->recvs, t->strategy->group.workers, "results", NULL, NULL);
    copse__cluster_drop(c, slot->sends, t->strategy->group.workers);
    copse__cluster_drop(c, slot->recvs, t->strategy->group.workers);
    copse__free(&t->strategy->ctx->base.mem, slot->all);
    slot->all = NULL;
}

copse_status copse__across_give_up(copse_trainer *t, copse_status why)
{
    if (why != COPSE_OK && t && (t->is_failed || copse__group_has_failed_device(&t->strategy->group)))
        copse__group_abort(&t->strategy->group);
    return why;
}

copse_status copse__across_refuse(copse_trainer *t, copse_status why)
{
    return copse__group_refuse(&t->strategy->group, "a step", copse__across_give_up(t, why));
}

uint64_t copse__across_now(const copse_trainer *t)
{
    return copse__group_sequence(&t->strategy->group);
}

bool copse__across_is_whole(const copse_trainer *t, uint64_t since)
{
    return copse__group_is_whole(&t->strategy->group, since);
}

copse_status copse__across_stop(copse_trainer *t, uint64_t since, copse_status why)
{
    if (why && !copse__group_was_refused(&t->strategy->group, since))
        copse__group_abort(&t->strategy->group);
    return why;
}

copse_status copse__across_tell(copse_trainer *t, uint64_t since, copse_status why)
{
    const struct copse_group *g = &t->strategy->group;
    const bool is_early = copse__group_is_whole(g, since) && !copse__group_was_refused(g, since);
    return why && is_early && !t->is_failed ? copse__across_refuse(t, why) : copse__across_stop(t, since, why);
}

void copse__across_note(copse_trainer *t, uint64_t step, const struct copse_host_batch *batch)
{
    const uint64_t words[] = { step, batch->count, batch->first, batch->epoch };
    copse__group_note(&t->strategy->group, (uint32_t)copse__hash(COPSE_HASH_START, words, sizeof words));
}

copse_status copse__across_share(copse_trainer *t, struct copse_step_slot *slot)
{
    copse_strategy *st = t->strategy;
    copse_cluster *c = st->group.cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(copse__slot_wait(t, slot, true));
    COPSE_TRY(copse__cluster_wait(c, slot->sends, t->strategy->group.workers, "results", NULL, NULL));
    unsigned char *own = message_of(t, slot, t->strategy->group.worker);
    memcpy(own, &(struct head){ slot->step }, sizeof(struct head));
    for (size_t row = 0; row < (size_t)slot->parts * st->replica_count; row++)
        for (uint32_t i = 0; i < VALUES; i++) {
            const float value = copse__slot_value(slot, row, i);
            memcpy(own + sizeof(struct head) + (row * VALUES + i) * sizeof value, &value,
                   sizeof value);
        }
    for (uint32_t v = 0; v < t->strategy->group.workers; v++) {
        if (v == t->strategy->group.worker)
            continue;
        COPSE_TRY(copse__cluster_recv(c, v, TAG_RESULTS, message_of(t, slot, v),
                                      message_bytes(t, slot, v), &slot->recvs[v]));
        COPSE_TRY(copse__cluster_send(c, v, TAG_RESULTS, own,
                                      message_bytes(t, slot, t->strategy->group.worker), &slot->sends[v]));
    }
    return COPSE_OK;
}

copse_status copse__across_collect(copse_trainer *t, struct copse_step_slot *slot, bool wait)
{
    copse_cluster *c = t->strategy->group.cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(wait ? copse__cluster_wait(c, slot->recvs, t->strategy->group.workers, "results", NULL, NULL)
                   : copse__cluster_test(c, slot->recvs, t->strategy->group.workers));
    for (uint32_t v = 0; v < t->strategy->group.workers; v++) {
        struct head h;
        memcpy(&h, message_of(t, slot, v), sizeof h);
        if (h.step != slot->step)
            return copse_fail(COPSE_ERR_COMM,
                              "trainer: worker %u is at step %llu, this one at step %llu", v,
                              (unsigned long long)h.step, (unsigned long long)slot->step);
    }
    return COPSE_OK;
}

float copse__across_value(const copse_trainer *t, const struct copse_step_slot *slot,
                          size_t row, uint32_t index)
{
    float value;
    if (t->strategy->group.workers == 1)
        return copse__slot_value(slot, row, index);
    const uint32_t *counts = t->strategy->group.rank_counts;
    const size_t part = row / t->strategy->rank_total;
    uint32_t v = 0, rank = (uint32_t)(row % t->strategy->rank_total);
    for (; rank >= counts[v]; v++)
        rank -= counts[v];
    memcpy(&value,
           message_of(t, slot, v) + sizeof(struct head) +
               ((part * counts[v] + rank) * VALUES + index) * sizeof value,
           sizeof value);
    return value;
}
