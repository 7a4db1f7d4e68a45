/* SPDX-License-Identifier: MIT */
/* Whether a trainer may go on: it has not failed, and was not cancelled. */
#include "core/train/trainer.h"

copse_status copse__trainer_check(copse_trainer *t)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__strategy_settle(t->strategy));
    if (t->verifier.audit.has_failed)
        return copse_fail(COPSE_ERR_UNRELIABLE,
                          "trainer: an audit found wrong results; make a new trainer, on "
                          "other devices, and load the last checkpoint");
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST,
                          "trainer: an update was cut short by a failed "
                          "device or worker; make a new trainer and load the last "
                          "checkpoint");
    return COPSE_OK;
}

bool copse__is_cancelled(copse_trainer *t)
{
    return atomic_exchange(&t->is_cancelled, false);
}

copse_status copse__note_cancelled(copse_trainer *t, copse_status s)
{
    if (s == COPSE_ERR_CANCELLED)
        (void)copse__is_cancelled(t);
    return s;
}

copse_status copse__trainer_wait(copse_trainer *t, uint32_t r, uint64_t ticket)
{
    return copse__note_cancelled(
        t, copse__queue_wait_unless(t->strategy->replicas[r].queue, ticket, &t->is_cancelled));
}

void copse_trainer_cancel(copse_trainer *t)
{
    if (t)
        atomic_store(&t->is_cancelled, true);
}
