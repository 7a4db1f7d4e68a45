/* SPDX-License-Identifier: MIT */
/* Watches: scalars that each replica computes of its gradient of each trained variable. */
#ifndef COPSE_WATCHES_H
#define COPSE_WATCHES_H

#include "copse/compat/gradients.h"
#include "copse/trainer.h"
#include "core/replica/strategy.h"

struct copse_trained;

/* Scalars of one gradient, one COPSE_REPORT_STRIDE each. */
enum copse_watch {
    COPSE_WATCH_FINITE, /* 0, or NaN when an element is not finite */
    COPSE_WATCH_NORM,
    COPSE_WATCH_BINS, /* elements of a magnitude of at least 10^(COPSE_GRADIENT_LOW + i) */
    COPSE_WATCHES = COPSE_WATCH_BINS + COPSE_GRADIENT_BINS,
};

struct copse_watches {
    copse_strategy *strategy; /* not a reference; NULL: nothing is watched */
    const struct copse_trained *trained;
    copse_buffer *buffers[COPSE_MAX_REPLICAS]; /* [trained][COPSE_WATCHES] */
    unsigned char *values;                     /* [replicas] of the same, as read back */
    bool has[COPSE_MAX_REPLICAS];              /* the replica's shard was not empty */
};

copse_status copse__watches_make(struct copse_watches *w, copse_strategy *st,
                                 const struct copse_trained *trained);
/* Allowed on a zeroed struct. `is_idle`: no read of a device can still land in its memory. */
void copse__watches_free(struct copse_watches *w, bool is_idle);
/* Queue the read of what a replica has computed; `has`: its shard is not empty. */
copse_status copse__watches_read(struct copse_watches *w, uint32_t r, bool has);
/* A replica's values are read: COPSE_ERR_NONFINITE where an element of a gradient is not finite. */
copse_status copse__watches_check(const struct copse_watches *w, uint32_t r);
/* What a replica's values say of the gradient of trained variable `i`. */
void copse__watches_summary(const struct copse_watches *w, uint32_t r, size_t i,
                            struct copse_gradient_summary *out);

#endif
