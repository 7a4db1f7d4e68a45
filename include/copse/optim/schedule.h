/* SPDX-License-Identifier: MIT */
/** @file Learning rates that change over the steps of a run, composed from a description.
 * docs/optimizers.md has the formulas.
 *
 * A description is a sequence of phases, separated by `;`. A phase is a product of factors,
 * separated by `*`, and ends with `for N` (steps) or `for N%` (of the run); the last one takes the
 * steps that are left, others without a length share the rest equally. The rate of a step is the
 * base rate times the product of the factors of its phase. In a phase of n steps, in its step k = 0
 * .. n - 1:
 *
 * | factor | value | |---|---| | `constant [A]` | A [1] | | `warmup [A]` | from A [0] to 1: A + (1
 * - A) (k + 1) / n | | `linear [A [B]]` | from A [1] to B [0]: A + (B - A) k / n | | `cosine [B]` |
 * from 1 to B [0]: B + (1 - B) (1 + cos(pi k / n)) / 2 (SGDR, ICLR 2017, without restarts) | |
 * `polynomial P [B]` | B + (1 - B) (1 - k / n)^P | | `exponential G [N]` | G^(k / N) [N = 1] | |
 * `step G N` | G^floor(k / N) | | `inverse_sqrt W` | min((k + 1) / W, sqrt(W / (k + 1))) (Vaswani
 * et al., 2017) | | `one_cycle [F [D [E]]]` | F [0.3] of the steps from 1 / D [25] to 1 along a
 * cosine, the rest to 1 / (D E) [1e4], as
 *   torch.optim.lr_scheduler.OneCycleLR |
 * | `plateau G N [T]` | times G after N observations in a row that are not below (1 - T) [T = 1e-4]
 * times the lowest one, as
 *   torch.optim.lr_scheduler.ReduceLROnPlateau with a patience of N - 1. At most once |
 */
#ifndef COPSE_PUBLIC_OPTIM_SCHEDULE_H
#define COPSE_PUBLIC_OPTIM_SCHEDULE_H

#include "copse/context.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_rate_schedule copse_schedule;

/** Settings of a schedule. */
struct copse_schedule_params {
    const char *text; /**< the description, required */
    float rate;       /**< base rate, > 0 */
    /** of the run; later steps have the rate of the last one [0 = only phases with a length, and
       factors that need no n in the last one] */
    uint64_t steps;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a schedule.
 * @retval COPSE_ERR_ARGUMENT  The text breaks the rules above; the error quotes the part, and says
 *                             what is expected.
 */
COPSE_API COPSE_CHECKED copse_status copse_schedule_create(
    copse_context *ctx, const struct copse_schedule_params *params, copse_schedule **out);
/** COPSE_ERR_ARGUMENT as copse_schedule_create, as far as that does not depend on the steps of the
    run. */
COPSE_API COPSE_CHECKED copse_status copse_schedule_check(const char *text);
/** Free it. It must outlive the trainers that use it. */
COPSE_API void copse_schedule_release(copse_schedule **schedule);

/**
 * The rate of a step, from 1, computed in double. `schedule` is a copse_schedule *: the function
 * and the schedule are the `schedule` and `schedule_user` of copse_optimizer_params. 0 for NULL. A
 * step has the same rate whenever it is asked for, unless `plateau` has observed a loss since.
 */
COPSE_API float copse_schedule_rate(void *schedule, uint64_t step);

/** Tell a validation loss to the `plateau` factors; others ignore it. NaN counts as no improvement.
    All workers of a job tell the same losses before the same steps. Not during a step. */
COPSE_API COPSE_CHECKED copse_status copse_schedule_observe(copse_schedule *schedule, double loss);

/** Bytes that a state takes at most, with the zero. */
#define COPSE_SCHEDULE_STATE 128

/** Write the state that `copse_schedule_observe` changes, for a checkpoint; "" for NULL. */
COPSE_API void copse_schedule_state(const copse_schedule *schedule,
                                    char text[COPSE_SCHEDULE_STATE]);
/**
 * Set it; "" is the state of a new schedule.
 * @retval COPSE_ERR_FORMAT  The text is no state of this schedule. Nothing changed.
 */
COPSE_API COPSE_CHECKED copse_status copse_schedule_restore(copse_schedule *schedule,
                                                            const char *text);

#if defined(__cplusplus)
}
#endif
#endif
