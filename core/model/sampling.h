/* SPDX-License-Identifier: MIT */
/* Drawing a token from the outputs of a network. */
#ifndef COPSE_MODEL_SAMPLING_H
#define COPSE_MODEL_SAMPLING_H

#include "copse/train/generate.h"

/* A token that may be drawn. */
struct copse_candidate {
    double weight; /* exp((output - largest output) / temperature) */
    float output;
    uint32_t token;
};

/* COPSE_ERR_ARGUMENT for a temperature or top_p out of range. */
copse_status copse__sampling_check(const struct copse_generate_params *how);

/* Draw number `draw` from the outputs [count], count > 0. The token depends on the outputs, `how`
   and `draw` only. `list`: memory for `count` candidates. COPSE_ERR_NONFINITE if an output is NaN
   or +infinity, or none is finite; -infinity is probability 0. */
copse_status copse__sample(const float *outputs, uint32_t count,
                           const struct copse_generate_params *how, uint64_t draw,
                           struct copse_candidate *list, uint32_t *token);

#endif
