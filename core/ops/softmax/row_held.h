/* SPDX-License-Identifier: MIT */
/* Kernels for GPUs that hold rows in registers (kernels/row_held.clh): how many invocations have a
   row, and how many quads of it each of them has. */
#ifndef COPSE_ROW_HELD_H
#define COPSE_ROW_HELD_H

#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

#define COPSE_MOST_QUADS 8u /* of an invocation */

/* Values of the constants LOG_LANES, MORE and IN_QUADS, and the groups of a launch. */
struct copse_held {
    int32_t log_lanes, more, in_quads;
    uint64_t groups;
};
/* Four quads to an invocation, more only where a whole group has a row. false: rows without elements, or
   longer than 8 quads of each invocation of a group. */
bool copse__held_rows(const struct copse_limits *limits, enum copse_kernel_id id, uint32_t rows,
                      uint32_t cols, struct copse_held *out);

/* For self-tests: the columns of a row, given LOG_LANES and the two constants after it. The groups
   of COPSE_TEST_ROWS rows. */
static inline uint32_t copse__held_test_cols(const int32_t *log_lanes)
{
    const uint32_t most = 4 * (1u + (uint32_t)log_lanes[1]) << log_lanes[0],
                   cols = COPSE_MIN(most, COPSE_TEST_LINE);
    return log_lanes[2] ? cols / 4 * 4 : cols;
}
static inline uint64_t copse__held_test_groups(const struct copse_kernel *k, int32_t log_lanes)
{
    const uint32_t rows = COPSE_MAX(k->group_x * k->group_y >> log_lanes, 1u);
    return (COPSE_TEST_ROWS + rows - 1) / rows;
}

#endif
