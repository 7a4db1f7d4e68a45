/* SPDX-License-Identifier: MIT */
/* The loop over time of recurrent layers as one node. */
#ifndef COPSE_RECURRENT_VARIANTS_H
#define COPSE_RECURRENT_VARIANTS_H

#include "core/graph/op.h"

/* KIND of the kernels: kernels/recurrent/recurrent.cl. */
enum copse_recurrent_kind { COPSE_RECURRENT_TANH, COPSE_RECURRENT_LSTM, COPSE_RECURRENT_GRU };

#define COPSE_MOST_STEPS 16384u

/* Gates of a unit; vectors of its state: the hidden state, and the cell. */
static inline uint32_t copse__recurrent_gates(int32_t kind)
{
    return kind == COPSE_RECURRENT_LSTM ? 4 : kind == COPSE_RECURRENT_GRU ? 3 : 1;
}
static inline uint32_t copse__recurrent_states(int32_t kind)
{
    return kind == COPSE_RECURRENT_LSTM ? 2 : 1;
}

/* The states before and after each step, [time + 1, states, batch, units], from the products of
   the input [time, batch, gates units], recurrent weights [units, gates units], the first state
   [states, batch, units], a bias [gates units] or NULL, and lengths i32 [batch] or NULL. The
   caller has checked the shapes. */
copse_tensor *copse__recurrent_steps(copse_graph *g, enum copse_recurrent_kind kind,
                                     copse_tensor *products, copse_tensor *weights,
                                     copse_tensor *first, copse_tensor *bias,
                                     copse_tensor *lengths);

#endif
