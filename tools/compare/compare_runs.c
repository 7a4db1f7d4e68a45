/* SPDX-License-Identifier: MIT */
/* copse compare-runs: the first step in which two files of `copse train --hash` differ, the
   variables, and the first launch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/plural.h"
#include "tools/compare/hashed_run.h"

enum { SHOWN_VARIABLES = 8 };

/* ---- variables ---- */

struct named {
    const char *name;
    size_t index; /* in the run */
};

/* Two runs that are compared. */
struct comparison {
    const struct hashed_run *a, *b;
    struct named *names; /* of b, sorted */
    size_t *b_of;        /* by variable of a: its index in b, or MISSING */
    bool *is_common;     /* by variable of b */
    size_t common;       /* variables of both */
    bool is_reordered;   /* the same variables in another order */
};
#define MISSING SIZE_MAX

static int compare_names(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static void comparison_free(struct comparison *c)
{
    free(c->names);
    free(c->b_of);
    free(c->is_common);
}

static bool comparison_make(struct comparison *c, const struct hashed_run *a,
                            const struct hashed_run *b)
{
    *c = (struct comparison){ .a = a, .b = b };
    c->names = calloc(b->variable_count + 1, sizeof *c->names);
    c->b_of = calloc(a->variable_count + 1, sizeof *c->b_of);
    c->is_common = calloc(b->variable_count + 1, sizeof *c->is_common);
    if (!c->names || !c->b_of || !c->is_common)
        return false;
    for (size_t i = 0; i < b->variable_count; i++)
        c->names[i] = (struct named){ b->variables[i], i };
    qsort(c->names, b->variable_count, sizeof *c->names, compare_names);
    bool is_in_order = true;
    for (size_t i = 0; i < a->variable_count; i++) {
        const struct named wanted = { a->variables[i], 0 },
                           *found = bsearch(&wanted, c->names, b->variable_count, sizeof wanted,
                                            compare_names);
        c->b_of[i] = found ? found->index : MISSING;
        is_in_order &= c->b_of[i] == i;
        if (found) {
            c->is_common[found->index] = true;
            c->common++;
        }
    }
    c->is_reordered =
        !is_in_order && c->common == a->variable_count && c->common == b->variable_count;
    return true;
}

/* The hash of all depends on the order of the variables. */
static bool is_step_equal(const struct comparison *c, const struct hashed_step *x,
                          const struct hashed_step *y)
{
    bool is = true;
    if (!c->is_reordered)
        return x->hashes[0] == y->hashes[0];
    for (size_t i = 0; i < c->common && is; i++)
        is = x->hashes[i + 1] == y->hashes[c->b_of[i] + 1];
    return is;
}

/* Variables that one file has and the other one lacks. */
static void show_missing(const struct comparison *c)
{
    const struct hashed_run *a = c->a, *b = c->b;
    if (c->common == a->variable_count && c->common == b->variable_count)
        return;
    printf("  the files list different variables: %zu and %zu, %zu of them in both\n",
           a->variable_count, b->variable_count, c->common);
    for (size_t i = 0; i < a->variable_count; i++)
        if (c->b_of[i] == MISSING)
            printf("  %s: is in '%s' alone\n", session_shown(a->variables[i]), a->path);
    for (size_t i = 0; i < b->variable_count; i++)
        if (!c->is_common[i])
            printf("  %s: is in '%s' alone\n", session_shown(b->variables[i]), b->path);
}

static void show_variables(const struct comparison *c, const struct hashed_step *x,
                           const struct hashed_step *y)
{
    size_t count = 0;
    if (c->a->variable_count == 0 || c->b->variable_count == 0) {
        printf("  which variables differ is not known: train both with --hash-variables\n");
        return;
    }
    show_missing(c);
    for (size_t i = 0; i < c->a->variable_count; i++) {
        if (c->b_of[i] == MISSING || x->hashes[i + 1] == y->hashes[c->b_of[i] + 1])
            continue;
        if (count++ < SHOWN_VARIABLES)
            printf("  %s\n", session_shown(c->a->variables[i]));
    }
    if (count > SHOWN_VARIABLES)
        printf("  and %zu more\n", count - SHOWN_VARIABLES);
    printf("  %zu of %zu variable%s differ%s\n", count, c->common, plural_end(c->common),
           count == 1 ? "s" : "");
}

/* ---- launches ---- */

/* The launches of a step, in order of execution. */
static const struct hashed_launch *launches_of(const struct hashed_run *r, uint64_t step,
                                               size_t *count)
{
    size_t first = 0, end = r->launch_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (r->launches[middle].step < step)
            first = middle + 1;
        else
            end = middle;
    }
    for (*count = 0; first + *count < r->launch_count && r->launches[first + *count].step == step;)
        ++*count;
    return r->launches + first;
}

static bool are_same_kernels(const struct hashed_launch *x, const struct hashed_launch *y)
{
    return x && y && strcmp(x->kernel, y->kernel) == 0 && x->replica == y->replica;
}

/* The first of the launches that differ, after `equal` ones. */
static void show_launch(const struct comparison *c, const struct hashed_launch *x,
                        const struct hashed_launch *y, size_t equal)
{
    if (are_same_kernels(x, y))
        printf("  the first launch that differs: number %" PRIu32 " of replica %" PRIu32
               ", kernel %s\n",
               x->number, x->replica, x->kernel);
    else
        printf("  after %zu equal launches the runs launch different kernels: %s in '%s', %s in "
               "'%s'\n",
               equal, x ? x->kernel : "none", c->a->path, y ? y->kernel : "none", c->b->path);
}

static void show_launches(const struct comparison *c, uint64_t step, bool is_equal)
{
    size_t in_a, in_b, equal = 0;
    const struct hashed_launch *x = launches_of(c->a, step, &in_a),
                               *y = launches_of(c->b, step, &in_b);
    if (in_a == 0 && in_b == 0 && is_equal)
        return;
    if (in_a == 0 || in_b == 0) {
        if (is_equal)
            printf("step %" PRIu64 ": its launches are in '%s' alone, and are not compared\n", step,
                   in_a > 0 ? c->a->path : c->b->path);
        else
            printf("  which launch differs is not known: train both again with --hash-launches "
                   "%" PRIu64 "\n",
                   step);
        return;
    }
    while (equal < in_a && equal < in_b && are_same_kernels(&x[equal], &y[equal]) &&
           x[equal].hash == y[equal].hash)
        equal++;
    if (equal < in_a || equal < in_b) {
        if (is_equal)
            printf("step %" PRIu64 ": the variables are equal, launches are not:\n", step);
        show_launch(c, equal < in_a ? &x[equal] : NULL, equal < in_b ? &y[equal] : NULL, equal);
    } else if (is_equal) {
        printf("step %" PRIu64 ": %zu launch%s, all equal\n", step, equal, equal == 1 ? "" : "es");
    } else {
        printf("  %zu launches of gradients are equal: the sums over replicas or the update "
               "differ\n",
               equal);
    }
}

/* ---- steps ---- */

/* Steps that one file has alone; 0: none. */
static void show_lacking(const struct hashed_run *r, size_t alone, uint64_t first)
{
    if (alone > 0)
        printf("'%s' has %zu step%s that the other file lacks; the first one is step %" PRIu64 "\n",
               r->path, alone, plural_end(alone), first);
}

/* Exit code: the steps of both files. They are sorted, and each occurs once. */
static int compare_runs(const struct comparison *c)
{
    const struct hashed_run *a = c->a, *b = c->b;
    size_t common = 0, alone[2] = { 0 };
    uint64_t first[2] = { 0 };
    for (size_t i = 0, k = 0; i < a->step_count || k < b->step_count;) {
        const struct hashed_step *x = i < a->step_count ? &a->steps[i] : NULL,
                                 *y = k < b->step_count ? &b->steps[k] : NULL;
        if (!x || !y || x->step != y->step) {
            const bool is_b = !x || (y && y->step < x->step);
            if (alone[is_b]++ == 0)
                first[is_b] = (is_b ? y : x)->step;
            k += is_b;
            i += !is_b;
            continue;
        }
        i++, k++, common++;
        if (is_step_equal(c, x, y))
            continue;
        printf("step %" PRIu64 " differs: %016" PRIx64 " in '%s', %016" PRIx64 " in '%s'\n",
               x->step, x->hashes[0], a->path, y->hashes[0], b->path);
        show_variables(c, x, y);
        show_launches(c, x->step, false);
        return EXIT_FAILED;
    }
    if (common == 0) {
        fprintf(stderr, "copse compare-runs: '%s' and '%s' have no step in common\n", a->path,
                b->path);
        return EXIT_BAD_INPUT;
    }
    printf("%zu step%s, equal in all variables\n", common, plural_end(common));
    if (c->is_reordered)
        printf("the files list the variables in different orders: they were compared by name\n");
    for (size_t i = 0; i < a->step_count; i++)
        if (hashed_run_has(b, a->steps[i].step))
            show_launches(c, a->steps[i].step, true);
    show_lacking(a, alone[0], first[0]);
    show_lacking(b, alone[1], first[1]);
    return alone[0] + alone[1] > 0 ? EXIT_FAILED : EXIT_DONE;
}

static int compare_files(const struct hashed_run *a, const struct hashed_run *b)
{
    struct comparison c;
    int code = EXIT_BAD_INPUT;
    if (comparison_make(&c, a, b))
        code = compare_runs(&c);
    else
        fprintf(stderr, "copse compare-runs: no memory for the variables of '%s'\n", b->path);
    comparison_free(&c);
    return code;
}

int cmd_compare_runs(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct hashed_run a = { .path = NULL }, b = { .path = NULL };
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "A B", "two files that `copse train --hash` wrote" },
        { "", OPTION_NOTE, NULL, NULL,
          "Exit code 0: all steps are equal. 1: a step differs, or one file has a step that the "
          "other one\nlacks. 2: a file cannot be read, or the files have no step in common." },
        { "", OPTION_EXAMPLE, NULL, NULL, "copse compare-runs opencl.hash vulkan.hash" },
        { 0 },
    };
    int code = options_parse(argc, argv, rows,
                             "Prints the first step in which two training runs differ, the "
                             "variables that differ then,\nand the first launch that differs.");
    if (code >= 0)
        return code;
    if (words.count != 2) {
        fprintf(
            stderr,
            "copse compare-runs: which files? give two files A and B of `copse train --hash`\n");
        return EXIT_BAD_INPUT;
    }
    copse_status s = hashed_run_read(words.at[0], &a);
    if (s == COPSE_OK)
        s = hashed_run_read(words.at[1], &b);
    code = EXIT_BAD_INPUT;
    if (s == COPSE_OK)
        code = compare_files(&a, &b);
    else
        fprintf(stderr, "copse compare-runs: %s\n", session_error());
    hashed_run_free(&a);
    hashed_run_free(&b);
    return code;
}
