/* SPDX-License-Identifier: MIT */
/* What the five strategies share: making and releasing one. */
#ifndef COPSE_STRATEGY_CREATE_H
#define COPSE_STRATEGY_CREATE_H

#include "core/replica/strategy.h"

/* The arguments of all functions that make a strategy; sets *out to NULL. */
copse_status copse__strategy_check(copse_context *ctx, const char *const *devices, size_t count,
                                   copse_strategy **out);
/* Replicas on these devices, in this order, see copse__replicas_open. */
copse_status copse__strategy_create(copse_context *ctx, const struct copse_strategy_table *table,
                                    const char *const *devices, size_t count,
                                    const struct copse_strategy_params *params,
                                    copse_strategy **out);
/* The `dispose` row of the tables. */
void copse__strategy_dispose(copse_strategy *st);

#endif
