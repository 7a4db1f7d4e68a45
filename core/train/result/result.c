/* SPDX-License-Identifier: MIT */
/* Results of steps: the reports of all replicas combined for the global batch. */
#include "core/train/result/workers.h"

/* The values of rows first, first + step, ... of a slot for all of their examples: sums, or means
   that weight each row by its examples. Returns the number of examples. */
static size_t result_combine(const struct copse_group *g, const struct copse_reports *reports,
                             const struct copse_step_slot *slot, size_t first, size_t step,
                             double values[1 + COPSE_MAX_REPORTS])
{
    const size_t rows = (size_t)slot->parts * g->ranks;
    size_t total = 0;
    memset(values, 0, (1 + COPSE_MAX_REPORTS) * sizeof *values);
    for (size_t row = first; row < rows; row += step)
        total += slot->examples[row];
    for (size_t row = first; row < rows; row += step)
        for (uint32_t i = 0; slot->examples[row] > 0 && i < 1 + reports->count; i++) {
            const double weight = copse__report_is_sum(reports, i)
                                      ? 1.0
                                      : (double)slot->examples[row] / (double)total;
            values[i] += weight * (double)copse__rank_value(g, slot, row, i);
        }
    return total;
}

void copse__slot_result(const struct copse_step_ring *ring, const struct copse_reports *reports,
                        const struct copse_step_slot *slot, struct copse_step_result *out)
{
    double values[1 + COPSE_MAX_REPORTS];
    (void)result_combine(&ring->strategy->group, reports, slot, 0, 1, values);
    *out = (struct copse_step_result){ .step = slot->step,
                                       .loss = values[0],
                                       .is_skipped = slot->is_skipped,
                                       .loss_scale = slot->loss_scale,
                                       .report_count = reports->count };
    for (uint32_t i = 0; i < reports->count; i++) {
        out->report_names[i] = reports->names[i];
        out->reports[i] = values[1 + i];
    }
}

copse_status copse__rank_result(const struct copse_step_ring *ring,
                                const struct copse_reports *reports, uint32_t rank,
                                struct copse_replica_result *out)
{
    const struct copse_group *g = &ring->strategy->group;
    *out = (struct copse_replica_result){ 0 };
    const struct copse_step_slot *slot = copse__slot_of(ring, ring->taken + ring->count - 1);
    if (ring->taken == 0 || slot->step != ring->taken)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "trainer: there is no result, or its memory is in use again");
    double values[1 + COPSE_MAX_REPORTS], unused[1 + COPSE_MAX_REPORTS];
    const size_t own = result_combine(g, reports, slot, rank, g->ranks, values);
    out->fraction = (double)own / (double)result_combine(g, reports, slot, 0, 1, unused);
    out->loss = values[0];
    for (uint32_t i = 0; i < reports->count; i++)
        out->reports[i] = values[1 + i];
    return COPSE_OK;
}
