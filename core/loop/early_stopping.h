/* SPDX-License-Identifier: MIT */
/* Early stopping, for copse_trainer_fit. */
#ifndef COPSE_CORE_EARLY_STOPPING_H
#define COPSE_CORE_EARLY_STOPPING_H

#include "copse/loop/early_stopping.h"

/* COPSE_ERR_ARGUMENT if it belongs to another trainer. */
copse_status copse__early_stopping_check(const copse_early_stopping *e, const copse_trainer *t);
/* After `done` epochs: the variables get the best values, if any are kept and they lack them. All
   workers call it. */
copse_status copse__early_stopping_restore(copse_early_stopping *e, uint32_t done);

#endif
