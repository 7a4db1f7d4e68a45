/* SPDX-License-Identifier: MIT */
/* The tokens of a vocabulary that a text has not. */
#include "core/data/text/tokens.h"

bool copse__note_unseen(struct copse_arena *arena, const unsigned char *seen,
                        struct copse_schema_parts *p)
{
    uint32_t *to = copse__arena_alloc(arena, p->outputs, sizeof *to);

    p->unseen = to;
    p->unseen_count = 0;
    p->knows_unseen = to != NULL;
    for (uint32_t i = 0; to != NULL && i < p->outputs; i++)
        if (!seen[i])
            to[p->unseen_count++] = i;
    return to != NULL;
}
