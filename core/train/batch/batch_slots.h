/* SPDX-License-Identifier: MIT */
/* Batch slots: a ring of batches in device memory, or on their way there. */
#ifndef COPSE_BATCH_SLOTS_H
#define COPSE_BATCH_SLOTS_H

#include "core/train/batch/shards.h"
#include "core/train/recording/shard_inputs.h"

/* A batch in device memory, or on its way there. */
struct copse_batch_slot {
    struct copse_shards shards;
    struct copse_host_batch batch; /* without data, of these columns */
    struct copse_column columns[COPSE_MAX_INPUTS];
    struct copse_binding at[COPSE_MAX_REPLICAS]; /* each replica's shard */
    /* prefetch: ticket of the transfer queue behind the upload, */
    uint64_t written[COPSE_MAX_REPLICAS];
    /* and of the replica's queue behind the copy out of the slot */
    uint64_t read[COPSE_MAX_REPLICAS];
};

struct copse_batch_slots {
    copse_strategy *strategy; /* not a reference */
    const char *setting;      /* that is the number of slots, in texts */
    bool has_transfers;       /* uploads are on the replicas' transfer queues; else on their own */
    struct copse_batch_slot *at; /* [depth], a ring */
    uint32_t depth, count;       /* slots; batches that are fed */
    uint32_t first;              /* slot of the oldest that is fed, or the next one */
};

copse_status copse__batch_slots_init(struct copse_batch_slots *s, copse_strategy *st,
                                     uint32_t depth);
/* Allowed on a zeroed struct. */
void copse__batch_slots_fini(struct copse_batch_slots *s);
/* The slot of the batch that is fed as number `i`, 0 = the oldest. */
struct copse_batch_slot *copse__batch_slot(const struct copse_batch_slots *s, uint32_t i);
/* The recordings of the batches that are fed are needed in this `use` of the recordings. */
void copse__batch_slots_keep(const struct copse_batch_slots *s, uint64_t use);
/* Queue the copy from a slot to where the recording reads it. */
copse_status copse__batch_slot_copy(copse_queue *q, const struct copse_step_recording *rec,
                                    const struct copse_binding *slot);
/* Queue the upload of a batch, with these shards, to a slot. Its memory grows where need be. */
copse_status copse__batch_slot_upload(const struct copse_batch_slots *s,
                                      const struct copse_host_batch *batch,
                                      const struct copse_shards *shards,
                                      struct copse_batch_slot *slot);
/* Whether a batch has columns of these names, types and shapes. */
bool copse__batch_has_columns(const struct copse_host_batch *batch,
                              const struct copse_column *columns, size_t count);

#endif
