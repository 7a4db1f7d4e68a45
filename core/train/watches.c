/* SPDX-License-Identifier: MIT */
/* Watches: scalars that each replica computes of its gradients. */
#include "core/train/trainer.h"

copse_status copse__watches_make(copse_trainer *t)
{
    size_t bytes;
    if (!copse__mul(t->trained.count, COPSE_WATCHES * COPSE_REPORT_STRIDE, &bytes))
        return copse_no_memory("trainer");
    t->watches.values =
        copse__alloc(&t->strategy->ctx->base.mem, t->strategy->replica_count, bytes);
    COPSE_TRY(copse_need_memory(t->watches.values, "trainer"));
    for (uint32_t r = 0; r < t->strategy->replica_count; r++)
        COPSE_TRY(copse__trainer_buffer(t, r, bytes, &t->watches.buffers[r]));
    return COPSE_OK;
}

copse_status copse__watches_read(copse_trainer *t, const struct copse_shards *s, uint32_t r)
{
    const size_t bytes = t->trained.count * COPSE_WATCHES * COPSE_REPORT_STRIDE;
    t->watches.has[r] = s->at[r].count > 0;
    return t->watches.has[r]
               ? copse_queue_read(t->strategy->replicas[r].queue, t->watches.buffers[r], 0,
                                  t->watches.values + r * bytes, bytes)
               : COPSE_OK;
}

static float watched(const copse_trainer *t, uint32_t r, size_t variable, uint32_t which)
{
    const size_t row = (r * t->trained.count + variable) * COPSE_WATCHES + which;
    float value;
    memcpy(&value, t->watches.values + row * COPSE_REPORT_STRIDE, sizeof value);
    return value;
}

copse_status copse__watches_check(copse_trainer *t)
{
    const uint32_t last = (uint32_t)t->layouts[1].events.count - 1;
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        COPSE_TRY(copse_note(copse__trainer_wait(t, r, copse__ready_of(t, last)[r]),
                             "while waiting for the gradients of replica %u", r));
        for (size_t i = 0; t->params.check_gradients && t->watches.has[r] && i < t->trained.count;
             i++)
            if (watched(t, r, i, COPSE_WATCH_FINITE) != 0.0f)
                return copse_fail(COPSE_ERR_NONFINITE,
                                  "the gradient of '%s' on replica %u has an "
                                  "element that is not finite; nothing was "
                                  "changed",
                                  t->trained.at[i]->name, r);
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
    *out = (struct copse_gradient_summary){ .is_known = t->watches.has[replica] };
    if (!out->is_known)
        return COPSE_OK;
    out->norm = watched(t, replica, i, COPSE_WATCH_NORM);
    uint64_t above = v->count; /* of a magnitude of at least the bin's lower end */
    for (int k = 0; k <= COPSE_GRADIENT_BINS; k++) {
        const uint64_t next =
            k == COPSE_GRADIENT_BINS
                ? 0
                : (uint64_t)watched(t, replica, i, COPSE_WATCH_BINS + (uint32_t)k);
        out->bins[k] = above - next;
        above = next;
    }
    return COPSE_OK;
}
