/* SPDX-License-Identifier: MIT */
/* Cross-device operations from the inside: destinations, and the parts that cross_device.c is made
   of. */
#ifndef COPSE_CORE_CROSS_DEVICE_H
#define COPSE_CORE_CROSS_DEVICE_H

#include "core/reduce/value/link.h"
#include "core/value/value.h"

struct copse_cross_device {
    copse_refs refs;
    copse_context *ctx; /* retained */
    struct copse_cross_device_params params;
};

/* The params of operations that the application has not set. */
extern const struct copse_cross_device_params copse__cross_defaults;

/* The strategy's operations in words, by which workers compare them. Static. */
const char *copse__cross_text(const copse_strategy *st);

/* Destinations, resolved: ranks or COPSE_HOST. `count` 0 = none were given. */
struct copse_ranks {
    uint32_t at[COPSE_MAX_REPLICAS + 1];
    uint32_t count;
};
copse_status copse__destinations_of(copse_strategy *st, const struct copse_destinations *to,
                                    struct copse_ranks *out);
/* All replicas. */
void copse__destinations_all(const copse_strategy *st, struct copse_ranks *out);

/* A plain value: what the variable holds now, or the value itself. */
copse_status copse__value_plain(copse_value *v, copse_value **out);
/* A plain array or sparse value on a rank; the value itself where it is there already, since values
   do not change. */
copse_status copse__value_at(copse_strategy *st, copse_value *v, uint32_t rank, copse_value **out);
/* A plain or mirrored value on every rank of `to`, as one mirrored value. */
copse_status copse__value_spread(copse_strategy *st, copse_value *v, const struct copse_ranks *to,
                                 copse_value **out);
/* An f32 array with what memory of replica `r` holds when the work that is queued now is done. */
copse_status copse__value_read_from(copse_strategy *st, uint32_t r, copse_shape shape,
                                    struct copse_binding from, copse_value **out);
/* Queue the write of an array to memory of replica `r`. Waits where the array is on another
   device. */
copse_status copse__value_write_to(copse_strategy *st, uint32_t r, const copse_value *v,
                                   struct copse_binding to);

/* copse_cross_batch_reduce; `subject` names what the values are, such as a variable, or is NULL:
   workers with different ones are at different calls. */
copse_status copse__cross_reduce_for(const char *subject, copse_cross_device *x, copse_strategy *st,
                                     copse_reduce_op op, copse_value *const *values,
                                     const struct copse_destinations *to, size_t count,
                                     copse_value **out);

/* Element type and shape of an operand for a collective's header: those of all workers must be
   equal. */
void copse__form_text(const char *type, copse_shape shape, char form[COPSE_FORM_BYTES]);
/* Operation and subject, such as a variable's name or NULL, for a collective's header: workers that
   differ in them are at different calls. */
void copse__call_text(const char *op, const char *subject, char what[COPSE_WHAT_BYTES]);

/* ---- values of other workers (gather_workers.c). `what` names the call; `mine`: why this worker has no
   value, or COPSE_OK; all workers return it ---- */

/* What every replica of all workers has, a per-replica value or what each replica of this worker
   has, as a list of arrays and sparse values in host memory, in rank order: equal on all
   workers. */
copse_status copse__value_gather(copse_strategy *st, copse_value *v, const char *what,
                                 copse_status mine, copse_value **out);
/* What the first replica of all has, in host memory. */
copse_status copse__value_of_first(copse_strategy *st, copse_value *v, const char *what,
                                   copse_status mine, copse_value **out);

/* Structures of values along axis 0 (value_rows.c): split into a part for each replica of this
   worker, on its device; and joined in host memory. */
copse_status copse__value_split(copse_strategy *st, copse_value *v, copse_value **parts);
copse_status copse__value_join(copse_strategy *st, copse_value *const *parts, copse_value **out);

/* Sum or (divisor > 0) mean of sparse values, mirrored on the ranks of `to`; see
   copse_cross_reduce. */
copse_status copse__sparse_reduce(copse_strategy *st, copse_value *const *components, size_t count,
                                  uint32_t divisor, const struct copse_ranks *to,
                                  copse_value **out);

#endif
