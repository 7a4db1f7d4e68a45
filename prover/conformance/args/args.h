/* SPDX-License-Identifier: MIT */
/* Shared by the two files of mode args: calls that must be refused. */
#ifndef COPSE_CORE_CONFORMANCE_ARGS_H
#define COPSE_CORE_CONFORMANCE_ARGS_H

#include "core/graph/graph.h"
#include "prover/conformance/verdict/mode.h"

/* The call returns `code`, and leaves the target of the pointer `place` NULL or unchanged. */
#define REFUSED(out, code, place, call)                                          \
    do {                                                                         \
        const void *const refused_before_ = (const void *)(place);               \
        const copse_status refused_ = (call);                                    \
        copse__args_judge(out, #call, refused_, code,                            \
                          !(place) || (const void *)(place) == refused_before_); \
    } while (0)
/* The call fails graph `g` with `code`, and gives a failed tensor; or only this where `g` is NULL.
   The failure is taken off the graph. */
#define REFUSED_NODE(out, g, code, call)                                                         \
    do {                                                                                         \
        const copse_tensor *const refused_ = (call);                                             \
        copse__args_judge(out, #call, copse__args_failure(g), code, copse__is_failed(refused_)); \
    } while (0)
/* The same for a call without a result. */
#define REFUSED_VOID(out, g, code, call)                                   \
    do {                                                                   \
        call;                                                              \
        copse__args_judge(out, #call, copse__args_failure(g), code, true); \
    } while (0)
/* The failure of a graph, taken off it; without a graph COPSE_ERR_ARGUMENT. */
copse_status copse__args_failure(copse_graph *g);
/* A call that returns a status and has no result. */
#define REFUSED_PLAIN(out, code, call) copse__args_judge(out, #call, call, code, true)

void copse__args_judge(struct copse_conform_outcome *out, const char *call, copse_status got,
                       copse_status expected, bool is_untouched);

/* The cases of copse/ops.h, copse/matmul.h and copse/elementwise.h (args_ops.c). */
void copse__args_ops(struct copse_conform_run *r);

#endif
