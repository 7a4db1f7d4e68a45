/* SPDX-License-Identifier: MIT */
/* Recomputation: results of the forward pass that are not kept for the backward pass, which
   computes them again, with the same launches and the same bits. (Chen et al., "Training deep nets
   with sublinear memory cost", arXiv:1604.06174, 2016) */
#ifndef COPSE_RECOMPUTE_H
#define COPSE_RECOMPUTE_H

#include "core/graph/graph.h"

/* The graph as it was, and what has changed. */
struct copse_recomputed {
    copse_tensor **nodes; /* [count] */
    size_t count;
    struct {
        struct copse_operands {
            copse_tensor *node, **in;
        } *at;
        size_t count, room;
    } changed;
    uint64_t bytes; /* that the copies read and write */
};

/* One more than the number of the last node of the forward pass; 0: the graph was not
   differentiated. */
size_t copse__forward_count(const copse_graph *g);

/* Results that are dropped, by node of the forward pass. */
struct copse_dropped {
    const bool *is;
    /* the part of its segment that alone reads it; 0: other parts read it, too */
    const uint32_t *part;
};

/* The nodes after the forward pass read copies of the results that are dropped; copies read copies.
   A copy is in front of the first node that reads it, and lives in `arena`. If a part is computed
   for a copy that other parts read, its own copies are not kept for the nodes that read them later:
   these get further copies. On failure the graph is as before.
 */
copse_status copse__recompute(copse_graph *g, struct copse_dropped dropped,
                              struct copse_arena *arena, struct copse_recomputed *out);
/* The graph is as before; `arena` may be released. */
void copse__recompute_undo(copse_graph *g, struct copse_recomputed *r);
/* The graph stays as it is. */
void copse__recompute_keep(copse_graph *g, struct copse_recomputed *r);

/* Before a program is made: recompute the segments that are marked (copse_recompute_begin); and, if
   the program needs more than params->budget bytes, segments that are chosen.
   COPSE_ERR_NO_DEVICE_MEMORY if that is not enough. (recompute_fit.c) */
copse_status copse__recompute_fit(const struct copse_program_params *params);
/* The same for the choice with the least memory, whatever the budget is. */
copse_status copse__recompute_least(const struct copse_program_params *params);

#endif
