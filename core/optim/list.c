/* SPDX-License-Identifier: MIT */
/* The optimizers of a strategy. */
#include "core/optim/optimizer.h"

static const char kind; /* of dependants: its address */

void copse__optimizer_join(struct copse_optimizer *o)
{
    copse__dependant_add(o->strategy, &o->dependant, &kind);
}

struct copse_optimizer *copse__optimizer_next(const copse_strategy *st,
                                              const struct copse_optimizer *o)
{
    return copse__dependant_next(st, o ? &o->dependant : NULL, &kind);
}
