/* SPDX-License-Identifier: MIT */
/** @file
 * Cross-checks and audits: a trainer watches its devices.
 *
 * Cross-check: before the first step of a program (kernels, sizes) on a device, driver and library
 * version, each launch of the step and of the update is compared with the host. A difference
 * refuses the step with COPSE_ERR_UNRELIABLE and a text that names device, driver, tensor and both
 * numbers: nothing has changed, and the trainer cannot be used any more. Programs that passed are
 * kept in the kernel cache. Parameter servers and tower optimizers do the same.
 * docs/conformance.md, "The first step", has tolerances and exceptions.
 *
 * Audits: in some steps each replica computes its gradients twice, from the same inputs, and the
 * bits must be equal; and all replicas, of all workers in step, must have the same bits of each
 * variable. So faults that occur now and then are found (a launch that is lost, two that change
 * places, memory that changes), which a test at the start does not see.
 *
 * In the audited steps up to 16, and then in one of 64 audits, the host computes one launch of the
 * step or of the update again (docs/conformance.md, "Audits").
 *
 * Audits are done in the steps 2 to 8, 16, 32, 64, and then in every 128th: less than 1 % of the
 * time. They change no result. A fault is reported by copse_trainer_result of the step, or by the
 * next checkpoint, with COPSE_ERR_UNRELIABLE and a text that names device, step and variable. Then
 * the trainer cannot be used any more and writes no checkpoint.
 *
 * Not audited: steps whose loss function all-reduces (distribute/sync.h), and runs of an
 * accelerator strategy whose cores share a queue. With parameter servers variables are not
 * compared. Of sparse variables parts are (docs/sparse.md).
 */
#ifndef COPSE_PUBLIC_TRAIN_AUDIT_H
#define COPSE_PUBLIC_TRAIN_AUDIT_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** When a trainer audits and cross-checks. */
struct copse_audit_params {
    /** steps; also in those of 2 to 8, 16, 32, ... that are smaller [0 = 128] */
    uint32_t every;
    bool is_off;             /**< it never audits */
    bool is_cross_check_off; /**< it never cross-checks */
    uint64_t reserved[4];    /**< 0 */
};

/** Set it; new trainers have the defaults. `params` NULL: the defaults. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_audit(copse_trainer *t,
                                                         const struct copse_audit_params *params);

/** Audits that found no fault. */
COPSE_API uint64_t copse_trainer_audits(const copse_trainer *t);

/** Launches that cross-checks of this trainer compared with the host; 0 where all programs had
    passed before. */
COPSE_API uint64_t copse_trainer_cross_checked(const copse_trainer *t);

#if defined(__cplusplus)
}
#endif
#endif
