/* SPDX-License-Identifier: MIT */
/* A trainer from the inside: recordings by replica and share, the ring of steps under way. */
#ifndef COPSE_TRAINER_H
#define COPSE_TRAINER_H

#include "copse/train.h"
#include "core/data/shard.h"
#include "core/optim/rule.h"
#include "core/replica/replica.h"

#define COPSE_STEPS_UNDER_WAY 8
#define COPSE_REPORT_STRIDE COPSE_ALIGNMENT /* bytes between the values that a replica reports */
#define COPSE_REPORT_BYTES ((1 + COPSE_MAX_REPORTS) * COPSE_REPORT_STRIDE)

/* The recording of one replica for one size of its share. */
struct copse_recording {
    uint32_t replica;
    size_t examples;
    bool is_training;
    copse_graph *graph;
    copse_program *program;       /* NULL for an empty share */
    struct copse_segment **zeros; /* empty share while training: one fill per bucket */
    struct copse_binding x, y;    /* size 0: the loss does not use it */
};

/* One step under way, or finished and not yet taken. */
struct copse_step_slot {
    uint64_t step;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    double weight[COPSE_MAX_REPLICAS]; /* of the replica's values; 0 = it had no example */
    unsigned char *bytes;              /* [replicas][COPSE_REPORT_BYTES], as read back */
};

struct copse_trainer {
    copse_strategy *strategy;
    struct copse_trainer_params params;
    struct copse_rule rule;
    struct { struct copse_recording *at; size_t count, room; } recordings;
    copse_buffer *reports[COPSE_MAX_REPLICAS]; /* loss and reports of the newest step */
    char *report_names[COPSE_MAX_REPORTS];
    uint32_t report_count;
    bool has_names;
    uint64_t step;   /* steps begun */
    uint64_t taken;  /* results taken */
    struct copse_step_slot slots[COPSE_STEPS_UNDER_WAY];
    struct copse_step_slot evaluation;
    uint64_t *ready; /* [buckets][replicas]: tickets of a step's segments */
    bool is_failed;          /* an update was cut short: the parameters are not to be used */
    atomic_bool is_cancelled;
};

/* recording.c */
copse_status copse__recording_get(copse_trainer *t, uint32_t replica, size_t examples,
                                  bool is_training, struct copse_recording **out);
void copse__recordings_fini(copse_trainer *t);

/* result.c: combine what the replicas reported. */
copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot,
                              uint64_t timeout_ns);
void copse__slot_result(const copse_trainer *t, const struct copse_step_slot *slot,
                        struct copse_step_result *out);

#endif
