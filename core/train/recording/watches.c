/* SPDX-License-Identifier: MIT */
/* Watches: see watches.h. */
#include "core/train/recording/watches.h"

#include "core/train/recording/step_recording.h"

static size_t bytes_of(const struct copse_watches *w)
{
    return w->trained->count * COPSE_WATCHES * COPSE_REPORT_STRIDE;
}

copse_status copse__watches_make(struct copse_watches *w, copse_strategy *st,
                                 const struct copse_trained *trained)
{
    size_t bytes;
    if (!copse__mul(trained->count, COPSE_WATCHES * COPSE_REPORT_STRIDE, &bytes))
        return copse_no_memory("trainer");
    w->strategy = st;
    w->trained = trained;
    w->values = copse__alloc(&st->ctx->base.mem, st->replica_count, bytes);
    COPSE_TRY(copse_need_memory(w->values, "trainer"));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse__replica_buffer(&st->replicas[r], bytes, &w->buffers[r]));
    return COPSE_OK;
}

void copse__watches_free(struct copse_watches *w, bool is_idle)
{
    if (!w->strategy)
        return;
    for (uint32_t r = 0; r < w->strategy->replica_count; r++)
        copse_buffer_release(&w->buffers[r]);
    if (is_idle)
        copse__free(&w->strategy->ctx->base.mem, w->values);
}

copse_status copse__watches_read(struct copse_watches *w, uint32_t r, bool has)
{
    w->has[r] = has;
    return has ? copse_queue_read(w->strategy->replicas[r].queue, w->buffers[r], 0,
                                  w->values + r * bytes_of(w), bytes_of(w))
               : COPSE_OK;
}

static float watches_watched(const struct copse_watches *w, uint32_t r, size_t variable,
                             uint32_t which)
{
    const size_t row = (r * w->trained->count + variable) * COPSE_WATCHES + which;
    float value;
    memcpy(&value, w->values + row * COPSE_REPORT_STRIDE, sizeof value);
    return value;
}

copse_status copse__watches_check(const struct copse_watches *w, uint32_t r)
{
    for (size_t i = 0; w->has[r] && i < w->trained->count; i++)
        if (watches_watched(w, r, i, COPSE_WATCH_FINITE) != 0.0f)
            return copse_fail(COPSE_ERR_NONFINITE,
                              "the gradient of '%s' on replica %u has an element that is not "
                              "finite; nothing was changed",
                              w->trained->at[i]->name, r);
    return COPSE_OK;
}

void copse__watches_summary(const struct copse_watches *w, uint32_t r, size_t i,
                            struct copse_gradient_summary *out)
{
    *out = (struct copse_gradient_summary){ .is_known = w->has[r] };
    if (!out->is_known)
        return;
    out->norm = watches_watched(w, r, i, COPSE_WATCH_NORM);
    uint64_t above = w->trained->at[i]->count; /* of a magnitude of at least the bin's lower end */
    for (int k = 0; k <= COPSE_GRADIENT_BINS; k++) {
        const uint64_t next =
            k == COPSE_GRADIENT_BINS
                ? 0
                : (uint64_t)watches_watched(w, r, i, COPSE_WATCH_BINS + (uint32_t)k);
        out->bins[k] = above - next;
        above = next;
    }
}
