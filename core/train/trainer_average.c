/* SPDX-License-Identifier: MIT */
/* The moving averages of a trainer's variables (core/optim/average.h). */
#include "copse/train/average.h"
#include "core/train/trainer.h"

static copse_status trainer_average_begin(copse_trainer *t)
{
    uint32_t slot;
    COPSE_TRY(copse__average_refuse(t));
    if (!copse__slot_find(t->optimizer, "average", &slot))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "trainer: the optimizer keeps no averages: set `average` of its settings");
    if (t->optimizer->table->is_sharing)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "trainer: parameter servers have the variables, and other workers would read "
            "the averages: read the slots \"average\" instead");
    return copse__average_begin(&t->uses.average, t->optimizer, t->trained.at, t->trained.count,
                                slot, t->step, &t->is_failed);
}

copse_status copse_trainer_average_begin(copse_trainer *t)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_average_begin", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__audit_settle(t));
    return copse__workers_report(&t->workers, trainer_average_begin(t));
}

copse_status copse_trainer_average_end(copse_trainer *t)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_average_end", t));
    if (!t->uses.average.values)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: its variables have their own values: call "
                                              "copse_trainer_average_begin before");
    COPSE_TRY(copse__trainer_check(t));
    return copse__workers_report(&t->workers,
                                 copse__average_end(&t->uses.average, t->optimizer, t->trained.at,
                                                    t->trained.count, &t->is_failed));
}

copse_status copse__average_refuse(const copse_trainer *t)
{
    return t->uses.average.values
               ? copse_fail(COPSE_ERR_ARGUMENT, "trainer: its variables have their averages: call "
                                                "copse_trainer_average_end first")
               : COPSE_OK;
}

COPSE_PROPERTY(bool, copse_trainer_is_averaged, copse_trainer, x->uses.average.values != NULL,
               false)
