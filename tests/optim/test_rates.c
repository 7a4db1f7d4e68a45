/* SPDX-License-Identifier: MIT */
/* Schedules: the rate of steps, against the formulas of copse/optim/schedule.h written out;
   composition; plateaus and their state; refused texts; training with a schedule. */
#include <math.h>

#include "copse/context.h"
#include "copse/optim/schedule.h"
#include "core/base/base.h"
#include "tests/rig/rig.h"

static copse_context *ctx;
#define PI 3.14159265358979323846

static copse_schedule *make(const char *text, float rate, uint64_t steps)
{
    copse_schedule *s;
    OK(copse_schedule_create(
        ctx, &(struct copse_schedule_params){ .text = text, .rate = rate, .steps = steps }, &s));
    return s;
}

static void expect(const char *text, uint64_t step, double want)
{
    copse_schedule *s = make(text, 0.5f, 1000);
    const float is = copse_schedule_rate(s, step);
    if (is != (float)want)
        fail_msg("%s: step %llu has rate %.9g, not %.9g", text, (unsigned long long)step,
                 (double)is, (double)(float)want);
    copse_schedule_release(&s);
}

static void factors_have_their_formulas(void **state)
{
    (void)state;
    const uint64_t steps[] = { 1, 2, 10, 300, 301, 500, 999, 1000 };
    for (size_t i = 0; i < COPSE_COUNT(steps); i++) {
        const uint64_t t = steps[i];
        const double k = (double)(t - 1), part = k / 1000;
        expect("constant", t, 0.5);
        expect("constant 0.25", t, 0.125);
        expect("warmup", t, 0.5 * (k + 1) / 1000);
        expect("warmup 0.1", t, 0.5 * (0.1 + 0.9 * (k + 1) / 1000));
        expect("linear", t, 0.5 * (1 - part));
        expect("linear 0.25 2", t, 0.5 * (0.25 + 1.75 * part));
        expect("cosine", t, 0.25 * (1 + cos(PI * part)));
        expect("cosine 0.1", t, 0.5 * (0.1 + 0.9 * (1 + cos(PI * part)) / 2));
        expect("polynomial 2", t, 0.5 * (1 - part) * (1 - part));
        expect("polynomial 0.5 0.01", t, 0.5 * (0.01 + 0.99 * sqrt(1 - part)));
        expect("exponential 0.99", t, 0.5 * pow(0.99, k));
        expect("exponential 0.5 100", t, 0.5 * pow(0.5, k / 100));
        expect("step 0.1 300", t, 0.5 * (t <= 300 ? 1 : t <= 600 ? 0.1 : t <= 900 ? 0.01 : 0.001));
        expect("inverse_sqrt 100", t,
               t <= 100 ? 0.5 * (double)t / 100 : 0.5 * sqrt(100.0 / (double)t));
        const double up = 0.04 + 0.96 * (1 - cos(PI * k / 299)) / 2, least = 1.0 / 25 / 1e4;
        expect("one_cycle", t,
               0.5 * (k <= 299 ? up : least + (1 - least) * (1 + cos(PI * (k - 299) / 700)) / 2));
    }
    expect("cosine", 2000, 0.25 * (1 + cos(PI * 0.999)));
    expect("cosine", 0, 0.5);
}

static void factors_multiply_and_phases_follow(void **state)
{
    (void)state;
    expect("step 0.1 300 * cosine * constant 2", 302, 0.05 * (1 + cos(PI * 0.301)) / 2 * 2);
    for (uint64_t t = 1; t <= 1000; t += 37) {
        const double k = (double)(t - 1);
        expect("warmup for 10%; cosine", t,
               t <= 100 ? 0.5 * (k + 1) / 100 : 0.25 * (1 + cos(PI * (k - 100) / 900)));
        expect("warmup for 50 ; constant for 250;\nlinear 1 0.5", t,
               t <= 50    ? 0.01 * (k + 1)
               : t <= 300 ? 0.5
                          : 0.5 * (1 - 0.5 * (k - 300) / 700));
        expect("constant;constant .5;constant .25", t, t <= 333 ? 0.5 : t <= 666 ? 0.25 : 0.125);
    }
    copse_schedule *s = make("warmup for 10; inverse_sqrt 4", 1.0f, 0);
    assert_true(copse_schedule_rate(s, 5) == 0.5f && copse_schedule_rate(s, 14) == 1.0f);
    assert_true(copse_schedule_rate(s, 1000010) == (float)sqrt(4e-6));
    copse_schedule_release(&s);
}

static void plateaus_wait_and_restore(void **state)
{
    char text[COPSE_SCHEDULE_STATE];
    (void)state;
    copse_schedule *s = make("plateau 0.5 2 0.1 * constant 2", 1.0f, 100),
                   *other = make("plateau 0.5 2 0.1", 1.0f, 100);
    const double losses[] = { 10, 8, 7.5, 7.3, 7.21, NAN, 5, 5, 5, 5 };
    const float rates[] = { 2, 2, 2, 1, 1, 0.5f, 0.5f, 0.5f, 0.25f, 0.25f };
    for (size_t i = 0; i < COPSE_COUNT(losses); i++) {
        OK(copse_schedule_observe(s, losses[i]));
        if (copse_schedule_rate(s, 50) != rates[i])
            fail_msg("after loss %zu the rate is %g, not %g", i, (double)copse_schedule_rate(s, 50),
                     (double)rates[i]);
    }
    copse_schedule_state(s, text);
    OK(copse_schedule_restore(other, text));
    assert_true(copse_schedule_rate(other, 50) == 0.125f);
    OK(copse_schedule_observe(other, 5));
    assert_true(copse_schedule_rate(other, 50) == 0.0625f);
    OK(copse_schedule_restore(other, ""));
    assert_true(copse_schedule_rate(other, 50) == 1.0f);
    FAILS(COPSE_ERR_FORMAT, copse_schedule_restore(other, "1 2"), "no state of this schedule");
    FAILS(COPSE_ERR_FORMAT, copse_schedule_restore(other, "1 2 3"), "no state of this schedule");
    copse_schedule_release(&other);
    other = make("cosine", 1.0f, 100);
    FAILS(COPSE_ERR_FORMAT, copse_schedule_restore(other, text), "no state of this schedule");
    OK(copse_schedule_observe(other, 1.0));
    copse_schedule_state(other, text);
    assert_string_equal(text, "");
    copse_schedule_release(&other);
    copse_schedule_release(&s);
}

static void wrong_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *word;
        uint64_t steps;
    } wrong[] = {
        { "", "expected constant, warmup", 10 },
        { "cosinus", "at \"cosinus\"", 10 },
        { "cosine;", "expected constant, warmup", 10 },
        { "cosine cosine", "expected '*'", 10 },
        { "cosine 1 2", "too many numbers", 10 },
        { "step 0.1", "expected \"step G N\"", 10 },
        { "step 0 10", "a factor > 0", 10 },
        { "step 0.5 0.5", "a number of steps >= 1", 10 },
        { "polynomial", "numbers are missing", 10 },
        { "polynomial -1", "a power > 0", 10 },
        { "plateau 1 2", "a factor between 0 and 1", 10 },
        { "plateau 0.5 2 * plateau 0.1 3", "a second plateau", 10 },
        { "constant -1", "numbers >= 0", 10 },
        { "one_cycle 2", "a part from 0 to 1", 10 },
        { "inverse_sqrt 0.5", "a number of steps >= 1", 10 },
        { "cosine for", "a number of steps, or of percent", 10 },
        { "cosine for 0", "a whole number of steps", 10 },
        { "cosine for 2.5", "a whole number of steps", 10 },
        { "cosine for 200%", "0% to 100%", 10 },
        { "warmup for 10; cosine", "nothing is left", 10 },
        { "cosine", "needs a phase with a length", 0 },
        { "warmup for 10%; constant", "no number of steps to take a part of", 0 },
        { "constant; constant", "phase 1 needs a length", 0 },
        { "constant*constant*constant*constant*constant*constant*constant*constant*constant*"
          "constant*constant*constant*"
          "constant*constant*constant*constant*constant",
          "more than 16 factors", 10 },
    };
    copse_schedule *s;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(wrong); i++) {
        const struct copse_schedule_params p = { .text = wrong[i].text,
                                                 .rate = 1,
                                                 .steps = wrong[i].steps };
        FAILS(COPSE_ERR_ARGUMENT, copse_schedule_create(ctx, &p, &s), wrong[i].word);
        assert_null(s);
    }
    FAILS(COPSE_ERR_ARGUMENT,
          copse_schedule_create(
              ctx, &(struct copse_schedule_params){ .text = "cosine", .steps = 9 }, &s),
          "the rate is 0");
    OK(copse_schedule_check("warmup for 100000; cosine"));
    FAILS(COPSE_ERR_ARGUMENT, copse_schedule_check("warm"), "at \"warm\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_have_their_formulas),
        cmocka_unit_test(factors_multiply_and_phases_follow),
        cmocka_unit_test(plateaus_wait_and_restore),
        cmocka_unit_test(wrong_texts_are_refused),
    };
    if (copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    return failed;
}
