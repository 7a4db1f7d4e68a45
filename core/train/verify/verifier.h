/* SPDX-License-Identifier: MIT */
/* What a trainer verifies of its steps (copse/train/audit.h): the cross-check of the first one,
   audits, and in some of these a spot, a launch that the host computes again. */
#ifndef COPSE_VERIFIER_H
#define COPSE_VERIFIER_H

#include "core/check/audit.h"
#include "core/train/verify/cross_check.h"

struct copse_spot {
    struct copse_probe probe;
    const struct copse_segment *segment; /* to be replayed with the probe; NULL: none */
    size_t which;                        /* its command */
    uint64_t step;                       /* whose probe is not judged yet; 0: none */
    uint32_t replica;
    uint64_t ticket;   /* of its queue: the probe is read */
    uint64_t compared; /* without a fault */
};

struct copse_verifier {
    struct copse_check_owner owner;
    bool is_torn;      /* a cross-check failed, and variables are not as before */
    bool has_updates;  /* the launches of the update were compared with the host, or need not be */
    uint64_t compared; /* launches, by cross-checks */
    struct copse_audit audit;
    copse_variable *const *variables; /* not references */
    /* of all; of those that are not sparse: each sparse one has two places of the audit after
       these */
    size_t count, dense;
    struct copse_spot spot;
    uint64_t spot_step; /* number of the step whose spot is chosen */
};

/* A micro-batch of a training step. */
struct copse_verified {
    uint64_t step; /* its number */
    uint64_t seed; /* of the choice of a spot */
    /* of the replicas; NULL: its shard is empty */
    struct copse_program *programs[COPSE_MAX_REPLICAS];
    /* of each program: its launches were compared with the host, or need not be */
    bool *is_checked[COPSE_MAX_REPLICAS];
    uint32_t segments;                                      /* of each program */
    const struct copse_row_place *rows[COPSE_MAX_REPLICAS]; /* gradients of sparse variables, */
    /* of those on which a replica's program depends */
    size_t row_counts[COPSE_MAX_REPLICAS];
    const char *const *report_names;
    uint32_t report_count;
    bool is_audited; /* the replicas compute their gradients twice */
};

/* For the updates of these variables, whose list stays; their memory is known. */
copse_status copse__verifier_open(struct copse_verifier *v, const struct copse_check_owner *owner,
                                  copse_variable *const *variables, size_t count);
/* `is_idle`: no read of a device can still land in its memory. A zeroed struct is fine. */
void copse__verifier_free(struct copse_verifier *v, bool is_idle);

/* Before a micro-batch, behind its inputs. Compare the launches of its programs, and of the update,
   with the host, where that was not done before on this kind of device. COPSE_ERR_UNRELIABLE for a
   difference: nothing has changed. */
copse_status copse__verify_first(struct copse_verifier *v, const struct copse_verified *m);
/* Then, if `may_audit`, decide whether it is audited; queue the first computation. */
copse_status copse__verify_begin(struct copse_verifier *v, struct copse_verified *m,
                                 bool may_audit);
/* Segment `i` of a replica is queued: queue its digests. */
copse_status copse__verify_segment(struct copse_verifier *v, const struct copse_verified *m,
                                   uint32_t r, uint32_t i);
/* `step` has failed, or was refused: its audit is not complete, and its digests may still be under
   way. They are not compared; a spot, which waits for its own read, is judged. So is the audit of
   an earlier step, when the result of this step is taken. */
void copse__verify_drop(struct copse_verifier *v, uint64_t step);
/* The replicas are done with `step`: judge it. COPSE_ERR_TIMEOUT where its probe is not read yet
   and `wait` is false. */
copse_status copse__verify_end(struct copse_verifier *v, uint64_t step, bool wait);
/* The newest step that is not judged yet, or 0. */
uint64_t copse__verifier_step(const struct copse_verifier *v);

/* ---- spot.c ---- */

/* Choose the launch that is computed again, where the step has a spot. */
copse_status copse__spot_begin(struct copse_verifier *v, const struct copse_verified *m);
/* Replay a segment of a replica's program, with the probe where it has the launch. */
copse_status copse__spot_replay(struct copse_verifier *v, uint32_t r,
                                struct copse_segment *segment);
copse_status copse__spot_end(struct copse_verifier *v, uint64_t step, bool wait);

#endif
