/* SPDX-License-Identifier: MIT */
/* Cross-checks: before the first use of a program, and before the first update of an optimizer, the
   launches are executed one by one, and each result is compared with that of the host function on
   the same words. */
#ifndef COPSE_CROSS_CHECK_H
#define COPSE_CROSS_CHECK_H

#include "core/check/audit.h"
#include "core/check/check.h"
#include "core/optim/optimizer.h"

/* Whose launches are compared. The pointers are not references. */
struct copse_check_owner {
    const char *name;     /* begins error texts, */
    const char *turn_off; /* ends them: how an application turns the cross-check off */
    copse_strategy *strategy;
    const struct copse_optimizer *optimizer;
    /* [replicas]: loss and reports, COPSE_REPORT_STRIDE apart; NULL: it keeps none */
    copse_buffer *const *reports;
    const struct copse_audit *audit; /* knows where gradients of rows are; NULL: there are none */
};

/* One cross-check, on a replica. */
struct copse_cross_check {
    struct copse_check base;
    const struct copse_check_owner *owner;
    uint32_t replica;
    uint64_t step; /* its number, for error texts */
    struct copse_program *program;
    copse_row_exchange *rows;
    /* Called when all launches of the program are right; NULL: nothing more is to be done. */
    copse_status (*then)(struct copse_cross_check *k);
};

struct copse_cross_check copse__cross_check_of(const struct copse_check_owner *owner,
                                               uint32_t replica, uint64_t step);
/* Compare the launches of k->program, of the optimizer's update of dense variables, or of the
   update of a sparse variable, k->rows. After an update the memory is as before, unless
   k->base.chain.is_torn. Launches that have passed before on the device are not compared again.
   COPSE_ERR_UNRELIABLE for a difference. `what` is for the log. */
copse_status copse__cross_check_program(struct copse_cross_check *k, const char *what);
copse_status copse__cross_check_update(struct copse_cross_check *k, const char *what);
copse_status copse__cross_check_rows(struct copse_cross_check *k, const char *what);

/* All segments of the optimizer's update, of all replicas. */
copse_status copse__visit_update(const struct copse_check_owner *owner, copse_replay_fn *visit,
                                 void *user);

/* "the gradient of 'w', element 3". Returns `text`. */
#define COPSE_FAULT_NAME 256
const char *copse__fault_name(const struct copse_check_owner *owner, uint32_t replica,
                              const struct copse_probe_fault *f, char text[COPSE_FAULT_NAME]);

#endif
