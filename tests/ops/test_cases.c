/* SPDX-License-Identifier: MIT */
/* The tables of conformance cases themselves: every public op is in them, names are unique, every
   row can be built, no limit is wider than its class, and what must be refused is. Nothing runs on
   a device here. */
#include <stdio.h>
#include <stdlib.h>

#include "core/graph/variant.h"
#include "prover/cases/tables.h"
#include "prover/conformance/rig/case_rig.h"
#include "tests/rig/conformance/op_harness.h"

typedef void visit(const struct copse_case *c);

static void every_case(visit *look)
{
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->count; i++)
            look(&copse_case_tables[t]->cases[i]);
}

/* ---- the public ops ---- */

static bool has_quick_case(const char *op)
{
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->count; i++) {
            const struct copse_case *c = &copse_case_tables[t]->cases[i];
            if (c->tier == COPSE_TIER_QUICK && strcmp(c->op, op) == 0)
                return true;
        }
    return false;
}

static const struct copse_case_op *find_op(const char *name)
{
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->op_count; i++)
            if (strcmp(copse_case_tables[t]->ops[i].name, name) == 0)
                return &copse_case_tables[t]->ops[i];
    fail_msg("the op %s is in no table's `ops`", name);
    return NULL;
}

static void check_public(const char *path, const char *op)
{
    if (!has_quick_case(op))
        fail_msg("%s: the op %s has no quick case", path, op);
    if (!find_op(op)->call)
        fail_msg("%s: the op %s has no legal call in its table", path, op);
}

/* Every function of a header that adds nodes to a graph. */
static size_t check_results(const char *path, const char *start)
{
    enum { ROOM = 1 << 16 };
    char *text = calloc(ROOM, 1);
    FILE *f = fopen(path, "rb");
    size_t found = 0;
    if (!f || !text || fread(text, 1, ROOM - 1, f) == 0)
        fail_msg("cannot read %s from the top of the sources", path);
    fclose(f);
    for (const char *p = text; (p = strstr(p, start)) != NULL;) {
        p += strlen(start);
        p += strspn(p, " \n");
        const size_t length = strcspn(p, "(");
        if (strncmp(p, "copse_", 6) != 0) /* an operand */
            continue;
        const char *first = p + length + 1 + strspn(p + length + 1, " \n");
        if (strncmp(first, "copse_graph *g", 14) != 0)
            fail_msg("%s: %.*s is not an op", path, (int)length, p);
        char op[64];
        snprintf(op, sizeof op, "%.*s", (int)length - 6, p + 6);
        check_public(path, op);
        found++;
    }
    free(text);
    return found;
}

static size_t check_header(const char *path)
{
    return check_results(path, "copse_tensor *") + check_results(path, "COPSE_API void ");
}

static void every_public_op_has_a_quick_case(void **state)
{
    (void)state;
    assert_true(check_header("include/copse/ops.h") >= 24);
    assert_true(check_header("include/copse/matmul.h") >= 2);
    assert_true(check_header("include/copse/ops/logic.h") >= 7);
    assert_true(check_header("include/copse/ops/losses.h") >= 7);
    assert_true(check_header("include/copse/ops/resize.h") >= 3);
    assert_true(check_header("include/copse/ops/scan.h") >= 2);
    assert_true(check_header("include/copse/ops/recurrent.h") >= 3);
    static const char *const elementwise[] = {
#define UNARY(op, ...) #op,
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
#define BINARY(op, ...)  #op,
#define COMPARE(op, ...) #op,
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
    };
    for (size_t i = 0; i < COPSE_COUNT(elementwise); i++)
        check_public("copse/elementwise.h", elementwise[i]);
}

/* ---- names ---- */

static const struct copse_case *all[8192];
static size_t count;

static void collect(const struct copse_case *c)
{
    assert_true(count < COPSE_COUNT(all));
    all[count++] = c;
}

static int by_name(const void *a, const void *b)
{
    const struct copse_case *x = *(const struct copse_case *const *)a;
    const struct copse_case *y = *(const struct copse_case *const *)b;
    const int ops = strcmp(x->op, y->op);
    return ops ? ops : strcmp(x->name, y->name);
}

static void names_are_unique(void **state)
{
    (void)state;
    every_case(collect);
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 1; i < count; i++)
        if (by_name(&all[i - 1], &all[i]) == 0)
            fail_msg("two cases of %s are called '%s'", all[i]->op, all[i]->name);
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->op_count; i++)
            assert_ptr_equal(find_op(copse_case_tables[t]->ops[i].name),
                             &copse_case_tables[t]->ops[i]);
    size_t tiers[4] = { 0 };
    for (size_t i = 0; i < count; i++) {
        tiers[all[i]->tier]++;
        assert_null(strchr(all[i]->name, '/')); /* parts names in "mode/op/name/variant" */
        assert_true(all[i]->name[0] && all[i]->name[strlen(all[i]->name) - 1] != ' ');
    }
    print_message("%zu cases: %zu quick, %zu standard, %zu full\n", count, tiers[0], tiers[1],
                  tiers[2]);
}

/* ---- rows ---- */

static void build_row(const struct copse_case *c, bool has_gradient)
{
    copse_graph *g;
    copse_tensor *in[COPSE_CASE_INPUTS], *y = NULL, *dy, *dx[COPSE_CASE_INPUTS];
    assert_true(c->in_count <= COPSE_CASE_INPUTS);
    OK(copse_graph_create(harness_context(), &g));
    for (size_t i = 0; i < c->in_count; i++) {
        const struct copse_case_input *x = &c->in[i];
        const bool has_range = x->fill == COPSE_FILL_UNIFORM || x->fill == COPSE_FILL_SPREAD;
        const bool is_right = (!has_range || x->low < x->high || x->fill == COPSE_FILL_SPREAD ||
                               copse__elements(x->shape) <= 1 || x->type == COPSE_I32) &&
                              (x->fill != COPSE_FILL_VALUES || (x->values && x->value_count > 0));
        if (!is_right && c->flops + c->bytes == 0) /* mode perf has values of its own */
            fail_msg("%s '%s': input %zu has no values", c->op, c->name, i);
        in[i] = copse_graph_input(g, "x", x->type, x->shape);
    }
    y = c->build(g, in, c->user);
    if (copse_graph_status(g) != COPSE_OK)
        fail_msg("%s '%s': %s", c->op, c->name, copse_last_error());
    if (has_gradient) {
        dy = copse_graph_input(g, "dy", COPSE_F32, y->shape);
        copse_gradients(g, y, dy, in, c->in[0].type == COPSE_F32 ? 1 : 0, dx);
        if (copse_graph_status(g) != COPSE_OK)
            fail_msg("%s '%s': %s", c->op, c->name, copse_last_error());
    }
    copse_graph_release(&g);
    if (c->family && !copse__family(c->family))
        fail_msg("%s '%s': no kernels of the family %s", c->op, c->name, c->family);
}

static void check_row(const struct copse_case *c)
{
    build_row(c, copse__case_has_gradient(c));
}

static void check_speed(const struct copse_case *c)
{
    build_row(c, false);
    if ((c->flops > 0) == (c->bytes > 0) || !find_op(c->op))
        fail_msg("%s '%s': to be timed by operations or by bytes", c->op, c->name);
}

/* A sum that a loop of 65,535 rounds would leave early. */
static void check_stress(const struct copse_case *c)
{
    uint64_t most = 0;
    build_row(c, false);
    for (size_t i = 0; i < c->in_count; i++)
        for (uint32_t k = 0; k < c->in[i].shape.rank; k++)
            most = COPSE_MAX(most, c->in[i].shape.dims[k]);
    if (most <= 65535 || !find_op(c->op))
        fail_msg("%s '%s': is not long", c->op, c->name);
}

static void every_row_can_be_built(void **state)
{
    (void)state;
    every_case(check_row);
    for (size_t t = 0; copse_case_tables[t]; t++) {
        for (size_t i = 0; i < copse_case_tables[t]->speed_count; i++)
            check_speed(&copse_case_tables[t]->speeds[i]);
        for (size_t i = 0; i < copse_case_tables[t]->stress_count; i++)
            check_stress(&copse_case_tables[t]->stress[i]);
    }
}

/* ---- limits ---- */

/* Largest limits of the classes. Derivatives: those of the function, and one rounding of the
   product with dy; where one is made of several functions, what these are allowed together. */
static const struct law {
    double ulp, ratio, of_max, gradient_ulp, gradient_ratio, gradient_of_max;
} laws[COPSE_ACCURACY_COUNT] = {
    [COPSE_ACCURACY_exact] = { .ulp = 0 },
    [COPSE_ACCURACY_sum] = { .ulp = 1, .ratio = 4 },
    [COPSE_ACCURACY_rounded] = { .ulp = 1, .gradient_ulp = 1 },
    [COPSE_ACCURACY_root] = { .ulp = 3, .gradient_ulp = 4 },
    /* rsqrt(x) / x: 2 and 2.5 for the built-ins */
    [COPSE_ACCURACY_rsqrt] = { .ulp = 3, .gradient_ulp = 6 },
    /* two divisions */
    [COPSE_ACCURACY_quotient] = { .ulp = 3, .gradient_ulp = 7, .gradient_ratio = 8 },
    [COPSE_ACCURACY_division] = { .ulp = 3, .gradient_ulp = 3 },
    [COPSE_ACCURACY_exponential] = { .ulp = 3, .gradient_ulp = 4 },
    [COPSE_ACCURACY_logarithm] = { .ulp = 3, .gradient_ulp = 3 },
    [COPSE_ACCURACY_sigmoid] = { .ulp = 5, .gradient_ulp = 6 },
    [COPSE_ACCURACY_erf] = { .ulp = 16, .gradient_ulp = 16 },
    [COPSE_ACCURACY_maximum] = { .gradient_ulp = 3 },
    [COPSE_ACCURACY_mean] = { .ulp = 3, .ratio = 4, .gradient_ulp = 6 },
    [COPSE_ACCURACY_product] = { .ratio = 16, .gradient_ratio = 16 },
    [COPSE_ACCURACY_dense] = { .ulp = 16,
                               .of_max = 1e-6,
                               .gradient_ulp = 4,
                               .gradient_of_max = 1e-6 },
    [COPSE_ACCURACY_softmax] = { .ulp = 208, .gradient_ulp = 16, .gradient_of_max = 4.8e-7 },
    [COPSE_ACCURACY_cross_entropy] = { .ulp = 8, .gradient_ulp = 111 },
    [COPSE_ACCURACY_loss] = { .ulp = 16, .ratio = 16, .gradient_ulp = 16, .gradient_of_max = 1e-6 },
    [COPSE_ACCURACY_squared_error] = { .ulp = 8, .gradient_ulp = 5, .gradient_of_max = 4.8e-7 },
    [COPSE_ACCURACY_norm] = { .ratio = 16, .gradient_ratio = 16 },
    [COPSE_ACCURACY_attention] = { .ratio = 16, .gradient_ratio = 16 },
    [COPSE_ACCURACY_rotary] = { .ulp = 1, .ratio = 4, .gradient_ulp = 1, .gradient_ratio = 4 },
    [COPSE_ACCURACY_gated] = { .ulp = 17, .gradient_ulp = 18 },
    [COPSE_ACCURACY_recurrent] = { .of_max = 2e-6, .gradient_of_max = 4e-6 },
    [COPSE_ACCURACY_gather] = { .gradient_ratio = 4 },
    [COPSE_ACCURACY_scan] = { .ulp = 1, .ratio = 8, .gradient_ulp = 1, .gradient_ratio = 8 },
    [COPSE_ACCURACY_pool] = { .ulp = 3, .ratio = 4, .gradient_ulp = 6, .gradient_ratio = 4 },
    [COPSE_ACCURACY_resize] = { .ulp = 3, .ratio = 8, .gradient_ulp = 6, .gradient_ratio = 8 },
};

/* Sums and products of whole numbers: any order is exact. */
static bool must_be_exact(const struct copse_case *c)
{
    bool is_whole = c->in_count > 0 && !find_op(c->op)->divides;
    for (size_t i = 0; i < c->in_count; i++)
        is_whole = is_whole && c->in[i].fill == COPSE_FILL_INTEGERS && c->in[i].type == COPSE_F32;
    return is_whole;
}

static void check_limit(const struct copse_case *c)
{
    const enum copse_accuracy accuracy = find_op(c->op)->accuracy;
    const struct law *l = &laws[accuracy];
    const struct copse_case_limit *f = &c->forward, *b = &c->backward;
    bool is_lawful = f->ulp <= l->ulp && f->ratio <= l->ratio && f->of_max <= l->of_max &&
                     b->ulp <= l->gradient_ulp && b->ratio <= l->gradient_ratio &&
                     b->of_max <= l->gradient_of_max && f->floor == 0 && b->floor <= 0.25;
    if (must_be_exact(c))
        is_lawful =
            is_lawful && f->ulp + f->ratio + f->of_max == 0 && b->ulp + b->ratio + b->of_max == 0;
    if (accuracy == COPSE_ACCURACY_softmax && c->in[0].fill == COPSE_FILL_UNIFORM)
        is_lawful = is_lawful && f->ulp <= 8 + c->in[0].high - c->in[0].low;
    if (!is_lawful)
        fail_msg("%s '%s': limits %g ULP, R %g, %g of the largest; derivative %g, %g, %g", c->op,
                 c->name, f->ulp, f->ratio, f->of_max, b->ulp, b->ratio, b->of_max);
}

static void limits_are_those_of_the_classes(void **state)
{
    (void)state;
    every_case(check_limit);
    for (size_t t = 0; copse_case_tables[t]; t++)
        for (size_t i = 0; i < copse_case_tables[t]->stress_count; i++)
            check_limit(&copse_case_tables[t]->stress[i]);
}

/* ---- what is refused ---- */

static size_t refused;

static void judge(struct copse_refusals *r, const char *call, copse_status got,
                  copse_status expected, const char *says, const copse_tensor *y)
{
    (void)r;
    refused++;
    if (got != expected || !strstr(copse_last_error(), says))
        fail_msg("%s: %s '%s', expected %s about '%s'", call, copse_status_name(got),
                 got ? copse_last_error() : "", copse_status_name(expected), says);
    if (!copse__is_failed(y))
        fail_msg("%s: the result is no failed tensor", call);
}

static void refusals_have_their_code_and_text(void **state)
{
    (void)state;
    for (size_t t = 0; copse_case_tables[t]; t++) {
        struct copse_refusals r = { .judge = judge };
        copse_graph *other;
        if (!copse_case_tables[t]->refusals)
            continue;
        OK(copse_graph_create(harness_context(), &r.graph));
        OK(copse_graph_create(harness_context(), &other));
        r.other = copse_graph_input(other, "x", COPSE_F32, COPSE_SHAPE(2, 2));
        copse_case_tables[t]->refusals(&r);
        OK(r.status);
        copse_graph_release(&r.graph);
        copse_graph_release(&other);
    }
    assert_true(refused >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_public_op_has_a_quick_case),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(every_row_can_be_built),
        cmocka_unit_test(limits_are_those_of_the_classes),
        cmocka_unit_test(refusals_have_their_code_and_text),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
