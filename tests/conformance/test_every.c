/* SPDX-License-Identifier: MIT */
/* The exhaustive tier: its filter finds every number that is outside of the tolerance, whatever the
   function, and few others; a kernel that is wrong for one number fails. */
#include <math.h>

#include "prover/conformance/every/every.h"
#include "tests/rig/conformance/conform_rig.h"

#define COUNT (4 * COPSE_EVERY_BLOCK)

/* The expected word, and how far from it the next words are. */
static float expected(const struct copse_every *e, uint32_t bits, float slope, double *y)
{
    struct copse_params_unary p;
    float x;
    memcpy(&x, &bits, sizeof x);
    double from = (double)x, dy = (double)slope;
    memcpy(&p, e->launch->params, sizeof p);
    p.n = 1;
    const struct copse_host_arg value[] = { { &from, 1, true }, { y, 1, true } };
    const struct copse_host_arg derivative[] = { { &from, 1, true },
                                                 { &dy, 1, true },
                                                 { y, 1, true } };
    e->truth(&p, e->launch->spec, e->is_gradient ? derivative : value);
    return (float)*y;
}

static uint32_t word_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static double ulp_of(const struct copse_launch_form *f)
{
    return copse__launch_limit(f).ulp;
}

static bool is_within(const struct copse_launch_form *f, double y, uint32_t word)
{
    struct copse_comparison c;
    float got;
    memcpy(&got, &word, sizeof got);
    const double result = (double)got;
    if (isnan(y) && isnan(result))
        return true;
    copse__compare(&(struct copse_case_limit){ .ulp = ulp_of(f) }, &y, NULL, &result, 1, false, &c);
    return c.is_within && (ulp_of(f) > 0 || word == word_of((float)(y + 0.0)));
}

/* Steps of the word; past infinity it is NaN. */
static uint32_t moved(uint32_t word, uint32_t by, bool is_up)
{
    const uint32_t size = word & 0x7fffffffu;
    return (word & 0x80000000u) | (is_up ? size + by : size > by ? size - by : size + by);
}

/* Words of a device that rounds correctly. Some of them are then made wrong, by up to 40 steps. */
static void scan(const struct copse_launch_form *f, const struct copse_launch *l, uint32_t first)
{
    static uint32_t got[COUNT], found[COUNT];
    static float slopes[COUNT];
    static bool is_found[COUNT];
    const bool is_gradient = f->kernel == COPSE_KERNEL_unary_grad;
    const struct copse_every e = { l, copse_kernel_table[f->kernel].law->host, is_gradient, false,
                                   ulp_of(f) };
    struct copse_every_part p = { .every = &e,
                                  .first = first,
                                  .count = COUNT,
                                  .slope = is_gradient ? slopes : NULL,
                                  .got = got,
                                  .found = found };
    size_t extra = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        double y;
        slopes[i] = (i * 2654435761u >> 9 & 1u ? -0.5f : 0.5f) * (1.0f + (float)(i % 300) * 0.01f);
        got[i] = word_of(expected(&e, first + i, slopes[i], &y));
        if (i % 37 == 5)
            got[i] = moved(got[i], 1 + i / 37 % 40, i % 2);
    }
    copse__every_scan(&p);
    memset(is_found, 0, sizeof is_found);
    for (size_t i = 0; i < p.found_count; i++)
        is_found[found[i]] = true;
    for (uint32_t i = 0; i < COUNT; i++) {
        double y;
        (void)expected(&e, first + i, slopes[i], &y);
        const bool is_wrong = !is_within(f, y, got[i]);
        if (is_wrong && !is_found[i])
            fail_msg("%s, %s: pattern %08x, got %08x, expected %.17g: not found",
                     copse_kernel_table[f->kernel].name, f->name, first + i, got[i], y);
        extra += is_found[i] && !is_wrong && i % 37 != 5;
    }
    const bool is_usual =
        (first & 0x7f800000u) >= 0x3e000000u && (first & 0x7f800000u) <= 0x41000000u;
    if (is_usual && extra > COUNT / 16)
        fail_msg("%s, %s: pattern %08x: %zu numbers are found without need",
                 copse_kernel_table[f->kernel].name, f->name, first, extra);
}

static void every_wrong_number_is_found(void **state)
{
    /* Zero, the largest subnormal numbers, usual numbers, kinks, multiples of pi, overflows of exp,
       large numbers, infinity. */
    static const uint32_t firsts[] = {
        0x00000000u, 0x007ff000u, 0x20000000u, 0x3e4cc000u, 0x3f7fe000u, 0x40490000u, 0x403ff000u,
        0x42b17000u, 0x43340000u, 0x4479f000u, 0x4b800000u, 0x5f000000u, 0x7f7fe000u, 0x7f800000u,
    };
    size_t forms = 0;
    (void)state;
    for (size_t i = 0; i < copse_launch_elementwise.count; i++) {
        const struct copse_launch_form *f = &copse_launch_elementwise.forms[i];
        struct copse_launch l = { .form = f, .regime = COPSE_REGIME_ONE };
        struct copse_limits limits = { .max_group_size = 256,
                                       .max_group_count = COPSE_AXIS_GROUPS };
        if (f->kernel != COPSE_KERNEL_unary && f->kernel != COPSE_KERNEL_unary_grad)
            continue;
        copse__launch_size(&l, &limits);
        for (size_t k = 0; k < 2 * COPSE_COUNT(firsts); k++)
            scan(f, &l, firsts[k / 2] | (k % 2 ? 0x80000000u : 0));
        forms++;
    }
    assert_true(forms >= 74);
}

/* ---- on a device ---- */

static void judge(const char *op, unsigned mode, double seconds)
{
    static const struct copse_case_table *const no_tables[] = { NULL };
    OK(run(
        (struct copse_conformance_params){
            .ops = op, .modes = mode, .tier = COPSE_CONFORM_EXHAUSTIVE, .seconds = seconds },
        no_tables, no_known));
}

static void numbers_that_were_not_reached_are_counted(void **state)
{
    (void)state;
    judge("square", COPSE_CONFORM_RUN, 0.5);
    expect("run/square/every number/", COPSE_VERDICT_SKIP, "of 4294967296 numbers passed");
    judge("pow", COPSE_CONFORM_GRAD, 0.5);
    expect("grad/pow/every number/", COPSE_VERDICT_SKIP, "numbers passed");
    expect("grad/pow/every number, exponent -0.5/", COPSE_VERDICT_SKIP, "not reached");
    OK(run((struct copse_conformance_params){ .modes = COPSE_CONFORM_RUN,
                                              .ops = "neg",
                                              .tier = COPSE_CONFORM_FULL },
           good_tables, no_known));
    for (size_t i = 0; i < lines.count; i++)
        assert_null(strstr(lines.at[i].id, "every number"));
}

static void a_wrong_kernel_fails(void **state)
{
    const struct copse_blocked_kernel *list;
    size_t count;
    (void)state;
    copse_fake.devices[0].perturb = "unary_grad";
    copse_fake.devices[0].perturb_bits = 1u << 4;
    judge("square", COPSE_CONFORM_GRAD, 10);
    expect("grad/square/every number/", COPSE_VERDICT_FAIL,
           "the derivative at 1 (3f800000), times ");
    OK(copse_device_blocked(ctx, "fake:0", &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].kernel, "unary_grad");
    copse_fake.devices[0].perturb = "unary";
    /* the last bit: 1 ULP is allowed, and nothing for neg */
    copse_fake.devices[0].perturb_bits = 0;
    judge("neg", COPSE_CONFORM_RUN, 10);
    expect("run/neg/every number/", COPSE_VERDICT_FAIL,
           "the result for 1 (3f800000) is outside the tolerance");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_number_is_found),
        TEST(numbers_that_were_not_reached_are_counted),
        TEST(a_wrong_kernel_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
