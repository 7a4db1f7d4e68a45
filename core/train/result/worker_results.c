/* SPDX-License-Identifier: MIT */
/* The results of all replicas on every worker. A worker sends its results of a step before the step
   returns. So a wait for results never includes what another worker does later. */
#include "core/train/trainer.h"

#define TAG_RESULTS 2u

copse_status copse__worker_results_send(copse_trainer *t, struct copse_step_slot *slot)
{
    copse_strategy *st = t->strategy;
    copse_cluster *c = st->group.cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(copse__slot_wait(t, slot, true));
    COPSE_TRY(
        copse__cluster_wait(c, slot->sends, t->strategy->group.workers, "results", NULL, NULL));
    /* The result of an earlier step may not have been taken before a restore; the other workers
       sent theirs before that step returned. */
    COPSE_TRY(
        copse__cluster_wait(c, slot->recvs, t->strategy->group.workers, "results", NULL, NULL));
    unsigned char *own = copse__slot_message(t, slot, t->strategy->group.worker);
    uint64_t head[1 + COPSE_AUDIT_WORDS] = { slot->step };
    copse__audit_words(&t->watches.verifier.audit, slot->step, head + 1);
    memcpy(own, head, sizeof head);
    for (size_t row = 0; row < (size_t)slot->parts * st->replica_count; row++)
        for (uint32_t i = 0; i < COPSE_MESSAGE_VALUES; i++) {
            const float value = copse__slot_value(slot, row, i);
            memcpy(own + COPSE_MESSAGE_HEAD + (row * COPSE_MESSAGE_VALUES + i) * sizeof value,
                   &value, sizeof value);
        }
    for (uint32_t v = 0; v < t->strategy->group.workers; v++) {
        if (v == t->strategy->group.worker)
            continue;
        COPSE_TRY(copse__cluster_recv(c, v, TAG_RESULTS, copse__slot_message(t, slot, v),
                                      copse__slot_message_bytes(t, slot, v), &slot->recvs[v]));
        COPSE_TRY(copse__cluster_send(c, v, TAG_RESULTS, own,
                                      copse__slot_message_bytes(t, slot, t->strategy->group.worker),
                                      &slot->sends[v]));
    }
    return COPSE_OK;
}

copse_status copse__worker_results_receive(copse_trainer *t, struct copse_step_slot *slot,
                                           bool wait)
{
    copse_cluster *c = t->strategy->group.cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(wait ? copse__cluster_wait(c, slot->recvs, t->strategy->group.workers, "results",
                                         NULL, NULL)
                   : copse__cluster_test(c, slot->recvs, t->strategy->group.workers));
    /* Sent with the step: the digests of an audit that has begun since may be on their way to the
       memory of these. */
    uint64_t own[1 + COPSE_AUDIT_WORDS];
    memcpy(own, copse__slot_message(t, slot, t->strategy->group.worker), sizeof own);
    for (uint32_t v = 0; v < t->strategy->group.workers; v++) {
        uint64_t head[1 + COPSE_AUDIT_WORDS];
        memcpy(head, copse__slot_message(t, slot, v), sizeof head);
        if (head[0] != slot->step)
            return copse_fail(COPSE_ERR_COMM,
                              "trainer: worker %u is at step %llu, this one at step %llu", v,
                              (unsigned long long)head[0], (unsigned long long)slot->step);
        if (v != t->strategy->group.worker)
            COPSE_TRY(
                copse__audit_other(&t->watches.verifier.audit, slot->step, v, own + 1, head + 1));
    }
    return COPSE_OK;
}

float copse__rank_value(const copse_trainer *t, const struct copse_step_slot *slot, size_t row,
                        uint32_t index)
{
    float value;
    if (t->strategy->group.workers == 1)
        return copse__slot_value(slot, row, index);
    const uint32_t *counts = t->strategy->group.rank_counts;
    const size_t part = row / t->strategy->group.ranks;
    uint32_t v = 0, rank = (uint32_t)(row % t->strategy->group.ranks);
    for (; rank >= counts[v]; v++)
        rank -= counts[v];
    memcpy(&value,
           copse__slot_message(t, slot, v) + COPSE_MESSAGE_HEAD +
               ((part * counts[v] + rank) * COPSE_MESSAGE_VALUES + index) * sizeof value,
           sizeof value);
    return value;
}
