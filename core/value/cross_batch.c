/* SPDX-License-Identifier: MIT */
/* Leaves of a batch: their number, destinations, and leaves that need no reduction. */
#include <stdio.h>

#include "core/value/cross_batch.h"

void copse__batch_destinations(const struct copse_cross_batch *b, struct copse_ranks *out)
{
    *out = b->destinations;
    if (out->count == 0)
        copse__destinations_all(b->st, out);
}

size_t copse__batch_count(const struct copse_cross_batch *b, enum copse_need need)
{
    size_t count = 0;
    for (size_t i = 0; i < b->leaves.count; i++)
        count += b->leaves.at[i].need == need;
    return count;
}

copse_status copse__leaf_move(const struct copse_cross_batch *b, struct copse_leaf *leaf)
{
    if (b->destinations.count == 0 || leaf->value->kind == COPSE_VALUE_OBJECT) {
        leaf->result = copse_value_retain(leaf->value);
        return COPSE_OK;
    }
    return copse__value_spread(b->st, leaf->value, &b->destinations, &leaf->result);
}

void copse__form_text(const char *type, copse_shape shape, char form[COPSE_FORM_BYTES])
{
    char text[96];
    const uint64_t hash = copse__hash(COPSE_HASH_START, shape.dims, shape.rank * sizeof *shape.dims);
    const bool is_long = strlen(copse__shape_text(shape, text)) > 24;
    snprintf(form, COPSE_FORM_BYTES, is_long ? "%s %.24s, %08x" : "%s %s", type, text, (unsigned)hash);
}
