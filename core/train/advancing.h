/* SPDX-License-Identifier: MIT */
/* Steps in slices: whether a trainer may have them, and recordings for them. */
#ifndef COPSE_ADVANCING_H
#define COPSE_ADVANCING_H

#include "core/train/trainer.h"

/* Recordings are divided into slices from now on; what was recorded before is released, unless
   batches are fed.
   COPSE_ERR_UNSUPPORTED where others would wait within a step. */
copse_status copse__slices_begin(copse_trainer *t);
/* Memory for the times of all slices of a batch with these shards. */
copse_status copse__advancing_reserve(copse_trainer *t, enum copse_pass pass,
                                      const struct copse_shards *s);

#endif
