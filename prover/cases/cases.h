/* SPDX-License-Identifier: MIT */
/* Macros for the rows of conformance case tables, and the names of the tables. The rows are in
   <family>_cases.c beside the ops; the limits are those of the class table in
   docs/conformance.md. */
#ifndef COPSE_CORE_OPS_CASES_H
#define COPSE_CORE_OPS_CASES_H

#include "core/graph/case.h"
#include "core/ops/ops.h"

/* The end of a file of cases: its table, with `cases` and the other lists of the file:
   COPSE_CASE_TABLE(softmax, OPS, SPEEDS, .refusals = softmax_refusals). */
#define COPSE_CASE_TABLE(family_, ...)                                               \
    const struct copse_case_table copse_cases_##family_ = {                          \
        .family = #family_, .cases = cases, .count = COPSE_COUNT(cases), __VA_ARGS__ \
    };
#define OPS    .ops = ops, .op_count = COPSE_COUNT(ops)
#define STRESS .stress = stress, .stress_count = COPSE_COUNT(stress)
#define SPEEDS .speeds = speeds, .speed_count = COPSE_COUNT(speeds)

/* ---- refusals ---- */

/* The call must give a failed tensor, and fail the graph with COPSE_ERR_<code>; the error text must
   contain `part`. The failure is taken off the graph. */
#define REFUSES(r, code, part, ...)                                                                \
    do {                                                                                           \
        const copse_tensor *refused_ = (__VA_ARGS__);                                              \
        (r)->judge(r, #__VA_ARGS__, copse__graph_take_failure((r)->graph), COPSE_ERR_##code, part, \
                   refused_);                                                                      \
    } while (0)

/* An input of the refusals' graph; a failed tensor, with a status, without memory. */
static inline copse_tensor *copse__refusals_input(struct copse_refusals *r, copse_type type,
                                                  copse_shape shape)
{
    copse_tensor *x = copse_graph_input(r->graph, "x", type, shape);
    const copse_status s = copse_graph_status(r->graph);
    r->status = r->status ? r->status : s;
    return x;
}

/* ---- shapes and inputs ---- */

/* Lists passed through several macros are in parentheses, which the last macro removes. */
#define UNWRAP(...) __VA_ARGS__

/* The inputs of a row. */
#define ONE_INPUT(a)            .in = { UNWRAP a }, .in_count = 1
#define TWO_INPUTS(a, b)        .in = { UNWRAP a, UNWRAP b }, .in_count = 2
#define THREE_INPUTS(a, b, c)   .in = { UNWRAP a, UNWRAP b, UNWRAP c }, .in_count = 3
#define FOUR_INPUTS(a, b, c, d) .in = { UNWRAP a, UNWRAP b, UNWRAP c, UNWRAP d }, .in_count = 4

#define DIMS(...)                                               \
    {                                                           \
        sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
        {                                                       \
            __VA_ARGS__                                         \
        }                                                       \
    }
#define NO_DIMS \
    {           \
        0,      \
        {       \
            0   \
        }       \
    }

/* One input: FILL(NORMAL, DIMS(3, 5)). */
#define FILL(kind, ...) ({ .type = COPSE_F32, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind })
#define RANGE(type_, kind, from, to, ...) \
    ({ .type = type_, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind, .low = from, .high = to })
#define UNIFORM(from, to, ...) RANGE(COPSE_F32, UNIFORM, from, to, __VA_ARGS__)
#define WHOLE(from, to, ...)   RANGE(COPSE_F32, INTEGERS, from, to, __VA_ARGS__)
#define SPREAD(from, to, ...)  RANGE(COPSE_F32, SPREAD, from, to, __VA_ARGS__)
#define LAST(from, to, ...)    RANGE(COPSE_F32, LAST, from, to, __VA_ARGS__)
#define VALUES(list, ...)         \
    ({ .type = COPSE_F32,         \
       .shape = __VA_ARGS__,      \
       .fill = COPSE_FILL_VALUES, \
       .values = list,            \
       .value_count = sizeof(list) / sizeof *(list) })
#define I32_UNIFORM(from, to, ...) RANGE(COPSE_I32, UNIFORM, from, to, __VA_ARGS__)
#define I32_FILL(kind, ...)        ({ .type = COPSE_I32, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind })
#define I32_VALUES(list, ...)     \
    ({ .type = COPSE_I32,         \
       .shape = __VA_ARGS__,      \
       .fill = COPSE_FILL_VALUES, \
       .values = list,            \
       .value_count = sizeof(list) / sizeof *(list) })

/* Operands of an op's legal call. */
#define F32_OF(...)                                   \
    {                                                 \
        .type = COPSE_F32, .shape = DIMS(__VA_ARGS__) \
    }
#define I32_OF(...)                                   \
    {                                                 \
        .type = COPSE_I32, .shape = DIMS(__VA_ARGS__) \
    }

/* A graph to be timed on matrices of 2048 x 2048; `bytes` per matrix. */
#define SIDE      2048
#define SQUARE    F32_OF(SIDE, SIDE)
#define MATRIX    4.0 * SIDE *SIDE
#define OF_SQUARE "2048 x 2048"

#define QUICK    .tier = COPSE_TIER_QUICK
#define STANDARD .tier = COPSE_TIER_STANDARD
#define FULL     .tier = COPSE_TIER_FULL

#endif
