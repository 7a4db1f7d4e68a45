/* SPDX-License-Identifier: MIT */
#include "core/ops/softmax/row_held.h"

#define USUAL_QUADS 4u /* of an invocation: 16 words of an operand are under way */
#define LEAST_LANES 4u /* of a row: short rows are read in pieces of 16 bytes at least */

bool copse__held_rows(const struct copse_limits *limits, enum copse_kernel_id id, uint32_t rows,
                      uint32_t cols, struct copse_held *out)
{
    uint32_t x, y, lanes = LEAST_LANES;
    copse__kernel_group(limits, id, &x, &y);
    const uint32_t group = x * y;
    *out = (struct copse_held){ .log_lanes = 2, .in_quads = cols % 4 == 0 };
    while (lanes < group && 4 * USUAL_QUADS * lanes < cols) {
        lanes *= 2;
        out->log_lanes++;
    }
    const uint32_t quads = (uint32_t)(((uint64_t)cols + 4 * lanes - 1) / (4 * lanes));
    if (cols == 0 || lanes > group || quads > COPSE_MOST_QUADS)
        return false;
    out->more = (int32_t)quads - 1;
    out->groups = ((uint64_t)rows + group / lanes - 1) / (group / lanes);
    return true;
}
