/* SPDX-License-Identifier: MIT */
/* An audit of replicas: in some steps they compute their gradients twice, and the digests must be
   equal; and the digests of the variables must be those of the first replica.
   (copse/train/audit.h) */
#ifndef COPSE_AUDIT_H
#define COPSE_AUDIT_H

#include "copse/train/audit.h"
#include "core/device/digest.h"

/* The memory of a variable on a replica. A binding without a buffer is left out. Bindings may
   change from step to step; then copse__digests_room has made room for them. */
struct copse_audit_range {
    struct copse_binding values, gradient;
};

struct copse_audit_variable {
    const char *name;
    uint64_t words;  /* usually */
    uint32_t bucket; /* its gradient is complete after the segment of this number */
};

struct copse_audit {
    struct copse_audit_params params;
    struct copse_mem *mem;
    uint32_t replicas;
    size_t count;
    struct copse_audit_variable *variables; /* [count] */
    struct copse_audit_range *ranges;       /* [replicas][count] */
    struct copse_digests *digests;          /* [replicas] */
    bool *has;                              /* [replicas]: it computed gradients */
    bool compares_values;
    uint64_t step;     /* whose digests are not compared yet; 0: none */
    uint64_t compared; /* the newest step whose digests were */
    uint64_t passed;
    bool has_failed;
};

/* Memory for `variables` and `ranges`, which the caller fills. */
copse_status copse__audit_create(struct copse_mem *mem, uint32_t replicas, size_t count,
                                 struct copse_audit *out);
/* Memory for the digests of a replica. A device that cannot compute them turns audits off, which is
   logged. */
copse_status copse__audit_open(struct copse_audit *a, uint32_t r, copse_queue *queue);
/* `is_idle`: no read can still land. A zeroed struct is fine. */
void copse__audit_free(struct copse_audit *a, bool is_idle);
copse_status copse__audit_set(struct copse_audit *a, const struct copse_audit_params *params);

/* Whether this step is audited. */
bool copse__audit_is_due(const struct copse_audit *a, uint64_t step);
/* Whether an audited step is among those with a spot: up to step 16, and then one of 64 audits. */
bool copse__audit_has_spot(const struct copse_audit *a, uint64_t step);
/* Queue the digests of a replica's variables, before the first computation. `has`: it computes
   gradients. */
copse_status copse__audit_begin(struct copse_audit *a, uint32_t r, bool has);
/* Queue those of the gradients of a bucket, in the first or in the second computation. */
copse_status copse__audit_gradients(struct copse_audit *a, uint32_t r, uint32_t bucket,
                                    bool is_second);
/* Queue NaN for the gradients, between the computations, so that a result of a launch that is lost
   does not stay. */
copse_status copse__audit_poison(const struct copse_audit *a, uint32_t r, copse_queue *queue);
/* The name of a variable whose two gradients differ, or NULL. Call it after the digests are
   read. */
const char *copse__audit_repeated(const struct copse_audit *a, uint32_t r);
/* Behind all of them: queue their read. */
copse_status copse__audit_read(struct copse_audit *a, uint32_t r, uint64_t step);
/* The replicas are done with `step`: compare, if it was audited. COPSE_ERR_UNRELIABLE for a
   difference. */
copse_status copse__audit_compare(struct copse_audit *a, uint64_t step);

/* Digests of the first replica's variables before `step`, for the other workers: variable i is in
   word i % COPSE_AUDIT_WORDS. Zeros where the step was not audited. */
#define COPSE_AUDIT_WORDS 32u
void copse__audit_words(const struct copse_audit *a, uint64_t step,
                        uint64_t words[COPSE_AUDIT_WORDS]);
/* The words of another worker: COPSE_ERR_UNRELIABLE where both workers audited the step and the
   words differ. */
copse_status copse__audit_other(struct copse_audit *a, uint64_t step, uint32_t worker,
                                const uint64_t own[COPSE_AUDIT_WORDS],
                                const uint64_t words[COPSE_AUDIT_WORDS]);

#endif
