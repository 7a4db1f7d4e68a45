/* SPDX-License-Identifier: MIT */
/** @file
 * Slots of a trainer's optimizer: the values that it keeps for each variable.
 */
#ifndef COPSE_PUBLIC_TRAIN_SLOTS_H
#define COPSE_PUBLIC_TRAIN_SLOTS_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Read an optimizer slot of a variable: "m" and "v" of Adam, "v" of momentum, "average". All
 * workers of a collective strategy make the call.
 * @param values  As many f32 as the variable has elements.
 * @retval COPSE_ERR_ARGUMENT  The trainer does not train the variable, or the rule has no such
 *                             slot.
 * Blocks until queued steps have run.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_slot(copse_trainer *t, const copse_variable *v,
                                                        const char *name, float *values);

#if defined(__cplusplus)
}
#endif
#endif
