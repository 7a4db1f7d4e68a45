/* SPDX-License-Identifier: MIT */
/* How the tables of conformance cases spell their rows, and the names of the tables. Rows stand in
   <family>_cases.c beside the ops; limits are those of the class table in docs/conformance.md. */
#ifndef COPSE_CORE_OPS_CASES_H
#define COPSE_CORE_OPS_CASES_H

#include "core/graph/case.h"
#include "core/ops/ops.h"

/* The end of a file of cases: its table `cases` by the family's name. */
#define COPSE_CASE_TABLE(family_)                                                                  \
    const struct copse_case_table copse_cases_##family_ = { #family_, cases, COPSE_COUNT(cases) };

/* ---- shapes and inputs ---- */

/* Lists that go through several macros stand in parentheses, which the last one takes off. */
#define UNWRAP(...) __VA_ARGS__

#define DIMS(...) { sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), { __VA_ARGS__ } }
#define NO_DIMS   { 0, { 0 } }

/* One input: FILL(NORMAL, DIMS(3, 5)). */
#define FILL(kind, ...) ({ .type = COPSE_F32, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind })
#define RANGE(type_, kind, from, to, ...)                                                          \
    ({ .type = type_, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind, .low = from, .high = to })
#define UNIFORM(from, to, ...) RANGE(COPSE_F32, UNIFORM, from, to, __VA_ARGS__)
#define WHOLE(from, to, ...)   RANGE(COPSE_F32, INTEGERS, from, to, __VA_ARGS__)
#define SPREAD(from, to, ...)  RANGE(COPSE_F32, SPREAD, from, to, __VA_ARGS__)
#define VALUES(list, ...)                                                                          \
    ({ .type = COPSE_F32, .shape = __VA_ARGS__, .fill = COPSE_FILL_VALUES, .values = list,         \
       .value_count = sizeof(list) / sizeof *(list) })
#define I32_UNIFORM(from, to, ...) RANGE(COPSE_I32, UNIFORM, from, to, __VA_ARGS__)
#define I32_FILL(kind, ...) ({ .type = COPSE_I32, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind })
#define I32_VALUES(list, ...)                                                                      \
    ({ .type = COPSE_I32, .shape = __VA_ARGS__, .fill = COPSE_FILL_VALUES, .values = list,         \
       .value_count = sizeof(list) / sizeof *(list) })

#define QUICK    .tier = COPSE_TIER_QUICK
#define STANDARD .tier = COPSE_TIER_STANDARD
#define FULL     .tier = COPSE_TIER_FULL

#endif
