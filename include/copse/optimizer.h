/* SPDX-License-Identifier: MIT */
/** @file Update rules. Momenta below 1e-30 and mean squares below 1e-36 become zero, so that none
 * is denormal.
 */
#ifndef COPSE_PUBLIC_OPTIMIZER_H
#define COPSE_PUBLIC_OPTIMIZER_H

#include <stdint.h>

#include "copse/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Update rule: formulas, sources and defaults are in docs/optimizers.md. p = parameter, g =
    gradient, r = rate. */
typedef enum copse_optimizer_kind {
    COPSE_ADAM, /**< weight decay adds to g */
    COPSE_ADAMW,
    COPSE_SGD,      /**< p -= r (g + decay p) */
    COPSE_MOMENTUM, /**< v = momentum v + g; p -= r v */
    COPSE_NESTEROV, /**< v = momentum v + g; p -= r (g + momentum v) */
    COPSE_ADAGRAD,
    COPSE_ADADELTA,
    COPSE_RMSPROP,
    COPSE_AMSGRAD,
    COPSE_ADAMAX,
    COPSE_NADAM,
    COPSE_LION,
    COPSE_FTRL,
    COPSE_PROXIMAL_SGD,
    COPSE_PROXIMAL_ADAGRAD,
    COPSE_LARS,
    COPSE_LAMB,
    COPSE_ADAM8, /**< COPSE_ADAM with slots of 8 bits */
    COPSE_ADOPT,
} copse_optimizer_kind;

/** Settings of an optimizer. */
struct copse_optimizer_params {
    copse_optimizer_kind kind;
    float learning_rate; /**< > 0                      [0 = the rule's] */
    float momentum;      /**< < 1; for none use COPSE_SGD                [0 = 0.9; rmsprop: off] */
    float beta1;         /**< decay of the mean of gradients, < 1       [0 = 0.9] */
    float beta2;         /**< decay of the mean of squares, < 1         [0 = the rule's] */
    float epsilon;       /**< added to sqrt(v), in units of a gradient  [0 = the rule's] */
    float weight_decay;  /**< per step, times the learning rate         [0 = off] */
    /** Learning rate of `step` (from 1); called once per step, in its thread [NULL] */
    float (*schedule)(void *user, uint64_t step);
    void *schedule_user;
    /* Clipping, one at most, of the gradients' sum over micro-batches, replicas and workers; with
       parameter servers over one worker. For norms the host waits once per step, within runs of
       steps too. */
    float clip_value; /**< limit on each magnitude  [0 = off] */
    /** Limit c on the 2-norm of each variable's gradient: g c / max(||g||, c). An infinite norm
        gives NaN where g is infinite, else 0. [0 = off] */
    float clip_norm;
    /** limit on the norm over all variables; all become NaN if it is not finite [0 = off] */
    float clip_global_norm;
    /** Gradient scaling by s >= 1: derivatives start from s, updates divide by s; transforms see
        scaled gradients. An update with a sum that is not finite is skipped: variables, slots and
        count of updates stay. The host waits likewise. [0 = off] */
    float loss_scale;
    /** n > 0: s adapts as in torch.cuda.amp.GradScaler: times loss_scale_backoff, to 1 at least,
        after a skipped update, times loss_scale_growth after n others in a row. Saved in
        checkpoints. [0 = constant] */
    uint32_t loss_scale_interval;
    float loss_scale_growth;  /**< > 1  [0 = 2] */
    float loss_scale_backoff; /**< < 1  [0 = 0.5] */
    float average; /**< decay of a moving average of each variable: docs/optimizers.md  [0 = off] */
    /* Settings of some rules; refused for others. */
    /** first value of sums of squares [0 = 0; ftrl and proximal_adagrad 0.1] */
    float initial;
    float l1, l2;         /**< of ftrl and the proximal rules  [0 = off] */
    float momentum_decay; /**< of nadam  [0 = 4e-3] */
    uint32_t is_centred;  /**< of rmsprop: 1 subtracts the squared mean of gradients  [0] */
    float trust;          /**< of lars  [0 = 1e-3] */
    /** settings of some variables, by name: copse/optim/groups.h. Copied [NULL = none] */
    const char *groups;
    /** of rmsprop: 1 adds epsilon to v before the root, as TensorFlow does  [0] */
    uint32_t epsilon_in_root;
    /** 1: `average` begins with the first updated values, uncorrected, as Keras does  [0] */
    uint32_t plain_average;
    uint64_t reserved[3];
};

#if defined(__cplusplus)
}
#endif
#endif
