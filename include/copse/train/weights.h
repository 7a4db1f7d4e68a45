/* SPDX-License-Identifier: MIT */
/** @file Weights from a file: the arrays of any safetensors file become the values of the variables
 * of the same names.
 */
#ifndef COPSE_PUBLIC_TRAIN_WEIGHTS_H
#define COPSE_PUBLIC_TRAIN_WEIGHTS_H

#include "copse/data/checkpoint.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Order of the axes of matrices in a file. */
typedef enum copse_weight_layout {
    /** that of the variables; a file of matrices that says "format": "pt" in its metadata is
       refused */
    COPSE_LAYOUT_AUTO,
    COPSE_LAYOUT_COPSE, /**< that of the variables: a dense layer has [inputs, outputs] */
    /** torch.nn.Linear: matrices are [outputs, inputs] and are transposed; those of variables
       whose name, or a part of it behind a '/' or '.', begins with "embedding" are not */
    COPSE_LAYOUT_TORCH,
} copse_weight_layout;

/** Whether a variable takes its array of the file. Called on each worker for the variables that the
    file has, in their order, before anything changes; the answers must be the same on all workers.
    Must not call functions of the trainer. */
typedef bool copse_load_choice_fn(void *user, const copse_checkpoint *file, const char *name);

/** How to load weights. */
struct copse_load_params {
    copse_weight_layout layout;
    bool is_exact;                /**< refuse f64, f16 and bf16 instead of converting them to f32 */
    bool needs_all;               /**< refuse a file that lacks a variable */
    copse_load_choice_fn *choose; /**< [NULL = all variables take theirs] */
    void *user;                   /**< of `choose` */
    uint64_t reserved[2];         /**< 0 */
};

/** What a file and the variables have in common. Names are in the order of the variables, or of the
    file. */
struct copse_load_report {
    const char *const *matched; /**< variables that got values */
    size_t matched_count;
    const char *const *missing; /**< variables that the file lacks; they keep their values */
    size_t missing_count;
    /** arrays that no variable has; without "application/..." and the slots "<variable>/..." of a
       checkpoint */
    const char *const *unused;
    size_t unused_count;
    size_t converted; /**< of `matched`: of another element type in the file */
    /** variables that the file has and `choose` left out; they keep their values */
    const char *const *skipped;
    size_t skipped_count;
    uint64_t reserved[2]; /**< 0 */
};

/**
 * Set variables of a trainer's strategy from a file, by name. All arrays are checked before a
 * variable changes. f64, f16 and bf16 become f32, rounded to nearest; integers become no f32.
 * Slots, step count and untaken results stay.
 *
 * With a collective strategy all workers make the call with the same params; the first reads the
 * file, the others' paths may be NULL. With parameter servers all workers make it before they
 * train: the chief reads and the others wait for it; their report is empty.
 * @param params  NULL for defaults.
 * @param report  NULL = not wanted. Its names are borrowed until the next call or the trainer's
 *                release.
 * @retval COPSE_ERR_IO         The file cannot be read.
 * @retval COPSE_ERR_FORMAT     It breaks a rule of the format.
 * @retval COPSE_ERR_ARGUMENT   It has no variable's name; or lacks one (`needs_all`); or `choose`
 *                              left all out; or its layout must be given; or micro-batches were
 *                              accumulated since the last update; or there is no path.
 * @retval COPSE_ERR_SHAPE      An array has another shape than its variable, or a type that is not
 *                              converted; the text names both.
 * @retval COPSE_ERR_NONFINITE  A value for a trained variable is NaN or infinite, or too large for
 *                              f32.
 * @retval COPSE_ERR_COMM       Another worker could not take part, or is lost; the text names it.
 * Blocks until the variables are written.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_load(copse_trainer *t, const char *path,
                                                        const struct copse_load_params *params,
                                                        struct copse_load_report *report);

#if defined(__cplusplus)
}
#endif
#endif
