/* SPDX-License-Identifier: MIT */
/* The workers of a trainer: see workers.h. */
#include "core/train/result/workers.h"

#include <stdio.h>

#define TAG_RESULTS 2u

/* ---- what all agree on, and failures ---- */

copse_status copse__workers_agree(const struct copse_train_workers *w,
                                  const struct copse_trainer_params *p, const char *operations)
{
    char rule[COPSE_RULE_TEXT], text[COPSE_RULE_TEXT + 256];
    snprintf(text, sizeof text,
             "loss %d\n%sseed %llu\nmicro-batches %u\nsharding %d\nbatch size %llu\ngating "
             "%d\nchecks %d %d\nprecision %d\ncross-device operations %s\n",
             (int)p->reduction, copse__rule_text(&p->optimizer, rule), (unsigned long long)p->seed,
             p->accumulate, (int)p->sharding, (unsigned long long)p->batch_size, (int)p->gating,
             p->check_numerics, p->check_gradients, (int)p->precision, operations);
    return copse__group_agree(w->group, "the settings of the trainer", text);
}

copse_status copse__workers_report(const struct copse_train_workers *w, copse_status why)
{
    if (why != COPSE_OK && (*w->is_torn || copse__group_has_failed_device(w->group)))
        copse__group_abort(w->group);
    return why;
}

copse_status copse__workers_refuse(const struct copse_train_workers *w, copse_status why)
{
    return copse__group_refuse(w->group, "a step", copse__workers_report(w, why));
}

copse_status copse__workers_abort(const struct copse_train_workers *w, uint64_t since,
                                  copse_status why)
{
    if (why && !copse__group_was_refused(w->group, since))
        copse__group_abort(w->group);
    return why;
}

copse_status copse__workers_notify(const struct copse_train_workers *w, uint64_t since,
                                   copse_status why)
{
    const bool is_early =
        copse__group_is_whole(w->group, since) && !copse__group_was_refused(w->group, since);
    return why && is_early && !*w->is_torn ? copse__workers_refuse(w, why)
                                           : copse__workers_abort(w, since, why);
}

/* ---- results: a worker sends those of a step before the step returns, so a wait for results never
   includes what another worker does later ---- */

copse_status copse__workers_send(const struct copse_step_ring *ring, struct copse_step_slot *slot)
{
    const struct copse_group *g = &ring->strategy->group;
    copse_cluster *c = g->cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(copse__slot_wait(ring, slot, true));
    COPSE_TRY(copse__cluster_wait(c, slot->sends, g->workers, "results", NULL, NULL));
    /* The result of an earlier step may not have been taken before a restore; the other workers
       sent theirs before that step returned. */
    COPSE_TRY(copse__cluster_wait(c, slot->recvs, g->workers, "results", NULL, NULL));
    unsigned char *own = copse__slot_message(g, slot, g->worker);
    uint64_t head[1 + COPSE_AUDIT_WORDS] = { slot->step };
    copse__audit_words(&ring->verifier->audit, slot->step, head + 1);
    memcpy(own, head, sizeof head);
    for (size_t row = 0; row < (size_t)slot->parts * ring->strategy->replica_count; row++)
        for (uint32_t i = 0; i < COPSE_MESSAGE_VALUES; i++) {
            const float value = copse__slot_value(slot, row, i);
            memcpy(own + COPSE_MESSAGE_HEAD + (row * COPSE_MESSAGE_VALUES + i) * sizeof value,
                   &value, sizeof value);
        }
    for (uint32_t v = 0; v < g->workers; v++) {
        if (v == g->worker)
            continue;
        COPSE_TRY(copse__cluster_recv(c, v, TAG_RESULTS, copse__slot_message(g, slot, v),
                                      copse__slot_message_bytes(g, slot, v), &slot->recvs[v]));
        COPSE_TRY(copse__cluster_send(c, v, TAG_RESULTS, own,
                                      copse__slot_message_bytes(g, slot, g->worker),
                                      &slot->sends[v]));
    }
    return COPSE_OK;
}

copse_status copse__workers_receive(const struct copse_step_ring *ring,
                                    struct copse_step_slot *slot, bool wait)
{
    const struct copse_group *g = &ring->strategy->group;
    copse_cluster *c = g->cluster;
    if (!c)
        return COPSE_OK;
    COPSE_TRY(wait ? copse__cluster_wait(c, slot->recvs, g->workers, "results", NULL, NULL)
                   : copse__cluster_test(c, slot->recvs, g->workers));
    /* Sent with the step: the digests of an audit that has begun since may be on their way to the
       memory of these. */
    uint64_t own[1 + COPSE_AUDIT_WORDS];
    memcpy(own, copse__slot_message(g, slot, g->worker), sizeof own);
    for (uint32_t v = 0; v < g->workers; v++) {
        uint64_t head[1 + COPSE_AUDIT_WORDS];
        memcpy(head, copse__slot_message(g, slot, v), sizeof head);
        if (head[0] != slot->step)
            return copse_fail(COPSE_ERR_COMM,
                              "trainer: worker %u is at step %llu, this one at step %llu", v,
                              (unsigned long long)head[0], (unsigned long long)slot->step);
        if (v != g->worker)
            COPSE_TRY(copse__audit_other(&ring->verifier->audit, slot->step, v, own + 1, head + 1));
    }
    return COPSE_OK;
}

float copse__rank_value(const struct copse_group *g, const struct copse_step_slot *slot, size_t row,
                        uint32_t index)
{
    float value;
    if (g->workers == 1)
        return copse__slot_value(slot, row, index);
    const uint32_t *counts = g->rank_counts;
    const size_t part = row / g->ranks;
    uint32_t v = 0, rank = (uint32_t)(row % g->ranks);
    for (; rank >= counts[v]; v++)
        rank -= counts[v];
    memcpy(&value,
           copse__slot_message(g, slot, v) + COPSE_MESSAGE_HEAD +
               ((part * counts[v] + rank) * COPSE_MESSAGE_VALUES + index) * sizeof value,
           sizeof value);
    return value;
}
