/* SPDX-License-Identifier: MIT */
/* What a trainer's steps have given: results, in the order of the steps, and gradients. */
#include <math.h>
#include <stdio.h>

#include "core/train/trainer.h"

copse_status copse_trainer_result(copse_trainer *t, bool wait, struct copse_step_result *out)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_result", t));
    COPSE_TRY(copse_need("trainer", t, out));
    if (t->ring.taken == t->step)
        return copse_fail(COPSE_ERR_END, "trainer: no step is under way");
    struct copse_step_slot *slot = copse__slot_of(&t->ring, t->ring.taken);
    copse_status s = copse__slot_wait(&t->ring, slot, wait);
    if (s == COPSE_OK)
        s = copse__workers_receive(&t->ring, slot, wait);
    if (s != COPSE_OK && s != COPSE_ERR_TIMEOUT)
        s = copse__workers_report(&t->workers, s);
    if (s != COPSE_OK)
        return wait ? copse_note(s, "while waiting for step %llu", (unsigned long long)slot->step)
                    : s;
    copse__slot_result(&t->ring, &t->recordings.reports, slot, out);
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

copse_status copse_trainer_replica_result(copse_trainer *t, uint32_t replica,
                                          struct copse_replica_result *out)
{
    COPSE_TRY(copse_need("trainer", t, out));
    if (replica >= t->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: there is no replica %u of %u", replica,
                          t->strategy->replica_count);
    return copse__rank_result(&t->ring, &t->recordings.reports, t->strategy->group.first + replica,
                              out);
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
        const struct copse_step_slot *slot = copse__slot_of(&t->ring, t->ring.taken);
        for (uint32_t r = 0; r < t->strategy->replica_count; r++)
            COPSE_TRY(copse_note(copse__trainer_wait(t, r, slot->tickets[r]),
                                 "while waiting for step %llu", (unsigned long long)slot->step));
        COPSE_TRY(copse_trainer_result(t, true, &oldest));
    }
    return COPSE_OK;
}

copse_status copse_trainer_gradient(const copse_trainer *t, const copse_variable *v,
                                    uint32_t replica, struct copse_gradient_summary *out)
{
    size_t i = 0;
    if (!t || !v || !out || replica >= t->strategy->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: it, the variable or the place is NULL, or "
                          "there is no replica %u",
                          replica);
    COPSE_TRY(copse__variable_check(v, "copse_trainer_gradient"));
    while (i < t->trained.count && t->trained.at[i] != v)
        i++;
    if (!t->params.summarize_gradients || i == t->trained.count)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: gradients of '%s' are not summarized here",
                          v->name);
    copse__watches_summary(&t->recordings.watches, replica, i, out);
    return COPSE_OK;
}
