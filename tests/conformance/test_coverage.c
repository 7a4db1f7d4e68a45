/* SPDX-License-Identifier: MIT */
/* The coverage table of mode launch has no empty cell, and shows one for a kernel without cases and
   for a removed form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "prover/conformance/launch/launch.h"

struct count {
    const char *kernel; /* NULL = all */
    size_t cells, covered, impossible, empty;
    char first[128];
};

static void take(void *user, const struct copse_coverage_cell *c)
{
    struct count *n = user;
    if (n->kernel && strcmp(n->kernel, c->kernel) != 0)
        return;
    n->cells++;
    n->covered += c->case_count > 0;
    n->impossible += c->case_count == 0 && *c->reason;
    if (c->case_count == 0 && !*c->reason && n->empty++ == 0)
        snprintf(n->first, sizeof n->first, "%s, %s, %s %s", c->kernel, c->regime, c->values,
                 c->missing);
    assert_true(!*c->missing || (c->case_count == 0 && !*c->reason));
    assert_true((c->case_count > 0) == (*c->cases != '\0'));
    assert_string_equal(c->mode, "launch");
}

#define SIZES_BY_VALUES (COPSE_REGIME_COUNT * COPSE_VALUES_COUNT)
#define CELLS           (SIZES_BY_VALUES + COPSE_LAUNCH_CLASS_COUNT) /* of a kernel */

static void no_cell_is_empty(void **state)
{
    (void)state;
    struct count n = { 0 };
    assert_int_equal(copse_conformance_coverage(take, &n), COPSE_OK);
    if (n.empty)
        fail_msg("%zu cells have no case and no reason; the first one: %s", n.empty, n.first);
    assert_int_equal(n.cells, copse_kernel_count * CELLS);
    printf("%zu cells: %zu covered, %zu cannot exist\n", n.cells, n.covered, n.impossible);
}

/* As if a kernel was new: every cell of it is empty, and no other one. */
static void kernel_without_forms_has_empty_cells(void **state)
{
    (void)state;
    static const struct copse_launch_list nothing = { .forms = NULL };
    const struct copse_launch_list *lists[32] = { NULL };
    for (size_t i = 0; copse_launch_lists[i]; i++) {
        assert_true(i + 1 < COPSE_COUNT(lists));
        lists[i] = copse_launch_lists[i] == &copse_launch_sorts ? &nothing : copse_launch_lists[i];
    }
    struct count all = { 0 }, sort = { .kernel = "sort_place" };
    copse__launch_coverage(lists, take, &all);
    copse__launch_coverage(lists, take, &sort);
    /* Lines, flags, steps and signs, too; the kernels are known to have no setting. */
    assert_int_equal(sort.empty, SIZES_BY_VALUES + 7);
    assert_int_equal(all.empty, 8 * sort.empty); /* of eight kernels */
}

/* A list with other forms. */
static struct copse_launch_list list_with(const struct copse_launch_list *list,
                                          const struct copse_launch_form *forms, size_t count)
{
    return (struct copse_launch_list){ forms, count, list->lines, list->line_count };
}

/* A form without a regime leaves its cells empty until it says why. */
static void removed_case_is_an_empty_cell(void **state)
{
    (void)state;
    struct copse_launch_form f = copse_launch_optim.forms[0];
    const struct copse_launch_list one = list_with(&copse_launch_optim, &f, 1);
    const struct copse_launch_list *const lists[] = { &one, NULL };
    const char *kernel = copse_kernel_table[f.kernel].name;
    f.no_regimes = COPSE_BIT(COPSE_REGIME_AXIS);
    f.why = NULL;
    struct count n = { .kernel = kernel }, explained = n;
    copse__launch_coverage(lists, take, &n);
    if (n.empty != COPSE_VALUES_COUNT)
        fail_msg("%zu empty cells; the first one: %s", n.empty, n.first);
    f.why = "for a test";
    copse__launch_coverage(lists, take, &explained);
    assert_int_equal(explained.empty, 0);
    assert_int_equal(explained.impossible, COPSE_VALUES_COUNT + 2); /* an update walks no line */
}

/* What a form loses so that a planted fault of test_mutants.c is not found. */
struct loss {
    const struct copse_launch_list *list;
    enum copse_kernel_id kernel;
    const char *form;    /* forms with this in their name are left out [NULL: none] */
    unsigned no_regimes; /* all forms leave them out */
    bool has_no_signs;
    const char *regime, *values; /* the cell that is empty then */
};

struct wanted {
    const struct loss *loss;
    bool is_empty, is_met;
};

static void look(void *user, const struct copse_coverage_cell *c)
{
    struct wanted *w = user;
    if (strcmp(c->kernel, copse_kernel_table[w->loss->kernel].name) != 0 ||
        strcmp(c->regime, w->loss->regime) != 0 || strcmp(c->values, w->loss->values) != 0)
        return;
    w->is_met = true;
    w->is_empty = c->case_count == 0 && !*c->reason;
}

static void lost_case_is_an_empty_cell(void **state)
{
    enum {
        ALL_LATE = COPSE_BIT(COPSE_REGIME_SHORT) | COPSE_BIT(COPSE_REGIME_MANY) |
                   COPSE_BIT(COPSE_REGIME_AXIS)
    };
    static const struct loss losses[] = {
        { &copse_launch_decoders, COPSE_KERNEL_rotary_wide, NULL, COPSE_BIT(COPSE_REGIME_SHORT),
          false, "any", "settings" },
        { &copse_launch_sums, COPSE_KERNEL_scan, "reversed, exclusive", 0, false, "any", "flags" },
        { &copse_launch_attention, COPSE_KERNEL_attention_wide, "long", 0, false, "any",
          "long line" },
        { &copse_launch_elementwise, COPSE_KERNEL_unary, NULL, COPSE_BIT(COPSE_REGIME_SHORT), false,
          "one short", "usual" },
        { &copse_launch_optim, COPSE_KERNEL_adam, NULL, ALL_LATE, false, "any", "late step" },
        { &copse_launch_elementwise, COPSE_KERNEL_unary, NULL, 0, true, "any", "-0" },
        { &copse_launch_rows, COPSE_KERNEL_row_stats_wide, "long", 0, false, "any", "one past" },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(losses); i++) {
        const struct loss *loss = &losses[i];
        struct copse_launch_form *forms = calloc(loss->list->count, sizeof *forms);
        assert_non_null(forms);
        size_t count = 0;
        for (size_t k = 0; k < loss->list->count; k++) {
            struct copse_launch_form f = loss->list->forms[k];
            if (f.kernel != loss->kernel || (loss->form && strstr(f.name, loss->form)))
                continue;
            f.no_regimes |= loss->no_regimes;
            f.has_zero_signs = f.has_zero_signs && !loss->has_no_signs;
            forms[count++] = f;
        }
        const struct copse_launch_list one = list_with(loss->list, forms, count);
        const struct copse_launch_list *const lists[] = { &one, NULL };
        struct wanted before = { .loss = loss }, after = before;
        copse__launch_coverage(copse_launch_lists, look, &before);
        copse__launch_coverage(lists, look, &after);
        if (!before.is_met || before.is_empty || !after.is_empty)
            fail_msg("%s, %s, %s: empty before %d, after %d", copse_kernel_table[loss->kernel].name,
                     loss->regime, loss->values, before.is_empty, after.is_empty);
        free(forms);
    }
}

enum { MOST_CASES = 32768 };

struct names {
    char (*seen)[160];
    size_t count;
    bool has_quick_many[COPSE_KERNEL_COUNT];
};

static void note(void *user, const struct copse_launch_case *c)
{
    struct names *n = user;
    assert_true(n->count < MOST_CASES);
    snprintf(n->seen[n->count++], sizeof *n->seen, "%s/%s",
             copse_kernel_table[c->form->kernel].name, c->name);
    if (c->regime == COPSE_REGIME_MANY && c->tier == COPSE_CONFORM_QUICK)
        n->has_quick_many[c->form->kernel] = true;
}

static int order(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* A name selects one case, and tier quick has many groups of every kernel that can have them. */
static void cases_have_names_of_their_own(void **state)
{
    (void)state;
    struct names n = { .seen = calloc(MOST_CASES, sizeof *n.seen) };
    assert_non_null(n.seen);
    copse__launch_cases(copse_launch_lists, note, &n);
    qsort(n.seen, n.count, sizeof *n.seen, order);
    for (size_t i = 1; i < n.count; i++)
        if (strcmp(n.seen[i - 1], n.seen[i]) == 0)
            fail_msg("two cases are called %s", n.seen[i]);
    for (size_t k = 0; k < copse_kernel_count; k++)
        if (!n.has_quick_many[k] && k != COPSE_KERNEL_step_scalar)
            fail_msg("tier quick has no case of %s with many groups", copse_kernel_table[k].name);
    free(n.seen);
}

static void measure(void *user, const struct copse_launch_case *c)
{
    const size_t most = (size_t) * (const int *)user << 20;
    struct copse_limits limits = { .max_group_size = 256, .max_group_count = COPSE_AXIS_GROUPS };
    struct copse_launch l = { .form = c->form, .regime = c->regime, .values = c->values };
    const size_t bytes = copse__launch_size(&l, &limits);
    const bool has_table = strcmp(c->form->name, "rows past 2^24") == 0; /* 64 MiB */
    assert_true(limits.max_group_size > 0);
    if (bytes > most && !has_table)
        fail_msg("%s, %s: %zu MiB", copse_kernel_table[c->form->kernel].name, c->name, bytes >> 20);
    if (c->regime == COPSE_REGIME_AXIS)
        assert_true(l.groups > COPSE_AXIS_GROUPS);
    if (c->regime == COPSE_REGIME_MANY)
        assert_true(l.groups > 60);
    if (c->regime == COPSE_REGIME_ONE && c->form->kernel != COPSE_KERNEL_column_sum_wide &&
        c->form->kernel != COPSE_KERNEL_column_sums) /* a group for each matrix */
        assert_int_equal(l.groups, 1);
}

/* The references of a launch take up to six times its buffers. */
static void launches_have_their_groups_in_little_memory(void **state)
{
    (void)state;
    copse__launch_cases(copse_launch_lists, measure, &(int){ 33 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cell_is_empty),
        cmocka_unit_test(kernel_without_forms_has_empty_cells),
        cmocka_unit_test(removed_case_is_an_empty_cell),
        cmocka_unit_test(lost_case_is_an_empty_cell),
        cmocka_unit_test(launches_have_their_groups_in_little_memory),
        cmocka_unit_test(cases_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
