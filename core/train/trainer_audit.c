/* SPDX-License-Identifier: MIT */
/* Cross-checks and audits of a trainer (core/train/verify/verifier.h). */
#include "core/train/trainer.h"

copse_status copse__trainer_verify(copse_trainer *t)
{
    const struct copse_check_owner owner = {
        .name = "trainer",
        .turn_off = "--no-cross-check, copse_trainer_audit",
        .strategy = t->strategy,
        .optimizer = t->optimizer,
        .reports = t->reports.buffers,
    };
    return copse__verifier_open(&t->watches.verifier, &owner, t->trained.at, t->trained.count);
}

copse_status copse__audit_settle(copse_trainer *t)
{
    const uint64_t step = copse__verifier_step(&t->watches.verifier);
    return step > 0 ? copse__slot_wait(t, copse__slot_of(t, step - 1), true) : COPSE_OK;
}

copse_status copse_trainer_audit(copse_trainer *t, const struct copse_audit_params *params)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_audit", t));
    COPSE_TRY(copse__audit_settle(t));
    return copse__audit_set(&t->watches.verifier.audit, params);
}

COPSE_PROPERTY(uint64_t, copse_trainer_audits, copse_trainer, x->watches.verifier.audit.passed, 0)
COPSE_PROPERTY(uint64_t, copse_trainer_cross_checked, copse_trainer, x->watches.verifier.compared,
               0)
