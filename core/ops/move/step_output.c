/* SPDX-License-Identifier: MIT */
/* Outputs of a graph besides its loss and its reports. */
#include "copse/compat/single_loss.h"
#include "core/ops/ops.h"

copse_status copse_step_output(copse_graph *g, const char *name, copse_tensor *t,
                               copse_output_reduction reduction)
{
    COPSE_TRY(copse_need("output", g, name, t));
    if (!*name)
        return copse_fail(COPSE_ERR_ARGUMENT, "output: it needs a name");
    COPSE_TRY(copse_note(copse_need_known("outputs", "reduction", reduction, COPSE_OUTPUT_MEAN),
                         "for '%s'", name));
    if (reduction == COPSE_OUTPUT_MEAN && t->type != COPSE_F32)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "output '%s': the mean of i32 is no i32; convert it with copse_cast",
                          name);
    for (size_t i = 0; i < g->output_count; i++)
        if (strcmp(g->outputs[i].name, name) == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "output '%s' is set twice", name);
    if (g->output_count == COPSE_MAX_OUTPUTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "output '%s': a graph has at most %d outputs", name,
                          COPSE_MAX_OUTPUTS);
    COPSE_TRY(copse__own(g, t, &t));
    if (reduction == COPSE_OUTPUT_MEAN && g->replicas > 1) {
        copse_tensor *part; /* each is weighted by its examples: their sum is the mean */
        COPSE_TRY(copse__step_scalar(g, COPSE_STEP_PART, &part));
        COPSE_TRY(copse_mul(g, t, part, &t));
    }
    char *copy = copse__arena_strdup(&g->arena, name);
    if (!copy)
        return copse_fail(COPSE_ERR_NO_MEMORY, "output '%s': no memory", name);
    g->outputs[g->output_count].name = copy;
    g->outputs[g->output_count].tensor = t;
    g->outputs[g->output_count++].reduction = (int)reduction;
    return COPSE_OK;
}
