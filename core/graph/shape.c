/* SPDX-License-Identifier: MIT */
/* Shapes: sizes, broadcasting, and the text of shape errors. */
#include <stdio.h>

#include "core/graph/op.h"
#include "core/graph/type.h"

uint64_t copse__elements(copse_shape s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s.rank; i++)
        n = s.dims[i] > 0 && n > UINT64_MAX / s.dims[i] ? UINT64_MAX : n * s.dims[i];
    return n;
}

bool copse__shape_equal(copse_shape a, copse_shape b)
{
    if (a.rank != b.rank)
        return false;
    for (uint32_t i = 0; i < a.rank; i++)
        if (a.dims[i] != b.dims[i])
            return false;
    return true;
}

copse_shape copse__shape_of_rows(size_t rows, copse_shape row)
{
    copse_shape s = { row.rank + 1, { (uint32_t)rows } };
    memcpy(s.dims + 1, row.dims, row.rank * sizeof *s.dims);
    return s;
}

bool copse__broadcast(copse_shape a, copse_shape b, copse_shape *out)
{
    out->rank = COPSE_MAX(a.rank, b.rank);
    for (uint32_t i = 0; i < out->rank; i++) {
        const uint32_t da = i < a.rank ? a.dims[a.rank - 1 - i] : 1;
        const uint32_t db = i < b.rank ? b.dims[b.rank - 1 - i] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        out->dims[out->rank - 1 - i] = da == 1 ? db : da;
    }
    return true;
}

char *copse__shape_text(copse_shape s, char *text)
{
    int at = sprintf(text, "[");
    for (uint32_t i = 0; i < s.rank && i < COPSE_MAX_RANK; i++)
        at += sprintf(text + at, i ? ", %u" : "%u", (unsigned)s.dims[i]);
    sprintf(text + at, "]");
    return text;
}

copse_status copse__shape_error(const copse_tensor *y, const char *expected, ...)
{
    char operands[480] = "", reason[320], shape[96];
    size_t at = 0;
    for (uint32_t i = 0; i < y->in_count && at + 120 < sizeof operands; i++)
        at += (size_t)snprintf(operands + at, sizeof operands - at, "%s%s%s",
                               i == 0 ? "" : (i + 1 == y->in_count ? " and " : ", "),
                               copse_type_name(y->in[i]->type),
                               copse__shape_text(y->in[i]->shape, shape));
    va_list args;
    va_start(args, expected);
    vsnprintf(reason, sizeof reason, expected, args);
    va_end(args);
    return copse_fail(COPSE_ERR_SHAPE, "%s: operand%s %s: %s", y->op->name,
                      copse__plural(y->in_count), operands, reason);
}
