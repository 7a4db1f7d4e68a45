/* SPDX-License-Identifier: MIT */
/* Cross-checks and audits of a trainer (core/train/verify/verifier.h). */
#include "core/train/trainer.h"

copse_status copse__audit_settle(copse_trainer *t)
{
    const uint64_t step = copse__verifier_step(&t->verifier);
    return step > 0 ? copse__slot_wait(&t->ring, copse__slot_of(&t->ring, step - 1), true)
                    : COPSE_OK;
}

copse_status copse_trainer_audit(copse_trainer *t, const struct copse_audit_params *params)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_audit", t));
    COPSE_TRY(copse__strategy_settle(t->strategy));
    COPSE_TRY(copse__audit_settle(t));
    return copse__audit_set(&t->verifier.audit, params);
}

COPSE_PROPERTY(uint64_t, copse_trainer_audits, copse_trainer, x->verifier.audit.passed, 0)
COPSE_PROPERTY(uint64_t, copse_trainer_cross_checked, copse_trainer, x->verifier.compared, 0)
