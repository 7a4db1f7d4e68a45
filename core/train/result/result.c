/* SPDX-License-Identifier: MIT */
/* Results of steps: the reports of all replicas combined for the global batch. */
#include <math.h>

#include "core/train/trainer.h"

bool copse__value_is_sum(const copse_trainer *t, uint32_t i)
{
    return (i == 0 || t->reports.is_loss[i - 1]) && t->params.reduction == COPSE_LOSS_SUM;
}

/* The values of rows first, first + step, ... of a slot for all of their examples: sums, or means
   that weight each row by its examples. Returns the number of examples. */
static size_t combine(const copse_trainer *t, const struct copse_step_slot *slot, size_t first,
                      size_t step, double values[1 + COPSE_MAX_REPORTS])
{
    const size_t rows = (size_t)slot->parts * t->strategy->group.ranks;
    size_t total = 0;
    memset(values, 0, (1 + COPSE_MAX_REPORTS) * sizeof *values);
    for (size_t row = first; row < rows; row += step)
        total += slot->examples[row];
    for (size_t row = first; row < rows; row += step)
        for (uint32_t i = 0; slot->examples[row] > 0 && i < 1 + t->reports.count; i++) {
            const double weight =
                copse__value_is_sum(t, i) ? 1.0 : (double)slot->examples[row] / (double)total;
            values[i] += weight * (double)copse__rank_value(t, slot, row, i);
        }
    return total;
}

void copse__slot_result(const copse_trainer *t, const struct copse_step_slot *slot,
                        struct copse_step_result *out)
{
    double values[1 + COPSE_MAX_REPORTS];
    (void)combine(t, slot, 0, 1, values);
    *out = (struct copse_step_result){ .step = slot->step,
                                       .loss = values[0],
                                       .is_skipped = slot->is_skipped,
                                       .loss_scale = slot->loss_scale,
                                       .report_count = t->reports.count };
    for (uint32_t i = 0; i < t->reports.count; i++) {
        out->report_names[i] = t->reports.names[i];
        out->reports[i] = values[1 + i];
    }
}

copse_status copse_trainer_result(copse_trainer *t, bool wait, struct copse_step_result *out)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_result", t));
    COPSE_TRY(copse_need("trainer", t, out));
    if (t->ring.taken == t->step)
        return copse_fail(COPSE_ERR_END, "trainer: no step is under way");
    struct copse_step_slot *slot = copse__slot_of(t, t->ring.taken);
    copse_status s = copse__slot_wait(t, slot, wait);
    if (s == COPSE_OK)
        s = copse__worker_results_receive(t, slot, wait);
    if (s != COPSE_OK && s != COPSE_ERR_TIMEOUT)
        s = copse__workers_report(t, s);
    if (s != COPSE_OK)
        return wait ? copse_note(s, "while waiting for step %llu", (unsigned long long)slot->step)
                    : s;
    copse__slot_result(t, slot, out);
    t->ring.taken++;
    if (isfinite(out->loss))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_NONFINITE, "the loss of step %llu is %s",
                      (unsigned long long)out->step, isnan(out->loss) ? "NaN" : "infinite");
}

/* "accuracy, mae" */
static void list_reports(const struct copse_step_result *r, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < r->report_count && at < room; i++) {
        const int n = snprintf(text + at, room - at, "%s%s", i > 0 ? ", " : "", r->report_names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

copse_status copse_step_report(const struct copse_step_result *r, const char *name, double *out)
{
    char text[640];
    COPSE_TRY(copse_need("report", r, name, out));
    *out = 0;
    for (uint32_t i = 0; i < r->report_count; i++)
        if (strcmp(r->report_names[i], name) == 0) {
            *out = r->reports[i];
            return COPSE_OK;
        }
    if (r->report_count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "report '%s': the result has no reports; a loss function makes them "
                          "with copse_report",
                          name);
    list_reports(r, text, sizeof text);
    return copse_fail(COPSE_ERR_ARGUMENT, "report '%s': there is none, there are %s", name, text);
}

copse_status copse__rank_result(copse_trainer *t, uint32_t rank, struct copse_replica_result *out)
{
    *out = (struct copse_replica_result){ 0 };
    const struct copse_step_slot *slot = copse__slot_of(t, t->ring.taken + t->ring.count - 1);
    if (t->ring.taken == 0 || slot->step != t->ring.taken)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: there is no result, or its memory is in use again");
    double values[1 + COPSE_MAX_REPORTS], unused[1 + COPSE_MAX_REPORTS];
    const size_t own = combine(t, slot, rank, t->strategy->group.ranks, values);
    out->fraction = (double)own / (double)combine(t, slot, 0, 1, unused);
    out->loss = values[0];
    for (uint32_t i = 0; i < t->reports.count; i++)
        out->reports[i] = values[1 + i];
    return COPSE_OK;
}

copse_status copse_trainer_replica_result(copse_trainer *t, uint32_t replica,
                                          struct copse_replica_result *out)
{
    COPSE_TRY(copse_need("trainer", t, out));
    if (replica >= t->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: there is no replica %u of %u", replica,
                          t->strategy->replica_count);
    return copse__rank_result(t, t->strategy->group.first + replica, out);
}

copse_status copse__trainer_make_room(copse_trainer *t, uint64_t step)
{
    struct copse_step_result oldest;
    /* the application has not taken the oldest: drop it */
    while (step - t->ring.taken > t->ring.count) {
        if (!t->ring.has_dropped)
            copse__log(&t->strategy->ctx->base.log, COPSE_LOG_WARN,
                       "trainer: %u results wait, so the oldest are dropped, from step %llu on; "
                       "take each with copse_trainer_result, or train with copse_trainer_fit",
                       t->ring.count, (unsigned long long)t->ring.taken + 1);
        t->ring.has_dropped = true;
        const struct copse_step_slot *slot = copse__slot_of(t, t->ring.taken);
        for (uint32_t r = 0; r < t->strategy->replica_count; r++)
            COPSE_TRY(copse_note(copse__trainer_wait(t, r, slot->tickets[r]),
                                 "while waiting for step %llu", (unsigned long long)slot->step));
        COPSE_TRY(copse_trainer_result(t, true, &oldest));
    }
    return COPSE_OK;
}
