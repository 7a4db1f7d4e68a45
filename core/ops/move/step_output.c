/* SPDX-License-Identifier: MIT */
/* Outputs of a graph besides its loss and its reports. */
#include "copse/compat/single_loss.h"
#include "core/ops/ops.h"

static copse_status step_output_check(const copse_graph *g, const char *name, const copse_tensor *t,
                                      copse_output_reduction reduction)
{
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
    return g->output_count < COPSE_MAX_OUTPUTS
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "output '%s': a graph has at most %d outputs (COPSE_MAX_OUTPUTS); join "
                            "arrays with copse_concat or copse_stack",
                            name, COPSE_MAX_OUTPUTS);
}

void copse_step_output(copse_graph *g, const char *name, copse_tensor *t,
                       copse_output_reduction reduction)
{
    COPSE_LATCH_VOID(g, copse_need("output", g, name, t));
    COPSE_LATCH_VOID(g, COPSE_CHECK_OPERANDS("output", g, t));
    COPSE_LATCH_VOID(g, step_output_check(g, name, t, reduction));
    t = copse__own(g, t);
    if (reduction == COPSE_OUTPUT_MEAN && g->replicas > 1) {
        /* each is weighted by its examples: their sum is the mean */
        copse_tensor *part = copse__step_scalar(g, COPSE_STEP_PART);
        t = copse_mul(g, t, part);
    }
    char *copy = copse__arena_strdup(&g->arena, name);
    COPSE_LATCH_VOID(g, copse_need_memory(copy, "output '%s'", name));
    g->outputs[g->output_count].name = copy;
    g->outputs[g->output_count].tensor = t;
    g->outputs[g->output_count++].reduction = (int)reduction;
}
