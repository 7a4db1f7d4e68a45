/* SPDX-License-Identifier: MIT */
/* Every op, forward and backward, on every device found, against the double reference, with the
   tolerance of its class; every reference gradient against central differences. */
#include "core/ops/ops.h"
#include "tests/op_harness.h"

#define F32(lo, hi, ...)                                                                           \
    { .type = COPSE_F32, .shape = COPSE_SHAPE(__VA_ARGS__), .low = lo, .high = hi }
#define I32(lo, hi, ...)                                                                           \
    { .type = COPSE_I32, .shape = COPSE_SHAPE(__VA_ARGS__), .low = lo, .high = hi }

/* ---- functions of one tensor, from the rows of unary.def ---- */

#define UNARY(op, number, ...)                                                                     \
    static copse_status build_##op(copse_graph *g, copse_tensor *const *in, const void *user,      \
                                   copse_tensor **y)                                               \
    {                                                                                              \
        (void)user;                                                                                \
        return copse_##op(g, in[0], y);                                                            \
    }
#define SCALED(...)
#include "kernels/unary.def"
#undef UNARY
#undef SCALED

static void unary_functions(void **state)
{
    (void)state;
    const struct row {
        const char *name;
        copse_status (*build)(copse_graph *g, copse_tensor *const *in, const void *user,
                              copse_tensor **y);
        double low, high, ulp, ulp_g;
    } rows[] = {
#define UNARY(op, number, f, g, r, rg, low, high, ulp, ulp_g)                                      \
    { #op, build_##op, low, high, ulp, ulp_g },
#define SCALED(...)
#include "kernels/unary.def"
#undef UNARY
#undef SCALED
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        const struct harness_case c = {
            .name = r->name, .build = r->build,
            .in = { F32(r->low, r->high, 5, 1001) }, .in_count = 1,
            .forward = { .ulp = r->ulp },
            .backward = { .ulp = r->ulp_g ? r->ulp_g + 1 : 0, .floor = 0.25 },
        };
        harness_run(&c);
        const struct harness_case empty = {
            .name = r->name, .build = r->build, .in = { F32(r->low, r->high, 3, 0) },
            .in_count = 1,
        };
        harness_run(&empty);
        const struct harness_case near_zero = {
            .name = r->name, .build = r->build,
            .in = { F32(r->low < 0 ? -0.01 : 0.001, 0.01, 1) }, .in_count = 1,
            .forward = { .ulp = r->ulp }, .backward = { .ulp = r->ulp_g ? r->ulp_g + 1 : 0 },
            .skips_differences = true, /* steps of 1e-5 are too long so near to a pole */
        };
        harness_run(&near_zero);
    }
}

struct setting {
    const char *name;
    copse_status (*one)(copse_graph *g, copse_tensor *x, float alpha, copse_tensor **y);
    float alpha, beta;
    double low, high, ulp, ulp_g;
};

static copse_status build_setting(copse_graph *g, copse_tensor *const *in, const void *user,
                                  copse_tensor **y)
{
    const struct setting *s = user;
    return s->one ? s->one(g, in[0], s->alpha, y) : copse_clip(g, in[0], s->alpha, s->beta, y);
}

static void functions_with_settings(void **state)
{
    (void)state;
    static const struct setting rows[] = {
        { "leaky_relu", copse_leaky_relu, 0.1f, 0, -4, 4, 1, 2 },
        { "elu", copse_elu, 1.0f, 0, -20, 4, 4, 6 },
        { "elu 0.5", copse_elu, 0.5f, 0, -0.2, 0.2, 4, 6 },
        { "pow 2", copse_pow, 2.0f, 0, -30, 30, 16, 16 },
        { "pow 3", copse_pow, 3.0f, 0, -30, 30, 16, 16 },
        { "pow 0.5", copse_pow, 0.5f, 0, 0.01, 30, 16, 16 },
        { "pow -1.5", copse_pow, -1.5f, 0, 0.5, 30, 16, 16 },
        { "pow 20.7", copse_pow, 20.7f, 0, 0.5, 2, 16, 16 },
        { "pow 1e-9", copse_pow, 1e-9f, 0, 0.5, 30, 16, 16 },
        { "pow 0", copse_pow, 0.0f, 0, -30, 30, 0, 0 },
        { "pow 1", copse_pow, 1.0f, 0, -30, 30, 16, 16 },
        { "multiply_by", copse_multiply_by, 0.3f, 0, -4, 4, 1, 2 },
        { "clip", NULL, -0.5003f, 1.5003f, -4, 4, 0, 0 },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct harness_case c = {
            .name = rows[i].name, .build = build_setting, .user = &rows[i],
            .in = { F32(rows[i].low, rows[i].high, 7, 300) }, .in_count = 1,
            .forward = { .ulp = rows[i].ulp }, .backward = { .ulp = rows[i].ulp_g },
        };
        harness_run(&c);
    }
}

/* ---- functions of two tensors, from the rows of binary.def ---- */

struct pair {
    copse_status (*build)(copse_graph *g, copse_tensor *a, copse_tensor *b, copse_tensor **y);
    const char *name;
    double ulp, ulp_g;
    bool is_compare;
};

static copse_status build_pair(copse_graph *g, copse_tensor *const *in, const void *user,
                               copse_tensor **y)
{
    return ((const struct pair *)user)->build(g, in[0], in[1], y);
}

static const struct pair pairs[] = {
#define BINARY(op, number, f, da, db, r, ra, rb, ulp, ulp_g) { copse_##op, #op, ulp, ulp_g, false },
#define COMPARE(op, number, f) { copse_##op, #op, 0, 0, true },
#include "kernels/binary.def"
#undef BINARY
#undef COMPARE
};

static void two_operands_broadcast(void **state)
{
    (void)state;
    static const struct {
        copse_shape a, b;
    } shapes[] = {
        { { 2, { 3, 301 } }, { 2, { 3, 301 } } },
        { { 2, { 7, 33 } }, { 0, { 0 } } },
        { { 0, { 0 } }, { 2, { 7, 33 } } },
        { { 0, { 0 } }, { 0, { 0 } } },
        { { 2, { 5, 70 } }, { 1, { 70 } } },
        { { 2, { 5, 70 } }, { 2, { 5, 1 } } },
        { { 2, { 5, 1 } }, { 2, { 1, 70 } } },
        { { 4, { 2, 3, 4, 5 } }, { 4, { 2, 1, 4, 1 } } },
        { { 4, { 2, 1, 4, 1 } }, { 3, { 3, 1, 5 } } },
        { { 6, { 2, 1, 2, 1, 2, 1 } }, { 6, { 1, 3, 1, 2, 1, 3 } } },
        { { 3, { 2, 0, 3 } }, { 1, { 3 } } },
        { { 3, { 2, 1, 3 } }, { 3, { 1, 0, 1 } } },
    };
    for (size_t p = 0; p < COPSE_COUNT(pairs); p++)
        for (size_t s = 0; s < COPSE_COUNT(shapes); s++) {
            const bool is_div = strcmp(pairs[p].name, "div") == 0;
            if (!is_div && s % COPSE_COUNT(pairs) != p) /* every shape with div and another one */
                continue;
            const struct harness_case c = {
                .name = pairs[p].name, .build = build_pair, .user = &pairs[p],
                .in = { { COPSE_F32, shapes[s].a, -4, 4, NULL, false },
                        { COPSE_F32, shapes[s].b, is_div ? 0.5 : -4, 4, NULL, false } },
                .in_count = 2,
                .forward = { .ulp = pairs[p].ulp },
                .backward = { .ulp = 8, .floor = 1, .of_max = 1e-6 },
                .has_no_gradient = pairs[p].is_compare,
                .seed = s + 1,
            };
            harness_run(&c);
        }
}

/* Without broadcasting nothing is summed, so the derivatives have the row's own tolerance. */
static void two_operands_of_one_shape(void **state)
{
    (void)state;
    for (size_t p = 0; p < COPSE_COUNT(pairs); p++) {
        const bool is_div = strcmp(pairs[p].name, "div") == 0;
        const struct harness_case c = {
            .name = pairs[p].name, .build = build_pair, .user = &pairs[p],
            .in = { F32(-4, 4, 1500), F32(is_div ? 0.5 : -4, 4, 1500) }, .in_count = 2,
            .forward = { .ulp = pairs[p].ulp }, .backward = { .ulp = pairs[p].ulp_g },
            .has_no_gradient = pairs[p].is_compare,
        };
        harness_run(&c);
    }
}

static void comparisons_of_integers(void **state)
{
    (void)state;
    static const double a[] = { 2147483647, 2147483646, -2147483648.0, 16777217, 5, 0 };
    static const double b[] = { 2147483647, 2147483647, -2147483648.0, 16777216, 6, 0 };
    for (size_t p = 0; p < COPSE_COUNT(pairs); p++) {
        if (!pairs[p].is_compare)
            continue;
        const struct harness_case exact = {
            .name = pairs[p].name, .build = build_pair, .user = &pairs[p],
            .in = { { COPSE_I32, { 1, { 6 } }, 0, 0, a, true },
                    { COPSE_I32, { 1, { 6 } }, 0, 0, b, true } },
            .in_count = 2,
        };
        harness_run(&exact);
        const struct harness_case wide = {
            .name = pairs[p].name, .build = build_pair, .user = &pairs[p],
            .in = { I32(0, 4, 9, 40), I32(0, 4, 9, 1) }, .in_count = 2,
        };
        harness_run(&wide);
    }
}

/* ---- reductions ---- */

struct axes {
    copse_status (*build)(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t count,
                          bool keep_dims, copse_tensor **y);
    const char *name;
    bool keep;
    copse_shape x;
    size_t count;
    uint32_t axes[4];
};

static copse_status build_reduction(copse_graph *g, copse_tensor *const *in, const void *user,
                                    copse_tensor **y)
{
    const struct axes *a = user;
    return a->build(g, in[0], a->axes, a->count, a->keep, y);
}

static void reductions(void **state)
{
    (void)state;
    static const struct axes shapes[] = {
        { .x = { 0, { 0 } }, .count = 0 },
        { .x = { 1, { 1 } }, .count = 1, .axes = { 0 } },
        { .x = { 1, { 64 } }, .count = 0 },
        { .x = { 1, { 65 } }, .count = 0, .keep = true },
        { .x = { 1, { 5000 } }, .count = 1, .axes = { 0 } },
        { .x = { 1, { 270000 } }, .count = 0 },
        { .x = { 2, { 3, 1000 } }, .count = 1, .axes = { 1 } },
        { .x = { 2, { 1000, 7 } }, .count = 1, .axes = { 0 } },
        { .x = { 2, { 1000, 7 } }, .count = 1, .axes = { 0 }, .keep = true },
        { .x = { 3, { 4, 129, 5 } }, .count = 1, .axes = { 1 } },
        { .x = { 4, { 3, 4, 5, 6 } }, .count = 2, .axes = { 0, 2 } },
        { .x = { 4, { 3, 4, 5, 6 } }, .count = 2, .axes = { 3, 1 }, .keep = true },
        { .x = { 4, { 3, 4, 5, 6 } }, .count = 3, .axes = { 2, 0, 1 } },
        { .x = { 3, { 1, 1, 1 } }, .count = 2, .axes = { 0, 1 } },
        { .x = { 2, { 0, 4 } }, .count = 1, .axes = { 0 } },
        { .x = { 2, { 4, 0 } }, .count = 1, .axes = { 0 } },
        { .x = { 2, { 0, 0 } }, .count = 0 },
    };
    static const struct {
        const char *name;
        copse_status (*build)(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t count,
                              bool keep_dims, copse_tensor **y);
        double ratio;
    } kinds[] = { { "sum", copse_sum, 4 }, { "mean", copse_mean, 4 }, { "max", copse_max, 0 } };
    for (size_t k = 0; k < COPSE_COUNT(kinds); k++)
        for (size_t s = 0; s < COPSE_COUNT(shapes); s++)
            for (int positive = 0; positive < 2; positive++) {
                struct axes a = shapes[s];
                a.build = kinds[k].build;
                const struct harness_case c = {
                    .name = kinds[k].name, .build = build_reduction, .user = &a,
                    .in = { { COPSE_F32, a.x, positive ? 0 : -1, 1, NULL, false } },
                    .in_count = 1,
                    .forward = { .ratio = kinds[k].ratio },
                    .backward = { .ulp = 4 },
                    .seed = 10 * s + 1,
                };
                harness_run(&c);
            }
}

/* Sums of small integers are exact in any order: every index error shows. */
static void sums_of_integers_are_exact(void **state)
{
    (void)state;
    static double values[60 * 70 * 3];
    const struct axes all = { .build = copse_sum, .count = 2, .axes = { 0, 2 } };
    for (size_t i = 0; i < COPSE_COUNT(values); i++)
        values[i] = (double)(i * 7919 % 101) - 50;
    const struct harness_case c = {
        .name = "sum of integers", .build = build_reduction, .user = &all,
        .in = { { COPSE_F32, { 3, { 60, 70, 3 } }, 0, 0, values, false } }, .in_count = 1,
        .skips_differences = true,
    };
    harness_run(&c);
}

static copse_status build_argmax(copse_graph *g, copse_tensor *const *in, const void *user,
                                 copse_tensor **y)
{
    return copse_argmax(g, in[0], *(const uint32_t *)user, y);
}

static void argmax(void **state)
{
    (void)state;
    static double plateau[3 * 200];
    static const uint32_t axis[] = { 0, 1, 2 };
    static const copse_shape shapes[] = { { 3, { 1, 1, 1 } }, { 3, { 5, 10, 3 } },
                                          { 3, { 130, 65, 4200 / 130 } } };
    for (size_t s = 0; s < COPSE_COUNT(shapes); s++)
        for (size_t a = 0; a < 3; a++) {
            const struct harness_case c = {
                .name = "argmax", .build = build_argmax, .user = &axis[a],
                .in = { { COPSE_F32, shapes[s], -3, 3, NULL, false } }, .in_count = 1,
                .has_no_gradient = true,
            };
            harness_run(&c);
        }
    for (size_t i = 0; i < COPSE_COUNT(plateau); i++)
        plateau[i] = i % 200 >= 70 && i % 3 == 0 ? 5 : -1; /* the lowest index wins */
    const struct harness_case ties = {
        .name = "argmax of equal ones", .build = build_argmax, .user = &axis[1],
        .in = { { COPSE_F32, { 2, { 3, 200 } }, 0, 0, plateau, false } }, .in_count = 1,
        .has_no_gradient = true,
    };
    harness_run(&ties);
}

/* ---- dropout, step scalars, others ---- */

static copse_status build_mse(copse_graph *g, copse_tensor *const *in, const void *user,
                              copse_tensor **y)
{
    (void)user;
    return copse_mean_squared_error(g, in[0], in[1], y);
}

static void mean_squared_error(void **state)
{
    (void)state;
    const struct harness_case c = {
        .name = "mean_squared_error", .build = build_mse,
        .in = { F32(-2, 2, 13, 17), F32(-2, 2, 13, 17) }, .in_count = 2,
        .forward = { .ulp = 8 }, .backward = { .ulp = 8 },
    };
    harness_run(&c);
    const struct harness_case row = {
        .name = "mean_squared_error", .build = build_mse,
        .in = { F32(-2, 2, 13, 17), F32(-2, 2, 17) }, .in_count = 2,
        .forward = { .ulp = 8 }, .backward = { .ulp = 8, .of_max = 1e-6 },
    };
    harness_run(&row);
}

static copse_status build_dropout(copse_graph *g, copse_tensor *const *in, const void *user,
                                  copse_tensor **y)
{
    (void)user;
    return copse_dropout(g, in[0], 0.3f, true, y);
}

static void dropout_is_the_same_everywhere(void **state)
{
    (void)state;
    uint32_t step[COPSE_STEP_WORDS] = { 0 };
    for (uint32_t k = 0; k < 4; k++) {
        step[COPSE_STEP_NUMBER] = 1 + k;
        step[COPSE_STEP_SEED_LO] = 0x12345678u * k;
        step[COPSE_STEP_SEED_HI] = k;
        step[COPSE_STEP_FIRST_EXAMPLE] = k == 3 ? 0xfffffff0u : 100 * k; /* beyond 32 bits */
        const struct harness_case c = {
            .name = "dropout", .build = build_dropout, .in = { F32(-2, 2, 11, 97) },
            .in_count = 1, .forward = { .ulp = 1 }, .backward = { .ulp = 1 }, .step = step,
        };
        harness_run(&c);
    }
}

/* Rows 4.. of a batch draw what a batch that starts at example 4 draws. */
static void dropout_does_not_depend_on_the_split(void **state)
{
    (void)state;
    enum { ROWS = 12, SKIP = 4, COLS = 33 };
    double ones[ROWS * COLS], whole[ROWS * COLS], part[ROWS * COLS];
    uint32_t step[COPSE_STEP_WORDS] = { 3, 17, 18, 1000 };
    for (size_t i = 0; i < ROWS * COLS; i++)
        ones[i] = 1;
    for (size_t d = 0; d < harness_device_count(); d++) {
        for (int k = 0; k < 2; k++) {
            copse_graph *g;
            copse_tensor *x, *y;
            double *in = ones, *out = k ? part : whole;
            OK(copse_graph_create(harness_context(), &g));
            OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(k ? ROWS - SKIP : ROWS, COLS), &x));
            OK(copse_dropout(g, x, 0.5f, true, &y));
            step[COPSE_STEP_FIRST_EXAMPLE] = k ? 1000 + SKIP : 1000;
            harness_on_device(harness_device(d), g, &x, &in, 1, &y, 1, step, NULL, &out);
            copse_graph_release(&g);
        }
        size_t kept = 0;
        for (size_t i = 0; i < (ROWS - SKIP) * COLS; i++) {
            assert_true(part[i] == whole[i + SKIP * COLS]);
            kept += part[i] != 0;
        }
        assert_in_range(kept, (ROWS - SKIP) * COLS * 4 / 10, (ROWS - SKIP) * COLS * 6 / 10);
    }
}

static copse_status build_share(copse_graph *g, copse_tensor *const *in, const void *user,
                                copse_tensor **y)
{
    copse_tensor *t;
    (void)user;
    COPSE_TRY(copse__step_scalar(g, COPSE_STEP_SHARE, &t));
    return copse_mul(g, in[0], t, y);
}

static void step_scalar(void **state)
{
    (void)state;
    uint32_t step[COPSE_STEP_WORDS] = { 0 };
    step[COPSE_STEP_SHARE] = 0x3e800000u; /* 0.25f */
    const struct harness_case c = {
        .name = "step_scalar", .build = build_share, .in = { F32(-2, 2, 3, 5) }, .in_count = 1,
        .step = step,
    };
    harness_run(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_functions),
        cmocka_unit_test(functions_with_settings),
        cmocka_unit_test(two_operands_of_one_shape),
        cmocka_unit_test(two_operands_broadcast),
        cmocka_unit_test(comparisons_of_integers),
        cmocka_unit_test(reductions),
        cmocka_unit_test(sums_of_integers_are_exact),
        cmocka_unit_test(argmax),
        cmocka_unit_test(mean_squared_error),
        cmocka_unit_test(dropout_is_the_same_everywhere),
        cmocka_unit_test(dropout_does_not_depend_on_the_split),
        cmocka_unit_test(step_scalar),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
