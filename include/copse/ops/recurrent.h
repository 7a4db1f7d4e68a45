/* SPDX-License-Identifier: MIT */
/** @file
 * Recurrent layers. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_RECURRENT_H
#define COPSE_PUBLIC_OPS_RECURRENT_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Operands that a recurrent layer may have; NULL: none. G is the number of its gates. */
struct copse_recurrent_params {
    /** f32 [G units], added to the products of the input [0] */
    copse_tensor *bias;
    /** f32 [G units], added to those of the hidden state [0] */
    copse_tensor *recurrent_bias;
    /** f32 [batch, units], the hidden state before the first step [0] */
    copse_tensor *hidden;
    /** the cell likewise; of an LSTM alone [0] */
    copse_tensor *cell;
    /** i32 [batch], steps of each sequence, from 0 to time; others count as the nearer of these. A
        step past its sequence's end
        keeps the state, gives zeros, and has no derivative; its inputs are not used.               [time] */
    copse_tensor *lengths;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Gated recurrent unit (Cho et al., 2014), in the form and the order of gates r, z, n of
 * torch.nn.GRU: r = sigmoid(x W_r + b_r + h R_r + c_r), z likewise, n = tanh(x W_n + b_n + r (h R_n
 * + c_n)), h' = (1 - z) n + z h. The memory of the derivative grows linearly with time: it computes
 * the gates again. No result depends on the order in which groups run. Products of the hidden state
 * are f32, also in another precision (copse_set_precision).
 *
 * @param x       [batch, time, features]; at most 16,384 steps.
 * @param w       [features, 3 units]: W_r, W_z, W_n. torch.nn.GRU's weight_ih is its transpose.
 * @param r       [units, 3 units]: R_r, R_z, R_n.
 * @param params  b (bias), c (recurrent_bias) and others. NULL: none.
 * @param y       [batch, time, units]: every hidden state.
 * @param last    [batch, units]: the hidden state at the end of each sequence. NULL: not wanted.
 */
COPSE_API copse_tensor *copse_gru(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                                  const struct copse_recurrent_params *params, copse_tensor **last);

/**
 * Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gate), as torch.nn.LSTM:
 * with the gates i, f, g, o as sigmoid, sigmoid, tanh and sigmoid of x W + b + h R + c: cell' = f
 * cell + i g, h' = o tanh(cell'). Operands as copse_gru, with four gates in this order.
 *
 * @param cell  [batch, units]: the cell at the end of each sequence. NULL: not wanted.
 */
COPSE_API copse_tensor *copse_lstm(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                   copse_tensor *r, const struct copse_recurrent_params *params,
                                   copse_tensor **last, copse_tensor **cell);

/** h' = tanh(x w + b + h r + c) (Elman, 1990), as torch.nn.RNN. Operands as copse_gru, with one
    gate. */
COPSE_API copse_tensor *copse_rnn(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *r,
                                  const struct copse_recurrent_params *params, copse_tensor **last);

#if defined(__cplusplus)
}
#endif
#endif
