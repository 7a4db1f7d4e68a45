/* SPDX-License-Identifier: MIT */
/* Tower optimizers of several workers in step: an update begins with a barrier. Either all workers begin it or none
   does. */
#include <stdio.h>

#include "core/compat/tower.h"

copse_status copse__tower_barrier(copse_tower_optimizer *t, const char *what, uint64_t size, copse_status mine)
{
    const struct copse_optimizer *o = t->optimizer;
    const uint64_t hash =
        copse__hash(copse__hash(COPSE_HASH_START, o->name, strlen(o->name)), &o->step, sizeof o->step);
    char line[COPSE_WHAT_BYTES];
    snprintf(line, sizeof line, "%.32s of '%.12s', %08x", what, o->name, (unsigned)hash);
    return copse__tower_note_shared(t, copse__group_barrier(&t->strategy->group, line, size, mine));
}

copse_status copse__tower_note_shared(copse_tower_optimizer *t, copse_status s)
{
    t->is_shared_failure |= s != COPSE_OK && t->strategy->group.workers > 1;
    return s;
}
