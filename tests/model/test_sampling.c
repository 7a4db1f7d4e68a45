/* SPDX-License-Identifier: MIT */
/* Drawing tokens: frequencies are the softmax of the outputs; temperature, top_k and top_p at their
   edges; equal outputs; outputs that are not finite. */
#include "core/model/sampling.h"
#include "tests/rig/rig.h"

#include <math.h>

#define MOST  8
#define DRAWS 20000

/* Draw DRAWS tokens; `drawn` receives how often each was drawn. */
static void draw(const float *outputs, uint32_t count, const struct copse_generate_params *how,
                 uint32_t drawn[MOST])
{
    struct copse_candidate list[MOST];
    uint32_t token;
    memset(drawn, 0, MOST * sizeof *drawn);
    for (uint64_t i = 0; i < DRAWS; i++) {
        OK(copse__sample(outputs, count, how, i, list, &token));
        assert_true(token < count);
        drawn[token]++;
    }
}

/* The share is within five standard deviations of p. */
static void is_share(uint32_t drawn, double p)
{
    const double share = (double)drawn / DRAWS;
    if (fabs(share - p) > 5.0 * sqrt(p * (1.0 - p) / DRAWS))
        fail_msg("drawn with a share of %g, not %g", share, p);
}

static void frequencies_are_the_softmax_of_outputs_by_temperature(void **state)
{
    static const float outputs[] = { 0.0f, 2.0f, -1.0f, 1.0f, -INFINITY };
    static const float temperatures[] = { 0.5f, 1.0f, 3.0f };
    (void)state;
    for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++) {
        uint32_t drawn[MOST];
        double sum = 0.0;
        for (int i = 0; i < 4; i++)
            sum += exp((double)outputs[i] / (double)temperatures[t]);
        draw(outputs, 5,
             &(struct copse_generate_params){ .seed = 4, .temperature = temperatures[t] }, drawn);
        for (int i = 0; i < 4; i++)
            is_share(drawn[i], exp((double)outputs[i] / (double)temperatures[t]) / sum);
        assert_int_equal(drawn[4], 0);
    }
}

static void temperature_0_takes_the_first_of_the_largest(void **state)
{
    static const float outputs[] = { -3.0f, 1.0f, 5.0f, 5.0f };
    struct copse_candidate list[MOST];
    uint32_t token;
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        OK(copse__sample(outputs, 4,
                         &(struct copse_generate_params){ .seed = i, .top_k = 4, .top_p = 0.1f }, i,
                         list, &token));
        assert_int_equal(token, 2);
    }
    /* a temperature so small that only the largest outputs have a weight */
    uint32_t drawn[MOST];
    draw(outputs, 4, &(struct copse_generate_params){ .temperature = 1e-30f }, drawn);
    is_share(drawn[2], 0.5);
    assert_int_equal(drawn[2] + drawn[3], DRAWS);
}

/* Bits of the tokens that are drawn. */
static unsigned drawn_from(const float *outputs, uint32_t count, uint32_t top_k, float top_p)
{
    uint32_t drawn[MOST];
    unsigned set = 0;
    draw(outputs, count,
         &(struct copse_generate_params){
             .seed = 9, .temperature = 1.0f, .top_k = top_k, .top_p = top_p },
         drawn);
    for (uint32_t i = 0; i < count; i++)
        set |= (drawn[i] > 0) << i;
    return set;
}

static void top_k_keeps_the_k_largest_and_of_equal_ones_the_first(void **state)
{
    static const float outputs[] = { 1.0f, 2.0f, 1.0f, 3.0f, 1.0f };
    static const float flat[] = { 7.0f, 7.0f, 7.0f, 7.0f };
    (void)state;
    assert_int_equal(drawn_from(outputs, 5, 1, 0.0f), 0x08);
    assert_int_equal(drawn_from(outputs, 5, 2, 0.0f), 0x0a);
    assert_int_equal(drawn_from(outputs, 5, 3, 0.0f), 0x0b);
    assert_int_equal(drawn_from(outputs, 5, 4, 0.0f), 0x0f);
    assert_int_equal(drawn_from(outputs, 5, 0, 0.0f), 0x1f);
    assert_int_equal(drawn_from(outputs, 5, 100, 0.0f), 0x1f);
    assert_int_equal(drawn_from(flat, 4, 2, 0.0f), 0x03);
}

/* Four equal outputs: each has a probability of exactly 1/4. */
static void top_p_keeps_the_fewest_tokens_that_reach_it(void **state)
{
    static const float flat[] = { 7.0f, 7.0f, 7.0f, 7.0f };
    static const float steps[] = { 0.0f, 3.0f, 1.0f }; /* 0.042, 0.844, 0.114 */
    (void)state;
    assert_int_equal(drawn_from(flat, 4, 0, 1e-20f), 0x01);
    assert_int_equal(drawn_from(flat, 4, 0, 0.25f), 0x01);
    assert_int_equal(drawn_from(flat, 4, 0, 0.26f), 0x03);
    assert_int_equal(drawn_from(flat, 4, 0, 0.5f), 0x03);
    assert_int_equal(drawn_from(flat, 4, 0, 0.75f), 0x07);
    assert_int_equal(drawn_from(flat, 4, 0, 0.76f), 0x0f);
    assert_int_equal(drawn_from(flat, 4, 0, 1.0f), 0x0f);
    assert_int_equal(drawn_from(flat, 4, 0, 0.0f), 0x0f);
    assert_int_equal(drawn_from(steps, 3, 0, 0.8f), 0x02);
    assert_int_equal(drawn_from(steps, 3, 0, 0.9f), 0x06);
    assert_int_equal(drawn_from(steps, 3, 0, 0.97f), 0x07);
    /* of those that top_k keeps: 0.881 and 0.119 */
    assert_int_equal(drawn_from(steps, 3, 2, 0.87f), 0x02);
    assert_int_equal(drawn_from(steps, 3, 2, 0.97f), 0x06);
}

/* Kept tokens have the probabilities of a softmax among them. */
static void kept_tokens_share_the_probability(void **state)
{
    static const float outputs[] = { 0.0f, 1.0f, 0.5f, -9.0f };
    uint32_t drawn[MOST];
    (void)state;
    draw(outputs, 4, &(struct copse_generate_params){ .seed = 2, .temperature = 1.0f, .top_k = 2 },
         drawn);
    is_share(drawn[1], 1.0 / (1.0 + exp(-0.5)));
    is_share(drawn[2], 1.0 / (1.0 + exp(0.5)));
}

static void a_draw_depends_on_seed_and_number_alone(void **state)
{
    float outputs[64] = { 0.0f };
    struct copse_candidate list[64];
    uint32_t first, again, other, next, equal_seeds = 0, equal_draws = 0;
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        const struct copse_generate_params one = { .seed = 1, .temperature = 1.0f };
        const struct copse_generate_params two = { .seed = 1 + (1ull << 32), .temperature = 1.0f };
        OK(copse__sample(outputs, 64, &one, i, list, &first));
        OK(copse__sample(outputs, 64, &two, i, list, &other));
        OK(copse__sample(outputs, 64, &one, i + (1ull << 32), list, &next));
        OK(copse__sample(outputs, 64, &one, i, list, &again));
        assert_int_equal(first, again);
        equal_seeds += first == other;
        equal_draws += first == next;
    }
    assert_true(equal_seeds < 20);
    assert_true(equal_draws < 20);
}

static void outputs_that_are_not_finite_are_refused(void **state)
{
    const float nan_at_2[] = { 0.0f, 1.0f, NAN }, infinite[] = { INFINITY, 1.0f, 2.0f };
    const float none[] = { -INFINITY, -INFINITY, -INFINITY };
    struct copse_candidate list[3];
    uint32_t token;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct copse_generate_params how = { .temperature = (float)i };
        FAILS(COPSE_ERR_NONFINITE, copse__sample(nan_at_2, 3, &how, 0, list, &token),
              "output for token 2 is NaN");
        FAILS(COPSE_ERR_NONFINITE, copse__sample(infinite, 3, &how, 0, list, &token),
              "output for token 0 is infinite");
        FAILS(COPSE_ERR_NONFINITE, copse__sample(none, 3, &how, 0, list, &token),
              "all outputs of the network are -infinity");
    }
}

static void settings_out_of_range_are_refused(void **state)
{
    static const float temperatures[] = { -1.0f, NAN, INFINITY }, top_ps[] = { -0.1f, 1.1f, NAN };
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct copse_generate_params hot = { .temperature = temperatures[i] },
                                           wide = { .top_p = top_ps[i] };
        FAILS(COPSE_ERR_ARGUMENT, copse__sampling_check(&hot), "the temperature is");
        FAILS(COPSE_ERR_ARGUMENT, copse__sampling_check(&wide), "it must be a number from 0 to 1");
    }
    OK(copse__sampling_check(
        &(struct copse_generate_params){ .temperature = 2.0f, .top_p = 1.0f }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_the_softmax_of_outputs_by_temperature),
        cmocka_unit_test(temperature_0_takes_the_first_of_the_largest),
        cmocka_unit_test(top_k_keeps_the_k_largest_and_of_equal_ones_the_first),
        cmocka_unit_test(top_p_keeps_the_fewest_tokens_that_reach_it),
        cmocka_unit_test(kept_tokens_share_the_probability),
        cmocka_unit_test(a_draw_depends_on_seed_and_number_alone),
        cmocka_unit_test(outputs_that_are_not_finite_are_refused),
        cmocka_unit_test(settings_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
