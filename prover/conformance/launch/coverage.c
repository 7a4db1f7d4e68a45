/* SPDX-License-Identifier: MIT */
/* The table kernel x launch regime x class of values, from the kernel table and the cases of mode
   launch. A kernel without cases appears with empty cells. */
#include <stdio.h>

#include "prover/conformance/launch/launch.h"
#include "prover/conformance/verdict/library.h"

struct cell {
    enum copse_kernel_id kernel;
    enum copse_regime regime;
    enum copse_values values;
    const char *why; /* a form that leaves it out */
    unsigned count;
    copse_conformance_tier tier; /* the lowest of its cases */
    char names[256];
};

static void coverage_take(void *user, const struct copse_launch_case *c)
{
    struct cell *cell = user;
    const bool has_class = c->values == cell->values ||
                           (c->values == COPSE_VALUES_MIXED &&
                            !((c->form->no_values | c->form->apart) & COPSE_BIT(cell->values)));
    if (c->form->kernel != cell->kernel || c->regime != cell->regime || !has_class)
        return;
    const size_t at = strlen(cell->names);
    if (at + strlen(c->name) + 3 < sizeof cell->names)
        snprintf(cell->names + at, sizeof cell->names - at, "%s%s", at ? "; " : "", c->name);
    cell->tier = cell->count++ ? COPSE_MIN(cell->tier, c->tier) : c->tier;
}

/* The reason if every form leaves the cell out. */
static const char *coverage_reason(const struct copse_launch_list *const *lists,
                                   const struct cell *cell)
{
    const char *why = "";
    for (size_t i = 0; lists[i]; i++)
        for (size_t k = 0; k < lists[i]->count; k++) {
            const struct copse_launch_form *f = &lists[i]->forms[k];
            if (f->kernel == cell->kernel && f->why &&
                (f->no_regimes & COPSE_BIT(cell->regime) || f->no_values & COPSE_BIT(cell->values)))
                why = f->why;
        }
    return why;
}

/* The cells of what the cases must have besides. */
static void visit_classes(const struct copse_launch_list *const *lists, enum copse_kernel_id kernel,
                          copse_coverage_fn *visit, void *user)
{
    struct copse_class_cell cells[COPSE_LAUNCH_CLASS_COUNT];
    copse__launch_classes(lists, kernel, cells);
    for (unsigned k = 0; k < COPSE_LAUNCH_CLASS_COUNT; k++)
        visit(user, &(struct copse_coverage_cell){
                        .kernel = copse_kernel_table[kernel].name,
                        .mode = "launch",
                        .regime = COPSE_ANY_REGIME,
                        .values = copse_class_names[k],
                        .cases = cells[k].names,
                        .reason = cells[k].why ? cells[k].why : "",
                        .case_count = cells[k].case_count,
                        .tier = cells[k].tier,
                        .missing = cells[k].missing,
                    });
}

void copse__launch_coverage(const struct copse_launch_list *const *lists, copse_coverage_fn *visit,
                            void *user)
{
    for (size_t kernel = 0; kernel < copse_kernel_count; kernel++) {
        for (unsigned regime = 0; regime < COPSE_REGIME_COUNT; regime++)
            for (unsigned values = 0; values < COPSE_VALUES_COUNT; values++) {
                struct cell cell = { .kernel = (enum copse_kernel_id)kernel,
                                     .regime = (enum copse_regime)regime,
                                     .values = (enum copse_values)values };
                copse__launch_cases_of(lists, cell.kernel, coverage_take, &cell);
                visit(user, &(struct copse_coverage_cell){
                                .kernel = copse_kernel_table[kernel].name,
                                .mode = "launch",
                                .regime = copse_regime_names[regime],
                                .values = copse_values_names[values],
                                .cases = cell.names,
                                .reason = cell.count ? "" : coverage_reason(lists, &cell),
                                .case_count = cell.count,
                                .tier = cell.tier,
                                .missing = "",
                            });
            }
        visit_classes(lists, (enum copse_kernel_id)kernel, visit, user);
    }
}

copse_status copse_conformance_coverage(copse_coverage_fn *cell, void *user)
{
    COPSE_TRY(copse__conform_library());
    if (!cell)
        return copse_fail(COPSE_ERR_ARGUMENT, "conformance: coverage: cell is NULL");
    copse__launch_coverage(copse_launch_lists, cell, user);
    return COPSE_OK;
}
