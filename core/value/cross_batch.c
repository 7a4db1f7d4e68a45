/* SPDX-License-Identifier: MIT */
/* Leaves of a batch, and the texts by which workers compare their batches. */
#include <stdio.h>

#include "core/value/cross_batch.h"

struct copse_leaf *copse__leaf_next(const struct copse_cross_batch *b, unsigned needs,
                                    const struct copse_leaf *leaf)
{
    for (size_t i = leaf ? (size_t)(leaf - b->leaves.at) + 1 : 0; i < b->leaves.count; i++)
        if (b->leaves.at[i].need & needs)
            return &b->leaves.at[i];
    return NULL;
}

void copse__form_text(const char *type, copse_shape shape, char form[COPSE_FORM_BYTES])
{
    const uint64_t hash =
        copse__hash(COPSE_HASH_START, shape.dims, shape.rank * sizeof *shape.dims);
    const char *text = COPSE_SHAPE_TEXT(shape);
    snprintf(form, COPSE_FORM_BYTES, strlen(text) > 24 ? "%s %.24s, %08x" : "%s %s", type, text,
             (unsigned)hash);
}

void copse__call_text(const char *op, const char *subject, char what[COPSE_WHAT_BYTES])
{
    const uint64_t hash = subject ? copse__hash(COPSE_HASH_START, subject, strlen(subject)) : 0;
    snprintf(what, COPSE_WHAT_BYTES, subject ? "%s, %08x, for '%.24s'" : "%s", op, (unsigned)hash,
             subject);
}
