/* SPDX-License-Identifier: MIT */
/** @file
 * Update rules. All of them run as one dispatch per range of the flat store. Momenta below 1e-30 and
 * mean squares below 1e-36 are set to zero, so that none becomes denormal.
 */
#ifndef COPSE_PUBLIC_OPTIMIZER_H
#define COPSE_PUBLIC_OPTIMIZER_H

#include <stdint.h>

#include "copse/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Update rule; p = parameter, g = gradient, r = learning rate, t = step number from 1. */
typedef enum copse_optimizer_kind {
    COPSE_ADAM,     /**< Kingma and Ba, "Adam", ICLR 2015, algorithm 1; weight decay adds to g */
    COPSE_ADAMW,    /**< Loshchilov and Hutter, "Decoupled weight decay", ICLR 2019, algorithm 2 */
    COPSE_SGD,      /**< p -= r (g + decay p) */
    COPSE_MOMENTUM, /**< v = momentum v + g; p -= r v (Polyak) */
    COPSE_NESTEROV, /**< v = momentum v + g; p -= r (g + momentum v) (Sutskever et al., 2013) */
} copse_optimizer_kind;

/** Optimizer settings. A zeroed struct means Adam with the defaults in brackets. */
struct copse_optimizer_params {
    copse_optimizer_kind kind;
    float learning_rate; /**< > 0                                       [0 = 1e-3; SGD kinds 1e-2] */
    float momentum;      /**< of the momentum kinds, < 1; for none use COPSE_SGD  [0 = 0.9] */
    float beta1;         /**< decay of the mean of gradients, < 1       [0 = 0.9] */
    float beta2;         /**< decay of the mean of squares, < 1         [0 = 0.999] */
    float epsilon;       /**< added to sqrt(v), in units of a gradient  [0 = 1e-8] */
    float weight_decay;  /**< per step, times the learning rate         [0 = off] */
    /** Learning rate of step `step` (from 1) instead of `learning_rate`; called once a step on the
        thread that steps; strategy.h says what it may call. [NULL = constant] */
    float (*schedule)(void *user, uint64_t step);
    void *schedule_user;
    /* Clipping acts on the gradient's sum over all micro-batches, replicas and workers; with parameter servers on the sum
       over the replicas of one worker, which is what it pushes. One of the three at most. Finite, >= 0. */
    float clip_value; /**< > 0: each element becomes one in [-clip_value, clip_value]           [0 = off] */
    /** c > 0: the gradient g of each variable becomes g c / max(||g||, c), with the 2-norm, as tf.clip_by_norm. An infinite
        norm gives NaN where g is infinite and 0 elsewhere; NaN gives NaN. For the norm the host waits once in each step
        until all sums are there; runs of an accelerator wait in each of their steps.        [0 = off] */
    float clip_norm;
    /** c > 0: each gradient becomes g c / max(n, c), n the 2-norm over all variables of the update, as
        tf.clip_by_global_norm (torch.nn.utils.clip_grad_norm_ divides by n + 1e-6 instead). A norm that is infinite or
        NaN makes all gradients NaN, as there. The host waits as for `clip_norm`.             [0 = off] */
    float clip_global_norm;
    /** Keep a moving average of each variable, mean += w (value - mean) after each update, with
        w = (1 - average) / (1 - average^t). It is a slot of the name "average", in checkpoints, too. < 1  [0 = off] */
    float average;
};

#if defined(__cplusplus)
}
#endif
#endif
