/* SPDX-License-Identifier: MIT */
/* Results of steps: what each replica reported, as one figure for the global batch. */
#include <math.h>

#include "core/train/trainer.h"

copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot,
                              uint64_t timeout_ns)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse_queue_wait(t->strategy->replicas[r].queue, slot->tickets[r], timeout_ns));
    return COPSE_OK;
}

void copse__slot_result(const copse_trainer *t, const struct copse_step_slot *slot,
                        struct copse_step_result *out)
{
    double sums[1 + COPSE_MAX_REPORTS] = { 0 };
    const bool is_sum = t->params.reduction == COPSE_LOSS_SUM;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        if (slot->weight[r] == 0.0)
            continue;
        for (uint32_t i = 0; i < 1 + t->report_count; i++) {
            float value;
            memcpy(&value, slot->bytes + (size_t)r * COPSE_REPORT_BYTES + i * COPSE_REPORT_STRIDE,
                   sizeof value);
            sums[i] += (i == 0 && is_sum ? 1.0 : slot->weight[r]) * (double)value;
        }
    }
    memset(out, 0, sizeof *out);
    out->step = slot->step;
    out->loss = sums[0];
    out->report_count = t->report_count;
    for (uint32_t i = 0; i < t->report_count; i++) {
        out->report_names[i] = t->report_names[i];
        out->reports[i] = sums[1 + i];
    }
}

copse_status copse_trainer_result(copse_trainer *t, bool wait, struct copse_step_result *out)
{
    if (!t || !out)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: it, or the place for the result, is NULL");
    if (t->taken == t->step)
        return copse_fail(COPSE_ERR_END, "trainer: no step is under way");
    const struct copse_step_slot *slot = &t->slots[t->taken % COPSE_STEPS_UNDER_WAY];
    const copse_status s = copse__slot_wait(t, slot, wait ? COPSE_WAIT_NS : 0);
    if (s != COPSE_OK)
        return wait ? copse_note(s, "while waiting for step %llu", (unsigned long long)slot->step)
                    : s;
    copse__slot_result(t, slot, out);
    t->taken++;
    if (isfinite(out->loss))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_NONFINITE, "the loss of step %llu is %s",
                      (unsigned long long)out->step, isnan(out->loss) ? "NaN" : "infinite");
}
