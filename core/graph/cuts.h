/* SPDX-License-Identifier: MIT */
/* Cuts: places in the forward pass where a segment ends. What crosses a cut is kept; the other
   results of a segment are dropped. Outer cuts make segments; inner cuts divide these into parts.
   What crosses an inner cut is computed again once, when the backward pass enters the segment; the
   rest of a part when it enters the part. */
#ifndef COPSE_CUTS_H
#define COPSE_CUTS_H

#include "core/graph/recompute.h"

enum copse_cut_level { COPSE_CUTS_OUTER, COPSE_CUTS_INNER, COPSE_CUT_LEVELS };

struct copse_cuts {
    copse_graph *g;
    size_t forward; /* nodes */
    uint64_t all;   /* bytes of all results that may be dropped */
    /* by node of the forward pass: of its result; 0: a leaf, a view, or no choice drops it */
    uint64_t *bytes;
    uint64_t *crosses; /* the bytes that cross the place after a node */
    uint32_t *last;    /* by root: the last node of the forward pass that reads it */
    bool *stays;       /* by root: no choice drops it */
    struct {
        uint32_t *at; /* the nodes before the cuts, ascending */
        size_t count;
    } cuts[COPSE_CUT_LEVELS];
    bool *drop;     /* by node, of the current choice */
    uint32_t *part; /* by node that is dropped: see struct copse_dropped */
};

copse_status copse__cuts_init(struct copse_cuts *c, const struct copse_program_params *params);
void copse__cuts_fini(struct copse_cuts *c);

/* Place cuts so that the results between two of them have about `length` bytes: each at the place
   that the fewest bytes cross, in the second half of its segment. Outer ones first: inner ones
   divide each segment by itself, and outer ones drop the inner ones. */
void copse__cuts_place(struct copse_cuts *c, enum copse_cut_level level, uint64_t length);
/* Drop what the first `segments` segments need not keep. If these are all, inner cuts divide what
   follows them, too. */
void copse__cuts_choose(struct copse_cuts *c, size_t segments);
/* Drop what marked segments need not keep; false: no segment is marked. */
bool copse__cuts_choose_marked(struct copse_cuts *c);

static inline struct copse_dropped copse__cuts_dropped(const struct copse_cuts *c)
{
    return (struct copse_dropped){ c->drop, c->part };
}

#endif
