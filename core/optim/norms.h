/* SPDX-License-Identifier: MIT */
/* Norms of the summed gradients of an update, for rules that need them before it (rule->measures);
   of a rule that trusts two of each variable: what its factor depends on (copse__rule_trust). */
#ifndef COPSE_NORMS_H
#define COPSE_NORMS_H

#include "core/reduce/exchange/exchange.h"
#include "core/rule/squares.h"

struct copse_optimizer;

/* Where an owner has the parts of a slice, and where they are read to. */
struct copse_norm_range {
    uint32_t bucket;
    copse_queue *queue;
    copse_buffer *buffer;
    size_t at, blocks; /* in `host`, in blocks of one measure */
};

/* Blocks of a range that belong to one variable. */
struct copse_norm_part {
    uint32_t range, variable; /* the latter by index */
    size_t first, count;      /* in `host`, in blocks */
};

struct copse_norms {
    struct {
        struct copse_norm_range *at;
        size_t count, room;
    } ranges;
    struct {
        struct copse_norm_part *at;
        size_t count, room;
    } parts;
    uint32_t each; /* measures of a block: 1, of a rule that trusts 2 */
    /* COPSE_MEASURE_WORDS for each measure of all ranges: those of a range one behind another */
    float *host;
    /* by variable: clip_norm 1, trust 2; else of all in one */
    struct {
        struct copse_squares *at;
        size_t count, room;
    } sums;
    struct {
        struct copse_squares *at;
        size_t count, room;
    } all;         /* the same of each worker */
    bool is_stuck; /* a device hangs and may still write to `host` */
};

/* Make room for the buckets from number `first` on; and drop them. Where it fails they are to be
   dropped. */
copse_status copse__norms_plan(struct copse_optimizer *o, size_t first);
void copse__norms_drop(struct copse_optimizer *o, size_t first);
void copse__norms_free(struct copse_optimizer *o);
/* Make room for sums alone. */
copse_status copse__norms_room(struct copse_optimizer *o);

/* All sums are zero; add to those of a variable what the host has of its gradient. */
void copse__norms_clear(struct copse_optimizer *o);
void copse__norms_add(struct copse_optimizer *o, uint32_t variable, const float *gradient,
                      uint64_t count);
/* The sums of the buckets that are kept, over all workers. Waits for the replicas' queues. */
copse_status copse__norms_read(struct copse_optimizer *o);

/* Whether all sums are finite. */
bool copse__norms_are_finite(const struct copse_optimizer *o);
/* The factor of the update where it is `scale` without clipping: less where clip_global_norm
   demands it. */
float copse__norms_scale(const struct copse_optimizer *o, float scale);
/* The factor on the gradient of a variable, ahead of `scale`, that clip_norm demands; or that of a
   rule that trusts. */
float copse__norms_factor(const struct copse_optimizer *o, uint32_t variable, float scale);
/* Queue the writes of the factors of all variables in kept buckets, to where the parts were. */
copse_status copse__norms_write(struct copse_optimizer *o, float scale);

#endif
